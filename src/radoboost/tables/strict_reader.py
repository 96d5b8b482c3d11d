"""Tables read strictly: a missing value, a third class or a text among numbers is refused, with its place."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, NeedsSchema, TableError
from radoboost.tables import column_selection
from radoboost.tables.cells import gap_cells
from radoboost.tables.csv_dialect import csv_separator
from radoboost.tables.csv_files import CsvFile, csv_schema
from radoboost.tables.frames import join_small_batches
from radoboost.tables.labels import labels_array
from radoboost.tables.object_columns import (
    named_object_columns,
    object_cell_text,
    object_column_cells,
    object_labels_as_text,
    refuse_complex_columns,
)
from radoboost.tables.paths import first_file_stamp, one_line_errors
from radoboost.tables.readers import ColumnSelection, Reader, refuse_one_time_tables
from radoboost.tables.schema import Schema
from radoboost.tables.table import Partition, Table


@dataclass(frozen=True)
class StrictReader(Reader):
    """Reading that refuses what cannot be used; see `Reader` for what each method is for.

    With `gaps`, a missing number is NaN, and no reason to refuse; nor is a cell that cannot be read by a schema.
    """

    gaps: bool = False

    takes_sparse: ClassVar[bool] = True

    @property
    def typed_folders(self) -> bool:
        """Numbers, if all folders are called by some, and no schema says what the column is."""
        return self.schema is None

    def labels(self, y: Any) -> pa.Array:
        return labels_array(y)

    def is_frame(self, table: Any) -> bool:
        """Data frames, and dicts of columns."""
        return hasattr(table, "__arrow_c_stream__") or isinstance(table, dict)

    def array(self, table: Any) -> Any:
        """Anything that NumPy can make an array of; values may be masked only where there is a schema."""
        refuse_one_time_tables(table)
        if self.gaps and np.ma.isMaskedArray(table):
            table = np.ma.filled(table.astype(np.float64), np.nan)
        if self.schema is not None and np.ma.isMaskedArray(table):
            return table
        if np.ma.is_masked(table):
            row, k = np.argwhere(np.ma.getmaskarray(table))[0].tolist()
            raise strict_missing_value_error(f"x{k}", column_selection.row_number_text(row))
        with one_line_errors("the array"):
            x = table if hasattr(table, "toarray") else np.asarray(table)
        if x.ndim == 0:
            raise TableError(
                f"a {type(table).__name__} is not a table; pass an array, a sparse matrix, a data frame, a dict of "
                "columns, or paths of files"
            )
        return x

    def frame(self, table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, None]:
        """All its columns; with a schema those that were chosen, so that objects are read one by one."""
        if self.schema is None or features is None:
            _refuse_sparse_pandas_columns(table)
            try:
                return pa.table(table), None
            except pa.ArrowNotImplementedError:
                refuse_complex_columns(table)
                raise
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:  # values of several types in a column
                raise NeedsSchema(f"cannot read {_untakable_text(table)}: {str(error).splitlines()[0]}") from None
        return take_columns_strictly(table, features, label, self.schema), None

    def check_types(self, schema: pa.Schema, features: Sequence[str]) -> None:
        """Refuse columns that are not of numbers, or not of what a schema says that they are."""
        if self.schema is None:
            column_selection.check_feature_types(schema, features)
        else:
            column_selection.check_column_kinds(schema, {name: self.schema.columns[name].kind for name in features})

    def check_dtype(self, array: Any) -> None:
        """Refuse an array that is not of real numbers."""
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            wrong = NeedsSchema if array.dtype.kind in "OSUT" else TableError
            raise wrong(f"the array must hold real numbers; its dtype is {array.dtype}; convert it first")

    def array_values(self, values: NDArray[Any], features: Sequence[str], place: Callable[[int], str]) -> NDArray[Any]:
        """Rows of an array; integers that float64 cannot tell apart are refused."""
        if values.dtype.kind in "iu":
            for k, name in enumerate(features):
                column_selection.refuse_inexact(values[:, k], name, place)
        return np.ascontiguousarray(values, values.dtype if values.dtype in (np.float32, np.float64) else np.float64)

    def numbers(self, column: pa.Array, name: str, place: Callable[[int], str]) -> NDArray[Any]:
        """A column as numbers; none of them is missing, or those are NaN."""
        if column.null_count and self.gaps:
            known = column.is_valid().to_numpy(zero_copy_only=False)
            if pa.types.is_null(column.type) or pa.types.is_boolean(column.type):
                column = column.cast(pa.int8())  # which has a 0 to put into gaps
            return np.where(known, self.numbers(column.fill_null(0), name, place).astype(np.float64), np.nan)
        if column.null_count:
            raise strict_missing_value_error(name, place(pc.index(column.is_null(), True).as_py()))
        if pa.types.is_decimal(column.type):
            # By way of text: Arrow's own conversion is not rounded to nearest.
            column = column.cast(pa.string()).cast(pa.float64())
            column_selection.refuse_inexact(column.to_numpy(), name, place, column_selection.LARGEST_INTEGER - 1)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if pa.types.is_integer(column.type):
            column_selection.refuse_inexact(values, name, place)
        return values

    def complaints(
        self, column: pa.Array, name: str, numbers: NDArray[np.float64], place: Callable[[int], str]
    ) -> list[str]:
        """The first cell that is there and is no number or no date, is infinite, or is too large an integer."""
        if self.gaps:
            return []
        odd = ~np.isfinite(numbers)
        odd &= column.is_valid().to_numpy(zero_copy_only=False)
        if odd.any():
            odd &= ~gap_cells(column)
        if odd.any():
            row = int(np.argmax(odd))
            if np.isinf(numbers[row]):
                return [f"column {name!r} has an infinite value ({place(row)})"]
            kind = "number" if self.schema is None else self.schema.columns[name].kind
            return [f"column {name!r} has {object_cell_text(column[row])} ({place(row)}), which is no {kind}"]
        inexact = first_inexact_integer(column, numbers)
        if inexact is None:
            return []
        return [f"column {name!r} has an integer beyond 2**53 ({place(inexact)}), which float64 cannot hold"]

    def cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` rows; small ones are joined."""
        return join_small_batches(batches, rows)

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns, with the types that the first rows suggest; with a schema all are texts."""
        if self.schema is None and self.marks.thousands is not None:
            raise ArgumentError("marks between thousands need a schema; write one with rado schema")
        found = csv_schema(path, csv_separator(path, self.marks), self.marks.decimal)
        return found if self.schema is None else pa.schema([(name, pa.string()) for name in found.names])

    def csv_parts(self, path: Path, schema: pa.Schema, selection: ColumnSelection) -> Sequence[Partition]:
        return [CsvFile(path, first_file_stamp(path), selection, None, schema, csv_separator(path, self.marks))]

    def check_opened(self, source: Table) -> None:
        """Refuse a table that is known to have no rows."""
        source.check_rows(source.n_rows)


def take_columns_strictly(table: Any, features: Sequence[str], label: str | None, schema: Schema) -> pa.Table:
    """The columns of a data frame or a dict: features as raw columns, the label as Arrow has it, others null."""
    columns = named_object_columns(table)
    if columns is None:
        return pa.table(table)
    arrays = []
    for name, column in columns:
        if name == label:
            arrays.append(_take_labels_strictly(name, column))
        elif name in features:
            arrays.append(object_column_cells(column, schema.columns[name], schema.marks))
        else:
            arrays.append(pa.nulls(len(column)))
    return pa.table(arrays, [name for name, _ in columns])


def _take_labels_strictly(name: str, column: Any) -> pa.Array | pa.ChunkedArray:
    try:
        if str(getattr(column, "dtype", "")) != "Object":
            return pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    kinds = {isinstance(value, str) for value in column if isinstance(value, str | Real | np.bool_) and value == value}
    if len(kinds) > 1:
        raise TableError(f"the label {name!r} mixes numbers and text; make all of them text")
    return object_labels_as_text(column)


def _refuse_sparse_pandas_columns(table: Any) -> None:
    """Refuse sparse columns of pandas, which Arrow has no type for."""
    columns = named_object_columns(table) if hasattr(table, "iloc") else None
    names = [name for name, column in columns or () if str(column.dtype).startswith("Sparse[")]
    if names and len(names) == len(columns or ()):
        raise TableError(
            "the columns of this data frame are sparse; pass the matrix with its names: rb.NamedMatrix(df.sparse."
            "to_coo().tocsr(), list(df.columns)), and the labels as y"
        )
    if names:
        raise TableError(
            f"the columns {column_selection.list_names(names)} of this data frame are sparse, and others are not; "
            "make them dense: df[name] = df[name].sparse.to_dense()"
        )


def _untakable_text(table: Any) -> str:
    names = []
    for name, column in named_object_columns(table) or ():
        try:
            pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(column)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            names.append(name)
    return f"column {column_selection.list_names(names)}" if names else "the table"


def first_inexact_integer(column: pa.Array, numbers: NDArray[np.float64]) -> int | None:
    """The first row with an integer that float64 may not hold, as a text or as a number of whatever type; or None."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return None
    for row in np.flatnonzero(np.abs(numbers) >= column_selection.LARGEST_INTEGER).tolist():
        cell = column[row].as_py()
        text = cell.decode() if isinstance(cell, bytes) else cell
        if isinstance(cell, Decimal) or (isinstance(cell, int) and abs(cell) > column_selection.LARGEST_INTEGER):
            return int(row)
        if isinstance(text, str) and not set(text) & set("eE") and not text.strip().startswith("."):
            return int(row)
    return None


def strict_missing_value_error(name: str, place: str) -> NeedsSchema:
    return NeedsSchema(f"column {name!r} has a missing value ({place}); fill in or drop such rows or columns")


STRICT = StrictReader()
