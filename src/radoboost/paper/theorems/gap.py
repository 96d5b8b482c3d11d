"""The gap between logistic risk and logistic rado-risk: the bound of thm_concentration, and what can be said exactly.

With margins z_i = theta . e_i much is known exactly. Over all 2**m rados the mean of exp(-theta . rado) is the product
of (1 + exp(-z_i)) / 2, and its largest term is exp of the sum of max(0, -z_i). So with Theta = {theta}, where the
theorem is at its best, varrho is the product of 2 / (1 + exp(-|z_i|)).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

ETA = 0.05
PROOF = 16.0  # the constant that the proof gives to the printed Omega(...)

Floats = NDArray[np.float64]


def penalty(log_varrho: float, log_ell: float, n: float, m: int, d: int, constant: float = PROOF) -> float | None:
    """-log(1 - q / sqrt(n)) / m of ineq. (thc11); None where q reaches sqrt(n): then the bound says nothing.

    q is constant * varrho * sqrt(log(ell) + d log(2 e n / d) + log(1 / eta)). The theorem prints Omega(.) for the
    constant, the proof has 16. log(ell) is r_theta times the largest norm of a rado if Theta is a ball.
    """
    share = constant * math.exp(min(log_varrho, 700.0)) * math.sqrt(_complexity(log_ell, math.log(n), d) / n)
    return -math.log1p(-share) / m if share < 1 else None


def log_least_rados(log_varrho: float, log_ell: float, d: int, constant: float = PROOF) -> float:
    """The logarithm of the number of rados from which on `penalty` is finite."""
    from scipy.optimize import brentq

    def excess(log_n: float) -> float:
        return 2 * (math.log(constant) + log_varrho) + math.log(_complexity(log_ell, log_n, d)) - log_n

    low = max(0.0, math.log(d / 2))  # from here on the share falls as n grows
    return low if excess(low) <= 0 else float(brentq(excess, low, 2 * log_varrho + 100.0 + math.log(d + log_ell + 1)))


def _complexity(log_ell: float, log_n: float, d: int) -> float:
    return log_ell + d * (math.log(2 * math.e / d) + log_n) + math.log(1 / ETA)


def log_varrho(margins: ArrayLike) -> float:
    """The logarithm of varrho with Theta = {theta}, from the examples' margins."""
    return float((math.log(2) - np.logaddexp(0.0, -np.abs(margins))).sum())


def log_ell(margins: ArrayLike) -> float:
    """The logarithm of the largest exp(-theta . rado) over all rados."""
    return float(np.maximum(-np.asarray(margins), 0.0).sum())


def log_rados_that_tell(margins: ArrayLike) -> float:
    """The relative entropy of the weights exp(-theta . rado) to the uniform ones: that of m coins to fair coins.

    With far fewer rados than its exponential nearly all of the rado-risk is missed, with far more nearly nothing.
    Not in the paper.
    """
    z = np.abs(np.asarray(margins, dtype=np.float64))
    small = 1 / (1 + np.exp(z))
    return float((math.log(2) - np.log1p(np.exp(-z)) - small * z).sum())


def frozen_gap(margins: ArrayLike, n: int) -> float:
    """The gap to expect at n rados below `log_rados_that_tell`, where the largest few make up the mean; else 0.

    With Lambda(t) the log-mean of exp(-t theta . rado), the largest of n is about Lambda'(t) for the t at which
    t Lambda'(t) - Lambda(t) = log(n). It is the random energy model, and right to first order in m. Not in the paper.
    """
    from scipy.optimize import brentq

    z = np.asarray(margins, dtype=np.float64)

    def log_mean(t: float) -> float:
        return float((np.logaddexp(0.0, -t * z) - math.log(2)).sum())

    def slope(t: float) -> float:
        return -float((z * np.exp(-np.logaddexp(0.0, t * z))).sum())

    def excess(t: float) -> float:
        return t * slope(t) - log_mean(t) - math.log(n)

    if excess(1.0) <= 0:
        return 0.0
    return (log_mean(1.0) - slope(float(brentq(excess, 0.0, 1.0))) + math.log(n)) / len(z)


def all_rados(edge_vectors: Floats) -> Floats:
    """All 2**m rados of a few examples."""
    rados = np.zeros((1, edge_vectors.shape[1]))
    for edge_vector in edge_vectors:
        rados = np.concatenate([rados, rados + edge_vector])
    return rados


def rado_margins(margins: Floats, count: int, generator: np.random.Generator) -> Floats:
    """theta . rado of `count` uniform rados, which are summed eight examples at a time."""
    total = np.zeros(count)
    for start in range(0, len(margins), 8):
        sums = all_rados(margins[start : start + 8, None]).ravel()
        total += sums[generator.integers(0, len(sums), count, dtype=np.uint16 if len(sums) > 255 else np.uint8)]
    return total
