"""A table in any form, as batches of float columns and labels.

Arrays are sliced; everything else comes as Arrow batches: data frames through the Arrow stream interface that pandas,
polars and pyarrow share, files through pyarrow's readers, one bounded batch at a time. A table can be read
more than once, always in the same order. Labels stay as they are found; `LabelRule` turns them into -1 and +1.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.files import (
    LARGEST_INTEGER,
    check_integers,
    coalesced,
    expand_paths,
    file_kind,
    open_file,
    read_batches,
    read_schema,
    readable,
    sliced,
    stamp,
)
from radoboost.tables.labels import labels_array
from radoboost.tables.row_by_row import csv_batches, csv_names, each_label, numbers_or_nan, take_columns

SLICE_VALUES, SLICE_ROWS = 1 << 20, 8192  # at most, in a batch of an array, where a batch costs nothing
BATCH_VALUES, BATCH_ROWS = 1 << 21, 65536  # at most, in a batch read through Arrow
_FILL_ROWS = 1024


class Batch(NamedTuple):
    """Some rows: how many, their labels as found (None where there is no label), and their values when asked for.

    `values()` gives an array (rows, features), C-contiguous in float32 or float64. It is a call so that several
    threads can convert batches while one reads the next.
    """

    n_rows: int
    labels: pa.Array | None
    values: Callable[[], NDArray[Any]]


class Table(ABC):
    """Features by name, and a label or none, read in batches as often as needed.

    A lenient table can be read whatever its values are: what is missing or no number becomes NaN, and it may have no
    rows. For private mechanisms, where a refusal that depends on a value would tell of it.
    """

    lenient = False

    def __init__(self, name: str, features: Sequence[str], label: str | None, n_rows: int | None) -> None:
        self.name, self.features, self.label, self.n_rows = name, tuple(features), label, n_rows
        if not features:
            raise TableError(f"{name} has no feature columns besides the label; it needs at least one")

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All rows, in order."""

    def check_rows(self, n_rows: int | None) -> None:
        """Refuse a table without rows."""
        if n_rows == 0:
            raise TableError(f"{self.name} has no rows; give it at least one")

    def refuse_not_finite(self, first_row: int, values: NDArray[Any]) -> None:
        """Say which value of a batch is not finite."""
        row, k = np.argwhere(~np.isfinite(values))[0].tolist()
        what = "a missing value (NaN)" if np.isnan(values[row, k]) else "an infinite value"
        raise TableError(
            f"column {self.features[k]!r} has {what} (row {first_row + row:,}); fill in or drop such rows or columns"
        )

    def expected_rows(self, seen: int) -> int | None:
        """How many rows there will be, as far as one can tell after `seen` of them."""
        return self.n_rows

    def _batch_rows(self, most_values: int, most_rows: int) -> int:
        """Rows of a batch, in whole tiles."""
        return max(64, min(most_rows, most_values // len(self.features)) // 64 * 64)


class _ArrayTable(Table):
    """A NumPy array or a SciPy sparse matrix."""

    def __init__(
        self, x: Any, labels: pa.Array | None, features: Sequence[str], chosen: list[int], label: str | None
    ) -> None:
        super().__init__("the array", features, label, x.shape[0])
        self._labels = labels
        self._x = x if chosen == list(range(x.shape[1])) else x[:, chosen]

    def batches(self) -> Iterator[Batch]:
        rows = self._batch_rows(SLICE_VALUES, SLICE_ROWS)
        for start in range(0, self._x.shape[0], rows):
            stop = min(start + rows, self._x.shape[0])
            labels = None if self._labels is None else self._labels[start:stop]
            yield Batch(stop - start, labels, partial(self._values, start, stop))

    def _values(self, start: int, stop: int) -> NDArray[Any]:
        part = self._x[start:stop]
        part = part.toarray() if hasattr(part, "toarray") else part
        for k in range(part.shape[1]) if part.dtype.kind in "iu" and not self.lenient else ():
            check_integers(part[:, k], self.features[k], start)
        kind = part.dtype if part.dtype in (np.float32, np.float64) else np.float64
        return np.ascontiguousarray(part, dtype=kind)


class _ArrowTable(Table):
    """Record batches from anywhere."""

    def _cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of a good size; a lenient table's are not put together, which could fail on account of a value."""
        return sliced(batches, rows) if self.lenient else coalesced(batches, rows)

    def _blocks(self, batches: Iterable[pa.RecordBatch], labels: pa.Array | None = None) -> Iterator[Batch]:
        row = 0
        for batch in batches:
            found = None if labels is None else labels[row : row + batch.num_rows]
            if labels is None and self.label is not None:
                found = batch.column(self.label)
            yield Batch(batch.num_rows, found, partial(self._values, batch, row))
            row += batch.num_rows

    def _values(self, batch: pa.RecordBatch, first_row: int) -> NDArray[Any]:
        columns = [batch.column(name) for name in self.features]
        if self.lenient:
            numbers = [numbers_or_nan(column) for column in columns]
        else:
            numbers = [_numbers(column, name, first_row) for column, name in zip(columns, self.features, strict=True)]
        narrow = all(column.type in (pa.float32(), pa.float16()) for column in columns)
        block = np.empty((batch.num_rows, len(columns)), np.float32 if narrow else np.float64)
        # A thousand rows at a time, so that what one column wrote is in the cache when the next is written beside it.
        for start in range(0, batch.num_rows, _FILL_ROWS):
            for k, column in enumerate(numbers):
                block[start : start + _FILL_ROWS, k] = column[start : start + _FILL_ROWS]
        return block


class _MemoryTable(_ArrowTable):
    """A data frame."""

    def __init__(self, table: pa.Table, features: Sequence[str], label: str | None, labels: pa.Array | None) -> None:
        super().__init__("the table", features, label, table.num_rows)
        self._table, self._labels = table, labels

    def batches(self) -> Iterator[Batch]:
        rows = self._batch_rows(BATCH_VALUES, BATCH_ROWS)
        yield from self._blocks(self._cut(self._table.to_batches(), rows), self._labels)


class _FileTable(_ArrowTable):
    """Files of one kind or several, as if they were one."""

    def __init__(self, paths: Sequence[Path], features: Sequence[str], label: str | None, n_rows: int | None) -> None:
        name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        super().__init__(name, features, label, n_rows)
        self._paths = paths
        self._stamps = [stamp(path) for path in paths]
        self._bytes = sum(path.stat().st_size for path in paths)
        self._bytes_before, self._file = 0, None

    def batches(self) -> Iterator[Batch]:
        rows = self._batch_rows(BATCH_VALUES, BATCH_ROWS)
        yield from self._blocks(self._cut(self._record_batches(rows), rows))

    def _record_batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        wanted = [*self.features, *([] if self.label is None else [self.label])]
        self._bytes_before = 0
        for path in self._paths:
            with readable(path), open_file(path) as self._file:
                if self.lenient and file_kind(path) == "csv":
                    with open_file(path) as first:
                        names = csv_names(path, first)
                    yield from csv_batches(path, self._file, names, wanted)
                else:
                    yield from read_batches(path, self._file, wanted, self.label, rows)
            self._bytes_before += path.stat().st_size
        self._file = None
        # What was checked in the first pass must be what is summed in the second.
        for path, before in zip(self._paths, self._stamps, strict=True):
            if stamp(path) != before:
                raise TableError(f"{path} changed while it was read; try again once it is at rest")

    def expected_rows(self, seen: int) -> int | None:
        if self.n_rows is not None:
            return self.n_rows
        read = self._bytes_before + (self._file.tell() if self._file else 0)
        return max(seen, round(seen * self._bytes / read)) if read else None


def open_table(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    labelled: bool = True,
    lenient: bool = False,
) -> Table:
    """Whatever the caller has, ready to be read; where `labelled` is False it may do without a label.

    >>> table = open_table(np.eye(2), [0, 1])
    >>> table.features
    ('x0', 'x1')
    """
    opened = _open(
        table,
        y,
        label,
        None if features is None else _names("features", features),
        _names("drop", drop),
        labelled,
        lenient,
    )
    opened.lenient = lenient
    if not lenient:
        opened.check_rows(opened.n_rows)
    return opened


def table_types(table: Any, *, inferred: bool = False) -> dict[str, str | None]:
    """The columns of a table with their storage types: "number", "binary" for truth values, or "text".

    The cells of a CSV file have no type, so it is None, unless what they look like counts (`inferred`).

    >>> table_types(pa.table({"age": [1.0], "smokes": [True], "name": ["x"]}))
    {'age': 'number', 'smokes': 'binary', 'name': 'text'}
    """
    if _is_paths(table):
        path = expand_paths(table)[0]
        with readable(path), open_file(path) as file:
            if file_kind(path) == "csv" and not inferred:
                return dict.fromkeys(csv_names(path, file))
            schema, _ = read_schema(path, file)
    elif hasattr(table, "__arrow_c_stream__"):
        with readable("the table"):
            schema = pa.table(table).schema
    else:
        return {f"x{k}": "number" for k in range(np.shape(table)[1])}
    kinds = {name: schema.field(name).type for name in _feature_fields(schema)}
    return {name: _storage(kind) for name, kind in kinds.items()}


def _storage(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "binary"
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if numeric or pa.types.is_null(kind) else "text"


def _labels(y: Any, lenient: bool) -> pa.Array:
    """Labels in any container; leniently, one by one unless their type says that all are alike."""
    alike = isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and not isinstance(y, np.ma.MaskedArray)
    if lenient and alike:
        y = y.astype(y.dtype.newbyteorder("="))
    return each_label(y) if lenient and not alike else labels_array(y)


def _is_paths(table: Any) -> bool:
    several = isinstance(table, list | tuple) and len(table) > 0 and all(isinstance(p, str | Path) for p in table)
    return isinstance(table, str | Path) or several


def _open(
    table: Any,
    y: Any,
    label: str | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
    labelled: bool,
    lenient: bool,
) -> Table:
    if label is not None and not isinstance(label, str):
        raise ArgumentError(f"label must be the name of a column; it is {label!r}")
    if (y is None) == (label is None) and (labelled or y is not None):
        raise ArgumentError("give the labels once: as y, or as the name of their column in label (--label COL)")
    if _is_paths(table):
        if y is not None:
            raise ArgumentError("labels of a file are one of its columns; name it in label")
        return _open_files(expand_paths(table), label, features, drop, lenient)
    labels = None if y is None else _labels(y, lenient)
    if lenient and hasattr(table, "__arrow_c_stream__"):
        with readable("the table"):
            table, found = take_columns(table, features, label)
        if found is not None:
            labels, label = found, None
    if hasattr(table, "__arrow_c_stream__"):
        with readable("the table"):
            arrow = pa.table(table)
            fields = _feature_fields(arrow.schema)
        chosen = _choose(fields, "the table", label, features, drop)
        for name in chosen if lenient else ():
            _check_type(arrow.schema.field(name).type, name)
        _check_length(labels, arrow.num_rows)
        return _MemoryTable(arrow, chosen, label if labels is None else "y", labels)
    if lenient and not isinstance(table, np.ndarray) and not hasattr(table, "toarray"):
        raise TableError(
            f"a private mechanism takes NumPy arrays, sparse matrices, data frames and files; this is a "
            f"{type(table).__name__}"
        )
    if lenient and isinstance(table, np.ma.MaskedArray) and table.dtype.kind in "fiub":
        table = np.ma.filled(table.astype(np.float64), np.nan)
    with readable("the array"):
        x: Any = table if hasattr(table, "toarray") else np.asarray(table)
    if x.ndim != 2:
        raise TableError(f"the array must have two dimensions, rows and features; its shape is {x.shape}")
    if hasattr(x, "toarray"):
        x = x.tocsr()
    if x.dtype.kind not in "fiub" or x.dtype.itemsize > 8:
        raise TableError(f"the array must hold real numbers; its dtype is {x.dtype}; convert it first")
    places = {f"x{k}": k for k in range(x.shape[1])}
    chosen = _choose(list(places), "the array", label, features, drop)
    if label is not None:
        column = x[:, [places[label]]]
        labels = _labels(column.toarray().ravel() if hasattr(column, "toarray") else column.ravel(), lenient)
    _check_length(labels, x.shape[0])
    if np.ma.is_masked(table):
        row, k = np.argwhere(np.ma.getmaskarray(table))[0].tolist()
        raise TableError(f"column 'x{k}' has a missing value (row {row:,}); fill in or drop such rows or columns")
    return _ArrayTable(x, labels, chosen, [places[name] for name in chosen], label if labels is None else label or "y")


# ---- files


def _names(argument: str, value: Any) -> list[str]:
    """Column names, given as one or several."""
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"{argument} must be names of columns; {name!r} is not one")
    return names


def _open_files(
    paths: list[Path], label: str | None, features: Sequence[str] | None, drop: Sequence[str], lenient: bool
) -> Table:
    chosen: list[str] | None = None
    total: int | None = 0
    for path in paths:
        with readable(path), open_file(path) as file:
            if lenient and file_kind(path) == "csv":
                schema, n_rows = pa.schema([(name, pa.null()) for name in csv_names(path, file)]), None
            else:
                schema, n_rows = read_schema(path, file)
            fields = _feature_fields(schema)
        found = _choose(fields, str(path), label, features, drop)
        for name in found:
            _check_type(schema.field(name).type, name)
        if chosen is not None and sorted(chosen) != sorted(found):
            odd = sorted(set(chosen) ^ set(found))[0]
            raise TableError(f"{paths[0]} and {path} differ in column {odd!r}; all files must have the same")
        chosen = chosen or found
        total = None if total is None or n_rows is None else total + n_rows
    return _FileTable(paths, chosen or [], label, total)


# ---- columns


def _feature_fields(schema: pa.Schema) -> list[str]:
    """Column names, without the index that pandas writes beside the columns."""
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]


def _choose(
    names: list[str],
    where: str,
    label: str | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> list[str]:
    """The features among a table's columns."""
    asked = set(features or ()) | {label}
    for listed in (names if features is None else [name for name in names if name in asked], list(features or ())):
        twice = [name for name, count in Counter(listed).items() if count > 1]
        if twice:
            raise TableError(f"{where}: several columns are called {twice[0]!r}; features need different names")
    known = set(names)
    if label is not None and label not in known:
        raise TableError(f"{where} has no column {label!r} for the label; its columns are {_listed(names)}")
    for name in drop:
        if name not in known:
            raise TableError(f"{where} has no column {name!r}; its columns are {_listed(names)}")
    missing = [name for name in features or () if name not in known]
    if missing:
        others = [name for name in names if name not in asked]
        besides = f"it has {_listed(others)} instead" if others else "all its other columns are asked for as well"
        raise TableError(f"{where} has no column {_listed(missing)}; {besides}")
    if features is not None:
        names = list(features)
        if label in names:
            raise ArgumentError(f"{label!r} is the label; it cannot be a feature too")
    left_out = {label, *drop}
    return [name for name in names if name not in left_out]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _check_type(kind: pa.DataType, name: str) -> None:
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        what = "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)
        raise TableError(f"column {name!r} holds {what}, not numbers; drop it, or encode it as numbers first")


def _numbers(column: pa.Array, name: str, first_row: int) -> NDArray[Any]:
    """A column as numbers, refusing what is not one."""
    _check_type(column.type, name)
    if column.null_count:
        row = first_row + pc.index(column.is_null(), True).as_py()
        raise TableError(f"column {name!r} has a missing value (row {row:,}); fill in or drop such rows or columns")
    if pa.types.is_decimal(column.type):
        # By way of text: Arrow's own conversion is not rounded to nearest.
        column = column.cast(pa.string()).cast(pa.float64())
        check_integers(column.to_numpy(), name, first_row, LARGEST_INTEGER - 1)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        check_integers(values, name, first_row)
    return values


def _check_length(labels: pa.Array | None, n_rows: int) -> None:
    if labels is not None and len(labels) != n_rows:
        raise TableError(f"X has {n_rows:,} rows and y has {len(labels):,}; they must be equal")
