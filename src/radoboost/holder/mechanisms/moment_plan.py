"""Which columns a release of `moments` has: a plan, chosen by what was declared and by what was released before.

The first release, the noisy second moments of the table's own columns, is the outline of the table: its trace is about
the number of rows, `size`, and `strength` is that in units of the noise that one row must be hidden in. These two
numbers, and how many columns there are, decide whether the table carries more than its own columns:

    linear      the table's own columns
    hats        and five hats of each number
    products    and squares and products of all columns
    both        and six hats of each number, and products; of the leading directions, if there are many columns
    cosines     and random cosines of all numbers together

Hats may be of ranks, five of each, for which a histogram of each column is released as well, and any plan may have
random cosines besides. What the columns of a plan are is in `moment_columns`.

The constants were tuned on the paper's domains, and on a few tables more that benchmarks/tables.py names.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from radoboost.holder.feature_maps import KNOTS, MOST_COSINES, n_cosines, pairs
from radoboost.holder.mechanisms.moment_budget import Shape


class _Needs(NamedTuple):
    """What a kind of plan needs: strength and size for each of its columns, and strength in all."""

    strength: float
    size: float
    least: float


# Words that a caller may use, and the kind of plan that they ask for; "auto" leaves it to the rule.
WORDS = {"hats": "hats", "ranks": "hats", "quadratic": "products", "both": "both", "fourier": "cosines"}
AUTO = "auto"
MOST_COLUMNS = 1024  # that the rule may choose
MORE_KNOTS = (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)  # of hats beside products, whose numbers reach further
MOST_FACTORS = 15  # of which plans of the kind "both" have all products
_CARRIES = {"both": _Needs(20.0, 50.0, 300.0), "products": _Needs(2.5, 30.0, 200.0), "hats": _Needs(1.0, 20.0, 300.0)}
# Both of so few inputs need only so much strength for each column: they are worth more than cosines in their place.
_FEW_INPUTS, _BOTH_OF_FEW = 10, 10.0
_MOST_FOR_PRODUCTS = 20  # inputs
_RANKS_FROM = 1000.0  # strength, divided by the root of the number of ranked columns
_COSINES_FROM, _LEAST_COSINES = 3500.0, 30  # size, and how many there must be room for;
_COSINES_PER_NUMBER = 2  # and so many for each number: a few of many numbers together carry noise alone
_ROOM_FOR_COSINES = (10.0, 12.0)  # strength and size for each column, cosines among them
# How many mean rados and how far each one goes: the first whose limit is above strength for each column.
LINEAR_ROUNDS = ((100.0, 8, 1.0), (300.0, 32, 4.0), (math.inf, 64, 8.0))
WIDE_ROUNDS = ((10.0, 8, 1.0), (40.0, 16, 2.0), (100.0, 32, 2.0), (math.inf, 32, 4.0))
FEW_ROUNDS = LINEAR_ROUNDS[0][1]
MOST_ROUNDS = max(rounds for _, rounds, _ in (*LINEAR_ROUNDS, *WIDE_ROUNDS))


@dataclass(frozen=True)
class Plan:
    """Which columns a release has, and how its classifier is sharpened; everything follows from it and the outline.

    `n_columns` counts the constant. `ranks` says whether hats are of ranks. `rounds` is how many mean rados there are,
    and `eta` how far each one goes.
    """

    kind: str
    ranks: bool
    cosines: int
    n_columns: int
    rounds: int
    eta: float

    @property
    def beyond(self) -> bool:
        """Whether there are more columns than the table's own."""
        return self.kind != "linear"

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Outlook:
    """What a plan depends on besides released numbers: the table's columns, some of which are slots of `groups`.

    `word` is what was asked for: "auto", or one of `WORDS`.
    """

    names: tuple[str, ...]
    groups: Mapping[str, str]
    word: str = AUTO

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are no slots: those that get hats."""
        return tuple(name for name in self.names if name not in self.groups)

    @cached_property
    def n_products(self) -> int:
        """How many squares and products there are of all columns."""
        return sum(1 for _ in pairs([(name, self.groups.get(name)) for name in self.names]))

    @property
    def n_factors(self) -> int:
        """How many columns or directions plans of the kind "both" have products of."""
        return min(len(self.names), MOST_FACTORS)

    def n_columns(self, kind: str, *, ranks: bool = False, cosines: int = 0) -> int:
        n_numbers, q = len(self.numbers), self.n_factors
        both = self.n_products if len(self.names) <= MOST_FACTORS else q * (q + 1) // 2
        hats = len(knots_of(kind, ranks)) * n_numbers
        extra = {"hats": hats, "products": self.n_products, "both": hats + both}.get(kind, 0)
        return len(self.names) + 1 + extra + ranks * n_numbers + cosines

    def possible(self) -> list[Plan]:
        """Plans that have, among them, every column that any plan may have; rounds are as many as any has."""
        if self.word != AUTO:
            return [replace(choose(self, 0.0, 0.0), rounds=MOST_ROUNDS)]
        plans = []
        for kind in self.carried():
            ranks = kind != "products" and self.n_columns(kind, ranks=True) <= MOST_COLUMNS
            width = self.n_columns(kind, ranks=ranks)
            most = MOST_COSINES if self.numbers else 0
            cosines = max(0, most - self.n_columns(kind))  # a plan without ranks has room for more of them
            plans.append(Plan(kind, ranks, cosines, max(width, most), MOST_ROUNDS, 0.0))
        return plans or [Plan("linear", False, 0, self.n_columns("linear"), MOST_ROUNDS, 0.0)]

    def carried(self) -> list[str]:
        """The kinds that the rule may choose for so many columns, in the order in which it asks for them."""
        left_out = {
            "products": len(self.names) > _MOST_FOR_PRODUCTS,
            "hats": not self.numbers,
        }
        return [kind for kind in _CARRIES if self.n_columns(kind) <= MOST_COLUMNS and not left_out.get(kind)]

    @cached_property
    def widest(self) -> int:
        """The most columns, with the constant, that any plan may have."""
        return max(plan.n_columns for plan in self.possible())

    def shaped(self, shape: Shape) -> Shape:
        """What noise depends on, with as many columns and ranks as a plan may have."""
        widest = self.widest if any(plan.beyond for plan in self.possible()) else 0
        return replace(shape, widest=widest, rankable=self.rankable)

    @property
    def rankable(self) -> int:
        """The most columns that may be ranked."""
        return len(self.numbers) if any(plan.ranks for plan in self.possible()) else 0


def knots_of(kind: str, ranks: bool) -> tuple[float, ...]:
    """Where the hats of a plan lie, within [-1, 1]."""
    return MORE_KNOTS if kind == "both" and not ranks else KNOTS


def choose(outlook: Outlook, size: float, strength: float, *, sharpen: bool = True, crowding: float = 1.0) -> Plan:
    """The plan of a table: by its noisy `size`, and that in units of noise, `strength`.

    Of more than two classes, only a part of both counts for the choice of columns: `crowding` (M18).
    """
    each = strength
    size, strength = size * crowding, strength * crowding
    kind, ranks = _kind(outlook, size, strength)
    width = outlook.n_columns(kind, ranks=ranks)
    cosines = 0
    if outlook.word == "fourier":
        cosines = n_cosines(len(outlook.numbers))
    elif outlook.word == AUTO and kind != "linear" and outlook.numbers and size >= _COSINES_FROM:
        by_strength, by_size = (
            number / least for number, least in zip((strength, size), _ROOM_FOR_COSINES, strict=True)
        )
        room = math.floor(min(MOST_COSINES, by_strength, by_size)) - width
        cosines = room if room >= max(_LEAST_COSINES, _COSINES_PER_NUMBER * len(outlook.numbers)) else 0
    width += cosines
    return Plan(kind, ranks, cosines, width, *rounds_for(kind, each / width, sharpen))


def _kind(outlook: Outlook, size: float, strength: float) -> tuple[str, bool]:
    """The kind of plan, and whether its hats are of ranks."""
    if outlook.word != AUTO:
        return WORDS[outlook.word], outlook.word == "ranks"
    n_inputs = len(outlook.names)
    kind = next((kind for kind in outlook.carried() if _suffices(outlook, kind, size, strength)), "linear")
    ranked = kind == "hats" or (kind == "both" and n_inputs > MOST_FACTORS)
    enough = 0 < _RANKS_FROM * math.sqrt(len(outlook.numbers)) <= strength
    return kind, ranked and enough and outlook.n_columns(kind, ranks=True) <= MOST_COLUMNS


def _suffices(outlook: Outlook, kind: str, size: float, strength: float) -> bool:
    """Whether a table carries the columns of a kind of plan."""
    width, needs = outlook.n_columns(kind), _CARRIES[kind]
    each = _BOTH_OF_FEW if kind == "both" and len(outlook.names) <= _FEW_INPUTS else needs.strength
    return strength >= max(each * width, needs.least) and size >= needs.size * width


def rounds_for(kind: str, strength: float, sharpen: bool = True) -> tuple[int, float]:
    """How many mean rados there are at so much strength for each column, and how far each one goes."""
    if not sharpen:
        return 0, 0.0
    steps = LINEAR_ROUNDS if kind == "linear" else WIDE_ROUNDS
    return next((rounds, eta) for limit, rounds, eta in steps if strength < limit)
