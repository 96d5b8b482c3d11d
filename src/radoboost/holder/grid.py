"""Exact scaling statistics and the dyadic grid: from here on every sum is an integer sum.

Feature k has a bound b_k. With 2**e the smallest power of two >= b_k its step is 2**(e - 22), and a value
becomes the integer rint(value / step), ties to even, times the label: at most 2**22 in magnitude, so that 256
of them add up in int32. The statistics are exact, so they depend on neither order, batches nor threads.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.release.columns import GRID_BITS as GRID_BITS
from radoboost.release.columns import MAX_EXAMPLES, SCALES, Column, constant_column
from radoboost.release.columns import grid_step as grid_step

EXACT_UNIT = -1074  # every float64 is a whole multiple of 2**-1074


_POOLED = "pool their moments: rado merge A B --how moments"


def check_rows_sum_exactly(name: str, n_rows: int, most: int = MAX_EXAMPLES, advice: str = _POOLED) -> None:
    """Refuse more rows than can be summed exactly; `advice` says what becomes of several releases."""
    if n_rows > most:
        raise TableError(
            f"{name} has {n_rows:,} rows; at most {most:,} can be summed exactly: make several releases, each of some "
            f"of its files, and {advice}"
        )


@dataclass
class ExactSums:
    """Row count, smallest, largest, and the exact sums of x and x**2, for every feature.

    `sums[k]` counts units of 2**-1074 and `squares[k]` units of 2**-2148, as Python integers.
    """

    n_features: int
    n_rows: int = 0
    lowest: NDArray[np.float64] = field(init=False)
    highest: NDArray[np.float64] = field(init=False)
    sums: list[int] = field(init=False)
    squares: list[int] = field(init=False)
    _moments: dict[int, tuple[float, float]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.lowest = np.full(self.n_features, np.inf)
        self.highest = np.full(self.n_features, -np.inf)
        self.sums = [0] * self.n_features
        self.squares = [0] * self.n_features

    def merge(self, other: "ExactSums") -> "ExactSums":
        """The statistics of both parts of the table together."""
        both = ExactSums(self.n_features, self.n_rows + other.n_rows)
        both.lowest, both.highest = np.minimum(self.lowest, other.lowest), np.maximum(self.highest, other.highest)
        both.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]
        both.squares = [a + b for a, b in zip(self.squares, other.squares, strict=True)]
        return both

    def mean_and_variance(self, feature: int) -> tuple[float, float]:
        """The float64 nearest to the exact mean, and the one nearest to the exact variance, once all rows are added."""
        if feature not in self._moments:
            m, total = self.n_rows, self.sums[feature]
            numerator = m * self.squares[feature] - total * total
            # Python divides integers with one correct rounding.
            self._moments[feature] = total / (m << -EXACT_UNIT), numerator / ((m * m) << (-2 * EXACT_UNIT))
        return self._moments[feature]

    def mean_and_std(self, feature: int, name: str) -> tuple[float, float]:
        """The mean, and the root of the variance, 1 where it is 0."""
        try:
            mean, variance = self.mean_and_variance(feature)
        except OverflowError:
            raise TableError(
                f"column {name!r} spreads too far to be standardised; rescale it, or use scale='bounds'"
            ) from None
        return mean, math.sqrt(variance) or 1.0


def make_grid_columns(
    names: Sequence[str],
    scale: str,
    bounds: Mapping[str, tuple[float, float]],
    statistics: ExactSums,
    *,
    intercept: bool,
) -> tuple[Column, ...]:
    """Columns with their scaling constants and grid steps; the constant feature last.

    `statistics` are those of the clipped values.
    """
    columns, ends = [], zip(statistics.lowest.tolist(), statistics.highest.tolist(), strict=True)
    for k, (name, (lowest, highest)) in enumerate(zip(names, ends, strict=True)):
        low, high = bounds.get(name, (None, None))
        if scale == "standard":
            mean, std = statistics.mean_and_std(k, name)
            bound = max(abs((lowest - mean) / std), abs((highest - mean) / std))
            column = Column(name, scale, grid_step(bound, name), low, high, mean, std)
        elif scale == "bounds":
            column = Column(name, scale, grid_step(1.0, name), low, high)
        else:
            bound = max(abs(lowest), abs(highest))
            if low is not None and high is not None:
                bound = max(abs(low), abs(high))
            column = Column(name, scale, grid_step(bound, name), low, high)
        columns.append(column)
    if intercept:
        columns.append(constant_column(grid_step(1.0, "")))
    return tuple(columns)


def grid_edge_vectors(values: NDArray[Any], labels: NDArray[np.int8], columns: Sequence[Column]) -> NDArray[np.int32]:
    """The edge vectors y_i x_i on the grid, shape (rows, len(columns))."""
    edges = np.empty((len(values), len(columns)), dtype=np.int32)
    for k, column in enumerate(columns):
        raw = values[:, k] if column.scale != "constant" else np.ones(len(values))
        edges[:, k] = np.rint(column.apply(raw.astype(np.float64)) / column.step) * labels
    return edges


def grid_snapping_constants(columns: Sequence[Column]) -> NDArray[np.float64]:
    """What scales and snaps a value, a row for each column: low, high, shift, factor, divisor, offset and 1 / step.

    The constant feature has the bounds 1 and 1, so that any value becomes 1.
    """
    return np.array(
        [
            (*((1.0, 1.0, 0.0, 1.0, 1.0, 0.0) if column.scale == "constant" else column.constants), 1.0 / column.step)
            for column in columns
        ]
    )


def snap_to_grid(values: NDArray[np.float64], constants: NDArray[np.float64]) -> NDArray[np.int32]:
    """Values on the grid, each by its own row of `grid_snapping_constants`."""
    low, high, shift, factor, divisor, offset, inverse = constants.T
    with np.errstate(under="ignore"):
        scaled = ((np.minimum(np.maximum(values, low), high) - shift) * factor) / divisor - offset
    # The step is a power of two: multiplying by its inverse is dividing by it.
    numbers: NDArray[np.int32] = np.rint(scaled * inverse).astype(np.int32)
    return numbers


def resolve_scale_name(scale: str | None, default: str, bounded: bool) -> str:
    """The scale by its name in a release; "auto" is the mechanism's default."""
    if scale == "auto":
        scale = default
    if scale is None:
        scale = "none"
    if scale not in SCALES:
        raise ArgumentError(f"scale must be 'auto', 'standard', 'bounds' or None; it is {scale!r}")
    if scale == "bounds" and not bounded:
        raise ArgumentError("scale='bounds' needs bounds: give (low, high) for every column")
    return scale
