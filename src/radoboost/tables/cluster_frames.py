"""Data frames on a cluster, of Dask or Spark: a table whose parts only workers can read.

The driver knows the columns and how many partitions there are. A worker that has a partition lends it to the part
(`lent`), and from then on it is read as a data frame on one machine is. Rows never come to the driver.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.column_selection import ColumnChoice, column_names, row_place
from radoboost.tables.frames import BATCH_ROWS, BATCH_VALUES, FramePart, as_batches, open_frame
from radoboost.tables.readers import Reader
from radoboost.tables.table import Batch, Table

_LENT: ContextVar[Iterable[Any] | None] = ContextVar("lent", default=None)
_PLACE = re.compile("⟨(\\d+):(\\d+)⟩")


def cluster_of(table: Any) -> str:
    """Which kind of cluster a data frame is on, "dask" or "spark"; nothing for any other table."""
    library = type(table).__module__.partition(".")[0]
    if library == "dask" and "dask.dataframe" in sys.modules and hasattr(table, "npartitions"):
        return "dask" if hasattr(table, "_meta") and hasattr(table, "columns") else ""
    return "spark" if library == "pyspark" and hasattr(table, "mapInArrow") else ""


def refuse_cluster_frame(table: Any, what: str) -> None:
    """Refuse a frame on a cluster where rows would have to come to this machine."""
    if kind := cluster_of(table):
        raise ArgumentError(
            f"{what} would collect a {kind.capitalize()} frame on this machine, which is never done silently: collect "
            "it, or a part of it, and pass that"
        )


def _library(table: Any) -> Any:
    """What is known about frames of that kind of cluster."""
    return importlib.import_module(f"radoboost.tables.{cluster_of(table)}_frames")


def cluster_schema(table: Any, *, withheld: bool = False) -> pa.Schema:
    """The columns of a frame on a cluster; with `withheld` no message has words of the cluster's."""
    schema: pa.Schema = _library(table).arrow_schema(table, withheld=withheld)
    return schema


def check_determined(table: Any, person: str | None) -> None:
    """Refuse a frame on a cluster that no promise can be made about; any other table is none of this.

    Its rows must be the same whenever a partition is computed again (K3 of docs/proofs/clusters.md), and a record must
    not decide how others are read.
    """
    if cluster_of(table):
        _library(table).check_determined(table, person)


def open_cluster_frame(table: Any, choice: ColumnChoice, reading: Reader, *, withheld: bool = False) -> Table:
    """A frame on a cluster as a source, whose parts are its partitions in order.

    With `withheld` no message has words of the cluster's, in which there may be values.
    """
    schema = cluster_schema(table, withheld=withheld)
    empty = open_frame(schema.empty_table(), None, choice, reading)
    others = [name for name in (choice.label, choice.person) if name is not None]
    features = choice.columns(column_names(schema), "the table")
    columns, choice = (*features, *others), replace(choice, features=features, drop=())  # workers get no others
    chosen = _library(table).chosen(table, columns)
    rows = _library(table).partitions(chosen, columns, withheld=withheld)
    pieces = [ClusterPart(number, choice, reading, columns, count) for number, count in enumerate(rows)]
    return Table(
        empty.name, empty.features, empty.label, pieces, BATCH_VALUES, BATCH_ROWS, schema=reading.schema, frame=chosen
    )


@dataclass(frozen=True, eq=False)
class ClusterPart:
    """A partition of a frame on a cluster, which is read where a worker lends it: the frame's `columns` are enough."""

    number: int
    choice: ColumnChoice
    reading: Reader
    columns: tuple[str, ...]
    n_rows: int | None = None

    def count(self) -> int:
        return sum(batch.n_rows for batch in self.batches(BATCH_ROWS))

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """All rows of the partition, in order; messages say where one is by `placed`."""
        first = 0
        for frame in borrowed_frames():
            for part in open_frame(frame, None, self.choice, self.reading).pieces:
                assert isinstance(part, FramePart)
                place = partial(_placed_later, self.number, first)
                yield from as_batches(part.rows.to_batches(), part.selection, most_rows, place)
                first += part.n_rows


def _placed_later(part: int, first: int, row: int) -> str:
    """Where a row is, for a message: its number in the table is known to the driver alone."""
    return f"⟨{part}:{first + row}⟩"


def with_row_numbers(message: str, first_row: Callable[[int], int]) -> str:
    """A message with the numbers of rows filled in; `first_row` says where a part begins."""
    return _PLACE.sub(lambda found: row_place(first_row(int(found[1])) + int(found[2])), message)


def borrowed_frames() -> Iterable[Any]:
    """The frames that are lent here."""
    frames = _LENT.get()
    if frames is None:
        raise TableError("the table is on a cluster, and this machine has none of its rows")
    return frames


@contextmanager
def lent(frames: Iterable[Any] | None) -> Iterator[None]:
    """Lend the frames that a partition is made of, in order, to the part that is read within; they are read once."""
    before = _LENT.set(frames)
    try:
        yield
    finally:
        _LENT.reset(before)
