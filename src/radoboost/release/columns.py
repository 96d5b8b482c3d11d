"""What each feature of a rado means: its name, its scaling constants, its grid step.

A release carries its columns; the data holder and the learned model apply the same constants, so both compute the same
value to the last bit. All scalings are one formula over float64, evaluated in this order:

    value = ((clip(x, low, high) - shift) * factor) / divisor - offset

    none        shift 0      factor 1   divisor 1            offset 0
    standard    shift mean   factor 1   divisor std          offset 0
    bounds      shift low    factor 2   divisor high - low   offset 1
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError, TableError
from radoboost.tables.column_types import middle_of_bounds

if TYPE_CHECKING:
    from radoboost.release.release import Release

CONSTANT = "(constant)"
GRID_BITS = 22  # of a value, in steps of its column's grid
MAX_EXAMPLES = 2**31 - 1  # more, and a rado might not be exact in float64
LEAST_BOUND, LARGEST_BOUND = 2.0**-900, 2.0**900
SCALES = ("none", "standard", "bounds")


@dataclass(frozen=True)
class Column:
    """One feature of a release.

    `scale` is "none", "standard" or "bounds", and "constant" for the feature that is 1 in every row. `low` and
    `high` are the declared bounds, `mean` and `std` the constants of "standard". Every released value of this
    feature is a multiple of `step`.

    >>> age = Column("age", "standard", mean=40.0, std=8.0, step=2.0**-20)
    >>> age.apply(np.array([40.0, 52.0]))
    array([0. , 1.5])
    """

    name: str
    scale: str
    step: float
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    std: float | None = None

    @property
    def constants(self) -> tuple[float, float, float, float, float, float]:
        """low, high, shift, factor, divisor and offset of the one formula."""
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        if self.scale == "standard":
            assert self.mean is not None
            assert self.std is not None
            return low, high, self.mean, 1.0, self.std, 0.0
        if self.scale == "bounds":
            return low, high, low, 2.0, high - low, 1.0
        return low, high, 0.0, 1.0, 1.0, 0.0

    @property
    def neutral(self) -> float:
        """The raw value that says nothing: the mean, the middle of bounds, or 0.

        >>> Column("age", "bounds", step=2.0**-22, low=0.0, high=120.0).neutral
        60.0
        """
        if self.scale == "standard":
            assert self.mean is not None
            return self.mean
        return middle_of_bounds(self.low, self.high) if self.scale == "bounds" else 0.0

    def apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scaled values of raw values `x`."""
        if self.scale == "constant":
            return np.ones_like(x)
        low, high, shift, factor, divisor, offset = self.constants
        # Far outside the grid's range a step here may underflow; the value is then rounded to 0 all the same.
        with np.errstate(under="ignore"):
            return ((np.minimum(np.maximum(x, low), high) - shift) * factor) / divisor - offset

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON data, without what does not apply to it."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


def columns_from_json(entries: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """The columns of a release document, refusing what this version does not know."""
    known = {field.name for field in dataclasses.fields(Column)}
    needs = {"none": (), "constant": (), "standard": ("mean", "std"), "bounds": ("low", "high")}
    for entry in entries:
        unknown = set(entry) - known
        numbers = [entry[name] for name in ("step", "low", "high", "mean", "std") if name in entry]
        if (
            unknown
            or not isinstance(entry.get("name"), str)
            or not {"step", *needs.get(entry.get("scale", ""), ("?",))} <= set(entry)
            or not all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
            or entry["step"] <= 0
            or entry.get("std", 1.0) <= 0
            or not entry.get("low", 0.0) <= entry.get("high", math.inf)
            or (entry["scale"] == "bounds" and entry["low"] == entry["high"])
        ):
            raise ReleaseError(
                f"column {entry.get('name')!r} is described in a way this version does not know, "
                f"{sorted(entry)} with scale {entry.get('scale')!r}; upgrade radoboost"
            )
    return tuple(Column(**entry) for entry in entries)


def grid_step(bound: float, name: str) -> float:
    """The grid step of a feature whose values lie within +-bound."""
    if bound == 0:
        return 1.0
    if not LEAST_BOUND <= bound <= LARGEST_BOUND:
        raise TableError(f"column {name!r} has values as large as {bound:.3g}, outside 2**-900 .. 2**900; rescale it")
    fraction, exponent = math.frexp(bound)
    return math.ldexp(1.0, exponent - (fraction == 0.5) - GRID_BITS)


def constant_column(step: float) -> Column:
    """The feature that is 1 in every row, and so carries the intercept."""
    return Column(CONSTANT, "constant", step)


# ---- The block `shared` of a release: sums without labels, beside the rados, of columns that another holder has too.
#
# Row j sums, over the examples of rado j, the columns that the block names, and the constant, which is last: so that is
# how many examples rado j has. They are on the grid of the release's own columns of these names. Learners who know only
# rados do not see the block, so nobody takes a label for a feature.


SHARED = "shared"


def check_shared_columns(blocks: Mapping[str, Any], names: tuple[str, ...], own: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a block of shared columns that does not go with the rados; `own` are columns that blocks have."""
    if SHARED not in blocks:
        return
    columns, n_rados = own.get(SHARED, ()), len(blocks.get("rados", ()))
    if len(blocks[SHARED]) != n_rados or columns[-1:] != (CONSTANT,) or not set(columns) <= set(names):
        raise ReleaseError("its shared columns do not go with its rados; get the release again from its maker")


def shared_column_names(release: "Release") -> tuple[str, ...] | None:
    """The columns that a release shares: of the raw table, where it has a schema; None where it shares nothing."""
    if SHARED not in release.blocks:
        return None
    names = release.block_columns[SHARED][:-1]
    if release.schema is None:
        return names
    return tuple(dict.fromkeys(part.column for part in release.schema.encoded() if part.name in names))
