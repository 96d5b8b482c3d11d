"""Write docs/cli.md from the --help of rado and every one of its commands.

`make docs` does so before it builds the site; the page is not kept.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from radoboost.cli import app

PAGE = Path(__file__).with_name("cli.md")
_ENVIRONMENT = {"COLUMNS": "100", "TERM": "dumb"}  # a fixed width, and no colours
_HEAD = """\
# The command line

Made from `--help`.

Results go to stdout, commentary and progress to stderr. `--json` prints a result as JSON. An expected failure is one
line and exit code 1, as is a word that an option does not take; an option that does not exist, or is not a number where
it should be, is exit code 2, an interrupt exit code 130. None of them leaves a half-written file.
"""


def cli_page() -> str:
    """The page as text: a section for each command.

    >>> cli_page().startswith("# The command line")
    True
    """
    sections = [f"## {' '.join(path)}\n\n```text\n{_help(path)}\n```\n" for path in _commands()]
    return "\n".join([_HEAD, *sections])


def _commands() -> Iterator[tuple[str, ...]]:
    """rado, then its commands, and theirs."""
    waiting: list[tuple[tuple[str, ...], Any]] = [(("rado",), typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        yield path
        children = getattr(command, "commands", {})
        waiting += [((*path, name), child) for name, child in children.items() if not child.hidden]


def _help(path: tuple[str, ...]) -> str:
    program, *arguments = path
    result = CliRunner().invoke(app, [*arguments, "--help"], env=_ENVIRONMENT, prog_name=program)
    if result.exit_code != 0:
        raise RuntimeError(f"{' '.join(path)} --help failed: {result.output}")
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def main() -> None:
    """Write the page."""
    PAGE.write_text(cli_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
