"""What hides numbers in a room: keys that two holders share, pads, and sealed boxes.

All keys are drawn or derived for one sum: X25519 between two holders, HKDF-SHA256 from what they share, with the
session (agreement and stage) as its salt. A pad is a ChaCha20 keystream read as 64-bit numbers; a box is
ChaCha20-Poly1305. Every derived key has one use: one pad, or one box in one direction (B2 of
docs/proofs/secure-sums.md).
"""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from radoboost.errors import RoomError
from radoboost.holder.keystream import Key, keystream_words

KEY_BYTES = 32
TAG_BYTES = 16
_NONCE = bytes(12)  # a key seals once


def session_of_sum(agreement: bytes, stage: int) -> bytes:
    """What all keys of one sum are bound to: SHA-256 of agreement and stage."""
    return hashlib.sha256(b"radoboost/room/session/" + agreement + stage.to_bytes(8)).digest()


def new_masking_key() -> Key:
    """A private key for X25519, or a seed: 32 bytes from the operating system."""
    return Key(secrets.token_bytes(KEY_BYTES))


def public_masking_key(private: Key) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def shared_masking_key(private: Key, other: bytes) -> Key | None:
    """What two holders alone can compute; None if `other` is no public key that hides anything."""
    try:
        return Key(X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other)))
    except ValueError:
        return None


def derive_masking_key(secret: Key, bound: bytes, *use: str) -> Key:
    """The key for one use of a secret, within the session `bound`."""
    info = json.dumps(["radoboost/room", *use]).encode()
    return Key(HKDF(SHA256(), KEY_BYTES, salt=bound, info=info).derive(secret))


def masking_pad(key: Key, count: int) -> NDArray[np.uint64]:
    """`count` numbers that look uniform to anyone without the key."""
    return keystream_words(key, count, 0, 1)[0] if count else np.empty(0, np.uint64)


def seal_box(key: Key, content: bytes, about: bytes) -> bytes:
    """A box that only the same key opens, and only with the same words about it; a key seals one box."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, about)


def unseal_box(key: Key, box: bytes, about: bytes) -> Key | None:
    """What is in a box; None if it was changed, or is another's."""
    try:
        return Key(ChaCha20Poly1305(key).decrypt(_NONCE, box, about))
    except InvalidTag:
        return None


# ---- Shamir's shares of a secret of 32 bytes, over the integers modulo the prime 2**521 - 1.
#
# The secret is the value at 0 of a polynomial whose other coefficients are uniform. Its values at 1, 2, ... are
# the shares: any `threshold` of them give the secret, and fewer are uniform and tell nothing (B1 of
# docs/proofs/secure-sums.md).

PRIME = 2**521 - 1
SHARE_BYTES = 66
SECRET_BYTES = 32


def split_secret(secret: bytes, threshold: int, count: int) -> list[Key]:
    """Shares number 1 to `count`, any `threshold` of which give the secret."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= count < PRIME:
        raise RoomError(f"a secret of {SECRET_BYTES} bytes is cut into at least 1 and at least `threshold` shares")
    coefficients = [_uniform_field_element() for _ in range(threshold - 1)] + [
        int.from_bytes(secret)
    ]  # from the highest power down
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in coefficients:
            value = (value * point + coefficient) % PRIME
        shares.append(Key(value.to_bytes(SHARE_BYTES)))
    return shares


def lagrange_weights(points: Sequence[int]) -> dict[int, int]:
    """What each share is multiplied by to give the secret: Lagrange's weights at 0."""
    if len(set(points)) != len(points) or not all(0 < point < PRIME for point in points):
        raise RoomError("shares of a secret have different numbers, from 1 on")
    found = {}
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        found[point] = above * pow(below, -1, PRIME) % PRIME
    return found


def combine_secret_shares(shares: Mapping[int, bytes], factors: Mapping[int, int] | None = None) -> Key | None:
    """The secret of these shares, by their numbers; None if it has more than 32 bytes, so that one must be wrong.

    `factors` are the `lagrange_weights` of these numbers, for whoever needs them more than once.
    """
    factors = lagrange_weights(list(shares)) if factors is None else factors
    secret = 0
    for point, share in shares.items():
        value = int.from_bytes(share)
        if len(share) != SHARE_BYTES or value >= PRIME:
            return None
        secret = (secret + factors[point] * value) % PRIME
    return Key(secret.to_bytes(SECRET_BYTES)) if secret < 1 << 8 * SECRET_BYTES else None


def _uniform_field_element() -> int:
    """A uniform number below the prime."""
    while True:
        number = int.from_bytes(secrets.token_bytes(SHARE_BYTES)) >> 7
        if number < PRIME:
            return number
