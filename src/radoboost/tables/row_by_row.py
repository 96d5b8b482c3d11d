"""Tables read so that no value decides how another is read: for mechanisms that promise something about records.

What a row gives is a function of that row alone, from the first byte on (C0 of docs/proofs/contributions.md). A row of
a CSV file is one line, whatever is in it. A cell that is not a number is NaN. Each label is taken on its own. Names and
types can be refused, values never are.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.csv_lines import csv_names, csv_parts
from radoboost.tables.frames import sliced
from radoboost.tables.labels import labels_array
from radoboost.tables.reading import Selection
from radoboost.tables.source import Part, Source

_NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$"


@dataclass(frozen=True)
class RowByRow:
    """Reading in which a value matters to its own row only; see `Reading` for what each method is for."""

    def labels(self, y: Any) -> pa.Array:
        """Labels one by one, unless their type says that all are numbers of one kind."""
        alike = isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and not isinstance(y, np.ma.MaskedArray)
        return labels_array(y.astype(y.dtype.newbyteorder("="))) if alike else each_label(y)

    def is_frame(self, table: Any) -> bool:
        """Data frames, whose columns have types; a column of a dict would get its type from all its values."""
        return hasattr(table, "__arrow_c_stream__")

    def array(self, table: Any) -> Any:
        """An array or sparse matrix, with NaN for masked values; anything else is refused."""
        if not isinstance(table, np.ndarray) and not hasattr(table, "toarray"):
            raise TableError(
                f"a private mechanism takes NumPy arrays, sparse matrices, data frames and files; this is a "
                f"{type(table).__name__}: convert it first"
            )
        if isinstance(table, np.ma.MaskedArray):
            with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
                numbers = table.dtype.kind in "fiub"
                return np.ma.filled(table.astype(np.float64), np.nan) if numbers else np.asarray(table)
        return table if hasattr(table, "toarray") else np.asarray(table)

    def frame(self, table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, pa.Array | None]:
        """The columns that the caller chose, and labels one by one if they come from pandas."""
        columns, labels = take_columns(table, features, label)
        return pa.table(columns), labels

    def check_array(self, values: NDArray[Any], features: Sequence[str], place: Callable[[int], str]) -> None:
        """Refuse nothing."""

    def numbers(self, column: pa.Array, name: str, place: Callable[[int], str]) -> NDArray[np.float64]:
        """A column as numbers, NaN where it has none."""
        return numbers_or_nan(column)

    def cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """Slices of batches; they are not joined, for a value could make that fail."""
        return sliced(batches, rows)

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns that the first line names; the cells of a CSV file have no type."""
        return pa.schema([(name, pa.null()) for name in csv_names(path)])

    def csv_parts(self, path: Path, schema: pa.Schema, selection: Selection) -> Sequence[Part]:
        """Ranges of bytes, in which a row is a line."""
        return csv_parts(path, schema.names, selection)

    def check_opened(self, source: Source) -> None:
        """Refuse nothing: the table may have no rows."""


ROW_BY_ROW = RowByRow()


def numbers_or_nan(column: pa.Array) -> NDArray[np.float64]:
    """A column as numbers, NaN where it has none; cells that come as bytes are read one by one.

    >>> numbers_or_nan(pa.array([b"1.5", b" 2 ", b"few", b"", None, b"true"]))
    array([1.5, 2. , nan, nan, nan, 1. ])
    """
    if pa.types.is_binary(column.type):
        truth = pc.match_substring_regex(column, "^ *(?i:true) *$")
        column = pc.if_else(truth, b"1", pc.if_else(pc.match_substring_regex(column, "^ *(?i:false) *$"), b"0", column))
        column = pc.if_else(pc.match_substring_regex(column, _NUMBER), column, pa.scalar(None, pa.binary()))
        column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    return numbers


# ---- labels and frames in memory


def each_label(y: Any) -> pa.Array:
    """Labels as text, each taken on its own; null where one is missing, or neither number, truth value nor text.

    >>> each_label([1, "yes", None, float("nan"), b"no", [2]]).to_pylist()
    ['1', 'yes', None, None, 'no', None]
    """
    if getattr(y, "ndim", 1) != 1 or isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise TableError(f"y must be a sequence of labels; it is a {type(y).__name__}")
    if str(getattr(y, "dtype", "object")) != "object" and hasattr(getattr(y, "array", None), "__arrow_array__"):
        with suppress(UnicodeError, pa.ArrowException):  # on account of a value: then one by one, below
            y = y.array.__arrow_array__()  # a pandas extension type: Arrow takes its values one by one
    if isinstance(y, pa.ChunkedArray):
        y = y.combine_chunks()
    if isinstance(y, pa.Array):
        return y
    if isinstance(y, np.ma.MaskedArray):
        y = [None if hidden else value for value, hidden in zip(y.data, np.ma.getmaskarray(y), strict=True)]
    return pa.array([_label_text(value) for value in y], pa.string())


def _label_text(value: Any) -> str | None:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    try:
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, float):
            return None if math.isnan(value) else repr(value)
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is not text
            return value
        return str(value) if isinstance(value, bool | int) else None
    except ValueError:
        return None


def take_columns(table: Any, features: Sequence[str] | None, label: str | None) -> tuple[Any, pa.Array | None]:
    """The chosen columns of a data frame, and its labels where they must be taken one by one.

    A column of Python objects is refused, whatever it holds: how it would be read depends on all its values.
    """
    if not hasattr(table, "iloc"):
        arrow = pa.table(table)
        if features is None:
            return arrow, None
        return arrow.select([name for name in arrow.column_names if name in {*features, label}]), None
    names = list(table.columns)
    if names.count(label) > 1:
        raise TableError(f"the table: several columns are called {label!r}; the label needs a name of its own")
    labels = each_label(table[label]) if label in names else None
    others = [name for name in table.columns if name != label and (features is None or name in features)]
    for name in others:
        if table[name].dtype == object:
            raise TableError(f"column {name!r} holds Python objects; make it a column of numbers first")
    return table[others].reset_index(drop=True), labels
