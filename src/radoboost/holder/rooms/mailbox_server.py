"""A mailbox for rooms behind an address: `rado room serve`. It keeps messages, and computes nothing.

It needs FastAPI and uvicorn, of the extra `room`; nothing else imports this module. No request is logged.
"""

import asyncio
import functools
import hmac
import io
import json
import secrets
import shutil
import ssl
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import anyio
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from radoboost.errors import ArgumentError, RoomError, reason
from radoboost.holder.rooms.mailbox import (
    AGREEMENT,
    LARGEST,
    DriveError,
    FolderMailbox,
    MemoryMailbox,
    check_mailbox_message,
    is_message_name,
)
from radoboost.holder.rooms.served_room import Arrival, Refused, Shelf
from radoboost.serving import Server

# ---- What a served mailbox keeps: a shelf for each room, with limits; it knows who sent a message, and nothing else.
#
# Whoever has the token of the server may open rooms, and whoever knows the address of a room may greet there.
# From then on a message is taken only if the party that it names as its sender has signed it, so that nobody else
# who has the address can take names away. Rooms, messages and bytes are bounded, and so is the time that a room
# is open.

INLINE = 2**20  # bytes of a message that come with the list of new ones; larger ones are fetched by name
_ANSWER = 2**20  # bytes of all of them in one answer
_RECENT = 32 * 2**20  # bytes of messages that are remembered: all holders of a room ask for the same ones
_SKEW = 600.0  # seconds that the time of a message may be off
ROOM_DIGITS = 32
BEFORE = "0000/"  # how messages before the first sum begin
_SHORT = ("keys", "shares", "confirm", "unmask", "signed")  # kinds whose messages have something for each holder
_SLACK, _FOR_EACH = 2**16, 2**10  # bytes of those
_EACH_ENTRY = 200  # bytes, about, that a message takes besides its content
_ONCE_IN = 60.0  # seconds between two lines about one failure
TIME_HEADER = "Rado-Time"  # when a message was sent, in seconds since 1970
TOKEN_HEADER = "Rado-Token"  # what allows to open a room


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

    def of_message(self, name: str, parties: int) -> int:
        """How many bytes a message may have, in a room of so many: few before anybody is known, or for keys."""
        if name == AGREEMENT:
            return min(self.agreement_bytes, self.message_bytes)
        if name.startswith(BEFORE):
            return min(self.greeting_bytes, self.message_bytes)
        kind = name.split("/")[1] if "/" in name else ""
        short = kind in _SHORT or kind.endswith("-list")
        return min(_SLACK + _FOR_EACH * parties if short else LARGEST, self.message_bytes)


@dataclass(frozen=True)
class NewMessages:
    """What is new on a shelf: name, size and, if it is small, content of each message; where to go on, and if now."""

    epoch: str
    next: int
    more: bool
    messages: tuple[tuple[str, int, bytes | None], ...]


class MailboxStore:
    """The rooms of a served mailbox, in memory, or in `folder`, where they outlast the server.

    Without a `token` anyone may open rooms. `tell` gets a line about what fails here, for whoever keeps the server.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        token: str | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.limits, self._folder, self._clock, self._token = limits or Limits(), folder, clock, token
        self._tell, self._told = tell, dict[str, float]()
        self._shelves: dict[str, Shelf] = {}
        self._recent = _Recent(_RECENT)
        self._lock = threading.RLock()
        self._epoch = secrets.token_hex(8)
        if folder is not None:
            self._read_again(folder)

    def open(self, room: str, token: str = "") -> None:
        """A new room, under a name of 32 hexadecimal digits that only its holders know."""
        check_served_room_name(room)
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
            with self.drive():
                box = MemoryMailbox() if self._folder is None else FolderMailbox(self._folder / room, make=True)
            self._shelves[room] = Shelf(box, self._clock())

    def coming(self, room: str, name: str, sent: float) -> Arrival | None:
        """A message that is about to come, refused where that can be said before it is here; None if it is there."""
        shelf = self._shelf(room)
        self._check_time(shelf, name, sent)
        if name in shelf.names:
            return None

        def check_space(size: int, more: int) -> None:
            others = sum(one.arriving for one in list(self._shelves.values())) - size
            room, limits = shelf.size + shelf.arriving + more, self.limits
            if others and (room > limits.room_bytes or self._size() + others + size + more > limits.all_bytes):
                raise Refused(503, "too much is on its way to this mailbox; come again")

        return Arrival(shelf, name, self.limits.of_message(name, shelf.parties), check_space, self._folder)

    def put(self, room: str, name: str, content: bytes, sent: float) -> bool:
        """Put a message on the shelf of a room; False if the name is taken."""
        shelf, limits = self._shelf(room), self.limits
        check_mailbox_message(name, content, limits.of_message(name, shelf.parties))
        self._check_time(shelf, name, sent)
        if name in shelf.names:
            return False
        keys = shelf.check(name, content)
        with self._lock:
            if name in shelf.names:
                return False
            if len(shelf.order) >= limits.messages or shelf.size + len(content) > limits.room_bytes:
                raise Refused(507, f"this room is full: {len(shelf.order):,} messages, {shelf.size:,} bytes")
            if self._size() + len(content) > limits.all_bytes:
                raise Refused(507, f"this mailbox is full: {self._size():,} bytes in {len(self._shelves):,} rooms")
            with self.drive():
                if not shelf.box.put(name, content):
                    return False
            shelf.add(name, content, keys)
            self._recent.keep((room, name), content)
        return True

    def get(self, room: str, name: str) -> BinaryIO | None:
        """The message of that name, to be read piece by piece, or None while there is none."""
        shelf = self._shelf(room)
        with self.drive():
            return shelf.box.open(name) if is_message_name(name) else None

    def news(self, room: str, epoch: str, start: int) -> NewMessages:
        """What came after the first `start` messages; from the first one, if the server began anew since."""
        shelf, size, messages = self._shelf(room), 0, list[tuple[str, int, bytes | None]]()
        start, end = start if epoch == self._epoch else 0, len(shelf.order)
        for number in range(start, end):
            name, length = shelf.order[number]
            content = self._content(room, shelf, name) if length <= INLINE else None
            size += _EACH_ENTRY + (0 if content is None else len(content))
            if messages and size > _ANSWER:
                break
            messages.append((name, length if content is None else len(content), content))
        reached = start + len(messages)
        return NewMessages(self._epoch, reached, reached < end, tuple(messages))

    def failed(self, why: str) -> None:
        """Tell whoever keeps the server what fails, once in a minute at most."""
        now = time.monotonic()
        if now - self._told.get(why, -_ONCE_IN) >= _ONCE_IN:
            self._told[why] = now
            self._tell(why)

    @contextmanager
    def drive(self) -> Iterator[None]:
        """What the drive says, without its places: whoever asks comes again, as if the server were gone."""
        try:
            yield
        except Refused:
            raise
        except (RoomError, OSError) as error:
            what = "something else lies where messages should"
            why = reason(error) if isinstance(error, OSError) else error.why if isinstance(error, DriveError) else what
            self.failed(f"{self._folder or 'the folder of temporary files'}: {why}")
            raise Refused(503, f"the mailbox cannot keep or read messages now ({why}); tell whoever keeps it") from None

    def _content(self, room: str, shelf: Shelf, name: str) -> bytes | None:
        if self._folder is None:
            return shelf.box.get(name)
        content = self._recent.get((room, name))
        if content is None:
            with self.drive():
                content = shelf.box.get(name)
            if content is not None:
                self._recent.keep((room, name), content)
        return content

    def _check_time(self, shelf: Shelf, name: str, sent: float) -> None:
        """Refuse a message to a room that is too old, or from a clock that is wrong."""
        now, hours = self._clock(), self.limits.hours
        if now - shelf.opened > 3600 * hours:
            raise Refused(410, f"this room is older than {hours:g} hours, and takes no messages; open another")
        if not abs(now - sent) <= _SKEW:
            late = "at another time" if sent != sent else f"{abs(now - sent):,.0f} seconds ago or early"
            raise Refused(400, f"the message {name} says that it is {late}; set the clock")

    def _shelf(self, room: str) -> Shelf:
        check_served_room_name(room)
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

        def old(shelf: Shelf) -> bool:
            hours = limits.idle_hours if idle and not shelf.keys else 2 * limits.hours
            return now - shelf.opened > 3600 * hours

        for room in [room for room, shelf in self._shelves.items() if old(shelf)]:
            del self._shelves[room]
            if self._folder is not None:
                shutil.rmtree(self._folder / room, ignore_errors=True)

    def _read_again(self, folder: Path) -> None:
        """The rooms that a server before this one kept in the folder; of sums, only how large messages are."""
        for place in sorted(folder.iterdir()):
            if place.is_dir() and not place.is_symlink() and is_served_room_name(place.name):
                box = FolderMailbox(place)
                shelf = Shelf(box, place.stat().st_mtime)
                for name in sorted(box.names(""), key=_order_of_stored_messages):
                    self._count_again(shelf, name, place / name)
                self._shelves[place.name] = shelf

    def _count_again(self, shelf: Shelf, name: str, place: Path) -> None:
        if name != AGREEMENT and not name.startswith(BEFORE):
            shelf.count(name, place.stat().st_size)
            return
        content = shelf.box.get(name) or b""
        try:
            shelf.add(name, content, shelf.check(name, content))
        except Refused:  # whoever can write in the folder can put anything there; readers check
            shelf.count(name, len(content))


class _Recent:
    """Contents of messages that were put or read lately, by room and name, as far as there is space."""

    def __init__(self, most: int) -> None:
        self._most, self._size, self._lock = most, 0, threading.Lock()
        self._contents: dict[tuple[str, str], bytes] = {}

    def get(self, key: tuple[str, str]) -> bytes | None:
        return self._contents.get(key)

    def keep(self, key: tuple[str, str], content: bytes) -> None:
        """Remember it, and forget the oldest ones for it."""
        with self._lock:
            if key in self._contents or len(content) > INLINE:
                return
            self._contents[key] = content
            self._size += len(content) + _EACH_ENTRY
            while self._size > self._most:
                self._size -= len(self._contents.pop(next(iter(self._contents)))) + _EACH_ENTRY


def _order_of_stored_messages(name: str) -> tuple[int, int, str]:
    """Where a message comes when rooms are read again: what says who is there, as it was said."""
    kinds = (AGREEMENT, f"{BEFORE}hello/", f"{BEFORE}hello", BEFORE)
    rank = next((k for k, kind in enumerate(kinds) if name.startswith(kind)), len(kinds))
    return rank, len(name.split("/")[1]) if "/" in name else 0, name  # hello-10 comes after hello-9


def is_served_room_name(name: str) -> bool:
    """Whether a room may be called so."""
    return len(name) == ROOM_DIGITS and set(name) <= set("0123456789abcdef")


def check_served_room_name(name: str) -> None:
    """Refuse what is no name of a served room."""
    if not is_served_room_name(name):
        raise Refused(404, "the address of a room ends in 32 hexadecimal digits; rado room open makes it")


T = TypeVar("T")
_AT_ONCE = 8  # requests that are worked on; the others wait
_PIECE = 2**16  # bytes of an answer that are sent before a client has taken those before
_PIECE_SECONDS = 20.0  # for more of a message to arrive
_WHOLE_SECONDS, _LEAST_SPEED = 60.0, 2**14  # for all of it: so many, and one for so many bytes


def mailbox_app(shelves: MailboxStore) -> FastAPI:
    """The web application: rooms are opened, messages put and fetched, and news of a room listed."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def in_thread(work: Callable[..., T], *args: Any) -> T:
        return await to_thread.run_sync(functools.partial(work, *args), limiter=limiter)

    @app.exception_handler(RoomError)
    async def refuse(_: Request, error: Exception) -> Response:
        return _refusal_response(error.status if isinstance(error, Refused) else 400, str(error))

    @app.exception_handler(HTTPException)
    async def refuse_address(_: Request, error: Exception) -> Response:
        return _refusal_response(getattr(error, "status_code", 404), "a mailbox has nothing at this address")

    @app.exception_handler(ClientDisconnect)
    async def forget(_: Request, __: Exception) -> Response:
        return _refusal_response(408, "the message did not arrive")

    @app.exception_handler(Exception)
    async def say_that_it_failed(_: Request, error: Exception) -> Response:
        """It is no fault of whoever asked, who comes again; memory or files may be short for a moment."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = reason(error) if isinstance(error, OSError) and error.strerror else type(error).__name__
        shelves.failed(f"{why}, in line {last.lineno} of {Path(last.filename).name}")
        return _refusal_response(503, "the mailbox cannot answer now; come again")

    @app.get("/")
    async def hello() -> dict[str, str]:
        return {"this": "a mailbox for rooms of radoboost"}

    @app.put("/{room}")
    async def open_room(room: str, request: Request) -> Response:
        await in_thread(shelves.open, room, request.headers.get(TOKEN_HEADER, ""))
        return Response(status_code=201)

    async def answered(file: BinaryIO, size: int) -> Response:
        """An answer of which little lies in memory before a client takes it."""
        if size <= _PIECE:
            with file:
                return Response(await in_thread(file.read))

        async def pieces() -> AsyncIterator[bytes]:
            with file:
                while piece := await in_thread(file.read, _PIECE):
                    yield piece

        return StreamingResponse(pieces(), headers={"Content-Length": str(size)})

    @app.get("/{room}/news")
    async def news(room: str, epoch: str = "", start: str = "0") -> Response:
        content = await in_thread(lambda: pack_mailbox_news(shelves.news(room, epoch, _news_start_number(start))))
        return Response(content) if len(content) <= _PIECE else await answered(io.BytesIO(content), len(content))

    @app.get("/{room}/messages/{name:path}")
    async def get(room: str, name: str) -> Response:
        file = await in_thread(shelves.get, room, name)
        if file is None:
            return Response(status_code=204)
        return await answered(file, await in_thread(_stored_file_size, file))

    @app.put("/{room}/messages/{name:path}")
    async def put(room: str, name: str, request: Request) -> Response:
        sent = _time_of_request(request)
        arrival = shelves.coming(room, name, sent)  # which refuses what no room is waiting for
        if arrival is None:
            return Response(status_code=409)
        try:
            with shelves.drive():
                await _receive_request_body(request, arrival)
            put = await in_thread(lambda: shelves.put(room, name, arrival.content(), sent))
        finally:
            arrival.close()
        return Response(status_code=201 if put else 409)

    return app


def _refusal_response(status: int, line: str) -> Response:
    return Response(json.dumps({"error": line}), status, media_type="application/json")


def pack_mailbox_news(news: NewMessages) -> bytes:
    """News as bytes: the length of a JSON document in 8 bytes, the document, then all contents that come with it."""
    head = {
        "epoch": news.epoch,
        "next": news.next,
        "more": news.more,
        "messages": [[name, size, content is not None] for name, size, content in news.messages],
    }
    document = json.dumps(head).encode()
    contents = b"".join(content for _, _, content in news.messages if content is not None)
    return len(document).to_bytes(8, "little") + document + contents


def _news_start_number(start: str) -> int:
    """Where news begin: a number of messages."""
    if not (start.isascii() and start.isdecimal() and len(start) <= 12):
        raise Refused(400, "start is the number of messages that are known already, such as 0 or 250")
    return int(start)


def _time_of_request(request: Request) -> float:
    """When a message was sent, by its header."""
    try:
        return float(request.headers.get(TIME_HEADER, "nan"))
    except ValueError:
        return float("nan")


async def _receive_request_body(request: Request, arrival: Arrival) -> None:
    """Take what is sent, as long as it is not too much, nor too slow: a length that is declared is not believed."""
    declared = request.headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdecimal()):
        raise Refused(400, "the length of a message is a number of bytes")
    arrival.expect(int(declared[:18]))
    pieces, begun = aiter(request.stream()), time.monotonic()
    while True:
        left = begun + _WHOLE_SECONDS + arrival.size / _LEAST_SPEED - time.monotonic()
        try:
            async with asyncio.timeout(min(_PIECE_SECONDS, left)):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise Refused(408, "the message did not arrive in time; come again") from None
        if piece is None:
            return
        arrival.add(piece)


def _stored_file_size(file: BinaryIO) -> int:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size


def mailbox_web_server(shelves: MailboxStore, cert: Path | None = None, key: Path | None = None) -> Server:
    """The server, not yet running: `run(sockets=[listening(host, port)])` runs it until it is stopped."""
    if (cert is None) != (key is None):
        raise ArgumentError("TLS needs a certificate and its key: give both --cert FILE and --key FILE, or neither")
    if cert is not None and key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_refuse_key_password)
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise ArgumentError(f"cannot use the certificate {cert} with the key {key}: {why}") from None
    return Server(mailbox_app(shelves), lifespan="off", ssl_certfile=cert, ssl_keyfile=key)


def _refuse_key_password() -> str:
    raise ValueError("the key has a password; give one without")
