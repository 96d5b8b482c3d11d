"""Where messages of a room lie: anybody there can put one, and read all of them, and none is ever replaced.

A mailbox knows nothing and is trusted with nothing: messages are signed, what is secret in them is sealed, and numbers
are masked. One that loses or withholds messages can stop a room, and cannot change what comes out of it.
"""

import threading
from typing import Protocol

from radoboost.errors import RoomError


class Mailbox(Protocol):
    """What a room needs of a place for messages. Names are such as "0003/masked/north"."""

    @property
    def name(self) -> str:
        """What messages to people call it."""

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, whole or not at all; False if another one already has that name, which then stays."""

    def get(self, name: str) -> bytes | None:
        """The message of that name, or None while there is none."""

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""


class MemoryMailbox:
    """A mailbox within one process, for tests and rehearsals.

    >>> box = MemoryMailbox()
    >>> box.put("0000/keys/a", b"1"), box.put("0000/keys/a", b"2"), box.get("0000/keys/a")
    (True, False, b'1')
    """

    name = "memory"

    def __init__(self) -> None:
        self._messages: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, unless one already has that name."""
        if not isinstance(content, bytes):
            raise RoomError("a message is bytes")
        with self._lock:
            return self._messages.setdefault(name, content) is content

    def get(self, name: str) -> bytes | None:
        """The message of that name, or None."""
        return self._messages.get(name)

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""
        with self._lock:
            return sorted(name for name in self._messages if name.startswith(prefix))
