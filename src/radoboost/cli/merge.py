"""rado merge: plain releases of several holders become one."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli.options import JsonFlag, check_output, check_page, complete_from, print_model, print_release, say
from radoboost.errors import ArgumentError, OutputError, RadoError
from radoboost.outputs import ForceFlag, refuse_overwrite

# ---- rado merge --shares: what two servers made of the two shares of rows becomes a release.


def merged_shares(files: list[Path], how: str) -> Any:
    """The release of two files of partial sums; `how` is for releases."""
    import radoboost as rb

    if how != "auto":
        raise ArgumentError(f"--how {how} is for releases, and partial sums are added in one way; leave it out")
    if len(files) != 2:
        raise ArgumentError(f"--shares takes what two servers made, and there are {len(files)} files; give two")
    return rb.merge_shares(files[0], files[1])


# ----

_MERGED = Path("merged.rado.parquet")


def merge(
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE...", help="Plain releases, one of each holder; with --shares, what two servers made."
        ),
    ],
    how: Annotated[
        str,
        typer.Option(
            metavar="auto|sum|moments",
            autocompletion=complete_from("auto", "sum", "moments"),
            help="Add rado j of each, which is exact; or keep the rados of all, moved so that mean and covariance are "
            "those of all rows, for different numbers of rados. auto sums where it can.",
        ),
    ] = "auto",
    shares: Annotated[
        bool,
        typer.Option("--shares", help="Put together what rado craft made of the two shares of rows, at the learner."),
    ] = False,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="OUT", help="The release; merged.rado.parquet by default."),
    ] = _MERGED,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Merge plain releases of several holders into one release of all their rows.

    They have the same columns and classes, and no row is at two holders. Z-scores are converted to those of all rows.
    Signatures are independent, or of one seed under which rows are numbered through (rado craft --seed --first-row):
    then the sum is the release of the whole table, to the last bit. Private releases are not merged: rado learn A B C.

    \b
    Examples:
      rado merge north.rado.parquet south.rado.parquet -o both.rado.parquet
      rado merge north.rado.parquet south.rado.parquet west.rado.parquet --how moments
      rado merge --shares a.partial b.partial -o patients.rado.parquet
    """
    import radoboost as rb

    check_output(output, [str(path) for path in releases])
    refuse_overwrite(output, _MERGED, force)
    release = merged_shares(releases, how) if shares else rb.merge(releases, how)
    release.save(output)
    print_release(release, output, as_json, f"wrote {output}")


# ---- rado join: releases of two holders of different columns become one model.

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
