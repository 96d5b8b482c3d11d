"""A look inside: what was learned from a release and how, what more rados would bring, how right it is, and learners.

look_inside(release)       all of it as data: Inside
inside_documents(inside)   the same as tables and figures
write_inside(...)          one page that opens without a network
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from radoboost.errors import ArgumentError
from radoboost.findings import Findings
from radoboost.findings.coefficients import Coefficient, coefficient_findings, coefficients, expected_rows
from radoboost.findings.documents import Document, document
from radoboost.findings.explained import explain_findings, model_of, write_documents
from radoboost.findings.inside_parts import curve_findings, learner_findings, reliability_findings
from radoboost.findings.learners import Compared, compare_learners, nothing_held_out
from radoboost.findings.learning_curve import LearningCurve, learning_curve, no_curve
from radoboost.learner.model import Model
from radoboost.learner.reliability import Reliability, judge
from radoboost.progress import Progress, silent
from radoboost.release import Release, load
from radoboost.release.tilted import first_batch_notice
from radoboost.tables.streams import at_rest

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Inside:
    """What can be said of a model and the release behind it; None where something does not apply.

    `seconds` says how long each part took, by its name.
    """

    model: Model
    release: Release | None
    coefficients: tuple[Coefficient, ...] | None
    curve: LearningCurve | None
    reliability: Reliability | None
    learners: tuple[Compared, ...] | None
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


def look_inside(
    source: Any,
    *,
    model: Model | None = None,
    table: Any = None,
    label: str | None = None,
    progress: Progress = silent,
) -> Inside:
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
    >>> inside = rb.look_inside(rb.craft(X, y, n_rados=300, seed=0))
    >>> len(inside.coefficients), inside.curve.points[-1].n_rados, inside.reliability, inside.learners[0].name
    (30, 300, None, 'moments')
    """
    if (table is None) != (label is None):
        raise ArgumentError("give both a table and the label, the name of its column of classes, or neither")
    if source is None and model is None:
        raise ArgumentError("there is nothing to look into; give a release, or the path of one")
    release = source if source is None or isinstance(source, Release) else load(source)
    if table is None:
        return _looked(release, model, None, None, progress)
    with at_rest(table, bar=progress) as rows:  # read several times
        return _looked(release, model, rows, label, progress)


def _looked(release: Release | None, model: Model | None, table: Any, label: str | None, bar: Progress) -> Inside:
    """What there is to see, each part of it timed."""
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        start = time.monotonic()
        done = work()
        seconds[name] = time.monotonic() - start
        return done

    learned = timed("learned", lambda: model_of(release) if model is None else model)
    reliability = curve = learners = None
    if table is not None and label is not None:
        reliability = timed("reliability", lambda: judge([learned], table, label, bar)[0])
    if release is not None:
        rows = {"table": table, "label": label, "progress": bar}
        if no_curve(release) is None:
            curve = timed("curve", lambda: learning_curve(release, **rows))
        if table is not None or nothing_held_out(release) is None:
            learners = timed("learners", lambda: compare_learners(release, **rows))
    listed = coefficients(learned) if learned.n_classes == 2 else None
    return Inside(learned, release, listed, curve, reliability, learners, seconds)


def write_inside(inside: Inside, place: Path, *, name: str, command: str) -> None:
    """One HTML page about a model and the release behind it; `name` is that of the model's file."""
    glance = expected_rows(inside.model, inside.release)[:1]
    if inside.reliability is not None:
        glance.append(["measured error", f"{inside.reliability.in_words()}, of {inside.reliability.n_rows:,} rows"])
    write_documents(inside.model, inside_documents(inside, command), place, name=name, more=glance)


def inside_documents(inside: Inside, command: str) -> list[Document]:
    """All parts of a page, in order; what does not apply is a part of one line."""

    def made(findings: Findings) -> Document:
        return Document(command, {}, round(inside.seconds.get(findings.name, 0.0), 2), {}, findings)

    start = time.monotonic()
    effects = explain_findings(inside.model)
    first = coefficient_findings(inside.model, inside.release)
    return [
        document(command, inside.seconds["learned"], {}, first),  # it says the versions, for all
        Document(command, {}, round(time.monotonic() - start, 2), {}, effects),
        made(curve_findings(inside.curve, _why_no_curve(inside.release) or _about_first(inside.release))),
        made(reliability_findings(inside.reliability, inside.model)),
        made(learner_findings(inside.learners, _why_no_learners(inside))),
    ]


def _why_no_curve(release: Release | None) -> str | None:
    return "There is no learning curve of several releases together." if release is None else no_curve(release)


def _about_first(release: Release | None) -> str | None:
    notice = None if release is None else first_batch_notice(release)
    return None if notice is None else f"{notice[0].upper()}{notice[1:]}."


def _why_no_learners(inside: Inside) -> str | None:
    if inside.release is None:
        return "Learners are compared on one release, and this model has several."
    why = nothing_held_out(inside.release)
    if why and inside.learners is None:
        return f"{why} Give one: --table FILE --label COL."
    if why is None and (about := _about_first(inside.release)):
        return (
            f"R2 and the expected error: {about[0].lower()}{about[1:]} What is measured is of all that a learner takes."
        )
    return why
