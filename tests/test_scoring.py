"""The private test error: what a row adds, how much noise there is, what the interval covers, where it is booked."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm

import radoboost as rb
from radoboost import private_score
from radoboost.privacy import Gaussian, Relation, epsilon_at
from radoboost.privacy.ledger import Ledger
from radoboost.private_score import GRID, plan_private_score, score_rate_interval

COLUMN = rb.Column("x0", "none", step=2.0**-20)
UNBOOKED = pytest.mark.filterwarnings("ignore:a table is scored privately")  # many times here, and on no ledger
MODEL = rb.Model(np.array([1.0]), (COLUMN,), (0, 1), {"name": "by hand"})


def counted(table, y=None, model=MODEL, label=None):
    """The exact counts, without noise."""
    task = private_score.CountOutcomes(model, private_score.LabelEncoder(label or "y", model.classes))
    source = private_score.open_table(table, y, label=label, features=model.feature_names, row_by_row=True)
    sums = task.empty()
    for batch in source.batches(3):
        task.add(sums, 0, batch)
    counts = (sums.counts // GRID).tolist()
    assert (sums.counts == GRID * np.array(counts)).all() and (sums.merge(sums).counts == 2 * sums.counts).all()
    return tuple(counts)


def test_rows_are_predicted_one_by_one():
    X = np.array([[1.0], [2.0], [-1.0], [-3.0], [4.0], [np.nan], [np.inf], [5.0]])
    y = np.array([1, 0, 0, 1, 7, 1, 1, 1])
    assert counted(X, y) == (2, 3)
    assert counted(np.zeros((0, 1)), np.zeros(0)) == (0, 0)
    for k in range(len(X)):  # a row changes its own count, by one at most
        rest = np.delete(X, k, axis=0), np.delete(y, k)
        change = np.subtract((2, 3), counted(*rest))
        assert change.tolist() in ([0, 0], [1, 0], [0, 1])


def test_files_and_frames_are_scored(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("ill,x0,other\n1,2.5,a\n0,-1,b\n0,3,c\nmaybe,1,d\n1,much,e\n1,1e999,f\n")
    assert counted(path, label="ill") == (1, 2)
    frame = pa.table({"x0": [2.5, -1.0, 3.0, None], "ill": [1, 0, 0, 1]})
    assert counted(frame, label="ill") == (1, 2)
    big = rb.Model(np.array([1e300]), (COLUMN,), (0, 1), {"name": "by hand"})
    assert counted(np.array([[1e300], [1.0]]), np.array([1, 1]), big) == (0, 1)  # one without a score stops nobody
    noisy = rb.score(MODEL, path, label="ill", epsilon=60.0)  # noise of 0.13: 0.9 is seven deviations
    assert abs(noisy.errors - 1) < 0.95 and abs(noisy.hits - 2) < 0.95


ODD = [
    "",
    "nan",
    "inf",
    "-1e999",
    "much",
    '"',
    '"1',
    "1,2",
    "\x00",
    "\ufeff",
    "1" * 400,
    "0x1",
    "1e5e5",
    "é",
    ";",
    "\t1",
]
cells = st.one_of(st.sampled_from(ODD), st.integers(-3, 3).map(str))


@given(st.lists(st.tuples(st.sampled_from("01"), st.integers(-3, 3)), max_size=6), cells, cells, st.integers(0, 6))
def test_one_line_changes_one_count_by_one_whatever_it_holds(rows, label, cell, place):
    lines = [f"{label},{value}" for label, value in rows]
    more = [*lines[:place], f"{label},{cell}", *lines[place:]]
    with tempfile.TemporaryDirectory() as folder:
        counts = []
        for k, table in enumerate((lines, more)):
            path = Path(folder) / f"{k}.csv"
            path.write_text("\n".join(["ill,x0", *table]) + "\n", encoding="utf-8")
            counts.append(counted(path, label="ill"))
    assert np.subtract(*reversed(counts)).tolist() in ([0, 0], [1, 0], [0, 1])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 50.0])
def test_the_stated_cost_is_that_of_the_noise(epsilon):
    result = rb.score(MODEL, np.ones((5, 1)), np.ones(5), epsilon=epsilon)
    assert result.neighbours == "one record added or removed" and result.delta == 1e-6
    assert epsilon * 0.9999 <= result.epsilon <= epsilon
    assert result.event.noise_multiplier <= result.noise_std <= result.event.noise_multiplier * (1 + 1e-9)
    assert epsilon_at(Gaussian(result.noise_std, Relation.RECORD), 1e-6) <= epsilon
    document = json.loads(json.dumps(result.to_dict()))
    assert document["neighbours"] == result.neighbours and document["event"]["name"] == "Gaussian"
    assert f"at delta 1e-06, for {result.neighbours}" in result.sentence()


def audited(runs):
    """A lower bound on mu from scores with and without one record, the claim, and the noise over the stated one.

    The difference of the means over the deviation is nearly normal, about mu, with variance 2 / runs and a little for
    the estimate of the deviation; the bound is wrong with probability 1e-6.
    """
    _, event = plan_private_score(4.0, 1e-6)
    X, y = np.ones((3, 1)), np.ones(3)
    with_it = np.array([rb.score(MODEL, X, y, epsilon=4.0, threads=1).hits for _ in range(runs)])
    without = np.array([rb.score(MODEL, X[1:], y[1:], epsilon=4.0, threads=1).hits for _ in range(runs)])
    deviation = math.sqrt((with_it.var(ddof=1) + without.var(ddof=1)) / 2)
    found = (with_it.mean() - without.mean()) / deviation - norm.isf(1e-6) * math.sqrt(2.5 / runs)
    return found, 1 / event.noise_multiplier, deviation * event.noise_multiplier**-1


@UNBOOKED
def test_an_audit_finds_no_more_than_the_claim():
    """False alarms below 1e-6 each: of the distance, and of the noise's variance by chi-square."""
    runs = 300
    found, claim, ratio = audited(runs)
    assert found <= claim
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 2 * (runs - 1)) / (2 * (runs - 1))
    assert low <= ratio**2 <= high


@UNBOOKED
def test_halved_noise_is_caught(monkeypatch):
    def halved(epsilon, delta):
        scale, event = plan_private_score(epsilon, delta)
        return private_score.scale_rounded_up(scale / 2), event

    monkeypatch.setattr(private_score, "plan_private_score", halved)
    found, claim, ratio = audited(300)
    assert found > claim and ratio < 0.7


@UNBOOKED
def test_the_interval_covers_the_noise():
    """At 90 %: the number of misses in 400 lies within binomial limits of probability 1e-6 on each side."""
    X, y = np.ones((200, 1)), np.r_[np.zeros(30), np.ones(170)]
    results = [rb.score(MODEL, X, y, epsilon=1.0, confidence=0.9, threads=1) for _ in range(400)]
    covered = sum(low <= 0.15 <= high for low, high in (result.interval for result in results))
    assert binom.ppf(1e-6, 400, 0.9) <= covered <= binom.isf(1e-6, 400, 0.9)
    assert all(result.interval[0] <= result.error <= result.interval[1] for result in results)


def test_the_interval_holds_the_rate_at_least_as_often_as_it_says():
    """E = -5 at noise 1 is beyond 1.96 deviations, and the rate 0 is inside all the same: the interval is cut to it."""
    assert score_rate_interval(-5.0, 300.0, 1.0, 0.95) == (0.0, 0.0)
    assert score_rate_interval(300.0, -5.0, 1.0, 0.95) == (1.0, 1.0)
    for text in (score_rate_interval.__doc__, private_score.Score.__doc__):
        assert "at `confidence` at least" in " ".join(text.split()) and "exact" not in text


def test_the_interval_is_where_the_quadratic_says():
    for errors, hits, deviation in ((20.0, 80.0, 4.0), (0.5, 300.0, 2.0), (-3.0, 100.0, 4.0), (90.0, -2.0, 4.0)):
        low, high = score_rate_interval(errors, hits, deviation, 0.95)
        rates = np.linspace(0, 1, 20_001)
        inside = np.abs((1 - rates) * errors - rates * hits) <= norm.ppf(0.975) * deviation * np.hypot(1 - rates, rates)
        assert rates[inside].min() == pytest.approx(low, abs=1e-4)
        assert rates[inside].max() == pytest.approx(high, abs=1e-4)
    for nothing in ((1.0, 2.0, 4.0), (-5.0, -7.0, 1.0), (0.0, 0.0, 1.0)):
        assert score_rate_interval(*nothing, 0.95) == (0.0, 1.0)


def test_scores_are_booked_for_both_tables(tmp_path):
    here = Ledger.create(tmp_path / "test.ledger", "test", epsilon=2.0)
    there = Ledger.create(tmp_path / "train.ledger", "train", epsilon=1.2)
    X, y = np.ones((5, 1)), np.ones(5)
    result = rb.score(MODEL, X, y, epsilon=1.0, ledger=[here, there.path, here])
    assert result.bookings == (here.entries()[0].id, there.entries()[0].id)
    assert [entry.purpose for entry in here.entries()] == ["score"] and there.entries()[0].event == result.event
    with pytest.raises(rb.BudgetError, match="'train'"):  # refused by one, booked on neither
        rb.score(MODEL, X, y, epsilon=1.0, ledger=[here, there])
    assert len(here.entries()) == len(there.entries()) == 1
    labels = Ledger.create(tmp_path / "labels.ledger", "test", epsilon=3.0, relation="label")
    rb.score(MODEL, X, y, epsilon=1.0, ledger=labels)
    assert float(labels.spent().mu_squared) == pytest.approx(4 * float(here.spent().mu_squared), rel=1e-12)


@pytest.mark.parametrize("first", ["booked", "unbooked"])
def test_the_second_score_warns_if_one_is_on_no_ledger(first, tmp_path):
    ledger = Ledger.create(tmp_path / "test.ledger", "test", epsilon=9.0)
    X, y = np.ones((5, 1)), np.ones(5)
    rb.score(MODEL, X, y, epsilon=1.0, ledger=ledger if first == "booked" else None)
    with pytest.warns(rb.BudgetWarning, match=r"scores of the same people add up.* Give ledger= to all of them"):
        rb.score(MODEL, X, y, epsilon=1.0)
    rb.score(MODEL, X, y, epsilon=1.0)  # said already; a warning would be an error here


def test_booked_scores_do_not_warn(tmp_path):
    ledger = Ledger.create(tmp_path / "test.ledger", "test", epsilon=9.0)
    for _ in range(3):
        rb.score(MODEL, np.ones((5, 1)), np.ones(5), epsilon=1.0, ledger=ledger)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": 1.0, "delta": 2}, "delta must lie between"),
        ({"epsilon": 1.0, "confidence": 1.0}, "confidence must lie"),
        ({"epsilon": 1e-12, "delta": 1e-12}, "more noise than can be sampled"),
        ({"epsilon": 1.0, "ledger": 3}, "ledger must be a Ledger"),
    ],
)
def test_bad_arguments_are_refused_before_the_table_is_opened(options, message, tmp_path):
    with pytest.raises(rb.ArgumentError, match=message):
        rb.score(MODEL, tmp_path / "nowhere.csv", label="y", **options)


@UNBOOKED
@pytest.mark.parametrize(
    ("label", "marks", "header", "row", "odd"),
    [
        ("y", {"separator": ":"}, 'a:"x,""":y', "0.1:z:no", '0.5:",:":no'),
        ('y;"x', {"records": "lines"}, 'a,y;"x', "0.1,no", '0.5,no",;;;;;;z'),
    ],
)
def test_the_header_is_read_as_the_schema_of_the_model_says_and_no_row_changes_it(
    label, marks, header, row, odd, tmp_path
):
    schema = rb.Schema({"a": rb.Number(0, 1)}, label, ("no", "yes"), **marks)
    frame = pa.table({"a": [0.1, 0.2, 0.8, 0.9], label: ["no", "no", "yes", "yes"]})
    model = rb.MomentsClassifier().fit_rados(rb.craft(frame, schema=schema, n_rados=8, seed=1)).model_
    for more in ([], [odd]):
        (tmp_path / "t.csv").write_text("\n".join([header, *[row] * 9, *more, ""]))
        outcome = rb.score(model, tmp_path / "t.csv", label=label, epsilon=1.0)
        assert outcome.event.lines == ("records" in marks)


@UNBOOKED
def test_whose_rows_are_asked_of_all_files(tmp_path):
    (tmp_path / "1.csv").write_bytes(b"\n")
    (tmp_path / "2.csv").write_text("ill,x0,patient_id\n" + "1,1,7\n0,-1,8\n" * 20)
    with pytest.warns(rb.PersonWarning, match="patient_id"):
        rb.score(MODEL, tmp_path, label="ill", epsilon=1.0)


@UNBOOKED
def test_the_command(rado, tmp_path, monkeypatch):
    MODEL.save(tmp_path / "m.model.json")
    rows = "".join(f"{k % 2},{1 if k % 2 else -1}\n" for k in range(400))
    (tmp_path / "t.csv").write_text("ill,x0\n" + rows)
    monkeypatch.setattr(private_score, "epsilon_at", lambda event, delta: 0.99991)  # of which four digits say 0.9999
    common = ["score", tmp_path / "m.model.json", tmp_path / "t.csv", "--label", "ill", "--epsilon", 1]
    code, out, err = rado(*common)
    text = " ".join(out.split())
    assert (
        (code, err) == (0, "")
        and "on no ledger, so nothing counts it" in text
        and "one record added or removed" in text
    )
    assert "epsilon 1 at delta 1e-06" in text, "never below the truth"
    rado("ledger", "create", "a.ledger", "--table", "test", "--epsilon", 2)
    rado("ledger", "create", "a.ledger", "--table", "train", "--epsilon", 2)
    books = ["--ledger", "a.ledger:test", "--ledger", "a.ledger:train"]
    answer = json.loads(rado(*common, *books, "--json")[1])
    assert len(answer["bookings"]) == 2 and answer["interval"][0] <= answer["error"] <= 0.2
    assert "score" in rado("ledger", "show", "a.ledger")[1]
    assert "booked 2 times" in " ".join(rado(*common, *books)[1].split())
    for wrong, message in (
        (["--ledger", "a.ledger"], "say which"),
        ([*books, "--set", "table=b"], "a score has no setting 'table'"),
    ):
        code, out, err = rado(*common, *wrong)
        assert (code, out, err.count("\n")) == (1, "", 1) and message in err
