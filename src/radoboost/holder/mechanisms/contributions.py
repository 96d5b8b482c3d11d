"""What one record gives to a private sum: a clipped integer vector, which is a function of that record alone.

Every operation here is elementwise over rows, in a fixed order over columns: no row's result depends on which other
rows are there (C1). Values are rounded towards zero, and the norm is tested in integers (C2, C3); a row with a missing
or infinite value or an undeclared class gives zeros (C4). The steps are those of docs/proofs/contributions.md.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.release.columns import Column

LARGEST = 2**22  # what an engine's 32-bit sums allow


def check_clip(clip: Any) -> None:
    """Refuse a clipping norm that cannot be used."""
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not 2.0**-10 <= clip <= 2.0**10:
        raise ArgumentError(
            f"clip must be a number between 2**-10 and 2**10, the largest norm of a row; it is {clip!r}"
        )


def clip_steps(clip: float, step: float) -> int:
    """The largest norm of an integer vector, in steps: exact, for a step is a power of two."""
    return math.floor(clip / step)


def contributions(
    values: NDArray[Any], signs: NDArray[np.int8], columns: Sequence[Column], clip: float | None, step: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Edge integers of rows, shape (rows, len(columns)), and which rows are good; a bad row gives zeros.

    `values` may hold NaN and infinities, `signs` zeros.
    """
    good = signs != 0
    for k in range(values.shape[1]):
        good &= np.isfinite(values[:, k])
    scaled = np.empty((len(columns), len(values)))
    for k, column in enumerate(columns):
        raw = np.zeros(len(values)) if column.scale == "constant" else values[:, k].astype(np.float64)
        scaled[k] = column.apply(np.where(good, raw, 0.0))
    if clip is not None:
        squares = np.zeros(len(values))
        for row in scaled:
            squares += row * row
        # A hair below, so that rounding of the norm seldom makes the test in integers fail.
        reach, norm = clip_steps(clip, step) * step, np.sqrt(squares)
        scaled *= np.where(norm <= reach, 1.0, reach * (1 - 2.0**-40) / np.maximum(norm, reach))
    integers = np.trunc(scaled / step).astype(np.int64)
    if clip is not None:
        norms = np.zeros(len(values), dtype=np.int64)
        for row in integers:
            norms += row * row
        good &= norms <= clip_steps(clip, step) ** 2
    integers *= np.where(good, signs, 0)
    return np.ascontiguousarray(integers.T), good
