"""Open a room, join it with a table, fetch what came out of it.

Every holder computes the whole release itself, from totals that all see. The first of them puts the file into the
mailbox; each of the others compares it with its own, and signs its digest. So all end with the same bytes.
"""

import hashlib
import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from radoboost.errors import ArgumentError, ReleaseError, RoomError
from radoboost.holder.counts import Where
from radoboost.holder.craft import craft_in_room, note_digest
from radoboost.holder.declared import Bounds
from radoboost.holder.room.agreement import (
    BEFORE,
    HELLO,
    PLACE,
    READY,
    Agreement,
    agree,
    check_name,
    code_of,
    greeted,
    greeting,
    hello_place,
    read_agreement,
    seated,
)
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.messages import Message, place_of, read, written
from radoboost.holder.room.parties import Party, Seats
from radoboost.holder.room.secure_sums import secure_sum
from radoboost.holder.room.sitting import Adding, Sitting, waited
from radoboost.privacy.ledger import Ledger, as_ledger
from radoboost.release import Release, load, replacing

Room = Mailbox | str | os.PathLike[str]
Confirm = Callable[[str, Sequence[Party]], bool] | str
RELEASE, SIGNED = "release", "signed"
_CLOSE = 1e-9  # relative: what two machines may round otherwise in a figure


def open_room(room: Room, schema: Bounds = None, *, trust_network: bool = False, **agreed: Any) -> Agreement:
    """Open a room for several holders, who will make one release together; what they agree on lies in it from then on.

    Parameters
    ----------
    room : path of a folder that all can write, address https://HOST:PORT/ROOM, or Mailbox
        Where the holders leave messages for each other. It is trusted with nothing.
    schema, bounds : as for `craft`
        The columns and their bounds, from public knowledge; no holder's table decides anything.
    parties, tolerate : int
        How many holders there are, three at least, and how many of them may be lost, or put together what they know,
        before noise falls below what is promised: 1 by default.
    mechanism, label, classes, features, drop, columns, n_rados, intercept, person, max_rows, rows
        As for `craft`; `rows` are those of all holders together. Classes must be declared.
    trust_network : bool
        Use an address without encryption, beyond this machine.

    Examples
    --------
    >>> import radoboost as rb
    >>> from radoboost.holder.room.mailbox import MemoryMailbox
    >>> agreement = rb.open_room(MemoryMailbox(), bounds={"age": (0, 120)}, label="ill", classes=("no", "yes"),
    ...                          parties=5, mechanism=rb.Moments(epsilon=1.0))
    >>> agreement.in_words()[0]
    '5 holders, of whom 1 may be lost or tell what it knows'
    """
    if "parties" not in agreed:
        raise ArgumentError("say how many holders there will be: parties=5 (--parties)")
    agreement = agree(schema, **agreed)
    mailbox = _mailbox(room, make=True, trust_network=trust_network)
    if not mailbox.put(PLACE, agreement.to_bytes()):
        raise RoomError(f"{mailbox.name} has an agreement already, and each room has one; choose another place")
    return agreement


def join_room(
    room: Room,
    table: Any,
    y: Any = None,
    *,
    confirm: Confirm,
    name: str | None = None,
    identity: Identity | str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    counts: Where = "terminal",
    wait: float = 3600.0,
    patience: float = 120.0,
    threads: int | None = None,
    trust_network: bool = False,
    progress: bool = False,
    stop: threading.Event | None = None,
    add: Adding = secure_sum,
) -> Release:
    """Join a room with a table, and make one release with all others: nobody sees another's rows or sums.

    Everything but where the table is was agreed on when the room was opened.

    Parameters
    ----------
    room : as for `open_room`
    table, y : as for `craft`
        This holder's rows; labels stand in the agreed column, or in `y` if no column was agreed on.
    confirm : callable (code, parties) -> bool, or str
        Whether all holders have the same code, and each of the others is who it says: compare both by telephone. A text
        is the code that the others have.
    name, identity : str and Identity, or the path of one
        Who this holder is in the room, and its key; by default the one at `radoboost/identity.pem` in the user's
        configuration.
    output : path, optional
        Where to write the file of the release: it has the same bytes at each holder.
    ledger, counts, threads, progress : as for `craft`
        This holder's own. What was booked stays booked, also if the room has to stop.
    wait, patience : float
        How many seconds to wait for all to join; and, once they have, for those who are late in a round: the room then
        goes on without them.
    trust_network : bool
        Use an address without encryption, beyond this machine.
    stop : threading.Event, optional
        Ends the sitting when it is set.
    add : callable
        How sums are taken; for rehearsals and tests.

    Examples
    --------
    >>> import radoboost as rb
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from radoboost.holder.room.identities import Identity
    >>> from radoboost.holder.room.mailbox import MemoryMailbox
    >>> room = MemoryMailbox()
    >>> agreement = rb.open_room(room, bounds={"x0": (0, 9)}, classes=(0, 1), parties=3, n_rados=4)
    >>> def hospital(name):
    ...     identity = Identity.create(name)
    ...     return rb.join_room(room, [[1.0], [5.0]], [0, 1], identity=identity, confirm=lambda code, parties: True)
    >>> with ThreadPoolExecutor(3) as threads:
    ...     releases = list(threads.map(hospital, ["east", "north", "west"]))
    >>> releases[0].n_examples, len({release.digest for release in releases})
    (6, 1)
    """
    own, books = _identity(identity, name), as_ledger(ledger)
    mailbox = _mailbox(room, trust_network=trust_network)
    agreement = read_agreement(mailbox.get(PLACE), mailbox.name)
    if (y is None) != (agreement.label is not None):
        what = (
            f"the label is the column {agreement.label!r}; leave y out"
            if agreement.label
            else "no label column; give y"
        )
        raise ArgumentError(f"the holders of this room agreed on {what}")
    seats = _seated(mailbox, agreement, own, confirm, wait, stop, _teller(progress))
    mechanism, asked = agreement.check()
    sitting = Sitting(mailbox, seats, own, patience=patience, add=add, stop=stop)
    title = seats.agreement.hex()[:32]
    own_part = craft_in_room(
        table, y, mechanism, asked, sitting, sitting.gathering, name=title, ledger=books, counts=counts,
        threads=threads, progress=progress,
    )  # fmt: skip
    content, release = _signed_by_all(mailbox, seats, own, sitting, own_part)
    _write(output, content)
    if books is not None:
        assert release.digest is not None
        note_digest(books, title, release.digest)
    return release


def close_room(
    room: Room,
    *,
    output: str | os.PathLike[str] | None = None,
    code: str | None = None,
    trust_network: bool = False,
) -> Release:
    """Fetch the release of a room, for anyone: it must be signed by enough holders, and by all who stayed to the end.

    Whose signatures these are follows from the keys in the room: compare the fingerprints in the statement, or give the
    `code` that the holders have. `output` is where to write the file.

    >>> from radoboost.holder.room.mailbox import MemoryMailbox
    >>> close_room(MemoryMailbox())
    Traceback (most recent call last):
    radoboost.errors.RoomError: there is no agreement in memory; open the room first: rado room open
    """
    mailbox = _mailbox(room, trust_network=trust_network)
    agreement = read_agreement(mailbox.get(PLACE), mailbox.name)
    parties = who_greeted(mailbox, agreement)
    if len(parties) < agreement.parties:
        raise RoomError(
            f"{len(parties)} of {agreement.parties} holders have joined {mailbox.name} so far"
            f"{''.join(f', {party.name}' for party in parties)}; the release comes when all have"
        )
    seats = seated(agreement, parties)
    if code is not None:
        _check_code(code, code_of(seats))
    places = [place for place in mailbox.names("") if place.split("/")[1:2] == [RELEASE]]
    if not places:
        raise RoomError(f"there is no release in {mailbox.name} yet; its holders are still at work, or had to stop")
    place = places[0]
    message = read(mailbox.get(place) or b"", place, seats)
    content = _file(message)
    present = [str(name) for name in message.body.get("present", ())]
    signatures = _signatures(mailbox, seats, message.stage, [party.name for party in parties], content)
    missing = [name for name in present if name not in signatures]
    if missing or len(signatures) < seats.threshold:
        raise RoomError(
            f"the release in {mailbox.name} is not signed by {', '.join(missing) or 'enough holders'} yet: "
            f"{len(signatures)} of {len(parties)} signed, and all who were there in the end must, {seats.threshold} at "
            "least; wait for them, or open a new room"
        )
    release = _loaded(content)
    _write(output, content)
    return release


def who_greeted(mailbox: Mailbox, agreement: Agreement) -> list[Party]:
    """Who has joined so far, by name; refused where that is more than the agreement has seats for."""
    parties = []
    for place in mailbox.names(f"{BEFORE:04d}/{HELLO}/"):
        content = mailbox.get(place)
        if content is not None:
            parties.append(greeted(content, place, agreement.digest))
    if len(parties) > agreement.parties:
        raise RoomError(
            f"{len(parties)} have joined {mailbox.name}, which is for {agreement.parties}: "
            f"{', '.join(party.name for party in parties)}; find out who should not, and open a new room"
        )
    return parties


# ---- before the first sum


def _seated(
    mailbox: Mailbox,
    agreement: Agreement,
    own: Identity,
    confirm: Confirm,
    wait: float,
    stop: threading.Event | None,
    tell: Callable[[str], None],
) -> Seats:
    """Greet, wait for all, let people compare the code, and wait until all have said that they agree."""
    name, hello = own.party.name, greeting(agreement, own)
    if not mailbox.put(hello_place(name), hello) and mailbox.get(hello_place(name)) != hello:
        raise RoomError(f"somebody has joined this room as {name} already; take another name, or open a new room")
    if mailbox.get(place_of(BEFORE, READY, name)) is not None:
        raise RoomError(f"{name} was in this room before, and nobody comes back: its keys are gone; open a new room")
    seen: list[Party] = []

    def all_here() -> list[Party] | None:
        parties = who_greeted(mailbox, agreement)
        if len(parties) > len(seen):
            seen[:] = parties
            tell(
                f"{len(parties)} of {agreement.parties} holders are here: {', '.join(party.name for party in parties)}"
            )
        return parties if len(parties) == agreement.parties else None

    parties = waited(all_here, wait, stop)
    if parties is None:
        raise RoomError(
            f"only {', '.join(party.name for party in seen)} came within {wait:,.0f} seconds, of {agreement.parties} "
            "holders; join again once the others can, or wait longer (wait=)"
        )
    seats = seated(agreement, parties)
    _check_confirmed(confirm, seats)
    ready = written(own, agreement.digest, BEFORE, READY, {"seats": seats.agreement.hex()})
    if not mailbox.put(place_of(BEFORE, READY, name), ready):
        raise RoomError(f"{name} was in this room before, and nobody comes back: its keys are gone; open a new room")
    _wait_until_ready(mailbox, agreement, seats, wait, stop, tell)
    return seats


def _check_confirmed(confirm: Confirm, seats: Seats) -> None:
    code = code_of(seats)
    if isinstance(confirm, str):
        _check_code(confirm, code)
    elif not confirm(code, seats.parties):
        raise RoomError("the code was not confirmed, so this holder does not take part; nothing was computed")


def _check_code(given: str, code: str) -> None:
    if "".join(given.split()).lower() != "".join(code.split()):
        raise RoomError(
            f"the code of this room is {code}, and the one given is {given!r}: somebody sees another agreement or other "
            "keys; do not go on, and find out who (nothing was computed)"
        )


def _wait_until_ready(
    mailbox: Mailbox,
    agreement: Agreement,
    seats: Seats,
    wait: float,
    stop: threading.Event | None,
    tell: Callable[[str], None],
) -> None:
    """Wait until all have agreed to the same seats."""
    missing = [party.name for party in seats.parties]
    before = cast(Seats, _Before(agreement.digest, seats.parties))

    def all_ready() -> bool | None:
        for name in list(missing):
            place = place_of(BEFORE, READY, name)
            content = mailbox.get(place)
            if content is None:
                continue
            if read(content, place, before, 4096).body.get("seats") != seats.agreement.hex():
                raise RoomError(f"{name} sees other holders or keys in this room; compare codes, and open a new room")
            missing.remove(name)
            if missing:
                tell(f"{name} is ready; waiting for {', '.join(missing)}")
        return True if not missing else None

    if waited(all_ready, wait, stop) is None:
        raise RoomError(
            f"{', '.join(missing)} did not confirm the code within {wait:,.0f} seconds; nothing was computed: open a "
            "new room"
        )


class _Before:
    """Who may sign before there are seats, about the agreement alone."""

    def __init__(self, agreement: bytes, parties: tuple[Party, ...]) -> None:
        self.agreement, self.parties = agreement, parties


# ---- after the last sum


def _signed_by_all(
    mailbox: Mailbox, seats: Seats, own: Identity, sitting: Sitting, release: Release
) -> tuple[bytes, Release]:
    """The file that one holder wrote for all, compared with this holder's own release, and signed by enough."""
    message = sitting.said(RELEASE, lambda: ({"present": list(sitting.present)}, {"file": _content(release)}))
    content = _file(message)
    theirs = _loaded(content)
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
        signed.update(_signatures(mailbox, seats, sitting.stage, sitting.present, content))
        return True if len(signed) == len(sitting.present) else None

    if sitting.waited(all_signed) is None and len(signed) < seats.threshold:
        missing = [name for name in sitting.present if name not in signed]
        raise RoomError(
            f"{', '.join(missing)} did not sign the release in time; once they have, fetch it with rado room close"
        )
    return content, theirs


def _signatures(mailbox: Mailbox, seats: Seats, stage: int, names: Sequence[str], content: bytes) -> list[str]:
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


def _file(message: Message) -> bytes:
    return message.arrays["file"].tobytes() if "file" in message.arrays else b""


def _loaded(content: bytes) -> Release:
    """The release of a file, checked as any file is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "joint.rado.parquet"
        place.write_bytes(content)
        try:
            return load(place)
        except ReleaseError as error:
            raise RoomError(f"the release in the room cannot be used: {str(error).replace(str(place), 'it')}") from None


def _write(output: str | os.PathLike[str] | None, content: bytes) -> None:
    if output is not None:
        with replacing(Path(output)) as draft:
            draft.write_bytes(content)


# ---- what a caller gave


def _mailbox(room: Room, *, make: bool = False, trust_network: bool = False) -> Mailbox:
    if isinstance(room, str | os.PathLike):
        from radoboost.holder.room.mailbox import mailbox_at

        return mailbox_at(room, make=make, trust_network=trust_network)
    return room


def _identity(identity: Identity | str | os.PathLike[str] | None, name: str | None) -> Identity:
    if isinstance(identity, Identity):
        if name not in (None, identity.party.name):
            raise ArgumentError(f"the identity is that of {identity.party.name!r}, and the name is {name!r}; give one")
        check_name(identity.party.name)
        return identity
    if name is None:
        raise ArgumentError("say what this holder is called in the room: name='north' (--as NAME)")
    return Identity.load(check_name(name), None if identity is None else Path(identity))


def _teller(progress: bool) -> Callable[[str], None]:
    """What says on stderr how far a room is."""

    def tell(line: str) -> None:
        if progress:
            print(f"rado: {line}", file=sys.stderr)

    return tell
