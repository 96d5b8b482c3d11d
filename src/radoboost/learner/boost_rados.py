"""RadoBoost over the rados of a release, with a penalty or held-out rados where these are asked for.

A strength is measured on the examples' side: it is what the mean logistic risk of the examples has added to it,

    lasso    strength sum |theta_k|
    ridge    strength sum theta_k^2 / 2
    scores   strength / 2 times the mean of squared scores

with theta in the columns of the release, and without the constant one, but for scores. On the rados' side that is m
times as much for m examples (L5 of docs/proofs/losses.md), and four times as much of theta' C theta / 2 (L9).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.learner.boost import BoostingResult, Rounds
from radoboost.learner.moments import noise_variance_of_rados
from radoboost.learner.multiclass_moments import moments_of_classes, rados_of_all_classes
from radoboost.learner.penalised_boost import PENALTIES, boost_penalised, penalty_on_rados
from radoboost.release.release import Release, class_block_name

# ---- How many rounds, and how much of a penalty: what rados say that boosting did not see.
#
# Rados are independent of each other, so some of them can stand for rados to come. One in five is held out, by
# position, and boosting runs over the others; each fifth is held out once. Of margins theta.rado over rados that
# were held out, the ratio of mean and standard deviation is what counts. It does not depend on the length of
# theta, and over all of Sigma_m its square is m times the share of the labels' variance that theta explains (L8
# of docs/proofs/losses.md). The exponential risk of held-out rados would be the obvious criterion, but it keeps
# falling for thousands of rounds, for where nearly all margins are positive a longer theta has less of it.
# Nothing here needs an example.

HELD_OUT = "held-out"
FOLDS = 5
LEAST_RADOS = 2 * FOLDS
_ROUNDS_AT_A_TIME = 256
_EQUAL = 1e-10  # of a ratio

Boosting = Callable[[NDArray[np.float64], int], BoostingResult]  # over these rados, for at most so many rounds


@dataclass(frozen=True)
class StoppingPoint:
    """Which of several ways of boosting, after how many rounds, and the held-out mean / deviation of its margins."""

    place: int
    n_rounds: int
    ratio: float


def choose_stopping_point(
    rados: NDArray[np.float64], ways: Sequence[Boosting], n_rounds: int, *, stop: bool
) -> StoppingPoint:
    """The way of boosting that held-out rados speak for, and with `stop` the rounds; the first of equal ones."""
    n = len(rados)
    if n < LEAST_RADOS:
        raise ArgumentError(
            f"holding rados out needs {LEAST_RADOS} of them; there are {n}: craft more, or leave it out"
        )
    best: StoppingPoint | None = None
    for place, way in enumerate(ways):
        curve = np.zeros(n_rounds)
        for fold in range(FOLDS):
            held = np.arange(n) % FOLDS == fold
            own = held_out_margin_ratios(way(rados[~held], n_rounds).rounds, rados[held])
            curve += np.pad(own, (0, n_rounds - len(own)), mode="edge") / FOLDS if len(own) else 0.0
        most = float(curve.max())  # rounds in a row that lengthen theta alone are equal but for rounding
        end = int(np.argmax(curve >= most - _EQUAL * abs(most))) if stop else n_rounds - 1
        if best is None or curve[end] > best.ratio + _EQUAL * abs(best.ratio):
            best = StoppingPoint(place, end + 1, float(curve[end]))
    assert best is not None
    return best


def held_out_margin_ratios(rounds: Rounds, rados: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over standard deviation of the margins of these rados, after each round."""
    ratios, margins = np.zeros(len(rounds)), np.zeros((len(rados), 1))
    for start in range(0, len(rounds), _ROUNDS_AT_A_TIME):
        part = slice(start, start + _ROUNDS_AT_A_TIME)
        path = margins + np.cumsum(rados[:, rounds.feature[part]] * rounds.leverage[part], axis=1)
        mean = path.mean(axis=0)
        # Margins that are all alike, as in a release of one row, say nothing of their deviation.
        ratios[part] = mean / np.maximum(path.std(axis=0), 1e-9 * np.abs(mean) + np.finfo(np.float64).tiny)
        margins = path[:, -1:]
    return ratios


# Weights that held-out rados choose from. Lasso: as shares of that beyond which no column has a weight. Ridge: in units
# of the mean variance of columns. Scores: as they are.
_TRIED = {"lasso": (0.3, 0.1, 0.03, 0.01, 0.003), "ridge": (10.0, 1.0, 0.1, 0.01, 0.001), "scores": (10.0, 1.0, 0.1)}
_SCORES = 4.0  # over all of Sigma_m a rado has a quarter of the examples' second moments as covariance


@dataclass(frozen=True)
class BoostingPenalty:
    """What keeps boosting from going too far: a penalty of some strength, and a stop. All of them may be absent."""

    penalty: str | None = None
    strength: float | str = HELD_OUT
    stop: str | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and self.penalty not in PENALTIES:
            raise ArgumentError(f"penalty must be None, or one of {', '.join(PENALTIES)}; it is {self.penalty!r}")
        if self.stop not in (None, HELD_OUT):
            raise ArgumentError(f"stop must be None or {HELD_OUT!r}; it is {self.stop!r}")
        number = isinstance(self.strength, Real) and not isinstance(self.strength, bool)
        if self.strength != HELD_OUT and not (number and 0 <= float(self.strength) < np.inf):
            raise ArgumentError(f"strength must be {HELD_OUT!r} or a number of at least 0; it is {self.strength!r}")

    @property
    def absent(self) -> bool:
        return self.penalty is None and self.stop is None


def boost_rados(
    rows: NDArray[np.float64], plain: Boosting, n_rounds: int, restraint: BoostingPenalty, release: Release
) -> tuple[BoostingResult, dict[str, Any]]:
    """Boost over rados of a release, `plain` being how that goes without a penalty; and what was done beyond that."""
    ways, weights = [plain], list[float]()
    if restraint.penalty is not None:
        free = np.array([column.scale == "constant" for column in release.columns])
        weights = _penalty_weights_to_try(rows, restraint, free, release)
        ways = [partial(_boost_with_penalty, name=restraint.penalty, weight=weight, free=free) for weight in weights]
    place, did = 0, dict[str, Any]()
    if restraint.stop is not None or len(ways) > 1:
        chosen = choose_stopping_point(rows, ways, n_rounds, stop=restraint.stop is not None)
        place, n_rounds = chosen.place, chosen.n_rounds
        did = {"held_out_ratio": chosen.ratio}
    if restraint.stop is not None:
        did = {"stop": restraint.stop, **did}
    if restraint.penalty is not None:
        by = {"strength_by": HELD_OUT} if restraint.strength == HELD_OUT else {}
        did = {"penalty": restraint.penalty, **_penalty_strengths(restraint, weights[place], release), **by, **did}
    return ways[place](rows, n_rounds), did


def _boost_with_penalty(
    rows: NDArray[np.float64], n_rounds: int, name: str, weight: float, free: NDArray[np.bool_]
) -> BoostingResult:
    return boost_penalised(rows, penalty_on_rados(rows, name, weight, free), n_rounds=n_rounds)


def _penalty_weights_to_try(
    rows: NDArray[np.float64], restraint: BoostingPenalty, free: NDArray[np.bool_], release: Release
) -> list[float]:
    """The weights on the rados' side: the one that was asked for, or those to choose from."""
    name = restraint.penalty
    assert name is not None
    if restraint.strength != HELD_OUT:
        per_strength = _SCORES if name == "scores" else examples_behind_rados(release)
        return [float(restraint.strength) * per_strength]
    held = rows[:, ~free] if not free.all() else rows
    unit = {"lasso": np.abs(held.mean(axis=0)).max(), "ridge": held.var(axis=0).mean(), "scores": 1.0}[name]
    return [share * float(unit) for share in _TRIED[name]]


def _penalty_strengths(restraint: BoostingPenalty, weight: float, release: Release) -> dict[str, float]:
    """A weight on the rados' side as a strength, as far as the release tells how many examples there are."""
    if restraint.strength != HELD_OUT:
        return {"strength": float(restraint.strength)}
    if restraint.penalty == "scores":
        return {"strength": weight / _SCORES}
    return {"weight": weight} if release.n_examples is None else {"strength": weight / release.n_examples}


def examples_behind_rados(release: Release) -> float:
    """How many examples a release is from: as it says, or else four times the variance of its constant column."""
    if release.n_examples is not None:
        return float(release.n_examples)
    if release.columns[-1].scale == "constant" and release.n_classes == 2:
        count = 4 * (float(release.rados[:, -1].var()) - noise_variance_of_rados(release))
        if count >= 1:
            return count
    raise ArgumentError(
        "the release does not tell how many examples it is from, which a strength is measured by; give "
        f"strength={HELD_OUT!r}, or penalty='scores', whose strength does not depend on that"
    )


# ---- Which columns a model uses, the most important first.
#
# What a column adds to scores is about its weight times how far its values spread. A rado sums each example by a
# fair coin, so the standard deviation of a column over the rados is half the root of its sum of squares: the same
# multiple of its spread for every column, as the release tells it, noise included.


def features_used_by_model(release: Release, theta: NDArray[np.float64]) -> list[str]:
    """The names of the columns whose weight is not 0, the most important first; without the constant one.

    Of more than two classes `theta` has a row for each, and what counts is how weights differ between classes.
    """
    if release.n_classes == 2:
        spreads, sizes = release.rados.std(axis=0), np.abs(theta)
    else:
        spreads = rados_of_all_classes(release).sum(axis=0).std(axis=0)
        sizes = theta.std(axis=0)
    importances = sizes * np.maximum(spreads, np.finfo(np.float64).tiny)
    order = np.lexsort((np.arange(len(sizes)), -importances))
    columns = release.columns
    return [columns[k].name for k in order if sizes[k] > 0 and columns[k].scale != "constant"]


# ---- Each of more than two classes against the others: their rados, and scores that can be compared.
#
# A classifier of one class against the others that was boosted from rados has the right direction, more or less, and
# a length that depends on how large the rados are: those of a rare class against all others are large, and its
# weights small. So its score is put through a line, a score + b, fitted by the logistic risk to what the rados tell:
# in every class the score is taken as normal, with the mean and variance that follow from the moments of the class.
# Then all scores are log odds, and the largest says which class a row is of.


_POINTS = 64  # of a normal distribution
_RIDGE = 1e-3  # on the slope, in units of the score, for classes that nothing separates


def rados_one_vs_rest(release: Release) -> Iterator[NDArray[np.float64]]:
    """For each class its rados against the others: those of a table with two classes, over the same signatures."""
    blocks = [release.blocks[class_block_name(value)] for value in release.classes]
    total = np.sum(blocks, axis=0)
    for rows in blocks:  # whole numbers of grid steps below 2**53, so that nothing is rounded
        yield 2 * rows - total


def comparable_weights(
    release: Release, thetas: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of one class against the others, (K, n_columns), whose scores are log odds; and slope and offset of each.

    Without a constant column there is no place for an offset, and nothing tells how many examples a class has: weights
    stay as they are.
    """
    lines = np.tile([1.0, 0.0], (len(thetas), 1))
    if release.columns[-1].scale != "constant":
        return thetas, lines
    moments = moments_of_classes(release)
    present = moments.sizes > 0
    if present.sum() < 2:
        raise ReleaseError("examples of fewer than two classes are in the rados; craft more of them")
    sizes = moments.sizes[present]
    for place, theta in enumerate(thetas):
        means = moments.means[present] @ theta[:-1] + theta[-1]
        variances = np.square(moments.deviations[present] @ theta[:-1]).mean(axis=1) / sizes
        own = np.flatnonzero(present) == place
        lines[place] = (
            _class_log_odds(means, np.sqrt(variances), sizes, own) if own.any() else (0.0, math.log(0.5 / sizes.sum()))
        )
    found = thetas * lines[:, :1]
    found[:, -1] += lines[:, 1]
    return found, lines


def _class_log_odds(
    means: NDArray[np.float64], deviations: NDArray[np.float64], sizes: NDArray[np.float64], own: NDArray[np.bool_]
) -> tuple[float, float]:
    """Slope and offset that make log odds of a score, which is normal in every class."""
    from scipy.optimize import minimize

    points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    scores = (means[:, None] + deviations[:, None] * points / points.std()).ravel()
    masses = np.repeat(sizes / sizes.sum() / _POINTS, _POINTS)
    unit = math.sqrt(float(masses @ np.square(scores))) or 1.0
    rows = np.column_stack([scores / unit, np.ones(len(scores))])
    signs = np.repeat(np.where(own, 1.0, -1.0), _POINTS)
    ridge = np.array([_RIDGE / sizes.sum(), 0.0])

    def risk(line: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (rows @ line)
        slopes = masses * signs * expit(-margins)
        value = float(masses @ np.logaddexp(0.0, -margins)) + float(ridge @ np.square(line)) / 2
        return value, ridge * line - slopes @ rows

    share = float(sizes[own].sum() / sizes.sum())
    start = np.array([0.0, math.log(share / (1 - share))])
    found = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-12, "gtol": 1e-8})
    return float(found.x[0]) / unit, float(found.x[1])
