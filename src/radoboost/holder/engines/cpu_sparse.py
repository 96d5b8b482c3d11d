"""Sparse rows, compiled: entries are put in the order of their columns, and each column is summed for many rados.

What the sums of a column are of stays in the first-level cache: a rado's sum is one lane of a vector, and an entry is
added to all lanes at once, under a mask of bytes that says which rados have its row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from radoboost.holder.engines import reference
from radoboost.holder.engines.simd import float_bits, simd_add_moments
from radoboost.holder.grid import snap_to_grid
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.signatures import SignatureStream
from radoboost.tables.sparse import SparseRows

# ---- Exact sums of float64 by exponent: a bin has 128-bit sums of significands and of their squares.

BINS, _EXPONENTS = 512, 4  # a bin takes four neighbouring exponents
FOLD_ROWS = 1 << 16  # squares have 112 bits: this many fit a bin of 128 bits
_U = np.uint64

JIT: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


@njit(**JIT)
def add_to_exact_sum_bin(x, bins):  # type: ignore[no-untyped-def]
    bits = float_bits(x)
    exponent = (bits >> _U(52)) & _U(2047)
    significand = bits & _U((1 << 52) - 1)
    if exponent == _U(0):
        exponent = _U(1)
    else:
        significand |= _U(1 << 52)
    place = exponent >> _U(2)
    simd_add_moments(_U(bins.ctypes.data) + place * _U(32), significand, exponent & _U(3), bits >> _U(63))
    return place


def exact_sums_of_bin(place: int, words: Sequence[int]) -> tuple[int, int]:
    """The sum in units of 2**-1074 and that of squares in units of 2**-2148, of a bin's four words."""
    low, high, square_low, square_high = words
    total = high << 64 | low
    total -= (total >> 127) << 128
    # A significand with exponent field e counts units of 2**(e - 1075), and e is at least 1.
    scale = 1 << _EXPONENTS * place
    return total * scale >> 1, (square_high << 64 | square_low) * scale**2 >> 2


_FLUSH_ENTRIES = 128  # differences are at most 2**23 in magnitude: twice as many would still fit int32
_MASK_BYTES = 1 << 24  # masks of the rados that are summed at a time, about
_LEAST_RADOS = 64  # summed at a time: a cache line of a mask
_WORD_BYTES = 1 << 26  # keystream made at a time


# ---- the survey


@njit(
    types.boolean(
        types.int32[::1],
        types.float64[::1],
        types.float64[::1],
        types.float64[::1],
        types.float64[::1],
        types.float64[::1],
        types.int64[::1],
        types.float64[::1],
    ),
    **JIT,
)
def _survey_entries(places, values, low, high, lowest, highest, firsts, ordered):  # type: ignore[no-untyped-def]
    """Extremes, where each column begins, and clipped values in the order of columns; False if one is not finite."""
    for e in range(len(places)):
        if not abs(values[e]) < np.inf:
            return False
        firsts[places[e] + 1] += 1
    for k in range(len(firsts) - 1):
        firsts[k + 1] += firsts[k]
    cursor = firsts[:-1].copy()
    for e in range(len(places)):
        k = places[e]
        x = min(max(values[e], low[k]), high[k])
        lowest[k], highest[k] = min(lowest[k], x), max(highest[k], x)
        ordered[cursor[k]] = x
        cursor[k] += 1
    return True


@njit(
    types.int64(types.int64[::1], types.float64[::1], types.uint64[:, ::1], types.int64[:, ::1], types.uint64[:, ::1]),
    **JIT,
)
def _fill_exact_sum_bins(firsts, ordered, bins, places, words):  # type: ignore[no-untyped-def]
    """The bins that each column uses: (column, bin) in `places`, their words in `words`. How many there are."""
    count = 0
    for k in range(len(firsts) - 1):
        least, most = np.int64(BINS), np.int64(-1)
        for e in range(firsts[k], firsts[k + 1]):
            if ordered[e] != 0.0:
                used = np.int64(add_to_exact_sum_bin(ordered[e], bins))
                least, most = min(least, used), max(most, used)
        for place in range(least, most + 1):
            if bins[place, 2] != 0 or bins[place, 3] != 0:  # a square is never 0
                places[count, 0], places[count, 1] = k, place
                for i in range(4):
                    words[count, i], bins[place, i] = bins[place, i], 0
                count += 1
    return count


class SparseSurvey(reference.SparseSurvey):
    """Exact statistics: 128-bit sums by exponent, of one column after the other."""

    def add(self, rows: SparseRows) -> bool:
        """Take some rows; False if a value is not finite."""
        for first in range(0, rows.n_rows, FOLD_ROWS):
            starts = rows.starts[first : first + FOLD_ROWS + 1]
            if not self._add(rows.places[starts[0] : starts[-1]], rows.values[starts[0] : starts[-1]]):
                return False
        self._sums.n_rows += rows.n_rows
        return True

    def _add(self, places: NDArray[np.int32], values: NDArray[np.float64]) -> bool:
        """Take entries, at most 65,536 in a column."""
        firsts, ordered = np.zeros(len(self._low) + 1, dtype=np.int64), np.empty(len(values))
        if not _survey_entries(
            places, values, self._low, self._high, self._sums.lowest, self._sums.highest, firsts, ordered
        ):
            return False
        self._entries += np.diff(firsts)
        if self._moments:
            bins = np.zeros((BINS, 4), dtype=np.uint64)
            keys, words = np.empty((len(values), 2), dtype=np.int64), np.empty((len(values), 4), dtype=np.uint64)
            count = _fill_exact_sum_bins(firsts, ordered, bins, keys, words)
            for (k, place), sums in zip(keys[:count].tolist(), words[:count].tolist(), strict=True):
                total, squares = exact_sums_of_bin(place, sums)
                self._sums.sums[k] += total
                self._sums.squares[k] += squares
        return True


# ---- the sums


@njit(
    types.void(
        types.int64[::1],
        types.int32[::1],
        types.float64[::1],
        types.int8[::1],
        types.float64[:, ::1],
        types.int32[::1],
        types.int64[::1],
        types.uint32[::1],
        types.int32[::1],
        types.int64[::1],
    ),
    **JIT,
)
def _snap(starts, places, values, signs, constants, zero, firsts, rows, differences, clipped):  # type: ignore[no-untyped-def]
    """Entries by column: their rows, and what their integers differ from that of 0, times the row's sign."""
    for e in range(len(places)):
        firsts[places[e] + 1] += 1
    for k in range(len(firsts) - 1):
        if constants[k, 0] > 0 or constants[k, 1] < 0:
            clipped[k] = len(signs) - firsts[k + 1]
        firsts[k + 1] += firsts[k]
    cursor = firsts[:-1].copy()
    for i in range(len(signs)):
        for e in range(starts[i], starts[i + 1]):
            k, x = places[e], values[e]
            column = constants[k]
            if x < column[0] or x > column[1]:
                clipped[k] += 1
                x = min(max(x, column[0]), column[1])
            number = np.int32(np.rint((((x - column[2]) * column[3]) / column[4] - column[5]) * column[6]))
            rows[cursor[k]], differences[cursor[k]] = i, np.int32(signs[i]) * (number - zero[k])
            cursor[k] += 1


@njit(types.void(types.uint64[:, ::1], types.int64, types.int64, types.int8[:, ::1]), **JIT)
def _fill_signature_masks(words, skip, first_rado, masks):  # type: ignore[no-untyped-def]
    """-1 where a row is in a rado, else 0; the first row is bit `skip` of the first tile."""
    for i in range(masks.shape[0]):
        tile, bit = divmod(i + skip, TILE_ROWS)
        row, shift = masks[i], np.uint64(bit)
        word = words[tile, first_rado : first_rado + masks.shape[1]]
        for j in range(masks.shape[1]):
            row[j] = -np.int8((word[j] >> shift) & np.uint64(1))


@njit(types.void(types.int8[::1], types.int8[:, ::1], types.int64[::1]), **JIT)
def _sum_sparse_signs(signs, masks, label_sums):  # type: ignore[no-untyped-def]
    for i in range(len(signs)):
        row, sign = masks[i], np.int64(signs[i])
        for j in range(masks.shape[1]):
            label_sums[j] += sign & np.int64(row[j])


@njit(
    types.void(
        types.int64[::1], types.uint32[::1], types.int32[::1], types.int8[:, ::1], types.int64, types.int64[:, ::1]
    ),
    **JIT,
)
def _sum_sparse_columns(firsts, rows, differences, masks, first_rado, totals):  # type: ignore[no-untyped-def]
    """Add entries to the rados that have their rows, two at a time; `totals` has a row for each column."""
    n_rados = masks.shape[1]
    sums = np.zeros(n_rados, dtype=np.int32)
    for k in range(len(firsts) - 1):
        for start in range(firsts[k], firsts[k + 1], _FLUSH_ENTRIES):
            stop = min(start + _FLUSH_ENTRIES, firsts[k + 1])
            sums[:] = 0
            for e in range(start, stop - 1, 2):
                one, other = differences[e], differences[e + 1]
                mask, another = masks[rows[e]], masks[rows[e + 1]]
                for j in range(n_rados):
                    sums[j] += (one & np.int32(mask[j])) + (other & np.int32(another[j]))
            if (stop - start) % 2:
                last, mask = differences[stop - 1], masks[rows[stop - 1]]
                for j in range(n_rados):
                    sums[j] += last & np.int32(mask[j])
            total = totals[k, first_rado : first_rado + n_rados]
            for j in range(n_rados):
                total[j] += np.int64(sums[j])


def compiled_sum_sparse(
    rows: SparseRows,
    signs: NDArray[np.int8],
    constants: NDArray[np.float64],
    first_row: int,
    prepared: SignatureStream,
    differences: NDArray[np.int64],
    label_sums: NDArray[np.int64],
) -> NDArray[np.int64]:
    n_rados, clipped = len(label_sums), np.zeros(len(constants), dtype=np.int64)
    step = max(TILE_ROWS, _WORD_BYTES // n_rados // 8 * TILE_ROWS)
    done, zero = 0, snap_to_grid(np.zeros(len(constants)), constants)
    while done < rows.n_rows:
        tile, skip = divmod(first_row + done, TILE_ROWS)
        stop = min(rows.n_rows, done + step - skip)
        starts = rows.starts[done : stop + 1]
        taken = slice(starts[0], starts[-1])
        n_entries = int(starts[-1] - starts[0])
        firsts, beyond = np.zeros(len(constants) + 1, dtype=np.int64), np.zeros(len(constants), dtype=np.int64)
        places, numbers = np.empty(n_entries, dtype=np.uint32), np.empty(n_entries, dtype=np.int32)
        _snap(
            starts - starts[0], rows.places[taken], rows.values[taken], signs[done:stop], constants, zero, firsts,
            places, numbers, beyond,
        )  # fmt: skip
        clipped += beyond
        n_tiles = -(-(skip + stop - done) // TILE_ROWS)
        words = prepared.words(tile, n_tiles, np.empty((n_tiles, n_rados), dtype=np.uint64))
        width = min(n_rados, max(_LEAST_RADOS, _MASK_BYTES // (stop - done)))
        for first in range(0, n_rados, width):
            masks = np.empty((stop - done, min(width, n_rados - first)), dtype=np.int8)
            _fill_signature_masks(words, skip, first, masks)
            _sum_sparse_signs(signs[done:stop], masks, label_sums[first : first + width])
            _sum_sparse_columns(firsts, places, numbers, masks, first, differences)
        done = stop
    return clipped
