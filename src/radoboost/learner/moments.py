"""A classifier from the rados' first two moments.

For many examples a uniform rado is nearly normal, with half the sum of all edge vectors as mean and a quarter
of the sum of their products as covariance: so these two are all that rados can say. covariance^-1 mean is twice
the least-squares classifier of the examples, which is the first Newton step of the logistic risk. The
covariance is shrunk towards a multiple of the identity (Ledoit and Wolf), in columns of unit variance, so that
the columns' units do not matter. Where rados carry noise of known variance, that is subtracted from the covariance
instead, and the remaining eigenvalues are raised to a floor.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.learner.groups import settling
from radoboost.release import Release
from radoboost.release.spectra import HESSIAN_FLOOR, LEAST, floored, noise_floor

_LEVEL = 0.95  # of each test whether there is more than noise
_BARELY = 1e-3  # the score of the majority class where nothing else is known
_LEAST_RATIO = 1e-3  # of an eigenvalue of the covariance to the largest, once noise was subtracted


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier, and how the covariance was treated.

    `shrinkage` says how far it was shrunk: 0 is not at all, 1 is to the identity. `floor` is the least that an
    eigenvalue may be once noise was subtracted; 0 without noise. `standard_errors` are those of theta by the noise that
    the release declares: for noisy moments only, and if there was more than noise. `fell_back` says that there was
    nothing but noise to learn from.
    """

    theta: NDArray[np.float64]
    shrinkage: float
    floor: float = 0.0
    standard_errors: NDArray[np.float64] | None = None
    fell_back: bool = False


def noise_variance(release: Release) -> float:
    """How much noise adds to the variance of each column of the rados, as the release says.

    Noise on examples is drawn once for all rados, which differ in the examples that they sum.
    """
    mechanism, signatures = release.mechanism, release.signatures
    if "noise_std" not in mechanism:
        return 0.0
    variance = float(mechanism["noise_std"]) ** 2
    if release.law == "noisy sums":
        return variance
    if release.law != "sums of noisy rows" or release.n_examples is None:
        raise ReleaseError("the release carries noise in a way this version does not know; upgrade radoboost")
    share = float(signatures.get("support", release.n_examples / 2)) / release.n_examples
    return share * (1 - share) * release.n_examples * variance


def rado_noise_std(release: Release) -> float:
    """The standard deviation of the noise that one rado carries in each column."""
    if release.law == "sums of noisy rows" and release.n_examples is not None:
        support = release.signatures.get("support", release.n_examples / 2)
        return float(release.mechanism["noise_std"]) * math.sqrt(support)
    return math.sqrt(noise_variance(release))


def noise_uncertainty(release: Release) -> float:
    """How uncertain that variance is in any direction, as a share of it: noise on examples is drawn m times only."""
    d = len(release.columns)
    if release.law == "sums of noisy rows" and release.n_examples is not None:
        return 2 * math.sqrt(d / min(release.n_rados, release.n_examples))
    return math.sqrt(d / release.n_rados)


def learn_released_moments(release: Release) -> MomentFit:
    """theta from the moments that a release of the mechanism `moments` holds.

    They are of rows that were put on the sphere, whitened, and put on the sphere again. Theta is for rows as they are,
    so it is divided by how far a typical row was stretched, as far as the moments say. What the moments do not tell
    about categories is settled (`learner.groups`). If an empty table might have
    given this release, theta predicts the noisy majority; without a constant column it is zero.
    """
    mechanism, noise = release.mechanism, release.mechanism["noise"]
    a, second, total = (release.blocks[name] for name in ("whitening", "moment:C", "moment:b"))
    total, d, rounds = total[0], len(a), int(mechanism["rounds"])
    curvature = _Curvature.of(release.blocks["moment:C2"], noise_floor(noise["whitened"], d, HESSIAN_FLOOR))
    whitened = release.blocks["theta"][rounds // 2 + 1 :].mean(axis=0) if rounds else 4 * curvature.solve(total)
    has_constant = release.columns[-1].scale == "constant"
    to_columns = a / _typical_stretch(a, second, mechanism["constant"] if has_constant else None)
    if has_constant:
        to_columns[-1] *= mechanism["constant"]
    to_columns = settling(release) @ to_columns
    if not _nothing_but_noise(release, curvature, whitened):
        responses = _responses(release, curvature, to_columns @ curvature.vectors)
        errors = np.sqrt(sum(np.square(response).sum(axis=1) for response in responses))
        return MomentFit(to_columns @ whitened, 0.0, standard_errors=errors)
    theta = np.zeros(d)
    if has_constant:
        theta[-1] = np.copysign(_BARELY, np.linalg.solve(a, total)[-1])
    return MomentFit(theta, 0.0, fell_back=True)


@dataclass(frozen=True, eq=False)
class _Curvature:
    """A noisy second moment by its eigenvalues and eigenvectors; `inverses` are of eigenvalues raised to a floor."""

    values: NDArray[np.float64]
    inverses: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: NDArray[np.float64], floor: float) -> "_Curvature":
        values, vectors = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), 1 / floored(values, floor), vectors)

    def solve(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.vectors @ (self.inverses * (self.vectors.T @ vector)))


def _nothing_but_noise(release: Release, curvature: _Curvature, whitened: NDArray[np.float64]) -> bool:
    """Whether an empty table might have given this release: by the number of records, by the sum, and by the scores.

    Both traces estimate the number of records. The squared length of the sum is chi-square for noise alone. The mean
    square of the scores is then a sum of squares of normal numbers; it is compared with the chi-square law that has the
    same mean and variance. Each test finds something in an empty table with a chance of about 5 %.
    """
    from scipy.stats import chi2, norm

    deviation, total = release.mechanism["noise"]["sum"], release.blocks["moment:b"][0]
    if total @ total >= chi2.ppf(_LEVEL, len(total)) * deviation**2:
        return False
    size, spread = _noisy_size(release)
    if spread > 0 and size > norm.ppf(_LEVEL) * spread:
        return False
    root = np.sqrt(curvature.values)
    if not root.any():
        return True
    law = sum(response @ response.T for response in _responses(release, curvature, np.diag(root), nothing=True))
    mean, square = float(np.trace(law)), float(np.square(law).sum())
    energy = float(np.square(root * (curvature.vectors.T @ whitened)).sum())
    return bool(energy * mean / square < chi2.ppf(_LEVEL, mean**2 / square))


def _noisy_size(release: Release) -> tuple[float, float]:
    """The number of records by the traces of both second moments, and the standard deviation of that figure."""
    noise, d = release.mechanism["noise"], len(release.columns)
    size = (float(np.trace(release.blocks["moment:C"])) + float(np.trace(release.blocks["moment:C2"]))) / 2
    return size, math.sqrt(d * (noise["second"] ** 2 + noise["whitened"] ** 2)) / 2


def _responses(
    release: Release, curvature: _Curvature, outwards: NDArray[np.float64], *, nothing: bool = False
) -> Iterator[NDArray[np.float64]]:
    """How far one standard deviation of each noise moves `outwards` times theta, given the whitening that was released.

    A matrix for each noise vector: everything is in the eigenvectors of the second moment. Without sharpening theta is
    4 H b: noise moves b, and H by a first-order term. With sharpening each mean rado moves what follows by 4 eta H
    times its noise, and the next one takes some of that back, as much as the derivative of a mean rado says: that is
    taken for normal scores, of which the moments tell the mean and the variance, and is 0 if there is `nothing` but
    noise. It is followed from the last classifier back to the first.
    """
    noise, rounds, eta = release.mechanism["noise"], int(release.mechanism["rounds"]), release.mechanism["eta"]
    h, total = curvature.inverses, release.blocks["moment:b"][0]
    if not rounds:
        gain, pull = 4 * outwards * h, h * (curvature.vectors.T @ total) * (not nothing)
        yield gain * math.hypot(noise["sum"], noise["whitened"] * float(np.linalg.norm(pull)) / math.sqrt(2))
        yield (gain @ pull)[:, None] * noise["whitened"] / math.sqrt(2)
        return
    whole = max(float(curvature.values.sum()), LEAST)
    size = min(max(_noisy_size(release)[0], LEAST), whole)
    # Noise makes eigenvalues too large, but not their sum. Without records they take nothing back.
    w = curvature.values * (0.0 if nothing else size / whole)
    back = np.zeros_like(outwards)
    for k in reversed(range(rounds)):
        if k >= rounds // 2:
            back = back + outwards / (rounds - rounds // 2)
        yield 4 * eta * noise["rounds"] * back * h
        theta = release.blocks["theta"][k]
        inner = curvature.vectors.T @ theta
        squares = float(inner @ (w * inner))
        if squares > 0:
            slopes = _derivative(float(total @ theta) / size, squares / size)
            along, across = (
                min(slope, 1 / (2 * eta)) for slope in slopes
            )  # steeper ones, and the rounds would not have settled
            direction = w * inner / math.sqrt(squares)
            back = back - 4 * eta * (
                across * back * (h * w) + np.outer(back @ (h * direction), (along - across) * direction)
            )
    yield 4 * noise["sum"] * back * h


def _derivative(mean: float, square: float) -> tuple[float, float]:
    """The mean derivative of capped logistic weights for normal scores: along the classifier, and across it."""
    from numpy.polynomial.hermite_e import hermegauss
    from scipy.special import expit

    points, masses = hermegauss(100)
    mean = math.copysign(min(abs(mean), math.sqrt(square)), mean)  # noise may have made it larger
    scores = mean + math.sqrt(max(square - mean**2, 0.0)) * points
    slopes = np.where(scores > 0, expit(scores) * expit(-scores), 0.0) * masses / masses.sum()
    return float(slopes @ np.square(scores)) / square, float(slopes.sum())


def _typical_stretch(a: NDArray[np.float64], second: NDArray[np.float64], constant: float | None) -> float:
    """The length of a typical row, times that of its image under `a` once it is on the sphere."""
    size, d = float(np.trace(second)), len(a)
    if size <= 0:
        return float(np.linalg.norm(a, 2))
    stretch = math.sqrt(max(float(np.trace(a @ second @ a)) / size, 1e-12 * float(np.square(a).max())))
    if constant is None:
        return stretch
    # Projecting shrinks the constant with its row: its mean square on the sphere says how long rows were.
    share = min(1.0, max(float(second[-1, -1]) / size, constant**2 / (d - 1 + constant**2)))
    return stretch * constant / math.sqrt(share)


def learn_moments(rados: ArrayLike, noise: float = 0.0, uncertainty: float | None = None) -> MomentFit:
    """theta = covariance^-1 mean of the rados, the covariance shrunk, or less `noise`, the variance of their noise.

    `uncertainty` is the least share of the noise that an eigenvalue keeps; sqrt(d / n) by default.

    A column that does not vary gets 0.

    >>> rng = np.random.default_rng(0)
    >>> fit = learn_moments(rng.normal([3.0, 0.0], 1.0, size=(500, 2)))
    >>> bool(fit.theta[0] > 2.5), bool(abs(fit.theta[1]) < 0.5)
    (True, True)
    """
    from threadpoolctl import threadpool_limits

    matrix = np.asarray(rados, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ArgumentError(f"rados must be a matrix of finite numbers, one rado a row; the shape is {matrix.shape}")
    if len(matrix) < 2:
        raise ArgumentError("the moments of one rado are not defined; use a release with at least two rados")
    d = matrix.shape[1]
    memory.require(5 * 8 * d**2, f"the covariance of {d:,} columns", "learn by boosting, or use fewer columns")
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        return _shrunk(matrix) if noise == 0 else _without_noise(matrix, noise, uncertainty)


def _shrunk(matrix: NDArray[np.float64]) -> MomentFit:
    from scipy.linalg import pinvh
    from sklearn.covariance import ledoit_wolf

    # In units of the largest magnitude nothing can overflow.
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    mean, spread = (matrix / unit).mean(axis=0), (matrix / unit).std(axis=0)
    varies = spread > 1e-12 * np.abs(mean)
    if not varies.any():
        raise ArgumentError("no column of the rados varies; there is nothing to learn from")
    scale = spread[varies]
    centred = (matrix[:, varies] / unit[varies] - mean[varies]) / scale
    theta = np.zeros(matrix.shape[1])
    covariance, shrinkage = ledoit_wolf(centred, assume_centered=True)
    # A pseudo-inverse: with few rados the covariance may be singular even when shrunk.
    theta[varies] = pinvh(covariance) @ (mean[varies] / scale) / scale / unit[varies]
    return MomentFit(theta, float(shrinkage))


def _without_noise(matrix: NDArray[np.float64], noise: float, uncertainty: float | None) -> MomentFit:
    """Subtract the noise, which is alike in all columns; how uncertain it is in the sample sets the floor."""
    from scipy.linalg import eigh

    n, d = matrix.shape
    mean = matrix.mean(axis=0)
    values, vectors = eigh(np.cov(matrix.T).reshape(d, d))
    values = values - noise
    share = math.sqrt(d / n) if uncertainty is None else uncertainty
    floor = max(_LEAST_RATIO * float(values[-1]), noise * share)
    return MomentFit(vectors @ (vectors.T @ mean / np.maximum(values, floor)), 0.0, floor)
