"""Audits: attack a mechanism as an adversary would, and say what epsilon the attack proves.

A canary makes two neighbouring tables as different as they can be, and a score tells them apart. Many runs of each
table give a rate of false alarms and a rate of hits, with Clopper-Pearson bounds at a stated confidence. A mechanism of
the same kind with too much noise could not have given such rates; the most noise that could gives the least epsilon
that is proved. An honest mechanism claims more than that; a faulty one does not.

What is run is the mechanism's own `make`, as crafting runs it, on tables that hold the canary and on their neighbours.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import DEGREES
from radoboost.holder.mechanisms import Mechanism
from radoboost.holder.mechanisms.moments.feature_plan import AUTO
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA
from radoboost.holder.rooms.roster import check_number_of_holders
from radoboost.lab.audits.canaries import Runs, Scenario, noisy_rows_runs, noisy_sums_runs
from radoboost.lab.audits.exact_audit import REPLAYS, ExactAudit, exact_audit_of_feature_band
from radoboost.lab.audits.moments_audit import moments_canary_runs
from radoboost.privacy import Event, epsilon_at, trade_off
from radoboost.progress import no_progress, show_progress
from radoboost.release.release import epsilon_as_json, rounded_up_text
from radoboost.release.statement_text import epsilon_text
from radoboost.tables.person_ids import Person

# ---- Rates that were counted in runs of an attack, with bounds that hold at a stated confidence.

CONFIDENCE = 1 - 1e-6
CHOOSING = 0.25  # the share of the runs that chooses a threshold; the rest are counted
LEAST_RUNS = 1000


def upper_rate_bound(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson upper bound on a rate that came up `count` times: wrong with probability `risk` at most."""
    from scipy.stats import beta

    return 1.0 if count == runs else float(beta.ppf(1 - risk, count + 1, runs - count))


def lower_rate_bound(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson lower bound on such a rate."""
    from scipy.stats import beta

    return 0.0 if count == 0 else float(beta.ppf(risk, count, runs - count + 1))


@dataclass(frozen=True)
class Audit:
    """What a mechanism claims, and what the attack shows, at the same delta and relation.

    `found` is the least epsilon of any mechanism of the claimed kind, whatever its noise, that could have been attacked
    so well: it shows too little noise. `found_without_model` follows from the rates alone, for any mechanism.
    """

    mechanism: str
    neighbours: str
    delta: float
    claim: float
    found: float
    runs: int
    score: str
    confidence: float
    found_without_model: float

    @property
    def holds(self) -> bool:
        return self.found <= self.claim

    def to_dict(self) -> dict[str, Any]:
        fields = {**self.__dict__, "claim": epsilon_as_json(self.claim), "found": epsilon_as_json(self.found)}
        return {**fields, "holds": self.holds}

    def text(self) -> str:
        share = f", {100 * self.found / self.claim:.0f} % of it" if 0 < self.claim < math.inf else ""
        shown = f"at least {math.floor(1e4 * self.found) / 1e4:g}{share}, by {self.runs:,} runs of either table"
        return "\n".join(
            [
                f"mechanism    {self.mechanism}",
                f"neighbours   {self.neighbours}",
                f"claimed      epsilon {epsilon_text(self.claim)} at delta {rounded_up_text(self.delta, 6)}",
                f"shown        {shown}, if it is this kind of mechanism with whatever noise",
                f"any kind     at least {math.floor(1e4 * self.found_without_model) / 1e4:g}",
                f"attack       {self.score}, at confidence {self.confidence:.7g}",
            ]
        )


def audit(
    mechanism: Mechanism, *, runs: int | None = None, exact: bool = False, progress: bool = False, **settings: Any
) -> Audit | ExactAudit:
    """Attack a mechanism with a canary that suits it, in a `Scenario` of these settings.

    An `exact` audit has no statistics: it replays the mechanism on pairs of made-up tables, and says how far the worst
    pair is apart (`exact_audits`). Only exact audits are about persons and rooms.

    By default there are enough `runs` to show more than half of the claimed epsilon, unless that is small.
    """
    attacks: Mapping[str, Callable[..., Audit | ExactAudit]] = REPLAYS
    if exact:
        if runs is not None:
            raise ArgumentError("an exact audit has no runs to count; leave runs out")
    else:
        attacks = {**dict.fromkeys(CANARY_RUNS, audit_by_runs), "banded sums": exact_audit_of_feature_band}
        runs = _enough_audit_runs(getattr(mechanism, "epsilon", None)) if runs is None else runs
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
            raise ArgumentError(f"an audit needs at least {LEAST_RUNS} runs; runs is {runs!r}")
        settings["runs"] = runs
    attack = attacks.get(mechanism.law)
    if attack is None:
        raise ArgumentError(f"{mechanism.name} promises nothing, so there is nothing to audit")
    scenario = Scenario(**settings)
    _check_audit(mechanism, scenario, exact)
    with show_progress("runs") if progress else no_progress() as bar:
        return attack(mechanism, replace(scenario, bar=bar))


def _check_audit(mechanism: Mechanism, scenario: Scenario, exact: bool) -> None:
    moments = mechanism.law == "noisy moments"
    if not exact and (scenario.max_rows is not None or scenario.room is not None):
        raise ArgumentError("persons and rooms are for exact audits: give exact=True (--exact), or leave them out")
    if not moments and (scenario.private_bounds or scenario.room or scenario.n_classes != 2):
        raise ArgumentError(f"private bounds, rooms and classes are for moments, not {mechanism.name}; leave them out")
    if scenario.columns != AUTO:
        if not moments:
            raise ArgumentError(
                f"only moments makes columns of others by a plan, not {mechanism.name}; leave columns out"
            )
        words = (AUTO, "linear", *DEGREES)
        if scenario.columns not in words:
            raise ArgumentError(f"an audit of columns is of one of {', '.join(words)}; it is {scenario.columns!r}")
    if scenario.raw and (scenario.private_bounds or "feature" in getattr(mechanism, "__dataclass_fields__", {})):
        raise ArgumentError("a raw table is for declared bounds and mechanisms of whole rows; leave raw out")
    if scenario.max_rows is not None:
        Person("person", scenario.max_rows)  # refuses what is no number of rows
        if scenario.raw or not mechanism.private:
            raise ArgumentError(
                "rows of a person are for tables of numbers and mechanisms of whole rows; leave one out"
            )
    if scenario.room is not None:
        check_number_of_holders(*scenario.room)


def _enough_audit_runs(epsilon: float | None) -> int:
    return int(min(200_000, max(4000, 50_000 / (epsilon or 1.0) ** 1.7)))


CANARY_RUNS: dict[str, Callable[[Any, Scenario], Runs]] = {
    "noisy sums": noisy_sums_runs, "sums of noisy rows": noisy_rows_runs, "noisy moments": moments_canary_runs,
}  # fmt: skip


# ---- from runs to an epsilon


def audit_by_runs(mechanism: Any, scenario: Scenario) -> Audit:
    """What the scores of runs with and without a canary prove, beside what the mechanism claims."""
    runs = CANARY_RUNS[mechanism.law](mechanism, scenario)
    delta: float = getattr(mechanism, "delta", DEFAULT_DELTA)
    relation = runs.event.relation
    assert relation is not None
    rates = _bounds_of_error_rates(runs, (1 - CONFIDENCE) / 2)
    return Audit(
        mechanism.name, relation.value, delta, epsilon_at(runs.event, delta),
        least_epsilon_of_rates(runs.family, rates, delta), len(runs.present), "likelihood ratio", CONFIDENCE,
        _epsilon_of_error_rates(rates, delta),
    )  # fmt: skip


def _bounds_of_error_rates(runs: Runs, risk: float) -> tuple[float, float]:
    """An upper bound on the rate of false alarms and a lower one on that of hits, each wrong with probability `risk`.

    Where no threshold is given, it is chosen on some of the runs, and the rates are counted on the others.
    """
    from scipy.special import ndtri

    hits, alarms = runs.present, runs.absent
    if runs.threshold is not None:
        counts = [int((scores > runs.threshold).sum()) for scores in (alarms, hits)]
        return upper_rate_bound(counts[0], len(alarms), risk), lower_rate_bound(counts[1], len(hits), risk)
    cut = int(CHOOSING * len(hits))
    n = len(hits) - cut
    thresholds = np.quantile(np.concatenate([hits[:cut], alarms[:cut]]), np.linspace(0.02, 0.999, 300))
    hit = np.array([(hits[:cut] > threshold).mean() for threshold in thresholds])
    alarm = np.array([(alarms[:cut] > threshold).mean() for threshold in thresholds])
    # About what the bounds will be, as the distance of two normal deviates that have such rates.
    some, reach = 1 / (cut + 2), -ndtri(risk) / math.sqrt(n)
    hit, alarm = np.clip(hit, 20 * some, 1 - 20 * some), np.clip(alarm, 20 * some, 1 - 20 * some)
    surely_hit = np.clip(hit - reach * np.sqrt(hit * (1 - hit)), some, 1 - some)
    perhaps_alarm = np.clip(alarm + reach * np.sqrt(alarm * (1 - alarm)), some, 1 - some)
    threshold = thresholds[int(np.argmax(ndtri(surely_hit) - ndtri(perhaps_alarm)))]
    false_alarms, true_hits = int((alarms[cut:] > threshold).sum()), int((hits[cut:] > threshold).sum())
    return upper_rate_bound(false_alarms, n, risk), lower_rate_bound(true_hits, n, risk)


def _epsilon_of_error_rates(rates: tuple[float, float], delta: float) -> float:
    """The epsilon that rates of false alarms and hits prove of any mechanism."""
    alarms, hits = rates
    return max(0.0, math.log((hits - delta) / alarms)) if hits > delta else 0.0


def least_epsilon_of_rates(family: Callable[[float], Event], rates: tuple[float, float], delta: float) -> float:
    """The epsilon of the family's member with the most noise that could have such rates."""
    alarms, hits = rates
    if hits <= alarms:
        return 0.0

    def possible(multiplier: float) -> bool:
        return bool(trade_off(family(multiplier), [alarms])[0] <= 1 - hits)

    low, high = 0.06, 1.0
    if not possible(low):
        return math.inf
    while possible(high):
        if high > 1e6:
            return 0.0
        low, high = high, 4 * high
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if possible(middle) else (low, middle)
    # The accountant rounds up; what is proved must be rounded down.
    return (1 - 1e-3) * epsilon_at(family(high), delta)
