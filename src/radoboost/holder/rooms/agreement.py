"""What the holders of a room agree on before anything is computed: columns, bounds, classes, mechanism, their number.

Whoever opens a room puts the agreement into its mailbox, where each holder reads it.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, RadoError, ReleaseError, RoomError, reason
from radoboost.holder.declared_bounds import whose_rows_warning
from radoboost.holder.feature_maps import Columns
from radoboost.holder.mechanisms import MECHANISMS, Mechanism
from radoboost.holder.mechanisms.record_level import check_declared, record_features
from radoboost.holder.request import CraftRequest, as_mechanism
from radoboost.holder.rooms.mailbox import AGREEMENT
from radoboost.holder.rooms.roster import Roster, check_number_of_holders, most_holders_lost
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.privacy import Event
from radoboost.release.composition import ENDING, Receipt, read_receipt
from radoboost.release.release import epsilon_as_json
from radoboost.tables.labels import check_classes
from radoboost.tables.person_ids import Person
from radoboost.tables.schema import Declaration, Schema

PLACE = AGREEMENT  # the name of its message
VERSION = 1
MOST_BYTES = 16 * 2**20
EXACT_SUMS = (
    "some sums have no noise, so all holders must stay to the end, and no second room of this kind should have others"
)
NOTHING = "it promises nothing about records: there is no epsilon (--epsilon), so no noise is added"
_FORMS: Mapping[str, tuple[type, ...]] = {
    "schema": (Mapping,), "mechanism": (str,), "parameters": (Mapping,), "parties": (int,), "tolerate": (int,),
    "columns": (str, Mapping), "n_rados": (int,), "nonce": (str,),
}  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """What is agreed on, as data: with it, and its table, a holder needs to be asked nothing more.

    `schema` is the JSON data of one. `mechanism` is one by its name, with its `parameters`; `columns` says which
    columns a release has, as for `craft`. Noise is enough for up to `tolerate` of the `parties` who are lost or put
    together what they know; how many may be lost at all is `most_lost` of both. `nonce` makes each room another one.
    """

    schema: Mapping[str, Any]
    mechanism: str
    parameters: Mapping[str, Any]
    parties: int
    tolerate: int
    columns: Columns
    n_rados: int
    nonce: str
    version: int = VERSION

    def to_bytes(self) -> bytes:
        """The one text of this agreement; columns keep their order."""
        entry = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        try:
            return json.dumps(entry, indent=1, ensure_ascii=False, allow_nan=False, default=_plain_json_value).encode()
        except (TypeError, ValueError):
            raise ArgumentError("what is agreed on must be numbers and texts, for it is written as JSON") from None

    @classmethod
    def from_bytes(cls, content: bytes) -> "Agreement":
        """The agreement of a text, refused unless it is written as `to_bytes` writes it, by this version."""
        try:
            entry: Any = json.loads(content) if len(content) <= MOST_BYTES else None
            if isinstance(entry, dict) and entry.get("version") != VERSION:
                raise RoomError(
                    f"the agreement of the room has version {entry.get('version')!r}, and this version of radoboost "
                    f"knows {VERSION}; all holders need the same one"
                )
            agreement = cls(**entry)
            sound = agreement.to_bytes() == content
        except (ValueError, TypeError, LookupError, RecursionError):
            sound = False
        if not sound:
            raise RoomError("the agreement of the room is damaged, or none; ask whoever opened the room for a new one")
        return agreement

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.to_bytes()).digest()

    @property
    def needs_all(self) -> bool:
        """Whether no holder may be lost: some sums have no noise, and those over fewer holders would tell its own."""
        return bool(getattr(self.protection, "exact_in_rooms", False))

    @property
    def most_lost(self) -> int:
        """How many holders may be lost on the way."""
        return 0 if self.needs_all else most_holders_lost(self.parties, self.tolerate)

    @cached_property
    def protection(self) -> Mechanism:
        """The mechanism, refused where it is not one for rooms."""
        check_mechanism_for_rooms(self.mechanism)
        values = {name: _read_agreed_parameter(name, value) for name, value in self.parameters.items()}
        return MECHANISMS[self.mechanism](**values)

    @cached_property
    def declared(self) -> Schema:
        """The schema that all agreed on."""
        return Schema.from_dict(self.schema)

    def asked(self) -> CraftRequest:
        """What a holder asks `craft` for; its coins have a key of its own."""
        asked = CraftRequest.of(self.declared, self.protection, columns=self.columns)
        return replace(asked, n_rados=self.n_rados, noise_shares=self.parties)

    def check(self) -> CraftRequest:
        """The order, if a release can be made so; refused by whoever opens a room, and by each who joins."""
        self._check_forms()
        check_number_of_holders(self.parties, self.tolerate)
        asked = self.asked()
        mechanism = asked.mechanism
        if not mechanism.private:
            if not asked.schema.undecided():
                asked.refuse_private()
            # Nothing is promised, so one holder may have looked at its table for the schema.
            # How wide columns are that a word asks for is the mechanism's to say.
            columns = "linear" if isinstance(asked.columns, str) else asked.columns
            check_declared(replace(asked, schema=asked.schema.as_declared(), columns=columns))
        if asked.n_rados and getattr(mechanism, "default_rados", None) == 0:
            raise ArgumentError(
                f"{self.mechanism} makes no rados, and those drawn from its release would differ at each holder; leave "
                "n_rados out (-n), and draw some later with draw_rados"
            )
        mechanism.check(asked)
        return asked

    def _check_forms(self) -> None:
        """Refuse what is no text where a text is needed, and so on: a stranger may have written the agreement."""
        for name, kinds in _FORMS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise ArgumentError(
                    f"{name} is {value!r:.60} in the agreement, which is of another kind; open a new room"
                )
        if any(not isinstance(value, str | int | float) for value in self.declared.classes or ()):
            raise ArgumentError("the classes of the agreement must be texts or numbers; open a new room")
        if not re.fullmatch("[0-9a-f]{32}", self.nonce):
            raise ArgumentError("the agreement has no random number that tells rooms apart; open the room anew")

    @property
    def advice(self) -> str | None:
        """What to know where records are protected, and several may be of one person."""
        asked = self.asked()
        said = getattr(asked.mechanism, "unit", None) if asked.mechanism.private else "record"
        return whose_rows_warning(asked.schema.ids, asked.person, said)

    def as_text(self) -> list[str]:
        """What is agreed on, as lines for people."""
        asked = self.asked()
        names, label, classes = record_features(asked) or (), asked.label, asked.classes or ()
        shown = {
            field.name: value
            for field in dataclasses.fields(self.protection)  # type: ignore[arg-type]
            if (value := getattr(self.protection, field.name)) != field.default
            and not isinstance(value, Person)
            and (field.name != "bounds_share" or asked.searched(names))
        }
        given = ", ".join(f"{name} {value}" for name, value in shown.items())
        whose = (
            ""
            if asked.person is None
            else f", persons by {asked.person!r}, at most {asked.max_rows:,} rows of each at each holder: one who is "
            "at several counts as several persons"
        )
        lost = self.most_lost
        many = self.tolerate > 1
        gone = f"{'are' if many else 'is'} lost or " if lost else ""
        private = self.protection.private
        telling = "tell what they know" if many else "tells what it knows"
        enough = f"; noise is enough for {self.tolerate} who {gone}{telling}"
        return [
            f"{self.parties} holders, of whom {lost or 'none'} may be lost on the way{enough if private else ''}",
            *([EXACT_SUMS] if self.needs_all else []),
            f"mechanism {self.mechanism}{f' ({given})' if given else ''}{whose}",
            *([] if private else [NOTHING]),
            *([] if self.advice is None else [self.advice]),
            f"{len(names):,} column{'' if len(names) == 1 else 's'} as declared"
            + ("" if self.columns == "auto" else f", taken as {self.columns!r}")
            + (f"; {self.n_rados:,} rados" if self.n_rados else ""),
            f"{'labels beside the table' if label is None else f'label {label!r}'}, "
            f"classes {', '.join(map(repr, classes))}",
        ]


def mechanisms_for_rooms() -> list[str]:
    return [name for name, kind in MECHANISMS.items() if getattr(kind, "in_rooms", False)]


def check_mechanism_for_rooms(name: str) -> None:
    """Refuse a mechanism that does not work in rooms, by its name."""
    names = mechanisms_for_rooms()
    if name not in names:
        raise ArgumentError(
            f"in a room sums of all holders are taken, and noise is added to these; the mechanism {name} is not made "
            f"so: take one of {', '.join(names)}"
        )


def make_agreement(
    schema: Declaration = None,
    mechanism: Mechanism | str | None = None,
    *,
    parties: int,
    tolerate: int = 1,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    columns: Columns = "auto",
    n_rados: int | None = None,
) -> Agreement:
    """An agreement for a new room, refused where no release could be made by it; the arguments are those of `craft`."""
    check_number_of_holders(parties, tolerate)
    protection: Any = as_mechanism(mechanism)
    if getattr(protection, "scale", "bounds") not in ("auto", "bounds"):
        raise ArgumentError("a room scales columns by their bounds; leave scale out")
    if hasattr(protection, "scale"):
        protection = replace(protection, scale="bounds")
    asked = CraftRequest.of(schema, protection, label=label, classes=classes, n_rados=n_rados, columns=columns)
    if asked.classes is None:
        raise ArgumentError(
            "a room needs the classes declared, for no holder sees the labels of others: classes=(negative, positive), "
            "or --classes NEG,POS"
        )
    agreed = tuple(map(_agreed_value_as_json, check_classes(asked.classes)))
    agreement = Agreement(
        schema=replace(_agreed_columns(asked), classes=agreed).to_dict(),
        mechanism=protection.name,
        parameters={
            field.name: _parameter_as_json(getattr(protection, field.name)) for field in dataclasses.fields(protection)
        },
        parties=parties,
        tolerate=tolerate,
        columns=columns,
        n_rados=asked.n_rados,
        nonce=secrets.token_hex(16),
    )
    agreement = Agreement.from_bytes(agreement.to_bytes())
    agreement.check()
    return agreement


def _agreed_columns(asked: CraftRequest) -> Schema:
    """The schema for all holders: columns that are used, ids, and names for columns that go by their places."""
    schema = asked.schema
    if schema.raw:
        # Of columns that are left out, those of ids alone: they are why holders are told whose rows count.
        return schema.only([name for name in schema.columns if name in (*schema.used, *schema.ids)], ())
    if asked.all_private:
        raise ArgumentError(
            "a room needs its columns declared, for tables may differ: give bounds with the word private for each "
            "column that is to be searched, or a schema"
        )
    limits = asked.limits
    if isinstance(limits, tuple):
        asked = replace(asked, found={f"x{k}": pair for k, pair in enumerate(limits)})
    names = record_features(asked)
    if not names:
        raise ArgumentError("a room needs its columns and their bounds declared: give bounds, or a schema")
    return replace(schema, numbers={name: asked.limits[name] for name in names}, use=None, drop=())


def _agreed_value_as_json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _parameter_as_json(value: Any) -> Any:
    """A parameter of a mechanism; JSON has no infinity, so there is a word for it, and a person is an object."""
    if isinstance(value, Person):
        return dataclasses.asdict(value)
    return epsilon_as_json(value) if isinstance(value, float) else value


def _read_agreed_parameter(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and name == "unit":
        return Person(**value)
    return math.inf if value == epsilon_as_json(math.inf) else value


def _plain_json_value(value: Any) -> Any:
    """Numbers of NumPy as those of Python, and what is no JSON refused."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def read_agreement(content: bytes | None, room: str) -> Agreement:
    """The agreement in a mailbox, if it is one by which a release can be made."""
    if content is None:
        raise RoomError(f"there is no agreement in {room}; open the room first: rado room open")
    agreement = Agreement.from_bytes(content)
    try:
        agreement.check()
        agreement.as_text()
    except RadoError as error:
        raise RoomError(f"the agreement of {room} cannot be used: {error}") from None
    except Exception:  # it is a stranger's text until it was checked
        raise RoomError(
            f"the agreement of {room} cannot be used: something in it has another form than it must; "
            "ask whoever opened the room for a new one"
        ) from None
    return agreement


class Notes:
    """What an identity notes before a session begins: a small file that stays, whatever comes of the session.

    It is on disk before there is any key of noise and before any sum is sent. From then on the holder refuses to join
    a room of this agreement, even if the mailbox shows nothing else (B3 of docs/proofs/secure-sums.md). The file is the
    receipt of a room that ended without a release. Notes lie beside the file of the identity, and not in a ledger: what
    must not happen twice is a session of this key. Those of an identity without a file lie in the user's configuration.
    """

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
        members = _member_keys(seats)
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
                    receipt = _read_room_note(place)
                    if receipt.about.get("key") == key:
                        yield receipt

    def write(self, seats: Roster, event: Event) -> None:
        """Note that this session begins; it is on disk when this returns, or a `RoomError` says why not."""
        about = {
            "agreement": self._agreement.digest.hex(),
            "key": self._identity.party.public_key.hex(),
            "members": _member_keys(seats),
            "exact": self._agreement.needs_all,
            "noted": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        content = Receipt(session_id_of_roster(seats), event, about).to_bytes()
        self.check()
        try:
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_note_once(self.place, content)
        except FileExistsError:
            raise self._before(self.place) from None
        except OSError as error:
            raise RoomError(
                f"cannot note in {self.place.parent} that {self._identity.party.name} takes part ({reason(error)}), "
                "and without that nothing is computed; make the folder writable, or load the identity from a file "
                "beside which there is space, and join again"
            ) from None
        self.written = True


def session_id_of_roster(seats: Roster) -> str:
    """The id of a session, and of the release that comes out of it."""
    return seats.agreement.hex()[:32]


def write_session_notes(notes: Notes, seats: Roster, planned: Event | None) -> Callable[[Event | None], None]:
    """What notes a session once: `planned` is all that it will cost, or else what is booked first, all at once."""

    def note(booked: Event | None) -> None:
        if not notes.written:
            event = planned or booked
            assert event is not None, "a mechanism books what it spends before sums are sent"
            notes.write(seats, event)

    return note


def _member_keys(seats: Roster) -> list[str]:
    return sorted(party.public_key.hex() for party in seats.parties)


def _read_room_note(place: Path) -> Receipt:
    try:
        return read_receipt(place)
    except ReleaseError as error:
        raise RoomError(f"a note of an earlier room cannot be read: {error}; restore it from a copy") from None


def _write_note_once(place: Path, content: bytes) -> None:
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
        _sync_notes_folder(place.parent)
        _sync_notes_folder(place.parent.parent)
    except BaseException:  # nothing begins then, so that it may be tried again
        for left in (draft, place):
            with suppress(OSError):
                left.unlink(missing_ok=True)
        raise


def _sync_notes_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some drives cannot
            os.fsync(number)
    finally:
        os.close(number)
