"""The shape of each part of a score: over which values it is shown, and what the columns of the release are there.

Means and deviations are those that the release tells, or else those of columns that are evenly spread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.effects import CATEGORY, NUMBER, PAIR, POINTS, Effects, EffectTerm, basis_of, limits_of, parts_of
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input
from radoboost.tables.schema import Schema

_PAIR_POINTS = 17  # along each column of a pair
_TAILS = 4.0  # deviations from the mean, beyond which there are hardly any rows


@dataclass(frozen=True, eq=False)
class EffectCurve:
    """What is shown of a part, as numbers that its weights are to be multiplied by.

    `rows` are those of the points that are shown, less `middle`, the mean over rows of the table; `spread` are those of
    points that have the given `masses` in the table.
    """

    rows: NDArray[np.float64]
    middle: NDArray[np.float64]
    spread: NDArray[np.float64]
    masses: NDArray[np.float64]


class EffectCurves:
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
        self._shapes: dict[int, EffectCurve] = {}

    def shape(self, k: int) -> EffectCurve:
        """That of a part which is shown."""
        if k not in self._shapes:
            make = {NUMBER: self._number, CATEGORY: self._category, PAIR: self._pair}[self.parts[k].kind]
            self._shapes[k] = make(self.parts[k])
        return self._shapes[k]

    def reach(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
        """The values that a number is shown at, those that it has, and whether they are the same, for want of more."""
        values = np.linspace(*limits_of(name, self.columns, self.map), POINTS)
        reach = np.linspace(*limits_of(name, self.columns, self.map, deviations=_TAILS), 2 * POINTS - 1)
        bounded = bool(reach[0] == values[0] and reach[-1] == values[-1])
        return values, values if bounded else reach, bounded

    def _number(self, part: EffectTerm) -> EffectCurve:
        (name,) = part.names
        values, reach, _ = self.reach(name)
        # Beyond what is shown there are rows, too.
        masses, spread = self.masses(name, reach), self.rows(part, {name: reach})
        return self._centred(part, self.rows(part, {name: values}), spread, masses)

    def _category(self, part: EffectTerm) -> EffectCurve:
        slots = self.slots(part)
        at, masses = np.eye(len(slots)), self._shares(slots)
        if len(slots) == 1:  # by itself it would be its own mean
            share = self.share(slots[0])
            at, masses = np.array([[0.0, 1.0]]), np.array([1 - share, share])
        rows = self.rows(part, dict(zip(slots, at, strict=True)))
        return self._centred(part, rows, rows, masses)

    def _pair(self, part: EffectTerm) -> EffectCurve:
        """First where both are low or high, then along the lines; the mean is taken to be 0."""
        first, second = part.names
        ends = [self._ends(name) for name in part.names]
        along, values, levels = self.along(part)
        other = first if along == second else second
        corners = self.rows(part, {first: np.repeat(ends[0], 2), second: np.tile(ends[1], 2)})
        lines = self.rows(part, {along: np.tile(values, len(levels)), other: np.repeat(levels, len(values))})
        grid = [self._grid(name) for name in part.names]
        at = [np.repeat(grid[0][0], len(grid[1][0])), np.tile(grid[1][0], len(grid[0][0]))]
        spread = self.rows(part, dict(zip(part.names, at, strict=True)))
        masses = np.asarray(np.kron(grid[0][1], grid[1][1]), dtype=np.float64)
        return EffectCurve(np.vstack([corners, lines]), np.zeros(corners.shape[1]), spread, masses)

    def _grid(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of a column of a pair, and how often it has them."""
        if self.is_slot(name):
            share = self.share(name)
            return np.array([0.0, 1.0]), np.array([1 - share, share])
        values = np.linspace(*limits_of(name, self.columns, self.map), _PAIR_POINTS)
        return values, self.masses(name, values)

    def along(self, part: EffectTerm) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
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
        self, part: EffectTerm, rows: NDArray[np.float64], spread: NDArray[np.float64], masses: NDArray[np.float64]
    ) -> EffectCurve:
        """Rows less their mean: columns that were standardised by the rows have a mean of 0, whatever their shape."""
        middle = masses @ spread
        middle[[self.columns[place].scale == "standard" for place in part.places]] = 0.0
        return EffectCurve(rows - middle, middle, spread, masses)

    def rows(self, part: EffectTerm, at: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The columns at a part's places where inputs have these values."""
        return basis_of(part, at, self.columns, self.map)

    # ---- where the values of columns lie

    def slots(self, part: EffectTerm) -> list[str]:
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
        middle, deviation = self._middle(name)
        entry, told, ranked = self._input(name), self._standardised(name), self._input(name, ranked=True)
        if entry is not None and told is not None:
            numbers = entry.apply(values)
            masses = np.exp(-0.5 * np.square((numbers - told[0]) / told[1])) * np.gradient(numbers)
        elif ranked is not None:
            masses = np.gradient(ranked.apply(values))
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
