"""Whatever the caller has, opened as a source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables import frames
from radoboost.tables.column_selection import (
    LARGEST_INTEGER,
    ColumnChoice,
    column_names,
    refuse_inexact,
    row_number_text,
    stored_type,
)
from radoboost.tables.column_types import Number
from radoboost.tables.csv_dialect import PLAIN, CsvDialect
from radoboost.tables.files import open_files, schema_of_file
from radoboost.tables.folders import FolderColumns
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host, gpu_labels, is_gpu_array, open_gpu_array
from radoboost.tables.named_paths import folder_columns_of_path
from radoboost.tables.object_columns import array_object_cells
from radoboost.tables.paths import expand_paths, file_kind, is_paths, one_line_errors
from radoboost.tables.private_reader import ROW_BY_ROW, PrivateReader
from radoboost.tables.readers import Reader
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import SparseRows, matrix_and_column_names, matrix_column_names, sparse_rows_in_order
from radoboost.tables.streams import schema_of_stream, spool_stream, spooled_table
from radoboost.tables.strict_reader import STRICT, StrictReader
from radoboost.tables.table import Batch, Table, round_to_whole_tiles, rows_per_partition


def open_table(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    person: str | None = None,
    labelled: bool = True,
    row_by_row: bool = False,
    schema: Schema | None = None,
    marks: CsvDialect = PLAIN,
    gaps: bool = False,
    weights: str | None = None,
    on_cluster: bool = False,
) -> Table:
    """Open a table in any form, ready to be read.

    `table` is an array, in memory or on a CUDA device, a sparse matrix, a data frame, a dict of columns, a path, a list
    of paths, a folder, a glob pattern, or something that is read once, which is kept in a spool: a query, a lazy frame,
    a record batch reader. A frame on a cluster is opened with `on_cluster`, and then only workers of that cluster can
    read its parts; otherwise it is refused, for its rows would have to come here.
    The labels are `y`, or the column that `label` names; where `labelled` is False there may be none. `person` names
    the column that says whose row it is: it is read beside the features, and is none of them. In its place `weights`
    may name one. With `row_by_row`, no value decides how another is read and none is refused, as private mechanisms
    need it. A `schema` says what the columns of a raw table mean: it chooses them, and the features are then its
    encoded columns. `marks` says how a CSV file is written, where no schema does. With `gaps`, missing numbers are no
    reason to refuse a table that has no schema: they are NaN.
    """
    if not on_cluster:
        frames.refuse_cluster_frame(table, "reading it here")
    reading: Reader = PrivateReader(schema, marks) if row_by_row else StrictReader(schema, marks, gaps)
    if schema is not None:
        features, drop = schema.used, ()
    choice = ColumnChoice.of(label, features, drop, *((person, "person") if weights is None else (weights, "weights")))
    if y is None and label is None and labelled:
        raise ArgumentError("give the labels, as y or by the name of their column in label (--label COL)")
    if y is not None and label is not None:
        raise ArgumentError("give the labels once: as y, or as the name of their column in label (--label COL)")
    table = spool_stream(table, row_by_row=row_by_row)
    if row_by_row:
        _refuse_thousands_marks(table, reading)
    source = _open_table_of_any_kind(table, y, choice, reading)
    reading.check_opened(source)
    return source


def _refuse_thousands_marks(table: Any, reading: Reader) -> None:
    """Refuse points between thousands where columns have types, since one value can make texts of numbers.

    0.125 would then be the text "0.125", which reads as 125; no other mark gives a text two readings (C7 of
    docs/proofs/contributions.md).
    """
    csv_only = is_paths(table) and all(file_kind(path) == "csv" for path in expand_paths(table))
    schema = reading.schema
    points = schema is not None and "." in (
        reading.marks.thousands,
        *(kind.thousands for kind in schema.columns.values() if isinstance(kind, Number)),
    )
    if points and not csv_only:
        raise ArgumentError(
            "a private mechanism reads points between thousands from CSV files alone: pass their paths, or leave "
            "thousands out of the schema and write the numbers without such points"
        )


def _open_table_of_any_kind(table: Any, y: Any, choice: ColumnChoice, reading: Reader) -> Table:
    if frames.cluster_kind_of_frame(table):
        if y is not None:
            raise ArgumentError("labels of a frame on a cluster are one of its columns; name it in label")
        return frames.open_cluster_frame(table, choice, reading)
    if y is not None and (rows := spooled_table(table)) is not None:
        table = rows
    if is_paths(table):
        if y is not None:
            raise ArgumentError("labels of a file are one of its columns; name it in label")
        return open_files(expand_paths(table), choice, reading)
    taken_there = is_gpu_array(table) and reading.schema is None
    if taken_there and (labels_there := gpu_labels(y, reading)) is not None:
        return open_gpu_array(table, labels_there, choice, reading)
    labels = None if y is None else reading.labels(copy_gpu_array_to_host(y))
    if taken_there:
        return open_gpu_array(table, labels, choice, reading)
    table = copy_gpu_array_to_host(table)  # to be read as raw columns
    if reading.is_frame(table):
        return frames.open_frame(table, labels, choice, reading)
    if reading.schema is not None:
        return frames.open_frame(array_as_columns(table, choice, reading), labels, choice, reading)
    return open_array(table, labels, choice, reading)


def column_storage_of_table(table: Any) -> dict[str, str | None]:
    """The columns of a table with their storage types: "number", "binary" for truth values, or "text".

    The cells of a CSV file have no type, so it is None.
    """
    if (answer := schema_of_stream(table)) is not None:
        schema = answer
    elif frames.cluster_kind_of_frame(table):
        schema = frames.cluster_frame_schema(table)
    elif is_paths(table):
        path = expand_paths(table)[0]
        if file_kind(path) == "csv":
            return dict.fromkeys([*schema_of_file(path, ROW_BY_ROW).names, *folder_columns_of_path(path)])
        schema = FolderColumns.of([path], typed=True).added(schema_of_file(path, STRICT), path)
    elif STRICT.is_frame(table):
        with one_line_errors("the table"):
            schema = pa.table(table).schema
    else:
        array, names = matrix_and_column_names(table)
        return dict.fromkeys(matrix_column_names(names, np.shape(array)[1]), "number")
    return {name: stored_type(schema.field(name).type) for name in column_names(schema)}


# ---- NumPy arrays and sparse matrices as parts: slices of rows


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
        return _unpickle_array_part, (rows, labels, self.features, self.reading, self.first_row + self.start, persons)

    def _packed(self, column: pa.Array | None) -> pa.Buffer | None:
        return None if column is None else frames.pack_frame(pa.table([column[self.start : self.stop]], ["column"]))

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
            place = partial(row_number_text, first=self.first_row + start)
            entries = self.reading.takes_sparse and _is_sparse_matrix(self.x)
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
                refuse_inexact(values[[entry]], self.features[rows.places[entry]], lambda _: place(rows.row_of(entry)))
        return rows._replace(values=values.astype(np.float64) + 0.0)  # -0.0 is 0.0


def _is_sparse_matrix(x: Any) -> bool:
    return hasattr(x, "toarray")


def _unpickle_array_part(
    x: Any,
    labels: pa.Buffer | None,
    features: tuple[str, ...],
    reading: Reader,
    first_row: int,
    persons: pa.Buffer | None,
) -> ArrayPart:
    """A part that was sent here: it has its own rows only."""
    columns = [
        None if buffer is None else frames.unpack_frame(buffer).column(0).combine_chunks()
        for buffer in (labels, persons)
    ]
    return ArrayPart(x, columns[0], features, reading, 0, x.shape[0], first_row, columns[1])


def open_array(table: Any, labels: pa.Array | None, choice: ColumnChoice, reading: Reader) -> Table:
    """An array or a sparse matrix; its columns are called x0, x1, ..., unless they have names.

    Its labels are `labels`, or one of its columns.
    """
    table, names = matrix_and_column_names(table)
    x = reading.array(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    reading.check_dtype(x)
    if _is_sparse_matrix(x):
        x = sparse_rows_in_order(x) if reading.takes_sparse else x.tocsr()
    places = {name: k for k, name in enumerate(matrix_column_names(names, x.shape[1]))}
    features = choice.columns(list(places), "the array")
    if choice.label is not None:
        labels = _array_label_column(x, places[choice.label], reading)
    persons = None if choice.person is None else _array_label_column(x, places[choice.person], reading)
    n_rows = x.shape[0]
    frames.check_label_count(labels, n_rows)
    indices = [places[name] for name in features]
    if indices != list(range(x.shape[1])):
        x = x[:, indices]
    label = None if labels is None else choice.label or "y"
    rows = rows_per_partition(
        max(1, len(features)), round_to_whole_tiles(min(SLICE_ROWS, SLICE_VALUES // max(1, len(features))))
    )
    sparse_rows = None
    if reading.takes_sparse and _is_sparse_matrix(x):
        x = sparse_rows_in_order(x)  # choosing columns may leave them in another order
        if SPARSE_SHARE * x.nnz <= n_rows * x.shape[1]:
            rows = sparse_rows = round_to_whole_tiles(min(SPARSE_ROWS, SPARSE_ENTRIES * n_rows // max(1, x.nnz)))
    parts = [
        ArrayPart(x, labels, features, reading, start, min(start + rows, n_rows), persons=persons)
        for start in range(0, n_rows, rows)
    ]
    return Table("the array", features, label, parts, SLICE_VALUES, SLICE_ROWS, sparse_rows=sparse_rows)


def array_as_columns(table: Any, choice: ColumnChoice, reading: Reader) -> pa.Table:
    """An array or a sparse matrix as a table of columns, for a schema; those that nobody chose are null.

    They are called x0, x1, ..., unless they have names.
    """
    table, names = matrix_and_column_names(table)
    x = reading.array(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    x = x.toarray() if hasattr(x, "toarray") else x
    schema = reading.schema
    assert schema is not None
    columns = {}
    for k, name in enumerate(matrix_column_names(names, x.shape[1])):
        if name in (choice.label, choice.person):
            columns[name] = reading.labels(x[:, k])
        elif name in schema.columns:
            columns[name] = array_object_cells(x[:, k], schema.columns[name], schema.marks)
        else:
            columns[name] = pa.nulls(x.shape[0])
    return pa.table(columns)


def _array_label_column(x: Any, place: int, reading: Reader) -> pa.Array:
    column = x[:, [place]]
    return reading.labels(column.toarray().ravel() if hasattr(column, "toarray") else column.ravel())
