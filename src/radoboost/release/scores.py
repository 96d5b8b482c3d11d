"""The scores that follow from released moments, before anything is known of how probable a class is at each.

The mechanism `moments` counts rows by these scores in its last stage, and learners read those counts: both sides must
mean the same scores, so they are computed here, from released blocks alone.

Theta is for rows that were put on the sphere, whitened, and put on the sphere again. Scores are of rows as they are, so
theta is divided by how far a typical row was stretched.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release.columns import Column
from radoboost.release.discriminants import discriminant
from radoboost.release.spectra import HESSIAN_FLOOR, LEAST, floor_noise, inverse_power, noise_floor

EDGES = (0.5, 1.2)
"""Scores are counted in three sizes, on either side of 0: these times the typical size of a score lie between them."""
_SNAP = 2.0**-20
_LARGEST = 2.0**30
_LEAST_UNIT = 2.0**-10

Blocks = Mapping[str, NDArray[np.float64]]


def weights_and_unit(
    blocks: Blocks, mechanism: Mapping[str, Any], columns: Sequence[Column]
) -> tuple[NDArray[np.float64], float]:
    """The weight of every column in a score, on a grid, and the typical size of a score.

    Of more than two classes each has a row of weights, and what is sized is the lead of the largest score over the
    next: the more classes there are, the smaller.
    """
    theta = whitened_theta(blocks, mechanism)
    values, vectors = np.linalg.eigh(blocks["moment:C2"])
    whole = max(float(np.maximum(values, 0.0).sum()), LEAST)
    if theta.ndim == 1:
        square = float(np.maximum(values, 0.0) @ np.square(vectors.T @ theta)) / whole
        weights = column_factors(blocks, mechanism, columns) @ theta
    else:
        square = float((np.square(theta @ vectors) @ np.maximum(values, 0.0)).mean()) / whole / (len(theta) - 1)
        weights = theta @ column_factors(blocks, mechanism, columns).T
    weights = np.clip(weights, -_LARGEST, _LARGEST)
    unit = min(max(math.sqrt(square), _LEAST_UNIT), _LARGEST)
    return np.asarray(np.rint(weights / _SNAP) * _SNAP), round(unit / _SNAP) * _SNAP


def whitened_theta(blocks: Blocks, mechanism: Mapping[str, Any]) -> NDArray[np.float64]:
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
    inverse = inverse_power(second, noise_floor(floor_noise(noise, "whitened"), d, HESSIAN_FLOOR), 1.0)
    return np.asarray(4 * inverse @ sums[0]) if slots == 1 else discriminant(sums, inverse, float(noise["sum"]))


def column_factors(blocks: Blocks, mechanism: Mapping[str, Any], columns: Sequence[Column]) -> NDArray[np.float64]:
    """The matrix that takes the classifier of whitened rows to weights of the columns; the constant one counts as 1."""
    a, constant = blocks["whitening"], None
    if columns[-1].scale == "constant":
        constant = float(mechanism["constant"])
    factors = a / _typical_stretch(a, blocks["moment:C"], constant)
    if constant is not None:
        factors[-1] *= constant
    return np.asarray(factors)


def _typical_stretch(a: NDArray[np.float64], second: NDArray[np.float64], constant: float | None) -> float:
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
