"""What several releases of one table amount to together.

A release that was composed with earlier ones keeps their events, so that a chain can be followed: C composed with B,
which was composed with A, counts all three. Releases are told apart by their id, which is random and made when a
release is crafted. The digest would not do: a release that was not saved yet has none, and the same release written
twice may have two. Releases from a seed have no id, and go by their digest.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isclose, isinf
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, ReleaseError, reason
from radoboost.privacy import (
    Composed,
    Event,
    NotPrivate,
    Relation,
    accountant_name,
    best_guess,
    convert_relation,
    epsilon_at,
    event_from_dict,
    event_to_dict,
    flatten,
    group_event,
)
from radoboost.privacy.events import OF_PERSONS
from radoboost.release.compatibility import PartyRelease
from radoboost.release.file_format import RADOS
from radoboost.release.kind import MOMENT_BLOCKS
from radoboost.release.parties import AT_SEVERAL, AT_TWO, AVERAGED, ONE_TABLE, Parties, PartyGuarantee, party_sentences
from radoboost.release.release import Release, Statement, epsilon_as_json, load, percent_up_text
from radoboost.release.statement_check import check_statement

# ---- Receipts of rooms: what a session may have cost a holder, noted before it began, whatever came of it.
#
# A release says itself what it cost. A room that ended on the way leaves none, though totals with noise may have been
# seen. Its receipt has the id that the release would have had, and the event of all of it. It is counted as a release
# is, each id once: so the receipt of a room that came to its release adds nothing to that.


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


HOLDS_IF = (
    "each epsilon was fixed before the first of these releases was seen; where a later one was chosen by looking at "
    "earlier ones, the total of a ledger that was set beforehand holds in its place; and these are all: private "
    "scores, and attempts that stopped after noisy counts, are in no release, and only a ledger counts them"
)
_AT_ONE = "; and each person is at one holder of every room among them"


def _holds_if(relation: Relation) -> str:
    return HOLDS_IF + (_AT_ONE if relation in OF_PERSONS else "")


@dataclass(frozen=True)
class EarlierRelease:
    """A release that was made before: its id, the digest of its file where it has one, and what was done."""

    id: str
    digest: str | None
    event: Event

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "digest": self.digest,
            "neighbours": _relation_of_event(self.event).value,
            "event": event_to_dict(self.event),
        }


def earlier_releases(releases: Iterable[Release | Receipt | str | os.PathLike[str]]) -> tuple[EarlierRelease, ...]:
    """All releases that these ones know of, themselves among them, each once; an incomplete chain is refused.

    Receipts of rooms that ended without a release count as releases do. Two releases of one id and different content
    are refused: one of them would not be counted.
    """
    known: dict[str, EarlierRelease] = {}
    files: dict[str, list[Release]] = {}
    for given in releases:
        release: Release | Receipt
        if isinstance(given, str | os.PathLike):
            release = read_receipt(given) if is_receipt(given) else load(given)
        else:
            release = given
        if isinstance(release, Receipt):
            _add_earlier_release(known, EarlierRelease(release.id, None, release.event), files)
            continue
        if not isinstance(release, Release):
            raise ArgumentError(
                f"compose needs releases or receipts, or paths of them; one is a {type(release).__name__}"
            )
        name = release.id or release.digest or f"unsaved {len(known)}"
        event = check_statement(release.statement)
        files.setdefault(name, []).append(release)
        _add_earlier_release(known, EarlierRelease(name, release.digest, event), files)
        composed = release.statement.composed
        for entry in () if composed is None else composed["releases"]:  # `check_statement` has counted them
            _add_earlier_release(known, _read_composed_entry(entry), files)
    return tuple(known.values())


def ids_composed_with(release: Release) -> set[str]:
    """The ids of a release and of all that it was composed with, which are of one table; none where it has no name."""
    unnamed = not (release.id or release.digest)
    return {earlier.id for earlier in earlier_releases([release])[unnamed:]}


def _add_earlier_release(
    known: dict[str, EarlierRelease], earlier: EarlierRelease, files: Mapping[str, Sequence[Release]]
) -> None:
    """Note a release, unless it is known; refused where it is another one under the same id."""
    before = known.setdefault(earlier.id, earlier)
    if not are_near(event_to_dict(before.event), event_to_dict(earlier.event)):
        raise ArgumentError(f"two releases have the id {earlier.id} and not the same event; do not trust them")
    same = files.get(earlier.id, ())
    digests = {digest for digest in (before.digest, earlier.digest, *(file.digest for file in same)) if digest}
    unread = digests - {file.digest for file in same}
    if (unread and len(digests) > 1) or not all(_releases_have_same_content(same[0], other) for other in same[1:]):
        raise ArgumentError(
            f"two files have the id {earlier.id} and not the same content, so that each is a release, and one of them "
            "would not be counted; do not trust them, and ask whoever made them which ones there are"
        )
    if before.digest is None:
        known[earlier.id] = earlier


def _releases_have_same_content(one: Release, other: Release) -> bool:
    """Whether two files have the same figures: rados that were drawn from released moments are no others."""
    names, others = (
        {name for name in each.blocks if name != RADOS or each.law not in MOMENT_BLOCKS} for each in (one, other)
    )
    return names == others and all(np.array_equal(one.blocks[name], other.blocks[name]) for name in names)


def are_near(one: Any, other: Any) -> bool:
    """Whether JSON data are the same but for the last digits of numbers, which another machine may round otherwise."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(are_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(are_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9)
    return type(one) is type(other) and bool(one == other)


def _read_composed_entry(entry: Any) -> EarlierRelease:
    try:
        digest = entry["digest"]
        earlier = EarlierRelease(
            str(entry["id"]), None if digest is None else str(digest), event_from_dict(entry["event"])
        )
        _relation_of_event(earlier.event)
    except (LookupError, TypeError):
        raise ArgumentError("a release does not say in full what it was composed with; do not trust it") from None
    return earlier


def _relation_of_event(event: Event) -> Relation:
    if event.relation is None:
        raise ArgumentError("an event of a release has no neighbour relation; do not trust it")
    return event.relation


def total_of_events(events: Sequence[Event], relation: Relation) -> tuple[Event, str | None]:
    """All events as one under a relation, and why it promises nothing where that is so."""
    try:
        together: Event = Composed(tuple(convert_relation(event, relation) for event in events))
    except ArgumentError as error:
        return NotPrivate(str(error), relation), str(error)
    return together, next((leaf.reason for leaf in flatten(together) if isinstance(leaf, NotPrivate)), None)


def compose_with_earlier(event: Event, earlier: Sequence[EarlierRelease], delta: float) -> dict[str, Any]:
    """What a release and earlier ones amount to together, under the relation of this one, for its statement."""
    relation = _relation_of_event(event)
    together, why = total_of_events([event, *(other.event for other in earlier)], relation)
    return {
        "earlier_releases": len(earlier),
        "neighbours": relation.value,
        "epsilon": epsilon_as_json(inf if why else epsilon_at(together, delta)),
        "delta": delta,
        **({} if why is None else {"why": why}),
        "holds_if": _holds_if(relation),
        "releases": [other.to_dict() for other in earlier],
    }


def account_for_releases(
    releases: Sequence[Release | str | os.PathLike[str]], delta: float, shown: Sequence[float] = ()
) -> dict[str, Any]:
    """What releases, and all that they were composed with, amount to, under the relation that all convert to."""
    all_of_them = earlier_releases(releases)
    events = [earlier.event for earlier in all_of_them]
    answers = [(relation, *total_of_events(events, relation)) for relation in Relation]
    first = _relation_of_event(events[0])
    # The strongest relation that all convert to; where there is none, that of the first, with the reason.
    relation, together, why = next(
        (answer for answer in answers if answer[2] is None),
        next(answer for answer in answers if answer[0] == first),
    )

    def epsilon(at: float) -> float | str:
        return epsilon_as_json(inf if why else epsilon_at(together, at))

    return {
        "neighbours": relation.value,
        "epsilon": epsilon(delta),
        "delta": delta,
        **({} if why is None else {"why": why}),
        "epsilon_at": [{"delta": other, "epsilon": epsilon(other)} for other in shown],
        "best_guess": 1.0 if why else best_guess(together),
        "accountant": "none" if why else accountant_name(together),
        "holds_if": _holds_if(relation),
        "releases": [earlier.to_dict() for earlier in all_of_them],
    }


# ---- What private releases of several holders promise together: who is at one holder is in that holder's release
# alone.
#
# Steps A1, A2, ... are those of docs/proofs/accounting.md. By A13 one record at one holder changes one release, and
# what it costs is what that release costs; of several, the costliest. One who is at several holders is in the releases
# of all of them, whose noise is independent: these compose. A release may be that of a room, in which the rows of
# several holders are in one sum: there one who is at two of them moves it twice. Releases of one table compose for
# everybody who is in it. That two are of one table can be seen where one was composed with the other, and where both
# are of rooms that had a holder in common; nobody can see it otherwise.


_TRUST = "several holders, each of whom sees its own table alone, and is trusted with it; of each: {each}"
_ONE = (
    "What is in one holder's table changes no releases but those that this holder made, alone or in a room, so that "
    "the promise for one who is at one holder is that of these, and here that of the costliest of {count}."
)
_GUESS = (
    "An adversary who knows everything else, and otherwise would toss a coin, is right about which of two neighbours "
    "the tables were at most {guess} % of the time."
)
_SEVERAL = (
    "One who is at several holders is in the releases of all of them: the figures above say what these come to "
    "together. That no two of these releases are of one table is the word of whoever put them together, but for those "
    "that were composed with each other, and those of rooms that had a holder in common."
)
_ROOMS = (
    "Holders of rooms are told apart by the keys that they sign with. One who signed with two keys, or who made one of "
    "these releases alone and another in a room, cannot be seen: then these compose for all of its people, and more is "
    "told of them than is said here. What a room promises against its own holders is among the figures."
)
_RELEASES = "The releases themselves are out as well, and each tells what its own statement says."


def statement_of_parties_together(parts: Sequence[PartyRelease], *, one_holder: bool = False) -> Statement:
    """The statement about all that follows from private releases of several holders, or of `one_holder`."""
    relation = _common_relation_of_parties(parts)
    tables = [list(parts)] if one_holder else _parties_by_table(parts)
    delta = max(part.release.statement.delta for part in parts)
    deltas = sorted({delta, *(shown for part in parts for shown, _ in part.release.statement.epsilon_at)})
    events = [_compose_events([check_statement(part.release.statement) for part in own], relation) for own in tables]
    order = _costliest_events_first(events, deltas)
    event, statements = order[0], [part.release.statement for part in parts]
    guess, count, several = best_guess(event), len(tables), sum(map(_number_of_holders_of_table, tables)) > 1
    promises = [_GUESS.format(guess=percent_up_text(guess))]
    if count > 1:
        promises.insert(0, _ONE.format(count=count))
    own_words = dict.fromkeys(sentence for statement in statements for sentence in statement.not_protected)
    units = party_sentences(statement.unit_of_privacy for statement in statements)
    trust = party_sentences(statement.trust_model for statement in statements)
    return replace(
        statements[0],
        neighbours=relation.value,
        epsilon=epsilon_at(event, delta),
        delta=delta,
        accountant=accountant_name(event),
        promises=() if isinf(epsilon_at(event, delta)) else tuple(promises),
        not_protected=(
            *([_SEVERAL] if several else []),
            *([_ROOMS] if any(part.release.statement.holders is not None for part in parts) else []),
            _RELEASES,
            *own_words,
        ),
        unit_of_privacy=units + ("; who is at one of the holders" if several else ""),
        trust_model=_TRUST.format(each=trust) if several else trust,
        random_source=party_sentences(statement.random_source for statement in statements),
        best_guess=guess,
        epsilon_at=tuple((shown, epsilon_at(event, shown)) for shown, _ in statements[0].epsilon_at),
        event=event_to_dict(event),
        composed=None,
        holders=Parties(
            AVERAGED if several else ONE_TABLE,
            tuple(_statement_entry_of_party(part) for part in parts),
            _figures_of_parties_together(tables, order, relation, delta),
        ),
    )


def _common_relation_of_parties(parts: Sequence[PartyRelease]) -> Relation:
    """The neighbours that all releases speak of; refused where they do not speak of the same."""
    relations = {part.name: check_statement(part.release.statement).relation for part in parts}
    if len(set(relations.values())) > 1:
        words = ", ".join(f"{name} of {relation.value}" for name, relation in relations.items() if relation is not None)
        raise ArgumentError(f"the releases promise different things: {words}; craft all with one unit and relation")
    relation = next(iter(relations.values()))
    assert relation is not None
    return relation


def _parties_by_table(parts: Sequence[PartyRelease]) -> list[list[PartyRelease]]:
    """The releases by table: those that were composed with each other, or with a third, are of one.

    So are those of rooms that had a holder in common. What they all come to is no less than what those cost that one
    holder had a part in.
    """
    tables: list[tuple[set[str], list[PartyRelease]]] = []
    for part in parts:
        ids, own = ids_composed_with(part.release) | part.fingerprints, [part]
        for known in [table for table in tables if table[0] & ids]:
            tables.remove(known)
            ids, own = ids | known[0], [*known[1], *own]
        tables.append((ids, own))
    return [own for _, own in tables]


def _number_of_holders_of_table(table: Sequence[PartyRelease]) -> int:
    """How many holders made these releases of one table: those of their rooms, or a single one."""
    known = frozenset[str]().union(*(part.fingerprints for part in table))
    return max(len(known), *(_n_room_holders(part) for part in table))


def _n_room_holders(part: PartyRelease) -> int:
    holders = part.release.statement.holders
    return 1 if holders is None else holders.count


def _event_of_holder_group(table: Sequence[PartyRelease], size: int, relation: Relation) -> Event:
    """What releases of one table cost one who is at so many of the holders who made them (A12, A13)."""
    own = [group_event(check_statement(part.release.statement), min(size, _n_room_holders(part))) for part in table]
    return _compose_events(own, relation)


def _compose_events(events: Sequence[Event], relation: Relation) -> Event:
    return events[0] if len(events) == 1 else total_of_events(events, relation)[0]


def _costliest_events_first(events: Sequence[Event], deltas: Sequence[float]) -> list[Event]:
    """Events by cost; the first costs the most at every one of these deltas, or stands for all of them together."""
    costs = {place: [epsilon_at(event, delta) for delta in deltas] for place, event in enumerate(events)}
    order = sorted(costs, key=lambda place: costs[place], reverse=True)
    first = costs[order[0]]
    if any(mine < theirs for other in order[1:] for mine, theirs in zip(first, costs[other], strict=True)):
        relation = events[0].relation
        assert relation is not None
        return [_compose_events(events, relation), *(events[place] for place in order)]  # an upper bound for each
    return [events[place] for place in order]


def _figures_of_parties_together(
    tables: Sequence[Sequence[PartyRelease]], order: Sequence[Event], relation: Relation, delta: float
) -> tuple[PartyGuarantee, ...]:
    """What one pays who is at two holders, or at all; or at one, with that one's earlier releases."""
    count, figures = len(tables), []
    rooms = [table for table in tables if _number_of_holders_of_table(table) > 1]
    pairs = [_event_of_holder_group(table, 2, relation) for table in rooms]
    if count > 1:
        pairs.append(_compose_events(order[-count:][:2], relation))
    if pairs:
        dearest = max(pairs, key=lambda event: epsilon_at(event, delta))
        figures.append(PartyGuarantee.of(AT_TWO, dearest, delta, 2))
    if (everybody := sum(map(_number_of_holders_of_table, tables))) > 2:
        every = [_event_of_holder_group(table, everybody, relation) for table in tables]
        case = f"{AT_SEVERAL}all {everybody} holders"
        figures.append(PartyGuarantee.of(case, _compose_events(every, relation), delta, everybody))
    chains = [earlier_releases([part.release for part in table]) for table in tables]
    if any(len(known) > len(table) for known, table in zip(chains, tables, strict=True)):
        totals = [_compose_events([earlier.event for earlier in known], relation) for known in chains]
        case = "one who is at one holder, with all earlier releases of its table that these name"
        figures.append(PartyGuarantee.of(case, _costliest_events_first(totals, [delta])[0], delta))
    for table in tables:
        figures += _figures_of_rooms_together(table, relation, delta)
    return tuple(figures)


def _figures_of_rooms_together(table: Sequence[PartyRelease], relation: Relation, delta: float) -> list[PartyGuarantee]:
    """The figures of each room, and what they come to in all releases of the table, for cases that all rooms have."""
    figures, alone, rooms = [], [], []
    for part in table:
        holders = part.release.statement.holders
        if holders is None:
            alone.append(check_statement(part.release.statement))
        else:
            rooms.append({figure.case: figure for figure in holders.figures})
            figures += [replace(figure, case=f"{figure.case}, in {part.title}") for figure in holders.figures]
    if rooms and len(table) > 1:
        names = " and ".join(part.title for part in table)
        for case, first in rooms[0].items():
            if all(case in room for room in rooms):
                event = _compose_events([*(room[case].event for room in rooms), *alone], relation)
                figures.append(PartyGuarantee.of(f"{case}, in {names}", event, delta, first.size))
    return figures


def _statement_entry_of_party(part: PartyRelease) -> dict[str, Any]:
    release, statement = part.release, part.release.statement
    own = EarlierRelease(release.id, release.digest, check_statement(statement)).to_dict()
    return {**own, "epsilon": statement.epsilon, "delta": statement.delta, "rows": release.n_examples, **part.room}
