"""Neighbouring raw tables look alike through a schema, but for the contribution of the record that differs.

Categories, gaps, dates, separators, decimals, persons and feature maps, by the judge of `tests/looking.py`. Then one
dependence of each new kind is planted, and found.
"""

import datetime
import random
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import radoboost as rb
from declared_forms import write_table
from looking import judge_pairs, judged, look, look_at_release
from neighbours import Pair, gzipped
from radoboost.holder.feature_maps import check_feature_map_argument
from radoboost.release.feature_map import FeatureMap
from radoboost.tables import csv_dialect, object_columns, private_reader
from radoboost.tables.column_types import Category, Date, Number
from radoboost.tables.schema import Schema
from raw_neighbours import (
    draw_schema,
    raw_arrow,
    raw_csv,
    raw_numpy,
    raw_pair,
    raw_pandas_read,
    raw_polars_read,
    with_terms,
)
from raw_neighbours import (
    raw_columns as lists_of,
)

PAIRS = {  # of each form
    "csv": 150, "csv.gz": 50, "parquet": 80, "arrow": 60, "arrow in memory": 100, "numpy": 80, "objects": 80,
    "pandas": 100, "categories": 60, "pandas read": 80, "polars objects": 60, "polars read": 60,
}  # fmt: skip
CRAFTED = 3  # whole releases of each form


def build(form, number, pair, records, schema, folder, name):
    """One table of a pair; None if the library that makes such tables refuses these records."""
    rng = random.Random(f"{form} {number} {len(pair.long)}")
    if form in ("csv", "csv.gz"):
        path, content = folder / f"{name}.{form}", raw_csv(records, schema)
        path.write_bytes(gzipped(content, rng) if form == "csv.gz" else content)
        return path, None
    if form in ("parquet", "arrow", "arrow in memory"):
        table = raw_arrow(pair, records, f"{form} {number}", form == "parquet")
        return (table if form == "arrow in memory" else write_table(table, folder / f"{name}.{form}", rng)), None
    columns = lists_of(records)
    makers = {
        "numpy": lambda: raw_numpy(records),
        "objects": lambda: (np.array([list(record) for record in records], dtype=object)[:, :4], columns["y"]),
        "pandas": lambda: (pd.DataFrame(columns), None),
        "categories": lambda: (pd.DataFrame(columns).astype("category"), None),
        "pandas read": lambda: (raw_pandas_read(records, schema), None),
        "polars objects": lambda: (pl.DataFrame([pl.Series(k, v, dtype=pl.Object) for k, v in columns.items()]), None),
        "polars read": lambda: (raw_polars_read(records, schema), None),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library says while it makes a table is not about ours
            table, y = makers[form]()
    except (ValueError, TypeError, ArithmeticError, IndexError, pl.exceptions.PolarsError):
        return None
    return (table, y) if len(table.shape) == 2 and table.shape[1] >= 4 else None


def drawn(form, number, folder):
    """The schema of a pair, its two tables, and what else is drawn."""
    rng = random.Random(f"raw {form} {number}")
    schema = draw_schema(rng, form)
    pair = raw_pair(rng, schema, form, "label" if number % 3 == 2 else "record")
    tables = [
        build(form, number, pair, records, schema, folder, f"{k}") for k, records in enumerate((pair.long, pair.short))
    ]
    if form in ("numpy", "objects"):
        names = dict(zip(schema.columns, ("x0", "x1", "x2"), strict=True))
        schema = Schema({names[name]: kind for name, kind in schema.columns.items()}, None, None, *schema_marks(schema))
    return schema, pair, tables, rng


def schema_marks(schema):
    return schema.separator, schema.decimal, schema.thousands


def compared(form, number, folder):
    """What differs between the two tables of a pair; None where there is no such pair of tables."""
    schema, pair, tables, rng = drawn(form, number, folder)
    if None in tables:
        return None
    person = None if rng.random() < 0.5 else "x3" if form in ("numpy", "objects") else "p"
    options = {
        "engine": rng.choice(("kernel", "reference")), "batch": rng.choice((64, 64, 7)), "schema": schema,
        "person": person,
        "columns": rng.choice(("linear", "linear", "degree-2", "degree-4", "terms", "terms")),
    }  # fmt: skip
    if options["columns"] == "terms":
        options["schema"] = with_terms(rng, schema)
        options["columns"] = check_feature_map_argument("auto", options["schema"].terms)
    looks = [lambda t=table: look(*t, **options) for table in tables]
    return judged(looks, pair.place, pair.unit)[0]


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", PAIRS)
def test_neighbours_look_alike(form, share, tmp_path):
    pairs = PAIRS[form] // share
    judge_pairs(lambda number: compared(form, number, tmp_path), pairs, 3 * pairs)


def test_there_are_nine_hundred_pairs():
    assert sum(PAIRS.values()) >= 900


# ---- whole releases


MECHANISMS = {
    "record": (rb.Moments(1.0), rb.NoisyRados(1.0), rb.Moments(1.0, sharpen=False)),
    "label": (rb.Moments(1.0, unit="label"), rb.NoisyExamples(1.0)),
}


@pytest.mark.parametrize("form", PAIRS)
def test_releases_of_neighbours_look_alike(form, tmp_path):
    done = 0
    for number in range(CRAFTED):
        schema, pair, tables, rng = drawn(form, number, tmp_path)
        if None in tables or not pair.short:  # a mechanism that publishes how many rows there are refuses to have none
            continue
        options = {
            "mechanism": rng.choice(MECHANISMS[pair.unit]),
            "schema": schema,
            "classes": ("no", "yes"),
            "n_rados": 3,
        }
        options |= {"label": "y"} if tables[0][1] is None else {}
        options |= {"columns": "degree-2"} if number % 2 else {}
        looks = [lambda t=table, o=options: look_at_release(*t, **o) for table in tables]
        found, long = judged(looks, pair.place, pair.unit)
        assert found == []
        assert long.refusal is None
        done += 1
    assert done > CRAFTED / 2


LARGE = 60  # times each usual record: a plan of products needs about so many rows


def foreseen(schema):
    """The schema with a place for every cell: where many have none, a noisy count of them is a reason to refuse."""
    columns = {name: replace(kind, gaps=True) for name, kind in schema.columns.items()}
    return replace(schema, columns={**columns, "c": replace(columns["c"], other=True)})


@pytest.mark.parametrize("word", ["degree-2", "degree-5", "terms"])
@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
def test_releases_of_large_neighbours_look_alike(form, word, tmp_path):
    """Plans that go by noisy counts, and the terms of a schema, have the same shape whatever the odd record is."""
    rng = random.Random(f"large {form} 0")
    schema = foreseen(draw_schema(rng, form))
    pair = raw_pair(rng, schema, form, "record")
    schema, columns = (with_terms(rng, schema), "auto") if word == "terms" else (schema, word)
    usual = pair.short or [(1, "A", datetime.date(2021, 1, 1), 1, "no"), (2, "B", None, 1, "yes")]
    tables = [
        build(form, 0, pair, [*records, *usual * LARGE], schema, tmp_path, f"{k}")
        for k, records in enumerate((pair.long, pair.short))
    ]
    assert None not in tables
    options = {"mechanism": rb.Moments(1.0), "schema": schema, "classes": ("no", "yes"), "columns": columns}
    looks = [lambda t=table, o=options: look_at_release(*t, label="y", **o) for table in tables]
    found, long = judged(looks, pair.place, "record")
    assert found == [] and long.refusal is None
    document = long.shape["document"]
    assert "map" in document and (word == "terms") == ("products" in document["schema"])


# ---- planted dependences, each found by the same judge


SCHEMA = Schema(
    {
        "n": Number(-2.0, 12.5, gaps=True),
        "c": Category(("A", "B"), other=True, gaps=True),
        "d": Date(low="2020-01-01", high="2024-12-31", parts=("weekday",), gaps=True),
    }
)
USUAL = (3.5, "B", "2022-03-04", 1, "no")
KINDS = ("csv", "pandas")


def with_odd(odd, folder, *, kind="csv", schema=SCHEMA, columns="linear"):
    """What is found between twelve records, one with a gap, and the same with an odd one among them."""
    dates = [f"2023-0{k % 9 + 1}-1{k % 10}" for k in range(12)]
    records = [(None if k == 3 else k / 2, "ABC"[k % 3], dates[k], k % 3, "yes" if k % 2 else "no") for k in range(12)]
    pair = Pair([*records[:5], odd, *records[5:]], records, 5, "record")
    tables = [build(kind, 0, pair, these, schema, folder, f"{k}")[0] for k, these in enumerate((pair.long, pair.short))]
    looks = [lambda t=table: look(t, schema=schema, person="p", columns=columns) for table in tables]
    return judged(looks, 5, "record")[0]


def test_without_a_planted_dependence_there_is_nothing_to_find(tmp_path):
    odd = [USUAL, ("", "Z", "", "", "no"), ("1,5", "NA", "04.03.2022", "x", "no"), (None, None, None, None, None)]
    assert [with_odd(record, tmp_path, kind=kind) for record in odd for kind in KINDS] == [[]] * 8
    assert with_odd(b"1;2;3;4;no;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;", tmp_path) == []


def test_a_separator_by_a_line_of_data_is_found(tmp_path, monkeypatch):
    def sniffed(path, given):
        return csv_dialect.guess_header_separator(path.read_bytes())

    monkeypatch.setattr(private_reader, "csv_separator", sniffed)
    assert with_odd(USUAL, tmp_path) == []
    assert with_odd(b"1;2;3;4;no" + b";" * 100, tmp_path)


def test_a_decimal_mark_by_all_cells_is_found(tmp_path, monkeypatch):
    numbers = object_columns.numbers_or_nan

    def guessed(column, given, plain_too):
        commas = any(b"," in cell for cell in column.to_pylist() if isinstance(cell, bytes))
        return numbers(column, csv_dialect.CsvDialect(None, ",") if commas else given, plain_too=plain_too)

    monkeypatch.setattr(object_columns, "numbers_or_nan", guessed)
    assert with_odd(USUAL, tmp_path) == []
    assert with_odd(("1,5", *USUAL[1:]), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_that_depends_on_other_rows_is_found(kind, tmp_path, monkeypatch):
    """Slots in the order of the values that occur, as encoders fit them."""
    places = object_columns.class_index_of_labels

    def fitted(column, values, missing):
        seen = sorted({str(cell) for cell in column.to_pylist()})
        found = places(column, values, missing)
        return np.where(found == missing, missing, np.array([seen.index(str(c)) % 2 for c in column.to_pylist()]))

    monkeypatch.setattr(object_columns, "class_index_of_labels", fitted)
    assert with_odd(USUAL, tmp_path, kind=kind) == []
    assert any("other rows" in line for line in with_odd((3.5, "AA", "2022-03-04", 1, "no"), tmp_path, kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_of_dates_by_all_cells_is_found(kind, tmp_path, monkeypatch):
    """Day first as soon as one date cannot be read otherwise, as readers guess."""
    seconds = object_columns.date_cell_seconds

    def guessed(column, order):
        found, known = seconds(column, order)
        if known.all():
            return found, known
        texts = [cell.decode() if isinstance(cell, bytes) else cell or "" for cell in column.to_pylist()]
        return seconds(pa.array([text[8:10] + text[4:8] + text[:4] for text in texts]), "mdy")

    monkeypatch.setattr(object_columns, "date_cell_seconds", guessed)
    assert with_odd(USUAL, tmp_path, kind=kind) == []
    assert any("other rows" in line for line in with_odd((3.5, "B", "31.12.2022", 1, "no"), tmp_path, kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fill_by_the_rows_that_are_there_is_found(kind, tmp_path, monkeypatch):
    fill = object_columns._fill_missing_numbers
    monkeypatch.setattr(
        object_columns, "_fill_missing_numbers", lambda n, _, gaps, block: fill(n, float(np.nanmean(n)), gaps, block)
    )
    assert with_odd((4.5, "B", "2022-03-04", 1, "no"), tmp_path, kind=kind) != []


MAPPED = replace(
    SCHEMA,
    columns={**SCHEMA.columns, "n": replace(SCHEMA.columns["n"], terms=("signed-log", "square"))},
    products=(("n", "d"), ("n", "c")),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_by_the_rows_that_are_there_is_found(kind, tmp_path, monkeypatch):
    """Inputs scaled by the largest value of their rows, as people standardise before they multiply."""
    options = {"kind": kind, "schema": MAPPED, "columns": check_feature_map_argument("auto", MAPPED.terms)}
    odd = (12.5, "B", "2022-03-04", 1, "no")
    assert with_odd(odd, tmp_path, **options) == []
    blocks = FeatureMap.blocks

    def scaled(self, values, rows=None):
        return blocks(self, values / np.maximum(np.abs(values).max(axis=0, initial=1.0), 1.0), rows)

    monkeypatch.setattr(FeatureMap, "blocks", scaled)
    assert any("other rows" in line for line in with_odd(odd, tmp_path, **options))


def test_a_type_by_all_objects_is_found(tmp_path, monkeypatch):
    """As Arrow finds one: it refuses a column on account of a value, or makes texts of what were dates."""
    monkeypatch.setattr(private_reader, "object_column_cells", lambda column, *_: pa.array(column, from_pandas=True))
    assert with_odd(USUAL, tmp_path, kind="pandas") == []
    assert any("outcome" in line for line in with_odd(([1], *USUAL[1:]), tmp_path, kind="pandas"))


def test_an_object_that_raises_an_exception_is_found(tmp_path, monkeypatch):
    """A moment before the first one that there is, once its zone is taken off."""
    early = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14)))
    odd = (*USUAL[:2], early, *USUAL[3:])
    assert with_odd(odd, tmp_path, kind="pandas") == []
    monkeypatch.setattr(
        object_columns, "_spell_object", lambda cell, spell: cell if isinstance(cell, str) else spell(cell)
    )
    assert any("outcome" in line for line in with_odd(odd, tmp_path, kind="pandas"))


def test_points_between_thousands_are_for_files_alone(tmp_path):
    """One text in an array makes the text 0.125 of a number, which would be 125."""
    schema = Schema({"x0": Number(0, 1)}, separator=";", decimal=",", thousands=".")
    with pytest.raises(rb.ArgumentError, match="points between thousands"):
        rb.craft(np.array([[0.125], [1]]), [0, 1], schema=schema, classes=(0, 1), mechanism=rb.Moments(1.0))
