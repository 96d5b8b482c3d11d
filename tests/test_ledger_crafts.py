"""Crafting on a ledger: what is booked, when, and what `rado ledger` shows of it."""

import json
import math
import os
import pickle
import secrets
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

import flat
import radoboost as rb
from radoboost.cli.ledger import complete_ledger_relation, complete_table
from radoboost.errors import ArgumentError, BudgetError, LedgerError
from radoboost.privacy import Composed, Gaussian, Relation, event_from_dict, event_to_dict
from radoboost.privacy.ledger import Ledger
from schema_files import write_schema

MECHANISMS = {
    "moments": (rb.Moments(1.0), "record"),
    "moments, not sharpened": (rb.Moments(1.0, sharpen=False), "record"),
    "moments for labels": (rb.Moments(1.0, unit="label"), "label"),
    "noisy rados": (rb.NoisyRados(1.0), "record"),
    "noisy examples": (rb.NoisyExamples(1.0), "edge"),
}


@pytest.fixture
def table(rng):
    return rng.uniform(0, 1, (300, 2)), rng.integers(0, 2, 300)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", "patients", epsilon=3.0)


def crafted(table, mechanism, ledger, **options):
    return flat.craft(
        *table, n_rados=20, mechanism=mechanism, classes=(0, 1), bounds=[[0, 1], [0, 1]], ledger=ledger, **options
    )


@pytest.mark.parametrize("case", MECHANISMS)
def test_what_is_booked_is_what_the_statement_says(case, table, tmp_path):
    mechanism, relation = MECHANISMS[case]
    ledger = Ledger.create(tmp_path / "a.ledger", "t", epsilon=3.0, relation=relation)
    release = crafted(table, mechanism, ledger)
    entries, total = ledger.entries(), ledger.total
    stated = total.cost(event_from_dict(release.statement.event))
    assert {entry.release for entry in entries} == {release.id} and all(entry.digest is None for entry in entries)
    assert float(ledger.spent().mu_squared) == pytest.approx(float(stated.mu_squared), rel=1e-9)
    assert ledger.spent().mu_squared >= stated.mu_squared * (1 - 10**-12)
    assert ledger.spent().total_variation >= stated.total_variation * (1 - 10**-12)
    booked = Composed(tuple(entry.event for entry in entries))
    assert rb.privacy.epsilon_at(booked, 1e-6) == pytest.approx(release.statement.epsilon, rel=1e-8)
    release.save(tmp_path / "a.parquet")
    digest = rb.load(tmp_path / "a.parquet").digest
    assert [entry.digest for entry in ledger.entries()] == [digest] * len(entries)


def test_a_copy_of_a_release_still_knows_its_ledger(table, ledger, tmp_path):
    release = crafted(table, rb.Moments(0.5), ledger.path)
    pickle.loads(pickle.dumps(release)).save(tmp_path / "a.parquet")
    assert {entry.digest for entry in ledger.entries()} == {rb.load(tmp_path / "a.parquet").digest}
    assert rb.load(tmp_path / "a.parquet").after_save is None


def test_a_ledger_that_is_gone_does_not_undo_a_file(table, ledger, tmp_path):
    release = crafted(table, rb.Moments(0.5, sharpen=False), ledger)
    ledger.path.rename(tmp_path / "elsewhere.ledger")
    with pytest.warns(rb.BudgetWarning, match="is booked, but its digest could not be noted: there is no ledger"):
        release.save(tmp_path / "a.parquet")
    assert rb.load(tmp_path / "a.parquet").id == release.id


def test_booking_comes_before_the_key(table, ledger, monkeypatch):
    """Between the booking and any noise there is a fresh key, and none before: a spy looks at the books."""
    keys, token_bytes = [], secrets.token_bytes

    def spy(size=32):
        if size == 32:
            keys.append(len(ledger.entries()))
        return token_bytes(size)

    monkeypatch.setattr(secrets, "token_bytes", spy)
    crafted(table, rb.Moments(0.5), ledger)
    assert keys[-2:] == [1, 2] and len(ledger.entries()) == 2  # counts, then the rest: each its booking, then its key


def test_what_does_not_fit_is_refused_before_the_table_is_opened(table, ledger, tmp_path):
    nowhere = {"bounds": {"a": (0, 1)}, "classes": (0, 1), "label": "y", "ledger": ledger}
    for mechanism, error, message in (
        (rb.Plain(), ArgumentError, "no finite cost to book"),
        (rb.FeatureBand("a", 2.0), ArgumentError, "no finite cost to book"),
        (rb.NoisyExamples(1.0), ArgumentError, "make the right one with rado ledger create"),
        (rb.NoisyExamples(noise_std=1.0, clip=None), ArgumentError, "cannot be booked"),
        (rb.Moments(1.0, unit="label"), ArgumentError, "make the right one with rado ledger create"),
        (rb.Moments(4.0), BudgetError, "nothing was booked"),
    ):
        with pytest.raises(error, match=message):
            flat.craft(tmp_path / "nowhere.csv", mechanism=mechanism, **nowhere)
    with pytest.raises(ArgumentError, match="drawn from a seed"):
        flat.craft(tmp_path / "nowhere.csv", mechanism=rb.NoisyRados(1.0), seed=1, i_know=True, **nowhere)
    with pytest.raises(LedgerError, match="there is no ledger"):
        flat.craft(tmp_path / "nowhere.csv", mechanism=rb.Moments(1.0), **{**nowhere, "ledger": tmp_path / "none"})
    assert ledger.entries() == []


def test_releases_are_refused_once_the_total_is_spent(table, ledger):
    one = rb.privacy.calibration.gaussian_multiplier(1.0, 1e-6) ** -2
    room = math.floor(float(ledger.allowance.mu_squared) / one)
    assert room == 7
    for _ in range(room):
        crafted(table, rb.Moments(1.0, sharpen=False), ledger)
    with pytest.raises(BudgetError, match="room for one more of epsilon"):
        crafted(table, rb.Moments(1.0, sharpen=False), ledger)
    crafted(table, rb.Moments(ledger.largest_epsilon(), sharpen=False), ledger)
    assert ledger.spent().within(ledger.allowance)


def test_a_craft_that_fails_has_spent_what_it_booked(table, ledger):
    """Classes that no row has: stopped after the noisy counts, a hundredth of mu squared (wrong below 1e-9)."""
    X, y = table
    with pytest.raises(rb.TableError, match="rows would contribute nothing"):
        crafted((X.repeat(20, axis=0), y.repeat(20) + 7), rb.Moments(1.0), ledger)
    (entry,) = ledger.entries()
    one = rb.privacy.calibration.gaussian_multiplier(1.0, 1e-6) ** -2
    assert float(entry.cost.mu_squared) == pytest.approx(0.01 * one, rel=1e-6) and entry.digest is None


# ---- the command


@pytest.fixture
def declared(tmp_path):
    return write_schema(tmp_path / "schema.json", {"age": (0, 100), "dose": (0, 1)}, "readmitted", ["no", "yes"])


def test_the_books_on_the_command_line(rado, clinic, declared):
    code, out, err = rado("ledger", "create", "c.ledger", "--table", "patients", "--epsilon", 2)
    assert (code, err) == (0, "") and "epsilon 2 at delta 1e-06, for one record added or removed" in out
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--set", "sharpen=no", "--quiet"]
    assert rado(*common, "--epsilon", 1, "--ledger", "c.ledger", "-o", "a.parquet")[0] == 0
    document = json.loads(rado("ledger", "show", "c.ledger", "--json")[1])
    assert len(document["bookings"]) == 2 and {entry["release"] for entry in document["bookings"]} == {
        rb.load("a.parquet").id
    }
    code, out, err = rado(*common, "--epsilon", 1.9, "--ledger", "c.ledger", "-o", "b.parquet")
    assert (code, out, err.count("\n")) == (1, "", 1) and "nothing was booked" in err
    assert not os.path.exists("b.parquet")
    out = rado("ledger", "show", "c.ledger")[1]
    largest = document["largest_epsilon"]
    assert "spent        1 release\n" in out and f"epsilon {largest:g} at most" in out and "file" in out
    assert rado(*common, "--epsilon", largest, "--ledger", "c.ledger", "-o", "b.parquet")[0] == 0


def test_verify_says_what_is_amiss(rado, clinic, declared):
    rado("ledger", "create", "c.ledger", "--table", "patients", "--epsilon", 2)
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--set", "sharpen=no", "--quiet", "--epsilon", 0.5]
    rado(*common, "--ledger", "c.ledger", "-o", "a.parquet")
    rado(*common, "-o", "unbooked.parquet")
    code, out, err = rado("ledger", "verify", "c.ledger", "a.parquet")
    assert (code, err) == (0, "") and "all is well: 2 bookings" in out
    code, out, _ = rado("ledger", "verify", "c.ledger", "a.parquet", "unbooked.parquet")
    assert code == 1 and out == "unbooked.parquet is not booked for 'patients'\n"
    release = rb.load("a.parquet")
    rb.craft(clinic, mechanism=rb.Moments(0.1), ledger="c.ledger", counts=None, schema=declared)
    code, out, err = rado("ledger", "verify", "c.ledger")
    assert code == 0 and "2 bookings have no file; they are spent all the same" in err
    type(release)(**{**{k: getattr(release, k) for k in ("columns", "classes", "mechanism", "signatures", "statement")},
                     "blocks": {k: v + 1 for k, v in release.blocks.items()}, "n_examples": None, "id": release.id,
                     }).save("other.parquet")  # fmt: skip
    code, out, _ = rado("ledger", "verify", "c.ledger", "other.parquet", "--json")
    assert code == 1 and "is not the file that was noted" in json.loads(out)["problems"][0]


@pytest.mark.parametrize("part", ["mu_squared", "delta0", "total_variation"])
def test_verify_compares_all_three_accounts(part, rado, clinic, declared):
    """A booking that counts too little, planted with an editor: the event it keeps says less as well."""
    rado("ledger", "create", "c.ledger", "--table", "patients", "--epsilon", 2)
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--quiet", "--epsilon", 0.5]
    rado(*common, "--mechanism", "noisy-rados", "--ledger", "c.ledger", "-o", "a.parquet")
    with closing(sqlite3.connect("c.ledger")) as connection:
        connection.execute("DROP TRIGGER a_booking_stays")
        less = Gaussian(1e9, Relation.RECORD)
        connection.execute(f"UPDATE bookings SET {part} = {part} * 0.9, event = ?", [json.dumps(event_to_dict(less))])
        connection.commit()
    code, out, _ = rado("ledger", "verify", "c.ledger", "a.parquet")
    assert (code, out) == (1, "a.parquet costs more than was booked for it\n")


def test_wrong_options_are_one_line(rado, clinic, declared):
    rado("ledger", "create", "c.ledger", "--table", "a", "--epsilon", 2)
    rado("ledger", "create", "c.ledger", "--table", "b", "--epsilon", 2, "--relation", "label")
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--epsilon", 0.5]
    for options, message in (
        (["--ledger", "c.ledger"], "say which (table=, FILE:TABLE, or --table TABLE)"),
        (["--ledger", "c.ledger:c"], "has no table 'c', only 'a', 'b'"),
        (["--ledger", "none.ledger"], "rado ledger create"),
        (["--ledger", "c.ledger:b", "--set", "unit=label", "--epsilon", 9], "has no room"),
    ):
        code, out, err = rado(*common, *options)
        assert (code, out, err.count("\n")) == (1, "", 1) and message in err, err
    assert os.listdir(".") == ["c.ledger"]
    out = rado("ledger", "show", "c.ledger")[1]
    assert out.count("spent        0 releases\n") == 2
    assert len(json.loads(rado("ledger", "show", "c.ledger", "--json")[1])) == 2
    assert rado("ledger", "create", "c.ledger", "--table", "a", "--epsilon", 5)[0] == 0
    assert rado(*common, "--ledger", "c.ledger:a", "-o", "a.rado.parquet")[0] == 0
    code, _, err = rado("ledger", "create", "c.ledger", "--table", "a", "--epsilon", 9)
    assert code == 1 and "so its total stays" in err


def test_names_are_completed(rado):
    rado("ledger", "create", "c.ledger", "--table", "patients", "--epsilon", 2)

    there, nowhere = SimpleNamespace(params={"ledger": "c.ledger"}), SimpleNamespace(params={"ledger": "none"})
    assert complete_table(there, "pa") == ["patients"] and complete_table(there, "x") == []
    assert complete_table(nowhere, "") == []
    assert complete_ledger_relation("l") == ["label"]
