"""What is done with a model, as jobs of the studio: a table is scored, and the model is exported."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radoboost.cli.options import check_output, default_output
from radoboost.cli.predict import confusion_lines
from radoboost.errors import ArgumentError
from radoboost.learner.evaluation import judge
from radoboost.learner.export import FORMATS, export
from radoboost.learner.predict import PredictionSummary, predict_table
from radoboost.outputs import refuse_overwrite
from radoboost.release.release import atomic_write
from radoboost.report.documents import Document
from radoboost.report.findings import Findings
from radoboost.report.html import draw_plots
from radoboost.report.model_report import reliability_findings
from radoboost.report.plots import Picture
from radoboost.studio.jobs import Job
from radoboost.studio.learn_job import Learned
from radoboost.studio.shell_commands import command
from radoboost.studio.workspace import short_names


@dataclass(frozen=True, eq=False)
class Scored:
    """A table of scores that was written, what was counted, and with a label how right the model is on these rows."""

    place: Path
    predicted: PredictionSummary
    lines: tuple[str, ...]
    remarks: tuple[str, ...]
    reliability: Findings | None
    pictures: Mapping[str, Picture]


@dataclass(frozen=True)
class ScoreOrder:
    """Score this table: the model, the column of true classes if there is one, and columns to carry through."""

    root: Path
    learned: Learned
    table: Path
    label: str
    keep: tuple[str, ...]
    place: Path

    def check(self) -> None:
        """Refuse a place that must not be written to."""
        check_output(self.place, [str(self.learned.place), str(self.table)])
        refuse_overwrite(self.place, self.root / scores_place(str(self.table.relative_to(self.root))))

    def command(self) -> str:
        names = [place.relative_to(self.root) for place in (self.learned.place, self.table, self.place)]
        words: list[object] = ["predict", *names[:2], *(["--label", self.label] if self.label else [])]
        for name in self.keep:
            words += ["--keep", name]
        return command(*words, "-o", names[2])

    def run(self, job: Job) -> Scored:
        """Write the scores, and with a label judge them."""
        model, rows = self.learned.model, [str(self.table)]
        with short_names(self.root):
            self.check()
            predicted = predict_table(
                model, rows, self.place, job.progress, label=self.label or None, keep=self.keep
            )  # fmt: skip
            found, pictures = None, {}
            if predicted.n_judged:
                found = reliability_findings(judge([model], rows, self.label, job.progress)[0], model)
                job.progress("drawing", 0, None)
                pictures = draw_plots([Document("", {}, 0.0, {}, found)])
        remarks = (predicted.filled.sentence(), predicted.unjudged.sentence(self.label))
        return Scored(
            self.place,
            predicted,
            tuple(confusion_lines(predicted)),
            tuple(line.replace(f"{self.root}/", "") for line in remarks if line),
            found,
            pictures,
        )


def scores_place(name: str) -> str:
    """Where the scores of a table go, if nobody says: as `rado predict` has it."""
    return str(default_output(name, "scores.csv"))


@dataclass(frozen=True)
class ExportOrder:
    """Write the model as a program: its form, and for SQL the table and columns to carry along."""

    root: Path
    learned: Learned
    to: str
    table: str
    keep: tuple[str, ...]
    place: Path

    def command(self) -> str:
        words: list[object] = ["export", self.learned.place.relative_to(self.root), "--to", self.to]
        if self.to == "sql":
            words += ["--table", self.table] if self.table else []
            for name in self.keep:
                words += ["--keep", name]
        return command(*words, "-o", self.place.relative_to(self.root))

    def run(self, job: Job) -> int:
        """Write the program, and say how many bytes it has."""
        with short_names(self.root):
            check_output(self.place, [str(self.learned.place)])
            refuse_overwrite(self.place, self.root / export_place(self.learned.place, self.to))
            job.progress("writing the program", 0, None)
            more: dict[str, Any] = {"table": self.table or None, "keep": self.keep} if self.to == "sql" else {}
            content = export(self.learned.model, self.to, **more)
            data = content if isinstance(content, bytes) else content.encode()
            with atomic_write(self.place) as draft:
                draft.write_bytes(data)
        return len(data)


def export_place(model: Path, to: str) -> str:
    """Where a program goes, if nobody says: as `rado export` has it."""
    if to not in FORMATS:
        raise ArgumentError(f"there is no form {to!r} to export to; choose one of {', '.join(FORMATS)}")
    stem = model.name.removesuffix(".json").removesuffix(".model")
    return str(default_output(stem, FORMATS[to].removeprefix(".")))
