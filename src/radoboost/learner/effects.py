"""What a score is made of: a part for every column of the table, one for every pair, and the rest.

The terms of a feature map that are of one column alone, such as its rank and its polynomials, are one part: together
they are the shape of that column's effect. The slots of a category are one part, too. All products of the same two
columns are one part: together they are a surface. Products of three columns are the rest.

Besides theta, a model keeps of its release what is needed to draw that with bands: the covariances of the weights
within each part, by the declared noise, and where the values of columns lie.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ModelError
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input
from radoboost.tables.schema import Schema

NUMBER, CATEGORY, PAIR, REST = "number", "category", "pair", "rest"
POINTS = 65  # along a curve: the levels of ranks are at these


@dataclass(frozen=True)
class EffectTerm:
    """One part of a score: the columns of the table that it is of, and the places of the weights that make it."""

    kind: str
    names: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def shown(self) -> bool:
        """Whether it is of few columns, so that it can be shown by itself."""
        return self.kind != REST

    @property
    def kept(self) -> tuple[int, ...]:
        """The places whose covariances a model keeps: those of parts that are shown."""
        return self.places if self.shown else ()


def score_terms(columns: Sequence[Column], feature_map: FeatureMap | None, schema: Schema | None) -> list[EffectTerm]:
    """The parts of a score, in the order of their first columns."""
    groups = {} if schema is None else schema.groups
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    features = [column.name for column in columns if column.scale != "constant"]
    for place, name in enumerate(features):
        found.setdefault(_effect_term_of_column(name, place, feature_map, groups), []).append(place)
    return [EffectTerm(kind, names, tuple(places)) for (kind, names), places in found.items()]


def _effect_term_of_column(
    name: str, place: int, feature_map: FeatureMap | None, groups: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    if feature_map is None:
        return _effect_of_single_column(name, groups)
    term = feature_map.terms[place]
    of = {entry.label: entry.name for entry in feature_map.inputs}
    names = tuple(dict.fromkeys(of[label] for label in term.inputs))
    if len(names) > 2:
        return REST, ()
    return (PAIR, names) if len(names) == 2 else _effect_of_single_column(names[0], groups)


def _effect_of_single_column(name: str, groups: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    return (CATEGORY, (groups[name],)) if name in groups else (NUMBER, (name,))


@dataclass(frozen=True, eq=False)
class Effects:
    """What a model keeps of its release to explain itself: by part, in the order of `score_terms`.

    `covariances` are those of the weights by the declared noise, and `variances` those of the parts of scores, by the
    released second moments; None where noise exceeds them. `means` and `deviations` are of the columns of the release,
    as these are scaled. Of more than two classes, `covariances` are those of the weights of any one class less the mean
    over classes, for noise is the same in all of them, and `variances` are means over classes.
    """

    covariances: tuple[NDArray[np.float64], ...]
    variances: tuple[float | None, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON data: of each covariance the rows up to the diagonal, one after the other."""
        return {
            "covariances": [matrix[np.tril_indices(len(matrix))].tolist() for matrix in self.covariances],
            "variances": list(self.variances),
            "means": list(self.means),
            "deviations": list(self.deviations),
        }

    @classmethod
    def from_dict(cls, entry: Any, parts: Sequence[EffectTerm], n_columns: int) -> Self:
        """Effects from a document, refused where they are not those of these parts."""
        try:
            covariances = [
                _symmetric_from_half(numbers, len(part.kept))
                for numbers, part in zip(entry["covariances"], parts, strict=True)
            ]
            variances = [None if number is None else float(number) for number in entry["variances"]]
            numbers = [[float(number) for number in entry[key]] for key in ("means", "deviations")]
        except (KeyError, TypeError, ValueError):
            raise ModelError("what the model keeps about its effects cannot be understood") from None
        lengths, known = [len(parts), n_columns, n_columns], [number for number in variances if number is not None]
        finite = all(np.isfinite(np.array(values)).all() for values in (*covariances, known, *numbers))
        fits = [len(variances), *map(len, numbers)] == lengths
        if not (fits and finite) or min(known, default=0.0) < 0:
            raise ModelError("what the model keeps about its effects is not of its columns")
        means, deviations = map(tuple, numbers)
        return cls(tuple(covariances), tuple(variances), means, deviations)


def effect_basis_of_term(
    part: EffectTerm, at: Mapping[str, NDArray[np.float64]], columns: Sequence[Column], feature_map: FeatureMap | None
) -> NDArray[np.float64]:
    """The values of a part's columns where some inputs have these values, and all others say nothing."""
    features = [column for column in columns if column.scale != "constant"]
    names: Sequence[str] = [column.name for column in features] if feature_map is None else feature_map.input_names
    neutral = [column.neutral for column in features] if feature_map is None else feature_map.neutral
    rows = np.tile(np.array(neutral, dtype=np.float64), (len(next(iter(at.values()))), 1))
    for name, values in at.items():
        rows[:, names.index(name)] = values
    outputs = rows if feature_map is None else feature_map.apply(rows)
    return np.column_stack([columns[k].apply(outputs[:, k]) for k in part.places])


def _symmetric_from_half(numbers: Sequence[float], size: int) -> NDArray[np.float64]:
    """A symmetric matrix from its rows up to the diagonal."""
    if len(numbers) != size * (size + 1) // 2 or not all(type(number) in (int, float) for number in numbers):
        raise ValueError
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = numbers
    return np.asarray(matrix + np.tril(matrix, -1).T)


def limits_of_shown_effect(
    name: str, columns: Sequence[Column], feature_map: FeatureMap | None, deviations: float = 2.0
) -> tuple[float, float]:
    """Between which raw values a column is shown: its bounds, or so many deviations to either side of its mean."""
    if feature_map is not None:
        for entry in feature_map.inputs:
            if entry.name == name:
                reach = (
                    deviations * entry.divisor / entry.factor if entry.limit is None else entry.divisor / entry.factor
                )
                low = entry.neutral - reach if entry.low is None else entry.low
                high = entry.neutral + reach if entry.high is None else entry.high
                return float(low), float(high)
    column = next(column for column in columns if column.name == name)
    middle, spread = (column.mean, column.std) if column.mean is not None and column.std is not None else (0.0, 1.0)
    low = middle - deviations * spread if column.low is None or math.isinf(column.low) else column.low
    high = middle + deviations * spread if column.high is None or math.isinf(column.high) else column.high
    return float(low), float(high)


# ---- The shape of each part of a score: over which values it is shown, and what the columns of the release are there.
#
# Means and deviations are those that the release tells, or else those of columns that are evenly spread.


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
        self.parts = score_terms(columns, feature_map, schema)
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
        values = np.linspace(*limits_of_shown_effect(name, self.columns, self.map), POINTS)
        reach = np.linspace(*limits_of_shown_effect(name, self.columns, self.map, deviations=_TAILS), 2 * POINTS - 1)
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
        values = np.linspace(*limits_of_shown_effect(name, self.columns, self.map), _PAIR_POINTS)
        return values, self.masses(name, values)

    def along(self, part: EffectTerm) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
        """The column that lines of a pair go along, its values, and the levels of the other column, one a line."""
        along, other = part.names
        if self.is_slot(along) and not self.is_slot(other):
            along, other = other, along
        low, high = self._ends(other)
        middle = float(np.clip(self._middle(other)[0], low, high))
        levels = np.array([low, high] if self.is_slot(other) else [low, middle, high])
        ends = (0.0, 1.0) if self.is_slot(along) else limits_of_shown_effect(along, self.columns, self.map)
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
        return effect_basis_of_term(part, at, self.columns, self.map)

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

    def released_mean(self, name: str) -> float | None:
        """The mean of an input column that the release tells, cut to its bounds; None where it tells none."""
        entry = self._input(name)
        if entry is None and name not in self._names:
            return None
        middle, deviation = self._middle(name)
        bounds = self.columns[self._names.index(name)] if entry is None else entry
        low, high = (-math.inf if bounds.low is None else bounds.low, math.inf if bounds.high is None else bounds.high)
        return None if deviation is None else float(min(max(middle, low), high))

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
        low, high = limits_of_shown_effect(name, self.columns, self.map)
        middle, deviation = self._middle(name)
        reach = (high - low) / 4 if deviation is None else deviation
        return np.clip([middle - reach, middle + reach], low, high)

    def _input(self, name: str, *, ranked: bool = False) -> Input | None:
        """The input of the map that is made of a column: its ranks, or the column itself."""
        inputs = () if self.map is None else self.map.inputs
        return next((entry for entry in inputs if entry.name == name and bool(entry.levels) == ranked), None)
