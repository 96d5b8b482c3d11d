"""Whole weights as repetition: the table in which every row stands as often as its weight says, in place.

Each copy is a row of its own, with its own number. A row of weight 0 is not there. Copies are made a batch at a time:
memory does not grow with weights.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.column_selection import row_number_text
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host
from radoboost.tables.labels import comparable_labels
from radoboost.tables.table import Batch, Partition, Table, take_batch_rows

MOST = 2**31 - 1  # copies of the rows of a part: a table may not have more rows


def repeat_by_weight(source: Table, weights: Any = None) -> Table:
    """The table with every row repeated by its weight: that of `weights`, or of the column read beside the features."""
    pieces = [
        RepeatedPart(part) for part in (source.pieces if weights is None else attach_weights(source, weights).pieces)
    ]
    return replace(source, name=f"{source.name}, repeated by weights,", pieces=pieces, guess=None)


def attach_weights(source: Table, weights: Any) -> Table:
    """The table with weights that are not in it beside its rows, as if they were a column of it."""
    numbers = whole_row_weights(_weights_as_arrow(weights), row_number_text)
    sizes = [part.count() for part in source.parts()]
    if sum(sizes) != len(numbers):
        raise TableError(f"there are {len(numbers):,} weights and {sum(sizes):,} rows; give one weight a row")
    if len(numbers) and not numbers.any():
        raise TableError("every weight is zero, which leaves no rows; give at least one row a weight of 1 or more")
    shares = np.split(numbers, np.cumsum(sizes)[:-1]) if sizes else []
    return replace(
        source, pieces=[WeightedPartition(part, own) for part, own in zip(source.pieces, shares, strict=True)]
    )


def _weights_as_arrow(weights: Any) -> pa.Array:
    weights = copy_gpu_array_to_host(weights)
    numbers = np.ma.filled(weights.astype(np.float64), np.nan) if np.ma.isMaskedArray(weights) else np.asarray(weights)
    if numbers.ndim != 1:
        raise ArgumentError(
            f"weights must have one dimension, or be the name of a column; the shape is {numbers.shape}"
        )
    if numbers.dtype.kind in "biuf":
        numbers = np.ascontiguousarray(numbers, dtype=np.float64)
        return pa.Array.from_buffers(pa.float64(), len(numbers), [None, pa.py_buffer(numbers)])
    try:
        return pa.array(numbers.tolist())
    except pa.ArrowException:  # of several types
        return pa.array([None if cell is None else str(cell) for cell in numbers.tolist()])


@dataclass(frozen=True, eq=False)
class WeightedPartition:
    part: Partition
    weights: NDArray[np.int64] = field(repr=False)

    @property
    def n_rows(self) -> int | None:
        return self.part.n_rows

    def count(self) -> int:
        return self.part.count()

    def batches(self, most_rows: int) -> Iterator[Batch]:
        first = 0
        for batch in self.part.batches(most_rows):
            own = self.weights[first : first + batch.n_rows]
            yield batch._replace(persons=pa.Array.from_buffers(pa.int64(), len(own), [None, pa.py_buffer(own)]))
            first += batch.n_rows


@dataclass(frozen=True, eq=False)
class RepeatedPart:
    """The rows of a part, each as often as the weight beside it says."""

    part: Partition

    @property
    def n_rows(self) -> int | None:
        """How many copies there are, where weights are known without reading the table."""
        return int(self.part.weights.sum()) if isinstance(self.part, WeightedPartition) else None

    def count(self) -> int:
        return sum(batch.n_rows for batch in self.batches(1 << 16))

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """All copies, in order; a batch that they do not fit into is cut."""
        for batch in self.part.batches(most_rows):
            assert batch.persons is not None
            weights = whole_row_weights(batch.persons, batch.place)
            batch = batch._replace(persons=None)
            if (weights == 1).all():
                yield batch
                continue
            ends = np.cumsum(weights)
            if ends[-1] > most_rows:  # several batches of copies are made of the same values
                sparse = None if batch.sparse is None else cache(batch.sparse)
                batch = batch._replace(values=cache(batch.values), sparse=sparse)
            for start in range(0, int(ends[-1]), most_rows):
                copies = np.arange(start, min(start + most_rows, int(ends[-1])))
                yield take_batch_rows(batch, np.searchsorted(ends, copies, side="right"))


def whole_row_weights(column: pa.Array, place: Callable[[int], str]) -> NDArray[np.int64]:
    """Weights as whole numbers; one that is missing, negative, fractional or too large is refused, with its place."""
    column = comparable_labels(column)
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    except pa.ArrowException:
        numbers = np.array([_row_weight_of_cell(cell) for cell in column.to_pylist()])
    with np.errstate(invalid="ignore"):
        good = (numbers >= 0) & (numbers == np.floor(numbers)) & (numbers <= MOST)
    if not good.all():
        row = int(np.argmin(good))
        cell = column[row].as_py()
        what = "is missing" if cell is None or cell != cell else f"is {cell!r}"
        raise TableError(
            f"a weight {what} ({place(row)}): weights repeat rows, so they are whole numbers from 0 to {MOST:,}; "
            "correct it, or leave the row out"
        )
    if numbers.sum() > MOST:
        raise TableError(f"the weights add up to more than {MOST:,} rows, which is the most a table may have")
    weights: NDArray[np.int64] = numbers.astype(np.int64)
    return weights


def _row_weight_of_cell(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
