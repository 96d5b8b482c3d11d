"""Tables read so that no value decides how another is read: for mechanisms that promise something about records.

What a row gives is a function of that row alone, from the first byte on (C0 of docs/proofs/contributions.md). A row of
a CSV file is a record as `csv_records` finds it. A cell is a number, or NaN, whatever type its column has (`cells`).
Each label is taken on its own. Names and the form of a table can be refused. Values never are, nor are types, since one
value can change the type of a column.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.cells import array_cell_numbers, arrow_cells, numbers_or_nan, object_cell_numbers
from radoboost.tables.csv_dialect import LINES, csv_separator
from radoboost.tables.csv_files import csv_names, csv_parts
from radoboost.tables.frames import slice_batches
from radoboost.tables.labels import labels_array
from radoboost.tables.object_columns import (
    named_object_columns,
    object_column_cells,
    object_labels_as_text,
    pandas_column_is_arrow,
)
from radoboost.tables.readers import ColumnSelection, Reader, refuse_one_time_tables
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import sparse_rows_as_float
from radoboost.tables.table import Partition


@dataclass(frozen=True)
class PrivateReader(Reader):
    """Reading in which a value matters to its own row only; see `Reader` for what each method is for.

    A record is used as a whole, and never by its entries. Folders are texts, for one record could add a folder.
    """

    must_not_change: ClassVar[bool] = True

    def labels(self, y: Any) -> pa.Array:
        """Labels one by one, unless their type says that all are numbers of one kind."""
        alike = isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and y.dtype.itemsize <= 8
        if not alike or isinstance(y, np.ma.MaskedArray):
            return object_labels_as_text(y)
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            return labels_array(y.astype(y.dtype.newbyteorder("=")))

    def is_frame(self, table: Any) -> bool:
        """Data frames, whose columns have types; a column of a dict would get its type from all its values."""
        return hasattr(table, "__arrow_c_stream__")

    def array(self, table: Any) -> Any:
        """An array or sparse matrix, with NaN for masked values; anything else is refused."""
        if hasattr(table, "toarray"):
            return sparse_rows_as_float(table)
        if not isinstance(table, np.ndarray):
            refuse_one_time_tables(table)
            raise TableError(
                f"a private mechanism takes NumPy arrays, sparse matrices, data frames and files; this is a "
                f"{type(table).__name__}: make a data frame of it, whose columns have names and types"
            )
        if isinstance(table, np.ma.MaskedArray):
            if table.dtype.kind not in "fiub":
                return table
            with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
                return np.ma.filled(table.astype(np.float64), np.nan)
        return np.asarray(table)

    def frame(self, table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, pa.Array | None]:
        """The columns that the caller chose, and labels one by one if they come from pandas."""
        return take_columns_privately(table, features, label, self.schema)

    def array_values(self, values: NDArray[Any], features: Sequence[str], place: Callable[[int], str]) -> NDArray[Any]:
        """Rows of an array as numbers, NaN where an element is none."""
        return array_cell_numbers(values)

    def numbers(self, column: pa.Array, name: str, place: Callable[[int], str]) -> NDArray[np.float64]:
        return numbers_or_nan(column, self.marks)

    def cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """Slices of batches; they are not joined, for a value could make that fail."""
        return slice_batches(batches, rows)

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns that the first line names; the cells of a CSV file have no type."""
        return pa.schema(
            [
                (name, pa.null())
                for name in csv_names(path, csv_separator(path, self.marks), self.marks.records == LINES)
            ]
        )

    def csv_parts(self, path: Path, schema: pa.Schema, selection: ColumnSelection) -> Sequence[Partition]:
        """Ranges of bytes, from the start of one record to that of another."""
        return csv_parts(path, schema.names, selection, csv_separator(path, self.marks), self.marks.records == LINES)


ROW_BY_ROW = PrivateReader()


# ---- frames in memory


_NOT_IN_ARROW = ("Object", "Int128", "UInt128")  # types of polars


def take_columns_privately(
    table: Any, features: Sequence[str] | None, label: str | None, schema: Schema | None = None
) -> tuple[pa.Table, pa.Array | None]:
    """The columns of a data frame, each taken by itself, and its labels where they must be taken one by one.

    Columns that nobody chose are not looked at, and null.
    """
    columns = named_object_columns(table)
    if columns is None:
        return pa.table(table), None
    names = [name for name, _ in columns]
    if names.count(str(label)) > 1:
        raise TableError(f"the table: several columns are called {label!r}; the label needs a name of its own")
    of_pandas = hasattr(table, "iloc")
    arrays, labels = [], None
    for name, column in columns:
        if name == label:
            one_by_one = of_pandas or str(column.dtype) in _NOT_IN_ARROW
            labels = object_labels_as_text(column) if one_by_one else private_polars_column(column)
        elif features is not None and name not in features:
            arrays.append(pa.nulls(len(column)))
        elif schema is not None:
            arrays.append(object_column_cells(column, schema.columns[name], schema.marks))
        else:
            arrays.append(private_pandas_column(column) if of_pandas else private_polars_column(column))
    return pa.table(arrays, [name for name in names if name != label]), labels


def private_pandas_column(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column of pandas, in a type that Arrow has for it, or else as numbers; which of them, its type decides."""
    if hasattr(column, "cat"):
        numbers = np.append(object_cell_numbers(column.cat.categories), np.nan)
        return arrow_cells(numbers[column.cat.codes.to_numpy()])  # -1, no category, is the last one
    if pandas_column_is_arrow(column):
        return column.array.__arrow_array__()
    return arrow_cells(np.asarray(column))


def private_polars_column(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column of polars: as Arrow has it, or as numbers where Arrow has no such type."""
    if str(column.dtype) in ("Int128", "UInt128"):
        column = column.cast(float, strict=False)
    if str(column.dtype) == "Object":  # Arrow would get addresses
        return arrow_cells(object_cell_numbers(column.to_list()))
    try:
        return pa.chunked_array(column)
    except pa.ArrowInvalid:  # no such type, whatever the values are
        return pa.nulls(len(column), pa.float64())
