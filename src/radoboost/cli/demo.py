"""rado demo: the whole flow, on data that ships with scikit-learn."""

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from radoboost.cli.options import JsonFlag, QuietFlag, complete_from_words, option, say_on_stderr

if TYPE_CHECKING:
    from rich.table import Table

    from radoboost.examples.rehearsal import Rehearsal, Say, Show, Stand


def demo(
    directory: Annotated[Path, option("-d, --directory DIR", "Where the files go.")] = Path("rado-demo"),
    hospital: Annotated[
        bool, option("--hospital", "Only write a made-up hospital's tables, to try things on.")
    ] = False,
    hospitals: Annotated[bool, option("--hospitals", "The same, with the patients at five hospitals.")] = False,
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
        _write_hospital_tables(directory, hospitals, as_json)
        return
    from radoboost.examples.demo import run_demo
    from radoboost.progress import show_progress
    from radoboost.report.terminal import table_for_terminal

    with show_progress("steps") as bar:
        result = run_demo(directory, say_on_stderr, bar)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"\n{table_for_terminal(result.beside())}")
    files = result.files
    print(
        f"\nOpen {files['picture']}: what stays, and what leaves.\n"
        f"What was released and promised: rado show {files['private release']}\n"
        f"A look inside the model: rado learn {files['release']} --report look.html\n"
        f"All of it on pages: {_studio_command_for_demo(directory, files['private release'])}"
    )


def _studio_command_for_demo(directory: Path, file: Path) -> str:
    """The command that opens a file in the studio, which shows the folder that it is started in."""
    if directory.resolve().is_relative_to(Path.cwd()):
        return shlex.join(["rado", "studio", str(file)])
    return f"cd {shlex.quote(str(directory))} && {shlex.join(['rado', 'studio', file.name])}"


def _write_hospital_tables(directory: Path, several: bool, as_json: bool) -> None:
    from radoboost.examples.hospital import write_hospital, write_hospitals

    files = [str(path) for path in (write_hospitals if several else write_hospital)(directory)]
    if as_json:
        print(json.dumps({"files": files}, indent=2, ensure_ascii=False))
    else:
        print(f"wrote {', '.join(files)}")


# ---- rado room rehearse: a room of five made-up hospitals on one machine, to see how rooms work.

_EVERY = 5.0  # seconds between lines, where stderr is no terminal
_STYLES = {"has the release": "green", "was killed": "red"}


def rehearse(
    lose: Annotated[
        str | None,
        option(
            "--lose NAME",
            "Kill this hospital in the middle: north, south, east, west or coast. The others go on.",
            complete=complete_from_words("north", "south", "east", "west", "coast"),
        ),
    ] = None,
    directory: Annotated[
        Path | None, option("-d, --directory DIR", "A new folder for the files; a temporary one by default.")
    ] = None,
    quiet: QuietFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Watch a room of five made-up hospitals on this machine, with a ledger for each.

    Each hospital is a process of rado room join, and all share a folder. The code is confirmed by itself; in a real
    room, people compare it by telephone. In the end the joint model stands beside what each hospital learns alone.
    Ctrl-C ends all processes, and leaves no file behind.

    \b
    Examples:
      rado room rehearse
      rado room rehearse --lose west
      rado room rehearse -d rehearsal
    """
    from radoboost.examples.rehearsal import rehearse_room

    with _rehearsal_view(quiet) as (tell, show):
        result = rehearse_room(directory, lose, tell, show)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    else:
        print(_demo_text(result))


def _demo_text(result: "Rehearsal") -> str:
    from radoboost.examples.hospital import FIVE, N_NEW
    from radoboost.examples.rehearsal import EPSILON, JOINT, LEDGER, LOG, ROOM, TOTAL
    from radoboost.report.findings import ReportTable
    from radoboost.report.terminal import table_for_terminal

    statement, count = result.release.statement, len(result.holders)
    rows = [[f"{name} alone", FIVE[name], f"{100 * error:.1f} %"] for name, error in result.alone.items()]
    one_table = ["all in one table", sum(FIVE.values()), f"{100 * result.one_table:.1f} %"]
    together = [f"{count} in the room", sum(FIVE[name] for name in result.holders), f"{100 * result.joint:.1f} %"]
    note = f"Each learned from a release with epsilon {EPSILON:g}, for {statement.neighbours}."
    promise = f"epsilon {statement.epsilon:g}, delta {statement.delta:g}, for {statement.neighbours} as neighbours"
    title = f"How often each is wrong about {N_NEW:,} new patients"
    first = result.directory / result.holders[0]

    def command(*words: str | Path) -> str:
        return "  " + shlex.join(["rado", *map(str, words)])

    return "\n".join(
        [
            f"{', '.join(result.holders)}: the same release in each of {count} folders, after {result.seconds:.0f} s",
            f"Promise: {promise}",
            f"Ledgers: it was booked before anything was sent; epsilon {result.left:g} of {TOTAL:g} is left",
            "",
            table_for_terminal(
                ReportTable("errors", title, ["", "patients", "wrong"], [*rows, together, one_table], note)
            ),
            "",
            f"Everything is in {result.directory}. Look at:",
            command("show", first / JOINT),
            command("room", "show", result.directory / ROOM),
            command("ledger", "show", first / LEDGER),
            f"  {shlex.quote(str(first / LOG))}: what {result.holders[0]} saw on its screen",
        ]
    )


@contextmanager
def _rehearsal_view(quiet: bool) -> Iterator[tuple["Say", "Show"]]:
    """What says a line on stderr, and what shows how far all are: on a terminal a table that changes in its place."""
    if quiet:
        yield (lambda line: None), (lambda stands: None)
        return
    from rich.console import Console
    from rich.live import Live

    console, shown = Console(stderr=True), time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(stands: Sequence["Stand"]) -> None:
            nonlocal shown
            if console.is_terminal:
                live.update(_rehearsal_table(stands), refresh=True)
            elif time.monotonic() - shown > _EVERY:
                shown = time.monotonic()
                say_on_stderr("; ".join(f"{stand.name} {stand.step}" for stand in stands))

        yield (lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)), show


def _rehearsal_table(stands: Sequence["Stand"]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table("hospital", "now", "waits for", box=SIMPLE)
    table.columns[1].min_width, table.columns[2].min_width = 31, 9
    table.add_column("messages", justify="right")
    table.add_column("kB sent", justify="right")
    for stand in stands:
        late = stand.waits_for[0] if len(stand.waits_for) == 1 else f"{len(stand.waits_for)} others"
        counts = f"{stand.messages:,}", f"{stand.bytes / 1000:,.0f}"
        table.add_row(stand.name, stand.step, late if stand.waits_for else "", *counts, style=_STYLES.get(stand.step))
    return table
