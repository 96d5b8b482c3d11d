"""rado demo: the whole flow, on data that ships with scikit-learn."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.options import JsonFlag, say


def demo(
    directory: Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Where the files go.")] = Path(
        "rado-demo"
    ),
    hospital: Annotated[
        bool, typer.Option("--hospital", help="Only write a made-up hospital's tables, to try things on.")
    ] = False,
    hospitals: Annotated[
        bool, typer.Option("--hospitals", help="The same, with the patients at five hospitals.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the whole flow on scikit-learn's breast-cancer data, without a promise and with one.

    The promise is epsilon 1 for one record added or removed, with bounds that are declared by hand, and booked on a
    ledger. In the end both releases stand beside each other: what is promised, what is left, and which error their
    models expect and have.

    With --hospital it runs nothing, and writes two raw tables: hospital.csv, with 20,000 patients, and colleague.csv,
    with 2,000 of another hospital. They have ids, gaps, text and dates. A third file, code-book.schema.json, says what
    their columns are. The tutorial starts from these. With --hospitals the same patients are at five hospitals, each in
    a folder of its own, for the tutorial about several.

    \b
    Examples:
      rado demo
      rado demo --directory /tmp/demo
      rado demo --hospital --directory .
      rado demo --hospitals --directory .
    """
    if hospital or hospitals:
        _write_tables(directory, hospitals, as_json)
        return
    from radoboost.examples.demo import run_demo
    from radoboost.progress import show_progress
    from radoboost.report.terminal import show_table

    with show_progress("steps") as bar:
        result = run_demo(directory, say, bar)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"\n{show_table(result.beside())}")
    files = result.files
    print(
        f"\nOpen {files['picture']}: what stays, and what leaves.\n"
        f"What was released and promised: rado show {files['private release']}\n"
        f"A look inside the model: rado learn {files['release']} --report look.html\n"
        f"All of it on pages: {_studio(directory, files['private release'])}"
    )


def _studio(directory: Path, file: Path) -> str:
    """The command that opens a file in the studio, which shows the folder that it is started in."""
    if directory.resolve().is_relative_to(Path.cwd()):
        return shlex.join(["rado", "studio", str(file)])
    return f"cd {shlex.quote(str(directory))} && {shlex.join(['rado', 'studio', file.name])}"


def _write_tables(directory: Path, several: bool, as_json: bool) -> None:
    from radoboost.examples.hospital import write_hospital, write_hospitals

    files = [str(path) for path in (write_hospitals if several else write_hospital)(directory)]
    if as_json:
        print(json.dumps({"files": files}, indent=2, ensure_ascii=False))
    else:
        print(f"wrote {', '.join(files)}")
