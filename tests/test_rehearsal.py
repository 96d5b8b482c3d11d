"""rado room rehearse: five hospitals in five processes, watched from outside."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from radoboost.cli.demo import _rehearsal_table, _rehearsal_view
from radoboost.errors import ArgumentError, OutputError, RoomError
from radoboost.examples import rehearsal
from radoboost.examples.hospital import FIVE
from radoboost.holder.rooms.mailbox import mailbox_at

RADO = [sys.executable, "-m", "radoboost"]


def nothing(*_):
    """Neither says nor shows anything."""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where folders with names of their own are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


def test_another_hospital_and_a_folder_that_exists_are_refused(tmp_path, temporary):
    with pytest.raises(ArgumentError, match="no hospital 'nowhere'"):
        rehearsal.rehearse_room(None, "nowhere", nothing, nothing)
    with pytest.raises(OutputError, match="choose another"):
        rehearsal.rehearse_room(tmp_path, None, nothing, nothing)
    assert tmp_path.exists() and not list(temporary.iterdir())


def test_a_hospital_that_fails_is_named_and_nothing_is_left(temporary, monkeypatch):
    monkeypatch.setattr(rehearsal, "_craft_alone_in_rehearsal", lambda *_: None)
    monkeypatch.setattr(rehearsal, "_rehearsal_error", lambda *_: 0.5)
    words = {name: ["--version"] if name != "east" else ["show", "missing"] for name in FIVE}
    monkeypatch.setattr(rehearsal, "_join_command_in_rehearsal", lambda name, lose: words.get(name, []))
    with pytest.raises(RoomError, match=r"east stopped: .*missing"):
        rehearsal.rehearse_room(None, None, nothing, nothing)
    assert not list(temporary.iterdir())


# ---- what an onlooker sees


@pytest.fixture
def watched(tmp_path):
    """A room with messages that holders might have left, its processes, and what it shows."""
    box = mailbox_at(str(tmp_path / rehearsal.ROOM), make=True)
    box.put("agreement", b"-")
    for name in FIVE:
        (tmp_path / name).mkdir()
        (tmp_path / name / rehearsal.LOG).write_text("rado: something happened\n")
    processes = {name: SimpleNamespace(code=None) for name in FIVE}
    for process in processes.values():
        process.poll = lambda process=process: process.code
        process.kill, process.wait = lambda process=process: setattr(process, "code", -9), nothing
    shown = []
    room = rehearsal._Room(tmp_path, None, processes, shown.append)

    def stands():
        room.wait(lambda: True)
        return {stand.name: stand for stand in shown[-1]}

    return SimpleNamespace(box=box, processes=processes, room=room, stands=stands)


def test_steps_follow_from_messages_and_processes(watched):
    kinds = ("0000/hello", "0000/ready", "0001/keys", "0001/shares", "0001/masked")
    for place in kinds:
        for name in FIVE:
            if (place, name) != ("0001/masked", "west"):
                watched.box.put(f"{place}/{name}", b"12345678")
    watched.box.put("0001/keys-list/all", b"a list is nobody's step")
    stands = watched.stands()
    assert stands["north"] == rehearsal.Stand("north", "sum 1: masked numbers sent", ("west",), 5, 40)
    assert stands["west"].step == "sum 1: shares of secrets sent" and stands["west"].waits_for == ()
    watched.box.put("0003/signed/north", b"1")
    watched.processes["south"].code = 0
    stands = watched.stands()
    assert stands["north"].step == "has signed the release" and stands["south"].step == "has the release"
    assert not watched.room.is_over()


def test_one_that_is_to_be_lost_is_killed_after_some_sums(watched):
    for stage in range(1, rehearsal._SUMS_BEFORE + 1):
        watched.box.put(f"{stage:04d}/masked/west", b"1")
    watched.room.lose("west")
    assert watched.stands()["west"].step == "was killed"
    watched.processes["north"].code = 1
    with pytest.raises(RoomError, match="north stopped: something happened"):
        watched.stands()


STANDS = [
    rehearsal.Stand("north", "sum 12: masked numbers sent", ("south", "east", "west", "coast"), 1234, 12_345_678),
    rehearsal.Stand("west", "was killed", (), 3, 1200),
]


def test_the_table_fits_a_terminal_of_80_columns():
    console = Console(file=io.StringIO(), width=80)
    console.print(_rehearsal_table(STANDS))
    lines = console.file.getvalue().splitlines()
    row = next(line for line in lines if "north" in line)
    assert row.split() == ["north", "sum", "12:", "masked", "numbers", "sent", "4", "others", "1,234", "12,346"]
    assert max(map(len, lines)) <= 80 and sum(bool(line.strip()) for line in lines) == 4


def test_lines_come_where_stderr_is_no_terminal_and_none_if_quiet(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["radoboost.cli.demo"], "_EVERY", 0.0)
    for quiet in (False, True):
        with _rehearsal_view(quiet) as (tell, show):
            tell("hello, [bold]all[/bold]")
            show(STANDS)
        err = capsys.readouterr().err
        assert err == ("" if quiet else "hello, [bold]all[/bold]\nnorth sum 12: masked numbers sent; west was killed\n")


# ---- for real


@pytest.mark.slow
@pytest.mark.parametrize("lose", [None, "west"])
def test_five_hospitals_end_with_one_release(rado, tmp_path, temporary, lose):
    place = tmp_path / "rehearsal"
    lost = [] if lose is None else [lose]
    code, out, err = rado("room", "rehearse", "-d", place, "--json", *(f"--lose={name}" for name in lost))
    assert code == 0, err
    result = json.loads(out)
    rest = [name for name in FIVE if name not in lost]
    assert result["lost"] == lost and len(result["releases"]) == len(rest)
    assert len({Path(file).read_bytes() for file in result["releases"]}) == 1
    assert result["promise"]["neighbours"] == "one record added or removed"
    assert result["promise"]["epsilon"] <= rehearsal.EPSILON
    assert result["ledgers"]["largest_epsilon"] < result["ledgers"]["total_epsilon"]
    assert 0.2 < result["error"]["joint"] < 0.35 and list(result["error"]["alone"]) == list(FIVE)  # guesses: 0.4
    assert f"one code: {result['code']}" in err and "telephone" in err
    if lose:
        assert "west was killed" in err
        assert not (place / "west" / rehearsal.JOINT).exists()
    for words in (["show", result["releases"][0]], ["room", "show", result["room"]]):
        code, out, err = rado(*words)
        assert code == 0 and "west" in out, err
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_ctrl_c_leaves_no_file_and_no_process(temporary):
    words = [*RADO, "room", "rehearse"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while "one code" not in (line := process.stderr.readline()):
            assert line, process.wait()
        (place,) = temporary.glob("rado-rehearsal-*")
        assert all((place / name / "key.pem").exists() for name in FIVE)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 130 and err.endswith("interrupted; no unfinished file is left\n")
        assert not list(temporary.iterdir())
        assert not joining(place)
    finally:
        process.kill()
        process.communicate()


def joining(place):
    """Processes that work in a folder below this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            found += [entry.name] if os.readlink(entry / "cwd").startswith(str(place)) else []
    return found
