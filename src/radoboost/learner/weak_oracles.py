"""Weak feature index oracles: which feature boosting takes next, given the edges r of all of them.

The paper's oracle takes the largest |r|. The prudential ones hold back, for rados that carry noise. Ties go to the
lower index; -1 means that no feature qualifies, and boosting stops. Any object with a `name` and a method `choose` is
an oracle: boosting asks it once a round.
"""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError


@runtime_checkable
class WeakOracle(Protocol):
    """What boosting needs of an oracle."""

    @property
    def name(self) -> str:
        """Its name in a model, and in the parameter `weak` of an estimator."""

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The index of the chosen feature, or -1; `edges` are in [-1, 1] and cannot be changed."""


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
        if not isinstance(self.cap, Real) or not 0 < self.cap <= 1:
            raise ArgumentError(f"the cap of a prudential oracle must be a number in (0, 1]; it is {self.cap!r}")
        object.__setattr__(self, "cap", float(self.cap))

    def choose(self, edges: NDArray[np.float64]) -> int:
        """The first of the largest under the cap, or -1."""
        strength = np.abs(edges)
        allowed = np.where(strength <= self.cap, strength, -1.0)
        best = int(np.argmax(allowed))
        return best if allowed[best] >= 0 else -1


def prudential_oracle_for_noise(rados: NDArray[np.float64], noise_std: float) -> tuple[Prudential, float]:
    """The paper's cap lambda_p and kappa for rados that carry noise of `noise_std` a coordinate.

    They are the quantities of thm_random_gau, from the noisy rados alone: M = min_k max_j |rado_jk| stands in for
    mu' m_*, and L = sqrt(d) + sqrt(2 log(n / 0.05)) for the norm that the paper bounds without its sqrt(d). The paper
    wants kappa at least 4 noise_std L / M**2, and 1 - rho at most 1 / (4 kappa noise_std L). Its cap is
    1 - 2 / (sqrt(1 - rho) kappa M), which is positive only beyond four times that kappa. Here kappa is
    max(1, 64 noise_std L / M**2), where much noise gives a cap of 1/2. The theorem is not proved as printed;
    nothing here says that its conditions hold.
    """
    n, d = rados.shape
    largest = np.abs(rados).max(axis=0)
    reach = float(largest[largest > 0].min(initial=np.inf))
    if not np.isfinite(reach):
        raise ArgumentError("every rado is zero; there is nothing to be prudent about")
    noise = noise_std * (np.sqrt(d) + np.sqrt(2 * np.log(n / 0.05)))
    kappa = max(1.0, 64 * noise / reach**2)
    root = np.sqrt(min(1.0, 1 / (4 * kappa * noise))) if noise > 0 else 1.0
    # In units where a rado is below 1 everywhere the paper's cap is negative: any edge is too large for it.
    return Prudential(float(np.clip(1 - 2 / (root * kappa * reach), 1e-3, 1.0))), float(kappa)


WEAK_ORACLES: dict[str, type[WeakOracle]] = {oracle.name: oracle for oracle in (Strongest, Median, Prudential)}
