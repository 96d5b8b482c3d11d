"""How probable the positive class is at a score.

Mean rados have capped weights, their noise goes into the classifier, and rows were put on the sphere before anything
was summed: so scores are not log odds. Private counts of rows by score and class say what they are:

    log odds = slope s / sqrt(1 + bend s**2)       with one slope for scores above 0 and one for those below

The posterior mean of both slopes and of the bend, given the counts and the noise that they declare, is what is taken.
The rows that are counted are those that theta was fitted to, and it fits them better than others: for new rows log odds
are taken 1 - p / chi2 times, with p columns and twice the gain chi2 in log likelihood (van Houwelingen and le Cessie,
1990; here over log odds of 0, for that is where they shrink to). The scale that both slopes share goes into theta, so
that scores near 0 are log odds.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from radoboost.errors import ArgumentError, ModelError
from radoboost.release import Release
from radoboost.release.scores import EDGES

# Before any count: log slopes around 0.7 with deviation 0.5, the two of them alike but for a deviation of 0.3, and
# bends from none to strong, in units of the upper edge. Those of eight tables lay well within.
_MIDDLE, _SPREAD, _APART = math.log(0.7), 0.5, 0.3
_LOG_SLOPES = np.linspace(math.log(0.05), math.log(8.0), 60)
_BENDS = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
_FARTHEST = 1.8  # of the upper edge: up to where scores beyond it are thought to lie
_STEEPEST = 4.0  # change of the log density of scores over the upper edge
_LEAST_LEFT = 0.8  # of log odds, for new rows: the formula is for a gain well above the number of columns
_FIELDS = ("up", "down", "bend", "scale")


@dataclass(frozen=True)
class Link:
    """Log odds of scores: `up` times the score above 0 and `down` times it below, bent by `bend`.

    `scale` is what theta was multiplied with, and is no part of the formula. Where a prior was given, `offset` is added
    to log odds, and `origin` to all scores beforehand, so that a score of 0 still has log odds of 0.
    """

    up: float = 1.0
    down: float = 1.0
    bend: float = 0.0
    scale: float = 1.0
    origin: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.up, self.down, self.bend, self.scale, self.origin, self.offset)
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise ModelError("the link of a model needs finite numbers")
        if min(self.up, self.down, self.scale) <= 0 or self.bend < 0:
            raise ModelError("the link of a model needs slopes and a scale above 0, and a bend that is not below 0")

    def log_odds(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log odds of the positive class."""
        scores = scores - self.origin
        slopes = np.where(scores > 0, self.up, self.down)
        root = math.sqrt(self.bend)
        return np.asarray(slopes * scores / np.hypot(1.0, root * scores)) + self.offset

    @property
    def shifted(self) -> bool:
        """Whether a prior was given."""
        return (self.origin, self.offset) != (0.0, 0.0)

    @property
    def limits(self) -> tuple[float, float]:
        """What log odds lie between, however large scores are."""
        root = math.sqrt(self.bend)
        ends = (-math.inf, math.inf) if root == 0 else (-self.down / root, self.up / root)
        return ends[0] + self.offset, ends[1] + self.offset

    def with_shift(self, shift: float) -> "Link":
        """The link whose log odds are larger by `shift`, and 0 at a score of 0, for scores with its `origin` added."""
        offset = self.offset + shift
        slope = self.up if offset < 0 else self.down
        rest = slope**2 - self.bend * offset**2
        if rest <= 0:
            low, high = (end - self.offset for end in self.limits)
            raise ArgumentError(
                f"with this prior log odds move by {offset:.3g}, and those of the model stay between {low:.3g} and "
                f"{high:.3g}: every row would be of one class; give a prior that is nearer to the shares of the table"
            )
        return replace(self, origin=offset / math.sqrt(rest), offset=offset)

    def to_dict(self) -> dict[str, float]:
        """The link as JSON data."""
        fields = asdict(self)
        return fields if self.shifted else {name: fields[name] for name in _FIELDS}

    @classmethod
    def from_dict(cls, entry: Any) -> Self:
        if not isinstance(entry, Mapping) or set(entry) not in (set(_FIELDS), {*_FIELDS, "origin", "offset"}):
            raise ModelError("a link has up, down, bend and scale, perhaps origin and offset; upgrade radoboost")
        return cls(**entry)


def score_link(release: Release) -> Link:
    """The link of the scores that follow from released moments, for new rows."""
    link = counted_link(release)
    return for_new_rows(link, _counts(release), float(release.mechanism["score_unit"]), len(release.columns))


def counted_link(release: Release) -> Link:
    """The link for the rows of the table, by the counts in the release."""
    mechanism = release.mechanism
    return fitted_link(_counts(release), float(mechanism["noise"]["scores"]), float(mechanism["score_unit"]))


def _counts(release: Release) -> NDArray[np.float64]:
    return release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)


def fitted_link(counts: NDArray[np.float64], noise_std: float, unit: float) -> Link:
    """The link of counted rows, by noisy counts: [score above 0][positive class][size, by `EDGES` times `unit`]."""
    edges = np.array(EDGES) * unit
    below, above = (_likelihoods(counts[side, side], counts[side, 1 - side], noise_std, edges) for side in (0, 1))
    middle, apart = (_LOG_SLOPES[:, None] + _LOG_SLOPES) / 2, _LOG_SLOPES[:, None] - _LOG_SLOPES
    prior = -0.5 * (np.square((middle - _MIDDLE) / _SPREAD) + np.square(apart / _APART))
    posterior = above[:, None, :] + below[None, :, :] + prior[:, :, None]
    posterior = np.exp(posterior - posterior.max())
    posterior /= posterior.sum()
    up, down = (float(posterior.sum(axis=(other, 2)) @ _LOG_SLOPES) for other in (1, 0))
    bend = float(posterior.sum(axis=(0, 1)) @ _BENDS) / float(edges[-1]) ** 2
    scale = math.exp((up + down) / 2)
    return Link(math.exp((up - down) / 2), math.exp((down - up) / 2), bend / scale**2, scale)


def for_new_rows(link: Link, counts: NDArray[np.float64], unit: float, n_columns: int) -> Link:
    """The link with its log odds shortened by about as much as so many fitted columns make them too long."""
    gain = 2 * _gain(link, counts, np.array(EDGES) * unit)
    left = max(_LEAST_LEFT, 1 - n_columns / max(gain, 1.0))
    return replace(link, scale=link.scale * left, bend=link.bend / left**2)


def _gain(link: Link, counts: NDArray[np.float64], edges: NDArray[np.float64]) -> float:
    """By how much the link raises the log likelihood of so many rows over that of even odds."""
    points, masses = _within_sizes(edges)
    rows = np.maximum(counts.sum(axis=1), 0.0)[:, :, None] * masses / masses.sum()
    chances = expit([link.log_odds(side * link.scale * points) for side in (-1, 1)])
    return float((rows * (math.log(2) - entr(chances) - entr(1 - chances))).sum())


def _within_sizes(edges: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points within each of three sizes of scores, a row for each, and their weights in an integral."""
    low, high = np.append(0.0, edges), np.append(edges, _FARTHEST * edges[-1])
    steps, masses = np.polynomial.legendre.leggauss(5)
    return (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * steps, masses


def _likelihoods(
    right: NDArray[np.float64], wrong: NDArray[np.float64], noise_std: float, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log likelihoods of slopes (rows) and bends (columns), by counts of right and wrong scores of three sizes.

    Right less wrong, less what is expected of so many, has the noise of both counts and that of the sample. Within a
    size, scores are spread as the numbers of its neighbours say.
    """
    points, masses = _within_sizes(edges)
    total, centre = right + wrong, points[:, len(masses) // 2]
    density = np.maximum(total, max(noise_std, 1.0)) / np.diff([0.0, *edges, _FARTHEST * edges[-1]])
    tilt = np.clip(np.gradient(np.log(density), centre), -_STEEPEST / edges[-1], _STEEPEST / edges[-1])
    weights = masses * np.exp(tilt[:, None] * (points - centre[:, None]))
    weights /= weights.sum(axis=1, keepdims=True)
    bends = (_BENDS / edges[-1] ** 2)[:, None, None]
    odds = np.exp(_LOG_SLOPES)[:, None, None, None] * points / np.sqrt(1 + bends * np.square(points))
    excess = (np.tanh(odds / 2) * weights).sum(axis=-1)
    variance = noise_std**2 * (1 + excess**2) + np.maximum(total, 0.0) * (1 - excess**2) + 1
    misfit = np.square(right - wrong - excess * total) / variance + np.log(variance)
    return np.asarray(-0.5 * misfit.sum(axis=-1))
