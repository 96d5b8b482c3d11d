"""A pass over the rows of a table, shared out among threads.

Each thread owns a worker and takes the next batch when it is free; the workers' integers are added in the end, so
neither threads nor batches can change a bit.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ClippedWarning, TableError, TooLargeError
from radoboost.holder.engines import Engine
from radoboost.progress import Progress
from radoboost.release import BLOCK_COLUMN
from radoboost.release.columns import CONSTANT, Column
from radoboost.tables import Batch, Table

MAX_EXAMPLES = 2**31 - 1  # more, and a rado might not be exact in float64


def check_size(table: Table, n_rows: int) -> None:
    """Refuse more rows than can be summed exactly."""
    if n_rows > MAX_EXAMPLES:
        raise TableError(f"{table.name} has {n_rows:,} rows; at most {MAX_EXAMPLES:,} can be summed exactly")


def counted(table: Table, bar: Progress, verb: str, n_rows: int | None) -> Iterator[tuple[int, Batch]]:
    """Batches with the number of their first row; the bar shows how far they are."""
    first = 0
    for batch in table.batches():
        yield first, batch
        first += batch.n_rows
        bar(f"{verb} rows", first, n_rows or table.expected_rows(first))


Job = TypeVar("Job")
Worker = TypeVar("Worker")


def share_out(
    jobs: Iterator[Job],
    make_worker: Callable[[], Worker],
    add: Callable[[Worker, Job], None],
    threads: int,
    stop: threading.Event,
) -> list[Worker]:
    """Feed every job to one of `threads` workers; a free one takes the next, so only that many jobs are in memory."""
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work(worker: Worker) -> None:
        try:
            while not stop.is_set():
                with lock:
                    job = next(jobs, None)
                if job is None:
                    return
                add(worker, job)
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    workers = [make_worker() for _ in range(threads)]
    helpers = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers[1:]]
    try:
        for helper in helpers:
            helper.start()
        work(workers[0])
        for helper in helpers:
            helper.join()
    finally:
        stop.set()  # whatever interrupted the waiting must not leave a thread at work
        for helper in helpers:
            if helper.is_alive():
                helper.join()
    if failures:
        raise failures[0]
    return workers


def check_threads(threads: int | None) -> int:
    """How many threads to use: all cores by default."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads must be a whole number of at least 1; it is {threads!r}")
    return threads


def fit_threads(engine: Engine, n_rados: int, n_features: int, threads: int) -> int:
    """As many threads as have room for their sums; refuse if there is room for none."""
    each = engine.worker_bytes(n_rados, n_features)
    available = int(psutil.virtual_memory().available)
    result = 8 * n_rados * n_features
    if each + result > available:
        raise TooLargeError(
            f"{n_rados:,} rados of {n_features:,} features need {(each + result) / 2**30:.1f} GiB of memory and "
            f"{available / 2**30:.1f} GiB are free; ask for fewer rados, or leave features out"
        )
    return max(1, min(threads, (available - result) // each))


def check_names(names: Sequence[str], intercept: bool) -> None:
    """Refuse feature names that a release needs for itself."""
    reserved = {BLOCK_COLUMN, CONSTANT} if intercept else {BLOCK_COLUMN}
    for name in names:
        if name in reserved:
            raise TableError(f"a feature cannot be called {name!r}: a release uses that name; rename or drop it")


def report_clipped(columns: Sequence[Column], counts: NDArray[np.int64]) -> None:
    """Tell the holder, and nobody else, how many values lay beyond their bounds."""
    named = [f"{column.name!r} {count:,}" for column, count in zip(columns, counts, strict=True) if count]
    if named:
        shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more columns" if len(named) > 8 else "")
        warnings.warn(f"values beyond their bounds were clipped: {shown}", ClippedWarning, stacklevel=4)
