"""How far the declared noise moves a classifier from noisy moments, and how little there may be in them.

All of it is computed from released numbers. The noise of each stage is known, and so is how the classifier follows from
the stages: to first order, that gives the covariance of its weights.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from radoboost.release.moment_math import LEAST, raise_eigenvalues
from radoboost.release.release import Release

LITTLE = 0.05
"""From this `empty_chance` on, users are warned."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """A noisy second moment by its eigenvalues and eigenvectors; `inverses` are of eigenvalues raised to a floor."""

    values: NDArray[np.float64]
    inverses: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: NDArray[np.float64], floor: float) -> "Curvature":
        values, vectors = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), 1 / raise_eigenvalues(values, floor), vectors)

    @property
    def inverse(self) -> NDArray[np.float64]:
        return np.asarray((self.vectors * self.inverses) @ self.vectors.T)

    def solve(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.vectors @ (self.inverses * (self.vectors.T @ vector)))


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What noise does to theta: standard errors, covariances within groups of columns, and its share in the scores.

    `noise_share` is the part of the scores' mean square that noise makes, and `empty_chance` the probability with which
    an empty table would give a release that looks as full as this one.
    """

    standard_errors: NDArray[np.float64]
    covariances: Sequence[NDArray[np.float64]]
    noise_share: float
    empty_chance: float


def propagate_noise(
    release: Release,
    curvature: Curvature,
    to_columns: NDArray[np.float64],
    whitened: NDArray[np.float64],
    groups: Sequence[Sequence[int]] = (),
) -> Uncertainty:
    """The uncertainty of theta = `to_columns` times `whitened`; `groups` are places of columns."""
    d = len(whitened)
    curved = StageResponse.of(release, curvature)
    to_scores = np.diag(np.sqrt(curved.values))
    outwards = np.vstack([to_columns @ curvature.vectors, to_scores])
    variances, covariances = np.zeros(2 * d), [np.zeros((len(group), len(group))) for group in groups]
    for response in _theta_responses_to_noise(release, curvature, outwards, curved):
        variances += np.square(response).sum(axis=1)
        for group, covariance in zip(groups, covariances, strict=True):
            part = response[list(group)]
            covariance += part @ part.T
    whole = float(np.square(to_scores @ (curvature.vectors.T @ whitened)).sum())
    share = min(float(variances[d:].sum()) / whole, 1.0) if whole > 0 else 1.0
    return Uncertainty(np.sqrt(variances[:d]), covariances, share, chance_of_empty_table(release))


def chance_of_empty_table(release: Release) -> float:
    """The probability with which an empty table would give a release that looks as full as this one, or fuller.

    Noise alone makes the squared length of the sum chi-square, and the noisy numbers of records normal. The smaller of
    both probabilities counts, twice, since there are two. Where the number of records is exact, there is no doubt.
    """
    from scipy.stats import chi2, norm

    deviation, total = release.mechanism["noise"]["sum"], release.blocks["moment:b"].ravel()
    size, spread = noisy_number_of_records(release)
    if spread == 0:
        return 1.0 if size <= 0 else 0.0
    by_sum, by_size = chi2.sf(total @ total / deviation**2, len(total)), norm.sf(size / spread)
    return float(min(1.0, 2 * min(by_sum, by_size)))


def weak_release_text(empty_chance: float, noise_share: float) -> str:
    if empty_chance > LITTLE:
        return (
            "an empty table gives a release like this one, or a fuller one, with probability "
            f"{empty_chance:.2g}: there may be nothing in it"
        )
    share = "less than 1" if noise_share < 0.01 else f"about {100 * noise_share:.0f}"
    chance = f"; an empty table gives a release like this one with probability {empty_chance:.1g}"
    return f"noise makes {share} % of the spread of scores{chance if empty_chance > 1e-6 else ''}"


def noisy_number_of_records(release: Release) -> tuple[float, float]:
    """The number of records by the traces of both second moments, and the standard deviation of that figure."""
    noise, d = release.mechanism["noise"], len(release.columns)
    size = (float(np.trace(release.blocks["moment:C"])) + float(np.trace(release.blocks["moment:C2"]))) / 2
    return size, math.sqrt(d * (noise["second"] ** 2 + noise["whitened"] ** 2)) / 2


@dataclass(frozen=True, eq=False)
class StageResponse:
    """The second moment of whitened rows as far as it is known, in the eigenvectors of the noisy one.

    Noise makes eigenvalues too large, but not their sum.
    """

    values: NDArray[np.float64]
    size: float

    @classmethod
    def of(cls, release: Release, curvature: Curvature) -> "StageResponse":
        whole = max(float(curvature.values.sum()), LEAST)
        size = min(max(noisy_number_of_records(release)[0], LEAST), whole)
        return cls(curvature.values * (size / whole), size)


def _theta_responses_to_noise(
    release: Release, curvature: Curvature, outwards: NDArray[np.float64], curved: StageResponse
) -> Iterator[NDArray[np.float64]]:
    """How far one standard deviation of each noise moves `outwards` times theta, given the whitening that was released.

    A matrix for each noise vector: everything is in the eigenvectors of the second moment. Without sharpening theta is
    4 H b: noise moves b, and H by a first-order term. With sharpening each mean rado moves what follows by 4 eta H
    times its noise, and the next one takes some of that back, as much as the derivative of a mean rado says: that is
    taken for normal scores, of which the moments tell the mean and the variance. It is followed from the last
    classifier back to the first.
    """
    noise, rounds, eta = release.mechanism["noise"], int(release.mechanism["rounds"]), release.mechanism["eta"]
    h, total = curvature.inverses, release.blocks["moment:b"][0]
    if not rounds:
        gain, pull = 4 * outwards * h, h * (curvature.vectors.T @ total)
        yield gain * math.hypot(noise["sum"], noise["whitened"] * float(np.linalg.norm(pull)) / math.sqrt(2))
        yield (gain @ pull)[:, None] * noise["whitened"] / math.sqrt(2)
        return
    back = np.zeros_like(outwards)
    for k in reversed(range(rounds)):
        if k >= rounds // 2:
            back = back + outwards / (rounds - rounds // 2)
        yield 4 * eta * noise["rounds"] * back * h
        theta = release.blocks["theta"][k]
        inner = curvature.vectors.T @ theta
        pulled = inner * curved.values
        squares = float(inner @ pulled)
        if squares > 0:
            slopes = _mean_derivative_of_capped_weights(float(total @ theta) / curved.size, squares / curved.size)
            # Were they steeper, the rounds would not have settled.
            along, across = (min(slope, 1 / (2 * eta)) for slope in slopes)
            direction, scaled = pulled / math.sqrt(squares), back * h
            back = back - 4 * eta * (
                across * scaled * curved.values + np.outer(scaled @ direction, (along - across) * direction)
            )
    yield 4 * noise["sum"] * back * h


def _mean_derivative_of_capped_weights(mean: float, square: float) -> tuple[float, float]:
    """The mean derivative of capped logistic weights for normal scores: along the classifier, and across it."""
    from scipy.special import expit

    points, masses = _normal_quadrature_points()
    mean = math.copysign(min(abs(mean), math.sqrt(square)), mean)  # noise may have made it larger
    scores = mean + math.sqrt(max(square - mean**2, 0.0)) * points
    slopes = np.where(scores > 0, expit(scores) * expit(-scores), 0.0) * masses / masses.sum()
    return float(slopes @ np.square(scores)) / square, float(slopes.sum())


@cache
def _normal_quadrature_points() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from numpy.polynomial.hermite_e import hermegauss

    points, masses = hermegauss(100)
    return np.asarray(points), np.asarray(masses)
