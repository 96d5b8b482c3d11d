"""Each of more than two classes against the others: their rados, and scores that can be compared.

A classifier of one class against the others that was boosted from rados has the right direction, more or less, and a
length that depends on how large the rados are: those of a rare class against all others are large, and its weights
small. So its score is put through a line, a score + b, fitted by the logistic risk to what the rados tell: in every
class the score is taken as normal, with the mean and variance that follow from the moments of the class. Then all
scores are log odds, and the largest says which class a row is of.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from radoboost.errors import ReleaseError
from radoboost.learner.multiclass_moments import class_moments
from radoboost.release.release import Release, class_block

_POINTS = 64  # of a normal distribution
_RIDGE = 1e-3  # on the slope, in units of the score, for classes that nothing separates


def one_vs_rest(release: Release) -> Iterator[NDArray[np.float64]]:
    """For each class its rados against the others: those of a table with two classes, over the same signatures."""
    blocks = [release.blocks[class_block(value)] for value in release.classes]
    total = np.sum(blocks, axis=0)
    for rows in blocks:  # whole numbers of grid steps below 2**53, so that nothing is rounded
        yield 2 * rows - total


def comparable(release: Release, thetas: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of one class against the others, (K, n_columns), whose scores are log odds; and slope and offset of each.

    Without a constant column there is no place for an offset, and nothing tells how many examples a class has: weights
    stay as they are.
    """
    lines = np.tile([1.0, 0.0], (len(thetas), 1))
    if release.columns[-1].scale != "constant":
        return thetas, lines
    moments = class_moments(release)
    present = moments.sizes > 0
    if present.sum() < 2:
        raise ReleaseError("examples of fewer than two classes are in the rados; craft more of them")
    sizes = moments.sizes[present]
    for place, theta in enumerate(thetas):
        means = moments.means[present] @ theta[:-1] + theta[-1]
        variances = np.square(moments.deviations[present] @ theta[:-1]).mean(axis=1) / sizes
        own = np.flatnonzero(present) == place
        lines[place] = (
            _log_odds_line(means, np.sqrt(variances), sizes, own) if own.any() else (0.0, math.log(0.5 / sizes.sum()))
        )
    found = thetas * lines[:, :1]
    found[:, -1] += lines[:, 1]
    return found, lines


def _log_odds_line(
    means: NDArray[np.float64], deviations: NDArray[np.float64], sizes: NDArray[np.float64], own: NDArray[np.bool_]
) -> tuple[float, float]:
    """Slope and offset that make log odds of a score, which is normal in every class."""
    from scipy.optimize import minimize

    points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    scores = (means[:, None] + deviations[:, None] * points / points.std()).ravel()
    masses = np.repeat(sizes / sizes.sum() / _POINTS, _POINTS)
    unit = math.sqrt(float(masses @ np.square(scores))) or 1.0
    rows = np.column_stack([scores / unit, np.ones(len(scores))])
    signs = np.repeat(np.where(own, 1.0, -1.0), _POINTS)
    ridge = np.array([_RIDGE / sizes.sum(), 0.0])

    def risk(line: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (rows @ line)
        slopes = masses * signs * expit(-margins)
        value = float(masses @ np.logaddexp(0.0, -margins)) + float(ridge @ np.square(line)) / 2
        return value, ridge * line - slopes @ rows

    share = float(sizes[own].sum() / sizes.sum())
    start = np.array([0.0, math.log(share / (1 - share))])
    found = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-12, "gtol": 1e-8})
    return float(found.x[0]) / unit, float(found.x[1])
