"""DP-Feat's numbers: how often rejection sampling rejects (thm_rrs), and what a rado's column gives away (thm_dpfreal).

The band keeps K in low .. m - low, where K counts the heads of m fair coins, and low is beta (m + 1), rounded up.
"""

import math

import numpy as np


def beta_of(epsilon: float) -> float:
    return 1 / (1 + math.exp(epsilon / 2))


def epsilon_of(beta: float) -> float:
    return 2 * math.log((1 - beta) / beta)


def divergence(beta: float) -> float:
    """D_BE(1 - beta || 1/2), in nats; accurate near beta = 1/2 too."""
    t = 1 - 2 * beta
    return ((1 + t) * math.log1p(t) + (1 - t) * math.log1p(-t)) / 2 if t < 1 else math.log(2)


def n_star(beta: float, eta: float) -> float:
    """Up to this many rados thm_rrs promises that none is rejected."""
    return -eta * math.expm1(2 * beta - 1) / (4 * beta)


def draws_bound(n: int, m: int, beta: float, eta: float) -> int:
    """thm_rrs: with probability 1 - eta no more than this many signatures are drawn, on average over n rados."""
    limit = n_star(beta, eta)
    return 1 if n <= limit else math.ceil(math.log(n / limit) / (m * divergence(beta)))


def f_beta(beta: float) -> float:
    """Eq. (deffbeta): log(4 beta / (1 - exp(2 beta - 1))) / D_BE(1 - beta || 1/2)."""
    return math.log(-4 * beta / math.expm1(2 * beta - 1)) / divergence(beta)


def rejection_probability(m: int, low: int) -> float:
    """The probability that a fair signature's K is not in low .. m - low."""
    from scipy.special import bdtr

    return 2 * float(bdtr(low - 1, m, 0.5)) if low > 0 else 0.0


def failure_probability(n: int, m: int, low: int, draws: int) -> float:
    """The exact probability that more than n * draws signatures are needed until n are within the band."""
    from scipy.special import betainc

    return float(betainc(n * (draws - 1) + 1, n, rejection_probability(m, low)))


def draws_quantile(n: int, m: int, low: int, level: float) -> int:
    """The exact number of signatures that suffice, with probability `level`, until n are within the band."""
    from scipy.stats import nbinom

    return n + int(nbinom.ppf(level, n, 1 - rejection_probability(m, low)))


def log_delta(m: int, low: int, epsilon: float) -> float:
    """The logarithm of the exact delta of one rado's column, K in low .. m - low against K + 1; low = 0 means no band.

    It is the sum of P(K = k) - e^epsilon P(K = k - 1) where that is positive, without underflow. The accountants give
    the same, rounded up.
    """
    from scipy.special import gammaln, logsumexp

    k = np.arange(low, m - low + 1)
    masses = -gammaln(k + 1.0) - gammaln(m - k + 1.0)
    masses -= logsumexp(masses)
    ratios = np.log((m - k[1:] + 1) / k[1:])  # of P(K = k) to P(K = k - 1)
    positive = ratios > epsilon
    return float(logsumexp([masses[0], *(masses[1:][positive] + np.log(-np.expm1(epsilon - ratios[positive])))]))


def edge_mass(m: int, low: int) -> float:
    """P(K = low) within the band: the outcomes of a table, at one end, that its neighbour cannot give."""
    return math.exp(log_delta(m, low, math.inf))


def largest_loss(m: int, low: int) -> float:
    """The largest privacy loss of an outcome that both neighbours can give; 0 if the band holds one value."""
    return math.log((m - low) / (low + 1)) if 2 * low < m else 0.0


def printed_delta(m: int, epsilon: float) -> float:
    """thm_dpfreal's delta, m**(-5/2) / epsilon, with 1 for the constant of its O(.)."""
    return float(m**-2.5 / epsilon)


def proof_factor(m: int, half_epsilon: float) -> float:
    """1 / (1 - 2^(m (f(eps') - 1))) of the proof of thm_dpfreal, whose expansion at eps' = 0 gives the theorem its m.

    The exponent is -eps'/2 - m eps'^2 / 8 - ... nats, so the factor is about 2 / eps' near 0.
    """
    e = half_epsilon
    # log(1 + e^e) - log 2 = e/2 + log(cosh(e/2)), and e^e / (1 + e^e) = (1 + tanh(e/2)) / 2.
    exponent = m * math.log(math.cosh(e / 2)) - (m * e * math.tanh(e / 2) + e * (1 + math.tanh(e / 2))) / 2
    return -1 / math.expm1(exponent)


def printed_factor(m: int, half_epsilon: float) -> float:
    """What the paper expands `proof_factor` to: 1 / (2 m^2 log(2)^2 eps') + (1/2 - 1 / (4 m^2 log(2)^3))."""
    log2 = math.log(2)
    return 1 / (2 * m**2 * log2**2 * half_epsilon) + (1 / 2 - 1 / (4 * m**2 * log2**3))
