"""Tables that are read once: queries, relations of DuckDB, lazy frames, record batch readers, standard input.

`at_rest` keeps their rows in a spool; from there on they are files like any other.
"""

import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from radoboost.errors import ArgumentError, TableError
from radoboost.progress import Progress, silent
from radoboost.tables.addresses import explained, is_address, is_store, withheld
from radoboost.tables.cluster_frames import cluster_of
from radoboost.tables.datasets import dataset_files, dataset_reader, is_dataset
from radoboost.tables.kinds import Category
from radoboost.tables.marks import PLAIN
from radoboost.tables.named_paths import NamedPath
from radoboost.tables.paths import expand_paths
from radoboost.tables.queries import (
    Answer,
    Query,
    address_query,
    declared_types,
    relation_answer,
)
from radoboost.tables.raw_columns import polars_cells
from radoboost.tables.spool import close_spools, respooled, spool_batches, spool_bytes

FORMATS = ("csv", "parquet", "arrow")
_BEGINNINGS = {"parquet": (b"PAR1\x15",), "arrow": (b"ARROW1\0", b"\xff\xff\xff\xff")}
_CHUNK_ROWS = 65536
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ONLY_FILES = (
    "a private mechanism takes datasets of whole Parquet or Arrow files, on this machine, with all their columns, in "
    "folders such as year=2024; elsewhere (CSV, JSON, scanners, filters, other file systems) one value can decide "
    "how others are read: pass the paths of the files, or their folder"
)


@dataclass(frozen=True)
class StandardInput:
    """A table that comes in through a pipe, in one of `FORMATS`; CSV may be compressed by gzip."""

    format: str = "csv"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ArgumentError(f"the format must be one of {', '.join(FORMATS)}; it is {self.format!r}")

    def spooled(self, bar: Progress) -> NamedPath:
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise TableError("standard input is a terminal or closed; pipe a table into it: cat TABLE | rado ... -")
        try:
            unpacked = _unpacked(stream, self.format)
            _check_format(unpacked, self.format)
            path = spool_bytes("standard input", self.format, unpacked, bar)
        except (OSError, EOFError) as error:
            raise TableError(f"standard input broke off: {error}") from None
        if self.format == "arrow":
            _check_whole(path)
        return path


def _unpacked(stream: Any, kind: str) -> io.BufferedIOBase:
    """The bytes of a stream; those of a CSV file unpacked, where it begins as gzip does."""
    buffered = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    packed = kind == "csv" and buffered.peek(2)[:2] == b"\x1f\x8b"
    return gzip.GzipFile(fileobj=buffered) if packed else buffered


def _check_format(stream: io.BufferedIOBase, kind: str) -> None:
    """Refuse a file of another format than was said, by its first bytes, which no line of text begins with."""
    start = stream.peek(8)[:8] if hasattr(stream, "peek") else b""
    found = next((name for name, marks in _BEGINNINGS.items() if start.startswith(marks)), kind)
    if found != kind:
        raise TableError(f"standard input begins as {found.capitalize()}, and was to be {kind}; give --format {found}")


def _check_whole(path: NamedPath) -> None:
    """Refuse an Arrow stream that does not end as one: whoever wrote it was cut short."""
    with open(path, "rb") as file:
        begins = file.read(6)
        file.seek(max(0, path.owner.n_bytes - 8))
        ends = file.read()
    if begins != b"ARROW1" and ends != _END_OF_STREAM:
        path.owner.discard()
        raise TableError("standard input broke off: the Arrow stream has no end; check the command before the pipe")


# ---- what can be read once


def is_query(table: Any) -> bool:
    """Whether a table comes from something that may compute: a record is then a row of what comes."""
    one = _only(table)
    if is_dataset(one):
        return dataset_files(one) is None
    if isinstance(one, Query | StandardInput) or is_address(one):
        return True
    return _is_relation(one) or _is_lazy(one) or _is_reader(one)


def _only(table: Any) -> Any:
    """The only item of a list that holds an address; any other table as it is."""
    return table[0] if isinstance(table, list | tuple) and len(table) == 1 and is_address(table[0]) else table


def _is_relation(table: Any) -> bool:
    return type(table).__name__ == "DuckDBPyRelation"


def _is_lazy(table: Any) -> bool:
    return hasattr(table, "collect") and type(table).__module__.partition(".")[0] == "polars"


def _is_reader(table: Any) -> bool:
    """Whether a table is a stream of record batches, and no frame in memory, which knows how long it is."""
    return hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__len__") and not cluster_of(table)


@contextmanager
def answered(table: Any, *, row_by_row: bool = False) -> Iterator[tuple[str, Answer] | None]:
    """What messages call a table that is read once, and its rows as they come; None for other tables.

    With `row_by_row`, what a library says while it reads rows is in no message.
    """
    one = _only(table)
    if is_address(one):
        one = address_query(one)
    if isinstance(one, Query):
        with one.opened(row_by_row=row_by_row) as answer:
            yield "the query", answer
    elif (found := _kind_of_stream(one)) is not None:
        name, answer_of = found
        with explained(name=name), withheld(row_by_row, name):
            yield name, answer_of(one)
    else:
        yield None


def _kind_of_stream(table: Any) -> tuple[str, Callable[[Any], Answer]] | None:
    """What messages call a stream, and what asks it for rows."""
    if _is_relation(table):
        return "the query", relation_answer
    if _is_lazy(table):
        return "the lazy frame", _lazy_answer
    if is_dataset(table):
        return "the dataset", lambda dataset: _reader_answer(dataset_reader(dataset))
    if _is_reader(table):
        return "the reader", lambda stream: _reader_answer(pa.RecordBatchReader.from_stream(stream))
    return None


def _reader_answer(reader: pa.RecordBatchReader) -> Answer:
    return Answer(reader.schema, iter(reader))


def _lazy_answer(frame: Any) -> Answer:
    """The rows of a lazy frame, a chunk at a time where polars can do that."""
    if hasattr(frame, "collect_batches"):
        chunks = iter(frame.collect_batches(chunk_size=_CHUNK_ROWS, maintain_order=True))
    else:
        chunks = iter(frame.collect().iter_slices(_CHUNK_ROWS))
    first = next(chunks, None)
    table = _arrow(frame.head(0).collect() if first is None else first)
    return Answer(table.schema, _lazy_batches(table, chunks))


def _arrow(frame: Any) -> pa.Table:
    columns = {column.name: polars_cells(column, Category(), PLAIN) for column in frame.get_columns()}
    return pa.table(columns)


def _lazy_batches(table: pa.Table, chunks: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    for chunk in chunks:
        yield from _arrow(chunk).to_batches()


def spooled(table: Any, *, row_by_row: bool = False, bar: Progress = silent) -> Any:
    """A table that can be read again: its rows in a spool, if they come only once; any other table as it is.

    With `row_by_row`, no value may decide on a type: Python objects are then texts, each spelled by itself.
    """
    if isinstance(table, StandardInput):
        return [table.spooled(bar)]
    if is_store(table) or (isinstance(table, list | tuple) and any(map(is_store, table))):
        return expand_paths(table)  # the store is asked what is there only once
    if is_dataset(table):
        with explained(name="the dataset"), withheld(row_by_row, "the dataset"):
            files = dataset_files(table, row_by_row=row_by_row)
        if files is not None:
            return files
        if row_by_row:
            raise TableError(_ONLY_FILES)
    with answered(table, row_by_row=row_by_row) as found:
        if found is None:
            return table
        name, answer = found
        path, objects = spool_batches(name, answer.schema, answer.batches, bar), answer.objects
    if row_by_row:
        return [path]
    declared = declared_types(answer.schema)
    if objects is not None:
        declared = pa.schema(list(zip(answer.schema.names, objects.types(), strict=True)))
    with explained(name=name):
        return [path if declared is answer.schema else respooled(path, declared, bar)]


@contextmanager
def at_rest(table: Any, *, row_by_row: bool = False, bar: Progress = silent) -> Iterator[Any]:
    """As `spooled`, for as long as the table is needed; then the spool is gone."""
    kept = spooled(table, row_by_row=row_by_row, bar=bar)
    try:
        yield kept
    finally:
        if kept is not table:
            close_spools(kept)


def answer_schema(table: Any) -> pa.Schema | None:
    """The columns of a table that is read once, without a look at its rows; None for other tables.

    Columns of Python objects have the type null, which says nothing.
    """
    if is_dataset(table):
        return table.schema
    with answered(table) as found:
        if found is None:
            return None
        answer = found[1]
        if answer.objects is None:
            return declared_types(answer.schema)
        return pa.schema([(name, pa.null()) for name in answer.schema.names])
