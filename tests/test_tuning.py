"""Private fits that are repeated: grids that change a mechanism, fits that are booked, warnings where they are not."""

import math
import pickle
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import radoboost as rb
from radoboost.estimators import tuning
from radoboost.privacy import Composed, Gaussian, Relation, epsilon_at
from radoboost.privacy.ledger import Ledger

SHELLS = [rb.RadoBoostClassifier, rb.MomentsClassifier]


@pytest.fixture
def table(rng):
    X = rng.uniform(0, 1, (400, 2))
    return X, (X[:, 0] + 0.2 * rng.normal(size=400) > 0.5).astype(int)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", "patients", epsilon=40.0)


def private(shell=rb.MomentsClassifier, mechanism=None, **options):
    mechanism = rb.Moments(1.0, sharpen=False) if mechanism is None else mechanism
    return shell(mechanism=mechanism, classes=(0, 1), schema=[[0, 1], [0, 1]], n_rados=20, **options)


# ---- mechanisms by name, and in grids


@pytest.mark.parametrize("shell", SHELLS)
def test_a_grid_replaces_the_mechanism_by_a_changed_copy(shell, table):
    clf = private(shell)
    before = clf.mechanism
    assert clf.get_params()["mechanism__epsilon"] == 1.0 and "mechanism__epsilon" not in clf.get_params(deep=False)
    assert clf.set_params(mechanism__epsilon=2.0, n_rados=30) is clf
    assert clf.mechanism == rb.Moments(2.0, sharpen=False) and before.epsilon == 1.0 and clf.n_rados == 30
    assert clone(clf).mechanism == clf.mechanism
    clf.set_params(**clf.get_params())
    assert clf.mechanism == rb.Moments(2.0, sharpen=False)
    assert clf.fit(*table).release_.statement.epsilon == pytest.approx(2.0, rel=1e-6)
    pipeline = make_pipeline(FunctionTransformer(), clf).set_params(
        **{f"{shell.__name__.lower()}__mechanism__delta": 1e-7}
    )
    assert pipeline[-1].mechanism.delta == 1e-7


def test_mechanisms_by_name(table):
    clf = private(mechanism="moments")
    with pytest.raises(rb.ArgumentError, match=r"needs epsilon: give mechanism=Moments\(epsilon=1.0\), or set"):
        clf.fit(*table)
    clf.set_params(mechanism__epsilon=1.5)
    assert clf.mechanism == rb.Moments(1.5)
    again = private(mechanism=rb.Plain()).set_params(mechanism="noisy-rados", mechanism__epsilon=3, mechanism__clip=2.0)
    assert again.mechanism == rb.NoisyRados(3, clip=2.0)
    assert rb.MomentsClassifier(mechanism="plain", n_rados=20).fit(*table).release_.statement.epsilon == math.inf


@pytest.mark.parametrize(
    ("mechanism", "changes", "word"),
    [
        ("momments", {"epsilon": 1.0}, "momments"),
        ("moments", {"sigma": 1.0}, "sigma"),
        (rb.Plain(), {"epsilon": 1.0}, "epsilon"),
        (None, {"epsilon": 1.0}, "epsilon"),
        (rb.Moments(1.0), {"epsilon": -1.0}, "positive"),
        ("feature-band", {"epsilon": 1.0}, "feature"),
    ],
)
def test_changes_that_cannot_be_are_refused(mechanism, changes, word):
    clf = rb.MomentsClassifier(mechanism=mechanism)
    with pytest.raises(ValueError, match=word):
        clf.set_params(**{f"mechanism__{name}": value for name, value in changes.items()})


# ---- folds

FLOATS = st.floats().filter(lambda value: not 2**53 <= abs(value) < math.inf)
IDS = st.one_of(st.text(), st.binary(), st.integers(), FLOATS, st.booleans(), st.none(), st.dates(), st.decimals())


@given(st.lists(IDS), st.integers(2, 9))
def test_the_fold_of_a_row_is_its_own(ids, n_folds):
    alone = [int(rb.folds([value], n_folds)[0]) for value in ids]
    together = rb.folds(ids, n_folds)
    assert together.tolist() == alone and together.dtype == np.int64 and set(alone) <= set(range(n_folds))


def test_one_id_is_one_fold_in_every_form():
    numbers = list(range(300))
    forms = [
        numbers, range(300), np.array(numbers), np.array(numbers, dtype=float), [f" {k}" for k in numbers],
        np.array([f"{k}.0" for k in numbers]), pa.array(numbers), pa.chunked_array([numbers[:9], numbers[9:]]),
        [np.int32(k) for k in numbers],
    ]  # fmt: skip
    assert len({tuple(rb.folds(form)) for form in forms}) == 1
    assert len({*rb.folds([None, float("nan"), "", b" "]).tolist()}) == 1
    # As for persons: one id with more digits gives a whole column of decimals more.
    assert len({*rb.folds([Decimal("12.1"), Decimal("12.100"), "12.1"]).tolist()}) == 1
    # 60 rows in each fold on average; one with fewer than 20, or more than 120, by chance: below 1e-8, and it is fixed.
    assert np.bincount(rb.folds(numbers)).min() > 20 and np.bincount(rb.folds(numbers)).max() < 120


def test_a_missing_id_moves_no_other_row():
    """pandas makes floats of whole numbers where one is missing; long ones would then be others."""
    ids = [10**16 + k for k in range(200)]
    whole = rb.folds(pd.Series(ids)).tolist()
    for column in (pd.Series([*ids, None], dtype="Int64"), [*ids, None], [*map(str, ids), None]):
        assert rb.folds(column).tolist()[:-1] == whole
    for column in (pd.Series([*ids, None]), np.array(ids, dtype=float), [1, -(2.0**53)]):
        with pytest.raises(rb.ArgumentError, match="Int64"):
            rb.folds(column)
    few = list(range(2**53 - 200, 2**53))
    assert rb.folds(pd.Series([*few, None])).tolist()[:-1] == rb.folds(few).tolist()
    assert len({*rb.folds([math.inf, None, math.nan]).tolist()}) == 1


@pytest.mark.parametrize(
    ("ids", "n_folds", "word"),
    [
        ("patient", 5, "id"),
        ({"a": 1}, 5, "id"),
        (np.zeros((3, 2)), 5, "id"),
        ([1, 2], 1, "n_folds"),
        ([1, 2], True, "n_folds"),
    ],
)
def test_folds_that_cannot_be_are_refused(ids, n_folds, word):
    with pytest.raises(rb.ArgumentError, match=word):
        rb.folds(ids, n_folds)


SPLITS = {  # the rows of each fit, as ids
    "folds": lambda ids, y: [set(ids[train]) for train, _ in PredefinedSplit(rb.folds(ids)).split()],
    "a split by id": lambda ids, y: [set(ids[rb.folds(ids, 4) != 0])],
    "KFold": lambda ids, y: [set(ids[train]) for train, _ in KFold(5).split(ids)],
    "KFold, shuffled": lambda ids, y: [set(ids[t]) for t, _ in KFold(5, shuffle=True, random_state=0).split(ids)],
    "StratifiedKFold": lambda ids, y: [set(ids[train]) for train, _ in StratifiedKFold(5).split(ids, y)],
    "train_test_split": lambda ids, y: [set(train_test_split(ids, random_state=0)[0])],
    "folds by row number": lambda ids, y: [set(ids[rb.folds(range(len(ids))) != k]) for k in range(5)],
}


@pytest.mark.parametrize("split", SPLITS)
def test_only_folds_by_id_leave_other_rows_where_they_are(split, rng):
    """The last five are planted: a table with one record less has fits that differ in other records too."""
    ids, y = rng.permutation(10_000)[:1000], rng.integers(0, 2, 1000)
    moved = 0
    for row in (0, 1, 500, 999):
        without = SPLITS[split](np.delete(ids, row), np.delete(y, row))
        fits = SPLITS[split](ids, y)
        moved += sum(len((a ^ b) - {ids[row]}) for a, b in zip(fits, without, strict=True))
    assert (moved == 0) == (split in ("folds", "a split by id"))


# ---- fits that add up

GRID = {"mechanism__epsilon": [0.5, 1.0], "mechanism__delta": [1e-6, 1e-7]}


def test_a_grid_search_books_all_of_its_fits(table, ledger):
    """4 settings, 5 folds and the winner again make 21 fits, all of them booked."""
    search = GridSearchCV(private(ledger=ledger.path), GRID, cv=5)
    said = r"a winner that was picked by exact scores .* has no finite epsilon.*must follow from each row alone.*folds"
    with pytest.warns(rb.BudgetWarning, match=said):
        search.fit(*table)
    entries = ledger.entries()
    assert len({entry.release for entry in entries}) == 21 and len(entries) == 42  # counts of rows, and the rest

    def mu_squared(params):
        return (
            rb.privacy.calibration.gaussian_multiplier(params["mechanism__epsilon"], params["mechanism__delta"]) ** -2
        )

    expected = 5 * sum(map(mu_squared, ParameterGrid(GRID))) + mu_squared(search.best_params_)
    assert float(ledger.spent().mu_squared) == pytest.approx(expected, rel=1e-6)
    total = epsilon_at(Composed(tuple(entry.event for entry in entries)), 1e-6)
    assert total == pytest.approx(epsilon_at(Gaussian(expected**-0.5, Relation.RECORD), 1e-6), abs=1e-6)
    assert search.best_estimator_.release_.statement.epsilon <= 1.0 + 1e-9 < total


def test_two_processes_book_on_one_ledger(table, ledger):
    with warnings.catch_warnings():  # the warning is the workers'
        warnings.simplefilter("ignore", rb.BudgetWarning)
        GridSearchCV(private(ledger=ledger), {"n_rados": [5, 6]}, cv=2, n_jobs=2).fit(*table)
    assert len({entry.release for entry in ledger.entries()}) == 5 and ledger.problems() == []


def test_the_same_setting_21_times_is_21_times_one(table, ledger):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.BudgetWarning)
        GridSearchCV(private(ledger=ledger), {"n_rados": [5, 6, 7, 8]}, cv=5).fit(*table)
    one = rb.privacy.calibration.gaussian_multiplier(1.0, 1e-6) ** -2
    assert float(ledger.spent().mu_squared) == pytest.approx(21 * one, rel=1e-6)
    total = epsilon_at(Composed(tuple(entry.event for entry in ledger.entries())), 1e-6)
    assert total == pytest.approx(epsilon_at(Gaussian((21 * one) ** -0.5, Relation.RECORD), 1e-6), abs=1e-6)


def test_a_record_is_in_17_of_21_fits_over_folds_by_id():
    """A ledger does not know of folds, and counts 21; 17 fits of epsilon 1 are 4.75."""
    ids = np.arange(400)
    fits = [train for train, _ in PredefinedSplit(rb.folds(ids)).split()] * 4 + [ids]
    assert len(fits) == 21 and (np.bincount(np.concatenate(fits)) == 17).all()
    one = rb.privacy.calibration.gaussian_multiplier(1.0, 1e-6) ** -2
    assert pytest.approx(epsilon_at(Gaussian((17 * one) ** -0.5, Relation.RECORD), 1e-6), abs=0.01) == 4.75


def test_a_total_stops_a_grid_search(table, tmp_path):
    ledger = Ledger.create(tmp_path / "small.ledger", "t", epsilon=2.0)
    with pytest.warns(rb.BudgetWarning), pytest.raises(rb.BudgetError, match="nothing was booked"):
        GridSearchCV(private(ledger=ledger), GRID, cv=5, error_score="raise").fit(*table)
    assert ledger.spent().within(ledger.allowance)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_ledger_survives_clones_and_pickles(shell, table, ledger):
    clf = private(shell, ledger=ledger)
    for twin in (clone(clf), pickle.loads(pickle.dumps(clf)), clone(clone(clf))):
        twin.fit(*table)
    assert len({entry.release for entry in ledger.entries()}) == 3
    with pytest.raises(rb.ArgumentError, match="no finite cost"):
        shell(ledger=ledger, n_rados=20).fit(*table)


WARNING = r"not all of these fits have a ledger: .* add up.*no finite epsilon.*must follow from each row alone"


def test_without_a_ledger_the_second_private_fit_warns_once(table):
    clf = private().fit(*table)
    with pytest.warns(rb.BudgetWarning, match=WARNING):
        clf.fit(*table)
    clone(clf).fit(*table)  # said already; a warning would be an error here
    private(rb.RadoBoostClassifier).fit(*table)
    for _ in range(3):
        rb.MomentsClassifier(n_rados=20).fit(*table)  # plain rados promise nothing, and need no warning
    clf.score(*table)


@pytest.mark.parametrize("second", SHELLS)
@pytest.mark.parametrize("booked", [(True, False), (False, True), (False, False)])
def test_one_counter_serves_all_shells_and_booked_fits(second, booked, table, ledger):
    private(rb.MomentsClassifier, ledger=ledger if booked[0] else None).fit(*table)
    with pytest.warns(rb.BudgetWarning, match=WARNING):
        private(second, ledger=ledger if booked[1] else None).fit(*table)
    private(second).fit(*table)  # said already


def test_booked_fits_alone_do_not_warn(table, ledger):
    for shell in SHELLS:
        private(shell, ledger=ledger).fit(*table)


@pytest.mark.parametrize("splitter", ["folds", "classes"])
def test_cross_validation_and_one_vs_rest_warn(splitter, table):
    (X, y), three = table, np.arange(400) % 3
    repeat = {
        "folds": lambda: cross_val_score(private(), X, y, cv=3),
        "classes": lambda: OneVsRestClassifier(private()).fit(X, three),
    }[splitter]
    with pytest.warns(rb.BudgetWarning, match=r"every fold .* every class of a one-vs-rest"):
        repeat()


def test_a_worker_warns_at_its_first_fit(monkeypatch):
    monkeypatch.setattr(tuning.multiprocessing, "parent_process", lambda: "somebody")
    with pytest.warns(rb.BudgetWarning):
        tuning.note_private_fit("Shell", booked=False)
    tuning.note_private_fit("Shell", booked=False)
    tuning.note_private_fit("Other", booked=True)
