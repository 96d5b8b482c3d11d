"""Theory, checked: the paper's theorems and lemmas, each by numbers, and where we differ from the paper.

Each statement has its own module in `theorems`. What chance decides has a false-alarm probability of at most one in a
million for each check; the rest is exact or a matter of counting.
"""

from types import ModuleType
from typing import Any

from radoboost.lab.paper.jobs import Options, Task
from radoboost.lab.theory import (
    boosting_bound,
    concentration,
    dp_feat,
    gaussian_theorem,
    mean_zero,
    norm_lemma,
    rejection_sampling,
    sphere_packing,
)
from radoboost.report.findings import Findings

NAME = "theory"
TITLE = "Theory, checked"
VERSION = 4

SECTIONS: tuple[ModuleType, ...] = (
    concentration,
    boosting_bound,
    dp_feat,
    rejection_sampling,
    norm_lemma,
    gaussian_theorem,
    mean_zero,
    sphere_packing,
)
_PARTS = {
    "ball": concentration,
    "classifier": concentration,
    "boosting": boosting_bound,
    "delta": dp_feat,
    "band": dp_feat,
    "joint": dp_feat,
    "rejection": rejection_sampling,
    "rejection-grid": rejection_sampling,
    "f-beta": rejection_sampling,
    "norm": norm_lemma,
    "cap": gaussian_theorem,
    "conclusion": gaussian_theorem,
    "mean-zero": mean_zero,
    "spheres": sphere_packing,
}


def cells(options: Options) -> list[Task]:
    return [cell for section in SECTIONS for cell in section.cells(options)]


def work(cell: Task, options: Options) -> dict[str, Any]:
    """One cell, by the module of its statement."""
    outcome: dict[str, Any] = _PARTS[cell["part"]].work(cell, options)
    return outcome


def findings(outcomes: dict[Task, dict[str, Any]], options: Options) -> Findings:
    """What all statements came to, in the paper's order."""
    parts: list[Findings] = [
        section.findings(
            {cell: outcome for cell, outcome in outcomes.items() if _PARTS[cell["part"]] is section}, options
        )
        for section in SECTIONS
    ]
    return Findings(
        NAME,
        TITLE,
        tables=[table for part in parts for table in part.tables],
        figures=[figure for part in parts for figure in part.figures],
        checks=[check for part in parts for check in part.checks],
        notes=[note for part in parts for note in part.notes],
    )


# ---- The paper's statements, each checked by itself; `radoboost.lab.theory.theory` puts them together.
#
# Each module that checks a statement has `cells`, `work` and `findings`, as an experiment has, and the formulas
# of the statement as functions; `gap` and `dp_feat` have formulas only.


# ---- The paper's hardness results as running code: confounders, decision problems, reductions.
