"""Probabilities: counts of rows by score and class, and the link that is read from them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import radoboost as rb
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.score_histogram import ScoreCounts
from radoboost.learner.probabilities import (
    ProbabilityLink,
    fit_probability_link,
    probability_link_of_scores,
    shorten_link,
)
from radoboost.release.columns import Column
from radoboost.release.moment_math import EDGES, column_weights_and_score_unit
from radoboost.tables import open_table
from radoboost.tables.labels import LabelEncoder

BOUNDS = [[-3, 3]] * 3
COLUMNS = tuple(Column(f"x{k}", "bounds", 1.0, -3.0, 3.0) for k in range(3))
RULE = LabelEncoder("y", (0, 1))


def counted(x, y, weights, unit):
    """The cells of a table."""
    task = ScoreCounts(RULE, COLUMNS, np.array(weights), unit)
    sums = task.empty()
    first = 0
    for batch in open_table(x, np.asarray(y), row_by_row=True).batches():
        task.add(sums, first, batch)
        first += batch.n_rows
    return sums.cells.ravel()


def cell(row, label, weights, unit):
    """The cell of one row in plain Python; None where it is in none."""
    if label not in (0, 1) or not all(math.isfinite(value) for value in row):
        return None
    score = 0.0
    for value, weight in zip(row, weights, strict=False):
        score += weight * (((min(max(value, -3.0), 3.0) - -3.0) * 2.0) / 6.0 - 1.0)
    score += weights[3]
    return (2 * (score > 0) + label) * 3 + sum(abs(score) >= edge * unit for edge in EDGES)


def test_every_row_is_in_the_cell_of_plain_python_and_moves_nothing_else(rng):
    x = rng.normal(size=(500, 3)) * 2
    x[5, 1], x[6, 0], x[7, 2] = np.nan, np.inf, -np.inf
    y = rng.integers(0, 2, 500)
    y[9] = 7
    weights, unit = [1.0, -2.0, 0.5, 0.25], 1.3
    expected = np.zeros(12, np.int64)
    for row, label in zip(x.tolist(), y.tolist(), strict=True):
        place = cell(row, label, weights, unit)
        if place is not None:
            expected[place] += GRID
    whole = counted(x, y, weights, unit)
    assert whole.tolist() == expected.tolist() and whole.sum() == 496 * GRID
    for left_out in (0, 5, 9, 499):
        others = np.delete(np.arange(500), left_out)
        moved = whole - counted(x[others], y[others], weights, unit)
        assert np.linalg.norm(moved) == (0 if left_out in (5, 9) else GRID)
    flipped = y.copy()
    flipped[0] = 1 - flipped[0]
    assert np.linalg.norm(whole - counted(x, flipped, weights, unit)) == pytest.approx(math.sqrt(2) * GRID)


def exact_counts(scores, labels, unit):
    sizes = np.searchsorted(np.array(EDGES) * unit, np.abs(scores), side="right")
    places = (2 * (scores > 0) + (labels > 0)) * 3 + sizes
    return np.bincount(places, minlength=12).reshape(2, 2, 3).astype(float)


@pytest.mark.parametrize(("up", "down", "bend"), [(1.0, 1.0, 0.0), (0.5, 0.5, 0.1), (0.6, 1.0, 0.02), (2.0, 2.0, 0.3)])
def test_the_link_is_found_from_counts(up, down, bend, rng):
    """200,000 rows: probabilities are off by a few hundredths at most where nine tenths of the scores are."""
    scores = 2 * rng.normal(size=200_000)
    truth = ProbabilityLink(up, down, bend)
    labels = np.where(rng.random(len(scores)) < expit(truth.log_odds(scores)), 1, -1)
    link = fit_probability_link(exact_counts(scores, labels, 2.0), 30.0, 2.0)
    some = np.linspace(-3.3, 3.3, 34)
    assert np.abs(expit(link.log_odds(link.scale * some)) - expit(truth.log_odds(some))).max() < 0.04
    assert link.up * link.down == pytest.approx(1)


def test_counts_of_nothing_but_noise_leave_what_was_likely_before():
    link = fit_probability_link(np.full((2, 2, 3), 5.0), 1e6, 1.0)
    guess = fit_probability_link(np.zeros((2, 2, 3)), 0.0, 1.0)
    assert guess.scale == pytest.approx(0.7, rel=0.01) and link.scale == pytest.approx(0.7, rel=0.1)
    assert link.up == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_log_odds_are_shortened_for_rows_that_nothing_was_fitted_to(rng):
    """Least squares with 60 columns of 1,500 rows: on 20,000 new rows a slope of 1 is nearer than without that.

    Slopes of tables differ by about 0.07, so that the mean of 24 has a standard error of 0.015. It is off by 5 of these
    with a chance of 6e-7.
    """
    weights = np.append(np.full(4, 0.6), np.zeros(56))
    slopes = {}
    for _ in range(24):
        x, new = rng.normal(size=(1500, 60)), rng.normal(size=(20_000, 60))
        y, seen = (np.where(rng.random(len(rows)) < expit(rows @ weights), 1, -1) for rows in (x, new))
        theta = np.linalg.lstsq(x, y, rcond=None)[0]
        scores, unit = x @ theta, float(np.sqrt(np.square(x @ theta).mean()))
        counts = exact_counts(scores, y, unit)
        plain = fit_probability_link(counts, 1.0, unit)
        for name, link in (("counted", plain), ("new", shorten_link(plain, counts, unit, 60))):
            odds = link.log_odds(link.scale * (new @ theta))
            slopes.setdefault(name, []).append(_slope(odds, seen))
    assert np.mean(slopes["counted"]) < 0.88 < np.mean(slopes["new"]) < 1.1


def _slope(odds, labels):
    """The factor of log odds under which labels are the likeliest, by Newton's steps."""
    slope = 1.0
    for _ in range(30):
        chance = expit(slope * odds)
        slope += (odds @ ((labels > 0) - chance)) / (np.square(odds) @ (chance * (1 - chance)))
    return slope


@pytest.mark.parametrize("epsilon", [5.0, 30.0])
def test_a_rare_class_stays_rare(epsilon, rng):
    """5 % are positive, and columns tell little: that they are rare is no gain of columns, and stays in log odds.

    The mean probability has a standard error of 0.002 by the noise of counts at epsilon 5, and is off by 0.01 besides.
    """
    x, new = np.clip(rng.normal(size=(2, 8000, 3)), -3, 3)
    y = (rng.random(8000) < expit(0.5 * x[:, 0] - 3.0)).astype(int)
    release = rb.craft(
        x, y, mechanism=rb.Moments(epsilon), classes=(0, 1), columns="degree-4", counts=None, schema=BOUNDS
    )
    chances = rb.MomentsClassifier().fit_rados(release).predict_proba(new)[:, 1]
    assert chances.mean() == pytest.approx(y.mean(), abs=0.03)


@pytest.mark.parametrize(("noise", "total"), [(1e6, 5.0), (30.0, 0.0), (30.0, -20.0)])
def test_without_a_gain_most_of_the_log_odds_is_left(noise, total):
    counts = np.full((2, 2, 3), total)
    link = fit_probability_link(counts, noise, 1.0)
    short = shorten_link(link, counts, 1.0, 50)
    some = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(
        short.log_odds(short.scale * some), 0.8 * link.log_odds(link.scale * some), rtol=0, atol=1e-12
    )


def test_probabilities_follow_the_link_in_shells_models_and_files(rng, tmp_path):
    x = np.clip(rng.normal(size=(3000, 3)), -3, 3)
    y = np.where(rng.random(3000) < expit(2 * x[:, 0]), "a", "b")  # the positive class comes first by name
    release = rb.craft(x, y, mechanism=rb.Moments(3.0), classes=("b", "a"), n_rados=5, schema=BOUNDS)
    counts = np.array([[90, 40, 5], [70, 15, 1], [60, 10, 1], [99, 60, 9]]) * 10.0
    release = replace(release, blocks={**release.blocks, "scores": counts})
    clf = rb.MomentsClassifier().fit_rados(release)
    link = probability_link_of_scores(release)
    assert clf.model_.link == link and link.up != link.down
    positive = expit(link.log_odds(clf.model_.scores(x)))
    assert clf.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(clf.predict_proba(x), np.column_stack([positive, 1 - positive]), atol=1e-12)
    clf.model_.save(tmp_path / "m.json")
    again = rb.load_model(tmp_path / "m.json")
    assert again.link == link
    np.testing.assert_allclose(again.predict_proba(x)[:, 1], positive, atol=1e-12)
    text = (tmp_path / "m.json").read_text()
    for wrong in (text.replace('"bend"', '"bent"'), text.replace('"up": ', '"up": -')):
        (tmp_path / "m.json").write_text(wrong)
        with pytest.raises(rb.ModelError, match="link"):
            rb.load_model(tmp_path / "m.json")


@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize("sharpen", [True, False])
@pytest.mark.parametrize(("columns", "intercept"), [("auto", True), ("degree-2", True), ("linear", False)])
def test_released_counts_are_those_of_the_scores_that_the_blocks_give(unit, sharpen, columns, intercept, rng):
    """At epsilon 1000 the noise is below 2: 6 of its deviations have a chance of 2e-9."""
    x = np.clip(rng.normal(size=(2000, 3)), -3, 3)
    y = (rng.random(2000) < expit(2 * x[:, 0])).astype(int)
    mechanism = rb.Moments(1000.0, unit=unit, sharpen=sharpen)
    release = rb.craft(
        x, y, classes=(0, 1), columns=columns, schema=BOUNDS, mechanism=replace(mechanism, intercept=intercept)
    )
    weights, size = column_weights_and_score_unit(release.blocks, release.mechanism, release.columns)
    assert size == release.mechanism["score_unit"]
    model = rb.Model(weights, release.columns, (0, 1), {"name": "by hand"}, map=release.map)
    exact = exact_counts(model.scores(x), np.where(y > 0, 1, -1), size).reshape(4, 3)
    noise = release.mechanism["noise"]["scores"]
    assert 0 < noise < 2
    assert np.abs(release.blocks["scores"] - exact).max() < 6 * noise


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("columns", ["linear", "degree-2", "degree-5"])
def test_learned_scores_are_those_that_were_counted(columns, n_classes, rng):
    """But for their scale, and of more classes for what all have in common, in every row."""
    x = np.clip(rng.normal(size=(2000, 3)), -3, 3)
    x[rng.random(2000) < 0.7, 0] = 0.013
    score = 3 * x[:, 0] + x[:, 1] + rng.logistic(size=2000) / 4
    y = np.searchsorted([0.0, 1.0][: n_classes - 1], score)
    classes = tuple(range(n_classes))
    release = rb.craft(x, y, mechanism=rb.Moments(100.0), classes=classes, columns=columns, schema=BOUNDS)
    weights, _ = column_weights_and_score_unit(release.blocks, release.mechanism, release.columns)
    outputs = x if release.map is None else release.map.apply(x)
    values = [column.apply(outputs[:, k]) for k, column in enumerate(release.columns[:-1])] + [np.ones(2000)]
    counted, learned = np.array(values).T @ weights.T, rb.MomentsClassifier().fit_rados(release).decision_function(x)
    if n_classes > 2:
        counted, learned = (scores - scores.mean(axis=1, keepdims=True) for scores in (counted, learned))
    scale = np.vdot(counted, learned) / np.vdot(counted, counted)
    np.testing.assert_allclose(learned, scale * counted, atol=1e-4 * np.abs(learned).max())
