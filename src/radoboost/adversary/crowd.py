"""Few rows that stand for many: what a pass adds up for a row is taken as often as the row stands there.

Sums are of integers, so they are those of the long table to the last bit. An attack on a plan that needs thousands of
rows, all known but one, takes no longer than one on a few.
"""

import math
from collections.abc import Generator, Sequence
from typing import NamedTuple

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import Moments
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.holder.passes import Pass, Readable, S, merged
from radoboost.holder.runners.threads import Threads
from radoboost.tables import Batch


class Crowded(NamedTuple):
    """A table of which "auto" makes one certain plan: whether the canary is a wide one, and its size and strength."""

    wide: bool
    size: float
    strength: float

    def others(self, mechanism: Moments, n_columns: int) -> int:
        """So many records, of so many columns with the constant one, make such a table."""
        return math.ceil(max(self.size, self.strength / mechanism.strength(1.0, Shape(n_columns))))


CROWDED = {
    "both and cosines": Crowded(False, 4_500, 700),
    "products and cosines": Crowded(True, 9_000, 2_200),
    "both, directions, ranks and cosines": Crowded(True, 14_000, 5_600),
}
"""The plans that no word asks for, beside what the words make: "auto" alone puts these columns together."""


class Crowd(Threads):
    """The runner of a table whose row of number k stands for `times[k]` rows that are alike, one at least."""

    def __init__(self, times: Sequence[int]) -> None:
        super().__init__(1)
        if min(times, default=1) < 1:
            raise ArgumentError(f"a row stands for one row at least; they stand for {list(times)}")
        self._times = tuple(times)

    def run(self, task: Pass[S], source: Readable) -> S:
        """The sum over all rows that the rows of the source stand for."""
        total = task.empty()
        for first, batch in self._numbered(source, task.title, 1):
            one = task.empty()
            task.add(one, first, batch)
            total = total.merge(multiple(one, self._times[first]))
        return total

    def _numbered(
        self, source: Readable, title: str, rows_at_a_time: int | None
    ) -> Generator[tuple[int, Batch], None, None]:
        """One row at a time, for the rows that are kept, too."""
        return super()._numbered(source, title, 1)


def multiple(sums: S, times: int) -> S:
    """So many times a sum, by merging: as often as `times` has digits to the base of 2."""
    parts = []
    while times:
        if times % 2:
            parts.append(sums)
        sums, times = sums.merge(sums), times // 2
    return merged(parts)
