"""Where rows come from: a source is a list of parts, and a part is read as batches.

Whatever a table is made of, it is cut into parts. A part can be sent to another process, which then reads only the
rows of that part. Parts can be read again, always with the same rows in the same order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import NeedsSchema, TableError
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import SparseRows
from radoboost.tables.store_files import parts_ahead
from radoboost.tables.store_passes import StoreVersionCheck

TILE_ROWS = 64  # one word of the keystream has a bit for each: batches of whole tiles save work at both ends
BATCHES_AHEAD = 4  # of a part in a store: about all of it
PART_VALUES = 1 << 23  # in a part, about: small enough to be sent around, large enough to be worth it


@dataclass(frozen=True)
class UnreadableCells:
    """How many cells of a column cannot be read, the first of them as a text, and where that is, if somebody asks."""

    count: int
    first: str
    place: Callable[[], str]

    def __add__(self, other: "UnreadableCells") -> "UnreadableCells":
        return UnreadableCells(self.count + other.count, self.first, self.place)


@dataclass(frozen=True, eq=False)
class MissingCells:
    """Where cells of raw columns are missing or not readable, and where they are values that a category does not have.

    Both have the shape (rows, raw columns). `unforeseen` are the rows with such a cell where the schema has no place
    for it.
    """

    missing: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    unforeseen: NDArray[np.bool_]

    def taken(self, rows: NDArray[np.int64]) -> "MissingCells":
        return MissingCells(self.missing[rows], self.unknown[rows], self.unforeseen[rows])


class Batch(NamedTuple):
    """Some rows: how many, their labels as they are in the table (None without labels), their values and their place.

    `persons` says whose row each one is, as it is in the table, or, where weights are asked for, how often it counts;
    it is None if nobody asked for either. Where a schema says how raw columns are read, `gaps()` says where their cells
    are missing or unknown, and `unread()` names those that are there and are no number or date. `inputs()` gives what
    values were made of by a feature map; None without one. `sparse()` gives the same values as entries of sparse rows,
    for those who can use them; None where rows are dense. `device_values()` gives the same values on the CUDA device
    that they lie on, for engines that take them there; None where they do not lie on one.

    `values()` gives an array (rows, features), C-contiguous in float32 or float64. It is a call so that several
    threads can convert batches while one reads the next. `place(k)` says in the user's words where row k of the
    batch is (from 0), for messages: "row 18", or "line 19 of patients.csv".
    """

    n_rows: int
    labels: pa.Array | None
    values: Callable[[], NDArray[Any]]
    place: Callable[[int], str]
    persons: pa.Array | None = None
    gaps: Callable[[], MissingCells] | None = None
    inputs: Callable[[], NDArray[Any]] | None = None
    unread: Callable[[], Mapping[str, UnreadableCells]] | None = None
    sparse: Callable[[], SparseRows] | None = None
    device_values: Callable[[], Any] | None = None

    @property
    def device_labels(self) -> Any:
        """The labels on the CUDA device that they lie on; None where they do not lie on one."""
        return None


class Partition(Protocol):
    """A run of rows. It can be pickled, and the pickle holds no other rows."""

    @property
    def n_rows(self) -> int | None:
        """How many rows it has; None if they must be read to know."""

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """All its rows, in order, at most `most_rows` at a time."""

    def count(self) -> int:
        """How many rows it has, by reading them if need be."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table that is ready to be read: the names of its features and of its label, and its rows in parts.

    `label` is None where there is no label. `batch_rows` is how many rows a batch should have. `guess` estimates the
    number of rows of a table that does not know it. With a `schema`, the features are its encoded columns. Where rows
    are sparse, `sparse_rows` is how many of them a batch should have if nobody makes them dense; it is None elsewhere.
    `frame` is the data frame on a cluster that parts are partitions of; None where parts can be read by themselves.
    Rows that are `away`, in a store, are read ahead. With `csv` some come from CSV files.
    """

    name: str
    features: tuple[str, ...]
    label: str | None
    pieces: Sequence[Partition]
    most_values: int
    most_rows: int
    guess: Callable[[], int | None] | None = None
    schema: Schema | None = None
    sparse_rows: int | None = None
    frame: Any = None
    away: bool = False
    csv: bool = False

    def __post_init__(self) -> None:
        if not self.features:
            raise TableError(f"{self.name} has no feature columns besides the label; it needs at least one")

    @cached_property
    def n_rows(self) -> int | None:
        """How many rows there are; None if they must be read to know."""
        counts = [part.n_rows for part in self.pieces]
        return None if None in counts else sum(filter(None, counts))

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of every feature that is a slot of a category, or says where a value is missing."""
        return {} if self.schema is None else self.schema.groups

    @property
    def on_device(self) -> bool:
        """Whether all rows lie on a CUDA device, in a type that engines take there."""
        return bool(getattr(next(iter(self.pieces), None), "on_device", False))  # such an array is one part

    @property
    def batch_rows(self) -> int:
        return whole_tiles(min(self.most_rows, self.most_values // len(self.features)))

    def parts(self) -> Sequence[Partition]:
        """All rows, in order, as parts that can be read on their own."""
        return self.pieces

    def batches(self, rows: int | None = None) -> Iterator[Batch]:
        """All rows, in order, at most `rows` at a time; by default `batch_rows`."""
        most_rows = self.batch_rows if rows is None else rows
        if not self.away:
            return (batch for part in self.pieces for batch in part.batches(most_rows))
        return self._from_stores(most_rows)

    def _from_stores(self, most_rows: int) -> Iterator[Batch]:
        """All rows, in order, with the next parts read ahead; stores are asked about a file twice in a pass."""
        whole, once = PART_VALUES / len(self.features), StoreVersionCheck(self.pieces)

        def size(part: Partition) -> float:
            return 1.0 if part.n_rows is None else part.n_rows / whole

        try:
            yield from parts_ahead(self.pieces, lambda part: once.read(part, most_rows), size, BATCHES_AHEAD)
        finally:
            once.close()

    def expected_rows(self, rows_read: int) -> int | None:
        """How many rows there are, by a guess where need be, after `rows_read` of them; for a progress bar."""
        if self.n_rows is not None:
            return self.n_rows
        return None if self._row_guess is None else max(rows_read, self._row_guess)

    @cached_property
    def _row_guess(self) -> int | None:
        return None if self.guess is None else self.guess()

    def check_rows(self, n_rows: int | None) -> None:
        """Refuse a table without rows."""
        if n_rows == 0:
            raise TableError(f"{self.name} has no rows; give it at least one")

    def refuse_not_finite(self, batch: Batch, values: NDArray[Any]) -> None:
        """Raise an error that names the first value of a batch that is not finite."""
        refuse_not_finite(self.features, batch, values)


def refuse_not_finite(features: Sequence[str], batch: Batch, values: NDArray[Any]) -> None:
    """Raise an error that names the first value of a batch that is not finite."""
    row, k = np.argwhere(~np.isfinite(values))[0].tolist()
    raise not_finite(features[k], batch.place(row), values[row, k])


def not_finite(name: str, place: str, value: float) -> TableError:
    missing = np.isnan(value)
    what = "a missing value (NaN)" if missing else "an infinite value"
    wrong = NeedsSchema if missing else TableError
    return wrong(f"column {name!r} has {what} ({place}); fill in or drop such rows or columns")


def whole_tiles(rows: int) -> int:
    """A number of rows, rounded down to whole tiles; at least one tile."""
    return max(TILE_ROWS, rows // TILE_ROWS * TILE_ROWS)


def part_rows(n_columns: int, batch_rows: int) -> int:
    """How many rows a part should have: a whole number of batches."""
    return max(1, PART_VALUES // n_columns // batch_rows) * batch_rows
