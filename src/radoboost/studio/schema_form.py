"""A schema that a person is writing: what was guessed from names, what was decided since, and what is wrong with it."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from radoboost.cli.schema import apply_schema_decisions, schema_as_text
from radoboost.errors import ArgumentError, RadoError
from radoboost.holder.schema_inference import infer_kind_by_name, schema_template
from radoboost.tables import column_types
from radoboost.tables.raw_table import raw_column_types
from radoboost.tables.schema import ABOUT_THE_TABLE, Schema

_OF_FILE = "decimal mark of the file"  # beside the entries of a number, which may have one of its own
_ON_CARDS = {"kind", "inferred", "low", "high", "fill", "gaps", "values", "other", "unit", "order", "parts"}
MOST_CARDS = 400  # of a page; other columns stay as their names suggest, or as the file says
ABOUT = {
    "number": "an amount",
    "category": "one of few values",
    "date": "a date or a time",
    "text": "left out",
    "id": "left out",
}


@dataclass(frozen=True)
class Card:
    """One column as its card shows it: `fields` are texts of a form, `open` says what a promise still needs."""

    place: int
    name: str
    stored: str
    kind: str
    fields: Mapping[str, Any]
    open: str
    problems: tuple[str, ...]
    corrected: bool = False


def _new_form_epoch() -> str:
    return secrets.token_hex(16)


@dataclass
class SchemaForm:
    """The schema of a table while it is written.

    `first` is what it began with: names and storage types alone, or a look at the table, which it marks. `columns`
    are those that somebody decided otherwise, as JSON data. Nothing here reads a row.

    A form on a page carries the `epoch` of the draft that the page shows. The epoch changes when the draft begins
    again, so that the cards of an older page are not taken for what somebody typed. `before_counts` holds the entries
    of the draft at the time when exact counts of the table were first shown; None if none were. `marked` are columns
    that an earlier draft says were edited after that. `others` are entries of a schema file that no card shows.
    """

    table: Path
    types: Mapping[str, pa.DataType | None]
    first: Schema
    columns: dict[str, Any] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    separator: str | None = None
    decimal: str | None = None
    epoch: str = field(default_factory=_new_form_epoch)
    before_counts: Mapping[str, Any] | None = None
    marked: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Path, separator: str | None = None) -> "SchemaForm":
        """The draft of a table, by its names and storage types alone."""
        return cls(table, raw_column_types([str(table)], separator), schema_template([str(table)], None, separator))

    @property
    def label(self) -> str | None:
        """The column that is to be learned, once somebody said so."""
        return self.first.label

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns of kind id: there may be several rows of one person."""
        return tuple(name for name in self.first.columns if self.entry(name)["kind"] == "id")

    @property
    def from_data(self) -> bool:
        """Whether the table was looked at."""
        return self.first.from_data

    def set_label(self, label: str | None) -> None:
        """Choose the column that is to be learned; after a look at the table, all begins again from names."""
        if label == self.label:
            return
        first = schema_template([str(self.table)], label, self.separator)
        if self.from_data:
            self.begin_with(first)
        else:
            self.first, self.classes = first, None

    def begin_anew(self) -> None:
        """Forget all decisions, and what was read off the table; the label stays."""
        self.begin_with(schema_template([str(self.table)], self.label, self.separator))

    def begin_with(self, first: Schema) -> None:
        """Begin again with another first schema; forms of the pages before are not taken any more."""
        self.first, self.columns, self.classes, self.decimal, self.marked = first, {}, None, None, ()
        self.others = {}
        self.epoch = _new_form_epoch()

    def take_up(self, schema: Schema) -> None:
        """Take decisions from a schema that is there; columns that it does not have are left out."""
        if schema.from_data:
            raise ArgumentError("this schema was read off a table; propose one anew, or begin from names alone")
        unknown = [name for name in (*schema.columns, *filter(None, [schema.label])) if name not in self.types]
        if unknown:
            raise ArgumentError(f"the table has no column {unknown[0]!r}, which this schema has; choose another schema")
        self.separator = schema.separator
        self.begin_with(schema_template([str(self.table)], schema.label, schema.separator))
        left = column_types.column_kind_to_dict(column_types.Ignored("text"))
        kinds = {name: column_types.column_kind_to_dict(kind) for name, kind in schema.columns.items()}
        self.columns = {name: kinds.get(name, left) for name in self.first.columns}
        self.decimal = None if schema.decimal == "." else schema.decimal
        self.classes, self.marked = schema.classes, schema.corrected
        self.others = {name: getattr(schema, name) for name in (*ABOUT_THE_TABLE, "thousands", "records", "products")}

    def entries(self) -> dict[str, Any]:
        """What is decided now, by column: each one as JSON data, with how its numbers are written, and the classes."""
        found = {name: self._with_mark(name, self.entry(name)) for name in self.first.columns}
        return found if self.label is None else {**found, self.label: {"classes": self._classes()}}

    def _with_mark(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, _OF_FILE: self.decimal or self.first.decimal} if entry["kind"] == "number" else entry

    @property
    def corrected(self) -> tuple[str, ...]:
        """The columns that were edited after exact counts of the table were shown; the label for its classes."""
        if self.from_data:
            return ()
        now, found = self.entries(), set(self.marked)
        if self.before_counts is not None:
            then = self.before_counts
            changed = [name for name in now if now[name] != then.get(name)]
            found |= {n for n in changed if self._is_decided(n, now[n]) or self._is_decided(n, then.get(n))}
        return tuple(name for name in self.types if name in found and name in now)

    def _is_decided(self, name: str, entry: Mapping[str, Any] | None) -> bool:
        """Whether an entry says what somebody decided about a column: not open, and not as the name suggests."""
        if entry is None or "classes" in entry:
            return entry is not None and entry["classes"] is not None
        plain = {key: value for key, value in entry.items() if key != _OF_FILE}
        return not _undecided_card(entry) and plain != column_types.column_kind_to_dict(
            infer_kind_by_name(name, self.types[name])
        )

    def entry(self, name: str) -> dict[str, Any]:
        if name in self.columns:
            return dict(self.columns[name])
        kind = self.first.columns.get(name) or infer_kind_by_name(name, self.types[name])
        return column_types.column_kind_to_dict(kind)

    def changes(self) -> dict[str, Any]:
        return {
            name: self.columns[name]
            for name, kind in self.first.columns.items()
            if name in self.columns and self.columns[name] != column_types.column_kind_to_dict(kind)
        }

    def schema(self) -> Schema:
        """The schema, if all of it can be used."""
        entries = {"decimal": self.decimal, "corrected": tuple(self.corrected)}
        given = {name: entry for name, entry in entries.items() if entry}
        return replace(apply_schema_decisions(self.first, self.changes(), self.classes, given), **self.others)

    def text(self) -> str:
        return schema_as_text(self.schema())

    def problems(self) -> dict[str, tuple[str, ...]]:
        """What is wrong, by column; under "" what is wrong with no single one of them."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.first.columns:
            if problems := _card_problems(self.entry(name)):
                found[name] = problems
        outer = [] if self.label is not None else ["choose the column that is to be learned"]
        if not found:
            try:
                schema = self.schema()
            except RadoError as error:
                outer.append(str(error))
            else:
                outer += [] if schema.used else ["every column is left out, and nothing is left to learn from"]
        return {**({"": tuple(outer)} if outer else {}), **found}

    def undecided(self) -> list[str]:
        """What a promise about records still needs: names of columns, and the classes."""
        columns = [name for name in self.first.columns if _undecided_card(self.entry(name))]
        return [*columns, *(["the classes"] if self.label is not None and self._classes() is None else [])]

    def _classes(self) -> tuple[Any, ...] | None:
        return self.first.classes if self.classes is None else self.classes

    def class_texts(self) -> list[str]:
        return [str(value) for value in self._classes() or ()]

    def cards(self) -> list[Card]:
        """The columns but the label, in order."""
        names, corrected = list(self.types), self.corrected
        return [self.card(name, corrected) for name in names[:MOST_CARDS] if name != self.label]

    def card(self, name: str, corrected: tuple[str, ...] | None = None) -> Card:
        """One column; `corrected` is what the property of that name says, where the caller has it."""
        entry, stored = self.entry(name), self.types[name]
        place = list(self.types).index(name)
        return Card(
            place, name, "" if stored is None else f"stored as {stored}", entry["kind"], _card_fields(entry),
            _undecided_card(entry), _card_problems(entry),
            name in (self.corrected if corrected is None else corrected)
        )  # fmt: skip


def read_card_entry(kind: str, before: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """A column as JSON data, from the texts of its card; what a card does not show stays as it was before."""
    if kind not in ABOUT:
        raise ArgumentError(f"there is no kind of column {kind!r}; load the page again")
    mark = {"inferred": True} if before.get("inferred") else {}
    if kind != before["kind"]:
        return {"kind": kind, **_blank_card_entry(kind), **mark}
    if kind in ("text", "id"):
        return {"kind": kind, **mark}
    unseen = {name: value for name, value in before.items() if name not in _ON_CARDS}
    entry: dict[str, Any] = {"kind": kind, **unseen, **mark}
    if kind == "category":
        entry["values"] = _card_values(fields.get("values", ""), before.get("values"))
        entry |= {"other": before.get("other") or True} if "other" in fields else {}
    elif "search" in fields:
        entry |= {"low": column_types.PRIVATE, "high": column_types.PRIVATE}
    else:
        read = _card_number if kind == "number" else _card_text
        entry |= {name: read(fields.get(name, "")) for name in ("low", "high")}
    if kind != "category" and fields.get("fill", "").strip():
        entry["fill"] = (_card_number if kind == "number" else _card_text)(fields["fill"])
    if kind == "date":
        entry |= {name: fields[name] for name in ("unit", "order") if fields.get(name, _USUAL[name]) != _USUAL[name]}
        parts = [part for part in column_types.PARTS if f"part-{part}" in fields]
        entry |= {"parts": parts} if parts else {}
    return {**entry, **({"gaps": True} if "gaps" in fields else {})}


_USUAL = {"unit": next(iter(column_types.UNITS)), "order": column_types.ORDERS[0]}


def _blank_card_entry(kind: str) -> dict[str, Any]:
    """What must be decided of a kind, as JSON data: nothing of it is yet."""
    return {} if kind in ("text", "id") else {"values": None} if kind == "category" else {"low": None, "high": None}


def _card_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    searched = entry.get("low") == column_types.PRIVATE and entry.get("high") == column_types.PRIVATE
    texts: dict[str, Any] = {
        name: "" if entry.get(name) is None or (searched and name != "fill") else str(entry[name])
        for name in ("low", "high", "fill")
    }
    texts["values"] = "\n".join(_card_word(value) for value in entry.get("values") or ())
    texts |= {name: bool(entry.get(name)) for name in ("gaps", "other")}
    texts |= {name: entry.get(name) or usual for name, usual in _USUAL.items()}
    return {**texts, "search": searched, "parts": list(entry.get("parts") or ())}


def _undecided_card(entry: Mapping[str, Any]) -> str:
    """What a promise about records still needs of a column."""
    if entry["kind"] == "category":
        return "which values there are" if entry.get("values") is None else ""
    if entry["kind"] in ("text", "id"):
        return ""
    words = {"low": "the lowest", "high": "the highest"}
    missing = [word for name, word in words.items() if entry.get(name) is None]
    return f"{' and '.join(missing)} value" if missing else ""


def _card_problems(entry: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        kind: column_types.Kind = column_types.column_kind_from_dict(entry)
    except ArgumentError as error:
        return (str(error),)
    return tuple(kind.problems())


def _card_number(text: str) -> Any:
    """A number as JSON has it; another text as it is, for a problem to name; None where nothing was typed."""
    if not text.strip():
        return None
    try:
        value = json.loads(text.strip().removeprefix("+"))
    except ValueError:
        return text.strip()
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text.strip()


def _card_text(text: str) -> Any:
    return text.strip() or None


def _card_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _card_values(text: str, before: Any) -> list[Any] | None:
    """Values, one on each line; those that were there before keep their types."""
    typed = {_card_word(value): value for value in before or ()}
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return [typed.get(word, word) for word in words] or None
