"""Tables read so that no value decides how another is read: for mechanisms that promise something about records.

What a row gives is a function of that row alone, from the first byte on (C0 of docs/proofs/contributions.md). A row of
a CSV file is one line, whatever is in it. A cell is a number, or NaN, whatever type its column has (`cells`). Each
label is taken on its own. Names and the form of a table can be refused. Values never are, nor are types, since one
value can change the type of a column.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.cells import array_numbers, as_column, numbers_or_nan, object_numbers
from radoboost.tables.csv_lines import csv_names, csv_parts
from radoboost.tables.frames import sliced
from radoboost.tables.labels import LONGEST_LABEL, in_one_piece, labels_array
from radoboost.tables.marks import PLAIN, Marks, file_separator
from radoboost.tables.reading import Selection, refuse_unread
from radoboost.tables.schema import Schema
from radoboost.tables.source import Part, Source
from radoboost.tables.sparse import sparse_rows


@dataclass(frozen=True)
class RowByRow:
    """Reading in which a value matters to its own row only; see `Reading` for what each method is for."""

    schema: Schema | None = None
    given: Marks = PLAIN

    @property
    def marks(self) -> Marks:
        """As the schema says, or as given where there is none."""
        return self.given if self.schema is None else self.schema.marks

    def labels(self, y: Any) -> pa.Array:
        """Labels one by one, unless their type says that all are numbers of one kind."""
        alike = isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and y.dtype.itemsize <= 8
        if not alike or isinstance(y, np.ma.MaskedArray):
            return each_label(y)
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            return labels_array(y.astype(y.dtype.newbyteorder("=")))

    def is_frame(self, table: Any) -> bool:
        """Data frames, whose columns have types; a column of a dict would get its type from all its values."""
        return hasattr(table, "__arrow_c_stream__")

    def array(self, table: Any) -> Any:
        """An array or sparse matrix, with NaN for masked values; anything else is refused."""
        if hasattr(table, "toarray"):
            return sparse_rows(table)
        if not isinstance(table, np.ndarray):
            refuse_unread(table)
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
        return take_columns(table, features, label)

    def check_types(self, schema: pa.Schema, features: Sequence[str]) -> None:
        """Refuse nothing: one value can change the type of a column."""

    def check_dtype(self, array: Any) -> None:
        """Refuse nothing: one value can change the type of an array."""

    def array_values(self, values: NDArray[Any], features: Sequence[str], place: Callable[[int], str]) -> NDArray[Any]:
        """Rows of an array as numbers, NaN where an element is none."""
        return array_numbers(values)

    def numbers(self, column: pa.Array, name: str, place: Callable[[int], str]) -> NDArray[np.float64]:
        """A column as numbers, NaN where it has none."""
        return numbers_or_nan(column, self.marks)

    def complaints(
        self, column: pa.Array, name: str, numbers: NDArray[np.float64], place: Callable[[int], str]
    ) -> list[str]:
        """None: cells that cannot be read count as missing."""
        return []

    def cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """Slices of batches; they are not joined, for a value could make that fail."""
        return sliced(batches, rows)

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns that the first line names; the cells of a CSV file have no type."""
        return pa.schema([(name, pa.null()) for name in csv_names(path, file_separator(path, self.marks))])

    def csv_parts(self, path: Path, schema: pa.Schema, selection: Selection) -> Sequence[Part]:
        """Ranges of bytes, in which a row is a line."""
        return csv_parts(path, schema.names, selection, file_separator(path, self.marks))

    def check_opened(self, source: Source) -> None:
        """Refuse nothing: the table may have no rows."""


ROW_BY_ROW = RowByRow()


# ---- labels and frames in memory


def each_label(y: Any) -> pa.Array:
    """Labels as text, each taken on its own; null where one is missing, or neither number, truth value nor text.

    >>> each_label([1, "yes", None, float("nan"), b"no", [2]]).to_pylist()
    ['1', 'yes', None, None, 'no', None]
    """
    if getattr(y, "ndim", 1) != 1 or isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise TableError(f"y must be a sequence of labels; it is a {type(y).__name__}")
    if _has_arrow_values(y):
        y = y.array.__arrow_array__()
    if isinstance(y, pa.ChunkedArray):
        return in_one_piece(y)
    if isinstance(y, pa.Array):
        return y
    if isinstance(y, np.ma.MaskedArray):
        y = [None if hidden else value for value, hidden in zip(y.data, np.ma.getmaskarray(y), strict=True)]
    # Beyond 2 GiB an array of small strings would come in pieces: one label more could do that.
    return pa.array([_label_text(value) for value in y], pa.large_string())


def _label_text(value: Any) -> str | None:
    try:
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is not text
            return value
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, float | np.floating):
            return None if math.isnan(value) else repr(float(value))
        if isinstance(value, int):  # digits of a huge one would take long
            return str(value) if value.bit_length() <= LONGEST_LABEL else None
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, complex | np.complexfloating):  # one complex number among labels makes all of them so
            return repr(float(value.real)) if value.imag == 0 else None
        if isinstance(value, np.integer | np.bool_) and not isinstance(value, np.timedelta64):
            return str(value.item())
    except ValueError:
        pass
    return None


_NOT_IN_ARROW = ("Object", "Int128", "UInt128")  # types of polars


def take_columns(table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, pa.Array | None]:
    """The chosen columns of a data frame, each taken by itself, and its labels where they must be taken one by one."""
    if hasattr(table, "iloc"):
        names, take = [str(name) for name in table.columns], pandas_column
    elif hasattr(table, "get_columns"):
        names, take = list(table.columns), polars_column
    else:
        arrow = pa.table(table)
        chosen = [name for name in arrow.column_names if features is None or name in {*features, label}]
        return arrow if features is None else arrow.select(chosen), None
    if len([name for name in names if name == label]) > 1:
        raise TableError(f"the table: several columns are called {label!r}; the label needs a name of its own")
    places = [k for k, name in enumerate(names) if name != label and (features is None or name in features)]
    columns = [take(_column(table, k)) for k in places]
    labels = None
    if label in names:
        labels = _column(table, names.index(label))
        one_by_one = take is pandas_column or str(labels.dtype) in _NOT_IN_ARROW
        labels = each_label(labels) if one_by_one else polars_column(labels)
    return pa.table(columns, [names[k] for k in places]), labels


def _column(table: Any, place: int) -> Any:
    """A column of pandas or polars, by its place: several may have one name."""
    return table.iloc[:, place] if hasattr(table, "iloc") else table.to_series(place)


def pandas_column(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column of pandas, in a type that Arrow has for it, or else as numbers; which of them, its type decides."""
    if hasattr(column, "cat"):
        numbers = np.append(object_numbers(column.cat.categories), np.nan)
        return as_column(numbers[column.cat.codes.to_numpy()])  # -1, no category, is the last one
    if _has_arrow_values(column):
        return column.array.__arrow_array__()
    return as_column(np.asarray(column))


def polars_column(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column of polars: as Arrow has it, or as numbers where Arrow has no such type."""
    if str(column.dtype) in ("Int128", "UInt128"):
        column = column.cast(float, strict=False)
    if str(column.dtype) == "Object":  # Arrow would get addresses
        return as_column(object_numbers(column.to_list()))
    try:
        return pa.chunked_array(column)
    except pa.ArrowInvalid:  # no such type, whatever the values are
        return pa.nulls(len(column), pa.float64())


def _has_arrow_values(column: Any) -> bool:
    """Whether pandas keeps a column as Arrow would, so that no value can stop it from handing it over."""
    kind = getattr(column, "dtype", None)
    own = hasattr(column, "array") and hasattr(column.array, "__arrow_array__")
    return own and not isinstance(kind, np.dtype) and getattr(kind, "storage", "pyarrow") == "pyarrow"
