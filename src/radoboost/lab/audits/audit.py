"""Audits: attack a mechanism as an adversary would, and say what epsilon the attack proves.

A canary makes two neighbouring tables as different as they can be, and a score tells them apart. Many runs of each
table give a rate of false alarms and a rate of hits, with Clopper-Pearson bounds at a stated confidence. A mechanism of
the same kind with too much noise could not have given such rates; the most noise that could gives the least epsilon
that is proved. An honest mechanism claims more than that; a faulty one does not.

What is run is the mechanism's own `make`, as crafting runs it, on tables that hold the canary and on their neighbours.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.feature_maps import DEGREES
from radoboost.holder.mechanisms import FeatureBand, Mechanism, Moments, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.moments.feature_plan import AUTO
from radoboost.holder.mechanisms.record_level import check_max_rows
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA
from radoboost.holder.rooms.roster import check_number_of_holders
from radoboost.holder.signatures import signature_size_weights
from radoboost.lab.audits.canaries import Runs, Scenario, noisy_rows_runs, noisy_sums_runs
from radoboost.lab.audits.moments_audit import moments_canary_runs
from radoboost.privacy import Event, band, epsilon_at, trade_off
from radoboost.progress import no_progress, show_progress
from radoboost.release.release import epsilon_as_json, rounded_up_text
from radoboost.release.statement_text import epsilon_text

if TYPE_CHECKING:
    from radoboost.lab.audits.exact_audit import ExactAudit


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
        how = "by its exact law" if not self.runs else f"by {self.runs:,} runs of either table"
        share = f", {100 * self.found / self.claim:.0f} % of it" if 0 < self.claim < math.inf else ""
        kind = "" if not self.runs else ", if it is this kind of mechanism with whatever noise"
        return "\n".join(
            [
                f"mechanism    {self.mechanism}",
                f"neighbours   {self.neighbours}",
                f"claimed      epsilon {epsilon_text(self.claim)} at delta {rounded_up_text(self.delta, 6)}",
                f"shown        at least {math.floor(1e4 * self.found) / 1e4:g}{share}, {how}{kind}",
                f"any kind     at least {math.floor(1e4 * self.found_without_model) / 1e4:g}",
                f"attack       {self.score}, at confidence {self.confidence:.7g}",
            ]
        )


def audit(
    mechanism: Mechanism, *, runs: int | None = None, exact: bool = False, progress: bool = False, **settings: Any
) -> "Audit | ExactAudit":
    """Attack a mechanism with a canary that suits it, in a `Scenario` of these settings.

    An `exact` audit has no statistics: it replays the mechanism on pairs of made-up tables, and says how far the worst
    pair is apart (`exact_audits`). Only exact audits are about persons and rooms.

    By default there are enough `runs` to show more than half of the claimed epsilon, unless that is small.
    """
    if exact:
        from radoboost.lab.audits.exact_audit import REPLAYS

        attacks: Mapping[str, Callable[..., Audit | ExactAudit]] = REPLAYS
        if runs is not None:
            raise ArgumentError("an exact audit has no runs to count; leave runs out")
    else:
        attacks = _AUDITS
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
        check_max_rows("person", scenario.max_rows)
        if scenario.raw or not mechanism.private:
            raise ArgumentError(
                "rows of a person are for tables of numbers and mechanisms of whole rows; leave one out"
            )
    if scenario.room is not None:
        check_number_of_holders(*scenario.room)


def _enough_audit_runs(epsilon: float | None) -> int:
    return int(min(200_000, max(4000, 50_000 / (epsilon or 1.0) ** 1.7)))


def audit_noisy_rados(mechanism: NoisyRados, scenario: Scenario) -> Audit:
    """Attack `noisy-rados`: tell a table of the canary alone from an empty one."""
    return _audit_scores(mechanism, noisy_sums_runs(mechanism, scenario))


def audit_noisy_examples(mechanism: NoisyExamples, scenario: Scenario) -> Audit:
    """Attack the noisy edge vectors of `noisy-examples`: tell the canary from its opposite, beside a known row."""
    if mechanism.clip is None:
        raise ArgumentError("noise without a clipping norm promises nothing, so there is nothing to audit")
    return _audit_scores(mechanism, noisy_rows_runs(mechanism, scenario))


def audit_moments(mechanism: Moments, scenario: Scenario) -> Audit:
    """Attack `moments`: tell releases with the canary from those without, or with its label from the other one.

    A run takes some milliseconds, or with many columns some tens.
    """
    return _audit_scores(mechanism, moments_canary_runs(mechanism, scenario))


def audit_feature_band(mechanism: FeatureBand, scenario: Scenario, limits: tuple[int, int] | None = None) -> Audit:
    """Attack the marginal of one rado of `feature-band`, exactly: from the weights by which sizes are drawn.

    There is nothing to sample: the law of the column's value follows from tables of integers. `limits`, those of the
    band, let tests audit faulty ones.
    """
    n_examples = scenario.n_examples
    low, high = band(n_examples, mechanism.epsilon) if limits is None else limits
    law = exact_size_law(n_examples, low, high)
    epsilon = max(_exact_epsilon_of_shift(law, shift, mechanism.delta) for shift in (1, -1))
    event = mechanism.event(n_examples, 1)
    relation = event.relation
    assert relation is not None
    claim = epsilon_at(event, mechanism.delta)
    return Audit(
        mechanism.name, relation.value, mechanism.delta, claim, epsilon, 0, "exact law of one rado", 1.0, epsilon
    )


_AUDITS: dict[str, Callable[..., "Audit | ExactAudit"]] = {
    "noisy sums": audit_noisy_rados,
    "sums of noisy rows": audit_noisy_examples,
    "noisy moments": audit_moments,
    "banded sums": audit_feature_band,
}


def exact_size_law(n_examples: int, low: int, high: int) -> dict[int, Fraction]:
    """The law of K as it is drawn: a start within the band stays, any other goes by the table of weights."""
    first, sums = signature_size_weights(n_examples, low, high)
    fair = {k: Fraction(math.comb(n_examples, k), 2**n_examples) for k in range(low, high + 1)}
    outside = 1 - sum(fair.values())
    for k, (before, after) in enumerate(itertools.pairwise([0, *sums])):
        fair[first + k] += outside * Fraction(after - before, sums[-1])
    return fair


def shift_delta(law: dict[int, Fraction], shift: int, epsilon: float) -> Fraction:
    """The exact delta at epsilon between a law on integers and itself moved by `shift`."""
    growth = Fraction(math.exp(epsilon))
    return sum((max(Fraction(0), p - growth * law.get(k - shift, Fraction(0))) for k, p in law.items()), Fraction(0))


def _exact_epsilon_of_shift(law: dict[int, Fraction], shift: int, delta: float) -> float:
    """The least epsilon at delta between a law on integers and itself moved by `shift`, rounded down."""
    pairs = [(p, law.get(k - shift, Fraction(0))) for k, p in law.items()]
    if sum(p for p, q in pairs if q == 0) > Fraction(delta):
        return math.inf
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        growth = Fraction(math.exp(middle))
        if sum(max(Fraction(0), p - growth * q) for p, q in pairs) > Fraction(delta):
            low = middle
        else:
            high = middle
    return low


# ---- from runs to an epsilon


def _audit_scores(mechanism: Mechanism, runs: Runs) -> Audit:
    """What the scores of runs prove, by the score that proves most, beside what the mechanism claims."""
    delta: float = getattr(mechanism, "delta", DEFAULT_DELTA)
    relation = runs.event.relation
    assert relation is not None
    proved, without_model, best = 0.0, 0.0, next(iter(runs.present))
    for number, (name, present) in enumerate(runs.present.items()):
        # Half of the risk is the first score's, which shows most of an honest mechanism.
        risk = (1 - CONFIDENCE) / 4 / (1 if number == 0 else len(runs.present) - 1)
        alarms, hits = _bounds_of_error_rates(present, runs.absent[name], risk, runs.threshold if number == 0 else None)
        epsilon = least_epsilon_of_rates(runs.family, (alarms, hits), delta)
        if epsilon > proved:
            proved, best = epsilon, name
        without_model = max(without_model, _epsilon_of_error_rates((alarms, hits), delta))
    claim, n_runs = epsilon_at(runs.event, delta), len(runs.ratios[0])
    return Audit(mechanism.name, relation.value, delta, claim, proved, n_runs, best, CONFIDENCE, without_model)


def _bounds_of_error_rates(
    hits: NDArray[np.float64], alarms: NDArray[np.float64], risk: float, threshold: float | None
) -> tuple[float, float]:
    """An upper bound on the rate of false alarms and a lower one on that of hits, each wrong with probability `risk`.

    Where no threshold is given, it is chosen on some of the runs, and the rates are counted on the others.
    """
    from scipy.special import ndtri

    if threshold is not None:
        counts = [int((scores > threshold).sum()) for scores in (alarms, hits)]
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
