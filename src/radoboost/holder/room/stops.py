"""Whoever has to stop tells the others that it does, so that nobody waits for it: one signed word, and never why.

A reason might tell of a table. A holder signs for itself alone, so nobody can stop another; and it sends nothing more
after that, so the others may count it as lost at once. What it sent before stands: if its numbers are in a list, they
are in the total (B11 of docs/proofs/secure-sums.md).
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from radoboost.errors import RoomError
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.messages import all_said, read, say_again
from radoboost.holder.room.parties import Seats

STOP = "stop"
ONCE = 0  # the stage in its name: a holder stops once, whichever sum it is in
_MOST_BYTES = 4096
_SECONDS = 5.0  # that a holder spends on saying it, before it ends


@contextmanager
def telling_if_stopped(mailbox: Mailbox, seats: Seats, identity: Identity) -> Iterator[None]:
    """Tell the others if what is done here ends by an error, or by Ctrl-C."""
    with telling(lambda: _tell(mailbox, seats, identity)):
        yield


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Do this, for some seconds at most, if what is done here ends by an error, or by Ctrl-C."""
    try:
        yield
    except BaseException:
        thread = threading.Thread(target=tell, daemon=True)  # a mailbox may be gone
        thread.start()
        thread.join(_SECONDS)
        raise


def _tell(mailbox: Mailbox, seats: Seats, identity: Identity) -> None:
    with suppress(Exception):
        say_again(mailbox, identity, seats.agreement, ONCE, STOP, {})


class Stops:
    """Who has said that it stops, as far as it is asked for."""

    def __init__(self, mailbox: Mailbox, seats: Seats) -> None:
        self._mailbox, self._seats = mailbox, seats
        self._stopped: set[str] = set()
        self._n_read: dict[str, int] = {}

    def among(self, names: Collection[str]) -> set[str]:
        """Those of them who have stopped; what is not signed by its holder, for this session, is ignored.

        Some stop because others did: as long as one is found, all are looked for again, so that whoever was first is
        among them.
        """
        n_stopped = -1
        while n_stopped < len(self._stopped):
            n_stopped = len(self._stopped)
            for name in names:
                if name not in self._stopped:
                    self._look_for(name)
        return self._stopped & set(names)

    def _look_for(self, name: str) -> None:
        """Read what lies in the places of a holder, each once: those of earlier sessions are passed over."""
        for place, content in all_said(self._mailbox, ONCE, STOP, name, self._n_read.get(name, 0)):
            self._n_read[name] = self._n_read.get(name, 0) + 1
            if self._is_one(content, place):
                self._stopped.add(name)
                return

    def _is_one(self, content: bytes, place: str) -> bool:
        try:
            read(content, place, self._seats, _MOST_BYTES)
        except RoomError:
            return False
        return True
