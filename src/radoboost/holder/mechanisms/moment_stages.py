"""The stages of the mechanism `moments`: each is a noisy sum over rows, on which the next one builds.

The constants were tuned once, on the paper's domains: floors of eigenvalues, how many mean rados there are, and how far
each one goes.
"""

import math
from collections.abc import Collection
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from radoboost import memory
from radoboost.errors import TableError
from radoboost.holder.counts import RowCounts
from radoboost.holder.mechanisms.moment_budget import SEARCHES, Shape, Stage, released_noise
from radoboost.holder.mechanisms.moment_passes import GRID, MeanRado, SphereRows, SumProducts, WhitenedRows
from radoboost.holder.passes import Readable
from radoboost.holder.run import Noise, Run
from radoboost.privacy import Event, Relation
from radoboost.release.spectra import HESSIAN_FLOOR, inverse_power, noise_floor

WHITENING_FLOOR = 0.75  # of eigenvalues, as a share of what noise alone could be
FEW_ROUNDS, MANY_ROUNDS = (8, 1.0), (32, 4.0)  # how many mean rados, and how far each one goes
MOST_SPOILED = 0.2  # of all rows: with more, most likely a declaration is wrong
MOST_UNFORESEEN = 0.5  # of good rows: with more, most likely a line of the schema is wrong
BY_DOCUMENTS = (
    "by what is documented about the table (a correction by exact counts, as rado check shows them to the holder, is "
    "outside the promise)"
)
ONLY_A_LEDGER = "only a ledger counts them"
_MANY = 100.0  # records for each column, in units of the noise: from here on there are many rounds
_SNAP_A, _SNAP_THETA = 2.0**-30, 2.0**-20


class Budget(Protocol):
    """What the stages need from the mechanism: how much noise each takes, and what to book."""

    @property
    def sharpen(self) -> bool:
        """Whether mean rados follow."""

    def relation_for(self, shape: Shape) -> Relation:
        """Which tables are neighbours."""

    def distance(self, shape: Shape) -> float:
        """mu of the Gaussian mechanism that all stages together amount to."""

    def scales(self, n_rounds: int, shape: Shape) -> dict[str, float]:
        """The noise of each stage in grid steps; 0 where a stage is exact or not there."""

    def stages(self, shape: Shape, n_rounds: int) -> tuple[Stage, ...]:
        """The stages, with `n_rounds` mean rados."""

    def dearest(self, shape: Shape, *, but: Collection[str] = ()) -> Event:
        """What the stages do, `but` some, with the largest number of mean rados."""


def check_memory(run: Run, n_columns: int) -> None:
    """Refuse moments that do not fit into memory, before anything is spent."""
    memory.require(8 * n_columns**2 * (3 * run.threads + 6), f"moments of {n_columns:,} columns", "use fewer columns")


def begin(budget: Budget, shape: Shape, run: Run, counts: RowCounts) -> dict[str, float]:
    """The noisy numbers of good and spoiled rows, and the rest of the budget booked (M10).

    It stops here if most of the budget would be spent on nothing. The counts are booked on their own, so that nothing
    else is spent then.
    """
    scale = budget.scales(0, shape)["counts"]
    if scale:
        (stage,) = (stage for stage in budget.stages(shape, 0) if stage.name == "counts")
        run.book(stage.event(budget.distance(shape), budget.relation_for(shape), shape.person))
    clean = counts.n_rows - counts.spoiled - counts.unforeseen * shape.raw
    exact = GRID * np.array([[clean, counts.spoiled, *([counts.unforeseen] * shape.raw)]])
    good, spoiled, *unforeseen = ((exact + run.noise(scale, exact.shape))[0] / GRID).tolist()
    deviation = scale / GRID
    if unforeseen:
        _stop_unforeseen(unforeseen[0], good, deviation)
        good += unforeseen[0]
    doubt = deviation * math.sqrt(2 + shape.raw)  # of all rows together
    if shape.person and good + spoiled <= 3 * doubt:
        noisily = f", by counts with noise of deviation {doubt:,.0f}, so there may be none" if scale else ""
        raise TableError(
            f"about {max(0.0, good + spoiled):,.0f} rows have a person in {shape.person!r}{noisily}: name the column "
            f"that says whose row it is, {BY_DOCUMENTS}, or take a larger epsilon. These counts are all that was "
            f"spent, and {ONLY_A_LEDGER}"
        )
    excess = spoiled - MOST_SPOILED * (good + spoiled)
    spread = deviation * math.sqrt((1 - MOST_SPOILED) ** 2 + (1 + shape.raw) * MOST_SPOILED**2)
    if excess > 3 * spread and spoiled > 6 * deviation:
        value = "" if shape.raw else "a value is missing or not finite, or "
        raise TableError(
            f"about {spoiled:,.0f} rows would contribute nothing, and {max(0.0, good):,.0f} would: {value}the class is "
            "not one of those declared; correct the declaration, "
            f"{BY_DOCUMENTS}. These counts have noise of deviation {deviation:,.0f}, and are all that was spent; "
            f"{ONLY_A_LEDGER}"
        )
    run.book(budget.dearest(shape, but=["counts"]))
    return {"good": good, "spoiled": spoiled, **({"unforeseen": unforeseen[0]} if unforeseen else {})}


def _stop_unforeseen(unforeseen: float, foreseen: float, deviation: float) -> None:
    """Stop where most rows have a cell that the schema does not foresee: most likely a line of it is wrong (M10)."""
    excess = unforeseen - MOST_UNFORESEEN * (unforeseen + foreseen)
    spread = deviation * np.hypot(1 - MOST_UNFORESEEN, MOST_UNFORESEEN)
    if excess > 3 * spread and unforeseen > 6 * deviation:
        raise TableError(
            f"about {unforeseen:,.0f} rows have a cell that the schema does not foresee, and {max(0.0, foreseen):,.0f} "
            "have none: a value that is missing or cannot be read, or is not among those of its category; correct "
            f'kinds, values or marks in the schema, or declare "gaps": true or "other": true, {BY_DOCUMENTS}. These '
            f"counts have noise of deviation {deviation:,.0f}, and are all that was spent; {ONLY_A_LEDGER}"
        )


class Stages:
    """The stages of one release; their results are in `blocks`, and the noisy numbers of rows in `rows`.

    Where bounds were searched for, `rows` were counted before, and all of it is booked.
    """

    def __init__(
        self, budget: Budget, shape: Shape, run: Run, sphere: SphereRows, rows: dict[str, float] | None = None
    ) -> None:
        self._budget, self._shape, self._run, self._sphere = budget, shape, run, sphere
        self.d = sphere.width
        self.counts = RowCounts.zeros(len(sphere.counted))
        self.rows = rows or {}
        self._searches = len(SEARCHES) if shape.n_searched else 0
        self.rounds, self.eta = 0, 0.0
        self.blocks: dict[str, NDArray[np.float64]] = {}

    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds."""
        return released_noise(self._budget.scales(self.rounds, self._shape))

    def run(self) -> None:
        """All stages, in order; linear algebra on one thread, so that its bits do not depend on how many there are."""
        with _linear_algebra().limit(limits=1, user_api="blas"):
            self._run_all()

    def _run_all(self) -> None:
        sharpen, run = self._budget.sharpen, self._run
        run.expect(self._searches + 2 + (1 + FEW_ROUNDS[0]) * sharpen)
        scales = self._budget.scales(FEW_ROUNDS[0] if sharpen else 0, self._shape)
        first = run.sum(self._sphere)
        self.counts = first.counts
        if not self.rows:
            self.rows = begin(self._budget, self._shape, run, self.counts)
        run.add_noise(first, Noise("products", scales["second"], symmetric=True))
        second = first.products / GRID**2
        floor = WHITENING_FLOOR if sharpen else HESSIAN_FLOOR
        a = _snapped_root(second, noise_floor(scales["second"] / GRID**2, self.d, floor))
        edges = run.keep(WhitenedRows(self._sphere, a), self.counts.n_rows if sharpen else None)
        sums = run.noisy_sum(
            SumProducts(run.engine, self.d),
            Noise("vector", scales["sum"]),
            Noise("products", scales["whitened"], symmetric=True),
            source=edges,
        )
        total, whitened = sums.vector / GRID, sums.products / GRID**2
        self.blocks = {"moment:C": second, "whitening": a, "moment:b": total[None], "moment:C2": whitened}
        if sharpen:
            hessian = inverse_power(whitened, noise_floor(scales["whitened"] / GRID**2, self.d, HESSIAN_FLOOR), 1.0)
            self._sharpen(edges, hessian, total, float(np.trace(second)))

    def _sharpen(self, edges: Readable, hessian: NDArray[np.float64], total: NDArray[np.float64], size: float) -> None:
        """Mean rados under the current logistic weights; how many, the first release decides (M6)."""
        few = size * self._budget.distance(self._shape) / (self.d * self._shape.max_rows) < _MANY
        self.rounds, self.eta = FEW_ROUNDS if few else MANY_ROUNDS
        self._run.expect(self._searches + 3 + self.rounds)
        scale = self._budget.scales(self.rounds, self._shape)["rounds"]
        theta = [_snapped(4 * hessian @ total)]
        means = []
        for k in range(self.rounds):
            task = MeanRado(self._run.engine, theta[-1], k + 1, self.rounds)
            mean = self._run.noisy_sum(task, Noise("vector", scale), source=edges)
            means.append(mean.vector / GRID)
            theta.append(_snapped(theta[-1] + 4 * self.eta * (hessian @ means[-1])))
        self.blocks |= {"sharpened": np.array(means), "theta": np.array(theta)}


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries that are loaded, which takes a while to find out."""
    return ThreadpoolController()


def _snapped_root(matrix: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The inverse square root, up to a factor, on a grid: it is part of the release, so it is what everybody uses."""
    root = inverse_power(matrix, floor, 0.5)
    root = (root + root.T) / 2
    return np.asarray(np.rint(root / np.abs(root).max() / _SNAP_A) * _SNAP_A)


def _snapped(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(np.clip(theta, -(2.0**30), 2.0**30) / _SNAP_THETA) * _SNAP_THETA)
