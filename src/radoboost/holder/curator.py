"""The table as a mechanism sees it: passes over it, noise on their sums, rows to keep.

A mechanism never sees rows. It asks for sums, with noise or without. Noise is integer, and is added once, after the
sums of all parts were merged. A mechanism first books what it is about to spend. Only then is there a key for its
noise: it comes from the operating system, serves that booking alone, and is stored nowhere.

Where several holders make one release, each runs the mechanism over its own rows. A sum that the release is made of is
then one over the rows of all: each holder adds its share of the noise, and a `SecureAggregator` brings the sums
together so that nobody sees another's.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.aggregation import Accumulator, Aggregation, RowSource, RowTransform, S
from radoboost.holder.engines import Engine
from radoboost.holder.gaussian_noise import rounded_normals, scale_rounded_up
from radoboost.holder.keystream import Key
from radoboost.holder.runners import Runner
from radoboost.privacy import Event
from radoboost.privacy.calibration import LEAST_SHARE
from radoboost.privacy.events import event_about_lines
from radoboost.tables import Table
from radoboost.tables.csv_dialect import LINES


@dataclass(frozen=True)
class NoiseSpec:
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
        return rounded_normals(self.key, self.scale, first_row, n_rows, n_columns)


class SecureAggregator(Protocol):
    """Where the sums of several holders come together; each of them has one, and all ask it for the same things."""

    @property
    def noise_share(self) -> float:
        """Which part of a noise's standard deviation each holder adds."""

    @property
    def noise_factor(self) -> float:
        """How many times the standard deviation that was asked for the shares of those who are here come to."""

    def begin(self, event: Event) -> None:
        """Note, on disk, that something begins that is never repeated: it is booked, and has no key yet."""

    def total(self, arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The sums over all holders; nobody learns more than these."""

    def agreed(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
        """JSON data that one holder computes from what was released, for all: two machines may round otherwise.

        They come as `read` makes them; if it cannot, whoever sent them is named.
        """


class Curator:
    """One release in the making: a source, an engine, a runner, and the key of its noise.

    `ledger` books an event, or refuses it. A `noise_key` is for audits and tests: each booking's key follows from it.
    With a `pool` the release is about the rows of several holders. `survey` is what the first pass found
    (`TableSurvey`), where the mechanism may look at the table.
    """

    survey: Any = None

    def __init__(
        self,
        source: Table,
        engine: Engine,
        runner: Runner,
        noise_key: bytes | None = None,
        ledger: Callable[[Event], object] | None = None,
        pool: SecureAggregator | None = None,
    ) -> None:
        self.source, self.engine, self._runner, self._pool = source, engine, runner, pool
        self._given_key, self._ledger = noise_key, ledger
        # Any of several holders may have CSV files.
        self._lines = (source.csv or pool is not None) and getattr(source.schema, "records", None) == LINES
        self._key: Key | None = None
        self._bookings = self._plane = 0

    def book(self, event: Event) -> None:
        """Book what is about to be spent, whatever comes of it, and make a fresh key for its noise."""
        event = event_about_lines(event) if self._lines else event
        if self._ledger is not None:
            self._ledger(event)
        if self._pool is not None:
            self._pool.begin(event)
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
    def several(self) -> bool:
        """Whether several holders make the release, so that each of them sees its totals."""
        return self._pool is not None

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

    def sum(self, task: Aggregation[S], source: RowSource | None = None) -> S:
        """The sum over all rows of the table, or of `source`; of this holder alone, where there are several."""
        return self._runner.run(task, self.source if source is None else source)

    def noisy_sum(self, task: Aggregation[S], *noises: NoiseSpec, source: RowSource | None = None) -> S:
        """The sum over all rows, with noise on some of its arrays; those are of all holders."""
        total = self.sum(task, source)
        self.add_noise(total, *noises)
        return total

    def add_noise(self, total: Accumulator, *noises: NoiseSpec) -> None:
        """Add noise to arrays of a sum over all rows, here and nowhere else (K6 of docs/proofs/clusters.md).

        Where there are several holders, these arrays are then of all of them, and the others stay this holder's own.
        """
        arrays: list[NDArray[np.int64]] = [getattr(total, noise.array) for noise in noises]
        for array, released in zip(arrays, self.released(arrays, noises), strict=True):
            array[...] = released

    def noisy(self, exact: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Exact integers of this table with noise; of all holders, where there are several."""
        return self.released([exact.copy()], [NoiseSpec("", scale)])[0]

    def released(self, arrays: Sequence[NDArray[np.int64]], noises: Sequence[NoiseSpec]) -> Sequence[NDArray[np.int64]]:
        """What is released of exact sums: the one way out for every noisy sum.

        Noise is added in place, so that noise that is not integer would fail.
        """
        for array, noise in zip(arrays, noises, strict=True):
            array += self._noise_for(array, noise)
        return self.pooled(arrays)

    def pooled(self, arrays: Sequence[NDArray[np.int64]]) -> Sequence[NDArray[np.int64]]:
        """The sums of these over all holders: they are about to be released, so they have their noise by now."""
        return arrays if self._pool is None or not arrays else self._pool.total(arrays)

    def total_rows(self, n_rows: int) -> int:
        """How many rows there are in all, for a release that says so."""
        return int(self.pooled([np.array([n_rows], dtype=np.int64)])[0][0])

    @property
    def noise_factor(self) -> float:
        """How much more noise there is in sums than was asked for: 1, unless several holders add shares of it."""
        return 1.0 if self._pool is None else self._pool.noise_factor

    def agreed(self, compute: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Numbers that follow from what was released; one holder computes them for all, where there are several."""
        if self._pool is None:
            return compute()
        return np.array(self._pool.agreed(lambda: compute().tolist()), dtype=np.float64)

    def agreed_data(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
        """The same for JSON data, as `read` makes them, which refuses what cannot be."""
        return read(compute()) if self._pool is None else self._pool.agreed(compute, read)

    def row_noise(self, scale: float) -> RowNoise:
        """Noise for the rows of one pass; it takes up the first plane of the key."""
        assert self._plane == 0, "no plane of a key serves twice"
        self._plane = 1
        return RowNoise(self._noise_key(), scale_rounded_up(scale))

    def keep(self, task: RowTransform, n_rows: int | None, source: RowSource | None = None) -> RowSource:
        """The rows that `task` makes, about `n_rows` of them, kept for later passes; None if there will be only one.

        They are made of the table's, or of those of `source`; if they are kept, they take the place of rows that were
        kept there.
        """
        return self._runner.keep(self.source if source is None else source, task, n_rows)

    def _noise_for(self, array: NDArray[np.int64], noise: NoiseSpec) -> NDArray[np.int64]:
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
        if self._pool is not None:
            scale = _noise_share_in_steps(scale * self._pool.noise_share)
        return self._draw(key, plane, scale_rounded_up(scale), shape)

    def _draw(self, key: bytes, plane: int, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return rounded_normals(key, scale, 0, shape[0], shape[1], plane=plane)


def _noise_share_in_steps(scale: float) -> float:
    """A share of noise in grid steps, refused where its rounding would show (D2 of docs/proofs/shared-noise.md)."""
    if scale < LEAST_SHARE:
        raise ArgumentError(
            f"shares of the noise would be of {scale:.3g} grid steps, and must be of {LEAST_SHARE:g} at least, for "
            "they are rounded; take a smaller epsilon or fewer holders"
        )
    return scale
