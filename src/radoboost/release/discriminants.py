"""The linear discriminant of more than two classes, from noisy sums by class and one second moment of all rows.

Classes that lie on a line, one after the other, are told apart by it, where least squares of each class against the
rest would hide those in the middle. Nothing but sums, the inverse of the second moment and the noise goes into it, so
that both sides of the boundary compute the same.

Let B have the sum of each class as a row, H be the inverse of the second moment, and n_k the number of rows of class k,
by the least-squares vector that is 1 in every row. R = N^-1/2 B H B' N^-1/2 has squared canonical correlations as
eigenvalues, besides one that belongs to the sizes themselves. With these the discriminant needs no other inverse.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.release.spectra import LEAST

LONGEST_STEP = 4.0
_DOUBT = 1.0  # of noise, times the number of columns: classes of so many rows are trusted by half
_MOST_CORRELATED = 0.95  # a squared canonical correlation: noise may make it 1 or more


def centred(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors of classes less their mean: class weights of a row add up to 0, but for noise and rounding."""
    return np.asarray(vectors - vectors.mean(axis=0))


def class_step(n_classes: int, eta: float) -> float:
    """How far a step goes along the inverse second moment times a mean rado of so many classes.

    Where all classes are alike, the multinomial risk has 1 / n_classes of the second moment as its curvature, and
    nowhere more than 1/2 of it (Boehning 1992): up to 4, no step goes so far that the next one goes farther back.
    """
    return min(n_classes * eta, LONGEST_STEP)


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums of the rows of each class as far as noise lets them be trusted, and about how many rows each has.

    Noise of a deviation moves scores by about that times columns / rows: the mean of a class that is no larger goes
    towards the mean of all rows, by as much as `trust` says. `one` is the vector whose product with a row is 1, as
    nearly as can be.
    """

    sums: NDArray[np.float64]
    sizes: NDArray[np.float64]
    trust: NDArray[np.float64]
    one: NDArray[np.float64]

    @classmethod
    def of(cls, sums: NDArray[np.float64], inverse: NDArray[np.float64], noise: float) -> "ClassSums":
        """By noisy sums, a row for each class, and the inverse of the second moment of all rows."""
        one = inverse @ sums.sum(axis=0)
        sizes = np.maximum(sums @ one, max(noise * float(np.linalg.norm(one)), LEAST))
        trust = sizes**2 / (sizes**2 + (_DOUBT * noise * len(one)) ** 2)
        mean = sums.sum(axis=0) / sizes.sum()
        return cls(trust[:, None] * sums + ((1 - trust) * sizes)[:, None] * mean, sizes, trust, one)


def discriminant(sums: NDArray[np.float64], inverse: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Weights of each class, shape (classes, columns), by sums of rows of each class with noise of a deviation."""
    by_class = ClassSums.of(sums, inverse, noise)
    sums, sizes = by_class.sums, by_class.sizes
    whole, roots = float(sizes.sum()), np.sqrt(sizes)
    products = sums @ inverse @ sums.T - np.diag(by_class.trust * noise) ** 2 * float(np.trace(inverse))
    across = np.eye(len(sums)) - np.outer(roots, roots) / whole
    values, vectors = np.linalg.eigh(across @ (products / np.outer(roots, roots)) @ across)
    values = np.clip(values, 0.0, _MOST_CORRELATED)
    vectors = across @ vectors
    within = (vectors / (1 - values)) @ vectors.T
    offsets = np.log(sizes / whole) - (np.square(vectors) @ (values / (1 - values))) * whole / sizes / 2
    weights = whole * (within / np.outer(roots, roots)) @ sums @ inverse + np.outer(offsets, by_class.one)
    return centred(weights)
