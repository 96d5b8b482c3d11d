"""ChaCha20 bits for a block of rows: whether example i is in rado j is one bit of a keyed stream.

word(t, j), for tile t = i // 64, is the little-endian uint64 at byte ((t % 65536) * n + j) * 8 of the ChaCha20
keystream (RFC 8439, block counter from 0) under the key and the nonce `plane (4 bytes) || t // 65536 (8
bytes)`, little-endian. Any byte of it can be computed anywhere: partitions need no common state.
"""

import hashlib
import io
import pickle
import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.tables.table import TILE_ROWS as TILE_ROWS

SLAB_TILES = 65536
MAX_RADOS = 524_288  # with more, a slab would need more blocks than the 32-bit counter has
_ZEROS = bytes(1 << 20)  # large calls: the cipher runs three times faster than in calls of 8 kB


class Key(bytes):
    """32 bytes that nobody should read: a key prints as no more than that. One from the operating system is `fresh`.

    What is cut from a key or put together with one is as mute, and as fresh. Its bytes come out only by `hex`, by
    `bytes.join`, or through a view of its memory.
    """

    fresh: bool = False

    @classmethod
    def from_system(cls) -> "Key":
        """32 bytes from the operating system."""
        key = cls(secrets.token_bytes(32))
        key.fresh = True
        return key

    def for_part(self) -> "Key":
        """The key for one part of a table that is summed elsewhere, where others need not know it.

        If this one came from the operating system, that gives another, so that whoever sums a part knows no more than
        the coins of that part's own rows (K5 of docs/proofs/clusters.md). A key that follows from a seed is the same
        for all of them.
        """
        return Key.from_system() if self.fresh else self

    def __getitem__(self, place: Any) -> Any:
        some = super().__getitem__(place)
        return _unpickle_key(some, self.fresh) if isinstance(some, bytes) else some

    def __add__(self, other: Any) -> "Key":
        return _unpickle_key(super().__add__(other), self.fresh or getattr(other, "fresh", False))

    def __radd__(self, other: Any) -> "Key":
        return _unpickle_key(bytes.__add__(other, self), self.fresh)

    def __bytes__(self) -> "Key":
        return self

    def shared(self) -> "Key":
        """The same key, for all parts of a table alike: those who sum them need to know one key."""
        return Key(self)

    def __repr__(self) -> str:
        return "Key(...)"

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, form: str) -> str:
        return repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_key, (super().__getitem__(slice(None)), self.fresh)  # plain bytes


def _unpickle_key(content: bytes, fresh: bool) -> Key:
    key = Key(content)
    key.fresh = fresh
    return key


class _WithoutFresh(pickle.Pickler):
    """Pickles everything but the bytes of fresh keys."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Key) and thing.fresh:
            return _unpickle_key, (b"", True)
        return NotImplemented


def pickle_without_fresh_keys(thing: Any) -> bytes:
    """Something pickled for anyone to see: what was fresh of its keys is left out.

    Whoever gets it asks each key for one of its own by `for_part`, which comes from the operating system there. A key
    that is used as it is has no bytes, and the cipher refuses it.
    """
    target = io.BytesIO()
    _WithoutFresh(target, pickle.HIGHEST_PROTOCOL).dump(thing)
    return target.getvalue()


def make_key(seed: int | None) -> Key:
    """A key from the operating system, or the one that stands for `seed`."""
    if seed is None:
        return Key.from_system()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentError(f"seed must be a whole number of at least 0, or None; it is {seed!r}")
    return Key(hashlib.sha256(f"radoboost/seed/{int(seed)}".encode("ascii")).digest())


def keystream_words(
    key: bytes,
    n_rados: int,
    first_tile: int,
    n_tiles: int,
    *,
    plane: int = 0,
    out: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """The words of tiles first_tile .. first_tile + n_tiles, shape (n_tiles, n_rados)."""
    if out is None:
        out = np.empty((n_tiles, n_rados), dtype="<u8")
    done = 0
    while done < n_tiles:
        slab, tile = divmod(first_tile + done, SLAB_TILES)
        count = min(n_tiles - done, SLAB_TILES - tile)
        nonce = plane.to_bytes(4, "little") + slab.to_bytes(8, "little")
        _fill_from_keystream(key, nonce, tile * n_rados * 8, out[done : done + count].data.cast("B"))
        done += count
    return out


def keystream_parts(
    key: bytes, plane: int, parts: Iterable[tuple[int, int, int]], out: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """For each part (slab, first, count): that many words of the slab's own stream, one part after the other."""
    target, done = out.data.cast("B"), 0
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    prefix = plane.to_bytes(4, "little")
    for slab, first, count in parts:
        _seek_keystream(stream, prefix + slab.to_bytes(8, "little"), 8 * first)
        _write_keystream(stream, target[done : done + 8 * count])
        done += 8 * count
    return out


def _fill_from_keystream(key: bytes, nonce: bytes, start: int, target: memoryview) -> None:
    stream = Cipher(ChaCha20(key, bytes(4) + nonce), mode=None).encryptor()
    _seek_keystream(stream, nonce, start)
    _write_keystream(stream, target)


def _seek_keystream(stream: CipherContext, nonce: bytes, start: int) -> None:
    block, skip = divmod(start, 64)
    stream.reset_nonce(block.to_bytes(4, "little") + nonce)
    if skip:
        stream.update(_ZEROS[:skip])


def _write_keystream(stream: CipherContext, target: memoryview) -> None:
    zeros = memoryview(_ZEROS)
    for a in range(0, len(target), len(_ZEROS)):
        piece = target[a : a + len(_ZEROS)]
        stream.update_into(zeros[: len(piece)], piece)
