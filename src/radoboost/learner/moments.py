"""The learner from released moments, and how much noise rados carry.

Releases of the mechanism `moments` hold the mean and the covariance of whitened edge vectors, with noise: theta =
covariance^-1 mean, back in the columns of the release. Rados have moments that are to be estimated first
(`learner.rado_moments`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.learner.effects import Effects, EffectTerm, score_terms
from radoboost.learner.multiclass_moments import ClassGaussians, class_score_scale, class_weight_errors
from radoboost.learner.probabilities import ProbabilityLink, probability_link_of_scores
from radoboost.learner.uncertainty import Curvature, Uncertainty, propagate_noise
from radoboost.release.moment_math import (
    HESSIAN_FLOOR,
    eigenvalue_floor,
    eigenvalue_noise,
    theta_of_whitened_rows,
    unwhitening_factors,
)
from radoboost.release.release import Release

# ---- What a private release does not tell about the columns of a category, and what is put in its place.
#
# The columns of a category add up to 1 in every row that has one of its values, and so does the constant column.
# What is added to the weights of all of them and taken from the constant's changes no score of such a row, so
# that nothing but noise decides how much that is. For a row that has none of the values, a gap or one that is
# new, it would be everything. And a value that hardly any row has gets a weight of nothing but noise.
#
# So the mean weight of a category, by how often each value occurs, goes to the constant, and that of its products
# with another column goes to that column; and values that are too rare to be told from noise get the mean. Scores
# of rows with the other values stay the same. All of it is computed from what was released. Where so many rows
# have none of the values that the release tells, the category stays as it was learned.

_DEVIATIONS = 3.0  # of noise, beyond which there is something


def category_projection(release: Release) -> NDArray[np.float64]:
    """The matrix that takes theta, over the columns of a release of noisy moments, to one with settled categories."""
    d = len(release.columns)
    if release.schema is None or release.columns[-1].scale != "constant":
        return np.eye(d)
    second, noise = release.blocks["moment:C"], float(release.mechanism["noise"]["second"])
    constant, products, matrix = float(release.mechanism["constant"]), _places_of_product_columns(release), np.eye(d)
    coding = _category_coding_matrix(release)
    slots = coding / np.append(np.ones(d - 1), constant)  # the constant column has this value on the sphere
    for places in _places_of_category_slots(release).values():
        across = slots[places].sum(axis=0)  # times a row on the sphere: 0 if one of the values is there, but for its
        across[-1] -= 1.0 / constant  # rounding
        without = float(across @ second @ across)
        counts = np.einsum("ij,jk,ik->i", slots[places], second, slots[places])
        known = counts > _DEVIATIONS * noise * np.square(slots[places]).sum(axis=1)
        rounding = float(np.trace(second)) * (float(np.abs(across).sum()) / release.mechanism["grid"]) ** 2
        if without > max(_DEVIATIONS * noise * float(across @ across), rounding) or not known.any():
            continue
        shares = np.where(known, counts, 0.0) / counts[known].sum()
        step, centred = np.eye(d), np.diag(known.astype(np.float64)) - np.outer(known, shares)
        for factor, of in [(d - 1, places), *_multiplied_columns(places, products)]:
            step[np.ix_(of, of)] = centred
            step[factor, of] = shares
        matrix = step @ matrix
    return np.asarray(coding.T @ matrix @ np.linalg.inv(coding).T)


def _category_coding_matrix(release: Release) -> NDArray[np.float64]:
    """What takes the columns of a release to those in which slots are 0 and 1; the constant one counts as 1."""
    matrix = np.eye(len(release.columns))
    assert release.schema is not None
    inputs = {} if release.map is None else {entry.label: entry for entry in release.map.inputs}
    for place, column in enumerate(release.columns):
        entry = inputs.get(column.name)
        if entry is not None and column.name in release.schema.groups:
            matrix[place, place], matrix[place, -1] = entry.divisor / entry.factor, entry.neutral
    return matrix


def _places_of_product_columns(release: Release) -> dict[frozenset[int], int]:
    """The places of products, by those of the two columns that they are of, without squares.

    Products of a column with all slots of a category add up to that column, as the slots do to the constant one.
    """
    terms = [] if release.map is None else list(release.map.terms)
    own = {term.inputs[0]: place for place, term in enumerate(terms) if term.kind == "linear"}
    pairs = {place: term.inputs for place, term in enumerate(terms) if term.kind == "product"}
    return {
        frozenset(own[name] for name in names): place
        for place, names in pairs.items()
        if names[0] != names[1] and set(names) <= set(own)
    }


def _multiplied_columns(places: list[int], products: dict[frozenset[int], int]) -> Iterator[tuple[int, list[int]]]:
    """Every column that is multiplied with all of some slots, and the places of these products."""
    for factor in sorted({place for pair in products for place in pair} - set(places)):
        pairs = [frozenset((factor, slot)) for slot in places]
        if all(pair in products for pair in pairs):
            yield factor, [products[pair] for pair in pairs]


def _places_of_category_slots(release: Release) -> dict[str, list[int]]:
    """The places of the columns of each category; those that say where a number is missing are none."""
    assert release.schema is not None
    places: dict[str, list[int]] = {}
    for place, column in enumerate(release.columns):
        group = release.schema.groups.get(column.name)
        if group is not None:
            places.setdefault(group, []).append(place)
    return {group: members for group, members in places.items() if len(members) > 1}


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier from noisy moments.

    `uncertainty` says what the noise that the release declares does to theta, `link` how probable the positive class is
    at a score, and `effects` what a model keeps to explain itself. Of more than two classes theta has a row for each,
    and its scale is such that scores are logarithms of probabilities: there is no link, and no effects are kept.
    """

    theta: NDArray[np.float64]
    uncertainty: Uncertainty
    link: ProbabilityLink | None = None
    effects: Effects | None = None

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        return self.uncertainty.standard_errors


def noise_variance_of_rados(release: Release) -> float:
    """How much noise adds to the variance of each column of the rados, as the release says.

    Noise on examples is drawn once for all rados, which differ in the examples that they sum.
    """
    mechanism, signatures = release.mechanism, release.signatures
    if "noise_std" not in mechanism:
        return 0.0
    variance = float(mechanism["noise_std"]) ** 2
    if release.law == "noisy sums":
        return variance
    if release.law != "sums of noisy rows" or release.n_examples is None:
        raise ReleaseError("the release carries noise in a way this version does not know; upgrade radoboost")
    share = float(signatures.get("support", release.n_examples / 2)) / release.n_examples
    return share * (1 - share) * release.n_examples * variance


def rado_noise_std(release: Release) -> float:
    """The standard deviation of the noise that one rado carries in each column."""
    if release.law == "sums of noisy rows" and release.n_examples is not None:
        support = release.signatures.get("support", release.n_examples / 2)
        return float(release.mechanism["noise_std"]) * math.sqrt(support)
    return math.sqrt(noise_variance_of_rados(release))


def uncertainty_of_noise_variance(release: Release) -> float:
    """How uncertain that variance is in any direction, as a share of it: noise on examples is drawn m times only."""
    d = len(release.columns)
    if release.law == "sums of noisy rows" and release.n_examples is not None:
        return 2 * math.sqrt(d / min(release.n_rados, release.n_examples))
    return math.sqrt(d / release.n_rados)


def learn_released_moments(release: Release) -> MomentFit:
    """theta from the moments that a release of the mechanism `moments` holds.

    They are of rows that were put on the sphere, whitened, and put on the sphere again. Theta is for rows as they are,
    so it is divided by how far a typical row was stretched, as far as the moments say. What the moments do not tell
    about categories is settled (`learner.groups`). However little there is, theta is what the moments say:
    shrinking it by the noise, towards zero or towards the noisy class balance, was measured, and gives more errors.
    """
    from threadpoolctl import threadpool_limits

    mechanism, blocks, columns = release.mechanism, release.blocks, release.columns
    parts = score_terms(columns, release.map, release.schema)
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        curvature = Curvature.of(
            blocks["moment:C2"],
            eigenvalue_floor(eigenvalue_noise(mechanism["noise"], "whitened"), len(columns), HESSIAN_FLOOR),
        )
        whitened = theta_of_whitened_rows(blocks, mechanism)
        if release.n_classes > 2:
            clouds = ClassGaussians.of(release, curvature.inverse, whitened)
            to_columns = (
                class_score_scale(release, clouds)
                * category_projection(release)
                @ unwhitening_factors(blocks, mechanism, columns)
            )
            doubt = class_weight_errors(release, curvature, to_columns, whitened)
            return MomentFit(whitened @ to_columns.T, doubt)
        link = probability_link_of_scores(release)
        to_columns = link.scale * category_projection(release) @ unwhitening_factors(blocks, mechanism, columns)
        doubt = propagate_noise(release, curvature, to_columns, whitened, [part.kept for part in parts])
        theta = to_columns @ whitened
        return MomentFit(theta, doubt, link, effects_from_released_moments(release, theta, parts, doubt.covariances))


# ---- What a model keeps of released moments to explain itself.


_TELLING = 2.0  # of noise, beyond which a variance is known
_DIGITS = 6  # of means and variances that are kept


def effects_from_released_moments(
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
    variances = _variances_of_released_effects(release, theta, parts)
    return Effects(tuple(covariances), variances, tuple(_round_effects(means)), tuple(_round_effects(deviations)))


def _variances_of_released_effects(
    release: Release, theta: NDArray[np.float64], parts: Sequence[EffectTerm]
) -> tuple[float | None, ...]:
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
    if whole <= _TELLING * deviation * float(one @ one):  # hardly a row
        return (None,) * len(parts)
    centred = images[:, :-1] - np.outer(one, one @ second @ images[:, :-1] / whole)
    variances = np.einsum("ik,ij,jk->k", centred, second, centred, optimize=True) / whole
    noise = deviation * np.square(centred).sum(axis=0) / whole
    return tuple(
        number if number >= _TELLING * spread else None
        for number, spread in zip(_round_effects(np.maximum(variances, 0.0)), noise, strict=True)
    )


def _round_effects(numbers: NDArray[np.float64]) -> list[float]:
    """To so many digits that a file stays short."""
    return [float(f"{number:.{_DIGITS}g}") for number in numbers]
