"""A total set in advance, and what each release takes of it, however its parameters were chosen.

What was booked adds up in three accounts: the squared distances mu of Gaussians, probabilities delta0 of giving
everything away, and the total variation of samplers. Adding mu squared stays right when a later release is chosen by
looking at earlier ones; composing loss curves does not. Labels L1, L2, ... are the steps of docs/proofs/ledger.md.

Costs are rounded up, totals down, and sums of them are exact fractions: nothing hangs on rounding.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, isinf, nextafter

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.privacy import events
from radoboost.privacy.accountants import check_delta_figure, delta_curve, epsilon_at
from radoboost.privacy.calibration import gaussian_multiplier

# Of the total's delta, in advance: for all delta0 together, and for total variation (L6).
DELTA0_SHARE, VARIATION_SHARE = Fraction(1, 100), Fraction(1, 10_000)
_MOST_DELTA0 = 100  # that many bookings with a delta0 of their own use its share up
_COARSER = 8  # times that, where the accountant cannot resolve so small a delta0
LARGEST_EPSILON = 50.0  # of a total; beyond, total variation, which counts e^epsilon times, leaves no room
_POINTS = 256  # at which a curve is compared
_SLACK = 1e-12  # relative, above the error of a normal tail and of exp
_FINEST = 1e-7  # how closely the least mu is found, relatively


@dataclass(frozen=True)
class Cost:
    """What something takes of a total: exact numbers, each no smaller than the truth."""

    mu_squared: Fraction = Fraction(0)
    delta0: Fraction = Fraction(0)
    total_variation: Fraction = Fraction(0)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.mu_squared + other.mu_squared,
            self.delta0 + other.delta0,
            self.total_variation + other.total_variation,
        )

    def within(self, total: "Cost") -> bool:
        """Whether none of the three numbers is larger than that of `total`."""
        return (
            self.mu_squared <= total.mu_squared
            and self.delta0 <= total.delta0
            and self.total_variation <= total.total_variation
        )

    def scaled(self, factor: Fraction) -> "Cost":
        """All three numbers times `factor`."""
        return Cost(self.mu_squared * factor, self.delta0 * factor, self.total_variation * factor)

    def less(self, other: "Cost") -> "Cost":
        """What is left after `other`, never below nothing."""
        zero = Fraction(0)
        return Cost(
            max(zero, self.mu_squared - other.mu_squared),
            max(zero, self.delta0 - other.delta0),
            max(zero, self.total_variation - other.total_variation),
        )


@dataclass(frozen=True)
class Filter:
    """A total (epsilon, delta) under a relation, set before the first release (L1).

    Whoever stops before the costs of all releases pass `allowance` has kept to the total, even if each release was
    chosen after looking at the earlier ones.
    """

    epsilon: float
    delta: float
    relation: events.Relation = events.Relation.RECORD

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", events.positive_event_field(self.epsilon, "epsilon"))
        if self.epsilon > LARGEST_EPSILON:
            raise ArgumentError(f"a total's epsilon can be {LARGEST_EPSILON:g} at most; it is {self.epsilon:g}")
        object.__setattr__(self, "delta", check_delta_figure(self.delta))
        relation = next((choice for choice in events.Relation if choice == self.relation), None)
        if relation is None or relation is events.Relation.VALUE:
            choices = ", ".join(repr(choice.value) for choice in events.Relation if choice != events.Relation.VALUE)
            raise ArgumentError(f"a total is about {choices}; the relation given is {self.relation!r}")
        object.__setattr__(self, "relation", relation)

    @property
    def allowance(self) -> Cost:
        """All that may be spent: delta of the Gaussian, delta0 and total variation together stay within delta (L6)."""
        return _filter_allowance(self.epsilon, self.delta)

    def cost(self, event: events.Event) -> Cost:
        """What an event takes of this total, refused where no finite cost is proved (L5)."""
        return cost_in_filter(event, self.relation, _next_float_down(self.allowance.delta0 / _MOST_DELTA0))


@lru_cache(maxsize=256)
def _filter_allowance(epsilon: float, delta: float) -> Cost:
    variation = VARIATION_SHARE * Fraction(delta) / (1 + Fraction(exp(epsilon) * (1 + _SLACK)))
    gaussian = Fraction(delta) * (1 - DELTA0_SHARE - VARIATION_SHARE)
    noise = gaussian_multiplier(epsilon, _next_float_down(gaussian))
    return Cost(
        Fraction(_next_float_down(1 / Fraction(noise) ** 2)),
        Fraction(_next_float_down(DELTA0_SHARE * Fraction(delta))),
        Fraction(_next_float_down(variation)),
    )


def cost_in_filter(event: events.Event, relation: events.Relation, delta0: float = 1e-10) -> Cost:
    """What an event costs under a relation: exactly for Gaussians, and by a pair (mu, `delta0`) for Poisson samples.

    Where the accountant cannot resolve so small a `delta0`, eight times as much is booked.

    Whatever has no such cost is refused: a claim about one column's marginal, or something that is not private.
    """
    total = Cost()
    for leaf, count in events.flatten(_convert_event_for_filter(event, relation)).items():
        total += _cost_of_single_event(leaf, count, delta0)
    return Cost(*(Fraction(_next_float_up(part)) for part in (total.mu_squared, total.delta0, total.total_variation)))


def _convert_event_for_filter(event: events.Event, relation: events.Relation) -> events.Event:
    try:
        return events.convert_relation(event, relation)
    except ArgumentError as error:
        raise ArgumentError(f"{error}, so it cannot be booked here") from None


def _cost_of_single_event(leaf: events.Leaf, count: int, delta0: float) -> Cost:
    if isinstance(leaf, events.NotPrivate):
        raise ArgumentError(f"it has no finite cost, so it cannot be booked: {leaf.reason}")
    if isinstance(leaf, events.TruncatedBinomialShift):
        raise ArgumentError(
            "a claim about one column's marginal has no cost for whole records, so it cannot be booked; take a "
            "mechanism that protects records, such as Moments"
        )
    variation = count * Fraction(leaf.total_variation)
    if isinstance(leaf, events.Gaussian):
        return Cost(count / Fraction(leaf.noise_multiplier) ** 2, total_variation=variation)
    if leaf.probability == 1:
        # A replacement moves a sum by up to two norms, and a group of records by as many as there are.
        reach = leaf.group * (1 if leaf.relation in events.ADDED else 2)
        return Cost(count * (reach / Fraction(leaf.noise_multiplier)) ** 2, total_variation=variation)
    bare = replace(leaf, total_variation=0.0)
    try:
        mu = mu_of_subsampled_uses(bare, count, delta0)
    except ArgumentError:  # so small a delta0 may be below what the accountant resolves for so many uses
        delta0 *= _COARSER
        mu = mu_of_subsampled_uses(bare, count, delta0)
    return Cost(Fraction(mu) ** 2, Fraction(delta0), variation)


@lru_cache(maxsize=256)
def mu_of_subsampled_uses(leaf: events.SubsampledGaussian, count: int, delta0: float) -> float:
    """The least mu, rounded up, such that all uses of `leaf` are a post-processing of (mu, delta0) (L4, L5).

    That is a Gaussian of distance mu which with probability delta0 gives everything away.
    """
    event = events.Repeated(leaf, count)
    least = delta0 * (1 - 1e-9)  # what is compared with is a little less than what is booked
    last = epsilon_at(event, least)
    if isinf(last) or last > 200:
        raise ArgumentError(
            f"{count:,} sums over samples with noise {leaf.noise_multiplier:.4g} have no pair of mu and delta0 "
            f"{delta0:.3g} that covers them, for {leaf.relation.value}, as far as the accountant resolves it, so they "
            "cannot be booked: take fewer rados, or more noise"
        )
    ends = np.linspace(0.0, last, _POINTS)
    curve = delta_curve(event, ends)
    # Lines below the Gaussian's curve: a test that rejects above the middle of each interval of epsilons.
    middle, growth = (ends[:-1] + ends[1:]) / 2, np.exp(ends)

    def covers(mu: float) -> bool:
        from scipy.special import ndtr

        above, below = ndtr(mu / 2 - middle / mu) * (1 - _SLACK), ndtr(-mu / 2 - middle / mu) * (1 + _SLACK)
        return all(
            bool(np.all(curve[at] <= least + (1 - delta0) * (above - growth[at] * below) * (1 - _SLACK)))
            for at in (slice(None, -1), slice(1, None))
        )

    high = 1e-3
    while not covers(high):
        high *= 2
        if high > 100:
            raise ArgumentError(
                f"no pair of mu and delta0 {delta0:.3g} covers {count:,} sums over samples with noise "
                f"{leaf.noise_multiplier:.4g}, for {leaf.relation.value}, so they cannot be booked: take more noise"
            )
    low = 0.0
    while high - low > _FINEST * high:
        between = (low + high) / 2
        low, high = (low, between) if covers(between) else (between, high)
    return high


def _next_float_up(number: Fraction) -> float:
    """The least float that is no smaller."""
    near = float(number)
    return near if Fraction(near) >= number else nextafter(near, inf)


def _next_float_down(number: Fraction) -> float:
    """The largest float that is no larger."""
    near = float(number)
    return near if Fraction(near) <= number else nextafter(near, -inf)
