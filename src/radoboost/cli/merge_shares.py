"""rado merge --shares: what two servers made of the two shares of rows becomes a release."""

from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError


def merged_shares(files: list[Path], how: str) -> Any:
    """The release of two files of partial sums; `how` is for releases."""
    import radoboost as rb

    if how != "auto":
        raise ArgumentError(f"--how {how} is for releases, and partial sums are added in one way; leave it out")
    if len(files) != 2:
        raise ArgumentError(f"--shares takes what two servers made, and there are {len(files)} files; give two")
    return rb.merge_shares(files[0], files[1])
