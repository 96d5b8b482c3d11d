"""Logarithm and cosine of feature maps: the bits of an oracle in plain Python, and close to the true values."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from radoboost.release import polynomials
from radoboost.release.polynomials import cos, log1p

ROOT = Path(__file__).parent.parent
ORACLES = {"log1p": oracles.log1p, "cos": oracles.cosine}


@pytest.fixture(scope="module")
def measuring():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("polynomials")


def same_bits(ours, theirs):
    np.testing.assert_array_equal(np.asarray(ours).view(np.int64), np.asarray(theirs).view(np.int64))


@pytest.mark.parametrize("name", ORACLES)
def test_the_bits_are_those_of_the_page(measuring, name):
    function, arguments, _ = measuring.FUNCTIONS[name]
    x = arguments(20_000, seed=1)
    assert len(x) >= 20_000
    same_bits(function(x), [ORACLES[name](value) for value in x.tolist()])


@given(st.floats(0.0), st.floats(-(2.0**21), 2.0**21))
def test_the_bits_are_those_of_the_page_anywhere(x, angle):
    same_bits(log1p(np.array([x])), [oracles.log1p(x)])
    same_bits(cos(np.array([angle])), [oracles.cosine(angle)])


@pytest.mark.parametrize("name", ORACLES)
def test_they_are_within_one_unit_of_the_true_value(measuring, name):
    assert measuring.measure(name, 20_000)["largest_error_in_units"] < 0.75


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_they_are_within_one_unit_of_the_true_value_on_a_million_arguments(measuring, name):
    result = measuring.measure(name, 1_000_000)
    assert result["arguments"] >= 1_000_000
    assert result["largest_error_in_units"] < 0.75


def test_a_wrong_last_part_of_pi_is_noticed(measuring, monkeypatch):
    """The check can fail: near multiples of pi / 2 the fourth part of pi / 2 is needed."""
    monkeypatch.setattr(polynomials, "HALF_PI", (*polynomials.HALF_PI[:3], 0.0))
    x = measuring.near_multiples(np.arange(1, 20_000))
    assert measuring.largest_error(x, cos(x), lambda angle: angle.cos())[0] > 1.0


def test_hardest_multiple(measuring):
    """The float64 below 2**20 that is closest to an odd multiple of pi / 2 still has a cosine of 53 right bits."""
    x = measuring.near_multiples(np.arange(1, measuring.N_MULTIPLES + 1, 2))
    hardest = x[np.argsort(np.abs(cos(x)))[:100]]
    error, _ = measuring.largest_error(hardest, cos(hardest), lambda angle: angle.cos())
    assert error < 0.75
    assert np.abs(cos(hardest)).min() > 2.0**-62


def test_what_is_not_a_number_stays_so_and_what_is_too_large_counts_as_the_limit():
    odd = np.array([np.nan, np.inf, 1.0])
    assert np.isnan(log1p(odd)[0]) and log1p(odd)[1] == np.inf
    ends = cos(np.array([np.nan, np.inf, -np.inf, 1e300, 2.0**20]))
    assert np.isnan(ends[0]) and len(set(ends[1:].tolist())) == 1
    signalling = np.array([0x7FF0000000000001], dtype=np.int64).view(np.float64)
    assert np.isnan(log1p(signalling)).all() and np.isnan(cos(signalling)).all()


def test_no_element_depends_on_another():
    rng = np.random.default_rng(0)
    x = np.abs(np.concatenate([rng.normal(size=300), [np.nan, np.inf, 0.0], rng.normal(size=300) * 1e5]))
    for function in (log1p, cos):
        whole = function(x)
        for start, stop in ((0, 1), (5, 12), (7, 300), (1, 603), (299, 304)):
            same_bits(function(x[start:stop]), whole[start:stop])
        same_bits(function(np.repeat(x, 3)[::3]), whole)


def test_constants_are_what_the_page_says():
    assert math.fsum(polynomials.HALF_PI) == math.pi / 2
    assert math.log(2) == polynomials.LN2_HIGH + polynomials.LN2_LOW
    page = (ROOT / "docs" / "exactness.md").read_text()
    for constant in (*polynomials.HALF_PI, polynomials.TWO_OVER_PI, polynomials.LN2_HIGH, polynomials.LN2_LOW):
        mantissa, exponent = constant.hex().split("p")
        assert f"{mantissa.rstrip('0')}p{exponent}" in page
