"""How many examples rados of a tilted batch sum: on average, and how often one alone or none.

Example i joins with probability p_i = t_i / 2**32. A rado is empty with probability prod (1 - p_i), and a single
example with that times sum p_i / (1 - p_i). Both come from sums of whole numbers over rows, which are the same in any
order and on any machine (docs/proofs/tilted.md, L10).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BITS = 32  # of a threshold, and of odds after the point
_LOG_BITS = 36  # after the point, of logarithms
_TERMS = 10  # of the series, whose terms fall by 25 or more
_LOG_2 = 0.6931471805599453
LEAST_MEAN, MOST_ALONE = 20, 1.0
"""How many examples a rado must sum on average, and how many rados of a batch may be one example."""


@dataclass(frozen=True)
class BatchSizes:
    """Of a batch of so many rados: how many examples one sums on average, and how many sum one alone, or none."""

    n_rados: int
    mean: float
    alone: float
    empty: float

    @property
    def too_small(self) -> bool:
        """Whether its rados hand out rows in the clear, or nearly."""
        return self.mean < LEAST_MEAN or self.alone > MOST_ALONE


@dataclass(frozen=True)
class Joining:
    """Sums over the rows of a batch: of thresholds, of -log(1 - p) and of p / (1 - p), as whole numbers."""

    thresholds: int = 0
    logarithms: int = 0
    odds: int = 0

    @classmethod
    def of(cls, thresholds: NDArray[np.uint64]) -> "Joining":
        """Those of some rows, by sums, products and quotients of float64 one at a time, whose bits are defined."""
        joins = thresholds.astype(np.float64)
        stays = 2.0**_BITS - joins
        odds = joins / stays
        whole = np.floor(odds)
        # 1 - p is f * 2**-k with f from 3/4 to 3/2, and log f = 2 (z + z**3 / 3 + ...), z = (f - 1) / (f + 1).
        fraction, exponent = np.frexp(stays / 2.0**_BITS)
        low = fraction < 0.75
        fraction, exponent = np.where(low, 2 * fraction, fraction), np.where(low, exponent - 1, exponent)
        z = (1 - fraction) / (1 + fraction)
        series, square = np.zeros_like(z), z * z
        for power in range(2 * _TERMS - 1, 0, -2):
            series = series * square + 1 / power
        logarithms = 2 * z * series - exponent * _LOG_2
        return cls(
            int(thresholds.sum()),
            int(np.floor(logarithms * 2.0**_LOG_BITS).astype(np.int64).sum()),
            (int(whole.astype(np.int64).sum()) << _BITS)
            + int(np.floor((odds - whole) * 2.0**_BITS).astype(np.int64).sum()),
        )

    def __add__(self, other: "Joining") -> "Joining":
        return Joining(self.thresholds + other.thresholds, self.logarithms + other.logarithms, self.odds + other.odds)

    @property
    def mean(self) -> float:
        """How many examples a rado sums on average."""
        return float(self.thresholds / 2**_BITS)

    @property
    def empty(self) -> float:
        """The chance of a rado to sum none."""
        return math.exp(-self.logarithms / 2**_LOG_BITS)

    @property
    def alone(self) -> float:
        """The chance of a rado to be one example."""
        if not self.odds:
            return 0.0
        return math.exp(min(math.log(self.odds) - _BITS * _LOG_2 - self.logarithms / 2**_LOG_BITS, 0.0))

    def sizes(self, n_rados: int) -> BatchSizes:
        return BatchSizes(n_rados, self.mean, n_rados * self.alone, n_rados * self.empty)
