"""The audit from the view of colluders finds shares that are too small, and holders who leave out their noise."""

import pytest

import radoboost as rb
from radoboost.adversary.room_audit import audit_room, view_of_colluders

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck
ROOM = {"holders": 5, "tolerate": 1, "columns": "linear", "key": KEY}
QUICK = rb.Moments(10.0, sharpen=False)


def too_small(holders, tolerate):
    return 1 / (holders - tolerate)


def test_the_right_shares_hold_against_as_many_as_are_borne():
    result = audit_room(QUICK, runs=700, **ROOM)
    assert result.holds and result.confidence == 1 - 1e-6
    assert result.found > 0.5 * result.claim  # so that a fault has a chance to be found
    # Nor do as many silent ones do harm, where nobody colludes.
    assert audit_room(QUICK, runs=200, colluders=0, silent=1, **ROOM).holds


@pytest.mark.parametrize(
    ("fault", "runs"),
    [
        pytest.param({"share": too_small}, 300, id="s / (K - t)"),
        pytest.param({"silent": 2}, 700, id="t + 1 leave noise out"),
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
