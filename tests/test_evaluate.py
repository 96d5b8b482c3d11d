"""The paper's protocol against plain loops and SciPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from radoboost.errors import ArgumentError
from radoboost.lab.paper import protocol as evaluate
from radoboost.learner.boost import Rounds, boost


@given(st.lists(st.sampled_from([-1, 1]), min_size=2, max_size=80), st.integers(2, 6), st.integers(0, 9))
def test_folds_are_disjoint_cover_all_rows_and_are_stratified(signs, n_folds, seed):
    signs = np.array(signs)
    if min((signs == -1).sum(), (signs == 1).sum()) < n_folds:
        with pytest.raises(ArgumentError, match="need two classes"):
            evaluate.stratified_folds(signs, n_folds, np.random.default_rng(seed))
        return
    folds = evaluate.stratified_folds(signs, n_folds, np.random.default_rng(seed))
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(len(signs)))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(len(signs)))
    for sign in (-1, 1):
        counts = [int((signs[test] == sign).sum()) for _, test in folds]
        assert max(counts) - min(counts) <= 1
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 1


def test_folds_follow_the_generator(rng):
    signs = np.tile([-1, 1], 50)
    one, again, other = (evaluate.stratified_folds(signs, 10, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))


def plain_best(rounds, edges, d):
    """The iterate with the fewest errors, by trying all; the last of equals."""
    best, fewest = np.zeros(d), math.inf
    for t in range(1, len(rounds) + 1):
        theta = rounds.theta(d, t)
        margins = [sum(e * w for e, w in zip(row, theta, strict=True)) for row in edges]
        errors = sum(1.0 if margin < 0 else 0.5 if margin == 0 else 0.0 for margin in margins)
        if errors <= fewest:
            best, fewest = theta, errors
    return best


@pytest.mark.parametrize("seed", range(2))
def test_the_iterate_kept_is_the_last_with_the_fewest_training_errors(seed):
    rng = np.random.default_rng(seed)
    edges = rng.integers(-3, 4, (40, 5)) + 0.3 * rng.normal(size=(40, 5))
    rounds = boost(edges, n_rounds=60, update="exponential").rounds
    np.testing.assert_array_equal(evaluate.best_iterate_on_examples(rounds, edges, 5), plain_best(rounds, edges, 5))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([-1.0, 0.5, 1.0])), max_size=12))
def test_margins_of_zero_and_ties(steps):
    """Small whole numbers, so that margins of exactly 0 and ties are common."""
    edges = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    feature, leverage = np.array([k for k, _ in steps], dtype=np.int64), np.array([a for _, a in steps])
    rounds = Rounds(feature, np.zeros(len(steps)), leverage, np.zeros(len(steps)))
    np.testing.assert_array_equal(evaluate.best_iterate_on_examples(rounds, edges, 2), plain_best(rounds, edges, 2))


def test_rows_beyond_one_block_count(rng):
    edges = rng.normal(0.1, 1, (2 * evaluate._ROWS_AT_A_TIME + 17, 3))
    rounds = boost(edges, n_rounds=30).rounds
    errors = [(edges @ rounds.theta(3, t) < 0).sum() for t in range(1, len(rounds) + 1)]
    last = len(errors) - 1 - int(np.argmin(errors[::-1]))
    np.testing.assert_array_equal(evaluate.best_iterate_on_examples(rounds, edges, 3), rounds.theta(3, last + 1))


def test_uniform_rados_are_sums_over_fair_coins(rng):
    m, n = 300, 2003
    taken = evaluate.uniform_rados(np.eye(m), n, rng)
    assert taken.shape == (n, m) and set(np.unique(taken)) == {0.0, 1.0}
    deviation = math.sqrt(n / 4)
    # 300 columns, each beyond 6.5 standard deviations with a probability of 8e-11: a false alarm in 4e7 runs.
    assert np.abs(taken.sum(axis=0) - n / 2).max() < 6.5 * deviation
    assert abs(taken.sum() - n * m / 2) < 6.5 * deviation * math.sqrt(m)
    wide = rng.normal(size=(evaluate._ROWS_AT_A_TIME + 5, 2))
    again = [evaluate.uniform_rados(wide, 9, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_rados_of_fixed_support(rng):
    taken = evaluate.fixed_support_rados(np.eye(50), 400, 20, rng)
    assert set(np.unique(taken)) == {0.0, 1.0} and (taken.sum(axis=1) == 20).all()
    assert np.abs(taken.sum(axis=0) - 160).max() < 6.5 * math.sqrt(400 * 0.4 * 0.6)
    with pytest.raises(ArgumentError, match="from 0 to the 50 rows"):
        evaluate.fixed_support_rados(np.eye(50), 1, 51, rng)


def test_standardised(rng):
    x = rng.normal(3, [1, 10, 1e6], (200, 3))
    x[:, 1] = 7
    z = evaluate.standardise(x)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=0), [1, 0, 1], atol=1e-12)


def test_numbers_of_rados():
    assert [evaluate.number_of_rados(m) for m in (90, 91, 1999, 2000, 10**6)] == [45, 45, 999, 1000, 1000]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=12))
def test_the_paired_t_test_is_scipys(pairs):
    a, b = np.array(pairs).T / 20
    p = evaluate.paired_t_test(a, b)
    if len(set(np.round(a - b, 9))) == 1:
        assert p == 1.0 or p < 1e-6
    else:
        assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_summaries_and_their_distance():
    ours = evaluate.summarise_fold_errors([0.10, 0.20, 0.30, 0.40])
    assert (ours.mean, ours.std, ours.n) == (25.0, pytest.approx(12.90994448735806), 4)
    theirs = evaluate.Summary(20.0, 5.0, 10)
    assert evaluate.errors_between(ours, theirs) == pytest.approx(5 / math.sqrt(ours.std**2 / 4 + 2.5))
    same = evaluate.Summary(1.0, 0.0, 10)
    assert evaluate.errors_between(same, same) == 0
    assert evaluate.errors_between(same, evaluate.Summary(2.0, 0.0, 10)) == math.inf


def test_a_score_of_zero_is_decided_by_a_coin():
    edges = np.zeros((4000, 1))
    error = evaluate.share_of_test_errors(np.ones(1), edges, np.random.default_rng(0))
    assert abs(error - 0.5) < 5 * 0.5 / math.sqrt(4000)
