"""What the columns of a table may mean, by their names and storage types alone: no value is looked at."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.cells import is_text
from radoboost.tables.columns import listed, storage
from radoboost.tables.kinds import Category, Date, Kind, Left, Number
from radoboost.tables.raw import column_types
from radoboost.tables.schema import Schema

_IDS = {"id", "ids", "uuid", "guid", "identifier", "mrn", "ssn", "nhs", "pid"}
_OWNERS = {"account", "case", "client", "customer", "member", "patient", "person", "record", "subject", "user", "visit"}
_NUMBERS = {"key", "nr", "no", "num", "number"}
_DATES = {"date", "datetime", "timestamp", "dob", "birth", "birthday", "birthdate", "born", "admitted", "discharged"}
_DATE_ENDS = {"at", "on", "time", "date", "day"}
_TEXTS = {"name", "surname", "firstname", "lastname", "note", "notes", "comment", "comments", "text", "description"}
_TEXTS |= {"remark", "remarks", "address", "street", "email", "mail", "phone", "url"}
_CATEGORIES = {"sex", "gender", "ward", "type", "category", "code", "status", "class", "country", "region", "city"}
_CATEGORIES |= {"clinic", "department", "hospital", "site", "race", "ethnicity", "diagnosis", "group", "kind", "state"}
_CATEGORIES |= {"language", "occupation", "insurance", "zip", "postcode", "colour", "color", "province", "district"}


def name_words(name: str) -> list[str]:
    """The words that a name is made of, in small letters."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[\W_]+", spaced) if word]


def says_id(name: str) -> bool:
    """Whether a name says that the column tells rows or persons apart."""
    words = name_words(name)
    owned = len(words) == 2 and words[0] in _OWNERS and words[1] in _NUMBERS
    return owned or any(words[place] in _IDS for place in ((0, -1) if words else ()))


def kind_of(name: str, stored: pa.DataType | None) -> Kind:
    """The kind of a column by its name and storage type; what must be decided about it stays open."""
    if stored is not None and pa.types.is_dictionary(stored) and storage(stored.value_type) != "text":
        return Left("id") if says_id(name) else Category()  # whoever made it a dictionary says so
    while stored is not None and (pa.types.is_dictionary(stored) or pa.types.is_run_end_encoded(stored)):
        stored = stored.value_type
    if stored is not None:
        if pa.types.is_boolean(stored):
            return Number(0, 1)
        if pa.types.is_date(stored) or pa.types.is_timestamp(stored):
            return Date()
        if pa.types.is_floating(stored) or pa.types.is_decimal(stored):
            return Left("id") if says_id(name) else Number()
        if not (is_text(stored) or pa.types.is_integer(stored)):
            return Left("text")  # nested, durations, times: no kind of column reads them
    words = set(name_words(name))
    last = next(iter(name_words(name)[::-1]), "")
    whole = stored is not None and pa.types.is_integer(stored)
    if says_id(name):
        return Left("id")
    if not whole and (words & _DATES or last in _DATE_ENDS):
        return Date()
    if not whole and words & _TEXTS:
        return Left("text")
    if words & _CATEGORIES or (stored is not None and not whole):
        return Category()
    return Number()


def names_in_doubt(names: Sequence[str]) -> dict[str, str]:
    """The columns that hold no numbers as it seems, by their names alone, with what they may be."""
    kinds = {name: kind_of(name, None).kind for name in names}
    return {name: kind for name, kind in kinds.items() if kind != "number"}


def taken_for_numbers(names: Sequence[str]) -> str | None:
    """A sentence on columns that are read as numbers though their names say id, date or text; None if none does.

    Categories are often written as numbers, so their names are no reason.
    """
    doubts = {name: kind for name, kind in names_in_doubt(names).items() if kind != "category"}
    if not doubts:
        return None
    one, kinds = len(doubts) == 1, " or ".join(dict.fromkeys(doubts.values()))
    options = " ".join(f"--drop {shlex.quote(name)}" for name in list(doubts)[:4])
    return (
        f"{listed(list(doubts))} {'is read as a number' if one else 'are read as numbers'}, though by "
        f"{'its name it is' if one else 'their names they are'} of the kind {kinds}; if so, leave "
        f"{'it' if one else 'them'} out: {options}{' ...' if len(doubts) > 4 else ''}"
    )


def schema_template(table: Any, label: str | None = None, separator: str | None = None) -> Schema:
    """A schema to fill in: which columns there are, and what they may be, without a look at any value.

    >>> template = schema_template(pa.table({"age": [30.0], "ward": ["A"], "ill": ["no"]}), "ill")
    >>> [(name, kind.kind) for name, kind in template.columns.items()], list(template.undecided())
    ([('age', 'number'), ('ward', 'category')], ['age', 'ward'])
    """
    types = column_types(table, separator)
    check_label(label, list(types))
    kinds = {name: kind_of(name, stored) for name, stored in types.items() if name != label}
    return Schema(kinds, label, separator=separator)


def check_label(label: str | None, names: list[str]) -> None:
    """Refuse a label that is no column."""
    if label is not None and label not in names:
        raise TableError(f"the table has no column {label!r} for the label; its columns are {listed(names)}")
