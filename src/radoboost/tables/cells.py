"""Which number a cell is, whatever type its column has.

One value can change the type of a column: a text among numbers makes pandas and polars read a column of text, a missing
value makes integers floats, a huge integer makes objects. Reading row by row must not depend on that. So a cell is the
same number in every type that can hold it, and a type that holds no numbers gives NaN in every row (C0 of
docs/proofs/contributions.md). Nothing here raises an exception on account of a value.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# No two parts can match the same characters, so that a long text takes no longer than its length.
_NUMBER = r"^[ \t]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"
_TRUE, _FALSE = r"^[ \t]*(?i:true)[ \t]*$", r"^[ \t]*(?i:false)[ \t]*$"


def numbers_or_nan(column: pa.Array) -> NDArray[np.float64]:
    """A column as numbers, NaN where a cell is none.

    >>> numbers_or_nan(pa.array(["1.5", " 2 ", "few", "", None, "true"]))
    array([1.5, 2. , nan, nan, nan, 1. ])
    >>> numbers_or_nan(pa.array([[1], [2, 3]]))
    array([nan, nan])
    """
    kind = column.type
    if is_text(kind):
        return _text_numbers(column)
    if pa.types.is_decimal(kind):  # by way of text: Arrow's own conversion is not rounded to nearest
        return _text_numbers(column.cast(pa.string()))
    if pa.types.is_dictionary(kind):
        return _category_numbers(column)
    if pa.types.is_run_end_encoded(kind):
        return _numbers_at(column.values, run_places(column))
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


def _text_numbers(column: pa.Array) -> NDArray[np.float64]:
    """Texts as numbers. They are matched as bytes, since text that is not UTF-8 is no reason to stop."""
    short = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    cells = column.cast(pa.binary() if short else pa.large_binary())
    kind = cells.type
    for pattern, digit in ((_TRUE, b"1"), (_FALSE, b"0")):
        cells = pc.if_else(pc.match_substring_regex(cells, pattern), pa.scalar(digit, kind), cells)
    cells = pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, pa.scalar(None, kind))
    texts = pc.utf8_trim_whitespace(cells.cast(pa.string() if short else pa.large_string()))
    numbers: NDArray[np.float64] = texts.cast(pa.float64()).fill_null(np.nan).to_numpy()
    return numbers


def _category_numbers(column: pa.DictionaryArray) -> NDArray[np.float64]:
    """Categories as numbers; an index that points nowhere, which Arrow does not check, is NaN in its row alone."""
    return _numbers_at(column.dictionary, category_places(column))


def category_places(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Which category each row has; -1 where a row has none, or an index that points nowhere."""
    places: NDArray[np.int64] = column.indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    return np.where(places < len(column.dictionary), places, -1)


def run_places(column: pa.RunEndEncodedArray) -> NDArray[np.int64]:
    """Which run each row is in; -1 where there is none. Arrow's own decoding refuses some types."""
    ends = column.run_ends.to_numpy()
    places = np.searchsorted(ends, column.offset + np.arange(len(column)), side="right")
    return np.where(places < len(column.values), places, -1)


def _numbers_at(categories: pa.Array, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """The numbers of categories by their places, NaN where a place is negative.

    Only the categories that these rows have are read: a long one costs its own rows, and no other batch.
    """
    inside = places >= 0
    numbers = np.full(len(places), np.nan)
    used, positions = np.unique(places[inside], return_inverse=True)
    numbers[inside] = numbers_or_nan(_chosen(categories, used))[positions]
    return numbers


def _chosen(categories: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    if pa.types.is_string_view(categories.type) or pa.types.is_binary_view(categories.type):
        categories = categories.cast(pa.large_binary())  # Arrow cannot take from a view
    elif not (is_text(categories.type) or pa.types.is_primitive(categories.type)):
        return as_column(numbers_or_nan(categories)[places])
    return categories.take(pa.array(places))


def as_column(array: NDArray[Any]) -> pa.Array:
    """A NumPy array of one dimension and any type as a column of numbers, where possible without a copy."""
    native = array.dtype.kind in "iuf" and array.dtype.itemsize <= 8 and array.dtype.isnative
    numbers = np.ascontiguousarray(array) if native and not np.ma.isMaskedArray(array) else array_numbers(array)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


# What a missing value is written as; a category may declare any of these words as one of its values.
GAPS = frozenset(
    {
        *("", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NULL", "null", "None", "none"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)


def gaps(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column has no value: nulls, numbers that are NaN, and texts that stand for a missing value.

    >>> gaps(pa.array(["1", "", "NA", None, "x"])).tolist()
    [False, True, True, True, False]
    """
    kind = column.type
    missing: NDArray[np.bool_] = column.is_null(nan_is_null=pa.types.is_floating(kind)).to_numpy(zero_copy_only=False)
    if is_text(kind):
        short = pa.types.is_string(kind) or pa.types.is_binary(kind)
        cells = column.cast(pa.binary() if short else pa.large_binary())
        words = pa.array([word.encode() for word in sorted(GAPS)], cells.type)
        missing = missing | pc.is_in(cells, words).to_numpy(zero_copy_only=False)
    return missing


# ---- Python objects, and arrays of any type


def object_numbers(cells: Iterable[Any]) -> NDArray[np.float64]:
    """Python objects as numbers, each by itself; NaN where one is none.

    >>> object_numbers([1, "2", b"3", True, None, 10**400, Decimal("0.5"), [4], "few"])
    array([1. , 2. , 3. , 1. , nan, nan, 0.5, nan, nan])
    """
    with np.errstate(all="ignore"):
        values = [_number_or_text(cell) for cell in cells]
    numbers = np.array([np.nan if isinstance(value, bytes) else value for value in values], dtype=np.float64)
    places = [place for place, value in enumerate(values) if isinstance(value, bytes)]
    numbers[places] = _text_numbers(pa.array([values[place] for place in places], pa.large_binary()))
    return numbers


def _number_or_text(cell: Any) -> float | bytes:
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


def array_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """An array of any type as float32 or float64, C-contiguous, NaN where an element is no number.

    >>> array_numbers(np.array([["1", "few"], ["2.5", "3"]]))
    array([[1. , nan],
           [2.5, 3. ]])
    """
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
    return object_numbers(array.ravel().tolist()).reshape(array.shape)
