"""rado score: a private test error."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radoboost.cli.ledger import chosen_ledger
from radoboost.cli.options import FormatOption, JsonFlag, QueryOption, TableArgument, chosen_table, noted, say
from radoboost.errors import ArgumentError, on_failure

if TYPE_CHECKING:
    from radoboost.private_score import Score


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    table: TableArgument,
    epsilon: Annotated[float, typer.Option(help="The privacy loss to allow.")],
    label: Annotated[str, typer.Option("--label", "-l", metavar="COL", help="The column of true classes.")],
    query: QueryOption = None,
    form: FormatOption = None,
    delta: Annotated[float, typer.Option(help="The delta that goes with epsilon.")] = 1e-6,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Book the score on this table's ledger first; repeat it with the ledger of the table that the model "
            "was learned from, where people are in both.",
        ),
    ] = None,
    ledger_table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="NAME", help="Whose total, for each --ledger of several tables, in their order."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the interval, which covers the noise.")] = 0.95,
    threads: Annotated[int | None, typer.Option(help="How many threads; all cores by default.")] = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="record", help="Say that each row is another person, which nobody is reminded of then."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a model on a table privately: noisy numbers of errors and hits, for one record added or removed.

    Each row is predicted on its own; one of another class counts as neither, and so does one with a missing value,
    unless the model has a schema, which fills it. Models may be chosen by such scores, if they are booked; choosing by
    exact ones has no finite epsilon.

    \b
    Examples:
      rado score patients.model.json test.csv --label readmitted --epsilon 0.5
      rado score patients.model.json test.csv -l readmitted --epsilon 0.5 --ledger test.ledger --ledger patients.ledger
    """
    from radoboost.private_score import score as score_table

    places = ledger or []
    names: list[str] | list[None] = ledger_table or [None] * len(places)
    if len(names) != len(places):
        raise ArgumentError("give one --table for each --ledger, in the same order, or none")
    books = [chosen_ledger(place, name) for place, name in zip(places, names, strict=True)]
    chosen = chosen_table(table, query, form)
    with noted() as notices:
        result = score_table(
            model, chosen, label=label, epsilon=epsilon, delta=delta, ledger=[book for book in books if book],
            confidence=confidence, threads=threads, progress=True, unit=unit,
        )  # fmt: skip
    with on_failure(result.unless_shown):
        for warning in notices:
            say(f"rado: {warning}")
        print(json.dumps(result.to_dict(), indent=2) if as_json else _as_text(result, bool(books)), flush=True)


def _as_text(result: "Score", booked: bool) -> str:
    from radoboost.private_score import COVERS
    from radoboost.release.release import rounded_up

    low, high = result.interval
    lines = [
        f"errors       {result.errors:,.1f}, give or take {result.noise_std:.3g}",
        f"hits         {result.hits:,.1f}, give or take {result.noise_std:.3g}",
        f"error        {100 * result.error:.2f} %, from {100 * low:.2f} % to {100 * high:.2f} % at confidence "
        f"{100 * result.confidence:g} %",
        f"covers       {COVERS}",
        f"cost         epsilon {rounded_up(result.epsilon, 4)} at delta {result.delta:g}, for {result.neighbours} as "
        "neighbours; " + (f"booked {len(result.bookings)} times" if booked else "on no ledger, so nothing counts it"),
        f"beware       {result.not_covered}",
    ]
    return "\n".join(textwrap.fill(line, 100, subsequent_indent=" " * 13) for line in lines)
