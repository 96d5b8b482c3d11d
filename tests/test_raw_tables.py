"""Plain releases of raw tables: proposed schemas, written ones that leave things open, and what becomes of gaps."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from radoboost.holder.engines import get_engine
from radoboost.holder.schema_inference import schema_template
from radoboost.holder.table_check import check_table
from radoboost.holder.table_preparation import find_gaps
from radoboost.tables import open_table


def raw_rows(n_rows=300):
    """Columns of a raw table, as texts: an id, numbers with gaps, categories, a date, notes, and the label."""
    rng = np.random.default_rng(5)
    age = [f"{value:.1f}" for value in rng.uniform(18, 90, n_rows)]
    dose = [f"{value:.3f}" for value in rng.lognormal(0, 1, n_rows)]
    for column, share in ((age, 0.05), (dose, 0.1)):
        for row in np.flatnonzero(rng.random(n_rows) < share):
            column[row] = ""
    ward = rng.choice(list("ABC"), n_rows).tolist()
    return {
        "patient_id": [str(1000 + k) for k in range(n_rows)],
        "age": age,
        "dose": dose,
        "ward": ward,
        "admitted": [f"2024-{m:02}-{d:02}" for m, d in rng.integers(1, 13, (n_rows, 2)).tolist()],
        "note": [f"note {k}" for k in range(n_rows)],
        "outcome": ["yes" if (w == "A") != (k % 5 == 0) else "no" for k, w in enumerate(ward)],
    }


def write_csv(path, columns, separator=","):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join(separator.join(row) for row in [tuple(columns), *rows]) + "\n")
    return str(path)


@pytest.fixture
def raw(tmp_path):
    return write_csv(tmp_path / "raw.csv", raw_rows())


# ---- proposed


def test_a_raw_table_just_works_and_says_what_it_did(raw):
    with pytest.warns(rb.SchemaWarning) as notices:
        release = rb.craft(raw, label="outcome", n_rados=20, seed=1)
    (notice,) = notices
    assert [line.partition(":")[0] for line in notice.message.lines] == ["numbers", "categories", "dates", "left out"]
    assert notice.message.lines[-1] == "left out: patient_id (id), note (text, many values)"
    assert notice.filename == __file__ and "\n" not in str(notice.message)
    assert release.feature_names == (
        "age", "age=(missing)", "dose", "dose=(missing)", "ward=A", "ward=B", "ward=C", "admitted",
        "(constant)",
    )  # fmt: skip
    assert list(release.schema.columns) == ["age", "dose", "ward", "admitted"] and release.schema.from_data
    assert release.classes == ("no", "yes")
    assert any("schema was made from the table" in line for line in release.statement.not_protected)


def test_a_declared_schema_is_not_said_to_be_made_from_the_table():
    """Where gaps are filled with the table's means, these are all that it has of the table."""
    table = {"age": [50.0, None, 70.0, 64.0], "ward": ["A", "B", "A", "B"], "ill": ["no", "yes", "yes", "no"]}
    columns = {"age": rb.Number(0, 120, gaps=True), "ward": rb.Category(("A", "B"))}
    (open_fill,) = _on_schemas(rb.craft(table, label="ill", n_rados=5, schema=rb.Schema(columns)))
    assert "as it was declared, and what it leaves open as the table has it: the mean of every number" in open_fill
    assert "smallest" not in open_fill
    (shared,) = _on_schemas(rb.share(table, label="ill", schema=rb.Schema(columns))[0].awaited.release)
    assert shared == open_fill
    columns["age"] = rb.Number(0, 120, fill=60, gaps=True)
    (closed,) = _on_schemas(rb.craft(table, label="ill", n_rados=5, schema=rb.Schema(columns)))
    assert "Read off the table, it would tell of it" in closed
    (proposed,) = _on_schemas(rb.craft(table, label="ill", n_rados=5, schema=rb.propose_schema(table, "ill")))
    assert "was made from the table" in proposed and "smallest" in proposed


def _on_schemas(release):
    return [sentence for sentence in release.statement.not_protected if sentence.startswith("The schema")]


def test_what_is_proposed_and_what_is_crafted_without_are_one(raw, tmp_path):
    """Proposed by craft, by hand, or read from a file: the same bits, and no warning where somebody has seen it."""
    with pytest.warns(rb.SchemaWarning):
        release = rb.craft(raw, label="outcome", n_rados=20, seed=1)
    schema = rb.propose_schema(raw, "outcome")
    again = rb.craft(raw, label="outcome", n_rados=20, seed=1, schema=schema)
    assert again.rados.tobytes() == release.rados.tobytes() and again.schema == release.schema
    release.save(tmp_path / "r.parquet")
    assert rb.load(tmp_path / "r.parquet").schema == release.schema


def test_gaps_are_filled_with_the_exact_mean(raw):
    columns = raw_rows()
    numbers = [float(cell) for cell in columns["age"] if cell]
    schema = rb.propose_schema(raw, "outcome")
    assert schema.columns["age"].fill == pytest.approx(np.mean(numbers), rel=1e-15)
    values = np.vstack([batch.values() for batch in open_table(raw, label="outcome", schema=schema).batches()])
    holes = np.array([cell == "" for cell in columns["age"]])
    assert (values[holes, 0] == schema.columns["age"].fill).all() and (values[:, 1] == holes).all()


@pytest.fixture
def opened(monkeypatch):
    """How often Arrow opened a CSV file: for its header, and for every pass."""
    counts, open_csv = Counter(), pa.csv.open_csv

    def count(*given, **options):
        counts["opened"] += 1
        return open_csv(*given, **options)

    monkeypatch.setattr("pyarrow.csv.open_csv", count)
    return counts


@pytest.mark.parametrize(
    ("mechanism", "passes"),
    [(rb.Plain(), 2), (rb.FeatureBand("b", 3.0), 2), (rb.Moments(np.inf), 3)],
    ids=["plain", "band", "moments"],
)
def test_a_clean_table_is_read_by_its_mechanism_and_no_more(mechanism, passes, monkeypatch, tmp_path, opened):
    """No schema, no extra pass, and nothing of proposals is even looked at."""
    path = tmp_path / "clean.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 9},{k // 2 % 2},{k % 2}\n" for k in range(500)))
    monkeypatch.setattr("radoboost.holder.table_preparation.infer_schema", None)
    monkeypatch.setattr("radoboost.holder.table_preparation.settle_schema", None)
    release = rb.craft(path, label="y", n_rados=None if passes == 3 else 5, mechanism=mechanism)
    assert release.schema is None and opened["opened"] == 1 + passes


@pytest.mark.parametrize(("cell", "most"), [("u", 6), ("", 8)], ids=["text", "a gap far down"])
def test_a_mechanism_begins_once_however_often_the_table_was_looked_at(cell, most, monkeypatch, tmp_path, opened):
    """At a cell that needs a schema the survey ends, and no sum was begun; a text in sight costs no pass at all."""
    monkeypatch.setattr("radoboost.tables.csv_files.CSV_BLOCK_BYTES", 1000)
    rows = [f"{cell if cell or k == 390 else k},{k % 7},{k % 2}\n" for k in range(400)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(rows))
    begun, make = [], rb.Plain.make
    monkeypatch.setattr(rb.Plain, "make", lambda *about: begun.append(about) or make(*about))
    with pytest.warns(rb.SchemaWarning):
        release = rb.craft(tmp_path / "t.csv", label="y", n_rados=5, seed=1)
    assert len(begun) == 1 and opened["opened"] <= most and "a" in release.schema.columns


@pytest.mark.parametrize("late", ["x", "", "NA", "1;2"], ids=["text", "empty", "NA", "text with a semicolon"])
def test_a_cell_far_down_is_enough(late, tmp_path, monkeypatch):
    """What the first block of a CSV file suggests may be wrong: then everything starts again, with a schema."""
    monkeypatch.setattr("radoboost.tables.csv_files.CSV_BLOCK_BYTES", 20_000)
    lines = [f"{k % 15},{k % 2}" for k in range(20_000)]
    lines[-2] = f"{late},1"
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "\n".join(lines) + "\n")
    with pytest.warns(rb.SchemaWarning):
        release = rb.craft(path, label="y", n_rados=5, seed=1)
    expected = rb.Number if late in ("", "NA") else rb.Category
    assert isinstance(release.schema.columns["a"], expected)
    assert release.n_examples == 20_000


FRAMES = {
    "NaN in an array": np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]]),
    "texts in an array": np.array([["a", "1"], ["b", "2"], ["a", "2.5"]]),
    "a pandas frame": pd.DataFrame({"w": ["a", "b", None], "n": [1, 2, None]}),
    "a dict of columns": {"d": ["2024-01-01", "2024-01-02", "2024-01-05"], "n": [1, 2, 3]},
    "objects of several types": pd.DataFrame({"m": [1, "few", None], "n": [1, 2, 3]}),
    "categories": pa.table({"c": pa.array(["u", "v", "u"]).dictionary_encode(), "n": [1.0, None, 2.0]}),
}


@pytest.mark.parametrize("form", FRAMES)
def test_tables_in_memory(form):
    releases = []
    for engine in ("kernel", "reference"):
        with pytest.warns(rb.SchemaWarning):
            releases.append(rb.craft(FRAMES[form], [0, 1, 1], n_rados=3, seed=2, compute=rb.Compute(engine=engine)))
    assert releases[0].schema.label is None and releases[0].n_examples == 3
    assert releases[0].rados.tobytes() == releases[1].rados.tobytes() and np.isfinite(releases[0].rados).all()


def test_a_stream_that_can_be_read_once():
    reader = pa.table({"w": ["a", "b", "a"], "n": [1.0, None, 2.0]}).to_reader()
    with pytest.warns(rb.SchemaWarning):
        assert rb.craft(reader, [0, 1, 1], n_rados=3).n_examples == 3


def test_features_bounds_and_classes_of_the_caller_count(raw):
    with pytest.warns(rb.SchemaWarning):
        release = rb.craft(
            raw,
            label="outcome",
            n_rados=4,
            classes=("yes", "no"),
            schema=replace(rb.Schema.of({"age": (0, 120)}), use=("age", "ward")),
        )
    assert release.schema.columns["age"].low == 0 and release.schema.columns["age"].high == 120
    assert release.classes == ("yes", "no") and list(release.schema.columns) == ["age", "ward"]
    with pytest.raises(rb.ArgumentError, match="'ward'"):
        rb.craft(raw, label="outcome", schema={"ward": (0, 1)})


def test_a_feature_band_may_protect_a_category(raw):
    schema = rb.Schema({"ward": rb.Category(("A",)), "age": rb.Number()})
    release = rb.craft(raw, label="outcome", n_rados=5, schema=schema, mechanism=rb.FeatureBand("ward=A", epsilon=2.0))
    assert "ward=A" in release.feature_names


def test_a_table_with_nothing_to_use_is_one_line():
    table = pd.DataFrame({"a": [np.nan] * 3, "case_id": [1, 2, 3]})
    with pytest.raises(rb.TableError, match="nothing is left to learn from"):
        rb.craft(table, [0, 1, 1])


def test_infinite_values_are_refused_as_ever():
    table = {"a": [1.0, np.inf, 3.0], "w": ["u", "v", "u"]}
    with pytest.raises(rb.TableError, match=r"column 'a' has 'inf' \(row 2\)"):
        rb.craft(table, [0, 1, 1], n_rados=2)


def test_a_semicolon_file_with_decimal_commas(tmp_path):
    columns = raw_rows()
    plain = write_csv(tmp_path / "a.csv", columns)
    columns["age"] = [cell.replace(".", ",") for cell in columns["age"]]
    columns["dose"] = [cell.replace(".", ",") for cell in columns["dose"]]
    other = write_csv(tmp_path / "b.csv", columns, ";")
    with pytest.warns(rb.SchemaWarning):
        expected = rb.craft(plain, label="outcome", n_rados=8, seed=3)
    with pytest.warns(rb.SchemaWarning, match="separator ';', decimal mark ','"):
        release = rb.craft(other, label="outcome", n_rados=8, seed=3)
    assert release.rados.tobytes() == expected.rados.tobytes()
    assert (release.schema.separator, release.schema.decimal) == (";", ",")
    with pytest.warns(rb.SchemaWarning):
        told = rb.craft(other, label="outcome", n_rados=8, seed=3, schema=rb.Schema(separator=";", decimal=","))
    assert told.rados.tobytes() == expected.rados.tobytes()


def test_threads_and_files_do_not_change_a_bit(tmp_path):
    columns = raw_rows(1000)
    whole = write_csv(tmp_path / "whole.csv", columns)
    parts = [
        write_csv(tmp_path / f"part{k}.csv", {name: cells[500 * k : 500 * (k + 1)] for name, cells in columns.items()})
        for k in range(2)
    ]
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    releases = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.SchemaWarning)
        for form, threads in ((whole, 1), (whole, 2), (parts, 2), (table, 2), (str(tmp_path / "t.parquet"), 2)):
            releases.append(rb.craft(form, label="outcome", n_rados=10, seed=1, compute=rb.Compute(threads=threads)))
    assert len({release.rados.tobytes() for release in releases}) == 1


# ---- a written schema that leaves something open


def test_plain_releases_settle_what_a_schema_leaves_open(raw):
    open_schema = rb.Schema({"age": rb.Number(0, 120, gaps=True), "ward": rb.Category(), "admitted": rb.Date()})
    release = rb.craft(raw, label="outcome", n_rados=5, schema=open_schema)
    assert release.schema.columns["ward"].values == ("A", "B", "C") and release.schema.from_data
    whole = rb.craft(raw, label="outcome", n_rados=5, schema=release.schema)
    assert whole.schema == release.schema
    written = rb.Schema({"age": rb.Number(0, 120, fill=50, gaps=True), "ward": rb.Category(("A", "B"))})
    with pytest.warns(rb.SchemaWarning, match=f"not have, in 'ward' {raw_rows()['ward'].count('C')} of 300 rows"):
        assert not rb.craft(raw, label="outcome", n_rados=5, schema=written).schema.from_data


# ---- gaps


def test_gaps_can_be_refused_with_all_columns_named(raw):
    columns = raw_rows()
    age, dose = (sum(cell == "" for cell in columns[name]) for name in ("age", "dose"))
    message = f"values are missing in 'age' {age}, 'dose' {dose} of 300 rows"
    for schema in (None, rb.propose_schema(raw, "outcome")):
        with pytest.raises(rb.TableError, match=message) as caught:
            rb.craft(raw, label="outcome", schema=replace(rb.Schema.of(schema), gaps="error"))
        assert "--set gaps=drop" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.warns(rb.SchemaWarning):  # for the texts, which are no gaps
        release = rb.craft(raw, label="outcome", n_rados=4, schema=rb.Schema(drop=("age", "dose"), gaps="error"))
    assert release.feature_names[:-1] == ("ward=A", "ward=B", "ward=C", "admitted")


def test_rows_with_gaps_can_be_left_out(raw, tmp_path):
    columns = raw_rows()
    whole = [k for k in range(300) if columns["age"][k] and columns["dose"][k]]
    kept = write_csv(tmp_path / "kept.csv", {name: [cells[k] for k in whole] for name, cells in columns.items()})
    with pytest.warns(rb.SchemaWarning, match=f"rows left out for a gap: {300 - len(whole)} of 300") as notices:
        release = rb.craft(raw, label="outcome", n_rados=20, seed=1, schema=rb.Schema(gaps="drop"))
    assert release.feature_names[:-1] == ("age", "dose", "ward=A", "ward=B", "ward=C", "admitted")
    assert release.n_examples == len(whole)
    assert "% gaps" in str(notices[0].message) and "filled" not in str(notices[0].message)
    # Signatures go by the rows that stay: the same rows in a table of their own give the same bits.
    schema = rb.Schema({**release.schema.columns}, "outcome")
    expected = rb.craft(kept, label="outcome", n_rados=20, seed=1, schema=schema)
    assert release.rados.tobytes() == expected.rados.tobytes()
    written = rb.Schema({**release.schema.columns})
    with pytest.warns(rb.SchemaWarning, match="rows left out"):
        again = rb.craft(raw, label="outcome", n_rados=20, seed=1, schema=replace(rb.Schema.of(written), gaps="drop"))
    assert again.rados.tobytes() == expected.rados.tobytes()


def test_rows_without_a_label_are_left_out_with_the_others(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,0\n,1\n3,\n4,1\n5,0\n")
    with pytest.raises(rb.TableError, match=r"label 'y' has a missing value \(line 4"):
        rb.craft(path, label="y", n_rados=2)
    with pytest.warns(rb.SchemaWarning, match=r"rows left out for a gap: 2 of 5 \('a' 1, 'y' 1\)"):
        assert rb.craft(path, label="y", n_rados=2, schema=rb.Schema(gaps="drop")).n_examples == 3
    x, y = np.array([[1.0], [np.nan], [3.0], [4.0]]), [0.0, 1.0, np.nan, 1.0]
    with pytest.warns(rb.SchemaWarning, match=r"2 of 4 \('x0' 1, 'y' 1\)"):
        assert rb.craft(x, y, n_rados=2, schema=rb.Schema(gaps="drop")).n_examples == 2


def test_nothing_left_is_one_line():
    with pytest.raises(rb.TableError, match="every row of the table has a gap"):
        rb.craft({"a": [None, 1.0, None], "b": [1.0, None, 2.0]}, [0, 1, 1], schema=rb.Schema(gaps="drop"))


def test_a_declared_word_is_no_gap():
    schema = rb.Schema({"w": rb.Category(("NA", "EU"))})
    assert not find_gaps({"w": ["NA", "EU", "NA"]}, None, schema, None).by_column
    assert find_gaps({"w": ["NA", "", None]}, None, schema, None).by_column == {"w": 2}


def test_private_mechanisms_always_fill(raw):
    for missing in ("error", "drop"):
        with pytest.raises(rb.ArgumentError, match=f"always fills gaps.*gaps={missing}"):
            rb.craft(raw, label="outcome", mechanism=rb.Moments(1.0), schema=rb.Schema(gaps=missing))
    with pytest.raises(rb.ArgumentError, match="'ignore'"):
        rb.craft(raw, label="outcome", schema=rb.Schema(gaps="ignore"))


# ---- private mechanisms


def test_private_mechanisms_never_propose(raw, monkeypatch):
    """Neither without a schema nor with one that leaves something open, and nothing reads the table to find out."""
    monkeypatch.setattr("radoboost.tables.raw_table.open_raw_table", None)
    monkeypatch.setattr("radoboost.tables.raw_table.open_raw_table", None)
    monkeypatch.setattr("radoboost.holder.craft.open_table", None)
    options = {"label": "outcome", "classes": ("no", "yes"), "mechanism": rb.Moments(1.0)}
    with pytest.raises(rb.ArgumentError, match="rado schema TABLE --label COL"):
        flat.craft(raw, **options)
    template = rb.schema_template(raw, "outcome")
    with pytest.raises(rb.ArgumentError, match=r"'age', 'dose', 'ward', 'admitted'.*\"ward\": .*\"values\"") as caught:
        flat.craft(raw, **options, schema=template)
    assert "\n" not in str(caught.value)


def test_private_releases_with_marks_of_a_file(tmp_path):
    columns = raw_rows()
    columns["age"] = [cell.replace(".", ",") for cell in columns["age"]]
    path = write_csv(tmp_path / "t.csv", columns, ";")
    schema = rb.Schema({"age": rb.Number(0, 120), "ward": rb.Category(("A", "B", "C"))}, "outcome", ("no", "yes"))
    release = rb.craft(
        path, mechanism=rb.Moments(1.0), n_rados=5, schema=replace(rb.Schema.of(schema), separator=";", decimal=",")
    )
    assert (release.schema.decimal, release.schema.separator) == (",", ";")
    release = rb.craft(
        path,
        label="outcome",
        classes=("no", "yes"),
        mechanism=rb.Moments(1.0),
        n_rados=5,
        schema=replace(rb.Schema.of({"age": (0, 120)}), decimal=","),
    )
    assert release.schema.columns == {"age": rb.Number(0, 120)} and release.schema.decimal == ","
    with pytest.raises(rb.ArgumentError, match="how a file is written stands in a schema"):
        rb.craft(path, label="outcome", mechanism=rb.Moments(1.0), schema=replace(rb.Schema.of("private"), decimal=","))


def test_the_engine_of_the_caller_takes_the_sums(raw, monkeypatch):
    """A proposal uses the engine's own exact survey."""
    counts = []
    reference = get_engine("reference")
    survey = type(reference).survey

    def counted(self, *args, **options):
        counts.append(options)
        return survey(self, *args, **options)

    monkeypatch.setattr(type(reference), "survey", counted)
    with pytest.warns(rb.SchemaWarning):
        rb.craft(raw, label="outcome", n_rados=3, compute=rb.Compute(engine=reference))
    assert len(counts) > 2


# ---- one line, whatever is asked for


def refused(match, *arguments, **options):
    with pytest.raises(rb.RadoError, match=match) as caught:
        flat.craft(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_nothing_is_left_to_learn_from(raw, tmp_path):
    texts = write_csv(
        tmp_path / "texts.csv", {k: v for k, v in raw_rows().items() if k in ("patient_id", "note", "outcome")}
    )
    left = "nothing is left to learn from.*note"
    refused(left, texts, label="outcome")
    refused(left, raw, label="outcome", features=["note"])
    seen = rb.propose_schema(texts, "outcome")
    refused(left, texts, schema=seen)
    moments = rb.Moments(epsilon=1.0)
    refused(left, texts, schema=rb.Schema(seen.columns, "outcome", ("no", "yes")), mechanism=moments)
    refused("every column of the schema is dropped", texts, schema=seen, drop=["patient_id", "note"])


def test_marks_that_there_are_not_are_refused(raw):
    for mark in ("x", ";"):
        refused("decimal must be '.' or ','", raw, label="outcome", decimal=mark)
    refused("separator must be one ASCII character", raw, label="outcome", separator="ab")


def test_all_columns_that_are_not_there_are_named(raw, tmp_path):
    kinds = {"age": rb.Number(), "ward": rb.Category(), "height": rb.Number(0, 1), "weight": rb.Number(0, 1, fill=0)}
    refused("has no column 'height', 'weight'", raw, schema=rb.Schema(kinds, "outcome"))
    array = rb.Schema({"x0": rb.Number(), "x7": rb.Number(), "x8": rb.Number(0, 1, fill=0)})
    refused("has no column 'x7', 'x8'", np.eye(4), [0, 1, 0, 1], schema=array)
    clean = write_csv(tmp_path / "clean.csv", {"a": list("1234"), "y": list("0101")})
    refused("bounds name 'b', 'c', not among the features", clean, label="y", bounds={"b": (0, 1), "c": (0, 1)})
    refused("cannot be called 'block' or '\\(constant\\)'", {"block": [1, 2], "(constant)": [1, 2]}, [0, 1])
    refused("bounds of 'x0' must be finite.*bounds of 'x1' must be two numbers", np.eye(2), [0, 1],
            bounds={"x0": (2, 1), "x1": 3})  # fmt: skip
    refused("has no column 'u', 'v'", clean, label="y", drop=["u", "v"])


def test_the_statement_says_that_extremes_are_told(raw):
    release = rb.craft(raw, label="outcome", n_rados=5, schema=rb.propose_schema(raw, "outcome"))
    assert any(
        "the smallest value, the largest and the mean of every number" in line
        for line in release.statement.not_protected
    )


# ---- small things


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_types_that_arrow_does_not_have():
    y = [0, 1] * 20
    frame = pl.DataFrame({
        "long": pl.Series(range(40), dtype=pl.Int128),
        "thing": pl.Series([{k} for k in range(40)], dtype=pl.Object),
        "number": pl.Series(list(range(40)), dtype=pl.Object),
    })  # fmt: skip
    assert rb.craft(frame, y, n_rados=5, schema=rb.Schema(drop=("thing",))).feature_names == (
        "long",
        "number",
        "(constant)",
    )
    types = {name: kind.kind for name, kind in schema_template(frame).columns.items()}
    assert types == {"long": "number", "thing": "number", "number": "number"}  # objects say nothing before one looks
    refused("cannot read column 'long'", frame.select("long"), y, bounds=np.array([[0, 1]]))
    assert rb.craft(frame.select("number"), pl.Series(y, dtype=pl.Int128), n_rados=5).classes == (0, 1)
    with pytest.warns(rb.SchemaWarning, match=r"left out: b \(binary\)"):
        rb.craft(pa.table({"b": [bytes([k, k]) for k in range(40)], "w": list("uv") * 20}), y, n_rados=5)


def test_labels_with_gaps_say_what_to_do(tmp_path):
    labels = ["u", "v"] * 19 + [float("nan"), "u"]
    table = {"a": list("xy") * 20, "l": labels}
    refused("the label 'l' has a missing value.*--set unlabelled=drop", table, label="l")
    with pytest.warns(rb.SchemaWarning, match="rows left out for a gap: 1 of 40"):
        assert rb.craft(table, label="l", n_rados=5, schema=rb.Schema(gaps="drop")).n_examples == 39


def test_a_clean_file_says_its_separator(tmp_path):
    path = write_csv(tmp_path / "t.csv", {"a": list("1234"), "y": list("0101")}, ";")
    with pytest.warns(rb.SchemaWarning, match="written with: separator ';'"):
        assert rb.craft(path, label="y", n_rados=5).schema is None


def test_names_that_are_there_twice_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,a,b,y\n1,2,3,4,0\n")
    for table in (str(tmp_path / "t.csv"), pa.table([[1], [2]], ["a", "a"])):
        with pytest.raises(rb.TableError, match="several columns are called 'a'"):
            schema_template(table)


def test_check_takes_marks(tmp_path):
    path = write_csv(tmp_path / "t.csv", {"a": ["1,5", "2,5"], "y": ["no", "yes"]}, ";")
    options = {"label": "y", "classes": ("no", "yes")}
    assert flat.check_table(path, bounds={"a": (0, 9)}, decimal=",", **options).counts.filled.tolist() == [0]
    words = "\n".join(check_table(path, schema=rb.Schema({"a": rb.Number(0, 9)}), **options).as_text())
    assert "'a': 2 cells are no number; the first: '1,5' in line 2, '2,5' in line 3" in words
    assert """'a': "decimal": "," reads 2 of them; the documentation of the table says what is right""" in words


MESSY = rb.Schema(
    {
        "age": rb.Number(0, 120),
        "ward": rb.Category(("surgery", "medicine", "east")),
        "admitted": rb.Date(low="2020-01-01", high="2025-01-01"),
    },
    "ill",
    ("no", "yes"),
)


def messy_rows():
    """Sixty rows of three lines each, some of them with cells that `MESSY` does not declare."""
    rows = [[f"{30 + k % 40}", "surgery", f"2024-01-{1 + k % 28:02}", '"a\n\nnote"', "no"] for k in range(60)]
    for row, ward in enumerate(["Surgery", "SURGERY", "surgrey", "medecine", "XR7", "XR7", "XR7"]):
        rows[row + 1][1] = ward
    for row in (20, 21, 22, 23):
        rows[row][2] = f"{row}.03.2024"
    rows[24][2] = "05.06.2024"
    rows[30] = ["age", "ward", "admitted", "note", "ill"]
    rows[40][0], rows[41][4], rows[42][4] = "3O", "Yes", ""
    return rows


@pytest.mark.parametrize("part_bytes", [None, 500], ids=["one part", "many parts"])
def test_check_names_what_does_not_fit_and_the_rule_that_would_read_it(part_bytes, tmp_path, monkeypatch):
    """Frequent unknown values, spellings, first cells by their line, other orders, and headers within the table."""
    if part_bytes:
        monkeypatch.setattr("radoboost.tables.csv_files.RANGE_BYTES", part_bytes)
    lines = [",".join(row) for row in [["age", "ward", "admitted", "note", "ill"], *messy_rows()]]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    found = check_table(tmp_path / "t.csv", schema=MESSY)
    unfit = found.to_dict()["unfit"]
    assert unfit["ward"] == {
        "cells": 8,
        "frequent": {"XR7": 3, "Surgery": 1, "SURGERY": 1, "surgrey": 1, "medecine": 1},
        "other_capitals": 2,
        "one_letter": 2,
    }
    text = (tmp_path / "t.csv").read_text().splitlines()

    def line(start):
        return f"line {next(k for k, line in enumerate(text, 1) if line.startswith(start) and k > 1)}"

    assert unfit["age"] == {
        "cells": 2,
        "first": [{"cell": "age", "where": line("age,")}, {"cell": "3O", "where": line("3O,")}],
        "decimal": {},
    }
    assert unfit["admitted"]["cells"] == 6 and unfit["admitted"]["order"] == {"dmy": 5, "mdy": 1}
    assert unfit["admitted"]["first"][0] == {"cell": "20.03.2024", "where": line("50,")}
    assert unfit["ill"]["frequent"] == {"ill": 1, "Yes": 1} and unfit["ill"]["other_capitals"] == 1
    assert found.to_dict()["repeated_headers"] == 1
    words = found.as_text()
    assert "without a usable label: 3 rows ('ill' is missing, or no declared class)" in words
    assert f"1 rows repeat the header, the first in {line('age,')}: leave them out of the table" in words
    assert """'ward': 2 of them are a declared value in other capitals, which "fold": true reads""" in words
    assert any(""""order": "dmy" reads 5 of them and "order": "mdy" reads 1""" in text for text in words)


def test_check_of_a_frame_says_rows(tmp_path):
    names = ["age", "ward", "admitted", "note", "ill"]
    frame = pd.DataFrame(messy_rows(), columns=names)
    found = check_table(frame, schema=MESSY).to_dict()
    assert found["unfit"]["age"]["first"] == [{"cell": "age", "where": "row 31"}, {"cell": "3O", "where": "row 41"}]
    assert found["unfit"]["ward"]["cells"] == 8 and found["repeated_headers"] == 1


def test_no_advice_of_a_check_is_a_value_of_the_table(tmp_path):
    """Rules alone are written down: the values that are found are shown, and never as JSON to paste."""
    frame = pd.DataFrame(messy_rows(), columns=["age", "ward", "admitted", "note", "ill"])
    advice = [line for line in check_table(frame, schema=MESSY).as_text() if '": ' in line]
    assert advice and not any(value in line for line in advice for value in ("XR7", "surg", "20.03", "3O"))
