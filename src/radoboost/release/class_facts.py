"""What a release of more than two classes tells of each: about how many rows, and which columns set it apart.

Plain rados: over one signature, the constant column counts the rows of each class that are in it, and all classes
together have as many rows as the signature. So the share of a class among all those counts is its share of the rows.
Noisy moments: the sum of a class has the constant column, too, with noise; there a row counts by the part of its length
that is the constant's, so that shares are about those of rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release import Release, class_block
from radoboost.release.columns import CONSTANT

_STRONGEST = 3  # columns of each class


@dataclass(frozen=True)
class ClassFacts:
    """One class: about how many rows it has, give or take one standard deviation, and what sets it apart.

    `columns` has the columns whose mean in the class is farthest from that of all rows, with that difference, in the
    units of scaled columns. What is not told is None, or empty.
    """

    value: Any
    rows: float | None
    give_or_take: float | None
    columns: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {"class": self.value, "rows": self.rows, "give_or_take": self.give_or_take, "columns": self.columns}


def class_facts(release: Release) -> list[ClassFacts]:
    """What a release tells of each of its classes.

    >>> import radoboost as rb
    >>> X = np.repeat([[1.0], [2.0], [9.0]], [500, 300, 200], axis=0)
    >>> release = rb.craft(X, np.repeat(["a", "b", "c"], [500, 300, 200]), seed=0)
    >>> [round(facts.rows, -1) for facts in class_facts(release)]
    [500.0, 300.0, 200.0]
    >>> [(name, round(difference, 1)) for name, difference in class_facts(release)[2].columns.items()]
    [('x0', 2.0)]
    """
    sums = _sums(release) if release.columns[-1].name == CONSTANT else None
    if sums is None:
        return [ClassFacts(value, None, None, {}) for value in release.classes]
    totals, rows, spread = sums
    means = totals[:, :-1] / np.maximum(totals[:, -1:], 1e-300)
    apart = means - totals[:, :-1].sum(axis=0) / totals[:, -1].sum()
    names = release.feature_names[:-1]
    facts = []
    for place, value in enumerate(release.classes):
        # Of a class that noise may have made there is nothing to say but that.
        known = rows[place] > 3 * spread[place]
        order = np.argsort(-np.abs(apart[place]), kind="stable")[: _STRONGEST if known else 0]
        columns = {names[k]: float(apart[place, k]) for k in order}
        facts.append(ClassFacts(value, max(0.0, float(rows[place])), float(spread[place]), columns))
    return facts


def _sums(release: Release) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """A row of sums for each class, the last of which counts rows; and numbers of rows, with their deviations."""
    blocks = [release.blocks.get(class_block(value)) for value in release.classes]
    if all(block is not None for block in blocks) and release.n_examples:
        m, n = release.n_examples, max(release.n_rados, 1)
        totals = np.stack([np.asarray(block).sum(axis=0) for block in blocks])
        whole = float(totals[:, -1].sum())
        if whole <= 0:
            return None
        shares = totals[:, -1] / whole
        # A sample of k of m rows has a variance of k p (1 - p) (m - k) / (m - 1) for a class of share p.
        k = min(whole / n, m)
        return totals, m * shares, m / k * np.sqrt(k * shares * (1 - shares) * (m - k) / max(m - 1, 1) / n)
    sums, noise = release.blocks.get("moment:b"), release.mechanism.get("noise")
    m = release.n_examples or release.mechanism.get("rows", {}).get("good", 0)
    if sums is None or len(sums) != release.n_classes or not isinstance(noise, Mapping) or m <= 0:
        return None
    whole = float(sums[:, -1].sum())
    if whole <= float(noise["sum"]):
        return None
    spread = np.full(release.n_classes, m * float(noise["sum"]) / whole)
    scaled = np.column_stack([float(release.mechanism["constant"]) * sums[:, :-1], sums[:, -1]])
    return scaled, m * sums[:, -1] / whole, spread


def facts_in_words(facts: ClassFacts) -> tuple[str, str]:
    """About how many rows, and what sets the class apart.

    >>> facts_in_words(ClassFacts("high", 1203.2, 0.9, {"age": 1.25, "dose": -0.5}))
    ('1,203 ± 1', 'age +1.25, dose -0.50')
    """
    rows = "not told"
    if facts.rows is not None and facts.give_or_take is not None:
        rows = f"{facts.rows:,.0f} ± {math.ceil(facts.give_or_take):,}" if facts.give_or_take else f"{facts.rows:,.0f}"
    return rows, ", ".join(f"{name} {difference:+.2f}" for name, difference in facts.columns.items())
