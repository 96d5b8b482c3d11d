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

from radoboost.holder.engines import Words
from radoboost.holder.engines.vectors import (
    SCAN_COLUMNS,
    add_chosen,
    add_moments,
    float_bits,
    flush,
    scan_rows,
    scan_totals,
    set_sum,
    set_zero,
    snap_columns,
)
from radoboost.holder.grid import EXACT_UNIT, GRID_BITS, ExactSums
from radoboost.holder.keystream import TILE_ROWS
from radoboost.release.columns import Column

_FLUSH_TILES = 7  # 448 integers of at most 2**22 fit int32
_BLOCK_RADOS = 2048  # their int32 accumulators stay in the second-level cache
_WORD_BYTES = 1 << 21  # keystream made at a time
_DIGITS = {"float32": 3, "float64": 4}  # enough for columns whose values differ by factors of 2**35, and 2**28
_DIGIT_BITS, _FIRST_BITS = 21, 19
_HEADROOM = 3  # bits kept free above a column's largest value, so that a larger one seldom moves its unit
_EXPONENTS = 400  # columns with larger or smaller values go by the slow way
_SCAN_BYTES, _SCAN_ROWS = 1 << 17, (32, 1024)  # they stay in the cache; products of 2048 rows are below 2**53
_BINS, _BIN_EXPONENTS = 512, 4  # a bin of the slow way takes four neighbouring exponents
_FOLD_ROWS = 1 << 16  # squares there have 112 bits: this many fit a bin of 128 bits
_U = np.uint64

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def _values_type(kind: str) -> Any:
    return types.Array(getattr(types, kind), 2, "C", readonly=True)


# ---- the first pass


@njit(**_JIT)
def _first_column(block, width):  # type: ignore[no-untyped-def]
    """Blocks are 8 columns wide; the last one overlaps the one before, to end with the row."""
    return min(block * SCAN_COLUMNS, width - SCAN_COLUMNS)


def _in_blocks(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Constants of each column, shape (constants, columns), as blocks (blocks, constants, 8)."""
    width = max(rows.shape[1], SCAN_COLUMNS)
    padded = np.zeros((len(rows), width))
    padded[:, : rows.shape[1]] = rows
    first = [min(k, width - SCAN_COLUMNS) for k in range(0, width, SCAN_COLUMNS)]
    return np.array([padded[:, k : k + SCAN_COLUMNS] for k in first])


def _wide_enough(values: NDArray[Any]) -> NDArray[Any]:
    """Values with at least the 8 columns of a block."""
    if values.shape[1] >= SCAN_COLUMNS:
        return values
    padded = np.zeros((len(values), SCAN_COLUMNS), dtype=values.dtype)
    padded[:, : values.shape[1]] = values
    return padded


@functools.cache
def _scan(kind: str, digits: int) -> Callable[..., int]:
    """The survey of a block of rows, of float32 or float64, with so many digits or without sums."""
    narrow = int(kind == "float32")
    n_sums = scan_totals(digits) - 3

    @njit(
        types.int64(
            _values_type(kind),
            types.float64[:, :, ::1],
            types.float64[:, ::1],
            types.float64[:, ::1],
            types.int64[:, ::1],
            types.uint64[:, :, ::1],
        ),
        **_JIT,
    )
    def scan(values, limits, units, extremes, sums, bins):  # type: ignore[no-untyped-def]
        """Add rows to the sums; how many values went into bins, or -1 at a value that is not finite."""
        n_rows, n_features = values.shape[0], units.shape[1]
        address, stride = _U(values.ctypes.data), _U(values.strides[0])
        totals = np.empty((3 + n_sums, SCAN_COLUMNS))
        binned = 0
        scan_length = min(max(_SCAN_BYTES // values.strides[0], _SCAN_ROWS[0]), _SCAN_ROWS[1])
        for start in range(0, n_rows, scan_length):
            count = min(scan_length, n_rows - start)
            for block in range(limits.shape[0]):
                first = _first_column(block, values.shape[1])
                source = address + _U(start) * stride + _U(first * values.itemsize)
                limit = _U(limits[block].ctypes.data)
                scan_rows(source, stride, count, limit, _U(totals.ctypes.data), narrow, digits)
                # The last block may begin with columns that the one before has done.
                for column in range(block * SCAN_COLUMNS, min(first + SCAN_COLUMNS, n_features)):
                    k = column - first
                    low, high = limits[block, 0, k], limits[block, 1, k]
                    smallest, largest = totals[0, k], totals[1, k]
                    left_over = float_bits(totals[2, k]) << _U(1) != _U(0)  # but for the sign of a zero
                    if smallest == -np.inf or largest == np.inf or (left_over and digits == 0):
                        return -1
                    smallest, largest = min(max(smallest, low), high), min(max(largest, low), high)
                    extremes[0, column] = min(extremes[0, column], smallest)
                    extremes[1, column] = max(extremes[1, column], largest)
                    if digits == 0:
                        continue
                    most, unit = units[0, column], units[1, column]
                    if left_over or max(-smallest, largest) > most:
                        for i in range(start, start + count):
                            x = np.float64(values[i, column])
                            if not abs(x) < np.inf:
                                return -1
                            _add_to_bin(min(max(x, low), high), bins[column])
                        binned += count
                        continue
                    step = unit
                    for place in range(digits):
                        sums[column, place] += np.int64(totals[3 + place, k] * step)
                        step *= 2.0**_DIGIT_BITS
                    step = unit * unit
                    for place in range(2 * digits - 1):
                        sums[column, 4 + place] += np.int64(totals[3 + digits + place, k] * step)
                        step *= 2.0**_DIGIT_BITS
        return binned

    return scan  # type: ignore[no-any-return]


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


class Survey:
    """Exact statistics: sums of digits for most values, 128-bit sums by exponent for the rest."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        n_features = len(low)
        self._sums = ExactSums(n_features)
        self._moments = moments
        self._clip = low, high
        self._exponents = np.zeros(n_features, dtype=np.int64)
        self._digits = np.zeros((n_features, 11), dtype=np.int64)  # sums of 4 digits, and of 7 kinds of products
        self._bins = _aligned((n_features, _BINS if moments else 1, 4), np.uint64)
        self._unfolded = self._binned = 0

    def add(self, values: NDArray[Any]) -> bool:
        kind = values.dtype.name
        scan = _scan(kind, _DIGITS[kind] if self._moments else 0)
        extremes = np.array([self._sums.lowest, self._sums.highest])
        for first in range(0, len(values), _FOLD_ROWS):
            part = values[first : first + _FOLD_ROWS]
            if self._unfolded + len(part) > _FOLD_ROWS:
                self._fold()
            if self._sums.n_rows == 0:
                sample = np.minimum(np.maximum(part[:1024], self._clip[0]), self._clip[1])
                self._set_exponents(slice(None), np.abs(sample).max(axis=0))
            binned = scan(_wide_enough(part), self._limits, self._units, extremes, self._digits, self._bins)
            if binned < 0:
                return False
            self._binned += binned
            self._unfolded += len(part)
            self._sums.n_rows += len(part)
            self._sums.lowest, self._sums.highest = extremes
            largest = np.abs(extremes).max(axis=0)
            outgrown = np.frexp(largest)[1] > self._exponents
            if self._moments and outgrown.any():
                self._fold_digits(np.flatnonzero(outgrown))
                self._set_exponents(outgrown, largest[outgrown])
        return True

    def _set_exponents(self, where: Any, largest: NDArray[np.float64]) -> None:
        """Choose each column's units so that its values are well below 2**exponent; -1 sends all the slow way."""
        finite = np.where(np.isfinite(largest), largest, 0.0)
        self._exponents[where] = np.frexp(finite)[1] + _HEADROOM
        usable = np.abs(self._exponents) <= _EXPONENTS
        exponents = np.where(usable, self._exponents, 0)
        most = np.where(usable, np.ldexp(1.0, exponents), -1.0)
        self._units = np.array([most, np.ldexp(1.0, _FIRST_BITS - exponents)])
        below = _FIRST_BITS + _DIGIT_BITS * np.arange(max(_DIGITS.values()))
        self._limits = _in_blocks(np.vstack([*self._clip, np.ldexp(1.5, 52 + exponents - below[:, None])]))

    def _fold(self) -> None:
        """Move all sums into Python integers, which have no end."""
        self._unfolded = 0
        self._fold_digits(np.arange(len(self._digits) if self._moments else 0))
        if self._binned:
            self._fold_bins()

    def _fold_digits(self, columns: NDArray[np.intp]) -> None:
        for k in columns.tolist():
            sums, products = self._digits[k, :4].tolist(), self._digits[k, 4:].tolist()
            if not any(products):
                continue
            # The first digit counts units of 2**(exponent - 19), each further one has 21 bits more.
            shift = int(self._exponents[k]) - _FIRST_BITS - 3 * _DIGIT_BITS - EXACT_UNIT
            self._sums.sums[k] += sum(s << _DIGIT_BITS * (3 - i) for i, s in enumerate(sums)) << shift
            self._sums.squares[k] += sum(p << _DIGIT_BITS * (6 - i) for i, p in enumerate(products)) << 2 * shift
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
            self._bins[k, b] = 0  # and no others: memory that was never touched costs nothing

    def result(self) -> ExactSums:
        self._fold()
        return self._sums


# ---- the second pass


@functools.cache
def _snap(kind: str) -> Callable[..., None]:
    """Edge integers of a block of rows, of float32 or float64."""
    narrow = int(kind == "float32")

    @njit(
        types.void(_values_type(kind), types.int8[::1], types.float64[:, :, ::1], types.int32[:, ::1], types.int64),
        **_JIT,
    )
    def snap(values, labels, constants, edges, constant):  # type: ignore[no-untyped-def]
        """Values lie within their bounds; the constant feature, if any, is column `constant`."""
        for i in range(values.shape[0]):
            source, target = _U(values[i].ctypes.data), _U(edges[i].ctypes.data)
            label = np.float64(labels[i])
            for block in range(constants.shape[0]):
                first = _first_column(block, values.shape[1])
                snap_columns(
                    source + _U(first * values.itemsize),
                    target + _U(first * 4),
                    _U(constants[block].ctypes.data),
                    label,
                    narrow,
                )
            if constant >= 0:
                edges[i, constant] = np.int32(labels[i]) << GRID_BITS

    return snap  # type: ignore[no-any-return]


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
        self._low, self._high, *constants = np.array(rows).T
        self._bounded = np.flatnonzero(np.isfinite(self._low) | np.isfinite(self._high))
        self._constants = _in_blocks(np.array(constants))
        self._constant = len(features) if len(features) < len(columns) else -1
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
        if len(self._bounded):
            part, low, high = values[:, self._bounded], self._low[self._bounded], self._high[self._bounded]
            outside = (part < low) | (part > high)
            if outside.any():
                self.clipped[self._bounded] += outside.sum(axis=0)
                values = values.astype(np.float64)  # a bound need not be a float32
                values[:, self._bounded] = np.minimum(np.maximum(part, low), high)
        values = _wide_enough(values)
        _snap(values.dtype.name)(values, labels, self._constants, self._edges[skip:end], self._constant)

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
    """Totals, twice while they are put together, the keystream buffer, and the first pass's bins if all are used."""
    return 16 * n_rados * sum(_panel_lanes(n_features)) + max(_WORD_BYTES, 8 * n_rados) + 32 * _BINS * n_features
