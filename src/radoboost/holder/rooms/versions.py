"""Which program a holder runs, so that those who would end with different releases find it out before they begin.

All holders compute one release, each by itself, to the last bit and the last word. A program that differs would be
found at the end, when all is spent. So each greets with what its program is, and none goes on with another.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import radoboost
from radoboost.errors import RoomError
from radoboost.holder.mechanisms import StatementFacts
from radoboost.holder.mechanisms.mechanism import RoomParticipation
from radoboost.holder.rooms.abort_causes import holder_names_text
from radoboost.holder.rooms.agreement import Agreement
from radoboost.holder.rooms.roster import Party, Roster
from radoboost.holder.rooms.signed_messages import FORMAT
from radoboost.release.release import FORMAT as FILE_FORMAT

_COMPUTING = ("holder", "privacy", "release", "tables")  # parts of the program that a release depends on
_DIGITS = 12  # of a digest: enough for what differs by chance, and for people to compare


def versions_of_holder(agreement: Agreement) -> dict[str, str]:
    """What all holders of a room must have alike: program, formats, and the text that the statement will have."""
    return {
        "program": f"{radoboost.__version__} ({_program_digest()})",
        "formats": f"{FORMAT}, release {FILE_FORMAT}",
        "statement": _short_digest("\n".join(_statement_texts_for_version(agreement)).encode()),
    }


@cache
def _program_digest() -> str:
    """A digest of the source that computes releases, whatever the ends of its lines."""
    root, digest = Path(radoboost.__file__).parent, hashlib.sha256()
    for place in sorted(place for part in _COMPUTING for place in (root / part).rglob("*.py")):
        source = place.read_bytes().replace(b"\r\n", b"\n")  # on Windows, too
        digest.update(place.relative_to(root).as_posix().encode() + b"\0" + _short_digest(source).encode())
    return digest.hexdigest()[:_DIGITS]


def _short_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _statement_texts_for_version(agreement: Agreement) -> Iterator[str]:
    """All texts of statements such as the room may come to, about made-up circumstances; no figure is in them."""
    asked = agreement.check()
    mechanism = asked.mechanism
    for lost in range(min(1, agreement.most_lost) + 1):
        present = agreement.parties - lost
        room = RoomParticipation(agreement.parties, agreement.tolerate, 2, present, (), agreement.needs_all)
        for mapped in (False, True):
            about = StatementFacts(
                "bounds", asked.seeded, asked.n_rados, n_columns=2, n_examples=1, searched=("x",), person=asked.person,
                max_rows=asked.max_rows, schema="declared", mapped=mapped, n_classes=len(asked.classes or ()),
                origin="query", records="rows", room=room,
            )  # fmt: skip
            yield from _all_texts_in(json.loads(json.dumps(mechanism.statement(about).to_dict())))


def _all_texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield name
            yield from _all_texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _all_texts_in(part)


def check_versions(seats: Roster) -> None:
    """Refuse to begin with holders whose programs differ; all see the same line, for all have the same greetings."""
    line = differing_versions_text(seats.parties)
    if line is not None:
        raise RoomError(
            f"{line}; nothing was computed, and nothing is spent: install one version at all, and join again"
        )


def differing_versions_text(parties: Sequence[Party]) -> str | None:
    """Who has which version, where not all have one; whoever differs from most is named first."""
    for what, words in (("program", "radoboost"), ("formats", "formats"), ("statement", "the statement's text")):
        groups: dict[str, list[str]] = {}
        for party in parties:
            groups.setdefault(dict(party.versions).get(what, "that greets without its version"), []).append(party.name)
        if len(groups) > 1:
            fewest = sorted(groups, key=lambda version: (len(groups[version]), groups[version]))
            each = [
                f"{holder_names_text(groups[version])} {_has_or_have(groups[version])} {words} {version}"
                for version in fewest
            ]
            return f"holders run different versions: {', '.join(each)}"
    return None


def _has_or_have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
