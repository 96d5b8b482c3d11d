"""Every fault of a room: who is named at each holder and by `rado room show`, what is spent, what `close` gives."""

import re
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

import radoboost as rb
from radoboost.holder.rooms import http_mailbox
from room_faults import FAULTS, KEYS_2, THREE, At, Fault, Processes, Threads
from small_disks import filled
from test_room_processes import RoomServer, holders, until

ORDER = ["--epsilon", 1, "--set", "sharpen=no", "--columns", "linear"]


@contextmanager
def people_of(place, fault, *words, where=None):
    """The holders of a fault, each with a table, a key and a ledger, a room for them, and its server, if it has one."""
    with holders(place, fault.holders, rows=60) as people:
        for name in fault.holders:
            rb.Ledger.create(place / name / "own.ledger", "t", epsilon=50.0)
        for name, changes in fault.table.items():
            table = place / name / "table.csv"
            for before, after in changes.items():
                table.write_text(table.read_text().replace(before, after))
        if fault.earlier:
            earlier = people.open(*ORDER, where=place / "earlier.room")
            Threads(people, earlier).play(Fault("nothing", {}, (), "", fault.holders))
            for name in fault.holders:
                (place / name / "joint.rado.parquet").unlink()
        with RoomServer(place, *words) if fault.served else nullcontext() as server:
            yield people, people.open(*ORDER, where=server.address if server else where), server


def bookings(people, name):
    return len(rb.Ledger(people.place / name / "own.ledger").entries())


def check_end(fault, people, name, log, before):
    """What one who is left was told, what it has, and what it has spent."""
    told, file = fault.end_of(name), people.place / name / "joint.rado.parquet"
    error = next((line for line in reversed(log.splitlines()) if line.startswith("rado: ")), "") if told else ""
    assert re.search(told, error), (name, log)
    assert file.exists() != bool(told), (name, log)
    booked = bookings(people, name) > before[name]
    assert booked == fault.booked, (name, log)
    if told:
        assert ("stays booked in" in error and "nothing was written" in error) == booked, (name, log)
    if name in fault.told:  # it knows what it did itself
        return
    assert re.search(fault.said, log), (name, log)
    innocent = set(fault.holders) - set(fault.guilty) if fault.guilty else set()
    blamed = [error.partition("; ")[0], *re.findall("(?m)^(?:rado: )?(?:going on|waiting for) .*", log)]
    assert not any(re.search(rf"\b{one}\b", line) for one in innocent for line in blamed), (name, log)


def check(fault, logs, people, room, before):
    for name in set(fault.holders) - fault.victims:
        check_end(fault, people, name, logs[name], before)
    files = {
        file.read_bytes() for name in fault.holders if (file := people.place / name / "joint.rado.parquet").exists()
    }
    code, shown, err = people.rado("room", "show", room)
    assert code == 0 and re.search(fault.show, shown), (shown, err)
    fetched = people.place / "fetched.rado.parquet"
    code, _, err = people.rado("room", "close", room, "-o", fetched)
    if fault.close:
        assert code == 1 and re.search(fault.close, err) and not fetched.exists() and not files, (err, shown)
        assert "fetch it with: rado room close" not in shown
    else:
        assert code == 0 and {fetched.read_bytes()} == files, (err, shown)
        assert "fetch it with: rado room close" in shown


def played(kind, fault, place):
    with people_of(place, fault) as (people, room, _):
        before = {name: bookings(people, name) for name in fault.holders}
        check(fault, kind(people, room).play(fault), people, room, before)
        if fault.back:
            own = place / fault.back
            words = ["--as", fault.back, "--identity", own / "key.pem", "-o", own / "x.rado.parquet"]
            code, _, err = people.rado("room", "join", room, own / "table.csv", *words)
            assert code == 1 and f"{fault.back} was in this room before, and nobody comes back" in err
        if fault.again:
            for stray in Path(room).glob("0000/hello/mallory"):
                stray.unlink()
            healthy = Fault("again", {}, (), "released     signed by 4 of 4", fault.holders)
            check(healthy, kind(people, room).play(healthy), people, room, before)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.quick], ids=lambda fault: fault.name)
def test_a_fault_among_threads(tmp_path, fault):
    played(Threads, fault, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_among_processes(tmp_path, fault):
    played(Processes, fault, tmp_path)


# ---- the mailbox itself


@contextmanager
def in_the_midst(place, *words, goes_on=False, folder=None):
    """Three holders, each about to begin its second sum, in a room in a folder, or at a server; they, it and the room.

    They are patient if the room `goes_on`.
    """
    at = {name: [At("sleep 0.5", *KEYS_2)] for name in THREE}
    fault = Fault("", at, (), "", THREE, served=folder is None, quick=goes_on)
    with people_of(place, fault, *words, where=folder) as (people, room, server):
        Processes(people, room).start(fault)
        until(lambda: all(bookings(people, name) > 1 for name in THREE))
        yield people, server, room


def check_released(people, room):
    """All have the same file, and so has whoever fetches it."""
    assert set(people.ended().values()) == {0}, "\n".join(map(people.log, THREE))
    assert "released     signed by 3 of 3" in people.rado("room", "show", room)[1]
    assert people.rado("room", "close", room, "-o", people.place / "fetched")[0] == 0
    assert {people.file(name) for name in THREE} == {(people.place / "fetched").read_bytes()}


def check_refused(people, words):
    """All are told the same, and what stays booked; nobody has a file."""
    assert set(people.ended().values()) == {1}
    for name in THREE:
        error = people.log(name).splitlines()[-1]
        assert re.match(f"rado: .*{words}.*; epsilon .* stays booked in .*; nothing was written", error), error
        assert not (people.place / name / "joint.rado.parquet").exists()


def check_unfinished(people, room):
    """Nobody could leave a word of why it stopped."""
    assert "at work      stage" in people.rado("room", "show", room)[1]
    code, _, err = people.rado("room", "close", room)
    assert code == 1 and "there is no release in" in err and "its holders are still at work, or were cut off" in err


@pytest.mark.slow
def test_a_mailbox_that_is_killed_and_back_loses_nothing(tmp_path):
    """B1: it keeps rooms in a folder."""
    (tmp_path / "kept").mkdir()
    with in_the_midst(tmp_path, "--folder", tmp_path / "kept", goes_on=True) as (people, server, room):
        server.kill()
        time.sleep(4)
        server.start()
        check_released(people, room)


@pytest.mark.slow
@pytest.mark.parametrize(("again", "words"), [(True, "this mailbox has no such room"), (False, "no answer from the")])
def test_a_mailbox_that_ends_for_good_costs_what_is_booked(tmp_path, monkeypatch, again, words):
    """B2 and B3: it keeps rooms in memory, and is started again or not."""
    monkeypatch.setattr(http_mailbox, "_PATIENCE", 1.0)
    with in_the_midst(tmp_path) as (people, server, room):
        server.kill()
        if again:
            server.start()
        check_refused(people, words)
        for verb in ("show", "close"):
            code, out, err = people.rado("room", verb, room)
            assert code == 1 and out == "" and words in err


@pytest.mark.slow
@pytest.mark.parametrize("freed", [True, False])
def test_a_full_disk_of_a_server(tmp_path, monkeypatch, small_disk, freed):
    """B4: holders wait until there is space again, as long as for a server that is away."""
    monkeypatch.setattr(http_mailbox, "_PATIENCE", 1.0)
    disk = small_disk(3000)
    with in_the_midst(tmp_path, "--folder", disk, goes_on=freed) as (people, server, room):
        with filled(disk):
            until(lambda: f"{disk}: No space left on device" in server.said())
            if not freed:
                check_refused(people, r"cannot keep or read messages now \(No space left on device\)")
                check_unfinished(people, room)
        if freed:
            check_released(people, room)


@pytest.mark.slow
def test_a_full_disk_of_a_folder(tmp_path, small_disk):
    """B5."""
    disk = small_disk(3000)
    with in_the_midst(tmp_path, folder=disk / "a.room") as (people, _, room), filled(disk):
        check_refused(people, "No space left on device; make space on its drive, and open another room")
        check_unfinished(people, room)
