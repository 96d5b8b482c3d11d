"""Counts of rows by score and class: the last stage of the mechanism `moments`, for probabilities (M14).

Scores are those of the classifier that was released up to then. A row is in one cell only, so that one row more or less
moves one count by 1, and a flipped label moves two.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.mechanisms.moment_passes import GRID
from radoboost.release.columns import Column
from radoboost.release.scores import EDGES
from radoboost.tables import Batch
from radoboost.tables.labels import LabelRule

SIZES = ("small", "middling", "large")
_SHAPE = (4, len(SIZES))


@dataclass
class Counted:
    """How many rows are in each cell, times 2**15."""

    cells: NDArray[np.int64]

    def merge(self, other: "Counted") -> "Counted":
        """Those of both."""
        return Counted(self.cells + other.cells)


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Rows by score and class.

    There is a row of cells for scores of 0 or below and the negative class, then for the positive one, then two rows
    for scores above 0; and a column of cells for each size of score.
    `weights` has one for each of the columns, and then that of the constant one, if there is one. A bad row, with a
    value that is not finite or a class that is not declared, is in no cell.
    """

    rule: LabelRule
    columns: tuple[Column, ...]
    weights: NDArray[np.float64]
    unit: float

    title = "scores"

    @property
    def rows_at_a_time(self) -> int:
        """So many that their values, once more scaled, take little memory."""
        return max(1, (1 << 22) // len(self.columns))

    @property
    def worker_bytes(self) -> int:
        """The cells, and a few numbers for each row."""
        return 64 * self.rows_at_a_time

    def empty(self) -> Counted:
        """Zeros."""
        return Counted(np.zeros(_SHAPE, np.int64))

    def add(self, sums: Counted, first_row: int, batch: Batch) -> None:
        """Count the rows of a batch."""
        with np.errstate(all="ignore"):
            values, signs = batch.values(), self.rule.signs_or_zero(batch.labels)
            scores = self.scores(values)
        good = (signs != 0) & np.isfinite(scores)
        size = np.searchsorted(np.array(EDGES) * self.unit, np.abs(scores[good]), side="right")
        places = ((scores[good] > 0) * 2 + (signs[good] > 0)) * len(SIZES) + size
        sums.cells += GRID * np.bincount(places, minlength=sums.cells.size).reshape(_SHAPE)

    def scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of rows, summed column by column, so that each depends on its row alone; NaN for a bad row."""
        total = np.zeros(len(values))
        for k, column in enumerate(self.columns):
            x = values[:, k].astype(np.float64)
            total += np.where(np.isfinite(x), self.weights[k] * column.apply(x), np.nan)
        return total + self.weights[-1] if len(self.weights) > len(self.columns) else total
