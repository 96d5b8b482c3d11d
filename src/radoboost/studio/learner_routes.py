"""The learner's way: from releases to a model, what it says, probabilities, scores, and the model elsewhere."""

import csv
import io
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from radoboost.cli.options import check_page_path
from radoboost.errors import ArgumentError, RadoError
from radoboost.learner.effects import limits_of_shown_effect
from radoboost.learner.explain import ExplainedRow, explain_row
from radoboost.learner.export import FORMATS
from radoboost.learner.model import Model
from radoboost.report.effects_report import write_effects_page
from radoboost.report.model_report import write_model_report
from radoboost.studio import learn_job
from radoboost.studio.jobs import Job
from radoboost.studio.rendering import (
    Here,
    Role,
    Sent,
    Studio,
    piped_shell_command,
    redirect_to,
    render_studio_page,
    shell_command,
    wants_part,
)
from radoboost.studio.schema_form import SchemaForm
from radoboost.studio.security import Form
from radoboost.studio.workspace import MODEL, RELEASE, TABLE, short_names_in_errors
from radoboost.tables.column_types import Category, Date, Number, category_slot_name
from radoboost.tables.csv_dialect import PLAIN

# ---- A row that somebody types: a form made of a model's columns, and the row as the model takes it.

NUMBER, CATEGORY, DATE, MOMENT = "number", "category", "date", "moment"
_TYPES = {NUMBER: pa.float64(), CATEGORY: pa.string(), DATE: pa.timestamp("s"), MOMENT: pa.timestamp("s")}
_ANOTHER = "(another value)"


@dataclass(frozen=True)
class Field:
    """One field of the form: its place among the columns, their name, and what may be typed or chosen.

    `options` of a category are its values and their words; `hint` says which values are usual.
    """

    place: int
    name: str
    kind: str
    options: tuple[tuple[str, Any], ...] = ()
    hint: str = ""

    @property
    def id(self) -> str:
        """Its name in the form: that of a column may hold what no form can carry."""
        return f"v{self.place}"


def learner_row_fields(model: Model) -> list[Field]:
    """The form for a row of a model, by its schema, or else a number for each column."""
    return [_learner_row_field(model, place, name) for place, name in enumerate(model.feature_names)]


def _learner_row_field(model: Model, place: int, name: str) -> Field:
    kind = None if model.schema is None else model.schema.columns[name]
    if isinstance(kind, Category):
        options = [(str(k), value) for k, value in enumerate(kind.values or ())]
        return Field(place, name, CATEGORY, tuple(options + [("other", _ANOTHER)] * bool(kind.other)))
    if isinstance(kind, Date):
        hint = f"{kind.low} to {kind.high}" if kind.low and kind.high and "private" not in (kind.low, kind.high) else ""
        return Field(place, name, DATE if kind.unit == "days" else MOMENT, hint=hint)
    low, high = limits_of_shown_effect(name, model.columns, model.map)
    return Field(place, name, NUMBER, hint=f"{low:.4g} to {high:.4g}")


def read_learner_row(model: Model, form: Form) -> tuple[dict[str, str], pa.Table, list[str]]:
    """What was typed, the row as a table, and the same as lines of a CSV file; empty fields are gaps."""
    typed, cells, columns = {}, [], {}
    for one in learner_row_fields(model):
        decimal = _decimal_mark_of_field(model, one)
        typed[one.id] = text = form.text(one.id, "").strip()
        if not text:
            columns[one.name] = pa.nulls(1, _TYPES[one.kind])
            cells.append("")
        elif one.kind == CATEGORY:
            value = _chosen_value_of_field(one, text)
            columns[one.name] = pa.array([value])
            cells.append(category_slot_name(value))
        elif one.kind == NUMBER:
            number = _typed_number_of_field(one, text, decimal)
            columns[one.name] = pa.array([number])
            cells.append(repr(number).removesuffix(".0").replace(".", decimal))
        else:
            moment = _typed_date_of_field(one, text)
            columns[one.name] = pa.array([moment], pa.timestamp("s"))
            cells.append(moment.isoformat() if one.kind == MOMENT else moment.date().isoformat())
    return typed, pa.table(columns), [_learner_row_as_csv(list(columns)), _learner_row_as_csv(cells)]


def _decimal_mark_of_field(model: Model, field: Field) -> str:
    """The mark that numbers of a column are written with."""
    kind = None if model.schema is None else model.schema.columns[field.name]
    marks = PLAIN if model.schema is None else model.schema.marks
    return kind.dialect(marks).decimal if isinstance(kind, Number) else marks.decimal


def _chosen_value_of_field(field: Field, text: str) -> Any:
    for key, value in field.options:
        if key == text:
            return value
    raise ArgumentError(f"{field.name} has no such value; choose one of the list")


def _typed_number_of_field(field: Field, text: str, decimal: str) -> float:
    try:
        number = float(text.replace(decimal, ".") if text.count(decimal) == 1 else text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:
        raise ArgumentError(
            f"{field.name}: {text[:40]!r} is no number; type one such as 12{decimal}5, or leave it empty"
        )
    return number


def _typed_date_of_field(field: Field, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)
    except ValueError:
        raise ArgumentError(
            f"{field.name}: {text[:40]!r} is no date; type one such as 2024-01-31, or leave it empty"
        ) from None


def _learner_row_as_csv(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


# ---- What the pages of the learner's way show, and the commands that do the same.


@dataclass
class LearnerSession:
    """What a learner is at: releases or a model that are read, a model that is learned, and what is done with it."""

    places: tuple[Path, ...]
    reading: Job
    choices: learn_job.Choices | None = None
    order: learn_job.LearnOrder | None = None
    learning: Job | None = None
    looking: Job | None = None
    report: str = ""
    typed: dict[str, str] = field(default_factory=dict)
    row: tuple[ExplainedRow, str] | None = None
    scores: learn_job.ScoreOrder | None = None
    scoring: Job | None = None
    program: learn_job.ExportOrder | None = None
    exporting: Job | None = None
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def sources(self) -> learn_job.Sources | None:
        return self.reading.result if isinstance(self.reading.result, learn_job.Sources) else None

    @property
    def learned(self) -> learn_job.Learned | None:
        job = self.reading if self.learning is None else self.learning
        return job.result if isinstance(job.result, learn_job.Learned) else None


def learner_options_data(studio: Studio, session: LearnerSession, sources: learn_job.Sources) -> dict[str, Any]:
    """What the page of options shows: the releases, the form as it stands, and the commands, or why there are none."""
    names = [studio.folder.name(place) for place in sources.places]
    choices = session.choices or learn_job.Choices.first(sources, names)
    try:
        commands, wrong = learner_order(studio, sources, choices).commands(), ""
    except ArgumentError as error:
        commands, wrong = [], str(error)
    found = [studio.folder.found(place) for place in sources.places if place.is_file()]
    return {"sources": sources, "choices": choices, "found": found, "commands": commands, "wrong": wrong}


def learner_order(studio: Studio, sources: learn_job.Sources, choices: learn_job.Choices) -> learn_job.LearnOrder:
    """What to learn, by what was chosen; refused where that cannot be understood."""
    choices.settings(sources)
    merged = studio.folder.place(choices.merged) if sources.how == learn_job.MERGED else None
    return learn_job.LearnOrder(studio.folder.root, sources, choices, studio.folder.place(choices.output), merged)


def learner_commands(
    studio: Studio, session: LearnerSession, learned: learn_job.Learned, report: str = ""
) -> list[str]:
    """The commands that make the model, or show the one that was opened."""
    if session.order is not None:
        return session.order.commands(report)
    name = Path(studio.folder.name(learned.place))
    return [shell_command("show", name, *(["--html", Path(report)] if report else []))]


def learner_row_page_data(session: LearnerSession, learned: learn_job.Learned) -> dict[str, Any]:
    """What the page of one row shows: the form as it stands, and what the model says of it."""
    explained, line = session.row or (None, "")
    return {
        "fields": learner_row_fields(learned.model),
        "typed": session.typed,
        "explained": explained,
        "command": line,
        "classes": learned.model.classes,
    }


WAY = Role(
    "learner",
    "I want to learn",
    "Learn a model from a release, see what it says and how sure it is, and take it elsewhere.",
    {RELEASE: "Learn from it", MODEL: "See what it says"},
)
router = APIRouter(prefix="/learner")
_SHORT = 0.5  # seconds within which most files are read, so that their page is the first one to be seen
_ROW_SCORES = Path("row.scores.csv")


@router.get("")
def choose(request: Request, studio: Here) -> HTMLResponse:
    return render_studio_page(
        request, "learner_choose.html", way=WAY, files=studio.folder.files(*WAY.kinds), release=RELEASE
    )


@router.post("")
def begin(request: Request, studio: Here, form: Sent) -> Response:
    """Begin with releases or with a model, which are read in a job."""
    if not form.all("file"):
        raise ArgumentError("no release is chosen; tick two or more, or begin with one by its button")
    places = tuple(dict.fromkeys(studio.folder.file(word) for word in form.all("file")))
    number, reading = open_files(studio, places)
    reading.wait(_SHORT)
    if reading.state == "failed":
        raise ArgumentError(reading.failure)
    return redirect_to(request, f"/learner/{number}")


def open_files(studio: Studio, places: tuple[Path, ...]) -> tuple[str, Job]:
    """A session of releases or a model, by the first of them, and the job that reads them."""
    names = ", ".join(studio.folder.name(place) for place in places)
    is_model = studio.folder.found(places[0]).kind == MODEL
    if is_model and len(places) > 1:
        raise ArgumentError(f"{studio.folder.name(places[0])} is a model; begin with it alone, or with releases alone")

    def read(_: Job) -> learn_job.Sources | learn_job.Learned:
        with short_names_in_errors(studio.folder.root):
            return learn_job.read_model_to_show(places[0]) if is_model else learn_job.read_releases_to_learn(places)

    reading = studio.jobs.start(f"Reading {names}", read, lane="look")
    number = studio.sessions.add(LearnerSession(places, reading))
    reading.address = f"/learner/{number}"
    return number, reading


@router.get("/{number}")
def options(request: Request, studio: Here, number: str) -> Response:
    """How to learn from releases; a model has its own page."""
    session = studio.sessions.get(number, LearnerSession)
    if isinstance(session.reading.result, learn_job.Learned):
        return redirect_to(request, f"/learner/{number}/model")
    if session.sources is None:
        return _learner_page(request, studio, number, "learner_reading.html", job=session.reading)
    return _learner_page(
        request, studio, number, "learner.html", **learner_options_data(studio, session, session.sources)
    )


@router.post("/{number}/options")
def change_options(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Take the options, and show the command that they make."""
    session = studio.sessions.get(number, LearnerSession)
    sources = _learner_sources(session)
    session.choices = learn_job.Choices.of(form)
    if not wants_part(request):
        return redirect_to(request, f"/learner/{number}")
    return render_studio_page(request, "learner_command.html", **learner_options_data(studio, session, sources))


@router.post("/{number}")
def learn(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Learn, as a job, and look inside afterwards."""
    session = studio.sessions.get(number, LearnerSession)
    sources = _learner_sources(session)
    with session.lock:
        session.choices = learn_job.Choices.of(form)
        if session.learning is not None and not session.learning.is_over:
            raise ArgumentError("this is being learned already; wait for it, or cancel it")
        order = learner_order(studio, sources, session.choices)
        with short_names_in_errors(studio.folder.root):
            order.check()
        address = f"/learner/{number}/model"

        def work(job: Job) -> learn_job.Learned:
            learned = order.learn(job)
            _start_model_report(studio, number, session, learned)
            return learned

        if session.looking is not None:
            session.looking.cancel()
        session.order, session.looking, session.report, session.row = order, None, "", None
        session.scoring = session.exporting = None
        session.learning = studio.jobs.start(f"Learning {studio.folder.name(order.place)}", work, address=address)
    session.learning.wait(_SHORT)
    return redirect_to(request, address)


@router.get("/{number}/model")
def model(request: Request, studio: Here, number: str) -> Response:
    """What the model says, and the statement of the release behind it."""
    session = studio.sessions.get(number, LearnerSession)
    learned = session.learned
    if learned is None:
        if session.learning is None:
            return redirect_to(request, f"/learner/{number}")
        return _learner_page(request, studio, number, "learner_reading.html", job=session.learning)
    with session.lock:
        if session.looking is None:  # it was read from a file
            _start_model_report(studio, number, session, learned)
            assert session.looking is not None
            session.looking.wait(_SHORT)
    notices = [] if session.learning is None else session.learning.notices
    drawn = learned.model.learner.get("drawn_rados")
    if drawn:
        notices = [*notices, f"The release has no rados, so {drawn:,} were drawn from its moments."]
    values = {"cover": learned.cover(), "looking": session.looking, "notices": notices, "report": session.report}
    commands = learner_commands(studio, session, learned, session.report)
    return _learner_page(
        request, studio, number, "learner_model.html", suggested=_report_name(learned), commands=commands, **values
    )


@router.post("/{number}/look")
def look_again(request: Request, studio: Here, number: str) -> Response:
    session, learned = _learner_session(studio, number)
    with session.lock:
        if session.looking is None or (session.looking.is_over and session.looking.state != "done"):
            _start_model_report(studio, number, session, learned)
    return redirect_to(request, f"/learner/{number}/model")


@router.post("/{number}/report")
def report(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Write the page that `rado learn --report` writes; of a model alone, what `rado show --html` does."""
    session, learned = _learner_session(studio, number)
    if session.looking is None or session.looking.state != "done":
        raise ArgumentError("the look inside has not ended yet; wait for it, and write the page then")
    name = form.text("report")
    place = studio.folder.place(name)
    with short_names_in_errors(studio.folder.root):
        read = [str(learned.place), *map(str, session.places)]
        check_page_path(place, read, "-o", learned.place, default=studio.folder.root / _report_name(learned))
        line = learner_commands(studio, session, learned, studio.folder.name(place))[-1]
        if session.order is None:
            write_effects_page(learned.model, place, name=learned.place.name, command=line)
        else:
            write_model_report(session.looking.result.inside, place, name=learned.place.name, command=line)
    session.report = studio.folder.name(place)
    return redirect_to(request, f"/learner/{number}/model")


@router.get("/{number}/row")
def row(request: Request, studio: Here, number: str) -> Response:
    session = studio.sessions.get(number, LearnerSession)
    if session.learned is None:
        return redirect_to(request, f"/learner/{number}/model")
    return _learner_page(request, studio, number, "learner_row.html", **learner_row_page_data(session, session.learned))


@router.post("/{number}/row")
def change_row(request: Request, studio: Here, number: str, form: Sent) -> Response:
    session, learned = _learner_session(studio, number)
    session.typed = {each.id: form.text(each.id, "").strip() for each in learner_row_fields(learned.model)}
    _, table, lines = read_learner_row(learned.model, form)
    with short_names_in_errors(studio.folder.root):
        explained = explain_row(learned.model, table)
    name = Path(studio.folder.name(learned.place))
    session.row = (explained, piped_shell_command(lines, "predict", name, "-", "-o", _ROW_SCORES))
    if not wants_part(request):
        return redirect_to(request, f"/learner/{number}/row")
    return render_studio_page(request, "learner_answer.html", **learner_row_page_data(session, learned))


@router.get("/{number}/table")
def table(request: Request, studio: Here, number: str) -> Response:
    session = studio.sessions.get(number, LearnerSession)
    if session.learned is None:
        return redirect_to(request, f"/learner/{number}/model")
    schema = session.learned.model.schema
    values = {"tables": studio.folder.files(TABLE), "order": session.scores, "job": session.scoring}
    label = "" if schema is None else schema.label or ""
    return _learner_page(request, studio, number, "learner_table.html", label=label, **values)


@router.post("/{number}/table")
def score(request: Request, studio: Here, number: str, form: Sent) -> Response:
    session, learned = _learner_session(studio, number)
    rows = studio.folder.file(form.text("path", "").strip() or form.text("table"))
    output = form.text("output", "").strip() or learn_job.place_for_scores(studio.folder.name(rows))
    with session.lock, short_names_in_errors(studio.folder.root):
        if session.scoring is not None and not session.scoring.is_over:
            raise ArgumentError("a table is being scored already; wait for it, or cancel it")
        order = learn_job.ScoreOrder(
            studio.folder.root,
            learned,
            rows,
            form.text("label", "").strip(),
            _names_in_learner_form(form.text("keep", "")),
            studio.folder.place(output),
        )
        order.check()
        studio.show_counts(rows, _decided_by_now(studio, learned, rows))  # how many rows there are, and what they hold
        title, address = f"Scoring {studio.folder.name(rows)}", f"/learner/{number}/table"
        session.scores, session.scoring = order, studio.jobs.start(title, order.run, address=address)
    session.scoring.wait(_SHORT)
    return redirect_to(request, address)


@router.get("/{number}/export")
def elsewhere(request: Request, studio: Here, number: str) -> Response:
    session = studio.sessions.get(number, LearnerSession)
    if session.learned is None:
        return redirect_to(request, f"/learner/{number}/model")
    values = {"order": session.program, "job": session.exporting, "forms": FORMATS}
    return _learner_page(request, studio, number, "learner_export.html", **values)


@router.post("/{number}/export")
def write_program(request: Request, studio: Here, number: str, form: Sent) -> Response:
    session, learned = _learner_session(studio, number)
    to = form.text("to")
    output = form.text("output", "").strip() or learn_job.place_for_exported_model(learned.place, to)
    with session.lock, short_names_in_errors(studio.folder.root):
        if session.exporting is not None and not session.exporting.is_over:
            raise ArgumentError("the model is being exported already; wait for it")
        table, keep = form.text("table", "").strip(), _names_in_learner_form(form.text("keep", ""))
        order = learn_job.ExportOrder(studio.folder.root, learned, to, table, keep, studio.folder.place(output))
        title, address = f"Writing {studio.folder.name(order.place)}", f"/learner/{number}/export"
        session.program, session.exporting = order, studio.jobs.start(title, order.run, address=address, lane="look")
    session.exporting.wait(2 * _SHORT)
    return redirect_to(request, address)


# ---- what pages have


def _learner_page(request: Request, studio: Studio, number: str, template: str, **values: Any) -> HTMLResponse:
    session = studio.sessions.get(number, LearnerSession)
    place = session.places[0] if session.learned is None else session.learned.place
    name = ", ".join(map(studio.folder.name, session.places)) if session.learned is None else studio.folder.name(place)
    return render_studio_page(request, template, way=WAY, number=number, at=session, name=name, **values)


def _start_model_report(studio: Studio, number: str, session: LearnerSession, learned: learn_job.Learned) -> None:
    line = learner_commands(studio, session, learned)[-1]

    def work(job: Job) -> Any:
        with short_names_in_errors(studio.folder.root):
            return learn_job.look_inside_model(learned, line, job)

    title = f"Looking inside {studio.folder.name(learned.place)}"
    session.looking = studio.jobs.start(title, work, address=f"/learner/{number}/model")


def _learner_session(studio: Studio, number: str) -> tuple[LearnerSession, learn_job.Learned]:
    session = studio.sessions.get(number, LearnerSession)
    if session.learned is None:
        raise ArgumentError("there is no model yet; learn one first")
    return session, session.learned


def _decided_by_now(studio: Studio, learned: learn_job.Learned, table: Path) -> Mapping[str, Any]:
    """What was decided about the columns of a table: in its latest draft, or else by the schema behind the model."""
    drafts = [getattr(thing, "draft", None) for thing in studio.sessions.all()]
    of_table = [draft for draft in drafts if isinstance(draft, SchemaForm) and draft.table.resolve() == table.resolve()]
    schema = learned.model.schema
    if of_table or schema is None:
        return of_table[-1].entries() if of_table else {}
    try:
        draft = SchemaForm.of(table)
        draft.take_up(schema)
    except RadoError:  # it is of another table
        return {}
    return {name: entry for name, entry in draft.entries().items() if name in (*schema.columns, schema.label)}


def _learner_sources(session: LearnerSession) -> learn_job.Sources:
    if session.sources is None:
        raise ArgumentError("no release is read yet; begin with one")
    return session.sources


def _report_name(learned: learn_job.Learned) -> str:
    return f"{learned.place.name.removesuffix('.json').removesuffix('.model')}.html"


def _names_in_learner_form(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())
