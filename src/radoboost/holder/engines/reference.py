"""The plain NumPy engine: short enough to be checked by reading. The kernel must give the same integers."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.grid import EXACT_UNIT, ExactSums, grid_edge_vectors, snap_to_grid
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.signatures import SignatureStream
from radoboost.release.columns import Column
from radoboost.tables.sparse import SparseRows

# ---- The row kernels of the mechanism `moments` in plain NumPy: what they compute, to the bit.
#
# Rows come column-first, shape (columns, rows). Every operation below is on whole columns, element by element, so
# that what a row gives is a function of that row alone; sums over columns run in the order of the columns. The
# section "The rows of moments" in docs/exactness.md specifies the same for another machine or language.

LEAST_NORM = 2.0**-500  # a row of zeros is divided by this
EXP_LIMIT = 64.0  # a weight beyond it is 0 or 1 for every row of 32-bit integers
LOG2_E, ROUNDER = float.fromhex("0x1.71547652b82fep+0"), 1.5 * 2.0**52
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
EXP_SERIES = tuple(1 / math.factorial(n) for n in range(13, -1, -1))  # each is the float64 nearest to 1 / n!
_EXPONENT_BITS = 52
_EXACT_ROWS = 1 << 16  # sums of so many products of whole numbers up to 2**15 are below 2**53: exact in float64


@np.errstate(all="ignore")
def reference_sphere(
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
    norms = np.sqrt(_squared_row_norms(scaled))
    rows, fits = _truncate_numpy_rows(scaled, grid / np.where(norms > LEAST_NORM, norms, LEAST_NORM), float(grid))
    return np.where(good & fits, rows, 0.0).astype(np.int32), good


@np.errstate(all="ignore")
def reference_whiten(
    rows: NDArray[Any], a: NDArray[np.float64], signs: NDArray[np.int8], grid: int
) -> NDArray[np.int32]:
    """Rows times the matrix `a`, put on the sphere again, times their signs."""
    images = np.zeros(rows.shape)
    for k, row in enumerate(rows):
        images += a[k][:, None] * row
    squares = _squared_row_norms(images)
    factors = np.divide(grid, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
    edges, fits = _truncate_numpy_rows(images, factors, float(grid))
    return np.where(fits, edges * signs, 0.0).astype(np.int32)


@np.errstate(all="ignore")
def reference_tilt(rows: NDArray[Any], theta: NDArray[np.float64], grid: int, cap: float) -> NDArray[np.int64]:
    """The sum of rows under the logistic weights of theta, each row truncated by itself.

    Scores are float64: columns that nearly depend on each other have large coefficients that cancel. Products are
    float32, which has 24 bits for whole numbers of 16. A row that is longer than cap * grid under its weight gives
    nothing; this is tested in whole numbers.
    """
    scores = np.zeros(rows.shape[1])
    for row, coefficient in zip(rows, theta, strict=True):
        scores += row.astype(np.float64) * coefficient
    weights = np.minimum(1.0 / (1.0 + reference_exp(scores * (1.0 / grid))), cap)
    parts, fits = _truncate_numpy_rows(rows.astype(np.float32), weights.astype(np.float32), float(int(cap * grid)))
    total: NDArray[np.int64] = np.where(fits, parts, 0.0).astype(np.int64).sum(axis=1)
    return total


@np.errstate(all="ignore")
def reference_tilt_classes(
    rows: NDArray[Any], theta: NDArray[np.float64], grid: int, unit: int, most: int
) -> NDArray[np.int64]:
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
    """The class weights of rows, whole numbers, shape (classes, rows); see `reference_tilt_classes`."""
    scores = np.zeros((len(theta), rows.shape[1]))
    for row, coefficients in zip(rows[:-1], theta.T, strict=True):
        scores += row.astype(np.float64) * coefficients[:, None]
    scores *= 1.0 / grid
    top = scores[0]
    for score in scores[1:]:
        top = np.where(score > top, score, top)
    powers = reference_exp(scores - top)
    total = np.zeros(rows.shape[1])
    for power in powers:
        total += power
    of_class = np.arange(1, len(theta) + 1)[:, None] == rows[-1]
    parts = of_class - powers / total
    lengths, reach = np.sqrt(_squared_row_norms(parts)), longest_class_weights(len(theta), unit, most)
    whole = np.rint(parts * np.where(lengths > reach, unit * (reach / lengths), float(unit)))
    return np.where((_squared_row_norms(whole) <= most) & of_class.any(axis=0), whole, 0.0)


def longest_class_weights(n_classes: int, unit: int, most: int) -> float:
    """How long class weights may be before they are rounded: rounding moves each by half at most."""
    return (math.sqrt(most) - math.sqrt(n_classes) / 2) / unit


def reference_products(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of the products of columns, and of the columns, of whole numbers up to 2**15 in magnitude."""
    total = np.zeros((len(rows), len(rows)), dtype=np.int64)
    for start in range(0, rows.shape[1], _EXACT_ROWS):
        part = rows[:, start : start + _EXACT_ROWS].astype(np.float64)
        total += (part @ part.T).astype(np.int64)
    return total, rows.sum(axis=1, dtype=np.int64)


def reference_exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _squared_row_norms(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The squared norm of each row, added up in the order of the columns."""
    total = np.zeros(columns.shape[1])
    for column in columns:
        total += column * column
    return total


def _truncate_numpy_rows(
    columns: NDArray[Any], factors: NDArray[np.float64], most: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rows times their factors, truncated towards zero, and which of them are at most `most` long, exactly.

    Squares of whole numbers add up exactly below 2**53, and never fall below it again. A row with NaN is too long.
    """
    whole = np.trunc(columns * factors).astype(np.float64)
    return whole, _squared_row_norms(whole) <= most * most


# ---- Exact sums of float64, one exponent at a time, in plain NumPy.

_LIMB_BITS, _LIMBS = 18, 3  # 3 limbs of 18 bits hold a 53-bit significand; their products add up in int64


def reference_exact_sums(x: NDArray[np.float64]) -> tuple[int, int]:
    """Sum of x in units of 2**-1074, sum of x**2 in units of 2**-2148."""
    fraction, exponent = np.frexp(x)
    significand = np.ldexp(fraction, 53).astype(np.int64)
    mask = (1 << _LIMB_BITS) - 1
    total, squares = 0, 0
    for e in np.unique(exponent).tolist():
        part = significand[exponent == e]
        limbs = [np.abs(part) >> (_LIMB_BITS * i) & mask for i in range(_LIMBS)]
        signs = np.sign(part)
        # frexp gives subnormal numbers exponents below the unit, with that many zero bits at the end
        shift = e - 53 - EXACT_UNIT
        total += _shift_exact_sum(
            sum(int((signs * limb).sum()) << (_LIMB_BITS * i) for i, limb in enumerate(limbs)), shift
        )
        products = [
            int((limbs[i] * limbs[j]).sum()) << (_LIMB_BITS * (i + j)) for i in range(_LIMBS) for j in range(_LIMBS)
        ]
        squares += _shift_exact_sum(sum(products), 2 * shift)
    return total, squares


def _shift_exact_sum(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else value >> -shift


# ---- Sparse rows in plain NumPy: statistics and sums over entries alone. The kernel must give the same integers.
#
# In every column all cells without an entry have the same integer, that of 0. So a rado's value is that integer
# times the sum of its labels, plus what its entries differ from that integer, times their labels.


class SparseSurvey:
    """Exact statistics of the clipped values of sparse rows; zeros are only counted."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        self._low, self._high, self._moments = low, high, moments
        self._sums = ExactSums(len(low))
        self._entries = np.zeros(len(low), dtype=np.int64)

    def add(self, rows: SparseRows) -> bool:
        """Take some rows; False if a value is not finite."""
        if not np.isfinite(rows.values).all():
            return False
        low, high = self._low[rows.places], self._high[rows.places]
        clipped = np.minimum(np.maximum(rows.values, low), high)
        np.minimum.at(self._sums.lowest, rows.places, clipped)
        np.maximum.at(self._sums.highest, rows.places, clipped)
        self._sums.n_rows += rows.n_rows
        self._entries += np.bincount(rows.places, minlength=len(self._low))
        if self._moments:
            self._add_moments(rows.places, clipped)
        return True

    def _add_moments(self, places: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order]
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        for first, last in itertools.pairwise([*firsts.tolist(), len(places)]):
            total, squares = reference_exact_sums(values[first:last])
            self._sums.sums[places[first]] += total
            self._sums.squares[places[first]] += squares

    def result(self) -> ExactSums:
        """The statistics of all rows, with their zeros, clipped as well."""
        sums = ExactSums(len(self._low), self._sums.n_rows)
        sums.sums, sums.squares = list(self._sums.sums), list(self._sums.squares)
        zero = np.minimum(np.maximum(0.0, self._low), self._high)
        zeros = self._sums.n_rows - self._entries
        sums.lowest = np.minimum(self._sums.lowest, np.where(zeros > 0, zero, np.inf))
        sums.highest = np.maximum(self._sums.highest, np.where(zeros > 0, zero, -np.inf))
        for k in np.flatnonzero((zero != 0) & (zeros > 0)).tolist() if self._moments else ():
            units = int(Fraction(float(zero[k])) * 2**-EXACT_UNIT)
            sums.sums[k] += int(zeros[k]) * units
            sums.squares[k] += int(zeros[k]) * units**2
        return sums


def reference_sum_sparse(
    rows: SparseRows,
    signs: NDArray[np.int8],
    constants: NDArray[np.float64],
    first_row: int,
    prepared: SignatureStream,
    differences: NDArray[np.int64],
    label_sums: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Add sparse rows to the rados whose signature has them; return how many values were clipped, by column.

    `differences`, shape (columns, rados), gets what entries differ from the integer of 0, times their row's sign, and
    `label_sums` the signs. `constants` are those of `grid_snapping_constants`.
    """
    entry_constants, zero = constants[rows.places], snap_to_grid(np.zeros(len(constants)), constants)
    numbers = snap_to_grid(rows.values, entry_constants).astype(np.int64) - zero[rows.places]
    for start in range(0, rows.n_rows, TILE_ROWS):
        taken = np.arange(start, min(start + TILE_ROWS, rows.n_rows))
        member = _rows_in_rados(first_row + taken, prepared, len(label_sums)) * signs[taken, None]
        label_sums += member.sum(axis=0)
        for row, signature in zip(taken.tolist(), member, strict=True):
            entries = slice(rows.starts[row], rows.starts[row + 1])
            differences[rows.places[entries]] += numbers[entries, None] * signature
    return count_sparse_values_beyond_bounds(rows, entry_constants, constants)


def _rows_in_rados(rows: NDArray[np.int64], prepared: SignatureStream, n_rados: int) -> NDArray[np.int64]:
    first, last = int(rows[0]) // TILE_ROWS, int(rows[-1]) // TILE_ROWS
    words = prepared.words(first, last - first + 1, np.empty((last - first + 1, n_rados), dtype=np.uint64))
    bits = words[rows // TILE_ROWS - first] >> (rows % TILE_ROWS).astype(np.uint64)[:, None]
    return (bits & np.uint64(1)).astype(np.int64)


def count_sparse_values_beyond_bounds(
    rows: SparseRows, entry_constants: NDArray[np.float64], constants: NDArray[np.float64]
) -> NDArray[np.int64]:
    """How many values lie beyond their bounds, by column, zeros among them; `entry_constants` has a row for each."""
    n_columns = len(constants)
    outside = (rows.values < entry_constants[:, 0]) | (rows.values > entry_constants[:, 1])
    clipped = np.bincount(rows.places[outside], minlength=n_columns).astype(np.int64)
    zeros = rows.n_rows - np.bincount(rows.places, minlength=n_columns)
    return clipped + np.where((constants[:, 0] > 0) | (constants[:, 1] < 0), zeros, 0)


class Survey:
    """Exact statistics, one exponent at a time."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        self._low, self._high, self._moments = low, high, moments
        self._sums = ExactSums(len(low))

    def add(self, values: NDArray[Any]) -> bool:
        if not np.isfinite(values).all():
            return False
        if not len(values):
            return True
        clipped = np.minimum(np.maximum(values.astype(np.float64), self._low), self._high)
        part = ExactSums(len(self._low), n_rows=len(values))
        part.lowest, part.highest = clipped.min(axis=0), clipped.max(axis=0)
        if self._moments:
            for k in range(clipped.shape[1]):
                part.sums[k], part.squares[k] = reference_exact_sums(clipped[:, k])
        self._sums = self._sums.merge(part)
        return True

    def result(self) -> ExactSums:
        return self._sums


class Reference:
    """The engine: every method is a few lines of NumPy."""

    def survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
        return Survey(low, high, moments)

    def snap(
        self, values: NDArray[Any], signs: NDArray[np.int8], columns: Sequence[Column]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        clipped = np.zeros(len(columns), dtype=np.int64)
        for k, column in enumerate(columns):
            if column.scale != "constant":
                low, high = column.constants[:2]
                x = values[:, k].astype(np.float64)
                clipped[k] = ((x < low) | (x > high)).sum()
        return grid_edge_vectors(values, signs, columns), clipped

    def totals(self, n_rados: int, n_columns: int) -> NDArray[np.int64]:
        return np.zeros((n_rados, n_columns), dtype=np.int64)

    def sum_rows(
        self, rows: NDArray[np.int32], first_row: int, prepared: SignatureStream, totals: NDArray[np.int64]
    ) -> None:
        row, end = first_row, first_row + len(rows)
        while row < end:
            tile, skip = divmod(row, TILE_ROWS)
            stop = min(end, (tile + 1) * TILE_ROWS)
            word = prepared.words(tile, 1, np.empty((1, len(totals)), dtype=np.uint64))
            bit = np.arange(skip, skip + stop - row, dtype=np.uint64)
            member = (word[0, :, None] >> bit & np.uint64(1)).astype(np.int64)
            totals += member @ rows[row - first_row : stop - first_row, : totals.shape[1]].astype(np.int64)
            row = stop

    def worker_bytes(self, n_rados: int, n_columns: int) -> int:
        """The totals, and a tile's membership as int64."""
        return 8 * n_rados * (n_columns + TILE_ROWS)

    def sparse_survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> SparseSurvey:
        return SparseSurvey(low, high, moments)

    sum_sparse = staticmethod(reference_sum_sparse)
    sphere, whiten = staticmethod(reference_sphere), staticmethod(reference_whiten)
    tilt, products = staticmethod(reference_tilt), staticmethod(reference_products)
    tilt_classes = staticmethod(reference_tilt_classes)
