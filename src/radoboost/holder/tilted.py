"""Tilted rados: batches in which easy examples are rare.

In the first batch every example joins every rado by a fair coin. A learner makes a theta of what is released so far. In
the next batch example i joins with probability q_i = 1 / (1 + exp(theta . e_i)), e_i its edge vector on the grid. So
theta takes the place of the coin's fairness, and is in the release. docs/proofs/tilted.md says what such rados are good
for, and docs/exactness.md defines their bits.
"""

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError
from radoboost.holder import keystream
from radoboost.holder.engines import has_numba
from radoboost.holder.engines.reference import exp
from radoboost.holder.keystream import SLAB_TILES, TILE_ROWS, Key
from radoboost.holder.signatures import MAX_SIZE, SignatureSet, SignatureStream
from radoboost.holder.subset_sampling import FairCoins
from radoboost.jit import jit
from radoboost.release.tilted import LARGEST, MOST_BATCHES, NAME, rounded_theta

if TYPE_CHECKING:
    from radoboost.release.release import Release


PLANES = 32
"""Bits of a threshold; as many planes of the keystream decide whether an example is below its own."""
LEAST_FIRST = 20
"""Rados of the first batch, so that a fifth of them can be held out."""
_HALF_BITS = 15  # a weight's two halves times 22 bits, summed over _EXACT_COLUMNS, stay below 2**53
_EXACT_COLUMNS = 1 << 15
_LARGEST_EXPONENT = 60  # any score but 0 is then beyond the ends of `exp`
_BLOCK_BYTES = 1 << 21  # words made at a time


@dataclass(frozen=True)
class Tilted:
    """Rados in batches: the first by fair coins, later ones with few of the examples that are easy so far.

    Example i joins a rado of a later batch with probability 1 / (1 + exp(theta . e_i)), for its edge vector e_i and the
    theta that `learner` makes of the release so far: `radoboost.next_theta`, or any function from a `Release` to one
    number for each of its columns. The number of rados that is asked for is that of all batches. For plain releases of
    two classes. The paper has no such rados.

    >>> Tilted(2).sizes(1001)
    [501, 500]
    """

    batches: int = 2
    learner: "Callable[[Release], ArrayLike] | None" = field(default=None, compare=False, repr=False)

    name: ClassVar[str] = NAME
    by_coins: ClassVar[bool] = False

    def __post_init__(self) -> None:
        count = self.batches
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 2 <= count <= MOST_BATCHES:
            raise ArgumentError(f"batches must be a whole number from 2 to {MOST_BATCHES}; it is {count!r} (--tilted)")
        object.__setattr__(self, "batches", int(count))
        if self.learner is not None and not callable(self.learner):
            raise ArgumentError(f"learner must be a function such as radoboost.next_theta; it is {self.learner!r}")

    def sizes(self, n_rados: int) -> list[int]:
        """How many rados each batch has, of so many in all."""
        least = n_rados // self.batches
        if n_rados - least * (self.batches - 1) < LEAST_FIRST:
            enough = LEAST_FIRST * self.batches
            raise ArgumentError(
                f"the first of {self.batches} batches needs at least {LEAST_FIRST} rados, to learn a theta from; "
                f"ask for {enough:,} rados or more (-n {enough}), or leave tilted rados (--tilted) out"
            )
        return [n_rados - least * (self.batches - 1), *[least] * (self.batches - 1)]

    def parameters(self, n_examples: int) -> dict[str, Any]:
        """None that are known before the batches are made."""
        return {}

    def size(self, n_examples: int) -> int:
        """2**m."""
        return int(min(2 ** min(n_examples, 64), MAX_SIZE))

    def prepare(self, key: bytes, n_rados: int, n_examples: int, threads: int = 1) -> SignatureStream:
        """The subsets of the first batch, whose coins are fair."""
        return FairCoins(key, n_rados, quarters=2)


def refuse_tilted(signatures: SignatureSet | None, what: str) -> None:
    """Refuse tilted rados where all rados are made in one pass."""
    if isinstance(signatures, Tilted):
        raise ArgumentError(
            f"{what} cannot be tilted: batches follow one another, and each needs a theta from those before; tilted "
            "rados are for plain releases of one table (leave --tilted out)"
        )


def batch_key(key: bytes, place: int) -> Key:
    """The key of a later batch, by that of the release."""
    own = Key(hashlib.sha256(b"".join([b"radoboost/tilted/", str(place).encode("ascii"), b"/", key])).digest())
    own.fresh = getattr(key, "fresh", False)
    return own


@dataclass(frozen=True, kw_only=True)
class BatchCoins(FairCoins):
    """The coins of a later batch, under a key of `batch_key`."""

    place: int

    @classmethod
    def of(cls, key: bytes, place: int, n_rados: int) -> "BatchCoins":
        return cls(batch_key(key, place), n_rados, quarters=2, place=place)

    def for_part(self, first_row: int, n_rows: int) -> "BatchCoins":
        """Coins for a part that is summed elsewhere: without a seed, of a key that follows from its own."""
        if not getattr(self.key, "fresh", False):
            return self
        return replace(self, key=batch_key(Key.from_system(), self.place))


# ---- scores and thresholds


@dataclass(frozen=True, eq=False)
class TiltWeights:
    """A theta on a grid of its own, so that scores of integer rows are integer sums, exact in any order (L4).

    The score of a row is the sum of its integers times `weights`, times 2**exponent.
    """

    weights: NDArray[np.int64]
    exponent: int
    theta: NDArray[np.float64]

    @classmethod
    def of(cls, theta: ArrayLike, steps: Sequence[float]) -> "TiltWeights":
        """The theta nearest to this one on its grid, for columns of these steps; one that cannot be used is refused."""
        try:
            numbers = np.array(theta, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError("the learner of tilted rados gave what is not an array of numbers") from None
        d = len(steps)
        if numbers.shape != (d,):
            raise ArgumentError(
                f"the learner of tilted rados gave numbers of shape {numbers.shape}; it must give one for each of the "
                f"{d:,} columns of the release"
            )
        if not (np.abs(numbers) <= LARGEST).all():
            raise ArgumentError(
                "the learner of tilted rados gave numbers that are missing, infinite or too large; let it give finite "
                "ones, such as radoboost.next_theta does"
            )
        weights, exponent, snapped = rounded_theta(numbers, steps)
        return cls(weights.astype(np.int64), exponent, snapped)

    @property
    def _halves(self) -> NDArray[np.float64]:
        """Each weight as high * 2**15 + low, shape (columns, 2)."""
        low = self.weights & ((1 << _HALF_BITS) - 1)
        return np.column_stack([(self.weights - low) >> _HALF_BITS, low]).astype(np.float64)

    def scores(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The integer scores of integer rows; BLAS adds numbers that are exact in any order."""
        halves, total = self._halves, np.zeros(len(rows), dtype=np.int64)
        for first in range(0, len(halves), _EXACT_COLUMNS):
            part = slice(first, min(first + _EXACT_COLUMNS, len(halves)))
            high, low = (rows[:, part].astype(np.float64) @ halves[part]).astype(np.int64).T
            total += (high << _HALF_BITS) + low
        return total

    def entry_scores(
        self, zero: NDArray[Any], starts: NDArray[np.int64], places: NDArray[Any], differences: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Those of sparse rows before their signs: of a row of zeros, and what entries differ from that."""
        parts = np.concatenate([[0], np.cumsum(differences.astype(np.int64) * self.weights[places])])
        base = int(zero.astype(np.int64) @ self.weights)
        scores: NDArray[np.int64] = base + parts[starts[1:]] - parts[starts[:-1]]  # sums may wrap; differences do not
        return scores

    def probabilities(self, scores: NDArray[np.int64]) -> NDArray[np.float64]:
        factor = np.ldexp(1.0, min(self.exponent, _LARGEST_EXPONENT))
        return np.asarray(1.0 / (1.0 + exp(scores.astype(np.float64) * factor)))

    def thresholds(self, scores: NDArray[np.int64]) -> NDArray[np.uint64]:
        """q_i * 2**32, rounded down, and at most 2**32 - 1 (L5)."""
        return np.minimum(np.floor(self.probabilities(scores) * 2.0**PLANES), 2.0**PLANES - 1).astype(np.uint64)


# ---- words


@dataclass(frozen=True, eq=False)
class TiltedSignatures:
    """Signatures of the rows of a batch: a row is in a rado where its number in the keystream is below its threshold.

    That number is made of the bits of planes 0, 1, ... at (row, rado), the most significant first. `bits` has for each
    tile the bits of its rows' thresholds, a word for each plane, and `rows` which rows are there.
    """

    key: bytes = field(repr=False)
    first_tile: int
    bits: NDArray[np.uint64] = field(repr=False)
    rows: NDArray[np.uint64] = field(repr=False)

    @classmethod
    def over(cls, prepared: SignatureStream, first_row: int, thresholds: NDArray[np.uint64]) -> "TiltedSignatures":
        """Those of rows from `first_row` on, under the key of `prepared`."""
        assert isinstance(prepared, FairCoins)
        skip = first_row % TILE_ROWS
        n_tiles = -(-(skip + len(thresholds)) // TILE_ROWS)
        padded = np.zeros(n_tiles * TILE_ROWS, dtype=np.uint64)
        padded[skip : skip + len(thresholds)] = thresholds | np.uint64(1 << PLANES)  # a bit more: the row is there
        by_row = padded.astype("<u8").view(np.uint8).reshape(n_tiles, TILE_ROWS, 8)
        planes = np.unpackbits(by_row, axis=2, bitorder="little").transpose(0, 2, 1)
        words = np.packbits(np.ascontiguousarray(planes), axis=2, bitorder="little").view("<u8")[:, :, 0]
        bits = np.ascontiguousarray(words[:, PLANES - 1 :: -1]).astype(np.uint64)
        return cls(prepared.key, first_row // TILE_ROWS, bits, words[:, PLANES].astype(np.uint64))

    def for_part(self, first_row: int, n_rows: int) -> "TiltedSignatures":
        return self

    def words(self, first_tile: int, n_tiles: int, out: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Compare plane by plane, until no row of any word is undecided."""
        at_a_time = max(1, _BLOCK_BYTES // (8 * out.shape[1]))
        for start in range(0, n_tiles, at_a_time):
            self._compare(first_tile + start, out[start : min(start + at_a_time, n_tiles)])
        return out

    def _compare(self, first_tile: int, below: NDArray[np.uint64]) -> None:
        n_tiles, n_rados = below.shape
        own = slice(first_tile - self.first_tile, first_tile - self.first_tile + n_tiles)
        bits, undecided = self.bits[own], np.repeat(self.rows[own, None], n_rados, axis=1)
        below.fill(0)
        left = np.arange(n_tiles)
        for plane in range(PLANES):
            places = [divmod(first_tile + tile, SLAB_TILES) for tile in left.tolist()]
            if len(left) == n_tiles:
                drawn = keystream.words(self.key, n_rados, first_tile, n_tiles, plane=plane)
            else:
                parts = ((slab, tile * n_rados, n_rados) for slab, tile in places)
                drawn = keystream.streams(self.key, plane, parts, np.empty((len(left) * n_rados,), np.uint64))
            left = left[_decide(drawn.reshape(len(left), n_rados), bits[:, plane], left, undecided, below)]
            if not len(left):
                return


def _decide(
    drawn: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    tiles: NDArray[np.int64],
    undecided: NDArray[np.uint64],
    below: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    """Settle the rows of these tiles whose drawn bit is not their threshold's; which tiles have some that is left."""
    left = np.zeros(len(tiles), dtype=np.bool_)
    if has_numba():
        _compiled()(drawn, np.ascontiguousarray(bits), tiles, undecided, below, left)
        return left
    wanted = bits[tiles, None]
    below[tiles] |= undecided[tiles] & wanted & ~drawn
    undecided[tiles] &= ~(drawn ^ wanted)
    return np.asarray(undecided[tiles].any(axis=1))


def _decide_words(
    drawn: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    tiles: NDArray[np.int64],
    undecided: NDArray[np.uint64],
    below: NDArray[np.uint64],
    left: NDArray[np.bool_],
) -> None:
    for i in range(len(tiles)):
        tile = tiles[i]
        wanted, some = bits[tile], np.uint64(0)
        for j in range(drawn.shape[1]):
            open_rows, word = undecided[tile, j], drawn[i, j]
            below[tile, j] |= open_rows & wanted & ~word
            open_rows &= ~(word ^ wanted)
            undecided[tile, j] = open_rows
            some |= open_rows
        left[i] = some != np.uint64(0)


@functools.cache
def _compiled() -> Callable[..., None]:
    return jit(_decide_words, "void(uint64[:, ::1], uint64[::1], int64[::1], uint64[:, ::1], uint64[:, ::1], b1[::1])")


# ---- How many examples rados of a tilted batch sum: on average, and how often one alone or none.
#
# Example i joins with probability p_i = t_i / 2**32. A rado is empty with probability prod (1 - p_i), and a
# single example with that times sum p_i / (1 - p_i). Both come from sums of whole numbers over rows, which are
# the same in any order and on any machine (docs/proofs/tilted.md, L10).

_BITS = 32  # of a threshold, and of odds after the point
_LOG_BITS = 36  # after the point, of logarithms
_TERMS = 10  # of the series, whose terms fall by 25 or more
_LOG_2 = 0.6931471805599453
LEAST_MEAN, MOST_ALONE = 20, 1.0
"""How many examples a rado must sum on average, and how many rados of a batch may be one example."""


@dataclass(frozen=True)
class TiltedSupport:
    """Of a batch of so many rados: how many examples one sums on average, and how many sum one alone, or none."""

    n_rados: int
    mean: float
    alone: float
    empty: float

    @property
    def too_small(self) -> bool:
        """Whether its rados hand out rows in the clear, or nearly."""
        return self.mean < LEAST_MEAN or self.alone > MOST_ALONE


@dataclass(frozen=True)
class SupportMoments:
    """Sums over the rows of a batch: of thresholds, of -log(1 - p) and of p / (1 - p), as whole numbers."""

    thresholds: int = 0
    logarithms: int = 0
    odds: int = 0

    @classmethod
    def of(cls, thresholds: NDArray[np.uint64]) -> "SupportMoments":
        """Those of some rows, by sums, products and quotients of float64 one at a time, whose bits are defined."""
        joins = thresholds.astype(np.float64)
        stays = 2.0**_BITS - joins
        odds = joins / stays
        whole = np.floor(odds)
        # 1 - p is f * 2**-k with f from 3/4 to 3/2, and log f = 2 (z + z**3 / 3 + ...), z = (f - 1) / (f + 1).
        fraction, exponent = np.frexp(stays / 2.0**_BITS)
        low = fraction < 0.75
        fraction, exponent = np.where(low, 2 * fraction, fraction), np.where(low, exponent - 1, exponent)
        z = (1 - fraction) / (1 + fraction)
        series, square = np.zeros_like(z), z * z
        for power in range(2 * _TERMS - 1, 0, -2):
            series = series * square + 1 / power
        logarithms = 2 * z * series - exponent * _LOG_2
        return cls(
            int(thresholds.sum()),
            int(np.floor(logarithms * 2.0**_LOG_BITS).astype(np.int64).sum()),
            (int(whole.astype(np.int64).sum()) << _BITS)
            + int(np.floor((odds - whole) * 2.0**_BITS).astype(np.int64).sum()),
        )

    def __add__(self, other: "SupportMoments") -> "SupportMoments":
        return SupportMoments(
            self.thresholds + other.thresholds, self.logarithms + other.logarithms, self.odds + other.odds
        )

    @property
    def mean(self) -> float:
        """How many examples a rado sums on average."""
        return float(self.thresholds / 2**_BITS)

    @property
    def empty(self) -> float:
        """The chance of a rado to sum none."""
        return math.exp(-self.logarithms / 2**_LOG_BITS)

    @property
    def alone(self) -> float:
        """The chance of a rado to be one example."""
        if not self.odds:
            return 0.0
        return math.exp(min(math.log(self.odds) - _BITS * _LOG_2 - self.logarithms / 2**_LOG_BITS, 0.0))

    def sizes(self, n_rados: int) -> TiltedSupport:
        return TiltedSupport(n_rados, self.mean, n_rados * self.alone, n_rados * self.empty)
