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
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from radoboost.errors import ArgumentError, ModelError, ReleaseError
from radoboost.release.class_summary import facts_of_classes
from radoboost.release.columns import CONSTANT
from radoboost.release.kind import POOLED_SUMS, SUMS
from radoboost.release.moment_math import EDGES
from radoboost.release.release import RADOS, Release
from radoboost.tables.labels import class_key

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
class ProbabilityLink:
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

    def with_shift(self, shift: float) -> "ProbabilityLink":
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


def probability_link_of_scores(release: Release) -> ProbabilityLink:
    """The link of the scores that follow from released moments, for new rows."""
    link = probability_link_by_counts(release)
    return shorten_link(link, _score_counts(release), float(release.mechanism["score_unit"]), len(release.columns))


def probability_link_by_counts(release: Release) -> ProbabilityLink:
    """The link for the rows of the table, by the counts in the release."""
    mechanism = release.mechanism
    return fit_probability_link(
        _score_counts(release), float(mechanism["noise"]["scores"]), float(mechanism["score_unit"])
    )


def _score_counts(release: Release) -> NDArray[np.float64]:
    return release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)


def fit_probability_link(counts: NDArray[np.float64], noise_std: float, unit: float) -> ProbabilityLink:
    """The link of counted rows, by noisy counts: [score above 0][positive class][size, by `EDGES` times `unit`]."""
    edges = np.array(EDGES) * unit
    below, above = (_log_likelihoods(counts[side, side], counts[side, 1 - side], noise_std, edges) for side in (0, 1))
    middle, apart = (_LOG_SLOPES[:, None] + _LOG_SLOPES) / 2, _LOG_SLOPES[:, None] - _LOG_SLOPES
    prior = -0.5 * (np.square((middle - _MIDDLE) / _SPREAD) + np.square(apart / _APART))
    posterior = above[:, None, :] + below[None, :, :] + prior[:, :, None]
    posterior = np.exp(posterior - posterior.max())
    posterior /= posterior.sum()
    up, down = (float(posterior.sum(axis=(other, 2)) @ _LOG_SLOPES) for other in (1, 0))
    bend = float(posterior.sum(axis=(0, 1)) @ _BENDS) / float(edges[-1]) ** 2
    scale = math.exp((up + down) / 2)
    return ProbabilityLink(math.exp((up - down) / 2), math.exp((down - up) / 2), bend / scale**2, scale)


def shorten_link(link: ProbabilityLink, counts: NDArray[np.float64], unit: float, n_columns: int) -> ProbabilityLink:
    """The link with its log odds shortened by about as much as so many fitted columns make them too long."""
    gain = 2 * _likelihood_gain_of_link(link, counts, np.array(EDGES) * unit)
    left = max(_LEAST_LEFT, 1 - n_columns / max(gain, 1.0))
    return replace(link, scale=link.scale * left, bend=link.bend / left**2)


def _likelihood_gain_of_link(link: ProbabilityLink, counts: NDArray[np.float64], edges: NDArray[np.float64]) -> float:
    """By how much the link raises the log likelihood of so many rows over that of even odds."""
    points, masses = _integration_points_by_score_size(edges)
    rows = np.maximum(counts.sum(axis=1), 0.0)[:, :, None] * masses / masses.sum()
    chances = expit([link.log_odds(side * link.scale * points) for side in (-1, 1)])
    return float((rows * (math.log(2) - entr(chances) - entr(1 - chances))).sum())


def _integration_points_by_score_size(edges: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points within each of three sizes of scores, a row for each, and their weights in an integral."""
    low, high = np.append(0.0, edges), np.append(edges, _FARTHEST * edges[-1])
    steps, masses = np.polynomial.legendre.leggauss(5)
    return (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * steps, masses


def _log_likelihoods(
    right: NDArray[np.float64], wrong: NDArray[np.float64], noise_std: float, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log likelihoods of slopes (rows) and bends (columns), by counts of right and wrong scores of three sizes.

    Right less wrong, less what is expected of so many, has the noise of both counts and that of the sample. Within a
    size, scores are spread as the numbers of its neighbours say.
    """
    points, masses = _integration_points_by_score_size(edges)
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


# ---- A population with other shares of the classes than the table had: log odds move by log(new odds / old odds).
#
# By Bayes' rule, if only the shares differ, and not what rows of each class look like, this is exact for log odds
# that are exact for the table. The old shares are what the release tells of them: by its constant column, or by
# noisy counts. Of more than two classes noisy moments have no counts, and shares are estimates:
# `rough_class_shares_text`
# says how rough.

Prior = float | Mapping[Any, float]

_EXACT_LAWS = (SUMS, POOLED_SUMS, "banded sums")  # the constant of a row is 1 there, whatever else is in it


def class_shares(release: Release) -> tuple[float, ...]:
    """The share of each class among the rows of a table, as far as its release tells, in the order of `classes`.

    A plain release tells it but for the chance of its signatures, about 1 / (2 sqrt(rows * rados)); one of `Moments`
    by noisy counts, or, for more than two classes, by sums of rows that nearly count them (`release.class_sizes`):
    within a few per cent of themselves where many columns were made, and up to a fifth off for rare classes where few
    were. Others tell nothing that can be used.

    >>> import radoboost as rb
    >>> release = rb.craft(np.arange(1000.0)[:, None], np.arange(1000) % 4 == 0, seed=1)
    >>> [round(share, 2) for share in class_shares(release)]
    [0.75, 0.25]
    """
    return class_shares_of_releases([release])


def class_shares_of_releases(releases: Sequence[Release]) -> tuple[float, ...]:
    """The shares of all releases together: numbers of rows by class add up."""
    release, found = releases[0], [_rows_by_class(release) for release in releases]
    known = [counts for counts in found if counts is not None]
    counts = np.sum(known, axis=0) if len(known) == len(found) else None
    if counts is None:
        raise ReleaseError(
            "the release does not tell which share of its rows each class has: it needs a constant column, and a "
            "mechanism that counts rows, such as plain or moments; give shares yourself: model.with_prior(new, old)"
        )
    if absent := [repr(value) for value, count in zip(release.classes, counts, strict=True) if count <= 0]:
        raise ReleaseError(
            f"by what the release tells, noise included, no rows have the class {' or '.join(absent)}, so no "
            "prior can be given; give the table's own shares, if they are known: model.with_prior(new, old); or craft "
            "without such classes, or with a larger epsilon"
        )
    return tuple(float(count / sum(counts)) for count in counts)


def rough_class_shares_text(release: Release) -> str | None:
    """How rough the shares of a release are, in words; None where chance or the noise of counts is all."""
    facts = facts_of_classes(release) if release.n_classes > 2 else []
    limits = {each.value: each.between for each in facts if each.between is not None}
    if not limits:
        return None
    whole = sum(each.rows or 0.0 for each in facts)
    value, (least, most) = max(limits.items(), key=lambda item: item[1][1] / max(item[1][0], 1e-300))
    return (
        "the shares of more than two classes are estimates where a release has noisy moments and no rados: that of "
        f"{value!r}, the roughest, may be anything from {100 * least / whole:.2g} to {100 * most / whole:.2g} % of the "
        "rows; if you know those of the table, learn without a prior and call model.with_prior(prior, old)"
    )


def _rows_by_class(release: Release) -> NDArray[np.float64] | None:
    """Numbers of rows by class, in any unit; None where the release does not tell."""
    if release.n_classes > 2:
        rows = [facts.rows for facts in facts_of_classes(release)]
        return None if None in rows else np.array(rows, dtype=np.float64)
    if "scores" in release.blocks:
        counts = release.blocks["scores"].reshape(2, 2, len(EDGES) + 1)  # by side of 0, class and size
        return np.asarray(counts.sum(axis=(0, 2)))
    if release.law not in _EXACT_LAWS or release.columns[-1].name != CONSTANT or RADOS not in release.blocks:
        return None
    m = release.n_examples
    assert m is not None
    members = float(release.signatures.get("support", m / 2))
    excess = float(release.rados[:, -1].mean()) / members  # of the positive class, as a share
    return np.array([1 - excess, 1 + excess])


def class_shares_of_prior(prior: Any, classes: tuple[Any, ...], what: str = "prior") -> NDArray[np.float64]:
    """Shares by class, from a probability of the positive class, or a mapping in which one class may be missing."""
    if isinstance(prior, Mapping):
        places = {class_key(value): place for place, value in enumerate(classes)}
        shares = np.full(len(classes), np.nan)
        for value, share in prior.items():
            if class_key(value) not in places:
                raise ArgumentError(
                    f"{what} names the class {value!r}; the classes are {', '.join(map(repr, classes))}"
                )
            shares[places[class_key(value)]] = _check_class_share(share, what)
        if np.isnan(shares).sum() == 1:
            shares[np.isnan(shares)] = 1 - np.nansum(shares)
        missing = [repr(value) for value in classes if class_key(value) not in {class_key(named) for named in prior}]
        if len(missing) > 1:
            raise ArgumentError(
                f"{what} must have a share above 0 for each class but one, which gets the rest; there is none for "
                f"{', '.join(missing)}"
            )
    elif isinstance(prior, tuple | list) and len(prior) == len(classes):
        shares = np.array([_check_class_share(share, what) for share in prior])
    elif len(classes) == 2:
        share = _check_class_share(prior, what)
        shares = np.array([1 - share, share])
    else:
        raise ArgumentError(
            f"{what} of {len(classes)} classes must say which share is whose, {_prior_form_text(classes)}; it is "
            f"{prior!r}"
        )
    if not ((shares > 0) & (shares < 1)).all() or abs(math.fsum(shares) - 1) > 1e-9:
        raise ArgumentError(
            f"{what} must be shares above 0 that add up to 1, one for each class, or for each but one, which gets the "
            f"rest; it is {prior!r}"
        )
    return shares


def _prior_form_text(classes: tuple[Any, ...]) -> str:
    """How shares by class are written, on the command line and in Python; one class may be left out."""
    named = classes[1:]
    options = " ".join(f"--prior {shlex.quote(f'{value}=SHARE')}" for value in named[:3])
    pairs = ", ".join(f"{value!r}: SHARE" for value in named[:3])
    more = len(named) > 3
    return f"{options}{' ...' if more else ''}, or {{{pairs}{', ...' if more else ''}}} in Python"


def _check_class_share(share: Any, what: str) -> float:
    try:
        return float(share)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} must be a share between 0 and 1; it is {share!r}") from None
