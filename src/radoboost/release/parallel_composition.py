"""What private releases of several holders promise together: who is at one holder is in that holder's release alone.

Steps A1, A2, ... are those of docs/proofs/accounting.md. By A13 one record at one holder changes one release, and what
it costs is what that release costs; of several, the costliest. One who is at several holders is in the releases of all
of them, whose noise is independent: these compose. A release may be that of a room, in which the rows of several
holders are in one sum: there one who is at two of them moves it twice. Releases of one table compose for everybody who
is in it. That two are of one table can be seen where one was composed with the other, and where both are of rooms that
had a holder in common; nobody can see it otherwise.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isinf
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy import Event, Relation, accountant_name, best_guess, epsilon_at, event_to_dict, group_event
from radoboost.release.compatibility import PartyRelease
from radoboost.release.composition import EarlierRelease, earlier_releases, known_names, total
from radoboost.release.parties import AT_SEVERAL, AT_TWO, AVERAGED, ONE_TABLE, Parties, PartyGuarantee, either
from radoboost.release.release import Statement, percent_up
from radoboost.release.statement_check import check_statement

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


def together(parts: Sequence[PartyRelease], *, one_holder: bool = False) -> Statement:
    """The statement about all that follows from private releases of several holders, or of `one_holder`."""
    relation = _common_relation(parts)
    tables = [list(parts)] if one_holder else _tables(parts)
    delta = max(part.release.statement.delta for part in parts)
    deltas = sorted({delta, *(shown for part in parts for shown, _ in part.release.statement.epsilon_at)})
    events = [_composed([check_statement(part.release.statement) for part in own], relation) for own in tables]
    order = _costliest_first(events, deltas)
    event, statements = order[0], [part.release.statement for part in parts]
    guess, count, several = best_guess(event), len(tables), sum(map(_n_holders, tables)) > 1
    promises = [_GUESS.format(guess=percent_up(guess))]
    if count > 1:
        promises.insert(0, _ONE.format(count=count))
    own_words = dict.fromkeys(sentence for statement in statements for sentence in statement.not_protected)
    units = either(statement.unit_of_privacy for statement in statements)
    trust = either(statement.trust_model for statement in statements)
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
        random_source=either(statement.random_source for statement in statements),
        best_guess=guess,
        epsilon_at=tuple((shown, epsilon_at(event, shown)) for shown, _ in statements[0].epsilon_at),
        event=event_to_dict(event),
        composed=None,
        holders=Parties(
            AVERAGED if several else ONE_TABLE,
            tuple(_entry(part) for part in parts),
            _figures(tables, order, relation, delta),
        ),
    )


def _common_relation(parts: Sequence[PartyRelease]) -> Relation:
    """The neighbours that all releases speak of; refused where they do not speak of the same."""
    relations = {part.name: check_statement(part.release.statement).relation for part in parts}
    if len(set(relations.values())) > 1:
        words = ", ".join(f"{name} of {relation.value}" for name, relation in relations.items() if relation is not None)
        raise ArgumentError(f"the releases promise different things: {words}; craft all with one unit and relation")
    relation = next(iter(relations.values()))
    assert relation is not None
    return relation


def _tables(parts: Sequence[PartyRelease]) -> list[list[PartyRelease]]:
    """The releases by table: those that were composed with each other, or with a third, are of one.

    So are those of rooms that had a holder in common. What they all come to is no less than what those cost that one
    holder had a part in.
    """
    tables: list[tuple[set[str], list[PartyRelease]]] = []
    for part in parts:
        ids, own = known_names(part.release) | part.fingerprints, [part]
        for known in [table for table in tables if table[0] & ids]:
            tables.remove(known)
            ids, own = ids | known[0], [*known[1], *own]
        tables.append((ids, own))
    return [own for _, own in tables]


def _n_holders(table: Sequence[PartyRelease]) -> int:
    """How many holders made these releases of one table: those of their rooms, or a single one."""
    known = frozenset[str]().union(*(part.fingerprints for part in table))
    return max(len(known), *(_in_room(part) for part in table))


def _in_room(part: PartyRelease) -> int:
    """How many holders made one release."""
    holders = part.release.statement.holders
    return 1 if holders is None else holders.count


def _of_group(table: Sequence[PartyRelease], size: int, relation: Relation) -> Event:
    """What releases of one table cost one who is at so many of the holders who made them (A12, A13)."""
    own = [group_event(check_statement(part.release.statement), min(size, _in_room(part))) for part in table]
    return _composed(own, relation)


def _composed(events: Sequence[Event], relation: Relation) -> Event:
    return events[0] if len(events) == 1 else total(events, relation)[0]


def _costliest_first(events: Sequence[Event], deltas: Sequence[float]) -> list[Event]:
    """Events by cost; the first costs the most at every one of these deltas, or stands for all of them together."""
    costs = {place: [epsilon_at(event, delta) for delta in deltas] for place, event in enumerate(events)}
    order = sorted(costs, key=lambda place: costs[place], reverse=True)
    first = costs[order[0]]
    if any(mine < theirs for other in order[1:] for mine, theirs in zip(first, costs[other], strict=True)):
        relation = events[0].relation
        assert relation is not None
        return [_composed(events, relation), *(events[place] for place in order)]  # an upper bound for each
    return [events[place] for place in order]


def _figures(
    tables: Sequence[Sequence[PartyRelease]], order: Sequence[Event], relation: Relation, delta: float
) -> tuple[PartyGuarantee, ...]:
    """What one pays who is at two holders, or at all; or at one, with that one's earlier releases."""
    count, figures = len(tables), []
    rooms = [table for table in tables if _n_holders(table) > 1]
    pairs = [_of_group(table, 2, relation) for table in rooms]
    if count > 1:
        pairs.append(_composed(order[-count:][:2], relation))
    if pairs:
        dearest = max(pairs, key=lambda event: epsilon_at(event, delta))
        figures.append(PartyGuarantee.of(AT_TWO, dearest, delta, 2))
    if (everybody := sum(map(_n_holders, tables))) > 2:
        every = [_of_group(table, everybody, relation) for table in tables]
        case = f"{AT_SEVERAL}all {everybody} holders"
        figures.append(PartyGuarantee.of(case, _composed(every, relation), delta, everybody))
    chains = [earlier_releases([part.release for part in table]) for table in tables]
    if any(len(known) > len(table) for known, table in zip(chains, tables, strict=True)):
        totals = [_composed([earlier.event for earlier in known], relation) for known in chains]
        case = "one who is at one holder, with all earlier releases of its table that these name"
        figures.append(PartyGuarantee.of(case, _costliest_first(totals, [delta])[0], delta))
    for table in tables:
        figures += _of_rooms(table, relation, delta)
    return tuple(figures)


def _of_rooms(table: Sequence[PartyRelease], relation: Relation, delta: float) -> list[PartyGuarantee]:
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
                event = _composed([*(room[case].event for room in rooms), *alone], relation)
                figures.append(PartyGuarantee.of(f"{case}, in {names}", event, delta, first.size))
    return figures


def _entry(part: PartyRelease) -> dict[str, Any]:
    """What the statement says of one release."""
    release, statement = part.release, part.release.statement
    own = EarlierRelease(release.id, release.digest, check_statement(statement)).to_dict()
    return {**own, "epsilon": statement.epsilon, "delta": statement.delta, "rows": release.n_examples, **part.room}
