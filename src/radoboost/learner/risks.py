"""The logistic risk over examples, the risk over rados that equals it over all of Sigma_m, and boosting's bound on it.

The proof is L1 of docs/proofs/losses.md. Rows are edge vectors or rados; theta is one weight a column. Exponentials go
through logarithms, so that no margin is too large.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp


def logistic_risk(edge_vectors: ArrayLike, theta: ArrayLike) -> float:
    """The mean of log(1 + exp(-theta.e_i)) over edge vectors e_i = y_i x_i (eq. deflogloss of the paper)."""
    return float(np.logaddexp(0.0, -_margins_of_theta(edge_vectors, theta)).mean())


def log_rado_risk(rados: ArrayLike, theta: ArrayLike) -> float:
    """The logarithm of the exponential rado-risk, which stays finite where the risk itself does not."""
    margins = _margins_of_theta(rados, theta)
    return float(logsumexp(-margins)) - math.log(len(margins))


def logistic_rado_risk(rados: ArrayLike, theta: ArrayLike, n_examples: int) -> float:
    """log 2 + log(exponential rado-risk) / m (eq. deflogSU): over all of Sigma_m it is the logistic risk."""
    return math.log(2) + log_rado_risk(rados, theta) / n_examples


def log_boosting_bound(edges: ArrayLike, kappa: float = 1.0) -> float:
    """The logarithm of the bound on the exponential rado-risk after rounds with these edges r_t.

    It is -sum r_t**2 / (2 kappa) (lem_radoboost, with the kappa of eq. defalphakappa); it holds for unclamped edges.
    """
    return -float(np.square(edges).sum()) / (2 * kappa)


def _margins_of_theta(rows: ArrayLike, theta: ArrayLike) -> NDArray[np.float64]:
    margins: NDArray[np.float64] = np.asarray(rows, dtype=np.float64) @ np.asarray(theta, dtype=np.float64)
    return margins
