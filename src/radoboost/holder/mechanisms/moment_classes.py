"""What a record contributes to the mechanism `moments` where there are more than two classes (M16 to M18).

Rows have no sign. A row carries its class beside it, as one more integer, so that no label is read again: from 1 on,
and 0 where there is none. To the sum it adds itself in the slot of its class, to the products itself once, and to a
mean rado itself in every slot, by weights that are scaled as one vector.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.counts import RowCounts
from radoboost.holder.engines import Engine
from radoboost.holder.mechanisms.moment_passes import (
    GRID,
    Moments,
    SphereEdges,
    SumProducts,
    Vector,
    Whiten,
    WhitenedRows,
    column_rows,
)
from radoboost.holder.runners.kept import RowBatch
from radoboost.tables import Batch

WEIGHTS = 2**13  # so many units of a class weight are 1
MOST_SQUARES = WEIGHTS**2 // 2  # of the class weights of one row
CLASS_CAP = math.sqrt(MOST_SQUARES) / WEIGHTS  # on the norm of the class weights of a record


def _beside(rows: NDArray[Any], marks: NDArray[Any]) -> NDArray[Any]:
    """Rows with their classes as the last integer of each."""
    return np.vstack([rows, marks.astype(rows.dtype)])


class _WithClass:
    """One integer more than a row has columns."""

    @property
    def width(self) -> int:
        return super().width + 1  # type: ignore[misc, no-any-return]


@dataclass(frozen=True, eq=False)
class WhitenedClasses(_WithClass, WhitenedRows):
    """Rows on the sphere, mapped by `a` and put on the sphere again, as integers, with their classes (M16)."""

    def rows(self, batch: Batch) -> NDArray[np.int32]:
        with np.errstate(all="ignore"):
            rows, _ = self.sphere.on_sphere(batch)
            white = self.sphere.engine.whiten(rows, self.a, np.ones(batch.n_rows, np.int8), GRID)
            return _beside(white, self.sphere.rule.marks_or_zero(batch.labels))


@dataclass(frozen=True, eq=False)
class SphereClasses(_WithClass, SphereEdges):
    """Rows on the sphere, as integers, with their classes (M16)."""

    def rows(self, batch: Batch) -> NDArray[Any]:
        """The rows of a batch; where a feature map makes the columns, a few at a time."""
        marks = self.sphere.rule.marks_or_zero(batch.labels)
        return _beside(self.made(batch, marks, np.ones_like(marks)), marks)


@dataclass(frozen=True, eq=False)
class WhitenClasses(_WithClass, Whiten):
    """Rows mapped by `a` and put on the sphere again, as integers, of rows on the sphere that carry their class."""

    def rows(self, batch: RowBatch) -> NDArray[np.int32]:
        rows = batch.rows()
        white = self.engine.whiten(rows[:-1], self.a, np.ones(batch.n_rows, np.int8), GRID)
        return _beside(white, rows[-1])


@dataclass(frozen=True, eq=False)
class SumSlots(SumProducts):
    """Sums of integer rows by class, a slot for each, and of their products once (M16)."""

    n_classes: int = 3

    @property
    def worker_bytes(self) -> int:
        """The products and slots, and room to add them."""
        return super().worker_bytes + 32 * self.n_classes * (self.width + self.rows_at_a_time)

    def empty(self) -> Moments:
        d = self.width
        return Moments(np.zeros((d, d), np.int64), np.zeros((self.n_classes, d), np.int64), RowCounts.zeros(0))

    def add(self, sums: Moments, first_row: int, batch: RowBatch) -> None:
        rows = batch.rows()
        sums.products += self.engine.products(rows[:-1])[0]
        sums.vector += slot_sums(rows, self.n_classes)


def slot_sums(rows: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """The sum of rows by class, which is the last integer of each; at most 2**16 rows, which are exact in float64."""
    slots = np.arange(1, n_classes + 1)[:, None] == rows[-1]
    sums: NDArray[np.int64] = (slots.astype(np.float64) @ rows[:-1].astype(np.float64).T).astype(np.int64)
    return sums


@dataclass(frozen=True, eq=False)
class MeanSlots:
    """The sum of rows times what their class has beyond the probabilities of theta, each capped as one vector (M17)."""

    engine: Engine
    theta: NDArray[np.float64]
    number: int
    in_all: int

    @property
    def rows_at_a_time(self) -> int:
        """As many as suit the cache; see `column_rows`."""
        return column_rows(self.theta.shape[1])

    @property
    def title(self) -> str:
        return f"mean rado {self.number} of {self.in_all}"

    @property
    def worker_bytes(self) -> int:
        """The slots, and the weights of a batch."""
        return 64 * self.theta.size + 16 * len(self.theta) * self.rows_at_a_time

    def empty(self) -> Vector:
        return Vector(np.zeros(self.theta.shape, np.int64))

    def add(self, sums: Vector, first_row: int, batch: RowBatch) -> None:
        """Add the rows, times their weights."""
        sums.vector += self.engine.tilt_classes(batch.rows(), self.theta, GRID, WEIGHTS, MOST_SQUARES)
