"""A mailbox behind an address, as `rado room serve` keeps it: https://HOST:PORT/ROOM.

Messages never change, so each is fetched once: one request brings all that is new, and what was read is remembered.
The server is trusted with nothing: names and sizes are checked here too, and readers check signatures. A request that
fails on its way is repeated for a while.
"""

import http.client
import json
import secrets
import ssl
import threading
import time
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from radoboost.errors import ArgumentError, RoomError, reason
from radoboost.holder.rooms.mailbox import LARGEST, check_mailbox_message, is_message_name
from radoboost.holder.rooms.mailbox_server import ROOM_DIGITS, TIME_HEADER, TOKEN_HEADER, is_served_room_name
from radoboost.holder.runners.cluster import is_loopback_address

_TIMEOUT = 30.0  # seconds for one request
_PATIENCE = 60.0  # seconds for one that is repeated
_MOST_NEWS = 64 * 2**20
_KEPT = 64 * 2**20  # bytes of messages that are remembered
_AGAIN = 0.01  # seconds before a message that was not there is asked for again
_PASSING = {408, 429, 500, 502, 503, 504}  # what a server says that cannot answer now, or a proxy while it is gone


class WebMailbox:
    """Messages at a server.

    `make` opens a new room there, by the `token` of the server; `name` is then its address, which all holders need.
    Without TLS, only an address on this machine is taken, unless `trust_network`.
    """

    def __init__(
        self,
        address: str,
        *,
        make: bool = False,
        trust_network: bool = False,
        token: str = "",
    ) -> None:
        place = _split_mailbox_url(address, make)
        if not token.isascii() or not token.isprintable():
            raise ArgumentError("a token has letters, digits and signs of ASCII alone; take the one the server printed")
        check_mailbox_encrypted(
            f"{place.scheme}://{place.netloc}", encrypted=place.scheme == "https", trust=trust_network
        )
        room = secrets.token_hex(ROOM_DIGITS // 2) if make else place.path.strip("/")
        self._site, self._room, self._token = place, room, token if make else ""
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.RLock()
        self._contents: dict[str, bytes | None] = {}
        self._epoch, self._next, self._kept, self._asked = "", 0, 0, 0.0
        if make:
            status, answer = self._request("PUT", "")
            if status not in (201, 409):  # 409: a request that was repeated
                raise RoomError(f"cannot open a room at {address}: {_mailbox_refusal_line(answer, status)}")
        else:
            self._fetch_news()

    @property
    def name(self) -> str:
        return f"{self._site.scheme}://{self._site.netloc}/{self._room}"

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, whole or not at all; False if another one already has that name, which then stays."""
        check_mailbox_message(name, content)
        with self._lock:
            attempts = list[float]()
            status, answer = self._request("PUT", f"/messages/{name}", content, attempts)
            if status == 409:
                self._asked = 0.0
                # The answer to the first of several requests may have been lost: then the message there is this one.
                return len(attempts) > 1 and self.get(name) == content
            if status != 201:
                raise RoomError(
                    f"the mailbox at {self._shown} refuses the message {name}: {_mailbox_refusal_line(answer, status)}"
                )
            self._remember(name, content)
            return True

    def get(self, name: str) -> bytes | None:
        """The message of that name, or None while there is none."""
        check_mailbox_message(name, b"")
        with self._lock:
            if name not in self._contents and time.monotonic() - self._asked >= _AGAIN:
                self._fetch_news()
            if name not in self._contents:
                return None
            content = self._contents[name]
            return self._fetch(name) if content is None else content

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""
        with self._lock:
            self._fetch_news()
            return sorted(name for name in self._contents if name.startswith(prefix))

    def close(self) -> None:
        """Hang up; a later request dials again."""
        with self._lock:
            self._hang_up()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._hang_up()

    @property
    def _shown(self) -> str:
        return f"{self._site.scheme}://{self._site.netloc}"

    def _fetch(self, name: str) -> bytes | None:
        status, content = self._request("GET", f"/messages/{name}")
        if status == 204:
            return None
        if status != 200:
            raise RoomError(
                f"cannot read the message {name} at {self._shown}: {_mailbox_refusal_line(content, status)}"
            )
        check_mailbox_message(name, content)
        self._remember(name, content)
        return content

    def _fetch_news(self) -> None:
        more = True
        while more:
            status, answer = self._request("GET", f"/news?epoch={self._epoch}&start={self._next}")
            if status != 200:
                raise RoomError(f"cannot read the room at {self._shown}: {_mailbox_refusal_line(answer, status)}")
            try:
                self._epoch, reached, more, messages = unpack_mailbox_news(answer)
            except (ValueError, TypeError, KeyError):
                raise RoomError(f"what answers at {self._shown} is no mailbox for rooms; check the address") from None
            more = more and reached > self._next
            self._next = reached
            for name, content in messages:
                if self._contents.get(name) is None:
                    self._contents[name] = None
                    if content is not None:
                        self._remember(name, content)
        self._asked = time.monotonic()

    def _remember(self, name: str, content: bytes) -> None:
        """Keep a message; where that is too much, only the names of those before."""
        self._contents.pop(name, None)
        self._contents[name] = content
        self._kept += len(content)
        while self._kept > _KEPT:
            first, kept = next((n, c) for n, c in self._contents.items() if c is not None)
            self._contents[first] = None
            self._kept -= len(kept)

    def _request(
        self, method: str, path: str, body: bytes | None = None, attempts: list[float] | None = None
    ) -> tuple[int, bytes]:
        """Status and content of an answer; a request that gets none is repeated, for all of them may be."""
        start, pause = time.monotonic(), 0.05
        with self._lock:
            while True:
                if attempts is not None:
                    attempts.append(time.monotonic())
                failure: str
                try:
                    status, answer = self._ask(method, path, body)
                    if status not in _PASSING or time.monotonic() - start > _PATIENCE:
                        return status, answer
                    failure = _mailbox_refusal_line(answer, status)
                except ssl.SSLCertVerificationError as error:
                    raise RoomError(
                        f"the certificate of {self._site.netloc} is not trusted ({error.verify_message}); name the "
                        "file of its authority in the environment variable SSL_CERT_FILE"
                    ) from None
                except (OSError, http.client.HTTPException) as error:
                    self._hang_up()
                    failure = reason(error) if isinstance(error, OSError) else type(error).__name__
                if time.monotonic() - start > _PATIENCE:
                    raise RoomError(
                        f"no answer from the mailbox at {self._shown} for {_PATIENCE:g} seconds ({failure}); "
                        "check the address, the network, and that rado room serve runs there"
                    )
                time.sleep(pause)
                pause = min(2 * pause, 2.0)

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._connection is None:
            host, port = self._site.hostname or "", self._site.port
            self._connection = (
                http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=ssl.create_default_context())
                if self._site.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
            )
        headers = {TIME_HEADER: f"{time.time():.0f}", "Content-Type": "application/octet-stream"}
        if self._token and not path:  # it opens a room, and is for nothing else
            headers[TOKEN_HEADER] = self._token
        self._connection.request(method, f"/{self._room}{path}", body, headers)
        with self._connection.getresponse() as response:
            most = LARGEST if "/messages/" in path else _MOST_NEWS
            answer = response.read(most + 1)
            if len(answer) > most:
                self._hang_up()
                raise RoomError(f"the mailbox at {self._shown} sends more than {most:,} bytes; it is not to be trusted")
            return response.status, answer

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None


def check_mailbox_encrypted(address: str, *, encrypted: bool, trust: bool) -> None:
    """Refuse an address beyond this machine at which anyone may listen."""
    if not (encrypted or trust or is_loopback_address(address)):
        raise ArgumentError(
            f"{address} is not encrypted: messages are signed and sealed, but anyone who listens sees who takes part, "
            "when, and how much is sent; serve it with TLS (https), or say --trust-network"
        )


def _split_mailbox_url(address: str, make: bool) -> SplitResult:
    """The parts of an address, if it is one of a mailbox, or of a room there."""
    try:
        place = urlsplit(address)
        bad = place.scheme not in ("http", "https") or not place.hostname or (place.port or 1) < 1
    except ValueError:
        bad = True
    if bad or "@" in place.netloc or place.query or place.fragment:
        raise ArgumentError("the address of a room is https://HOST:PORT/ROOM, without a user, a query or a fragment")
    room = place.path.strip("/")
    if make and room:
        raise ArgumentError(
            f"give the mailbox alone, {place.scheme}://{place.netloc}: a new room gets a name of its own"
        )
    if not make and not is_served_room_name(room):
        raise ArgumentError(
            f"the address of a room at {place.scheme}://{place.netloc} ends in 32 hexadecimal digits; rado room open "
            "prints it"
        )
    return place


def unpack_mailbox_news(answer: bytes) -> tuple[str, int, bool, list[tuple[str, bytes | None]]]:
    """News as `web_server.packed` writes them; ValueError, TypeError or KeyError if they are something else."""
    length = int.from_bytes(answer[:8], "little")
    if length > len(answer):
        raise ValueError("cut off")
    head = json.loads(answer[8 : 8 + length])
    epoch, reached, more, listed = str(head["epoch"]), int(head["next"]), bool(head["more"]), head["messages"]
    if not epoch.isalnum() or reached < 0:
        raise ValueError("no such place")
    messages, start = list[tuple[str, bytes | None]](), 8 + length
    for name, size, inline in listed:
        if (
            not isinstance(name, str)
            or not is_message_name(name)
            or not isinstance(size, int)
            or not 0 <= size <= LARGEST
        ):
            raise ValueError("no such message")
        end = start + size if inline else start
        if end > len(answer):
            raise ValueError("cut off")
        messages.append((name, answer[start:end] if inline else None))
        start = end
    return epoch, reached, more, messages


def _mailbox_refusal_line(answer: bytes, status: int) -> str:
    """What a server says about a refusal, in one line that is safe to print."""
    with suppress(ValueError, KeyError, TypeError):
        text = json.loads(answer)["error"]
        if isinstance(text, str) and text:
            return "".join(c if c.isprintable() else " " for c in text[:300])
    return f"status {status} of HTTP"
