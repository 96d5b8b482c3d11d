"""What rados of more than two classes tell: how many examples each class has, their mean, and how they scatter.

Row j of the block of a class is the sum of b_i x_i over the examples i of that class, where b_i is 1 if example i is in
signature j, else 0. Let q = P(b_i = 1), v = Var b_i = q (1 - q), and r the covariance of two different b_i. Over all of
Sigma_m, q is 1/2, v is 1/4 and r is 0. With a fixed support s of m examples, q is s / m, and r is -v / (m - 1), because
the b_i add up to s. For a class c with n_c examples, sum S_c = sum x_i and second moment C_c = sum x_i x_i':

    (K1)  mean of its rados        q S_c
    (K2)  their covariance         (v - r) C_c + r S_c S_c'
    (K3)  with those of a class d  r S_c S_d'

K1 is linear. In K2, sum over i, j of Cov(b_i, b_j) x_i x_j' = v C_c + r (S_c S_c' - C_c); in K3 no example is in both.
So over all of Sigma_m the mean is half of the class's sum, the covariance a quarter of its second moment, and classes
do not correlate.

The constant column is 1 in every example, so its mean is q n_c, and the mean of x in the class is m_c, the ratio of two
means of rados. Take m_c times the constant column from all columns: these are rados of x - m_c, whose sum over the
class is 0. So by K1 to K3

    (K4)  their mean is 0, their covariance (v - r) sum (x_i - m_c)(x_i - m_c)', and classes do not correlate,

with v - r = 1/4 over all of Sigma_m, and q (1 - q) m / (m - 1) with a fixed support. No difference of large numbers is
taken, so the scatter of a class has no negative direction however few rados there are. Since the rados of classes do
not correlate, the sum of the scatters has as many degrees of freedom as there are rados of all classes together.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax

from radoboost import memory
from radoboost.errors import ReleaseError
from radoboost.learner.uncertainty import Curvature, StageResponse, Uncertainty, chance_of_empty_table
from radoboost.release import moment_math
from radoboost.release.kind import POOLED_SUMS, SUMS
from radoboost.release.release import Release, class_block_name


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """What the rados of K classes say of them, over d columns without the constant one.

    `sizes` (K,) are the numbers of examples, to sampling error, with the right total; `means` (K, d) those of each
    class, and 0 for a class whose examples are in no rado. `deviations` (K, n_rados, d) are rados of x - mean, divided
    so that the mean of their products is the scatter of the class: the sum of (x - mean)(x - mean)'.
    """

    sizes: NDArray[np.float64]
    means: NDArray[np.float64]
    deviations: NDArray[np.float64]


def inclusion_share_and_spread(release: Release) -> tuple[float, float]:
    """How often an example is in a rado, q, and v - r of this module: what a covariance is divided by."""
    name, m = release.signatures["name"], release.n_examples
    if release.law not in (SUMS, POOLED_SUMS) or name not in ("all", "fixed-support") or m is None:
        raise ReleaseError(
            f"the rados of a release by {release.mechanism['name']} with signatures {name!r} are of a kind that this "
            "version cannot learn more than two classes from; upgrade radoboost"
        )
    if name == "all":
        return 0.5, 0.25
    share = float(release.signatures["support"]) / m
    if not 0 < share < 1:
        raise ReleaseError("every rado sums all examples, so that they are all alike; craft with a smaller support")
    return share, share * (1 - share) * m / (m - 1)


def moments_of_classes(release: Release) -> ClassMoments:
    """Sizes, means and deviations of the classes of a plain release that has a constant column."""
    share, spread = inclusion_share_and_spread(release)
    blocks = rados_of_all_classes(release)
    values, counts = blocks[:, :, :-1], blocks[:, :, -1]
    sizes = counts.mean(axis=1) / share
    if release.n_examples is not None and sizes.sum() > 0:
        sizes *= release.n_examples / sizes.sum()
    totals = counts.mean(axis=1)
    means = np.divide(values.mean(axis=1), totals[:, None], out=np.zeros(values[:, 0].shape), where=totals[:, None] > 0)
    deviations = (values - counts[:, :, None] * means[:, None, :]) / np.sqrt(spread)
    return ClassMoments(sizes, means, deviations)


def rados_of_all_classes(release: Release) -> NDArray[np.float64]:
    """The rados of all classes, shape (K, n_rados, n_columns), in the order of `release.classes`."""
    n_values = release.n_classes * release.n_rados * len(release.columns)
    memory.require_memory(4 * 8 * n_values, f"rados of {release.n_classes} classes", "use fewer rados or columns")
    return np.stack([release.blocks[class_block_name(value)] for value in release.classes])


# ---- Scores of more than two classes as released moments describe them: a normal cloud for each class.
#
# They say how large a part of the largest scores' lead is real: private counts of rows whose class has the
# largest score, and of those whose class has not, by how far it leads, are compared with what probabilities of
# these clouds would give. What fits best is one scale for all scores, which goes into theta. And they say how far
# noise on one mean rado is taken back by the next.

CLASS_CAP = math.sqrt(0.5)  # on the norm of the class weights of a row, in mean rados
_POINTS = 4096  # of all clouds together, about
_MIDDLE, _SPREAD = math.log(0.8), 0.5  # of the log scale, before any count
_LOG_SCALES = np.linspace(math.log(0.05), math.log(4.0), 60)


@dataclass(frozen=True, eq=False)
class ClassGaussians:
    """Points of the scores of rows, shape (points, classes), the class of each, and how many rows each stands for."""

    scores: NDArray[np.float64]
    places: NDArray[np.int64]
    masses: NDArray[np.float64]

    @classmethod
    def of(cls, release: Release, inverse: NDArray[np.float64], theta: NDArray[np.float64]) -> "ClassGaussians":
        """Those of the classifier `theta` of whitened rows, whose second moment has this `inverse`."""
        second, n_classes = release.blocks["moment:C2"], release.n_classes
        by_class = moment_math.ClassMeans.of(
            release.blocks["moment:b"], inverse, float(release.mechanism["noise"]["sum"])
        )
        whole, sizes = max(float(np.trace(second)), moment_math.LEAST), by_class.sizes
        means = (by_class.sums / sizes[:, None]) @ theta.T
        within = theta @ second @ theta.T / whole - (means.T * (sizes / sizes.sum())) @ means
        values, vectors = np.linalg.eigh(within)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        each = -(-_POINTS // n_classes)
        points = normals_without_chance(each, n_classes) @ root.T
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
        length = np.maximum(np.linalg.norm(u, axis=1), moment_math.LEAST)
        capped = length > CLASS_CAP
        masses = (np.where(capped, CLASS_CAP / length, 1.0) * self.masses / self.masses.sum())[:, None]
        # What is scaled to the cap does not change along itself.
        along = np.where(capped[:, None], u / length[:, None], 0.0)
        slopes = np.diag((masses * p).sum(axis=0)) - p.T @ (masses * p)
        slopes -= along.T @ (masses * (along * p - (along * p).sum(axis=1, keepdims=True) * p))
        return np.asarray((slopes + slopes.T) / 2)


def normals_without_chance(n_points: int, n_dimensions: int) -> NDArray[np.float64]:
    """Normal numbers without chance: multiples of powers of one irrational number, by the normal quantiles."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (n_dimensions + 1))
    steps = root ** -np.arange(1.0, n_dimensions + 1)
    return np.asarray(ndtri((np.arange(0.5, n_points)[:, None] * steps) % 1.0))


def fit_class_score_scale(counts: NDArray[np.float64], noise_std: float, unit: float, clouds: ClassGaussians) -> float:
    """The factor that makes scores the logarithms of probabilities, but for what all classes share.

    `counts` are noisy: [class has the largest score][size of its lead, by `EDGES` times `unit`]. The posterior mean of
    its logarithm is taken.
    """
    sizes = np.searchsorted(np.array(moment_math.EDGES) * unit, clouds.lead, side="right")
    members = np.array([(sizes == k) * clouds.masses for k in range(len(moment_math.EDGES) + 1)])
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


def class_score_scale(release: Release, clouds: ClassGaussians) -> float:
    mechanism: Any = release.mechanism
    return fit_class_score_scale(
        release.blocks["scores"], float(mechanism["noise"]["scores"]), float(mechanism["score_unit"]), clouds
    )


# ---- How far the declared noise moves a classifier of more than two classes, to first order.
#
# Each mean rado moves all classifiers after it by a step times its noise, and each of those takes some of it
# back: as much as the curvature of the class weights says, on average over normal clouds of scores and over the
# classifiers that were released, times the second moment of rows. In the eigenvectors of both, every noise goes
# its own way: it shrinks by one factor in each round. The first classifier is the discriminant, and how noise
# moves that is found by adding a little noise to its sums, several times.

_CLASSIFIERS = 8  # at most, or about, whose curvature is taken
_AGAIN, _PART = 32, 0.1  # times that noise is added once more, and how much of it
_SHORTEST = -0.9  # were a factor less, the rounds would not have settled


def class_weight_errors(
    release: Release, curvature: Curvature, to_columns: NDArray[np.float64], whitened: NDArray[np.float64]
) -> Uncertainty:
    """The uncertainty of theta = `whitened` times the transpose of `to_columns`; each class has a row in both."""
    curved = StageResponse.of(release, curvature)
    values, own = np.linalg.eigh(_class_score_slopes(release, curvature))
    variances = _class_weight_variances(release, curvature, curved.values, np.maximum(values, 0.0), own)
    columns = np.square(to_columns @ curvature.vectors)
    errors = np.sqrt(np.square(own) @ variances @ columns.T)
    made = float(variances.sum(axis=0) @ curved.values)
    whole = float(np.square(whitened @ curvature.vectors).sum(axis=0) @ curved.values)
    share = min(made / whole, 1.0) if whole > 0 else 1.0
    return Uncertainty(errors, (), share, chance_of_empty_table(release))


def _class_score_slopes(release: Release, curvature: Curvature) -> NDArray[np.float64]:
    """How much mean rados take back of a change of scores, on average over some of the classifiers that they are of."""
    rounds, (n_classes, d) = int(release.mechanism["rounds"]), release.blocks["moment:b"].shape
    if not rounds:
        return np.eye(n_classes)
    thetas = release.blocks["theta"].reshape(rounds + 1, n_classes, d)[:-1]
    some = thetas[:: max(1, rounds // _CLASSIFIERS)]
    return np.asarray(
        np.mean([ClassGaussians.of(release, curvature.inverse, theta).curvature() for theta in some], axis=0)
    )


def _class_weight_variances(
    release: Release,
    curvature: Curvature,
    seconds: NDArray[np.float64],
    slopes: NDArray[np.float64],
    own: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Of the classifier, in the eigenvectors `own` of classes and those of the second moment."""
    mechanism, noise = release.mechanism, release.mechanism["noise"]
    start = _class_start_variances(release, curvature, own)
    rounds, n_classes = int(mechanism["rounds"]), len(own)
    if not rounds:
        return start
    step = moment_math.class_newton_step(n_classes, float(mechanism["eta"]))
    factors = np.clip(1 - step * np.outer(slopes, seconds * curvature.inverses), _SHORTEST, 1.0)
    kept = np.arange(rounds // 2 + 1, rounds + 1)
    total = start * np.square(np.mean([factors**t for t in kept], axis=0))
    for r in range(rounds):
        later = np.sum([factors ** (t - 1 - r) for t in kept if t > r], axis=0) / len(kept)
        total += np.square(step * float(noise["rounds"]) * curvature.inverses * later)
    # Mean rados are centred: there is no noise along what all classes share.
    shared = np.square(own.sum(axis=0)) / n_classes
    return np.asarray(total * (1 - shared)[:, None])


def _class_start_variances(release: Release, curvature: Curvature, own: NDArray[np.float64]) -> NDArray[np.float64]:
    noise, sums = release.mechanism["noise"], release.blocks["moment:b"]
    inverse = curvature.inverse
    first = moment_math.discriminant_weights(sums, inverse, float(noise["sum"]))
    draws = np.random.default_rng(0).standard_normal((_AGAIN, *sums.shape))
    total = np.zeros(sums.shape)
    for draw in draws:
        moved = moment_math.discriminant_weights(
            sums + _PART * float(noise["sum"]) * draw, inverse, float(noise["sum"])
        )
        total += np.square(own.T @ moment_math.centre_class_vectors(moved - first) @ curvature.vectors)
    return total / (_AGAIN * _PART**2)


# ---- A linear classifier of more than two classes from the rados of each.
#
# First the linear discriminant: with class means m_c and the scatter W within classes, which is shrunk towards a
# multiple of the identity (Ledoit and Wolf) in columns of unit variance, the scores x' W^-1 m_c - m_c' W^-1 m_c / 2 +
# log(n_c / n) differ from each other in at most K - 1 directions. One-against-the-others least squares would have
# masked classes that lie between others; these do not.
#
# The discriminant takes it that all classes scatter alike, which the rados of each can deny. So in its directions, K
# - 1 of them at most, the multinomial logistic risk is minimised over one normal cloud for each class, with the mean,
# the covariance and the weight that the rados tell. Clouds are made of fixed points, so the same release gives the
# same weights. Directions are not changed by it.
#
# Without a constant column nothing says how many examples a class has. There the first Newton step of the multinomial
# risk from 0 is taken, K C^-1 (S_c - mean of all S_c): with two classes it is the least squares of `learner.moments`,
# and with more it masks.


_LEAST_VARIANCE = 1e-6  # within classes, of the whole variance of a column
_STEADY = 1e-10  # a column that varies by less than this share of its mean is constant
_SCORE_POINTS = 1024  # for each class
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


def learn_class_discriminant(release: Release) -> ClassFit:
    """Weights for each of more than two classes, from a plain release."""
    from threadpoolctl import threadpool_limits

    d = len(release.columns)
    memory.require_memory(5 * 8 * d**2, f"the covariance of {d:,} columns", "learn by boosting, or use fewer columns")
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        if release.columns[-1].scale != "constant":
            return _first_discriminant_step(release)
        return _fit_class_discriminant(moments_of_classes(release))


# ---- with a constant column


def _fit_class_discriminant(moments: ClassMoments) -> ClassFit:
    present = moments.sizes > 0
    if present.sum() < 2:
        raise ReleaseError("examples of fewer than two classes are in the rados; craft more of them")
    sizes, means, deviations = moments.sizes[present], moments.means[present], moments.deviations[present]
    n = float(sizes.sum())
    # In units of the largest magnitude nothing can overflow.
    unit = _largest_magnitude_of_columns(np.abs(means).max(axis=0), np.abs(deviations).max(axis=(0, 1)) / math.sqrt(n))
    means, deviations = means / unit, deviations / unit
    middle = sizes @ means / n
    scatter = np.square(deviations).mean(axis=1).sum(axis=0) + sizes @ np.square(means - middle)
    spread = np.sqrt(scatter / n)
    varies = spread > _STEADY * np.abs(middle)
    if not varies.any():
        raise ReleaseError("no column of the rados varies; there is nothing to learn from")
    scale = spread[varies]
    means, deviations = (means - middle)[:, varies] / scale, deviations[:, :, varies] / scale
    whitening, shrinkage = _within_class_whitening(deviations.reshape(-1, len(scale)), len(sizes) / n)
    plane = _plane_of_class_means(means @ whitening, sizes / n)
    to_plane = whitening @ plane
    weights, offsets = _fit_clouds(means @ to_plane, _covariances_in_plane(deviations @ to_plane, sizes), sizes)
    theta = np.zeros((len(moments.sizes), moments.means.shape[1] + 1))
    slopes = weights @ to_plane.T / scale
    theta[np.ix_(present, np.append(varies, False))] = slopes / unit[varies]
    theta[present, -1] = offsets - slopes @ middle[varies]
    if not present.all():  # below the mean of the others everywhere, as if of half an example
        theta[~present] = sizes @ theta[present] / n
        theta[~present, -1] += math.log(0.5 / n)
    return ClassFit(theta - theta.mean(axis=0), shrinkage, moments.sizes, tuple(np.flatnonzero(~present).tolist()))


def _largest_magnitude_of_columns(*magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest magnitude of each column, and 1 where all are 0."""
    largest = np.maximum.reduce(magnitudes)
    return np.where(largest > 0, largest, 1.0)


def _shrunk_product_mean(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The shrunk mean of products of rows, and how far it was shrunk."""
    from sklearn.covariance import ledoit_wolf

    if not rows.any():
        return np.zeros((rows.shape[1],) * 2), 0.0
    covariance, shrinkage = ledoit_wolf(rows, assume_centered=True)
    return np.asarray(covariance), float(shrinkage)


def _within_class_whitening(rows: NDArray[np.float64], factor: float) -> tuple[NDArray[np.float64], float]:
    """The matrix that makes the covariance within classes the identity: `factor` times the shrunk one of rows."""
    from scipy.linalg import eigh

    covariance, shrinkage = _shrunk_product_mean(rows)
    values, vectors = eigh(covariance * factor)
    return vectors / np.sqrt(np.maximum(values, _LEAST_VARIANCE)) @ vectors.T, shrinkage


def _plane_of_class_means(means: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The directions in which the means of classes differ, the strongest first; K - 1 at most.

    The largest component of each is above 0, so that the order of the classes does not matter.
    """
    _, _, directions = np.linalg.svd(np.sqrt(shares)[:, None] * means, full_matrices=False)
    directions = directions[: len(shares) - 1]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    return np.asarray((directions * np.sign(largest)).T)


def _covariances_in_plane(deviations: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
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


def points_of_normal_cloud(n_points: int, rank: int) -> NDArray[np.float64]:
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
    n_points = min(_SCORE_POINTS, 1 << (_ALL_POINTS // k).bit_length() - 1)
    # A tiny ridge, for classes that do not scatter at all.
    roots = np.linalg.cholesky(covariances + 1e-12 * np.eye(rank))
    clouds = np.ones((k, n_points, rank + 1))
    clouds[:, :, :-1] = points_of_normal_cloud(n_points, rank) @ roots.transpose(0, 2, 1) + means[:, None, :]
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


def _first_discriminant_step(release: Release) -> ClassFit:
    """K C^-1 (S_c - mean of all S_c), with C the second moment of all examples, shrunk."""
    share, spread = inclusion_share_and_spread(release)
    blocks = rados_of_all_classes(release)
    k, m = release.n_classes, release.n_examples
    assert m is not None
    unit = _largest_magnitude_of_columns(np.abs(blocks).max(axis=(0, 1)))
    blocks = blocks / unit
    sums = blocks.mean(axis=1) / share
    centred = (blocks - blocks.mean(axis=1, keepdims=True)) / math.sqrt(spread)
    fixed = sums.T @ sums / m if release.signatures["name"] != "all" else np.zeros((len(unit),) * 2)
    scale = np.sqrt((np.square(centred).mean(axis=1).sum(axis=0) + np.diag(fixed)) / m)
    varies = scale > _STEADY
    if not varies.any():
        raise ReleaseError("no column of the rados varies; there is nothing to learn from")
    scale = scale[varies]
    covariance, shrinkage = _shrunk_product_mean(centred[:, :, varies].reshape(-1, len(scale)) / scale)
    second = covariance * k + fixed[np.ix_(varies, varies)] / np.outer(scale, scale)
    theta = np.zeros((k, len(unit)))
    centred_sums = (sums - sums.mean(axis=0))[:, varies] / scale
    theta[:, varies] = k * centred_sums @ np.linalg.pinv(second, hermitian=True) / scale / unit[varies]
    return ClassFit(theta, shrinkage)
