"""The scikit-learn shells: their contract, their habits, and that both doors lead to the same model."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import radoboost as rb
from radoboost.learner.boost import boost
from radoboost.learner.rado_moments import learn_rados
from radoboost.learner.weak_oracles import WEAK_ORACLES

RADO_SHELLS = [rb.RadoBoostClassifier, rb.MomentsClassifier]
SHELLS = [*RADO_SHELLS, rb.AdaBoostSSClassifier]


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


def seeded(shell, **params):
    return shell(**params) if shell is rb.AdaBoostSSClassifier else shell(random_state=3, **params)


BY_ORDER = "copies have coins by their numbers, and this check shuffles weighted rows: other rados, the same law"
EXPECTED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"), BY_ORDER
)


OTHERS = [
    rb.MomentsClassifier(columns="degree-2", n_rados=200),
    rb.MomentsClassifier(
        columns="degree-3", signatures=rb.FixedSupport(0.5), n_rados=100, mechanism=rb.Plain(intercept=False)
    ),
    rb.RadoBoostClassifier(n_rounds=40, n_rados=None, penalty="scores", stop="held-out"),
    rb.RadoBoostClassifier(n_rounds=40, n_rados=None, penalty="lasso", strength=0.01),
]
"""Parameters other than the defaults."""


def _checks(estimators):
    return [
        pair
        for estimator in estimators
        for pair in estimator_checks_generator(
            estimator, expected_failed_checks=EXPECTED if type(estimator) in RADO_SHELLS else None, mark="xfail"
        )
    ]


def _name(value):
    return getattr(getattr(value, "func", None), "__name__", type(value).__name__)


# No other check is expected to fail. Those on array API input skip unless SCIPY_ARRAY_API is set, as for all of NumPy.
@pytest.mark.parametrize(("estimator", "check"), _checks(shell() for shell in SHELLS), ids=_name)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), _checks(OTHERS), ids=_name)
def test_every_check_of_scikit_learn_with_other_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize("shell", SHELLS)
def test_coefficients_are_in_the_units_of_the_caller(shell, cancer):
    X, y = cancer
    clf = seeded(shell).fit(X, y)
    scores = X @ clf.coef_[0] + clf.intercept_[0]
    np.testing.assert_allclose(scores, clf.decision_function(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(clf.predict(X), (scores > 0).astype(int))
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], expit(clf.decision_function(X)))
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    assert clf.score(X, y) > 0.9


@pytest.mark.parametrize("scale", ["standard", "bounds", None])
@pytest.mark.parametrize("shell", SHELLS)
def test_units_under_every_scale(shell, scale, cancer):
    X, y = cancer
    X = X[:, :4]
    bounds = None if scale is None else np.column_stack([X.min(axis=0) - 1, X.max(axis=0) + 1])
    if shell is rb.AdaBoostSSClassifier:
        clf = seeded(shell, scale=scale, schema=bounds).fit(X, y)
    else:
        clf = seeded(shell, mechanism=rb.Plain(scale), schema=bounds).fit(X, y)
    np.testing.assert_allclose(X @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(X), rtol=1e-7, atol=1e-9)


def test_beyond_declared_bounds_a_value_counts_as_the_bound(cancer):
    X, y = cancer
    clf = seeded(rb.MomentsClassifier, mechanism=rb.Plain("bounds"), schema=[[5, 30]] * 2).fit(
        np.clip(X[:, :2], 5, 30), y
    )
    np.testing.assert_array_equal(clf.decision_function([[900.0, -3.0]]), clf.decision_function([[30.0, 5.0]]))


@pytest.mark.parametrize("shell", RADO_SHELLS)
def test_fit_is_craft_and_then_fit_rados(shell, cancer):
    X, y = cancer
    clf = seeded(shell).fit(X, y)
    release = rb.craft(X, y, seed=3)
    assert clf.release_.rados.tobytes() == release.rados.tobytes()
    again = shell().fit_rados(release)
    assert again.model_.to_json() == clf.model_.to_json()
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.n_features_in_ == 30 and not hasattr(again, "feature_names_in_")
    assert again.classes_.tolist() == clf.classes_.tolist() == [0, 1]


def test_shells_are_thin(cancer):
    """Theta is the learner's own, over the columns of the release."""
    X, y = cancer
    release = rb.craft(X, y, seed=0)
    moments = rb.MomentsClassifier().fit_rados(release)
    fit = learn_rados(release)
    np.testing.assert_array_equal(moments.model_.theta, fit.theta)
    np.testing.assert_array_equal(moments.standard_errors_, fit.standard_errors)
    told = (moments.shrinkage_, moments.r2_, moments.expected_error_)
    assert told == (fit.identity_weight, fit.r2, fit.expected_error)
    assert moments.model_.learner == fit.to_dict()
    options = {"n_rounds": 50, "weak": rb.Prudential(0.2), "kappa": 2.0, "update": "exponential", "clamp": 0.05}
    clf = rb.RadoBoostClassifier(keep="best", **options).fit_rados(release)
    boosted = boost(release.rados, keep="best", **options)
    np.testing.assert_array_equal(clf.model_.theta, boosted.theta)
    np.testing.assert_array_equal(clf.rounds_.log_risk, boosted.rounds.log_risk)
    assert clf.n_used_ == boosted.n_used == clf.model_.learner["rounds"]
    assert clf.model_.learner["cap"] == 0.2 and clf.model_.learner["kappa"] == 2.0


def test_adaboost_boosts_the_edge_vectors_that_rados_sum(cancer):
    """Scaled as crafting scales them, to a grid step."""
    X, y = cancer
    X, y = X[50:60, :3], y[50:60]
    assert 0 < y.sum() < 10
    clf = rb.AdaBoostSSClassifier(n_rounds=20).fit(X, y)
    columns = rb.craft(X, y, n_rados=2).columns
    assert clf.model_.columns == columns
    scaled = np.column_stack([*(column.apply(x) for column, x in zip(columns, X.T, strict=False)), np.ones(10)])
    np.testing.assert_allclose(
        clf.model_.theta, boost(scaled * (2 * y - 1)[:, None], n_rounds=20, update="exponential").theta, atol=1e-5
    )
    assert not hasattr(clf, "fit_rados") and not hasattr(clf, "release_")
    assert clf.model_.release is None and clf.model_.statement is None


FRESH = """
import sys, radoboost as rb
print(getattr(rb, sys.argv[1])().fit_rados(rb.load(sys.argv[2])).model_.to_json(), end="")
"""


@pytest.mark.parametrize(("shell", "threads"), [(rb.RadoBoostClassifier, "1"), (rb.MomentsClassifier, "2")])
def test_another_process_learns_the_same_model_byte_for_byte(shell, threads, tmp_path, rng):
    X = rng.normal(size=(300, 230))  # wide enough for BLAS to share out the work
    release = rb.craft(X, X[:, 0] > 0, n_rados=250)
    release.save(tmp_path / "r.rado.parquet")
    here = shell().fit_rados(release).model_.to_json()
    command = [sys.executable, "-c", FRESH, shell.__name__, tmp_path / "r.rado.parquet"]
    # The rest of the environment may say for which processor BLAS computes.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
    there = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
    assert there.stdout == here


def test_random_state(cancer):
    X, y = cancer

    def rados(random_state):
        return rb.MomentsClassifier(n_rados=20, random_state=random_state).fit(X, y).release_.rados.tobytes()

    assert rados(5) == rados(np.int64(5)) == rb.craft(X, y, n_rados=20, seed=5).rados.tobytes()
    assert rados(np.random.RandomState(1)) == rados(np.random.RandomState(1))
    assert rados(None) != rados(None)
    seeded_statement = rb.MomentsClassifier(n_rados=20, random_state=5).fit(X, y).release_.statement
    assert any("seed" in sentence for sentence in seeded_statement.not_protected)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("shell", SHELLS)
def test_data_frames_and_their_names(shell, kind, cancer):
    X, y = cancer
    names = [f"column {k}" for k in range(30)]
    frame = kind(dict(zip(names, X.T, strict=True)))
    clf = seeded(shell).fit(frame, y)
    assert clf.feature_names_in_.tolist() == names
    assert clf.model_.feature_names == tuple(names)
    np.testing.assert_array_equal(clf.decision_function(frame), seeded(shell).fit(X, y).decision_function(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(kind(dict(zip(names[::-1], X.T, strict=True))))
    with pytest.warns(UserWarning, match="feature names"):
        clf.predict(X)


def test_a_release_brings_its_names(cancer):
    X, y = cancer
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    clf = rb.MomentsClassifier().fit_rados(rb.craft(frame, y, seed=0))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    clf.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c"]])
    clf.fit_rados(rb.craft(X, y, seed=0))  # names of an array are no names
    assert not hasattr(clf, "feature_names_in_") and clf.n_features_in_ == 30


@pytest.mark.parametrize("shell", SHELLS)
def test_sparse_tables(shell, cancer):
    X, y = cancer
    dense, thin = seeded(shell).fit(X, y), seeded(shell).fit(sparse.csr_array(X), y)
    assert dense.model_.to_json() == thin.model_.to_json()
    np.testing.assert_array_equal(dense.decision_function(X), dense.decision_function(sparse.csr_array(X)))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes"], ["no", "yes"]),
        (["10", "9"], ["10", "9"]),  # text stays text, in the order of scikit-learn
        ([False, True], [False, True]),
        ([2, 7], [2, 7]),
    ],
)
def test_labels_of_every_kind(labels, classes, cancer):
    X, y = cancer
    shell = rb.MomentsClassifier
    clf = seeded(shell).fit(X, np.array(labels)[y])
    assert clf.classes_.tolist() == classes and clf.predict(X).dtype == clf.classes_.dtype
    np.testing.assert_array_equal(clf.predict(X) == classes[1], seeded(shell).fit(X, y).predict(X) == 1)


@pytest.mark.parametrize("labels", [["1", "1.0"], [" 1", "1"], ["0", "False"]])
@pytest.mark.parametrize("shell", SHELLS)
def test_labels_are_what_scikit_learn_takes_them_for(shell, labels, cancer):
    X, y = cancer
    clf = seeded(shell).fit(X, np.array(labels)[y])
    assert clf.classes_.tolist() == sorted(labels) and clf.score(X, np.array(labels)[y]) > 0.9


def test_declared_classes_of_a_release_are_kept(cancer):
    X, y = cancer
    release = rb.craft(X, np.array(["no", "yes"])[y], classes=("yes", "no"), seed=0)
    clf = rb.MomentsClassifier().fit_rados(release)
    # In the shell classes are sorted, as scikit-learn takes for granted; the model keeps what was declared.
    assert clf.classes_.tolist() == ["no", "yes"] and clf.model_.classes == ("yes", "no")
    labels = np.array(["no", "yes"])[y]
    assert clf.score(X, labels) > 0.9
    assert get_scorer("roc_auc")(clf, X, labels) > 0.95
    np.testing.assert_array_equal(clf.decision_function(X), -clf.model_.scores(X))
    np.testing.assert_allclose(X @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(X), rtol=1e-9, atol=1e-9)


GRID = {"intercept": [True, False], "scale": ["standard", None]}


@pytest.mark.parametrize("shell", SHELLS)
def test_clone_pipeline_grid_and_pickle(shell, cancer):
    X, y = cancer
    over_rados = shell is not rb.AdaBoostSSClassifier
    clf = seeded(shell, **({"mechanism": rb.Plain(intercept=False)} if over_rados else {"intercept": False}))
    assert clone(clf).get_params() == clf.get_params()
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), clf).fit(X, y)
    assert pipeline.score(X, y) > 0.8
    grid = {"mechanism__" * over_rados + name: values for name, values in GRID.items()}
    search = GridSearchCV(clf, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.85
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.decision_function(X), best.decision_function(X))


def test_weak_oracles_by_name(cancer):
    X, y = cancer
    release = rb.craft(X, y, seed=0)
    for name in set(WEAK_ORACLES) - {"prudential"}:
        clf = rb.RadoBoostClassifier(weak=name, n_rounds=5).fit_rados(release)
        assert clf.model_.learner["weak"] == name
        by_object = rb.RadoBoostClassifier(weak=WEAK_ORACLES[name](), n_rounds=5).fit_rados(release)
        assert by_object.model_.to_json() == clf.model_.to_json()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"weak": "weakest"}, "weak"),
        ({"weak": rb.Median}, "weak"),
        ({"weak": type("Nameless", (), {"choose": lambda self, edges: 0})()}, "weak"),
        ({"kappa": "x"}, "kappa"),
        ({"n_rados": 0}, "n_rados"),
        ({"random_state": "x"}, "x"),
        ({"mechanism": rb.Plain}, "mechanism"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(params, message, cancer):
    with pytest.raises(ValueError, match=message):
        rb.RadoBoostClassifier(**params).fit(*cancer)


@pytest.mark.parametrize("shell", RADO_SHELLS)
def test_releases_that_cannot_be_learned_from(shell, cancer, tmp_path):
    X, y = cancer
    with pytest.raises(rb.ReleaseError, match="one rado only"):
        shell().fit_rados(rb.craft(X, y, n_rados=1))
    with pytest.raises(rb.ReleaseError, match="zero in all columns"):
        shell().fit_rados(rb.craft(np.zeros((8, 2)), [0, 1] * 4, n_rados=5, mechanism=rb.Plain(intercept=False)))
    with pytest.raises(rb.ArgumentError, match="needs a Release"):
        shell().fit_rados(X)
    with pytest.raises(rb.ReleaseError, match="cannot read"):
        shell().fit_rados(tmp_path / "none.rado.parquet")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_failed_fit_leaves_the_shell_as_it_was(shell, cancer):
    X, y = cancer
    clf = seeded(shell).fit(X, y)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match="one class"):
        clf.fit(X[:, :3], np.zeros(len(y)))
    assert vars(clf) == before
    clf.predict(X)
