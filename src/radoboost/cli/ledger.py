"""rado ledger and rado account: the books of a table, and what a release costs by what is known before."""

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli import options
from radoboost.cli.options import argument, of_release, of_table, option
from radoboost.errors import ArgumentError, RadoError

if TYPE_CHECKING:
    from radoboost.privacy.ledger import Ledger


app = options.command_group(
    "ledger", help="Keep the books of a table: a total set in advance, every release booked against it."
)


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """Tables of the ledger named on the command line, whose names begin with `incomplete`."""
    from radoboost.privacy.ledger import ledger_table_names

    place = context.params.get("ledger")
    try:
        return [] if place is None else [name for name in ledger_table_names(place) if name.startswith(incomplete)]
    except RadoError:
        return []


def complete_ledger_relation(incomplete: str) -> list[str]:
    from radoboost.privacy.ledger import SHORT_NAMES

    return [name for name in SHORT_NAMES if name.startswith(incomplete)]


LedgerOption = Annotated[
    str | None,
    of_release("--ledger FILE[:TABLE]", "Book what this costs on the table's ledger first (rado ledger create)."),
]
TableOption = Annotated[
    str | None, option("--table NAME", "Whose total, in a ledger of several tables.", complete=complete_table)
]
LedgerArgument = Annotated[Path, argument("LEDGER", "The file that the holder keeps.")]


def chosen_ledger(given: str | None) -> "Ledger | None":
    """The ledger that FILE or FILE:TABLE names."""
    from radoboost.privacy.ledger import Ledger

    if given is None:
        return None
    file, table = options.split_at_last_colon(given)
    return Ledger(Path(given)) if not table or Path(given).exists() else Ledger(Path(file), table)


@options.add_command(app)
def create(
    ledger: LedgerArgument,
    table: Annotated[str, option("--table NAME", "Your name for the table.")],
    epsilon: Annotated[float, option("--epsilon", "What all releases of the table together may cost.")],
    delta: Annotated[float, option("--delta", "The delta that goes with epsilon.")] = 1e-6,
    relation: Annotated[
        str,
        option(
            "--relation NAME",
            "Which tables are neighbours: record (added or removed), edge (vector replaced) or label (flipped); "
            "person, person-rows or person-labels for releases with --person.",
            complete=complete_ledger_relation,
        ),
    ] = "record",
    as_json: options.JsonFlag = False,
) -> None:
    """Set the total of a table, in advance.

    Makes the file, or adds the table to one that is there; a total on which nothing is booked is replaced, and no other
    one. The total holds however later releases are chosen, as long
    as everything that is released of the table is booked here, and nothing is chosen by looking at the table itself.

    \b
    Examples:
      rado ledger create clinic.ledger --table patients --epsilon 3
      rado ledger create clinic.ledger --table visits --epsilon 1 --delta 1e-7 --relation label
      rado ledger create clinic.ledger --table patients --epsilon 3 --relation person
    """
    from radoboost.privacy.ledger import Ledger

    _print_ledger(Ledger.create(ledger, table, epsilon=epsilon, delta=delta, relation=relation), as_json)


@options.add_command(app)
def show(ledger: LedgerArgument, table: TableOption = None, as_json: options.JsonFlag = False) -> None:
    """Show the total of a table, what was spent of it by which release, and what is left.

    \b
    Examples:
      rado ledger show clinic.ledger
      rado ledger show clinic.ledger --table visits --json
    """
    from radoboost.privacy.ledger import Ledger, ledger_table_names

    names = ledger_table_names(ledger) if table is None else [table]
    books = [Ledger(ledger, name) for name in names]
    if as_json:
        documents = [book.to_dict() for book in books]
        print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(ledger_text(book.to_dict()) for book in books))


@options.add_command(app)
def verify(
    ledger: LedgerArgument,
    releases: Annotated[list[Path] | None, argument("[RELEASE]...", "Releases that should be booked.")] = None,
    table: TableOption = None,
    as_json: options.JsonFlag = False,
) -> None:
    """Check that a ledger is whole and within its total, and that releases are booked on it, as the files they are.

    Ends with exit code 1 where something is amiss.

    \b
    Examples:
      rado ledger verify clinic.ledger
      rado ledger verify clinic.ledger *.rado.parquet
    """
    from radoboost import load
    from radoboost.privacy.ledger import Ledger, other_totals_text

    books = Ledger(ledger, table)
    problems = [
        *books.problems(),
        *(problem for path in releases or () for problem in _ledger_amiss_with_release(books, load(path), path)),
    ]
    unfinished = sum(entry.digest is None and entry.purpose == "release" for entry in books.entries())
    if as_json:
        print(json.dumps({"problems": problems, "unfinished": unfinished, **books.to_dict()}, indent=2))
    else:
        print("\n".join(problems) or f"all is well: {len(books.entries()):,} bookings within the total")
        if books.beside():
            options.say_on_stderr(f"rado: {other_totals_text(books.beside())}")
        if unfinished:
            options.say_on_stderr(f"rado: {unfinished:,} bookings have no file; they are spent all the same")
    if problems:
        raise typer.Exit(1)


def _ledger_amiss_with_release(books: "Ledger", release: Any, path: Path) -> list[str]:
    from radoboost.privacy import event_from_dict
    from radoboost.privacy.budget_filter import Cost

    entries = [entry for entry in books.entries() if entry.release == release.id]
    if not entries:
        return [f"{path} is not booked for {books.table!r}"]
    total, problems = books.total, []
    booked = sum((entry.cost for entry in entries), start=Cost())
    if not total.cost(event_from_dict(release.statement.event)).within(booked.scaled(1 + Fraction(1, 10**9))):
        problems.append(f"{path} costs more than was booked for it")
    digests = {entry.digest for entry in entries}
    if digests == {None}:
        problems.append(f"{path} is booked, but its digest was never noted: was it interrupted while it was saved?")
    elif release.digest not in digests:
        problems.append(f"{path} is not the file that was noted: its digest is {release.digest}")
    return problems


def _print_ledger(books: "Ledger", as_json: bool) -> None:
    print(json.dumps(books.to_dict(), indent=2, ensure_ascii=False) if as_json else ledger_text(books.to_dict()))


def ledger_text(document: dict[str, Any]) -> str:
    from radoboost.privacy.ledger import number_of_releases_text, other_totals_text

    total, releases = document["total"], document["releases"]
    more = "one more" if releases else "one"
    return "\n".join(
        [
            f"table        {document['table']}, in {document['ledger']}",
            f"total        epsilon {total['epsilon']:g} at delta {total['delta']:g}, for {total['neighbours']} as "
            "neighbours",
            f"spent        {number_of_releases_text(len(releases))}",
            f"left         room for {more} of epsilon {document['largest_epsilon']:g} at most, at the same delta, for "
            "the same neighbours"
            if document["largest_epsilon"]
            else "left         no room for another release",
            "covers       what was booked, and choices by it; one by exact scores, or by looking at the table, has no "
            "finite epsilon",
            "             folds and splits must follow from each row alone: with others the total is not true",
            *([f"             {other_totals_text(document['beside'])}"] if document["beside"] else []),
            *(
                f"  {release['release'][:12]}  {release['booked'][:10]}  epsilon {release['epsilon']:<8.4g}  "
                f"{release['purpose']}{_booked_file_text(release)}"
                for release in releases
            ),
        ]
    )


def _booked_file_text(release: dict[str, Any]) -> str:
    if release["purpose"] != "release":
        return ""
    return ", no file yet" if release["digest"] is None else f", file {release['digest'][:12]}"


# ---- rado account: what an epsilon costs in noise, and what noise buys, without data; and what releases amount to.


def account(
    context: typer.Context,
    releases: Annotated[
        list[Path] | None,
        argument(
            "[RELEASE]...", "Releases of one table, and receipts of rooms without one: what do they amount to together?"
        ),
    ] = None,
    rows: Annotated[
        int | None,
        of_table("--rows M", "About how many rows there are: with them the answer says what error to expect."),
    ] = None,
    columns: Annotated[
        str | None,
        of_table(
            "--columns D[:WORD]", "How many columns, for moments; and which it makes of them, such as 10:degree-2."
        ),
    ] = None,
    n_classes: Annotated[int, of_table("--n-classes K", "How many classes, for moments.")] = 2,
    schema: options.SchemaOption = None,
    person: options.PersonOption = None,
    epsilon: options.EpsilonOption = None,
    delta: options.DeltaOption = None,
    mechanism: options.MechanismOption = None,
    settings: options.SetOption = None,
    n_rados: options.RadosOption = None,
    group: Annotated[
        int | None, of_release("--group K", "What do K rows of one person pay together? For 2, 5 and 10 by default.")
    ] = None,
    as_json: options.JsonFlag = False,
) -> None:
    """Say what an epsilon costs in noise, or what noise buys, without any data; or what releases amount to together.

    Releases of one table are composed, with all that they were composed with, each counted once, for the neighbours
    that all of them convert to; so are receipts of rooms that ended without a release. That holds for epsilons that
    were fixed beforehand; rado ledger keeps to a total however releases are chosen.

    \b
    Examples:
      rado account --epsilon 0.1 --rows 5000 --columns 20
      rado account --epsilon 1 --rows 5000 --schema patients.schema.json
      rado account --mechanism noisy-rados --set noise_std=18.75 -n 100 --delta 1e-5
      rado account first.rado.parquet second.rado.parquet --delta 1e-6
    """
    from radoboost.holder.privacy_cost import privacy_cost_by_schema
    from radoboost.report.describe import describe_account, describe_chain

    if releases:
        from radoboost.holder.mechanisms.statements import DEFAULT_DELTA, SHOWN_DELTAS
        from radoboost.release.composition import account_for_releases

        others = set(context.params) - {"releases", "delta", "as_json"}
        sources = [context.get_parameter_source(name) for name in others]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise ArgumentError(
                "releases say themselves what was done; give --delta alone with them (what several rows of one person "
                "pay: rado show RELEASE)"
            )
        together = account_for_releases(releases, DEFAULT_DELTA if delta is None else delta, SHOWN_DELTAS)
        print(json.dumps(together, indent=2, ensure_ascii=False) if as_json else describe_chain(together))
        return
    if person is not None and schema is None:
        raise ArgumentError("what rows of persons cost depends on the table's columns; give --schema FILE with them")
    chosen = options.chosen_mechanism_name(mechanism, 1.0, settings)
    if schema is not None and str(schema) != "private":
        if columns is not None or n_classes != 2:
            raise ArgumentError("a schema says itself what the columns and classes are; leave options about them out")
        declared, protection = options.declaration_and_mechanism(
            chosen, epsilon, delta, settings, schema, person=person
        )
        declared = declared if rows is None else dataclasses.replace(declared, rows=rows)
        answer = privacy_cost_by_schema(protection, declared, group=group)
    else:
        count, word = ("", "auto") if columns is None else columns.partition(":")[::2]
        if columns is not None and not count.isdecimal():
            raise ArgumentError(f"--columns takes a number, such as 20 or 10:degree-2; it is {columns!r}")
        answer = options.cost_of_mechanism(
            chosen, epsilon, delta, settings, n_rados=1000 if n_rados is None else n_rados, n_examples=rows,
            n_features=int(count) if count else None, columns=word or "auto", n_classes=n_classes,
            private_bounds=schema is not None, group=group,
        )  # fmt: skip
    print(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else describe_account(answer))
