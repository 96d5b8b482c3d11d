"""What comes out of a room: one file, which every holder compares with its own release, and signs."""

import hashlib
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ReleaseError, RoomError
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.messages import ANYBODY, Message, place_of, read, written
from radoboost.holder.room.parties import Seats
from radoboost.holder.room.sitting import Sitting
from radoboost.release import Release, load, replacing

RELEASE, SIGNED = "release", "signed"
_CLOSE = 1e-9  # relative: what two machines may round otherwise in a figure


def signed_by_all(
    mailbox: Mailbox, seats: Seats, own: Identity, sitting: Sitting, release: Release
) -> tuple[bytes, Release]:
    """The file that one holder wrote for all, compared with this holder's own release, and signed by enough."""
    message = sitting.said(RELEASE, lambda: ({}, {"file": _content(release)}))
    content = file_of(message)
    theirs = loaded(content)
    if not _same(release, theirs):
        raise RoomError(
            f"the release that {message.sender} wrote is not the one that was computed here; do not use it, and open a "
            "new room"
        )
    body = {"sha256": hashlib.sha256(content).hexdigest()}
    mailbox.put(
        place_of(sitting.stage, SIGNED, own.party.name), written(own, seats.agreement, sitting.stage, SIGNED, body)
    )
    signed: set[str] = set()

    def all_signed() -> bool | None:
        signed.update(signatures(mailbox, seats, sitting.stage, sitting.present, content))
        missing = [name for name in sitting.present if name not in signed]
        return True if set(missing) <= sitting.stopped(missing) else None

    sitting.waited(all_signed)
    if len(signed) < seats.threshold:
        missing = [name for name in sitting.present if name not in signed]
        raise RoomError(
            f"{', '.join(missing)} did not sign the release in time; once they have, fetch it with rado room close"
        )
    return content, theirs


def signed_release(mailbox: Mailbox, seats: Seats) -> tuple[bytes, Release]:
    """The file in a room that enough holders have signed, and all who were there in the end.

    One holder alone can put something where a release might be; it is passed over, for nobody else signed it.
    """
    failure = RoomError(f"there is no release in {mailbox.name} yet; its holders are still at work, or had to stop")
    for place in mailbox.names(""):
        if place.split("/")[1:] != [RELEASE, ANYBODY]:
            continue
        try:
            return _signed_at(mailbox, seats, place)
        except RoomError as error:
            failure = error
    raise failure


def _signed_at(mailbox: Mailbox, seats: Seats, place: str) -> tuple[bytes, Release]:
    message = read(mailbox.get(place) or b"", place, seats)
    content = file_of(message)
    names = [party.name for party in seats.parties]
    signed = signatures(mailbox, seats, message.stage, names, content)
    if len(signed) >= seats.threshold:  # only then is it worth a look
        release = loaded(content)
        missing = [name for name in stayed(release) if name not in signed]
        if not missing:
            return content, release
    else:
        missing = [name for name in names if name not in signed]
    raise RoomError(
        f"the release in {mailbox.name} is not signed by {', '.join(missing)} yet: {len(signed)} of {len(names)} "
        f"signed, and all who were there in the end must, {seats.threshold} at least; wait for them, or open a new room"
    )


def signatures(mailbox: Mailbox, seats: Seats, stage: int, names: Sequence[str], content: bytes) -> list[str]:
    """Who has signed this file; whoever signed another one is named."""
    digest, signed = hashlib.sha256(content).hexdigest(), []
    for name in names:
        place = place_of(stage, SIGNED, name)
        signature = mailbox.get(place)
        if signature is None:
            continue
        if read(signature, place, seats, 4096).body.get("sha256") != digest:
            raise RoomError(f"{name} has signed another release; do not use this one, and open a new room")
        signed.append(name)
    return signed


def stayed(release: Release) -> list[str]:
    """The holders who were there to the end, by what the statement says."""
    parts = () if release.statement.holders is None else release.statement.holders.parts
    return [str(part.get("name")) for part in parts if part.get("until") is None]


def _same(mine: Release, theirs: Release) -> bool:
    """Whether two releases are one: blocks to the last bit, all else but for the last digits of figures."""
    if mine.blocks.keys() != theirs.blocks.keys():
        return False
    if any(not np.array_equal(mine.blocks[name], theirs.blocks[name]) for name in mine.blocks):
        return False
    return _near(mine.to_dict(), theirs.to_dict())


def _near(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        return mine.keys() == theirs.keys() and all(_near(mine[name], theirs[name]) for name in mine)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(_near, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=_CLOSE)
    return type(mine) is type(theirs) and bool(mine == theirs)


def _content(release: Release) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of the release's file."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "joint.rado.parquet"
        release.save(place)
        return np.frombuffer(place.read_bytes(), dtype=np.uint8)


def file_of(message: Message) -> bytes:
    """The file that a holder wrote for all."""
    return message.arrays["file"].tobytes() if "file" in message.arrays else b""


def loaded(content: bytes) -> Release:
    """The release of a file, checked as any file is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "joint.rado.parquet"
        place.write_bytes(content)
        try:
            return load(place)
        except ReleaseError as error:
            raise RoomError(f"the release in the room cannot be used: {str(error).replace(str(place), 'it')}") from None


def write_file(output: str | os.PathLike[str] | None, content: bytes) -> None:
    """Write a file whole or not at all, if a place for it was named."""
    if output is not None:
        with replacing(Path(output)) as draft:
            draft.write_bytes(content)
