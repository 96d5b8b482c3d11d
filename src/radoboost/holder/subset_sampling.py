"""Subsets of prescribed sizes, from a keystream, without rejection.

They start as independent bits at about the right rate; then uniformly chosen rows are switched until the size is exact.
Both steps treat all rows alike, so every subset of that size is equally likely. Only the switches are kept: about
sqrt(m) a rado if the rate is near.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.holder import keystream
from radoboost.holder.keystream import TILE_ROWS, Key
from radoboost.jit import jit

_SWITCHES_PLANE = 2**32 - 1
_BLOCK_BYTES = 1 << 21  # keystream made at a time
_DRAWN_WORDS = 1 << 17  # candidates that one job draws
_LEAST_BUDGET = 1 << 22  # candidates of a round


@dataclass(frozen=True)
class FairCoins:
    """Independent bits at a rate of 1, 2 or 3 quarters."""

    key: bytes = field(repr=False)
    n_rados: int
    quarters: int

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Plane 0; with plane 1, both or either."""
        keystream.keystream_words(self.key, self.n_rados, first_tile, n_tiles, out=out)
        if self.quarters != 2:
            second = keystream.keystream_words(self.key, self.n_rados, first_tile, n_tiles, plane=1)
            (np.bitwise_and if self.quarters == 1 else np.bitwise_or)(out, second, out=out)
        return out

    def for_part(self, first_row: int, n_rows: int) -> "FairCoins":
        """Coins for a part that is summed elsewhere: of its own key, unless there is a seed."""
        return replace(self, key=self.key.for_part()) if isinstance(self.key, Key) else self


@dataclass(frozen=True)
class AllRows:
    """Every example in every rado."""

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        out.fill(2**64 - 1)
        return out

    def for_part(self, first_row: int, n_rows: int) -> "AllRows":
        return self


@dataclass(frozen=True, eq=False)
class FixedSizeCoins:
    """Independent bits with some switched: `entries` are those of the buckets from `first_bucket` on.

    Where each bucket's begin is in `starts`; a bucket has 2**bucket_bits rows.
    """

    start: FairCoins
    bucket_bits: int
    first_bucket: int
    starts: NDArray[np.int64] = field(repr=False)
    entries: NDArray[np.uint32] = field(repr=False)

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        self.start.words(first_tile, n_tiles, out)
        if len(self.entries):
            first_tile -= (self.first_bucket << self.bucket_bits) // TILE_ROWS
            _subset_kernel(_switch_subset_bits)(out, first_tile, self.bucket_bits, self.starts, self.entries)
        return out

    def for_part(self, first_row: int, n_rows: int) -> "FixedSizeCoins":
        """The same bits for the rows of a part, without the switches of others."""
        first = first_row >> self.bucket_bits
        last = min((first_row + max(n_rows, 1) - 1 >> self.bucket_bits) + 1, len(self.starts) - 1)
        starts = self.starts[first : last + 1]
        own = slice(starts[0], starts[-1])
        return FixedSizeCoins(self.start, self.bucket_bits, first, starts - starts[0], self.entries[own].copy())


class CorrectedCoins:
    """Independent bits, and the switches that give each subset its size.

    `wanted_sizes` maps the sizes at the start to those that subsets should have, which are kept as `sizes`.

    Candidates are drawn in rounds: of each rado about as many as it will need, looked up in the words as they are by
    then, and taken in order. One round is nearly always enough; how candidates fall into rounds changes nothing.
    """

    def __init__(
        self,
        start: FairCoins,
        n_examples: int,
        wanted_sizes: Callable[[NDArray[np.int64]], NDArray[np.int64]],
        threads: int = 1,
    ) -> None:
        if isinstance(start.key, Key):  # one subset is drawn from all rows, whoever sums them
            start = replace(start, key=start.key.shared())
        self._start, self._m, self._threads = start, n_examples, threads
        n_rados = start.n_rados
        self._n_tiles = -(-n_examples // TILE_ROWS)
        in_block = max(1, _BLOCK_BYTES // (8 * n_rados))
        # Switches lie in buckets of 1 to 64 tiles, a power of two; blocks of keystream are whole buckets.
        tiles = 1 << min(in_block.bit_length() - 1, 6)
        self._block_tiles = in_block // tiles * tiles
        self._bucket_bits = (TILE_ROWS * tiles).bit_length() - 1
        n_buckets = -(-self._n_tiles // tiles)
        self._switches = np.zeros(n_buckets + 1, dtype=np.int64), np.empty(0, dtype=np.uint32)

        members = self._count_members()
        self.sizes = sizes = wanted_sizes(members)
        missing = np.abs(sizes - members)
        new_bits = (sizes > members).astype(np.uint8)
        wrong = np.where(new_bits, n_examples - members, members)
        memory.require_memory(
            8 * int(missing.sum()),  # twice 4 bytes while they are put in place
            "keeping subsets of these sizes",
            "ask for fewer rados, or a support nearer to 1/4, 1/2 or 3/4 of the rows",
        )
        n_drawn = np.zeros(n_rados, dtype=np.int64)
        while len(left := np.flatnonzero(missing)):
            counts = self._enough(missing[left], wrong[left])
            n_taken = self._round(left, n_drawn[left], counts, missing[left], new_bits[left])
            # So many candidates of a rado do not all fail by chance; it would be a fault in this code.
            assert n_taken.any() or counts.max() < 64, "no candidate served"
            missing[left] -= n_taken
            wrong[left] -= n_taken
            n_drawn[left] += counts

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return self._switched.words(first_tile, n_tiles, out)

    def for_part(self, first_row: int, n_rows: int) -> FixedSizeCoins:
        """The same bits for the rows of a part; the key is that of all rows, for one subset is drawn from all."""
        return self._switched.for_part(first_row, n_rows)

    @property
    def _switched(self) -> FixedSizeCoins:
        return FixedSizeCoins(self._start, self._bucket_bits, 0, *self._switches)

    def _blocks(self, use: Callable[[int, NDArray[np.uint64]], None]) -> None:
        """Show `use` the words as they are now, block by block, with the number of the first tile."""

        def one(first_tile: int) -> None:
            count = min(self._block_tiles, self._n_tiles - first_tile)
            words = np.empty((count, self._start.n_rados), dtype=np.uint64)
            use(first_tile, self.words(first_tile, count, words))

        _run_subset_jobs(one, range(0, self._n_tiles, self._block_tiles), self._threads)

    def _count_members(self) -> NDArray[np.int64]:
        count, counts = _subset_kernel(_count_subset_sizes), []

        def use(first_tile: int, words: NDArray[np.uint64]) -> None:
            if first_tile + len(words) == self._n_tiles:
                words[-1] &= np.uint64((1 << (self._m - 1) % TILE_ROWS + 1) - 1)
            part = np.zeros(words.shape[1], dtype=np.int64)
            count(words, part)
            counts.append(part)

        self._blocks(use)
        members: NDArray[np.int64] = np.sum(counts, axis=0)
        return members

    def _enough(self, missing: NDArray[np.int64], wrong: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many candidates to draw: mean and five standard deviations of what is needed, within a budget.

        A round is a pass over the keystream, so that a budget in proportion to it costs about as much time.
        """
        most, least = 1 / (wrong - missing + 0.5), 1 / (wrong + 0.5)
        need = self._m * np.log(most / least) + 5 * self._m * np.sqrt(most - least) + 16
        budget = max(_LEAST_BUDGET, self._m * self._start.n_rados // 512)
        budget = min(budget, memory.available_memory() // 64)  # a candidate takes 16 of these bytes
        if need.sum() > budget:
            need = np.minimum(need, max(16, budget // len(missing)))
        counts: NDArray[np.int64] = need.astype(np.int64)
        return counts

    def _round(
        self,
        rados: NDArray[np.int64],
        n_drawn: NDArray[np.int64],
        counts: NDArray[np.int64],
        missing: NDArray[np.int64],
        new_bits: NDArray[np.uint8],
    ) -> NDArray[np.int64]:
        """Draw, look up and switch; how many rows of each rado were switched."""
        ends = np.concatenate([[0], np.cumsum(counts)])
        rows, bits = np.empty(ends[-1], dtype=np.uint32), np.empty(ends[-1], dtype=np.uint8)
        room = np.concatenate([[0], np.cumsum(np.minimum(missing, counts))])
        choices, n_taken = np.full(room[-1], _NO_ROW, dtype=np.uint32), np.zeros(len(rados), dtype=np.int64)
        nothing = np.zeros_like(self._switches[0]), np.empty(0, dtype=np.uint32)
        to_rows, look_up, choose = (
            _subset_kernel(_words_to_candidate_rows),
            _subset_kernel(_look_up_candidate_bits),
            _subset_kernel(_choose_candidates),
        )
        _subset_kernel(_sort_into_buckets)  # before threads ask for it
        searches = []

        def draw(job: tuple[int, int]) -> None:
            part, where = slice(*job), slice(ends[job[0]], ends[job[1]])
            raw = np.empty(where.stop - where.start, dtype="<u8")
            parts = zip(rados[part].tolist(), n_drawn[part].tolist(), counts[part].tolist(), strict=True)
            keystream.keystream_parts(self._start.key, _SWITCHES_PLANE, parts, raw)
            to_rows(raw, self._m, rows[where])
            order = np.empty(len(raw), dtype=np.uint32)
            local = ends[job[0] : job[1] + 1] - where.start
            searches.append((*self._place(rows[where], local, rados[part], nothing, order), order, bits[where]))

        def use(first_tile: int, words: NDArray[np.uint64]) -> None:
            first_bucket = first_tile * TILE_ROWS >> self._bucket_bits
            for candidates in searches:
                look_up(words, first_bucket, self._bucket_bits, *candidates)

        cuts = np.unique([*np.searchsorted(ends, np.arange(0, ends[-1], _DRAWN_WORDS)), len(rados)]).tolist()
        jobs = list(itertools.pairwise(cuts))
        _run_subset_jobs(draw, jobs, self._threads)
        self._blocks(use)
        _run_subset_jobs(
            lambda job: choose(*job, rows, ends, bits, new_bits, missing, room, choices, n_taken), jobs, self._threads
        )
        self._switches = self._place(choices, room, rados, self._switches, np.empty(0, dtype=np.uint32))
        return n_taken

    def _place(
        self,
        rows: NDArray[np.uint32],
        ends: NDArray[np.int64],
        rados: NDArray[np.int64],
        before: tuple[NDArray[np.int64], NDArray[np.uint32]],
        order: NDArray[np.uint32],
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        starts = np.zeros_like(before[0])
        entries = np.empty(len(before[1]) + len(rows), dtype=np.uint32)
        _subset_kernel(_sort_into_buckets)(rows, ends, rados, self._bucket_bits, *before, starts, entries, order)
        return starts, entries[: starts[-1]]


Job = TypeVar("Job")


def _run_subset_jobs(work: Callable[[Job], None], jobs: Iterable[Job], threads: int) -> None:
    """Do all jobs, in several threads; if one fails, the rest are cancelled."""
    if threads == 1:
        for job in jobs:
            work(job)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for future in [pool.submit(work, job) for job in jobs]:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


# ---- kernels, compiled when they are first needed
# An entry is rado << 12 | row within its bucket. A word that stands for no row has row _NO_ROW.

_NO_ROW = np.uint32(2**32 - 1)
_LAST_WORD = np.uint64(2**64 - 1)
_ONE, _TWO, _FOUR, _TOP_BYTE = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _EACH_BYTE = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)

_ROWS, _INTS, _BITS, _WORDS = "uint32[::1]", "int64[::1]", "uint8[::1]", "uint64[:, ::1]"
_TYPES = {
    "_count_subset_sizes": (_WORDS, _INTS),
    "_words_to_candidate_rows": ("uint64[::1]", "uint64", _ROWS),
    "_sort_into_buckets": (_ROWS, _INTS, _INTS, "int64", _INTS, _ROWS, _INTS, _ROWS, _ROWS),
    "_look_up_candidate_bits": (_WORDS, "int64", "int64", _INTS, _ROWS, _ROWS, _BITS),
    "_choose_candidates": ("int64", "int64", _ROWS, _INTS, _BITS, _BITS, _INTS, _INTS, _ROWS, _INTS),
    "_switch_subset_bits": (_WORDS, "int64", "int64", _INTS, _ROWS),
}


@functools.cache
def _subset_kernel(function: Callable[..., None]) -> Callable[..., None]:
    return jit(function, f"void({', '.join(_TYPES[function.__name__])})")


def _count_subset_sizes(words: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Add the ones of each rado's words."""
    for t in range(words.shape[0]):
        for j in range(words.shape[1]):
            word = words[t, j]
            word -= (word >> _ONE) & _PAIRS
            word = (word & _NIBBLES) + ((word >> _TWO) & _NIBBLES)
            word = (word + (word >> _FOUR)) & _BYTES
            counts[j] += np.int64((word * _EACH_BYTE) >> _TOP_BYTE)


def _words_to_candidate_rows(raw: NDArray[np.uint64], m: np.uint64, rows: NDArray[np.uint32]) -> None:
    """Word % m, but for the last 2**64 % m words, which would favour the first rows."""
    last = _LAST_WORD - (_LAST_WORD % m + _ONE) % m
    for i in range(len(raw)):
        rows[i] = np.uint32(raw[i] % m) if raw[i] <= last else _NO_ROW


def _sort_into_buckets(
    rows: NDArray[np.uint32],
    ends: NDArray[np.int64],
    rados: NDArray[np.int64],
    bucket_bits: int,
    old_starts: NDArray[np.int64],
    old_entries: NDArray[np.uint32],
    starts: NDArray[np.int64],
    entries: NDArray[np.uint32],
    order: NDArray[np.uint32],
) -> None:
    """Sort rows by bucket, behind the old entries; `order`, unless empty, says which candidate an entry was."""
    for b in range(len(starts) - 1):
        starts[b + 1] = old_starts[b + 1] - old_starts[b]
    for i in range(len(rows)):
        if rows[i] != _NO_ROW:
            starts[(np.int64(rows[i]) >> bucket_bits) + 1] += 1
    for b in range(len(starts) - 1):
        starts[b + 1] += starts[b]
    cursor = starts[:-1].copy()
    for b in range(len(starts) - 1):
        for e in range(old_starts[b], old_starts[b + 1]):
            entries[cursor[b]] = old_entries[e]
            cursor[b] += 1
    within = (1 << bucket_bits) - 1
    for r in range(len(rados)):
        for i in range(ends[r], ends[r + 1]):
            if rows[i] != _NO_ROW:
                row = np.int64(rows[i])
                e = cursor[row >> bucket_bits]
                cursor[row >> bucket_bits] += 1
                entries[e] = np.uint32(rados[r] << 12 | row & within)
                if len(order):
                    order[e] = np.uint32(i)


def _look_up_candidate_bits(
    words: NDArray[np.uint64],
    first_bucket: int,
    bucket_bits: int,
    starts: NDArray[np.int64],
    entries: NDArray[np.uint32],
    order: NDArray[np.uint32],
    bits: NDArray[np.uint8],
) -> None:
    """The bits of all candidates in a block of whole buckets."""
    n_buckets = (words.shape[0] * 64 - 1 >> bucket_bits) + 1
    for b in range(n_buckets):
        for e in range(starts[first_bucket + b], starts[first_bucket + b + 1]):
            entry = np.int64(entries[e])
            row = (b << bucket_bits) + (entry & 4095)
            bits[order[e]] = np.uint8(words[row >> 6, entry >> 12] >> np.uint64(row & 63) & _ONE)


def _choose_candidates(
    first: int,
    last: int,
    rows: NDArray[np.uint32],
    ends: NDArray[np.int64],
    bits: NDArray[np.uint8],
    new_bits: NDArray[np.uint8],
    missing: NDArray[np.int64],
    room: NDArray[np.int64],
    choices: NDArray[np.uint32],
    n_taken: NDArray[np.int64],
) -> None:
    """Of each rado's candidates choose, in order, those that do not have the new bit yet and were not chosen before."""
    most = 0
    for r in range(first, last):
        most = max(most, room[r + 1] - room[r])
    size = 2
    while size < 2 * most:
        size *= 2
    table = np.empty(size, dtype=np.uint32)  # by hash; rows are random, so they are their own hash
    for r in range(first, last):
        size = 2
        while size < 2 * (room[r + 1] - room[r]):
            size *= 2
        table[:size] = _NO_ROW
        count = 0
        for i in range(ends[r], ends[r + 1]):
            if count == missing[r]:
                break
            row = rows[i]
            if row == _NO_ROW or bits[i] == new_bits[r]:
                continue
            slot = np.int64(row) & (size - 1)
            while table[slot] != _NO_ROW and table[slot] != row:
                slot = (slot + 1) & (size - 1)
            if table[slot] == row:
                continue
            table[slot] = row
            choices[room[r] + count] = row
            count += 1
        n_taken[r] = count


def _switch_subset_bits(
    words: NDArray[np.uint64],
    first_tile: int,
    bucket_bits: int,
    starts: NDArray[np.int64],
    entries: NDArray[np.uint32],
) -> None:
    """Switch the bits of a block of tiles, which may begin and end within a bucket."""
    n_rows = words.shape[0] * 64
    first_row = first_tile * 64
    last_bucket = min(first_row + n_rows - 1 >> bucket_bits, len(starts) - 2)
    for b in range(first_row >> bucket_bits, last_bucket + 1):
        for e in range(starts[b], starts[b + 1]):
            entry = np.int64(entries[e])
            row = (b << bucket_bits) + (entry & 4095) - first_row
            if 0 <= row < n_rows:
                words[row >> 6, entry >> 12] ^= _ONE << np.uint64(row & 63)
