"""Shares of rows, partial sums of shares, and the release that two of these give.

Integers x on the grid are shared as a + b = x modulo 2**64, where a is uniform: neither a nor b alone says anything of
x (B1 of docs/proofs/shares.md). Sums of shares are shares of sums (B2). So each of two servers sums its share of every
row over the same signatures, and the learner adds up two files. Servers know the signatures, and the learner the sums:
together they could solve for rows, so nobody has both roles.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.release import Release
from radoboost.release.awaited import (
    Awaited,
    check_parts,
    number_batches,
    number_schema,
    number_table,
    reading,
    refuse_other,
    writing,
)
from radoboost.release.holders import SHARED, Holders

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
    awaited: Awaited
    n_rows: int
    rows: NDArray[np.uint64] | Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.rows) if isinstance(self.rows, Path) else f"share {self.side} of {self.pair[:8]}"

    def batches(self, rows: int = MOST_ROWS) -> Iterator[NDArray[np.uint64]]:
        """All rows in order, at most so many at a time."""
        if isinstance(self.rows, Path):
            yield from number_batches(self.rows, rows, self.awaited.width)
        else:
            for first in range(0, len(self.rows), rows):
                yield self.rows[first : first + rows]

    def to_dict(self) -> dict[str, Any]:
        """All but the numbers, as JSON data."""
        return {"pair": self.pair, "side": self.side, "rows": self.n_rows, "release": self.awaited.to_dict()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one Parquet file, whole or not at all."""
        with writing(Path(path), "share", number_schema(self.awaited.width), self.to_dict()) as writer:
            for rows in self.batches():
                writer.write_table(number_table(rows))


def load_share(path: str | os.PathLike[str]) -> Share:
    """A share in a file, which is read a batch at a time when it is summed."""
    path = Path(path)
    with reading(path, "share") as document:
        ((pair, n_rows),) = check_parts([document])
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows != n_rows:
                raise ReleaseError(f"it has {file.metadata.num_rows:,} rows and says {n_rows:,}")
        return Share(pair, _side(document), Awaited.from_dict(document["release"]), n_rows, path)


@dataclass(frozen=True, eq=False)
class PartialSums:
    """What one server makes of its share: sums for each rado, blinded by what the other server takes off again.

    `parts` are the pairs that were summed, in order, with their numbers of rows. `tag` is the same at both servers if
    they had the same key and were asked for the same; it does not tell the key.
    """

    side: str
    parts: tuple[tuple[str, int], ...]
    awaited: Awaited
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
        with writing(Path(path), "partial", number_schema(self.sums.shape[1]), self.to_dict()) as writer:
            writer.write_table(number_table(self.sums))


def load_partial(path: str | os.PathLike[str]) -> PartialSums:
    """The partial sums in a file."""
    path = Path(path)
    with reading(path, "partial") as document:
        awaited = Awaited.from_dict(document["release"])
        sums = np.concatenate(list(number_batches(path, MOST_ROWS, awaited.width)))
        if len(sums) != document["n_rados"]:
            raise ReleaseError(f"it has {len(sums):,} rados and says {document['n_rados']!r}")
        signatures = {"name": document["signatures"]["name"], **document["signatures"]}
        parts = check_parts(document["parts"])
        return PartialSums(_side(document), parts, awaited, signatures, str(document["tag"]), sums)


def _side(document: Any) -> str:
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
    refuse_other(a.awaited, b.awaited, (names[0], names[1]))
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
    holders = Holders(SHARED, tuple({"pair": pair, "rows": rows} for pair, rows in a.parts))
    name = hashlib.sha256(b"radoboost/release/" + a.tag.encode()).hexdigest()[:32]
    totals = (a.sums + b.sums).view(np.int64)  # modulo 2**64: a total is below 2**53 in magnitude
    return a.awaited.finished(totals, a.n_rows, a.signatures, holders, name)
