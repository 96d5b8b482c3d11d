"""Shamir's shares of a secret of 32 bytes, over the integers modulo the prime 2**521 - 1.

The secret is the value at 0 of a polynomial whose other coefficients are uniform. Its values at 1, 2, ... are the
shares: any `threshold` of them give the secret, and fewer are uniform and tell nothing (B1 of
docs/proofs/secure-sums.md).
"""

import secrets
from collections.abc import Mapping, Sequence

from radoboost.errors import RoomError
from radoboost.holder.keystream import Key

PRIME = 2**521 - 1
SHARE_BYTES = 66
SECRET_BYTES = 32


def split(secret: bytes, threshold: int, count: int) -> list[Key]:
    """Shares number 1 to `count`, any `threshold` of which give the secret."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= count < PRIME:
        raise RoomError(f"a secret of {SECRET_BYTES} bytes is cut into at least 1 and at least `threshold` shares")
    coefficients = [_uniform() for _ in range(threshold - 1)] + [int.from_bytes(secret)]  # from the highest power down
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in coefficients:
            value = (value * point + coefficient) % PRIME
        shares.append(Key(value.to_bytes(SHARE_BYTES)))
    return shares


def weights(points: Sequence[int]) -> dict[int, int]:
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


def combine(shares: Mapping[int, bytes], factors: Mapping[int, int] | None = None) -> Key | None:
    """The secret of these shares, by their numbers; None if it has more than 32 bytes, so that one must be wrong.

    `factors` are the `weights` of these numbers, for whoever needs them more than once.
    """
    factors = weights(list(shares)) if factors is None else factors
    secret = 0
    for point, share in shares.items():
        value = int.from_bytes(share)
        if len(share) != SHARE_BYTES or value >= PRIME:
            return None
        secret = (secret + factors[point] * value) % PRIME
    return Key(secret.to_bytes(SECRET_BYTES)) if secret < 1 << 8 * SECRET_BYTES else None


def _uniform() -> int:
    """A uniform number below the prime."""
    while True:
        number = int.from_bytes(secrets.token_bytes(SHARE_BYTES)) >> 7
        if number < PRIME:
            return number
