"""At most so many rows of each person: which rows contribute, and the table that has no others.

Of a person's rows those with the smallest keyed hash of their content are taken, so the choice depends on that
person's own rows and on a key alone (docs/proofs/persons.md). The key comes from the operating system for each release,
and is stored nowhere.

One pass collects a hash of the person and one of the row for every row, and keeps those of the rows that may still be
chosen: 32 bytes each. Where memory is short, there are several passes, each over a share of the persons: the number of
rows must not decide whether a release comes out.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import TableError
from radoboost.holder.row_counts import PersonCounts
from radoboost.tables import Batch, Partition, Table
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.person_ids import distinct_person_ids
from radoboost.tables.table import take_batch_rows

ROW_BYTES = 160  # of memory for a row at most, while rows are sorted
_MEMORY_SHARE = 0.4  # of the free memory, for that
_MOST_SHARES = 1 << 16
_PENDING_ROWS = 1 << 18  # collected before they are sorted
_SPOILED = np.uint64(1 << 63)  # after all good rows

Rows = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]


def choose_rows_of_persons(
    source: Table,
    run: Callable[[Any, Any], Any],
    rule: LabelEncoder,
    max_rows: int,
    key: bytes,
    *,
    with_label: bool = True,
    sizes: Sequence[int] | None = None,
) -> tuple[Table, PersonCounts]:
    """A source of at most `max_rows` rows of each person, and what became of the others (P2, P3).

    `run` sums a pass over a source, whose parts have `sizes`: they are counted if nobody says so. Good rows go first,
    then those with the smallest hash. `with_label` says whether the label is part of a row's content; it must not be
    where labels are what is protected.
    """
    sizes = [part.count() for part in source.parts()] if sizes is None else sizes
    total = sum(sizes)
    n_shares = max(
        1, min(_MOST_SHARES, -(-total * ROW_BYTES // max(1, int(_MEMORY_SHARE * memory.available_memory()))))
    )
    bits = np.zeros(total // 8 + 1, dtype=np.uint8)
    people, chosen, nobody = 0, 0, 0
    for share in range(n_shares):
        found: PersonRows = run(CollectRows(rule, max_rows, key, with_label, share, n_shares), source)
        if found.n_rows != total:
            raise TableError(f"{source.name} had {total:,} rows at first; do not change it while it is read")
        high, low, _, rows = found.settled()
        np.bitwise_or.at(bits, rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8))
        people, chosen, nobody = people + int(_starts_of_persons(high, low).sum()), chosen + len(rows), found.nobody
    counts = PersonCounts(people, total, nobody, total - nobody - chosen, max_rows, n_shares)
    return replace(source, pieces=sampled_partitions(source.parts(), sizes, bits), guess=None), counts


# ---- the pass


@dataclass
class PersonRows:
    """Rows that may still be chosen, of those seen so far: hashes of the person and of the row, and the row's number.

    `n_rows` counts all rows that were seen, `nobody` those without a person.
    """

    max_rows: int
    n_rows: int = 0
    nobody: int = 0
    pending: list[Rows] = field(default_factory=list)

    def take(self, rows: Rows) -> None:
        """Add rows; once there are many, drop those that cannot be chosen any more."""
        self.pending.append(rows)
        if sum(len(part[0]) for part in self.pending[1:]) > max(_PENDING_ROWS, len(self.pending[0][0])):
            self.settled()

    def settled(self) -> Rows:
        """The rows that are chosen of those seen so far, person by person."""
        if not self.pending:
            empty = np.empty(0, np.uint64)
            self.pending = [(empty, empty, empty, np.empty(0, np.int64))]
        high, low, order, row = (np.concatenate(parts) for parts in zip(*self.pending, strict=True))
        places = np.lexsort((row, order, low, high))
        starts = _starts_of_persons(high[places], low[places])
        number = np.arange(len(places))
        rank = number - np.maximum.accumulate(np.where(starts, number, 0))
        places = places[rank < self.max_rows]
        self.pending = [(high[places], low[places], order[places], row[places])]
        return self.pending[0]

    def merge(self, other: "PersonRows") -> "PersonRows":
        """Those of both; which rows are chosen does not depend on how they were shared out."""
        merged = PersonRows(
            self.max_rows, self.n_rows + other.n_rows, self.nobody + other.nobody, [*self.pending, *other.pending]
        )
        merged.settled()
        return merged


def _starts_of_persons(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Where a new person begins, among rows that are sorted by person."""
    starts = np.ones(len(high), dtype=bool)
    starts[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return starts


@dataclass(frozen=True, eq=False)
class CollectRows:
    """The rows of each person that come first, good ones before others and then by the keyed hash of their content.

    Only persons of one share are looked at, by their hash.
    """

    rule: LabelEncoder
    max_rows: int
    key: bytes = field(repr=False)
    with_label: bool
    share: int
    n_shares: int

    title = "choosing rows of persons"
    rows_at_a_time = None
    worker_bytes = ROW_BYTES * _PENDING_ROWS

    def for_part(self, first_row: int, n_rows: int) -> "CollectRows":
        """The same: rows of one person may be in several parts."""
        return self

    @cached_property
    def _seeds(self) -> NDArray[np.uint64]:
        """Two numbers that stand for the key in hashes of rows."""
        return np.frombuffer(hashlib.blake2b(key=self.key, digest_size=16, person=b"rows").digest(), "<u8").astype(
            np.uint64
        )

    def empty(self) -> PersonRows:
        return PersonRows(self.max_rows)

    def add(self, sums: PersonRows, first_row: int, batch: Batch) -> None:
        """Hash the rows of a batch, and collect those whose person is of this share."""
        assert batch.persons is not None
        ids, places = distinct_person_ids(batch.persons)
        sums.n_rows += batch.n_rows
        sums.nobody += int((places < 0).sum())
        digests = [hashlib.blake2b(spelling, key=self.key, digest_size=16, person=b"ids").digest() for spelling in ids]
        persons = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, 2)
        shares = (persons[:, 0] >> np.uint64(32)) * np.uint64(self.n_shares) >> np.uint64(32)
        ours = np.append(shares == self.share, False)  # the last is for rows without a person
        rows = np.flatnonzero(ours[places])
        if len(rows) == 0:
            return
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            values, signs = batch.values()[rows], self.rule.marks_or_zero(batch.labels)[rows]
            own = persons[places[rows]]
            order = self._order(values, signs, own[:, 1])
        sums.take((own[:, 0].copy(), own[:, 1].copy(), order, first_row + rows))

    def _order(self, values: NDArray[Any], signs: NDArray[np.int8], persons: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Where each row comes among those of its person: by a hash of its content, spoiled rows last (P2).

        The person's own hash goes in first: else rows that are alike would come first with everybody, or with nobody.
        """
        good = np.isfinite(values).all(axis=1) & (signs != 0)
        start, step = self._seeds
        state = _mix_person_hash_bits((persons ^ start) + step)
        for k in range(values.shape[1]):
            column = np.where(good, values[:, k], 0.0).astype(np.float64) + 0.0  # -0.0 is 0.0
            state = _mix_person_hash_bits((state ^ column.view(np.uint64)) + step)
        if self.with_label:
            label = signs > 0 if self.rule.n_classes == 2 else np.where(good, signs, 0)
            state = _mix_person_hash_bits((state ^ label.astype(np.uint64)) + step)
        return np.where(good, state >> np.uint64(1), _SPOILED)


def _mix_person_hash_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words whose bits all depend on all bits of the old ones, one to one: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


# ---- the table that is left


@dataclass(frozen=True, eq=False)
class SampledPartition:
    """The rows of a part whose bit is set, in their order, with weights beside them if they are `weighted`.

    It can be pickled if the part can.
    """

    part: Partition
    bits: NDArray[np.uint8] = field(repr=False)
    n_rows: int
    weighted: bool = False

    def count(self) -> int:
        return self.n_rows

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """The chosen rows of each batch of the part; batches that have none are left out."""
        first = 0
        for batch in self.part.batches(most_rows):
            places = first + np.arange(batch.n_rows)
            if first + batch.n_rows > 8 * len(self.bits):
                raise TableError("the table got more rows while it was read; try again once it is at rest")
            places = np.flatnonzero(self.bits[places >> 3] >> (places & 7) & 1)
            first += batch.n_rows
            if len(places):
                rows = take_batch_rows(batch, places)
                if self.weighted and batch.persons is not None:
                    rows = rows._replace(persons=batch.persons.take(pa.array(places)))
                yield rows


def sampled_partitions(
    parts: Sequence[Partition], sizes: Sequence[int], bits: NDArray[np.uint8], *, weighted: bool = False
) -> list[SampledPartition]:
    """The parts with the bits of their own rows."""
    chosen, first = [], 0
    for part, size in zip(parts, sizes, strict=True):
        rows = first + np.arange(size)
        own = bits[rows >> 3] >> (rows & 7) & 1
        packed = np.append(np.packbits(own, bitorder="little"), np.uint8(0))
        chosen.append(SampledPartition(part, packed, int(own.sum()), weighted))
        first += size
    return chosen
