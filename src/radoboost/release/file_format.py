"""Blocks of a release as one table: a row for each row of a block, a column for each column that any of them has.

A cell is null where its block does not have its column, and below the diagonal of a symmetric block, which is stored
once: the other half is the same numbers.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import ReleaseError

BLOCK_COLUMN = "block"
RADOS = "rados"
_CLASS = "class:"

Blocks = Mapping[str, NDArray[np.float64]]


def class_block_name(value: Any) -> str:
    """The block with the rados of one class, where there are more than two."""
    return f"{_CLASS}{value}"


def is_rado_block_name(name: str) -> bool:
    """Whether a block of this name holds rados: of all classes, or of one."""
    return name == RADOS or name.startswith(_CLASS)


@dataclass(frozen=True)
class BlockLayout:
    """How a block is stored: how many rows, which columns of its own if it has any, and whether by half."""

    rows: int
    columns: tuple[str, ...] | None = None
    symmetric: bool = False

    @classmethod
    def of(cls, name: str, rows: NDArray[np.float64], columns: tuple[str, ...] | None) -> "BlockLayout":
        """How a block is to be stored: by half if it equals its transpose to the last bit."""
        square = not is_rado_block_name(name) and len(rows) == rows.shape[1] > 1
        bits = rows.view(np.int64) if square else rows
        return cls(len(rows), columns, square and bool((bits == bits.T).all()))

    @classmethod
    def from_dict(cls, name: str, entry: Mapping[str, Any]) -> "BlockLayout":
        """As the document of a release says; a symmetric block of other than the same number of columns is refused."""
        columns, symmetric = entry.get("columns"), entry.get("symmetric", False)
        if not isinstance(symmetric, bool) or (symmetric and is_rado_block_name(name)):
            raise ReleaseError(f"block {name!r} cannot be symmetric, or it says so in a way that is not known")
        return cls(int(entry["rows"]), None if columns is None else tuple(columns), symmetric)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without what is as usual."""
        columns = {} if self.columns is None else {"columns": list(self.columns)}
        return {"rows": self.rows, **columns, **({"symmetric": True} if self.symmetric else {})}


def stored_block_columns(features: Sequence[str], layout: Mapping[str, BlockLayout]) -> list[str]:
    """The columns of the table but the first: the features, and then those that only some blocks have."""
    own = [name for block in layout.values() for name in block.columns or ()]
    return list(dict.fromkeys([*features, *own]))


def blocks_to_table(blocks: Blocks, features: Sequence[str], layout: Mapping[str, BlockLayout]) -> pa.Table:
    names = stored_block_columns(features, layout)
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


def blocks_from_table(table: pa.Table, features: Sequence[str], layout: Mapping[str, BlockLayout]) -> Blocks:
    """The blocks of a table that was laid out so; a table with anything else in it is refused."""
    names, count = stored_block_columns(features, layout), sum(block.rows for block in layout.values())
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
        blocks[name] = _read_block_columns([columns[column].slice(first, block.rows) for column in own], name, block)
        for column in columns.keys() - set(own):
            if columns[column].slice(first, block.rows).null_count != block.rows:
                raise ReleaseError("the release holds values in columns that their block does not have")
        first += block.rows
    return blocks


def _read_block_columns(columns: Sequence[pa.ChunkedArray], name: str, block: BlockLayout) -> NDArray[np.float64]:
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


# ---- Parquet files with one JSON document that ends in the digest of the whole file: releases, shares, partial sums.
#
# The digest is SHA-256 of the file with these 64 characters set to '0'. It detects damage, not forgery. Nothing
# is parsed before it is right: a damaged file never reaches the Parquet reader.

ZEROS = "0" * 64
_MARK = re.compile(rb'"sha256":"([0-9a-f]{64})"\}')
_FOOTER = 8  # the length of the footer, and "PAR1"


class DamagedFile(ReleaseError):
    """A file that is not as it was written: its digest is not its own, or its end is missing."""


@contextmanager
def parquet_writer_with_document(
    draft: Path, schema: pa.Schema, key: str, document: Mapping[str, Any], **options: Any
) -> Iterator[Any]:
    """A Parquet writer for a draft; in the end its file gets the document, under `key`, with a place for the digest.

    The document may still change while rows are written. Then `seal_release_file` puts the digest into its place.
    """
    with pq.ParquetWriter(draft, schema, **options) as writer:
        yield writer
        text = json.dumps({**document, "sha256": ZEROS}, separators=(",", ":"), allow_nan=False)
        writer.add_key_value_metadata({key: text})


def seal_release_file(draft: Path) -> str:
    """Put the digest of a whole file into its place, and return it."""
    with draft.open("r+b") as file:
        start = digest_start(file, draft)
        assert start is not None
        digest = file_digest(file, start)
        file.seek(start)
        file.write(digest.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    return digest


def check_file_digest(file: Any, path: Path, what: str) -> str:
    """The digest of an open file, refused where it is not its own, or there is none; `what` says what it should be."""
    start = digest_start(file, path)
    if start is None:
        raise ReleaseError(f"{path} is not {what}")
    digest = file_digest(file, start)
    file.seek(start)
    if file.read(64) != digest.encode("ascii"):
        raise DamagedFile(f"{path} is damaged: its digest is not its own; get it again from its maker")
    file.seek(0)
    return digest


def digest_of_release_file(place: Path) -> str:
    """The digest of a release as it is now; nothing where it is gone, or damaged."""
    try:
        with place.open("rb") as file:
            return check_file_digest(file, place, "a release")
    except (OSError, ReleaseError):
        return ""


def digest_start(file: Any, path: Path) -> int | None:
    """Where the 64 characters of the digest begin in the file; None if it has no digest."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _FOOTER))
    tail = file.read(_FOOTER)
    length = int.from_bytes(tail[:4], "little")
    file.seek(0)
    if b'"radoboost_model"' in file.read(200):
        raise ReleaseError(
            f"{path} is a model, and no release: rado predict, rado show and rado export take it, in Python "
            "rb.load_model; learn from a release, such as NAME.rado.parquet"
        )
    if tail[4:] != b"PAR1" or length + _FOOTER > size:
        raise DamagedFile(
            f"{path} is not a whole Parquet file: truncated, damaged, or no release; rado craft makes one"
        )
    footer_start = size - _FOOTER - length
    file.seek(footer_start)
    matches = list(_MARK.finditer(file.read(length)))
    return footer_start + matches[-1].start(1) if matches else None


def file_digest(file: Any, start: int) -> str:
    """SHA-256 of the file with its digest set to zeros."""
    digest = hashlib.sha256()
    file.seek(0)
    left = start
    while left:
        piece = file.read(min(left, 1 << 20))
        digest.update(piece)
        left -= len(piece)
    digest.update(ZEROS.encode("ascii"))
    file.seek(start + len(ZEROS))
    digest.update(file.read())
    return digest.hexdigest()
