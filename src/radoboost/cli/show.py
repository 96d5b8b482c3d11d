"""rado show: what a file is."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli.options import JsonFlag, check_page, print_model, print_release, say
from radoboost.errors import ArgumentError
from radoboost.outputs import ForceFlag


def show(
    file: Annotated[Path, typer.Argument(metavar="RELEASE|MODEL", help="A release or a model.")],
    as_json: JsonFlag = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE",
            help="Write a page: what a release promises and holds, or what a model does.",
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="Only what was done, for accountants: json, or dp-accounting, which is Python for that library.",
        ),
    ] = None,
    force: ForceFlag = False,
) -> None:
    """Show what a release or a model is, what is promised and what is not.

    \b
    Examples:
      rado show patients.rado.parquet
      rado show patients.rado.parquet --html patients.html
      rado show patients.model.json --json
      rado show patients.model.json --html patients.html
      rado show patients.rado.parquet --event dp-accounting
    """
    import radoboost as rb

    content = rb.load_model(file) if _is_model(file) else rb.load(file)
    if html is not None:
        _write_page(content, file, html, force)
    if event is not None:
        print(_event_text(content.statement, event))
    elif isinstance(content, rb.Model):
        print_model(content, file, as_json, str(file))
    else:
        print_release(content, file, as_json, str(file))


def _write_page(content: Any, file: Path, place: Path, force: bool) -> None:
    """One page on what a release promises and holds, or on what a model does."""
    from radoboost.release.release import Release
    from radoboost.report.effects_report import write_page
    from radoboost.report.release_report import write_release_page

    check_page(place, [str(file)], "--html", force=force)
    write: Any = write_release_page if isinstance(content, Release) else write_page
    write(content, place, name=file.name, command=shlex.join(["rado", "show", str(file), "--html", str(place)]))
    say(f"wrote {place}")


def _event_text(statement: Any, form: str) -> str:
    from radoboost.privacy import dp_accounting_text, event_from_dict

    if form not in ("json", "dp-accounting"):
        raise ArgumentError(f"--event must be json or dp-accounting; it is {form!r}")
    if statement is None:
        raise ArgumentError("this model was learned from examples, and has no statement; show a release instead")
    if form == "json":
        return json.dumps(dict(statement.event), indent=2, ensure_ascii=False)
    return dp_accounting_text(event_from_dict(statement.event))


def _is_model(path: Path) -> bool:
    """Whether a file is to be read as a model: its first character opens a JSON object."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False  # reading it as a release says what is wrong
