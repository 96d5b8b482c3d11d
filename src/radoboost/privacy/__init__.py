"""What was done (events), what it costs (accountants), what noise it takes, and what a total allows.

It knows nothing of tables. The ledger is imported where it is needed.

- `events`: Event and Relation as frozen data: Gaussian, SubsampledGaussian, Composed; fields checked, labels and
  persons of events, convert_relation, to_dict
- `accountants`: epsilon_at, delta_at, best_guess, trade_off: privacy curves, losses convolved on a grid, mixtures,
  Gaussians
- `calibration`: the inverse: gaussian_multiplier, subsampled_multiplier, band; noise shares of several holders,
  colluders
- `conversions`: groups of records, figures, dp-accounting events and code, advice on delta
- `budget_filter`: Filter, Cost, what an event costs of a total
- `ledger`: Ledger and Entry, the SQLite books of a table: totals, relations by short names, bookings, headers and
  journals
- `spending`: Account, what a failure leaves spent
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
