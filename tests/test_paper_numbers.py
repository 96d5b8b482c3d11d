"""The paper's test errors, from ten folds of its own domains."""

import numpy as np
import pyarrow.csv
import pytest
from sklearn.model_selection import StratifiedKFold

import radoboost as rb
from radoboost.boost import boost
from radoboost.moment_learner import learn_moments

pytestmark = pytest.mark.slow


def read(domains, name):
    found = [path for path in (domains / f"{name}.csv", domains / f"{name}.csv.gz") if path.exists()]
    if not found:
        pytest.skip(f"there is no {name} in {domains}")
    table = pyarrow.csv.read_csv(found[0])
    columns = [table.column(k).to_numpy().astype(float) for k in range(table.num_columns)]
    return np.column_stack(columns[:-1]), columns[-1].astype(int)


def error(x, y, learn, intercept):
    """Test error in percent; learn(release, edge vectors) gives theta over the release's columns."""
    errors = []
    for fold, (train, test) in enumerate(StratifiedKFold(10, shuffle=True, random_state=0).split(x, y)):
        n_rados = min(1000, len(train) // 2)
        release = rb.craft(x[train], y[train], n_rados=n_rados, intercept=intercept, seed=fold)
        theta = learn(release, scaled(release, x[train]) * y[train][:, None])
        errors.append(np.mean((scaled(release, x[test]) @ theta > 0) != (y[test] > 0)))
    return 100 * float(np.mean(errors))


def scaled(release, x):
    ones = np.ones(len(x))
    return np.column_stack([c.apply(x[:, k] if c.scale != "constant" else ones) for k, c in enumerate(release.columns)])


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 12, 16), ("magic", 22, 26)])
def test_radoboost(domains, name, low, high):
    assert low <= error(*read(domains, name), lambda release, _: boost(release.rados).theta, False) <= high


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 2, 4), ("magic", 20, 22)])
def test_adaboost_on_examples(domains, name, low, high):
    def learn(_, edge_vectors):
        return boost(edge_vectors, update="exponential").theta

    assert low <= error(*read(domains, name), learn, False) <= high


@pytest.mark.parametrize(("name", "most"), [("banknote", 3), ("magic", 23)])
def test_moments_with_a_constant(domains, name, most):
    assert error(*read(domains, name), lambda release, _: learn_moments(release.rados).theta, True) <= most
