"""Exact counts for the holder, noisy counts that stop a release, and bookings before noise."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.mechanisms.moments.budget import SEARCHES, NoiseShape, compose_stage_events
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.privacy import Composed, epsilon_at, event_from_dict, flatten
from radoboost.privacy.budget_filter import cost_in_filter
from radoboost.tables import open_table

BOUNDS = np.array([[0.0, 1.0]] * 2)


def spoiled_table(n_rows, n_spoiled):
    x = np.full((n_rows, 2), 0.5)
    x[:n_spoiled, 1] = np.nan
    return x, np.arange(n_rows) % 2


def make(x, y, mechanism, ledger=None, key=None):
    asked = CraftRequest.of(BOUNDS, mechanism, classes=(0, 1), n_rados=3)
    run = Curator(open_table(x, y, row_by_row=True), get_engine("auto"), ThreadRunner(1), key, ledger)
    mechanism.check(asked)
    return mechanism.make(asked, run)


def squared_distance(event):
    return sum(count / leaf.noise_multiplier**2 for leaf, count in flatten(event).items())


# ---- bookings


def test_noise_needs_a_booking():
    run = Curator(open_table(*spoiled_table(4, 0), row_by_row=True), get_engine("auto"), ThreadRunner(1))
    for draw in (lambda: run.noise(5.0, (1, 2)), lambda: run.row_noise(5.0)):
        with pytest.raises(RuntimeError, match="book"):
            draw()
    assert not run.noise(0.0, (1, 2)).any()  # nothing is spent on no noise


def test_every_booking_has_a_noise_key_of_its_own():
    for key in (None, bytes(32)):
        run = Curator(open_table(*spoiled_table(4, 0), row_by_row=True), get_engine("auto"), ThreadRunner(1), key)
        draws = []
        for _ in range(2):
            run.book(rb.Moments(1.0).event(NoiseShape(3), 8))
            draws.append(run.noise(1e9, (1, 8)).tolist())
        assert draws[0] != draws[1]


@pytest.mark.parametrize("mechanism", [rb.Moments(1.0), rb.Moments(1.0, sharpen=False), rb.Moments(1.0, unit="label"),
                                       rb.NoisyRados(epsilon=1.0), rb.NoisyExamples(epsilon=1.0)])  # fmt: skip
def test_what_is_booked_is_what_the_statement_accounts_for(mechanism):
    booked = []
    made = make(*spoiled_table(2000, 0), mechanism, booked.append)
    stated = event_from_dict(mechanism.statement(made.circumstances).event)
    assert flatten(Composed(tuple(booked))) == flatten(stated)
    assert len(booked) == (2 if mechanism.name == "moments" and mechanism.protects == "record" else 1)


def test_a_refused_booking_ends_it():
    def refuse(event):
        raise rb.ArgumentError("no")

    for mechanism in (rb.Moments(1.0), rb.NoisyRados(epsilon=1.0), rb.NoisyExamples(epsilon=1.0)):
        with pytest.raises(rb.ArgumentError, match="no"):
            make(*spoiled_table(50, 0), mechanism, refuse)


# ---- stopping early


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_noisy_counts_decide(share):
    """20,000 rows at epsilon 1: one deviation is 42 rows, so every verdict here is sure to 1e-9."""
    booked = []
    table = spoiled_table(20_000, round(share * 20_000))
    if share <= 0.2:
        rows = make(*table, rb.Moments(1.0), booked.append).parameters["rows"]
        assert abs(rows["spoiled"] - share * 20_000) < 300 and abs(rows["good"] - (1 - share) * 20_000) < 300
        return
    with pytest.raises(rb.TableError, match="would contribute nothing") as refusal:
        make(*table, rb.Moments(1.0), booked.append)
    assert len(booked) == 1
    assert squared_distance(booked[0]) == pytest.approx(0.01 * rb.Moments(1.0).distance(NoiseShape(3)) ** 2)
    assert "noise of deviation 42" in str(refusal.value)


def test_exact_counts_do_not_decide():
    """Of 330 spoiled rows of 1000 some releases come out and some do not: one deviation is 42 rows."""
    outcomes = set()
    for run in range(40):
        try:
            make(*spoiled_table(1000, 330), rb.Moments(1.0), key=bytes([run]) * 32)
            outcomes.add("released")
        except rb.TableError:
            outcomes.add("stopped")
    assert outcomes == {"released", "stopped"}


def test_an_empty_table_is_not_stopped():
    """False alarm below 1e-9 a release."""
    for _ in range(40):
        make(np.zeros((0, 2)), np.zeros(0, dtype=int), rb.Moments(0.1, sharpen=False))


def test_labels_may_decide_exactly_where_they_alone_are_protected():
    with pytest.raises(rb.TableError, match="rows would contribute nothing"):
        make(*spoiled_table(100, 21), rb.Moments(1.0, unit="label"))
    rows = make(*spoiled_table(100, 20), rb.Moments(1.0, unit="label")).parameters["rows"]
    assert rows == {"good": 80.0, "spoiled": 20.0}


@pytest.mark.parametrize("mechanism", [rb.Moments(1.0), rb.NoisyRados(epsilon=1.0), rb.NoisyExamples(epsilon=1.0)])
def test_a_declaration_by_exact_counts_is_said_not_to_be_covered(mechanism):
    made = make(*spoiled_table(50, 0), mechanism)
    sentences = " ".join(mechanism.statement(made.circumstances).not_protected)
    assert "Bounds or classes that were read off the table, or corrected by exact counts of its rows" in sentences


# ---- the budget


@pytest.mark.parametrize("epsilon", [0.1, 10.0])
@pytest.mark.parametrize("unit", ["record", "label"])
@pytest.mark.parametrize(
    "shape", [NoiseShape(3), NoiseShape(40), NoiseShape(7, 6), NoiseShape(5, max_rows=4, person="who")]
)
def test_whatever_number_of_mean_rados_is_made_all_three_accounts_are_booked(epsilon, unit, shape):
    """An event of 8 rounds has less total variation than one of 32, at equal mu squared: it must not be booked (L7)."""
    for mechanism in (rb.Moments(epsilon, unit=unit), rb.Moments(epsilon, 1e-9, unit=unit)):
        relation, but = mechanism.relation_for(shape), ["counts"]
        booked, stated = (
            cost_in_filter(mechanism.dearest(shape, but=but), relation),
            cost_in_filter(mechanism.dearest(shape), relation),
        )
        for rounds in (8, 32):
            stages = [stage for stage in mechanism.stages(shape, rounds) if stage.name not in but]
            made = compose_stage_events(stages, mechanism.distance(shape), relation, shape)
            assert cost_in_filter(made, relation).within(booked)
            assert cost_in_filter(mechanism.event(shape, rounds), relation).within(stated)
        assert epsilon_at(mechanism.dearest(shape), mechanism.delta) <= epsilon


@pytest.mark.parametrize("searched", [0, 3])
@pytest.mark.parametrize("max_rows", [1, 4])
def test_shares_add_up_whatever_is_searched_and_however_many_rows_a_person_has(searched, max_rows):
    mechanism = rb.Moments(2.0, 1e-5, bounds_share=0.2)
    shape = NoiseShape(5, searched, max_rows)
    stages = mechanism.stages(shape, 32)
    assert sum(stage.share for stage in stages) == pytest.approx(1, rel=1e-12)
    assert sum(stage.name.startswith("bounds") for stage in stages) == (len(SEARCHES) if searched else 0)
    assert squared_distance(mechanism.event(shape, 32)) == pytest.approx(mechanism.distance(shape) ** 2, rel=1e-9)
    assert 1.99 < epsilon_at(mechanism.dearest(shape), 1e-5) <= 2.0
    one = mechanism.scales(32, NoiseShape(5, searched))
    for stage, scale in mechanism.scales(32, shape).items():
        assert scale == pytest.approx(max_rows * one[stage], rel=1e-12)  # k rows move a sum k times as far
    searches = [scale for stage, scale in one.items() if stage.startswith("bounds")]
    mu = mechanism.distance(NoiseShape(5, searched))
    assert sum(searched * 2.0**30 / scale**2 for scale in searches) == pytest.approx(
        (0.2 if searched else 0) * mu**2, rel=1e-9
    )
    assert math.isclose(one["counts"], 2**15 / (mu * 0.1), rel_tol=1e-9)


@pytest.mark.parametrize("share", [0, True])
def test_a_share_that_cannot_be(share):
    with pytest.raises(rb.ArgumentError, match="bounds_share"):
        rb.Moments(1.0, bounds_share=share)


# ---- exact counts


def test_exact_counts_merge_and_agree_with_a_loop(rng):
    values = np.where(rng.random((200, 3)) < 0.2, np.nan, rng.normal(size=(200, 3)))
    signs = rng.choice(np.array([-1, 0, 1], np.int8), 200)
    good = np.isfinite(values).all(axis=1) & (signs != 0)
    whole, first, second = (RowCounts.zeros(3) for _ in range(3))
    whole.see(values, signs, good)
    first.see(values[:90], signs[:90], good[:90])
    second.see(values[90:], signs[90:], good[90:])
    merged = first.merge(second)
    assert merged.to_dict("abc", "y") == whole.to_dict("abc", "y")
    faults = [[*np.isnan(row), sign == 0] for row, sign in zip(values, signs, strict=True)]
    alone = [sum(row[k] and sum(row) == 1 for row in faults) for k in range(4)]
    assert whole.alone.tolist() == alone and whole.spoiled == sum(any(row) for row in faults) > sum(alone) > 0


def test_a_check_says_what_crafting_would_count(tmp_path):
    x, y = spoiled_table(400, 7)
    x[20, 0], y[30] = 7.0, 9
    options = {"classes": (0, 1), "bounds": BOUNDS.tolist()}
    check = flat.check_table(x, y, **options)
    flat.craft(x, y, mechanism=rb.NoisyRados(epsilon=1.0), n_rados=2, counts=tmp_path / "counts.json", **options)
    assert check.to_dict() == json.loads((tmp_path / "counts.json").read_text())
    assert check.as_text() == [
        "392 of 400 rows contribute (98 %)",
        "without a usable label: 1 rows ('y' is missing, or no declared class)",
        "unusable for one column alone (missing, or not finite): 'x1' 7",
        "beyond their bounds, and clipped: 'x0' 1",
    ]


def test_counts_that_cannot_be_written_are_one_line(tmp_path):
    x, y = spoiled_table(40, 0)
    options = {"classes": (0, 1), "bounds": BOUNDS.tolist(), "mechanism": rb.NoisyRados(epsilon=1.0), "n_rados": 2}
    ledger = rb.Ledger.create(tmp_path / "books", "table", epsilon=3.0)
    with pytest.raises(rb.OutputError, match="cannot write"):
        flat.craft(x, y, counts=tmp_path / "no" / "counts.json", ledger=ledger, **options)
    assert ledger.entries() == []  # else a release would be paid for, and lost
    with pytest.raises(rb.TableError):
        flat.craft(
            tmp_path / "no.csv", label="y", counts=tmp_path / "counts.json", **{**options, "bounds": {"a": (0, 1)}}
        )
    assert [path.name for path in tmp_path.iterdir()] == ["books"]  # a refusal leaves nothing behind


# ---- a schema that does not fit


def raw_clinic(n_rows=4000):
    rng = np.random.default_rng(1)
    age = rng.uniform(20, 90, n_rows)
    return pa.table(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n_rows),
            "dose": pa.array(rng.uniform(0, 1, n_rows), mask=rng.random(n_rows) < 0.3),
            "ill": np.where(age + rng.normal(0, 20, n_rows) > 55, "yes", "no"),
        }
    )


FITS = {"age": rb.Number(0, 120), "sex": rb.Category(("f", "m")), "dose": rb.Number(0, 1, gaps=True)}
MISFITS = {
    "a text as a number": {"sex": rb.Number(0, 1)},
    "a number as a date": {"age": rb.Date(low="2020-01-01", high="2021-01-01")},
    "other values": {"sex": rb.Category(("female", "male"))},
}


@pytest.mark.parametrize("case", MISFITS)
@pytest.mark.parametrize("unit", ["record", "label"])
def test_a_wrong_line_of_a_schema_stops_after_the_noisy_counts(case, unit, tmp_path):
    schema = rb.Schema({**FITS, **MISFITS[case]}, "ill", ("no", "yes"))
    mechanism, ledger = rb.Moments(1.0, unit=unit), None
    if unit == "record":
        ledger = rb.Ledger.create(tmp_path / "clinic.ledger", "clinic", epsilon=1.1)
    with pytest.raises(rb.TableError, match="rows have a cell that the schema does not foresee"):
        rb.craft(raw_clinic(), schema=schema, mechanism=mechanism, ledger=ledger)
    if ledger is not None:  # hardly anything was spent
        rb.craft(raw_clinic(), schema=rb.Schema(FITS, "ill", ("no", "yes")), mechanism=mechanism, ledger=ledger)


def test_a_schema_that_foresees_gaps_and_others_goes_on():
    for columns in (FITS, {**FITS, "sex": rb.Category(("f",), other=True)}, {**FITS, "dose": rb.Number(0, 1)}):
        release = rb.craft(raw_clinic(), schema=rb.Schema(columns, "ill", ("no", "yes")), mechanism=rb.Moments(1.0))
        rows = release.mechanism["rows"]
        unforeseen = 0.3 * 4000 if columns["dose"] == rb.Number(0, 1) else 0
        # Noise of deviation 42.3 on each count; six of it, and of the binomial's 29.
        assert abs(rows["good"] - 4000) < 6 * 60 and abs(rows["unforeseen"] - unforeseen) < 6 * (43 + 29)
        assert rb.MomentsClassifier().fit_rados(release).model_.theta.any()


def test_rows_of_persons_are_unforeseen_too():
    table = raw_clinic().append_column("id", pa.array(np.arange(4000) // 2))
    schema = rb.Schema({**FITS, "sex": rb.Number(0, 1)}, "ill", ("no", "yes"))
    with pytest.raises(rb.TableError, match="does not foresee"):
        rb.craft(table, mechanism=rb.Moments(4.0), schema=replace(rb.Schema.of(schema), person=rb.Person("id", 2)))
