"""A normal whose mean is a binomial number of steps, against a normal: the sum over a Poisson sample of records (A5).

With one record there are two components and closed forms; with a group of k records there are k + 1 (A12).
"""

from functools import lru_cache
from math import comb, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_UNIT = 2.0**-53
_NEWTON_STEPS = 6
_TABLE = 4096  # places at which the inverse starts from


class BinomialMixture:
    """The normals N(j s, 1), of weight P(j of `group` coins of probability q), against N(0, 1)."""

    def __init__(self, s: float, q: float, group: int = 1) -> None:
        self.s, self.q, self.group = s, q, group
        logs = [log(comb(group, j)) + j * log(q) + (group - j) * log1p(-q) for j in range(group + 1)] if q < 1 else []
        self._logs = np.array(logs)
        # How far, relatively, the weights may be off (A10); the closed forms of one record have no need of it.
        self.weight_error = 8 * _UNIT * (group + float(np.abs(self._logs).max(initial=0.0))) if group > 1 else 0.0

    @property
    def reach(self) -> float:
        """Where the farthest component lies."""
        return self.group * self.s

    def loss(self, y: Floats) -> Floats:
        """log of the mixture over the plain normal, at y standard deviations: it grows with y, and is convex."""
        if self.group == 1:
            s, q = self.s, self.q
            return np.asarray(np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + s * y - s * s / 2))
        return self._loss_and_slope(y)[0]

    def _loss_and_slope(self, y: Floats) -> tuple[Floats, Floats]:
        exponents = [self._logs[j] + j * self.s * y - (j * self.s) ** 2 / 2 for j in range(self.group + 1)]
        top = np.max(exponents, axis=0)
        total, slope = np.zeros_like(y), np.zeros_like(y)
        for j, exponent in enumerate(exponents):
            part = np.exp(exponent - top)
            total += part
            slope += j * self.s * part
        return top + np.log(total), slope / total

    def inverse(self, losses: Floats, first: float, last: float) -> Floats:
        """Where in [first, last] the loss takes these values, in ascending order."""
        if self.group == 1:
            return self._inverse_of_one(losses)
        table = np.linspace(first, last, _TABLE)
        known = self.loss(table)
        place = np.clip(np.searchsorted(known, losses), 1, _TABLE - 1)
        low, high = table[place - 1], table[place]
        y = np.clip(np.interp(losses, known, table), low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(_NEWTON_STEPS):
                value, slope = self._loss_and_slope(y)
                step = np.where(slope > 0, (value - losses) / slope, 0.0)
                y = np.clip(y - step, low, high)
        return y

    def _inverse_of_one(self, losses: Floats) -> Floats:
        s, q = self.s, self.q
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near = np.where(losses < -0.5, (np.exp(losses) - (1 - q)) / q, 1 + np.expm1(losses) / q)
            far = losses + np.log1p(-(1 - q) * np.exp(-losses)) - log(q)
            return np.asarray((np.where(losses > 30, far, np.log(near)) + s * s / 2) / s)

    def missed_by(self, losses: Floats, places: Floats) -> float:
        """By how much the losses at `places` differ from `losses`, at most: what the inverse left open."""
        if self.group == 1 or not len(losses):
            return 0.0
        return float(np.abs(self.loss(places) - losses).max())

    def masses(self, ends: Floats) -> Floats:
        """The mass of the mixture between consecutive ends."""
        if self.group == 1:
            return (1 - self.q) * normal_masses(ends) + self.q * normal_masses(ends - self.s)
        total = np.zeros(len(ends) - 1)
        for j, weight in enumerate(np.exp(self._logs).tolist()):
            total += weight * normal_masses(ends - j * self.s)
        return total

    def densities(self, y: Floats) -> Floats:
        if self.group == 1:
            return np.asarray((1 - self.q) * np.exp(-y * y / 2) + self.q * np.exp(-((y - self.s) ** 2) / 2))
        return np.asarray(np.exp(self.loss(y) - y * y / 2))


def normal_masses(ends: Floats) -> Floats:
    """Standard normal mass between consecutive ends, to a relative error of 1e-13 (A10)."""
    from scipy.special import ndtr

    left, right = ends[:-1], ends[1:]
    flip = left + right > 0  # the far tail has the accurate cumulative
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    wide = ndtr(right) - ndtr(left)
    nodes, weights = quadrature(8)
    half = (right - left) / 2
    at = (left + half)[:, None] + half[:, None] * nodes
    narrow = half * (np.exp(-at * at / 2) @ weights) / sqrt(2 * np.pi)
    return np.where((right - left) * np.maximum(1.0, np.abs(left)) < 0.25, narrow, wide)


@lru_cache(maxsize=2)
def quadrature(points: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights
