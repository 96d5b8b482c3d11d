"""Audits: mechanisms attacked as an adversary would, with what the attack proves about epsilon.

A canary makes two neighbouring tables as different as they can be, and a score tells them apart. From many runs of
either table come a rate of false alarms and a rate of hits, with Clopper-Pearson bounds at a stated confidence. Among
all mechanisms of the same kind with more or less noise, those with too much noise could not have given such rates; the
most that could gives the least epsilon that is proved. An honest mechanism's claim is above that; a faulty one's is
not.

What is run are the parts that crafting is made of: the contribution of the canary's row, the signatures, the sampler of
noise, the plan that sets its scale; of `moments` all stages, one after the other. That crafting puts the parts together
rightly is not what an audit shows; tests of whole releases do.
"""

import hashlib
import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.columns import Column
from radoboost.errors import ArgumentError
from radoboost.mechanisms import FeatureBand, Mechanism, Moments, NoisyExamples, NoisyRados, PrivateMechanism
from radoboost.mechanisms.claims import DEFAULT_DELTA
from radoboost.mechanisms.contributions import LARGEST, contributions
from radoboost.mechanisms.noisy_rados import INCLUSION
from radoboost.moments_audit import STATISTICS, attack_moments
from radoboost.moments_crafting import Stages
from radoboost.noise import rounded_normals
from radoboost.privacy import (
    Event,
    Gaussian,
    Relation,
    Repeated,
    SubsampledGaussian,
    band,
    epsilon_at,
    trade_off,
)
from radoboost.progress import Progress, no_progress, show_progress, silent
from radoboost.release import finite_or_word
from radoboost.signatures import AllSignatures, size_weights

CONFIDENCE = 1 - 1e-6
CHOOSING = 0.25  # of the runs, to choose a threshold by; the rest are what is counted
LEAST_RUNS = 1000
_ROWS_AT_A_TIME = 1 << 18  # of noise; a batch of runs is over in about a second
_WIDTH = 3  # columns of a canary, each with another share of its norm

Noise = Callable[[bytes, float, int, int, int], NDArray[np.int64]]
Clipped = Callable[..., tuple[NDArray[np.int64], NDArray[np.bool_]]]
Score = Callable[[NDArray[Any]], NDArray[np.float64]]
Going = Callable[[], bool]


def always() -> bool:
    """That there is time for more runs."""
    return True


@dataclass(frozen=True)
class Runs:
    """Scores of runs on two neighbouring tables, by the name of the score: with the canary, and without or replaced.

    The first score is the likelihood ratio, or rises with it; the others are for faults. `event` is what was done, as
    the mechanism accounts for it, and `family` the same with noise of another size.
    """

    event: Event
    family: Callable[[float], Event]
    present: Mapping[str, NDArray[np.float64]]
    absent: Mapping[str, NDArray[np.float64]]

    @property
    def ratios(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The first score of either table."""
        first = next(iter(self.present))
        return self.present[first], self.absent[first]


@dataclass(frozen=True)
class Audit:
    """What a mechanism claims, and what the attack shows, at the same delta and relation.

    `found` is the least epsilon of a mechanism of the claimed kind, with noise of whatever size, that could have been
    attacked so well: it shows too little noise. `found_without_model` follows from the rates alone, for anything.
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
        """As JSON data."""
        fields = {**self.__dict__, "claim": finite_or_word(self.claim), "found": finite_or_word(self.found)}
        return {**fields, "holds": self.holds}


def audit(
    mechanism: Mechanism,
    *,
    n_rados: int = 100,
    n_examples: int = 1000,
    runs: int | None = None,
    key: bytes | None = None,
    progress: bool = False,
) -> Audit:
    """Attack a mechanism with the canary that is made for it; `key` makes the attack repeatable.

    By default there are as many `runs` as it takes to show more than half of what is claimed, if epsilon is not small.

    >>> audit(FeatureBand("x", 1.0, delta=1e-5)).holds
    True
    """
    if runs is None:
        runs = _enough_runs(getattr(mechanism, "epsilon", None))
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise ArgumentError(f"an audit needs at least {LEAST_RUNS} runs; it is given {runs!r}")
    if isinstance(mechanism, FeatureBand):
        return audit_feature_band(mechanism, n_examples=n_examples)
    with show_progress("runs") if progress else no_progress() as bar:
        if isinstance(mechanism, NoisyRados):
            return audit_noisy_rados(mechanism, n_rados=n_rados, runs=runs, key=key, bar=bar)
        if isinstance(mechanism, NoisyExamples):
            return audit_noisy_examples(mechanism, runs=runs, key=key, bar=bar)
        if isinstance(mechanism, Moments):
            return audit_moments(mechanism, runs=runs, key=key, bar=bar)
    raise ArgumentError(f"{mechanism.name} promises nothing, so there is nothing to audit")


def _enough_runs(epsilon: float | None) -> int:
    return int(min(200_000, max(4000, 50_000 / (epsilon or 1.0) ** 1.7)))


def audit_noisy_rados(
    mechanism: NoisyRados,
    *,
    n_rados: int = 100,
    runs: int = 40_000,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
) -> Audit:
    """Attack `noisy-rados`: tell a table of the canary alone from one of nobody.

    `noise` and `clipped` are the sampler and the clipping, for audits of faulty ones.

    >>> audit_noisy_rados(NoisyRados(epsilon=4.0), n_rados=20, runs=2000, key=bytes(32)).holds
    True
    """
    made = noisy_rados_runs(mechanism, n_rados=n_rados, runs=runs, key=key, noise=noise, clipped=clipped, bar=bar)
    return _audit(mechanism, made)


def noisy_rados_runs(
    mechanism: NoisyRados,
    *,
    n_rados: int,
    runs: int,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of releases of the canary alone and of nobody; no more runs are begun when `going` says no.

    >>> made = noisy_rados_runs(NoisyRados(epsilon=4.0), n_rados=20, runs=500, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """
    plan = mechanism.plan(n_rados, _WIDTH, None)
    canary = _canary(mechanism, plan.step, clipped)
    signature_key, noise_keys = _keys(key, 3)
    signatures = AllSignatures().prepare(signature_key, n_rados, 64 * runs)
    direction, variance = canary.astype(np.float64), plan.noise_scale**2

    def draw(first: int, count: int) -> Iterator[NDArray[np.int64]]:
        out = np.empty((count, n_rados), dtype=np.uint64)  # row r * 64 of the keystream is run r's canary
        member = (signatures.words(first, count, out) & np.uint64(1)).astype(np.int64)
        for noise_key, inside in zip(noise_keys, (member, np.zeros_like(member)), strict=True):
            yield _noise(noise, noise_key, plan.noise_scale, first, count, n_rados) + inside[:, :, None] * canary

    def ratio(rados: NDArray[np.int64]) -> NDArray[np.float64]:
        gains = (rados @ direction - direction @ direction / 2) / variance
        return np.asarray(np.logaddexp(math.log(1 - INCLUSION), math.log(INCLUSION) + gains).sum(axis=1))

    def spread(rados: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rados @ direction).var(axis=1))

    scores = {"likelihood ratio": ratio, "spread among rados": spread, **_by_column(direction)}
    return Runs(plan.event, partial(_sampled, n_rados), *_scored(draw, scores, runs, n_rados, bar, going))


def _sampled(n_rados: int, multiplier: float) -> Event:
    return Repeated(SubsampledGaussian(multiplier, INCLUSION), n_rados)


def audit_noisy_examples(
    mechanism: NoisyExamples,
    *,
    runs: int = 40_000,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
) -> Audit:
    """Attack the noisy edge vectors of `noisy-examples`: tell the canary from its opposite, beside a row that is known.

    >>> audit_noisy_examples(NoisyExamples(epsilon=4.0), runs=2000, key=bytes(32)).holds
    True
    """
    if mechanism.clip is None:
        raise ArgumentError("noise without a clipping norm promises nothing, so there is nothing to audit")
    return _audit(mechanism, noisy_examples_runs(mechanism, runs=runs, key=key, noise=noise, clipped=clipped, bar=bar))


def noisy_examples_runs(
    mechanism: NoisyExamples,
    *,
    runs: int,
    key: bytes | None = None,
    noise: Noise = rounded_normals,
    clipped: Clipped = contributions,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of noisy edge vectors, of the canary and of its opposite; the mechanism must have a clipping norm.

    >>> made = noisy_examples_runs(NoisyExamples(epsilon=4.0), runs=500, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """
    plan = mechanism.plan(1, _WIDTH, 2)
    canary = _canary(mechanism, plan.step, clipped)
    _, noise_keys = _keys(key, 3)
    direction = canary.astype(np.float64)

    def draw(first: int, count: int) -> Iterator[NDArray[np.int64]]:
        for sign, noise_key in zip((1, -1), noise_keys, strict=True):
            rows = _noise(noise, noise_key, plan.noise_scale, first, count, 2)
            rows[:, 0] += sign * canary
            yield np.clip(rows, -LARGEST, LARGEST)

    def value(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(rows[:, 0] @ direction)

    def difference(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rows[:, 0] - rows[:, 1]) @ direction)

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, Relation.EDGE)

    scores = {"the row": value, "the row less another": difference, **_by_column(direction)}
    return Runs(plan.event, family, *_scored(draw, scores, runs, 2, bar, going))


def _by_column(direction: NDArray[np.float64]) -> dict[str, Score]:
    """Scores for noise that is missing in a column, or the same in two."""

    def last(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(rows[..., -1].sum(axis=1).astype(np.float64))

    def apart(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((rows[..., 0] - rows[..., 1]).sum(axis=1).astype(np.float64))

    return {"the last column": last, "two columns apart": apart}


def audit_moments(
    mechanism: Moments,
    *,
    runs: int = 40_000,
    key: bytes | None = None,
    stages: type[Stages] = Stages,
    bar: Progress = silent,
) -> Audit:
    """Attack `moments`: tell releases with the canary from those without, or with its label from the other one.

    `stages` are for audits of faulty ones. A run takes some milliseconds.

    >>> audit_moments(Moments(epsilon=4.0, unit="label"), runs=1000, key=bytes(32)).holds
    True
    """
    return _audit(mechanism, moments_runs(mechanism, runs=runs, key=key, stages=stages, bar=bar))


def moments_runs(
    mechanism: Moments,
    *,
    runs: int,
    key: bytes | None = None,
    stages: type[Stages] = Stages,
    bar: Progress = silent,
    going: Going = always,
) -> Runs:
    """Scores of releases with the canary, and of those without it or with its label turned over.

    >>> made = moments_runs(Moments(epsilon=4.0, sharpen=False), runs=100, key=bytes(32))
    >>> bool(made.ratios[0].mean() > 0 > made.ratios[1].mean())
    True
    """

    def family(multiplier: float) -> Event:
        return Gaussian(multiplier, mechanism.relation)

    *tables, event = attack_moments(mechanism, runs, key, stages, bar, going)
    scored = (
        {"all stages": statistics[:, :4].sum(axis=1), **dict(zip(STATISTICS, statistics.T, strict=True))}
        for statistics in tables
    )
    return Runs(event, family, *scored)


def audit_feature_band(
    mechanism: FeatureBand, *, n_examples: int = 1000, limits: tuple[int, int] | None = None
) -> Audit:
    """Attack the marginal of one rado of `feature-band`, exactly: from the weights by which sizes are drawn.

    There is nothing to sample: the law of the column's value follows from tables of integers. `limits` are those of the
    band, for audits of faulty ones.

    >>> audit = audit_feature_band(FeatureBand("x", 1.0, delta=1e-5))
    >>> audit.holds, audit.found > 0.99 * audit.claim
    (True, True)
    """
    low, high = band(n_examples, mechanism.epsilon) if limits is None else limits
    law = _size_law(n_examples, low, high)
    found = max(_exact_epsilon(law, shift, mechanism.delta) for shift in (1, -1))
    event = mechanism.event(n_examples, 1)
    relation = event.relation
    assert relation is not None
    claim = epsilon_at(event, mechanism.delta)
    return Audit(mechanism.name, relation.value, mechanism.delta, claim, found, 0, "exact law of one rado", 1.0, found)


def _size_law(n_examples: int, low: int, high: int) -> dict[int, Fraction]:
    """The law of K as it is drawn: a start within the band stays, any other goes by the table of weights."""
    first, sums = size_weights(n_examples, low, high)
    fair = {k: Fraction(math.comb(n_examples, k), 2**n_examples) for k in range(low, high + 1)}
    outside = 1 - sum(fair.values())
    for k, (before, after) in enumerate(itertools.pairwise([0, *sums])):
        fair[first + k] += outside * Fraction(after - before, sums[-1])
    return fair


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


def _canary(mechanism: PrivateMechanism, step: float, clipped: Clipped) -> NDArray[np.int64]:
    """What a record contributes that is as large as it can be, and larger before it is clipped, in every column."""
    columns = [Column(f"x{k}", "none", step) for k in range(_WIDTH)]
    far = 2.0 * getattr(mechanism, "clip", 1.0) * np.arange(_WIDTH, 0, -1.0)
    integers, _ = clipped(far[None], np.array([1], np.int8), columns, getattr(mechanism, "clip", None), step)
    canary: NDArray[np.int64] = integers[0]
    return canary


def _keys(key: bytes | None, count: int) -> tuple[bytes, list[bytes]]:
    """A key for signatures, and one for the noise of each table."""
    if key is None:
        keys = [secrets.token_bytes(32) for _ in range(count)]
    else:
        keys = [hashlib.sha256(b"radoboost/audit/" + bytes([k]) + key).digest() for k in range(count)]
    return keys[0], keys[1:]


def _noise(noise: Noise, key: bytes, scale: float, first: int, count: int, width: int) -> NDArray[np.int64]:
    """Noise alone, shape (count, width, columns): for these runs, of so many rados or rows each."""
    return noise(key, scale, first * width, count * width, _WIDTH).reshape(-1, width, _WIDTH)


def _scored(
    draw: Callable[[int, int], Iterable[NDArray[Any]]],
    scores: Mapping[str, Score],
    runs: int,
    width: int,
    bar: Progress,
    going: Going,
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """All scores of both tables, a batch of runs at a time; a run is the same in whatever batch."""
    at_a_time = max(1, _ROWS_AT_A_TIME // width)
    parts = [np.empty((2, len(scores), 0))]
    for first in range(0, runs, at_a_time):
        if not going():
            break
        count = min(at_a_time, runs - first)
        parts.append(np.array([[score(table) for score in scores.values()] for table in draw(first, count)]))
        bar("drawing noise", first + count, runs)
    for table in np.concatenate(parts, axis=2):
        yield dict(zip(scores, table, strict=True))


def _audit(mechanism: PrivateMechanism | Moments, made: Runs) -> Audit:
    delta: float = getattr(mechanism, "delta", DEFAULT_DELTA)
    relation = made.event.relation
    assert relation is not None
    found, plainly, best = 0.0, 0.0, next(iter(made.present))
    for name, present in made.present.items():
        alarms, hits = _rates(present, made.absent[name], (1 - CONFIDENCE) / (2 * len(made.present)))
        epsilon = _least_epsilon(made.family, (alarms, hits), delta)
        if epsilon > found:
            found, best = epsilon, name
        if hits - delta > alarms:
            plainly = max(plainly, math.log((hits - delta) / alarms))
    claim, runs = epsilon_at(made.event, delta), len(made.ratios[0])
    return Audit(mechanism.name, relation.value, delta, claim, found, runs, best, CONFIDENCE, plainly)


def rate_above(count: int, runs: int, risk: float) -> float:
    """The Clopper-Pearson upper bound on a rate that came up `count` times: wrong with probability `risk` at most.

    >>> round(rate_above(0, 1000, 0.05), 6)
    0.002991
    """
    from scipy.stats import beta

    return 1.0 if count == runs else float(beta.ppf(1 - risk, count + 1, runs - count))


def rate_below(count: int, runs: int, risk: float) -> float:
    """The lower bound likewise.

    >>> round(rate_below(1000, 1000, 0.05), 6)
    0.997009
    """
    from scipy.stats import beta

    return 0.0 if count == 0 else float(beta.ppf(risk, count, runs - count + 1))


def _rates(hits: NDArray[np.float64], alarms: NDArray[np.float64], risk: float) -> tuple[float, float]:
    """An upper bound on the rate of false alarms and a lower one on that of hits, each wrong with probability `risk`.

    The threshold is chosen on some of the runs, and the rates are counted on the others.
    """
    from scipy.special import ndtri

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


def _least_epsilon(family: Callable[[float], Event], rates: tuple[float, float], delta: float) -> float:
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
    # A little less, for the accountant rounds up and here it must be down.
    return (1 - 1e-3) * epsilon_at(family(high), delta)
