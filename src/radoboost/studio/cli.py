"""rado studio: a page on this machine for the holder, the officer and the learner."""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli.options import JsonFlag, say_on_stderr
from radoboost.errors import ArgumentError, install

_LEADS = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={address}"><title>rado studio</title></head>'
    '<body><p><a href="{address}">Open the studio</a></p></body></html>\n'
)


def studio(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="TABLE|RELEASE|MODEL", help="What to begin with: a file in this folder."),
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen at, of this machine alone; 0 is one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Open the studio: a page on which a holder decides, an officer sees why, and a learner learns.

    It shows the files of this folder and of folders below it, and nothing else. Nothing leaves this machine: the page
    is at 127.0.0.1, and its address lets one browser in, once. Everything on it can also be done by a command, which
    it shows. Its Quit button or Ctrl-C ends it.

    \b
    Examples:
      rado studio
      rado studio patients.csv
      rado studio patients.rado.parquet --no-browser
    """
    try:
        from radoboost.studio.app import create_studio, listen_on_loopback, studio_server
    except ImportError:
        raise ArgumentError(f"rado studio needs FastAPI and uvicorn; run: {install('studio')}") from None

    folder = Path.cwd()
    chosen = None if file is None else _studio_start_file(file, folder)
    with listen_on_loopback(port) as door:
        app = create_studio(folder, door.getsockname()[1], chosen)
        new_address = app.state.studio.door.new_address
        address = new_address()
        print(json.dumps({"address": address, "folder": str(folder)}) if as_json else address, flush=True)
        say_on_stderr(f"rado: the studio of {folder}; this address lets one browser in, once; Ctrl-C ends it")
        _offer_studio_addresses(new_address)
        if browser:
            _open_browser_at_studio(app.state.studio, address)
        studio_server(app).run(sockets=[door])
    say_on_stderr("rado: the studio has ended")


def _studio_start_file(file: Path, folder: Path) -> Path:
    from radoboost.studio.workspace import Folder

    place = file.resolve()
    if place.is_file() and not place.is_relative_to(folder.resolve()):
        raise ArgumentError(f"{file} is not in this folder, and the studio stays in it; run it in {place.parent}")
    return Folder(folder).file(str(file))


def _offer_studio_addresses(new_address: Any) -> None:
    """Print a new address whenever somebody presses Enter, where there is somebody."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    with suppress(AttributeError, ValueError):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # in the background nobody presses Enter, and that is all
    say_on_stderr("rado: for another browser, press Enter for a new address")

    def offer() -> None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):  # not by sys.stdin, whose lock would be held at the end
                print(new_address(), flush=True)

    threading.Thread(target=offer, daemon=True).start()


def _open_browser_at_studio(studio: Any, address: str) -> None:
    """Open a browser at an address by a file that leads there, for everybody on a machine sees the words of commands.

    The file is its owner's alone, and is removed once the address was used, or the studio ends.
    """
    with suppress(OSError):  # as without a browser: the address is on the terminal
        folder = Path(tempfile.mkdtemp(prefix="rado-studio-"))  # which nobody else can enter
        studio.at_end = partial(shutil.rmtree, folder, ignore_errors=True)
        place = folder / "open.html"
        with os.fdopen(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(_LEADS.format(address=address))
        for work in (
            partial(_browse_to_studio, place.as_uri()),
            partial(_remove_login_file_once_used, studio, address),
        ):
            threading.Thread(target=work, daemon=True).start()


def _browse_to_studio(address: str) -> None:
    with suppress(Exception):  # no browser, or one that fails
        webbrowser.open(address)


def _remove_login_file_once_used(studio: Any, address: str) -> None:
    while studio.door.is_open(address):
        time.sleep(0.2)
    studio.at_end()
