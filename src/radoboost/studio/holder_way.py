"""The holder's way: from a table to a release. Columns, then the budget, then the craft and what it promises."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from radoboost.cli.keeping import keep_files
from radoboost.cli.shell import check_output, default_output
from radoboost.errors import ArgumentError, OutputError
from radoboost.holder.declared import read_bounds
from radoboost.release import replacing
from radoboost.studio import holder_pages, learner_way, officer_way
from radoboost.studio.budgets import Budget
from radoboost.studio.crafting import Order, Work, check_free
from radoboost.studio.drafts import Draft, read_entry
from radoboost.studio.folder import TABLE, Folder, short_names
from radoboost.studio.guard import Form
from radoboost.studio.jobs import Job
from radoboost.studio.layout import Here, Sent, Studio, go, page, wants_part
from radoboost.studio.ways import Way

WAY = Way(
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
    draft: Draft
    written: Path | None = None
    budget: Budget = field(default_factory=Budget)
    proposing: Job | None = None
    crafting: Job | None = None
    order: Order | None = None
    ordered: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def is_written(self) -> bool:
        """Whether the schema stands in its file as it is now."""
        if self.written is None or self.draft.problems():
            return False
        return _holds(self.written, self.draft.text())


@router.get("")
def choose(request: Request, studio: Here) -> HTMLResponse:
    """Choose a table."""
    return page(request, "choose.html", way=WAY, files=studio.folder.files(*WAY.kinds))


@router.post("")
def begin(request: Request, studio: Here, form: Sent) -> Response:
    """Begin with a table: its names and storage types are read, and no row."""
    return go(request, open_table(studio, studio.folder.file(form.text("file"))))


def open_table(studio: Studio, table: Path) -> str:
    """The page of a table that nobody has decided about yet."""
    with short_names(studio.folder.root):
        _check_table(studio.folder, table)
        session = HolderSession(table, Draft.of(table))
    session.budget = Budget(output=str(default_output(studio.folder.name(table), "rado.parquet")))
    return f"/holder/{studio.sessions.add(session)}"


@router.get("/{number}")
def columns(request: Request, studio: Here, number: str) -> HTMLResponse:
    """The columns as cards."""
    return _columns(request, studio, number)


@router.post("/{number}")
def change_columns(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Take what was typed on the cards, and show what is wrong with it."""
    session = _session(studio, number)
    with session.lock:
        if not _is_of_now(session.draft, form):
            return go(request, f"/holder/{number}")
        epoch = session.draft.epoch
        changed = _take(session.draft, form)
    if not wants_part(request) or session.draft.epoch != epoch:
        return go(request, f"/holder/{number}")
    parts = page(request, "holder_checked.html", changed=changed, **holder_pages.columns_of(studio, number, session))
    if changed:
        target = f"#card-{changed[0].place}" if len(changed) == 1 and changed[0].name != "" else "#cards"
        parts.headers.update({"hx-retarget": target, "hx-reswap": "outerHTML"})
    return parts


@router.post("/{number}/write")
def write(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Write the schema to its file, and go on to the budget."""
    session = _session(studio, number)
    with session.lock, short_names(studio.folder.root):
        if not _is_of_now(session.draft, form):
            return go(request, f"/holder/{number}")  # what the page showed is not what would be written
        epoch = session.draft.epoch
        _take(session.draft, form)
        if session.draft.problems() or session.draft.epoch != epoch:
            return go(request, f"/holder/{number}")
        place = studio.folder.place(form.text("schema"))
        text = session.draft.text()
        check_output(place, [str(session.table)])
        if place.exists() and place != session.written and "over" not in form and not _holds(place, text):
            raise OutputError(
                f"{studio.folder.name(place)} is there already; tick the box to write over it, or choose another name"
            )
        keep_files(place, place, advice="its noise cannot be drawn again; choose another name")
        with replacing(place) as draft:
            draft.write_text(text, encoding="utf-8")
        session.written = place
    return go(request, f"/holder/{number}/budget")


@router.post("/{number}/anew")
def anew(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Begin again: from names alone, from a schema that is there, or from a look at the table."""
    session = _session(studio, number)
    how = form.text("how", "names")
    with session.lock, short_names(studio.folder.root):
        if _is_of_now(session.draft, form):
            _take(session.draft, form)
        if session.proposing is not None:
            session.proposing.cancel()  # what it would propose is not wanted any more
        if how == "schema":
            declared = read_bounds(studio.folder.file(form.text("begin_with"))).schema
            assert declared is not None  # a file holds a schema, or is refused
            session.draft.take_up(declared)
        elif how == "data":
            _propose(studio, number, session)
        else:
            session.draft.begin_anew()
    return go(request, f"/holder/{number}")


@router.get("/{number}/budget")
def budget(request: Request, studio: Here, number: str) -> Response:
    """What to spend, and what that promises."""
    session = _session(studio, number)
    if not session.is_written():
        return go(request, f"/holder/{number}")
    return page(request, "holder_budget.html", **holder_pages.budget_of(studio, number, session, waiting=True))


@router.post("/{number}/budget")
def change_budget(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Take the budget, and show what it would promise: by what was declared, without data."""
    session = _session(studio, number)
    with session.lock:
        session.budget = holder_pages.read_budget(form)
    if not session.is_written():
        return go(request, f"/holder/{number}")
    if not wants_part(request):
        values = holder_pages.budget_of(studio, number, session, waiting=False)
        return page(request, "holder_budget.html", **values)
    epsilon = form.text("epsilon", "")
    follows = "field" if session.budget.epsilon != epsilon else ""  # the other one stays as it is under somebody's hand
    follows = follows or ("slider" if epsilon != form.text("epsilon_was", epsilon) else "")
    values = holder_pages.prospect_of(studio, number, session)
    return page(request, "holder_prospect.html", follows=follows, live=True, **values)


@router.post("/{number}/craft")
def start(request: Request, studio: Here, number: str, form: Sent) -> Response:
    """Craft, as a job."""
    session = _session(studio, number)
    with session.lock, short_names(studio.folder.root):
        session.budget = holder_pages.read_budget(form)
        if session.crafting is not None and not session.crafting.is_over:
            raise ArgumentError("a craft of this table is under way; wait for it, or cancel it")
        if not session.is_written() or session.written is None:
            raise ArgumentError("the schema was changed and is not written; go back to the columns, and write it")
        session.order = holder_pages.order_of(studio, session)
        check_output(session.order.place, [str(session.table)])
        check_free(session.order.place)
        address = f"/holder/{number}/release"
        title = f"Crafting {studio.folder.name(session.order.place)}"
        session.ordered = holder_pages.craft_command(studio, session)
        work = Work(session.order, lambda: studio.show_counts(session.table, session.draft.entries()))
        session.crafting = studio.jobs.start(title, work, address=address)
    return go(request, address)


@router.get("/{number}/release")
def release(request: Request, studio: Here, number: str) -> Response:
    """How far the craft is, and then what the release promises to whom."""
    session = _session(studio, number)
    if session.crafting is None or session.order is None:
        return go(request, f"/holder/{number}/budget")
    ways = (officer_way.WAY, learner_way.WAY)
    return page(request, "holder_release.html", ways=ways, **holder_pages.release_of(studio, number, session))


def _columns(request: Request, studio: Studio, number: str) -> HTMLResponse:
    session = _session(studio, number)
    _take_proposal(studio, session)
    return page(request, "holder_columns.html", **holder_pages.columns_of(studio, number, session))


def _holds(place: Path, text: str) -> bool:
    """Whether a text, and nothing else, stands in a file."""
    try:
        return place.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _session(studio: Studio, number: str) -> HolderSession:
    session = studio.sessions.get(number, HolderSession)
    studio.folder.file(studio.folder.name(session.table))  # it must still be there
    session.draft.before_counts = studio.before_counts.get(session.table.resolve())
    return session


def _check_table(folder: Folder, table: Path) -> None:
    """Refuse what is certainly no table, before its first line is taken for names of columns."""
    found = folder.found(table)
    if found.kind not in (TABLE, ""):
        raise ArgumentError(f"{found.name} is {found.kind}, and no table; choose another file")
    with table.open("rb") as file:
        head = file.read(_HEAD)
    if found.name.lower().endswith((".csv", ".tsv", ".txt")) and b"\0" in head:
        raise ArgumentError(f"{found.name} is no text, though its name says so; choose another file")


def _is_of_now(draft: Draft, form: Form) -> bool:
    """Whether a form is of a page that shows this draft, and not of one from before it began again."""
    return form.text("epoch", "") == draft.epoch


def _take(draft: Draft, form: Form) -> list[Any]:
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
    for place, fields in cards.items():
        name, was = names[place], draft.entry(names[place])
        entry = read_entry(fields.get("kind", was["kind"]), was, fields)
        if entry != was:
            draft.columns[name] = entry
        if entry["kind"] != was["kind"] or ("search" in fields) != (was.get("low") == "private"):
            changed.append(draft.card(name))
    return draft.cards() if label != before else changed


def _propose(studio: Studio, number: str, session: HolderSession) -> None:
    """Look at the table and propose a schema from it, as a job; for plain releases alone."""
    from radoboost.holder.proposing import propose

    label, separator = session.draft.label, session.draft.separator
    if label is None:
        raise ArgumentError("choose the column that is to be learned first")

    def work(job: Job) -> Any:
        proposal = propose([str(session.table)], label, separator=separator, bar=job.progress)
        job.progress("proposing", 1, 1)  # ends here if it was cancelled by now
        return proposal

    title = f"Looking at {studio.folder.name(session.table)}"
    session.proposing = studio.jobs.start(title, work, address=f"/holder/{number}", lane="work")
    session.proposing.wait(0.5)


def _take_proposal(studio: Studio, session: HolderSession) -> None:
    """Begin with what a job proposed, once; a look that was cancelled leaves the cards as they are, however late."""
    with session.lock:
        job = session.proposing
        if job is not None and job.is_over and job.told_to_end and job.result is not None:
            job.result, job.state = None, "cancelled"
        if job is not None and job.state == "done" and job.result is not None:
            studio.show_counts(session.table, session.draft.entries())
            session.draft.begin_with(job.result.schema)
            job.notices = [" ".join(line.split()) for line in job.result.in_words()]
            job.result = None
