"""What was done (events), what it costs (accountants), what noise it takes (calibrate), what a total allows (filter).

The books that a holder keeps are in `ledger`, which is imported where it is needed.
"""

from radoboost.privacy.accountants import accountant_name, best_guess, delta_at, epsilon_at, trade_off
from radoboost.privacy.calibrate import band, gaussian_multiplier, least_band_epsilon, subsampled_multiplier
from radoboost.privacy.events import (
    Composed,
    Event,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    converted,
    flatten,
)
from radoboost.privacy.events import from_dict as event_from_dict
from radoboost.privacy.events import to_dict as event_to_dict
from radoboost.privacy.filter import Cost, Filter

__all__ = [
    "Composed",
    "Cost",
    "Event",
    "Filter",
    "Gaussian",
    "NotPrivate",
    "Relation",
    "Repeated",
    "SubsampledGaussian",
    "TruncatedBinomialShift",
    "accountant_name",
    "band",
    "best_guess",
    "converted",
    "delta_at",
    "epsilon_at",
    "event_from_dict",
    "event_to_dict",
    "flatten",
    "gaussian_multiplier",
    "least_band_epsilon",
    "subsampled_multiplier",
    "trade_off",
]
