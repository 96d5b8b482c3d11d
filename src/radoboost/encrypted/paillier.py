"""Paillier's cryptosystem, as Damgard, Jurik and Nielsen made it fast: sums under encryption.

With n = p q, a number x modulo n is encrypted as (1 + n)**x h**r modulo n**2, where h = (-z**2)**n for a random z, and
r is random of half as many bits as n has. The product of two ciphertexts is one of the sum. Powers of h come from a
table. Decryption goes modulo p**2 and q**2. What secrecy rests on is E1 and E2 of docs/proofs/shares.md. Primes are
those of RSA keys of the library `cryptography`, arithmetic is gmpy2's, of the extra `secure`.
"""

import hashlib
import importlib
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from radoboost.errors import ArgumentError, OutputError, install, reason

LEAST_BITS = 2048
_WINDOW = 8  # bits of an exponent that one entry of the table serves
_SMOOTH = 1000  # orders that divide a product of powers up to this are seen
_SPARE = 128  # bits by which a power of h is all but uniform among them (E4)
_PUBLIC, _PRIVATE = "radoboost_paillier_public", "radoboost_paillier_private"


def gmpy2_arithmetic() -> Any:
    """The library gmpy2, imported only now; if it is missing, the error says what to install."""
    try:
        return importlib.import_module("gmpy2")
    except ImportError:
        raise ArgumentError(
            f"encrypted rows need gmpy2; install it with: {install('secure')}; or share rows among two "
            "servers, which needs nothing (rado share)"
        ) from None


@dataclass(frozen=True)
class PublicKey:
    """The key that senders and the crafter have: the modulus n, and h, an n-th power modulo n**2."""

    n: int
    h: int

    def __post_init__(self) -> None:
        if self.n.bit_length() < LEAST_BITS or not 1 < self.h < self.n**2 or math.gcd(self.h, self.n) != 1:
            raise ArgumentError(f"this is no public key of at least {LEAST_BITS:,} bits; make one with secure.keygen()")
        if not _paillier_base_may_hide(self.n, self.h):
            raise ArgumentError(
                "numbers encrypted under this public key could be read by anyone; ask the learner for its key again, "
                "and compare fingerprints by telephone"
            )

    @property
    def bits(self) -> int:
        return self.n.bit_length()

    @property
    def square(self) -> int:
        """The modulus of ciphertexts, n**2."""
        return self.n**2

    @property
    def ciphertext_bytes(self) -> int:
        return (2 * self.bits + 7) // 8

    @cached_property
    def id(self) -> str:
        """A name of the key, by which files tell which one they are under."""
        return hashlib.sha256(f"radoboost/paillier/{self.n:x}/{self.h:x}".encode()).hexdigest()[:32]

    @property
    def fingerprint(self) -> str:
        """The id for people to compare, by telephone: senders must know that the key is the learner's (E6)."""
        return " ".join(self.id[k : k + 4] for k in range(0, len(self.id), 4))

    def to_dict(self) -> dict[str, Any]:
        return {"n": f"{self.n:x}", "h": f"{self.h:x}"}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "PublicKey":
        return cls(int(entry["n"], 16), int(entry["h"], 16))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a file, for senders and the crafter."""
        _write_paillier_key(path, {_PUBLIC: 1, **self.to_dict()}, 0o644)


def _paillier_base_may_hide(n: int, h: int) -> bool:
    """Whether nothing shows that powers of h hide too little; that they do hide cannot be seen without the primes (E6).

    n must have no small factors and be no prime, and powers of h must not be few, modulo any factor of n.
    """
    smooth = math.lcm(*range(1, _SMOOTH + 1))
    if math.gcd(n, smooth) != 1 or pow(2, n - 1, n) == 1:
        return False
    return math.gcd(pow(h, smooth, n) - 1, n) == 1


@dataclass(frozen=True)
class PrivateKey:
    """The key that the learner alone has: the primes of n. It prints as no more than that."""

    p: int = field(repr=False)
    q: int = field(repr=False)
    public: PublicKey

    def __post_init__(self) -> None:
        if self.p * self.q != self.public.n or self.p == self.q:
            raise ArgumentError("these primes are not those of the public key; make both with secure.keygen()")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a file that its owner alone can read; one that is there already is not overwritten."""
        _write_paillier_key(
            path, {_PRIVATE: 1, "p": f"{self.p:x}", "q": f"{self.q:x}", "h": f"{self.public.h:x}"}, 0o600
        )


@dataclass(frozen=True)
class Keys:
    """A pair of keys: `public` for senders and the crafter, `private` for the learner alone."""

    public: PublicKey
    private: PrivateKey


def keygen(bits: int = LEAST_BITS) -> Keys:
    """Make a pair of keys, at the learner.

    The primes are 3 modulo 4 and p - 1, q - 1 have no common factor but 2, as Damgard, Jurik and Nielsen ask.
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or not LEAST_BITS <= bits <= 8192 or bits % 8:
        raise ArgumentError(f"bits must be a multiple of 8 from {LEAST_BITS:,} to 8,192; it is {bits!r}")
    g = gmpy2_arithmetic()
    while True:
        primes = rsa.generate_private_key(65537, bits).private_numbers()
        p, q = primes.p, primes.q
        if p % 4 == q % 4 == 3 and math.gcd(p - 1, q - 1) == 2:
            break
    n = p * q
    z = 0
    while math.gcd(z, n) != 1:
        z = secrets.randbits(bits + _SPARE) % n
    public = PublicKey(n, int(g.powmod(-z * z % n, n, n * n)))
    return Keys(public, PrivateKey(p, q, public))


def load_key(path: str | os.PathLike[str]) -> PublicKey | PrivateKey:
    try:
        document = json.loads(Path(path).read_text(encoding="ascii"))
        if _PUBLIC in document:
            return PublicKey.from_dict(document)
        p, q, h = (int(document[name], 16) for name in "pqh")
        assert _PRIVATE in document
        return PrivateKey(p, q, PublicKey(p * q, h))
    except OSError as error:
        raise ArgumentError(f"cannot read the key {path}: {reason(error)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None
    except (ValueError, LookupError, TypeError, AssertionError):
        raise ArgumentError(f"{path} is not a key for encrypted rows; make one with secure.keygen()") from None


def _write_paillier_key(path: str | os.PathLike[str], document: Mapping[str, Any], mode: int) -> None:
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "w", encoding="ascii") as file:
            file.write(json.dumps(document) + "\n")
    except FileExistsError:
        raise OutputError(
            f"{path} is there already; choose another place, and keep what opens encrypted sums"
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {reason(error)}; choose another place") from None


class Encryptor:
    """Encrypts under a public key, with a table of the powers of h.

    The table has an entry for each value of each window of an exponent. `full` makes exponents so long that a power is
    all but uniform among all powers of h: then it hides the randomness of what it is multiplied by, also from whoever
    has the private key (E4).
    """

    def __init__(self, key: PublicKey, *, full: bool = False) -> None:
        g = gmpy2_arithmetic()
        self.key, self._n, self._square = key, g.mpz(key.n), g.mpz(key.square)
        self._bytes = (key.bits + _SPARE if full else key.bits // 2) // 8
        self._table, base = [], g.mpz(key.h)
        for _ in range(self._bytes):
            row = [g.mpz(1)]
            for _ in range(1 << _WINDOW):
                row.append(row[-1] * base % self._square)
            base = row.pop()
            self._table.append(row)

    def blind(self) -> Any:
        """A random power of h: an encryption of 0."""
        product = self._n * 0 + 1
        for row, place in zip(self._table, secrets.token_bytes(self._bytes), strict=True):
            product = product * row[place] % self._square
        return product

    def encrypt(self, number: int) -> Any:
        """A ciphertext of a number modulo n."""
        return (1 + number % self._n * self._n) * self.blind() % self._square


class Decryptor:
    """Decrypts under a private key, modulo p**2 and q**2 (E3)."""

    def __init__(self, key: PrivateKey) -> None:
        g = gmpy2_arithmetic()
        self._powmod, self.key = g.powmod, key
        n = g.mpz(key.public.n)
        self._halves = []
        for prime in (key.p, key.q):
            p = g.mpz(prime)
            inverse = g.invert(self._logarithm(self._powmod(1 + n, p - 1, p * p), p), p)
            self._halves.append((p, p * p, inverse))
        self._p_inverse = g.invert(self._halves[0][0], self._halves[1][0])

    @staticmethod
    def _logarithm(power: Any, p: Any) -> Any:
        return (power - 1) // p

    def decrypt(self, ciphertext: Any) -> int:
        """The number, between -n / 2 and n / 2."""
        parts = [
            self._logarithm(self._powmod(ciphertext, p - 1, square), p) * inverse % p
            for p, square, inverse in self._halves
        ]
        p, q = self._halves[0][0], self._halves[1][0]
        number = parts[0] + (parts[1] - parts[0]) * self._p_inverse % q * p
        n = self.key.public.n
        return int(number) if number <= n // 2 else int(number) - n


def check_ciphertexts(key: PublicKey, ciphertexts: Iterable[Any], what: str) -> None:
    """Refuse numbers that are no ciphertexts under a key: 0, beyond n**2, or with a common factor with n."""
    g = gmpy2_arithmetic()
    n, square = g.mpz(key.n), g.mpz(key.square)
    product = g.mpz(1)
    for place, ciphertext in enumerate(ciphertexts):
        if not 0 < ciphertext < square:
            raise ArgumentError(f"{what} {place + 1:,} is no ciphertext under this key; ask its sender for it again")
        product = product * ciphertext % n
    if g.gcd(product, n) != 1:
        raise ArgumentError(f"a {what} is no ciphertext under this key; ask senders for their files again")
