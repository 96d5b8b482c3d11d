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
protected is a line of it. What is null, or left out, is not decided yet.
What was read off the table is marked: a column has `"inferred": true`, and `"inferred": ["classes", "dialect"]` names
other entries. No promise is made on such a schema.
Each column becomes one encoded column or several, all of them numbers:

    age, age=(missing)             the number, filled where it is missing; 1 where it was
    ward=A, ward=B, ward=(other)   1 in at most one of them, 0 in the others
    admitted                       units since the origin
    admitted.weekday=Mon, ...      1 in at most one of them
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import (
    KINDS,
    MOST_VALUES,
    ORDERS,
    PARTS,
    PRIVATE,
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
from radoboost.tables.csv_dialect import LINES, CsvDialect, is_csv_separator
from radoboost.tables.labels import MOST_CLASSES

SCHEMA_KEY, SCHEMA_VERSION = "radoboost_schema", 1
ENTRIES = {
    "classes": "the classes",
    "dialect": "how the file is written",
    "rows": "the number of rows",
    "person": "whose rows they are",
}
"""What may be read off a table besides columns, and what messages call it."""


class Marked(dict[str, Any]):
    """A part of a schema that still says which entries were read off the table, or edited after exact counts of it."""

    def __init__(
        self, entries: Mapping[str, Any], *, inferred: Sequence[str] = (), corrected: Sequence[str] = ()
    ) -> None:
        super().__init__(entries)
        self.inferred, self.corrected = tuple(inferred), tuple(corrected)


@dataclass(frozen=True)
class Schema:
    """What each column of a raw table means, by name, in order; label and classes; and how a CSV file is written.

    A column that was read off the table has the mark `inferred`, and `inferred` here names other such entries: classes,
    the dialect of the file, the number of rows, the person. Private mechanisms refuse all of them.
    `corrected` are columns that were edited after exact counts of the table were seen (the label for its classes);
    statements then say so. A schema of another one's `columns` has its corrected ones.

    >>> schema = Schema({"age": Number(0, 120, gaps=True), "ward": Category(("A", "B"))})
    >>> [column.name for column in schema.encoded()]
    ['age', 'age=(missing)', 'ward=A', 'ward=B']
    """

    columns: Mapping[str, Kind]
    label: str | None = None
    classes: tuple[Any, ...] | None = None
    separator: str | None = None
    decimal: str = "."
    thousands: str | None = None
    inferred: tuple[str, ...] = ()
    products: tuple[tuple[str, str], ...] = ()
    records: str | None = None
    corrected: tuple[str, ...] = field(default=(), compare=False)
    _encoded: tuple[EncodedColumn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = list(self.problems())
        if problems:
            raise ArgumentError(f"the schema cannot be used: {'; '.join(problems)}")
        earlier = self.columns.corrected if isinstance(self.columns, Marked) else ()
        object.__setattr__(self, "corrected", tuple(dict.fromkeys((*self.corrected, *earlier))))
        object.__setattr__(self, "columns", Marked(self.columns, corrected=self.corrected))
        encoded = tuple(part for name, kind in self.columns.items() for part in kind.encoded(name))
        object.__setattr__(self, "_encoded", encoded)
        names = [column.name for column in encoded]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"the schema gives several columns the name {list_names(twice)}; rename some of them")
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
        yield from _inferred_entry_problems(self.inferred)
        if self.separator is not None and not is_csv_separator(self.separator):
            yield f"separator must be one ASCII character such as ';'; it is {self.separator!r}"
        if self.decimal not in (".", ","):
            yield f"decimal must be '.' or ','; it is {self.decimal!r}"
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands not in ".,' _\u00a0\u202f"):
            yield f"thousands must be one of . , ' _ or a space; it is {self.thousands!r}"
        if self.records not in (None, LINES):
            yield f'records must be "lines", or left out; it is {self.records!r}'
        marks = [mark for mark in (self.separator, self.decimal, self.thousands) if mark is not None]
        if self.thousands == self.decimal or (len(set(marks)) < len(marks) and self.separator != ","):
            yield f"separator, decimal and thousands must differ; they are {marks!r}"

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

    def limits(self) -> dict[str, Any]:
        """(low, high) of every encoded column that has them, or the word "private".

        Of a schema that was read off the table, or edited after exact counts of it, they are no bounds for `craft`.
        """
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
        return entry

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
        )


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


def _schema_column_problems(columns: Mapping[str, Kind]) -> Iterator[str]:
    """What is wrong with columns; each sentence names its column."""
    for name, kind in columns.items():
        for problem in kind.problems():
            yield f"column {name!r}: {problem}"


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
    "other": {"type": "boolean", "description": "Whether all other values have a column in common."},
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
        "decimal": {"enum": [".", ",", None]},
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
