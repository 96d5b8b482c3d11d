"""Tables read so that no value decides how another is read: for mechanisms that promise something about records.

What a row gives is a function of that row alone, from the first byte on (C0 of docs/proofs/contributions.md). A row of
a CSV file is one line, whatever is in it. A cell that is no number is NaN. A label is taken on its own. What is refused
is refused on account of names and types, never of values.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.files import CSV_BLOCK_BYTES, csv_stream

LONGEST_LINE = 1 << 20  # a longer line is a row of which nothing can be used
_TEXT_BYTES = 1 << 24  # of empty rows, given to Arrow at a time
_NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$"


# ---- CSV, a line a row


def csv_names(path: Path, file: pa.NativeFile) -> list[str]:
    """The columns that the first line names."""
    lines = next(_lines(csv_stream(path, file)), [b""])
    names = _cells(lines[0].removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r"))
    if names is None or not any(names):
        raise TableError(f"cannot read {path}: its first line names no columns")
    return [name.decode("utf-8", "backslashreplace") for name in names]


def csv_batches(path: Path, file: pa.NativeFile, names: Sequence[str], wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """The wanted columns as bytes, a few megabytes at a time."""
    blank = b",".join([b'""'] * len(names))
    read = pa.csv.ReadOptions(column_names=names, use_threads=False)
    parse = pa.csv.ParseOptions(ignore_empty_lines=False)
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.binary()), include_columns=wanted, check_utf8=False
    )
    header, most = True, max(1, _TEXT_BYTES // len(blank))
    for lines in _lines(csv_stream(path, file)):
        rows = lines[1:] if header else lines
        header = False
        for start in range(0, len(rows), most):
            # An empty row goes first: of the first one Arrow would take a byte-order mark away, and of no other.
            part = [blank, *(_row(line, len(names), blank) for line in rows[start : start + most])]
            text = b"\n".join(part) + b"\n"
            read.block_size = len(text) + 1  # one block, so that no row lies across two
            table = pa.csv.read_csv(BytesIO(text), read_options=read, parse_options=parse, convert_options=convert)
            yield from table.slice(1).to_batches()


def _lines(stream: Any) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time; of one that is too long only that it is there."""
    rest, too_long = b"", False
    while chunk := stream.read(CSV_BLOCK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if too_long and lines:
            lines[0], too_long = b"", False
        if too_long or len(rest) > LONGEST_LINE + 1:  # of which one may be a carriage return
            rest, too_long = b"", True
        if lines:
            yield lines
    if rest or too_long:
        yield [rest]


def _row(line: bytes, n_cells: int, blank: bytes) -> bytes:
    """The line as one that certainly is one row of so many cells."""
    line = line.removesuffix(b"\r")
    if b'"' not in line and b"\r" not in line and len(line) <= LONGEST_LINE:
        return line if line.count(b",") == n_cells - 1 and (line or n_cells > 1) else blank
    cells = _cells(line)
    if cells is None or len(cells) != n_cells:
        return blank
    return b",".join(b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells)


def _cells(line: bytes) -> list[bytes] | None:
    """The cells of one line, by the usual rules of quoting; None where they give none."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        # One byte is one character here, so that nothing is lost or refused.
        cells = next(csv.reader([line.decode("latin-1").replace("\r", " ").replace("\n", " ")]), [])
    except csv.Error:
        return None
    return [cell.encode("latin-1") for cell in cells]


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
    filled: NDArray[np.float64] = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    return filled


# ---- labels and frames in memory


def each_label(y: Any) -> pa.Array:
    """Labels as text, each taken on its own; null where one is missing, or neither number, truth value nor text.

    >>> each_label([1, "yes", None, float("nan"), b"no", [2]]).to_pylist()
    ['1', 'yes', None, None, 'no', None]
    """
    if getattr(y, "ndim", 1) != 1 or isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise TableError(f"y must be a sequence of labels; it is a {type(y).__name__}")
    if str(getattr(y, "dtype", "object")) != "object" and hasattr(getattr(y, "array", None), "__arrow_array__"):
        y = y.array.__arrow_array__()  # a pandas column of a type of its own: Arrow takes its values one by one
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
            value.encode()  # half a surrogate pair is no text
            return value
        return str(value) if isinstance(value, bool | int) else None
    except ValueError:
        return None


def take_columns(table: Any, features: Sequence[str] | None, label: str | None) -> tuple[Any, pa.Array | None]:
    """A data frame without the columns that nobody asked for, and its labels where they must be taken one by one.

    A column of Python objects is refused, whatever it holds: how it would be read depends on all its values.
    """
    if not hasattr(table, "iloc"):
        arrow = pa.table(table)
        asked = None if features is None else {*features, label}
        return arrow if asked is None else arrow.select([name for name in arrow.column_names if name in asked]), None
    names = list(table.columns)
    if names.count(label) > 1:
        raise TableError(f"the table: several columns are called {label!r}; the label needs a name of its own")
    labels = each_label(table[label]) if label in names else None
    others = [name for name in table.columns if name != label and (features is None or name in features)]
    for name in others:
        if table[name].dtype == object:
            raise TableError(f"column {name!r} holds Python objects; make it a column of numbers first")
    return table[others].reset_index(drop=True), labels
