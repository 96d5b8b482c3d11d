"""Sums without labels beside the rados: what a holder adds for another one who has other columns of the same table.

A rado sums y_i x_i. Of the columns that both holders have, and of the constant, the block `shared` has the sum of x_i
itself over the same examples. So rado and block together are a rado over more columns, among whose edge vectors are
both y x and x: `learner.completion` regresses on them. One pass makes both, for a pass has coins of its own where rows
are on a cluster.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.engines import Engine
from radoboost.holder.mechanisms.mechanism import CraftRequest
from radoboost.holder.rado_sums import RadoSums, SumRados
from radoboost.holder.row_counts import RowCounts
from radoboost.holder.signatures import SignatureStream
from radoboost.tables import Batch, Table
from radoboost.tables.column_selection import list_names


@dataclass
class SharedSums:
    """Sums of rows by rado, and those of the shared columns without labels."""

    rados: RadoSums
    shared: NDArray[np.int64]

    @property
    def counts(self) -> RowCounts:
        """What the holder may know about the rows."""
        return self.rados.counts

    def merge(self, other: "SharedSums") -> "SharedSums":
        return SharedSums(self.rados.merge(other.rados), self.shared + other.shared)


@dataclass(frozen=True, eq=False)
class SumShared:
    """A sum of rados, and beside it that of the columns at `places` and of the constant, as if each label were +1.

    There is at least one place, for no engine snaps the constant alone.
    """

    task: SumRados
    places: tuple[int, ...]

    title = "summing rows"

    @property
    def engine(self) -> Engine:
        return self.task.engine

    @property
    def prepared(self) -> SignatureStream:
        """The signatures, which are those of the rados."""
        return self.task.prepared

    @property
    def rows_at_a_time(self) -> int | None:
        return self.task.rows_at_a_time

    @property
    def worker_bytes(self) -> int:
        return 2 * self.task.worker_bytes

    def for_part(self, first_row: int, n_rows: int) -> "SumShared":
        """The pass for one part that is summed elsewhere, with the coins of its own rows."""
        return replace(self, task=self.task.for_part(first_row, n_rows))

    def empty(self) -> SharedSums:
        return SharedSums(self.task.empty(), self.engine.totals(self.task.n_rados, len(self.places) + 1))

    def add(self, sums: SharedSums, first_row: int, batch: Batch) -> None:
        """Snap and sum, with labels and without."""
        values = batch.values()
        self.task.add(sums.rados, first_row, batch._replace(values=lambda: values, device_values=None))
        columns = self.task.columns
        chosen = [*(columns[place] for place in self.places), columns[-1]]
        own = np.ascontiguousarray(values[:, self.places])
        rows, _ = self.engine.snap(own, np.ones(batch.n_rows, np.int8), chosen)
        self.engine.sum_rows(rows, first_row + self.task.offset, self.prepared, sums.shared)


def check_share(asked: CraftRequest) -> None:
    """Refuse, before the table is opened, what leaves nothing to share."""
    if asked.share is None:
        return
    if not asked.intercept:
        raise ArgumentError("a release with shared columns needs the constant one; leave intercept as it is")
    if not asked.subsets.by_coins:
        raise ArgumentError(
            "a release with shared columns tells second moments, and rados of a prescribed support do not; leave "
            "signatures out (--support)"
        )
    if asked.fixed_columns != "linear":
        raise ArgumentError("shared columns are the table's own; take columns='linear' with share (--columns linear)")
    asked.refuse_many_classes("a release with shared columns", asked.classes)


def shared_places(asked: CraftRequest, source: Table) -> tuple[int, ...]:
    """Where the shared columns are among the features; of a category, all its slots."""
    origins = {name: name for name in source.features}
    if source.schema is not None:
        origins = {part.name: part.column for part in source.schema.encoded()}
    share = asked.share or ()
    absent = [name for name in share if name not in origins.values()]
    if absent:
        raise TableError(
            f"{source.name} has no feature {list_names(absent)} to share; its features are "
            f"{list_names(list(dict.fromkeys(origins.values())))}"
        )
    return tuple(place for place, name in enumerate(source.features) if origins[name] in share)
