"""The scikit-learn shells with more than two classes."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import get_tags

import radoboost as rb
from radoboost.learner.multiclass_moments import learn_class_discriminant

SHELLS = [rb.RadoBoostClassifier, rb.MomentsClassifier]
NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_shapes_and_units(shell, iris):
    X, y = iris
    clf = shell(random_state=3).fit(X, y)
    assert clf.classes_.tolist() == [0, 1, 2] and get_tags(clf).classifier_tags.multi_class
    assert clf.coef_.shape == (3, 4) and clf.intercept_.shape == (3,)
    scores = clf.decision_function(X)
    np.testing.assert_allclose(X @ clf.coef_.T + clf.intercept_, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(clf.predict(X), np.argmax(scores, axis=1))
    probabilities = clf.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(probabilities, axis=1), clf.predict(X))
    assert clf.score(X, y) > (0.95 if shell is rb.MomentsClassifier else 0.6)


@pytest.mark.parametrize("shell", SHELLS)
def test_fit_is_craft_and_then_fit_rados(shell, iris):
    X, y = iris
    clf = shell(random_state=3).fit(X, NAMES[y])
    release = rb.craft(X, NAMES[y], seed=3)
    assert clf.release_.classes == release.classes == tuple(NAMES.tolist())
    assert list(clf.release_.blocks) == list(release.blocks) == [f"class:{name}" for name in NAMES]
    for name, rows in release.blocks.items():
        assert clf.release_.blocks[name].tobytes() == rows.tobytes()
    again = shell().fit_rados(release)
    assert again.model_.to_json() == clf.model_.to_json()
    assert again.predict(X).tolist() == clf.predict(X).tolist() and again.predict(X).dtype == NAMES.dtype


def test_the_shell_is_thin(iris):
    X, y = iris
    release = rb.craft(X, y, seed=0)
    clf, fit = rb.MomentsClassifier().fit_rados(release), learn_class_discriminant(release)
    np.testing.assert_array_equal(clf.model_.theta, fit.theta)
    assert clf.shrinkage_ == fit.shrinkage and clf.standard_errors_ is None
    assert clf.model_.learner["form"] == "discriminant" and clf.model_.learner["sizes"] == fit.sizes.tolist()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0)])
def test_declared_classes_in_another_order(shell, order, iris):
    """In the shell classes are sorted; the model keeps what was declared."""
    X, y = iris
    declared = NAMES[list(order)].tolist()
    straight = shell(random_state=0).fit(X, NAMES[y])
    clf = shell(random_state=0, classes=declared).fit(X, NAMES[y])
    assert clf.classes_.tolist() == sorted(declared) and clf.model_.classes == tuple(declared)
    np.testing.assert_allclose(clf.decision_function(X), straight.decision_function(X), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(X @ clf.coef_.T + clf.intercept_, clf.decision_function(X), rtol=1e-9, atol=1e-9)
    assert clf.predict(X).tolist() == clf.model_.predict(X).tolist()
    if shell is rb.RadoBoostClassifier:
        for mine, theirs in zip(clf.rounds_, straight.rounds_, strict=True):
            np.testing.assert_array_equal(mine.feature, theirs.feature)


@pytest.mark.parametrize("labels", [[3, 5, 9], [-1.0, 0.0, 2.0], ["1", "1.0", " 1"], [10, 2, 300]])
def test_labels_of_every_kind(labels, iris):
    X, y = iris
    values = np.array(labels)
    clf = rb.MomentsClassifier(random_state=0).fit(X, values[y])
    assert clf.classes_.tolist() == sorted(labels) and clf.score(X, values[y]) > 0.95
    assert clf.model_.to_dict()["classes"] == sorted(labels)


def test_labels_that_cannot_be_learned(iris):
    X, y = iris
    with pytest.raises(ValueError, match="classes must be all labels of y, each once"):
        rb.MomentsClassifier(classes=(0, 1, 3)).fit(X, y)
    with pytest.raises(ValueError, match="classes must be all labels of y, each once"):
        rb.MomentsClassifier(classes=(0, 1, 2, 2)).fit(X, y)
    with pytest.raises(ValueError, match="classes must be the two labels of y"):
        rb.MomentsClassifier(classes=(0, 1)).fit(X, y)
    with pytest.raises(ValueError, match="y has 70 classes, and 64 is the most"):
        rb.MomentsClassifier().fit(X, np.arange(150) % 70)
    with pytest.raises(ValueError, match="it must have at least two"):
        rb.MomentsClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        rb.AdaBoostSSClassifier().fit(X, y)


def test_a_part_of_the_table_without_one_of_the_declared_classes(iris):
    """As in a fold: the model still has a column for it."""
    X, y = iris
    with pytest.warns(rb.NoiseWarning, match="no rado has an example of 2"):
        clf = rb.MomentsClassifier(classes=(0, 1, 2), random_state=0).fit(X[y < 2], y[y < 2])
    assert clf.classes_.tolist() == [0, 1, 2] and set(clf.predict(X)) == {0, 1}


FRESH = """
import sys, radoboost as rb
print(getattr(rb, sys.argv[1])().fit_rados(rb.load(sys.argv[2])).model_.to_json(), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_another_process_learns_the_same_model_byte_for_byte(shell, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 230))  # wide enough for BLAS to share out the work
    release = rb.craft(X, np.digitize(X[:, 0], [-0.5, 0.5]), n_rados=250)
    release.save(tmp_path / "r.rado.parquet")
    here = shell().fit_rados(release).model_.to_json()
    command = [sys.executable, "-c", FRESH, shell.__name__, tmp_path / "r.rado.parquet"]
    there = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"}, text=True
    )
    assert there.stdout == here


@pytest.mark.parametrize("shell", SHELLS)
def test_frames_sparse_tables_and_pickles(shell, iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    clf = shell(random_state=1).fit(frame, NAMES[y])
    assert clf.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    dense = shell(random_state=1).fit(X, NAMES[y])
    np.testing.assert_array_equal(clf.decision_function(frame), dense.decision_function(X))
    thin = shell(random_state=1).fit(sparse.csr_array(X), NAMES[y])
    np.testing.assert_array_equal(thin.decision_function(sparse.csr_array(X)), dense.decision_function(X))
    again = pickle.loads(pickle.dumps(clone(clf).fit(frame, NAMES[y])))
    np.testing.assert_array_equal(again.predict_proba(frame), clf.predict_proba(frame))


def test_a_raw_table_with_a_schema(iris):
    X, y = iris
    schema = rb.Schema(
        {"a": rb.Number(4, 8, gaps=True), "b": rb.Number(0, 7), "petals": rb.Category(("short", "long"))}
    )
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 2], "petals": np.where(X[:, 3] > 1, "long", "short")})
    frame.loc[3, "a"] = None
    clf = rb.MomentsClassifier(schema=schema, random_state=0).fit(frame, NAMES[y])
    assert clf.score(frame, NAMES[y]) > 0.9 and clf.predict_proba(frame).shape == (150, 3)


def test_grids_folds_and_calibration(iris):
    X, y = iris
    clf = rb.MomentsClassifier(mechanism=rb.Plain(), random_state=0)
    search = GridSearchCV(clf, {"n_rados": [50, 500], "mechanism__intercept": [True, False]})
    assert search.fit(X, y).best_score_ > 0.95 and search.best_params_["mechanism__intercept"]
    folds = PredefinedSplit(rb.folds([f"flower {k}" for k in range(150)], 3))
    assert cross_val_score(rb.MomentsClassifier(random_state=0), X, y, cv=folds).mean() > 0.95
    calibrated = CalibratedClassifierCV(rb.RadoBoostClassifier(random_state=0), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (150, 3)
    for shell in (*SHELLS, rb.AdaBoostSSClassifier):
        one_by_one = OneVsRestClassifier(shell()).fit(X, y)
        assert len(one_by_one.estimators_) == 3 and one_by_one.score(X, y) > 0.6


def test_a_private_mechanism_needs_every_class_declared(iris):
    X, y = iris
    with pytest.raises(rb.ArgumentError, match="or all of them where there are more"):
        rb.MomentsClassifier(mechanism=rb.Moments(1.0), schema=[(0, 8)] * 4).fit(X, y)
