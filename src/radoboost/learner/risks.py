"""Risks over examples, the risks over rados that are the same over all of Sigma_m, and the bound that boosting earns.

    over examples                                over rados                                   proof
    logistic   mean of log(1 + exp(-theta.e))    exponential     mean of exp(-theta.rado)        L1
    square     mean of (1 - theta.e)^2           mean-variance   variance - mean of theta.rado   L2
    unhinged   mean of 1 - theta.e               unhinged        mean of -theta.rado             L3

The proofs are those of docs/proofs/losses.md. A penalty on theta goes over with each of them (L5). Rows are edge
vectors or rados; theta is one weight a column. Exponentials go through logarithms, so that no margin is too large.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp


def logistic_risk(edge_vectors: ArrayLike, theta: ArrayLike) -> float:
    """The mean of log(1 + exp(-theta.e_i)) over edge vectors e_i = y_i x_i (eq. deflogloss of the paper)."""
    return float(np.logaddexp(0.0, -_margins(edge_vectors, theta)).mean())


def log_rado_risk(rados: ArrayLike, theta: ArrayLike) -> float:
    """The logarithm of the exponential rado-risk, which stays finite where the risk itself does not."""
    margins = _margins(rados, theta)
    return float(logsumexp(-margins)) - math.log(len(margins))


def exponential_rado_risk(rados: ArrayLike, theta: ArrayLike) -> float:
    """The mean of exp(-theta.rado) over rados (eq. defExp); infinite where float64 ends."""
    logarithm = log_rado_risk(rados, theta)
    return math.exp(logarithm) if logarithm < math.log(np.finfo(np.float64).max) else math.inf


def logistic_rado_risk(rados: ArrayLike, theta: ArrayLike, n_examples: int) -> float:
    """log 2 + log(exponential rado-risk) / m (eq. deflogSU): over all of Sigma_m it is the logistic risk."""
    return math.log(2) + log_rado_risk(rados, theta) / n_examples


def square_risk(edge_vectors: ArrayLike, theta: ArrayLike) -> float:
    """The mean of (1 - theta.e_i)^2 over edge vectors e_i = y_i x_i: that of (y_i - theta.x_i)^2."""
    return float(np.square(1 - _margins(edge_vectors, theta)).mean())


def mean_variance_rado_risk(rados: ArrayLike, theta: ArrayLike) -> float:
    """The variance of theta.rado over rados less its mean."""
    margins = _margins(rados, theta)
    return float(margins.var() - margins.mean())


def square_rado_risk(rados: ArrayLike, theta: ArrayLike, n_examples: int) -> float:
    """1 + 4 / m times the mean-variance rado-risk: over all of Sigma_m it is the square risk (L2)."""
    return 1 + 4 * mean_variance_rado_risk(rados, theta) / n_examples


def unhinged_risk(edge_vectors: ArrayLike, theta: ArrayLike) -> float:
    """The mean of 1 - theta.e_i over edge vectors e_i = y_i x_i."""
    return float(1 - _margins(edge_vectors, theta).mean())


def unhinged_rado_risk(rados: ArrayLike, theta: ArrayLike, n_examples: int) -> float:
    """1 + 2 / m times the mean of -theta.rado: over all of Sigma_m it is the unhinged risk (L3)."""
    return float(1 - 2 * _margins(rados, theta).mean() / n_examples)


def regularised_rados(rados: ArrayLike, theta: ArrayLike, penalty: float) -> NDArray[np.float64]:
    """Rados less penalty theta / |theta|^2, so that the margin of each is smaller by the penalty at theta (L4)."""
    weights = np.asarray(theta, dtype=np.float64)
    length = float(weights @ weights)
    rows = np.array(rados, dtype=np.float64)
    return rows - penalty * weights / length if length else rows


def log_boosting_bound(edges: ArrayLike, kappa: float = 1.0) -> float:
    """The logarithm of the bound on the exponential rado-risk after rounds with these edges r_t.

    It is -sum r_t**2 / (2 kappa) (lem_radoboost, with the kappa of eq. defalphakappa); it holds for unclamped edges.
    """
    return -float(np.square(edges).sum()) / (2 * kappa)


def _margins(rows: ArrayLike, theta: ArrayLike) -> NDArray[np.float64]:
    margins: NDArray[np.float64] = np.asarray(rows, dtype=np.float64) @ np.asarray(theta, dtype=np.float64)
    return margins
