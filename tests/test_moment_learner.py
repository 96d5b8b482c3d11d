"""The learner from two moments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf

import radoboost as rb
from radoboost.errors import ArgumentError
from radoboost.learner.moments import learn_moments


def test_it_is_the_formula(rng):
    rados = rng.standard_normal((300, 6)) * [1, 2, 3, 4, 5, 60] + [3, 0, 1, 0, 2, 9]
    spread = rados.std(axis=0)
    covariance, shrinkage = ledoit_wolf((rados - rados.mean(axis=0)) / spread, assume_centered=True)
    expected = np.linalg.solve(covariance, rados.mean(axis=0) / spread) / spread
    fit = learn_moments(rados)
    assert np.allclose(fit.theta, expected, rtol=1e-9) and fit.shrinkage == pytest.approx(shrinkage)


@settings(max_examples=60)
@given(st.integers(2, 60), st.integers(1, 12), st.integers(0, 2**32))
def test_units_of_columns_do_not_matter(n, d, seed):
    rng = np.random.default_rng(seed)
    rados, units = rng.normal(1, 1, (n, d)), 10.0 ** rng.integers(-6, 7, d)
    plain, scaled = learn_moments(rados).theta, learn_moments(rados * units).theta
    assert np.isfinite(plain).all()
    assert np.allclose(scaled * units, plain, rtol=1e-6, atol=1e-9 * np.abs(plain).max())


def test_many_rados_give_twice_least_squares(rng):
    """covariance^-1 mean is 2 S^-1 sum e_i, since the mean is half the sum and the covariance a quarter of S."""
    x = rng.standard_normal((400, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]])
    y = np.where(x @ [1, -1, 0.5] + rng.standard_normal(400) > 0, 1, -1)
    release = rb.craft(x, y, n_rados=200_000, scale=None, intercept=False, seed=3)
    theta = learn_moments(release.rados).theta
    expected = 2 * np.linalg.solve(x.T @ x, x.T @ y)
    # 2 / sqrt(n) in relative terms for the second moment, times 6 for a false alarm far below 1e-6
    assert np.abs(theta - expected).max() < 12 / np.sqrt(200_000) * np.abs(expected).max() * 3


def test_columns_that_do_not_vary_get_nothing(rng):
    rados = np.column_stack([rng.standard_normal(50) + 2, np.zeros(50), np.full(50, 3.0)])
    theta = learn_moments(rados).theta
    assert theta[0] > 0 and theta[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("rados", "message"),
    [
        (np.ones((1, 3)), "at least two rados"),
        (np.zeros((5, 3)), "no column of the rados varies"),
        (np.full((5, 3), np.nan), "finite"),
        (np.zeros(3), "matrix"),
    ],
)
def test_what_cannot_be_learned_from(rados, message):
    with pytest.raises(ArgumentError, match=message):
        learn_moments(rados)


def test_fewer_rados_than_features(rng):
    assert np.isfinite(learn_moments(rng.standard_normal((5, 40)) + 1).theta).all()
    assert np.isfinite(learn_moments(np.array([[1.0, 2.0], [3.0, 2.5]])).theta).all()
    assert np.isfinite(learn_moments(np.array([[1e300], [-1e300], [3e299]])).theta).all()
