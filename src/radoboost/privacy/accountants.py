"""From what was done to epsilon and delta, never below the truth.

Gaussians alone have a closed form (A2, A3). Everything else goes through privacy-loss distributions: this module lays
the loss of one use on a grid, from above (A5 to A7), dp-accounting convolves it, and what the convolution can round
away is added to delta (A8, A10). Labels are those of docs/proofs/accounting.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from math import comb, exp, expm1, hypot, inf, isfinite, log, log1p, log2, nan, nextafter, sqrt
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError
from radoboost.privacy.events import (
    ADDED,
    Event,
    Gaussian,
    Leaf,
    NotPrivate,
    Relation,
    SubsampledGaussian,
    TruncatedBinomialShift,
    flatten,
)

Floats = NDArray[np.float64]

LEAST_MULTIPLIER = 0.05  # a subsampled Gaussian with less noise counts as not private: its loss passes 200 a use
MOST_USES = 2**21  # of one subsampled or truncated event; more would need a coarser grid than is worth anything

_UNIT = 2.0**-53
_TINY = 1e-300  # stands in for a delta that underflows
_TAIL = 9.5  # standard deviations of noise that are kept; beyond lies less than 2e-21
_TAIL_MASS = 1e-14  # what one n-fold convolution may cut off, and adds to delta
_STEPS_PER_DEVIATION = 100  # grid steps to one standard deviation of an average use's loss: the grid adds 1e-5 of it
_MOST_CELLS = 2**16  # of one use
_MOST_BINS = 2**21  # of all uses


class _Losses(NamedTuple):
    """Masses of the losses (low + i) step, in one direction; `infinite` is the mass of an infinite loss."""

    low: int
    masses: Floats
    infinite: float
    shift: float  # the losses may be this much too small: read at a lower epsilon (A10)


def epsilon_at(event: Event, delta: float) -> float:
    """The least epsilon, rounded up, for which `event` is (epsilon, delta)-private; infinity if no epsilon is."""
    return _least_epsilon_of_curve(event, check_delta_figure(delta))


@lru_cache(maxsize=1024)
def _least_epsilon_of_curve(event: Event, delta: float) -> float:
    curve = _account_curve(event)
    if curve.at(0.0) <= delta:
        return 0.0
    low, high = 0.0, min(1.0, curve.last)
    while curve.at(high) > delta:
        if high >= min(curve.last, 1e300):
            return inf
        low, high = high, min(2 * high, curve.last)
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if curve.at(middle) > delta:
            low = middle
        else:
            high = middle
    return high


def delta_at(event: Event, epsilon: float) -> float:
    """The least delta, rounded up, for which `event` is (epsilon, delta)-private."""
    return _least_delta_of_curve(event, _check_epsilon(epsilon))


@lru_cache(maxsize=1024)
def _least_delta_of_curve(event: Event, epsilon: float) -> float:
    curve = _account_curve(event)
    return curve.at(min(epsilon, curve.last))  # (last, delta)-private implies the same at every larger epsilon


def delta_curve(event: Event, epsilons: ArrayLike) -> Floats:
    curve = _account_curve(event)
    return np.array([curve.at(min(_check_epsilon(epsilon), curve.last)) for epsilon in np.ravel(epsilons).tolist()])


def trade_off(event: Event, alphas: ArrayLike) -> Floats:
    """Of any test between neighbours with false alarms at rate alpha, the least rate of misses; a lower bound (A11)."""
    rates = np.asarray(alphas, dtype=np.float64)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ArgumentError("alphas must be rates in [0, 1]")
    last = next((last for delta in (1e-6, 1e-3, 0.1) if isfinite(last := epsilon_at(event, delta))), 1.0)
    misses = np.zeros_like(rates)
    for epsilon in np.linspace(0.0, min(max(last, 1e-6), 700.0), 200):
        rest, growth = 1.0 - delta_at(event, float(epsilon)), np.exp(epsilon)
        np.maximum(misses, rest - growth * rates, out=misses)
        np.maximum(misses, (rest - rates) / growth, out=misses)
    return np.maximum(misses * (1 - 1e-12) - 1e-15, 0.0)


def best_guess(event: Event) -> float:
    """How often an adversary who thinks both neighbours equally likely can be right, at most (A11)."""
    delta = delta_at(event, 0.0)
    return min(1.0, nextafter((1.0 + delta) / 2, 1.0)) if delta else 0.5


def gaussian_distance(event: Event) -> float | None:
    """mu of the one Gaussian that all uses together come to (A3), rounded up; None if not all of them are Gaussian."""
    counts = flatten(event)
    return _mu_of_gaussians(counts.items()) if counts and all(_is_gaussian_like(leaf) for leaf in counts) else None


def accountant_name(event: Event) -> str:
    counts = flatten(event)
    if any(isinstance(leaf, NotPrivate) for leaf in counts):
        return "none"
    if all(_is_gaussian_like(leaf) for leaf in counts) or _is_single_binomial_shift(counts):
        return "closed form"
    from importlib.metadata import version

    return f"dp-accounting {version('dp-accounting')} privacy-loss distributions"


# ---- checks of arguments


def _float_or_nan(value: Any) -> float:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan


def _check_epsilon(epsilon: Any) -> float:
    if not 0 <= (number := _float_or_nan(epsilon)) < inf:
        raise ArgumentError(f"epsilon must be a finite number of at least 0; it is {epsilon!r}")
    return number


def check_delta_figure(delta: Any) -> float:
    if not 0 < (number := _float_or_nan(delta)) < 1:
        raise ArgumentError(f"delta must lie between 0 and 1; it is {delta!r}")
    return number


def _is_gaussian_like(leaf: Leaf) -> bool:
    """Whether the closed form covers it: a Gaussian, or a subsampled one that takes every record."""
    return isinstance(leaf, Gaussian) or (isinstance(leaf, SubsampledGaussian) and leaf.probability == 1)


def _is_single_binomial_shift(counts: dict[Leaf, int]) -> bool:
    return [(type(leaf), count) for leaf, count in counts.items()] == [(TruncatedBinomialShift, 1)]


# ---- one curve for each normal form


class _Curve(NamedTuple):
    """Delta at epsilon, and the epsilon from which on this bound stops falling."""

    at: Callable[[float], float]
    last: float


def _account_curve(event: Event) -> _Curve:
    """The curve of an event, with the total variation of all its uses together."""
    counts = flatten(event)
    variation = sum(getattr(leaf, "total_variation", 0.0) * count for leaf, count in counts.items())
    bare: dict[Leaf, int] = {}
    for leaf, count in counts.items():
        plain = leaf if isinstance(leaf, NotPrivate) else replace(leaf, total_variation=0.0)
        bare[plain] = bare.get(plain, 0) + count
    return _charge_total_variation(_order_event_counts(bare), min(1.0, variation * (1 + 1e-12)))


def _order_event_counts(counts: dict[Leaf, int]) -> tuple[tuple[Leaf, int], ...]:
    return tuple(sorted(counts.items(), key=repr))


@lru_cache(maxsize=64)
def _charge_total_variation(counts: tuple[tuple[Leaf, int], ...], variation: float) -> _Curve:
    """The curve with (1 + e^epsilon) times the total variation on top (A9)."""
    curve, last = _privacy_curve(counts)
    if not variation:
        return _cut_curve_at_least_delta(curve, last)

    def charged(epsilon: float) -> float:
        return min(1.0, (curve(epsilon) + (1 + exp(min(epsilon, 700.0))) * variation) * (1 + 8 * _UNIT))

    return _cut_curve_at_least_delta(charged, min(last, 700.0, -log(variation)))


def _cut_curve_at_least_delta(curve: Callable[[float], float], last: float) -> _Curve:
    """The curve up to its least value; stopping elsewhere would be just as sound."""
    if last == inf:
        return _Curve(curve, inf)
    points = np.linspace(0.0, last, 101).tolist()
    best = min(range(101), key=lambda i: curve(points[i]))
    low, high = points[max(best - 1, 0)], points[min(best + 1, 100)]
    for _ in range(30):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if curve(left) <= curve(right) else (left, high)
    return _Curve(curve, min(points[best], high, key=curve))


@lru_cache(maxsize=64)
def _privacy_curve(counts: tuple[tuple[Leaf, int], ...]) -> _Curve:
    """The curve of these events, without total variation."""
    if not counts:
        return _Curve(lambda epsilon: 0.0, inf)
    if any(isinstance(leaf, NotPrivate) for leaf, _ in counts):
        return _Curve(lambda epsilon: 1.0, inf)
    gaussians = [(leaf, count) for leaf, count in counts if _is_gaussian_like(leaf)]
    others = [(leaf, count) for leaf, count in counts if not _is_gaussian_like(leaf)]
    if not others:
        return _Curve(partial(_delta_of_gaussian, _mu_of_gaussians(gaussians)), inf)
    if others[0][0].relation not in (*ADDED, Relation.VALUE):
        step = _privacy_curve(_halve_replacement_counts(counts)).at

        def of_two(epsilon: float) -> float:
            return min(1.0, (1 + exp(min(epsilon / 2, 700.0))) * step(epsilon / 2) * (1 + 8 * _UNIT))

        return _Curve(of_two, max(0.0, -2 * log(step(1e9))))
    if _is_single_binomial_shift(dict(counts)):
        return _Curve(partial(_delta_of_binomial_shift, others[0][0]), inf)
    return _Curve(_compose_curves(_mu_of_gaussians(gaussians), others), inf)


def _halve_replacement_counts(counts: tuple[tuple[Leaf, int], ...]) -> tuple[tuple[Leaf, int], ...]:
    """One of the two steps, a record removed and a record added, that a replacement is made of (A4)."""
    steps: dict[Leaf, int] = {}
    for leaf, count in counts:
        if isinstance(leaf, SubsampledGaussian) and leaf.probability < 1:
            step: Leaf = replace(leaf, relation=Relation.RECORD, person="", label="")
        elif isinstance(leaf, SubsampledGaussian):
            step = Gaussian(leaf.noise_multiplier / leaf.group * (1 - 2 * _UNIT), Relation.RECORD)
        else:
            assert isinstance(leaf, Gaussian)
            step = Gaussian(2 * leaf.noise_multiplier, Relation.RECORD)
        steps[step] = steps.get(step, 0) + count
    return _order_event_counts(steps)


# ---- Gaussians


def _mu_of_gaussians(gaussians: Iterable[tuple[Leaf, int]]) -> float:
    """The distance between two unit normals that all these Gaussians together come to (A3), rounded up."""
    parts = []
    for leaf, count in gaussians:
        assert isinstance(leaf, (Gaussian, SubsampledGaussian))
        # Without sampling a replacement moves the sum by up to twice a record's norm.
        double = isinstance(leaf, SubsampledGaussian) and leaf.relation not in ADDED
        group = leaf.group if isinstance(leaf, SubsampledGaussian) else 1
        parts.append((1 + double) * group * sqrt(count) / leaf.noise_multiplier)
    return hypot(*parts) * (1 + 8 * _UNIT)


def _delta_of_gaussian(mu: float, epsilon: float) -> float:
    """Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), without cancellation (A2, A10)."""
    if mu == inf:
        return 1.0
    from scipy.special import erfcx, ndtr

    far = epsilon / mu
    start = (far - mu / 2) / sqrt(2) - 4 * _UNIT * (far + mu) if far < inf else inf  # as if epsilon were a little less
    if start < -20:  # the second term is below e^-200 of the first, which is nearly 1
        return min(1.0, float(ndtr(-start * sqrt(2))) + 1e-15)
    if start > 27:
        return _TINY
    # Both terms carry the factor exp(-start^2); what is left is a difference of two values of erfcx.
    length = mu / sqrt(2)
    if length > 0.1:
        difference = float(erfcx(start)) - float(erfcx(start + length))
    else:
        nodes, weights = gauss_legendre_quadrature(12)
        at = start + length * (nodes + 1) / 2
        difference = length / 2 * float(weights @ (2 / sqrt(np.pi) - 2 * at * erfcx(at)))
    return min(1.0, 0.5 * exp(-start * start) * difference * (1 + 1e-10) + _TINY)


# ---- one column of a rado


@lru_cache(maxsize=64)
def _losses_of_binomial_shift(event: TruncatedBinomialShift, upwards: bool) -> tuple[Floats, Floats, float]:
    """Losses and masses of the outcomes that both neighbours can give, and the mass of those only one can (A6)."""
    m, low, high = event.n_trials, event.low, event.high
    # Beyond `reach` of the mode no outcome has e^-79 of the mass of the mode; what is dropped counts as infinite.
    mode, reach = min(max(m // 2, low), high), int(sqrt(40 * m)) + 20
    first, last = max(low, mode - reach), min(high, mode + reach)
    k = np.arange(first, last + 1, dtype=np.float64)
    ratios = np.log((m - k[:-1]) / (k[:-1] + 1))  # of C(m, k + 1) to C(m, k)
    weights = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = np.exp(weights - weights.max())
    dropped = 0.0
    if last < high:
        ratio = (m - last) / (last + 1)
        dropped += float(weights[-1]) * ratio / (1 - ratio)
    if first > low:
        ratio = first / (m - first + 1)
        dropped += float(weights[0]) * ratio / (1 - ratio)
    slack = 1 + 100 * _UNIT * (len(k) + 16)
    masses = weights / weights.sum() * slack
    seen = k >= low + event.shift if upwards else k <= high - event.shift
    unseen = float(masses[~seen].sum()) + dropped * slack
    k = k[seen]
    losses = np.zeros(len(k))
    for i in range(event.shift if len(k) else 0):
        losses += np.log((m - k + 1 + i) / (k - i)) if upwards else np.log((k + 1 + i) / (m - k - i))
    return losses, masses[seen], min(1.0, unseen)


def _delta_of_binomial_shift(event: Leaf, epsilon: float) -> float:
    """One use, summed outcome by outcome."""
    assert isinstance(event, TruncatedBinomialShift)
    worst = _TINY
    for upwards in (True, False):
        losses, masses, unseen = _losses_of_binomial_shift(event, upwards)
        gap = losses - epsilon + 8 * _UNIT * (event.shift * (1 + np.abs(losses)) + epsilon)
        worst = max(worst, unseen + float(masses @ -np.expm1(-np.maximum(gap, 0.0))) * (1 + 1e-12))
    return min(1.0, worst)


def _gridded_losses_of_binomial_shift(event: TruncatedBinomialShift, upwards: bool, step: float) -> _Losses:
    losses, masses, unseen = _losses_of_binomial_shift(event, upwards)
    cells = np.floor(losses / step).astype(np.int64)
    # The part that goes to the upper end keeps the mean of e^-loss (A7).
    upper = np.clip(np.expm1(cells * step - losses) / expm1(-step), 0.0, 1.0)
    return _gather_losses_on_grid(cells, masses, upper, unseen, event.shift * float(np.abs(losses).max(initial=0.0)))


# ---- the subsampled Gaussian


def _mixture_of_subsampled_event(leaf: Gaussian | SubsampledGaussian) -> "BinomialMixture":
    """What one use shows when its records are there, in units of the noise."""
    if isinstance(leaf, Gaussian):
        return BinomialMixture(1 / leaf.noise_multiplier, 1.0)
    return BinomialMixture(1 / leaf.noise_multiplier, leaf.probability, leaf.group)


def _losses_of_subsampled_event(mixture: "BinomialMixture", adding: bool, step: float) -> _Losses:
    """The loss of one use: mixture against normal when records are removed, the reverse when added (A5, A12)."""
    from scipy.special import ndtr

    first, last = -_TAIL, _TAIL if adding else _TAIL + mixture.reach
    loss_first, loss_last = (float(loss) for loss in mixture.loss(np.array([first, last])))
    bottom, top = int(np.ceil(loss_first / step)), int(np.floor(loss_last / step))
    inner: Floats = np.arange(bottom, top + 1).astype(np.float64) * step
    places = mixture.inverse(inner, first, last)
    missed = mixture.missed_by(inner, places)
    ends = np.concatenate([[first], np.clip(places, first, last), [last]])
    ends = np.maximum.accumulate(np.where(np.isnan(ends), first, ends))
    plain, mixed = normal_masses(ends), mixture.masses(ends)
    cells = np.arange(bottom - 1, top + 1)
    here, there = (plain, mixed) if adding else (mixed, plain)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(here > 0, there / here, 0.0)  # the mean of e^-loss in the cell
    if adding:  # the loss is minus that of the mixture: cell i lies between -(i + 1) and -i steps
        cells = -cells - 1
    # The part that goes to the upper end keeps the mean of e^-loss (A7).
    upper = np.clip((1 - ratio * np.exp(cells * step)) / -expm1(-step), 0.0, 1.0)
    tail = 1.01 * float(ndtr(-_TAIL))
    gathered = _gather_losses_on_grid(cells, here, upper, tail, max(abs(loss_first), abs(loss_last)))
    gathered.masses[1] += (
        tail  # of the small losses, at the upper end of the lowest cell; that of large ones is infinite
    )
    return gathered._replace(
        masses=gathered.masses * (1 + mixture.weight_error),
        shift=gathered.shift + 2 * (missed + mixture.weight_error),
    )


def _gather_losses_on_grid(
    cells: NDArray[np.int64], masses: Floats, upper: Floats, infinite: float, largest: float
) -> _Losses:
    """All cells' shares at both of their ends."""
    if not len(cells):
        return _Losses(0, np.zeros(1), infinite, 0.0)
    low = int(cells.min())
    size = int(cells.max()) - low + 2
    total = np.bincount(cells - low, masses * (1 - upper), size) + np.bincount(cells - low + 1, masses * upper, size)
    return _Losses(low, np.asarray(total * (1 + 1e-12), dtype=np.float64), infinite, 4e-13 + 2e-14 * largest)


# ---- composition


def _deviation_of_loss(leaf: Leaf) -> tuple[float, float]:
    """Standard deviation and range of the loss of one use; only the choice of the grid depends on them."""
    if isinstance(leaf, TruncatedBinomialShift):
        losses, masses, _ = _losses_of_binomial_shift(leaf, True)
    else:
        assert isinstance(leaf, (Gaussian, SubsampledGaussian))
        mixture = _mixture_of_subsampled_event(leaf)
        y = np.linspace(-_TAIL, _TAIL + mixture.reach, 4001)
        losses, masses = mixture.loss(y), mixture.densities(y)
    if not len(losses):
        return 0.0, 0.0
    masses = masses / masses.sum()
    mean = float(masses @ losses)
    return sqrt(float(masses @ (losses - mean) ** 2)), float(losses.max() - losses.min())


def _event_has_hardly_any_noise(leaf: Leaf) -> bool:
    group = leaf.group if isinstance(leaf, SubsampledGaussian) else 1
    return isinstance(leaf, Gaussian | SubsampledGaussian) and leaf.noise_multiplier < LEAST_MULTIPLIER * group


def _compose_curves(mu: float, others: list[tuple[Leaf, int]]) -> Callable[[float], float]:
    """The curve of several uses; Gaussians among them count as one of distance `mu`."""
    uses = list(others)
    if any(count > MOST_USES for _, count in uses):
        raise ArgumentError(f"at most {MOST_USES} uses of one event are accounted for: give a smaller count")
    if mu > 0:
        uses.append((Gaussian(max(1 / mu * (1 - 4 * _UNIT), _TINY), Relation.RECORD), 1))
    if any(_event_has_hardly_any_noise(leaf) for leaf, _ in uses):
        return lambda epsilon: 1.0
    shapes = [(*_deviation_of_loss(leaf), count) for leaf, count in uses]
    total = sqrt(sum(count * deviation**2 for deviation, _, count in shapes))
    number = sum(count for _, _, count in shapes)
    step = max(
        total / (_STEPS_PER_DEVIATION * sqrt(number)),
        max(width for _, width, _ in shapes) / _MOST_CELLS,
        40 * total / _MOST_BINS,
        1e-12,
    )
    directions = [_convolve_losses(uses, first, step) for first in (True, False)]

    def curve(epsilon: float) -> float:
        return min(1.0, max(_delta_from_losses(losses, step, epsilon) for losses in directions))

    return curve


def _convolve_losses(uses: list[tuple[Leaf, int]], first: bool, step: float) -> _Losses:
    """The loss of all uses in one direction; what rounding can hide is in `infinite` (A8, A10)."""
    from dp_accounting.pld import common
    from scipy.signal import fftconvolve

    low, masses, extra, shift = 0, np.ones(1), 0.0, 0.0
    for leaf, count in uses:
        if isinstance(leaf, TruncatedBinomialShift):
            use = _gridded_losses_of_binomial_shift(leaf, first, step)
        else:
            assert isinstance(leaf, (Gaussian, SubsampledGaussian))
            use = _losses_of_subsampled_event(_mixture_of_subsampled_event(leaf), first, step)
        shift += count * use.shift
        if use.infinite >= 1:
            return _Losses(0, np.zeros(1), 1.0, shift)
        extra -= expm1(count * np.log1p(-use.infinite))
        offset, part = 0, use.masses
        if count > 1:
            offset, entries = common.self_convolve(use.masses, count, _TAIL_MASS)
            if not len(entries):  # next to no finite loss is left
                return _Losses(0, np.zeros(1), 1.0, shift)
            part = np.asarray(entries)
            extra += 2 * _TAIL_MASS + _fourier_loss(part, len(use.masses), count)
        low += use.low * count + offset
        if len(masses) > 1 or masses[0] != 1.0:
            both = fftconvolve(masses, np.maximum(part, 0.0))
            extra += _fourier_loss(both, 0, 2, float(np.linalg.norm(masses)) + float(np.linalg.norm(part)))
            part = both
        masses = np.maximum(part, 0.0)
        low, masses, cut = _trim_loss_tails(low, masses)
        extra += cut
    return _Losses(low, masses, min(1.0, extra * (1 + 1e-12)), shift)


def _fourier_loss(result: Floats, n_before: int, count: int, norm: float | None = None) -> float:
    """How much mass the rounding of a Fourier transform can have taken from a convolution, at most (A8)."""
    size = 4.0 * (len(result) + n_before)  # the transform is at most this long
    width = float(np.linalg.norm(result)) ** (1 - 1 / count) if norm is None else norm
    return sqrt(len(result)) * _UNIT * (count + 1) * (4 * log2(size) + 8) * width


def _trim_loss_tails(low: int, masses: Floats) -> tuple[int, Floats, float]:
    """The masses without their far ends: the upper one counts as infinite loss, the lower one moves up."""
    above, below = np.cumsum(masses[::-1]), np.cumsum(masses)
    end = max(1, len(masses) - int(np.searchsorted(above, _TAIL_MASS, side="right")))
    start = min(int(np.searchsorted(below, _TAIL_MASS, side="right")), end - 1)
    cut = float(above[len(masses) - end - 1]) if end < len(masses) else 0.0
    middle = masses[start:end].copy()
    middle[0] += float(below[start - 1]) if start else 0.0
    return low + start, middle, cut


def _delta_from_losses(losses: _Losses, step: float, epsilon: float) -> float:
    """Delta at epsilon: the mean of 1 - e^(epsilon - loss), where that is positive, plus the infinite mass."""
    below = epsilon - losses.shift - 1e-14 * (1 + epsilon)
    begin = int(min(max(0.0, np.floor(below / step) - 1 - losses.low), len(losses.masses)))
    at = (losses.low + np.arange(begin, len(losses.masses))) * step
    finite = float(losses.masses[begin:] @ -np.expm1(-np.maximum(at - below, 0.0)))
    return losses.infinite + finite * (1 + 1e-11) + _TINY


# ---- A normal whose mean is a binomial number of steps, against a normal: the sum over a Poisson sample of records
# (A5).
#
# With one record there are two components and closed forms; with a group of k records there are k + 1 (A12).


_NEWTON_STEPS = 6
_TABLE = 4096  # places at which the inverse starts from


class BinomialMixture:
    """The normals N(j s, 1), of weight P(j of `group` coins of probability q), against N(0, 1)."""

    def __init__(self, s: float, q: float, group: int = 1) -> None:
        self.s, self.q, self.group = s, q, group
        logs = [log(comb(group, j)) + j * log(q) + (group - j) * log1p(-q) for j in range(group + 1)] if q < 1 else []
        self._logs = np.array(logs)
        # How far, relatively, the weights may be off (A10); the closed forms of one record have no need of it.
        self.weight_error = 8 * _UNIT * (group + float(np.abs(self._logs).max(initial=0.0))) if group > 1 else 0.0

    @property
    def reach(self) -> float:
        """Where the farthest component lies."""
        return self.group * self.s

    def loss(self, y: Floats) -> Floats:
        """log of the mixture over the plain normal, at y standard deviations: it grows with y, and is convex."""
        if self.group == 1:
            s, q = self.s, self.q
            return np.asarray(np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + s * y - s * s / 2))
        return self._loss_and_slope(y)[0]

    def _loss_and_slope(self, y: Floats) -> tuple[Floats, Floats]:
        exponents = [self._logs[j] + j * self.s * y - (j * self.s) ** 2 / 2 for j in range(self.group + 1)]
        top = np.max(exponents, axis=0)
        total, slope = np.zeros_like(y), np.zeros_like(y)
        for j, exponent in enumerate(exponents):
            part = np.exp(exponent - top)
            total += part
            slope += j * self.s * part
        return top + np.log(total), slope / total

    def inverse(self, losses: Floats, first: float, last: float) -> Floats:
        """Where in [first, last] the loss takes these values, in ascending order."""
        if self.group == 1:
            return self._inverse_of_one(losses)
        table = np.linspace(first, last, _TABLE)
        known = self.loss(table)
        place = np.clip(np.searchsorted(known, losses), 1, _TABLE - 1)
        low, high = table[place - 1], table[place]
        y = np.clip(np.interp(losses, known, table), low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(_NEWTON_STEPS):
                value, slope = self._loss_and_slope(y)
                step = np.where(slope > 0, (value - losses) / slope, 0.0)
                y = np.clip(y - step, low, high)
        return y

    def _inverse_of_one(self, losses: Floats) -> Floats:
        s, q = self.s, self.q
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near = np.where(losses < -0.5, (np.exp(losses) - (1 - q)) / q, 1 + np.expm1(losses) / q)
            far = losses + np.log1p(-(1 - q) * np.exp(-losses)) - log(q)
            return np.asarray((np.where(losses > 30, far, np.log(near)) + s * s / 2) / s)

    def missed_by(self, losses: Floats, places: Floats) -> float:
        """By how much the losses at `places` differ from `losses`, at most: what the inverse left open."""
        if self.group == 1 or not len(losses):
            return 0.0
        return float(np.abs(self.loss(places) - losses).max())

    def masses(self, ends: Floats) -> Floats:
        """The mass of the mixture between consecutive ends."""
        if self.group == 1:
            return (1 - self.q) * normal_masses(ends) + self.q * normal_masses(ends - self.s)
        total = np.zeros(len(ends) - 1)
        for j, weight in enumerate(np.exp(self._logs).tolist()):
            total += weight * normal_masses(ends - j * self.s)
        return total

    def densities(self, y: Floats) -> Floats:
        if self.group == 1:
            return np.asarray((1 - self.q) * np.exp(-y * y / 2) + self.q * np.exp(-((y - self.s) ** 2) / 2))
        return np.asarray(np.exp(self.loss(y) - y * y / 2))


def normal_masses(ends: Floats) -> Floats:
    """Standard normal mass between consecutive ends, to a relative error of 1e-13 (A10)."""
    from scipy.special import ndtr

    left, right = ends[:-1], ends[1:]
    flip = left + right > 0  # the far tail has the accurate cumulative
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    wide = ndtr(right) - ndtr(left)
    nodes, weights = gauss_legendre_quadrature(8)
    half = (right - left) / 2
    at = (left + half)[:, None] + half[:, None] * nodes
    narrow = half * (np.exp(-at * at / 2) @ weights) / sqrt(2 * np.pi)
    return np.where((right - left) * np.maximum(1.0, np.abs(left)) < 0.25, narrow, wide)


@lru_cache(maxsize=2)
def gauss_legendre_quadrature(points: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights
