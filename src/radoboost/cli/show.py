"""rado show: what a file is."""

from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.shell import JsonFlag, print_model, print_release


def show(
    file: Annotated[Path, typer.Argument(metavar="RELEASE|MODEL", help="A release or a model.")],
    as_json: JsonFlag = False,
) -> None:
    """Show what a release or a model is, what is promised and what is not.

    \b
    Examples:
      rado show patients.rado.parquet
      rado show patients.model.json --json
    """
    import radoboost as rb

    if _is_model(file):
        print_model(rb.load_model(file), file, as_json, str(file))
    else:
        print_release(rb.load(file), file, as_json, str(file))


def _is_model(path: Path) -> bool:
    """Whether a file is to be read as a model: its first character opens a JSON object."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False  # reading it as a release says what is wrong
