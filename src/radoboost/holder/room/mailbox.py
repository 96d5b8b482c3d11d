"""Where messages of a room lie: anybody there can put one, and read all of them, and none is ever replaced.

A mailbox knows nothing and is trusted with nothing: messages are signed, what is secret in them is sealed, and numbers
are masked. One that loses or withholds messages can stop a room, and cannot change what comes out of it.
"""

import io
import os
import re
import threading
from typing import BinaryIO, Protocol

from radoboost.errors import ArgumentError, RoomError

AGREEMENT = "agreement"  # the name of the first message of a room
_LEFT_BY_SYSTEMS = ("Thumbs.db", "desktop.ini", "lost+found")
LARGEST = 256 * 2**20  # bytes of one message
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(/[A-Za-z0-9][A-Za-z0-9_-]{0,63}){0,3}")


class DriveError(RoomError):
    """What a drive said of a message, for whoever uses the drive; `why` is that without the name of any place."""

    def __init__(self, line: str, why: str) -> None:
        super().__init__(line)
        self.why = why


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
    """A mailbox within one process, for tests and rehearsals."""

    name = "memory"

    def __init__(self) -> None:
        self._messages: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, unless one already has that name."""
        check_message(name, content)
        with self._lock:
            if name in self._messages:
                return False
            self._messages[name] = content
            return True

    def get(self, name: str) -> bytes | None:
        return self._messages.get(name)

    def open(self, name: str) -> BinaryIO | None:
        """The message of that name, to be read piece by piece, or None while there is none."""
        content = self.get(name)
        return None if content is None else io.BytesIO(content)

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""
        with self._lock:
            return sorted(name for name in self._messages if name.startswith(prefix))


def is_name(name: str) -> bool:
    """Whether a message may be called so: a name is safe as a path and in an address."""
    return _NAME.fullmatch(name) is not None


def check_message(name: str, content: bytes, largest: int = LARGEST) -> None:
    """Refuse a name that is none, and a content that is no message or too large."""
    if not is_name(name):
        raise RoomError(
            f"{name[:80]!r} is no name of a message: it has up to 4 parts of letters, digits, - and _, with / between"
        )
    if not isinstance(content, bytes):
        raise RoomError(f"the message {name} must be bytes; it is of the type {type(content).__name__}")
    check_size(name, len(content), largest)


def check_size(name: str, size: int, largest: int) -> None:
    """Refuse a message of more bytes."""
    if size > largest:
        raise RoomError(
            f"the message {name} has {size:,} bytes, and the mailbox takes {largest:,} at most; agree on fewer "
            "rados or columns"
        )


def mailbox_at(
    address: str | os.PathLike[str], *, make: bool = False, trust_network: bool = False, token: str = ""
) -> Mailbox:
    """The mailbox of a room: a folder, or an address https://HOST:PORT/ROOM. `make` makes it, if it is not there.

    To open a room at a server takes the `token` that it was started with. An address without encryption, beyond this
    machine, is refused unless `trust_network`.
    """
    from radoboost.holder.room.folder import FolderMailbox
    from radoboost.holder.room.web_client import WebMailbox

    place = os.fspath(address)
    if place.lower().startswith(("http://", "https://")):
        return WebMailbox(place, make=make, trust_network=trust_network, token=token)
    if "://" in place:
        raise ArgumentError(
            f"a room is a folder that all holders can write, or an address https://HOST:PORT/ROOM; it is {place!r}"
        )
    if trust_network:
        raise ArgumentError("trust_network (--trust-network) is about the address of a room, and this one is a folder")
    if make:
        _check_empty(place)
    return FolderMailbox(place, make=make)


def _check_empty(place: str) -> None:
    """Refuse to make a room of a folder that holds other things, which all holders would then see."""
    try:
        there = sorted(name for name in os.listdir(place) if name[0] != "." and name not in _LEFT_BY_SYSTEMS)
    except OSError:
        return  # it is not there, or opening it says what is wrong
    if there and AGREEMENT not in there:
        more = "" if len(there) == 1 else f" and {len(there) - 1:,} more"
        raise RoomError(
            f"{place} is a folder that holds {there[0]!r}{more}, and a room needs one of its own, which all holders "
            "see; name a new one (-o)"
        )
