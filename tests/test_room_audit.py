"""The audit from the view of colluders finds shares that are too small, and holders who leave out their noise."""

import math

import pytest

import radoboost as rb
from radoboost.adversary.room_audit import audit_room, view_of_colluders

KEY = b"an audit key, fixed for the test"  # so that nothing here depends on luck


def too_small(holders, tolerate):
    return 1 / (holders - tolerate)


def test_the_right_shares_hold_against_as_many_as_are_borne():
    result = audit_room(rb.Moments(8.0), holders=5, tolerate=1, runs=1000, key=KEY)
    assert result.holds and result.confidence == 1 - 1e-6
    assert result.found > 0.5 * result.claim  # so that a fault has a chance to be found


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"share": too_small}, id="s / (K - t)"),
        pytest.param({"silent": 2}, id="t + 1 leave noise out"),
    ],
)
def test_planted_faults_are_found(fault):
    result = audit_room(rb.Moments(8.0), holders=5, tolerate=1, runs=1000, key=KEY, **fault)
    assert not result.holds


def test_as_many_silent_ones_as_are_borne_do_no_harm_where_nobody_colludes():
    assert audit_room(rb.Moments(8.0), holders=5, tolerate=1, colluders=0, silent=1, runs=600, key=KEY).holds


@pytest.mark.slow
def test_more_silent_ones_than_are_borne_are_found_by_outsiders_too():
    """Three shares where four are needed: mu is larger by a factor of 1.15 only."""
    result = audit_room(rb.Moments(8.0), holders=5, tolerate=1, colluders=0, silent=2, runs=20_000, key=KEY)
    assert not result.holds


def test_a_view_needs_somebody_honest():
    with pytest.raises(rb.ArgumentError, match="nobody is left"):
        view_of_colluders(5, 1, 1, silent=4)
    assert math.isclose(too_small(5, 1), 0.25)
