"""Findings with how they were got: the command, versions, seconds and options, in a JSON file each."""

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from radoboost.errors import OutputError, reason
from radoboost.findings import Findings
from radoboost.release import replacing

Document = dict[str, Any]
_NOTED = ("radoboost", "numpy", "scipy", "numba", "pyarrow")


def document(
    command: str, seconds: float, options: Mapping[str, Any], findings: Findings, said: Mapping[str, str] | None = None
) -> Document:
    """A results document; `said` are paragraphs to begin with, by their first words.

    >>> from radoboost.findings import found
    >>> document("rado demo", 1.234, {"seed": 0}, found("demo", "Demo"))["seconds"]
    1.23
    """
    made = {
        "command": command,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _NOTED},
        "seconds": round(seconds, 2),
        "options": dict(options),
        "findings": findings,
    }
    return made if said is None else {**made, "said": dict(said)}


def make_folder(output: Path) -> None:
    """A folder for results that can be written in."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {output}: {reason(error)}; choose another with -o") from None
    if not os.access(output, os.W_OK):
        raise OutputError(f"cannot write in {output}: no permission; choose another directory with -o")


def keep(output: Path, kept: Document) -> None:
    """Write a document into a folder, under the name of its findings."""
    with replacing(output / f"{kept['findings']['name']}.json") as beside:
        beside.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def kept_in(output: Path, names: tuple[str, ...]) -> list[Document]:
    """The documents of these names that a folder holds, also from earlier runs."""
    places = [output / f"{name}.json" for name in names]
    return [_read(place) for place in places if place.exists()]


def _read(place: Path) -> Any:
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise OutputError(f"cannot read {place}, from an earlier run; remove it, or run its experiment again") from None
