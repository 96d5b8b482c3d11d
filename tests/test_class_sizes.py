"""About how many rows each of more than two classes has, and what sets it apart, by noisy moments of whitened rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import radoboost as rb
from radoboost.release.class_summary import ClassSizes, _mean_differences, class_sizes_by_moments, facts_of_classes
from radoboost.report.describe import describe_release

SHARES = (0.4, 0.3, 0.2, 0.1)
UNITS = [{}, {"unit": "label"}, {"relation": "replace"}]


def unequal(n_rows=20_000, seed=1):
    """Four classes along one skewed column, which does not lie in the middle of its bounds; others tell nothing."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n_rows, p=SHARES)
    first = 0.5 * rng.beta(2, 5, n_rows) + 0.12 * y
    return np.column_stack([first, rng.random(n_rows) ** 3, rng.normal(0.8, 0.05, n_rows).clip(0, 1)]), y


def crafted(x, y, epsilon=8.0, columns="linear", classes=(0, 1, 2, 3), **options):
    bounds = [[0, 1]] * x.shape[1]
    mechanism = rb.Moments(epsilon, **options)
    return rb.craft(
        x,
        y,
        classes=classes,
        mechanism=mechanism,
        columns=columns,
        counts=None,
        schema=bounds,
        compute=rb.Compute(threads=1),
    )


def sum_of_rows(facts):
    return sum(entry.rows for entry in facts)


@pytest.mark.parametrize("options", UNITS)
@pytest.mark.parametrize(("columns", "most"), [("linear", 0.2), pytest.param("auto", 0.03, marks=pytest.mark.slow)])
def test_sizes_are_near_and_the_true_ones_within_limits(options, columns, most):
    """Off by a fifth of themselves at most where columns are few, which is bias, and by little where they are many.

    Six deviations of noise come on top, beyond which a normal number lies with a chance of 2e-9.
    """
    x, y = unequal()
    release, sizes = crafted(x, y, columns=columns, **options), np.bincount(y)
    facts = facts_of_classes(release)
    rows = np.array([entry.rows for entry in facts])
    off = most * sizes + 6 * ClassSizes.of(release.blocks, release.mechanism).noise
    assert (np.abs(rows - sizes) < off).all() and (off < 0.5 * sizes).all()
    np.testing.assert_allclose(rb.class_shares(release), rows / rows.sum())
    assert all(entry.between[0] < size < entry.between[1] for entry, size in zip(facts, sizes, strict=True))
    assert sum_of_rows(facts) == pytest.approx(release.mechanism["rows"]["good"])
    assert [entry.give_or_take for entry in facts] == [None] * 4  # a deviation would hide the bias
    assert "rows are estimates, with the least and the most that fit" in " ".join(describe_release(release).split())


@pytest.mark.parametrize("options", UNITS)
def test_columns_that_do_not_differ_are_not_said_to(options):
    x, y = unequal()
    scaled = 2 * x - 1
    for place, entry in enumerate(facts_of_classes(crafted(x, y, **options))):
        truth = scaled[y == place].mean(axis=0) - scaled.mean(axis=0)
        assert set(entry.columns) == ({"x0"} if abs(truth[0]) > 0.1 else set())
        assert all(difference == pytest.approx(truth[0], abs=0.05) for difference in entry.columns.values())


@pytest.mark.parametrize("options", UNITS)
def test_rows_that_are_spoiled_are_of_no_class(options):
    x, y = unequal(2000)
    release = crafted(x, np.where(y == 3, 9, y), epsilon=50.0, classes=(0, 1, 2), **options)
    rows = sum_of_rows(facts_of_classes(release))
    # Counts have noise of a deviation below 3 at this epsilon.
    assert rows == pytest.approx((y != 3).sum(), abs=60) and rows < 1900


def test_noise_alone_tells_nothing():
    release = crafted(*unequal(500))
    none = replace(release, mechanism={**release.mechanism, "rows": {"good": 0.0, "spoiled": 0.0}})
    faint = replace(release, blocks={**release.blocks, "moment:b": release.blocks["moment:b"] / 1e6})
    for strange in (none, faint):
        assert {entry.rows for entry in facts_of_classes(strange)} == {None}
        with pytest.raises(rb.ReleaseError, match="does not tell which share"):
            rb.class_shares(strange)


@given(st.integers(0, 10_000), st.integers(3, 5), st.integers(2, 4))
def test_limits_hold_for_any_rows_of_length_1(seed, n_classes, n_columns):
    """Without noise they follow from an inequality, whatever the classes look like."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.choice(n_classes, 60, p=rng.dirichlet(np.ones(n_classes)))])
    x = rng.normal(size=(n_classes, n_columns))[y] * rng.exponential(3) + rng.normal(size=(len(y), n_columns))
    w = x / np.linalg.norm(x, axis=1, keepdims=True)
    sums = np.stack([w[y == place].sum(axis=0) for place in range(n_classes)])
    sizes = class_sizes_by_moments(sums, w.T @ w, float(len(y)), sum_noise=0.0, second_noise=0.0, rows_noise=0.0)
    if sizes is not None:
        truth, slack = np.bincount(y, minlength=n_classes), 1e-6 * len(y)
        assert (sizes.least <= truth + slack).all() and (truth - slack <= sizes.most).all()


def test_noise_is_as_large_as_it_says():
    """Of 200 draws, which would be off by a third with a chance below 1e-6: chi-squared with 200 degrees."""
    rng = np.random.default_rng(3)
    x, y = unequal(20_000)
    w = np.column_stack([2 * x - 1, np.full(len(x), 0.5)])
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    sums, second, deviation = np.stack([w[y == k].sum(axis=0) for k in range(4)]), w.T @ w, 20.0
    args = {"sum_noise": deviation, "second_noise": 0.0, "rows_noise": 0.0}
    middle = class_sizes_by_moments(sums, second, len(y), **args)
    draws = [
        class_sizes_by_moments(sums + deviation * rng.normal(size=sums.shape), second, len(y), **args)
        for _ in range(200)
    ]
    assert isinstance(middle, ClassSizes)
    spread = np.std([draw.rows for draw in draws], axis=0)
    assert (spread < 4 / 3 * middle.noise).all() and (spread > middle.noise / 3).all()


def test_a_prior_of_the_true_shares_changes_little_and_says_how_rough_it_is():
    rng = np.random.default_rng(2)
    y = rng.choice(4, 20_000, p=SHARES)
    x = np.column_stack([rng.normal(0.1 + 0.2 * (y == k), 0.15).clip(0, 1) for k in (3, 2)])
    release = crafted(x, y)
    shares = dict(enumerate((np.bincount(y) / len(y)).tolist()))
    without = rb.MomentsClassifier().fit_rados(release).model_
    with pytest.warns(rb.NoiseWarning, match=r"are estimates .* may be anything from .*with_prior\(prior, old\)"):
        model = rb.MomentsClassifier(prior=shares).fit_rados(release).model_
    # Shares that are off by a tenth move no probability by more than a fortieth.
    assert np.abs(model.predict_proba(x) - without.predict_proba(x)).max() < 0.05
    assert (model.predict(x) != without.predict(x)).mean() < 0.03
    exact = without.with_prior(shares, old=shares)
    np.testing.assert_allclose(exact.predict_proba(x), without.predict_proba(x), atol=1e-12)


@pytest.mark.parametrize("options", UNITS)
def test_two_classes_are_counted(options):
    """By six noisy counts each, within eight deviations."""
    x, y = unequal(5000)
    release = crafted(x, y == 3, classes=(False, True), **options)
    deviation = np.sqrt(12) * release.mechanism["noise"]["scores"] / len(y)
    assert rb.class_shares(release)[1] == pytest.approx((y == 3).mean(), abs=8 * deviation)
    assert 8 * deviation < 0.05


def test_a_class_that_noise_leaves_no_weight_is_not_described():
    """Its mean would be a number over nothing: it overflowed, and warnings are errors here."""
    sums = np.array([[300.0, 100.0], [-300.0, 100.0], [2.0, -1.0], [2.0, 0.0]])
    apart = _mean_differences(sums, np.eye(2), 1.0, np.array([0.5, 0.5, 0.0, 0.0]), 1.0)
    assert apart[:, 0].tolist() == [3.0, -3.0, 0.0, 0.0]
