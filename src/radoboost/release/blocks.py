"""Blocks of a release as one table: a row for each row of a block, a column for each column that any of them has.

A cell is null where its block does not have its column, and below the diagonal of a symmetric block, which is stored
once: the other half is the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ReleaseError

BLOCK_COLUMN = "block"
RADOS = "rados"
_CLASS = "class:"
TILTED = "tilted:"

Blocks = Mapping[str, NDArray[np.float64]]


def class_block(value: Any) -> str:
    """The block with the rados of one class, where there are more than two."""
    return f"{_CLASS}{value}"


def holds_rados(name: str) -> bool:
    """Whether a block of this name holds rados: of all classes, of one, or of a later batch."""
    return name == RADOS or name.startswith((_CLASS, TILTED))


@dataclass(frozen=True)
class Stored:
    """How a block is stored: how many rows, which columns of its own if it has any, and whether by half."""

    rows: int
    columns: tuple[str, ...] | None = None
    symmetric: bool = False

    @classmethod
    def of(cls, name: str, rows: NDArray[np.float64], columns: tuple[str, ...] | None) -> "Stored":
        """How a block is to be stored: by half if it equals its transpose to the last bit."""
        square = not holds_rados(name) and len(rows) == rows.shape[1] > 1
        bits = rows.view(np.int64) if square else rows
        return cls(len(rows), columns, square and bool((bits == bits.T).all()))

    @classmethod
    def from_dict(cls, name: str, entry: Mapping[str, Any]) -> "Stored":
        """As the document of a release says; a symmetric block of other than the same number of columns is refused."""
        columns, symmetric = entry.get("columns"), entry.get("symmetric", False)
        if not isinstance(symmetric, bool) or (symmetric and holds_rados(name)):
            raise ReleaseError(f"block {name!r} cannot be symmetric, or it says so in a way that is not known")
        return cls(int(entry["rows"]), None if columns is None else tuple(columns), symmetric)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without what is as usual."""
        columns = {} if self.columns is None else {"columns": list(self.columns)}
        return {"rows": self.rows, **columns, **({"symmetric": True} if self.symmetric else {})}


def stored_columns(features: Sequence[str], layout: Mapping[str, Stored]) -> list[str]:
    """The columns of the table but the first: the features, and then those that only some blocks have."""
    own = [name for block in layout.values() for name in block.columns or ()]
    return list(dict.fromkeys([*features, *own]))


def to_table(blocks: Blocks, features: Sequence[str], layout: Mapping[str, Stored]) -> pa.Table:
    names = stored_columns(features, layout)
    places = {name: k for k, name in enumerate(names)}
    count = sum(block.rows for block in layout.values())
    values, null = np.zeros((len(names), count)), np.ones((len(names), count), dtype=np.bool_)
    first = 0
    for name, rows in blocks.items():
        block, here = layout[name], slice(first, first + len(rows))
        places_of = [places[column] for column in block.columns or features]
        values[places_of, here] = rows.T
        null[places_of, here] = ~np.tri(len(rows), dtype=np.bool_) if block.symmetric else False
        first += len(rows)
    labels = pa.array([name for name, rows in blocks.items() for _ in range(len(rows))]).dictionary_encode()
    columns = [pa.array(values[k], mask=null[k] if null[k].any() else None) for k in range(len(names))]
    return pa.table([labels, *columns], names=[BLOCK_COLUMN, *names])


def from_table(table: pa.Table, features: Sequence[str], layout: Mapping[str, Stored]) -> Blocks:
    """The blocks of a table that was laid out so; a table with anything else in it is refused."""
    names, count = stored_columns(features, layout), sum(block.rows for block in layout.values())
    matches = table.column_names == [BLOCK_COLUMN, *names] and count == table.num_rows
    if not matches or table.column(0).to_pylist() != [n for n, block in layout.items() for _ in range(block.rows)]:
        raise ReleaseError("the rows and columns of the release are not those that its document describes")
    columns = dict(zip(names, table.columns[1:], strict=True))
    blocks: dict[str, NDArray[np.float64]] = {}
    first = 0
    for name, block in layout.items():
        own = block.columns or tuple(features)
        if block.symmetric and block.rows != len(own):
            raise ReleaseError(f"block {name!r} is called symmetric and is not square")
        blocks[name] = _read([columns[column].slice(first, block.rows) for column in own], name, block)
        for column in columns.keys() - set(own):
            if columns[column].slice(first, block.rows).null_count != block.rows:
                raise ReleaseError("the release holds values in columns that their block does not have")
        first += block.rows
    return blocks


def _read(columns: Sequence[pa.ChunkedArray], name: str, block: Stored) -> NDArray[np.float64]:
    """The rows of one block from its columns; of a symmetric one the half above the diagonal, twice."""
    rows = np.zeros((block.rows, len(columns)))
    for k, column in enumerate(columns):
        there = k + 1 if block.symmetric else block.rows
        if column.slice(there).null_count != block.rows - there:
            raise ReleaseError(f"block {name!r} is called symmetric and has numbers below its diagonal")
        rows[:there, k] = column.slice(0, there).to_numpy()
    if block.symmetric:
        below = np.tril_indices(block.rows, -1)
        rows[below] = rows.T[below]
    if not np.isfinite(rows).all():
        raise ReleaseError("the release holds values that are missing or not finite")
    return rows
