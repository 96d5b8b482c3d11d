"""The experiments on privacy: exact totals against enumeration, bands and noise as stated, checks that can fail."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import oracles
import radoboost as rb
from radoboost.holder.keystream import make_key
from radoboost.holder.mechanisms import FeatureBand
from radoboost.lab.paper import feature_privacy, gaussian_noise_figures
from radoboost.lab.paper import feature_privacy as feature_privacy_module
from radoboost.lab.paper.domains import Domain, find_domains, load_domain
from radoboost.lab.paper.feature_privacy import (
    band_end_probability,
    band_rados,
    feature_privacy_totals,
    protect_feature,
)
from radoboost.lab.paper.gaussian_noise_figures import EXAMPLES, KINDS, LEARNERS, RANDOM, SUPPORTS, curve_key
from radoboost.lab.paper.jobs import Options, Task, run_cells
from radoboost.privacy import band, epsilon_at

EXPERIMENTS = (feature_privacy, gaussian_noise_figures)

pytestmark = pytest.mark.slow


@pytest.fixture
def small(tmp_path, rng):
    """A folder with two invented domains, one of them with a binary column, and options for a quick run."""
    for name, n_rows in (("fertility", 60), ("banknote", 80)):
        x = rng.normal(size=(n_rows, 3))
        x[:, 1] = x[:, 1] > 0 if name == "fertility" else x[:, 1]
        signs = np.where(x[:, 0] + 0.5 * rng.normal(size=n_rows) > 0, 1, -1)
        rows = [f"{','.join(map(repr, row.tolist()))},{sign}" for row, sign in zip(x, signs, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,label", *rows]) + "\n")
    return Options(str(tmp_path), ("fertility", "banknote"), quick=True)


# ---- what rados in a band reveal


@pytest.mark.parametrize(("m", "n", "epsilon"), [(9, 1, 3.0), (10, 2, 1.5), (11, 3, 2.0), (12, 2, 3.0), (8, 3, 6.0)])
def test_totals_agree_with_enumeration(m, n, epsilon):
    low, high = band(m, epsilon)
    beta = 1 / (1 + math.exp(epsilon / 2))
    assert (low, high) == (math.ceil(beta * (m + 1)), m - math.ceil(beta * (m + 1)))
    law, _ = oracles.column_pair(m, low, high)
    end = min(law.values())
    floor = float(1 - (1 - end) ** n)
    between = (floor + oracles.column_delta(m, low, high, n, 0.0)) / 2
    account = feature_privacy_totals(m, n, epsilon, between)
    assert (account["low"], account["high"]) == (low, high)
    exact = oracles.column_delta(m, low, high, n, n * epsilon)
    assert exact <= account["delta"] <= exact * (1 + 1e-6) + 1e-9
    assert band_end_probability(m, low, high) == pytest.approx(float(end), rel=1e-12)
    assert account["floor"] == pytest.approx(floor, rel=1e-12)
    assert oracles.column_delta(m, low, high, n, account["epsilon"]) <= between
    assert oracles.column_delta(m, low, high, n, account["epsilon"] * 0.999 - 1e-3) > between
    assert feature_privacy_totals(m, n, epsilon, floor * 0.999)["epsilon"] is None
    assert account["paper_epsilon"] == n * epsilon
    assert account["paper_delta"] == pytest.approx(min(1.0, n * m**-2.5 / epsilon))


@pytest.mark.parametrize(("m", "n", "epsilon"), [(90, 45, 2.0), (90, 45, 4.0), (200, 50, 0.5), (400, 50, 2.0)])
def test_totals_are_those_of_the_mechanism(m, n, epsilon):
    mechanism, account = FeatureBand("a", epsilon), feature_privacy_totals(m, n, epsilon)
    if account["epsilon"] is None:
        with pytest.raises(rb.ArgumentError, match="too narrow for any claim"):
            mechanism.signatures(m, n)
    else:
        interval = mechanism.signatures(m, n)
        assert (interval.low, interval.high) == (account["low"], account["high"])
        assert account["epsilon"] == epsilon_at(mechanism.event(m, n), mechanism.delta)
        assert account["epsilon"] >= account["plain_epsilon"] * (1 - 1e-6)  # no larger without the band (F7)


def test_where_every_rado_gives_the_value_away_no_epsilon_is_left():
    for m, n, epsilon in ((316, 158, 0.05), (90, 45, 0.05), (3759, 1000, 0.01)):
        account = feature_privacy_totals(m, n, epsilon)
        assert account["epsilon"] is None and account["delta"] == 1.0 and account["floor"] > 1 - 1e-6
    empty = feature_privacy_totals(90, 45, 0.01)
    assert empty["low"] is None and empty["epsilon"] is None and empty["plain_epsilon"] > 0


def test_rados_keep_to_the_band_and_sum_the_examples_they_say(rng):
    m, n = 70, 200
    column = rng.choice([-1.0, 1.0], size=m)
    edges = np.column_stack([column, np.eye(m)])  # the other columns of a rado say which examples it has
    interval = band(m, 0.6)
    rados = band_rados(edges, 0, interval, n, bytes(range(32)))
    members = rados[:, 1:]
    assert set(np.unique(members)) == {0.0, 1.0}
    assert (members @ column == rados[:, 0]).all()
    outside = (column > 0).sum() - rados[:, 0]
    assert interval[0] <= outside.min() and outside.max() <= interval[1]
    assert len(np.unique(outside)) == interval[1] - interval[0] + 1  # a missing end has probability below 1e-6
    wide = band_rados(edges, 0, (0, m), n, bytes(range(32)))
    assert ((wide[:, 1:] == members).all(axis=1) == ((column > 0).sum() - wide[:, 0] == outside)).all()


def test_rados_are_those_that_crafting_gives(rng):
    m, n = 150, 40
    x, labels = rng.normal(size=(m, 2)), rng.choice([-1, 1], size=m)
    x[:, 1] = rng.choice([-1.0, 1.0], size=m)
    release = rb.craft(x, labels, n_rados=n, seed=5, mechanism=FeatureBand("x1", 3.0, intercept=False))
    edges = x * labels[:, None]
    rados = band_rados(edges, 1, band(m, 3.0), n, make_key(5))
    assert (rados[:, 1] == release.rados[:, 1]).all()


def test_the_protected_feature_is_the_one_with_the_most_even_edges():
    x = np.array([[1.0, 7, 1], [0, 7, 2], [0, 7, 3], [0, 9, 4]])
    signs = np.array([1.0, -1, -1, -1])
    columns, place, name = protect_feature(Domain("fertility", x, signs, ("a", "b", "c")))
    assert (place, name) == (1, "b")  # two of its four edges are +1; of a all are
    assert columns[:, 1].tolist() == [-1, -1, -1, 1]
    assert columns[:, 2].mean() == pytest.approx(0) and columns[:, 2].std() == pytest.approx(1)
    with pytest.raises(rb.ArgumentError, match="leave the domain out"):
        protect_feature(Domain("fertility", x[:, 2:], signs, ("c",)))


def test_the_domains_are_those_with_a_binary_feature(domains):
    expected = {"fertility": "accident_or_trauma", "ionosphere": "a01", "abalone": "sex_m"}
    assert set(feature_privacy_module.DOMAINS) == set(expected)
    for name in find_domains(domains):
        domain = load_domain(name, str(domains))
        if name in expected:
            columns, place, feature = protect_feature(domain)
            assert feature == expected[name]
            assert columns.shape[1] == domain.x.shape[1] + 2 * (name == "abalone")
            assert set(np.unique(columns[:, place])) == {-1.0, 1.0}
        else:
            assert all(len(np.unique(column)) > 2 for column in domain.x.T)


# ---- noise


def _recorded(monkeypatch, options, folds):
    """What `work` boosts over and tests on, in these folds of the first copy: one list each per fold."""
    boosted, tested = [], []
    true_boost, true_test = gaussian_noise_figures.boost, gaussian_noise_figures.protocol.share_of_test_errors

    def boost(rows, **options):
        boosted[-1].append(np.array(rows))
        return true_boost(rows, **options)

    def share_wrong(theta, edges, generator):
        tested[-1].append(np.array(edges))
        return true_test(theta, edges, generator)

    monkeypatch.setattr(gaussian_noise_figures, "boost", boost)
    monkeypatch.setattr(gaussian_noise_figures.protocol, "share_of_test_errors", share_wrong)
    for fold in folds:
        boosted.append([])
        tested.append([])
        gaussian_noise_figures.work(Task.of("gaussian", domain="banknote", copy=0, fold=fold), options)
    return boosted, tested


def test_noise_has_the_stated_size_on_examples_and_on_rados(small, monkeypatch):
    noise_stds = gaussian_noise_figures.noisy_copies_plan(small).noise_stds
    (boosted,), _ = _recorded(monkeypatch, small, [0])
    by_noise = np.array_split(np.arange(len(boosted)), len(noise_stds))
    kinds = [kind for _ in gaussian_noise_figures.ORACLES for kind in KINDS]
    m = len(boosted[0])
    supports = {EXAMPLES: 1, RANDOM: m / 2} | {
        gaussian_noise_figures.support_curve_name(support): int(support * m) for support in SUPPORTS
    }
    for place, kind in enumerate(kinds):
        clean, *noisy = (boosted[rows[place]] for rows in by_noise)
        units = [(rows - clean) / noise_std for rows, noise_std in zip(noisy, noise_stds[1:], strict=True)]
        np.testing.assert_allclose(units[0], units[1], rtol=1e-9, atol=1e-9)
        # Rados share their examples, so 3 columns of them say little about a standard deviation.
        tolerance = 0.25 if kind == EXAMPLES else 0.9
        assert np.sqrt(np.square(units[0]).mean()) == pytest.approx(math.sqrt(supports[kind]), rel=tolerance)


def test_folds_of_a_copy_share_noise_and_leave_out_every_example_once(small, monkeypatch):
    chosen = gaussian_noise_figures.noisy_copies_plan(small)
    _, tested = _recorded(monkeypatch, small, range(chosen.folds))
    domain = load_domain("banknote", small.data)
    edges = gaussian_noise_figures.protocol.standardise(domain.x) * domain.signs[:, None]

    def in_order(rows):
        return rows[np.lexsort(rows.T)]

    clean = np.concatenate([fold[0] for fold in tested])
    np.testing.assert_array_equal(in_order(clean), in_order(edges))
    noise = np.concatenate([fold[-1] for fold in tested]) - clean
    assert np.sqrt(np.square(noise).mean()) == pytest.approx(chosen.noise_stds[-1], rel=0.25)


@pytest.mark.parametrize(("noise_std", "clip"), [(1.0, 5.0), (10.0, 5.0), (0.1, 240.0)])
def test_the_epsilon_of_noise_is_that_of_a_replaced_edge_vector(noise_std, clip):
    epsilon, distance = gaussian_noise_figures.epsilon_of_noise(noise_std, clip), 2 * clip / noise_std
    first = norm.logcdf(distance / 2 - epsilon / distance)
    second = epsilon + norm.logcdf(-distance / 2 - epsilon / distance)
    assert math.exp(first) - math.exp(second) == pytest.approx(gaussian_noise_figures.DELTA, rel=1e-3)


# ---- cells


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_cell_is_a_function_of_itself_and_the_seed(experiment, small):
    cells = experiment.cells(small)
    assert len(set(cells)) == len(cells)
    assert {cell["domain"] for cell in cells} <= set(small.domains)
    first, last = cells[0], cells[-1]
    once = experiment.work(first, small)
    experiment.work(last, small)
    assert json.loads(json.dumps(experiment.work(first, small))) == json.loads(json.dumps(once)) == once
    other = Options(small.data, small.domains, seed=1, quick=True)
    assert experiment.work(first, other) != once


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_quick_run_is_smaller_and_judges_no_error(experiment, small, tmp_path):
    full = Options(small.data, small.domains)
    assert 5 * len(experiment.cells(small)) < len(experiment.cells(full))
    outcomes = run_cells(experiment.cells(small), experiment.work, small, tmp_path / "cells")
    findings = experiment.findings(outcomes, small)
    assert findings.name == experiment.NAME and findings.tables and findings.figures and findings.notes
    judged = [check for check in findings.checks if "too few to judge" in check.why]
    assert len(judged) >= 2 and all(check.seen is None for check in judged)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_without_domains_there_is_a_note_and_nothing_else(experiment):
    options = Options("", ("hardware",))
    assert experiment.cells(options) == []
    findings = experiment.findings({}, options)
    assert len(findings.notes) == 1 and not findings.tables and not findings.checks


# ---- checks can come out both ways


NOISES = gaussian_noise_figures.noisy_copies_plan(Options("", ())).noise_stds


def _noisy_outcomes(names, error, options):
    """Outcomes with the fraction wrong that `error` gives for a learner and a noise; copies differ a little."""
    outcomes = {}
    for name in names:
        for cell in gaussian_noise_figures.cells(Options("", (name,), quick=options.quick)):
            wobble = 0.0002 * ((cell["copy"] * 7) % 10)
            errors = {key: [error(name, key, noise_std) + wobble for noise_std in NOISES] for key in LEARNERS}
            wobbled = {key: [value + 0.0001 * (cell["copy"] % 3) for value in errors[key]] for key in errors}
            mixed = {key: wobbled[key] if "0.5" in key or "examples" in key else errors[key] for key in errors}
            outcomes[cell] = {"clean": mixed, "noisy": mixed, "clip": 10.0}
    return outcomes


def _seen(names, error):
    options = Options("", tuple(names))
    findings = gaussian_noise_figures.findings(_noisy_outcomes(names, error, options), options)
    return [check.seen for check in findings.checks]


def test_gaussian_checks_see_what_is_there():
    def error(name, key, noise_std):
        if key == curve_key(EXAMPLES, "strong"):
            return 0.05 + 0.15 * (noise_std >= 1)
        fixed = key.startswith("s/m = 0.5")
        return 0.20 - 0.05 * fixed - 0.02 * (fixed and "median" in key)

    assert _seen(["banknote", "magic"], error) == [True, True, True, True]


def test_gaussian_checks_do_not_see_what_is_not_there():
    def error(name, key, noise_std):
        if EXAMPLES in key:
            return 0.05
        return 0.20 + 0.05 * ("s/m" in key) + 0.05 * ("median" in key)

    assert _seen(["banknote", "magic"], error) == [False, False, False, False]


EPSILONS = feature_privacy_module.feature_privacy_plan(Options("", ())).epsilons


def _band_findings(error, delta=None, names=("fertility", "ionosphere", "abalone")):
    options = Options("", names)
    outcomes = {}
    for cell in feature_privacy.cells(options):
        if cell.get("epsilon") is not None:
            account = feature_privacy_totals(60, 5, cell["epsilon"]) | {"feature": "a"}
            outcomes[cell] = account | ({} if delta is None else {"delta": delta})
        else:
            errors = [error(cell["domain"], epsilon) for epsilon in EPSILONS]
            outcomes[cell] = {"band": errors, "share": errors, "plain": 0.2, "adaboost": 0.1}
    return feature_privacy.findings(outcomes, options)


def test_feature_checks_can_come_out_both_ways():
    near = _band_findings(lambda name, epsilon: 0.11 if epsilon >= 0.1 else None, delta=1e-30)
    assert [check.seen for check in near.checks] == [True, True, True]
    far = _band_findings(lambda name, epsilon: 0.15 if epsilon > 1 else 0.4)
    assert [check.seen for check in far.checks] == [False, False, False]
    one = _band_findings(lambda name, epsilon: 0.2 if name == "abalone" or epsilon > 1 else 0.4)
    assert one.checks[0].seen is True  # the paper says "can": one domain is enough
    assert "Abalone, a from 0.01 on" in one.checks[0].why and "Fertility, a from 2 on" in one.checks[0].why
