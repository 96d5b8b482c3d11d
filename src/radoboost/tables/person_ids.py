"""Whose row each one is: one spelling for every person, read row by row.

An id is text or a whole number. All spellings of a whole number are one id, so that the type of a column does not
matter: a missing id makes integers floats in some libraries, and a text makes them texts. ASCII white space around an
id does not count, and a number that is not finite, or so large a float that it may stand for several whole numbers, is
no id. Any other two texts are two persons (P1 of docs/proofs/persons.md).
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, whole_number
from radoboost.tables.labels import comparable_labels

MOST_ROWS_OF_A_PERSON = 1_000_000


@dataclass(frozen=True)
class Person:
    """The unit of privacy is one person: all rows with one value in `column`, of which at most `max_rows` contribute.

    >>> Person("patient_id", max_rows=4)
    Person(column='patient_id', max_rows=4)
    """

    column: str
    max_rows: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ArgumentError(f"person must name the column that says whose row it is; it is {self.column!r}")
        whole_number(self.max_rows, "max_rows", 1, MOST_ROWS_OF_A_PERSON)


# A sign, digits, and nothing but zeros behind the point. A text with an exponent or a fraction is not a number here:
# 12.1 and 12.10, or 100000e2 and 10000000, may well be two people.
_WHOLE = re.compile(rb"([+-]?)([0-9]+)(\.0*)?")
_TRUTHS = (b"true", b"false")
_NO_NUMBERS = {sign + word for sign in (b"", b"+", b"-") for word in (b"nan", b"inf", b"infinity")}
_EXACT = {16: 2**11, 32: 2**24, 64: 2**53}  # a float of so many bits that is smaller stands for one whole number


def distinct_person_ids(persons: pa.Array) -> tuple[list[bytes], NDArray[np.int64]]:
    """The ids of a batch, and for every row the place of its own among them; -1 where a row has none.

    An id may be there twice, in two spellings.
    """
    try:
        column = _plain_person_ids(persons)
        encoded = None if column is None else column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # the type is to blame, whatever the values are
        encoded = None
    except pa.ArrowException:
        return _drop_missing_ids([_person_id_of_row(persons, row) for row in range(len(persons))])
    if encoded is None:
        return [], np.full(len(persons), -1, dtype=np.int64)
    spellings = _spell_person_ids(encoded.dictionary, persons.type)
    ids, place_of = _drop_missing_ids(spellings)
    rows = encoded.indices.fill_null(len(spellings)).to_numpy(zero_copy_only=False)
    return ids, np.append(place_of, -1)[rows]


def _drop_missing_ids(spellings: list[bytes | None]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The spellings without those that are None, and the place of each among them; -1 for None."""
    known = np.array([spelling is not None for spelling in spellings], dtype=bool)
    places = np.where(known, np.cumsum(known) - 1, -1).astype(np.int64)
    return [spelling for spelling in spellings if spelling is not None], places


def _person_id_of_row(persons: pa.Array, row: int) -> bytes | None:
    """The id of one row, where the batch cannot be read as a whole."""
    try:
        column = _plain_person_ids(persons.slice(row, 1))
        return None if column is None else _spell_person_ids(column, persons.type)[0]
    except (ValueError, LookupError, OverflowError, pa.ArrowException):
        return None


def exact_person_id(value: Any) -> Any:
    """An id in a column of Python objects; None for a float that may stand for several whole numbers."""
    if not isinstance(value, float | np.floating):
        return value
    bits = 8 * value.itemsize if isinstance(value, np.floating) else 64
    return value if abs(float(value)) < _EXACT.get(bits, 2**53) else None


def _spell_person_ids(column: pa.Array, kind: pa.DataType) -> list[bytes | None]:
    """One spelling for each id of a plain column, whose type was `kind` in the table."""
    while hasattr(kind, "value_type"):  # of a dictionary, or of run ends
        kind = kind.value_type
    if pa.types.is_decimal(kind):  # all of them have as many digits behind the point as one needs
        return [None if value is None else person_id(shortest_decimal_id(value)) for value in column.to_pylist()]
    if not pa.types.is_floating(column.type):
        return [person_id(value) for value in column.to_pylist()]
    limit = _EXACT[kind.bit_width]
    return [person_id(value) if value is not None and abs(value) < limit else None for value in column.to_pylist()]


def shortest_decimal_id(decimal: bytes) -> bytes:
    """A decimal without an exponent and without zeros at its end."""
    digits = f"{Decimal(decimal.decode()):f}"
    return (digits.rstrip("0") if "." in digits else digits).encode()


def _plain_person_ids(persons: pa.Array) -> pa.Array | None:
    """Ids of a type whose values can be taken as Python objects without fail; None for types that hold no ids.

    Texts become bytes, since text that is not UTF-8 is no reason to stop.
    """
    column = comparable_labels(persons)
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
    if isinstance(value, bytes):
        text = value.strip()
        if whole := _WHOLE.fullmatch(text):
            digits = whole[2].lstrip(b"0") or b"0"
            return b"-" + digits if whole[1] == b"-" and digits != b"0" else digits
        word = text.lower()
        return word if word in _TRUTHS else None if word in _NO_NUMBERS else text or None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return b"%d" % int(value) if value.is_integer() else repr(value).encode()
    return None
