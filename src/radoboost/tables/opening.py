"""Whatever the caller has, opened as a source."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from radoboost.errors import ArgumentError
from radoboost.tables.arrays import array_columns, open_array
from radoboost.tables.cluster_frames import cluster_of, cluster_schema, open_cluster_frame, refuse_cluster_frame
from radoboost.tables.column_selection import ColumnChoice, column_names, storage
from radoboost.tables.csv_dialect import PLAIN, CsvDialect
from radoboost.tables.files import file_schema, open_files
from radoboost.tables.folders import FolderColumns
from radoboost.tables.frames import open_frame
from radoboost.tables.gpu_arrays import device_labels, is_on_device, on_host, open_device_array
from radoboost.tables.named_paths import folder_columns
from radoboost.tables.paths import expand_paths, file_kind, is_paths, readable
from radoboost.tables.private_reader import ROW_BY_ROW, PrivateReader
from radoboost.tables.readers import Reader
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import array_and_names, column_labels
from radoboost.tables.streams import answer_schema, spool_stream, spooled_table
from radoboost.tables.strict_reader import STRICT, StrictReader
from radoboost.tables.table import Table


def open_table(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    person: str | None = None,
    labelled: bool = True,
    row_by_row: bool = False,
    schema: Schema | None = None,
    marks: CsvDialect = PLAIN,
    gaps: bool = False,
    weights: str | None = None,
    on_cluster: bool = False,
    withheld: bool = False,
) -> Table:
    """Open a table in any form, ready to be read.

    `table` is an array, in memory or on a CUDA device, a sparse matrix, a data frame, a dict of columns, a path, a list
    of paths, a folder, a glob pattern, or something that is read once, which is kept in a spool: a query, a lazy frame,
    a record batch reader. A frame on a cluster is opened with `on_cluster`, and then only workers of that cluster can
    read its parts; otherwise it is refused, for its rows would have to come here. With `withheld`, and with
    `row_by_row`, no message has words of the cluster's, in which there may be values.
    The labels are `y`, or the column that `label` names; where `labelled` is False there may be none. `person` names
    the column that says whose row it is: it is read beside the features, and is none of them. In its place `weights`
    may name one. With `row_by_row`, no value decides how another is read and none is refused, as private mechanisms
    need it. A `schema` says what the columns of a raw table mean: it chooses them, and the features are then its
    encoded columns. `marks` says how a CSV file is written, where no schema does. With `gaps`, missing numbers are no
    reason to refuse a table that has no schema: they are NaN.
    """
    if not on_cluster:
        refuse_cluster_frame(table, "reading it here")
    reading: Reader = PrivateReader(schema, marks) if row_by_row else StrictReader(schema, marks, gaps)
    if schema is not None:
        features, drop = schema.used, ()
    choice = ColumnChoice.of(label, features, drop, *((person, "person") if weights is None else (weights, "weights")))
    if y is None and label is None and labelled:
        raise ArgumentError("give the labels, as y or by the name of their column in label (--label COL)")
    if y is not None and label is not None:
        raise ArgumentError("give the labels once: as y, or as the name of their column in label (--label COL)")
    table = spool_stream(table, row_by_row=row_by_row)
    if row_by_row:
        _check_thousands(table, reading)
    source = _open_any(table, y, choice, reading, withheld or row_by_row)
    reading.check_opened(source)
    return source


def _check_thousands(table: Any, reading: Reader) -> None:
    """Refuse points between thousands where columns have types, since one value can make texts of numbers.

    0.125 would then be the text "0.125", which reads as 125; no other mark gives a text two readings (C7 of
    docs/proofs/contributions.md).
    """
    csv_only = is_paths(table) and all(file_kind(path) == "csv" for path in expand_paths(table))
    if reading.schema is not None and reading.marks.thousands == "." and not csv_only:
        raise ArgumentError(
            "a private mechanism reads points between thousands from CSV files alone: pass their paths, or leave "
            "thousands out of the schema and write the numbers without such points"
        )


def _open_any(table: Any, y: Any, choice: ColumnChoice, reading: Reader, withheld: bool) -> Table:
    if cluster_of(table):
        if y is not None:
            raise ArgumentError("labels of a frame on a cluster are one of its columns; name it in label")
        return open_cluster_frame(table, choice, reading, withheld=withheld)
    if y is not None and (rows := spooled_table(table)) is not None:
        table = rows
    if is_paths(table):
        if y is not None:
            raise ArgumentError("labels of a file are one of its columns; name it in label")
        return open_files(expand_paths(table), choice, reading)
    taken_there = is_on_device(table) and reading.schema is None
    if taken_there and (labels_there := device_labels(y, reading)) is not None:
        return open_device_array(table, labels_there, choice, reading)
    labels = None if y is None else reading.labels(on_host(y))
    if taken_there:
        return open_device_array(table, labels, choice, reading)
    table = on_host(table)  # to be read as raw columns
    if reading.is_frame(table):
        return open_frame(table, labels, choice, reading)
    if reading.schema is not None:
        return open_frame(array_columns(table, choice, reading), labels, choice, reading)
    return open_array(table, labels, choice, reading)


def table_types(table: Any) -> dict[str, str | None]:
    """The columns of a table with their storage types: "number", "binary" for truth values, or "text".

    The cells of a CSV file have no type, so it is None.
    """
    if (answer := answer_schema(table)) is not None:
        schema = answer
    elif cluster_of(table):
        schema = cluster_schema(table)
    elif is_paths(table):
        path = expand_paths(table)[0]
        if file_kind(path) == "csv":
            return dict.fromkeys([*file_schema(path, ROW_BY_ROW).names, *folder_columns(path)])
        schema = FolderColumns.of([path], typed=True).added(file_schema(path, STRICT), path)
    elif STRICT.is_frame(table):
        with readable("the table"):
            schema = pa.table(table).schema
    else:
        array, names = array_and_names(table)
        return dict.fromkeys(column_labels(names, np.shape(array)[1]), "number")
    return {name: storage(schema.field(name).type) for name in column_names(schema)}
