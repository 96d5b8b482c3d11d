"""Which columns a release of `moments` would have, before anything is spent: from public numbers alone.

The rule of `moment_plan` goes by the noisy size of a table, and that is about its number of rows: so whoever knows
about how many rows there are knows about which plan they get.
"""

from dataclasses import dataclass, replace
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.legendre_classes import DEGREES
from radoboost.holder.mechanisms.moment_budget import Shape, released_noise
from radoboost.holder.mechanisms.moment_columns import check_outlook
from radoboost.holder.mechanisms.moment_plan import AUTO, Outlook, Plan, rounds_for
from radoboost.holder.mechanisms.moments import Moments
from radoboost.release.words import plan_in_words
from radoboost.tables.labels import check_n_classes

LINEAR = "linear"


@dataclass(frozen=True)
class Foreseen:
    """The plan that about so many rows get, and what noise depends on with it."""

    mechanism: Moments
    n_examples: int
    plan: Plan
    shape: Shape

    @property
    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds."""
        return released_noise(self.mechanism.scales(self.plan.rounds, self.shape))

    def sentence(self) -> str:
        return (
            f"about {self.n_examples:,} rows at epsilon {self.mechanism.epsilon:g}, for "
            f"{self.mechanism.relation_for(self.shape).value}, carry {plan_in_words(self.plan.to_dict())}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**self.plan.to_dict(), "sentence": self.sentence()}


def foresee(mechanism: Moments, rows: int, outlook: Outlook | None, shape: Shape) -> Foreseen:
    """The plan of about so many rows; without an outlook, columns are fixed beforehand."""
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ArgumentError(f"the number of rows must be a whole number of at least 1; it is {rows!r}")
    strength = mechanism.strength(float(rows), shape)
    if outlook is None:
        width = shape.n_columns
        return Foreseen(
            mechanism, rows, Plan((), width, *rounds_for(False, strength / width, mechanism.sharpen)), shape
        )
    plan = mechanism.choose(outlook, float(rows), strength, shape)
    return Foreseen(mechanism, rows, plan, replace(shape, n_planned=plan.n_columns) if plan.beyond else shape)


def plan_for(
    mechanism: Moments,
    rows: int,
    columns: int,
    word: str = AUTO,
    *,
    private_bounds: bool = False,
    n_classes: int = 2,
) -> Foreseen:
    """Which columns about `rows` rows of so many `columns`, all of them numbers, get; `word` is as `craft` has it.

    Nothing is read, and nothing is spent. With `private_bounds` those of all columns are searched for. The rule goes by
    a noisy number of rows, so near a threshold the release may have another plan. The more classes, the fewer columns.

    >>> import radoboost as rb
    >>> rb.plan_for(rb.Moments(1.0), 800, 10).plan.classes
    ()
    >>> [rb.plan_for(rb.Moments(1.0), 19_000, 10, n_classes=k).plan.n_columns for k in (2, 4, 16)]
    [441, 76, 11]
    """
    check_n_classes(n_classes)
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ArgumentError(f"the number of columns must be a whole number of at least 1; it is {columns!r}")
    outlook, searched = outlook_of(columns, word), columns if private_bounds else 0
    shape = Shape(columns + 1, searched, n_classes=n_classes)
    if outlook is None:
        return foresee(mechanism, rows, None, shape)
    check_outlook(outlook)
    return foresee(mechanism, rows, outlook, outlook.shaped(shape))


def outlook_of(n_columns: int, word: str) -> Outlook | None:
    """What a plan of so many numbers may be made of; None where they stay as they are."""
    if word not in (AUTO, LINEAR, *DEGREES):
        raise ArgumentError(f"columns follow from one of {', '.join((AUTO, LINEAR, *DEGREES))}; it is {word!r}")
    return None if word == LINEAR else Outlook(tuple(f"x{k}" for k in range(n_columns)), {}, word)


def all_plans(
    mechanism: Moments, rows: int, columns: int, *, private_bounds: bool = False, n_classes: int = 2
) -> dict[str, Foreseen]:
    """What each word would give, but for those that would make too many columns."""
    plans = {}
    for word in (LINEAR, *DEGREES):
        outlook = outlook_of(columns, word)
        if outlook is None or outlook.classes():
            plans[word] = plan_for(mechanism, rows, columns, word, private_bounds=private_bounds, n_classes=n_classes)
    return plans
