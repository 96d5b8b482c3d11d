"""The runner that shares batches among the threads of one process.

Each thread has sums of its own and takes the next batch when it is free. A lock guards the reader, so that about as
many batches are in memory as there are threads, and each knows the number of its first row. Each thread converts its
own batches to numbers. The sums are merged in the end; they are integers, so neither threads nor batches can change a
bit.
"""

import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TypeVar

from radoboost import memory
from radoboost.errors import ArgumentError
from radoboost.holder.aggregation import Aggregation, RowSource, RowTransform, S, merge_accumulators
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.runners.row_cache import CachedRows, CachePolicy, CacheStore, RecomputedRows, cache_rows
from radoboost.progress import Progress, silent
from radoboost.tables import Batch, Table


class ThreadRunner:
    """The runner of one machine.

    `keeping` says how much of the free memory and of the free disk kept rows may take.
    """

    cluster = ""

    def __init__(self, threads: int | None = None, bar: Progress = silent, keeping: CachePolicy | None = None) -> None:
        self.threads, self._bar = check_threads(threads), bar
        self._keeping = CachePolicy() if keeping is None else keeping
        self._passes, self._done = 0, 0

    def expect(self, passes: int) -> None:
        """Announce how many passes there will be in all."""
        self._passes = passes

    def sizes(self, source: Table) -> list[int]:
        return [part.count() for part in source.parts()]

    def run(self, task: Aggregation[S], source: RowSource) -> S:
        """The sum over all rows of the source."""
        rows, on_device = _rows_per_thread_batch(task, source)
        threads = 1 if on_device else self.threads
        if source.n_rows is not None:
            threads = max(1, min(threads, -(-source.n_rows // TILE_ROWS), getattr(task, "most_workers", threads)))
        if threads > 1:
            threads = max(1, min(threads, memory.available_memory() // max(task.worker_bytes, 1)))

        def add(sums: S, job: tuple[int, Batch]) -> None:
            task.add(sums, *job)

        with closing(self._numbered(source, task.title, rows)) as batches:
            total = merge_accumulators(run_worker_threads(batches, [task.empty() for _ in range(threads)], add))
        self._done += 1
        return total

    def keep(self, source: RowSource, task: RowTransform, n_rows: int | None) -> RowSource:
        """The rows in memory, or else in a file that has no name, or else made again whenever they are read."""
        if n_rows is None:
            return RecomputedRows(source, task)
        if isinstance(source, CachedRows) and not source.handed_over:
            # Where that comes to nothing, the rows that they are made of are gone: these are made again, too.
            again = RecomputedRows(source.again, task)
            place: CacheStore = source.place
            source = source.hand_over()
        else:
            found, again = self._keeping.place(2 * n_rows * task.width), RecomputedRows(source, task)
            if found is None:
                return again
            place = found
        with closing(self._numbered(source, task.title, task.rows_at_a_time)) as batches:
            rows = cache_rows(again, place, lambda add: run_worker_threads(batches, [None] * self.threads, add))
        self._done += 1
        return rows

    def _numbered(
        self, source: RowSource, title: str, rows_at_a_time: int | None
    ) -> Generator[tuple[int, Batch], None, None]:
        """Batches with the number of their first row; the bar shows how far they are."""
        first = 0
        for batch in source.batches(rows_at_a_time):
            yield first, batch
            first += batch.n_rows
            rows = source.n_rows or source.expected_rows(first)
            if rows is None:
                self._bar(title, first, None)
            else:
                self._bar(title, self._done * rows + first, max(self._passes, self._done + 1) * rows)


def _rows_per_thread_batch(task: Aggregation[S], source: RowSource) -> tuple[int | None, bool]:
    """How many rows a batch should have, and whether the pass uses them on the device that they lie on."""
    there: int | None = getattr(task, "rows_on_device", None) if getattr(source, "on_device", False) else None
    return (task.rows_at_a_time, False) if there is None else (there, True)


def check_threads(threads: int | None) -> int:
    """How many threads to use: all cores by default."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads must be a whole number of at least 1; it is {threads!r}")
    return threads


Job = TypeVar("Job")
Worker = TypeVar("Worker")


def run_worker_threads(jobs: Iterator[Job], workers: list[Worker], add: Callable[[Worker, Job], None]) -> list[Worker]:
    """Feed every job to one of the workers, each in a thread of its own; a free one takes the next.

    If several jobs fail, what is raised is the failure of the first one, whichever thread was quicker.
    """
    lock, stop = threading.Lock(), threading.Event()
    failures: list[tuple[int, BaseException]] = []
    numbers = itertools.count()

    def work(worker: Worker) -> None:
        number = -1
        try:
            while not stop.is_set():
                with lock:
                    number = next(numbers)
                    job = next(jobs, None)
                if job is None:
                    return
                add(worker, job)  # to its end, though a later job has failed: this one may fail, too
        except BaseException as failure:
            failures.append((number, failure))
            stop.set()

    helpers = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers[1:]]
    try:
        for helper in helpers:
            helper.start()
        work(workers[0])
        for helper in helpers:
            helper.join()
    finally:
        stop.set()  # an interrupt must not leave a thread at work
        for helper in helpers:
            if helper.is_alive():
                helper.join()
    if failures:
        raise min(failures, key=lambda one: (isinstance(one[1], Exception), one[0]))[1]  # an interrupt before all else
    return workers
