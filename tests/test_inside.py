"""A look inside: margins by enumeration, reliability beside plain loops, the learning curve, learners, and the page."""

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import log_loss
from typer.testing import CliRunner

import radoboost as rb
from radoboost.cli import app
from radoboost.learner.diagnostics import NormalScores
from radoboost.learner.evaluation import Bin, Reliability, error_by_noisy_counts, held_out_margins, judge_reliability
from radoboost.report.coefficients import coefficient_findings, coefficients_of_model
from radoboost.report.learner_comparison import why_no_rados_held_out
from radoboost.report.learning_curve import (
    CurveForecast,
    LearningCurve,
    Point,
    _disjoint_subsets_of_rados,
    why_no_curve,
)
from radoboost.report.model_report import learning_curve_findings, model_report_documents, reliability_findings


def table(rng, rows=900, d=4):
    x = rng.normal(size=(rows, d))
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(0.5 - 2 * x[:, 0] + x[:, 1])), "yes", "no")
    return x, y


def scaled(release, x):
    return np.column_stack([*(column.apply(x[:, k]) for k, column in enumerate(release.columns[:-1])), np.ones(len(x))])


@pytest.mark.parametrize("support", [None, 4])
def test_all_signatures_tell_the_moments_of_scores(rng, support):
    x, y = table(rng, rows=10, d=2)
    signatures = None if support is None else rb.FixedSupport(support)
    release = rb.craft(x, y, n_rados=4, seed=0, signatures=signatures, classes=("no", "yes"))
    rows, signs = scaled(release, x), np.where(y == "yes", 1, -1)
    every = np.array(list(itertools.product((0, 1), repeat=10)))
    every = every if support is None else every[every.sum(axis=1) == support]
    rados = every @ (rows * signs[:, None])
    whole = replace(release, blocks={"rados": rados})
    theta = rng.normal(size=3) + np.array([1.0, -1.0, 0.0])
    theta *= np.sign((signs * (rows @ theta)).sum())
    scores = rows @ theta
    found = held_out_margins(whole, [(theta, np.repeat(rados, 50, axis=0))])  # often, so that n - 1 is n
    assert found.r2 == pytest.approx((signs * scores).mean() ** 2 / (scores**2).mean(), rel=1e-3)
    parts = [scores[signs > 0].mean(), scores[signs < 0].mean()]
    share = (signs > 0).mean()
    within = (scores**2).mean() - share * parts[0] ** 2 - (1 - share) * parts[1] ** 2
    assert found.error == pytest.approx(NormalScores(share, *parts, within**0.5).error, abs=1e-3)


def test_margins_are_those_of_the_rows(rng):
    x, y = table(rng)
    release = rb.craft(x, y, n_rados=3000, seed=1)
    model = rb.MomentsClassifier().fit_rados(rb.craft(x, y, n_rados=500, seed=2)).model_
    scores, signs = scaled(release, x) @ model.theta, np.where(y == "yes", 1, -1)
    found = held_out_margins(release, [(model.theta, release.rados)])
    true = (signs * scores).mean() ** 2 / (scores**2).mean()
    assert abs(found.r2 - true) < 5 * found.spread  # false alarms: below 1e-6
    assert found.error == pytest.approx((model.predict(x) != y).mean(), abs=0.02)


def test_noise_is_taken_out_of_margins(rng):
    x, y = table(rng)
    plain = rb.craft(x, y, n_rados=3000, seed=1)
    theta = np.array([1.0, -0.5, 0.0, 0.0, -0.2])
    noise = 10.0  # in every column; a rado has about 15 by its signature
    mechanism = {"name": "noisy-rados", "law": "noisy sums", "noise_std": noise}
    rados = plain.rados + noise * rng.normal(size=plain.rados.shape)
    noisy = replace(plain, blocks={"rados": rados}, mechanism=mechanism)
    clear, through = (held_out_margins(release, [(theta, release.rados)]) for release in (plain, noisy))
    assert abs(through.r2 - clear.r2) < 0.15 * clear.r2
    assert (
        held_out_margins(replace(plain, blocks={"rados": rados}), [(theta, rados)]).r2 < 0.75 * clear.r2
    )  # as if it were none


def test_reliability_beside_plain_loops(rng):
    x, y = table(rng)
    model = rb.MomentsClassifier().fit_rados(rb.craft(x, y, n_rados=400, seed=0)).model_
    rows = {f"x{k}": x[:, k] for k in range(4)}
    found = judge_reliability([model, model], {**rows, "ill": y}, "ill")
    assert found[0] == found[1]
    (first, _), chances = found, model.predict_proba(x)
    assert first.n_wrong == (model.predict(x) != y).sum() and first.error == first.n_wrong / 900
    assert first.log_loss == pytest.approx(log_loss(y, chances, labels=["no", "yes"]))
    gap = 0.0
    for each in first.bins:
        inside = (chances[:, 1] >= each.low) & ((chances[:, 1] < each.high) | (each.high == 1.0))
        assert each.n_rows == inside.sum()
        if each.n_rows:
            assert each.predicted == pytest.approx(chances[inside, 1].mean())
            assert each.observed == pytest.approx((y[inside] == "yes").mean())
            gap += abs(each.predicted - each.observed) * each.n_rows / 900
    assert first.calibration_error == pytest.approx(gap)
    json.dumps(first.to_dict(), allow_nan=False)
    with pytest.raises(rb.TableError, match="has no row whose label in 'ill' is a class of the model"):
        judge_reliability([model], {**rows, "ill": ["maybe"] * 900}, "ill")


def test_reliability_of_more_classes(rng):
    x = rng.normal(size=(600, 2))
    y = np.array(["a", "b", "c"])[(x[:, 0] > 0.3).astype(int) + (x[:, 1] > 0.5)]
    model = rb.MomentsClassifier().fit_rados(rb.craft(x, y, n_rados=300, seed=0)).model_
    (found,) = judge_reliability([model], {"x0": x[:, 0], "x1": x[:, 1], "of": y}, "of")
    assert found.log_loss == pytest.approx(log_loss(y, model.predict_proba(x), labels=list(model.classes)))
    assert sum(each.n_rows for each in found.bins) == 600 and found.bins[0].n_rows == 0  # the largest of three chances
    assert found.n_wrong == (model.predict(x) != y).sum()


def test_subsets_share_no_rado():
    for n_rados in (32, 100, 1000, 1023):
        for size, parts in _disjoint_subsets_of_rados(n_rados).items():
            together = np.concatenate(parts)
            assert len(set(together.tolist())) == len(together) == size * len(parts)
        assert list(_disjoint_subsets_of_rados(n_rados))[-1] == n_rados


def test_the_curve_foresees_larger_releases(rng):
    """R2 on the table's own rows, at two and four times the number of rados, and the limit of least squares."""
    x, y = table(rng, rows=3000, d=20)
    x = x @ rng.normal(size=(20, 20))
    release = rb.craft(x, y, n_rados=3200, seed=3)
    curve = rb.learning_curve(replace(release, blocks={"rados": release.rados[:800]}))
    rows, signs = scaled(release, x), np.where(y == "yes", 1, -1)

    def share(theta):
        scores = rows @ theta
        return (signs * scores).mean() ** 2 / (scores**2).mean()

    exact = share(np.linalg.lstsq(rows, signs, rcond=None)[0])
    assert curve.beyond[-1].r2 == pytest.approx(exact, rel=3 * math.sqrt(2 / 800))  # three standard errors
    for entry in curve.beyond[:2]:
        fewer = replace(release, blocks={"rados": release.rados[: entry.n_rados]})
        theta = rb.MomentsClassifier().fit_rados(fewer).model_.theta
        assert share(theta) / exact == pytest.approx(entry.r2 / curve.beyond[-1].r2, abs=0.02)
    errors = [entry.error for entry in (*curve.theory, *curve.beyond)]
    assert errors == sorted(errors, reverse=True) and curve.theory[-1].error == pytest.approx(
        curve.points[-1].expected[0]
    )
    assert 3 < curve.freedom < 60  # 20 columns and a constant
    json.dumps(curve.to_dict(), allow_nan=False)


def test_a_curve_with_rows_to_measure_on(rng):
    x, y = table(rng)
    release = rb.craft(x, y, n_rados=64, seed=0)
    rows = pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "ill": y})
    curve = rb.learning_curve(release, table=rows, label="ill")
    assert [len(point.measured) for point in curve.points] == [2, 1]
    assert curve.points[-1].measured[0] == (rb.MomentsClassifier().fit_rados(release).predict(x) != y).mean()
    with pytest.raises(rb.ArgumentError, match="both a table and the label"):
        rb.learning_curve(release, table=rows)


def private(rng, rows=3000):
    x, y = table(rng, rows)
    names = {f"x{k}": x[:, k] for k in range(4)}
    bounds = {name: (-3, 3) for name in names}
    return rb.craft(
        pa.table({**names, "ill": y}),
        label="ill",
        mechanism=rb.Moments(5.0),
        classes=("no", "yes"),
        columns="linear",
        schema=bounds,
    ), pa.table({**names, "ill": y})


def test_what_does_not_apply_is_said(rng):
    x, y = table(rng, rows=300)
    three = rb.craft(x, np.arange(300) % 3, n_rados=100, seed=0)
    few = rb.craft(x, y, n_rados=8, seed=0)
    moments, _ = private(rng)
    for release, words in ((three, "more than two classes"), (moments, "holds moments"), (few, "of 8 rados")):
        assert words in why_no_curve(release) and "\n" not in why_no_curve(release)
        with pytest.raises(rb.ArgumentError, match=words):
            rb.learning_curve(release)
    assert "more than two classes" in why_no_rados_held_out(three) and "no rados to hold out" in why_no_rados_held_out(
        moments
    )
    assert "too few" in why_no_rados_held_out(few) and why_no_rados_held_out(rb.craft(x, y, n_rados=13, seed=0)) is None
    with pytest.raises(rb.ArgumentError, match="nothing to look into"):
        rb.model_report(None)


def test_learners_are_compared(rng):
    x, y = table(rng)
    release = rb.craft(x, y, n_rados=300, seed=0)
    rows = pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "ill": y})
    steps = []
    found = rb.compare_learners(release, table=rows, label="ill", progress=lambda *step: steps.append(step))
    names = ["moments", "boost", "boost, lasso", "boost, ridge", "boost, scores"]
    assert [each.name for each in found] == names
    assert found[0].r2 >= found[1].r2 - found[0].spread and all(0 < each.spread < 0.2 for each in found)
    assert all(0 < each.expected_error < 0.5 and 0 < each.n_used <= each.n_columns == 4 for each in found)
    for each in found:
        assert each.expected_error == pytest.approx(each.measured.error, abs=0.08)
    done = [step[1:] for step in steps if step[0] == "comparing learners"]
    assert done == sorted(done) and done[-1][0] < done[-1][1]
    json.dumps([each.to_dict() for each in found], allow_nan=False)


def test_a_private_release_counts_its_errors(rng):
    release, rows = private(rng)
    error, deviation = error_by_noisy_counts(release)
    model = rb.MomentsClassifier().fit_rados(release).model_
    (found,) = judge_reliability([model], rows, "ill")
    assert abs(error - found.error) < 5 * deviation + 0.01 and 0 < deviation < 0.05
    assert error_by_noisy_counts(rb.craft(np.eye(4), [0, 1, 0, 1], n_rados=4)) is None
    text = str(coefficient_findings(model, release).tables[0].rows)
    assert "noisy numbers of its own rows" in text


def test_coefficients_are_in_units_of_columns(rng):
    x, y = table(rng)
    x = x * np.array([1.0, 100.0, 0.01, 5.0])
    clf = rb.MomentsClassifier().fit_rados(rb.craft(x, y, n_rados=500, seed=0))
    found = {each.name: each for each in coefficients_of_model(clf.model_)}
    for k, name in enumerate(clf.model_.column_names):
        assert found[name].value == pytest.approx(clf.coef_[0, k], rel=1e-9)
        assert found[name].standard_error == pytest.approx(clf.standard_errors_[k] / clf.model_.columns[k].std)
    order = list(found)
    assert order[:2] == ["x0", "x1"] and found["x0"].clear and not found["x2"].clear
    boosted = rb.RadoBoostClassifier(n_rounds=9).fit_rados(clf.release_).model_
    assert all(each.standard_error is None and each.clear is None for each in coefficients_of_model(boosted))
    assert "no standard errors" in coefficient_findings(boosted).tables[1].note


def test_what_is_read_once_is_read_once(rng):
    x, y = table(rng, rows=200)
    release = rb.craft(x, y, n_rados=64, seed=0)
    rows = pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "ill": y})
    once = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())
    inside = rb.model_report(release, table=once, label="ill")
    assert inside.reliability.n_rows == 200 and inside.curve.points[-1].measured is not None
    assert inside.learners[0].measured == inside.reliability
    assert [each.findings.name for each in model_report_documents(inside, "rado learn")] == [
        "learned", "effects", "curve", "reliability", "learners",
    ]  # fmt: skip
    json.dumps(inside.to_dict(), allow_nan=False)


def test_the_page(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = table(rng, rows=300)
    rows = pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "ill": y})
    pa.csv.write_csv(rows, "test.csv")
    rb.craft(rows, label="ill", n_rados=100, seed=0).save("t.rado.parquet")
    run = CliRunner()
    asked = ["learn", "t.rado.parquet", "--report", "t.html", "--table", "test.csv", "--label", "ill", "--json"]
    learned = run.invoke(app, asked)
    assert learned.exit_code == 0, learned.output
    inside = json.loads(learned.stdout)["inside"]
    assert inside["reliability"]["n_rows"] == 300 and len(inside["learners"]) >= 2
    page = (tmp_path / "t.html").read_text()
    for words in ("Coefficients with intervals", "Learning curve", "Reliability", "Effects of columns",
                  "All learners on this release", "What is promised", "expected error",
                  "rado learn t.rado.parquet --report t.html --table test.csv --label ill"):  # fmt: skip
        assert words in page, words
    assert "These are exact numbers about these rows" in page and "The promise of the release" not in page
    assert not re.search(r"(src|href|srcset)=\"(?!data:|#)", page)  # nothing from elsewhere
    for arguments, words in (
        (["--table", "test.csv", "--label", "ill"], "are for the page of --report"),
        (["--table", "test.csv", "--report", "u.html"], "give both --table FILE and --label COL"),
        (["--table", "test.csv", "--label", "nothing", "--report", "u.html"], "has no column 'nothing' for the label"),
    ):
        refused = run.invoke(app, ["learn", "t.rado.parquet", "-o", "u.model.json", *arguments])
        assert refused.exit_code == 1 and words in refused.stderr and refused.stderr.count("\n") == 1, refused.output
        assert not (tmp_path / "u.html").exists() and not (tmp_path / "u.model.json").exists()
    told = run.invoke(app, ["learn", "t.rado.parquet", "-o", "v.model.json", *asked[2:-1], "--force"])
    error = inside["reliability"]["error"]
    assert f"of 300 rows wrong, {100 * error:.2f} %, give or take" in told.stdout
    glance = page.partition("At a glance")[2].partition("Contents")[0]
    assert "expected error" in glance and f"{100 * error:.2f} %, give or take" in glance


def test_ctrl_c_says_that_the_model_is_there(rng, tmp_path, monkeypatch):
    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    rb.craft(*table(rng, rows=60), n_rados=20, seed=0).save("t.rado.parquet")
    monkeypatch.setattr("radoboost.report.model_report.model_report", stop)
    stopped = CliRunner().invoke(app, ["learn", "t.rado.parquet", "--report", "t.html"])
    assert stopped.exit_code == 130 and "the model itself is in t.model.json" in stopped.stderr
    assert (tmp_path / "t.model.json").exists() and not (tmp_path / "t.html").exists()


def test_the_page_of_other_releases(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release, rows = private(rng)
    release.save("p.rado.parquet")
    pa.csv.write_csv(rows.slice(0, 300), "test.csv")
    three = rb.craft(np.column_stack([rows["x0"], rows["x1"]])[:300], np.arange(300) % 3, n_rados=60, seed=0)
    three.save("three.rado.parquet")
    run = CliRunner()
    for asked, present in (
        (["p.rado.parquet", "--table", "test.csv", "--label", "ill"], ["Nothing promises anything about the rows",
         "holds moments, and no rados to take a part of", "log-loss", "Coefficients with intervals"]),
        (["p.rado.parquet"], ["No table was given to measure on", "no rados to hold out"]),
        (["three.rado.parquet"], ["no learning curve of more than two classes", "effects of columns on each class"]),
        (["p.rado.parquet", "p.rado.parquet", "--one-holder", "-o", "both.model.json"], ["several"]),
    ):  # fmt: skip
        done = run.invoke(app, ["learn", *asked, "--report", "t.html", "--force"])
        if "--one-holder" in asked and done.exit_code:
            continue  # a release is not averaged with itself
        assert done.exit_code == 0, done.output
        page = (tmp_path / "t.html").read_text()
        for words in present:
            assert words in page, words


def curve_of(errors, r2, n_rados, measured=None, ever=0.0):
    points = [
        Point(size, (error,) * 2, share, None if measured is None else (seen,) * 2)
        for size, error, share, seen in zip(n_rados, errors, r2, measured or errors, strict=True)
    ]
    theory = tuple(CurveForecast(p.n_rados, p.r2, p.expected[0]) for p in points)
    beyond = tuple(CurveForecast(size, r2[-1], ever) for size in (2 * n_rados[-1], 4 * n_rados[-1], None))
    return LearningCurve(tuple(points), theory, beyond, 0.9, 10.0)


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (curve_of([0.02, 0.0013], [0.8, 0.85], [200, 400], ever=0.0009), "next to nothing"),
        (curve_of([0.02, 0.02], [0.8, 0.8], [200, 400], ever=0.017), "may help, or not"),
        (curve_of([0.3, 0.25], [0.3, 0.4], [2000, 4000], ever=0.2), "would help much"),
        (curve_of([0.1, 0.05], [0.6, 0.8], [200, 400], [0.035, 0.036], ever=0.01), "erred 0.10 points more than 200"),
        (curve_of([0.1, 0.1], [0.6, 0.6], [200, 400], [0.09, 0.06], ever=0.1), "3.00 points less than 200: more of"),
    ],
)
def test_what_more_rados_bring_is_judged_in_points(curve, words):
    found = learning_curve_findings(curve, None)
    assert words in found.notes[0]
    assert "at most" not in " ".join(found.notes)  # one R2 a name
    assert all(error is None or error <= y for s in found.figures[0].panels[0].series if s.error
               for y, error in zip(s.y, s.error, strict=True))  # fmt: skip
    assert len(repr(curve)) < 120


def test_reliability_has_a_bar_for_each_bin():
    bins = tuple(Bin(k / 10, k / 10 + 0.1, 5, k / 10 + 0.05, 0.5) for k in (0, 9))
    model = rb.Model(np.array([1.0]), (rb.Column("x", "none", step=1.0),), ("no", "yes"), {"name": "by hand"})
    panel = reliability_findings(Reliability(10, 5, 0.7, 0.7, 0.4, bins), model).figures[0].panels[0]
    assert len(panel.bands) == 2 and all(max(band.x) - min(band.x) < 0.05 for band in panel.bands)


def test_short_words(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = table(rng)
    x[:, 1] *= 100
    release = rb.craft(x, y, n_rados=60, seed=0)
    release.save("t.rado.parquet")
    inside = rb.model_report(release)
    assert len(repr(inside)) < 120 and all(len(repr(each)) < 120 for each in inside.learners)
    clf = rb.MomentsClassifier().fit_rados(release)
    told = {each.name: each.standard_error for each in coefficients_of_model(clf.model_)}
    assert clf.coef_standard_errors_.shape == clf.coef_.shape
    assert clf.coef_standard_errors_[0] == pytest.approx([told[f"x{k}"] for k in range(4)])
    run = CliRunner()
    asked = ["learn", "t.rado.parquet", "--learner", "boost", "--set"]
    refused = run.invoke(app, [*asked, "penalty=much"])
    assert (
        refused.exit_code == 1
        and "penalty must be None, or one of lasso, ridge, scores; it is 'much'" in refused.stderr
    )
    empty = run.invoke(app, [*asked, "penalty=lasso", "--set", "strength=100"])
    assert empty.exit_code == 0 and "no column has a weight" in empty.stderr


@pytest.mark.parametrize("n_rados", [4, 9, 10, 12, 13])
def test_few_rados_can_be_looked_into(rng, n_rados):
    x, y = table(rng, rows=60)
    rows = pa.table({**{f"x{k}": x[:, k] for k in range(4)}, "ill": y})
    inside = rb.model_report(rb.craft(rows, label="ill", n_rados=n_rados, seed=0), table=rows, label="ill")
    assert len(inside.learners) == (5 if n_rados >= 10 else 2)
    assert (inside.learners[0].r2 is None) == (n_rados < 13)
