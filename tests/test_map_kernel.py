"""Compiled feature maps have the bits of the NumPy code, whatever the blocks, and are loaded only where they pay."""

import itertools
import math
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.feature_maps import map_table, mapped_value_blocks
from radoboost.release import exact_math, feature_map_jit
from radoboost.release import feature_map as feature_maps
from radoboost.release.feature_map import FeatureMap, Input, Term
from radoboost.tables import open_table
from test_maps import maps, same_bits

special = st.sampled_from([0.0, -0.0, 1e300, -1e300, 1.7e308, 5e-324, math.inf, -math.inf, math.nan])
numbers = st.one_of(st.floats(-9, 9), st.floats(-1, 1), special)


def by_numpy(feature_map, values):
    return np.concatenate([block.T for block in feature_map._blocks(values, 64)] or [np.empty((0, 1))])


@settings(max_examples=80, deadline=None)
@given(maps(extreme=True), st.data(), st.integers(0, 2**32), st.sampled_from([1, 3, 64, 437]))
def test_the_bits_are_those_of_numpy(feature_map, data, seed, step):
    width = len(feature_map.input_names)
    values = np.random.default_rng(seed).normal(size=(300, width)) * 2
    some = data.draw(st.lists(st.tuples(*[numbers] * width), max_size=9))
    values[: len(some)] = np.array(some).reshape(-1, width)
    blocks = [block.T.copy() for block in feature_map_jit.compiled_map_blocks(feature_map, values, step)]
    assert [len(block) for block in blocks[:-1]] == [step] * (len(blocks) - 1)
    same_bits(np.concatenate(blocks), by_numpy(feature_map, values))
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    same_bits(next(feature_map_jit.compiled_map_blocks(feature_map, single, 300)).T, by_numpy(feature_map, single))


@given(st.lists(st.floats(-1e6, 1e6) | special, min_size=1, max_size=200))
def test_logarithms_have_the_bits_of_numpy(some):
    x = np.array(some)
    y = x.copy()
    feature_map_jit._log_map_input(y, *np.empty((6, len(x))))
    same_bits(y, np.copysign(exact_math.exact_log1p(np.abs(x)), x))


def wide_map(n_inputs=28, degree=5):
    entries = tuple(Input(f"x{k}", low=-1.0, high=1.0, limit=1.0) for k in range(n_inputs))
    labels = [entry.label for entry in entries]
    terms = [Term("linear", (label,)) for label in labels]
    terms += [Term("legendre", (label,), (k,), 0.5) for label in labels for k in range(2, degree + 1)]
    terms += [Term("legendre", pair, (2, 1), 0.7) for pair in itertools.permutations(labels[:9], 2)]
    terms += [Term("legendre", triple, (1, 1, 1), 0.3) for triple in itertools.combinations(labels[:6], 3)]
    return FeatureMap(entries, tuple(terms))


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_go_to_the_sphere_as_they_are(engine, rng):
    """Column by column, and no longer than the next block: rows on the sphere are those of the whole batch."""
    feature_map = wide_map()
    x, y = rng.uniform(-1.1, 1.1, (1000, 28)), rng.integers(0, 2, 1000)
    x[3, 4] = np.nan
    (batch,) = map_table(open_table(x, y, row_by_row=True), feature_map).batches(5000)
    width = len(feature_map.terms)
    engine, signs, low, high = get_engine(engine), np.ones(1000, np.int8), -np.ones(width), np.ones(width)
    whole, good = engine.sphere(batch.values(), signs, low, high, 0.5, 2**15)
    parts, start = [], 0
    for block in mapped_value_blocks(batch, 64):
        assert block.flags.f_contiguous and block.shape[1] == width
        parts.append(engine.sphere(block, signs[: len(block)], low, high, 0.5, 2**15)[0])
        start += len(block)
    assert start == 1000 and np.hstack(parts).tobytes() == whole.tobytes() and good.sum() == 999
    every_second = np.repeat(batch.values(), 2, axis=1)[:, ::2]  # neither way
    assert engine.sphere(every_second, signs, low, high, 0.5, 2**15)[0].tobytes() == whole.tobytes()


def test_threads_share_a_map(rng):
    feature_map, values = wide_map(), rng.uniform(-1, 1, (500, 28))
    expected = by_numpy(feature_map, values)
    with ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(feature_map.apply, values) for _ in range(12)]:
            same_bits(result.result(), expected)
    copy = pickle.loads(pickle.dumps(feature_map))
    assert copy == feature_map
    same_bits(copy.apply(values), expected)


def test_a_signalling_nan_is_no_reason_to_stop(rng):
    values = rng.uniform(-1, 1, (50, 28)).astype(np.float32)
    values.view(np.uint32)[3, 1] = 0x7F800001
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (feature_map_jit.compiled_map_blocks, FeatureMap._blocks):
            (block,) = make(wide_map(), values, 64)
            assert np.isnan(block[1, 3]) and not np.isnan(block[0]).any()


def test_few_values_do_not_load_a_compiler():
    script = (
        "import sys, numpy as np; from radoboost.release import feature_map as maps; from "
        "radoboost.release.feature_map import *;"
        "m = FeatureMap((Input('a'),), (Term('product', ('a', 'a')),));"
        "m.apply(np.ones((9, 1))); assert 'numba' not in sys.modules; maps._MANY = 5;"
        "assert m.apply(np.full((9, 1), 3.0)).tolist() == [[9.0]] * 9; assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_a_compiler_numpy_does_it(rng, monkeypatch):
    feature_map, values = wide_map(3), rng.uniform(-1, 1, (50, 3))
    expected = feature_map.apply(values)
    monkeypatch.setitem(sys.modules, "radoboost.release.feature_map_jit", None)
    monkeypatch.delattr("radoboost.release.feature_map_jit")
    assert feature_maps._compiled_feature_map(1 << 40) is None
    same_bits(feature_map.apply(values), expected)
