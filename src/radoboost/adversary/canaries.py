"""Canaries: a private mechanism run on two neighbouring tables that are as different as they can be, and scored.

What is run are the parts that crafting is made of; `audits` says which. Runs are addressed by their number: the same
key gives the same runs, in whatever batches.
"""

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.moments_audit import STATISTICS, attack_moments
from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import Moments, NoisyExamples, NoisyRados, PrivateMechanism
from radoboost.holder.mechanisms.contributions import LARGEST, contributions
from radoboost.holder.mechanisms.noisy_rados import INCLUSION
from radoboost.holder.moments_crafting import Stages
from radoboost.holder.noise import rounded_normals
from radoboost.holder.signatures import AllSignatures
from radoboost.privacy import Event, Gaussian, Relation, Repeated, SubsampledGaussian
from radoboost.progress import Progress, silent
from radoboost.release.columns import Column

_ROWS_AT_A_TIME = 1 << 18  # of noise; a batch of runs is over in about a second
WIDTH = 3  # columns of a canary, each with another share of its norm
_LEAST_DISTANCE = 1e-3  # mu of moments: with more noise the canary's table would have to be too large

Noise = Callable[[bytes, float, int, int, int], NDArray[np.int64]]
Clipped = Callable[..., tuple[NDArray[np.int64], NDArray[np.bool_]]]
Score = Callable[[NDArray[Any]], NDArray[np.float64]]
Going = Callable[[], bool]


def always() -> bool:
    """That there is time for more runs."""
    return True


@dataclass(frozen=True)
class Runs:
    """Scores of runs on two neighbouring tables, by the name of the score: with the canary, and without or replaced.

    The first score is the likelihood ratio, or rises with it; the others are for faults. `event` is what was done, as
    the mechanism accounts for it, and `family` the same with noise of another size.
    """

    event: Event
    family: Callable[[float], Event]
    present: Mapping[str, NDArray[np.float64]]
    absent: Mapping[str, NDArray[np.float64]]

    @property
    def ratios(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The first score of either table."""
        first = next(iter(self.present))
        return self.present[first], self.absent[first]


def noisy_rados_runs(
    mechanism: NoisyRados,
    *,
    n_rados: int,
    runs: int,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of releases of the canary alone and of nobody; no more runs are begun when `going` says no.

    >>> made = noisy_rados_runs(NoisyRados(epsilon=4.0), n_rados=20, runs=500, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """
    plan = mechanism.plan(n_rados, WIDTH, None)
    canary = _canary(mechanism, plan.step, clipped)
    signature_key, noise_keys = _keys(key, 3)
    signatures = AllSignatures().prepare(signature_key, n_rados, 64 * runs)
    direction, variance = canary.astype(np.float64), plan.noise_scale**2

    def draw(first: int, count: int) -> Iterator[NDArray[np.int64]]:
        out = np.empty((count, n_rados), dtype=np.uint64)  # row r * 64 of the keystream is run r's canary
        member = (signatures.words(first, count, out) & np.uint64(1)).astype(np.int64)
        for noise_key, inside in zip(noise_keys, (member, np.zeros_like(member)), strict=True):
            yield _noise(noise, noise_key, plan.noise_scale, first, count, n_rados) + inside[:, :, None] * canary

    def ratio(rados: NDArray[np.int64]) -> NDArray[np.float64]:
        gains = (rados @ direction - direction @ direction / 2) / variance
        return np.asarray(np.logaddexp(math.log(1 - INCLUSION), math.log(INCLUSION) + gains).sum(axis=1))

    def spread(rados: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rados @ direction).var(axis=1))

    scores = {"likelihood ratio": ratio, "spread among rados": spread, **_by_column(direction)}
    return Runs(plan.event, partial(_sampled, n_rados), *_scored(draw, scores, runs, n_rados, bar, going))


def _sampled(n_rados: int, multiplier: float) -> Event:
    return Repeated(SubsampledGaussian(multiplier, INCLUSION), n_rados)


def noisy_examples_runs(
    mechanism: NoisyExamples,
    *,
    runs: int,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of noisy edge vectors, of the canary and of its opposite; the mechanism must have a clipping norm.

    >>> made = noisy_examples_runs(NoisyExamples(epsilon=4.0), runs=500, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """
    plan = mechanism.plan(1, WIDTH, 2)
    canary = _canary(mechanism, plan.step, clipped)
    _, noise_keys = _keys(key, 3)
    direction = canary.astype(np.float64)

    def draw(first: int, count: int) -> Iterator[NDArray[np.int64]]:
        for sign, noise_key in zip((1, -1), noise_keys, strict=True):
            rows = _noise(noise, noise_key, plan.noise_scale, first, count, 2)
            rows[:, 0] += sign * canary
            yield np.clip(rows, -LARGEST, LARGEST)

    def value(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(rows[:, 0] @ direction)

    def difference(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rows[:, 0] - rows[:, 1]) @ direction)

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, Relation.EDGE)

    scores = {"the row": value, "the row less another": difference, **_by_column(direction)}
    return Runs(plan.event, family, *_scored(draw, scores, runs, 2, bar, going))


def moments_runs(
    mechanism: Moments,
    *,
    runs: int,
    key: bytes | None = None,
    stages: type[Stages] = Stages,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of releases with the canary, and of those without it or with its label turned over.

    >>> made = moments_runs(Moments(epsilon=4.0, sharpen=False), runs=100, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """
    check_distance(mechanism)

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, mechanism.relation)

    *tables, event = attack_moments(mechanism, runs, key, stages, bar, going)
    scored = (
        {"all stages": statistics[:, :4].sum(axis=1), **dict(zip(STATISTICS, statistics.T, strict=True))}
        for statistics in tables
    )
    return Runs(event, family, *scored)


def check_distance(mechanism: Moments) -> None:
    """Refuse so much noise that nothing can be shown.

    >>> check_distance(Moments(epsilon=1.0))
    """
    if mechanism.distance(WIDTH) < _LEAST_DISTANCE:
        raise ArgumentError("so much noise hides the canary from any number of runs; attack with less")


def _by_column(direction: NDArray[np.float64]) -> dict[str, Score]:
    """Scores for noise that is missing in a column, or the same in two."""

    def last(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(rows[..., -1].sum(axis=1).astype(np.float64))

    def apart(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rows[..., 0] - rows[..., 1]).sum(axis=1).astype(np.float64))

    return {"the last column": last, "two columns apart": apart}


def _canary(mechanism: PrivateMechanism, step: float, clipped: Clipped) -> NDArray[np.int64]:
    """What a record contributes that is as large as it can be, and larger before it is clipped, in every column."""
    columns = [Column(f"x{k}", "none", step) for k in range(WIDTH)]
    far = 2.0 * getattr(mechanism, "clip", 1.0) * np.arange(WIDTH, 0, -1.0)
    integers, _ = clipped(far[None], np.array([1], np.int8), columns, getattr(mechanism, "clip", None), step)
    canary: NDArray[np.int64] = integers[0]
    return canary


def _keys(key: bytes | None, count: int) -> tuple[bytes, list[bytes]]:
    """A key for signatures, and one for the noise of each table."""
    if key is None:
        keys = [secrets.token_bytes(32) for _ in range(count)]
    else:
        keys = [hashlib.sha256(b"radoboost/audit/" + bytes([k]) + key).digest() for k in range(count)]
    return keys[0], keys[1:]


def _noise(noise: Noise, key: bytes, scale: float, first: int, count: int, width: int) -> NDArray[np.int64]:
    """Noise alone, shape (count, width, columns): for these runs, of so many rados or rows each."""
    return noise(key, scale, first * width, count * width, WIDTH).reshape(-1, width, WIDTH)


def _scored(
    draw: Callable[[int, int], Iterable[NDArray[Any]]],
    scores: Mapping[str, Score],
    runs: int,
    width: int,
    bar: Progress,
    going: Going,
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """All scores of both tables, a batch of runs at a time; a run is the same in whatever batch."""
    at_a_time = max(1, _ROWS_AT_A_TIME // width)
    parts = [np.empty((2, len(scores), 0))]
    for first in range(0, runs, at_a_time):
        if not going():
            break
        count = min(at_a_time, runs - first)
        parts.append(np.array([[score(table) for score in scores.values()] for table in draw(first, count)]))
        bar("drawing noise", first + count, runs)
    for table in np.concatenate(parts, axis=2):
        yield dict(zip(scores, table, strict=True))
