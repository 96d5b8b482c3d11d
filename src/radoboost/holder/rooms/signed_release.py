"""What comes out of a room: one file, which every holder compares with its own release, and signs.

As many signatures as a sum needs holders make it the release of the room, whoever else was lost before it signed (B13
of docs/proofs/secure-sums.md).
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ReleaseError, RoomError
from radoboost.holder.rooms import signed_messages
from radoboost.holder.rooms.abort_causes import (
    SILENT,
    WRONG,
    Cause,
    causes_text,
    holder_names_text,
    wrong_message_error,
)
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.participant import Participant
from radoboost.holder.rooms.roster import Roster
from radoboost.release.composition import are_near
from radoboost.release.release import Release, atomic_write, load

RELEASE, SIGNED = "release", "signed"


def compare_and_sign_release(
    mailbox: Mailbox, seats: Roster, own: signed_messages.Identity, sitting: Participant, release: Release
) -> tuple[bytes, Release]:
    """The file that one holder wrote for all, compared with this holder's own release, and signed by enough."""
    message = sitting.said(RELEASE, lambda: ({}, {"file": _release_file_bytes(release)}))
    content = release_file_of_message(message)
    theirs = load_signed_release(content)
    if not _same_release(release, theirs):
        raise wrong_message_error(
            f"the release that {message.sender} wrote is not the one that was computed here; do not use it, and open a "
            "new room",
            message.sender,
        )
    body = {"sha256": hashlib.sha256(content).hexdigest()}
    mailbox.put(
        signed_messages.message_place(sitting.stage, SIGNED, own.party.name),
        signed_messages.sign_message(own, seats.agreement, sitting.stage, SIGNED, body),
    )
    digests: dict[str, str] = {}
    whom, since = sitting.waiting_in("signing the release"), int(time.time())

    def all_signed() -> bool | None:
        digests.update(
            _signed_release_digests(mailbox, seats, sitting.stage, [n for n in sitting.present if n not in digests])
        )
        missing = [name for name in sitting.present if name not in digests]
        silent = [name for name in missing if name not in sitting.stopped(missing)]
        whom(silent)
        return None if silent else True

    sitting.waited(all_signed)
    signed = [name for name, digest in digests.items() if digest == body["sha256"]]
    missing = [name for name in sitting.present if name not in signed]
    count = f"{len(signed)} of {len(seats.parties)} holders signed the release, and {seats.threshold} must"
    others = [Cause(name, WRONG) for name in missing if name in digests]  # they signed another file
    causes = [*others, *sitting.causes([name for name in missing if name not in digests], since)]
    if len(signed) < seats.threshold:
        late = [cause.name for cause in causes if cause.what == SILENT]
        hope = (
            f"; if {holder_names_text(late)} still sign, fetch it with rado room close" if late else "; open a new room"
        )
        raise RoomError(f"{causes_text(causes)}: {count}{hope}", causes)
    if missing:
        sitting.tell(f"{causes_text(causes)}; {count}")
    return content, theirs


@dataclass(frozen=True)
class Signed:
    """A file that lies where the release of a room may lie, who has signed it, and whether these are enough."""

    content: bytes
    names: tuple[str, ...]
    enough: bool


def most_signed_release(mailbox: Mailbox, seats: Roster) -> Signed | None:
    """The file that most holders of a session have signed; None if there is none.

    One holder alone can put something where a release might be; nobody else signs it. So do none but who can sign.
    """
    found = list(_signed_release_files(mailbox, seats))
    return max(found, key=lambda signed: len(signed.names), default=None)


def _signed_release_files(mailbox: Mailbox, seats: Roster) -> Iterator[Signed]:
    everybody = [party.name for party in seats.parties]
    for place in mailbox.names(""):
        if place.split("/")[1:] != [RELEASE, signed_messages.ANYBODY]:
            continue
        with suppress(RoomError):  # it is of nobody in this session
            message = signed_messages.verify_message(mailbox.get(place) or b"", place, seats)
            content = release_file_of_message(message)
            digest = hashlib.sha256(content).hexdigest()
            names = [
                n
                for n, own in _signed_release_digests(mailbox, seats, message.stage, everybody).items()
                if own == digest
            ]
            yield Signed(content, tuple(names), len(names) >= seats.threshold)


def signed_release(mailbox: Mailbox, seats: Roster) -> tuple[bytes, Release]:
    """The file in a room that enough holders have signed: as many as a sum needs (B13)."""
    signed = most_signed_release(mailbox, seats)
    if signed is None:
        raise RoomError(f"there is no release in {mailbox.name}")
    if not signed.enough:
        raise RoomError(
            f"the release in {mailbox.name} is signed by {holder_names_text(signed.names)}: "
            f"{len(signed.names)} of {len(seats.parties)} holders, and {seats.threshold} must"
        )
    return signed.content, load_signed_release(signed.content)


def _signed_release_digests(mailbox: Mailbox, seats: Roster, stage: int, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of the file that each of them has signed; what is no signature of its holder is none."""
    digests = {}
    for name in names:
        content = mailbox.get(place := signed_messages.message_place(stage, SIGNED, name))
        if content is not None:
            with suppress(RoomError):
                digests[name] = str(signed_messages.verify_message(content, place, seats, 4096).body.get("sha256"))
    return digests


def _same_release(mine: Release, theirs: Release) -> bool:
    """Whether two releases are one: blocks to the last bit, all else but for the last digits of figures."""
    if mine.blocks.keys() != theirs.blocks.keys():
        return False
    if any(not np.array_equal(mine.blocks[name], theirs.blocks[name]) for name in mine.blocks):
        return False
    return are_near(mine.to_dict(), theirs.to_dict())


def _release_file_bytes(release: Release) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of the release's file."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "joint.rado.parquet"
        release.save(place)
        return np.frombuffer(place.read_bytes(), dtype=np.uint8)


def release_file_of_message(message: signed_messages.Message) -> bytes:
    """The file that a holder wrote for all."""
    return message.arrays["file"].tobytes() if "file" in message.arrays else b""


def load_signed_release(content: bytes) -> Release:
    """The release of a file, checked as any file is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "joint.rado.parquet"
        place.write_bytes(content)
        try:
            return load(place)
        except ReleaseError as error:
            raise RoomError(f"the release in the room cannot be used: {str(error).replace(str(place), 'it')}") from None


def write_signed_release(output: str | os.PathLike[str] | None, content: bytes) -> None:
    """Write a file whole or not at all, if a place for it was named."""
    if output is not None:
        with atomic_write(Path(output)) as draft:
            draft.write_bytes(content)
