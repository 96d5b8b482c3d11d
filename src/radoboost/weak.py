"""Weak feature index oracles: which feature boosting takes next, given the edges r of all of them.

The paper's oracle takes the largest |r|. The prudential ones hold back, for rados that carry noise. Ties go to the
lower index; -1 means that no feature will do, and boosting stops.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError


class WeakOracle(Protocol):
    """What boosting asks of an oracle."""

    @property
    def name(self) -> str:
        """Its name in a shell's parameter `weak`."""

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The index of the chosen feature, or -1."""


@dataclass(frozen=True)
class Strongest:
    """The feature with the largest |r|.

    >>> Strongest().choose(np.array([0.1, -0.4, 0.4]))
    1
    """

    name: ClassVar[str] = "strongest"

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The first of the largest."""
        return int(np.argmax(np.abs(edges)))


@dataclass(frozen=True)
class Median:
    """The feature with the median |r|, the prudential oracle of the paper's experiments.

    It is position (d - 1) // 2 in ascending order.

    >>> Median().choose(np.array([0.1, -0.4, 0.2, 0.3]))
    2
    """

    name: ClassVar[str] = "median"

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The middle one; among equals the order of the indices counts."""
        return int(np.argsort(np.abs(edges), kind="stable")[(len(edges) - 1) // 2])


@dataclass(frozen=True)
class Prudential:
    """The feature with the largest |r| that is not above `cap` (lambda_p of the paper).

    >>> Prudential(0.35).choose(np.array([0.1, -0.4, 0.3])), Prudential(0.05).choose(np.array([0.1]))
    (2, -1)
    """

    cap: float
    name: ClassVar[str] = "prudential"

    def __post_init__(self) -> None:
        if not 0 < self.cap <= 1:
            raise ArgumentError(f"the cap of a prudential oracle must lie in (0, 1]; it is {self.cap}")

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The first of the largest under the cap, or -1."""
        strength = np.abs(edges)
        allowed = np.where(strength <= self.cap, strength, -1.0)
        best = int(np.argmax(allowed))
        return best if allowed[best] >= 0 else -1


def clamped(edge: float, least: float = 0.1) -> float:
    """sign(r) max(least, |r|): the clamp of the paper's appendix.

    >>> clamped(-0.02), clamped(0.5)
    (-0.1, 0.5)
    """
    return float(np.copysign(max(least, abs(edge)), edge))


WEAK_ORACLES: dict[str, type[WeakOracle]] = {oracle.name: oracle for oracle in (Strongest, Median, Prudential)}
