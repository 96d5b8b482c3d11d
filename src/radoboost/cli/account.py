"""rado account: what an epsilon costs in noise, and what noise buys, without data; and what releases amount to."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.options import JsonFlag, UnitOption, complete_mechanism
from radoboost.errors import ArgumentError


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
            autocompletion=complete_mechanism,
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
    unit: UnitOption = None,
    relation: Annotated[
        str,
        typer.Option(
            help="What neighbours are, for moments: add, one record added or removed; or replace, one "
            "record replaced, where the number of rows is public."
        ),
    ] = "add",
    sharpen: Annotated[
        bool, typer.Option("--sharpen/--no-sharpen", help="Whether moments adds mean rados; yes by default.")
    ] = True,
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
    as_json: JsonFlag = False,
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
    from radoboost.holder.privacy_cost import account_for
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
        from radoboost.cli.options import chosen_mechanism
        from radoboost.holder.privacy_cost import account_for_schema

        usual = {"relation": "add", "sharpen": True}  # which not every mechanism has
        given = {"relation": relation, "sharpen": sharpen}
        options = {name: None if value == usual[name] else value for name, value in given.items()}
        options |= {"epsilon": epsilon, "delta": delta, "unit": unit}
        declared = account_for_schema(
            chosen_mechanism(mechanism, options), schema, rows=rows, person=person, max_rows=max_rows, group=group
        )
        print(json.dumps(declared, indent=2, ensure_ascii=False) if as_json else describe_account(declared))
        return
    if person is not None or max_rows is not None:
        raise ArgumentError("what rows of persons cost depends on the table's columns; give --schema FILE with them")
    if bounds not in (None, "private"):
        raise ArgumentError("declared bounds cost nothing, whatever they are; give --bounds private, or leave it out")
    answer = account_for(
        mechanism,
        epsilon=epsilon,
        noise=noise,
        delta=delta,
        n_rados=n_rados,
        n_examples=rows,
        n_features=columns,
        unit=unit or "record",
        relation=relation,
        columns=columns_word,
        n_classes=n_classes,
        sharpen=sharpen,
        private_bounds=bounds is not None,
        group=group,
    )
    print(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else describe_account(answer))
