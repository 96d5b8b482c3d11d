"""Neighbouring raw tables look alike through a schema, but for the contribution of the record that differs.

Categories, gaps, dates, separators, decimals, persons and feature maps, by the judge of `tests/looking.py`. Then one
dependence of each new kind is planted, and found.
"""

import datetime
import io
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
from radoboost import private_score
from radoboost.holder.feature_maps import check_feature_map_argument
from radoboost.holder.mechanisms.statements import IN_MEMORY
from radoboost.holder.table_check import check_table
from radoboost.release.feature_map import FeatureMap
from radoboost.tables import csv_dialect, object_columns, private_reader
from radoboost.tables.column_types import Category, Date, Number
from radoboost.tables.opening import open_table
from radoboost.tables.schema import Schema
from raw_neighbours import (
    draw_schema,
    raw_arrow,
    raw_categories,
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
        "categories": lambda: (raw_categories(columns), None),
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
        schema = foreseen(schema)
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
    columns |= {name: replace(c, other=c.other or True) for name, c in columns.items() if isinstance(c, Category)}
    return replace(schema, columns=columns)


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
    places = object_columns.places_of_cells

    def fitted(column, values, key, missing, marks):
        seen = sorted({str(cell) for cell in column.to_pylist()})
        found = places(column, values, key, missing, marks)
        return np.where(found == missing, missing, np.array([seen.index(str(c)) % 2 for c in column.to_pylist()]))

    monkeypatch.setattr(object_columns, "places_of_cells", fitted)
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
        object_columns,
        "_fill_missing_numbers",
        lambda n, gap, _, gaps, block: fill(n, gap, float(np.nanmean(n)), gaps, block),
    )
    assert with_odd((4.5, "B", "2022-03-04", 1, "no"), tmp_path, kind=kind) != []


@pytest.mark.parametrize("kind", KINDS)
def test_codes_by_the_rows_that_are_there_are_found(kind, tmp_path, monkeypatch):
    """The largest number for a code where it stands far off, as people clean a column by looking at it."""
    gaps = object_columns.declared_gaps

    def guessed(kind, numbers):
        codes, beyond = gaps(kind, numbers)
        return codes | (numbers == np.nanmax(numbers)), beyond

    monkeypatch.setattr(object_columns, "declared_gaps", guessed)
    assert with_odd(USUAL, tmp_path, kind=kind) == []
    assert any("other rows" in line for line in with_odd((11.5, *USUAL[1:]), tmp_path, kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_folding_by_the_spellings_that_are_there_is_found(kind, tmp_path, monkeypatch):
    """Small letters as soon as some cell has them, as people unify spellings."""
    places = object_columns.places_of_cells

    def folded(column, known, key, missing, marks):
        small = any(str(cell).islower() for cell in pd.Series(column.to_pylist()).astype(str) if len(str(cell)) < 9)
        lower = (lambda value, marks: key(str(value).lower(), marks)) if small else key
        return places(column, known, lower, missing, marks)

    monkeypatch.setattr(object_columns, "places_of_cells", folded)
    assert with_odd(USUAL, tmp_path, kind=kind) == []
    with_small = replace(SCHEMA, columns={**SCHEMA.columns, "c": Category(("A", "B", "c"), other=True, gaps=True)})
    assert with_odd((3.5, "c", *USUAL[2:]), tmp_path, kind=kind, schema=with_small) != []


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


GERMAN = "grade;x;ill\n" + "".join(f"{('1,3', '2,7')[k % 2]};0,{k % 10};{k % 3 % 2}\n" for k in range(300))
READERS = {
    "pandas": lambda text: pd.read_csv(io.StringIO(text), sep=";", decimal=","),
    "pandas, Arrow": lambda text: pd.read_csv(io.StringIO(text), sep=";", decimal=",", dtype_backend="pyarrow"),
    "polars": lambda text: pl.read_csv(io.StringIO(text), separator=";", decimal_comma=True, infer_schema_length=None),
}


@pytest.mark.parametrize("values", [("1.3", "2.7"), ("1,3", "2,7"), (1.3, 2.7)])
@pytest.mark.parametrize("read", READERS)
def test_a_category_of_decimals_is_the_same_beside_an_odd_cell(read, values):
    """As numbers, and as the texts that one odd cell makes of them."""
    schema = Schema({"grade": Category(values, other=True)}, separator=";", decimal=",")
    whole, odd = (READERS[read](GERMAN + end) for end in ("", "k.A.;0,5;1\n"))
    assert whole["grade"].dtype != odd["grade"].dtype
    rows = [next(open_table(t, label="ill", row_by_row=True, schema=schema).batches()).values() for t in (whole, odd)]
    assert rows[0].sum(axis=0).tolist() == [150, 150, 0]
    assert rows[1][:-1].tolist() == rows[0].tolist()


@pytest.mark.parametrize("classes", [("1.3", "2.7"), ("1,3", "2,7"), (1.3, 2.7)])
def test_a_label_of_decimals_is_the_same_beside_an_odd_cell(classes, monkeypatch):
    schema = Schema({"x": Number(0, 1)}, "grade", classes, ";", ",")
    whole, odd = (READERS["pandas"](GERMAN + end) for end in ("", "k.A.;0,5;1\n"))
    for table, unforeseen in ((whole, 0), (odd, 1)):
        assert check_table(table, schema=schema).counts.spoiled == unforeseen
    model = rb.MomentsClassifier().fit_rados(rb.craft(whole, schema=schema, mechanism=rb.Moments(50.0))).model_
    monkeypatch.setattr(private_score, "note_private_score", lambda **_: None)
    scores = [rb.score(model, table, label="grade", epsilon=50.0) for table in (whole, odd)]
    assert [round(score.errors + score.hits, -1) for score in scores] == [300, 300]


@pytest.mark.parametrize("word", ["Infinity", "INF", "+inf", "1e400"])
def test_infinity_is_one_value_as_a_number_and_as_a_text(word):
    schema = Schema({"c": Category((word, 1), other=True)})
    tables = [pd.read_csv(io.StringIO(f"c,y\n1,0\n{text},1\n{end}")) for text in (word, "inf") for end in ("", "k,1\n")]
    assert {str(table["c"].dtype) for table in tables} >= {"float64", "str"}
    for table in tables:
        values = next(open_table(table, label="y", row_by_row=True, schema=schema).batches()).values()
        assert values[:2].tolist() == [[0, 1, 0], [1, 0, 0]]


def test_values_that_are_one_number_by_the_marks_are_refused():
    with pytest.raises(rb.ArgumentError, match="values that are one number"):
        Schema({"c": Category(("1,3", "1.30"))}, decimal=",")
    Schema({"c": Category(("1,3", "1.30"))})
    with pytest.raises(rb.ArgumentError, match="twice"):
        Schema({"c": Category(("Inf", "1e400"))})
    with pytest.raises(rb.ArgumentError, match="no value can be NaN"):
        Schema({"c": Category(("NaN", 1))})
    with pytest.raises(rb.ArgumentError, match="cannot be called NaN"):
        check_table(pd.DataFrame({"x": [0.5], "y": 1}), label="y", classes=("NaN", "x"), schema={"x": (0, 1)})
    schema = Schema({"x": Number(0, 1)}, "grade", ("1,3", "1,30"), ";", ",")
    with pytest.raises(rb.ArgumentError, match="are one number, as the decimal"):
        rb.craft(READERS["pandas"](GERMAN), schema=schema, mechanism=rb.Moments(1.0))


def test_points_between_thousands_are_for_files_alone(tmp_path):
    """One text in an array makes the text 0.125 of a number, which would be 125."""
    schema = Schema({"x0": Number(0, 1)}, separator=";", decimal=",", thousands=".")
    with pytest.raises(rb.ArgumentError, match="points between thousands"):
        rb.craft(np.array([[0.125], [1]]), [0, 1], schema=schema, classes=(0, 1), mechanism=rb.Moments(1.0))


def test_what_is_assumed_of_a_table_in_memory_is_in_its_statement_and_score(tmp_path, monkeypatch):
    """A reader's decimal comma holds for a whole column, if at all; of a file that is read here nothing is assumed."""
    monkeypatch.setattr(private_score, "note_private_score", lambda **_: None)
    frame = pd.DataFrame({"x": [0.5, 1.0] * 200, "ill": [0, 1] * 200})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    declared = {"schema": {"x": (0, 1)}, "classes": (0, 1), "label": "ill", "mechanism": rb.Moments(9.0)}
    model = rb.MomentsClassifier().fit_rados(rb.craft(frame, **declared)).model_
    for table in (frame, pl.from_pandas(frame), pa.table(frame), tmp_path / "t.csv", tmp_path / "t.parquet"):
        in_memory = not hasattr(table, "suffix")
        assert (IN_MEMORY in rb.craft(table, **declared).statement.not_protected) == in_memory
        assert (IN_MEMORY in rb.score(model, table, label="ill", epsilon=9.0).not_covered) == in_memory
    declared |= {"schema": {"x0": (0, 1)}, "label": None}
    assert IN_MEMORY in rb.craft(frame[["x"]].to_numpy(), frame["ill"], **declared).statement.not_protected
    plain = rb.craft(frame, label="ill", n_rados=9).statement
    assert IN_MEMORY not in plain.not_protected
