"""The record that an audit looks for, and tables of such records.

A canary is a row of numbers, or a row of a raw table that a schema reads: one with a gap and a category. What is
attacked in the second case is the whole way from the cells on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.holder.schema_file import Declared
from radoboost.tables import Table, open_table
from radoboost.tables.column_types import Category, Number
from radoboost.tables.schema import Schema

WIDTH = 3  # columns of a canary of numbers, each with another share of its norm
_MOST_COLUMNS = 300  # of a canary that must be long
RAW_SCHEMA = Schema({"age": Number(0, 120, fill=90, gaps=True), "ward": Category(("A", "B"), other=True)})
_RAW_CELLS = {"age": "", "ward": "B"}
_RAW_NOTHING = {"age": "60", "ward": ""}  # zeros, once it is scaled


@dataclass(frozen=True, eq=False)
class Canary:
    """A record as encoded columns, `values`, and what is declared about tables of such records."""

    values: NDArray[np.float64]
    declared: Declared

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The values by their bounds, within [-1, 1]."""
        limits = self.declared.limits
        low, high = np.array(limits if isinstance(limits, np.ndarray) else list(limits.values()), dtype=np.float64).T
        return np.asarray(np.clip(2 * (self.values - low) / (high - low) - 1, -1, 1))

    def table(
        self,
        labels: Sequence[float],
        *,
        beside_nothing: bool = False,
        last: NDArray[np.float64] | None = None,
    ) -> Table:
        """As many canaries as there are labels, opened as crafting opens a table for a promise about records.

        With `beside_nothing` every second row is one of zeros instead. The `last` row may hold other numbers.
        """
        schema, places = self.declared.schema, np.arange(len(labels)) % (1 + beside_nothing)
        if schema is None:
            rows = np.array([self.values, np.zeros_like(self.values)])[places]
            rows[-1:] = rows[-1:] if last is None else last
            return open_table(rows, np.array(labels), row_by_row=True)
        cells = {name: pa.array([cell, _RAW_NOTHING[name]]).take(pa.array(places)) for name, cell in _RAW_CELLS.items()}
        return open_table(pa.table(cells), np.array(labels), row_by_row=True, schema=schema)


def row_of_numbers(values: Sequence[float]) -> Canary:
    """A canary of numbers, each between -1 and 1, or clipped to that."""
    row = np.array(values, dtype=np.float64)
    return Canary(row, Declared(np.tile([-1.0, 1.0], (len(row), 1))))


def long_row(clip: float) -> Canary:
    """A canary that is much longer than `clip`, with another share of its norm in every column.

    If `clip` is very large, the row is as long as a few hundred columns allow.
    """
    width = min(max(WIDTH, math.ceil(WIDTH * clip**2)), _MOST_COLUMNS)
    return row_of_numbers(np.linspace(1.0, 0.9, width).tolist())


def raw_row() -> Canary:
    """A canary with a gap and a category, as a schema reads it."""
    canary = Canary(np.zeros(0), Declared.by_schema(RAW_SCHEMA))
    return Canary(next(canary.table([1]).batches()).values()[0], canary.declared)
