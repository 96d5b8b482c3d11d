"""What the holder declares about a table before it is opened: columns, bounds, label and classes.

A declaration is a schema, as `rado schema` writes it (see `tables.schema`), or its file. In Python it may also be
bounds of numbers without gaps: a mapping of column to (low, high), or an array with a row for each feature.

In place of (low, high) a column may have the word "private"; and the word in place of the whole declaration stands for
all columns of the table. The mechanism `moments` then looks for bounds itself, by noisy counts that are part of its
promise.

A release and a model carry the schema by which raw rows are read, and stand for it: another holder who declares one of
them reads its table in the same way.

The holder decides all of it from public knowledge. What was read off the table itself is marked as inferred: this
reveals some of the table, so private mechanisms refuse it.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError, reason
from radoboost.release.columns import CONSTANT
from radoboost.release.file_format import BLOCK_COLUMN
from radoboost.release.release import load
from radoboost.tables.column_selection import check_column_name, list_names
from radoboost.tables.column_types import PRIVATE, Number, Word
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.schema import SCHEMA_KEY, Marked, Schema


class Carrier(Protocol):
    """A release or a model, which may carry a schema."""

    @property
    def schema(self) -> Schema | None:
        """By which raw rows are read; None of a table of numbers."""

    @property
    def statement(self) -> Any:
        """What was promised about the table."""


Bounds = Schema | Carrier | Mapping[str, Any] | NDArray[np.float64] | str | Path | None
_MODEL_KEY = "radoboost_model"
_LEAST_WIDTH = 2.0**-900  # of bounds: sixty-fourths of it, and twice its inverse, are still exact


@dataclass(frozen=True, eq=False)
class Declared:
    """A declaration, not checked yet: `limits` by column or by position, and what else a schema says.

    With `all_private` there are no limits: those of all columns of the table are to be found privately. A `schema` says
    what the columns of a raw table mean: limits are then those of its encoded columns.
    """

    limits: Mapping[str, Any] | NDArray[np.float64]
    label: str | None = None
    classes: tuple[Any, ...] | None = None
    inferred: tuple[str, ...] = ()  # what was read off the table, in words
    all_private: bool = False
    schema: Schema | None = None
    ids: tuple[str, ...] = ()  # columns that tell rows or persons apart, used for nothing

    @classmethod
    def by_schema(cls, schema: Schema) -> "Declared":
        ids = tuple(name for name, kind in schema.columns.items() if kind.kind == "id")
        return cls(schema.limits(), schema.label, schema.classes, schema.inferences, schema=schema, ids=ids)

    def choose(self, features: Sequence[str] | None, drop: Sequence[str], label: str | None) -> "Declared":
        """The declaration for some columns of its schema, without the label, and without those that are left out."""
        if self.schema is None:
            return self
        left = [drop] if isinstance(drop, str) else list(drop)
        chosen = self.schema.only(features, [*left, *([] if label is None else [label])])
        if not chosen.used:
            kinds = ", ".join(f"{name!r} is left out as {kind.kind}" for name, kind in chosen.columns.items())
            raise ArgumentError(
                f"nothing is left to learn from: {kinds or 'every column of the schema is dropped'}; use columns of "
                "numbers, categories or dates"
            )
        # That a column is left out may itself be read off the table, so its mark counts too.
        return replace(Declared.by_schema(chosen.only(chosen.used, ())), inferred=self.inferred, ids=self.ids)

    @property
    def names(self) -> list[str] | None:
        """The declared columns; None where bounds go by position, or the table says which columns there are."""
        if self.schema is not None:
            return [column.name for column in self.schema.encoded()]
        return list(self.limits) if isinstance(self.limits, Mapping) and not self.all_private else None

    @property
    def terms(self) -> dict[str, tuple[Word, ...]]:
        """The terms that a schema has, by column, with squares and products."""
        return {} if self.schema is None else self.schema.terms

    def searched(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns among `names` whose bounds are to be found privately."""
        if self.all_private:
            return tuple(names)
        limits = self.limits
        return tuple(name for name in names if isinstance(limits, Mapping) and _is_private_bound(limits.get(name)))

    def with_found(self, found: Mapping[str, tuple[float, float]]) -> "Declared":
        """The declaration with bounds in place of the word "private"."""
        return replace(self, limits={**dict(self.limits), **found}, all_private=False) if found else self

    def refuse_private(self) -> None:
        """Refuse bounds that are to be found privately, for those who cannot."""
        if self.all_private or (self.names is not None and self.searched(self.names)):
            raise ArgumentError(
                "only the mechanism moments finds bounds privately; take it, or declare low and high of every column"
            )


def whose_rows_warning(declared: Declared, person: str | None, unit: str | None) -> str | None:
    """What to know before something is promised about rows that may be several of one person; by names alone.

    Nothing where a person is named, or where `unit` says that each row is another one.
    """
    if person is not None or unit == "record" or not declared.ids:
        return None
    first, others = declared.ids[0], declared.ids[1:]
    return (
        f"each row counts as another person, whatever its {' or '.join(map(repr, declared.ids))} is; to promise "
        f"something to persons, say whose row it is and how many rows of each may count: --person {shlex.quote(first)} "
        f"--max-rows K (person={first!r}, max_rows=K){' or by another column' if others else ''}; K = 1 costs no more "
        "noise than this; if each row is another person, say so: --unit record (unit='record')"
    )


def origin_of_schema(declared: Schema | None, schema: Schema | None) -> str:
    """Where the schema of a release came from, as `StatementFacts.schema` has it; the holder gave `declared`."""
    if schema is None:
        return ""
    if not schema.from_data:
        return "declared"
    return "table" if declared is None or declared.from_data else "settled"


def _is_private_bound(limits: Any) -> bool:
    return isinstance(limits, str) and limits == PRIVATE


def read_bounds(bounds: Bounds) -> Declared:
    """A declaration in any of its forms: bounds, or a schema."""
    if bounds is None:
        return Declared({})
    if isinstance(bounds, str | Path):
        return Declared({}, all_private=True) if str(bounds) == PRIVATE else _read_schema_file(Path(bounds))
    if isinstance(bounds, Schema):
        return Declared.by_schema(bounds)
    if hasattr(bounds, "schema") and hasattr(bounds, "statement"):
        return _schema_carried_by_file(bounds.schema, f"the {type(bounds).__name__.lower()}")
    if isinstance(bounds, Marked) and (bounds.inferred or bounds.corrected):
        raise ArgumentError(
            "these bounds are the limits of a schema that was read off the table, or edited after exact counts of it; "
            "give the schema itself, which says so"
        )
    if isinstance(bounds, Mapping):
        if SCHEMA_KEY in bounds:
            return Declared.by_schema(Schema.from_dict(bounds))
        if isinstance(bounds.get("columns"), Mapping):
            raise ArgumentError(f'the mapping has columns as a schema has them; add "{SCHEMA_KEY}": 1 to it')
        return Declared(bounds)
    try:
        pairs = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.zeros(0)
    if pairs.ndim != 2:
        raise ArgumentError(
            "bounds must be a schema or its file, a mapping of column to (low, high), a pair of numbers for each "
            "feature, or the word private"
        )
    return Declared(pairs)


def declaration_fields(
    schema: Bounds,
    bounds: Bounds,
    y: Any,
    label: str | None,
    classes: Sequence[Any] | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> dict[str, Any]:
    """The fields of `CraftRequest` by a declaration: label and classes by the schema, unless the caller names them."""
    if schema is not None and bounds is not None:
        raise ArgumentError("give a schema or bounds, not both: a schema has the bounds of its columns")
    check_column_name("label", label)
    declared = read_bounds(bounds if schema is None else schema)
    label = label if label is not None or y is not None else declared.label
    declared = declared.choose(features, drop, label)
    by_schema = declared.schema is not None
    return {
        "declared": declared,
        "label": label,
        "classes": declared.classes if classes is None else classes,
        "features": None if by_schema else features,
        "drop": () if by_schema else drop,
    }


def declaration_with_dialect(
    declared: dict[str, Any], separator: str | None, decimal: str | None, private: bool
) -> dict[str, Any]:
    """A declaration with how a CSV file is written: that is part of a schema.

    A private mechanism that has bounds alone gets a schema of numbers; where there is none yet, one is to be proposed.
    """
    CsvDialect(separator, decimal or ".")
    declaration: Declared = declared["declared"]
    schema = declaration.schema
    if (separator is None and decimal is None) or (schema is None and not private):
        return declared
    if schema is None:
        if declaration.names is None:
            raise ArgumentError("how a file is written stands in a schema; make one: rado schema TABLE --label COL")
        limits = dict(declaration.limits)
        numbers = _check_bound_pairs(
            {name: pair for name, pair in limits.items() if not _is_private_bound(pair)}, "bounds"
        )
        schema = Schema(
            {name: Number(*numbers.get(name, (PRIVATE, PRIVATE))) for name in limits},
            declaration.label,
            declaration.classes,
        )
    schema = replace(schema, separator=separator or schema.separator, decimal=decimal or schema.decimal)
    changed = replace(Declared.by_schema(schema), inferred=declaration.inferred, ids=declaration.ids)
    return {
        **declared,
        "declared": changed.choose(declared["features"], declared["drop"], declared["label"]),
        "features": None,
        "drop": (),
    }


def _schema_carried_by_file(schema: Schema | None, name: str) -> Declared:
    """The declaration that a release or a model carries; `name` is what messages call it."""
    if schema is None:
        raise ArgumentError(
            f"{name} carries no schema, for its table has numbers alone: give the schema by which it was crafted, or "
            "bounds, or write a schema with rado schema"
        )
    return Declared.by_schema(schema)


def _is_release_file(path: Path) -> bool:
    """Whether a file is of the form that releases have; whether it is one, `load` says."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


def _read_schema_file(path: Path) -> Declared:
    if _is_release_file(path):
        return _schema_carried_by_file(load(path).schema, str(path))
    try:
        parsed = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_refuse_repeated_json_names)
    except OSError as error:
        raise ArgumentError(f"cannot read the schema {path}: {reason(error)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"the file {path} {error}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the file {path} is not JSON: {error}") from None
    if isinstance(parsed, dict) and SCHEMA_KEY in parsed:
        return Declared.by_schema(_schema_in_json({"schema": parsed}, path))
    if isinstance(parsed, dict) and _MODEL_KEY in parsed:
        return _schema_carried_by_file(_schema_in_json(parsed, path) if "schema" in parsed else None, str(path))
    raise ArgumentError(
        f'{path} is not a schema file, for it has no "{SCHEMA_KEY}"; make one: rado schema TABLE --label COL'
    )


def _schema_in_json(document: Mapping[str, Any], path: Path) -> Schema:
    try:
        return Schema.from_dict(document["schema"])
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None


def _refuse_repeated_json_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file, refused if it has a name twice: which of them is meant, nobody could say."""
    names = [name for name, _ in pairs]
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise ArgumentError(f"has {list_names(twice)} twice in one object; keep one of them")
    return dict(pairs)


def check_declared_bounds(declared: Declared, names: Sequence[str], scale: str) -> dict[str, tuple[float, float]]:
    """(low, high) by column name, refusing what does not fit the table."""
    declared.refuse_private()
    bounds = declared.limits
    if isinstance(bounds, np.ndarray):
        if bounds.shape != (len(names), 2):
            raise ArgumentError(
                f"bounds given as an array must have shape ({len(names)}, 2), a row for each feature; "
                f"the shape is {bounds.shape}"
            )
        bounds = dict(zip(names, bounds.tolist(), strict=True))
    known = set(names)
    unknown = [name for name in bounds if name not in known]
    if unknown:
        raise ArgumentError(f"bounds name {list_names(unknown)}, not among the features; correct or drop such columns")
    missing = [name for name in names if name not in bounds]
    if scale == "bounds" and missing:
        raise ArgumentError(f"scale='bounds' needs bounds for every column; there are none of {list_names(missing)}")
    return _check_bound_pairs(bounds, scale)


def _check_bound_pairs(bounds: Mapping[str, Any], scale: str) -> dict[str, tuple[float, float]]:
    """(low, high) as numbers by column; all that cannot be used are named at once."""
    pairs, problems = {}, []
    for name, pair in bounds.items():
        try:
            pairs[name] = _check_bound_pair(name, pair, scale)
        except ArgumentError as error:
            problems.append(str(error))
    if problems:
        raise ArgumentError("; ".join(problems))
    return pairs


def _check_bound_pair(name: str, pair: Sequence[float], scale: str) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in (() if isinstance(pair, str) else pair))
    except (TypeError, ValueError):
        raise ArgumentError(f"bounds of {name!r} must be two numbers, low and high; they are {pair!r}") from None
    if not (low <= high and math.isfinite(2 * (high - low))):
        raise ArgumentError(f"bounds of {name!r} must be finite with low <= high; they are {low}, {high}")
    if scale == "bounds" and low == high:
        raise ArgumentError(f"bounds of {name!r} are both {low}; scale='bounds' needs low < high")
    if scale == "bounds" and high - low < _LEAST_WIDTH:
        raise ArgumentError(
            f"bounds of {name!r}, {low} and {high}, are too close to divide by their distance; use larger units"
        )
    return low, high


def check_declared_feature_names(names: Sequence[str], intercept: bool) -> None:
    """Refuse feature names that a release uses for other things."""
    reserved = {BLOCK_COLUMN, CONSTANT} if intercept else {BLOCK_COLUMN}
    wrong = [name for name in names if name in reserved]
    if wrong:
        one = len(wrong) == 1
        raise TableError(
            f"a feature cannot be called {' or '.join(map(repr, wrong))}: a release uses "
            f"{'that name; rename or drop it' if one else 'these names; rename or drop them'}"
        )


def declared_limit_arrays(
    limits: Mapping[str, tuple[float, float]], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lower and the upper bound of every feature; infinite where none is declared."""
    pairs = np.array([limits.get(name, (-np.inf, np.inf)) for name in names])
    return pairs[:, 0].copy(), pairs[:, 1].copy()
