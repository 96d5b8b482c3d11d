"""The survey of a table, and the sums of rados over its rows."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import TableError
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.engines import DeviceEngine, Engine, device_engine
from radoboost.holder.grid import ExactSums
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.row_counts import RowCounts, count_beyond_bounds
from radoboost.holder.signatures import SignatureStream
from radoboost.release.columns import Column
from radoboost.tables import Batch, refuse_not_finite_values
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host
from radoboost.tables.labels import LabelCollector, LabelEncoder

MOST_ROWS = 65536  # in a batch that is read through Arrow
_MOST_WORK = 1 << 35  # additions in a batch: few enough that an interrupt does not wait long


def engine_values(batch: Batch, engine: Engine) -> Any:
    """The values of a batch: on the device that they lie on, if the engine takes them there, or else in memory."""
    if batch.device_values is not None and device_engine(engine) is not None:
        return batch.device_values()
    return batch.values()


def _labels_on_device(batch: Batch, engine: Engine) -> tuple[DeviceEngine, NDArray[Any]] | None:
    """The engine that takes a batch's labels on a device, and the few numbers that they are; None without one."""
    there = None if batch.device_labels is None else device_engine(engine)
    values = None if there is None else batch.device_labels.values(there.distinct)
    return None if there is None or values is None or np.isnan(values).any() else (there, values)


def note_batch_labels(labels: LabelCollector, batch: Batch, engine: Engine) -> None:
    """Note the labels of a batch; what is wrong with one is said where they are in memory, with its row."""
    if (there := _labels_on_device(batch, engine)) is not None:
        with suppress(TableError):
            labels.see(pa.array(there[1]))
            return
    labels.see(batch.labels, batch.place)


def batch_label_signs(rule: LabelEncoder, batch: Batch, engine: Engine) -> Any:
    """The labels of a batch as -1 and +1, on the device that they lie on, if the engine takes them there."""
    if (there := _labels_on_device(batch, engine)) is not None:
        device, values = there
        signs = rule.signs_or_zero(pa.array(values))
        if signs.all():
            return device.marked(batch.device_labels.array, values, signs)
    return rule.signs(batch.labels, batch.place)


# ---- the survey


@dataclass
class SurveyResult:
    """Exact statistics and label values of some rows."""

    labels: LabelCollector
    statistics: ExactSums
    survey: Any = None  # an engine's survey, of rows that are dense or sparse

    @property
    def exact(self) -> ExactSums:
        """Row count, extremes and exact sums."""
        if self.survey is None or not self.statistics.n_rows:
            return self.statistics if self.survey is None else self.survey.result()
        return self.statistics.merge(self.survey.result())

    def merge(self, other: "SurveyResult") -> "SurveyResult":
        return SurveyResult(self.labels.merge(other.labels), self.exact.merge(other.exact))

    def __reduce__(self) -> tuple[Any, ...]:
        return SurveyResult, (self.labels, self.exact)


@dataclass(frozen=True, eq=False)
class SurveyRows:
    """Count rows, note the classes, refuse values that are not finite, take exact statistics.

    `low` and `high` clip first; without `moments` only extremes are taken.
    """

    engine: Engine
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    labels: LabelCollector
    moments: bool
    features: tuple[str, ...]

    title = "checking rows"
    rows_at_a_time = None

    @property
    def worker_bytes(self) -> int:
        """As much as for a small sum."""
        return self.engine.worker_bytes(1, len(self.low))

    @property
    def rows_on_device(self) -> int | None:
        return rows_per_device_batch(self.engine, 1, len(self.low))

    def empty(self) -> SurveyResult:
        survey = self.engine.survey(self.low, self.high, moments=self.moments)
        return SurveyResult(self.labels.merge(self.labels), ExactSums(len(self.low)), survey)

    def add(self, sums: SurveyResult, first_row: int, batch: Batch) -> None:
        note_batch_labels(sums.labels, batch, self.engine)
        assert sums.survey is not None
        if not sums.survey.add(values := engine_values(batch, self.engine)):
            refuse_not_finite_values(self.features, batch, copy_gpu_array_to_host(values))


# ---- sums of rados


@dataclass
class RadoSums(AddedFields):
    """Sums of integer rows: `totals` has a row for each rado. `counts` are for the holder."""

    totals: NDArray[np.int64]
    counts: RowCounts


def check_memory_for_rados(engine: Engine, n_rados: int, n_columns: int) -> None:
    """Refuse rados that do not fit into memory, before rows are read."""
    memory.require_memory(
        engine.worker_bytes(n_rados, n_columns) + 8 * n_rados * n_columns,
        f"a sum of {n_rados:,} rados of {n_columns:,} features",
        "ask for fewer rados, or leave features out",
    )


def rows_per_sum_batch(n_rados: int, n_columns: int, engine: Engine | None = None) -> int | None:
    """How many rows a batch should have, in whole tiles, if a usual one would take long to sum; else None.

    An engine on a device says how many it likes.
    """
    if engine is not None and (there := device_engine(engine)) is not None:
        return there.rows_here(n_rados, n_columns)
    rows = max(TILE_ROWS, _MOST_WORK // (n_rados * n_columns) // TILE_ROWS * TILE_ROWS)
    return rows if rows < MOST_ROWS else None


def rows_per_device_batch(engine: Engine, n_rados: int, n_columns: int) -> int | None:
    """How many rows on a device a batch should have; None where the engine does not take them there."""
    there = device_engine(engine)
    return None if there is None else there.rows_there(n_rados, n_columns)


def columns_of_row_counts(columns: tuple[Column, ...], inputs: tuple[Column, ...] | None) -> tuple[Column, ...]:
    """The columns that the holder's counts are of: the table's own."""
    return tuple(column for column in columns if column.scale != "constant") if inputs is None else inputs


def values_of_row_counts(batch: Batch, values: NDArray[Any]) -> NDArray[Any]:
    """The values that the holder's counts are of: those of the table, before a feature map."""
    return values if batch.inputs is None else batch.inputs()


@dataclass(frozen=True, eq=False)
class RadoPass:
    """What passes share that sum rados; what a row adds is for those that extend it to say.

    `inputs` are the table's columns where a feature map makes others of them: the holder's counts are of these. The
    first row of the table has the number `offset` in the keystream: that of a holder whose rows follow those of others
    under one seed is not 0.
    """

    engine: Engine
    columns: tuple[Column, ...]
    rule: LabelEncoder
    n_rados: int
    prepared: SignatureStream
    inputs: tuple[Column, ...] | None = field(default=None, kw_only=True)
    offset: int = field(default=0, kw_only=True)

    title = "summing rows"

    @property
    def rows_at_a_time(self) -> int | None:
        """Few enough that an interrupt does not wait long."""
        return rows_per_sum_batch(self.n_rados, len(self.columns), self.engine)

    @property
    def worker_bytes(self) -> int:
        return self.engine.worker_bytes(self.n_rados, len(self.columns))

    def for_part(self, first_row: int, n_rows: int) -> Self:
        """The pass for one part that is summed elsewhere, with the coins of its own rows."""
        return replace(self, prepared=self.prepared.for_part(self.offset + first_row, n_rows))

    def empty(self) -> RadoSums:
        counts = RowCounts.zeros(len(columns_of_row_counts(self.columns, self.inputs)))
        return RadoSums(self.engine.totals(self.n_rados, len(self.columns)), counts)


@dataclass(frozen=True, eq=False)
class SumRados(RadoPass):
    """Rados of edge vectors: scaled, snapped to the grid, times the label, added to every rado that has the row.

    `turned` names a binary column and its two values: where it makes y_i x_i = +1, the example is in the rados whose
    signature does not have it.
    """

    turned: tuple[int, tuple[float, float]] | None = None

    @property
    def rows_on_device(self) -> int | None:
        return rows_per_device_batch(self.engine, self.n_rados, len(self.columns))

    def add(self, sums: RadoSums, first_row: int, batch: Batch) -> None:
        first_row += self.offset
        values, signs = engine_values(batch, self.engine), batch_label_signs(self.rule, batch, self.engine)
        prepared = self.prepared
        if self.turned is not None:
            place, coding = self.turned
            prepared = FlippedSignatures.over(
                prepared,
                first_row,
                binary_column_bits(copy_gpu_array_to_host(values[:, place]), copy_gpu_array_to_host(signs), coding),
            )
        rows, clipped = self.engine.snap(values, signs, self.columns)
        self.engine.sum_rows(rows, first_row, prepared, sums.totals)
        if batch.inputs is not None and self.inputs is not None:
            clipped = count_beyond_bounds(batch.inputs(), np.full(batch.n_rows, True), self.inputs)
        sums.counts.clipped += clipped[: len(sums.counts.clipped)]
        sums.counts.n_rows += batch.n_rows
        sums.counts.see_cells(batch)


def binary_column_bits(values: NDArray[Any], signs: NDArray[np.int8], coding: tuple[float, float]) -> NDArray[np.bool_]:
    """Whether y_i x_i is +1, for a binary column's values (F1)."""
    bits: NDArray[np.bool_] = (values == coding[1]) == (signs > 0)
    return bits


@dataclass(frozen=True, eq=False)
class MaskedSignatures:
    """Signatures that some rows of a batch change, for the tiles of that batch; how, those that extend it say."""

    prepared: SignatureStream
    first_tile: int
    bits: NDArray[np.uint64] = field(repr=False)

    @classmethod
    def over(cls, prepared: SignatureStream, first_row: int, rows: NDArray[np.bool_]) -> Self:
        """Those of a batch that starts at `first_row`, changed by the rows where `rows` is true."""
        return cls(prepared, first_row // TILE_ROWS, bits_as_tile_words(first_row, rows))

    def for_part(self, first_row: int, n_rows: int) -> Self:
        return self

    def bits_of(self, first_tile: int, n_tiles: int) -> NDArray[np.uint64]:
        start = first_tile - self.first_tile
        return self.bits[start : start + n_tiles, None]


class FlippedSignatures(MaskedSignatures):
    """Signatures with the bits of some rows turned over."""

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        out = self.prepared.words(first_tile, n_tiles, out)
        out ^= self.bits_of(first_tile, n_tiles)
        return out


class ClassSignatures(MaskedSignatures):
    """Signatures that have some rows only."""

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The words, without the bits of other rows."""
        out = self.prepared.words(first_tile, n_tiles, out)
        out &= self.bits_of(first_tile, n_tiles)
        return out


def bits_as_tile_words(first_row: int, bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """One bit a row, as the words of the tiles that the rows lie in."""
    skip = first_row % TILE_ROWS
    padded = np.zeros(-(-(skip + len(bits)) // TILE_ROWS) * TILE_ROWS, dtype=np.uint8)
    padded[skip : skip + len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64)


# ---- Rados of more than two classes: over one signature, a sum of rows for each class.
#
# The vector x (x) onehot(y) has a slot for each class, and a rado of such vectors is as many sums as there are
# classes. Rows have no sign: which class a row is of decides which sum it is in.


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
        return rows_per_sum_batch(self.n_rados, len(self.columns) * self.rule.n_classes, self.engine)

    @property
    def rows_on_device(self) -> int | None:
        return rows_per_device_batch(self.engine, self.n_rados, len(self.columns) * self.rule.n_classes)

    @property
    def worker_bytes(self) -> int:
        return self.rule.n_classes * self.engine.worker_bytes(self.n_rados, len(self.columns))

    def empty(self) -> ClassSums:  # type: ignore[override]
        counts = RowCounts.zeros(len(columns_of_row_counts(self.columns, self.inputs)))
        totals = [self.engine.totals(self.n_rados, len(self.columns)) for _ in range(self.rule.n_classes)]
        return ClassSums(totals, counts)

    def add(self, sums: ClassSums, first_row: int, batch: Batch) -> None:
        first_row += self.offset
        values, places = engine_values(batch, self.engine), self.rule.places(batch.labels, batch.place)
        rows, clipped = self.engine.snap(values, np.ones(batch.n_rows, np.int8), self.columns)
        for place in np.unique(places):
            of_class = ClassSignatures.over(self.prepared, first_row, places == place)
            self.engine.sum_rows(rows, first_row, of_class, sums.totals[place])
        if batch.inputs is not None and self.inputs is not None:
            clipped = count_beyond_bounds(batch.inputs(), np.full(batch.n_rows, True), self.inputs)
        sums.counts.clipped += clipped[: len(sums.counts.clipped)]
        sums.counts.n_rows += batch.n_rows
        sums.counts.see_cells(batch)
