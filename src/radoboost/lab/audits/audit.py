"""Audits: attack a mechanism as an adversary would, and say what epsilon the attack proves.

A canary makes two neighbouring tables as different as they can be, and a score tells them apart. Many runs of each
table give a rate of false alarms and a rate of hits, with Clopper-Pearson bounds at a stated confidence. A mechanism of
the same kind with too much noise could not have given such rates; the most noise that could gives the least epsilon
that is proved. An honest mechanism claims more than that; a faulty one does not.

What is run is the mechanism's own `make`, as crafting runs it, on tables that hold the canary and on their neighbours.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.feature_maps import DEGREES
from radoboost.holder.mechanisms import FeatureBand, Mechanism, Moments, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.moments.feature_plan import AUTO
from radoboost.holder.mechanisms.record_level import check_person
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA
from radoboost.holder.rooms.roster import check_numbers
from radoboost.holder.signatures import size_weights
from radoboost.lab.audits.canaries import Runs, moments_runs, noisy_rows_runs, noisy_sums_runs
from radoboost.privacy import Event, band, epsilon_at, trade_off
from radoboost.progress import Progress, no_progress, show_progress, silent
from radoboost.release.release import finite_or_word

if TYPE_CHECKING:
    from radoboost.lab.audits.exact_audit import ExactAudit


# ---- Rates that were counted in runs of an attack, with bounds that hold at a stated confidence.

CONFIDENCE = 1 - 1e-6
CHOOSING = 0.25  # the share of the runs that chooses a threshold; the rest are counted
LEAST_RUNS = 1000


def rate_above(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson upper bound on a rate that came up `count` times: wrong with probability `risk` at most."""
    from scipy.stats import beta

    return 1.0 if count == runs else float(beta.ppf(1 - risk, count + 1, runs - count))


def rate_below(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson lower bound on such a rate."""
    from scipy.stats import beta

    return 0.0 if count == 0 else float(beta.ppf(risk, count, runs - count + 1))


# ----


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
        """Whether the attack proves no more than is claimed."""
        return self.found <= self.claim

    def to_dict(self) -> dict[str, Any]:
        fields = {**self.__dict__, "claim": finite_or_word(self.claim), "found": finite_or_word(self.found)}
        return {**fields, "holds": self.holds}


def audit(
    mechanism: Mechanism,
    *,
    n_rados: int = 100,
    n_examples: int = 1000,
    max_rows: int | None = None,
    runs: int | None = None,
    key: bytes | None = None,
    private_bounds: bool = False,
    raw: bool = False,
    columns: str = "auto",
    n_classes: int = 2,
    room: tuple[int, int] | None = None,
    exact: bool = False,
    progress: bool = False,
) -> "Audit | ExactAudit":
    """Attack a mechanism with a canary that suits it; `key` makes the attack repeatable.

    An `exact` audit has no statistics: it replays the mechanism on pairs of made-up tables, and says how far the worst
    pair is apart (`exact_audits`). Only exact audits are about persons, of whom `max_rows` rows contribute at most, and
    about a `room` of so many holders, of whom so many may be lost or collude.

    With `private_bounds` the mechanism `moments` has to find bounds itself, and that is attacked as well. A `raw`
    canary is a row with a category and a gap, which a schema reads: so what it makes of cells is attacked as well.
    `columns` is the word for the columns that a release of `moments` has, as in `craft`. Tables may have more than two
    classes, `n_classes`.

    By default there are enough `runs` to show more than half of the claimed epsilon, unless that is small.
    """
    if exact:
        return _replayed(
            mechanism, runs, n_rados=n_rados, n_examples=n_examples, max_rows=max_rows, key=key, raw=raw,
            private_bounds=private_bounds, columns=columns, n_classes=n_classes, room=room,
            progress=progress,
        )  # fmt: skip
    if max_rows is not None or room is not None:
        raise ArgumentError("persons and rooms are for exact audits: give exact=True (--exact), or leave them out")
    if runs is None:
        runs = _enough_runs(getattr(mechanism, "epsilon", None))
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise ArgumentError(f"an audit needs at least {LEAST_RUNS} runs; runs is {runs!r}")
    attack = _AUDITS.get(mechanism.law)
    if attack is None:
        raise ArgumentError(f"{mechanism.name} promises nothing, so there is nothing to audit")
    options: dict[str, Any] = {"n_rados": n_rados, "n_examples": n_examples, "runs": runs, "key": key}
    if private_bounds:
        if not hasattr(mechanism, "bounds_share"):
            raise ArgumentError(f"{mechanism.name} does not find bounds privately; leave that out")
        options["private_bounds"] = True
    if raw and (private_bounds or "feature" in getattr(mechanism, "__dataclass_fields__", {})):
        raise ArgumentError("a raw canary is for declared bounds, a record and mechanisms of whole rows; leave raw out")
    if raw:
        options["raw"] = True
    if columns != "auto":
        _check_columns(mechanism, columns)
        options["columns"] = columns
    if n_classes != 2:
        if mechanism.law != "noisy moments":
            raise ArgumentError(f"{mechanism.name} is not attacked with more than two classes; leave n_classes out")
        options["n_classes"] = n_classes
    with show_progress("runs") if progress else no_progress() as bar:
        return attack(mechanism, **options, bar=bar)


def _replayed(mechanism: Mechanism, runs: int | None, *, progress: bool, **options: Any) -> "ExactAudit":
    """An exact audit of a mechanism, refusing what it has no use for."""
    from radoboost.lab.audits.exact_audit import REPLAYS

    replay = REPLAYS.get(mechanism.law)
    if replay is None:
        raise ArgumentError(f"{mechanism.name} promises nothing, so there is nothing to audit")
    if runs is not None:
        raise ArgumentError("an exact audit has no runs to count; leave runs out")
    moments = mechanism.law == "noisy moments"
    words = {name: options[name] for name in ("private_bounds", "room") if options[name]}
    if options["columns"] != AUTO:
        _check_columns(mechanism, options["columns"])
    if not moments and (words or options["n_classes"] != 2):
        raise ArgumentError(f"private bounds, rooms and classes are for moments, not {mechanism.name}; leave them out")
    if options["max_rows"] is not None:
        check_person("person", options["max_rows"])
        if options["raw"] or not mechanism.private:
            raise ArgumentError(
                "rows of a person are for tables of numbers and mechanisms of whole rows; leave one out"
            )
    if options["raw"] and options["private_bounds"]:
        raise ArgumentError("a schema declares bounds; leave raw out, or private bounds")
    if options["room"] is not None:
        check_numbers(*options["room"])
    with show_progress("runs") if progress else no_progress() as bar:
        return replay(mechanism, bar=bar, **options)


def _check_columns(mechanism: Mechanism, columns: str) -> None:
    """Refuse columns that follow from no plan."""
    if mechanism.law != "noisy moments":
        raise ArgumentError(f"only moments makes columns of others by a plan, not {mechanism.name}; leave columns out")
    if columns not in (AUTO, "linear", *DEGREES):
        raise ArgumentError(
            f"an audit of columns is of one of {', '.join((AUTO, 'linear', *DEGREES))}; it is {columns!r}"
        )


def _enough_runs(epsilon: float | None) -> int:
    return int(min(200_000, max(4000, 50_000 / (epsilon or 1.0) ** 1.7)))


def audit_noisy_rados(
    mechanism: NoisyRados,
    *,
    n_rados: int = 100,
    runs: int = 40_000,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    raw: bool = False,
    **others: Any,
) -> Audit:
    """Attack `noisy-rados`: tell a table of the canary alone from an empty one.

    `run` lets tests audit faulty noise.
    """
    return _audit(mechanism, noisy_sums_runs(mechanism, n_rados=n_rados, runs=runs, key=key, run=run, bar=bar, raw=raw))


def audit_noisy_examples(
    mechanism: NoisyExamples,
    *,
    runs: int = 40_000,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    raw: bool = False,
    **others: Any,
) -> Audit:
    """Attack the noisy edge vectors of `noisy-examples`: tell the canary from its opposite, beside a known row."""
    if mechanism.clip is None:
        raise ArgumentError("noise without a clipping norm promises nothing, so there is nothing to audit")
    return _audit(mechanism, noisy_rows_runs(mechanism, runs=runs, key=key, run=run, bar=bar, raw=raw))


def audit_moments(
    mechanism: Moments,
    *,
    runs: int = 40_000,
    key: bytes | None = None,
    run: type[Curator] = Curator,
    bar: Progress = silent,
    private_bounds: bool = False,
    raw: bool = False,
    columns: str = "auto",
    n_classes: int = 2,
    **unused: Any,
) -> Audit:
    """Attack `moments`: tell releases with the canary from those without, or with its label from the other one.

    `run` lets tests audit faulty noise. A run takes some milliseconds, or with many `columns` some tens.
    """
    scores = moments_runs(
        mechanism, runs=runs, key=key, run=run, bar=bar, private_bounds=private_bounds, raw=raw, columns=columns,
        n_classes=n_classes,
    )  # fmt: skip
    return _audit(mechanism, scores)


def audit_feature_band(
    mechanism: FeatureBand, *, n_examples: int = 1000, limits: tuple[int, int] | None = None, **others: Any
) -> Audit:
    """Attack the marginal of one rado of `feature-band`, exactly: from the weights by which sizes are drawn.

    There is nothing to sample: the law of the column's value follows from tables of integers. `limits`, those of the
    band, let tests audit faulty ones.
    """
    low, high = band(n_examples, mechanism.epsilon) if limits is None else limits
    law = size_law(n_examples, low, high)
    epsilon = max(_exact_epsilon(law, shift, mechanism.delta) for shift in (1, -1))
    event = mechanism.event(n_examples, 1)
    relation = event.relation
    assert relation is not None
    claim = epsilon_at(event, mechanism.delta)
    return Audit(
        mechanism.name, relation.value, mechanism.delta, claim, epsilon, 0, "exact law of one rado", 1.0, epsilon
    )


_AUDITS: dict[str, Callable[..., Audit]] = {
    "noisy sums": audit_noisy_rados,
    "sums of noisy rows": audit_noisy_examples,
    "noisy moments": audit_moments,
    "banded sums": audit_feature_band,
}


def size_law(n_examples: int, low: int, high: int) -> dict[int, Fraction]:
    """The law of K as it is drawn: a start within the band stays, any other goes by the table of weights."""
    first, sums = size_weights(n_examples, low, high)
    fair = {k: Fraction(math.comb(n_examples, k), 2**n_examples) for k in range(low, high + 1)}
    outside = 1 - sum(fair.values())
    for k, (before, after) in enumerate(itertools.pairwise([0, *sums])):
        fair[first + k] += outside * Fraction(after - before, sums[-1])
    return fair


def exact_delta(law: dict[int, Fraction], shift: int, epsilon: float) -> Fraction:
    """The exact delta at epsilon between a law on integers and itself moved by `shift`."""
    growth = Fraction(math.exp(epsilon))
    return sum((max(Fraction(0), p - growth * law.get(k - shift, Fraction(0))) for k, p in law.items()), Fraction(0))


def _exact_epsilon(law: dict[int, Fraction], shift: int, delta: float) -> float:
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


def _audit(mechanism: Mechanism, runs: Runs) -> Audit:
    """What the scores of runs prove, by the score that proves most, beside what the mechanism claims."""
    delta: float = getattr(mechanism, "delta", DEFAULT_DELTA)
    relation = runs.event.relation
    assert relation is not None
    proved, without_model, best = 0.0, 0.0, next(iter(runs.present))
    for number, (name, present) in enumerate(runs.present.items()):
        # Half of the risk is the first score's, which shows most of an honest mechanism.
        risk = (1 - CONFIDENCE) / 4 / (1 if number == 0 else len(runs.present) - 1)
        alarms, hits = _rates(present, runs.absent[name], risk, runs.threshold if number == 0 else None)
        epsilon = least_epsilon(runs.family, (alarms, hits), delta)
        if epsilon > proved:
            proved, best = epsilon, name
        without_model = max(without_model, _without_model((alarms, hits), delta))
    claim, n_runs = epsilon_at(runs.event, delta), len(runs.ratios[0])
    return Audit(mechanism.name, relation.value, delta, claim, proved, n_runs, best, CONFIDENCE, without_model)


def _rates(
    hits: NDArray[np.float64], alarms: NDArray[np.float64], risk: float, threshold: float | None
) -> tuple[float, float]:
    """An upper bound on the rate of false alarms and a lower one on that of hits, each wrong with probability `risk`.

    Where no threshold is given, it is chosen on some of the runs, and the rates are counted on the others.
    """
    from scipy.special import ndtri

    if threshold is not None:
        counts = [int((scores > threshold).sum()) for scores in (alarms, hits)]
        return rate_above(counts[0], len(alarms), risk), rate_below(counts[1], len(hits), risk)
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
    return rate_above(false_alarms, n, risk), rate_below(true_hits, n, risk)


def _without_model(rates: tuple[float, float], delta: float) -> float:
    """The epsilon that rates of false alarms and hits prove of any mechanism."""
    alarms, hits = rates
    return max(0.0, math.log((hits - delta) / alarms)) if hits > delta else 0.0


def least_epsilon(family: Callable[[float], Event], rates: tuple[float, float], delta: float) -> float:
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
