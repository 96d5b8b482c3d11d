"""The stages of the mechanism `moments`: each is a noisy sum over rows, on which the next one builds.

The constants were tuned once, on the paper's domains: floors of eigenvalues, how many mean rados there are, and how far
each one goes.
"""

from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from radoboost import memory
from radoboost.holder.mechanisms.moment_passes import GRID, MeanRado, SphereRows, SumProducts, WhitenedRows
from radoboost.holder.noise import round_scale_up
from radoboost.holder.passes import Readable
from radoboost.holder.run import Noise, Run
from radoboost.release.spectra import HESSIAN_FLOOR, inverse_power, noise_floor

WHITENING_FLOOR = 0.75  # of eigenvalues, as a share of what noise alone could be
FEW_ROUNDS, MANY_ROUNDS = (8, 1.0), (32, 4.0)  # how many mean rados, and how far each one goes
_MANY = 100.0  # records for each column, in units of the noise: from here on there are many rounds
_SNAP_A, _SNAP_THETA = 2.0**-30, 2.0**-20


class Budget(Protocol):
    """What the stages need from the mechanism: how much noise each takes."""

    @property
    def sharpen(self) -> bool:
        """Whether mean rados follow."""

    def distance(self, n_columns: int) -> float:
        """mu of the Gaussian mechanism that all stages together amount to."""

    def scales(self, n_rounds: int, n_columns: int = 2) -> dict[str, float]:
        """The noise of each stage in grid steps; 0 where a stage is exact or not there."""


class Stages:
    """The stages of one release; their results are in `blocks`."""

    def __init__(self, budget: Budget, run: Run, sphere: SphereRows) -> None:
        self._budget, self._run, self._sphere = budget, run, sphere
        self.d = sphere.width
        self.n_rows = self.ignored = 0
        self.clipped = np.zeros(len(sphere.columns), dtype=np.int64)
        self.rounds, self.eta = 0, 0.0
        self.blocks: dict[str, NDArray[np.float64]] = {}

    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds."""
        scales = self._budget.scales(self.rounds, self.d)
        unit = {"second": GRID**2, "sum": GRID, "whitened": GRID**2, "rounds": GRID}
        return {stage: round_scale_up(scale) / unit[stage] if scale else 0.0 for stage, scale in scales.items()}

    def run(self) -> None:
        """All stages, in order; linear algebra on one thread, so that its bits do not depend on how many there are."""
        with _linear_algebra().limit(limits=1, user_api="blas"):
            self._run_all()

    def _run_all(self) -> None:
        memory.require(
            8 * self.d**2 * (3 * self._run.threads + 6), f"moments of {self.d:,} columns", "use fewer columns"
        )
        sharpen, run = self._budget.sharpen, self._run
        run.expect(2 + (1 + FEW_ROUNDS[0]) * sharpen)
        scales = self._budget.scales(FEW_ROUNDS[0] if sharpen else 0, self.d)
        first = run.noisy_sum(self._sphere, Noise("products", scales["second"], symmetric=True))
        self.n_rows, self.ignored, self.clipped = first.n_rows, first.ignored, first.clipped
        second = first.products / GRID**2
        floor = WHITENING_FLOOR if sharpen else HESSIAN_FLOOR
        a = _snapped_root(second, noise_floor(scales["second"] / GRID**2, self.d, floor))
        edges = run.keep(WhitenedRows(self._sphere, a), self.n_rows if sharpen else None)
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
        few = size * self._budget.distance(self.d) / self.d < _MANY
        self.rounds, self.eta = FEW_ROUNDS if few else MANY_ROUNDS
        self._run.expect(3 + self.rounds)
        scale = self._budget.scales(self.rounds, self.d)["rounds"]
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
