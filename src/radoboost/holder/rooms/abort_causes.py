"""Who was the first reason that a room, or a holder in it, had to stop: facts that all who see the room can check.

A cause tells what messages were late, missing or wrong, and never what a holder found in its table.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from radoboost.errors import RoomError

UNCONFIRMED, SILENT, STOPPED, LEFT, WRONG, GAVE_UP = "unconfirmed", "silent", "stopped", "left", "wrong", "gave up"
_KINDS = (UNCONFIRMED, SILENT, STOPPED, LEFT, WRONG, GAVE_UP)
_FIELDS = ("by", "name", "since", "what")
_LATEST = 1 << 40  # seconds, far beyond any clock


@dataclass(frozen=True)
class Cause:
    """A holder, and what about it was the reason; `since` is when a silence began, in seconds since 1970.

    `by` names the holder who says so, where nobody else can see it.
    """

    name: str
    what: str
    since: int | None = None
    by: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "what": self.what, "since": self.since, "by": self.by}


def read_abort_causes(data: Any, names: Collection[str]) -> tuple[Cause, ...]:
    """The causes that a holder wrote in a message; nothing unless all of them are about holders of these names."""
    if not isinstance(data, list) or len(data) > len(names):
        return ()
    found = []
    for entry in data:
        if not isinstance(entry, dict) or tuple(sorted(entry)) != _FIELDS:
            return ()
        by, name, since, what = (entry[field] for field in _FIELDS)
        if not isinstance(by, str) or not isinstance(name, str) or not {name, by or name} <= {*names}:
            return ()
        if what not in _KINDS:
            return ()
        if since is not None and (type(since) is not int or not 0 <= since < _LATEST):
            return ()
        found.append(Cause(name, what, since, by))
    return tuple(found)


def first_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The first of the causes about each holder."""
    first: dict[str, Cause] = {}
    for cause in causes:
        first.setdefault(cause.name, cause)
    return tuple(first.values())


def causes_text(causes: Sequence[Cause]) -> str:
    """Causes as one clause: east and west have been silent since 2026-01-31 14:02:07; north stopped."""
    groups: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        groups.setdefault((cause.what, cause.by), []).append(cause)
    return "; ".join(_cause_clause(what, by, group) for (what, by), group in groups.items())


def _cause_clause(what: str, by: str, causes: Sequence[Cause]) -> str:
    names = [cause.name for cause in causes]
    who, several = holder_names_text(names), len(names) > 1
    times = [cause.since for cause in causes if cause.since is not None]
    words = {
        UNCONFIRMED: f"{who} did not confirm the code",
        SILENT: f"{who} {'have' if several else 'has'} been silent"
        + (f" since {abort_time_text(max(times))}" if times else ""),
        STOPPED: f"{who} stopped",
        LEFT: f"{who} {'were' if several else 'was'} left out before",
        GAVE_UP: f"{who} gave up waiting",
        WRONG: f"what came in the name of {who} cannot be used",
    }
    return f"{by} says that {words[what]}" if by else words[what]


def holder_names_text(names: Iterable[str]) -> str:
    """Names in a sentence: nobody; east; east and west; coast, east and west."""
    *most, last = [*names] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last


def abort_time_text(seconds: float) -> str:
    """A time for people, on this machine's clock."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def bearable_loss_text(most_lost: int) -> str:
    """How many a room can lose, in a clause."""
    if most_lost == 0:
        return "the room cannot do without anybody"
    return f"the room can do without {most_lost} {'holder' if most_lost == 1 else 'holders'} at most"


def wrong_message_error(line: str, *names: str) -> RoomError:
    """A refusal of what came in the name of these holders."""
    return RoomError(line, [Cause(name, WRONG) for name in names])
