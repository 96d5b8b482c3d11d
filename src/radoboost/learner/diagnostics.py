"""What scores do on new rows, if within each class they are about normal: how many are wrong, and which are log odds.

By docs/proofs/rado-moments.md, step P5, the release tells the mean of scores in either class, and their variance. Where
classes lie far apart that leaves next to no error to a normal law, and yet the same variance may be that of a few rows
far on the wrong side, as if their labels were: then scores are all of one size, and those rows have the wrong sign. If
that law has the larger error, half of the rows are taken to follow it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from radoboost.learner.moments import noise_variance_of_rados
from radoboost.release.columns import GRID_BITS, Column
from radoboost.release.kind import SUMS
from radoboost.release.release import Release

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_SMALLEST, _LARGEST = -7.0, 7.0  # logarithms of scales, of scores whose root mean square is 1
_LEAST_SPREAD = 0.01  # of scores within classes, compared with their root mean square


@dataclass(frozen=True)
class NormalScores:
    """Scores of new rows: the share of the positive class, the mean in either class, and the deviation within."""

    share: float
    positive: float
    negative: float
    deviation: float

    @classmethod
    def of(
        cls,
        signal: float,
        second: float,
        centre: float | None = None,
        balance: float = 0.0,
        n_rados: float = math.inf,
    ) -> "NormalScores":
        """From E y score, E score**2, E score and E y; without E score, both classes are taken to mirror each other.

        A second moment by so many rados has a relative standard error of sqrt(2 / n_rados): less than that cannot be
        told from no spread within classes, and is not believed.
        """
        share = (1 + balance) / 2
        if centre is None or not 0 < share < 1:
            share, centre = 0.5, 0.0
        positive, negative = (centre + signal) / (2 * share), (centre - signal) / (2 * (1 - share))
        within = second - share * positive**2 - (1 - share) * negative**2
        doubt = min(math.sqrt(2 / n_rados), 0.5) * (second - centre**2)
        return cls(share, positive, negative, math.sqrt(max(within, doubt, _LEAST_SPREAD**2 * second)))

    @property
    def error(self) -> float:
        """The share of rows whose score has the wrong sign."""
        return (self.normal_error + max(self.normal_error, self.flipped_error)) / 2

    @property
    def normal_error(self) -> float:
        """That share, if scores are normal within each class."""
        if self.deviation == 0:
            return min(self.share, 1 - self.share)
        wrong = self.share * ndtr(-self.positive / self.deviation)
        return float(wrong + (1 - self.share) * ndtr(self.negative / self.deviation))

    @property
    def flipped_error(self) -> float:
        """That share, if within each class all scores are of one size, and some have the wrong sign."""
        if self.deviation == 0:
            return min(self.share, 1 - self.share)
        wrong = self.share * (1 - self.positive / math.hypot(self.positive, self.deviation)) / 2
        return wrong + (1 - self.share) * (1 + self.negative / math.hypot(self.negative, self.deviation)) / 2

    def _law(self, mean: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of a class with this mean, and how often it has each of them."""
        normal = mean + self.deviation * _POINTS
        if self.flipped_error <= self.normal_error:
            return normal, _WEIGHTS
        size = math.hypot(mean, self.deviation)
        right = (1 + mean / size) / 2
        return np.array([*normal, size, -size]), np.array([*(0.5 * _WEIGHTS), 0.5 * right, 0.5 * (1 - right)])

    @property
    def scale(self) -> float:
        """What scores are to be multiplied with, so that they are log odds as nearly as a factor makes them so.

        It is where the expected logistic loss is least, which is convex in it.
        """
        size = math.sqrt(self.share * self.positive**2 + (1 - self.share) * self.negative**2 + self.deviation**2)
        if size == 0:
            return 1.0
        (positive, often), (negative, seldom) = self._law(self.positive), self._law(self.negative)
        positive, negative = positive / size, negative / size
        low, high = _SMALLEST, _LARGEST
        for _ in range(60):  # bisection of the slope
            middle = (low + high) / 2
            factor = math.exp(middle)
            slope = self.share * often @ (-positive / (1 + np.exp(np.minimum(factor * positive, 700.0))))
            slope += (1 - self.share) * seldom @ (negative / (1 + np.exp(np.minimum(-factor * negative, 700.0))))
            low, high = (middle, high) if slope < 0 else (low, middle)
        return math.exp((low + high) / 2) / size


# ---- What a release of plain rados tells of odd columns: one value that outweighs all others, none that vary, and
# twins.
#
# A rado adds up values of about half of the examples. Where one value is far larger than all others together, its
# column is one of two numbers in every rado, with that value or without it: the kurtosis of its rados is near 1,
# and not near 3 as that of sums of many; and the grid, which is laid out for the largest value, is coarse beside
# their deviation. Two columns that are the same in every example, up to a factor, have proportional rados.

_LEAST_RADOS = 20  # to know a kurtosis by
_LEAST_EXAMPLES = 20  # of fewer, any value may be a large part of its column
_TWO_VALUED = 1.8  # the kurtosis below which one value has most of the variance
_TWIN_RADOS = 4
_TWIN = 1e-9  # of 1 less a squared correlation
_NAMED = 3


def columns_in_doubt(release: Release) -> tuple[str, ...]:
    """Sentences about columns that tell less than they seem to, by the rados alone; none where these carry noise."""
    if release.law != SUMS or release.n_classes > 2 or noise_variance_of_rados(release):
        return ()
    rados, columns = np.asarray(release.rados, dtype=np.float64), release.columns
    largest = np.abs(rados).max(axis=0, initial=0.0)
    rows = rados / np.where(largest > 0, largest, 1.0)
    middle = rows.mean(axis=0)
    rows = rows - middle
    deviations = np.sqrt((rows**2).mean(axis=0))
    varies = deviations > 1e-12 * np.abs(middle)
    remarks = []
    # Deviations in the units of the release, times 2: coins let a quarter of the sum of squares through.
    ratios = 2 * deviations * np.where(largest > 0, largest, 1.0)
    if far := [
        columns[k].name for k in np.flatnonzero(varies) if _outweighs_column(columns[k], rows[:, k], ratios[k], release)
    ]:
        has = "have one value each" if len(far) > 1 else "has one value"
        remarks.append(
            f"{_first_column_names(far)} {has} that outweighs all others, which rados hardly tell apart: ask the "
            "holder to correct it, or to declare bounds, which clip it"
        )
    if same := [column.name for column, moves in zip(columns, varies, strict=True) if not moves]:
        are, have = ("are", "have") if len(same) > 1 else ("is", "has")
        remarks.append(
            f"{_first_column_names(same)} {are} the same in all rows as far as rados tell, and {have} no weight"
        )
    remarks += [
        f"{_first_column_names(names)} are proportional in all rados: they tell the same, and share one effect"
        for names in _proportional_columns(rows, deviations, varies, columns)[:_NAMED]
    ]
    return tuple(remarks)


def _outweighs_column(column: Column, rows: NDArray[np.float64], size: float, release: Release) -> bool:
    """Whether one value has most of the column's sum of squares, the root of which is about `size`."""
    few = release.n_examples is not None and release.n_examples < _LEAST_EXAMPLES
    if column.scale == "constant" or _is_category_slot_column(column) or few or len(rows) < _LEAST_RADOS:
        return False
    largest = column.step * 2.0**GRID_BITS  # at least the largest value, and less than twice that
    kurtosis = float((rows**4).mean() / (rows**2).mean() ** 2)
    return largest >= size * 0.9 and kurtosis < _TWO_VALUED


def _is_category_slot_column(column: Column) -> bool:
    """Whether a standardised column is one of 0 and 1, in which one 1 may be alone by nature."""
    if column.mean is None or column.std is None:
        return False
    spread = column.mean * (1 - column.mean)
    return abs(column.std**2 - spread) <= 1e-9 * spread


def _proportional_columns(
    rows: NDArray[np.float64], deviations: NDArray[np.float64], varies: NDArray[np.bool_], columns: tuple[Column, ...]
) -> list[list[str]]:
    """Names of columns that are proportional, by groups.

    Their projections on a fixed direction are equal, up to the sign, once all have the same length: so only neighbours
    in that order are compared, and nothing of size columns x columns is made.
    """
    places = np.flatnonzero(varies)
    if len(rows) < _TWIN_RADOS or len(places) < 2:
        return []
    unit = rows[:, places] / (deviations[places] * np.sqrt(len(rows)))
    projected = np.random.default_rng(0).standard_normal(len(rows)) @ unit
    unit *= np.where(projected < 0, -1.0, 1.0)
    order = np.argsort(np.abs(projected), kind="stable")
    near = 1 - (unit[:, order[:-1]] * unit[:, order[1:]]).sum(axis=0) < _TWIN / 2
    groups: list[list[int]] = []
    for k in np.flatnonzero(near):
        if groups and groups[-1][-1] == places[order[k]]:
            groups[-1].append(int(places[order[k + 1]]))
        else:
            groups.append([int(places[order[k]]), int(places[order[k + 1]])])
    return [[columns[k].name for k in sorted(group)] for group in sorted(map(sorted, groups))]


def _first_column_names(names: list[str]) -> str:
    """Some names, and how many more there are."""
    if len(names) <= _NAMED:
        return " and ".join(filter(None, [", ".join(map(repr, names[:-1])), repr(names[-1])]))
    return f"{', '.join(map(repr, names[:_NAMED]))} and {len(names) - _NAMED} more columns"
