"""Who is in a room: each holder greets, people compare one code, and all say that they agree.

A greeting has a holder's name, its public key and the digest of the agreement that it read. Once all are there,
agreement and keys together have one code, which people compare by telephone: it differs as soon as one byte of the
agreement, one name or one key does. Only then does each holder sign that it takes part.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from radoboost.errors import ArgumentError, RadoError, RoomError
from radoboost.holder.room.agreement import Agreement
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.messages import ANYBODY, place_of, read, written
from radoboost.holder.room.parties import Party, Seats
from radoboost.holder.room.stops import STOP, Stops, telling_if_stopped
from radoboost.holder.room.waiting import waited

BEFORE = 0  # the stage of greetings; sums follow
HELLO, READY = "hello", "ready"
Confirm = Callable[[str, Sequence[Party]], bool] | str
_SHORT_BYTES = 4096  # of a message before the first sum
_OWN_KEY = "each holder needs one of its own: rado room identity FILE, and --identity FILE"
_CODE_BITS = 200
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # without letters that are taken for others
_TAKEN_FOR = str.maketrans("ilo", "110")
_PARTY = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_name(name: Any) -> str:
    """A holder's name in a room, which is part of names of messages."""
    if not isinstance(name, str) or not _PARTY.fullmatch(name) or name == ANYBODY:
        raise ArgumentError(
            f"a holder is called by up to 64 letters, digits, - and _, such as north-clinic, and not {ANYBODY!r}; "
            f"the name is {name!r}"
        )
    return name


def greeting(agreement: Agreement, identity: Identity) -> bytes:
    """The first message of a holder: its key, signed by itself, with the digest of the agreement that it read."""
    return written(identity, agreement.digest, BEFORE, HELLO, {"public_key": identity.party.public_key.hex()})


def greeted(content: bytes, place: str, digest: bytes) -> Party:
    """Who greeted at `place`, about the agreement of this digest; another one is refused, by the holder's name."""
    holder = place.rpartition("/")[2]
    try:
        if len(content) > _SHORT_BYTES:
            raise ValueError
        first, second, *_ = content.split(b"\n")
        about, key = bytes.fromhex(json.loads(first)["agreement"]), bytes.fromhex(json.loads(second)["public_key"])
        if len(key) != 32 or len(about) != 32:
            raise ValueError
    except (ValueError, LookupError, TypeError, RecursionError):
        raise RoomError(f"the greeting of {holder} is damaged, or none; {holder} must join a new room") from None
    if about != digest:
        raise RoomError(f"{holder} has read another agreement than the one that lies here; open a new room")
    party = Party(check_name(holder), key)
    read(content, place, signers(digest, [party]), _SHORT_BYTES)
    return party


class _Signers(NamedTuple):
    agreement: bytes
    parties: tuple[Party, ...]


def signers(digest: bytes, parties: Sequence[Party]) -> Seats:
    """Who may sign a message about an agreement of this digest, before there are seats."""
    return cast(Seats, _Signers(digest, tuple(parties)))  # messages ask for no more


def seated(agreement: Agreement, parties: Sequence[Party]) -> Seats:
    """The seats of all who greeted: their digest depends on each byte of the agreement, each name and each key."""
    roster = sorted(parties, key=lambda party: party.name)
    _check_keys(roster)
    text = json.dumps([[party.name, party.public_key.hex()] for party in roster], separators=(",", ":"))
    digest = hashlib.sha256(b"radoboost/room/" + agreement.digest + text.encode()).digest()
    return Seats(digest, tuple(roster), agreement.tolerate)


def _check_keys(parties: Sequence[Party]) -> None:
    """Refuse one key under several names."""
    keys = [party.public_key for party in parties]
    twice = [party.name for party in parties if keys.count(party.public_key) > 1]
    if twice:
        raise RoomError(f"{' and '.join(twice)} have one key, and {_OWN_KEY}; then open a new room")


def code_of(seats: Seats) -> str:
    """The code of a room, for people to compare by telephone: 200 bits, in eight groups of letters and digits.

    A mailbox that shows each holder other keys needs two rooms with one code, and may try both: 2**100 attempts. None
    of the letters i, l, o and u is used, which sound or look like others.
    """
    number = int.from_bytes(seats.agreement[: _CODE_BITS // 8])
    letters = "".join(_LETTERS[number >> shift & 31] for shift in range(_CODE_BITS - 5, -1, -5))
    return " ".join(letters[k : k + 5] for k in range(0, len(letters), 5))


def hello_place(name: str) -> str:
    """Where the greeting of a holder lies."""
    return place_of(BEFORE, HELLO, name)


def who_greeted(mailbox: Mailbox, agreement: Agreement) -> list[Party]:
    """Who has joined so far, by name; refused where that is more than the agreement has seats for."""
    parties = _greetings(mailbox, agreement)
    if len(parties) > agreement.parties:
        raise RoomError(
            f"{len(parties)} have joined {mailbox.name}, which is for {agreement.parties}: "
            f"{', '.join(party.name for party in parties)}; find out who should not, and open a new room"
        )
    return parties


def _greetings(mailbox: Mailbox, agreement: Agreement, lenient: bool = False) -> list[Party]:
    """All who greeted, by name; a greeting that is none is refused, or, where `lenient`, left alone."""
    parties = []
    for place in mailbox.names(f"{BEFORE:04d}/{HELLO}/"):
        try:
            content = mailbox.get(place)
            if content is not None:
                parties.append(greeted(content, place, agreement.digest))
        except RadoError:
            if not lenient:
                raise
    return parties


def ready_rosters(mailbox: Mailbox, agreement: Agreement) -> list[tuple[Seats, set[str]]]:
    """Each roster that somebody in it signed that it is ready for, and who has.

    A stranger who greets, at any time, is in none of those that holders are ready for, and so does no harm.
    """
    known = {party.name: party for party in _greetings(mailbox, agreement, lenient=True)}
    rosters: dict[bytes, tuple[Seats, set[str]]] = {}
    for name, party in known.items():
        place = place_of(BEFORE, READY, name)
        with suppress(RoomError):  # what is not right is nobody's word
            content = mailbox.get(place)
            if content is None:
                continue
            body = read(content, place, signers(agreement.digest, [party]), _ready_bytes(agreement)).body
            names = body.get("names")
            if not isinstance(names, list) or not all(isinstance(one, str) and one in known for one in names):
                continue
            if name not in names or len(set(names)) != len(names) or len(names) != agreement.parties:
                continue
            seats = seated(agreement, [known[one] for one in names])
            if seats.agreement.hex() == body.get("seats"):
                rosters.setdefault(seats.agreement, (seats, set()))[1].add(name)
    return list(rosters.values())


def taken_seats(mailbox: Mailbox, agreement: Agreement, code: str | None = None) -> Seats:
    rosters = [seats for seats, ready in ready_rosters(mailbox, agreement) if len(ready) == agreement.parties]
    if code is not None and rosters:
        rosters = [seats for seats in rosters if is_code(code, code_of(seats))] or rosters[:1]
        check_code(code, code_of(rosters[0]), "nothing was written")
    if len(rosters) == 1:
        return rosters[0]
    if rosters:
        raise RoomError(
            f"{len(rosters)} groups have taken seats in {mailbox.name}, each with its own code; give the code that a "
            "holder told you (--code)"
        )
    names = [party.name for party in _greetings(mailbox, agreement, lenient=True)]
    if len(names) < agreement.parties:
        raise RoomError(
            f"{len(names)} of {agreement.parties} holders have joined {mailbox.name} so far"
            f"{''.join(f', {name}' for name in names)}; the release comes when all have"
        )
    raise RoomError(f"not all of {', '.join(names)} have confirmed the code of {mailbox.name}; see rado room show")


def _ready_bytes(agreement: Agreement) -> int:
    return _SHORT_BYTES + 72 * agreement.parties  # it has all names


def take_seat(
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
    for party in _greetings(
        mailbox, agreement, lenient=True
    ):  # before greeting, so that the room stays good for others
        if party.public_key == own.party.public_key and party.name != name:
            raise RoomError(f"{party.name} has joined this room with the key of {name}, and {_OWN_KEY}")
    if not mailbox.put(hello_place(name), hello) and mailbox.get(hello_place(name)) != hello:
        raise RoomError(f"somebody has joined this room as {name} already; take another name, or open a new room")
    if any(mailbox.get(place_of(BEFORE, kind, name)) is not None for kind in (READY, STOP)):
        raise RoomError(f"{name} was in this room before, and nobody comes back: its keys are gone; open a new room")
    seen: list[Party] = []

    def all_here() -> list[Party] | None:
        parties = _greetings(mailbox, agreement)
        if len(parties) > agreement.parties:  # late strangers do not count, once somebody is ready
            rosters = [seats for seats, _ in ready_rosters(mailbox, agreement) if own.party in seats.parties]
            parties = list(rosters[0].parties) if len(rosters) == 1 else who_greeted(mailbox, agreement)
        _check_keys(parties)
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
            "holders; join again once the others can, or wait longer (wait=SECONDS, or --wait)"
        )
    seats = seated(agreement, parties)
    with telling_if_stopped(mailbox, seats, own):  # without this one's word nobody goes on
        _check_confirmed(confirm, seats)
    ready = written(
        own,
        agreement.digest,
        BEFORE,
        READY,
        {"seats": seats.agreement.hex(), "names": [party.name for party in seats.parties]},
    )
    if not mailbox.put(place_of(BEFORE, READY, name), ready):
        raise RoomError(f"{name} was in this room before, and nobody comes back: its keys are gone; open a new room")
    with telling_if_stopped(mailbox, seats, own):
        _wait_until_ready(mailbox, agreement, seats, wait, stop, tell)
    return seats


def _check_confirmed(confirm: Confirm, seats: Seats) -> None:
    code = code_of(seats)
    if isinstance(confirm, str):
        check_code(confirm, code, "nothing was computed")
    elif not confirm(code, seats.parties):
        raise RoomError("the code was not confirmed, so this holder does not take part; nothing was computed")


def is_code(given: str, code: str) -> bool:
    """Whether somebody wrote this code, in whatever way."""
    return "".join(given.replace("-", " ").split()).lower().translate(_TAKEN_FOR) == "".join(code.split())


def check_code(given: str, code: str, stand: str) -> None:
    """Refuse any code but the room's, and say how things `stand`; spaces, dashes and capitals do not count."""
    if not is_code(given, code):
        raise RoomError(
            f"the code of this room is {code}, and the one given is {given!r}: somebody sees another agreement or "
            f"other keys; do not go on, and find out who ({stand})"
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
    before, stops = signers(agreement.digest, seats.parties), Stops(mailbox, seats)

    def all_ready() -> bool | None:
        gone = stops.among([party.name for party in seats.parties])  # first: whoever is ready says so before it stops
        for name in list(missing):
            place = place_of(BEFORE, READY, name)
            content = mailbox.get(place)
            if content is None:
                continue
            if read(content, place, before, _ready_bytes(agreement)).body.get("seats") != seats.agreement.hex():
                raise RoomError(f"{name} sees other holders or keys in this room; compare codes, and open a new room")
            missing.remove(name)
            if missing:
                tell(f"{name} is ready; waiting for {', '.join(missing)}")
        if refused := [name for name in missing if name in gone]:
            raise RoomError(
                f"{' and '.join(refused)} did not confirm the code, and stopped; nothing was computed: find out why, "
                "and open a new room"
            )
        if len(gone) > seats.most_lost:
            raise RoomError(
                f"{', '.join(sorted(gone))} stopped, and the room can do without {seats.most_lost} holders at most; "
                "nothing was computed: open a new room"
            )
        return True if not missing else None

    if waited(all_ready, wait, stop) is None:
        raise RoomError(
            f"{', '.join(missing)} did not confirm the code within {wait:,.0f} seconds; nothing was computed: open a "
            "new room"
        )
