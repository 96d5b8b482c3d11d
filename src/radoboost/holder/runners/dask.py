"""The runner of a Dask cluster.

A pass is one graph: a task for each part, and merges of eight states at a time, so that one state comes back. What a
task needs is in the graph, sealed: if a worker dies, Dask does its tasks again from there, and neither the scheduler
nor a page or log of Dask's can show what is in it. Tasks have numbers for names.
"""

import pickle
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from radoboost import __version__
from radoboost.errors import ArgumentError, ClusterError, RadoError, TableError
from radoboost.holder.passes import Pass, RowPass, S
from radoboost.holder.runners.clusters import ClusterRows, ClusterRunner
from radoboost.holder.runners.dask_clients import address_of, explained, opened_client
from radoboost.holder.runners.parts import (
    MadePart,
    PartSums,
    Refusal,
    check_reach,
    innermost,
    keep_part,
    merge_parts,
    sum_part,
    worker_name,
)
from radoboost.holder.runners.threads import check_threads
from radoboost.progress import Progress
from radoboost.tables import Source
from radoboost.tables.cluster_frames import borrowed, cluster_of
from radoboost.tables.dask_frames import undetermined

FAN_IN = 8  # states that one task merges
SMALL_PASS = 1 << 16  # bytes: a pass of so many goes with each part; a larger one is a task of its own
SMALL_WORK = 1 << 20  # bytes: the same where only a few parts are under way
PATIENCE = 60.0  # seconds without a worker
_LOOK, _CALM = 0.1, 1.0  # seconds between looks at how far the cluster is, and whether it has workers


# ---- what travels


class Sealed:
    """Something for a worker, which nobody on the way looks into: it prints as no more than that.

    >>> Sealed("secret"), Sealed("secret").opened()
    (Sealed(...), ('secret',))
    """

    def __init__(self, *content: Any) -> None:
        self._content, self._version = pickle.dumps(content, 5), __version__

    def opened(self) -> Any:
        """What is in it, if it was sealed by this version of radoboost."""
        if self._version != __version__:
            raise TableError(
                f"the worker {worker_name()} has radoboost {__version__}, and this machine {self._version}; install "
                "the same version everywhere"
            )
        return pickle.loads(self._content)

    def __repr__(self) -> str:
        return "Sealed(...)"

    def __sizeof__(self) -> int:
        return len(self._content)


class Held:
    """The kept rows of one part, on whichever worker has them; once they are let go, they are made `again`.

    A worker gets the rows by themselves, and lends them to the part.
    """

    def __init__(self, future: Any, again: MadePart) -> None:
        self.future, self.again = future, again

    def __reduce__(self) -> tuple[Any, ...]:
        return LentRows, ()


class LentRows:
    """Kept rows that are lent wherever they are read."""

    def batches(self, rows: int) -> Iterator[Any]:
        """All rows, as they were kept."""
        for part in borrowed():
            yield from part.batches(rows)


def _at_hand(piece: Any) -> Any:
    """A piece as a worker can read it now: rows that were let go are made again."""
    if isinstance(piece, Held):
        return piece if piece.future is not None else _at_hand(piece.again)
    within = getattr(piece, "part", None)
    return piece if within is None else replace(piece, part=_at_hand(within))


# ---- what workers do


def sum_job(job: Sealed, shared: Sealed | None, rows: Any = None) -> PartSums[Any]:
    """The sums of one part; `rows` is its partition of a frame, or its kept rows."""
    number = -1
    try:
        number, piece, first_row, batch_rows, task = _opened(job, shared)
    except RadoError as error:
        return PartSums(None, {}, Refusal(number, error))
    return sum_part(task, piece, number, first_row, batch_rows, None if rows is None else [rows])


def keep_job(job: Sealed, shared: Sealed | None, rows: Any = None) -> Any:
    """The rows of one part, to be kept."""
    _, piece, _, batch_rows, task = _opened(job, shared)
    return keep_part(task, piece, batch_rows, None if rows is None else [rows])


def map_job(job: Sealed, shared: Sealed | None) -> Any:
    """What some work makes of one part, or why it cannot."""
    number = -1
    try:
        number, piece, _, _, work = _opened(job, shared)
        check_reach(piece)
        return work(piece)
    except RadoError as error:
        return Refusal(number, error)


def merge_job(*parts: PartSums[Any]) -> PartSums[Any]:
    """The sums over several parts."""
    return merge_parts(parts)


def itself(sealed: Sealed) -> Sealed:
    """A task that every part needs the result of."""
    return sealed


def _opened(job: Sealed, shared: Sealed | None) -> tuple[int, Any, int, int, Any]:
    """Number, piece, first row and rows of a batch of a job, and what is to be done."""
    number, piece, first_row, batch_rows, task = job.opened()
    return number, piece, first_row, batch_rows, task if shared is None else shared.opened()[0]


# ---- the runner


class DaskRunner(ClusterRunner):
    """Passes on the workers of a Dask client; `opened` are what was opened for this, to be closed afterwards."""

    def __init__(self, client: Any, name: str, opened: Sequence[Any], bar: Progress, threads: int | None) -> None:
        super().__init__(bar, threads)
        self.name, self._client, self._opened = name, client, opened
        self._frames: list[tuple[Any, tuple[str, ...], list[Any]]] = []

    def close(self) -> None:
        """Close what was opened for this runner."""
        self._frames.clear()
        for thing in self._opened:
            with suppress(Exception):
                thing.close()

    def sum_parts(
        self, tasks: Pass[S] | Sequence[Pass[S]], source: Source | ClusterRows, firsts: Sequence[int], rows: int
    ) -> PartSums[S]:
        """The sums of all parts of the source, merged by workers, eight at a time."""
        title = (tasks[0] if isinstance(tasks, Sequence) else tasks).title
        with self._in_one_line():
            parts = self._graph("sum", sum_job, source, firsts, rows, tasks)
            total = self._merged(parts)
            *under_way, final = self._started([*parts, total])
            try:
                self._wait([final], under_way, lambda done: self.tell(title, source, done, len(parts)))
                sums: PartSums[S] = final.result()
            except BaseException:
                self._cancel([final, *under_way])
                raise
        return sums

    def keep_parts(self, task: RowPass, source: Source | ClusterRows, rows: int) -> ClusterRows:
        """The rows that `task` makes of each part, on the workers that made them, in place of those they are made of.

        Dask makes them again if their worker dies.
        """
        with self._in_one_line():
            parts = self._graph("keep", keep_job, source, [0] * len(source.pieces), rows, task)
            futures = self._started(parts)
            try:
                self._wait(futures, list(futures), lambda done: self.tell(task.title, source, done, len(parts)))
            except BaseException:
                self._cancel(futures)
                raise
        pieces = [Held(*pair) for pair in zip(futures, _made(source.pieces, task), strict=True)]
        for piece in source.pieces:
            if isinstance(piece, Held):
                piece.future = None
        return ClusterRows(source.name, source.features, source.n_rows, pieces, source.frame)

    def map_parts(self, work: Callable[[Any], Any], source: Source) -> Iterator[Any]:
        """What `work` makes of each part of the source, in order; only a few results wait to be taken."""
        client, name = self._client, _fresh_name("map")
        sealed = Sealed(work)
        waiting: deque[Any] = deque()
        with self._in_one_line():
            shared = client.submit(itself, sealed, key=f"{name}-work", pure=False)
            large = sealed.__sizeof__() > SMALL_WORK
            most = 2 * max(1, sum(client.nthreads().values())) + 2
            pieces = iter(enumerate(source.pieces))
            try:
                while True:
                    while len(waiting) < most and (following := next(pieces, None)) is not None:
                        job = Sealed(*following, 0, 0, None if large else work)
                        key = f"{name}-part-{following[0]}"
                        waiting.append(client.submit(map_job, job, shared if large else None, key=key, pure=False))
                    if not waiting:
                        return
                    self._wait([waiting[0]], [], None)
                    result = waiting[0].result()
                    waiting.popleft()
                    if isinstance(result, Refusal):
                        raise self._explained(result, source)
                    yield result
            finally:
                self._cancel([shared, *waiting])

    # -- graphs

    def _graph(
        self, what: str, function: Any, source: Source | ClusterRows, firsts: Sequence[int], rows: int, tasks: Any
    ) -> list[Any]:
        """A task for each part, with what it needs: the pass for that part, or one for all of them."""
        from dask.delayed import delayed

        name, by_part, shared = _fresh_name(what), isinstance(tasks, Sequence), None
        if not by_part and (sealed := Sealed(tasks)).__sizeof__() > SMALL_PASS:
            shared = delayed(itself, pure=False, traverse=False)(sealed, dask_key_name=f"{name}-pass")
        call, parts = delayed(function, pure=False, traverse=False), []
        for number, piece in enumerate(source.pieces):
            task = tasks[number] if by_part else None if shared is not None else tasks
            piece = _at_hand(piece)
            lent = self._lent(innermost(piece), source.frame)
            job = Sealed(number, piece, firsts[number], rows, task)
            parts.append(call(job, shared, *lent, dask_key_name=f"{name}-part-{number}"))
        return parts

    def _lent(self, part: Any, frame: Any) -> list[Any]:
        """What a worker lends to a part: kept rows, or a partition of the frame with the columns that are read."""
        if isinstance(part, Held):
            return [part.future]
        if frame is None:
            return []
        for known, columns, partitions in self._frames:
            if known is frame and columns == part.columns:
                return [partitions[part.number]]
        partitions = frame[list(dict.fromkeys(part.columns))].to_delayed()
        self._frames.append((frame, part.columns, partitions))
        return [partitions[part.number]]

    def _merged(self, states: Sequence[Any]) -> Any:
        """One state of all, by a tree."""
        from dask.delayed import delayed

        name, call, number = _fresh_name("merge"), delayed(merge_job, pure=False, traverse=False), 0
        while len(states) > 1:
            groups = [states[start : start + FAN_IN] for start in range(0, len(states), FAN_IN)]
            states = [call(*group, dask_key_name=f"{name}-{number + k}") for k, group in enumerate(groups)]
            number += len(groups)
        return states[0]

    # -- work under way

    def _started(self, collections: list[Any]) -> list[Any]:
        """Futures of tasks, which the cluster begins with now."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # rows of a table in memory go there in it
            futures: list[Any] = self._client.compute(collections)
        return futures

    def _wait(self, wanted: Sequence[Any], parts: list[Any], tell: Callable[[int], None] | None) -> None:
        """Wait for all that is wanted, say how many parts are done, and let go of these."""
        from distributed import wait

        n_parts, seen = len(parts), time.monotonic()
        while True:
            with suppress(TimeoutError):
                wait(list(wanted), timeout=_LOOK)
            failed = next((future for future in wanted if future.status in ("error", "cancelled", "lost")), None)
            if failed is not None:
                failed.result()
                raise ClusterError(f"the Dask cluster gave up on a part ({failed.status}); try again")
            if tell is not None:
                parts[:] = [future for future in parts if future.status != "finished"]
                tell(n_parts - len(parts))
            if all(future.status == "finished" for future in wanted):
                return
            if time.monotonic() - seen > _CALM and self._client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE:
                raise ClusterError(
                    f"no worker of the Dask cluster came within {PATIENCE:.0f} s; start some: dask worker "
                    f"{address_of(self._client)}"
                )

    def _cancel(self, futures: Sequence[Any]) -> None:
        """Leave no task behind, whatever went wrong."""
        with suppress(Exception):
            self._client.cancel(list(futures), force=True)

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """Turn whatever the cluster raises into one line."""
        try:
            yield
        except RadoError:
            raise
        except Exception as error:
            raise explained(error, address_of(self._client)) from None


def dask_runner(
    cluster: Any, table: Any, bar: Progress, threads: int | None, *, trust_network: bool, once: bool
) -> DaskRunner:
    """The runner of a Dask cluster: a client, a cluster, an address, or None for the current client or a new one.

    With `once`, a frame is refused whose rows may be others when Dask computes a partition again.
    """
    if once and cluster_of(table) and (step := undetermined(table)):
        raise ArgumentError(
            "a promise needs rows that are the same whenever a partition is computed again, or one might count twice, "
            f"and after {step} that is not certain of a Dask frame; write it to Parquet files, and craft these"
        )
    client, name, opened = opened_client(cluster, check_threads(threads), trust_network=trust_network)
    return DaskRunner(client, name, opened, bar, threads)


def _made(pieces: Sequence[Any], task: RowPass) -> list[MadePart]:
    """How rows are made again, of the table's own."""
    return [MadePart(piece, task) for piece in pieces]


def _fresh_name(what: str) -> str:
    """A name for tasks that tells nothing."""
    return f"radoboost-{what}-{uuid.uuid4().hex}"
