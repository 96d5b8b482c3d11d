"""What messages say where people go wrong: the column, the class or the file, and what to type instead."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import flat
import radoboost as rb
from radoboost.tables.databases import QueryResult
from radoboost.tables.opening import column_storage_of_table
from radoboost.tables.raw_table import raw_column_types
from radoboost.tables.streams import StandardInput, spool_stream

CLASSES = ("--classes", "low,middle,high")


@pytest.fixture
def visits(rado):
    """A table with an id, a text and a date beside one column of numbers, and its files in the folder of commands."""
    rng, n = np.random.default_rng(0), 900
    table = pa.table(
        {
            "patient id": np.arange(n), "age": rng.integers(20, 90, n), "ward": rng.choice(["A", "B"], n),
            "admitted": ["2024-01-31"] * n, "triage": np.array(["low", "middle", "high"])[np.arange(n) % 3],
        }
    )  # fmt: skip
    pq.write_table(table, "visits.parquet")
    table.to_pandas().to_csv("visits.csv", index=False)
    return table


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_private_bounds_say_which_columns_may_hold_no_numbers(name, visits, rado):
    options = (name, "--label", "triage", *CLASSES, "--schema", "private")
    code, _, err = rado("craft", *options, "--epsilon", 5)
    first, last = err.splitlines()
    assert code == 1 and not Path("visits.rado.parquet").exists()
    assert "'patient id', 'admitted' are read as numbers" in first and "--drop 'patient id' --drop admitted" in first
    assert "every column must hold numbers" in last and "all that was spent" in last
    assert "'patient id' (id), 'ward' (category), 'admitted' (date)" in last  # by names: no value is told
    code, out, _ = rado("check", *options)
    assert code == 0 and "classes of all rows: 'low' 300, 'middle' 300, 'high' 300\n" in out
    assert "no row has the class" not in out
    assert "'ward' has no number in 900 rows: leave it out with --drop" in out and "'patient id' has no" not in out


def test_in_python_a_name_that_says_id_is_a_warning(visits):
    options = {"label": "triage", "classes": ("low", "middle", "high"), "bounds": "private", "counts": None}
    with pytest.warns(rb.SchemaWarning, match="'patient id' is read as a number, though by its name"):
        flat.craft(visits, drop=["ward", "admitted"], mechanism=rb.Moments(20.0), **options)
    flat.craft(visits, drop=["ward", "admitted", "patient id"], mechanism=rb.Moments(20.0), **options)


def test_files_of_another_kind_are_called_what_they_are(visits, rado):
    assert rado("craft", "visits.parquet", "--label", "triage", "-n", 50, "-q")[0] == 0
    assert rado("learn", "visits.rado.parquet")[0] == 0
    assert rado("schema", "visits.csv", "--label", "triage")[0] == 0
    for words, command in {
        "is a model": ("learn", "visits.model.json"),
        "rado learn visits.rado": ("predict", "visits.rado.parquet", "visits.csv"),
        "is a schema": ("show", "visits.schema.json"),
        "rado craft": ("show", "visits.parquet"),
        "\"duckdb:?SELECT ... FROM 'visits.csv'\"": ("craft", "duckdb:visits.csv?SELECT 1", "-l", "a"),
        "rb.query(connection, 'SELECT ...')": ("craft", "sqlite://x.db?SELECT 1", "-l", "a"),
    }.items():
        code, _, err = rado(*command)
        assert code == 1 and words in err and err.count("\n") == 1, err


class Dripping(io.RawIOBase):
    """A pipe that gives one byte at a time."""

    def __init__(self, content):
        self._content = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._content.readinto(memoryview(buffer)[:1])


def test_the_bytes_of_standard_input_name_the_format(visits, monkeypatch):
    arrow = io.BytesIO()
    with pa.ipc.new_file(arrow, visits.schema) as writer:
        writer.write_table(visits)
    contents = {"parquet": Path("visits.parquet").read_bytes(), "arrow": arrow.getvalue()}
    contents["csv"] = Path("visits.csv").read_bytes()
    for found, content in contents.items():
        for raw in (io.BytesIO(content), Dripping(content)):
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(raw), isatty=lambda: False))
            (path,) = spool_stream(StandardInput())
            assert path.kind == found and path.owner.n_bytes == len(content)
    text = io.BufferedReader(io.BytesIO(b"PAR1,y\n1,0\n2,1\n"))  # a column of that name is no file of Parquet
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=text, isatty=lambda: False))
    assert rb.craft(StandardInput(), label="y", n_rados=2).columns[0].name == "PAR1"


def test_lines_of_an_open_schema_are_json():
    lines = rb.Schema({'Age, "years"': rb.Number()}).undecided()
    line = lines['Age, "years"'].replace("LOW", "0").replace("HIGH", "1")
    assert json.loads(f"{{{line}}}") == {'Age, "years"': {"kind": "number", "low": 0, "high": 1}}


def test_numeric_of_postgresql_is_a_number(monkeypatch):
    fields = [pa.field("dose", pa.string(), metadata={b"ADBC:postgresql:typname": b"numeric"})]
    answer = QueryResult(pa.schema([*fields, pa.field("note", pa.string())]), iter(()))

    class Asked:
        def __enter__(self):
            return "the query", answer

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("radoboost.tables.streams.query_result_of", lambda _: Asked())
    assert raw_column_types("...") == {"dose": pa.float64(), "note": pa.string()}
    assert rb.schema_template("...").columns["dose"] == rb.Number()


def test_classes_that_differ_in_capitals_have_columns_of_their_own_in_a_view():
    age = rb.Column("age", "none", step=1.0)
    model = rb.Model(np.array([[1.0], [0.5], [-1.0]]), (age,), ("high", "High", "high_2"), {"name": "by hand"})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE input AS SELECT 1.0 AS age")
        connection.execute(f"CREATE VIEW answers AS {rb.export(model, 'sql')}")
        answers = connection.sql("SELECT * FROM answers").to_arrow_table()
    names = ["prediction", "probability:high", "probability:High_3", "probability:high_2"]
    assert answers.column_names == names
    shares = [answers[name][0].as_py() for name in names[1:]]
    np.testing.assert_allclose(shares, model.predict_proba([[1.0]])[0], rtol=1e-12)


# ---- names of sparse matrices


X = sparse.random_array((60, 3), density=0.4, rng=np.random.default_rng(0), format="csr")
Y = np.arange(60) % 2
NAMED = rb.NamedMatrix(X, ["cough", "fever", "ward"])


def test_a_named_matrix_is_the_table_of_these_columns():
    frame = pd.DataFrame(X.toarray(), columns=["cough", "fever", "ward"])
    schema = rb.Schema({"cough": rb.Number(0, 1), "ward": rb.Number(0, 1)})
    for options in ({}, {"drop": ["fever"]}, {"features": ["ward", "cough"]}, {"schema": schema}):
        named, dense = (flat.craft(table, Y, n_rados=20, seed=1, **options) for table in (NAMED, frame))
        assert [column.name for column in named.columns] == [column.name for column in dense.columns]
        assert named.rados.tobytes() == dense.rados.tobytes()
        models = [rb.MomentsClassifier().fit_rados(release).model_ for release in (named, dense)]
        for table in (NAMED, frame, rb.NamedMatrix(X[:, [2, 0, 1]], ["ward", "cough", "fever"])):
            np.testing.assert_array_equal(models[0].predict_proba(table), models[1].predict_proba(frame))
    bounds = {"fever": (0, 1)}
    private = rb.craft(NAMED, Y, classes=(0, 1), mechanism=rb.Moments(1.0), counts=None, schema=bounds)
    assert private.columns[0].name == "fever"
    assert column_storage_of_table(NAMED) == dict.fromkeys(NAMED.names, "number")
    assert rb.propose_schema(NAMED).columns.keys() == {"cough", "fever", "ward"} == raw_column_types(NAMED).keys()


def test_a_matrix_by_position_stays_sparse_for_a_model_with_names():
    model = rb.MomentsClassifier().fit_rados(rb.craft(NAMED, Y, n_rados=20, seed=1)).model_
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.toarray()))


@pytest.mark.parametrize(
    ("matrix", "names", "words"),
    [
        (X, ["a", "b"], "2 entries"), (X, ["a", "b", 3], "a text"), (X, ["a", "b", "a"], "'a'"),
        (X.toarray(), ["a", "b", "c"], "data frame"),
    ],
)  # fmt: skip
def test_names_that_do_not_fit_are_refused(matrix, names, words):
    with pytest.raises(rb.ArgumentError, match=words):
        rb.NamedMatrix(matrix, names)


def test_a_sparse_data_frame_says_what_to_pass():
    frame = pd.DataFrame.sparse.from_spmatrix(X, columns=NAMED.names)
    with pytest.raises(rb.TableError, match="NamedMatrix"):
        rb.craft(frame, Y)
    matrix = rb.NamedMatrix(frame.sparse.to_coo().tocsr(), list(frame.columns))
    assert (rb.craft(matrix, Y, n_rados=9, seed=1).rados == rb.craft(NAMED, Y, n_rados=9, seed=1).rados).all()
    with pytest.raises(rb.TableError, match="sparse"):
        rb.craft(frame.assign(age=1.0), Y)
