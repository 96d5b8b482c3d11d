"""What a holder notes before a session begins: a small file that stays, whatever comes of the session.

It is written beside the booking, and on disk before there is any key of noise and before any sum is sent. From then on
the holder refuses to join a room of this agreement, even if the mailbox shows nothing but the agreement (B3 of
docs/proofs/secure-sums.md). The same file is the receipt of a room that ended without a release.

Notes lie beside the file of the identity, and not in a ledger: what must not happen twice is a session of this key,
whichever ledger is named the next time, or none. Those of an identity without a file lie in the user's configuration.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from radoboost.errors import ReleaseError, RoomError, reason
from radoboost.holder.rooms.agreement import Agreement
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.privacy import Event
from radoboost.release.receipts import ENDING, Receipt, read_receipt


class Notes:
    """The notes of an identity about one agreement, and about earlier ones."""

    def __init__(self, identity: Identity, agreement: Agreement) -> None:
        self._identity, self._agreement = identity, agreement
        key = identity.party.public_key
        name = hashlib.sha256(b"radoboost/room/note/" + agreement.digest + key).hexdigest()[:32]
        self.place = identity.notes / f"{name}{ENDING}"
        self.written = False

    def check(self) -> None:
        """Refuse to join a room of this agreement if this identity has been in a session of it."""
        for folder in self._identity.all_notes:
            if os.path.lexists(place := folder / self.place.name):
                raise self._before(place)

    def _before(self, place: Path) -> RoomError:
        return RoomError(
            f"{self._identity.party.name} was in this room before, and nobody comes back: its keys are gone, and what "
            f"it may have cost is noted in {place}; open a new room"
        )

    def check_members(self, seats: Roster) -> None:
        """Refuse exact sums with other holders than in an earlier room of this kind: both tell what differs."""
        if not self._agreement.needs_all:
            return
        members = _members(seats)
        for receipt in self._earlier():
            if receipt.about.get("exact") and receipt.about.get("members") != members:
                raise RoomError(
                    f"{self._identity.party.name} was in another room whose sums have no noise, with other members "
                    f"(session {receipt.id}): the difference of both tells the exact sums of whoever is in one of them "
                    "alone; if the tables have no people in common, or that does no harm, say so: other_members=True "
                    "(--other-members)"
                )

    def _earlier(self) -> Iterator[Receipt]:
        """What this identity noted before, as far as it can be read."""
        key = self._identity.party.public_key.hex()
        for folder in self._identity.all_notes:
            for place in sorted(folder.glob(f"*{ENDING}")):
                if place.stat().st_size:  # else nothing had begun
                    receipt = _readable(place)
                    if receipt.about.get("key") == key:
                        yield receipt

    def write(self, seats: Roster, event: Event) -> None:
        """Note that this session begins; it is on disk when this returns, or a `RoomError` says why not."""
        about = {
            "agreement": self._agreement.digest.hex(),
            "key": self._identity.party.public_key.hex(),
            "members": _members(seats),
            "exact": self._agreement.needs_all,
            "noted": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        content = Receipt(session_id(seats), event, about).to_bytes()
        self.check()
        try:
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_once(self.place, content)
        except FileExistsError:
            raise self._before(self.place) from None
        except OSError as error:
            raise RoomError(
                f"cannot note in {self.place.parent} that {self._identity.party.name} takes part ({reason(error)}), "
                "and without that nothing is computed; make the folder writable, or load the identity from a file "
                "beside which there is space, and join again"
            ) from None
        self.written = True


def session_id(seats: Roster) -> str:
    """The id of a session, and of the release that comes out of it."""
    return seats.agreement.hex()[:32]


def session_notes(notes: Notes, seats: Roster, planned: Event | None) -> Callable[[Event | None], None]:
    """What notes a session once: `planned` is all that it will cost, or else what is booked first, all at once."""

    def note(booked: Event | None) -> None:
        if not notes.written:
            event = planned or booked
            assert event is not None, "a mechanism books what it spends before sums are sent"
            notes.write(seats, event)

    return note


def _members(seats: Roster) -> list[str]:
    return sorted(party.public_key.hex() for party in seats.parties)


def _readable(place: Path) -> Receipt:
    try:
        return read_receipt(place)
    except ReleaseError as error:
        raise RoomError(f"a note of an earlier room cannot be read: {error}; restore it from a copy") from None


def _write_once(place: Path, content: bytes) -> None:
    """A file that nobody else can read, whole, on disk, and never written twice; FileExistsError if it is there."""
    claim = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # an empty one refuses to join as well
    os.close(claim)
    draft = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
        _sync(place.parent)
        _sync(place.parent.parent)
    except BaseException:  # nothing begins then, so that it may be tried again
        for left in (draft, place):
            with suppress(OSError):
                left.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some drives cannot
            os.fsync(number)
    finally:
        os.close(number)
