"""Sparse rows in plain NumPy: statistics and sums over entries alone. The kernel must give the same integers.

In every column all cells without an entry have the same integer, that of 0. So a rado's value is that integer times the
sum of its labels, plus what its entries differ from that integer, times their labels.
"""

import itertools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines.exact import exact_sums
from radoboost.holder.grid import EXACT_UNIT, ExactSums, snapped
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.signatures import Prepared
from radoboost.tables.sparse import SparseRows


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
            total, squares = exact_sums(values[first:last])
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


def sum_sparse(
    rows: SparseRows,
    signs: NDArray[np.int8],
    constants: NDArray[np.float64],
    first_row: int,
    prepared: Prepared,
    differences: NDArray[np.int64],
    label_sums: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Add sparse rows to the rados whose signature has them; return how many values were clipped, by column.

    `differences`, shape (columns, rados), gets what entries differ from the integer of 0, times their row's sign, and
    `label_sums` the signs. `constants` are those of `snapping_constants`.
    """
    own, zero = constants[rows.places], snapped(np.zeros(len(constants)), constants)
    numbers = snapped(rows.values, own).astype(np.int64) - zero[rows.places]
    for start in range(0, rows.n_rows, TILE_ROWS):
        taken = np.arange(start, min(start + TILE_ROWS, rows.n_rows))
        member = _membership(first_row + taken, prepared, len(label_sums)) * signs[taken, None]
        label_sums += member.sum(axis=0)
        for row, signature in zip(taken.tolist(), member, strict=True):
            entries = slice(rows.starts[row], rows.starts[row + 1])
            differences[rows.places[entries]] += numbers[entries, None] * signature
    return beyond(rows, own, constants)


def _membership(rows: NDArray[np.int64], prepared: Prepared, n_rados: int) -> NDArray[np.int64]:
    first, last = int(rows[0]) // TILE_ROWS, int(rows[-1]) // TILE_ROWS
    words = prepared.words(first, last - first + 1, np.empty((last - first + 1, n_rados), dtype=np.uint64))
    bits = words[rows // TILE_ROWS - first] >> (rows % TILE_ROWS).astype(np.uint64)[:, None]
    return (bits & np.uint64(1)).astype(np.int64)


def beyond(rows: SparseRows, own: NDArray[np.float64], constants: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many values lie beyond their bounds, by column, zeros among them; `own` are the constants of entries."""
    n_columns = len(constants)
    outside = (rows.values < own[:, 0]) | (rows.values > own[:, 1])
    clipped = np.bincount(rows.places[outside], minlength=n_columns).astype(np.int64)
    zeros = rows.n_rows - np.bincount(rows.places, minlength=n_columns)
    return clipped + np.where((constants[:, 0] > 0) | (constants[:, 1] < 0), zeros, 0)
