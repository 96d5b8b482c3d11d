"""What a first run is made to release, for exact audits: its own noisy numbers, absurd ones, or ones that suit a pair.

A promise holds whatever was released before. So an audit may choose the numbers along which two tables are compared: no
choice of them may take the tables further apart than is promised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.replay import Computing, Integers, Log, NoisySum

LARGE = 2**61
_FAR = 60.0  # a score at which a class has nearly no probability
_SPHERE = ("second moments",)
_AFTER = ("whitened moments", "mean rados")


def _checkered(numbers: Integers) -> Integers:
    """1 and -1 in turns, the same on both sides of a diagonal."""
    places = np.indices(numbers.shape).sum(axis=0)
    return np.asarray(1 - 2 * (places % 2), dtype=np.int64)


def _all(value: int) -> Callable[[Integers], Integers]:
    return lambda numbers: np.full_like(numbers, value)


@dataclass(frozen=True)
class Absurd(Computing):
    """Numbers that no noise would give; those of the noisy counts of rows only on demand, for a run may stop there."""

    name: str
    change: Callable[[Integers], Integers]
    counts: bool = False

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        return noisy if stage == "counts" and not self.counts else self.change(noisy)

    def used(self, number: int, log: Log, computed: Any) -> Any:
        return computed


ABSURD: tuple[Absurd, ...] = (
    Absurd("all zero", lambda numbers: np.zeros_like(numbers), counts=True),
    Absurd("huge", _all(LARGE)),
    Absurd("huge and negative", _all(-LARGE)),
    Absurd("huge, in turns", lambda numbers: LARGE * _checkered(numbers), counts=True),
    Absurd("tiny, in turns", _checkered),
    Absurd("the least of 64 bits", _all(np.iinfo(np.int64).min), counts=True),
)


@dataclass(frozen=True)
class Lying:
    """A run whose whitening, classifiers and score weights are these: in a room another holder may send any numbers."""

    name: str
    value: float

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        """The run's own numbers."""
        return noisy

    def used(self, number: int, log: Log, computed: Any) -> Any:
        """Lies, but for the numbers that choose columns and bounds."""
        return np.full_like(computed, self.value) if what_follows(log, computed) else computed

    def instead(self, number: int, log: Log) -> Any:
        """Weights of the scores: computed from such lies, linear algebra would complain on stderr."""
        if not log.sums or log.sums[-1].stage not in _AFTER:
            return None
        shape = next(one.exact.shape for one in log.sums if one.stage == "sum")
        return [np.full(shape, self.value).tolist(), self.value]


LYING = tuple(Lying(f"a speaker who sends {value:g}", value) for value in (float("nan"), 1e200, -1e6))


def what_follows(log: Log, computed: Any) -> str:
    """Whether a run computes its whitening or its classifier, by the stage before; empty for anything else."""
    stage = log.sums[-1].stage if log.sums else ""
    if not isinstance(computed, np.ndarray):
        return ""
    if stage in _SPHERE and computed.ndim == 2:
        return "whitening"
    return "classifier" if stage in _AFTER else ""


@dataclass(frozen=True)
class Aimed(Computing):
    """A transcript along which rows differ as far as they can.

    It is another one up to the second moments. From there on nothing is learned, so that every row has its full weight.
    With an `axis` whitening sees this direction of the rows on the sphere alone, and of more than two classes those
    from the third on are out of the question for rows on its positive side, where there are `far` ones.
    """

    before: Log
    axis: NDArray[np.float64] | None = None
    far: bool = False

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        """Those of the other transcript at first, and then zeros."""
        return noisy if number >= len(self.before.sums) or stage in _LATE else self.before.sums[number].released

    def used(self, number: int, log: Log, computed: Any) -> Any:
        """Whitening and classifiers that suit the axis."""
        kind = what_follows(log, computed)
        if kind == "whitening" and self.axis is not None:
            return np.outer(self.axis, self.axis)
        if kind == "classifier":
            theta = np.zeros_like(computed)
            if self.far and self.axis is not None and theta.ndim == 2:
                theta[2:] = -_FAR * self.axis
            return theta
        return computed


_LATE = ("sum", "whitened moments", "mean rados", "scores")


def row_on_sphere(there: NoisySum, absent: NoisySum) -> NDArray[np.float64] | None:
    """The direction of the one row by which two second moments differ; None where there is no such row.

    The constant is its last column, and positive.
    """
    square = (there.exact - absent.exact).astype(np.float64)
    if square[-1, -1] <= 0:
        return None
    return np.asarray(square[-1] / np.linalg.norm(square[-1]))
