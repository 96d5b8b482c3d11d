"""Raw tables on their way to a plain release: schemas proposed where one is needed, and what becomes of gaps.

A clean table of numbers needs nothing of this. Where strict reading meets anything else, a schema is proposed from the
table, and everything starts again with that.
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
from radoboost.holder.engines import Engine
from radoboost.holder.mechanisms import ReleaseDraft
from radoboost.holder.request import CraftRequest
from radoboost.holder.schema_file import Declared
from radoboost.holder.schema_inference import infer_schema, settle_schema
from radoboost.holder.table_check import error_of_all_misfits
from radoboost.progress import Progress, silent
from radoboost.tables import Table, open_table
from radoboost.tables.cells import gap_cells, gap_label_cells
from radoboost.tables.column_selection import list_names
from radoboost.tables.column_types import Category, Ignored, Kind, Number
from radoboost.tables.csv_dialect import PLAIN, csv_separator
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.gpu_arrays import copy_gpu_array_to_host, is_gpu_array
from radoboost.tables.labels import CRAFT_ADVICE, class_index_of_labels, labels_array
from radoboost.tables.labels import rows_without_label as without_label
from radoboost.tables.object_columns import named_object_columns, pandas_column_is_arrow
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
            "filled in; fill them in, or leave such rows out with missing='drop' (--missing drop)"
        )


def kind_without_gaps(kind: Kind) -> Kind:
    """A kind for a table in which no row has a gap."""
    return kind if isinstance(kind, Ignored) else replace(kind, gaps=False)


MISSING = ("fill", "error", "drop")
UNLABELLED = ("error", "drop")


def check_options_for_gaps(missing: str, unlabelled: str, private: bool) -> None:
    """Refuse what cannot be done about missing values and labels."""
    if unlabelled not in UNLABELLED:
        raise ArgumentError(f"unlabelled must be one of {', '.join(UNLABELLED)}; it is {unlabelled!r}")
    if missing not in MISSING:
        raise ArgumentError(f"missing must be one of {', '.join(MISSING)}; it is {missing!r}")
    if private and missing != "fill":
        raise ArgumentError(
            f"a private mechanism always fills gaps, for a row must not decide what becomes of another; leave "
            f"missing={missing!r} out (--missing), and declare a fill in the schema"
        )


@contextmanager
def collect_schema_errors(table: Any, asked: CraftRequest) -> Iterator[None]:
    """Where a table does not fit a declared schema, one error names all that is wrong."""
    try:
        yield
    except DoesNotFit as error:
        schema = asked.declared.schema
        if schema is None:
            raise
        weights = asked.weights if isinstance(asked.weights, str) else None
        raise error_of_all_misfits(error, copy_gpu_array_to_host(table), schema, asked.label, weights) from None


def prepare_plain_table(
    make: Callable[[CraftRequest, Table], ReleaseDraft],
    table: Any,
    y: Any,
    asked: CraftRequest,
    *,
    missing: str,
    unlabelled: str,
    separator: str | None,
    decimal: str | None,
    engine: Engine,
    withheld: Withheld,
    bar: Progress,
) -> tuple[ReleaseDraft, Schema | None, list[str]]:
    """Open a table for a mechanism that may look at it, and let `make` have it: the draft, its schema, and lines on it.

    Without a schema, and with no marks declared, a clean table of numbers is read as it is. Everything else goes by a
    schema: the declared one, settled by the table where it leaves something open, or one that is proposed. Of columns
    that are `withheld` it has what was declared, and nothing from the table. Where `unlabelled` is "drop", rows without
    a label are left out, whatever is done about other missing values. `bar` is told how far looks at the table are.
    """
    bar("opening the table", 0, None)
    drops = unlabelled == "drop"
    _refuse_preparing_cluster_rows(table, asked, missing, drops)
    if drops and np.ma.isMaskedArray(y):
        y = np.array(y.tolist(), dtype=object)  # None where it is masked
    if asked.weights is not None:
        once = make

        def make(asked: CraftRequest, source: Table) -> ReleaseDraft:
            return once(asked, repeat_by_weight(source))

    lines: list[str] = []
    schema, hidden = asked.declared.schema, withheld
    known = {} if schema is None else {name: kind for name, kind in schema.columns.items() if not kind.inferred}
    if schema is None and separator is None and decimal is None:
        try:
            source, lines = _drop_unlabelled_rows(
                open_prepared_table(table, y, asked, withheld=bool(hidden)), asked, drops, bar
            )
            return make(asked, source), None, [*_separators_text(table), *lines]
        except NeedsSchema as error:
            if cluster_kind_of_frame(table):
                raise NeedsSchema(
                    f"{error}; or give schema=, as propose_schema makes one from a sample of the rows, such as the "
                    "first few: a frame on a cluster is not looked through for it"
                ) from None
            if hasattr(table, "toarray") or isinstance(asked.declared.limits, np.ndarray):
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
            decimal=decimal,
            skip_unlabelled=drops or missing == "drop",
            advice=CRAFT_ADVICE,
            engine=engine,
            bar=bar,
        )
        proposal.refuse_nearly_numbers()
        schema = without_inferred_entries(proposal.schema, hidden)
        lines = proposal.as_text(filled=missing == "fill")
        if not schema.used:
            raise TableError(f"nothing is left to learn from: {'; '.join(lines)}")
    else:
        schema = settle_schema(without_inferred_entries(schema, hidden), table, engine, tuple(hidden), bar)
    protected = check_protected_columns(schema, known, hidden)
    if missing == "fill" and protected:
        found = find_gaps(table, None, schema.only(protected, ()), None, bar=bar)
        refuse_gaps_in_protected_columns(found.by_column, found.n_rows)
    complete = schema.columns if missing != "fill" else protected
    schema = replace(
        schema,
        columns={name: kind_without_gaps(kind) if name in complete else kind for name, kind in schema.columns.items()},
    )
    if asked.declared.schema is None:
        schema = _schema_with_declared_limits(schema, asked.declared.limits)
    declared = Declared.by_schema(schema).choose(None, (), asked.label)
    asked = replace(asked, declared=declared, features=None, drop=())
    source = open_prepared_table(table, y, asked, withheld=bool(hidden))
    if missing != "fill":
        found = find_gaps(table, y, schema, asked.label, labelled_only=drops, bar=bar)
        if missing == "error":
            found.refuse(asked.label_name if drops else None)
        source, more = found.without(source, weighted=asked.weights is not None), found.as_text()
    else:
        source, more = _drop_unlabelled_rows(source, asked, drops, bar)
    return make(asked, source), declared.schema, [*lines, *more]


def _refuse_preparing_cluster_rows(table: Any, asked: CraftRequest, missing: str, drops: bool) -> None:
    """Refuse what takes a look at rows on this machine, if they are on a cluster."""
    if not cluster_kind_of_frame(table):
        return
    if missing != "fill" or drops:
        option = "unlabelled='drop'" if drops else f"missing={missing!r}"
        raise ArgumentError(
            f"{option} looks at rows on this machine, and those of a frame on a cluster stay there; drop such rows in "
            "the frame itself (dropna), and leave the option out"
        )
    if asked.weights is not None and not isinstance(asked.weights, str):
        raise ArgumentError("weights of a frame on a cluster are one of its columns; name it in weights")


def _separators_text(table: Any) -> list[str]:
    """What stands between the cells of CSV files, in words, unless that is a comma in all of them."""
    paths = [path for path in expand_paths(table) if file_kind(path) == "csv"] if is_paths(table) else []
    marks = dict.fromkeys(csv_separator(path, PLAIN) for path in paths)
    return [f"written with: separator {' or '.join(map(repr, marks))}"] if set(marks) - {","} else []


def open_prepared_table(table: Any, y: Any, asked: CraftRequest, *, withheld: bool = False) -> Table:
    """The table as it was asked for, read strictly; with `withheld` no message has words of a cluster's."""
    declared = asked.declared
    weights = asked.weights if isinstance(asked.weights, str) else None
    source = open_table(
        table, y, label=asked.label, features=asked.features, drop=asked.drop, person=asked.person,
        schema=declared.schema, weights=weights, on_cluster=True, withheld=withheld,
    )  # fmt: skip
    return source if asked.weights is None or weights is not None else attach_weights(source, asked.weights)


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
                "rows out with missing='drop' (--missing drop), or let them be filled with missing='fill'"
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
    for batch in open_raw_table(table, names, schema.separator).batches(bar):
        size = batch.columns.num_rows
        complete = np.ones(size, dtype=bool)
        places = slice(found.n_rows, found.n_rows + size)
        absent = {name: _gaps_of_column(batch.columns.column(name), schema.columns[name]) for name in schema.used}
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


def _gaps_of_column(column: pa.Array, kind: Kind) -> NDArray[np.bool_]:
    """Where a column has no value; a word that is declared as a category is one."""
    absent = gap_cells(column)
    if isinstance(kind, Category) and kind.values is not None and absent.any():
        absent = absent & (class_index_of_labels(column, kind.values) < 0)
    return absent


# ---- Labels given apart from the table, where labels alone are protected.
#
# Features are not protected there: a label among them would come out exactly (M7, M21 of docs/proofs/moments.md). All
# of it goes by names and by where memory lies: no value decides whether a release comes out.


_APART = "with unit='label' features are not protected, and a label among them would be in the release exactly: "
_WHOSE = (
    "column {name!r} says whose row it is, and is the label too; where labels alone are protected, which rows "
    "contribute must not follow from labels: give a column of ids as person (--person)"
)


def name_of_separate_label(y: Any, label: str | None) -> str | None:
    """What labels given apart are called: by the caller, or by themselves as a series is.

    The label of a schema says which label the schema is about, and not which one these are.
    """
    own = name_of_series(y)
    if label and own and label != own:
        raise ArgumentError(
            f"y is called {own!r}, and the label {label!r}; what is promised is about one label: leave label out, or "
            "rename y if that is what it is"
        )
    return label or own


def name_of_series(y: Any) -> str | None:
    name = getattr(y, "name", None)
    return None if name is None or name == "" or callable(name) else str(name)


def refuse_label_as_feature(table: Any, y: Any, asked: CraftRequest, source: Table) -> None:
    """Refuse labels that are a feature, or say whose row it is, by their name or their memory.

    Those without a name are refused beside named columns.
    """
    if y is None:
        return
    features = [*source.features, *(() if source.schema is None else source.schema.used)]
    name_of_y = asked.label_apart or name_of_series(y)
    names = {name_of_y, asked.declared.label}
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
