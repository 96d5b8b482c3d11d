"""Prediction from raw rows: gaps are filled and counted, new values are zeros, other columns are carried through."""

import dataclasses
import json
import os
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import radoboost as rb
from radoboost.cli import app
from radoboost.learner.row_reader import FillCounts

SCHEMA = rb.Schema(
    {
        "id": rb.Ignored("id"),
        "age": rb.Number(0, 100, fill=40, gaps=True),
        "dose": rb.Number(0, 10),
        "ward": rb.Category(("A", "B", "C"), gaps=True),
        "unit": rb.Category((1, 2), other=True),
        "seen": rb.Date(origin="2024-01-01", low="2024-01-01", high="2024-12-31", parts=("month",)),
    }
)


def raw_table(rng, n_rows=300):
    ward = rng.choice(["A", "B", "C"], n_rows)
    age = rng.integers(0, 100, n_rows)
    return {
        "id": [f"{k:05d}" for k in range(n_rows)],
        "age": [None if k % 7 == 0 else int(value) for k, value in enumerate(age)],
        "dose": np.round(rng.uniform(0, 10, n_rows), 2).tolist(),
        "ward": ward.tolist(),
        "unit": rng.choice([1, 2, 3], n_rows).tolist(),
        "seen": [f"2024-{1 + k % 12:02d}-15" for k in range(n_rows)],
        "ill": np.where(age + 30 * (ward == "A") > 60, "yes", "no").tolist(),
    }


@pytest.fixture
def table(rng):
    return raw_table(rng)


@pytest.fixture
def model(table):
    release = rb.craft(pa.table(table), label="ill", schema=SCHEMA, seed=1)
    return rb.MomentsClassifier().fit_rados(release).model_


@pytest.fixture
def clean(rng):
    """A model of a table of numbers, which has no schema: a standardised column each, and the same with bounds."""
    X = rng.normal(50, 10, size=(400, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    y = np.where(X @ [1, -1, 0.5] > 25, "yes", "no")
    return {
        scale: rb.MomentsClassifier()
        .fit_rados(rb.craft(frame, y, seed=0, schema=bounds, mechanism=rb.Plain(scale=scale)))
        .model_
        for scale, bounds in (("standard", None), ("bounds", dict.fromkeys("abc", (0, 90))), (None, None))
    }


# ---- without a schema


@pytest.mark.parametrize("scale", ["standard", "bounds", None])
def test_without_a_schema_a_gap_has_the_value_that_says_nothing(scale, clean, tmp_path):
    model = clean[scale]
    columns = {column.name: column for column in model.columns}
    expected = {"standard": columns["b"].mean, "bounds": 45.0, None: 0.0}[scale]
    rows = np.array([[40.0, np.nan, 60.0], [55.0, 45.0, np.nan], [50.0, 50.0, 50.0]])
    whole = np.where(np.isnan(rows), model.neutral, rows)
    assert whole[0, 1] == expected
    scores, used = model.scores(whole), [f"{value:.6g}" for value in model.neutral[1:]]
    gaps = {name: [None if np.isnan(v) else v for v in column] for name, column in zip("abc", rows.T, strict=True)}
    frame = pd.DataFrame(rows, columns=list("abc"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(pa.table(gaps), tmp_path / "t.parquet")
    forms = {
        "frame": frame,
        "nullable": frame.convert_dtypes(),
        "polars": pl.DataFrame(gaps),
        "dict": gaps,
        "array": rows,
        "list": rows.tolist(),
        "masked": np.ma.masked_invalid(rows),
        "CSV": tmp_path / "t.csv",
        "Parquet": str(tmp_path / "t.parquet"),
    }
    for name, form in forms.items():
        with pytest.warns(rb.FilledWarning, match=f"gaps filled: 'b' 1 with {used[0]}, 'c' 1 with {used[1]}$"):
            np.testing.assert_array_equal(model.decision_function(form), scores, err_msg=name)
    np.testing.assert_array_equal(model.decision_function(rows[2:]), scores[2:])  # and without a warning
    np.testing.assert_array_equal(model.decision_function(sparse.csr_array(rows[2:])), scores[2:])


def test_without_a_schema_predictions_are_those_of_the_shell(clean, rng):
    model = clean["standard"]
    X = rng.normal(50, 10, size=(50, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert model.predict(frame).tolist() == [model.classes[int(score > 0)] for score in model.scores(X)]
    assert model.predict(frame[["c", "a", "b"]].assign(other="text")).tolist() == model.predict(X).tolist()
    probabilities = model.predict_proba(frame)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-model.scores(X))))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0]], "must have 3 columns, those of feature_names in order; the shape is \\(1, 2\\)"),
        ([1.0, 2.0], "two dimensions"),
        ([[1.0], [1.0, 2.0]], "the array"),
        (pl.DataFrame({"a": [1.0]}).lazy(), "the lazy frame has no column"),
        (3, "is not a table"),
        (pd.DataFrame({"a": [1.0], "b": [1.0]}), "no column 'c'"),
        ([[np.inf, 2.0, 3.0]], "infinite"),
        (pd.DataFrame({"a": ["x"], "b": [1.0], "c": [1.0]}), "column 'a' holds text"),
    ],
)
def test_what_cannot_be_predicted_is_refused(rows, message, clean):
    with pytest.raises(rb.TableError, match=message):
        clean["standard"].predict(rows)


def test_whole_numbers_and_truth_values_may_have_gaps_too(rng):
    flag, count = rng.integers(0, 2, 200).astype(bool), rng.integers(0, 9, 200)
    release = rb.craft({"flag": flag, "count": count}, np.where(flag, 1, 0), seed=0)
    model = rb.MomentsClassifier().fit_rados(release).model_
    table = pa.table({"flag": pa.array([None, True]), "count": pa.array([None, 3])})
    with pytest.warns(rb.FilledWarning, match=r"'flag' 1 with 0.505, 'count' 1 with \d.\d+"):
        scores = model.decision_function(table)
    np.testing.assert_array_equal(scores, model.scores(np.array([model.neutral, [1.0, 3.0]])))
    with pytest.warns(rb.FilledWarning, match="'flag' 2"):
        model.predict(pa.table({"flag": pa.nulls(2), "count": [1, 2]}))


# ---- with a schema


def test_a_model_reads_raw_rows_in_every_form(model, table, tmp_path):
    frame = pd.DataFrame(table)
    scores = model.decision_function(pa.table(table))
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    used = {name: table[name] for name in model.feature_names}
    forms = {
        "pandas": frame,
        "polars": pl.DataFrame(table),
        "dict": table,
        "other order": frame[frame.columns[::-1]],
        "no label": frame.drop(columns="ill"),
        "dates": frame.assign(seen=pd.to_datetime(frame["seen"])),
        "categories": frame.assign(ward=frame["ward"].astype("category")),
        "Parquet": tmp_path / "t.parquet",
        "CSV": tmp_path / "t.csv",
        "used alone": used,
    }
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name, form in forms.items():
        np.testing.assert_array_equal(model.decision_function(form), scores, err_msg=name)
    assert (model.predict(table) == np.array(table["ill"])).mean() > 0.8
    assert model.feature_names == ("age", "dose", "ward", "unit", "seen")


def test_gaps_have_the_fill_and_new_values_are_zeros(model):
    row = {"age": [None], "dose": [3.0], "ward": ["Z"], "unit": [9], "seen": ["2024-03-01"]}
    with pytest.warns(rb.FilledWarning, match="^unseen values of 'ward': 1$"):  # gaps of age are foreseen
        score = model.decision_function(row)
    values = dict.fromkeys(model.input_names, 0.0)
    values |= {"age": 40.0, "age=(missing)": 1.0, "dose": 3.0, "unit=(other)": 1.0, "seen": 60.0, "seen.month=Mar": 1.0}
    np.testing.assert_array_equal(score, model.scores([list(values.values())]))
    with pytest.warns(rb.FilledWarning, match=r"^gaps filled: 'dose' 1 with 5\.\d+, 'seen' 1 with 2024-06-30$"):
        model.predict({"age": [50], "dose": [None], "ward": [None], "unit": [1], "seen": [None]})


def test_cells_that_cannot_be_read_are_filled_and_named(model, tmp_path):
    rows = {
        "age": [50, "old", None, "-", float("inf")],
        "dose": [1, 2, 3, 4, "n.d."],
        "ward": ["A"] * 5,
        "unit": [1] * 5,
        "seen": ["2024-03-01", "2024-03-01", "not a date", "2024-03-01", ""],
    }
    gaps = {**rows, "age": [50, None, None, None, None], "dose": [1, 2, 3, 4, None]}
    gaps["seen"] = ["2024-03-01", "2024-03-01", None, "2024-03-01", None]
    with pytest.warns(rb.FilledWarning, match=r"^gaps filled: 'dose' 1 with 5\.\d+, 'seen' 2 with 2024-06-30$"):
        scores = model.decision_function(gaps)
    words = (
        "gaps filled: 'seen' 1 with 2024-06-30; not readable, and filled: 'age' 2 with 40 (the first is 'old', {0}), "
        f"'dose' 1 with {model.schema.columns['dose'].fill_text()} (the first is 'n.d.', {{1}}), "
        "'seen' 1 with 2024-06-30 (the first is 'not a date', {2})"
    )
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    path = tmp_path / "t.csv"
    for form, places in (
        (pd.DataFrame(rows), ("row 2", "row 5", "row 3")),
        (rows, ("row 2", "row 5", "row 3")),
        (path, tuple(f"line {line} of {path}" for line in (3, 6, 4))),
    ):
        with pytest.warns(rb.FilledWarning) as caught:
            np.testing.assert_array_equal(model.decision_function(form), scores)
        assert [str(warning.message) for warning in caught] == [words.format(*places)]
    model.save(tmp_path / "m.json")
    command = ["predict", str(tmp_path / "m.json"), str(path), "-o", str(tmp_path / "s.csv"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and words.format(*places).partition("; ")[2] in result.stderr
    unread = json.loads(result.stdout)["not_readable"]
    assert unread["age"] == {"count": 2, "first": "'old'", "place": places[0]}
    assert list(unread) == ["age", "dose", "seen"]
    with pytest.raises(rb.TableError, match="column 'age' has 'old'"):  # plain crafting stays strict
        rb.craft({**rows, "ill": ["no", "yes"] * 2 + ["no"]}, label="ill", schema=model.schema)


def test_the_first_unreadable_cell_of_all_batches_is_named(model, tmp_path):
    lines = ["50,1,A,1,2024-03-01"] * 140_000
    lines[70_000] = lines[139_000] = lines[139_999] = "50,bad,A,1,2024-03-01"
    (tmp_path / "t.csv").write_text("age,dose,ward,unit,seen\n" + "\n".join(lines))
    message = rf"'dose' 3 with 5\.\d+ \(the first is 'bad', line 70,002 of {tmp_path}/t.csv\)$"
    with pytest.warns(rb.FilledWarning, match=message):
        model.predict(tmp_path / "t.csv")


def test_counts_add_up():
    total = FillCounts({"age": 2}, {}) + FillCounts({"age": 1, "dose": 4}, {"ward": 1}) + FillCounts()
    assert total.sentence() == "gaps filled: 'age' 3, 'dose' 4; unseen values of 'ward': 1"
    assert total.to_dict() == {"gaps_filled": {"age": 3, "dose": 4}, "not_readable": {}, "unseen_values": {"ward": 1}}
    assert FillCounts().sentence() == ""


@pytest.mark.parametrize("shell", [rb.MomentsClassifier, rb.RadoBoostClassifier])
def test_shells_predict_raw_frames(shell, table):
    frame = pd.DataFrame(table)
    clf = shell().fit_rados(rb.craft(frame, label="ill", schema=SCHEMA, seed=1))
    assert clf.feature_names_in_.tolist() == list(clf.model_.feature_names) and clf.n_features_in_ == 5
    assert clf.predict(frame).tolist() == clf.model_.predict(frame).tolist()
    assert clf.score(frame, table["ill"]) > 0.75
    assert clf.predict_proba(frame).shape == (300, 2)
    assert clf.coef_.shape == (1, len(clf.model_.input_names))


# ---- the command


@pytest.fixture
def files(model, table, tmp_path):
    """A model, and tables of four new rows as CSV and Parquet."""
    model.save(tmp_path / "m.json")
    rows = {name: column[:4] for name, column in table.items()}
    rows |= {"id": ["007", "08,1", 'x"y', ""], "age": [None, 3, None, 4], "ward": ["A", "Z", "B", "A"]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    pa.csv.write_csv(pa.table(rows), tmp_path / "t.csv")
    return tmp_path, rows


def test_predict_says_what_it_filled(rado, files):
    folder, _ = files
    code, out, err = rado("predict", folder / "m.json", folder / "t.parquet", "-o", "s.csv")
    assert (code, err) == (0, "gaps filled: 'age' 2 with 40; unseen values of 'ward': 1\n")
    assert out.startswith("wrote s.csv\n4 rows:")
    code, out, err = rado("predict", folder / "m.json", folder / "t.parquet", "-o", "s.csv", "--force", "--json")
    assert json.loads(out)["gaps_filled"] == {"age": 2} and json.loads(out)["unseen_values"] == {"ward": 1}
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_carried_through_as_they_are(kind, rado, files):
    folder, rows = files
    keep = ["--keep", "id", "--keep", "ill", "--keep", "dose"]
    code, _, _ = rado("predict", folder / "m.json", folder / f"t.{kind}", *keep, "-l", "ill", "-o", "s.parquet")
    assert code == 0
    kept = pq.read_table("s.parquet")
    assert kept.column_names == ["id", "ill", "dose", "score", "probability", "prediction"]
    assert kept["id"].to_pylist() == rows["id"] and kept["ill"].to_pylist() == rows["ill"]
    assert [float(value) for value in kept["dose"].to_pylist()] == rows["dose"]
    assert kept.schema.field("dose").type == (pa.string() if kind == "csv" else pa.float64())
    assert rado("predict", folder / "m.json", folder / f"t.{kind}", "--keep", "id", "-o", "s.csv")[0] == 0
    text = pd.read_csv("s.csv", dtype={"id": str}, keep_default_na=False)
    assert text["id"].tolist() == rows["id"] and text["score"].tolist() == kept["score"].to_pylist()


def test_kept_rows_stay_beside_their_scores(model, rng, rado, tmp_path, monkeypatch):
    """Whatever pieces both are read in."""
    monkeypatch.setattr("radoboost.tables.files.BATCH_ROWS", 128)
    tables = [raw_table(rng, n_rows) for n_rows in (200, 70, 333)]
    for k, table in enumerate(tables):
        pq.write_table(pa.table(table), tmp_path / f"part{k}.parquet", row_group_size=50)
    model.save(tmp_path / "m.json")
    assert rado("predict", tmp_path / "m.json", f"{tmp_path}/part*.parquet", "--keep", "age", "-o", "s.parquet")[0] == 0
    scores = pq.read_table("s.parquet")
    assert scores["age"].to_pylist() == [age for table in tables for age in table["age"]]
    expected = np.concatenate([model.decision_function(table) for table in tables])
    np.testing.assert_array_equal(scores["score"].to_numpy(), expected)


@pytest.mark.parametrize("trained", [{}, {"separator": ";", "decimal": ",", "thousands": "."}, {"separator": "~"}])
def test_a_colleague_may_write_another_csv(trained, table, tmp_path, rado):
    """The header line tells the separator; a decimal mark that is not the model's must be told."""
    schema = dataclasses.replace(SCHEMA, **trained)
    model = rb.MomentsClassifier().fit_rados(rb.craft(pa.table(table), label="ill", schema=schema, seed=1)).model_
    model.save(tmp_path / "m.json")
    scores = model.decision_function(pa.table(table))
    frame = pd.DataFrame(table)
    for separator, decimal in ((";", ","), (",", "."), ("\t", "."), ("|", ",")):
        frame.to_csv("t.csv", sep=separator, decimal=decimal, index=False)
        options = [] if separator != "|" else ["--set", "separator=|"]
        options += [] if decimal == trained.get("decimal", ".") else ["--set", f"decimal={decimal}"]
        options += ["--set", f"separator={separator}"] if trained.get("separator") == "~" else []
        code, _, err = rado(
            "predict", tmp_path / "m.json", "t.csv", *options, "--keep", "id", "-o", "s.parquet", "--force"
        )
        assert code == 0, err
        assert pq.read_table("s.parquet")["score"].to_numpy().tolist() == scores.tolist()
        assert pq.read_table("s.parquet")["id"].to_pylist() == table["id"]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (["score"], "cannot keep 'score': predictions have a column of that name"),
        (["id", "probability"], "cannot keep 'probability'"),
        (["prediction"], "cannot keep 'prediction'"),
        (["name", "id", "town"], "has no column 'name', 'town'; its other columns are 'age'"),
        (["id", "id"], "'id' is to be kept twice"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_cannot_be_kept_is_refused(kind, keep, message, rado, files):
    folder, _ = files
    options = [option for name in keep for option in ("--keep", name)]
    code, out, err = rado("predict", folder / "m.json", folder / f"t.{kind}", *options, "-o", "s.csv")
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1
    assert os.listdir(".") == []


def test_a_clean_table_is_predicted_in_silence(clean, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean["standard"].predict(rng.normal(50, 10, size=(20, 3)))


# ---- shells that are given a schema


@pytest.mark.parametrize("shell", [rb.MomentsClassifier, rb.RadoBoostClassifier])
@pytest.mark.parametrize("form", [pd.DataFrame, pa.table, dict])
def test_shells_with_a_schema_fit_raw_tables(shell, form, table):
    features = form({name: column for name, column in table.items() if name != "ill"})
    clf = shell(schema=SCHEMA, random_state=1).fit(features, table["ill"])
    release = rb.craft(pa.table(table), label="ill", schema=SCHEMA, seed=1)
    np.testing.assert_array_equal(clf.release_.rados, release.rados)
    assert (
        clf.release_.classes == release.classes == ("no", "yes") and clf.model_.schema.columns == release.schema.columns
    )
    other = shell().fit_rados(release)
    np.testing.assert_array_equal(clf.decision_function(features), other.decision_function(features))
    assert clf.feature_names_in_.tolist() == ["age", "dose", "ward", "unit", "seen"] and clf.n_features_in_ == 5
    assert clf.score(features, table["ill"]) > 0.8


@pytest.mark.filterwarnings("ignore::radoboost.BudgetWarning")
@pytest.mark.filterwarnings("ignore::radoboost.errors.PersonWarning")  # the schema has a column of ids
def test_shells_with_a_schema_fit_privately_too(table, tmp_path):
    frame = pd.DataFrame(table)
    X, y = frame.drop(columns="ill"), frame["ill"]
    mechanism = rb.Moments(epsilon=8.0)
    with pytest.raises(rb.ArgumentError, match="needs the two classes declared"):
        rb.MomentsClassifier(mechanism=mechanism, schema=SCHEMA).fit(X, y)
    declared = dataclasses.replace(SCHEMA, label="ill", classes=("yes", "no"))
    (tmp_path / "s.json").write_text(json.dumps(declared.to_dict()))
    for schema in (declared, declared.to_dict(), tmp_path / "s.json"):
        clf = clone(rb.MomentsClassifier(mechanism=mechanism, schema=schema)).fit(X.assign(age="old"), y)
        assert clf.release_.statement.epsilon <= 8 and clf.release_.classes == ("yes", "no")
        assert clf.classes_.tolist() == ["no", "yes"] and set(clf.predict(X)) <= {"no", "yes"}
    seen = dataclasses.replace(declared, inferred=("dialect",))
    with pytest.raises(rb.ArgumentError):
        rb.MomentsClassifier(mechanism=mechanism, schema=seen).fit(X, y)


def test_shells_with_a_schema_can_be_searched_over(table):
    frame = pd.DataFrame(table)
    X, y = frame.drop(columns="ill"), (frame["ill"] == "yes").astype(int)
    search = GridSearchCV(rb.MomentsClassifier(schema=SCHEMA, random_state=0), {"n_rados": [20, 200]}, cv=2).fit(X, y)
    assert search.best_estimator_.get_params()["schema"] == SCHEMA and search.best_score_ > 0.7
    with pytest.raises(ValueError, match="classes must be the two labels of y"):
        rb.MomentsClassifier(schema=SCHEMA, classes=("a", "b")).fit(X, y)
    three = rb.MomentsClassifier(schema=SCHEMA).fit(X, np.arange(len(X)) % 3)
    assert three.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="could not convert string"):  # without one, as scikit-learn says it
        rb.MomentsClassifier().fit(X, y)
