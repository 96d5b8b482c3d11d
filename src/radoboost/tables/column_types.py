"""What kinds of columns a raw table has, and which encoded columns each of them becomes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from radoboost.errors import ArgumentError
from radoboost.tables.class_values import NOT_A_NUMBER, fold_case, folded_key, includes_nan, value_key
from radoboost.tables.column_selection import list_names
from radoboost.tables.csv_dialect import DECIMALS, PLAIN, THOUSANDS, CsvDialect

MOST_VALUES = 64  # of a category
PRIVATE = "private"  # in place of bounds: to be found by noisy counts
UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
ORDERS = ("ymd", "dmy", "mdy")
PARTS = {
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
}
READING = ("missing", "beyond", "decimal", "thousands", "fold", "synonyms")  # entries on how cells are read
ORIGIN = "1970-01-01"
FIRST, LAST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, in seconds; no other moment is a date
CLIP, GAP = "clip", "gap"  # what becomes of a number beyond its bounds; "gap" also of a category's unknown values
TERMS = ("linear", "signed-log")  # of one column, besides squares and products
SQUARE = "square"  # of one column too: in a schema, its product with itself
_SLOT = (-1.0, 1.0)  # declared bounds that leave 0 and 1 as they are


@dataclass(frozen=True)
class EncodedColumn:
    """One encoded column: where it comes from, its bounds, and the group of 0/1 columns that it belongs to, if any.

    `low` and `high` are None where nobody declared them, and the word "private" where they are to be found.
    """

    name: str
    column: str
    group: str = ""
    low: Any = None
    high: Any = None


class OneHot(NamedTuple):
    """All columns of 0 and 1 that a category becomes, as a factor of products; their values may not be known yet."""

    group: str


Factor = str | OneHot
Word = str | tuple[Factor, Factor]
"""What is made of a column: a word such as "signed-log", or a product of two factors."""


@dataclass(frozen=True)
class Number:
    """A column of numbers. A missing one is replaced by `fill`; with `gaps`, a column of 0 and 1 says where.

    `missing` are numbers that stand for a gap, such as 999. With `beyond` of "gap" a number beyond the declared bounds
    is a gap, and is not clipped. `decimal` and `thousands` say how its texts are written, if not as those of the file.
    `inferred`, of every kind, says that some of this entry was read off the table, so no promise is made on it.
    """

    low: Any = None
    high: Any = None
    fill: float | None = None
    gaps: bool = False
    terms: tuple[str, ...] | None = None
    inferred: bool = False
    missing: tuple[float, ...] = ()
    beyond: str = CLIP
    decimal: str | None = None
    thousands: str | None = None

    kind = "number"

    def dialect(self, marks: CsvDialect) -> CsvDialect:
        """How its texts are written: as declared, or as those of the file are."""
        if self.decimal is None and self.thousands is None:
            return marks
        return replace(marks, decimal=self.decimal or marks.decimal, thousands=self.thousands)

    def bounds(self) -> tuple[Any, Any]:
        """`low` and `high` as they are."""
        return self.low, self.high

    def codes(self) -> list[float]:
        """The numbers that stand for a gap."""
        return [float(code) for code in self.missing]

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """The number, and where it is missing."""
        yield EncodedColumn(name, name, "", self.low, self.high)
        yield from _missing_indicator_column(name, self.gaps)

    def problems(self) -> Iterator[str]:
        """What is wrong with it, in words."""
        yield from _bounds_problems(self.low, self.high, is_finite_bound, "numbers")
        if self.fill is not None and not is_finite_bound(self.fill):
            yield f"fill must be a finite number; it is {self.fill!r}"
        if self.decimal not in (None, *DECIMALS):
            yield f"decimal must be '.' or ','; it is {self.decimal!r}"
        if self.thousands not in (None, *THOUSANDS):
            yield f"thousands must be one of . , ' _ or a space; it is {self.thousands!r}"
        yield from _gap_rule_problems(self, is_finite_bound, "numbers, such as [999, -1]")
        yield from _column_terms_problems(self.terms)

    def with_fill(self, number: float) -> "Number":
        """The same, with missing values replaced by a number, unless something is declared or a column says where."""
        return self if self.gaps or self.fill is not None else replace(self, fill=number)

    def fill_text(self) -> str:
        return f"{self.filled():.6g}"

    def filled(self) -> float:
        """What a missing value is replaced by: the middle of the bounds, if nothing is declared."""
        if self.fill is not None:
            return float(self.fill)
        return middle_of_bounds(self.low, self.high)


@dataclass(frozen=True)
class Category:
    """A column with few values, each a column of 0 and 1.

    `other` says what all other values count as: a column of their own (True), none, a gap ("gap"), or the value that
    is named. With `gaps` there is a column for missing values. `synonyms` are other spellings of values; with `fold`,
    capitals and small letters are alike. `values` is None where it is not decided yet.
    """

    values: tuple[Any, ...] | None = None
    other: Any = False
    gaps: bool = False
    inferred: bool = False
    fold: bool = False
    synonyms: Mapping[str, Any] | None = None

    kind = "category"

    @property
    def key(self) -> Callable[..., Any]:
        """What a cell or a value is compared by, where texts that are numbers are written with the marks given."""
        return folded_key if self.fold else value_key

    def places(self, marks: CsvDialect = PLAIN) -> dict[Any, int]:
        """The place in `values` of every spelling, by its key."""
        if marks not in self._places:
            known = {self.key(value, marks): place for place, value in enumerate(self.values or ())}
            synonyms = (self.synonyms or {}).items()
            self._places[marks] = known | {
                self.key(word, marks): known[self.key(value, marks)] for word, value in synonyms
            }
        return self._places[marks]

    @cached_property
    def _places(self) -> dict[CsvDialect, dict[Any, int]]:
        return {}

    def spelled(self, words: Collection[str]) -> set[str]:
        """Which of these words, none of them a number, are values or synonyms."""
        return {word for word in words if (fold_case(word) if self.fold else word) in self.places()}

    def spellings_are_apart(self, marks: CsvDialect) -> bool:
        """Whether no two values or synonyms are one number, as it is written with these marks."""
        return len(self.places(marks)) == len(self.values or ()) + len(self.synonyms or ())

    @cached_property
    def slot_of_gap(self) -> int | None:
        """The column for missing values; None where there is none."""
        return len(self.values or ()) + (self.other is True) if self.gaps else None

    @cached_property
    def slot_of_other(self) -> int | None:
        """The column that a value counts as which is not listed; None where it counts as none."""
        if isinstance(self.other, bool):
            return len(self.values or ()) if self.other else None
        return self.slot_of_gap if self.other == GAP else self.places()[self.key(self.other)]

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """A column for each value, one for others, and one for missing values."""
        words = [category_slot_name(value) for value in self.values or ()]
        words += ["(other)"] * (self.other is True) + ["(missing)"] * self.gaps
        for word in words:
            yield EncodedColumn(f"{name}={word}", name, name, *_SLOT)

    def problems(self) -> Iterator[str]:
        """What is wrong with it, in words."""
        if self.values is None:
            if self.synonyms or self.other not in (True, False, GAP):
                yield "synonyms, and a value that others count as, need values; write the values"
            return
        if len(self.values) > MOST_VALUES:
            yield (
                f"{len(self.values):,} values are too many for a category, which has {MOST_VALUES} at most; "
                'keep the most frequent and add "other": true, or leave the column out with "kind": "text"'
            )
        odd = [value for value in self.values if not isinstance(value, str | int | float) or value != value]
        if odd:
            yield f"values must be texts, numbers or truth values; {odd[0]!r} is not"
            return
        seen: dict[Any, Any] = {}
        for value in self.values:
            key = self.key(value)
            if key in seen:
                yield f"the value {value!r} is there twice (also as {seen[key]!r})"
            seen[key] = value
        if includes_nan([*seen, *map(self.key, self.synonyms or ())]):
            yield f'no value can be {NOT_A_NUMBER}; write "gaps": true'
        if not self.values:
            yield "values must not be empty; write the values that occur"
        yield from self._synonym_problems(seen)
        if isinstance(self.other, bool) or (self.other == GAP and self.key(GAP) not in seen):
            return
        if self.other == GAP:
            yield f'"other": "{GAP}" could be the value {seen[self.key(GAP)]!r}; name that value otherwise'
        elif not isinstance(self.other, str | int | float) or self.key(self.other) not in seen:
            yield f'other must be true, false, "{GAP}" or one of the values; it is {self.other!r}'

    def _synonym_problems(self, values: Mapping[Any, Any]) -> Iterator[str]:
        """What is wrong with synonyms, beside `values` by their keys."""
        seen = dict(values)
        for word, value in (self.synonyms or {}).items():
            if not isinstance(value, str | int | float) or self.key(value) not in values:
                yield f"the synonym {word!r} stands for {value!r}, which is none of the values"
            if self.key(word) in seen:
                yield f"the synonym {word!r} is there already, as {seen[self.key(word)]!r}; one spelling, one value"
            seen[self.key(word)] = word


@dataclass(frozen=True)
class Date:
    """A column of dates or times, as units since the origin; `parts` adds weekday or month as categories.

    `order` is that of year, month and day in texts. `low`, `high` and `fill` are dates as ISO texts, and so are those
    in `missing`, which stand for a gap. With `beyond` of "gap" a date beyond the declared bounds is one.
    """

    origin: str = ORIGIN
    unit: str = "days"
    order: str = "ymd"
    low: str | None = None
    high: str | None = None
    fill: str | None = None
    gaps: bool = False
    parts: tuple[str, ...] = ()
    terms: tuple[str, ...] | None = None
    inferred: bool = False
    missing: tuple[str, ...] = ()
    beyond: str = CLIP

    kind = "date"

    def codes(self) -> list[float]:
        """The dates that stand for a gap, as units since the origin."""
        return [self.number(code) for code in self.missing]

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """The date as a number, where it is missing, and its parts."""
        low, high = self.bounds()
        yield EncodedColumn(name, name, "", low, high)
        yield from _missing_indicator_column(name, self.gaps)
        for part in self.parts:
            for word in PARTS[part]:
                yield EncodedColumn(f"{name}.{part}={word}", name, f"{name}.{part}", *_SLOT)

    def number(self, date: str) -> float:
        """A date that the schema names, as units since the origin."""
        return (seconds_of_iso_date(date) - seconds_of_iso_date(self.origin)) / UNITS[self.unit]

    def bounds(self) -> tuple[Any, Any]:
        """`low` and `high` as units since the origin; None or "private" as they are."""
        low, high = (v if v is None or v == PRIVATE else self.number(v) for v in (self.low, self.high))
        return low, high

    def problems(self) -> Iterator[str]:
        """What is wrong with it, in words."""
        dates = {"origin": self.origin, "low": self.low, "high": self.high, "fill": self.fill}
        for name, date in dates.items():
            private = date == PRIVATE and name in ("low", "high")
            if not (date is None and name != "origin") and not private and not _is_iso_date(date):
                yield f'{name} must be a date such as "2024-01-31"; it is {date!r}'
                return
        if self.unit not in UNITS:
            yield f"unit must be one of {', '.join(UNITS)}; it is {self.unit!r}"
            return
        if self.order not in ORDERS:
            yield f"order must be one of {', '.join(ORDERS)}; it is {self.order!r}"
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or len(set(self.parts)) < len(self.parts):
            yield f"parts must be weekday, month, or both; they are {list(self.parts)!r}"
        yield from _bounds_problems(*self.bounds(), is_finite_bound, "dates")
        yield from _gap_rule_problems(self, _is_iso_date, 'dates, such as ["9999-12-31"]')
        yield from _column_terms_problems(self.terms)

    def with_fill(self, number: float) -> "Date":
        """The same, with missing dates replaced by one, in whole units since the origin, unless something says else."""
        return self if self.gaps or self.fill is not None else replace(self, fill=self.iso_text(number))

    def fill_text(self) -> str:
        return self.iso_text(self.filled())

    def iso_text(self, number: float) -> str:
        """So many whole units since the origin, as an ISO date."""
        seconds = min(max(round(number) * UNITS[self.unit] + seconds_of_iso_date(self.origin), FIRST), LAST)
        moment = datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(seconds=seconds)
        return (moment.date() if seconds % UNITS["days"] == 0 else moment).isoformat()

    def filled(self) -> float:
        """What a missing date is replaced by: the middle of the bounds, if nothing is declared."""
        return middle_of_bounds(*self.bounds()) if self.fill is None else self.number(self.fill)


@dataclass(frozen=True)
class Ignored:
    """A column that is left out: a "text", or an "id"."""

    kind: str = "text"
    inferred: bool = False

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """Nothing."""
        return iter(())

    def problems(self) -> Iterator[str]:
        """Nothing can be wrong with it."""
        return iter(())


Kind = Number | Category | Date | Ignored
KINDS: dict[str, type[Kind]] = {"number": Number, "category": Category, "date": Date, "text": Ignored, "id": Ignored}


def column_kind_to_dict(kind: Kind) -> dict[str, Any]:
    """A column as JSON data: its kind, and what is not as by default; what must be decided is there as null."""
    entry: dict[str, Any] = {"kind": kind.kind}
    if isinstance(kind, Ignored):
        return entry | ({"inferred": True} if kind.inferred else {})
    wanted = {"low", "high"} if not isinstance(kind, Category) else {"values"}
    for item in fields(kind):
        value = getattr(kind, item.name)
        if item.name in wanted or value != item.default:
            entry[item.name] = (
                list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
            )
    return entry


def column_kind_from_dict(entry: Any) -> Kind:
    if not isinstance(entry, Mapping) or entry.get("kind") not in KINDS:
        given = entry.get("kind") if isinstance(entry, Mapping) else entry
        raise ArgumentError(f"its kind must be one of {', '.join(KINDS)}; it is {given!r}")
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items() if name != "kind"}
    kind = KINDS[entry["kind"]]
    if kind is Ignored:
        if unknown := [name for name in values if name != "inferred"]:
            raise ArgumentError(f"{entry['kind']} columns are left out, and have no {unknown[0]!r}")
        return Ignored(entry["kind"], _column_kind_flag(values, "inferred"))
    known = {item.name: item for item in fields(kind)}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise ArgumentError(f"a {entry['kind']} has no {list_names(unknown)}; it may have {list_names(list(known))}")
    for name in ("gaps", "fold", "inferred"):
        _column_kind_flag(values, name)
    for name in ("values", "parts", "terms", "missing"):
        if not isinstance(values.get(name, ()), tuple | None):
            raise ArgumentError(f"{name} must be a list; it is {values[name]!r}")
    if not isinstance(values.get("synonyms"), Mapping | None):
        raise ArgumentError(
            f'synonyms must be spellings with their values, {{"J": "yes"}}; it is {values["synonyms"]!r}'
        )
    defaults = {name: values[name] for name in values if values[name] is not None or known[name].default is None}
    return kind(**defaults)  # type: ignore[arg-type]


# ---- small things


def _column_kind_flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false; it is {value!r}")
    return value


def category_slot_name(value: Any) -> str:
    """What a value of a category is called in the name of its column."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def is_finite_bound(value: Any) -> bool:
    """Whether it is a finite number that float64 can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def middle_of_bounds(low: Any, high: Any) -> float:
    """The middle of two bounds; 0 where they are not known."""
    return float(low) / 2 + float(high) / 2 if is_finite_bound(low) and is_finite_bound(high) else 0.0


def seconds_of_iso_date(date: str) -> int:
    """The seconds from the first of January 1970 to a date of ISO form, which is in UTC if it names no zone."""
    moment = datetime.fromisoformat(date)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return int(moment.replace(microsecond=0).timestamp())


def _is_iso_date(value: Any) -> bool:
    try:
        seconds_of_iso_date(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _missing_indicator_column(name: str, gaps: bool) -> Iterator[EncodedColumn]:
    if gaps:
        yield EncodedColumn(f"{name}=(missing)", name, name, *_SLOT)


def _bounds_problems(low: Any, high: Any, valid: Callable[[Any], bool], what: str) -> Iterator[str]:
    if (low == PRIVATE) != (high == PRIVATE):
        yield 'low and high must both be "private", or neither'
    elif low != PRIVATE:
        odd = [bound for bound in (low, high) if bound is not None and not valid(bound)]
        if odd:
            yield f"low and high must be {what}; {odd[0]!r} is not"
        elif low is not None and high is not None and not low < high:
            yield f"low must be below high; they are {low!r} and {high!r}"


def _gap_rule_problems(kind: Number | Date, valid: Callable[[Any], bool], what: str) -> Iterator[str]:
    """What is wrong with what a number or a date says about gaps; `what` codes must be."""
    codes = list(kind.missing) if isinstance(kind.missing, tuple | list) else None
    if codes is None or not all(map(valid, codes)):
        yield f"missing must be {what}; it is {kind.missing!r}"
    elif len(set(codes)) < len(codes):
        yield f"missing has a code twice; it is {codes!r}"
    if kind.beyond not in (CLIP, GAP):
        yield f'beyond must be "{CLIP}" or "{GAP}"; it is {kind.beyond!r}'
    elif kind.beyond == GAP and any(bound in (None, PRIVATE) for bound in (kind.low, kind.high)):
        yield f'"beyond": "{GAP}" needs low and high, both declared'


def _column_terms_problems(terms: tuple[str, ...] | None) -> Iterator[str]:
    known = (*TERMS, SQUARE)
    odd = [term for term in terms or () if term not in known]
    if odd or (terms is not None and (not terms or len(set(terms)) < len(terms))):
        yield f"terms must be some of {', '.join(known)}, each once; they are {list(terms or ())!r}"
