"""craft(): from a table to a release, in two passes over the rows.

The first pass counts rows, settles the classes, checks every value and takes the exact statistics; the second
snaps edge vectors to the grid and sums them. Each thread owns a worker and takes the next batch when it is
free; the workers' integers are added in the end, so neither threads nor batches can change a bit.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from radoboost.columns import CONSTANT, Column
from radoboost.engines import Engine, Summation, Survey, get_engine
from radoboost.errors import ArgumentError, ClippedWarning, TableError, TooLargeError
from radoboost.grid import Bounds, ExactSums, check_bounds, limit_arrays, make_columns, read_bounds, resolve_scale
from radoboost.keystream import TILE_ROWS, make_key
from radoboost.labels import LabelRule
from radoboost.mechanisms import Circumstances, Mechanism, Plain
from radoboost.progress import Progress, no_progress, show_progress
from radoboost.release import BLOCK_COLUMN, RADOS, Release
from radoboost.signatures import AllSignatures, SignatureSet, check_enough_examples, check_n_rados
from radoboost.tables import Batch, Table, open_table

MAX_EXAMPLES = 2**31 - 1  # more, and a rado might not be exact in float64


def craft(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    n_rados: int = 1000,
    mechanism: Mechanism | None = None,
    signatures: SignatureSet | None = None,
    columns: str = "linear",
    scale: str | None = "auto",
    bounds: Bounds = None,
    intercept: bool = True,
    seed: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    progress: bool = False,
) -> Release:
    """Craft rados from a table (Definition 1 of the paper), as a release.

    Rado j is the sum of y_i x_i over the examples i of its signature. Unlike in the paper, features are
    standardised unless `scale` says otherwise, a constant feature is added, and every value is first rounded to
    a dyadic grid, so that rados are exact.

    Parameters
    ----------
    table : array, sparse matrix, data frame, path, list of paths, or glob pattern
        Files may be CSV, CSV.gz, Parquet or Arrow and are read as a stream, twice. Features of an array are
        called x0, x1, ...
    y, label : array-like or str
        The labels, or the name of their column in the table.
    classes : (negative, positive), optional
        The two label values; by default the larger or later one is positive.
    features, drop : sequences of str, optional
        The columns to use, or to leave out.
    n_rados : int
        At most 524,288, and at most the number of signatures there are.
    mechanism : Mechanism, optional
        What protects the release; `Plain()` promises nothing.
    signatures : SignatureSet, optional
        The subsets to draw from; all of them by default.
    columns : str
        The feature map; "linear" takes the columns as they are.
    scale : "auto", "standard", "bounds" or None
        z-scores, [low, high] onto [-1, 1], or as is; "auto" is what the mechanism prescribes.
    bounds : mapping of column to (low, high), array (n_features, 2), or a JSON file, optional
        Values beyond are clipped, counted, and reported in a `ClippedWarning`.
    intercept : bool
        Whether to add the constant feature.
    seed : int, optional
        Makes the signatures reproducible, and known to whoever knows the seed: the statement says so.
    engine, threads : str, int, optional
        How to compute; neither changes a bit of the result. All cores by default.
    progress : bool
        Show a progress bar on stderr where the work takes long.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> release = rb.craft(X, y, n_rados=100)
    >>> release.rados.shape
    (100, 31)
    """
    chosen: Mechanism = Plain() if mechanism is None else mechanism
    subsets: SignatureSet = AllSignatures() if signatures is None else signatures
    n_rados = check_n_rados(n_rados)
    for name, value, needed in (("mechanism", chosen, "statement"), ("signatures", subsets, "words")):
        if not hasattr(value, needed) or isinstance(value, type):
            raise ArgumentError(f"{name} must be an object such as Plain() or AllSignatures(); it is {value!r}")
    if not isinstance(intercept, bool | np.bool_):
        raise ArgumentError(f"intercept must be True or False; it is {intercept!r}")
    if columns != "linear":
        raise ArgumentError(f"columns must be 'linear', the only feature map there is; it is {columns!r}")
    machine = get_engine(engine)
    n_threads = _check_threads(threads)
    key = make_key(seed)
    declared = read_bounds(bounds)
    scale = resolve_scale(scale, chosen.default_scale, declared)
    rule = LabelRule(label or "y", classes)

    source = open_table(table, y, label=label, features=features, drop=drop)
    _check_names(source.features, intercept)
    limits = check_bounds(declared, source.features, scale)
    n_threads = _fit_threads(machine, n_rados, len(source.features) + bool(intercept), n_threads)
    if source.n_rows is not None:
        n_threads = min(n_threads, -(-source.n_rows // TILE_ROWS))

    with (show_progress if progress else no_progress)() as bar:
        seen = _survey(source, rule, machine, limits, scale == "standard", n_threads, bar)
        classes_found = rule.settle()
        check_enough_examples(n_rados, seen.n_rows, subsets)
        described = make_columns(source.features, scale, limits, seen, intercept=intercept)
        workers = _sum(source, rule, machine, described, n_rados, subsets, key, n_threads, seen.n_rows, bar)
    _report_clipped(described, workers)
    totals = workers.pop().result()
    while workers:
        totals += workers.pop().result()
    # Exact: a total is fewer than 2**53 steps.
    rados = totals * np.array([column.step for column in described])
    return Release(
        blocks={RADOS: rados},
        columns=described,
        classes=classes_found,
        mechanism={"name": chosen.name, **chosen.parameters()},
        signatures={"name": subsets.name},
        statement=chosen.statement(Circumstances(scale=scale, seeded=seed is not None)),
        n_examples=seen.n_rows,
    )


# ---- the two passes


def _survey(
    table: Table,
    rule: LabelRule,
    engine: Engine,
    limits: dict[str, tuple[float, float]],
    moments: bool,
    threads: int,
    bar: Progress,
) -> ExactSums:
    """Count rows, note the classes, refuse values that are not finite, take exact statistics."""
    low, high = limit_arrays(limits, table.features)

    def batches() -> Iterator[tuple[int, Batch]]:
        for first, batch in _counted(table, bar, "checking", None):
            rule.see(batch.labels)
            yield first, batch

    def add(worker: Survey, job: tuple[int, Batch]) -> None:
        first, batch = job
        values = batch.values()
        if not worker.add(values):
            table.refuse_not_finite(first, values)

    workers = _share_out(batches(), lambda: engine.survey(low, high, moments=moments), add, threads, threading.Event())
    total = workers.pop().result()
    for worker in workers:
        total.merge(worker.result())
    table.check_rows(total.n_rows)
    if total.n_rows > MAX_EXAMPLES:
        raise TableError(f"{table.name} has {total.n_rows:,} rows; at most {MAX_EXAMPLES:,} can be summed exactly")
    return total


def _sum(
    table: Table,
    rule: LabelRule,
    engine: Engine,
    columns: Sequence[Column],
    n_rados: int,
    signatures: SignatureSet,
    key: bytes,
    threads: int,
    n_rows: int,
    bar: Progress,
) -> list[Summation]:
    """Sum the edge integers of every rado's examples; each worker holds a part."""
    stop = threading.Event()

    def words(first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if stop.is_set():  # a batch may take long: Ctrl-C must not wait for its end
            raise InterruptedError
        return signatures.words(key, n_rados, first_tile, n_tiles, out)

    def jobs() -> Iterator[tuple[int, Batch]]:
        rows = 0
        for first, batch in _counted(table, bar, "summing", n_rows):
            rows = first + batch.n_rows
            yield first, batch
        if rows != n_rows:
            raise TableError(
                f"{table.name} had {n_rows:,} rows at first and {rows:,} when read again; do not change it meanwhile"
            )

    def add(worker: Summation, job: tuple[int, Batch]) -> None:
        first, batch = job
        worker.add(first, batch.values(), rule.signs(batch.labels))

    return _share_out(jobs(), lambda: engine.summation(columns, n_rados, words), add, threads, stop)


def _counted(table: Table, bar: Progress, verb: str, n_rows: int | None) -> Iterator[tuple[int, Batch]]:
    """Batches with the number of their first row."""
    first = 0
    for batch in table.batches():
        yield first, batch
        first += batch.n_rows
        bar(f"{verb} rows", first, n_rows or table.expected_rows(first))


Job = TypeVar("Job")
Worker = TypeVar("Worker")


def _share_out(
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


# ---- checks


def _check_threads(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads must be a whole number of at least 1; it is {threads!r}")
    return threads


def _fit_threads(engine: Engine, n_rados: int, n_features: int, threads: int) -> int:
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


def _check_names(names: Sequence[str], intercept: bool) -> None:
    reserved = {BLOCK_COLUMN, CONSTANT} if intercept else {BLOCK_COLUMN}
    for name in names:
        if name in reserved:
            raise TableError(f"a feature cannot be called {name!r}: a release uses that name; rename or drop it")


def _report_clipped(columns: Sequence[Column], workers: Sequence[Summation]) -> None:
    counts = np.sum([worker.clipped for worker in workers], axis=0)
    named = [f"{column.name!r} {count:,}" for column, count in zip(columns, counts, strict=True) if count]
    if named:
        shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more columns" if len(named) > 8 else "")
        warnings.warn(f"values beyond their bounds were clipped: {shown}", ClippedWarning, stacklevel=3)
