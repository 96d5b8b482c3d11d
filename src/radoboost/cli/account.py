"""rado account: what an epsilon costs in noise, and what noise buys, without data."""

import json
from typing import Annotated

import typer

from radoboost.cli.protection import complete_mechanism
from radoboost.cli.shell import JsonFlag


def account(
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
    unit: Annotated[str, typer.Option(help="What moments protects: record or label.")] = "record",
    group: Annotated[
        int | None,
        typer.Option(metavar="K", help="What do K rows of one person pay together? For 2, 5 and 10 by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what an epsilon costs in noise, or what noise buys, without any data.

    \b
    Examples:
      rado account --epsilon 0.1 --rows 5000 --columns 20
      rado account --mechanism noisy-rados --epsilon 1 -n 300
      rado account --mechanism noisy-rados --noise 18.75 -n 100 --delta 1e-5
      rado account --mechanism noisy-examples --epsilon 1 --group 40
      rado account --mechanism feature-band --epsilon 1 --rows 1000 -n 100 --delta 1e-5
    """
    from radoboost.describe import describe_account
    from radoboost.holder.costs import account_for

    answer = account_for(
        mechanism,
        epsilon=epsilon,
        noise=noise,
        delta=delta,
        n_rados=n_rados,
        n_examples=rows,
        n_features=columns,
        unit=unit,
        group=group,
    )
    print(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else describe_account(answer))
