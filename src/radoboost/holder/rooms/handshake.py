"""Who is in a room: each holder greets, people compare one code, and all say that they agree.

A greeting has a holder's name, its public key, a random number that it drew for this joining, the digest of the
agreement that it read, and the versions of its program. Once all are there, and have one version, agreement, keys and
numbers together have one code, which people compare by telephone: it differs as soon as one byte of the agreement, one
name, one key or one number does, so that no two sessions have the same one. Only then does each holder sign that it
takes part.

A holder whose joining ended before anything was computed may join again: its next greeting, with a number of its own,
lies beside the first, and only the last one counts.
"""

import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, cast

from radoboost.errors import ArgumentError, RadoError, RoomError
from radoboost.holder.rooms import signed_messages
from radoboost.holder.rooms.abort_causes import (
    GAVE_UP,
    UNCONFIRMED,
    Cause,
    bearable_loss_text,
    causes_text,
    first_causes,
    holder_names_text,
    read_abort_causes,
    wrong_message_error,
)
from radoboost.holder.rooms.abort_notices import AbortNotices, announce_abort, announce_on_error, wait_for_message
from radoboost.holder.rooms.agreement import Agreement
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.roster import Party, Roster
from radoboost.holder.rooms.versions import check_versions, differing_versions_text, versions_of_holder

BEFORE = 0  # the stage of greetings; sums follow
HELLO, READY, GONE = "hello", "ready", "gone"
NONCE_BYTES = 16  # of the random number of a greeting
Confirm = Callable[[str, Sequence[Party]], bool] | str
_SHORT_BYTES = 4096  # of a message before the first sum
_VERSION_LETTERS = 80
_NOTHING_SPENT = (
    "nothing was computed, and nothing is spent: find out why, and join again, all of you, or open a new room"
)
_OWN_KEY = "each holder needs one of its own: rado room identity FILE, and --identity FILE"
_CODE_BITS = 200
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # without letters that are taken for others
_TAKEN_FOR = str.maketrans("ilo", "110")
_PARTY = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_holder_name(name: Any) -> str:
    """A holder's name in a room, which is part of names of messages."""
    if not isinstance(name, str) or not _PARTY.fullmatch(name) or name == signed_messages.ANYBODY:
        raise ArgumentError(
            f"a holder is called by up to 64 letters, digits, - and _, such as north-clinic, and not "
            f"{signed_messages.ANYBODY!r}; the name is {name!r}"
        )
    return name


def greeting_message(agreement: Agreement, identity: signed_messages.Identity, nonce: bytes | None = None) -> bytes:
    """The first message of a holder: its key and a fresh random number, signed, with the digest of what it read."""
    return signed_messages.sign_message(
        identity, agreement.digest, BEFORE, HELLO, _greeting_body(agreement, identity, nonce or new_greeting_nonce())
    )


def new_greeting_nonce() -> bytes:
    """A random number for one greeting, from the operating system."""
    return secrets.token_bytes(NONCE_BYTES)


def _greeting_body(agreement: Agreement, identity: signed_messages.Identity, nonce: bytes) -> dict[str, Any]:
    key = identity.party.public_key.hex()
    return {"public_key": key, "nonce": nonce.hex(), "versions": versions_of_holder(agreement)}


def read_greeting(content: bytes, place: str, digest: bytes) -> Party:
    """Who greeted at `place`, about the agreement of this digest; another one is refused, by the holder's name."""
    holder = place.rpartition("/")[2]
    try:
        if len(content) > _SHORT_BYTES:
            raise ValueError
        first, second, *_ = content.split(b"\n")
        about, body = bytes.fromhex(json.loads(first)["agreement"]), json.loads(second)
        key, nonce = bytes.fromhex(body["public_key"]), bytes.fromhex(body["nonce"])
        versions = body.get("versions", {})  # programs before there were any did not say
        if len(key) != 32 or len(about) != 32 or len(nonce) != NONCE_BYTES:
            raise ValueError
        if not all(isinstance(text, str) and len(text) <= _VERSION_LETTERS for text in versions.values()):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RoomError(
            f"the greeting of {holder} is damaged, or none: take {place} out of the room, and join again, all of you; "
            "or open a new room"
        ) from None
    if about != digest:
        raise RoomError(f"{holder} has read another agreement than the one that lies here; open a new room")
    party = Party(check_holder_name(holder), key, nonce, tuple(sorted(versions.items())))
    signed_messages.verify_message(content, place, early_signers(digest, [party]), _SHORT_BYTES)
    return party


class _Signers(NamedTuple):
    agreement: bytes
    parties: tuple[Party, ...]


def early_signers(digest: bytes, parties: Sequence[Party]) -> Roster:
    """Who may sign a message about an agreement of this digest, before there are seats."""
    return cast(Roster, _Signers(digest, tuple(parties)))  # messages ask for no more


def make_roster(agreement: Agreement, parties: Sequence[Party]) -> Roster:
    """The seats of all who greeted: their digest depends on each byte of the agreement, each name, key and number."""
    roster = sorted(parties, key=lambda party: party.name)
    _refuse_shared_keys(roster)
    entries = [[party.name, party.public_key.hex(), party.nonce.hex()] for party in roster]
    text = json.dumps(entries, separators=(",", ":"))
    digest = hashlib.sha256(b"radoboost/room/" + agreement.digest + text.encode()).digest()
    return Roster(digest, tuple(roster), agreement.tolerate, agreement.needs_all)


def _refuse_shared_keys(parties: Sequence[Party]) -> None:
    """Refuse one key under several names."""
    keys = [party.public_key for party in parties]
    twice = [party.name for party in parties if keys.count(party.public_key) > 1]
    if twice:
        raise RoomError(f"{' and '.join(twice)} have one key, and {_OWN_KEY}; then open a new room")


def verification_code(seats: Roster) -> str:
    """The code of a room, for people to compare by telephone: 200 bits, in eight groups of letters and digits.

    A mailbox that shows each holder other keys needs two rooms with one code, and may try both: 2**100 attempts. None
    of the letters i, l, o and u is used, which sound or look like others.
    """
    number = int.from_bytes(seats.agreement[: _CODE_BITS // 8])
    letters = "".join(_LETTERS[number >> shift & 31] for shift in range(_CODE_BITS - 5, -1, -5))
    return " ".join(letters[k : k + 5] for k in range(0, len(letters), 5))


def place_of_greeting(name: str) -> str:
    """Where the greeting of a holder lies."""
    return signed_messages.message_place(BEFORE, HELLO, name)


def parties_who_greeted(mailbox: Mailbox, agreement: Agreement, lenient: bool = False) -> list[Party]:
    """Who has joined so far, by name; refused where that is more than the agreement has seats for."""
    parties = _read_greetings(mailbox, agreement, lenient)
    if len(parties) > agreement.parties:
        raise RoomError(
            f"{len(parties)} have joined {mailbox.name}, which is for {agreement.parties}: "
            f"{', '.join(party.name for party in parties)}; find out who should not, and open a new room"
        )
    return parties


def _read_greetings(mailbox: Mailbox, agreement: Agreement, lenient: bool = False) -> list[Party]:
    """All who greeted, each as it did last; a greeting that is none is refused, or, where `lenient`, left alone."""
    parties = []
    for place in mailbox.names(f"{BEFORE:04d}/{HELLO}/"):
        try:
            party = _last_greeting_of(mailbox, agreement, place.rpartition("/")[2])
            if party is not None:
                parties.append(party)
        except RadoError:
            if not lenient:
                raise
    return parties


def has_greeted_again(mailbox: Mailbox, agreement: Agreement, seats: Roster) -> bool:
    """Whether one of these has greeted anew since they took their seats."""
    last = {party.name: party.nonce for party in _read_greetings(mailbox, agreement, lenient=True)}
    return any(last.get(party.name, party.nonce) != party.nonce for party in seats.parties)


def stray_greetings(mailbox: Mailbox, agreement: Agreement) -> list[str]:
    """The places of greetings that are none: nobody joins until they are taken out."""
    found = []
    for place in mailbox.names(f"{BEFORE:04d}/{HELLO}/"):
        try:
            _last_greeting_of(mailbox, agreement, place.rpartition("/")[2])
        except RadoError:
            found.append(place)
    return found


def _last_greeting_of(mailbox: Mailbox, agreement: Agreement, name: str) -> Party | None:
    """A holder by the last of its greetings, all of which have the key of the first."""
    last: Party | None = None
    for place, content in signed_messages.messages_of_holder(mailbox, BEFORE, HELLO, name):
        party = read_greeting(content, place, agreement.digest)
        if last is not None and party != last:
            raise RoomError(f"{name} has greeted with two keys; find out who did, and open a new room")
        last = party
    return last


def parties_who_left(mailbox: Mailbox, agreement: Agreement, parties: Sequence[Party]) -> list[Party]:
    """Those whose greetings count no more: their joining has ended, before anything was computed."""
    stale = {
        str(nonce)
        for party in parties
        for body in _leaving_messages(mailbox, agreement, party)
        for nonce in (body.get("nonce"), *(body["stale"] if isinstance(body.get("stale"), list) else ()))
    }
    return [party for party in parties if party.nonce.hex() in stale]


def _leaving_messages(mailbox: Mailbox, agreement: Agreement, party: Party) -> Iterator[Mapping[str, Any]]:
    """What a holder said each time that its joining had ended."""
    own = early_signers(agreement.digest, [party])
    for place, content in signed_messages.messages_of_holder(mailbox, BEFORE, GONE, party.name):
        with suppress(RoomError):  # what is not right is nobody's word
            yield signed_messages.verify_message(content, place, own, _most_ready_bytes(agreement)).body


def _first_who_left(mailbox: Mailbox, agreement: Agreement, gone: Sequence[Party]) -> tuple[Cause, ...]:
    """Of those who have gone the first: who did not go because another of them had."""
    names = {party.name for party in gone}
    first = [
        party.name
        for party in gone
        if not any(
            read_abort_causes(body.get("because"), names)
            for body in _leaving_messages(mailbox, agreement, party)
            if body.get("nonce") == party.nonce.hex()
        )
    ]
    return tuple(Cause(name, GAVE_UP) for name in first or sorted(names))


def ready_rosters(mailbox: Mailbox, agreement: Agreement) -> list[tuple[Roster, set[str]]]:
    """Each roster that somebody in it signed that it is ready for, and who has.

    A stranger who greets, at any time, is in none of those that holders are ready for, and so does no harm.
    """
    known = {party.name: party for party in _read_greetings(mailbox, agreement, lenient=True)}
    rosters: dict[bytes, tuple[Roster, set[str]]] = {}
    for name, party in known.items():
        for place, content in signed_messages.messages_of_holder(mailbox, BEFORE, READY, name):
            with suppress(RoomError):  # what is not right is nobody's word
                body = signed_messages.verify_message(
                    content, place, early_signers(agreement.digest, [party]), _most_ready_bytes(agreement)
                ).body
                nonces = _nonces_of_ready_message(body)
                if name not in nonces or not nonces.keys() <= known.keys() or len(nonces) != agreement.parties:
                    continue
                roster = [Party(one, known[one].public_key, nonce) for one, nonce in nonces.items()]
                seats = make_roster(agreement, roster)
                if seats.agreement.hex() == body.get("seats"):
                    rosters.setdefault(seats.agreement, (seats, set()))[1].add(name)
    return list(rosters.values())


def ready_message(seats: Roster) -> dict[str, Any]:
    """What a holder signs once it has confirmed the code: the session, and whom it saw, by which greetings."""
    return {
        "seats": seats.agreement.hex(),
        "names": [party.name for party in seats.parties],
        "nonces": [party.nonce.hex() for party in seats.parties],
    }


def _nonces_of_ready_message(body: Mapping[str, Any]) -> dict[str, bytes]:
    """The number of each holder's greeting in what `ready_message` wrote; nothing if it is of another form."""
    names, nonces = body.get("names"), body.get("nonces")
    if not isinstance(names, list) or not isinstance(nonces, list) or len(names) != len(nonces):
        return {}
    if not all(isinstance(one, str) for one in (*names, *nonces)) or len(set(names)) != len(names):
        return {}
    try:
        return {name: bytes.fromhex(nonce) for name, nonce in zip(names, nonces, strict=True)}
    except ValueError:
        return {}


def roster_of_seats_taken(mailbox: Mailbox, agreement: Agreement, code: str | None = None) -> Roster:
    rosters = [seats for seats, ready in ready_rosters(mailbox, agreement) if len(ready) == agreement.parties]
    if code is not None and rosters:
        rosters = [seats for seats in rosters if is_verification_code(code, verification_code(seats))] or rosters[:1]
        check_verification_code(code, verification_code(rosters[0]), "nothing was written")
    if len(rosters) == 1:
        return rosters[0]
    if rosters:
        raise RoomError(
            f"{len(rosters)} groups have taken seats in {mailbox.name}, each with its own code; give the code that a "
            "holder told you (--code)"
        )
    parties = _read_greetings(mailbox, agreement, lenient=True)
    if len(parties) < agreement.parties:
        raise RoomError(
            f"{len(parties)} of {agreement.parties} holders have joined {mailbox.name} so far"
            f"{''.join(f', {party.name}' for party in parties)}; the release comes when all have"
        )
    digest = make_roster(agreement, parties).agreement if len(parties) == agreement.parties else b""
    ready = {name for seats, those in ready_rosters(mailbox, agreement) if seats.agreement == digest for name in those}
    missing = differing_versions_text(parties) or causes_text(
        [Cause(party.name, UNCONFIRMED) for party in parties if party.name not in ready]
    )
    raise RoomError(f"there is no release in {mailbox.name}, for {missing}; see rado room show")


def _most_ready_bytes(agreement: Agreement) -> int:
    return _SHORT_BYTES + 256 * agreement.parties  # it has all names, and the number of each, or what is said of each


def join_handshake(
    mailbox: Mailbox,
    agreement: Agreement,
    own: signed_messages.Identity,
    confirm: Confirm,
    wait: float,
    stop: threading.Event | None,
    tell: Callable[[str], None],
    check: Callable[[Roster], None] = lambda seats: None,
) -> Roster:
    """Greet, wait for all, let people compare the code, and wait until all have said that they agree.

    `check` may refuse the others, before the code is shown. Whoever ends here says that its greeting counts no more,
    and may join again.
    """
    name, nonce = own.party.name, new_greeting_nonce()
    for party in _read_greetings(
        mailbox, agreement, lenient=True
    ):  # before greeting, so that the room stays good for others
        if party.public_key == own.party.public_key and party.name != name:
            raise RoomError(f"{party.name} has joined this room with the key of {name}, and {_OWN_KEY}")
    before = mailbox.get(place_of_greeting(name))
    if before is not None and not _is_own_greeting(own, agreement, before):
        raise RoomError(f"somebody has joined this room as {name} already; take another name, or open a new room")
    taken: list[Party] = []
    with announce_leaving(mailbox, agreement, own, nonce, taken):
        signed_messages.put_message_again(
            mailbox, own, agreement.digest, BEFORE, HELLO, _greeting_body(agreement, own, nonce)
        )
        return _take_seat(mailbox, agreement, own, nonce, taken, confirm, wait, stop, tell, check)


def _is_own_greeting(own: signed_messages.Identity, agreement: Agreement, hello: bytes) -> bool:
    """Whether this holder greeted so, when it joined before."""
    try:
        return read_greeting(hello, place_of_greeting(own.party.name), agreement.digest) == own.party
    except RoomError:
        return False


@contextmanager
def announce_leaving(
    mailbox: Mailbox,
    agreement: Agreement,
    own: signed_messages.Identity,
    nonce: bytes,
    seats: Sequence[Party] = (),
    unless: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Say that a greeting counts no more, if what is done here ends by an error, or by Ctrl-C; `unless` it began sums.

    Nor do those of holders at these `seats` who did not confirm the code: who was killed cannot say it.
    """

    def tell(causes: tuple[Cause, ...]) -> None:
        if unless():
            return
        with suppress(Exception):
            silent = {cause.name for cause in causes if cause.what == UNCONFIRMED}
            body = {
                "nonce": nonce.hex(),
                "because": [cause.to_dict() for cause in causes],
                "stale": [party.nonce.hex() for party in seats if party.name in silent],
            }
            signed_messages.put_message_again(mailbox, own, agreement.digest, BEFORE, GONE, body)

    with announce_on_error(tell):
        yield


def _take_seat(
    mailbox: Mailbox,
    agreement: Agreement,
    own: signed_messages.Identity,
    nonce: bytes,
    taken: list[Party],
    confirm: Confirm,
    wait: float,
    stop: threading.Event | None,
    tell: Callable[[str], None],
    check: Callable[[Roster], None],
) -> Roster:
    """Wait for all who greet, as `join_handshake` says, once this holder has."""
    seen: list[Party] = []

    def all_here() -> list[Party] | None:
        parties = _read_greetings(mailbox, agreement)
        if len(parties) > agreement.parties:  # late strangers do not count, once somebody is ready
            rosters = [seats for seats, _ in ready_rosters(mailbox, agreement) if own.party in seats.parties]
            parties = list(rosters[0].parties) if len(rosters) == 1 else parties_who_greeted(mailbox, agreement)
        _refuse_shared_keys(parties)
        left = parties_who_left(mailbox, agreement, parties)
        here = [party for party in parties if party not in left]
        if here != seen:
            gave_up = [party.name for party in seen if party not in here]
            news = f"{holder_names_text(gave_up)} gave up and left; " if gave_up else ""
            names = ", ".join(party.name for party in here)
            tell(f"{news}{len(here)} of {agreement.parties} holders are here: {names}")
            if (line := differing_versions_text(here)) is not None:
                tell(f"{line}: so the room will not begin")
        seen[:] = here
        if len(parties) < agreement.parties:
            return None
        gone = [party.name for party in parties if party not in here]
        # Whoever has gone stopped the session of all these greetings, which then ends with its name, or comes again.
        return parties if not gone or AbortNotices(mailbox, make_roster(agreement, parties)).among(gone) else None

    parties = wait_for_message(all_here, wait, stop)
    if parties is None:
        raise _missing_holders_error(mailbox, agreement, wait)
    taken[:] = parties
    seats = make_roster(agreement, parties)
    if seats.party(own.party.name).nonce != nonce:
        raise RoomError(
            f"{own.party.name} has joined this room twice at once, with the same key; only one of the two may: end "
            "both, and join again"
        )
    with announce_abort(mailbox, seats, own):  # without this one's word nobody goes on
        check_versions(seats)
        check(seats)
        _check_code_confirmed(confirm, seats)
        signed_messages.put_message_again(mailbox, own, agreement.digest, BEFORE, READY, ready_message(seats))
        _wait_until_ready(mailbox, agreement, seats, wait, stop, tell)
    return seats


def _missing_holders_error(mailbox: Mailbox, agreement: Agreement, wait: float) -> RoomError:
    """Somebody never came; or all did, and one had given up before the last of them was here."""
    came = _read_greetings(mailbox, agreement, lenient=True)
    missing = agreement.parties - len(came)
    gone = parties_who_left(mailbox, agreement, came)
    causes = () if missing else _first_who_left(mailbox, agreement, gone)
    why = (
        f"only {holder_names_text(party.name for party in came)} came within {wait:,.0f} seconds, and of "
        f"{agreement.parties} holders {missing} {'is' if missing == 1 else 'are'} missing"
        if missing
        else f"{causes_text(causes)} before all were here"
    )
    return RoomError(
        f"{why}; nothing is spent: join again once all can, or wait longer (wait=SECONDS, or --wait)", causes
    )


def _check_code_confirmed(confirm: Confirm, seats: Roster) -> None:
    code = verification_code(seats)
    if isinstance(confirm, str):
        check_verification_code(confirm, code, "nothing was computed")
    elif not confirm(code, seats.parties):
        raise RoomError("the code was not confirmed, so this holder does not take part; nothing was computed")


def is_verification_code(given: str, code: str) -> bool:
    """Whether somebody wrote this code, in whatever way."""
    return "".join(given.replace("-", " ").split()).lower().translate(_TAKEN_FOR) == "".join(code.split())


def check_verification_code(given: str, code: str, stand: str) -> None:
    """Refuse any code but the room's, and say how things `stand`; spaces, dashes and capitals do not count."""
    if not is_verification_code(given, code):
        raise RoomError(
            f"the code of this room is {code}, and the one given is {given!r}: somebody sees another agreement or "
            f"other keys; do not go on, and find out who ({stand})"
        )


def _other_greetings(mailbox: Mailbox, agreement: Agreement, seats: Roster, theirs: Mapping[str, bytes]) -> list[str]:
    """Of the same holders with the same keys, those of whom another goes by another greeting; else nobody."""
    other = [party.name for party in seats.parties if theirs.get(party.name) != party.nonce]
    if len(theirs) != len(seats.parties):
        return []
    for name in other:
        said = signed_messages.messages_of_holder(mailbox, BEFORE, HELLO, name)
        if theirs.get(name) not in {read_greeting(content, place, agreement.digest).nonce for place, content in said}:
            return []
    return other


def _wait_until_ready(
    mailbox: Mailbox,
    agreement: Agreement,
    seats: Roster,
    wait: float,
    stop: threading.Event | None,
    tell: Callable[[str], None],
) -> None:
    """Wait until all have agreed to the same seats."""
    missing = [party.name for party in seats.parties]
    before, stops = early_signers(agreement.digest, seats.parties), AbortNotices(mailbox, seats)

    def all_ready() -> bool | None:
        gone = stops.among([party.name for party in seats.parties])  # first: whoever is ready says so before it stops
        for name in list(missing):
            bodies = [
                signed_messages.verify_message(content, place, before, _most_ready_bytes(agreement)).body
                for place, content in signed_messages.messages_of_holder(mailbox, BEFORE, READY, name)
            ]
            if not any(body.get("seats") == seats.agreement.hex() for body in bodies):
                # By an earlier greeting it was ready for an earlier session, and may yet be for this one.
                nonce, last = seats.party(name).nonce, _last_greeting_of(mailbox, agreement, name)
                if last is not None and last.nonce != nonce:
                    raise RoomError(
                        f"{name} has joined this room again since the code was compared, so that there is another one; "
                        "nothing was computed: join again, all of you, or open a new room"
                    )
                theirs = next(
                    (own for body in bodies if (own := _nonces_of_ready_message(body)).get(name, nonce) == nonce), None
                )
                if theirs is not None and (again := _other_greetings(mailbox, agreement, seats, theirs)):
                    raise RoomError(
                        f"{name} goes by an earlier greeting of {holder_names_text(again)}, so that there is another "
                        "code; nothing was computed: join again, all of you, or open a new room"
                    )
                if theirs is not None:
                    line = f"{name} sees other holders or keys in this room; compare codes, and open a new room"
                    raise wrong_message_error(line, name)
                continue
            missing.remove(name)
            if missing:
                tell(f"{name} is ready; waiting for {', '.join(missing)}")
        causes = stops.causes(sorted(gone), judged)
        refused = [name for name in missing if name in gone]
        if refused or len(gone) > seats.most_lost:
            causes = first_causes([*(Cause(name, UNCONFIRMED) for name in refused if stops.by_itself(name)), *causes])
            lost = "" if causes[0].what == UNCONFIRMED else f", and {bearable_loss_text(seats.most_lost)}"
            raise RoomError(f"{causes_text(causes)}{lost}; {_NOTHING_SPENT}", causes)
        return True if not missing else None

    def judged(cause: Cause, by: str) -> Cause | None:
        """What one who stopped says of another, as far as it looks so from here."""
        own = cause.what == UNCONFIRMED and cause.name in missing
        return cause if own and not stops.by_itself(cause.name) else None

    if wait_for_message(all_ready, wait, stop) is None:
        causes = [Cause(name, UNCONFIRMED) for name in missing]
        raise RoomError(f"{causes_text(causes)} within {wait:,.0f} seconds; {_NOTHING_SPENT}", causes)
