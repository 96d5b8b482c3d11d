"""Signature sets Sigma_r: which subsets of the examples a rado may sum.

A set is described as data and addressed by (tile, rado): nothing of size m x n is ever stored. Bit i % 64 of
word (i // 64, j) says whether example i is in rado j.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost import keystream
from radoboost.errors import ArgumentError
from radoboost.keystream import MAX_RADOS


class SignatureSet(Protocol):
    """What crafting asks of a signature set."""

    @property
    def name(self) -> str:
        """The name that stands in a release."""

    def size(self, n_examples: int) -> int:
        """How many signatures there are for this many examples."""

    def words(
        self, key: bytes, n_rados: int, first_tile: int, n_tiles: int, out: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Membership words of a block of tiles, shape (n_tiles, n_rados)."""


@dataclass(frozen=True)
class AllSignatures:
    """All of Sigma_m, each signature with the same probability: every example joins every rado by a fair coin.

    >>> AllSignatures().size(10)
    1024
    """

    name: ClassVar[str] = "all"

    def size(self, n_examples: int) -> int:
        """2**m."""
        return int(2**n_examples)

    def words(
        self, key: bytes, n_rados: int, first_tile: int, n_tiles: int, out: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Plane 0 of the keystream, as it comes."""
        return keystream.words(key, n_rados, first_tile, n_tiles, out=out)


SIGNATURE_SETS: dict[str, type[SignatureSet]] = {AllSignatures.name: AllSignatures}


def check_n_rados(n_rados: object) -> int:
    """n_rados as an int, if a keystream can address that many."""
    if isinstance(n_rados, bool) or not isinstance(n_rados, int | np.integer):
        raise ArgumentError(f"n_rados must be a whole number; it is {n_rados!r}")
    if not 1 <= n_rados <= MAX_RADOS:
        raise ArgumentError(f"n_rados must lie between 1 and {MAX_RADOS:,}; it is {int(n_rados):,}")
    return int(n_rados)


def check_enough_examples(n_rados: int, n_examples: int, signatures: SignatureSet) -> None:
    """Refuse more rados than there are signatures."""
    if n_examples < 64 and n_rados > signatures.size(n_examples):
        raise ArgumentError(
            f"n_rados is {n_rados:,}, but {n_examples} rows have only "
            f"{signatures.size(n_examples):,} signatures; ask for at most that many rados"
        )
