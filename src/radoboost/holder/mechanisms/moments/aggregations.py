"""The passes of the mechanism `moments`: each is a sum of what records contribute.

Given what earlier passes released, a record's contribution is a function of that record alone: the engine's row kernels
go through columns in one order, and there is no matrix product but where every partial sum is exact (M2). Sums of
integers are exact, in whatever order (M3).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.aggregation import AddedFields
from radoboost.holder.declared_bounds import declared_limit_arrays
from radoboost.holder.engines import Engine
from radoboost.holder.feature_maps import mapped_value_blocks
from radoboost.holder.rado_sums import columns_of_row_counts, engine_values, values_of_row_counts
from radoboost.holder.row_counts import RowCounts, count_beyond_bounds
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.release.columns import Column
from radoboost.tables import Batch
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host
from radoboost.tables.labels import LabelEncoder

GRID = 2**15  # an edge vector has at most this norm, in integers
MOST_ROWS = 2**33 - 1  # whose products, of at most 2**30 each, add up in 64 bits
CONSTANT_VALUE = 0.5  # of the constant feature, before rows are projected to the sphere
CAP = 0.5  # on the logistic weight of a record


_MOST_ROWS, _MOST_NUMBERS = 1 << 15, 1 << 21
_BLOCK_NUMBERS = 1 << 17  # that a feature map makes at a time


def rows_per_moment_batch(width: int) -> int:
    """How many rows a batch should have whose columns lie one after the other.

    In 16 bits a column then takes an odd number of cache lines: else all columns of a row would compete for the same
    few places in the cache.
    """
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // width) // 64 - 1) * 64 + 32


@dataclass
class MomentSums(AddedFields):
    """Sums of rows and of their products, and what the holder may know about the rows."""

    products: NDArray[np.int64]
    vector: NDArray[np.int64]
    counts: RowCounts


@dataclass
class VectorSum(AddedFields):
    vector: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SphereRows:
    """Rows scaled by declared bounds and put on the sphere, as integers, without labels; a bad row is zero (M1).

    `inputs` are the table's columns where a feature map makes others of them.
    """

    engine: Engine
    rule: LabelEncoder
    columns: tuple[Column, ...]
    intercept: bool
    inputs: tuple[Column, ...] | None = None

    title = "second moments"

    @property
    def rows_at_a_time(self) -> int:
        """As many as suit the cache; see `rows_per_moment_batch`."""
        return rows_per_moment_batch(self.width)

    @property
    def width(self) -> int:
        return len(self.columns) + self.intercept

    @property
    def worker_bytes(self) -> int:
        """The products, and room to add them."""
        return 24 * self.width**2

    @cached_property
    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return _column_limits_as_arrays(self.columns)

    @property
    def counted(self) -> tuple[Column, ...]:
        """The columns that the holder's counts are of."""
        return columns_of_row_counts(self.columns, self.inputs)

    def empty(self) -> MomentSums:
        d = self.width
        return MomentSums(np.zeros((d, d), np.int64), np.zeros(d, np.int64), RowCounts.zeros(len(self.counted)))

    def add(self, sums: MomentSums, first_row: int, batch: Batch) -> None:
        """Add products, and count for the holder what was clipped and left out."""
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop, also not while it is converted
            values = engine_values(batch, self.engine)
            marks = self.rule.marks_or_zero(batch.labels)
            rows, good = self.put_on_sphere(values, marks)
            products, vector = self.engine.products(rows)
            sums.products += products
            sums.vector += vector
            values = values_of_row_counts(batch, values)
            clean = bool(good.all()) and self._within_bounds(values)
            values = values if clean else copy_gpu_array_to_host(values)  # a row that spoils nothing is not looked at
            sums.counts.see(values, marks, good, batch)
            if not clean:
                sums.counts.clipped += count_beyond_bounds(values, good, self.counted)

    def _within_bounds(self, values: NDArray[Any]) -> bool:
        """Whether no value lies beyond its bounds: mostly so, and found out sooner than a count."""
        endless = np.full(len(self.counted), np.inf)
        survey = self.engine.survey(-endless, endless, moments=False)
        survey.add(values)
        extremes, (low, high) = survey.result(), _column_limits_as_arrays(self.counted)
        return bool((extremes.lowest >= low).all() and (extremes.highest <= high).all())

    def on_sphere(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        with np.errstate(all="ignore"):
            return self.put_on_sphere(engine_values(batch, self.engine), self.rule.marks_or_zero(batch.labels))

    def put_on_sphere(
        self, values: NDArray[Any], marks: NDArray[np.int8]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Rows of values, and which are good; one whose mark is 0 is not."""
        constant = CONSTANT_VALUE if self.intercept else None
        return self.engine.sphere(values, marks, *self._limits, constant, GRID)


def _column_limits_as_arrays(columns: tuple[Column, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return declared_limit_arrays({c.name: c.constants[:2] for c in columns}, [c.name for c in columns])


@dataclass(frozen=True, eq=False)
class _FromSphere:
    sphere: SphereRows

    @property
    def rows_at_a_time(self) -> int:
        return self.sphere.rows_at_a_time

    @property
    def width(self) -> int:
        return self.sphere.width + self.by_class

    @cached_property
    def by_class(self) -> bool:
        """Whether rows have no sign, and carry their class."""
        return self.sphere.rule.n_classes > 2


@dataclass(frozen=True, eq=False)
class WhitenedRows(_FromSphere):
    """Edge vectors of rows on the sphere, mapped by `a` and put on the sphere again, as integers (M2, M16)."""

    a: NDArray[np.float64]

    title = "whitening rows"

    def rows(self, batch: Batch) -> NDArray[np.int32]:
        """The edge vectors of a batch, or its rows with their classes."""
        whiten, rule = self.sphere.engine.whiten, self.sphere.rule
        with np.errstate(all="ignore"):
            rows, _ = self.sphere.on_sphere(batch)
            if not self.by_class:
                return whiten(rows, self.a, rule.signs_or_zero(batch.labels), GRID)
            white = whiten(rows, self.a, np.ones(batch.n_rows, np.int8), GRID)
            return _append_classes_to_rows(white, rule.marks_or_zero(batch.labels))


@dataclass(frozen=True, eq=False)
class SphereEdges(_FromSphere):
    """Edge vectors of rows on the sphere: the integers of SphereRows times their labels (M1), or with them (M16).

    Products do not depend on the labels, and whitening is odd: so these rows serve both, and no label is read again.
    """

    title = "making columns"

    def rows(self, batch: Batch) -> NDArray[Any]:
        """The edge vectors of a batch; where a feature map makes the columns, a few rows at a time."""
        if not self.by_class:
            signs = self.sphere.rule.signs_or_zero(batch.labels)
            return self._on_sphere(batch, signs, signs)
        marks = self.sphere.rule.marks_or_zero(batch.labels)
        return _append_classes_to_rows(self._on_sphere(batch, marks, np.ones_like(marks)), marks)

    def _on_sphere(self, batch: Batch, marks: NDArray[np.int8], signs: NDArray[np.int8]) -> NDArray[Any]:
        """Rows on the sphere times `signs`; one whose mark is 0 is zero."""
        edges, start = np.empty((self.sphere.width, batch.n_rows), np.int16), 0
        with np.errstate(all="ignore"):
            blocks = mapped_value_blocks(batch, self.block_rows)
            if batch.device_values is not None:
                blocks = iter([engine_values(batch, self.sphere.engine)])
            for values in blocks:
                there = slice(start, start + len(values))
                rows = self.sphere.put_on_sphere(values, marks[there])[0] * signs[there]
                if edges.dtype == np.int16 and (rows == GRID).any():  # 16 bits do not hold it
                    edges = edges.astype(np.int32)
                edges[:, there] = rows
                start = there.stop
        return edges

    @property
    def block_rows(self) -> int:
        """As many as stay in the cache."""
        return max(64, _BLOCK_NUMBERS // self.width)


@dataclass(frozen=True, eq=False)
class Whiten:
    """Edge vectors, or rows with their classes, mapped by `a` and put on the sphere again, as integers (M2, M16)."""

    engine: Engine
    a: NDArray[np.float64]
    by_class: bool = False

    title = "whitening rows"

    @property
    def rows_at_a_time(self) -> int:
        return rows_per_moment_batch(self.width)

    @property
    def width(self) -> int:
        return len(self.a) + self.by_class

    def rows(self, batch: RowBatch) -> NDArray[np.int32]:
        """Those of a batch of rows that have their signs, or their classes, already."""
        rows, ones = batch.rows(), np.ones(batch.n_rows, np.int8)
        if not self.by_class:
            return self.engine.whiten(rows, self.a, ones, GRID)
        return _append_classes_to_rows(self.engine.whiten(rows[:-1], self.a, ones, GRID), rows[-1])


@dataclass(frozen=True, eq=False)
class SumProducts:
    """Sums of integer rows, of more than two classes a slot for each, and of their products once (M3, M16)."""

    engine: Engine
    width: int
    title: str = "whitened moments"
    n_classes: int = 2

    @property
    def by_class(self) -> bool:
        return self.n_classes > 2

    @property
    def rows_at_a_time(self) -> int:
        """As many as suit the cache; see `rows_per_moment_batch`."""
        return rows_per_moment_batch(self.width)

    @property
    def worker_bytes(self) -> int:
        """The products and slots, and room to add them."""
        slots = 32 * self.n_classes * (self.width + self.rows_at_a_time) if self.by_class else 0
        return 24 * self.width**2 + slots

    def empty(self) -> MomentSums:
        d = self.width
        shape = (self.n_classes, d) if self.by_class else (d,)
        return MomentSums(np.zeros((d, d), np.int64), np.zeros(shape, np.int64), RowCounts.zeros(0))

    def add(self, sums: MomentSums, first_row: int, batch: RowBatch) -> None:
        rows = batch.rows()
        products, vector = self.engine.products(rows[:-1] if self.by_class else rows)
        sums.products += products
        sums.vector += moment_sums_by_class(rows, self.n_classes) if self.by_class else vector


@dataclass(frozen=True, eq=False)
class MeanRado:
    """The sum of edge vectors under the logistic weights of theta, each capped (M2).

    With a theta for each of more than two classes, rows count times what their class has beyond its probabilities, each
    capped as one vector (M17).
    """

    engine: Engine
    theta: NDArray[np.float64]
    number: int
    in_all: int

    @property
    def rows_at_a_time(self) -> int:
        """As many as suit the cache; see `rows_per_moment_batch`."""
        return rows_per_moment_batch(self.theta.shape[-1])

    @property
    def title(self) -> str:
        return f"mean rado {self.number} of {self.in_all}"

    @property
    def worker_bytes(self) -> int:
        """The slots, and the weights of a batch."""
        weights = 16 * len(self.theta) * self.rows_at_a_time if self.theta.ndim == 2 else 0
        return 64 * self.theta.size + weights

    def empty(self) -> VectorSum:
        return VectorSum(np.zeros(self.theta.shape, np.int64))

    def add(self, sums: VectorSum, first_row: int, batch: RowBatch) -> None:
        if self.theta.ndim == 1:
            sums.vector += self.engine.tilt(batch.rows(), self.theta, GRID, CAP)
        else:
            sums.vector += self.engine.tilt_classes(batch.rows(), self.theta, GRID, WEIGHTS, MOST_SQUARES)


# ---- What a record contributes to the mechanism `moments` where there are more than two classes (M16 to M18).
#
# Rows have no sign. A row carries its class beside it, as one more integer, so that no label is read again: from
# 1 on, and 0 where there is none. To the sum it adds itself in the slot of its class, to the products itself
# once, and to a mean rado itself in every slot, by weights that are scaled as one vector.

WEIGHTS = 2**13  # so many units of a class weight are 1
MOST_SQUARES = WEIGHTS**2 // 2  # of the class weights of one row
CLASS_CAP = math.sqrt(MOST_SQUARES) / WEIGHTS  # on the norm of the class weights of a record


def _append_classes_to_rows(rows: NDArray[Any], marks: NDArray[Any]) -> NDArray[Any]:
    """Rows with their classes as the last integer of each."""
    return np.vstack([rows, marks.astype(rows.dtype)])


def moment_sums_by_class(rows: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """The sum of rows by class, which is the last integer of each; at most 2**16 rows, which are exact in float64."""
    slots = np.arange(1, n_classes + 1)[:, None] == rows[-1]
    sums: NDArray[np.int64] = (slots.astype(np.float64) @ rows[:-1].astype(np.float64).T).astype(np.int64)
    return sums
