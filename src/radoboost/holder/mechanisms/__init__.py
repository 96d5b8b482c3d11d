"""The mechanisms, which protect a release: one file for each.

A mechanism is a frozen description that makes its own release. It says whether it promises something about records
(`private`), what kind of numbers it releases (`law`), and what its statement may claim.

- `mechanism`: Mechanism, StatementFacts, ReleaseDraft, NoisePlan: what `craft` expects
- `plain`: Plain, exact sums without a promise; what its statement discloses of scale, of sharing
- `feature_band`: FeatureBand, DP-Feat for one binary column
- `noisy_rados`: NoisyRados, noise on each rado; noise scale, epsilon or noise
- `noisy_examples`: NoisyExamples, noise on every edge vector
- `record_level`: rules for promises about records: clip rows, declared columns, persons, SumContributions
- `table_survey`: passes of mechanisms that may look at the table: survey_table, sums after it, shared columns,
  unchanged
- `statements`: make_statement, its sentences on units of privacy, trust, rooms, CSV records, cluster keys
- `moments/`: the mechanism Moments: stages, budget, plan
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
