"""Why a room ends: who is named, by what a holder sees itself, and by what those say who stopped before it."""

import pytest

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_causes import (
    LEFT,
    SILENT,
    STOPPED,
    UNCONFIRMED,
    WRONG,
    Cause,
    causes_text,
    read_abort_causes,
)
from radoboost.holder.rooms.signed_messages import message_place
from rooms import Room, killed_after, played

AT_ONCE = {"ticks": 100, "tick": 0.04}  # before anybody's patience ends
THEN = 1_700_000_000


def ends(rng, n_parties, gone):
    """What those are told who are left, where others went once they had sent their keys.

    `gone` has for each of these the causes that it names as it stops, or None if it says nothing.
    """
    room = Room(rng, n_parties)
    lives = {name: killed_after(room.views[name], "keys") for name in gone}

    def alive(name, now):
        if name not in gone or lives[name]():
            return True
        if gone[name] is not None:
            body = {"because": [cause.to_dict() for cause in gone[name]]}
            room.box.put(message_place(0, "stop", name), room.signed(name, "stop", body, stage=0))
        return False

    found = played(room.sums(), rng, alive, **AT_ONCE)
    return {name: str(found[name]) for name in room.names if name not in gone}


def test_who_went_because_of_a_silent_one_is_not_named(rng):
    h02 = [Cause("h01", STOPPED), Cause("h03", SILENT, THEN + 1)]
    for told in ends(rng, 5, {"h01": [Cause("h03", SILENT, THEN)], "h02": h02, "h03": None}).values():
        assert told.startswith("h03 has been silent since 2023-11-1") and "h01" not in told and "h02" not in told


def test_what_is_refuted_falls_back_on_whoever_said_it(rng):
    for _ in range(5):  # in several orders: h02 may have sent no shares yet when others hear what h01 says of it
        told = ends(rng, 3, {"h01": [Cause("h02", SILENT, THEN)]})
        assert told["h00"].startswith("h01 stopped, in sum 3 (shares)")
        assert told["h02"].startswith("h01 says that h02 has been silent since")  # it was, to h01


def test_what_only_one_can_see_is_what_it_says(rng):
    told = ends(rng, 3, {"h01": [Cause("h02", WRONG)]})
    assert told["h00"].startswith("h01 says that what came in the name of h02 cannot be used")


def test_who_stops_because_of_one_who_names_another_leads_to_that_one(rng):
    gone = {"h01": [Cause("h02", STOPPED)], "h02": [Cause("h01", STOPPED), Cause("h04", STOPPED)], "h04": []}
    for told in ends(rng, 5, gone).values():
        assert told.startswith("h04 stopped, in sum 3")


def test_that_one_was_left_out_before_is_no_reason_alone(rng):
    assert ends(rng, 3, {"h01": [Cause("h02", LEFT)]})["h00"].startswith("h01 stopped")


GOOD = Cause("h01", SILENT, THEN).to_dict()


@pytest.mark.parametrize(
    "data",
    [
        None, 7, "h01", {"name": "h01"}, GOOD, [7], [{"name": "h01"}], [GOOD] * 4, [{**GOOD, "more": 1}],
        *([{**GOOD, "since": wrong}] for wrong in (1.5, True, -1, 10**400, "1")),
        *([{**GOOD, "what": wrong}] for wrong in ("evil", ["silent"], None)),
        *([{**GOOD, "name": wrong}] for wrong in ("zorro", ["h01"], None, "")),
        *([{**GOOD, "by": wrong}] for wrong in ("zorro", ["h01"], None)),
    ],
    ids=lambda data: str(data)[:80],
)  # fmt: skip
def test_what_is_no_cause_is_none(data):
    names = {"h01", "h02", "h03"}
    assert read_abort_causes(data, names) == ()
    good = [Cause("h01", SILENT, THEN), Cause("h02", UNCONFIRMED), Cause("h03", WRONG, by="h01")]
    assert read_abort_causes([cause.to_dict() for cause in good], names) == tuple(good)


def test_causes_text():
    causes = [
        Cause("a", SILENT, THEN),
        Cause("b", SILENT, THEN + 5),
        Cause("c", STOPPED),
        Cause("d", LEFT),
        Cause("e", WRONG),
    ]
    words = causes_text([*causes, Cause("f", UNCONFIRMED), Cause("g", UNCONFIRMED), Cause("h", UNCONFIRMED)])
    assert words.startswith("a and b have been silent since 2023-11-1")  # both had been, since the later time
    assert ":25; c stopped; d was left out before; what came in the name of e cannot be used; " in words
    assert words.endswith("; f, g and h did not confirm the code")


def test_a_refusal_says_nothing_of_itself_unless_others_were_the_reason():
    assert RoomError("row 7 is odd").causes == ()
