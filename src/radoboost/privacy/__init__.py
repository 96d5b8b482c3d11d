"""What was done, what it costs, and how much noise a promise needs: events, then accountants, then calibrate."""

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
from radoboost.privacy.groups import group_epsilon, group_event, group_words

__all__ = [
    "Composed",
    "Event",
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
    "group_epsilon",
    "group_event",
    "group_words",
    "least_band_epsilon",
    "subsampled_multiplier",
    "trade_off",
]
