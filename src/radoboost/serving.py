"""What the servers of this package share: one kind of connection, with limits, for the studio and for mailboxes.

A head that does not arrive, an answer that nobody takes, and connections beyond a number end. It needs uvicorn, of the
extras `room` and `studio`.
"""

import asyncio
import errno
import os
import socket
import time
from contextlib import suppress
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from radoboost.errors import ArgumentError, reason

HEADER_SECONDS = 15.0  # for the head of a request to arrive
TAKING_SECONDS = 20.0  # for a client to take more of an answer, once buffers are full
MOST_CONNECTIONS = 512
_OTHER_FILES = 100  # that a process may have open beside its connections
_AT_ONCE = 32  # connections that the event loop accepts before it looks at any of them
_QUEUE = 1024  # that wait to be accepted
_FULL = (errno.EMFILE, errno.ENFILE)


class Connection(H11Protocol):
    """A connection that ends where the head of a request takes too long to arrive, or an answer to be taken."""

    by_file: ClassVar["dict[int, Connection]"] = {}  # those that are open, by the number of their file
    _file = -1
    _patience: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._file = transport.get_extra_info("socket").fileno()
        self.by_file[self._file] = self
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        super().data_received(data)
        self._wait_for_head()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not take its answer."""
        super().pause_writing()
        self._taking = self.loop.call_later(TAKING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, for it was taken."""
        if self._taking is not None:
            self._taking.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.by_file.pop(self._file, None)
        self._stop_waiting()
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """Wait, for some seconds, for the rest of a head, or of a body that was refused."""
        late = self.cycle is None or self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])
        if self.is_busy or not late:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Listener(socket.socket):
    """A listening socket that has so many connections at most.

    Where there is no place for another one, the oldest has to go that asks nothing: one that never asked, if there is
    one. Its client, if it is an honest one, dials again.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most = most_server_connections()
        self._connections: list[socket.socket] = []
        self._closed_until = 0.0

    def listen(self, backlog: int = _QUEUE, /) -> None:
        super().listen(max(backlog, _QUEUE))  # asyncio takes one number for the queue, and for what it accepts at once

    def accept(self) -> tuple[socket.socket, Any]:
        """A new connection, in whose answers no piece waits for the one before to be acknowledged."""
        if time.monotonic() < self._closed_until:
            raise BlockingIOError
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno in _FULL:  # asyncio comes again in a second, and asks on until then
                self._closed_until = time.monotonic() + 0.5
                self._make_way()
            raise
        self._connections = [one for one in self._connections if one.fileno() >= 0]
        if len(self._connections) >= self._most and not self._make_way():
            connection.close()
            raise ConnectionAbortedError("all connections are busy")
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.append(connection)
        return connection, address

    def _make_way(self) -> bool:
        """End a connection on which nothing is asked, if there is one."""
        known = {one: Connection.by_file.get(one.fileno()) for one in self._connections}
        idle = [one for one, protocol in known.items() if protocol is None or not protocol.is_busy]
        silent = [one for one in idle if (protocol := known[one]) is None or protocol.cycle is None]
        for one in (silent or idle)[:1]:
            self._connections.remove(one)
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return bool(idle)


def most_server_connections() -> int:
    """How many connections a server here may have: files are needed beside them."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST_CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if files < 0 else max(16, min(MOST_CONNECTIONS, files - _OTHER_FILES))


def listening_socket(host: str, port: int) -> Listener:
    """A socket that listens at an address; port 0 is one that is free."""
    if not 0 <= port <= 65535:
        raise ArgumentError(f"a port is a number from 0 to 65535, and it is {port}; choose another with --port")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return Listener(fileno=socket.create_server((host, port), family=family, backlog=_QUEUE).detach())
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else reason(error)  # without a second address
        raise ArgumentError(f"cannot listen at {host}:{port}: {why}; choose another with --port") from None


class Server(uvicorn.Server):
    """A server with these connections, not yet running: `run(sockets=[listening(host, port)])` runs it."""

    def __init__(self, app: Any, **options: Any) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",  # which accepts by the listener's own method
            http=Connection,
            ws="none",
            log_config=None,  # no request is logged, and handlers of others stay as they are
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_AT_ONCE,
            limit_concurrency=MOST_CONNECTIONS + _AT_ONCE,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=5,
            **options,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_say_failed_request)
        await super().startup(sockets)


def _say_failed_request(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio says by itself, but where there are too many files, which `Listener` sees to."""
    if getattr(context.get("exception"), "errno", None) not in _FULL:
        loop.default_exception_handler(context)
