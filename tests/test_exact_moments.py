"""Moments without noise: sums equal plain loops, wherever they are computed, and nothing is promised."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flat
import oracles
import radoboost as rb
from radoboost.cli.craft import MORE_ACCURATE
from radoboost.privacy import Gaussian, Relation, event_to_dict
from radoboost.release.statement_check import check_release_statement
from test_room import meet, one_release, parts_of

EXACT = rb.Moments(math.inf)
GRID = 2**15
BOUNDS = {"x0": (0, 9), "x1": (0, 9)}


def tables(n_rows=900, n_classes=2):
    x = np.random.default_rng(0).uniform(0, 9, (n_rows, 2))
    angle = (x[:, 0] - 4.5) * (x[:, 1] - 4.5)
    return x, (angle > 0).astype(int) if n_classes == 2 else np.searchsorted([-5, 5], angle)


def crafted(x, y, **options):
    return flat.craft(x, y, **{"mechanism": EXACT, "threads": 1, **options})


def blocks(release):
    return {name: rows.tobytes() for name, rows in release.blocks.items()}


# ---- the sums


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("columns", ["linear", "degree-3", "auto", {"x0": ["linear", "x0*x1"]}], ids=str)
def test_blocks_are_the_sums_of_plain_loops(n_classes, columns):
    x, y = tables(300, n_classes)
    release = crafted(x, y, bounds=BOUNDS, columns=columns)
    entry = None if release.map is None else release.map.to_dict()
    rows = [list(row) if entry is None else oracles.mapped_row({"x0": row[0], "x1": row[1]}, entry) for row in x]
    low, high = ([c.constants[k] for c in release.columns[:-1]] for k in (0, 1))
    places = [2 * label - 1 for label in y.tolist()] if n_classes == 2 else y.tolist()
    whole = [oracles.on_sphere(row, 1, low, high, 0.5, GRID)[0] for row in rows]
    sums, products = oracles.exact_moments(whole, places, 1 if n_classes == 2 else n_classes)
    assert (release.blocks["moment:b"] * GRID == np.array(sums)).all()
    assert (release.blocks["moment:C"] * GRID**2 == np.array(products)).all()
    assert set(release.blocks) == {"moment:b", "moment:C"} and release.n_examples == 300
    assert (len(release.columns) > 3) == (columns != "linear")


@pytest.mark.parametrize("options", [{"threads": 2}, {"engine": "reference"}])
def test_neither_threads_nor_the_engine_change_a_bit(options):
    x, y = tables()
    assert blocks(crafted(x, y)) == blocks(crafted(x, y, **options))


def test_the_order_and_the_files_of_rows_change_no_bit(tmp_path):
    x, y = tables(600)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    frame[:100].to_csv(tmp_path / "1.csv", index=False)
    frame[100:].to_csv(tmp_path / "2.csv", index=False)
    files = crafted([tmp_path / "1.csv", tmp_path / "2.csv"], None, label="y")
    assert blocks(files) == blocks(crafted(frame.sample(frac=1, random_state=0), None, label="y"))


def test_bounds_are_as_far_as_values_go_and_three_deviations_at_most():
    x, y = tables(400)
    x[:, 1] = np.random.default_rng(1).standard_t(2, 400)
    release = crafted(x, y, columns="linear")
    a, b = release.columns[:2]
    assert (a.low, a.high) == (x[:, 0].min(), x[:, 0].max())
    assert b.high == min(x[:, 1].max(), x[:, 1].mean() + 3 * x[:, 1].std()) < x[:, 1].max()
    assert any(
        "The bounds of columns for which none were declared were taken from the table" in sentence
        for sentence in release.statement.not_protected
    )
    declared = crafted(x, y, columns="linear", bounds={"x0": (0, 9), "x1": (-60, 60)})
    assert not any("bounds of columns" in sentence for sentence in declared.statement.not_protected)


def test_a_column_of_one_value_and_categories_go_through():
    x, _ = tables(200)
    y = (np.abs(x[:, 0] - 4.5) + 2 * (x[:, 1] > 4) > 3).astype(int)
    frame = pd.DataFrame({"a": x[:, 0], "same": 7.0, "ward": np.where(x[:, 1] > 4, "A", "B"), "y": y})
    with pytest.warns(rb.SchemaWarning):
        release = crafted(frame, None, label="y")
    clf = rb.MomentsClassifier().fit_rados(release)
    assert (clf.predict(frame) == y).mean() > 0.9


def test_weights_count_rows_as_often():
    x, y = tables(200)
    weights = np.arange(200) % 3
    assert blocks(crafted(x, y, weights=weights, bounds=BOUNDS)) == blocks(
        crafted(np.repeat(x, weights, axis=0), np.repeat(y, weights), bounds=BOUNDS)
    )


# ---- what is said, and refused


def test_the_statement_promises_nothing_and_says_that_sums_are_exact(tmp_path):
    x, y = tables(300)
    release = crafted(x, y)
    statement = release.statement
    assert statement.epsilon == math.inf and statement.best_guess == 1 and statement.promises == ()
    assert statement.neighbours == "any two tables" and not EXACT.private
    assert statement.not_protected[0].startswith("The sums are exact: no noise is added, and they tell of single recor")
    release.save(tmp_path / "r.rado.parquet")
    again = rb.load(tmp_path / "r.rado.parquet")
    assert blocks(again) == blocks(release) and again.to_dict() == release.to_dict() and again.law == "exact moments"
    assert "two class values" in str(statement.not_protected)
    assert "3 class values" in str(crafted(*tables(300, 3)).statement.not_protected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "leave the seed out"),
        ({"signatures": rb.FixedSupport(0.5)}, "leave signatures out"),
        ({"rows": 100}, "leave rows out"),
        ({"bounds": "private"}, "finds bounds privately"),
        ({"share": ["x0"]}, "leave shared out"),
        ({"columns": "degree-2", "intercept": False}, "leave intercept as it is"),
    ],
)
def test_what_only_a_promise_or_rados_need_is_refused(options, words):
    with pytest.raises(rb.ArgumentError, match=words):
        crafted(*tables(50), **options)


def test_no_rados_of_more_than_two_classes():
    with pytest.raises(rb.ArgumentError, match="leave n_rados out"):
        crafted(*tables(50, 3), classes=(0, 1, 2), n_rados=5)
    with pytest.raises(rb.ReleaseError, match="one second moment for all"):
        crafted(*tables(50, 3), n_rados=5)


@pytest.mark.parametrize("options", [{"unit": "label"}, {"relation": "replace"}, {"sharpen": False}])
def test_there_is_nothing_to_protect_or_to_sharpen(options):
    with pytest.raises(rb.ArgumentError, match="with an infinite epsilon nothing is protected"):
        rb.Moments(math.inf, **options)


def test_it_is_never_what_comes_of_a_forgotten_option(tmp_path):
    with pytest.raises(TypeError, match="epsilon"):
        rb.Moments()
    for epsilon in (math.nan, -math.inf, 0):
        with pytest.raises(rb.ArgumentError, match="epsilon must be"):
            rb.Moments(epsilon)
    x, y = tables(50)
    assert rb.craft(x, y, n_rados=5).law == "sums"  # the default without an epsilon


def test_no_ledger_books_it_and_no_account_prices_it(tmp_path):
    ledger = rb.Ledger.create(tmp_path / "a.ledger", "t", epsilon=1.0)
    with pytest.raises(rb.ArgumentError, match="no finite cost to book"):
        crafted(*tables(50), ledger=ledger)
    with pytest.raises(rb.ArgumentError, match="no finite cost"):
        EXACT.scales(0)


def test_composed_with_a_private_release_the_total_is_infinite():
    x, y = tables(300)
    private = rb.craft(x, y, mechanism=rb.Moments(1.0), classes=(0, 1), counts=None, schema=BOUNDS)
    total = crafted(x, y, compose=[private]).statement.composed
    assert total["epsilon"] == "infinite"


def test_a_file_that_claims_a_finite_epsilon_with_exact_sums_is_refused(tmp_path):
    release = crafted(*tables(100))
    event = Gaussian(5.0, Relation.RECORD)
    statement = replace(
        release.statement, epsilon=9.0, delta=1e-6, event=event_to_dict(event), neighbours=Relation.RECORD.value
    )
    forged = replace(release, statement=statement)
    with pytest.raises(rb.ReleaseError, match="the sums of the release are exact; do not trust it"):
        check_release_statement(forged)
    forged.save(tmp_path / "f.rado.parquet")
    with pytest.raises(rb.ReleaseError, match="do not trust it"):
        rb.load(tmp_path / "f.rado.parquet")


def test_a_file_without_one_of_the_sums_is_refused(tmp_path):
    release = crafted(*tables(100))
    replace(release, blocks={"moment:b": release.blocks["moment:b"]}).save(tmp_path / "f.rado.parquet")
    with pytest.raises(rb.ReleaseError, match="no moments from which they could be drawn"):
        rb.load(tmp_path / "f.rado.parquet")


# ---- what is learned


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_learner_sees_more_than_1000_rados_do(n_classes):
    x, y = tables(3000, n_classes)
    test, answers = x[2000:], y[2000:]
    clf = rb.MomentsClassifier().fit_rados(crafted(x[:2000], y[:2000]))
    plain = rb.MomentsClassifier().fit_rados(rb.craft(x[:2000], y[:2000], seed=0))
    errors = [(each.predict(test) != answers).mean() for each in (clf, plain)]
    assert errors[0] < 0.06 < errors[1]
    assert clf.model_.learner["name"] == "moments"
    chosen = clf.predict_proba(test)[np.arange(len(test)), answers]
    assert -np.log(chosen).mean() < 0.3
    if n_classes == 2:
        assert abs(clf.expected_error_ - errors[0]) < 0.03 and clf.r2_ > 0.5
        assert clf.standard_errors_.shape == clf.model_.theta.shape


def test_theta_is_least_squares_where_rows_are_many():
    x, y = tables(900)
    release = crafted(x, y, columns="linear", bounds=BOUNDS)
    theta = rb.MomentsClassifier().fit_rados(release).model_.theta
    rows = np.column_stack([x * 2 / 9 - 1, np.full(len(x), 0.5)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.linalg.solve(rows.T @ rows, rows.T @ (2 * y - 1)) * [1, 1, 0.5]
    assert np.allclose(theta / theta[0], expected / expected[0], rtol=0.05, atol=0.05)


def test_fit_crafts_it():
    x, y = tables(600)
    clf = rb.MomentsClassifier(mechanism=EXACT).fit(x, y)
    assert clf.release_.law == "exact moments" and clf.score(x, y) > 0.95


def test_few_rows_of_many_columns_are_shrunk():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 60)), np.arange(40) % 2
    clf = rb.MomentsClassifier().fit_rados(crafted(x, y))
    assert clf.expected_error_ is None and "about as many columns as rows" in str(clf.model_.learner["remarks"])


def test_rados_are_drawn_from_it_and_boosted():
    x, y = tables(900)
    release = crafted(x, y, n_rados=1000)
    rados, b, c = release.rados.copy(), release.blocks["moment:b"][0], release.blocks["moment:C"]
    rados[:, -1] *= 0.5
    assert np.allclose(rados.mean(axis=0), b / 2, atol=1e-3 * np.abs(b).max())
    covariance = (rados - rados.mean(axis=0)).T @ (rados - rados.mean(axis=0)) / 1000
    assert np.allclose(covariance, c / 4, atol=1e-3 * np.abs(c).max())
    assert rb.RadoBoostClassifier().fit_rados(crafted(x, y)).score(x, y) > 0.85


# ---- several holders


def test_two_of_the_same_columns_add_up(tmp_path):
    x, y = tables(900)
    options = {"columns": "linear", "bounds": BOUNDS}
    parts = [crafted(x[:300], y[:300], **options), crafted(x[300:], y[300:], n_rados=5, **options)]
    both, whole = rb.merge(parts), crafted(x, y, **options)
    assert blocks(both) == blocks(whole) and both.n_examples == 900
    assert both.statement.not_protected[0].startswith("These sums are those of 2 releases")
    both.save(tmp_path / "both.rado.parquet")
    assert rb.load(tmp_path / "both.rado.parquet").to_dict() == both.to_dict()
    thetas = [rb.MomentsClassifier().fit_rados(release).model_.theta for release in (both, whole)]
    assert (thetas[0] == thetas[1]).all()


def test_two_whose_columns_follow_from_their_own_tables_do_not():
    x, y = tables(900)
    parts = [crafted(x[:300], y[:300]), crafted(x[300:], y[300:])]
    with pytest.raises(rb.ArgumentError, match="each planned by its own moments"):
        rb.merge(parts)
    with pytest.raises(rb.ArgumentError, match="different mechanisms"):
        rb.merge([parts[0], rb.craft(x, y)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_room_of_three_gives_the_release_of_the_whole_table(n_classes):
    x, y = tables(900, n_classes)
    ends, _ = meet(parts_of(x, y), mechanism=EXACT, classes=tuple(range(n_classes)))
    release = one_release(ends)
    whole = crafted(x, y, bounds=BOUNDS, classes=tuple(range(n_classes)))
    assert blocks(release) == blocks(whole) and release.map == whole.map and release.n_examples == 900
    assert release.statement.epsilon == math.inf and "no holder should be in a second room" in str(
        release.statement.trust_model
    )
    assert len(release.statement.holders.figures) == 0


# ---- the command line


def test_the_command_line(rado, tmp_path):
    x, y = tables(300)
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv("t.csv", index=False)

    craft = ["craft", "t.csv", "--label", "y"]
    code, out, err = rado(*craft, "--mechanism", "moments")
    assert code == 1 and "--epsilon inf releases exact sums, which promise nothing" in err
    code, out, err = rado(*craft, "--mechanism", "moments", "--epsilon", "inf", "--json")
    assert code == 0 and json.loads(out)["statement"]["epsilon"] == "infinite"
    assert MORE_ACCURATE not in err
    for words in (
        ["show", "t.rado.parquet"], ["learn", "t.rado.parquet"],
        ["predict", "t.model.json", "t.csv"], ["export", "t.model.json", "-o", "t.py"], ["show", "t.model.json"],
    ):  # fmt: skip
        code, out, err = rado(*words)
        assert code == 0, (words, err)
    code, out, err = rado(*craft, "-o", "p.rado.parquet", "-n", 5)
    assert code == 0 and err.count(MORE_ACCURATE) == 1
    assert MORE_ACCURATE not in rado(*craft, "-o", "q.rado.parquet", "-n", 5, "-q")[2]
    code, out, err = rado("account", "--mechanism", "moments", "--epsilon", "inf")
    assert code == 1 and "no finite cost" in err
