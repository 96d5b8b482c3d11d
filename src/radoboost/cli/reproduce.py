"""rado reproduce: the paper's experiments."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.shell import JsonFlag, say


def _complete_experiment(incomplete: str) -> list[str]:
    from radoboost.paper import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


def _complete_domains(incomplete: str) -> list[str]:
    from radoboost.paper.domains import SOURCES

    *chosen, last = incomplete.split(",")
    return [",".join([*chosen, name]) for name in SOURCES if name.startswith(last) and name not in chosen]


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=_complete_experiment,
            help="table1, table3, feature-privacy, gaussian, theory, or all.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="RADO_DATA", help="The folder that holds the domains."),
    ] = None,
    domains: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", autocompletion=_complete_domains, help="Only these domains; all in the folder by default."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer folds and repeats, in about a minute.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of folds, rados and draws.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="How many processes; all cores by default.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The folder of the results.")] = Path(
        "rado-reproduce"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run an experiment of the paper, and compare what comes out with what the paper says.

    Results go to OUT as JSON, CSV, PNG and SVG, and as one page, report.html. Finished pieces are kept there: after an
    interruption the same command goes on from them. Domains are CSV files with a header and a last column of -1 and 1,
    or the UCI archive's Twitter.data, SUSY.csv.gz and HIGGS.csv.gz; missing ones are named.

    \b
    Examples:
      rado reproduce table1 --data domains
      rado reproduce table3 --domains banknote,ionosphere --quick
      rado reproduce all --data domains --jobs 4 -o results
    """
    from radoboost.findings.pages import show as in_words
    from radoboost.paper import reproduce as run

    names = tuple(name for name in domains.split(",") if name) if domains is not None else None
    try:
        documents = run(
            what, data=data, domains=names, quick=quick, seed=seed, jobs=jobs, output=output, progress=True, say=say
        )
    except KeyboardInterrupt:
        say("rado: interrupted; finished pieces are kept, and the same command goes on from them")
        raise typer.Exit(130) from None
    if as_json:
        kept = [document.to_dict() for document in documents]
        print(json.dumps({"path": str(output), "experiments": kept}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(in_words(document.findings) for document in documents))
    say(f"\nLook at {output / 'report.html'}")
