"""The paper's feature-wise mechanism (Algorithm DP-Feat) for one binary column.

The column's value in a rado is m(+) - K, with K binomial and truncated to a band. The claim is about that marginal and
nothing else. Proof, and what is wrong with the theorem: docs/proofs/feature-band.md, steps F1 to F7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.mechanisms.claims import COMMON, DEFAULT_DELTA, check_epsilon, make_statement
from radoboost.mechanisms.contract import Circumstances
from radoboost.mechanisms.plain import exposed_by_scale
from radoboost.privacy import (
    Repeated,
    TruncatedBinomialShift,
    band,
    delta_at,
    epsilon_at,
    least_band_epsilon,
)
from radoboost.release import Statement, finite_or_word
from radoboost.signatures import FeatureInterval, size_law_error

_CODINGS = ((0.0, 1.0), (-1.0, 1.0))


@dataclass(frozen=True)
class FeatureBand:
    """Rados whose value in one binary column stays within a band (Algorithm DP-Feat of the paper).

    Naming a column here declares it binary: 0 and 1, or -1 and +1. `epsilon` is the paper's, of a single rado, and
    sets the band; the statement gives the exact epsilon of all rados at `delta`. It speaks of the marginal of that
    column only: the other columns of the same rados reveal its values, and plain rados have the smaller marginal
    delta. It is here to reproduce the paper, not to protect.

    >>> FeatureBand("smokes", epsilon=1.0).signatures(1000, 100)
    FeatureInterval(low=378, high=622)
    """

    feature: str
    epsilon: float
    delta: float = DEFAULT_DELTA

    name: ClassVar[str] = "feature-band"
    private: ClassVar[bool] = False
    default_scale: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str):
            raise ArgumentError(f"feature must be the name of a column; it is {self.feature!r}")
        check_epsilon(self.epsilon, self.delta)

    def signatures(self, n_examples: int, n_rados: int) -> FeatureInterval:
        """The signature set for so many rows, refused where the claim would be vacuous (F5)."""
        low, high = band(n_examples, self.epsilon)
        event = self._event(n_examples, n_rados, low, high)
        if epsilon_at(event, self.delta) == np.inf:
            least = least_band_epsilon(n_examples, n_rados, self.delta)
            hint = "no epsilon will do: ask for fewer rados, or a larger delta"
            if least is not None:
                hint = f"take epsilon at least {least:.6g}, fewer rados, or a larger delta"
            raise ArgumentError(
                f"with {n_examples:,} rows and {n_rados:,} rados, epsilon {self.epsilon:g} leaves a band of "
                f"{max(0, high - low + 1):,} values, too narrow for any claim at delta {self.delta:g}; {hint}"
            )
        return FeatureInterval(low, high)

    def coding(self, seen: set[float]) -> tuple[float, float]:
        """(low, high) of the column's values, refusing a column that is not binary."""
        for pair in _CODINGS:
            if seen <= set(pair):
                return pair
        raise TableError(
            f"column {self.feature!r} is not binary: it must hold 0 and 1, or -1 and +1, alone; "
            "the band of a real-valued column protects nothing for some tables"
        )

    def parameters(self, circumstances: Circumstances) -> Mapping[str, Any]:
        """The column, the band, and exact figures of one rado beside the theorem's."""
        assert circumstances.n_examples is not None
        low, high = band(circumstances.n_examples, self.epsilon)
        one = self._event(circumstances.n_examples, 1, low, high)
        n = circumstances.n_rados
        theorem_delta = 1.0 / (self.epsilon * circumstances.n_examples**2.5)
        return {
            "feature": self.feature,
            "epsilon": self.epsilon,
            "band": [low, high],
            "one_rado": {"epsilon": self.epsilon, "delta": delta_at(one, self.epsilon)},
            "theorem": {"epsilon": n * self.epsilon, "delta_order": min(1.0, n * theorem_delta)},
            "plain_delta": delta_at(
                self._event(circumstances.n_examples, 1, 0, circumstances.n_examples), self.epsilon
            ),
        }

    def statement(self, circumstances: Circumstances) -> Statement:
        """Exact (epsilon, delta) of the marginal of one column over all rados (F6)."""
        assert circumstances.n_examples is not None
        low, high = band(circumstances.n_examples, self.epsilon)
        event = self._event(circumstances.n_examples, circumstances.n_rados, low, high)
        plain = self._event(circumstances.n_examples, circumstances.n_rados, 0, circumstances.n_examples)
        plain_epsilon = finite_or_word(round(epsilon_at(plain, self.delta), 4))
        name = repr(self.feature)
        return make_statement(
            self.name,
            event,
            self.delta,
            circumstances,
            unit=f"one value of the column {name}, seen in that column of the rados alone",
            promises=(
                f"Who sees the column {name} of the rados, and no other column, learns about any one value of it no "
                "more than epsilon and delta say, over all rados together.",
            ),
            not_protected=(
                f"The other columns of the same rados reveal the values of {name}: one real-valued column can suffice. "
                "The claim is about a marginal, and does not hold for the release as a whole.",
                f"The band does not help the marginal: plain rados of the same table would have epsilon {plain_epsilon}"
                " at the same delta. This mechanism reproduces the paper; it is not for protecting anybody.",
                "No other column is protected in any way, nor the number of examples, nor the label.",
                *exposed_by_scale(circumstances.scale),
                *COMMON,
            ),
        )

    def _event(self, n_examples: int, n_rados: int, low: int, high: int) -> Repeated:
        variation = size_law_error(n_examples)
        return Repeated(TruncatedBinomialShift(n_examples, low, high, total_variation=variation), n_rados)


def column_bits(values: NDArray[Any], signs: NDArray[np.int8], coding: tuple[float, float]) -> NDArray[np.bool_]:
    """Whether y_i x_i is +1, for a binary column's values (F1)."""
    bits: NDArray[np.bool_] = (values == coding[1]) == (signs > 0)
    return bits
