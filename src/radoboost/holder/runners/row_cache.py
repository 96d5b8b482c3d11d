"""Rows of integers, made once and kept for later passes: in memory, in a file, or not at all.

The file has no name and is gone with the process. Rows are kept in 16 bits if they fit. A value of exactly 2**15 does
not: its batch is then kept in 32 bits. Rows that are made of kept ones take their place, so that there is room for one
set of them only.
"""

import math
import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.holder.aggregation import RowSource, RowTransform

Share = Callable[[Callable[[Any, tuple[int, Any]], None]], object]


class RowBatch(NamedTuple):
    """Rows of integers, column-first; calling `rows` gets them. Kept ones have a ticket."""

    n_rows: int
    rows: Callable[[], NDArray[Any]]
    ticket: Any = None


@dataclass(frozen=True)
class CachePolicy:
    """How much of the free memory, and of the free disk, kept rows may take."""

    memory_share: float = 0.4
    disk_share: float = 0.5

    def place(self, n_bytes: int) -> "CacheStore | None":
        """Where `n_bytes` can be kept; None if there is no room."""
        if n_bytes <= self.memory_share * memory.available_memory():
            return MemoryCache()
        try:
            if n_bytes <= self.disk_share * shutil.disk_usage(tempfile.gettempdir()).free:
                return DiskCache()
        except OSError:  # nowhere to write: no reason to stop, for how many rows there are must not decide that
            return None
        return None


class CacheStore(Protocol):
    """Something that keeps arrays; several threads may use it at once."""

    def put(self, rows: NDArray[Any]) -> Any:
        """Keep an array, and return a ticket for it."""

    def replace(self, ticket: Any, rows: NDArray[Any]) -> Any:
        """Keep an array in place of the one that a ticket is for, and return a ticket for it."""

    def seal(self) -> None:
        """Prepare for reading, once everything was put."""

    def get(self, ticket: Any) -> NDArray[Any]:
        """The array of a ticket."""


class MemoryCache:
    def put(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The array is its own ticket."""
        return rows

    def replace(self, ticket: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        """The same memory, if the new array fits."""
        if (ticket.shape, ticket.dtype) != (rows.shape, rows.dtype):
            return self.put(rows)
        ticket[...] = rows
        return ticket

    def seal(self) -> None:
        """There is nothing to do."""

    def get(self, ticket: NDArray[Any]) -> NDArray[Any]:
        return ticket


class DiskCache:
    """Arrays in a temporary file that nobody else can open: it has no name, and is gone when it is closed."""

    def __init__(self) -> None:
        self._file, name = tempfile.mkstemp(prefix="radoboost-")
        os.unlink(name)
        weakref.finalize(self, os.close, self._file)
        self._lock, self._end = threading.Lock(), 0
        self._map: mmap.mmap | None = None

    def put(self, rows: NDArray[Any]) -> tuple[int, tuple[int, ...], Any]:
        """Write the array behind the others."""
        with self._lock:
            start, self._end = self._end, self._end + rows.nbytes
        return self._write(start, rows)

    def replace(self, ticket: tuple[int, tuple[int, ...], Any], rows: NDArray[Any]) -> tuple[int, tuple[int, ...], Any]:
        """Write over the array that was there, if the new one is no longer."""
        start, shape, kind = ticket
        return self._write(start, rows) if rows.nbytes <= math.prod(shape) * kind.itemsize else self.put(rows)

    def _write(self, start: int, rows: NDArray[Any]) -> tuple[int, tuple[int, ...], Any]:
        view, done = rows.data.cast("B"), 0
        while done < len(view):
            done += os.pwrite(self._file, view[done:], start + done)
        return start, rows.shape, rows.dtype

    def seal(self) -> None:
        self._map = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) if self._end else None

    def get(self, ticket: tuple[int, tuple[int, ...], Any]) -> NDArray[Any]:
        """The array, straight from the file's pages."""
        start, shape, kind = ticket
        assert self._map is not None
        rows: NDArray[Any] = np.ndarray(shape, kind, self._map, start)
        return rows


class CachedRows:
    """A source of kept rows; `again` makes the same rows anew."""

    def __init__(self, again: "RecomputedRows", place: CacheStore, tickets: list[tuple[int, Any]]) -> None:
        self.name, self.features = again.name, again.features
        self.again, self.place = again, place
        self._tickets: list[tuple[int, Any]] | None = tickets
        self.n_rows: int | None = sum(count for count, _ in tickets)

    def batches(self, rows: int | None = None) -> Iterator[RowBatch]:
        if self._tickets is None:
            yield from self.again.batches(rows)
            return
        for count, ticket in self._tickets:
            yield RowBatch(count, partial(self.place.get, ticket), ticket)

    def hand_over(self) -> "CachedRows":
        """The same rows, for something that will replace them; from now on this source makes them again."""
        taken = CachedRows(self.again, self.place, self._tickets or [])
        self._tickets = None
        return taken

    @property
    def handed_over(self) -> bool:
        """Whether other rows have taken the place of these."""
        return self._tickets is None

    def expected_rows(self, rows_read: int) -> int | None:
        return self.n_rows


class RecomputedRows:
    """A source of rows that are made whenever they are read."""

    def __init__(self, source: RowSource, task: RowTransform) -> None:
        self.name, self.features, self.n_rows = source.name, source.features, source.n_rows
        self.source, self.task = source, task

    def batches(self, rows: int | None = None) -> Iterator[RowBatch]:
        for batch in self.source.batches(rows):
            yield RowBatch(batch.n_rows, partial(self.task.rows, batch))

    def expected_rows(self, rows_read: int) -> int | None:
        return self.source.expected_rows(rows_read)


def cache_rows(again: RecomputedRows, place: CacheStore, share: Share) -> "CachedRows | RecomputedRows":
    """Make all rows and keep them; `share` calls the function that it gets with every numbered batch, in threads.

    Rows that are made of kept ones replace them. If there turns out to be too little room, rows are made again in every
    pass: their number must not decide whether a release comes out.
    """
    tickets: dict[int, tuple[int, Any]] = {}

    def add(_: Any, job: tuple[int, Any]) -> None:
        first, batch = job
        if batch.n_rows:  # an empty batch has the number of the next one
            rows, old = rows_as_int16(again.task.rows(batch)), getattr(batch, "ticket", None)
            tickets[first] = batch.n_rows, place.put(rows) if old is None else place.replace(old, rows)

    try:
        share(add)
        place.seal()
    except (OSError, MemoryError):
        tickets.clear()
        return again
    return CachedRows(again, place, [tickets[first] for first in sorted(tickets)])


def rows_as_int16(rows: NDArray[Any]) -> NDArray[Any]:
    """The same rows in 16 bits, if they fit."""
    limits = np.iinfo(np.int16)
    fits = rows.dtype == np.int16 or rows.size == 0 or (rows.max() <= limits.max and rows.min() >= limits.min)
    return np.ascontiguousarray(rows, dtype=np.int16 if fits else np.int32)
