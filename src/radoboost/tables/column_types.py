"""What kinds of columns a raw table has, and which encoded columns each of them becomes."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

from radoboost.errors import ArgumentError
from radoboost.tables.column_selection import list_names
from radoboost.tables.labels import class_key

MOST_VALUES = 64  # of a category
PRIVATE = "private"  # in place of bounds: to be found by noisy counts
UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
ORDERS = ("ymd", "dmy", "mdy")
PARTS = {
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
}
ORIGIN = "1970-01-01"
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

    `inferred`, of every kind, says that some of this entry was read off the table, so no promise is made on it.
    """

    low: Any = None
    high: Any = None
    fill: float | None = None
    gaps: bool = False
    terms: tuple[str, ...] | None = None
    inferred: bool = False

    kind = "number"

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """The number, and where it is missing."""
        yield EncodedColumn(name, name, "", self.low, self.high)
        yield from _missing_indicator_column(name, self.gaps)

    def problems(self) -> Iterator[str]:
        """What is wrong with it, in words."""
        yield from _bounds_problems(self.low, self.high, is_finite_bound, "numbers")
        if self.fill is not None and not is_finite_bound(self.fill):
            yield f"fill must be a finite number; it is {self.fill!r}"
        yield from _column_terms_problems(self.terms)

    def filled(self) -> float:
        """What a missing value is replaced by: the middle of the bounds, if nothing is declared."""
        if self.fill is not None:
            return float(self.fill)
        return middle_of_bounds(self.low, self.high)


@dataclass(frozen=True)
class Category:
    """A column with few values, each a column of 0 and 1.

    With `other` there is one more for all other values; without it these have zeros. With `gaps` there is one for
    missing values. `values` is None where it is not decided yet.
    """

    values: tuple[Any, ...] | None = None
    other: bool = False
    gaps: bool = False
    inferred: bool = False

    kind = "category"

    def encoded(self, name: str) -> Iterator[EncodedColumn]:
        """A column for each value, one for others, and one for missing values."""
        words = [category_slot_name(value) for value in self.values or ()]
        words += ["(other)"] * self.other + ["(missing)"] * self.gaps
        for word in words:
            yield EncodedColumn(f"{name}={word}", name, name, *_SLOT)

    def problems(self) -> Iterator[str]:
        """What is wrong with it, in words."""
        if self.values is None:
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
            if class_key(value) in seen:
                yield f"the value {value!r} is there twice (also as {seen[class_key(value)]!r})"
            seen[class_key(value)] = value
        if not self.values:
            yield "values must not be empty; write the values that occur"


@dataclass(frozen=True)
class Date:
    """A column of dates or times, as units since the origin; `parts` adds weekday or month as categories.

    `order` is that of year, month and day in texts. `low`, `high` and `fill` are dates as ISO texts.
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

    kind = "date"

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
        yield from _column_terms_problems(self.terms)

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
            entry[item.name] = list(value) if isinstance(value, tuple) else value
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
    for name in ("gaps", "other", "inferred"):
        _column_kind_flag(values, name)
    for name in ("values", "parts", "terms"):
        if not isinstance(values.get(name, ()), tuple | None):
            raise ArgumentError(f"{name} must be a list; it is {values[name]!r}")
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


def _column_terms_problems(terms: tuple[str, ...] | None) -> Iterator[str]:
    known = (*TERMS, SQUARE)
    odd = [term for term in terms or () if term not in known]
    if odd or (terms is not None and (not terms or len(set(terms)) < len(terms))):
        yield f"terms must be some of {', '.join(known)}, each once; they are {list(terms or ())!r}"
