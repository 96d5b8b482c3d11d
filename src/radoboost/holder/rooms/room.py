"""Open a room, join it with a table, fetch what came out of it.

Every holder computes the whole release itself, from totals that all see. The first of them puts the file into the
mailbox; each of the others compares it with its own, and signs its digest. So all end with the same bytes.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError, RadoError, RoomError
from radoboost.holder.craft import check_for_room, craft_in_room, note_release_digest, planned_event, warn_of_persons
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.feature_maps import Columns
from radoboost.holder.mechanisms import Mechanism
from radoboost.holder.request import Compute
from radoboost.holder.rooms import abort_causes, handshake
from radoboost.holder.rooms.abort_notices import AbortNotices, announce_abort
from radoboost.holder.rooms.agreement import (
    PLACE,
    Agreement,
    Notes,
    make_agreement,
    read_agreement,
    session_id_of_roster,
    write_session_notes,
)
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.participant import Participant
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import MASKED
from radoboost.holder.rooms.signed_messages import ANYBODY, Identity, verify_message
from radoboost.holder.rooms.signed_release import (
    compare_and_sign_release,
    most_signed_release,
    signed_release,
    write_signed_release,
)
from radoboost.holder.rooms.versions import differing_versions_text
from radoboost.holder.row_counts import Where
from radoboost.holder.table_check import show_check_before_room
from radoboost.privacy import Composed, Event, epsilon_at
from radoboost.privacy.ledger import Ledger, as_ledger
from radoboost.release.release import Release, rounded_up_text
from radoboost.tables.schema import Declaration

Room = Mailbox | str | os.PathLike[str]


def open_room(
    room: Room,
    schema: Declaration = None,
    mechanism: Mechanism | str | None = None,
    *,
    parties: int,
    tolerate: int = 1,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    columns: Columns = "auto",
    n_rados: int | None = None,
    trust_network: bool = False,
    token: str = "",
) -> Agreement:
    """Open a room for several holders, who will make one release together; what they agree on lies in it from then on.

    Parameters
    ----------
    room : path of a folder that all can write, address https://HOST:PORT/ROOM, or Mailbox
        Where the holders leave messages for each other. It is trusted with nothing.
    schema : as for `craft`
        The columns and their bounds, from public knowledge; no holder's table decides anything. Its `rows` are those of
        all holders together. A person is protected at one holder; where records are protected and the schema has a
        column of ids, a `PersonWarning` says so, here and as each one joins.
    mechanism, columns, n_rados : as for `craft`
        Mechanisms whose noise is added to sums: `Moments`, `NoisyRados`, and `Plain()`, which promises nothing.
    parties, tolerate : int
        How many holders there are, three at least, and how many who are lost, or put together what they know, there is
        noise enough for: 1 by default. How many may be lost before the room stops follows from both, and can be fewer,
        for a sum is opened by more than two thirds: of 3 none, of 4 or 5 one, of 9 two.
    label, classes : as for `craft`
        Classes must be declared.
    trust_network : bool
        Use an address without encryption, beyond this machine.
    token : str
        What the server at an address asks for before it opens a room: `rado room serve` prints it.

    Examples
    --------
    >>> import radoboost as rb
    >>> from radoboost.holder.rooms.mailbox import MemoryMailbox
    >>> agreement = rb.open_room(MemoryMailbox(), {"age": (0, 120)}, rb.Moments(epsilon=1.0), parties=5,
    ...                          label="ill", classes=("no", "yes"))
    >>> agreement.as_text()[0]
    '5 holders, of whom 1 may be lost on the way; noise is enough for 1 who is lost or tells what it knows'
    """
    agreement = make_agreement(
        schema, mechanism, parties=parties, tolerate=tolerate, label=label, classes=classes, columns=columns,
        n_rados=n_rados,
    )  # fmt: skip
    warn_of_persons(agreement.check())
    mailbox = _mailbox_of_room(room, make=True, trust_network=trust_network, token=token)
    if not mailbox.put(PLACE, agreement.to_bytes()):
        raise RoomError(f"{mailbox.name} has an agreement already, and each room has one; choose another place")
    return agreement


def join_room(
    room: Room,
    table: Any,
    y: Any = None,
    *,
    confirm: handshake.Confirm,
    name: str | None = None,
    identity: Identity | str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    counts: Where = "terminal",
    wait: float = 3600.0,
    patience: float = 120.0,
    compute: Compute = Compute(),  # noqa: B008 - it is frozen
    other_members: bool = False,
    progress: bool = False,
    stop: threading.Event | None = None,
    look: Callable[[Agreement], None] | None = None,
    own_rows: Callable[[int, int], None] | None = None,
) -> Release:
    """Join a room with a table, and make one release with all others: nobody sees another's rows or sums.

    Everything but where the table is was agreed on when the room was opened. Before anything is computed this holder
    notes in a file beside its identity that it takes part; from then on it refuses to join this room again. If the room
    ends without a release, that file is a receipt of what it may have cost: give it to `craft` in `compose`, or to
    `rado account`. An identity in no file keeps notes at `radoboost/rooms` in the user's configuration.

    Parameters
    ----------
    room : as for `open_room`
        Where the messages lie.
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
    ledger, counts, compute, progress : as for `craft`
        This holder's own; a holder computes on one machine. Its `trust_network` is about the room: use an address
        without encryption, beyond this machine. What was
        booked stays booked, also if the room has to stop. Counts are shown before this holder greets the others, too:
        what becomes of its rows by what is agreed on.
    wait, patience : float
        How many seconds to wait for all to join; and, once they have, for those who are late in a round: the room then
        goes on without them.
    other_members : bool
        Take part though some sums have no noise, and an earlier room of this kind had other members: the difference of
        both tells the exact sums of whoever is in one of them alone.
    stop : threading.Event, optional
        Ends the sitting when it is set.
    look : callable (agreement), optional
        Is shown what was agreed on, before this holder greets the others; whatever it raises ends the joining.
    own_rows : callable (contribute, rows), optional
        Is shown how many of this holder's rows contribute, of how many, before it greets the others; whatever it raises
        ends the joining, and nobody else sees that. Only a person should decide by it: leave it out where nobody is
        there. A table that can be read only once is not counted.

    Examples
    --------
    >>> import radoboost as rb
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from radoboost.holder.rooms.signed_messages import Identity
    >>> from radoboost.holder.rooms.mailbox import MemoryMailbox
    >>> room = MemoryMailbox()
    >>> agreement = rb.open_room(room, {"x0": (0, 9)}, classes=(0, 1), parties=3, n_rados=4)
    >>> def hospital(name):
    ...     identity = Identity.create(name)
    ...     return rb.join_room(room, [[1.0], [5.0]], [0, 1], identity=identity, confirm=lambda code, parties: True)
    >>> with ThreadPoolExecutor(3) as threads:
    ...     releases = list(threads.map(hospital, ["east", "north", "west"]))
    >>> releases[0].n_examples, len({release.digest for release in releases})
    (6, 1)
    """
    own, books = _identity_in_room(identity, name), as_ledger(ledger)
    compute = replace(compute, engine=_engine_for_room(compute.engine))
    compute.machine()  # refused before the others wait
    mailbox = _mailbox_of_room(room, trust_network=compute.trust_network)
    agreement = read_agreement(mailbox.get(PLACE), mailbox.name)
    label = agreement.declared.label
    if (y is None) != (label is not None):
        what = f"the label is the column {label!r}; leave y out" if label else "no label column; give y"
        raise ArgumentError(f"the holders of this room agreed on {what}")
    asked = agreement.check()
    mechanism = asked.mechanism
    notes = Notes(own, agreement)
    notes.check()
    if look is not None:
        look(agreement)
    warn_of_persons(asked)
    check_for_room(table, y, asked, books, counts, output)
    shown = counts if mechanism.private else None
    show_check_before_room(table, y, asked, shown, progress=progress, ask=own_rows)
    tell = _progress_teller_of_room(progress)
    known = (lambda seats: None) if other_members else notes.check_members
    seats = handshake.join_handshake(mailbox, agreement, own, confirm, wait, stop, tell, known)
    asked = replace(asked, one_label=session_id_of_roster(seats))
    spent = _Spent(mechanism, notes, books, write_session_notes(notes, seats, planned_event(asked)))
    sitting = Participant(mailbox, seats, own, patience=patience, stop=stop, tell=tell, note=spent.note)
    title = session_id_of_roster(seats)
    nonce = seats.party(own.party.name).nonce
    with (
        spent.said("nothing was written"),
        announce_abort(mailbox, seats, own),
        handshake.announce_leaving(mailbox, agreement, own, nonce, unless=lambda: notes.written),
    ):
        own_part = craft_in_room(
            table, y, asked, sitting, sitting.gathering, name=title, ledger=books, compute=compute, counts=counts,
            progress=progress,
        )  # fmt: skip
        content, release = compare_and_sign_release(mailbox, seats, own, sitting, own_part)
    with spent.said("the release is in the room: fetch it with rado room close"):
        write_signed_release(output, content)
    if books is not None:
        assert release.digest is not None
        note_release_digest(books, title, release.digest)
    return release


def close_room(
    room: Room,
    *,
    output: str | os.PathLike[str] | None = None,
    code: str | None = None,
    trust_network: bool = False,
) -> Release:
    """Fetch the release of a room, for anyone: it must be signed by as many holders as a sum needs.

    Whose signatures these are follows from the keys in the room: compare the fingerprints in the statement, or give the
    `code` that the holders have. `output` is where to write the file.

    >>> from radoboost.holder.rooms.mailbox import MemoryMailbox
    >>> close_room(MemoryMailbox())
    Traceback (most recent call last):
    radoboost.errors.RoomError: there is no agreement in memory; open the room first: rado room open
    """
    mailbox = _mailbox_of_room(room, trust_network=trust_network)
    agreement = read_agreement(mailbox.get(PLACE), mailbox.name)
    seats = handshake.roster_of_seats_taken(mailbox, agreement, code)
    try:
        content, release = signed_release(mailbox, seats)
    except RoomError as error:
        raise RoomError(f"{error}; {standing_of_room(mailbox, seats).what_now()}") from None
    write_signed_release(output, content)
    return release


class _Spent:
    """What a session has spent so far, to be said wherever it ends without a file."""

    def __init__(
        self, mechanism: Mechanism, notes: Notes, books: Ledger | None, note: Callable[[Event | None], None]
    ) -> None:
        self._mechanism, self._notes, self._books, self._note = mechanism, notes, books, note
        self._events: list[Event] = []

    def note(self, event: Event | None) -> None:
        """Note that the session begins; what is booked was booked by now."""
        if event is not None:
            self._events.append(event)
        self._note(event)

    @contextmanager
    def said(self, outcome: str) -> Iterator[None]:
        """Say in an error, or on Ctrl-C, what stays booked and noted, and what the `outcome` is."""
        try:
            yield
        except BaseException as error:
            parts = list(self._as_text(outcome))
            if parts and isinstance(error, RadoError | KeyboardInterrupt):
                error.args = ("; ".join([*map(str, error.args), *parts]),)
            elif parts:
                error.add_note("; ".join(parts))
            raise

    def _as_text(self, outcome: str) -> Iterator[str]:
        delta = getattr(self._mechanism, "delta", None)
        if self._books is not None and self._events and delta is not None:
            epsilon = rounded_up_text(epsilon_at(Composed(tuple(self._events)), delta), 4)
            yield f"epsilon {epsilon} stays booked in {self._books.path}"
        if self._notes.written or self._events:
            yield outcome
        if self._notes.written:
            yield f"what this room may have cost is noted in {self._notes.place}; count it: rado account, or --compose"


# ---- what a caller gave


def _mailbox_of_room(room: Room, *, make: bool = False, trust_network: bool = False, token: str = "") -> Mailbox:
    if isinstance(room, str | os.PathLike):
        from radoboost.holder.rooms.mailbox import mailbox_at

        return mailbox_at(room, make=make, trust_network=trust_network, token=token)
    return room


def _identity_in_room(identity: Identity | str | os.PathLike[str] | None, name: str | None) -> Identity:
    if isinstance(identity, Identity):
        if name not in (None, identity.party.name):
            raise ArgumentError(f"the identity is that of {identity.party.name!r}, and the name is {name!r}; give one")
        handshake.check_holder_name(identity.party.name)
        return identity
    if name is None:
        raise ArgumentError("say what this holder is called in the room: name='north' (--as NAME)")
    return Identity.load(handshake.check_holder_name(name), None if identity is None else Path(identity))


def _engine_for_room(engine: str | Engine) -> str | Engine:
    """The engine, if it is one and runs here; "auto" chooses for each pass."""
    return "auto" if engine == "auto" else get_engine(engine)


def _progress_teller_of_room(progress: bool) -> Callable[[str], None]:
    """What says on stderr how far a room is."""

    def tell(line: str) -> None:
        if progress:
            print(f"rado: {line}", file=sys.stderr)

    return tell


@dataclass(frozen=True)
class Standing:
    """A session of a room: who has confirmed its code, who has stopped, and why it had to end, if it did.

    `stopped` has whoever was the reason first. `left_out` are those who are not in the last sum. `signed` are those
    who signed the release, where there is one, and `is_released` says that they are enough.
    """

    seats: Roster
    ready: tuple[str, ...]
    stopped: tuple[str, ...]
    causes: tuple[abort_causes.Cause, ...]
    versions: str | None
    left_out: tuple[str, ...]
    stage: int
    signed: tuple[str, ...]
    is_released: bool

    @property
    def has_ended(self) -> bool:
        """Whether it is over without a release."""
        unready = set(self.stopped) - set(self.ready)
        return not self.is_released and (len(self.stopped) > self.seats.most_lost or bool(unready))

    def why(self) -> str:
        """Why it has ended, in a clause."""
        return self.versions or abort_causes.causes_text(self.causes)

    def what_now(self) -> str:
        """What becomes of its release, and what to do, in a clause."""
        if self.is_released:
            return "fetch it with rado room close"
        if self.has_ended:
            again = "open a new room" if self.stage else "join again, all of you, or open a new room"
            return f"there will be none, for {self.why()}: {again}"
        missing = [party.name for party in self.seats.parties if party.name not in self.signed]
        if self.signed:
            names = abort_causes.holder_names_text(missing)
            return f"wait for {names}; a holder who was lost cannot sign, and then only a new room helps"
        return "its holders are still at work, or were cut off; see rado room show"


def standing_of_room(mailbox: Mailbox, seats: Roster, ready: Sequence[str] | None = None) -> Standing:
    """How far a session is; `ready` are those who have confirmed its code, all if it is None."""
    names = [party.name for party in seats.parties]
    ready = names if ready is None else ready
    stops = AbortNotices(mailbox, seats)
    stopped = stops.among(names)

    def judged(cause: abort_causes.Cause, by: str) -> abort_causes.Cause | None:
        """What one says of another, as it looks from outside."""
        if cause.what == abort_causes.UNCONFIRMED:
            return cause if cause.name not in ready else None
        return replace(cause, by=by) if cause.what == abort_causes.SILENT and cause.name in stopped else cause

    causes = abort_causes.first_causes(
        [
            *(
                abort_causes.Cause(name, abort_causes.UNCONFIRMED)
                for name in names
                if stops.by_itself(name) and name not in ready
            ),
            *(abort_causes.Cause(name, abort_causes.STOPPED) for name in names if stops.by_itself(name)),
            *stops.causes([name for name in names if name in stopped and not stops.by_itself(name)], judged),
        ]
    )
    first = [cause.name for cause in causes if cause.name in stopped]
    signed, left_out = most_signed_release(mailbox, seats), _holders_left_out_of_last_sum(mailbox, seats)
    firsts = {place.partition("/")[0] for place in mailbox.names("")}
    return Standing(
        seats=seats,
        ready=tuple(sorted(ready)),
        stopped=(*first, *sorted(stopped - set(first))),
        causes=tuple(cause for cause in causes if cause.what != abort_causes.LEFT and cause.name not in left_out)
        or causes,
        versions=differing_versions_text(seats.parties),
        left_out=left_out,
        stage=max((int(first) for first in firsts if first.isdecimal()), default=handshake.BEFORE),
        signed=() if signed is None else signed.names,
        is_released=signed is not None and signed.enough,
    )


def _holders_left_out_of_last_sum(mailbox: Mailbox, seats: Roster) -> tuple[str, ...]:
    """Those whose numbers are in the last sum no longer, by the list that ends it."""
    for place in reversed(mailbox.names("")):
        if place.split("/")[1:] == [f"{MASKED}-list", ANYBODY]:
            with suppress(RoomError):
                present = verify_message(mailbox.get(place) or b"", place, seats).body.get("in")
                if isinstance(present, dict):
                    return tuple(party.name for party in seats.parties if party.name not in present)
    return ()
