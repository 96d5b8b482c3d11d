"""Exact statistics, steps and bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles
import radoboost as rb
from radoboost.errors import ArgumentError, TableError
from radoboost.holder.declared_bounds import check_declared_bounds
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.grid import grid_step, make_grid_columns, resolve_scale_name
from radoboost.tables.schema import Schema
from schema_files import write_schema

finite = st.floats(allow_nan=False, allow_infinity=False)


def survey(engine, x, low=-np.inf, high=np.inf, pieces=1):
    d = x.shape[1]
    worker = get_engine(engine).survey(np.full(d, float(low)), np.full(d, float(high)), moments=True)
    for part in np.array_split(x, pieces):
        assert worker.add(np.ascontiguousarray(part))
    return worker.result()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=80)
@given(st.lists(finite, min_size=1, max_size=60), st.integers(1, 5))
@example([5e-324, -5e-324, 1.7e308, 2.2250738585072014e-308], 2)
@example([1e300, 1e-300, 1.0, 0.1], 1)
@example([2.0**-1000, 2.0**1000, 2.0**-1040 * 3], 1)
def test_sums_are_exact(engine, values, pieces):
    seen = survey(engine, np.array(values)[:, None], pieces=pieces)
    assert Fraction(seen.sums[0], 2**1074) == sum(map(Fraction, values))
    assert Fraction(seen.squares[0], 2**2148) == sum(Fraction(v) ** 2 for v in values)
    assert (seen.n_rows, seen.lowest[0], seen.highest[0]) == (len(values), min(values), max(values))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "heavy", "sorted", "integers"])
def test_engines_agree_on_many_rows(dtype, kind, rng):
    """More rows than the kernel keeps before it folds, growing exponents, values with bits left over."""
    m = 150_000
    x = {
        "normal": lambda: rng.standard_normal((m, 3)),
        "heavy": lambda: np.exp(6 * rng.standard_normal((m, 3))),
        "sorted": lambda: np.sort(rng.lognormal(0, 4, (m, 3)), axis=0),
        "integers": lambda: rng.integers(-9, 9, (m, 3)).astype(float),
    }[kind]().astype(dtype)
    a, b = survey("kernel", x, low=-2, high=1e4, pieces=7), survey("reference", x, low=-2, high=1e4)
    assert (a.sums, a.squares) == (b.sums, b.squares)
    assert (a.lowest.tolist(), a.highest.tolist()) == (b.lowest.tolist(), b.highest.tolist())


@settings(max_examples=80)
@given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=30))
def test_mean_and_std_are_nearest(values):
    mean, std = survey("kernel", np.array(values)[:, None]).mean_and_std(0, "x")
    expected = oracles.exact_statistics(values)
    assert (mean, std) == (expected[0], expected[2])


@given(st.floats(2.0**-900, 2.0**900))
@example(1.0)
@example(float(np.nextafter(1.0, 2.0)))
@example(float(np.nextafter(1.0, 0.0)))
def test_step(bound):
    assert grid_step(bound, "x") == oracles.grid_step(bound)


def test_a_bound_beyond_the_range_is_refused():
    for bound in (2.0**901, 2.0**-901, float("inf"), float("nan")):
        with pytest.raises(TableError, match=r"'dose'.*rescale"):
            grid_step(bound, "dose")


def test_a_spread_beyond_float64_is_refused():
    with pytest.raises(TableError, match="'x0' spreads too far"):
        rb.craft([[1e300], [-1e300], [0.0]], [0, 1, 1], n_rados=3)


@pytest.mark.parametrize("engine", ENGINES)
def test_clipped_values_are_counted_for_the_holder_and_not_released(engine):
    x, y = np.array([[5.0, 1.0], [-9.0, 2.0], [1.0, 3.0], [7.0, 0.0]]), [0, 1, 0, 1]
    with pytest.warns(rb.ClippedWarning, match=r"clipped: 'x0' 3$"):
        release = rb.craft(
            x, y, n_rados=4, seed=0, schema={"x0": (-1, 4)}, compute=rb.Compute(engine=engine, threads=2)
        )
    assert "clipped" not in str({**release.to_dict(), "statement": None})
    column = release.columns[0]
    assert (column.low, column.high) == (-1.0, 4.0)


@pytest.mark.parametrize(
    ("bounds", "scale", "message"),
    [
        ({"weight": (0, 1)}, "standard", "'weight', not among the features"),
        ({"age": (0, 1)}, "bounds", "there are none of 'dose'"),
        ({"age": (2, 1)}, "standard", "low <= high"),
        ({"age": (0, np.inf)}, "standard", "finite"),
        ({"age": (-1.7e308, 1.7e308)}, "standard", "finite"),
        ({"age": (1, 1), "dose": (0, 1)}, "bounds", "needs low < high"),
        ({"age": (1, 2, 3)}, "standard", "two numbers"),
        ({"age": "ab"}, "standard", "two numbers"),
        ({"age": 3}, "standard", "two numbers"),
        (np.zeros((3, 2)), "standard", r"shape \(2, 2\)"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(bounds, scale, message):
    with pytest.raises(ArgumentError, match=message):
        check_declared_bounds(Schema.of(bounds).limits(), ["age", "dose"], scale)


def test_bounds_from_a_file(tmp_path):
    place = write_schema(tmp_path / "schema.json", {"x0": (0, 10)})
    release = rb.craft([[1.0], [2.0], [3.0]], [0, 1, 1], n_rados=2, schema=place, mechanism=rb.Plain(scale="bounds"))
    assert (release.columns[0].low, release.columns[0].high) == (0.0, 10.0)
    no_schema = "is not a schema file.*make one: rado schema"
    wrong = (("{", "not JSON"), ("[1]", no_schema), ('{"x0": [0, 10]}', no_schema))
    for text, message in (*wrong, ('{"radoboost_schema": 2}', "unknown version")):
        place.write_text(text)
        with pytest.raises(ArgumentError, match=message):
            rb.craft([[1.0], [2.0]], [0, 1], schema=place)
    with pytest.raises(ArgumentError, match="cannot read the schema"):
        rb.craft([[1.0], [2.0]], [0, 1], schema=tmp_path / "none.json")


def test_scales():
    assert [resolve_scale_name(s, "standard", True) for s in ("auto", None, "bounds")] == ["standard", "none", "bounds"]
    with pytest.raises(ArgumentError, match="scale must be"):
        resolve_scale_name("minmax", "standard", False)
    with pytest.raises(ArgumentError, match="needs bounds"):
        resolve_scale_name("bounds", "standard", False)


def test_the_constant_feature_is_last_and_one():
    seen = survey("kernel", np.array([[1.0], [3.0]]))
    last = make_grid_columns(["a"], "standard", {}, seen, intercept=True)[-1]
    assert (last.name, last.scale, last.step) == ("(constant)", "constant", 2.0**-22)
    assert last.apply(np.array([7.0, 8.0])).tolist() == [1.0, 1.0]
