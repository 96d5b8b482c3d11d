"""Every fault of a room: who is named at each holder and by `rado room show`, what is spent, what `close` gives."""

import json
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

import radoboost as rb
from room_faults import FAULTS, THREE, Fault, Processes, Threads
from test_room_processes import RADO, holders, until

ORDER = ["--epsilon", 1, "--no-sharpen", "--columns", "linear"]


@contextmanager
def people_of(place, fault):
    """The holders of a fault, each with a table, a key and a ledger, and a room for them."""
    with holders(place, fault.holders, rows=60) as people:
        for name in fault.holders:
            rb.Ledger.create(place / name / "own.ledger", "t", epsilon=50.0)
        if fault.spoiled:
            table = place / fault.spoiled / "table.csv"
            table.write_text(table.read_text().replace(",yes", ",1").replace(",no", ",0"))
        if fault.earlier:
            earlier = people.open(*ORDER, where=place / "earlier.room")
            Threads(people, earlier).play(Fault("nothing", {}, (), "", fault.holders))
            for name in fault.holders:
                (place / name / "joint.rado.parquet").unlink()
        yield people, people.open(*ORDER)


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
    with people_of(place, fault) as (people, room):
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


@pytest.mark.slow
@pytest.mark.parametrize(("again", "words"), [(True, "this mailbox has no such room"), (False, "no answer from the")])
def test_a_mailbox_that_ends_for_good_costs_what_is_booked(tmp_path, monkeypatch, again, words):
    """B2 and B3: it keeps rooms in memory, and is started again or not."""
    serve = [*RADO, "room", "serve", "--json", "--port"]
    servers = [subprocess.Popen([*serve, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)]
    try:
        said = json.loads(servers[0].stdout.readline())
        monkeypatch.setenv("RADO_ROOM_TOKEN", said["token"])
        with holders(tmp_path, THREE, rows=60) as people:
            for name in THREE:
                rb.Ledger.create(tmp_path / name / "own.ledger", "t", epsilon=50.0)
            room = people.open(*ORDER, where=said["address"])
            Processes(people, room).start(Fault("", {}, (), "", THREE))
            until(lambda: any(bookings(people, name) for name in THREE))
            servers[0].kill()
            if again:
                port = said["address"].rpartition(":")[2]
                servers.append(subprocess.Popen([*serve, port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            assert set(people.ended().values()) == {1}
            for name in THREE:
                error = people.log(name).splitlines()[-1]
                assert error.startswith("rado: ") and words in error, error
                assert ("stays booked in" in error) == (bookings(people, name) > 0)
    finally:
        for server in servers:
            server.kill()
            server.wait()
            server.stdout.close()
