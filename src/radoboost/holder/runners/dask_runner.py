"""The runner of a Dask cluster.

A pass is one graph: a task for each part, and merges of eight states at a time, so that one state comes back. What a
task needs is in the graph, sealed: if a worker dies, Dask does its tasks again from there. Tasks have numbers for
names.
"""

import pickle
import time
import uuid
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from radoboost import __version__, memory
from radoboost.errors import ClusterError, RadoError
from radoboost.holder.aggregation import Aggregation, RowTransform, S, merge_accumulators
from radoboost.holder.runners.cluster import ClusterRows, ClusterRunner
from radoboost.holder.runners.dask_connection import dask_address, dask_error, dask_hosts_for_tasks, open_dask_client
from radoboost.holder.runners.threads import check_threads
from radoboost.holder.runners.worker import (
    CachedPartition,
    ComputedPartition,
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
from radoboost.tables.frames import borrowed_frames

# ---- What travels to the workers of a Dask cluster, and what they do with it.
#
# A job is sealed: neither the scheduler nor a page or log of Dask's can show what is in it. Functions are found
# by name on the workers, so that nothing goes along with them.


class SealedPayload:
    """Something for a worker, which nobody on the way looks into: it prints as no more than that."""

    def __init__(self, *content: Any, withheld: bool = False) -> None:
        self.withheld = withheld  # whether errors about it may have words
        self._content, self._version = pickle.dumps(content, 5), __version__

    def opened(self) -> Any:
        """What is in it, if it was sealed by this version of radoboost."""
        check_worker_version(__version__, self._version)
        return pickle.loads(self._content)

    def __repr__(self) -> str:
        return "Sealed(...)"

    def __sizeof__(self) -> int:
        return len(self._content)


class BorrowedRows:
    """Kept rows that are lent wherever they are read."""

    def batches(self, rows: int) -> Iterator[Any]:
        for part in borrowed_frames():
            yield from part.batches(rows)


@memory.reuse_freed_memory()
def dask_sum_job(job: SealedPayload, shared: SealedPayload | None, *lent: Any) -> PartitionSums[Any]:
    """The sums of some parts; each may have something lent to it, its partition of a frame or its kept rows."""
    try:
        pieces, batch_rows, task = _open_dask_job(job, shared)
        states = []
        for place, (number, piece, first_row) in enumerate(pieces):
            states.append(worker_sum_part(task, piece, number, first_row, batch_rows, [lent[place]] if lent else None))
            if states[-1].refusal is not None:
                break
        return merge_accumulators(states)
    except Exception as error:
        return PartitionSums(None, {}, WorkerError(-1, _refusal_of_dask_job(job, error)))


@memory.reuse_freed_memory()
def dask_keep_job(job: SealedPayload, shared: SealedPayload | None, *lent: Any) -> CachedPartition:
    try:
        ((_, piece, _),), batch_rows, task = _open_dask_job(job, shared)
        return worker_keep_part(task, piece, batch_rows, lent or None)
    except Exception as error:
        return CachedPartition(refusal=_refusal_of_dask_job(job, error))


@memory.reuse_freed_memory()
def dask_map_job(job: SealedPayload, shared: SealedPayload | None) -> Any:
    """What some work makes of one part, or why it cannot."""
    try:
        ((number, piece, _),), _, work = _open_dask_job(job, shared)
        result = worker_map_part(work, piece)
        return WorkerError(number, result) if isinstance(result, RadoError) else result
    except Exception as error:
        return WorkerError(-1, _refusal_of_dask_job(job, error))


def dask_merge_job(*parts: PartitionSums[Any]) -> PartitionSums[Any]:
    return merge_accumulators(parts)


def dask_shared_task(sealed: SealedPayload) -> SealedPayload:
    """A task that every part needs the result of."""
    return sealed


def _refusal_of_dask_job(job: SealedPayload, error: Exception) -> RadoError:
    """What a job gives back in place of an error; one that nobody foresaw is raised, unless its words are withheld.

    Dask would write them, and with them values of rows, into the logs of workers and of the caller.
    """
    if isinstance(error, RadoError):
        return error
    if not job.withheld:
        raise error
    return dask_error(error, "its address", withheld=True)


def _open_dask_job(job: SealedPayload, shared: SealedPayload | None) -> tuple[list[tuple[int, Any, int]], int, Any]:
    """The pieces of a job with their numbers and first rows, the rows of a batch, and what is to be done."""
    pieces, batch_rows, task = job.opened()
    return pieces, batch_rows, task if shared is None else shared.opened()[0]


FAN_IN = 8  # states that one task merges
SMALL_PASS = 1 << 16  # bytes: a pass of so many goes with each part; a larger one is a task of its own
SMALL_WORK = 1 << 20  # bytes: the same where only a few parts are under way
TASKS_A_THREAD = 2  # that sum kept rows: few, and one of them can still go to another worker
PATIENCE = 60.0  # seconds without a worker
_LONELY = 5.0  # seconds without one before the progress bar says so
_LOOK, _CALM = 0.1, 1.0  # seconds between looks at how far the cluster is, and whether it has workers


class RemoteRows:
    """The kept rows of one part, on whichever worker has them; once they are let go, they are made `again`.

    A worker gets the rows by themselves, and lends them to the part.
    """

    def __init__(self, future: Any, again: ComputedPartition, where: str) -> None:
        self.future, self.again, self.where = future, again, where

    def let_go(self) -> None:
        """Make room on the worker."""
        if self.future is not None:
            _release_futures([self.future])
        self.future = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BorrowedRows, ()


def _piece_on_dask_worker(piece: Any) -> Any:
    """A piece as a worker can read it now: rows that were let go are made again."""
    if isinstance(piece, RemoteRows):
        return piece if piece.future is not None else _piece_on_dask_worker(piece.again)
    if (within := getattr(piece, "part", None)) is None:
        return piece
    return piece if (ready := _piece_on_dask_worker(within)) is within else replace(piece, part=ready)


# ---- the runner


class DaskRunner(ClusterRunner):
    """Passes on the workers of a Dask client; `opened` are what was opened for this, to be closed afterwards."""

    def __init__(
        self,
        client: Any,
        name: str,
        opened: Sequence[Any],
        bar: Progress,
        threads: int | None,
        *,
        trust_network: bool,
        withheld: bool = False,
    ) -> None:
        super().__init__(bar, threads)
        self.withheld, self._trusts = withheld, trust_network
        self.name, self._client, self._opened = name, client, opened
        self._frame: Any = None
        self._partitions: list[Any] = []
        self._held: weakref.WeakSet[RemoteRows] = weakref.WeakSet()

    def close(self) -> None:
        """Let go of kept rows, and close what was opened for this runner."""
        self._frame, self._partitions = None, []
        for piece in self._held:
            piece.let_go()
        for thing in self._opened:
            with suppress(Exception):
                thing.close()

    def sum_parts(
        self,
        tasks: Aggregation[S] | Sequence[Aggregation[S]],
        source: Table | ClusterRows,
        firsts: Sequence[int],
        rows: int,
    ) -> PartitionSums[S]:
        """The sums of all parts of the source, merged by workers, eight at a time."""
        by_part = isinstance(tasks, Sequence)
        title = (tasks[0] if isinstance(tasks, Sequence) else tasks).title
        with self._in_one_line():
            groups = [[number] for number in range(len(source.pieces))] if by_part else self._groups(source.pieces)
            parts = self._graph("sum", dask_sum_job, source, groups, firsts, rows, tasks)
            total = self._merged(parts)
            with self._started([*parts, total]) as futures:
                *under_way, final = futures
                self._wait([final], under_way, lambda done: self.tell(title, source, done, len(parts)))
                sums: PartitionSums[S] = final.result()
                _release_futures(futures)
        return sums

    def keep_parts(self, task: RowTransform, source: Table | ClusterRows, rows: int) -> ClusterRows:
        """The rows that `task` makes of each part, on the workers that made them, in place of those they are made of.

        Dask makes them again if their worker dies.
        """
        with self._in_one_line():
            alone = [[number] for number in range(len(source.pieces))]
            parts = self._graph("keep", dask_keep_job, source, alone, [0] * len(source.pieces), rows, task)
            with self._started(parts) as futures:
                self._wait(futures, list(futures), lambda done: self.tell(task.title, source, done, len(parts)))
                places = self._client.who_has(futures)
        pieces = [
            RemoteRows(future, ComputedPartition(piece, task), next(iter(places.get(future.key, ())), ""))
            for future, piece in zip(futures, source.pieces, strict=True)
        ]
        self._held.update(pieces)
        for piece in source.pieces:
            if isinstance(piece, RemoteRows):
                piece.let_go()
        return ClusterRows(source.name, source.features, source.n_rows, pieces, source.frame)

    def map_parts(self, work: Callable[[Any], Any], source: Table) -> Iterator[Any]:
        """What `work` makes of each part of the source, in order; only a few results wait to be taken."""
        client, name = self._client, _fresh_dask_name("map")
        sealed = SealedPayload(work)
        waiting: deque[Any] = deque()
        with self._in_one_line():
            shared = client.submit(dask_shared_task, sealed, key=f"{name}-work", pure=False, **self._only)
            large = sealed.__sizeof__() > SMALL_WORK
            most = 2 * max(1, sum(client.nthreads().values())) + 2
            pieces = iter(enumerate(source.pieces))
            try:
                while True:
                    while len(waiting) < most and (following := next(pieces, None)) is not None:
                        job = SealedPayload([(*following, 0)], 0, None if large else work, withheld=self.withheld)
                        how = {"key": f"{name}-part-{following[0]}", "pure": False, **self._only}
                        waiting.append(client.submit(dask_map_job, job, shared if large else None, **how))
                    if not waiting:
                        return
                    self._wait([waiting[0]], [], None)
                    result = waiting[0].result()
                    waiting.popleft()
                    if isinstance(result, WorkerError):
                        raise self._explained(result, source)
                    yield result
            finally:
                _release_futures([shared, *waiting])

    # -- graphs

    def _groups(self, pieces: Sequence[Any]) -> list[list[int]]:
        """Numbers of parts that one task sums: kept rows go by the worker that has them, and others one by one.

        Rows that are kept are read often, and quickly: a task for each part would cost more than it does.
        """
        if not all(isinstance(piece, RemoteRows) and piece.future is not None for piece in pieces):
            return [[number] for number in range(len(pieces))]
        threads = self._client.nthreads()
        by_worker: dict[str, list[int]] = {}
        for number, piece in enumerate(pieces):
            by_worker.setdefault(piece.where, []).append(number)
        groups: list[list[int]] = []
        for worker, numbers in by_worker.items():
            size = -(-len(numbers) // (TASKS_A_THREAD * threads.get(worker, 1)))
            groups += [numbers[start : start + size] for start in range(0, len(numbers), size)]
        return groups

    def _graph(
        self,
        what: str,
        function: Any,
        source: Table | ClusterRows,
        groups: Sequence[Sequence[int]],
        firsts: Sequence[int],
        rows: int,
        tasks: Any,
    ) -> list[Any]:
        """A task for each group of parts, with what it needs: the pass for its part, or one for all of them."""
        from dask.delayed import delayed

        name, by_part, shared = _fresh_dask_name(what), isinstance(tasks, Sequence), None
        if not by_part and (sealed := SealedPayload(tasks)).__sizeof__() > SMALL_PASS:
            shared = delayed(dask_shared_task, pure=False, traverse=False)(sealed, dask_key_name=f"{name}-pass")
        call, parts = delayed(function, pure=False, traverse=False), []
        for group in groups:
            pieces = [(number, _piece_on_dask_worker(source.pieces[number]), firsts[number]) for number in group]
            lent = [thing for _, piece, _ in pieces for thing in self._lent(innermost_part(piece), source.frame)]
            task = tasks[group[0]] if by_part else None if shared is not None else tasks
            job = SealedPayload(pieces, rows, task, withheld=self.withheld)
            parts.append(call(job, shared, *lent, dask_key_name=f"{name}-part-{group[0]}"))
        return parts

    def _lent(self, part: Any, frame: Any) -> list[Any]:
        """What a worker lends to a part: kept rows, or a partition of the frame."""
        if isinstance(part, RemoteRows):
            return [part.future]
        if frame is None:
            return []
        if frame is not self._frame:
            self._frame, self._partitions = frame, frame.to_delayed(optimize_graph=False)  # it is, by now
        return [self._partitions[part.number]]

    def _merged(self, states: Sequence[Any]) -> Any:
        from dask.delayed import delayed

        name, call, number = _fresh_dask_name("merge"), delayed(dask_merge_job, pure=False, traverse=False), 0
        while len(states) > 1:
            groups = [states[start : start + FAN_IN] for start in range(0, len(states), FAN_IN)]
            states = [call(*group, dask_key_name=f"{name}-{number + k}") for k, group in enumerate(groups)]
            number += len(groups)
        return states[0]

    # -- work under way

    @property
    def _only(self) -> dict[str, Any]:
        """Where tasks may go, as Dask has it; workers are looked at first."""
        return {"workers": self._check_workers(), "allow_other_workers": False}

    def _check_workers(self) -> list[str] | None:
        """Refuse workers that may not have rows, and say which hosts may have tasks.

        Some may have come since the pass began: kept rows move to any worker if the one that has them retires.
        """
        return dask_hosts_for_tasks(self._client, trust_network=self._trusts)

    @contextmanager
    def _started(self, collections: list[Any]) -> Iterator[list[Any]]:
        """Futures of tasks, which the cluster begins with now; whatever goes wrong, it is told to leave them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # rows of a table in memory go there in it
            futures: list[Any] = self._client.compute(collections, **self._only)
        try:
            yield futures
        except BaseException:
            _release_futures(futures)
            raise

    def _wait(self, wanted: Sequence[Any], parts: list[Any], tell: Callable[[int], None] | None) -> None:
        from distributed import wait

        n_parts, keys, seen = len(parts), {future.key for future in wanted}, time.monotonic()
        while True:
            with suppress(TimeoutError), self._client.as_current():
                wait(list(wanted), timeout=_LOOK)
            failed = next((future for future in wanted if future.status in ("error", "cancelled", "lost")), None)
            if failed is not None:
                failed.result()
                raise ClusterError(f"the Dask cluster gave up on a part ({failed.status}); try again")
            if tell is not None:
                _release_futures([future for future in parts if future.status == "finished" and future.key not in keys])
                parts[:] = [future for future in parts if future.status == "pending"]
                tell(n_parts - len(parts))
            if all(future.status == "finished" for future in wanted):
                self._check_workers()
                return
            if time.monotonic() - seen > _CALM and self._client.nthreads():
                self._check_workers()
                seen = time.monotonic()
            elif PATIENCE > time.monotonic() - seen > _LONELY:
                self._bar("no worker yet: waiting", 0, None)
            elif time.monotonic() - seen > PATIENCE:
                raise ClusterError(
                    f"no worker of the Dask cluster came within {PATIENCE:.0f} s; start some: dask worker "
                    f"{dask_address(self._client)}"
                )

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """Turn whatever the cluster raises into one line."""
        try:
            yield
        except RadoError:
            raise
        except Exception as error:
            raise dask_error(error, dask_address(self._client), withheld=self.withheld) from None


def dask_runner(
    cluster: Any, table: Any, bar: Progress, threads: int | None, *, trust_network: bool, promises: bool
) -> DaskRunner:
    """The runner of a Dask cluster: a client, a cluster, an address, or None for the current client or a new one.

    `promises` says that something is promised: Dask's words are then withheld.
    """
    client, name, opened = open_dask_client(cluster, check_threads(threads), trust_network=trust_network)
    return DaskRunner(client, name, opened, bar, threads, trust_network=trust_network, withheld=promises)


def _release_futures(futures: Sequence[Any]) -> None:
    """Let go of results at once: something may still refer to the futures.

    The scheduler forgets tasks that nobody wants, begun or not. To cancel them would trip it: it asserts of each task
    that depends on a cancelled one that somebody wants it, and nobody wants the merges in between.
    """
    for future in reversed(futures):  # what depends on others is last
        with suppress(Exception):
            future.release()


def _fresh_dask_name(what: str) -> str:
    """A name for tasks that tells nothing."""
    return f"radoboost-{what}-{uuid.uuid4().hex}"
