"""Counts of rows by score and class: the last stage of the mechanism `moments`, for probabilities (M14, M19).

Scores are those of the classifier that was released up to then. A row is in one cell only, so that one row more or less
moves one count by 1, and another label moves two.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.aggregation import AddedFields
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.release.columns import Column
from radoboost.release.moment_math import EDGES
from radoboost.tables import Batch
from radoboost.tables.labels import LabelEncoder

SIZES = ("small", "middling", "large")
_SHAPE, _HIT_SHAPE = (4, len(SIZES)), (2, len(SIZES))
_BLOCK_ROWS, _BLOCK_COLUMNS = 512, 16  # few enough to stay in the cache


@dataclass
class ScoreHistogram(AddedFields):
    """How many rows are in each cell, times 2**15."""

    cells: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Rows by score and class.

    There is a row of cells for scores of 0 or below and the negative class, then for the positive one, then two rows
    for scores above 0; and a column of cells for each size of score.
    `weights` has one for each of the columns, and then that of the constant one, if there is one. A bad row, with a
    value that is not finite or a class that is not declared, is in no cell.
    """

    rule: LabelEncoder
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

    def empty(self) -> ScoreHistogram:
        return ScoreHistogram(np.zeros(_SHAPE, np.int64))

    def add(self, sums: ScoreHistogram, first_row: int, batch: Batch) -> None:
        with np.errstate(all="ignore"):
            values, signs = batch.values(), self.rule.signs_or_zero(batch.labels)
            scores = self.scores(values)
        good = (signs != 0) & np.isfinite(scores)
        size = np.searchsorted(np.array(EDGES) * self.unit, np.abs(scores[good]), side="right")
        places = ((scores[good] > 0) * 2 + (signs[good] > 0)) * len(SIZES) + size
        sums.cells += GRID * np.bincount(places, minlength=sums.cells.size).reshape(_SHAPE)

    def scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of rows, summed column by column, so that each depends on its row alone; NaN for a bad row.

        Of more than two classes there is a row of scores for each.
        """
        total = np.empty((*self.weights.shape[:-1], len(values)))
        for start in range(0, len(values), _BLOCK_ROWS):
            total[..., start : start + _BLOCK_ROWS] = self._block_scores(values[start : start + _BLOCK_ROWS])
        return total

    def _block_scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high, shift, factor, divisor, offset = self._constants
        x = np.empty((len(low), len(values)))
        for first in range(0, len(x), _BLOCK_COLUMNS):
            x[first : first + _BLOCK_COLUMNS] = values[:, first : first + _BLOCK_COLUMNS].T
        good = np.isfinite(x).all(axis=0)
        # As `ReportColumn.apply` does, in the same order.
        for operation, operand in ((np.maximum, low), (np.minimum, high), (np.subtract, shift), (np.multiply, factor),
                                   (np.divide, divisor), (np.subtract, offset)):  # fmt: skip
            operation(x, operand, out=x)
        if self.weights.ndim == 1:
            return np.where(good, self._summed(x, self.weights), np.nan)
        return np.where(good, [self._summed(x.copy(), weights) for weights in self.weights], np.nan)

    @staticmethod
    def _summed(x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of columns times their weights, one after the other, and that of the constant; x does not survive."""
        x *= weights[: len(x), None]
        total = np.zeros(x.shape[1])
        for row in x:
            total += row
        if len(weights) > len(x):
            total += weights[-1]
        return total

    @cached_property
    def _constants(self) -> NDArray[np.float64]:
        """low, high, shift, factor, divisor and offset of every column, each as an array with a row for each."""
        return np.array([column.constants for column in self.columns]).T[:, :, None]


@dataclass(frozen=True, eq=False)
class HitCounts(ScoreCounts):
    """Rows of more than two classes, by whether the largest score is that of their class, and by how far it leads.

    There is a row of cells for those whose class has not the largest score, and one for those whose class has; and a
    column for each size of the lead over the next score. `weights` has a row for each class.
    """

    def empty(self) -> ScoreHistogram:
        return ScoreHistogram(np.zeros(_HIT_SHAPE, np.int64))

    def add(self, sums: ScoreHistogram, first_row: int, batch: Batch) -> None:
        with np.errstate(all="ignore"):
            values, places = batch.values(), self.rule.places_or_none(batch.labels)
            scores = self.scores(values)
        good = (places >= 0) & np.isfinite(scores).all(axis=0)
        scores, places = scores[:, good], places[good]
        ranked = np.partition(scores, len(scores) - 2, axis=0)
        size = np.searchsorted(np.array(EDGES) * self.unit, ranked[-1] - ranked[-2], side="right")
        cells = (scores.argmax(axis=0) == places) * len(SIZES) + size
        sums.cells += GRID * np.bincount(cells, minlength=sums.cells.size).reshape(_HIT_SHAPE)
