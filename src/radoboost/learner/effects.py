"""What a score is made of: a part for every column of the table, one for every pair, and the rest.

The terms of a feature map that are of one column alone, such as its hats, its rank and its square, are one part:
together they are the shape of that column's effect. The slots of a category are one part, too. A product of two columns
is a part. Products of directions, and cosines, are of all columns at once: they are the rest, but for what a cosine is
on average over all columns but one, or two, which shows in the parts of these (`learner.shapes`).

Besides theta, a model keeps of its release what is needed to draw that with bands: the covariances of the weights
within each part, by the declared noise, and where the values of columns lie.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ModelError
from radoboost.release.columns import Column
from radoboost.release.maps import FeatureMap
from radoboost.tables.schema import Schema

NUMBER, CATEGORY, PAIR, DIRECTIONS, COSINES = "number", "category", "pair", "directions", "cosines"
POINTS = 65  # along a curve: the ends of the bins of ranks are among them
_WITHIN = 16  # points in each bin of ranks: within one, ranks may pass all knots of hats
_DEPENDENT = 1e-9  # of the largest singular value: what is less is 0


@dataclass(frozen=True)
class Part:
    """One part of a score: the columns of the table that it is of, and the places of the weights that make it."""

    kind: str
    names: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def shown(self) -> bool:
        """Whether it is of few columns, so that it can be shown by itself."""
        return self.kind in (NUMBER, CATEGORY, PAIR)

    @property
    def kept(self) -> tuple[int, ...]:
        """The places whose covariances a model keeps: those of parts that are shown."""
        return self.places if self.shown else ()


def parts_of(columns: Sequence[Column], feature_map: FeatureMap | None, schema: Schema | None) -> list[Part]:
    """The parts of a score, in the order of their first columns."""
    groups = {} if schema is None else schema.groups
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    features = [column.name for column in columns if column.scale != "constant"]
    for place, name in enumerate(features):
        found.setdefault(_part_of(name, place, feature_map, groups), []).append(place)
    return [Part(kind, names, tuple(places)) for (kind, names), places in found.items()]


def _part_of(
    name: str, place: int, feature_map: FeatureMap | None, groups: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """The kind and the names of the part that a column belongs to."""
    if feature_map is None:
        return _single(name, groups)
    term = feature_map.terms[place]
    of = {entry.label: entry.name for entry in feature_map.inputs}
    if term.kind == "cosine":
        return COSINES, ()
    if not all(label in of for label in term.inputs):
        return DIRECTIONS, ()
    names = tuple(dict.fromkeys(of[label] for label in term.inputs))
    return (PAIR, names) if len(names) == 2 else _single(names[0], groups)


def _single(name: str, groups: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    return (CATEGORY, (groups[name],)) if name in groups else (NUMBER, (name,))


@dataclass(frozen=True, eq=False)
class Effects:
    """What a model keeps of its release to explain itself: by part, in the order of `parts_of`.

    `covariances` are those of the weights by the declared noise, and `variances` those of the parts of scores, by the
    released second moments; None where noise exceeds them. `means` and `deviations` are of the columns of the release,
    as these are scaled. Where there are cosines, `inputs` are the covariances of the inputs that they are of, likewise,
    and `errors` the standard errors of what is shown of each part that has cosines (`learner.shapes`). Of more than two
    classes, `covariances` are those of the weights of any one class less the mean over classes, for noise is the same
    in all of them, and `variances` are means over classes.
    """

    covariances: tuple[NDArray[np.float64], ...]
    variances: tuple[float | None, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    inputs: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    errors: tuple[NDArray[np.float64], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON data: of each covariance the rows up to the diagonal, one after the other."""
        return {
            "covariances": [matrix[np.tril_indices(len(matrix))].tolist() for matrix in self.covariances],
            "variances": list(self.variances),
            "means": list(self.means),
            "deviations": list(self.deviations),
            **({"inputs": self.inputs[np.tril_indices(len(self.inputs))].tolist()} if len(self.inputs) else {}),
            **({"errors": [errors.tolist() for errors in self.errors]} if self.errors else {}),
        }

    @classmethod
    def from_dict(cls, entry: Any, parts: Sequence[Part], n_columns: int) -> Self:
        """Effects from a document, refused where they are not those of these parts."""
        try:
            covariances = [
                _symmetric(numbers, len(part.kept)) for numbers, part in zip(entry["covariances"], parts, strict=True)
            ]
            variances = [None if number is None else float(number) for number in entry["variances"]]
            numbers = [[float(number) for number in entry[key]] for key in ("means", "deviations")]
            inputs = _symmetric(entry.get("inputs", []), math.isqrt(2 * len(entry.get("inputs", []))))
            errors = [np.array(some, dtype=np.float64).reshape(-1) for some in entry.get("errors", [])]
        except (KeyError, TypeError, ValueError):
            raise ModelError("what the model keeps about its effects cannot be understood") from None
        lengths, known = [len(parts), n_columns, n_columns], [number for number in variances if number is not None]
        finite = all(np.isfinite(np.array(values)).all() for values in (*covariances, known, *numbers, inputs, *errors))
        fits = len(errors) in (0, len(parts)) and [len(variances), *map(len, numbers)] == lengths
        if not (fits and finite) or min([*known, *(error for some in errors for error in some)], default=0.0) < 0:
            raise ModelError("what the model keeps about its effects is not of its columns")
        means, deviations = map(tuple, numbers)
        return cls(tuple(covariances), tuple(variances), means, deviations, inputs, tuple(errors))


def cosine_inputs(feature_map: FeatureMap | None) -> list[int]:
    return [] if feature_map is None else np.flatnonzero(feature_map.cosines[1].any(axis=0)).tolist()


def basis_of(
    part: Part, at: Mapping[str, NDArray[np.float64]], columns: Sequence[Column], feature_map: FeatureMap | None
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


def dependencies(
    parts: Sequence[Part], columns: Sequence[Column], feature_map: FeatureMap | None, constant: float | None
) -> NDArray[np.float64]:
    """Sums of columns that are 0 in every row, whatever the table, one a column of the matrix.

    Hats of a column add up to 1, and hats times their knots to the column itself. That follows from the map alone.
    """
    found = [np.zeros((len(columns), 0))]
    for part in parts:
        if part.kind != NUMBER or len(part.places) == 1:
            continue
        limits = limits_of(part.names[0], columns, feature_map)
        values = np.linspace(*limits, _WITHIN * (POINTS - 1) + 1)
        basis, places = basis_of(part, {part.names[0]: values}, columns, feature_map), list(part.places)
        if constant is not None:
            basis, places = np.column_stack([basis, np.full(len(values), constant)]), [*places, len(columns) - 1]
        _, lengths, vectors = np.linalg.svd(basis, full_matrices=True)
        rank = int((lengths > _DEPENDENT * lengths[0]).sum())
        block = np.zeros((len(columns), len(places) - rank))
        block[places] = vectors[rank:].T
        found.append(block)
    return np.column_stack(found)


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
