"""All learners on one release, compared without any example: each is held against rados that it did not see.

Every rado is held out once. Rados that are held out are the same for all learners, so the chance of their draw, which
is most of what R2 is off by, is the same for all, too. With a table, errors are measured on its rows as well.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, NoiseWarning
from radoboost.learner import evaluation
from radoboost.learner.model import Model
from radoboost.learner.penalised_boost import PENALTIES
from radoboost.progress import Progress, silent
from radoboost.release.release import Release, load
from radoboost.report.learning_curve import release_of_some_rados

FOLDS = 5
LEAST = 13  # rados: the ten that are left of them, with a fifth held out, can again be held out
_SEED = 0  # of rados that are drawn from moments, so that a release has one comparison


@dataclass(frozen=True, repr=False)
class LearnerComparison:
    """A learner on a release.

    `r2` is the share of the labels' variance that it explains, by rados that were held out, `spread` the standard error
    of that, and `expected_error` the share of the table's own rows that it gets wrong, as far as such rados tell: None
    where they do not, or there are none. `measured` is what it is worth on the rows of a table, if one was given.
    `n_used` of `n_columns` columns have a weight. `seconds` is how long it learned from the whole release.
    """

    name: str
    how: str
    r2: float | None
    spread: float | None
    expected_error: float | None
    measured: evaluation.Reliability | None
    n_used: int
    n_columns: int
    seconds: float

    def __repr__(self) -> str:
        told = [] if self.r2 is None else [f"r2={self.r2:.3f}"]
        told += [] if self.expected_error is None else [f"expected_error={self.expected_error:.4f}"]
        told += [] if self.measured is None else [f"measured.error={self.measured.error:.4f}"]
        return f"Compared({', '.join([repr(self.name), *told])}, uses {self.n_used:,} of {self.n_columns:,} columns)"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "measured": None if self.measured is None else self.measured.to_dict()}


def learners_to_compare() -> Mapping[str, tuple[str, Any]]:
    """The learners that are compared: how each learns, and its shell, by name."""
    from radoboost.estimators.rado_classifiers import MomentsClassifier, RadoBoostClassifier

    found: dict[str, tuple[str, Any]] = {
        "moments": ("least squares from the mean and the covariance of rados", MomentsClassifier()),
        "boost": ("RadoBoost, as in the paper", RadoBoostClassifier(random_state=_SEED)),
    }
    for penalty in PENALTIES:
        shell = RadoBoostClassifier(random_state=_SEED, penalty=penalty, stop="held-out")
        on = "a penalty on scores" if penalty == "scores" else f"a {penalty} penalty"
        found[f"boost, {penalty}"] = (f"RadoBoost with {on}, stopped by rados held out", shell)
    return found


def compare_learners(
    release: Any, *, table: Any = None, label: str | None = None, progress: Progress = silent
) -> tuple[LearnerComparison, ...]:
    """All learners on one release, by rados that are held out, and on the rows of a table if one is given.

    Parameters
    ----------
    release : Release, or the path of one
        Of rados and two classes, or nothing is held out: then the learners are compared on a table alone.
    table, label : table in any form, and the name of its column of classes, optional
        Rows to measure errors on, as `rado predict` reads them.
    progress : callable, optional
        Called with what is done, how much of it, and the total.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = rb.compare_learners(rb.craft(X, y, n_rados=1000, seed=0))
    >>> [each.name for each in found[:2]], found[0].r2 > found[1].r2
    (['moments', 'boost'], True)
    """
    release = release if isinstance(release, Release) else load(release)
    if (table is None) != (label is None):
        raise ArgumentError("give both a table and the label, the name of its column of classes, or neither")
    shells, folds = learners_to_compare(), FOLDS if why_no_rados_held_out(release) is None else 0
    if 0 < release.n_rados < 2 * FOLDS:  # too few for learners that hold some out themselves
        shells = {name: shells[name] for name in ("moments", "boost")}
    models, held, seconds = [], [], []
    for place, (_, shell) in enumerate(shells.values()):
        pairs = []
        for fold in range(folds):
            progress("comparing learners", place * (folds + 1) + fold, len(shells) * (folds + 1))
            own = np.arange(len(release.rados)) % folds == fold
            theta = _learn_to_compare(shell, release_of_some_rados(release, np.flatnonzero(~own))).theta
            pairs.append((theta, release.rados[own]))
        held.append(evaluation.held_out_margins(release, pairs) if pairs else None)
        start = time.monotonic()  # after the folds, so that nothing is compiled while the time is taken
        models.append(_learn_to_compare(shell, release))
        seconds.append(time.monotonic() - start)
    measured = (
        [None] * len(models) if table is None else evaluation.judge_reliability(models, table, label or "", progress)
    )
    return tuple(
        LearnerComparison(
            name,
            shells[name][0],
            None if found is None else found.r2,
            None if found is None else found.spread,
            None if found is None else found.error,
            each,
            int(np.atleast_2d(model.theta)[:, : len(model.column_names)].any(axis=0).sum()),
            len(model.column_names),
            round(took, 3),
        )
        for name, found, each, model, took in zip(shells, held, measured, models, seconds, strict=True)
    )


def why_no_rados_held_out(release: Release) -> str | None:
    if release.n_classes > 2:
        return "Rados of more than two classes tell no error by themselves: learners are compared on a table alone."
    if not release.n_rados or release.law == "noisy moments":
        return (
            "The release holds moments, and no rados to hold out: learners are compared on a table alone. Boosting "
            "draws rados from the moments."
        )
    if not evaluation.release_tells_margins(release):
        return (
            "The release hides how many rows there are, so rados tell no error: a table is needed to compare learners."
        )
    if len(release.rados) < LEAST:
        return f"{len(release.rados)} rados are too few to hold some out."
    return None


def _learn_to_compare(shell: Any, release: Release) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # said where the model itself was learned
        model: Model = shell.fit_rados(release).model_
    return model
