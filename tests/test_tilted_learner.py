"""The learner of tilted rados: its steps by a formula of the test's own, and what it says against what is true."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import radoboost as rb
from radoboost.learner import tilted_newton
from radoboost.learner.rado_moments import learn_rados
from radoboost.release.release import RADOS
from radoboost.release.tilted import batches_of
from radoboost.report.coefficients import coefficient_findings
from radoboost.report.describe import describe_model


def logistic(seed, m, theta):
    """Standard normal columns, and labels whose log odds are linear."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, len(theta)))
    return x, (rng.random(m) < 1 / (1 + np.exp(-x @ theta))).astype(int)


def crafted(x, y, n_rados=400, batches=2, **options):
    return rb.craft(x, y, n_rados=n_rados, seed=1, signatures=rb.Tilted(batches, rb.next_theta), i_know=True, **options)


def parts(release):
    """The first batch and the last step."""
    start, steps = tilted_newton._steps(release)
    return start, steps[-1]


# ---- steps


def whole_step(release, ridge, share, weight, pull=1.0):
    """A Newton step without a constant column: (P + ridge)^-1 (mean - ridge theta), of standardised columns."""
    m, d = release.n_examples, len(release.columns)
    first, last = batches_of(release)
    second = np.cov(first.rados.T) * 4 / m
    fit = learn_rados(release)
    if fit.covariance == "known":
        second = second / np.sqrt(np.outer(np.diag(second), np.diag(second)))
    shrunk = (1 - fit.identity_weight) * second + fit.identity_weight * np.trace(second) / d * np.eye(d)
    hessian = np.cov(last.rados.T) / m
    mixed = (1 - share) * hessian + share * np.trace(hessian) / np.trace(shrunk) * shrunk
    metric = (1 - weight) * mixed + (weight + 1e-10) * np.trace(mixed) / d * np.eye(d) + ridge * np.eye(d)
    step = np.linalg.solve(metric, last.rados.mean(axis=0) / m - pull * ridge * last.theta)
    return step, second, last.theta


def test_a_step_is_newtons_with_the_pull_of_its_ridge():
    release = crafted(*logistic(3, 150, np.array([1.0, -0.5] + [0.1] * 8)), intercept=False)
    _, last = parts(release)
    assert last.ridge == learn_rados(release).ridge / 4 > 0.005
    step, second, theta = whole_step(release, last.ridge, last.share, last.weight)
    assert step @ second @ step < tilted_newton.REACH**2  # so that the whole step is taken
    np.testing.assert_allclose(last.theta, theta + step, rtol=1e-8)
    other, *_ = whole_step(release, last.ridge, last.share, last.weight, pull=0.0)
    assert np.abs(other - step).max() > 0.1 * np.abs(step).max()


def test_a_step_that_would_go_far_ends_at_its_reach():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    x[:, 0] += np.sign(x[:, 0])
    release = crafted(x, (x[:, 0] > 0).astype(int), intercept=False)
    _, last = parts(release)
    step, second, theta = whole_step(release, last.ridge, last.share, last.weight)
    far = math.sqrt(step @ second @ step)
    assert far > 1.1 * tilted_newton.REACH
    np.testing.assert_allclose(last.theta, theta + step * (tilted_newton.REACH / far), rtol=1e-8)


def test_a_constant_column_is_eliminated_and_has_no_ridge():
    rng = np.random.default_rng(4)
    half = rng.normal(size=(5, 5))
    matrix, slope = half @ half.T + np.eye(5), rng.normal(size=5)
    metric = tilted_newton._Metric.of(matrix, True)
    ridge = np.diag([0.3] * 4 + [0.0])
    np.testing.assert_allclose(
        metric.solve(slope, 0.0, 0.3), np.linalg.solve(matrix + ridge, slope), rtol=1e-7, atol=1e-9
    )


# ---- what it says of itself


@pytest.mark.slow
def test_standard_errors_are_the_deviations_over_other_tables():
    """Ratios of five columns over 60 tables: their mean has a deviation of 4 %, and the bounds are 5 of these away."""
    theta = np.array([0.8, -0.5, 0.3, 0.0, 0.0])
    fits = [
        tilted_newton.learn_tilted(rb.craft(*logistic(seed, 600, theta), n_rados=400, seed=seed, signatures=TWO))
        for seed in range(60)
    ]
    spread = np.std([fit.theta for fit in fits], axis=0, ddof=1)[:-1]
    told = np.sqrt(np.mean([fit.standard_errors**2 for fit in fits], axis=0))[:-1]
    assert 0.8 < (told / spread).mean() < 1.25


TWO = rb.Tilted(2, rb.next_theta)


def test_labels_by_chance_are_not_promised_to_be_learned():
    """Of 20 columns of noise and 200 rows, scores fit their own rows; new ones they do not."""
    told = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        release = crafted(rng.normal(size=(200, 20)), rng.integers(0, 2, 200), n_rados=600)
        told.append(tilted_newton.learn_tilted(release).expected_error)
    assert np.mean(told) > 0.44


def test_the_error_to_expect_is_less_what_scores_fit_by_chance():
    release = crafted(*logistic(3, 150, np.array([1.0, -0.5] + [0.1] * 8)), intercept=False)
    start, last = parts(release)
    fit = tilted_newton.learn_tilted(release)
    first, _ = batches_of(release)
    *_, second, _ = whole_step(release, last.ridge, last.share, last.weight)
    signal = last.theta @ first.rados.mean(axis=0) * 2 / 150 - fit.freedom / 150
    square = start.luck**last.share * (last.theta @ second @ last.theta)
    assert fit.expected_error == pytest.approx(ndtr(-signal / math.sqrt(square - signal**2)), rel=1e-6)


@pytest.mark.parametrize("case", ["twins", "alike"])
@pytest.mark.parametrize("batches", [2, 3])
def test_columns_that_say_the_same_make_no_error_of_zero(case, batches):
    told, true = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=4400)
        x = z[:, None] + 0.05 * rng.normal(size=(4400, 8)) if case == "alike" else rng.normal(size=(4400, 4))
        if case == "twins":
            x[:, 0] = x[:, 1] = z
        y = (z + rng.normal(size=4400) > 0).astype(int)
        clf = rb.MomentsClassifier().fit_rados(crafted(x[:400], y[:400], 1000, batches))
        told.append(clf.expected_error_)
        true.append(np.mean(clf.predict(x[400:]) != y[400:]))
    assert min(told) > 0.1 and abs(np.mean(told) - np.mean(true)) < 0.05


def test_the_interval_of_the_error_goes_by_the_batch_that_tells_r2():
    from types import SimpleNamespace

    from radoboost.report.coefficients import expected_error_interval

    told = {"expected_error": 0.1, "r2": 0.6, "n_rados": 1000}
    first = expected_error_interval(SimpleNamespace(learner={**told, "n_rados": 500}))
    assert expected_error_interval(SimpleNamespace(learner={**told, "batches": [500, 500]})) == first


def test_what_is_said_of_a_tilted_model_is_about_it_or_about_the_first_batch_by_name(rng):
    x = rng.normal(size=(400, 3))
    y = np.where(x[:, 0] + rng.normal(size=400) > 0, 1, -1)
    release = rb.craft(x, y, n_rados=200, seed=1, signatures=rb.Tilted(2, rb.next_theta))
    model = rb.MomentsClassifier().fit_rados(release).model_
    rows = dict(coefficient_findings(model, release).tables[0].rows)
    assert "a Newton step for the logistic loss by each tilted batch" in rows["learner"]
    assert "R2 of this model" not in rows and "by rados held out" in rows["R2 of least squares on the first batch"]
    assert "covariance" not in rows and "covariance of the first batch" in rows
    assert "a quarter of the one under which the rados of the first batch are most likely" in rows["ridge"]
    first = rb.MomentsClassifier().fit_rados(
        replace(release, signatures={"name": "all"}, blocks={RADOS: release.rados})
    )
    assert (
        model.learner["r2"] == first.model_.learner["r2"]
        and model.learner["ridge"] == first.model_.learner["ridge"] / 4
    )
    assert "R2 of the first batch" in " ".join(describe_model(model).split())
    plain = dict(coefficient_findings(first.model_).tables[0].rows)
    assert "Newton" not in plain["learner"] and "R2 of this model" in plain
