"""Scores of more than two classes as released moments describe them: a normal cloud for each class.

They say how large a part of the largest scores' lead is real: private counts of rows whose class has the largest score,
and of those whose class has not, by how far it leads, are compared with what probabilities of these clouds would give.
What fits best is one scale for all scores, which goes into theta. And they say how far noise on one mean rado is taken
back by the next.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax

from radoboost.release import Release
from radoboost.release.discriminants import ClassSums
from radoboost.release.scores import EDGES
from radoboost.release.spectra import LEAST

CLASS_CAP = math.sqrt(0.5)  # on the norm of the class weights of a row, in mean rados
_POINTS = 4096  # of all clouds together, about
_MIDDLE, _SPREAD = math.log(0.8), 0.5  # of the log scale, before any count
_LOG_SCALES = np.linspace(math.log(0.05), math.log(4.0), 60)


@dataclass(frozen=True, eq=False)
class Clouds:
    """Points of the scores of rows, shape (points, classes), the class of each, and how many rows each stands for."""

    scores: NDArray[np.float64]
    places: NDArray[np.int64]
    masses: NDArray[np.float64]

    @classmethod
    def of(cls, release: Release, inverse: NDArray[np.float64], theta: NDArray[np.float64]) -> "Clouds":
        """Those of the classifier `theta` of whitened rows, whose second moment has this `inverse`."""
        second, n_classes = release.blocks["moment:C2"], release.n_classes
        by_class = ClassSums.of(release.blocks["moment:b"], inverse, float(release.mechanism["noise"]["sum"]))
        whole, sizes = max(float(np.trace(second)), LEAST), by_class.sizes
        means = (by_class.sums / sizes[:, None]) @ theta.T
        within = theta @ second @ theta.T / whole - (means.T * (sizes / sizes.sum())) @ means
        values, vectors = np.linalg.eigh(within)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        each = -(-_POINTS // n_classes)
        points = spread_normals(each, n_classes) @ root.T
        places = np.repeat(np.arange(n_classes), each)
        return cls(means[places] + np.tile(points, (n_classes, 1)), places, sizes[places] / each)

    @property
    def lead(self) -> NDArray[np.float64]:
        """How far the largest score of each point is above the next."""
        ranked = np.partition(self.scores, -2, axis=1)
        return np.asarray(ranked[:, -1] - ranked[:, -2])

    def curvature(self) -> NDArray[np.float64]:
        """How much a mean rado of a row takes back of a change of the scores, on average: (classes, classes)."""
        p = softmax(self.scores, axis=1)
        u = np.eye(p.shape[1])[self.places] - p
        length = np.maximum(np.linalg.norm(u, axis=1), LEAST)
        capped = length > CLASS_CAP
        masses = (np.where(capped, CLASS_CAP / length, 1.0) * self.masses / self.masses.sum())[:, None]
        # What is scaled to the cap does not change along itself.
        along = np.where(capped[:, None], u / length[:, None], 0.0)
        slopes = np.diag((masses * p).sum(axis=0)) - p.T @ (masses * p)
        slopes -= along.T @ (masses * (along * p - (along * p).sum(axis=1, keepdims=True) * p))
        return np.asarray((slopes + slopes.T) / 2)


def spread_normals(n_points: int, n_dimensions: int) -> NDArray[np.float64]:
    """Normal numbers without chance: multiples of powers of one irrational number, by the normal quantiles."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (n_dimensions + 1))
    steps = root ** -np.arange(1.0, n_dimensions + 1)
    return np.asarray(ndtri((np.arange(0.5, n_points)[:, None] * steps) % 1.0))


def fitted_scale(counts: NDArray[np.float64], noise_std: float, unit: float, clouds: Clouds) -> float:
    """The factor that makes scores the logarithms of probabilities, but for what all classes share.

    `counts` are noisy: [class has the largest score][size of its lead, by `EDGES` times `unit`]. The posterior mean of
    its logarithm is taken.
    """
    sizes = np.searchsorted(np.array(EDGES) * unit, clouds.lead, side="right")
    members = np.array([(sizes == k) * clouds.masses for k in range(len(EDGES) + 1)])
    known = members.sum(axis=1) > 0
    members = members[known] / members[known].sum(axis=1, keepdims=True)
    misses, hits = counts[:, known]
    total = hits + misses
    posterior = []
    for log_scale in _LOG_SCALES:
        rate = members @ softmax(math.exp(log_scale) * clouds.scores, axis=1).max(axis=1)
        variance = noise_std**2 * (rate**2 + (1 - rate) ** 2) + np.maximum(total, 0.0) * rate * (1 - rate) + 1
        misfit = float((np.square(hits - rate * total) / variance + np.log(variance)).sum())
        posterior.append(-0.5 * (misfit + ((log_scale - _MIDDLE) / _SPREAD) ** 2))
    weights = np.exp(np.array(posterior) - max(posterior))
    return math.exp(float(weights @ _LOG_SCALES / weights.sum()))


def score_scale(release: Release, clouds: Clouds) -> float:
    mechanism: Any = release.mechanism
    return fitted_scale(
        release.blocks["scores"], float(mechanism["noise"]["scores"]), float(mechanism["score_unit"]), clouds
    )
