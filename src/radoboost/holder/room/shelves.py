"""What a served mailbox keeps: a shelf for each room, with limits; it knows who sent a message, and nothing else.

Whoever has the token of the server may open rooms, and whoever knows the address of a room may greet there. From then
on a message is taken only if the party that it names as its sender has signed it, so that nobody else who has the
address can take names away. Rooms, messages and bytes are
bounded, and so is the time that a room is open.
"""

import hmac
import json
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from radoboost.errors import RoomError
from radoboost.holder.room.folder import FolderMailbox
from radoboost.holder.room.mailbox import LARGEST, Mailbox, MemoryMailbox, check_message
from radoboost.holder.room.messages import read
from radoboost.holder.room.parties import Party, Seats

INLINE = 2**20  # bytes of a message that come with the list of new ones; larger ones are fetched by name
_ANSWER = 4 * 2**20  # bytes of all of them in one answer
_SKEW = 600.0  # seconds that the time of a message may be off
ROOM_DIGITS = 32
_FIRST_LINE = 4096  # bytes of the first line of a message, and of a greeting
AGREEMENT, BEFORE, HELLO = "agreement", 0, "hello"
TIME_HEADER = "Rado-Time"  # when a message was sent, in seconds since 1970
TOKEN_HEADER = "Rado-Token"  # what allows to open a room


class Refused(RoomError):
    """A request that is refused: a status of HTTP, and a line for people."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """How much a served mailbox takes: in all, of each room, of each message."""

    rooms: int = 100
    hours: float = 48.0  # that a room takes messages; twice as long it is kept
    messages: int = 200_000
    room_bytes: int = 2**30
    message_bytes: int = 64 * 2**20
    all_bytes: int = 4 * 2**30
    agreement_bytes: int = 2**20
    greeting_bytes: int = 2**17  # of each message before the first sum
    idle_hours: float = 1.0  # after which a room that nobody has greeted in makes way, where there is no space

    def of_message(self, name: str) -> int:
        """How many bytes a message may have: those that come before anybody is known have few."""
        if name == AGREEMENT:
            return min(self.agreement_bytes, self.message_bytes)
        return min(self.greeting_bytes if name.startswith(f"{BEFORE:04d}/") else LARGEST, self.message_bytes)


@dataclass
class _Shelf:
    box: Mailbox
    opened: float
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    order: list[tuple[str, int]] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True)
class News:
    """What is new on a shelf: name, size and, if it is small, content of each message; where to go on, and if now."""

    epoch: str
    next: int
    more: bool
    messages: tuple[tuple[str, int, bytes | None], ...]


class Shelves:
    """The rooms of a served mailbox, in memory, or in `folder`, where they outlast the server.

    Without a `token` anyone may open rooms.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        token: str | None = None,
    ) -> None:
        self.limits, self._folder, self._clock, self._token = limits or Limits(), folder, clock, token
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.RLock()
        self._epoch = secrets.token_hex(8)
        if folder is not None:
            self._read_again(folder)

    def open(self, room: str, token: str = "") -> None:
        """A new room, under a name of 32 hexadecimal digits that only its holders know."""
        check_room(room)
        if self._token is not None and not hmac.compare_digest(self._token.encode(), token.encode()):
            raise Refused(403, "to open a room here takes the token that the server was started with: --token TOKEN")
        with self._lock:
            self._forget()
            if room in self._shelves:
                raise Refused(409, "there is such a room already; open another")
            if len(self._shelves) >= self.limits.rooms or self._size() >= self.limits.all_bytes:
                self._forget(idle=True)
            if len(self._shelves) >= self.limits.rooms:
                raise Refused(507, f"this mailbox has {self.limits.rooms:,} rooms, and takes no more today; try later")
            box = MemoryMailbox() if self._folder is None else FolderMailbox(self._folder / room, make=True)
            self._shelves[room] = _Shelf(box, self._clock())

    def put(self, room: str, name: str, content: bytes, sent: float) -> bool:
        """Put a message on the shelf of a room; False if the name is taken."""
        shelf, now, limits = self._shelf(room), self._clock(), self.limits
        check_message(name, content, self.most_bytes(room, name))
        if not abs(now - sent) <= _SKEW:
            raise Refused(
                400, f"the message {name} says that it is {abs(now - sent):,.0f} seconds old or early; set the clock"
            )
        with self._lock:
            if shelf.box.get(name) is not None:
                return False
            if len(shelf.order) >= limits.messages or shelf.size + len(content) > limits.room_bytes:
                raise Refused(507, f"this room is full: {len(shelf.order):,} messages, {shelf.size:,} bytes")
            if self._size() + len(content) > limits.all_bytes:
                raise Refused(507, f"this mailbox is full: {self._size():,} bytes in {len(self._shelves):,} rooms")
            greeting = check_signed(name, content, shelf.keys)
            if not shelf.box.put(name, content):
                return False
            shelf.keys |= greeting
            shelf.order.append((name, len(content)))
            shelf.size += len(content)
        return True

    def most_bytes(self, room: str, name: str) -> int:
        """How many bytes a message may have; refused, before it is read, if there is no such room, or it is too old."""
        shelf, limits = self._shelf(room), self.limits
        if self._clock() - shelf.opened > 3600 * limits.hours:
            raise Refused(410, f"this room is older than {limits.hours:g} hours, and takes no messages; open another")
        return limits.of_message(name)

    def get(self, room: str, name: str) -> bytes | None:
        return self._shelf(room).box.get(name)

    def news(self, room: str, epoch: str, start: int) -> News:
        """What came after the first `start` messages; from the first one, if the server began anew since."""
        shelf, size, messages = self._shelf(room), 0, list[tuple[str, int, bytes | None]]()
        start = start if epoch == self._epoch else 0
        end = len(shelf.order)
        for name, length in shelf.order[max(0, start) : end]:
            content = shelf.box.get(name) if length <= INLINE else None
            size += 200 + (length if content is not None else 0)
            messages.append((name, length, content))
            if size > _ANSWER:
                break
        reached = max(0, start) + len(messages)
        return News(self._epoch, reached, reached < end, tuple(messages))

    def _shelf(self, room: str) -> _Shelf:
        check_room(room)
        shelf = self._shelves.get(room)
        if shelf is None:
            raise Refused(
                404, "this mailbox has no such room; check the address, or open a room, if the server was started again"
            )
        return shelf

    def _size(self) -> int:
        return sum(shelf.size for shelf in list(self._shelves.values()))

    def _forget(self, idle: bool = False) -> None:
        """Take away rooms that are twice as old as rooms may be; with `idle`, also those nobody has greeted in."""
        now, limits = self._clock(), self.limits

        def old(shelf: _Shelf) -> bool:
            hours = limits.idle_hours if idle and not shelf.keys else 2 * limits.hours
            return now - shelf.opened > 3600 * hours

        for room in [room for room, shelf in self._shelves.items() if old(shelf)]:
            del self._shelves[room]
            if self._folder is not None:
                shutil.rmtree(self._folder / room, ignore_errors=True)

    def _read_again(self, folder: Path) -> None:
        """The rooms that a server before this one kept in the folder."""
        for place in sorted(folder.iterdir()):
            if place.is_dir() and not place.is_symlink() and is_room(place.name):
                box = FolderMailbox(place)
                shelf = _Shelf(box, place.stat().st_mtime)
                for name in sorted(box.names(""), key=lambda name: ("/hello/" not in name, name)):
                    content = box.get(name) or b""
                    with suppress(Refused):  # whoever can write in the folder can put anything there; readers check
                        shelf.keys |= check_signed(name, content, shelf.keys)
                    shelf.order.append((name, len(content)))
                    shelf.size += len(content)
                self._shelves[place.name] = shelf


def is_room(name: str) -> bool:
    """Whether a room may be called so."""
    return len(name) == ROOM_DIGITS and set(name) <= set("0123456789abcdef")


def check_room(name: str) -> None:
    """Refuse what is no name of a served room."""
    if not is_room(name):
        raise Refused(404, "the address of a room ends in 32 hexadecimal digits; rado room open makes it")


def check_signed(name: str, content: bytes, keys: Mapping[str, bytes]) -> dict[str, bytes]:
    """Refuse a message that its sender did not sign; a greeting brings a new key, which is returned.

    Only the agreement is not signed: it comes before anybody is known.
    """
    if name == AGREEMENT:
        return {}
    if name.count("/") != 2:
        raise Refused(403, f"{name} is no name of a message in a room; one is such as 0003/masked/north")
    stage, kind, holder = name.split("/")
    greeting = (stage, kind) == (f"{BEFORE:04d}", HELLO)
    try:
        first, _, rest = content.partition(b"\n")
        about = bytes.fromhex(json.loads(first[:_FIRST_LINE])["agreement"])
        new = {holder: bytes.fromhex(json.loads(rest[:_FIRST_LINE])["public_key"])} if greeting else {}
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Refused(403, f"the message {name} is not signed, or damaged") from None
    parties = tuple(Party(name, key) for name, key in (new or keys).items())
    try:
        read(content, name, cast(Seats, _Known(about, parties)))
    except RoomError as error:
        raise Refused(403, str(error)) from None
    except Exception:  # what anyone on the network can cause is no failure of the server
        raise Refused(400, f"the message {name} cannot be read") from None
    return new


@dataclass(frozen=True)
class _Known:
    """Those whose keys are known, and the agreement that a message says it is about: readers know the right one."""

    agreement: bytes
    parties: tuple[Party, ...]
