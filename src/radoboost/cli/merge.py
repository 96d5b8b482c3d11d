"""rado merge: plain releases of several holders become one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli.options import JsonFlag, check_output, complete_from, print_release
from radoboost.errors import ArgumentError
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
