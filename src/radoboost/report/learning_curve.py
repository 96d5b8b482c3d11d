"""The error over the number of rados, from one release, and what more of them would bring.

Rados are independent of each other, so some of a release are as good as a release of so few. Disjoint subsets of one
size show how much the draw of the rados matters.

Theory: rados tell the second moments of the rows but for noise, which turns theta away from exact least squares. Of the
labels' variance, k rados then explain, if theta has D free weights,

    R2(k) = R / (1 + D / k)        R: all that any number of rados would explain

so that 1 / R2 is a line in 1 / k. Noise of the rows themselves, of which there are so many and no more, stays as it is.
The error follows from R2 as if scores were normal, with a factor that makes it the one expected at the size of the
release.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from radoboost.errors import ArgumentError
from radoboost.learner.evaluation import held_out_margins, judge_reliability, release_tells_margins
from radoboost.learner.model import Model
from radoboost.learner.rado_moments import LEAST_RADOS
from radoboost.progress import Progress, silent
from radoboost.release.release import RADOS, Release, load

LEAST = LEAST_RADOS  # that a subset has: of fewer nothing can be held out, and no error is expected
MOST_SUBSETS = 8
_BEYOND = (2, 4)  # times the number of rados
_SIZES = 6
_MOST_EXPLAINED = 0.98
_LARGEST = 3  # sizes that theory goes by: of few rados the learner keeps fewer weights


@dataclass(frozen=True)
class Point:
    """What was learned from subsets of so many rados: one number for each subset.

    `expected` are errors by the learner's own estimate, `r2` the share of the labels' variance that is explained, on
    average, by the rados that are not in the subset (None for all of them), and `measured` errors on a table, if one
    was given.
    """

    n_rados: int
    expected: tuple[float, ...]
    r2: float | None
    measured: tuple[float, ...] | None


@dataclass(frozen=True)
class CurveForecast:
    """What theory foresees at a number of rados; None stands for any number, however large."""

    n_rados: int | None
    r2: float
    error: float


@dataclass(frozen=True, repr=False)
class LearningCurve:
    """Points by number of rados, ascending; theory at each of them, and beyond.

    `limit` is the R2 that no number of rados exceeds, and `freedom` the number of free weights D, both by theory from
    what subsets showed.
    """

    points: tuple[Point, ...]
    theory: tuple[CurveForecast, ...]
    beyond: tuple[CurveForecast, ...]
    limit: float
    freedom: float

    @property
    def doubt(self) -> float:
        """How far off the error at the size of the release is by the draw of the rados: two standard errors of R2."""
        now, reach = self.theory[-1], math.sqrt(8 / self.points[-1].n_rados)
        away = -float(ndtri(min(max(now.error, 1e-9), 0.5))) / max(_margin_deviations(now.r2), 1e-9)
        ends = [float(ndtr(-away * _margin_deviations(min(now.r2 * (1 + side * reach), 0.999)))) for side in (-1, 1)]
        return (ends[0] - ends[1]) / 2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        sizes, errors = self.points, [100 * float(np.mean(point.expected)) for point in self.points]
        return (
            f"LearningCurve(from {sizes[0].n_rados:,} to {sizes[-1].n_rados:,} rados: expected error {errors[0]:.1f} % "
            f"to {errors[-1]:.1f} %)"
        )


def why_no_curve(release: Release) -> str | None:
    if release.n_classes > 2:
        return "There is no learning curve of more than two classes: rados of each class tell no error by themselves."
    if RADOS not in release.blocks or release.law == "noisy moments":
        return (
            "There is no learning curve: the release holds moments, and no rados to take a part of. More rados drawn "
            "from them would tell nothing more."
        )
    if not release_tells_margins(release):
        return "There is no learning curve: the release hides how many rows there are, so rados tell no error."
    if len(release.rados) < 2 * LEAST:
        return f"There is no learning curve of {len(release.rados)} rados; with at least {2 * LEAST} there is one."
    return None


def learning_curve(
    release: Any, *, table: Any = None, label: str | None = None, progress: Progress = silent
) -> LearningCurve:
    """The error of `MomentsClassifier` over the number of rados, and what more rados would bring.

    Parameters
    ----------
    release : Release, or the path of one
        Of two classes, with rados.
    table, label : table in any form, and the name of its column of classes, optional
        Rows to measure errors on, as `rado predict` reads them.
    progress : callable, optional
        Called with what is done, how much of it, and the total.

    Returns
    -------
    LearningCurve
        `points` for subsets of the release's rados; `theory` beside them, and `beyond` them; `to_dict` gives JSON data.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> curve = rb.learning_curve(rb.craft(X, y, n_rados=256, seed=0))
    >>> [(point.n_rados, len(point.expected)) for point in curve.points]
    [(32, 8), (64, 4), (128, 2), (256, 1)]
    >>> [entry.n_rados for entry in curve.beyond]
    [512, 1024, None]
    >>> curve.beyond[-1].error <= curve.theory[-1].error
    True
    """
    release = release if isinstance(release, Release) else load(release)
    if why := why_no_curve(release):
        raise ArgumentError(why)
    if (table is None) != (label is None):
        raise ArgumentError("give both a table and the label, the name of its column of classes, or neither")
    subsets = _disjoint_subsets_of_rados(len(release.rados))
    total, done = sum(len(parts) for parts in subsets.values()), 0
    models: dict[int, list[Model]] = {size: [] for size in subsets}
    for size, parts in subsets.items():
        for part in parts:
            progress("learning from fewer rados", done, total)
            models[size].append(_learn_from_subset(release, part))
            done += 1
    wrong = {} if table is None else _measure_subset_models(models, table, label or "", progress)
    points = tuple(_curve_point(release, parts, models[size], wrong.get(size)) for size, parts in subsets.items())
    return _learning_curve_with_theory(points)


def _disjoint_subsets_of_rados(n_rados: int) -> dict[int, list[NDArray[np.int64]]]:
    """Disjoint subsets of rados by size, ascending: halves, quarters and so on, and all of them.

    Every so manieth rado: those of several holders may lie one after the other.
    """
    steps = [2**power for power in range(_SIZES) if n_rados >> power >= LEAST]
    places = np.arange(n_rados)
    return {
        n_rados // step: [places[first::step][: n_rados // step] for first in range(min(step, MOST_SUBSETS))]
        for step in reversed(steps)
    }


def _learn_from_subset(release: Release, part: NDArray[np.int64]) -> Model:
    import warnings

    from radoboost.errors import NoiseWarning
    from radoboost.estimators.rado_classifiers import MomentsClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # few rados have little to say, as the curve shows
        return MomentsClassifier().fit_rados(release_of_some_rados(release, part)).model_


def release_of_some_rados(release: Release, part: NDArray[np.int64]) -> Release:
    return replace(release, blocks={RADOS: release.rados[part]}, block_columns={})


def _measure_subset_models(
    models: dict[int, list[Model]], table: Any, label: str, progress: Progress
) -> dict[int, tuple[float, ...]]:
    """Errors on the rows of a table, by size, in one pass over it."""
    found = iter(judge_reliability([model for some in models.values() for model in some], table, label, progress))
    return {size: tuple(next(found).error for _ in some) for size, some in models.items()}


def _curve_point(
    release: Release, parts: Sequence[NDArray[np.int64]], models: Sequence[Model], wrong: tuple[float, ...] | None
) -> Point:
    rados, size = release.rados, len(parts[0])
    held = [(model.theta, np.delete(rados, part, axis=0)) for part, model in zip(parts, models, strict=True)]
    r2 = held_out_margins(release, held).r2 if len(rados) - size >= LEAST else None
    expected = tuple(_expected_error_on_curve(model) for model in models)
    return Point(size, expected, r2, wrong)


def _expected_error_on_curve(model: Model) -> float:
    """The error that a learner expects; where it tells none, the one by its R2, as if scores were normal."""
    error = model.learner["expected_error"]
    return float(ndtr(-_margin_deviations(model.learner["r2"] or 0.0)) if error is None else error)


def _learning_curve_with_theory(points: tuple[Point, ...]) -> LearningCurve:
    """The line that 1 / R2 is in 1 / k, by the sizes of subsets, and the errors that follow."""
    level, freedom = fit_learning_curve([(point.n_rados, point.r2) for point in points if point.r2][-_LARGEST:])
    n_rados, error = points[-1].n_rados, float(np.mean(points[-1].expected))
    # R is known but roughly. Where R2 and the error that is expected disagree about it, the lesser promises less.
    away = max(-float(ndtri(min(max(error, 1e-9), 0.5))), 0.0)
    limit = min(level, away**2 / (1 + away**2) * (1 + freedom / n_rados), _MOST_EXPLAINED)
    factor = away / _margin_deviations(limit / (1 + freedom / n_rados)) if limit > 0 else 1.0

    def foreseen(size: int | None) -> CurveForecast:
        r2 = limit if size is None else limit / (1 + freedom / size)
        return CurveForecast(size, r2, float(ndtr(-factor * _margin_deviations(r2))))

    theory = [foreseen(point.n_rados) for point in points]
    beyond = [foreseen(size) for size in (*(times * n_rados for times in _BEYOND), None)]
    return LearningCurve(points, tuple(theory), tuple(beyond), limit, freedom)


def fit_learning_curve(seen: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """R and D of R2(k) = R / (1 + D / k), by least squares on 1 / R2, each weighted by its square; D is not below 0."""
    if not seen:
        return 0.0, 0.0
    sizes, shares = (np.array(column, dtype=np.float64) for column in zip(*seen, strict=True))
    design = np.column_stack([np.ones(len(sizes)), 1 / sizes]) * shares[:, None]
    (level, slope), *_ = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)
    if slope < 0 or level <= 0:  # the draw of the rados hides the line
        return float(shares.mean()), 0.0
    return 1 / float(level), float(slope / level)


def _margin_deviations(r2: float) -> float:
    """How many deviations the mean margin is from 0."""
    return math.sqrt(max(r2, 0.0) / max(1 - r2, 1e-9))
