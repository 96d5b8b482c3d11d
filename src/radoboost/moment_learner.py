"""A classifier from the rados' first two moments.

For many examples a uniform rado is nearly normal, with half the sum of all edge vectors as mean and a quarter
of the sum of their products as covariance: so these two are all that rados tell. covariance^-1 mean is twice
the least-squares classifier of the examples, which is the first Newton step of the logistic risk. The
covariance is shrunk towards a multiple of the identity (Ledoit and Wolf), in columns of unit variance, so that
the columns' units do not matter. Where rados carry noise of known variance, that is taken off the covariance instead,
and what is left is kept from below.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError, ReleaseError, TooLargeError
from radoboost.release import Release

_LEAST_RATIO = 1e-3  # of an eigenvalue of the covariance to the largest, once noise was taken off


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier, and how the covariance was treated.

    `shrinkage` says how far it was shrunk: 0 is not at all, 1 is to the identity. `floor` is the least eigenvalue that
    was let stand after noise was taken off; 0 where there is no noise.
    """

    theta: NDArray[np.float64]
    shrinkage: float
    floor: float = 0.0


def noise_variance(release: Release) -> float:
    """How much noise adds to the variance of each column of the rados, as the release says.

    Noise on examples is the same for all rados; what varies among rados is which of it they sum.
    """
    mechanism, signatures = release.mechanism, release.signatures
    if "noise_std" not in mechanism:
        return 0.0
    variance = float(mechanism["noise_std"]) ** 2
    if mechanism.get("noise_on") == "rados":
        return variance
    if mechanism.get("noise_on") != "examples" or release.n_examples is None:
        raise ReleaseError("the release carries noise in a way this version does not know; upgrade radoboost")
    share = float(signatures.get("support", release.n_examples / 2)) / release.n_examples
    return share * (1 - share) * release.n_examples * variance


def rado_noise_std(release: Release) -> float:
    """The standard deviation of the noise that one rado carries in each column."""
    if release.mechanism.get("noise_on") == "examples" and release.n_examples is not None:
        support = release.signatures.get("support", release.n_examples / 2)
        return float(release.mechanism["noise_std"]) * math.sqrt(support)
    return math.sqrt(noise_variance(release))


def noise_uncertainty(release: Release) -> float:
    """How uncertain that variance is in any direction, as a share of it: noise on examples is only drawn m times."""
    d = len(release.columns)
    if release.mechanism.get("noise_on") == "examples" and release.n_examples is not None:
        return 2 * math.sqrt(d / min(release.n_rados, release.n_examples))
    return math.sqrt(d / release.n_rados)


def learn_moments(rados: ArrayLike, noise: float = 0.0, uncertainty: float | None = None) -> MomentFit:
    """theta = covariance^-1 mean of the rados, the covariance shrunk, or rid of `noise`, the variance of their noise.

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
    _check_memory(matrix.shape[1])
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        return _shrunk(matrix) if noise == 0 else _rid_of_noise(matrix, noise, uncertainty)


def _check_memory(n_columns: int) -> None:
    """Refuse covariances that do not fit, before something else does."""
    import psutil

    needed, free = 5 * 8 * n_columns**2, int(psutil.virtual_memory().available)
    if needed > free:
        raise TooLargeError(
            f"the covariance of {n_columns:,} columns needs {needed / 2**30:.1f} GiB of memory and "
            f"{free / 2**30:.1f} GiB are free; learn by boosting, or use fewer columns"
        )


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


def _rid_of_noise(matrix: NDArray[np.float64], noise: float, uncertainty: float | None) -> MomentFit:
    """Noise is alike in all columns, so their common unit is kept; the sample's error in it sets the floor."""
    from scipy.linalg import eigh

    n, d = matrix.shape
    mean = matrix.mean(axis=0)
    values, vectors = eigh(np.cov(matrix.T).reshape(d, d))
    values = values - noise
    share = math.sqrt(d / n) if uncertainty is None else uncertainty
    floor = max(_LEAST_RATIO * float(values[-1]), noise * share)
    return MomentFit(vectors @ (vectors.T @ mean / np.maximum(values, floor)), 0.0, floor)
