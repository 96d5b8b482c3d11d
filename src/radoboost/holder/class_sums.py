"""Rados of more than two classes: over one signature, a sum of rows for each class.

The vector x (x) onehot(y) has a slot for each class, and a rado of such vectors is as many sums as there are classes.
Rows have no sign: which class a row is of decides which sum it is in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.counts import RowCounts, beyond_bounds
from radoboost.holder.passes import RadoPass, Within, counted_columns, engine_values, rows_there, rows_to_sum
from radoboost.tables import Batch


@dataclass
class ClassSums:
    """Sums of integer rows by class and rado: `totals` has an array for each class. `counts` are for the holder."""

    totals: list[NDArray[np.int64]]
    counts: RowCounts

    def merge(self, other: "ClassSums") -> "ClassSums":
        totals = [mine + theirs for mine, theirs in zip(self.totals, other.totals, strict=True)]
        return ClassSums(totals, self.counts.merge(other.counts))


@dataclass(frozen=True, eq=False)
class SumClasses(RadoPass):
    """Rados of rows by class: scaled, snapped to the grid, added to the sum of their class in every rado of theirs."""

    @property
    def rows_at_a_time(self) -> int | None:
        """Few enough that an interrupt does not wait long."""
        return rows_to_sum(self.n_rados, len(self.columns) * self.rule.n_classes, self.engine)

    @property
    def rows_on_device(self) -> int | None:
        return rows_there(self.engine, self.n_rados, len(self.columns) * self.rule.n_classes)

    @property
    def worker_bytes(self) -> int:
        return self.rule.n_classes * self.engine.worker_bytes(self.n_rados, len(self.columns))

    def empty(self) -> ClassSums:  # type: ignore[override]
        counts = RowCounts.zeros(len(counted_columns(self.columns, self.inputs)))
        totals = [self.engine.totals(self.n_rados, len(self.columns)) for _ in range(self.rule.n_classes)]
        return ClassSums(totals, counts)

    def add(self, sums: ClassSums, first_row: int, batch: Batch) -> None:
        first_row += self.offset
        values, places = engine_values(batch, self.engine), self.rule.places(batch.labels, batch.place)
        rows, clipped = self.engine.snap(values, np.ones(batch.n_rows, np.int8), self.columns)
        for place in np.unique(places):
            own = Within.over(self.prepared, first_row, places == place)
            self.engine.sum_rows(rows, first_row, own, sums.totals[place])
        if batch.inputs is not None and self.inputs is not None:
            clipped = beyond_bounds(batch.inputs(), np.full(batch.n_rows, True), self.inputs)
        sums.counts.clipped += clipped[: len(sums.counts.clipped)]
        sums.counts.n_rows += batch.n_rows
        sums.counts.see_cells(batch)
