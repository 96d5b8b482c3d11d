"""The command rado: results on stdout, commentary and progress on stderr, one line for an expected failure.

Commands that belong together share a module. Other packages bring commands by entry points.

- `options`: what all share: chosen mechanism, classes, table and signatures; output paths checked, default output,
  failures in one line, print_release, print_model, completion of words
- `craft`: `rado craft`; an undeclared schema and what it must decide
- `learn`: `rado learn`: learner, weak oracle, penalty, strength, prior, report
- `predict`: `rado predict`, `rado score`, `rado export`; confusion_lines
- `schema`: `rado schema`, `rado check`: decisions, facts of columns, open questions
- `ledger`: `rado ledger` (create, show, verify) and `rado account`; what is amiss with a release
- `merge`: `rado merge`, `rado join`, `rado share`: share files, their keys, crafts from shares
- `room`: `rado room` (open, identity, join, show, close): room state, times, standing of a holder
- `room_server`: `rado room serve`, its token
- `show`: `rado show`, `rado sign-off`: pages, events
- `demo`: `rado demo`, `rado rehearse`: the rehearsal's table and view
"""

import io
import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from radoboost.cli import ledger, room
from radoboost.cli.craft import craft
from radoboost.cli.demo import demo
from radoboost.cli.learn import learn
from radoboost.cli.ledger import account
from radoboost.cli.merge import join, merge, share
from radoboost.cli.options import failures_in_one_line
from radoboost.cli.predict import export, predict, score
from radoboost.cli.schema import check, schema
from radoboost.cli.show import show, sign_off

app = typer.Typer(
    name="rado",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    *(craft, learn, merge, join, share, predict, score, show, sign_off, export),
    *(schema, check, account, demo),
):
    app.command(command.__name__.replace("_", "-"))(failures_in_one_line(command))
app.add_typer(ledger.app)
app.add_typer(room.app)
# What attacks, audits and reproduces, and the studio, are found by the names that a distribution gives them: this
# package imports neither, and another distribution may bring commands of its own.
for entry in sorted(entry_points(group="radoboost.commands"), key=lambda entry: entry.name):
    command = entry.load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    else:
        app.command(entry.name)(failures_in_one_line(command))


def _show_version(wanted: bool) -> None:
    if wanted:
        from radoboost import __version__

        print(f"rado {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Learn from private data that never leaves the building.

    A data holder crafts a small set of Rademacher observations (rados) from a table and releases them in one file,
    with a statement of what is and is not protected. Anyone learns a classifier from that file alone.

    \b
    Examples:
      rado demo
      rado craft patients.csv --label readmitted
      rado show patients.rado.parquet
      rado learn patients.rado.parquet
      rado predict patients.model.json new-patients.csv

    \b
    With a promise about every record:
      rado schema patients.csv --label readmitted
      rado craft patients.csv --epsilon 1 --schema patients.schema.json
    """


def main() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before this process began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know every letter of a file's name
    app()
