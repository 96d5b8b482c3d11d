"""The attack on `moments`: what an adversary who knows all other records makes of the stages of a release.

The other records are pairs of opposite edge vectors, all along the canary's own. So the classifier that sharpening
starts from hardly leans either way, and the canary has nearly the largest weight that a record can have in every
round. Given what was released before, a stage is a known vector, plus noise, plus the canary's contribution if it is
there: the log-likelihood ratio of each stage follows, and those of the stages add up.

Where bounds are found privately, the adversary is given the noisy counts of bins as well, which no release contains:
the promise covers them, and bounds follow from nothing else.

What is run is the mechanism's `make`, whole, as crafting runs it.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.canary import Canary, row_of_numbers
from radoboost.holder.declared import Declared
from radoboost.holder.engines import Engine, get_engine
from radoboost.holder.mechanisms import Asked, Made, Moments
from radoboost.holder.mechanisms.bins import Binned, CountBins
from radoboost.holder.mechanisms.moment_budget import Shape
from radoboost.holder.mechanisms.moment_passes import CAP, CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moment_plan import FEW_ROUNDS
from radoboost.holder.run import Noise, Run
from radoboost.holder.runners.threads import Threads
from radoboost.privacy import Event
from radoboost.progress import Progress
from radoboost.release.columns import Column

NUMBERS = row_of_numbers((6.0, 4.0))  # far beyond the bounds, and with the constant three columns in all
_PULL = 80.0  # records for each column in units of the noise: few enough for the smaller number of rounds
STATISTICS = (
    "counts", "bounds", "second moments", "sum", "whitened moments", "mean rados",
    "sum less a mean rado", "mean rados apart", "searches apart", "numbers without noise",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Knowledge:
    """What the adversary knows: the canary, how many pairs of other records there are, and what is protected."""

    canary: Canary
    pairs: int
    label_unit: bool
    engine: Engine


def attack_moments(
    mechanism: Moments,
    runs: int,
    key: bytes | None,
    run: type[Run],
    bar: Progress,
    going: Callable[[], bool],
    private_bounds: bool = False,
    canary: Canary = NUMBERS,
) -> tuple[NDArray[np.float64], NDArray[np.float64], Event]:
    """Statistics of `runs` releases with the canary and of as many without, a row each; and the event of the claim.

    `run` lets tests attack faulty noise. No run begins once `going` returns False. With `private_bounds` none are
    declared.
    """
    d = len(canary.values) + 1
    shape = Shape(d, (d - 1) * private_bounds, raw=canary.declared.schema is not None)
    declared = Declared({}, all_private=True) if private_bounds else canary.declared
    pairs = max(1, round(_PULL * d / mechanism.distance(shape) / 2))
    others = [1] * pairs + [0] * pairs
    label_unit = mechanism.unit == "label"
    tables = [canary.table(labels) for labels in ([*others, 1], [*others, 0] if label_unit else others)]
    engine = get_engine("auto")
    knowledge = _Knowledge(canary, pairs, label_unit, engine)
    listening = _listening(run)
    statistics = np.empty((2, runs, len(STATISTICS)))
    n_done, rounds = 0, FEW_ROUNDS if mechanism.sharpen else 0
    while n_done < runs and going():
        for which, table in enumerate(tables):
            listener = listening(table, engine, Threads(1), _key(key, which, n_done))
            made = _make(mechanism, listener, declared)
            statistics[which, n_done] = _statistics(made, knowledge, listener.heard)
            rounds = made.parameters["rounds"]
        n_done += 1
        if n_done % 100 == 0:
            bar("releases with and without the canary", n_done, runs)
    return statistics[0, :n_done], statistics[1, :n_done], mechanism.event(shape, rounds)


def _listening(run: type[Run]) -> Any:
    """A run that also keeps the noisy counts of the searches for bounds, with what was counted."""

    class Listening(run):  # type: ignore[valid-type, misc]
        def __init__(self, *about: Any) -> None:
            super().__init__(*about)
            self.heard: list[tuple[CountBins, NDArray[np.int64]]] = []

        def sum(self, task: Any, source: Any = None) -> Any:
            self._task = task
            return super().sum(task, source)

        def add_noise(self, total: Any, *noises: Noise) -> None:
            super().add_noise(total, *noises)
            if isinstance(total, Binned):
                self.heard.append((self._task, total.bins.copy()))

    return Listening


def _make(mechanism: Moments, run: Run, declared: Declared) -> Made:
    """What the mechanism makes of a table, in the way that `craft` calls it, without rados."""
    asked = Asked(n_rados=0, signature_key=bytes(32), declared=declared, classes=(0, 1))
    mechanism.check(asked)
    return mechanism.make(asked, run)


def _on_sphere(engine: Engine, values: NDArray[np.float64], columns: Sequence[Column]) -> NDArray[np.int32]:
    """The canary on the sphere, shape (columns, 1), by the bounds of a release."""
    low, high = np.array([column.constants[:2] for column in columns[: len(values)]]).T
    rows, _ = engine.sphere(values[None], np.ones(1, np.int8), low.copy(), high.copy(), CONSTANT_VALUE, GRID)
    return rows


def _key(key: bytes | None, which: int, run: int) -> bytes:
    if key is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(b"radoboost/audit/moments/" + bytes([which]) + run.to_bytes(8, "little") + key).digest()


def _statistics(made: Made, knowledge: _Knowledge, heard: Sequence[tuple[CountBins, NDArray[np.int64]]]) -> list[float]:
    """Log-likelihood ratios by stage, and differences that should tell nothing more."""
    blocks, noise, others = made.blocks, made.parameters["noise"], 2 * knowledge.pairs + knowledge.label_unit
    values = knowledge.canary.values
    row = _on_sphere(knowledge.engine, values, made.columns)
    edge = knowledge.engine.whiten(row, blocks["whitening"], np.ones(1, np.int8), GRID)
    q, e = row[:, 0].astype(np.float64), edge[:, 0].astype(np.float64)
    opposite = -e if knowledge.label_unit else np.zeros_like(e)  # the canary's part where it is absent
    parts: list[tuple[Any, Any, float]] = [(blocks["moment:b"][0] * GRID - opposite, e - opposite, noise["sum"] * GRID)]
    for mean, theta in zip(*_rounds(made), strict=True):
        plus, minus = (knowledge.engine.tilt(row, theta, GRID, CAP) for row in (edge, -edge))
        absent = minus if knowledge.label_unit else np.zeros_like(plus)
        known_sum = knowledge.pairs * (plus + minus) + absent
        parts.append((mean * GRID - known_sum, plus - absent, noise["rounds"] * GRID))
    unit = GRID**2
    squares = [
        (blocks[name] * unit - others * np.outer(v, v), np.outer(v, v), noise[stage] * unit)
        for name, v, stage in (("moment:C", q, "second"), ("moment:C2", e, "whitened"))
    ]
    second, whitened = (log_ratio(*square) for square in squares)
    rows = made.parameters["rows"]
    good = np.array([(rows["good"] - rows.get("unforeseen", 0.0) - others) * GRID])
    counted = log_ratio(good, np.full(1, 0.0 if knowledge.label_unit else GRID), noise["counts"] * GRID)
    searches = [
        (bins - others * change, change * (not knowledge.label_unit), noise[task.stage] * GRID)
        for (task, bins), change in zip(heard, _canary_bins(heard, values), strict=True)
    ]
    total, *means = (log_ratio(*part) for part in parts)
    bare = sum(_bare(rest, change) for rest, change, sigma in (*searches, *squares, *parts) if sigma)
    apart = sum(float((r - s) @ (u - v)) / sigma**2 for (r, u, sigma), (s, v, _) in pairwise(parts[1:]))
    searched_apart = sum(
        float(((r - s) * (u - v)).sum()) / sigma**2 for (r, u, sigma), (s, v, _) in pairwise(searches[1:]) if sigma
    )
    against = 0.0
    if means:
        (r, u, sigma), (s, v, tau) = parts[:2]
        against = float((r / sigma - s / tau) @ (u / sigma - v / tau))
    found = sum(log_ratio(*search) for search in searches)
    return [counted, found, second, total, whitened, sum(means), against, apart, searched_apart, bare]


def _canary_bins(
    heard: Sequence[tuple[CountBins, NDArray[np.int64]]], values: NDArray[np.float64]
) -> Iterator[NDArray[np.float64]]:
    """What the canary adds to the counts of bins, in each search."""
    for task, bins in heard:
        change = np.zeros(bins.shape)
        for column, value in enumerate(values):
            change[column, task.kind.numbers(np.array([value]), column)] = GRID
        yield change


def _rounds(made: Made) -> Iterator[NDArray[np.float64]]:
    """The released mean rados, and the classifiers whose weights they have."""
    d = len(made.columns)
    yield made.blocks.get("sharpened", np.empty((0, d)))
    yield made.blocks.get("theta", np.empty((1, d)))[:-1]


def log_ratio(rest: NDArray[np.float64], change: NDArray[np.float64], sigma: float) -> float:
    """Log-likelihood ratio of `rest` being `change` plus noise, against noise alone.

    It holds for matrices too: off the diagonal the noise is smaller by sqrt(2), and every entry is there twice. Without
    noise `rest` should say nothing; what it does say is returned as it is.
    """
    product = float((rest * change).sum())
    return (product - float((change * change).sum()) / 2) / sigma**2 if sigma else product


def _bare(rest: NDArray[np.float64], change: NDArray[Any]) -> int:
    """How many numbers are exactly the canary's part, less how many are exactly what is there without it."""
    places = change != 0
    return int((np.rint(rest[places]) == np.rint(change[places])).sum()) - int((np.rint(rest[places]) == 0).sum())
