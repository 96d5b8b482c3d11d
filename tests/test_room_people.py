"""What people in a room are told: before they agree, when somebody stops, and of a room that has ended."""

import io
import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.holder.rooms import participant
from radoboost.holder.rooms import room as joining_room
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.signed_messages import Identity
from schema_files import write_schema

BOUNDS = {"age": (0, 100), "dose": (0, 1)}
AGREED = {"bounds": BOUNDS, "label": "ill", "classes": ("no", "yes"), "parties": 3}
ARRAYS = {**AGREED, "bounds": {"x0": (0, 100), "x1": (0, 1)}, "label": None}
NOTHING = "promises nothing about records: there is no epsilon (--epsilon)"
OPEN = ["room", "open", "flu.schema.json", "--label", "ill", "--classes", "no,yes", "--parties", "3"]


@pytest.fixture
def clinic(rado):
    """A schema, a table and a key in the working directory, and `rado`."""
    write_schema("flu.schema.json", {"age": (0, 100), "dose": (0, 1)})
    with open("north.csv", "w") as file:
        file.write("age,dose,ill\n20,0.5,no\n30,0.7,yes\n")
    Identity.create("north").save("north.pem")
    return rado


def joining(name, *words):
    return ["room", "join", "flu.room", "north.csv", "--as", name, "--identity", "north.pem", *words]


# ---- before anybody agrees


def test_a_room_without_a_promise_says_so_when_it_is_opened_shown_and_joined(clinic):
    opened = clinic(*OPEN)[1]
    assert NOTHING in opened and NOTHING in clinic("room", "show", "flu.room")[1]
    code, _, err = clinic(*joining("north", "--code", "0123", "--wait", "0.1"))
    assert code == 1 and NOTHING in err
    assert "promises nothing" not in clinic(*OPEN, "--epsilon", "1", "-o", "other.room")[1]


def test_a_room_is_not_made_of_a_folder_that_holds_other_things(clinic):
    os.mkdir("north")
    with open("north/patients.csv", "w") as file:
        file.write("age\n")
    code, out, err = clinic(*OPEN, "-o", "north")
    assert code == 1 and out == "" and "is a folder that holds 'patients.csv'" in err and err.count("\n") == 1
    assert os.listdir("north") == ["patients.csv"]
    with pytest.raises(rb.RoomError, match="a room needs one of its own"):
        flat.open_room("north", **AGREED)
    os.mkdir("empty")
    with open("empty/.DS_Store", "w"):
        pass
    assert clinic(*OPEN, "-o", "empty")[0] == 0


def test_a_key_that_is_there_under_another_name_is_refused_before_it_greets(clinic):
    assert clinic(*OPEN)[0] == 0
    assert "only east came" in clinic(*joining("east", "--wait", "0.05"))[2]
    code, _, err = clinic(*joining("north", "--wait", "9"))
    assert code == 1 and "east has joined this room with the key of north" in err and "--identity FILE" in err
    assert [name for name in os.listdir("flu.room/0000/hello") if name[0] != "."] == ["east"]
    assert "wait longer (wait=SECONDS, or --wait)" in clinic(*joining("east", "--wait", "0.05"))[2]


def test_what_is_no_key_is_said_to_be_none(clinic):
    code, _, err = clinic("room", "identity", "north.csv")
    assert code == 1 and "north.csv is no identity, for it holds no key" in err and "others can read" not in err


# ---- a holder's own look at its table


def test_a_holder_sees_what_its_labels_are_before_it_greets(clinic, monkeypatch):
    with open("north.csv", "w") as file:
        file.write("age,dose,ill\n" + "20,0.5,no\n30,0.7,JA\n" * 5)
    assert clinic(*OPEN, "--epsilon", "1")[0] == 0
    code, out, err = clinic(*joining("north", "--wait", "0.05", "--counts", "own.json"))
    assert code == 1 and out == "" and "only north came" in err
    counts = json.loads(Path("own.json").read_text())
    assert counts["rows"] == 10 and counts["spoiled_by_this_alone"]["ill"] == 5
    messages = [place for place in Path("flu.room").rglob("*") if place.is_file()]  # counts are in none of them
    assert messages and not any(b"spoiled" in place.read_bytes() for place in messages)


def test_counts_are_shown_on_a_terminal_and_nowhere_else(monkeypatch, capsys):
    from radoboost.holder import table_check

    asked = flat.make_agreement(**ARRAYS, mechanism=rb.Moments(epsilon=1.0)).check()
    x, y = [[20.0, 0.5], [30.0, 0.7]], ["no", "JA"]
    table_check.show_check_before_room(np.array(x), y, asked, "terminal")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    table_check.show_check_before_room(np.array(x), y, asked, "terminal")
    shown = capsys.readouterr().err
    assert "1 of 2 rows contribute (50 %)" in shown and "stop here, with Ctrl-C" in shown


@pytest.mark.parametrize("mechanism", [rb.Moments(epsilon=1.0), rb.Plain()], ids=["moments", "plain"])
def test_who_sees_that_no_row_contributes_may_leave_unseen_and_nobody_else_stops(mechanism):
    """A stop that others see, by what the rows are, would be an exact function of rows."""
    box, x, y = MemoryMailbox(), [[20.0, 0.5], [30.0, 0.7]], ["JA", "NEE"]
    flat.open_room(box, **ARRAYS, mechanism=mechanism)
    seen = []

    def refuse(*counts):
        seen.append(counts)
        raise rb.RoomError("not these rows")

    options = {"identity": Identity.create("north"), "confirm": "0123", "counts": None, "wait": 0.05}
    with pytest.raises(rb.RoomError, match="not these rows"):
        rb.join_room(box, np.array(x), y, **options, own_rows=refuse)
    assert seen == [(0, 2)] and box.names("0000/") == []
    with pytest.raises(rb.RoomError, match="only north came"):
        rb.join_room(box, np.array(x), y, **options)
    assert box.names("0000/hello/")


@pytest.mark.parametrize(("rows", "answer", "stays"), [(0, "n\n", False), (0, "y\n", True), (7, "", True)])
def test_whoever_is_there_is_asked_only_if_no_row_contributes(monkeypatch, capsys, rows, answer, stays):
    from radoboost.cli.room import _Question

    question = _Question()
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    with nullcontext() if stays else pytest.raises(rb.RoomError, match="did not join; nothing is spent"):
        question.own_rows(rows, 10)
    assert ("None of your 10 rows contributes" in capsys.readouterr().err) == (rows == 0)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert question.confirmed("0000", [Identity.create("north").party])
    assert f"your rows, which nobody else sees: {rows} of 10 contribute" in capsys.readouterr().err


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked_before_the_others_know(clinic):
    with open("north.csv", "w") as file:
        file.write("age,dose,ill\n20,0.5,0\n30,0.7,1\n")
    assert clinic(*OPEN, "--epsilon", "1")[0] == 0
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "radoboost", *joining("north", "-q")]
    process = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, start_new_session=True)
    os.close(theirs)
    try:
        shown = b""
        while b"Take part? [y/N]" not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, b"n\n")
        assert b"None of your 2 rows contributes" in shown and process.wait(60) == 1
        assert not os.path.exists("flu.room/0000")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def meet(box, tables, **options):
    """What becomes of each holder: a release, or what it was told."""
    ends = {}

    def hospital(name):
        chosen = {"confirm": lambda code, parties: True, "counts": None, "patience": 300.0, **options.get(name, {})}
        x, y = tables[name]
        try:
            ends[name] = rb.join_room(box, x, y, **{"identity": Identity.create(name), **chosen})
        except rb.RadoError as error:
            ends[name] = error

    threads = [threading.Thread(target=hospital, args=(name,)) for name in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def same_tables(labels, n_rows=300):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, 100, n_rows), rng.uniform(0, 1, n_rows)])
    return {name: (x, np.where(x[:, 0] > 50, *labels)) for name in ("east", "north", "west")}


def test_a_pooled_refusal_tells_every_holder_to_look_at_its_own_table():
    box = MemoryMailbox()
    flat.open_room(box, **ARRAYS, mechanism=rb.Moments(epsilon=4.0))
    ends = meet(box, same_tables(("JA", "NEE")))
    for error in ends.values():
        assert "each holder: rado check TABLE; then open a new room; nothing was written" in str(error), error


# ---- when somebody stops, and afterwards


@pytest.mark.parametrize("confirm", ["0123", lambda code, parties: False], ids=["code", "no"])
def test_whoever_refuses_the_code_ends_the_room_for_all_and_is_named(tmp_path, clinic, confirm):
    room = str(tmp_path / "flu.room")
    flat.open_room(room, **ARRAYS)
    ends = meet(room, same_tables(("yes", "no")), north={"confirm": confirm})
    assert "nothing was computed" in str(ends["north"])
    for name in ("east", "west"):
        assert "north did not confirm the code; nothing was computed" in str(ends[name])
    shown = clinic("room", "show", room)[1]
    assert "ended        north did not confirm the code; there is no release: join again" in shown
    assert "at work" not in shown
    assert "; the last message is of 20" in shown
    state = json.loads(clinic("room", "show", room, "--json")[1])
    assert state["ended"] and state["stopped"][0] == "north"


def test_a_room_that_ended_before_the_first_sum_is_shown_anew_once_somebody_joins_again(tmp_path, clinic):
    """All had confirmed; north stopped before any sum, and all are too few; then two join the same room once more."""
    room, genuine = str(tmp_path / "flu.room"), joining_room.craft_in_room

    def crafted(*about, **options):
        if about[3]._identity.party.name == "north":
            raise rb.TableError("row 7 of the table says too much")
        about[3].waited(lambda: about[3].stopped(["north"]) or None)
        return genuine(*about, **options)

    flat.open_room(room, **ARRAYS)
    keys = {name: Identity.create(name) for name in ("east", "north", "west")}
    options = {name: {"identity": key, "patience": 60.0} for name, key in keys.items()}
    with patch.object(joining_room, "craft_in_room", crafted), patch.object(participant.Participant, "begin", refuse):
        ends = meet(room, same_tables(("yes", "no")), **options)
    assert all(isinstance(end, rb.RadoError) for end in ends.values()), ends
    shown = clinic("room", "show", room)[1]
    assert "ended        " in shown and "row 7" not in shown and "join again, all of you" in shown
    tables = same_tables(("yes", "no"))
    tables.pop("west")
    meet(room, tables, **{name: {**options[name], "wait": 0.1} for name in tables})
    shown = clinic("room", "show", room)[1]
    assert "ended        " not in shown and "waiting for" in shown


def refuse(*_):
    raise rb.RoomError("no sum is begun here")


def test_fetching_with_another_code_or_onto_a_release_says_what_is_true(tmp_path, clinic):
    room = str(tmp_path / "flu.room")
    flat.open_room(room, **ARRAYS, mechanism=rb.Moments(epsilon=4.0))
    ends = meet(room, same_tables(("yes", "no")))
    assert all(isinstance(end, rb.Release) for end in ends.values()), ends
    code, _, err = clinic("room", "close", room, "--code", "0123")
    assert code == 1 and "(nothing was written)" in err and "computed" not in err
    assert clinic("room", "close", room, "-o", "joint.rado.parquet")[0] == 0
    code, _, err = clinic("room", "close", room, "-o", "joint.rado.parquet")
    assert code == 1 and "crafting" not in err and "its noise cannot be drawn again" in err and "--force" in err
    shown = " ".join(clinic("show", "joint.rado.parquet")[1].split())
    assert "made by 3 holders in a room: east, north, west" in shown
