"""The attack on `moments`: what an adversary who knows all other records makes of the stages of a release.

The other records are pairs of opposite edge vectors, all along the canary's own. So the classifier that sharpening
starts from hardly leans either way, and the canary has nearly the largest weight that a record can have in every
round. Given what was released before, a stage is a known vector, plus noise, plus the canary's contribution if it is
there, or else that of the record in its place: the log-likelihood ratio of each stage follows, and those of the stages
add up. Where a plan makes columns of others, the canary is seen through the feature map of the release.

Of more than two classes, too, the others are of two of them, as many of either. A label that is flipped goes from one
of these to the other: a mean rado moves by all that it can, where beside classes of one size it would move by less. A
canary that is there or not is of a third class, so that its class weights are longer than their cap throughout.

Where bounds are found privately, the adversary is given the noisy counts of bins as well, which no release contains:
the promise covers them, and bounds follow from nothing else.

What is run is the mechanism's `make`, whole, as crafting runs it.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from radoboost.errors import ArgumentError, whole_number
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.mechanisms import Moments, ReleaseDraft
from radoboost.holder.mechanisms.moments.aggregations import (
    CAP,
    CONSTANT_VALUE,
    GRID,
    MOST_SQUARES,
    WEIGHTS,
    SumProducts,
    Whiten,
)
from radoboost.holder.mechanisms.moments.budget import NoiseShape, compose_stage_events
from radoboost.holder.mechanisms.moments.private_bounds import Binned, CountBins
from radoboost.holder.mechanisms.moments.score_histogram import HitCounts, ScoreCounts
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.schema_file import Declared
from radoboost.lab.audits.canaries import WIDTH, Canary, Runs, Scenario, canary_of_numbers, raw_canary
from radoboost.privacy import Event, Gaussian, Relation
from radoboost.release.feature_map import FeatureMap
from radoboost.release.moment_math import column_weights_and_score_unit
from radoboost.tables import Batch
from radoboost.tables.labels import MOST_CLASSES, LabelEncoder

# ---- What rows give to the sums of `moments`, as an adversary who knows the rows computes it.
#
# Of two classes a row is an edge vector, whose sign says which. Of more classes it has a slot for each: it adds itself
# to the slot of its own class, and to a mean rado itself in every slot, times its class weights.


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of rows of so many classes, in grid steps; a row's mark says its class, and 0 that it has none."""

    engine: Engine
    n_classes: int = 2

    def __post_init__(self) -> None:
        number = self.n_classes
        whole_number(number, "n_classes", 2, MOST_CLASSES)

    @property
    def classes(self) -> tuple[int, ...]:
        return tuple(range(self.n_classes))

    @property
    def rule(self) -> LabelEncoder:
        return LabelEncoder("label", self.classes)

    @property
    def by_class(self) -> bool:
        return self.n_classes > 2

    def mark(self, place: int) -> int:
        """The mark of a class, as `LabelEncoder.marks_or_zero` has it."""
        return place + 1 if self.by_class else 2 * place - 1

    @property
    def round_unit(self) -> int:
        """So many steps of a mean rado are 1."""
        return GRID * WEIGHTS if self.by_class else GRID

    def whitened(self, rows: NDArray[Any], a: NDArray[np.float64], marks: NDArray[np.int8]) -> NDArray[np.int32]:
        """Rows on the sphere mapped by `a` and put on it again, times their signs, or with their marks beside them."""
        if not self.by_class:
            return self.engine.whiten(rows, a, marks, GRID)
        marked = np.vstack([rows, marks.astype(rows.dtype)])
        return Whiten(self.engine, a, by_class=True).rows(RowBatch(len(marks), lambda: marked))

    def total(self, white: NDArray[np.int32]) -> NDArray[np.int64]:
        if not self.by_class:
            return np.asarray(white.sum(axis=1, dtype=np.int64)[None])
        task = SumProducts(self.engine, len(white) - 1, n_classes=self.n_classes)
        sums = task.empty()
        task.add(sums, 0, RowBatch(white.shape[1], lambda: white))
        return sums.vector

    def products(self, white: NDArray[np.int32]) -> NDArray[np.int64]:
        return self.engine.products(white[:-1] if self.by_class else white)[0]

    def tilted(self, white: NDArray[np.int32], theta: NDArray[np.float64]) -> NDArray[np.int64]:
        """Of whitened rows: to a mean rado, a row for each slot."""
        if not self.by_class:
            return self.engine.tilt(white, theta[0], GRID, CAP)[None]
        return self.engine.tilt_classes(white, theta, GRID, WEIGHTS, MOST_SQUARES)

    def rounds(self, made: ReleaseDraft) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The released mean rados, each with the classifier whose weights it has; both have a row for each slot."""
        slots = len(made.blocks["moment:b"])
        nothing = np.empty((0, len(made.columns)))
        means, thetas = (made.blocks.get(name, nothing) for name in ("sharpened", "theta"))
        for start in range(0, len(means), slots):
            there = slice(start, start + slots)
            yield means[there], thetas[there]

    def score_counts(self, made: ReleaseDraft) -> ScoreCounts:
        """The last stage: counts by the scores that follow from a release."""
        weights, unit = column_weights_and_score_unit(made.blocks, made.parameters, made.columns)
        kind = HitCounts if self.by_class else ScoreCounts
        return kind(self.rule, made.columns[:-1], weights, unit)


def score_cell_counts(
    by: ScoreCounts, made: ReleaseDraft, values: NDArray[np.float64], places: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How many of these rows, whose classes have these places, are in each cell of the counts; in grid steps."""
    columns = values if made.map is None else made.map.apply(values)
    sums = by.empty()
    by.add(sums, 0, Batch(len(values), pa.array(places), lambda: columns, str))
    return sums.cells.astype(np.float64)


NUMBERS = canary_of_numbers((6.0, 4.0))  # far beyond the bounds, and with the constant three columns in all
# Just below the edge of a bin, of which a record in its place is just above: in all else the two are alike.
_NUDGE = 2.0**-30
ON_EDGES = canary_of_numbers((0.5 - _NUDGE, 0.25 - _NUDGE))
_FAR = (0.75, -1.0)  # times the canary: on the sphere it is at a right angle, and no column has the same bin
_PULL = (75.0, 15.0)  # other records in units of the noise, and for each column: few enough for few rounds
ALL_STAGES = "all stages"
STAGES = ("counts", "bounds", "outline", "second moments", "sum", "whitened moments", "mean rados", "scores")
_STAGE_NAMES = ("counts", "bounds", "outline", "second", "sum", "whitened", "rounds", "scores")  # in the budget
STATISTICS = (
    *STAGES, "sum less a mean rado", "mean rados apart", "searches apart", "numbers without noise",
)  # fmt: skip
OF_SLOTS = ("slots apart",)  # beside these, where there are more than two classes
Part = tuple[NDArray[np.float64], NDArray[np.float64], float]  # what is left, what the canary changes, and the noise


@dataclass(frozen=True, eq=False)
class _Row:
    """A record as encoded columns, and the place of its class among all classes."""

    values: NDArray[np.float64]
    place: int


@dataclass(frozen=True, eq=False)
class _Knowledge:
    """What the adversary knows: the canary, the record in its place if there is one, and how many pairs of others.

    Of a pair one is of the first class, and one of the second.
    """

    canary: _Row
    instead: _Row | None
    pairs: int
    sums: RowSums


_LEAST_DISTANCE = 1e-3  # mu: with more noise the canary's table would have to be too large


def check_noise_can_be_attacked(mechanism: Moments) -> None:
    """Refuse a mechanism with so much noise that no attack can show anything."""
    if mechanism.distance(NoiseShape(WIDTH)) < _LEAST_DISTANCE:
        raise ArgumentError("so much noise hides the canary in any number of runs; attack a mechanism with less")


def moments_canary_runs(mechanism: Moments, scenario: Scenario) -> Runs:
    """Scores of releases with the canary, and of those without it or with its label turned over.

    There are as many others as suit the noise: few, of which "auto" makes a linear plan. A record that is replaced is
    its own opposite, with the other label, but for bins that it is on the edge of.
    """
    check_noise_can_be_attacked(mechanism)
    n_classes, far, replaced = scenario.n_classes, scenario.far, mechanism.neighbours is Relation.REPLACE
    names = (*STATISTICS, *(OF_SLOTS if n_classes > 2 else ()))
    if far and (scenario.raw or not replaced):
        raise ArgumentError("a record that is far is one of numbers, and replaces another; leave far out")
    if far is None:  # an opposite moves no second moments, which have half of the budget where nothing is sharpened
        far = replaced and not mechanism.sharpen and not scenario.raw
    canary = raw_canary() if scenario.raw else ON_EDGES if replaced and not far else NUMBERS
    d = len(canary.values) + 1
    sums = RowSums(get_engine("auto"), n_classes)
    declared = Declared({}, all_private=True) if scenario.private_bounds else canary.declared
    shape = NoiseShape(d, n_classes=n_classes)
    pairs = max(1, round((_PULL[0] + _PULL[1] * d) / mechanism.distance(shape) / 2))
    labels, runner = [1] * pairs + [0] * pairs, ThreadRunner(1)
    instead = _row_instead_of_canary(mechanism, canary, far)
    place = 1 if n_classes == 2 or instead is not None else 2
    tables = [
        canary.table([*labels, place]),
        canary.table(labels) if instead is None else canary.table([*labels, instead.place], last=instead.values),
    ]
    knowledge = _Knowledge(_Row(canary.values, place), instead, pairs, sums)
    listening = _curator_that_keeps_counts(scenario.run)
    statistics = np.empty((2, scenario.runs, len(names)))
    n_done = 0
    with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would wait for each other
        while n_done < scenario.runs and scenario.going():
            for which, table in enumerate(tables):
                listener = listening(table, sums.engine, runner, _moments_audit_key(scenario.key, which, n_done))
                draft = _make_moments_for_audit(mechanism, listener, declared, scenario.columns, sums.classes)
                statistics[which, n_done] = _moments_stage_statistics(draft, knowledge, listener.heard)
            n_done += 1
            if n_done % 100 == 0:
                scenario.bar("releases with and without the canary", n_done, scenario.runs)
    claims = _moments_stage_claims(mechanism, draft) if n_done else {ALL_STAGES: mechanism.dearest(shape)}
    present, absent = (
        {ALL_STAGES: table[:, : len(STAGES)].sum(axis=1), **dict(zip(names, table.T, strict=True))}
        for table in statistics[:, :n_done]
    )
    family = partial(Gaussian, relation=mechanism.neighbours)
    return Runs(claims.pop(ALL_STAGES), family, present, absent, threshold=0.0, by_stage=claims)


def _row_instead_of_canary(mechanism: Moments, canary: Canary, far: bool) -> _Row | None:
    """The record in the place of the canary, by what neighbours are; None where there is none."""
    if mechanism.neighbours is Relation.RECORD:
        return None
    if not far:
        return _Row(canary.values + 2 * _NUDGE * (canary is ON_EDGES), 0)
    return _Row(canary.scaled * np.resize(_FAR, len(canary.values)), 0)


def _moments_stage_claims(mechanism: Moments, made: ReleaseDraft) -> dict[str, Event]:
    """What a release is accounted as, and what each of its stages alone is, by the names of the statistics."""
    shape = made.circumstances.shape
    assert shape is not None
    n_planned = made.blocks["moment:C"].shape[0] if "outline" in made.blocks else 0
    planned = replace(shape, n_planned=n_planned)
    mu, relation = mechanism.distance(shape), mechanism.relation_for(shape)
    claims = {ALL_STAGES: mechanism.dearest(shape)}
    for name, stage in zip(STAGES, _STAGE_NAMES, strict=True):
        parts = [one for one in mechanism.stages(planned, made.parameters["rounds"]) if one.name.startswith(stage)]
        if any(one.share and one.times for one in parts):
            claims[name] = compose_stage_events(parts, mu, relation, shape)
    return claims


def _curator_that_keeps_counts(run: type[Curator]) -> Any:
    """A run that also keeps the noisy counts of the searches for bounds, with what was counted."""

    class Listening(run):  # type: ignore[valid-type, misc]
        def __init__(self, *about: Any) -> None:
            super().__init__(*about)
            self.heard: list[tuple[CountBins, NDArray[np.int64]]] = []

        def sum(self, task: Any, source: Any = None) -> Any:
            self._task = task
            return super().sum(task, source)

        def add_noise(self, total: Any, *noises: NoiseSpec) -> None:
            super().add_noise(total, *noises)
            if isinstance(total, Binned) and self._task.stage.startswith("bounds"):
                self.heard.append((self._task, total.bins.copy()))

    return Listening


def _make_moments_for_audit(
    mechanism: Moments, run: Curator, declared: Declared, columns: str, classes: tuple[int, ...]
) -> ReleaseDraft:
    """What the mechanism makes of a table, in the way that `craft` calls it, without rados."""
    asked = CraftRequest(n_rados=0, signature_key=bytes(32), declared=declared, classes=classes, columns=columns)
    mechanism.check(asked)
    return mechanism.make(asked, run)


def moments_draft_limits(made: ReleaseDraft) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The bounds of the table's own columns, by what is released."""
    if made.map is None:
        limits = [column.constants[:2] for column in made.columns if column.scale != "constant"]
    else:
        limits = list({one.name: (one.low or 0.0, one.high or 0.0) for one in made.map.inputs}.values())
    low, high = np.array(limits, dtype=np.float64).T
    return low.copy(), high.copy()


def sphere_canaries(
    engine: Engine,
    values: NDArray[np.float64],
    limits: tuple[NDArray[np.float64], NDArray[np.float64]],
    through: FeatureMap | None = None,
) -> NDArray[np.int32]:
    """Rows on the sphere, shape (columns, rows): of the table's own columns, or of those that a map makes."""
    if through is not None:
        values = through.apply(values)
        ends = np.ones(values.shape[1])
        limits = -ends, ends
    rows, good = engine.sphere(values, np.ones(len(values), np.int8), *limits, CONSTANT_VALUE, GRID)
    assert good.all()
    return rows


def _moments_audit_key(key: bytes | None, which: int, run: int) -> bytes:
    if key is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(b"radoboost/audit/moments/" + bytes([which]) + run.to_bytes(8, "little") + key).digest()


@dataclass(frozen=True, eq=False)
class _Contributions:
    """What one record gives to the stages of a release, in grid steps; nothing, without a record."""

    made: ReleaseDraft
    sums: RowSums
    row: _Row | None

    def _on_sphere(self, through: FeatureMap | None) -> NDArray[np.int32]:
        width = len(moments_draft_limits(self.made)[0]) + 1 if through is None else len(self.made.columns)
        if self.row is None:
            return np.zeros((width, 1), np.int32)
        return sphere_canaries(self.sums.engine, self.row.values[None], moments_draft_limits(self.made), through)

    def outline(self) -> NDArray[np.float64]:
        return _outer_square_of_row(self._on_sphere(None))

    @cached_property
    def _row_on_sphere(self) -> NDArray[np.int32]:
        return self._on_sphere(self.made.map)

    def second(self) -> NDArray[np.float64]:
        return _outer_square_of_row(self._row_on_sphere)

    @cached_property
    def _edge(self) -> NDArray[np.int32]:
        mark = 0 if self.row is None else self.sums.mark(self.row.place)
        return self.sums.whitened(self._row_on_sphere, self.made.blocks["whitening"], np.full(1, mark, np.int8))

    def edge(self) -> NDArray[np.float64]:
        """To the sum: its whitened edge vector, or itself in the slot of its class."""
        return self.sums.total(self._edge).astype(np.float64)

    def whitened(self) -> NDArray[np.float64]:
        """To the second moments of whitened edge vectors."""
        return self.sums.products(self._edge).astype(np.float64)

    def tilted(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.sums.tilted(self._edge, theta).astype(np.float64)

    def cells(self, by: ScoreCounts) -> NDArray[np.float64]:
        if self.row is None:
            return np.zeros(self.made.blocks["scores"].shape)
        return score_cell_counts(by, self.made, self.row.values[None], np.array([self.row.place]))

    def bins(self, kind: Any, places: Sequence[int]) -> NDArray[np.float64]:
        """To counts of bins of some columns."""
        counts = np.zeros((len(places), kind.n_bins))
        for column, place in enumerate(places if self.row is not None else ()):
            assert self.row is not None
            counts[column, kind.numbers(self.row.values[[place]], column)] = GRID
        return counts


def _moments_stage_statistics(
    made: ReleaseDraft, knowledge: _Knowledge, heard: Sequence[tuple[CountBins, NDArray[np.int64]]]
) -> list[float]:
    """Log-likelihood ratios by stage, and differences that should tell nothing more."""
    blocks, noise, pairs = made.blocks, made.parameters["noise"], knowledge.pairs
    sums, canary = knowledge.sums, knowledge.canary
    there, instead = (_Contributions(made, sums, row) for row in (canary, knowledge.instead))
    one, other = (
        there if place == canary.place else _Contributions(made, sums, _Row(canary.values, place)) for place in (1, 0)
    )

    def part(released: NDArray[np.float64], stage: str, unit: float, give: Callable[[_Contributions], Any]) -> Part:
        """What a stage leaves of a released block, once all that is known was taken off."""
        present, absent = give(there), give(instead)
        rest = released * unit - pairs * (give(one) + give(other)) - absent
        # Without noise nothing should change; if something does, it is along what the canary gives.
        return rest, present - absent if noise[stage] else present, noise[stage] * unit

    squares = {
        stage: part(blocks[name], stage, GRID**2, give)
        for name, stage, give in (
            ("outline", "outline", _Contributions.outline),
            ("moment:C", "second", _Contributions.second),
            ("moment:C2", "whitened", _Contributions.whitened),
        )
        if name in blocks
    }
    vectors = [part(blocks["moment:b"], "sum", GRID, _Contributions.edge)]
    for mean, theta in sums.rounds(made):
        vectors.append(part(mean, "rounds", sums.round_unit, partial(_Contributions.tilted, theta=theta)))
    searches = [
        part(bins / GRID, task.stage, GRID, partial(_Contributions.bins, kind=task.kind, places=task.places))
        for task, bins in heard
    ]
    scored = part(blocks["scores"], "scores", GRID, partial(_Contributions.cells, by=sums.score_counts(made)))
    rows = made.parameters["rows"]
    good = np.array([rows["good"] - rows.get("unforeseen", 0.0)])
    counted = part(good, "counts", GRID, lambda one: np.full(1, 0.0 if one.row is None else GRID))
    total, *means = (stage_log_ratio(*vector) for vector in vectors)
    bare = sum(
        _count_noiseless(rest, change) for rest, change, s in (*searches, *squares.values(), *vectors, scored) if s
    )
    against = 0.0
    if means:
        (r, u, s), (t, v, w) = vectors[:2]
        against = float(np.vdot(r / s - t / w, u / s - v / w))
    found = sum(stage_log_ratio(*one) for one in searches)
    of = {stage: stage_log_ratio(*square) for stage, square in squares.items()}
    early = [stage_log_ratio(*counted), found, of.get("outline", 0.0)]
    stages = [*early, of["second"], total, of["whitened"], sum(means), stage_log_ratio(*scored)]
    apart = [_difference_between_slots(vectors)] if sums.by_class else []
    return [
        *stages,
        against,
        _difference_between_stages(vectors[1:]),
        _difference_between_stages(searches[1:]),
        bare,
        *apart,
    ]


def _outer_square_of_row(row: NDArray[np.int32]) -> NDArray[np.float64]:
    column = row[:, 0].astype(np.float64)
    return np.outer(column, column)


def _difference_between_stages(parts: Sequence[Part]) -> float:
    """What differences of stages that follow each other tell: noise that is used twice drops out of them."""
    return sum(float(((r - s) * (u - v)).sum()) / sigma**2 for (r, u, sigma), (s, v, _) in pairwise(parts) if sigma)


def _difference_between_slots(vectors: Sequence[Part]) -> float:
    """What slots less their mean tell: noise that is the same in all of them drops out."""
    return sum(float(((r - r.mean(axis=0)) * (u - u.mean(axis=0))).sum()) / s**2 for r, u, s in vectors if s)


def stage_log_ratio(rest: NDArray[np.float64], change: NDArray[np.float64], sigma: float) -> float:
    """Log-likelihood ratio of `rest` being `change` plus noise, against noise alone.

    It holds for matrices too: off the diagonal the noise is smaller by sqrt(2), and every entry is there twice. Without
    noise `rest` should say nothing; what it does say is returned as it is.
    """
    product = float((rest * change).sum())
    return (product - float((change * change).sum()) / 2) / sigma**2 if sigma else product


def _count_noiseless(rest: NDArray[np.float64], change: NDArray[Any]) -> int:
    """How many numbers are exactly the canary's part, less how many are exactly what is there without it."""
    places = change != 0
    return int((np.rint(rest[places]) == np.rint(change[places])).sum()) - int((np.rint(rest[places]) == 0).sum())
