"""Which columns a release of `moments` has: a plan, chosen by what was declared and by what was released before.

The first release, the noisy second moments of the table's own columns, is the outline of the table: its trace is about
the number of rows, `size`, and `strength` is that in units of the noise that one row must be hidden in. These two
numbers, and how many columns there are, decide how many products of ranks the table carries. They come in classes by
total degree g (`feature_maps.CLASSES`): a class is taken whole if all columns up to it are at most

    min(600, strength / (2.5 g), size / (6 g))

or else it is left out. Where the squares do not fit, or strength is below 200 in all, columns are the table's own. What
the columns of a plan are is in `legendre_classes`. The constants were tuned on the paper's domains.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import (
    CLASSES,
    DEGREES,
    MOST_COLUMNS,
    Degrees,
    check_product_degree,
    n_products_in_class,
    product_classes_that_fit,
    product_terms,
)
from radoboost.holder.mechanisms.moments.aggregations import CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input, Term, repeated_map_names
from radoboost.release.moment_math import LEAST
from radoboost.tables.column_selection import list_names

AUTO = "auto"  # the word that leaves the choice to the rule
_STRENGTH, _SIZE, _LEAST_STRENGTH = 2.5, 6.0, 200.0  # for each column and degree; and in all
_IF_DOUBLED = 0.5  # of that is enough where a change moves sums of vectors by two: second moments move less, or not
# How many mean rados and how far each one goes: the first whose limit is above strength for each column.
LINEAR_ROUNDS = ((100.0, 8, 1.0), (math.inf, 32, 4.0))
WIDE_ROUNDS = ((30.0, 16, 1.0), (math.inf, 16, 2.0))
FEW_ROUNDS = LINEAR_ROUNDS[0][1]
MOST_ROUNDS = max(rounds for _, rounds, _ in (*LINEAR_ROUNDS, *WIDE_ROUNDS))


@dataclass(frozen=True)
class FeaturePlan:
    """Which columns a release has, and how its classifier is sharpened; everything follows from it and the outline.

    `classes` are those of products of ranks; without any, columns are the table's own. `n_columns` counts the constant.
    `rounds` is how many mean rados there are, and `eta` how far each one goes.
    """

    classes: tuple[Degrees, ...]
    n_columns: int
    rounds: int = 0
    eta: float = 0.0

    @property
    def beyond(self) -> bool:
        """Whether there are more columns than the table's own."""
        return bool(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return {**asdict(self), "classes": [list(degrees) for degrees in self.classes]}


@dataclass(frozen=True)
class FeatureCandidates:
    """What a plan depends on besides released numbers: the table's columns, some of which are slots of `groups`.

    `word` is what was asked for: "auto", or a degree.
    """

    names: tuple[str, ...]
    groups: Mapping[str, str]
    word: str = AUTO

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are no slots: those that have ranks."""
        return tuple(name for name in self.names if name not in self.groups)

    @property
    def n_own(self) -> int:
        """The table's own columns and the constant."""
        return len(self.names) + 1

    @property
    def n_ranked(self) -> int:
        """These and the ranks of numbers, which products come after."""
        return self.n_own + len(self.numbers)

    def classes(self, size: float = math.inf, strength: float = math.inf, *, doubled: bool = False) -> list[Degrees]:
        """The classes that a table of this size and strength has."""
        degree = DEGREES.get(self.word)
        if degree is not None:
            return product_classes_that_fit(len(self.numbers), self.n_ranked, lambda _: MOST_COLUMNS, degree)
        if strength < _LEAST_STRENGTH:
            return []
        each = _STRENGTH * (_IF_DOUBLED if doubled else 1.0)
        return product_classes_that_fit(
            len(self.numbers), self.n_ranked, lambda g: min(MOST_COLUMNS, strength / (each * g), size / (_SIZE * g))
        )

    @cached_property
    def widest(self) -> int:
        """The most columns, with the constant, that any plan may have."""
        classes = self.classes()
        if not classes:
            return self.n_own
        return MOST_COLUMNS if self.word == AUTO else self.width(classes)

    def width(self, classes: list[Degrees]) -> int:
        """How many columns there are with these classes, the constant among them."""
        return (
            self.n_ranked + sum(n_products_in_class(len(self.numbers), each) for each in classes)
            if classes
            else self.n_own
        )

    def shaped(self, shape: NoiseShape) -> NoiseShape:
        """What noise depends on, with as many columns as a plan may have."""
        return replace(shape, widest=self.widest if self.classes() else 0)


def choose_feature_plan(
    outlook: FeatureCandidates,
    size: float,
    strength: float,
    *,
    sharpen: bool = True,
    crowding: float = 1.0,
    doubled: bool = False,
) -> FeaturePlan:
    """The plan of a table: by its noisy `size`, and that in units of noise, `strength`.

    Of more than two classes, only a part of both counts for the choice of columns: `crowding` (M18).
    """
    classes = outlook.classes(size * crowding, strength * crowding, doubled=doubled)
    width = outlook.width(classes)
    return FeaturePlan(tuple(classes), width, *planned_rounds(bool(classes), strength / width, sharpen))


def planned_rounds(beyond: bool, strength: float, sharpen: bool = True) -> tuple[int, float]:
    """How many mean rados there are at so much strength for each column, and how far each one goes."""
    if not sharpen:
        return 0, 0.0
    steps = WIDE_ROUNDS if beyond else LINEAR_ROUNDS
    return next((rounds, eta) for limit, rounds, eta in steps if strength < limit or limit == math.inf)


# ---- The columns of a plan: made from declared bounds and from what was released before, and from nothing else (M12).
#
# Numbers are centred by their mean in the outline and scaled to [-1, 1] by two deviations, or as far as their
# bounds go, up to 2.5. Slots of a category become -1 and 1. Beside each number stands its rank, by the Beta
# distribution between its bounds that has its mean and deviation, and products are of these ranks. Means,
# deviations and the levels of ranks are rounded to a grid, and all constants stand in the release, within its
# feature map.

_LEAST_REACH, _MOST_REACH = 2.0, 2.5  # deviations that a number is scaled by
_LEAST_VARIANCE = 0.01  # of a column within its bounds, so that a constant one is not blown up
_BINS = 64  # between the levels of a rank
_NEAREST_MEAN = 0.005  # to a bound, of the Beta distribution, as a share of the width between bounds;
_WIDEST = 0.98  # its variance, as a share of the largest there is for its mean;
_LEAST_PARAMETER = 0.02  # and its parameters
_SNAP = 2.0**-20


@dataclass(frozen=True, eq=False)
class InputMoments:
    """What the first release says of the columns within their bounds: means and deviations."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def read_input_moments(second: NDArray[np.float64], noise: float) -> InputMoments:
    """Means and deviations by the released second moments of rows on the sphere, whose constant is last.

    `noise` is the deviation of the noise on the diagonal.
    """
    weight = max(float(second[-1, -1]), noise, LEAST)
    mean = _snap_plan_constants(np.clip(CONSTANT_VALUE * second[-1, :-1] / weight, -1.0, 1.0))
    variance = CONSTANT_VALUE**2 * np.diag(second)[:-1] / weight - np.square(mean)
    return InputMoments(mean, _snap_plan_constants(np.sqrt(np.clip(variance, _LEAST_VARIANCE, 1.0))))


def feature_map_of_plan(
    outlook: FeatureCandidates, plan: FeaturePlan, columns: Sequence[Column], outline: InputMoments
) -> FeatureMap:
    """The columns of a plan as a feature map of the table's `columns`, which have bounds."""
    own, ranks = [], []
    for column, mean, deviation in zip(columns, outline.mean.tolist(), outline.deviation.tolist(), strict=True):
        if column.name in outlook.groups:
            own.append(Input(column.name, 0.5, 0.5, column.low, column.high))
        else:
            own.append(_centred_map_input(column, mean, deviation))
            ranks.append(_ranked_map_input(column, mean, deviation))
    return FeatureMap((*own, *ranks), tuple(_terms_of_plan(outlook, plan.classes)))


def _centred_map_input(column: Column, mean: float, deviation: float) -> Input:
    """A number, centred by its mean within its bounds, which are -1 and 1, in units of two to 2.5 deviations."""
    assert column.low is not None
    assert column.high is not None
    reach = min(max(1 + abs(mean), _LEAST_REACH * deviation), _MOST_REACH * deviation)
    width = column.high - column.low
    shift = column.low + (1.0 + mean) * (width / 2)
    return Input(column.name, shift, width * (reach / 2), column.low, column.high, limit=1.0)


def _ranked_map_input(column: Column, mean: float, deviation: float) -> Input:
    """The rank of a number, from -1 to 1."""
    low, high, shift, factor, divisor, offset = column.constants
    levels = beta_rank_levels(mean, deviation)
    return Input(column.name, shift, divisor, low, high, 1.0, factor=factor, offset=offset, levels=levels)


def beta_rank_levels(mean: float, deviation: float) -> tuple[float, ...]:
    """The distribution function, onto [-1, 1], of the Beta distribution on [-1, 1] with this mean and deviation.

    It is taken at equally spaced points, and rounded so far that every machine has the same levels.

    >>> beta_rank_levels(0.0, 3**-0.5)[::16]  # that of even numbers
    (-1.0, -0.5, 0.0, 0.5, 1.0)
    """
    from scipy.special import betainc

    middle = min(max((1 + mean) / 2, _NEAREST_MEAN), 1 - _NEAREST_MEAN)
    largest = middle * (1 - middle)
    size = largest / min(deviation**2 / 4, _WIDEST * largest) - 1
    a, b = (max(share * size, _LEAST_PARAMETER) for share in (middle, 1 - middle))
    levels = _snap_plan_constants(2 * betainc(a, b, np.linspace(0.0, 1.0, _BINS + 1)) - 1)
    return tuple(np.maximum.accumulate(levels).tolist())


def _terms_of_plan(outlook: FeatureCandidates, classes: Sequence[Degrees]) -> list[Term]:
    """The columns of a plan, in order: the table's, ranks, and products of ranks."""
    ranks = [f"rank({name})" for name in outlook.numbers]
    return [*(Term("linear", (name,)) for name in (*outlook.names, *ranks)), *product_terms(classes, ranks)]


def columns_of_plan(feature_map: FeatureMap) -> tuple[Column, ...]:
    """The columns that a map makes, which lie in [-1, 1], without the constant one."""
    return tuple(Column(name, "bounds", 1 / GRID, -1.0, 1.0) for name in feature_map.output_names)


def check_feature_candidates(outlook: FeatureCandidates) -> None:
    """Refuse too many columns, or names that columns of some plan would share, before anything is spent."""
    if outlook.word in DEGREES:
        check_product_degree(outlook.word, len(outlook.numbers), outlook.classes())
    if not outlook.classes():
        return
    room = MOST_COLUMNS - outlook.n_ranked
    possible = [degrees for degrees in CLASSES if n_products_in_class(len(outlook.numbers), degrees) <= room]
    if double := repeated_map_names([term.name for term in _terms_of_plan(outlook, possible)]):
        raise ArgumentError(
            f"several columns would be called {list_names(double)}, among those that are made of others; rename "
            "columns of the table, or take columns='linear' (--columns linear)"
        )


def _snap_plan_constants(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(values / _SNAP) * _SNAP + 0.0)  # never -0.0
