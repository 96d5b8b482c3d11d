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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
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
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.private_bounds import Binned, CountBins
from radoboost.holder.mechanisms.moments.score_histogram import HitCounts, ScoreCounts
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.lab.audits.canaries import WIDTH, Canary, Runs, Scenario, canary_of_numbers, raw_canary
from radoboost.privacy import Gaussian, Relation
from radoboost.release.feature_map import FeatureMap
from radoboost.release.moment_math import column_weights_and_score_unit
from radoboost.tables import Batch
from radoboost.tables.column_types import PRIVATE
from radoboost.tables.labels import MOST_CLASSES, LabelEncoder
from radoboost.tables.schema import Schema

NUMBERS = canary_of_numbers((6.0, 4.0))  # far beyond the bounds, and with the constant three columns in all
# Just below the edge of a bin, of which a record in its place is just above: in all else the two are alike.
_NUDGE = 2.0**-30
ON_EDGES = canary_of_numbers((0.5 - _NUDGE, 0.25 - _NUDGE))
_FAR = (0.75, -1.0)  # times the canary: on the sphere it is at a right angle, and no column has the same bin
_PULL = (75.0, 15.0)  # other records in units of the noise, and for each column: few enough for few rounds


@dataclass(frozen=True, eq=False)
class _Row:
    """A record as encoded columns, and the place of its class among all classes."""

    values: NDArray[np.float64]
    place: int


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
    whole_number(scenario.n_classes, "n_classes", 2, MOST_CLASSES)
    n_classes, replaced = scenario.n_classes, mechanism.neighbours is Relation.REPLACE
    # An opposite moves no second moments, which have half of the budget where nothing is sharpened.
    far = replaced and not mechanism.sharpen and not scenario.raw
    canary = raw_canary() if scenario.raw else ON_EDGES if replaced and not far else NUMBERS
    d = len(canary.values) + 1
    schema = Schema(numbers=PRIVATE) if scenario.private_bounds else canary.schema
    # What the mechanism is asked, in the way that `craft` asks it, but without rados.
    asked = CraftRequest(replace(schema, classes=tuple(range(n_classes))), mechanism, columns=scenario.columns)
    shape = NoiseShape(d, n_classes=n_classes)
    pairs = max(1, round((_PULL[0] + _PULL[1] * d) / mechanism.distance(shape) / 2))
    labels, engine, runner = [1] * pairs + [0] * pairs, get_engine("auto"), ThreadRunner(1)
    instead = _row_instead_of_canary(mechanism, canary, far)
    place = 1 if n_classes == 2 or instead is not None else 2
    tables = [
        canary.table([*labels, place]),
        canary.table(labels) if instead is None else canary.table([*labels, instead.place], last=instead.values),
    ]
    rows = _Row(canary.values, place), instead, _Row(canary.values, 1), _Row(canary.values, 0)
    listening = _curator_that_keeps_counts(scenario.run)
    ratios = np.empty((2, scenario.runs))
    n_done = 0
    with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would wait for each other
        while n_done < scenario.runs and scenario.going():
            for which, table in enumerate(tables):
                listener = listening(table, engine, runner, _moments_audit_key(scenario.key, which, n_done))
                mechanism.check(asked)
                draft = mechanism.make(asked, listener)
                gifts = [_Contributions(draft, engine, n_classes, row) for row in rows]
                ratios[which, n_done] = _moments_log_ratio(gifts, pairs, listener.heard)
            n_done += 1
            if n_done % 100 == 0:
                scenario.bar("releases with and without the canary", n_done, scenario.runs)
    event = mechanism.dearest(shape if not n_done else draft.circumstances.shape or shape)
    present, absent = ratios[:, :n_done]
    return Runs(event, partial(Gaussian, relation=mechanism.neighbours), present, absent, threshold=0.0)


def _row_instead_of_canary(mechanism: Moments, canary: Canary, far: bool) -> _Row | None:
    """The record in the place of the canary, by what neighbours are; None where there is none."""
    if mechanism.neighbours is Relation.RECORD:
        return None
    if not far:
        return _Row(canary.values + 2 * _NUDGE * (canary is ON_EDGES), 0)
    return _Row(canary.scaled * np.resize(_FAR, len(canary.values)), 0)


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


def _moments_audit_key(key: bytes | None, which: int, run: int) -> bytes:
    if key is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(b"radoboost/audit/moments/" + bytes([which]) + run.to_bytes(8, "little") + key).digest()


@dataclass(frozen=True, eq=False)
class _Contributions:
    """What one record gives to the stages of a release, in grid steps, computed by who knows it; nothing, without one.

    Of two classes a row is an edge vector, whose sign says which. Of more classes it has a slot for each: it adds
    itself to the slot of its own class, and to a mean rado itself in every slot, times its class weights.
    """

    made: ReleaseDraft
    engine: Engine
    n_classes: int
    row: _Row | None

    @property
    def by_class(self) -> bool:
        return self.n_classes > 2

    def _on_sphere(self, through: FeatureMap | None) -> NDArray[np.int32]:
        """The row on the sphere, a column: of the table's own columns, or of those that a map makes."""
        columns, source = self.made.columns, self.made.map
        if source is None:
            limits = [column.constants[:2] for column in columns if column.scale != "constant"]
        else:
            limits = list({one.name: (one.low or 0.0, one.high or 0.0) for one in source.inputs}.values())
        if self.row is None:
            return np.zeros((len(limits) + 1 if through is None else len(columns), 1), np.int32)
        values = self.row.values[None]
        if through is not None:
            values = through.apply(values)
            limits = [(-1.0, 1.0)] * values.shape[1]
        low, high = np.array(limits, dtype=np.float64).T.copy()
        rows, good = self.engine.sphere(values, np.ones(1, np.int8), low, high, CONSTANT_VALUE, GRID)
        assert good.all()
        return rows

    def outline(self) -> NDArray[np.float64]:
        column = self._on_sphere(None)[:, 0].astype(np.float64)
        return np.outer(column, column)

    @cached_property
    def _row_on_sphere(self) -> NDArray[np.int32]:
        return self._on_sphere(self.made.map)

    def second(self) -> NDArray[np.float64]:
        column = self._row_on_sphere[:, 0].astype(np.float64)
        return np.outer(column, column)

    @cached_property
    def _edge(self) -> NDArray[np.int32]:
        """The row whitened and put on the sphere again, times its sign, or with the mark of its class beside it."""
        whitening, row = self.made.blocks["whitening"], self._row_on_sphere
        place = None if self.row is None else self.row.place
        if not self.by_class:
            mark = 0 if place is None else 2 * place - 1
            return self.engine.whiten(row, whitening, np.full(1, mark, np.int8), GRID)
        marked = np.vstack([row, np.full((1, 1), 0 if place is None else place + 1, row.dtype)])
        return Whiten(self.engine, whitening, by_class=True).rows(RowBatch(1, lambda: marked))

    def edge(self) -> NDArray[np.float64]:
        """To the sum: its whitened edge vector, or itself in the slot of its class."""
        if not self.by_class:
            return np.asarray(self._edge.sum(axis=1, dtype=np.int64)[None], dtype=np.float64)
        task = SumProducts(self.engine, len(self._edge) - 1, n_classes=self.n_classes)
        sums = task.empty()
        task.add(sums, 0, RowBatch(1, lambda: self._edge))
        return sums.vector.astype(np.float64)

    def whitened(self) -> NDArray[np.float64]:
        """To the second moments of whitened edge vectors."""
        return self.engine.products(self._edge[:-1] if self.by_class else self._edge)[0].astype(np.float64)

    def tilted(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """To a mean rado, a row for each slot."""
        if not self.by_class:
            return self.engine.tilt(self._edge, theta[0], GRID, CAP)[None].astype(np.float64)
        return self.engine.tilt_classes(self._edge, theta, GRID, WEIGHTS, MOST_SQUARES).astype(np.float64)

    def cells(self) -> NDArray[np.float64]:
        """To the counts by the scores that follow from the release."""
        made, row = self.made, self.row
        if row is None:
            return np.zeros(made.blocks["scores"].shape)
        weights, unit = column_weights_and_score_unit(made.blocks, made.parameters, made.columns)
        rule = LabelEncoder("label", tuple(range(self.n_classes)))
        by = (HitCounts if self.by_class else ScoreCounts)(rule, made.columns[:-1], weights, unit)
        values = row.values[None] if made.map is None else made.map.apply(row.values[None])
        sums = by.empty()
        by.add(sums, 0, Batch(1, pa.array([row.place]), lambda: values, str))
        return sums.cells.astype(np.float64)

    def bins(self, kind: Any, places: Sequence[int]) -> NDArray[np.float64]:
        """To counts of bins of some columns."""
        counts = np.zeros((len(places), kind.n_bins))
        for column, place in enumerate(places):
            if self.row is not None:
                counts[column, kind.numbers(self.row.values[[place]], column)] = GRID
        return counts


def _moments_log_ratio(
    gifts: Sequence[_Contributions], pairs: int, heard: Sequence[tuple[CountBins, NDArray[np.int64]]]
) -> float:
    """The log-likelihood ratio of a release: the sum of those of its stages.

    Known are what the canary gives, the record in its place, and either of so many `pairs` of others.
    """
    there, instead, one, other = gifts
    made, slots = there.made, len(there.made.blocks["moment:b"])
    blocks, noise, rows = made.blocks, made.parameters["noise"], made.parameters["rows"]

    def ratio(released: NDArray[np.float64], stage: str, unit: float, give: Callable[[_Contributions], Any]) -> float:
        """What a stage tells by a released block, once all that is known was taken off."""
        present, absent = give(there), give(instead)
        rest = released * unit - pairs * (give(one) + give(other)) - absent
        # Without noise nothing should change; if something does, it is along what the canary gives.
        return stage_log_ratio(rest, present - absent if noise[stage] else present, noise[stage] * unit)

    total = ratio(blocks["moment:b"], "sum", GRID, _Contributions.edge)
    for name, stage, give in (
        ("outline", "outline", _Contributions.outline),
        ("moment:C", "second", _Contributions.second),
        ("moment:C2", "whitened", _Contributions.whitened),
    ):
        total += ratio(blocks[name], stage, GRID**2, give) if name in blocks else 0.0
    means = blocks.get("sharpened", np.empty((0, len(made.columns))))
    unit = GRID * WEIGHTS if there.by_class else GRID  # so many steps of a mean rado are 1
    for start in range(0, len(means), slots):  # each with the classifier whose weights it has: a row for each slot
        tilted = partial(_Contributions.tilted, theta=blocks["theta"][start : start + slots])
        total += ratio(means[start : start + slots], "rounds", unit, tilted)
    for task, bins in heard:
        total += ratio(bins / GRID, task.stage, GRID, partial(_Contributions.bins, kind=task.kind, places=task.places))
    good = np.array([rows["good"] - rows.get("unforeseen", 0.0)])
    total += ratio(good, "counts", GRID, lambda one: np.full(1, 0.0 if one.row is None else GRID))
    return total + ratio(blocks["scores"], "scores", GRID, _Contributions.cells)


def stage_log_ratio(rest: NDArray[np.float64], change: NDArray[np.float64], sigma: float) -> float:
    """Log-likelihood ratio of `rest` being `change` plus noise, against noise alone.

    It holds for matrices too: off the diagonal the noise is smaller by sqrt(2), and every entry is there twice. Without
    noise `rest` should say nothing; what it does say is returned as it is.
    """
    product = float((rest * change).sum())
    return (product - float((change * change).sum()) / 2) / sigma**2 if sigma else product
