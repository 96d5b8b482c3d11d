"""A row of integers in one number, so that numbers add up as rows do.

Integer k of a row is shifted by k slots. Slots are as wide as the sum of so many rows may get, with its sign: then no
sum runs over into the next slot (E5 of docs/proofs/shares.md), and nothing of how many rows were summed is needed to
take sums apart. Slots are whole bytes, at most 8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.release.awaited import GRID_BITS


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
        return (GRID_BITS + self.most_rows.bit_length() + 1 + 7) // 8

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
        if rows.size and max(int(rows.max()), -int(rows.min())) > 1 << GRID_BITS:
            raise ArgumentError(f"integers of rows must be at most 2**{GRID_BITS} in magnitude, or slots run over")
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
