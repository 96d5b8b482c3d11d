"""How many rounds, and how much of a penalty: what rados say that boosting did not see.

Rados are independent of each other, so some of them can stand for rados to come. One in five is held out, by position,
and boosting runs over the others; each fifth is held out once. Of margins theta.rado over rados that were held out, the
ratio of mean and standard deviation is what counts. It does not depend on the length of theta, and over all of Sigma_m
its square is m times the share of the labels' variance that theta explains (L8 of docs/proofs/losses.md). The
exponential risk of held-out rados would be the obvious criterion, but it keeps falling for thousands of rounds, for
where nearly all margins are positive a longer theta has less of it. Nothing here needs an example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.learner.boost import Boosted, Rounds

HELD_OUT = "held-out"
FOLDS = 5
LEAST_RADOS = 2 * FOLDS
_ROUNDS_AT_A_TIME = 256
_EQUAL = 1e-10  # of a ratio

Boosting = Callable[[NDArray[np.float64], int], Boosted]  # over these rados, for at most so many rounds


@dataclass(frozen=True)
class Chosen:
    """Which of several ways of boosting, after how many rounds, and the held-out mean / deviation of its margins."""

    place: int
    n_rounds: int
    ratio: float


def choose(rados: NDArray[np.float64], ways: Sequence[Boosting], n_rounds: int, *, stop: bool) -> Chosen:
    """The way of boosting that held-out rados speak for, and with `stop` the rounds; the first of equal ones."""
    n = len(rados)
    if n < LEAST_RADOS:
        raise ArgumentError(
            f"holding rados out needs {LEAST_RADOS} of them; there are {n}: craft more, or leave it out"
        )
    best: Chosen | None = None
    for place, way in enumerate(ways):
        curve = np.zeros(n_rounds)
        for fold in range(FOLDS):
            held = np.arange(n) % FOLDS == fold
            own = held_out_ratios(way(rados[~held], n_rounds).rounds, rados[held])
            curve += np.pad(own, (0, n_rounds - len(own)), mode="edge") / FOLDS if len(own) else 0.0
        most = float(curve.max())  # rounds in a row that lengthen theta alone are equal but for rounding
        end = int(np.argmax(curve >= most - _EQUAL * abs(most))) if stop else n_rounds - 1
        if best is None or curve[end] > best.ratio + _EQUAL * abs(best.ratio):
            best = Chosen(place, end + 1, float(curve[end]))
    assert best is not None
    return best


def held_out_ratios(rounds: Rounds, rados: NDArray[np.float64]) -> NDArray[np.float64]:
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
