"""A mailbox for rooms behind an address: `rado room serve`. It keeps messages, and computes nothing.

It needs FastAPI and uvicorn, of the extra `room`; nothing else imports this module. No request is logged.
"""

import asyncio
import functools
import io
import json
import ssl
import time
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import anyio
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from radoboost.errors import ArgumentError, RoomError, reason
from radoboost.holder.room.arrivals import Arrival
from radoboost.holder.room.shelf import Refused
from radoboost.holder.room.shelves import TIME_HEADER, TOKEN_HEADER, News, Shelves
from radoboost.serving import Server

T = TypeVar("T")
_AT_ONCE = 8  # requests that are worked on; the others wait
_PIECE = 2**16  # bytes of an answer that are sent before a client has taken those before
_PIECE_SECONDS = 20.0  # for more of a message to arrive
_WHOLE_SECONDS, _LEAST_SPEED = 60.0, 2**14  # for all of it: so many, and one for so many bytes


def mailbox_app(shelves: Shelves) -> FastAPI:
    """The web application: rooms are opened, messages put and fetched, and news of a room listed."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def in_thread(work: Callable[..., T], *args: Any) -> T:
        return await to_thread.run_sync(functools.partial(work, *args), limiter=limiter)

    @app.exception_handler(RoomError)
    async def refuse(_: Request, error: Exception) -> Response:
        return _refusal(error.status if isinstance(error, Refused) else 400, str(error))

    @app.exception_handler(HTTPException)
    async def refuse_address(_: Request, error: Exception) -> Response:
        return _refusal(getattr(error, "status_code", 404), "a mailbox has nothing at this address")

    @app.exception_handler(ClientDisconnect)
    async def forget(_: Request, __: Exception) -> Response:
        return _refusal(408, "the message did not arrive")

    @app.exception_handler(Exception)
    async def say_that_it_failed(_: Request, error: Exception) -> Response:
        """It is no fault of whoever asked, who comes again; memory or files may be short for a moment."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = reason(error) if isinstance(error, OSError) and error.strerror else type(error).__name__
        shelves.failed(f"{why}, in line {last.lineno} of {Path(last.filename).name}")
        return _refusal(503, "the mailbox cannot answer now; come again")

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
        content = await in_thread(lambda: packed(shelves.news(room, epoch, _whole(start))))
        return Response(content) if len(content) <= _PIECE else await answered(io.BytesIO(content), len(content))

    @app.get("/{room}/messages/{name:path}")
    async def get(room: str, name: str) -> Response:
        file = await in_thread(shelves.get, room, name)
        if file is None:
            return Response(status_code=204)
        return await answered(file, await in_thread(_size, file))

    @app.put("/{room}/messages/{name:path}")
    async def put(room: str, name: str, request: Request) -> Response:
        sent = _time(request)
        arrival = shelves.coming(room, name, sent)  # which refuses what no room is waiting for
        if arrival is None:
            return Response(status_code=409)
        try:
            with shelves.drive():
                await _receive(request, arrival)
            put = await in_thread(lambda: shelves.put(room, name, arrival.content(), sent))
        finally:
            arrival.close()
        return Response(status_code=201 if put else 409)

    return app


def _refusal(status: int, line: str) -> Response:
    return Response(json.dumps({"error": line}), status, media_type="application/json")


def packed(news: News) -> bytes:
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


def _whole(start: str) -> int:
    """Where news begin: a number of messages."""
    if not (start.isascii() and start.isdecimal() and len(start) <= 12):
        raise Refused(400, "start is the number of messages that are known already, such as 0 or 250")
    return int(start)


def _time(request: Request) -> float:
    """When a message was sent, by its header."""
    try:
        return float(request.headers.get(TIME_HEADER, "nan"))
    except ValueError:
        return float("nan")


async def _receive(request: Request, arrival: Arrival) -> None:
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


def _size(file: BinaryIO) -> int:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size


def web_server(shelves: Shelves, cert: Path | None = None, key: Path | None = None) -> Server:
    """The server, not yet running: `run(sockets=[listening(host, port)])` runs it until it is stopped."""
    if (cert is None) != (key is None):
        raise ArgumentError("TLS needs a certificate and its key: give both --cert FILE and --key FILE, or neither")
    if cert is not None and key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise ArgumentError(f"cannot use the certificate {cert} with the key {key}: {why}") from None
    return Server(mailbox_app(shelves), lifespan="off", ssl_certfile=cert, ssl_keyfile=key)


def _no_password() -> str:
    raise ValueError("the key has a password; give one without")
