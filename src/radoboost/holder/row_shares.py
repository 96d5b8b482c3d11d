"""Rows that no single server may hold: two shares of each row, neither of which says anything alone.

The holder writes every integer x of a row on the grid as a + b = x modulo 2**64, with a from a keystream whose key
comes from the operating system and is forgotten (B1 of docs/proofs/shares.md). What each of two servers does with its
share is in `share_sums`; the learner puts together what both of them make (`release.shares`).
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import OutputError
from radoboost.holder import keystream
from radoboost.holder.grid_rows import GridRows, Route, grid_rows
from radoboost.holder.keystream import Key
from radoboost.release.awaited import number_schema, number_table, writing
from radoboost.release.shares import SIDES, Share, load_share

ROUTE = Route(
    trust_model="two servers that keep apart: each sees one share of every row, which alone is random, and knows which "
    "rows each rado sums; neither may see this release. Whoever makes the shares sees the rows",
    random_source="ChaCha20, under keys from the operating system: that of the shares is forgotten, that of the "
    "signatures is with both servers, and must never be with anyone who has this release",
    opens=(
        "The two servers together can put every row together. So can one server that has this release, if there are "
        "about as many rados as rows or more: it knows the signatures, and solves for the rows exactly.",
        "Nobody checks what a sender sends as shares: one can ruin the sums, or outweigh all others.",
        "Column names, scaling constants, classes and the number of rows of each sender are open to both servers.",
    ),
)

Places = tuple[str | os.PathLike[str], str | os.PathLike[str]]


def share(table: Any, y: Any = None, *, to: Places | None = None, **options: Any) -> tuple[Share, Share]:
    """Split the rows of a table into two shares, for two servers that keep apart.

    Every integer x of a row on the grid, y_i x_i scaled and rounded as in a plain release, becomes a + b = x modulo
    2**64, where a is uniform. Neither share alone says anything of the rows but how many there are. What columns mean
    is in both, with the scaling constants that the plain release would have. The paper only mentions that rados may be
    computed by several parties.

    Parameters
    ----------
    table, y
        The table and its labels, in any form that `craft` takes.
    to : (path, path), optional
        Where to write the two. A table of any size goes there a batch at a time; else both shares are in memory.
    **options
        As for `craft`: label, classes, features, drop, schema, bounds, missing, unlabelled, separator, decimal,
        weights, columns, scale, intercept and progress. Several senders need the same columns: declare bounds, with
        scale="bounds".

    Examples
    --------
    >>> import radoboost as rb
    >>> X, y = [[1.0, 5.0], [2.0, 7.0], [3.0, 0.0]], [0, 1, 1]
    >>> a, b = rb.share(X, y)
    >>> step = a.awaited.release.columns[-1].step
    >>> ((a.rows + b.rows).view("int64")[:, -1] * step).tolist()  # the labels, in the constant column
    [-1.0, 1.0, 1.0]
    """
    with grid_rows(table, y, ROUTE, **options) as rows:
        pair, key = secrets.token_hex(16), Key.from_system()
        if to is None:
            return _in_memory(rows, pair, key)
        places = Path(to[0]), Path(to[1])
        if os.path.realpath(places[0]) == os.path.realpath(places[1]):
            raise OutputError(f"cannot write both shares to {places[0]}; name two files")
        _to_files(rows, pair, key, places)
    return load_share(places[0]), load_share(places[1])


def _in_memory(rows: GridRows, pair: str, key: Key) -> tuple[Share, Share]:
    width = rows.awaited.width
    memory.require(16 * rows.n_rows * width, f"two shares of {rows.n_rows:,} rows", "write them to files, with to=")
    both = [np.empty((rows.n_rows, width), np.uint64) for _ in SIDES]
    done = 0
    for a, b in _split(rows, key):
        both[0][done : done + len(a)], both[1][done : done + len(a)] = a, b
        done += len(a)
    first, second = (
        Share(pair, side, rows.awaited, rows.n_rows, numbers) for side, numbers in zip(SIDES, both, strict=True)
    )
    return first, second


def _to_files(rows: GridRows, pair: str, key: Key, places: tuple[Path, Path]) -> None:
    """Both shares, a batch at a time; after a failure neither file is there."""
    before = [place.exists() for place in places]
    try:
        with ExitStack() as stack:
            writers = []
            for side, place in zip(SIDES, places, strict=True):
                document = {"pair": pair, "side": side, "rows": rows.n_rows, "release": rows.awaited.to_dict()}
                schema = number_schema(rows.awaited.width)
                writers.append(stack.enter_context(writing(place, "share", schema, document)))
            for both in _split(rows, key):
                for writer, numbers in zip(writers, both, strict=True):
                    writer.write_table(number_table(numbers))
    except BaseException:
        # One file was perhaps renamed before the other could not be; half a pair is of no use.
        if not before[1] and not places[0].exists():
            with suppress(OSError):
                places[1].unlink(missing_ok=True)
        raise


def _split(rows: GridRows, key: Key) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Both shares of the rows, batch by batch (B1): words of a keystream, each used once, and the difference."""
    done = 0
    for integers in rows.batches():
        pad = keystream.words(key, integers.shape[1], done, len(integers))  # none of them serves twice
        yield pad, integers.view(np.uint64) - pad
        done += len(integers)
