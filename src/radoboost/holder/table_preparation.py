"""Raw tables on their way to a plain release: schemas proposed where one is needed, and what becomes of gaps.

A clean table of numbers needs nothing of this: the first pass over it, the mechanism's survey, is also what finds that
it is clean. Where that meets anything else, a schema is proposed from the table. Only then does a mechanism begin.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, DoesNotFit, NeedsSchema, TableError
from radoboost.holder.contribution_bounding import sampled_partitions
from radoboost.holder.curator import Curator
from radoboost.holder.engines import Engine
from radoboost.holder.request import CraftRequest, name_of_series
from radoboost.holder.schema_inference import infer_schema, settle_schema
from radoboost.holder.table_check import error_of_all_misfits
from radoboost.progress import Progress, silent
from radoboost.tables import Table, open_table
from radoboost.tables.cells import gap_label_cells
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import Ignored, Kind, Number
from radoboost.tables.csv_dialect import PLAIN, csv_separator
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host, is_gpu_array
from radoboost.tables.labels import CRAFT_ADVICE, labels_array
from radoboost.tables.labels import rows_without_label as without_label
from radoboost.tables.object_columns import missing_cells, named_object_columns, pandas_column_is_arrow
from radoboost.tables.paths import expand_paths, file_kind, is_paths
from radoboost.tables.raw_table import LOOKING, open_raw_table
from radoboost.tables.schema import Schema
from radoboost.tables.sparse import matrix_and_column_names
from radoboost.tables.weights import attach_weights, repeat_by_weight

# ---- Columns that a mechanism protects from looks: of these, a schema holds what was declared, and nothing from the
# table.
#
# A mechanism that is not private may take a schema from the table, and still protect a column. It then has
# `withheld`: by name, what the schema says of such a column where nobody declared it (F3 of docs/proofs/feature-
# band.md).

Withheld = Mapping[str, Kind]


def without_inferred_entries(schema: Schema, withheld: Withheld) -> Schema:
    """The schema with nothing from the table in entries of columns that are withheld."""
    columns = {name: withheld.get(name, kind) if kind.inferred else kind for name, kind in schema.columns.items()}
    return replace(schema, columns=columns)


def check_protected_columns(schema: Schema, declared: Mapping[str, Kind], withheld: Withheld) -> tuple[str, ...]:
    """The raw columns that are withheld, refused where their entries are neither `declared` nor without a look."""
    owners = {column.column: column.name for column in schema.encoded() if column.name in withheld}
    for column, name in owners.items():
        kind = schema.columns[column]
        if kind != withheld[name] and kind != declared.get(column):
            raise TableError(
                f"column {column!r} is to be protected, so a {kind.kind} cannot be made of it by looking; write it as "
                "numbers, or declare its values in a schema"
            )
        others = [part.name for part in kind_without_gaps(kind).encoded(column) if part.name != name]
        if others:
            raise TableError(
                f"{name!r} is to be protected, and {list_names(others)} would tell of it: write the column as "
                "numbers, 0 and 1, or declare one value of it in a schema"
            )
    return tuple(owners)


def refuse_gaps_in_protected_columns(found: Mapping[str, int], n_rows: int) -> None:
    """Refuse gaps in columns that are withheld: where they are would be told, and what to fill in is not known."""
    if found:
        names = ", ".join(f"{name!r} {count:,}" for name, count in found.items())
        raise TableError(
            f"values are missing in {names} of {n_rows:,} rows, and the column is to be protected, so nothing is "
            'filled in; fill them in, or leave such rows out with Schema(gaps=\'drop\') ("gaps": "drop" in its file)'
        )


def kind_without_gaps(kind: Kind) -> Kind:
    """A kind for a table in which no row has a gap."""
    return kind if isinstance(kind, Ignored) else replace(kind, gaps=False)


def check_options_for_gaps(asked: CraftRequest) -> None:
    """Refuse what a private mechanism cannot do about missing values."""
    if asked.schema.gaps != "fill":
        raise ArgumentError(
            f"a private mechanism always fills gaps, for a row must not decide what becomes of another; leave "
            f"gaps={asked.schema.gaps} out (--set, or the schema), and declare a fill for each column"
        )


@contextmanager
def collect_schema_errors(table: Any, asked: CraftRequest) -> Iterator[None]:
    """Where a table does not fit a declared schema, one error names all that is wrong."""
    try:
        yield
    except DoesNotFit as error:
        schema = asked.reading
        if schema is None:
            raise
        table = copy_gpu_array_to_host(table)
        raise error_of_all_misfits(error, table, schema, asked.label, asked.schema.weights) from None


def survey_table_first(run_on: Callable[[Table], Curator], asked: CraftRequest, source: Table) -> Curator:
    """The curator of a table at which a mechanism may look, after the first pass."""
    run = run_on(source if asked.weights is None else repeat_by_weight(source))
    mechanism: Any = asked.mechanism
    run.survey = mechanism.survey(asked, run)
    return run


def prepare_plain_table(
    survey: Callable[[CraftRequest, Table], Curator],
    table: Any,
    y: Any,
    asked: CraftRequest,
    *,
    engine: Engine,
    withheld: Withheld,
    bar: Progress,
) -> tuple[CraftRequest, Curator, list[str]]:
    """Open and `survey` a table at which a mechanism may look: what is asked by now, its curator, and lines on it.

    Without a schema, and with no marks declared, a clean table of numbers is read as it is. Everything else goes by a
    schema: the declared one, settled by the table where it leaves something open, or one that is proposed. Of columns
    that are `withheld` it has what was declared, and nothing from the table. Where `unlabelled` is "drop", rows without
    a label are left out, whatever is done about other missing values. `bar` is told how far looks at the table are.
    """
    bar("opening the table", 0, None)
    schema, hidden, missing, drops = asked.reading, withheld, asked.schema.gaps, asked.schema.unlabelled == "drop"
    separator, decimal = asked.schema.separator, asked.schema.decimal
    _refuse_preparing_cluster_rows(table, asked, missing, drops)
    if drops and np.ma.isMaskedArray(y):
        y = np.array(y.tolist(), dtype=object)  # None where it is masked
    lines: list[str] = []
    known = {} if schema is None else {name: kind for name, kind in schema.columns.items() if not kind.inferred}
    if schema is None and separator is None and decimal == ".":
        try:
            source, lines = _drop_unlabelled_rows(open_prepared_table(table, y, asked), asked, drops, bar)
            return asked, survey(asked, source), [*_separators_text(table), *lines]
        except NeedsSchema as error:
            if cluster_kind_of_frame(table):
                raise NeedsSchema(
                    f"{error}; or give schema=, as propose_schema makes one from a sample of the rows, such as the "
                    "first few: a frame on a cluster is not looked through for it"
                ) from None
            if hasattr(table, "toarray") or isinstance(asked.limits, tuple):
                raise  # by position, or too large to be read by column
    table, y = copy_gpu_array_to_host(table), copy_gpu_array_to_host(y)  # raw columns are read here
    if schema is None:
        proposal = infer_schema(
            table,
            asked.label,
            features=asked.features,
            drop=asked.drop,
            classes=asked.classes,
            separator=separator,
            decimal=None if decimal == "." else decimal,
            skip_unlabelled=drops or missing == "drop",
            advice=CRAFT_ADVICE,
            engine=engine,
            bar=bar,
        )
        proposal.refuse_nearly_numbers()
        schema = without_inferred_entries(proposal.schema, hidden)
        lines = replace(proposal, unlabelled=0).as_text(filled=missing == "fill")  # counted as they are left out
        if not schema.used:
            raise TableError(f"nothing is left to learn from: {'; '.join(lines)}")
    else:
        schema = settle_schema(without_inferred_entries(schema, hidden), table, engine, tuple(hidden), bar)
    protected = check_protected_columns(schema, known, hidden)
    if missing == "fill" and protected:
        found = find_gaps(table, None, schema.only(protected, ()), None, bar=bar)
        refuse_gaps_in_protected_columns(found.by_column, found.n_rows)
    complete = schema.columns if missing != "fill" else protected
    kinds = {name: kind_without_gaps(kind) if name in complete else kind for name, kind in schema.columns.items()}
    schema = replace(schema, columns=kinds)
    if not asked.schema.raw:
        schema = _schema_with_declared_limits(schema, asked.limits)
    asked = asked.with_schema(schema)
    source = open_prepared_table(table, y, asked)
    if missing != "fill":
        found = find_gaps(table, y, schema, asked.label, labelled_only=drops, bar=bar)
        if missing == "error":
            found.refuse(asked.label_name if drops else None)
        source, more = found.without(source, weighted=asked.weights is not None), found.as_text()
    else:
        source, more = _drop_unlabelled_rows(source, asked, drops, bar)
    return asked, survey(asked, source), [*lines, *more]


def _refuse_preparing_cluster_rows(table: Any, asked: CraftRequest, missing: str, drops: bool) -> None:
    """Refuse what takes a look at rows on this machine, if they are on a cluster."""
    if not cluster_kind_of_frame(table):
        return
    if missing != "fill" or drops:
        option = "unlabelled='drop'" if drops else f"gaps={missing!r}"
        raise ArgumentError(
            f"{option} looks at rows on this machine, and those of a frame on a cluster stay there; drop such rows in "
            "the frame itself (dropna), and leave the option out"
        )
    if asked.row_weights is not None:
        raise ArgumentError("weights of a frame on a cluster are one of its columns; name it in weights")


def _separators_text(table: Any) -> list[str]:
    """What stands between the cells of CSV files, in words, unless that is a comma in all of them."""
    paths = [path for path in expand_paths(table) if file_kind(path) == "csv"] if is_paths(table) else []
    marks = dict.fromkeys(csv_separator(path, PLAIN) for path in paths)
    return [f"written with: separator {' or '.join(map(repr, marks))}"] if set(marks) - {","} else []


def open_prepared_table(table: Any, y: Any, asked: CraftRequest) -> Table:
    """The table as it was asked for, read strictly."""
    weights = asked.schema.weights if asked.row_weights is None else None
    source = open_table(
        table, y, label=asked.label, features=asked.features, drop=asked.drop, person=asked.person,
        schema=asked.reading, weights=weights, on_cluster=True,
    )  # fmt: skip
    return source if asked.row_weights is None else attach_weights(source, asked.row_weights)


def _schema_with_declared_limits(schema: Schema, limits: Any) -> Schema:
    known = {name: pair for name, pair in dict(limits).items() if isinstance(schema.columns.get(name), Number)}
    unknown = [name for name in limits if name not in known]
    if unknown:
        raise ArgumentError(
            f"bounds name {list_names(unknown)}, not among the columns of numbers; correct or drop such"
        )
    columns = {}
    for name, kind in schema.columns.items():
        low, high = known.get(name, (None, None))
        columns[name] = replace(kind, low=low, high=high) if name in known and isinstance(kind, Number) else kind
    return replace(schema, columns=columns)


# ---- rows with gaps


@dataclass
class IncompleteRows:
    """Which rows of a table have a gap in a column that is used, or in the label."""

    n_rows: int = 0
    by_column: dict[str, int] = field(default_factory=dict)
    complete: list[NDArray[np.bool_]] = field(default_factory=list)

    def refuse(self, label: str | None = None) -> None:
        """Refuse gaps but those of the column `label`, and name all columns that have some."""
        counts = {name: count for name, count in self.by_column.items() if name != label}
        if counts:
            raise TableError(
                f"values are missing in {_gap_counts_text(counts)} of {self.n_rows:,} rows; fill them in, leave such "
                "rows out with Schema(gaps='drop') (--set gaps=drop), or let them be filled"
            )

    def without(self, source: Table, *, weighted: bool = False) -> Table:
        """The rows that have none, counted anew."""
        if not self.by_column:
            return source
        complete = np.concatenate(self.complete)
        sizes = [part.count() for part in source.parts()]
        if sum(sizes) != len(complete):
            raise TableError(f"{source.name} had {len(complete):,} rows at first; do not change it while it is read")
        bits = np.append(np.packbits(complete, bitorder="little"), np.uint8(0))
        if not complete.any():
            raise TableError(
                f"every row of {source.name} has a gap ({_gap_counts_text(self.by_column)}); leave columns out"
            )
        return replace(source, pieces=sampled_partitions(source.parts(), sizes, bits, weighted=weighted), guess=None)

    def as_text(self) -> list[str]:
        """How many rows are left out, and on account of which columns."""
        if not self.by_column:
            return []
        left = self.n_rows - sum(int(rows.sum()) for rows in self.complete)
        return [f"rows left out for a gap: {left:,} of {self.n_rows:,} ({_gap_counts_text(self.by_column)})"]


def _gap_counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} {count:,}" for name, count in counts.items())


def _drop_unlabelled_rows(source: Table, asked: CraftRequest, drops: bool, bar: Progress) -> tuple[Table, list[str]]:
    """The source without the rows that have no label, if these are to be left out, and how many there are in words."""
    if not drops:
        return source, []
    found = IncompleteRows()
    for batch in source.batches():
        absent = without_label(batch.labels, asked.classes)
        found.n_rows += batch.n_rows
        found.complete.append(~absent)
        bar(LOOKING, found.n_rows, source.expected_rows(found.n_rows))
        if absent.any():
            found.by_column[asked.label_name] = found.by_column.get(asked.label_name, 0) + int(absent.sum())
    left = found.by_column.get(asked.label_name, 0)
    lines = [f"rows left out without a label: {left:,} of {found.n_rows:,}"] if left else []
    return found.without(source, weighted=asked.weights is not None), lines


def find_gaps(
    table: Any,
    y: Any,
    schema: Schema,
    label: str | None,
    *,
    labelled_only: bool = False,
    bar: Progress = silent,
) -> IncompleteRows:
    """Look for gaps in the columns that a schema uses, and in the label, in one pass over the raw cells.

    With `labelled_only`, gaps in rows without a label are not counted.
    """
    names = [*schema.used, *([] if label is None else [label])]
    labels = None if y is None else gap_label_cells(pa.array(labels_array(y)))
    found = IncompleteRows()
    raw = open_raw_table(table, names, schema.separator)
    typed = raw.separator is None
    for batch in raw.batches(bar):
        size = batch.columns.num_rows
        complete = np.ones(size, dtype=bool)
        places = slice(found.n_rows, found.n_rows + size)
        cells = {name: batch.columns.column(name) for name in schema.used}
        absent = {
            name: missing_cells(schema.columns[name], column, schema.marks, typed=typed)
            for name, column in cells.items()
        }
        if label is not None:
            absent[label] = gap_label_cells(batch.columns.column(label))
        if labels is not None:
            absent["y"] = labels[places]
        unlabelled = absent.get("y" if label is None else label)
        for name, rows in absent.items():
            if labelled_only and unlabelled is not None and rows is not unlabelled:
                rows = rows & ~unlabelled
            complete &= ~rows
            if rows.any():
                found.by_column[name] = found.by_column.get(name, 0) + int(rows.sum())
        found.n_rows += size
        found.complete.append(complete)
    return found


# ---- Labels given apart from the table, where labels alone are protected.
#
# Features are not protected there: a label among them would come out exactly (M7, M21 of docs/proofs/moments.md). All
# of it goes by names and by where memory lies: no value decides whether a release comes out.


_APART = "with unit='label' features are not protected, and a label among them would be in the release exactly: "
_WHOSE = (
    "column {name!r} says whose row it is, and is the label too; where labels alone are protected, which rows "
    "contribute must not follow from labels: give a column of ids as person (--person)"
)


def refuse_label_as_feature(table: Any, y: Any, asked: CraftRequest, source: Table) -> None:
    """Refuse labels that are a feature, or say whose row it is, by their name or their memory.

    Those without a name are refused beside named columns.
    """
    if y is None:
        return
    features = [*source.features, *(() if source.schema is None else source.schema.used)]
    name_of_y = asked.y_name or name_of_series(y)
    names = {name_of_y, asked.schema.label}
    for name in dict.fromkeys(features):
        if name in names:
            raise ArgumentError(
                f"column {name!r} is a feature and by its name the label too; {_APART}leave it out (drop={name!r}, or "
                "take it out of the bounds or the schema), or rename it"
            )
    if asked.person in names - {None}:
        raise ArgumentError(_WHOSE.format(name=asked.person))
    if name_of_y is None and not _has_nameless_columns(table):
        raise ArgumentError(
            f"y has no name, and the table's columns have names; {_APART}say which label y is: label='NAME', or a "
            "series that has a name; in a room agree on the label's column"
        )
    for name, column in _columns_in_memory(table):
        if name in features and _label_shares_memory(y, column):
            raise ArgumentError(
                f"column {name!r} is a feature, and y is the same column in memory; {_APART}leave it out of the table "
                "or the bounds"
            )
        if name == asked.person and _label_shares_memory(y, column):
            raise ArgumentError(_WHOSE.format(name=name))


def _has_nameless_columns(table: Any) -> bool:
    """Whether columns go by their places, as those of an array do."""
    array, names = matrix_and_column_names(table)
    return names is None and (isinstance(array, np.ndarray) or hasattr(array, "toarray") or is_gpu_array(array))


def _columns_in_memory(table: Any) -> list[tuple[str, Any]]:
    """The columns of a table in memory; none where it lies elsewhere."""
    if isinstance(table, np.ndarray) or is_gpu_array(table):
        return [(f"x{k}", table[:, k]) for k in range(table.shape[1])] if len(table.shape) == 2 else []
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(zip(table.column_names, table.columns, strict=True))
    return named_object_columns(table) or []


def _label_shares_memory(y: Any, column: Any) -> bool:
    return any(np.shares_memory(one, other) for one in _memory_of_column(y) for other in _memory_of_column(column))


def _memory_of_column(column: Any) -> list[NDArray[Any]]:
    """Where the cells of a column lie, without a copy; nothing where that is not known."""
    if isinstance(column, np.ndarray):
        return [column]
    if isinstance(column, pa.Array | pa.ChunkedArray):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [np.frombuffer(part, np.uint8) for chunk in chunks for part in chunk.buffers() if part and part.size]
    if is_gpu_array(column):
        return _device_memory_of_array(column)
    if not hasattr(column, "iloc"):
        return _memory_of_column(pa.chunked_array(column)) if hasattr(column, "__arrow_c_stream__") else []
    if isinstance(column.dtype, np.dtype):
        return [column.to_numpy()]
    parts = [getattr(column.array, name, None) for name in ("_data", "codes")]  # masked values, categories
    if found := [part for part in parts if isinstance(part, np.ndarray)]:
        return found
    return _memory_of_column(column.array.__arrow_array__()) if pandas_column_is_arrow(column) else []


def _device_memory_of_array(array: Any) -> list[NDArray[Any]]:
    """An array on a device as one of NumPy at the same addresses, of which nothing is ever read."""
    try:
        interface = dict(array.__cuda_array_interface__)
    except (AttributeError, RuntimeError, TypeError, KeyError):  # of a type that NumPy does not have
        return []
    fields = {name: interface[name] for name in ("shape", "strides", "typestr") if interface.get(name) is not None}
    place = SimpleNamespace(__array_interface__={**fields, "data": (interface["data"][0], True), "version": 3})
    return [np.asarray(place)]
