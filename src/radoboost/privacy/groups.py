"""What an event costs several records of one person together (A12 of docs/proofs/accounting.md)."""

from dataclasses import replace
from math import nextafter, sqrt
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy.accountants import epsilon_at
from radoboost.privacy.events import (
    Composed,
    Event,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
)

_WORDS = {
    "RECORD": "{} records, all added or all removed",
    "REPLACE": "{} records replaced",
    "EDGE": "{} edge vectors replaced",
    "LABEL": "{} labels flipped",
    "VALUE": "{} values of one column changed, seen in that column's marginal",
    "PERSON": "{} persons, all added or all removed",
    "PERSON_ROWS": "the rows of {} persons replaced",
    "PERSON_LABELS": "labels of {} persons flipped",
}


def group_event(event: Event, size: int) -> Event:
    """The same computation, between tables that differ in up to `size` of what the event's relation names (A12).

    Records, or persons, are all added or all removed: some of each are not a group.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ArgumentError(f"a group is a whole number of records, at least 1; it is {size!r}")
    if size == 1 or isinstance(event, NotPrivate):
        return event
    if isinstance(event, Repeated):
        return Repeated(group_event(event.event, size), event.count)
    if isinstance(event, Composed):
        return Composed(tuple(group_event(part, size) for part in event.events))
    if isinstance(event, Gaussian):
        noise = event.noise_multiplier / (sqrt(size) if event.own_noise else size)
        return replace(event, noise_multiplier=nextafter(nextafter(noise, 0.0), 0.0), group=event.group * size)
    if isinstance(event, SubsampledGaussian):
        return replace(event, group=event.group * size)
    return replace(event, shift=event.shift * size)


def group_epsilon(event: Event, delta: float, size: int) -> float:
    """The epsilon, at the same delta, of `size` records of one person together: an upper bound."""
    return epsilon_at(group_event(event, size), delta)


def group_words(relation: Any, size: int) -> str:
    """The neighbours that a group's figure speaks of."""
    relation = Relation(relation)
    return _WORDS[relation.name].format(f"{size:,}") if size > 1 else relation.value
