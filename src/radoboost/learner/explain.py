"""What a model does, for people to read: the shape of every column's effect, the strongest pairs, and the rest.

An effect is what a column adds to the score, less its mean over the rows of the release as far as that tells: so 0 is
what an average row has. Bands are two standard errors to either side: by the declared noise, or, for rados, by the rows
and the draw. They come from the covariances of all weights that make a curve, for neighbouring hats are far from
independent; where a model keeps none, a curve of a single weight has a band by that weight's own error.

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

from radoboost.learner.effects import CATEGORY, COSINES, NUMBER, PAIR, POINTS, Part, basis_of, limits_of, parts_of
from radoboost.learner.model import Model
from radoboost.release.maps import Input
from radoboost.tables.kinds import UNITS, Date, seconds_of

MISSING, OTHERS = "missing", "(none of them)"
GAP = "(missing)"  # how a schema names the slot that says where a number is missing
_BAND = 2.0  # standard errors
_TAILS = 4.0  # deviations from the mean, beyond which there are hardly any rows


@dataclass(frozen=True)
class Curve:
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
class Bars:
    """What each value of a category adds to the score; otherwise as `Curve`.

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
    """

    names: tuple[str, str]
    importance: float
    corners: tuple[float, float, float, float]
    band: float | None
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rest:
    """Columns of the release that are of all columns at once, and their share of the variance of the parts of scores.

    It is None where that is not known: the model keeps nothing of its release, or noise exceeds what there is.
    """

    kind: str
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
    curves: tuple[Curve, ...]
    bars: tuple[Bars, ...]
    pairs: tuple[Pair, ...]
    rest: tuple[Rest, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
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
        kinds: list[Sequence[Sequence[Curve | Bars | Pair]]] = [(e.curves, e.bars, e.pairs) for e in self.by_class]
        return tuple(math.hypot(*(item.importance for items in kind for item in items)) for kind in kinds)

    def strongest(self, most: int) -> list[int]:
        """The places of the classes that stand out most, at most so many, in the order of `classes`."""
        importance = self.importance
        return sorted(sorted(range(len(self.classes)), key=lambda k: -importance[k])[:most])

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def explain_model(model: Model) -> Explanation | Explanations:
    """What a model does; of more than two classes, what it does for each.

    >>> import radoboost as rb
    >>> age = rb.Column("age", "standard", step=2.0**-20, mean=40.0, std=8.0)
    >>> dose = rb.Column("dose", "standard", step=2.0**-20, mean=1.0, std=0.5)
    >>> explanation = explain_model(Model(np.array([2.0, -0.5]), (age, dose), ("no", "yes"), {"name": "by hand"}))
    >>> [(curve.name, round(curve.importance, 1)) for curve in explanation.curves]
    [('age', 2.0), ('dose', 0.5)]
    >>> theta = np.array([[5.0, 0.0], [2.0, 0.0], [2.0, 3.0]])
    >>> three = explain_model(Model(theta, (age, dose), ("low", "middle", "high"), {"name": "by hand"}))
    >>> [[(curve.name, round(curve.importance, 1)) for curve in each.curves] for each in three.by_class]
    [[('age', 2.0), ('dose', 1.0)], [('age', 1.0), ('dose', 1.0)], [('dose', 2.0), ('age', 1.0)]]
    """
    if model.n_classes == 2:
        reader = _Reader(model, model.theta)
        read, score = reader.read(), reader.average_score()
        return replace(read, log_odds=float(model.log_odds(np.array([score]))[0]))
    bases: dict[tuple[int, bool], NDArray[np.float64]] = {}
    readers = [
        _Reader(model, theta, place, bases) for place, theta in enumerate(model.theta - model.theta.mean(axis=0))
    ]
    found = [reader.read() for reader in readers]
    chances = np.asarray(softmax([reader.average_score() for reader in readers]))
    odds = logit(np.clip(chances, 1e-300, 1 - 2.0**-53)).tolist()
    by_class = tuple(replace(each, log_odds=log_odds) for each, log_odds in zip(found, odds, strict=True))
    return Explanations(model.classes, tuple(chances.tolist()), by_class)


class _Reader:
    """A model's parts, one after the other, under the weights of its score, or of one class less the mean of all.

    `bases` keeps what the readers of several classes share.
    """

    def __init__(
        self,
        model: Model,
        theta: NDArray[np.float64],
        place: int = 1,
        bases: dict[tuple[int, bool], NDArray[np.float64]] | None = None,
    ) -> None:
        self.model, self.theta, self.place, self.errors = model, theta, place, _errors(model, place)
        self.bases = {} if bases is None else bases
        self.parts = parts_of(model.columns, model.map, model.schema)
        self.average = 0.0

    def read(self) -> Explanation:
        """All of them; the log odds are for the caller to add."""
        made: dict[str, list[Any]] = {NUMBER: [], CATEGORY: [], PAIR: []}
        for k, part in enumerate(self.parts):
            if part.kind in made:
                read = {NUMBER: self._curve, CATEGORY: self._bars, PAIR: self._pair}[part.kind]
                made[part.kind].append(read(k, part))
        curves, bars, pairs = (tuple(sorted(items, key=lambda item: -item.importance)) for items in made.values())
        return Explanation(self.model.classes[self.place], 0.0, curves, bars, pairs, self._rest())

    def average_score(self) -> float:
        """The score of an average row: by the means that the release tells, or by those of the effects."""
        model = self.model
        constant = math.fsum(
            float(theta) for theta, column in zip(self.theta, model.columns, strict=True) if column.scale == "constant"
        )
        if model.effects is None:
            return constant + self.average
        return constant + float(self.theta[: len(model.effects.means)] @ np.array(model.effects.means))

    def _basis(self, k: int, at: dict[str, NDArray[np.float64]], *, drawn: bool = True) -> NDArray[np.float64]:
        if (k, drawn) not in self.bases:
            self.bases[k, drawn] = basis_of(self.parts[k], at, self.model.columns, self.model.map)
        return self.bases[k, drawn]

    def _effect(
        self, k: int, part: Part, basis: NDArray[np.float64], middle: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, float]:
        """The effects of rows of a basis less that of their mean, `middle`, their bands, and the effect of the mean.

        Columns that were standardised by the rows have a mean of 0, whatever the shape of the others.
        """
        middle = np.zeros(basis.shape[1]) if middle is None else middle.copy()
        middle[[self.model.columns[place].scale == "standard" for place in part.places]] = 0.0
        theta = self.theta[list(part.places)]
        centred, band = basis - middle, None
        if self.model.effects is not None:
            covariance = self.model.effects.covariances[k]
            band = _BAND * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, covariance, centred), 0.0))
        elif self.errors is not None and len(part.places) == 1:  # of one weight, its error says all
            band = _BAND * self.errors[part.places[0]] * np.abs(centred[:, 0])
        return centred @ theta, band, float(middle @ theta)

    def _curve(self, k: int, part: Part) -> Curve:
        (name,) = part.names
        values = np.linspace(*limits_of(name, self.model.columns, self.model.map), POINTS)
        reach = np.linspace(*limits_of(name, self.model.columns, self.model.map, deviations=_TAILS), 2 * POINTS - 1)
        bounded = bool(reach[0] == values[0] and reach[-1] == values[-1])
        if bounded:
            reach = values
        # Beyond what is drawn there are rows, too.
        masses, rows = self._masses(name, reach), self._basis(k, {name: reach}, drawn=bounded)
        effects, band, mean = self._effect(k, part, self._basis(k, {name: values}), masses @ rows)
        self.average += mean
        spread = _spread(rows @ self.theta[list(part.places)], masses)
        points, heights, widths = _listed(values, effects, band)
        return Curve(name, spread, points, heights, widths, self._dates(name, values), bounded)

    def _dates(self, name: str, values: NDArray[np.float64]) -> tuple[str, ...] | None:
        kind = None if self.model.schema is None else self.model.schema.columns.get(name)
        if not isinstance(kind, Date):
            return None
        start = np.datetime64("1970-01-01T00:00:00") + np.timedelta64(round(seconds_of(kind.origin)), "s")
        seconds = np.rint(values * UNITS[kind.unit]).astype("timedelta64[s]")
        return tuple(np.datetime_as_string(start + seconds, unit="D").tolist())

    def _bars(self, k: int, part: Part) -> Bars:
        slots = self._slots(part)
        name, rows, masses = part.names[0], np.eye(len(slots)), self._shares(slots)
        values = [slot.removeprefix(f"{name}=") for slot in slots]
        if len(slots) == 1:  # it is there or not: by itself it would be its own mean
            share = self._share(slots[0])
            rows, masses = np.array([[0.0, 1.0]]), np.array([1 - share, share])
            name, values = (f"{name}, a gap", ["there", MISSING]) if values == [GAP] else (name, [OTHERS, *values])
        basis = self._basis(k, dict(zip(slots, rows, strict=True)))
        effects, band, mean = self._effect(k, part, basis, masses @ basis)
        self.average += mean
        rare: tuple[str, ...] = ()
        if self.model.effects is not None and len(part.places) == len(values):
            # Categories are settled so that a value which is too rare has no weight, and no noise in it.
            noise = np.diag(self.model.effects.covariances[k])
            rare = tuple(value for value, variance in zip(values, noise, strict=True) if variance == 0)
        heights, widths = _listed(effects, band)
        return Bars(name, _spread(effects, masses), tuple(values), heights, widths, rare)

    def _pair(self, k: int, part: Part) -> Pair:
        first, second = part.names
        ends = [self._ends(name) for name in part.names]
        basis = self._basis(k, {first: np.repeat(ends[0], 2), second: np.tile(ends[1], 2)})
        effects, band, _ = self._effect(k, part, basis)
        low_low, low_high, high_low, high_high = effects.tolist()
        kept = self.model.effects
        variance = None if kept is None or self.model.n_classes > 2 else kept.variances[k]
        if variance is None:  # as if the two had nothing to do with each other
            one, other = (self._share(name) if self._is_slot(name) else 0.5 for name in part.names)
            masses = np.asarray(np.kron([1 - one, one], [1 - other, other]), dtype=np.float64)
            variance = _spread(effects, masses) ** 2
        corners = (low_low, low_high, high_low, high_high)
        present = tuple(name for name in part.names if self._is_slot(name))
        widest = None if band is None else float(band.max())
        return Pair((first, second), math.sqrt(variance), corners, widest, present)

    def _rest(self) -> tuple[Rest, ...]:
        """Parts of all columns at once; their share is known where the release told the variances of scores."""
        kept = self.model.effects
        variances: Sequence[float | None] = [None] * len(self.parts) if kept is None else kept.variances
        whole = math.fsum(variance or 0.0 for variance in variances)
        return tuple(
            Rest(
                "cosines" if part.kind == COSINES else "products of directions",
                len(part.places),
                None if variance is None or whole <= 0 else variance / whole,
            )
            for part, variance in zip(self.parts, variances, strict=True)
            if not part.shown
        )

    def _slots(self, part: Part) -> list[str]:
        """The input columns of a category."""
        names = self.model.column_names
        if self.model.map is None:
            return [names[place] for place in part.places]
        of = {entry.label: entry.name for entry in self.model.map.inputs}
        terms = [self.model.map.terms[place] for place in part.places]
        return list(dict.fromkeys(of[label] for term in terms for label in term.inputs))

    def _shares(self, slots: Sequence[str]) -> NDArray[np.float64]:
        """How often each value of a category occurs, as far as the release tells."""
        counts = np.maximum([self._share(slot) for slot in slots], 1e-9)
        return np.asarray(counts / counts.sum())

    def _share(self, slot: str) -> float:
        """The share of rows that have a 1 in a slot, as far as the release tells; a half where it does not."""
        mean, deviation = self._middle(slot)
        return 0.5 if deviation is None else min(max(mean, 0.0), 1.0)

    def _is_slot(self, name: str) -> bool:
        return self.model.schema is not None and name in self.model.schema.groups

    def _masses(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How often a column has each of some values, as far as the release tells; evenly where it does not."""
        ranked = self._input(name, ranked=True)
        if ranked is not None:
            levels = ranked.apply(values)
            masses = np.gradient(levels)
        else:
            middle, deviation = self._middle(name)
            entry, told = self._input(name), self._standardised(name)
            if entry is not None and told is not None:
                levels = entry.apply(values)
                masses = np.exp(-0.5 * np.square((levels - told[0]) / told[1])) * np.gradient(levels)
            elif deviation is None:
                return np.full(len(values), 1 / len(values))
            else:
                masses = np.exp(-0.5 * np.square((values - middle) / deviation))
        return np.asarray(masses / masses.sum()) if masses.sum() > 0 else np.full(len(values), 1 / len(values))

    def _middle(self, name: str) -> tuple[float, float | None]:
        """Mean and standard deviation of a column in raw units; the latter is None where nothing is known."""
        model, kept = self.model, self.model.effects
        entry = self._input(name)
        if entry is not None:
            unit = entry.divisor / entry.factor
            told = self._standardised(name)
            if told is not None and not entry.log:
                return entry.neutral + told[0] * unit, told[1] * unit
            if kept is None or entry.label not in model.column_names or entry.log:
                return entry.neutral, None
            place = model.column_names.index(entry.label)
            return entry.neutral + kept.means[place] * unit, kept.deviations[place] * unit
        place = model.column_names.index(name)
        column = model.columns[place]
        if column.mean is not None:
            return column.mean, column.std
        if kept is None or column.scale != "bounds":
            return column.neutral, None
        _, _, shift, factor, divisor, offset = column.constants
        return shift + (kept.means[place] + offset) * divisor / factor, kept.deviations[place] * divisor / factor

    def _standardised(self, name: str) -> tuple[float, float] | None:
        """Mean and standard deviation of an input of the map, where the release standardised it by its rows."""
        entry = self._input(name)
        if entry is None or entry.label not in self.model.column_names:
            return None
        column = self.model.columns[self.model.column_names.index(entry.label)]
        if column.scale != "standard" or column.mean is None or not column.std:
            return None
        return column.mean, column.std

    def _ends(self, name: str) -> NDArray[np.float64]:
        """A low and a high value of a column: one deviation from the mean, within bounds; 0 and 1 for a slot."""
        if self._is_slot(name):
            return np.array([0.0, 1.0])
        low, high = limits_of(name, self.model.columns, self.model.map)
        middle, deviation = self._middle(name)
        reach = (high - low) / 4 if deviation is None else deviation
        return np.clip([middle - reach, middle + reach], low, high)

    def _input(self, name: str, *, ranked: bool = False) -> Input | None:
        """The input of the map that is made of a column: its ranks, or the column itself."""
        inputs = () if self.model.map is None else self.model.map.inputs
        return next((entry for entry in inputs if entry.name == name and bool(entry.levels) == ranked), None)


def _errors(model: Model, place: int) -> NDArray[np.float64] | None:
    """The standard errors of the weights, or of those of one of several classes; None where the model has none."""
    try:
        errors = np.asarray(model.learner.get("standard_errors"), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if errors.shape != model.theta.shape or not np.isfinite(errors).all():
        return None
    return np.abs(errors if model.n_classes == 2 else errors[place])


def _spread(effects: NDArray[np.float64], masses: NDArray[np.float64]) -> float:
    return float(np.sqrt(masses @ np.square(effects - masses @ effects)))


def _listed(*arrays: NDArray[np.float64] | None) -> list[Any]:
    return [None if array is None else tuple(array.tolist()) for array in arrays]
