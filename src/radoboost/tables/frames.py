"""Arrow record batches as batches of numbers, and data frames of any library as parts.

Data frames come through the Arrow stream interface that pandas, polars and pyarrow share.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables import object_columns
from radoboost.tables.cells import arrow_cells
from radoboost.tables.column_selection import ColumnChoice, column_names, row_number_text
from radoboost.tables.paths import one_line_errors
from radoboost.tables.person_ids import exact_person_id
from radoboost.tables.readers import ColumnSelection, Reader
from radoboost.tables.spark_jobs import spark_frame_schema, spark_partition_sizes
from radoboost.tables.table import Batch, Table, round_to_whole_tiles, rows_per_partition

BATCH_VALUES, BATCH_ROWS = 1 << 21, 65536  # at most, in a batch read through Arrow
_FILL_ROWS = 1024


def frame_batches(
    record_batches: Iterable[pa.RecordBatch],
    selection: ColumnSelection,
    most_rows: int,
    place: Callable[[int], str],
    typed: bool = True,
) -> Iterator[Batch]:
    """Record batches, with the features first and then label and person, as batches of numbers.

    `place` says where a row is, counted from the first one here; `typed`, whether columns have types of their own.
    """
    first = 0
    for columns in selection.reading.cut(record_batches, most_rows):
        labels = None if selection.label is None else columns.column(len(selection.features))
        persons = None if selection.person is None else columns.column(len(selection.names) - 1)
        here = partial(_frame_row, place, first)
        if selection.reading.schema is None:
            yield Batch(columns.num_rows, labels, partial(_frame_values, columns, selection, here), here, persons)
        else:
            cells = object_columns.EncodedCells(
                columns.columns[: len(selection.features)], selection.reading, here, typed
            )
            yield Batch(
                columns.num_rows, labels, cells.values, here, persons, cells.gaps, unread=cells.unread,
                raw=cells.columns,
            )  # fmt: skip
        first += columns.num_rows


def _frame_row(place: Callable[[int], str], first: int, row: int) -> str:
    return place(first + row)


def _frame_values(columns: pa.RecordBatch, selection: ColumnSelection, place: Callable[[int], str]) -> NDArray[Any]:
    arrays = columns.columns[: len(selection.features)]
    numbers = [
        selection.reading.numbers(column, name, place) for column, name in zip(arrays, selection.features, strict=True)
    ]
    narrow = all(column.type in (pa.float32(), pa.float16()) for column in arrays)
    block = np.empty((columns.num_rows, len(arrays)), np.float32 if narrow else np.float64)
    # A thousand rows at a time, so that what one column wrote is in the cache when the next is written beside it.
    for start in range(0, columns.num_rows, _FILL_ROWS):
        for k, column in enumerate(numbers):
            block[start : start + _FILL_ROWS, k] = column[start : start + _FILL_ROWS]
    return block


def join_small_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most `rows` rows; small batches are joined."""
    pieces: list[pa.RecordBatch] = []
    count = 0
    for piece in slice_batches(batches, rows):
        if pieces and count + piece.num_rows > rows:
            yield pa.concat_batches(pieces)
            pieces, count = [], 0
        pieces.append(piece)
        count += piece.num_rows
    if pieces:
        yield pa.concat_batches(pieces)


def slice_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most `rows` rows; batches are cut, and never joined."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


# ---- tables in memory


def pack_frame(table: pa.Table) -> pa.Buffer:
    """A table as bytes. Of a slice these are its own rows; pickling would take along the whole table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_frame(buffer: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(buffer).read_all()


@dataclass(frozen=True, eq=False)
class FramePart:
    """Some rows of an Arrow table: features, label, person; the first is row `first_row` of the table."""

    rows: pa.Table
    selection: ColumnSelection
    first_row: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_frame_part, (pack_frame(self.rows), self.selection, self.first_row)

    @property
    def n_rows(self) -> int:
        return int(self.rows.num_rows)

    def count(self) -> int:
        return self.n_rows

    def batches(self, most_rows: int) -> Iterator[Batch]:
        yield from frame_batches(
            self.rows.to_batches(), self.selection, most_rows, partial(row_number_text, first=self.first_row)
        )


def _unpickle_frame_part(buffer: pa.Buffer, selection: ColumnSelection, first_row: int) -> FramePart:
    return FramePart(unpack_frame(buffer), selection, first_row)


def open_frame(table: Any, labels: pa.Array | None, choice: ColumnChoice, reading: Reader) -> Table:
    """A data frame; its labels are `labels`, or one of its columns."""
    label = choice.label
    with one_line_errors("the table"):
        arrow, own_labels = reading.frame(table, choice.features, choice.label)
        names = column_names(arrow.schema)
        persons = None
        if choice.person is not None:
            persons = _frame_person_ids(table, choice.person, reading)
            names += [] if persons is None or choice.person in names else [choice.person]
    if own_labels is not None:
        labels, choice = own_labels, replace(choice, label=None)
    features = choice.columns(names, "the table")
    reading.check_types(arrow.schema, features)
    check_label_count(labels, arrow.num_rows)
    columns = [*features, *([] if choice.label is None else [choice.label])]
    rows = arrow.select([arrow.schema.get_field_index(name) for name in columns]).replace_schema_metadata(None)
    if labels is not None:
        rows, label = rows.append_column("label", labels), label or "y"
    if persons is not None:
        rows = rows.append_column("person", persons)
    selection = ColumnSelection(features, label, reading, choice.person)
    batch_rows = round_to_whole_tiles(min(BATCH_ROWS, BATCH_VALUES // max(1, len(features))))
    step = rows_per_partition(max(1, len(features)), batch_rows)
    parts = [FramePart(rows.slice(start, step), selection, start) for start in range(0, rows.num_rows, step)]
    return Table(
        "the table",
        object_columns.encoded_column_names(reading, features),
        label,
        parts,
        BATCH_VALUES,
        BATCH_ROWS,
        schema=reading.schema,
    )


def _frame_person_ids(table: Any, name: str, reading: Reader) -> pa.Array | pa.ChunkedArray | None:
    """The ids of a data frame: taken as labels are, but that floats which stand for no one id are nobody's (P1)."""
    columns = [column for other, column in object_columns.named_object_columns(table) or () if other == name]
    if len(columns) == 1 and hasattr(columns[0], "iloc") and isinstance(columns[0].dtype, np.dtype):
        ids = columns[0].to_numpy()
        if ids.dtype.kind == "f":
            return arrow_cells(ids)
        if ids.dtype.kind == "O":
            return object_columns.object_labels_as_text([exact_person_id(value) for value in ids])
    rows, cells = reading.frame(table, (), name)
    if cells is not None:
        return cells
    return rows.column(name) if rows.column_names.count(name) == 1 else None


def check_label_count(labels: Sized | None, n_rows: int) -> None:
    if labels is not None and len(labels) != n_rows:
        raise TableError(f"X has {n_rows:,} rows and y has {len(labels):,}; they must be equal")


# ---- Data frames on a cluster, of Dask or Spark: a table whose parts only workers can read.
#
# The driver knows the columns and how many partitions there are. A worker that has a partition lends it to the part
# (`lent`), and from then on it is read as a data frame on one machine is. Rows never come to the driver.


_LENT: ContextVar[Iterable[Any] | None] = ContextVar("lent", default=None)
_PLACE = re.compile("⟨(\\d+):(\\d+)⟩")


def cluster_kind_of_frame(table: Any) -> str:
    """Which kind of cluster a data frame is on, "dask" or "spark"; nothing for any other table."""
    library = type(table).__module__.partition(".")[0]
    if library == "dask" and "dask.dataframe" in sys.modules and hasattr(table, "npartitions"):
        return "dask" if hasattr(table, "_meta") and hasattr(table, "columns") else ""
    return "spark" if library == "pyspark" and hasattr(table, "mapInArrow") else ""


def refuse_cluster_frame(table: Any, what: str) -> None:
    """Refuse a frame on a cluster where rows would have to come to this machine."""
    if kind := cluster_kind_of_frame(table):
        raise ArgumentError(
            f"{what} would collect a {kind.capitalize()} frame on this machine, which is never done silently: collect "
            "it, or a part of it, and pass that"
        )


def refuse_promise_about_cluster_frame(table: Any) -> None:
    """Refuse a frame on a cluster where something is promised: nobody knows that each record is in it once.

    Its library may compute a partition anew at any time, and from other rows (K3 of docs/proofs/clusters.md).
    """
    if kind := cluster_kind_of_frame(table):
        write, cluster = {
            "dask": ("frame.to_parquet('visits', write_index=False)", "client"),
            "spark": ("frame.write.parquet('visits')", "session"),
        }[kind]
        raise ArgumentError(
            f"a promise needs every record once, which is not certain of a {kind.capitalize()} frame: write it to "
            f"Parquet ({write}) and craft these files, 'visits', with compute=Compute(cluster={cluster})"
        )


def cluster_frame_schema(table: Any) -> pa.Schema:
    """The columns of a frame on a cluster; of Dask's by its empty model, where Python objects have no type."""
    if cluster_kind_of_frame(table) == "dask":
        return pa.Table.from_pandas(table._meta, preserve_index=False).schema
    return spark_frame_schema(table)


def _cluster_partitions(table: Any, columns: Sequence[str]) -> tuple[Any, Sequence[int | None]]:
    """The frame as it is computed for these columns, and how many rows each partition has, or None.

    Dask may make fewer partitions of it, in order. Spark selects columns when a job is made.
    """
    if cluster_kind_of_frame(table) == "dask":
        chosen = table[list(dict.fromkeys(columns))].optimize()
        return chosen, [None] * int(chosen.npartitions)
    return table, spark_partition_sizes(table, columns)


def open_cluster_frame(table: Any, choice: ColumnChoice, reading: Reader) -> Table:
    """A frame on a cluster as a source, whose parts are its partitions in order."""
    schema = cluster_frame_schema(table)
    empty = open_frame(schema.empty_table(), None, choice, reading)
    others = [name for name in (choice.label, choice.person) if name is not None]
    features = choice.columns(column_names(schema), "the table")
    columns, choice = (*features, *others), replace(choice, features=features, drop=())  # workers get no others
    chosen, rows = _cluster_partitions(table, columns)
    pieces = [ClusterPart(number, choice, reading, columns, count) for number, count in enumerate(rows)]
    return Table(
        empty.name, empty.features, empty.label, pieces, BATCH_VALUES, BATCH_ROWS, schema=reading.schema, frame=chosen
    )


@dataclass(frozen=True, eq=False)
class ClusterPart:
    """A partition of a frame on a cluster, which is read where a worker lends it: the frame's `columns` are enough."""

    number: int
    choice: ColumnChoice
    reading: Reader
    columns: tuple[str, ...]
    n_rows: int | None = None

    def count(self) -> int:
        return sum(batch.n_rows for batch in self.batches(BATCH_ROWS))

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """All rows of the partition, in order; messages say where one is by `placed`."""
        first = 0
        for frame in borrowed_frames():
            for part in open_frame(frame, None, self.choice, self.reading).pieces:
                assert isinstance(part, FramePart)
                place = partial(_row_placeholder, self.number, first)
                yield from frame_batches(part.rows.to_batches(), part.selection, most_rows, place)
                first += part.n_rows


def _row_placeholder(part: int, first: int, row: int) -> str:
    """Where a row is, for a message: its number in the table is known to the driver alone."""
    return f"⟨{part}:{first + row}⟩"


def fill_row_placeholders(message: str, first_row: Callable[[int], int]) -> str:
    """A message with the numbers of rows filled in; `first_row` says where a part begins."""
    return _PLACE.sub(lambda found: row_number_text(first_row(int(found[1])) + int(found[2])), message)


def borrowed_frames() -> Iterable[Any]:
    """The frames that are lent here."""
    frames = _LENT.get()
    if frames is None:
        raise TableError("the table is on a cluster, and this machine has none of its rows")
    return frames


@contextmanager
def lend_frames(frames: Iterable[Any] | None) -> Iterator[None]:
    """Lend the frames that a partition is made of, in order, to the part that is read within; they are read once."""
    before = _LENT.set(frames)
    try:
        yield
    finally:
        _LENT.reset(before)
