"""Class weights of rows, for the mechanism `moments` with more than two classes, compiled.

Within a row the order of operations is that of reference_rows; vectors run over rows. Weights and rows are whole
numbers whose products add up below 2**53, so a matrix product may take them in any order.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.holder.engines.kernel_rows import JIT, exp_of_block, matrix, score_block
from radoboost.holder.engines.reference_rows import weight_reach

_ROWS = 256  # whose scores are in the cache together
_PRODUCT_ROWS = 1 << 10


def tilt_classes(rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int) -> NDArray[np.int64]:
    """The sum of rows times their class weights, shape (classes, columns); a row's last entry is its class."""
    weights = np.empty((len(theta), rows.shape[1]))
    reach = weight_reach(len(theta), unit, most)
    _weigh(rows.dtype.name)(rows, np.ascontiguousarray(theta), float(grid), float(unit), reach, float(most), weights)
    total = np.zeros(theta.shape, dtype=np.int64)
    for start in range(0, rows.shape[1], _PRODUCT_ROWS):
        there = slice(start, start + _PRODUCT_ROWS)
        total += (weights[:, there] @ rows[:-1, there].astype(np.float64).T).astype(np.int64)
    return total


@functools.cache
def _weigh(kind: str) -> Callable[..., None]:
    """Class weights of rows of int16 or int32."""
    number = types.float64
    signature = types.void(matrix(kind), matrix("float64"), number, number, number, number, matrix("float64", False))

    @njit(signature, **JIT)
    def kernel(rows, theta, grid, unit, reach, most, weights):  # type: ignore[no-untyped-def]
        d, n, n_classes = len(rows) - 1, rows.shape[1], len(theta)
        inverse = 1.0 / grid
        scores, scratch = np.empty((n_classes, _ROWS)), np.empty(_ROWS)
        top, total, squares, factors = np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS)
        for start in range(0, n, _ROWS):
            b = min(_ROWS, n - start)
            for k in range(n_classes):
                score = scores[k]
                score_block(rows[:d], theta[k], start, b, score)
                for i in range(b):
                    score[i] *= inverse
            for i in range(b):
                top[i] = scores[0, i]
            for k in range(1, n_classes):
                score = scores[k]
                for i in range(b):
                    top[i] = score[i] if score[i] > top[i] else top[i]
            total[:], squares[:] = 0.0, 0.0
            for k in range(n_classes):
                score = scores[k]
                for i in range(b):
                    score[i] -= top[i]
                exp_of_block(score, scratch, b)
                for i in range(b):
                    total[i] += score[i]
            places = rows[d, start : start + b]
            for k in range(n_classes):
                score = scores[k]
                for i in range(b):
                    part = (1.0 if places[i] == k + 1 else 0.0) - score[i] / total[i]
                    squares[i] += part * part
                    score[i] = part
            for i in range(b):
                length = np.sqrt(squares[i])
                factors[i] = unit * (reach / length) if length > reach else unit
            squares[:] = 0.0
            for k in range(n_classes):
                score = scores[k]
                for i in range(b):
                    whole = np.rint(score[i] * factors[i])
                    squares[i] += whole * whole
                    score[i] = whole
            for k in range(n_classes):
                score, target = scores[k], weights[k, start : start + b]
                for i in range(b):
                    fits = squares[i] <= most and 0 < places[i] <= n_classes
                    target[i] = score[i] if fits else 0.0

    return kernel  # type: ignore[no-any-return]
