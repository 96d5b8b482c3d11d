"""The runner of a Spark cluster, by a session of Spark or of Spark Connect.

A partition of a frame is a part; parts of files are rows of a small frame, a number and what is to be done. Either way
a pass is one job, `mapInArrow`, whose result is a small state for each task, the sum over all its parts, collected here
and merged. Spark takes the result of one attempt for each partition, and a state has all columns and rados of its parts
(S1 of docs/proofs/spark.md).
"""

import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from radoboost import __version__
from radoboost.errors import RadoError, TableError
from radoboost.holder.aggregation import Aggregation, RowTransform, S
from radoboost.holder.keystream import pickle_without_fresh_keys
from radoboost.holder.runners.cluster import ClusterRows, ClusterRunner
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.holder.runners.spark_connection import spark_session
from radoboost.holder.runners.worker import (
    CachedPartition,
    PartitionSums,
    WorkerError,
    check_worker_version,
    innermost_part,
    worker_keep_part,
    worker_map_part,
    worker_sum_part,
)
from radoboost.progress import Progress
from radoboost.tables import Table
from radoboost.tables.frames import BATCH_ROWS, borrowed_frames
from radoboost.tables.spark_jobs import (
    collect_spark_frame,
    cut_spark_batches_by_rows,
    is_spark_connect,
    map_spark_batches,
    select_numbered_spark_columns,
    spark_errors,
    spark_partition,
    spark_row_bytes,
)

# ---- What a Python worker of Spark does: the jobs of `parts`, for partitions of frames, rows that were kept, and
# files.
#
# Spark sends a function to all workers alike, so nothing secret is in it. Where each part needs a key that others
# need not know, the worker draws it (S2 of docs/proofs/spark.md), or it comes in the row that is about that part.

SUMS = "part int, state binary"
KEPT = "part int, rows long, width int, kept binary, refusal binary"
_MOST_BYTES = 1 << 28  # of batches that are joined

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class SparkTask:
    """A pass over parts: the pass, the parts by number, their first rows and, if the pass is cut, their sizes."""

    task: Any
    pieces: Sequence[Any] | Mapping[int, Any]
    firsts: Sequence[int] | Mapping[int, int]
    rows: int
    sizes: Sequence[int] | None = None
    names: Sequence[str] = ()  # of the columns of a frame

    def task_of(self, number: int) -> Any:
        """The pass for one part; a key that is to be known to nobody else is drawn here."""
        return self.task if self.sizes is None else self.task.for_part(self.firsts[number], self.sizes[number])

    def sums(self, number: int, frames: Iterable[Any]) -> PartitionSums[Any]:
        try:
            piece, first = self.pieces[number], self.firsts[number]
        except IndexError:
            return PartitionSums(None, {}, WorkerError(number, TableError(changed_partitions_text(len(self.pieces)))))
        return worker_sum_part(self.task_of(number), piece, number, first, self.rows, frames)

    def kept(self, number: int, frames: Iterable[Any]) -> CachedPartition:
        return worker_keep_part(self.task, self.pieces[number], self.rows, frames)


@dataclass(frozen=True, eq=False)
class SparkRefusal:
    """Stands for work that this worker may not do: what comes back for each part is why."""

    error: TableError
    names: Sequence[str] = ()

    def sums(self, number: int, frames: Iterable[Any]) -> PartitionSums[Any]:
        return PartitionSums(None, {}, WorkerError(number, self.error))

    def kept(self, number: int, frames: Iterable[Any]) -> CachedPartition:
        """A refusal in place of rows."""
        return CachedPartition(refusal=self.error)


def spark_payload(work: Any) -> bytes:
    """Work as it goes to all workers: without fresh keys (S2), and with the version of radoboost that it is of."""
    return pickle.dumps((__version__, pickle_without_fresh_keys(work)))


def open_spark_task(content: bytes) -> Any:
    """The work that came, or `Refused` if it is of another version, of which nothing else is read."""
    version, work = pickle.loads(content)
    try:
        check_worker_version(__version__, version)
    except TableError as error:
        return SparkRefusal(error)
    return pickle.loads(work)


def changed_partitions_text(parts: int) -> str:
    """What is wrong with a frame whose number of partitions changes."""
    return (
        f"the table had {parts:,} partitions at first and another number when read again: they are not determined; "
        "write it to Parquet, and pass the path, or checkpoint() it"
    )


# ---- partitions of a frame


def spark_sum_partition(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    number, passes = spark_partition(), open_spark_task(work)
    yield _spark_sums_row(number, passes.sums(number, join_spark_batches(batches, passes.names)))
    _drain_spark_batches(batches)


def join_spark_batches(batches: Batches, names: Sequence[str]) -> Iterator[pa.Table]:
    """The same rows in larger batches, with the columns' own names.

    Spark sends 10,000 rows at a time, and more are summed faster. No value decides whether they can be joined: Spark's
    columns have one type each, and their bytes are few enough.
    """
    pieces: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pieces and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > _MOST_BYTES):
            yield _concat_spark_batches(pieces, names)
            pieces, rows, size = [], 0, 0
        pieces.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if pieces:
        yield _concat_spark_batches(pieces, names)


def _concat_spark_batches(pieces: list[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches([pa.concat_batches(pieces)]).rename_columns(list(names))


def _drain_spark_batches(batches: Batches) -> None:
    """Read what is left: Spark would take a worker that stops early for one that died."""
    for _ in batches:
        pass


# ---- jobs that come as rows


def spark_sum_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The sum of all parts that come as rows of one partition: a number each, and what is to be done."""
    yield from _total_of_spark_task(work.sums(number, ()) for number, work in _open_spark_jobs(shared, batches))


def spark_keep_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows that are kept of parts that come as rows."""
    for number, work in _open_spark_jobs(shared, batches):
        yield from _spark_rows_of_part(number, work.kept(number, ()))


def spark_map_jobs(shared: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """What a function makes of parts that come as rows; a refusal is a result, too."""
    work = open_spark_task(shared)
    for number, payload in _spark_payloads(batches):
        yield _spark_sums_row(
            number, work.error if isinstance(work, SparkRefusal) else worker_map_part(work, pickle.loads(payload))
        )


def _open_spark_jobs(shared: bytes, batches: Batches) -> Iterator[tuple[int, Any]]:
    work = open_spark_task(shared)
    for number, payload in _spark_payloads(batches):
        if not isinstance(work, SparkRefusal):
            own, piece, first, rows = pickle.loads(payload)
            yield number, SparkTask(work if own is None else own, {number: piece}, {number: first}, rows)
        else:
            yield number, work


def _spark_payloads(batches: Batches) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        for number, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield number, payload.as_buffer()


# ---- rows that were kept


@dataclass(frozen=True, eq=False)
class KeptThere:
    """The rows of one part that Spark keeps; a worker that has them lends them."""

    n_rows: int

    def batches(self, rows: int) -> Iterator[RowBatch]:
        for array in borrowed_frames():
            yield RowBatch(array.shape[1], partial(np.asarray, array))


def spark_sum_cached_rows(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The sum over the kept rows of all parts in one partition."""
    passes = open_spark_task(work)
    yield from _total_of_spark_task(passes.sums(number, arrays) for number, arrays in _spark_rows_by_part(batches))


def spark_transform_cached_rows(work: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows that are made of kept ones, to be kept in their place."""
    passes = open_spark_task(work)
    for number, arrays in _spark_rows_by_part(batches):
        yield from _spark_rows_of_part(number, passes.kept(number, arrays))


def _spark_rows_by_part(batches: Batches) -> Iterator[tuple[int, Iterator[Any]]]:
    """The arrays of each part: those of one part come one after the other."""
    for number, found in groupby(_rows_kept_by_spark(batches), key=lambda pair: pair[0]):
        yield number, (array for _, array in found)


def _rows_kept_by_spark(batches: Batches) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        columns = (batch.column(k) for k in range(4))
        for part, rows, width, kept in zip(*columns, strict=True):
            n_rows, n_columns = rows.as_py(), width.as_py()
            content = kept.as_buffer()
            kind = np.int16 if content.size == 2 * n_rows * n_columns else np.int32
            yield part.as_py(), np.frombuffer(content, kind).reshape(n_columns, n_rows).copy()


# ---- what goes back


def _total_of_spark_task(states: Iterable[PartitionSums[Any]]) -> Iterator[pa.RecordBatch]:
    """One state for all parts of a task, which names each of them (S1); nothing if the task has none."""
    total: PartitionSums[Any] | None = None
    for state in states:
        total = state if total is None else total.merge(state)
    if total is not None:
        yield _spark_sums_row(min(total.rows, default=-1), total)


def _spark_sums_row(number: int, state: Any) -> pa.RecordBatch:
    content = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    return pa.record_batch({"part": pa.array([number], pa.int32()), "state": pa.array([content], pa.binary())})


def _spark_rows_of_part(number: int, part: CachedPartition) -> Iterator[pa.RecordBatch]:
    """The kept rows of a part, one row of Spark for a batch; or one with the refusal."""
    if part.refusal is not None:
        yield _spark_row_of_batch(number, 0, 0, b"", pickle.dumps(part.refusal))
    for array in part.arrays:
        yield _spark_row_of_batch(number, array.shape[1], array.shape[0], np.ascontiguousarray(array).tobytes(), None)


def _spark_row_of_batch(number: int, rows: int, width: int, kept: bytes, refusal: bytes | None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "part": pa.array([number], pa.int32()),
            "rows": pa.array([rows], pa.int64()),
            "width": pa.array([width], pa.int32()),
            "kept": pa.array([kept], pa.binary()),
            "refusal": pa.array([refusal], pa.binary()),
        }
    )


_WAVES = 3  # of partitions with jobs: so many times as many as tasks run at once
_MOST_TASKS = 1000  # of Spark Connect, which does not say how many run at once
_MOST_STATES = 1 << 28  # bytes of states that come here: fewer partitions where states are large, but one wave


def spark_runner(
    cluster: Any, table: Any, bar: Progress, threads: int | None, *, trust_network: bool, promises: bool
) -> "SparkRunner":
    """The runner of a Spark session, of that at an address, or of that of a frame.

    `promises` says that something is promised: Spark's words are then withheld.
    """
    session, started = spark_session(cluster, table, trust_network=trust_network)
    return SparkRunner(session, started, bar, threads, withheld=promises)


@dataclass(frozen=True, eq=False)
class ByPart:
    """A pass that workers cut by parts themselves, so that keys of parts are drawn there."""

    task: Any
    sizes: Sequence[int]

    @property
    def title(self) -> str:
        return str(self.task.title)


class SparkRunner(ClusterRunner):
    """Jobs of one Spark session; `started` says that it is stopped afterwards.

    `withheld` keeps Spark's own words, in which there may be values, out of messages.
    """

    name = "a Spark cluster"

    def __init__(
        self, session: Any, started: bool, bar: Progress, threads: int | None, *, withheld: bool = False
    ) -> None:
        super().__init__(bar, threads)
        self.session, self._started, self.withheld = session, started, withheld

    def close(self) -> None:
        """Stop the session, if it was started for this runner."""
        if self._started:
            self._started = False
            self.session.stop()

    def by_part(self, task: Any, source: Table, firsts: Sequence[int], sizes: Sequence[int]) -> Any:
        """For files a pass for each part, which travels with it; for frames one, which workers cut (S2)."""
        if source.frame is not None:
            return ByPart(task, sizes)
        return super().by_part(task, source, firsts, sizes)

    def sum_parts(
        self,
        tasks: Aggregation[S] | Sequence[Aggregation[S]],
        source: Table | ClusterRows,
        firsts: Sequence[int],
        rows: int,
    ) -> PartitionSums[S]:
        first: Any = tasks[0] if isinstance(tasks, Sequence) and tasks else tasks
        if source.frame is None:
            frame = self._jobs(tasks, source, firsts, rows, spark_sum_jobs, SUMS)
        else:
            sizes = tasks.sizes if isinstance(tasks, ByPart) else None
            work = SparkTask(tasks.task if isinstance(tasks, ByPart) else tasks, source.pieces, firsts, rows, sizes)
            kept = isinstance(source.frame, Kept)
            frame = (
                self._over_kept(work, source, spark_sum_cached_rows, SUMS) if kept else self._over_frame(work, source)
            )
        table = self._collected(frame, getattr(first, "title", ""), source)
        return self._merged(table, source)

    def keep_parts(self, task: RowTransform, source: Table | ClusterRows, rows: int) -> ClusterRows:
        """The rows in Spark's own store, in memory or on disks of its machines, by one job."""
        if source.frame is None:
            frame = self._jobs(task, source, [0] * len(source.pieces), rows, spark_keep_jobs, KEPT)
        else:
            work = SparkTask(task, source.pieces, [0] * len(source.pieces), rows)
            frame = self._over_kept(work, source, spark_transform_cached_rows, KEPT)
        kept = Kept(frame, withheld=self.withheld)
        table = self._collected(frame.select("part", "rows", "refusal"), task.title, source)
        counts = dict.fromkeys(range(len(source.pieces)), 0)
        refusals = []
        columns = (table.column(name).to_pylist() for name in ("part", "rows", "refusal"))
        for part, n_rows, refusal in zip(*columns, strict=True):
            counts[part] = counts.get(part, 0) + n_rows
            if refusal is not None:
                refusals.append(WorkerError(part, pickle.loads(refusal)))
        first = min(refusals, key=lambda refusal: refusal.part, default=None)
        found = self._checked(PartitionSums(None, counts, first), source, self._known(source))
        return ClusterRows(source.name, source.features, sum(found), [KeptThere(count) for count in found], kept)

    def map_parts(self, work: Callable[[Any], Any], source: Table) -> Iterator[Any]:
        """What `work` makes of each part, in order; a bounded number of parts at a time, so that results fit here."""
        job, step = partial(spark_map_jobs, spark_payload(work)), 4 * self._slots()
        for start in range(0, len(source.pieces), step):
            payloads = [pickle.dumps(piece) for piece in source.pieces[start : start + step]]
            with spark_errors():
                frame = map_spark_batches(self._rows_of_jobs(payloads), job, SUMS)
            table = collect_spark_frame(frame, partial(self._tell_parts, source, start, len(payloads)))
            states = dict(zip(table.column("part").to_pylist(), table.column("state"), strict=True))
            for number in range(len(payloads)):
                result = pickle.loads(states[number].as_buffer())
                if isinstance(result, RadoError):
                    raise result
                yield result

    def _tell_parts(self, source: Table, before: int, parts: int, done: int, tasks: int) -> None:
        self.tell("predicting rows", source, before + parts * done // tasks, len(source.pieces))

    def _slots(self) -> int:
        """About how many tasks run at once."""
        return 8 if is_spark_connect(self.session) else max(1, int(self.session.sparkContext.defaultParallelism))

    # ---- the jobs

    def _over_frame(self, work: SparkTask, source: Any) -> Any:
        """A job over partitions of a frame; no fresh key goes along (S2)."""
        columns = innermost_part(source.pieces[0]).columns
        job = partial(spark_sum_partition, spark_payload(replace(work, names=columns)))
        return map_spark_batches(select_numbered_spark_columns(source.frame, columns), job, SUMS)

    def _over_kept(self, work: SparkTask, source: Any, function: Any, schema: str) -> Any:
        """A job over rows that are kept."""
        job = partial(function, spark_payload(work))
        return map_spark_batches(source.frame.frame, job, schema, withheld=self.withheld)

    def _jobs(self, tasks: Any, source: Any, firsts: Sequence[int], rows: int, function: Any, schema: str) -> Any:
        """A job over parts that workers can read: what each needs is in its row, and in no other (S3)."""
        own = tasks if isinstance(tasks, list) else [None] * len(source.pieces)
        shared = None if isinstance(tasks, list) else tasks
        jobs = zip(own, source.pieces, firsts, strict=True)
        payloads = [pickle.dumps((task, piece, first, rows)) for task, piece, first in jobs]
        with spark_errors(withheld=self.withheld):
            frame = self._rows_of_jobs(payloads, _bytes_of_spark_state(own[0] if shared is None else shared))
            return map_spark_batches(frame, partial(function, spark_payload(shared)), schema, withheld=self.withheld)

    def _rows_of_jobs(self, payloads: Sequence[bytes], state_bytes: int = 0) -> Any:
        """A frame with a row for each job, a few of them in a partition: Spark takes 0.1 s of CPU for each of these."""
        slots, connect = self._slots(), is_spark_connect(self.session)
        most = _MOST_TASKS if connect else _WAVES * slots
        count = max(1, min(len(payloads), max(slots, min(most, _MOST_STATES // max(1, state_bytes)))))
        if not connect:
            rows = self.session.sparkContext.parallelize(list(enumerate(map(bytearray, payloads))), count)
            return self.session.createDataFrame(rows, "number int, payload binary")
        table = pa.table(
            {"number": pa.array(range(len(payloads)), pa.int32()), "payload": pa.array(payloads, pa.binary())}
        )
        frame = self.session.createDataFrame(table)
        if hasattr(frame, "repartitionById"):
            return frame.repartitionById(count, "number")
        return frame.repartition(count, "number")

    def _collected(self, frame: Any, title: str, source: Table | ClusterRows) -> pa.Table:
        width = self._row_bytes(source)
        with cut_spark_batches_by_rows(source.frame.sparkSession, width) if width else nullcontext():
            return collect_spark_frame(
                frame, lambda done, tasks: self.tell(title, source, done, tasks), withheld=self.withheld
            )

    def _row_bytes(self, source: Table | ClusterRows) -> int | None:
        """How many bytes a row has, where a job reads partitions of a frame whose columns have a fixed width."""
        if source.frame is None or isinstance(source.frame, Kept) or not source.pieces:
            return None
        return spark_row_bytes(source.frame, innermost_part(source.pieces[0]).columns)

    def _merged(self, table: pa.Table, source: Table | ClusterRows) -> PartitionSums[Any]:
        """The sum of all states; each part is in one of them, once."""
        total: PartitionSums[Any] = PartitionSums(None)
        for state in table.column("state"):
            total = total.merge(pickle.loads(state.as_buffer()))
        # Of kept rows, parts that are empty have none; any other part is in exactly one state, or nothing is certain.
        kept = [innermost_part(piece) for piece in source.pieces] if isinstance(source.frame, Kept) else []
        missing = {k: 0 for k, piece in enumerate(kept) if piece.n_rows == 0}
        if total.refusal is None and sorted([*total.rows, *missing]) != list(range(len(source.pieces))):
            raise TableError(changed_partitions_text(len(source.pieces)))
        return PartitionSums(total.sums, {**total.rows, **missing}, total.refusal)


def _bytes_of_spark_state(task: Any) -> int:
    """About how many bytes a state of a pass has; rows that are kept stay where they are."""
    if not hasattr(task, "empty"):
        return 0
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(task.empty(), 5, buffer_callback=buffers.append)
    return len(content) + sum(buffer.raw().nbytes for buffer in buffers)


class Kept:
    """A frame of kept rows, in memory or on disks of Spark's machines until nobody needs it."""

    def __init__(self, frame: Any, *, withheld: bool) -> None:
        from pyspark import StorageLevel

        with spark_errors(withheld=withheld):
            self.frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._end = weakref.finalize(self, _unpersist_spark_frame, self.frame)


def _unpersist_spark_frame(frame: Any) -> None:
    """Free what Spark keeps; a session that has ended keeps nothing."""
    try:
        frame.unpersist()
    except Exception:
        return
