"""The algebra of rados, over all of Sigma_m, with rados summed by the engines."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.release.columns import Column

GRID = 2.0**-10  # values and their sums are exact on it


def all_rados(engine, x, y):
    """The rado of every signature: example i is in rado j iff bit i of j is 1."""
    m, d = x.shape
    columns = [Column(str(k), "none", GRID) for k in range(d)]
    machine = get_engine(engine)
    totals = machine.totals(2**m, d)
    machine.sum_rows(machine.snap(x, y, columns)[0], 0, Every(m), totals)
    return totals * GRID


class Every:
    """All signatures of m examples."""

    def __init__(self, m):
        self.all = np.arange(2**m, dtype=np.uint64)[None]

    def words(self, first_tile, n_tiles, out):
        return self.all


@st.composite
def small_tables(draw, max_rows=12):
    m, d = draw(st.integers(1, max_rows)), draw(st.integers(1, 3))
    x = draw(st.lists(st.lists(st.integers(-3000, 3000), min_size=d, max_size=d), min_size=m, max_size=m))
    y = draw(st.lists(st.sampled_from([-1, 1]), min_size=m, max_size=m))
    return np.array(x) * GRID, np.array(y, dtype=np.int8)


@pytest.mark.parametrize("engine", ENGINES)
@given(small_tables(), st.integers(0, 2**32))
def test_logistic_risk_is_rado_risk_over_all_signatures(engine, table, seed):
    """Lemma 2: F_log = log 2 + log(F_exp) / m, to 1e-12."""
    x, y = table
    theta = np.random.default_rng(seed).uniform(-1, 1, x.shape[1])
    risk = oracles.rado_risk(all_rados(engine, x, y).tolist(), theta.tolist())
    left = oracles.logistic_risk(x.tolist(), y.tolist(), theta.tolist())
    assert abs(left - (math.log(2) + math.log(risk) / len(x))) <= 1e-12


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("m", [1, 2, 7, 12])
def test_the_lemma_at_every_size(engine, m, rng):
    x, y = np.rint(rng.standard_normal((m, 2)) * 1000) * GRID, rng.choice(np.array([-1, 1], np.int8), m)
    theta = [0.7, -0.4]
    risk = oracles.rado_risk(all_rados(engine, x, y).tolist(), theta)
    assert abs(oracles.logistic_risk(x.tolist(), y.tolist(), theta) - math.log(2) - math.log(risk) / m) <= 1e-12


@pytest.mark.parametrize("engine", ENGINES)
@given(small_tables(max_rows=8))
def test_rados_are_the_definition(engine, table):
    """rado(s) = 1/2 sum (s_i + y_i) x_i; rado(s) + rado(-s) = sum of edge vectors = rado(y); rado(-y) = 0."""
    x, y = table
    rados = all_rados(engine, x, y)
    m = len(x)
    total = (y[:, None] * x).sum(axis=0)
    assert rados[-1].tolist() == total.tolist()
    assert rados[0].tolist() == [0.0] * x.shape[1]
    assert (rados + rados[::-1] == total).all()
    for j, member in enumerate(itertools.product((0, 1), repeat=m)):
        member = member[::-1]  # bit 0 of j is example 0
        signature = [int(label) if inside else -int(label) for inside, label in zip(member, y, strict=True)]
        assert rados[j].tolist() == oracles.rado(x.tolist(), y.tolist(), signature)
