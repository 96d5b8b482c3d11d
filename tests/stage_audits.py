"""The attack on `moments`, stage by stage."""

from radoboost.lab.audits.audit import (
    CONFIDENCE,
    Audit,
    _bounds_of_error_rates,
    _epsilon_of_error_rates,
    least_epsilon_of_rates,
)
from radoboost.lab.audits.canaries import Scenario
from radoboost.lab.audits.moments_audit import moments_canary_runs
from radoboost.privacy import epsilon_at


def audit_stages(mechanism, *, runs, **options):
    """Attack every stage of `moments` on its own, and hold what that shows against the stage's own part of the claim.

    So a fault of one stage, which has a small part of the budget, is found in far fewer runs. The confidence is that of
    all stages together.
    """
    scores = moments_canary_runs(mechanism, Scenario(runs=runs, **options))
    risk = (1 - CONFIDENCE) / (2 * len(scores.by_stage))
    audits = {}
    for name, event in scores.by_stage.items():
        rates = _bounds_of_error_rates(scores.present[name], scores.absent[name], risk, 0.0)
        found = least_epsilon_of_rates(scores.family, rates, mechanism.delta)
        about = (mechanism.name, event.relation.value, mechanism.delta, epsilon_at(event, mechanism.delta), found)
        audits[name] = Audit(
            *about, len(scores.present[name]), name, CONFIDENCE, _epsilon_of_error_rates(rates, mechanism.delta)
        )
    return audits
