"""Boosting with a penalty and held-out rados, over releases: the shell, the command, and which columns matter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

import radoboost as rb
from radoboost.cli.learn import _complete_setting
from radoboost.errors import ArgumentError
from radoboost.learner.boost import Rounds, boost
from radoboost.learner.boost_rados import (
    FOLDS,
    BoostingPenalty,
    choose_stopping_point,
    examples_behind_rados,
    features_used_by_model,
    held_out_margin_ratios,
)
from radoboost.learner.penalised_boost import PENALTIES, boost_penalised, penalty_on_rados
from radoboost.report.describe import describe_model

RESTRAINTS = [
    {"stop": "held-out"}, {"penalty": "lasso"}, {"penalty": "lasso", "strength": 0.01, "stop": "held-out"},
    {"penalty": "ridge", "strength": 0.1}, {"penalty": "scores", "stop": "held-out"},
    {"penalty": "scores", "strength": 1.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def release():
    return rb.craft(*load_breast_cancer(return_X_y=True), n_rados=200, seed=0)


def test_the_paper_is_the_default(release):
    """To the last bit: theta, and every round."""
    clf, plain = rb.RadoBoostClassifier().fit_rados(release), boost(release.rados)
    np.testing.assert_array_equal(clf.model_.theta, plain.theta)
    np.testing.assert_array_equal(clf.rounds_.log_risk, plain.rounds.log_risk)
    assert not {"penalty", "strength", "stop"} & set(clf.model_.learner)
    options = {"weak", "kappa", "update", "clamp", "keep", "rounds", "name"}
    assert set(clf.model_.learner) == options | {"used_features", "left_out"}


@pytest.mark.parametrize("name", PENALTIES)
def test_a_strength_is_measured_on_the_examples_side(name, release):
    """Of lasso and ridge m times as much is on the rados' side, without the constant column; of scores four times."""
    clf = rb.RadoBoostClassifier(n_rounds=50, penalty=name, strength=0.05).fit_rados(release)
    weight = 0.05 * (4 if name == "scores" else 569)
    penalty = penalty_on_rados(release.rados, name, weight, [column.scale == "constant" for column in release.columns])
    boosted = boost_penalised(release.rados, penalty, n_rounds=50)
    np.testing.assert_array_equal(clf.model_.theta, boosted.theta)
    np.testing.assert_array_equal(clf.rounds_.log_risk, boosted.rounds.log_risk)
    assert clf.n_used_ == clf.model_.learner["rounds"] == len(boosted.rounds)
    assert clf.model_.learner["penalty"] == name and clf.model_.learner["strength"] == 0.05


@pytest.mark.parametrize("options", RESTRAINTS)
def test_what_was_done_can_be_done_again(options, release):
    """A model says the strength and the rounds that held-out rados chose; with these given it is the same."""
    clf = rb.RadoBoostClassifier(n_rounds=150, **options).fit_rados(release)
    did = clf.model_.learner
    again = {"n_rounds": did["rounds"], **{key: did[key] for key in ("penalty", "strength") if key in did}}
    same = rb.RadoBoostClassifier(**again).fit_rados(release)
    np.testing.assert_allclose(same.model_.theta, clf.model_.theta, rtol=1e-12)
    assert did["rounds"] == clf.n_used_ <= 150 and np.isfinite(clf.model_.theta).all()
    assert ("held_out_ratio" in did) == ("held-out" in options.values() or "strength" not in options)
    X, y = load_breast_cancer(return_X_y=True)
    assert clf.score(X, y) > 0.88


def test_rounds_and_strengths_are_those_that_held_out_rados_speak_for(rng):
    """By a plain loop over folds, ways and rounds."""
    rados = rng.normal([3.0, 1.0, 0.0, 0.0], 1.0, size=(43, 4)) @ rng.normal(size=(4, 4))
    ways = [lambda rows, most, kappa=kappa: boost(rows, n_rounds=most, kappa=kappa) for kappa in (1.0, 4.0)]
    best = {}
    for place, way in enumerate(ways):
        for t in range(1, 31):
            total = 0.0
            for fold in range(FOLDS):
                held = np.arange(43) % FOLDS == fold
                margins = rados[held] @ way(rados[~held], 30).rounds.theta(4, t)
                total += margins.mean() / margins.std() / FOLDS
            best[place, t] = total
    most = max(best.values())
    chosen = choose_stopping_point(rados, ways, 30, stop=True)
    assert chosen.ratio == pytest.approx(most, rel=1e-9)
    assert (chosen.place, chosen.n_rounds) == min(key for key in best if best[key] > most * (1 - 1e-10))
    last = choose_stopping_point(rados, ways, 30, stop=False)
    assert last.n_rounds == 30 and last.ratio == pytest.approx(max(best[0, 30], best[1, 30]), rel=1e-9)


def test_ratios_over_many_rounds(rng):
    """They are computed a few hundred rounds at a time; rounds that were never taken count as the last one."""
    rows = rng.normal(0.2, 1, (30, 5))
    rounds = boost(rows, n_rounds=600).rounds
    ratios = held_out_margin_ratios(rounds, rows)
    for t in (0, 255, 256, 511, 599):
        margins = rows @ rounds.theta(5, t + 1)
        assert ratios[t] == pytest.approx(margins.mean() / margins.std(), rel=1e-9)
    none = Rounds(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
    assert held_out_margin_ratios(none, rows).shape == (0,)


def test_no_example_is_needed():
    """A release from its file alone; nothing else is an argument."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    release = rb.craft(x, x[:, 0] > 0, n_rados=40, seed=1)
    clf = rb.RadoBoostClassifier(penalty="scores", stop="held-out").fit_rados(release)
    assert clf.used_features_[0] == "x0"


@pytest.mark.parametrize("columns", ["linear", "degree-2"])
def test_boosting_over_columns_that_a_map_makes(columns, tmp_path):
    """From a table to predictions, by a file: products are what this table needs."""
    x = np.random.default_rng(0).normal(size=(1500, 2))
    y = np.where(np.abs(x[:, 0]) > 0.67, "far", "near")
    rb.craft(x, y, n_rados=400, columns=columns, seed=0).save(tmp_path / "x.rado.parquet")
    clf = rb.RadoBoostClassifier(penalty="scores", stop="held-out").fit_rados(tmp_path / "x.rado.parquet")
    error = 1 - clf.score(x, y)
    assert error > 0.3 if columns == "linear" else error < 0.2
    if columns != "linear":
        assert "x0" in clf.used_features_[0] and "x1" not in clf.used_features_[0]
        assert clf.model_.learner["left_out"] == len(clf.model_.column_names) - len(clf.used_features_)
    clf.model_.save(tmp_path / "m.json")
    assert rb.load_model(tmp_path / "m.json").predict(x).tolist() == clf.predict(x).tolist()


def test_more_than_two_classes():
    X, y = load_wine(return_X_y=True)
    release = rb.craft(X, y, n_rados=300, seed=0)
    clf = rb.RadoBoostClassifier(n_rounds=200, penalty="scores", stop="held-out").fit_rados(release)
    did = clf.model_.learner
    assert [len(did[key]) for key in ("rounds", "strength", "held_out_ratio")] == [3, 3, 3] and clf.n_used_ == did[
        "rounds"
    ]
    assert clf.score(X, y) > 0.95 and set(clf.used_features_) <= set(clf.model_.column_names)
    sparse = rb.RadoBoostClassifier(n_rounds=200, penalty="lasso", strength=0.1).fit_rados(release)
    assert 0 < len(sparse.used_features_) < 13 and sparse.model_.learner["strength"] == [0.1] * 3


def test_features_by_importance(rng):
    """Weight times spread: a column in small units has a large weight, and is not more important for it."""
    x = rng.normal(size=(500, 3)) * [1.0, 1000.0, 1.0]
    release = rb.craft(x, x[:, 0] + x[:, 1] / 1000 > 0, n_rados=300, seed=0, mechanism=rb.Plain(scale=None))
    spreads = np.sqrt(np.square(x).sum(axis=0)) / 2
    np.testing.assert_allclose(release.rados[:, :3].std(axis=0), spreads, rtol=0.2)  # of 300 draws, five deviations
    assert features_used_by_model(release, np.array([2.0, 0.001, 0.0, 9.0])) == ["x0", "x1"]
    assert features_used_by_model(release, np.array([2.0, -0.003, 0.1, 0.0])) == ["x1", "x0", "x2"]
    assert features_used_by_model(release, np.zeros(4)) == []


def test_models_say_which_columns_matter(release):
    sparse = rb.RadoBoostClassifier(penalty="lasso", strength=0.1).fit_rados(release)
    used, left_out = sparse.used_features_, sparse.model_.learner["left_out"]
    assert 0 < len(used) < 10 and len(used) + left_out == 30
    assert set(used) == {
        name for name, weight in zip(sparse.model_.column_names, sparse.coef_[0], strict=True) if weight
    }
    text = " ".join(describe_model(sparse.model_).split())
    assert f"uses {len(used)} of 30 columns, the most important first: {', '.join(used)}; {left_out} left out" in text
    nothing = rb.RadoBoostClassifier(penalty="lasso", strength=100.0).fit_rados(release)
    assert nothing.used_features_ == [] and "uses none; 30 left out" in " ".join(describe_model(nothing.model_).split())
    few = rb.RadoBoostClassifier(n_rounds=2).fit_rados(release)
    assert 1 <= len(few.used_features_) <= 2


BAD = {
    "penalty": {"penalty": "slope"},
    "strength": {"penalty": "lasso", "strength": np.nan},
    "stop": {"stop": "early"},
    "weak": {"penalty": "lasso", "weak": "median"},
    "n_rounds": {"stop": "held-out", "n_rounds": 1.5},
}


@pytest.mark.parametrize("name", BAD)
def test_options_are_checked(name, release):
    with pytest.raises(ArgumentError, match=name):
        rb.RadoBoostClassifier(**BAD[name]).fit_rados(release)


def test_too_few_rados_to_hold_some_out():
    x = np.arange(12.0)[:, None]
    release = rb.craft(x, x[:, 0] > 5, n_rados=9, seed=0)
    with pytest.raises(ArgumentError, match="needs 10 of them; there are 9"):
        rb.RadoBoostClassifier(stop="held-out").fit_rados(release)
    assert rb.RadoBoostClassifier(penalty="lasso", strength=0.01).fit_rados(release).n_used_ > 0


def test_a_release_that_does_not_tell_its_number_of_examples():
    """Its constant column does; without one a strength has no unit, but held-out rados choose, and scores need none."""
    x = np.random.default_rng(0).normal(size=(4000, 2))
    release = replace(rb.craft(x, x[:, 0] > 0, n_rados=600, seed=0), n_examples=None)
    assert examples_behind_rados(release) == pytest.approx(4000, rel=0.35)  # a deviation of 600 draws is 6 per cent
    clf = rb.RadoBoostClassifier(penalty="ridge", n_rounds=30).fit_rados(release)
    assert clf.model_.learner["weight"] > 0 and "strength" not in clf.model_.learner
    bare = replace(rb.craft(x, x[:, 0] > 0, n_rados=600, seed=0, mechanism=rb.Plain(intercept=False)), n_examples=None)
    with pytest.raises(ArgumentError, match="does not tell how many examples"):
        rb.RadoBoostClassifier(penalty="ridge", strength=0.1).fit_rados(bare)
    rb.RadoBoostClassifier(penalty="scores", strength=1.0, n_rounds=30).fit_rados(bare)
    assert BoostingPenalty().absent and not BoostingPenalty(stop="held-out").absent


def test_odd_releases(rng):
    """An outlier, a constant column, two identical columns, more columns than rados: finite."""
    x = rng.normal(size=(40, 30))
    x[:, 1], x[:, 2], x[3, 4] = 7.0, x[:, 0], 1e12
    with pytest.warns(rb.OutlierWarning, match="'x4'"):
        release = rb.craft(x, x[:, 0] > 0, n_rados=12, seed=0)
    for options in RESTRAINTS:
        clf = rb.RadoBoostClassifier(n_rounds=100, **options).fit_rados(release)
        assert np.isfinite(clf.model_.theta).all() and "x1" not in clf.used_features_
        assert "'x0' and 'x2' are proportional" in " ".join(clf.model_.learner["remarks"])


def test_the_command(rado, release):
    release.save("clinic.rado.parquet")
    options = [
        "--learner",
        "boost",
        "--set",
        "penalty=lasso",
        "--set",
        "strength=0.01",
        "--set",
        "stop=held-out",
        "--set",
        "n_rounds=40",
    ]
    printed = json.loads(rado("learn", "clinic.rado.parquet", *options, "--json", "-o", "b.json")[1])
    did = printed["learner"]
    assert (did["penalty"], did["strength"], did["stop"]) == ("lasso", 0.01, "held-out") and did["rounds"] <= 40
    same = (
        rb.RadoBoostClassifier(n_rounds=40, penalty="lasso", strength=0.01, stop="held-out").fit_rados(release).model_
    )
    assert rb.load_model("b.json").to_json() == same.to_json()
    assert "uses " in rado("show", "b.json")[1]
    code, _, err = rado("learn", "clinic.rado.parquet", "--learner", "boost", "--set", "strength=1", "-o", "c.json")
    assert code == 1 and "add --set penalty=lasso" in err
    code, _, err = rado("learn", "clinic.rado.parquet", *options[:4], "--set", "strength=much", "-o", "c.json")
    assert code == 1 and "strength must be" in err and len(err.splitlines()) == 1
    code, _, err = rado("learn", "clinic.rado.parquet", "--set", "penalty=lasso", "-o", "c.json")
    assert code == 1 and "add --learner boost" in err


def test_completion():
    assert _complete_setting("st") == ["strength=", "stop="]
