"""Where rows come from: a source is a list of parts, and a part is read as batches.

Whatever a table is made of, it is cut into parts. A part can be sent to another process, which then reads only the
rows of that part. Parts can be read again, always with the same rows in the same order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import NeedsSchema, RadoError, TableError
from radoboost.tables.labels import comparable_labels
from radoboost.tables.object_stores import StorePath
from radoboost.tables.paths import file_stamp, one_line_errors
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import SparseRows
from radoboost.tables.store_files import read_parts_ahead

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

    Both have the shape (rows, raw columns), and so has `unread`: where numbers and dates are missing or not readable,
    and no declared gap. `unforeseen` are the rows with such a cell where the schema has no place
    for it.
    """

    missing: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    unread: NDArray[np.bool_]
    unforeseen: NDArray[np.bool_]

    def taken(self, rows: NDArray[np.int64]) -> "MissingCells":
        return MissingCells(*(part[rows] for part in (self.missing, self.unknown, self.unread, self.unforeseen)))


class Batch(NamedTuple):
    """Some rows: how many, their labels as they are in the table (None without labels), their values and their place.

    `persons` says whose row each one is, as it is in the table, or, where weights are asked for, how often it counts;
    it is None if nobody asked for either. Where a schema says how raw columns are read, `gaps()` says where their
    cells are missing or unknown, `unread()` names those that are there and are no number or date, and `raw` has all
    cells. `inputs()` gives what values were made of by a feature map; None without one. `sparse()` gives the same
    values as entries of sparse rows, for those who can use them; None where rows are dense. `device_values()` gives
    the same values on the CUDA device that they lie on, for engines that take them there; None where they do not
    lie on one.

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
    raw: Sequence[pa.Array] = ()

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
    Rows that are `away`, in a store, are read ahead. With `csv` some come from CSV files. Of files,
    `names` are all columns, used or not.
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
    names: tuple[str, ...] = ()

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
        return round_to_whole_tiles(min(self.most_rows, self.most_values // len(self.features)))

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
            yield from read_parts_ahead(self.pieces, lambda part: once.read(part, most_rows), size, BATCHES_AHEAD)
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


def refuse_not_finite_values(features: Sequence[str], batch: Batch, values: NDArray[Any]) -> None:
    """Raise an error that names the first value of a batch that is not finite."""
    row, k = np.argwhere(~np.isfinite(values))[0].tolist()
    raise not_finite_value_error(features[k], batch.place(row), values[row, k])


def not_finite_value_error(name: str, place: str, value: float) -> TableError:
    missing = np.isnan(value)
    what = "a missing value (NaN)" if missing else "an infinite value"
    wrong = NeedsSchema if missing else TableError
    return wrong(f"column {name!r} has {what} ({place}); fill in or drop such rows or columns")


def round_to_whole_tiles(rows: int) -> int:
    """A number of rows, rounded down to whole tiles; at least one tile."""
    return max(TILE_ROWS, rows // TILE_ROWS * TILE_ROWS)


def rows_per_partition(n_columns: int, batch_rows: int) -> int:
    """How many rows a part should have: a whole number of batches."""
    return max(1, PART_VALUES // n_columns // batch_rows) * batch_rows


# ---- Some rows of a batch, as a batch: any of them, in any order, also several times


def take_batch_rows(batch: Batch, places: NDArray[np.int64]) -> Batch:
    """The rows of these numbers, from 0, of a batch that no feature map made; values are converted when asked for.

    What was read beside the features is not taken along.
    """
    return Batch(
        len(places),
        _take_batch_labels(batch.labels, places),
        partial(_take_batch_values, batch, places),
        partial(_taken_row_text, batch, places),
        gaps=None if batch.gaps is None else partial(_take_missing_cells, batch, places),
        sparse=None if batch.sparse is None else partial(_take_sparse_rows, batch, places),
    )


def _take_batch_labels(labels: pa.Array | None, places: NDArray[np.int64]) -> pa.Array | None:
    if labels is None:
        return None
    try:
        return comparable_labels(labels).take(pa.array(places))
    except pa.ArrowNotImplementedError:  # the type is to blame: it holds no class
        return pa.nulls(len(places))
    except pa.ArrowException:  # on account of a value: who reads labels then goes through them one by one
        return labels.take(pa.array(places))


def _take_batch_values(batch: Batch, places: NDArray[np.int64]) -> NDArray[Any]:
    return np.ascontiguousarray(batch.values()[places])


def _take_sparse_rows(batch: Batch, places: NDArray[np.int64]) -> SparseRows:
    assert batch.sparse is not None
    return batch.sparse().taken(places)


def _take_missing_cells(batch: Batch, places: NDArray[np.int64]) -> MissingCells:
    assert batch.gaps is not None
    return batch.gaps().taken(places)


def _taken_row_text(batch: Batch, places: NDArray[np.int64], row: int) -> str:
    return batch.place(int(places[row]))


# ---- A pass over files in stores, each of which is asked about when the pass comes to it and when it is through.
#
# A part that is read by itself asks for the version of its file before and after. Of a file with many parts, which are
# all read, that is twice for each of them: the first and the last answer say as much.


_COUNTING = threading.Lock()  # of passes that a file is in


class StoreVersionCheck:
    """All parts of a table, read in any order, in several threads; `close` ends the pass, wherever it is."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._files: dict[object, _File] = {}
        for part in parts:
            if (path := _store_path_of_partition(part)) is not None:
                self._files.setdefault(path.token, _File(path)).left += 1

    def read(self, part: Any, most_rows: int) -> Iterator[Any]:
        path = _store_path_of_partition(part)
        if path is None:
            yield from part.batches(most_rows)
            return
        file = self._files[path.token]
        file.begin()
        try:
            yield from part.batches(most_rows)
        except RadoError:
            file.check()  # bytes of another version may be no rows at all, and that is then no fault of theirs
            raise
        file.end()

    def close(self) -> None:
        """Have parts ask for themselves again."""
        for file in self._files.values():
            file.close()


class _File:
    """A file of the pass: how many of its parts are left, and the version that it had at first."""

    def __init__(self, path: StorePath) -> None:
        self.left = 0
        self._path = path
        self._before: Any = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Ask which version it is, if nobody did in this pass."""
        with self._lock, one_line_errors(self._path):
            if self._before is None:
                self._before = file_stamp(self._path)
                _count_passes_over_file(self._path, 1)

    def end(self) -> None:
        """Once all parts are read, ask again."""
        with self._lock, one_line_errors(self._path):
            self.left -= 1
            if self.left == 0 and (before := self._closed()) is not None and file_stamp(self._path) != before:
                raise _file_changed_error(self._path)

    def check(self) -> None:
        """Refuse a file that is another one by now; a store that does not answer says nothing."""
        with self._lock:
            now = None
            with suppress(Exception):
                now = self._path.version()
            if now is not None and self._before is not None and now != self._before:
                raise _file_changed_error(self._path) from None

    def close(self) -> None:
        with self._lock:
            self._closed()

    def _closed(self) -> Any:
        before, self._before = self._before, None
        if before is not None:
            _count_passes_over_file(self._path, -1)
        return before


def _count_passes_over_file(path: StorePath, passes: int) -> None:
    with _COUNTING:
        path.passes += passes


def _file_changed_error(path: StorePath) -> TableError:
    return TableError(f"{path} changed while it was read; try again once it is at rest")


def _store_path_of_partition(part: Any) -> StorePath | None:
    """The file that a part is of, whatever it is seen through, if that is in a store."""
    while (within := getattr(part, "part", None)) is not None:
        part = within
    path = getattr(part, "path", None)
    return path if isinstance(path, StorePath) else None
