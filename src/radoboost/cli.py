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
_LEARNERS = {"moments": "MomentsClassifier", "boost": "RadoBoostClassifier"}
_ENDINGS = (".gz", ".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".rado")


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
    with a statement of what is and is not protected. Anyone learns a linear classifier from that file alone.

    \b
    Examples:
      rado demo
      rado craft patients.csv --label readmitted
      rado show patients.rado.parquet
      rado learn patients.rado.parquet
      rado predict patients.model.json new-patients.csv
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

    place = output or _default_output(table[0], "rado.parquet")
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


def _complete_learner(incomplete: str) -> list[str]:
    return [name for name in _LEARNERS if name.startswith(incomplete)]


def _complete_weak(incomplete: str) -> list[str]:
    return [name for name in ("strongest", "median") if name.startswith(incomplete)]


@app.command()
@_in_one_line
def learn(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    learner: Annotated[
        str, typer.Option(autocompletion=_complete_learner, help="moments, or boost (RadoBoost).")
    ] = "moments",
    rounds: Annotated[int | None, typer.Option(help="Rounds of boosting; 1000 by default.")] = None,
    weak: Annotated[
        str | None,
        typer.Option(autocompletion=_complete_weak, help="Which feature boosting takes: strongest or median."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The model; STEM.model.json by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Learn a linear classifier from a release alone.

    \b
    Examples:
      rado learn patients.rado.parquet
      rado learn patients.rado.parquet --learner boost --rounds 200 -o boosted.model.json
    """
    import radoboost as rb

    if learner not in _LEARNERS:
        raise ArgumentError(f"there is no learner {learner!r}; choose one of {', '.join(_LEARNERS)}")
    options = {name: value for name, value in (("n_rounds", rounds), ("weak", weak)) if value is not None}
    if options and learner != "boost":
        raise ArgumentError("--rounds and --weak are for boosting; add --learner boost")
    place = output or _default_output(str(release), "model.json")
    _check_output(place, [str(release)])
    model = getattr(rb, _LEARNERS[learner])(**options).fit_rados(release).model_
    model.save(place)
    _print_model(model, place, as_json, f"wrote {place}")


@app.command()
@_in_one_line
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    table: Annotated[
        list[str],
        typer.Argument(metavar="TABLE", help="CSV, CSV.gz, Parquet or Arrow files, or a pattern in quotes."),
    ],
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", metavar="COL", help="A column of true classes: count wrong predictions."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The scores, .csv or .parquet; STEM.scores.csv by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict the class of every row of a table.

    Writes one row for each row of the table, in its order: score, probability of the positive class, predicted class.
    Columns that the model does not know are not read.

    \b
    Examples:
      rado predict patients.model.json new-patients.csv
      rado predict patients.model.json test.parquet --label readmitted -o test.scores.parquet
    """
    from radoboost.model import load_model
    from radoboost.predicting import predict_table
    from radoboost.progress import show_progress

    place = output or _default_output(table[0], "scores.csv")
    _check_output(place, [str(model), *table])
    learned = load_model(model)
    with show_progress() as bar:
        predicted = predict_table(learned, list(table), place, bar, label=label)
    negative, positive = learned.classes
    if as_json:
        print(json.dumps({"path": str(place), **predicted.to_dict()}, indent=2))
        return
    print(f"wrote {place}")
    others = predicted.n_rows - predicted.n_positive
    print(
        f"{predicted.n_rows:,} rows: {predicted.n_positive:,} predicted {positive!r}, {others:,} predicted {negative!r}"
    )
    if predicted.n_wrong is not None:
        print(f"{predicted.n_wrong:,} of them wrong: an error of {100 * predicted.n_wrong / predicted.n_rows:.2f} %")


@app.command()
@_in_one_line
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
        _print_model(rb.load_model(file), file, as_json, str(file))
    else:
        _print_release(rb.load(file), file, as_json, str(file))


def _is_model(path: Path) -> bool:
    """Whether a file is to be read as a model: its first character opens a JSON object."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False  # reading it as a release says what is wrong


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
    from radoboost.progress import show_progress

    with show_progress("steps") as bar:
        done = run_demo(directory, _say, bar)
    if as_json:
        print(json.dumps(done.to_dict(), indent=2, ensure_ascii=False))
        return
    _say(f"\n$ rado show {done.files['model']}")
    _print_model(done.model, done.files["model"], False, str(done.files["model"]))
    _say(f"\nLook at {done.files['picture']}, and at what was released with: rado show {done.files['release']}")


def _print_release(release: Any, path: Path, as_json: bool, heading: str) -> None:
    from radoboost.report import describe

    if as_json:
        print(json.dumps({"path": str(path), **release.to_dict()}, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe(release)}")


def _print_model(model: Any, path: Path, as_json: bool, heading: str) -> None:
    from radoboost.report import describe_model

    if as_json:
        print(json.dumps({"path": str(path), **model.to_dict()}, indent=2, ensure_ascii=False))
    else:
        print(f"{heading}\n{describe_model(model)}")


def _mechanism(name: str) -> Any:
    from radoboost.mechanisms import MECHANISMS

    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    return MECHANISMS[name]()


def _default_output(source: str, ending: str) -> Path:
    """STEM.ending, here."""
    name = Path(source).name
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    if not name or any(c in name for c in "*?["):
        raise ArgumentError("with a pattern, say with -o where the result should go")
    return Path(f"{name}.{ending}")


def _check_output(place: Path, sources: list[str]) -> None:
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
    if place.exists() and any(place.samefile(source) for source in expand_paths(sources)):
        raise OutputError(f"cannot write {place}: it is what is to be read; choose another name with -o")


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal need not know every letter of a file's name
    app()


if __name__ == "__main__":
    main()
