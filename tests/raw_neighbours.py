"""Pairs of neighbouring raw tables: numbers with gaps, categories, dates and persons, in every form that has a schema.

A record is (n, c, d, p, y): a number, a category, a date, whose row it is, and the label. As in `tests/neighbours.py`,
one record is odd, and the forms make tables of the records as people do: readers that look at all values, lists of
objects, or types that were declared.
"""

import datetime
import io
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from declared_forms import arrow_column, in_chunks
from neighbours import LINES, Pair, odd_cell
from radoboost.tables.column_types import UNITS, Category, Date, Number
from radoboost.tables.schema import Schema

NAMES = ("n", "c", "d", "p", "y")
STYLES = ((None, ".", None), (";", ".", None), (";", ",", None), ("\t", ",", " "), (";", ",", "."), ("|", ".", ","))
DATE_TEXTS = [
    "31.12.2024", "12/31/2024", "2024-02-30", "2024-02-29", "0001-01-01", "9999-12-31T23:59:59-01:00", "2024-1-1",
    "24-01-01", "2024-01-01 24:00", "2024-01-01T12:30:00.123456+01:00", "0000-00-00", "1.1.2024 1:02",
    "2024-01-01 99:99", "20240101",
    "2024-06-31", "2024-01-01T00:00:00+99:99", "2024-01-01" + " " * 5000 + "x", "2024-01-01 " + "0" * 20_000,
]  # fmt: skip
NUMBER_TEXTS = [
    "1,5",
    "1.5",
    "1.234,5",
    "1,234.5",
    "1 234",
    "12 34",
    ",5",
    "5,",
    "1.234",
    "0.125",
    "1,234",
    "1.2.3",
    "-1,",
    "1,2,3",
]
WORDS = [
    "A",
    "a",
    "B ",
    "C",
    "7",
    "7.0",
    "07",
    "NA",
    "null",
    "(other)",
    "(missing)",
    "A=B",
    "\x00list",
    "true",
    "1",
    "x" * 3000,
    " A",
    "inf",
    "-inf",
    str(2**53),
    str(2**53 + 1),
    "12345678901234567890",
]
HUGE = [2**53, 2**53 + 1, -(2**53) - 1, 12345678901234567890, float("inf"), float("-inf"), float(2**53)]
MOMENTS = [
    datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.datetime.max, datetime.datetime(2024, 1, 1, 12, 30),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14))), np.datetime64(2**62, "Y"),
    np.datetime64("NaT"), pd.Timestamp("2024-01-31", tz="Asia/Tokyo"), pd.Timestamp.max, datetime.time(1),
]  # fmt: skip


def draw_schema(rng: random.Random, form: str) -> Schema:
    """What the columns mean, as drawn; marks that are for files alone only in files."""
    styles = STYLES if "csv" in form or "read" in form else [style for style in STYLES if style[2] != "."]
    styles = [style for style in styles if form != "polars read" or style[2] is None]
    style = rng.choice([style for style in styles if form != "pandas read" or style[2] != "."])
    values: tuple[Any, ...] = rng.choice(
        (("A", "B", 7), ("A", "NA"), (7, 0.5, True), ("A",), (2**53 + 1, "inf", 12345678901234567890, " A "))
    )
    other, fold = rng.choice((False, True, "gap", values[0])), rng.random() < 0.5
    columns = {
        "n": Number(
            -2.0, 12.5, rng.choice((None, 3)), rng.random() < 0.6, missing=rng.choice(((), (7, -1.5), (0,))),
            beyond=rng.choice(("clip", "gap")),
        ),
        "c": Category(
            values, " A " if other == "A" else other, rng.random() < 0.5, fold=fold,
            synonyms=rng.choice((None, {"(other)": values[-1], "0.125": values[0]})),
        ),
        "d": Date(
            "2020-01-01", rng.choice(list(UNITS)), rng.choice(("ymd", "dmy", "mdy")), "2020-01-01", "2024-12-31",
            rng.choice((None, "2021-05-05")), rng.random() < 0.5, rng.choice(((), ("weekday",), ("weekday", "month"))),
            missing=rng.choice(((), ("9999-12-31", "2021-05-05"))), beyond=rng.choice(("clip", "gap")),
        ),
    }  # fmt: skip
    if rng.random() < 0.3 and style[2] is None and "read" not in form:  # its own marks, other than those of the file
        columns["n"] = replace(columns["n"], decimal=rng.choice(",."), thousands=rng.choice((None, "_")))
    return Schema(columns, None, None, *style)


def with_terms(rng: random.Random, schema: Schema) -> Schema:
    """The schema with terms and products, as drawn: always with a product of a number, so that there is a map."""
    columns = dict(schema.columns)
    names = list(columns)
    for name in (names[0], names[2]):
        words = rng.sample(("linear", "signed-log", "square"), rng.randrange(4))
        columns[name] = replace(columns[name], terms=tuple(words) or None)
    pairs = [(names[0], names[1]), (names[2], names[0]), (names[1], names[2])]
    return replace(schema, columns=columns, products=(pairs[0], *rng.sample(pairs[1:], rng.randrange(3))))


def odd_raw_cell(rng: random.Random) -> Any:
    """A cell that may be anything."""
    return rng.choice(
        (
            odd_cell(rng),
            rng.choice(DATE_TEXTS),
            rng.choice(NUMBER_TEXTS),
            rng.choice(WORDS),
            rng.choice(MOMENTS),
            rng.choice(HUGE),
        )
    )


def raw_pair(rng: random.Random, schema: Schema, form: str, unit: str) -> Pair:
    """Up to thirty usual records and an odd one, at any place."""
    texts = "csv" in form or "read" in form
    step, kind = rng.choice((1, 0.125, 0.1)), rng.choice((datetime.date, datetime.datetime))
    gaps = rng.random() < 0.5

    def usual() -> tuple[Any, ...]:
        n, c = rng.randrange(-20, 100) * step, rng.choice((*schema.columns["c"].values, "C"))
        d: Any = kind(2020, 1, 1) + datetime.timedelta(days=rng.randrange(2000))
        n, d = (None if gaps and rng.random() < 0.2 else cell for cell in (n, d))
        if texts:
            n = "" if n is None else number_text(n, schema)
            d = rng.choice(("", "NA")) if d is None else date_text(d, schema.columns["d"].order, rng)
        return n, c, d, rng.randrange(4), rng.choice(("no", "yes"))

    records: list[Any] = [usual() for _ in range(rng.choice((0, 1, *range(3, 31))))]
    place = rng.randrange(len(records) + 1)
    odd: Any = tuple(odd_raw_cell(rng) if rng.random() < 0.5 else cell for cell in usual())
    if unit == "label":
        flipped, odd = (*odd[:4], "yes"), (*odd[:4], "no")
        return Pair(
            [*records[:place], odd, *records[place:]], [*records[:place], flipped, *records[place:]], place, unit
        )
    if "csv" in form and rng.random() < 0.4:
        mark = (schema.separator or ",").encode()
        odd = mark.join(rng.choices(LINES, k=rng.choice((1, 2, 5)))).replace(b"\n", b"")
    return Pair([*records[:place], odd, *records[place:]], records, place, unit)


def number_text(number: float, schema: Schema) -> str:
    """A number as people write it, with the marks of a schema; thousands of hundreds, so that there are some."""
    marks = schema.columns["n"].dialect(schema.marks)
    whole, _, rest = repr(number * 1000 if marks.thousands and number == int(number) else number).partition(".")
    digits = whole.lstrip("-")
    if marks.thousands:
        digits = f"{int(digits):,}".replace(",", marks.thousands)
    return whole[: len(whole) - len(whole.lstrip("-"))] + digits + (marks.decimal + rest if rest else "")


def date_text(day: datetime.date, order: str, rng: random.Random) -> str:
    """A date in its order."""
    return rng.choice("-./").join(f"{ {'y': day.year, 'm': day.month, 'd': day.day}[part]:02d}" for part in order)


# ---- forms


def raw_csv(records: list[Any], schema: Schema) -> bytes:
    """A CSV file; a record may be a line of bytes."""
    mark = (schema.separator or ",").encode()
    lines = [record if isinstance(record, bytes) else _line(record, mark) for record in records]
    return b"".join(line + b"\n" for line in (mark.join(name.encode() for name in NAMES), *lines))


def _line(record: Any, mark: bytes) -> bytes:
    cells = [
        cell if isinstance(cell, bytes) else b"" if cell is None else str(cell).encode("utf-8", "replace")
        for cell in record
    ]
    cells = [cell.replace(b"\n", b"").replace(b"\r", b"") for cell in cells]
    return mark.join(
        b'"' + cell.replace(b'"', b'""') + b'"' if mark in cell or b'"' in cell else cell for cell in cells
    )


def raw_columns(records: list[Any]) -> dict[str, list[Any]]:
    """The records as lists of cells."""
    return {name: [record[k] for record in records] for k, name in enumerate(NAMES)}


def raw_categories(columns: dict[str, list[Any]]) -> Any:
    """A frame of categories; pandas makes one of 1 and True, and then other rows have other cells."""
    if any(isinstance(cell, bool | np.bool_) for cells in columns.values() for cell in cells):
        raise TypeError("a truth value may be one category with a number")
    return pd.DataFrame(columns).astype("category")


def raw_pandas_read(records: list[Any], schema: Schema) -> Any:
    """What pandas makes of a CSV file, when it is told how that is written."""
    marks = {"sep": schema.separator or ",", "decimal": schema.decimal, "thousands": schema.thousands}
    return pd.read_csv(io.BytesIO(raw_csv(records, schema)), float_precision="round_trip", **marks)


def raw_polars_read(records: list[Any], schema: Schema) -> Any:
    """What polars makes of a CSV file."""
    marks = {"separator": schema.separator or ",", "decimal_comma": schema.decimal == ","}
    return pl.read_csv(io.BytesIO(raw_csv(records, schema)), infer_schema_length=None, **marks)


def raw_numpy(records: list[Any]) -> tuple[Any, Any]:
    """An array of whatever type holds all cells."""
    x = np.array([list(record[:4]) for record in records])
    if x.dtype.kind == "m":
        raise TypeError("beside one duration NumPy makes durations of all integers: they are other cells then")
    return x, [record[4] for record in records]


_TEXTS = (
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.string()),
)  # fmt: skip
_LISTS = pa.dictionary(pa.int8(), pa.list_(pa.int64()))
_TYPES = {
    "n": (
        *_TEXTS, pa.float64(), pa.float16(), pa.int64(), pa.decimal128(38, 10), pa.bool_(), pa.null(),
        pa.list_(pa.int64()), _LISTS,
    ),
    "c": (*_TEXTS, pa.float32(), pa.int8(), pa.bool_(), pa.timestamp("s"), pa.binary(), pa.decimal64(9, 1), _LISTS),
    "d": (
        *_TEXTS, pa.date32(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", "Asia/Tokyo"), pa.int64(),
        pa.duration("s"), _LISTS,
    ),
    "p": _TEXTS,
    "y": _TEXTS,
}  # fmt: skip


def raw_arrow(pair: Pair, records: list[Any], seed: str, parquet: bool) -> pa.Table:
    """The records in columns of types that were declared; of both tables the same ones."""
    rng = random.Random(seed)
    odd = pair.place if len(records) == len(pair.long) else None
    kinds = {name: rng.choice(_TYPES[name]) for name in NAMES}
    arrays = []
    for name, cells in raw_columns(records).items():
        kind, rng = kinds[name], random.Random(f"{seed} {name}")
        if parquet and (pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind) or pa.types.is_float16(kind)):
            kind = pa.string()
        spoiled = odd if name != "y" or (pair.unit == "record" and rng.random() < 0.4) else None
        spoiled = spoiled if pair.unit == "record" or name == "y" or rng.random() < 0.5 else None
        cells = [_day_number(cell, kind) if name == "d" else cell for cell in cells]
        arrays.append(in_chunks(arrow_column(kind, cells, rng, spoiled), rng))
    return pa.table(arrays, list(NAMES))


def _day_number(cell: Any, kind: pa.DataType) -> Any:
    """A date as a text, or as the number that its type keeps."""
    if not isinstance(cell, datetime.date) or not pa.types.is_temporal(kind):
        return cell
    days = datetime.date(cell.year, cell.month, cell.day).toordinal() - 719163
    return days * 100  # arrow_column takes small numbers
