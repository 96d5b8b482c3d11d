"""The moments learner on a release of rados of two classes: what is known of them, theta, and how sure it is.

What the release says about its rados decides how their moments are read: the signature set, how much noise they carry,
how many examples there were, and whether columns were standardised by the statistics of these very examples. Then S / m
is known to have 1s on its diagonal, and the constant column to correlate with no other. `learner.shrinkage` has the
arithmetic, and docs/proofs/rado-moments.md the identities, by steps P1 to P8.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost import memory
from radoboost.errors import ReleaseError
from radoboost.learner.diagnostics import NormalScores, columns_in_doubt
from radoboost.learner.moments import noise_variance_of_rados, uncertainty_of_noise_variance
from radoboost.learner.shrinkage import (
    N_FOLDS,
    WEIGHTS,
    Fold,
    MomentSpectrum,
    Scores,
    ShrinkageChoice,
    Treatment,
    bayes_ridge,
    choose_shrinkage,
    held_out_scores,
)
from radoboost.release.columns import CONSTANT
from radoboost.release.kind import SUMS
from radoboost.release.release import Release

BY_ROWS = ("rados", "exact moments")  # what a model was learned from whose standard errors are by rows
LEAST_RADOS = 20  # to hold a fifth of them out
KNOWN, AS_IT_IS, LESS_NOISE = "known", "as it is", "less noise"
_LEAST_RATIO = 1e-3  # of an eigenvalue of the covariance to the largest, once noise was subtracted
_MANY = 2  # rados for each column
_CLEAR = 0.8  # of R2, beyond which the error is that of a few rows
_DOUBTFUL = 3.0  # deviations from 0, of a number of examples that noisy rados tell, or of a second moment of scores
_MOST_FREEDOM = 0.5  # degrees of freedom for each example, beyond which these do not tell the error
DROWNED = "the noise is larger than what it hides: there is no error to expect, and log odds are rough"
CROWDED = "about as many columns as rows, or more: these rows do not tell the error on others"


@dataclass(frozen=True, eq=False)
class RadoFit:
    """A classifier from rados, and what it says about itself.

    Scores are log odds. `covariance` says how the covariance was read, `identity_weight` how much of the identity was
    mixed into it, `ridge` what was added to it for each example, and `freedom` how many degrees of freedom that leaves.
    `r2` is the share of the labels' second moment that scores explain on the holder's rows, estimated on rados held
    out, and `expected_error` the share of new rows that will be classified wrongly; None where they cannot be told.
    `standard_errors`, one a column, are of theta, for other examples and other rados of the same kind, given the
    shrinkage and the scale of log odds; few rados leave more doubt about these than about the rest. `noise_variance` is
    what the release says that noise adds to the variance of a rado in every column, and `remarks` are sentences about
    what the reader should know.
    """

    theta: NDArray[np.float64]
    covariance: str
    identity_weight: float
    ridge: float
    r2: float | None
    expected_error: float | None
    freedom: float
    standard_errors: NDArray[np.float64]
    n_rados: int
    noise_variance: float = 0.0
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, for a model to say how it was learned."""
        return {
            "name": "moments",
            "from": BY_ROWS[0],
            "covariance": self.covariance,
            "identity_weight": self.identity_weight,
            "ridge": self.ridge,
            "r2": self.r2,
            "expected_error": self.expected_error,
            "freedom": self.freedom,
            "standard_errors": self.standard_errors.tolist(),
            "n_rados": self.n_rados,
            **({"noise_variance": self.noise_variance} if self.noise_variance else {}),
            **({"remarks": list(self.remarks)} if self.remarks else {}),
        }


@dataclass(frozen=True, eq=False)
class _Rados:
    """Rados in units in which nothing overflows, without columns that do not vary, and what is known of them.

    `n_examples` is 1 where it is not `told`. `share` is the chance of an example to be in a rado, `spread` what its
    being so or not adds to the variance. `noise` is per example, in every direction. `apart` is the place of a constant
    column that is known to correlate with no other, and `constant` that of any.
    """

    rows: NDArray[np.float64]
    varies: NDArray[np.bool_]
    units: NDArray[np.float64]
    n_examples: float
    told: bool
    share: float
    spread: float
    fixed: bool
    noise: float
    noise_variance: float
    uncertainty: float
    own: NDArray[np.bool_]
    constant: int | None

    @property
    def apart(self) -> int | None:
        return self.constant if self.own.all() and self.told else None

    def mean(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """M / m, by these rados."""
        return np.asarray(rows.mean(axis=0) / (self.share * self.n_examples))

    def roots(self, rows: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows whose products add up to S / m, by these rados (P1, P2)."""
        centred = (rows - rows.mean(axis=0)) / math.sqrt(max(len(rows) - 1, 1) * self.spread * self.n_examples)
        return np.vstack([centred, mean]) if self.fixed else centred


def learn_rados(release: Release) -> RadoFit:
    """theta from the rados of a release of two classes."""
    from threadpoolctl import threadpool_limits

    rados = _rados_of(release)
    n, d = rados.rows.shape
    memory.require_memory(
        8 * (6 * n * d + 12 * min(n, d) ** 2 + (5 * d**2 if rados.noise else 0)),
        f"the moments of {n:,} rados with {d:,} columns",
        "learn by boosting, or use fewer columns",
    )
    # On one thread, so that a release gives the same model however many cores there are.
    with threadpool_limits(1, user_api="blas"):
        fit = _learn_theta_from_rados(rados)
        return replace(fit, remarks=(*fit.remarks, *columns_in_doubt(release)))


def _rados_of(release: Release) -> _Rados:
    matrix = np.asarray(release.rados, dtype=np.float64)
    noise, m = noise_variance_of_rados(release), release.n_examples
    # In units of the largest magnitude nothing can overflow.
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    if noise:
        largest[:] = largest.max()  # noise is alike in all columns, and stays so
    units = np.where(largest > 0, largest, 1.0)
    rows = matrix / units
    middle, deviation = rows.mean(axis=0), rows.std(axis=0)
    varies = deviation > 1e-12 * np.abs(middle)
    if not varies.any():
        raise ReleaseError("no column of the rados varies; there is nothing to learn from")
    last = len(release.columns) - 1
    constant = last if release.columns[last].name == CONSTANT and varies[last] else None
    told = m is not None
    if m is None and constant is not None:
        # The constant is 1 in every row, so its rado is the sum of coins.
        variance = float(matrix[:, constant].var(ddof=1))
        rough = variance * math.sqrt(2 / (len(matrix) - 1))
        told = variance - noise > _DOUBTFUL * rough
        m_estimate = 4 * (variance - noise)
    support = release.signatures.get("support")
    count = float(m) if m is not None else (m_estimate if told else 1.0)
    fixed = support is not None and m is not None and 0 < support < m
    share = float(support or 0) / count if fixed else 0.5
    spread = share * (1 - share) * (count / (count - 1) if fixed else 1.0)
    own = release.law == SUMS and release.statement.holders is None and not noise and m is not None
    standard = np.array([own and column.scale in ("standard", "constant") for column in release.columns])
    if not standard[:last].any():
        standard[:] = False
    if not noise:
        # Known columns keep the units in which they are known; others have a second moment of 1.
        units = np.where(standard, 1.0, units * np.where(varies, deviation, 1.0) / math.sqrt(spread * count))
        rows = matrix[:, varies] / units[varies]
    else:
        rows = matrix[:, varies] / units[varies]
    places = np.cumsum(varies) - 1
    return _Rados(
        rows,
        varies,
        units[varies],
        count,
        told,
        share,
        spread,
        fixed,
        noise / float(units[0]) ** 2 / (spread * count),
        noise,
        uncertainty_of_noise_variance(release) if noise else 0.0,
        standard[varies],
        None if constant is None else int(places[constant]),
    )


def _learn_theta_from_rados(rados: _Rados) -> RadoFit:
    rows = rados.rows
    others = np.array([k for k in range(rows.shape[1]) if k != rados.apart], dtype=np.intp)
    mean = rados.mean(rows)
    apart = 0.0 if rados.apart is None else float(mean[rados.apart])
    roots = rados.roots(rows, mean)[:, others]
    treatments = _covariance_treatments(rados, others)
    # So few rados say little of what columns have to do with each other, and less of which small weight is best.
    few = len(rows) < _MANY * rows.shape[1]
    tried = WEIGHTS[-2:] if few else WEIGHTS
    weights = [(0.0,) if rados.noise else tried] * len(treatments)
    folds = _folds_of_rados(rados, others, list(treatments.values()))
    m = rados.n_examples if rados.told else math.inf
    choice = (
        choose_shrinkage(folds, mean[others], apart, weights, m, few)
        if folds
        else ShrinkageChoice(0, weights[0][-1], 0.0)
    )
    name, treatment = list(treatments.items())[choice.place]
    spectrum, weight = treatment(roots), choice.weight
    ridge = bayes_ridge(spectrum, mean[others], weight, m, choice.r2) if rados.told and not rados.noise else 0.0
    freedom = spectrum.freedom(weight, ridge) + (rados.apart is not None)
    theta = np.zeros(rows.shape[1])
    theta[others] = spectrum.solve(mean[others], weight, ridge)
    if rados.apart is not None:
        theta[rados.apart] = apart
    scores = held_out_scores(folds, mean[others], apart, choice, ridge)
    new = scores.on_new_rows(freedom, m)
    doubtful, crowded = (
        _noise_drowns_rados(rados, folds, choice, ridge),
        rados.told and fit_has_too_many_columns(rows.shape[1], freedom, m),
    )
    expected, scale = (None, 2.0)
    if rados.told and not doubtful:
        expected, scale = _expected_error_and_scale(rados, theta, mean, roots, new)
    left = 1 - float(new.r2)
    errors = np.zeros(rows.shape[1])
    errors[others] = np.sqrt(
        example_theta_variance(spectrum, weight, ridge, left / m)
        + _theta_variance_over_rados(rados, others, theta, mean, spectrum, weight, ridge, name == KNOWN)
    )
    if rados.apart is not None:
        errors[rados.apart] = math.sqrt((left + (1 - rados.share) / (rados.share * len(rows))) / m)
    return RadoFit(
        _fill_in_all_columns(theta * scale / rados.units, rados.varies),
        name,
        weight,
        ridge,
        float(scores.r2) if rados.told and folds and not doubtful else None,
        expected if folds and not crowded else None,
        freedom,
        _fill_in_all_columns(errors * scale / rados.units, rados.varies),
        len(rows),
        rados.noise_variance,
        (
            *_remarks_on_rado_fit(rados, bool(folds), None if doubtful else float(scores.r2)),
            *([DROWNED] if doubtful else []),
            *([CROWDED] if crowded else []),
        ),
    )


def fit_has_too_many_columns(n_columns: int, freedom: float, n_examples: float) -> bool:
    """Whether a fit has so many degrees of freedom, for its examples, that these cannot say how it does on others."""
    return n_columns > n_examples or freedom > _MOST_FREEDOM * n_examples


def _noise_drowns_rados(rados: _Rados, folds: list[Fold], choice: ShrinkageChoice, ridge: float) -> bool:
    """Whether noise leaves the second moment of scores, on rados held out, less than some deviations above 0."""
    if not rados.noise or not folds:
        return False
    whole = noise = 0.0
    for fold in folds:
        theta = fold.spectra[choice.place].solve(fold.mean, choice.weight, ridge)
        whole += float(((fold.roots @ theta) ** 2).sum()) / len(folds)
        noise += fold.noise * float(theta @ theta) / len(folds)
    deviation = math.hypot(whole * math.sqrt(2 / len(rados.rows)), noise * rados.uncertainty)
    return whole - noise < _DOUBTFUL * deviation


def _fill_in_all_columns(values: NDArray[np.float64], varies: NDArray[np.bool_]) -> NDArray[np.float64]:
    out = np.zeros(len(varies))
    out[varies] = values
    return out


def _covariance_treatments(rados: _Rados, others: NDArray[np.intp]) -> dict[str, Treatment]:
    if rados.noise:
        return {LESS_NOISE: lambda roots: _subtract_noise_from_spectrum(roots, rados.noise, rados.uncertainty)}
    own = rados.own[others]
    if not own.any():
        return {AS_IT_IS: MomentSpectrum.of}
    return {KNOWN: lambda roots: MomentSpectrum.of(roots / _sizes_of_columns(roots, own)), AS_IT_IS: MomentSpectrum.of}


def _sizes_of_columns(roots: NDArray[np.float64], own: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What columns are divided by so that the second moment of those that are standardised is 1."""
    sizes = np.sqrt((roots**2).sum(axis=0))
    return np.where(own & (sizes > 0), sizes, 1.0)


def _subtract_noise_from_spectrum(roots: NDArray[np.float64], noise: float, uncertainty: float) -> MomentSpectrum:
    """Subtract the noise, which is alike in all columns; how uncertain it is in the sample sets the floor."""
    values, vectors = np.linalg.eigh(roots.T @ roots)
    values = values - noise
    return MomentSpectrum(np.maximum(values, max(_LEAST_RATIO * float(values[-1]), noise * uncertainty)), vectors)


def _folds_of_rados(rados: _Rados, others: NDArray[np.intp], treatments: list[Treatment]) -> list[Fold]:
    """The rados in folds, each of them held out once; no folds where there are too few for it to tell anything."""
    n = len(rados.rows)
    count = N_FOLDS if n >= LEAST_RADOS else 0
    folds = []
    for place in range(count):
        out = np.arange(n) % count == place
        mean = rados.mean(rados.rows[~out])
        roots = rados.roots(rados.rows[~out], mean)[:, others]
        spectra = [treatment(roots) for treatment in treatments]
        held = rados.rows[out]
        folds.append(Fold(spectra, mean[others], rados.roots(held, rados.mean(held))[:, others], rados.noise))
    return folds


def _expected_error_and_scale(
    rados: _Rados, theta: NDArray[np.float64], mean: NDArray[np.float64], roots: NDArray[np.float64], scores: Scores
) -> tuple[float, float]:
    """The share of new rows that will be classified wrongly, and the scale that makes log odds of scores (P5, P6)."""
    balance = 0.0 if rados.constant is None else float(mean[rados.constant])
    if scores.second == 0:
        return (1 - abs(balance)) / 2, 2.0
    centre = None
    if rados.apart is not None:
        centre = balance
    elif rados.constant is not None:
        centre = float(roots @ theta @ roots[:, rados.constant])
    normal = NormalScores.of(float(scores.signal), float(scores.second), centre, balance, len(rados.rows))
    return normal.error, normal.scale


def example_theta_variance(spectrum: MomentSpectrum, weight: float, ridge: float, noise: float) -> NDArray[np.float64]:
    """The variance of theta over other examples: A^-1 S A^-1, times what is left of the labels, over m (P7)."""
    values = (1 - weight) * spectrum.values + weight + ridge
    shares = np.divide(spectrum.values, values**2, out=np.zeros(len(values)), where=values > 0)
    return np.asarray(noise * (spectrum.vectors**2 @ shares))


def _theta_variance_over_rados(
    rados: _Rados,
    others: NDArray[np.intp],
    theta: NDArray[np.float64],
    mean: NDArray[np.float64],
    spectrum: MomentSpectrum,
    weight: float,
    ridge: float,
    known: bool,
) -> NDArray[np.float64]:
    """The variance of theta over other rados of the same examples, by what each rado adds to theta (P8)."""
    n, own = len(rados.rows), theta[others]
    deviations = rados.rows[:, others] - rados.rows[:, others].mean(axis=0)
    moves = deviations / (rados.share * rados.n_examples)  # what a rado adds to the mean
    deviations /= math.sqrt(rados.spread * rados.n_examples)
    if known:
        sizes = _sizes_of_columns(deviations / math.sqrt(n), rados.own[others])
        deviations /= sizes
    bends = deviations * (deviations @ own)[:, None]  # and to the second moment, times theta
    if known:
        squares = deviations**2 * rados.own[others]
        seen = spectrum.vectors * spectrum.values
        bends -= 0.5 * squares * (seen @ (own @ spectrum.vectors))
        bends -= 0.5 * ((squares * own) @ seen) @ spectrum.vectors.T
    if rados.fixed:
        bends += moves * (mean[others] @ own) + np.outer(moves @ own, mean[others])
    added = spectrum.solve(moves - (1 - weight) * (bends - bends.mean(axis=0)), weight, ridge)
    return np.asarray((added**2).sum(axis=0) / n**2)


def _remarks_on_rado_fit(rados: _Rados, held_out: bool, r2: float | None) -> tuple[str, ...]:
    n, d = rados.rows.shape
    remarks = []
    if not held_out:
        remarks.append("too few rados to hold any out: the shrinkage is a guess, and there is no error to expect")
    elif n < d:
        remarks.append("fewer rados than columns: most of what the columns say together is not in them")
    elif n < _MANY * d and rados.told:
        remarks.append("fewer than two rados for each column: the error to expect is rough, and may be far too low")
    if rados.told and held_out and r2 is not None and r2 > _CLEAR:
        remarks.append(
            "classes lie far apart, and rados hardly show the few rows that are wrong: the error to expect is rough, "
            "so measure it on a table if you can"
        )
    if not rados.told:
        remarks.append("the number of rows is hidden: there is no ridge, no error to expect, and log odds are rough")
    return tuple(remarks)
