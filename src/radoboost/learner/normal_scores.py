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
