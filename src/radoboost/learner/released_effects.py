"""What a model keeps of released moments to explain itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radoboost.learner.effects import Effects, EffectTerm
from radoboost.release.release import Release

_DEVIATIONS = 2.0  # of noise, beyond which a variance is known
_DIGITS = 6  # of means and variances that are kept


def read_effects(
    release: Release,
    theta: NDArray[np.float64],
    parts: Sequence[EffectTerm],
    covariances: Sequence[NDArray[np.float64]],
) -> Effects | None:
    """The effects of a classifier from released moments; None where there is no constant column to centre them by.

    `covariances` are those of the weights of each part.
    """
    if release.columns[-1].scale != "constant":
        return None
    constant, second = float(release.mechanism["constant"]), release.blocks["moment:C"]
    weight = max(float(second[-1, -1]), float(release.mechanism["noise"]["second"]), 1e-6)
    means = np.clip(constant * second[-1, :-1] / weight, -1.0, 1.0)
    covariance = constant**2 * second[:-1, :-1] / weight - np.outer(means, means)
    deviations = np.sqrt(np.clip(np.diag(covariance), 1e-4, 1.0))
    # Weights of a part may vary far more than the curve that they make together: no digit is dropped there.
    variances = _variances(release, theta, parts)
    return Effects(tuple(covariances), variances, tuple(_rounded(means)), tuple(_rounded(deviations)))


def _variances(release: Release, theta: NDArray[np.float64], parts: Sequence[EffectTerm]) -> tuple[float | None, ...]:
    """The variance of each part of scores by the second moments of whitened rows; None where noise exceeds it.

    Their noise was drawn after the whitening. By those from which the whitening comes, a part of many columns would
    seem to have next to no variance, for it is where their noise makes them small that weights grow.
    """
    second, deviation = release.blocks["moment:C2"], float(release.mechanism["noise"]["whitened"])
    weights = np.zeros((len(release.columns), len(parts) + 1))
    for k, part in enumerate(parts):
        weights[list(part.places), k] = theta[list(part.places)]
    weights[-1, -1] = 1 / float(release.mechanism["constant"])
    images = np.linalg.solve(release.blocks["whitening"], weights)
    one = images[:, -1]  # times a row: 1, but for the length that rows have lost
    whole = float(one @ second @ one)
    if whole <= _DEVIATIONS * deviation * float(one @ one):  # hardly a row
        return (None,) * len(parts)
    centred = images[:, :-1] - np.outer(one, one @ second @ images[:, :-1] / whole)
    variances = np.einsum("ik,ij,jk->k", centred, second, centred, optimize=True) / whole
    noise = deviation * np.square(centred).sum(axis=0) / whole
    return tuple(
        number if number >= _DEVIATIONS * spread else None
        for number, spread in zip(_rounded(np.maximum(variances, 0.0)), noise, strict=True)
    )


def _rounded(numbers: NDArray[np.float64]) -> list[float]:
    """To so many digits that a file stays short."""
    return [float(f"{number:.{_DIGITS}g}") for number in numbers]
