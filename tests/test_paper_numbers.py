"""The paper's tables, and the shells on ten folds of its own domains."""

import numpy as np
import pytest

import radoboost as rb
from radoboost.lab.paper import reproduce
from radoboost.lab.paper.domains import find_domains, load_domain
from radoboost.lab.paper.protocol import N_FOLDS, number_of_rados, stratified_folds
from radoboost.lab.paper.versus_paper import SMALL

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("what", ["table1", "table3"])
def test_a_table_of_the_paper_comes_out(domains, tmp_path, what):
    """At least 24 of 26 cells within two combined standard errors, and cells outside explained."""
    if not set(SMALL) <= set(find_domains(domains)):
        pytest.skip(f"not all of {', '.join(SMALL)} are in {domains}")
    (document,) = reproduce(what, data=domains, domains=tuple(SMALL), output=tmp_path)
    checks = document.findings.checks
    assert checks[0].statement.startswith("AdaBoost and RadoBoost: at least 24 of 26") and checks[0].seen
    assert all(check.seen for check in checks if check.statement.startswith("AdaBoost(n) on "))


def error(folder, name, clf):
    """Test error in percent over ten folds, from half as many rados as examples, or 1000."""
    if name not in find_domains(folder):
        pytest.skip(f"there is no {name} in {folder}")
    domain = load_domain(name, str(folder))
    errors = []
    for fold, (train, test) in enumerate(stratified_folds(domain.signs, N_FOLDS, np.random.default_rng(0))):
        if "n_rados" in clf.get_params():
            clf.set_params(n_rados=number_of_rados(len(train)), random_state=fold)
        clf.fit(domain.x[train], domain.signs[train])
        errors.append(np.mean(clf.predict(domain.x[test]) != domain.signs[test]))
    return 100 * float(np.mean(errors))


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 12, 16), ("magic", 22, 26)])
def test_radoboost(domains, name, low, high):
    assert low <= error(domains, name, rb.RadoBoostClassifier(mechanism=rb.Plain(intercept=False))) <= high


@pytest.mark.parametrize(("name", "low", "high"), [("banknote", 2, 4), ("magic", 20, 22)])
def test_adaboost_on_examples(domains, name, low, high):
    assert low <= error(domains, name, rb.AdaBoostSSClassifier(intercept=False)) <= high


@pytest.mark.parametrize(("name", "most"), [("banknote", 3), ("magic", 23)])
def test_moments_with_a_constant(domains, name, most):
    assert error(domains, name, rb.MomentsClassifier()) <= most
