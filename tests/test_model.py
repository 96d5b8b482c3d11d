"""The model as data and as a file, and the scores of tables of every form."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import radoboost as rb
from radoboost.learner.model import _parse_model
from radoboost.learner.predict import predict_table
from radoboost.progress import no_progress
from radoboost.tables import Table

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-3, 1e3)


@st.composite
def some_columns(draw):
    columns = []
    for k in range(draw(st.integers(1, 4))):
        scale = draw(st.sampled_from(["none", "standard", "bounds"]))
        low = draw(numbers)
        bounds = {"low": low, "high": low + draw(positive)} if scale == "bounds" else {}
        moments = {"mean": draw(numbers), "std": draw(positive)} if scale == "standard" else {}
        columns.append(rb.Column(f"c{k}", scale, 2.0**-10, **bounds, **moments))
    if draw(st.booleans()):
        columns.append(rb.Column("(constant)", "constant", 2.0**-22))
    return tuple(columns)


@given(st.data())
def test_scores_are_the_line_that_coef_and_intercept_say(data):
    columns = data.draw(some_columns())
    theta = np.array(data.draw(st.lists(numbers, min_size=len(columns), max_size=len(columns))))
    model = rb.Model(theta, columns, (0, 1), {"name": "by hand"})
    limits = [(-9.0, 9.0) if c.low is None else (c.low, c.high) for c in columns if c.scale != "constant"]
    rows = np.array([[data.draw(st.floats(*pair)) for pair in limits]])
    expected, size = 0.0, 1e-300
    for k, column in enumerate(columns):
        value = 1.0 if column.scale == "constant" else float(column.apply(rows[:, k])[0])
        expected += theta[k] * value
        size += abs(theta[k] * value)
    assert model.scores(rows)[0] == pytest.approx(expected, abs=1e-12 * size)
    slopes = np.abs(model.coef) @ np.abs(rows[0]) + sum(
        abs(theta[k]) * (abs(c.constants[2] * c.constants[3] / c.constants[4]) + 1) for k, c in enumerate(columns)
    )
    assert rows[0] @ model.coef + model.intercept == pytest.approx(expected, abs=1e-9 * slopes + 1e-300)
    again = _parse_model(json.loads(model.to_json()))
    assert again.columns == columns and again.theta.tobytes() == model.theta.tobytes()


@pytest.fixture
def model(rng):
    X = rng.normal(size=(200, 3)) * [1, 10, 100]
    frame = pa.table(dict(zip(["a", "b", "größe"], X.T, strict=True)))
    release = rb.craft(frame, np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)], seed=0)
    return rb.MomentsClassifier().fit_rados(release).model_


def test_a_file_gives_the_model_back(model, tmp_path):
    place = tmp_path / "m.model.json"
    model.save(place)
    again = rb.load_model(place)
    assert again.to_json() == model.to_json() == place.read_text(encoding="utf-8")
    assert again.theta.tobytes() == model.theta.tobytes()
    assert (again.columns, again.classes, again.statement) == (model.columns, ("no", "yes"), model.statement)
    assert again.release["n_rados"] == 1000 and again.release["mechanism"] == {"name": "plain", "law": "sums"}


def test_a_person_can_read_the_file(model):
    lines = model.to_json().splitlines()
    assert sum('"theta"' in line for line in lines) == 4  # a line for each column
    assert any('"größe"' in line for line in lines)
    assert any('"negative": "no"' in line for line in lines)
    assert any("neighbours" in line for line in lines)


BAD_FILES = {
    "half a file": (lambda text: text[: len(text) // 2], "JSON"),
    "a list": (lambda text: "[1, 2]", "kind"),
    "another version": (lambda text: text.replace('"radoboost_model": 1', '"radoboost_model": 2'), "version"),
    "no theta": (lambda text: text.replace('"theta"', '"thta"'), "incomplete"),
    "one class": (lambda text: text.replace('"positive": "yes"', '"positive": "no"'), "different"),
    "an infinite weight": (lambda text: re.sub('"theta": [-0-9.e]+', '"theta": 1e999', text), "finite"),
    "a weight too large": (lambda text: re.sub('"mean": [-0-9.e]+', '"mean": 1.7e308', text), "too large"),
    "no spread": (lambda text: re.sub('"std": [-0-9.e]+', '"std": 0', text), "know"),
    "classes of two kinds": (lambda text: text.replace('"negative": "no"', '"negative": 1'), "kind"),
    "rados uncounted": (lambda text: text.replace('"n_rados": 1000', '"n_rados": "many"'), "understood"),
    "sentences that are none": (lambda text: text.replace('"promises": []', '"promises": [1]'), "text"),
    "the same column twice": (lambda text: text.replace('"name": "b"', '"name": "a"'), "names"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_what_is_not_a_model_is_refused(case, model, tmp_path):
    change, message = BAD_FILES[case]
    place = tmp_path / "m.json"
    place.write_text(change(model.to_json()), encoding="utf-8")
    with pytest.raises(rb.ModelError, match=message) as failure:
        rb.load_model(place)
    assert str(place) in str(failure.value)


def test_models_need_a_finite_weight_for_each_column():
    column = rb.Column("a", "none", 1.0)
    for theta in ([], [1.0, 2.0], [np.nan], [np.inf]):
        with pytest.raises(rb.ModelError, match="one finite weight a column"):
            rb.Model(np.array(theta), (column,), (0, 1), {"name": "x"})


def predict(model, table, place, **options):
    with no_progress() as bar:
        return predict_table(model, table, place, bar, **options)


def test_scores_do_not_depend_on_form_order_or_batches(model, tmp_path, rng, monkeypatch):
    table = pa.table({"größe": rng.normal(size=999) * 100, "id": ["p"] * 999, "b": rng.normal(size=999),
                      "a": rng.normal(size=999)})  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    pa.csv.write_csv(table, tmp_path / "t.csv")
    expected = model.scores(np.column_stack([table.column(name).to_numpy() for name in ("a", "b", "größe")]))
    for source in (table, tmp_path / "t.parquet", tmp_path / "t.csv"):
        for rows in (64, 65536):
            monkeypatch.setattr(Table, "batch_rows", rows)
            for place in (tmp_path / "s.csv", tmp_path / "s.parquet"):
                done = predict(model, source, place)
                read = pq.read_table(place) if place.suffix == ".parquet" else pa.csv.read_csv(place)
                np.testing.assert_array_equal(read.column("score").to_numpy(), expected)
                np.testing.assert_allclose(read.column("probability").to_numpy(), 1 / (1 + np.exp(-expected)))
                assert read.column("prediction").to_pylist() == np.where(expected > 0, "yes", "no").tolist()
                assert (done.n_rows, done.n_positive, done.n_wrong) == (999, int((expected > 0).sum()), None)


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (1.5, 2.5)])
def test_wrong_predictions_are_counted_and_classes_come_back(classes, tmp_path, rng):
    X = rng.normal(size=(100, 1))
    y = np.array(classes)[(X[:, 0] + rng.normal(size=100) > 0).astype(int)]
    clf = rb.MomentsClassifier().fit_rados(rb.craft(X, y, seed=0))
    table = pa.table({"x0": X[:, 0], "y": y.tolist()})
    done = predict(clf.model_, table, tmp_path / "s.parquet", label="y")
    assert done.n_wrong == int((clf.predict(X) != y).sum()) > 0
    assert pq.read_table(tmp_path / "s.parquet").column("prediction").to_pylist() == clf.predict(X).tolist()
    assert done.to_dict()["error"] == done.n_wrong / 100


def test_values_too_large_for_a_score(model, tmp_path):
    big = pa.table({"a": [1.7e308, -1.7e308], "b": [1.7e308, 1.0], "größe": [1.0, 2.0]})
    with pytest.raises(rb.TableError, match="too large"):
        predict(model, big, tmp_path / "s.csv")
    assert list(tmp_path.iterdir()) == []


def test_scores_need_the_right_columns(model):
    for rows in (np.zeros(3), np.zeros((2, 2)), np.zeros((2, 4))):
        with pytest.raises(rb.TableError, match="must have 3 columns"):
            model.scores(rows)
    assert model.scores(sparse.csr_array((0, 3))).shape == (0,)


def test_a_score_of_zero_is_negative(tmp_path):
    column = rb.Column("a", "none", 1.0)
    zero = rb.Model(np.array([1.0]), (column,), (0, 1), {"name": "by hand"})
    assert predict(zero, pa.table({"a": [0.0, 1.0, -1.0]}), tmp_path / "s.csv").n_positive == 1


def test_scores_go_into_files_of_two_kinds(model, tmp_path):
    with pytest.raises(rb.OutputError, match=r"ends in .csv or .parquet"):
        predict(model, pa.table({"a": [1.0], "b": [1.0], "größe": [1.0]}), tmp_path / "s.txt")
    assert list(tmp_path.iterdir()) == []
