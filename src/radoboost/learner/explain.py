"""What a model does, for people to read: the shape of every column's effect, the strongest pairs, and the rest.

An effect is what a column adds to the score, less its mean over the rows of the release as far as that tells: so 0 is
what an average row has. Bands are two standard errors to either side: by the declared noise, or, for rados, by the rows
and the draw. They come from the covariances of all weights that make a curve, for these are far from independent; where
a model keeps none, a curve of a single weight has a band by that weight's own error. Products of three columns are the
rest, of which only the share is told.

Of more than two classes each has effects of its own: what a column adds to its score, less the mean over classes of
what it adds to theirs, for only differences between scores tell classes apart.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, softmax

from radoboost.errors import ArgumentError
from radoboost.learner.effects import CATEGORY, NUMBER, PAIR, EffectCurve, EffectCurves, EffectTerm, score_terms
from radoboost.learner.model import Model
from radoboost.learner.row_reader import FillCounts, fill_row_batches, open_rows_to_score, scores_of_rows
from radoboost.tables.column_types import UNITS, Date, seconds_of_iso_date

MISSING, OTHERS = "missing", "(none of them)"
GAP = "(missing)"  # how a schema names the slot that says where a number is missing
_BAND = 2.0  # standard errors


@dataclass(frozen=True)
class NumberEffect:
    """What a number adds to the score at some of its values, in raw units, ascending.

    `band` is two standard errors, by the declared noise, or by the rows and the draw of rados; None where nothing is
    known of them.
    `importance` is the standard deviation of the effect over the released distribution of the column. `dates` are the
    values as dates, where the schema says that they are. Where the release has no bounds for the column, the curve is
    not `bounded`: it is drawn to two deviations on either side of the mean, which may be further than values go.
    """

    name: str
    importance: float
    values: tuple[float, ...]
    effects: tuple[float, ...]
    band: tuple[float, ...] | None
    dates: tuple[str, ...] | None = None
    bounded: bool = True


@dataclass(frozen=True)
class CategoryEffect:
    """What each value of a category adds to the score; otherwise as `NumberEffect`.

    A gap is bars, too, with the values "there" and "missing", by the name of what is missing, such as "age, a gap".
    What stands for the missing number has its own effect, on the curve of that column. Values that are `rare` could not
    be told from noise, and have the mean effect.
    """

    name: str
    importance: float
    values: tuple[str, ...]
    effects: tuple[float, ...]
    band: tuple[float, ...] | None
    rare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """What two columns add together, beyond what each adds alone, at low and high values of both.

    Low and high are one standard deviation below and above the mean; a slot of a category is absent or present.
    `present` names those that are slots. `corners` are the effects at (low, low), (low,
    high), (high, low) and (high, high), and `band` is two standard errors of the largest of them.

    `lines` are the effects over `values` of the column `along`, one line for each of the `levels` of the other column:
    low, the mean and high, or 0 and 1 for a slot. `bands` are theirs.
    """

    names: tuple[str, str]
    importance: float
    corners: tuple[float, float, float, float]
    band: float | None
    present: tuple[str, ...] = ()
    along: str = ""
    values: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    lines: tuple[tuple[float, ...], ...] = ()
    bands: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class ResidualEffect:
    """Columns of the release that are of three of the table's, and their share of the variance of the parts of scores.

    It is None where that is not known: the model keeps nothing of its release, or noise exceeds what there is.
    """

    n_columns: int
    share: float | None


@dataclass(frozen=True)
class Explanation:
    """What a model does: curves, bars and pairs, each by importance, and the rest.

    `positive` is the class that positive scores speak for, and `log_odds` are those of a row whose every effect is 0.
    Of more than two classes it is about one of them, `positive`, beside all others.
    """

    positive: Any
    log_odds: float
    curves: tuple[NumberEffect, ...]
    bars: tuple[CategoryEffect, ...]
    pairs: tuple[Pair, ...]
    rest: ResidualEffect | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Explanations:
    """What a model of more than two classes does: an `Explanation` for each of its `classes`, in their order.

    `probabilities` are those of the classes in a row whose every effect is 0. `importance` is how much each class
    stands out: the root of the sum of squares of the importances of its curves, bars and pairs.
    """

    classes: tuple[Any, ...]
    probabilities: tuple[float, ...]
    by_class: tuple[Explanation, ...]

    @property
    def importance(self) -> tuple[float, ...]:
        """How much each class stands out."""
        kinds: list[Sequence[Sequence[NumberEffect | CategoryEffect | Pair]]] = [
            (e.curves, e.bars, e.pairs) for e in self.by_class
        ]
        return tuple(math.hypot(*(item.importance for items in kind for item in items)) for kind in kinds)

    def strongest(self, most: int) -> list[int]:
        """The places of the classes that stand out most, at most so many, in the order of `classes`."""
        importance = self.importance
        return sorted(sorted(range(len(self.classes)), key=lambda k: -importance[k])[:most])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain_model(model: Model) -> Explanation | Explanations:
    """What a model does; of more than two classes, what it does for each."""
    shapes = EffectCurves(model.columns, model.map, model.schema, model.effects)
    if model.n_classes == 2:
        reader = _Reader(model, model.theta, shapes)
        read, score = reader.read(), reader.average_score()
        return replace(read, log_odds=float(model.log_odds(np.array([score]))[0]))
    thetas = model.theta - model.theta.mean(axis=0)
    readers = [_Reader(model, theta, shapes, place) for place, theta in enumerate(thetas)]
    found = [reader.read() for reader in readers]
    chances = np.asarray(softmax([reader.average_score() for reader in readers]))
    odds = logit(np.clip(chances, 1e-300, 1 - 2.0**-53)).tolist()
    by_class = tuple(replace(each, log_odds=log_odds) for each, log_odds in zip(found, odds, strict=True))
    return Explanations(model.classes, tuple(chances.tolist()), by_class)


class _Reader:
    """A model's parts, one after the other, under the weights of its score, or of one class less the mean of all."""

    def __init__(self, model: Model, theta: NDArray[np.float64], shapes: EffectCurves, place: int = 1) -> None:
        self.model, self.theta, self.shapes, self.place = model, theta, shapes, place
        self.errors, self.average = _weight_errors_to_explain(model, place), 0.0

    def read(self) -> Explanation:
        """All of them; the log odds are for the caller to add."""
        made: dict[str, list[Any]] = {NUMBER: [], CATEGORY: [], PAIR: []}
        for k, part in enumerate(self.shapes.parts):
            if part.kind in made:
                read = {NUMBER: self._curve, CATEGORY: self._bars, PAIR: self._pair}[part.kind]
                made[part.kind].append(read(k, part))
        curves, bars, pairs = (tuple(sorted(items, key=lambda item: -item.importance)) for items in made.values())
        shown = math.fsum(item.importance**2 for items in (curves, bars, pairs) for item in items)
        return Explanation(self.model.classes[self.place], 0.0, curves, bars, pairs, self._rest(shown))

    def average_score(self) -> float:
        """The score of an average row: by the means that the release tells, or by those of the effects."""
        model = self.model
        constant = math.fsum(
            float(theta) for theta, column in zip(self.theta, model.columns, strict=True) if column.scale == "constant"
        )
        if model.effects is None:
            return constant + self.average
        return constant + float(self.theta[: len(model.effects.means)] @ np.array(model.effects.means))

    def _effect(self, k: int, part: EffectTerm) -> tuple[EffectCurve, NDArray[np.float64], NDArray[np.float64] | None]:
        """The shape of a part, its effects where they are shown, and their bands."""
        shape = self.shapes.shape(k)
        theta, kept = self.theta[list(part.places)], self.model.effects
        self.average += float(shape.middle @ theta)
        effects, band = shape.rows @ theta, None
        if kept is not None:
            variances = np.einsum("ij,jk,ik->i", shape.rows, kept.covariances[k], shape.rows)
            band = _BAND * np.sqrt(np.maximum(variances, 0.0))
        elif self.errors is not None and len(theta) == 1:  # of one weight, its error says all
            band = _BAND * self.errors[part.places[0]] * np.abs(shape.rows[:, 0])
        return shape, effects, band

    def _curve(self, k: int, part: EffectTerm) -> NumberEffect:
        (name,) = part.names
        shape, effects, band = self._effect(k, part)
        values, _, bounded = self.shapes.reach(name)
        spread = math.sqrt(_variance_of_effects(shape.spread @ self.theta[list(part.places)], shape.masses))
        points, heights, widths = _explanation_types(values, effects, band)
        return NumberEffect(name, spread, points, heights, widths, self._dates(name, values), bounded)

    def _dates(self, name: str, values: NDArray[np.float64]) -> tuple[str, ...] | None:
        kind = None if self.model.schema is None else self.model.schema.columns.get(name)
        if not isinstance(kind, Date):
            return None
        start = np.datetime64("1970-01-01T00:00:00") + np.timedelta64(round(seconds_of_iso_date(kind.origin)), "s")
        seconds = np.rint(values * UNITS[kind.unit]).astype("timedelta64[s]")
        return tuple(np.datetime_as_string(start + seconds, unit="D").tolist())

    def _bars(self, k: int, part: EffectTerm) -> CategoryEffect:
        slots = self.shapes.slots(part)
        name, values = part.names[0], [slot.removeprefix(f"{part.names[0]}=") for slot in slots]
        if len(slots) == 1:  # it is there or not
            name, values = (f"{name}, a gap", ["there", MISSING]) if values == [GAP] else (name, [OTHERS, *values])
        shape, effects, band = self._effect(k, part)
        rare: tuple[str, ...] = ()
        if self.model.effects is not None and len(part.places) == len(values):
            # Categories are settled so that a value which is too rare has no weight, and no noise in it.
            noise = np.diag(self.model.effects.covariances[k])
            rare = tuple(value for value, variance in zip(values, noise, strict=True) if variance == 0)
        heights, widths = _explanation_types(effects, band)
        return CategoryEffect(
            name, math.sqrt(_variance_of_effects(effects, shape.masses)), tuple(values), heights, widths, rare
        )

    def _pair(self, k: int, part: EffectTerm) -> Pair:
        shape, effects, band = self._effect(k, part)
        kept = self.model.effects
        variance = None if kept is None or self.model.n_classes > 2 else kept.variances[k]
        if variance is None:  # as if the two had nothing to do with each other
            variance = _variance_of_effects(shape.spread @ self.theta[list(part.places)], shape.masses)
        low_low, low_high, high_low, high_high = effects[:4].tolist()
        along, values, levels = self.shapes.along(part)
        form = len(levels), len(values)
        return Pair(
            (part.names[0], part.names[1]),
            math.sqrt(variance),
            (low_low, low_high, high_low, high_high),
            None if band is None else float(band[:4].max()),
            tuple(name for name in part.names if self.shapes.is_slot(name)),
            along,
            tuple(values.tolist()),
            tuple(levels.tolist()),
            tuple(_explanation_types(*effects[4:].reshape(form))),
            None if band is None else tuple(_explanation_types(*band[4:].reshape(form))),
        )

    def _rest(self, shown: float) -> ResidualEffect | None:
        """What curves and pairs do not show, with its share where the release told its variance."""
        for k, part in enumerate(self.shapes.parts):
            if not part.shown:
                variance = None if self.model.effects is None else self.model.effects.variances[k]
                whole = shown + (variance or 0.0)
                return ResidualEffect(len(part.places), None if variance is None or whole <= 0 else variance / whole)
        return None


def _weight_errors_to_explain(model: Model, place: int) -> NDArray[np.float64] | None:
    """The standard errors of the weights, or of those of one of several classes; None where the model has none."""
    try:
        errors = np.asarray(model.learner.get("standard_errors"), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if errors.shape != model.theta.shape or not np.isfinite(errors).all():
        return None
    return np.abs(errors if model.n_classes == 2 else errors[place])


def _variance_of_effects(effects: NDArray[np.float64], masses: NDArray[np.float64]) -> float:
    return float(masses @ np.square(effects - masses @ effects))


def _explanation_types(*arrays: NDArray[np.float64] | None) -> list[Any]:
    return [None if array is None else tuple(array.tolist()) for array in arrays]


# ---- One row under a model: how probable each class is, and what each column of the table adds to the score.


@dataclass(frozen=True)
class FeatureContribution:
    """What one column of the table adds to a score, or several together; no names stand for the rest."""

    names: tuple[str, ...]
    effect: float


@dataclass(frozen=True, eq=False)
class ExplainedRow:
    """One row: `score` is `base` plus all `addends`, which are ordered by size.

    The score is the one for `prediction`'s side: of two classes that of the positive class, of more that of the class
    which is predicted, less the mean of all. `base` is the score of an average row as far as the release tells means,
    or else of a row whose every column is in the middle; `average` says which.
    """

    prediction: Any
    probabilities: tuple[float, ...]
    score: float
    base: float
    average: bool
    addends: tuple[FeatureContribution, ...]
    filled: FillCounts


def explain_row(model: Model, row: Any) -> ExplainedRow:
    """What a model says of one row of a raw table, in any form that `Model.predict_proba` takes."""
    source = open_rows_to_score(model, row)
    batches = list(fill_row_batches(model, source))
    if sum(len(values) for _, values, _ in batches) != 1:
        raise ArgumentError("explain_row takes a table of one row; give one")
    _, values, filled = next(batch for batch in batches if len(batch[1]))
    scores = scores_of_rows(model, source, values)
    place = int(model.choices(scores)[0])
    theta, score = model.theta, float(scores[0]) if model.n_classes == 2 else 0.0
    if model.n_classes > 2:
        theta, score = theta[place] - theta.mean(axis=0), float(scores[0, place] - scores[0].mean())
    outputs = values if model.map is None else model.map.apply(values)
    features = [k for k, column in enumerate(model.columns) if column.scale != "constant"]
    scaled = np.array([model.columns[k].apply(outputs[:, place])[0] for place, k in enumerate(features)])
    means = np.zeros(len(features)) if model.effects is None else np.array(model.effects.means)
    known = model.effects is not None or all(model.columns[k].scale == "standard" for k in features)
    added = theta[features] * (scaled - means)
    addends: dict[tuple[str, ...], float] = {}
    owners = _raw_columns_of_encoded(model)
    for part in score_terms(model.columns, model.map, model.schema):
        names = tuple(dict.fromkeys(owners.get(name, name) for name in part.names))
        addends[names] = addends.get(names, 0.0) + float(added[list(part.places)].sum())
    listed = sorted(
        (FeatureContribution(names, effect) for names, effect in addends.items()), key=lambda item: -abs(item.effect)
    )
    chances = tuple(model.probabilities(scores)[0].tolist())
    return ExplainedRow(
        model.classes[place], chances, score, score - float(added.sum()), known, tuple(listed), filled.settled()
    )


def _raw_columns_of_encoded(model: Model) -> dict[str, str]:
    """The column of the raw table that an encoded column, or a group of them, is made of."""
    encoded = () if model.schema is None else model.schema.encoded()
    return {name: each.column for each in encoded for name in (each.group, each.name) if name}
