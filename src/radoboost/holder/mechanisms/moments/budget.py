"""How the mechanism `moments` shares out its budget: the noise of each stage, and what it is accounted as (M8).

The budget is mu squared of the Gaussian mechanism that all stages together amount to. The shares are constants, tuned
once, on the paper's domains.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from radoboost.holder.gaussian_noise import TOTAL_VARIATION, scale_rounded_up
from radoboost.holder.mechanisms.moments.aggregations import CAP, CLASS_CAP, GRID, WEIGHTS
from radoboost.privacy import Composed, Event, Gaussian, Relation, Repeated
from radoboost.privacy.calibration import variation_of_shared_noise
from radoboost.privacy.events import OF_LABELS
from radoboost.release.moment_math import EDGES

SCORES_SHARE = 0.02  # of the noisy counts of rows by score and class
SCORE_CELLS = 4 * (len(EDGES) + 1)
HIT_CELLS = 2 * (len(EDGES) + 1)  # of more than two classes
COUNTS_SHARE = 0.01  # of the noisy counts of good and spoiled rows
POWER_BINS, EQUAL_BINS = 130, 64  # of a column: powers of two from 2**-64 to 2**64, and zero; equal bins within them
# Searches for bounds: how many bins a column has in each, and its part of their share.
SEARCHES = ((POWER_BINS, 0.25), (EQUAL_BINS, 0.25), (EQUAL_BINS, 0.25), (EQUAL_BINS, 0.25))
# By what is protected, and whether the classifier is sharpened.
_SHARES = {
    ("record", True): {"second": 0.1, "sum": 0.1, "whitened": 0.1, "rounds": 0.7},
    ("record", False): {"second": 0.2, "sum": 0.5, "whitened": 0.3, "rounds": 0.0},
    ("label", True): {"second": 0.0, "sum": 0.3, "whitened": 0.0, "rounds": 0.7},
    ("label", False): {"second": 0.0, "sum": 1.0, "whitened": 0.0, "rounds": 0.0},
}
_OUTLINE = 0.1  # beyond the table's own columns, of what mean rados have, or else the sum


@dataclass(frozen=True)
class NoiseShape:
    """What noise depends on besides the mechanism itself.

    `n_columns` counts the constant feature; `n_searched` are columns whose bounds are found privately; of one person,
    by the column `person`, at most `max_rows` rows contribute. Of `raw` tables, which a schema reads, rows that it does
    not foresee are counted too. Where a plan may make other columns of these, there are `widest` at most; once it is
    chosen there are `n_planned`. Of more than two classes, `n_classes`, each has a slot in sums of vectors. `label` is
    the label's column and classes, as `label_spelling` has them; no noise depends on it, but what adds up with what
    does (M21). Noise is drawn in so many `shares`: each is a little off (D5).
    """

    n_columns: int = 2
    n_searched: int = 0
    max_rows: int = 1
    person: str = ""
    raw: bool = False
    widest: int = 0
    n_planned: int = 0
    n_classes: int = 2
    label: str = ""
    shares: int = 1

    @property
    def variation(self) -> float:
        """How far one number with its noise may be from the Gaussian mechanism's."""
        return variation_of_shared_noise(TOTAL_VARIATION, self.shares)

    @property
    def slots(self) -> int:
        """How many vectors a sum of rows by class has: two classes share one, by sign."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def crowding(self) -> float:
        """Which part of size and strength columns are chosen by (M18): the third power of 2 / classes, as measured.

        A class has 2 / classes of the rows that one of two has; and the more classes, the more boundaries between them,
        at which noise on columns that are not needed costs errors.
        """
        return float((2 / self.n_classes) ** 3)

    @property
    def at_most(self) -> "NoiseShape":
        """With the plan that draws the most deviates."""
        return replace(self, n_planned=self.widest)


@dataclass(frozen=True)
class Stage:
    """One noisy sum, or several of one kind.

    `reach` is how far one unit of privacy can move one of the `times` sums, in grid steps. Together they cost `share`
    of mu squared, and each draws so many `deviates`. Its sums are taken in `steps` parts of a grid step.
    """

    name: str
    reach: float
    share: float
    deviates: int
    times: int = 1
    steps: int = 1

    def multiplier(self, mu: float) -> float:
        """Noise on each sum, in multiples of its reach."""
        return 1 / (mu * math.sqrt(self.share / self.times))

    def scale(self, mu: float) -> float:
        """Noise on each sum in grid steps; 0 where a sum is exact, or there is none."""
        return self.reach * self.multiplier(mu) if self.share and self.times else 0.0

    def event(self, mu: float, relation: Relation, shape: NoiseShape) -> Event:
        """What it is accounted as, by the column of persons and the label, if the relation needs them."""
        label = shape.label if relation in OF_LABELS else ""
        variation = self.deviates * shape.variation
        one = Gaussian(self.multiplier(mu), relation, variation, person=shape.person, label=label)
        return one if self.times == 1 else Repeated(one, self.times)


def plan_stage_budget(
    unit: str, sharpen: bool, bounds_share: float, shape: NoiseShape, n_rounds: int, *, replaced: bool = False
) -> tuple[Stage, ...]:
    """The stages in their order, with `n_rounds` mean rados; those of no cost are exact.

    A flipped label reverses an edge vector, and moves neither counts nor products (M7). A record that is `replaced`
    moves a sum of vectors by up to two of them, and counts and products by sqrt(2) (M15). Of more than two classes, a
    label moves the sum in two slots, by sqrt(2) (M16), and a mean rado by two capped vectors (M17). The rows of one
    person move every sum by as many times as much as there are of them (P4).
    """
    d, record = shape.n_planned or shape.n_columns, unit == "record"
    counts = COUNTS_SHARE if record else 0.0
    search = bounds_share if record and shape.n_searched else 0.0
    rest = 1 - counts - search - SCORES_SHARE
    shares = {name: share * rest for name, share in _stage_budget_shares(unit, sharpen, shape).items()}
    two = shape.n_classes == 2
    once = record and not replaced
    vector, tilted = GRID * (1 if once else 2), CAP if two else CLASS_CAP
    total = vector if two or record else math.sqrt(2) * GRID
    k, apart = shape.max_rows, math.sqrt(2) if replaced else 1.0
    count, square = k * apart * GRID, k * apart * GRID**2
    searches = [
        Stage(f"bounds {j + 1}", count * math.sqrt(shape.n_searched), search * share, bins * shape.n_searched)
        for j, (bins, share) in enumerate(SEARCHES if shape.n_searched else ())
    ]
    first = [Stage("outline", square, shares["outline"], _n_column_pairs(shape.n_columns))] if shape.n_planned else []
    return (
        Stage("counts", count, counts, 2 + shape.raw),
        *searches,
        *first,
        Stage("second", square, shares["second"], _n_column_pairs(d)),
        Stage("sum", k * total, shares["sum"], shape.slots * d),
        Stage("whitened", square, shares["whitened"], _n_column_pairs(d)),
        Stage("rounds", k * tilted * vector, shares["rounds"], shape.slots * d, n_rounds, 1 if two else WEIGHTS),
        # A row is in one cell; a flipped label or another record moves one from a cell to another (M14, M19).
        Stage("scores", k * GRID * (1 if once else math.sqrt(2)), SCORES_SHARE, SCORE_CELLS if two else HIT_CELLS),
    )


def _stage_budget_shares(unit: str, sharpen: bool, shape: NoiseShape) -> dict[str, float]:
    """The share of each stage but counts and searches; that of the first moments is the same for every plan.

    Beyond the table's own columns their second moments are the outline, and those of the plan's columns come after.
    """
    shares = dict(_SHARES[unit, sharpen])
    if not shape.n_planned:
        return shares
    shares = {"outline": shares["second"], **shares, "second": 0.0}
    if unit == "record":
        shares["second"] = _OUTLINE
        shares["rounds" if sharpen else "sum"] -= _OUTLINE
    return shares


def _n_column_pairs(n_columns: int) -> int:
    return n_columns * (n_columns + 1) // 2


def released_stage_noise(scales: Mapping[str, float]) -> dict[str, float]:
    """The noise of each stage in units of what its block holds, from grid steps: a row counts 1, and has length 1."""
    unit = {"outline": GRID**2, "second": GRID**2, "whitened": GRID**2}
    return {stage: scale_rounded_up(scale) / unit.get(stage, GRID) if scale else 0.0 for stage, scale in scales.items()}


def compose_stage_events(parts: Sequence[Stage], mu: float, relation: Relation, shape: NoiseShape) -> Event:
    """What these stages together are accounted as."""
    events = tuple(stage.event(mu, relation, shape) for stage in parts if stage.share and stage.times)
    return events[0] if len(events) == 1 else Composed(events)
