"""One sum over the rows of a table, as data.

Everything that is ever computed from a table is a sum over rows of integers that depend on the row alone, and on what
was released before. An `Aggregation` says which sum. It is frozen and can be pickled, so that it can go to wherever the
rows are. Its `Accumulator` is the result for some rows; they merge exactly, in any order. A runner feeds a source to an
aggregation.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeVar

from numpy.typing import NDArray

from radoboost.tables import Batch


class Accumulator(Protocol):
    """The sum over some rows."""

    def merge(self, other: Self) -> Self:
        """The sum over both sets of rows, as a new object; neither argument changes."""


S = TypeVar("S", bound=Accumulator)


class Aggregation(Protocol[S]):
    """A sum over rows: frozen data that can be pickled.

    One that can use values on a device has `rows_on_device`, how many rows a batch of them should have; it is None
    where its engine cannot. One in which rows have numbers has `for_part(first_row, n_rows)`: the pass for one part
    that is summed elsewhere, with what is secret about the rows of that part alone.
    """

    @property
    def title(self) -> str:
        """What a progress bar says, in a few words."""

    @property
    def rows_at_a_time(self) -> int | None:
        """About how many rows a batch should have; None leaves it to the source."""

    @property
    def worker_bytes(self) -> int:
        """Memory that one thread needs."""

    def empty(self) -> S:
        """The sum over no rows."""

    def add(self, sums: S, first_row: int, batch: Any) -> None:
        """Add a batch of a table, or of kept rows, to `sums`; its first row has the global number `first_row`."""


class RowSource(Protocol):
    """Where a runner reads batches: a `Table`, or rows that were kept."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def features(self) -> tuple[str, ...]:
        """The table's columns."""

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, if that is known."""

    def batches(self, rows: int | None = None) -> Iterator[Any]:
        """All rows in order, at most `rows` at a time; by default as the source sees fit."""

    def expected_rows(self, rows_read: int) -> int | None:
        """How many rows there are, by a guess where need be, after `rows_read` of them; for a progress bar."""


class RowTransform(Protocol):
    """Rows of integers, each made of one row of the table, or of rows that another such pass made."""

    @property
    def title(self) -> str:
        """What a progress bar says, in a few words."""

    @property
    def width(self) -> int:
        """How many integers a row has."""

    @property
    def rows_at_a_time(self) -> int | None:
        """About how many rows a batch should have."""

    def rows(self, batch: Any) -> NDArray[Any]:
        """The rows of a batch, column-first: shape (width, rows), in 16 or 32 bits."""


def merge_accumulators(parts: Iterable[S]) -> S:
    first, *others = parts
    for other in others:
        first = first.merge(other)
    return first


@dataclass
class AddedFields:
    """An accumulator whose fields are added one by one: numbers, arrays, and accumulators."""

    def merge(self, other: Self) -> Self:
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return type(self)(*(a.merge(b) if hasattr(a, "merge") else a + b for a, b in pairs))


@dataclass
class RowCount(AddedFields):
    n_rows: int = 0


@dataclass(frozen=True)
class CountRows:
    title: str = "counting rows"
    rows_at_a_time: int | None = None
    worker_bytes: int = 0

    def empty(self) -> RowCount:
        return RowCount()

    def add(self, sums: RowCount, first_row: int, batch: Batch) -> None:
        """Count the rows, without converting their values."""
        sums.n_rows += batch.n_rows
