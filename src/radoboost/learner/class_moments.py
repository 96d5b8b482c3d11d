"""What rados of more than two classes tell: how many examples each class has, their mean, and how they scatter.

Row j of the block of a class is the sum of b_i x_i over the examples i of that class, where b_i is 1 if example i is in
signature j, else 0. Let q = P(b_i = 1), v = Var b_i = q (1 - q), and r the covariance of two different b_i. Over all of
Sigma_m, q is 1/2, v is 1/4 and r is 0. With a fixed support s of m examples, q is s / m, and r is -v / (m - 1), because
the b_i add up to s. For a class c with n_c examples, sum S_c = sum x_i and second moment C_c = sum x_i x_i':

    (K1)  mean of its rados        q S_c
    (K2)  their covariance         (v - r) C_c + r S_c S_c'
    (K3)  with those of a class d  r S_c S_d'

K1 is linear. In K2, sum over i, j of Cov(b_i, b_j) x_i x_j' = v C_c + r (S_c S_c' - C_c); in K3 no example is in both.
So over all of Sigma_m the mean is half of the class's sum, the covariance a quarter of its second moment, and classes
do not correlate.

The constant column is 1 in every example, so its mean is q n_c, and the mean of x in the class is m_c, the ratio of two
means of rados. Take m_c times the constant column from all columns: these are rados of x - m_c, whose sum over the
class is 0. So by K1 to K3

    (K4)  their mean is 0, their covariance (v - r) sum (x_i - m_c)(x_i - m_c)', and classes do not correlate,

with v - r = 1/4 over all of Sigma_m, and q (1 - q) m / (m - 1) with a fixed support. No difference of large numbers is
taken, so the scatter of a class has no negative direction however few rados there are. Since the rados of classes do
not correlate, the sum of the scatters has as many degrees of freedom as there are rados of all classes together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ReleaseError
from radoboost.release import Release, class_block
from radoboost.release.laws import POOLED_SUMS, SUMS


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """What the rados of K classes say of them, over d columns without the constant one.

    `sizes` (K,) are the numbers of examples, to sampling error, with the right total; `means` (K, d) those of each
    class, and 0 for a class whose examples are in no rado. `deviations` (K, n_rados, d) are rados of x - mean, divided
    so that the mean of their products is the scatter of the class: the sum of (x - mean)(x - mean)'.
    """

    sizes: NDArray[np.float64]
    means: NDArray[np.float64]
    deviations: NDArray[np.float64]


def share_and_spread(release: Release) -> tuple[float, float]:
    """How often an example is in a rado, q, and v - r of this module: what a covariance is divided by."""
    name, m = release.signatures["name"], release.n_examples
    if release.law not in (SUMS, POOLED_SUMS) or name not in ("all", "fixed-support") or m is None:
        raise ReleaseError(
            f"the rados of a release by {release.mechanism['name']} with signatures {name!r} are of a kind that this "
            "version cannot learn more than two classes from; upgrade radoboost"
        )
    if name == "all":
        return 0.5, 0.25
    share = float(release.signatures["support"]) / m
    if not 0 < share < 1:
        raise ReleaseError("every rado sums all examples, so that they are all alike; craft with a smaller support")
    return share, share * (1 - share) * m / (m - 1)


def class_moments(release: Release) -> ClassMoments:
    """Sizes, means and deviations of the classes of a plain release that has a constant column."""
    share, spread = share_and_spread(release)
    blocks = class_blocks(release)
    values, counts = blocks[:, :, :-1], blocks[:, :, -1]
    sizes = counts.mean(axis=1) / share
    if release.n_examples is not None and sizes.sum() > 0:
        sizes *= release.n_examples / sizes.sum()
    totals = counts.mean(axis=1)
    means = np.divide(values.mean(axis=1), totals[:, None], out=np.zeros(values[:, 0].shape), where=totals[:, None] > 0)
    deviations = (values - counts[:, :, None] * means[:, None, :]) / np.sqrt(spread)
    return ClassMoments(sizes, means, deviations)


def class_blocks(release: Release) -> NDArray[np.float64]:
    """The rados of all classes, shape (K, n_rados, n_columns), in the order of `release.classes`."""
    n_values = release.n_classes * release.n_rados * len(release.columns)
    memory.require(4 * 8 * n_values, f"rados of {release.n_classes} classes", "use fewer rados or columns")
    return np.stack([release.blocks[class_block(value)] for value in release.classes])
