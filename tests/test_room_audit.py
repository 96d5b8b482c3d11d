"""The audit from the view of colluders finds shares that are too small, and holders who leave out their noise."""

import json

import pytest

import radoboost as rb
from radoboost.adversary import audits
from radoboost.adversary.room_audit import view_of_colluders
from radoboost.privacy.shared_noise import noise_share

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
ROOM = {"holders": 5, "tolerate": 1, "columns": "linear", "key": KEY}
QUICK = rb.Moments(10.0, sharpen=False)


def audit_room(
    mechanism, *, holders=5, tolerate=1, colluders=None, silent=0, share=noise_share, runs=4000, key=None, **options
):
    """Attack `moments` in a room from the view of `colluders`, by default as many as are borne.

    What it finds is held against the mechanism's own claim, which in a room where nobody was lost is made against as
    many colluders as are borne (D6 of docs/proofs/shared-noise.md).
    """
    view = view_of_colluders(
        holders, tolerate, tolerate if colluders is None else colluders, silent=silent, share=share
    )
    return audits.audit_moments(mechanism, runs=runs, key=key, run=view, **options)


def too_small(holders, tolerate):
    return 1 / (holders - tolerate)


def test_the_right_shares_hold_against_as_many_as_are_borne():
    result = audit_room(QUICK, runs=300, **ROOM)
    assert result.holds and result.confidence == 1 - 1e-6
    assert result.found > 0.3 * result.claim  # so that a fault has a chance to be found
    # Nor do as many silent ones do harm, where nobody colludes.
    assert audit_room(QUICK, runs=200, colluders=0, silent=1, **ROOM).holds


@pytest.mark.parametrize(
    ("fault", "runs"),
    [
        pytest.param({"share": too_small}, 300, id="s / (K - t)"),
        pytest.param({"silent": 2}, 700, id="t + 1 leave noise out", marks=pytest.mark.slow),
    ],
)
def test_planted_faults_are_found(fault, runs):
    assert not audit_room(QUICK, runs=runs, **ROOM, **fault).holds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "holds"), [({}, True), ({"share": too_small}, False), ({"silent": 2}, False)], ids=str
)
def test_with_mean_rados_and_plans_too(fault, holds):
    room = {**ROOM, "columns": "auto"}
    assert audit_room(rb.Moments(8.0), runs=3000, **room, **fault).holds == holds


@pytest.mark.slow
def test_more_silent_ones_than_are_borne_are_found_by_outsiders_too():
    """Three shares where four are needed: mu is larger by a factor of 1.15 only."""
    assert not audit_room(QUICK, runs=20_000, colluders=0, silent=2, **ROOM).holds


def test_a_view_needs_somebody_honest():
    with pytest.raises(rb.ArgumentError, match="nobody is left"):
        view_of_colluders(5, 1, 1, silent=4)


def test_an_audit_of_a_room_is_the_attack_by_colluders(monkeypatch):
    """The same scores, of the same noise: any other noise would give others."""
    monkeypatch.setattr(audits, "LEAST_RUNS", 200)
    options = {"runs": 200, "columns": "linear", "key": KEY}
    assert audits.audit(QUICK, room=(5, 1), **options) == audit_room(QUICK, holders=5, tolerate=1, **options)


def test_the_command_attacks_a_room(rado, monkeypatch):
    asked, found = [], {(7, 2): 9.0, (5, 1): 11.0, None: 9.0}

    def attack(mechanism, *, room, **others):
        asked.append(room)
        about = ("moments", "one record added or removed", 1e-6, 10.0, found[room], 1000, "a sum", 1 - 1e-6, 8.0)
        return audits.Audit(*about)

    monkeypatch.setattr(audits, "audit", attack)
    code, out, err = rado("audit", "--epsilon", "10", "--parties", "7", "--tolerate", "2", "--json")
    assert code == 0 and json.loads(out)["holds"], err
    code, _, err = rado("audit", "--epsilon", "10", "--parties", "5")
    assert code == 1 and "the audit shows more than moments claims" in err
    assert rado("audit", "--epsilon", "10")[0] == 0 and asked == [(7, 2), (5, 1), None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tolerate", "1"], "--tolerate"),
        (["--parties", "2"], "3 to 1,000"),
        (["--parties", "5", "--mechanism", "noisy-rados"], "moments"),
    ],
)
def test_what_is_no_attack_on_a_room_is_refused(rado, words, message):
    code, out, err = rado("audit", *words)
    assert (code, out, err.count("\n")) == (1, "", 1) and message in err
