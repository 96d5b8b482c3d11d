"""The paper's feature-wise mechanism (Algorithm DP-Feat) for one binary column.

The column's value in a rado is m(+) - K, with K binomial and truncated to a band. The claim is about that marginal and
nothing else. Proof, and where we differ from the paper: docs/proofs/feature-band.md, steps F1 to F9.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from radoboost.errors import ArgumentError, TableError, whole_number
from radoboost.holder.curator import Curator
from radoboost.holder.grid import EXACT_UNIT, ExactSums, grid_step, make_grid_columns
from radoboost.holder.mechanisms import table_survey
from radoboost.holder.mechanisms.mechanism import KeyUse, Question, ReleaseDraft, StatementFacts, check_intercept
from radoboost.holder.mechanisms.plain import disclosures_of_scale
from radoboost.holder.mechanisms.statements import COMMON, DEFAULT_DELTA, check_epsilon_and_delta, make_statement
from radoboost.holder.request import CraftRequest
from radoboost.holder.signatures import FeatureInterval, signature_size_law_error
from radoboost.privacy import Event, Repeated, TruncatedBinomialShift, band, delta_at, epsilon_at, least_band_epsilon
from radoboost.release.columns import Column
from radoboost.release.release import Statement, epsilon_as_json, rounded_up_text
from radoboost.tables.column_types import Kind, Number

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
    scale: str | None = "auto"
    intercept: bool = True

    name: ClassVar[str] = "feature-band"
    private: ClassVar[bool] = False
    law: ClassVar[str] = "banded sums"
    secrets: ClassVar[KeyUse] = KeyUse(row_noise=False, sum_noise=False)

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str):
            raise ArgumentError(f"feature must be the name of a column; it is {self.feature!r}")
        check_epsilon_and_delta(self.epsilon, self.delta)
        check_intercept(self.intercept)
        if self.values is not None and self.values not in _CODINGS:
            raise ArgumentError(f"values must be (0, 1) or (-1, 1); they are {self.values!r}")

    @property
    def withheld(self) -> dict[str, Kind]:
        """What a schema says of the column where nobody declared it: that it is a number, and its coding if known."""
        return {self.feature: Number() if self.values is None else Number(*self.values)}

    def check(self, asked: CraftRequest) -> None:
        """Refuse a scale that cannot be used, and signatures other than the band's own."""
        table_survey.check_scale_argument(asked)
        asked.refuse_many_classes(self.name, asked.classes)
        asked.refuse("weights")
        if asked.signatures is not None:
            raise ArgumentError("FeatureBand brings its own signatures; leave signatures out")
        if asked.fixed_columns != "linear":
            raise ArgumentError("FeatureBand is about a column as it is; leave columns out (--columns)")

    def survey(self, asked: CraftRequest, run: Curator) -> table_survey.TableSurvey:
        """Scaling constants, classes, and the exact sums of the column."""
        if self.feature not in run.source.features:
            raise TableError(f"{run.source.name} has no feature {self.feature!r} for the band; name another")
        return table_survey.survey_table(asked, run, unbounded=self.feature)

    def make(self, asked: CraftRequest, run: Curator) -> ReleaseDraft:
        """Rados whose sum of the column stays within the band."""
        features, facts = run.source.features, run.survey
        place = features.index(self.feature)
        asked.refuse_many_classes(self.name, facts.rule.classes)
        subsets = self.signatures(facts.exact.n_rows, asked.n_rados)
        low, high = coding = self.coding(facts.exact, place)
        columns = list(make_grid_columns(features, facts.scale, facts.limits, facts.exact, intercept=asked.intercept))
        columns[place] = Column(self.feature, "bounds", grid_step(1.0, self.feature), low, high)
        figures = {"feature": self.feature, "band_epsilon": self.epsilon, "band": [subsets.low, subsets.high]}
        return table_survey.sum_rados_after_survey(asked, run, facts, tuple(columns), subsets, figures, (place, coding))

    def signatures(self, n_examples: int, n_rados: int) -> FeatureInterval:
        """The signature set for these numbers of rows and rados; refused if the claim would be vacuous (F5)."""
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
            return "no epsilon is large enough: ask for fewer rados, or a larger delta"
        text = rounded_up_text(least, 6)
        if epsilon_at(self._event(n_examples, n_rados, *band(n_examples, float(text))), self.delta) == math.inf:
            return "so small a delta is below what the accountant resolves here: ask for fewer rados, or a larger delta"
        return f"take epsilon at least {text}, fewer rados, or a larger delta"

    def coding(self, exact: ExactSums, feature: int) -> tuple[float, float]:
        """(low, high) of the column's values, refusing a column that is not binary.

        Within [low, high] no (x - low)(x - high) is positive, so they are all 0 if their exact sum is.
        """
        total, squares = Fraction(exact.sums[feature]), Fraction(exact.squares[feature])
        unit = Fraction(2) ** -EXACT_UNIT
        for low, high in _CODINGS if self.values is None else (self.values,):
            products = squares / unit**2 - (Fraction(low) + Fraction(high)) * total / unit
            products += exact.n_rows * Fraction(low) * Fraction(high)
            if low <= exact.lowest[feature] and exact.highest[feature] <= high and products == 0:
                return float(low), float(high)
        raise TableError(
            f"column {self.feature!r} is not binary: it must hold 0 and 1, or -1 and +1, alone; "
            "a band that is symmetric about the mean, as this one is, would protect nothing for some tables with "
            "real values"
        )

    def statement(self, circumstances: StatementFacts) -> Statement:
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
                f"Anyone who sees the column {name} of the rados, and no other column, learns about any one value of "
                "it no more than epsilon and delta say, over all rados together.",
                f"For that marginal, one rado has delta {rounded_up_text(delta_at(one, self.epsilon), 4)} at epsilon "
                f"{self.epsilon:g}, exactly. The paper's theorem, for small epsilon, has epsilon {n * self.epsilon:g} "
                f"for {n:,} rados. Its delta has the right order from c sqrt(log(m)/m) on, for any constant c above "
                "6.93; with the constant 1 and 1,000 rows it is large enough from epsilon 0.66 on. It is too small at "
                "m^(-1/2), and at 8/m, where the paper's own condition still holds. These figures do not rest on it.",
            ),
            not_protected=(
                f"The other columns of the same rados can reveal the values of {name}: one real-valued column can "
                "suffice. The claim is about a marginal, and does not hold for the release as a whole.",
                "The band does not help the marginal. Of a column of -1 and +1 without a band, and without scaling "
                f"constants beside it, as many rados have epsilon {rounded_up_text(epsilon_at(plain, self.delta), 4)} "
                "at the same delta. This mechanism reproduces the paper; it is not for protecting anybody.",
                f"That the column {name} holds two values is in the release.{coding}",
                "No other column is protected in any way, nor the number of examples, nor the label.",
                *(f"Of every column but {name}: {sentence}" for sentence in disclosures_of_scale(circumstances.scale)),
                *COMMON,
                *(
                    [f"Of the column {name}, the schema has nothing from the table."]
                    * (circumstances.schema in ("table", "settled"))
                ),
            ),
            adversary=f"Anyone who sees the column {name} of the rados and no other, knows everything else",
            secrets=self.secrets,
        )

    @classmethod
    def account(cls, question: Question) -> tuple[Event, dict[str, Any]]:
        """What the marginal costs over all rados, with the band and without one."""
        question.refuse_columns(cls.name)
        n_examples, n_rados = question.n_examples, question.n_rados
        if question.epsilon is None or n_examples is None:
            raise ArgumentError("feature-band needs the epsilon of one rado, and the number of examples (--rows)")
        n_examples = whole_number(n_examples, "the number of examples")
        epsilon, delta = check_epsilon_and_delta(question.epsilon, question.delta)
        low, high = band(n_examples, epsilon)
        one = TruncatedBinomialShift(n_examples, low, high)
        plain = TruncatedBinomialShift(n_examples, 0, n_examples)
        return Repeated(one, n_rados), {
            "n_rados": n_rados,
            "n_examples": n_examples,
            "band": [low, high],
            "one_rado": {"epsilon": epsilon, "delta": delta_at(one, epsilon)},
            "plain_one_rado": {"epsilon": epsilon, "delta": delta_at(plain, epsilon)},
            "plain_epsilon": epsilon_as_json(epsilon_at(Repeated(plain, n_rados), delta)),
            "least_epsilon": least_band_epsilon(n_examples, n_rados, delta),
        }

    def event(self, n_examples: int, n_rados: int) -> Repeated:
        """What is done to the column's marginal."""
        return self._event(n_examples, n_rados, *band(n_examples, self.epsilon))

    def _event(self, n_examples: int, n_rados: int, low: int, high: int) -> Repeated:
        variation = signature_size_law_error(n_examples)
        return Repeated(TruncatedBinomialShift(n_examples, low, high, variation, self.feature), n_rados)
