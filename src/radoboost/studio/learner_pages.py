"""What the pages of the learner's way show, and the commands that do the same."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.learner.one_row import ExplainedRow
from radoboost.studio.commands import command
from radoboost.studio.jobs import Job
from radoboost.studio.layout import Studio
from radoboost.studio.learning import MERGED, Choices, Learned, Order, Sources
from radoboost.studio.model_work import ExportOrder, ScoreOrder
from radoboost.studio.typed_rows import fields_of


@dataclass
class LearnerSession:
    """What a learner is at: releases or a model that are read, a model that is learned, and what is done with it."""

    places: tuple[Path, ...]
    reading: Job
    choices: Choices | None = None
    order: Order | None = None
    learning: Job | None = None
    looking: Job | None = None
    report: str = ""
    typed: dict[str, str] = field(default_factory=dict)
    row: tuple[ExplainedRow, str] | None = None
    scores: ScoreOrder | None = None
    scoring: Job | None = None
    program: ExportOrder | None = None
    exporting: Job | None = None
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def sources(self) -> Sources | None:
        """The releases, once they are read."""
        return self.reading.result if isinstance(self.reading.result, Sources) else None

    @property
    def learned(self) -> Learned | None:
        """The model, once it is read or learned."""
        job = self.reading if self.learning is None else self.learning
        return job.result if isinstance(job.result, Learned) else None


def options_of(studio: Studio, session: LearnerSession, sources: Sources) -> dict[str, Any]:
    """What the page of options shows: the releases, the form as it stands, and the commands, or why there are none."""
    names = [studio.folder.name(place) for place in sources.places]
    choices = session.choices or Choices.first(sources, names)
    try:
        commands, wrong = order_of(studio, sources, choices).commands(), ""
    except ArgumentError as error:
        commands, wrong = [], str(error)
    found = [studio.folder.found(place) for place in sources.places if place.is_file()]
    return {"sources": sources, "choices": choices, "found": found, "commands": commands, "wrong": wrong}


def order_of(studio: Studio, sources: Sources, choices: Choices) -> Order:
    """What to learn, by what was chosen; refused where that cannot be understood."""
    choices.options(sources)
    merged = studio.folder.place(choices.merged) if sources.how == MERGED else None
    return Order(studio.folder.root, sources, choices, studio.folder.place(choices.output), merged)


def commands_of(studio: Studio, session: LearnerSession, learned: Learned, report: str = "") -> list[str]:
    """The commands that make the model, or show the one that was opened."""
    if session.order is not None:
        return session.order.commands(report)
    name = Path(studio.folder.name(learned.place))
    return [command("show", name, *(["--html", Path(report)] if report else []))]


def row_of(session: LearnerSession, learned: Learned) -> dict[str, Any]:
    """What the page of one row shows: the form as it stands, and what the model says of it."""
    explained, line = session.row or (None, "")
    return {
        "fields": fields_of(learned.model),
        "typed": session.typed,
        "explained": explained,
        "command": line,
        "classes": learned.model.classes,
    }
