"""Errors by domain and learner beside those that the paper prints: how far apart they are, and which agree."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from radoboost.lab.paper.domains import SOURCES
from radoboost.lab.paper.jobs import Options, Task
from radoboost.lab.paper.protocol import N_FOLDS, Summary, errors_between, paired_t_test, summarise_fold_errors
from radoboost.report.findings import Check, Figure, Panel, ReportColumn, ReportTable, Series

LEARNERS = {"adaboost": "AdaBoost", "adaboost_sub": "AdaBoost(n)", "radoboost": "RadoBoost"}
"""AdaBoost_SS on the training fold, AdaBoost_SS on n examples of it, and RadoBoost on n rados."""
SMALL = [name for name, source in SOURCES.items() if 0 < source.rows < 100_000]
"""The 13 domains that the claims are counted over; the other three are too large for a quick look."""


@dataclass(frozen=True)
class Row:
    """What was found on a domain: facts, the errors of the folds by learner, and the smallest |r_t| of each."""

    name: str
    facts: dict[str, Any]
    errors: dict[str, list[float]]
    least_edge: dict[str, float]

    @property
    def title(self) -> str:
        return SOURCES[self.name].title

    @property
    def complete(self) -> bool:
        return bool(self.facts["complete"])

    def summary(self, learner: str) -> Summary:
        return summarise_fold_errors(self.errors[learner])

    def p(self, learner: str) -> float:
        """The p of the two-tailed paired t-test of a learner against RadoBoost."""
        return paired_t_test(self.errors[learner], self.errors["radoboost"])


def gather_fold_errors(outcomes: Mapping[Task, dict[str, Any]], clamp: float = 0.0) -> list[Row]:
    """The outcomes of the folds of each domain, with this clamp."""
    return [
        Row(
            name,
            results[0],
            {learner: [fold["error"][learner] for fold in results] for learner in LEARNERS},
            {learner: min(fold["least_edge"][learner] for fold in results) for learner in LEARNERS},
        )
        for name, results in outcomes_of_part(outcomes, clamp).items()
    ]


def outcomes_of_part(
    outcomes: Mapping[Task, dict[str, Any]], clamp: float, part: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The outcomes of one part's cells by domain, with this clamp."""
    chosen: dict[str, list[dict[str, Any]]] = {}
    for cell, outcome in outcomes.items():
        if cell["clamp"] == clamp and cell.get("part") == part:
            chosen.setdefault(cell["domain"], []).append(outcome)
    return chosen


@cache
def printed_table(name: str) -> dict[str, dict[str, str]]:
    """A table of the paper by domain, as it ships with the package; "sub" is AdaBoost_SS on n examples."""
    text = (files("radoboost.lab.paper") / f"paper_{name}.csv").read_text(encoding="utf-8")
    return {row["domain"]: row for row in csv.DictReader(text.splitlines())}


def printed_error(name: str, domain: str, learner: str) -> Summary:
    row = printed_table(name)[domain]
    return Summary(float(row[f"{learner}_err"]), float(row[f"{learner}_std"]), N_FOLDS)


def compare_with_paper(name: str, rows: Sequence[Row]) -> ReportTable:
    """Our errors, those of a table of the paper, and how many combined standard errors lie between; then p and p'."""
    columns: list[Any] = ["domain"]
    for title in LEARNERS.values():
        columns += [ReportColumn(title, "%", 2), ReportColumn(f"{title}, paper", "%", 2)]
        columns.append(ReportColumn(f"{title}, apart", digits=2))
    columns += ["p, paper", "p', paper"]
    lines = []
    for row in rows:
        line: list[Any] = [row.title]
        for learner in LEARNERS:
            ours = row.summary(learner)
            theirs = printed_error(name, row.name, learner) if row.complete else None
            line += [ours.mean, theirs.mean, errors_between(ours, theirs)] if theirs else [ours.mean, None, None]
        lines.append(line + [printed_table(name)[row.name][p] if row.complete else None for p in ("p", "p_sub")])
    note = "apart: the difference in combined standard errors, each from the standard deviation over folds."
    return ReportTable("paper", "Beside the paper", columns, lines, note)


def check_paper_agrees(
    name: str, rows: Sequence[Row], learners: Sequence[str], allowed: int, options: Options
) -> Check:
    """Whether all but `allowed` cells of these learners are within two combined standard errors of the paper's."""
    ours = [row for row in rows if row.complete and row.name in SMALL]
    cells, in_all = len(learners) * len(ours), len(learners) * len(SMALL)
    pairs = [(r, one, r.summary(one), printed_error(name, r.name, one)) for r in ours for one in learners]
    wrong = [
        f"{row.title}, {LEARNERS[one]} ({here.mean:.2f} against {theirs.mean:.2f} %, {apart:.1f} apart)"
        for row, one, here, theirs in pairs
        if (apart := errors_between(here, theirs)) > 2
    ]
    why = f"{cells - len(wrong)} of {cells} are" + (f"; outside: {'; '.join(wrong)}" if wrong else "")
    whole = len(ours) == len(SMALL) and not options.quick
    if not whole:
        why += f"; {'in a quick run' if options.quick else f'{len(ours)} of the {len(SMALL)} domains were run'}"
    titles = " and ".join(LEARNERS[learner] for learner in learners)
    statement = (
        f"{titles}: at least {in_all - allowed} of {in_all} errors are within two combined standard errors of "
        "the paper's"
    )
    return Check(statement, len(wrong) <= allowed if whole else None, why)


def figure_versus_paper(name: str, rows: Sequence[Row]) -> Figure:
    """A panel for each learner: our errors and the paper's, by domain."""
    complete = [row for row in rows if row.complete]
    panels = []
    for learner, title in LEARNERS.items():
        series = [_error_points("here", rows, [row.summary(learner) for row in rows])]
        if complete:
            printed = [printed_error(name, row.name, learner) for row in complete]
            series.append(_error_points("paper", complete, printed))
        panels.append(Panel(title, "domain", "test error, %", series))
    caption = "Mean test error and its standard error over folds, here and in the paper."
    return Figure("errors", "Test errors, here and in the paper", caption, panels)


def _error_points(label: str, rows: Sequence[Row], summaries: Sequence[Summary]) -> Series:
    errors = [summary.std / math.sqrt(summary.n) for summary in summaries]
    places = [row.title for row in rows]
    return Series(label, places, [summary.mean for summary in summaries], error=errors, style="points")
