"""The columns of a table: which of them are features, and which types are numbers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, DoesNotFit, NeedsSchema, TableError

LARGEST_INTEGER = 2**53
NO_VALUE = "\x00"  # begins the spelling of what is no number, text or date; its type follows


def check_column_name(role: str, name: Any) -> None:
    """Refuse what is no name of a column: a column itself, of a data frame, does not even compare as names do."""
    if name is not None and not isinstance(name, str):
        called = getattr(name, "name", None)
        hint = f"; write {role}={called!r}" if isinstance(called, str) else ""
        what = repr(name) if isinstance(name, int | float | tuple | list) else f"a {type(name).__name__}"
        raise ArgumentError(f"{role} must be the name of a column; it is {what}{hint}")


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns the caller chose: the label, the features (None: all others), and those to drop.

    `person` is the column that says whose row it is, or whatever else the `role` of a column beside the features is; it
    is never a feature.
    """

    label: str | None
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    person: str | None = None
    role: str = "person"

    @classmethod
    def of(cls, label: Any, features: Any, drop: Any, person: Any = None, role: str = "person") -> "ColumnChoice":
        """A choice from one name or several for each argument."""
        check_column_name("label", label)
        check_column_name(role, person)
        if person is not None and person == label:
            raise ArgumentError(f"{label!r} cannot be both the label and the {role}; name two columns")
        names = None if features is None else _column_names_argument("features", features)
        return cls(label, names, _column_names_argument("drop", drop), person, role)

    def columns(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """The features among `names`, the columns of a table that messages call `where`."""
        choices = {*(self.features or ()), self.label, self.person}
        candidates = list(names) if self.features is None else [name for name in names if name in choices]
        for group in (candidates, list(self.features or ())):
            refuse_equal_column_names(group, where)
        others = [] if self.features is None else [name for name in names if name not in choices]
        if absent := self.absent(names):
            hint = f"its other columns are {list_names(others)}" if others else f"its columns are {list_names(names)}"
            raise DoesNotFit(f"{where} has {absent}; {hint}")
        if self.label is not None and self.label in (self.features or ()):
            raise ArgumentError(f"{self.label!r} is the label; it cannot be a feature too")
        if self.person is not None and self.person in (self.features or ()):
            raise ArgumentError(f"{self.person!r} is the {self.role}; it cannot be a feature too: take it out")
        left_out = {self.label, self.person, *self.drop}
        return tuple(name for name in (self.features or names) if name not in left_out)

    def absent(self, names: Sequence[str]) -> str:
        """All chosen columns that are not among `names`, in words; nothing where all are there."""
        known = set(names)
        roles = ((self.label, "label"), (self.person, self.role))
        words = [f"no column {name!r} for the {role}" for name, role in roles if name is not None and name not in known]
        chosen = dict.fromkeys((*self.drop, *(self.features or ())))
        missing = [name for name in chosen if name not in known]
        return ", ".join([*words, *([f"no column {list_names(missing)}"] if missing else [])])


def refuse_equal_column_names(names: Sequence[str], where: str) -> None:
    """Refuse columns that have the same name, in a table that messages call `where`."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise TableError(f"{where}: several columns are called {list_names(duplicates)}; features need different names")


def _column_names_argument(argument: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"{argument} must be names of columns; {name!r} is not one")
    return names


def split_column_names(text: str) -> list[str]:
    """Names of columns from one text of a command line, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def list_names(names: Sequence[str]) -> str:
    """Names for a message: the first few, and how many more."""
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def column_names(schema: pa.Schema) -> list[str]:
    """Column names, without the index that pandas stores among the columns."""
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]


def stored_type(kind: pa.DataType) -> str:
    """What a column of this type holds: "number", "binary" for truth values, or "text"."""
    if pa.types.is_boolean(kind):
        return "binary"
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if numeric or pa.types.is_null(kind) else "text"


def check_feature_types(schema: pa.Schema, features: Sequence[str]) -> None:
    """Refuse features that are not columns of numbers, all of them at once."""
    odd = {name: schema.field(name).type for name in features if stored_type(schema.field(name).type) == "text"}
    if not odd:
        return
    held = [f"column {name!r} holds {'text' if _is_text_column_type(kind) else kind}" for name, kind in odd.items()]
    drops = " ".join(f"--drop {name}" for name in odd)
    raise NeedsSchema(
        f"{', '.join(held)}, not numbers; drop {'it' if len(odd) == 1 else 'them'} ({drops}), or say in a schema what "
        f"{'it means' if len(odd) == 1 else 'they mean'}"
    )


def _is_text_column_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def check_column_kinds(schema: pa.Schema, kinds: Mapping[str, str]) -> None:
    """Refuse columns whose type cannot be read as the kind that a schema declares, all of them at once."""
    odd = {name: schema.field(name).type for name in kinds if not _type_fits_kind(schema.field(name).type, kinds[name])}
    if odd:
        held = {name: f"column {name!r} holds {kind}, which is no {kinds[name]}" for name, kind in odd.items()}
        what = "leave it out or convert it" if len(odd) == 1 else "leave them out or convert them"
        raise DoesNotFit(f"{'; '.join(held.values())}: {what}", held)


def _type_fits_kind(column: pa.DataType, kind: str) -> bool:
    """Whether a column of this type can hold numbers, categories or dates."""
    while pa.types.is_dictionary(column) or pa.types.is_run_end_encoded(column):
        column = column.value_type
    if isinstance(column, pa.BaseExtensionType):
        return False
    if pa.types.is_null(column) or _is_text_column_type(column):
        return True
    if kind == "date":
        return bool(pa.types.is_date(column) or pa.types.is_timestamp(column))
    return stored_type(column) != "text"


def refuse_inexact(
    values: NDArray[Any], name: str, place: Callable[[int], str], largest: int = LARGEST_INTEGER
) -> None:
    """Refuse integers that float64 cannot tell apart."""
    if values.dtype.itemsize < 8 or not len(values):
        return
    if values.max() > largest or values.min() < -largest:
        row = int(np.argmax((values > largest) | (values < -largest)))
        raise TableError(
            f"column {name!r} has an integer beyond 2**53 ({place(row)}), which float64 cannot hold; rescale it"
        )


def row_number_text(row: int, first: int = 0) -> str:
    """What messages call a row that is known by its number alone; people count from 1."""
    return f"row {first + row + 1:,}"


# ---- What the name of a column says of it.

_IDS = {"id", "ids", "uuid", "guid", "identifier", "mrn", "ssn", "nhs", "pid"}
_OWNERS = {"account", "case", "client", "customer", "member", "patient", "person", "record", "subject", "user", "visit"}
_NUMBERS = {"key", "nr", "no", "num", "number"}


def words_of_column_name(name: str) -> list[str]:
    """The words that a name is made of, in small letters."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[\W_]+", spaced) if word]


def column_name_looks_like_id(name: str) -> bool:
    """Whether a name says that the column tells rows or persons apart."""
    words = words_of_column_name(name)
    owned = len(words) == 2 and words[0] in _OWNERS and words[1] in _NUMBERS
    return owned or any(words[place] in _IDS for place in ((0, -1) if words else ()))
