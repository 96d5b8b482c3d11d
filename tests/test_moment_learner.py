"""The learner from the two moments of rados."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost.errors import ReleaseError
from radoboost.learner import rado_moments
from radoboost.learner.diagnostics import NormalScores
from radoboost.learner.rado_moments import learn_rados
from radoboost.learner.shrinkage import Fold, MomentSpectrum, Scores, bayes_ridge
from radoboost.release.release import RADOS
from radoboost.report.coefficients import coefficient_findings
from radoboost.report.describe import describe_model


def made_up(rng, m, d=3):
    x = rng.standard_normal((m, d)) @ (np.eye(d) + 0.4 * np.eye(d, k=1))
    signal = x @ np.linspace(1, -0.5, d)
    return x, np.where(signal + 2 * rng.standard_normal(m) > 0, 1, -1)


# ---- identities: docs/proofs/rado-moments.md


@pytest.mark.parametrize("support", [None, 1, 2, 4])
def test_moments_of_all_rados(support, rng):
    """P1 and P2, over every signature of six examples."""
    edges, m = rng.integers(-9, 10, (6, 3)).astype(float), 6
    bits = np.array([s for s in itertools.product([0, 1], repeat=m) if support is None or sum(s) == support])
    rados, total, products = bits @ edges, edges.sum(axis=0), edges.T @ edges
    covariance = np.cov(rados.T, bias=True)
    if support is None:
        assert np.allclose(rados.mean(axis=0), total / 2) and np.allclose(covariance, products / 4)
    else:
        assert np.allclose(rados.mean(axis=0), support / m * total)
        second = covariance * m * (m - 1) / (support * (m - support)) + np.outer(total, total) / m
        assert np.allclose(second, products)


def test_r2_of_all_rados(rng):
    """P4: what scores explain, from rados alone."""
    x, y = rng.standard_normal((7, 2)), rng.choice([-1.0, 1.0], 7)
    theta, bits = np.array([0.7, -1.3]), np.array(list(itertools.product([0, 1], repeat=7)))
    scores = bits @ (y[:, None] * x) @ theta
    slope = (x @ theta) @ y / ((x @ theta) ** 2).sum()
    left = ((y - slope * (x @ theta)) ** 2).sum() / 7
    assert scores.mean() ** 2 / (7 * scores.var()) == pytest.approx(1 - left)


@pytest.mark.parametrize("signatures", [None, rb.FixedSupport(0.3)])
@pytest.mark.parametrize("scale", ["standard", None])
def test_many_rados_give_least_squares(signatures, scale, rng):
    """The direction of S^-1 M."""
    x, y = made_up(rng, 400)
    x = x * [1, 50, 0.1] + [3, 0, 1]
    release = rb.craft(x, y, n_rados=100_000, signatures=signatures, seed=3, mechanism=rb.Plain(scale=scale))
    columns = np.column_stack([column.apply(v) for column, v in zip(release.columns, [*x.T, x[:, 0]], strict=True)])
    exact = np.linalg.solve(columns.T @ columns, columns.T @ y)
    spread = columns @ exact, columns @ learn_rados(release).theta
    # sin^2 of the angle is d / n, 0.00004; the ridge of 400 examples turns it further, up to 0.006 in this table
    assert np.corrcoef(*spread)[0, 1] > 0.99


def test_gram_matrices_of_either_side_agree(rng):
    """With fewer rados than columns the smaller Gram matrix gives the same solution as the larger."""
    roots, mean = rng.standard_normal((5, 9)), rng.standard_normal(9)
    second = 0.9 * roots.T @ roots + (0.1 + 0.3) * np.eye(9)
    spectrum = MomentSpectrum.of(roots)
    assert spectrum.n_missing == 4
    assert np.allclose(spectrum.solve(mean, 0.1, 0.3), np.linalg.solve(second, mean))
    values = np.linalg.eigvalsh(0.9 * roots.T @ roots + 0.1 * np.eye(9))
    assert spectrum.freedom(0.1, 0.3) == pytest.approx((values / (values + 0.3)).sum())
    fold = Fold([spectrum], mean, rng.standard_normal((4, 9)))
    inverse = np.linalg.inv(0.9 * roots.T @ roots + 0.1 * np.eye(9))
    assert fold.freedom(0, [0.1])[0] == pytest.approx(np.trace(fold.roots.T @ fold.roots @ inverse))


def test_the_ridge_is_the_most_likely_one(rng):
    """The variance of weights that made the mean comes back: ridge = noise / variance, in the middle of many."""
    spectrum, m, r2, d = MomentSpectrum(np.ones(4000), np.eye(4000)), 1000, 0.5, 4000
    noise, prior = (1 - r2) / m, 0.002
    mean = rng.standard_normal(d) * math.sqrt(prior + noise)  # eigenvalues are 1
    # log(prior + noise) is known to sqrt(2 / 4000); six of those are 13 %, prior being 0.8 of the sum: 17 %
    assert bayes_ridge(spectrum, mean, 0.0, m, r2) == pytest.approx(noise / prior, rel=0.35)


# ---- scores


def test_optimism_of_least_squares_on_noise():
    """Of labels that columns say nothing about, d / m is explained, and nothing of that on new rows."""
    scores = Scores(np.array(0.2), np.array(0.2))
    assert float(scores.r2) == pytest.approx(0.2)
    assert float(scores.on_new_rows(20, 100).r2) < 0.01
    assert float(scores.on_new_rows(0, 100).r2) == pytest.approx(0.2)


def test_normal_scores_are_log_odds_of_two_normals(rng):
    """Of two normals with one variance log odds are linear; the best factor and the error are known."""
    normal = NormalScores.of(0.6, 1.0)
    shift, deviation = 0.6, 0.8
    assert normal.scale == pytest.approx(2 * shift / deviation**2, rel=1e-3)
    assert normal.error == pytest.approx(0.5 * math.erfc(shift / deviation / math.sqrt(2)))
    uneven = NormalScores.of(0.7, 0.9, -0.4, -0.5)
    assert uneven.share == 0.25
    assert uneven.share * uneven.positive + (1 - uneven.share) * uneven.negative == pytest.approx(-0.4)
    assert NormalScores.of(0.0, 0.0).scale == 1.0 and NormalScores.of(0.0, 0.0).error == 0.5


def test_an_error_near_0_is_not_believed(rng):
    """The variance of scores may be that of a few rows far on the wrong side; and it is known by so many rados only."""
    clear = NormalScores.of(0.92, 0.92)  # 2 of 100 have the wrong sign, if all scores are of one size
    size = math.sqrt(0.92)
    assert clear.flipped_error == pytest.approx((1 - 0.92 / size) / 2) and clear.normal_error < 1e-3
    assert clear.error == pytest.approx((clear.flipped_error + clear.normal_error) / 2)
    assert clear.scale < 8  # by a normal law it is 25
    sure = [NormalScores.of(1.0, 1.0, n_rados=n).error for n in (100, 400, 1600)]
    assert 0.03 > sure[0] > sure[1] > sure[2] > 0.002


def test_clear_classes_are_told_without_an_error_of_0(rng):
    x = rng.standard_normal((600, 2))
    y = x[:, 0] + 0.2 * rng.standard_normal(600) > 0
    x[:, 0] = np.where(y, 1.0, -1.0) + 0.1 * x[:, 0]
    x[:12, 0] *= -1  # 2 of 100 rows are on the wrong side
    fit = learn_rados(rb.craft(x, y, n_rados=400, seed=1))
    assert fit.r2 > 0.85 and 0.005 < fit.expected_error < 0.04
    assert "far apart" in fit.remarks[0]
    z = x @ fit.theta[:2] + fit.theta[2]
    assert np.logaddexp(0, -np.where(y, z, -z)).mean() < 0.15


def test_probabilities_and_the_error_to_expect(rng):
    x, y = made_up(rng, 6000)
    train = np.arange(6000) < 3000
    clf = rb.MomentsClassifier(random_state=0).fit(x[train], y[train])
    error = 1 - clf.score(x[~train], y[~train])
    # A binomial of 3000 has a deviation of 0.9 points: five of them, and half a point for the estimate.
    assert abs(error - clf.expected_error_) < 0.05
    probability, positive = clf.predict_proba(x[~train])[:, 1], y[~train] > 0
    assert abs(probability.mean() - positive.mean()) < 0.05
    confident = probability > 0.8
    assert abs(probability[confident].mean() - positive[confident].mean()) < 0.09


# ---- standard errors


CASES = [("standard", None), (None, None), (None, rb.FixedSupport(0.5))]


@pytest.mark.parametrize(("m", "n_rados"), [(300, 1000), pytest.param(4000, 100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("scale", "signatures"), CASES)
def test_standard_errors(scale, signatures, m, n_rados, rng, monkeypatch):
    """Theta over other rows and other rados spreads as far as standard errors say, whichever of both matters more.

    They are given the scale of log odds and the shrinkage, so these are held.
    """
    monkeypatch.setattr(NormalScores, "scale", 1.0)
    monkeypatch.setattr(rado_moments, "WEIGHTS", (0.01,))
    draws, thetas, errors = 80, [], []
    for seed in range(draws):
        fit = learn_rados(
            rb.craft(
                *made_up(rng, m), n_rados=n_rados, signatures=signatures, seed=seed, mechanism=rb.Plain(scale=scale)
            )
        )
        thetas.append(fit.theta)
        errors.append(fit.standard_errors)
    ratio = np.std(thetas, axis=0, ddof=1) / np.sqrt(np.mean(np.square(errors), axis=0))
    spread = 5.7 / math.sqrt(2 * (draws - 1))  # of a deviation estimated from as many; 1e-8 for each of 24 ratios
    assert (ratio < 1.15 * (1 + spread)).all() and (ratio > 0.85 * (1 - spread)).all()


# ---- units, odd tables


@given(st.integers(4, 60), st.integers(1, 8), st.integers(0, 2**32))
def test_units_of_columns_do_not_matter(n, d, seed):
    rng = np.random.default_rng(seed)
    release = rb.craft(
        rng.normal(1, 1, (50, d)),
        rng.integers(0, 2, 50),
        n_rados=n,
        classes=(0, 1),
        seed=1,
        mechanism=rb.Plain(scale=None),
    )
    units = np.append(2.0 ** rng.integers(-30, 30, d), 1.0)
    columns = tuple(replace(c, step=c.step * u) for c, u in zip(release.columns, units, strict=True))
    other = replace(release, blocks={RADOS: release.rados * units}, columns=columns)
    plain, scaled = learn_rados(release), learn_rados(other)
    assert np.isfinite(plain.theta).all()
    assert np.allclose(scaled.theta * units, plain.theta, rtol=1e-6, atol=1e-9 * np.abs(plain.theta).max())


ODD = {
    "outlier": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 4 * 7, 1e12, x),
    "outlier elsewhere": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 4 * 7 + 3, 1e12, x),
    "constant column": lambda x: np.column_stack([x, np.full(len(x), 7.0)]),
    "the same column twice": lambda x: np.column_stack([x, x[:, 0]]),
    "a column and its double": lambda x: np.column_stack([x, -3 * x[:, 0]]),
    "more columns than rados": lambda x: np.column_stack([x, np.random.default_rng(1).normal(size=(len(x), 90))]),
    "units": lambda x: x * 10.0 ** np.array([150, -150, 0, 3]),
}
SAID = {
    "outlier": "'x0' has one value that outweighs all others",
    "outlier elsewhere": "'x3' has one value that outweighs all others",
    "constant column": "'x4'",
    "the same column twice": "'x0' and 'x4' are proportional in all rados",
    "a column and its double": "'x0' and 'x4' are proportional in all rados",
    "more columns than rados": "fewer rados than columns",
}


@pytest.mark.filterwarnings("ignore::radoboost.OutlierWarning")
@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("name", ODD)
def test_odd_tables(name, scale, rng):
    """The outlier is in the column that tells the classes apart, of which then nothing is left but their shares."""
    x = rng.standard_normal((300, 4))
    y = np.where(x[:, 0] > 0.3, 1, -1)
    table = ODD[name](x)
    clf = rb.MomentsClassifier().fit_rados(rb.craft(table, y, n_rados=80, seed=1, mechanism=rb.Plain(scale=scale)))
    assert np.isfinite(clf.model_.theta).all() and np.isfinite(clf.standard_errors_).all()
    assert clf.score(table, y) > (0.85 if name != "outlier" else 0.55) and 0 < clf.expected_error_ < 0.5
    remarks = [remark for remark in clf.model_.learner.get("remarks", []) if "classes lie far apart" not in remark]
    assert len(remarks) == (name in SAID) and SAID.get(name, "") in " ".join(remarks)
    if name == "constant column":
        told = "the same in all rows" if scale == "standard" else "'x4' and '(constant)' are proportional"
        assert told in remarks[0] and (clf.model_.theta[4] == 0) == (scale == "standard")
    if name == "outlier":
        assert clf.expected_error_ > 0.25
    if name == "the same column twice":
        assert clf.model_.theta[0] == pytest.approx(clf.model_.theta[4], rel=1e-3)


@pytest.mark.parametrize("columns", ["linear", "degree-2"])
def test_the_holder_hears_of_an_outlier_and_bounds_help(columns, rng):
    x = rng.standard_normal((300, 4))
    y = np.where(x[:, 0] > 0.3, 1, -1)
    x[7, 0] = 1e12
    told = r"outweighs the other 299 of its column.*'x0' has 1e\+12; correct it, or declare bounds"
    with pytest.warns(rb.OutlierWarning, match=told):
        release = rb.craft(x, y, n_rados=80, columns=columns, seed=1)
    assert any("outweighs all others" in remark for remark in learn_rados(release).remarks)
    with pytest.warns(rb.ClippedWarning):
        bounded = rb.craft(x, y, n_rados=80, columns=columns, seed=1, schema={"x0": (-5, 5)})
    clf = rb.MomentsClassifier().fit_rados(bounded)
    assert clf.score(x, y) > 0.85 and "outweighs" not in " ".join(clf.model_.learner.get("remarks", []))


def test_a_rare_word_and_a_long_tail_are_no_outliers(rng):
    """One 1 among zeros is what it is; the largest of 300 values of a long tail is not most of its column."""
    x = np.column_stack([rng.standard_normal(300), np.arange(300) == 7, rng.lognormal(0, 1.5, 300)])
    release = rb.craft(x, np.where(x[:, 0] > 0, 1, -1), n_rados=80, seed=1)
    assert "outweighs" not in " ".join(learn_rados(release).remarks)


@pytest.mark.parametrize("shell", [rb.MomentsClassifier, rb.RadoBoostClassifier])
def test_remarks_on_columns_are_printed_and_on_the_page(shell, tmp_path, rng):
    x = rng.standard_normal((300, 2))
    y = np.where(x[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    model = shell().fit_rados(rb.craft(np.column_stack([x, x[:, 1]]), y, n_rados=80, seed=1)).model_
    told = "'x1' and 'x2' are proportional in all rados"
    assert told in " ".join(describe_model(model).split())
    model.save(tmp_path / "model.json")
    assert told in " ".join(describe_model(rb.load_model(tmp_path / "model.json")).split())
    rows = coefficient_findings(model).tables[0].rows
    assert [row for row in rows if row[0] == "beware" and told in row[1]]
    told = [row for row in rows if row[0] == "R2 of this model" and "by rados held out" in row[1]]
    assert bool(told) == (shell is rb.MomentsClassifier)


def test_few_rados_for_each_column_leave_a_rough_error(rng):
    x, y = rng.standard_normal((900, 40)), np.arange(900) % 2
    said = "fewer than two rados for each column"
    for n_rados, there in ((50, True), (83, False)):
        assert (said in " ".join(learn_rados(rb.craft(x, y, n_rados=n_rados, seed=1)).remarks)) == there


@pytest.mark.parametrize("scale", ["standard", None])
def test_more_columns_than_rows_promise_little(scale, rng):
    """Of 100 rows with 400 columns, of which one matters, a new row is little better than guessed."""
    x = rng.standard_normal((2100, 400))
    clf = rb.MomentsClassifier().fit_rados(
        rb.craft(x[:100], x[:100, 0] > 0, n_rados=50, seed=1, mechanism=rb.Plain(scale=scale))
    )
    assert clf.score(x[100:], x[100:, 0] > 0) < 0.7 and clf.expected_error_ is None


@pytest.mark.parametrize(("rows", "n_rados"), [(300, 2), (300, 3), (3, 2), (3, 8), (2, 4)])
def test_few_rados(rows, n_rados, rng):
    x = rng.standard_normal((rows, 2))
    y = np.where(x[:, 0] > np.median(x[:, 0]) - 1e-9, 1, -1)
    fit = learn_rados(rb.craft(x, y, n_rados=n_rados, seed=1))
    assert np.isfinite(fit.theta).all() and np.isfinite(fit.standard_errors).all()
    assert "too few rados" in fit.remarks[0] and fit.expected_error is None and fit.r2 is None


def test_more_rados_do_no_harm(rng):
    """With as many rados as columns, too few to choose a small weight by, errors are not above those of a third."""
    x = rng.standard_normal((1200, 30)) + 0.7 * rng.standard_normal((1200, 1))
    y = np.where(x[:, :5].sum(axis=1) + rng.standard_normal(1200) > 0, 1, -1)
    wrong = {10: [], 30: []}
    for seed in range(20):
        release = rb.craft(x[:400], y[:400], n_rados=30, seed=seed)
        for n, found in wrong.items():
            clf = rb.MomentsClassifier().fit_rados(replace(release, blocks={"rados": release.rados[:n]}))
            found.append(1 - clf.score(x[400:], y[400:]))
            assert n == 10 or clf.shrinkage_ >= 0.3
    assert np.mean(wrong[30]) < np.mean(wrong[10])


def test_what_cannot_be_learned_from(rng):
    x, y = made_up(rng, 50)
    release = rb.craft(x, y, n_rados=5, seed=1)
    with pytest.raises(ReleaseError, match="no column of the rados varies"):
        learn_rados(replace(release, blocks={RADOS: np.repeat(release.rados[:1], 5, axis=0)}))


# ---- noise, and rows that nobody counts


def test_noise_is_taken_off_and_rows_are_estimated(rng):
    x, y = made_up(rng, 5000)
    bounds = [[-6, 6]] * 3
    private = {"bounds": bounds, "classes": (-1, 1), "n_rados": 500, "counts": None}
    release = flat.craft(x, y, mechanism=rb.NoisyRados(noise_std=5.0, clip=2.0), **private)
    assert release.n_examples is None
    fit = learn_rados(release)
    assert fit.covariance == "less noise" and fit.noise_variance == pytest.approx(25, rel=1e-3)
    assert fit.r2 is not None and not fit.remarks and 0.1 < fit.expected_error < 0.5
    hidden = learn_rados(flat.craft(x, y, mechanism=rb.NoisyRados(noise_std=5.0, clip=2.0), intercept=False, **private))
    assert hidden.r2 is None and hidden.expected_error is None and "hidden" in hidden.remarks[0]


def test_merged_releases_know_less(rng):
    """Scaling statistics of merged releases need not be those of all rows."""
    x, y = made_up(rng, 900)
    parts = [rb.craft(x[k::3], y[k::3], n_rados=200) for k in range(3)]
    for how in ("sum", "moments"):
        fit = learn_rados(rb.merge(parts, how))
        assert fit.covariance == "as it is"
        assert np.corrcoef(x @ fit.theta[:3], x @ np.linalg.lstsq(x, y, rcond=None)[0])[0, 1] > 0.95


@pytest.mark.parametrize("seed", range(2))
def test_noise_that_drowns_the_rows_leaves_no_error_to_expect(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2000, 4))
    y = x[:, 0] - x[:, 1] + rng.normal(size=2000) > 0
    bounds = {f"x{k}": (-4, 4) for k in range(4)}
    noisy = rb.craft(x, y, classes=(False, True), mechanism=rb.NoisyExamples(5.0), counts=None, schema=bounds)
    clf = rb.MomentsClassifier().fit_rados(noisy)
    assert clf.expected_error_ is None and clf.r2_ is None and np.abs(clf.coef_).max() < 20
    assert any("noise is larger than what it hides" in remark for remark in clf.model_.learner["remarks"])


def test_more_columns_than_rows_leave_no_error_to_expect():
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(200, 100)), 40
    y = (x[:, 0] - x[:, 1] + rng.normal(size=200) > 0).astype(int)
    clf = rb.MomentsClassifier().fit_rados(rb.craft(x[:m], y[:m], n_rados=600, seed=0))
    assert clf.expected_error_ is None
    assert [remark for remark in clf.model_.learner["remarks"] if "do not tell the error on others" in remark]


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_prescribed_support_tells_the_same_of_itself_as_coins(share):
    """Classes whose means are far apart, so that M M' / m is most of S / m."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 3000)
    x = rng.normal(size=(3000, 3)) + 1.2 * (2 * y - 1)[:, None]
    told = {
        name: rb.MomentsClassifier().fit_rados(rb.craft(x[:1000], y[:1000], n_rados=2000, seed=2, signatures=chosen))
        for name, chosen in (("coins", None), ("fixed", rb.FixedSupport(share)))
    }
    assert abs(told["fixed"].r2_ - told["coins"].r2_) < 0.05
    assert abs(told["fixed"].expected_error_ - told["coins"].expected_error_) < 0.015
