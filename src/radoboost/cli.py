"""The command rado: results on stdout, commentary and progress on stderr, one line for an expected failure."""

import dataclasses
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

from radoboost.errors import ArgumentError, OutputError, RadoError, reason

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
            _say(f"rado: {' '.join(str(error).split())}")
            raise typer.Exit(1) from None
        except MemoryError:
            _say("rado: there is not enough memory for this; ask for less, or free some")
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

    \b
    With a promise about every record:
      rado bounds patients.csv --label readmitted
      rado craft patients.csv --epsilon 1 --bounds patients.bounds.json
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
    label: Annotated[
        str | None,
        typer.Option(
            "--label", "-l", metavar="COL", help="The column that holds the two classes; --bounds may name it."
        ),
    ] = None,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados, at most 524,288.")] = 1000,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=_complete_mechanism,
            help="What protects the release: plain, or moments with --epsilon, by default.",
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy loss to allow; needs --bounds.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with it; 1e-6 by default.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="About how many rows, from public knowledge: refuse an epsilon that so few cannot carry.",
        ),
    ] = None,
    clip: Annotated[float | None, typer.Option(help="The largest norm of a scaled row; 1 by default.")] = None,
    noise_std: Annotated[float | None, typer.Option(help="The noise itself, instead of --epsilon.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="What the mechanism moments protects: record (the default) or label.")
    ] = None,
    sharpen: Annotated[
        bool | None, typer.Option("--sharpen/--no-sharpen", help="Whether moments adds mean rados; yes by default.")
    ] = None,
    protect: Annotated[
        str | None, typer.Option(metavar="COL", help="The binary column of the mechanism feature-band.")
    ] = None,
    support: Annotated[
        str | None, typer.Option(metavar="S", help="Rados of S examples each, or of a fraction S such as 0.5.")
    ] = None,
    scale: Annotated[str, typer.Option(help="auto, standard (z-scores), bounds (onto [-1, 1]) or none.")] = "auto",
    bounds: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file of bounds; rado bounds writes a template."),
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
    i_know: Annotated[
        bool, typer.Option("--i-know", help="Allow a seed with a private mechanism, at an infinite epsilon.")
    ] = False,
    compose: Annotated[
        list[Path] | None,
        typer.Option(metavar="RELEASE", help="An earlier release of the same table, to add up with; repeat for more."),
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
      rado craft patients.csv --epsilon 1 --bounds patients.bounds.json
    """
    import radoboost as rb

    given = {"feature": protect, "epsilon": epsilon, "delta": delta, "clip": clip, "noise_std": noise_std}
    protection = _mechanism(mechanism, {**given, "unit": unit, "sharpen": sharpen})
    if protection.private and bounds is None:
        _say("rado: a promise about records needs declared bounds, for what is read off the table tells of it")
        _say(f"rado: run: rado bounds {table[0]} --label COL; fill it in from public knowledge; give it with --bounds")
        raise typer.Exit(1)
    place = output or _default_output(table[0], "rado.parquet")
    _check_output(place, table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        release = rb.craft(
            list(table),
            label=label,
            classes=classes,
            features=feature or None,
            drop=drop or (),
            n_rados=n_rados,
            mechanism=protection,
            signatures=_signatures(support),
            scale=None if scale == "none" else scale,
            bounds=bounds,
            intercept=intercept,
            rows=rows,
            seed=seed,
            i_know=i_know,
            compose=compose or (),
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
def bounds(
    table: Annotated[
        list[str],
        typer.Argument(metavar="TABLE", help="CSV, CSV.gz, Parquet or Arrow files, or a pattern in quotes."),
    ],
    label: Annotated[
        str | None, typer.Option("--label", "-l", metavar="COL", help="The column that holds the two classes.")
    ] = None,
    from_data: Annotated[
        bool,
        typer.Option("--from-data", help="Fill it in from the table; private mechanisms will refuse such bounds."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The template; STEM.bounds.json by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a template of bounds and classes for a table, to be filled in from public knowledge.

    Private mechanisms take nothing from the table: what columns range over, and which the two classes are, must be
    known without it. The template has the columns and their storage types, and leaves the rest open.

    \b
    Examples:
      rado bounds patients.csv --label readmitted
      rado bounds patients.csv --label readmitted --from-data -o seen.bounds.json
    """
    from radoboost.bounds import bounds_template
    from radoboost.release import replacing

    place = output or _default_output(table[0], "bounds.json")
    _check_output(place, table)
    template = bounds_template(list(table), label=label, from_data=from_data)
    text = json.dumps(template, indent=2, ensure_ascii=False)
    with replacing(place) as beside:
        beside.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
        return
    print(f"wrote {place}: {len(template['columns']):,} columns")
    if from_data:
        print("filled in from the table: it tells of the table, and private mechanisms refuse it")
    else:
        print("fill in low and high of every column, and the classes [negative, positive], from public knowledge")


@app.command()
@_in_one_line
def account(
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=_complete_mechanism,
            help="moments, noisy-rados, noisy-examples or feature-band.",
        ),
    ] = "moments",
    epsilon: Annotated[float | None, typer.Option(help="The privacy loss to allow: what noise does it take?")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise in multiples of the clipping norm: what does it buy?")
    ] = None,
    delta: Annotated[float, typer.Option(help="The delta that goes with epsilon.")] = 1e-6,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados.")] = 1000,
    rows: Annotated[
        int | None, typer.Option(help="How many examples; feature-band needs it. For moments: what error to expect?")
    ] = None,
    columns: Annotated[int | None, typer.Option(help="How many columns, with --rows, for moments.")] = None,
    unit: Annotated[str, typer.Option(help="What moments protects: record or label.")] = "record",
    as_json: JsonFlag = False,
) -> None:
    """Say what an epsilon costs in noise, or what noise buys, without any data.

    \b
    Examples:
      rado account --epsilon 0.1 --rows 5000 --columns 20
      rado account --mechanism noisy-rados --epsilon 1 -n 300
      rado account --mechanism noisy-rados --noise 18.75 -n 100 --delta 1e-5
      rado account --mechanism noisy-examples --epsilon 1
      rado account --mechanism feature-band --epsilon 1 --rows 1000 -n 100 --delta 1e-5
    """
    from radoboost.accounting import account_for
    from radoboost.report import describe_account

    answer = account_for(
        mechanism,
        epsilon=epsilon,
        noise=noise,
        delta=delta,
        n_rados=n_rados,
        n_examples=rows,
        n_features=columns,
        unit=unit,
    )
    print(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else describe_account(answer))


@app.command()
@_in_one_line
def audit(
    mechanism: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=_complete_mechanism, help="moments by default."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claim to attack.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with it; 1e-6 by default.")] = None,
    n_rados: Annotated[int, typer.Option("-n", "--n-rados", help="How many rados.")] = 100,
    unit: Annotated[
        str | None, typer.Option(help="What the mechanism moments protects: record (the default) or label.")
    ] = None,
    rows: Annotated[int, typer.Option(help="How many examples, for feature-band.")] = 1000,
    runs: Annotated[
        int | None, typer.Option(help="Runs of either table; more show more. By default as epsilon asks.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack a mechanism as an adversary would, and say how much of its epsilon that shows.

    Needs no data: a canary is made up. An audit that shows more than is claimed ends with exit code 1.

    \b
    Examples:
      rado audit --epsilon 4
      rado audit --epsilon 4 --unit label
      rado audit --mechanism noisy-examples --epsilon 4 --runs 6000
      rado audit --mechanism feature-band --epsilon 1 --rows 1000 --json
    """
    from radoboost.audits import audit as attack
    from radoboost.report import describe_audit

    name = mechanism or "moments"
    protect = "x" if name == "feature-band" else None
    given = {"epsilon": None if name == "plain" else epsilon, "delta": delta, "feature": protect, "unit": unit}
    result = attack(_mechanism(name, given), n_rados=n_rados, n_examples=rows, runs=runs, progress=not as_json)
    print(json.dumps(result.to_dict(), indent=2) if as_json else describe_audit(result))
    if not result.holds:
        raise ArgumentError(f"the audit shows more than {name} claims: do not use it, and report this")


def _complete_experiment(incomplete: str) -> list[str]:
    from radoboost.reproduce import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


def _complete_domains(incomplete: str) -> list[str]:
    from radoboost.reproduce.domains import SOURCES

    *chosen, last = incomplete.split(",")
    return [",".join([*chosen, name]) for name in SOURCES if name.startswith(last) and name not in chosen]


@app.command()
@_in_one_line
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=_complete_experiment,
            help="table1, table3, feature-privacy, gaussian, theory, or all.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="RADO_DATA", help="The folder of the domains."),
    ] = None,
    domains: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", autocompletion=_complete_domains, help="Only these; all there are by default."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer folds and repeats, in about a minute.")] = False,
    seed: Annotated[int, typer.Option(help="Of folds, rados and draws.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="How many processes; all cores by default.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The folder of the results.")] = Path(
        "rado-reproduce"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run an experiment of the paper, and compare what comes out with what the paper says.

    Results go to OUT as JSON, CSV, PNG and SVG, and as one page, report.html. What is finished is kept there: after an
    interruption the same command goes on from it. Domains are CSV files with a header and a last column of -1 and 1, or
    the UCI archive's Twitter.data, SUSY.csv.gz and HIGGS.csv.gz; those that are not there are named.

    \b
    Examples:
      rado reproduce table1 --data domains
      rado reproduce table3 --domains banknote,ionosphere --quick
      rado reproduce all --data domains --jobs 4 -o results
    """
    from radoboost.reproduce import reproduce as run
    from radoboost.reproduce.pages import show as in_words

    chosen = tuple(name for name in domains.split(",") if name) if domains is not None else None
    try:
        documents = run(
            what, data=data, domains=chosen, quick=quick, seed=seed, jobs=jobs, output=output, progress=True, say=_say
        )
    except KeyboardInterrupt:
        _say("rado: interrupted; what is finished is kept, and the same command goes on from it")
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({"path": str(output), "experiments": documents}, indent=2, ensure_ascii=False))
        return
    print("\n\n".join(in_words(document["findings"]) for document in documents))
    _say(f"\nLook at {output / 'report.html'}")


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


def _mechanism(name: str | None, options: dict[str, Any]) -> Any:
    """The mechanism that the options describe, refusing options that it has not."""
    from radoboost.mechanisms import MECHANISMS

    if name is None:
        name = (
            "noisy-rados" if options["noise_std"] is not None else "plain" if options["epsilon"] is None else "moments"
        )
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    given = {key: value for key, value in options.items() if value is not None}
    known = {field.name: field for field in dataclasses.fields(MECHANISMS[name])}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            option = {"feature": "--protect", "noise_std": "--noise-std"}.get(key, f"--{key}")
            raise ArgumentError(f"the mechanism {name} has no {option}; leave it out, or choose another mechanism")
    for key, field in known.items():
        if field.default is dataclasses.MISSING and key not in given:
            option = "--protect COL" if key == "feature" else f"--{key}"
            raise ArgumentError(f"the mechanism {name} needs {option}")
    return MECHANISMS[name](**given)


def _signatures(support: str | None) -> Any:
    """The signature set of --support."""
    from radoboost import FixedSupport

    if support is None:
        return None
    try:
        return FixedSupport(int(support) if support.isdecimal() else float(support))
    except ValueError as error:
        if isinstance(error, RadoError):
            raise
        raise ArgumentError(f"--support must be a count, or a fraction such as 0.5; it is {support!r}") from None


def _default_output(source: str, ending: str) -> Path:
    """STEM.ending, here."""
    name = Path(source).name
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    if name in ("", "..") or any(c in name for c in "*?["):
        raise ArgumentError(f"no name for the result follows from {source!r}; say with -o where it should go")
    return Path(f"{name}.{ending}")


def _check_output(place: Path, sources: list[str]) -> None:
    """Refuse a bad place before the work, not after."""
    try:
        _check_place(place, sources)
    except (OSError, ValueError) as error:
        if isinstance(error, RadoError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"cannot write {str(place)[:80]}: {why}; choose another place") from None


def _check_place(place: Path, sources: list[str]) -> None:
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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before we began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal need not know every letter of a file's name
    app()


if __name__ == "__main__":
    main()
