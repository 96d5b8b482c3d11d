"""Logarithm and polynomials of feature maps: the bits of an oracle in plain Python, and close to the true values."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from radoboost.release import exact_math
from radoboost.release.exact_math import exact_legendre, exact_log1p

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def measuring():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("polynomials")


def same_bits(ours, theirs):
    np.testing.assert_array_equal(np.asarray(ours).view(np.int64), np.asarray(theirs).view(np.int64))


def test_the_bits_are_those_of_the_page(measuring):
    x = measuring.log_arguments(20_000, seed=1)
    assert len(x) >= 20_000
    same_bits(exact_log1p(x), [oracles.log1p(value) for value in x.tolist()])


@given(st.floats(0.0), st.floats(-1.0, 1.0))
def test_the_bits_are_those_of_the_page_anywhere(x, v):
    same_bits(exact_log1p(np.array([x])), [oracles.log1p(x)])
    same_bits(
        np.concatenate(exact_legendre(np.array([v]), 9)), [oracles.legendre(v, degree) for degree in range(1, 10)]
    )


def test_logarithms_are_within_one_unit_of_the_true_value(measuring):
    assert measuring.measure(20_000)["largest_error_in_units"] < 0.75


@pytest.mark.slow
def test_logarithms_are_within_one_unit_of_the_true_value_on_a_million_arguments(measuring):
    result = measuring.measure(1_000_000)
    assert result["arguments"] >= 1_000_000
    assert result["largest_error_in_units"] < 0.75


def test_polynomials_are_those_of_legendre():
    v = np.linspace(-1, 1, 1001)
    for degree, row in enumerate(exact_legendre(v, 8), 1):
        true = np.polynomial.legendre.Legendre.basis(degree)(v)
        assert np.abs(row - true).max() < 1e-14 and np.abs(row).max() <= 1 + 1e-14


def test_what_is_not_a_number_stays_so():
    odd = np.array([np.nan, np.inf, 1.0])
    assert np.isnan(exact_log1p(odd)[0]) and exact_log1p(odd)[1] == np.inf
    assert all(np.isnan(row[0]) for row in exact_legendre(odd[:1], 8))
    signalling = np.array([0x7FF0000000000001], dtype=np.int64).view(np.float64)
    assert np.isnan(exact_log1p(signalling)).all()


def test_no_element_depends_on_another():
    rng = np.random.default_rng(0)
    x = np.abs(np.concatenate([rng.normal(size=300), [np.nan, np.inf, 0.0], rng.normal(size=300) * 1e5]))
    whole = exact_log1p(x)
    for start, stop in ((0, 1), (5, 12), (7, 300), (1, 603), (299, 304)):
        same_bits(exact_log1p(x[start:stop]), whole[start:stop])
    same_bits(exact_log1p(np.repeat(x, 3)[::3]), whole)


def test_constants_are_what_the_page_says():
    assert math.log(2) == exact_math.LN2_HIGH + exact_math.LN2_LOW
    page = (ROOT / "docs" / "exactness.md").read_text()
    for constant in (exact_math.LN2_HIGH, exact_math.LN2_LOW):
        mantissa, exponent = constant.hex().split("p")
        assert f"{mantissa.rstrip('0')}p{exponent}" in page
