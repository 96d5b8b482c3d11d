"""rado room serve: a mailbox for rooms whose holders share no drive."""

import json
import secrets
from pathlib import Path
from typing import Annotated

from radoboost.cli.options import JsonFlag, TrustNetworkFlag, chosen_settings, option, parameters_of, say_on_stderr
from radoboost.errors import ArgumentError, install, reason


def serve(
    port: Annotated[int, option("--port", "The port to listen at; 0 is one that is free.")] = 8443,
    host: Annotated[
        str | None, option("--host HOST", "The address to listen at; with TLS all, and else this machine alone.")
    ] = None,
    cert: Annotated[Path | None, option("--cert FILE", "The certificate for TLS, as PEM.")] = None,
    key: Annotated[Path | None, option("--key FILE", "The private key of the certificate, as PEM.")] = None,
    folder: Annotated[Path | None, option("--folder DIR", "Keep rooms in this folder; in memory by default.")] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "A limit, such as rooms=100, hours=48 (a room takes messages; twice as long it is kept), or "
            "room_bytes, message_bytes and all_bytes of all rooms; repeat it. --set help lists all.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        option("--token-file FILE", "A file with the token that opens rooms; by default a new one is printed."),
    ] = None,
    trust_network: TrustNetworkFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep a mailbox for rooms, for holders who share no drive. It knows nothing, and computes nothing.

    Whoever runs it sees who takes part, when, and how much is sent; contents are signed, sealed or masked. Rooms
    are opened by whoever has its token. It takes what a party of a room signed, within limits, and logs nothing. Ctrl-C
    ends it.

    \b
    Examples:
      rado room serve --cert mailbox.pem --key mailbox.key
      rado room serve --cert mailbox.pem --key mailbox.key --folder /var/lib/rado --set hours=12
      rado room serve --port 8000
    """
    try:
        from radoboost.holder.rooms.mailbox_server import mailbox_web_server
        from radoboost.serving import listening_socket
    except ImportError:
        raise ArgumentError(f"rado room serve needs FastAPI and uvicorn; run: {install('room')}") from None
    from radoboost.holder.rooms.http_mailbox import check_mailbox_encrypted
    from radoboost.holder.rooms.mailbox_server import Limits, MailboxStore

    encrypted = cert is not None
    host = host or ("0.0.0.0" if encrypted else "127.0.0.1")
    shown = f"[{host}]" if ":" in host else host
    check_mailbox_encrypted(f"http://{shown}:{port}", encrypted=encrypted, trust=trust_network)
    if folder is not None and not folder.is_dir():
        raise ArgumentError(f"there is no folder {folder} to keep rooms in; make it first")
    token = secrets.token_hex(16) if token_file is None else _read_room_server_token(token_file)
    limits = Limits(**chosen_settings(settings, parameters_of(Limits), "a mailbox"))
    server = mailbox_web_server(MailboxStore(limits, folder, token=token, tell=_say_room_server_failure), cert, key)
    with listening_socket(host, port) as door:
        address = f"http{'s' if encrypted else ''}://{shown}:{door.getsockname()[1]}"
        entry = {"address": address} if token_file else {"address": address, "token": token}
        print(json.dumps(entry) if as_json else f"a mailbox for rooms at {address}", flush=True)
        known = "TOKEN" if token_file else token
        say_on_stderr(
            "rado: rooms are opened with: rado room open AGREEMENT --parties K "
            f"-o {address.replace('0.0.0.0', 'HOST')} --token {known}"
        )
        server.run(sockets=[door])


def _say_room_server_failure(why: str) -> None:
    say_on_stderr(f"rado: a request failed ({why}); holders repeat theirs for a minute")


def _read_room_server_token(place: Path) -> str:
    """The token in a file: its first line, long enough that nobody guesses it."""
    try:
        with place.open(encoding="ascii") as file:
            token = file.readline(1000).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is no text of ASCII"
        raise ArgumentError(f"cannot read the token in {place}: {why}") from None
    if len(token) < 16 or not token.isprintable():
        raise ArgumentError(
            f"the token in {place} must be a line of at least 16 letters or digits, which nobody guesses"
        )
    return token
