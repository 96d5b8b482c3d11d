"""What people in a room are told: before they agree, when somebody stops, and of a room that has ended."""

import io
import os
import threading

import pytest

import radoboost as rb
from radoboost.cli.room import _Question, complete_mechanism
from radoboost.holder.room.agreement import agree
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import MemoryMailbox, mailbox_at

BOUNDS = {"age": (0, 100), "dose": (0, 1)}
AGREED = {"bounds": BOUNDS, "label": "ill", "classes": ("no", "yes"), "parties": 3}
NOTHING = "promises nothing about records: there is no epsilon (--epsilon)"
OPEN = ["room", "open", "flu.bounds.json", "--label", "ill", "--classes", "no", "yes", "--parties", "3"]


@pytest.fixture
def clinic(rado):
    """A file of bounds, a table and a key in the working directory, and `rado`."""
    with open("flu.bounds.json", "w") as file:
        file.write('{"age": [0, 100], "dose": [0, 1]}')
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


def test_the_question_for_the_code_stands_below_what_is_agreed_on(monkeypatch, capsys):
    question = _Question()
    question.keep(agree(**AGREED))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert question.confirmed("0000 1111", [Identity.create("north").party])
    shown = capsys.readouterr().err
    assert 0 < shown.index(NOTHING) < shown.index("has each of them this code?")
    assert shown.endswith("[y/N] \n")  # an answer through a pipe ends no line


def test_an_agreement_is_shown_without_what_does_not_matter():
    words = "\n".join(agree(**AGREED, mechanism=rb.Moments(epsilon=1.0)).in_words())
    assert "bounds_share" not in words and "'auto'" not in words and "2 columns as declared" in words
    searched = {**AGREED, "bounds": {"age": "private", "dose": (0, 1)}}
    assert "bounds_share 0.1" in "\n".join(agree(**searched, mechanism=rb.Moments(epsilon=1.0)).in_words())
    assert "2 columns as declared, taken as 'hats'" in "\n".join(agree(**AGREED, columns="hats").in_words())


def test_only_mechanisms_for_rooms_are_proposed():
    assert complete_mechanism("") == ["plain", "moments", "noisy-rados"] and complete_mechanism("f") == []


def test_a_room_is_not_made_of_a_folder_that_holds_other_things(clinic):
    os.mkdir("north")
    with open("north/patients.csv", "w") as file:
        file.write("age\n")
    code, out, err = clinic(*OPEN, "-o", "north")
    assert code == 1 and out == "" and "is a folder that holds 'patients.csv'" in err and err.count("\n") == 1
    assert os.listdir("north") == ["patients.csv"]
    with pytest.raises(rb.RoomError, match="a room needs one of its own"):
        rb.open_room("north", **AGREED)
    os.mkdir("empty")
    with open("empty/.DS_Store", "w"):
        pass
    assert clinic(*OPEN, "-o", "empty")[0] == 0
