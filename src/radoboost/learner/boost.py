"""One boosting loop over the rows of a matrix: RadoBoost over rados (Algorithm 1), AdaBoost_SS over edge vectors.

Weights are renormalised every round. An edge r_t is cut to +-(1 - 1e-12), so that its leverage is finite;
boosting stops where |r_t| < 1e-12, or where the weak oracle finds no feature.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError, whole_number
from radoboost.jit import jit
from radoboost.learner.weak_oracles import Strongest, WeakOracle

LEAST_EDGE = 1e-12
MAX_ROUNDS = 10_000_000
UPDATES = ("multiplicative", "exponential")
KEEPS = ("best", "last")
_ROUNDS_AT_A_TIME = 64
SERIES = tuple(1 / math.factorial(power) for power in range(2, 13))  # of the exponential function


@dataclass(frozen=True, eq=False)
class Rounds:
    """What happened in each round: the feature, its edge r_t, its leverage alpha_t, and log(rado-risk) after it."""

    feature: NDArray[np.int64]
    edge: NDArray[np.float64]
    leverage: NDArray[np.float64]
    log_risk: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.feature)

    def theta(self, n_features: int, n_rounds: int | None = None) -> NDArray[np.float64]:
        """The classifier after the first `n_rounds` rounds: the leverages of each feature, summed."""
        theta = np.zeros(n_features)
        np.add.at(theta, self.feature[:n_rounds], self.leverage[:n_rounds])
        return theta


@dataclass(frozen=True, eq=False)
class BoostingResult:
    """A classifier, the rounds that led to it, and how many of them it uses."""

    theta: NDArray[np.float64]
    rounds: Rounds
    n_used: int


def boost(
    rows: ArrayLike,
    *,
    n_rounds: int = 1000,
    weak: WeakOracle | None = None,
    kappa: float = 1.0,
    update: str = "multiplicative",
    clamp: float = 0.0,
    keep: str = "last",
) -> BoostingResult:
    """Boost over rados, or over edge vectors (Algorithm 1 of the paper, with the kappa of its appendix).

    `weak` is a `WeakOracle`, by default the strongest feature. `update` is the paper's multiplicative one or AdaBoost's
    "exponential" one. `clamp` replaces r by sign(r) max(clamp, |r|). `keep` is the iterate to return: the "last", or
    the "best" by exponential rado-risk.
    """
    matrix = np.asarray(rows, dtype=np.float64)
    oracle: WeakOracle = Strongest() if weak is None else weak
    _check_boost(matrix, n_rounds, kappa, update, clamp, keep)
    largest = np.abs(matrix).max(axis=0)
    divisor = np.where(largest > 0, largest, 1.0)
    # A feature is a row here: its edge is one long dot product, and its update one long loop.
    scaled = np.ascontiguousarray((matrix / divisor).T)
    feature, edge, leverage, log_risk = _boosting_rounds(
        scaled, oracle, n_rounds, float(kappa), update == "exponential", float(clamp)
    )
    with np.errstate(over="ignore"):  # a column of tiny numbers may have a leverage beyond float64
        limit = np.finfo(np.float64).max / (2 * n_rounds)
        rounds = Rounds(feature, edge, np.clip(leverage / divisor[feature], -limit, limit), log_risk)
    n_used = len(rounds)
    if keep == "best" and n_used:
        best = int(np.argmin(rounds.log_risk))
        n_used = best + 1 if rounds.log_risk[best] < 0 else 0
    return BoostingResult(rounds.theta(matrix.shape[1], n_used), rounds, n_used)


def check_rows_to_boost(matrix: NDArray[Any], n_rounds: int) -> None:
    """Refuse rows that cannot be boosted over, and numbers of rounds that are none."""
    if matrix.ndim != 2 or not matrix.size:
        raise ArgumentError(f"boosting needs at least one row and one feature; the shape is {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ArgumentError("boosting needs finite numbers; some are NaN or infinite")
    whole_number(n_rounds, "n_rounds", 1, MAX_ROUNDS)


def _check_boost(matrix: NDArray[Any], n_rounds: int, kappa: float, update: str, clamp: float, keep: str) -> None:
    check_rows_to_boost(matrix, n_rounds)
    if not isinstance(kappa, Real) or not 1 <= kappa < math.inf:
        raise ArgumentError(f"kappa must be a finite number of at least 1; it is {kappa!r}")
    if not isinstance(clamp, Real) or not 0 <= clamp < 1:
        raise ArgumentError(f"clamp must be a number in [0, 1); it is {clamp!r}")
    if update not in UPDATES:
        raise ArgumentError(f"update must be one of {', '.join(UPDATES)}; it is {update!r}")
    if keep not in KEEPS:
        raise ArgumentError(f"keep must be one of {', '.join(KEEPS)}; it is {keep!r}")


def _boosting_rounds(
    scaled: NDArray[np.float64], oracle: WeakOracle, n_rounds: int, kappa: float, exponential: bool, clamp: float
) -> tuple[NDArray[Any], ...]:
    """Feature, edge, leverage (of the scaled column) and log(rado-risk) of each round.

    `losses` are exp(-margin) of every row as a running product, divided by their sum. They are computed again from the
    margins every few rounds, so that rounding and underflow do not pile up.
    """
    d, n = scaled.shape
    compute_edges, take_step = _compile_boosting_kernels()
    weights, margins, losses, edges = np.full(n, 1.0 / n), np.zeros(n), np.zeros(n), np.zeros(d)
    shown = edges.view()
    shown.flags.writeable = False  # an oracle chooses, and changes nothing
    feature = np.zeros(n_rounds, dtype=np.int64)
    edge, leverage, log_risk = np.zeros(n_rounds), np.zeros(n_rounds), np.zeros(n_rounds)
    risk = 0.0
    for t in range(n_rounds):
        if t % _ROUNDS_AT_A_TIME == 0:
            smallest = margins.min()
            np.exp(smallest - margins, out=losses)
            risk = np.log(losses.mean()) - smallest
            losses /= losses.sum()
        compute_edges(scaled, weights, edges)
        chosen = oracle.choose(shown)
        if not isinstance(chosen, int | np.integer) or not -1 <= chosen < d:
            raise ArgumentError(
                f"the weak oracle {oracle.name!r} chose {chosen!r}; it must choose a feature from 0 to {d - 1}, or -1"
            )
        if chosen < 0 or abs(edges[chosen]) < LEAST_EDGE:
            return feature[:t], edge[:t], leverage[:t], log_risk[:t]
        r, step, change = take_step(scaled[chosen], edges[chosen], kappa, exponential, clamp, weights, margins, losses)
        risk += change
        feature[t], edge[t], leverage[t], log_risk[t] = chosen, r, step, risk
    return feature, edge, leverage, log_risk


@cache
def _compile_boosting_kernels() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The edges of all features, cut to [-1, 1]; and one step along a feature, which updates all weights."""

    def compute_edges(scaled, weights, edges):  # type: ignore[no-untyped-def]
        d, n = scaled.shape
        for k in range(d):
            column = scaled[k]
            mean = 0.0
            for j in range(n):
                mean += column[j] * weights[j]
            edges[k] = min(max(mean, -1.0), 1.0)  # rounding may lift it a little above 1

    def take_step(column, edge, kappa, exponential, clamp, weights, margins, losses):  # type: ignore[no-untyped-def]
        n = len(column)
        factor = np.empty(n)
        c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 = SERIES
        r = np.copysign(min(max(abs(edge), clamp), 1.0 - LEAST_EDGE), edge)
        step = (np.log1p(r) - np.log1p(-r)) / (2.0 * kappa)
        # exp(-step column): its series, good to the last bit within 1/4, squared as often as it was halved.
        unit, squarings = -step, 0
        while abs(unit) > 0.25:
            unit, squarings = unit / 2.0, squarings + 1
        for j in range(n):
            u = unit * column[j]
            series = 1.0 + u * (1.0 + u * (c2 + u * (c3 + u * (c4 + u * (c5 + u * (c6 + u * (c7 + u * (
                c8 + u * (c9 + u * (c10 + u * (c11 + u * c12)))))))))))  # fmt: skip
            factor[j] = series
        for _ in range(squarings):
            for j in range(n):
                factor[j] *= factor[j]
        total, risk = 0.0, 0.0
        for j in range(n):
            weights[j] *= factor[j] if exponential else 1.0 - r * column[j]
            total += weights[j]
            margins[j] += step * column[j]
            losses[j] *= factor[j]
            risk += losses[j]
        scale, risk_scale = 1.0 / total, 1.0 / risk
        for j in range(n):
            weights[j] *= scale
            losses[j] *= risk_scale
        return r, step, np.log(risk)

    # Sums may be taken in any order, so that dot products can use vectors; nothing else is relaxed.
    relaxed = {"reassoc", "contract"}
    return jit(compute_edges, fastmath=relaxed), jit(take_step, fastmath=relaxed)
