"""A mailbox for rooms behind an address: `rado room serve`. It keeps messages, and computes nothing.

It needs FastAPI and uvicorn, of the extra `room`; nothing else imports this module. No request is logged.
"""

import json
import os
import socket
import ssl
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from radoboost.errors import ArgumentError, RoomError, reason
from radoboost.holder.room.shelves import TIME_HEADER, TOKEN_HEADER, News, Refused, Shelves


def mailbox_app(shelves: Shelves) -> FastAPI:
    """The web application: rooms are opened, messages put and fetched, and news of a room listed."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.exception_handler(RoomError)
    async def refuse(_: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, Refused) else 400
        return Response(json.dumps({"error": str(error)}), status, media_type="application/json")

    @app.exception_handler(Exception)
    async def refuse_anything(_: Request, __: Exception) -> Response:
        return Response(json.dumps({"error": "this request cannot be answered"}), 400, media_type="application/json")

    @app.get("/")
    async def hello() -> dict[str, str]:
        return {"this": "a mailbox for rooms of radoboost"}

    @app.put("/{room}")
    async def open_room(room: str, request: Request) -> Response:
        await run_in_threadpool(shelves.open, room, request.headers.get(TOKEN_HEADER, ""))
        return Response(status_code=201)

    @app.get("/{room}/news")
    async def news(room: str, epoch: str = "", start: int = 0) -> Response:
        return Response(packed(await run_in_threadpool(shelves.news, room, epoch, start)))

    @app.get("/{room}/messages/{name:path}")
    async def get(room: str, name: str) -> Response:
        content = await run_in_threadpool(shelves.get, room, name)
        return Response(status_code=204) if content is None else Response(content)

    @app.put("/{room}/messages/{name:path}")
    async def put(room: str, name: str, request: Request) -> Response:
        content = await _body(request, shelves.most_bytes(room, name))  # which refuses what no room is waiting for
        try:
            sent = float(request.headers.get(TIME_HEADER, "nan"))
        except ValueError:
            sent = float("nan")
        put = await run_in_threadpool(shelves.put, room, name, content, sent)
        return Response(status_code=201 if put else 409)

    return app


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


async def _body(request: Request, most: int) -> bytes:
    """What is sent, as long as it is not too much: a length that is declared is not believed."""
    content = bytearray()
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise Refused(413, f"a message has at most {most:,} bytes here; agree on fewer rados or columns")
    async for piece in request.stream():
        content += piece
        if len(content) > most:
            raise Refused(413, f"a message has at most {most:,} bytes here; agree on fewer rados or columns")
    return bytes(content)


def listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise RoomError(f"a port is a number from 0 to 65535, and it is {port}; choose another with --port")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        door = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else reason(error)  # without a second address
        raise RoomError(f"cannot listen at {host}:{port}: {why}; choose another with --port or --host") from None
    return door


def web_server(shelves: Shelves, cert: Path | None = None, key: Path | None = None) -> uvicorn.Server:
    """The server, not yet running: `run(sockets=[listening(host, port)])` runs it until it is stopped."""
    if (cert is None) != (key is None):
        raise ArgumentError("TLS needs a certificate and its key: give both --cert FILE and --key FILE, or neither")
    if cert is not None and key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise ArgumentError(f"cannot use the certificate {cert} with the key {key}: {why}") from None
    return uvicorn.Server(
        uvicorn.Config(
            mailbox_app(shelves),
            log_config=None,  # handlers of others stay as they are
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=60,
            ssl_certfile=cert,
            ssl_keyfile=key,
        )
    )


def _no_password() -> str:
    raise ValueError("the key has a password; give one without")
