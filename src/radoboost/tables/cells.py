"""Which number a cell is, whatever type its column has.

One value can change the type of a column: a text among numbers makes pandas and polars read a column of text, a missing
value makes integers floats, a huge integer makes objects. Reading row by row must not depend on that. So a cell is the
same number in every type that can hold it, and a type that holds no numbers gives NaN in every row (C0 of
docs/proofs/contributions.md). Nothing here raises an exception on account of a value.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.tables.column_types import FIRST, LAST
from radoboost.tables.csv_dialect import PLAIN, CsvDialect

_TRUE, _FALSE = r"^[ \t]*(?i:true)[ \t]*$", r"^[ \t]*(?i:false)[ \t]*$"


def numbers_or_nan(column: pa.Array, marks: CsvDialect = PLAIN, *, plain_too: bool = True) -> NDArray[np.float64]:
    """A column as numbers, NaN where a cell is none. Texts are written with `marks`.

    With `plain_too`, a text that is no number with these marks may be one without: one value can make texts of a
    column of numbers, and then they are written as programs do.
    """
    kind = column.type
    if is_text(kind):
        return _text_cell_numbers(column, marks, plain_too)
    if pa.types.is_decimal(kind):  # by way of text: Arrow's own conversion is not rounded to nearest
        return _text_cell_numbers(column.cast(pa.string()), PLAIN, False)
    if pa.types.is_dictionary(kind):  # an index that points nowhere, which Arrow does not check, is NaN in its row
        return _category_cell_numbers(column.dictionary, category_cell_codes(column), marks, plain_too)
    if pa.types.is_run_end_encoded(kind):
        return _category_cell_numbers(column.values, run_length_codes(column), marks, plain_too)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.full(len(column), np.nan)
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    return numbers


def is_text(kind: pa.DataType) -> bool:
    """Whether a type holds text, or bytes that may be text."""
    names = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def as_bytes(column: pa.Array) -> pa.Array:
    """Texts as bytes, since text that is not UTF-8 is no reason to stop."""
    short = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    return column.cast(pa.binary() if short else pa.large_binary())


def _text_cell_numbers(column: pa.Array, marks: CsvDialect, plain_too: bool) -> NDArray[np.float64]:
    cells = as_bytes(column)
    nothing = pa.scalar(None, cells.type)
    cells = pc.if_else(pc.equal(pc.binary_length(cells), 0), nothing, cells)
    numbers = _finite_cell_numbers(cells, marks)
    if numbers is None:  # words for a gap are common, and no numbers
        words = pa.array([word.encode() for word in sorted(GAPS)], cells.type)
        cells = pc.if_else(pc.is_in(cells, words), nothing, cells)
        numbers = _finite_cell_numbers(cells, marks)
    if numbers is None:
        numbers = _number_cells_by_pattern(cells, marks)
        if plain_too and (marks.decimal, marks.thousands) != (".", None) and np.isnan(numbers).any():
            numbers = np.where(np.isnan(numbers), _number_cells_by_pattern(cells, PLAIN), numbers)
    return numbers


def _finite_cell_numbers(cells: pa.Array, marks: CsvDialect) -> NDArray[np.float64] | None:
    """Bytes as numbers, if all that are there are finite ones; None if not.

    Arrow converts no other texts to finite numbers than those that match the pattern, so this is only a faster way.
    """
    try:
        texts = _cells_as_text(cells)
        if marks.decimal != ".":
            if pc.any(pc.match_substring(texts, ".")).as_py():
                return None
            texts = pc.replace_substring(texts, marks.decimal, ".")
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    finite = pc.all(pc.is_finite(numbers)).as_py()
    return None if finite is False else numbers.fill_null(np.nan).to_numpy()


def _number_cells_by_pattern(cells: pa.Array, marks: CsvDialect) -> NDArray[np.float64]:
    """Bytes as numbers, NaN where one is none."""
    kind = cells.type
    for pattern, digit in ((_TRUE, b"1"), (_FALSE, b"0")):
        cells = pc.if_else(pc.match_substring_regex(cells, pattern), pa.scalar(digit, kind), cells)
    cells = pc.if_else(pc.match_substring_regex(cells, marks.number_pattern), cells, pa.scalar(None, kind))
    texts = pc.utf8_trim_whitespace(_cells_as_text(cells))
    if marks.thousands is not None:
        texts = pc.replace_substring(texts, marks.thousands, "")
    if marks.decimal != ".":
        texts = pc.replace_substring(texts, marks.decimal, ".")
    numbers: NDArray[np.float64] = texts.cast(pa.float64()).fill_null(np.nan).to_numpy()
    return numbers


def _cells_as_text(cells: pa.Array) -> pa.Array:
    return cells.cast(pa.string() if pa.types.is_binary(cells.type) else pa.large_string())


def category_cell_codes(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Which category each row has; -1 where a row has none, or an index that points nowhere."""
    places: NDArray[np.int64] = column.indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    return np.where(places < len(column.dictionary), places, -1)


def run_length_codes(column: pa.RunEndEncodedArray) -> NDArray[np.int64]:
    """Which run each row is in; -1 where there is none. Arrow's own decoding refuses some types."""
    ends = column.run_ends.to_numpy()
    places = np.searchsorted(ends, column.offset + np.arange(len(column)), side="right")
    return np.where(places < len(column.values), places, -1)


def _category_cell_numbers(
    categories: pa.Array, places: NDArray[np.int64], marks: CsvDialect, plain_too: bool
) -> NDArray[np.float64]:
    """The numbers of categories by their places, NaN where a place is negative.

    Only the categories that these rows have are read: a long one costs its own rows, and no other batch.
    """
    inside = places >= 0
    numbers = np.full(len(places), np.nan)
    used, positions = np.unique(places[inside], return_inverse=True)
    numbers[inside] = numbers_or_nan(take_cells(categories, used), marks, plain_too=plain_too)[positions]
    return numbers


def take_cells(values: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    """Values by their places, of any type; those of a type in which there are none to be had are null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        inner = category_cell_codes(values)[places]
        return pa.DictionaryArray.from_arrays(pa.array(inner, mask=inner < 0), values.dictionary)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        values = values.cast(pa.large_binary())  # Arrow cannot take from a view
    elif not (is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return pa.nulls(len(places))
    return values.take(pa.array(places))


def arrow_cells(array: NDArray[Any]) -> pa.Array:
    """A NumPy array of one dimension and any type as a column of numbers, where possible without a copy."""
    native = array.dtype.kind in "iuf" and array.dtype.itemsize <= 8 and array.dtype.isnative
    numbers = np.ascontiguousarray(array) if native and not np.ma.isMaskedArray(array) else array_cell_numbers(array)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


# What a missing value is written as; a category may declare any of these words as one of its values.
_NO_LABELS = frozenset(
    {
        *("", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NULL", "null", "None", "none"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
GAPS = _NO_LABELS | {"-", "--", "?", ".", "na"}  # which may well be labels: + and - are two classes


def _gap_words_pattern(words: Iterable[str]) -> str:
    return rf"^[ \t]*(?:{'|'.join(re.escape(word) for word in sorted(words))})[ \t]*$"


_GAP, _NO_LABEL = _gap_words_pattern(GAPS), _gap_words_pattern(_NO_LABELS)


def gap_cells(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column has no value: nulls, numbers that are NaN, and texts that stand for a missing value."""
    return _gap_cells_by_words(column, _GAP)


def gap_label_cells(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column of labels has none: as `gap_cells`, without signs that may be labels."""
    return _gap_cells_by_words(column, _NO_LABEL)


def _gap_cells_by_words(column: pa.Array, words: str) -> NDArray[np.bool_]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return np.append(_gap_cells_by_words(column.dictionary, words), True)[category_cell_codes(column)]
    if pa.types.is_run_end_encoded(kind):
        return np.append(_gap_cells_by_words(column.values, words), True)[run_length_codes(column)]
    missing: NDArray[np.bool_] = column.is_null(nan_is_null=pa.types.is_floating(kind)).to_numpy(zero_copy_only=False)
    if is_text(kind):
        matches = pc.match_substring_regex(as_bytes(column), words).fill_null(True)
        missing = missing | matches.to_numpy(zero_copy_only=False)
    return missing


def is_gap_text(text: str) -> bool:
    """Whether a text stands for a missing value."""
    return text.strip(" \t") in GAPS


# ---- Python objects, and arrays of any type


def object_cell_numbers(cells: Iterable[Any]) -> NDArray[np.float64]:
    """Python objects as numbers, each by itself; NaN where one is none."""
    with np.errstate(all="ignore"):
        values = [_object_cell_value(cell) for cell in cells]
    numbers = np.array([np.nan if isinstance(value, bytes) else value for value in values], dtype=np.float64)
    places = [place for place, value in enumerate(values) if isinstance(value, bytes)]
    numbers[places] = _text_cell_numbers(pa.array([values[place] for place in places], pa.large_binary()), PLAIN, False)
    return numbers


def _object_cell_value(cell: Any) -> float | bytes:
    """A number, or a text that may read as one."""
    try:
        if isinstance(cell, float | int | np.floating):
            return float(cell)
        if isinstance(cell, str | Decimal):
            return str(cell).encode()
        if isinstance(cell, bytes):
            return cell
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else np.nan
        if isinstance(cell, np.integer | np.bool_) and not isinstance(cell, np.timedelta64):
            return float(cell)
    except (OverflowError, ValueError):  # an integer beyond any float64, half a surrogate pair
        pass
    return np.nan


def array_cell_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """An array of any type as float32 or float64, C-contiguous, NaN where an element is no number."""
    if np.ma.isMaskedArray(array):
        elements = np.array(array.data, dtype=object)
        elements[np.ma.getmaskarray(array)] = None
        array = elements
    kind = array.dtype.kind
    with np.errstate(all="ignore"):
        if kind in "fiub":
            return np.ascontiguousarray(array, array.dtype if array.dtype in (np.float32, np.float64) else np.float64)
        if kind == "c":
            return np.where(array.imag == 0, array.real, np.nan).astype(np.float64)
    if kind in "mMV":
        return np.full(array.shape, np.nan)
    return object_cell_numbers(array.ravel().tolist()).reshape(array.shape)


# ---- Dates and times in whatever form they come, as whole seconds since the first of January 1970.
#
# A text has year, month and day in a declared order, and perhaps a time and a zone: "2024-01-31", "31.1.2024",
# "2024-01-31T12:30:00+01:00". One that begins with the year is read whatever order is declared, as programs write
# dates so. Without a zone it is taken as it is. Everything is integer arithmetic, cell by cell.

_GROUPS = {"y": r"(?P<year>[0-9]{4})", "m": r"(?P<month>[0-9]{1,2})", "d": r"(?P<day>[0-9]{1,2})"}
_TIME = (
    r"(?:[T ]+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_UNKNOWN = np.iinfo(np.int64).min


def date_cell_seconds(column: pa.Array, order: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The seconds of each row, rounded down, and where there is a date that can be read."""
    seconds = _date_seconds_or_unknown(column, order)
    known = seconds != _UNKNOWN
    return np.where(known, seconds, 0), known


def _date_seconds_or_unknown(column: pa.Array, order: str) -> NDArray[np.int64]:
    """The seconds of each row, `_UNKNOWN` where there is no date."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _category_date_seconds(column.dictionary, category_cell_codes(column), order)
    if pa.types.is_run_end_encoded(kind):
        return _category_date_seconds(column.values, run_length_codes(column), order)
    if is_text(kind):
        spellings = as_bytes(column).dictionary_encode()  # most columns have few dates, each of them many times
        return np.append(_text_date_seconds(spellings.dictionary, order), _UNKNOWN)[category_cell_codes(spellings)]
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return np.full(len(column), _UNKNOWN)
    if pa.types.is_date32(kind):
        seconds = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64) * 86400
    else:
        seconds = column.cast(pa.int64()).fill_null(0).to_numpy() // _TICKS[getattr(kind, "unit", "ms")]
    return _seconds_in_four_digit_years(seconds, column.is_valid().to_numpy(zero_copy_only=False))


def _seconds_in_four_digit_years(seconds: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.where(known & (seconds >= FIRST) & (seconds <= LAST), seconds, _UNKNOWN)


def _category_date_seconds(values: pa.Array, places: NDArray[np.int64], order: str) -> NDArray[np.int64]:
    """Dates by their places, none where a place is negative; only those are read that these rows have."""
    used, positions = np.unique(np.maximum(places, 0), return_inverse=True)
    if not len(values):
        return np.full(len(places), _UNKNOWN)
    return np.where(places < 0, _UNKNOWN, _date_seconds_or_unknown(take_cells(values, used), order)[positions])


def _text_date_seconds(cells: pa.Array, order: str) -> NDArray[np.int64]:
    """The seconds that texts stand for, in the declared order, or else with the year first."""
    seconds = _date_seconds_by_order(cells, order)
    if order == "ymd" or not (seconds == _UNKNOWN).any():
        return seconds
    return np.where(seconds == _UNKNOWN, _date_seconds_by_order(cells, "ymd"), seconds)


def _date_seconds_by_order(cells: pa.Array, order: str) -> NDArray[np.int64]:
    pattern = rf"^[ \t]*{'[-./ ]'.join(_GROUPS[part] for part in order)}{_TIME}[ \t]*$"
    parts = pc.extract_regex(cells, pattern)
    known = parts.is_valid().to_numpy(zero_copy_only=False)

    def whole(name: str) -> NDArray[np.int64]:
        digits = pc.struct_field(parts, name).cast(pa.large_string())
        digits = pc.if_else(pc.equal(digits, ""), "0", digits)
        numbers: NDArray[np.int64] = digits.cast(pa.int64()).fill_null(0).to_numpy()
        return numbers

    year, month, day = whole("year"), whole("month"), whole("day")
    known = known & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(known, (year - 1970) * 12 + month - 1, 0)
    first, after = (m.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for m in (months, months + 1))
    known &= day <= after - first
    hour, minute, second = whole("hour"), whole("minute"), whole("second")
    known &= (hour < 24) & (minute < 60) & (second < 60)
    zone = pc.struct_field(parts, "zone").cast(pa.large_string()).fill_null("")
    seconds = (first + day - 1) * 86400 + hour * 3600 + minute * 60 + second - _time_zone_seconds(zone)
    return _seconds_in_four_digit_years(seconds, known)


def _time_zone_seconds(zone: pa.Array) -> NDArray[np.int64]:
    """How far each zone is ahead of UTC."""
    encoded = zone.dictionary_encode()
    ahead = []
    for name in encoded.dictionary.to_pylist():
        digits = name[1:].replace(":", "")
        size = int(digits[:2]) * 3600 + int(digits[2:]) * 60 if digits.isdigit() else 0
        ahead.append(-size if name.startswith("-") else size)
    rows: NDArray[np.int64] = encoded.indices.to_numpy()
    return np.array([*ahead, 0], dtype=np.int64)[rows]


def weekday_or_month(seconds: NDArray[np.int64], part: str) -> NDArray[np.int64]:
    """The weekday, from 0 for Monday, or the month, from 0 for January."""
    days = seconds // 86400
    if part == "weekday":
        return (days + 3) % 7
    months: NDArray[np.int64] = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    return months
