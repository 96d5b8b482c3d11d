"""Columns of data frames and arrays for a schema, and labels: each as Arrow has it, or else cell by cell as texts.

One value can change the type of a column: a text among dates or integers makes objects of all of them. So an object is
spelled as a text that reads as the same number, value or date as its own type would (C7 of
docs/proofs/contributions.md). Nothing here raises an exception on account of a value, or looks at one to choose a type.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError
from radoboost.tables.cells import arrow_cells, date_cell_seconds, gap_cells, numbers_or_nan, weekday_or_month
from radoboost.tables.column_selection import NO_VALUE
from radoboost.tables.column_types import (
    GAP,
    LAST,
    PARTS,
    UNITS,
    Category,
    Date,
    Kind,
    Number,
    seconds_of_iso_date,
)
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.labels import LONGEST_LABEL, join_label_chunks, places_of_cells
from radoboost.tables.readers import Reader, unreadable_cells_error
from radoboost.tables.table import MissingCells, UnreadableCells

_UNITS = {"W": 7 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}
_FRACTIONS = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_EPOCH = datetime(1970, 1, 1)


def spell_object_cells(cells: Iterable[Any], kind: Kind, marks: CsvDialect) -> pa.Array:
    """Python objects as texts, each by itself; null where one is missing."""
    spell: Callable[[Any], str | None] = _text_of_number_or_flag
    if isinstance(kind, Date):
        spell = _object_date_text
    elif (decimal := (kind.dialect(marks) if isinstance(kind, Number) else marks).decimal) != ".":
        spell = partial(_object_number_text, decimal=decimal)
    # Beyond 2 GiB an array of small strings would come in pieces: one cell more could do that.
    with np.errstate(all="ignore"):
        return pa.array([_spell_object(cell, spell) for cell in cells], pa.large_string())


def _spell_object(cell: Any, spell: Callable[[Any], str | None]) -> str | None:
    try:
        if cell is None or type(cell).__name__ in ("NAType", "NaTType", "MaskedConstant"):
            return None
        if isinstance(cell, bytes):
            return cell.decode()
        if isinstance(cell, str):
            cell.encode()  # half a surrogate pair is not text
            return str(cell)
        return spell(cell)
    except Exception:  # objects may do anything when they are asked; such a one is no value
        return NO_VALUE + type(cell).__name__


def spell_undeclared_objects(cells: Iterable[Any]) -> pa.Array:
    """Python objects of a column that nobody has said anything about, each by itself; null where one is missing."""
    return pa.array([_spell_object(cell, _text_of_object) for cell in cells], pa.large_string())


def _text_of_object(cell: Any) -> str | None:
    if isinstance(cell, UUID):
        return str(cell)
    return _object_date_text(cell) if isinstance(cell, date | np.datetime64) else _text_of_number_or_flag(cell)


def _text_of_number_or_flag(cell: Any) -> str | None:
    """A number or a truth value as a text, in its shortest spelling."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, complex | np.complexfloating) and cell.imag == 0:
        cell = cell.real
    if isinstance(cell, float | np.floating):
        return None if math.isnan(cell) else repr(float(cell))
    if isinstance(cell, int | np.integer) and not isinstance(cell, np.timedelta64):
        whole = int(cell)
        return str(whole) if whole.bit_length() <= LONGEST_LABEL else NO_VALUE + "huge integer"
    return str(cell) if isinstance(cell, Decimal) else NO_VALUE + type(cell).__name__


def _object_number_text(cell: Any, decimal: str) -> str | None:
    text = _text_of_number_or_flag(cell)
    return text if text is None or text.startswith(NO_VALUE) else text.replace(".", decimal)


def _object_date_text(cell: Any) -> str | None:
    """A date or a time as a text, in UTC if it has a zone, in the ISO form that is read whatever order is declared."""
    if isinstance(cell, np.datetime64):
        seconds, known = _numpy_date_seconds(np.array([cell]))
        if not known[0]:
            return None
        moment = _EPOCH + timedelta(seconds=int(seconds[0]))
    elif isinstance(cell, datetime):
        moment = datetime(cell.year, cell.month, cell.day, cell.hour, cell.minute, cell.second, cell.microsecond)
        moment -= cell.utcoffset() or timedelta(0)
    elif isinstance(cell, date):
        moment = datetime(cell.year, cell.month, cell.day)
    elif isinstance(cell, float | np.floating) and math.isnan(cell):
        return None
    else:
        return NO_VALUE + type(cell).__name__
    return moment.replace(microsecond=0).isoformat()


def object_cell_text(cell: pa.Scalar) -> str:
    """A cell for a message, cut short if it is long."""
    try:
        value = cell.as_py()
        text = f"a {value[1:]}" if isinstance(value, str) and value.startswith(NO_VALUE) else repr(value)
    except (ValueError, UnicodeError):  # text that is not UTF-8, a date beyond what Python has
        text = str(cell.type)
    return text if len(text) <= 60 else f"{text[:56]}..."


# ---- arrays


def array_object_cells(array: NDArray[Any], kind: Kind, marks: CsvDialect) -> pa.Array:
    """A NumPy array of one dimension and any type as a column; its type decides the way, and no value does."""
    code = array.dtype.kind
    if np.ma.isMaskedArray(array):
        hidden = np.ma.getmaskarray(array)
        if code not in "mMV":
            return spell_object_cells((None if h else c for c, h in zip(array.data, hidden, strict=True)), kind, marks)
        array = np.where(hidden, np.array("NaT", array.dtype), array.data) if code in "mM" else array.data
    if code in "iuf" and array.dtype.itemsize <= 8:
        return arrow_cells(array)
    if code == "b":
        return arrow_cells(array.astype(np.int8))
    if code == "M":
        seconds, known = _numpy_date_seconds(array)
        return pa.array(seconds, mask=~known).cast(pa.timestamp("s"))
    if code == "m":  # nothing can be made of durations: their type and what is missing is all that counts
        return pa.array(np.zeros(len(array), np.int64), mask=np.isnat(array)).cast(pa.duration("s"))
    if code == "V":
        return pa.nulls(len(array), pa.list_(pa.null()))
    return spell_object_cells(array if code in "cf" else array.tolist(), kind, marks)


def _numpy_date_seconds(array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Seconds of dates of any unit, rounded down, and where there are any; all beyond the year 9999 are alike."""
    known = ~np.isnat(array)
    unit, count = np.datetime_data(array.dtype)
    ticks = np.where(known, array.astype(array.dtype.newbyteorder("="), copy=False).view(np.int64), 0)
    if unit in ("Y", "M"):
        limit = 12 * 10**4 // count  # far beyond the years that count
        months = np.clip(ticks, -limit, limit) * count * (12 if unit == "Y" else 1)
        days = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
        return np.clip(days * 86400, -LAST - 1, LAST + 1), known
    if unit in _UNITS:
        step = _UNITS[unit] * count
        limit = LAST // step + 1
        return np.clip(ticks, -limit, limit) * step, known
    if unit in _FRACTIONS:
        # Whole numbers of Python, where the product may not fit: units of so many fractions are rare.
        seconds = ticks // _FRACTIONS[unit] if count == 1 else _floor_date_ticks(ticks, count, _FRACTIONS[unit])
        return np.clip(seconds, -LAST - 1, LAST + 1), known
    return np.zeros(len(array), np.int64), np.zeros(len(array), bool)  # without a unit these are no dates


def _floor_date_ticks(ticks: NDArray[np.int64], count: int, divisor: int) -> NDArray[np.int64]:
    limit = LAST + 1
    return np.array([max(-limit, min(limit, tick * count // divisor)) for tick in ticks.tolist()], np.int64)


# ---- columns of libraries


def pandas_object_cells(column: Any, kind: Kind, marks: CsvDialect) -> pa.Array | pa.ChunkedArray:
    dtype = column.dtype
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy()
        words = pandas_object_cells(column.cat.categories, kind, marks)
        words = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
    if pandas_column_is_arrow(column):
        return column.array.__arrow_array__()
    if getattr(dtype, "kind", "O") == "M" and not isinstance(dtype, np.dtype):  # with a zone
        return array_object_cells(column.to_numpy(dtype=f"M8[{dtype.unit}]"), kind, marks)
    return array_object_cells(np.asarray(column), kind, marks)


def pandas_column_is_arrow(column: Any) -> bool:
    """Whether pandas keeps a column as Arrow would, so that no value can stop it from handing it over."""
    kind = getattr(column, "dtype", None)
    own = hasattr(column, "array") and hasattr(column.array, "__arrow_array__")
    return own and not isinstance(kind, np.dtype) and getattr(kind, "storage", "pyarrow") == "pyarrow"


def polars_object_cells(column: Any, kind: Kind, marks: CsvDialect) -> pa.Array | pa.ChunkedArray:
    if str(column.dtype) == "Object":  # Arrow would get addresses
        return spell_object_cells(column.to_list(), kind, marks)
    if str(column.dtype) in ("Int128", "UInt128"):
        column = column.cast(str)
    try:
        return pa.chunked_array(column)
    except pa.ArrowInvalid:  # no such type, whatever the values are
        return pa.nulls(len(column), pa.list_(pa.null()))


def object_column_cells(column: Any, kind: Kind, marks: CsvDialect) -> pa.Array | pa.ChunkedArray:
    """A column of any library, or a list."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if hasattr(column, "iloc"):
        return pandas_object_cells(column, kind, marks)
    if isinstance(column, np.ndarray):
        return array_object_cells(column, kind, marks)
    if hasattr(column, "__arrow_c_stream__"):
        return polars_object_cells(column, kind, marks)
    return spell_object_cells(column, kind, marks)


def refuse_complex_columns(table: Any) -> None:
    """Refuse columns of complex numbers by their type, all of them at once; Arrow has none."""
    held = {name: kind for name, column in named_object_columns(table) or () if (kind := _complex_column_type(column))}
    if held:
        words = ", ".join(f"column {name!r} holds {kind}" for name, kind in held.items())
        its, it = ("its", "it") if len(held) == 1 else ("their", "them")
        raise TableError(
            f"{words}, not numbers on a line; take {its} parts (real, imag), or leave {it} out of the table"
        )


def _complex_column_type(column: Any) -> str:
    """The type of a column of complex numbers; empty of any other."""
    dtype = getattr(column, "dtype", None)
    if dtype is not None and getattr(dtype, "kind", "O") != "O":
        return str(dtype) if dtype.kind == "c" else ""
    if dtype is None and not isinstance(column, list | tuple):
        return ""
    return "complex numbers" if any(isinstance(cell, complex | np.complexfloating) for cell in column) else ""


def named_object_columns(table: Any) -> list[tuple[str, Any]] | None:
    """The columns of a frame of pandas or polars, or of a dict, by their places; None for any other table."""
    if isinstance(table, dict):
        return [(str(name), column) for name, column in table.items()]
    if hasattr(table, "iloc"):
        return [(str(name), table.iloc[:, k]) for k, name in enumerate(table.columns)]
    if hasattr(table, "get_columns"):
        return [(column.name, column) for column in table.get_columns()]
    return None


# ---- labels


def object_labels_as_text(y: Any) -> pa.Array:
    """Labels as text, each taken on its own; null where one is missing, or neither number, truth value nor text."""
    if getattr(y, "ndim", 1) != 1 or isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise TableError(f"y must be a sequence of labels; it is a {type(y).__name__}")
    if pandas_column_is_arrow(y):
        y = y.array.__arrow_array__()
    if isinstance(y, pa.ChunkedArray):
        return join_label_chunks(y)
    if isinstance(y, pa.Array):
        return y
    if isinstance(y, np.ma.MaskedArray):
        y = [None if hidden else value for value, hidden in zip(y.data, np.ma.getmaskarray(y), strict=True)]
    # Beyond 2 GiB an array of small strings would come in pieces: one label more could do that.
    return pa.array([_object_label_text(value) for value in y], pa.large_string())


def _object_label_text(value: Any) -> str | None:
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


# ---- Raw cells as encoded columns, by a schema.
#
# What a row gives depends on that row alone, whichever way it is read (C7 of docs/proofs/contributions.md).


@dataclass(frozen=True, eq=False)
class EncodedCells:
    """The raw columns of some rows, which become encoded columns when somebody asks for them.

    `typed` says that the columns have types, so that one value may have made texts of numbers; cells of CSV files do
    not.
    """

    columns: Sequence[pa.Array]
    reading: Reader
    place: Callable[[int], str]
    typed: bool = True

    def values(self) -> NDArray[np.float64]:
        """The encoded columns, shape (rows, encoded columns), C-contiguous; none is missing."""
        return self._encoded[0]

    def gaps(self) -> MissingCells:
        """Where cells of the raw columns are missing or not readable, or an unknown value."""
        return self._encoded[1]

    def unread(self) -> Mapping[str, UnreadableCells]:
        """The cells of numbers and dates that are there and cannot be read, for each raw column that has any."""
        schema, found = self.reading.schema, {}
        assert schema is not None
        for name, column, unread in zip(schema.used, self.columns, self.gaps().unread.T, strict=True):
            if unread.any() and (odd := unread & ~gap_cells(column)).any():
                row = int(np.argmax(odd))
                found[name] = UnreadableCells(int(odd.sum()), object_cell_text(column[row]), partial(self.place, row))
        return found

    @cached_property
    def _encoded(self) -> tuple[NDArray[np.float64], MissingCells]:
        schema, marks = self.reading.schema, self.reading.marks
        assert schema is not None
        values = np.zeros((len(self.columns[0]), len(schema.encoded())))
        missing, unknown, unread = np.zeros((3, len(self.columns), len(values)), dtype=bool)
        unforeseen = np.zeros(len(values), dtype=bool)
        complaints: dict[str, list[str]] = {}
        start = 0
        for k, (name, column) in enumerate(zip(schema.used, self.columns, strict=True)):
            kind = schema.columns[name]
            width = len(list(kind.encoded(name)))
            block = values[:, start : start + width]
            start += width
            if isinstance(kind, Category):
                missing[k], unknown[k] = _encode_category_slots(kind, column, block, marks)
                unforeseen |= (missing[k] & (not kind.gaps)) | (unknown[k] & (not kind.other))
                continue
            assert isinstance(kind, Number | Date)
            numbers, seconds = read_measured_cells(kind, column, marks, typed=self.typed)
            if odd := self.reading.complaints(column, name, numbers, self.place):
                complaints[name] = odd
            unread[k] = ~np.isfinite(numbers)
            codes, beyond = declared_gaps(kind, numbers)
            missing[k] = unread[k] | codes | beyond
            unforeseen |= missing[k] & ~codes & (not kind.gaps)
            _fill_missing_numbers(numbers, missing[k], kind.filled(), kind.gaps, block)
            if isinstance(kind, Date):
                _encode_date_parts(kind, seconds, np.flatnonzero(~missing[k]), block)
        if complaints:
            raise unreadable_cells_error(complaints)
        return values, MissingCells(missing.T, unknown.T, unread.T, unforeseen)


def read_measured_cells(
    kind: Number | Date, column: pa.Array, marks: CsvDialect, *, typed: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The cells of a number or a date as numbers, NaN where there is none; and the seconds of dates."""
    if isinstance(kind, Number):
        marks = kind.dialect(marks) if kind.decimal or kind.thousands else marks
        return numbers_or_nan(column, marks, plain_too=typed), np.zeros(0, dtype=np.int64)
    seconds, known = date_cell_seconds(column, kind.order)
    return np.where(known, (seconds - seconds_of_iso_date(kind.origin)) / UNITS[kind.unit], np.nan), seconds


def declared_gaps(kind: Number | Date, numbers: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where numbers, or dates as numbers, are codes for a gap, and where they are a gap for being beyond bounds."""
    codes, beyond = np.zeros((2, len(numbers)), dtype=bool)
    if kind.missing:
        codes = np.isin(numbers, kind.codes())
    if kind.beyond == GAP:
        low, high = kind.bounds()
        beyond = ~codes & ((numbers < low) | (numbers > high))
    return codes, beyond


def missing_cells(kind: Kind, column: pa.Array, marks: CsvDialect, *, typed: bool) -> NDArray[np.bool_]:
    """Where a raw column has no value, as it is declared: not where a cell cannot be read."""
    if isinstance(kind, Number | Date):
        codes, beyond = declared_gaps(kind, read_measured_cells(kind, column, marks, typed=typed)[0])
        return np.asarray(gap_cells(column) | codes | beyond)
    if isinstance(kind, Category) and kind.values is not None:
        places = places_of_cells(column, kind.places(marks), kind.key, len(kind.values), marks)
        return np.asarray((places == len(kind.values)) | ((places < 0) & (kind.other == GAP)))
    return gap_cells(column)


def _encode_category_slots(
    kind: Category, column: pa.Array, block: NDArray[np.float64], marks: CsvDialect
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Set at most one slot of each row; where values are missing, and where they are unknown."""
    assert kind.values is not None
    gap = len(kind.values)
    places = places_of_cells(column, kind.places(marks), kind.key, gap, marks)
    missing, unknown = places == gap, places < 0
    for where, slot in ((unknown, kind.slot_of_other), (missing, kind.slot_of_gap)):
        places[where] = -1 if slot is None else slot
    rows = np.flatnonzero(places >= 0)
    block[rows, places[rows]] = 1.0
    return missing | (unknown & (kind.other == GAP)), unknown


def _fill_missing_numbers(
    numbers: NDArray[np.float64], missing: NDArray[np.bool_], fill: float, gaps_too: bool, block: NDArray[np.float64]
) -> None:
    """Write numbers, filled where they are missing, and where that is."""
    block[:, 0] = np.where(missing, fill, numbers)
    if gaps_too:
        block[:, 1] = missing


def _encode_date_parts(
    kind: Date, seconds: NDArray[np.int64], rows: NDArray[np.int64], block: NDArray[np.float64]
) -> None:
    """Set the slots of weekday and month of the rows that have a date."""
    start = 1 + kind.gaps
    for part in kind.parts:
        block[rows, start + weekday_or_month(seconds, part)[rows]] = 1.0
        start += len(PARTS[part])


def encoded_column_names(reading: Reader, features: tuple[str, ...]) -> tuple[str, ...]:
    """What a source calls its features: the encoded columns of a schema, or the columns as they are."""
    return features if reading.schema is None else tuple(column.name for column in reading.schema.encoded())
