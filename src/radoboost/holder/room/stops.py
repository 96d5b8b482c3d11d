"""Whoever has to stop tells the others that it does, so that nobody waits for it: one signed word, and never why.

A reason might tell of a table. A holder signs for itself alone, so nobody can stop another; and it sends nothing more
after that, so the others may count it as lost at once. What it sent before stands: if its numbers are in a list, they
are in the total (B11 of docs/proofs/secure-sums.md).
"""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from radoboost.errors import RoomError
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.messages import place_of, read, written
from radoboost.holder.room.parties import Seats

STOP = "stop"
ONCE = 0  # the stage in its name: a holder stops once, whichever sum it is in
_MOST_BYTES = 4096
_SECONDS = 5.0  # that a holder spends on saying it, before it ends


@contextmanager
def telling_if_stopped(mailbox: Mailbox, seats: Seats, identity: Identity) -> Iterator[None]:
    """Tell the others if what is done here ends by an error, or by Ctrl-C."""
    try:
        yield
    except BaseException:
        thread = threading.Thread(target=_tell, args=(mailbox, seats, identity), daemon=True)  # a mailbox may be gone
        thread.start()
        thread.join(_SECONDS)
        raise


def _tell(mailbox: Mailbox, seats: Seats, identity: Identity) -> None:
    with suppress(Exception):
        mailbox.put(place_of(ONCE, STOP, identity.party.name), written(identity, seats.agreement, ONCE, STOP, {}))


class Stops:
    """Who has said that it stops, as far as it is asked for."""

    def __init__(self, mailbox: Mailbox, seats: Seats) -> None:
        self._mailbox, self._seats = mailbox, seats
        self._read: dict[str, bool] = {}

    def among(self, names: Collection[str]) -> set[str]:
        """Those of them who have stopped; what lies in such a place and is not signed by its holder is ignored.

        Some stop because others did: as long as one is found, all are looked for again, so that whoever was first is
        among them.
        """
        n_read = -1
        while n_read < len(self._read):
            n_read = len(self._read)
            for name in names:
                if name not in self._read:
                    place = place_of(ONCE, STOP, name)
                    content = self._mailbox.get(place)
                    if content is not None:
                        self._read[name] = self._is_one(content, place)
        return {name for name in names if self._read.get(name)}

    def _is_one(self, content: bytes, place: str) -> bool:
        try:
            read(content, place, self._seats, _MOST_BYTES)
        except RoomError:
            return False
        return True
