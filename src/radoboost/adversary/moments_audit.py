"""The attack on `moments`: what an adversary who knows all other records makes of the stages of a release.

The other records are pairs of opposite edge vectors, all along the canary's own. So the classifier that sharpening
starts from hardly leans either way, and the canary has nearly the largest weight that a record can have in every
round. Given what was released before, a stage is a known vector, plus noise, plus the canary's contribution if it is
there: the log-likelihood ratio of each stage follows, and the stages' add up.

What is run is `Stages`, whole, as crafting runs it.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.holder.mechanisms.moments import FEW_ROUNDS, GRID, Moments
from radoboost.holder.moments_crafting import Stages, add_tilted
from radoboost.privacy import Event
from radoboost.progress import Progress, silent
from radoboost.release.columns import Column
from radoboost.tables import Batch, Table, open_table
from radoboost.tables.labels import LabelRule

_LIMIT = 1.0
_ROW = (6.0, 4.0)  # far beyond the bounds, and with the constant three columns in all
_PULL = 80.0  # records for each column in units of the noise: few enough for the smaller number of rounds
STATISTICS = (
    "second moments", "sum", "whitened moments", "mean rados",
    "sum less a mean rado", "mean rados apart", "numbers without noise",
)  # fmt: skip


@dataclass(frozen=True)
class _Known:
    """What the adversary knows: the canary, its row on the sphere, and how many pairs there are besides."""

    canary: Batch
    row: NDArray[np.float64]
    pairs: int
    label_unit: bool


def attack_moments(
    mechanism: Moments,
    runs: int,
    key: bytes | None,
    stages: type[Stages],
    bar: Progress,
    going: Callable[[], bool],
) -> tuple[NDArray[np.float64], NDArray[np.float64], Event]:
    """Statistics of `runs` releases with the canary and of as many without, a row each; and what the claim is about.

    No more runs are begun when `going` says no.
    """
    d = len(_ROW) + 1
    pairs = max(1, round(_PULL * d / mechanism.distance(d) / 2))
    others = [1] * pairs + [0] * pairs
    label_unit = mechanism.unit == "label"
    tables = ([*others, 1], [*others, 0]) if label_unit else ([*others, 1], others)
    canary = next(iter(_table([1]).batches()))
    known = _Known(canary, _stages(mechanism, [1], stages).on_sphere(canary)[0][0], pairs, label_unit)
    found = np.empty((2, runs, len(STATISTICS)))
    both = [_stages(mechanism, labels, stages) for labels in tables]
    done, rounds = 0, FEW_ROUNDS[0] if mechanism.sharpen else 0
    while done < runs and going():
        for which, made in enumerate(both):
            made.key = _key(key, which, done)
            made.run()
            found[which, done] = _statistics(made, known)
            rounds = made.rounds
        done += 1
        if done % 100 == 0:
            bar("releases with and without the canary", done, runs)
    return found[0, :done], found[1, :done], mechanism.event(d, rounds)


def _stages(mechanism: Moments, labels: list[int], stages: type[Stages]) -> Stages:
    columns = [Column(f"x{k}", "bounds", 1.0, -_LIMIT, _LIMIT) for k in range(len(_ROW))]
    return stages(mechanism, _table(labels), LabelRule("y", (0, 1)), columns, True, 1, silent)


def _table(labels: list[int]) -> Table:
    return open_table(np.tile(_ROW, (len(labels), 1)), np.array(labels), lenient=True)


def _key(key: bytes | None, which: int, run: int) -> bytes:
    if key is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(b"radoboost/audit/moments/" + bytes([which]) + run.to_bytes(8, "little") + key).digest()


def _statistics(made: Stages, known: _Known) -> list[float]:
    """Log-likelihood ratios by stage, and differences that should tell nothing more."""
    others, noise = 2 * known.pairs + known.label_unit, made.noise()
    q, e = known.row, made.whitened(known.canary, made.blocks["whitening"])[0][0]
    opposite = -e if known.label_unit else np.zeros_like(e)  # the canary's part where it is absent
    parts = [(made.blocks["moment:b"][0] * GRID - opposite, e - opposite, noise["sum"] * GRID)]
    for mean, theta in zip(*_rounds(made), strict=True):
        plus, minus = _tilted(e, theta), _tilted(-e, theta)
        absent = minus if known.label_unit else np.zeros_like(plus)
        known_sum = known.pairs * (plus + minus) + absent
        parts.append((mean * GRID - known_sum, plus - absent, noise["rounds"] * GRID))
    unit = GRID**2
    squares = [
        (made.blocks[name] * unit - others * np.outer(v, v), np.outer(v, v), noise[stage] * unit)
        for name, v, stage in (("moment:C", q, "second"), ("moment:C2", e, "whitened"))
    ]
    second, whitened = (_ratio(*square) for square in squares)
    total, *means = (_ratio(*part) for part in parts)
    bare = sum(_bare(rest, change) for rest, change, sigma in (*squares, *parts) if sigma)
    apart = sum(float((r - s) @ (u - v)) / sigma**2 for (r, u, sigma), (s, v, _) in pairwise(parts[1:]))
    against = 0.0
    if means:
        (r, u, sigma), (s, v, tau) = parts[:2]
        against = float((r / sigma - s / tau) @ (u / sigma - v / tau))
    return [second, total, whitened, sum(means), against, apart, bare]


def _rounds(made: Stages) -> Iterator[NDArray[np.float64]]:
    """The released mean rados, and the classifiers whose weights they have."""
    yield made.blocks.get("sharpened", np.empty((0, made.d)))
    yield made.blocks.get("theta", np.empty((1, made.d)))[:-1]


def _tilted(e: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.int64]:
    part = np.zeros(len(e), dtype=np.int64)
    add_tilted(e[None], theta, part)
    return part


def _ratio(rest: NDArray[np.float64], change: NDArray[np.float64], sigma: float) -> float:
    """Log-likelihood ratio of `rest` being `change` plus noise, against noise alone.

    Of matrices too: beside the diagonal the noise is smaller by sqrt(2), and every entry is there twice. Without noise
    `rest` should tell nothing, and what it tells is given as it is.
    """
    told = float((rest * change).sum())
    return (told - float((change * change).sum()) / 2) / sigma**2 if sigma else told


def _bare(rest: NDArray[np.float64], change: NDArray[Any]) -> int:
    """How many numbers are exactly the canary's part, less how many are exactly what is there without it."""
    told = change != 0
    return int((np.rint(rest[told]) == np.rint(change[told])).sum()) - int((np.rint(rest[told]) == 0).sum())
