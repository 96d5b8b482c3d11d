"""The plain NumPy engine: short enough to be checked by reading. The kernel must give the same integers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import reference_rows, reference_sparse
from radoboost.holder.engines.exact import exact_sums
from radoboost.holder.grid import ExactSums, edge_integers
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.signatures import Prepared
from radoboost.release.columns import Column


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
                part.sums[k], part.squares[k] = exact_sums(clipped[:, k])
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
        return edge_integers(values, signs, columns), clipped

    def totals(self, n_rados: int, n_columns: int) -> NDArray[np.int64]:
        return np.zeros((n_rados, n_columns), dtype=np.int64)

    def sum_rows(self, rows: NDArray[np.int32], first_row: int, prepared: Prepared, totals: NDArray[np.int64]) -> None:
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

    def sparse_survey(
        self, low: NDArray[np.float64], high: NDArray[np.float64], *, moments: bool
    ) -> reference_sparse.SparseSurvey:
        return reference_sparse.SparseSurvey(low, high, moments)

    sum_sparse = staticmethod(reference_sparse.sum_sparse)
    sphere, whiten = staticmethod(reference_rows.sphere), staticmethod(reference_rows.whiten)
    tilt, products = staticmethod(reference_rows.tilt), staticmethod(reference_rows.products)
    tilt_classes = staticmethod(reference_rows.tilt_classes)
