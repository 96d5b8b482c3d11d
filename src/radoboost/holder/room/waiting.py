"""Waiting for messages, without hurry: a mailbox may be a slow drive."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from radoboost.errors import RoomError

T = TypeVar("T")
_POLL, _LONGEST_POLL = 0.01, 0.1  # seconds
SILENCE = 3.0  # seconds before a line says for whom a holder waits


def waited(look: Callable[[], T | None], seconds: float, stop: threading.Event | None = None) -> T | None:
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
