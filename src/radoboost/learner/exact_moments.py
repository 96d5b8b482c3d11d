"""The learner from exact moments: least squares, whose ridge says how few the examples are.

The sum of edge vectors and their second moment are known as they are, so that nothing is held out to see how well they
are. What is known of new rows follows as it does for rados (`learner.shrinkage`). Of more than two classes it is their
linear discriminant, whose ridge is the mean, on a log scale, of those of each class against the rest.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.learner.diagnostics import NormalScores
from radoboost.learner.rado_moments import BY_ROWS, CROWDED, example_theta_variance, fit_has_too_many_columns
from radoboost.learner.shrinkage import MomentSpectrum, Scores, bayes_ridge
from radoboost.release.moment_math import LEAST, discriminant_weights, unwhitening_factors
from radoboost.release.release import Release

_TURNS = 3  # of the ridge and what it leaves of the labels, each by the other


@dataclass(frozen=True, eq=False)
class ExactFit:
    """A classifier from exact moments, of more than two classes with a row for each; scores are log odds.

    `ridge` is what was added to the second moment for each example. What is known of new rows of two classes is as it
    is for rados (`RadoFit`), but for the draw of those; of more classes nothing is.
    """

    theta: NDArray[np.float64]
    ridge: float
    r2: float | None = None
    expected_error: float | None = None
    freedom: float | None = None
    standard_errors: NDArray[np.float64] | None = None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, for a model to say how it was learned."""
        told = {"r2": self.r2, "expected_error": self.expected_error, "freedom": self.freedom}
        errors = {} if self.standard_errors is None else {**told, "standard_errors": self.standard_errors.tolist()}
        remarks = {"remarks": list(self.remarks)} if self.remarks else {}
        return {"name": "moments", "from": BY_ROWS[1], "ridge": self.ridge, **errors, **remarks}


def learn_exact_moments(release: Release) -> ExactFit:
    """theta from the exact moments of a release, for rows as they are."""
    from threadpoolctl import threadpool_limits

    sums, second = release.blocks["moment:b"], release.blocks["moment:C"]
    if not (size := float(np.trace(second))) > 0:
        raise ReleaseError("no row contributed to the release; there is nothing to learn from")
    m = float(release.n_examples or size)
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        values, vectors = np.linalg.eigh(second / m)
        spectrum = MomentSpectrum(np.maximum(values, 0.0), vectors)
        blocks = {"whitening": np.eye(len(second)), "moment:C": second}
        factors = np.diag(unwhitening_factors(blocks, release.mechanism, release.columns))
        if release.n_classes == 2:
            return _least_squares_of_exact_moments(release, spectrum, sums[0] / m, m, factors)
        ridges = [_ridge_of_exact_moments(spectrum, (2 * each - sums.sum(axis=0)) / m, m) for each in sums]
        ridge = math.exp(float(np.mean(np.log(np.maximum(ridges, LEAST)))))
        inverse = (vectors / (spectrum.values + ridge) / m) @ vectors.T
        return ExactFit(discriminant_weights(sums, inverse, 0.0) * factors, ridge)


def _least_squares_of_exact_moments(
    release: Release, spectrum: MomentSpectrum, mean: NDArray[np.float64], m: float, factors: NDArray[np.float64]
) -> ExactFit:
    ridge = _ridge_of_exact_moments(spectrum, mean, m)
    theta, freedom = spectrum.solve(mean, 0.0, ridge), spectrum.freedom(0.0, ridge)
    new = _exact_scores_on_new_rows(spectrum, theta, mean, freedom, m)
    crowded = fit_has_too_many_columns(len(mean), freedom, m)
    centre, balance = None, 0.0
    if release.columns[-1].scale == "constant":  # which is 1 in every row, times what puts it on the sphere
        constant = (
            spectrum.vectors[-1] * spectrum.values @ spectrum.vectors.T / math.sqrt(_column_second_moment(spectrum, -1))
        )
        centre, balance = float(constant @ theta), float(mean[-1]) / math.sqrt(_column_second_moment(spectrum, -1))
    normal = NormalScores.of(float(new.signal), float(new.second), centre, balance)
    errors = np.sqrt(example_theta_variance(spectrum, 0.0, ridge, (1 - float(new.r2)) / m))
    scale = normal.scale * factors
    return ExactFit(
        theta * scale,
        ridge,
        float(new.r2),
        None if crowded else normal.error,
        freedom,
        errors * np.abs(scale),
        (CROWDED,) if crowded else (),
    )


def _column_second_moment(spectrum: MomentSpectrum, place: int) -> float:
    """The second moment of one column."""
    return max(float(np.square(spectrum.vectors[place]) @ spectrum.values), LEAST)


def _exact_scores_on_new_rows(
    spectrum: MomentSpectrum, theta: NDArray[np.float64], mean: NDArray[np.float64], freedom: float, m: float
) -> Scores:
    second = np.asarray(np.square(theta @ spectrum.vectors) @ spectrum.values)
    return Scores(np.asarray(theta @ mean), second).on_new_rows(freedom, m)


def _ridge_of_exact_moments(spectrum: MomentSpectrum, mean: NDArray[np.float64], m: float) -> float:
    """The ridge by empirical Bayes, given what it leaves of the labels."""
    ridge = 0.0
    for _ in range(_TURNS):
        theta = spectrum.solve(mean, 0.0, ridge)
        left = _exact_scores_on_new_rows(spectrum, theta, mean, spectrum.freedom(0.0, ridge), m)
        ridge = bayes_ridge(spectrum, mean, 0.0, m, float(left.r2))
    return ridge
