"""What rados say of a classifier that was not learned from them, without any example.

For m examples and signatures that take each with probability q, theta' rado has the mean q theta'M and the variance
q (1 - q) theta'S theta, where M is the sum of the edge vectors y_i x_i and S that of the products x_i x_i'. So rados
tell the mean of y_i s_i and of s_i^2 over the scores s_i of all examples, and with the constant column, whose edge is
y_i, also the mean of s_i. From these follow the share of the labels' variance that scores explain, and, where the
scores of each class are about normal, how many of them are on the wrong side of 0.

All of it is about the examples that the rados sum. On new ones a classifier errs more, the more so the more columns
there are for each example; noise of the rados that theta was learned from is seen, for they are not those it is held
against.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.moments import noise_variance
from radoboost.learner.normal_scores import NormalScores
from radoboost.release import RADOS, Release
from radoboost.release.columns import CONSTANT
from radoboost.release.scores import EDGES

_DEVIATIONS = 2.0  # of the draw of the rados, beyond which what is left of the labels' variance is known


@dataclass(frozen=True)
class Margins:
    """The share of the labels' variance that scores explain, and the share of examples on the wrong side of 0.

    `spread` is the standard error of the first, by the draw of the rados; so it may come out above 1. The second is
    None where so much is explained that the draw does not tell how little is left.
    """

    r2: float
    spread: float
    error: float | None


def tells_margins(release: Release) -> bool:
    """Whether a release has rados with a sign for each row, and says how many rows there are."""
    return release.n_classes == 2 and RADOS in release.blocks and release.n_examples is not None


def margins(release: Release, held: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Margins:
    """What rados of a release say of classifiers, on average: each theta comes with at least two held-out rados."""
    noise = noise_variance(release)
    has_constant = release.columns[-1].name == CONSTANT
    m = float(release.n_examples or math.nan)
    share = float(release.signatures.get("support", m / 2)) / m
    fixed = "support" in release.signatures
    found = []
    for theta, rados in held:
        unit = float((release.rados @ theta).std())
        weights = theta / (unit if unit > 0 else 1.0)
        pair = np.column_stack([rados @ weights, rados[:, -1] if has_constant else np.zeros(len(rados))])
        mean, excess = pair.mean(axis=0) / (share * m)
        spread = np.cov(pair.T)[0] - noise * np.array([weights @ weights, weights[-1]])
        second = spread / (share * (1 - share) * m)
        if fixed:  # how many examples a rado has does not vary
            second = second * (m - 1) / m + mean * np.array([mean, excess])
        found.append((mean, excess, *second))
    mean, excess, variance, middle = np.mean(found, axis=0).tolist()
    n_rados = sum(len(rados) for _, rados in held)
    return _margins(mean, excess, variance, middle if has_constant else None, math.sqrt(2 / n_rados))


def _margins(mean: float, excess: float, variance: float, middle: float | None, chance: float) -> Margins:
    """From the means of y s, of y, of s^2 and of s, and how far off the third is, as a share of itself."""
    if variance <= 0:  # less than the noise that was subtracted
        return Margins(0.0, 1.0, 0.5)
    r2 = max(mean, 0.0) ** 2 / variance
    known = 1 - r2 > _DEVIATIONS * chance * r2
    error = NormalScores.of(mean, variance, middle, excess).error if known else None
    return Margins(r2, r2 * chance, error)


def counted_error(release: Release) -> tuple[float, float] | None:
    """The share of a table's own rows on the wrong side of 0, by noisy counts that a release of moments has.

    With it comes its standard deviation by the declared noise; None where there are no such counts, or noise hides how
    many rows there are.
    """
    if release.n_classes != 2 or "scores" not in release.blocks:
        return None
    noise = float(release.mechanism["noise"]["scores"])
    cells = release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)  # by side of 0, class and size
    counts = cells.sum(axis=2)
    total, wrong = float(counts.sum()), float(counts[0, 1] + counts[1, 0])
    half = cells.size / 2
    if total <= _DEVIATIONS * noise * math.sqrt(cells.size):
        return None
    error = min(max(wrong / total, 0.0), 1.0)
    return error, noise * math.sqrt(half * (error**2 + (1 - error) ** 2)) / total
