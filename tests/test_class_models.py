"""Models of more than two classes, as people meet them: predictions, scores, what is shown and explained, commands."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.holder.table_check import check_table
from radoboost.learner.effects import Effects, score_terms
from radoboost.learner.explain import Explanations
from radoboost.learner.model import Model
from radoboost.learner.predict import predict_table
from radoboost.private_score import GRID, CountOutcomes
from radoboost.progress import no_progress
from radoboost.release.class_summary import facts_of_classes
from radoboost.report.describe import describe_model, describe_release
from radoboost.report.effects_report import effect_findings, effect_lines, explain, write_effects_page
from radoboost.tables import open_table
from radoboost.tables.labels import LabelCollector, LabelEncoder, many_classes_advice

GRADES = ("low", "middle", "high")


def raw_table(n_rows=400, classes=GRADES, seed=0):
    """Two numbers and a category, with class means of their own; every class occurs."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(np.arange(n_rows) % len(classes))
    ward = np.where(rng.random(n_rows) < 0.2 + 0.5 * (places == 1), "A", "B")
    return pa.table(
        {
            "age": 50 + 10 * (places % 3) + rng.normal(scale=5, size=n_rows),
            "dose": rng.normal(size=n_rows) - places / len(classes),
            "ward": ward,
            "grade": [classes[place] for place in places],
        }
    )


def crafted(table, **options):
    with pytest.warns(rb.SchemaWarning):
        return flat.craft(table, label="grade", n_rados=64, seed=3, **options)


def by_hand(release, seed=1):
    """A model with weights of chance."""
    theta = np.random.default_rng(seed).normal(size=(release.n_classes, len(release.columns)))
    return Model.from_release(release, theta, {"name": "by hand"})


@pytest.fixture(scope="module")
def table():
    return raw_table()


@pytest.fixture(scope="module")
def release(table):
    return crafted(table)


@pytest.fixture(scope="module")
def model(release):
    return by_hand(release)


# ---- predictions


def predicted(model, table, place, **options):
    with no_progress() as bar:
        return predict_table(model, table, place, bar, **options)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_have_a_probability_for_each_class(tmp_path, table, model, ending):
    place = tmp_path / f"a.{ending}"
    done = predicted(model, table, place, label="grade", keep=["ward"])
    rows = (
        pq.read_table(place).to_pylist()
        if ending == "parquet"
        else list(csv.DictReader(place.read_text().splitlines()))
    )
    assert list(rows[0]) == ["ward", "prediction", "probability:high", "probability:low", "probability:middle"]
    chances = np.array([[float(row[f"probability:{name}"]) for name in model.classes] for row in rows])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(chances, model.predict_proba(table), rtol=1e-12)
    chosen = [row["prediction"] for row in rows]
    assert chosen == [model.classes[place] for place in chances.argmax(axis=1)] == model.predict(table).tolist()
    truth = table["grade"].to_pylist()
    confusion = [[sum(t == a and c == b for t, c in zip(truth, chosen, strict=True)) for b in model.classes]
                 for a in model.classes]  # fmt: skip
    assert done.confusion.tolist() == confusion
    wrong = sum(t != c for t, c in zip(truth, chosen, strict=True))
    assert (done.n_rows, done.n_wrong, done.n_positive) == (400, wrong, None) and done.error == wrong / 400
    assert done.to_dict()["n_predicted"] == [chosen.count(name) for name in model.classes]
    assert done.to_dict()["confusion"] == confusion and "n_positive" not in done.to_dict()


def test_a_kept_column_may_not_have_the_name_of_a_prediction(tmp_path, table, model):
    named = table.append_column("probability:low", table["age"])
    with pytest.raises(rb.ArgumentError, match="predictions have a column of that name"):
        predicted(model, named, tmp_path / "a.csv", keep=["probability:low"])
    assert not list(tmp_path.iterdir())


def test_a_score_counts_each_row_once_however_many_classes(table, model):
    odd = table.set_column(3, "grade", pa.array(["lower", None, *table["grade"].to_pylist()[2:]]))
    source = open_table(odd, label="grade", features=model.feature_names, row_by_row=True, schema=model.schema)
    task = CountOutcomes(model, LabelEncoder("grade", model.classes))
    sums = task.empty()
    for batch in source.batches():
        task.add(sums, 0, batch)
    truth, chosen = odd["grade"].to_pylist(), model.predict(table).tolist()
    pairs = [(t, c) for t, c in zip(truth, chosen, strict=True) if t in model.classes]
    errors = sum(t != c for t, c in pairs)
    assert (sums.counts / GRID).tolist() == [errors, len(pairs) - errors] and len(pairs) == 398
    result = rb.score(model, odd, label="grade", epsilon=1e6, delta=1e-6)
    assert abs(result.errors - errors) < 1 and abs(result.hits - len(pairs) + errors) < 1


# ---- what is shown


@given(st.integers(0, 50), st.sampled_from([None, rb.FixedSupport(0.3)]))
def test_sizes_of_classes_are_what_the_release_tells(seed, signatures):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(4), rng.choice(4, 496, p=[0.1, 0.2, 0.3, 0.4])])
    release = rb.craft(rng.normal(size=(500, 2)), labels, n_rados=50, seed=seed, signatures=signatures)
    facts = facts_of_classes(release)
    # Each beyond six deviations with probability below 1e-6: counts of a sample are less spread than normal tails.
    for place, entry in enumerate(facts):
        assert abs(entry.rows - (labels == place).sum()) < 6 * entry.give_or_take
    assert math.fsum(entry.rows for entry in facts) == pytest.approx(500)


def test_what_sets_a_class_apart_is_named(release):
    facts = {entry.value: entry for entry in facts_of_classes(release)}
    assert next(iter(facts["high"].columns)) == "age" and facts["high"].columns["age"] > 0.5
    assert next(iter(facts["low"].columns)) == "age" and facts["low"].columns["age"] < -0.5
    bare = rb.craft(np.arange(12.0).reshape(6, 2), [0, 1, 2] * 2, n_rados=3, mechanism=rb.Plain(intercept=False))
    assert [(entry.rows, entry.columns) for entry in facts_of_classes(bare)] == [(None, {})] * 3
    assert "not told" in describe_release(bare)


def test_a_release_and_a_model_are_described_by_class(release, model):
    text = describe_release(release)
    assert "classes      3, of which this is told:" in text and "is -1" not in text
    assert all(repr(name) in text for name in GRADES)
    lines = describe_model(model).splitlines()
    assert lines[0] == "a linear classifier over 4 columns: of 3 classes the one with the largest score"
    assert "classes      'high', 'low', 'middle'" in lines
    assert any(line.startswith("column") and line.split()[1:] == ["high", "low", "middle"] for line in lines)


# ---- effects


def test_effects_of_a_class_add_up_to_its_score_less_the_mean(table, model):
    explanation = explain(model)
    assert isinstance(explanation, Explanations) and explanation.classes == model.classes
    scores = model.decision_function(table)
    expected = scores - scores.mean(axis=1, keepdims=True)
    assert math.fsum(explanation.probabilities) == pytest.approx(1)
    totals = []
    for each in explanation.by_class:
        total = np.zeros(len(table))
        for curve in each.curves:
            total += np.interp(table[curve.name].to_numpy(), curve.values, curve.effects)
        for bars in each.bars:
            by_value = dict(zip(bars.values, bars.effects, strict=True))
            total += [by_value[value] for value in table[bars.name].to_pylist()]
        totals.append(total)
    apart = expected - np.array(totals).T  # what an average row has, the same for all rows
    np.testing.assert_allclose(apart, np.broadcast_to(apart[0], apart.shape), atol=1e-9)
    chances = np.exp(apart[0]) / np.exp(apart[0]).sum()
    np.testing.assert_allclose(explanation.probabilities, chances, rtol=1e-6)
    odds = [each.log_odds for each in explanation.by_class]
    np.testing.assert_allclose(odds, np.log(chances / (1 - chances)), rtol=1e-6)
    assert [each.positive for each in explanation.by_class] == list(model.classes)


def test_what_is_added_to_all_scores_changes_no_effect(model):
    shifted = replace(model, theta=model.theta + np.arange(len(model.columns)))
    one, other = explain(model), explain(shifted)
    for mine, theirs in zip(one.by_class, other.by_class, strict=True):
        for curve, same in zip(mine.curves, theirs.curves, strict=True):
            np.testing.assert_allclose(curve.effects, same.effects, atol=1e-9)
    assert json.loads(json.dumps(one.to_dict()))["probabilities"] == list(one.probabilities)


def test_pairs_of_columns_have_effects_by_class():
    rng = np.random.default_rng(0)
    release = rb.craft(rng.normal(size=(60, 2)), np.arange(60) % 3, n_rados=5, columns="degree-2")
    explanation = explain(by_hand(release))
    corners = np.array([each.pairs[0].corners for each in explanation.by_class])
    np.testing.assert_allclose(corners.sum(axis=0), 0, atol=1e-9)
    tables = {entry.name: entry for entry in effect_findings(explanation).tables}
    assert len(tables["pairs"].rows) == 3


@pytest.mark.parametrize("n_classes", [3, 12])
def test_the_page_shows_the_classes_that_stand_out_most(tmp_path, n_classes):
    classes = tuple(f"grade {k}" for k in range(n_classes))
    model = by_hand(crafted(raw_table(classes=classes)))
    explanation = explain(model)
    findings = effect_findings(explanation)
    panel = findings.figures[0].panels[0]
    shown = [series.label for series in panel.series]
    assert len(shown) == min(n_classes, 10)
    order = sorted(range(n_classes), key=lambda k: -explanation.importance[k])[:10]
    assert set(shown) == {str(model.classes[k]) for k in order}
    assert len({(series.label, series.style) for series in panel.series}) == len(shown)
    tables = {entry.name: entry for entry in findings.tables}
    assert [row[0] for row in tables["classes"].rows] == list(model.classes)
    write_effects_page(model, tmp_path / "a.html", name="a.model.json", command="rado show a.model.json")
    text = (tmp_path / "a.html").read_text()
    assert all(str(value) in text for value in classes) and "speaks for" not in text
    assert ("stand out most, of 12" in text) == (n_classes == 12)
    lines = effect_lines(explanation)
    assert sum(line.startswith("class ") for line in lines) == min(n_classes, 6)
    assert ("6 classes more" in lines[-1]) == (n_classes == 12)


# ---- commands


@pytest.fixture
def files(rado, table, release, model):
    """The folder that commands run in, with a table, a release of it and a model."""
    pyarrow.csv.write_csv(table, "wine.csv")
    release.save("wine.rado.parquet")
    model.save("wine.model.json")
    return Path.cwd()


def test_commands_on_a_model(rado, files):
    code, out, _ = rado("predict", "wine.model.json", "wine.csv", "--label", "grade")
    assert code == 0 and "predicted 'middle'" in out and "true class" in out
    rows = [line.split() for line in out.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["high", "low", "middle"] and sum(
        int(cell) for row in rows for cell in row[1:]
    ) == 400
    code, out, _ = rado("predict", "wine.model.json", "wine.csv", "--label", "grade", "--json")
    assert code == 0 and np.sum(json.loads(out)["confusion"]) == 400
    code, out, _ = rado("show", "wine.model.json", "--html", "wine.html")
    assert code == 0 and "effects on the score of each class" in out and (files / "wine.html").exists()
    code, out, _ = rado("show", "wine.rado.parquet", "--json")
    assert code == 0 and [entry["class"] for entry in json.loads(out)["by_class"]] == ["high", "low", "middle"]
    code, out, _ = rado("score", "wine.model.json", "wine.csv", "--label", "grade", "--epsilon", "1")
    assert code == 0 and "one record added or removed" in " ".join(out.split())


@pytest.mark.parametrize("columns", ["linear", "degree-2"])
def test_from_a_table_to_predictions(rado, files, columns):
    code, _, _ = rado(
        "craft", "wine.csv", "--label", "grade", "-o", "a.rado.parquet", "--columns", columns, "--seed", "1"
    )
    assert code == 0
    code, out, _ = rado("learn", "a.rado.parquet", "-o", "a.model.json", "--report", "a.html")
    assert code == 0 and "effects on the score of each class" in out
    assert "Effects of columns on classes" in (files / "a.html").read_text()
    code, out, _ = rado("predict", "a.model.json", "wine.csv", "--label", "grade", "--json", "-o", "a.parquet")
    assert code == 0 and json.loads(out)["error"] < 0.5  # two thirds would be chance
    code, out, _ = rado("show", "a.rado.parquet", "--html", "b.html")
    assert code == 0 and (files / "b.html").exists()


def test_numbers_of_many_classes_are_shown_in_short(model):
    told = replace(model, learner={"name": "by hand", "rounds": [7] * 12, "slopes": [0.5] * 11 + [2.0]})
    text = " ".join(describe_model(told).split())
    assert "rounds 7 for each class, slopes [0.5, 0.5, 0.5, 0.5, ...]" in text


def test_many_classes_are_counted_by_what_they_are_taken_for(rado, files):
    classes = tuple(f"grade {k}" for k in range(12))
    table = raw_table(classes=classes)
    by_hand(crafted(table)).save("many.model.json")
    pyarrow.csv.write_csv(table, "many.csv")
    code, out, _ = rado("predict", "many.model.json", "many.csv", "--label", "grade")
    assert code == 0 and "true class" not in out
    counts = [int(line.split(": ")[1].split()[0]) for line in out.splitlines() if " taken for " in line]
    assert 0 < len(counts) <= 10 and counts == sorted(counts, reverse=True)


def test_classes_are_named_one_by_one_in_order(rado, files):
    words = ["craft", "wine.csv", "--label", "grade", "-n", "5", "-o", "named.rado.parquet", "--force"]
    code, _, _ = rado(*words, "--classes", "low,middle,high")
    assert code == 0 and rb.load("named.rado.parquet").classes == GRADES
    code, _, _ = rado(*words, "--classes", "low", "--classes", "middle", "--classes", "high")
    assert code == 0 and rb.load("named.rado.parquet").classes == GRADES
    code, _, err = rado(*words, "--classes", "low")
    assert code == 1 and "--classes NEG,POS" in err
    code, _, err = rado(*words, "--classes", "low,high")
    assert code == 1 and "'middle'" in err and err.count("\n") == 1


def test_a_schema_of_many_classes_and_the_holders_own_look(rado, files, table):
    entry = {
        "radoboost_schema": 1, "label": "grade", "classes": [*GRADES, "top"],
        "columns": {"age": {"kind": "number", "low": 0, "high": 120}, "ward": {"kind": "category", "values": [*"AB"]}},
    }  # fmt: skip
    (files / "wine.schema.json").write_text(json.dumps(entry))
    assert rb.Schema.from_dict(entry).classes == (*GRADES, "top")
    code, out, _ = rado("check", "wine.csv", "--schema", "wine.schema.json", "--json")
    truth = table["grade"].to_pylist()
    assert code == 0 and json.loads(out)["classes"] == {name: truth.count(name) for name in (*GRADES, "top")}
    code, out, _ = rado("check", "wine.csv", "--schema", "wine.schema.json")
    assert code == 0 and "no row has the class 'top'" in out
    names = ["--classes", ",".join(GRADES[:2])]
    code, out, _ = rado("check", "wine.csv", "--label", "grade", "--schema", "private", "--drop", "ward", *names)
    assert code == 0 and "usable label: 133 rows ('grade'" in out
    assert "classes:" not in out  # two classes are shown as ever
    code, _, _ = rado("craft", "wine.csv", "--schema", "wine.schema.json", "-n", "5", "-o", "a.rado.parquet")
    assert code == 0 and rb.load("a.rado.parquet").classes == (*GRADES, "top")


def test_a_check_counts_classes_of_all_rows():
    table = pa.table({"age": [1.0, None, 3.0, 4.0], "grade": ["a", "b", "c", "a"]})
    check = check_table(table, label="grade", classes=("a", "b", "c"), schema={"age": (0, 9)})
    assert check.to_dict()["classes"] == {"a": 2, "b": 1, "c": 1}  # one of them is spoiled by its age
    assert check.to_dict()["contribute"] == 3


def test_a_label_that_looks_like_an_amount_is_refused(rado, files):
    seen = LabelCollector("price")
    seen.see(pa.array([k / 2 for k in range(11)]))
    with pytest.raises(rb.TableError, match="looks like an amount; make classes of its ranges"):
        seen.settle()
    few = LabelCollector("stars")
    few.see(pa.array([k / 2 for k in range(10)]))
    assert few.settle().n_classes == 10
    declared = LabelCollector("price", [k / 2 for k in range(11)])
    declared.see(pa.array([0.5, 1.0]))
    assert declared.settle().n_classes == 11
    assert many_classes_advice("rings", range(20)) is None and "28 classes" in many_classes_advice("rings", range(28))
    (files / "rings.csv").write_text("age,rings\n" + "".join(f"{k % 7},{k % 28}\n" for k in range(84)))
    code, _, err = rado("craft", "rings.csv", "--label", "rings", "-n", "3")
    assert code == 0 and "the label 'rings' has 28 classes" in err
    code, out, _ = rado("schema", "rings.csv", "--label", "rings", "--from-data")
    assert code == 0 and "the label 'rings' has 28 classes" in out
    assert len(json.loads((files / "rings.schema.json").read_text())["classes"]) == 28


def test_a_column_of_one_weight_has_a_band_by_its_standard_error(model):
    errors = np.random.default_rng(3).random(model.theta.shape)
    told = replace(model, learner={"name": "by hand", "standard_errors": errors.tolist()})
    place = model.column_names.index("dose")
    for own, each, theta in zip(errors, explain(told).by_class, model.theta - model.theta.mean(axis=0), strict=True):
        curve = next(curve for curve in each.curves if curve.name == "dose")
        expected = 2 * own[place] * np.abs(np.array(curve.effects) / theta[place])
        np.testing.assert_allclose(curve.band, expected, rtol=1e-9, atol=1e-12)
        assert each.bars[0].band is None  # several weights, whose covariances are not known
    for odd in ([1.0, 2.0], "much", None, errors[:2].tolist()):
        strange = replace(model, learner={"name": "by hand", "standard_errors": odd})
        assert all(curve.band is None for each in explain(strange).by_class for curve in each.curves)


def test_bands_of_classes_go_by_what_the_model_keeps(tmp_path, release):
    plain = by_hand(release)
    parts = score_terms(plain.columns, plain.map, plain.schema)
    n_columns = len(plain.column_names)
    rng = np.random.default_rng(2)
    roots = [rng.normal(size=(len(part.kept), len(part.kept))) for part in parts]
    effects = Effects(
        tuple(root @ root.T for root in roots), (None,) * len(parts), (0.1,) * n_columns, (0.9,) * n_columns
    )
    model = replace(plain, effects=effects)
    model.save(tmp_path / "a.model.json")
    explanation = explain(rb.load_model(tmp_path / "a.model.json"))
    curves = [next(curve for curve in each.curves if curve.name == "age") for each in explanation.by_class]
    places, values = [part.names for part in parts].index(("age",)), np.array(curves[0].values)
    column = model.columns[model.column_names.index("age")]
    expected = 2 * abs(roots[places][0, 0]) * np.abs(column.apply(values))  # standardised: 0 is the mean over rows
    for curve in curves:
        np.testing.assert_allclose(curve.band, expected, rtol=1e-9, atol=1e-12)
    panels = effect_findings(explanation).figures[0].panels
    assert all(len(panel.bands) == 3 or panel.title == "ward" for panel in panels)
    assert "± is the widest band" in "\n".join(effect_lines(explanation))
