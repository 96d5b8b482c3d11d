"""The table as a mechanism sees it: passes over it, noise on their sums, rows to keep.

A mechanism never sees rows. It asks for sums, with noise or without. Noise is integer, and is added once, after the
sums of all parts were merged. A mechanism first books what it is about to spend. Only then is there a key for its
noise: it comes from the operating system, serves that booking alone, and is stored nowhere.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.engines import Engine
from radoboost.holder.keystream import Key
from radoboost.holder.noise import round_scale_up, rounded_normals
from radoboost.holder.passes import Pass, Readable, RowPass, S, Sums
from radoboost.holder.runners import Runner
from radoboost.privacy import Event
from radoboost.tables import Source


@dataclass(frozen=True)
class Noise:
    """Noise on one array of a sum, of standard deviation `scale` in its integer steps; 0 means no noise.

    Noise on a `symmetric` array has that deviation on the diagonal, and `scale` / sqrt(2) off it, the same on both
    sides.
    """

    array: str
    scale: float
    symmetric: bool = False


@dataclass(frozen=True)
class RowNoise:
    """Noise on every row of a table: one draw a row, by its number."""

    key: bytes = field(repr=False)
    scale: float

    def for_part(self) -> "RowNoise":
        """Noise for a part that is summed elsewhere, of its own key, unless one was given (K5)."""
        return replace(self, key=self.key.for_part()) if isinstance(self.key, Key) else self

    def rows(self, first_row: int, n_rows: int, n_columns: int) -> NDArray[np.int64]:
        """The noise of `n_rows` rows from `first_row` on."""
        return rounded_normals(self.key, self.scale, first_row, n_rows, n_columns)


class Run:
    """One release in the making: a source, an engine, a runner, and the key of its noise.

    `ledger` books an event, or refuses it. A `noise_key` is for audits and tests: each booking's key follows from it.
    """

    def __init__(
        self,
        source: Source,
        engine: Engine,
        runner: Runner,
        noise_key: bytes | None = None,
        ledger: Callable[[Event], object] | None = None,
    ) -> None:
        self.source, self.engine, self._runner = source, engine, runner
        self._given_key, self._ledger = noise_key, ledger
        self._key: Key | None = None
        self._bookings = self._plane = 0

    def book(self, event: Event) -> None:
        """Book what is about to be spent, whatever comes of it, and make a fresh key for its noise."""
        if self._ledger is not None:
            self._ledger(event)
        self._bookings += 1
        self._plane = 0
        if self._given_key is None:
            self._key = Key.from_system()  # never from a seed
        else:
            place = self._bookings.to_bytes(8, "little")
            self._key = Key(hashlib.sha256(b"radoboost/noise/" + place + self._given_key).digest())

    def _noise_key(self) -> Key:
        if self._key is None:
            raise RuntimeError("a mechanism must book what it spends before it draws noise")
        return self._key

    @property
    def threads(self) -> int:
        """How many threads this machine has for work that is not a pass."""
        return self._runner.threads

    def expect(self, passes: int) -> None:
        """Announce how many passes there will be in all, as far as is known by now."""
        self._runner.expect(passes)

    def sizes(self) -> list[int]:
        """How many rows each part of the table has, by reading them if need be."""
        return self._runner.sizes(self.source)

    def sum(self, task: Pass[S], source: Readable | None = None) -> S:
        """The sum over all rows of the table, or of `source`."""
        return self._runner.run(task, self.source if source is None else source)

    def noisy_sum(self, task: Pass[S], *noises: Noise, source: Readable | None = None) -> S:
        """The sum over all rows, with noise on some of its arrays."""
        total = self.sum(task, source)
        self.add_noise(total, *noises)
        return total

    def add_noise(self, total: Sums, *noises: Noise) -> None:
        """Add noise to arrays of a sum over all rows, here and nowhere else (K6 of docs/proofs/clusters.md)."""
        for noise in noises:
            array: NDArray[np.int64] = getattr(total, noise.array)
            array += self._noise_for(array, noise)  # in place, so that noise that is not integer would fail

    def row_noise(self, scale: float) -> RowNoise:
        """Noise for the rows of one pass; it takes up the first plane of the key."""
        assert self._plane == 0, "no plane of a key serves twice"
        self._plane = 1
        return RowNoise(self._noise_key(), round_scale_up(scale))

    def keep(self, task: RowPass, n_rows: int | None, source: Readable | None = None) -> Readable:
        """The rows that `task` makes, about `n_rows` of them, kept for later passes; None if there will be only one.

        They are made of the table's, or of those of `source`; if they are kept, they take the place of rows that were
        kept there.
        """
        return self._runner.keep(self.source if source is None else source, task, n_rows)

    def _noise_for(self, array: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        if not noise.symmetric:
            return self.noise(noise.scale, array.reshape(-1, array.shape[-1]).shape).reshape(array.shape)
        diagonal = self.noise(noise.scale, (1, len(array)))[0]
        off_diagonal = np.triu(self.noise(noise.scale / np.sqrt(2), array.shape), 1)
        return np.diag(diagonal) + off_diagonal + off_diagonal.T

    def noise(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Noise alone, from a fresh plane of the key; zeros if `scale` is 0."""
        key = self._noise_key() if scale else b""
        plane, self._plane = self._plane, self._plane + 1
        if scale == 0:
            return np.zeros(shape, dtype=np.int64)
        return rounded_normals(key, round_scale_up(scale), 0, shape[0], shape[1], plane=plane)
