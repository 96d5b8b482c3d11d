"""The row kernels of the mechanism `moments`, compiled: the integers of reference_rows, several times faster.

Rows are columns first, and are taken in blocks whose scratch stays in the cache. Every inner loop runs over the rows of
a block, so that the lanes of a vector are rows; within a row the order of operations is the reference's. Nothing is
reordered or fused but in `compiled_row_products`, whose numbers are whole and exact in any order.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.holder.engines.reference import (
    EXP_LIMIT,
    EXP_SERIES,
    LEAST_NORM,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    ROUNDER,
    longest_class_weights,
)

_BLOCK_NUMBERS, _BLOCK_ROWS = 1 << 12, (32, 256)  # in a block of scratch, and its least and most rows
_TILT_ROWS = 256
_MOST_SQUARES = np.uint32(2**31 - 1)  # where sums of squares of 16-bit numbers stop growing
_TILE = 4  # products are made by tiles of 2 x 4
_C13, _C12, _C11, _C10, _C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = EXP_SERIES

JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}
_ANY_ORDER: dict[str, Any] = {**JIT, "fastmath": {"reassoc", "contract"}}
_FLOATS, SIGNS = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.int8, 1, "C", readonly=True)


def numba_matrix_type(kind: str, readonly: bool = True) -> Any:
    """The type of a matrix whose rows lie one after the other."""
    return types.Array(getattr(types, kind), 2, "C", readonly=readonly)


@njit(**JIT)
def _rows_per_kernel_block(n_columns):  # type: ignore[no-untyped-def]
    least, most = _BLOCK_ROWS
    return min(max(_BLOCK_NUMBERS // max(n_columns, 1) // 16 * 16, least), most)


# ---- rows on the sphere


def compiled_sphere_rows(
    values: NDArray[Any],
    signs: NDArray[np.int8],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    constant: float | None,
    grid: int,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    n, f = values.shape
    rows = np.empty((f + (constant is not None), n), dtype=np.int32)
    good = np.empty(n, dtype=np.bool_)
    if not values.flags.c_contiguous and not values.flags.f_contiguous:
        values = np.ascontiguousarray(values)
    layout = "C" if values.flags.c_contiguous else "F"
    _sphere_kernel(values.dtype.name, layout)(values, signs, low, high, constant or 0.0, float(grid), rows, good)
    return rows, good


@functools.cache
def _sphere_kernel(kind: str, layout: str) -> Callable[..., None]:
    """Rows of float32 or float64 on the sphere; they lie one after the other ("C"), or their columns do ("F")."""
    by_column, table = layout == "F", types.Array(getattr(types, kind), 2, layout, readonly=True)
    signature = types.void(
        table, SIGNS, _FLOATS, _FLOATS, types.float64, types.float64, types.int32[:, ::1], types.boolean[::1]
    )

    @njit(signature, **JIT)
    def kernel(values, signs, low, high, constant, grid, rows, good):  # type: ignore[no-untyped-def]
        f, (d, n) = len(low), rows.shape
        block = _rows_per_kernel_block(d)
        scaled = np.empty((d, block))
        squares, factors, flaws = np.empty(block), np.empty(block), np.empty(block)
        for start in range(0, n, block):
            b = min(block, n - start)
            squares[:], flaws[:] = 0.0, 0.0
            if by_column:
                for k in range(f):
                    for i in range(b):
                        scaled[k, i] = values[start + i, k]
            else:
                for i in range(b):
                    for k in range(f):
                        scaled[k, i] = values[start + i, k]
            for k in range(f):
                column, floor, top = scaled[k], low[k], high[k]
                width = top - floor
                for i in range(b):
                    x = column[i]
                    flaws[i] += x - x  # stays 0 unless x is not finite
                    x = x if x > floor else floor
                    x = x if x < top else top
                    x = ((x - floor) * 2.0) / width - 1.0
                    squares[i] += x * x
                    column[i] = x
            if f < d:
                scaled[f, :] = constant
                for i in range(b):
                    squares[i] += constant * constant
            for i in range(b):
                norm = np.sqrt(squares[i])
                factors[i] = grid / (norm if norm > LEAST_NORM else LEAST_NORM)
            truncate_row_block(scaled, 0, factors, squares, b)
            for i in range(b):
                good[start + i] = signs[start + i] != 0 and flaws[i] == 0.0
                factors[i] = 1.0 if good[start + i] and squares[i] <= grid * grid else 0.0
            store_signed_rows(scaled, 0, factors, rows, start, b)

    return kernel  # type: ignore[no-any-return]


@njit(**JIT)
def truncate_row_block(columns, first, factors, squares, b):  # type: ignore[no-untyped-def]
    """Multiply b rows by their factors and truncate them; their squared norms, exact below 2**53, go to `squares`."""
    squares[:] = 0.0
    for k in range(len(columns)):
        column = columns[k, first : first + b]
        for i in range(b):
            x = np.trunc(column[i] * factors[i])
            column[i] = x
            squares[i] += x * x


@njit(**JIT)
def store_signed_rows(columns, first, signs, rows, start, b):  # type: ignore[no-untyped-def]
    """Whole numbers times their signs as integers; where a sign is 0 the result is 0, whatever the number."""
    for k in range(len(columns)):
        column, target = columns[k, first : first + b], rows[k, start : start + b]
        for i in range(b):
            target[i] = np.int32(column[i] * signs[i] if signs[i] != 0.0 else 0.0)


# ---- whitening


def compiled_whiten_rows(
    rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int
) -> NDArray[np.int32]:
    edges = np.empty(rows.shape, dtype=np.int32)
    _compile_whiten_kernel(rows.dtype.name)(rows, a, signs, float(grid), edges)
    return edges


@functools.cache
def _compile_whiten_kernel(kind: str) -> Callable[..., None]:
    """Edge vectors of rows of int16 or int32."""
    signature = types.void(
        numba_matrix_type(kind), numba_matrix_type("float64"), SIGNS, types.float64, types.int32[:, ::1]
    )

    @njit(signature, **JIT)
    def kernel(rows, a, signs, grid, edges):  # type: ignore[no-untyped-def]
        d, n = rows.shape
        block = _rows_per_kernel_block(d)
        wide, images = np.empty((d, block)), np.empty((d, block))
        squares, factors = np.empty(block), np.empty(block)
        for start in range(0, n, block):
            b = min(block, n - start)
            _widen_rows_to_float(rows, start, b, wide)
            images[:, :], squares[:] = 0.0, 0.0
            for j in range(0, d - 1, 2):
                _add_two_row_images(wide, a, j, images[j], images[j + 1], b)
            if d % 2:
                _add_row_image(wide, a, d - 1, images[d - 1], b)
            for j in range(d):
                image = images[j]
                for i in range(b):
                    squares[i] += image[i] * image[i]
            for i in range(b):
                factors[i] = grid / np.sqrt(squares[i]) if squares[i] > 0.0 else 0.0
            truncate_row_block(images, 0, factors, squares, b)
            for i in range(b):
                factors[i] = np.float64(signs[start + i]) if squares[i] <= grid * grid else 0.0
            store_signed_rows(images, 0, factors, edges, start, b)

    return kernel  # type: ignore[no-any-return]


@njit(**JIT)
def _widen_rows_to_float(rows, start, b, wide):  # type: ignore[no-untyped-def]
    for k in range(len(rows)):
        column, source = wide[k], rows[k, start : start + b]
        for i in range(b):
            column[i] = source[i]


@njit(**JIT)
def _add_two_row_images(wide, a, j, x, y, b):  # type: ignore[no-untyped-def]
    """Columns j and j + 1 of the rows times a: four terms at a time, added one after another."""
    d = len(wide)
    for k in range(0, d - 3, 4):
        x0, x1, x2, x3 = a[k, j], a[k + 1, j], a[k + 2, j], a[k + 3, j]
        y0, y1, y2, y3 = a[k, j + 1], a[k + 1, j + 1], a[k + 2, j + 1], a[k + 3, j + 1]
        r0, r1, r2, r3 = wide[k], wide[k + 1], wide[k + 2], wide[k + 3]
        for i in range(b):
            x[i] = (((x[i] + x0 * r0[i]) + x1 * r1[i]) + x2 * r2[i]) + x3 * r3[i]
            y[i] = (((y[i] + y0 * r0[i]) + y1 * r1[i]) + y2 * r2[i]) + y3 * r3[i]
    for k in range(d // 4 * 4, d):
        x0, y0, r0 = a[k, j], a[k, j + 1], wide[k]
        for i in range(b):
            x[i] += x0 * r0[i]
            y[i] += y0 * r0[i]


@njit(**JIT)
def _add_row_image(wide, a, j, x, b):  # type: ignore[no-untyped-def]
    for k in range(len(wide)):
        x0, r0 = a[k, j], wide[k]
        for i in range(b):
            x[i] += x0 * r0[i]


# ---- mean rados


def compiled_tilt_rows(rows: NDArray[Any], theta: NDArray[np.float64], grid: int, cap: float) -> NDArray[np.int64]:
    most = int(cap * grid) ** 2
    if rows.dtype == np.int16 and most >= _MOST_SQUARES:
        rows = rows.astype(np.int32)
    total = np.zeros(len(rows), dtype=np.int64)
    _compile_tilt_kernel("int16" if rows.dtype == np.int16 else "int32")(rows, theta, float(grid), cap, most, total)
    return total


@functools.cache
def _compile_tilt_kernel(kind: str) -> Callable[..., None]:
    """Mean rados of rows of int16 or int32."""
    narrow = kind == "int16"  # a function in its place would keep compiled code from being found again
    norm_type = np.uint32 if narrow else np.float64
    signature = types.void(
        numba_matrix_type(kind),
        types.Array(types.float64, 1, "C", readonly=True),
        types.float64,
        types.float64,
        types.int64,
        types.int64[::1],
    )

    @njit(signature, **JIT)
    def kernel(rows, theta, grid, cap, most, total):  # type: ignore[no-untyped-def]
        d, n = rows.shape
        weights, inverse = np.empty(_TILT_ROWS, np.float32), 1.0 / grid
        powers, scratch, squares = np.empty(_TILT_ROWS), np.empty(_TILT_ROWS), np.empty(_TILT_ROWS, norm_type)
        sums = np.empty(d, np.int64)
        for start in range(0, n, _TILT_ROWS):
            b = min(_TILT_ROWS, n - start)
            score_row_block(rows, theta, start, b, powers)
            for i in range(b):
                powers[i] *= inverse
            exp_of_row_block(powers, scratch, b)
            for i in range(b):
                weight = 1.0 / (1.0 + powers[i])
                weights[i] = np.float32(weight if weight < cap else cap)
            if narrow:
                _add_narrow_row_parts(rows, weights, start, b, squares, sums)
            else:
                _add_weighted_row_parts(rows, weights, start, b, squares, sums)
            too_long = 0
            for i in range(b):
                too_long += squares[i] > most
            if too_long:
                for i in range(b):
                    weights[i] = weights[i] if squares[i] <= most else np.float32(0.0)
                if narrow:
                    _add_narrow_row_parts(rows, weights, start, b, squares, sums)
                else:
                    _add_weighted_row_parts(rows, weights, start, b, squares, sums)
            for j in range(d):
                total[j] += sums[j]

    return kernel  # type: ignore[no-any-return]


@njit(**JIT)
def score_row_block(rows, theta, start, b, scores):  # type: ignore[no-untyped-def]
    """Dot products of a block of rows with theta: four terms at a time, added one after another."""
    d, end = len(rows), start + b
    scores[:] = 0.0
    for j in range(0, d - 3, 4):
        t0, t1, t2, t3 = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        r0, r1, r2, r3 = rows[j, start:end], rows[j + 1, start:end], rows[j + 2, start:end], rows[j + 3, start:end]
        for i in range(b):
            score = ((scores[i] + np.float64(r0[i]) * t0) + np.float64(r1[i]) * t1) + np.float64(r2[i]) * t2
            scores[i] = score + np.float64(r3[i]) * t3
    for j in range(d // 4 * 4, d):
        t0, r0 = theta[j], rows[j, start:end]
        for i in range(b):
            scores[i] += np.float64(r0[i]) * t0


@njit(**JIT)
def exp_of_row_block(x, scratch, b):  # type: ignore[no-untyped-def]
    """Replace the first numbers of x by their exponentials."""
    for i in range(b):
        y = x[i] if x[i] < EXP_LIMIT else EXP_LIMIT
        y = y if y > -EXP_LIMIT else -EXP_LIMIT
        shifted = y * LOG2_E + ROUNDER
        scratch[i] = shifted
        k = shifted - ROUNDER
        r = (y - k * LN2_HIGH) - k * LN2_LOW
        s = ((((((_C13 * r + _C12) * r + _C11) * r + _C10) * r + _C9) * r + _C8) * r + _C7) * r + _C6
        x[i] = (((((s * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0
    bits, exponents = x.view(np.int64), scratch.view(np.int64)
    for i in range(b):
        bits[i] += exponents[i] << 52


@njit(**JIT)
def _add_weighted_row_parts(rows, weights, start, b, squares, sums):  # type: ignore[no-untyped-def]
    """Sums of the truncated products of rows and weights, and the squared norm of each row of them."""
    squares[:] = 0.0
    for j in range(len(rows)):
        row, total = rows[j, start : start + b], np.int64(0)
        for i in range(b):
            part = np.int64(np.float32(row[i]) * weights[i])
            squares[i] += np.float64(part) * np.float64(part)
            total += part
        sums[j] = total


@njit(**JIT)
def _add_narrow_row_parts(rows, weights, start, b, squares, sums):  # type: ignore[no-untyped-def]
    """The same of 16-bit rows, all in 32 bits: two squares are at most 2**31, and their sum stops at 2**31 - 1."""
    d, end = len(rows), start + b
    squares[:] = np.uint32(0)
    for j in range(0, d - 1, 2):
        row, other, total, other_total = rows[j, start:end], rows[j + 1, start:end], np.int32(0), np.int32(0)
        for i in range(b):
            part, other_part = np.int32(np.float32(row[i]) * weights[i]), np.int32(np.float32(other[i]) * weights[i])
            square = np.uint32(squares[i] + np.uint32(np.uint32(part * part) + np.uint32(other_part * other_part)))
            squares[i] = min(square, _MOST_SQUARES)
            total, other_total = np.int32(total + part), np.int32(other_total + other_part)
        sums[j], sums[j + 1] = total, other_total
    if d % 2:
        row, total = rows[d - 1, start:end], np.int32(0)
        for i in range(b):
            part = np.int32(np.float32(row[i]) * weights[i])
            squares[i] = min(np.uint32(squares[i] + np.uint32(part * part)), _MOST_SQUARES)
            total = np.int32(total + part)
        sums[d - 1] = total


# ---- sums of products


def compiled_row_products(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    d = len(rows)
    padded = -(-d // _TILE) * _TILE
    total, sums = np.zeros((padded, padded), dtype=np.int64), np.zeros(d, dtype=np.int64)
    _compile_row_products_kernel(rows.dtype.name)(rows, total, sums)
    above = np.triu(total[:d, :d])
    return above + np.triu(above, 1).T, sums


@functools.cache
def _compile_row_products_kernel(kind: str) -> Callable[..., None]:
    """Sums over rows of int16 or int32; those of products are right on the diagonal and above."""

    @njit(types.void(numba_matrix_type(kind), types.int64[:, ::1], types.int64[::1]), **_ANY_ORDER)
    def kernel(rows, total, sums):  # type: ignore[no-untyped-def]
        d, n = rows.shape
        block = _rows_per_kernel_block(d)
        wide = np.zeros((len(total), block))
        for start in range(0, n, block):
            b = min(block, n - start)
            _widen_rows_to_float(rows, start, b, wide)
            for k in range(d):
                source, part = rows[k, start : start + b], np.int64(0)
                for i in range(b):
                    part += source[i]
                sums[k] += part
            for j in range(0, d, 2):
                x0, x1 = wide[j], wide[j + 1]
                for k in range(j // _TILE * _TILE, d, _TILE):
                    y0, y1, y2, y3 = wide[k], wide[k + 1], wide[k + 2], wide[k + 3]
                    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
                    for i in range(b):
                        s00 += x0[i] * y0[i]
                        s01 += x0[i] * y1[i]
                        s02 += x0[i] * y2[i]
                        s03 += x0[i] * y3[i]
                        s10 += x1[i] * y0[i]
                        s11 += x1[i] * y1[i]
                        s12 += x1[i] * y2[i]
                        s13 += x1[i] * y3[i]
                    total[j, k] += np.int64(s00)
                    total[j, k + 1] += np.int64(s01)
                    total[j, k + 2] += np.int64(s02)
                    total[j, k + 3] += np.int64(s03)
                    total[j + 1, k] += np.int64(s10)
                    total[j + 1, k + 1] += np.int64(s11)
                    total[j + 1, k + 2] += np.int64(s12)
                    total[j + 1, k + 3] += np.int64(s13)

    return kernel  # type: ignore[no-any-return]


# ---- Class weights of rows, for the mechanism `moments` with more than two classes, compiled.
#
# Within a row the order of operations is that of reference_rows; vectors run over rows. Weights and rows are
# whole numbers whose products add up below 2**53, so a matrix product may take them in any order.

_ROWS = 256  # whose scores are in the cache together
_PRODUCT_ROWS = 1 << 10


def compiled_tilt_class_rows(
    rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int
) -> NDArray[np.int64]:
    """The sum of rows times their class weights, shape (classes, columns); a row's last entry is its class."""
    weights = np.empty((len(theta), rows.shape[1]))
    reach = longest_class_weights(len(theta), unit, most)
    _compile_class_weights_kernel(rows.dtype.name)(
        rows, np.ascontiguousarray(theta), float(grid), float(unit), reach, float(most), weights
    )
    total = np.zeros(theta.shape, dtype=np.int64)
    for start in range(0, rows.shape[1], _PRODUCT_ROWS):
        there = slice(start, start + _PRODUCT_ROWS)
        total += (weights[:, there] @ rows[:-1, there].astype(np.float64).T).astype(np.int64)
    return total


@functools.cache
def _compile_class_weights_kernel(kind: str) -> Callable[..., None]:
    """Class weights of rows of int16 or int32."""
    number = types.float64
    signature = types.void(
        numba_matrix_type(kind),
        numba_matrix_type("float64"),
        number,
        number,
        number,
        number,
        numba_matrix_type("float64", False),
    )

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
                score_row_block(rows[:d], theta[k], start, b, score)
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
                exp_of_row_block(score, scratch, b)
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
