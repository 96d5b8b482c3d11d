"""Columns of texts that are numbers but for a few cells, or with other marks than the rest of the table.

A column of texts is left out of a proposal, and one cell among thousands should not do that to a column of numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.holder.column_looks import plain_cells
from radoboost.progress import Progress, silent
from radoboost.tables.cells import gaps, numbers_or_nan
from radoboost.tables.marks import PLAIN, Marks
from radoboost.tables.raw import RawTable
from radoboost.tables.raw_columns import shown

NEARLY = 0.95  # the share of numbers from which on the other cells are taken for mistakes
_ENOUGH = 1000  # cells after which a column of texts is given up


class OddCells(NamedTuple):
    """What is odd about a column, in words, and whether nearly all of its cells are numbers."""

    words: str
    nearly: bool


@dataclass
class _Count:
    """How many cells of a column are no numbers with some marks, and the first of them."""

    seen: int = 0
    odd: int = 0
    first: Callable[[], str] = field(default=str)

    def see(self, column: pa.Array, present: NDArray[np.bool_], marks: Marks, place: Callable[[int], str]) -> None:
        odd = present & np.isnan(numbers_or_nan(column, marks, plain_too=False))
        if odd.any() and not self.odd:
            row = int(np.argmax(odd))
            self.first = lambda: f"{shown(column[row])} ({place(row)})"
        self.seen += int(present.sum())
        self.odd += int(odd.sum())

    @property
    def hopeless(self) -> bool:
        return self.seen >= _ENOUGH and 2 * self.odd > self.seen


def odd_cells(raw: RawTable, names: Sequence[str], marks: Marks, bar: Progress = silent) -> dict[str, OddCells]:
    """Those of the named columns more than half of whose cells are numbers, and what is odd about them."""
    tried = tuple(dict.fromkeys((marks, PLAIN, Marks(None, ","))))
    counts = {name: {other: _Count() for other in tried} for name in names}
    for batch in raw.batches(bar):
        counts = {name: of for name, of in counts.items() if not all(count.hopeless for count in of.values())}
        if not counts:
            break
        for name, of in counts.items():
            column = plain_cells(batch.columns.column(name))
            present = ~gaps(column)
            for other, count in of.items():
                count.see(column, present, other, batch.place)
    return {name: found for name, of in counts.items() if (found := _found(of, marks)) is not None}


def _found(counts: Mapping[Marks, _Count], marks: Marks) -> OddCells | None:
    """What is odd about a column, by the marks under which most of it are numbers."""
    best, count = min(counts.items(), key=lambda item: item[1].odd)  # of equal ones, the first
    if 2 * count.odd >= count.seen:
        return None
    words = []
    if count.odd:
        words.append(f"{count.odd:,} of {count.seen:,} cells {_are_no(count.odd)}: {count.first()}")
    if best.decimal != marks.decimal:
        words.append(f"its decimal mark is {best.decimal!r}, not {marks.decimal!r}")
    return OddCells(", ".join(words), count.odd <= (1 - NEARLY) * count.seen)


def _are_no(count: int) -> str:
    return "is no number" if count == 1 else "are no numbers, the first"
