"""craft(): from a table to a release, in two passes over the rows.

The first pass counts rows, settles the classes, checks every value and takes the exact statistics; the second
snaps edge vectors to the grid and sums them. Mechanisms that promise something about records may not look at the table
to decide anything: they go another way, in `private_crafting`.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.declared import Bounds, check_bounds, limit_arrays, read_bounds
from radoboost.holder.engines import Engine, Summation, Survey, get_engine
from radoboost.holder.grid import ExactSums, grid_step, make_columns, resolve_scale
from radoboost.holder.keystream import TILE_ROWS, make_key
from radoboost.holder.mechanisms import Circumstances, FeatureBand, Mechanism, Moments, Plain, PrivateMechanism
from radoboost.holder.mechanisms.claims import DEFAULT_DELTA
from radoboost.holder.mechanisms.feature_band import column_bits
from radoboost.holder.passes import (
    check_names,
    check_size,
    check_threads,
    counted,
    fit_threads,
    report_clipped,
    share_out,
)
from radoboost.holder.private_crafting import craft_private
from radoboost.holder.signatures import (
    AllSignatures,
    FeatureInterval,
    SignatureSet,
    check_enough_examples,
    check_n_rados,
)
from radoboost.privacy import Event, epsilon_at, event_from_dict
from radoboost.progress import Progress, no_progress, show_progress
from radoboost.release import RADOS, Release, load
from radoboost.release.columns import Column
from radoboost.tables import Batch, Table, open_table
from radoboost.tables.labels import LabelRule


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
    rows: int | None = None,
    intercept: bool = True,
    seed: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    progress: bool = False,
    compose: Sequence[Release | str | os.PathLike[str]] = (),
    i_know: bool = False,
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
        What protects the release: `NoisyRados`, `NoisyExamples`, `FeatureBand`; `Plain()` promises nothing.
    signatures : SignatureSet, optional
        The subsets to draw from; all of them by default.
    columns : str
        The feature map; "linear" takes the columns as they are.
    scale : "auto", "standard", "bounds" or None
        z-scores, [low, high] onto [-1, 1], or as is; "auto" is what the mechanism prescribes.
    bounds : mapping of column to (low, high), array (n_features, 2), or a JSON file, optional
        Values beyond are clipped, counted, and reported in a `ClippedWarning`.
    rows : int, optional
        About how many rows there are, from public knowledge, for `Moments`: an epsilon that so few cannot carry is
        refused, with what error to expect, before it is spent.
    intercept : bool
        Whether to add the constant feature.
    seed : int, optional
        Makes the signatures reproducible, and known to whoever knows the seed: the statement says so. Noise is
        never reproducible.
    engine, threads : str, int, optional
        How to compute; neither changes a bit of the result. All cores by default.
    progress : bool
        Show a progress bar on stderr where the work takes long.
    compose : sequence of releases or their paths
        Earlier releases of the same table: the statement says what all of them amount to together.
    i_know : bool
        Allow a seed with a private mechanism, at an infinite epsilon.

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
    n_rados = check_n_rados(n_rados)
    for name, value, needed in (("mechanism", chosen, "statement"), ("signatures", signatures, "prepare")):
        if value is not None and (not hasattr(value, needed) or isinstance(value, type)):
            raise ArgumentError(f"{name} must be an object such as Plain() or AllSignatures(); it is {value!r}")
    if isinstance(signatures, FeatureInterval):
        raise ArgumentError("a feature interval is made for one column; use mechanism=FeatureBand(column, epsilon)")
    if not isinstance(intercept, bool | np.bool_):
        raise ArgumentError(f"intercept must be True or False; it is {intercept!r}")
    if columns != "linear":
        raise ArgumentError(f"columns must be 'linear', the only feature map there is; it is {columns!r}")
    if rows is not None and not isinstance(chosen, Moments):
        raise ArgumentError("what so many rows can carry is known of the mechanism moments only; leave rows out")
    machine = get_engine(engine)
    n_threads = check_threads(threads)
    key = make_key(seed)
    declared = read_bounds(bounds)
    label = label if label is not None or y is not None else declared.label
    classes = declared.classes if classes is None else classes
    earlier = tuple(_event(release) for release in compose)
    with (show_progress if progress else no_progress)() as bar:
        if chosen.private:
            if seed is not None and not i_know:
                raise ArgumentError(
                    "a seed makes the signatures known, and every promise with it; leave it out, or say i_know"
                    " (--i-know) to get a release with an infinite epsilon"
                )
            return craft_private(
                table, y, label=label, classes=classes, features=features, drop=drop, n_rados=n_rados,
                mechanism=cast(PrivateMechanism, chosen), signatures=signatures or AllSignatures(), scale=scale,
                declared=declared, rows=rows,
                intercept=bool(intercept), key=key, seeded=seed is not None, engine=machine, threads=n_threads,
                earlier=earlier, bar=bar,
            )  # fmt: skip
        band = chosen if isinstance(chosen, FeatureBand) else None
        if band is not None and signatures is not None:
            raise ArgumentError("FeatureBand brings its own signatures; leave signatures out")
        scale = resolve_scale(scale, chosen.default_scale, len(declared.limits) > 0)
        rule = LabelRule(label or "y", classes)
        source = open_table(table, y, label=label, features=features, drop=drop)
        check_names(source.features, intercept)
        limits = check_bounds(declared, source.features, scale)
        if band is not None and band.feature not in source.features:
            raise TableError(f"{source.name} has no feature {band.feature!r} for the band; name another")
        n_threads = fit_threads(machine, n_rados, len(source.features) + bool(intercept), n_threads)
        if source.n_rows is not None:
            n_threads = min(n_threads, -(-source.n_rows // TILE_ROWS))

        if band is not None:
            limits.pop(band.feature, None)  # its two values are its bounds
        moments = scale == "standard" or band is not None
        seen = _survey(source, rule, machine, limits, moments, n_threads, bar)
        classes_found = rule.settle()
        described = summed = make_columns(source.features, scale, limits, seen, intercept=bool(intercept))
        flips = None
        if band is None:
            subsets = AllSignatures() if signatures is None else signatures
            check_enough_examples(n_rados, seen.n_rows, subsets)
        else:
            subsets = band.signatures(seen.n_rows, n_rados)
            flips = protected, (low, high) = _protected(band, seen, source.features)
            step = grid_step(1.0, band.feature)
            described = _with(described, protected, Column(band.feature, "bounds", step, low, high))
            # For the sums the same numbers, without bounds to look at: nothing lies beyond them.
            halves = {"mean": (low + high) / 2, "std": (high - low) / 2}
            summed = _with(summed, protected, Column(band.feature, "standard", step, **halves))
        workers = _sum(source, rule, machine, summed, n_rados, subsets, key, n_threads, seen.n_rows, bar, flips)
    report_clipped(described, np.sum([worker.clipped for worker in workers], axis=0))
    totals = workers.pop().result()
    while workers:
        totals += workers.pop().result()
    circumstances = Circumstances(scale, seed is not None, n_rados, len(described), seen.n_rows, earlier)
    return Release(
        # Exact: a total is fewer than 2**53 steps.
        blocks={RADOS: totals * np.array([column.step for column in described])},
        columns=described,
        classes=classes_found,
        mechanism={"name": chosen.name, **chosen.parameters(circumstances)},
        signatures={"name": subsets.name, **subsets.parameters(seen.n_rows)},
        statement=chosen.statement(circumstances),
        n_examples=seen.n_rows,
    )


def _protected(band: FeatureBand, seen: ExactSums, features: Sequence[str]) -> tuple[int, tuple[float, float]]:
    """Which column a band is about, and its two values."""
    place = features.index(band.feature)
    return place, band.coding(seen, place)


def _with(columns: tuple[Column, ...], place: int, column: Column) -> tuple[Column, ...]:
    """The columns with another one in that place."""
    return (*columns[:place], column, *columns[place + 1 :])


def _event(release: Release | str | os.PathLike[str]) -> Event:
    """What an earlier release cost."""
    if isinstance(release, str | os.PathLike):
        release = load(release)
    if not isinstance(release, Release):
        raise ArgumentError(f"compose needs releases, or paths of them; one is a {type(release).__name__}")
    event, statement = event_from_dict(release.statement.event), release.statement
    if event.relation is None or epsilon_at(event, statement.delta or DEFAULT_DELTA) > statement.epsilon:
        raise ArgumentError(
            "a release to compose with says less of its cost than its own account; it is not to be trusted"
        )
    return event


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
        for first, batch in counted(table, bar, "checking", None):
            rule.see(batch.labels)
            yield first, batch

    def add(worker: Survey, job: tuple[int, Batch]) -> None:
        first, batch = job
        values = batch.values()
        if not worker.add(values):
            table.refuse_not_finite(first, values)

    workers = share_out(batches(), lambda: engine.survey(low, high, moments=moments), add, threads, threading.Event())
    total = workers.pop().result()
    for worker in workers:
        total.merge(worker.result())
    table.check_rows(total.n_rows)
    check_size(table, total.n_rows)
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
    flips: tuple[int, tuple[float, float]] | None,
) -> list[Summation]:
    """Sum the edge integers of every rado's examples; each worker holds a part.

    `flips` names a binary column and its two values: where it makes y_i x_i = +1, example i is in the rados whose
    signature does not have it (the band of FeatureBand).
    """
    stop = threading.Event()
    prepared = signatures.prepare(key, n_rados, n_rows, threads)
    mine = threading.local()

    def words(first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if stop.is_set():  # a batch may take long: Ctrl-C must not wait for its end
            raise InterruptedError
        out = prepared.words(first_tile, n_tiles, out)
        if flips is not None:
            out ^= mine.bits[first_tile - mine.tile : first_tile - mine.tile + n_tiles, None]
        return out

    def jobs() -> Iterator[tuple[int, Batch]]:
        rows = 0
        for first, batch in counted(table, bar, "summing", n_rows):
            rows = first + batch.n_rows
            yield first, batch
        if rows != n_rows:
            raise TableError(
                f"{table.name} had {n_rows:,} rows at first and {rows:,} when read again; do not change it meanwhile"
            )

    def add(worker: Summation, job: tuple[int, Batch]) -> None:
        first, batch = job
        values, signs = batch.values(), rule.signs(batch.labels)
        if flips is not None:
            mine.tile, mine.bits = (
                first // TILE_ROWS,
                _tile_words(first, column_bits(values[:, flips[0]], signs, flips[1])),
            )
        worker.add(first, values, signs)

    return share_out(jobs(), lambda: engine.summation(columns, n_rados, words), add, threads, stop)


def _tile_words(first_row: int, bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """One bit a row, as the words of the tiles that the rows lie in.

    >>> _tile_words(62, np.array([True, False, True])).tolist() == [1 << 62, 1]
    True
    """
    skip = first_row % TILE_ROWS
    padded = np.zeros(-(-(skip + len(bits)) // TILE_ROWS) * TILE_ROWS, dtype=np.uint8)
    padded[skip : skip + len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64)
