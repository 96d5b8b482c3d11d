"""rado merge --shares: the partial sums of two servers become a release."""

from pathlib import Path

from radoboost.cli.shell import check_output, default_output, print_release
from radoboost.errors import ArgumentError


def merge_partial_sums(files: list[Path], output: Path | None, as_json: bool) -> None:
    """Put the partial sums of two servers together, and write the release."""
    import radoboost as rb

    if len(files) != 2:
        raise ArgumentError(
            f"--shares takes the partial sums of two servers, and there are {len(files)} files; give two"
        )
    place = output or default_output(files[0].stem, "rado.parquet")
    check_output(place, [str(file) for file in files])
    release = rb.merge_shares(files[0], files[1])
    release.save(place)
    print_release(release, place, as_json, f"wrote {place}")
