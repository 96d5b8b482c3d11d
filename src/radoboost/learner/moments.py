"""A classifier from the rados' first two moments.

For many examples a uniform rado is nearly normal, with half the sum of all edge vectors as mean and a quarter
of the sum of their products as covariance: so these two are all that rados can say. covariance^-1 mean is twice
the least-squares classifier of the examples, which is the first Newton step of the logistic risk. The
covariance is shrunk towards a multiple of the identity (Ledoit and Wolf), in columns of unit variance, so that
the columns' units do not matter. Where rados carry noise of known variance, that is subtracted from the covariance
instead, and the remaining eigenvalues are raised to a floor.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.learner.class_noise import measure_classes
from radoboost.learner.class_scores import Clouds, score_scale
from radoboost.learner.effects import Effects, dependencies, parts_of, read_effects
from radoboost.learner.groups import settling
from radoboost.learner.link import Link, score_link
from radoboost.learner.uncertainty import Curvature, Uncertainty, measure
from radoboost.release import Release
from radoboost.release.scores import column_factors, whitened_theta
from radoboost.release.spectra import HESSIAN_FLOOR, floor_noise, noise_floor

_LEAST_RATIO = 1e-3  # of an eigenvalue of the covariance to the largest, once noise was subtracted


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier, and how the covariance was treated.

    `shrinkage` says how far it was shrunk: 0 is not at all, 1 is to the identity. `floor` is the least that an
    eigenvalue may be once noise was subtracted; 0 without noise. For noisy moments, `uncertainty` says what the noise
    that the release declares does to theta, `link` how probable the positive class is at a score, and `effects` what a
    model keeps to explain itself. Of more than two classes theta has a row for each, and its scale is such that scores
    are logarithms of probabilities: there is no link, and no effects are kept.
    """

    theta: NDArray[np.float64]
    shrinkage: float
    floor: float = 0.0
    uncertainty: Uncertainty | None = None
    link: Link | None = None
    effects: Effects | None = None

    @property
    def standard_errors(self) -> NDArray[np.float64] | None:
        """Those of theta, for noisy moments."""
        return None if self.uncertainty is None else self.uncertainty.standard_errors


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
    about categories is settled (`learner.groups`), and of weights that add up to 0 in every row, such as those of all
    hats of a column against the constant, there is none. However little there is, theta is what the moments say:
    shrinking it by the noise, towards zero or towards the noisy class balance, was measured, and gives more errors.
    """
    from threadpoolctl import threadpool_limits

    mechanism, blocks, columns = release.mechanism, release.blocks, release.columns
    parts = parts_of(columns, release.map, release.schema)
    constant = float(mechanism["constant"]) if columns[-1].scale == "constant" else None
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        curvature = Curvature.of(
            blocks["moment:C2"], noise_floor(floor_noise(mechanism["noise"], "whitened"), len(columns), HESSIAN_FLOOR)
        )
        whitened = whitened_theta(blocks, mechanism)
        nothing = dependencies(parts, columns, release.map, constant)
        if release.n_classes > 2:
            clouds = Clouds.of(release, curvature.inverse, whitened)
            to_columns = score_scale(release, clouds) * without(nothing, constant) @ settling(release)
            to_columns = to_columns @ column_factors(blocks, mechanism, columns)
            doubt = measure_classes(release, curvature, to_columns, whitened, nothing)
            return MomentFit(whitened @ to_columns.T, 0.0, 0.0, doubt)
        link = score_link(release)
        to_columns = link.scale * without(nothing, constant) @ settling(release)
        to_columns = to_columns @ column_factors(blocks, mechanism, columns)
        doubt = measure(release, curvature, to_columns, whitened, [part.kept for part in parts], nothing)
        theta = to_columns @ whitened
        return MomentFit(theta, 0.0, 0.0, doubt, link, read_effects(release, theta, parts, doubt.covariances))


def without(nothing: NDArray[np.float64], constant: float | None) -> NDArray[np.float64]:
    """The matrix that takes out of theta what adds up to 0 in every row; there the constant column counts as 1."""
    sums = nothing.copy()
    if constant is not None:
        sums[-1] *= constant
    span = np.linalg.qr(sums)[0]
    return np.asarray(np.eye(len(nothing)) - span @ span.T)


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
