"""What a release of more than two classes tells of each: about how many rows, and which columns set it apart.

Plain rados: over one signature, the constant column counts the rows of each class that are in it, and all classes
together have as many rows as the signature. So the share of a class among all those counts is its share of the rows.
Noisy moments: rows were whitened and put on the sphere, so no column of theirs counts rows. See `class_sizes`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release import Release, class_block
from radoboost.release.class_sizes import ClassSizes
from radoboost.release.columns import CONSTANT

_STRONGEST = 3  # columns of each class
_LEAST_APART = 0.02  # of a scaled column: weights of rows alone may make as much
_LEAST_WEIGHT = 1e-6  # of the rows of a class together

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ClassFacts:
    """One class: about how many rows it has, and what sets it apart.

    `give_or_take` is one standard deviation, where chance is all that the number is off by. Where it is an estimate
    that may be off on every draw alike, as from noisy moments, `between` has the least and the most rows that fit what
    was released. `columns` has the columns whose mean in the class is farthest from that of all rows, with that
    difference, in the units of scaled columns. What is not told is None, or empty.
    """

    value: Any
    rows: float | None
    give_or_take: float | None
    columns: dict[str, float]
    between: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "class": self.value,
            "rows": self.rows,
            "give_or_take": self.give_or_take,
            "between": None if self.between is None else list(self.between),
            "columns": self.columns,
        }


def class_facts(release: Release) -> list[ClassFacts]:
    """What a release tells of each of its classes."""
    facts = None
    if release.columns[-1].name == CONSTANT:
        facts = _of_rados(release) or _of_moments(release)
    return facts or [ClassFacts(value, None, None, {}) for value in release.classes]


def _of_rados(release: Release) -> list[ClassFacts] | None:
    blocks = [release.blocks.get(class_block(value)) for value in release.classes]
    if not (all(block is not None for block in blocks) and release.n_examples):
        return None
    m, n = release.n_examples, max(release.n_rados, 1)
    totals = np.stack([np.asarray(block).sum(axis=0) for block in blocks])
    whole = float(totals[:, -1].sum())
    if whole <= 0:
        return None
    shares = totals[:, -1] / whole
    # A sample of k of m rows has a variance of k p (1 - p) (m - k) / (m - 1) for a class of share p.
    k = min(whole / n, m)
    rows, spread = m * shares, m / k * np.sqrt(k * shares * (1 - shares) * (m - k) / max(m - 1, 1) / n)
    apart = totals[:, :-1] / np.maximum(totals[:, -1:], 1e-300) - totals[:, :-1].sum(axis=0) / whole
    # Of a class that chance may have made there is nothing to say but that.
    apart[rows <= 3 * spread] = 0.0
    return [
        ClassFacts(value, max(0.0, float(rows[place])), float(spread[place]), _strongest(release, apart[place], 0.0))
        for place, value in enumerate(release.classes)
    ]


def _of_moments(release: Release) -> list[ClassFacts] | None:
    """By noisy moments; None where there are none, or where noise is all there is."""
    sums, noise = release.blocks.get("moment:b"), release.mechanism.get("noise")
    if sums is None or len(sums) != release.n_classes or not isinstance(noise, Mapping):
        return None
    sizes = ClassSizes.of(release.blocks, release.mechanism)
    if sizes is None:
        return None
    constant, shares = float(release.mechanism["constant"]), np.maximum(sizes.rows, 0.0)
    apart = _apart(sums, release.blocks["whitening"], constant, shares / shares.sum(), float(noise["sum"]))
    apart[sizes.rows <= 3 * sizes.noise] = 0.0
    return [
        ClassFacts(
            value,
            max(0.0, float(sizes.rows[place])),
            None,
            _strongest(release, apart[place], _LEAST_APART),
            (float(sizes.least[place]), float(sizes.most[place])),
        )
        for place, value in enumerate(release.classes)
    ]


def _apart(sums: Vector, whitening: Vector, constant: float, shares: Vector, noise: float) -> Vector:
    """How far the means of each class are from those of all rows, by sums of whitened rows; 0 where noise may be all.

    A row on the sphere is its scaled columns over a length of its own, so the mean of a class is one in which long rows
    count less. That of all rows is made of those of the classes by their `shares`. Of a class that noise has left no
    weight, nothing is said.
    """
    back = np.linalg.inv(whitening)
    before = sums @ back.T
    weights = before[:, -1:] / constant
    present = weights > _LEAST_WEIGHT
    weights = np.where(present, weights, 1.0)
    means = np.where(present, before[:, :-1] / weights, 0.0)
    shares = np.where(present[:, 0], shares, 0.0)
    mean = shares @ means / max(float(shares.sum()), _LEAST_WEIGHT)
    moved = np.linalg.norm(back[None, :-1] - (means / constant)[:, :, None] * back[-1], axis=2)
    clear = present & (np.abs(means - mean) > 3 * noise * moved / weights)
    return np.asarray(np.where(clear, means - mean, 0.0))


def _strongest(release: Release, apart: Vector, least: float) -> dict[str, float]:
    """The columns in which a class is farthest from all rows, by more than `least`."""
    names, order = release.feature_names, np.argsort(-np.abs(apart), kind="stable")[:_STRONGEST]
    return {names[k]: float(apart[k]) for k in order if abs(apart[k]) > least}


def facts_in_words(facts: ClassFacts) -> tuple[str, str]:
    """About how many rows, and what sets the class apart."""
    rows = "not told"
    if facts.rows is not None and facts.between is not None:
        about = f"{facts.rows:.2g}" if facts.rows >= 1 else "0"
        rows = f"about {float(about):,.0f}: {math.floor(facts.between[0]):,} to {math.ceil(facts.between[1]):,}"
    elif facts.rows is not None and facts.give_or_take is not None:
        rows = f"{facts.rows:,.0f} ± {math.ceil(facts.give_or_take):,}" if facts.give_or_take else f"{facts.rows:,.0f}"
    return rows, ", ".join(f"{name} {difference:+.2f}" for name, difference in facts.columns.items())
