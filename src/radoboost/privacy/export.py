"""An event for other accountants: as an event of the library dp-accounting."""

from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy.events import (
    ADDED,
    OF_PERSONS,
    Composed,
    Event,
    Gaussian,
    NotPrivate,
    Repeated,
    SubsampledGaussian,
    flatten,
)
from radoboost.privacy.groups import group_words


def to_dp_accounting(event: Event) -> Any:
    """The event as a `DpEvent` of dp-accounting, to be read with neighbours that differ in one record added or removed.

    A noise multiplier counts the sensitivity under the event's own relation already, so epsilon is about that relation.
    Total variation has no place there: raise delta by (1 + e^epsilon) times it (A9). What that library has no event for
    is refused.
    """
    import dp_accounting

    if isinstance(event, Repeated):
        return dp_accounting.SelfComposedDpEvent(to_dp_accounting(event.event), event.count)
    if isinstance(event, Composed):
        return dp_accounting.ComposedDpEvent([to_dp_accounting(part) for part in event.events])
    if isinstance(event, NotPrivate):
        return dp_accounting.NonPrivateDpEvent()
    if isinstance(event, Gaussian):
        return dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, SubsampledGaussian):
        return _sampled(event)
    raise ArgumentError(
        "dp-accounting has no event for a truncated binomial, which is what feature-band adds; export it as json"
    )


def _sampled(event: SubsampledGaussian) -> Any:
    import dp_accounting

    if event.probability == 1 and not (event.group > 1 and event.relation in OF_PERSONS):
        steps = event.group * (1 if event.relation in ADDED else 2)
        return dp_accounting.GaussianDpEvent(event.noise_multiplier / steps)
    if event.group > 1 or event.relation not in ADDED:  # of persons, a group is all rows of one, or of several
        raise ArgumentError(
            "dp-accounting has no event for a sample in which several records differ, or one is replaced; export it as "
            "json"
        )
    one = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    return dp_accounting.PoissonSampledDpEvent(event.probability, one)


def dp_accounting_text(event: Event) -> str:
    """A Python program that makes the event of `to_dp_accounting`, with what it leaves out as a comment."""
    exported = to_dp_accounting(event)
    assert event.relation is not None
    variation = sum(getattr(leaf, "total_variation", 0.0) * count for leaf, count in flatten(event).items())
    # In how many the neighbours of every part may differ; what is not private says nothing of it.
    size = min((leaf.group for leaf in flatten(event) if isinstance(leaf, Gaussian | SubsampledGaussian)), default=1)
    lines = [
        f"# between tables with {group_words(event.relation, size)}; compute epsilon for neighbours of one record "
        "added or removed"
    ]
    if variation:
        lines.append(f"# raise delta by (1 + exp(epsilon)) * {variation:.3g}, for the sampler's total variation")
    names = sorted(_names(exported))
    return "\n".join([*lines, f"from dp_accounting import {', '.join(names)}", f"event = {_code(exported)}"])


def _names(exported: Any) -> set[str]:
    parts = [*getattr(exported, "events", ()), *([exported.event] if hasattr(exported, "event") else [])]
    return {type(exported).__name__}.union(*map(_names, parts))


def _code(exported: Any) -> str:
    """The expression that makes an event."""
    name = type(exported).__name__
    if hasattr(exported, "events"):
        return f"{name}([{', '.join(map(_code, exported.events))}])"
    if hasattr(exported, "sampling_probability"):
        return f"{name}(sampling_probability={exported.sampling_probability!r}, event={_code(exported.event)})"
    if hasattr(exported, "count"):
        return f"{name}(event={_code(exported.event)}, count={exported.count})"
    return (
        f"{name}(noise_multiplier={exported.noise_multiplier!r})"
        if hasattr(exported, "noise_multiplier")
        else f"{name}()"
    )
