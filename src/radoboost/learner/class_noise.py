"""How far the declared noise moves a classifier of more than two classes, to first order.

Each mean rado moves all classifiers after it by a step times its noise, and each of those takes some of it back: as
much as the curvature of the class weights says, on average over normal clouds of scores and over the classifiers that
were released, times the second moment of rows. In the eigenvectors of both, every noise goes its own way: it shrinks by
one factor in each round. The first classifier is the discriminant, and how
noise moves that is found by adding a little noise to its sums, several times.
"""

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.class_scores import Clouds
from radoboost.learner.uncertainty import Curvature, Curved, Uncertainty, empty_chance
from radoboost.release import Release
from radoboost.release.discriminants import centred, class_step, discriminant

_CLASSIFIERS = 8  # at most, or about, whose curvature is taken
_AGAIN, _PART = 32, 0.1  # times that noise is added once more, and how much of it
_SHORTEST = -0.9  # were a factor less, the rounds would not have settled


def measure_classes(
    release: Release,
    curvature: Curvature,
    to_columns: NDArray[np.float64],
    whitened: NDArray[np.float64],
) -> Uncertainty:
    """The uncertainty of theta = `whitened` times the transpose of `to_columns`; each class has a row in both."""
    curved = Curved.of(release, curvature)
    values, own = np.linalg.eigh(_slopes(release, curvature))
    variances = _variances(release, curvature, curved.values, np.maximum(values, 0.0), own)
    columns = np.square(to_columns @ curvature.vectors)
    errors = np.sqrt(np.square(own) @ variances @ columns.T)
    made = float(variances.sum(axis=0) @ curved.values)
    whole = float(np.square(whitened @ curvature.vectors).sum(axis=0) @ curved.values)
    share = min(made / whole, 1.0) if whole > 0 else 1.0
    return Uncertainty(errors, (), share, empty_chance(release))


def _slopes(release: Release, curvature: Curvature) -> NDArray[np.float64]:
    """How much mean rados take back of a change of scores, on average over some of the classifiers that they are of."""
    rounds, (n_classes, d) = int(release.mechanism["rounds"]), release.blocks["moment:b"].shape
    if not rounds:
        return np.eye(n_classes)
    thetas = release.blocks["theta"].reshape(rounds + 1, n_classes, d)[:-1]
    some = thetas[:: max(1, rounds // _CLASSIFIERS)]
    return np.asarray(np.mean([Clouds.of(release, curvature.inverse, theta).curvature() for theta in some], axis=0))


def _variances(
    release: Release,
    curvature: Curvature,
    seconds: NDArray[np.float64],
    slopes: NDArray[np.float64],
    own: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Of the classifier, in the eigenvectors `own` of classes and those of the second moment."""
    mechanism, noise = release.mechanism, release.mechanism["noise"]
    start = _start_variances(release, curvature, own)
    rounds, n_classes = int(mechanism["rounds"]), len(own)
    if not rounds:
        return start
    step = class_step(n_classes, float(mechanism["eta"]))
    factors = np.clip(1 - step * np.outer(slopes, seconds * curvature.inverses), _SHORTEST, 1.0)
    kept = np.arange(rounds // 2 + 1, rounds + 1)
    total = start * np.square(np.mean([factors**t for t in kept], axis=0))
    for r in range(rounds):
        later = np.sum([factors ** (t - 1 - r) for t in kept if t > r], axis=0) / len(kept)
        total += np.square(step * float(noise["rounds"]) * curvature.inverses * later)
    # Mean rados are centred: there is no noise along what all classes share.
    shared = np.square(own.sum(axis=0)) / n_classes
    return np.asarray(total * (1 - shared)[:, None])


def _start_variances(release: Release, curvature: Curvature, own: NDArray[np.float64]) -> NDArray[np.float64]:
    noise, sums = release.mechanism["noise"], release.blocks["moment:b"]
    inverse = curvature.inverse
    first = discriminant(sums, inverse, float(noise["sum"]))
    draws = np.random.default_rng(0).standard_normal((_AGAIN, *sums.shape))
    total = np.zeros(sums.shape)
    for draw in draws:
        moved = discriminant(sums + _PART * float(noise["sum"]) * draw, inverse, float(noise["sum"]))
        total += np.square(own.T @ centred(moved - first) @ curvature.vectors)
    return total / (_AGAIN * _PART**2)
