"""Bounds of columns that nobody declared, found by noisy counts: the searches of the mechanism `moments`.

Proof: docs/proofs/bounds.md, steps B1 to B7. Each search counts in which of a list of bins the values of a column lie.
The list is fixed before the first search, and later follows from what was found: powers of two at first, then three
times 64 equal bins, each time within the shortest run of bins that holds most rows. What was found is far narrower than
a column with a few wild values, so the last bins are fine enough for it.

The constants were tuned once, on the paper's domains.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.aggregation import AddedFields
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.mechanisms.moments.aggregations import GRID
from radoboost.holder.mechanisms.moments.budget import EQUAL_BINS, POWER_BINS, SEARCHES, NoiseShape
from radoboost.holder.mechanisms.moments.stages import begin_stages
from radoboost.holder.row_counts import RowCounts
from radoboost.tables import Batch
from radoboost.tables.labels import LabelEncoder

if TYPE_CHECKING:
    from radoboost.holder.mechanisms.moments.moments import Moments

# ---- Counts of where the values of columns lie: bins are disjoint, and every number is in one (B1)


LEAST_POWER = -64


@dataclass(frozen=True)
class Powers:
    """Bins by magnitude: the first for zero and what is below 2**-64, then one for each power of two.

    The last one has all that is 2**64 or more.
    """

    n_bins = POWER_BINS

    def numbers(self, values: NDArray[np.float64], column: int) -> NDArray[np.int64]:
        exponents = np.frexp(values)[1].astype(np.int64)  # exact: |value| lies from 2**(e - 1) to below 2**e
        return np.where(values == 0, 0, np.clip(exponents - LEAST_POWER, 0, self.n_bins - 1))


@dataclass(frozen=True, eq=False)
class EqualBins:
    """64 bins of one width from `low` to `high`, by column; the first and the last have what lies beyond."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    n_bins = EQUAL_BINS

    def numbers(self, values: NDArray[np.float64], column: int) -> NDArray[np.int64]:
        low, high = self.low[column], self.high[column]
        places: NDArray[np.float64] = (np.clip(values, low, high) - low) / ((high - low) / self.n_bins)
        # Whatever rounding did, and be it NaN: one of the bins (B1).
        return np.where(places > 0, np.minimum(places, self.n_bins - 1), 0.0).astype(np.int64)


@dataclass
class Binned(AddedFields):
    """How many values of each column lie in each bin, times 2**15; and how many rows are good."""

    bins: NDArray[np.int64]
    counts: RowCounts


@dataclass(frozen=True, eq=False)
class CountBins:
    """In which bins the values of some columns lie; only good rows count, and each counts once a column (B2)."""

    rule: LabelEncoder
    n_features: int
    places: tuple[int, ...]
    kind: Powers | EqualBins
    stage: str

    rows_at_a_time = None

    @property
    def title(self) -> str:
        return f"looking for {self.stage}"

    @property
    def worker_bytes(self) -> int:
        """The counts, and room to add them."""
        return 16 * len(self.places) * self.kind.n_bins

    def empty(self) -> Binned:
        return Binned(np.zeros((len(self.places), self.kind.n_bins), np.int64), RowCounts.zeros(self.n_features))

    def add(self, sums: Binned, first_row: int, batch: Batch) -> None:
        """Count the values of the good rows of a batch."""
        with np.errstate(all="ignore"):  # a signalling NaN is no reason to stop
            values, signs = batch.values(), self.rule.marks_or_zero(batch.labels)
            good = signs != 0
            for k in range(values.shape[1]):
                good &= np.isfinite(values[:, k])
            sums.counts.see(values, signs, good, batch)
            for column, place in enumerate(self.places):
                numbers = self.kind.numbers(values[good, place].astype(np.float64), column)
                sums.bins[column] += GRID * np.bincount(numbers, minlength=self.kind.n_bins)


OF_ZEROS = (-1.0, 1.0)  # of a column in which nothing but zeros was found
LEAST_PULL = 16.0  # rows, in units of the noise that a search would have if it were the only one
HELD = (0.9, 0.9, 0.9, 0.85)  # of all rows: how many the bins that a search finds must hold
_CAUTION = 1.5  # deviations of its noise by which a run of bins must hold more
_ABOVE_NOISE = 4.0  # deviations of its noise by which powers of two must show that there is something
_MOST_POWERS = 8  # values smaller than the largest by this many powers of two need no bins of their own


# ---- what the noisy counts say


def shortest_run_of_bins(
    counts: NDArray[np.float64], held: float, caution: float = 0.0, longest: int | None = None
) -> tuple[int, int] | None:
    """The first and the last bin of the shortest run that holds `held`, and `caution` times its root length more."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for length in range(1, (longest or len(counts)) + 1):
        runs = sums[length:] - sums[:-length]
        first = int(np.argmax(runs))
        if runs[first] >= held + caution * math.sqrt(length):
            return first, first + length - 1
    return None


def largest_occupied_power(counts: NDArray[np.float64], held: float, noise: float) -> int | None:
    """The largest bin of `Powers` in the run that holds most rows; None if nothing but zeros stands out of the noise.

    Zeros lie within any bounds around zero, so they count for every run.
    """
    zeros, others = counts[0], counts[1:]
    if zeros >= held:
        return None
    threshold = _ABOVE_NOISE * noise
    run = shortest_run_of_bins(others, held - zeros, longest=_MOST_POWERS)
    if run is None or others[run[0] : run[1] + 1].sum() <= threshold * math.sqrt(run[1] - run[0] + 1):
        excess = {}
        for length in range(1, _MOST_POWERS + 1):
            sums = np.convolve(others, np.ones(length), "valid") - threshold * math.sqrt(length)
            excess[int(np.argmax(sums)), length] = float(sums.max())
        (first, length), most = max(excess.items(), key=lambda item: item[1])
        run = (first, first + length - 1) if most > 0 else None
    return None if run is None else run[1] + 1


def round_bounds_outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds with few digits: to a hundredth of the leading digit of their distance."""
    with localcontext(Context(prec=100)):  # not the caller's, which may have few digits
        unit = Decimal(1).scaleb(Decimal(high - low).adjusted() - 2)
        return (
            float((Decimal(low) / unit).to_integral_value(ROUND_FLOOR) * unit) + 0.0,  # never -0.0
            float((Decimal(high) / unit).to_integral_value(ROUND_CEILING) * unit) + 0.0,
        )


# ---- the searches


def find_private_bounds(
    budget: "Moments", shape: NoiseShape, run: Curator, rule: LabelEncoder, searched: Sequence[str]
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """The bounds of the `searched` columns, and the noisy numbers of good and spoiled rows, on which they build.

    Rows are counted, and the budget booked, before the first noise of a search (B5).
    """
    features = run.source.features
    places = tuple(features.index(name) for name in searched)
    task = CountBins(rule, len(features), places, Powers(), "bounds 1")
    run.expect(len(SEARCHES) + 2)
    first = run.sum(task)
    rows = begin_stages(budget, shape, run, first.counts)
    scales = budget.scales(0, shape)
    noises = [scales[f"bounds {j + 1}"] for j in range(len(SEARCHES))]
    run.add_noise(first, NoiseSpec("bins", noises[0]))
    noise, counts = noises[0] * run.noise_factor / GRID, first.bins / GRID
    tops = run.agreed_data(
        lambda: [largest_occupied_power(row, HELD[0] * rows["good"], noise) for row in counts], _check_powers_of_holders
    )
    high = np.array([OF_ZEROS[1] if top is None else math.ldexp(1.0, top + LEAST_POWER) for top in tops])
    low = -high
    for j in range(1, len(SEARCHES)):
        last = j == len(SEARCHES) - 1
        task = CountBins(rule, len(features), places, EqualBins(low.copy(), high.copy()), f"bounds {j + 1}")
        counts = run.noisy_sum(task, NoiseSpec("bins", noises[j])).bins / GRID
        about = HELD[j] * rows["good"], noises[j] * run.noise_factor / GRID
        low, high = run.agreed(partial(_narrow_all_bounds, counts, tops, low, high, *about, margin=not last))
    found = {
        name: OF_ZEROS if top is None else round_bounds_outwards(float(low[k]), float(high[k]))
        for k, (name, top) in enumerate(zip(searched, tops, strict=True))
    }
    return found, rows


def _check_powers_of_holders(tops: Sequence[int | None]) -> Sequence[int | None]:
    """Powers as another holder sent them, if there are bins of them."""
    if any(top is not None and not 0 <= top <= Powers.n_bins for top in tops):
        raise ValueError("no such bin")
    return tops


def _narrow_all_bounds(
    counts: NDArray[np.float64],
    tops: Sequence[int | None],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    held: float,
    noise: float,
    *,
    margin: bool,
) -> NDArray[np.float64]:
    """The ends of all columns, lower ones first; those of a column in which nothing was found stay."""
    ends = [
        (low[k], high[k]) if top is None else _narrow_bounds(counts[k], low[k], high[k], held, noise, margin=margin)
        for k, top in enumerate(tops)
    ]
    return np.array(ends).T.copy()


def _narrow_bounds(
    counts: NDArray[np.float64], low: float, high: float, held: float, noise: float, *, margin: bool
) -> tuple[float, float]:
    """The ends of the bins that hold most rows, with one more on either side if asked for; else as they were."""
    run = shortest_run_of_bins(counts, held, _CAUTION * noise)
    if run is None:
        return low, high
    first, last = max(run[0] - margin, 0), min(run[1] + margin, len(counts) - 1)
    width = (high - low) / len(counts)
    return low + first * width, low + (last + 1) * width


def check_private_bounds(rows: int, mu: float, n_searched: int, share: float, cost: str) -> None:
    """Refuse, before anything is spent, to look for bounds among so few declared rows that noise would choose them."""
    pull = rows * mu * math.sqrt(share / n_searched)
    if pull >= LEAST_PULL:
        return
    unit: int = 10 ** max(len(str(round(rows * LEAST_PULL / pull))) - 2, 0)
    enough = math.ceil(rows * LEAST_PULL / pull / unit) * unit
    raise ArgumentError(
        f"{rows:,} rows do not carry the search for bounds of {n_searched:,} columns at {cost}: noise would choose "
        f"them, which takes {enough:,} rows to avoid; declare bounds, take a larger epsilon or fewer columns, or leave "
        "rows out to craft all the same"
    )


def private_bounds_text(searched: Sequence[str], unit: str) -> str:
    """What a statement says of bounds that were found."""
    names = ", ".join(repr(name) for name in searched[:8])
    names += f" and {len(searched) - 8} more columns" if len(searched) > 8 else ""
    if unit == "label":
        return f"The bounds of {names} were found in the table, exactly: they follow from its features."
    return f"The bounds of {names} were found privately, by noisy counts. They are part of this promise."
