"""A classifier from the rados' first two moments.

For many examples a uniform rado is nearly normal, with half the sum of all edge vectors as mean and a quarter
of the sum of their products as covariance: so these two are all that rados tell. covariance^-1 mean is twice
the least-squares classifier of the examples, which is the first Newton step of the logistic risk. The
covariance is shrunk towards a multiple of the identity (Ledoit and Wolf), in columns of unit variance, so that
the columns' units do not matter.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier, and how far the covariance was shrunk: 0 is not at all, 1 is to the identity."""

    theta: NDArray[np.float64]
    shrinkage: float


def learn_moments(rados: ArrayLike) -> MomentFit:
    """theta = (shrunk covariance)^-1 mean of the rados; a column that does not vary gets 0.

    >>> rng = np.random.default_rng(0)
    >>> fit = learn_moments(rng.normal([3.0, 0.0], 1.0, size=(500, 2)))
    >>> bool(fit.theta[0] > 2.5), bool(abs(fit.theta[1]) < 0.5)
    (True, True)
    """
    from scipy.linalg import pinvh
    from sklearn.covariance import ledoit_wolf
    from threadpoolctl import threadpool_limits

    matrix = np.asarray(rados, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ArgumentError(f"rados must be a matrix of finite numbers, one rado a row; the shape is {matrix.shape}")
    if len(matrix) < 2:
        raise ArgumentError("the moments of one rado are not defined; use a release with at least two rados")
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
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        covariance, shrinkage = ledoit_wolf(centred, assume_centered=True)
        # A pseudo-inverse: with few rados the covariance may be singular even when shrunk.
        theta[varies] = pinvh(covariance) @ (mean[varies] / scale) / scale / unit[varies]
    return MomentFit(theta, float(shrinkage))
