"""The columns of a plan: made from declared bounds and from what was released before, and from nothing else (M12).

Numbers are centred by their mean in the outline and scaled to [-1, 1] by two deviations, or as far as their bounds go,
up to 2.5. Slots of a category become -1 and 1. Beside each number stands its rank, by the Beta distribution between its
bounds that has its mean and deviation, and products are of these ranks. Means, deviations and the levels of ranks are
rounded to a grid, and all constants stand in the release, within its feature map.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.legendre_classes import (
    CLASSES,
    DEGREES,
    MOST_COLUMNS,
    Degrees,
    check_degree,
    n_products,
    product_terms,
)
from radoboost.holder.mechanisms.moment_passes import CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moment_plan import Outlook, Plan
from radoboost.release.columns import Column
from radoboost.release.maps import FeatureMap, Input, Term, repeated
from radoboost.release.spectra import LEAST
from radoboost.tables.columns import listed

_LEAST_REACH, _MOST_REACH = 2.0, 2.5  # deviations that a number is scaled by
_LEAST_VARIANCE = 0.01  # of a column within its bounds, so that a constant one is not blown up
_BINS = 64  # between the levels of a rank
_NEAREST_MEAN = 0.005  # to a bound, of the Beta distribution, as a share of the width between bounds;
_WIDEST = 0.98  # its variance, as a share of the largest there is for its mean;
_LEAST_PARAMETER = 0.02  # and its parameters
_SNAP = 2.0**-20


@dataclass(frozen=True, eq=False)
class Outline:
    """What the first release says of the columns within their bounds: means and deviations."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def read_outline(second: NDArray[np.float64], noise: float) -> Outline:
    """Means and deviations by the released second moments of rows on the sphere, whose constant is last.

    `noise` is the deviation of the noise on the diagonal.
    """
    weight = max(float(second[-1, -1]), noise, LEAST)
    mean = _snapped(np.clip(CONSTANT_VALUE * second[-1, :-1] / weight, -1.0, 1.0))
    variance = CONSTANT_VALUE**2 * np.diag(second)[:-1] / weight - np.square(mean)
    return Outline(mean, _snapped(np.sqrt(np.clip(variance, _LEAST_VARIANCE, 1.0))))


def plan_map(outlook: Outlook, plan: Plan, columns: Sequence[Column], outline: Outline) -> FeatureMap:
    """The columns of a plan as a feature map of the table's `columns`, which have bounds."""
    own, ranks = [], []
    for column, mean, deviation in zip(columns, outline.mean.tolist(), outline.deviation.tolist(), strict=True):
        if column.name in outlook.groups:
            own.append(Input(column.name, 0.5, 0.5, column.low, column.high))
        else:
            own.append(_centred(column, mean, deviation))
            ranks.append(_ranked(column, mean, deviation))
    return FeatureMap((*own, *ranks), tuple(_terms(outlook, plan.classes)))


def _centred(column: Column, mean: float, deviation: float) -> Input:
    """A number, centred by its mean within its bounds, which are -1 and 1, in units of two to 2.5 deviations."""
    assert column.low is not None
    assert column.high is not None
    reach = min(max(1 + abs(mean), _LEAST_REACH * deviation), _MOST_REACH * deviation)
    width = column.high - column.low
    shift = column.low + (1.0 + mean) * (width / 2)
    return Input(column.name, shift, width * (reach / 2), column.low, column.high, limit=1.0)


def _ranked(column: Column, mean: float, deviation: float) -> Input:
    """The rank of a number, from -1 to 1."""
    low, high, shift, factor, divisor, offset = column.constants
    levels = beta_levels(mean, deviation)
    return Input(column.name, shift, divisor, low, high, 1.0, factor=factor, offset=offset, levels=levels)


def beta_levels(mean: float, deviation: float) -> tuple[float, ...]:
    """The distribution function, onto [-1, 1], of the Beta distribution on [-1, 1] with this mean and deviation.

    It is taken at equally spaced points, and rounded so far that every machine has the same levels.

    >>> beta_levels(0.0, 3**-0.5)[::16]  # that of even numbers
    (-1.0, -0.5, 0.0, 0.5, 1.0)
    """
    from scipy.special import betainc

    middle = min(max((1 + mean) / 2, _NEAREST_MEAN), 1 - _NEAREST_MEAN)
    largest = middle * (1 - middle)
    size = largest / min(deviation**2 / 4, _WIDEST * largest) - 1
    a, b = (max(share * size, _LEAST_PARAMETER) for share in (middle, 1 - middle))
    levels = _snapped(2 * betainc(a, b, np.linspace(0.0, 1.0, _BINS + 1)) - 1)
    return tuple(np.maximum.accumulate(levels).tolist())


def _terms(outlook: Outlook, classes: Sequence[Degrees]) -> list[Term]:
    """The columns of a plan, in order: the table's, ranks, and products of ranks."""
    ranks = [f"rank({name})" for name in outlook.numbers]
    return [*(Term("linear", (name,)) for name in (*outlook.names, *ranks)), *product_terms(classes, ranks)]


def planned_columns(feature_map: FeatureMap) -> tuple[Column, ...]:
    """The columns that a map makes, which lie in [-1, 1], without the constant one."""
    return tuple(Column(name, "bounds", 1 / GRID, -1.0, 1.0) for name in feature_map.output_names)


def check_outlook(outlook: Outlook) -> None:
    """Refuse too many columns, or names that columns of some plan would share, before anything is spent."""
    if outlook.word in DEGREES:
        check_degree(outlook.word, len(outlook.numbers), outlook.classes())
    if not outlook.classes():
        return
    room = MOST_COLUMNS - outlook.n_ranked
    possible = [degrees for degrees in CLASSES if n_products(len(outlook.numbers), degrees) <= room]
    if double := repeated([term.name for term in _terms(outlook, possible)]):
        raise ArgumentError(
            f"several columns would be called {listed(double)}, among those that are made of others; rename "
            "columns of the table, or take columns='linear' (--columns linear)"
        )


def _snapped(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(values / _SNAP) * _SNAP + 0.0)  # never -0.0
