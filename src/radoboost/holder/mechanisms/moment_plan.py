"""Which columns a release of `moments` has: a plan, chosen by what was declared and by what was released before.

The first release, the noisy second moments of the table's own columns, is the outline of the table: its trace is about
the number of rows, `size`, and `strength` is that in units of the noise that one row must be hidden in. These two
numbers, and how many columns there are, decide how many products of ranks the table carries. They come in classes by
total degree g (`legendre_classes`): a class is taken whole if all columns up to it are at most

    min(600, strength / (2.5 g), size / (6 g))

or else it is left out. Where the squares do not fit, or strength is below 200 in all, columns are the table's own. What
the columns of a plan are is in `moment_columns`. The constants were tuned on the paper's domains.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from radoboost.holder.legendre_classes import DEGREES, MOST_COLUMNS, Degrees, classes_within, n_products
from radoboost.holder.mechanisms.moment_budget import Shape

AUTO = "auto"  # the word that leaves the choice to the rule
_STRENGTH, _SIZE, _LEAST_STRENGTH = 2.5, 6.0, 200.0  # for each column and degree; and in all
_IF_DOUBLED = 0.5  # of that is enough where a change moves sums of vectors by two: second moments move less, or not
# How many mean rados and how far each one goes: the first whose limit is above strength for each column.
LINEAR_ROUNDS = ((100.0, 8, 1.0), (math.inf, 32, 4.0))
WIDE_ROUNDS = ((30.0, 16, 1.0), (math.inf, 16, 2.0))
FEW_ROUNDS = LINEAR_ROUNDS[0][1]
MOST_ROUNDS = max(rounds for _, rounds, _ in (*LINEAR_ROUNDS, *WIDE_ROUNDS))


@dataclass(frozen=True)
class Plan:
    """Which columns a release has, and how its classifier is sharpened; everything follows from it and the outline.

    `classes` are those of products of ranks; without any, columns are the table's own. `n_columns` counts the constant.
    `rounds` is how many mean rados there are, and `eta` how far each one goes.
    """

    classes: tuple[Degrees, ...]
    n_columns: int
    rounds: int = 0
    eta: float = 0.0

    @property
    def beyond(self) -> bool:
        """Whether there are more columns than the table's own."""
        return bool(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return {**asdict(self), "classes": [list(degrees) for degrees in self.classes]}


@dataclass(frozen=True)
class Outlook:
    """What a plan depends on besides released numbers: the table's columns, some of which are slots of `groups`.

    `word` is what was asked for: "auto", or a degree.
    """

    names: tuple[str, ...]
    groups: Mapping[str, str]
    word: str = AUTO

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are no slots: those that have ranks."""
        return tuple(name for name in self.names if name not in self.groups)

    @property
    def n_own(self) -> int:
        """The table's own columns and the constant."""
        return len(self.names) + 1

    @property
    def n_ranked(self) -> int:
        """These and the ranks of numbers, which products come after."""
        return self.n_own + len(self.numbers)

    def classes(self, size: float = math.inf, strength: float = math.inf, *, doubled: bool = False) -> list[Degrees]:
        """The classes that a table of this size and strength has."""
        degree = DEGREES.get(self.word)
        if degree is not None:
            return classes_within(len(self.numbers), self.n_ranked, lambda _: MOST_COLUMNS, degree)
        if strength < _LEAST_STRENGTH:
            return []
        each = _STRENGTH * (_IF_DOUBLED if doubled else 1.0)
        return classes_within(
            len(self.numbers), self.n_ranked, lambda g: min(MOST_COLUMNS, strength / (each * g), size / (_SIZE * g))
        )

    @cached_property
    def widest(self) -> int:
        """The most columns, with the constant, that any plan may have."""
        classes = self.classes()
        if not classes:
            return self.n_own
        return MOST_COLUMNS if self.word == AUTO else self.width(classes)

    def width(self, classes: list[Degrees]) -> int:
        """How many columns there are with these classes, the constant among them."""
        return self.n_ranked + sum(n_products(len(self.numbers), each) for each in classes) if classes else self.n_own

    def shaped(self, shape: Shape) -> Shape:
        """What noise depends on, with as many columns as a plan may have."""
        return replace(shape, widest=self.widest if self.classes() else 0)


def choose(
    outlook: Outlook,
    size: float,
    strength: float,
    *,
    sharpen: bool = True,
    crowding: float = 1.0,
    doubled: bool = False,
) -> Plan:
    """The plan of a table: by its noisy `size`, and that in units of noise, `strength`.

    Of more than two classes, only a part of both counts for the choice of columns: `crowding` (M18).
    """
    classes = outlook.classes(size * crowding, strength * crowding, doubled=doubled)
    width = outlook.width(classes)
    return Plan(tuple(classes), width, *rounds_for(bool(classes), strength / width, sharpen))


def rounds_for(beyond: bool, strength: float, sharpen: bool = True) -> tuple[int, float]:
    """How many mean rados there are at so much strength for each column, and how far each one goes."""
    if not sharpen:
        return 0, 0.0
    steps = WIDE_ROUNDS if beyond else LINEAR_ROUNDS
    return next((rounds, eta) for limit, rounds, eta in steps if strength < limit or limit == math.inf)
