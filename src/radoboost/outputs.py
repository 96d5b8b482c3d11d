"""What a command must not write over: any file but its own default output, and never a release that spent something."""

import math
from pathlib import Path

from radoboost.errors import OutputError, RadoError

_CRAFTED = "crafting again spends more; choose another place with -o, and --compose to count both"


def refuse_overwrite(
    place: Path, default: Path | None, force: bool = False, option: str = "-o", advice: str = _CRAFTED
) -> None:
    """Refuse to write over a file, unless it has the name that the command gives by default; private releases always.

    `advice` says of a private release what writing over it means, and what to do.
    """
    if force or not place.is_file() or place.stat().st_size == 0:
        return  # nothing is lost; a pipe or a device is no file
    from radoboost.release.release import load, rounded_up_text

    try:
        statement = load(place).statement
    except RadoError:
        statement = None
    if statement is not None and math.isfinite(statement.epsilon):  # its noise cannot be drawn again
        raise OutputError(
            f"{place} is a release that spent epsilon {rounded_up_text(statement.epsilon, 4)} "
            f"({statement.neighbours}), and {advice}, or write over it with --force"
        )
    if place != default:
        raise OutputError(f"{place} exists; choose another place with {option}, or write over it with --force")
