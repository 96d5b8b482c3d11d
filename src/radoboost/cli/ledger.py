"""rado ledger and rado account: the books of a table, and what a release costs by what is known before."""

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli import options
from radoboost.errors import ArgumentError, RadoError

if TYPE_CHECKING:
    from radoboost.privacy.ledger import Ledger


app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keep the books of a table: a total set in advance, every release booked against it.",
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
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Book what this costs on the table's ledger first; rado ledger create makes one.",
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        autocompletion=complete_table,
        help="Whose total, in a ledger of several tables.",
    ),
]
LedgerArgument = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file that the holder keeps.")]


def chosen_ledger(place: Path | None, table: str | None) -> "Ledger | None":
    from radoboost.privacy.ledger import Ledger

    if place is None:
        if table is not None:
            raise ArgumentError("--table names a table of a ledger; give --ledger FILE with it")
        return None
    return Ledger(place, table)


@app.command()
@options.failures_in_one_line
def create(
    ledger: LedgerArgument,
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="Your name for the table.")],
    epsilon: Annotated[float, typer.Option(help="What all releases of the table together may cost.")],
    delta: Annotated[float, typer.Option(help="The delta that goes with epsilon.")] = 1e-6,
    relation: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_ledger_relation,
            help="Which tables are neighbours: record (added or removed), edge (vector replaced) or label (flipped); "
            "person, person-rows or person-labels for releases with --person.",
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


@app.command()
@options.failures_in_one_line
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


@app.command()
@options.failures_in_one_line
def verify(
    ledger: LedgerArgument,
    releases: Annotated[
        list[Path] | None, typer.Argument(metavar="[RELEASE]...", help="Releases that should be booked.")
    ] = None,
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
        typer.Argument(
            metavar="[RELEASE]...",
            help="Releases of one table, and receipts of rooms without one: what do they amount to together?",
        ),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=options.complete_mechanism,
            help="moments, noisy-rados, noisy-examples or feature-band.",
        ),
    ] = "moments",
    epsilon: Annotated[float | None, typer.Option(help="The privacy loss to allow: what noise does it take?")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise in multiples of the clipping norm: what does it buy?")
    ] = None,
    delta: Annotated[float, typer.Option(help="The delta that goes with epsilon.")] = 1e-6,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados.")] = 1000,
    rows: Annotated[
        int | None,
        typer.Option(
            help="How many examples; feature-band needs this. For moments, with --columns: what error to expect?"
        ),
    ] = None,
    columns: Annotated[int | None, typer.Option(help="How many columns, for moments, with --rows.")] = None,
    columns_word: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="The columns that moments makes of these: auto, linear, or degree-2 to degree-8.",
        ),
    ] = "auto",
    n_classes: Annotated[
        int, typer.Option(metavar="K", help="How many classes, for moments: two unless you say so.")
    ] = 2,
    unit: options.UnitOption = None,
    relation: options.RelationOption = None,
    sharpen: options.SharpenOption = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="private", help="With the word private: moments finds the bounds of all columns."),
    ] = None,
    group: Annotated[
        int | None,
        typer.Option(metavar="K", help="What do K rows of one person pay together? For 2, 5 and 10 by default."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The table as a schema declares it, for moments, in place of --columns and --n-classes.",
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option(metavar="COL", help="With --schema: the column that says whose row it is.")
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(metavar="K", help="With --person: how many rows of each contribute at most.")
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
      rado account --epsilon 1 --rows 19000 --columns 10 --columns-word degree-2
      rado account --epsilon 1 --rows 5000 --columns 10 --n-classes 5
      rado account --epsilon 1 --rows 5000 --columns 20 --bounds private --no-sharpen
      rado account --epsilon 1 --rows 5000 --schema patients.schema.json
      rado account --mechanism noisy-rados --epsilon 1 -n 300
      rado account --mechanism noisy-rados --noise 18.75 -n 100 --delta 1e-5
      rado account --mechanism noisy-examples --epsilon 1 --group 40
      rado account --mechanism feature-band --epsilon 1 --rows 1000 -n 100 --delta 1e-5
      rado account first.rado.parquet second.rado.parquet --delta 1e-6
    """
    from radoboost.holder.privacy_cost import privacy_cost_of_mechanism
    from radoboost.report.describe import describe_account, describe_chain

    if releases:
        from radoboost.holder.mechanisms.statements import SHOWN_DELTAS
        from radoboost.release.composition import account_for_releases

        others = set(context.params) - {"releases", "delta", "as_json"}
        sources = [context.get_parameter_source(name) for name in others]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise ArgumentError(
                "releases say themselves what was done; give --delta alone with them (what several rows of one person "
                "pay: rado show RELEASE)"
            )
        together = account_for_releases(releases, delta, SHOWN_DELTAS)
        print(json.dumps(together, indent=2, ensure_ascii=False) if as_json else describe_chain(together))
        return
    if schema is not None:
        if any(option is not None for option in (noise, columns, bounds)) or n_classes != 2 or columns_word != "auto":
            raise ArgumentError("a schema says itself what the columns and classes are; leave options about them out")
        from radoboost.holder.privacy_cost import privacy_cost_by_schema

        privacy = {"epsilon": epsilon, "delta": delta, "unit": unit, "relation": relation, "sharpen": sharpen}
        declared = privacy_cost_by_schema(
            options.chosen_mechanism(mechanism, privacy),
            schema,
            rows=rows,
            person=person,
            max_rows=max_rows,
            group=group,
        )
        print(json.dumps(declared, indent=2, ensure_ascii=False) if as_json else describe_account(declared))
        return
    if person is not None or max_rows is not None:
        raise ArgumentError("what rows of persons cost depends on the table's columns; give --schema FILE with them")
    if bounds not in (None, "private"):
        raise ArgumentError("declared bounds cost nothing, whatever they are; give --bounds private, or leave it out")
    answer = privacy_cost_of_mechanism(
        mechanism, epsilon=epsilon, noise=noise, delta=delta, n_rados=n_rados, n_examples=rows, n_features=columns,
        unit=unit or "record", relation=relation or "add", columns=columns_word, n_classes=n_classes,
        sharpen=sharpen is not False, private_bounds=bounds is not None, group=group,
    )  # fmt: skip
    print(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else describe_account(answer))
