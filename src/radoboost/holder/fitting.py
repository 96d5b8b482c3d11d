"""Which columns fit a plain table: linear, signed-log or quadratic, by the numbers of its rows and columns alone.

    linear       of more than 400 columns: 400 squares and products would be few of all that there are
    signed-log   of fewer than 150 rows, which do not carry squares and products
    quadratic    of all others

No value and no label has a say. Nor has the number of rados: of 20 to 1000 of them, no number from which on squares and
products are taken has a smaller mean error than all (`benchmarks/fitting.py --rados`), for where there are fewer rados
than columns, learners shrink by what rados held out say. Where the rule comes from is in docs/learners.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radoboost.holder.feature_maps import MOST_PRODUCTS

FEW_ROWS = 150


@dataclass(frozen=True)
class Fitting:
    """What the rule goes by but for the number of rows: how many columns are numbers, and how many are `slots`.

    Slots hold 0 and 1, as the columns of categories do, so that their logarithms tell nothing new.
    """

    numbers: int
    slots: int

    @classmethod
    def of(cls, names: Sequence[str], groups: Mapping[str, str]) -> "Fitting":
        """Of the columns of a table, some of which belong to `groups`."""
        slots = sum(name in groups for name in names)
        return cls(len(names) - slots, slots)

    @property
    def wide(self) -> bool:
        """Whether columns are the table's own, however many rows there are."""
        return self.numbers + self.slots > MOST_PRODUCTS

    def columns(self, n_rows: int) -> str:
        """The word for the columns that so many rows get."""
        if self.wide:
            return "linear"
        if n_rows < FEW_ROWS:
            return "signed-log" if self.numbers else "linear"
        return "quadratic"

    def why(self, n_rows: int) -> str:
        word = self.columns(n_rows)
        if self.wide:
            count = self.numbers + self.slots
            return f"{word}, because of {count:,} columns {MOST_PRODUCTS} squares and products would be too few"
        if n_rows < FEW_ROWS:
            return f"{word}, because {n_rows:,} rows are too few for squares and products, which need {FEW_ROWS} rows"
        return f"{word}, because {n_rows:,} rows carry squares and products, which they do from {FEW_ROWS} rows on"

    def to_dict(self, n_rows: int) -> dict[str, Any]:
        """What a release says of it."""
        return {"columns": self.columns(n_rows), "why": self.why(n_rows)}
