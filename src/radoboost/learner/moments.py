"""The learner from released moments, and how much noise rados carry.

Releases of the mechanism `moments` hold the mean and the covariance of whitened edge vectors, with noise: theta =
covariance^-1 mean, back in the columns of the release. Rados have moments that are to be estimated first
(`learner.rado_moments`).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.learner.class_noise import measure_classes
from radoboost.learner.class_scores import Clouds, score_scale
from radoboost.learner.effects import Effects, parts_of
from radoboost.learner.groups import settling
from radoboost.learner.link import Link, score_link
from radoboost.learner.released_effects import read_effects
from radoboost.learner.uncertainty import Curvature, Uncertainty, measure
from radoboost.release import Release
from radoboost.release.scores import column_factors, whitened_theta
from radoboost.release.spectra import HESSIAN_FLOOR, floor_noise, noise_floor


@dataclass(frozen=True, eq=False)
class MomentFit:
    """A classifier from noisy moments.

    `uncertainty` says what the noise that the release declares does to theta, `link` how probable the positive class is
    at a score, and `effects` what a model keeps to explain itself. Of more than two classes theta has a row for each,
    and its scale is such that scores are logarithms of probabilities: there is no link, and no effects are kept.
    """

    theta: NDArray[np.float64]
    uncertainty: Uncertainty
    link: Link | None = None
    effects: Effects | None = None

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        return self.uncertainty.standard_errors


def noise_variance(release: Release) -> float:
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
    return math.sqrt(noise_variance(release))


def noise_uncertainty(release: Release) -> float:
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
    parts = parts_of(columns, release.map, release.schema)
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        curvature = Curvature.of(
            blocks["moment:C2"], noise_floor(floor_noise(mechanism["noise"], "whitened"), len(columns), HESSIAN_FLOOR)
        )
        whitened = whitened_theta(blocks, mechanism)
        if release.n_classes > 2:
            clouds = Clouds.of(release, curvature.inverse, whitened)
            to_columns = score_scale(release, clouds) * settling(release) @ column_factors(blocks, mechanism, columns)
            doubt = measure_classes(release, curvature, to_columns, whitened)
            return MomentFit(whitened @ to_columns.T, doubt)
        link = score_link(release)
        to_columns = link.scale * settling(release) @ column_factors(blocks, mechanism, columns)
        doubt = measure(release, curvature, to_columns, whitened, [part.kept for part in parts])
        theta = to_columns @ whitened
        return MomentFit(theta, doubt, link, read_effects(release, theta, parts, doubt.covariances))
