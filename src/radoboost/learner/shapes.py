"""The shape of each part of a score: over which values it is shown, and what the columns of the release are there.

A cosine is of all columns at once. What a curve shows of it is its mean over the other columns, which are taken for
independent of this one, as partial dependence does, and for normal in the sum that the cosine is of: where that sum has
the mean m and the variance v, the mean of cos(w t + phase + sum) is exp(-v / 2) cos(w t + phase + m). A pair shows of a
cosine the mean over all columns but two, less what the curves of both show. What remains is the rest.

Means, variances and covariances are those that the release tells, or else those of columns that are evenly spread.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.effects import (
    CATEGORY,
    NUMBER,
    PAIR,
    POINTS,
    Effects,
    Part,
    basis_of,
    cosine_inputs,
    limits_of,
    parts_of,
)
from radoboost.release.columns import Column
from radoboost.release.maps import FeatureMap, Input
from radoboost.tables.schema import Schema

_PAIR_POINTS = 17  # along a line of a pair
_NORMAL_ROWS = 1000  # that say how much of cosines remains
_TAILS = 4.0  # deviations from the mean, beyond which there are hardly any rows


@dataclass(frozen=True, eq=False)
class Shape:
    """What is shown of a part, as numbers that the weights at `places` are to be multiplied by.

    The part's own places come first, then those of cosines that show in it. `rows` are those of the points that are
    shown, less `middle`, the mean over rows of the table; `spread` are those of points that have the given `masses`
    in the table.
    """

    places: list[int]
    rows: NDArray[np.float64]
    middle: NDArray[np.float64]
    spread: NDArray[np.float64]
    masses: NDArray[np.float64]


class Shapes:
    """The shapes of all parts of a score; `effects` are what is known of the release behind it, if anything."""

    def __init__(
        self,
        columns: Sequence[Column],
        feature_map: FeatureMap | None,
        schema: Schema | None,
        effects: Effects | None,
    ) -> None:
        self.columns, self.map, self.schema, self.effects = columns, feature_map, schema, effects
        self.parts = parts_of(columns, feature_map, schema)
        self._names = [column.name for column in columns if column.scale != "constant"]
        self._shapes: dict[int, Shape] = {}

    def shape(self, k: int) -> Shape:
        """That of a part which is shown."""
        if k not in self._shapes:
            make = {NUMBER: self._number, CATEGORY: self._category, PAIR: self._pair}[self.parts[k].kind]
            self._shapes[k] = make(self.parts[k])
        return self._shapes[k]

    def errors(self, covariance: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """By the covariance of all weights, the standard errors of what is shown of each part that has cosines."""
        errors = []
        for k, part in enumerate(self.parts):
            errors.append(np.zeros(0))
            if part.shown and self.has_cosines(part):
                shape = self.shape(k)
                some = covariance[np.ix_(shape.places, shape.places)]
                errors[k] = np.sqrt(np.maximum(np.einsum("ij,ij->i", shape.rows @ some, shape.rows), 0.0))
        return tuple(errors)

    def reach(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
        """The values that a number is shown at, those that it has, and whether they are the same, for want of more."""
        values = np.linspace(*limits_of(name, self.columns, self.map), POINTS)
        reach = np.linspace(*limits_of(name, self.columns, self.map, deviations=_TAILS), 2 * POINTS - 1)
        bounded = bool(reach[0] == values[0] and reach[-1] == values[-1])
        return values, values if bounded else reach, bounded

    def _number(self, part: Part) -> Shape:
        (name,) = part.names
        values, reach, _ = self.reach(name)
        # Beyond what is shown there are rows, too.
        masses, spread = self.masses(name, reach), self.rows(part, {name: reach})
        return self._centred(part, self.rows(part, {name: values}), spread, masses)

    def _category(self, part: Part) -> Shape:
        slots = self.slots(part)
        at, masses = np.eye(len(slots)), self._shares(slots)
        if len(slots) == 1:  # by itself it would be its own mean
            share = self.share(slots[0])
            at, masses = np.array([[0.0, 1.0]]), np.array([1 - share, share])
        rows = self.rows(part, dict(zip(slots, at, strict=True)))
        return self._centred(part, rows, rows, masses)

    def _pair(self, part: Part) -> Shape:
        """First where both are low or high, then along the lines; the mean is taken to be 0."""
        first, second = part.names
        ends = [self._ends(name) for name in part.names]
        along, values, levels = self.along(part)
        other = first if along == second else second
        corners = self.rows(part, {first: np.repeat(ends[0], 2), second: np.tile(ends[1], 2)})
        lines = self.rows(part, {along: np.tile(values, len(levels)), other: np.repeat(levels, len(values))})
        spread, shares = corners, [self._end_masses(name) for name in part.names]
        if self.has_cosines(part):  # more than a product, so that two values of each would not do
            grid = [np.linspace(*limits_of(name, self.columns, self.map), _PAIR_POINTS) for name in part.names]
            shares = [self.masses(name, at) for name, at in zip(part.names, grid, strict=True)]
            spread = self.rows(part, {first: np.repeat(grid[0], _PAIR_POINTS), second: np.tile(grid[1], _PAIR_POINTS)})
        masses = np.asarray(np.kron(*shares), dtype=np.float64)
        middle = np.zeros(corners.shape[1])
        return Shape(self._places(part), np.vstack([corners, lines]), middle, spread, masses)

    def along(self, part: Part) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
        """The column that lines of a pair go along, its values, and the levels of the other column, one a line."""
        along, other = part.names
        if self.is_slot(along) and not self.is_slot(other):
            along, other = other, along
        low, high = self._ends(other)
        middle = float(np.clip(self._middle(other)[0], low, high))
        levels = np.array([low, high] if self.is_slot(other) else [low, middle, high])
        ends = (0.0, 1.0) if self.is_slot(along) else limits_of(along, self.columns, self.map)
        return along, np.linspace(*ends, 2 if self.is_slot(along) else _PAIR_POINTS), levels

    def _centred(
        self, part: Part, rows: NDArray[np.float64], spread: NDArray[np.float64], masses: NDArray[np.float64]
    ) -> Shape:
        """Rows less their mean: columns that were standardised by the rows have a mean of 0, whatever their shape."""
        middle, own = masses @ spread, len(part.places)
        middle[:own][[self.columns[place].scale == "standard" for place in part.places]] = 0.0
        return Shape(self._places(part), rows - middle, middle, spread, masses)

    def rows(self, part: Part, at: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The columns at a part's places where inputs have these values; of cosines, their means over all others."""
        own = basis_of(part, at, self.columns, self.map)
        if not self.has_cosines(part):
            return own
        means = self._cosines_at(at)
        if part.kind == PAIR:
            singles = [self._cosines_at({name: values}) for name, values in at.items()]
            means = means - singles[0] - singles[1] + self._cosines_at({})
        return np.column_stack([own, means])

    def _places(self, part: Part) -> list[int]:
        return [*part.places, *self._cosines.places] if self.has_cosines(part) else list(part.places)

    # ---- cosines

    @cached_property
    def _cosines(self) -> "_Cosines":
        return _Cosines.of(self)

    def has_cosines(self, part: Part) -> bool:
        """Whether cosines show in a part: in a pair, those that are of both of its columns."""
        if self.map is None or not self._cosines.places:
            return False
        names = [{slot} for slot in part.names] if part.kind == PAIR else [set(self.inputs_of(part))]
        return all(any(entry.name in some for entry in self._cosines.inputs) for some in names)

    def inputs_of(self, part: Part) -> Sequence[str]:
        """The columns of the table, encoded, that a part is of."""
        return self.slots(part) if part.kind == CATEGORY else part.names

    def _cosines_at(self, at: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """All cosines where some inputs have these raw values, on average over all others; a row for each value."""
        return self._means({k: entry.apply(at[entry.name]) for k, entry in self._cosines.named(at)})

    def _means(self, at: Mapping[int, NDArray[np.float64]]) -> NDArray[np.float64]:
        """All cosines where some inputs, by their places, have these numbers, on average over all others."""
        cosines = self._cosines
        others = [k for k in range(len(cosines.inputs)) if k not in at]
        angles = (cosines.phases + cosines.weights[:, others] @ cosines.means[others])[None, :]
        for k, numbers in at.items():
            angles = angles + np.outer(numbers, cosines.weights[:, k])
        weights, covariance = cosines.weights[:, others], cosines.covariance[np.ix_(others, others)]
        variances = np.maximum(np.einsum("ij,jk,ik->i", weights, covariance, weights), 0.0)
        means = cosines.factors * np.exp(-variances / 2) * np.cos(angles)
        low, high, shift, factor, divisor, offset = cosines.constants
        return np.asarray((np.clip(means, low, high) - shift) * factor / divisor - offset)  # as `Column.apply`

    @cached_property
    def _remaining(self) -> NDArray[np.float64]:
        """What curves and pairs do not show of cosines, in normal rows that have the means and covariances known."""
        cosines = self._cosines
        values, vectors = np.linalg.eigh(cosines.covariance)
        normals = np.random.default_rng(0).standard_normal((_NORMAL_ROWS, len(values)))
        rows = cosines.means + (normals * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        limits = [np.inf if entry.limit is None else entry.limit for entry in cosines.inputs]
        rows = np.clip(rows, -np.array(limits), limits)
        mean = self._means({})
        left = self._means(dict(enumerate(rows.T))) - mean
        singles: dict[str, NDArray[np.float64]] = {}
        for part in sorted(
            (part for part in self.parts if part.shown and self.has_cosines(part)), key=lambda part: part.kind == PAIR
        ):
            at = {k: rows[:, k] for k, _ in cosines.named(self.inputs_of(part))}
            shown = self._means(at) - mean
            if part.kind == PAIR:
                shown = shown - singles[part.names[0]] - singles[part.names[1]]
            else:
                singles[part.names[0]] = shown
            left = left - shown
        return left

    def remaining_variance(self, theta: NDArray[np.float64]) -> float:
        """The variance of what curves and pairs do not show of cosines, under these weights."""
        return float(np.var(self._remaining @ theta[self._cosines.places]))

    def spread_of(self, entry: Input) -> tuple[float, float]:
        """Mean and variance of an input, as terms see it."""
        place = self._names.index(entry.label) if entry.label in self._names else None
        if place is not None and self.columns[place].scale == "standard":
            _, _, shift, _, divisor, _ = self.columns[place].constants
            return shift, divisor**2
        if place is not None and self.effects is not None:
            _, _, shift, factor, divisor, offset = self.columns[place].constants
            unit = divisor / factor
            return shift + (self.effects.means[place] + offset) * unit, (self.effects.deviations[place] * unit) ** 2
        values = self.reach(entry.name)[1]
        masses, numbers = self.masses(entry.name, values), entry.apply(values)
        mean = float(masses @ numbers)
        return mean, float(masses @ np.square(numbers - mean))

    # ---- where the values of columns lie

    def slots(self, part: Part) -> list[str]:
        """The input columns of a category."""
        names = self._names
        if self.map is None:
            return [names[place] for place in part.places]
        of = {entry.label: entry.name for entry in self.map.inputs}
        terms = [self.map.terms[place] for place in part.places]
        return list(dict.fromkeys(of[label] for term in terms for label in term.inputs))

    def _shares(self, slots: Sequence[str]) -> NDArray[np.float64]:
        """How often each value of a category occurs, as far as the release tells."""
        counts = np.maximum([self.share(slot) for slot in slots], 1e-9)
        return np.asarray(counts / counts.sum())

    def share(self, slot: str) -> float:
        """The share of rows that have a 1 in a slot, as far as the release tells; a half where it does not."""
        mean, deviation = self._middle(slot)
        return 0.5 if deviation is None else min(max(mean, 0.0), 1.0)

    def is_slot(self, name: str) -> bool:
        """Whether an encoded column is of a category, or says where a number is missing."""
        return self.schema is not None and name in self.schema.groups

    def masses(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
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
        kept = self.effects
        entry = self._input(name)
        if entry is not None:
            unit = entry.divisor / entry.factor
            told = self._standardised(name)
            if told is not None and not entry.log:
                return entry.neutral + told[0] * unit, told[1] * unit
            if kept is None or entry.label not in self._names or entry.log:
                return entry.neutral, None
            place = self._names.index(entry.label)
            return entry.neutral + kept.means[place] * unit, kept.deviations[place] * unit
        place = self._names.index(name)
        column = self.columns[place]
        if column.mean is not None:
            return column.mean, column.std
        if kept is None or column.scale != "bounds":
            return column.neutral, None
        _, _, shift, factor, divisor, offset = column.constants
        return shift + (kept.means[place] + offset) * divisor / factor, kept.deviations[place] * divisor / factor

    def _standardised(self, name: str) -> tuple[float, float] | None:
        """Mean and standard deviation of an input of the map, where the release standardised it by its rows."""
        entry = self._input(name)
        if entry is None or entry.label not in self._names:
            return None
        column = self.columns[self._names.index(entry.label)]
        if column.scale != "standard" or column.mean is None or not column.std:
            return None
        return column.mean, column.std

    def _end_masses(self, name: str) -> NDArray[np.float64]:
        """How often a column is low, and high."""
        share = self.share(name) if self.is_slot(name) else 0.5
        return np.array([1 - share, share])

    def _ends(self, name: str) -> NDArray[np.float64]:
        """A low and a high value of a column: one deviation from the mean, within bounds; 0 and 1 for a slot."""
        if self.is_slot(name):
            return np.array([0.0, 1.0])
        low, high = limits_of(name, self.columns, self.map)
        middle, deviation = self._middle(name)
        reach = (high - low) / 4 if deviation is None else deviation
        return np.clip([middle - reach, middle + reach], low, high)

    def _input(self, name: str, *, ranked: bool = False) -> Input | None:
        """The input of the map that is made of a column: its ranks, or the column itself."""
        inputs = () if self.map is None else self.map.inputs
        return next((entry for entry in inputs if entry.name == name and bool(entry.levels) == ranked), None)


@dataclass(frozen=True, eq=False)
class _Cosines:
    """The cosines of a map, with the inputs that have a weight in any, how these lie, and the constants of columns."""

    places: list[int]
    inputs: list[Input]
    weights: NDArray[np.float64]
    constants: NDArray[np.float64]
    phases: NDArray[np.float64]
    factors: NDArray[np.float64]
    means: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def named(self, names: Container[str]) -> list[tuple[int, Input]]:
        """The inputs that are of these columns, with their places."""
        return [(k, entry) for k, entry in enumerate(self.inputs) if entry.name in names]

    @classmethod
    def of(cls, shapes: Shapes) -> "_Cosines":
        """Those of a map, with the covariances that the release tells, or as if inputs were independent."""
        assert shapes.map is not None
        places, weights, phases, factors = shapes.map.cosines
        used = cosine_inputs(shapes.map)
        inputs = [shapes.map.inputs[k] for k in used]
        spreads = np.array([shapes.spread_of(entry) for entry in inputs]).reshape(-1, 2)
        covariance = np.diag(spreads[:, 1])
        if shapes.effects is not None and len(shapes.effects.inputs) == len(used):
            covariance = shapes.effects.inputs
        constants = np.array([shapes.columns[place].constants for place in places]).reshape(-1, 6).T
        return cls(places, inputs, weights[:, used], constants, phases[:, 0], factors[:, 0], spreads[:, 0], covariance)
