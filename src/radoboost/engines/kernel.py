"""The fast engine: subset sums of a few rows are tabulated once, and each rado picks one table row by a few bits of its word.

With tables over 6 rows this is m * n * d / 6 additions instead of m * n * d multiply-adds, in 11 tables that for 16 features
fit into the first-level cache (tables over 8 rows do not, and ran no faster). Few rados do not pay for large tables: below
256 the tables are over 4 rows. Neither choice can change a result.
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
    flush,
    float_bits,
    set_sum,
    set_zero,
)
from radoboost.grid import GRID_BITS, ExactSums
from radoboost.keystream import TILE_ROWS

_FLUSH_TILES = 4  # 256 integers of at most 2**22 fit int32
_BLOCK_RADOS = 2048  # their int32 accumulators stay in the second-level cache
_WORD_BYTES = 1 << 21  # keystream made at a time
_BINS, _BIN_EXPONENTS = 512, 4  # a bin of the exact statistics takes four neighbouring exponents
_FOLD_ROWS = 1 << 15  # squares have 112 bits: 2**16 of them fit a bin of 128 bits
_U = np.uint64

_JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def _values_types() -> list[Any]:
    return [types.Array(t, 2, "A", readonly=True) for t in (types.float32, types.float64)]


# ---- the first pass


@njit(
    [types.boolean(v, *[types.float64[::1]] * 4, types.uint64[:, :, ::1]) for v in _values_types()],
    **_JIT,
)
def _survey(values, low, high, lowest, highest, bins):  # type: ignore[no-untyped-def]
    """Add rows to the bins of their exponents; False at a value that is not finite."""
    base = _U(bins.ctypes.data)
    column_bytes = _U(bins.shape[1] * 32)
    moments = bins.shape[1] > 1
    fine = True
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            raw = np.float64(values[i, k])
            fine &= abs(raw) < np.inf
            x = min(max(raw, low[k]), high[k])
            lowest[k] = min(lowest[k], x)
            highest[k] = max(highest[k], x)
            if moments:
                pattern = float_bits(x)
                exponent = (pattern >> _U(52)) & _U(2047)
                significand = pattern & _U((1 << 52) - 1)
                if exponent == _U(0):
                    exponent = _U(1)
                else:
                    significand |= _U(1 << 52)
                address = base + _U(k) * column_bytes + (exponent >> _U(2)) * _U(32)
                add_moments(address, significand, exponent & _U(3), pattern >> _U(63))
    return fine


class Survey:
    """Exact statistics by 128-bit sums, a pair for every four exponents of every feature."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], moments: bool) -> None:
        self._low, self._high = low, high
        self._sums = ExactSums(len(low))
        self._bins = _aligned((len(low), _BINS if moments else 1, 4), np.uint64)
        self._unfolded = 0

    def add(self, values: NDArray[Any]) -> bool:
        for first in range(0, len(values), _FOLD_ROWS):
            part = values[first : first + _FOLD_ROWS]
            if self._unfolded + len(part) > 2 * _FOLD_ROWS:
                self._fold()
            self._unfolded += len(part)
            sums = self._sums
            if not _survey(part, self._low, self._high, sums.lowest, sums.highest, self._bins):
                return False
            sums.n_rows += len(part)
        return True

    def _fold(self) -> None:
        """Move the bins into Python integers, which have no end."""
        for k, b in np.argwhere(self._bins.any(axis=2)).tolist():
            low, high, square_low, square_high = self._bins[k, b].tolist()
            total = high << 64 | low
            total -= (total >> 127) << 128
            # A significand of 53 bits with exponent field e counts units of 2**(e - 1075).
            shift = _BIN_EXPONENTS * b - 1
            self._sums.sums[k] += (total << shift) if shift >= 0 else total >> 1
            square = square_high << 64 | square_low
            self._sums.squares[k] += (square << 2 * shift) if shift >= 0 else square >> 2
        self._bins[:] = 0
        self._unfolded = 0

    def result(self) -> ExactSums:
        self._fold()
        return self._sums


# ---- the second pass


@njit(
    [
        types.void(
            v, types.int8[::1], types.float64[:, ::1], types.int32[:, ::1], types.int64, types.int64[::1]
        )
        for v in _values_types()
    ],
    **_JIT,
)
def _snap(values, labels, constants, edges, skip, clipped):  # type: ignore[no-untyped-def]
    """Edge integers of a panel of columns, into the rows of `edges` from `skip` on."""
    for i in range(values.shape[0]):
        label = np.float64(labels[i])
        for k in range(values.shape[1]):
            x = np.float64(values[i, k])
            low, high = constants[0, k], constants[1, k]
            clipped[k] += (x < low) | (x > high)
            x = min(max(x, low), high)
            value = ((x - constants[2, k]) * constants[3, k]) / constants[4, k] - constants[5, k]
            edges[skip + i, k] = np.int32(np.rint(value * constants[6, k]) * label)


@functools.cache
def _sum_tiles(lanes: int, bits: int) -> Callable[..., None]:
    """The summation kernel for vectors of `lanes` features and tables over `bits` rows."""
    groups = -(-TILE_ROWS // bits)

    @njit(
        types.void(
            types.int32[:, ::1],
            types.uint64[:, ::1],
            types.int32[:, ::1],
            types.int32[:, ::1],
            types.int64[:, ::1],
        ),
        **_JIT,
    )
    def kernel(edges, words, table, narrow, wide):  # type: ignore[no-untyped-def]
        n_tiles, n_rados = words.shape
        row = _U(4 * lanes)
        edge, entry = _U(edges.ctypes.data), _U(table.ctypes.data)
        small, large = _U(narrow.ctypes.data), _U(wide.ctypes.data)
        for start in range(0, n_rados, _BLOCK_RADOS):
            stop = min(n_rados, start + _BLOCK_RADOS)
            for tile in range(n_tiles):
                for group in range(groups):
                    first = entry + _U(group << bits) * row
                    set_zero(first, lanes)
                    for r in range(min(bits, TILE_ROWS - group * bits)):
                        added = edge + _U(tile * TILE_ROWS + group * bits + r) * row
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


class _Panel:
    """Up to 32 columns that are summed together."""

    def __init__(self, columns: Sequence[Column], first: int, lanes: int, n_rados: int) -> None:
        self.first, self.lanes = first, lanes
        used = columns[first : first + lanes]
        self.features = sum(column.scale != "constant" for column in used)
        self.constant = self.features < len(used)
        # The step is a power of two: multiplying by its inverse is dividing by it.
        rows = [(*column.constants, 1.0 / column.step) for column in used]
        self.constants = np.ascontiguousarray(np.array(rows).T[:, : self.features])
        self.clipped = np.zeros(len(used), dtype=np.int64)
        self.totals = _aligned((n_rados, lanes), np.int64)
        bits = 4 if n_rados < 256 else 6
        self.table = _aligned((-(-TILE_ROWS // bits) << bits, lanes), np.int32)
        self.narrow = _aligned((min(n_rados, _BLOCK_RADOS), lanes), np.int32)
        self.edges = _aligned((0, lanes), np.int32)
        self.sum_tiles = _sum_tiles(lanes, bits)

    def snap(self, values: NDArray[Any], labels: NDArray[np.int8], skip: int, n_tiles: int) -> None:
        """Fill `edges` with whole tiles; rows that are not in the block are zero, and so in no sum."""
        rows = n_tiles * TILE_ROWS
        if len(self.edges) < rows:
            self.edges = _aligned((rows, self.lanes), np.int32)
        end = skip + len(values)
        self.edges[:skip] = 0
        self.edges[end:rows] = 0
        part = values[:, self.first : self.first + self.features]
        _snap(part, labels, self.constants, self.edges, skip, self.clipped)
        if self.constant:
            self.edges[skip:end, self.features] = labels.astype(np.int32) << GRID_BITS


class Summation:
    """Rados by table lookup, in panels of 32, 16 or 8 features."""

    def __init__(self, columns: Sequence[Column], n_rados: int, words: Words) -> None:
        self._words = words
        self._n_features = len(columns)
        self._panels = []
        first = 0
        for lanes in _panel_lanes(len(columns)):
            self._panels.append(_Panel(columns, first, lanes, n_rados))
            first += lanes
        self._word_tiles = max(1, _WORD_BYTES // (8 * n_rados))
        self._buffer = np.empty((self._word_tiles, n_rados), dtype=np.uint64)

    def add(self, first_row: int, values: NDArray[Any], labels: NDArray[np.int8]) -> None:
        first_tile, skip = divmod(first_row, TILE_ROWS)
        n_tiles = -(-(skip + len(values)) // TILE_ROWS)
        for panel in self._panels:
            panel.snap(values, labels, skip, n_tiles)
        for tile in range(0, n_tiles, self._word_tiles):
            count = min(self._word_tiles, n_tiles - tile)
            words = self._words(first_tile + tile, count, self._buffer[:count])
            for panel in self._panels:
                edges = panel.edges[tile * TILE_ROWS : (tile + count) * TILE_ROWS]
                panel.sum_tiles(edges, words, panel.table, panel.narrow, panel.totals)

    def result(self) -> NDArray[np.int64]:
        return np.hstack([panel.totals for panel in self._panels])[:, : self._n_features]

    @property
    def clipped(self) -> NDArray[np.int64]:
        return np.concatenate([panel.clipped for panel in self._panels])


def _panel_lanes(n_features: int) -> list[int]:
    """Panels of 32 features, the last one as narrow as the rest allows."""
    whole, rest = divmod(n_features, 32)
    return [32] * whole + [lanes for lanes in (8, 16, 32) if rest <= lanes][: rest > 0]


def _aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that start on a page, as the vector loads need."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 4096, dtype=np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size].view(dtype).reshape(shape)


def survey(low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
    return Survey(low, high, moments)


def summation(columns: Sequence[Column], n_rados: int, words: Words) -> Summation:
    return Summation(columns, n_rados, words)


def worker_bytes(n_rados: int, n_features: int) -> int:
    """Totals, twice while they are put together, and the keystream buffer."""
    return 16 * n_rados * sum(_panel_lanes(n_features)) + max(_WORD_BYTES, 8 * n_rados)
