"""The ledger: what a filter lets in, what its file keeps, and what it refuses."""

import copy
import json
import math
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import oracles
import radoboost as rb
import radoboost.privacy.ledger as ledgers
from radoboost.cli.ledger import ledger_text
from radoboost.errors import ArgumentError, BudgetError, LedgerError, OutputError
from radoboost.privacy import (
    Composed,
    Filter,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    convert_relation,
    delta_at,
    epsilon_at,
)
from radoboost.privacy.budget_filter import cost_in_filter, mu_of_subsampled_uses
from radoboost.privacy.ledger import Ledger, as_ledger, relation_by_name

RECORD, EDGE, LABEL = Relation.RECORD, Relation.EDGE, Relation.LABEL
JOINT = [relation for relation in Relation if relation is not Relation.VALUE]


def parts(cost):
    return cost.mu_squared, cost.delta0, cost.total_variation


# ---- the filter

noises = st.floats(0.5, 50.0)
events = st.one_of(
    st.builds(Gaussian, noises, st.just(RECORD), st.sampled_from([0.0, 1e-34, 1e-14, 3e-13])),
    st.builds(Repeated, st.builds(Gaussian, noises, st.just(RECORD), st.just(1e-35)), st.integers(1, 40)),
    st.builds(lambda a, b: Composed((Gaussian(a, RECORD), Gaussian(b, RECORD))), noises, noises),
    st.sampled_from([Repeated(SubsampledGaussian(18.75, 0.5), 100), SubsampledGaussian(4.0, 0.5)]),
)


@given(
    st.lists(events, max_size=30), st.floats(0.1, 8.0), st.sampled_from([1e-4, 1e-6]), st.sampled_from([RECORD, LABEL])
)
def test_a_filter_lets_in_what_the_oracle_lets_in(sequence, epsilon, delta, relation):
    total = Filter(epsilon, delta, relation)
    costs = [total.cost(event) for event in sequence]
    expected = oracles.filtered([parts(cost) for cost in costs], parts(total.allowance))
    spent, accepted = type(total.allowance)(), []
    for wanted in costs:
        accepted.append((spent + wanted).within(total.allowance))
        spent = spent + wanted if accepted[-1] else spent
    assert accepted == expected
    assert oracles.total_delta(tuple(map(float, parts(spent))), epsilon) <= delta


@given(st.floats(0.05, 12.0), st.floats(1e-9, 0.01))
def test_the_allowance_uses_the_total_up_and_no_more(epsilon, delta):
    allowance = parts(Filter(epsilon, delta).allowance)
    used = oracles.total_delta(tuple(map(float, allowance)), epsilon)
    assert used <= delta * (1 + 1e-9) and used >= delta * (1 - 1e-4)


def test_costs_of_gaussians_are_exact_and_rounded_up():
    for noise, count, relation, reach in ((3.0, 7, RECORD, 1), (0.7, 1, LABEL, 2), (12.3, 2**40, EDGE, 2)):
        exact = count * (reach / Fraction(noise)) ** 2
        spent = cost_in_filter(Repeated(Gaussian(noise, RECORD, 1e-30), count), relation)
        assert exact <= spent.mu_squared <= exact * (1 + Fraction(1, 2**51))
        assert spent.total_variation >= count * Fraction(1e-30) and spent.delta0 == 0
    whole = SubsampledGaussian(4.0, 1.0)
    assert cost_in_filter(whole, RECORD).mu_squared == Fraction(1, 16) and cost_in_filter(
        whole, LABEL
    ).mu_squared == Fraction(1, 4)


@pytest.mark.parametrize(
    ("noise", "probability", "count", "relation"),
    [
        (18.75, 0.5, 100, RECORD),
        (2.0, 0.5, 1, RECORD),
        (0.6, 0.5, 1, RECORD),
        (3.0, 0.1, 30, RECORD),
        (18.75, 0.5, 100, LABEL),
    ],
)
def test_a_pair_of_mu_and_delta0_covers_the_curve_everywhere(noise, probability, count, relation):
    """At epsilons that the search did not use, and in both directions; a mu a little smaller does not cover it."""
    leaf, delta0 = SubsampledGaussian(noise, probability, relation=relation), 1e-10
    event, mu = Repeated(leaf, count), mu_of_subsampled_uses(leaf, count, delta0)

    def excess(distance, epsilon):
        gaussian = norm.sf(epsilon / distance - distance / 2) - math.exp(epsilon) * norm.sf(
            epsilon / distance + distance / 2
        )
        return delta_at(event, epsilon) - delta0 - (1 - delta0) * gaussian

    epsilons = np.random.default_rng(1).uniform(0, 1.1 * epsilon_at(event, delta0), 200).tolist()
    assert max(excess(mu, epsilon) for epsilon in epsilons) <= 0
    assert max(excess(0.99 * mu, epsilon) for epsilon in epsilons) > 0
    if count == 1 and relation is RECORD:  # against the law of one use, written out
        for epsilon in epsilons[:40]:
            for adding in (False, True):
                true = oracles.sampled_delta(noise, probability, epsilon, adding)
                assert true <= delta0 + (1 - delta0) * oracles.total_delta((mu**2, 0.0, 0.0), epsilon) + 1e-15


def test_the_pair_of_the_proof_page():
    assert mu_of_subsampled_uses(SubsampledGaussian(18.75, 0.5), 100, 1e-10) == pytest.approx(0.26845, abs=5e-6)


def test_more_rados_than_the_accountant_resolves_take_a_larger_delta0():
    total = Filter(3.0, 1e-6)
    few, many = (
        total.cost(Repeated(SubsampledGaussian(noise, 0.5), n)) for noise, n in ((66.9, 1000), (211.3, 10_000))
    )
    assert many.delta0 == 8 * few.delta0 and float(many.delta0) == pytest.approx(8e-10)
    assert float(many.mu_squared) == pytest.approx(float(few.mu_squared), rel=0.01)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (NotPrivate("the rados carry no noise", RECORD), "carry no noise"),
        (Repeated(TruncatedBinomialShift(1000, 378, 622), 10), "does not give protection of"),
        (Gaussian(4.0, LABEL), "'one label flipped' does not give protection of 'one record added or removed'"),
        (Repeated(SubsampledGaussian(0.04, 0.5), 10), "no pair of mu and delta0"),
        (Repeated(SubsampledGaussian(1.0, 0.5), 2**12), "no pair of mu and delta0"),
    ],
)
def test_what_has_no_finite_cost_is_refused(event, why):
    with pytest.raises(ArgumentError, match=why):
        Filter(3.0, 1e-6).cost(event)


def test_composed_curves_are_no_filter():
    """A Gaussian, then by its output a Gaussian or a noisy rado: either pair is accepted, the choice is not (L3).

    The true delta of the choice is the mean over the first output of the larger of the two curves that are left.
    """
    first, grid = 0.35, np.linspace(-12.0, 14.0, 10_001)
    loss, density = first * grid - first**2 / 2, norm.pdf(grid - first) * (grid[1] - grid[0])
    near = density > 1e-13

    def gaussian(mu):
        rest = 2 - loss[near]
        return norm.sf(rest / mu - mu / 2) - np.exp(rest) * norm.sf(rest / mu + mu / 2)

    def sampled(s):
        removed, kept = (norm.pdf(grid) + norm.pdf(grid - s)) / 2, norm.pdf(grid)
        bounds = np.exp(2 - loss[near])
        return np.array([np.maximum(removed - bound * kept, 0).sum() for bound in bounds]) * (grid[1] - grid[0])

    mu = brentq(lambda mu: math.log((density[near] @ gaussian(mu)) / 1e-6), 0.1, 0.6, xtol=1e-6)
    s = brentq(lambda s: math.log((density[near] @ sampled(s)) / 1e-6), 0.2, 1.0, xtol=1e-4)
    one = Gaussian(1 / first, RECORD)
    for other in (Gaussian(1 / mu, RECORD), SubsampledGaussian(1 / s, 0.5)):
        assert delta_at(Composed((one, other)), 2.0) == pytest.approx(1e-6, rel=2e-3)
    assert density[near] @ np.maximum(gaussian(mu), sampled(s)) > 1.19e-6
    total = Filter(2.0, 1e-6)  # the filter refuses the noisy rado that the curve lets in
    assert not (total.cost(one) + total.cost(SubsampledGaussian(1 / s, 0.5))).within(total.allowance)


# ---- the file


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", "patients", epsilon=3.0, delta=1e-6)


def test_bookings_are_kept_and_refused_in_one_line(ledger):
    one = Gaussian(4.0, RECORD, 1e-34)
    room = int(ledger.allowance.mu_squared // ledger.total.cost(one).mu_squared)
    ids = [ledger.book(one) for _ in range(room)]
    assert len(set(ids)) == room == 6 and all(len(name) == 32 and int(name, 16) >= 0 for name in ids)
    before = ledger.spent()
    with pytest.raises(BudgetError) as refusal:
        ledger.book(one)
    text = str(refusal.value)
    assert "\n" not in text and "one record added or removed" in text and isinstance(refusal.value, ValueError)
    assert "nothing was booked; spent: 6 releases" in text and "mu squared" not in text
    assert ledger.spent() == before and [entry.id for entry in ledger.entries()] == ids
    fits = ledger.largest_epsilon()
    assert f"room for one more of epsilon {fits:g} at most, at delta 1e-06, for one record added or removed" in text
    noise = rb.privacy.calibration.gaussian_multiplier(fits, 1e-6)
    ledger.check(Gaussian(noise, RECORD))
    with pytest.raises(BudgetError):
        ledger.check(Gaussian(rb.privacy.calibration.gaussian_multiplier(fits * 1.002, 1e-6), RECORD))
    ledger.book(Gaussian(noise, RECORD))
    assert ledger.spent().within(ledger.allowance)
    assert ledger.left() == ledger.allowance.less(ledger.spent())


def test_delta0_is_an_account_of_its_own(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", "t", epsilon=50.0, delta=1e-6)
    rados = Repeated(SubsampledGaussian(18.75, 0.5), 100)
    for _ in range(100):
        ledger.book(rados)
    with pytest.raises(BudgetError, match=r"delta0 1e-08 in all.*such as moments, takes none of it"):
        ledger.book(rados)
    ledger.book(Gaussian(4.0, RECORD))
    with pytest.raises(BudgetError, match=r"total variation .* a release of fewer columns"):
        ledger.book(Gaussian(4.0, RECORD, 1e-20))


def test_relations_convert_or_are_refused(tmp_path):
    labels = Ledger.create(tmp_path / "a.ledger", "t", epsilon=3.0, relation="label")
    labels.book(Gaussian(8.0, RECORD))
    labels.book(Gaussian(8.0, LABEL))
    assert float(labels.spent().mu_squared) == 4 / 64 + 1 / 64
    records = Ledger.create(tmp_path / "b.ledger", "t", epsilon=3.0)
    with pytest.raises(ArgumentError, match=r"is for one record added or removed, and the release is for one edge"):
        records.book(Gaussian(8.0, EDGE))
    assert records.entries() == []
    assert relation_by_name("edge") is EDGE and relation_by_name(EDGE.value) is EDGE
    for wrong in ("value", Relation.VALUE, 3):
        with pytest.raises(ArgumentError, match="record, replace, edge, label"):
            relation_by_name(wrong)


def test_the_digest_is_set_once_and_all_else_stays(ledger):
    booking = ledger.book(Gaussian(4.0, RECORD), release="ab" * 16)
    other = ledger.book(Gaussian(5.0, RECORD))
    ledger.finish("ab" * 16, "1" * 64)
    ledger.finish("ab" * 16, "2" * 64)
    assert [entry.digest for entry in ledger.entries()] == ["1" * 64, None]
    ledger.finish(other, "3" * 64)
    assert [entry.digest for entry in ledger.entries()] == ["1" * 64, "3" * 64]
    with sqlite3.connect(ledger.path) as connection:
        for change in (
            "DELETE FROM bookings", "DELETE FROM totals", "UPDATE totals SET epsilon = 100, mu_squared = 100",
            "UPDATE bookings SET mu_squared = 0", "UPDATE bookings SET digest = NULL",
            "UPDATE bookings SET digest = 'x'", "UPDATE bookings SET name = 'other'",
        ):  # fmt: skip
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(change)
    connection.close()
    assert [entry.id for entry in ledger.entries()] == [booking, other]
    entry = ledger.entries()[0]
    assert json.loads(json.dumps(entry.to_dict()))["mu_squared"] == 0.0625 and entry.event == Gaussian(4.0, RECORD)


def test_a_file_may_have_several_tables(tmp_path, ledger):
    visits = Ledger.create(ledger.path, "visits", epsilon=1.0, relation="label")
    visits.book(Gaussian(20.0, LABEL))
    assert ledger.entries() == [] and len(visits.entries()) == 1
    assert Ledger(ledger.path, "visits").total == Filter(1.0, 1e-6, LABEL)
    with pytest.raises(LedgerError, match=r"has the tables 'patients', 'visits'; say which"):
        Ledger(ledger.path)
    with pytest.raises(LedgerError, match="has no table 'people'"):
        Ledger(ledger.path, "people")
    ledger.book(Gaussian(20.0, RECORD))
    with pytest.raises(LedgerError, match="has bookings for 'patients' already, so its total stays"):
        Ledger.create(ledger.path, "patients", epsilon=9.0)
    assert Ledger(ledger.path, "patients").total.epsilon == 3.0


def test_a_total_without_bookings_is_replaced(tmp_path, ledger):
    """Somebody finds out at the first release that it is about persons."""
    Ledger.create(ledger.path, "visits", epsilon=1.0)
    event = Gaussian(8.0, Relation.PERSON, person="id")
    with pytest.raises(ArgumentError) as refused:
        ledger.book(event)
    command = f"rado ledger create {ledger.path} --table patients --epsilon 3 --relation person"
    assert command in str(refused.value) and "replaces this total" in str(refused.value)
    persons = Ledger.create(ledger.path, "patients", epsilon=3.0, relation="person")
    persons.book(event)
    ledger.book(event)  # one that was opened before goes by what is there now
    assert [str(entry.event.relation) for entry in ledger.entries()] == ["one person added or removed"] * 2
    assert float(ledger.spent().mu_squared) == 2 / 64 and Ledger(ledger.path, "visits").total.epsilon == 1.0


PERSONS = {"person": "id"}
EVENTS = {relation: Gaussian(50.0, relation, **(PERSONS if "person" in relation else {})) for relation in JOINT}


@pytest.mark.parametrize("total", JOINT)
@pytest.mark.parametrize("wanted", JOINT)
def test_a_total_with_bookings_is_the_only_one(tmp_path, total, wanted):
    """A second total for other neighbours said that both add up; nothing adds up between records and persons."""
    ledger = Ledger.create(tmp_path / "l", "patients", epsilon=3.0, relation=total)
    ledger.book(EVENTS[total])
    try:
        convert_relation(EVENTS[wanted], total)
    except ArgumentError:
        with pytest.raises(ArgumentError, match="nothing was booked: this total has bookings") as refused:
            ledger.check(EVENTS[wanted])
        words = str(refused.value)
        assert "rado ledger create" not in words and "totals of several relations do not add up" in words
        assert ("--person id:K" in words) == ("person" in total and "person" not in wanted)
        assert ("leave --person out" in words) == ("person" in wanted and "person" not in total)
        assert ("leave --set unit=label out" in words) == ("label" in wanted and "label" not in total)
        content = wanted in (EDGE, Relation.PERSON_ROWS) and total in (RECORD, Relation.REPLACE, Relation.PERSON)
        assert ("take the mechanism moments" in words) == content
        assert ("leave --set relation=replace out" in words) == (wanted is Relation.REPLACE)
        assert not words.endswith("but ") and ledger.fitting(wanted) == ()
    else:
        ledger.book(EVENTS[wanted])
        assert not ledger.problems()


def test_two_totals_of_one_table_are_not_true_and_the_books_say_so(tmp_path, rado):
    """After a release about labels the exact number of rows is out: the total for records held nothing."""
    ledger = Ledger.create(tmp_path / "l", "patients", epsilon=3.0)
    second = Ledger.create(ledger.path, "patients-label-2", epsilon=3.0, relation="label")
    other = Ledger.create(ledger.path, "visits", epsilon=3.0, relation="label")
    ledger.book(EVENTS[RECORD])
    for refused in (second.check, second.book):
        with pytest.raises(
            BudgetError, match=r"by its name 'patients-label-2' .* is the table of 'patients' \(one rec"
        ):
            refused(EVENTS[LABEL])
    with pytest.raises(BudgetError, match="is the table of 'patients'"):
        second.check(EVENTS[Relation.PERSON])
    assert not ledger.problems() and ledger.beside() == {} and second.fitting(RECORD) == ()
    other.book(EVENTS[LABEL])  # another table, as far as the file can tell
    assert ledger.beside() == {"visits": "one label flipped"} and not ledger.problems() and not other.problems()
    assert "'visits' (one label flipped) in this file do not count here" in ledger_text(ledger.to_dict())
    with sqlite3.connect(ledger.path) as connection:  # as earlier versions booked it
        connection.execute(
            "INSERT INTO bookings SELECT number + 9, id || 'x', 'patients-label-2', release, purpose, event, "
            "mu_squared, delta0, total_variation, booked, digest FROM bookings WHERE name = 'visits'"
        )
    connection.close()
    for books in (ledger, second):
        assert ["none of these is true" in problem for problem in books.problems()] == [True]
        with pytest.raises(BudgetError, match="none of these is true; nothing was booked: go on with one total"):
            books.book(EVENTS[books.total.relation])
    assert not other.problems() and len(other.beside()) == 2
    code, out, err = rado("ledger", "verify", ledger.path, "--table", "visits")
    assert (code, out) == (0, "all is well: 1 bookings within the total\n")
    assert "rado: bookings on 'patients' (one record added or removed), 'patients-label-2'" in err
    assert rado("ledger", "verify", ledger.path, "--table", "patients")[0] == 1


STEMS = {"a": ["a-person", "a-person-rows-2-2", "a-2", "a-label-record"]} | {
    name: [name] for name in ("record", "-label", "medical-records")
}


@pytest.mark.parametrize(("name", "stem"), [(name, stem) for stem, names in STEMS.items() for name in names])
def test_names_of_totals_that_the_program_proposed(name, stem):
    assert ledgers._booked_table_stem(name) == stem


def test_a_total_that_is_replaced_between_price_and_booking(ledger, monkeypatch):
    """What is booked is the cost under the total that is there then: here twice the distance."""
    seen = Ledger._cost

    def late(self, total, event):
        cost = seen(self, total, event)
        if total.relation is RECORD:
            Ledger.create(self.path, "patients", epsilon=3.0, relation="edge")
        return cost

    monkeypatch.setattr(Ledger, "_cost", late)
    ledger.book(Gaussian(8.0, RECORD))
    assert float(ledger.spent().mu_squared) == 4 / 64


def test_books_speak_of_releases(ledger):
    ledger.book(Gaussian(4.0, RECORD), release="ab" * 16)
    ledger.book(Gaussian(4.0, RECORD), release="ab" * 16)
    largest = ledger.largest_epsilon()
    with pytest.raises(BudgetError) as refused:
        ledger.book(Gaussian(0.5, RECORD))
    assert f"spent: 1 release; room for one more of epsilon {largest:g} at most" in str(refused.value)
    assert "mu squared" not in str(refused.value)
    (release,) = ledger.to_dict()["releases"]
    exact = epsilon_at(Gaussian(8**0.5, RECORD), 1e-6)
    assert exact <= release["epsilon"] < exact * 1.001 and release["bookings"] == 2
    text = ledger_text(ledger.to_dict())
    assert "spent        1 release\n" in text and "mu squared" not in text
    assert f"left         room for one more of epsilon {largest:g} at most" in text


def test_foreign_and_damaged_files_are_refused_in_one_line(tmp_path, ledger):
    for _ in range(6):
        ledger.book(Gaussian(9.0, RECORD))
    whole = ledger.path.read_bytes()
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE totals (name TEXT)")
    connection.close()
    later = bytearray(whole)
    later[60:64] = (7).to_bytes(4, "big")
    cases = {
        "text.ledger": b"name,epsilon\n" * 400,
        "empty.ledger": b"",
        "short.ledger": whole[: len(whole) - 4096],
        "spoiled.ledger": whole[:4096] + bytes(4096) + whole[8192:],
        "foreign.ledger": foreign.read_bytes(),
        "later.ledger": bytes(later),
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        for use in (Ledger, lambda path: Ledger.create(path, "t", epsilon=1.0)):
            with pytest.raises(LedgerError) as refusal:
                use(tmp_path / name)
            assert name in str(refusal.value) and "\n" not in str(refusal.value)
        assert (tmp_path / name).read_bytes() == content
    with pytest.raises(LedgerError, match="rado ledger create"):
        Ledger(tmp_path / "nowhere.ledger")
    with pytest.raises(OutputError, match="cannot write"):
        Ledger.create(tmp_path / "no" / "folder.ledger", "t", epsilon=1.0)
    assert not (tmp_path / "nowhere.ledger").exists()


def test_a_ledger_with_two_names_is_refused(ledger, tmp_path):
    """Each name has a journal of its own, so that one may miss what the other was about to write."""
    other = tmp_path / "other.ledger"
    os.link(ledger.path, other)
    for use in (ledger.entries, lambda: Ledger(other), lambda: ledger.book(Gaussian(4.0, RECORD))):
        with pytest.raises(LedgerError, match=r"has another name \(a hard link\)") as refusal:
            use()
        assert "\n" not in str(refusal.value)
    other.unlink()
    other.symlink_to(ledger.path)  # SQLite finds the one journal through it
    Ledger(other).book(Gaussian(4.0, RECORD))
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"epsilon": 60}, "can be 50 at most"),
        ({"epsilon": 1.0, "delta": 0}, "delta must lie between"),
        ({"epsilon": 1.0, "relation": "household"}, "record, replace, edge, label"),
        ({"epsilon": 1.0, "table": ""}, "needs a name"),
    ],
)
def test_totals_that_cannot_be_are_refused_and_leave_nothing(tmp_path, values, message):
    with pytest.raises(ArgumentError, match=message):
        Ledger.create(tmp_path / "a.ledger", **{"table": "t", **values})
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_can_be_copied_and_pickled(ledger):
    for twin in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger)), as_ledger(str(ledger.path))):
        twin.book(Gaussian(9.0, RECORD))
    assert len(ledger.entries()) == 3 and as_ledger(None) is None and as_ledger(ledger) is ledger
    with pytest.raises(ArgumentError, match="ledger must be a Ledger or the path"):
        as_ledger(3)
    assert repr(ledger).endswith("clinic.ledger', 'patients')")


def test_threads_that_book_at_once_stay_within_the_total(tmp_path):
    ledger, refused = Ledger.create(tmp_path / "a.ledger", "t", epsilon=3.0), []

    def book():
        for _ in range(5):
            try:
                ledger.book(Gaussian(4.0, RECORD))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=book) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.entries()), len(refused)) == (6, 14)


# ---- many at once

PROGRAM = Path(__file__).with_name("crafts_at_once.py")


def crafts_at_once(folder, *options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(folder), *options]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert run.stderr == ""
    return json.loads(run.stdout)


def test_crafts_at_once_with_kills_never_spend_more_than_is_booked(tmp_path):
    """100 crafts from 8 processes against a total that allows 25; kills at any time, and where they hurt most."""
    result = crafts_at_once(tmp_path)
    ends = result["ends"]
    files = {path.stem for path in tmp_path.glob("*.parquet")} - {"alone"}
    done = {k for k, word in ends.items() if word == "done"}
    killed = {k for k, word in ends.items() if word == "start"}
    assert len(ends) == 100 and result["failed"] == 0 and set(ends.values()) == {"done", "refused", "start"}
    assert len(result["entries"]) == 25 and result["within"] and not result["one_more_fits"]
    assert result["spent"]["mu_squared"] == pytest.approx(25 * result["one"], rel=1e-12) and result["problems"] == []
    booked = dict(result["entries"])
    releases = {name: rb.load(tmp_path / f"{name}.parquet") for name in files}
    assert done <= files <= done | killed  # who was not killed left a file
    assert {releases[name].id for name in files} <= set(booked)  # and nothing was released that was not booked
    assert all(booked[releases[name].id] == releases[name].digest for name in done)
    unfinished = [release for release, digest in booked.items() if digest is None]
    assert unfinished and result["kills"] > 3  # some were killed with a booking and without a digest
    assert not list(tmp_path.glob("l-journal"))


@pytest.mark.slow
def test_a_ledger_that_compares_before_it_locks_is_found_out(tmp_path):
    result = crafts_at_once(tmp_path, "careless")
    assert len(result["entries"]) > 25 and not result["within"]
    assert result["problems"] == ["the bookings of 'table' pass its total"]
