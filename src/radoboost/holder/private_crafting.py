"""Crafting for mechanisms that promise something about records: the table decides nothing but the sums.

Columns, bounds and classes are declared, and whatever is missing is refused before the table is opened. Then there is
one pass. What a record gives is a function of that record (`contributions`), a bad record gives nothing, and neither
whether a release comes out nor its shape depends on a value. Counts of what was clipped or left out go to the
holder as warnings, and never into the release.
"""

import secrets
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ClippedWarning, IgnoredRowsWarning
from radoboost.holder.declared import Declared, check_bounds
from radoboost.holder.engines import Engine, Summation
from radoboost.holder.expected_error import expect
from radoboost.holder.grid import grid_step
from radoboost.holder.mechanisms import Circumstances, Moments, PrivateMechanism
from radoboost.holder.mechanisms.contributions import LARGEST, beyond_bounds, contributions
from radoboost.holder.mechanisms.moments import CONSTANT_VALUE
from radoboost.holder.moments_crafting import Stages, draw_rados
from radoboost.holder.noise import rounded_normals
from radoboost.holder.passes import check_names, check_size, counted, fit_threads, report_clipped, share_out
from radoboost.holder.signatures import AllSignatures, SignatureSet, check_enough_examples
from radoboost.privacy import Event
from radoboost.progress import Progress
from radoboost.release import RADOS, Release
from radoboost.release.columns import Column, constant_column
from radoboost.tables import Batch, Table, open_table
from radoboost.tables.labels import LabelRule

MAX_COLUMNS = 2**18
NO_BOUNDS = (
    "a promise about records needs declared bounds: what is read off the table tells of it; "
    "write a template with: rado bounds TABLE --label COL, fill it in from public knowledge, and give it as bounds"
)


def craft_private(
    table: Any,
    y: Any,
    *,
    label: str | None,
    classes: Sequence[Any] | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
    n_rados: int,
    mechanism: PrivateMechanism | Moments,
    signatures: SignatureSet,
    scale: str | None,
    declared: Declared,
    rows: int | None,
    intercept: bool,
    key: bytes,
    seeded: bool,
    engine: Engine,
    threads: int,
    earlier: tuple[Event, ...],
    bar: Progress,
) -> Release:
    """A release by a private mechanism; see `craft` for the arguments."""
    rule = _check_declared(declared, scale, label, classes, mechanism, signatures, seeded)
    names = _features(declared, features, drop)
    if names is not None:
        check_names(names, intercept)
        given = dict(declared.limits)
        declared = replace(declared, limits={name: given[name] for name in names})
        check_bounds(declared, names, "bounds")
        mechanism.check(n_rados, _check_width(len(names) + intercept))
    if rows is not None:
        _check_carries(mechanism, rows, len(declared.limits) + intercept)
    source = open_table(table, y, label=label, features=names, drop=drop if names is None else (), lenient=True)
    check_names(source.features, intercept)
    limits = check_bounds(declared, source.features, "bounds")
    n_columns = _check_width(len(source.features) + intercept)
    if isinstance(mechanism, Moments):
        return _craft_moments(mechanism, source, rule, limits, intercept, n_rados, seeded, threads, earlier, bar)
    n_rows = None
    if not mechanism.hides_size:
        n_rows = _count(source, bar)
        check_enough_examples(n_rados, n_rows, signatures)
    plan = mechanism.plan(n_rados, n_columns, n_rows)
    columns = [Column(name, "bounds", plan.step, *limits[name]) for name in source.features]
    columns += [constant_column(plan.step)] * intercept
    threads = fit_threads(engine, n_rados, n_columns, threads)

    noise_key = secrets.token_bytes(32)  # never from a seed
    on_examples = mechanism.noise_on == "examples"
    summed = [Column(column.name, "none", plan.step) for column in columns]
    prepared = signatures.prepare(key, n_rados, n_rows or 0, threads)
    stop, lock = threading.Event(), threading.Lock()
    ignored, clipped = 0, np.zeros(len(source.features), dtype=np.int64)

    def words(first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if stop.is_set():
            raise InterruptedError
        return prepared.words(first_tile, n_tiles, out)

    def jobs() -> Iterator[tuple[int, Batch]]:
        rows = 0
        for first, batch in counted(source, bar, "summing", n_rows):
            rows = first + batch.n_rows
            yield first, batch
        if n_rows is not None:
            check_size(source, rows)

    @np.errstate(all="ignore")  # a signalling NaN is no reason to stop
    def add(worker: Summation, job: tuple[int, Batch]) -> None:
        nonlocal ignored, clipped
        first, batch = job
        values, signs = batch.values(), rule.signs_or_zero(batch.labels)
        integers, good = contributions(values, signs, columns, plan.clip, plan.step)
        if on_examples:
            # One draw a row, whatever becomes of the row; beyond the grid it is cut off, which is post-processing.
            integers += rounded_normals(noise_key, plan.noise_scale, first, len(integers), n_columns)
            np.clip(integers, -LARGEST, LARGEST, out=integers)
        worker.add(first, integers * plan.step, np.ones(len(integers), dtype=np.int8))
        with lock:
            ignored += int((~good).sum())
            clipped += beyond_bounds(values, good, columns[: values.shape[1]])

    workers = share_out(jobs(), lambda: engine.summation(summed, n_rados, words), add, threads, stop)
    _tell_holder(columns[: len(clipped)], clipped, ignored)
    totals = workers.pop().result()
    while workers:
        totals += workers.pop().result()
    if mechanism.noise_on == "rados":
        totals += rounded_normals(noise_key, plan.noise_scale, 0, n_rados, n_columns)
    circumstances = Circumstances("bounds", seeded, n_rados, n_columns, n_rows, earlier)
    return Release(
        blocks={RADOS: totals * np.float64(plan.step)},
        columns=tuple(columns),
        classes=rule.declared,
        mechanism={"name": mechanism.name, **mechanism.parameters(circumstances)},
        signatures={"name": signatures.name, **signatures.parameters(n_rows or 0)},
        statement=mechanism.statement(circumstances),
        n_examples=n_rows,
    )


def _craft_moments(
    mechanism: Moments,
    source: Table,
    rule: LabelRule,
    limits: dict[str, tuple[float, float]],
    intercept: bool,
    n_rados: int,
    seeded: bool,
    threads: int,
    earlier: tuple[Event, ...],
    bar: Progress,
) -> Release:
    """A release of the mechanism `moments`: the stages, and rados drawn from them."""
    features = [Column(name, "bounds", 1.0, *limits[name]) for name in source.features]
    stages = Stages(mechanism, source, rule, features, intercept, threads, bar)
    stages.run()
    _tell_holder(features, stages.clipped, stages.n_bad)
    n_rows = None if mechanism.hides_size else stages.n_rows
    rados = draw_rados(stages.blocks["moment:b"][0], stages.blocks["moment:C2"], stages.blocks["whitening"], n_rados)
    if intercept:
        rados[:, -1] /= CONSTANT_VALUE  # for a constant of 1, as everywhere else
    step = grid_step(float(np.abs(rados).max()), "")
    columns = [replace(column, step=step) for column in features] + [constant_column(step)] * intercept
    circumstances = Circumstances("bounds", seeded, n_rados, stages.d, n_rows, earlier)
    parameters = {**mechanism.parameters(circumstances), "constant": CONSTANT_VALUE, "noise": stages.noise()}
    return Release(
        blocks={RADOS: np.rint(rados / step) * step, **stages.blocks},
        columns=tuple(columns),
        classes=rule.declared,
        mechanism={"name": mechanism.name, **parameters, "rounds": stages.rounds, "eta": stages.eta},
        signatures={"name": "drawn"},
        statement=mechanism.statement(circumstances),
        n_examples=n_rows,
    )


def _tell_holder(columns: Sequence[Column], clipped: NDArray[np.int64], ignored: int) -> None:
    """What was clipped or left out, as warnings, and nowhere else."""
    with warnings.catch_warnings():
        # Where warnings are errors, a value would decide whether a release comes out.
        if "error" in (warnings.defaultaction, *(rule[0] for rule in warnings.filters)):  # type: ignore[attr-defined]
            warnings.simplefilter("always", ClippedWarning)
            warnings.simplefilter("always", IgnoredRowsWarning)
        report_clipped(columns, clipped)
        if ignored:
            warnings.warn(
                f"{ignored:,} rows contributed nothing: a value is missing or not finite, or the class is not declared",
                IgnoredRowsWarning,
                stacklevel=4,
            )


def _check_declared(
    declared: Declared,
    scale: str | None,
    label: str | None,
    classes: Sequence[Any] | None,
    mechanism: PrivateMechanism | Moments,
    signatures: SignatureSet,
    seeded: bool,
) -> LabelRule:
    """Refuse what would have to be read off the table."""
    if scale not in ("auto", "bounds"):
        raise ArgumentError(
            f"scale={scale!r} takes its constants from the table; a private mechanism needs scale='bounds' (or 'auto')"
        )
    if declared.from_data:
        raise ArgumentError(
            "these bounds were read off the table (from_data), so they tell of it; fill in a template from public "
            "knowledge instead, made by rado bounds without --from-data"
        )
    if len(declared.limits) == 0:
        raise ArgumentError(NO_BOUNDS)
    if classes is None:
        raise ArgumentError(
            "a private mechanism needs the classes declared: give classes=(negative, positive), or --classes NEG POS"
        )
    if isinstance(mechanism, Moments) and seeded:
        raise ArgumentError("moments has no signatures for a seed to fix; leave it out")
    if isinstance(mechanism, Moments) and not isinstance(signatures, AllSignatures):
        raise ArgumentError("moments draws rados from the moments it releases; leave signatures out")
    if mechanism.hides_size and not isinstance(signatures, AllSignatures):
        raise ArgumentError(
            f"{mechanism.name} draws each example by a secret coin; leave signatures out (a fixed support needs the "
            "number of examples, which is protected)"
        )
    return LabelRule(label or "y", classes)


def _features(declared: Declared, features: Sequence[str] | None, drop: Sequence[str]) -> list[str] | None:
    """The declared columns to use; None where bounds go by position."""
    if declared.names is None:
        return None
    chosen = declared.names if features is None else [features] if isinstance(features, str) else list(features)
    dropped = {drop} if isinstance(drop, str) else set(drop)
    missing = [name for name in chosen if name not in declared.names]
    if missing:
        raise ArgumentError(f"the bounds do not declare {missing[0]!r}; add its low and high, or leave it out")
    return [name for name in chosen if name not in dropped]


def _check_carries(mechanism: PrivateMechanism | Moments, rows: int, n_columns: int) -> None:
    """Refuse an epsilon at which so many declared rows leave next to nothing to learn, before it is spent."""
    assert isinstance(mechanism, Moments)
    found = expect(mechanism, rows, n_columns)
    if not found.carries:
        raise ArgumentError(
            f"epsilon {mechanism.epsilon:g} at delta {mechanism.delta:g}, for {mechanism.relation.value}, would be "
            f"spent for next to nothing: {found.sentence()}; leave rows out to craft all the same"
        )


def _check_width(n_columns: int) -> int:
    """The number of columns, if the sum of their squares fits 64 bits (C3)."""
    if n_columns > MAX_COLUMNS:
        raise ArgumentError(f"a private mechanism takes at most {MAX_COLUMNS:,} columns; there are {n_columns:,}")
    return n_columns


def _count(source: Table, bar: Progress) -> int:
    """How many rows there are, where that is public."""
    if source.n_rows is not None:
        n_rows = source.n_rows
    else:
        n_rows = sum(batch.n_rows for _, batch in counted(source, bar, "counting", None))
    source.check_rows(n_rows)
    return n_rows
