"""A schema proposed from a table itself, in one pass over its raw cells: for plain releases.

It tells some of the table, is marked so, and private mechanisms refuse it. What is taken from the table: the smallest
and the largest number, the exact mean where some are missing, the values of categories, and where gaps are.
"""

import math
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from radoboost.errors import DoesNotFit, TableError
from radoboost.holder.column_profile import (
    CategoryProfile,
    ColumnProfile,
    DateProfile,
    NumberProfile,
    exact_column_mean,
    find_unparsable_cells,
    number_marks_to_try,
    profiles_with_columns,
)
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.grid import ExactSums
from radoboost.progress import Progress, silent
from radoboost.tables.cells import gap_label_cells, is_text
from radoboost.tables.column_selection import column_name_looks_like_id, list_names, stored_type, words_of_column_name
from radoboost.tables.column_types import MOST_VALUES, ORDERS, PRIVATE, Category, Date, Ignored, Kind, Number
from radoboost.tables.csv_dialect import PLAIN, CsvDialect
from radoboost.tables.labels import ADVICE, LabelCollector, rows_without_label
from radoboost.tables.object_columns import missing_cells
from radoboost.tables.raw_table import LOOKING, RawTable, open_raw_table, raw_column_types
from radoboost.tables.schema import Schema
from radoboost.tables.streams import spool_for_rereading

# ---- What the columns of a table may mean, by their names and storage types alone: no value is looked at.

_DATES = {"date", "datetime", "timestamp", "dob", "birth", "birthday", "birthdate", "born", "admitted", "discharged"}
_DATE_ENDS = {"at", "on", "time", "date", "day"}
_TEXTS = {"name", "surname", "firstname", "lastname", "note", "notes", "comment", "comments", "text", "description"}
_TEXTS |= {"remark", "remarks", "address", "street", "email", "mail", "phone", "url"}
_CATEGORIES = {"sex", "gender", "ward", "type", "category", "code", "status", "class", "country", "region", "city"}
_CATEGORIES |= {"clinic", "department", "hospital", "site", "race", "ethnicity", "diagnosis", "group", "kind", "state"}
_CATEGORIES |= {"language", "occupation", "insurance", "zip", "postcode", "colour", "color", "province", "district"}


def infer_kind_by_name(name: str, stored: pa.DataType | None) -> Kind:
    """The kind of a column by its name and storage type; what must be decided about it stays open."""
    if stored is not None and pa.types.is_dictionary(stored) and stored_type(stored.value_type) != "text":
        return Ignored("id") if column_name_looks_like_id(name) else Category()  # whoever made it a dictionary says so
    while stored is not None and (pa.types.is_dictionary(stored) or pa.types.is_run_end_encoded(stored)):
        stored = stored.value_type
    if stored is not None:
        if pa.types.is_boolean(stored):
            return Number(0, 1)
        if pa.types.is_date(stored) or pa.types.is_timestamp(stored):
            return Date()
        if pa.types.is_floating(stored) or pa.types.is_decimal(stored):
            return Ignored("id") if column_name_looks_like_id(name) else Number()
        if not (is_text(stored) or pa.types.is_integer(stored)):
            return Ignored("text")  # nested, durations, times: no kind of column reads them
    words = set(words_of_column_name(name))
    last = next(iter(words_of_column_name(name)[::-1]), "")
    whole = stored is not None and pa.types.is_integer(stored)
    if column_name_looks_like_id(name):
        return Ignored("id")
    if not whole and (words & _DATES or last in _DATE_ENDS):
        return Date()
    if not whole and words & _TEXTS:
        return Ignored("text")
    if words & _CATEGORIES or (stored is not None and not whole):
        return Category()
    return Number()


def column_names_in_doubt(names: Sequence[str]) -> dict[str, str]:
    """The columns that hold no numbers as it seems, by their names alone, with what they may be."""
    kinds = {name: infer_kind_by_name(name, None).kind for name in names}
    return {name: kind for name, kind in kinds.items() if kind != "number"}


def doubtful_numbers_text(names: Sequence[str]) -> str | None:
    """A sentence on columns that are read as numbers though their names say id, date or text; None if none does.

    Categories are often written as numbers, so their names are no reason.
    """
    doubts = {name: kind for name, kind in column_names_in_doubt(names).items() if kind != "category"}
    if not doubts:
        return None
    one, kinds = len(doubts) == 1, " or ".join(dict.fromkeys(doubts.values()))
    options = " ".join(f"--drop {shlex.quote(name)}" for name in list(doubts)[:4])
    return (
        f"{list_names(list(doubts))} {'is read as a number' if one else 'are read as numbers'}, though by "
        f"{'its name it is' if one else 'their names they are'} of the kind {kinds}; if so, leave "
        f"{'it' if one else 'them'} out: {options}{' ...' if len(doubts) > 4 else ''}"
    )


def schema_template(table: Any, label: str | None = None, separator: str | None = None) -> Schema:
    """A schema to fill in: which columns there are, and what they may be, without a look at any value.

    >>> template = schema_template(pa.table({"age": [30.0], "ward": ["A"], "ill": ["no"]}), "ill")
    >>> [(name, kind.kind) for name, kind in template.columns.items()], list(template.undecided())
    ([('age', 'number'), ('ward', 'category')], ['age', 'ward'])
    """
    types = raw_column_types(table, separator)
    check_label_is_column(label, list(types))
    kinds = {name: infer_kind_by_name(name, stored) for name, stored in types.items() if name != label}
    return Schema(kinds, label, separator=separator)


def check_label_is_column(label: str | None, names: list[str]) -> None:
    if label is not None and label not in names:
        raise TableError(f"the table has no column {label!r} for the label; its columns are {list_names(names)}")


_DAY = 86400
_FEW_VALUES = 20  # of a category; where there are more, they may be numbers with an odd cell among them
_TITLES = {"number": "numbers", "category": "categories", "date": "dates"}


@dataclass(frozen=True, eq=False)
class InferredSchema:
    """A schema made from a table, and what it goes by, in words for each column.

    `gaps` is the share of cells that are missing, and `fills` what they are filled with. `nearly` are columns that are
    left out on account of a few cells that are no numbers.
    """

    schema: Schema
    notes: Mapping[str, str]
    gaps: Mapping[str, float]
    fills: Mapping[str, str]
    nearly: Mapping[str, str] = field(default_factory=dict)
    unlabelled: int = 0  # rows that were left out, for they have no label

    def refuse_nearly_numbers(self) -> None:
        """Refuse to leave out columns that are numbers but for a few cells, and name all of them."""
        if self.nearly:
            columns = "; ".join(
                f"column {name!r} is nearly all numbers, but {why}" for name, why in self.nearly.items()
            )
            drops = " ".join(f"--drop {name}" for name in self.nearly)
            raise TableError(
                f"{columns}; correct that, give the decimal mark (--set decimal=,), or leave the column out ({drops}; "
                "in a "
                'schema "kind": "text")'
            )

    def _note(self, name: str, filled: bool) -> str:
        """What a column goes by, in brackets."""
        words = [self.notes[name]]
        if self.gaps[name] and self.schema.columns[name].kind in _TITLES:
            fill = f" filled with {self.fills[name]}" if filled and self.fills[name] else ""
            words.append(f"{100 * self.gaps[name]:.1f} % gaps{fill}")
        note = ", ".join(word for word in words if word)
        return f"{name} ({note})" if note else name

    def as_text(self, *, filled: bool = True) -> list[str]:
        """What each column is taken for: a line for each kind, and one for how a CSV file is written.

        Without `filled`, nothing is said of what gaps are filled with.
        """
        lines: dict[str, list[str]] = {title: [] for title in (*_TITLES.values(), "left out")}
        for name, kind in self.schema.columns.items():
            lines[_TITLES.get(kind.kind, "left out")].append(self._note(name, filled))
        words = [f"{title}: {_shortened_word_list(parts)}" for title, parts in lines.items() if parts]
        marks = {"separator": self.schema.separator, "thousands mark": self.schema.thousands}
        marks["decimal mark"] = None if self.schema.decimal == "." else self.schema.decimal
        if marks["separator"] == ",":
            del marks["separator"]
        written = [f"{what} {mark!r}" for what, mark in marks.items() if mark is not None]
        words += [f"written with: {', '.join(written)}"] if written else []
        return words + ([f"without a label, and left out: {self.unlabelled:,} rows"] if self.unlabelled else [])


def _shortened_word_list(parts: Sequence[str]) -> str:
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
    >>> schema.columns["age"].bounds(), schema.columns["age"].fill, schema.columns["ward"].values, schema.classes
    ((30, 41), 35.5, ('A', 'B'), ('no', 'yes'))
    """
    return infer_schema(table, label, features=features, drop=drop, classes=classes).schema


def infer_schema(
    table: Any,
    label: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    classes: Sequence[Any] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    skip_unlabelled: bool = False,
    advice: str = ADVICE,
    engine: Engine | None = None,
    bar: Progress = silent,
) -> InferredSchema:
    """A proposal, with what it goes by; see `propose_schema`. Marks that are given are not looked for.

    With `skip_unlabelled`, rows without a label are no reason to stop; else `advice` says what to do about them. `bar`
    is told how far the look is, and may raise to end it.
    """
    with spool_for_rereading(table, bar=bar) as rows:
        seen = None if label is None else LabelCollector(label, classes, advice=advice)
        return _infer_schema(rows, seen, features, drop, separator, decimal, skip_unlabelled, engine, bar)


def _infer_schema(
    table: Any,
    labels: LabelCollector | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
    separator: str | None,
    decimal: str | None,
    skip_unlabelled: bool,
    engine: Engine | None,
    bar: Progress,
) -> InferredSchema:
    label = None if labels is None else labels.name
    bar(LOOKING, 0, None)
    raw = open_raw_table(table, None, separator)
    check_label_is_column(label, list(raw.columns))
    names = _columns_to_infer(raw.columns, label, features, drop)
    if {*names, label} - {None} != set(raw.columns):
        raw = open_raw_table(table, [*names, *([] if label is None else [label])], separator)
    marks = [pair for pair in number_marks_to_try(raw.separator) if decimal is None or pair.decimal == decimal]
    machine = engine or get_engine("auto")
    looks, unlabelled = _profile_columns(raw, names, machine, marks, labels, skip_unlabelled, bar)
    chosen = _infer_common_marks(looks, marks)
    kinds = {name: _infer_column(look, chosen, named=features is not None) for name, look in looks.items()}
    texts = [name for name, found in kinds.items() if _text_may_be_numbers(looks[name], found.kind)]
    odd = find_unparsable_cells(open_raw_table(table, texts, separator), texts, chosen, bar) if texts else {}
    kinds |= {
        name: _Found(Ignored("text"), f"text: {cells.words}")
        for name, cells in odd.items()
        if cells.nearly or kinds[name].kind.kind == "text"
    }
    schema = Schema(
        {name: replace(found.kind, inferred=True) for name, found in kinds.items()},
        label,
        None if labels is None else tuple(labels.settle().classes),
        raw.separator,
        chosen.decimal,
        chosen.thousands,
        inferred=("dialect",) if labels is None or labels.classes is not None else ("classes", "dialect"),
    )
    shares = {name: look.missing / max(1, look.rows) for name, look in looks.items()}
    notes, fills = ({name: getattr(found, part) for name, found in kinds.items()} for part in ("note", "fill"))
    nearly = {name: cells.words for name, cells in odd.items() if cells.nearly}
    return InferredSchema(schema, notes, shares, fills, nearly, unlabelled)


def _columns_to_infer(
    names: Sequence[str], label: str | None, features: Sequence[str] | None, drop: Sequence[str]
) -> list[str]:
    """The columns to propose for; `drop` may name columns that are not there, as folders do."""
    wanted = [features] if isinstance(features, str) else features
    left = {label, *([drop] if isinstance(drop, str) else drop)}
    return [name for name in (names if wanted is None else wanted) if name not in left]


def _profile_columns(
    raw: RawTable,
    names: Sequence[str],
    engine: Engine,
    marks: Sequence[CsvDialect],
    labels: LabelCollector | None,
    skip_unlabelled: bool,
    bar: Progress,
) -> tuple[dict[str, ColumnProfile], int]:
    """One pass over the raw cells: the columns, and how many rows without a label were left out."""
    looks: dict[str, ColumnProfile] = {}
    n_rows = unlabelled = 0
    for batch in raw.batches(bar):
        if not looks:
            looks = {name: _start_profile(name, batch.columns.schema.field(name).type, engine, marks) for name in names}
        total = raw.source.expected_rows(n_rows)
        absent = np.zeros(batch.columns.num_rows, dtype=bool)
        if labels is not None:
            column = _labels_for_profile(batch.columns.column(labels.name), raw.separator is not None)
            absent = rows_without_label(column, labels.classes) & skip_unlabelled
            labels.see(column.filter(pa.array(~absent)) if absent.any() else column, batch.place)
        unlabelled += int(absent.sum())
        for look, column in profiles_with_columns(batch.columns, looks):
            bar(LOOKING, n_rows, total)  # of the first rows each column is tried as everything, which takes long
            look.see(column.filter(pa.array(~absent)) if absent.any() else column)
        n_rows += batch.columns.num_rows
    raw.source.check_rows(n_rows)
    return looks, unlabelled


def _labels_for_profile(column: pa.Array, of_csv: bool) -> pa.Array:
    """Labels, null where a cell of a CSV file says that one is missing."""
    return pc.if_else(pa.array(gap_label_cells(column)), pa.scalar(None, column.type), column) if of_csv else column


def _start_profile(name: str, stored: pa.DataType, engine: Engine, marks: Sequence[CsvDialect]) -> ColumnProfile:
    inner, coded = stored, pa.types.is_dictionary(stored)
    while pa.types.is_dictionary(inner) or pa.types.is_run_end_encoded(inner):
        inner = inner.value_type
    if is_text(inner) and "binary" not in str(inner):
        return ColumnProfile(name, inner, NumberProfile(engine, marks), DateProfile(), CategoryProfile(), coded)
    if pa.types.is_date(inner) or pa.types.is_timestamp(inner):
        return ColumnProfile(name, inner, None, DateProfile([ORDERS[0]]), None)
    if stored_type(inner) != "text":
        if coded:
            return ColumnProfile(name, inner, None, None, CategoryProfile(), coded)
        values = CategoryProfile() if column_name_looks_like_id(name) and pa.types.is_integer(inner) else None
        return ColumnProfile(name, inner, NumberProfile(engine, marks[:1]), None, values)
    return ColumnProfile(name, inner, None, None, None)


def _infer_common_marks(looks: Mapping[str, ColumnProfile], marks: Sequence[CsvDialect]) -> CsvDialect:
    """The marks under which most columns of text are numbers: those of a file are the same in all its columns."""
    texts = [look.numbers for look in looks.values() if look.numbers is not None and is_text(look.kind)]
    votes = Counter(pair for numbers in texts for pair in numbers.alive)
    return max(marks, key=lambda pair: votes[pair])  # of equal ones, the first


# ---- what a column is


class _Found(NamedTuple):
    """What a column is, what that goes by in words, and what its gaps are filled with."""

    kind: Kind
    note: str = ""
    fill: str = ""


def _infer_column(look: ColumnProfile, marks: CsvDialect, named: bool) -> _Found:
    """What a column is; one that the caller `named` is no id."""
    numbers, values, is_id = look.numbers, look.values, not named and column_name_looks_like_id(look.name)
    if look.present == 0:
        return _Found(Ignored("text"), "nothing in it")
    if look.coded and look.n_values and not (is_id and look.n_values == look.present > 1):
        return _infer_category(look, marks)  # its type says so
    if numbers is not None and (key := marks if is_text(look.kind) else PLAIN) in numbers.alive:
        if is_id and numbers.whole:
            few = values is not None and values.values is not None and len(values.values) < look.present
            return _infer_category(look, marks) if few else _Found(Ignored("id"), "id")
        return _infer_number(numbers.exact(key), look.missing > 0)
    if look.dates is not None and look.dates.alive:
        return _infer_date(look.dates, look.missing > 0, is_text(look.kind))
    if values is not None and values.values is not None:
        apart = is_id and len(values.values) == look.present > 1
        return _Found(Ignored("id"), "id") if apart else _infer_category(look, marks)
    if is_id:
        return _Found(Ignored("id"), "id")
    if look.numbers is None and values is None:
        return _Found(Ignored("text"), str(look.kind))  # of a type that no kind of column reads
    return _Found(
        Ignored("text"), f"a category of more than {MOST_VALUES} values" if look.coded else "text, many values"
    )


def _text_may_be_numbers(look: ColumnProfile, kind: Kind) -> bool:
    """Whether a column of texts is left out, or is a category of so many values that these may be numbers."""
    if look.present == 0 or look.numbers is None or not is_text(look.kind):
        return False
    return kind == Ignored("text") or (isinstance(kind, Category) and not look.coded and look.n_values > _FEW_VALUES)


def _infer_category(look: ColumnProfile, marks: CsvDialect) -> _Found:
    assert look.values is not None
    values = look.values.ordered(marks)
    return _Found(Category(values, gaps=look.missing > 0), f"{len(values)} value{'s' if len(values) > 1 else ''}")


def _infer_number(sums: ExactSums, some: bool) -> _Found:
    mean = exact_column_mean(sums)
    if mean is None:  # all that is there is infinite, and will be refused
        return _Found(Number(gaps=some))
    low, high = float(sums.lowest[0]), float(sums.highest[0])
    number = Number(fill=_drop_decimal_point(mean), gaps=some)
    if low < high and math.isfinite(2 * (high - low)):
        number = replace(number, low=_drop_decimal_point(low), high=_drop_decimal_point(high))
    return _Found(number, "", f"the mean {mean:.3g}")


def _drop_decimal_point(value: float) -> float:
    """A whole number without a point, as a person would write it."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _infer_date(dates: DateProfile, some: bool, text: bool) -> _Found:
    order = next(order for order in ORDERS if order in dates.alive)
    first, last, total = dates.found(order)
    words = {"dmy": "day before month", "mdy": "month before day"}.get(order, "") if text else ""
    if order == "dmy" and "mdy" in dates.alive:
        words += ", which no date in it decides"
    low, high = _seconds_as_iso_date(first), _seconds_as_iso_date(last)
    if first == last or None in (low, high):
        low = high = None
    fill = _seconds_as_iso_date(_round_to_whole_day(total, dates.n_dates))
    return _Found(Date(order=order, low=low, high=high, fill=fill, gaps=some), words, fill or "")


def _round_to_whole_day(total: int, count: int) -> int:
    """The whole day nearest to the mean, in seconds; half a day rounds up."""
    return (2 * total + _DAY * count) // (2 * _DAY * count) * _DAY


def _seconds_as_iso_date(seconds: int) -> str | None:
    """Seconds since the first of January 1970 as an ISO date, with a time where there is one; None beyond the years."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return (moment.date() if seconds % _DAY == 0 else moment.replace(tzinfo=None)).isoformat()


# ---- what a written schema leaves open


def settle_schema(
    schema: Schema,
    table: Any,
    engine: Engine | None = None,
    withheld: Collection[str] = (),
    bar: Progress = silent,
) -> Schema:
    """A written schema with what it leaves open taken from the table, for plain releases; but nothing of `withheld`.

    Values of a category are those that occur, and fills are exact means. A schema that leaves nothing open is returned
    as it is, without a look at the table; otherwise it is marked as made from data.
    """
    open_columns = [name for name, kind in schema.columns.items() if _kind_is_undecided(kind) and name not in withheld]
    if not open_columns:
        return schema
    open_raw_table(table, schema.used, schema.separator)  # refused if any is not there
    raw = open_raw_table(table, open_columns, schema.separator)
    marks = CsvDialect(None, schema.decimal, schema.thousands)
    machine = engine or get_engine("auto")
    looks = {name: _profile_to_settle_kind(name, schema.columns[name], marks, machine) for name in open_columns}
    for batch in raw.batches(bar):
        for look, column in profiles_with_columns(batch.columns, looks):
            look.see(column, missing_cells(schema.columns[look.name], column, marks, typed=raw.separator is None))
    categories = {name: look.values for name, look in looks.items() if look.values is not None}
    many = [name for name, look in categories.items() if look.values is None]
    if many:
        raise DoesNotFit(
            f"{list_names(many)}: more than {MOST_VALUES} values, which is too many for a category; write the most "
            'frequent as values with "other": true, or leave the column out with "kind": "text"'
        )
    empty = [name for name in categories if looks[name].present == 0]
    if empty:
        raise DoesNotFit(f'{list_names(empty)}: no value in any row; leave the column out with "kind": "text"')
    settled = {name: _settle_kind(schema.columns[name], looks[name], marks) for name in open_columns}
    return replace(schema, columns={**schema.columns, **settled})


def _kind_is_undecided(kind: Kind) -> bool:
    if isinstance(kind, Category):
        return kind.values is None
    return isinstance(kind, Number | Date) and kind.fill is None and PRIVATE not in (kind.low, kind.high)


def _profile_to_settle_kind(name: str, kind: Kind, marks: CsvDialect, engine: Engine) -> ColumnProfile:
    if isinstance(kind, Category):
        return ColumnProfile(name, pa.null(), None, None, CategoryProfile(key=kind.key))
    if isinstance(kind, Date):
        return ColumnProfile(name, pa.null(), None, DateProfile([kind.order]), None)
    assert isinstance(kind, Number)
    return ColumnProfile(name, pa.null(), NumberProfile(engine, [kind.dialect(marks)]), None, None)


def _settle_kind(kind: Kind, look: ColumnProfile, marks: CsvDialect) -> Kind:
    """The kind with what was open; a cell that cannot be read leaves it open, and is refused when the table is read."""
    if isinstance(kind, Category):
        assert look.values is not None
        return replace(kind, values=look.values.ordered(marks), inferred=True)
    if isinstance(kind, Date):
        assert look.dates is not None
        if not look.dates.alive or not look.dates.n_dates:
            return kind
        fill = _seconds_as_iso_date(_round_to_whole_day(look.dates.found(kind.order)[2], look.dates.n_dates))
        return replace(kind, fill=fill, inferred=True)
    assert isinstance(kind, Number) and look.numbers is not None
    marks = kind.dialect(marks)
    if marks not in look.numbers.alive:
        return kind
    mean = exact_column_mean(look.numbers.exact(marks))
    return kind if mean is None else replace(kind, fill=_drop_decimal_point(mean), inferred=True)
