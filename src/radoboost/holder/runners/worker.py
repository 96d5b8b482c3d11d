"""What a worker of a cluster does: one pass over one part, or rows of one part that are kept.

A worker gets a part, a pass and the number of the part's first row, and gives back small sums, together with how many
rows it saw. Sums merge in any order. A part may be summed twice, when a worker dies: rows and their order are the same,
so the sums are (K1, K3). What a worker cannot use comes back as a refusal, a state like any other: a cluster would try
a task that fails again and again. Labels K1 .. K8 are steps of docs/proofs/clusters.md.
"""

import mmap
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import RadoError, TableError
from radoboost.holder.aggregation import Aggregation, RowTransform, S
from radoboost.holder.engines.self_test import self_test_fault
from radoboost.holder.runners.row_cache import RowBatch, rows_as_int16
from radoboost.tables.frames import lend_frames
from radoboost.tables.object_stores import StorePath

_OWN: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
_TWICE = "the cluster counted part {part:,} of the table twice, so these sums are of no table; craft again"


@dataclass(frozen=True)
class WorkerError:
    """What a worker could not use, and in which part."""

    part: int
    error: RadoError

    def __post_init__(self) -> None:
        _forget_error_context(self.error)


def _forget_error_context(error: RadoError) -> None:
    """Forget what led to an error: where tracebacks can be pickled, as Dask has it, other errors would go along."""
    error.__traceback__ = error.__context__ = error.__cause__ = None


@dataclass(frozen=True, eq=False)
class PartitionSums(Generic[S]):
    """The sums over some parts, how many rows each of them has, and the first refusal, if there is one."""

    sums: S | None
    rows: Mapping[int, int] = field(default_factory=dict)
    refusal: WorkerError | None = None

    def merge(self, other: "PartitionSums[S]") -> "PartitionSums[S]":
        """Those of both; of two refusals, the one of the earlier part. A part that is in both is refused (K2)."""
        rows = {**self.rows, **other.rows}
        if twice := self.rows.keys() & other.rows.keys():
            return PartitionSums(None, rows, WorkerError(min(twice), TableError(_TWICE.format(part=min(twice) + 1))))
        refusals = [one.refusal for one in (self, other) if one.refusal is not None]
        if refusals:
            return PartitionSums(None, rows, min(refusals, key=lambda refusal: refusal.part))
        if self.sums is None or other.sums is None:
            return PartitionSums(other.sums if self.sums is None else self.sums, rows)
        try:
            return PartitionSums(self.sums.merge(other.sums), rows)
        except RadoError as error:  # what no part shows by itself, such as too many classes
            return PartitionSums(None, rows, WorkerError(max(rows), error))


def worker_sum_part(
    task: Aggregation[S], part: Any, number: int, first_row: int, rows: int, frames: Iterable[Any] | None = None
) -> PartitionSums[S]:
    """The sums of one part, a batch of at most `rows` rows at a time; its first row has the number `first_row` (K3).

    `frames` is what a partition of a frame on a cluster is made of, in order.
    """
    try:
        _check_worker_machine(task, part, task.worker_bytes)
        check_worker_reaches_file(part)
        sums, row = task.empty(), first_row
        with lend_frames(frames):
            for batch in part.batches(rows):
                task.add(sums, row, batch)
                row += batch.n_rows
        return PartitionSums(sums, {number: row - first_row})
    except RadoError as error:
        return PartitionSums(None, {}, WorkerError(number, store_error_on_worker(error, part)))


# ---- rows that are kept where they were made


@dataclass(frozen=True, eq=False)
class CachedPartition:
    """The integer rows of one part, in batches, column-first; or why there are none."""

    arrays: Sequence[NDArray[Any]] = field(default=(), repr=False)
    refusal: RadoError | None = None

    def __post_init__(self) -> None:
        if self.refusal is not None:
            _forget_error_context(self.refusal)

    def __sizeof__(self) -> int:  # what a cluster plans its memory by
        return sum(array.nbytes for array in self.arrays)

    def batches(self, rows: int) -> Iterator[RowBatch]:
        if self.refusal is not None:
            raise self.refusal
        for array in self.arrays:
            yield RowBatch(array.shape[1], partial(_identity_array, array))


def _identity_array(array: NDArray[Any]) -> NDArray[Any]:
    return array


def worker_keep_part(task: RowTransform, part: Any, rows: int, frames: Iterable[Any] | None = None) -> CachedPartition:
    """The rows that `task` makes of one part, or of rows that were kept of it."""
    try:
        _check_worker_machine(task, part, 0)
        check_worker_reaches_file(part)
        with lend_frames(frames):
            return CachedPartition(
                [_copy_to_own_pages(rows_as_int16(task.rows(batch))) for batch in part.batches(rows) if batch.n_rows]
            )
    except RadoError as error:
        return CachedPartition(refusal=store_error_on_worker(error, part))


def worker_map_part(work: Callable[[Any], Any], part: Any) -> Any:
    """What `work` makes of one part, or why it cannot."""
    try:
        check_worker_reaches_file(part)
        return work(part)
    except RadoError as error:
        return store_error_on_worker(error, part)


def _copy_to_own_pages(rows: NDArray[Any]) -> NDArray[Any]:
    """A copy on pages of its own: they go back to the system with the rows, whoever lets go of them, and when."""
    try:
        pages = mmap.mmap(-1, max(rows.nbytes, 1), **_OWN)
    except OSError as error:  # as NumPy has it
        raise MemoryError(f"{rows.nbytes:,} bytes of kept rows: {error.strerror}") from None
    kept: NDArray[Any] = np.frombuffer(pages, rows.dtype, rows.size).reshape(rows.shape)
    kept[...] = rows
    return kept


@dataclass(frozen=True, eq=False)
class ComputedPartition:
    """The integer rows of one part, made whenever they are read."""

    part: Any
    task: RowTransform

    def batches(self, rows: int) -> Iterator[RowBatch]:
        for batch in self.part.batches(rows):
            yield RowBatch(batch.n_rows, partial(self.task.rows, batch))


def innermost_part(part: Any) -> Any:
    """The part of the table itself, without what it is seen through."""
    while (within := getattr(part, "part", None)) is not None:
        part = within
    return part


def worker_name() -> str:
    """What messages call this worker."""
    return socket.gethostname()


def check_worker_version(here: str, driver: str) -> None:
    """Refuse work of a driver that has another version of radoboost than this worker."""
    if here != driver:
        raise TableError(
            f"the worker {worker_name()} has radoboost {here}, and this machine {driver}; install the same version "
            "everywhere"
        )


def check_worker_reaches_file(part: Any) -> None:
    """Refuse a file that this worker cannot read."""
    path = getattr(innermost_part(part), "path", None)
    if isinstance(path, Path) and os.path.isabs(place := os.fspath(path)) and not os.access(place, os.R_OK):
        raise TableError(
            f"the worker {worker_name()} cannot read {path}: each worker reads files itself; put them where all "
            "machines of the cluster see them under that name, or craft on this machine alone"
        )


def store_error_on_worker(error: RadoError, part: Any) -> RadoError:
    """The error for a file in a store that does not open on this worker: its settings are not those of the driver."""
    path, words = getattr(innermost_part(part), "path", None), str(error)
    if not isinstance(path, StorePath) or not words.startswith((f"cannot read {path}", f"no such file: {path}")):
        return error
    return TableError(
        f"the worker {worker_name()} failed: {words}; workers open stores by their own settings: set the endpoint and "
        "the credentials there, too, as on this machine"
    )


def _check_worker_machine(task: Any, part: Any, n_bytes: int) -> None:
    """Refuse work that does not fit into a worker's memory, and a worker that computes other integers than it should.

    Sensitivity is a statement about integers, and a release is the same to the last bit everywhere only if these are.
    """
    if n_bytes:
        memory.require_memory(n_bytes, f"this sum on the worker {worker_name()}", "ask for fewer rados or columns")
    if what := self_test_fault(task, part):
        raise TableError(
            f"the worker {worker_name()} computes other integers than it should ({what}), so it may not join; leave it "
            "out of the cluster, or try engine='reference'"
        )
