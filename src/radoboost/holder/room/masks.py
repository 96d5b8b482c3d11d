"""What hides numbers in a room: keys that two holders share, pads, and sealed boxes.

All keys are drawn or derived for one sum: X25519 between two holders, HKDF-SHA256 from what they share, with the
session (agreement and stage) as its salt. A pad is a ChaCha20 keystream read as 64-bit numbers; a box is
ChaCha20-Poly1305. Every derived key has one use: one pad, or one box in one direction (B2 of
docs/proofs/secure-sums.md).
"""

import hashlib
import json
import secrets

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from radoboost.holder.keystream import Key, words

KEY_BYTES = 32
TAG_BYTES = 16
_NONCE = bytes(12)  # a key seals once


def session(agreement: bytes, stage: int) -> bytes:
    """What all keys of one sum are bound to: SHA-256 of agreement and stage."""
    return hashlib.sha256(b"radoboost/room/session/" + agreement + stage.to_bytes(8)).digest()


def new_key() -> Key:
    """A private key for X25519, or a seed: 32 bytes from the operating system."""
    return Key(secrets.token_bytes(KEY_BYTES))


def public(private: Key) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def shared(private: Key, other: bytes) -> Key | None:
    """What two holders alone can compute; None if `other` is no public key that hides anything."""
    try:
        return Key(X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other)))
    except ValueError:
        return None


def derived(secret: Key, bound: bytes, *use: str) -> Key:
    """The key for one use of a secret, within the session `bound`."""
    info = json.dumps(["radoboost/room", *use]).encode()
    return Key(HKDF(SHA256(), KEY_BYTES, salt=bound, info=info).derive(secret))


def pad(key: Key, count: int) -> NDArray[np.uint64]:
    """`count` numbers that look uniform to anyone without the key."""
    return words(key, count, 0, 1)[0] if count else np.empty(0, np.uint64)


def seal(key: Key, content: bytes, about: bytes) -> bytes:
    """A box that only the same key opens, and only with the same words about it; a key seals one box."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, about)


def unseal(key: Key, box: bytes, about: bytes) -> Key | None:
    """What is in a box; None if it was changed, or is another's."""
    try:
        return Key(ChaCha20Poly1305(key).decrypt(_NONCE, box, about))
    except InvalidTag:
        return None
