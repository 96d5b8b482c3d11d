"""Which subsets of integer vectors sum to a target: all of them, by halves that meet.

Halves count those of up to 40 vectors; of more, `lattices` looks for one. Subsets are matched by a hash of their sums
that is linear modulo 2**64; matches are then compared in all columns, in integers.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, attack_library

MOST_HALVED = 40  # 2**20 sums a half
CHANCE = 1e-3  # of a false subset: above it, one that is not known to be the only one proves nothing

_AT_ONCE = 1 << 20  # sums looked up, or subsets compared, at a time
_SPREAD = math.sqrt(2 * math.pi * math.e) / 2  # values of a sum of fair coins, were it Gaussian, a step of its norm
_MOST_HASHES = 8  # tries of factors without collisions; one is enough but for values that share large powers of two

Vectors = NDArray[np.int64]
_Hash = NDArray[np.uint64]


@dataclass(frozen=True)
class Subsets:
    """Subsets that sum to a target: how many, how many with each row, and one of them, by lattice reduction.

    `count` and `with_row` are None unless all were counted: then there may be more than the one, and `why` says what
    stopped the search.
    """

    count: int | None
    with_row: NDArray[np.int64] | None = None
    one: NDArray[np.bool_] | None = None
    why: str = ""


def bits_of_subset_sums(vectors: Vectors) -> NDArray[np.float64]:
    """How many bits each column adds to a random subset's sum, as if sums were Gaussian; m rows need about m in all.

    It is the entropy of the column's sum given those of the columns before it, in units of the least step that it can
    then take. A column of a few values, however fine its grid, tells no more than how often each of them is in the
    sum. Columns of a few decimals that were standardised tell less than this says, for their grid hides the decimals.
    """
    parts = [_split_column_by_value(column) for column in vectors.T]
    columns = np.hstack([np.empty((len(vectors), 0), dtype=np.int64), *parts])
    if columns.shape[1] >= len(vectors) and np.linalg.matrix_rank(columns) == len(vectors):
        parts, columns = list(vectors.T[:, :, None]), vectors  # the counts tell all subsets apart, so they set no limit
    residuals, steps = np.zeros(columns.shape[1]), _least_subset_sum_steps(columns)
    diagonal = np.abs(np.diag(np.linalg.qr(columns.astype(np.float64), mode="r")))
    residuals[: len(diagonal)] = diagonal
    ratios = np.divide(residuals, steps, out=np.zeros_like(residuals), where=steps > 0)
    bits = np.log2(np.maximum(ratios * _SPREAD, 1.0))
    ends = np.cumsum([part.shape[1] for part in parts], dtype=np.int64)
    return np.array([part.sum() for part in np.split(bits, ends[:-1])] if parts else [], dtype=np.float64)


def _split_column_by_value(column: Vectors) -> Vectors:
    """A column as it is, or as one for each of its values, up to sign, if counts of these take fewer bits."""
    sizes, counts = np.unique(np.abs(column[column != 0]), return_counts=True)
    if not 0 < 2 * len(sizes) <= counts.sum():
        return column[:, None]
    whole = math.log2(float(np.linalg.norm(column / np.gcd.reduce(column))) * _SPREAD)
    if float(np.log2(np.sqrt(counts) * _SPREAD).sum()) >= whole:
        return column[:, None]
    apart: Vectors = np.sign(column)[:, None] * (np.abs(column)[:, None] == sizes)
    return apart


def _least_subset_sum_steps(vectors: Vectors) -> NDArray[np.float64]:
    """The least change of each column's sum that leaves those before it as they are, 0 if nothing changes it.

    Pivots of a Gaussian elimination modulo 2**64, after each column's own divisor is taken out. This
    finds columns that share their parity; it does not look for an odd factor that several columns have in common.
    """
    steps = np.maximum(np.gcd.reduce(vectors, axis=0), 1)
    rows = (vectors // steps).astype(np.uint64)
    powers = np.zeros(vectors.shape[1])
    for k in range(vectors.shape[1]):
        lowest = rows[:, k] & (~rows[:, k] + np.uint64(1))  # the lowest bit of each; 0 of 0
        live = np.flatnonzero(lowest)
        if len(live):
            pivot = live[np.argmin(lowest[live])]
            power, row = lowest[pivot], rows[pivot].copy()
            inverse = np.uint64(pow(int(row[k] // power), -1, 2**64))
            rows -= (rows[:, k] // power * inverse)[:, None] * row  # the pivot's own row becomes 0
            powers[k] = float(power)
    least: NDArray[np.float64] = powers * steps
    return least


def expected_other_subsets(vectors: Vectors) -> float:
    """About how many subsets give the same sum as a random one by chance: 2**m over the number of likely sums."""
    return float(2.0 ** min(len(vectors) - float(bits_of_subset_sums(vectors).sum()), 1000.0))


def too_few_bits(vectors: Vectors) -> str:
    """Why a subset found for a sum need not be the one it was made of, in words; empty if it may well be."""
    return bit_shortage_text(len(vectors), float(bits_of_subset_sums(vectors).sum()))


def bit_shortage_text(m: int, bits: float) -> str:
    """Why so many bits do not tell the subsets of m rows apart, if they do not."""
    if bits >= m - math.log2(CHANCE):
        return ""
    return f"subsets of {m:,} rows take {m:,} bits to tell apart, and the columns carry about {bits:,.0f}"


def check_subset_sum_targets(vectors: Vectors, targets: Vectors) -> tuple[Vectors, Vectors]:
    """Vectors and targets as int64; refused if sums of them could overflow, or their widths differ."""
    vectors, targets = np.asarray(vectors), np.asarray(targets)
    if vectors.ndim != 2 or targets.ndim != 2 or vectors.shape[1] != targets.shape[1] or not len(vectors):
        raise ArgumentError(
            f"vectors of shape {vectors.shape} and targets of shape {targets.shape} do not go together; "
            "give at least one vector, and the same columns to both"
        )
    for name, values, terms in (("vectors", vectors, len(vectors)), ("targets", targets, 1)):
        if values.dtype.kind not in "iu":
            raise ArgumentError(f"{name} must be integers; they are {values.dtype}")
        if values.size and terms * int(np.abs(values.astype(np.float64)).max()) >= 2**62:
            raise ArgumentError(f"{name} are too large for exact sums; divide them by their common divisor")
    return vectors.astype(np.int64), targets.astype(np.int64)


# ---- all subsets


class _Half:
    """All subset sums of some rows, those that are equal together, in the order of their hashes."""

    def __init__(self, vectors: Vectors, factors: _Hash) -> None:
        self.vectors = vectors
        sums = _subset_sums(_hash_subset_sums(vectors, factors))
        self.masks = np.argsort(sums, kind="stable").astype(np.uint32)
        ordered = sums[self.masks]
        new = np.ones(len(ordered), dtype=np.bool_)
        new[1:] = ordered[1:] != ordered[:-1]
        self.first = np.flatnonzero(new)
        self.hashes = ordered[self.first]
        self.counts = np.diff(self.first, append=len(ordered))
        same = np.flatnonzero(~new)
        self.exact = not len(same) or self._agree(self.masks[same - 1], self.masks[same])

    def _agree(self, some: NDArray[np.uint32], others: NDArray[np.uint32]) -> bool:
        """Whether pairs of subsets have equal sums; of columns that others determine nothing need be compared."""
        for k in _independent_columns(self.vectors):
            sums = _subset_sums(self.vectors[:, k])
            if not np.array_equal(sums[some], sums[others]):
                return False
        return True

    def sums(self, groups: NDArray[np.int64]) -> Vectors:
        return _unpack_subset_masks(self.masks[self.first[groups]], len(self.vectors)).astype(np.int64) @ self.vectors

    def with_row(self, groups: NDArray[np.int64], weights: NDArray[np.int64]) -> list[int]:
        of_group = np.zeros(len(self.first), dtype=np.int64)
        np.add.at(of_group, groups, weights)
        of_subset = np.repeat(of_group, self.counts)
        used = np.flatnonzero(of_subset)
        masks, weights = self.masks[used], of_subset[used]
        return [int(weights[(masks >> np.uint32(i)) & 1 == 1].sum()) for i in range(len(self.vectors))]


class HalfSums:
    """The subset sums of each half of the rows, to be matched with any number of targets.

    A left half's sum and a right half's sum make a target together iff one is the target less the other; a sorted
    list finds it. Half sums that are equal are counted together, so that millions of subsets cost no more than one.
    """

    def __init__(self, vectors: Vectors) -> None:
        if len(vectors) > MOST_HALVED:
            raise ArgumentError(f"{len(vectors)} rows are too many for halves, which take {MOST_HALVED} at most")
        self._divisors = np.maximum(np.gcd.reduce(vectors, axis=0), 1)
        self.vectors = vectors = vectors // self._divisors
        middle, rng = len(vectors) // 2, np.random.default_rng(0)
        for _ in range(_MOST_HASHES):
            # Two different sums with one hash are rare, and would be counted together: then other factors are taken.
            self._factors = _subset_hash_factors(rng, vectors.shape[1])
            self._left, self._right = (_Half(part, self._factors) for part in (vectors[:middle], vectors[middle:]))
            if self._left.exact and self._right.exact:
                return
        raise ArgumentError(
            "the sums of these rows cannot be told apart by hashes of 64 bits, as most values of their columns "
            "share large powers of two; leave out the rows that do not"
        )

    @property
    def at_once(self) -> int:
        """How many targets take about a tenth of a second together."""
        return max(1, _AT_ONCE // len(self._left.hashes))

    def count(self, targets: Vectors) -> NDArray[np.int64]:
        """How many subsets give each of the targets, (k, d): all of them, exactly."""
        counts = np.zeros(len(targets), dtype=np.int64)
        for places, left, right in self._matches(targets):
            np.add.at(counts, places, self._left.counts[left] * self._right.counts[right])
        return counts

    def solve(self, target: Vectors) -> Subsets:
        matches = list(self._matches(target[None, :]))
        left, right = (np.concatenate([match[k] for match in matches] or [np.empty(0, np.int64)]) for k in (1, 2))
        of_left, of_right = self._left.counts[left], self._right.counts[right]
        with_row = self._left.with_row(left, of_right) + self._right.with_row(right, of_left)
        return Subsets(int((of_left * of_right).sum()), np.array(with_row, dtype=np.int64))

    def _matches(self, targets: Vectors) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Target, left group and right group of all matches, a batch at a time."""
        whole, targets = (targets % self._divisors == 0).all(axis=1), targets // self._divisors
        hashes, right_hashes = _hash_subset_sums(targets, self._factors), self._right.hashes
        for first in range(0, len(targets), self.at_once):
            missing = hashes[first : first + self.at_once, None] - self._left.hashes
            place = np.minimum(np.searchsorted(right_hashes, missing), len(right_hashes) - 1)
            for part in _pieces_of_subset_sums(np.flatnonzero(right_hashes[place] == missing)):
                target, left = np.divmod(part, missing.shape[1])
                right = place.reshape(-1)[part]
                fits = (self._left.sums(left) + self._right.sums(right) == targets[first + target]).all(axis=1)
                fits &= whole[first + target]
                yield first + target[fits], left[fits], right[fits]


def _subset_hash_factors(rng: np.random.Generator, width: int) -> _Hash:
    """Odd factors of a hash, so that the sums of a single column never collide."""
    return rng.integers(0, 2**64, width, dtype=np.uint64) | np.uint64(1)


def _hash_subset_sums(vectors: Vectors, factors: _Hash) -> Any:
    return (vectors.astype(np.uint64) * factors).sum(axis=-1, dtype=np.uint64)


def _subset_sums(values: NDArray[Any]) -> NDArray[Any]:
    """The sum of every subset; bit i of its place says whether row i is in it."""
    sums = np.zeros(1, dtype=values.dtype)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _independent_columns(vectors: Vectors) -> list[int]:
    """Columns that all others are linear combinations of, by exact elimination."""
    rows, columns = vectors.astype(object), []
    for k in range(vectors.shape[1]):
        live = np.flatnonzero(rows[:, k])
        if len(live):
            columns.append(k)
            pivot, rest = rows[live[0]], np.delete(rows, live[0], axis=0)
            rows = rest * pivot[k] - rest[:, k : k + 1] * pivot
            rows //= np.maximum(np.gcd.reduce(rows, axis=1, keepdims=True, initial=0), 1)
    return columns


def _unpack_subset_masks(masks: NDArray[np.uint32], n_rows: int) -> NDArray[np.bool_]:
    bits: NDArray[np.bool_] = (masks[:, None] >> np.arange(n_rows, dtype=np.uint32)) & 1 == 1
    return bits


def _pieces_of_subset_sums(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    size = _AT_ONCE >> 4  # each becomes a row of bits
    return (values[first : first + size] for first in range(0, len(values), size))


# ---- A subset of integer vectors that sums to a target, where there are too many subsets to count.
#
# Lattice reduction finds it where the columns carry several bits for each vector. It cannot prove that there is
# no other, but it shows the short relations of rows by which there are others.

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
        self._flint = attack_library("flint")
        self.vectors = vectors
        left = left or attack_deadline(DEFAULT_SECONDS)
        m = len(vectors)
        self._divisors = np.maximum(np.gcd.reduce(vectors, axis=0), 1)
        bits = bits_of_subset_sums(vectors)
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
        volume = _log_volume_of_lattice(relations)
        self.bits = m - len(relations) + volume if relations else math.inf
        self._bits_beside = m - len(long) + volume - _log_volume_of_lattice(short) if long else math.inf
        self.expected_others = float(2.0 ** min(m - self.bits, 1000.0))

    def too_few_bits(self) -> str:
        """Why the columns do not tell subsets apart, as `subset_sums.too_few_bits`; by volume once that is known."""
        return bit_shortage_text(len(self.vectors), self._bits_beside)

    def relations(self, subset: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Relations that may lead from a subset to others of the same sum: all short ones, and long ones that do."""
        fits = [(np.isin(subset + sign * self._long, (0, 1))).all(axis=1) for sign in (-1, 1)]
        return np.vstack([self.short, self._long[fits[0] | fits[1]]])

    def solve(self, target: Vectors, left: Callable[[], float] | None = None) -> Subsets:
        """A subset that sums to a target; or a count of 0 if none does; or why neither is known."""
        if self.refutes(target):
            return Subsets(0, np.zeros(len(self.vectors), dtype=np.int64))
        subset = self.find(target, left)
        why = self.why_not(left) if subset is None else "lattice reduction finds one subset at most"
        return Subsets(None, one=subset, why=why)

    def why_not(self, left: Callable[[], float] | None = None) -> str:
        m = len(self.vectors)
        if m > _MOST_REDUCED:
            return f"{m:,} rows are too many for lattice reduction, which takes {_MOST_REDUCED:,} at most"
        if not self.ready or (left is not None and left() <= 0):
            return "the time was over"
        return (
            f"lattice reduction found none; {m:,} rows need columns of well over {m:,} bits, "
            f"and these carry about {min(self.bits, float(bits_of_subset_sums(self.vectors).sum())):,.0f}"
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


def _log_volume_of_lattice(relations: list[list[int]]) -> float:
    """The binary logarithm of the volume that reduced vectors span; they may have entries beyond any float."""
    scales = [1 + math.isqrt(sum(value * value for value in row)) for row in relations]
    scaled = [[value / scale for value in row] for row, scale in zip(relations, scales, strict=True)]
    matrix = np.array(scaled, dtype=np.float64).reshape(len(relations), -1 if relations else 1)
    return sum(map(math.log2, scales)) + float(np.linalg.slogdet(matrix @ matrix.T)[1]) / math.log(4)
