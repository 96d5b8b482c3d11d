"""rado merge: plain releases of several holders become one."""

from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.keeping import ForceFlag, keep_files
from radoboost.cli.merge_shares import merged_shares
from radoboost.cli.shell import JsonFlag, check_output, completing, print_release

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
            autocompletion=completing("auto", "sum", "moments"),
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
    keep_files(output, _MERGED, force)
    release = merged_shares(releases, how) if shares else rb.merge(releases, how)
    release.save(output)
    print_release(release, output, as_json, f"wrote {output}")
