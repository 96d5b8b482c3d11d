"""rado join: releases of two holders of different columns become one model."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.options import JsonFlag, check_output, check_page, print_model, say
from radoboost.errors import OutputError, RadoError
from radoboost.outputs import ForceFlag, refuse_overwrite

_JOINT = Path("joint.model.json")


def join(
    left: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of one holder, crafted with --share.")],
    right: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of the other holder.")],
    on: Annotated[
        str | None,
        typer.Option(metavar="COL,COL", help="The columns that both have; all that both releases share by default."),
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(metavar="R", help="How far weights are shrunk, as a share of second moments; 0.01 by default."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The model.")] = _JOINT,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="A page that shows what the model does: effects of columns.")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Learn a classifier over the columns of two holders; nobody's rows are matched.

    Both have the label and some columns in common, coded alike, and give a plain release that shares these. Columns of
    one holder and of the other are taken to be unrelated given what is shared: the model says so. To predict a row, its
    two parts must meet, or their scores.

    \b
    Examples:
      rado craft clinic.csv --label readmitted --share age,region
      rado craft laboratory.csv --label readmitted --share age,region
      rado join clinic.rado.parquet laboratory.rado.parquet -o joint.model.json
      rado join clinic.rado.parquet laboratory.rado.parquet --on age,region --json
    """
    import radoboost as rb
    from radoboost.learner.moment_completion import RIDGE
    from radoboost.tables.column_selection import split_names

    sources = [str(left), str(right)]
    check_output(output, sources)
    refuse_overwrite(output, _JOINT, force)
    if report is not None:
        check_page(report, sources, "--report", output, force)
    names = None if on is None else split_names(on)
    model = rb.join(left, right, names, ridge=RIDGE if ridge is None else ridge)
    model.save(output)
    if report is not None:
        _write_report(model, output, report, shlex.join(["rado", "join", *sources]))
    print_model(model, output, as_json, f"wrote {output}")


def _write_report(model: object, place: Path, report: Path, command: str) -> None:
    """The page on a model that is saved; a failure says that the model is there."""
    from radoboost.report.effects_report import write_page

    try:
        write_page(model, report, name=place.name, command=command)  # type: ignore[arg-type]
    except RadoError as error:
        raise OutputError(f"{error}; the model itself is in {place}") from None
    say(f"wrote {report}")
