"""Rates that were counted in runs of an attack, with bounds that hold at a stated confidence."""

CONFIDENCE = 1 - 1e-6
CHOOSING = 0.25  # the share of the runs that chooses a threshold; the rest are counted
LEAST_RUNS = 1000


def rate_above(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson upper bound on a rate that came up `count` times: wrong with probability `risk` at most."""
    from scipy.stats import beta

    return 1.0 if count == runs else float(beta.ppf(1 - risk, count + 1, runs - count))


def rate_below(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson lower bound on such a rate."""
    from scipy.stats import beta

    return 0.0 if count == 0 else float(beta.ppf(risk, count, runs - count + 1))
