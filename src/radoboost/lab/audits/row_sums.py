"""What rows give to the sums of `moments`, as an adversary who knows the rows computes it.

Of two classes a row is an edge vector, whose sign says which. Of more classes it has a slot for each: it adds itself to
the slot of its own class, and to a mean rado itself in every slot, times its class weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.engines import Engine
from radoboost.holder.mechanisms import ReleaseDraft
from radoboost.holder.mechanisms.moments.aggregations import CAP, GRID, MOST_SQUARES, WEIGHTS, SumSlots, WhitenClasses
from radoboost.holder.mechanisms.moments.score_histogram import HitCounts, ScoreCounts
from radoboost.holder.runners.row_cache import RowBatch
from radoboost.release.moment_math import weights_and_unit
from radoboost.tables import Batch
from radoboost.tables.labels import MOST_CLASSES, LabelEncoder


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of rows of so many classes, in grid steps; a row's mark says its class, and 0 that it has none."""

    engine: Engine
    n_classes: int = 2

    def __post_init__(self) -> None:
        number = self.n_classes
        if isinstance(number, bool) or not isinstance(number, int) or not 2 <= number <= MOST_CLASSES:
            raise ArgumentError(f"n_classes must be a whole number from 2 to {MOST_CLASSES}; it is {number!r}")

    @property
    def classes(self) -> tuple[int, ...]:
        return tuple(range(self.n_classes))

    @property
    def rule(self) -> LabelEncoder:
        return LabelEncoder("label", self.classes)

    def mark(self, place: int) -> int:
        """The mark of a class, as `LabelEncoder.marks_or_zero` has it."""
        return 2 * place - 1 if self.n_classes == 2 else place + 1

    @property
    def round_unit(self) -> int:
        """So many steps of a mean rado are 1."""
        return GRID if self.n_classes == 2 else GRID * WEIGHTS

    def whitened(self, rows: NDArray[Any], a: NDArray[np.float64], marks: NDArray[np.int8]) -> NDArray[np.int32]:
        """Rows on the sphere mapped by `a` and put on it again, times their signs, or with their marks beside them."""
        if self.n_classes == 2:
            return self.engine.whiten(rows, a, marks, GRID)
        marked = np.vstack([rows, marks.astype(rows.dtype)])
        return WhitenClasses(self.engine, a).rows(RowBatch(len(marks), lambda: marked))

    def total(self, white: NDArray[np.int32]) -> NDArray[np.int64]:
        """Of whitened rows: to the sum, in the shape of its block."""
        if self.n_classes == 2:
            return np.asarray(white.sum(axis=1, dtype=np.int64)[None])
        task = SumSlots(self.engine, len(white) - 1, n_classes=self.n_classes)
        sums = task.empty()
        task.add(sums, 0, RowBatch(white.shape[1], lambda: white))
        return sums.vector

    def products(self, white: NDArray[np.int32]) -> NDArray[np.int64]:
        """Of whitened rows: to their second moments."""
        return self.engine.products(white if self.n_classes == 2 else white[:-1])[0]

    def tilted(self, white: NDArray[np.int32], theta: NDArray[np.float64]) -> NDArray[np.int64]:
        """Of whitened rows: to a mean rado, a row for each slot."""
        if self.n_classes == 2:
            return self.engine.tilt(white, theta[0], GRID, CAP)[None]
        return self.engine.tilt_classes(white, theta, GRID, WEIGHTS, MOST_SQUARES)

    def rounds(self, made: ReleaseDraft) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The released mean rados, each with the classifier whose weights it has; both have a row for each slot."""
        slots = len(made.blocks["moment:b"])
        nothing = np.empty((0, len(made.columns)))
        means, thetas = (made.blocks.get(name, nothing) for name in ("sharpened", "theta"))
        for start in range(0, len(means), slots):
            there = slice(start, start + slots)
            yield means[there], thetas[there]

    def score_counts(self, made: ReleaseDraft) -> ScoreCounts:
        """The last stage: counts by the scores that follow from a release."""
        weights, unit = weights_and_unit(made.blocks, made.parameters, made.columns)
        kind = ScoreCounts if self.n_classes == 2 else HitCounts
        return kind(self.rule, made.columns[:-1], weights, unit)


def cells_of(
    by: ScoreCounts, made: ReleaseDraft, values: NDArray[np.float64], places: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How many of these rows, whose classes have these places, are in each cell of the counts; in grid steps."""
    columns = values if made.map is None else made.map.apply(values)
    sums = by.empty()
    by.add(sums, 0, Batch(len(values), pa.array(places), lambda: columns, str))
    return sums.cells.astype(np.float64)
