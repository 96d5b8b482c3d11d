"""Theory, checked: the paper's theorems and lemmas, each by numbers, and where we differ from the paper.

Each statement has its own module in `theorems`. What chance decides has a false-alarm probability of at most one in a
million for each check; the rest is exact or a matter of counting.
"""

from types import ModuleType
from typing import Any

from radoboost.findings import Findings
from radoboost.paper.cells import Cell, Options
from radoboost.paper.theorems import (
    boosting,
    concentration,
    marginal,
    mean_zero,
    norm_lemma,
    prudence,
    rejection,
    spheres,
)

NAME = "theory"
TITLE = "Theory, checked"
VERSION = 4

SECTIONS: tuple[ModuleType, ...] = (
    concentration,
    boosting,
    marginal,
    rejection,
    norm_lemma,
    prudence,
    mean_zero,
    spheres,
)
_PARTS = {
    "ball": concentration,
    "classifier": concentration,
    "boosting": boosting,
    "delta": marginal,
    "band": marginal,
    "joint": marginal,
    "rejection": rejection,
    "rejection-grid": rejection,
    "f-beta": rejection,
    "norm": norm_lemma,
    "cap": prudence,
    "conclusion": prudence,
    "mean-zero": mean_zero,
    "spheres": spheres,
}


def cells(options: Options) -> list[Cell]:
    return [cell for section in SECTIONS for cell in section.cells(options)]


def work(cell: Cell, options: Options) -> dict[str, Any]:
    """One cell, by the module of its statement."""
    outcome: dict[str, Any] = _PARTS[cell["part"]].work(cell, options)
    return outcome


def findings(outcomes: dict[Cell, dict[str, Any]], options: Options) -> Findings:
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
