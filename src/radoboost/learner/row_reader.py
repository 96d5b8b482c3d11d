"""Rows of a raw table, in any form, as scores. A gap never stops prediction: it is filled, and counted.

A gap in a number or a date has the mean that the release tells, where no column says that it is one and no fill is
declared. Else it has the schema's fill, or without a schema the mean of a standardised column, the middle of declared
bounds, or 0. So has a cell that cannot be read as what its column is. A value that a category does not have is a row of
zeros there.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables import Batch, Table, open_table, refuse_not_finite_values
from radoboost.tables.column_types import Category, Date, Number
from radoboost.tables.csv_dialect import SEPARATORS, CsvDialect
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.paths import is_paths, one_line_errors
from radoboost.tables.sparse import NamedMatrix
from radoboost.tables.streams import spool_for_rereading
from radoboost.tables.table import UnreadableCells

if TYPE_CHECKING:
    from radoboost.learner.model import Model

_NOT_READABLE = "not readable, and filled: "


@dataclass(frozen=True)
class FillCounts:
    """How many gaps were filled, and how many values of categories are new to the model, by raw column.

    `unread` are the cells that could not be read as a number or a date, and were filled as gaps are. `values` says what
    was used, for each column of numbers or dates in which something was filled.
    """

    gaps: Mapping[str, int] = field(default_factory=dict)
    unseen: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, UnreadableCells] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: "FillCounts") -> "FillCounts":
        gaps, unseen = (Counter(a) + Counter(b) for a, b in ((self.gaps, other.gaps), (self.unseen, other.unseen)))
        unread = dict(self.unread)
        for name, cells in other.unread.items():
            unread[name] = unread[name] + cells if name in unread else cells
        return FillCounts(gaps, unseen, unread, {**self.values, **other.values})

    def settled(self) -> "FillCounts":
        """The same as mere data: where cells are that could not be read is said now."""
        unread = {name: replace(cells, place=partial(str, cells.place())) for name, cells in self.unread.items()}
        return replace(self, unread=unread)

    def sentence(self) -> str:
        """In words; empty if there is nothing to say."""
        used = {name: f" with {value}" for name, value in self.values.items()}
        gaps = ", ".join(f"{name!r} {count:,}{used.get(name, '')}" for name, count in self.gaps.items())
        unread = ", ".join(
            f"{name!r} {cells.count:,}{used.get(name, '')} (the first is {cells.first}, {cells.place()})"
            for name, cells in self.unread.items()
        )
        unseen = [f"unseen values of {name!r}: {count:,}" for name, count in self.unseen.items()]
        filled = [words + names for words, names in (("gaps filled: ", gaps), (_NOT_READABLE, unread)) if names]
        return "; ".join([*filled, *unseen])

    def row_sentences(self) -> list[str]:
        """The same of one row, for whoever typed it."""
        used = {name: f"; {value} was used" for name, value in self.values.items()}
        known = [f"{name} is not known{used.get(name, '')}" for name in self.gaps]
        return [*known, *filter(None, [replace(self, gaps={}).sentence()])]

    def to_dict(self) -> dict[str, Any]:
        unread = {
            name: {"count": cells.count, "first": cells.first, "place": cells.place()}
            for name, cells in self.unread.items()
        }
        values = {"filled_with": dict(self.values)} if self.values else {}
        return {"gaps_filled": dict(self.gaps), **values, "not_readable": unread, "unseen_values": dict(self.unseen)}

    def unexpected(self, model: "Model") -> "FillCounts":
        """Without the gaps that the model's schema says there may be."""
        kinds = {} if model.schema is None else model.schema.columns
        gaps = {name: count for name, count in self.gaps.items() if not getattr(kinds.get(name), "gaps", False)}
        return replace(self, gaps=gaps)


def refuse_to_collect_cluster_rows(table: Any) -> None:
    """Refuse a frame on a cluster, and say how its rows are predicted there."""
    if kind := cluster_kind_of_frame(table):
        raise ArgumentError(
            f"predicting here would collect a {kind.capitalize()} frame on this machine, which is never done silently: "
            + ("use predict_udf(model)" if kind == "spark" else "use predict_partitions(model, frame)")
            + ", or collect it and pass that"
        )


def open_rows_to_score(
    model: "Model", table: Any, label: str | None = None, separator: str | None = None, decimal: str | None = None
) -> Table:
    """A table in any form, opened for a model; the columns of an array are the model's, in order.

    The separator of a CSV file is given, or follows from its own header line: a colleague's file need not be written as
    the holder's was. The decimal mark is given, or that of the schema.
    """
    refuse_to_collect_cluster_rows(table)
    names = model.feature_names
    if not is_paths(table) and not hasattr(table, "__arrow_c_stream__") and not isinstance(table, dict):
        table = _array_with_model_names(table, names)
    schema, marks = model.schema, CsvDialect(separator, decimal or ".")
    if schema is not None:
        unusual = None if schema.separator in SEPARATORS else schema.separator  # one that no header line tells
        schema = replace(schema, columns=model.reading_kinds, separator=separator or unusual)
        schema = schema if decimal is None else replace(schema, decimal=decimal, thousands=None)
    try:
        return open_table(table, label=label, features=names, labelled=False, schema=schema, marks=marks, gaps=True)
    except TableError as error:
        if "needs" not in model.learner or "has no column" not in str(error):
            raise
        raise TableError(f"{error}; the model joins columns of two holders, and {model.learner['needs']}") from None


def _array_with_model_names(table: Any, names: tuple[str, ...]) -> Any:
    """An array as columns with the model's names; as it is where they are those of arrays, or it is none."""
    with one_line_errors("the array"):
        rows = table if hasattr(table, "toarray") or np.ma.isMaskedArray(table) else np.asarray(table)
    if rows.ndim != 2 or names == tuple(f"x{k}" for k in range(len(names))):
        return table
    if isinstance(table, NamedMatrix):
        return table
    if rows.shape[1] != len(names):
        raise TableError(f"rows to predict must have {len(names)} columns, those of feature_names in order; "
                         f"the shape is {rows.shape}")  # fmt: skip
    if hasattr(rows, "toarray"):
        return NamedMatrix(rows, names)
    dense = rows
    if np.ma.isMaskedArray(dense):
        dense = np.ma.filled(dense.astype(np.float64), np.nan)
    return {name: np.ascontiguousarray(dense[:, k]) for k, name in enumerate(names)}


def fill_row_batches(model: "Model", source: Table) -> Iterator[tuple[Batch, NDArray[np.float64], FillCounts]]:
    """Batches of rows, in order, with the numbers that a model scores and what was filled in them."""
    for batch in source.batches():
        values, filled = batch.values(), FillCounts()
        if model.schema is not None:
            filled = _count_filled_cells(model, batch)
        elif (missing := np.isnan(values)).any():
            values = np.where(missing, model.neutral, values)
            counts = zip(source.features, missing.sum(axis=0).tolist(), model.neutral.tolist(), strict=True)
            gaps = {name: (count, f"{value:.6g}") for name, count, value in counts if count}
            filled = FillCounts(
                {name: count for name, (count, _) in gaps.items()},
                values={name: value for name, (_, value) in gaps.items()},
            )
        if not np.isfinite(values).all():
            refuse_not_finite_values(source.features, batch, values)
        yield batch, values, filled


def scores_of_rows(model: "Model", source: Table, values: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        return model.scores(values)
    except TableError:
        raise TableError(f"{source.name} has values too large for a score; check their units") from None


def score_row_batches(model: "Model", source: Table) -> Iterator[tuple[Batch, NDArray[np.float64], FillCounts]]:
    for batch, values, filled in fill_row_batches(model, source):
        yield batch, scores_of_rows(model, source, values), filled


def _count_filled_cells(model: "Model", batch: Batch) -> FillCounts:
    assert model.schema is not None
    assert batch.gaps is not None
    assert batch.unread is not None
    gaps, unseen, values, unread = {}, {}, {}, batch.unread()
    counts = (where.sum(axis=0).tolist() for where in (batch.gaps().missing, batch.gaps().unknown))
    for name, missing, unknown in zip(model.schema.used, *counts, strict=True):
        kind = model.reading_kinds[name]
        if missing and isinstance(kind, Number | Date):
            values[name] = kind.fill_text()
        absent = missing - (unread[name].count if name in unread else 0)
        if absent:
            gaps[name] = absent
        if unknown and not (isinstance(kind, Category) and kind.other):
            unseen[name] = unknown
    return FillCounts(gaps, unseen, unread, values)


def score_rows(model: "Model", table: Any) -> tuple[NDArray[np.float64], FillCounts]:
    pieces, filled = [model.no_scores], FillCounts()
    with spool_for_rereading(table) as rows:
        for _, scores, more in score_row_batches(model, open_rows_to_score(model, rows)):
            pieces.append(scores)
            filled += more
    return np.concatenate(pieces), filled
