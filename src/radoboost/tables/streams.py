"""Tables that are read once: queries, relations of DuckDB, lazy frames, record batch readers, standard input.

`at_rest` keeps their rows in a spool; from there on they are files like any other.
"""

import errno
import gzip
import io
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError, reason
from radoboost.progress import Progress, silent
from radoboost.tables import databases
from radoboost.tables.column_types import Category
from radoboost.tables.csv_dialect import PLAIN
from radoboost.tables.folders import folder_column_values
from radoboost.tables.frames import BATCH_ROWS, BATCH_VALUES, cluster_kind_of_frame, slice_batches
from radoboost.tables.named_paths import NamedPath, named_path
from radoboost.tables.object_columns import polars_object_cells
from radoboost.tables.paths import expand_paths
from radoboost.tables.urls import is_database_url, is_store_url, mask_database_errors, withhold_read_errors

# ---- Datasets of pyarrow: as the files that they are made of, where they are no more than files.

_KINDS = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow"}


def is_dataset(table: Any) -> bool:
    """Whether a table is a dataset, or a scanner of one; a module that nobody imported is not asked."""
    kind = type(table)
    return kind.__module__.startswith("pyarrow._") and hasattr(table, "to_table") and hasattr(table, "to_batches")


def dataset_files(dataset: Any, *, row_by_row: bool = False) -> list[NamedPath] | None:
    """The files of a dataset, with their folders as columns; None where it is more than Parquet or Arrow files here.

    So nothing is cast to a common type, which could fail because of one value. With `row_by_row` a folder must say
    by itself which column it is, for pyarrow takes 0x1F for 31 unless another folder is called by no number.
    """
    try:
        fragments = dataset.get_fragments() if hasattr(dataset, "get_fragments") else ()
    except ValueError:  # it has a filter
        return None
    if hasattr(dataset, "children"):  # a union
        parts = [dataset_files(child, row_by_row=row_by_row) for child in dataset.children]
        files = [file for part in parts for file in part or ()]
        names = set().union(*(child.schema.names for child in dataset.children))
        return None if None in parts or not files or names != set(dataset.schema.names) else files
    root = _local_dataset_root(getattr(dataset, "filesystem", None))
    kind = _KINDS.get(dataset.format.default_extname) if root is not None else None
    if root is None or kind is None:
        return None
    names, files = set(dataset.schema.names), []
    known: set[str] = set()
    for fragment in fragments:
        place, own = os.path.join(root, fragment.path), set(fragment.physical_schema.names)
        folders = _dataset_folder_values(place, fragment.partition_expression, row_by_row)
        if folders is None or not names >= own or _is_partial_fragment(fragment):
            return None
        folders = {name: value for name, value in folders.items() if name in names}
        files.append(named_path(place, kind=kind, folders=folders))
        known |= own | set(folders)
    return files if files and names <= known else None


def _local_dataset_root(filesystem: Any) -> str | None:
    """Where the paths of a file system begin; None if it is not that of this machine."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    if isinstance(filesystem, SubTreeFileSystem):
        outer = _local_dataset_root(filesystem.base_fs)
        return None if outer is None else os.path.join(outer, filesystem.base_path)
    return "" if isinstance(filesystem, LocalFileSystem) else None


def _dataset_folder_values(place: str, expression: Any, row_by_row: bool) -> dict[str, str | None] | None:
    """What folders say about a file, as they say it; None where that cannot be known."""
    from pyarrow.dataset import get_partition_keys

    keys, texts = get_partition_keys(expression), folder_column_values(Path(place).parts[:-1])
    if row_by_row and not keys.keys() <= texts.keys():
        return None
    return {name: None if value is None else texts.get(name, str(value)) for name, value in keys.items()}


def _is_partial_fragment(fragment: Any) -> bool:
    """Whether a fragment is only some row groups of its file."""
    return hasattr(fragment, "num_row_groups") and fragment.num_row_groups != fragment.metadata.num_row_groups


def dataset_reader(dataset: Any) -> pa.RecordBatchReader:
    """The rows of any dataset or scanner, few of them at a time."""
    scanner = dataset
    if hasattr(dataset, "scanner"):
        scanner = dataset.scanner(batch_size=65536, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()


# ---- Rows that can be read only once, kept in a temporary file so that they can be read again.
#
# The file is nobody else's: it has mode 0600, and where the system allows it no name, so that it is gone with the
# process, whatever ends it.

_SPARE = 1 << 26  # bytes of the disk that are left for others
_ASK_EVERY = 1 << 26  # bytes that are written before the disk is asked again
_CHUNK = 1 << 20


class Spool:
    """A temporary file to write once and to read often; its `place` can be opened by name while it lives."""

    def __init__(self) -> None:
        with _disk_errors_of_spool("the temporary folder"):
            self._file, name = tempfile.mkstemp(prefix="radoboost-")
        self.n_bytes, self._asked = 0, 0
        self._folder = os.path.dirname(name)
        self.place = name
        for place in (f"/proc/{os.getpid()}/fd/{self._file}", f"/dev/fd/{self._file}"):
            if os.path.exists(place):
                with suppress(OSError):
                    os.unlink(name)
                    self.place = place
                break
        self.discard = weakref.finalize(self, _discard_spool_file, self._file, name, self.place == name)

    # What Arrow asks of a file that it writes to.

    closed = False

    def write(self, data: Any) -> int:
        """Write behind what is there, and refuse to fill the disk."""
        view, done = memoryview(data).cast("B"), 0
        if self.n_bytes + len(view) > self._asked:
            free = shutil.disk_usage(self._folder).free
            if len(view) + _SPARE > free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._asked = self.n_bytes + len(view) + min(_ASK_EVERY, free - len(view) - _SPARE)
        while done < len(view):
            done += os.write(self._file, view[done:])
        self.n_bytes += done
        return done

    def flush(self) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """Arrow is done with writing; the file is there to be read until it is discarded."""


def _discard_spool_file(file: int, name: str, named: bool) -> None:
    with suppress(OSError):
        os.close(file)
    if named:
        with suppress(OSError):
            os.unlink(name)


@contextmanager
def _disk_errors_of_spool(name: str) -> Iterator[None]:
    """Turn a disk's refusal into one line; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOENT):
            raise
        raise TableError(
            f"no room to keep the rows of {name} in {tempfile.gettempdir()}: {reason(error)}; free some, or set TMPDIR "
            "to a folder that has more"
        ) from None


def spool_batches(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bar: Progress = silent) -> NamedPath:
    """Write record batches to a spool, as they are, a bounded number of rows at a time.

    Dictionaries may change from batch to batch, which Arrow's file format does not allow; its stream format does. So
    whatever may have some within is kept as a stream: types that have parts, and extension types.
    """
    kind = "arrow" if all(_is_unnested_type(column.type) for column in schema) else "stream"
    spool = Spool()
    try:
        sink = pa.PythonFile(spool, "w")
        writer = (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(sink, schema)
        rows = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(schema))))
        n_rows = 0
        for batch in slice_batches(batches, rows):
            with _disk_errors_of_spool(name):
                writer.write_batch(batch)
            n_rows += batch.num_rows
            bar("keeping rows", n_rows, None)
        with _disk_errors_of_spool(name):
            writer.close()
    except BaseException:
        spool.discard()
        raise
    return named_path(spool.place, name, kind, owner=spool)


def _is_unnested_type(kind: pa.DataType) -> bool:
    return kind.num_fields == 0 and not isinstance(kind, pa.DictionaryType | pa.BaseExtensionType)


def spool_bytes(name: str, kind: str, stream: BufferedIOBase, bar: Progress = silent) -> NamedPath:
    """Write the bytes of a file of a known kind to a spool."""
    spool = Spool()
    try:
        while chunk := stream.read1(_CHUNK):  # what is there: a longer read would not notice an interrupt
            with _disk_errors_of_spool(name):
                spool.write(chunk)
            bar("keeping bytes", spool.n_bytes, None)
        if not spool.n_bytes:
            raise TableError(f"{name} is empty")
    except BaseException:
        spool.discard()
        raise
    return named_path(spool.place, name, kind, owner=spool)


def rewrite_spool(path: NamedPath, schema: pa.Schema, bar: Progress = silent) -> NamedPath:
    """The same rows with the types of a schema, in a spool that takes the place of the first."""
    try:
        with pa.memory_map(os.fspath(path)) as file:
            batches = (batch.cast(schema) for batch in _spooled_batches(path, file))
            return spool_batches(str(path), schema, batches, bar)
    finally:
        path.owner.discard()


def _spooled_batches(path: NamedPath, file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    if path.kind == "stream":
        yield from pa.ipc.open_stream(file)
    else:
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(k) for k in range(reader.num_record_batches))


def close_spools(table: Any) -> None:
    """Let go of the spools that a table is in, if there are any."""
    for path in table if isinstance(table, list) else ():
        if isinstance(path, NamedPath) and isinstance(path.owner, Spool):
            path.owner.discard()


def spooled_table(table: Any) -> pa.Table | None:
    """A table that is in a spool of record batches, without a copy of its rows; None for any other."""
    if not (isinstance(table, list) and len(table) == 1 and isinstance(table[0], NamedPath)):
        return None
    path = table[0]
    if not isinstance(path.owner, Spool) or path.kind not in ("arrow", "stream"):
        return None
    file = pa.memory_map(os.fspath(path))
    return (pa.ipc.open_stream if path.kind == "stream" else pa.ipc.open_file)(file).read_all()


_BEGINNINGS = {"parquet": (b"PAR1\x15",), "arrow": (b"ARROW1\0", b"\xff\xff\xff\xff")}
_LONGEST_MARK = 7
_CHUNK_ROWS = 65536
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ONLY_FILES = (
    "a private mechanism takes datasets of whole Parquet or Arrow files, on this machine, with all their columns, in "
    "folders such as year=2024; elsewhere (CSV, JSON, scanners, filters, other file systems) one value can decide "
    "how others are read: pass the paths of the files, or their folder"
)


@dataclass(frozen=True)
class StandardInput:
    """A table that comes in through a pipe; its first bytes say whether it is Parquet, Arrow, or CSV, also by gzip."""

    def spooled(self, bar: Progress) -> NamedPath:
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise TableError("standard input is a terminal or closed; pipe a table into it: cat TABLE | rado ... -")
        try:
            start = _first_bytes(stream)
            whole = io.BufferedReader(_Begun(start, stream))
            kind = next((name for name, marks in _BEGINNINGS.items() if start.startswith(marks)), "csv")
            unpacked = gzip.GzipFile(fileobj=whole) if start.startswith(b"\x1f\x8b") else whole
            path = spool_bytes("standard input", kind, unpacked, bar)
        except (OSError, EOFError) as error:
            raise TableError(f"standard input broke off: {error}") from None
        if kind == "arrow":
            _refuse_truncated_stream(path)
        return path


def _first_bytes(stream: Any) -> bytes:
    """As many bytes as tell the format, fewer only at the end: a pipe may give them one by one."""
    start = b""
    while len(start) < _LONGEST_MARK and (more := stream.read(_LONGEST_MARK - len(start))):
        start += more
    return start


class _Begun(io.RawIOBase):
    """A stream of which some bytes were read, from its beginning."""

    def __init__(self, start: bytes, stream: Any) -> None:
        self._start, self._stream = start, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._start[: len(buffer)] or self._stream.read1(len(buffer))
        self._start = self._start[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _refuse_truncated_stream(path: NamedPath) -> None:
    """Refuse an Arrow stream that does not end as one: whoever wrote it was cut short."""
    with open(path, "rb") as file:
        begins = file.read(6)
        file.seek(max(0, path.owner.n_bytes - 8))
        ends = file.read()
    if begins != b"ARROW1" and ends != _END_OF_STREAM:
        path.owner.discard()
        raise TableError("standard input broke off: the Arrow stream has no end; check the command before the pipe")


# ---- what can be read once


def is_query_or_stream(table: Any) -> bool:
    """Whether a table comes from something that may compute: a record is then a row of what comes."""
    one = _only_address_of_list(table)
    if is_dataset(one):
        return dataset_files(one) is None
    if isinstance(one, databases.Query | StandardInput) or is_database_url(one):
        return True
    return _is_duckdb_relation(one) or _is_lazy_frame(one) or _is_batch_stream(one)


def table_origin(table: Any) -> str:
    """What may have computed the rows of a table, by its kind alone: a "query", or a program, in "memory"."""
    if is_query_or_stream(table):
        return "query"
    return "" if isinstance(table, str | Path | list | tuple) else "memory"  # paths, or rows in Python's own lists


def _only_address_of_list(table: Any) -> Any:
    """The only item of a list that holds an address; any other table as it is."""
    return table[0] if isinstance(table, list | tuple) and len(table) == 1 and is_database_url(table[0]) else table


def _is_duckdb_relation(table: Any) -> bool:
    return type(table).__name__ == "DuckDBPyRelation"


def _is_lazy_frame(table: Any) -> bool:
    return hasattr(table, "collect") and type(table).__module__.partition(".")[0] == "polars"


def _is_batch_stream(table: Any) -> bool:
    """Whether a table is a stream of record batches, and no frame in memory, which knows how long it is."""
    return hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__len__") and not cluster_kind_of_frame(table)


@contextmanager
def query_result_of(table: Any, *, row_by_row: bool = False) -> Iterator[tuple[str, databases.QueryResult] | None]:
    """What messages call a table that is read once, and its rows as they come; None for other tables.

    With `row_by_row`, what a library says while it reads rows is in no message.
    """
    one = _only_address_of_list(table)
    if is_database_url(one):
        one = databases.query_of_address(one)
    if isinstance(one, databases.Query):
        with one.opened(row_by_row=row_by_row) as answer:
            yield "the query", answer
    elif (found := _stream_kind(one)) is not None:
        name, answer_of = found
        with mask_database_errors(name=name), withhold_read_errors(row_by_row, name):
            yield name, answer_of(one)
    else:
        yield None


def _stream_kind(table: Any) -> tuple[str, Callable[[Any], databases.QueryResult]] | None:
    """What messages call a stream, and what asks it for rows."""
    if _is_duckdb_relation(table):
        return "the query", databases.duckdb_relation_answer
    if _is_lazy_frame(table):
        return "the lazy frame", _answer_of_lazy_frame
    if is_dataset(table):
        return "the dataset", lambda dataset: _answer_of_batch_reader(dataset_reader(dataset))
    if _is_batch_stream(table):
        return "the reader", lambda stream: _answer_of_batch_reader(pa.RecordBatchReader.from_stream(stream))
    return None


def _answer_of_batch_reader(reader: pa.RecordBatchReader) -> databases.QueryResult:
    return databases.QueryResult(reader.schema, iter(reader))


def _answer_of_lazy_frame(frame: Any) -> databases.QueryResult:
    """The rows of a lazy frame, a chunk at a time where polars can do that."""
    if hasattr(frame, "collect_batches"):
        chunks = iter(frame.collect_batches(chunk_size=_CHUNK_ROWS, maintain_order=True))
    else:
        chunks = iter(frame.collect().iter_slices(_CHUNK_ROWS))
    first = next(chunks, None)
    table = _lazy_chunk_as_arrow(frame.head(0).collect() if first is None else first)
    return databases.QueryResult(table.schema, _batches_of_lazy_frame(table, chunks))


def _lazy_chunk_as_arrow(frame: Any) -> pa.Table:
    columns = {column.name: polars_object_cells(column, Category(), PLAIN) for column in frame.get_columns()}
    return pa.table(columns)


def _batches_of_lazy_frame(table: pa.Table, chunks: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    for chunk in chunks:
        yield from _lazy_chunk_as_arrow(chunk).to_batches()


def spool_stream(table: Any, *, row_by_row: bool = False, bar: Progress = silent) -> Any:
    """A table that can be read again: its rows in a spool, if they come only once; any other table as it is.

    With `row_by_row`, no value may decide on a type: Python objects are then texts, each spelled by itself.
    """
    if isinstance(table, StandardInput):
        return [table.spooled(bar)]
    if is_store_url(table) or (isinstance(table, list | tuple) and any(map(is_store_url, table))):
        return expand_paths(table)  # the store is asked what is there only once
    if is_dataset(table):
        with mask_database_errors(name="the dataset"), withhold_read_errors(row_by_row, "the dataset"):
            files = dataset_files(table, row_by_row=row_by_row)
        if files is not None:
            return files
        if row_by_row:
            raise TableError(_ONLY_FILES)
    with query_result_of(table, row_by_row=row_by_row) as found:
        if found is None:
            return table
        name, answer = found
        path, objects = spool_batches(name, answer.schema, answer.batches, bar), answer.objects
    if row_by_row:
        return [path]
    declared = databases.declared_database_types(answer.schema)
    if objects is not None:
        declared = pa.schema(list(zip(answer.schema.names, objects.types(), strict=True)))
    with mask_database_errors(name=name):
        return [path if declared is answer.schema else rewrite_spool(path, declared, bar)]


@contextmanager
def spool_for_rereading(table: Any, *, row_by_row: bool = False, bar: Progress = silent) -> Iterator[Any]:
    """As `spooled`, for as long as the table is needed; then the spool is gone."""
    kept = spool_stream(table, row_by_row=row_by_row, bar=bar)
    try:
        yield kept
    finally:
        if kept is not table:
            close_spools(kept)


def schema_of_stream(table: Any) -> pa.Schema | None:
    """The columns of a table that is read once, without a look at its rows; None for other tables.

    Columns of Python objects have the type null, which says nothing.
    """
    if is_dataset(table):
        return table.schema
    with query_result_of(table) as found:
        if found is None:
            return None
        answer = found[1]
        if answer.objects is None:
            return databases.declared_database_types(answer.schema)
        return pa.schema([(name, pa.null()) for name in answer.schema.names])
