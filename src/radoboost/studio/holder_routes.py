"""The holder's way: from a table to a release. Columns, then the budget, then the craft and what it promises."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from radoboost.cli.options import check_output_path, classes_option, default_output_path
from radoboost.errors import ArgumentError, OutputError, RadoError
from radoboost.outputs import refuse_overwrite
from radoboost.privacy.ledger import Ledger
from radoboost.release.file_format import digest_of_release_file
from radoboost.release.release import atomic_write, percent_up_text
from radoboost.release.statement_text import epsilon_text, statement_figures_text, statement_text
from radoboost.studio import budget_form, learner_routes, officer_routes
from radoboost.studio.jobs import Crafted, CraftOrder, Job, Work, check_output_place_free
from radoboost.studio.rendering import (
    Here,
    Role,
    Sent,
    Studio,
    redirect_to,
    render_studio_page,
    shell_command,
    wants_part,
)
from radoboost.studio.schema_form import ABOUT, MOST_CARDS, SchemaForm, read_card_entry
from radoboost.studio.security import Form
from radoboost.studio.workspace import LEDGER, RELEASE, SCHEMA, TABLE, Folder, short_names_in_errors
from radoboost.tables.schema import Schema

# ---- What the pages of the holder's way show, and the commands that do the same.


def holder_columns_page_data(studio: Studio, number: str, session: "HolderSession") -> dict[str, Any]:
    draft, folder = session.draft, studio.folder
    problems, schemas = draft.problems(), folder.files(SCHEMA)
    place = session.written or folder.root / default_output_path(folder.name(session.table), "schema.json")
    return {
        "number": number,
        "found": folder.found(session.table),
        "draft": draft,
        "names": list(draft.types),
        "cards": draft.cards(),
        "places": {name: place for place, name in enumerate(draft.types)},
        "more": max(0, len(draft.types) - MOST_CARDS),
        "kinds": ABOUT,
        "problems": problems,
        "undecided": draft.undecided(),
        "schema_name": folder.name(place),
        "there": place.exists() and place != session.written,
        "schemas": schemas,
        "schema_choices": [(found.id, found.name) for found in schemas],
        "proposing": session.proposing,
        "written": session.is_written(),
        "crafting": session.crafting,
        "command": "" if problems else holder_schema_command(studio, session, Path(folder.name(place))),
    }


def holder_schema_command(studio: Studio, session: "HolderSession", place: Path) -> str:
    """The command that writes the same schema, to the byte."""
    draft, words = session.draft, ["schema", Path(studio.folder.name(session.table)), "--label", session.draft.label]
    words += ["--from-data"] if draft.from_data else []
    for name, mark in (("separator", draft.separator), ("decimal", draft.decimal)):
        words += [] if mark is None else ["--set", f"{name}={mark}"]
    words += classes_option(draft.classes)
    for name, entry in draft.changes().items():
        words += ["--column", f"{name}={json.dumps(entry, ensure_ascii=False)}"]
    words += ["--set", f"corrected={','.join(draft.corrected)}"] if draft.corrected else []
    return shell_command(*words, "-o", place)


def read_budget_form(form: Form) -> budget_form.Budget:
    """The budget that a form holds; fields that it does not have are as by default."""
    names = {item.name for item in fields(budget_form.Budget)} - {"compose", "ids"}
    texts: dict[str, Any] = {name: form.text(name) for name in names if name in form}
    shown = form.text("epsilon_was", ""), form.text("slider_was", "")
    return budget_form.Budget(**{**texts, "compose": tuple(form.all("compose"))}).moved(form.text("slider", ""), shown)


def _holder_budget(session: "HolderSession") -> budget_form.Budget:
    """The budget that was typed, with what the schema says of persons."""
    return replace(session.budget, ids=session.draft.ids)


def holder_budget_data(studio: Studio, number: str, session: "HolderSession", *, waiting: bool) -> dict[str, Any]:
    """What the page of the budget shows; with `waiting`, what it would promise comes by itself a moment later."""
    folder, draft = studio.folder, session.draft
    return {
        **budget_preview_data(studio, number, session, waiting=waiting),
        "found": folder.found(session.table),
        "draft": draft,
        "live": False,
        "ledgers": _ledgers_in_folder(studio),
        "releases": folder.files(RELEASE),
        "names": list(draft.types),
        "crafting": session.crafting,
    }


def budget_preview_data(
    studio: Studio, number: str, session: "HolderSession", *, waiting: bool = False
) -> dict[str, Any]:
    """What the budget would promise, by what was declared alone."""
    budget, draft = _holder_budget(session), session.draft
    place, table = _chosen_ledger_of_budget(studio, budget)
    name = "" if place is None else studio.folder.name(place)
    waiting = waiting or draft.from_data or bool(draft.undecided())
    earlier = tuple(studio.folder.file(word) for word in budget.compose)
    seen = None if waiting else budget_form.preview_budget(budget, draft.schema(), place, table, name, earlier)
    crafts = not budget.private or not (draft.from_data or draft.undecided() or (seen is not None and seen.refused))
    answer = None if seen is None else seen.answer
    return {
        "number": number,
        "budget": budget,
        "prospect": seen,
        "answer": answer,
        "guess": None if answer is None else percent_up_text(answer["best_guess"]),
        "figures": [] if answer is None else statement_figures_text(answer["figures"], answer["neighbours"]),
        "typical": None if answer is None else _typical_error_of_rows(answer),
        "epsilon": "" if answer is None else epsilon_text(answer["epsilon"]),
        "composed": "" if answer is None or "composed" not in answer else epsilon_text(answer["composed"]["epsilon"]),
        "slider": {"least": budget_form.LEAST, "most": budget_form.MOST, "step": budget_form.STEP},
        "undecided": draft.undecided(),
        "from_data": draft.from_data,
        "corrected": () if not budget.private else draft.corrected,
        "counted": draft.before_counts is not None,
        "fitting": _fitting_ledger_command(seen),
        "no_ledger": "" if _ledgers_in_folder(studio) else _new_ledger_command(budget),
        "commands": [] if seen is not None and seen.lines else budget_commands(studio, session, place, table, crafts),
    }


def _fitting_ledger_command(seen: budget_form.BudgetPreview | None) -> str:
    """The command that makes the ledger which fits, where the one that was chosen is about other neighbours."""
    if seen is None or seen.books is None or not seen.books.fitting:
        return ""
    return shell_command("ledger", "create", Path(seen.books.name), *seen.books.fitting)


def _new_ledger_command(budget: budget_form.Budget) -> str:
    """The command that makes a first ledger, for releases such as the budget asks for."""
    persons, labels = budget.answered == "person", budget.unit == "label"
    relation = ("person-labels" if labels else "person") if persons else "label" if labels else ""
    if not relation and budget.relation == "replace":
        relation = "replace"
    words = ["ledger", "create", Path("clinic.ledger"), "--table", "NAME", "--epsilon", "3"]
    return shell_command(*words, *(["--relation", relation] if relation else []))


def _typical_error_of_rows(answer: Mapping[str, Any]) -> float | None:
    """The error to expect of a typical table, where so many rows were declared."""
    expected = answer.get("expected")
    return (
        None
        if expected is None
        else {e["without_noise"]: e["expected"] for e in expected["errors"]}[expected["typical"]]
    )


def budget_commands(
    studio: Studio, session: "HolderSession", ledger: Path | None, table: str | None, crafts: bool
) -> list[str]:
    """The commands that say the same of the budget, and the one that crafts, if it `crafts` by all that is known."""
    budget, folder = _holder_budget(session), studio.folder
    if session.written is None or budget.problems():
        return []
    schema, lines = Path(folder.name(session.written)), []
    if budget.private and not session.draft.from_data and not session.draft.undecided():
        lines.append(shell_command("account", *budget.options(), *budget.table_options(), "--schema", schema))
        if ledger is not None:
            lines.append(shell_command("ledger", "show", Path(folder.name(ledger)), "--table", table))
    try:
        return [*lines, craft_command(studio, session)] if crafts else lines
    except ArgumentError:  # there is no such place to write to yet
        return lines


def craft_command(studio: Studio, session: "HolderSession") -> str:
    folder, budget = studio.folder, _holder_budget(session)
    ledger, table = _chosen_ledger_of_budget(studio, budget)
    words: list[Any] = ["craft", Path(folder.name(session.table)), *budget.options()]
    words += budget.table_options() if budget.private else []
    words += [] if session.written is None else ["--schema", Path(folder.name(session.written))]
    words += [] if ledger is None else ["--ledger", Path(f"{folder.name(ledger)}:{table}")]
    for word in budget.compose:
        words += ["--compose", Path(folder.name(folder.file(word)))]
    return shell_command(*words, "-o", Path(folder.name(folder.place(budget.output))))


def holder_craft_order(studio: Studio, session: "HolderSession") -> CraftOrder:
    """What is to be crafted, checked as far as it can be."""
    folder, budget = studio.folder, _holder_budget(session)
    numbers, mechanism = budget.numbers(), budget.mechanism()
    ledger, table = _chosen_ledger_of_budget(studio, budget)
    assert session.written is not None
    declared = budget.declared(Schema.of(session.written))
    return CraftOrder(
        folder.root, session.table, session.written, declared, folder.place(budget.output), mechanism, ledger, table,
        tuple(folder.file(word) for word in budget.compose), numbers["n_rados"],
    )  # fmt: skip


def holder_release_data(studio: Studio, number: str, session: "HolderSession") -> dict[str, Any]:
    """What the page of the craft shows: how far it is, or what the release promises."""
    job, folder, order = session.crafting, studio.folder, session.order
    assert job is not None and order is not None
    values: dict[str, Any] = {
        "number": number,
        "found": folder.found(session.table),
        "job": job,
        "order": order,
        "crafting": job,
        "written": True,
        "command": session.ordered,
    }
    if not isinstance(job.result, Crafted):
        return {**values, "crafted": None}
    made = job.result
    there, own = made.place.is_file(), digest_of_release_file(made.place) == made.digest
    return {
        **values,
        "crafted": made,
        "panels": budget_form.budget_panels(made.statement),
        "sentences": statement_text(made.statement),
        "release": folder.found(made.place) if there and own else None,
        "changed": there and not own,
        "books": _ledger_sentence_now(folder.name(order.ledger), order.ledger, order.ledger_table)
        if order.ledger
        else "",
    }


def _ledger_sentence_now(name: str, place: Path, table: str | None) -> str:
    """What a ledger has left now, in a sentence; nothing where it cannot be read any more."""
    try:
        ledger = Ledger(place, table)
        total, left = ledger.total, ledger.largest_epsilon()
    except RadoError:
        return ""
    return (
        f"It is booked on {name} for {ledger.table!r}, with all that was booked before: the total, epsilon "
        f"{total.epsilon:g} at delta {total.delta:g}, for {total.relation.value} as neighbours, holds for all of them "
        f"together, and has room for one more release of epsilon {left:g} at most, at the same delta, for the same "
        "neighbours."
    )


def _ledgers_in_folder(studio: Studio) -> list[tuple[str, str]]:
    """All tables of all ledgers of the folder: what the form sends for each, and what it shows."""
    return [
        (f"{found.id} {table}", f"{found.name}: {table}")
        for found in studio.folder.files(LEDGER)
        for table in budget_form.ledger_tables_for_budget(studio.folder.file(found.id))
    ]


def _chosen_ledger_of_budget(studio: Studio, budget: budget_form.Budget) -> tuple[Path | None, str | None]:
    """The ledger that was chosen, and the table in it; none for plain releases."""
    if not budget.private or not budget.ledger:
        return None, None
    number, _, table = budget.ledger.partition(" ")
    return studio.folder.file(number), table


WAY = Role(
    "holder",
    "I hold a table",
    "Say what its columns mean, choose what to spend, and craft a release that others may have.",
    {TABLE: "Decide about it"},
)
router = APIRouter(prefix="/holder")
_HEAD = 1 << 16


@dataclass
class HolderSession:
    """What a holder is at: a table, its schema in writing, the file that it was written to, a budget, and a craft.

    `ordered` is the command that crafts the same.
    """

    table: Path
    draft: SchemaForm
    written: Path | None = None
    budget: budget_form.Budget = field(default_factory=budget_form.Budget)
    proposing: Job | None = None
    crafting: Job | None = None
    order: CraftOrder | None = None
    ordered: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def is_written(self) -> bool:
        if self.written is None or self.draft.problems():
            return False
        return _file_has_text(self.written, self.draft.text())


@router.get("")
def choose(request: Request, studio: Here) -> HTMLResponse:
    return render_studio_page(request, "choose.html", way=WAY, files=studio.folder.files(*WAY.kinds))


@router.post("")
def begin(request: Request, studio: Here, form: Sent) -> Response:
    """Begin with a table: its names and storage types are read, and no row."""
    return redirect_to(request, open_table(studio, studio.folder.file(form.text("file"))))


def open_table(studio: Studio, table: Path) -> str:
    """The page of a table that nobody has decided about yet."""
    with short_names_in_errors(studio.folder.root):
        _check_file_is_table(studio.folder, table)
        session = HolderSession(table, SchemaForm.of(table))
    session.budget = budget_form.Budget(output=str(default_output_path(studio.folder.name(table), "rado.parquet")))
    return f"/holder/{studio.sessions.add(session)}"


@router.get("/{number}")
def columns(request: Request, studio: Here, number: str) -> HTMLResponse:
    return _holder_columns_page(request, studio, number)


@router.post("/{number}")
def change_columns(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Take what was typed on the cards, and show what is wrong with it."""
    session = _holder_session(studio, number)
    with session.lock:
        if not _form_is_of_current_draft(session.draft, form):
            return redirect_to(request, f"/holder/{number}")
        epoch = session.draft.epoch
        changed = _take_column_cards(session.draft, form)
    if not wants_part(request) or session.draft.epoch != epoch:
        return redirect_to(request, f"/holder/{number}")
    parts = render_studio_page(
        request, "holder_checked.html", changed=changed, **holder_columns_page_data(studio, number, session)
    )
    if changed:
        target = f"#card-{changed[0].place}" if len(changed) == 1 and changed[0].name != "" else "#cards"
        parts.headers.update({"hx-retarget": target, "hx-reswap": "outerHTML"})
    return parts


@router.post("/{number}/write")
def write(request: Request, studio: Here, number: str, form: Sent) -> Response:
    session = _holder_session(studio, number)
    with session.lock, short_names_in_errors(studio.folder.root):
        if not _form_is_of_current_draft(session.draft, form):
            return redirect_to(request, f"/holder/{number}")  # what the page showed is not what would be written
        epoch = session.draft.epoch
        _take_column_cards(session.draft, form)
        if session.draft.problems() or session.draft.epoch != epoch:
            return redirect_to(request, f"/holder/{number}")
        place = studio.folder.place(form.text("schema"))
        text = session.draft.text()
        check_output_path(place, [str(session.table)])
        if place.exists() and place != session.written and "over" not in form and not _file_has_text(place, text):
            raise OutputError(
                f"{studio.folder.name(place)} is there already; tick the box to write over it, or choose another name"
            )
        refuse_overwrite(place, place, advice="its noise cannot be drawn again; choose another name")
        with atomic_write(place) as draft:
            draft.write_text(text, encoding="utf-8")
        session.written = place
    return redirect_to(request, f"/holder/{number}/budget")


def _persons_of_schema(schema: Schema) -> dict[str, Any]:
    """What a schema file says of persons and rows, as the form of the budget has it."""
    rows = {} if schema.rows is None else {"rows": str(schema.rows)}
    if schema.person is None:
        return rows
    return {**rows, "whose": "person", "person": schema.person.column, "max_rows": str(schema.person.max_rows)}


@router.post("/{number}/anew")
def anew(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Begin again: from names alone, from a schema that is there, or from a look at the table."""
    session = _holder_session(studio, number)
    how = form.text("how", "names")
    with session.lock, short_names_in_errors(studio.folder.root):
        if _form_is_of_current_draft(session.draft, form):
            _take_column_cards(session.draft, form)
        if session.proposing is not None:
            session.proposing.cancel()  # what it would propose is not wanted any more
        if how == "schema":
            schema = Schema.of(studio.folder.file(form.text("begin_with")))
            session.draft.take_up(schema)
            session.budget = replace(session.budget, **_persons_of_schema(schema))
        elif how == "data":
            _propose_schema_as_job(studio, number, session)
        else:
            session.draft.begin_anew()
    return redirect_to(request, f"/holder/{number}")


@router.get("/{number}/budget")
def budget(request: Request, studio: Here, number: str) -> Response:
    """What to spend, and what that promises."""
    session = _holder_session(studio, number)
    if not session.is_written():
        return redirect_to(request, f"/holder/{number}")
    return render_studio_page(
        request, "holder_budget.html", **holder_budget_data(studio, number, session, waiting=True)
    )


@router.post("/{number}/budget")
def change_budget(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Take the budget, and show what it would promise: by what was declared, without data."""
    session = _holder_session(studio, number)
    with session.lock:
        session.budget = read_budget_form(form)
    if not session.is_written():
        return redirect_to(request, f"/holder/{number}")
    if not wants_part(request):
        values = holder_budget_data(studio, number, session, waiting=False)
        return render_studio_page(request, "holder_budget.html", **values)
    epsilon = form.text("epsilon", "")
    follows = "field" if session.budget.epsilon != epsilon else ""  # the other one stays as it is under somebody's hand
    follows = follows or ("slider" if epsilon != form.text("epsilon_was", epsilon) else "")
    values = budget_preview_data(studio, number, session)
    return render_studio_page(request, "holder_prospect.html", follows=follows, live=True, **values)


@router.post("/{number}/craft")
def start(request: Request, studio: Here, number: str, form: Sent) -> Response:
    session = _holder_session(studio, number)
    with session.lock, short_names_in_errors(studio.folder.root):
        session.budget = read_budget_form(form)
        if session.crafting is not None and not session.crafting.is_over:
            raise ArgumentError("a craft of this table is under way; wait for it, or cancel it")
        if not session.is_written() or session.written is None:
            raise ArgumentError("the schema was changed and is not written; go back to the columns, and write it")
        session.order = holder_craft_order(studio, session)
        check_output_path(session.order.place, [str(session.table)])
        check_output_place_free(session.order.place)
        address = f"/holder/{number}/release"
        title = f"Crafting {studio.folder.name(session.order.place)}"
        session.ordered = craft_command(studio, session)
        work = Work(session.order, lambda: studio.show_counts(session.table, session.draft.entries()))
        session.crafting = studio.jobs.start(title, work, address=address)
    return redirect_to(request, address)


@router.get("/{number}/release")
def release(request: Request, studio: Here, number: str) -> Response:
    """How far the craft is, and then what the release promises to whom."""
    session = _holder_session(studio, number)
    if session.crafting is None or session.order is None:
        return redirect_to(request, f"/holder/{number}/budget")
    ways = (officer_routes.WAY, learner_routes.WAY)
    return render_studio_page(request, "holder_release.html", ways=ways, **holder_release_data(studio, number, session))


def _holder_columns_page(request: Request, studio: Studio, number: str) -> HTMLResponse:
    session = _holder_session(studio, number)
    _take_proposed_schema(studio, session)
    return render_studio_page(request, "holder_columns.html", **holder_columns_page_data(studio, number, session))


def _file_has_text(place: Path, text: str) -> bool:
    try:
        return place.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _holder_session(studio: Studio, number: str) -> HolderSession:
    session = studio.sessions.get(number, HolderSession)
    studio.folder.file(studio.folder.name(session.table))  # it must still be there
    session.draft.before_counts = studio.before_counts.get(session.table.resolve())
    return session


def _check_file_is_table(folder: Folder, table: Path) -> None:
    """Refuse what is certainly no table, before its first line is taken for names of columns."""
    found = folder.found(table)
    if found.kind not in (TABLE, ""):
        raise ArgumentError(f"{found.name} is {found.kind}, and no table; choose another file")
    with table.open("rb") as file:
        head = file.read(_HEAD)
    if found.name.lower().endswith((".csv", ".tsv", ".txt")) and b"\0" in head:
        raise ArgumentError(f"{found.name} is no text, though its name says so; choose another file")


def _form_is_of_current_draft(draft: SchemaForm, form: Form) -> bool:
    """Whether a form is of a page that shows this draft, and not of one from before it began again."""
    return form.text("epoch", "") == draft.epoch


def _take_column_cards(draft: SchemaForm, form: Form) -> list[Any]:
    """Take what was typed; the cards that must be drawn anew, or all of them where the label changed.

    Where the label of a draft that was read off the table changes, the cards of the form hold what the look found: the
    draft begins again from names, and none of them is taken.
    """
    if "label" not in form:
        return []
    names, before, epoch = list(draft.types), draft.label, draft.epoch
    label = next((name for place, name in enumerate(names) if str(place) == form.text("label")), None)
    draft.set_label(label)
    if draft.epoch != epoch:
        return draft.cards()
    if label == before:
        classes = [line.strip() for line in form.text("classes", "").splitlines() if line.strip()]
        if classes != draft.class_texts():
            draft.classes = tuple(classes) or None
    draft.decimal = "," if form.text("decimal", "") == "," else None
    cards: dict[int, dict[str, str]] = {}
    for key, value in form.pairs:
        head, _, rest = key.partition("-")
        if head.startswith("c") and head[1:].isdecimal() and int(head[1:]) < len(names):
            cards.setdefault(int(head[1:]), {})[rest] = value
    changed = []
    for place, entries in cards.items():
        name, was = names[place], draft.entry(names[place])
        entry = read_card_entry(entries.get("kind", was["kind"]), was, entries)
        if entry != was:
            draft.columns[name] = entry
        if entry["kind"] != was["kind"] or ("search" in entries) != (was.get("low") == "private"):
            changed.append(draft.card(name))
    return draft.cards() if label != before else changed


def _propose_schema_as_job(studio: Studio, number: str, session: HolderSession) -> None:
    """Look at the table and propose a schema from it, as a job; for plain releases alone."""
    from radoboost.holder.schema_inference import infer_schema

    label, separator = session.draft.label, session.draft.separator
    if label is None:
        raise ArgumentError("choose the column that is to be learned first")

    def work(job: Job) -> Any:
        table = [str(session.table)]
        proposal = infer_schema(table, label, separator=separator, skip_unlabelled=True, bar=job.progress)
        job.progress("proposing", 1, 1)  # ends here if it was cancelled by now
        return proposal

    title = f"Looking at {studio.folder.name(session.table)}"
    session.proposing = studio.jobs.start(title, work, address=f"/holder/{number}", lane="work")
    session.proposing.wait(0.5)


def _take_proposed_schema(studio: Studio, session: HolderSession) -> None:
    """Begin with what a job proposed, once; a look that was cancelled leaves the cards as they are, however late."""
    with session.lock:
        job = session.proposing
        if job is not None and job.is_over and job.told_to_end and job.result is not None:
            job.result, job.state = None, "cancelled"
        if job is not None and job.state == "done" and job.result is not None:
            studio.show_counts(session.table, session.draft.entries())
            session.draft.begin_with(job.result.schema)
            job.notices = [" ".join(line.split()) for line in job.result.as_text()]
            job.result = None
