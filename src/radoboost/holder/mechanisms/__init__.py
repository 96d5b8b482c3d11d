"""What is done to rados before they leave, one file a mechanism.

A mechanism is a frozen description. It says whether it promises something about records (`private`), how columns are
scaled unless the holder says otherwise, and what its statement may claim.
"""

from radoboost.holder.mechanisms.contract import Circumstances, Mechanism, Plan, PrivateMechanism
from radoboost.holder.mechanisms.feature_band import FeatureBand
from radoboost.holder.mechanisms.moments import Moments
from radoboost.holder.mechanisms.noisy_examples import NoisyExamples
from radoboost.holder.mechanisms.noisy_rados import NoisyRados
from radoboost.holder.mechanisms.plain import Plain

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism for mechanism in (Plain, FeatureBand, Moments, NoisyExamples, NoisyRados)
}

__all__ = [
    "MECHANISMS",
    "Circumstances",
    "FeatureBand",
    "Mechanism",
    "Moments",
    "NoisyExamples",
    "NoisyRados",
    "Plain",
    "Plan",
    "PrivateMechanism",
]
