"""A look inside: what was learned from a release and how, what more rados would bring, how right it is, and learners.

look_inside(release)       all of it as data: Inside
inside_documents(inside)   the same as tables and figures
write_inside(...)          one page that opens without a network
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.learner.evaluation import Reliability, judge_reliability
from radoboost.learner.model import Model
from radoboost.progress import Progress, silent
from radoboost.release.release import Release, load
from radoboost.report.coefficients import Coefficient, coefficient_findings, coefficients_of_model, expected_error_rows
from radoboost.report.documents import Document, make_document
from radoboost.report.effects_report import explain_model_findings, model_to_explain, write_model_documents
from radoboost.report.findings import Band, Figure, Findings, Panel, ReportColumn, ReportTable, Series
from radoboost.report.learner_comparison import FOLDS, LearnerComparison, compare_learners, why_no_rados_held_out
from radoboost.report.learning_curve import LearningCurve, learning_curve, why_no_curve
from radoboost.tables.streams import spool_for_rereading

# ---- The parts of a look inside as tables, figures and notes: the learning curve, reliability, and all learners.

_ANY_NUMBER = "any number"
_NOTHING, _MUCH = 0.1, 2.0  # points of error that more rados would bring
_HALF_BAR = 0.006  # of a picture from 0 to 1


def learning_curve_findings(curve: LearningCurve | None, why: str | None) -> Findings:
    """The learning curve, and what more rados would bring; or `why` there is none, or is one of some rados alone."""
    title = "What more rados would bring"
    if curve is None:
        return Findings("curve", title, notes=[why or ""])
    sizes = [point.n_rados for point in curve.points]
    columns = [
        ReportColumn("rados"),
        ReportColumn("subsets"),
        ReportColumn("expected error", "%", 2),
        ReportColumn("least", "%", 2),
        ReportColumn("most", "%", 2),
        ReportColumn("by theory", "%", 2),
        ReportColumn("R2", "by the other rados", 3),
        ReportColumn("measured error", "%", 2),
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
    table = ReportTable("curve", "Error by number of rados", columns, rows, note)
    notes = [*([why] if why else []), *_learning_curve_notes(curve)]
    return Findings("curve", title, [table], [_learning_curve_figure(curve, sizes)], notes=notes)


def _learning_curve_figure(curve: LearningCurve, sizes: list[int]) -> Figure:
    means = [100 * float(np.mean(point.expected)) for point in curve.points]
    spread = [_error_bar_of_subsets(point.expected) for point in curve.points]
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
        around = [_error_bar_of_subsets(point.measured or ()) for point in curve.points]
        series.append(Series("measured on the table given", sizes, wrong, around, style="points"))
    caption = (
        "Error over the number of rados, for subsets of this release; bars are the standard deviation between subsets, "
        "where there are several, and end at 0. The table has the least and the most of them."
    )
    panel = Panel("", "number of rados", "error, %", series, log_x=True)
    return Figure("curve", "Learning curve", caption, [panel])


def _error_bar_of_subsets(errors: Sequence[float]) -> float | None:
    """How far errors of subsets vary, in points, and not below 0 %; None of one subset."""
    return None if len(errors) < 2 else 100 * min(float(np.std(errors)), float(np.mean(errors)))


def _more_rados_verdict(curve: LearningCurve) -> str:
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


def _learning_curve_notes(curve: LearningCurve) -> list[str]:
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
    return [_more_rados_verdict(curve), foreseen, why, known, careful]


def reliability_findings(found: Reliability | None, model: Model) -> Findings:
    """How right probabilities and predictions are on the rows of a table."""
    title = "How right it is, on rows of known classes"
    if found is None:
        return Findings("reliability", title, notes=["No table was given to measure on: --table FILE --label COL."])
    of = "the positive class" if model.n_classes == 2 else "the class that is predicted"
    columns = [
        ReportColumn("probability"),
        ReportColumn("rows"),
        ReportColumn("predicted", "mean", 3),
        ReportColumn("observed", "share", 3),
    ]
    rows = [[f"{each.low:.1f} to {each.high:.1f}", each.n_rows, each.predicted, each.observed] for each in found.bins]
    bins = ReportTable("bins", "Predicted and observed", columns, rows, f"Ten bins of the probability of {of}.")
    notes = ["These are exact numbers about these rows: whoever sees this page learns them."]
    if model.statement is not None and model.statement.promises:
        notes.append(
            "The promise of the release is about the table that it was made from. Nothing promises anything about the "
            "rows that were measured on here: if they are private, too, do not pass this page on. rado score gives a "
            "test error with a promise."
        )
    return Findings(
        "reliability", title, [_measured_reliability_table(found), bins], [_reliability_figure(found, of)], notes=notes
    )


def _measured_reliability_table(found: Reliability) -> ReportTable:
    left_out = f"; {found.n_left_out:,} without a known class were left out" if found.n_left_out else ""
    rows = [
        ["rows", f"{found.n_rows:,}{left_out}"],
        ["error", found.as_text()],
        ["log-loss", f"{found.log_loss:.4f}; the shares of the classes alone have {found.base_loss:.4f}"],
        ["expected calibration error", f"{found.calibration_error:.4f}"],
    ]
    return ReportTable("measured", "Measured on these rows", ["what", "it is"], rows)


def _reliability_figure(found: Reliability, of: str) -> Figure:
    some = [each for each in found.bins if each.predicted is not None]
    places, shares = [each.predicted or 0.0 for each in some], [each.observed for each in some]
    limits = [_wilson_interval(each.observed or 0.0, each.n_rows) for each in some]
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


def _wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Between which probabilities a share of so many lies within two standard errors of them (Wilson)."""
    middle, squeeze = (share + 2 / count) / (1 + 4 / count), 1 / (1 + 4 / count)
    reach = 2 * squeeze * math.sqrt(share * (1 - share) / count + 1 / count**2)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def learner_comparison_findings(found: Sequence[LearnerComparison] | None, why: str | None) -> Findings:
    """All learners beside each other; `why` says what could not be compared."""
    title = "All learners on this release"
    if found is None:
        return Findings("learners", title, notes=[why or ""])
    columns = [
        ReportColumn("learner"),
        ReportColumn("R2", f"{FOLDS} parts held out", 3),
        ReportColumn("±", "standard error", 3),
        ReportColumn("expected error", "%", 2),
        ReportColumn("measured error", "%", 2),
        ReportColumn("log-loss", "measured", 3),
        ReportColumn("columns used"),
        ReportColumn("time", "s", 2),
    ]
    note = (
        "R2 is the share of the labels' variance that is explained, by rados that were held out, and the expected "
        "error follows from them as if the scores of each class were normal. Both are about the table's own rows: on "
        "new ones all learners err more. The standard error is mostly common to all, as the same rados are held out. A "
        "dash stands where rados do not tell."
    )
    table = ReportTable("learners", "Learners", columns, [_learner_comparison_row(each) for each in found], note)
    return Findings(
        "learners", title, [table], notes=[*([why] if why else []), *(f"{e.name}: {e.how}." for e in found)]
    )


def _learner_comparison_row(each: LearnerComparison) -> list[Any]:
    expected = None if each.expected_error is None else 100 * each.expected_error
    found = each.measured
    measured: Sequence[float | None] = (None, None) if found is None else (100 * found.error, found.log_loss)
    used = f"{each.n_used:,} of {each.n_columns:,}"
    return [each.name, each.r2, each.spread, expected, *measured, used, each.seconds]


T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class ModelReport:
    """What can be said of a model and the release behind it; None where something does not apply.

    `seconds` says how long each part took, by its name.
    """

    model: Model
    release: Release | None
    coefficients: tuple[Coefficient, ...] | None
    curve: LearningCurve | None
    reliability: Reliability | None
    learners: tuple[LearnerComparison, ...] | None
    seconds: dict[str, float]

    def __repr__(self) -> str:
        parts = {
            "coefficients": self.coefficients,
            "curve": self.curve,
            "reliability": self.reliability,
            "learners": self.learners,
        }
        names = ", ".join(name for name, part in parts.items() if part is not None)
        return f"Inside({self.model.learner['name']} over {len(self.model.column_names):,} columns: {names or 'model'})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "coefficients": None if self.coefficients is None else [each.to_dict() for each in self.coefficients],
            "learning_curve": None if self.curve is None else self.curve.to_dict(),
            "reliability": None if self.reliability is None else self.reliability.to_dict(),
            "learners": None if self.learners is None else [each.to_dict() for each in self.learners],
        }


def model_report(
    source: Any,
    *,
    model: Model | None = None,
    table: Any = None,
    label: str | None = None,
    progress: Progress = silent,
) -> ModelReport:
    """Look inside a release: coefficients with intervals, the learning curve, reliability, and all learners.

    Parameters
    ----------
    source : Release, the path of one, or None
        What was learned from; None where a model of several releases is all there is.
    model : Model, optional
        What was learned; by default `MomentsClassifier` learns it now.
    table, label : table in any form, and the name of its column of classes, optional
        Rows to measure on, as `rado predict` reads them. What comes out are exact numbers about these rows, which no
        promise covers.
    progress : callable, optional
        Called with what is done, how much of it, and the total.

    Examples
    --------
    >>> import radoboost as rb
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> inside = rb.model_report(rb.craft(X, y, n_rados=300, seed=0))
    >>> len(inside.coefficients), inside.curve.points[-1].n_rados, inside.reliability, inside.learners[0].name
    (30, 300, None, 'moments')
    """
    if (table is None) != (label is None):
        raise ArgumentError("give both a table and the label, the name of its column of classes, or neither")
    if source is None and model is None:
        raise ArgumentError("there is nothing to look into; give a release, or the path of one")
    release = source if source is None or isinstance(source, Release) else load(source)
    if table is None:
        return _make_model_report(release, model, None, None, progress)
    with spool_for_rereading(table, bar=progress) as rows:  # read several times
        return _make_model_report(release, model, rows, label, progress)


def _make_model_report(
    release: Release | None, model: Model | None, table: Any, label: str | None, bar: Progress
) -> ModelReport:
    """What there is to see, each part of it timed."""
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        start = time.monotonic()
        done = work()
        seconds[name] = time.monotonic() - start
        return done

    learned = timed("learned", lambda: model_to_explain(release) if model is None else model)
    reliability = curve = learners = None
    if table is not None and label is not None:
        reliability = timed("reliability", lambda: judge_reliability([learned], table, label, bar)[0])
    if release is not None:
        rows = {"table": table, "label": label, "progress": bar}
        if why_no_curve(release) is None:
            curve = timed("curve", lambda: learning_curve(release, **rows))
        if table is not None or why_no_rados_held_out(release) is None:
            learners = timed("learners", lambda: compare_learners(release, **rows))
    listed = coefficients_of_model(learned) if learned.n_classes == 2 else None
    return ModelReport(learned, release, listed, curve, reliability, learners, seconds)


def write_model_report(inside: ModelReport, place: Path, *, name: str, command: str) -> None:
    """One HTML page about a model and the release behind it; `name` is that of the model's file."""
    glance = expected_error_rows(inside.model, inside.release)[:1]
    if inside.reliability is not None:
        glance.append(["measured error", f"{inside.reliability.as_text()}, of {inside.reliability.n_rows:,} rows"])
    write_model_documents(inside.model, model_report_documents(inside, command), place, name=name, more=glance)


def model_report_documents(inside: ModelReport, command: str) -> list[Document]:
    """All parts of a page, in order; what does not apply is a part of one line."""

    def made(findings: Findings) -> Document:
        return Document(command, {}, round(inside.seconds.get(findings.name, 0.0), 2), {}, findings)

    start = time.monotonic()
    effects = explain_model_findings(inside.model)
    first = coefficient_findings(inside.model, inside.release)
    return [
        make_document(command, inside.seconds["learned"], {}, first),  # it says the versions, for all
        Document(command, {}, round(time.monotonic() - start, 2), {}, effects),
        made(learning_curve_findings(inside.curve, _why_no_curve(inside.release))),
        made(reliability_findings(inside.reliability, inside.model)),
        made(learner_comparison_findings(inside.learners, _why_learners_not_compared(inside))),
    ]


def _why_no_curve(release: Release | None) -> str | None:
    return "There is no learning curve of several releases together." if release is None else why_no_curve(release)


def _why_learners_not_compared(inside: ModelReport) -> str | None:
    if inside.release is None:
        return "Learners are compared on one release, and this model has several."
    why = why_no_rados_held_out(inside.release)
    if why and inside.learners is None:
        return f"{why} Give one: --table FILE --label COL."
    return why
