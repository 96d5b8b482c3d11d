"""Receipts of rooms: what a session may have cost a holder, noted before it began, whatever came of it.

A release says itself what it cost. A room that ended on the way leaves none, though totals with noise may have been
seen. Its receipt has the id that the release would have had, and the event of all of it. It is counted as a release is,
each id once: so the receipt of a room that came to its release adds nothing to that.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radoboost.errors import ReleaseError, reason
from radoboost.privacy import Event, event_from_dict, event_to_dict

FORMAT = "radoboost receipt 1"
ENDING = ".receipt.json"
_MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class Receipt:
    """What the session `id` may have cost: `event`. `about` says which session it was, for the holder's program."""

    id: str
    event: Event
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The receipt as a file's content: JSON."""
        neighbours = None if self.event.relation is None else self.event.relation.value
        entry = {"format": FORMAT, "id": self.id, "neighbours": neighbours, "event": event_to_dict(self.event)}
        return json.dumps({**entry, **self.about}, indent=1).encode() + b"\n"


def is_receipt(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a receipt, and not as a release; one that was never finished is known by its name."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(1)
        return start == b"{" or (not start and os.fspath(path).endswith(ENDING))
    except (OSError, ValueError):
        return False  # reading it as a release says what is wrong


def read_receipt(path: str | os.PathLike[str]) -> Receipt:
    """The receipt in a file; refused if it is none."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ReleaseError(f"cannot read {path}: {reason(error)}") from None
    if not content:
        raise ReleaseError(
            f"{path} is empty: whoever wrote it was stopped on the way, before there was any noise, so that there is "
            "nothing to count; leave it out, and where it is"
        )
    try:
        entry = json.loads(content)
        if entry.pop("format") != FORMAT or not isinstance(entry["id"], str) or not entry["id"]:
            raise ValueError("another format")
        event = event_from_dict(entry.pop("event"))
        entry.pop("neighbours")
        return Receipt(entry.pop("id"), event, entry)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ReleaseError(f"{path} is neither a release nor the receipt of a room, or it is damaged") from None
