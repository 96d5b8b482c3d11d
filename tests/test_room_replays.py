"""Rooms that are killed, restarted and replayed: no less is booked than was released, and no session is two."""

import json
import math
import os
import re
import shutil
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.holder import curator
from radoboost.holder.keystream import Key
from radoboost.holder.rooms import agreement as room_notes
from radoboost.holder.rooms import participant
from radoboost.holder.rooms.agreement import PLACE
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.signed_messages import Identity, sign_message
from radoboost.privacy import event_from_dict
from radoboost.release.composition import Receipt, account_for_releases, earlier_releases, read_receipt
from rooms import View, bare_sum
from test_room_processes import holders, until

NAMES = ("east", "middle", "north", "south", "west")
AGREED = {"schema": {"x0": (0, 9), "x1": (0, 9)}, "classes": (0, 1), "columns": "linear", "parties": 5}
RECORDS = {**AGREED, "mechanism": rb.Moments(1.0, sharpen=False)}
LABELS = {**AGREED, "mechanism": rb.Moments(4.0, unit="label", sharpen=False)}
EXACT = {**AGREED, "mechanism": rb.Moments(math.inf)}


class Killed(BaseException):
    """A process that ends at once, and tells nobody."""


class People:
    """Five holders, each with a table, a key in a file and a ledger."""

    def __init__(self, place, names=NAMES, ledgers=True):
        self.place, self.names = place, names
        place.mkdir(exist_ok=True)
        for name in names:
            Identity.create(name).save(place / f"{name}.pem")
        self.ledgers = {
            name: rb.Ledger.create(place / f"{name}.ledger", "patients", epsilon=50.0) if ledgers else None
            for name in names
        }

    def table(self, name):
        x = np.random.default_rng(ord(name[0])).uniform(0, 9, (40 + 10 * self.names.index(name), 2))
        return x, (x.sum(axis=1) > 9).astype(int)

    def meet(self, box, names=None, add=bare_sum, **options):
        """What each ends with, as if it were a process started anew: its key is read from the file."""
        names = names or self.names
        codes = {}

        def join(name):
            def confirm(code, parties):
                codes[name] = code
                return True

            chosen = {"confirm": confirm, "wait": 60.0, "patience": 60.0, **options.get(name, {})}
            try:
                return rb.join_room(
                    chosen.pop("seen", box),
                    *self.table(name),
                    name=name,
                    identity=self.place / f"{name}.pem",
                    counts=None,
                    compute=rb.Compute(threads=1),
                    **{"ledger": self.ledgers[name], **chosen},
                )
            except (rb.RadoError, Killed) as error:
                return error

        with patch.object(participant, "secure_sum", add), ThreadPoolExecutor(len(names)) as threads:
            return dict(zip(names, threads.map(join, names), strict=True)), codes

    def booked(self, name):
        """The ids under which something is booked."""
        return {entry.release for entry in self.ledgers[name].entries()}

    def receipts(self, name):
        return sorted((self.place / f"{name}.pem.rooms").glob("*.receipt.json"))


def opened(agreed):
    box = MemoryMailbox()
    flat.open_room(box, **agreed)
    return box


def replayed(box):
    """The same mailbox, of which a hostile keeper has deleted everything but the agreement."""
    fresh = MemoryMailbox()
    fresh.put(PLACE, box.get(PLACE))
    return fresh


def lost_at(stage, *victims, kind=rb.RoomError):
    """Sums without masks in which some holders are lost at a stage."""

    def add(*about, **options):
        if about[3] >= stage and about[2].party.name in victims:
            raise kind(f"{about[2].party.name} is lost")
        return bare_sum(*about, **options)

    return add


def test_ten_replays_of_a_room_give_one_release(tmp_path):
    """Before, each of ten runs made another release under the same code and id: ten times epsilon 1, counted once."""
    people, box = People(tmp_path), opened(RECORDS)
    ends, codes = people.meet(box)
    release = ends["east"]
    assert {end.id for end in ends.values()} == {release.id} and len(set(codes.values())) == 1
    for _ in range(9):
        ends, codes = people.meet(replayed(box), south={"ledger": None})
        assert all("was in this room before, and nobody comes back" in str(end) for end in ends.values()) and not codes
    assert people.booked("east") == {release.id}
    (receipt,) = people.receipts("east")
    assert stat.S_IMODE(receipt.stat().st_mode) == 0o600 and stat.S_IMODE(receipt.parent.stat().st_mode) == 0o700
    assert sorted(os.listdir(receipt.parent)) == [receipt.name]
    # The receipt of a room that came to its release adds nothing to it.
    alone, both = (account_for_releases(of, 1e-6) for of in ([release], [release, receipt]))
    assert both["epsilon"] == alone["epsilon"] and len(both["releases"]) == 1
    assert read_receipt(receipt).id == release.id
    assert read_receipt(receipt).event == event_from_dict(release.statement.event)


def test_ten_replays_to_new_keys_give_ten_ids_and_ten_bookings(tmp_path):
    people, box, ends, codes = People(tmp_path), opened(RECORDS), [], set()
    for _ in range(10):
        for name in NAMES:
            (tmp_path / f"{name}.pem").unlink()
            Identity.create(name).save(tmp_path / f"{name}.pem")
        found, compared = people.meet(replayed(box))
        ends.append(found["north"])
        codes |= set(compared.values())
    assert len({end.id for end in ends}) == len(codes) == 10
    assert people.booked("north") == {end.id for end in ends}
    assert len(account_for_releases(ends, 1e-6)["releases"]) == 10


def test_a_copied_key_that_is_replayed_has_another_code_and_another_id(tmp_path):
    """Notes do not know copies of a key. But no session is another one, by the random numbers of greetings."""
    people, box = People(tmp_path), opened(RECORDS)
    first, codes = people.meet(box)
    for name in NAMES:
        for place in people.receipts(name):
            place.unlink()
    second, others = people.meet(replayed(box))
    assert first["east"].id != second["east"].id and set(codes.values()).isdisjoint(others.values())
    assert people.booked("east") == {first["east"].id, second["east"].id}
    assert len(earlier_releases([first["east"], second["east"]])) == 2


def test_a_holder_that_was_killed_before_its_note_joins_again_under_another_code(tmp_path):
    """North is killed while it compares the code; the others stop; then all join the same room again."""
    people, box = People(tmp_path), opened(RECORDS)

    def killed(code, parties):
        raise Killed

    ends, codes = people.meet(
        box, north={"confirm": killed}, **{name: {"wait": 3.0} for name in NAMES if name != "north"}
    )
    assert not any(isinstance(end, rb.Release) for end in ends.values())
    assert not any(people.booked(name) or people.receipts(name) for name in NAMES)
    ends, again = people.meet(box)
    assert len({end.id for end in ends.values()}) == 1, ends
    assert len(set(again.values())) == 1 and set(again.values()).isdisjoint(codes.values())
    assert people.booked("north") == {ends["north"].id}
    assert rb.close_room(box, code=again["east"]).id == ends["east"].id
    ends, _ = people.meet(box)
    assert all("nobody comes back" in str(end) for end in ends.values())


def test_a_holder_that_was_killed_and_told_nobody_joins_again(tmp_path):
    """Its old greeting lies there. Whoever took it for a new one is told so, and the next time all meet."""
    people, box = People(tmp_path), opened(RECORDS)

    def killed(code, parties):
        raise Killed

    dead = View(box)
    dead.sent.append(lambda name, content: None if name.split("/")[1] in ("stop", "gone") else content)
    wait = {name: {"wait": 2.0} for name in NAMES}
    ends, first = people.meet(box, **{**wait, "north": {"confirm": killed, "seen": dead}})
    assert not any(isinstance(end, rb.Release) for end in ends.values())
    for _ in range(3):
        ends, codes = people.meet(box, **wait)
        if isinstance(ends["east"], rb.Release):
            break
    assert len({end.id for end in ends.values()}) == 1, ends
    assert set(codes.values()).isdisjoint(first.values()) and people.booked("north") == {ends["north"].id}


def test_all_who_were_killed_after_the_note_never_resume_and_a_retry_is_booked_in_full(tmp_path):
    people, box = People(tmp_path), opened(RECORDS)
    ends, _ = people.meet(box, add=lost_at(2, *NAMES, kind=Killed))
    assert all(isinstance(end, Killed) for end in ends.values())
    for again in (box, replayed(box)):
        ends, _ = people.meet(again)
        assert all("what it may have cost is noted in" in str(end) for end in ends.values())
    (receipt,) = people.receipts("west")
    (session,) = people.booked("west")
    assert read_receipt(receipt).id == session
    spent = people.ledgers["west"].spent().mu_squared
    ends, _ = people.meet(opened(RECORDS))
    release = ends["west"]
    assert people.booked("west") == {session, release.id} and people.ledgers["west"].spent().mu_squared == 2 * spent
    counted = account_for_releases([release, receipt], 1e-6)
    assert {entry["id"] for entry in counted["releases"]} == {session, release.id}
    assert counted["epsilon"] > 1.4 > release.statement.epsilon
    release.save(tmp_path / "release")
    again = rb.craft(
        *people.table("west"),
        classes=(0, 1),
        columns="linear",
        mechanism=rb.Moments(1.0, sharpen=False),
        compose=[tmp_path / "release", receipt],
        schema=[(0, 9)] * 2,
    )
    assert again.statement.composed["earlier_releases"] == 2


def test_nothing_is_computed_unless_it_can_be_noted(tmp_path):
    people, box = People(tmp_path), opened(RECORDS)
    together = threading.Barrier(len(NAMES), timeout=60)  # or who is late is told that the first has left

    def full(place, content):
        together.wait()
        raise OSError(28, "No space left on device")

    with patch.object(room_notes, "_write_note_once", full):
        ends, _ = people.meet(box)
    assert all("No space left on device" in str(end) and "nothing is computed" in str(end) for end in ends.values())
    assert not [name for name in box.names("") if not name.startswith(("0000/", PLACE))]


@pytest.mark.parametrize(
    "agreed",
    [RECORDS, LABELS, {**AGREED, "n_rados": 4, "mechanism": rb.NoisyRados(1.0)}, {**AGREED, "n_rados": 4}],
    ids=["records", "labels", "rados", "plain"],
)
def test_the_note_is_on_disk_before_the_first_key_and_the_first_sum(tmp_path, agreed):
    people = People(tmp_path, ledgers=False)

    class Watched:
        """A key of noise, which is made only where the holder has noted the session."""

        @staticmethod
        def from_system():
            name = sys._getframe(1).f_locals["self"]._pool._identity.party.name
            assert people.receipts(name)
            return Key.from_system()

    def add(*about, **options):
        assert people.receipts(about[2].party.name)
        return bare_sum(*about, **options)

    with patch.object(curator, "Key", Watched):
        ends, _ = people.meet(opened(agreed), add=add)
    assert all(isinstance(end, rb.Release) for end in ends.values()), ends
    (receipt,) = people.receipts("east")
    assert read_receipt(receipt).event == event_from_dict(ends["east"].statement.event)


def test_of_two_processes_that_note_at_once_one_begins(tmp_path, monkeypatch):
    """Both had looked before either wrote: the system makes the file once."""
    agreement = flat.open_room(MemoryMailbox(), **RECORDS)
    Identity.create("north").save(tmp_path / "n.pem")
    monkeypatch.setattr(room_notes.Notes, "check", lambda self: None)
    one, other = (room_notes.Notes(Identity.load("north", tmp_path / "n.pem"), agreement) for _ in range(2))
    parties = tuple(Identity.create(name).party for name in NAMES)
    first, second = (Roster(bytes([k]) * 32, parties, 1) for k in range(2))
    one.write(first, rb.Moments(1.0).dearest(_shape()))
    noted = one.place.read_bytes()
    with pytest.raises(rb.RoomError, match="nobody comes back"):
        other.write(second, rb.Moments(1.0).dearest(_shape()))
    assert one.place.read_bytes() == noted and not other.written


# ---- receipts and files


def test_two_files_of_one_id_and_different_content_are_refused(tmp_path):
    bounds = {
        "bounds": [[0, 9]] * 2,
        "classes": (0, 1),
        "columns": "linear",
        "mechanism": rb.Moments(1.0, sharpen=False),
    }
    x = np.random.default_rng(0).uniform(0, 9, (50, 2))
    a, b = (flat.craft(x, (x.sum(axis=1) > 9).astype(int), **bounds) for _ in range(2))
    b = replace(b, id=a.id)
    for name, release in (("a", a), ("b", b), ("again", a)):
        release.save(tmp_path / name)
    with pytest.raises(ArgumentError, match="not the same content"):
        earlier_releases([tmp_path / "a", tmp_path / "b"])
    c = flat.craft(x, (x.sum(axis=1) > 9).astype(int), **bounds, compose=[tmp_path / "a"])
    for order in ([c, tmp_path / "b"], [tmp_path / "b", c]):
        with pytest.raises(ArgumentError, match="not the same content"):
            earlier_releases(order)
    assert len(earlier_releases([tmp_path / "a", tmp_path / "again", c])) == 2
    assert len(earlier_releases([a, rb.load(tmp_path / "a"), rb.draw_rados(a, 5)])) == 1


def test_what_is_no_receipt_is_refused(tmp_path, rado):
    (tmp_path / "empty.receipt.json").write_bytes(b"")
    with pytest.raises(ReleaseError, match="nothing to count"):
        earlier_releases([tmp_path / "empty.receipt.json"])
    good = json.loads(Receipt("0" * 32, rb.Moments(1.0).dearest(_shape())).to_bytes())
    for wrong in ({**good, "format": "x"}, {**good, "id": 3}, {**good, "event": {}}, {"a": 1}):
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        with pytest.raises(ReleaseError, match="neither a release nor the receipt"):
            earlier_releases([tmp_path / "wrong.json"])
    (tmp_path / "good.receipt.json").write_text(json.dumps(good))
    code, out, err = rado("account", tmp_path / "good.receipt.json")
    assert code == 0 and "0" * 32 in out, err


def _shape():
    from radoboost.holder.mechanisms.moments.budget import NoiseShape

    return NoiseShape(3)


# ---- exact sums


def test_a_room_with_exact_sums_stops_when_a_holder_is_lost(tmp_path):
    """Before, the release had the rows of five and the features of four: who was lost had its number of rows told."""
    people, box = People(tmp_path, ledgers=False), opened(LABELS)

    def add(*about, **options):
        if about[3] > 1 and about[2].party.name == "west":
            raise rb.RoomError("west is lost")
        from radoboost.holder.rooms.secure_aggregation import secure_sum

        return secure_sum(*about, **options)

    ends, _ = people.meet(box, add=add)
    for name, end in ends.items():
        assert isinstance(end, rb.RoomError) and "west" in str(end), (name, end)
    assert "0002/masked/east" not in box.names("") and "0002/unmask/east" not in box.names("")


@pytest.mark.parametrize("exact", [LABELS, EXACT], ids=["labels", "no noise"])
def test_a_second_room_with_exact_sums_and_other_members_is_refused_unless_the_holder_says_so(tmp_path, exact):
    people = People(tmp_path, ledgers=False)
    ends, _ = people.meet(opened(exact))
    release = ends["east"]
    assert "Exact sums over different sets of holders reveal" in release.statement.trust_model
    assert "all holders must stay to the end" in flat.open_room(MemoryMailbox(), **exact).as_text()[1]
    four, first = {**exact, "parties": 4}, NAMES[:4]
    box = opened(four)
    ends, codes = people.meet(box, first)
    assert (
        all("with other members" in str(end) and "--other-members" in str(end) for end in ends.values()) and not codes
    )
    ends, _ = people.meet(box, first, **{name: {"other_members": True} for name in first})
    assert all(isinstance(end, rb.Release) for end in ends.values()), ends
    five, _ = people.meet(opened(exact))  # east was in one with others, and west was not
    assert all(not isinstance(end, rb.Release) for end in five.values())
    records, _ = people.meet(opened({**RECORDS, "parties": 4}), first)
    assert all(isinstance(end, rb.Release) for end in records.values()), records


# ---- a speaker who lies


@pytest.mark.parametrize(
    "lie",
    [
        lambda value: (np.array(value) * 1e200).tolist(),
        lambda value: (np.array(value) * np.inf).tolist(),
        lambda value: np.array(value)[:1].tolist(),
    ],
    ids=["huge", "infinite", "shape"],
)
def test_a_speaker_who_sends_absurd_figures_is_named_at_every_honest_holder(tmp_path, lie):
    """Before, whitening times 1e200 ended the others with a bare ValueError about JSON."""
    people, box = People(tmp_path, NAMES[:3], ledgers=False), opened({**RECORDS, "parties": 3})
    key = Identity.load("east", tmp_path / "east.pem")
    genuine, lied = participant.Participant.agreed, threading.Event()

    def agreed(self, compute, *options):
        mine = compute()
        if self._identity.party.name == "east" and np.ndim(mine) == 2:
            self.stage += 1
            value = lie(mine)
            arrays = {"value": np.array(value)}
            place = f"{self.stage:04d}/agreed/anybody"
            self._mailbox.put(place, sign_message(key, self._seats.agreement, self.stage, "agreed", {}, arrays))
            lied.set()
            raise Killed
        return genuine(self, lambda: mine, *options)

    with patch.object(participant.Participant, "agreed", agreed):
        ends, _ = people.meet(box, NAMES[:3])
    assert lied.is_set()
    for name in NAMES[1:3]:
        assert type(ends[name]) is rb.RoomError and "east" in str(ends[name]) and "figures" in str(ends[name]), ends[
            name
        ]


def test_figures_that_cannot_be_used_are_their_speakers(tmp_path):
    from radoboost.holder.rooms.signed_messages import message_place

    everybody, box = [Identity.create(name) for name in NAMES[:3]], MemoryMailbox()
    seats = Roster(bytes(32), tuple(one.party for one in everybody), 1)
    box.put(message_place(1, "agreed"), sign_message(everybody[0], bytes(32), 1, "agreed", {"value": [200]}))

    def read(tops):
        if tops[0] > 130:
            raise ValueError("no such bin")
        return tops

    with pytest.raises(rb.RoomError, match="east sent figures that cannot be used, in stage 1"):
        participant.Participant(box, seats, everybody[1]).agreed(lambda: [3], read)
    with pytest.raises(ValueError, match="no such bin"):
        participant.Participant(MemoryMailbox(), seats, everybody[0]).agreed(lambda: [200], read)


# ---- real processes


@pytest.mark.slow
def test_five_processes_that_are_killed_before_the_note_join_again_and_ten_replays_give_one_release(tmp_path):
    """All are killed while they compare the code. Nothing is booked then, and nothing was sent that sums anything."""
    with holders(tmp_path, NAMES) as five:
        room = Path(five.open("--epsilon", 1))
        options = ("--ledger", "own.ledger", "--wait", 60)

        def booked(name):
            return {entry.release for entry in rb.Ledger(tmp_path / name / "own.ledger").entries()}

        def receipts(name):
            return list((tmp_path / name / "key.pem.rooms").glob("*.receipt.json"))

        def codes():
            return {found for name in NAMES for found in re.findall("the code of this room: (.*)", five.log(name))}

        for name in NAMES:
            assert five.rado("ledger", "create", tmp_path / name / "own.ledger", "--table", "t", "--epsilon", 9)[0] == 0
            five.join(room, name, *options, answer=None)
        until(lambda: all("has each of them this code?" in five.log(name) for name in NAMES))
        five.kill()
        before = codes()
        assert len(before) == 1 and not any(booked(name) or receipts(name) for name in NAMES)
        assert {path.parent.parent.name for path in room.glob("*/*/*")} <= {"0000"}
        # Old greetings lie there: who takes one for a new one ends without a note, and the next time all meet.
        for _ in range(4):
            for name in NAMES:
                five.join(room, name, *options)
            if set(five.ended().values()) == {0}:
                break
            assert not any(receipts(name) or booked(name) for name in NAMES), "\n".join(map(five.log, NAMES))
        assert len({five.file(name) for name in NAMES}) == 1 and len(codes()) == 1 and codes().isdisjoint(before)
        release = rb.load(tmp_path / "east" / "joint.rado.parquet")
        for replay in range(10):
            hostile = tmp_path / f"{replay}.room"
            if replay % 2:  # all that was ever sent, but for the release
                shutil.copytree(room, hostile, ignore=shutil.ignore_patterns("release", "signed"))
            else:
                hostile.mkdir()
                shutil.copy(room / "agreement", hostile)
            for name in NAMES if replay else ():  # the first one by processes of their own
                own = tmp_path / name
                files = (own / "table.csv", "--as", name, "--identity", own / "key.pem", "--ledger", own / "own.ledger")
                code, _, err = five.rado("room", "join", hostile, *files, "-o", own / "x.rado.parquet", "--code", "x")
                assert code == 1 and "was in this room before, and nobody comes back" in err, err
            if not replay:
                for name in NAMES:
                    five.join(hostile, name, "--ledger", "own.ledger", "-o", "x.rado.parquet")
                assert five.ended() == dict.fromkeys(NAMES, 1)
                assert all("was in this room before" in five.log(name) for name in NAMES)
        for name in NAMES:
            (receipt,) = receipts(name)
            assert booked(name) == {release.id} == {read_receipt(receipt).id}
            assert not (tmp_path / name / "x.rado.parquet").exists()


@pytest.mark.slow
def test_five_processes_that_are_killed_after_the_note_and_replayed(tmp_path):
    with holders(tmp_path, NAMES) as five:
        room = Path(five.open("--epsilon", 1))
        agreement = (room / "agreement").read_bytes()
        for name in NAMES:
            ledger = tmp_path / name / "own.ledger"
            assert five.rado("ledger", "create", ledger, "--table", "t", "--epsilon", 9)[0] == 0
            five.join(room, name, "--ledger", "own.ledger")
        until(lambda: len(list(room.glob("*/masked/west"))) >= 2)
        five.kill()
        hostile = tmp_path / "again.room"
        hostile.mkdir()
        (hostile / "agreement").write_bytes(agreement)
        for name in NAMES:
            five.join(hostile, name, "--ledger", "own.ledger")
        assert five.ended() == dict.fromkeys(NAMES, 1)
        assert all("was in this room before, and nobody comes back" in five.log(name) for name in NAMES)
        room = five.open("--epsilon", 1, where=tmp_path / "new.room")
        for name in NAMES:
            five.join(room, name, "--ledger", "own.ledger")
        assert five.ended() == dict.fromkeys(NAMES, 0), "\n".join(map(five.log, NAMES))
        for name in NAMES:
            release = rb.load(tmp_path / name / "joint.rado.parquet")
            receipts = list((tmp_path / name / "key.pem.rooms").glob("*.receipt.json"))
            booked = {entry.release for entry in rb.Ledger(tmp_path / name / "own.ledger").entries()}
            assert len(receipts) == 2 and booked == {read_receipt(place).id for place in receipts} >= {release.id}
            code, out, err = five.rado("account", tmp_path / name / "joint.rado.parquet", *receipts, "--json")
            assert code == 0 and len(json.loads(out)["releases"]) == 2 and json.loads(out)["epsilon"] > 1.4, err
