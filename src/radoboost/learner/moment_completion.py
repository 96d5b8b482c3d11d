"""Second moments of columns that no holder has together, completed by what both have; no people are matched.

Two holders have the label and some columns in common. W is what both know of a person, as edge columns: y x and y, of
the shared columns and the constant, and x and 1, the same times the label. Every other column is regressed on W where
it is:

    beta_p = M_pW M_WW^-1        R_p = M_pp - beta_p M_Wp        of holder p's own rows

and what is left over is taken to be unrelated across holders. With T the rows beta_1, beta_2 and the identity, and W
the average of both holders' second moments of it,

    C = T W T' + diag(R_1, R_2, 0)

is positive semidefinite, for R_p is a Schur complement. First moments are b_p + beta_p (W's average - W's mean at p):
where both have the same people, that is b_p. Theta solves (C + ridge) theta = 2 b, as in `learner.moments`.
This is statistical matching under conditional independence: Raessler (2002); D'Orazio, Di Zio and Scanu (2006).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh

from radoboost.errors import ArgumentError

RIDGE = 0.01
"""One for every table, as a share of each column's second moment: without matched rows there is nothing to tune it on.

It was chosen once, on the nine domains of benchmarks/holders_join.py, where mean errors hardly depend on it, with the
same people at both holders and with others: docs/joining.md has them for other ridges."""
_SINGULAR = 1e-9  # relative: below it columns of W depend on each other, as the slots of a category do


@dataclass(frozen=True, eq=False)
class PartMoments:
    """First and second moments of one holder's edge vectors, on average over `n_people`.

    First come the `n_own` columns that only this holder has, and then W: y x of the shared columns, y, x of the same,
    and 1.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    n_own: int
    n_people: int

    @classmethod
    def of_rows(
        cls, own: NDArray[np.float64], shared: NDArray[np.float64], signs: NDArray[np.float64]
    ) -> "PartMoments":
        """Those of examples themselves: what rados are an estimate of."""
        common = np.column_stack([shared, np.ones(len(shared))])
        edges = np.column_stack([own * signs[:, None], common * signs[:, None], common])
        return cls(edges.mean(axis=0), edges.T @ edges / len(edges), own.shape[1], len(edges))

    @classmethod
    def of_sums(cls, sums: NDArray[np.float64], n_own: int, n_people: int) -> "PartMoments":
        """Those that sums over random halves of the people tell: twice their mean, and four times their covariance."""
        if len(sums) < 2:
            raise ArgumentError("the moments of one rado are not defined; use releases with at least two rados")
        centred = sums - sums.mean(axis=0)
        second = 4 * (centred.T @ centred) / (len(sums) - 1) / n_people
        return cls(2 * sums.mean(axis=0) / n_people, second, n_own, n_people)


def complete_moments(left: PartMoments, right: PartMoments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First and second moments over the left holder's own columns, the right one's, the shared ones, and the constant.

    Where both have their own columns of the same people, and these are unrelated given W, they are those of the matched
    table.
    """
    width = len(left.first) - left.n_own
    if width != len(right.first) - right.n_own:
        raise ArgumentError("both parts must share the same columns")
    total = left.n_people + right.n_people
    shares = left.n_people / total, right.n_people / total
    common = _average_over_holders([part.second[part.n_own :, part.n_own :] for part in (left, right)], shares)
    # In units of the columns' own sizes, so that no rounding depends on units.
    unit = _units_of_columns(common)
    units = [_units_of_columns(part.second[: part.n_own, : part.n_own]) for part in (left, right)]
    slopes, rests = zip(
        *(
            _regress_on_shared(part, np.concatenate([own, unit]))
            for part, own in zip((left, right), units, strict=True)
        ),
        strict=True,
    )
    lift = np.vstack([*slopes, np.eye(width)])
    second = lift @ (common / np.outer(unit, unit)) @ lift.T
    second[: left.n_own, : left.n_own] += rests[0]
    kept = left.n_own + right.n_own + width // 2  # x and 1 are there to regress on, and not to predict with
    second[left.n_own : kept - width // 2, left.n_own : kept - width // 2] += rests[1]
    both = _average_over_holders([part.first[part.n_own :] for part in (left, right)], shares)
    # Own means follow where W moves from the holder's own people to all.
    own = [
        part.first[: part.n_own] + size * (slope @ ((both - part.first[part.n_own :]) / unit))
        for part, size, slope in zip((left, right), units, slopes, strict=True)
    ]
    first, sizes = np.concatenate([*own, both]), np.concatenate([*units, unit])
    second = (second + second.T) / 2 * np.outer(sizes, sizes)
    return first[:kept], second[:kept, :kept]


def _average_over_holders(arrays: Sequence[NDArray[np.float64]], shares: Sequence[float]) -> NDArray[np.float64]:
    """The average of both holders, in which every person counts alike."""
    return arrays[0] * shares[0] + arrays[1] * shares[1]


def _regress_on_shared(
    part: PartMoments, units: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How own columns follow from W, and the second moments of what is left of them: no eigenvalue is negative."""
    own, common = slice(part.n_own), slice(part.n_own, None)
    second = part.second / np.outer(units, units)
    slopes = second[own, common] @ pinvh(second[common, common], rtol=_SINGULAR)
    rest = second[own, own] - slopes @ second[common, own]
    values, vectors = np.linalg.eigh((rest + rest.T) / 2)
    return slopes, (vectors * np.maximum(values, 0.0)) @ vectors.T


def solve_completed_moments(
    first: NDArray[np.float64], second: NDArray[np.float64], ridge: float = RIDGE
) -> NDArray[np.float64]:
    """theta = 2 (C + ridge D)^-1 b, where D has the diagonal of C: so the columns' units do not matter.

    A column that is 0 gets 0.
    """
    if not ridge >= 0:
        raise ArgumentError(f"ridge must be a number of at least 0; it is {ridge!r}")
    unit = _units_of_columns(second)
    scaled = second / np.outer(unit, unit) + ridge * np.eye(len(second))
    theta: NDArray[np.float64] = 2 * (pinvh(scaled, rtol=1e-12) @ (first / unit)) / unit
    return np.where(np.diag(second) > 0, theta, 0.0)


def _units_of_columns(second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The root of each column's second moment; 1 where it is 0."""
    roots = np.sqrt(np.diag(second))
    return np.where(roots > 0, roots, 1.0)
