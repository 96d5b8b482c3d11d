"""Boosting with a penalty: RadoBoost on the exponential rado-risk of regularised rados (after Nock, NIPS 2016).

A penalty Omega(theta) turns every rado into rado - Omega(theta) theta / |theta|^2, whose margin is smaller by Omega.
The logarithm of the exponential risk of such rados is

    log(mean of exp(-theta.rado)) + Omega(theta)                                        (L5 of docs/proofs/losses.md)

and over all of Sigma_m, divided by m, it is the logistic risk of the examples with Omega / m added. Omega is

    lasso    w sum |theta_k|
    ridge    w sum theta_k^2 / 2
    scores   w theta' C theta / 2, C the covariance of the rados, a little of it on the diagonal alone (L9); over all of
             Sigma_m it is the sum of w / 8 score^2

A round takes one column and the step in it that lowers a bound on this risk most: the bound of boosting for columns
within [-1, 1], whose minimum without a penalty is atanh of the edge, and the penalty itself (L6). The risk falls at
least as far as the bound (L7). It is convex, so where no step lowers the bound there is no better theta. For lasso and
ridge a column is divided by its largest magnitude, as in the paper; with little of a penalty, rados that some theta
puts all on one side have no best theta, and more rounds go further. For scores there is always a best one, and a
column is first moved by the middle of its range: the bound is then tight, and steps are long.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost import memory
from radoboost.errors import ArgumentError
from radoboost.jit import jit
from radoboost.learner.boost import LEAST_EDGE, BoostingResult, Rounds, check_rows_to_boost

PENALTIES = ("lasso", "ridge", "scores")
LEAST_GAIN = 1e-13  # of log(risk): a round that gains no more is none
_DIAGONAL = 0.2  # times d / (n + d): the share of a covariance of n rados that is on the diagonal alone
_NEWTON_STEPS = 60


@dataclass(frozen=True, eq=False)
class Penalty:
    """Omega(theta) = sum `slopes`_k |theta_k| + theta' `bends` theta / 2; `bends` is a diagonal or a whole matrix."""

    slopes: NDArray[np.float64]
    bends: NDArray[np.float64]

    def __call__(self, theta: ArrayLike) -> float:
        weights = np.asarray(theta, dtype=np.float64)
        pulled = self.bends @ weights if self.bends.ndim == 2 else self.bends * weights
        return float(self.slopes @ np.abs(weights) + weights @ pulled / 2)


def penalty_on_rados(rows: ArrayLike, name: str, weight: float, free: ArrayLike | None = None) -> Penalty:
    """The penalty of this name over these rados, `weight` times; columns that are `free` have no lasso and no ridge."""
    matrix = np.asarray(rows, dtype=np.float64)
    if name not in PENALTIES:
        raise ArgumentError(f"penalty must be one of {', '.join(PENALTIES)}; it is {name!r}")
    if not isinstance(weight, Real) or isinstance(weight, bool) or not 0 <= weight < math.inf:
        raise ArgumentError(f"the weight of a penalty must be a finite number of at least 0; it is {weight!r}")
    held = np.full(matrix.shape[1], float(weight))
    held[np.zeros(len(held), dtype=bool) if free is None else np.asarray(free, dtype=bool)] = 0.0
    none = np.zeros(len(held))
    if name == "scores":
        return Penalty(none, float(weight) * _shrunk_covariance_for_penalty(matrix))  # of all columns
    return Penalty(held, none) if name == "lasso" else Penalty(none, held)


def _shrunk_covariance_for_penalty(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the columns, shrunk a little; on one thread, so that it has the same bits however many cores there are."""
    from threadpoolctl import threadpool_limits

    d = matrix.shape[1]
    memory.require_memory(3 * 8 * d**2, f"the covariance of {d:,} columns", "use another penalty, or fewer columns")
    with threadpool_limits(1), np.errstate(over="ignore"):
        covariance: NDArray[np.float64] = np.atleast_2d(np.cov(matrix, rowvar=False, bias=True))
    if not np.isfinite(covariance).all():
        raise ArgumentError("the covariance of the rados is beyond float64; scale the columns, or use another penalty")
    share = _DIAGONAL * d / (len(matrix) + d)
    diagonal = covariance.diagonal().copy()
    covariance *= 1 - share
    np.fill_diagonal(covariance, diagonal)
    return covariance


def boost_penalised(rows: ArrayLike, penalty: Penalty, *, n_rounds: int = 1000) -> BoostingResult:
    """Boost over rados, or over edge vectors, with a penalty on theta.

    The rounds say the edge, the step that was taken as the leverage, and log(risk) with the penalty, which falls every
    round.
    """
    matrix = np.asarray(rows, dtype=np.float64)
    check_rows_to_boost(matrix, n_rounds)
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    everywhere = penalty.bends.ndim == 2
    middle = low / 2 + high / 2 if everywhere else np.zeros(len(low))
    half = high / 2 - low / 2 if everywhere else np.maximum(np.abs(low), np.abs(high))
    middle, half = np.where(half > 0, middle, 0.0), np.where(half > 0, half, 1.0)
    scaled = np.ascontiguousarray(np.clip((matrix - middle) / half, -1.0, 1.0).T)
    if everywhere:
        scaled[low == high] = 0.0  # what is the same in all rados has no covariance, and gets no weight
    with np.errstate(over="ignore"):  # a column of tiny numbers may have an infinite penalty
        slopes, bends = penalty.slopes / half, _quadratic_penalty_in_scaled_columns(penalty, half)
    feature, at_zero = np.zeros(n_rounds, dtype=np.int64), np.zeros(n_rounds, dtype=np.bool_)
    edge, step, log_risk = np.zeros(n_rounds), np.zeros(n_rounds), np.zeros(n_rounds)
    done = _compile_penalised_kernel()(scaled, middle / half, slopes, bends, feature, edge, step, log_risk, at_zero)
    feature, edge, step, log_risk = feature[:done], edge[:done], step[:done], log_risk[:done]
    with np.errstate(over="ignore"):
        limit = np.finfo(np.float64).max / (2 * n_rounds)
        leverage = np.clip(step / half[feature], -limit, limit)
    _settle_zeros(feature, leverage, at_zero[:done])
    rounds = Rounds(feature, edge, leverage, log_risk)
    return BoostingResult(rounds.theta(matrix.shape[1]), rounds, len(rounds))


def _quadratic_penalty_in_scaled_columns(penalty: Penalty, half: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quadratic part in units of the scaled columns: (d, d), or (1, d) for a diagonal."""
    if penalty.bends.ndim == 2:
        return np.ascontiguousarray(penalty.bends / half / half[:, None])
    return (penalty.bends / half / half)[None, :]


def _settle_zeros(feature: NDArray[np.int64], leverage: NDArray[np.float64], at_zero: NDArray[np.bool_]) -> None:
    """Steps that end at 0 take back what the leverages before them add up to, so that theta is 0, not nearly."""
    if at_zero.any():
        theta = np.zeros(int(feature.max()) + 1)
        for t, k in enumerate(feature):
            if at_zero[t]:
                leverage[t] = -theta[k]
            theta[k] += leverage[t]


@cache
def _compile_penalised_kernel() -> Callable[..., int]:
    def kernel(  # type: ignore[no-untyped-def]
        scaled, middle, slopes, bends, feature, edge, step, log_risk, at_zero,
    ):  # fmt: skip
        d, n = scaled.shape
        whole, most = len(bends) > 1, 1.0 - LEAST_EDGE
        weights, margins, place, pull = np.full(n, 1.0 / n), np.zeros(n), np.zeros(d), -middle
        for t in range(len(feature)):
            best, best_gain, best_edge, best_place = -1, LEAST_GAIN, 0.0, 0.0
            for k in range(d):
                column = scaled[k]
                mean = 0.0
                for j in range(n):
                    mean += column[j] * weights[j]
                r = min(max(mean, -most), most)
                slope, bend, old = slopes[k], bends[k, k] if whole else bends[0, k], place[k]
                aim = old + np.arctanh(r)
                # The bound's derivative at a place is tanh(place - aim) + pull + bend place + slope sign(place).
                at_0 = pull[k] - np.tanh(aim)
                if abs(at_0) <= slope:
                    new = 0.0
                else:
                    against = pull[k] - np.copysign(slope, at_0)
                    if bend == 0.0:
                        new = aim - np.arctanh(min(max(against, -most), most))
                    else:
                        low, high = (-1.0 - against) / bend, (1.0 - against) / bend
                        new = min(max((aim - against) / (1.0 + bend), low), high)
                        for _ in range(_NEWTON_STEPS):
                            tangent = np.tanh(new - aim)
                            value = tangent + against + bend * new
                            if value > 0.0:
                                high = new
                            else:
                                low = new
                            move = value / (1.0 - tangent * tangent + bend)
                            if abs(move) <= 1e-15 * (abs(new) + abs(aim)):
                                break
                            new = new - move if low < new - move < high else (low + high) / 2.0
                a = new - old
                size = abs(a)
                gain = -size - np.log1p(0.5 * (1.0 + (r if a > 0.0 else -r)) * np.expm1(-2.0 * size))
                gain -= a * pull[k] + bend * a * (new + old) / 2.0
                if slope > 0.0:
                    gain -= slope * (abs(new) - abs(old))
                if gain > best_gain:
                    best, best_gain, best_edge, best_place = k, gain, r, new
            if best < 0:
                return t
            a = best_place - place[best]
            place[best] = best_place
            if whole:
                for k in range(d):
                    if k != best:
                        pull[k] += bends[best, k] * a
            column = scaled[best]
            smallest, total = np.inf, 0.0
            for j in range(n):
                margins[j] += a * column[j]
                smallest = min(smallest, margins[j])
            for j in range(n):
                weights[j] = np.exp(smallest - margins[j])
                total += weights[j]
            for j in range(n):
                weights[j] /= total
            rest = 0.0  # what the middles of columns and the penalty add
            for k in range(d):
                if place[k] != 0.0:
                    bend = bends[k, k] if whole else bends[0, k]
                    rest += place[k] * ((pull[k] - middle[k]) / 2.0 + bend * place[k] / 2.0) + slopes[k] * abs(place[k])
            feature[t], edge[t], step[t], log_risk[t] = best, best_edge, a, np.log(total / n) - smallest + rest
            at_zero[t] = best_place == 0.0
        return len(feature)

    # Sums may be taken in any order, so that dot products can use vectors; nothing else is relaxed.
    return jit(kernel, fastmath={"reassoc", "contract"})
