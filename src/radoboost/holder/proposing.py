"""A schema proposed from a table itself, in one pass over its raw cells: for plain releases.

It tells some of the table, is marked so, and private mechanisms refuse it. What is taken from the table: the smallest
and the largest number, the exact mean where some are missing, the values of categories, and where gaps are.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from radoboost.errors import TableError
from radoboost.holder.column_looks import (
    PLAIN_MARKS,
    ColumnLook,
    DateLook,
    Marks,
    NumberLook,
    ValueLook,
    columns_of,
    exact_mean,
    marks_to_try,
)
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.grid import ExactSums
from radoboost.holder.guessing import check_label, says_id
from radoboost.tables.cells import gaps, is_text
from radoboost.tables.columns import listed, storage
from radoboost.tables.kinds import MOST_VALUES, ORDERS, PRIVATE, Category, Date, Kind, Left, Number
from radoboost.tables.labels import LabelsSeen
from radoboost.tables.raw import RawTable, raw_table
from radoboost.tables.schema import Schema

_DAY = 86400


@dataclass(frozen=True, eq=False)
class Proposal:
    """A schema made from a table, and what it goes by: words for each column, in the order of the table."""

    schema: Schema
    notes: Mapping[str, str]

    def in_words(self) -> list[str]:
        """What each column is taken for: a line for each kind, and one for how a CSV file is written."""
        titles = {"number": "numbers", "category": "categories", "date": "dates"}
        lines: dict[str, list[str]] = {title: [] for title in (*titles.values(), "left out")}
        for name, kind in self.schema.columns.items():
            note = self.notes.get(name, "")
            lines[titles.get(kind.kind, "left out")].append(f"{name} ({note})" if note else name)
        words = [f"{title}: {_listed(parts)}" for title, parts in lines.items() if parts]
        marks = {"separator": self.schema.separator, "thousands mark": self.schema.thousands}
        marks["decimal mark"] = None if self.schema.decimal == "." else self.schema.decimal
        if marks["separator"] == ",":
            del marks["separator"]
        written = [f"{what} {mark!r}" for what, mark in marks.items() if mark is not None]
        return words + ([f"written with: {', '.join(written)}"] if written else [])


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:12]) + (f" and {len(parts) - 12} more" if len(parts) > 12 else "")


def propose_schema(
    table: Any,
    label: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    classes: Sequence[Any] | None = None,
) -> Schema:
    """A schema made from the table itself, for plain releases; private mechanisms refuse it.

    Numbers get the smallest and the largest value as bounds, categories the values that occur (at most 64), and dates
    the order of day, month and year that reads them all. Gaps are filled with the exact mean, and get a column that
    says where they are. Ids, and texts with more values, are left out.

    >>> table = pa.table({"age": [30.0, None, 41.0], "ward": ["B", "A", "A"], "ill": ["no", "yes", "no"]})
    >>> schema = propose_schema(table, "ill")
    >>> schema.columns["age"], schema.columns["ward"].values, schema.classes
    (Number(low=30, high=41, fill=35.5, gaps=True, terms=None), ('A', 'B'), ('no', 'yes'))
    """
    return propose(table, label, features=features, drop=drop, classes=classes).schema


def propose(
    table: Any,
    label: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    classes: Sequence[Any] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    engine: Engine | None = None,
) -> Proposal:
    """A proposal, with what it goes by; see `propose_schema`. Marks that are given are not looked for."""
    raw = raw_table(table, None, separator)
    check_label(label, list(raw.columns))
    names = _chosen(raw.columns, label, features, drop)
    raw = raw_table(table, [*names, *([] if label is None else [label])], separator)
    marks = [pair for pair in marks_to_try(raw.separator) if decimal is None or pair[0] == decimal]
    labels = None if label is None else LabelsSeen(label, classes)
    looks = _look(raw, names, engine or get_engine("auto"), marks, labels)
    chosen = _common_marks(looks, marks)
    kinds = {name: _kind(look, chosen) for name, look in looks.items()}
    schema = Schema(
        {name: kind for name, (kind, _) in kinds.items()},
        label,
        None if labels is None else tuple(labels.settle().classes),
        raw.separator,
        *chosen,
        from_data=True,
    )
    return Proposal(schema, {name: note for name, (_, note) in kinds.items()})


def _chosen(names: Sequence[str], label: str | None, features: Sequence[str] | None, drop: Sequence[str]) -> list[str]:
    """The columns to propose for; `drop` may name columns that are not there, as folders do."""
    wanted = [features] if isinstance(features, str) else features
    left = {label, *([drop] if isinstance(drop, str) else drop)}
    return [name for name in (names if wanted is None else wanted) if name not in left]


def _look(
    raw: RawTable, names: Sequence[str], engine: Engine, marks: Sequence[Marks], labels: LabelsSeen | None
) -> dict[str, ColumnLook]:
    """One pass over the raw cells."""
    looks: dict[str, ColumnLook] = {}
    n_rows = 0
    for batch in raw.batches():
        if not looks:
            looks = {name: _start(name, batch.columns.schema.field(name).type, engine, marks) for name in names}
        for look, column in columns_of(batch.columns, looks):
            look.see(column)
        if labels is not None:
            labels.see(_labels(batch.columns.column(labels.name), raw.separator is not None), batch.place)
        n_rows += batch.columns.num_rows
    raw.source.check_rows(n_rows)
    return looks


def _labels(column: pa.Array, of_csv: bool) -> pa.Array:
    """Labels, null where a cell of a CSV file says that one is missing."""
    return pc.if_else(pa.array(gaps(column)), pa.scalar(None, column.type), column) if of_csv else column


def _start(name: str, stored: pa.DataType, engine: Engine, marks: Sequence[Marks]) -> ColumnLook:
    """What there is to note about a column of this type."""
    inner = stored
    while pa.types.is_dictionary(inner) or pa.types.is_run_end_encoded(inner):
        inner = inner.value_type
    if is_text(inner) and "binary" not in str(inner):
        return ColumnLook(name, inner, NumberLook(engine, marks), DateLook(), ValueLook())
    if pa.types.is_date(inner) or pa.types.is_timestamp(inner):
        return ColumnLook(name, inner, None, DateLook({ORDERS[0]: []}), None)
    if storage(inner) != "text":
        values = ValueLook() if says_id(name) and pa.types.is_integer(inner) else None
        return ColumnLook(name, inner, NumberLook(engine, marks[:1]), None, values)
    return ColumnLook(name, inner, None, None, None)


def _common_marks(looks: Mapping[str, ColumnLook], marks: Sequence[Marks]) -> Marks:
    """The marks under which most columns of text are numbers: those of a file are the same in all its columns."""
    texts = [look.numbers for look in looks.values() if look.numbers is not None and is_text(look.kind)]
    votes = Counter(pair for numbers in texts for pair in numbers.alive)
    return max(marks, key=lambda pair: votes[pair])  # of equal ones, the first


# ---- what a column is


def _kind(look: ColumnLook, marks: Marks) -> tuple[Kind, str]:
    """The kind of a column, and what it goes by in words."""
    some = look.missing > 0
    share = f"{100 * look.missing / look.rows:.1f} % gaps" if some else ""
    numbers = look.numbers
    if look.present == 0:
        return Left("text"), "nothing in it"
    if numbers is not None and (key := marks if is_text(look.kind) else PLAIN_MARKS) in numbers.alive:
        if says_id(look.name) and numbers.whole:
            return _whole_id(look, some, share)
        return _number(numbers.exact(key), some, share)
    if look.dates is not None and look.dates.alive:
        return _date(look.dates, some, share, is_text(look.kind))
    values = look.values
    if values is not None and values.values is not None:
        if says_id(look.name) and len(values.values) == look.present > 1:
            return Left("id"), "id"
        count = f"{len(values.values)} value{'s' if len(values.values) > 1 else ''}"
        return Category(values.ordered(), gaps=some), ", ".join(filter(None, (count, share)))
    if says_id(look.name):
        return Left("id"), "id"
    if numbers is not None and 2 * numbers.readable > look.present:
        others = look.present - numbers.readable
        return Left("text"), f"text: {others:,} of {look.present:,} cells are no numbers, the first is {look.odd!r}"
    return Left("text"), "text, many values" if is_text(look.kind) else str(look.kind)


def _whole_id(look: ColumnLook, some: bool, share: str) -> tuple[Kind, str]:
    """Whole numbers that are called ids: names of something, not amounts."""
    values = look.values
    if values is None or values.values is None or len(values.values) == look.present:
        return Left("id"), "id"
    return Category(values.ordered(), gaps=some), ", ".join(filter(None, (f"{len(values.values)} values", share)))


def _number(sums: ExactSums, some: bool, share: str) -> tuple[Kind, str]:
    mean = exact_mean(sums)
    low, high = float(sums.lowest[0]), float(sums.highest[0])
    bounded = low < high and math.isfinite(2 * (high - low))
    note = f"{share} filled with the mean {mean:.3g}" if some and mean is not None else share
    fill = None if mean is None else _short(mean)
    return (Number(_short(low), _short(high), fill, some) if bounded else Number(fill=fill, gaps=some)), note


def _short(value: float) -> float:
    """A whole number without a point, as a person would write it."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _date(dates: DateLook, some: bool, share: str, text: bool) -> tuple[Kind, str]:
    order = next(order for order in ORDERS if order in dates.alive)
    first, last, total = dates.alive[order]
    words = {"dmy": "day before month", "mdy": "month before day"}.get(order, "") if text else ""
    if order == "dmy" and "mdy" in dates.alive:
        words += ", which no date in it decides"
    low, high = _iso(first), _iso(last)
    fill = _iso(_rounded(total, dates.n_dates))
    if first == last or None in (low, high):
        low = high = None
    note = ", ".join(filter(None, (words, f"{share} filled with {fill}" if some else "")))
    return Date(order=order, low=low, high=high, fill=fill, gaps=some), note


def _rounded(total: int, count: int) -> int:
    """The whole day nearest to the mean, in seconds; half a day rounds up."""
    return (2 * total + _DAY * count) // (2 * _DAY * count) * _DAY


def _iso(seconds: int) -> str | None:
    """Seconds since the first of January 1970 as an ISO date, with a time where there is one; None beyond the years."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return (moment.date() if seconds % _DAY == 0 else moment.replace(tzinfo=None)).isoformat()


# ---- what a written schema leaves open


def settle_schema(schema: Schema, table: Any, engine: Engine | None = None) -> Schema:
    """A written schema with what it leaves open taken from the table, for plain releases.

    Values of a category are those that occur, and fills are exact means. A schema that leaves nothing open is returned
    as it is, without a look at the table; otherwise it is marked as made from data.

    >>> schema = Schema({"ward": Category(), "age": Number(0, 120, fill=50)})
    >>> settled = settle_schema(schema, {"ward": ["B", "A", "B"], "age": [1, 2, 3]})
    >>> settled.columns["ward"].values, settled.from_data
    (('A', 'B'), True)
    """
    open_columns = [name for name, kind in schema.columns.items() if _is_open(kind)]
    if not open_columns:
        return schema
    raw = raw_table(table, open_columns, schema.separator)
    marks = (schema.decimal, schema.thousands)
    machine = engine or get_engine("auto")
    looks = {name: _settling_look(name, schema.columns[name], marks, machine) for name in open_columns}
    for batch in raw.batches():
        for look, column in columns_of(batch.columns, looks):
            look.see(column)
    categories = {name: look.values for name, look in looks.items() if look.values is not None}
    many = [name for name, look in categories.items() if look.values is None]
    if many:
        raise TableError(
            f"{listed(many)}: more than {MOST_VALUES} values, which is too many for a category; write the most "
            'frequent as values with "other": true, or leave the column out with "kind": "text"'
        )
    empty = [name for name in categories if looks[name].present == 0]
    if empty:
        raise TableError(f'{listed(empty)}: no value in any row; leave the column out with "kind": "text"')
    settled = {name: _settled(schema.columns[name], looks[name], marks) for name in open_columns}
    return replace(schema, columns={**schema.columns, **settled}, from_data=True)


def _is_open(kind: Kind) -> bool:
    if isinstance(kind, Category):
        return kind.values is None
    return isinstance(kind, Number | Date) and kind.fill is None and PRIVATE not in (kind.low, kind.high)


def _settling_look(name: str, kind: Kind, marks: Marks, engine: Engine) -> ColumnLook:
    if isinstance(kind, Category):
        return ColumnLook(name, pa.null(), None, None, ValueLook())
    if isinstance(kind, Date):
        return ColumnLook(name, pa.null(), None, DateLook({kind.order: []}), None)
    return ColumnLook(name, pa.null(), NumberLook(engine, [marks]), None, None)


def _settled(kind: Kind, look: ColumnLook, marks: Marks) -> Kind:
    """The kind with what was open; a cell that cannot be read leaves it open, and is refused when the table is read."""
    if isinstance(kind, Category):
        assert look.values is not None
        return replace(kind, values=look.values.ordered())
    if isinstance(kind, Date):
        assert look.dates is not None
        found = look.dates.alive.get(kind.order)
        return replace(kind, fill=_iso(_rounded(found[2], look.dates.n_dates))) if found else kind
    assert isinstance(kind, Number) and look.numbers is not None
    if marks not in look.numbers.alive:
        return kind
    mean = exact_mean(look.numbers.exact(marks))
    return kind if mean is None else replace(kind, fill=_short(mean))
