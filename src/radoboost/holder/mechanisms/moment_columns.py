"""The columns of a plan: made from declared bounds and from what was released before, and from nothing else (M12).

Numbers are centred by their mean in the outline and scaled to [-1, 1] by two deviations, or as far as their bounds go,
up to what `units_of` has. Slots of a category stay 0 and 1. Means, deviations, ranks and directions are rounded to a
grid, and all constants stand in the release, within its feature map.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import cosine_terms, pairs
from radoboost.holder.mechanisms.moment_passes import CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moment_plan import MOST_FACTORS, Outlook, Plan, knots_of
from radoboost.release.columns import Column
from radoboost.release.maps import Direction, FeatureMap, Input, Term, names_of, repeated
from radoboost.release.spectra import LEAST
from radoboost.tables.columns import listed

MOST_ASKED = 4096  # columns, the constant among them
LEAST_UNIT = 2.0  # deviations that a number is scaled by, however narrow its bounds
_LEAST_VARIANCE = 0.01  # of a column within its bounds, so that a constant one is not blown up
_SNAP = 2.0**-20


class Units(NamedTuple):
    """How many deviations a number is scaled by at most, and how many of them cosines count as 1."""

    numbers: float
    cosines: float


def units_of(plan: Plan, n_classes: int) -> Units:
    """The units of a plan: values beyond `numbers` deviations are cut, which costs products and many classes most."""
    if n_classes > 2:
        return Units(3.0, 3.0)
    return Units(2.5 if plan.kind in ("products", "both") else LEAST_UNIT, LEAST_UNIT)


@dataclass(frozen=True, eq=False)
class Outline:
    """What the first release says of the columns within their bounds: means, deviations and covariances."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    covariance: NDArray[np.float64]


def read_outline(second: NDArray[np.float64], noise: float) -> Outline:
    """Means and deviations by the released second moments of rows on the sphere, whose constant is last.

    `noise` is the deviation of the noise on the diagonal.
    """
    weight = max(float(second[-1, -1]), noise, LEAST)
    mean = _snapped(np.clip(CONSTANT_VALUE * second[-1, :-1] / weight, -1.0, 1.0))
    covariance = CONSTANT_VALUE**2 * second[:-1, :-1] / weight - np.outer(mean, mean)
    return Outline(mean, _snapped(np.sqrt(np.clip(np.diag(covariance), _LEAST_VARIANCE, 1.0))), covariance)


def plan_map(
    outlook: Outlook,
    plan: Plan,
    columns: Sequence[Column],
    outline: Outline,
    ranks: NDArray[np.float64] | None = None,
    *,
    n_classes: int = 2,
) -> FeatureMap:
    """The columns of a plan as a feature map of the table's `columns`, which have bounds.

    `ranks` are the released histograms of numbers, a column for each, where the plan has ranks.
    """
    units = units_of(plan, n_classes)
    reach = np.clip(1 + np.abs(outline.mean), LEAST_UNIT * outline.deviation, units.numbers * outline.deviation)
    inputs = [
        _slot(column) if column.name in outlook.groups else _centred(column, mean, far)
        for column, mean, far in zip(columns, outline.mean.tolist(), reach.tolist(), strict=True)
    ]
    by_name = {column.name: column for column in columns}
    if plan.ranks:
        assert ranks is not None
        inputs += [_ranked(by_name[name], ranks[:, k]) for k, name in enumerate(outlook.numbers)]
    directions = _directions(outlook, plan, outline, len(inputs) - len(columns), reach)
    speeds = (reach / (units.cosines * outline.deviation)).tolist() + [1.0] * (len(inputs) - len(columns))
    terms = [_faster(term, speeds) if term.kind == "cosine" else term for term in _terms(outlook, plan)]
    return FeatureMap(tuple(inputs), tuple(terms), directions)


def _slot(column: Column) -> Input:
    return Input(column.name, low=column.low, high=column.high)


def _faster(cosine: Term, speeds: Sequence[float]) -> Term:
    """A cosine that varies so much faster with each input."""
    weights = (weight * speed for weight, speed in zip(cosine.weights, speeds, strict=True))
    return replace(cosine, weights=tuple(weights))


def _centred(column: Column, mean: float, reach: float) -> Input:
    """A number, centred by its mean within its bounds, which are -1 and 1, in units of its `reach`."""
    assert column.low is not None
    assert column.high is not None
    width = column.high - column.low
    shift = column.low + (1.0 + mean) * (width / 2)
    return Input(column.name, shift, width * (reach / 2), column.low, column.high, limit=1.0)


def _ranked(column: Column, counts: NDArray[np.float64]) -> Input:
    """The rank of a number among all rows, from -1 to 1, by a noisy histogram between its bounds."""
    low, high, shift, factor, divisor, offset = column.constants
    levels = tuple(levels_of(counts).tolist())
    return Input(column.name, shift, divisor, low, high, 1.0, factor=factor, offset=offset, levels=levels)


def levels_of(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution function of a noisy histogram at the ends of its bins, onto [-1, 1] and never falling."""
    below = np.maximum.accumulate(np.maximum(np.concatenate([[0.0], np.cumsum(counts)]), 0.0))
    if below[-1] <= 0:
        return np.linspace(-1.0, 1.0, len(counts) + 1)
    return _snapped(2 * (below / below[-1]) - 1)


def _directions(
    outlook: Outlook, plan: Plan, outline: Outline, others: int, reach: NDArray[np.float64]
) -> tuple[Direction, ...]:
    """The leading directions of all inputs but `others`, each of a variance of at most 1/4."""
    names = direction_names(outlook, plan)
    if not names:
        return ()
    slots = np.array([name in outlook.groups for name in outlook.names])
    unit = np.where(slots, 1.0, reach)
    values, vectors = np.linalg.eigh(4 * outline.covariance / np.outer(unit, unit))
    weights = (vectors / np.sqrt(np.maximum(values, 1.0)))[:, ::-1][:, : len(names)]
    weights = _snapped(weights.T)
    centre = np.where(slots, outline.mean, 0.0)
    offsets = _snapped(weights @ centre)
    return tuple(
        Direction(name, (*row, *[0.0] * others), offset)
        for name, row, offset in zip(names, weights.tolist(), offsets.tolist(), strict=True)
    )


def direction_names(outlook: Outlook, plan: Plan) -> list[str]:
    """The directions that products are of; none where they are of columns."""
    if plan.kind != "both" or len(outlook.names) <= MOST_FACTORS:
        return []
    return [f"direction {k + 1}" for k in range(MOST_FACTORS)]


def _terms(outlook: Outlook, plan: Plan) -> list[Term]:
    """The columns of a plan, in order: the table's, ranks, hats, products, cosines."""
    ranked = [f"rank({name})" for name in outlook.numbers] if plan.ranks else []
    terms = [Term("linear", (name,)) for name in (*outlook.names, *ranked)]
    if plan.kind in ("hats", "both"):
        knots = knots_of(plan.kind, plan.ranks)
        width = 2 / (len(knots) - 1)
        terms += [Term("hat", (name,), knot=knot, width=width) for name in ranked or outlook.numbers for knot in knots]
    if plan.kind in ("products", "both"):
        factors = [(name, outlook.groups.get(name)) for name in direction_names(outlook, plan) or outlook.names]
        terms += [Term("product", pair) for pair in pairs(factors)]
    places = tuple(k for k, name in enumerate(outlook.names) if name not in outlook.groups)
    return [*terms, *cosine_terms(plan.cosines, places, len(outlook.names) + len(ranked))]


def planned_columns(feature_map: FeatureMap) -> tuple[Column, ...]:
    """The columns that a map makes, which lie in [-1, 1], without the constant one."""
    return tuple(Column(name, "bounds", 1 / GRID, -1.0, 1.0) for name in feature_map.output_names)


def check_outlook(outlook: Outlook) -> None:
    """Refuse too many columns, or names that columns of some plan would share, before anything is spent."""
    if outlook.widest > MOST_ASKED:
        raise ArgumentError(
            f"columns={outlook.word!r} would make {outlook.widest:,} columns of {len(outlook.names):,}, and "
            f"{MOST_ASKED:,} is the most; use fewer columns, or leave columns out (--columns)"
        )
    if outlook.word in ("hats", "ranks", "fourier") and not outlook.numbers:
        raise ArgumentError(
            f"columns={outlook.word!r} are made of numbers, and all columns are categories; leave columns out "
            "(--columns)"
        )
    for plan in outlook.possible():
        for ranks in {False, plan.ranks}:
            terms = _terms(outlook, Plan(plan.kind, ranks, plan.cosines, 0, 0, 0.0))
            if double := repeated([*names_of(terms), *direction_names(outlook, plan)]):
                raise ArgumentError(
                    f"several columns would be called {listed(double)}, among those that are made of others; rename "
                    "columns of the table, or take columns='linear' (--columns linear)"
                )


def _snapped(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(values / _SNAP) * _SNAP + 0.0)  # never -0.0
