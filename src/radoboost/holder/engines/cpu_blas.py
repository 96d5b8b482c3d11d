"""Rows of many columns: matrix products by BLAS, where every order of additions gives the same bits.

Products of whole numbers, and rows on the sphere times a matrix on a grid, are whole multiples of one unit whose
partial sums stay below 2**53 of it. So no addition rounds, fused or not, and any order has the reference's bits. Where
that is not certain, and for few columns, the loops of kernel_rows do it: that changes nothing but the time.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.holder.engines import cpu_rows
from radoboost.holder.engines.cpu_rows import JIT, SIGNS, numba_matrix_type, store_signed_rows, truncate_row_block

_WIDE = 64  # columns from which on matrix products pay
_BLOCK_ROWS = 1 << 10  # in a matrix product
_EXACT_ROWS = 1 << 16  # sums of so many products of whole numbers up to 2**15 are below 2**53
_FINISHED_ROWS = 128  # whose images are put on the sphere at a time: they stay in the cache
_UNITS = 2.0**30  # of a matrix's entries in 1
_REACH = (1 - 2.0**-20) * 2.0**53 / _UNITS  # a little less than sums may be: norms are rounded


def blas_products(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of the products of columns, and of the columns, of whole numbers up to 2**15 in magnitude."""
    d, n = rows.shape
    if d < _WIDE:
        return cpu_rows.compiled_row_products(rows)
    total, sums = np.zeros((d, d), dtype=np.int64), np.zeros(d, dtype=np.int64)
    for first in range(0, n, _EXACT_ROWS):
        part, part_sums = np.zeros((d, d)), np.zeros(d)
        for _, block in _float_blocks_for_blas(rows[:, first : first + _EXACT_ROWS]):
            part += block @ block.T
            part_sums += block.sum(axis=1)
        total += part.astype(np.int64)
        sums += part_sums.astype(np.int64)
    return total, sums


def blas_whiten(rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int) -> NDArray[np.int32]:
    """Rows times the matrix `a`, put on the sphere again, times their signs."""
    d, n = rows.shape
    if d < _WIDE:
        return cpu_rows.compiled_whiten_rows(rows, a, signs, grid)
    edges = np.empty((d, n), dtype=np.int32)
    reach = _longest_matrix_column(a)
    for start, block in _float_blocks_for_blas(rows):
        there = slice(start, start + block.shape[1])
        if _longest_block_row(block) * reach <= _REACH:
            _compile_whitening_finish()(a.T @ block, signs[there], float(grid), edges, start)
        else:
            edges[:, there] = cpu_rows.compiled_whiten_rows(np.ascontiguousarray(rows[:, there]), a, signs[there], grid)
    return edges


def _float_blocks_for_blas(rows: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Blocks of the rows as float64, with the number of their first row."""
    for start in range(0, rows.shape[1], _BLOCK_ROWS):
        yield start, rows[:, start : start + _BLOCK_ROWS].astype(np.float64)


def _longest_matrix_column(a: NDArray[np.float64]) -> float:
    """The norm of the longest column of a matrix on the grid; infinite if it is not on the grid, or not finite."""
    with np.errstate(all="ignore"):
        units = a * _UNITS
        if not (units == np.rint(units)).all():
            return np.inf
        norm = float(np.sqrt((a * a).sum(axis=0).max()))
    return norm if norm >= 0.0 else np.inf


def _longest_block_row(block: NDArray[np.float64]) -> float:
    """The norm of the longest row, which lies in a column."""
    return float(np.sqrt(np.einsum("ki,ki->i", block, block).max()))


@functools.cache
def _compile_whitening_finish() -> Callable[..., None]:
    """Put images on the sphere: the second half of kernel_rows' whitening, in the order of the columns."""
    signature = types.void(numba_matrix_type("float64", False), SIGNS, types.float64, types.int32[:, ::1], types.int64)

    @njit(signature, **JIT)
    def kernel(images, signs, grid, edges, start):  # type: ignore[no-untyped-def]
        d, n = images.shape
        squares, factors = np.empty(_FINISHED_ROWS), np.empty(_FINISHED_ROWS)
        for first in range(0, n, _FINISHED_ROWS):
            b = min(_FINISHED_ROWS, n - first)
            squares[:] = 0.0
            for j in range(d):
                image = images[j, first : first + b]
                for i in range(b):
                    squares[i] += image[i] * image[i]
            for i in range(b):
                factors[i] = grid / np.sqrt(squares[i]) if squares[i] > 0.0 else 0.0
            truncate_row_block(images, first, factors, squares, b)
            for i in range(b):
                factors[i] = np.float64(signs[first + i]) if squares[i] <= grid * grid else 0.0
            store_signed_rows(images, first, factors, edges, start + first, b)

    return kernel  # type: ignore[no-any-return]
