"""Which columns a model uses, the most important first.

What a column adds to scores is about its weight times how far its values spread. A rado sums each example by a fair
coin, so the standard deviation of a column over the rados is half the root of its sum of squares: the same multiple of
its spread for every column, as the release tells it, noise included.
"""

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.class_moments import class_blocks
from radoboost.release import Release


def used_features(release: Release, theta: NDArray[np.float64]) -> list[str]:
    """The names of the columns whose weight is not 0, the most important first; without the constant one.

    Of more than two classes `theta` has a row for each, and what counts is how weights differ between classes.
    """
    if release.n_classes == 2:
        spreads, sizes = release.rados.std(axis=0), np.abs(theta)
    else:
        spreads = class_blocks(release).sum(axis=0).std(axis=0)
        sizes = theta.std(axis=0)
    importances = sizes * np.maximum(spreads, np.finfo(np.float64).tiny)
    order = np.lexsort((np.arange(len(sizes)), -importances))
    columns = release.columns
    return [columns[k].name for k in order if sizes[k] > 0 and columns[k].scale != "constant"]
