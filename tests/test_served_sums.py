"""Secure sums over a served mailbox, of as many holders as a room may well have."""

import threading
import time

import numpy as np
import pytest

from radoboost.errors import RoomError
from radoboost.holder.rooms.http_mailbox import WebMailbox
from radoboost.holder.rooms.mailbox_server import MailboxStore
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import SecureTotal, secure_sum
from radoboost.holder.rooms.signed_messages import Identity, sign_message
from rooms import served


def summed(n_parties, length, lost=0):
    """What each holder ends with: all are threads, each with a connection of its own; the last ones never come."""
    holders = [Identity.create(f"holder-{k:02}") for k in range(n_parties)]
    seats = Roster(bytes(32), tuple(holder.party for holder in holders), max(lost, 1))
    names = [holder.party.name for holder in holders]
    rng = np.random.default_rng(n_parties)
    numbers = {name: rng.integers(-(2**62), 2**62, length) for name in names}
    ends = {}
    with served(MailboxStore()) as address:
        room = WebMailbox(address, make=True).name

        def take_part(holder, comes):
            name, box = holder.party.name, WebMailbox(room)
            try:
                hello = sign_message(holder, bytes(32), 0, "hello", {"public_key": holder.party.public_key.hex()})
                assert box.put(f"0000/hello/{name}", hello)
                if comes:
                    arguments = (box, seats, holder, 1, names, numbers[name])
                    ends[name] = secure_sum(*arguments, patience=10.0 if lost else 300.0, poll=0.1)
            except RoomError as error:
                ends[name] = error
            finally:
                box.close()

        threads = [
            threading.Thread(target=take_part, args=(holder, k < n_parties - lost)) for k, holder in enumerate(holders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with np.errstate(over="ignore"):
        right = np.sum([numbers[name] for name in names[: n_parties - lost]], axis=0)
    return ends, names[: n_parties - lost], right


def check(ends, present, right):
    assert sorted(ends) == present
    for name, end in ends.items():
        assert isinstance(end, SecureTotal), (name, end)
        assert end.present == tuple(present) and np.array_equal(end.values, right)


def test_a_few_holders_over_a_served_mailbox():
    check(*summed(4, 100))


@pytest.mark.slow
def test_fifty_holders_over_a_served_mailbox():
    """496 numbers, as a stage of moments of 31 columns has: everybody ends with the right total within minutes."""
    begun = time.monotonic()
    check(*summed(50, 496))
    assert time.monotonic() - begun < 300
