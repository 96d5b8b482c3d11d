"""What several releases of one table amount to together.

A release that was composed with earlier ones keeps their events, so that a chain can be followed: C composed with B,
which was composed with A, counts all three. Releases are told apart by their id, which is random and made when a
release is crafted. The digest would not do: a release that was not saved yet has none, and the same release written
twice may have two. Releases from a seed have no id, and go by their digest.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
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
)
from radoboost.release.file_format import RADOS
from radoboost.release.kind import MOMENT_BLOCKS
from radoboost.release.receipts import Receipt, is_receipt, read_receipt
from radoboost.release.release import Release, finite_or_word, load
from radoboost.release.statement_check import check_statement

HOLDS_IF = (
    "each epsilon was fixed before the first of these releases was seen; where a later one was chosen by looking at "
    "earlier ones, the total of a ledger that was set beforehand holds in its place; and these are all: private "
    "scores, and attempts that stopped after noisy counts, are in no release, and only a ledger counts them"
)


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
            _add(known, EarlierRelease(release.id, None, release.event), files)
            continue
        if not isinstance(release, Release):
            raise ArgumentError(
                f"compose needs releases or receipts, or paths of them; one is a {type(release).__name__}"
            )
        name = release.id or release.digest or f"unsaved {len(known)}"
        event = check_statement(release.statement)
        files.setdefault(name, []).append(release)
        _add(known, EarlierRelease(name, release.digest, event), files)
        composed = release.statement.composed
        for entry in () if composed is None else composed["releases"]:  # `check_statement` has counted them
            _add(known, _read_entry(entry), files)
    return tuple(known.values())


def known_names(release: Release) -> set[str]:
    """The ids of a release and of all that it was composed with, which are of one table; none where it has no name."""
    unnamed = not (release.id or release.digest)
    return {earlier.id for earlier in earlier_releases([release])[unnamed:]}


def _add(known: dict[str, EarlierRelease], earlier: EarlierRelease, files: Mapping[str, Sequence[Release]]) -> None:
    """Note a release, unless it is known; refused where it is another one under the same id."""
    before = known.setdefault(earlier.id, earlier)
    if not _near(event_to_dict(before.event), event_to_dict(earlier.event)):
        raise ArgumentError(f"two releases have the id {earlier.id} and not the same event; do not trust them")
    same = files.get(earlier.id, ())
    digests = {digest for digest in (before.digest, earlier.digest, *(file.digest for file in same)) if digest}
    unread = digests - {file.digest for file in same}
    if (unread and len(digests) > 1) or not all(_same_content(same[0], other) for other in same[1:]):
        raise ArgumentError(
            f"two files have the id {earlier.id} and not the same content, so that each is a release, and one of them "
            "would not be counted; do not trust them, and ask whoever made them which ones there are"
        )
    if before.digest is None:
        known[earlier.id] = earlier


def _same_content(one: Release, other: Release) -> bool:
    """Whether two files have the same figures: rados that were drawn from released moments are no others."""
    names, others = (
        {name for name in each.blocks if name != RADOS or each.law not in MOMENT_BLOCKS} for each in (one, other)
    )
    return names == others and all(np.array_equal(one.blocks[name], other.blocks[name]) for name in names)


def _near(one: Any, other: Any) -> bool:
    """Whether two events are one: another machine may round the last digits of its noise otherwise."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _read_entry(entry: Any) -> EarlierRelease:
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


def total(events: Sequence[Event], relation: Relation) -> tuple[Event, str | None]:
    """All events as one under a relation, and why it promises nothing where that is so."""
    try:
        together: Event = Composed(tuple(convert_relation(event, relation) for event in events))
    except ArgumentError as error:
        return NotPrivate(str(error), relation), str(error)
    return together, next((leaf.reason for leaf in flatten(together) if isinstance(leaf, NotPrivate)), None)


def composed_with(event: Event, earlier: Sequence[EarlierRelease], delta: float) -> dict[str, Any]:
    """What a release and earlier ones amount to together, under the relation of this one, for its statement."""
    relation = _relation_of_event(event)
    together, why = total([event, *(other.event for other in earlier)], relation)
    return {
        "earlier_releases": len(earlier),
        "neighbours": relation.value,
        "epsilon": finite_or_word(inf if why else epsilon_at(together, delta)),
        "delta": delta,
        **({} if why is None else {"why": why}),
        "holds_if": HOLDS_IF,
        "releases": [other.to_dict() for other in earlier],
    }


def account_for_releases(
    releases: Sequence[Release | str | os.PathLike[str]], delta: float, shown: Sequence[float] = ()
) -> dict[str, Any]:
    """What releases, and all that they were composed with, amount to, under the relation that all convert to."""
    all_of_them = earlier_releases(releases)
    events = [earlier.event for earlier in all_of_them]
    answers = [(relation, *total(events, relation)) for relation in Relation]
    first = _relation_of_event(events[0])
    # The strongest relation that all convert to; where there is none, that of the first, with the reason.
    relation, together, why = next(
        (answer for answer in answers if answer[2] is None),
        next(answer for answer in answers if answer[0] == first),
    )

    def epsilon(at: float) -> float | str:
        return finite_or_word(inf if why else epsilon_at(together, at))

    return {
        "neighbours": relation.value,
        "epsilon": epsilon(delta),
        "delta": delta,
        **({} if why is None else {"why": why}),
        "epsilon_at": [{"delta": other, "epsilon": epsilon(other)} for other in shown],
        "best_guess": 1.0 if why else best_guess(together),
        "accountant": "none" if why else accountant_name(together),
        "holds_if": HOLDS_IF,
        "releases": [earlier.to_dict() for earlier in all_of_them],
    }
