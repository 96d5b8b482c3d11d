"""What classes are called, and rows without a label."""

import itertools
import json
import random
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import flat
import radoboost as rb
from radoboost.learner.predict import predict_table
from radoboost.progress import no_progress
from radoboost.tables.class_values import classes_are_of_one_kind
from radoboost.tables.labels import LabelCollector, LabelEncoder, check_classes

NUMBERS = {name: {"kind": "number", "low": -4, "high": 4} for name in "pq"}
MIXED = {"asa": ["1", "2", "3", "3E"], "truth": ["true", "false", "unknown"], "two": ["3", "3E"]}


def clinic(classes, rows=400, seed=5):
    """Two columns, of which the first tells the classes apart."""
    rng = np.random.default_rng(seed)
    places = np.arange(rows) % len(classes)
    p = np.clip(places - (len(classes) - 1) / 2 + 0.3 * rng.normal(size=rows), -4, 4)
    return pd.DataFrame({"p": p, "q": rng.normal(size=rows).clip(-4, 4), "y": np.array(classes)[places]})


def schema(classes):
    return {"radoboost_schema": 1, "label": "y", "classes": classes, "columns": NUMBERS}


def settled(*batches, **options):
    seen = LabelCollector("y", **options)
    for batch in batches:
        one = LabelCollector("y", **options)
        one.see(pa.array(batch))
        seen = seen.merge(one)
    return tuple(seen.settle().classes)


# ---- classes of several kinds


@pytest.mark.parametrize("classes", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("epsilon", [None, 50.0])
def test_texts_of_several_kinds_go_all_the_way(tmp_path, classes, epsilon):
    table = clinic(classes)
    table.to_csv(tmp_path / "t.csv", index=False)
    mechanism = None if epsilon is None else rb.Moments(epsilon=epsilon)
    release = rb.craft(tmp_path / "t.csv", schema=schema(classes), mechanism=mechanism, counts=None)
    release.save(tmp_path / "t.rado.parquet")
    loaded = rb.load(tmp_path / "t.rado.parquet")
    assert loaded.classes == tuple(classes)
    rb.MomentsClassifier().fit_rados(loaded).model_.save(tmp_path / "t.model.json")
    model = rb.load_model(tmp_path / "t.model.json")
    assert model.classes == tuple(classes)
    assert (model.predict(table) == table["y"]).mean() > 0.8
    with no_progress() as bar:
        done = predict_table(model, tmp_path / "t.csv", tmp_path / "s.csv", bar, label="y")
    assert done.n_judged == len(table) and done.error < 0.2
    written = pd.read_csv(tmp_path / "s.csv", dtype={"prediction": str})["prediction"]
    assert set(written) == set(classes)  # so that predictions can be joined to what the table has


def test_classes_of_a_csv_file_are_called_as_it_spells_them(tmp_path):
    clinic(MIXED["asa"]).to_csv(tmp_path / "t.csv", index=False)
    assert rb.craft(tmp_path / "t.csv", label="y", n_rados=5).classes == ("1", "2", "3", "3E")
    assert rb.propose_schema(tmp_path / "t.csv", "y").classes == ("1", "2", "3", "3E")


def test_names_do_not_depend_on_the_order_of_labels():
    spellings = ["1", "1.0", " 1 ", "true", "True", "TRUE ", "02", "2", "3E", "3E "]
    shuffled = random.Random(3)
    names = set()
    for _ in range(50):
        shuffled.shuffle(spellings)
        cut = shuffled.randrange(1, len(spellings))
        names.add(settled(spellings[:cut], spellings[cut:]))
    assert names == {("1", "2", "3E")}
    rule = LabelEncoder("y", names.pop())
    assert rule.places(pa.array(["1.0", "true", "002", " 3E"])).tolist() == [0, 0, 1, 2]
    assert rule.places_or_none(pa.array([1.0, 2.0, 7.0])).tolist() == [0, 1, -1]


def test_names_are_what_check_classes_makes_of_them():
    """Otherwise the classes of a model would not be those of its release."""
    words = ["0", "1", "01", "1e3", "true", "false", "a", "3E", "2.5", "+1", "-1", "1.0", "x "]
    for size in (2, 3):
        for labels in itertools.combinations(words, size):
            try:
                names = settled(list(labels))
            except rb.RadoError:
                continue  # one class only
            assert check_classes(names) == names and len({type(name) is str for name in names}) == 1
            assert classes_are_of_one_kind(names)


@pytest.mark.parametrize("classes", [(1, "a"), (True, "unknown", False), (1, 2, "3E"), (True, 2.5)])
def test_numbers_among_texts_are_refused_before_anything_is_booked(tmp_path, classes):
    table = clinic(["1", "2", "3E"])
    ledger = rb.Ledger.create(tmp_path / "t.ledger", "t", epsilon=2.0)
    bounds = {"p": (-4, 4), "q": (-4, 4)}
    for mechanism in (rb.Moments(epsilon=1.0), rb.NoisyRados(epsilon=1.0)):
        with pytest.raises(rb.ArgumentError, match=r"classes must be of one kind.*give all of them as text"):
            rb.craft(table, label="y", classes=classes, mechanism=mechanism, ledger=ledger, counts=None, schema=bounds)
    shell = rb.MomentsClassifier(mechanism=rb.Moments(epsilon=1.0), classes=classes, ledger=ledger, schema=bounds)
    with pytest.raises(rb.ArgumentError, match="classes must be of one kind"):
        shell.fit(table[["p", "q"]], table["y"])
    with pytest.raises(rb.ArgumentError, match="classes must be of one kind"):
        rb.craft(table, label="y", classes=classes, n_rados=5)
    assert not ledger.entries()
    theta, columns = np.zeros(1 if len(classes) == 2 else (3, 1)), (rb.Column("p", "none", step=1.0),)
    with pytest.raises(rb.ModelError, match="one kind"):
        rb.Model(theta, columns, classes, {"name": "by hand"})


def test_numbers_among_texts_of_a_data_frame_are_refused():
    table = pd.DataFrame({"p": [1.0, 2.0, 3.0], "y": [1, "1a", 2]})
    with pytest.raises(rb.TableError, match="the label 'y' mixes numbers and text; make all of them text"):
        rb.craft(table, label="y", n_rados=2)
    assert rb.craft(table.astype({"y": str}), label="y", n_rados=2).classes == ("1", "1a", "2")


# ---- codes


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["007", "008", "010"], ("007", "008", "010")),
        (["10", "9", "007"], ("007", "9", "10")),
        (["1e3", "2e3"], ("1e3", "2e3")),
        (["001", "01", "1", "2"], (1, 2)),  # several spellings of a class: it is a number
        (["007", "7", "08"], (7, 8)),
        ([" 007", "007 ", "8"], ("007", "8")),
        (["0", "1"], (0, 1)),
        (["-1", "+1"], (-1, 1)),
        (["0.50", "1.00"], (0.5, 1)),
        (["1.000000000000000000e+00", "0.000000000000000000e+00"], (0, 1)),  # as numpy.savetxt writes them
        (["1e-05", "1E+03"], (1e-05, 1000)),
    ],
)
def test_codes_keep_their_zeros(labels, names):
    assert settled(labels) == names
    assert settled(*([label] for label in reversed(labels))) == names


def test_codes_change_nothing_but_names(tmp_path):
    table = clinic(["007", "010"])
    codes, numbers = (rb.craft(each, label="y", n_rados=50, seed=1) for each in (table, table.astype({"y": int})))
    assert (codes.classes, numbers.classes) == (("007", "010"), (7, 10))
    assert codes.rados.tobytes() == numbers.rados.tobytes()


def test_private_paths_go_by_declared_spellings():
    table = clinic(["007", "008", "010"])
    options = {"label": "y", "bounds": {"p": (-4, 4), "q": (-4, 4)}, "counts": None}
    for declared, names in ((("7", "8", "10"), (7, 8, 10)), (("007", "008", "010"), ("007", "008", "010"))):
        release = flat.craft(table, classes=declared, mechanism=rb.Moments(epsilon=50.0), **options)
        assert release.classes == names
        assert (rb.MomentsClassifier().fit_rados(release).model_.predict(table).astype(float)
                == table["y"].astype(float)).mean() > 0.8  # fmt: skip


# ---- rows without a label


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.SchemaWarning)
        return flat.craft(*arguments, **options)


@pytest.mark.parametrize("form", ["csv", "frame", "array", "masked", "sparse", "weighted"])
@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_leaving_out_unlabelled_rows_is_leaving_out_these_rows(tmp_path, form, classes):
    table = clinic(classes, 60)
    gone = np.zeros(60, dtype=bool)
    gone[[0, 7, 59]] = True
    holed = table.assign(y=table["y"].where(~gone, None))
    options = {"n_rados": 20, "seed": 1}
    x, labels = table[["p", "q"]].to_numpy(), holed["y"].to_numpy(object)
    if form == "csv":
        holed.to_csv(tmp_path / "t.csv", index=False)
        arguments, options = (tmp_path / "t.csv",), {**options, "label": "y"}
    elif form == "masked":
        arguments = (x, np.ma.array(table["y"].to_numpy(object), mask=gone))
    elif form == "weighted":
        arguments, options = (x, labels), {**options, "weights": np.arange(60) % 3 + 1}
    else:
        arguments = {
            "frame": (holed[["p", "q"]], labels),
            "array": (x, labels),
            "sparse": (sparse.csr_matrix(x), labels),
        }[form]
    with pytest.raises(rb.TableError, match="missing value"):
        flat.craft(*arguments, **options)
    with pytest.warns(rb.SchemaWarning, match="rows left out without a label: 3 of 60"):
        release = flat.craft(*arguments, **options, unlabelled="drop")
    kept = {**options, "weights": options["weights"][~gone]} if form == "weighted" else options
    kept.pop("label", None)
    expected = flat.craft(x[~gone], table["y"].to_numpy()[~gone], **kept)
    for name, rows in expected.blocks.items():
        assert release.blocks[name].tobytes() == rows.tobytes()


def test_unlabelled_rows_beside_rows_with_gaps(tmp_path):
    table = {"a": [1.0, None, 3.0, 4.0, None, 6.0, 2.0], "y": ["u", "v", "u", "v", None, "u", "v"]}
    assert quietly(table, label="y", n_rados=2, unlabelled="drop").n_examples == 6
    assert quietly(table, label="y", n_rados=2, missing="drop").n_examples == 5
    assert quietly(table, label="y", n_rados=2, missing="drop", unlabelled="drop").n_examples == 5
    with pytest.raises(rb.TableError, match=r"values are missing in 'a' 1 of 7 rows"):
        quietly(table, label="y", n_rados=2, missing="error", unlabelled="drop")
    with pytest.raises(rb.TableError, match=r"leave such rows out with .*unlabelled='drop'"):
        quietly(table, label="y", n_rados=2)
    whole = {**table, "a": [1.0, 2.0, 3.0, 4.0, None, 6.0, 2.0]}
    assert quietly(whole, label="y", n_rados=2, missing="error", unlabelled="drop").n_examples == 6
    assert quietly({**table, "y": ["u", "NA"] * 3 + ["u"]}, label="y", n_rados=2, classes=("u", "NA"),
                   unlabelled="drop").n_examples == 7  # fmt: skip
    with pytest.raises(rb.ArgumentError, match="unlabelled must be one of error, drop; it is 'fill'"):
        rb.craft(table, label="y", schema=rb.Schema(unlabelled="fill"))


# ---- on the command line


@pytest.fixture
def wards(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = clinic(["low", "high"], 60)
    table.loc[3, "y"] = None
    table.to_csv("t.csv", index=False)
    return table


def test_craft_and_predict_without_some_labels(rado, wards):
    code, _, err = rado("craft", "t.csv", "--label", "y", "-n", 50)
    assert code == 1 and "--set unlabelled=drop" in err and "line 5 of t.csv" in err
    code, _, err = rado("craft", "t.csv", "--label", "y", "-n", 50, "--set", "unlabelled=drop")
    assert code == 0 and "rows left out without a label: 1 of 60" in err
    assert rado("learn", "t.rado.parquet")[0] == 0
    code, out, err = rado("predict", "t.model.json", "t.csv", "--label", "y")
    assert code == 0 and "60 rows" in out and "of 59 that have a known label wrong" in out
    assert "left out of the error: 1 row without a label in 'y'" in err
    wards.loc[5, "y"] = "maybe"
    wards.to_csv("t.csv", index=False)
    code, out, err = rado("predict", "t.model.json", "t.csv", "--label", "y", "--json")
    told = json.loads(out)
    assert (told["n_rows"], told["n_unlabelled"], told["n_unknown_labels"]) == (60, 1, 1)
    assert told["error"] == told["n_wrong"] / 58 and len(pd.read_csv("t.scores.csv")) == 60
    assert "1 with one of no class (the first is 'maybe', line 7 of t.csv)" in err
    wards.assign(y="other").to_csv("t.csv", index=False)
    code, out, err = rado("predict", "t.model.json", "t.csv", "--label", "y", "--json")
    assert code == 0 and json.loads(out)["error"] is None and "60 with a label in 'y' of no class" in err
    code, out, err = rado("predict", "t.model.json", "t.csv", "--label", "y")
    assert code == 0 and "wrong" not in out


def test_classes_without_commas(rado, wards):
    for words in (["t.csv", "--classes", "low", "high"], ["--classes", "low", "high", "t.csv"]):
        for command in ("craft", "check"):
            code, _, err = rado(command, *words, "--label", "y")
            assert code == 1 and "--classes NEG,POS" in err


def test_large_integers_are_said_not_to_be_told_apart():
    with pytest.raises(rb.RadoError, match=r"beyond 2\*\*53 are not told apart.*use text with a letter"):
        rb.craft(np.eye(4), np.array([2**60, 2**60 + 1] * 2), n_rados=2)
    with pytest.raises(rb.ArgumentError, match="two different values"):
        check_classes((1, 1.0))


def test_an_ordered_categorical_is_read_by_its_values():
    labels = pd.Categorical(["low", "high"] * 3, categories=["low", "middle", "high"], ordered=True)
    table = pd.DataFrame({"a": np.arange(6.0), "y": labels})
    assert rb.craft(table, label="y", n_rados=2).classes == ("high", "low")
    release = rb.craft(table, label="y", n_rados=2, classes=tuple(labels.categories))
    assert release.classes == ("low", "middle", "high")
