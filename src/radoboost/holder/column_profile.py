"""What the cells of one raw column look like: exact sums of numbers, dates, and the values of a category.

A look takes batch after batch in bounded memory. It never refuses a cell: whoever crafts does that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.holder.aggregation import merge_accumulators
from radoboost.holder.engines import Engine, Survey
from radoboost.holder.grid import EXACT_UNIT, ExactSums
from radoboost.progress import Progress, silent
from radoboost.tables.cells import date_cell_seconds, gap_cells, is_text, numbers_or_nan
from radoboost.tables.class_values import value_key
from radoboost.tables.column_types import MOST_VALUES, ORDERS
from radoboost.tables.csv_dialect import PLAIN, CsvDialect
from radoboost.tables.labels import LONGEST_LABEL, comparable_labels
from radoboost.tables.object_columns import object_cell_text
from radoboost.tables.raw_table import RawTable

# In the order of preference: of several that read all cells, the first is taken.
_COMMA = tuple(CsvDialect(None, ",", mark) for mark in (None, ".", " ", "\u00a0", "\u202f", "'"))
_POINT = tuple(CsvDialect(None, ".", mark) for mark in (",", " ", "'", "\u00a0", "\u202f", "_"))
_WHOLE = r"^[ \t]*[+-]?[0-9]+[ \t]*$"


def number_marks_to_try(separator: str | None) -> tuple[CsvDialect, ...]:
    """Decimal and thousands marks that the cells of a CSV file may have, the likeliest first."""
    return (PLAIN, *_POINT, *_COMMA) if separator == "," else (PLAIN, *_COMMA, *_POINT)


class NumberProfile:
    """The exact sum, smallest and largest number of a column, under each of several marks that read all its cells.

    Cells that are one number under several marks are surveyed once: whole numbers under all marks, and numbers without
    groups of thousands under all marks with their decimal mark.
    """

    def __init__(self, engine: Engine, marks: Iterable[CsvDialect]) -> None:
        self._engine = engine
        self._surveys: dict[CsvDialect | str, Survey] = {}
        self.alive = list(marks)
        self.whole = True  # all numbers are whole
        self.seen = 0
        self.readable = 0  # cells that are numbers as they stand, without marks

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        self.seen += int(present.sum())
        if not self.alive and 4 * self.readable < self.seen:
            return  # a column of texts, whatever comes
        plain = numbers_or_nan(column)[present]
        numbers = ~np.isnan(plain)
        self.readable += int(numbers.sum())
        if not is_text(column.type):
            self._add("all", plain)
        elif self.alive:
            self._see_texts(column, present, plain if numbers.all() else None)

    def _see_texts(self, column: pa.Array, present: NDArray[np.bool_], plain: NDArray[np.float64] | None) -> None:
        """Look at texts, which are the numbers `plain` without marks; None if not all of them are."""
        points, commas = ([marks for marks in self.alive if marks.decimal == mark] for mark in ".,")
        if plain is not None:
            if commas and _all_whole_numbers(column, present):
                self._add("all", plain)
                return
            if points:
                self._add(".", plain)
            self._try(commas, column, present)
            return
        numbers = (
            numbers_or_nan(column, CsvDialect(None, ","), plain_too=False)[present] if commas else np.array([np.nan])
        )
        if np.isnan(numbers).any():
            self._try(self.alive, column, present)
        else:
            self._add(",", numbers)
            self._try(points, column, present)

    def _try(self, candidates: Iterable[CsvDialect], column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Drop marks that do not read all cells."""
        for marks in list(candidates):
            numbers = numbers_or_nan(column, marks, plain_too=False)[present]
            if np.isnan(numbers).any():
                self.alive.remove(marks)
            else:
                self._add(marks, numbers)

    def _add(self, key: CsvDialect | str, numbers: NDArray[np.float64]) -> None:
        if key not in self._surveys:
            self._surveys[key] = self._engine.survey(np.array([-np.inf]), np.array([np.inf]), moments=True)
        numbers = numbers[np.isfinite(numbers)]  # an infinite one is refused by whoever crafts
        self.whole &= bool((numbers == np.rint(numbers)).all())
        self._surveys[key].add(np.ascontiguousarray(numbers[:, None]))

    def exact(self, marks: CsvDialect) -> ExactSums:
        """Exact sums and extremes under marks that read all cells."""
        surveys = [self._surveys[key] for key in ("all", marks.decimal, marks) if key in self._surveys]
        return merge_accumulators([ExactSums(1), *(survey.result() for survey in surveys)])


def _all_whole_numbers(column: pa.Array, present: NDArray[np.bool_]) -> bool:
    """Whether all cells are whole numbers, written without any mark."""
    matches = pc.match_substring_regex(column.cast(pa.large_binary()), _WHOLE)
    return bool(matches.fill_null(False).to_numpy(zero_copy_only=False)[present].all())


def exact_column_mean(sums: ExactSums) -> float | None:
    """The float64 nearest to the exact mean; None of no numbers."""
    return None if sums.n_rows == 0 else sums.sums[0] / (sums.n_rows << -EXACT_UNIT)


@dataclass
class DateProfile:
    """The exact sum, the first and the last of the dates of a column, under each order that reads all its cells.

    A date that begins with its year is the same under all of them.
    """

    alive: list[str] = field(default_factory=lambda: list(ORDERS))
    n_dates: int = 0
    _found: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        if not self.alive or not present.any():
            return
        self.n_dates += int(present.sum())
        for order in ("ymd", *(order for order in self.alive if order != "ymd")):
            seconds, known = date_cell_seconds(column, order)
            if known[present].all():
                self._add(order, seconds[present])
                if order == "ymd":
                    return
            elif order in self.alive:
                self.alive.remove(order)

    def _add(self, order: str, seconds: NDArray[np.int64]) -> None:
        first, last, total = self._found.get(order, (int(seconds[0]), int(seconds[0]), 0))
        low, high = min(first, int(seconds.min())), max(last, int(seconds.max()))
        self._found[order] = (low, high, total + int(seconds.sum()))  # of a batch, far below 2**63

    def found(self, order: str) -> tuple[int, int, int]:
        """The first date, the last, and the sum of all, in seconds."""
        parts = [self._found[key] for key in dict.fromkeys(("ymd", order)) if key in self._found]
        lows, highs, totals = zip(*parts, strict=True)
        return min(lows), max(highs), sum(totals)


@dataclass
class CategoryProfile:
    """The different values of a column, as long as a category can have so many; else None.

    `key` is what they are compared by.
    """

    values: dict[Any, Any] | None = field(default_factory=dict)
    key: Callable[..., Any] = field(default=value_key, repr=False)

    def see(self, column: pa.Array, present: NDArray[np.bool_]) -> None:
        """Look at the cells of a batch that are not missing."""
        if self.values is None:
            return
        try:
            cells = pc.unique(comparable_labels(column).filter(pa.array(present))).to_pylist()
        except (pa.ArrowException, ValueError):  # such a type has no values that can be compared, or text is not text
            self.values = None
            return
        for value in cells:
            if not isinstance(value, str | int | float) or len(str(value)) > LONGEST_LABEL:
                self.values = None
                return
            value = value.strip() if isinstance(value, str) else value
            spelling = self.values.setdefault(self.key(value), value)
            if str(value) < str(spelling):  # one spelling, whatever came first
                self.values[self.key(value)] = value
            if len(self.values) > MOST_VALUES:
                self.values = None
                return

    def ordered(self, marks: CsvDialect) -> tuple[Any, ...]:
        """The values, numbers before texts; one spelling of each number that is written with these marks."""
        values = sorted((self.values or {}).values(), key=lambda v: (isinstance(v, str), v), reverse=True)
        return tuple({self.key(value, marks): value for value in values}.values())[::-1]


@dataclass
class ColumnProfile:
    """All that is noted about a raw column; what cannot be is None."""

    name: str
    kind: pa.DataType
    numbers: NumberProfile | None
    dates: DateProfile | None
    values: CategoryProfile | None
    coded: bool = False  # its type is a dictionary, by which its owner says that it is a category
    rows: int = 0
    missing: int = 0

    def see(self, column: pa.Array, absent: NDArray[np.bool_] | None = None) -> None:
        """Look at the cells of a batch; those that are `absent`, if somebody knows, are missing."""
        absent = gap_cells(column) if absent is None else absent
        present = ~absent
        self.rows += len(column)
        self.missing += int(absent.sum())
        for look in (self.numbers, self.dates, self.values):
            if look is not None:
                look.see(column, present)

    @property
    def n_values(self) -> int:
        """How many values a category of it has; 0 where these are too many, or nobody looked."""
        return 0 if self.values is None else len(self.values.values or ())

    @property
    def present(self) -> int:
        return self.rows - self.missing


def plain_column_cells(column: pa.Array) -> pa.Array:
    """A column taken out of dictionaries, runs and views; as it is where Arrow cannot do that."""
    try:
        return comparable_labels(column)
    except pa.ArrowException:
        return column


def profiles_with_columns(
    batch: pa.RecordBatch, looks: Mapping[str, ColumnProfile]
) -> Iterable[tuple[ColumnProfile, pa.Array]]:
    for name, look in looks.items():
        yield look, plain_column_cells(batch.column(name))


# ---- Columns of texts that are numbers but for a few cells, or with other marks than the rest of the table.
#
# A column of texts is left out of a proposal, and one cell among thousands should not do that to a column of
# numbers.

NEARLY = 0.95  # the share of numbers from which on the other cells are taken for mistakes
_ENOUGH = 1000  # cells after which a column of texts is given up


class UnparsableCells(NamedTuple):
    """What is odd about a column, in words, and whether nearly all of its cells are numbers."""

    words: str
    nearly: bool


@dataclass
class _Count:
    """How many cells of a column are no numbers with some marks, and the first of them."""

    seen: int = 0
    odd: int = 0
    first: Callable[[], str] = field(default=str)

    def see(self, column: pa.Array, present: NDArray[np.bool_], marks: CsvDialect, place: Callable[[int], str]) -> None:
        odd = present & np.isnan(numbers_or_nan(column, marks, plain_too=False))
        if odd.any() and not self.odd:
            row = int(np.argmax(odd))
            self.first = lambda: f"{object_cell_text(column[row])} ({place(row)})"
        self.seen += int(present.sum())
        self.odd += int(odd.sum())

    @property
    def hopeless(self) -> bool:
        return self.seen >= _ENOUGH and 2 * self.odd > self.seen


def find_unparsable_cells(
    raw: RawTable, names: Sequence[str], marks: CsvDialect, bar: Progress = silent
) -> dict[str, UnparsableCells]:
    """Those of the named columns more than half of whose cells are numbers, and what is odd about them."""
    tried = tuple(dict.fromkeys((marks, PLAIN, CsvDialect(None, ","))))
    counts = {name: {other: _Count() for other in tried} for name in names}
    for batch in raw.batches(bar):
        counts = {name: of for name, of in counts.items() if not all(count.hopeless for count in of.values())}
        if not counts:
            break
        for name, of in counts.items():
            column = plain_column_cells(batch.columns.column(name))
            present = ~gap_cells(column)
            for other, count in of.items():
                count.see(column, present, other, batch.place)
    return {name: found for name, of in counts.items() if (found := _unparsable_cells_by_mark(of, marks)) is not None}


def _unparsable_cells_by_mark(counts: Mapping[CsvDialect, _Count], marks: CsvDialect) -> UnparsableCells | None:
    """What is odd about a column, by the marks under which most of it are numbers."""
    best, count = min(counts.items(), key=lambda item: item[1].odd)  # of equal ones, the first
    if 2 * count.odd >= count.seen:
        return None
    words = []
    if count.odd:
        words.append(f"{count.odd:,} of {count.seen:,} cells {_are_no_number_text(count.odd)}: {count.first()}")
    if best.decimal != marks.decimal:
        words.append(f"its decimal mark is {best.decimal!r}, not {marks.decimal!r}")
    return UnparsableCells(", ".join(words), count.odd <= (1 - NEARLY) * count.seen)


def _are_no_number_text(count: int) -> str:
    return "is no number" if count == 1 else "are no numbers, the first"
