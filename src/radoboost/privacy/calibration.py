"""How much noise, or which band, a promise needs: the inverse of the accountants, rounded to the safe side."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from math import ceil, exp, expm1, inf, log, log1p, nextafter, sqrt
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy import events
from radoboost.privacy.accountants import LEAST_MULTIPLIER, check_delta_figure, delta_at, epsilon_at


def gaussian_multiplier(
    epsilon: float, delta: float, relation: events.Relation = events.Relation.RECORD, total_variation: float = 0.0
) -> float:
    """The least noise, in units of the L2 sensitivity, that makes one Gaussian (epsilon, delta)-private."""
    epsilon, delta = _check_epsilon_to_calibrate(epsilon, delta)
    event = partial(events.Gaussian, relation=relation, total_variation=total_variation)
    return _least_noise_multiplier(event, epsilon, delta, 1.0, 0.0)


def subsampled_multiplier(
    epsilon: float, delta: float, probability: float, count: int, total_variation: float = 0.0, group: int = 1
) -> float:
    """The least noise, over one record's largest norm, for `count` sums over Poisson samples of the records.

    Neighbours differ in up to `group` records. Where hardly any noise is needed, the answer is the least that the
    accountant covers, 0.05 for each record of the group.
    """
    epsilon, delta = _check_epsilon_to_calibrate(epsilon, delta)

    def event(noise: float) -> events.Event:
        return events.Repeated(events.SubsampledGaussian(noise, probability, total_variation, group=group), count)

    event(1.0)  # refuses what is not a probability or a count before anything is computed
    guess = group * probability * sqrt(count) * gaussian_multiplier(epsilon, delta)
    floor = LEAST_MULTIPLIER * group
    return _least_noise_multiplier(event, epsilon, delta, max(guess, floor), floor)


def band(n_trials: int, epsilon: float) -> tuple[int, int]:
    """The band [low, high] of the paper's DP-Feat for n_trials examples and epsilon."""
    events.TruncatedBinomialShift(n_trials, 0, n_trials)
    epsilon, _ = _check_epsilon_to_calibrate(epsilon, 0.5)
    low = _low_end_of_band(n_trials, epsilon)
    if low > n_trials - low:
        raise ArgumentError(f"no rado of {n_trials} examples lies in the band of epsilon {epsilon}: raise epsilon")
    return low, n_trials - low


def least_band_epsilon(n_trials: int, count: int, delta: float) -> float | None:
    """The least epsilon whose band leaves `count` rados a finite epsilon at delta; None if no band does.

    A rado at the edge of the band gives the value away, so delta cannot be below 1 - (1 - P(edge))^count.
    """
    delta = check_delta_figure(delta)
    events.Repeated(events.TruncatedBinomialShift(n_trials, 0, n_trials), count)

    def enough(low: int) -> bool:
        mass = _mass_at_band_edge(n_trials, low)
        return mass < 1 and -expm1(count * log1p(-mass)) * (1 + 1e-12) <= delta

    narrow, wide = n_trials // 2, 1  # the paper's low is at least 1: e^(epsilon/2) is finite
    if wide > narrow or not enough(wide):
        return None
    if enough(narrow):
        wide = narrow
    while narrow - wide > 1:
        middle = (narrow + wide) // 2
        narrow, wide = (narrow, middle) if enough(middle) else (middle, wide)
    # low = ceil((m + 1) / (1 + e^(eps/2))) is `wide` from eps = 2 log((m + 1) / wide - 1) on.
    epsilon = 2 * log((n_trials + 1) / wide - 1)
    while _low_end_of_band(n_trials, epsilon) > wide:
        epsilon = nextafter(epsilon, inf)
    return epsilon


def _low_end_of_band(n_trials: int, epsilon: float) -> int:
    """The paper's beta (m + 1), rounded up."""
    return ceil((n_trials + 1) / (1 + exp(min(epsilon / 2, 700.0))))


@lru_cache(maxsize=4096)
def _mass_at_band_edge(n_trials: int, low: int) -> float:
    """P(K = high) under the band [low, n_trials - low], rounded up: delta at an epsilon that only the edge exceeds."""
    return delta_at(events.TruncatedBinomialShift(n_trials, low, n_trials - low), 1e6)


def _check_epsilon_to_calibrate(epsilon: Any, delta: Any) -> tuple[float, float]:
    return events.positive_event_field(epsilon, "epsilon"), check_delta_figure(delta)


def _least_noise_multiplier(
    event: Callable[[float], events.Event], epsilon: float, delta: float, guess: float, floor: float
) -> float:
    """The least noise, to a relative 1e-6, whose event is (epsilon, delta)-private."""
    from scipy.optimize import brentq

    def keeps_promise(noise: float) -> bool:
        return delta_at(event(noise), epsilon) <= delta

    low = high = guess
    while not keeps_promise(high):
        if high > 1e30:
            raise ArgumentError(
                f"no noise can be shown to give epsilon {epsilon} at delta {delta}: for so many uses so small a delta "
                "is below what the accountant resolves; raise delta, or ask for fewer"
            )
        low, high = high, 2 * high
    while low > floor and keeps_promise(low):
        low, high = max(low / 2, floor), low
    if keeps_promise(low):
        return low

    def excess(log_noise: float) -> float:
        return log(delta_at(event(exp(log_noise)), epsilon) / delta)

    if excess(log(high)) < 0:  # else doubling found it exactly
        high = exp(brentq(excess, log(low), log(high), xtol=1e-8))
    while not keeps_promise(high) or epsilon_at(event(high), delta) > epsilon:
        high *= 1 + 1e-8
    return high


# ---- Noise that several holders add in shares: how large a share is, and what remains against whom.
#
# Of K holders up to t may be lost, or tell others what they know. Noise of standard deviation s is wanted, so each adds
# a share of s / sqrt(K - t): those of any K - t holders come to s. Labels are those of docs/proofs/shared-noise.md.


LEAST_SHARE = 8.0  # grid steps: with less, a sum of rounded shares is not a rounded sum (D2)
LATTICE_VARIATION = 2.0**-180  # between a sum of rounded shares and a rounded sum, in each number (D4)
_UP = 1 + 2.0**-50  # for what is rounded on the way to a share


def noise_share_of_holder(holders: int, tolerate: int) -> float:
    """Which part of a standard deviation each of so many holders adds, never below what is needed (D1)."""
    return _UP / sqrt(_fewest_honest_holders(holders, tolerate))


def noise_factor_of_present_holders(present: int, holders: int, tolerate: int) -> float:
    """How many times the standard deviation that was wanted the shares of those who are present come to."""
    return sqrt(present / _fewest_honest_holders(holders, tolerate))


def variation_of_shared_noise(variation: float, holders: int) -> float:
    """How far a number with the noise of so many holders may be from the Gaussian mechanism's (D5).

    `variation` is that of one share.
    """
    return variation if holders == 1 else nextafter(holders * variation + LATTICE_VARIATION, inf)


def event_against_colluders(event: events.Event, honest: int, holders: int, tolerate: int) -> events.Event:
    """An event whose noise is that of `honest` holders alone, where its own is that of K - t of them (D6, D7)."""
    if not 1 <= honest <= holders:
        raise ArgumentError(f"of {holders} holders 1 to {holders} are honest, not {honest}")
    return _event_with_noise_factor(event, sqrt(honest / _fewest_honest_holders(holders, tolerate)))


def _fewest_honest_holders(holders: int, tolerate: int) -> int:
    if not 1 <= tolerate < holders:
        raise ArgumentError(f"of {holders} holders 1 to {holders - 1} may be lost or collude, not {tolerate}")
    return holders - tolerate


def _event_with_noise_factor(event: events.Event, factor: float) -> events.Event:
    """The same event with so many times the noise, rounded down."""
    if isinstance(event, events.Repeated):
        return events.Repeated(_event_with_noise_factor(event.event, factor), event.count)
    if isinstance(event, events.Composed):
        return events.Composed(tuple(_event_with_noise_factor(part, factor) for part in event.events))
    if isinstance(event, events.Gaussian | events.SubsampledGaussian) and factor != 1.0:
        noise = event.noise_multiplier * factor
        return replace(event, noise_multiplier=nextafter(nextafter(nextafter(noise, 0.0), 0.0), 0.0))
    return event
