"""The cells of a table as they are, before anybody says what its columns mean: for proposals, and to count gaps.

Reading is strict, and all values are looked at: this is for plain releases. What goes by types alone looks at none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from radoboost.errors import ArgumentError, TableError
from radoboost.progress import Progress, silent
from radoboost.tables.column_selection import ColumnChoice, column_names, refuse_equal_column_names, row_number_text
from radoboost.tables.column_types import Category
from radoboost.tables.csv_dialect import PLAIN, CsvDialect, csv_separator
from radoboost.tables.csv_files import csv_names, csv_schema, line_of_csv_row, no_csv_names_error, raw_csv_options
from radoboost.tables.files import FilePart, open_files, schema_of_file
from radoboost.tables.folders import FolderColumns
from radoboost.tables.frames import (
    BATCH_ROWS,
    FramePart,
    cluster_frame_schema,
    cluster_kind_of_frame,
    open_frame,
    refuse_cluster_frame,
    slice_batches,
)
from radoboost.tables.named_paths import folder_columns_of_path
from radoboost.tables.object_columns import (
    array_object_cells,
    named_object_columns,
    object_column_cells,
    refuse_complex_columns,
    spell_object_cells,
)
from radoboost.tables.paths import (
    expand_paths,
    file_kind,
    first_file_stamp,
    is_paths,
    one_line_errors,
    open_csv_stream,
    open_file,
)
from radoboost.tables.readers import ColumnSelection, Reader
from radoboost.tables.sparse import matrix_and_column_names, matrix_column_names
from radoboost.tables.streams import schema_of_stream, spool_stream
from radoboost.tables.strict_reader import STRICT, StrictReader
from radoboost.tables.table import Partition, Table

LOOKING = "looking at the table"


@dataclass(frozen=True, eq=False)
class RawBatch:
    """The raw columns of some rows, in which part of the table they are, and where a row is in the user's words."""

    columns: pa.RecordBatch
    part: int
    place: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table whose columns are read as they are; the cells of a CSV file are texts.

    `separator` is that of a CSV file, by its header; None for other tables.
    """

    source: Table
    separator: str | None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that are read."""
        return self.source.features

    def batches(self, bar: Progress = silent) -> Iterator[RawBatch]:
        """All rows, in order, a bounded number at a time; `bar` is told how far it is, and may raise to end it."""
        before = 0
        bar(LOOKING, 0, self.source.expected_rows(0))
        for number, part in enumerate(self.source.parts()):
            first = 0
            for columns in _raw_record_batches(part):
                yield RawBatch(columns, number, partial(_raw_row, part, first))
                first += columns.num_rows
                bar(LOOKING, before + first, self.source.expected_rows(before + first))
            before += first


def _raw_record_batches(part: Partition) -> Iterator[pa.RecordBatch]:
    if isinstance(part, FramePart):
        yield from slice_batches(part.rows.to_batches(), BATCH_ROWS)
        return
    assert isinstance(part, FilePart)
    with one_line_errors(part.path):
        part.check_unchanged()
        yield from slice_batches(part.record_batches(BATCH_ROWS), BATCH_ROWS)
        part.check_unchanged()


def _raw_row(part: Partition, first: int, row: int) -> str:
    if isinstance(part, FilePart):
        return part.place(first + row)
    return row_number_text(getattr(part, "first_row", 0) + first + row)


def open_raw_table(table: Any, columns: Sequence[str] | None = None, separator: str | None = None) -> RawTable:
    """A table in any form that `open_table` takes, to be read as it is; all columns, unless some are named."""
    refuse_cluster_frame(table, "looking at raw cells")
    choice, reading, table = (
        ColumnChoice.of(None, columns, ()),
        RawColumns(given=CsvDialect(separator)),
        spool_stream(table),
    )
    if is_paths(table):
        paths = expand_paths(table)
        found = csv_separator(paths[0], reading.marks) if file_kind(paths[0]) == "csv" else None
        return RawTable(open_files(paths, choice, reading), found)
    frame = table if reading.is_frame(table) else _raw_table_of_array(table, reading)
    return RawTable(open_frame(frame, None, choice, reading), None)


def _raw_table_of_array(table: Any, reading: StrictReader) -> pa.Table:
    """An array or a sparse matrix as a table of columns x0, x1, ..., unless they have names."""
    table, names = matrix_and_column_names(table)
    x = reading.array(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    dense = x.toarray() if hasattr(x, "toarray") else x
    if dense.dtype.kind == "c":
        reading.check_dtype(dense)
    columns = [array_object_cells(dense[:, k], Category(), PLAIN) for k in range(dense.shape[1])]
    return pa.table(columns, matrix_column_names(names, dense.shape[1]))


@dataclass(frozen=True)
class RawColumns(StrictReader):
    """Reading in which columns may be of any type, and all cells of a CSV file are texts."""

    def frame(self, table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, None]:
        """All its columns; one whose values have several types as texts."""
        columns = named_object_columns(table)
        try:
            if columns is None or not any(map(is_polars_object, columns)):
                return pa.table(table), None
        except pa.ArrowNotImplementedError:
            refuse_complex_columns(table)
            raise
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            if columns is None:
                raise
        return pa.table([_raw_column_as_arrow(column) for _, column in columns], [name for name, _ in columns]), None

    def check_types(self, schema: pa.Schema, features: Sequence[str]) -> None:
        """Refuse nothing."""

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns that the header names."""
        return pa.schema([(name, pa.string()) for name in csv_schema(path, csv_separator(path, self.marks)).names])

    def csv_parts(self, path: Path, schema: pa.Schema, selection: ColumnSelection) -> Sequence[Partition]:
        return [TextFile(path, first_file_stamp(path), selection, None, csv_separator(path, self.marks))]


def is_polars_object(column: tuple[str, Any]) -> bool:
    """Whether a named column is of objects in polars, of which Arrow would get addresses."""
    return str(getattr(column[1], "dtype", "")) == "Object"


def _raw_column_as_arrow(column: Any) -> pa.Array | pa.ChunkedArray:
    try:
        return (
            object_column_cells(column, Category(), CsvDialect())
            if is_polars_object(("", column))
            else pa.array(column)
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return spell_object_cells(column, Category(), CsvDialect())


@dataclass(frozen=True)
class TextFile(FilePart):
    """A whole CSV file, all of whose cells are texts."""

    separator: str

    def place(self, row: int) -> str:
        return f"line {line_of_csv_row(self.path, row):,} of {self.path}"

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The chosen columns, as texts."""
        names = self.selection.names
        types = dict.fromkeys(names, pa.string())
        convert = pa.csv.ConvertOptions(column_types=types, include_columns=names, strings_can_be_null=False)
        options = raw_csv_options(self.separator)
        try:
            with (
                open_file(self.path) as file,
                pa.csv.open_csv(open_csv_stream(self.path, file), **options, convert_options=convert) as reader,
            ):
                yield from reader
        except pa.ArrowInvalid as error:
            raise TableError(f"cannot read {self.path}: {str(error).splitlines()[0]}") from None


def raw_column_types(
    table: Any, separator: str | None = None, *, privately: Reader | None = None
) -> dict[str, pa.DataType | None]:
    """The columns of a table with the types they are stored in, without a look at any value.

    None stands for no type: cells of a CSV file have none, and Python objects say nothing before one looks. The header
    of a table that was opened `privately` is read as it was then, so that no row decides about it.
    """
    name = "the table"
    if (answer := schema_of_stream(table)) is not None:
        schema = answer
    elif cluster_kind_of_frame(table):
        schema = cluster_frame_schema(table)
    elif is_paths(table := spool_stream(table)):
        path = expand_paths(table)[0]
        name = str(path)
        if file_kind(path) == "csv" and privately is not None:
            return dict.fromkeys([*privately.csv_schema(path).names, *folder_columns_of_path(path)])
        if file_kind(path) == "csv":
            names = csv_names(path, csv_separator(path, CsvDialect(separator)), skip=b"\r\n")
            if not names:
                raise no_csv_names_error(path)
            refuse_equal_column_names(names, str(path))
            return dict.fromkeys([*names, *(name for name in folder_columns_of_path(path) if name not in names)])
        schema = FolderColumns.of([path], typed=False).added(schema_of_file(path, STRICT), path)
    elif STRICT.is_frame(table):
        with one_line_errors("the table"):
            if hasattr(table, "get_columns"):
                return {column.name: _raw_polars_type(column[:0]) for column in table.get_columns()}
            if isinstance(table, dict):
                table = {name: column[:0] for name, column in table.items()}
            elif hasattr(table, "iloc"):
                table = table.iloc[:0]
            schema = table.schema if isinstance(table, pa.Table) else _raw_frame_schema(table)
    else:
        matrix, own_names = matrix_and_column_names(table)
        array = STRICT.array(matrix)
        if array.ndim != 2:
            raise TableError(f"the array must have two dimensions, rows and features; its shape is {array.shape}")
        kind = None if array.dtype.kind not in "biuf" else pa.from_numpy_dtype(array.dtype)
        return dict.fromkeys(matrix_column_names(own_names, array.shape[1]), kind)
    names = column_names(schema)
    refuse_equal_column_names(names, name)
    types = {name: schema.field(name).type for name in names}
    return {name: None if pa.types.is_null(kind) else kind for name, kind in types.items()}


def refuse_float_person_ids(table: Any, person: str) -> None:
    """Refuse a data frame whose persons are floats or Python objects, by the type of that column alone.

    pandas reads a large file in pieces: one odd id makes objects of the column, in which one missing id has made floats
    of its piece (P1 of docs/proofs/persons.md).
    """
    columns = named_object_columns(table) if STRICT.is_frame(table) else None
    if not STRICT.is_frame(table):  # an array has one type for all its columns
        kinds = [getattr(table, "dtype", None)] if isinstance(table, np.ndarray) else []
    elif columns is not None:
        kinds = [getattr(column, "dtype", None) for name, column in columns if name == person]
    else:
        kinds = [field.type for field in _raw_frame_schema(table) if field.name == person]
    for held in filter(None, map(_inexact_id_type, kinds)):
        raise ArgumentError(
            f"persons in {person!r} are {held}: one missing or odd id can make floats of others in a data frame, and "
            f"large ones are then nobody's; read the file again with that column as texts (dtype={{{person!r}: "
            "'string'}), or pass the path"
        )


def _inexact_id_type(kind: Any) -> str:
    """What a column of a type may hold in place of ids, in words; empty where it holds ids as they are."""
    while (inner := _inner_type(kind)) is not None:
        kind = inner
    if isinstance(kind, pa.DataType):
        return "floats" if pa.types.is_floating(kind) else ""
    if str(kind) == "Object" or (isinstance(kind, np.dtype) and kind.kind == "O"):
        return "Python objects"
    return "floats" if getattr(kind, "kind", "") in ("f", "c") or str(kind) in ("Float32", "Float64") else ""


def _inner_type(kind: Any) -> Any:
    """The type of what a column of categories, of runs or of rare values holds, or Arrow's own; else None."""
    for name in ("pyarrow_dtype", "subtype", "value_type"):
        if hasattr(kind, name):
            return getattr(kind, name)
    return getattr(getattr(kind, "categories", None), "dtype", None)


def _raw_frame_schema(table: Any) -> pa.Schema:
    try:
        return pa.table(table).schema
    except pa.ArrowNotImplementedError:
        refuse_complex_columns(table)
        raise


def _raw_polars_type(column: Any) -> pa.DataType | None:
    if str(column.dtype) in ("Int128", "UInt128"):
        return pa.int64()  # integers, which Arrow has not so long
    return None if str(column.dtype) in ("Object", "Null") else pa.chunked_array(column).type


# ---- Columns of a table that are carried through as they are: a cell of a CSV file is its text


class PassthroughColumns:
    """Some columns of a table, of which rows are taken from the first one on."""

    def __init__(self, table: Any, names: Sequence[str], separator: str | None = None) -> None:
        """Open the table; `separator` is that of a CSV file, by default what its header line says."""
        raw = open_raw_table(table, names, separator)
        self._batches: Iterator[pa.RecordBatch] = (batch.columns for batch in raw.batches())
        self._rest = next(self._batches, pa.RecordBatch.from_pylist([], schema=pa.schema([])))
        self.schema = pa.schema([(field.name, _type_without_dictionary(field.type)) for field in self._rest.schema])

    def take(self, n_rows: int) -> pa.Table:
        pieces: list[pa.Table] = []
        while n_rows > 0:
            if not self._rest.num_rows:
                following = next(self._batches, None)
                if following is None:
                    raise TableError("the table changed while it was read; try again once it is at rest")
                self._rest = following
            piece = self._rest.slice(0, n_rows)
            self._rest = self._rest.slice(piece.num_rows)
            n_rows -= piece.num_rows
            pieces.append(pa.Table.from_batches([piece]).cast(self.schema))
        return pa.concat_tables(pieces).combine_chunks()


def _type_without_dictionary(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary, which the next rows may not share."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
