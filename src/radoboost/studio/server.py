"""The studio's server: at 127.0.0.1 alone, patient with people and impatient with slow clients."""

import asyncio
import os
import socket
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from radoboost.errors import ArgumentError, reason

HEADER_SECONDS = 15.0  # for the head of a request to arrive
TAKING_SECONDS = 20.0  # for a client to take more of an answer, once buffers are full
_MOST_CONNECTIONS = 512


class Connection(H11Protocol):
    """A connection that ends where the head of a request takes too long to arrive, or an answer to be taken."""

    _patience: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
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
        self._stop_waiting()
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Server(uvicorn.Server):
    """A server that also ends when the studio's Quit button was confirmed."""

    async def on_tick(self, counter: int) -> bool:
        app: Any = self.config.app
        return await super().on_tick(counter) or app.state.studio.quitting


def listening(port: int) -> socket.socket:
    """A socket at 127.0.0.1, which no other machine reaches; port 0 is one that is free."""
    if not 0 <= port <= 65535:
        raise ArgumentError(f"a port is a number from 0 to 65535, and it is {port}; choose another with --port")
    try:
        return socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else reason(error)
        raise ArgumentError(
            f"cannot listen at 127.0.0.1:{port}: {why}; choose another with --port, or leave it"
        ) from None


def studio_server(app: FastAPI) -> Server:
    """The server, not yet running: `run(sockets=[listening(port)])` runs it until it is stopped."""
    return Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=None,  # no request is logged
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=5,
        )
    )
