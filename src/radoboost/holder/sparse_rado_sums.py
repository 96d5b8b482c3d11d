"""Survey and sum of a table whose rows are sparse: over entries alone, to the bits of the dense table.

In every column a cell without an entry has the same integer, that of 0. So a rado's value is that integer times the sum
of its labels, plus what its entries differ from that integer, times their labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.holder import rado_sums
from radoboost.holder.engines import Engine, SparseEngine, sparse_engine
from radoboost.holder.engines.reference import count_sparse_values_beyond_bounds
from radoboost.holder.grid import ExactSums, grid_snapping_constants, snap_to_grid
from radoboost.holder.row_counts import RowCounts
from radoboost.release.columns import Column
from radoboost.tables import Batch, Table
from radoboost.tables.sparse import SparseRows
from radoboost.tables.table import not_finite_value_error

_ENTRY_BYTES = 64  # for an entry of a batch, while it is sorted and summed
_BATCH_ENTRIES = 1 << 20
_ALL_WORKERS = 1 << 31  # bytes that the sums of all threads may take together
_WORTH = 64  # entries in a column, on average, that take as long as a thread's sums of it do in the end


def sums_over_sparse_entries(engine: Engine, source: Table) -> bool:
    """Whether entries are summed: where rows are sparse, and the engine can."""
    return source.sparse_rows is not None and sparse_engine(engine) is not None


def _engine_for_sparse_entries(engine: Engine) -> SparseEngine:
    able = sparse_engine(engine)
    assert able is not None
    return able


def require_memory_for_sparse_rados(engine: Engine, source: Table, n_rados: int, n_columns: int) -> None:
    """Refuse rados that do not fit into memory, before rows are read."""
    if not sums_over_sparse_entries(engine, source):
        rado_sums.check_memory_for_rados(engine, n_rados, n_columns)
        return
    memory.require_memory(
        3 * 8 * n_rados * n_columns + _ENTRY_BYTES * _BATCH_ENTRIES,
        f"a sum of {n_rados:,} rados of {n_columns:,} features",
        "ask for fewer rados, or leave features out",
    )


def survey_sparse_entries(task: rado_sums.SurveyRows, source: Table) -> rado_sums.SurveyRows:
    """The same survey, over entries where the table's rows are sparse."""
    if not sums_over_sparse_entries(task.engine, source):
        return task
    return SurveyEntries(**_aggregation_fields(task), sparse_rows=source.sparse_rows)


def sum_sparse_entries(task: rado_sums.SumRados, source: Table) -> rado_sums.SumRados:
    """The same sum, over entries where the table's rows are sparse."""
    if not sums_over_sparse_entries(task.engine, source):
        return task
    assert source.sparse_rows is not None
    n_entries = _BATCH_ENTRIES * (source.n_rows or 0) // source.sparse_rows
    return SumEntries(**_aggregation_fields(task), sparse_rows=source.sparse_rows, n_entries=n_entries)


def sum_sparse_class_entries(task: rado_sums.SumClasses, source: Table) -> rado_sums.SumClasses:
    """The same sums by class, over entries where the table's rows are sparse."""
    if not sums_over_sparse_entries(task.engine, source):
        return task
    return SumClassEntries(**_aggregation_fields(task), sparse_rows=source.sparse_rows)


def _aggregation_fields(task: Any) -> dict[str, Any]:
    return {field.name: getattr(task, field.name) for field in fields(task)}


def sparse_entries_of_batch(batch: Batch) -> SparseRows:
    return SparseRows.of(batch.values()) if batch.sparse is None else batch.sparse()


@dataclass(frozen=True, eq=False)
class SurveyEntries(rado_sums.SurveyRows):
    """As `SurveyRows`, over the entries of sparse rows."""

    sparse_rows: int | None = None

    @property
    def rows_at_a_time(self) -> int | None:  # type: ignore[override]
        return self.sparse_rows

    @property
    def worker_bytes(self) -> int:
        """Exact sums as Python integers, and a batch."""
        return 1024 * len(self.low) + _ENTRY_BYTES * _BATCH_ENTRIES

    def empty(self) -> rado_sums.SurveyResult:
        survey = _engine_for_sparse_entries(self.engine).sparse_survey(self.low, self.high, moments=self.moments)
        return rado_sums.SurveyResult(self.labels.merge(self.labels), ExactSums(len(self.low)), survey)

    def add(self, sums: rado_sums.SurveyResult, first_row: int, batch: Batch) -> None:
        sums.labels.see(batch.labels, batch.place)
        rows = sparse_entries_of_batch(batch)
        assert sums.survey is not None
        if not sums.survey.add(rows):
            entry = int(np.argmin(np.isfinite(rows.values)))
            place = batch.place(rows.row_of(entry))
            raise not_finite_value_error(self.features[rows.places[entry]], place, rows.values[entry])


@dataclass
class EntrySums:
    """What entries add to rados, beside the sums of labels.

    `differences` has a row for each column, and `zero` is the integer of 0 in each.
    """

    differences: NDArray[np.int64]
    label_sums: NDArray[np.int64]
    zero: NDArray[np.int32]
    counts: RowCounts

    @classmethod
    def zeros(cls, columns: Sequence[Column], n_rados: int, constants: NDArray[np.float64]) -> "EntrySums":
        """Of no entries; `constants` are those that scale and snap values, by column."""
        zero, label_sums = snap_to_grid(np.zeros(len(columns)), constants), np.zeros(n_rados, dtype=np.int64)
        counts = RowCounts.zeros(sum(column.scale != "constant" for column in columns))
        return cls(np.zeros((len(columns), n_rados), dtype=np.int64), label_sums, zero, counts)

    def merge(self, other: "EntrySums") -> "EntrySums":
        label_sums, counts = self.label_sums + other.label_sums, self.counts.merge(other.counts)
        return EntrySums(self.differences + other.differences, label_sums, self.zero, counts)

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The sums of rados, a row for each; they take the place of the differences."""
        for k in np.flatnonzero(self.zero).tolist():
            self.differences[k] += self.zero[k] * self.label_sums
        return self.differences.T


class _OverEntries:
    """What sums over the entries of sparse rows have in common."""

    columns: tuple[Column, ...]
    n_rados: int
    sparse_rows: int | None

    @cached_property
    def constants(self) -> NDArray[np.float64]:
        """Those that scale and snap values, by column."""
        return grid_snapping_constants(self.columns)

    @property
    def rows_at_a_time(self) -> int | None:
        """As the table suggests, and few enough that an interrupt does not wait long."""
        return min(
            self.sparse_rows or rado_sums.MOST_ROWS,
            rado_sums.rows_per_sum_batch(self.n_rados, 64) or rado_sums.MOST_ROWS,
        )


@dataclass(frozen=True, eq=False)
class SumEntries(_OverEntries, rado_sums.SumRados):
    """As `SumRados`, over the entries of sparse rows, of which there are about `n_entries`."""

    sparse_rows: int | None = None
    n_entries: int = 0

    @property
    def worker_bytes(self) -> int:
        """The sums, twice while they are put together, and a batch."""
        return 16 * self.n_rados * len(self.columns) + _ENTRY_BYTES * _BATCH_ENTRIES

    @property
    def most_workers(self) -> int:
        """Few enough that what is added up in the end does not take more memory, and time, than the entries do."""
        return max(1, min(_ALL_WORKERS // self.worker_bytes, self.n_entries // (_WORTH * len(self.columns))))

    def empty(self) -> Any:
        return EntrySums.zeros(self.columns, self.n_rados, self.constants)

    def add(self, sums: Any, first_row: int, batch: Batch) -> None:
        first_row += self.offset
        rows, signs = sparse_entries_of_batch(batch), self.rule.signs(batch.labels, batch.place)
        prepared = self.prepared
        if self.turned is not None:
            place, coding = self.turned
            prepared = rado_sums.FlippedSignatures.over(
                prepared, first_row, rado_sums.binary_column_bits(rows.column(place), signs, coding)
            )
        clipped = _engine_for_sparse_entries(self.engine).sum_sparse(
            rows, signs, self.constants, first_row, prepared, sums.differences, sums.label_sums
        )
        sums.counts.clipped += clipped[: len(sums.counts.clipped)]
        sums.counts.n_rows += batch.n_rows


# ---- more than two classes


@dataclass
class ClassEntrySums:
    """What entries add to the rados of each class."""

    by_class: list[EntrySums]
    counts: RowCounts

    def merge(self, other: "ClassEntrySums") -> "ClassEntrySums":
        by_class = [mine.merge(theirs) for mine, theirs in zip(self.by_class, other.by_class, strict=True)]
        return ClassEntrySums(by_class, self.counts.merge(other.counts))

    @property
    def totals(self) -> list[NDArray[np.int64]]:
        return [sums.totals for sums in self.by_class]


@dataclass(frozen=True, eq=False)
class SumClassEntries(_OverEntries, rado_sums.SumClasses):
    """As `SumClasses`, over the entries of sparse rows; a row is in the sums of its own class alone."""

    sparse_rows: int | None = None

    @property
    def worker_bytes(self) -> int:
        """The sums of all classes, twice while they are put together, and a batch."""
        return 16 * self.n_rados * len(self.columns) * self.rule.n_classes + _ENTRY_BYTES * _BATCH_ENTRIES

    @property
    def most_workers(self) -> int:
        """Few enough that all of their sums do not take much memory."""
        return max(1, _ALL_WORKERS // self.worker_bytes)

    def empty(self) -> Any:
        by_class = [EntrySums.zeros(self.columns, self.n_rados, self.constants) for _ in range(self.rule.n_classes)]
        return ClassEntrySums(by_class, RowCounts.zeros(len(by_class[0].counts.clipped)))

    def add(self, sums: Any, first_row: int, batch: Batch) -> None:
        first_row += self.offset
        rows, places = sparse_entries_of_batch(batch), self.rule.places(batch.labels, batch.place)
        for place in np.unique(places).tolist():
            own, total = places == place, sums.by_class[place]
            entries = rows.within(own)
            _engine_for_sparse_entries(self.engine).sum_sparse(
                entries, own.astype(np.int8), self.constants, first_row, self.prepared, total.differences,
                total.label_sums,
            )  # fmt: skip
        clipped = count_sparse_values_beyond_bounds(rows, self.constants[rows.places], self.constants)
        sums.counts.clipped += clipped[: len(sums.counts.clipped)]
        sums.counts.n_rows += batch.n_rows
