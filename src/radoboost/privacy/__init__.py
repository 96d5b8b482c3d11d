"""What was done (events), what it costs (accountants), what noise it takes, and what a total allows.

It knows nothing of tables. The ledger is imported where it is needed.

Modules: `accountants`, `budget_filter`, `calibration`, `conversions`, `events`, `ledger`, `spending`.
"""

from radoboost.privacy.accountants import (
    accountant_name,
    best_guess,
    delta_at,
    epsilon_at,
    gaussian_distance,
    trade_off,
)
from radoboost.privacy.budget_filter import Cost, Filter
from radoboost.privacy.calibration import band, gaussian_multiplier, least_band_epsilon, subsampled_multiplier
from radoboost.privacy.conversions import (
    delta_advice,
    dp_accounting_text,
    figures,
    group_epsilon,
    group_event,
    group_figure,
    group_words,
    to_dp_accounting,
)
from radoboost.privacy.events import (
    Composed,
    Event,
    Gaussian,
    NotPrivate,
    Relation,
    Repeated,
    SubsampledGaussian,
    TruncatedBinomialShift,
    convert_relation,
    flatten,
)
from radoboost.privacy.events import from_dict as event_from_dict
from radoboost.privacy.events import to_dict as event_to_dict

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
    "convert_relation",
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
