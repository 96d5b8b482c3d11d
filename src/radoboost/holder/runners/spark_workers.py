"""What a Python worker of Spark does: the jobs of `parts`, for partitions of frames, rows that were kept, and files.

Spark sends a function to all workers alike, so nothing secret is in it. Where each part needs a key that others need
not know, the worker draws it (S4 of docs/proofs/spark.md), or it comes in the row that is about that part.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from radoboost import __version__
from radoboost.errors import RadoError, TableError
from radoboost.holder.keystream import pickled_without_fresh
from radoboost.holder.runners.kept import RowBatch
from radoboost.holder.runners.parts import (
    KeptPart,
    PartSums,
    Refusal,
    check_version,
    from_worker,
    keep_part,
    sum_part,
)
from radoboost.tables.cluster_frames import borrowed
from radoboost.tables.frames import BATCH_ROWS
from radoboost.tables.spark_frames import partition_number

SUMS = "part int, state binary"
KEPT = "part int, rows long, width int, kept binary, refusal binary"
_MOST_BYTES = 1 << 28  # of batches that are joined

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class Work:
    """A pass over partitions: the pass, the parts by number, their first rows and, if the pass is cut, their sizes."""

    task: Any
    pieces: Sequence[Any]
    firsts: Sequence[int]
    rows: int
    sizes: Sequence[int] | None = None
    names: Sequence[str] = ()  # of the columns of a frame

    def task_of(self, number: int) -> Any:
        """The pass for one part; a key that is to be known to nobody else is drawn here."""
        return self.task if self.sizes is None else self.task.for_part(self.firsts[number], self.sizes[number])

    def sums(self, number: int, frames: Iterable[Any]) -> PartSums[Any]:
        if number >= len(self.pieces):
            return PartSums(None, {}, Refusal(number, TableError(too_many(len(self.pieces)))))
        piece, first = self.pieces[number], self.firsts[number]
        return sum_part(self.task_of(number), piece, number, first, self.rows, frames)

    def kept(self, number: int, frames: Iterable[Any]) -> KeptPart:
        if number >= len(self.pieces):
            return KeptPart(refusal=TableError(too_many(len(self.pieces))))
        return keep_part(self.task, self.pieces[number], self.rows, frames)


@dataclass(frozen=True, eq=False)
class Refused:
    """Stands for work that this worker may not do: what comes back for each part is why."""

    error: TableError
    names: Sequence[str] = ()

    def sums(self, number: int, frames: Iterable[Any]) -> PartSums[Any]:
        return PartSums(None, {}, Refusal(number, self.error))

    def kept(self, number: int, frames: Iterable[Any]) -> KeptPart:
        """A refusal in place of rows."""
        return KeptPart(refusal=self.error)


def for_all(work: Any) -> bytes:
    """Work as it goes to all workers: without fresh keys (S4), and with the version of radoboost that it is of."""
    return pickle.dumps((__version__, pickled_without_fresh(work)))


def opened(content: bytes) -> Any:
    """The work that came, or `Refused` if it is of another version, of which nothing else is read."""
    version, work = pickle.loads(content)
    try:
        check_version(__version__, version)
    except TableError as error:
        return Refused(error)
    return pickle.loads(work)


def too_many(parts: int) -> str:
    """What is wrong with a frame whose number of partitions changes."""
    return (
        f"the table had {parts:,} partitions at first and another number when read again: they are not determined; "
        "write it to Parquet and pass the frame of those files, or checkpoint() it"
    )


# ---- partitions of a frame


def sum_partition(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    number, passes = partition_number(), opened(work)
    yield _sums(number, passes.sums(number, joined(batches, passes.names)))
    _drain(batches)


def keep_partition(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows of one partition of a frame that are kept."""
    number, passes = partition_number(), opened(work)
    yield from _rows(number, passes.kept(number, joined(batches, passes.names)))
    _drain(batches)


def joined(batches: Batches, names: Sequence[str]) -> Iterator[pa.Table]:
    """The same rows in larger batches, with the columns' own names.

    Spark sends 10,000 rows at a time, and more are summed faster. No value decides whether they can be joined: Spark's
    columns have one type each, and their bytes are few enough.
    """
    pieces: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pieces and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > _MOST_BYTES):
            yield _joined(pieces, names)
            pieces, rows, size = [], 0, 0
        pieces.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if pieces:
        yield _joined(pieces, names)


def _joined(pieces: list[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches([pa.concat_batches(pieces)]).rename_columns(list(names))


def _drain(batches: Batches) -> None:
    """Read what is left: Spark would take a worker that stops early for one that died."""
    for _ in batches:
        pass


# ---- jobs that come as rows


def sum_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The sum of all parts that come as rows of one partition: a number each, and what is to be done."""
    yield from _total(work.sums(number, ()) for number, work in _jobs(shared, batches))


def keep_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows that are kept of parts that come as rows."""
    for number, work in _jobs(shared, batches):
        yield from _rows(number, work.kept(number, ()))


def map_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """What a function makes of parts that come as rows; a refusal is a result, too."""
    work = opened(shared)
    for number, payload in _payloads(batches):
        yield _sums(number, work.error if isinstance(work, Refused) else _made(work, pickle.loads(payload)))


def _made(work: Any, piece: Any) -> Any:
    try:
        return work(piece)
    except RadoError as error:
        return from_worker(error, piece)


def _jobs(shared: bytes, batches: Batches) -> Iterator[tuple[int, Any]]:
    task = opened(shared)
    for number, payload in _payloads(batches):
        yield number, task if isinstance(task, Refused) else OneJob(task, *pickle.loads(payload))


def _payloads(batches: Batches) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        for number, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield number, payload.as_buffer()


@dataclass(frozen=True, eq=False)
class OneJob:
    """A pass over one part; the pass is its own, or that of all parts."""

    shared: Any
    own: Any
    piece: Any
    first: int
    rows: int

    def sums(self, number: int, frames: Iterable[Any]) -> PartSums[Any]:
        task = self.shared if self.own is None else self.own
        return sum_part(task, self.piece, number, self.first, self.rows)

    def kept(self, number: int, frames: Iterable[Any]) -> KeptPart:
        return keep_part(self.shared, self.piece, self.rows)


# ---- rows that were kept


@dataclass(frozen=True, eq=False)
class KeptThere:
    """The rows of one part that Spark keeps; a worker that has them lends them."""

    n_rows: int

    def batches(self, rows: int) -> Iterator[RowBatch]:
        for array in borrowed():
            yield RowBatch(array.shape[1], partial(np.asarray, array))


def sum_kept(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The sum over the kept rows of all parts in one partition."""
    passes = opened(work)
    yield from _total(passes.sums(number, arrays) for number, arrays in _by_part(batches))


def keep_kept(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows that are made of kept ones, to be kept in their place."""
    passes = opened(work)
    for number, arrays in _by_part(batches):
        yield from _rows(number, passes.kept(number, arrays))


def _by_part(batches: Batches) -> Iterator[tuple[int, Iterator[Any]]]:
    """The arrays of each part: those of one part come one after the other."""
    for number, found in groupby(_kept_rows(batches), key=lambda pair: pair[0]):
        yield number, (array for _, array in found)


def _kept_rows(batches: Batches) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        columns = (batch.column(k) for k in range(4))
        for part, rows, width, kept in zip(*columns, strict=True):
            n_rows, n_columns = rows.as_py(), width.as_py()
            content = kept.as_buffer()
            kind = np.int16 if content.size == 2 * n_rows * n_columns else np.int32
            yield part.as_py(), np.frombuffer(content, kind).reshape(n_columns, n_rows).copy()


# ---- what goes back


def _total(states: Iterable[PartSums[Any]]) -> Iterator[pa.RecordBatch]:
    """One state for all parts of a task, which names each of them (S2); nothing if the task has none."""
    total: PartSums[Any] | None = None
    for state in states:
        total = state if total is None else total.merge(state)
    if total is not None:
        yield _sums(min(total.rows, default=-1), total)


def _sums(number: int, state: Any) -> pa.RecordBatch:
    content = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    return pa.record_batch({"part": pa.array([number], pa.int32()), "state": pa.array([content], pa.binary())})


def _rows(number: int, part: KeptPart) -> Iterator[pa.RecordBatch]:
    """The kept rows of a part, one row of Spark for a batch; or one with the refusal."""
    if part.refusal is not None:
        yield _row(number, 0, 0, b"", pickle.dumps(part.refusal))
    for array in part.arrays:
        yield _row(number, array.shape[1], array.shape[0], np.ascontiguousarray(array).tobytes(), None)


def _row(number: int, rows: int, width: int, kept: bytes, refusal: bytes | None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "part": pa.array([number], pa.int32()),
            "rows": pa.array([rows], pa.int64()),
            "width": pa.array([width], pa.int32()),
            "kept": pa.array([kept], pa.binary()),
            "refusal": pa.array([refusal], pa.binary()),
        }
    )
