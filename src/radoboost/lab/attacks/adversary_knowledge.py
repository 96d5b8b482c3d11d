"""What an adversary starts from: rados as integers, edge vectors of a table on their grid, signatures of a seed.

Of more than two classes, a rado is a sum of vectors with a slot of all columns for each class: a row has its values,
not signed, in the slot of its class, and zeros in the others. So attacks on sums of edge vectors are attacks on these.
"""

import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError, TableError, install
from radoboost.holder.feature_maps import map_table
from radoboost.holder.grid import grid_edge_vectors
from radoboost.holder.keystream import TILE_ROWS, make_key
from radoboost.holder.signatures import SIGNATURE_SETS, SignatureStream
from radoboost.release.columns import CONSTANT
from radoboost.release.merge import merged_rows_have_one_numbering
from radoboost.release.parties import MERGED
from radoboost.release.release import Release, class_block_name
from radoboost.tables import column_storage_of_table, open_table, refuse_not_finite_values
from radoboost.tables.labels import LabelEncoder

DEFAULT_SECONDS = 60.0
_MOST_BITS = 1 << 31  # of an inclusion matrix, a byte each


def rado_integers(release: Release) -> NDArray[np.int64]:
    """The rados in steps of their columns' grids, shape (n_rados, n_columns), exactly.

    Of more than two classes the slots stand side by side: (n_rados, n_classes * n_columns).
    """
    if release.n_classes == 2:
        rados = release.rados
    else:
        names = [class_block_name(value) for value in release.classes]
        if not all(name in release.blocks for name in names):
            raise ReleaseError("this release has no rados, which this attack needs; attack one by plain")
        rados = np.hstack([release.blocks[name] for name in names])
    slots = 1 if release.n_classes == 2 else release.n_classes
    steps = rados / np.tile([column.step for column in release.columns], slots)
    if not (np.abs(steps) < 2.0**53).all() or not (steps == np.rint(steps)).all():
        raise ReleaseError("the rados of this release are not on their grid; it was not made by radoboost")
    integers: NDArray[np.int64] = steps.astype(np.int64)
    return integers


def refuse_many_classes(release: Release, what: str, instead: str = "") -> None:
    """Refuse more than two classes, for attacks on sums of edge vectors that have a sign."""
    if release.n_classes > 2:
        raise ArgumentError(f"{what}, and this release has {release.n_classes} classes{instead}")


def table_edge_vectors(release: Release, table: Any, y: Any = None, *, label: str | None = None) -> NDArray[np.int64]:
    """The edge vectors of a table's rows on the grid of a release, as crafting would make them: (rows, n_columns).

    Of more than two classes they are as wide as `rado_integers`.
    """
    names = [name for name in release.feature_names if name != CONSTANT]
    if release.map is not None:
        names = list(release.map.input_names)
    schema = release.schema
    source = open_table(table, y, label=label, features=names if schema is None else schema.used, schema=schema)
    if release.map is not None:
        source = map_table(source, release.map)
    rule = LabelEncoder(label or "y", release.classes)
    parts, n_rows = [], 0
    for batch in source.batches():
        values = batch.values()
        if not np.isfinite(values).all():
            refuse_not_finite_values(source.features, batch, values)
        _check_values_fit_grid(release, values, source.name)
        if rule.n_classes == 2:
            signs = rule.signs(batch.labels, batch.place)
            parts.append(grid_edge_vectors(values, signs, release.columns).astype(np.int64))
        else:
            slots = np.zeros((len(values), rule.n_classes, len(release.columns)), np.int64)
            rows = grid_edge_vectors(values, np.ones(len(values), np.int8), release.columns)
            slots[np.arange(len(values)), rule.places(batch.labels, batch.place)] = rows
            parts.append(slots.reshape(len(values), -1))
        n_rows += batch.n_rows
    source.check_rows(n_rows)
    return np.concatenate(parts)


def label_column_of_table(release: Release, table: Any) -> str:
    """The table's column of classes: the one that the schema of a release names, or the only one that is no feature."""
    schema = release.schema
    if schema is not None and schema.label is not None:
        return schema.label
    columns = release.feature_names if release.map is None else release.map.input_names
    columns = columns if schema is None else schema.used
    others = [name for name in column_storage_of_table(table) if name not in columns]
    if len(others) != 1:
        names = ", ".join(map(repr, others[:5])) or "none"
        raise ArgumentError(f"name the table's column of classes with --label; beside the features it has {names}")
    return others[0]


def own_edge_vectors(release: Release, table: Any, y: Any = None, *, label: str | None = None) -> NDArray[np.int64]:
    """The edge vectors of the table that a release was made from; a table of another length is refused."""
    edges = table_edge_vectors(release, table, y, label=label)
    if release.n_examples not in (None, len(edges)):
        raise TableError(
            f"the table has {len(edges):,} rows and the release is of {release.n_examples:,}; "
            "give the table that the release was made from"
        )
    return edges


def _check_values_fit_grid(release: Release, values: NDArray[Any], name: str) -> None:
    """Refuse values that do not fit into 32 bits on the grid; those of the release's own table need 23."""
    for column, x in zip(release.columns, values.T, strict=False):
        with np.errstate(over="ignore"):
            beyond = np.abs(column.apply(x.astype(np.float64)) / column.step) >= 2.0**31
        if beyond.any():
            raise TableError(
                f"{name} has values in column {column.name!r} far beyond those of the release, such as "
                f"{x[np.argmax(beyond)]:.6g}; leave such rows out, or it is a release of another table"
            )


def seed_inclusion_bits(release: Release, seed: int, rows: int) -> NDArray[np.bool_]:
    """Whether example i is in rado j under a seed, shape (n_rados, rows); of a feature band, whether it is in F."""
    if rows < 1:
        raise ArgumentError(f"the number of rows must be at least 1; it is {rows:,}")
    n = release.n_rados
    if n * rows > _MOST_BITS:
        raise ArgumentError(
            f"the signatures of {n:,} rados over {rows:,} rows are too many for an attack; attack a smaller release"
        )
    holders = release.statement.holders
    if holders is not None and holders.how == MERGED and not merged_rows_have_one_numbering(holders.parts):
        raise ArgumentError("the parts of this merged release do not have one seed; attack the release of one part")
    parameters = {key: value for key, value in release.signatures.items() if key not in ("name", "first_row")}
    first_row = int(release.signatures.get("first_row", 0))
    kind = SIGNATURE_SETS.get(release.signatures["name"])
    if kind is None:
        raise ReleaseError(f"the signature set {release.signatures['name']!r} is not known here; upgrade radoboost")
    return inclusion_bits(kind(**parameters).prepare(make_key(seed), n, rows), n, rows, first_row)


def inclusion_bits(prepared: SignatureStream, n_rados: int, rows: int, first_row: int = 0) -> NDArray[np.bool_]:
    """The words of a prepared signature set as one bit for each rado and row, shape (n_rados, rows)."""
    first_tile, skip = divmod(first_row, TILE_ROWS)
    tiles = -(-(skip + rows) // TILE_ROWS)
    words = prepared.words(first_tile, tiles, np.empty((tiles, n_rados), dtype=np.uint64))
    bits = np.unpackbits(np.ascontiguousarray(words.T).astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:, skip : skip + rows].astype(np.bool_)


def known_n_examples(release: Release, rows: int | None) -> int:
    """How many examples a release is from: `rows` if the release does not say; if it does, both must agree."""
    known = release.n_examples if rows is None else rows
    if known is None:
        raise ArgumentError("the release does not say how many rows it is from; give their number with --set rows=M")
    if release.n_examples not in (None, known):
        raise ArgumentError(
            f"the release says that it is from {release.n_examples:,} rows, not {known:,}; leave the number out"
        )
    return known


def ranges_text(numbers: Iterable[int], joined: str = "-", thousands: str = "") -> str:
    """Ascending numbers as runs, such as 0-3, 7."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1][1:] = [one]
        else:
            runs.append([one])
    return ", ".join(joined.join(f"{end:{thousands}}" for end in run) for run in runs)


def check_same_width(edges: NDArray[Any], rados: NDArray[Any]) -> None:
    if edges.ndim != 2 or rados.ndim != 2 or edges.shape[1] != rados.shape[1]:
        raise TableError(
            f"edge vectors of shape {edges.shape} and rados of shape {rados.shape} do not go together; "
            "both need one row each and the same columns"
        )


class NeedsExtra(ArgumentError):
    """An attack for which a package of an extra is missing."""


def attack_library(module: str) -> Any:
    """Import a module of the extra `attacks`; if it is missing, the error says what to install."""
    try:
        return import_module(module)
    except ImportError:
        raise NeedsExtra(f"this attack needs {module.split('.')[0]}; install it with: {install('attacks')}") from None


def attack_deadline(seconds: float) -> Callable[[], float]:
    """Start a clock: the function that is returned says how many of the `seconds` are left."""
    if not 0 < seconds < float("inf"):
        raise ArgumentError(f"the time limit must be a positive number of seconds; it is {seconds}")
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()
