"""Rados in the band of the paper's feature-wise mechanism, learned from and accounted: the work of feature-privacy.

The band of `FeatureInterval` is used at every epsilon at which it holds anything, also where the mechanism
`FeatureBand` refuses because no promise is left. What a column of rados reveals is accounted exactly, for its marginal:
docs/proofs/feature-band.md.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.keystream import TILE_ROWS
from radoboost.holder.mechanisms import FeatureBand
from radoboost.holder.mechanisms.claims import DEFAULT_DELTA
from radoboost.holder.signatures import FeatureInterval
from radoboost.learner.boost import boost
from radoboost.paper.cells import Cell, Options, cell_generator
from radoboost.paper.domains import Domain, load
from radoboost.paper.protocol import (
    N_FOLDS,
    N_ROUNDS,
    best_on_examples,
    number_of_rados,
    share_wrong,
    standardised,
    stratified_folds,
    uniform_rados,
)
from radoboost.privacy import Repeated, TruncatedBinomialShift, band, delta_at, epsilon_at

NAME = "feature-privacy"
VERSION = 1

DOMAINS = ("fertility", "ionosphere", "abalone")
"""Those with a binary feature; of Abalone it is one of its three sexes."""


@dataclass(frozen=True)
class Plan:
    epsilons: tuple[float, ...]
    repeats: int
    folds: int
    rounds: int


def plan(options: Options) -> Plan:
    """The epsilons of one rado, how often folds are drawn, how many, and how many rounds of boosting."""
    if options.quick:
        return Plan((0.1, 1.0, 10.0), 1, 5, 200)
    return Plan((0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0), 10, N_FOLDS, N_ROUNDS)


# ---- the protected feature


def protected(domain: Domain) -> tuple[NDArray[np.float64], int, str]:
    """Features with one protected: z-scores, but -1 and +1 in that column; which it is, and its name.

    As in the authors' program it is the binary feature whose edges y_i x_i are the most evenly -1 and +1.
    """
    x, names = domain.x, list(domain.feature_names)
    if domain.name == "abalone":
        place = names.index("sex")
        sexes = {"sex_m": 1.0, "sex_f": -1.0, "sex_i": 0.0}
        one_hot = np.column_stack([x[:, place] == code for code in sexes.values()]).astype(np.float64)
        x, names = np.hstack([one_hot, np.delete(x, place, axis=1)]), [*sexes, *np.delete(names, place).tolist()]
    binary = [k for k in range(x.shape[1]) if len(np.unique(x[:, k])) == 2]
    if not binary:
        raise ArgumentError(f"no feature of {domain.name} is binary; leave the domain out")
    positive = domain.signs > 0
    uneven = [abs(2 * int(((x[:, k] == x[:, k].max()) == positive).sum()) - len(x)) for k in binary]
    best = binary[int(np.argmin(uneven))]
    columns = standardised(x)
    columns[:, best] = np.where(x[:, best] == x[:, best].max(), 1.0, -1.0)
    return columns, best, str(names[best])


def band_rados(
    edges: NDArray[np.float64], place: int, interval: tuple[int, int], n: int, key: bytes
) -> NDArray[np.float64]:
    """Rados whose value in the protected column is m(+) - K, with K in the interval (F1 and F2 of the proof)."""
    m = len(edges)
    tiles = -(-m // TILE_ROWS)
    words = FeatureInterval(*interval).prepare(key, n, m).words(0, tiles, np.empty((tiles, n), dtype=np.uint64))
    packed = np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)
    subset = np.unpackbits(packed, axis=1, count=m, bitorder="little")
    members: NDArray[np.float64] = (subset != (edges[:, place] > 0)).astype(np.float64)
    return members @ edges


# ---- cells


def cells(options: Options) -> list[Cell]:
    """One for each domain, repetition and fold, and one for the account of each domain and epsilon."""
    chosen, names = plan(options), [name for name in DOMAINS if name in options.domains]
    learning = [
        Cell.of(NAME, domain=name, repeat=repeat, fold=fold)
        for name in names
        for repeat in range(chosen.repeats)
        for fold in range(chosen.folds)
    ]
    return learning + [Cell.of(NAME, domain=name, epsilon=epsilon) for name in names for epsilon in chosen.epsilons]


def work(cell: Cell, options: Options) -> dict[str, Any]:
    """Test errors of one fold, at all epsilons; or the account of one epsilon."""
    chosen, domain = plan(options), load(cell["domain"], options.data)
    columns, place, name = protected(domain)
    if (epsilon := cell.get("epsilon")) is not None:
        m = len(columns) - -(-len(columns) // chosen.folds)  # of the smallest training fold
        return {**totals(m, number_of_rados(m), epsilon), "feature": name}
    edges = columns * domain.signs[:, None]
    of_repeat = cell_generator(Cell.of(NAME, domain=cell["domain"], repeat=cell["repeat"]), options)
    train, test = stratified_folds(domain.signs, chosen.folds, of_repeat)[cell["fold"]]
    generator = cell_generator(cell, options)
    n = number_of_rados(len(train))

    def learn(rows: NDArray[np.float64], update: str = "multiplicative") -> tuple[float, float]:
        """Test error, and the share of the protected feature in |theta|."""
        theta = best_on_examples(boost(rows, n_rounds=chosen.rounds, update=update).rounds, edges[train], len(edges[0]))
        return share_wrong(theta, edges[test], generator), float(abs(theta[place]) / max(np.abs(theta).sum(), 1e-300))

    banded: list[tuple[float | None, float | None]] = []
    for epsilon in chosen.epsilons:
        interval, key = _interval(len(train), epsilon), generator.bytes(32)
        rows = None if interval is None else band_rados(edges[train], place, interval, n, key)
        banded.append((None, None) if rows is None else learn(rows))
    return {
        "band": [error for error, _ in banded],
        "share": [share for _, share in banded],
        "plain": learn(uniform_rados(edges[train], n, generator))[0],
        "adaboost": learn(edges[train], "exponential")[0],
    }


def _interval(m: int, epsilon: float) -> tuple[int, int] | None:
    """The band, or None if it holds nothing."""
    try:
        return band(m, epsilon)
    except ArgumentError:
        return None


def totals(m: int, n: int, epsilon: float, delta: float = DEFAULT_DELTA) -> dict[str, Any]:
    """What n rados over m examples reveal of the column's marginal, exactly, beside what the paper says.

    `floor` is the probability that some rado lies at the end of the band that only one of two neighbours can give: no
    delta is below. `epsilon` is that at `delta`, and None if there is none, so that `FeatureBand` refuses; `delta`
    is that at the paper's n epsilon. The paper's delta is O(m^(-5/2) / epsilon) a rado; its constant is taken as 1.
    """
    plain = epsilon_at(Repeated(TruncatedBinomialShift(m, 0, m), n), delta)
    account = {
        "m": m,
        "n": n,
        "paper_epsilon": n * epsilon,
        "paper_delta": min(1.0, n * m**-2.5 / epsilon),
        "plain_epsilon": _finite(plain),
        **dict.fromkeys(("low", "high", "floor", "epsilon", "delta")),
    }
    interval = _interval(m, epsilon)
    if interval is None:
        return account
    end = end_probability(m, *interval)
    floor = -math.expm1(n * math.log1p(-end)) if end < 1 else 1.0
    event = FeatureBand("protected", epsilon, delta).event(m, n)
    return {  # where the floor decides, there is nothing to account
        **account,
        "low": interval[0],
        "high": interval[1],
        "floor": floor,
        "epsilon": _finite(epsilon_at(event, delta)) if floor <= delta else None,
        "delta": delta_at(event, n * epsilon) if floor < 1 - 1e-9 else 1.0,
    }


def end_probability(m: int, low: int, high: int) -> float:
    """The probability that K, binomial over m fair coins within low .. high, is at one end of a symmetric band."""
    ways = [math.comb(m, low)]
    for k in range(low, high):
        ways.append(ways[-1] * (m - k) // (k + 1))
    return ways[0] / sum(ways)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
