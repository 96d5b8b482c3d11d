"""A statement against its own event: no figure in it may be smaller than what was done costs."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.privacy import Composed, Event, best_guess, converted, delta_at, epsilon_at, event_from_dict
from radoboost.release.holders import AT_SEVERAL, AT_TWO, AVERAGED, ONE_TABLE, ROOM, Figure, Holders, room_figures

if TYPE_CHECKING:
    from radoboost.release import Statement

_SLACK = 1e-6  # relative: what another version of the accountant may differ by


class Contradicted(ReleaseError):
    """A file that is whole, and whose statement is not what the rest of it says was done."""


@contextmanager
def contradictions() -> Iterator[None]:
    """Whatever is refused within contradicts the file itself."""
    try:
        yield
    except ReleaseError as error:
        raise Contradicted(str(error)) from None


def check_statement(statement: "Statement") -> Event:
    """The event of a statement, which is refused where it says less than the event costs.

    It looks at epsilon with its delta and relation, the other pairs of `epsilon_at`, the best guess, what this release
    and earlier ones come to, and the figures for several holders. An infinite epsilon promises nothing, so nothing is
    computed for it. Only figures are checked, and only against the event: that it is what was done is the maker's word.
    `stage_noise` holds what else a file says against it.
    """
    event = _event(statement.event, "the event of its statement")
    relation = event.relation
    if relation is None:
        raise ReleaseError("the event of its statement names no neighbours; do not trust it")
    if math.isfinite(statement.epsilon) and statement.neighbours != relation.value:
        raise ReleaseError(
            f"the statement speaks of {statement.neighbours!r}, and what was done is about {relation.value!r}; do not "
            "trust it"
        )
    if not 0 <= statement.delta < 1:
        raise ReleaseError(f"the statement's delta is {statement.delta!r}, which is not a delta")
    for delta, epsilon in ((statement.delta, statement.epsilon), *statement.epsilon_at):
        _check_epsilon(event, delta, epsilon, "what was done")
    _check_guess(event, statement.best_guess)
    if statement.composed is not None:
        _check_composed(event, statement.composed)
    for figure in () if statement.holders is None else statement.holders.figures:
        _check_epsilon(figure.event, figure.delta, figure.epsilon, f"what was done, for {figure.case},")
    if statement.holders is not None and math.isfinite(statement.epsilon):
        if statement.holders.how == ROOM:
            _check_room(event, statement.delta, statement.holders)
        elif statement.holders.how in (AVERAGED, ONE_TABLE):
            _check_average(statement, statement.holders)
    return event


def _check_average(statement: "Statement", holders: Holders) -> None:
    """What follows from several releases costs no less than any of them; and all of them, where they are of one table.

    One who is at two holders pays at least for the two costliest releases, and one who is at all of them for all.
    """
    try:
        events = [_event(part["event"], "the event of one of its releases") for part in holders.parts]
        stated = [(float(part["epsilon"]), float(part["delta"])) for part in holders.parts]
    except (LookupError, TypeError, ValueError):
        raise ReleaseError("the statement does not say in full what was averaged; do not trust it") from None
    for own, (epsilon, delta) in zip(events, stated, strict=True):
        _check_epsilon(own, delta, epsilon, "what was done for one of its releases")
    every = Composed(tuple(events))
    for least in [every] if holders.how == ONE_TABLE else events:
        for delta, epsilon in ((statement.delta, statement.epsilon), *statement.epsilon_at):
            _check_epsilon(least, delta, epsilon, "what was averaged")
        _check_guess(least, statement.best_guess)
    if holders.how == ONE_TABLE:
        return
    costliest = sorted(events, key=lambda own: epsilon_at(own, statement.delta))[-2:]
    shared = [figure for figure in holders.figures if figure.size > 1 and figure.case.startswith(AT_SEVERAL)]
    if AT_TWO not in [figure.case for figure in shared]:
        raise ReleaseError(f"the statement has no figure for {AT_TWO}; do not trust it")
    for figure in shared:
        least = Composed(tuple(costliest)) if figure.case == AT_TWO else every
        _check_epsilon(least, figure.delta, figure.epsilon, f"what was averaged, for {figure.case},")


def _check_room(event: Event, delta: float, holders: Holders) -> None:
    """Figures of a room follow from its event, how many holders there were, and how many stayed to the end.

    How many may put together what they know is in the words of the second figure; where that leaves two numbers, the
    figures have to be those of one of them.
    """
    reasons = []
    for _, expected in fitting_figures(event, delta, holders):
        try:
            for figure, said in zip(expected, holders.figures, strict=True):
                if (said.delta, said.size) != (figure.delta, figure.size):
                    raise ReleaseError(f"the figure for {figure.case} is at another delta or size; do not trust it")
                _check_epsilon(figure.event, said.delta, said.epsilon, f"what was done, for {figure.case},")
        except ReleaseError as error:
            reasons.append(error)
        else:
            return
    if reasons:
        raise reasons[0]
    raise ReleaseError(
        f"the statement's figures for holders are not those of a room of {len(holders.parts)} holders, of whom "
        f"{_present(holders)} stayed; do not trust it"
    )


def fitting_figures(event: Event, delta: float, holders: Holders) -> Iterator[tuple[int, tuple[Figure, ...]]]:
    """For how many who may put together what they know a room's figures have these cases, and what they must be."""
    count, present = len(holders.parts), _present(holders)
    cases = [figure.case for figure in holders.figures]
    for tolerate in range(max(1, count - present), (count + 1) // 2):
        expected = room_figures(event, count, tolerate, present, delta)
        if [figure.case for figure in expected] == cases:
            yield tolerate, expected


def _present(holders: Holders) -> int:
    return sum(part.get("until") is None for part in holders.parts)


def _event(data: Any, what: str) -> Event:
    try:
        return event_from_dict(data)
    except ArgumentError as error:
        raise ReleaseError(f"{what} cannot be read: {error}") from None


def _check_epsilon(event: Event, delta: float, epsilon: float, what: str) -> None:
    """One evaluation of the curve, where everything is as it should be."""
    if math.isinf(epsilon):
        return
    assert event.relation is not None
    if not 0 < delta < 1:
        raise ReleaseError(f"the statement gives epsilon {epsilon:g} at delta {delta!r}, which is not a delta")
    try:
        if delta_at(event, epsilon * (1 + _SLACK)) <= delta:
            return
        cost = epsilon_at(event, delta)
    except ArgumentError as error:
        raise ReleaseError(f"the event of its statement cannot be accounted for: {error}") from None
    raise ReleaseError(
        f"the statement says epsilon {epsilon:g} at delta {delta:g} for {event.relation.value}, and {what} costs "
        f"{'no finite epsilon' if math.isinf(cost) else f'{cost:g}'}; do not trust it"
    )


def _check_guess(event: Event, stated: float) -> None:
    assert event.relation is not None
    try:
        guess = best_guess(event)
    except ArgumentError:
        guess = 1.0  # more uses than are accounted for
    if not stated >= guess * (1 - _SLACK):
        raise ReleaseError(
            f"the statement says that the best guess between tables with {event.relation.value} is right with "
            f"probability {stated:.6g} at most, and what was done allows {guess:.6g}; do not trust it"
        )


def _check_composed(event: Event, composed: Mapping[str, Any]) -> None:
    """What several releases come to is no less than this one costs, or all of them where their events are known."""
    epsilon, relation = composed["epsilon"], event.relation
    entries = _entries(composed)
    if epsilon == "infinite":
        return
    assert relation is not None
    if composed["neighbours"] != relation.value:
        raise ReleaseError(f"the total speaks of {composed['neighbours']!r}, and the release of {relation.value!r}")
    earlier = [_event(entry, "the event of an earlier release") for entry in entries]
    try:
        total = Composed((event, *(converted(other, relation) for other in earlier)))
    except ArgumentError as error:
        raise ReleaseError(f"the statement gives a total for releases that have none: {error}") from None
    _check_epsilon(total, float(composed["delta"]), float(epsilon), "what was done in all of them")


def _entries(composed: Mapping[str, Any]) -> list[Any]:
    """The events of earlier releases, as many as the statement counts."""
    try:
        entries = [entry["event"] for entry in composed["releases"]]
        names = {entry["id"] for entry in composed["releases"]}
    except (LookupError, TypeError):
        raise ReleaseError("the statement does not say in full what it was composed with; do not trust it") from None
    count = composed.get("earlier_releases")
    if not len(entries) == len(names) == count:
        raise ReleaseError(f"the statement counts {count!r} earlier releases and names {len(names)}; do not trust it")
    return entries
