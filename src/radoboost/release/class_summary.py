"""What a release of more than two classes tells of each: about how many rows, and which columns set it apart.

Plain rados: over one signature, the constant column counts the rows of each class that are in it, and all classes
together have as many rows as the signature. So the share of a class among all those counts is its share of the rows.
Noisy moments: rows were whitened and put on the sphere, so no column of theirs counts rows (`class_sizes_by_moments`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.release import moment_math
from radoboost.release.columns import CONSTANT
from radoboost.release.release import Release, class_block_name

# ---- About how many rows each of more than two classes has, by noisy moments of whitened rows, and within which
# limits.
#
# Whitened rows w have length 1, and a class is known by the sum b_k of its own; C is the second moment of all,
# which has about the inverse H, and b the sum of all n. For the vector u = H b, products w'u are as near to 1 as
# linear functions come, so b_k'u nearly counts class k. It is off by what is left, the sum of 1 - w'u over the
# class, which no amount of rows makes smaller. But over all rows the squares of 1 - w'u add up to D = n - 2 b'u +
# u'C u, and those of what h_k = H b_k leaves of the class, 1 or 0 less w'h_k, to n_k - c_k with c_k = 2 b_k'h_k -
# h_k'C h_k. With e_k = b_k'u + h_k'(b - C u), whatever u and h_k are,
#
# n_k - e_k = sum over rows of (1 or 0, less w'h_k) (1 - w'u),
#
# so that (n_k - e_k)^2 <= (n_k - c_k) D by the inequality of Cauchy and Schwarz. This bounds n_k from both sides.

_SURE = 3.0  # standard deviations of noise by which limits are wider

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """Numbers of rows by class, which add up to the number of rows.

    `noise` has the standard deviations that noise gives them. They are also off by what linear functions of rows leave:
    the true numbers lie from `least` to `most`, but for noise of more than three deviations.
    """

    rows: Vector
    noise: Vector
    least: Vector
    most: Vector

    @classmethod
    def of(cls, blocks: Mapping[str, Vector], mechanism: Mapping[str, Any]) -> "ClassSizes | None":
        """By the blocks and the parameters of a release; None where noise may be all there is."""
        noise, counted = mechanism["noise"], mechanism["rows"]
        return class_sizes_by_moments(
            blocks["moment:b"],
            blocks["moment:C2"],
            float(counted["good"]),
            sum_noise=float(noise["sum"]),
            second_noise=float(noise["whitened"]),
            # With a schema good rows are counted in two parts, each with its noise.
            rows_noise=float(noise["counts"]) * (2 if "unforeseen" in counted else 1) ** 0.5,
        )


def class_sizes_by_moments(
    sums: Vector, second: Vector, n_rows: float, *, sum_noise: float, second_noise: float, rows_noise: float
) -> ClassSizes | None:
    """By sums of whitened rows, a row for each class, their second moment and their number, each with its noise."""
    # b: all, k: classes, d: columns, h: one vector for each class, u: the vector whose products with rows are nearly 1
    k, d = sums.shape
    floor = moment_math.eigenvalue_floor(
        moment_math.eigenvalue_noise({"whitened": second_noise, "sum": sum_noise}, "whitened"),
        d,
        moment_math.HESSIAN_FLOOR,
    )
    inverse = moment_math.inverse_matrix_power(second, floor, 1.0)
    b, h = sums.sum(axis=0), sums @ inverse
    u = h.sum(axis=0)
    length, lengths = float(np.linalg.norm(u)), np.linalg.norm(h, axis=1)
    # What squares of noise add on average: of the sums, and of the second moment that was inverted.
    of_sums = sum_noise**2 * float(2 * np.trace(inverse) - (inverse * (second @ inverse)).sum())
    of_second = second_noise**2 / 2 * float(np.trace(inverse))
    e = sums @ u + h @ (b - second @ u) - of_sums - of_second * (h @ u)
    c = 2 * (sums * h).sum(axis=1) - ((h @ second) * h).sum(axis=1) - of_sums - of_second * lengths**2
    left = n_rows - 2 * float(b @ u) + float(u @ second @ u) + k * of_sums + of_second * length**2
    spread = (rows_noise**2 + 4 * k * (sum_noise * length) ** 2 + second_noise**2 * length**4) ** 0.5
    if n_rows <= _SURE * rows_noise or float(e.sum()) <= _SURE * sum_noise * length * k**0.5:
        return None
    left = max(left, 0.0) + _SURE * spread
    noise = np.sqrt(sum_noise**2 * (length**2 + k * lengths**2) + (second_noise * lengths * length) ** 2)
    half = np.sqrt(np.maximum(left**2 / 4 + (e - c) * left, 0.0))
    middle, sure = e + left / 2, _SURE * noise
    return ClassSizes(
        rows=np.asarray(n_rows * e / e.sum()),
        noise=np.asarray(noise),
        least=np.clip(middle - half - sure, 0.0, n_rows),
        most=np.clip(middle + half + sure, 0.0, n_rows + _SURE * rows_noise),
    )


_STRONGEST = 3  # columns of each class
_LEAST_APART = 0.02  # of a scaled column: weights of rows alone may make as much
_LEAST_WEIGHT = 1e-6  # of the rows of a class together


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


def facts_of_classes(release: Release) -> list[ClassFacts]:
    facts = None
    if release.columns[-1].name == CONSTANT:
        facts = _class_facts_of_rados(release) or _class_facts_of_moments(release)
    return facts or [ClassFacts(value, None, None, {}) for value in release.classes]


def _class_facts_of_rados(release: Release) -> list[ClassFacts] | None:
    blocks = [release.blocks.get(class_block_name(value)) for value in release.classes]
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
        ClassFacts(
            value, max(0.0, float(rows[place])), float(spread[place]), _columns_apart(release, apart[place], 0.0)
        )
        for place, value in enumerate(release.classes)
    ]


def _class_facts_of_moments(release: Release) -> list[ClassFacts] | None:
    """By noisy moments; None where there are none, or where noise is all there is."""
    sums, noise = release.blocks.get("moment:b"), release.mechanism.get("noise")
    if sums is None or len(sums) != release.n_classes or not isinstance(noise, Mapping):
        return None
    sizes = ClassSizes.of(release.blocks, release.mechanism)
    if sizes is None:
        return None
    constant, shares = float(release.mechanism["constant"]), np.maximum(sizes.rows, 0.0)
    apart = _mean_differences(sums, release.blocks["whitening"], constant, shares / shares.sum(), float(noise["sum"]))
    apart[sizes.rows <= 3 * sizes.noise] = 0.0
    return [
        ClassFacts(
            value,
            max(0.0, float(sizes.rows[place])),
            None,
            _columns_apart(release, apart[place], _LEAST_APART),
            (float(sizes.least[place]), float(sizes.most[place])),
        )
        for place, value in enumerate(release.classes)
    ]


def _mean_differences(sums: Vector, whitening: Vector, constant: float, shares: Vector, noise: float) -> Vector:
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


def _columns_apart(release: Release, apart: Vector, least: float) -> dict[str, float]:
    """The columns in which a class is farthest from all rows, by more than `least`."""
    names, order = release.feature_names, np.argsort(-np.abs(apart), kind="stable")[:_STRONGEST]
    return {names[k]: float(apart[k]) for k in order if abs(apart[k]) > least}


def class_facts_text(facts: ClassFacts) -> tuple[str, str]:
    """About how many rows, and what sets the class apart."""
    rows = "not told"
    if facts.rows is not None and facts.between is not None:
        about = f"{facts.rows:.2g}" if facts.rows >= 1 else "0"
        rows = f"about {float(about):,.0f}: {math.floor(facts.between[0]):,} to {math.ceil(facts.between[1]):,}"
    elif facts.rows is not None and facts.give_or_take is not None:
        rows = f"{facts.rows:,.0f} ± {math.ceil(facts.give_or_take):,}" if facts.give_or_take else f"{facts.rows:,.0f}"
    return rows, ", ".join(f"{name} {difference:+.2f}" for name, difference in facts.columns.items())
