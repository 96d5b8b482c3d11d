"""A subset of integer vectors that sums to a target, where there are too many subsets to count.

Lattice reduction finds it where the columns carry several bits for each vector. It cannot prove that there is no other,
but it shows the short relations of rows by which there are others.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.known import DEFAULT_SECONDS, deadline, needed
from radoboost.adversary.subset_sums import Subsets, Vectors, bits_of, shortage

_WEIGHT = 1 << 30  # of the columns in a lattice: a vector that misses the target is long
_PRIME = (1 << 61) - 1
_ROWS_AT_A_TIME = 8  # that join a lattice between two looks at the clock
_SHORT = 24  # squared length of a relation: a random subset can be changed by one of so many rows once in 2**24 times
_TRIES = 32  # each a hundredth to a tenth of a second; at the edge of what can be solved they more than double it
_MOST_REDUCED = 1000  # rows; so many take hours


class Lattice:
    """A reduced lattice of the rows' integer relations, to look for a subset with any of many sums.

    After Coster et al. (1992): of the vectors (2 e_i | 0 | w v_i) and (-1 .. -1 | 1 | -w t), a subset of sum t makes
    one of entries -1 and +1 that is 0 in all columns, and short. The rows are reduced once, a few at a time so that the
    clock is looked at, by the LLL algorithm of python-flint; then each target joins them. Columns beyond those that
    the reduction needs only serve to verify what it finds, unless rows are too much alike without them.

    A relation is a vector of integers by which the rows sum to 0 in all columns. One of entries -1, 0 and 1 leads from
    some subsets to others of the same sum. `short` are the reduced relations of few rows. How many there are in all,
    by their volume, says how many bits the columns carry, `bits`: columns that are mixtures of a few coarse ones do not
    look as if they were fine.
    """

    def __init__(self, vectors: Vectors, left: Callable[[], float] | None = None) -> None:
        self._flint = needed("flint")
        self.vectors = vectors
        left = left or deadline(DEFAULT_SECONDS)
        m = len(vectors)
        self._divisors = np.maximum(np.gcd.reduce(vectors, axis=0), 1)
        bits = bits_of(vectors)
        # Measured: more than one try pays only where the columns carry about half of what the reduction needs, or more.
        self._tries = _TRIES if float(bits.sum()) >= m * (0.3 + m / 75) else 1
        order = np.argsort(-bits, kind="stable")
        n_enough = int(np.searchsorted(np.cumsum(bits[order]), m * (1.5 + m / 20))) + 1
        self.bits = self._bits_beside = float(bits.sum())
        self.expected_others = float(2.0 ** min(m - self.bits, 1000.0))
        self.short = self._long = np.zeros((0, m), dtype=np.int64)
        for columns in (order[:n_enough], order):
            self._columns = columns
            self.ready = m <= _MOST_REDUCED and self._reduce(left)
            if not self.ready:
                break
            self._relate()
            if len(columns) == len(order) or not (len(self.short) or self.too_few_bits()):
                break

    def _reduce(self, left: Callable[[], float]) -> bool:
        """Reduce the rows' lattice; False if the time ran out first."""
        m = len(self.vectors)
        self._basis: list[list[Any]] = []
        weighted = self.vectors[:, self._columns] // self._divisors[self._columns]
        for first in range(0, m, _ROWS_AT_A_TIME):
            for i in range(first, min(first + _ROWS_AT_A_TIME, m)):
                unit = [0] * (m + 1)
                unit[i] = 2
                self._basis.append(unit + [_WEIGHT * int(value) for value in weighted[i]])
            if left() <= 0:
                return False
            self._basis = self._flint.fmpz_mat(self._basis).lll().tolist()
        return True

    def _relate(self) -> None:
        """Keep the relations that matter, and measure the volume of all."""
        m = len(self.vectors)
        relations = [[int(value) // 2 for value in row[:m]] for row in self._basis if not any(row[m + 1 :])]
        lengths = [sum(value * value for value in row) for row in relations]
        short = [row for row, length in zip(relations, lengths, strict=True) if length <= _SHORT]
        long = [row for row, length in zip(relations, lengths, strict=True) if length > _SHORT]
        self.short = np.array(short, dtype=np.int64).reshape(-1, m)
        self._long = np.array([row for row in long if max(map(abs, row)) == 1], dtype=np.int64).reshape(-1, m)
        # As if relations were spread evenly: 2**k over their volume of them, less what the short ones explain, change a
        # random subset, for one with l rows does so once in 2**l times.
        volume = _log_volume(relations)
        self.bits = m - len(relations) + volume if relations else math.inf
        self._bits_beside = m - len(long) + volume - _log_volume(short) if long else math.inf
        self.expected_others = float(2.0 ** min(m - self.bits, 1000.0))

    def too_few_bits(self) -> str:
        """Why the columns do not tell subsets apart, as `subset_sums.too_few_bits`; by volume once that is known."""
        return shortage(len(self.vectors), self._bits_beside)

    def relations(self, subset: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Relations that may lead from a subset to others of the same sum: all short ones, and long ones that do."""
        fits = [(np.isin(subset + sign * self._long, (0, 1))).all(axis=1) for sign in (-1, 1)]
        return np.vstack([self.short, self._long[fits[0] | fits[1]]])

    def solve(self, target: Vectors, left: Callable[[], float] | None = None) -> Subsets:
        """A subset that sums to a target; or a count of 0 if none does; or why neither is known."""
        m = len(self.vectors)
        if self.refutes(target):
            return Subsets("lattice", 0, np.zeros(m, dtype=np.int64), np.zeros((0, m), dtype=np.bool_))
        subset = self.find(target, left)
        if subset is not None:
            return Subsets("lattice", None, None, subset[None, :], "lattice reduction finds one subset at most")
        return Subsets("lattice", None, None, np.zeros((0, m), dtype=np.bool_), self.why_not(left))

    def why_not(self, left: Callable[[], float] | None = None) -> str:
        """Why nothing was found, in words."""
        m = len(self.vectors)
        if m > _MOST_REDUCED:
            return f"{m:,} rows are too many for lattice reduction, which takes {_MOST_REDUCED:,} at most"
        if not self.ready or (left is not None and left() <= 0):
            return "the time was over"
        return (
            f"lattice reduction found none; {m:,} rows need columns of well over {m:,} bits, "
            f"and these carry about {min(self.bits, float(bits_of(self.vectors).sum())):,.0f}"
        )

    def refutes(self, target: Vectors) -> bool:
        """Whether range, divisors or linear dependence mod p show that no subset sums to a target."""
        low, high = np.minimum(self.vectors, 0).sum(axis=0), np.maximum(self.vectors, 0).sum(axis=0)
        if (target < low).any() or (target > high).any() or (target % self._divisors).any():
            return True
        rows = [[int(value) for value in row] for row in self.vectors]
        matrix = self._flint.nmod_mat
        rank = matrix(len(rows), len(target), [value for row in rows for value in row], _PRIME).rank()
        rows.append([int(value) for value in target])
        return bool(matrix(len(rows), len(target), [value for row in rows for value in row], _PRIME).rank() > rank)

    def find(self, target: Vectors, left: Callable[[], float] | None = None) -> NDArray[np.bool_] | None:
        """A subset that sums to a target in all columns, or None if the reduction finds none."""
        if not self.ready:
            return None
        m = len(self.vectors)
        scaled = target[self._columns] // self._divisors[self._columns]
        rows = [*self._basis, [-1] * m + [1] + [-_WEIGHT * int(value) for value in scaled]]
        rng = np.random.default_rng(0)
        for _ in range(self._tries):
            if left is not None and left() <= 0:
                break
            rows = self._flint.fmpz_mat(rows).lll().tolist()
            for row in rows:
                if abs(row[m]) == 1 and not any(row[m + 1 :]) and all(abs(value) == 1 for value in row[:m]):
                    subset = np.array([value == row[m] for value in row[:m]])
                    if (subset @ self.vectors == target).all():
                        return subset
            rows = [rows[k] for k in rng.permutation(m + 1)]  # another order ends in another reduced basis
        return None


def _log_volume(relations: list[list[int]]) -> float:
    """The binary logarithm of the volume that reduced vectors span; they may have entries beyond any float."""
    scales = [1 + math.isqrt(sum(value * value for value in row)) for row in relations]
    scaled = [[value / scale for value in row] for row, scale in zip(relations, scales, strict=True)]
    matrix = np.array(scaled, dtype=np.float64).reshape(len(relations), -1 if relations else 1)
    return sum(map(math.log2, scales)) + float(np.linalg.slogdet(matrix @ matrix.T)[1]) / math.log(4)
