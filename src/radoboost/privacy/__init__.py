"""What was done (events), what it costs (accountants), what noise it takes (calibrate), what a total allows (filter).

The books that a holder keeps are in `ledger`, which is imported where it is needed.
"""

from radoboost.privacy.accountants import (
    accountant_name,
    best_guess,
    delta_at,
    epsilon_at,
    gaussian_distance,
    trade_off,
)
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
from radoboost.privacy.export import dp_accounting_text, to_dp_accounting
from radoboost.privacy.figures import delta_advice, figures, group_figure
from radoboost.privacy.filter import Cost, Filter
from radoboost.privacy.groups import group_epsilon, group_event, group_words

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
    "delta_advice",
    "delta_at",
    "dp_accounting_text",
    "epsilon_at",
    "event_from_dict",
    "event_to_dict",
    "figures",
    "flatten",
    "gaussian_distance",
    "gaussian_multiplier",
    "group_epsilon",
    "group_event",
    "group_figure",
    "group_words",
    "least_band_epsilon",
    "subsampled_multiplier",
    "to_dp_accounting",
    "trade_off",
]
