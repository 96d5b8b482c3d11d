"""The same raw cells give the same encoded bits in every form, in both readings and in any batches."""

import gzip
import re
from datetime import UTC, datetime, timedelta
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radoboost.tables import csv_files, open_table
from radoboost.tables.cells import GAPS, date_cell_seconds, numbers_or_nan, weekday_or_month
from radoboost.tables.column_types import PARTS, UNITS, Category, Date, Number
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.schema import Schema

VALUES = ("A", "b c", 7, True, 0.5, "null")
STYLES = [(None, ".", None), (";", ",", None), (";", ",", "."), ("\t", ".", ","), ("|", ".", " "), (";", ",", "\u00a0")]


# ---- oracles: one cell at a time, by other means than Arrow's


def oracle_number(text, decimal, thousands):
    """The number that a text is, None for a gap or anything else; the nearest float64, as Python reads it."""
    text = text.strip(" \t")
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    whole = "[0-9]+" if thousands is None else rf"([0-9]+|[0-9]{{1,3}}({re.escape(thousands)}[0-9]{{3}})+)"
    point = re.escape(decimal)
    if not re.fullmatch(rf"[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?", text, re.ASCII):
        return None
    plain = text.replace(thousands or "\0", "").replace(decimal, ".")
    return float(plain) if np.isfinite(float(plain)) else None


def oracle_seconds(text, order):
    """The seconds since 1970 that a text stands for, None if it is no date."""
    for these in (order, "ymd"):
        day = "[-./ ]".join(
            {"y": "(?P<y>[0-9]{4})", "m": "(?P<m>[0-9]{1,2})", "d": "(?P<d>[0-9]{1,2})"}[c] for c in these
        )
        time = r"([T ]+(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(:(?P<S>[0-9]{2})([.,][0-9]+)?)?"
        time += r" ?(?P<z>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
        found = re.fullmatch(rf"[ \t]*{day}{time}[ \t]*", text, re.ASCII)
        if not found:
            continue
        try:
            moment = datetime(*(int(found[part] or 0) for part in "ymdHMS"))
        except ValueError:
            continue
        zone = re.sub("[^0-9]", "", found["z"] or "")
        ahead = (int(zone[:2]) * 60 + int(zone[2:])) * (-1 if "-" in found["z"] else 1) if zone else 0
        seconds = (moment - datetime(1970, 1, 1)) // timedelta(seconds=1) - ahead * 60
        return seconds if -62_135_596_800 <= seconds <= 253_402_300_799 else None
    return None


def oracle_row(cells, schema):
    """One row of encoded columns."""
    row = []
    for text, kind in zip(cells, schema.columns.values(), strict=True):
        if isinstance(kind, Category):
            place = category_place(text, kind)
            row += [float(place == k) for k in range(len(kind.values) + kind.other + kind.gaps)]
            continue
        if isinstance(kind, Number):
            number = oracle_number(text, schema.decimal, schema.thousands)
        else:
            seconds = oracle_seconds(text, kind.order)
            number = None if seconds is None else (seconds - 1_000_000_000) / UNITS[kind.unit]
        row += [kind.filled() if number is None else number, *([float(number is None)] if kind.gaps else [])]
        for part in getattr(kind, "parts", ()):
            moment = None if number is None else datetime(1970, 1, 1) + timedelta(seconds=seconds)
            place = None if moment is None else moment.weekday() if part == "weekday" else moment.month - 1
            row += [float(k == place) for k in range(len(PARTS[part]))]
    return row


def category_place(text, kind):
    known = {"A": 0, "b c": 1, "7": 2, "7.0": 2, " 7 ": 2, "true": 3, "TRUE": 3, "1": 3, "0.5": 4, "5e-1": 4, "null": 5}
    if text in known:
        return known[text]
    missing = text.strip(" \t") in GAPS
    return len(kind.values) + kind.other * missing if (kind.gaps if missing else kind.other) else None


# ---- cells as people write them


def grouped(whole, mark):
    return whole if mark is None else f"{int(whole):,}".replace(",", mark)


def numbers(decimal, thousands):
    plain = st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(2**53) + 1, 2**53 - 1).map(str)
    ).map(lambda text: text.replace(".", decimal))
    with_groups = st.builds(
        lambda whole, rest: grouped(whole, thousands) + rest.replace(".", decimal),
        st.integers(0, 10**12).map(str), st.sampled_from(["", ".", ".25", ".100", "e-3"]),
    )  # fmt: skip
    return st.one_of(plain, with_groups, plain.map(lambda text: f" {text}\t"), st.sampled_from(["true", "False", "+4"]))


def dates(order):
    def written(moment, mark, zero, form, zone):
        parts = {"y": f"{moment.year:04d}", "m": f"{moment.month:{zero}}", "d": f"{moment.day:{zero}}"}
        return mark.join(parts[part] for part in order) + moment.strftime(form) + (zone if form else "")

    moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))
    forms, zones = ["", "", "T%H:%M", " %H:%M:%S", "T%H:%M:%S.%f"], ["", "Z", "+01:00", "-0930", " UTC"]
    ways = st.builds(
        written,
        moments,
        st.sampled_from("-./ "),
        st.sampled_from(["02d", "d"]),
        st.sampled_from(forms),
        st.sampled_from(zones),
    )
    return st.one_of(ways, moments.map(datetime.isoformat))


GAP_CELLS = st.sampled_from(["", *sorted(GAPS - {"null"}), " NA", " "])
CATEGORY_CELLS = st.sampled_from(
    ["A", "b c", "7", "7.0", " 7 ", "true", "TRUE", "1", "0.5", "5e-1", "null", "other", "é", "a;b"]
)
ODD_TEXTS = [
    "1.5", "1,5", "1.234", "1e999", "0x1", "2024-02-30", "31.12.2024", "12.31.2024", "2024-1-1 24:00", "\u0661", "1..2",
    "--1", "1 2",
]  # fmt: skip
ODD_CELLS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=9), st.sampled_from(ODD_TEXTS)
)


@st.composite
def tables(draw, odd):
    """A schema and rows of texts; where `odd`, any text at all among them."""
    style = draw(st.sampled_from(STYLES))
    orders = draw(st.tuples(*[st.sampled_from(["ymd", "dmy", "mdy"])] * 2))
    gaps, other = draw(st.booleans()), draw(st.booleans())
    origin = datetime.fromtimestamp(1_000_000_000, UTC).isoformat()
    columns = {
        "n": Number(-5, 30, gaps=gaps),
        "m": Number(fill=0.1),
        "c": Category(VALUES, other=other, gaps=gaps),
        "d": Date(origin, draw(st.sampled_from(sorted(UNITS))), orders[0], gaps=gaps, parts=("weekday", "month")),
        "e": Date(origin, "days", orders[1], low="2020-01-01", high="2021-01-01"),
    }
    schema = Schema(columns, None, None, *style)
    usual = [numbers(*style[1:]), numbers(*style[1:]), CATEGORY_CELLS, dates(orders[0]), dates(orders[1])]
    cells = [st.one_of(cell, cell, GAP_CELLS, *([ODD_CELLS] if odd else [])) for cell in usual]
    return schema, draw(st.lists(st.tuples(*cells), min_size=1, max_size=12))


def csv_text(rows, schema, quoted):
    separator = schema.separator or ","

    def written(cell):
        bare = not quoted and not set(cell) & {separator, '"', "\n", "\r"}
        return cell if bare else '"' + cell.replace('"', '""') + '"'

    lines = [[*"nmcdey"], *([*row, "no"] for row in rows)]
    return "\n".join(separator.join(written(cell) for cell in line) for line in lines) + "\n"


def forms_of(rows, folder):
    """The rows in every form that has texts; those with types of their own come first."""
    columns = {name: [row[k] for row in rows] for k, name in enumerate("nmcde")}
    table = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    pq.write_table(table.append_column("y", pa.array(["no"] * len(rows))), folder / "t.parquet", row_group_size=3)
    yield "arrow", table
    yield "dictionary", pa.table({name: table[name].combine_chunks().dictionary_encode() for name in columns})
    yield "views", pa.table({name: table[name].cast(pa.string_view()) for name in columns})
    yield "pandas", pd.DataFrame(columns)
    yield "objects", pd.DataFrame(columns, dtype=object)
    yield "categories", pd.DataFrame(columns).astype("category")
    yield "polars", pl.DataFrame(columns)
    yield "numpy", np.array([list(row) for row in rows], dtype=object)
    yield "parquet", folder / "t.parquet"


def encoded(table, schema, row_by_row, rows_at_once=None):
    if isinstance(table, np.ndarray):
        names = {name: f"x{k}" for k, name in enumerate(schema.columns)}
        schema = Schema({names[name]: kind for name, kind in schema.columns.items()}, None, None, *_marks(schema))
    is_path = not hasattr(table, "shape")
    labels = {"label": "y"} if is_path else {"y": ["no"] * table.shape[0]}
    source = open_table(table, **labels, schema=schema, row_by_row=row_by_row)
    return np.vstack([batch.values() for batch in source.batches(rows_at_once)])


def _marks(schema):
    return schema.separator, schema.decimal, schema.thousands


@settings(max_examples=25, deadline=None)
@given(drawn=tables(odd=False), quoted=st.booleans(), rows_at_once=st.integers(1, 5), third=st.integers(0, 2))
def test_the_same_cells_give_the_same_bits(drawn, quoted, rows_at_once, third, tmp_path_factory):
    """Each time in a third of the forms."""
    schema, rows = drawn
    folder = tmp_path_factory.mktemp("forms")
    text = csv_text(rows, schema, quoted).encode()
    (folder / "t.csv").write_bytes(text)
    (folder / "t.csv.gz").write_bytes(gzip.compress(text))
    expected = np.array([oracle_row(row, schema) for row in rows]).tobytes()
    forms = [*forms_of(rows, folder), ("csv", folder / "t.csv"), ("csv.gz", folder / "t.csv.gz")][third::3]
    with mock.patch.object(csv_files, "BLOCK_BYTES", 40), mock.patch.object(csv_files, "CSV_BLOCK_BYTES", 4000):
        for row_by_row in (False, True):
            for name, table in forms:
                if row_by_row and schema.thousands == "." and not name.startswith("csv"):
                    continue  # such texts would have two readings
                found = encoded(table, schema, row_by_row, rows_at_once)
                assert found.tobytes() == expected, (name, row_by_row)


@settings(max_examples=25, deadline=None)
@given(drawn=tables(odd=True), rows_at_once=st.integers(1, 5), third=st.integers(0, 2))
def test_odd_cells_row_by_row(drawn, rows_at_once, third, tmp_path_factory):
    """CSV as the oracle says; in columns with types, a text without the declared marks may be a number too."""
    schema, rows = drawn
    folder = tmp_path_factory.mktemp("odd")
    (folder / "t.csv").write_bytes(csv_text(rows, schema, True).encode())
    expected = np.array([oracle_row(row, schema) for row in rows])
    assert encoded(folder / "t.csv", schema, True, rows_at_once).tobytes() == expected.tobytes()
    plain = Schema(schema.columns)
    with_plain = np.array([plain_too(row, schema, plain) for row in rows]).tobytes()
    for name, table in [*forms_of(rows, folder)][third::3] if schema.thousands != "." else ():
        assert encoded(table, schema, True, rows_at_once).tobytes() == with_plain, name


def plain_too(row, schema, plain):
    """Numbers with the declared marks, or else without them."""
    numbers_of = [oracle_number(cell, schema.decimal, schema.thousands) for cell in row[:2]]
    cells = [cell if number is not None else "\x01" + cell for cell, number in zip(row[:2], numbers_of, strict=True)]
    first = oracle_row((*cells, *row[2:]), schema)
    second = oracle_row(row, plain)
    width = 2 if schema.columns["n"].gaps else 1
    first[:width] = first[:width] if numbers_of[0] is not None else second[:width]
    first[width] = first[width] if numbers_of[1] is not None else second[width]
    return first


@settings(max_examples=100, deadline=None)
@given(st.lists(ODD_CELLS | numbers(".", None) | numbers(",", "."), min_size=1, max_size=5), st.sampled_from(STYLES))
def test_texts_as_numbers(cells, style):
    """Whether all of a column can be converted at once or not."""
    marks = CsvDialect(*style)
    expected = [oracle_number(cell, *style[1:]) for cell in cells]
    found = numbers_or_nan(pa.array(cells), marks, plain_too=False)
    alone = [numbers_or_nan(pa.array([cell]), marks, plain_too=False)[0] for cell in cells]
    np.testing.assert_array_equal(np.where(np.isfinite(found), found, np.nan), np.array(expected, dtype=float))
    np.testing.assert_array_equal(found, alone)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(dates("dmy") | dates("mdy") | dates("ymd") | ODD_CELLS, min_size=1, max_size=5),
    st.sampled_from(["ymd", "dmy", "mdy"]),
)
def test_texts_as_dates(cells, order):
    seconds, known = date_cell_seconds(pa.array(cells), order)
    assert [s if k else None for s, k in zip(seconds.tolist(), known.tolist(), strict=True)] == [
        oracle_seconds(cell, order) for cell in cells
    ]


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_weekday_and_month(moment):
    seconds = np.array([(moment - datetime(1970, 1, 1)) // timedelta(seconds=1)])
    assert (
        weekday_or_month(seconds, "weekday") == moment.weekday()
        and weekday_or_month(seconds, "month") == moment.month - 1
    )


@pytest.mark.parametrize("row_by_row", [False, True])
def test_at_most_one_slot_of_a_group_is_set(row_by_row):
    schema = Schema({"c": Category(("a", "NA"), other=True, gaps=True), "d": Date(parts=("weekday", "month"))})
    table = {"c": ["a", "NA", "", None, "x"], "d": ["2024-01-31", "", None, "1999-12-31", "n/a"]}
    source = open_table(pa.table(table), [0, 1, 0, 1, 0], schema=schema, row_by_row=row_by_row)
    values = next(source.batches()).values()
    for group in set(source.groups.values()):
        slots = [k for k, name in enumerate(source.features) if source.groups.get(name) == group]
        assert set(values[:, slots].ravel()) <= {0, 1} and (values[:, slots].sum(axis=1) <= 1).all()
