"""Canaries: a private mechanism run on two neighbouring tables that are as different as they can be, and scored.

What is run is the mechanism's own `make`, as crafting runs it. The same key gives the same runs.
"""

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.mechanisms import CraftRequest, Mechanism, Moments, NoisePlan, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.noisy_rados import INCLUSION
from radoboost.holder.mechanisms.record_level import clip_steps
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.signatures import AllSignatures
from radoboost.lab.audits.canary import WIDTH, Canary, long_row, raw_row
from radoboost.lab.audits.moments_audit import (
    ALL_STAGES,
    NUMBERS,
    OF_SLOTS,
    ON_EDGES,
    STAGES,
    STATISTICS,
    attack_moments,
)
from radoboost.privacy import Event, Gaussian, Relation, Repeated, SubsampledGaussian
from radoboost.progress import Progress, silent
from radoboost.release.release import RADOS
from radoboost.tables import Table

_RADOS_AT_A_TIME = 1 << 18  # in one release
_ROWS_AT_A_TIME = 1 << 10  # canaries in one table
_LEAST_DISTANCE = 1e-3  # mu of moments: with more noise the canary's table would have to be too large

Score = Callable[[NDArray[Any]], NDArray[np.float64]]
Going = Callable[[], bool]


def always() -> bool:
    """Allow any number of runs: there is no time limit."""
    return True


@dataclass(frozen=True)
class Runs:
    """Scores of runs on two neighbouring tables, by the name of the score: with the canary, and without or replaced.

    The first score is the likelihood ratio, or rises with it; the others are for faults. `event` is what was done, as
    the mechanism accounts for it, and `family` the same with noise of another size. `threshold` is the value of the
    first score above which the canary is the likelier; None leaves it to some of the runs. `by_stage` has the events of
    stages, for scores that are their likelihood ratios.
    """

    event: Event
    family: Callable[[float], Event]
    present: Mapping[str, NDArray[np.float64]]
    absent: Mapping[str, NDArray[np.float64]]
    threshold: float | None = None
    by_stage: Mapping[str, Event] = field(default_factory=dict)

    @property
    def ratios(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The first score of either table."""
        first = next(iter(self.present))
        return self.present[first], self.absent[first]


def noisy_sums_runs(
    mechanism: NoisyRados,
    *,
    n_rados: int,
    runs: int,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    going: Going = always,
    raw: bool = False,
) -> Runs:
    """Scores of releases of the canary alone and of an empty table; no run begins once `going` returns False.

    Rados are independent of each other given the table, so one release of many rados is many releases of a few: each
    call of the mechanism's `make` serves a batch of runs. `run` lets tests attack faulty noise.
    """
    canary = raw_row() if raw else long_row(mechanism.clip)
    width = len(canary.values)
    plan = mechanism.plan(n_rados, width, None)
    many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
    direction = _contribution(canary.scaled, plan)
    variance = plan.noise_scale**2

    def draw(first: int, count: int) -> Iterator[NDArray[np.float64]]:
        for which, labels in enumerate(([1], [])):
            keys = _keys(key, which, first)
            rados = _make_rados(many, canary, canary.table(labels), count * n_rados, AllSignatures(), keys, run)
            yield rados.reshape(count, n_rados, width) / plan.step

    def ratio(rados: NDArray[np.float64]) -> NDArray[np.float64]:
        gains = (rados @ direction - direction @ direction / 2) / variance
        return np.asarray(np.logaddexp(math.log(1 - INCLUSION), math.log(INCLUSION) + gains).sum(axis=1))

    def spread(rados: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((rados @ direction).var(axis=1))

    scores = {"likelihood ratio": ratio, "spread among rados": spread, **_by_column()}
    at_a_time = max(1, _RADOS_AT_A_TIME // n_rados)
    return Runs(plan.event, partial(_sampled, n_rados), *_score_all(draw, scores, runs, at_a_time, bar, going))


def _sampled(n_rados: int, multiplier: float) -> Event:
    return Repeated(SubsampledGaussian(multiplier, INCLUSION), n_rados)


def noisy_rows_runs(
    mechanism: NoisyExamples,
    *,
    runs: int,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    going: Going = always,
    raw: bool = False,
) -> Runs:
    """Scores of noisy edge vectors, of the canary and of its opposite; the mechanism must have a clipping norm.

    Rows have noise of their own, so a table of many canaries is many tables of one: a release in which each rado is one
    row serves a batch of runs. Beside every canary there is a row of nothing.
    """
    assert mechanism.clip is not None
    canary = raw_row() if raw else long_row(mechanism.clip)
    width = len(canary.values)
    plan = mechanism.plan(1, width, 2)
    many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
    direction = _contribution(canary.scaled, plan)

    def draw(first: int, count: int) -> Iterator[NDArray[np.float64]]:
        for which, label in enumerate((1.0, 0.0)):
            keys = _keys(key, which, first)
            table = canary.table([label] * (2 * count), beside_nothing=True)
            rados = _make_rados(many, canary, table, 2 * count, SingleRowSignatures(), keys, run)
            yield rados.reshape(count, 2, width) / plan.step

    def value(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(rows[:, 0] @ direction)

    def difference(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((rows[:, 0] - rows[:, 1]) @ direction)

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, Relation.EDGE)

    scores = {"the row": value, "the row less another": difference, **_by_column()}
    return Runs(plan.event, family, *_score_all(draw, scores, runs, _ROWS_AT_A_TIME, bar, going))


@dataclass(frozen=True)
class SingleRowSignatures:
    """The signature set in which rado j is row j alone."""

    name: ClassVar[str] = "row-by-row"
    by_coins: ClassVar[bool] = False

    def parameters(self, n_examples: int) -> dict[str, Any]:
        return {}

    def size(self, n_examples: int) -> int:
        return n_examples

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> "SingleRowSignatures":
        return self

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bits of which each rado has one, for its row."""
        out[:] = 0
        first = first_tile * TILE_ROWS
        rados = np.arange(first, min(first + n_tiles * TILE_ROWS, out.shape[1]))
        out[rados // TILE_ROWS - first_tile, rados] = np.uint64(1) << (rados % TILE_ROWS).astype(np.uint64)
        return out


def _make_rados(
    mechanism: Mechanism,
    canary: Canary,
    table: Table,
    n_rados: int,
    signatures: Any,
    keys: tuple[bytes, bytes],
    run: type[Curator],
) -> NDArray[np.float64]:
    """The rados that the mechanism makes of a table, in the way that `craft` calls it."""
    signature_key, noise_key = keys
    asked = CraftRequest(
        n_rados=n_rados, signature_key=signature_key, declared=canary.declared, classes=(0, 1),
        signatures=signatures, intercept=False,
    )  # fmt: skip
    mechanism.check(asked)
    made = mechanism.make(asked, run(table, get_engine("auto"), ThreadRunner(1), noise_key))
    return made.blocks[RADOS]


def _contribution(row: NDArray[np.float64], plan: NoisePlan) -> NDArray[np.float64]:
    """What the canary contributes, in grid steps, to within about one step; the adversary knows it."""
    assert plan.clip is not None
    reach = clip_steps(plan.clip, plan.step) * plan.step
    return np.asarray(np.trunc(row * min(1.0, reach / float(np.linalg.norm(row))) / plan.step))


def moments_runs(
    mechanism: Moments,
    *,
    runs: int,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    going: Going = always,
    private_bounds: bool = False,
    raw: bool = False,
    columns: str = "auto",
    far: bool | None = None,
    n_classes: int = 2,
) -> Runs:
    """Scores of releases with the canary, and of those without it or with its label turned over.

    With `private_bounds` the mechanism finds the bounds itself. A `raw` canary is one that a schema reads. `columns`
    is the word for the columns of the release. Where a record is replaced, it is by its opposite, or by one that is
    `far` in its features: by default by the one that moves the stages further, all of them together. There may be more
    than two classes, `n_classes`.
    """
    check_distance(mechanism)
    names = (*STATISTICS, *(OF_SLOTS if n_classes > 2 else ()))
    replaced = mechanism.neighbours is Relation.REPLACE
    if far and (raw or not replaced):
        raise ArgumentError("a record that is far is one of numbers, and replaces another; leave far out")
    if far is None:  # an opposite moves no second moments, which have half of the budget where nothing is sharpened
        far = replaced and not mechanism.sharpen and not raw

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, mechanism.neighbours)

    numbers = ON_EDGES if replaced and not far else NUMBERS
    canary = raw_row() if raw else numbers
    about = private_bounds, canary, columns, far, n_classes
    *tables, claims = attack_moments(mechanism, runs, key, run, bar, going, *about)
    present, absent = (
        {ALL_STAGES: statistics[:, : len(STAGES)].sum(axis=1), **dict(zip(names, statistics.T, strict=True))}
        for statistics in tables
    )
    return Runs(claims.pop(ALL_STAGES), family, present, absent, threshold=0.0, by_stage=claims)


def check_distance(mechanism: Moments) -> None:
    """Refuse a mechanism with so much noise that no attack can show anything."""
    if mechanism.distance(NoiseShape(WIDTH)) < _LEAST_DISTANCE:
        raise ArgumentError("so much noise hides the canary in any number of runs; attack a mechanism with less")


def _by_column() -> dict[str, Score]:
    """Scores for noise that is missing in a column, or the same in two."""

    def last(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(rows[..., -1].sum(axis=1))

    def apart(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((rows[..., 0] - rows[..., 1]).sum(axis=1))

    return {"the last column": last, "two columns apart": apart}


def _keys(key: bytes | None, which: int, first: int) -> tuple[bytes, bytes]:
    """A key for signatures and one for noise, for a table and the runs that begin with `first`."""
    if key is None:
        return secrets.token_bytes(32), secrets.token_bytes(32)
    place = bytes([which]) + first.to_bytes(8, "little") + key
    signatures, noise = (hashlib.sha256(b"radoboost/audit/" + what + place).digest() for what in (b"s", b"n"))
    return signatures, noise


def _score_all(
    draw: Callable[[int, int], Iterable[NDArray[Any]]],
    scores: Mapping[str, Score],
    runs: int,
    at_a_time: int,
    bar: Progress,
    going: Going,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """All scores of both tables, a batch of runs at a time."""
    parts = [np.empty((2, len(scores), 0))]
    for first in range(0, runs, at_a_time):
        if not going():
            break
        count = min(at_a_time, runs - first)
        parts.append(np.array([[score(table) for score in scores.values()] for table in draw(first, count)]))
        bar("crafting", first + count, runs)
    present, absent = (dict(zip(scores, table, strict=True)) for table in np.concatenate(parts, axis=2))
    return present, absent
