"""The command rado: results on stdout, commentary and progress on stderr, one line for an expected failure.

Commands that belong together share a module. Other packages bring commands by entry points.

- `options`: what all share: options, each declared once; help in panels; settings by NAME=VALUE; what words stand for;
  output paths checked, default output, failures in one line, print_release, print_model
- `craft`: `rado craft`; an undeclared schema and what it must decide
- `learn`: `rado learn`: learner, its settings, prior, report
- `predict`: `rado predict`, `rado score`, `rado export`; confusion_lines
- `schema`: `rado schema`, `rado check`: decisions, facts of columns, open questions
- `ledger`: `rado ledger` (create, show, verify) and `rado account`; what is amiss with a release
- `merge`: `rado merge`, `rado join`, `rado share` (split, sum): shares and their keys
- `room`: `rado room` (open, identity, join, show, close): room state, times, standing of a holder
- `room_server`: `rado room serve`, its token
- `show`: `rado show`, `rado sign-off`: pages, events
- `demo`: `rado demo`, `rado rehearse`: the rehearsal's table and view
"""

import io
import os
import sys
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from radoboost.cli import ledger, room
from radoboost.cli.craft import craft
from radoboost.cli.demo import demo
from radoboost.cli.learn import learn
from radoboost.cli.ledger import account
from radoboost.cli.merge import join, merge, share
from radoboost.cli.options import GROUPS, add_command, command_group
from radoboost.cli.predict import export, predict, score
from radoboost.cli.schema import check, schema
from radoboost.cli.show import show, sign_off

HOLD, JUDGE, LEARN, TOGETHER, MORE = GROUPS
# What attacks, audits and reproduces, and the studio, are found by the names that a distribution gives them: this
# package imports neither, and another distribution may bring commands of its own.
_BROUGHT = {entry.name: entry for entry in sorted(entry_points(group="radoboost.commands"), key=lambda one: one.name)}
_COMMANDS: dict[str, dict[str, Any]] = {
    HOLD: {"schema": schema, "check": check, "craft": craft, "ledger": ledger.app, "account": account},
    JUDGE: {"show": show, "attack": None, "audit": None, "sign-off": sign_off},
    LEARN: {"learn": learn, "predict": predict, "score": score, "export": export},
    TOGETHER: {"merge": merge, "room": room.app, "join": join, "share": share},
    MORE: {"studio": None, "demo": demo, "reproduce": None},
}

app = command_group("rado", pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
for _group, _named in (*_COMMANDS.items(), (MORE, dict.fromkeys(_BROUGHT))):
    for _name, _own in _named.items():
        if _own is None and _name not in _BROUGHT:
            continue
        _command: Any = _BROUGHT.pop(_name).load() if _own is None else _own
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_group)
        else:
            add_command(app, _name, _group)(_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from radoboost import __version__

        print(f"rado {__version__}")
        raise typer.Exit


@app.callback()
def rado(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
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
      rado check patients.csv --schema patients.schema.json
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
