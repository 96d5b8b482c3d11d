"""rado audit: a mechanism attacked."""

import json
from typing import Annotated, Any

import typer

from radoboost.cli.protection import chosen_mechanism, complete_mechanism
from radoboost.cli.shell import JsonFlag, RelationOption
from radoboost.errors import ArgumentError


def audit(
    mechanism: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_mechanism, help="moments by default."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claim to attack.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with epsilon; 1e-6 by default.")] = None,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados.")] = 100,
    unit: Annotated[
        str | None, typer.Option(help="What the mechanism moments protects: record (the default) or label.")
    ] = None,
    relation: RelationOption = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="private", help="Let moments find its bounds privately, and attack that as well."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Attack a row with a category and a gap, as a schema reads it from its cells.")
    ] = False,
    columns: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="The columns that moments makes: auto, linear, or degree-2 to degree-8.",
        ),
    ] = "auto",
    n_classes: Annotated[
        int, typer.Option(metavar="K", help="How many classes the attacked tables have; more than two for moments.")
    ] = 2,
    rows: Annotated[int, typer.Option(help="How many examples, for feature-band.")] = 1000,
    max_rows: Annotated[
        int | None,
        typer.Option(metavar="K", help="With --exact: persons, of whom at most K rows contribute."),
    ] = None,
    parties: Annotated[
        int | None,
        typer.Option(metavar="K", help="With --exact: a room of K holders, some of whom put together what they know."),
    ] = None,
    tolerate: Annotated[
        int | None,
        typer.Option(metavar="T", help="How many of them that are, as for rado room open; 1 by default."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs of each of two neighbouring tables; more show more. The default depends on epsilon."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Replay the mechanism on many pairs of made-up tables, and say how far any of them are apart: no "
            "statistics. Also for --mechanism score.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Attack a mechanism as an adversary would, and say how much of its epsilon that shows.

    Needs no data: tables are made up. An audit that shows more than is claimed ends with exit code 1.

    \b
    Examples:
      rado audit --epsilon 4
      rado audit --exact --epsilon 1 --columns degree-4
      rado audit --exact --epsilon 1 --mechanism score --json
      rado audit --epsilon 4 --unit label
      rado audit --epsilon 4 --relation replace
      rado audit --epsilon 4 --bounds private
      rado audit --exact --max-rows 4
      rado audit --epsilon 4 --raw
      rado audit --epsilon 4 --columns degree-2
      rado audit --epsilon 4 --n-classes 5
      rado audit --exact --parties 5 --tolerate 1
      rado audit --mechanism noisy-examples --epsilon 4 --runs 6000
      rado audit --mechanism feature-band --epsilon 1 --rows 1000 --json
    """
    from radoboost.adversary.audit_text import describe_audit, describe_exact_audit
    from radoboost.adversary.audits import audit as attack

    name = mechanism or "moments"
    if bounds not in (None, "private"):
        raise ArgumentError(f"--bounds takes the word private here, or is left out; it is {bounds!r}")
    if tolerate is not None and parties is None:
        raise ArgumentError("--tolerate is for a room; say how many holders it has with --parties")
    if exact and name == "score":
        result: Any = exact_score(epsilon, delta, n_classes, show=not as_json)
    else:
        options = {"delta": delta, "unit": unit, "relation": relation, "epsilon": epsilon}
        result = attack(
            audited(name, options), n_rados=n_rados, n_examples=rows, max_rows=max_rows, runs=runs,
            private_bounds=bounds is not None, raw=raw, columns=columns, n_classes=n_classes,
            room=None if parties is None else (parties, 1 if tolerate is None else tolerate), exact=exact,
            progress=not as_json,
        )  # fmt: skip
    describe = describe_exact_audit if exact else describe_audit
    print(json.dumps(result.to_dict(), indent=2) if as_json else describe(result))
    if not result.holds:
        raise ArgumentError(f"the audit shows more than {name} claims: do not use it, and report this")


def audited(name: str, options: dict[str, Any]) -> Any:
    """The mechanism to audit; one without an epsilon of its own has none, and the canary's column has any name."""
    from radoboost.holder.mechanisms import MECHANISMS

    fields = getattr(MECHANISMS.get(name), "__dataclass_fields__", {})
    epsilon = options["epsilon"] if "epsilon" in fields else None
    return chosen_mechanism(name, {**options, "epsilon": epsilon, "feature": "x" if "feature" in fields else None})


def exact_score(epsilon: float, delta: float | None, n_classes: int, *, show: bool) -> Any:
    """The exact audit of a private score."""
    from radoboost.adversary.exact_audits import exact_score_audit

    return exact_score_audit(epsilon, 1e-6 if delta is None else delta, n_classes=n_classes, progress=show)
