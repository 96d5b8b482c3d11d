"""Counts of where the values of columns lie: bins are disjoint, and every number is in one (B1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.budget import EQUAL_BINS, POWER_BINS
from radoboost.holder.row_counts import RowCounts
from radoboost.tables import Batch
from radoboost.tables.labels import LabelEncoder

LEAST_POWER = -64


@dataclass(frozen=True)
class Powers:
    """Bins by magnitude: the first for zero and what is below 2**-64, then one for each power of two.

    The last one has all that is 2**64 or more.
    """

    n_bins = POWER_BINS

    def numbers(self, values: NDArray[np.float64], column: int) -> NDArray[np.int64]:
        exponents = np.frexp(values)[1].astype(np.int64)  # exact: |value| lies from 2**(e - 1) to below 2**e
        return np.where(values == 0, 0, np.clip(exponents - LEAST_POWER, 0, self.n_bins - 1))


@dataclass(frozen=True, eq=False)
class EqualBins:
    """64 bins of one width from `low` to `high`, by column; the first and the last have what lies beyond."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    n_bins = EQUAL_BINS

    def numbers(self, values: NDArray[np.float64], column: int) -> NDArray[np.int64]:
        low, high = self.low[column], self.high[column]
        places: NDArray[np.float64] = (np.clip(values, low, high) - low) / ((high - low) / self.n_bins)
        # Whatever rounding did, and be it NaN: one of the bins (B1).
        return np.where(places > 0, np.minimum(places, self.n_bins - 1), 0.0).astype(np.int64)


@dataclass
class Binned:
    """How many values of each column lie in each bin, times 2**15; and how many rows are good."""

    bins: NDArray[np.int64]
    counts: RowCounts

    def merge(self, other: "Binned") -> "Binned":
        return Binned(self.bins + other.bins, self.counts.merge(other.counts))


@dataclass(frozen=True, eq=False)
class CountBins:
    """In which bins the values of some columns lie; only good rows count, and each counts once a column (B2)."""

    rule: LabelEncoder
    n_features: int
    places: tuple[int, ...]
    kind: Powers | EqualBins
    stage: str

    rows_at_a_time = None

    @property
    def title(self) -> str:
        return f"looking for {self.stage}"

    @property
    def worker_bytes(self) -> int:
        """The counts, and room to add them."""
        return 16 * len(self.places) * self.kind.n_bins

    def empty(self) -> Binned:
        return Binned(np.zeros((len(self.places), self.kind.n_bins), np.int64), RowCounts.zeros(self.n_features))

    def add(self, sums: Binned, first_row: int, batch: Batch) -> None:
        """Count the values of the good rows of a batch."""
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            values, signs = batch.values(), self.rule.marks_or_zero(batch.labels)
            good = signs != 0
            for k in range(values.shape[1]):
                good &= np.isfinite(values[:, k])
            sums.counts.see(values, signs, good, batch)
            for column, place in enumerate(self.places):
                numbers = self.kind.numbers(values[good, place].astype(np.float64), column)
                sums.bins[column] += GRID * np.bincount(numbers, minlength=self.kind.n_bins)
