"""The plain NumPy engine: short enough to be checked by reading, and what the kernel is measured against."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import Words
from radoboost.holder.grid import EXACT_UNIT, ExactSums, edge_integers
from radoboost.holder.keystream import TILE_ROWS
from radoboost.release.columns import Column

_LIMB_BITS, _LIMBS = 18, 3  # 3 limbs of 18 bits hold a 53-bit significand; their products add up in int64


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
                part.sums[k], part.squares[k] = _exact_sums(clipped[:, k])
        self._sums.merge(part)
        return True

    def result(self) -> ExactSums:
        return self._sums


def _exact_sums(x: NDArray[np.float64]) -> tuple[int, int]:
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
        total += _shifted(sum(int((signs * limb).sum()) << (_LIMB_BITS * i) for i, limb in enumerate(limbs)), shift)
        products = [
            int((limbs[i] * limbs[j]).sum()) << (_LIMB_BITS * (i + j)) for i in range(_LIMBS) for j in range(_LIMBS)
        ]
        squares += _shifted(sum(products), 2 * shift)
    return total, squares


def _shifted(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else value >> -shift


class Summation:
    """Rados as one integer matrix product a block."""

    def __init__(self, columns: Sequence[Column], n_rados: int, words: Words) -> None:
        self._columns, self._words = columns, words
        self._totals = np.zeros((n_rados, len(columns)), dtype=np.int64)
        self.clipped = np.zeros(len(columns), dtype=np.int64)

    def add(self, first_row: int, values: NDArray[Any], labels: NDArray[np.int8]) -> None:
        for k, column in enumerate(self._columns):
            if column.scale != "constant":
                low, high = column.constants[:2]
                x = values[:, k].astype(np.float64)
                self.clipped[k] += ((x < low) | (x > high)).sum()
        edges = edge_integers(values, labels, self._columns).astype(np.int64)
        row, end = first_row, first_row + len(edges)
        while row < end:
            tile, skip = divmod(row, TILE_ROWS)
            stop = min(end, (tile + 1) * TILE_ROWS)
            word = self._words(tile, 1, np.empty((1, len(self._totals)), dtype=np.uint64))
            bit = np.arange(skip, skip + stop - row, dtype=np.uint64)
            member = (word[0, :, None] >> bit & np.uint64(1)).astype(np.int64)
            self._totals += member @ edges[row - first_row : stop - first_row]
            row = stop

    def result(self) -> NDArray[np.int64]:
        return self._totals


def survey(low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool) -> Survey:
    return Survey(low, high, moments)


def summation(columns: Sequence[Column], n_rados: int, words: Words) -> Summation:
    return Summation(columns, n_rados, words)


def worker_bytes(n_rados: int, n_features: int) -> int:
    """The totals, and a tile's membership as int64."""
    return 8 * n_rados * (n_features + TILE_ROWS)
