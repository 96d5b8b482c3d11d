"""The commands of a room, without other processes: what they print, what they refuse, what they leave behind."""

import json
import os
import stat
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import radoboost as rb
from radoboost.cli import app
from radoboost.errors import RoomError, install
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.serving import listening_socket
from schema_files import write_schema

BOUNDS = ["--label", "ill", "--classes", "no,yes", "--parties", "3"]


@pytest.fixture
def bounds(rado):
    """A schema in the working directory, and a table."""
    write_schema("flu.schema.json", {"age": (0, 100), "dose": (0, 1)})
    with open("north.csv", "w") as file:
        file.write("age,dose,ill\n20,0.5,no\n30,0.7,yes\n")
    Identity.create("north").save("north.pem")
    return "flu.schema.json"


def test_a_key_is_made_once_and_shown_from_then_on(rado, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    code, out, _ = rado("room", "identity")
    place = tmp_path / "config" / "radoboost" / "identity.pem"
    assert code == 0 and out.startswith(f"made {place}") and stat.S_IMODE(place.stat().st_mode) == 0o600
    shown = json.loads(rado("room", "identity", "--json")[1])
    assert not shown["new"] and shown["fingerprint"] in out and shown["path"] == str(place)
    assert shown["fingerprint"] == Identity.load("any", place).party.fingerprint
    assert json.loads(rado("room", "identity", "other.pem", "--json")[1])["fingerprint"] != shown["fingerprint"]
    os.chmod("other.pem", 0o644)
    code, _, err = rado("room", "identity", "other.pem")
    assert code == 1 and "others can read the identity" in err


def test_a_room_is_opened_and_shown(rado, bounds):
    code, out, err = rado("room", "open", bounds, *BOUNDS, "--epsilon", "1")
    assert code == 0 and out.startswith("opened flu.room\n")
    assert "rado room join flu.room TABLE" in err
    shown = rado("room", "show", "flu.room")[1]
    assert "waiting for 3 more" in shown and "mechanism moments (epsilon 1.0" in shown
    state = json.loads(rado("room", "show", "flu.room", "--json")[1])
    assert state["missing"] == 3 and state["code"] is None and not state["released"]
    assert list(state["agreement"]["schema"]["columns"]) == ["age", "dose"]
    code, _, err = rado("room", "open", bounds, *BOUNDS)
    assert code == 1 and "there is a room at flu.room already" in err
    code, _, err = rado("room", "close", "flu.room")
    assert code == 1 and "0 of 3 holders have joined" in err and not os.path.exists("flu.rado.parquet")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--parties", "5", "--tolerate", "3"], "half"),
        (["--mechanism", "noisy-examples", "--epsilon", "1"], "moments"),
        (["--mechanism", "nonsense"], "nonsense"),
        (["--set", "unit=label"], "'unit'"),
        (["-o", "http://10.1.2.3:80"], "encrypted"),
        (["-o", "nowhere/flu.room"], "no folder"),
    ],
)
def test_what_cannot_be_agreed_on_is_refused_in_one_line_and_leaves_nothing(rado, bounds, options, words):
    before = sorted(os.listdir("."))
    code, out, err = rado("room", "open", bounds, *BOUNDS, *options)
    assert code == 1 and out == "" and words in err and err.count("\n") == 1
    assert sorted(os.listdir(".")) == before


def test_classes_must_be_declared(rado, bounds):
    code, _, err = rado("room", "open", bounds, "--parties", "3", "--label", "ill")
    assert code == 1 and "--classes NEG,POS" in err


def test_what_a_holder_brings_is_checked_before_the_others_see_it(rado, bounds, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert rado("room", "open", bounds, *BOUNDS, "--epsilon", "1")[0] == 0
    with open("short.csv", "w") as file:
        file.write("age,ill\n20,no\n")
    join = ["room", "join", "flu.room"]
    cases = [
        ([*join, "north.csv", "--as", "north"], "you have no key yet, at"),
        ([*join, "north.csv", "--as", "north", "--identity", "no.pem"], "there is no identity at no.pem"),
        ([*join, "north.csv", "--as", "../north", "--identity", "north.pem"], "a holder is called by up to 64 letters"),
        ([*join, "no.csv", "--as", "north", "--identity", "north.pem"], "no.csv"),
        ([*join, "short.csv", "--as", "north", "--identity", "north.pem"], "dose"),
        ([*join, "-", "--as", "north", "--identity", "north.pem"], "give the code with --code"),
        ([*join, "north.csv", "--as", "north", "--identity", "north.pem", "--ledger", "no.ledger"], "no.ledger"),
        ([*join, "north.csv", "--as", "north", "--identity", "north.pem", "-o", "no/x.parquet"], "no directory no"),
        ([*join, "north.csv", "--as", "north", "--identity", "north.pem", "-o", "north.csv"], "one of the files"),
        ([*join, "north.csv", "--as", "north", "--identity", "north.pem", "--engine", "steam"], "it is 'steam'"),
        ([*join, "north.csv", "--as", "north", "--identity", "north.pem", "--threads", "0"], "threads"),
        (
            ["room", "join", "other.room", "north.csv", "--as", "north", "--identity", "north.pem"],
            "no folder other.room",
        ),
        (["room", "join", ".", "north.csv", "--as", "north", "--identity", "north.pem"], "there is no agreement in ."),
    ]
    for words, line in cases:
        code, out, err = rado(*words)
        assert code == 1 and out == "" and line in err and err.count("\n") == 1, (words, err)
    assert [name for name in os.listdir("flu.room") if name[0] != "."] == ["agreement"]  # nobody greeted


def test_waiting_in_vain_says_for_how_many(rado, bounds):
    assert rado("room", "open", bounds, *BOUNDS)[0] == 0
    code, out, err = rado(
        "room", "join", "flu.room", "north.csv", "--as", "north", "--identity", "north.pem", "--wait", 0.1
    )
    assert code == 1 and out == "" and "rado: 1 of 3 holders are here: north" in err and "only north came" in err
    assert not os.path.exists("flu.rado.parquet")


def test_three_in_threads_compare_codes_and_one_gives_it(rado, bounds, monkeypatch):
    """Two confirm what they are asked, the third gives the code; all three files are one."""
    assert rado("room", "open", bounds, *BOUNDS, "-n", "8")[0] == 0
    results = {}

    def hospital(name):
        identity = Identity.create(name)
        results[name] = rb.join_room(
            "flu.room",
            "north.csv",
            identity=identity,
            confirm=lambda code, parties: True,
            output=f"{name}.rado.parquet",
        )

    threads = [threading.Thread(target=hospital, args=(name,)) for name in ("east", "west")]
    for thread in threads:
        thread.start()
    words = ["room", "join", "flu.room", "north.csv", "--as", "north", "--identity", "north.pem", "--json"]
    done = CliRunner().invoke(app, words, input="y\n")
    for thread in threads:
        thread.join()
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["path"] == "flu.rado.parquet" and rb.load("flu.rado.parquet").n_examples == 6
    bytes_of = [Path(f"{name}.rado.parquet").read_bytes() for name in ("flu", "east", "west")]
    assert len(set(bytes_of)) == 1
    assert "has each of them this code?" in done.stderr and "north  " in done.stderr
    code, _, err = rado("room", "close", "flu.room", "-o", "joint.rado.parquet")
    assert code == 0 and Path("joint.rado.parquet").read_bytes() == bytes_of[0], err


def test_nobody_there_to_answer_is_no_consent(rado, bounds, monkeypatch):
    from radoboost.cli.room import _Question

    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    with pytest.raises(RoomError, match="nobody confirmed the code of the room; give it with --code"):
        _Question().confirmed("0000", [Identity.create("north").party])
    sys.stdin.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "sees"),
        (["--cert", "c.pem"], "--key"),
        (["--cert", "north.pem", "--key", "north.pem"], "certificate"),
        (["--folder", "nowhere"], "no folder"),
        (["--port", "99999"], "--port"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--token-file", "north.csv"], "16 letters"),
    ],
)
def test_a_server_that_cannot_be_is_refused_in_one_line(rado, bounds, options, words):
    code, out, err = rado("room", "serve", *options)
    assert code == 1 and out == "" and words in err and err.count("\n") == 1


def test_a_port_that_is_taken_and_libraries_that_are_missing_are_said(rado, monkeypatch):
    with listening_socket("127.0.0.1", 0) as door:
        code, _, err = rado("room", "serve", "--port", door.getsockname()[1])
        assert code == 1 and "Address already in use; choose another with --port" in err
    monkeypatch.setitem(sys.modules, "radoboost.holder.rooms.mailbox_server", None)
    code, _, err = rado("room", "serve")
    assert code == 1 and install("room") in err
