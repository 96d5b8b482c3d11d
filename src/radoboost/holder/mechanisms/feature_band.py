"""The paper's feature-wise mechanism (Algorithm DP-Feat) for one binary column.

The column's value in a rado is m(+) - K, with K binomial and truncated to a band. The claim is about that marginal and
nothing else. Proof, and where we differ from the paper: docs/proofs/feature-band.md, steps F1 to F9.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, TableError
from radoboost.holder.grid import EXACT_UNIT, ExactSums
from radoboost.holder.mechanisms.claims import COMMON, DEFAULT_DELTA, check_epsilon, make_statement
from radoboost.holder.mechanisms.contract import Circumstances
from radoboost.holder.mechanisms.plain import exposed_by_scale
from radoboost.holder.signatures import FeatureInterval, size_law_error
from radoboost.privacy import (
    Repeated,
    TruncatedBinomialShift,
    band,
    delta_at,
    epsilon_at,
    least_band_epsilon,
)
from radoboost.release import Statement, rounded_up

_CODINGS = ((0.0, 1.0), (-1.0, 1.0))


@dataclass(frozen=True)
class FeatureBand:
    """Rados whose value in one binary column stays within a band (Algorithm DP-Feat of the paper).

    Naming a column here declares it binary: 0 and 1, or -1 and +1. `epsilon` is the paper's, of a single rado, and sets
    the band; the statement gives the exact epsilon of all rados at `delta`. It speaks of the marginal of that column
    only: the other columns of the same rados can reveal its values, and plain rados have no larger a marginal delta. It
    is here to reproduce the paper, not to protect: from 16 rados of 24 rows, one column of evenly spread real values
    beside it gave a bit away in at least 99 of 100 releases (`rado attack leak`; docs/attacks.md has both).
    `values` declares the coding, (0, 1) or (-1, 1); without it the table says which.

    >>> FeatureBand("smokes", epsilon=1.0).signatures(1000, 100)
    FeatureInterval(low=378, high=622)
    """

    feature: str
    epsilon: float
    delta: float = DEFAULT_DELTA
    values: tuple[float, float] | None = None

    name: ClassVar[str] = "feature-band"
    private: ClassVar[bool] = False
    default_scale: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str):
            raise ArgumentError(f"feature must be the name of a column; it is {self.feature!r}")
        check_epsilon(self.epsilon, self.delta)
        if self.values is not None and self.values not in _CODINGS:
            raise ArgumentError(f"values must be (0, 1) or (-1, 1); they are {self.values!r}")

    def signatures(self, n_examples: int, n_rados: int) -> FeatureInterval:
        """The signature set for so many rows, refused where the claim would be vacuous (F5)."""
        low, high = band(n_examples, self.epsilon)
        if low > high or epsilon_at(self._event(n_examples, n_rados, low, high), self.delta) == math.inf:
            raise ArgumentError(
                f"with {n_examples:,} rows and {n_rados:,} rados, epsilon {self.epsilon:g} leaves a band of "
                f"{max(0, high - low + 1):,} values, too narrow for any claim at delta {self.delta:g} "
                "about one value of the column, in its marginal; "
                f"{self._hint(n_examples, n_rados)}"
            )
        return FeatureInterval(low, high)

    def _hint(self, n_examples: int, n_rados: int) -> str:
        least = least_band_epsilon(n_examples, n_rados, self.delta)
        if least is None:
            return "no epsilon will do: ask for fewer rados, or a larger delta"
        shown = rounded_up(least, 6)
        if epsilon_at(self._event(n_examples, n_rados, *band(n_examples, float(shown))), self.delta) == math.inf:
            return "so small a delta is below what the accountant resolves here: ask for fewer rados, or a larger delta"
        return f"take epsilon at least {shown}, fewer rados, or a larger delta"

    def coding(self, seen: ExactSums, feature: int) -> tuple[float, float]:
        """(low, high) of the column's values, refusing a column that is not binary.

        Within [low, high] no (x - low)(x - high) is positive, so they are all 0 if their exact sum is.
        """
        total, squares = Fraction(seen.sums[feature]), Fraction(seen.squares[feature])
        unit = Fraction(2) ** -EXACT_UNIT
        for low, high in _CODINGS if self.values is None else (self.values,):
            products = squares / unit**2 - (Fraction(low) + Fraction(high)) * total / unit
            products += seen.n_rows * Fraction(low) * Fraction(high)
            if low <= seen.lowest[feature] and seen.highest[feature] <= high and products == 0:
                return float(low), float(high)
        raise TableError(
            f"column {self.feature!r} is not binary: it must hold 0 and 1, or -1 and +1, alone; "
            "a band that is symmetric about the mean, as this one is, would protect nothing for some tables with "
            "real values"
        )

    def parameters(self, circumstances: Circumstances) -> Mapping[str, Any]:
        """The column, the paper's epsilon of one rado, and the band it gives."""
        return {"feature": self.feature, "band_epsilon": self.epsilon, "band": list(self._band(circumstances))}

    def statement(self, circumstances: Circumstances) -> Statement:
        """Exact (epsilon, delta) of the marginal of one column over all rados (F6)."""
        m, n, name = circumstances.n_examples, circumstances.n_rados, repr(self.feature)
        assert m is not None
        event, one = self.event(m, n), self.event(m, 1)
        plain = self._event(m, n, 0, m)
        coding = (
            "" if self.values is not None else " So is which of the codings 0 / 1 and -1 / +1 it has, from its values."
        )
        return make_statement(
            self.name,
            event,
            self.delta,
            circumstances,
            unit=f"one value of the column {name}, seen in that column of the rados alone",
            promises=(
                f"Who sees the column {name} of the rados, and no other column, learns about any one value of it no "
                "more than epsilon and delta say, over all rados together.",
                f"For that marginal, one rado has delta {rounded_up(delta_at(one, self.epsilon), 4)} at epsilon "
                f"{self.epsilon:g}, exactly. The paper's theorem, for small epsilon, has epsilon {n * self.epsilon:g} "
                f"for {n:,} rados; its delta is right from about 8 sqrt(log(m)/m) on, and too small below. These "
                "figures do not rest on it.",
            ),
            not_protected=(
                f"The other columns of the same rados can reveal the values of {name}: one real-valued column can "
                "suffice. The claim is about a marginal, and does not hold for the release as a whole.",
                "The band does not help the marginal. Of a column of -1 and +1 without a band, and without scaling "
                f"constants beside it, as many rados have epsilon {rounded_up(epsilon_at(plain, self.delta), 4)} at "
                "the same delta. This mechanism reproduces the paper; it is not for protecting anybody.",
                f"That the column {name} holds two values is in the release.{coding}",
                "No other column is protected in any way, nor the number of examples, nor the label.",
                *(f"Of every column but {name}: {sentence}" for sentence in exposed_by_scale(circumstances.scale)),
                *COMMON,
            ),
            adversary=f"Who sees the column {name} of the rados and no other, knows everything else",
        )

    def event(self, n_examples: int, n_rados: int) -> Repeated:
        """What is done to the column's marginal."""
        return self._event(n_examples, n_rados, *band(n_examples, self.epsilon))

    def _band(self, circumstances: Circumstances) -> tuple[int, int]:
        assert circumstances.n_examples is not None
        return band(circumstances.n_examples, self.epsilon)

    def _event(self, n_examples: int, n_rados: int, low: int, high: int) -> Repeated:
        variation = size_law_error(n_examples)
        return Repeated(TruncatedBinomialShift(n_examples, low, high, variation, self.feature), n_rados)


def column_bits(values: NDArray[Any], signs: NDArray[np.int8], coding: tuple[float, float]) -> NDArray[np.bool_]:
    """Whether y_i x_i is +1, for a binary column's values (F1)."""
    bits: NDArray[np.bool_] = (values == coding[1]) == (signs > 0)
    return bits
