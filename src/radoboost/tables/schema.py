"""What the columns of a raw table mean: numbers, categories, dates, and what is left out.

A schema is data. It is written down before a table is opened, or proposed from the table for plain releases; a release
and a model carry it, so that everyone reads raw rows in the same way. As a file:

    {"radoboost_schema": 1, "label": "outcome", "classes": ["no", "yes"], "columns": {
      "patient_id": {"kind": "id"},
      "age": {"kind": "number", "low": 0, "high": 120, "gaps": true, "fill": 50},
      "ward": {"kind": "category", "values": ["A", "B"], "other": true},
      "admitted": {"kind": "date", "low": "2020-01-01", "high": "2024-12-31", "parts": ["weekday"]}}}

`terms` of a column, and `products` such as [["age", "ward"]], say what else is made of them (`holder.feature_maps`).
`separator`, `decimal` and `thousands` say how a CSV file is written, and with `records` of "lines" a record that is
protected is a line of it. What is null, or left out, is not decided yet. Other entries are about the whole table:
`rows` (about how many, from public knowledge), `person` ({"column": "patient_id", "max_rows": 4}), `weights` (a
column), `gaps` ("fill", "error" or "drop"), `unlabelled` ("error" or "drop"), `shared` (columns that another holder has
too), and the columns to `use` and to `drop`.
What was read off the table is marked: a column has `"inferred": true`, and `"inferred": ["classes", "dialect"]` names
other entries. No promise is made on such a schema.
Each column becomes one encoded column or several, all of them numbers:

    age, age=(missing)             the number, filled where it is missing; 1 where it was
    ward=A, ward=B, ward=(other)   1 in at most one of them, 0 in the others
    admitted                       units since the origin
    admitted.weekday=Mon, ...      1 in at most one of them
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, reason
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import (
    CLIP,
    GAP,
    KINDS,
    MOST_VALUES,
    ORDERS,
    PARTS,
    PRIVATE,
    READING,
    SQUARE,
    TERMS,
    UNITS,
    Category,
    Date,
    EncodedColumn,
    Ignored,
    Kind,
    Number,
    OneHot,
    Word,
    column_kind_from_dict,
    column_kind_to_dict,
)
from radoboost.tables.csv_dialect import DECIMALS, LINES, THOUSANDS, CsvDialect, is_csv_separator
from radoboost.tables.labels import MOST_CLASSES
from radoboost.tables.person_ids import Person

SCHEMA_KEY, SCHEMA_VERSION = "radoboost_schema", 1
ENTRIES = {
    "classes": "the classes",
    "dialect": "how the file is written",
    "rows": "the number of rows",
    "person": "whose rows they are",
}
"""What may be read off a table besides columns, and what messages call it."""
GAPS, UNLABELLED = ("fill", "error", "drop"), ("error", "drop")
ABOUT_THE_TABLE = ("use", "drop", "rows", "person", "weights", "gaps", "unlabelled", "shared")
"""Entries about one table as a whole, which those who read a release do not need."""


class Marked(dict[str, Any]):
    """A part of a schema that still says which entries were read off the table, or edited after exact counts of it."""

    def __init__(
        self, entries: Mapping[str, Any], *, inferred: Sequence[str] = (), corrected: Sequence[str] = ()
    ) -> None:
        super().__init__(entries)
        self.inferred, self.corrected = tuple(inferred), tuple(corrected)


@dataclass(frozen=True)
class Schema:
    """THE declaration of a table: what its columns mean, by name, in order, and all else that `craft` is told of it.

    Label and classes; how a CSV file is written; about how many `rows` there are, from public knowledge; the `person`
    whose row each is, the default unit of privacy; the column of `weights`; what becomes of `gaps` ("fill", "error" or
    "drop") and of `unlabelled` rows ("error" or "drop"); which columns are `shared` with another holder. Of a table
    whose columns are not declared one by one, `use` and `drop` choose some. A table of `numbers` without gaps needs no
    kinds: (low, high) by column, or a pair for each, or the word "private", by which `Moments` finds all bounds.

    A column that was read off the table has the mark `inferred`, and `inferred` here names other such entries: classes,
    the dialect of the file, the number of rows, the person. Private mechanisms refuse all of them.
    `corrected` are columns that were edited after exact counts of the table were seen (the label for its classes);
    statements then say so. A schema of another one's `columns` has its corrected ones.

    >>> schema = Schema({"age": Number(0, 120, gaps=True), "ward": Category(("A", "B"))})
    >>> [column.name for column in schema.encoded()]
    ['age', 'age=(missing)', 'ward=A', 'ward=B']
    """

    columns: Mapping[str, Kind] = field(default_factory=dict)
    label: str | None = None
    classes: tuple[Any, ...] | None = None
    separator: str | None = None
    decimal: str = "."
    thousands: str | None = None
    inferred: tuple[str, ...] = ()
    products: tuple[tuple[str, str], ...] = ()
    records: str | None = None
    corrected: tuple[str, ...] = field(default=(), compare=False)
    use: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    rows: int | None = None
    person: Person | None = None
    weights: str | None = None
    gaps: str = "fill"
    unlabelled: str = "error"
    shared: tuple[str, ...] | None = None
    numbers: Mapping[str, Any] | tuple[Any, ...] | str = field(default_factory=dict)
    _encoded: tuple[EncodedColumn, ...] = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, declaration: "Declaration") -> "Schema":
        """The schema that a declaration stands for: one, its file or JSON data, bounds, "private", or what carries one.

        A release and a model carry the schema by which raw rows are read: another holder who declares one of them reads
        its table in the same way. Bounds are a mapping of column to (low, high), or a pair for each column of an array.

        >>> Schema.of({"age": (0, 120)}).numbers
        {'age': (0, 120)}
        """
        if declaration is None:
            return cls()
        if isinstance(declaration, Schema):
            return declaration
        if isinstance(declaration, str | os.PathLike):
            return cls(numbers=PRIVATE) if str(declaration) == PRIVATE else _read_schema_file(Path(declaration))
        if hasattr(declaration, "schema") and hasattr(declaration, "statement"):
            return _carried_schema(declaration.schema, f"the {type(declaration).__name__.lower()}")
        if isinstance(declaration, Mapping):
            if SCHEMA_KEY in declaration:
                return cls.from_dict(declaration)
            if isinstance(declaration.get("columns"), Mapping):
                raise ArgumentError(f'the mapping has columns as a schema has them; add "{SCHEMA_KEY}": 1 to it')
            return cls(numbers=declaration)
        try:
            pairs = np.asarray(declaration, dtype=np.float64)
        except (TypeError, ValueError):
            pairs = np.zeros(0)
        if pairs.ndim != 2:
            raise ArgumentError(
                "a schema must be one, or its file, a mapping of column to (low, high), a pair of numbers for each "
                "feature, or the word private"
            )
        return cls(numbers=tuple(map(tuple, pairs.tolist())))

    @property
    def raw(self) -> bool:
        """Whether it says what raw columns mean; else the table is one of numbers, if nothing else is read off it."""
        return bool(self.columns)

    @property
    def ids(self) -> tuple[str, ...]:
        """Columns that tell rows or persons apart."""
        return tuple(name for name, kind in self.columns.items() if kind.kind == "id")

    def of_used(self) -> "Schema":
        """The schema without columns that are left out."""
        return self if len(self.used) == len(self.columns) else self.only(self.used, ())

    def as_declared(self) -> "Schema":
        """The same without marks of what was read off a table, for those who promise nothing."""
        columns = {name: replace(kind, inferred=False) for name, kind in self.columns.items()}
        return replace(self, columns=columns, inferred=())

    def for_readers(self) -> "Schema":
        """What a release carries: by what its rows are read, and not what was said of one table as a whole."""
        about = {item.name: item.default for item in fields(self) if item.name in ABOUT_THE_TABLE}
        return replace(self, **about)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if isinstance(self.numbers, Marked) and (self.numbers.inferred or self.numbers.corrected):
            raise ArgumentError(
                "these bounds are the limits of a schema that was read off the table, or edited after exact counts of "
                "it; give the schema itself, which says so"
            )
        problems = list(self.problems())
        if problems:
            raise ArgumentError(f"the schema cannot be used: {'; '.join(problems)}")
        if isinstance(self.numbers, Mapping):
            object.__setattr__(self, "numbers", dict(self.numbers))
        earlier = self.columns.corrected if isinstance(self.columns, Marked) else ()
        object.__setattr__(self, "corrected", tuple(dict.fromkeys((*self.corrected, *earlier))))
        object.__setattr__(self, "columns", Marked(self.columns, corrected=self.corrected))
        encoded = tuple(part for name, kind in self.columns.items() for part in kind.encoded(name))
        object.__setattr__(self, "_encoded", encoded)
        names = [column.name for column in encoded]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"the schema gives several columns the name {list_names(twice)}; rename some of them")
        marked = self.columns if (self.decimal, self.thousands) != (".", None) else {}
        categories = {name: kind for name, kind in marked.items() if isinstance(kind, Category)}
        if alike := [name for name, kind in categories.items() if not kind.spellings_are_apart(self.marks)]:
            raise ArgumentError(
                f"the schema gives {list_names(alike)} values that are one number, as its decimal and thousands marks "
                "are; write each number once"
            )
        owners: dict[str, set[str]] = {}
        for column in encoded:
            owners.setdefault(column.group, set()).add(column.column)
        shared = sorted(group for group, columns in owners.items() if group and len(columns) > 1)
        if shared:
            raise ArgumentError(f"the schema gives several columns a category called {list_names(shared)}; rename some")

    def problems(self) -> Iterator[str]:
        """What is wrong, in words: each names its column."""
        yield from _schema_column_problems(self.columns)
        yield from _schema_product_problems(self.products, self.columns, self.label)
        yield from _schema_label_problems(self.label, self.columns)
        yield from _inferred_entry_problems(self.inferred)
        if self.separator is not None and not is_csv_separator(self.separator):
            yield f"separator must be one ASCII character such as ';'; it is {self.separator!r}"
        if self.decimal not in DECIMALS:
            yield f"decimal must be '.' or ','; it is {self.decimal!r}"
        if self.thousands is not None and self.thousands not in THOUSANDS:
            yield f"thousands must be one of . , ' _ or a space; it is {self.thousands!r}"
        if self.records not in (None, LINES):
            yield f'records must be "lines", or left out; it is {self.records!r}'
        for name, kind in self.columns.items():
            if isinstance(kind, Number) and kind.thousands and kind.thousands == (kind.decimal or self.decimal):
                yield f"column {name!r}: decimal and thousands must differ; both are {kind.thousands!r}"
        yield from self._table_problems()
        marks = [mark for mark in (self.separator, self.decimal, self.thousands) if mark is not None]
        if self.thousands == self.decimal or (len(set(marks)) < len(marks) and self.separator != ","):
            yield f"separator, decimal and thousands must differ; they are {marks!r}"

    def _table_problems(self) -> Iterator[str]:
        """What is wrong with what is said of the table as a whole."""
        if self.columns and len(self.numbers):
            yield "numbers are for a table whose columns have no kinds; leave them out"
        if self.gaps not in GAPS:
            yield f"gaps must be one of {', '.join(GAPS)}; it is {self.gaps!r}"
        if self.unlabelled not in UNLABELLED:
            yield f"unlabelled must be one of {', '.join(UNLABELLED)}; it is {self.unlabelled!r}"
        if self.person is not None and not isinstance(self.person, Person):
            yield f"person must be Person(column, max_rows); it is {self.person!r}"
        if self.rows is not None and (isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1):
            yield f"rows must be a whole number from 1 on, about how many there are; it is {self.rows!r}"
        for name in ("use", "drop", "shared"):
            value = getattr(self, name)
            listed = value is None or isinstance(value, tuple | list)
            if not listed or not all(isinstance(column, str) for column in value or ()):
                yield f"{name} must be names of columns; it is {value!r}"
        if not isinstance(self.weights, str | None):
            yield f"weights must name a column; it is {self.weights!r}"

    @property
    def inferences(self) -> tuple[str, ...]:
        """All entries that were read off the table, in words.

        >>> Schema({"age": Number(31, 77, inferred=True)}, "ill", ("no", "yes"), inferred=("classes",)).inferences
        ("column 'age'", 'the classes')
        """
        columns = [f"column {name!r}" for name, kind in self.columns.items() if kind.inferred]
        return (*columns, *(words for entry, words in ENTRIES.items() if entry in self.inferred))

    @property
    def from_data(self) -> bool:
        """Whether any of it was read off the table."""
        return bool(self.inferences)

    @property
    def marks(self) -> CsvDialect:
        """How a CSV file is written."""
        return CsvDialect(self.separator, self.decimal, self.thousands, self.records)

    def encoded(self) -> tuple[EncodedColumn, ...]:
        """All encoded columns, in order."""
        return self._encoded

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that a table must have: all that are not left out."""
        return tuple(name for name, kind in self.columns.items() if not isinstance(kind, Ignored))

    @property
    def groups(self) -> dict[str, str]:
        """The group of every encoded column of 0 and 1, by its name."""
        return {column.name: column.group for column in self._encoded if column.group}

    def limits(self) -> Any:
        """(low, high) of every encoded column that has them, or the word "private"; of a table of numbers, as declared.

        Of a schema that was read off the table, or edited after exact counts of it, they are no bounds for `craft`.
        """
        if not self.raw:
            numbers = {} if self.numbers == PRIVATE else self.numbers
            marks = {"inferred": self.inferences, "corrected": self.corrected}
            return Marked(numbers, **marks) if isinstance(numbers, Mapping) and any(marks.values()) else numbers
        limits = Marked({}, inferred=self.inferences, corrected=self.corrected)
        for column in self._encoded:
            if column.low == PRIVATE and column.high == PRIVATE:
                limits[column.name] = PRIVATE
            elif column.low is not None and column.high is not None:
                limits[column.name] = (column.low, column.high)
        return limits

    @property
    def terms(self) -> dict[str, tuple[Word, ...]]:
        """The terms of every column that has some, squares and products among them, as `holder.feature_maps` takes it.

        >>> schema = Schema({"age": Number(terms=("square",)), "ward": Category()}, products=(("age", "ward"),))
        >>> schema.terms
        {'age': (('age', 'age'), ('age', OneHot(group='ward')))}
        """
        terms: dict[str, list[Word]] = {}
        for name, kind in self.columns.items():
            if isinstance(kind, Number | Date) and kind.terms:
                terms[name] = [(name, name) if word == SQUARE else word for word in kind.terms]
        for first, second in self.products:
            one, other = (
                OneHot(name) if isinstance(self.columns[name], Category) else name for name in (first, second)
            )
            terms.setdefault(first, []).append((one, other))
        return {name: tuple(words) for name, words in terms.items()}

    def undecided(self) -> dict[str, str]:
        """What a promise about records still needs, by column: the line to write."""
        lines = {}
        for name, kind in self.columns.items():
            key = json.dumps(name, ensure_ascii=False)
            if isinstance(kind, Number) and None in (kind.low, kind.high):
                lines[name] = f'{key}: {{"kind": "number", "low": LOW, "high": HIGH}}'
            elif isinstance(kind, Date) and None in (kind.low, kind.high):
                lines[name] = f'{key}: {{"kind": "date", "low": "YYYY-MM-DD", "high": "YYYY-MM-DD"}}'
            elif isinstance(kind, Category) and kind.values is None:
                lines[name] = f'{key}: {{"kind": "category", "values": ["...", "..."]}}'
        return lines

    def only(self, features: Sequence[str] | None, drop: Sequence[str]) -> "Schema":
        """The schema with these columns alone, and without those in `drop`; unknown names are refused.

        Products with a column that is left out are left out too.
        """
        chosen = [features] if isinstance(features, str) else features
        dropped = [drop] if isinstance(drop, str) else list(drop)
        unknown = [name for name in chosen or () if name not in self.columns]
        if unknown:
            raise ArgumentError(
                f"the schema does not have {list_names(unknown)}; add a line for each, or leave them out"
            )
        names = [name for name in (self.columns if chosen is None else chosen) if name not in dropped]
        products = tuple(pair for pair in self.products if set(pair) <= set(names))
        columns = {name: self.columns[name] for name in names}
        return replace(self, columns=columns, products=products)

    def to_dict(self) -> dict[str, Any]:
        """The schema as the JSON data of its file, without what is as by default."""
        entry: dict[str, Any] = {SCHEMA_KEY: SCHEMA_VERSION}
        entry |= {"inferred": list(self.inferred)} if self.inferred else {}
        entry["label"] = self.label
        entry["classes"] = None if self.classes is None else list(self.classes)
        marks = {"separator": self.separator, "thousands": self.thousands, "records": self.records}
        entry |= {name: mark for name, mark in marks.items() if mark is not None}
        entry |= {} if self.decimal == "." else {"decimal": self.decimal}
        entry["columns"] = {name: column_kind_to_dict(kind) for name, kind in self.columns.items()}
        entry |= {"products": [list(pair) for pair in self.products]} if self.products else {}
        entry |= {"corrected": list(self.corrected)} if self.corrected else {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ABOUT_THE_TABLE and value != item.default:
                entry[item.name] = asdict(value) if isinstance(value, Person) else _listed(value)
        return {**entry, "numbers": _listed(self.numbers)} if len(self.numbers) else entry

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Schema":
        """A schema from JSON data; everything that is wrong with it is named at once.

        >>> Schema.from_dict({"radoboost_schema": 1, "columns": {"name": {"kind": "text"}}}).used
        ()
        """
        if entry.get(SCHEMA_KEY) != SCHEMA_VERSION:
            raise ArgumentError(f"unknown version: the schema has {entry.get(SCHEMA_KEY)!r}, not {SCHEMA_VERSION}")
        known = {SCHEMA_KEY, "$schema", *(item.name for item in fields(cls) if item.init)}
        problems = [f"{name!r} is not known" for name in entry if name not in known]
        columns = entry.get("columns")
        if not isinstance(columns, Mapping):
            raise ArgumentError('the schema has no columns; write "columns": {"NAME": {"kind": "number"}, ...}')
        kinds: dict[str, Kind] = {}
        for name, column in columns.items():
            try:
                kinds[name] = column_kind_from_dict(column)
            except ArgumentError as error:
                problems.append(f"column {name!r}: {error}")
        problems += _schema_field_problems(entry)
        products = _product_pairs(entry.get("products"))
        if problems:
            problems += _schema_column_problems(kinds)
            unread = set(columns) - set(kinds)  # columns whose own problem was told above
            known_ones = tuple(pair for pair in products if not set(pair) & unread)
            problems += _schema_product_problems(known_ones, kinds, entry.get("label"))
            raise ArgumentError(f"the schema cannot be used: {'; '.join(problems)}")
        classes = entry.get("classes")
        return cls(
            kinds,
            entry.get("label"),
            None if classes is None or None in classes else tuple(classes),
            entry.get("separator"),
            entry.get("decimal") or ".",
            entry.get("thousands"),
            tuple(entry.get("inferred") or ()),
            products,
            entry.get("records"),
            tuple(entry.get("corrected") or ()),
            **{
                name: _unlisted(name, entry[name])
                for name in (*ABOUT_THE_TABLE, "numbers")
                if entry.get(name) is not None
            },
        )


def _listed(value: Any) -> Any:
    """Tuples as lists, for JSON."""
    if isinstance(value, Mapping):
        return {name: _listed(one) for name, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, tuple | list) else value


def _unlisted(name: str, value: Any) -> Any:
    """An entry of a file as a schema has it; what has another form is left to `problems`."""
    if name == "person":
        try:
            return Person(**value)
        except TypeError:
            return value
    if isinstance(value, Marked):
        return value  # with its marks
    if name == "numbers" and isinstance(value, Mapping):
        return {column: _unlisted("", pair) for column, pair in value.items()}
    return tuple(_unlisted("", one) for one in value) if isinstance(value, list | tuple) else value


def _schema_field_problems(entry: Mapping[str, Any]) -> Iterator[str]:
    classes = entry.get("classes")
    if classes is not None and not (isinstance(classes, list | tuple) and 2 <= len(classes) <= MOST_CLASSES):
        yield f"classes must be two values, [negative, positive], or up to {MOST_CLASSES}; they are {classes!r}"
    for name in ("label", "separator", "decimal", "thousands", "records"):
        if not isinstance(entry.get(name), str | None):
            yield f"{name} must be a text; it is {entry[name]!r}"
    products = entry.get("products")
    if products is not None and not (
        isinstance(products, list | tuple) and len(_product_pairs(products)) == len(products)
    ):
        yield f'products must be a list of pairs of columns, such as [["age", "dose"]]; they are {products!r}'
    inferred = entry.get("inferred")
    if inferred is not None and not isinstance(inferred, list | tuple):
        yield f"inferred must be a list of some of {list_names(list(ENTRIES))}; it is {inferred!r}"
    else:
        yield from _inferred_entry_problems(inferred or ())
    corrected = entry.get("corrected")
    if corrected is not None and not (
        isinstance(corrected, list | tuple) and all(isinstance(name, str) for name in corrected)
    ):
        yield f"corrected must be a list of columns; it is {corrected!r}"


def _inferred_entry_problems(inferred: Sequence[str]) -> Iterator[str]:
    unknown = [name for name in inferred if name not in list(ENTRIES)]
    if unknown or len(set(inferred)) < len(inferred):
        yield f"inferred must be some of {list_names(list(ENTRIES))}, each once; it is {list(inferred)!r}"


def _product_pairs(products: Any) -> tuple[tuple[str, str], ...]:
    lists = [pair for pair in products if isinstance(pair, list | tuple)] if isinstance(products, list | tuple) else []
    return tuple((pair[0], pair[1]) for pair in lists if len(pair) == 2 and all(isinstance(n, str) for n in pair))


def _schema_product_problems(
    products: Sequence[tuple[str, str]], columns: Mapping[str, Kind], label: str | None
) -> Iterator[str]:
    """What is wrong with products; each sentence names its columns."""
    absent = list(dict.fromkeys(name for pair in products for name in pair if name not in columns or name == label))
    if absent:
        yield (
            f"products name {list_names(absent)}, not among the columns to learn from; correct the name, or delete them"
        )
    left = [
        name for name, kind in columns.items() if isinstance(kind, Ignored) and any(name in pair for pair in products)
    ]
    if left:
        yield f"products name {list_names(left)}, which the schema leaves out; delete them, or declare another kind"
    seen: set[frozenset[str]] = set()
    for first, second in products:
        if first == second and isinstance(columns.get(first), Category):
            yield f"the product of {first!r} with itself tells nothing new: a category has 0 and 1; delete it"
        elif first == second:
            yield f'the product of {first!r} with itself is its square: write "square" among its terms'
        elif frozenset((first, second)) in seen:
            yield f"the product of {first!r} and {second!r} is there twice"
        seen.add(frozenset((first, second)))


def _schema_label_problems(label: str | None, columns: Mapping[str, Kind]) -> Iterator[str]:
    """What the label's entry says of reading cells: labels are compared with classes as they stand (M21)."""
    kind = None if label is None else columns.get(label)
    own = [f.name for f in fields(kind) if f.name in READING and getattr(kind, f.name) != f.default] if kind else []
    if own:
        yield (
            f"column {label!r} is the label, and labels are compared with its classes as they are written: leave "
            f"{list_names(own)} out of its entry; a row with any other label contributes nothing"
        )


def _schema_column_problems(columns: Mapping[str, Kind]) -> Iterator[str]:
    """What is wrong with columns; each sentence names its column."""
    for name, kind in columns.items():
        for problem in kind.problems():
            yield f"column {name!r}: {problem}"


# ---- Other things that stand for a schema: its file, a release or a model.


class Carrier(Protocol):
    """A release or a model, which may carry a schema."""

    @property
    def schema(self) -> Schema | None:
        """By which raw rows are read; None of a table of numbers."""

    @property
    def statement(self) -> Any:
        """What was promised about the table."""


Declaration = Schema | Carrier | Mapping[str, Any] | NDArray[np.float64] | str | os.PathLike[str] | None


def _carried_schema(schema: Schema | None, name: str) -> Schema:
    """The schema that a release or a model carries; `name` is what messages call it."""
    if schema is None:
        raise ArgumentError(
            f"{name} carries no schema, for its table has numbers alone: give the schema by which it was crafted, or "
            "bounds, or write a schema with rado schema"
        )
    return schema


def _read_schema_file(path: Path) -> Schema:
    """The schema in a file: its own, or that of a release or a model."""
    try:
        with path.open("rb") as file:
            release = file.read(4) == b"PAR1"
        content = _document_of_release(path) if release else path.read_text(encoding="utf-8-sig")
        parsed = json.loads(content, object_pairs_hook=_refuse_repeated_json_names)
    except OSError as error:
        raise ArgumentError(f"cannot read the schema {path}: {reason(error)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"the file {path} {error}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the file {path} is not JSON: {error}") from None
    if not (isinstance(parsed, dict) and (release or not {SCHEMA_KEY, "radoboost_model"}.isdisjoint(parsed))):
        raise ArgumentError(
            f'{path} is not a schema file, for it has no "{SCHEMA_KEY}"; make one: rado schema TABLE --label COL'
        )
    entry = parsed if SCHEMA_KEY in parsed else parsed.get("schema")
    try:
        return _carried_schema(None if entry is None else Schema.from_dict(entry), str(path))
    except ArgumentError as error:
        raise ArgumentError(str(error) if entry is None else f"{path}: {error}") from None


def _document_of_release(path: Path) -> bytes:
    """The JSON document of a release, which its Parquet file carries; what else is in it does not matter here."""
    try:
        metadata = pa.parquet.read_metadata(path).metadata or {}
    except pa.ArrowException:
        raise ArgumentError("is not a whole Parquet file: it is truncated or damaged") from None
    if b"radoboost" not in metadata:
        raise ArgumentError("is a Parquet file, and no release; give a schema file, a release or a model")
    return bytes(metadata[b"radoboost"])


def _refuse_repeated_json_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file, refused if it has a name twice: which of them is meant, nobody could say."""
    names = [name for name, _ in pairs]
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise ArgumentError(f"has {list_names(twice)} twice in one object; keep one of them")
    return dict(pairs)


# ---- The JSON Schema (draft 2020-12) of schema files, for editors: made from the kinds of columns themselves


_DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+([+-][0-9:]+|Z)?)?$"}
_VALUE = {"type": ["string", "number", "boolean"]}
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
_WORDS = {
    "number": "An amount. What is null must be decided before a promise about records.",
    "category": "One of few values; each becomes a column of 0 and 1.",
    "date": "A date or time, as units since an origin.",
    "text": "A text that is left out.",
    "id": "What tells rows or persons apart; it is left out.",
}


def _json_schema_any_of(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*choices, {"type": "null"}]}


def _json_schema_enum(words: tuple[str, ...] | dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": list(words)}, "uniqueItems": True, **more}


_BOUND = {
    "number": _json_schema_any_of({"type": "number"}, {"const": PRIVATE}),
    "date": _json_schema_any_of(_DATE, {"const": PRIVATE}),
}
# What a field of a kind may be; those of low, high and fill depend on the kind.
_INFERRED = {
    "type": "boolean",
    "description": "Whether some of it was read off the table; promises then refuse it.",
}
_FIELDS: dict[str, dict[str, Any]] = {
    "inferred": _INFERRED,
    "gaps": {"type": "boolean", "description": "Whether values may be missing: a column of 0 and 1 then says where."},
    "values": _json_schema_any_of(
        {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MOST_VALUES, "uniqueItems": True}
    ),
    "other": {
        "type": ["boolean", "string", "number"],
        "description": 'What all other values count as: true is a column in common, false none, "gap" a missing value, '
        "and one of the values that value.",
    },
    "fold": {"type": "boolean", "description": "Whether capitals and small letters are alike."},
    "synonyms": _json_schema_any_of(
        {
            "type": "object",
            "additionalProperties": _VALUE,
            "description": "Other spellings of values, each with the value that it stands for.",
        }
    ),
    "missing": {"type": "array", "uniqueItems": True, "description": "Codes that stand for a missing value."},
    "beyond": {
        "enum": [CLIP, GAP],
        "description": "What becomes of a value beyond declared bounds: it is clipped, or a gap.",
    },
    "decimal": {"enum": [*DECIMALS, None], "description": "The decimal mark of this column; that of the file if null."},
    "thousands": {"enum": [*THOUSANDS, None], "description": "The mark between thousands of this column."},
    "origin": _DATE,
    "unit": {"enum": list(UNITS)},
    "order": {"enum": list(ORDERS), "description": "The order of year, month and day in texts."},
    "parts": _json_schema_enum(PARTS, description="Parts that become categories."),
    "terms": _json_schema_any_of(
        _json_schema_enum((*TERMS, SQUARE), minItems=1, description="What is made of the column.")
    ),
}


def json_schema() -> dict[str, Any]:
    mark = _json_schema_any_of({"type": "string", "minLength": 1, "maxLength": 1})
    outer = {
        "label": {"type": ["string", "null"], "description": "The column that holds the classes."},
        "classes": _json_schema_any_of(
            {"type": "array", "items": _json_schema_any_of(_VALUE), "minItems": 2, "maxItems": MOST_CLASSES}
        ),
        "separator": {**mark, "description": "What stands between cells of a CSV file; by its header if null."},
        "decimal": {"enum": [*DECIMALS, None]},
        "thousands": mark,
        "records": {
            "enum": [LINES, None],
            "description": "A record of a CSV file that is protected: a line, or if null a row of the table.",
        },
        "inferred": _json_schema_enum(
            ENTRIES, description="What else was read off the table; promises then refuse it."
        ),
        "corrected": _json_schema_any_of(
            {
                "type": "array",
                "items": {"type": "string"},
                "description": "Columns that were edited after exact counts of the table were seen.",
            }
        ),
        "columns": {
            "type": "object",
            "additionalProperties": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in KINDS]},
        },
        "products": _json_schema_any_of(
            {"type": "array", "items": _PAIR, "uniqueItems": True, "description": "Pairs of columns to be multiplied."}
        ),
    }
    names = _json_schema_any_of({"type": "array", "items": {"type": "string"}})
    outer |= {
        "use": {**names, "description": "The columns to use, where none are declared; all by default."},
        "drop": {**names, "description": "Columns to leave out."},
        "shared": {**names, "description": "Columns that another holder has too."},
        "rows": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "About how many rows, from public knowledge.",
        },
        "person": _json_schema_any_of(
            {
                "type": "object",
                "description": "Whose row each is, and how many rows of one person count at most.",
                "properties": {"column": {"type": "string"}, "max_rows": {"type": "integer", "minimum": 1}},
                "required": ["column"],
                "additionalProperties": False,
            }
        ),
        "weights": {"type": ["string", "null"], "description": "The column that says how often a row counts."},
        "gaps": {"enum": list(GAPS), "description": "What becomes of missing values."},
        "unlabelled": {"enum": list(UNLABELLED), "description": "What becomes of rows without a label."},
        "numbers": {"description": "(low, high) of the columns of a table of numbers, or the word private."},
    }
    known = {item.name for item in fields(Schema) if item.init}
    assert set(outer) == known, "a field of schemas is not described"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the columns of a raw table mean, for radoboost",
        "type": "object",
        "properties": {"$schema": {"type": "string"}, SCHEMA_KEY: {"const": SCHEMA_VERSION}, **outer},
        "required": [SCHEMA_KEY, "columns"],
        "additionalProperties": False,
        "$defs": {kind: _json_schema_of_kind(kind) for kind in KINDS},
    }


def _json_schema_of_kind(kind: str) -> dict[str, Any]:
    cls = KINDS[kind]
    properties: dict[str, Any] = {"kind": {"const": kind}}
    for item in fields(cls):
        if item.name == "kind":
            continue
        if item.name in ("low", "high"):
            properties[item.name] = _BOUND[kind]
        elif item.name == "fill":
            properties["fill"] = _json_schema_any_of(_DATE if kind == "date" else {"type": "number"})
        elif item.name == "missing":
            properties["missing"] = {**_FIELDS["missing"], "items": _DATE if kind == "date" else {"type": "number"}}
        else:
            properties[item.name] = _FIELDS[item.name]
        if item.default is not MISSING and item.default not in (None, ()):
            properties[item.name] = {**properties[item.name], "default": item.default}
    return {
        "type": "object",
        "description": _WORDS[kind],
        "properties": properties,
        "required": ["kind"],
        "additionalProperties": False,
    }
