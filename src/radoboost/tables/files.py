"""Table files as parts: runs of row groups (Parquet), runs of record batches (Arrow), and CSV as reading cuts it."""

import socket
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from radoboost.errors import TableError
from radoboost.tables.column_selection import ColumnChoice, column_names, row_number_text
from radoboost.tables.folders import FolderColumns
from radoboost.tables.frames import BATCH_ROWS, BATCH_VALUES, frame_batches
from radoboost.tables.named_paths import NamedPath, named_path
from radoboost.tables.object_columns import encoded_column_names
from radoboost.tables.object_stores import StorePath, is_store_version_size_alone
from radoboost.tables.paths import (
    FileStamp,
    Stamp,
    file_kind,
    file_stamp,
    first_file_stamp,
    folder_columns_that_differ,
    is_gzip,
    one_line_errors,
    open_csv_stream,
    open_file,
    size_of_file,
    stamp_to_send,
)
from radoboost.tables.readers import ColumnSelection, Reader
from radoboost.tables.store_files import PEEK_BYTES, parquet_file_in_store
from radoboost.tables.table import Batch, Partition, Table, round_to_whole_tiles, rows_per_partition

_SAMPLE_BYTES = 1 << 20
_AT_ONCE = 16  # files in stores that are asked about
_FEW_BATCHES = 8  # of an Arrow file in a store: each is asked about by itself


@dataclass(frozen=True)
class FilePart(ABC):
    """Rows of one file, which must not have changed since the table was opened."""

    path: Path
    stamp: Stamp
    selection: ColumnSelection
    n_rows: int | None  # None if they must be read to know

    typed: ClassVar[bool] = True  # whether columns have types

    def __getstate__(self) -> dict[str, Any]:
        """Another process may be in another folder; messages name the file as it was named here."""
        path = self.path
        if not isinstance(path, NamedPath) and not path.is_absolute():
            path = named_path(path.absolute(), shown=str(path))
        return {**self.__dict__, "path": path, "stamp": stamp_to_send(self.stamp)}

    @property
    def has_types(self) -> bool:
        """Whether columns have types of their own; cells of a CSV file do not."""
        return self.typed

    @abstractmethod
    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and then the label, about `most_rows` at a time."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row of this part is, in the user's words."""

    def batches(self, most_rows: int) -> Iterator[Batch]:
        with one_line_errors(self.path):
            mark = self.check_unchanged()
            yield from frame_batches(
                self.record_batches(most_rows), self.selection, most_rows, self.place, self.has_types
            )
            self.check_unchanged(mark)

    def count(self) -> int:
        """How many rows it has, by reading them if need be."""
        if self.n_rows is not None:
            return self.n_rows
        with one_line_errors(self.path):
            n_rows: int = sum(batch.num_rows for batch in self.record_batches(BATCH_ROWS))
            self.check_unchanged()
        return n_rows

    def check_unchanged(self, before: Stamp | None = None) -> Stamp:
        """The file's stamp; one that changed is refused: what one pass checked must be what the next one sums.

        A part that came from another machine knows the size and the time that the file had there. `before` is the stamp
        that it had here when reading began.
        """
        mark = file_stamp(self.path)
        came = isinstance(self.stamp, FileStamp) and self.stamp.number is None
        if before is None and came:
            if stamp_to_send(mark) != self.stamp:
                raise TableError(
                    f"the machine {socket.gethostname()} sees another file as {self.path} than the one that was "
                    "opened, or it changed since (its size or time differs); have all machines see the same files, and "
                    "try again"
                )
        elif mark != (self.stamp if before is None else before):
            raise TableError(f"{self.path} changed while it was read; try again once it is at rest")
        return mark


@dataclass(frozen=True)
class _Run(FilePart):
    """Pieces `first` to `last`, without `last`, as the file itself is cut."""

    first: int
    last: int
    first_row: int
    alone: bool  # the table has no other file

    def place(self, row: int) -> str:
        """The number of a row, and the file if there are several."""
        return row_number_text(self.first_row + row) + ("" if self.alone else f" of {self.path}")


class ParquetRun(_Run):
    """Row groups of a Parquet file."""

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and then the label."""
        names, footer, groups = (
            self.selection.names,
            footers.footer(self.path, self.stamp),
            range(self.first, self.last),
        )
        with self._opened(footer, groups) as (file, at_a_time):
            parquet = pq.ParquetFile(file, metadata=footer, pre_buffer=False, buffer_size=at_a_time)
            for batch in parquet.iter_batches(batch_size=most_rows, row_groups=groups, columns=names):
                yield batch.select(names)

    @contextmanager
    def _opened(self, footer: Any, groups: range) -> Iterator[tuple[Any, int]]:
        """The file, and how much of each column is read at a time.

        On this machine a row group of any size is read in pieces, with a buffered stream for each column. From a store
        comes what the row groups hold of the columns that are wanted, in a few requests.
        """
        if isinstance(self.path, StorePath):
            yield parquet_file_in_store(self.path, footer, groups, self.selection.names)
        else:
            with open_file(self.path) as file:
                yield file, 1 << 20


class ArrowRun(_Run):
    """Record batches of an Arrow file."""

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and then the label."""
        with open_file(self.path) as file:
            reader = pa.ipc.open_file(file)
            for k in range(self.first, self.last):
                yield reader.get_batch(k).select(self.selection.names)


class ArrowStream(_Run):
    """A file in Arrow's stream format, which does not say where its record batches are."""

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and then the label."""
        with open_file(self.path) as file:
            for batch in pa.ipc.open_stream(file):
                yield batch.select(self.selection.names)


@dataclass(frozen=True)
class InFolder(FilePart):
    """Rows of a file with columns that its folders name, which have one value each."""

    rows: FilePart
    constants: Mapping[str, pa.Scalar]

    @property
    def has_types(self) -> bool:
        return self.rows.has_types

    def place(self, row: int) -> str:
        return self.rows.place(row)

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and then the label."""
        names = self.selection.names
        for batch in self.rows.record_batches(most_rows):
            columns = [
                pa.repeat(self.constants[name], batch.num_rows) if name in self.constants else batch.column(name)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(columns, names)


def _file_parts_in_folders(
    path: Path,
    schema: pa.Schema,
    selection: ColumnSelection,
    folders: FolderColumns,
    alone: bool,
    empty: bool = False,
) -> list[Partition]:
    """The rows of a file, with what its folders say about them; columns that it lacks, if it may, are `empty`."""
    if empty and not schema.names and file_kind(path) == "csv":
        schema = pa.schema([("", pa.null())])  # something must say how many records there are
    constants = folders.constants(schema, path)
    if empty:
        absent = [name for name in selection.names if name not in schema.names and name not in constants]
        cell = "" if file_kind(path) == "csv" else None  # an empty text may be declared, as a class or a value
        constants |= dict.fromkeys(absent, pa.scalar(cell, pa.string()))
    if not constants.keys() & set(selection.names):
        return list(_parts_of_file(path, schema, selection, alone))
    own = [name for name in selection.features if name not in constants]
    label, person = (None if name in constants else name for name in (selection.label, selection.person))
    if not own:  # something must say how many rows there are
        own = [name for name in column_names(schema) if name not in (label, person)][:1]
    within = ColumnSelection(tuple(own), label, selection.reading, person)
    parts = _parts_of_file(path, schema, within, alone)
    return [
        InFolder(part.path, part.stamp, selection, part.n_rows, part, constants)
        for part in parts
        if isinstance(part, FilePart)
    ]


class Footers:
    """What Parquet files say about themselves; every part of a file needs it, and a store is asked only once.

    The latest are kept, up to so many bytes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def footer(self, path: Path, mark: Stamp) -> Any:
        key = path.identity(mark) if isinstance(path, StorePath) else (path, mark)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if isinstance(path, StorePath):
            found = pq.ParquetFile(path.file).metadata
        else:
            with open_file(path) as file:
                found = pq.ParquetFile(file).metadata
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += found.serialized_size
            while self._bytes > self._most and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].serialized_size
        return found


footers = Footers(1 << 26)


def join_row_group_runs(sizes: Sequence[int], most_rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Join neighbouring pieces of these sizes: (rows, first, last, first row) of each run, without piece `last`."""
    first, first_row, rows = 0, 0, 0
    for k, size in enumerate(sizes):
        if rows and rows + size > most_rows:
            yield rows, first, k, first_row
            first, first_row, rows = k, first_row + rows, 0
        rows += size
    if rows:
        yield rows, first, len(sizes), first_row


# ---- what is in a file


def schema_of_file(path: Path, reading: Reader) -> pa.Schema:
    kind = file_kind(path)
    with one_line_errors(path):
        if kind == "csv":
            return reading.csv_schema(path)
        if kind == "parquet":
            return footers.footer(path, first_file_stamp(path)).schema.to_arrow_schema()
        with open_file(path, PEEK_BYTES) as file:
            return open_arrow_file_reader(file).schema


def open_arrow_file_reader(file: pa.NativeFile) -> Any:
    """A reader of Arrow's file format, or else of its stream format."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _arrow_batch_sizes(path: Path, names: Sequence[str]) -> list[int] | None:
    """Rows of each record batch of an Arrow file; None for a stream."""
    with open_file(path, PEEK_BYTES) as file:
        reader = open_arrow_file_reader(file)
        if not hasattr(reader, "num_record_batches"):
            return None
        few = reader.num_record_batches <= _FEW_BATCHES
    with open_file(path, PEEK_BYTES if few else None) as file:
        # One column is enough to count rows, and where the file is compressed the others take time.
        options = pa.ipc.IpcReadOptions(included_fields=[reader.schema.get_field_index(name) for name in names[:1]])
        reader = pa.ipc.open_file(file, options=options)
        return [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]


def _parts_of_file(path: Path, schema: pa.Schema, selection: ColumnSelection, alone: bool) -> Sequence[Partition]:
    """The rows of a file, cut as the file itself is."""
    kind, mark = file_kind(path), first_file_stamp(path)
    if selection.reading.must_not_change and isinstance(path, StorePath) and is_store_version_size_alone(mark):
        raise TableError(
            f"the store says neither the version of {path} nor its time, so it could change between passes and nobody "
            "would notice; where records are protected, copy it to this machine first"
        )
    if kind == "csv":
        return selection.reading.csv_parts(path, schema, selection)
    n_features = max(1, len(selection.features))  # all may be in the names of folders
    most_rows = rows_per_partition(n_features, round_to_whole_tiles(min(BATCH_ROWS, BATCH_VALUES // n_features)))
    if kind == "parquet":
        footer = footers.footer(path, mark)
        groups = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
        return [ParquetRun(path, mark, selection, *run, alone) for run in join_row_group_runs(groups, most_rows)]
    batches = _arrow_batch_sizes(path, selection.names)
    if batches is None:
        return [ArrowStream(path, mark, selection, None, 0, 0, 0, alone)]
    return [ArrowRun(path, mark, selection, *run, alone) for run in join_row_group_runs(batches, most_rows)]


def open_files(paths: Sequence[Path], choice: ColumnChoice, reading: Reader) -> Table:
    """Files of one kind or several, as if they were one table; columns are matched by name."""
    name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    _stamp_files_at_once([path for path in paths if isinstance(path, StorePath)])
    schemas = [schema_of_file(path, reading) for path in paths]
    folders = FolderColumns.of(paths, typed=reading.typed_folders)
    features: tuple[str, ...] = ()
    lacking = _files_lacking_columns(paths, schemas, folders, choice, reading)
    for path, schema in zip(paths, schemas, strict=True):
        if path in lacking:
            continue
        with one_line_errors(path):
            if not schema.names:
                raise TableError(f"{path} names no columns; give it a header")
            names = column_names(schema := folders.added(schema, path))
        columns = _choice_without_folder_columns(choice, paths, names).columns(names, str(path))
        reading.check_types(schema, columns)
        features = features or columns
        if sorted(features) != sorted(columns):
            odd = sorted(set(features) ^ set(columns))[0]
            raise TableError(f"{paths[0]} and {path} differ in column {odd!r}; all files must have the same")
    selection = ColumnSelection(features, choice.label, reading, choice.person)
    parts: list[Partition] = []
    for path, schema in zip(paths, schemas, strict=True) if features else ():
        with one_line_errors(path):
            parts += _file_parts_in_folders(path, schema, selection, folders, len(paths) == 1, path in lacking)
    names_out, guess = encoded_column_names(reading, features), partial(_guess_rows_of_files, parts)
    away = any(isinstance(path, StorePath) for path in paths)
    csv = any(file_kind(path) == "csv" for path in paths)
    return Table(
        name, names_out, choice.label, parts, BATCH_VALUES, BATCH_ROWS, guess, reading.schema, away=away, csv=csv,
        names=tuple(dict.fromkeys(name for schema in schemas for name in schema.names)),
    )  # fmt: skip


def _files_lacking_columns(
    paths: Sequence[Path], schemas: Sequence[pa.Schema], folders: FolderColumns, choice: ColumnChoice, reading: Reader
) -> set[Path]:
    """The files that lack a column that was named, where one record may decide about that: their cells are empty there.

    Where no features are named, these are the label and the person. Where all files lack one, that is refused.
    """
    if not reading.must_not_change or choice.label is None or len(paths) == 1:
        return set()
    needed = {*(choice.features or ()), choice.label, *([] if choice.person is None else [choice.person])}
    lacking = {
        path
        for path, schema in zip(paths, schemas, strict=True)
        if not column_names(schema) or not needed <= set(column_names(folders.added(schema, path)))
    }
    return lacking if len(lacking) < len(paths) else set()


def _stamp_files_at_once(paths: Sequence[StorePath]) -> None:
    """Ask stores about many files at once, and not one after the other."""
    if len(paths) < 2:
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as helpers:
        try:
            for _ in helpers.map(_stamp_file, paths):
                pass
        finally:
            helpers.shutdown(cancel_futures=True)


def _stamp_file(path: StorePath) -> None:
    with one_line_errors(path):
        mark = first_file_stamp(path)
        if file_kind(path) == "parquet":
            footers.footer(path, mark)


def _choice_without_folder_columns(choice: ColumnChoice, paths: Sequence[Path], names: Sequence[str]) -> ColumnChoice:
    """The choice without columns that only folders name. They are not read, so the caller must drop them."""
    folders = {name: folder for name, folder in folder_columns_that_differ(paths).items() if name not in names}
    for name, folder in folders.items() if choice.features is None else ():
        if name not in choice.drop:
            raise TableError(
                f"the files have no column {name!r}, which only folders such as {folder!r} name; pass the folder "
                f"around them, or a pattern in quotes, to have it as a column, or drop {name!r}"
            )
    return replace(choice, drop=tuple(name for name in choice.drop if name not in folders))


# ---- about how many rows


def _guess_rows_of_files(parts: Sequence[Partition]) -> int | None:
    """About how many rows there are, by the size of files and of the first rows in them."""
    known_rows = sum(part.n_rows or 0 for part in parts)
    paths = list(dict.fromkeys(part.path for part in parts if isinstance(part, FilePart) and part.n_rows is None))
    with one_line_errors(paths[0]):
        rows, size = _sample_file_head(paths[0])
        total = sum(map(size_of_file, paths))
    return known_rows + round(rows * total / size) if size else None


def _sample_file_head(path: Path) -> tuple[int, int]:
    """How many rows the first bytes of a file have, and how many bytes these are."""
    with open_file(path) as file:
        if file_kind(path) != "csv":
            first = next(iter(pa.ipc.open_stream(file)), None)
            return 0 if first is None else first.num_rows, file.tell()
        stream = open_csv_stream(path, file)  # keep it: the file is closed when it is collected
        block = stream.read(_SAMPLE_BYTES)
        return len(block.splitlines()) - 1, file.tell() if is_gzip(path) else len(block)
