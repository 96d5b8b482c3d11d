"""NumPy arrays and sparse matrices as parts: slices of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.column_selection import LARGEST_INTEGER, ColumnChoice, check_integers, row_place
from radoboost.tables.frames import check_length, pack_table, unpack_table
from radoboost.tables.object_columns import array_cells
from radoboost.tables.readers import Reader
from radoboost.tables.sparse import SparseRows, array_and_names, column_labels, whole_rows
from radoboost.tables.table import Batch, Table, part_rows, whole_tiles

SLICE_VALUES, SLICE_ROWS = 1 << 20, 8192  # at most, in a batch of an array: small, for a slice costs nothing
SPARSE_ENTRIES, SPARSE_ROWS = 1 << 20, 65536  # about, in a batch of sparse rows: many, for sums are taken by column
SPARSE_SHARE = 8  # where more than one cell in so many has an entry, dense rows are summed faster


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """The rows of `x` from `start` to `stop`; the first row of `x` is row `first_row` of the table."""

    x: Any
    labels: pa.Array | None
    features: tuple[str, ...]
    reading: Reader
    start: int
    stop: int
    first_row: int = 0
    persons: pa.Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.x[self.start : self.stop]
        labels, persons = self._packed(self.labels), self._packed(self.persons)
        return _rows_of_array, (rows, labels, self.features, self.reading, self.first_row + self.start, persons)

    def _packed(self, column: pa.Array | None) -> pa.Buffer | None:
        return None if column is None else pack_table(pa.table([column[self.start : self.stop]], ["column"]))

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    def count(self) -> int:
        return self.n_rows

    def batches(self, most_rows: int) -> Iterator[Batch]:
        for start in range(self.start, self.stop, most_rows):
            stop = min(start + most_rows, self.stop)
            labels = None if self.labels is None else self.labels[start:stop]
            persons = None if self.persons is None else self.persons[start:stop]
            place = partial(_array_row, self.first_row + start)
            entries = self.reading.takes_sparse and _is_sparse(self.x)
            sparse = partial(self._sparse, start, stop, place) if entries else None
            values = partial(self._values, start, stop, place)
            yield Batch(stop - start, labels, values, place, persons, sparse=sparse)

    def _values(self, start: int, stop: int, place: Any) -> NDArray[Any]:
        rows = self.x[start:stop]
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        return self.reading.array_values(rows, self.features, place)

    def _sparse(self, start: int, stop: int, place: Any) -> SparseRows:
        first, last = self.x.indptr[start], self.x.indptr[stop]
        starts = self.x.indptr[start : stop + 1].astype(np.int64) - first
        values = self.x.data[first:last]
        rows = SparseRows(self.x.shape[1], starts, self.x.indices[first:last].astype(np.int32), values)
        if values.dtype.kind in "iu":
            beyond = (values > LARGEST_INTEGER) | (values < -LARGEST_INTEGER)
            if beyond.any():
                entry = int(np.argmax(beyond))
                check_integers(values[[entry]], self.features[rows.places[entry]], lambda _: place(rows.row_of(entry)))
        return rows._replace(values=values.astype(np.float64) + 0.0)  # -0.0 is 0.0


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "toarray")


def _rows_of_array(
    x: Any,
    labels: pa.Buffer | None,
    features: tuple[str, ...],
    reading: Reader,
    first_row: int,
    persons: pa.Buffer | None,
) -> ArrayPart:
    """A part that was sent here: it has its own rows only."""
    columns = [
        None if buffer is None else unpack_table(buffer).column(0).combine_chunks() for buffer in (labels, persons)
    ]
    return ArrayPart(x, columns[0], features, reading, 0, x.shape[0], first_row, columns[1])


def _array_row(first_row: int, row: int) -> str:
    return row_place(first_row + row)


def open_array(table: Any, labels: pa.Array | None, choice: ColumnChoice, reading: Reader) -> Table:
    """An array or a sparse matrix; its columns are called x0, x1, ..., unless they have names.

    Its labels are `labels`, or one of its columns.
    """
    table, names = array_and_names(table)
    x = reading.array(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    reading.check_dtype(x)
    if _is_sparse(x):
        x = whole_rows(x) if reading.takes_sparse else x.tocsr()
    places = {name: k for k, name in enumerate(column_labels(names, x.shape[1]))}
    features = choice.columns(list(places), "the array")
    if choice.label is not None:
        labels = _label_column(x, places[choice.label], reading)
    persons = None if choice.person is None else _label_column(x, places[choice.person], reading)
    n_rows = x.shape[0]
    check_length(labels, n_rows)
    indices = [places[name] for name in features]
    if indices != list(range(x.shape[1])):
        x = x[:, indices]
    label = None if labels is None else choice.label or "y"
    rows = part_rows(max(1, len(features)), whole_tiles(min(SLICE_ROWS, SLICE_VALUES // max(1, len(features)))))
    sparse_rows = None
    if reading.takes_sparse and _is_sparse(x):
        x = whole_rows(x)  # choosing columns may leave them in another order
        if SPARSE_SHARE * x.nnz <= n_rows * x.shape[1]:
            rows = sparse_rows = whole_tiles(min(SPARSE_ROWS, SPARSE_ENTRIES * n_rows // max(1, x.nnz)))
    parts = [
        ArrayPart(x, labels, features, reading, start, min(start + rows, n_rows), persons=persons)
        for start in range(0, n_rows, rows)
    ]
    return Table("the array", features, label, parts, SLICE_VALUES, SLICE_ROWS, sparse_rows=sparse_rows)


def array_columns(table: Any, choice: ColumnChoice, reading: Reader) -> pa.Table:
    """An array or a sparse matrix as a table of columns, for a schema; those that nobody chose are null.

    They are called x0, x1, ..., unless they have names.
    """
    table, names = array_and_names(table)
    x = reading.array(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    x = x.toarray() if hasattr(x, "toarray") else x
    schema = reading.schema
    assert schema is not None
    columns = {}
    for k, name in enumerate(column_labels(names, x.shape[1])):
        if name in (choice.label, choice.person):
            columns[name] = reading.labels(x[:, k])
        elif name in schema.columns:
            columns[name] = array_cells(x[:, k], schema.columns[name], schema.marks)
        else:
            columns[name] = pa.nulls(x.shape[0])
    return pa.table(columns)


def _label_column(x: Any, place: int, reading: Reader) -> pa.Array:
    """One column of an array, as labels are taken."""
    column = x[:, [place]]
    return reading.labels(column.toarray().ravel() if hasattr(column, "toarray") else column.ravel())
