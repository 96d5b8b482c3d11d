"""A row that somebody types: a form made of a model's columns, and the row as the model takes it."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError
from radoboost.learner.effects import limits_of
from radoboost.learner.model import Model
from radoboost.studio.security import Form
from radoboost.tables.column_types import Category, Date, slot_word

NUMBER, CATEGORY, DATE, MOMENT = "number", "category", "date", "moment"
_TYPES = {NUMBER: pa.float64(), CATEGORY: pa.string(), DATE: pa.timestamp("s"), MOMENT: pa.timestamp("s")}
_ANOTHER = "(another value)"


@dataclass(frozen=True)
class Field:
    """One field of the form: its place among the columns, their name, and what may be typed or chosen.

    `options` of a category are its values and their words; `hint` says which values are usual.
    """

    place: int
    name: str
    kind: str
    options: tuple[tuple[str, Any], ...] = ()
    hint: str = ""

    @property
    def id(self) -> str:
        """Its name in the form: that of a column may hold what no form can carry."""
        return f"v{self.place}"


def fields_of(model: Model) -> list[Field]:
    """The form for a row of a model, by its schema, or else a number for each column."""
    return [_field(model, place, name) for place, name in enumerate(model.feature_names)]


def _field(model: Model, place: int, name: str) -> Field:
    kind = None if model.schema is None else model.schema.columns[name]
    if isinstance(kind, Category):
        options = [(str(k), value) for k, value in enumerate(kind.values or ())]
        return Field(place, name, CATEGORY, tuple(options + [("other", _ANOTHER)] * kind.other))
    if isinstance(kind, Date):
        hint = f"{kind.low} to {kind.high}" if kind.low and kind.high and "private" not in (kind.low, kind.high) else ""
        return Field(place, name, DATE if kind.unit == "days" else MOMENT, hint=hint)
    low, high = limits_of(name, model.columns, model.map)
    return Field(place, name, NUMBER, hint=f"{low:.4g} to {high:.4g}")


def read_row(model: Model, form: Form) -> tuple[dict[str, str], pa.Table, list[str]]:
    """What was typed, the row as a table, and the same as lines of a CSV file; empty fields are gaps."""
    typed, cells, columns = {}, [], {}
    decimal = "." if model.schema is None else model.schema.decimal
    for field in fields_of(model):
        typed[field.id] = text = form.text(field.id, "").strip()
        if not text:
            columns[field.name] = pa.nulls(1, _TYPES[field.kind])
            cells.append("")
        elif field.kind == CATEGORY:
            value = _chosen_value(field, text)
            columns[field.name] = pa.array([value])
            cells.append(slot_word(value))
        elif field.kind == NUMBER:
            number = _typed_number(field, text, decimal)
            columns[field.name] = pa.array([number])
            cells.append(repr(number).removesuffix(".0").replace(".", decimal))
        else:
            moment = _moment(field, text)
            columns[field.name] = pa.array([moment], pa.timestamp("s"))
            cells.append(moment.isoformat() if field.kind == MOMENT else moment.date().isoformat())
    return typed, pa.table(columns), [_csv_line(list(columns)), _csv_line(cells)]


def _chosen_value(field: Field, text: str) -> Any:
    for key, value in field.options:
        if key == text:
            return value
    raise ArgumentError(f"{field.name} has no such value; choose one of the list")


def _typed_number(field: Field, text: str, decimal: str) -> float:
    try:
        number = float(text.replace(decimal, ".") if text.count(decimal) == 1 else text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:
        raise ArgumentError(
            f"{field.name}: {text[:40]!r} is no number; type one such as 12{decimal}5, or leave it empty"
        )
    return number


def _moment(field: Field, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)
    except ValueError:
        raise ArgumentError(
            f"{field.name}: {text[:40]!r} is no date; type one such as 2024-01-31, or leave it empty"
        ) from None


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
