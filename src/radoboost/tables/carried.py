"""Columns of a table as they are, for those who carry them through: a cell of a CSV file is its text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from radoboost.errors import TableError
from radoboost.tables.columns import listed
from radoboost.tables.csv_files import CSV_BLOCK_BYTES
from radoboost.tables.files import arrow_reader, file_schema
from radoboost.tables.paths import csv_stream, expand_paths, file_kind, is_paths, open_file, readable
from radoboost.tables.reading import Reading


@dataclass(frozen=True, eq=False)
class RawColumns:
    """Some columns of a table: their names and types, and their rows, in order, in batches of any size."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def pieces(self) -> "Pieces":
        """The rows from the first one on, as many at a time as somebody asks for."""
        return Pieces(self.schema, self.batches())


class Pieces:
    """Takes rows off a stream of batches."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema, self._batches = schema, batches
        self._rest = pa.RecordBatch.from_pylist([], schema=schema)

    def take(self, n_rows: int) -> pa.RecordBatch:
        """The next `n_rows` rows."""
        pieces: list[pa.RecordBatch] = []
        while n_rows > 0:
            if not self._rest.num_rows:
                following = next(self._batches, None)
                if following is None:
                    raise TableError("the table changed while it was read; try again once it is at rest")
                self._rest = following
            piece = self._rest.slice(0, n_rows)
            self._rest = self._rest.slice(piece.num_rows)
            n_rows -= piece.num_rows
            pieces.append(piece)
        return pa.concat_batches(pieces) if pieces else self._rest.slice(0, 0)


def carried_columns(table: Any, names: Sequence[str], reading: Reading) -> RawColumns:
    """Columns of a data frame, a dict of columns, or files.

    >>> from radoboost.tables.strict import STRICT
    >>> columns = carried_columns({"id": ["007", "008"], "age": [1, 2]}, ["id"], STRICT)
    >>> columns.pieces().take(1).to_pydict()
    {'id': ['007']}
    """
    if not is_paths(table):
        with readable("the table"):
            rows = pa.table(table)
        _check_there(names, rows.schema.names, "the table")
        chosen = _plain(rows.select(list(names)).replace_schema_metadata(None))
        return RawColumns(chosen.schema, lambda: iter(chosen.to_batches()))
    paths = expand_paths(table)
    fields: dict[str, pa.DataType] = {}
    for path in paths:
        schema = file_schema(path, reading)
        _check_there(names, schema.names, str(path))
        for name in names:
            text = file_kind(path) == "csv"
            fields.setdefault(name, pa.string() if text else _plain_type(schema.field(name).type))
    wanted = pa.schema(list(fields.items()))
    return RawColumns(wanted, lambda: _file_batches(paths, wanted))


def _check_there(names: Sequence[str], present: Sequence[str], where: str) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise TableError(f"{where} has no column {listed(missing)} to keep; its columns are {listed(list(present))}")
    twice = [name for name in names if list(present).count(name) > 1]
    if twice:
        raise TableError(f"{where}: several columns are called {twice[0]!r}; it cannot be kept")


def _file_batches(paths: Sequence[Path], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with readable(path), open_file(path) as file:
            for batch in _raw_batches(path, file, wanted.names):
                yield from _plain(pa.Table.from_batches([batch])).cast(wanted).to_batches()


def _raw_batches(path: Path, file: pa.NativeFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    kind = file_kind(path)
    if kind == "csv":
        convert = pa.csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
        read, parse = pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES), pa.csv.ParseOptions(newlines_in_values=True)
        with pa.csv.open_csv(csv_stream(path, file), read, parse, convert) as rows:
            yield from rows
    elif kind == "parquet":
        for batch in pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20).iter_batches(columns=names):
            yield batch.select(names)
    else:
        reader = arrow_reader(file)
        count = getattr(reader, "num_record_batches", None)
        for batch in reader if count is None else (reader.get_batch(k) for k in range(count)):
            yield batch.select(names)


def _plain(table: pa.Table) -> pa.Table:
    """The table without dictionaries, which CSV files do not have."""
    return table.cast(pa.schema([(field.name, _plain_type(field.type)) for field in table.schema]))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
