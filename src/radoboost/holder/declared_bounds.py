"""Bounds and names that a holder declares, checked: whoever makes a release of them asks here.

The holder decides all of it from public knowledge. What was read off the table itself is marked as inferred: this
reveals some of the table, so private mechanisms refuse it.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.release.columns import CONSTANT
from radoboost.release.file_format import BLOCK_COLUMN
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import PRIVATE, Number
from radoboost.tables.schema import Schema

_LEAST_WIDTH = 2.0**-900  # of bounds: sixty-fourths of it, and twice its inverse, are still exact


def whose_rows_warning(ids: Sequence[str], person: str | None, unit: Any) -> str | None:
    """What to know before something is promised about rows that may be several of one person; by names alone.

    Nothing where a person is named, or where `unit` says that each row is another one. `ids` are columns that tell rows
    or persons apart, and are used for nothing.
    """
    if person is not None or unit == "record" or not ids:
        return None
    first, others = ids[0], ids[1:]
    return (
        f"each row counts as another person, whatever its {' or '.join(map(repr, ids))} is; to promise something to "
        f"persons, say whose row it is and how many rows of each may count: --person {shlex.quote(f'{first}:K')} "
        f"(unit=Person({first!r}, K)){' or by another column' if others else ''}; K = 1 costs no more noise than this; "
        "if each row is another person, say so: --set unit=record (unit='record')"
    )


def origin_of_schema(declared: Schema, schema: Schema | None) -> str:
    """Where the schema of a release came from, as `StatementFacts.schema` has it; the holder gave `declared`."""
    if schema is None:
        return ""
    if not schema.from_data:
        return "declared"
    return "settled" if declared.raw and not declared.from_data else "table"


def declared_limits_as_numbers(schema: Schema) -> Schema:
    """A declaration of bounds as a schema of numbers, for private tables whose CSV is written otherwise than by commas.

    How a file is written is said of raw cells.
    """
    limits = schema.limits()
    if not (isinstance(limits, Mapping) and limits):
        raise ArgumentError("how a file is written stands in a schema; make one: rado schema TABLE --label COL")
    numbers = _check_bound_pairs({name: pair for name, pair in limits.items() if pair != PRIVATE}, "bounds")
    columns = {name: Number(*numbers.get(name, (PRIVATE, PRIVATE))) for name in limits}
    return replace(schema, columns=columns, numbers={})


def check_declared_bounds(bounds: Any, names: Sequence[str], scale: str) -> dict[str, tuple[float, float]]:
    """(low, high) by column name, refusing what does not fit the table; none of them is to be found privately."""
    if isinstance(bounds, tuple):
        shape = np.shape(np.array(bounds))
        if shape != (len(names), 2):
            raise ArgumentError(
                f"bounds given as an array must have shape ({len(names)}, 2), a row for each feature; "
                f"the shape is {shape}"
            )
        bounds = dict(zip(names, bounds, strict=True))
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
