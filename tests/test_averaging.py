"""Private moments of several holders: the average of their models, and what is promised to whom."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.learner import model_averaging
from radoboost.learner.moments import learn_released_moments
from radoboost.learner.probabilities import ProbabilityLink, probability_link_by_counts, probability_link_of_scores
from radoboost.privacy import (
    Composed,
    Gaussian,
    Relation,
    epsilon_at,
    event_from_dict,
    event_to_dict,
    gaussian_multiplier,
)
from radoboost.release.compatibility import PartyRelease
from radoboost.release.composition import _costliest_events_first, statement_of_parties_together
from radoboost.release.parties import Parties, PartyGuarantee
from radoboost.release.statement_check import check_statement
from radoboost.release.statement_text import statement_text
from radoboost.report.describe import describe_model

BOUNDS = {"x0": (-3, 3), "x1": (-3, 3), "x2": (-3, 3)}


def rows(rng, n=1500, shift=0.0):
    x = rng.normal(size=(n, 3)) + np.array([shift, 0.0, 0.0])
    return np.clip(x, -3, 3), np.where(x @ [1.0, -1.0, 0.5] + rng.logistic(size=n) / 2 > 0, 1, -1)


def private(x, y, epsilon=1.0, **options):
    defaults = {"classes": (-1, 1), "bounds": BOUNDS, "columns": "linear", "mechanism": rb.Moments(epsilon)}
    return flat.craft(x, y, **{**defaults, **options})


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(8)
    return [private(*rows(rng, n)) for n in (1500, 3000, 900)]


# ---- the average


def of_own_rows(release):
    """What weights are to be multiplied with, so that log odds are those of the release's rows and not of new ones."""
    return probability_link_by_counts(release).scale / probability_link_of_scores(release).scale


def test_the_average_is_that_of_the_formula(three):
    """A slow twin: the weight of a holder is the second moment of its scores, of eigenvalues that are floored."""
    left, right = np.zeros((4, 4)), np.zeros(4)
    for release in three:
        mechanism, blocks = release.mechanism, release.blocks
        a, second, constant = blocks["whitening"], blocks["moment:C"], mechanism["constant"]
        size = np.trace(second)
        stretch = np.sqrt(np.trace(a @ second @ a) / size)
        share = min(1.0, max(second[-1, -1] / size, constant**2 / (3 + constant**2)))
        factors = a / (stretch * constant / np.sqrt(share)) * np.array([1, 1, 1, constant])[:, None]
        values, vectors = np.linalg.eigh(blocks["moment:C2"])
        floor = 0.5 * mechanism["noise"]["whitened"] * np.sqrt(8)
        middle = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
        weight = np.linalg.inv(factors).T @ middle @ np.linalg.inv(factors)
        left, right = left + weight, right + weight @ learn_released_moments(release).theta * of_own_rows(release)
    model = rb.MomentsClassifier().fit_rados(three).model_
    np.testing.assert_allclose(model.theta, np.linalg.solve(left, right), rtol=1e-9)


def test_one_holder_many_times_over_is_its_own_average(three):
    """Copies under other names: weights are equal, and so is what is averaged; noise is as if it were independent."""
    copies = [replace(three[0], id=f"{k:032x}") for k in range(4)]
    fit = model_averaging.average_moments_of_parties(
        [PartyRelease(str(k), release) for k, release in enumerate(copies)]
    )
    alone = learn_released_moments(three[0])
    factor = of_own_rows(three[0])
    assert factor > 1
    np.testing.assert_allclose(fit.theta, factor * alone.theta, rtol=1e-9)
    np.testing.assert_allclose(fit.standard_errors, factor * alone.standard_errors / 2, rtol=1e-9)


@pytest.mark.slow
def test_standard_errors_are_those_of_the_noise(monkeypatch):
    """Over 60 runs of the noise alone; a ratio of deviations is off by 1 / sqrt(120) in one deviation of its own.

    A factor of 2 is 5.6 of those, for each of 4 columns: false alarms below 1e-6. The scale that all weights share is
    read off counts, and what their noise does to it is in no standard error, of one release or of several.
    """
    monkeypatch.setattr(model_averaging, "probability_link_by_counts", lambda release: ProbabilityLink())
    rng = np.random.default_rng(1)
    tables = [rows(rng, n) for n in (2500, 1500)]
    fits = [
        model_averaging.average_moments_of_parties(
            [PartyRelease(str(k), private(*table, epsilon=2.0)) for k, table in enumerate(tables)]
        )
        for _ in range(60)
    ]
    spread = np.std([fit.theta for fit in fits], axis=0)
    ratio = np.mean([fit.standard_errors for fit in fits], axis=0) / spread
    assert ((ratio > 0.5) & (ratio < 2.0)).all(), ratio


@pytest.mark.slow
def test_shifted_columns_do_not_mislead_it():
    """Where each holder sees one side of a column, models alone know little of the other."""
    rng = np.random.default_rng(2)
    parts = [private(*rows(rng, 4000, shift)) for shift in (-1.5, 0.0, 1.5)]
    x, y = rows(rng, 20_000)
    together_, alone = (np.mean(model.predict(x) != y) for model in (
        rb.MomentsClassifier().fit_rados(parts), rb.MomentsClassifier().fit_rados(private(*rows(rng, 12_000)))
    ))  # fmt: skip
    assert together_ < alone + 0.02


def test_holders_that_tell_nothing_are_left_out(three, monkeypatch):
    empty = private(np.zeros((1, 3)), np.array([1]))
    chances = [model_averaging.chance_of_empty_table(release) for release in (*three, empty)]
    assert max(chances[:3]) < 1e-6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_averaging, "NOTHING", min(0.5, chances[3] / 2))
        with pytest.warns(rb.NoiseWarning, match="release 4, or a fuller one, more often than not"):
            model = rb.MomentsClassifier().fit_rados([*three, empty]).model_
    assert model.learner["left_out"] == ["release 4"]
    np.testing.assert_allclose(model.theta, rb.MomentsClassifier().fit_rados(three).model_.theta, rtol=1e-9)
    assert len(model.statement.holders.parts) == 4  # what was left out is released all the same
    monkeypatch.setattr(model_averaging, "NOTHING", -1.0)  # all would be left out, so none is
    with pytest.warns(rb.NoiseWarning, match="of every one of the releases: an empty table"):
        model = rb.MomentsClassifier().fit_rados([private(np.zeros((1, 3)), [1], 0.01) for _ in range(2)]).model_
    assert model.learner["left_out"] == []


def test_the_model_predicts_and_comes_back_from_its_file(three, tmp_path, rng):
    classifier = rb.MomentsClassifier().fit_rados(three)
    x, y = rows(rng, 500)
    assert classifier.score(x, y) > 0.8 and classifier.predict_proba(x).shape == (500, 2)
    assert classifier.releases_ == tuple(three) and not hasattr(classifier, "release_")
    assert (classifier.standard_errors_ > 0).all() and classifier.model_.link is None
    classifier.model_.save(tmp_path / "m.model.json")
    model = rb.load_model(tmp_path / "m.model.json")
    assert model.to_json() == classifier.model_.to_json()
    words = " ".join(describe_model(model).split())
    assert "the average of 3 holders" in words and "one who is at two of the holders: epsilon 1.4" in words
    assert "for 3 records, all added or all removed, as neighbours" in words.split("at all 3 holders")[1][:200]
    assert "for 2 records, all added or all removed, as neighbours" in words.split("at two of the holders")[1][:200]
    assert "Of those releases, together:" in words and "left_out" not in words
    figure = model.statement.holders.figures[0]
    assert figure.to_dict()["size"] == 2 and figure.to_dict()["neighbours"] == figure.neighbours
    with pytest.raises(ValueError, match="at least one record"):
        PartyGuarantee.from_dict({**figure.to_dict(), "size": 0})
    classifier.fit_rados(three[0])
    assert classifier.release_ is three[0]


def test_a_prior_goes_by_the_rows_of_all(three):
    model = rb.MomentsClassifier(prior=0.1).fit_rados(three).model_
    plain = rb.MomentsClassifier().fit_rados(three).model_
    old = model.learner["shares"]["1"]
    assert 0.4 < old < 0.6
    moved = model.log_odds(model.scores([[0.0, 0.0, 0.0]])) - plain.log_odds(plain.scores([[0.0, 0.0, 0.0]]))
    assert moved[0] == pytest.approx(math.log(0.1 / 0.9) - math.log(old / (1 - old)))


# ---- what is promised


def test_a_record_at_one_holder_pays_once_and_one_at_several_more(three):
    statement = rb.MomentsClassifier().fit_rados(three).model_.statement
    assert statement.epsilon == pytest.approx(1.0, abs=1e-6) and statement.neighbours == Relation.RECORD.value
    two, everywhere = statement.holders.figures
    assert (two.case, everywhere.case) == ("one who is at two of the holders", "one who is at all 3 holders")
    assert round(two.epsilon, 2) == 1.45 and 1.75 < everywhere.epsilon < 1.9
    assert statement.holders.how == "averaged"
    assert [part["id"] for part in statement.holders.parts] == [release.id for release in three]
    low = statement_of_parties_together(
        [PartyRelease(str(k), private(np.zeros((9, 3)), np.ones(9), 0.3)) for k in range(2)]
    )
    assert round(low.epsilon, 3) == 0.3 and round(low.holders.figures[0].epsilon, 2) == 0.43
    check_statement(statement)


def test_the_costliest_release_speaks_for_all(rng):
    x, y = rows(rng, 60)
    parts = [PartyRelease(str(k), private(x, y, epsilon)) for k, epsilon in enumerate((0.5, 2.0, 1.0))]
    statement = statement_of_parties_together(parts)
    assert statement.epsilon == pytest.approx(2.0, abs=1e-6)
    events = {k: event_from_dict(part.release.statement.event) for k, part in enumerate(parts)}
    assert statement.holders.figures[0].epsilon == epsilon_at(Composed((events[1], events[2])), 1e-6)
    claimed = replace(statement, epsilon=1.9)
    with pytest.raises(rb.ReleaseError, match="costs 2"):
        check_statement(claimed)
    figure = replace(statement.holders.figures[0], epsilon=2.1)
    claimed = replace(statement, holders=replace(statement.holders, figures=(figure,)))
    with pytest.raises(rb.ReleaseError, match="for one who is at two of the holders, costs"):
        check_statement(claimed)


def test_an_average_promises_no_more_than_its_parts(three):
    small = Gaussian(gaussian_multiplier(0.01, 1e-6), Relation.RECORD)
    shown = {"event": event_to_dict(small), "epsilon": 0.01, "best_guess": 1.0}
    faint = {**shown, "epsilon_at": ((1e-9, epsilon_at(small, 1e-9)),)}
    average = rb.MomentsClassifier().fit_rados(three).model_.statement
    table = rb.MomentsClassifier().fit_rados(three, one_holder=True).model_.statement
    check_statement(table)
    figures = tuple(PartyGuarantee.of(figure.case, small, 1e-6, figure.size) for figure in average.holders.figures)
    for claimed in (
        replace(average, holders=replace(average.holders, figures=figures)),
        replace(average, holders=replace(average.holders, figures=figures[1:])),
        replace(average, **faint),
        replace(table, **faint),
        replace(average, holders=replace(average.holders, how="one table", figures=())),
        replace(average, holders=replace(average.holders, parts=({**average.holders.parts[0], "epsilon": 0.5},))),
    ):
        with pytest.raises(rb.ReleaseError, match="do not trust it"):
            check_statement(claimed)


def test_events_of_which_none_costs_most_everywhere_are_composed():
    wide, narrow = Gaussian(4.0, Relation.RECORD, total_variation=9e-7), Gaussian(3.9, Relation.RECORD)
    crossed = _costliest_events_first([wide, narrow], [1e-6, 1e-4])
    assert crossed[0] not in (wide, narrow)
    for delta in (1e-6, 1e-4):
        assert epsilon_at(crossed[0], delta) >= max(epsilon_at(event, delta) for event in (wide, narrow))
    assert _costliest_events_first([narrow, Gaussian(2.0, Relation.RECORD)], [1e-6])[0].noise_multiplier == 2.0


def test_releases_of_one_table_compose(rng):
    x, y = rows(rng, 80)
    first, other = private(x, y), private(x, y)
    second = private(x, y, compose=[first])
    third = private(x, y, compose=[first])
    seen = statement_of_parties_together(
        [PartyRelease("a", first), PartyRelease("b", second), PartyRelease("c", other)]
    )
    assert round(seen.epsilon, 2) == 1.45  # of the table that two are of
    assert seen.holders.figures[0].case == "one who is at two of the holders" and len(seen.holders.figures) == 1
    through_a_third = statement_of_parties_together([PartyRelease("b", second), PartyRelease("c", third)])
    assert round(through_a_third.epsilon, 2) == 1.45
    (earlier,) = through_a_third.holders.figures
    assert "earlier releases" in earlier.case and 1.75 < earlier.epsilon < 1.9
    declared = rb.MomentsClassifier().fit_rados([first, other], one_holder=True).model_.statement
    assert round(declared.epsilon, 2) == 1.45 and not declared.holders.figures
    assert "at one of the holders" not in declared.unit_of_privacy
    assert declared.trust_model == first.statement.trust_model
    assert "holders" not in " ".join((*statement_text(declared)["What is promised"], *declared.not_protected))
    assert "the average of 2 releases of one holder's table" in statement_text(declared)["What is promised"]
    assert Parties.from_dict(declared.holders.to_dict()) == declared.holders


# ---- refusals


def test_what_cannot_be_averaged_is_refused_by_name(three, rng, tmp_path):
    x, y = rows(rng, 400)
    plain = [rb.craft(x[:200], y[:200]), rb.craft(x[200:], y[200:])]
    cases = [
        (plain, "release 1 does not hold private moments.*rado merge A B C"),
        ([three[0], plain[0]], "release 2 does not hold private moments"),
        ([three[0]], "at least two"),
        ([three[0], three[0]], "are one release"),
        ([three[0], private(x, y, bounds={**BOUNDS, "x1": (-4, 4)})], "'x1' has the bounds -3 to 3"),
        ([three[0], private(x, y, classes=(1, -1))], "in the same order"),
        ([three[0], private(x, y, columns="degree-2")], "--columns linear, or make one release in a room"),
        ([three[0], private(x, y, mechanism=rb.Moments(1.0, unit="label"))], "promise different things: .* flipped"),
        ([private(x, y % 3, classes=(0, 1, 2))] * 2, "has 3 classes, and averages are of two"),
        ([three[0], private(x[:, :2], y, bounds={"x0": (-3, 3), "x1": (-3, 3)})], "'x2' is in one alone"),
    ]
    for releases, words in cases:
        with pytest.raises(rb.ArgumentError, match=words):
            rb.MomentsClassifier().fit_rados(releases)
    with pytest.raises(rb.ArgumentError, match="RadoBoostClassifier learns from one release"):
        rb.RadoBoostClassifier().fit_rados(three)
    with pytest.raises(rb.ArgumentError, match="one_holder is about several"):
        rb.MomentsClassifier().fit_rados(three[0], one_holder=True)


def test_plans_that_came_out_alike_are_averaged(rng):
    """Where the table's own columns are all that a plan has, there is nothing to refuse."""
    parts = [private(*rows(rng, 60), columns="auto") for _ in range(2)]
    assert all("plan" in release.mechanism and release.map is None for release in parts)
    assert rb.MomentsClassifier().fit_rados(parts).model_.map is None
    planned = [private(*rows(rng, 40_000), columns="auto") for _ in range(2)]
    assert planned[0].map is not None and planned[0].map != planned[1].map
    with pytest.raises(rb.ArgumentError, match="each planned by its own moments"):
        rb.MomentsClassifier().fit_rados(planned)


# ---- the command


def test_the_command_averages_files(rado, three):
    for name, release in zip("abc", three, strict=True):
        release.save(f"{name}.rado.parquet")
    files = [f"{name}.rado.parquet" for name in "abc"]
    code, out, err = rado("learn", *files)
    assert code == 0 and out.startswith("wrote average.model.json"), err
    assert "rado: the epsilon takes each release to be of another holder's table" in err and "add --one-holder" in err
    code, out, err = rado("learn", *files, "-o", "j.model.json", "--json", "--one-holder")
    document = json.loads(out)
    assert "one-holder" not in err
    assert code == 0 and 1.75 < document["statement"]["epsilon"] < 1.9
    assert document["statement"]["holders"]["how"] == "one table"
    code, out, _ = rado("show", "average.model.json")
    assert code == 0 and "one who is at all 3 holders" in " ".join(out.split())
    code, out, err = rado("learn", *files, "--report", "p.html")
    assert code == 0, err
    code, _, err = rado("learn", "a.rado.parquet", "--one-holder")
    assert code == 1 and "several releases" in err
    code, _, err = rado("learn", *files, "--learner", "boost", "-o", "x.model.json")
    assert code == 1 and err.count("\n") == 1 and "learns from one release" in err
