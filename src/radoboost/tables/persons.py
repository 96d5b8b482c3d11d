"""Whose row each one is: one spelling for every person, read row by row.

An id is text or a whole number. All spellings of a number are one id, so that the type of a column does not matter: a
missing id makes integers floats in some libraries, and a text makes them texts. White space around an id does not
count. Otherwise two spellings are two persons (P1 of docs/proofs/persons.md).
"""

import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.tables.labels import _simple as simple_column

# No two parts can match the same digits: a pattern that could try both would take quadratic time on a long text.
_NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(rb"[+-]?[0-9]+")
_LONGEST_NUMBER = 1024  # bytes; a longer text is no number


def person_ids(persons: pa.Array) -> tuple[list[bytes], NDArray[np.int64]]:
    """The ids of a batch, and for every row the place of its own among them; -1 where a row has none.

    An id may be there twice, in two spellings.

    >>> ids, places = person_ids(pa.array(["7", None, "7.0", "ann ", ""]))
    >>> ids, places.tolist()
    ([b'7', b'7', b'ann'], [0, -1, 1, 2, -1])
    """
    try:
        column = _plain(persons)
        encoded = None if column is None else column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # the type is to blame, whatever the values are
        encoded = None
    if encoded is None:
        return [], np.full(len(persons), -1, dtype=np.int64)
    spellings = [person_id(value) for value in encoded.dictionary.to_pylist()]
    ids = [spelling for spelling in spellings if spelling is not None]
    known = np.array([spelling is not None for spelling in spellings], dtype=bool)
    place_of = np.append(np.where(known, np.cumsum(known) - 1, -1), -1).astype(np.int64)
    rows = encoded.indices.fill_null(len(spellings)).to_numpy(zero_copy_only=False)
    return ids, place_of[rows]


def _plain(persons: pa.Array) -> pa.Array | None:
    """Ids of a type whose values can be taken as Python objects without fail; None for types that hold no ids.

    Texts become bytes, since text that is not UTF-8 is no reason to stop.
    """
    column = simple_column(persons)
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.large_string())
        kind = column.type
    if pa.types.is_string(kind):
        return column.cast(pa.binary())
    if pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    bytes_like = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return column if numeric or bytes_like or pa.types.is_null(kind) else None


def person_id(value: Any) -> bytes | None:
    """One spelling for an id; None where there is none.

    >>> [person_id(v) for v in (7, 7.0, b"+7", b"7e0", b"007", b" ann", b"", None, float("nan"), b"2.50", True)]
    [b'7', b'7', b'7', b'7', b'7', b'ann', None, None, None, b'2.5', b'true']
    """
    if isinstance(value, bytes):
        text = value.strip()
        if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
            return (text.lower() if text.lower() in (b"true", b"false") else text) or None
        if _WHOLE.fullmatch(text):
            return b"%d" % int(text)
        return _number_id(float(text)) or text
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    return _number_id(value) if isinstance(value, float) else None


def _number_id(number: float) -> bytes | None:
    """The id of a float; None if it is not finite."""
    if not math.isfinite(number):
        return None
    return b"%d" % int(number) if number.is_integer() else repr(number).encode()
