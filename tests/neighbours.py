"""Pairs of neighbouring tables with odd content in the record that differs, in every form that a table can have.

A pair is two lists of records (a, b, label) and a form. The forms below make tables of them as people do: by a reader
that looks at all values to find a type (`pd.read_csv`), or with a type that was declared. `tests/looking.py` looks at
both tables of a pair as private crafting does and compares what it saw.
"""

import datetime
import gzip
import io
import random
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

TEXTS = [
    "n/k", "", " ", "1", " 2 ", "\t3", "+4", "-5.", ".5", "1e999", "1e-400", "1e5", "0x10", "1_000", "nan", "inf",
    "true", "FALSE", "\u0663", "\x00", "\u00e9", "a,b", 'quo"te', "9" * 400, "9" * 20_000 + "x", "1 2", "1e", "--1",
    "no", "yes", "yes ", "2020-01-01", "#", "1;2", "\ufeff1", "'1", "NULL", "1.5f", "1d", "True", "y" * 2000,
]  # fmt: skip
NUMBERS = [
    float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324, -0.0, 2**53 + 1, 2**63, 2**64, 2**70, -(2**70),
    10**400, True, False, 7, -3.25, 1e16,
]  # fmt: skip
OBJECTS = [
    None, b"\xff", b"1", Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1E+400"), 1 + 0j, 1j, Fraction(1,
    2), [1], {"a": 1}, (1, 2), object(), np.float32(1.5), np.longdouble(1) / 3, np.datetime64("2020-01-01"),
    np.timedelta64(1, "ns"), pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), pd.Interval(0, 1), datetime.date(2020, 1, 1),
    datetime.timedelta(1), "\ud800", np.array(5), np.bytes_(b"2"), np.str_("3"), np.bool_(True), np.void(b"1"),
    range(3),
]  # fmt: skip
LINES = [
    b"", b" ", b"\r", b",", b",,", b",,,", b'"', b'"5', b'5"', b'""', b'"a,b",1,yes', b'"1","2","yes"', b'1,"2,yes',
    b"\xef\xbb\xbf1,2,no", b"\xff\xfe,1,no", b"\x00,1,no", b"1,\r2,no", b"1,2,no\r", b"1,2,no,", b"1;2;no",
    b"x" * 100_000, b"9" * 20_000 + b"x,1,no", b"1,2," + b"9" * 20_000 + b"x", b'"' * 1001, b"1,2,'no'", b"\x1a",
    b"\\,\\,no", b"1,2,n\xc3\xa9", b"\t1,\t2,yes", b"\x0b\x0c,1,yes", b"\xe2\x80\xa8,1,yes",
]  # fmt: skip
CLASSES = ("no", "yes")


@dataclass(frozen=True)
class Pair:
    """Records of two neighbouring tables; record `place` of `long` is not in `short`, or has the other label there."""

    long: list[Any]
    short: list[Any]
    place: int
    unit: str


def odd_cell(rng: random.Random) -> Any:
    """A cell that may be anything."""
    return rng.choice(rng.choice((TEXTS, NUMBERS, OBJECTS)))


def make_pair(rng: random.Random, odd_record: Any, unit: str, classes: Any = CLASSES) -> Pair:
    """Up to forty usual records and one that `odd_record` makes, at any place."""
    step = rng.choice((1, 0.125, 0.1))  # whole numbers are integers, as readers would take them
    numbers = [[rng.randrange(-20, 100) * step for _ in range(2)] for _ in range(rng.choice((0, 1, *range(3, 41))))]
    records: list[Any] = [(*row, rng.choice(classes)) for row in numbers]
    place = rng.randrange(len(records) + 1)
    odd = odd_record(rng, classes)
    if unit == "record":
        return Pair([*records[:place], odd, *records[place:]], records, place, unit)
    flipped = (*odd[:2], classes[1])
    odd = (*odd[:2], classes[0])
    return Pair([*records[:place], odd, *records[place:]], [*records[:place], flipped, *records[place:]], place, unit)


def odd_record(rng: random.Random, classes: Any) -> Any:
    """A record of odd cells, each with a usual one now and then."""
    a, b = (odd_cell(rng) if rng.random() < 0.8 else rng.choice((1, 2.5)) for _ in range(2))
    return a, b, odd_cell(rng) if rng.random() < 0.4 else rng.choice(classes)


# ---- forms in which the type of a column follows from all its values


def csv_lines(records: list[Any], ending: bytes = b"\n") -> bytes:
    """A CSV file; a record may be a line of bytes."""
    lines = [record if isinstance(record, bytes) else _line(record) for record in records]
    return b"".join(line + ending for line in (b"a,b,y", *lines))


def _line(record: Any) -> bytes:
    cells = [_cell_bytes(cell) for cell in record]
    return b",".join(
        b'"' + cell.replace(b'"', b'""') + b'"' if b"," in cell or b'"' in cell else cell for cell in cells
    )


def _cell_bytes(cell: Any) -> bytes:
    text = cell if isinstance(cell, bytes) else str(cell).encode("utf-8", "replace")
    return text.replace(b"\n", b"").replace(b"\r", b"")


def columns_of(records: list[Any]) -> dict[str, list[Any]]:
    """The records as lists of cells."""
    return {name: [record[k] for record in records] for k, name in enumerate("aby")}


def numpy_inferred(records: list[Any]) -> tuple[Any, Any]:
    """An array of whatever type holds all cells, and labels of such a type."""
    x, y = np.array([list(record[:2]) for record in records]), np.array([record[2] for record in records])
    if "m" in (x.dtype.kind, y.dtype.kind):
        raise TypeError("beside one duration NumPy makes durations of all integers: they are other cells then")
    return x, y


def pandas_read(records: list[Any]) -> Any:
    """What pandas makes of a CSV file; its usual reading of decimals may be off by one unit in the last place."""
    return pd.read_csv(io.BytesIO(csv_lines(records)), float_precision="round_trip")


def polars_read(records: list[Any]) -> Any:
    """What polars makes of a CSV file."""
    return pl.read_csv(io.BytesIO(csv_lines(records)), infer_schema_length=None)


def gzipped(content: bytes, rng: random.Random) -> bytes:
    """Compressed, as one member or two."""
    cut = rng.randrange(len(content)) if rng.random() < 0.3 else len(content)
    return b"".join(gzip.compress(part, 1) for part in (content[:cut], content[cut:]) if part)
