"""Exact counts of what became of the rows of a table: for the holder's eyes, and for nobody else.

They are part of no release and of no warning, since a saved notebook or a log would give them away.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.grid import EXACT_UNIT, ExactSums
from radoboost.release.columns import Column
from radoboost.release.release import atomic_write
from radoboost.tables import Batch
from radoboost.tables.column_types import Category
from radoboost.tables.schema import Schema

Where = Literal["terminal"] | str | os.PathLike[str] | Callable[[list[str]], None] | None
_SHOWN = 8  # columns in a line on the terminal


@dataclass(frozen=True)
class PersonCounts:
    """What became of the rows of persons, where at most `max_rows` rows of each contribute.

    There were `rows` in all, of so many `people`: `nobody` of them were without a person, and `beyond` were left out
    because their person had others. Choosing took so many `passes`: several where memory was short.
    """

    people: int
    rows: int
    nobody: int
    beyond: int
    max_rows: int
    passes: int = 1

    def to_dict(self) -> dict[str, int]:
        """The counts as JSON data."""
        return {
            "all_rows": self.rows,
            "people": self.people,
            "without_a_person": self.nobody,
            "beyond_max_rows": self.beyond,
            "max_rows": self.max_rows,
        }

    def as_text(self) -> list[str]:
        taken = self.rows - self.nobody - self.beyond
        lines = [
            f"{taken:,} of {self.rows:,} rows are taken, at most {self.max_rows:,} of each of {self.people:,} people"
        ]
        if self.nobody:
            lines.append(f"without a person, so they give nothing: {self.nobody:,} rows")
        if self.passes > 1:
            lines.append(f"memory was short, so the table was read {self.passes:,} times to choose them")
        return lines


@dataclass
class RowCounts:
    """How many rows there were, how many gave nothing, and on account of which column.

    `alone` has an entry for each feature and one for the label: how many rows that one alone spoils, by a value that is
    missing or not finite, or a class that is not declared. `clipped` counts by feature the values of good rows beyond
    their bounds. With `persons`, these are counts of the rows that were taken of each. Where a schema reads raw cells,
    `filled` counts for each the cells that were missing, or not readable, or unknown, and `unknown` those of categories
    that are unknown; `unforeseen` counts the good rows with a cell that the schema does not foresee. For a look at the
    table, `by_class` counts the rows of each class, good or not, where there are more than two, and `no_number` by
    feature the values that are missing, no number or not finite.
    """

    clipped: NDArray[np.int64]
    alone: NDArray[np.int64]
    n_rows: int = 0
    spoiled: int = 0
    persons: PersonCounts | None = None
    filled: NDArray[np.int64] | None = None
    unknown: NDArray[np.int64] | None = None
    unforeseen: int = 0
    by_class: NDArray[np.int64] | None = None
    no_number: NDArray[np.int64] | None = None

    @classmethod
    def zeros(cls, n_features: int) -> "RowCounts":
        return cls(np.zeros(n_features, dtype=np.int64), np.zeros(n_features + 1, dtype=np.int64))

    def merge(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            self.clipped + other.clipped,
            self.alone + other.alone,
            self.n_rows + other.n_rows,
            self.spoiled + other.spoiled,
            self.persons or other.persons,
            _add_optional_counts(self.filled, other.filled),
            _add_optional_counts(self.unknown, other.unknown),
            self.unforeseen + other.unforeseen,
            _add_optional_counts(self.by_class, other.by_class),
            _add_optional_counts(self.no_number, other.no_number),
        )

    def see(
        self, values: NDArray[Any], signs: NDArray[np.int8], good: NDArray[np.bool_], batch: Batch | None = None
    ) -> None:
        """Count rows, and those that are not `good` by what spoils them; `signs` are 0 where the class is unknown."""
        self.n_rows += len(good)
        if batch is not None:
            self.see_cells(batch, good)
        if good.all():
            return
        bad = ~good
        faults = np.column_stack([~np.isfinite(values[bad]), signs[bad] == 0])
        self.spoiled += len(faults)
        self.alone += faults[faults.sum(axis=1) == 1].sum(axis=0)

    def see_cells(self, batch: Batch, good: NDArray[np.bool_] | None = None) -> None:
        """Count the cells of raw columns that were filled or are unknown, where a schema reads some."""
        if batch.gaps is None:
            return
        gaps = batch.gaps()
        self.filled = _add_optional_counts(self.filled, (gaps.missing | gaps.unknown).sum(axis=0))
        self.unknown = _add_optional_counts(self.unknown, gaps.unknown.sum(axis=0))
        self.unforeseen += int((gaps.unforeseen if good is None else gaps.unforeseen & good).sum())

    def unseen(self, schema: Schema | None, withheld: Collection[str] = ()) -> list[str]:
        """A line on cells with a value that a category has no column for; none where there are no such cells.

        For releases that promise nothing about records; and nothing is said of columns that are `withheld`.
        """
        if schema is None or self.unknown is None:
            return []
        hidden = {column.column for column in schema.encoded() if column.name in withheld}
        counts = {
            name: count
            for name, count in zip(schema.used, self.unknown.tolist(), strict=True)
            if count and isinstance(kind := schema.columns[name], Category) and not kind.other and name not in hidden
        }
        if not counts:
            return []
        where = ", ".join(f"{name!r} {count:,}" for name, count in counts.items())
        return [
            f"values that the schema does not have, in {where} of {self.n_rows:,} rows: these are zeros in all its "
            'columns; add them to its values, or write "other": true'
        ]

    def to_dict(self, features: Sequence[str], label: str, raw: Sequence[str] = ()) -> dict[str, Any]:
        """The counts as JSON data; `raw` are the columns that a schema reads."""
        gaps = None if self.filled is None or self.unknown is None else self.filled - self.unknown
        counts = {"filled": gaps, "unknown": self.unknown}
        by_raw = {
            key: dict(zip(raw, found.tolist(), strict=True)) for key, found in counts.items() if found is not None
        }
        return {
            "rows": self.n_rows,
            "contribute": self.n_rows - self.spoiled,
            "spoiled_by_this_alone": dict(zip([*features, label], self.alone.tolist(), strict=True)),
            "beyond_bounds": dict(zip(features, self.clipped.tolist(), strict=True)),
            **by_raw,
            **({} if self.persons is None else {"persons": self.persons.to_dict()}),
        }

    def as_text(self, features: Sequence[str], label: str, raw: Sequence[str] = ()) -> list[str]:
        """The counts as lines; `raw` are the columns that a schema reads."""
        good = self.n_rows - self.spoiled
        share = f" ({100 * good / self.n_rows:.3g} %)" if self.n_rows else ""
        lines = [] if self.persons is None else self.persons.as_text()
        lines.append(f"{good:,} of {self.n_rows:,} rows contribute{share}")
        if self.spoiled:
            if self.alone[-1]:
                lines.append(
                    f"without a usable label: {self.alone[-1]:,} rows ({label!r} is missing, or no declared class)"
                )
            if spoilers := _column_counts_text(features, self.alone[:-1]):
                lines.append(f"unusable for one column alone (missing, or not finite): {spoilers}")
            if several := self.spoiled - self.alone.sum():
                lines.append(f"with several such faults: {several:,} rows")
        if self.clipped.any():
            lines.append(f"beyond their bounds, and clipped: {_column_counts_text(features, self.clipped)}")
        if self.filled is not None and self.unknown is not None:
            gaps, unknown = (
                _column_counts_text(raw, self.filled - self.unknown, self.n_rows),
                _column_counts_text(raw, self.unknown),
            )
            lines += [f"{word}: {names}" for word, names in (("filled", gaps), ("unknown values", unknown)) if names]
        return lines


def count_beyond_bounds(values: NDArray[Any], good: NDArray[np.bool_], columns: Sequence[Column]) -> NDArray[np.int64]:
    """How many values of good rows lie beyond their bounds, by column."""
    low, high = np.array([column.constants[:2] for column in columns]).T
    counts: NDArray[np.int64] = (((values < low) | (values > high)) & good[:, None]).sum(axis=0)
    return counts


def _add_optional_counts(first: NDArray[np.int64] | None, second: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    return second if first is None else first if second is None else first + second


def _column_counts_text(names: Sequence[str], counts: NDArray[np.int64], n_rows: int = 0) -> str:
    """Names with their counts, the largest first, with their share of so many rows."""
    order = np.argsort(-counts, kind="stable")
    shares = {k: f" ({100 * counts[k] / n_rows:.3g} %)" if n_rows else "" for k in order}
    parts = [f"{names[k]!r} {counts[k]:,}{shares[k]}" for k in order if counts[k]]
    return ", ".join(parts[:_SHOWN]) + (f" and {len(parts) - _SHOWN} more columns" if len(parts) > _SHOWN else "")


class _OnlyTried(Exception):
    """A draft could be written, and is not wanted."""


def check_place_for_counts(where: Where) -> None:
    """Refuse a place that cannot be written to, before anything is spent on a release that would then be lost."""
    if where is not None and where != "terminal" and not callable(where):
        with suppress(_OnlyTried), atomic_write(Path(where), secret=True) as draft:
            draft.write_text("")
            raise _OnlyTried  # so that the draft is removed, and what is there stays


def report_row_counts(
    counts: RowCounts, features: Sequence[str], label: str, where: Where, raw: Sequence[str] = ()
) -> None:
    """Show the counts to the holder: on a terminal, in a file, or as lines to a callable; else nowhere."""
    if where is None:
        return
    if callable(where):
        where(counts.as_text(features, label, raw))
        return
    if where == "terminal":
        if sys.stderr is not None and sys.stderr.isatty():
            print("for your eyes, not protected:", file=sys.stderr)
            for line in counts.as_text(features, label, raw):
                print(f"  {line}", file=sys.stderr)
        return
    with atomic_write(Path(where), secret=True) as draft:
        draft.write_text(json.dumps(counts.to_dict(features, label, raw), indent=2) + "\n", encoding="utf-8")


# ---- One value that outweighs all others of its column: what a plain release would lose by it, said to the holder.
#
# A standardised value that is far from all others is the root of the number of rows, and the others are nearly
# one number: a column that might have told the classes apart tells nothing. The survey has all that it takes to
# see this. Only mechanisms that may look at the table ask.

LEAST_ROWS = 30  # of fewer, any value may be a large part of its column
_MOST = 0.9  # of the variance, from one value
_FAR = 100  # deviations of the others
_ONE_TENTH = 10  # of their variance: as far is their mean, squared, from their other end, if they are not mostly that
_NAMED = 8


def outlier_values(names: Sequence[str], exact: ExactSums) -> dict[str, float]:
    """By column, the value that makes up nine tenths of its variance, and is a hundred deviations from the others.

    Where all others are equal, or nearly all of them, there is nothing to tell apart, as with one 1 among zeros.
    """
    found: dict[str, float] = {}
    m = exact.n_rows
    if m < LEAST_ROWS:
        return found
    pairs = zip(exact.lowest.tolist(), exact.highest.tolist(), strict=True)
    for k, (name, ends) in enumerate(zip(names, pairs, strict=True)):
        mean, variance = exact.mean_and_variance(k)
        farthest = max(abs(end - mean) for end in ends)
        if variance > 0 and farthest**2 < (_MOST - 0.1) * (m - 1) * variance:
            continue  # by far: what is near is decided in integers
        spread = m * exact.squares[k] - exact.sums[k] ** 2  # m**2 times the variance, in units of 2**-2148
        if spread <= 0:
            continue
        units = [int(Fraction(end) * (1 << -EXACT_UNIT)) for end in ends]
        # m times the distance from the mean; no square of it exceeds m - 1 times the variance.
        far = [abs(m * unit - exact.sums[k]) for unit in units]
        place = int(far[1] > far[0])
        if far[place] ** 2 * 10 < round(10 * _MOST) * (m - 1) * spread:
            continue
        others = exact.sums[k] - units[place]
        rest = (m - 1) * (exact.squares[k] - units[place] ** 2) - others**2  # the same of the other values
        spread_out = _ONE_TENTH * (others - (m - 1) * units[1 - place]) ** 2 >= rest > 0
        if spread_out and ((m - 1) * units[place] - others) ** 2 >= _FAR**2 * rest:
            found[name] = ends[place]
    return found


def outliers_text(found: Mapping[str, float], n_rows: int) -> str:
    values = ", ".join(f"{name!r} has {value:.6g}" for name, value in list(found.items())[:_NAMED])
    more = f", and {len(found) - _NAMED} more columns have such" if len(found) > _NAMED else ""
    return (
        f"one value outweighs the other {n_rows - 1:,} of its column, which rados hardly tell apart then: {values}"
        f"{more}; correct it, or declare bounds for its column (--schema), which clip it"
    )
