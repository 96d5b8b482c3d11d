"""Inverses of second moments that carry noise: eigenvalues that noise could have made are not trusted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release.columns import Column

HESSIAN_FLOOR = 0.5  # of eigenvalues that are inverted, as a share of what noise alone could be
LEAST_RATIO = 1e-9  # of an eigenvalue to the largest, also where there is no noise
LEAST = 1e-6  # an eigenvalue, where a record of unit length adds 1 to their sum


def eigenvalue_floor(noise_std: float, n_columns: int, share: float) -> float:
    """`share` of the largest eigenvalue of symmetric noise, `noise_std` on the diagonal, 1/sqrt(2) of it elsewhere."""
    return share * noise_std * math.sqrt(2 * n_columns)


def eigenvalue_noise(noise: Mapping[str, float], stage: str) -> float:
    """The noise by which eigenvalues of a second moment are floored: its own, or that of the sum, if it is exact.

    What is inverted multiplies sums that carry noise, so directions in which there is hardly anything must not be
    blown up either where the second moment itself has no noise, as under labels.
    """
    return noise[stage] or noise["sum"]


def inverse_matrix_power(matrix: NDArray[np.float64], floor: float, power: float) -> NDArray[np.float64]:
    """matrix**-power of a symmetric matrix, its eigenvalues raised to `floor` at least."""
    values, vectors = np.linalg.eigh(matrix)
    inverse: NDArray[np.float64] = (vectors * raise_eigenvalues(values, floor) ** -power) @ vectors.T
    return inverse


def raise_eigenvalues(values: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Ascending eigenvalues, raised to `floor` at least, and to a value whose inverse still means something."""
    return np.asarray(np.maximum(values, max(floor, LEAST_RATIO * float(values[-1]), LEAST)))


# ---- The linear discriminant of more than two classes, from noisy sums by class and one second moment of all rows.
#
# Classes that lie on a line, one after the other, are told apart by it, where least squares of each class against
# the rest would hide those in the middle. Nothing but sums, the inverse of the second moment and the noise goes
# into it, so that both sides of the boundary compute the same.
#
# Let B have the sum of each class as a row, H be the inverse of the second moment, and n_k the number of rows of
# class k, by the least-squares vector that is 1 in every row. R = N^-1/2 B H B' N^-1/2 has squared canonical
# correlations as eigenvalues, besides one that belongs to the sizes themselves. With these the discriminant needs
# no other inverse.

LONGEST_STEP = 4.0
_DOUBT = 1.0  # of noise, times the number of columns: classes of so many rows are trusted by half
_MOST_CORRELATED = 0.95  # a squared canonical correlation: noise may make it 1 or more


def centre_class_vectors(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors of classes less their mean: class weights of a row add up to 0, but for noise and rounding."""
    return np.asarray(vectors - vectors.mean(axis=0))


def class_newton_step(n_classes: int, eta: float) -> float:
    """How far a step goes along the inverse second moment times a mean rado of so many classes.

    Where all classes are alike, the multinomial risk has 1 / n_classes of the second moment as its curvature, and
    nowhere more than 1/2 of it (Boehning 1992): up to 4, no step goes so far that the next one goes farther back.
    """
    return min(n_classes * eta, LONGEST_STEP)


@dataclass(frozen=True, eq=False)
class ClassMeans:
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
    def of(cls, sums: NDArray[np.float64], inverse: NDArray[np.float64], noise: float) -> "ClassMeans":
        """By noisy sums, a row for each class, and the inverse of the second moment of all rows."""
        one = inverse @ sums.sum(axis=0)
        sizes = np.maximum(sums @ one, max(noise * float(np.linalg.norm(one)), LEAST))
        trust = sizes**2 / (sizes**2 + (_DOUBT * noise * len(one)) ** 2)
        mean = sums.sum(axis=0) / sizes.sum()
        return cls(trust[:, None] * sums + ((1 - trust) * sizes)[:, None] * mean, sizes, trust, one)


def discriminant_weights(sums: NDArray[np.float64], inverse: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Weights of each class, shape (classes, columns), by sums of rows of each class with noise of a deviation."""
    by_class = ClassMeans.of(sums, inverse, noise)
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
    return centre_class_vectors(weights)


# ---- The scores that follow from released moments, before anything is known of how probable a class is at each.
#
# The mechanism `moments` counts rows by these scores in its last stage, and learners read those counts: both
# sides must mean the same scores, so they are computed here, from released blocks alone.
#
# Theta is for rows that were put on the sphere, whitened, and put on the sphere again. Scores are of rows as they
# are, so theta is divided by how far a typical row was stretched.

EDGES = (0.5, 1.2)
"""Scores are counted in three sizes, on either side of 0: these times the typical size of a score lie between them."""
_SNAP = 2.0**-20
_LARGEST = 2.0**30
_LEAST_UNIT = 2.0**-10

Blocks = Mapping[str, NDArray[np.float64]]


def column_weights_and_score_unit(
    blocks: Blocks, mechanism: Mapping[str, Any], columns: Sequence[Column]
) -> tuple[NDArray[np.float64], float]:
    """The weight of every column in a score, on a grid, and the typical size of a score.

    Of more than two classes each has a row of weights, and what is sized is the lead of the largest score over the
    next: the more classes there are, the smaller.
    """
    theta = theta_of_whitened_rows(blocks, mechanism)
    values, vectors = np.linalg.eigh(blocks["moment:C2"])
    whole = max(float(np.maximum(values, 0.0).sum()), LEAST)
    if theta.ndim == 1:
        square = float(np.maximum(values, 0.0) @ np.square(vectors.T @ theta)) / whole
        weights = unwhitening_factors(blocks, mechanism, columns) @ theta
    else:
        square = float((np.square(theta @ vectors) @ np.maximum(values, 0.0)).mean()) / whole / (len(theta) - 1)
        weights = theta @ unwhitening_factors(blocks, mechanism, columns).T
    weights = np.clip(weights, -_LARGEST, _LARGEST)
    unit = min(max(math.sqrt(square), _LEAST_UNIT), _LARGEST)
    return np.asarray(np.rint(weights / _SNAP) * _SNAP), round(unit / _SNAP) * _SNAP


def theta_of_whitened_rows(blocks: Blocks, mechanism: Mapping[str, Any]) -> NDArray[np.float64]:
    """The classifier of whitened rows: the mean of the later iterates, or one Newton step where there are none.

    Of more than two classes each has a row; where there are no iterates, that is their discriminant.
    """
    rounds, sums = int(mechanism["rounds"]), blocks["moment:b"]
    slots, d = sums.shape
    if rounds:
        if slots == 1:
            return np.asarray(blocks["theta"][rounds // 2 + 1 :].mean(axis=0))
        return np.asarray(blocks["theta"].reshape(rounds + 1, slots, d)[rounds // 2 + 1 :].mean(axis=0))
    second, noise = blocks["moment:C2"], mechanism["noise"]
    inverse = inverse_matrix_power(second, eigenvalue_floor(eigenvalue_noise(noise, "whitened"), d, HESSIAN_FLOOR), 1.0)
    return np.asarray(4 * inverse @ sums[0]) if slots == 1 else discriminant_weights(sums, inverse, float(noise["sum"]))


def unwhitening_factors(blocks: Blocks, mechanism: Mapping[str, Any], columns: Sequence[Column]) -> NDArray[np.float64]:
    """The matrix that takes the classifier of whitened rows to weights of the columns; the constant one counts as 1."""
    a, constant = blocks["whitening"], None
    if columns[-1].scale == "constant":
        constant = float(mechanism["constant"])
    factors = a / _typical_stretch_by_whitening(a, blocks["moment:C"], constant)
    if constant is not None:
        factors[-1] *= constant
    return np.asarray(factors)


def _typical_stretch_by_whitening(a: NDArray[np.float64], second: NDArray[np.float64], constant: float | None) -> float:
    """The length of a typical row, times that of its image under `a` once it is on the sphere."""
    size, d = float(np.trace(second)), len(a)
    if size <= 0:
        return float(np.linalg.norm(a, 2))
    stretch = math.sqrt(max(float(np.trace(a @ second @ a)) / size, 1e-12 * float(np.square(a).max())))
    if constant is None:
        return stretch
    # Projecting shrinks the constant with its row: its mean square on the sphere says how long rows were.
    share = min(1.0, max(float(second[-1, -1]) / size, constant**2 / (d - 1 + constant**2)))
    return stretch * constant / math.sqrt(share)
