"""Findings together with how they were got (command, versions, seconds, options), each in a JSON file."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from radoboost.errors import ArgumentError, OutputError, reason
from radoboost.release.release import atomic_write
from radoboost.report.findings import Findings

_PACKAGES = ("radoboost", "numpy", "scipy", "numba", "pyarrow")
_KEYS = ("command", "versions", "seconds", "options", "findings")


@dataclass(frozen=True)
class Document:
    """Findings, and how they were got; `said` holds paragraphs that a page begins with, by their first words."""

    command: str
    versions: Mapping[str, str]
    seconds: float
    options: Mapping[str, Any]
    findings: Findings
    said: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON data, under the same names."""
        data = {
            "command": self.command,
            "versions": dict(self.versions),
            "seconds": self.seconds,
            "options": dict(self.options),
            "findings": self.findings.to_dict(),
        }
        return data if self.said is None else {**data, "said": dict(self.said)}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The document whose `to_dict` gave this JSON data."""
        if not isinstance(data, Mapping):
            raise ArgumentError("a results document must be a mapping; run its experiment again")
        missing = [key for key in _KEYS if key not in data]
        if missing:
            raise ArgumentError(f"a results document lacks {', '.join(missing)}; run its experiment again")
        values = {key: data[key] for key in _KEYS}
        return cls(**{**values, "findings": Findings.from_dict(data["findings"])}, said=data.get("said"))


def make_document(
    command: str, seconds: float, options: Mapping[str, Any], findings: Findings, said: Mapping[str, str] | None = None
) -> Document:
    """A document for findings that were made just now, with the versions of the installed packages."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    return Document(command, versions, round(seconds, 2), options, findings, said)


def make_results_folder(output: Path) -> None:
    """Make a folder for results, and check that it can be written to."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {output}: {reason(error)}; choose another with -o") from None
    if not os.access(output, os.W_OK):
        raise OutputError(f"cannot write in {output}: no permission; choose another directory with -o")


def write_document(output: Path, results: Document) -> None:
    """Write a document into a folder, under the name of its findings."""
    with atomic_write(output / f"{results.findings.name}.json") as draft:
        draft.write_text(json.dumps(results.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def documents_in_folder(output: Path, names: tuple[str, ...]) -> list[Document]:
    """The documents of these names in a folder, those of earlier runs included."""
    places = [output / f"{name}.json" for name in names]
    return [read_document(place) for place in places if place.exists()]


def read_document(place: Path) -> Document:
    try:
        return Document.from_dict(json.loads(place.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise OutputError(f"cannot read {place}, from an earlier run; remove it, or run its experiment again") from None
