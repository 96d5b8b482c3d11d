"""The coefficients of a model with intervals, in the units of its columns, and how they were learned."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from radoboost.errors import ArgumentError
from radoboost.learner.model import Model
from radoboost.learner.rado_moments import BY_ROWS
from radoboost.release.columns import Column as ReleaseColumn
from radoboost.release.release import Release
from radoboost.report.findings import Figure, Findings, Panel, ReportColumn, ReportTable, Series

INTERVAL = 2.0  # standard errors to either side
_DRAWN = 20
_LISTED = 500
_EVEN = 1 / math.sqrt(3)  # the deviation of what lies evenly between -1 and 1
_GRID = 2.0**22  # steps from 0 to the largest value of a column
_COVARIANCES = {
    "known": "standardised columns have variance 1 and nothing in common with the constant, which is put in",
    "as it is": "as rados have it",
    "less noise": "less the noise that the release declares",
}


@dataclass(frozen=True)
class Coefficient:
    """What one unit of a column adds to the score, give or take two `standard_error`; None where that is not known.

    `importance` is by how much the score varies with the column: the coefficient times the column's deviation. Where
    nothing is known of that, values count as evenly spread.
    """

    name: str
    value: float
    standard_error: float | None
    importance: float

    @property
    def clear(self) -> bool | None:
        """Whether 0 lies outside of the interval."""
        return None if self.standard_error is None else abs(self.value) > INTERVAL * self.standard_error

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def coefficients_of_model(model: Model) -> tuple[Coefficient, ...]:
    """The coefficients of a model of two classes, by importance."""
    if model.n_classes > 2:
        raise ArgumentError("coefficients with intervals are those of two classes; of more, explain(model) shows them")
    errors = coefficient_standard_errors(model)
    found, place = [], 0
    for k, column in enumerate(model.columns):
        if column.scale == "constant":
            continue
        _, _, _, factor, divisor, _ = column.constants
        slope, theta = factor / divisor, float(model.theta[k])
        error = None if errors is None else abs(float(errors[k]) * slope)
        found.append(
            Coefficient(column.name, theta * slope, error, abs(theta) * _coefficient_deviation(model, column, place))
        )
        place += 1
    return tuple(sorted(found, key=lambda each: -each.importance))


def coefficient_standard_errors(model: Model) -> NDArray[np.float64] | None:
    try:
        errors = np.asarray(model.learner.get("standard_errors"), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return errors if errors.shape == model.theta.shape and bool(np.isfinite(errors).all()) else None


def _coefficient_deviation(model: Model, column: ReleaseColumn, place: int) -> float:
    """The standard deviation of a column, as it is scaled."""
    if model.effects is not None:
        return model.effects.deviations[place]
    if column.scale == "standard":
        return 1.0
    return _EVEN if column.scale == "bounds" else _EVEN * column.step * _GRID


def coefficient_findings(model: Model, release: Release | None = None) -> Findings:
    """How a model was learned, its error estimate, and its coefficients with intervals, as tables and a picture."""
    tables, figures, notes = [_learner_choices_table(model, release)], [], []
    if model.n_classes > 2:
        notes.append("Coefficients of more than two classes are not listed: the effects of columns on each class are.")
    else:
        found = coefficients_of_model(model)
        tables.append(_coefficient_table(found, model))
        if any(each.value for each in found):
            figures.append(_coefficient_figure(found, model))
    return Findings("learned", "What was learned, and how", tables, figures, notes=notes)


def _learner_choices_table(model: Model, release: Release | None) -> ReportTable:
    told, rows = model.learner, [["learner", _learning_method_name(model.learner)]]
    if "covariance" in told:
        rows += [
            [
                "covariance",
                f"{told['covariance']}: {_COVARIANCES.get(str(told['covariance']), 'see the documentation')}",
            ],
            ["weight of the identity", f"{told['identity_weight']:.2g} of the covariance, by rados held out"],
            ["ridge", f"{told['ridge']:.2g}, the one under which the rados are most likely"],
            ["free weights", f"{told['freedom']:.1f} of {model.theta.shape[-1]:,}"],
        ]
    if told.get("r2") is not None:
        held_out = ", by rados held out" if "covariance" in told else ", less what is owed to chance"
        rows.append(["R2 of this model", f"{told['r2']:.3f} of the labels' variance is explained{held_out}"])
    rows += expected_error_rows(model, release)
    rows += [["beware", str(remark)] for remark in told.get("remarks", ())]
    return ReportTable("choices", "How it was learned", ["what", "it is"], rows)


def _learning_method_name(told: Mapping[str, Any]) -> str:
    names = {"moments": "moments: least squares from the first two moments", "boost": "RadoBoost"}
    return names.get(str(told["name"]), str(told["name"]))


def expected_error_rows(model: Model, release: Release | None) -> list[list[str]]:
    """The error that is expected without any example, and how it was got, as rows of a table: what, and it is."""
    from radoboost.learner.evaluation import error_by_noisy_counts

    error = model.learner.get("expected_error")
    if error is not None:
        how = (
            "without any example: the release tells mean and variance of the scores of each class, which are taken "
            "for normal, or half of them for a few rows far on the wrong side where that makes more of them wrong, "
            "less what the learner gained by chance on these rows"
        )
        low, high = expected_error_interval(model)
        drawn = "rados" if model.learner.get("n_rados") else "rows"
        between = f"from {_error_percent(low)} to {_error_percent(high)}"
        words = f"{_error_percent(error)} of new rows; {between} by the draw of the {drawn}"
        return [["expected error", words], ["how that was got", how]]
    counted = None if release is None else error_by_noisy_counts(release)
    if counted is not None:
        how = "the release has noisy numbers of its own rows by score and class; new rows may fare worse"
        words = f"{100 * counted[0]:.1f} % of the table's rows, give or take {100 * INTERVAL * counted[1]:.1f}"
        return [["expected error", words], ["how that was got", how]]
    return [["expected error", "this learner and this release tell none; give a table to measure it on"]]


def _error_percent(share: float) -> str:
    """A share of rows, which is never said to be none."""
    return f"{100 * share:.1f} %" if share >= 0.001 else "below 0.1 %"


def expected_error_interval(model: Model) -> tuple[float, float]:
    """Between which errors the expected one lies, by two standard errors of R2, which is known by so many rados.

    From exact moments it is known by so many rows.
    """
    told = model.learner
    count = told.get("n_rados") or (model.release or {})["n_examples"]
    error, r2, reach = float(told["expected_error"]), float(told["r2"] or 0.0), math.sqrt(8 / int(count))
    away = -float(ndtri(min(max(error, 1e-9), 0.5)))
    if r2 <= 0 or away <= 0:
        return 0.0, 1.0
    # As if scores were normal: the mean margin is so many deviations from 0, times what makes the error the expected.
    unit = away / math.sqrt(r2 / max(1 - r2, 1e-3))
    ends = [min(r2 * (1 + side * reach), 0.999) for side in (1, -1)]
    low, high = (float(ndtr(-unit * math.sqrt(max(end, 0.0) / (1 - end)))) for end in ends)
    return low, high


def _coefficient_table(found: tuple[Coefficient, ...], model: Model) -> ReportTable:
    columns = [
        ReportColumn("column"),
        ReportColumn("coefficient", "score a unit"),
        ReportColumn("from"),
        ReportColumn("to"),
        ReportColumn("importance", "score a deviation", 3),
        ReportColumn("clear of 0"),
    ]
    rows: list[list[Any]] = []
    for each in found[:_LISTED]:
        low, high = None, None
        if each.standard_error is not None:
            low, high = (each.value + side * INTERVAL * each.standard_error for side in (-1, 1))
        rows.append([each.name, each.value, low, high, each.importance, each.clear])
    note = f"The intercept is {model.intercept:.6g}. Importance is a coefficient times the deviation of its column."
    if coefficient_standard_errors(model) is None:
        note += " This learner tells no standard errors, so there are no intervals."
    elif model.learner.get("from", BY_ROWS[0]) not in BY_ROWS:
        note += " Intervals are two standard errors by the declared noise, and not by what other people would change."
    else:
        note += " Intervals are two standard errors, by the rows and by the draw of the rados."
    if len(found) > _LISTED:
        note += f" The {_LISTED} of {len(found):,} columns of the largest importance."
    return ReportTable("coefficients", "Coefficients, by importance", columns, rows, note)


def _coefficient_figure(found: tuple[Coefficient, ...], model: Model) -> Figure:
    some = [each for each in found[:_DRAWN] if each.value]
    units = [each.importance / abs(each.value) for each in some]
    names = _short_coefficient_names([each.name for each in some])
    heights = [each.value * unit for each, unit in zip(some, units, strict=True)]
    margins = [INTERVAL * (each.standard_error or 0.0) * unit for each, unit in zip(some, units, strict=True)]
    known = coefficient_standard_errors(model) is not None
    label = "coefficient, with two standard errors" if known else "coefficient"
    series = [Series(label, names, heights, margins if known else None, style="points")]
    series.append(Series("no effect", [], [0.0], style="flat"))
    caption = (
        f"What one standard deviation of a column adds to the score for {model.classes[1]!r}: the {len(some)} columns "
        "of the largest importance. Columns that vary together can share an effect in many ways."
    )
    panel = Panel("", "", "score a deviation", series)
    return Figure("coefficients", "Coefficients with intervals", caption, [panel])


def _short_coefficient_names(names: list[str]) -> list[str]:
    """Names of at most 24 letters, unless that makes two alike."""
    short = [name if len(name) <= 24 else name[:21] + "..." for name in names]
    return short if len(set(short)) == len(short) else names
