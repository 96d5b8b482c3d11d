"""Canaries: a private mechanism run on two neighbouring tables that are as different as they can be, and scored.

What is run is the mechanism's own `make`, as crafting runs it. The same key gives the same runs.
"""

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.engines import get_engine
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.mechanisms import NoisePlan, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.noisy_rados import INCLUSION
from radoboost.holder.mechanisms.record_level import clipping_norm_in_steps
from radoboost.holder.request import CraftRequest
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.signatures import AllSignatures
from radoboost.privacy import Event, Gaussian, Relation, Repeated, SubsampledGaussian
from radoboost.progress import Progress, silent
from radoboost.release.release import RADOS
from radoboost.tables import Table, open_table
from radoboost.tables.column_types import Category, Number
from radoboost.tables.schema import Schema

# ---- The record that an audit looks for, and tables of such records.
#
# A canary is a row of numbers, or a row of a raw table that a schema reads: one with a gap and a category. What is
# attacked in the second case is the whole way from the cells on.

WIDTH = 3  # columns of a canary of numbers, each with another share of its norm
_MOST_COLUMNS = 300  # of a canary that must be long
RAW_SCHEMA = Schema({"age": Number(0, 120, fill=90, gaps=True), "ward": Category(("A", "B"), other=True)})
_RAW_CELLS = {"age": "", "ward": "B"}
_RAW_NOTHING = {"age": "60", "ward": ""}  # zeros, once it is scaled


@dataclass(frozen=True, eq=False)
class Canary:
    """A record as encoded columns, `values`, and what is declared about tables of such records."""

    values: NDArray[np.float64]
    schema: Schema

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The values by their bounds, within [-1, 1]."""
        limits = self.schema.limits()
        low, high = np.array(limits if isinstance(limits, tuple) else list(limits.values()), dtype=np.float64).T
        return np.asarray(np.clip(2 * (self.values - low) / (high - low) - 1, -1, 1))

    def table(
        self, labels: Sequence[float], *, beside_nothing: bool = False, last: NDArray[np.float64] | None = None
    ) -> Table:
        """As many canaries as there are labels, opened as crafting opens a table for a promise about records.

        With `beside_nothing` every second row is one of zeros instead. The `last` row may hold other numbers.
        """
        schema, places = self.schema, np.arange(len(labels)) % (1 + beside_nothing)
        if not schema.raw:
            rows = np.array([self.values, np.zeros_like(self.values)])[places]
            rows[-1:] = rows[-1:] if last is None else last
            return open_table(rows, np.array(labels), row_by_row=True)
        cells = {name: pa.array([cell, _RAW_NOTHING[name]]).take(pa.array(places)) for name, cell in _RAW_CELLS.items()}
        return open_table(pa.table(cells), np.array(labels), row_by_row=True, schema=schema)


def canary_of_numbers(values: Sequence[float]) -> Canary:
    """A canary of numbers, each between -1 and 1, or clipped to that."""
    row = np.array(values, dtype=np.float64)
    return Canary(row, Schema(numbers=((-1.0, 1.0),) * len(row)))


def long_canary(clip: float) -> Canary:
    """A canary that is much longer than `clip`, with another share of its norm in every column.

    If `clip` is very large, the row is as long as a few hundred columns allow.
    """
    width = min(max(WIDTH, math.ceil(WIDTH * clip**2)), _MOST_COLUMNS)
    return canary_of_numbers(np.linspace(1.0, 0.9, width).tolist())


def raw_canary() -> Canary:
    """A canary with a gap and a category, as a schema reads it."""
    canary = Canary(np.zeros(0), RAW_SCHEMA)
    return Canary(next(canary.table([1]).batches()).values()[0], canary.schema)


_RADOS_AT_A_TIME = 1 << 18  # in one release
_ROWS_AT_A_TIME = 1 << 10  # canaries in one table

Score = Callable[[NDArray[Any]], NDArray[np.float64]]
Going = Callable[[], bool]


@dataclass(frozen=True)
class Scenario:
    """On which made-up tables a mechanism is attacked or replayed, how often, and with what.

    `raw` canaries and tables are read by a schema. With `private_bounds` the mechanism finds bounds itself. `columns`
    is the word for the columns of a release of moments. A person contributes at most `max_rows` rows. A `room` has so
    many holders, of whom so many may be lost or collude. A replay that is not `thorough` has fewer pairs and
    transcripts. `key` makes runs repeatable, `run` lets tests attack faulty noise, and no run begins once `going`
    returns False.
    """

    n_rados: int = 100
    n_examples: int = 1000
    n_columns: int = 3
    n_classes: int = 2
    max_rows: int | None = None
    room: tuple[int, int] | None = None
    raw: bool = False
    private_bounds: bool = False
    columns: str = "auto"
    thorough: bool = True
    runs: int = 40_000
    key: bytes | None = None
    run: type[Curator] = Curator
    bar: Progress = silent
    going: Going = lambda: True


@dataclass(frozen=True)
class Runs:
    """Scores of runs on two neighbouring tables: with the canary, and without it or with it replaced.

    A score is the likelihood ratio, or rises with it. `event` is what was done, as the mechanism accounts for it, and
    `family` the same with noise of another size. `threshold` is the score above which the canary is the likelier; None
    leaves it to some of the runs.
    """

    event: Event
    family: Callable[[float], Event]
    present: NDArray[np.float64]
    absent: NDArray[np.float64]
    threshold: float | None = None


def noisy_sums_runs(mechanism: NoisyRados, scenario: Scenario) -> Runs:
    """Scores of releases of the canary alone and of an empty table.

    Rados are independent of each other given the table, so one release of many rados is many releases of a few: each
    call of the mechanism's `make` serves a batch of runs.
    """
    canary = raw_canary() if scenario.raw else long_canary(mechanism.clip)
    width, n_rados = len(canary.values), scenario.n_rados
    plan = mechanism.plan(n_rados, width, None)
    many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
    direction = _canary_contribution(canary.scaled, plan)
    variance = plan.noise_scale**2

    def draw(first: int, count: int) -> Iterator[NDArray[np.float64]]:
        for which, labels in enumerate(([1], [])):
            keys = _canary_run_keys(scenario.key, which, first)
            rados = _make_canary_rados(
                many, canary, canary.table(labels), count * n_rados, AllSignatures(), keys, scenario.run
            )
            yield rados.reshape(count, n_rados, width) / plan.step

    def ratio(rados: NDArray[np.float64]) -> NDArray[np.float64]:
        gains = (rados @ direction - direction @ direction / 2) / variance
        return np.asarray(np.logaddexp(math.log(1 - INCLUSION), math.log(INCLUSION) + gains).sum(axis=1))

    at_a_time = max(1, _RADOS_AT_A_TIME // n_rados)

    def family(multiplier: float) -> Event:
        return Repeated(SubsampledGaussian(multiplier, INCLUSION), n_rados)

    return Runs(plan.event, family, *_score_canary_runs(draw, ratio, at_a_time, scenario))


def noisy_rows_runs(mechanism: NoisyExamples, scenario: Scenario) -> Runs:
    """Scores of noisy edge vectors, of the canary and of its opposite; the mechanism must have a clipping norm.

    Rows have noise of their own, so a table of many canaries is many tables of one: a release in which each rado is one
    row serves a batch of runs. Beside every canary there is a row of nothing.
    """
    if mechanism.clip is None:
        raise ArgumentError("noise without a clipping norm promises nothing, so there is nothing to audit")
    canary = raw_canary() if scenario.raw else long_canary(mechanism.clip)
    width = len(canary.values)
    plan = mechanism.plan(1, width, 2)
    many = replace(mechanism, epsilon=None, noise_std=plan.noise_std)
    direction = _canary_contribution(canary.scaled, plan)

    def draw(first: int, count: int) -> Iterator[NDArray[np.float64]]:
        for which, label in enumerate((1.0, 0.0)):
            keys = _canary_run_keys(scenario.key, which, first)
            table = canary.table([label] * (2 * count), beside_nothing=True)
            rados = _make_canary_rados(many, canary, table, 2 * count, SingleRowSignatures(), keys, scenario.run)
            yield rados.reshape(count, 2, width) / plan.step

    def value(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(rows[:, 0] @ direction)

    return Runs(
        plan.event,
        partial(Gaussian, relation=Relation.EDGE),
        *_score_canary_runs(draw, value, _ROWS_AT_A_TIME, scenario),
    )


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


def _make_canary_rados(
    mechanism: Any, canary: Canary, table: Table, n_rados: int, signatures: Any, keys: tuple[bytes, bytes],
    run: type[Curator],
) -> NDArray[np.float64]:  # fmt: skip
    """The rados that the mechanism makes of a table, in the way that `craft` calls it."""
    signature_key, noise_key = keys
    asked = CraftRequest(
        replace(canary.schema, classes=(0, 1)), replace(mechanism, intercept=False), n_rados, signature_key,
        signatures=signatures,
    )  # fmt: skip
    mechanism.check(asked)
    rados: NDArray[np.float64] = mechanism.make(
        asked, run(table, get_engine("auto"), ThreadRunner(1), noise_key)
    ).blocks[RADOS]
    return rados


def _canary_contribution(row: NDArray[np.float64], plan: NoisePlan) -> NDArray[np.float64]:
    """What the canary contributes, in grid steps, to within about one step; the adversary knows it."""
    assert plan.clip is not None
    reach = clipping_norm_in_steps(plan.clip, plan.step) * plan.step
    return np.asarray(np.trunc(row * min(1.0, reach / float(np.linalg.norm(row))) / plan.step))


def _canary_run_keys(key: bytes | None, which: int, first: int) -> tuple[bytes, bytes]:
    """A key for signatures and one for noise, for a table and the runs that begin with `first`."""
    if key is None:
        return secrets.token_bytes(32), secrets.token_bytes(32)
    place = bytes([which]) + first.to_bytes(8, "little") + key
    signatures, noise = (hashlib.sha256(b"radoboost/audit/" + what + place).digest() for what in (b"s", b"n"))
    return signatures, noise


def _score_canary_runs(
    draw: Callable[[int, int], Iterable[NDArray[Any]]], score: Score, at_a_time: int, scenario: Scenario,
) -> NDArray[np.float64]:  # fmt: skip
    """The scores of both tables, a batch of runs at a time."""
    parts = [np.empty((2, 0))]
    for first in range(0, scenario.runs, at_a_time):
        if not scenario.going():
            break
        count = min(at_a_time, scenario.runs - first)
        parts.append(np.array([score(table) for table in draw(first, count)]))
        scenario.bar("crafting", first + count, scenario.runs)
    return np.concatenate(parts, axis=1)
