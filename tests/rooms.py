"""Rooms in one process: holders that step in turn under a simulated clock, and mailboxes that lose, alter and lie."""

import secrets
import threading
from contextlib import contextmanager

import numpy as np

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_notices import wait_for_message
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import ROUNDS, SecureSum, SecureTotal
from radoboost.holder.rooms.signed_messages import Identity, message_place, sign_message

NAMES = [f"h{k:02d}" for k in range(1000)]
PATIENCE = 5.0


class Room:
    """Identities, seats and a mailbox; `numbers` of each holder."""

    def __init__(self, rng, n_parties, tolerate=1, length=3, stage=3):
        self.rng, self.stage, self.names = rng, stage, NAMES[:n_parties]
        self.identities = {name: Identity.create(name) for name in self.names}
        parties = tuple(identity.party for identity in self.identities.values())
        self.seats = Roster(secrets.token_bytes(32), parties, tolerate)
        self.box = MemoryMailbox()
        limits = np.iinfo(np.int64)
        self.numbers = {name: rng.integers(limits.min, limits.max, length, endpoint=True) for name in self.names}
        self.views = {name: View(self.box) for name in self.names}

    def sums(self, present=None, seats=None, heard=None):
        """A side of the sum for each holder; `seats` it has and figures it `heard` may be others than those of all."""
        present = self.names if present is None else present
        seats = seats or {}
        return {
            name: SecureSum(
                self.views[name],
                seats.get(name, self.seats),
                self.identities[name],
                self.stage,
                present,
                self.numbers[name],
                PATIENCE,
                (heard or {}).get(name),
            )
            for name in present
        }

    def total(self, present):
        """What is right: plain integers, then two's complement."""
        columns = zip(*(self.numbers[name].tolist() for name in present), strict=True)
        return [(sum(column) + 2**63) % 2**64 - 2**63 for column in columns]

    def signed(self, sender, kind, body, arrays=None, stage=None, agreement=None):
        """A message that this holder, were it dishonest, might sign."""
        return sign_message(
            self.identities[sender],
            self.seats.agreement if agreement is None else agreement,
            self.stage if stage is None else stage,
            kind,
            body,
            arrays,
        )


class View:
    """What one holder is shown of a mailbox: `seen` may change each message, or hide it; `sent` each that is put."""

    name = "memory"

    def __init__(self, box):
        self.box, self.own, self.sent, self.seen = box, [], [], []

    def put(self, name, content):
        for change in self.sent:
            content = change(name, content)
            if content is None:
                return True  # it is lost on its way
        fresh = self.box.put(name, content)
        if fresh:
            self.own.append(name)
        return fresh

    def get(self, name):
        content = self.box.get(name)
        for change in self.seen:
            content = None if content is None else change(name, content)
        return content

    def names(self, prefix):
        return [name for name in self.box.names(prefix) if self.get(name) is not None]


def played(sums, rng, alive=lambda name, now: True, ticks=400, tick=1.0):
    """What becomes of each holder: a `SecureTotal`, a `RoomError`, or None if it was killed or waits for ever."""
    outcomes = {name: None for name in sums}
    for now in range(ticks):
        for name in rng.permutation(list(sums)):
            if outcomes[name] is None and alive(name, now):
                try:
                    outcomes[name] = sums[name].step(tick * now)
                except RoomError as error:
                    outcomes[name] = error
        if all(outcome is not None or not alive(name, ticks) for name, outcome in outcomes.items()):
            break
    return outcomes


def killed_after(view, kind, before=False):
    """Whether a holder is still there: until it has put its message of a kind (or is about to)."""
    place = ROUNDS.index(kind)
    needed = place + (0 if before else 1)
    return lambda: sum(name.split("/")[1] in ROUNDS for name in view.own) < needed


def check_totals(room, outcomes):
    """Everybody who has a total has the same one, and it is right."""
    totals = [outcome for outcome in outcomes.values() if isinstance(outcome, SecureTotal)]
    for total in totals:
        assert total.present == totals[0].present
        assert total.values.dtype == np.int64
        assert total.values.tolist() == room.total(total.present)
    return totals


def bare_sum(mailbox, seats, identity, stage, present, values, patience, *, stop, **_):
    """A sum without masks, for holders in threads."""
    mailbox.put(message_place(stage, "bare", identity.party.name), values.tobytes())

    def look():
        parts = [mailbox.get(message_place(stage, "bare", name)) for name in present]
        return None if None in parts else parts

    parts = wait_for_message(look, patience, stop)
    total = np.zeros(len(values), dtype=np.int64)
    for part in parts:
        total += np.frombuffer(part, dtype=np.int64)
    return SecureTotal(total, tuple(present))


def say_stop(room, victim, signer=None):
    room.box.put(message_place(0, "stop", victim), room.signed(signer or victim, "stop", {}, stage=0))


@contextmanager
def served(shelves, **options):
    """A server of mailboxes on this machine; its address."""
    from radoboost.holder.rooms.mailbox_server import mailbox_web_server
    from radoboost.serving import listening_socket

    server = mailbox_web_server(shelves, **options)
    with listening_socket("127.0.0.1", 0) as door:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(120)
            assert not thread.is_alive()
