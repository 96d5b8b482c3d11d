"""A classifier from private moments of several holders: the average of theirs, weighted by how much each can tell.

Each holder's moments are of rows that it whitened itself, so that their sums mean nothing. What can be put together is
what follows from them, in the columns that all share: theta_k, and the second moment H_k of scores under it,

    theta = (sum of H_k)^-1 (sum of H_k theta_k)      H_k = T^-T C2_k T^-1      theta_k = T (whitened theta)

where C2_k is the second moment of whitened rows, its eigenvalues raised to what noise alone could be. That is one
Newton step on the sum of the holders' risks, each taken as a parabola: directions in which a holder has no rows do not
count for it. Plain averages are worse where columns differ between holders. Holders whose release an empty table
would rather have given than not are left out, unless it is all of them.

Counts of rows by score are of each holder's own scores, and tell nothing of those of the average. So each theta_k is
first scaled by its own counts, such that its scores near 0 are log odds, of its own rows: the average fits these no
better than others. It has no link, and its probabilities are rough. Standard errors are those that the declared noise
gives, with weights H_k, and that scale, taken as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.learner.model import Model
from radoboost.learner.moments import category_projection
from radoboost.learner.probabilities import probability_link_by_counts
from radoboost.learner.uncertainty import Curvature, chance_of_empty_table, propagate_noise
from radoboost.release.compatibility import (
    PartyRelease,
    check_parties_alike,
    check_party_plans,
    check_releases_differ,
    parties_schema,
)
from radoboost.release.composition import statement_of_parties_together
from radoboost.release.kind import NOISY_MOMENTS
from radoboost.release.moment_math import (
    HESSIAN_FLOOR,
    eigenvalue_floor,
    eigenvalue_noise,
    theta_of_whitened_rows,
    unwhitening_factors,
)

NOTHING = 0.5
"""Holders whose `empty_chance` is above this are left out. Many faint releases tell something together: leaving out all
of which users are warned gave more errors."""
_COMMON = ("name", "law", "unit", "relation", "sharpen", "grid", "constant", "person", "max_rows")

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PartyModel:
    """What one holder's moments say: theta, the second moment of scores, and the covariance of theta by the noise."""

    theta: Vector
    weight: Vector
    covariance: Vector
    empty_chance: float


@dataclass(frozen=True, eq=False)
class Average:
    """A classifier of several holders.

    `left_out` are the places of those that tell nothing. `noise_share` is the part of the scores' mean square that
    noise makes, and `empty_chance` a bound for the probability that empty tables would look as full as these.
    """

    theta: Vector
    standard_errors: Vector
    noise_share: float
    empty_chance: float
    left_out: tuple[int, ...]


def learn_averaged_model(parts: Sequence[PartyRelease], *, one_holder: bool = False) -> Model:
    """The model from private moments of several holders, with what they promise together."""
    check_models_can_be_averaged(parts)
    statement = statement_of_parties_together(parts, one_holder=one_holder)
    fit, first = average_moments_of_parties(parts), parts[0].release
    learner = {
        "name": "moments",
        "from": f"{len(parts)} releases of moments, averaged",
        "left_out": [parts[place].title for place in fit.left_out],
        "empty_chance": fit.empty_chance,
        "noise_share": fit.noise_share,
        "standard_errors": fit.standard_errors.tolist(),
    }
    counts = [part.release.n_examples for part in parts]
    origin = {
        "n_rados": 0,
        "n_examples": None if None in counts else sum(count for count in counts if count is not None),
        "mechanism": {key: first.mechanism[key] for key in _COMMON if _parties_agree(parts, key)},
        "signatures": dict(first.signatures),
    }
    return Model(fit.theta, first.columns, first.classes, learner, origin, statement, parties_schema(parts), first.map)


def _parties_agree(parts: Sequence[PartyRelease], key: str) -> bool:
    """Whether all releases say the same about how they were made."""
    first = parts[0].release.mechanism
    return key in first and all(part.release.mechanism.get(key) == first[key] for part in parts)


def average_moments_of_parties(parts: Sequence[PartyRelease]) -> Average:
    """The average of what the moments of several holders say, of two classes."""
    from threadpoolctl import threadpool_limits

    # On one thread, so that releases give the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        owns = [_own_model_of_party(part) for part in parts]
        used = [own for own in owns if own.empty_chance <= NOTHING] or owns
        inverse = np.linalg.inv(np.sum([own.weight for own in used], axis=0))
        shares = [inverse @ own.weight for own in used]
        theta = np.sum([share @ own.theta for share, own in zip(shares, used, strict=True)], axis=0)
        covariance = np.sum([share @ own.covariance @ share.T for share, own in zip(shares, used, strict=True)], axis=0)
        weight = np.sum([own.weight for own in used], axis=0)
        whole = float(theta @ weight @ theta)
        share = min(float(np.trace(weight @ covariance)) / whole, 1.0) if whole > 0 else 1.0
    left_out = tuple(place for place, own in enumerate(owns) if not any(own is other for other in used))
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return Average(theta, errors, share, min(own.empty_chance for own in owns), left_out)


def _own_model_of_party(part: PartyRelease) -> PartyModel:
    release = part.release
    mechanism, blocks, d = release.mechanism, release.blocks, len(release.columns)
    floor = eigenvalue_floor(eigenvalue_noise(mechanism["noise"], "whitened"), d, HESSIAN_FLOOR)
    curvature, whitened = Curvature.of(blocks["moment:C2"], floor), theta_of_whitened_rows(blocks, mechanism)
    factors = unwhitening_factors(blocks, mechanism, release.columns)
    to_columns = probability_link_by_counts(release).scale * category_projection(release) @ factors
    doubt = propagate_noise(release, curvature, to_columns, whitened, [range(d)])
    back = curvature.vectors.T @ np.linalg.inv(factors)
    weight = back.T @ (back / curvature.inverses[:, None])
    return PartyModel(to_columns @ whitened, weight, np.asarray(doubt.covariances[0]), chance_of_empty_table(release))


def check_models_can_be_averaged(parts: Sequence[PartyRelease]) -> None:
    """Refuse what cannot be averaged, by name."""
    for part in parts:
        release = part.release
        if release.law != NOISY_MOMENTS or "moment:b" not in release.blocks:
            raise ArgumentError(
                f"{part.name} does not hold private moments, and only models of those are averaged: plain releases of "
                "several holders are merged first (rado merge A B C), and others are learned from one by one"
            )
        if release.n_classes > 2:
            raise ArgumentError(
                f"{part.name} has {release.n_classes} classes, and averages are of two; let the holders make one "
                "release in a room (rado room), or merge plain releases"
            )
    check_releases_differ(parts)
    for part in parts[1:]:
        check_party_plans(parts[0], part)
        check_parties_alike(parts[0], part)
