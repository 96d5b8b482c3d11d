"""The parts of a look inside as tables, figures and notes: the learning curve, reliability, and all learners."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from radoboost.findings import Band, Column, Figure, Findings, Panel, Series, Table
from radoboost.findings.learners import FOLDS, Compared
from radoboost.findings.learning_curve import LearningCurve
from radoboost.learner.model import Model
from radoboost.learner.reliability import Reliability

_ANY_NUMBER = "any number"
_NOTHING, _MUCH = 0.1, 2.0  # points of error that more rados would bring
_HALF_BAR = 0.006  # of a picture from 0 to 1


def curve_findings(curve: LearningCurve | None, why: str | None) -> Findings:
    """The learning curve, and what more rados would bring; or `why` there is none, or is one of some rados alone."""
    title = "What more rados would bring"
    if curve is None:
        return Findings("curve", title, notes=[why or ""])
    sizes = [point.n_rados for point in curve.points]
    columns = [
        Column("rados"),
        Column("subsets"),
        Column("expected error", "%", 2),
        Column("least", "%", 2),
        Column("most", "%", 2),
        Column("by theory", "%", 2),
        Column("R2", "by the other rados", 3),
        Column("measured error", "%", 2),
    ]
    rows: list[list[Any]] = []
    for point, theory in zip(curve.points, curve.theory, strict=True):
        spread = [100 * float(number) for number in (np.mean(point.expected), min(point.expected), max(point.expected))]
        measured = None if point.measured is None else 100 * float(np.mean(point.measured))
        rows.append([f"{point.n_rados:,}", len(point.expected), *spread, 100 * theory.error, point.r2, measured])
    for entry in curve.beyond:
        size = _ANY_NUMBER if entry.n_rados is None else f"{entry.n_rados:,}"
        rows.append([size, None, None, None, None, 100 * entry.error, None, None])
    note = (
        "Of the moments learner. Subsets of one size share no rado. Errors are those that the learner expects of new "
        "rows, without any example; mean, least and most of the subsets."
    )
    table = Table("curve", "Error by number of rados", columns, rows, note)
    notes = [*([why] if why else []), *_curve_notes(curve)]
    return Findings("curve", title, [table], [_curve_figure(curve, sizes)], notes=notes)


def _curve_figure(curve: LearningCurve, sizes: list[int]) -> Figure:
    means = [100 * float(np.mean(point.expected)) for point in curve.points]
    spread = [_bar(point.expected) for point in curve.points]
    later = [entry for entry in curve.beyond if entry.n_rados is not None]
    theory = Series(
        "by theory",
        [*sizes, *(entry.n_rados for entry in later)],
        [100 * entry.error for entry in (*curve.theory, *later)],
        style="dashed",
    )
    series = [Series("expected, without any example", sizes, means, spread, style="points"), theory]
    series.append(Series("by theory, any number of rados", [], [100 * curve.beyond[-1].error], style="flat"))
    if curve.points[0].measured is not None:
        wrong = [100 * float(np.mean(point.measured)) for point in curve.points]  # type: ignore[arg-type]
        around = [_bar(point.measured or ()) for point in curve.points]
        series.append(Series("measured on the table given", sizes, wrong, around, style="points"))
    caption = (
        "Error over the number of rados, for subsets of this release; bars are the standard deviation between subsets, "
        "where there are several, and end at 0. The table has the least and the most of them."
    )
    panel = Panel("", "number of rados", "error, %", series, log_x=True)
    return Figure("curve", "Learning curve", caption, [panel])


def _bar(errors: Sequence[float]) -> float | None:
    """How far errors of subsets vary, in points, and not below 0 %; None of one subset."""
    return None if len(errors) < 2 else 100 * min(float(np.std(errors)), float(np.mean(errors)))


def _verdict(curve: LearningCurve) -> str:
    """Whether more rados would help, in points of error: by what was measured where rows were given, or by theory."""
    gain, doubt = 100 * (curve.theory[-1].error - curve.beyond[-1].error), 100 * curve.doubt
    said = f"By theory any number of them would bring {max(gain, 0.0):.2f} points"
    seen = [(point.n_rados, point.measured) for point in curve.points if point.measured is not None][-2:]
    if len(seen) == 2:
        (fewer, before), (all_of_them, after) = seen
        gain, doubt = 100 * float(np.mean(before) - np.mean(after)), 100 * float(np.std(before))
        change = f"{abs(gain):.2f} points {'less' if gain >= 0 else 'more'}"
        change = f"{change} than" if abs(gain) >= 0.005 else "as often as"
        said = f"On the table given, {all_of_them:,} rados erred {change} {fewer:,}"
    if gain < _NOTHING:
        return f"{said}: more of them would bring next to nothing."
    if gain < doubt:
        return f"{said}, within the {doubt:.2f} that the draw of the rados moves: more of them may help, or not."
    return f"{said}: more of them would help{' much' if gain >= _MUCH else ''}."


def _curve_notes(curve: LearningCurve) -> list[str]:
    """What more rados would bring, in words."""
    now, (double, fourfold, ever) = 100 * curve.theory[-1].error, curve.beyond
    n_rados = curve.points[-1].n_rados
    foreseen = (
        f"With {double.n_rados:,} rados theory foresees {100 * double.error:.2f} % in place of {now:.2f} %, with "
        f"{fourfold.n_rados:,} it is {100 * fourfold.error:.2f} %, and with any number {100 * ever.error:.2f} %."
    )
    why = (
        f"Noise of so few rados turns the classifier away from exact least squares: it costs a share of about D / n of "
        f"R2, with D = {curve.freedom:.1f} by the sizes of subsets and n = {n_rados:,}. Noise of the rows themselves "
        "stays: only more rows would help against that."
    )
    known = (
        "R2 in this part is that of a subset, by the rados outside of it, and another than that of all rados. It is "
        f"known to about {100 * math.sqrt(2 / n_rados):.0f} % of itself: that is the draw of the rados, which "
        "moves the errors expected above by as much as bars show."
    )
    careful = (
        "This is an extrapolation. It takes scores for normal, and the number of free weights for the same at all "
        "sizes; a learner that shrinks less as rados grow may do better. Rados of the same table cannot make up for "
        "columns that do not tell the classes apart, or for a shape that is not linear in them."
    )
    return [_verdict(curve), foreseen, why, known, careful]


def reliability_findings(found: Reliability | None, model: Model) -> Findings:
    """How right probabilities and predictions are on the rows of a table."""
    title = "How right it is, on rows of known classes"
    if found is None:
        return Findings("reliability", title, notes=["No table was given to measure on: --table FILE --label COL."])
    of = "the positive class" if model.n_classes == 2 else "the class that is predicted"
    columns = [Column("probability"), Column("rows"), Column("predicted", "mean", 3), Column("observed", "share", 3)]
    rows = [[f"{each.low:.1f} to {each.high:.1f}", each.n_rows, each.predicted, each.observed] for each in found.bins]
    bins = Table("bins", "Predicted and observed", columns, rows, f"Ten bins of the probability of {of}.")
    notes = ["These are exact numbers about these rows: whoever sees this page learns them."]
    if model.statement is not None and model.statement.promises:
        notes.append(
            "The promise of the release is about the table that it was made from. Nothing promises anything about the "
            "rows that were measured on here: if they are private, too, do not pass this page on. rado score gives a "
            "test error with a promise."
        )
    return Findings("reliability", title, [_measured(found), bins], [_reliability_figure(found, of)], notes=notes)


def _measured(found: Reliability) -> Table:
    left_out = f"; {found.n_left_out:,} without a known class were left out" if found.n_left_out else ""
    rows = [
        ["rows", f"{found.n_rows:,}{left_out}"],
        ["error", found.in_words()],
        ["log-loss", f"{found.log_loss:.4f}; the shares of the classes alone have {found.base_loss:.4f}"],
        ["expected calibration error", f"{found.calibration_error:.4f}"],
    ]
    return Table("measured", "Measured on these rows", ["what", "it is"], rows)


def _reliability_figure(found: Reliability, of: str) -> Figure:
    some = [each for each in found.bins if each.predicted is not None]
    places, shares = [each.predicted or 0.0 for each in some], [each.observed for each in some]
    limits = [_between(each.observed or 0.0, each.n_rows) for each in some]
    series = [
        Series("observed", places, shares, style="points"),
        Series("as predicted", [0.0, 1.0], [0.0, 1.0], style="dashed"),
    ]
    bands = [
        Band("observed", [place - _HALF_BAR, place + _HALF_BAR], [low] * 2, [high] * 2)
        for place, (low, high) in zip(places, limits, strict=True)
    ]
    caption = f"How often {of} came true, by its predicted probability, with intervals of two standard errors."
    panel = Panel("", "predicted probability", "observed share", series, bands=bands)
    return Figure("reliability", "Reliability", caption, [panel])


def _between(share: float, count: int) -> tuple[float, float]:
    """Between which probabilities a share of so many lies within two standard errors of them (Wilson)."""
    middle, squeeze = (share + 2 / count) / (1 + 4 / count), 1 / (1 + 4 / count)
    reach = 2 * squeeze * math.sqrt(share * (1 - share) / count + 1 / count**2)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def learner_findings(found: Sequence[Compared] | None, why: str | None) -> Findings:
    """All learners beside each other; `why` says what could not be compared."""
    title = "All learners on this release"
    if found is None:
        return Findings("learners", title, notes=[why or ""])
    columns = [
        Column("learner"),
        Column("R2", f"{FOLDS} parts held out", 3),
        Column("±", "standard error", 3),
        Column("expected error", "%", 2),
        Column("measured error", "%", 2),
        Column("log-loss", "measured", 3),
        Column("columns used"),
        Column("time", "s", 2),
    ]
    note = (
        "R2 is the share of the labels' variance that is explained, by rados that were held out, and the expected "
        "error follows from them as if the scores of each class were normal. Both are about the table's own rows: on "
        "new ones all learners err more. The standard error is mostly common to all, as the same rados are held out. A "
        "dash stands where rados do not tell."
    )
    table = Table("learners", "Learners", columns, [_learner_row(each) for each in found], note)
    return Findings(
        "learners", title, [table], notes=[*([why] if why else []), *(f"{e.name}: {e.how}." for e in found)]
    )


def _learner_row(each: Compared) -> list[Any]:
    expected = None if each.expected_error is None else 100 * each.expected_error
    found = each.measured
    measured: Sequence[float | None] = (None, None) if found is None else (100 * found.error, found.log_loss)
    used = f"{each.n_used:,} of {each.n_columns:,}"
    return [each.name, each.r2, each.spread, expected, *measured, used, each.seconds]
