"""An event in other people's figures: mu, rho, what groups pay, and whether a delta is small enough."""

from decimal import ROUND_FLOOR, Context
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy.accountants import checked_delta, gaussian_distance
from radoboost.privacy.events import Event, flatten
from radoboost.privacy.groups import group_epsilon, group_words

GROUPS = (2, 5, 10)
MOST_GIVEN_AWAY = 0.1  # rows that a mechanism which keeps to delta alone may give away on average


def figures(event: Event, delta: float, groups: tuple[int, ...] = GROUPS) -> dict[str, Any]:
    """What else can be said of an event, as JSON data, next to its epsilon at `delta`.

    `mu` is that of Gaussian differential privacy and `rho` = mu^2 / 2 that of zero-concentrated differential privacy,
    where all that was done is Gaussian; both hold up to `total_variation`, which epsilon charges to delta (A9).
    `groups` is what several records of one person pay together, at the same delta (A12); an infinite epsilon is None,
    and of the usual sizes those are left out that are not accounted for.
    """
    checked_delta(delta)
    counts = flatten(event)
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


def group_figure(event: Event, delta: float, size: int) -> dict[str, Any]:
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
