"""Inverses of second moments that carry noise: eigenvalues that noise could have made are not trusted."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

HESSIAN_FLOOR = 0.5  # of eigenvalues that are inverted, as a share of what noise alone could be
LEAST_RATIO = 1e-9  # of an eigenvalue to the largest, also where there is no noise
LEAST = 1e-6  # an eigenvalue, where a record of unit length adds 1 to their sum


def noise_floor(noise_std: float, n_columns: int, share: float) -> float:
    """`share` of the largest eigenvalue of symmetric noise, `noise_std` on the diagonal, 1/sqrt(2) of it elsewhere."""
    return share * noise_std * math.sqrt(2 * n_columns)


def floor_noise(noise: Mapping[str, float], stage: str) -> float:
    """The noise by which eigenvalues of a second moment are floored: its own, or that of the sum, if it is exact.

    What is inverted multiplies sums that carry noise, so directions in which there is hardly anything must not be
    blown up either where the second moment itself has no noise, as under labels.
    """
    return noise[stage] or noise["sum"]


def inverse_power(matrix: NDArray[np.float64], floor: float, power: float) -> NDArray[np.float64]:
    """matrix**-power of a symmetric matrix, its eigenvalues raised to `floor` at least."""
    values, vectors = np.linalg.eigh(matrix)
    inverse: NDArray[np.float64] = (vectors * floored(values, floor) ** -power) @ vectors.T
    return inverse


def floored(values: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Ascending eigenvalues, raised to `floor` at least, and to a value whose inverse still means something."""
    return np.asarray(np.maximum(values, max(floor, LEAST_RATIO * float(values[-1]), LEAST)))
