"""Least squares from the first two moments of rados, with the shrinkage that held-out rados choose.

A rado of m examples has mean q M and, where each example joins by a coin of probability q, covariance q (1 - q) S: M is
the sum of the edge vectors y_i x_i and S the sum of the products x_i x_i' (docs/proofs/rado-moments.md, step P1).
So the moments of rados estimate both, and theta = S^-1 M is least squares on labels of -1 and 1. The share of the
labels' second moment that some theta explains,

    R2 = (theta' M)^2 / (m theta' S theta),

needs no example either (P4). On rados that theta was not learned from, it has none of the luck of those that it was. So
held-out rados choose the treatment of the covariance and the weight of the identity in it. They do not see that the
examples were few: for that a ridge follows, by empirical Bayes.

Everything here is per example: `mean` is M / m, and `roots` are rows whose products add up to S / m. With fewer rados
than columns nothing of size columns x columns is made; where no rado reaches, S is the identity times its weight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WEIGHTS = (0.0, *(10.0 ** (-power / 2) for power in range(10, 0, -1)), 10.0**-0.1)
"""Of the identity, which are tried."""
N_FOLDS = 5
_RIDGES = np.logspace(-8, 4, 97)  # in units of the mean eigenvalue
_LEAST_VARIANCE = 1e-3  # of labels, that is left over at least
_PASSES = 50
_LEAST_VALUE = 1e-12  # of an eigenvalue, compared with the largest: grids are no finer than 2**-22


@dataclass(frozen=True, eq=False)
class MomentSpectrum:
    """A second moment: eigenvalues, and eigenvectors as columns, where it is not 0."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, roots: NDArray[np.float64]) -> "MomentSpectrum":
        """Of roots' roots, by whichever Gram matrix of the two is the smaller."""
        n, d = roots.shape
        if n >= d:
            values, vectors = np.linalg.eigh(roots.T @ roots)
            return cls(np.maximum(values, 0.0), vectors)
        values, vectors = np.linalg.eigh(roots @ roots.T)
        fine = values > _LEAST_VALUE * max(float(values[-1]), 0.0)
        return cls(values[fine], roots.T @ (vectors[:, fine] / np.sqrt(values[fine])))

    @property
    def n_missing(self) -> int:
        """In how many directions it is 0 and has no eigenvector."""
        return int(self.vectors.shape[0] - self.vectors.shape[1])

    def solve(self, rows: NDArray[np.float64], weight: float, ridge: float = 0.0) -> NDArray[np.float64]:
        """Each row times the inverse of the second moment, with a weight of the identity and a ridge."""
        values = (1 - weight) * self.values + weight + ridge
        fine = values > _LEAST_VALUE * values.max(initial=0.0)
        projected = rows @ self.vectors
        solved = (projected[..., fine] / values[fine]) @ self.vectors[:, fine].T
        if self.n_missing and weight + ridge > 0:
            solved += (rows - projected @ self.vectors.T) / (weight + ridge)
        return np.asarray(solved)

    def freedom(self, weight: float, ridge: float) -> float:
        """Degrees of freedom: how many directions the ridge leaves, of a second moment with a weight of the identity.

        With fewer rados than columns, directions that no rado reaches count by that weight.
        """
        values = (1 - weight) * self.values + weight
        seen = np.divide(values, values + ridge, out=np.zeros(len(values)), where=values > 0)
        return float(seen.sum()) + (self.n_missing * weight / (weight + ridge) if weight else 0.0)


Treatment = Callable[[NDArray[np.float64]], MomentSpectrum]


@dataclass(frozen=True, eq=False)
class Fold:
    """The rados held out in one fold, as `roots`, and the second moment and the mean of the others.

    There is a spectrum for each treatment. `noise` is what noise adds to the second moment in every direction.
    """

    spectra: Sequence[MomentSpectrum]
    mean: NDArray[np.float64]
    roots: NDArray[np.float64]
    noise: float = 0.0

    def second(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """theta' S theta / m on the rados held out, for each row of `theta`; at least 0."""
        own = ((theta @ self.roots.T) ** 2).sum(axis=-1) - self.noise * (theta**2).sum(axis=-1)
        return np.asarray(np.maximum(own, 0.0))

    def freedom(self, place: int, weights: Sequence[float]) -> NDArray[np.float64]:
        """For each weight, the trace of the second moment of rados held out times the inverse of that of the others."""
        spectrum = self.spectra[place]
        squares = ((self.roots @ spectrum.vectors) ** 2).sum(axis=0)
        missing = max(float((self.roots**2).sum() - squares.sum()), 0.0) if spectrum.n_missing else 0.0
        traces = []
        for weight in weights:
            values = (1 - weight) * spectrum.values + weight
            fine = values > _LEAST_VALUE * values.max(initial=0.0)
            traces.append(float((squares[fine] / values[fine]).sum()) + (missing / weight if weight else 0.0))
        return np.array(traces)


@dataclass(frozen=True)
class ShrinkageChoice:
    """The treatment, by its place, the weight of the identity, and the R2 of both on rados held out."""

    place: int
    weight: float
    r2: float


@dataclass(frozen=True, eq=False)
class Scores:
    """How scores theta' x lie on rows: `signal` is the mean of y score, and `second` that of score**2."""

    signal: NDArray[np.float64]
    second: NDArray[np.float64]

    @property
    def r2(self) -> NDArray[np.float64]:
        """The share of the labels' second moment that they explain, at their best scale."""
        explained = np.maximum(self.signal, 0.0) ** 2
        return np.minimum(explained / np.where(self.second > 0, self.second, np.inf), 1.0)

    def on_new_rows(self, freedom: NDArray[np.float64] | float, n_examples: float) -> "Scores":
        """The same without what theta owes to the noise in the labels of its own examples (P6).

        Each degree of freedom adds 1 / m of what scores leave of the labels, on rows that theta did not see. Where they
        are as many as the examples there may be two solutions; this starts where scores explain nothing.
        """
        scores = Scores(np.zeros_like(self.signal), self.second)
        for _ in range(_PASSES):
            signal = np.maximum(self.signal - (1 - scores.r2) * freedom / n_examples, 0.0)
            scores = Scores(signal, self.second)
        return scores


def choose_shrinkage(
    folds: Sequence[Fold],
    mean: NDArray[np.float64],
    apart: float,
    weights: Sequence[Sequence[float]],
    n_examples: float,
    few: bool = False,
) -> ShrinkageChoice:
    """The best of all treatments and, for each, its weights of the identity, by the R2 that new rows would have.

    By `few` rados that is known but roughly: of those that are within a standard error of the best it is then the one
    with the largest weight, and what is known of the covariance is put in.

    `mean` is that of all rados, which they tell well enough. `apart` is the mean of a constant column that was taken
    out: it correlates with no other, so its part of theta is its mean.
    """
    tried: list[tuple[float, int, NDArray[np.float64]]] = []  # weight, minus the place, and the R2 of each fold
    for place, own in enumerate(weights):
        r2 = []
        for fold in folds:
            spectrum = fold.spectra[place]
            thetas = np.stack([spectrum.solve(fold.mean, weight) for weight in own])
            freedom = fold.freedom(place, own) + (apart != 0)
            scores = Scores(thetas @ mean + apart**2, fold.second(thetas) + apart**2)
            r2.append(scores.on_new_rows(freedom, n_examples).r2)
        tried += [(weight, -place, column) for weight, column in zip(own, np.array(r2).T, strict=True)]
    best = max(tried, key=lambda entry: float(entry[2].mean()))[2]
    near = [entry for entry in tried if (best - entry[2]).mean() <= few * _standard_error_over_folds(best - entry[2])]
    weight, place, r2s = max(near, key=lambda entry: entry[:2])
    return ShrinkageChoice(-place, weight, float(r2s.mean()))


def _standard_error_over_folds(differences: NDArray[np.float64]) -> float:
    return float(differences.std(ddof=1) / math.sqrt(len(differences)))


def bayes_ridge(
    spectrum: MomentSpectrum, mean: NDArray[np.float64], weight: float, n_examples: float, r2: float
) -> float:
    """The ridge under which the mean is most likely.

    In the direction of eigenvalue l, least squares has the variance v / (m l) from the examples, where v = 1 - R2 is
    what is left of the labels. Before anything is seen, theta has the variance v / (m ridge) in every direction.
    """
    values = np.concatenate([(1 - weight) * spectrum.values + weight, np.full(spectrum.n_missing, weight)])
    projected = spectrum.vectors.T @ mean
    missing = max(float(mean @ mean - projected @ projected), 0.0)
    squares = np.concatenate([projected**2, np.full(spectrum.n_missing, missing / max(spectrum.n_missing, 1))])
    fine = values > _LEAST_VALUE * values.max(initial=0.0)
    values, squares = values[fine], squares[fine]
    if not len(values):
        return 0.0
    noise = max(1 - r2, _LEAST_VARIANCE) / n_examples
    ridges = _RIDGES * values.mean()
    ratios = values / ridges[:, None] + 1
    likelihood = -0.5 * (np.log(ratios) + squares / (values * noise * ratios)).sum(axis=1)
    return float(ridges[int(np.argmax(likelihood))])


def held_out_scores(
    folds: Sequence[Fold], mean: NDArray[np.float64], apart: float, choice: ShrinkageChoice, ridge: float
) -> Scores:
    """How scores lie that the other rados of each fold give, with what was chosen."""
    signal, second = apart**2, apart**2
    for fold in folds:
        theta = fold.spectra[choice.place].solve(fold.mean, choice.weight, ridge)
        signal += float(theta @ mean) / len(folds)
        second += float(fold.second(theta)) / len(folds)
    return Scores(np.asarray(signal), np.asarray(second))
