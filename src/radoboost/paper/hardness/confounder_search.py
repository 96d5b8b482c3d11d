"""The search for another data set with the same rados: candidates in floating point, and what is exactly true of them.

The constructions and their proofs: docs/proofs/confounder.md, steps C1 to C5 and C9.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CANDIDATES, _TRIED, _PARTNERS = 4000, 24, 200  # points looked at, centres tried, edge vectors tried for each
_SHARES = (0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # of R: how much is emptied around an edge vector
_MOST_PRODUCTS = 1 << 27
_AT_ONCE = 256  # centres looked up between two looks at the clock
Integers = NDArray[Any]  # int64, or Python's own integers where squares would not fit


def cells_along(m: int, d: int) -> int:
    """How many cells along an edge a cube needs to have more than m: ceil((m + 1)^(1/d)), exactly."""
    low, high = 1, 2
    while high**d < m + 1:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**d < m + 1 else (low, middle)
    return low


def fitting(reach: int, *sets: Integers) -> list[Integers]:
    """Points as int64 where sums of squares of their differences fit, as Python's integers otherwise."""
    fits = (4 * reach) ** 2 * sets[0].shape[1] < 2**63
    return [points.astype(np.int64 if fits else object) for points in sets]


def _farthest(points: Integers, others: Integers) -> int:
    """The largest squared distance of one of the points from the nearest of the others."""
    farthest, at_once = 0, max(1, 2**21 // others.size)
    for first in range(0, len(points), at_once):
        squares = ((points[first : first + at_once, None, :] - others[None]) ** 2).sum(axis=2)
        farthest = max(farthest, int(squares.min(axis=1).max()))
    return farthest


class Search:
    """Candidates for a confounder, found in floating point with R as 1, and what is exactly true of them."""

    def __init__(
        self,
        points: Integers,
        square: Fraction,
        rng: np.random.Generator,
        left: Callable[[], float],
        unit: float,
        as_table: bool,
    ) -> None:
        from scipy.spatial import cKDTree

        self.square, self.rng, self.left, self.unit = square, rng, left, unit
        (self.points,) = fitting(math.isqrt(math.floor(square)) + 1, points)
        self.one = int(1 / Fraction(unit)) if as_table else None
        self.scale = math.sqrt(square)
        self.floats = points.astype(np.float64) / self.scale
        self.tree = cKDTree(self.floats)

    def fits(self, records: tuple[int, ...], others: Integers) -> bool:
        """Whether the new edge vectors lie in the ball, and have a constant of -1 or +1 if they must."""
        new = others[[*records, -1]].astype(object)
        inside = all(square <= self.square for square in (new**2).sum(axis=1))
        return inside and (self.one is None or bool((np.abs(new[:, -1]) == self.one).all()))

    def distance(self, records: tuple[int, ...], others: Integers) -> int:
        """The squared Hausdorff distance; only edge vectors that are new or gone are not in both sets."""
        old = self.points[list(records)]
        return max(_farthest(others[[*records, -1]], self.points), _farthest(old, others))

    def zero(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """The zero vector added (C2)."""
        yield (), np.concatenate([self.points, 0 * self.points[:1]])

    def split(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """An edge vector e replaced by c and e - c, for the c that are farthest from all edge vectors (C3)."""
        if self.one is not None:
            return  # one of the two constants would be even
        centres, holes = self._holes()
        shortest = int(np.linalg.norm(self.floats, axis=1).argmin())
        usable = np.flatnonzero(holes <= 1)  # some edge vector e has e - c in the ball
        for place in usable[np.argsort(-holes[usable], kind="stable")[:_TRIED]]:
            if self.left() <= 0:
                return
            centre = centres[place]
            partners = np.array(self.tree.query_ball_point(centre, 1.0), dtype=np.int64)
            if not len(partners):
                continue
            if len(partners) > _PARTNERS:
                partners = self.rng.choice(partners, _PARTNERS, replace=False)
            rest = self.tree.query(self.floats[partners] - centre)[0]
            for record in dict.fromkeys((int(partners[rest.argmax()]), shortest)):
                yield (record,), self.split_at(record, self.on_grid(centre))

    def _holes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centres, and how far each is from the nearest edge vector; as many as there is time for."""
        centres, distances = self._centres(), []
        for first in range(0, len(centres), _AT_ONCE):
            if self.left() <= 0:
                break
            distances.append(self.tree.query(centres[first : first + _AT_ONCE])[0])
        holes = np.concatenate(distances) if distances else np.empty(0)
        return centres[: len(holes)], holes

    def split_at(self, record: int, centre: Integers) -> Integers:
        """All points, but one replaced by a centre, with what is left of it at the end."""
        others = np.concatenate([self.points, self.points[record : record + 1] - centre])
        others[record] = centre
        return others

    def on_grid(self, centre: NDArray[np.float64]) -> Integers:
        """A point of the ball on the grid, rounded towards zero so that it stays there."""
        return np.array([int(x * self.scale * (1 - 1e-12)) for x in centre.tolist()], dtype=self.points.dtype)

    def _centres(self) -> NDArray[np.float64]:
        """Points of the ball: random ones, mirror images, and centres of cells, of which at least one is empty."""
        m, d = self.floats.shape
        k, few = cells_along(m, d), max(64, min(_CANDIDATES, 2**26 // (m * d)))
        directions = self.rng.normal(size=(few, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        within = directions * self.rng.random((few, 1)) ** (1 / d)
        mirrored = -self.floats[self.rng.permutation(m)[:few]]
        rest, digits = np.arange(min(k**d, m + 1)), []
        for _ in range(d):
            rest, digit = np.divmod(rest, k)
            digits.append(digit)
        cells = np.concatenate([self.rng.integers(0, k, (few, d)), np.stack(digits, axis=1)])
        return np.concatenate([directions, within, mirrored, ((2 * cells + 1) / k - 1) / math.sqrt(d)])

    def flip(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """The edge vectors around one of them negated, with others that balance their sum; the sum is added (C5)."""
        m, d = self.points.shape
        starts = self.rng.permutation(m)[:_TRIED]
        for share in _SHARES:
            n_found = 0
            for start in starts.tolist():
                records = self._balanced(self.floats[start], share)
                if self.left() <= 0:
                    return
                if records is not None and (len(records) + 1) * m * d <= _MOST_PRODUCTS >> 8 * (
                    self.points.dtype == object
                ):
                    others = np.concatenate([self.points, self.points[records].sum(axis=0, keepdims=True)])
                    others[records] *= -1
                    yield tuple(records.tolist()), others
                    n_found += 1
            if n_found:
                return

    def _balanced(self, centre: NDArray[np.float64], share: float) -> NDArray[np.int64] | None:
        """The edge vectors around a centre, with others that balance them and do not come back there when negated."""
        members = np.linalg.norm(self.floats - centre, axis=1) < share
        mirrored = np.linalg.norm(self.floats + centre, axis=1) < share
        if (members & mirrored).any():
            return None
        free, total = ~(members | mirrored), self.floats[members].sum(axis=0)
        labels = np.sign(self.floats[:, -1]).astype(np.int64)
        squares = np.square(self.floats).sum(axis=1)
        while self.left() > 0:
            length = float(np.linalg.norm(total))
            balanced = length <= 1 - 1e-9 and float(np.linalg.norm(total - centre)) >= share
            if balanced and (self.one is None or abs(int(labels[members].sum())) == 1):
                return np.flatnonzero(members)
            places = np.flatnonzero(free)
            if not len(places):
                return None
            after = 2 * self.floats[places] @ total + squares[places]  # what the squared length changes by
            count = min(len(places), max(1, int(length / 4)))
            joining = places[np.argpartition(after, count - 1)[:count]]
            members[joining], free[joining] = True, False
            total = total + self.floats[joining].sum(axis=0)
        return None
