"""The identities of docs/proofs/losses.md over all 2**m rados, and boosting with a penalty against plain loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

import oracles
from radoboost.errors import ArgumentError
from radoboost.learner.boost import boost
from radoboost.learner.penalised_boost import PENALTIES, Penalty, boost_penalised, penalty_on_rados
from radoboost.learner.risks import log_rado_risk, logistic_rado_risk, logistic_risk
from test_boost import matrices


def square_risk(edges, theta):
    return np.square(1 - edges @ theta).mean()


def square_rado_risk(rados, theta, m):
    margins = rados @ theta
    return 1 + 4 * (margins.var() - margins.mean()) / m


def unhinged_risk(edges, theta):
    return (1 - edges @ theta).mean()


def unhinged_rado_risk(rados, theta, m):
    return 1 - 2 * (rados @ theta).mean() / m


PAIRS = {  # over examples, over rados, and by how much a penalty on the rados' side is larger for m examples
    "logistic": (logistic_risk, logistic_rado_risk, lambda m: m),
    "square": (square_risk, square_rado_risk, lambda m: m / 4),
    "unhinged": (unhinged_risk, unhinged_rado_risk, lambda m: m / 2),
}


@st.composite
def tables(draw):
    """Edge vectors of up to 8 examples, all of their rados, and a theta."""
    m, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    numbers = st.floats(-4, 4, allow_nan=False, width=32)
    edges = np.array(draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=m, max_size=m)))
    theta = np.array(draw(st.lists(numbers, min_size=d, max_size=d)))
    return edges, np.array(list(itertools.product([0, 1], repeat=m))) @ edges, theta


@given(tables(), st.sampled_from(list(PAIRS)))
def test_a_risk_of_examples_is_a_risk_of_all_rados(table, name):
    """L1, L2 and L3."""
    edges, rados, theta = table
    over_examples, over_rados, _ = PAIRS[name]
    assert over_rados(rados, theta, len(edges)) == pytest.approx(over_examples(edges, theta), rel=1e-9, abs=1e-9)


@given(tables(), st.sampled_from(list(PAIRS)), st.sampled_from(PENALTIES), st.floats(0, 3))
def test_a_penalty_on_rados_is_a_penalty_on_examples(table, name, penalty, weight):
    """L4 and L5: with rados that are regularised one by one."""
    edges, rados, theta = table
    assume(np.abs(theta).max() > 1e-3)
    over_examples, over_rados, share = PAIRS[name]
    amount = penalty_on_rados(rados, penalty, weight)(theta)
    regularised = rados - amount * theta / (theta @ theta)
    assert np.allclose(regularised @ theta, rados @ theta - amount, rtol=1e-9, atol=1e-9)
    expected = over_examples(edges, theta) + amount / share(len(edges))
    assert over_rados(regularised, theta, len(edges)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(tables())
def test_what_margins_tell_of_scores(table):
    """L8: the squared ratio is m times R2. L9: the covariance is a quarter of the sum of squared scores."""
    edges, rados, theta = table
    scores, margins = edges @ theta, rados @ theta
    assert margins.var() == pytest.approx(np.square(scores).sum() / 4, rel=1e-9, abs=1e-9)
    assume(np.abs(scores).max() > 1e-3)
    t = scores.sum() / np.square(scores).sum()  # the best multiple of theta
    explained = 1 - np.square(1 - t * scores).mean()
    assert margins.mean() ** 2 / margins.var() == pytest.approx(len(edges) * explained, rel=1e-6, abs=1e-6)


def test_identities_fail_for_some_of_the_rados(rng):
    """They could: half of the rados have other risks."""
    edges = rng.normal(size=(6, 3))
    rados = (np.array(list(itertools.product([0, 1], repeat=6))) @ edges)[:32]
    for over_examples, over_rados, _ in PAIRS.values():
        assert abs(over_rados(rados, [1.0, 1.0, 1.0], 6) - over_examples(edges, [1.0, 1.0, 1.0])) > 1e-3


def some_penalty(rows, name, weight, free=None):
    """A penalty in units in which 1 is neither nothing nor all."""
    unit = {"lasso": np.abs(rows.mean(axis=0)).max(), "ridge": rows.var(axis=0).mean() + 1e-9, "scores": 1.0}[name]
    return penalty_on_rados(rows, name, weight * unit, free)


def as_lists(penalty):
    bends = penalty.bends if penalty.bends.ndim == 2 else np.diag(penalty.bends)
    return penalty.slopes.tolist(), bends.tolist(), penalty.bends.ndim == 2


@given(matrices(9, 3), st.sampled_from(PENALTIES), st.sampled_from([0.01, 0.3, 2.0]), st.booleans())
def test_steps_are_those_of_plain_loops(rows, name, weight, last_free):
    """As long as no two columns are so close that rounding decides between them."""
    free = np.arange(rows.shape[1]) == rows.shape[1] - 1 if last_free else None
    penalty = some_penalty(rows, name, weight, free)
    rounds = oracles.regularised_boosting(rows.tolist(), *as_lists(penalty), 6)
    boosted = boost_penalised(rows, penalty, n_rounds=6)
    features = boosted.rounds.feature.tolist()
    agree = next((t for t, (k, _, _) in enumerate(rounds) if t >= len(features) or features[t] != k), len(rounds))
    assume(agree > 0 or not rounds)
    scale = max([abs(step) for _, step, _ in rounds], default=1.0)
    assert np.allclose(
        boosted.rounds.leverage[:agree],
        [step for _, step, _ in rounds[:agree]],
        rtol=1e-5,
        atol=max(1e-6 * scale, 2e-7),
    )
    assert np.allclose(boosted.rounds.log_risk[:agree], [risk for _, _, risk in rounds[:agree]], rtol=1e-6, atol=1e-8)


@given(matrices(), st.sampled_from(PENALTIES), st.sampled_from([0.0, 1e-3, 0.1, 1.0, 30.0]))
def test_the_risk_falls_every_round(rows, name, weight):
    """L7; and the record is the risk of the classifier."""
    penalty = some_penalty(rows, name, weight)
    rounds = boost_penalised(rows, penalty, n_rounds=60).rounds
    risk = np.concatenate([[0.0], rounds.log_risk])
    assert (np.diff(risk) <= 1e-12 * np.maximum(1, np.abs(risk[1:]))).all()
    for t in range(0, len(rounds), 7):
        theta = rounds.theta(rows.shape[1], t + 1)
        assert rounds.log_risk[t] == pytest.approx(log_rado_risk(rows, theta) + penalty(theta), rel=1e-8, abs=1e-8)


def test_without_a_penalty_it_is_adaboost_over_rados(rng):
    rows = rng.normal(0.4, 1, (60, 5))
    plain = boost(rows, n_rounds=80, update="exponential")
    for name in ("lasso", "ridge"):
        boosted = boost_penalised(rows, penalty_on_rados(rows, name, 0.0), n_rounds=80)
        assert boosted.rounds.feature.tolist() == plain.rounds.feature.tolist()
        np.testing.assert_allclose(boosted.theta, plain.theta, rtol=1e-9)
        np.testing.assert_allclose(boosted.rounds.edge, plain.rounds.edge, rtol=1e-9)


@pytest.mark.parametrize("name", PENALTIES)
def test_it_ends_at_the_minimum(name, rng):
    """By another method: L-BFGS on the parts of theta above and below 0."""
    rows = rng.normal([1.0, 0.6, 0.3, 0.1, 0.0], 1.0, size=(200, 5))
    penalty = some_penalty(rows, name, 0.2)
    d = rows.shape[1]

    def risk(halves):
        theta = halves[:d] - halves[d:]
        bends = penalty.bends if penalty.bends.ndim == 2 else np.diag(penalty.bends)
        quadratic = theta @ bends @ theta / 2
        return log_rado_risk(rows, theta) + penalty.slopes @ (halves[:d] + halves[d:]) + quadratic

    best = minimize(risk, np.full(2 * d, 0.01), bounds=[(0, None)] * (2 * d), options={"ftol": 1e-14, "gtol": 1e-9})
    boosted = boost_penalised(rows, penalty, n_rounds=3000)
    assert len(boosted.rounds) < 3000  # it stopped by itself
    assert boosted.rounds.log_risk[-1] <= best.fun + 1e-9
    np.testing.assert_allclose(boosted.theta, best.x[:d] - best.x[d:], atol=2e-4)


def test_a_lasso_leaves_columns_out_exactly(rng):
    """The more of it, the more columns; a record of the rounds has the same zeros."""
    rows = rng.normal([1.0, 0.9, 0.1, 0.0, 0.0, 0.0], 1.0, size=(300, 6))
    rows[:, 1] = rows[:, 0] + rng.normal(0, 0.1, 300) - 0.1
    sizes = []
    for weight in (0.5, 0.05, 0.005):
        boosted = boost_penalised(rows, some_penalty(rows, "lasso", weight), n_rounds=2000)
        sizes.append(int((boosted.theta != 0).sum()))
    assert sizes[0] < sizes[1] <= sizes[2] and (boosted.rounds.theta(6) == boosted.theta).all()
    assert len(boost_penalised(rows, some_penalty(rows, "lasso", 1.001)).rounds) == 0


def test_leverages_that_take_a_weight_back_add_up_to_zero(rng):
    """To 0, not nearly: columns that had a weight for some rounds, and have none at the end."""
    back = 0
    for _ in range(40):
        shared = rng.normal(0.5, 1, (80, 1))
        rows = shared + rng.normal(0, 0.3, (80, 4))
        boosted = boost_penalised(rows, some_penalty(rows, "lasso", 0.3), n_rounds=400)
        touched = np.unique(boosted.rounds.feature)
        back += int((boosted.theta[touched] == 0).sum())
        assert not ((boosted.theta != 0) & (np.abs(boosted.theta) < 1e-12)).any()
    assert back > 0


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize(
    "rows",
    [
        [[-7.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0], [1.0]], [[1.0], [-1.0]],
        [[1e100, 1e-100], [1e100, 2e-100]], [[5e-324], [5e-324]], [[1e12, 1.0], [2e12, 1.0], [0.0, 2.0]],
    ],
)  # fmt: skip
def test_it_is_always_finite(rows, name):
    for weight in (0.0, 1e-9, 1.0, 1e9):
        boosted = boost_penalised(rows, penalty_on_rados(rows, name, weight), n_rounds=50)
        assert np.isfinite(boosted.theta).all() and np.isfinite(boosted.rounds.log_risk).all()


@pytest.mark.parametrize("weight", [-1.0, math.nan, True])
def test_weights_are_checked(weight):
    with pytest.raises(ArgumentError, match="weight of a penalty"):
        penalty_on_rados(np.eye(2), "lasso", weight)


def test_penalties_are_checked():
    with pytest.raises(ArgumentError, match="penalty must be one of"):
        penalty_on_rados(np.eye(2), "slope", 1.0)
    with pytest.raises(ArgumentError, match="boosting needs"):
        boost_penalised(np.zeros((0, 2)), Penalty(np.zeros(2), np.zeros(2)))
    with pytest.raises(ArgumentError, match="beyond float64"):
        penalty_on_rados([[1e300], [-1e300]], "scores", 1.0)
