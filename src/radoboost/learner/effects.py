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
from radoboost.release.feature_map import FeatureMap
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


def parts_of(columns: Sequence[Column], feature_map: FeatureMap | None, schema: Schema | None) -> list[EffectTerm]:
    """The parts of a score, in the order of their first columns."""
    groups = {} if schema is None else schema.groups
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    features = [column.name for column in columns if column.scale != "constant"]
    for place, name in enumerate(features):
        found.setdefault(_part_of(name, place, feature_map, groups), []).append(place)
    return [EffectTerm(kind, names, tuple(places)) for (kind, names), places in found.items()]


def _part_of(
    name: str, place: int, feature_map: FeatureMap | None, groups: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """The kind and the names of the part that a column belongs to."""
    if feature_map is None:
        return _single(name, groups)
    term = feature_map.terms[place]
    of = {entry.label: entry.name for entry in feature_map.inputs}
    names = tuple(dict.fromkeys(of[label] for label in term.inputs))
    if len(names) > 2:
        return REST, ()
    return (PAIR, names) if len(names) == 2 else _single(names[0], groups)


def _single(name: str, groups: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    return (CATEGORY, (groups[name],)) if name in groups else (NUMBER, (name,))


@dataclass(frozen=True, eq=False)
class Effects:
    """What a model keeps of its release to explain itself: by part, in the order of `parts_of`.

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
                _symmetric(numbers, len(part.kept)) for numbers, part in zip(entry["covariances"], parts, strict=True)
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


def basis_of(
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


def _symmetric(numbers: Sequence[float], size: int) -> NDArray[np.float64]:
    """A symmetric matrix from its rows up to the diagonal."""
    if len(numbers) != size * (size + 1) // 2 or not all(type(number) in (int, float) for number in numbers):
        raise ValueError
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = numbers
    return np.asarray(matrix + np.tril(matrix, -1).T)


def limits_of(
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
