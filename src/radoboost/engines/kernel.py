"""The fast engine: subset sums of a few rows are tabulated, and each rado picks table rows by the bits of its word.

With tables over 6 rows this is m * n * d / 6 additions instead of m * n * d multiply-adds, in 11 tables that
for 16 features fit into the first-level cache (tables over 8 rows do not, and ran no faster). Few rados do not
pay for large tables: below 256 the tables are over 4 rows. Neither choice can change a result.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.columns import Column
from radoboost.engines import Words
from radoboost.engines.vectors import (
    add_chosen,
    add_moments,
    float_bits,
    flush,
    set_sum,
    set_zero,
)
from radoboost.grid import EXACT_UNIT, GRID_BITS, ExactSums
from radoboost.keystream import TILE_ROWS

_FLUSH_TILES = 4  # 256 integers of at most 2**22 fit int32
_BLOCK_RADOS = 2048  # their int32 accumulators stay in the second-level cache
_WORD_BYTES = 1 << 21  # keystream made at a time
_DIGIT_BITS, _DIGITS = 21, 3
_HEADROOM = 3  # bits kept free above a column's largest value, so that a larger one seldom moves its unit
_LOWEST_EXPONENT, _HIGHEST_EXPONENT = -1000, 1023  # values beyond go by the slow way
_BINS, _BIN_EXPONENTS = 512, 4  # a bin of the slow way takes four neighbouring exponents
_FOLD_ROWS = 1 << 16  # squares there have 112 bits: this many fit a bin of 128 bits
_BUFFER_ROWS, _BUFFER_COLUMNS = 128, 16
_U = np.uint64

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


_VALUES = [types.Array(t, 2, "C", readonly=True) for t in (types.float32, types.float64)]


# ---- the first pass


@njit(**_JIT)
def _cut(x, unit, base):  # type: ignore[no-untyped-def]
    """Three digits of x * unit, all 0 where they do not hold it exactly, and whether they do."""
    scaled = x * unit
    first = np.rint(scaled)
    rest = (scaled - first) * base
    second = np.rint(rest)
    rest = (rest - second) * base
    third = np.rint(rest)
    # A product near the smallest numbers may have lost bits without leaving a rest.
    whole = (third == rest) & (abs(scaled) <= base) & ((abs(scaled) > 1e-270) | (x == 0.0))
    return (
        np.int64(np.int32(first if whole else 0.0)),
        np.int64(np.int32(second if whole else 0.0)),
        np.int64(np.int32(third if whole else 0.0)),
        whole,
    )


@njit(**_JIT)
def _transpose(values, first, buffer):  # type: ignore[no-untyped-def]
    """Copy some columns from `first` on: a row of them is one cache line."""
    width = min(_BUFFER_COLUMNS, values.shape[1] - first)
    for i in range(values.shape[0]):
        row = values[i][first:]
        for k in range(width):
            buffer[k, i] = row[k]


@njit(**_JIT)
def _add_to_bin(x, bins):  # type: ignore[no-untyped-def]
    bits = float_bits(x)
    exponent = (bits >> _U(52)) & _U(2047)
    significand = bits & _U((1 << 52) - 1)
    if exponent == _U(0):
        exponent = _U(1)
    else:
        significand |= _U(1 << 52)
    address = _U(bins.ctypes.data) + (exponent >> _U(2)) * _U(32)
    add_moments(address, significand, exponent & _U(3), bits >> _U(63))


@njit(
    [
        types.int64(
            values,
            *[types.float64[::1]] * 3,
            types.int64[:, ::1],
            types.int64[:, ::1],
            types.uint64[:, :, ::1],
            types.float64[:, ::1],
        )
        for values in _VALUES
    ],
    **_JIT,
)
def _survey(values, low, high, unit, extremes, digits, bins, buffer):  # type: ignore[no-untyped-def]
    """Add rows to the sums; how many values went into bins, or -1 at a value that is not finite.

    A value times its column's unit is cut into three digits of 21 bits; whatever has bits left over, or is too
    large, goes into the bin of its exponent. Only integers are summed, and loops over one column leave LLVM
    free to use vectors.
    """
    n_rows, n_features = values.shape
    patterns = buffer.view(np.int64)
    magnitude = np.int64(0x7FFFFFFFFFFFFFFF)
    base = float(1 << _DIGIT_BITS)
    moments = bins.shape[1] > 1
    binned = 0
    for start in range(0, n_rows, _BUFFER_ROWS):
        count = min(_BUFFER_ROWS, n_rows - start)
        for k in range(n_features):
            if k % _BUFFER_COLUMNS == 0:
                _transpose(values[start : start + count], k, buffer)
            column, pattern = buffer[k % _BUFFER_COLUMNS], patterns[k % _BUFFER_COLUMNS]
            least, most = low[k], high[k]
            wrong = 0
            for i in range(count):
                x = column[i]
                wrong += not abs(x) < np.inf
                x = most if x > most else x
                column[i] = least if x < least else x
            if wrong:
                return -1
            smallest, largest = magnitude, -magnitude
            for i in range(count):
                # Negative numbers have their patterns turned round, so that integers are ordered as the floats are.
                order = pattern[i] ^ ((pattern[i] >> 63) & magnitude)
                smallest, largest = min(smallest, order), max(largest, order)
            extremes[0, k] = min(extremes[0, k], smallest)
            extremes[1, k] = max(extremes[1, k], largest)
            if not moments:
                continue
            s0 = s1 = s2 = p00 = p01 = p02 = p11 = p12 = p22 = good = np.int64(0)
            for i in range(count):
                d0, d1, d2, whole = _cut(column[i], unit[k], base)
                s0 += d0
                s1 += d1
                s2 += d2
                p00 += d0 * d0
                p01 += d0 * d1
                p02 += d0 * d2
                p11 += d1 * d1
                p12 += d1 * d2
                p22 += d2 * d2
                good += np.int64(whole)
            for place, total in enumerate((s0, s1, s2, p00, p01, p02, p11, p12, p22)):
                digits[k, place] += total
            binned += count - good
            for i in range(count if good < count else 0):
                if not _cut(column[i], unit[k], base)[3]:
                    _add_to_bin(column[i], bins[k])
    return binned


class Survey:
    """Exact statistics: sums of digits for most values, 128-bit sums by exponent for the rest."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        self._low, self._high = low, high
        self._sums = ExactSums(len(low))
        self._moments = moments
        limit = np.iinfo(np.int64).max
        self._extremes = np.repeat([[limit], [-limit]], len(low), axis=1)
        self._exponents = np.zeros(len(low), dtype=np.int64)
        self._digits = np.zeros((len(low), 9), dtype=np.int64)
        self._bins = _aligned((len(low), _BINS if moments else 1, 4), np.uint64)
        # A few numbers more than rows: columns a whole number of pages apart would share cache sets.
        self._buffer = np.empty((_BUFFER_COLUMNS, _BUFFER_ROWS + 8))
        self._unfolded = self._binned = 0

    def add(self, values: NDArray[Any]) -> bool:
        for first in range(0, len(values), _FOLD_ROWS):
            part = values[first : first + _FOLD_ROWS]
            if self._unfolded + len(part) > _FOLD_ROWS:
                self._fold()
            if self._sums.n_rows == 0:
                sample = np.minimum(np.maximum(part[:1024], self._low), self._high)
                self._exponents = _exponents(np.abs(sample).max(axis=0))
            unit = np.ldexp(1.0, _DIGIT_BITS - 1 - self._exponents)
            binned = _survey(part, self._low, self._high, unit, self._extremes, self._digits, self._bins, self._buffer)
            if binned < 0:
                return False
            self._binned += binned
            self._unfolded += len(part)
            self._sums.n_rows += len(part)
            outgrown = np.abs(self._range()).max(axis=0) > np.ldexp(1.0, self._exponents)
            if self._moments and outgrown.any():
                self._fold_digits(np.flatnonzero(outgrown))
                self._exponents[outgrown] = _exponents(np.abs(self._range()).max(axis=0))[outgrown]
        return True

    def _range(self) -> NDArray[np.float64]:
        """Smallest and largest value of each column."""
        order = self._extremes
        pattern = order ^ ((order >> 63) & np.iinfo(np.int64).max)
        return np.asarray(pattern, dtype=np.int64).view(np.float64)

    def _fold(self) -> None:
        """Move all sums into Python integers, which have no end."""
        self._unfolded = 0
        self._fold_digits(np.arange(len(self._digits) if self._moments else 0))
        if self._binned:
            self._fold_bins()

    def _fold_digits(self, columns: NDArray[np.intp]) -> None:
        sums, squares = self._sums.sums, self._sums.squares
        for k in columns.tolist():
            s0, s1, s2, p00, p01, p02, p11, p12, p22 = self._digits[k].tolist()
            # The last digit counts units of 2**(exponent - 62).
            shift = int(self._exponents[k]) - (_DIGITS * _DIGIT_BITS - 1) - EXACT_UNIT
            b = _DIGIT_BITS
            sums[k] += ((s0 << 2 * b) + (s1 << b) + s2) << shift
            middle = 2 * p02 + p11
            square = (p00 << 4 * b) + (2 * p01 << 3 * b) + (middle << 2 * b) + (2 * p12 << b) + p22
            squares[k] += square << 2 * shift
        self._digits[columns] = 0

    def _fold_bins(self) -> None:
        self._binned = 0
        for k, b in np.argwhere(self._bins.any(axis=2)).tolist():
            low, high, square_low, square_high = self._bins[k, b].tolist()
            total = high << 64 | low
            total -= (total >> 127) << 128
            # A significand with exponent field e counts units of 2**(e - 1075), and e is at least 1.
            scale = 1 << _BIN_EXPONENTS * b
            self._sums.sums[k] += total * scale >> 1
            self._sums.squares[k] += (square_high << 64 | square_low) * scale**2 >> 2
        self._bins[:] = 0

    def result(self) -> ExactSums:
        self._fold()
        if self._sums.n_rows:
            self._sums.lowest, self._sums.highest = self._range()
        return self._sums


def _exponents(largest: NDArray[np.float64]) -> NDArray[np.int64]:
    """e with |x| far below 2**e, for the largest |x| of each column."""
    finite = np.where(np.isfinite(largest), largest, 0.0)
    return np.clip(np.frexp(finite)[1].astype(np.int64) + _HEADROOM, _LOWEST_EXPONENT, _HIGHEST_EXPONENT)


# ---- the second pass


@njit(
    [types.void(values, types.int8[::1], types.float64[:, ::1], types.int32[:, ::1]) for values in _VALUES],
    **_JIT,
)
def _snap(values, labels, constants, edges):  # type: ignore[no-untyped-def]
    """Edge integers of values that lie within their bounds."""
    shift, factor, divisor, offset, inverse = constants[2:]
    n_features = constants.shape[1]
    for i in range(values.shape[0]):
        label = np.int32(labels[i])
        # Rows as arrays of their own: an index that numba knows to be positive can be a vector's.
        row, target = values[i], edges[i]
        for k in range(n_features):
            value = ((np.float64(row[k]) - shift[k]) * factor[k]) / divisor[k] - offset[k]
            target[k] = np.int32(np.rint(value * inverse[k])) * label


@functools.cache
def _sum_tiles(lanes: int, bits: int) -> Callable[..., None]:
    """The summation kernel for vectors of `lanes` features and tables over `bits` rows."""
    groups = -(-TILE_ROWS // bits)

    @njit(
        types.void(
            types.int32[:, ::1],
            types.int64,
            types.uint64[:, ::1],
            types.int32[::1],
            types.int32[::1],
            types.int64[:, ::1],
        ),
        **_JIT,
    )
    def kernel(edges, first_column, words, table, narrow, wide):  # type: ignore[no-untyped-def]
        n_tiles, n_rados = words.shape
        row, edge_row = _U(4 * lanes), _U(4 * edges.shape[1])
        edge, entry = _U(edges.ctypes.data) + _U(4 * first_column), _U(table.ctypes.data)
        small, large = _U(narrow.ctypes.data), _U(wide.ctypes.data)
        for start in range(0, n_rados, _BLOCK_RADOS):
            stop = min(n_rados, start + _BLOCK_RADOS)
            for tile in range(n_tiles):
                for group in range(groups):
                    first = entry + _U(group << bits) * row
                    set_zero(first, lanes)
                    for r in range(min(bits, TILE_ROWS - group * bits)):
                        added = edge + _U(tile * TILE_ROWS + group * bits + r) * edge_row
                        half = _U(1 << r) * row
                        for i in range(1 << r):
                            there = first + _U(i) * row
                            set_sum(there + half, there, added, lanes)
                for j in range(start, stop):
                    add_chosen(small + _U(j - start) * row, entry, words[tile, j], lanes, bits)
                if tile % _FLUSH_TILES == _FLUSH_TILES - 1 or tile == n_tiles - 1:
                    for j in range(start, stop):
                        flush(large + _U(2 * j) * row, small + _U(j - start) * row, lanes)

    return kernel  # type: ignore[no-any-return]


class Summation:
    """Rados by table lookup, in panels of 32, 16 or 8 features."""

    def __init__(self, columns: Sequence[Column], n_rados: int, words: Words) -> None:
        self._words = words
        self._n_features = len(columns)
        features = [column for column in columns if column.scale != "constant"]
        # The step is a power of two: multiplying by its inverse is dividing by it.
        rows = [(*column.constants, 1.0 / column.step) for column in features]
        self._constants = np.ascontiguousarray(np.array(rows).T)
        self._bounded = bool(np.isfinite(self._constants[:2]).any())
        self.clipped = np.zeros(len(columns), dtype=np.int64)

        lanes = _panel_lanes(len(columns))
        bits = _table_bits(n_rados)
        self._panels = [
            (first, _sum_tiles(width, bits), _aligned((n_rados, width), np.int64))
            for first, width in zip(np.cumsum([0, *lanes]).tolist(), lanes, strict=False)
        ]
        self._table = _aligned(((-(-TILE_ROWS // bits) << bits) * max(lanes),), np.int32)
        self._narrow = _aligned((min(n_rados, _BLOCK_RADOS) * max(lanes),), np.int32)
        # Rows start on a cache line, as the vectors of all panels need.
        self._edges = _aligned((0, -(-sum(lanes) // 16) * 16), np.int32)
        self._word_tiles = max(1, _WORD_BYTES // (8 * n_rados))
        self._buffer = np.empty((self._word_tiles, n_rados), dtype=np.uint64)

    def add(self, first_row: int, values: NDArray[Any], labels: NDArray[np.int8]) -> None:
        first_tile, skip = divmod(first_row, TILE_ROWS)
        n_tiles = -(-(skip + len(values)) // TILE_ROWS)
        self._fill_edges(values, labels, skip, n_tiles * TILE_ROWS)
        for tile in range(0, n_tiles, self._word_tiles):
            count = min(self._word_tiles, n_tiles - tile)
            words = self._words(first_tile + tile, count, self._buffer[:count])
            edges = self._edges[tile * TILE_ROWS : (tile + count) * TILE_ROWS]
            for first, sum_tiles, totals in self._panels:
                sum_tiles(edges, first, words, self._table, self._narrow, totals)

    def _fill_edges(self, values: NDArray[Any], labels: NDArray[np.int8], skip: int, n_rows: int) -> None:
        """Edge integers of whole tiles; rows that are not in the block are zero, and so in no sum."""
        if len(self._edges) < n_rows:
            self._edges = _aligned((n_rows, self._edges.shape[1]), np.int32)
        end = skip + len(values)
        self._edges[:skip] = 0
        self._edges[end:n_rows] = 0
        n_values = self._constants.shape[1]
        if self._bounded:
            low, high = self._constants[:2]
            self.clipped[:n_values] += ((values < low) | (values > high)).sum(axis=0)
            values = np.minimum(np.maximum(values, low), high)
        _snap(values, labels, self._constants, self._edges[skip:end])
        if n_values < self._n_features:
            self._edges[skip:end, n_values] = labels.astype(np.int32) << GRID_BITS

    def result(self) -> NDArray[np.int64]:
        return np.hstack([totals for _, _, totals in self._panels])[:, : self._n_features]


def _table_bits(n_rados: int) -> int:
    """Over how many rows a table pays."""
    return 4 if n_rados < 256 else 6


def _panel_lanes(n_features: int) -> list[int]:
    """Panels of 32 features, the last one as narrow as the rest allows."""
    whole, rest = divmod(n_features, 32)
    return [32] * whole + [lanes for lanes in (8, 16, 32) if rest <= lanes][: rest > 0]


def _aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that start on a page, as the vector loads need."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 4096, dtype=np.uint8)
    start = -raw.ctypes.data % 4096
    aligned: NDArray[Any] = raw[start : start + size].view(dtype).reshape(shape)
    return aligned


def survey(low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
    return Survey(low, high, moments)


def summation(columns: Sequence[Column], n_rados: int, words: Words) -> Summation:
    return Summation(columns, n_rados, words)


def worker_bytes(n_rados: int, n_features: int) -> int:
    """Totals, twice while they are put together, and the keystream buffer."""
    return 16 * n_rados * sum(_panel_lanes(n_features)) + max(_WORD_BYTES, 8 * n_rados)
