"""The mechanisms, which protect a release: one file for each.

A mechanism is a frozen description that makes its own release. It says whether it promises something about records
(`private`), what kind of numbers it releases (`law`), and what its statement may claim.

Modules: `feature_band`, `mechanism`, `moments/`, `noisy_examples`, `noisy_rados`, `plain`, `record_level`,
`statements`, `table_survey`.
"""

from radoboost.holder.mechanisms.feature_band import FeatureBand
from radoboost.holder.mechanisms.mechanism import Mechanism, NoisePlan, Question, ReleaseDraft, StatementFacts
from radoboost.holder.mechanisms.moments.moments import Moments
from radoboost.holder.mechanisms.noisy_examples import NoisyExamples
from radoboost.holder.mechanisms.noisy_rados import NoisyRados
from radoboost.holder.mechanisms.plain import Plain

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism for mechanism in (Plain, FeatureBand, Moments, NoisyExamples, NoisyRados)
}

__all__ = [
    "MECHANISMS",
    "FeatureBand",
    "Mechanism",
    "Moments",
    "NoisePlan",
    "NoisyExamples",
    "NoisyRados",
    "Plain",
    "Question",
    "ReleaseDraft",
    "StatementFacts",
]
