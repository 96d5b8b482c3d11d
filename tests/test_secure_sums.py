"""One secure sum: exact, whatever is lost; what cannot be summed is refused by name."""

import threading

import numpy as np
import pytest

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_notices import AbortNotices
from radoboost.holder.rooms.secure_aggregation import ROUNDS, SecureSum, secure_sum
from radoboost.holder.rooms.signed_messages import Identity, message_place, verify_message
from rooms import PATIENCE, Room, check_totals, killed_after, played, say_stop


@pytest.mark.parametrize("n_parties", [3, 4, 5, 8, 20])
def test_the_total_is_exact(n_parties, rng):
    """Numbers over all of int64, so that sums wrap."""
    length = [0, 1, 7, 1000][n_parties % 4]
    room = Room(rng, n_parties, length=length)
    totals = check_totals(room, played(room.sums(), rng))
    assert len(totals) == n_parties and totals[0].present == tuple(room.names)


def test_small_and_negative_numbers_come_out_as_they_are(rng):
    room = Room(rng, 5, length=4)
    for k, name in enumerate(room.names):
        room.numbers[name] = np.array([k, -k, 0, -(2**62) if k < 2 else 0])
    totals = check_totals(room, played(room.sums(), rng))
    assert totals[0].values.tolist() == [10, -10, 0, -(2**63)]


def test_stages_follow_each_other_and_the_lost_stay_out(rng):
    room = Room(rng, 7, tolerate=2)
    present = room.names
    for stage, lost in ((0, None), (1, "h03"), (2, "h00"), (3, None)):
        room.stage = stage
        outcomes = played(room.sums(present), rng, lambda name, now, lost=lost: name != lost)
        totals = check_totals(room, outcomes)
        present = [name for name in present if name != lost]
        assert len(totals) == len(present) and totals[0].present == tuple(present)
    assert len(present) == 5
    room.stage = 4
    outcomes = played(room.sums(present), rng, lambda name, now: name != "h06")
    assert outcomes.pop("h06") is None
    for outcome in outcomes.values():
        assert isinstance(outcome, RoomError) and str(outcome).startswith("h06 has been silent since")
        assert "; h00 and h03 were left out before, in sum 4 (keys), and the room can do without 2" in str(outcome)
    with pytest.raises(RoomError, match=r"too many have left the room \(h00, h03, h06\): 5 are needed"):
        SecureSum(room.box, room.seats, room.identities["h01"], 5, present[:-1], room.numbers["h01"])


@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize(("before", "victim"), [(False, "h00"), (True, "h02"), (False, "h04"), (True, "h00")])
def test_one_holder_is_killed(kind, before, victim, rng):
    """After or before each message; the maker of lists, the next one, the last. The others have the right total."""
    room = Room(rng, 5)
    lives = killed_after(room.views[victim], kind, before)
    outcomes = played(room.sums(), rng, lambda name, now: name != victim or lives())
    assert outcomes.pop(victim) is None or kind == "unmask"
    totals = check_totals(room, outcomes)
    assert len(totals) == 4
    sent = ROUNDS.index(kind) + (not before)
    assert (victim in totals[0].present) == (sent > 2)


def test_more_than_can_be_missed_are_named(rng):
    for kind in ROUNDS[:-1]:
        room = Room(rng, 5)
        lives = {name: killed_after(room.views[name], kind) for name in ("h01", "h03")}
        outcomes = played(room.sums(), rng, lambda name, now, lives=lives: name not in lives or lives[name]())
        for name in ("h00", "h02", "h04"):
            assert isinstance(outcomes[name], RoomError)
            assert str(outcomes[name]).startswith("h01 and h03 have been silent since"), str(outcomes[name])


AT_ONCE = {"ticks": 100, "tick": PATIENCE / 200}  # all is over before anybody's patience ends


@pytest.mark.parametrize("kind", ROUNDS[:-1])
@pytest.mark.parametrize("victim", ["h00", "h02", "h04"])
def test_nobody_waits_for_one_who_says_that_it_stops(kind, victim, rng):
    """The total comes before anybody's patience ends; numbers that are in the last list stay in it (B11)."""
    room = Room(rng, 5)
    lives = killed_after(room.views[victim], kind)

    def alive(name, now):
        if name != victim or lives():
            return True
        say_stop(room, victim)
        return False

    outcomes = played(room.sums(), rng, alive, **AT_ONCE)
    assert outcomes.pop(victim) is None
    totals = check_totals(room, outcomes)
    assert len(totals) == 4 and (victim in totals[0].present) == (ROUNDS.index(kind) >= 2)


def test_more_than_can_be_missed_who_stop_are_named_at_once(rng):
    for kind in ROUNDS[:3]:
        room = Room(rng, 5)
        lives = {name: killed_after(room.views[name], kind) for name in ("h01", "h03")}

        def alive(name, now, room=room, lives=lives):
            if name not in lives or lives[name]():
                return True
            say_stop(room, name)
            return False

        outcomes = played(room.sums(), rng, alive, **AT_ONCE)
        for name in ("h00", "h02", "h04"):
            assert str(outcomes[name]).startswith("h01 and h03 stopped, in sum 3"), str(outcomes[name])


def test_who_sends_its_last_message_and_then_stops_is_not_lost(rng):
    """Both happen between two looks of another holder: at the messages, and at who has stopped."""
    room = Room(rng, 7)
    sums, view = room.sums(), room.views["h00"]
    others, names = {name: sums[name] for name in room.names[1:]}, view.names

    def names_before_the_others_go_on(prefix):
        there = names(prefix)
        if prefix.endswith("/unmask/") and not stopped:
            assert len(there) < room.seats.threshold
            stopped.update(played(others, rng))
            for name in others:
                say_stop(room, name)
        return there

    stopped = {}
    view.names = names_before_the_others_go_on
    for now in range(20):
        for one in (sums["h00"], *others.values()):
            if not stopped:
                one.step(now / 100)
    total = sums["h00"].step(1.0)
    assert len(check_totals(room, {**stopped, "h00": total})) == 7


def test_who_stopped_first_is_found_with_those_who_stopped_for_it(rng):
    """North is looked for first and is not there yet; then both north and west stop."""
    room = Room(rng, 3)

    class Late:
        def get(self, name):
            content = room.box.get(name)
            for one in ("h01", "h02"):
                say_stop(room, one)
            return content

    assert AbortNotices(Late(), room.seats).among(["h01", "h02"]) == {"h01", "h02"}


def test_nobody_stops_another(rng):
    """What is not signed by the holder, for this room, is as if it were not there."""
    for lie in (
        lambda room: say_stop(room, "h01", signer="h02"),
        lambda room: room.box.put("0000/stop/h01", b"stop"),
        lambda room: room.box.put("0000/stop/h01", room.signed("h01", "stop", {}, stage=0, agreement=bytes(32))),
        lambda room: room.box.put("0000/stop/h01", room.signed("h01", "stop", {}, stage=3)),
        lambda room: room.box.put("0000/stop/h01", room.signed("h01", "keys", {}, stage=0)),
    ):
        room = Room(rng, 5)
        lie(room)
        outcomes = played(room.sums(), rng, lambda name, now: name != "h01" or now > 2, **AT_ONCE)
        totals = check_totals(room, outcomes)
        assert len(totals) == 5 and totals[0].present == tuple(room.names)


@pytest.mark.parametrize(
    ("theirs", "who"),
    [
        ({"0002/agreed/anybody": ("h04", "bb")}, "h04 spread"),
        ({"0002/agreed/anybody": ("h03", "aa")}, "h03 and h04 spread"),
        ({}, "h04 spread"),
        ({"0002/agreed/anybody": ("h04", "aa"), "0001/agreed/anybody": ("h01", "cc")}, "h01 spread"),
        ({"0002/agreed/anybody": ("\x1b[2J", "aa")}, "h04 spread"),
    ],
)
def test_those_who_heard_different_figures_never_sum(rng, theirs, who):
    room = Room(rng, 5)
    heard = {name: {"0002/agreed/anybody": ("h04", "aa")} for name in room.names} | {"h02": theirs}
    outcomes = played(room.sums(heard=heard), rng)
    for name, outcome in outcomes.items():
        assert isinstance(outcome, RoomError)
        assert "goes by other figures than" in str(outcome) and who in str(outcome) and "h02" in str(outcome), name
    assert not room.box.names("0003/shares/")


def test_a_slow_holder_is_waited_for(rng):
    room = Room(rng, 5)
    sums = room.sums()
    assert (sums["h00"].round, sums["h00"].missing) == ("", ())
    played(sums, rng, lambda name, now: name != "h03", ticks=2)
    assert (sums["h00"].round, sums["h00"].missing) == ("keys", ("h03",))
    played(sums, rng, lambda name, now: name == "h03", ticks=1)
    sums["h04"].step(2.0)
    assert sums["h04"].missing == ("h00",)  # who makes the list
    say_stop(room, "h00")
    assert sums["h04"].missing == ("h01",)
    room = Room(rng, 5)
    outcomes = played(room.sums(), rng, lambda name, now: name != "h03" or now > PATIENCE - 2)
    assert check_totals(room, outcomes)[0].present == tuple(room.names)


def test_a_holder_that_is_too_late_is_told_so(rng):
    room = Room(rng, 5)
    outcomes = played(room.sums(), rng, lambda name, now: name != "h03" or now > 3 * PATIENCE)
    assert len(check_totals(room, outcomes)) == 4
    assert "the list of h00 (0003/keys-list) leaves h03 out, who was late" in str(outcomes["h03"])


def test_what_else_lies_in_a_mailbox_is_left_alone(rng):
    room = Room(rng, 4)
    for name in ("0003/keys/zorro", "0003/keys/h01/h02", "0003/masked/anybody", "0003/keys", "0004/keys/h00", "x"):
        room.box.put(name, b"of somebody else")
    assert len(check_totals(room, played(room.sums(), rng))) == 4


def test_nobody_is_in_a_sum_twice(rng):
    room = Room(rng, 3)
    played(room.sums(), rng)
    with pytest.raises(RoomError, match="h00 has already been in sum 3"):
        room.sums()
    room.identities["h00"] = Identity("h00", room.identities["h00"]._key)  # as after a start anew
    again = SecureSum(room.box, room.seats, room.identities["h00"], 3, room.names, room.numbers["h00"])
    before = room.box.names("")
    for _ in range(2):  # it stays over
        with pytest.raises(RoomError, match=r"a message of h00 is already there \(0003/keys/h00\).* open a new room"):
            again.step(0.0)
    assert room.box.names("") == before
    room = Room(rng, 3)
    room.box.put("0003/unmask/h00", b"all that is left of it")
    with pytest.raises(RoomError, match=r"already there \(0003/unmask/h00\)"):
        room.sums()["h00"].step(0.0)
    assert len(room.box.names("")) == 1


@pytest.mark.parametrize("kind", ROUNDS)
def test_a_message_in_the_own_place_ends_the_sum(rng, kind):
    """As of another process with the same identity, which was a little faster."""
    room = Room(rng, 5)

    def sent(place, content):
        if place == message_place(3, kind, "h01"):
            message = verify_message(content, place, room.seats)
            room.box.put(place, room.signed("h01", kind, {**message.body, "twin": True}, message.arrays))
        return content

    room.views["h01"].sent.append(sent)
    with pytest.raises(RoomError, match=rf"a message of h01 is already there \(0003/{kind}/h01\)"):
        raise played(room.sums(), rng)["h01"]


def test_what_cannot_be_summed_is_refused(rng):
    room = Room(rng, 3)
    north, wrong = room.identities["h00"], Identity.create("h00")
    numbers = room.numbers["h00"]
    cases = [
        ((wrong, 0, room.names, numbers), "key of h00 is not the one that the agreement names"),
        ((Identity.create("x"), 0, room.names, numbers), "'x' is not a party"),
        ((north, 0, [*room.names, "x"], numbers), "'x' is not a party"),
        ((north, 0, room.names[1:], numbers), "h00 is no longer in the room"),
        ((north, 0, room.names, numbers.astype(float)), "int64 numbers"),
        ((north, 0, room.names, numbers.reshape(1, -1)), "int64 numbers"),
    ]
    for arguments, words in cases:
        with pytest.raises(RoomError, match=words):
            SecureSum(room.box, room.seats, *arguments)
    room.numbers["h02"] = room.numbers["h02"][:-1]
    outcomes = played(room.sums(), rng)
    for name in ("h00", "h01"):
        assert "h02 sent other numbers than" in str(outcomes[name])


def test_it_runs_in_threads_and_can_be_stopped(rng):
    room = Room(rng, 4)
    totals, stop = {}, threading.Event()

    def take_part(name):
        arguments = (room.seats, room.identities[name], 3, room.names, room.numbers[name])
        totals[name] = secure_sum(room.box, *arguments, patience=60, poll=0.001)

    threads = [threading.Thread(target=take_part, args=(name,)) for name in room.names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(check_totals(room, totals)) == 4
    stop.set()
    with pytest.raises(RoomError, match="h00 was told to stop, in sum 4"):
        secure_sum(room.box, room.seats, room.identities["h00"], 4, room.names, room.numbers["h00"], stop=stop)


def test_any_error_ends_a_sum_and_its_secrets(rng, monkeypatch):
    room = Room(rng, 3)
    own = room.sums()["h00"]
    monkeypatch.setattr(room.views["h00"], "put", lambda name, content: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        own.step(0.0)
    assert own._secrets is None
    with pytest.raises(RoomError, match="sum 3 of the room ended with an error at h00"):
        own.step(1.0)


def test_a_list_whose_place_is_blocked_for_a_while_is_made_later(rng):
    """Whoever claimed its place was killed: a put fails, and nothing is there."""
    room = Room(rng, 3)
    place, tries = f"{room.stage:04d}/keys-list/anybody", []
    for view in room.views.values():
        put = view.put

        def blocked(name, content, put=put):
            if name == place and len(tries) < 5:
                tries.append(name)
                return False
            return put(name, content)

        view.put = blocked
    outcomes = played(room.sums(), rng)
    assert all(outcome.present == tuple(room.names) for outcome in outcomes.values()) and len(tries) == 5
