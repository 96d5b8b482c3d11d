"""The paper's protocol: ten stratified folds, z-scores over the whole domain, the iterate kept, errors and t-tests.

The iterate kept is the one with the smallest error on the raw training *examples*. The paper (section 4) says
"minimizing the empirical risk", not of what; that it is of the training examples is as in the authors' program. Anyone
who has only rados cannot do that, so the choice lives here and in no learner.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radoboost.errors import ArgumentError
from radoboost.jit import jit
from radoboost.learner.boost import Rounds

N_FOLDS = 10
N_ROUNDS = 1000
MOST_RADOS = 1000
_ROWS_AT_A_TIME = 8192

Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True)
class Summary:
    """An error in percent: its mean over `n` folds, and the standard deviation over them."""

    mean: float
    std: float
    n: int


def standardise(x: ArrayLike) -> NDArray[np.float64]:
    """The columns with mean 0 and standard deviation 1; a constant column becomes 0."""
    values = np.array(x, dtype=np.float64)
    values -= values.mean(axis=0)
    deviation = np.sqrt(np.einsum("ik,ik->k", values, values) / len(values))
    values /= np.where(deviation > 0, deviation, 1.0)
    return values


def stratified_folds(signs: ArrayLike, n_folds: int, generator: np.random.Generator) -> Folds:
    """Pairs of (training, test) row numbers, ascending; sizes and class counts of test folds differ by at most 1."""
    labels = np.asarray(signs)
    classes = [np.flatnonzero(labels == value) for value in np.unique(labels)]
    if n_folds < 2 or len(classes) < 2 or min(map(len, classes)) < n_folds:
        sizes = " and ".join(str(len(rows)) for rows in classes)
        raise ArgumentError(
            f"{n_folds} stratified folds need two classes of at least as many rows each; the classes have {sizes}"
        )
    order = np.concatenate([generator.permutation(rows) for rows in classes])
    number = np.empty(len(labels), dtype=np.int64)
    number[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(n_folds)]


def number_of_rados(n_train: int) -> int:
    """The paper's n: 1000, or half of the training fold where that is less."""
    return min(MOST_RADOS, n_train // 2)


def uniform_rados(edge_vectors: NDArray[np.float64], n: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Sums over `n` uniform subsets of the rows: signatures from all of Sigma_m."""
    rados = np.zeros((n, edge_vectors.shape[1]))
    for start in range(0, len(edge_vectors), _ROWS_AT_A_TIME):
        block = edge_vectors[start : start + _ROWS_AT_A_TIME]
        packed = np.frombuffer(generator.bytes(len(block) * -(-n // 8)), dtype=np.uint8).reshape(len(block), -1)
        bits = np.unpackbits(packed, axis=1, count=n)
        rados += bits.T.astype(np.float64) @ block
    return rados


def fixed_support_rados(
    edge_vectors: NDArray[np.float64], n: int, support: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Sums over `n` uniform subsets of exactly `support` rows."""
    m = len(edge_vectors)
    if not 0 <= support <= m:
        raise ArgumentError(f"a support must be from 0 to the {m:,} rows there are; it is {support}")
    rados = np.empty((n, edge_vectors.shape[1]))
    at_a_time = max(1, (1 << 23) // m)  # 64 MiB of signatures
    for start in range(0, n, at_a_time):
        bits = np.zeros((min(at_a_time, n - start), m))
        for row in bits:
            row[generator.choice(m, support, replace=False, shuffle=False)] = 1.0
        rados[start : start + len(bits)] = bits @ edge_vectors
    return rados


def best_iterate_on_examples(rounds: Rounds, train_edges: NDArray[np.float64], n_features: int) -> NDArray[np.float64]:
    """The theta of the iterate with the smallest error on training examples; the last of those that tie.

    A margin of exactly 0 counts as half an error. Without any round theta is 0.
    """
    if not len(rounds):
        return np.zeros(n_features)
    columns = np.ascontiguousarray(train_edges.T)
    halves = _training_errors_kernel()(columns, rounds.feature, rounds.leverage)
    last = len(rounds) - 1 - int(np.argmin(halves[::-1]))
    return rounds.theta(n_features, last + 1)


@cache
def _training_errors_kernel() -> Callable[..., NDArray[np.int64]]:
    """Twice the number of training errors after each round, compiled."""

    def kernel(columns, feature, leverage):  # type: ignore[no-untyped-def]
        m = columns.shape[1]
        halves = np.zeros(len(feature), dtype=np.int64)
        margins = np.empty(min(m, _ROWS_AT_A_TIME))
        for start in range(0, m, _ROWS_AT_A_TIME):
            size = min(_ROWS_AT_A_TIME, m - start)
            margins[:] = 0.0
            for t in range(len(feature)):
                column, alpha, count = columns[feature[t], start : start + size], leverage[t], 0
                for i in range(size):
                    margins[i] += alpha * column[i]
                    count += (margins[i] < 0.0) + (margins[i] <= 0.0)
                halves[t] += count
        return halves

    return jit(kernel)


def share_of_test_errors(
    theta: NDArray[np.float64], test_edges: NDArray[np.float64], generator: np.random.Generator
) -> float:
    """The fraction of test examples that theta gets wrong; a score of exactly 0 is decided by a coin."""
    margins = test_edges @ theta
    coins = generator.random(len(margins)) < 0.5
    return float(np.where(margins == 0, coins, margins < 0).mean())


def summarise_fold_errors(errors: Sequence[float]) -> Summary:
    """Fractions wrong, one a fold, as mean and standard deviation in percent."""
    percent = 100 * np.asarray(errors, dtype=np.float64)
    spread = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
    return Summary(round(float(percent.mean()), 12), round(spread, 12), len(percent))


def paired_t_test(a: Sequence[float], b: Sequence[float]) -> float:
    """The p of a two-tailed paired t-test; 1 where no pair differs."""
    from scipy.special import stdtr

    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n = len(differences)
    if n < 2 or not differences.any():
        return 1.0
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    # Where all pairs differ by the same, t is infinite.
    return 2 * float(stdtr(n - 1, -abs(float(differences.mean())) / error)) if error > 0 else 0.0


def errors_between(ours: Summary, theirs: Summary) -> float:
    """How far two mean errors are apart, in units of the standard error of their difference."""
    combined = math.sqrt(ours.std**2 / ours.n + theirs.std**2 / theirs.n)
    difference = abs(ours.mean - theirs.mean)
    if combined == 0:
        return math.inf if difference > 0 else 0.0
    return difference / combined
