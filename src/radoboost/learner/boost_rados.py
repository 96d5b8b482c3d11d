"""RadoBoost over the rados of a release, with a penalty or held-out rados where these are asked for.

A strength is measured on the examples' side: it is what the mean logistic risk of the examples has added to it,

    lasso    strength sum |theta_k|
    ridge    strength sum theta_k^2 / 2
    scores   strength / 2 times the mean of squared scores

with theta in the columns of the release, and without the constant one, but for scores. On the rados' side that is m
times as much for m examples (L5 of docs/proofs/losses.md), and four times as much of theta' C theta / 2 (L9).
"""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.learner.boost import Boosted
from radoboost.learner.moments import noise_variance
from radoboost.learner.regularised import PENALTIES, boost_regularised, penalty_on
from radoboost.learner.stopping import HELD_OUT, Boosting, choose
from radoboost.release import Release

# Weights that held-out rados choose from. Lasso: as shares of that beyond which no column has a weight. Ridge: in units
# of the mean variance of columns. Scores: as they are.
_TRIED = {"lasso": (0.3, 0.1, 0.03, 0.01, 0.003), "ridge": (10.0, 1.0, 0.1, 0.01, 0.001), "scores": (10.0, 1.0, 0.1)}
_SCORES = 4.0  # over all of Sigma_m a rado has a quarter of the examples' second moments as covariance


@dataclass(frozen=True)
class Restraint:
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
    rows: NDArray[np.float64], plain: Boosting, n_rounds: int, restraint: Restraint, release: Release
) -> tuple[Boosted, dict[str, Any]]:
    """Boost over rados of a release, `plain` being how that goes without a penalty; and what was done beyond that."""
    ways, weights = [plain], list[float]()
    if restraint.penalty is not None:
        free = np.array([column.scale == "constant" for column in release.columns])
        weights = _weights(rows, restraint, free, release)
        ways = [partial(_penalised, name=restraint.penalty, weight=weight, free=free) for weight in weights]
    place, did = 0, dict[str, Any]()
    if restraint.stop is not None or len(ways) > 1:
        chosen = choose(rows, ways, n_rounds, stop=restraint.stop is not None)
        place, n_rounds = chosen.place, chosen.n_rounds
        did = {"held_out_ratio": chosen.ratio}
    if restraint.stop is not None:
        did = {"stop": restraint.stop, **did}
    if restraint.penalty is not None:
        by = {"strength_by": HELD_OUT} if restraint.strength == HELD_OUT else {}
        did = {"penalty": restraint.penalty, **_strengths(restraint, weights[place], release), **by, **did}
    return ways[place](rows, n_rounds), did


def _penalised(rows: NDArray[np.float64], n_rounds: int, name: str, weight: float, free: NDArray[np.bool_]) -> Boosted:
    return boost_regularised(rows, penalty_on(rows, name, weight, free), n_rounds=n_rounds)


def _weights(rows: NDArray[np.float64], restraint: Restraint, free: NDArray[np.bool_], release: Release) -> list[float]:
    """The weights on the rados' side: the one that was asked for, or those to choose from."""
    name = restraint.penalty
    assert name is not None
    if restraint.strength != HELD_OUT:
        per_strength = _SCORES if name == "scores" else examples_behind(release)
        return [float(restraint.strength) * per_strength]
    held = rows[:, ~free] if not free.all() else rows
    unit = {"lasso": np.abs(held.mean(axis=0)).max(), "ridge": held.var(axis=0).mean(), "scores": 1.0}[name]
    return [share * float(unit) for share in _TRIED[name]]


def _strengths(restraint: Restraint, weight: float, release: Release) -> dict[str, float]:
    """A weight on the rados' side as a strength, as far as the release tells how many examples there are."""
    if restraint.strength != HELD_OUT:
        return {"strength": float(restraint.strength)}
    if restraint.penalty == "scores":
        return {"strength": weight / _SCORES}
    return {"weight": weight} if release.n_examples is None else {"strength": weight / release.n_examples}


def examples_behind(release: Release) -> float:
    """How many examples a release is from: as it says, or else four times the variance of its constant column."""
    if release.n_examples is not None:
        return float(release.n_examples)
    if release.columns[-1].scale == "constant" and release.n_classes == 2:
        count = 4 * (float(release.rados[:, -1].var()) - noise_variance(release))
        if count >= 1:
            return count
    raise ArgumentError(
        "the release does not tell how many examples it is from, which a strength is measured by; give "
        f"strength={HELD_OUT!r}, or penalty='scores', whose strength does not depend on that"
    )
