"""The row kernels of the mechanism `moments` in plain NumPy: what they compute, to the bit.

Rows come column-first, shape (columns, rows). Every operation below is on whole columns, element by element, so that
what a row gives is a function of that row alone; sums over columns run in the order of the columns. The
section "The rows of moments" in docs/exactness.md specifies the same for another machine or language.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_NORM = 2.0**-500  # a row of zeros is divided by this
EXP_LIMIT = 64.0  # a weight beyond it is 0 or 1 for every row of 32-bit integers
LOG2_E, ROUNDER = float.fromhex("0x1.71547652b82fep+0"), 1.5 * 2.0**52
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
EXP_SERIES = tuple(1 / math.factorial(n) for n in range(13, -1, -1))  # each is the float64 nearest to 1 / n!
_EXPONENT_BITS = 52
_EXACT_ROWS = 1 << 16  # sums of so many products of whole numbers up to 2**15 are below 2**53: exact in float64


@np.errstate(all="ignore")
def sphere(
    values: NDArray[Any],
    signs: NDArray[np.int8],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    constant: float | None,
    grid: int,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Rows scaled by their bounds and put on the sphere of radius `grid` as integers, and which rows are good.

    A row is bad, and zero, if its sign is 0 or one of its values is not finite. The constant, unless it is None, is
    the last column.
    """
    columns = values.T.astype(np.float64, order="C")
    good = np.isfinite(columns).all(axis=0) & (signs != 0)
    floor, top = low[:, None], high[:, None]
    scaled = ((np.minimum(np.maximum(columns, floor), top) - floor) * 2.0) / (top - floor) - 1.0
    if constant is not None:
        scaled = np.vstack([scaled, np.full((1, len(values)), constant)])
    norms = np.sqrt(_squares(scaled))
    rows, fits = _truncated(scaled, grid / np.where(norms > LEAST_NORM, norms, LEAST_NORM), float(grid))
    return np.where(good & fits, rows, 0.0).astype(np.int32), good


@np.errstate(all="ignore")
def whiten(rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int) -> NDArray[np.int32]:
    """Rows times the matrix `a`, put on the sphere again, times their signs."""
    images = np.zeros(rows.shape)
    for k, row in enumerate(rows):
        images += a[k][:, None] * row
    squares = _squares(images)
    factors = np.divide(grid, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
    edges, fits = _truncated(images, factors, float(grid))
    return np.where(fits, edges * signs, 0.0).astype(np.int32)


@np.errstate(all="ignore")
def tilt(rows: NDArray[Any], theta: NDArray[np.float64], grid: int, cap: float) -> NDArray[np.int64]:
    """The sum of rows under the logistic weights of theta, each row truncated by itself.

    Scores are float64: columns that nearly depend on each other have large coefficients that cancel. Products are
    float32, which has 24 bits for whole numbers of 16. A row that is longer than cap * grid under its weight gives
    nothing; this is tested in whole numbers.
    """
    scores = np.zeros(rows.shape[1])
    for row, coefficient in zip(rows, theta, strict=True):
        scores += row.astype(np.float64) * coefficient
    weights = np.minimum(1.0 / (1.0 + exp(scores * (1.0 / grid))), cap)
    parts, fits = _truncated(rows.astype(np.float32), weights.astype(np.float32), float(int(cap * grid)))
    total: NDArray[np.int64] = np.where(fits, parts, 0.0).astype(np.int64).sum(axis=1)
    return total


@np.errstate(all="ignore")
def tilt_classes(rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int) -> NDArray[np.int64]:
    """The sum of rows times their class weights, shape (classes, columns), for more than two classes.

    The last entry of a row is its class, from 1 on; 0 is none, and the row gives nothing. `theta` has a row for each
    class. The weights of a row are what its class has beyond the probabilities of theta, 1 - p for its own and -p for
    others: scaled as one vector so that its square is at most `most`, in whole numbers of which `unit` make 1.
    """
    weights = class_weights(rows, theta, grid, unit, most)
    total = np.zeros(theta.shape, dtype=np.int64)
    for start in range(0, rows.shape[1], _EXACT_ROWS):
        there = slice(start, start + _EXACT_ROWS)
        total += (weights[:, there] @ rows[:-1, there].astype(np.float64).T).astype(np.int64)
    return total


@np.errstate(all="ignore")
def class_weights(
    rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int
) -> NDArray[np.float64]:
    """The class weights of rows, whole numbers, shape (classes, rows); see `tilt_classes`."""
    scores = np.zeros((len(theta), rows.shape[1]))
    for row, coefficients in zip(rows[:-1], theta.T, strict=True):
        scores += row.astype(np.float64) * coefficients[:, None]
    scores *= 1.0 / grid
    top = scores[0]
    for score in scores[1:]:
        top = np.where(score > top, score, top)
    powers = exp(scores - top)
    total = np.zeros(rows.shape[1])
    for power in powers:
        total += power
    own = np.arange(1, len(theta) + 1)[:, None] == rows[-1]
    parts = own - powers / total
    lengths, reach = np.sqrt(_squares(parts)), weight_reach(len(theta), unit, most)
    whole = np.rint(parts * np.where(lengths > reach, unit * (reach / lengths), float(unit)))
    return np.where((_squares(whole) <= most) & own.any(axis=0), whole, 0.0)


def weight_reach(n_classes: int, unit: int, most: int) -> float:
    """How long class weights may be before they are rounded: rounding moves each by half at most."""
    return (math.sqrt(most) - math.sqrt(n_classes) / 2) / unit


def products(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of the products of columns, and of the columns, of whole numbers up to 2**15 in magnitude."""
    total = np.zeros((len(rows), len(rows)), dtype=np.int64)
    for start in range(0, rows.shape[1], _EXACT_ROWS):
        part = rows[:, start : start + _EXACT_ROWS].astype(np.float64)
        total += (part @ part.T).astype(np.int64)
    return total, rows.sum(axis=1, dtype=np.int64)


def exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exponential of x, cut to -64 .. 64, with an error below one part in 10**15; NaN counts as 64.

    With k the whole number nearest to x / log(2): 2**k times the series of exp at x - k log(2).
    """
    x = np.where(x < EXP_LIMIT, x, EXP_LIMIT)
    x = np.where(x > -EXP_LIMIT, x, -EXP_LIMIT)
    shifted = x * LOG2_E + ROUNDER  # its last bits are k, for it is rounded to a whole number
    k = shifted - ROUNDER
    rest = (x - k * LN2_HIGH) - k * LN2_LOW
    series = np.full_like(x, EXP_SERIES[0])
    for coefficient in EXP_SERIES[1:]:
        series = series * rest + coefficient
    return (series.view(np.int64) + (shifted.view(np.int64) << _EXPONENT_BITS)).view(np.float64)


def _squares(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The squared norm of each row, added up in the order of the columns."""
    total = np.zeros(columns.shape[1])
    for column in columns:
        total += column * column
    return total


def _truncated(
    columns: NDArray[Any], factors: NDArray[np.float64], most: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rows times their factors, truncated towards zero, and which of them are at most `most` long, exactly.

    Squares of whole numbers add up exactly below 2**53, and never fall below it again. A row with NaN is too long.
    """
    whole = np.trunc(columns * factors).astype(np.float64)
    return whole, _squares(whole) <= most * most
