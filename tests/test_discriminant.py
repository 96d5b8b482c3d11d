"""Learning more than two classes from plain rados: what rados tell, the discriminant, and boosting of each class."""

import itertools
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import radoboost as rb
from radoboost.learner import multiclass_moments
from radoboost.learner.boost import boost
from radoboost.learner.model import Model
from radoboost.learner.multiclass_moments import learn_class_discriminant, moments_of_classes

ROWS = np.array([[3, -1], [0, 2], [-5, 4], [1, 1], [2, -7], [6, 0], [-2, 3]])
CLASSES = np.array([0, 0, 1, 1, 1, 2, 2])


def subsets(n_rows, support=None):
    """All signatures of so many rows, or those of one support."""
    every = itertools.product((0, 1), repeat=n_rows)
    return [bits for bits in every if support is None or sum(bits) == support]


def enumerated(support=None, intercept=True):
    """A release whose rados are those of all signatures, each once."""
    signatures = None if support is None else rb.FixedSupport(support)
    release = rb.craft(
        ROWS, CLASSES, n_rados=2, signatures=signatures, seed=0, mechanism=rb.Plain(scale=None, intercept=intercept)
    )
    rows = np.column_stack([ROWS, np.ones(len(ROWS))])[:, : len(release.columns)]
    bits = np.array(subsets(len(ROWS), support), dtype=float)
    blocks = {f"class:{place}": bits @ (rows * (place == CLASSES)[:, None]) for place in range(3)}
    return replace(release, blocks=blocks)


# ---- what the rados tell


@pytest.mark.parametrize("support", [None, 1, 2, 3, 5])
def test_identities_over_all_signatures(support):
    """K1 to K3 in fractions, over every signature of seven rows."""
    m, signatures = len(ROWS), subsets(len(ROWS), support)
    q = Fraction(1, 2) if support is None else Fraction(support, m)
    v = q * (1 - q)
    r = Fraction(0) if support is None else -v / (m - 1)

    def mean(numbers):
        return Fraction(sum(numbers), len(signatures))

    rados = {}
    for place, k in itertools.product(range(3), range(2)):
        members = [i for i in range(m) if CLASSES[i] == place]
        rados[place, k] = [sum(int(ROWS[i, k]) for i in members if bits[i]) for bits in signatures]
    for (c, j), (d, k) in itertools.product(rados, repeat=2):
        sums = [int(ROWS[place == CLASSES, column].sum()) for place, column in ((c, j), (d, k))]
        assert mean(rados[c, j]) == q * sums[0]
        products = [a * b for a, b in zip(rados[c, j], rados[d, k], strict=True)]
        covariance = mean(products) - mean(rados[c, j]) * mean(rados[d, k])
        second = int((ROWS[c == CLASSES, j] * ROWS[c == CLASSES, k]).sum()) if c == d else 0
        assert covariance == (v - r) * second + r * sums[0] * sums[1]


@pytest.mark.parametrize("support", [None, 1, 3, 6])
def test_all_signatures_together_tell_the_moments_of_every_class(support):
    """K4: sizes, means and scatter are those of the rows, and classes do not correlate."""
    moments = moments_of_classes(enumerated(support))
    np.testing.assert_allclose(moments.sizes, [2, 3, 2], rtol=1e-12)
    for place in range(3):
        rows = ROWS[place == CLASSES]
        centred = rows - rows.mean(axis=0)
        np.testing.assert_allclose(moments.means[place], rows.mean(axis=0), rtol=1e-12)
        deviations = moments.deviations[place]
        np.testing.assert_allclose(deviations.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(deviations.T @ deviations / len(deviations), centred.T @ centred, atol=1e-9)
        other = moments.deviations[(place + 1) % 3]
        np.testing.assert_allclose(deviations.T @ other, 0, atol=1e-8)


def test_kinds_of_rados_that_are_not_known_are_refused():
    release = enumerated()
    for change in (
        {"signatures": {"name": "thirds"}},
        {"mechanism": {"name": "mine", "law": "noisy sums"}},
        {"n_examples": None},
    ):
        with pytest.raises(rb.ReleaseError, match="cannot learn more than two classes from; upgrade"):
            learn_class_discriminant(replace(release, **change))
    with pytest.raises(rb.ReleaseError, match="every rado sums all examples"):
        learn_class_discriminant(rb.craft(ROWS, CLASSES, n_rados=1, signatures=rb.FixedSupport(len(ROWS))))


@pytest.mark.parametrize("support", [None, 3])
def test_without_a_constant_column_the_first_newton_step_is_taken(support, monkeypatch):
    """K C^-1 (S_c - mean S), exactly, from all signatures and without shrinkage; also with a fixed support."""
    monkeypatch.setattr(multiclass_moments, "_shrunk_product_mean", lambda rows: (rows.T @ rows / len(rows), 0.0))
    release = enumerated(support, intercept=False)
    sums = np.array([ROWS[place == CLASSES].sum(axis=0) for place in range(3)])
    step = 3 * (sums - sums.mean(axis=0)) @ np.linalg.inv(ROWS.T @ ROWS)
    np.testing.assert_allclose(learn_class_discriminant(release).theta, step, rtol=1e-9)


# ---- the discriminant


def clouds(seed, n_rows, n_classes, n_columns, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])
    return apart * rng.normal(size=(n_classes, n_columns))[y] + rng.normal(size=(n_rows, n_columns)), y


def ordered(seed, n_rows):
    """Five classes along one direction, of the same size."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 6))
    score = x @ rng.normal(size=6) + 0.3 * rng.normal(size=n_rows)
    return x, np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))


def error(theta, release, x, y):
    predicted = Model.from_release(release, theta, {"name": "test"}).predict(x)
    return float(np.mean(predicted != y))


def test_middle_classes_are_not_masked():
    x, y = ordered(3, 8_000)
    release = rb.craft(x[:6_000], y[:6_000], seed=0)
    ours = error(learn_class_discriminant(release).theta, release, x[6_000:], y[6_000:])
    z = np.column_stack([x, np.ones(len(x))])
    squares = np.linalg.lstsq(z[:6_000], np.eye(5)[y[:6_000]], rcond=None)[0]
    one_against_others = float(np.mean(np.argmax(z[6_000:] @ squares, axis=1) != y[6_000:]))
    lda, regression = (
        1 - peer.fit(x[:6_000], y[:6_000]).score(x[6_000:], y[6_000:])
        for peer in (LinearDiscriminantAnalysis(), LogisticRegression())
    )
    assert ours < regression + 0.01 and one_against_others > 0.5
    assert ours < lda - 0.005  # end classes scatter more than middle ones, which a discriminant cannot say


def test_classes_that_scatter_alike_get_the_discriminant_of_scikit_learn():
    x, y = clouds(2, 20_000, 4, 5)
    release = rb.craft(x, y, n_rados=4_000, seed=0)
    lda = LinearDiscriminantAnalysis().fit(x, y)
    ours = Model.from_release(release, learn_class_discriminant(release).theta, {"name": "test"})
    theirs = lda.coef_ - lda.coef_.mean(axis=0)
    np.testing.assert_allclose(ours.coef, theirs, atol=0.12 * np.abs(theirs).max())
    assert np.mean(ours.predict(x) == lda.predict(x)) > 0.98
    assert np.abs(ours.predict_proba(x) - lda.predict_proba(x)).mean() < 0.01


@pytest.mark.parametrize("signatures", [None, rb.FixedSupport(0.2), rb.FixedSupport(5)])
def test_every_signature_set_teaches_the_same(signatures):
    x, y = clouds(3, 3_000, 3, 4)
    release = rb.craft(x, y, signatures=signatures, seed=0)
    fit = learn_class_discriminant(release)
    assert (
        error(fit.theta, release, x, y)
        < error(learn_class_discriminant(rb.craft(x, y, seed=1)).theta, release, x, y) + 0.02
    )
    np.testing.assert_allclose(fit.sizes, np.bincount(y), rtol=0.15)
    np.testing.assert_allclose(fit.theta.sum(axis=0), 0, atol=1e-9)


def test_units_do_not_matter():
    x, y = clouds(4, 400, 3, 3)
    units = np.array([2.0**300, 1.0, 2.0**-300])
    release, scaled = (rb.craft(values, y, seed=0, mechanism=rb.Plain(scale=None)) for values in (x, x * units))
    theta, again = learn_class_discriminant(release).theta, learn_class_discriminant(scaled).theta
    np.testing.assert_allclose(again * np.append(units, 1.0), theta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_rados", [2, 3, 10])
def test_few_rados(n_rados):
    x, y = clouds(5, 500, 4, 30, apart=2.0)
    release = rb.craft(x, y, n_rados=n_rados, seed=0)
    assert error(learn_class_discriminant(release).theta, release, x, y) < 0.5


def test_a_class_of_one_example():
    x, y = clouds(6, 600, 3, 4, apart=3.0)
    x, y = np.vstack([x, [[30.0, 30.0, -30.0, 30.0]]]), np.append(y, 3)
    release = rb.craft(x, y, seed=0)
    fit = learn_class_discriminant(release)
    assert error(fit.theta, release, x, y) < 0.05 and abs(fit.sizes[3] - 1) < 0.2


@pytest.mark.parametrize("shell", [rb.MomentsClassifier, rb.RadoBoostClassifier])
def test_a_declared_class_without_examples(shell):
    x, y = clouds(7, 300, 3, 3, apart=3.0)
    release = rb.craft(x, y, classes=(0, 1, 2, 7), seed=0)
    with warnings.catch_warnings(record=True, action="always") as notes:
        clf = shell().fit_rados(release)
    assert not (clf.predict(x) == 7).any()
    if shell is rb.MomentsClassifier:
        assert [str(note.message)[:33] for note in notes] == ["no rado has an example of 7, and "]
        assert clf.predict_proba(x)[:, 3].max() < 0.01 and clf.score(x, y) > 0.85


def test_rados_without_examples_of_two_classes_are_refused():
    release = rb.craft(ROWS, CLASSES, n_rados=2, seed=0)
    zeros = {name: rows * (name == "class:0") for name, rows in release.blocks.items()}
    for shell in (rb.MomentsClassifier, rb.RadoBoostClassifier):
        with pytest.raises(rb.ReleaseError, match="fewer than two classes"):
            shell().fit_rados(replace(release, blocks=zeros))


def test_columns_that_say_everything_nothing_or_the_same():
    """The class itself, a constant, and one column twice."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 3, 300)
    noise = rng.normal(size=300)
    x = np.column_stack([y, np.full(300, 4.0), noise, 2 * noise])
    for scale in ("standard", None):
        release = rb.craft(x, y, seed=0, mechanism=rb.Plain(scale=scale))
        theta = learn_class_discriminant(release).theta
        assert error(theta, release, x, y) == 0
        assert np.abs(theta[:, 1]).max() < 1e-9 * np.abs(theta).max()


def test_tables_with_nothing_in_them():
    release = rb.craft(np.full((9, 2), 3.0), [0, 1, 2] * 3, n_rados=9, seed=0, mechanism=rb.Plain(scale=None))
    with pytest.raises(rb.ReleaseError, match="no column of the rados varies"):
        learn_class_discriminant(release)
    empty = rb.craft(np.zeros((9, 2)), [0, 1, 2] * 3, n_rados=9, mechanism=rb.Plain(intercept=False))
    with pytest.raises(rb.ReleaseError, match="zero in all columns"):
        rb.MomentsClassifier().fit_rados(empty)
    single = rb.craft(np.eye(3), [0, 1, 2], n_rados=7, seed=0)  # a class has one row, and does not scatter
    assert np.isfinite(learn_class_discriminant(single).theta).all()


def test_columns_beyond_linear_and_many_classes():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(3_000, 2))
    y = np.digitize(np.square(x).sum(axis=1), [0.6, 1.4, 2.5, 4.0])
    clf = rb.MomentsClassifier(columns="degree-2", random_state=0).fit(x, y)
    assert clf.score(x, y) > 0.6 > 0.4 > rb.MomentsClassifier(random_state=0).fit(x, y).score(x, y)
    many = np.arange(360) % 24
    angles = many * np.pi / 12
    x = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.001 * rng.normal(size=(360, 2))
    assert rb.MomentsClassifier(random_state=0).fit(x, many).score(x, many) > 0.99


# ---- boosting


def test_boosting_is_that_of_each_class_against_the_others():
    x, y = clouds(10, 300, 3, 4)
    clf = rb.RadoBoostClassifier(n_rounds=40, weak=rb.Prudential(0.5), keep="best").fit_rados(rb.craft(x, y, seed=5))
    assert len(clf.rounds_) == len(clf.n_used_) == 3
    for place in range(3):
        alone = boost(rb.craft(x, y == place, seed=5).rados, n_rounds=40, weak=rb.Prudential(0.5), keep="best")
        slope, offset = clf.model_.learner["slopes"][place], clf.model_.learner["offsets"][place]
        np.testing.assert_array_equal(clf.model_.theta[place], slope * alone.theta + offset * np.eye(5)[4])
        np.testing.assert_array_equal(clf.rounds_[place].log_risk, alone.rounds.log_risk)
        assert clf.n_used_[place] == alone.n_used == clf.model_.learner["rounds"][place]
    assert clf.model_.learner["form"] == "one against the others" and clf.model_.learner["cap"] == [0.5] * 3
    prudent = rb.RadoBoostClassifier(n_rounds=40, weak="prudential").fit_rados(rb.craft(x, y, seed=5))
    assert len(prudent.model_.learner["kappa"]) == 3


def test_scores_of_one_against_the_others_are_log_odds():
    """Over the examples themselves a line through each score would hardly change it, however rare its class is."""
    x, y = clouds(11, 6_000, 4, 3)
    rare = (y != 3) | (np.arange(6_000) % 20 == 0)
    x, y = x[rare], y[rare]
    clf = rb.RadoBoostClassifier(random_state=0).fit(x, y)
    scores = clf.decision_function(x)
    for place in range(4):
        line = LogisticRegression(C=np.inf).fit(scores[:, [place]], y == place)
        assert abs(line.coef_[0, 0] - 1) < 0.2 and abs(line.intercept_[0]) < 0.3
    bare = rb.RadoBoostClassifier(random_state=0, mechanism=rb.Plain(intercept=False)).fit(x, y)
    assert bare.model_.learner["slopes"] == [1.0] * 4 and not any(bare.model_.learner["offsets"])


def test_boosting_masks_middle_classes():
    """As the page on classes says."""
    x, y = ordered(1, 6_000)
    assert rb.RadoBoostClassifier(random_state=0).fit(x, y).score(x, y) < 0.5


# ---- statements


def test_statements_of_two_classes_stay_and_those_of_more_speak_of_each():
    two, three = (rb.craft(ROWS, classes, n_rados=4).statement.not_protected for classes in (CLASSES > 0, CLASSES))
    assert any("the two class values" in sentence for sentence in two)
    assert not any("two class" in sentence for sentence in three)
    assert any("a class with one example shows it in the clear" in sentence for sentence in three)
    assert any("how many examples each class has" in sentence for sentence in three)
    assert two[3:] == three[3:]
