"""The runner of a Spark cluster, by a session of Spark or of Spark Connect.

A partition of a frame is a part; parts of files are rows of a small frame, a number and what is to be done. Either way
a pass is one job, `mapInArrow`, whose result is a small state for each task, the sum over all its parts, collected here
and merged. Spark takes the result of one attempt for each partition, and a state has all columns and rados of its parts
(S2 of docs/proofs/spark.md).
"""

import pickle
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from radoboost.errors import RadoError, TableError
from radoboost.holder.passes import Pass, RowPass, S
from radoboost.holder.runners.clusters import ClusterRows, ClusterRunner
from radoboost.holder.runners.parts import PartSums, Refusal, innermost
from radoboost.holder.runners.spark_sessions import spark_session
from radoboost.holder.runners.spark_workers import (
    KEPT,
    SUMS,
    KeptThere,
    Work,
    for_all,
    keep_jobs,
    keep_kept,
    keep_partition,
    map_jobs,
    sum_jobs,
    sum_kept,
    sum_partition,
    too_many,
)
from radoboost.progress import Progress
from radoboost.tables import Source
from radoboost.tables.spark_frames import row_bytes, selected
from radoboost.tables.spark_jobs import collected, cut_by_rows, explained, is_connect, mapped_batches

_WAVES = 3  # of partitions with jobs: so many times as many as tasks run at once
_MOST_TASKS = 1000  # of Spark Connect, which does not say how many run at once
_MOST_STATES = 1 << 28  # bytes of states that come here: fewer partitions where states are large, but one wave


def spark_runner(
    cluster: Any, table: Any, bar: Progress, threads: int | None, *, trust_network: bool, once: bool
) -> "SparkRunner":
    """The runner of a Spark session, of that at an address, or of that of a frame.

    `once` says that something is promised: Spark's words are then withheld. Whoever crafts checks the frame (S3).
    """
    session, started = spark_session(cluster, table, trust_network=trust_network)
    return SparkRunner(session, started, bar, threads, withheld=once)


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

    def by_part(self, task: Any, source: Source, firsts: Sequence[int], sizes: Sequence[int]) -> Any:
        """For files a pass for each part, which travels with it; for frames one, which workers cut (S4)."""
        if source.frame is not None:
            return ByPart(task, sizes)
        return super().by_part(task, source, firsts, sizes)

    def sum_parts(
        self, tasks: Pass[S] | Sequence[Pass[S]], source: Source | ClusterRows, firsts: Sequence[int], rows: int
    ) -> PartSums[S]:
        first: Any = tasks[0] if isinstance(tasks, Sequence) and tasks else tasks
        if source.frame is None:
            frame = self._jobs(tasks, source, firsts, rows, sum_jobs, SUMS)
        else:
            sizes = tasks.sizes if isinstance(tasks, ByPart) else None
            work = Work(tasks.task if isinstance(tasks, ByPart) else tasks, source.pieces, firsts, rows, sizes)
            frame = self._over_frame(work, source, sum_partition, sum_kept, SUMS)
        table = self._collected(frame, getattr(first, "title", ""), source)
        return self._merged(table, source)

    def keep_parts(self, task: RowPass, source: Source | ClusterRows, rows: int) -> ClusterRows:
        """The rows in Spark's own store, in memory or on disks of its machines, by one job."""
        if source.frame is None:
            frame = self._jobs(task, source, [0] * len(source.pieces), rows, keep_jobs, KEPT)
        else:
            work = Work(task, source.pieces, [0] * len(source.pieces), rows)
            frame = self._over_frame(work, source, keep_partition, keep_kept, KEPT)
        kept = Kept(frame, withheld=self.withheld)
        table = self._collected(frame.select("part", "rows", "refusal"), task.title, source)
        counts = dict.fromkeys(range(len(source.pieces)), 0)
        refusals = []
        columns = (table.column(name).to_pylist() for name in ("part", "rows", "refusal"))
        for part, n_rows, refusal in zip(*columns, strict=True):
            counts[part] = counts.get(part, 0) + n_rows
            if refusal is not None:
                refusals.append(Refusal(part, pickle.loads(refusal)))
        first = min(refusals, key=lambda refusal: refusal.part, default=None)
        found = self._checked(PartSums(None, counts, first), source, self._known(source))
        return ClusterRows(source.name, source.features, sum(found), [KeptThere(count) for count in found], kept)

    def map_parts(self, work: Callable[[Any], Any], source: Source) -> Iterator[Any]:
        """What `work` makes of each part, in order; a bounded number of parts at a time, so that results fit here."""
        job, step = partial(map_jobs, for_all(work)), 4 * self._slots()
        for start in range(0, len(source.pieces), step):
            payloads = [pickle.dumps(piece) for piece in source.pieces[start : start + step]]
            with explained():
                frame = mapped_batches(self._rows_of_jobs(payloads), job, SUMS)
            table = collected(frame, partial(self._tell_parts, source, start, len(payloads)))
            states = dict(zip(table.column("part").to_pylist(), table.column("state"), strict=True))
            for number in range(len(payloads)):
                result = pickle.loads(states[number].as_buffer())
                if isinstance(result, RadoError):
                    raise result
                yield result

    def _tell_parts(self, source: Source, before: int, parts: int, done: int, tasks: int) -> None:
        self.tell("predicting rows", source, before + parts * done // tasks, len(source.pieces))

    def _slots(self) -> int:
        """About how many tasks run at once."""
        return 8 if is_connect(self.session) else max(1, int(self.session.sparkContext.defaultParallelism))

    # ---- the jobs

    def _over_frame(self, work: Work, source: Any, over_rows: Any, over_kept: Any, schema: str) -> Any:
        """A job over partitions of a frame, or over rows that are kept; no fresh key goes along (S4)."""
        with explained(withheld=self.withheld):
            if isinstance(source.frame, Kept):
                job = partial(over_kept, for_all(work))
                return mapped_batches(source.frame.frame, job, schema, withheld=self.withheld)
            columns = innermost(source.pieces[0]).columns if source.pieces else source.frame.columns[:1]
            job = partial(over_rows, for_all(replace(work, names=columns)))
            rows = selected(source.frame, columns, withheld=self.withheld)
            return mapped_batches(rows, job, schema, withheld=self.withheld)

    def _jobs(self, tasks: Any, source: Any, firsts: Sequence[int], rows: int, function: Any, schema: str) -> Any:
        """A job over parts that workers can read: what each needs is in its row, and in no other (S5)."""
        own = tasks if isinstance(tasks, list) else [None] * len(source.pieces)
        shared = None if isinstance(tasks, list) else tasks
        jobs = zip(own, source.pieces, firsts, strict=True)
        payloads = [pickle.dumps((task, piece, first, rows)) for task, piece, first in jobs]
        with explained(withheld=self.withheld):
            frame = self._rows_of_jobs(payloads, _state_bytes(own[0] if shared is None else shared))
            return mapped_batches(frame, partial(function, for_all(shared)), schema, withheld=self.withheld)

    def _rows_of_jobs(self, payloads: Sequence[bytes], state_bytes: int = 0) -> Any:
        """A frame with a row for each job, a few of them in a partition: Spark takes 0.1 s of CPU for each of these."""
        slots, connect = self._slots(), is_connect(self.session)
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

    def _collected(self, frame: Any, title: str, source: Source | ClusterRows) -> pa.Table:
        width = self._row_bytes(source)
        with cut_by_rows(source.frame.sparkSession, width) if width else nullcontext():
            return collected(frame, lambda done, tasks: self.tell(title, source, done, tasks), withheld=self.withheld)

    def _row_bytes(self, source: Source | ClusterRows) -> int | None:
        """How many bytes a row has, where a job reads partitions of a frame whose columns have a fixed width."""
        if source.frame is None or isinstance(source.frame, Kept) or not source.pieces:
            return None
        return row_bytes(source.frame, innermost(source.pieces[0]).columns, withheld=self.withheld)

    def _merged(self, table: pa.Table, source: Source | ClusterRows) -> PartSums[Any]:
        """The sum of all states; each part is in one of them, once."""
        total: PartSums[Any] = PartSums(None)
        for state in table.column("state"):
            total = total.merge(pickle.loads(state.as_buffer()))
        # Of kept rows, parts that are empty have none; any other part is in exactly one state, or nothing is certain.
        kept = [innermost(piece) for piece in source.pieces] if isinstance(source.frame, Kept) else []
        missing = {k: 0 for k, piece in enumerate(kept) if piece.n_rows == 0}
        if total.refusal is None and sorted([*total.rows, *missing]) != list(range(len(source.pieces))):
            raise TableError(too_many(len(source.pieces)))
        return PartSums(total.sums, {**total.rows, **missing}, total.refusal)


def _state_bytes(task: Any) -> int:
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

        with explained(withheld=withheld):
            self.frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._end = weakref.finalize(self, _let_go, self.frame)


def _let_go(frame: Any) -> None:
    """Free what Spark keeps; a session that has ended keeps nothing."""
    try:
        frame.unpersist()
    except Exception:
        return
