"""Signature sets Sigma_r: which subsets of the examples a rado may sum.

A set is described as data, prepared once for a key and a number of examples, and then addressed by (tile, rado):
of fair coins nothing is stored, and FixedSupport keeps its corrections. Bit i % 64 of word (i // 64, j) says whether
example i is in rado j.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder import keystream
from radoboost.holder.keystream import MAX_RADOS
from radoboost.holder.subset_sampling import AllRows, CorrectedCoins, FairCoins

MAX_SIZE = 2**64  # counting stops here: nobody asks for so many rados
_LAST_ROW = 2**60  # nobody has so many rows
_SIZES_PLANE = 2**32 - 2
_WEIGHT_BITS, _DRAW_BITS = 256, 384


class SignatureStream(Protocol):
    """A signature set with its key, ready for one table; threads may share it."""

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Membership words of a block of tiles, shape (n_tiles, n_rados); rows beyond the table have any bits."""

    def for_part(self, first_row: int, n_rows: int) -> "SignatureStream":
        """What a part of the table needs that is summed elsewhere: the words of its own rows, and no others' coins.

        Rows have the same numbers. Where each row has coins of its own, and no seed was given, these are tossed anew.
        """


class SignatureSet(Protocol):
    """What `craft` needs to know about a signature set, which is frozen data."""

    @property
    def by_coins(self) -> bool:
        """Whether each example joins each rado by a fair coin of its own, so that their number need not be known."""

    @property
    def name(self) -> str:
        """The name that stands in a release."""

    def parameters(self, n_examples: int) -> dict[str, Any]:
        """What a release says about the set besides its name."""

    def size(self, n_examples: int) -> int:
        """How many signatures there are for this many examples, or `MAX_SIZE` if there are more."""

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> SignatureStream:
        """The subsets of this key; the number of threads changes nothing but the time."""


# ---- the sets


@dataclass(frozen=True)
class AllSignatures:
    """All of Sigma_m, each signature with the same probability: every example joins every rado by a fair coin.

    >>> AllSignatures().size(10)
    1024
    """

    name: ClassVar[str] = "all"
    by_coins: ClassVar[bool] = True

    def parameters(self, n_examples: int) -> dict[str, Any]:
        """It has no parameters."""
        return {}

    def size(self, n_examples: int) -> int:
        """2**m."""
        return int(min(2 ** min(n_examples, 64), MAX_SIZE))

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> SignatureStream:
        """Plane 0 of the keystream, as it comes."""
        return FairCoins(key, n_rados, quarters=2)


@dataclass(frozen=True)
class FixedSupport:
    """Signatures of one support, each with the same probability: every rado sums the same number of examples.

    `support` is that number, or a fraction of the examples: 0.5 is floor(m / 2). Far from 1/4, 1/2 and 3/4 of
    them preparing takes long, and memory: 4 bytes for each example by which a rado differs from the nearest of these.

    >>> FixedSupport(0.3).parameters(11)
    {'support': 3}
    >>> FixedSupport(3).size(11)
    165
    """

    support: int | float

    name: ClassVar[str] = "fixed-support"
    by_coins: ClassVar[bool] = False

    def __post_init__(self) -> None:
        support = self.support
        if isinstance(support, int | np.integer) and not isinstance(support, bool) and support >= 1:
            object.__setattr__(self, "support", int(support))
        elif isinstance(support, float | np.floating) and 0 < support < 1:
            object.__setattr__(self, "support", float(support))
        else:
            raise ArgumentError(
                f"support must be a whole number of at least 1, or a fraction between 0 and 1; it is {support!r}"
            )

    def support_size(self, n_examples: int) -> int:
        """How many of these examples a rado sums.

        >>> FixedSupport(0.29).support_size(100)  # the float64 is below 29 / 100
        28
        """
        exact = self.support if isinstance(self.support, int) else math.floor(Fraction(self.support) * n_examples)
        if not 1 <= exact <= n_examples:
            raise ArgumentError(
                f"a support of {self.support!r} is {exact:,} of {n_examples:,} rows; give a whole number from 1 to "
                f"{n_examples:,}, or a fraction of at least 1 / {n_examples:,} and below 1"
            )
        return exact

    def parameters(self, n_examples: int) -> dict[str, Any]:
        """The number of examples in a rado."""
        return {"support": self.support_size(n_examples)}

    def size(self, n_examples: int) -> int:
        """C(m, support)."""
        return _capped_number_of_signatures(n_examples, self.support_size(n_examples))

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> SignatureStream:
        """Start at the nearest of the rates 1/4, 1/2 and 3/4, and at 1/2 in the middle between two."""
        count = self.support_size(n_examples)
        if count == n_examples:  # one subset, which the switches would take m log m candidates to reach
            return AllRows()
        quarters = 1 if 8 * count < 3 * n_examples else 3 if 8 * count > 5 * n_examples else 2
        start = FairCoins(key, n_rados, quarters)
        return CorrectedCoins(start, n_examples, lambda members: np.full_like(members, count), threads)


@dataclass(frozen=True)
class FeatureInterval:
    """Signatures that keep the sum of one column of -1 and +1 in an interval: the size of F is within low .. high.

    F is uniform among the subsets whose size K is within the interval. It starts as fair coins, one for each row; if
    their number is within the interval, that is F already. Otherwise K is drawn from Binomial(m, 1/2) truncated to the
    interval, and rows are switched until there are K. Example i is in the rado iff (i in F) differs from (y_i x_i = +1
    in the column), so that the column's value in the rado is the number of its +1 edges, less K. What `prepare` gives
    is F; the caller inverts it where y_i x_i = +1. In total variation K is within `signature_size_law_error(m)` of its
    exact law.
    """

    low: int
    high: int

    name: ClassVar[str] = "feature-interval"
    by_coins: ClassVar[bool] = False
    for_one_column: ClassVar[bool] = True  # only a mechanism that knows the column can use it

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ArgumentError(f"{name} must be a whole number; it is {value!r}")
            object.__setattr__(self, name, int(value))
        if not 0 <= self.low <= self.high:
            raise ArgumentError(f"low must be at least 0 and at most high; they are {self.low:,} and {self.high:,}")

    def parameters(self, n_examples: int) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}

    def size(self, n_examples: int) -> int:
        """The sum of C(m, K) over the interval."""
        self._check(n_examples)
        total = 0
        for count in range(self.low, self.high + 1):
            total += _capped_number_of_signatures(n_examples, count)
            if total >= MAX_SIZE:
                return MAX_SIZE
        return total

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> "CorrectedCoins":
        """Start at rate 1/2; what is within the interval stays, and for the others K is drawn by inversion."""
        self._check(n_examples)

        def sizes(members: NDArray[np.int64]) -> NDArray[np.int64]:
            outside = np.flatnonzero((members < self.low) | (members > self.high))
            result = members.copy()
            result[outside] = self._draw(key, n_examples, outside.tolist()) if len(outside) else 0
            return result

        return CorrectedCoins(FairCoins(key, n_rados, quarters=2), n_examples, sizes, threads)

    def _draw(self, key: bytes, n_examples: int, rados: list[int]) -> list[int]:
        """K of these rados, from the binomial law restricted to the interval."""
        first, cumulative = signature_size_weights(n_examples, self.low, self.high)
        n_words, n_bytes = _DRAW_BITS // 64, _DRAW_BITS // 8
        out = np.empty(len(rados) * n_words, dtype="<u8")
        raw = keystream.keystream_parts(key, _SIZES_PLANE, ((j, 0, n_words) for j in rados), out).tobytes()
        uniform = (int.from_bytes(raw[k * n_bytes : (k + 1) * n_bytes], "little") for k in range(len(rados)))
        return [first + bisect_right(cumulative, u * cumulative[-1] >> _DRAW_BITS) for u in uniform]

    def _check(self, n_examples: int) -> None:
        if self.high > n_examples:
            raise ArgumentError(f"high is {self.high:,}, but there are {n_examples:,} rows; give at most that")


SIGNATURE_SETS: dict[str, type[SignatureSet]] = {
    AllSignatures.name: AllSignatures,
    FixedSupport.name: FixedSupport,
    FeatureInterval.name: FeatureInterval,
}


def _capped_number_of_signatures(n: int, k: int) -> int:
    """C(n, k), or MAX_SIZE; on the way to the middle C(n, i) only grows."""
    value = 1
    for i in range(min(k, n - k)):
        value = value * (n - i) // (i + 1)
        if value >= MAX_SIZE:
            return MAX_SIZE
    return value


# ---- the law of a size


def signature_size_weights(n_examples: int, low: int, high: int) -> tuple[int, list[int]]:
    """The first size that has a weight, and the sums of the weights from there on, in units of 2**-256.

    The weight of k is C(m, k) / C(m, c), for c the size in low .. high that is nearest to m / 2. Going outward from c
    each is the one before times a ratio of at most 1, rounded down; where one is 0 the rest is.
    """
    centre = min(max(n_examples // 2, low), high)
    above, weight = [1 << _WEIGHT_BITS], 1 << _WEIGHT_BITS
    for k in range(centre, high):
        weight = weight * (n_examples - k) // (k + 1)
        if not weight:
            break
        above.append(weight)
    below, weight = [], 1 << _WEIGHT_BITS
    if low + high == n_examples:
        below = above[1 + n_examples % 2 :]  # going down meets the same ratios as going up, in the same order
    for k in range(centre, low, -1) if low + high != n_examples else ():
        weight = weight * k // (n_examples - k + 1)
        if not weight:
            break
        below.append(weight)
    total, cumulative = 0, []
    for weight in below[::-1] + above:
        total += weight
        cumulative.append(total)
    return centre - len(below), cumulative


def signature_size_law_error(n_examples: int) -> float:
    """The most, in total variation, by which one K of `FeatureInterval` is off its exact law: (m + 1)**2 / 2**257.

    It is rounded up to a power of two. Let v_k be the exact weights, in units of 2**-256, and w_k the rounded ones.
    At distance i from c, 0 <= v_k - w_k < i or i = 0: a ratio of at most 1 does not enlarge what was lost before,
    and rounding loses less than 1. So V = sum v_k exceeds W = sum w_k by at most m (m + 1) / 2. As w_k <= v_k, the
    laws w / W and v / V differ by at most sum w_k (1 / W - 1 / V) = (V - W) / V, and V >= v_c = 2**256. A uniform
    integer of 384 bits gives each of at most m + 1 sizes a probability within 2**-384 of w_k / W, which adds at
    most (m + 1) / 2 * 2**-384. Together that is at most (m + 1)**2 / 2**257.
    """
    return math.ldexp(1.0, 2 * n_examples.bit_length() - _WEIGHT_BITS - 1)  # m + 1 <= 2**bit_length


def check_n_rados(n_rados: object) -> int:
    """n_rados as an int, if a keystream can address that many."""
    return _between(n_rados, "n_rados", 1, MAX_RADOS)


def check_first_signature_row(first_row: object) -> int:
    """first_row as an int, if the keystream has rows of such numbers."""
    return _between(first_row, "first_row", 0, _LAST_ROW)


def _between(value: object, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentError(f"{name} must be a whole number; it is {value!r}")
    if not least <= value <= most:
        raise ArgumentError(f"{name} must lie between {least} and {most:,}; it is {int(value):,}")
    return int(value)


def check_n_signatures(n_rados: int, n_examples: int, signatures: SignatureSet) -> None:
    size = signatures.size(n_examples)
    if n_rados > size:
        raise ArgumentError(
            f"n_rados is {n_rados:,}, but {n_examples:,} rows have only {size:,} signatures; "
            "ask for at most that many rados"
        )
