"""Where rows come from: a source is a list of parts, and a part is read as batches.

Whatever a table is made of, it is cut into parts. A part can be sent to another process, which then reads these rows
and no others. Parts are read as often as needed, always with the same rows in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import TableError

TILE_ROWS = 64  # the keystream comes in tiles of so many rows: whole tiles save work at both ends of a batch
PART_VALUES = 1 << 23  # about, in a part: small enough to be sent around, large enough to be worth it


class Batch(NamedTuple):
    """Some rows: how many, their labels as they are (None where there is no label), their values, and where they are.

    `values()` gives an array (rows, features), C-contiguous in float32 or float64. It is a call so that several
    threads can convert batches while one reads the next. `place(k)` says in the user's words where row k of the
    batch is (from 0), for messages: "row 18", or "line 19 of patients.csv".
    """

    n_rows: int
    labels: pa.Array | None
    values: Callable[[], NDArray[Any]]
    place: Callable[[int], str]


class Part(Protocol):
    """A run of rows that can be pickled, and takes no other rows along."""

    @property
    def n_rows(self) -> int | None:
        """How many rows it has; None where this cannot be known without reading them."""

    def batches(self, most_rows: int) -> Iterator[Batch]:
        """All its rows, in order, at most so many at a time."""

    def count(self) -> int:
        """How many rows it has, by reading them if need be."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is ready to be read: features by name, a label or none, and rows in parts.

    `label` is the label's name; None where there is no label. `batch_rows` is how many rows a batch should have,
    and `guess` gives about how many rows there are, for a table that does not know.
    """

    name: str
    features: tuple[str, ...]
    label: str | None
    pieces: Sequence[Part]
    most_values: int
    most_rows: int
    guess: Callable[[], int | None] | None = None

    def __post_init__(self) -> None:
        if not self.features:
            raise TableError(f"{self.name} has no feature columns besides the label; it needs at least one")

    @cached_property
    def n_rows(self) -> int | None:
        """How many rows there are; None where this cannot be known without reading them."""
        counts = [part.n_rows for part in self.pieces]
        return None if None in counts else sum(filter(None, counts))

    @property
    def batch_rows(self) -> int:
        """How many rows a batch should have, in whole tiles."""
        return whole_tiles(min(self.most_rows, self.most_values // len(self.features)))

    def parts(self) -> Sequence[Part]:
        """All rows, in order, as parts that can be read on their own."""
        return self.pieces

    def batches(self, rows: int | None = None) -> Iterator[Batch]:
        """All rows, in order, at most so many at a time; as many as are good to read by default."""
        for part in self.pieces:
            yield from part.batches(self.batch_rows if rows is None else rows)

    def expected_rows(self, seen: int) -> int | None:
        """How many rows there will be, as far as one can tell after `seen` of them; for a progress bar."""
        if self.n_rows is not None:
            return self.n_rows
        return None if self._guessed is None else max(seen, self._guessed)

    @cached_property
    def _guessed(self) -> int | None:
        return None if self.guess is None else self.guess()

    def check_rows(self, n_rows: int | None) -> None:
        """Refuse a table without rows."""
        if n_rows == 0:
            raise TableError(f"{self.name} has no rows; give it at least one")

    def refuse_not_finite(self, batch: Batch, values: NDArray[Any]) -> None:
        """Say which value of a batch is not finite."""
        refuse_not_finite(self.features, batch, values)


def refuse_not_finite(features: Sequence[str], batch: Batch, values: NDArray[Any]) -> None:
    """Say which value of a batch is not finite."""
    row, k = np.argwhere(~np.isfinite(values))[0].tolist()
    what = "a missing value (NaN)" if np.isnan(values[row, k]) else "an infinite value"
    raise TableError(f"column {features[k]!r} has {what} ({batch.place(row)}); fill in or drop such rows or columns")


def whole_tiles(rows: int) -> int:
    """So many rows, rounded down to whole tiles; one tile at least.

    >>> whole_tiles(1000), whole_tiles(3)
    (960, 64)
    """
    return max(TILE_ROWS, rows // TILE_ROWS * TILE_ROWS)


def part_rows(n_columns: int, batch_rows: int) -> int:
    """How many rows a part should have: a whole number of batches."""
    return max(1, PART_VALUES // n_columns // batch_rows) * batch_rows
