"""Faults of rooms as data: what befalls whom, and what everybody must then be told.

A holder meets its fault at a message: just before it puts the n-th one whose place fits a pattern, or just after that.
Holders are threads of one process, or processes of `rado room join`, which this file starts when it is run: there a
holder that is killed is killed by kill -9.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import radoboost as rb
from radoboost.cli import main
from radoboost.errors import RoomError
from radoboost.holder.mechanisms import statements
from radoboost.holder.rooms import handshake, http_mailbox
from radoboost.holder.rooms import room as room_module
from radoboost.holder.rooms.mailbox import FolderMailbox

FOUR, THREE = ("coast", "east", "north", "west"), ("east", "north", "west")
KEYS_2 = "/keys/", 2  # the message by which a holder begins its second sum: it has booked by then, and sent a sum
RELEASE = "/release/"


class Killed(BaseException):
    """What ends a thread as kill -9 ends a process: nobody hears of it."""


@dataclass(frozen=True)
class At:
    """At the n-th message that fits `place`, `what` happens: kill, ctrl-c, term, sleep, full or gone; or a file is put.

    `what` = "put PLACE FROM LENGTH" puts the first bytes of what lies at FROM at PLACE.
    """

    what: str
    place: str
    nth: int = 1
    after: bool = False


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    `at` has by holder what befalls it. `told` has, by holder, what it is told when it ends by an error, and under ""
    what all are told who are named nowhere; who ends with the file is told nothing there. `said` is what all who are
    left say on the way. `show` and `close` are what these commands say; close gives the file if it is empty. Only
    `guilty` are named as the reason. `booked` says whether anything is spent.
    """

    name: str
    at: dict[str, list[At]]
    guilty: tuple[str, ...]
    show: str
    holders: tuple[str, ...] = FOUR
    told: dict[str, str] = field(default_factory=dict)
    said: str = ""
    close: str = ""
    booked: bool = True
    answers: dict[str, str] = field(default_factory=dict)
    after: str = ""  # once this one has ended, the others come
    wait: dict[str, float] = field(default_factory=dict)  # how many units a holder, or under "" the rest, waits for all
    version: str = ""  # of the one with another statement
    table: dict[str, dict[str, str]] = field(default_factory=dict)  # what is written otherwise in whose table
    clock: dict[str, float] = field(default_factory=dict)  # how many seconds whose clock is off
    served: bool = False  # the room is at a server
    earlier: bool = False  # they were in another room before
    quick: bool = False  # no patience ends: it is a minute, not a unit
    again: bool = False  # nothing was spent, so they join the same room again, and end with a release
    back: str = ""  # who comes back, and is told that nobody does

    @property
    def victims(self):
        """Who ends without a word."""
        return {name for name, acts in self.at.items() if any(act.what == "kill" for act in acts)}

    def end_of(self, name):
        """What a holder must be told; nothing if it has the file."""
        return self.told.get(name, self.told.get("", ""))

    def limits(self, unit):
        """The patience of all, and how long each waits for all to come; units are seconds on a slow machine."""
        wait = {name: unit * self.wait.get(name, self.wait.get("", 60.0 / unit)) for name in self.holders}
        return 60.0 if self.quick else unit, wait


def _out(name):
    return rf"going on with 3 of 4: {name} is left out \({name} (has been silent|stopped)\)"


def _shown(name, rest):
    return rf"\n  {name}  .* is left out\n[\s\S]*\nreleased     signed by 3 of 4: {rest};"


_KILLED = {"west": [At("kill", *KEYS_2)]}
_LEFT = {"guilty": ("west",), "said": _out("west"), "show": _shown("west", "coast, east, north")}
_UNSIGNED = "has been silent since [-0-9: ]{19}; 3 of 4 holders signed the release, and 3 must"
_VERSIONS = "holders run different versions: west has the statement's text [0-9a-f]{12}, .* have the statement's text"

FAULTS = [
    Fault(
        "A1 killed before its first message", {"west": [At("kill", "0000/hello")]}, (),
        told={"": "only coast, east and north came within .* of 4 holders 1 is missing; nothing is spent"},
        show="waiting for 4 more", close="3 of 4 holders have joined .* so far", booked=False, again=True,
        wait={"": 4},
    ),
    Fault(
        "A2 killed at the question", {"west": [At("kill", "0000/ready")]}, ("west",),
        told={"": "west did not confirm the code"},
        show="ended        west did not confirm the code; there is no",
        close="there is no release in .* for west did not confirm the code", booked=False, again=True, quick=True,
        wait={"": 4},
    ),
    Fault("A3 killed after it confirmed", {"west": [At("kill", "0000/ready", after=True)]}, **_LEFT),
    Fault("A4 and A9 killed between two sums, and comes back", _KILLED, **_LEFT, back="west"),
    Fault("A4 the first one killed between two sums", {"coast": [At("kill", *KEYS_2)]}, ("coast",),
          said=_out("coast"), show=_shown("coast", "east, north, west")),
    Fault(
        "A5 two killed", {name: [At("kill", *KEYS_2)] for name in ("east", "west")}, ("east", "west"),
        told={"": r"east and west have been silent since .*, in sum \d \(keys\), and the room can do without 1 holder"},
        show="ended        east and west have been silent since [-0-9: ]{19}; there is no release: open a new room",
        close="there will be none, for east and west have been silent since",
    ),
    Fault(
        "A5 one is left out, and then another stops",
        {name: [At("ctrl-c", "/keys/", n)] for name, n in (("west", 2), ("coast", 3))}, ("coast", "west"),
        told={"": "coast stopped; west was left out before", "coast": "interrupted", "west": "interrupted"},
        said=_out("west"), show="ended        coast stopped; there", close="none, for coast stopped:", quick=True,
    ),
    Fault(
        "C17 one of three killed", _KILLED, ("west",), holders=THREE,
        told={"": "west has been silent since .*, and the room cannot do without anybody"},
        show="ended        west has been silent since", close="there will be none, for west has been silent since",
    ),
    Fault("A6 killed before it signed", {"west": [At("kill", "/signed/")]}, ("west",), said=f"west {_UNSIGNED}",
          show="released     signed by 3 of 4: coast, east, north;"),
    Fault("A7 the writer killed before it wrote", {"coast": [At("kill", RELEASE)]}, ("coast",),
          said=f"coast {_UNSIGNED}", show="released     signed by 3 of 4: east, north, west;"),
    Fault("A7 the writer killed before it signed", {"coast": [At("kill", "/signed/")]}, ("coast",),
          said=f"coast {_UNSIGNED}", show="released     signed by 3 of 4: east, north, west;"),
    Fault(
        "A6 one of three killed before it signed", {"west": [At("kill", "/signed/")]}, ("west",), holders=THREE,
        told={"": "west has been silent since .*: 2 of 3 holders signed the release, and 3 must; if west still signs?"},
        show="not released signed by 2 of 3: east, north; 3 must",
        close="signed by east and north: 2 of 3 holders, and 3 must; there will be none, for west has been silent",
    ),
    Fault(
        "B2 the mailbox has forgotten the room", {name: [At("gone", *KEYS_2)] for name in FOUR}, (),
        told={"": "this mailbox has no such room"}, show="at work      stage", quick=True,
        close="there is no release in .*; its holders are still at work, or were cut off",
    ),
    Fault("B4 no space for a holder's message", {"north": [At("full", *KEYS_2)]}, ("north",), quick=True,
          told={"north": "No space left on device"}, said=_out("north"),
          show=_shown("north", "coast, east, west")),
    *(Fault(f"{what} in its place", {"west": [At(f"put 0005/masked/west {source}", *KEYS_2)]}, **_LEFT,
            told={"west": "a message of west is already there"}, quick=True)
      for what, source in (("C1 half a message", "0001/masked/west 300"),
                           ("C2 its old message", "0001/masked/west 99999"),
                           ("C3 a message of another", "0001/masked/east 99999"))),
    Fault(
        "C4 an old list, cut off, in the place for all",
        {"coast": [At("put 0005/keys-list/anybody 0001/keys-list/anybody 100", *KEYS_2)]}, ("coast",),
        told={"": "0005/keys-list.* is damaged, or none .*; it was for coast to make this list"},
        show="ended        what came in the name of coast cannot be used", quick=True,
        close="there will be none, for what came in the name of coast cannot be used",
    ),
    Fault(
        "C5 a stray file among the greetings", {"coast": [At("put 0000/hello/mallory agreement 50", "0000/hello")]}, (),
        told={"": "the greeting of mallory is damaged, or none: take 0000/hello/mallory out of the room, and join"},
        show="stray        0000/hello/mallory is no greeting: take it out", close="there is no release in",
        booked=False, quick=True, again=True,
    ),
    Fault("C6 a clock a day ahead", {}, ("west",), clock={"west": 86_400}, show="released     signed by 4 of 4"),
    Fault(
        "C7 a clock a day behind, at a server", {}, (), clock={"west": -86_400}, served=True,
        told={"west": r"86,\d{3} seconds ago or early; set the clock", "": "only coast, east and north came within"},
        show="waiting for 4 more", close="3 of 4 holders have joined .* so far", booked=False, again=True,
        wait={"": 4},
    ),
    Fault(
        "C8 a column is missing", {}, (), table={"west": {"a,b,c": "a,b,d"}},
        told={"west": "has no column 'c'", "": "only coast, east and north came within"},
        show="waiting for 4 more", close="3 of 4 holders have joined .* so far", booked=False, wait={"": 4},
    ),
    Fault("C9 no row of one contributes, and nobody is asked", {}, ("west",), quick=True,
          table={"west": {",yes": ",1", ",no": ",0"}}, show="released     signed by 4 of 4"),
    *(Fault(f"C1{k} another version, of {len(holders)}", {}, (), holders=holders, version="west",
            told={"": _VERSIONS}, show="ended        holders run different versions: west has", booked=False,
            close="there is no release in .* for holders run different versions: west has", quick=True)
      for k, holders in enumerate((FOUR, THREE))),
    Fault("C12 late beyond patience", {"west": [At("sleep 3", *KEYS_2)]}, **_LEFT,
          told={"west": "leaves west out, who was late|the others have gone on without west"}),
    Fault("C13 late within patience", {"west": [At("sleep 0.5", "/keys/", n) for n in (1, 2, 3)]}, ("west",),
          show="released     signed by 4 of 4"),
    *(Fault(name, {"west": [At(what, *KEYS_2)]}, **_LEFT, quick=what == "ctrl-c",
            told={"west": "interrupted; .*epsilon .* stays booked in .*; nothing was written; what this room may have"})
      for name, what in (("C14 Ctrl-C", "ctrl-c"), ("C15 SIGTERM", "term"))),
    Fault("C15 two are told to end", {name: [At("term", *KEYS_2)] for name in ("east", "west")}, ("east", "west"),
          told={name: "interrupted; .*epsilon .* stays booked" for name in ("east", "west")}
          | {"": r"east and west stopped, in sum \d \(\w+\), and the room can do without 1 holder"},
          show="ended        east and west stopped; there is no release", close="none, for east and west stopped"),
    Fault("C16 the answer is no", {}, ("west",), answers={"west": "n"}, booked=False, quick=True, again=True,
          told={"west": "the code was not confirmed, so this holder does not", "": "west did not confirm the code"},
          show="ended        west did not confirm the code; there is no release: join again",
          close="there is no release in .* for west did not confirm the code"),
    Fault("D3 one gave up waiting, and then the others came", {}, ("coast",), wait={"coast": 0.2, "": 3}, booked=False,
          after="coast", quick=True,
          told={"coast": "only coast came within", "": "coast gave up waiting before all were here; nothing is"},
          show="coast .* gave up and left", close="there is no release in"),
    Fault("D3 one was killed while it waited", {"coast": [At("kill", "0000/hello", after=True)]}, ("coast",),
          told={"": "coast did not confirm the code"}, show="ended        coast did not confirm the code", booked=False,
          close="for coast did not confirm the code", wait={"": 4}),
    Fault(
        "E1 a message of an earlier room in its place", holders=THREE, earlier=True, guilty=("west",), quick=True,
        at={"west": [At("put 0005/masked/west ../earlier.room/0005/masked/west 99999", *KEYS_2)]},
        told={"west": "a message of west is already there",
              "": "what came in the name of west cannot be used, .*, and the room cannot do without anybody"},
        show="ended        what came in the name of west cannot be used", close="there will be none, for what came in",
    ),
]  # fmt: skip


class FaultyMailbox:
    """A mailbox as one holder has it, with what befalls that holder; `kill` is how it is killed."""

    def __init__(self, box, acts, unit, interrupt=None, kill=None):
        self._box, self._acts, self._unit = box, list(acts), unit
        self._interrupt, self._kill = interrupt, kill or self._die
        self._counts, self._dead = {}, False

    @property
    def name(self):
        return self._box.name

    def get(self, name):
        return self._box.get(name)

    def names(self, prefix):
        return self._box.names(prefix)

    def put(self, name, content):
        for after in (False, True):
            if self._dead:
                return True
            for act in self._acts:
                if act.after == after and re.search(act.place, name):
                    self._counts[act] = self._counts.get(act, 0) + 1
                    if self._counts[act] == act.nth:
                        self._befall(act.what)
            if not after:
                done = self._box.put(name, content)
        return done

    def _befall(self, what):
        what, *words = what.split()
        if what == "kill":
            self._kill()
        elif what in ("ctrl-c", "term"):
            self._interrupt(what)
        elif what == "sleep":
            time.sleep(float(words[0]) * self._unit)
        elif what == "put":
            place, source, length = words
            content = Path(self.name, source).read_bytes()[: int(length)]
            Path(self.name, place).parent.mkdir(parents=True, exist_ok=True)
            Path(self.name, place).write_bytes(content)
        else:
            self._acts += [At("gone", "")] if what == "gone" else []
            raise RoomError(_FAILURES[what])

    def _die(self):
        self._dead = True
        raise Killed


_FAILURES = {
    "gone": "cannot read the room: this mailbox has no such room",
    "full": "cannot put the message there: No space left on device; make space, and open another room",
}


def _raise_interrupt(what):
    raise KeyboardInterrupt


class Threads:
    """Plays a fault with a thread for each holder of `people`, who share a folder; gives what each is told."""

    unit = 1.0

    def __init__(self, people, room):
        self.people, self.room, self._lines = people, room, threading.local()
        self.logs = {}

    def play(self, fault, seconds=120):
        threads = {name: threading.Thread(target=self._join, args=(name, fault)) for name in fault.holders}
        with (
            patch.object(room_module, "_progress_teller_of_room", lambda progress: self._lines.log.append),
            _versions(fault),
        ):
            for name, thread in sorted(threads.items(), key=lambda one: one[0] != fault.after):
                thread.start()
                thread.join(seconds if name == fault.after else 0)
            for thread in threads.values():
                thread.join(seconds)
                assert not thread.is_alive(), "somebody waits for ever"
        return {name: "\n".join(log) for name, log in self.logs.items()}

    def _join(self, name, fault):
        log = self._lines.log = self.logs[name] = []
        box = FaultyMailbox(FolderMailbox(self.room), fault.at.get(name, ()), self.unit, _raise_interrupt)
        patience, wait = fault.limits(self.unit)
        try:
            rb.join_room(
                box,
                self.people.place / name / "table.csv",
                name=name,
                identity=self.people.place / name / "key.pem",
                ledger=self.people.place / name / "own.ledger",
                counts=None,
                output=self.people.place / name / "joint.rado.parquet",
                patience=patience,
                wait=wait[name],
                confirm=lambda code, parties: fault.answers.get(name, "y") == "y",
                compute=rb.Compute(threads=1),
            )
        except rb.RadoError as error:
            log.append(f"rado: {error}")
        except KeyboardInterrupt as error:
            log.append(f"rado: interrupted; {error}")
        except Killed:
            log.clear()


def _versions(fault):
    """One holder's program has another text of the statement."""
    genuine = handshake._greeting_body

    def greeting(agreement, identity, nonce):
        said = genuine(agreement, identity, nonce)
        if identity.party.name == fault.version:
            said["versions"]["statement"] = "0" * 12
        return said

    return patch.object(handshake, "_greeting_body", greeting)


class Processes:
    """Plays a fault with a process of `rado room join` for each holder."""

    unit = 10.0

    def __init__(self, people, room):
        self.people, self.room = people, room

    def start(self, fault):
        patience, wait = fault.limits(self.unit)
        for name in sorted(fault.holders, key=lambda name: name != fault.after):
            about = {
                "acts": [[act.what, act.place, act.nth, act.after] for act in fault.at.get(name, ())],
                "unit": self.unit, "patience": patience, "other": fault.version == name,
                "clock": fault.clock.get(name, 0.0),
            }  # fmt: skip
            words = ["--ledger", "own.ledger", "--patience", patience, "--threads", 1, "--wait", wait[name]]
            answer = fault.answers.get(name, "y") + "\n"
            self.people.join(self.room, name, *words, answer=answer, program=[__file__, json.dumps(about)])
            if name == fault.after:
                self.people.running[name].wait()

    def play(self, fault, seconds=300):
        self.start(fault)
        codes = self.people.ended(seconds)
        for name, code in codes.items():
            ended = -signal.SIGKILL if name in fault.victims else None
            assert code in ((0, 1, 130, -signal.SIGTERM) if ended is None else (ended,)), (
                name,
                code,
                self.people.log(name),
            )
        return {name: "" if name in fault.victims else self.people.log(name) for name in fault.holders}


def _main():
    """A holder's process: `rado` with a fault."""
    about, words = json.loads(sys.argv[1]), sys.argv[2:]
    genuine, now = room_module._mailbox_of_room, time.time

    def mailbox(*given, **options):
        def signalled(what):
            os.kill(os.getpid(), signal.SIGINT if what == "ctrl-c" else signal.SIGTERM)
            time.sleep(60)  # until it arrives

        def killed():
            os.kill(os.getpid(), signal.SIGKILL)

        acts = [At(*act) for act in about["acts"]]
        return FaultyMailbox(genuine(*given, **options), acts, about["unit"], signalled, killed)

    room_module._mailbox_of_room, http_mailbox._PATIENCE = mailbox, about["patience"]
    time.time = lambda: now() + about["clock"]
    if about["other"]:
        statements._NONSENSE += " Nor what the mailbox does."
    sys.argv = ["rado", *words]
    main()


if __name__ == "__main__":
    _main()
