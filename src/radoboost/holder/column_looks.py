"""What the cells of one raw column look like: exact sums of numbers, dates, and the values of a category.

A look takes batch after batch in bounded memory. It never refuses a cell: whoever crafts does that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.holder.engines import Engine, Survey
from radoboost.holder.grid import EXACT_UNIT, ExactSums
from radoboost.holder.passes import merged
from radoboost.tables.cells import gaps, is_text, numbers_or_nan
from radoboost.tables.dates import date_seconds
from radoboost.tables.kinds import MOST_VALUES, ORDERS
from radoboost.tables.labels import LONGEST_LABEL, canonical_label, comparable
from radoboost.tables.marks import PLAIN, Marks

# In the order of preference: of several that read all cells, the first is taken.
_COMMA = tuple(Marks(None, ",", mark) for mark in (None, ".", " ", "\u00a0", "\u202f", "'"))
_POINT = tuple(Marks(None, ".", mark) for mark in (",", " ", "'", "\u00a0", "\u202f", "_"))
_WHOLE = r"^[ \t]*[+-]?[0-9]+[ \t]*$"


def marks_to_try(separator: str | None) -> tuple[Marks, ...]:
    """Decimal and thousands marks that the cells of a CSV file may have, the likeliest first.

    >>> [marks.decimal for marks in marks_to_try(";")[:2]], marks_to_try(",")[1].thousands
    (['.', ','], ',')
    """
    return (PLAIN, *_POINT, *_COMMA) if separator == "," else (PLAIN, *_COMMA, *_POINT)


class NumberLook:
    """The exact sum, smallest and largest number of a column, under each of several marks that read all its cells.

    Cells that are the same number under all marks, as whole numbers are, are surveyed once.
    """

    def __init__(self, engine: Engine, marks: Iterable[Marks]) -> None:
        self._engine = engine
        self._common: Survey | None = None
        self.alive: dict[Marks, Survey | None] = dict.fromkeys(marks)
        self.whole = True  # all numbers are whole
        self.readable = 0  # cells that are numbers as they stand, without marks

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        if is_text(column.type):
            matches = pc.match_substring_regex(column.cast(pa.large_binary()), _WHOLE)
            same = bool(matches.fill_null(False).to_numpy(zero_copy_only=False)[present].all())
        else:
            same = True
        if same:
            self._common = self._add(self._common, numbers_or_nan(column)[present])
            self.readable += int(present.sum())
            return
        self.readable += int(np.isfinite(numbers_or_nan(column)[present]).sum())
        for pair in list(self.alive):
            numbers = numbers_or_nan(column, pair, plain_too=False)[present]
            if np.isnan(numbers).any():
                del self.alive[pair]
            else:
                self.alive[pair] = self._add(self.alive[pair], numbers)

    def _add(self, survey: Survey | None, numbers: NDArray[np.float64]) -> Survey:
        if survey is None:
            survey = self._engine.survey(np.array([-np.inf]), np.array([np.inf]), moments=True)
        numbers = numbers[np.isfinite(numbers)]  # an infinite one is refused by whoever crafts
        self.whole &= bool((numbers == np.rint(numbers)).all())
        survey.add(np.ascontiguousarray(numbers[:, None]))
        return survey

    def exact(self, marks: Marks) -> ExactSums:
        """Exact sums and extremes under marks that read all cells."""
        surveys = [survey for survey in (self._common, self.alive[marks]) if survey is not None]
        return merged([ExactSums(1), *(survey.result() for survey in surveys)])


def exact_mean(sums: ExactSums) -> float | None:
    """The float64 nearest to the exact mean; None of no numbers.

    >>> sums = ExactSums(1, n_rows=3)
    >>> sums.sums = [1 << 1074]
    >>> exact_mean(sums)
    0.3333333333333333
    """
    return None if sums.n_rows == 0 else sums.sums[0] / (sums.n_rows << -EXACT_UNIT)


@dataclass
class DateLook:
    """The exact sum, the first and the last of the dates of a column, under each order that reads all its cells."""

    alive: dict[str, list[int]] = field(default_factory=lambda: {order: [] for order in ORDERS})
    n_dates: int = 0

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        self.n_dates += int(present.sum())
        for order in list(self.alive):
            seconds, known = date_seconds(column, order)
            if not known[present].all():
                del self.alive[order]
            elif present.any():
                seen = seconds[present]
                first, last, total = self.alive[order] or (int(seen[0]), int(seen[0]), 0)
                low, high = min(first, int(seen.min())), max(last, int(seen.max()))
                self.alive[order] = [low, high, total + sum(seen.tolist())]


@dataclass
class ValueLook:
    """The different values of a column, as long as a category can have so many; else None."""

    values: dict[Any, Any] | None = field(default_factory=dict)

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        if self.values is None:
            return
        try:
            cells = pc.unique(comparable(column).filter(pa.array(present))).to_pylist()
        except (pa.ArrowException, ValueError):  # such a type has no values that can be compared, or text is not text
            self.values = None
            return
        for value in cells:
            if not isinstance(value, str | int | float) or len(str(value)) > LONGEST_LABEL:
                self.values = None
                return
            spelling = self.values.setdefault(canonical_label(value), value)
            if str(value) < str(spelling):  # one spelling, whatever came first
                self.values[canonical_label(value)] = value
            if len(self.values) > MOST_VALUES:
                self.values = None
                return

    def ordered(self) -> tuple[Any, ...]:
        """The values, numbers before texts."""
        return tuple(sorted((self.values or {}).values(), key=lambda v: (isinstance(v, str), v)))


@dataclass
class ColumnLook:
    """All that is noted about a raw column; what cannot be is None."""

    name: str
    kind: pa.DataType
    numbers: NumberLook | None
    dates: DateLook | None
    values: ValueLook | None
    rows: int = 0
    missing: int = 0
    odd: Any = None  # the first cell that is no number as it stands

    def see(self, column: pa.Array) -> None:
        """Look at a batch."""
        absent = gaps(column)
        present = ~absent
        self.rows += len(column)
        self.missing += int(absent.sum())
        if self.odd is None and self.numbers is not None and is_text(column.type):
            strange = present & np.isnan(numbers_or_nan(column))
            self.odd = column[int(np.argmax(strange))].as_py() if strange.any() else None
        for look in (self.numbers, self.dates, self.values):
            if look is not None:
                look.see(column, present)

    @property
    def present(self) -> int:
        """How many cells are not missing."""
        return self.rows - self.missing


def plain_cells(column: pa.Array) -> pa.Array:
    """A column taken out of dictionaries, runs and views; as it is where Arrow cannot do that."""
    try:
        return comparable(column)
    except pa.ArrowException:
        return column


def columns_of(batch: pa.RecordBatch, looks: Mapping[str, ColumnLook]) -> Iterable[tuple[ColumnLook, pa.Array]]:
    """The looks with their columns of a batch."""
    for name, look in looks.items():
        yield look, plain_cells(batch.column(name))
