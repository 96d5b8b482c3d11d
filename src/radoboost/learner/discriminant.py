"""A linear classifier of more than two classes from the rados of each.

First the linear discriminant: with class means m_c and the scatter W within classes, which is shrunk towards a multiple
of the identity (Ledoit and Wolf) in columns of unit variance, the scores x' W^-1 m_c - m_c' W^-1 m_c / 2 + log(n_c / n)
differ from each other in at most K - 1 directions. One-against-the-others least squares would have masked classes that
lie between others; these do not.

The discriminant takes it that all classes scatter alike, which the rados of each can deny. So in its directions, K - 1
of them at most, the multinomial logistic risk is minimised over one normal cloud for each class, with the mean, the
covariance and the weight that the rados tell. Clouds are made of fixed points, so the same release gives the same
weights. Directions are not changed by it.

Without a constant column nothing says how many examples a class has. There the first Newton step of the multinomial
risk from 0 is taken, K C^-1 (S_c - mean of all S_c): with two classes it is the least squares of `learner.moments`, and
with more it masks.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from radoboost import memory
from radoboost.errors import ReleaseError
from radoboost.learner.multiclass_moments import ClassMoments, class_blocks, class_moments, share_and_spread
from radoboost.release.release import Release

_LEAST_VARIANCE = 1e-6  # within classes, of the whole variance of a column
_STEADY = 1e-10  # a column that varies by less than this share of its mean is constant
_POINTS = 1024  # for each class
_ALL_POINTS = 8192
_RIDGE = 1.0  # as for scikit-learn's C = 1


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Weights of each class, (K, n_columns), whose scores are log probabilities up to what all classes share.

    `shrinkage` says how far the covariance was shrunk: 0 is not at all, 1 is to the identity. `sizes` are the numbers
    of examples in the classes, to sampling error; None without a constant column. `absent` are the places of classes
    that are in no rado.
    """

    theta: NDArray[np.float64]
    shrinkage: float
    sizes: NDArray[np.float64] | None = None
    absent: tuple[int, ...] = ()


def learn_classes(release: Release) -> ClassFit:
    """Weights for each of more than two classes, from a plain release."""
    from threadpoolctl import threadpool_limits

    d = len(release.columns)
    memory.require(5 * 8 * d**2, f"the covariance of {d:,} columns", "learn by boosting, or use fewer columns")
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        if release.columns[-1].scale != "constant":
            return _first_step(release)
        return _discriminant(class_moments(release))


# ---- with a constant column


def _discriminant(moments: ClassMoments) -> ClassFit:
    present = moments.sizes > 0
    if present.sum() < 2:
        raise ReleaseError("examples of fewer than two classes are in the rados; craft more of them")
    sizes, means, deviations = moments.sizes[present], moments.means[present], moments.deviations[present]
    n = float(sizes.sum())
    # In units of the largest magnitude nothing can overflow.
    unit = _largest(np.abs(means).max(axis=0), np.abs(deviations).max(axis=(0, 1)) / math.sqrt(n))
    means, deviations = means / unit, deviations / unit
    middle = sizes @ means / n
    scatter = np.square(deviations).mean(axis=1).sum(axis=0) + sizes @ np.square(means - middle)
    spread = np.sqrt(scatter / n)
    varies = spread > _STEADY * np.abs(middle)
    if not varies.any():
        raise ReleaseError("no column of the rados varies; there is nothing to learn from")
    scale = spread[varies]
    means, deviations = (means - middle)[:, varies] / scale, deviations[:, :, varies] / scale
    whitening, shrinkage = _whitening(deviations.reshape(-1, len(scale)), len(sizes) / n)
    plane = _plane(means @ whitening, sizes / n)
    to_plane = whitening @ plane
    weights, offsets = _fit_clouds(means @ to_plane, _covariances(deviations @ to_plane, sizes), sizes)
    theta = np.zeros((len(moments.sizes), moments.means.shape[1] + 1))
    slopes = weights @ to_plane.T / scale
    theta[np.ix_(present, np.append(varies, False))] = slopes / unit[varies]
    theta[present, -1] = offsets - slopes @ middle[varies]
    if not present.all():  # below the mean of the others everywhere, as if of half an example
        theta[~present] = sizes @ theta[present] / n
        theta[~present, -1] += math.log(0.5 / n)
    return ClassFit(theta - theta.mean(axis=0), shrinkage, moments.sizes, tuple(np.flatnonzero(~present).tolist()))


def _largest(*magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest magnitude of each column, and 1 where all are 0."""
    largest = np.maximum.reduce(magnitudes)
    return np.where(largest > 0, largest, 1.0)


def _shrunk(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The shrunk mean of products of rows, and how far it was shrunk."""
    from sklearn.covariance import ledoit_wolf

    if not rows.any():
        return np.zeros((rows.shape[1],) * 2), 0.0
    covariance, shrinkage = ledoit_wolf(rows, assume_centered=True)
    return np.asarray(covariance), float(shrinkage)


def _whitening(rows: NDArray[np.float64], factor: float) -> tuple[NDArray[np.float64], float]:
    """The matrix that makes the covariance within classes the identity: `factor` times the shrunk one of rows."""
    from scipy.linalg import eigh

    covariance, shrinkage = _shrunk(rows)
    values, vectors = eigh(covariance * factor)
    return vectors / np.sqrt(np.maximum(values, _LEAST_VARIANCE)) @ vectors.T, shrinkage


def _plane(means: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The directions in which the means of classes differ, the strongest first; K - 1 at most.

    The largest component of each is above 0, so that the order of the classes does not matter.
    """
    _, _, directions = np.linalg.svd(np.sqrt(shares)[:, None] * means, full_matrices=False)
    directions = directions[: len(shares) - 1]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    return np.asarray((directions * np.sign(largest)).T)


def _covariances(deviations: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """That of each class in the plane, where the pooled one is the identity.

    It leans on the pooled one by as much of its distance from that as so few rados, and so few examples, would show if
    there was none.
    """
    _, n_rados, rank = deviations.shape
    own = deviations.transpose(0, 2, 1) @ deviations / (n_rados * sizes[:, None, None])
    apart = own - np.eye(rank)
    by_chance = rank * (rank + 1) / n_rados
    kept = np.maximum(0.0, 1 - by_chance / np.square(apart).sum(axis=(1, 2)).clip(min=1e-300))
    kept *= sizes / (sizes + 1)
    return np.asarray(np.eye(rank) + kept[:, None, None] * apart)


def normal_points(n_points: int, rank: int) -> NDArray[np.float64]:
    """Points that stand for a normal cloud, always the same: their mean is 0, their covariance the identity."""
    from scipy.stats import qmc

    points = ndtri(qmc.Sobol(rank, scramble=False).random(n_points) + 0.5 / n_points)
    points -= points.mean(axis=0)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(points.T @ points / n_points), points.T).T)


def _fit_clouds(
    means: NDArray[np.float64], covariances: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and offsets with the least multinomial risk over a normal cloud for each class, from the discriminant."""
    from scipy.optimize import minimize

    k, rank = means.shape
    n_points = min(_POINTS, 1 << (_ALL_POINTS // k).bit_length() - 1)
    # A tiny ridge, for classes that do not scatter at all.
    roots = np.linalg.cholesky(covariances + 1e-12 * np.eye(rank))
    clouds = np.ones((k, n_points, rank + 1))
    clouds[:, :, :-1] = normal_points(n_points, rank) @ roots.transpose(0, 2, 1) + means[:, None, :]
    rows, places = clouds.reshape(-1, rank + 1), np.repeat(np.arange(k), n_points)
    shares = sizes / sizes.sum()
    masses = np.repeat(shares / n_points, n_points)
    ridge = _RIDGE / sizes.sum() * np.append(np.ones(rank), 0.0)
    own = np.arange(len(rows)), places
    # The risk bends in the weights of a class about as its share: in these units all are alike, which saves rounds.
    curvature = np.sqrt(shares)[:, None]

    def risk(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(k, rank + 1) / curvature
        scores = rows @ weights.T
        scores -= scores.max(axis=1, keepdims=True)
        expected = np.exp(scores)
        totals = expected.sum(axis=1)
        value = float(masses @ (np.log(totals) - scores[own])) + float((ridge * np.square(weights)).sum()) / 2
        expected *= (masses / totals)[:, None]
        expected[own] -= masses
        return value, ((expected.T @ rows + ridge * weights) / curvature).ravel()

    # Of classes that are far apart the weights are far too large for the ridge: so the discriminant is also tempered.
    starts = [
        curvature * np.column_stack([means * warmth, np.log(shares) - warmth * np.square(means).sum(axis=1) / 2])
        for warmth in 0.5 ** np.arange(20)
    ]
    start = min(starts, key=lambda weights: risk(weights.ravel())[0])
    found = minimize(
        risk,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 300, "ftol": 1e-9, "gtol": 1e-6},
    )
    weights = found.x.reshape(k, rank + 1) / curvature
    return weights[:, :-1], weights[:, -1]


# ---- without one


def _first_step(release: Release) -> ClassFit:
    """K C^-1 (S_c - mean of all S_c), with C the second moment of all examples, shrunk."""
    share, spread = share_and_spread(release)
    blocks = class_blocks(release)
    k, m = release.n_classes, release.n_examples
    assert m is not None
    unit = _largest(np.abs(blocks).max(axis=(0, 1)))
    blocks = blocks / unit
    sums = blocks.mean(axis=1) / share
    centred = (blocks - blocks.mean(axis=1, keepdims=True)) / math.sqrt(spread)
    fixed = sums.T @ sums / m if release.signatures["name"] != "all" else np.zeros((len(unit),) * 2)
    scale = np.sqrt((np.square(centred).mean(axis=1).sum(axis=0) + np.diag(fixed)) / m)
    varies = scale > _STEADY
    if not varies.any():
        raise ReleaseError("no column of the rados varies; there is nothing to learn from")
    scale = scale[varies]
    covariance, shrinkage = _shrunk(centred[:, :, varies].reshape(-1, len(scale)) / scale)
    second = covariance * k + fixed[np.ix_(varies, varies)] / np.outer(scale, scale)
    theta = np.zeros((k, len(unit)))
    centred_sums = (sums - sums.mean(axis=0))[:, varies] / scale
    theta[:, varies] = k * centred_sums @ np.linalg.pinv(second, hermitian=True) / scale / unit[varies]
    return ClassFit(theta, shrinkage)
