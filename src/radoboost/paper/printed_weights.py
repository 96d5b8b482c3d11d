"""RadoBoost's weights as Algorithm 1 prints them: each round divides by 1 - r_t^2, and nothing makes them sum to 1.

In exact arithmetic they do sum to 1. In floating point a sum of 1 + s becomes 1 + s / (1 - r_t^2), so that a rounding
error grows from round to round: downwards the edges shrink to almost nothing, upwards the weights overflow. The package
divides by the sum instead, which is the same in exact arithmetic, and keeps the edges where they are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.boost import LEAST_EDGE, Rounds
from radoboost.paper.protocol import N_ROUNDS, best_on_examples, share_wrong


def boost_as_printed(
    rows: NDArray[np.float64], *, n_rounds: int = N_ROUNDS, clamp: float = 0.0
) -> tuple[Rounds, float, float]:
    """RadoBoost in plain NumPy with those weights; its rounds, the least |r_t| before the clamp, and the last sum.

    It ends where the weights overflow or no edge is left.
    """
    largest = np.abs(rows).max(axis=0)
    divisor = np.where(largest > 0, largest, 1.0)
    scaled = np.ascontiguousarray((rows / divisor).T)
    weights = np.full(len(rows), 1 / len(rows))
    feature, edge, leverage, least = [], [], [], 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(n_rounds):
            edges = scaled @ weights
            if not np.isfinite(edges).all():
                break
            k = int(np.argmax(np.abs(edges)))
            least = min(least, float(abs(edges[k])))
            if abs(edges[k]) < LEAST_EDGE:
                break
            r = np.copysign(min(max(abs(edges[k]), clamp), 1 - LEAST_EDGE), edges[k])
            weights = weights * ((1 - r * scaled[k]) / (1 - r * r))
            feature.append(k)
            edge.append(r)
            leverage.append((np.log1p(r) - np.log1p(-r)) / (2 * divisor[k]))
        total = float(weights.sum())
    rounds = Rounds(np.array(feature, dtype=np.int64), np.array(edge), np.array(leverage), np.zeros(len(feature)))
    return rounds, least, total


def one_fold(
    rados: NDArray[np.float64],
    train: NDArray[np.float64],
    test: NDArray[np.float64],
    clamp: float,
    generator: np.random.Generator,
) -> dict[str, Any]:
    """The test error, by the protocol of Table 1, and the least |r_t|; `train` and `test` are edge vectors."""
    rounds, least, _ = boost_as_printed(rados, clamp=clamp)
    theta = best_on_examples(rounds, train, train.shape[1])
    return {"error": share_wrong(theta, test, generator), "least_edge": least}
