"""Learning as jobs of the studio: what is chosen, what is read, the model, and the look inside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radoboost.cli.learn import chosen_learner, learner_words
from radoboost.cli.options import check_output_path, default_output_path
from radoboost.cli.predict import confusion_lines, default_name_of_program
from radoboost.errors import ArgumentError
from radoboost.learner.evaluation import judge_reliability
from radoboost.learner.export import FORMATS, export
from radoboost.learner.model import Model, load_model
from radoboost.learner.model_averaging import check_models_can_be_averaged
from radoboost.learner.predict import PredictionSummary, predict_table
from radoboost.outputs import refuse_overwrite
from radoboost.release.compatibility import read_party_releases
from radoboost.release.merge import merge
from radoboost.release.release import Release, atomic_write, load
from radoboost.release.statement_text import FaqAnswer, Verdict, faq_answers, full_statement_text, verdict_of
from radoboost.report.coefficients import expected_error_rows
from radoboost.report.documents import Document
from radoboost.report.effects_report import cover_of_model_page
from radoboost.report.findings import Findings
from radoboost.report.html import PageHeader, draw_html_plots
from radoboost.report.model_report import ModelReport, model_report, model_report_documents, reliability_findings
from radoboost.report.plots import Picture
from radoboost.studio.jobs import Job
from radoboost.studio.rendering import shell_command
from radoboost.studio.security import Form
from radoboost.studio.workspace import short_names_in_errors

ONE, MERGED, AVERAGED = "one", "merged", "averaged"
_MERGED = "merged.rado.parquet"
_BY_DEFAULT = "moments"  # the learner
_BOOSTING = ("rounds", "weak", "penalty", "strength", "stop", "seed")
_SETTINGS = {"rounds": "n_rounds", "seed": "random_state"}  # what --set calls them, where it is another word


@dataclass(frozen=True)
class Promise:
    """What a release promises: what to think of it, and its statement in plain words and in full."""

    verdict: Verdict
    answers: tuple[FaqAnswer, ...]
    statement: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, release: Release) -> "Promise":
        """That of a release, which was held against itself when it was read."""
        return cls(verdict_of(release.statement), faq_answers(release), full_statement_text(release.statement))


@dataclass(frozen=True)
class Sources:
    """Releases that were read: whether they are one, merged or averaged, and what choices depend on.

    `draws` says that boosting draws rados, for the release has none, so that a seed makes it repeatable. `promises` are
    what the release says, or each of several.
    """

    places: tuple[Path, ...]
    how: str
    classes: tuple[Any, ...]
    draws: bool
    promises: tuple[Promise, ...]


def read_releases_to_learn(places: Sequence[Path]) -> Sources:
    """Read releases, and refuse those that cannot go together: plain ones are merged, private ones averaged."""
    if len(places) == 1:
        release = load(places[0])
        return Sources(tuple(places), ONE, release.classes, release.n_rados == 0, (Promise.of(release),))
    parts = read_party_releases(places, "learning from several")
    private = any(part.release.statement.promises for part in parts)
    if private:
        check_models_can_be_averaged(parts)
    else:
        merge(places)
    promises = tuple(Promise.of(part.release) for part in parts)
    return Sources(tuple(places), AVERAGED if private else MERGED, parts[0].release.classes, False, promises)


@dataclass(frozen=True)
class Choices:
    """What a form says about learning, as text, with names of its own."""

    learner: str = _BY_DEFAULT
    rounds: str = ""
    weak: str = ""
    penalty: str = ""
    strength: str = ""
    stop: str = ""
    seed: str = "0"
    prior: tuple[str, ...] = ()
    one_holder: bool = False
    merged: str = _MERGED
    output: str = ""

    @classmethod
    def first(cls, sources: Sources, names: Sequence[str]) -> "Choices":
        """What stands in the form at first."""
        others = {MERGED: "merged.model.json", AVERAGED: "average.model.json"}
        return cls(output=others.get(sources.how) or str(default_output_path(names[0], "model.json")))

    @classmethod
    def of(cls, form: Form) -> "Choices":
        texts = {name: form.text(name, "").strip() for name in ("learner", *_BOOSTING, "merged", "output")}
        prior = tuple(share.strip() for share in form.all("prior"))
        return cls(**texts, prior=prior, one_holder="one_holder" in form)

    def settings(self, sources: Sources) -> list[str]:
        """The settings of boosting where it is chosen, as --set takes them; and a seed where it draws."""
        left_out = {name for name, kept in (("strength", self.penalty), ("seed", sources.draws)) if not kept}
        names = [name for name in _BOOSTING if name not in left_out] if self.learner == "boost" else []
        chosen = {name: getattr(self, name) for name in names if getattr(self, name)}
        for name in ("rounds", "seed"):
            if name in chosen:
                chosen[name] = _integer_of_learn_form(name, chosen[name])
        return [f"{_SETTINGS.get(name, name)}={value}" for name, value in chosen.items()]

    def _shares(self, sources: Sources) -> list[str]:
        """One share of the positive class, or shares by class, as --prior takes them."""
        if len(sources.classes) == 2:
            return [share for share in self.prior[:1] if share]
        pairs = zip(sources.classes, self.prior, strict=False)
        return [f"{name}={share}" for name, share in pairs if share]

    def classifier(self, sources: Sources) -> Any:
        """The classifier, not yet fitted."""
        return chosen_learner(self.learner, self.settings(sources), self._shares(sources))

    def words(self, sources: Sources) -> list[object]:
        """The words of `rado learn` that say the same."""
        one_holder = self.one_holder and sources.how == AVERAGED
        return [*learner_words(self.learner, self.settings(sources), self._shares(sources), one_holder)]


@dataclass(frozen=True)
class LearnOrder:
    """What to learn, checked: from which releases, how, and where files go."""

    root: Path
    sources: Sources
    choices: Choices
    place: Path
    merged: Path | None

    def check(self) -> Any:
        """Refuse what cannot be written or learned, and give the classifier that is not yet fitted."""
        read = [str(place) for place in self.sources.places]
        if self.merged is not None:
            check_output_path(self.merged, read)
            refuse_overwrite(self.merged, self.root / _MERGED)
            read.append(str(self.merged))
        check_output_path(self.place, read)
        names = [str(self._name(place)) for place in self.sources.places]
        refuse_overwrite(self.place, self.root / Choices.first(self.sources, names).output)
        return self.choices.classifier(self.sources)

    def commands(self, report: str = "") -> list[str]:
        """The commands that do the same, in the folder of the studio; with a report where one is named."""
        names = [self._name(place) for place in self.sources.places]
        lines = []
        if self.merged is not None:
            lines.append(shell_command("merge", *names, "-o", self._name(self.merged)))
            names = [self._name(self.merged)]
        words = ["learn", *names, *self.choices.words(self.sources), "-o", self._name(self.place)]
        return [*lines, shell_command(*words, *(["--report", Path(report)] if report else []))]

    def learn(self, job: Job) -> "Learned":
        """Learn, and write the model; plain releases of several holders are merged first."""
        with short_names_in_errors(self.root):
            shell = self.check()
            places: list[Path] = list(self.sources.places)
            if self.merged is not None:
                job.progress("merging releases", 0, None)
                merge(places).save(self.merged)
                places = [self.merged]
            job.progress("learning", 0, None)
            together = len(places) > 1
            one_holder = together and self.choices.one_holder
            shell.fit_rados(places if together else places[0], one_holder=one_holder)
            job.progress("writing the model", 0, None)
            shell.model_.save(self.place)
            return Learned(shell.model_, None if together else shell.release_, self.place)

    def _name(self, place: Path) -> Path:
        return place.relative_to(self.root)


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, the release behind it where it is one and known, and the model's file."""

    model: Model
    release: Release | None
    place: Path

    def cover(self) -> PageHeader:
        """What its page begins with."""
        return cover_of_model_page(self.model, self.place.name)

    def expected_error(self) -> str:
        return expected_error_rows(self.model, self.release)[0][1]


def read_model_to_show(place: Path) -> Learned:
    return Learned(load_model(place), None, place)


@dataclass(frozen=True, eq=False)
class Looked:
    """What was seen inside a model, as documents and their pictures."""

    inside: ModelReport
    documents: tuple[Document, ...]
    pictures: Mapping[str, Picture]


def look_inside_model(learned: Learned, line: str, job: Job) -> Looked:
    """Look inside: what `rado learn --report` shows. Of a file alone, what follows from the model itself."""
    inside = model_report(learned.release, model=learned.model, progress=job.progress)
    documents = model_report_documents(inside, line)
    if learned.release is None:
        documents = [each for each in documents if each.findings.name in ("learned", "effects")]
    documents = [each for each in documents if each.findings.name != "reliability"]  # a table is scored on its own page
    pictures: dict[str, Picture] = {}
    for done, document in enumerate(documents):
        job.progress("drawing", done, len(documents))
        pictures |= draw_html_plots([document])
    return Looked(inside, tuple(documents), pictures)


def _integer_of_learn_form(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentError(f"{name} must be a whole number; it is {text[:40]!r}") from None


# ---- What is done with a model, as jobs of the studio: a table is scored, and the model is exported.


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
        check_output_path(self.place, [str(self.learned.place), str(self.table)])
        refuse_overwrite(self.place, self.root / place_for_scores(str(self.table.relative_to(self.root))))

    def command(self) -> str:
        names = [place.relative_to(self.root) for place in (self.learned.place, self.table, self.place)]
        words: list[object] = ["predict", *names[:2], *(["--label", self.label] if self.label else [])]
        for name in self.keep:
            words += ["--keep", name]
        return shell_command(*words, "-o", names[2])

    def run(self, job: Job) -> Scored:
        model, rows = self.learned.model, [str(self.table)]
        with short_names_in_errors(self.root):
            self.check()
            predicted = predict_table(
                model, rows, self.place, job.progress, label=self.label or None, keep=self.keep
            )  # fmt: skip
            found, pictures = None, {}
            if predicted.n_judged:
                found = reliability_findings(judge_reliability([model], rows, self.label, job.progress)[0], model)
                job.progress("drawing", 0, None)
                pictures = draw_html_plots([Document("", {}, 0.0, {}, found)])
        remarks = (predicted.filled.sentence(), predicted.unjudged.sentence(self.label))
        return Scored(
            self.place,
            predicted,
            tuple(confusion_lines(predicted)),
            tuple(line.replace(f"{self.root}/", "") for line in remarks if line),
            found,
            pictures,
        )


def place_for_scores(name: str) -> str:
    """Where the scores of a table go, if nobody says: as `rado predict` has it."""
    return str(default_output_path(name, "scores.csv"))


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
        words: list[object] = ["export", self.learned.place.relative_to(self.root)]
        if self.to == "sql":
            words += ["--table", self.table] if self.table else []
            for name in self.keep:
                words += ["--keep", name]
        return shell_command(*words, "-o", self.place.relative_to(self.root))

    def run(self, job: Job) -> int:
        with short_names_in_errors(self.root):
            check_output_path(self.place, [str(self.learned.place)])
            refuse_overwrite(self.place, self.root / place_for_exported_model(self.learned.place, self.to))
            job.progress("writing the program", 0, None)
            more: dict[str, Any] = {"table": self.table or None, "keep": self.keep} if self.to == "sql" else {}
            content = export(self.learned.model, self.to, **more)
            data = content if isinstance(content, bytes) else content.encode()
            with atomic_write(self.place) as draft:
                draft.write_bytes(data)
        return len(data)


def place_for_exported_model(model: Path, to: str) -> str:
    """Where a program goes, if nobody says: as `rado export` has it."""
    if to not in FORMATS:
        raise ArgumentError(f"there is no form {to!r} to export to; choose one of {', '.join(FORMATS)}")
    return str(default_name_of_program(model.name, to))
