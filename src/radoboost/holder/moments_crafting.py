"""Crafting for the mechanism `moments`: stages, each a pass over the table that is a sum of what records contribute.

Given what earlier stages released, a record's contribution to a stage is a function of that record alone: loops over
columns run in one order, nothing is vectorised over sums, and there is no matrix product before values are integers
(M2). Sums of integers are exact, in whatever order: below 2**53 also in float64, where BLAS may take them (M3).
"""

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from radoboost.errors import TooLargeError
from radoboost.holder.declared import limit_arrays
from radoboost.holder.mechanisms.contributions import beyond_bounds
from radoboost.holder.mechanisms.moments import (
    CAP,
    CONSTANT_VALUE,
    FEW_ROUNDS,
    GRID,
    HESSIAN_FLOOR,
    MANY_ROUNDS,
    WHITENING_FLOOR,
    Moments,
)
from radoboost.holder.noise import round_scale_up, rounded_normals
from radoboost.holder.passes import counted, share_out
from radoboost.numba_cache import prepare_cache
from radoboost.progress import Progress
from radoboost.release.columns import Column
from radoboost.release.spectra import inverse_power, noise_floor
from radoboost.tables import Batch, Table
from radoboost.tables.labels import LabelRule

_MANY = 100.0  # records for each column, in units of the noise: from here on there are many rounds
_SNAP_A, _SNAP_THETA = 2.0**-30, 2.0**-20
MOST_ROWS = 1 << 16  # in a batch: sums of so many products stay below 2**53
MOST_KEPT = 256 << 20  # bytes of whitened edge vectors that are kept between rounds; more are made again in each


class _Sums:
    """What one thread has summed: vectors, and products of vectors."""

    def __init__(self, n_columns: int) -> None:
        self.vector = np.zeros(n_columns, dtype=np.int64)
        self.products = np.zeros((n_columns, n_columns), dtype=np.int64)
        self.clipped = np.zeros(n_columns, dtype=np.int64)
        self.n_rows = self.n_bad = 0


class Stages:
    """The stages of one release; what they gave so far is in `blocks`."""

    def __init__(
        self,
        mechanism: Moments,
        source: Table,
        rule: LabelRule,
        columns: Sequence[Column],
        intercept: bool,
        threads: int,
        bar: Progress,
    ) -> None:
        self._mechanism, self._source, self._rule = mechanism, source, rule
        self._columns = columns
        self._threads, self._bar = threads, bar
        self.d = len(columns) + intercept
        self._limits = limit_arrays({c.name: c.constants[:2] for c in columns}, [c.name for c in columns])
        self.key = secrets.token_bytes(32)  # never from a seed; only audits set it
        self.n_rows = self.n_bad = 0
        self.clipped = np.zeros(len(columns), dtype=np.int64)
        self.rounds, self.eta = 0, 0.0
        self._kept: list[NDArray[np.int32]] | None = None
        self.blocks: dict[str, NDArray[np.float64]] = {}

    def noise(self) -> dict[str, float]:
        """The noise of each stage, in units of what its block holds."""
        scales = self._mechanism.scales(self.rounds, self.d)
        unit = {"second": GRID**2, "sum": GRID, "whitened": GRID**2, "rounds": GRID}
        return {stage: round_scale_up(scale) / unit[stage] if scale else 0.0 for stage, scale in scales.items()}

    def run(self) -> None:
        """All stages, in order."""
        needed, free = 8 * self.d**2 * (self._threads + 6), int(psutil.virtual_memory().available)
        if needed > free:
            raise TooLargeError(
                f"second moments of {self.d:,} columns need {needed / 2**30:.1f} GiB of memory and "
                f"{free / 2**30:.1f} GiB are free; use fewer columns"
            )
        sharpen = self._mechanism.sharpen
        scales = self._mechanism.scales(FEW_ROUNDS[0] if sharpen else 0, self.d)
        first = self._pass(self.on_sphere, "second moments")
        self.n_rows, self.n_bad, self.clipped = first.n_rows, first.n_bad, first.clipped[: len(self._columns)]
        self._kept = [] if sharpen and 4 * self.n_rows * self.d <= MOST_KEPT else None
        second = self._noisy_products(first, scales["second"], plane=0)
        floor = WHITENING_FLOOR if sharpen else HESSIAN_FLOOR
        a = _snapped_root(second, noise_floor(scales["second"] / GRID**2, self.d, floor))
        sums = self._pass(partial(self.whitened, a=a), "whitened moments")
        total = (sums.vector + self._noise(scales["sum"], 1, self.d, plane=2)[0]) / GRID
        whitened = self._noisy_products(sums, scales["whitened"], plane=3)
        hessian = inverse_power(whitened, noise_floor(scales["whitened"] / GRID**2, self.d, HESSIAN_FLOOR), 1.0)
        self.blocks = {"moment:C": second, "whitening": a, "moment:b": total[None], "moment:C2": whitened}
        if sharpen:
            self._sharpen(a, hessian, total, np.trace(second))
        self.key = secrets.token_bytes(32)  # no key serves twice

    def _sharpen(self, a: Any, hessian: Any, total: Any, size: float) -> None:
        """Mean rados under the current logistic weights; how many, the first release decides (M6)."""
        few = size * self._mechanism.distance(self.d) / self.d < _MANY
        self.rounds, self.eta = FEW_ROUNDS if few else MANY_ROUNDS
        scale = self._mechanism.scales(self.rounds, self.d)["rounds"]
        theta = [_snapped(4 * _times(hessian, total))]
        means = []
        for k in range(self.rounds):
            current = theta[-1]
            mean = self._mean_rado(a, current, f"mean rado {k + 1} of {self.rounds}:")
            means.append((mean + self._noise(scale, 1, self.d, plane=5 + k)[0]) / GRID)
            theta.append(_snapped(current + 4 * self.eta * _times(hessian, means[-1])))
        self.blocks |= {"sharpened": np.array(means), "theta": np.array(theta)}

    # ---- what a record contributes

    def on_sphere(self, batch: Batch) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Rows on the sphere as integers, without labels, and which are good; a bad row is zero (M1)."""
        values, signs = batch.values(), self._rule.signs_or_zero(batch.labels)
        rows, good = np.empty((len(values), self.d)), np.empty(len(values), dtype=np.bool_)
        _kernels()[2](values, signs, *self._limits, CONSTANT_VALUE, float(GRID), rows, good)
        return rows, good

    def whitened(self, batch: Batch, a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Edge vectors of rows on the sphere, mapped by `a` and put on the sphere again, as integers (M2)."""
        rows, good = self.on_sphere(batch)
        edges = np.empty_like(rows)
        _kernels()[0](rows, a, self._rule.signs_or_zero(batch.labels), float(GRID), edges)
        return edges, good

    # ---- sums and noise

    def _pass(
        self,
        contribute: Callable[[Batch], tuple[NDArray[np.float64], NDArray[np.bool_]]],
        what: str,
    ) -> _Sums:
        """Sums of what records contribute, and of its products."""
        kept = None if contribute == self.on_sphere else self._kept

        @np.errstate(all="ignore")  # a signalling NaN is no reason to stop
        def add(worker: _Sums, job: tuple[int, Batch]) -> None:
            _, batch = job
            rows, good = contribute(batch)
            for start in range(0, len(rows), MOST_ROWS):
                part = rows[start : start + MOST_ROWS]
                worker.vector += part.sum(axis=0).astype(np.int64)
                worker.products += (part.T @ part).astype(np.int64)
            worker.n_rows += len(rows)
            worker.n_bad += int((~good).sum())
            if kept is not None:
                kept.append(rows.astype(np.int32))
            if contribute == self.on_sphere:
                worker.clipped[: len(self._columns)] += beyond_bounds(batch.values(), good, self._columns)

        return self._shared(counted(self._source, self._bar, what, None), add)

    def _mean_rado(self, a: NDArray[np.float64], theta: NDArray[np.float64], what: str) -> NDArray[np.int64]:
        """The sum of edge vectors under the logistic weights of theta, from those that were kept if they were."""

        def add_kept(worker: _Sums, edges: NDArray[np.int32]) -> None:
            add_tilted(edges, theta, worker.vector)

        @np.errstate(all="ignore")
        def add(worker: _Sums, job: tuple[int, Batch]) -> None:
            add_tilted(self.whitened(job[1], a)[0], theta, worker.vector)

        if self._kept is None:
            return self._shared(counted(self._source, self._bar, what, None), add).vector
        return self._shared(self._kept_edges(what), add_kept).vector

    def _kept_edges(self, what: str) -> Iterator[NDArray[np.int32]]:
        done = 0
        for edges in self._kept or ():
            yield edges
            done += len(edges)
            self._bar(f"{what} rows", done, self.n_rows)

    def _shared(self, jobs: Iterator[Any], add: Callable[[_Sums, Any], None]) -> _Sums:
        workers = share_out(jobs, lambda: _Sums(self.d), add, self._threads, threading.Event())
        total = workers.pop()
        for worker in workers:
            total.vector += worker.vector
            total.products += worker.products
            total.n_rows += worker.n_rows
            total.n_bad += worker.n_bad
            total.clipped += worker.clipped
        return total

    def _noise(self, scale: float, n_rows: int, n_columns: int, plane: int) -> NDArray[np.int64]:
        if scale == 0:
            return np.zeros((n_rows, n_columns), dtype=np.int64)
        return rounded_normals(self.key, round_scale_up(scale), 0, n_rows, n_columns, plane=plane)

    def _noisy_products(self, sums: _Sums, scale: float, plane: int) -> NDArray[np.float64]:
        """Products with noise `scale` on the diagonal and scale / sqrt(2) beside it, the same on both sides (M4)."""
        diagonal = self._noise(scale, 1, self.d, plane)[0]
        beside = np.triu(self._noise(scale / np.sqrt(2), self.d, self.d, plane + 1), 1)
        noisy: NDArray[np.float64] = (sums.products + np.diag(diagonal) + beside + beside.T) / GRID**2
        return noisy


def _snapped_root(matrix: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The inverse square root, up to a factor, on a grid: it is part of the release, so it is what everybody uses."""
    root = inverse_power(matrix, floor, 0.5)
    root = (root + root.T) / 2
    return np.asarray(np.rint(root / np.abs(root).max() / _SNAP_A) * _SNAP_A)


def _snapped(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(np.clip(theta, -(2.0**30), 2.0**30) / _SNAP_THETA) * _SNAP_THETA)


def _times(matrix: NDArray[np.float64], vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(matrix @ vector)


def add_tilted(edges: NDArray[Any], theta: NDArray[np.float64], total: NDArray[np.int64]) -> None:
    """Add to `total` the edge vectors under the logistic weights of theta, capped (M2)."""
    _kernels()[1](edges, theta, float(GRID), CAP, int(CAP * GRID) ** 2, total)


@cache
def _kernels() -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    """Whitening, tilting, and putting rows on the sphere: a row at a time, compiled without licence to reorder."""
    prepare_cache()
    from numba import njit

    def whiten(rows: Any, a: Any, signs: Any, grid: float, out: Any) -> None:
        n, d = rows.shape
        image = np.empty(d)
        for i in range(n):
            image[:] = 0.0
            for k in range(d):
                for j in range(d):
                    image[j] += a[k, j] * rows[i, k]
            squares = 0.0
            for j in range(d):
                squares += image[j] * image[j]
            factor = grid / np.sqrt(squares) if squares > 0.0 else 0.0
            whole = 0.0
            for j in range(d):
                out[i, j] = np.trunc(image[j] * factor)
                whole += out[i, j] * out[i, j]  # exact: whole numbers below 2**53
            fits = whole <= grid * grid  # not so if anything is no number
            for j in range(d):
                out[i, j] = out[i, j] * signs[i] if fits else 0.0

    def tilt(rows: Any, theta: Any, grid: float, cap: float, most: int, total: Any) -> None:
        n, d = rows.shape
        part = np.empty(d, dtype=np.int32)
        for i in range(n):
            score = 0.0
            for j in range(d):
                score += rows[i, j] * theta[j]
            weight = min(1.0 / (1.0 + np.exp(score / grid)), cap)
            whole = np.int64(0)
            for j in range(d):
                part[j] = np.int32(rows[i, j] * weight)  # towards zero
                whole += np.int64(part[j]) * np.int64(part[j])
            if whole <= most:
                for j in range(d):
                    total[j] += part[j]

    def sphere(values: Any, signs: Any, low: Any, high: Any, constant: float, grid: float, out: Any, good: Any) -> None:
        n, d = out.shape
        for i in range(n):
            fine = signs[i] != 0
            squares = 0.0
            for k in range(len(low)):
                x = np.float64(values[i, k])
                fine = fine and np.isfinite(x)
                x = min(max(x, low[k]), high[k])
                out[i, k] = ((x - low[k]) * 2.0) / (high[k] - low[k]) - 1.0  # as columns scale by bounds
            if d > len(low):
                out[i, d - 1] = constant
            for k in range(d):
                squares += out[i, k] * out[i, k]
            factor = grid / max(np.sqrt(squares), 2.0**-500)
            whole = 0.0
            for k in range(d):
                out[i, k] = np.trunc(out[i, k] * factor)
                whole += out[i, k] * out[i, k]  # exact: whole numbers below 2**53
            good[i] = fine
            if not (fine and whole <= grid * grid):
                for k in range(d):
                    out[i, k] = 0.0

    options = {"cache": True, "nogil": True, "error_model": "numpy"}
    return njit(**options)(whiten), njit(**options)(tilt), njit(**options)(sphere)


def draw_rados(
    total: NDArray[np.float64], second: NDArray[np.float64], a: NDArray[np.float64], n_rados: int
) -> NDArray[np.float64]:
    """Rados with half of `total` as mean and a quarter of `second` as covariance, in columns before whitening by `a`.

    Of released numbers alone, so floats may be used (M9). With more rados than columns both moments are met exactly, to
    rounding; with fewer they are those of the law that rados are drawn from.
    """
    d = len(total)
    values, vectors = np.linalg.eigh(second / 4)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(secrets.randbits(128)).standard_normal((n_rados, d))
    if n_rados > d:
        draws -= draws.mean(axis=0)
        draws = np.linalg.solve(np.linalg.cholesky(draws.T @ draws / n_rados), draws.T).T
    return np.asarray(np.linalg.solve(a, (total[:, None] / 2) + root @ draws.T).T)
