"""From scores to rates: how often an attack is right and how often it cries wolf, against all that a claim allows.

Thresholds are chosen on the first quarter of the runs, and rates are counted on the rest. A claim is beaten where its
whole trade-off curve could not have given what was counted, at a confidence that covers all thresholds together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError
from radoboost.lab.audits.audit import CHOOSING, CONFIDENCE, lower_rate_bound, upper_rate_bound
from radoboost.privacy import Event, epsilon_at, trade_off
from radoboost.release.release import epsilon_as_json, rounded_up_text

Floats = NDArray[np.float64]

LOW_RATE = 0.001  # of false alarms, at which hits are reported
SHOWN = 0.95  # confidence of an interval that is shown; a claim is judged at `CONFIDENCE`
_FEWEST_ALARMS = 3  # with fewer a rate of false alarms cannot be set
_LEVELS = 25  # thresholds from each tail of either table's scores


@dataclass(frozen=True)
class Rate:
    """Hits at few false alarms: the share of those present that are caught, with an interval, and the false alarms."""

    hits: float
    low: float
    high: float
    false_alarms: float


@dataclass(frozen=True)
class Roc:
    """Counts at thresholds: of `runs` of either table, how many scores lie above, of the absent and of the present.

    `best` is the threshold with the largest advantage among the runs that thresholds were chosen by.
    """

    thresholds: tuple[float, ...]
    false_alarms: tuple[int, ...]
    hits: tuple[int, ...]
    runs: int
    best: int

    @property
    def advantage(self) -> float:
        """Hits less false alarms, at the best threshold: 0 is guessing, 1 is knowing."""
        return (self.hits[self.best] - self.false_alarms[self.best]) / self.runs

    def at(self, rate: float = LOW_RATE) -> Rate | None:
        """Hits at a rate of false alarms of at most `rate`, as counted; None if so few runs cannot tell.

        The threshold is picked by the absent alone, so the interval for the present stays valid.
        """
        if rate * self.runs < _FEWEST_ALARMS:
            return None
        few = [(a, h) for a, h in zip(self.false_alarms, self.hits, strict=True) if a <= rate * self.runs]
        alarms, hits = max(few, default=(0, 0))
        risk = (1 - SHOWN) / 2
        low, high = lower_rate_bound(hits, self.runs, risk), upper_rate_bound(hits, self.runs, risk)
        return Rate(hits / self.runs, low, high, alarms / self.runs)

    def bounds(self) -> tuple[Floats, Floats]:
        """Upper bounds on false alarms and lower bounds on hits, which hold together at the confidence of audits."""
        risk = (1 - CONFIDENCE) / (2 * len(self.thresholds))
        above = [upper_rate_bound(count, self.runs, risk) for count in self.false_alarms]
        below = [lower_rate_bound(count, self.runs, risk) for count in self.hits]
        return np.array(above), np.array(below)

    def to_dict(self) -> dict[str, Any]:
        few, rates = self.at(), (np.array(counts) / self.runs for counts in (self.false_alarms, self.hits))
        told = dict(zip(("false_positive_rates", "true_positive_rates"), (one.tolist() for one in rates), strict=True))
        few_told = few and {"at_most": LOW_RATE, "confidence": SHOWN, **vars(few)}
        return {"counted_runs": self.runs, **told, "advantage": self.advantage, "few_false_alarms": few_told}


def roc_of_scores(present: ArrayLike, absent: ArrayLike) -> Roc:
    """Rates of scores of the present, which are large, and of the absent; as many of either."""
    with_record, without = (np.asarray(scores, dtype=np.float64) for scores in (present, absent))
    cut = int(CHOOSING * len(with_record))
    thresholds = _roc_thresholds(with_record[:cut], without[:cut])
    advantages = _above_thresholds(with_record[:cut], thresholds) - _above_thresholds(without[:cut], thresholds)
    false_alarms, hits = (
        tuple(_above_thresholds(scores[cut:], thresholds).tolist()) for scores in (without, with_record)
    )
    return Roc(tuple(thresholds.tolist()), false_alarms, hits, len(with_record) - cut, int(np.argmax(advantages)))


def _roc_thresholds(present: Floats, absent: Floats) -> Floats:
    """Scores in both tails of either table, closer together the farther out, and the middle; largest first."""
    tails = np.geomspace(1 / len(present), 0.5, _LEVELS)
    levels = np.concatenate([tails, 1 - tails])
    quantiles = [np.quantile(scores, levels, method="lower") for scores in (present, absent)]
    return np.unique(np.concatenate(quantiles))[::-1]


def _above_thresholds(scores: Floats, thresholds: Floats) -> NDArray[np.int64]:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")


@dataclass(frozen=True)
class Claim:
    """What a statement says: an event, and pairs of epsilon and delta beside it; all of it bounds every attack."""

    event: Event
    delta: float
    pairs: tuple[tuple[float, float], ...] = ()  # (delta, epsilon)

    def __post_init__(self) -> None:
        for delta, epsilon in self.pairs:
            if not (0 <= delta < 1 and epsilon >= 0):
                raise ArgumentError(f"no promise has epsilon {epsilon!r} at delta {delta!r}; delta is in [0, 1)")

    @property
    def neighbours(self) -> str:
        relation = self.event.relation
        assert relation is not None
        return relation.value

    @property
    def epsilon(self) -> float:
        """The event's epsilon at delta, or a smaller one if the statement says so."""
        stated = [epsilon for delta, epsilon in self.pairs if delta == self.delta]
        return min([epsilon_at(self.event, self.delta), *stated])

    def misses(self, alarms: ArrayLike) -> Floats:
        """The least share of misses that the claim allows at these shares of false alarms, in either direction."""
        rates = np.asarray(alarms, dtype=np.float64)
        least = trade_off(self.event, rates)
        for delta, epsilon in self.pairs:
            if epsilon < 700:
                growth = math.exp(epsilon)
                for line in (1 - delta - growth * rates, (1 - delta - rates) / growth):
                    np.maximum(least, line - 1e-12, out=least)
        return least

    def hits(self, alarms: ArrayLike) -> Floats:
        return np.asarray(1 - self.misses(alarms))

    @property
    def advantage(self) -> float:
        rates = np.linspace(0, 1, 1001)
        return float((self.hits(rates) - rates).max())

    def margin(self, roc: Roc) -> float:
        """By how much hits surely are above what the claim allows, at the worst threshold; not above 0 if it holds.

        An adversary who looks for the absent instead swaps misses and false alarms. A claim's curve is its own inverse,
        so that attack beats it at the same thresholds.
        """
        alarms, hits = roc.bounds()
        return float((hits - self.hits(alarms)).max())

    def shown_share(self, runs: int) -> float | None:
        """About the largest share of the noise with which so many counted runs would beat the claim; None if no share.

        As if this were a Gaussian mechanism, and the attack as good as can be: its counts are then those expected.
        """
        from scipy.special import ndtr, ndtri

        if not 0 < self.advantage < 1:
            return None
        mu = 2 * float(ndtri((1 + self.advantage) / 2))
        tails = np.geomspace(1 / runs, 0.5, _LEVELS)
        levels = ndtri(np.concatenate([tails, 1 - tails]))

        def beaten(share: float) -> bool:
            thresholds = np.concatenate([levels, levels + mu / share])
            alarms, hits = (
                tuple(np.rint(runs * ndtr(mean - thresholds)).astype(int).tolist()) for mean in (0.0, mu / share)
            )
            return self.margin(Roc(tuple(thresholds.tolist()), alarms, hits, runs, 0)) > 0

        low, high = 0.01, 1.0
        if not beaten(low):
            return None
        while high - low > 0.002:
            middle = (low + high) / 2
            low, high = (middle, high) if beaten(middle) else (low, middle)
        return low

    def as_text(self) -> str:
        return f"epsilon {rounded_up_text(self.epsilon, 4)} at delta {self.delta:g} for {self.neighbours}"

    def to_dict(self, rates: Sequence[float]) -> dict[str, Any]:
        """As JSON data, with the curve at these rates of false alarms."""
        return {
            "neighbours": self.neighbours,
            "epsilon": epsilon_as_json(self.epsilon),
            "delta": self.delta,
            "advantage": self.advantage,
            "true_positive_rates": self.hits(rates).tolist(),
            "few_false_alarms": {"at_most": LOW_RATE, "hits": float(self.hits([LOW_RATE])[0])},
        }
