"""The command rado: results on stdout, commentary and progress on stderr, one line for an expected failure."""

import functools
import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from radoboost.errors import ArgumentError, ClippedWarning, OutputError, RadoError, reason

app = typer.Typer(
    name="rado",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

P = ParamSpec("P")
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_ENDINGS = (".gz", ".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _in_one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Expected failures end a command with one line and exit code 1, Ctrl-C with 130."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except RadoError as error:
            _say(f"rado: {error}")
            raise typer.Exit(1) from None
        except OSError as error:
            # What was written to stdout has no taker, and is not to be tried again at exit.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                _say(f"rado: cannot print the result: {reason(error)}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            _say("rado: interrupted; no unfinished file is left")
            raise typer.Exit(130) from None

    return wrapped


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
    with a statement of what is and is not protected.

    \b
    Examples:
      rado demo
      rado craft patients.csv --label readmitted
      rado show patients.rado.parquet
    """


def _complete_mechanism(incomplete: str) -> list[str]:
    from radoboost.mechanisms import MECHANISMS

    return [name for name in MECHANISMS if name.startswith(incomplete)]


@app.command()
@_in_one_line
def craft(
    table: Annotated[
        list[str],
        typer.Argument(metavar="TABLE", help="CSV, CSV.gz, Parquet or Arrow files, or a pattern in quotes."),
    ],
    label: Annotated[str, typer.Option("--label", "-l", metavar="COL", help="The column that holds the two classes.")],
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados, at most 524,288.")] = 1000,
    mechanism: Annotated[
        str,
        typer.Option(metavar="NAME", autocompletion=_complete_mechanism, help="What protects the release."),
    ] = "plain",
    scale: Annotated[str, typer.Option(help="auto, standard (z-scores), bounds (onto [-1, 1]) or none.")] = "auto",
    bounds: Annotated[
        Path | None, typer.Option(metavar="FILE", help='JSON file of bounds, {"column": [low, high], ...}.')
    ] = None,
    classes: Annotated[
        tuple[str, str] | None, typer.Option(metavar="NEG POS", help="The label values that mean -1 and +1.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Use this column; repeat for more. All by default."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Leave this column out; repeat for more.")
    ] = None,
    intercept: Annotated[bool, typer.Option(help="Add the constant feature.")] = True,
    seed: Annotated[
        int | None,
        typer.Option(help="Reproducible signatures, known to whoever knows the seed; the statement says so."),
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, kernel or reference; all give the same bits.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="How many threads; all cores by default.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The release; STEM.rado.parquet by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Craft rados from a table and write them as a release.

    \b
    Examples:
      rado craft patients.csv --label readmitted
      rado craft 'visits/*.parquet' --label readmitted -n 5000 --drop patient_id -o visits.rado.parquet
      rado craft patients.csv --label outcome --classes alive dead --json
    """
    import radoboost as rb

    place = output or _default_output(table[0])
    _check_output(place, table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ClippedWarning)
        release = rb.craft(
            list(table),
            label=label,
            classes=classes,
            features=feature or None,
            drop=drop or (),
            n_rados=n_rados,
            mechanism=_mechanism(mechanism),
            scale=None if scale == "none" else scale,
            bounds=bounds,
            intercept=intercept,
            seed=seed,
            engine=engine,
            threads=threads,
            progress=True,
        )
    for warning in caught:
        _say(f"rado: {warning.message}")
    release.save(place)
    _print_release(release, place, as_json, f"wrote {place}")


@app.command()
@_in_one_line
def show(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    as_json: JsonFlag = False,
) -> None:
    """Show what a release is, what it promises and what it does not.

    \b
    Examples:
      rado show patients.rado.parquet
      rado show patients.rado.parquet --json
    """
    import radoboost as rb

    _print_release(rb.load(release), release, as_json, str(release))


@app.command()
@_in_one_line
def demo(
    directory: Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Where the files go.")] = Path(
        "rado-demo"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run the whole flow on scikit-learn's breast-cancer data.

    \b
    Examples:
      rado demo
      rado demo --directory /tmp/demo
    """
    from radoboost.demo import run_demo

    release, files = run_demo(directory, _say)
    _say("")
    _print_release(release, files[0], as_json, str(files[0]))
    _say(f"\nLook at {files[1]}, and at the release again with: rado show {files[0]}")


def _print_release(release: Any, path: Path, as_json: bool, heading: str) -> None:
    from radoboost.report import describe

    if as_json:
        print(json.dumps({"path": str(path), **release.to_dict()}, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe(release)}")


def _mechanism(name: str) -> Any:
    from radoboost.mechanisms import MECHANISMS

    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    return MECHANISMS[name]()


def _default_output(table: str) -> Path:
    """STEM.rado.parquet, here."""
    name = Path(table).name
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    if not name or any(c in name for c in "*?["):
        raise ArgumentError("with a pattern, say with -o where the release should go")
    return Path(f"{name}.rado.parquet")


def _check_output(place: Path, tables: list[str]) -> None:
    """Refuse a bad place before the work, not after."""
    from radoboost.files import expand_paths

    parent = place.parent
    if len(os.fsencode(place.name)) > 255:
        raise OutputError(f"cannot write {place.name[:40]}...: the name is too long; choose another with -o")
    if not parent.is_dir():
        raise OutputError(f"cannot write {place}: there is no directory {parent}; make it or choose another")
    if place.is_dir():
        raise OutputError(f"cannot write {place}: it is a directory; name a file")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"cannot write {place}: no permission to write in {parent}; choose another place")
    if place.exists() and any(place.samefile(table) for table in expand_paths(tables)):
        raise OutputError(f"cannot write {place}: it is the table itself; choose another name with -o")


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal need not know every letter of a file's name
    app()


if __name__ == "__main__":
    main()
