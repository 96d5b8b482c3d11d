"""Newton steps for the logistic loss, by rados of batches that were drawn at a theta of their own.

Rados of a tilted batch have minus the gradient of the logistic loss at the batch's theta as their mean, and its Hessian
H as their covariance (docs/proofs/tilted.md, L1 and L2). So a Newton step needs no example:

    theta + (P + ridge)^-1 (mean - ridge theta),   P in place of H.

The mean is nearly without noise (L7). The covariance is not, and P is a mixture of it and the second moment S of the
first batch, which is another estimate of about the same shape and has four times H as its lower bound (L3). How much of
each, and of the identity, rados decide that are held out: those under which the step gains most by the quadratic model
of their own. That model is good near theta alone, so no step moves scores by more than `REACH` on average (L8). The
ridge is that of the first batch, by empirical Bayes. Everything here is per example.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.learner.diagnostics import NormalScores
from radoboost.learner.rado_moments import CROWDED, KNOWN, RadoFit, has_too_many_columns, learn_rados
from radoboost.learner.shrinkage import N_FOLDS
from radoboost.release.columns import CONSTANT
from radoboost.release.release import Release
from radoboost.release.tilted import TiltedBatch, batches_of

FIRST_SCALE = 2.0
"""How many times least squares the first theta is: a Newton step from 0."""
REACH = 1.0
"""By how much a step may change scores at most, as the root of the mean square."""
SHARES = (0.25, 0.5, 1.0)
"""Of the second moment of the first batch, which are tried.

Trying none of it too, the Hessian alone, changes errors by no more than their uncertainty (docs/learners.md).
"""
WEIGHTS = (0.0, 0.01, 0.1, 10**-0.5)
"""Of the identity, which are tried."""
_LEAST_VALUE, _TINY = 1e-10, 1e-300  # of an eigenvalue, compared with their mean; and of that mean


@dataclass(frozen=True, eq=False)
class _Start:
    """What the first batch tells: theta, in units in which columns are about alike, and the second moment S / m.

    `second` is as the rados have it, for scores and reach; `shrunk` is nearer to the identity, for what is inverted.
    `luck` is how much larger the second moment of its scores is on rados held out. With `constant`, the last column is
    the constant one.
    """

    fit: RadoFit
    theta: NDArray[np.float64]
    second: NDArray[np.float64]
    shrunk: NDArray[np.float64]
    mean: NDArray[np.float64]
    used: NDArray[np.bool_]
    units: NDArray[np.float64]
    n_examples: float
    luck: float
    constant: bool

    def inside(self, batch: TiltedBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The theta of a batch and its rados, in these units and for columns that vary."""
        return batch.theta[self.used] * self.units, batch.rados[:, self.used] / self.units

    def outside(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """A theta for the columns of the release."""
        whole = np.zeros(len(self.used))
        whole[self.used] = theta / self.units
        return whole


@dataclass(frozen=True, eq=False)
class _Metric:
    """A symmetric matrix to be inverted, with the constant column, which has no ridge, eliminated.

    `values` and `vectors` are the eigenvalues and eigenvectors of the rest; the constant column is `beside` it, and
    has `corner` on the diagonal. Without a constant column `corner` is None.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    beside: NDArray[np.float64]
    corner: float | None

    @classmethod
    def of(cls, matrix: NDArray[np.float64], constant: bool) -> "_Metric":
        """Of a matrix, whose last column may be the constant one."""
        if not constant or not matrix[-1, -1] > 0:
            values, vectors = np.linalg.eigh(matrix)
            return cls(values, vectors, np.zeros(len(matrix)), None)
        beside, corner = matrix[:-1, -1], float(matrix[-1, -1])
        values, vectors = np.linalg.eigh(matrix[:-1, :-1] - np.outer(beside, beside) / corner)
        return cls(values, vectors, beside, corner)

    def blended(self, weight: float) -> NDArray[np.float64]:
        """The eigenvalues with a weight of the identity, and none that is nearly 0."""
        size = max(float(self.values.mean()), _TINY) if len(self.values) else 1.0
        return np.asarray((1 - weight) * np.maximum(self.values, 0.0) + (weight + _LEAST_VALUE) * size)

    def projected(self, slope: NDArray[np.float64]) -> NDArray[np.float64]:
        """A vector in the directions of the eigenvectors, the constant column eliminated."""
        if self.corner is not None:
            slope = slope[:-1] - self.beside * (slope[-1] / self.corner)
        return np.asarray(self.vectors.T @ slope)

    def solve(self, slope: NDArray[np.float64], weight: float, ridge: float) -> NDArray[np.float64]:
        """The inverse of the matrix, with a weight of the identity and a ridge, times a vector."""
        rest = self.vectors @ (self.projected(slope) / (self.blended(weight) + ridge))
        if self.corner is None:
            return np.asarray(rest)
        return np.append(rest, (slope[-1] - self.beside @ rest) / self.corner)


@dataclass(frozen=True, eq=False)
class _Step:
    """A theta after a step, how far that was, and how it was made.

    The metric has a share of the first batch's second moment; the weight is that of the identity.
    """

    theta: NDArray[np.float64]
    moved: NDArray[np.float64]
    metric: _Metric
    share: float
    weight: float
    ridge: float
    n_rados: int

    @property
    def freedom(self) -> float:
        """Degrees of freedom; the constant column has one of its own."""
        values = self.metric.blended(self.weight)
        return float((values / (values + self.ridge)).sum()) + (self.metric.corner is not None)


def next_theta(release: Release) -> NDArray[np.float64]:
    """The theta that the next batch of tilted rados is to be drawn at, from those that there are.

    From the first batch it is the least squares of `MomentsClassifier`, as far as rados held out confirm its scale,
    times 2; from later ones it is that of the last batch, and a Newton step.

    >>> import radoboost as rb
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> theta = next_theta(rb.craft(x, x[:, 0] > 0.5 * x[:, 1], seed=1))
    >>> bool(theta[0] > 0 > theta[1]), theta.shape
    (True, (3,))
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        start, steps = _steps(release)
        return start.outside(steps[-1].theta if steps else start.theta)


def learn_tilted(release: Release) -> RadoFit:
    """theta from all batches of a release of tilted rados; scores are log odds."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        start, steps = _steps(release)
        if not steps:
            raise ReleaseError("the release has no tilted rados; learn from it as from any other")
        last = steps[-1]
        # A step that ends at its reach leaves scores too small; none leaves them too large (L9).
        scale = max(1.0, _normal_scores(start, last, start.luck).scale)
        expected, remarks = _expected_error_of_step(start, last)
        return replace(
            start.fit,
            theta=scale * start.outside(last.theta),
            identity_weight=last.weight,
            ridge=last.ridge,
            expected_error=expected,
            remarks=remarks,
            freedom=last.freedom,
            standard_errors=scale * start.outside(_standard_errors(start, last)),
            n_rados=sum(len(batch.rados) for batch in batches_of(release)),
        )


def _steps(release: Release) -> tuple[_Start, list[_Step]]:
    """The first batch, and the step of each later one."""
    _, *others = batches_of(release)
    start = _start(release)
    steps: list[_Step] = []
    earlier: list[NDArray[np.float64]] = []
    for batch in others:
        theta, rows = start.inside(batch)
        steps.append(_newton(start, theta, rows, earlier))
        earlier.append(rows)
    return start, steps


# ---- the first batch


def _start(release: Release) -> _Start:
    if release.n_examples is None:
        raise ReleaseError("the release does not say how many examples it is from; tilted rados need that")
    fit, rows, m = learn_rados(release), release.rados, float(release.n_examples)
    deviation = rows.std(axis=0, ddof=1) * 2 / math.sqrt(m)
    used = (deviation > 0) & (deviation > 1e-12 * np.abs(rows).max(axis=0) / m)
    known = np.array([column.scale in ("standard", "constant") for column in release.columns])
    units = np.where(known, 1.0, deviation)[used]
    scaled = rows[:, used] / units
    mean, second = 2 * scaled.mean(axis=0) / m, np.atleast_2d(np.cov(scaled.T)) * 4 / m
    if fit.covariance == KNOWN:
        _put_in(second, known[used], release.columns[-1].name == CONSTANT and bool(used[-1]))
    size = np.trace(second) / max(len(second), 1)
    shrunk = (1 - fit.identity_weight) * second + fit.identity_weight * size * np.eye(len(second))
    theta = fit.theta[used] * units
    signal = float(theta @ mean)
    # The scale of least squares on rados held out, on which the second moment of scores is signal**2 / r2.
    r2, own = fit.r2 or 0.0, float(theta @ second @ theta)
    scale = r2 / signal if signal > 0 else 0.0
    luck = max(1.0, signal**2 / (r2 * own)) if r2 > 0 and own > 0 and signal > 0 else 1.0
    constant = release.columns[-1].name == CONSTANT and bool(used[-1])
    return _Start(fit, FIRST_SCALE * scale * theta, second, shrunk, mean, used, units, m, luck, constant)


def _put_in(second: NDArray[np.float64], known: NDArray[np.bool_], constant: bool) -> None:
    """What is known of the second moment of standardised columns: 1 on its diagonal, and 0 beside the constant."""
    sizes = np.where(known, np.sqrt(np.diag(second)), 1.0)
    second /= np.outer(sizes, sizes)
    if constant and known.all():
        second[-1, :-1] = second[:-1, -1] = 0.0


# ---- a step


def _newton(
    start: _Start, theta: NDArray[np.float64], rows: NDArray[np.float64], earlier: Sequence[NDArray[np.float64]]
) -> _Step:
    """The step from a batch's theta; rados of `earlier` tilted batches add to what is known of the covariance."""
    m = start.n_examples
    covariance, mean = _pooled(rows, earlier, m), rows.mean(axis=0) / m
    ridge = start.fit.ridge / 4  # the Hessian of the first batch is S / 4, and its step twice least squares (L8)
    share, weight = _best_shrinkage(start, theta, rows, earlier, ridge)
    metric = _Metric.of(_mixed(covariance, start.shrunk, share), start.constant)
    step = metric.solve(_slope(start, mean, theta, ridge), weight, ridge)
    step = step * _within_reach(step, start.second)
    return _Step(theta + step, step, metric, share, weight, ridge, len(rows) + sum(map(len, earlier)))


def _slope(start: _Start, mean: NDArray[np.float64], theta: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Minus the gradient of the loss with its ridge, which the constant column does not have."""
    pull = ridge * theta
    if start.constant:
        pull[-1] = 0.0
    return np.asarray(mean - pull)


def _best_shrinkage(
    start: _Start,
    theta: NDArray[np.float64],
    rows: NDArray[np.float64],
    earlier: Sequence[NDArray[np.float64]],
    ridge: float,
) -> tuple[float, float]:
    """The share of the first batch, and the weight of the identity, whose steps gain most on rados held out."""
    m, n = start.n_examples, len(rows)
    count = min(N_FOLDS, n // 2)
    if count < 2:
        return SHARES[-1], WEIGHTS[-1]
    gains: dict[tuple[float, float], float] = {}
    for place in range(count):
        out = np.arange(n) % count == place
        held, others = rows[out], rows[~out]
        slope = _slope(start, held.mean(axis=0) / m, theta, ridge)
        spread = (held - held.mean(axis=0)) / math.sqrt((len(held) - 1) * m)
        for key, step in _candidates(start, theta, others, earlier, ridge):
            step = step * _within_reach(step, start.second)
            curvature = float(((spread @ step) ** 2).sum()) - step @ _slope(start, 0.0 * step, step, ridge)
            gains[key] = gains.get(key, 0.0) + float(step @ slope - curvature / 2)
    return max(gains, key=gains.__getitem__)


def _candidates(
    start: _Start,
    theta: NDArray[np.float64],
    rows: NDArray[np.float64],
    earlier: Sequence[NDArray[np.float64]],
    ridge: float,
) -> Iterator[tuple[tuple[float, float], NDArray[np.float64]]]:
    """Every share and weight, and the step that they make of these rados."""
    slope = _slope(start, rows.mean(axis=0) / start.n_examples, theta, ridge)
    covariance = _pooled(rows, earlier, start.n_examples)
    for share in SHARES:
        metric = _Metric.of(_mixed(covariance, start.shrunk, share), start.constant)
        for weight in WEIGHTS:
            yield (share, weight), metric.solve(slope, weight, ridge)


def _pooled(
    rows: NDArray[np.float64], earlier: Sequence[NDArray[np.float64]], n_examples: float
) -> NDArray[np.float64]:
    """The covariance of a batch for each example, with those of earlier ones in its own scale."""
    total = np.atleast_2d(np.cov(rows.T)) / n_examples
    size, count = np.trace(total), len(rows) - 1
    total = total * count
    for others in earlier:
        own = np.atleast_2d(np.cov(others.T))
        trace, degrees = np.trace(own), len(others) - 1
        if trace > 0:
            total += own * (size / trace * degrees)
            count += degrees
    return total / count


def _mixed(covariance: NDArray[np.float64], second: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """A covariance, and a share of the second moment of the first batch in its scale."""
    size = np.trace(second)
    return (1 - share) * covariance + share * (np.trace(covariance) / size if size > 0 else 0.0) * second


def _within_reach(step: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The part of a step that changes scores by `REACH` at most."""
    change = math.sqrt(max(float(step @ second @ step), 0.0))
    return min(1.0, REACH / change) if change > 0 else 1.0


# ---- how sure it is


def _standard_errors(start: _Start, step: _Step) -> NDArray[np.float64]:
    """Those of theta: the examples' own, by the Hessian, and what the noise of the covariance does to the step (L9)."""
    metric, m = step.metric, start.n_examples
    values = metric.blended(step.weight)
    inverse = 1 / (values + step.ridge)
    noise = float(step.moved @ start.second @ step.moved) / step.n_rados
    spread = values * inverse**2 * ((1 + 1 / step.n_rados) / m) + inverse * noise / 4
    variances = (metric.vectors**2) @ spread
    if metric.corner is not None:
        beside = metric.vectors.T @ metric.beside / metric.corner
        variances = np.append(variances, beside**2 @ spread + 1 / (metric.corner * m))
    return np.asarray(np.sqrt(variances))


def _expected_error_of_step(start: _Start, step: _Step) -> tuple[float | None, tuple[str, ...]]:
    """The share of new rows on the wrong side, and what there is to remark; no less than m rows can tell."""
    if has_too_many_columns(len(start.mean), step.freedom, start.n_examples):
        return None, tuple(dict.fromkeys((*start.fit.remarks, CROWDED)))
    if start.fit.r2 is None:
        return None, start.fit.remarks
    error = _normal_scores(start, step, start.luck**step.share).error
    return max(error, 1 / (start.n_examples + 2)), start.fit.remarks


def _signal(start: _Start, step: _Step) -> float:
    """The mean of scores towards the right side on new rows: less by what they fit by chance, about freedom / m."""
    return max(float(step.theta @ start.mean) - step.freedom / start.n_examples, 0.0)


def _normal_scores(start: _Start, step: _Step, luck: float) -> NormalScores:
    """How scores lie on new rows, if they are about normal within each class, by the moments of the first batch (L9).

    `luck` is how much larger the second moment of scores is taken to be than on the rados of the first batch.
    """
    theta, signal = step.theta, _signal(start, step)
    second = luck * float(theta @ start.second @ theta)
    if not start.constant:
        return NormalScores.of(signal, second, n_rados=start.fit.n_rados)
    return NormalScores.of(
        signal, second, float(theta @ start.second[-1]), float(start.mean[-1]), n_rados=start.fit.n_rados
    )
