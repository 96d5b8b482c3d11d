"""Waiting for messages, without hurry: a mailbox may be a slow drive."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from radoboost.errors import RoomError

T = TypeVar("T")
_POLL, _LONGEST_POLL = 0.01, 0.1  # seconds


def waited(look: Callable[[], T | None], seconds: float, stop: threading.Event | None = None) -> T | None:
    """What `look` finds, as soon as it finds something; None when the time is up.

    >>> waited(lambda: 7, 1.0)
    7
    """
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
