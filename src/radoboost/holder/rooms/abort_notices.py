"""Waiting for messages, without hurry: a mailbox may be a slow drive."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_causes import LEFT, STOPPED, WRONG, Cause, first_causes, read_abort_causes
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.signed_messages import Identity, messages_of_holder, put_message_again, verify_message

T = TypeVar("T")
_POLL, _LONGEST_POLL = 0.01, 0.1  # seconds
SILENCE = 3.0  # seconds before a line says for whom a holder waits


def wait_for_message(look: Callable[[], T | None], seconds: float, stop: threading.Event | None = None) -> T | None:
    """What `look` finds, as soon as it finds something; None when the time is up."""
    end, pause = time.monotonic() + seconds, _POLL
    while True:
        found = look()
        if found is not None or time.monotonic() >= end:
            return found
        if stop is None:
            time.sleep(pause)
        elif stop.wait(pause):
            raise RoomError("this holder was told to stop")
        pause = min(1.2 * pause, _LONGEST_POLL)


class Whom:
    """Says for whom a holder waits, once that takes long: one line, and another when it is for others.

    `what` they are late with. Call it again and again, with those who are missing. Each is named only once it has been
    missing for some seconds on end: who was waited for before may be to blame for what is late now.
    """

    def __init__(self, tell: Callable[[str], None] | None, what: str) -> None:
        self._tell, self._what = tell, what
        self._since: dict[str, float] = {}  # when each began to be missing
        self._told: tuple[str, ...] = ()

    def __call__(self, names: Sequence[str]) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in names}
        late = tuple(name for name, since in self._since.items() if now - since >= SILENCE)
        if self._tell is None or not late or late == self._told:
            return
        self._told = late
        self._tell(f"waiting for {', '.join(late)}, in {self._what}")


# ---- Whoever has to stop tells the others that it does, so that nobody waits for it: one signed word.
#
# If others were the reason it says who, by what all can see; of its own reasons, which might tell of its table,
# it says nothing. A holder signs for itself alone, so nobody can stop another; and it sends nothing more after
# that, so the others may count it as lost at once. What it sent before stands: if its numbers are in a list, they
# are in the total (B11 of docs/proofs/secure-sums.md).

STOP = "stop"
ONCE = 0  # the stage in its name: a holder stops once, whichever sum it is in
_LEAST_BYTES, _CAUSE_BYTES = 4096, 256
_SECONDS = 5.0  # that a holder spends on saying it, before it ends


@contextmanager
def announce_abort(mailbox: Mailbox, seats: Roster, identity: Identity) -> Iterator[None]:
    """Tell the others if what is done here ends by an error, or by Ctrl-C."""

    def tell(causes: tuple[Cause, ...]) -> None:
        with suppress(Exception):
            body = {"because": [cause.to_dict() for cause in causes]} if causes else {}
            put_message_again(mailbox, identity, seats.agreement, ONCE, STOP, body)

    with announce_on_error(tell):
        yield


@contextmanager
def announce_on_error(tell: Callable[[tuple[Cause, ...]], None]) -> Iterator[None]:
    """Do this, for some seconds at most, if what is done here ends by an error, or by Ctrl-C.

    Of an error only its `causes` are told, which nothing but messages of others goes into.
    """
    try:
        yield
    except BaseException as error:
        causes = error.causes if isinstance(error, RoomError) else ()
        thread = threading.Thread(target=tell, args=(causes,), daemon=True)  # a mailbox may be gone
        thread.start()
        thread.join(_SECONDS)
        raise


class AbortNotices:
    """Who has said that it stops, and because of whom, as far as it is asked for."""

    def __init__(self, mailbox: Mailbox, seats: Roster) -> None:
        self._mailbox, self._seats = mailbox, seats
        self._names = {party.name for party in seats.parties}
        self._stopped: dict[str, tuple[Cause, ...]] = {}
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
        return self._stopped.keys() & set(names)

    def by_itself(self, name: str) -> bool:
        """Whether a holder stopped and named nobody else as the reason."""
        return name in self._stopped and not self._stopped[name]

    def causes(self, names: Iterable[str], judge: Callable[[Cause, str], Cause | None]) -> tuple[Cause, ...]:
        """Why these holders, who have stopped, did: the first causes, of those that they name.

        `judge` gets what one says of another, and who says it, and gives what to believe of it. Whoever says nothing
        that is believed is the cause itself. What came wrong may have come so to one alone: it is said who says it.
        """
        found, unclear, visited = list[Cause](), list[Cause](), set[str]()
        names = list(names)
        for name in names:  # it grows: who stopped because another did leads to that one
            if name in visited:
                continue
            visited.add(name)
            believed = list(self._believed(name, judge))
            # That somebody was left out before is no reason to stop, unless others are lost as well.
            if any(cause.what != LEFT for cause in believed):
                found += [cause for cause in believed if cause.what != STOPPED]
                names += [cause.name for cause in believed if cause.what == STOPPED]
            else:
                (found if self.by_itself(name) else unclear).append(Cause(name, STOPPED))
        return first_causes(sorted(found, key=lambda cause: bool(cause.by)) or unclear)

    def _believed(self, name: str, judge: Callable[[Cause, str], Cause | None]) -> Iterator[Cause]:
        """What one who stopped says, as far as it is believed."""
        for cause in self._stopped.get(name, ()):
            believed: Cause | None = cause
            if cause.what == STOPPED:
                believed = cause if self.among([cause.name]) and cause.name != name else None
            elif cause.what == WRONG:
                believed = cause if cause.by or cause.name == name else replace(cause, by=name)
            else:
                believed = judge(cause, name)
            if believed is not None:
                yield believed

    def _look_for(self, name: str) -> None:
        """Read what lies in the places of a holder, each once: those of earlier sessions are passed over."""
        for place, content in messages_of_holder(self._mailbox, ONCE, STOP, name, self._n_read.get(name, 0)):
            self._n_read[name] = self._n_read.get(name, 0) + 1
            with suppress(RoomError):
                body = verify_message(content, place, self._seats, _LEAST_BYTES + _CAUSE_BYTES * len(self._names)).body
                self._stopped[name] = read_abort_causes(body.get("because"), self._names)
                return
