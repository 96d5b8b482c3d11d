"""What the pages of the holder's way show, and the commands that do the same."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radoboost.cli.shell import default_output
from radoboost.errors import ArgumentError, RadoError
from radoboost.privacy.ledger import Ledger
from radoboost.release import percent_up
from radoboost.release.digests import digest_now
from radoboost.release.words import epsilon_text, figures_in_words, statement_in_words
from radoboost.studio.budgets import LEAST, MOST, STEP, Budget, Prospect, prospect, tables_of
from radoboost.studio.commands import command
from radoboost.studio.crafting import Crafted, Order
from radoboost.studio.drafts import ABOUT, MOST_CARDS
from radoboost.studio.folder import LEDGER, RELEASE, SCHEMA
from radoboost.studio.guard import Form
from radoboost.studio.layout import Studio
from radoboost.studio.promise_picture import panels

if TYPE_CHECKING:
    from radoboost.studio.holder_way import HolderSession


def columns_of(studio: Studio, number: str, session: "HolderSession") -> dict[str, Any]:
    draft, folder = session.draft, studio.folder
    problems, schemas = draft.problems(), folder.files(SCHEMA)
    place = session.written or folder.root / default_output(folder.name(session.table), "schema.json")
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
        "command": "" if problems else schema_command(studio, session, Path(folder.name(place))),
    }


def schema_command(studio: Studio, session: "HolderSession", place: Path) -> str:
    """The command that writes the same schema, to the byte."""
    draft, words = session.draft, ["schema", Path(studio.folder.name(session.table)), "--label", session.draft.label]
    words += ["--from-data"] if draft.from_data else []
    words += [] if draft.separator is None else ["--separator", draft.separator]
    words += [] if draft.decimal is None else ["--decimal", draft.decimal]
    for value in draft.classes or ():
        words += ["--class", value]
    for name, entry in draft.changes().items():
        words += ["--column", f"{name}={json.dumps(entry, ensure_ascii=False)}"]
    for name in draft.corrected:
        words += ["--corrected", name]
    return command(*words, "-o", place)


def read_budget(form: Form) -> Budget:
    """The budget that a form holds; fields that it does not have are as by default."""
    names = {item.name for item in fields(Budget)} - {"compose", "ids"}
    texts: dict[str, Any] = {name: form.text(name) for name in names if name in form}
    shown = form.text("epsilon_was", ""), form.text("slider_was", "")
    return Budget(**{**texts, "compose": tuple(form.all("compose"))}).moved(form.text("slider", ""), shown)


def _budget(session: "HolderSession") -> Budget:
    """The budget that was typed, with what the schema says of persons."""
    return replace(session.budget, ids=session.draft.ids)


def budget_of(studio: Studio, number: str, session: "HolderSession", *, waiting: bool) -> dict[str, Any]:
    """What the page of the budget shows; with `waiting`, what it would promise comes by itself a moment later."""
    folder, draft = studio.folder, session.draft
    return {
        **prospect_of(studio, number, session, waiting=waiting),
        "found": folder.found(session.table),
        "draft": draft,
        "live": False,
        "ledgers": _ledgers(studio),
        "releases": folder.files(RELEASE),
        "names": list(draft.types),
        "crafting": session.crafting,
    }


def prospect_of(studio: Studio, number: str, session: "HolderSession", *, waiting: bool = False) -> dict[str, Any]:
    """What the budget would promise, by what was declared alone."""
    budget, draft = _budget(session), session.draft
    place, table = _ledger(studio, budget)
    name = "" if place is None else studio.folder.name(place)
    waiting = waiting or draft.from_data or bool(draft.undecided())
    earlier = tuple(studio.folder.file(word) for word in budget.compose)
    seen = None if waiting else prospect(budget, draft.schema(), place, table, name, earlier)
    crafts = not budget.private or not (draft.from_data or draft.undecided() or (seen is not None and seen.refused))
    answer = None if seen is None else seen.answer
    return {
        "number": number,
        "budget": budget,
        "prospect": seen,
        "answer": answer,
        "guess": None if answer is None else percent_up(answer["best_guess"]),
        "figures": [] if answer is None else figures_in_words(answer["figures"], answer["neighbours"]),
        "typical": None if answer is None else _typical(answer),
        "epsilon": "" if answer is None else epsilon_text(answer["epsilon"]),
        "composed": "" if answer is None or "composed" not in answer else epsilon_text(answer["composed"]["epsilon"]),
        "slider": {"least": LEAST, "most": MOST, "step": STEP},
        "undecided": draft.undecided(),
        "from_data": draft.from_data,
        "corrected": () if not budget.private else draft.corrected,
        "fitting": _fitting_command(seen),
        "no_ledger": "" if _ledgers(studio) else _new_ledger_command(budget),
        "commands": [] if seen is not None and seen.lines else budget_commands(studio, session, place, table, crafts),
    }


def _fitting_command(seen: Prospect | None) -> str:
    """The command that makes the ledger which fits, where the one that was chosen is about other neighbours."""
    if seen is None or seen.books is None or not seen.books.fitting:
        return ""
    return command("ledger", "create", Path(seen.books.name), *seen.books.fitting)


def _new_ledger_command(budget: Budget) -> str:
    """The command that makes a first ledger, for releases such as the budget asks for."""
    persons, labels = budget.answered == "person", budget.unit == "label"
    relation = ("person-labels" if labels else "person") if persons else "label" if labels else ""
    if not relation and budget.relation == "replace":
        relation = "replace"
    words = ["ledger", "create", Path("clinic.ledger"), "--table", "NAME", "--epsilon", "3"]
    return command(*words, *(["--relation", relation] if relation else []))


def _typical(answer: Mapping[str, Any]) -> float | None:
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
    budget, folder = _budget(session), studio.folder
    if session.written is None or budget.problems():
        return []
    schema, lines = Path(folder.name(session.written)), []
    if budget.private and not session.draft.from_data and not session.draft.undecided():
        lines.append(command("account", *budget.options(), *budget.table_options(), "--schema", schema))
        if ledger is not None:
            lines.append(command("ledger", "show", Path(folder.name(ledger)), "--table", table))
    try:
        return [*lines, craft_command(studio, session)] if crafts else lines
    except ArgumentError:  # there is no such place to write to yet
        return lines


def craft_command(studio: Studio, session: "HolderSession") -> str:
    """The command that crafts such a release."""
    folder, budget = studio.folder, _budget(session)
    ledger, table = _ledger(studio, budget)
    words: list[Any] = ["craft", Path(folder.name(session.table)), *budget.options()]
    words += budget.table_options() if budget.private else []
    words += [] if session.written is None else ["--schema", Path(folder.name(session.written))]
    words += [] if ledger is None else ["--ledger", Path(folder.name(ledger)), "--table", table]
    for word in budget.compose:
        words += ["--compose", Path(folder.name(folder.file(word)))]
    return command(*words, "-o", Path(folder.name(folder.place(budget.output))))


def order_of(studio: Studio, session: "HolderSession") -> Order:
    """What is to be crafted, checked as far as it can be."""
    folder, budget = studio.folder, _budget(session)
    numbers, mechanism = budget.numbers(), budget.mechanism()
    ledger, table = _ledger(studio, budget)
    assert session.written is not None
    names = ("n_rados", "rows", "person", "max_rows")
    return Order(
        folder.root,
        session.table,
        session.written,
        folder.place(budget.output),
        mechanism,
        ledger,
        table,
        tuple(folder.file(word) for word in budget.compose),
        **{name: numbers[name] for name in names},
    )


def release_of(studio: Studio, number: str, session: "HolderSession") -> dict[str, Any]:
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
    there, own = made.place.is_file(), digest_now(made.place) == made.digest
    return {
        **values,
        "crafted": made,
        "panels": panels(made.statement),
        "sentences": statement_in_words(made.statement),
        "release": folder.found(made.place) if there and own else None,
        "changed": there and not own,
        "books": _books_now(folder.name(order.ledger), order.ledger, order.ledger_table) if order.ledger else "",
    }


def _books_now(name: str, place: Path, table: str | None) -> str:
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


def _ledgers(studio: Studio) -> list[tuple[str, str]]:
    """All tables of all ledgers of the folder: what the form sends for each, and what it shows."""
    return [
        (f"{found.id} {table}", f"{found.name}: {table}")
        for found in studio.folder.files(LEDGER)
        for table in tables_of(studio.folder.file(found.id))
    ]


def _ledger(studio: Studio, budget: Budget) -> tuple[Path | None, str | None]:
    """The ledger that was chosen, and the table in it; none for plain releases."""
    if not budget.private or not budget.ledger:
        return None, None
    number, _, table = budget.ledger.partition(" ")
    return studio.folder.file(number), table
