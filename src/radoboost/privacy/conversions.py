"""An event for other accountants: as an event of the library dp-accounting."""

from dataclasses import replace
from decimal import ROUND_FLOOR, Context
from math import nextafter, sqrt
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy import events
from radoboost.privacy.accountants import check_delta_figure, epsilon_at, gaussian_distance

# ---- What an event costs several records of one person together (A12 of docs/proofs/accounting.md).

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


def group_event(event: events.Event, size: int) -> events.Event:
    """The same computation, between tables that differ in up to `size` of what the event's relation names (A12).

    Records, or persons, are all added or all removed: some of each are not a group.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ArgumentError(f"a group is a whole number of records, at least 1; it is {size!r}")
    if size == 1 or isinstance(event, events.NotPrivate):
        return event
    if isinstance(event, events.Repeated):
        return events.Repeated(group_event(event.event, size), event.count)
    if isinstance(event, events.Composed):
        return events.Composed(tuple(group_event(part, size) for part in event.events))
    if isinstance(event, events.Gaussian):
        noise = event.noise_multiplier / (sqrt(size) if event.own_noise else size)
        return replace(event, noise_multiplier=nextafter(nextafter(noise, 0.0), 0.0), group=event.group * size)
    if isinstance(event, events.SubsampledGaussian):
        return replace(event, group=event.group * size)
    return replace(event, shift=event.shift * size)


def group_epsilon(event: events.Event, delta: float, size: int) -> float:
    """The epsilon, at the same delta, of `size` records of one person together: an upper bound."""
    return epsilon_at(group_event(event, size), delta)


def group_words(relation: Any, size: int) -> str:
    """The neighbours that a group's figure speaks of."""
    relation = events.Relation(relation)
    return _WORDS[relation.name].format(f"{size:,}") if size > 1 else relation.value


def to_dp_accounting(event: events.Event) -> Any:
    """The event as a `DpEvent` of dp-accounting, to be read with neighbours that differ in one record added or removed.

    A noise multiplier counts the sensitivity under the event's own relation already, so epsilon is about that relation.
    Total variation has no place there: raise delta by (1 + e^epsilon) times it (A9). What that library has no event for
    is refused.
    """
    import dp_accounting

    if isinstance(event, events.Repeated):
        return dp_accounting.SelfComposedDpEvent(to_dp_accounting(event.event), event.count)
    if isinstance(event, events.Composed):
        return dp_accounting.ComposedDpEvent([to_dp_accounting(part) for part in event.events])
    if isinstance(event, events.NotPrivate):
        return dp_accounting.NonPrivateDpEvent()
    if isinstance(event, events.Gaussian):
        return dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, events.SubsampledGaussian):
        return _subsampled_to_dp_accounting(event)
    raise ArgumentError(
        "dp-accounting has no event for a truncated binomial, which is what feature-band adds; export it as json"
    )


def _subsampled_to_dp_accounting(event: events.SubsampledGaussian) -> Any:
    import dp_accounting

    if event.probability == 1 and not (event.group > 1 and event.relation in events.OF_PERSONS):
        steps = event.group * (1 if event.relation in events.ADDED else 2)
        return dp_accounting.GaussianDpEvent(event.noise_multiplier / steps)
    if event.group > 1 or event.relation not in events.ADDED:  # of persons, a group is all rows of one, or of several
        raise ArgumentError(
            "dp-accounting has no event for a sample in which several records differ, or one is replaced; export it as "
            "json"
        )
    one = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    return dp_accounting.PoissonSampledDpEvent(event.probability, one)


def dp_accounting_text(event: events.Event) -> str:
    """A Python program that makes the event of `to_dp_accounting`, with what it leaves out as a comment."""
    exported = to_dp_accounting(event)
    assert event.relation is not None
    variation = sum(getattr(leaf, "total_variation", 0.0) * count for leaf, count in events.flatten(event).items())
    # In how many the neighbours of every part may differ; what is not private says nothing of it.
    size = min(
        (leaf.group for leaf in events.flatten(event) if isinstance(leaf, events.Gaussian | events.SubsampledGaussian)),
        default=1,
    )
    lines = [
        f"# between tables with {group_words(event.relation, size)}; compute epsilon for neighbours of one record "
        "added or removed"
    ]
    if variation:
        lines.append(f"# raise delta by (1 + exp(epsilon)) * {variation:.3g}, for the sampler's total variation")
    names = sorted(_names_of_dp_events(exported))
    return "\n".join(
        [*lines, f"from dp_accounting import {', '.join(names)}", f"event = {_dp_event_as_code(exported)}"]
    )


def _names_of_dp_events(exported: Any) -> set[str]:
    parts = [*getattr(exported, "events", ()), *([exported.event] if hasattr(exported, "event") else [])]
    return {type(exported).__name__}.union(*map(_names_of_dp_events, parts))


def _dp_event_as_code(exported: Any) -> str:
    name = type(exported).__name__
    if hasattr(exported, "events"):
        return f"{name}([{', '.join(map(_dp_event_as_code, exported.events))}])"
    if hasattr(exported, "sampling_probability"):
        return (
            f"{name}(sampling_probability={exported.sampling_probability!r}, event={_dp_event_as_code(exported.event)})"
        )
    if hasattr(exported, "count"):
        return f"{name}(event={_dp_event_as_code(exported.event)}, count={exported.count})"
    return (
        f"{name}(noise_multiplier={exported.noise_multiplier!r})"
        if hasattr(exported, "noise_multiplier")
        else f"{name}()"
    )


# ---- An event in other people's figures: mu, rho, what groups pay, and whether a delta is small enough.

GROUPS = (2, 5, 10)
MOST_GIVEN_AWAY = 0.1  # rows that a mechanism which keeps to delta alone may give away on average


def figures(event: events.Event, delta: float, groups: tuple[int, ...] = GROUPS) -> dict[str, Any]:
    """What else can be said of an event, as JSON data, next to its epsilon at `delta`.

    `mu` is that of Gaussian differential privacy and `rho` = mu^2 / 2 that of zero-concentrated differential privacy,
    where all that was done is Gaussian; both hold up to `total_variation`, which epsilon charges to delta (A9).
    `groups` is what several records of one person pay together, at the same delta (A12); an infinite epsilon is None,
    and of the usual sizes those are left out that are not accounted for.
    """
    check_delta_figure(delta)
    counts = events.flatten(event)
    answer: dict[str, Any] = {}
    mu = gaussian_distance(event)
    if mu is not None:
        answer |= {"mu": mu, "rho": mu * mu / 2}
    answer["total_variation"] = sum(getattr(leaf, "total_variation", 0.0) * count for leaf, count in counts.items())
    answer["groups"] = []
    for size in groups:
        try:
            answer["groups"].append(group_figure(event, delta, size))
        except ArgumentError:  # a group beyond what is accounted for
            if groups is not GROUPS:
                raise
    return answer


def group_figure(event: events.Event, delta: float, size: int) -> dict[str, Any]:
    """What `size` records of one person pay together; an upper bound."""
    epsilon = group_epsilon(event, delta, size)
    return {
        "size": size,
        "neighbours": group_words(event.relation, size),
        "epsilon": None if epsilon == float("inf") else epsilon,
        "delta": delta,
    }


def delta_advice(delta: float, rows: int | None) -> str | None:
    """A line of advice where delta is not well below 1 / rows; `rows` must be public.

    Publishing every row with probability delta, and nothing else, is (0, delta)-private. So delta * rows is how many
    rows a mechanism may give away whole and still keep its promise; it should be well below one: a tenth at most.
    """
    if rows is None or rows < 1 or delta * rows <= MOST_GIVEN_AWAY:
        return None
    enough = Context(prec=1, rounding=ROUND_FLOOR).create_decimal(MOST_GIVEN_AWAY / rows * (1 + 1e-12))
    return (
        f"delta {delta:g} is not well below 1 / rows: publishing {delta * rows:.2g} of {rows:,} rows by chance would "
        f"keep to it; take at most {float(enough):g}"
    )
