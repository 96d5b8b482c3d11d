"""A release that is still to come: all of its document but the rados, as files carry it that are on the way to it.

Rows in shares and encrypted rows go through several hands. Each hand passes on what the rows mean and what the
statement will say; in the end whoever has the sums puts the release together. The files are Parquet, with a JSON
document of their own and the digest of the whole file; nothing in them is pickled.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import ReleaseError, reason
from radoboost.release import (
    RADOS,
    SHARE_KEY,
    Release,
    class_block,
    read_classes,
    read_map,
    read_schema,
    read_statement,
    replacing,
)
from radoboost.release.columns import columns_from_json
from radoboost.release.digests import checked_digest, seal, with_document
from radoboost.release.holders import Holders

FORMAT = 1
GRID_BITS = 22  # a row's integers are at most 2**22 in magnitude
_KINDS = {
    "share": "a share of rows, as rado share makes two of them",
    "partial": "the partial sums of a server, as rado craft makes them of shares with --key",
    "encrypted-rows": "encrypted rows, as secure.encrypt makes them",
    "encrypted-sums": "encrypted sums, as secure.craft makes them",
}


@dataclass(frozen=True, eq=False)
class Awaited:
    """What is known of a release before its sums are: a `Release` without blocks, signatures and number of examples.

    Integers of a row stand column by column, and of more than two classes slot by slot: a row has its values in the
    slot of its class, and zeros in the others.
    """

    release: Release

    @property
    def width(self) -> int:
        """How many integers a row has."""
        n_classes = self.release.n_classes
        return len(self.release.columns) * (1 if n_classes == 2 else n_classes)

    def to_dict(self) -> dict[str, Any]:
        left_out = ("format", "id", "blocks", "signatures", "n_examples")
        return {name: value for name, value in self.release.to_dict().items() if name not in left_out}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Awaited":
        """From the document of a file; the statement is held against its own event."""
        columns, feature_map = columns_from_json(document["columns"]), read_map(document)
        return cls(
            Release(
                blocks={},
                columns=columns,
                classes=read_classes(document),
                mechanism={"name": document["mechanism"]["name"], **document["mechanism"]},
                signatures={},
                statement=read_statement(document["statement"]),
                n_examples=None,
                schema=read_schema(document, columns, feature_map),
                map=feature_map,
            )
        )

    def finished(
        self,
        totals: NDArray[np.int64],
        n_examples: int,
        signatures: Mapping[str, Any],
        holders: Holders,
        name: str,
    ) -> Release:
        """The release of these sums: a row for each rado, in steps of the grid (B5 of docs/proofs/shares.md).

        A sum beyond what so many rows can give is refused: these are not sums of such rows.
        """
        most = n_examples << GRID_BITS
        if ((totals > most) | (totals < -most)).any():
            raise ReleaseError(
                "these sums are larger than so many rows can give: a file was made of other rows, under another key, "
                "or a sender sent something else; ask for all of them again"
            )
        release, width = self.release, len(self.release.columns)
        steps = np.array([column.step for column in release.columns])
        if release.n_classes == 2:
            blocks = {RADOS: totals * steps}
        else:
            slots = zip(release.classes, np.split(totals, totals.shape[1] // width, axis=1), strict=True)
            blocks = {class_block(value): total * steps for value, total in slots}
        return replace(
            release,
            blocks=blocks,
            signatures=dict(signatures),
            statement=replace(release.statement, holders=holders),
            n_examples=n_examples,
            id=name,
        )


def refuse_other(first: Awaited, second: Awaited, names: tuple[str, str]) -> None:
    """Refuse two that do not become one release, and say what differs."""
    a, b = first.to_dict(), second.to_dict()
    different = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
    if not different:
        return
    advice = "share both with the same options"
    if "columns" in different:
        advice = (
            "each is scaled by its own table; declare the same bounds for all and scale by them (--schema or --bounds, "
            "with --scale bounds)"
        )
    raise ReleaseError(f"{names[0]} and {names[1]} have other {' and other '.join(different)}: {advice}")


# ---- files


@contextmanager
def writing(path: Path, kind: str, schema: pa.Schema, document: Mapping[str, Any]) -> Iterator[Any]:
    """A Parquet writer for one of these files, which is there whole in the end, or not at all."""
    content = {"format": FORMAT, "kind": kind, **document}
    with replacing(path, secret=kind == "share") as draft:
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with with_document(draft, schema, SHARE_KEY, content, **options) as writer:
            yield writer
        seal(draft)


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """The document of such a file, refused if it is another kind, damaged, or of an unknown version."""
    try:
        with path.open("rb") as file:
            checked_digest(file, path, _KINDS[kind])
            metadata = pq.ParquetFile(file).metadata.metadata
    except OSError as error:
        raise ReleaseError(f"cannot read {path}: {reason(error)}") from None
    if SHARE_KEY.encode() not in metadata:
        raise ReleaseError(f"{path} is a release, and not {_KINDS[kind]}")
    document: dict[str, Any] = json.loads(metadata[SHARE_KEY.encode()])
    if document.get("format") != FORMAT:
        raise ReleaseError(f"{path}: unknown version: it has format {document.get('format')!r}, not {FORMAT}")
    if document.get("kind") != kind:
        raise ReleaseError(f"{path} is {_KINDS.get(str(document.get('kind')), 'something else')}, not {_KINDS[kind]}")
    return document


@contextmanager
def reading(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The document of such a file; what cannot be read in it becomes one line."""
    document = read_document(path, kind)
    try:
        yield document
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException):
        raise ReleaseError(f"{path} is not {_KINDS[kind]}: its document is incomplete") from None


def number_schema(width: int) -> pa.Schema:
    """Columns of 64-bit numbers; alone they mean nothing, so they have numbers for names."""
    return pa.schema([(str(k), pa.uint64()) for k in range(width)])


def number_table(rows: NDArray[np.uint64]) -> pa.Table:
    columns = np.ascontiguousarray(rows.T)
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=number_schema(rows.shape[1]))


def number_batches(path: Path, rows: int, width: int) -> Iterator[NDArray[np.uint64]]:
    """The rows of a file of numbers, so many at a time."""
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.remove_metadata().equals(number_schema(width)):
            raise ReleaseError(f"{path} does not have the {width:,} columns of numbers that it should have")
        for group in range(file.num_row_groups):  # one at a time: all at once, they stay in memory
            for batch in file.iter_batches(batch_size=rows, row_groups=[group]):
                yield np.stack([column.to_numpy() for column in batch.columns], axis=1)


def check_parts(parts: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """Pairs with their numbers of rows, from a document."""
    checked = tuple((str(part["pair"]), int(part["rows"])) for part in parts)
    if not checked or any(rows < 1 for _, rows in checked):
        raise ReleaseError("it does not say of how many rows it is")
    return checked
