"""Small passes that keep rows and sum them, in a module that workers import quickly."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rounded:
    """A row pass: values in hundredths, or kept rows, times a factor."""

    factor: int
    title = "rounding"
    width = 2
    rows_at_a_time = None

    def rows(self, batch):
        rows = batch.rows() if hasattr(batch, "rows") else (batch.values().T * 100).astype(np.int32)
        return rows * self.factor


@dataclass
class Sum:
    """A total."""

    total: int = 0

    def merge(self, other):
        return Sum(self.total + other.total)


@dataclass(frozen=True)
class Total:
    """A pass over kept rows: all of their integers, added up."""

    title = "adding"
    rows_at_a_time = None
    worker_bytes = 0

    def empty(self):
        return Sum()

    def add(self, sums, first_row, batch):
        sums.total += int(batch.rows().sum())
