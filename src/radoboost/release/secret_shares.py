"""A release that is still to come: all of its document but the rados, as files carry it that are on the way to it.

Rows in shares and encrypted rows go through several hands. Each hand passes on what the rows mean and what the
statement will say; in the end whoever has the sums puts the release together. The files are Parquet, with a JSON
document of their own and the digest of the whole file; nothing in them is pickled.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError, reason
from radoboost.release.columns import columns_from_json
from radoboost.release.file_format import check_file_digest, parquet_writer_with_document, seal_release_file
from radoboost.release.parties import SHARED, Parties
from radoboost.release.release import (
    RADOS,
    SHARE_KEY,
    Release,
    atomic_write,
    class_block_name,
    read_feature_map,
    read_release_classes,
    read_release_schema,
    read_statement,
)

FORMAT = 1
GRID_BITS = 22  # a row's integers are at most 2**22 in magnitude
_KINDS = {
    "share": "a share of rows, as rado share split makes two of them",
    "partial": "the partial sums of a server, as rado share sum makes them",
    "encrypted-rows": "encrypted rows, as secure.encrypt makes them",
    "encrypted-sums": "encrypted sums, as secure.craft makes them",
}


@dataclass(frozen=True, eq=False)
class PendingRelease:
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
    def from_dict(cls, document: Mapping[str, Any]) -> "PendingRelease":
        """From the document of a file; the statement is held against its own event."""
        columns, feature_map = columns_from_json(document["columns"]), read_feature_map(document)
        return cls(
            Release(
                blocks={},
                columns=columns,
                classes=read_release_classes(document),
                mechanism={"name": document["mechanism"]["name"], **document["mechanism"]},
                signatures={},
                statement=read_statement(document["statement"]),
                n_examples=None,
                schema=read_release_schema(document, columns, feature_map),
                map=feature_map,
            )
        )

    def finished(
        self,
        totals: NDArray[np.int64],
        n_examples: int,
        signatures: Mapping[str, Any],
        holders: Parties,
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
            blocks = {class_block_name(value): total * steps for value, total in slots}
        return replace(
            release,
            blocks=blocks,
            signatures=dict(signatures),
            statement=replace(release.statement, holders=holders),
            n_examples=n_examples,
            id=name,
        )


def refuse_shares_of_other_release(first: PendingRelease, second: PendingRelease, names: tuple[str, str]) -> None:
    """Refuse two that do not become one release, and say what differs."""
    a, b = first.to_dict(), second.to_dict()
    different = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
    if not different:
        return
    advice = "share both with the same options"
    if "columns" in different:
        advice = (
            "each is scaled by its own table; declare the same bounds for all and scale by them (--schema, "
            "with --set scale=bounds)"
        )
    raise ReleaseError(f"{names[0]} and {names[1]} have other {' and other '.join(different)}: {advice}")


# ---- files


@contextmanager
def write_share_file(path: Path, kind: str, schema: pa.Schema, document: Mapping[str, Any]) -> Iterator[Any]:
    """A Parquet writer for one of these files, which is there whole in the end, or not at all."""
    content = {"format": FORMAT, "kind": kind, **document}
    with atomic_write(path, secret=kind == "share") as draft:
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with parquet_writer_with_document(draft, schema, SHARE_KEY, content, **options) as writer:
            yield writer
        seal_release_file(draft)


def holds_shares(path: Path) -> bool:
    """Whether a file says that it holds shares, or sums of them; reading it says what is wrong with any other."""
    try:
        return SHARE_KEY.encode() in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowInvalid):
        return False


def read_share_document(path: Path, kind: str) -> dict[str, Any]:
    """The document of such a file, refused if it is another kind, damaged, or of an unknown version."""
    try:
        with path.open("rb") as file:
            check_file_digest(file, path, _KINDS[kind])
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
def read_share_file(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The document of such a file; what cannot be read in it becomes one line."""
    document = read_share_document(path, kind)
    try:
        yield document
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException):
        raise ReleaseError(f"{path} is not {_KINDS[kind]}: its document is incomplete") from None


def share_number_schema(width: int) -> pa.Schema:
    """Columns of 64-bit numbers; alone they mean nothing, so they have numbers for names."""
    return pa.schema([(str(k), pa.uint64()) for k in range(width)])


def share_number_table(rows: NDArray[np.uint64]) -> pa.Table:
    columns = np.ascontiguousarray(rows.T)
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=share_number_schema(rows.shape[1]))


def share_number_batches(path: Path, rows: int, width: int) -> Iterator[NDArray[np.uint64]]:
    """The rows of a file of numbers, so many at a time."""
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.remove_metadata().equals(share_number_schema(width)):
            raise ReleaseError(f"{path} does not have the {width:,} columns of numbers that it should have")
        for group in range(file.num_row_groups):  # one at a time: all at once, they stay in memory
            for batch in file.iter_batches(batch_size=rows, row_groups=[group]):
                yield np.stack([column.to_numpy() for column in batch.columns], axis=1)


def check_share_parts(parts: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """Pairs with their numbers of rows, from a document."""
    checked = tuple((str(part["pair"]), int(part["rows"])) for part in parts)
    if not checked or any(rows < 1 for _, rows in checked):
        raise ReleaseError("it does not say of how many rows it is")
    return checked


# ---- Shares of rows, partial sums of shares, and the release that two of these give.
#
# Integers x on the grid are shared as a + b = x modulo 2**64, where a is uniform: neither a nor b alone says
# anything of x (B1 of docs/proofs/shares.md). Sums of shares are shares of sums (B2). So each of two servers sums
# its share of every row over the same signatures, and the learner adds up two files. Servers know the signatures,
# and the learner the sums: together they could solve for rows, so nobody has both roles.

SIDES = ("a", "b")
MOST_ROWS = 65536  # of a file of shares at a time


@dataclass(frozen=True, eq=False)
class Share:
    """One of the two shares of a table's rows: numbers that alone are uniform, whatever the rows.

    `pair` names the two that belong together, `side` is "a" or "b", `awaited` says what release they may become. `rows`
    are numbers of 64 bits, in memory or in a file. Give the two to different servers.

    >>> import radoboost as rb
    >>> a, b = rb.share([[1.0], [2.0], [3.0]], [0, 1, 1])
    >>> a.side, b.side, a.pair == b.pair, a.n_rows
    ('a', 'b', True, 3)
    """

    pair: str
    side: str
    awaited: PendingRelease
    n_rows: int
    rows: NDArray[np.uint64] | Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.rows) if isinstance(self.rows, Path) else f"share {self.side} of {self.pair[:8]}"

    def batches(self, rows: int = MOST_ROWS) -> Iterator[NDArray[np.uint64]]:
        """All rows in order, at most so many at a time."""
        if isinstance(self.rows, Path):
            yield from share_number_batches(self.rows, rows, self.awaited.width)
        else:
            for first in range(0, len(self.rows), rows):
                yield self.rows[first : first + rows]

    def to_dict(self) -> dict[str, Any]:
        """All but the numbers, as JSON data."""
        return {"pair": self.pair, "side": self.side, "rows": self.n_rows, "release": self.awaited.to_dict()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one Parquet file, whole or not at all."""
        with write_share_file(Path(path), "share", share_number_schema(self.awaited.width), self.to_dict()) as writer:
            for rows in self.batches():
                writer.write_table(share_number_table(rows))


def load_share(path: str | os.PathLike[str]) -> Share:
    """A share in a file, which is read a batch at a time when it is summed."""
    path = Path(path)
    with read_share_file(path, "share") as document:
        ((pair, n_rows),) = check_share_parts([document])
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows != n_rows:
                raise ReleaseError(f"it has {file.metadata.num_rows:,} rows and says {n_rows:,}")
        return Share(pair, _side_of_share(document), PendingRelease.from_dict(document["release"]), n_rows, path)


@dataclass(frozen=True, eq=False)
class PartialSums:
    """What one server makes of its share: sums for each rado, blinded by what the other server takes off again.

    `parts` are the pairs that were summed, in order, with their numbers of rows. `tag` is the same at both servers if
    they had the same key and were asked for the same; it does not tell the key.
    """

    side: str
    parts: tuple[tuple[str, int], ...]
    awaited: PendingRelease
    signatures: dict[str, Any]
    tag: str
    sums: NDArray[np.uint64]

    @property
    def n_rows(self) -> int:
        """How many rows were summed."""
        return sum(rows for _, rows in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """All but the numbers, as JSON data."""
        return {
            "side": self.side,
            "parts": [{"pair": pair, "rows": rows} for pair, rows in self.parts],
            "n_rados": len(self.sums),
            "signatures": self.signatures,
            "tag": self.tag,
            "release": self.awaited.to_dict(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one Parquet file, whole or not at all."""
        with write_share_file(Path(path), "partial", share_number_schema(self.sums.shape[1]), self.to_dict()) as writer:
            writer.write_table(share_number_table(self.sums))


def load_partial(path: str | os.PathLike[str]) -> PartialSums:
    """The partial sums in a file."""
    path = Path(path)
    with read_share_file(path, "partial") as document:
        awaited = PendingRelease.from_dict(document["release"])
        sums = np.concatenate(list(share_number_batches(path, MOST_ROWS, awaited.width)))
        if len(sums) != document["n_rados"]:
            raise ReleaseError(f"it has {len(sums):,} rados and says {document['n_rados']!r}")
        signatures = {"name": document["signatures"]["name"], **document["signatures"]}
        parts = check_share_parts(document["parts"])
        return PartialSums(_side_of_share(document), parts, awaited, signatures, str(document["tag"]), sums)


def _side_of_share(document: Any) -> str:
    if document["side"] not in SIDES:
        raise ReleaseError(f"its side is {document['side']!r}, which is neither 'a' nor 'b'")
    return str(document["side"])


def merge_shares(first: PartialSums | str | os.PathLike[str], second: PartialSums | str | os.PathLike[str]) -> Release:
    """Put the partial sums of two servers together: the plain release of the rows that nobody saw.

    It is to the last bit what `craft` makes of the table under the same signatures. Nothing is promised about it, as
    about any plain release; its statement says who saw what. This is for the learner: neither server may see the
    result.

    >>> import radoboost as rb
    >>> a, b = rb.share([[1.0], [2.0], [3.0]], [0, 1, 1])
    >>> key = rb.new_share_key()
    >>> release = rb.merge_shares(*(rb.craft_shares(share, key=key, n_rados=5) for share in (a, b)))
    >>> release.rados.shape, release.statement.epsilon
    ((5, 2), inf)
    """
    names = tuple(
        f"the {place} one" if isinstance(given, PartialSums) else str(given)
        for place, given in (("first", first), ("second", second))
    )
    a, b = (given if isinstance(given, PartialSums) else load_partial(given) for given in (first, second))
    if a.side == b.side:
        raise ArgumentError(
            f"{names[0]} and {names[1]} are both of side {a.side}; give one file of each of the two servers"
        )
    if a.parts != b.parts:
        same = sorted(a.parts) == sorted(b.parts)
        raise ArgumentError(
            f"{names[0]} and {names[1]} are sums of other rows: the servers "
            + ("took the same shares in another order" if same else "took shares that do not belong together")
            + "; let both take the same senders' shares, in the same order"
        )
    refuse_shares_of_other_release(a.awaited, b.awaited, (names[0], names[1]))
    if a.sums.shape != b.sums.shape or a.signatures != b.signatures:
        raise ArgumentError(
            f"{names[0]} has {len(a.sums):,} rados by signatures {a.signatures['name']!r}, and {names[1]} "
            f"{len(b.sums):,} by {b.signatures['name']!r}; let both servers make the same"
        )
    if a.tag != b.tag:
        raise ArgumentError(
            f"{names[0]} and {names[1]} were crafted under other keys; let one server make a key (--new-key), and the "
            "other take it (--key)"
        )
    holders = Parties(SHARED, tuple({"pair": pair, "rows": rows} for pair, rows in a.parts))
    name = hashlib.sha256(b"radoboost/release/" + a.tag.encode()).hexdigest()[:32]
    totals = (a.sums + b.sums).view(np.int64)  # modulo 2**64: a total is below 2**53 in magnitude
    return a.awaited.finished(totals, a.n_rows, a.signatures, holders, name)
