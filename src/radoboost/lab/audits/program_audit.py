"""The exact audit of this program at the settings of a release: on made-up tables, and not of the file.

Most attacks are on a single record, and none is on a person. What can be shown at any settings is that this program
keeps such a promise on pairs of made-up tables (`exact_audits`). That says nothing about the file: another program, or
an altered one, may have made it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms import Mechanism, Moments, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.moments.budget import COUNTS_SHARE, SEARCHES
from radoboost.lab.attacks.adversary_knowledge import attack_deadline
from radoboost.lab.attacks.mechanism_from_release import column_word_of_release
from radoboost.lab.audits.canaries import Scenario
from radoboost.lab.audits.exact_audit import ABOUT_EXACT, ALL_STAGES, REPLAYS, ExactAudit, StageRatio
from radoboost.privacy import event_from_dict
from radoboost.progress import Progress
from radoboost.release.kind import NOISY_MOMENTS
from radoboost.release.parties import ROOM
from radoboost.release.release import Release, epsilon_as_json
from radoboost.release.statement_check import fitting_room_figures
from radoboost.release.statement_text import at_one_holder
from radoboost.report.findings import Findings, ReportColumn, ReportTable

NAME = "program"
TITLE = "Does this program keep such a promise on made-up tables?"
ASSUMES = (
    "Nothing of the file but its settings: mechanism, epsilon, delta, what is protected, rows of a person, classes and "
    "kind of columns. The tables are made up, and so is all that is released of them."
)


def why_program_not_audited(release: Release) -> str | None:
    if release.law == "banded sums":
        return (
            "The promise is about the marginal of one column, and not about records, persons or labels. The command "
            "rado audit --mechanism feature-band has its exact law."
        )
    if math.isinf(release.statement.epsilon):
        return "The release promises nothing, so there is nothing to hold the program against."
    if release.law not in REPLAYS:
        return "How its numbers were made is not known here."
    if _room_of_release(release) is not None and release.law != NOISY_MOMENTS:
        return f"Replays of rooms are of moments, and this is a room with {release.mechanism['name']}."
    return None


def audit_program(release: Release, seconds: float, bar: Progress) -> ExactAudit:
    """Replay the mechanism of a release at its settings, with few pairs and transcripts."""
    left = attack_deadline(seconds)

    def step(task: str, done: int, total: int | None) -> None:
        if left() <= 0:
            raise ArgumentError(f"it was stopped after {seconds:g} seconds; give it more with --seconds")
        bar(task, done, total)

    return REPLAYS[release.law](
        _mechanism_at_release_settings(release), replace(_scenario_of_release(release), thorough=False, bar=step)
    )


def program_audit_text(release: Release, result: ExactAudit) -> str:
    stated, most = release.statement, release.mechanism.get("max_rows")
    rows = "" if most is None else f", at most {most:,} rows of each"
    found = (
        f"For {release.mechanism['name']} at epsilon {stated.epsilon:.4g} and delta {stated.delta:g}, for "
        f"{stated.neighbours}{rows}{at_one_holder(stated)}, "
    )
    if result.holds:
        several = "s" if result.transcripts > 1 else ""
        found += (
            f"none of {result.pairs:,} pairs of neighbouring tables is further apart than the promise allows, along "
            f"{result.transcripts:,} set{several} of released numbers. The furthest pair uses "
            f"{math.floor(1e4 * result.ratio) / 100:.2f} % of what is allowed."
        )
    elif result.faults:
        found += f"a check failed: {result.faults[0]}."
    else:
        found += (
            f"a pair is {result.ratio:.4g} times as far apart as the promise allows: {result.pair}; "
            f"{result.transcript}."
        )
    return f"{found} This is {ABOUT_EXACT}."


def program_audit_findings(result: ExactAudit) -> Findings:
    """The largest ratio of all stages together, and of each."""
    worst = [StageRatio(ALL_STAGES, result.ratio, result.pair, result.transcript), *result.stages]
    rows = [[one.stage, epsilon_as_json(one.ratio), one.pair, one.transcript] for one in worst]
    notes = [f"This is {ABOUT_EXACT}.", *([f"{result.remark}."] if result.remark else []), *result.faults]
    table = ReportTable(
        "stages", "How far the worst pairs are apart",
        ["stage", ReportColumn("of what is allowed", None, 6), "the worst pair", "along"], rows,
    )  # fmt: skip
    return Findings(NAME, TITLE, tables=[table], notes=notes)


# ---- the settings of a release


def _mechanism_at_release_settings(release: Release) -> Mechanism:
    parameters, stated = release.mechanism, release.statement
    if release.law == "noisy sums":
        return NoisyRados(stated.epsilon, stated.delta, parameters["clip"])
    if release.law == "sums of noisy rows":
        return NoisyExamples(stated.epsilon, stated.delta, parameters["clip"])
    return Moments(
        stated.epsilon, stated.delta, parameters["unit"], parameters["sharpen"], _bounds_share_of_release(parameters),
        parameters.get("relation", "add"),
    )  # fmt: skip


def _bounds_share_of_release(parameters: Mapping[str, Any]) -> float:
    """The part of mu squared that the search for bounds took, by its noise beside that of the counts of rows."""
    noise, searched = parameters["noise"], len(parameters.get("searched", ()))
    if not searched or not noise["bounds 1"]:
        return Moments.bounds_share
    square: float = searched * (noise["counts"] / noise["bounds 1"]) ** 2
    return min(max(round(COUNTS_SHARE * square / SEARCHES[0][1], 6), 0.001), 0.9)


def _scenario_of_release(release: Release) -> Scenario:
    """What a replay is told beside the mechanism: persons, classes, columns, and how tables are read."""
    parameters = release.mechanism
    most = parameters.get("max_rows") if parameters.get("person") is not None else None
    if release.law != NOISY_MOMENTS:
        return Scenario(max_rows=most, n_rados=release.n_rados)
    private = bool(parameters.get("searched"))
    raw = release.schema is not None and most is None and not private
    return Scenario(
        max_rows=most, n_classes=release.n_classes, columns=column_word_of_release(release), private_bounds=private,
        raw=raw,
        room=_room_of_release(release),
    )  # fmt: skip


def _room_of_release(release: Release) -> tuple[int, int] | None:
    """How many holders made a release in a room, and for how many who are lost or collude it has noise."""
    stated = release.statement
    if stated.holders is None or stated.holders.how != ROOM:
        return None
    fitting = fitting_room_figures(event_from_dict(stated.event), stated.delta, stated.holders)
    return len(stated.holders.parts), next(tolerate for tolerate, _ in fitting)
