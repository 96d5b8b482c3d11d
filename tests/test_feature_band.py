"""The paper's feature-wise mechanism: its law against rejection sampling, its refusals, and what it says of itself."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import flat
import radoboost as rb
from radoboost.holder.signatures import FeatureInterval
from radoboost.privacy import band, delta_at, epsilon_at, event_from_dict
from radoboost.tables import Table


def small_table(m, rng):
    return np.column_stack([rng.integers(0, 2, m), rng.normal(size=m)]), rng.integers(0, 2, m)


def edges(x, y):
    """Edge signs of the protected column: y_i x_i."""
    return (2 * x[:, 0] - 1) * (2 * y - 1)


@pytest.mark.parametrize("m", [6, 9])
def test_rados_have_the_law_of_rejection_sampling(m, rng, monkeypatch):
    """Every signature of the paper's set, equally often: told apart by a second column whose subset sums differ."""
    # So few rows allow no claim; the law is what counts here.
    monkeypatch.setattr(rb.FeatureBand, "signatures", lambda self, m, n: FeatureInterval(*band(m, self.epsilon)))
    x, y = small_table(m, rng)
    y[:2] = 0, 1
    x[:, 1] = 2.0 ** np.arange(m)
    low, high = band(m, 4.0)
    assert 0 < low <= high < m
    signs, plus = 2 * y - 1, int((edges(x, y) > 0).sum())
    allowed = []
    for subset in product((0, 1), repeat=m):  # the paper's sampler: draw any signature, keep it if its value fits
        chosen = np.array(subset, dtype=bool)
        if plus - high <= edges(x, y)[chosen].sum() <= plus - low:
            allowed.append(round(float((signs * x[:, 1])[chosen].sum())))
    assert len(set(allowed)) == len(allowed)
    n = 40 * len(allowed)
    found = []
    for seed in range(10):
        release = rb.craft(
            x, y, n_rados=n // 10, seed=seed, mechanism=rb.FeatureBand("x0", 4.0, scale=None, intercept=False)
        )
        found += [round(value) for value in release.rados[:, 1]]
    assert set(found) <= set(allowed)
    counts = np.array([found.count(value) for value in allowed])
    statistic = float(((counts - len(found) / len(allowed)) ** 2).sum() * len(allowed) / len(found))
    assert chi2.sf(statistic, len(allowed) - 1) > 1e-6  # false alarm 1e-6


@pytest.mark.parametrize("coding", [(0, 1), (-1, 1)])
def test_the_column_stays_within_the_band(coding, rng):
    m = 500
    x, y = small_table(m, rng)
    plus = int((edges(x, y) > 0).sum())
    x[:, 0] = np.where(x[:, 0] == 1, coding[1], coding[0])
    release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.5), n_rados=200, seed=1)
    low, high = release.mechanism["band"]
    sizes = plus - release.rados[:, 0]
    assert (sizes == np.rint(sizes)).all() and sizes.min() >= low and sizes.max() <= high
    assert sizes.std() == pytest.approx(math.sqrt(m) / 2, rel=0.4)
    column = release.columns[0]
    assert (column.scale, column.low, column.high, column.mean) == ("bounds", *coding, None)
    assert release.columns[1].scale == "standard"  # other columns are scaled as ever


def test_the_same_bits_on_any_engine_thread_and_batch(rng, monkeypatch):
    x, y = small_table(700, rng)
    expected = None
    for engine, threads, rows in product(("kernel", "reference"), (1, 3), (64, 100_000)):
        monkeypatch.setattr(Table, "batch_rows", rows)
        options = {"engine": engine, "threads": threads, "seed": 5, "n_rados": 70}
        rados = flat.craft(x, y, mechanism=rb.FeatureBand("x0", 2.0), **options).rados
        expected = rados if expected is None else expected
        assert rados.tobytes() == expected.tobytes()


def test_other_columns_are_sums_over_the_same_signature(rng):
    """The constant column counts the examples of each class, so the two tell of one signature."""
    x, y = small_table(300, rng)
    x[:, 1] = 2 * x[:, 0] - 1  # the same column again, not protected
    release = rb.craft(x, y, n_rados=50, mechanism=rb.FeatureBand("x0", 2.0, scale=None))
    np.testing.assert_array_equal(release.rados[:, 0], release.rados[:, 1])


def test_statement_and_figures(rng):
    x, y = small_table(1000, rng)
    release = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, delta=1e-5), n_rados=100)
    statement, told = release.statement, release.mechanism
    assert statement.epsilon == pytest.approx(2.5945, abs=1e-4)
    assert statement.epsilon == epsilon_at(event_from_dict(statement.event), 1e-5)
    assert "marginal" in statement.neighbours and "alone" in statement.unit_of_privacy
    assert "can reveal" in statement.not_protected[0] and "does not help" in statement.not_protected[1]
    assert told == {
        "name": "feature-band",
        "law": "banded sums",
        "feature": "x0",
        "band_epsilon": 1.0,
        "band": [378, 622],
    }
    exact = delta_at(event_from_dict({**statement.event, "count": 1}), 1.0)
    assert f"{exact:.2e}"[:3] in statement.promises[1] and "'x0'" in statement.promises[2]
    assert "codings" in statement.not_protected[2] and "'x0'" in statement.not_protected[4]
    assert release.n_examples == 1000
    declared = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, 1e-5, values=(0, 1)), n_rados=100)
    assert "codings" not in declared.statement.not_protected[2]
    with pytest.raises(rb.TableError, match="not binary"):
        rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, 1e-5, values=(-1, 1)), n_rados=100)
    with pytest.raises(rb.ArgumentError, match="values must be"):
        rb.FeatureBand("x0", 1.0, values=(1, 2))


def test_bands_of_different_columns_do_not_add_up(rng):
    x, y = small_table(1000, rng)
    x[:, 1] = rng.integers(0, 2, 1000)
    other = rb.craft(x, y, mechanism=rb.FeatureBand("x1", 1.0, 1e-5), n_rados=50)
    same = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, 1e-5), n_rados=50)
    mixed = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, 1e-5), n_rados=50, compose=[other]).statement.composed
    assert mixed["epsilon"] == "infinite" and "different columns" in mixed["why"]
    alike = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 1.0, 1e-5), n_rados=50, compose=[same]).statement.composed
    assert alike["epsilon"] == pytest.approx(2.5945, abs=1e-3)


def test_vacuous_bands_are_refused_with_the_least_epsilon(rng):
    x, y = small_table(1000, rng)
    with pytest.raises(rb.ArgumentError, match=r"a band of 1 values.*epsilon at least") as failure:
        rb.craft(x, y, mechanism=rb.FeatureBand("x0", 0.01, delta=1e-5), n_rados=100)
    least = float(str(failure.value).split("at least ")[1].split(",")[0])
    rb.craft(x, y, mechanism=rb.FeatureBand("x0", least, delta=1e-5), n_rados=100)  # as it was printed
    with pytest.raises(rb.ArgumentError, match="too narrow"):
        rb.craft(x, y, mechanism=rb.FeatureBand("x0", least * 0.98, delta=1e-5), n_rados=100)
    assert rb.craft(x, y, mechanism=rb.FeatureBand("x0", least * 1.001, delta=1e-5), n_rados=100).statement.epsilon < 20
    few, _ = small_table(4, rng)
    with pytest.raises(rb.ArgumentError, match="no epsilon is large enough"):
        rb.craft(few, [0, 1, 0, 1], mechanism=rb.FeatureBand("x0", 1.0), n_rados=2)


def test_columns_that_are_not_binary_are_refused(rng):
    x, y = small_table(50, rng)
    for bad in (rng.normal(size=50), np.arange(50) % 3, np.where(np.arange(50) % 2, 2.0, 1.0)):
        x[:, 0] = bad
        with pytest.raises(rb.TableError, match="'x0' is not binary"):
            rb.craft(x, y, mechanism=rb.FeatureBand("x0", 5.0, delta=0.1), n_rados=5)
    with pytest.raises(rb.TableError, match="no feature 'sex'"):
        rb.craft(x, y, mechanism=rb.FeatureBand("sex", 5.0), n_rados=5)
    with pytest.raises(rb.ArgumentError, match="brings its own signatures"):
        rb.craft(x, y, mechanism=rb.FeatureBand("x0", 5.0), signatures=rb.AllSignatures(), n_rados=5)
    with pytest.raises(rb.ArgumentError, match="name of a column"):
        rb.FeatureBand(0, 1.0)


def test_a_seed_voids_the_claim(rng):
    x, y = small_table(500, rng)
    statement = rb.craft(x, y, mechanism=rb.FeatureBand("x0", 2.0), n_rados=10, seed=0).statement
    assert statement.epsilon == math.inf and "seed" in statement.not_protected[0]


def test_a_band_of_next_to_no_finite_loss_is_refused_and_not_an_error():
    """158 rados over a band of a few values: whoever looks surely sees an edge."""
    with pytest.raises(rb.ArgumentError, match="epsilon"):
        rb.FeatureBand("a", 0.05).signatures(316, 158)
