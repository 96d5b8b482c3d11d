"""What a schema says of single columns, on every way in: codes, bounds, marks, spellings, and unknown values.

The oracle reads cell by cell, and knows nothing of the package.
"""

import hashlib
import json
import sqlite3
import warnings
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder.engines import get_engine
from radoboost.holder.engines.self_test import engine_passes_self_test
from radoboost.holder.table_check import check_table
from radoboost.learner.explain import explain_row
from radoboost.studio.schema_form import SchemaForm, read_card_entry
from radoboost.tables import class_values, open_table
from radoboost.tables.class_values import case_folds, fold_case
from radoboost.tables.schema import Schema
from radoboost.tables.streams import spool_for_rereading

DAY = date(2024, 1, 1)
COLUMNS = {
    "age": rb.Number(0, 120, missing=(999, -1), gaps=True),
    "crp": rb.Number(0, 300, fill=2, decimal=",", thousands=".", beyond="gap"),
    "ward": rb.Category(
        ("Surgery", "ÄRZTE", 7), fold=True, synonyms={"surg.": "Surgery", "NA": 7}, other="gap", gaps=True
    ),
    "payer": rb.Category(("public", "private"), synonyms={"statutory": "public"}, other="private"),
    "seen": rb.Date(order="dmy", low="2024-01-01", high="2024-12-31", missing=("2024-12-31",), beyond="gap",
                    parts=("weekday",)),
}  # fmt: skip
SCHEMA = Schema(COLUMNS, "ill", ("no", "yes"))
CELLS = {  # how each is written, and what it becomes: a number or a place, None for a gap
    "age": {"47": 47, "999": None, "-1.0": None, "999.5": 999.5, "": None, "0": 0},
    "crp": {"3,5": 3.5, "1.000,0": None, "-0,1": None, "300": 300, "": None, "2,25": 2.25},
    "ward": {"surgery": 0, " SURG. ": 0, "ärzte": 1, "Ärzte": 1, "7.0": 2, "NA": 2, "Dermatology": None, "": None},
    "payer": {"public": 0, "statutory": 0, "Statutory": 1, "?": None, "private": 1, "nobody": 1},
    "seen": {"5.6.2024": 156, "2024-06-05": 156, "31.12.2024": None, "2025-01-01": None, "": None, "1.1.2024": 0},
}


def oracle(row):
    """The encoded columns of a row of texts."""
    age, crp, ward, payer, seen = (CELLS[name][cell] for name, cell in zip(CELLS, row, strict=True))
    day = 182.5 if seen is None else seen
    numbers = [60 if age is None else age, age is None, 2 if crp is None else crp]
    slots = [[k == (3 if ward is None else ward) for k in range(4)], [k == payer for k in range(2)]]
    weekday = [seen is not None and (DAY + timedelta(days=seen)).weekday() == k for k in range(7)]
    return [*numbers, *slots[0], *slots[1], (DAY - date(1970, 1, 1)).days + day, *weekday]


def rows_of(count, seed=0):
    rng = np.random.default_rng(seed)
    return [tuple(str(rng.choice(list(cells))) for cells in CELLS.values()) for _ in range(count)]


def lists(rows):
    return {name: [row[k] for row in rows] for k, name in enumerate(CELLS)} | {
        "ill": ["yes" if k % 3 else "no" for k in range(len(rows))]
    }


def as_csv(rows, folder):
    path = folder / "t.csv"
    pd.DataFrame(lists(rows)).to_csv(path, index=False)
    return path


def as_parquet(rows, folder):
    pq.write_table(pa.table(lists(rows)), folder / "t.parquet")
    return folder / "t.parquet"


def as_objects(rows, folder):
    """Numbers and dates as Python has them, beside texts."""
    frame = pd.DataFrame(lists(rows)).astype(object)
    frame["age"] = [float(cell) if cell else None for cell in frame["age"]]
    frame["seen"] = [
        DAY + timedelta(days=CELLS["seen"][c]) if CELLS["seen"][c] is not None else c for c in frame["seen"]
    ]
    return frame


def as_query(rows, folder):
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE t ({', '.join(f'{name} TEXT' for name in lists(rows))})")
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 6)})", zip(*lists(rows).values(), strict=True))
    return rb.query(connection, "SELECT * FROM t")


FILES = {"csv": as_csv, "parquet": as_parquet}
FRAMES = {
    "pandas": lambda rows, _: pd.DataFrame(lists(rows)), "objects": as_objects,
    "categorical": lambda rows, _: pd.DataFrame(lists(rows)).astype("category"),
    "database": as_query, "lazy frame": lambda rows, _: pl.LazyFrame(lists(rows)),
    "polars": lambda rows, _: pl.DataFrame(lists(rows)), "arrow": lambda rows, _: pa.table(lists(rows)),
}  # fmt: skip
WAYS = FILES | FRAMES
# Points between thousands are for files alone where something is promised, for a type may have texts of them.
WITHOUT_POINTS = replace(SCHEMA, columns={**COLUMNS, "crp": replace(COLUMNS["crp"], thousands=None)})


def encoded(table, schema, *, row_by_row):
    with spool_for_rereading(table, row_by_row=row_by_row) as rows:
        source = open_table(rows, label="ill", features=schema.used, schema=schema, row_by_row=row_by_row)
        return np.concatenate([batch.values() for batch in source.batches()])


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_reads_the_same(way, private, tmp_path):
    rows = [row for row in rows_of(80) if row[1] != "1.000,0" or way in FILES]
    schema = SCHEMA if way == "csv" or not private else WITHOUT_POINTS
    rows = [row for row in rows if schema is SCHEMA or row[1] != "1.000,0"]
    found = encoded(WAYS[way](rows, tmp_path), schema, row_by_row=private)
    assert found.tolist() == [list(map(float, oracle(row))) for row in rows]


@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning", "ignore:.*deprecated", "ignore:.*inplace keyword")
def test_workers_of_a_cluster_read_the_same(tmp_path):
    distributed, frames = pytest.importorskip("distributed"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(lists([row for row in rows_of(90) if row[1] != "1.000,0"]))
    fills = {"age": replace(COLUMNS["age"], fill=60), "seen": replace(COLUMNS["seen"], fill="2024-07-01")}
    schema = replace(WITHOUT_POINTS, columns=WITHOUT_POINTS.columns | fills)  # all decided: nothing is looked at before
    options = {"schema": schema, "n_rados": 6, "seed": 3}
    with distributed.Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster:
        there = rb.craft(frames.from_pandas(frame, npartitions=3), compute=rb.Compute(cluster=cluster), **options)
    here = rb.craft(frame, **options)
    assert there.rados.tobytes() == here.rados.tobytes()


@pytest.mark.parametrize("way", ["parquet", "pandas"])
def test_points_between_thousands_of_a_column_are_for_files_of_texts(way, tmp_path):
    with pytest.raises(rb.ArgumentError, match="points between thousands"):
        encoded(WAYS[way](rows_of(9), tmp_path), SCHEMA, row_by_row=True)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(*(st.sampled_from(list(cells)) for cells in CELLS.values())), min_size=1, max_size=9), st.data()
)
def test_what_a_row_becomes_depends_on_that_row_alone(rows, draw):
    table = pa.table(lists(rows))
    together = encoded(table, WITHOUT_POINTS, row_by_row=True)
    k = draw.draw(st.integers(0, len(rows) - 1))
    assert encoded(table.slice(k, 1), WITHOUT_POINTS, row_by_row=True).tolist() == [together[k].tolist()]


@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
@pytest.mark.parametrize(("mechanism", "key"), [(rb.Plain(), {"seed": 1}), (rb.Moments(float("inf")), {})])
def test_a_cleaned_table_gives_the_same_release(mechanism, key, tmp_path):
    """Declared codes and spellings are what the holder would have cleaned by hand: the integers are the same."""
    rows = rows_of(400)
    clean = {name: [CELLS[name][row[k]] for row in rows] for k, name in enumerate(CELLS)}
    clean["ward"] = [None if place is None else ("Surgery", "ÄRZTE", "7")[place] for place in clean["ward"]]
    clean["payer"] = [None if place is None else ("public", "private")[place] for place in clean["payer"]]
    clean["seen"] = [None if day is None else DAY + timedelta(days=day) for day in clean["seen"]]
    plain = {
        "age": rb.Number(0, 120, fill=60, gaps=True), "crp": rb.Number(0, 300, fill=2),
        "ward": rb.Category(("Surgery", "ÄRZTE", 7), gaps=True), "payer": rb.Category(("public", "private")),
        "seen": rb.Date(low="2024-01-01", high="2024-12-31", fill="2024-07-01T12:00", parts=("weekday",)),
    }  # fmt: skip
    declared = COLUMNS | {name: replace(COLUMNS[name], fill=plain[name].fill) for name in ("age", "seen")}
    one, other = (
        rb.craft(table, schema=Schema(columns, "ill", ("no", "yes")), mechanism=mechanism, n_rados=8, **key)
        for table, columns in (
            (as_csv(rows, tmp_path), declared),
            (pa.table(clean | {"ill": lists(rows)["ill"]}), plain),
        )
    )
    assert one.columns == other.columns
    exact = [name for name in one.blocks if key or name != "rados"]  # rados of exact moments are drawn
    assert [one.blocks[name].tobytes() for name in exact] == [other.blocks[name].tobytes() for name in exact]


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_codes_are_in_no_mean_and_in_no_bound_that_a_plain_release_takes(tmp_path):
    """What a written schema leaves open is taken from the cells that are not gaps by it."""
    open_schema = Schema({"age": rb.Number(missing=(999,)), "ward": rb.Category(fold=True)}, "ill", ("no", "yes"))
    table = {"age": [40, 60, 999, 50] * 9, "ward": ["A", "a", "B", "b"] * 9, "ill": ["no", "yes"] * 18}
    schema = rb.craft(table, schema=open_schema, n_rados=4).schema
    assert schema.columns["age"].fill == 50 and schema.columns["ward"].values == ("A", "B")
    with pytest.raises(rb.TableError, match="'age'"):
        flat.craft(table, schema=open_schema, n_rados=4, missing="error")
    assert flat.craft(table, schema=open_schema, n_rados=4, missing="drop").n_examples == 27


# ---- what is refused, and how a schema is written


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (rb.Category(("A", "a"), fold=True), "there twice"),
        (rb.Category(("STRASSE", "Straße", "straSSe"), fold=True), "there twice"),
        (rb.Category(("A", "B"), fold=True, synonyms={"b": "A"}), "'b' is there already, as 'B'"),
        (rb.Category(("A", "B"), synonyms={"x": "A", " x ": "B"}), "is there already"),
        (rb.Category(("A", 7), synonyms={"7.0": "A"}), "is there already"),
        (rb.Category(("A", "NAN"), fold=True), "no value can be NaN"),
        (rb.Category(("A", "B"), synonyms={"NaN": "A"}), "no value can be NaN"),
        (rb.Category(("A", "B"), synonyms={"x": "C"}), "none of the values"),
        (rb.Category(("A", "B"), other="C"), "other must be"),
        (rb.Category(("A", "gap"), other="gap"), "could be the value"),
        (rb.Category(synonyms={"x": "A"}), "need values"),
        (rb.Number(0, 1, missing=("x",)), "missing must be numbers"),
        (rb.Number(0, 1, missing=(1, 1.0)), "twice"),
        (rb.Number(0, 1, missing=9), "missing must be numbers"),
        (rb.Number(beyond="gap"), "needs low and high"),
        (rb.Number("private", "private", beyond="gap"), "needs low and high"),
        (rb.Number(0, 1, beyond="drop"), "beyond must be"),
        (rb.Number(0, 1, decimal=";"), "decimal must be"),
        (rb.Number(0, 1, thousands="."), "must differ"),
        (rb.Date(missing=("31.12.2024",)), "missing must be dates"),
        (rb.Date(low="2024-01-01", beyond="gap"), "needs low and high"),
    ],
)
def test_a_declaration_with_two_meanings_is_refused_when_it_is_made(column, why):
    with pytest.raises(rb.ArgumentError, match=why) as caught:
        Schema({"x": column})
    assert "column 'x'" in str(caught.value)


@pytest.mark.parametrize("columns", [("1,5", "1.5"), ("1,5", "x")])
def test_two_spellings_of_a_number_with_the_marks_of_the_file_are_refused(columns):
    Schema({"x": (kind := rb.Category(columns, synonyms={"1.50" if "x" in columns else "y": columns[1]}))})
    with pytest.raises(rb.ArgumentError, match="'x' values that are one number"):
        Schema({"x": kind}, decimal=",")


def test_labels_are_compared_as_they_are_written():
    """A name of a label says which classes it has (M21), and nothing of spellings: so there are none to say."""
    spelled = {"x": rb.Number(0, 1), "ill": rb.Category(("no", "yes"), fold=True)}
    with pytest.raises(rb.ArgumentError, match=r"'ill' is the label, .* leave 'fold' out"):
        Schema(spelled, "ill", ("no", "yes"))
    table = {"x": [0.5, 1.0] * 9, "ill": ["no", "yes"] * 9}
    with pytest.raises(rb.ArgumentError, match="'ill' is the label"):
        rb.craft(pa.table(table), label="ill", schema=Schema(spelled), n_rados=4)


def test_a_schema_is_what_its_file_says():
    again = Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict())))
    assert again == SCHEMA and again.to_dict() == SCHEMA.to_dict()
    before = {"kind": "number", "low": 0, "high": 9}
    assert Schema.from_dict({"radoboost_schema": 1, "columns": {"x": before}}).to_dict()["columns"]["x"] == before


def test_the_command_and_the_form_keep_what_they_do_not_show(rado, tmp_path):
    path = as_csv(rows_of(30), Path())
    written = SCHEMA.to_dict()["columns"]
    options = [word for name, entry in written.items() for word in ("--column", f"{name}={json.dumps(entry)}")]
    assert rado("schema", path, "-l", "ill", "--classes", "no,yes", *options)[0] == 0
    assert Schema.from_dict(json.loads(Path("t.schema.json").read_text())) == SCHEMA
    form = SchemaForm.of(path)
    form.take_up(SCHEMA)
    assert form.schema() == SCHEMA and form.corrected == ()
    for card in form.cards():
        shown = {name: str(value) for name, value in card.fields.items() if value and name not in ("search", "parts")}
        shown |= {f"part-{part}": "on" for part in card.fields["parts"]}
        form.columns[card.name] = read_card_entry(card.kind, form.entry(card.name), shown)
    assert form.schema() == SCHEMA and form.problems() == {}


# ---- capitals and small letters


def test_folding_is_the_same_in_every_python():
    assert hashlib.sha256(repr(sorted(case_folds().items())).encode()).hexdigest().startswith("a695733e4cb5c933")
    sample = "ÄÖÜẞ ŠÇÉ ΑΣΩ ЖЩЯ İ\u0131I ŉ ﬁ ǅ Ⅷ Ⓐ"
    assert fold_case(sample) == "äöüẞ šçé ασω жщя İ\u0131i ŉ ﬁ ǆ ⅷ ⓐ"
    folded = "".join(map(chr, case_folds().values()))
    assert fold_case(folded) == folded and all(len(fold_case(chr(code))) == 1 for code in range(0x11000))


def test_a_worker_whose_python_folds_otherwise_is_refused(monkeypatch):
    case_folds.cache_clear()
    monkeypatch.setattr(class_values, "FOLDS_DIGEST", "0" * 64)
    try:
        with pytest.raises(rb.RadoError, match="folds letters otherwise"):
            engine_passes_self_test(get_engine("kernel"))
    finally:
        case_folds.cache_clear()


# ---- prediction, and programs that predict elsewhere


@pytest.fixture(scope="module")
def model():
    table = pa.table(lists([row for row in rows_of(600) if row[1] != "1.000,0"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            rb.MomentsClassifier()
            .fit_rados(rb.craft(table, schema=WITHOUT_POINTS, mechanism=rb.Moments(float("inf"))))
            .model_
        )


ODD = [
    ("1e3", "3.5", "SURG.", "STATUTORY", "x"),
    ("TRUE", "1,2,3", "\u017fURGERY", " public ", "5.6.2024 12:30"),
    ("n/k", "", "x" * 2000, "", ""),
]


@pytest.mark.filterwarnings("ignore::radoboost.FilledWarning")
def test_programs_read_cells_as_prediction_does(model, tmp_path):
    rows = [row for row in rows_of(300, seed=4) if row[1] != "1.000,0"] + ODD
    wanted = model.predict_proba(pa.table(lists(rows)))
    program = {"__name__": "exported"}
    exec(rb.export(model, "python"), program)
    found = [list(program["probabilities"](dict(zip(CELLS, row, strict=True))).values()) for row in rows]
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"n": range(len(rows)), **lists(rows)})  # noqa: F841 (the query reads it)
    query = rb.export(model, "sql", table="table", keep=("n",)).rstrip().rstrip(";")
    shares = duckdb.sql(f"SELECT probability FROM ({query}) ORDER BY n").fetchall()
    assert np.allclose([share for (share,) in shares], wanted[:, 1], rtol=1e-12, atol=0)


@pytest.mark.filterwarnings("ignore::radoboost.FilledWarning")
def test_a_graph_reads_cells_as_prediction_does(model):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rows = [row for row in rows_of(300, seed=5) if row[1] != "1.000,0"]
    seconds = [CELLS["seen"][row[4]] for row in rows]
    days = (DAY - date(1970, 1, 1)).days
    far = {"31.12.2024": 365, "2025-01-01": 366}
    moments = [far.get(row[4], day) for row, day in zip(rows, seconds, strict=True)]
    numbers = {
        name: np.array([[float(row[k].replace(",", ".") or "nan")] for row in rows])
        for k, name in ((0, "age"), (1, "crp"))
    }
    inputs = numbers | {name: np.array([[row[k]] for row in rows], object) for k, name in ((2, "ward"), (3, "payer"))}
    inputs["seen"] = np.array([[-(2**62) if day is None else (days + day) * 86400] for day in moments], np.int64)
    session = runtime.InferenceSession(rb.export(model, "onnx"))
    _, shares = session.run(None, inputs)
    assert np.allclose(shares, model.predict_proba(pa.table(lists(rows))), rtol=1e-9, atol=0)


DOSES = rb.Category(("0,5", 1.5, "inf", "none"), fold=True, synonyms={"2,5": "0,5", "HALF": "0,5"}, other=True)


@pytest.mark.filterwarnings("ignore::radoboost.FilledWarning")
def test_numbers_of_a_category_are_one_value_in_every_type_and_in_programs(tmp_path):
    """One odd cell makes texts of a column of decimals, in a file with a decimal comma and in spellings of synonyms."""
    schema = Schema({"dose": DOSES}, "ill", ("no", "yes"), decimal=",")
    texts = ["0,5", "1,50", "2,5", "Half", "NONE", "Infinity", "1e999", "other", "0.5"]
    slots = [0, 1, 0, 0, 3, 2, 2, 4, 0]

    def read(cells, way):
        table = pa.table({"dose": cells, "ill": ["no", "yes"] * (len(cells) // 2) + ["no"] * (len(cells) % 2)})
        if way == "csv":
            table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
        return encoded(tmp_path / "t.csv" if way == "csv" else table, schema, row_by_row=True).argmax(axis=1).tolist()

    assert read(texts, "csv") == read(texts, "table") == slots
    assert read([0.5, 1.5, 2.5, float("inf"), 7.0], "table") == [0, 1, 0, 2, 4]
    table = pa.table({"dose": texts * 9, "ill": ["yes" if k % 9 < k // 9 else "no" for k in range(81)]})
    model = rb.MomentsClassifier().fit_rados(rb.craft(table, schema=schema, mechanism=rb.Moments(float("inf")))).model_
    wanted = model.predict_proba(pa.table({"dose": texts}))
    assert len({tuple(row) for row in wanted.tolist()}) == 5
    program = {"__name__": "exported"}
    exec(rb.export(model, "python"), program)
    found = [list(program["probabilities"]({"dose": text}).values()) for text in texts]
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    # Other programs read a number with marks as it is declared, and else as programs write it.
    pytest.importorskip("onnxruntime")
    import duckdb
    import onnxruntime

    same = ["0,5", "1.50", "2,5", "Half", "NONE", "Infinity", "inf", "other", "0.5"]
    rows = pa.table({"n": range(len(same)), "dose": same})  # noqa: F841 (the query reads it)
    query = rb.export(model, "sql", table="rows", keep=("n",)).rstrip().rstrip(";")
    shares = duckdb.sql(f"SELECT probability FROM ({query}) ORDER BY n").fetchall()
    assert np.allclose([share for (share,) in shares], wanted[:, 1], rtol=1e-12, atol=0)
    session = onnxruntime.InferenceSession(rb.export(model, "onnx"))
    _, found = session.run(None, {"dose": np.array([[text] for text in same], object)})
    assert np.allclose(found, wanted, rtol=1e-9, atol=0)


def test_a_check_knows_codes_marks_and_spellings(tmp_path):
    """Codes for missing are read, numbers by the marks of their column, and folding as folding reads."""
    path = tmp_path / "t.csv"
    cells = {"age": ["999", "old"], "crp": ["3,5", "3.5"], "ward": ["SURG.", "Surgerx"], "seen": ["31.12.2024", "soon"]}
    pd.DataFrame(cells | {"payer": ["PUBLIC", "Statutory"], "ill": ["no", "yes"]}).to_csv(path, index=False)
    own = replace(COLUMNS["crp"], thousands=None)
    found = check_table(path, schema=replace(SCHEMA, columns={**COLUMNS, "crp": own})).to_dict()["unfit"]
    assert {name: cells["cells"] for name, cells in found.items()} == {
        "age": 1, "crp": 1, "ward": 1, "seen": 1, "payer": 2,
    }  # fmt: skip
    assert [cells["first"][0]["cell"] for name, cells in found.items() if "first" in cells] == ["old", "3.5", "soon"]
    assert (found["ward"]["one_letter"], found["payer"]["other_capitals"]) == (1, 2)


def test_what_sql_cannot_read_is_refused_in_one_line(model):
    own = replace(model.schema, columns={**model.schema.columns, "crp": COLUMNS["crp"]})
    with pytest.raises(rb.ArgumentError, match="'crp' has marks between thousands, which SQL does not read"):
        rb.export(replace(model, schema=own), "sql")


def gappy(count=3000):
    """Ages around 47, of which one in nine is not known, and a lab value that says where it is missing."""
    rng = np.random.default_rng(2)
    age = rng.normal(47, 6, count).round()
    return pa.table(
        {
            "age": pa.array(age, mask=np.arange(count) % 9 == 0),
            "lab": pa.array(rng.uniform(0, 1, count), mask=np.arange(count) % 5 == 0),
            "ill": ["yes" if one > 47 else "no" for one in age],
        }
    )


GAPPY = Schema({"age": rb.Number(0, 200), "lab": rb.Number(0, 10, gaps=True)}, "ill", ("no", "yes"))


@pytest.mark.parametrize("columns", ["linear", "auto"])
def test_a_gap_is_filled_with_the_mean_that_the_release_tells(columns, tmp_path):
    table = gappy()
    known = table.filter(pa.compute.is_valid(table["age"]))
    release = rb.craft(known, schema=GAPPY, mechanism=rb.Moments(20.0), columns=columns)
    model = rb.MomentsClassifier().fit_rados(release).model_
    fill = model.reading_kinds["age"].fill
    assert 40 < fill < 60 and model.schema.columns["age"].fill is None and model.reading_kinds["lab"].fill is None
    row = {"age": [None], "lab": [0.5]}
    with pytest.warns(rb.FilledWarning, match=f"'age' 1 with {fill:.6g}") as caught:
        scores = model.decision_function(row)
    assert caught[0].filename == __file__
    assert scores.tolist() == model.decision_function({"age": [fill], "lab": [0.5]}).tolist()
    assert explain_row(model, row).filled.row_sentences() == [f"age is not known; {fill:.6g} was used"]
    model.save(tmp_path / "m.json")
    with pytest.warns(rb.FilledWarning):
        assert rb.load_model(tmp_path / "m.json").decision_function(row).tolist() == scores.tolist()
    written = replace(model, schema=replace(GAPPY, columns={**GAPPY.columns, "age": rb.Number(0, 200, fill=90)}))
    assert written.reading_kinds["age"].fill == 90


def test_a_gap_is_filled_with_the_mean_by_bounds_alone():
    table = gappy().drop_columns(["lab"])
    known = table.filter(pa.compute.is_valid(table["age"]))
    release = rb.craft(known, schema={"age": (0, 200)}, label="ill", classes=("no", "yes"), mechanism=rb.Moments(20.0))
    model = rb.MomentsClassifier().fit_rados(release).model_
    assert 40 < model.neutral[0] < 60
