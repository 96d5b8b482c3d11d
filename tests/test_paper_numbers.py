"""The paper's test errors, from ten folds of its own domains."""

import numpy as np
import pyarrow.csv
import pytest
from sklearn.model_selection import StratifiedKFold

import radoboost as rb

pytestmark = pytest.mark.slow


def read(domains, name):
    found = [path for path in (domains / f"{name}.csv", domains / f"{name}.csv.gz") if path.exists()]
    if not found:
        pytest.skip(f"there is no {name} in {domains}")
    table = pyarrow.csv.read_csv(found[0])
    columns = [table.column(k).to_numpy().astype(float) for k in range(table.num_columns)]
    return np.column_stack(columns[:-1]), columns[-1].astype(int)


def error(x, y, clf):
    """Test error in percent over ten folds, from half as many rados as examples, or 1000."""
    errors = []
    for fold, (train, test) in enumerate(StratifiedKFold(10, shuffle=True, random_state=0).split(x, y)):
        if "n_rados" in clf.get_params():
            clf.set_params(n_rados=min(1000, len(train) // 2), random_state=fold)
        errors.append(np.mean(clf.fit(x[train], y[train]).predict(x[test]) != y[test]))
    return 100 * float(np.mean(errors))


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 12, 16), ("magic", 22, 26)])
def test_radoboost(domains, name, low, high):
    assert low <= error(*read(domains, name), rb.RadoBoostClassifier(intercept=False)) <= high


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 2, 4), ("magic", 20, 22)])
def test_adaboost_on_examples(domains, name, low, high):
    assert low <= error(*read(domains, name), rb.AdaBoostSSClassifier(intercept=False)) <= high


@pytest.mark.parametrize(("name", "most"), [("banknote", 3), ("magic", 23)])
def test_moments_with_a_constant(domains, name, most):
    assert error(*read(domains, name), rb.MomentsClassifier()) <= most
