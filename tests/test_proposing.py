"""Schemas that are proposed from a table, or guessed from its names and types alone."""

import csv
import gzip
import json
import math
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import radoboost as rb
from radoboost.holder.column_profile import NumberProfile
from radoboost.holder.engines import get_engine
from radoboost.holder.schema_inference import (
    column_name_looks_like_id,
    infer_kind_by_name,
    infer_schema,
    propose_schema,
    schema_template,
    settle_schema,
)
from radoboost.tables import open_table
from radoboost.tables.column_types import MOST_VALUES, Category, Date, Ignored, Number
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.raw_table import open_raw_table
from radoboost.tables.schema import Schema

RAW = """patient_id,age,sex,ward,admitted,marker,note,outcome
101,54,m,A,2024-01-31,1.5,fine,yes
102,,f,B,2024-02-01,2.5,ok,no
103,60,f,A,,NA,better,no
104,60,f,C,2024-02-05,1e1,worse,yes
"""


def from_table(kind):
    """The kind with the mark of what was read off a table."""
    return replace(kind, inferred=True)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def kind(values, name="x", **options):
    """What a column of these texts in a CSV file is proposed as."""
    return propose_schema({name: values}, **options).columns[name]


# ---- what is proposed


def test_a_hospital_table(tmp_path):
    proposal = infer_schema(write(tmp_path / "t.csv", RAW), "outcome")
    columns = proposal.schema.columns
    assert columns["patient_id"] == from_table(Ignored("id"))
    assert columns["age"] == from_table(Number(54, 60, 58, gaps=True))
    assert columns["sex"] == from_table(Category(("f", "m")))
    assert columns["admitted"] == from_table(Date(low="2024-01-31", high="2024-02-05", fill="2024-02-02", gaps=True))
    assert columns["marker"] == from_table(Number(1.5, 10, 14 / 3, gaps=True))
    assert (proposal.schema.label, proposal.schema.classes) == ("outcome", ("no", "yes"))
    assert proposal.schema.from_data
    lines = proposal.as_text()
    assert [line.partition(":")[0] for line in lines] == ["numbers", "categories", "dates", "left out"]
    assert "25.0 % gaps filled with the mean 58" in lines[0] and lines[3].endswith("patient_id (id)")


def test_the_same_from_every_form(tmp_path):
    cells = {
        "age": [54.0, None, 60.0, 60.0],
        "sex": ["m", "f", "f", "f"],
        "admitted": [date(2024, 1, 31), date(2024, 2, 1), None, date(2024, 2, 5)],
        "ok": [True, False, None, True],
        "y": [0, 1, 1, 0],
    }
    table = pa.table(cells)
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    frames = [table, cells, pl.DataFrame(cells), str(tmp_path / "t.parquet"), str(tmp_path / "t.arrow")]
    frames.append(pd.DataFrame(cells))
    text = "age,sex,admitted,ok,y\n54,m,2024-01-31,true,0\n,f,2024-02-01,false,1\n60,f,,,1\n60,f,2024-02-05,true,0\n"
    frames.append(write(tmp_path / "t.csv", text))
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    frames.append(str(tmp_path / "t.csv.gz"))
    expected = propose_schema(table, "y").to_dict()
    assert expected["columns"]["ok"] == {
        "kind": "number", "low": 0, "high": 1, "fill": 2 / 3, "gaps": True, "inferred": True,
    }  # fmt: skip
    for frame in frames:
        assert {**propose_schema(frame, "y").to_dict(), "separator": 0} == {**expected, "separator": 0}, type(frame)


@given(st.lists(st.one_of(st.none(), st.floats(-1e300, 1e300)), min_size=1, max_size=40))
def test_the_fill_is_the_float_nearest_to_the_exact_mean(values):
    present = [value for value in values if value is not None]
    found = propose_schema({"x": pa.array(values, pa.float64())}).columns["x"]
    if not present:
        assert found == from_table(Ignored("text"))
        return
    assert isinstance(found, Number)
    assert found.fill == float(sum(map(Fraction, present)) / len(present))
    assert found.gaps == (len(present) < len(values))
    if min(present) < max(present) and math.isfinite(2 * (max(present) - min(present))):
        assert (found.low, found.high) == (min(present), max(present))
    else:
        assert found.low is None and found.high is None


def test_several_batches_and_files_are_one_table(tmp_path):
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=30_000)
    words = rng.choice(["a", "b", "c"], size=len(numbers))
    whole = pa.table({"x": numbers, "w": words})
    paths = []
    for k in range(3):
        paths.append(str(tmp_path / f"{k}.parquet"))
        pq.write_table(whole.slice(10_000 * k, 10_000), paths[-1], row_group_size=1_400)
    one, several = propose_schema(whole), propose_schema(paths)
    assert one == several
    assert one.columns["x"].fill == float(sum(map(Fraction, numbers.tolist())) / len(numbers))


# ---- marks


@pytest.mark.parametrize(
    ("separator", "cells", "marks", "numbers"),
    [
        (";", ["1,5", "2,25", "3"], (",", None), [1.5, 2.25, 3]),
        (";", ["1.234,5", "0,5", "7"], (",", "."), [1234.5, 0.5, 7]),
        (",", ["1,234", "0.5", "7"], (".", ","), [1234, 0.5, 7]),
        (",", ["1,234", "2,345", "7"], (".", ","), [1234, 2345, 7]),
        (";", ["1,234", "2,345", "7"], (",", None), [1.234, 2.345, 7]),
        ("\t", ["1'000", "2.5", "7"], (".", "'"), [1000, 2.5, 7]),
        ("|", ["1 000,5", "2", "7"], (",", " "), [1000.5, 2, 7]),
        (",", ["1.5", "2", "-.5e3"], (".", None), [1.5, 2, -500]),
    ],
)
def test_marks_that_read_all_cells(tmp_path, separator, cells, marks, numbers):
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(["x", "z", "y"])
        writer.writerows([cell, k, k % 2] for k, cell in enumerate(cells))
    proposal = infer_schema(str(path), "y")
    schema = proposal.schema
    assert (schema.separator, schema.decimal, schema.thousands) == (separator, *marks)
    assert schema.columns["x"].fill == float(sum(map(Fraction, numbers)) / 3)
    assert schema.columns["z"] == from_table(Number(0, 2, 1))
    said = proposal.as_text()[-1]
    assert ("decimal mark ','" in said) == (marks[0] == ",") and ("thousands" in said) == (marks[1] is not None)


def test_marks_are_those_of_most_columns(tmp_path):
    """One file is written in one way: a column that could be read in two goes with the others."""
    path = write(tmp_path / "t.csv", "a;b;y\n1.234;1,5;0\n2.345;2,5;1\n")
    schema = propose_schema(path, "y")
    assert (schema.decimal, schema.thousands) == (",", ".")
    assert schema.columns["a"] == from_table(Number(1234, 2345, 1789.5))


def test_columns_that_no_marks_read_in_common_are_not_numbers(tmp_path):
    path = write(tmp_path / "t.csv", "a;b;c;y\n1.5;1,5;2,5;0\n2.25;2,5;3,5;1\n")
    schema = propose_schema(path, "y")
    assert schema.decimal == ","
    assert schema.columns["a"] == from_table(Category(("1.5", "2.25"))) and schema.columns["b"] == from_table(
        Number(1.5, 2.5, 2)
    )


@pytest.mark.parametrize("cell", ["1,23,456", "1,2345", ",5,", "1,234.5.6", "1,234,", "1 , 234"])
def test_groups_of_thousands_have_three_digits(cell):
    look = NumberProfile(get_engine("reference"), [CsvDialect(None, ".", ",")])
    look.see(pa.array([cell]), np.array([True]))
    assert not look.alive


# ---- dates


@pytest.mark.parametrize(
    ("cells", "order", "words"),
    [
        (["2024-01-31", "2024-02-01"], "ymd", ""),
        (["31.01.2024", "01.02.2024"], "dmy", "day before month"),
        (["1/31/2024", "2/1/2024"], "mdy", "month before day"),
        (["01.02.2024", "02.03.2024"], "dmy", "day before month, which no date in it decides"),
        (["2024-01-31T10:30:00", "2024-02-01 00:00"], "ymd", ""),
    ],
)
def test_the_order_that_reads_all_dates(cells, order, words):
    proposal = infer_schema({"d": cells})
    assert proposal.schema.columns["d"].order == order and proposal.notes["d"] == words


def test_dates_are_bounded_by_what_was_seen_and_filled_near_their_mean():
    seen = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2), None]
    assert propose_schema({"d": seen}).columns["d"] == from_table(
        Date(low="2024-01-01", high="2024-01-02", fill="2024-01-02", gaps=True)
    )
    times = pa.array([0, 3601], pa.timestamp("s", "Europe/Berlin"))
    assert propose_schema({"d": times}).columns["d"] == from_table(
        Date(low="1970-01-01", high="1970-01-01T01:00:01", fill="1970-01-01")
    )
    before = pa.array([-3 * 86400, -2 * 86400], pa.timestamp("s"))
    assert propose_schema({"d": before}).columns["d"].fill == "1969-12-30"  # half a day rounds up
    far = pa.array([2**45, 2**46], pa.timestamp("s"))
    assert propose_schema({"d": far}).columns["d"] == from_table(Ignored("text"))  # no year from 1 to 9999


def test_one_impossible_date_makes_texts_of_all():
    assert isinstance(kind(["2024-01-31", "2024-02-30"]), Category)


# ---- categories, ids, texts


def test_more_values_than_a_category_has_are_left_out():
    few = [f"v{k}" for k in range(MOST_VALUES)] * 2
    assert kind(few) == from_table(Category(tuple(sorted(set(few)))))
    assert kind([*few, "one more"]) == from_table(Ignored("text"))
    assert kind([*few, "one more"], "case_id") == from_table(Ignored("id"))


def test_values_that_are_one_have_one_spelling_whatever_came_first():
    expected = from_table(Category(("1", "x")))
    assert kind(["1.0", "1", "x"]) == expected == kind(["x", "1", "1.0"])


def test_long_texts_are_no_categories():
    assert kind(["a" * 2000, "b"]) == from_table(Ignored("text"))


def test_ids_by_name_and_content():
    assert kind([1, 2, 3], "patient_id") == from_table(Ignored("id"))
    assert kind([3.0, 4.0, None], "patientId") == from_table(Ignored("id"))
    assert kind(list(range(100)) * 2, "id") == from_table(Ignored("id"))  # several rows of each
    assert kind(["a", "b"], "ID") == from_table(Ignored("id"))
    assert kind([1, 2, 2, 1], "ward_id") == from_table(Category((1, 2)))  # names of few things
    assert kind(["1", "2", "2"], "ward_id") == from_table(Category(("1", "2")))
    assert kind([1.5, 2.5], "id") == from_table(Number(1.5, 2.5, 2))  # amounts
    assert kind([1, 2, 3], "idle") == from_table(Number(1, 3, 2))


def test_a_column_of_numbers_with_some_texts_is_pointed_at():
    cells = [str(k / 7) for k in range(200)] + ["<5", "n/k"]
    proposal = infer_schema({"lab": cells, "x": list(range(202))})
    assert proposal.schema.columns["lab"] == from_table(Ignored("text"))
    assert proposal.notes["lab"] == "text: 2 of 202 cells are no numbers, the first: '<5' (row 201)"


def test_types_that_no_kind_reads_are_left_out_by_type():
    table = pa.table(
        {
            "l": pa.array([[1], [2]]),
            "t": pa.array([1, 2], pa.time32("s")),
            "b": pa.array([b"a", b"b"]),
            "n": pa.nulls(2),
            "d": pa.array([Decimal("1.50"), Decimal("2.5")]),
            "c": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    proposal = infer_schema(table)
    kinds = {name: column.kind for name, column in proposal.schema.columns.items()}
    assert kinds == {"l": "text", "t": "text", "b": "text", "n": "text", "d": "number", "c": "category"}
    assert proposal.notes["n"] == "nothing in it" and "list" in proposal.notes["l"]


def test_features_and_drop_choose_columns():
    table = {"a": [1, 2], "b": ["u", "v"], "c": [3, 4]}
    assert list(propose_schema(table, features=["b", "a"]).columns) == ["b", "a"]
    assert list(propose_schema(table, "c", drop="b").columns) == ["a"]


def test_labels_are_checked_as_for_a_release(tmp_path):
    with pytest.raises(rb.TableError, match=r"'y'.*\(line 3 of"):
        propose_schema(write(tmp_path / "t.csv", "a,y\n1,0\n2,\n3,1\n"), "y")
    with pytest.raises(rb.TableError, match="more than 64 classes"):
        propose_schema({"a": range(65), "y": range(65)}, "y")
    with pytest.raises(rb.TableError, match="no column 'z'"):
        propose_schema({"a": [1]}, "z")
    with pytest.raises(rb.TableError, match="has no rows"):
        propose_schema(pa.table({"a": pa.array([], pa.string())}))


def test_raw_cells_of_a_csv_file_are_texts_and_know_their_lines(tmp_path):
    path = write(tmp_path / "t.csv", 'a;b\n1;"x\ny"\n;z\n')
    raw = open_raw_table(path)
    (batch,) = raw.batches()
    assert (raw.columns, raw.separator) == (("a", "b"), ";")
    assert batch.columns.to_pylist() == [{"a": "1", "b": "x\ny"}, {"a": "", "b": "z"}]
    assert batch.place(1) == f"line 4 of {path}"


# ---- guesses without data


def test_a_template_looks_at_no_value(tmp_path):
    """Only the header matters: whatever the rows are, the template is the same."""
    names = "patient_id,age,sex,ward,admitted_on,dateOfBirth,note,marker,outcome"
    templates = []
    for k, rows in enumerate(["", "1,2,3,4,5,6,7,8,9\n", "a;b\n\x00,\n", '"' * 7]):
        path = write(tmp_path / f"{k}.csv", f"{names}\n{rows}")
        templates.append(schema_template(path, "outcome"))
    assert all(template == templates[0] for template in templates)
    kinds = {name: column.kind for name, column in templates[0].columns.items()}
    assert kinds == {
        "patient_id": "id", "age": "number", "sex": "category", "ward": "category", "admitted_on": "date",
        "dateOfBirth": "date", "note": "text", "marker": "number",
    }  # fmt: skip
    assert not templates[0].from_data and templates[0].classes is None
    assert list(templates[0].undecided()) == ["age", "sex", "ward", "admitted_on", "dateOfBirth", "marker"]


def test_types_say_more_than_names():
    stored = {
        "a": pa.float64(),
        "ok": pa.bool_(),
        "when": pa.timestamp("us"),
        "marker": pa.string(),
        "ward": pa.int32(),
        "code": pa.dictionary(pa.int8(), pa.string()),
        "nested": pa.list_(pa.int8()),
        "visit_time": pa.int64(),
    }
    kinds = {name: infer_kind_by_name(name, kind).kind for name, kind in stored.items()}
    assert list(kinds.values()) == ["number", "number", "date", "category", "category", "category", "text", "number"]


def test_a_template_of_objects_goes_by_names(monkeypatch):
    frame = pd.DataFrame({"sex": pd.Series(["m", 1, None], dtype=object), "age": pd.Series([1, "x", 2], dtype=object)})
    kinds = {name: column.kind for name, column in schema_template(frame).columns.items()}
    assert kinds == {"sex": "category", "age": "number"}
    assert schema_template(np.zeros((2, 2))).columns == {"x0": Number(), "x1": Number()}


def test_names_of_ids():
    assert all(
        map(
            column_name_looks_like_id,
            ["id", "ID", "patient_id", "id_patient", "patientId", "MRN", "patient number", "case_no"],
        )
    )
    assert not any(
        map(column_name_looks_like_id, ["idle", "acid", "number_of_visits", "grid", "no", "phone_number_count", ""])
    )


# ---- what a written schema leaves open


def test_a_schema_that_is_whole_is_taken_as_it_is():
    schema = Schema({"a": Number(0, 1, fill=0.5), "w": Category(("u",)), "d": Date(fill="2024-01-01"), "t": Ignored()})
    assert settle_schema(schema, "there is no such file.csv") is schema


def test_what_is_open_is_settled_by_the_table():
    schema = Schema(
        {"a": Number(0, 9), "w": Category(other=True, gaps=True), "d": Date(order="dmy"), "t": Ignored("id")}
    )
    table = {"a": [1.0, None, 2.0], "w": ["v", None, "u"], "d": ["3.1.2024", "1.1.2024", None], "t": [1, 2, 3]}
    settled = settle_schema(schema, table)
    assert settled.columns == {
        "a": Number(0, 9, 1.5, inferred=True),
        "w": Category(("u", "v"), other=True, gaps=True, inferred=True),
        "d": Date(order="dmy", fill="2024-01-02", inferred=True),
        "t": Ignored("id"),
    }
    assert settled.from_data and not schema.from_data


def test_all_categories_with_too_many_values_are_named(tmp_path):
    n = 70_000
    table = pa.table({"name": [f"n{k}" for k in range(n)], "street": [f"s{k}" for k in range(n)], "ok": ["u"] * n})
    schema = Schema({name: Category() for name in table.column_names})
    with pytest.raises(rb.TableError, match=r"'name', 'street': more than 64 values.*\"other\": true") as caught:
        settle_schema(schema, table)
    assert "\n" not in str(caught.value) and "'ok'" not in str(caught.value)
    with pytest.raises(rb.TableError, match="'w': no value in any row"):
        settle_schema(Schema({"w": Category()}), pa.table({"w": pa.array([None, ""])}))


def test_a_cell_that_cannot_be_read_leaves_the_fill_open():
    schema = Schema({"a": Number(0, 9), "d": Date()})
    settled = settle_schema(schema, {"a": ["1", "x"], "d": ["2024-01-01", "x"]})
    assert settled.columns == dict(schema.columns)


def test_a_proposal_goes_through_its_file(tmp_path):
    schema = propose_schema(write(tmp_path / "t.csv", RAW), "outcome")
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


# ---- numbers with an odd cell among them


def nearly(tmp_path, odd="haemolysed", decimal="."):
    """A table of 3,000 rows, with an odd cell in line 18 of a column of numbers."""
    cells = [f"{k / 7:.3f}".replace(".", decimal) for k in range(3000)]
    cells[16] = odd
    lines = [f"{cell};{k % 50};{'no' if k % 3 else 'yes'}" for k, cell in enumerate(cells)]
    return write(tmp_path / "lab.csv", "crp;n;y\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize("word", ["--", ".", "na", " - "])
def test_one_sign_for_a_gap_does_not_discard_a_column(word, tmp_path):
    path = nearly(tmp_path, word)
    with pytest.warns(rb.SchemaWarning, match="crp \\(0.0 % gaps filled with the mean"):
        release = rb.craft(path, label="y", n_rados=5)
    assert release.schema.columns["crp"].gaps and release.schema.columns["crp"].high == round(2999 / 7, 3)
    declared = rb.Schema({"crp": rb.Number(0, 500, fill=7, gaps=True)}, "y", ("no", "yes"), separator=";")
    for row_by_row in (False, True):
        source = open_table(path, label="y", schema=declared, row_by_row=row_by_row)
        values = np.vstack([batch.values() for batch in source.batches()])
        assert values[16].tolist() == [7.0, 1.0] and values[:, 1].sum() == 1
    category = open_table({"c": [word, "a"]}, [0, 1], schema=rb.Schema({"c": rb.Category((word, "a"), gaps=True)}))
    assert next(category.batches()).values().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_signs_may_be_labels(tmp_path):
    path = write(tmp_path / "t.csv", "w,y\n" + "a,+\nb,-\n" * 10)
    assert propose_schema(path, "y").classes == ("+", "-")
    with pytest.warns(rb.SchemaWarning):
        release = rb.craft(path, label="y", n_rados=5, schema=rb.Schema(gaps="drop"))
    assert release.n_examples == 20 and release.classes == ("+", "-")


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
@pytest.mark.parametrize("decimal", [".", ","])
def test_an_odd_cell_among_numbers_is_refused_with_its_place(decimal, tmp_path):
    path = nearly(tmp_path, decimal=decimal)
    with pytest.raises(rb.TableError, match=r"'crp'.*'haemolysed' \(line 18 of .*--drop crp") as caught:
        rb.craft(path, label="y", n_rados=5)
    assert "\n" not in str(caught.value)
    with pytest.warns(rb.SchemaWarning, match="written with: separator ';'$"):
        assert rb.craft(path, label="y", n_rados=5, seed=1, schema=rb.Schema(drop=("crp",))).feature_names == (
            "n",
            "(constant)",
        )
    proposal = infer_schema(path, "y")
    assert proposal.schema.columns["crp"] == from_table(Ignored("text"))
    words = "crp (text: 1 of 3,000 cells is no number: 'haemolysed' (line 18"
    assert any(words in line for line in proposal.as_text())
    assert rb.craft(path, n_rados=5, schema=proposal.schema).feature_names == ("n", "(constant)")


def test_all_such_columns_are_named_and_texts_are_not():
    rng = np.random.default_rng(1)
    columns = {name: [repr(value) for value in rng.normal(size=400).tolist()] for name in ("u", "v", "w", "few")}
    columns["u"][3], columns["v"][5] = "high", "<5"
    columns["w"][:30] = ["unknown"] * 30  # 7.5 %
    columns["few"] = [str(k % 12) for k in range(399)] + ["ICU"]
    proposal = infer_schema(columns)
    assert list(proposal.nearly) == ["u", "v"]
    with pytest.raises(rb.TableError, match=r"'u'.*'high' \(row 4\).*'v'.*'<5' \(row 6\).*--drop u --drop v"):
        rb.craft(columns, [0, 1] * 200, n_rados=5)
    assert isinstance(proposal.schema.columns["few"], Category)
    assert proposal.notes["w"] == "text: 30 of 400 cells are no numbers, the first: 'unknown' (row 1)"


def test_a_column_with_another_decimal_mark_is_refused():
    columns = {
        "a": [f"{k},5" for k in range(100)],
        "b": [f"{k},25" for k in range(100)],
        "c": [f"{k}.5" for k in range(100)],
    }
    with pytest.raises(rb.TableError, match=r"'c' .* decimal mark is '\.'"):
        rb.craft(columns, [0, 1] * 50, n_rados=5)


# ---- types that declare a category


def test_a_dictionary_is_a_category():
    codes = [7, 3, 7, 9, 3]
    frames = [pd.DataFrame({"c": pd.Categorical(codes)}), pa.table({"c": pa.array(codes).dictionary_encode()})]
    frames.append({"c": pa.array(map(str, codes)).dictionary_encode()})
    for frame in frames:
        assert propose_schema(frame).columns["c"].values in ((3, 7, 9), ("3", "7", "9"))
    assert propose_schema({"c": pa.array(codes)}).columns["c"] == from_table(Number(3, 9, 5.8))
    assert infer_kind_by_name("c", pa.dictionary(pa.int32(), pa.int64())) == Category()
    assert infer_kind_by_name("case_id", pa.dictionary(pa.int32(), pa.int64())) == Ignored("id")
    many = infer_schema(pd.DataFrame({"c": pd.Categorical(range(100))}))
    assert many.notes["c"] == "a category of more than 64 values"


def test_a_column_that_was_asked_for_is_no_id():
    columns = {"visit_no": [1, 2, 3, 4], "age": [5, 6, 7, None]}
    assert propose_schema(columns).columns["visit_no"] == from_table(Ignored("id"))
    assert propose_schema(columns, features=["visit_no", "age"]).columns["visit_no"] == from_table(Number(1, 4, 2.5))


# ---- how far it is


class Enough(BaseException):
    """What a bar raises that has seen enough."""


def told(work, most=10**9):
    """What a bar is told by `work(bar)`, which ends after `most` lines."""
    lines = []

    def bar(task, done, total):
        lines.append((task, done, total))
        if len(lines) >= most:
            raise Enough

    with suppress(Enough):
        work(bar)
    return lines


@pytest.fixture
def long_csv(tmp_path, rng, monkeypatch):
    """A file of several blocks."""
    monkeypatch.setattr("radoboost.tables.csv_files.CSV_BLOCK_BYTES", 100_000)
    ages, wards = rng.integers(0, 100, 50_000), rng.integers(0, 3, 50_000)
    rows = [f"{age},ward {ward},{'yes' if age > 50 else 'no'}\n" for age, ward in zip(ages, wards, strict=True)]
    path = tmp_path / "long.csv"
    path.write_text("age,ward,ill\n" + "".join(rows))
    return path


def test_a_look_says_how_far_it_is_and_ends_where_its_bar_raises(long_csv):
    lines = told(lambda bar: infer_schema([str(long_csv)], "ill", bar=bar))
    rows = [done for _, done, _ in lines]
    assert {task for task, _, _ in lines} == {"looking at the table"} and rows == sorted(rows)
    assert rows[-1] == 50_000 and len({done for done in rows if done < 50_000}) >= 2
    assert all(total is not None and 0.9 < total / 50_000 < 1.1 for _, _, total in lines[1:])
    assert told(lambda bar: infer_schema([str(long_csv)], "ill", bar=bar), most=3) == lines[:3]


def test_a_craft_by_a_schema_that_leaves_something_open_says_how_far_its_look_is(long_csv):
    schema = Schema({"age": Number(0, 120), "ward": Category()}, "ill", ("no", "yes"))

    def work(bar):
        rb.craft([str(long_csv)], schema=schema, n_rados=10, progress=bar)

    lines = told(work)
    assert lines[0] == ("opening the table", 0, None)
    looks = [done for task, done, _ in lines if task == "looking at the table"]
    assert looks[0] == 0 and looks[-1] == 50_000 and len(looks) > 3
    assert told(work, most=4) == lines[:4]  # cancelled within a block, and nothing is read after that


def test_rows_without_a_label_are_left_out_of_a_proposal_and_counted(tmp_path, rado):
    """They are no reason to stop, and nothing of them is in the schema."""
    path = tmp_path / "t.csv"
    path.write_text(
        "age,ward,ill\n" + "".join(f"{k},a,{'yes' if k % 2 else 'no'}\n" for k in range(20, 60)) + "99,z,\n98,,NA\n"
    )
    with pytest.raises(rb.TableError, match="missing value"):
        infer_schema(path, "ill")
    proposal = infer_schema(path, "ill", skip_unlabelled=True)
    assert proposal.unlabelled == 2 and proposal.schema.classes == ("no", "yes")
    assert proposal.schema.columns["age"].high == 59 and proposal.schema.columns["ward"].values == ("a",)
    assert "without a label, and left out: 2 rows" in proposal.as_text()
    code, out, _ = rado("schema", str(path), "--label", "ill", "--from-data", "-o", "s.json")
    assert code == 0 and "without a label, and left out: 2 rows" in out
