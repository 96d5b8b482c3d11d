"""The fast engine: subset sums of a few rows are tabulated, and each rado picks table rows by the bits of its word.

With tables over 6 rows this is m * n * d / 6 additions instead of m * n * d multiply-adds, in 11 tables that
for 16 features fit into the first-level cache (tables over 8 rows do not, and ran no faster). Few rados do not
pay for large tables: below 256 the tables are over 4 rows. Neither choice can change a result.
"""

import functools
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.holder.engines import cpu_blas, cpu_rows, cpu_sparse
from radoboost.holder.engines.cpu_sparse import BINS, FOLD_ROWS, add_to_exact_sum_bin, exact_sums_of_bin
from radoboost.holder.engines.simd import (
    SCAN_COLUMNS,
    float_bits,
    simd_add_subset_sums,
    simd_flush,
    simd_scan_rows,
    simd_scan_totals,
    simd_set_sum,
    simd_set_zero,
    simd_snap_columns,
)
from radoboost.holder.grid import EXACT_UNIT, GRID_BITS, ExactSums
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.signatures import SignatureStream
from radoboost.release.columns import Column

_FLUSH_TILES = 7  # 448 integers of at most 2**22 fit int32
_BLOCK_RADOS = 2048  # their int32 accumulators stay in the second-level cache
_WORD_BYTES = 1 << 21  # keystream made at a time
_DIGITS = {"float32": 3, "float64": 4}  # enough for columns whose values differ by factors of 2**35, and 2**28
_DIGIT_BITS, _FIRST_BITS = 21, 19
_HEADROOM = 3  # bits kept free above a column's largest value, so that a larger one seldom moves its unit
_EXPONENTS = 400  # columns with larger or smaller values go the slow way
_SCAN_BYTES, _SCAN_ROWS = 1 << 17, (32, 1024)  # they stay in the cache; products of 2048 rows are below 2**53
_U = np.uint64

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def _numba_values_type(kind: str) -> Any:
    return types.Array(getattr(types, kind), 2, "C", readonly=True)


# ---- the first pass


@njit(**_JIT)
def _first_column_of_block(block, width):  # type: ignore[no-untyped-def]
    """Blocks are 8 columns wide; the last one overlaps the one before, to end with the row."""
    return min(block * SCAN_COLUMNS, width - SCAN_COLUMNS)


def _constants_in_blocks(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Constants of each column, shape (constants, columns), as blocks (blocks, constants, 8)."""
    width = max(rows.shape[1], SCAN_COLUMNS)
    padded = np.zeros((len(rows), width))
    padded[:, : rows.shape[1]] = rows
    first = [min(k, width - SCAN_COLUMNS) for k in range(0, width, SCAN_COLUMNS)]
    return np.array([padded[:, k : k + SCAN_COLUMNS] for k in first])


def _pad_to_block_width(values: NDArray[Any]) -> NDArray[Any]:
    """Values with at least the 8 columns of a block."""
    if values.shape[1] >= SCAN_COLUMNS:
        return values
    padded = np.zeros((len(values), SCAN_COLUMNS), dtype=values.dtype)
    padded[:, : values.shape[1]] = values
    return padded


@functools.cache
def _compile_survey_kernel(kind: str, digits: int) -> Callable[..., int]:
    """The survey of a block of rows, of float32 or float64, with so many digits or without sums."""
    narrow = int(kind == "float32")
    n_sums = simd_scan_totals(digits) - 3

    @njit(
        types.int64(
            _numba_values_type(kind),
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
                first = _first_column_of_block(block, values.shape[1])
                source = address + _U(start) * stride + _U(first * values.itemsize)
                limit = _U(limits[block].ctypes.data)
                simd_scan_rows(source, stride, count, limit, _U(totals.ctypes.data), narrow, digits)
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
                            add_to_exact_sum_bin(min(max(x, low), high), bins[column])
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


class Survey:
    """Exact statistics: sums of digits for most values, 128-bit sums by exponent for the rest."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        n_features = len(low)
        self._sums = ExactSums(n_features)
        self._moments = moments
        self._clip = low, high
        self._exponents = np.zeros(n_features, dtype=np.int64)
        self._digits = np.zeros((n_features, 11), dtype=np.int64)  # sums of 4 digits, and of 7 kinds of products
        self._bins = _page_aligned_array((n_features, BINS if moments else 1, 4), np.uint64)
        self._unfolded = self._binned = 0

    def add(self, values: NDArray[Any]) -> bool:
        kind = values.dtype.name
        scan = _compile_survey_kernel(kind, _DIGITS[kind] if self._moments else 0)
        extremes = np.array([self._sums.lowest, self._sums.highest])
        for first in range(0, len(values), FOLD_ROWS):
            part = values[first : first + FOLD_ROWS]
            if self._unfolded + len(part) > FOLD_ROWS:
                self._fold()
            if self._sums.n_rows == 0:
                sample = np.minimum(np.maximum(part[:1024], self._clip[0]), self._clip[1])
                self._set_exponents(slice(None), np.abs(sample).max(axis=0))
            binned = scan(_pad_to_block_width(part), self._limits, self._units, extremes, self._digits, self._bins)
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
        self._limits = _constants_in_blocks(np.vstack([*self._clip, np.ldexp(1.5, 52 + exponents - below[:, None])]))

    def _fold(self) -> None:
        """Move all sums into Python integers, which cannot overflow."""
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
            total, squares = exact_sums_of_bin(b, self._bins[k, b].tolist())
            self._sums.sums[k] += total
            self._sums.squares[k] += squares
            self._bins[k, b] = 0  # and no others: memory that was never touched costs nothing

    def result(self) -> ExactSums:
        self._fold()
        return self._sums


# ---- the second pass


@functools.cache
def _compile_snap_kernel(kind: str) -> Callable[..., None]:
    """Edge integers of a block of rows, of float32 or float64."""
    narrow = int(kind == "float32")

    @njit(
        types.void(
            _numba_values_type(kind), types.int8[::1], types.float64[:, :, ::1], types.int32[:, ::1], types.int64
        ),
        **_JIT,
    )
    def snap(values, labels, constants, edges, constant):  # type: ignore[no-untyped-def]
        """Values lie within their bounds; the constant feature, if any, is column `constant`."""
        for i in range(values.shape[0]):
            source, target = _U(values[i].ctypes.data), _U(edges[i].ctypes.data)
            label = np.float64(labels[i])
            for block in range(constants.shape[0]):
                first = _first_column_of_block(block, values.shape[1])
                simd_snap_columns(
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
def _compile_sum_kernel(lanes: int, bits: int) -> Callable[..., None]:
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
        row, edge_row, wide_row = _U(4 * lanes), _U(4 * edges.shape[1]), _U(8 * wide.shape[1])
        edge, entry = _U(edges.ctypes.data) + _U(4 * first_column), _U(table.ctypes.data)
        small, large = _U(narrow.ctypes.data), _U(wide.ctypes.data) + _U(8 * first_column)
        for start in range(0, n_rados, _BLOCK_RADOS):
            stop = min(n_rados, start + _BLOCK_RADOS)
            for tile in range(n_tiles):
                for group in range(groups):
                    first = entry + _U(group << bits) * row
                    simd_set_zero(first, lanes)
                    for r in range(min(bits, TILE_ROWS - group * bits)):
                        added = edge + _U(tile * TILE_ROWS + group * bits + r) * edge_row
                        half = _U(1 << r) * row
                        for i in range(1 << r):
                            there = first + _U(i) * row
                            simd_set_sum(there + half, there, added, lanes)
                for j in range(start, stop):
                    simd_add_subset_sums(small + _U(j - start) * row, entry, words[tile, j], lanes, bits)
                if tile % _FLUSH_TILES == _FLUSH_TILES - 1 or tile == n_tiles - 1:
                    for j in range(start, stop):
                        simd_flush(large + _U(j) * wide_row, small + _U(j - start) * row, lanes)

    return kernel  # type: ignore[no-any-return]


def _snap_kernel_constants(columns: Sequence[Column]) -> tuple[Any, ...]:
    """Bounds, which columns have any, the constants of the one formula in blocks, and the constant feature's place."""
    features = [column for column in columns if column.scale != "constant"]
    # The step is a power of two: multiplying by its inverse is dividing by it.
    low, high, *constants = np.array([(*column.constants, 1.0 / column.step) for column in features]).T
    bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    return (
        low,
        high,
        bounded,
        _constants_in_blocks(np.array(constants)),
        len(features) if len(features) < len(columns) else -1,
    )


class _Scratch(threading.local):
    """What a thread needs while it snaps and sums, kept from one block of rows to the next."""

    shape: tuple[int, int] | None = None
    columns: Sequence[Column] | None = None
    snapping: tuple[Any, ...] = ()

    def constants(self, columns: Sequence[Column]) -> tuple[Any, ...]:
        """Those of `_snap_kernel_constants`, kept because a pass asks for the same columns again and again."""
        if self.columns is not columns:
            self.columns, self.snapping = columns, _snap_kernel_constants(columns)
        return self.snapping

    def prepare(self, n_rados: int, lanes: tuple[int, ...]) -> None:
        if self.shape == (n_rados, max(lanes)):
            return
        bits = _bits_of_subset_sum_table(n_rados)
        self.table = _page_aligned_array(((-(-TILE_ROWS // bits) << bits) * max(lanes),), np.int32)
        self.narrow = _page_aligned_array((min(n_rados, _BLOCK_RADOS) * max(lanes),), np.int32)  # zero between blocks
        self.words = np.empty((max(1, _WORD_BYTES // (8 * n_rados)), n_rados), dtype=np.uint64)
        self.shape = n_rados, max(lanes)


_scratch = _Scratch()


class Kernel:
    """The engine: rados by table lookup, in panels of 32, 16 or 8 features."""

    def survey(self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
        return Survey(low, high, moments)

    def snap(
        self, values: NDArray[Any], signs: NDArray[np.int8], columns: Sequence[Column]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        low, high, bounded, constants, constant = _scratch.constants(columns)
        clipped = np.zeros(len(columns), dtype=np.int64)
        if len(bounded):
            part = values[:, bounded]
            outside = (part < low[bounded]) | (part > high[bounded])
            if outside.any():
                clipped[bounded] = outside.sum(axis=0)
                values = values.astype(np.float64)  # a bound need not be a float32
                values[:, bounded] = np.minimum(np.maximum(part, low[bounded]), high[bounded])
        values = _pad_to_block_width(values)
        rows = _page_aligned_array((len(values), _aligned_row_width(len(columns))), np.int32, zeros=False)
        _compile_snap_kernel(values.dtype.name)(values, signs, constants, rows, constant)
        return rows, clipped

    def totals(self, n_rados: int, n_columns: int) -> NDArray[np.int64]:
        return _page_aligned_array((n_rados, sum(_lanes_of_panels(n_columns))), np.int64)[:, :n_columns]

    def sum_rows(
        self, rows: NDArray[np.int32], first_row: int, prepared: SignatureStream, totals: NDArray[np.int64]
    ) -> None:
        """Whole tiles are summed where they lie; the rest goes through a tile in which other rows are zero."""
        whole = _padded_totals(totals)
        if whole is None:  # made elsewhere: sums of another engine, or merged ones
            fresh = self.totals(*totals.shape)
            self.sum_rows(rows, first_row, prepared, fresh)
            totals += fresh
            return
        width = _aligned_row_width(totals.shape[1])
        if rows.shape[1] != width or not rows.flags.c_contiguous or rows.ctypes.data % 64:
            padded = _page_aligned_array((len(rows), width), np.int32)
            padded[:, : rows.shape[1]] = rows
            rows = padded
        done = 0
        while done < len(rows):
            tile, skip = divmod(first_row + done, TILE_ROWS)
            count = (len(rows) - done) // TILE_ROWS * TILE_ROWS
            if skip or not count:
                count = min(TILE_ROWS - skip, len(rows) - done)
                part = _page_aligned_array((TILE_ROWS, width), np.int32)
                part[skip : skip + count] = rows[done : done + count]
            else:
                part = rows[done : done + count]
            self._sum_tiles(part, tile, prepared, whole)
            done += count

    def _sum_tiles(
        self, edges: NDArray[np.int32], first_tile: int, prepared: SignatureStream, totals: NDArray[np.int64]
    ) -> None:
        n_rados, lanes = len(totals), _lanes_of_panels(totals.shape[1])
        _scratch.prepare(n_rados, lanes)
        panels = [
            (first, _compile_sum_kernel(width, _bits_of_subset_sum_table(n_rados)))
            for first, width in zip(itertools.accumulate((0, *lanes)), lanes, strict=False)
        ]
        n_tiles = len(edges) // TILE_ROWS
        for tile in range(0, n_tiles, len(_scratch.words)):
            count = min(len(_scratch.words), n_tiles - tile)
            words = prepared.words(first_tile + tile, count, _scratch.words[:count])
            block = edges[tile * TILE_ROWS : (tile + count) * TILE_ROWS]
            for first, sum_tiles in panels:
                sum_tiles(block, first, words, _scratch.table, _scratch.narrow, totals)

    def worker_bytes(self, n_rados: int, n_columns: int) -> int:
        """Totals, twice while they are put together, the keystream buffer, and the survey's bins if all are used."""
        return 16 * n_rados * sum(_lanes_of_panels(n_columns)) + max(_WORD_BYTES, 8 * n_rados) + 32 * BINS * n_columns

    def sparse_survey(
        self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool
    ) -> cpu_sparse.SparseSurvey:
        return cpu_sparse.SparseSurvey(low, high, moments)

    sum_sparse = staticmethod(cpu_sparse.compiled_sum_sparse)
    sphere, whiten = staticmethod(cpu_rows.compiled_sphere_rows), staticmethod(cpu_blas.blas_whiten)
    tilt, products = staticmethod(cpu_rows.compiled_tilt_rows), staticmethod(cpu_blas.blas_products)
    tilt_classes = staticmethod(cpu_rows.compiled_tilt_class_rows)


def _bits_of_subset_sum_table(n_rados: int) -> int:
    """Over how many rows a table pays."""
    return 4 if n_rados < 256 else 6


@functools.cache
def _lanes_of_panels(n_columns: int) -> tuple[int, ...]:
    """Panels of 32 columns, the last one as narrow as the rest allows; what they add up to has the same panels."""
    whole, rest = divmod(n_columns, 32)
    return (32,) * whole + tuple(lanes for lanes in (8, 16, 32) if rest <= lanes)[: rest > 0]


def _padded_totals(totals: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The padded array whose first columns are `totals`; None if `totals` was not made by `_page_aligned_array`."""
    shape, base = (len(totals), sum(_lanes_of_panels(totals.shape[1]))), totals.base
    if base is None or base.dtype != np.uint8 or base.nbytes != 8 * math.prod(shape) + 4096:
        return None
    start = totals.ctypes.data - base.ctypes.data
    return np.ndarray(shape, np.int64, base, start) if start == -base.ctypes.data % 4096 else None


@functools.cache
def _aligned_row_width(n_columns: int) -> int:
    """Rows start on a cache line, as the vectors of all panels need."""
    return -(-sum(_lanes_of_panels(n_columns)) // 16) * 16


def _page_aligned_array(shape: tuple[int, ...], dtype: Any, *, zeros: bool = True) -> NDArray[Any]:
    """An array that starts on a page, as the vector loads need; zeros, or whatever is there."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = (np.zeros if zeros else np.empty)(size + 4096, dtype=np.uint8)
    start = -raw.ctypes.data % 4096
    aligned: NDArray[Any] = raw[start : start + size].view(dtype).reshape(shape)
    return aligned
