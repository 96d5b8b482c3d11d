"""Rows that no single server may hold: two shares of each row, neither of which says anything alone.

The holder writes every integer x of a row on the grid as a + b = x modulo 2**64, with a from a keystream whose key
comes from the operating system and is forgotten (B1 of docs/proofs/shares.md). What each of two servers does with its
share is in `craft_shares`; the learner puts together what both of them make (`release.secret_shares`).
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ArgumentError, OutputError, reason
from radoboost.holder import keystream
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.engines.self_test import self_tested_engine
from radoboost.holder.grid import check_rows_sum_exactly
from radoboost.holder.grid_rows import GridRows, Route, grid_rows
from radoboost.holder.keystream import Key
from radoboost.holder.rado_sums import check_memory_for_rados, rows_per_sum_batch
from radoboost.holder.request import DEFAULT_RADOS
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.signatures import AllSignatures, SignatureSet, SignatureStream, check_n_rados, check_n_signatures
from radoboost.progress import no_progress, show_progress
from radoboost.release import secret_shares
from radoboost.tables.table import round_to_whole_tiles

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


def share(
    table: Any, y: Any = None, *, to: Places | None = None, **options: Any
) -> tuple[secret_shares.Share, secret_shares.Share]:
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
            return _shares_in_memory(rows, pair, key)
        places = Path(to[0]), Path(to[1])
        if os.path.realpath(places[0]) == os.path.realpath(places[1]):
            raise OutputError(f"cannot write both shares to {places[0]}; name two files")
        _shares_to_files(rows, pair, key, places)
    return secret_shares.load_share(places[0]), secret_shares.load_share(places[1])


def _shares_in_memory(rows: GridRows, pair: str, key: Key) -> tuple[secret_shares.Share, secret_shares.Share]:
    width = rows.awaited.width
    memory.require_memory(
        16 * rows.n_rows * width, f"two shares of {rows.n_rows:,} rows", "write them to files, with to="
    )
    both = [np.empty((rows.n_rows, width), np.uint64) for _ in secret_shares.SIDES]
    done = 0
    for a, b in _split_rows_into_shares(rows, key):
        both[0][done : done + len(a)], both[1][done : done + len(a)] = a, b
        done += len(a)
    first, second = (
        secret_shares.Share(pair, side, rows.awaited, rows.n_rows, numbers)
        for side, numbers in zip(secret_shares.SIDES, both, strict=True)
    )
    return first, second


def _shares_to_files(rows: GridRows, pair: str, key: Key, places: tuple[Path, Path]) -> None:
    """Both shares, a batch at a time; after a failure neither file is there."""
    before = [place.exists() for place in places]
    try:
        with ExitStack() as stack:
            writers = []
            for side, place in zip(secret_shares.SIDES, places, strict=True):
                document = {"pair": pair, "side": side, "rows": rows.n_rows, "release": rows.awaited.to_dict()}
                schema = secret_shares.share_number_schema(rows.awaited.width)
                writers.append(stack.enter_context(secret_shares.write_share_file(place, "share", schema, document)))
            for both in _split_rows_into_shares(rows, key):
                for writer, numbers in zip(writers, both, strict=True):
                    writer.write_table(secret_shares.share_number_table(numbers))
    except BaseException:
        # One file was perhaps renamed before the other could not be; half a pair is of no use.
        if not before[1] and not places[0].exists():
            with suppress(OSError):
                places[1].unlink(missing_ok=True)
        raise


def _split_rows_into_shares(rows: GridRows, key: Key) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Both shares of the rows, batch by batch (B1): words of a keystream, each used once, and the difference."""
    done = 0
    for integers in rows.batches():
        pad = keystream.keystream_words(key, integers.shape[1], done, len(integers))  # none of them serves twice
        yield pad, integers.view(np.uint64) - pad
        done += len(integers)


# ---- What each of two servers does with its share of the rows: sums that alone are random.
#
# Each server sums its share of the rows over signatures that follow from a key which both servers have and the
# learner must not, with the engine that crafts releases: a number of 64 bits goes through it as three of 22, 22
# and 20 (B3 of docs/proofs/shares.md). Before a server hands its sums out, it adds numbers that the other one
# takes off: without them, what one server's sums have in common would tell of the signatures (B4).

_LIMB = 22  # bits: what an engine takes
_BATCH_NUMBERS = 1 << 22
_KEY_FILE = "radoboost_share_key"


# ---- the key of the signatures


def new_share_key(path: str | os.PathLike[str] | None = None, key: bytes | None = None) -> bytes:
    """A new key for the signatures of two servers, from the operating system; with a path it is also written there.

    One server makes it, and sends it to the other by a way that neither senders nor the learner can read. Anyone who
    has it and the release can solve for rows. A file that is there already is not overwritten. A
    `key` that was made before is written as it is.

    >>> len(new_share_key())
    32
    """
    key = Key.from_system() if key is None else read_share_key(key)
    if path is not None:
        text = json.dumps({_KEY_FILE: 1, "key": key.hex()}) + "\n"
        try:
            with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write(text)
        except FileExistsError:
            raise OutputError(f"{path} is there already; use it with --key, or choose another place") from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {reason(error)}; choose another place") from None
    return key


def read_share_key(key: bytes | str | os.PathLike[str]) -> Key:
    if isinstance(key, bytes):
        if len(key) != 32:
            raise ArgumentError(f"a key has 32 bytes, and this one {len(key):,}; make one with new_share_key()")
        return Key(key)
    try:
        document = json.loads(Path(key).read_text(encoding="ascii"))
        if document[_KEY_FILE] != 1:
            raise ValueError("another version")
        content = bytes.fromhex(document["key"])
    except OSError as error:
        raise ArgumentError(
            f"cannot read the key {key}: {reason(error)}; the other server makes one with --new-key"
        ) from None
    except (ValueError, LookupError, TypeError):
        raise ArgumentError(f"{key} is not a key of two servers; make one with --new-key") from None
    return read_share_key(content)


def share_job_keys(key: bytes, job: Any) -> tuple[Key, Key, str]:
    """The keys of coins and of blinding for one job, and its tag, all independent of each other and of other jobs.

    So the same key may serve again: other shares, or another number of rados, have signatures of their own.
    """
    digest = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).digest()
    made = HKDF(SHA256(), 96, salt=None, info=b"radoboost/shares/" + digest).derive(bytes.join(b"", [key]))
    return Key(made[:32]), Key(made[32:64]), made[64:].hex()


# ---- what a server does


def craft_shares(
    shares: secret_shares.Share | str | os.PathLike[str] | Sequence[secret_shares.Share | str | os.PathLike[str]],
    *,
    key: bytes | str | os.PathLike[str],
    n_rados: int = DEFAULT_RADOS,
    signatures: SignatureSet | None = None,
    engine: str | Engine = "auto",
    threads: int | None = None,
    progress: bool = False,
) -> secret_shares.PartialSums:
    """Sum one share of every row, at one of two servers: partial sums, which alone are random.

    Shares of several senders are summed as one table, in the order given, which must be the same at both servers. `key`
    is that of the signatures, or its file (`new_share_key`). The learner puts both partial sums together
    (`merge_shares`); a server that sees the release can solve for rows.

    >>> import radoboost as rb
    >>> a, b = rb.share([[1.0], [2.0], [3.0]], [0, 1, 1])
    >>> rb.craft_shares(a, key=rb.new_share_key(), n_rados=5).sums.shape
    (5, 2)
    """
    given = [shares] if isinstance(shares, secret_shares.Share | str | os.PathLike) else list(shares)
    if not given:
        raise ArgumentError("there are no shares to sum; give at least one")
    parts = [share if isinstance(share, secret_shares.Share) else secret_shares.load_share(share) for share in given]
    secret, count, subsets = read_share_key(key), check_n_rados(n_rados), signatures or AllSignatures()
    _check_shares_of_one_side(parts)
    rows = _SharedRows(parts)
    check_rows_sum_exactly("all of it", rows.n_rows)
    check_n_signatures(count, rows.n_rows, subsets)
    chosen = {"name": subsets.name, **subsets.parameters(rows.n_rows)}
    job = {
        "parts": [[part.pair, part.n_rows] for part in parts],
        "n_rados": count,
        "signatures": chosen,
        "release": parts[0].awaited.to_dict(),
    }
    coins, blinds, tag = share_job_keys(secret, job)
    machine, width = self_tested_engine(get_engine(engine)), parts[0].awaited.width
    check_memory_for_rados(machine, count, 3 * width)
    with (show_progress if progress else no_progress)() as bar:
        runner = ThreadRunner(threads, bar)
        task = SumLimbs(machine, count, width, subsets.prepare(coins, count, rows.n_rows, runner.threads))
        sums = runner.run(task, rows).numbers()
    blind = keystream.keystream_words(blinds, width, 0, count)
    sums = sums + blind if parts[0].side == secret_shares.SIDES[0] else sums - blind
    pairs = tuple((part.pair, part.n_rows) for part in parts)
    return secret_shares.PartialSums(parts[0].side, pairs, parts[0].awaited, chosen, tag, sums)


def _check_shares_of_one_side(parts: Sequence[secret_shares.Share]) -> None:
    """Refuse both shares of the same rows, the same one twice, shares of both sides, and rows of other releases."""
    first = parts[0]
    seen: dict[str, secret_shares.Share] = {}
    for part in parts:
        if (other := seen.get(part.pair)) is not None:
            raise ArgumentError(
                f"{other.name} and {part.name} are the same share twice; give it once"
                if other.side == part.side
                else f"{other.name} and {part.name} are both shares of the same rows, and together are these rows; no "
                "server may have both: delete one of them here"
            )
        if part.side != first.side:
            raise ArgumentError(
                f"{first.name} is of side {first.side} and {part.name} of side {part.side}; give one server the shares "
                "of one side alone"
            )
        secret_shares.refuse_shares_of_other_release(first.awaited, part.awaited, (first.name, part.name))
        seen[part.pair] = part


@dataclass(frozen=True, eq=False)
class _Rows:
    n_rows: int
    rows: NDArray[np.uint64]


class _SharedRows:
    """Shares of several senders as one table of numbers."""

    def __init__(self, parts: Sequence[secret_shares.Share]) -> None:
        self._parts, self.name = parts, ", ".join(part.name for part in parts)
        self.features = tuple(map(str, range(parts[0].awaited.width)))
        self.n_rows = sum(part.n_rows for part in parts)

    def batches(self, rows: int | None = None) -> Iterator[_Rows]:
        most = round_to_whole_tiles(min(rows or secret_shares.MOST_ROWS, _BATCH_NUMBERS // len(self.features)))
        return (_Rows(len(batch), batch) for part in self._parts for batch in part.batches(most))

    def expected_rows(self, rows_read: int) -> int | None:
        return self.n_rows


@dataclass
class LimbSums(AddedFields):
    """Sums of the three limbs of each number, side by side."""

    totals: NDArray[np.int64]

    def numbers(self) -> NDArray[np.uint64]:
        low, middle, high = np.split(np.ascontiguousarray(self.totals).view(np.uint64), 3, axis=1)
        numbers: NDArray[np.uint64] = low + (middle << np.uint64(_LIMB)) + (high << np.uint64(2 * _LIMB))
        return numbers


@dataclass(frozen=True, eq=False)
class SumLimbs:
    """A pass over shares: numbers of 64 bits as three limbs that engines take, added to every rado that has the row."""

    engine: Engine
    n_rados: int
    width: int
    prepared: SignatureStream

    title = "summing shares"

    @property
    def rows_at_a_time(self) -> int | None:
        """Few enough that an interrupt does not wait long."""
        return rows_per_sum_batch(self.n_rados, 3 * self.width, self.engine)

    @property
    def worker_bytes(self) -> int:
        return self.engine.worker_bytes(self.n_rados, 3 * self.width)

    def empty(self) -> LimbSums:
        return LimbSums(self.engine.totals(self.n_rados, 3 * self.width))

    def add(self, sums: LimbSums, first_row: int, batch: Any) -> None:
        self.engine.sum_rows(share_limbs(batch.rows), first_row, self.prepared, sums.totals)


def share_limbs(rows: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The three limbs of each number, all low ones first: below 2**22, so that any engine takes them."""
    mask = np.uint64((1 << _LIMB) - 1)
    shifts = (np.uint64(0), np.uint64(_LIMB), np.uint64(2 * _LIMB))
    return np.hstack([(rows >> shift & mask).astype(np.int32) for shift in shifts])
