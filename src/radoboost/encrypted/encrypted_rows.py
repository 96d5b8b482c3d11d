"""Rows that a crafter sums encrypted: what a sender, the crafter and the learner each do.

The learner makes keys, and gives out the public one. Senders encrypt their rows; the crafter multiplies ciphertexts of
the rows in each signature, which it draws and forgets; the learner decrypts sums. Files are Parquet with the digest of
the whole file, as those of shares are.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.encrypted.paillier import (
    Decryptor,
    Encryptor,
    PrivateKey,
    PublicKey,
    check_ciphertexts,
    gmpy2_arithmetic,
)
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.holder.grid_rows import Route, grid_rows
from radoboost.holder.keystream import TILE_ROWS, Key
from radoboost.holder.request import DEFAULT_RADOS
from radoboost.holder.signatures import AllSignatures, SignatureSet, SignatureStream, check_n_rados, check_n_signatures
from radoboost.progress import Progress, no_progress, show_progress
from radoboost.release import secret_shares
from radoboost.release.parties import ENCRYPTED, Parties
from radoboost.release.release import Release

# ---- A row of integers in one number, so that numbers add up as rows do.
#
# Integer k of a row is shifted by k slots. Slots are as wide as the sum of so many rows may get, with its sign:
# then no sum runs over into the next slot (E5 of docs/proofs/shares.md), and nothing of how many rows were summed
# is needed to take sums apart. Slots are whole bytes, at most 8.


@dataclass(frozen=True)
class Packing:
    """How rows of `width` integers are packed, for sums of at most `most_rows` of them, under a key of so many bits."""

    width: int
    most_rows: int
    key_bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.most_rows < 2**31:
            raise ArgumentError(f"most_rows must lie between 1 and {2**31 - 1:,}; it is {self.most_rows:,}")

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of a slot: sums of `most_rows` integers of at most 2**22 lie strictly within half of its range."""
        return (secret_shares.GRID_BITS + self.most_rows.bit_length() + 1 + 7) // 8

    @cached_property
    def slots(self) -> int:
        """How many integers one number holds: it stays below n / 2 in magnitude."""
        return (self.key_bits - 2) // (8 * self.slot_bytes)

    @cached_property
    def n_numbers(self) -> int:
        """How many numbers a row takes: one, unless it is very wide."""
        return -(-self.width // self.slots)

    @cached_property
    def _offset(self) -> int:
        """Half of a slot's range, in every slot: added to a number, it makes all slots positive."""
        return sum(1 << (8 * self.slot_bytes * (k + 1) - 1) for k in range(self.slots))

    def pack(self, rows: NDArray[np.int64]) -> list[list[int]]:
        if rows.size and max(int(rows.max()), -int(rows.min())) > 1 << secret_shares.GRID_BITS:
            raise ArgumentError(
                f"integers of rows must be at most 2**{secret_shares.GRID_BITS} in magnitude, or slots run over"
            )
        half = np.uint64(1 << (8 * self.slot_bytes - 1))
        padded = np.zeros((len(rows), self.n_numbers * self.slots), np.int64)
        padded[:, : self.width] = rows
        raw = (padded.view(np.uint64) + half).astype("<u8").view(np.uint8).reshape(*padded.shape, 8)
        packed = np.ascontiguousarray(raw[:, :, : self.slot_bytes]).reshape(len(rows), self.n_numbers, -1)
        return [[int.from_bytes(part.tobytes(), "little") - self._offset for part in row] for row in packed]

    def unpack(self, numbers: list[int]) -> NDArray[np.int64]:
        """The sums in the numbers of one rado; what no sum of packed rows can be is refused."""
        return np.concatenate(list(self._unpacked(numbers)))[: self.width]

    def _unpacked(self, numbers: list[int]) -> Iterator[NDArray[np.int64]]:
        length = self.slots * self.slot_bytes
        for number in numbers:
            positive = number + self._offset
            if not 0 <= positive < 1 << (8 * length):
                raise ReleaseError(
                    "what was decrypted is no sum of rows: a ciphertext was altered, or a sender sent something else"
                )
            raw = np.zeros((self.slots, 8), np.uint8)
            raw[:, : self.slot_bytes] = np.frombuffer(positive.to_bytes(length, "little"), np.uint8).reshape(
                self.slots, -1
            )
            yield (raw.view("<u8").ravel().astype(np.uint64) - np.uint64(1 << (8 * self.slot_bytes - 1))).view(np.int64)


ROUTE = Route(
    trust_model="a crafter and a learner that keep apart: the crafter sees encrypted rows and knows which of them each "
    "rado sums, the learner has the key; the crafter may not see this release, nor the learner encrypted rows. Whoever "
    "encrypts sees the rows",
    random_source="ChaCha20 for signatures, under a key from the operating system that the crafter forgets; Paillier's "
    "cryptosystem for rows, with random exponents from the operating system",
    opens=(
        "The crafter and the learner together can decrypt every row. A crafter that has this release and keeps the "
        "signatures solves for the rows exactly, if there are about as many rados as rows or more.",
        "Nobody checks what a sender encrypts: one can ruin the sums, or outweigh all others.",
        "Rows are as secret as Paillier's cryptosystem with short exponents is, at this size of keys.",
        "Column names, scaling constants, classes and the number of rows of each sender are open to the crafter.",
    ),
)
_SLOW_ROWS = 1024  # rows that are encrypted between two looks at the progress bar


@dataclass(frozen=True, eq=False)
class _Encrypted:
    """Ciphertexts of rows or of sums, shape (rows or rados, numbers of each, bytes), big-endian, under a public key."""

    key: PublicKey
    awaited: secret_shares.PendingRelease
    most_rows: int
    parts: tuple[tuple[str, int], ...]
    ciphertexts: NDArray[np.uint8]

    def __post_init__(self) -> None:
        shape = self.packing.n_numbers, self.key.ciphertext_bytes
        if self.ciphertexts.ndim != 3 or self.ciphertexts.dtype != np.uint8 or self.ciphertexts.shape[1:] != shape:
            raise ReleaseError(
                f"ciphertexts of shape {self.ciphertexts.shape} are cut short, or of another key: each row has "
                f"{shape[0]:,} of {shape[1]:,} bytes"
            )

    @property
    def packing(self) -> Packing:
        """How integers lie in ciphertexts."""
        return Packing(self.awaited.width, self.most_rows, self.key.bits)

    @property
    def n_rows(self) -> int:
        return sum(rows for _, rows in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """All but the ciphertexts, as JSON data."""
        return {
            "key": {"id": self.key.id, **self.key.to_dict()},
            "most_rows": self.most_rows,
            "parts": [{"pair": name, "rows": rows} for name, rows in self.parts],
            "release": self.awaited.to_dict(),
        }

    def numbers(self, place: int, column: int) -> Any:
        return gmpy2_arithmetic().mpz(int.from_bytes(self.ciphertexts[place, column].tobytes(), "big"))

    def _save(self, path: str | os.PathLike[str], kind: str) -> None:
        size = self.key.ciphertext_bytes
        names = [str(k) for k in range(self.packing.n_numbers)]
        schema = pa.schema([(name, pa.binary(size)) for name in names])
        columns = [
            pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(size),
                len(self.ciphertexts),
                [None, pa.py_buffer(np.ascontiguousarray(self.ciphertexts[:, k]))],
            )
            for k in range(len(names))
        ]
        with secret_shares.write_share_file(Path(path), kind, schema, self.to_dict()) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


@dataclass(frozen=True, eq=False)
class EncryptedRows(_Encrypted):
    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ciphertexts) != self.n_rows:
            raise ReleaseError(f"{len(self.ciphertexts):,} rows are here, of {self.n_rows:,}; ask the sender again")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one Parquet file, whole or not at all."""
        self._save(path, "encrypted-rows")


@dataclass(frozen=True, eq=False)
class EncryptedSums(_Encrypted):
    """Sums over signatures, encrypted; `signatures` describes these as a release does."""

    signatures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """All but the ciphertexts, as JSON data."""
        return {**super().to_dict(), "signatures": self.signatures}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one Parquet file, whole or not at all."""
        self._save(path, "encrypted-sums")


def _read_encrypted_rows(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    key = PublicKey.from_dict(document["key"])
    table = pq.read_table(path)
    if any(column.type != pa.binary(key.ciphertext_bytes) for column in table.columns):
        raise ReleaseError("its ciphertexts are not as long as those of its key")
    columns = [
        np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(table.num_rows, -1) for column in table.columns
    ]
    return {
        "key": key,
        "awaited": secret_shares.PendingRelease.from_dict(document["release"]),
        "most_rows": int(document["most_rows"]),
        "parts": secret_shares.check_share_parts(document["parts"]),
        "ciphertexts": np.stack(columns, axis=1),
    }


def load_rows(path: str | os.PathLike[str]) -> EncryptedRows:
    with secret_shares.read_share_file(Path(path), "encrypted-rows") as document:
        return EncryptedRows(**_read_encrypted_rows(Path(path), document))


def load_sums(path: str | os.PathLike[str]) -> EncryptedSums:
    with secret_shares.read_share_file(Path(path), "encrypted-sums") as document:
        signatures = {"name": document["signatures"]["name"], **document["signatures"]}
        return EncryptedSums(**_read_encrypted_rows(Path(path), document), signatures=signatures)


# ---- what a sender does


def encrypt(
    table: Any, key: PublicKey, y: Any = None, *, most_rows: int | None = None, progress: bool = False, **options: Any
) -> EncryptedRows:
    """Encrypt the rows of a table, at a sender: each in one ciphertext, unless it is very wide.

    `most_rows` is how many rows of all senders may be summed; by default those of this table, for a single sender.
    Several senders need the same number, and the same columns: declare bounds, with scale="bounds". Other options are
    those of `share`.
    """
    _check_public_key(key)
    with grid_rows(table, y, ROUTE, **options) as rows, _progress_of_encryption(progress) as bar:
        most = rows.n_rows if most_rows is None else most_rows
        if rows.n_rows > most:
            raise ArgumentError(f"there are {rows.n_rows:,} rows, and most_rows is {most:,}; give at least that")
        packing = Packing(rows.awaited.width, most, key.bits)
        encryptor, size = Encryptor(key), key.ciphertext_bytes
        out = np.empty((rows.n_rows, packing.n_numbers, size), np.uint8)
        done = 0
        for integers in rows.batches():
            for numbers in packing.pack(integers):
                for k, number in enumerate(numbers):
                    out[done, k] = np.frombuffer(int(encryptor.encrypt(number)).to_bytes(size, "big"), np.uint8)
                done += 1
                if done % _SLOW_ROWS == 0:
                    bar("encrypting rows", done, rows.n_rows)
        return EncryptedRows(key, rows.awaited, most, ((secrets.token_hex(16), rows.n_rows),), out)


def _check_public_key(key: Any) -> None:
    if not isinstance(key, PublicKey):
        raise ArgumentError("rows are encrypted under a public key, secure.keygen().public, which the learner has")


def _progress_of_encryption(progress: bool) -> Any:
    return (show_progress if progress else no_progress)()


# ---- what the crafter does


def craft(
    rows: EncryptedRows | Sequence[EncryptedRows],
    n_rados: int = DEFAULT_RADOS,
    *,
    signatures: SignatureSet | None = None,
    key: bytes | None = None,
    progress: bool = False,
) -> EncryptedSums:
    """Sum encrypted rows over signatures, at the crafter, who can read neither rows nor sums.

    Signatures come from a key of the operating system, which is forgotten; `key` is for tests. Every result is
    multiplied by a fresh encryption of 0, so that the learner sees of it the sum and nothing else (E4).

    >>> from radoboost import secure
    >>> keys = secure.keygen()
    >>> rows = secure.encrypt([[1.0], [2.0], [3.0]], keys.public, [0, 1, 1])
    >>> secure.open(secure.craft(rows, 5), keys.private).rados.shape
    (5, 2)
    """
    senders = [rows] if isinstance(rows, EncryptedRows) else list(rows)
    _check_senders_of_encrypted_rows(senders)
    first = senders[0]
    m, count, subsets = (
        sum(part.n_rows for part in senders),
        check_n_rados(n_rados),
        signatures or AllSignatures(),
    )
    if m > first.most_rows:
        raise ArgumentError(
            f"there are {m:,} rows of all senders, and they were packed for sums of {first.most_rows:,}; let all "
            f"senders encrypt again with most_rows={m}"
        )
    check_n_signatures(count, m, subsets)
    prepared = subsets.prepare(Key.from_system() if key is None else Key(key), count, m)
    encryptor, size = Encryptor(first.key, full=True), first.key.ciphertext_bytes
    out = np.empty((count, first.packing.n_numbers, size), np.uint8)
    with _progress_of_encryption(progress) as bar:
        for k in range(first.packing.n_numbers):
            numbers = [part.numbers(place, k) for part in senders for place in range(part.n_rows)]
            check_ciphertexts(first.key, numbers, "row")
            products = _ciphertext_products(numbers, first.key, prepared, count, bar)
            for j, product in enumerate(products):
                hidden = int(product * encryptor.blind() % first.key.square)
                out[j, k] = np.frombuffer(hidden.to_bytes(size, "big"), np.uint8)
    chosen = {"name": subsets.name, **subsets.parameters(m)}
    parts = tuple(part for sender in senders for part in sender.parts)
    return EncryptedSums(first.key, first.awaited, first.most_rows, parts, out, chosen)


def _check_senders_of_encrypted_rows(senders: Sequence[EncryptedRows]) -> None:
    if not senders:
        raise ArgumentError("there are no encrypted rows; give at least those of one sender")
    first, names = senders[0], [name for sender in senders for name, _ in sender.parts]
    if len(set(names)) < len(names):
        raise ArgumentError("the same encrypted rows are there twice; give them once")
    for k, other in enumerate(senders[1:], start=2):
        if other.key.id != first.key.id:
            raise ArgumentError(
                f"the rows of sender {k} are under key {other.key.id[:8]} and those of the first under "
                f"{first.key.id[:8]}; let all of them use the public key of one learner"
            )
        if other.most_rows != first.most_rows:
            raise ArgumentError(
                f"the rows of sender {k} are packed for sums of {other.most_rows:,} rows and those of the first for "
                f"{first.most_rows:,}; let all senders agree on most_rows"
            )
        secret_shares.refuse_shares_of_other_release(first.awaited, other.awaited, ("the first sender", f"sender {k}"))


def _ciphertext_products(
    numbers: list[Any], key: PublicKey, prepared: SignatureStream, n_rados: int, bar: Progress
) -> list[Any]:
    """For each rado the product of the ciphertexts that its signature has.

    All products of a few rows are tabulated, and each rado picks one: m n / 8 products in place of m n / 2.
    """
    g = gmpy2_arithmetic()
    square = g.mpz(key.square)
    bits = min((8, 4, 2, 1), key=lambda bits: (2**bits + n_rados) / bits)  # rows of a table; they divide a tile
    products = [g.mpz(1)] * n_rados
    for tile, words in _signature_tiles(prepared, len(numbers), n_rados):
        own = numbers[tile * TILE_ROWS : (tile + 1) * TILE_ROWS]
        for start in range(0, len(own), bits):
            table = [g.mpz(1)]
            for number in own[start : start + bits]:
                table += [entry * number % square for entry in table]
            places = (words >> np.uint64(start) & np.uint64(len(table) - 1)).tolist()
            products = [
                product * table[place] % square if place else product
                for product, place in zip(products, places, strict=True)
            ]
        bar("multiplying ciphertexts", min((tile + 1) * TILE_ROWS, len(numbers)), len(numbers))
    return products


def _signature_tiles(prepared: SignatureStream, n_rows: int, n_rados: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    for tile in range(-(-n_rows // TILE_ROWS)):
        yield tile, prepared.words(tile, 1, np.empty((1, n_rados), np.uint64))[0]


# ---- what the learner does


def open_sums(sums: EncryptedSums, key: PrivateKey, *, progress: bool = False) -> Release:
    """Decrypt sums, at the learner: the plain release, to the last bit what `craft` makes under the same signatures."""
    if not isinstance(key, PrivateKey):
        raise ArgumentError("sums are decrypted under the private key, secure.keygen().private, of the learner")
    if key.public.id != sums.key.id:
        raise ArgumentError(
            f"these sums are under key {sums.key.id[:8]}, and this is the private key of {key.public.id[:8]}; take the "
            "key that senders used"
        )
    decryptor, totals = Decryptor(key), np.empty((len(sums.ciphertexts), sums.awaited.width), np.int64)
    with _progress_of_encryption(progress) as bar:
        for j, row in enumerate(_encrypted_sum_rows(sums)):
            check_ciphertexts(sums.key, row, f"sum {j + 1:,}: number")
            totals[j] = sums.packing.unpack([decryptor.decrypt(number) for number in row])
            bar("decrypting sums", j + 1, len(totals))
    holders = Parties(ENCRYPTED, tuple({"pair": name, "rows": rows} for name, rows in sums.parts))
    return sums.awaited.finished(totals, sums.n_rows, sums.signatures, holders, secrets.token_hex(16))


def _encrypted_sum_rows(sums: EncryptedSums) -> Iterable[list[Any]]:
    return ([sums.numbers(j, k) for k in range(sums.packing.n_numbers)] for j in range(len(sums.ciphertexts)))
