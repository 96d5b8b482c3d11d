"""A room of five made-up hospitals on this machine: each is a process of `rado room join`, and all share one folder.

What people do in a real room is done here by one program: it opens the room, and compares the codes that they see.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from radoboost.errors import ArgumentError, OutputError, RoomError, reason
from radoboost.estimators.rado_classifiers import MomentsClassifier
from radoboost.examples.hospital import FIVE, LABEL, write_hospitals
from radoboost.holder.craft import craft
from radoboost.holder.mechanisms import Moments
from radoboost.holder.rooms.agreement import Agreement
from radoboost.holder.rooms.handshake import HELLO, READY, make_roster, parties_who_greeted, verification_code
from radoboost.holder.rooms.mailbox import mailbox_at
from radoboost.holder.rooms.room import open_room
from radoboost.holder.rooms.secure_aggregation import CONFIRM, KEYS, MASKED, ROUNDS, SHARES, UNMASK
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.holder.rooms.signed_release import SIGNED
from radoboost.privacy.ledger import Ledger
from radoboost.release.release import Release, load

# At epsilon 1 each hospital alone is wrong about 25 of 100, and together they are about 24: there is little to see.
EPSILON, DELTA, TOTAL = 0.1, 1e-6, 1.0
ROOM, LEDGER, JOINT, LOG = "hospitals.room", "patients.ledger", "joint.rado.parquet", "join.log"
_PATIENCE = 15  # seconds to wait for a silent hospital, if one is to be lost
_SUMS_BEFORE = 5  # that a hospital takes part in, before it is killed
_POLL = 0.2  # seconds
_STEPS = {  # by the kind of a hospital's last message, in the order within one sum
    HELLO: "has joined",
    READY: "has confirmed the code",
    KEYS: "keys sent",
    SHARES: "shares of secrets sent",
    MASKED: "masked numbers sent",
    CONFIRM: "list confirmed",
    UNMASK: "masks taken off",
    SIGNED: "has signed the release",
}


@dataclass(frozen=True)
class Stand:
    """How far a hospital is, for whom it waits, and what it has left in the folder."""

    name: str
    step: str
    waits_for: tuple[str, ...]
    messages: int
    bytes: int


Say = Callable[[str], None]
Show = Callable[[Sequence[Stand]], None]


@dataclass(frozen=True)
class Rehearsal:
    """What came out: a release, the same file at each of `holders`, and how often its model is wrong on new patients.

    `alone` has the same for a release of each hospital, and `one_table` for one of all patients in one table, with the
    same promise. `left` is the epsilon that each ledger has room for.
    """

    directory: Path
    code: str
    release: Release
    holders: tuple[str, ...]
    seconds: float
    left: float
    joint: float
    alone: dict[str, float]
    one_table: float

    def to_dict(self) -> dict[str, Any]:
        statement = self.release.statement
        return {
            "directory": str(self.directory),
            "room": str(self.directory / ROOM),
            "releases": [str(self.directory / name / JOINT) for name in self.holders],
            "code": self.code,
            "lost": [name for name in FIVE if name not in self.holders],
            "seconds": self.seconds,
            "promise": {key: getattr(statement, key) for key in ("epsilon", "delta", "neighbours")},
            "ledgers": {"total_epsilon": TOTAL, "largest_epsilon": self.left},
            "error": {"joint": self.joint, "alone": self.alone, "one_table": self.one_table},
        }


def rehearse_room(directory: Path | None, lose: str | None, say: Say, show: Show) -> Rehearsal:
    """Run a room of five in a new folder, and `show` again and again how far each is; `lose` is killed on the way.

    Nothing is left behind if it fails.
    """
    if lose is not None and lose not in FIVE:
        raise ArgumentError(f"there is no hospital {lose!r} to lose; choose one of {', '.join(FIVE)}")
    place = _new_rehearsal_folder(directory)
    try:
        return _run_rehearsal(place, lose, say, show)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _new_rehearsal_folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="rado-rehearsal-"))
    try:
        directory.mkdir()
    except OSError as error:
        raise OutputError(f"cannot make the directory {directory}: {reason(error)}; choose another") from None
    return directory


def _run_rehearsal(directory: Path, lose: str | None, say: Say, show: Show) -> Rehearsal:
    *tables, everybody, colleague, code_book = write_hospitals(directory)
    patients = csv.read_csv(colleague)
    say(f"Five hospitals, {sum(FIVE.values()):,} made-up patients. First each learns alone, to compare.")
    say("(The first time, compiling takes some 15 seconds.)")
    one_table = _rehearsal_error(
        _craft_alone_in_rehearsal(everybody, code_book), patients
    )  # it compiles all that five processes need
    alone = {}
    for name, table in zip(FIVE, tables, strict=True):
        alone[name] = _rehearsal_error(_craft_alone_in_rehearsal(table, code_book), patients)
        Identity.create(name).save(directory / name / "key.pem")
        Ledger.create(directory / name / LEDGER, "patients", epsilon=TOTAL, delta=DELTA)
    start_time = time.monotonic()
    agreement = open_room(directory / ROOM, code_book, parties=len(FIVE), mechanism=Moments(EPSILON, DELTA))
    say(f"Now together. Each runs, in its own folder:\n  rado {' '.join(_join_command_in_rehearsal('NAME', lose))}")
    with _start_rehearsal_processes(directory, lose) as processes:
        room = _Room(directory, agreement, processes, show)
        code = room.compare_codes()
        say(f"All five see one code: {code}")
        say("It is confirmed here; in a real room, people compare it by telephone.")
        if lose is not None:
            room.lose(lose)
            say(f"{lose} was killed. The others wait {_PATIENCE} seconds for it, and go on without it.")
        room.wait(room.is_over)
    holders = tuple(name for name in FIVE if name != lose)
    if len({(directory / name / JOINT).read_bytes() for name in holders}) != 1:
        raise RoomError("the hospitals have different files; do not use a room, and report this")
    release = load(directory / holders[0] / JOINT)
    return Rehearsal(
        directory=directory, code=code, release=release, holders=holders, seconds=time.monotonic() - start_time,
        left=Ledger(directory / holders[0] / LEDGER).to_dict()["largest_epsilon"],
        joint=_rehearsal_error(release, patients),
        alone=alone, one_table=one_table,
    )  # fmt: skip


def _craft_alone_in_rehearsal(table: Path, code_book: Path) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each patient has one row
        return craft(table, mechanism=Moments(EPSILON, DELTA), schema=code_book, counts=None)


def _rehearsal_error(release: Release, patients: pa.Table) -> float:
    """The share of patients about whom the model of a release is wrong."""
    model = MomentsClassifier().fit_rados(release).model_
    return float(np.mean(model.predict(patients) != np.array(patients[LABEL].to_pylist())))


def _join_command_in_rehearsal(name: str, lose: str | None) -> list[str]:
    words = ["room", "join", f"../{ROOM}", "patients.csv", "--as", name, "--identity", "key.pem", "--ledger", LEDGER]
    return [*words, "-o", JOINT, *([] if lose is None else ["--patience", str(_PATIENCE)])]


@contextmanager
def _start_rehearsal_processes(directory: Path, lose: str | None) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A process for each hospital, whom Ctrl-C does not reach; none is left afterwards."""
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for name in FIVE:
            with (directory / name / LOG).open("w") as log:
                processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "radoboost", *_join_command_in_rehearsal(name, lose)], cwd=directory / name,
                    env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE, stdout=log, stderr=log,
                    text=True, start_new_session=True,
                )  # fmt: skip
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


class _Room:
    """The room as it looks from outside: messages in the folder, processes, and what they print."""

    def __init__(
        self, directory: Path, agreement: Agreement, processes: dict[str, subprocess.Popen[str]], show: Show
    ) -> None:
        self._directory, self._agreement, self._processes, self._show = directory, agreement, processes, show
        self._mailbox = mailbox_at(str(directory / ROOM))
        self._lost: str | None = None

    def compare_codes(self) -> str:
        """The code, once each has printed the same one and was told so."""
        self.wait(lambda: len(parties_who_greeted(self._mailbox, self._agreement)) == len(FIVE))
        code = verification_code(make_roster(self._agreement, parties_who_greeted(self._mailbox, self._agreement)))
        self.wait(lambda: all(code in self._log(name) for name in FIVE))
        for process in self._processes.values():
            assert process.stdin is not None, "it is a pipe"
            with suppress(BrokenPipeError):  # it has ended, which is seen next
                process.stdin.write("y\n")
                process.stdin.flush()
        return code

    def lose(self, name: str) -> None:
        self.wait(lambda: len([place for place in self._places()[name] if MASKED in place]) >= _SUMS_BEFORE)
        self._lost = name
        self._processes[name].kill()
        self._processes[name].wait()

    def is_over(self) -> bool:
        return all(map(self._ended, FIVE))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Show how far all are until something is the case; a hospital that fails ends it."""
        while True:
            done = condition()
            self._show(self._stands())
            for name, process in self._processes.items():
                if process.poll() not in (None, 0) and name != self._lost:
                    last = (self._log(name).splitlines() or ["it printed nothing"])[-1]
                    raise RoomError(f"{name} stopped: {last.removeprefix('rado: ')}")
            if done:
                return
            time.sleep(_POLL)

    def _log(self, name: str) -> str:
        return (self._directory / name / LOG).read_text(encoding="utf-8", errors="replace")

    def _places(self) -> dict[str, list[tuple[int, str]]]:
        """Stage and kind of each message of each hospital."""
        places: dict[str, list[tuple[int, str]]] = {name: [] for name in FIVE}
        for stage, kind, name in (place.split("/") for place in self._mailbox.names("") if place.count("/") == 2):
            if name in places and kind in _STEPS:
                places[name].append((int(stage), kind))
        return places

    def _stands(self) -> list[Stand]:
        places = self._places()
        return [
            Stand(
                name,
                self._step(name, own),
                () if self._ended(name) else tuple(one for one in FIVE if len(places[one]) == len(own) - 1),
                len(own),
                sum((self._directory / ROOM / f"{stage:04d}" / kind / name).stat().st_size for stage, kind in own),
            )
            for name, own in places.items()
        ]

    def _ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def _step(self, name: str, places: list[tuple[int, str]]) -> str:
        if self._ended(name):
            return "was killed" if name == self._lost else "has the release"
        if not places:
            return "starts"
        order = list(_STEPS)
        stage, kind = max(places, key=lambda place: (place[0], order.index(place[1])))
        return f"sum {stage}: {_STEPS[kind]}" if kind in ROUNDS else _STEPS[kind]
