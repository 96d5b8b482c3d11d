"""rado learn: a release, or several of different holders, become a model."""

import shlex
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from radoboost.cli import options
from radoboost.cli.options import argument, option, output_option
from radoboost.errors import ArgumentError, OutputError, RadoError

if TYPE_CHECKING:
    from radoboost.report.model_report import ModelReport

_SETTINGS = (
    "n_rounds", "weak", "penalty", "strength", "stop", "kappa", "update", "clamp", "keep", "random_state"
)  # fmt: skip
_BY_DEFAULT = "moments"
_ASSUMED = (
    "rado: the epsilon takes each release to be of another holder's table, and is for one who is in one of them; where "
    "all are of one holder's table, add --one-holder: then they compose"
)
_LEARNERS = {_BY_DEFAULT: "MomentsClassifier", "boost": "RadoBoostClassifier"}


def _complete_setting(incomplete: str) -> list[str]:
    return [f"{name}=" for name in _settings_of_boosting() if name.startswith(incomplete)]


def _settings_of_boosting() -> dict[str, Any]:
    import radoboost as rb

    return options.parameters_of(rb.RadoBoostClassifier, *_SETTINGS)


def learn(
    releases: Annotated[list[Path], argument("RELEASE...", "A release file; or those of moments of several holders.")],
    learner: Annotated[
        str, option("--learner", "moments, or boost (RadoBoost).", complete=options.complete_from_words(*_LEARNERS))
    ] = _BY_DEFAULT,
    settings: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "A setting of boosting, such as n_rounds=200, weak=median, penalty=scores (lasso, ridge), "
            "strength=0.01, stop=held-out or random_state=7; repeat it. --set help lists all.",
            complete=_complete_setting,
        ),
    ] = None,
    prior: Annotated[
        list[str] | None,
        option(
            "--prior [CLASS=]SHARE",
            "The share of the positive class, or of a class, where predictions are made, if it is another than in "
            "the table; repeat for more classes.",
        ),
    ] = None,
    one_holder: Annotated[
        bool, option("--one-holder", "Several releases are of one holder's table: their epsilons compose.")
    ] = False,
    output: Annotated[
        Path | None, output_option("The model; STEM.model.json by default, of several average.model.json.")
    ] = None,
    report: Annotated[
        Path | None,
        option(
            "--report PAGE",
            "A page that looks inside: coefficients with intervals, effects, the error to expect, what more rados "
            "would bring, and all learners compared.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        option(
            "--table FILE",
            "Rows of known classes for the page to measure on, exactly; files, a pattern, or - as for rado "
            "predict. Repeatable.",
        ),
    ] = None,
    label: Annotated[str | None, option("-l, --label COL", "The column of true classes of --table.")] = None,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Learn a classifier from a release alone.

    It is linear in the columns of the release, which may go beyond those of the table. From private releases of
    several holders, of the mechanism moments and of the same columns, it is the average of theirs, weighted by what
    each can tell; plain ones are merged first: rado merge.

    \b
    Examples:
      rado learn patients.rado.parquet
      rado learn patients.rado.parquet --report patients.html
      rado learn patients.rado.parquet --report patients.html --table test.csv --label readmitted
      rado learn patients.rado.parquet --learner boost --set penalty=scores --set stop=held-out
      rado learn patients.rado.parquet --prior yes=0.02
      rado learn north.rado.parquet south.rado.parquet west.rado.parquet -o joint.model.json
    """
    import radoboost as rb
    from radoboost.release.parties import AVERAGED
    from radoboost.report.describe import describe_measured_errors

    shell = chosen_learner(learner, settings, prior)
    sources = [str(path) for path in releases]
    _check_rows_for_report(report, table, label)
    if one_holder and len(sources) == 1:
        raise ArgumentError("--one-holder is about several releases; give them, or leave it out")
    default = options.default_output_path(sources[0], "model.json") if len(sources) == 1 else Path("average.model.json")
    read = [*sources, *(word for word in table or () if word != "-")]
    place = options.chosen_output(output, default, read, force)
    if report is not None:
        options.check_page_path(report, read, "--report", place, force)
    if table and label is not None:
        _check_label_for_report(table, label)
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", rb.NoiseWarning)
        given = releases[0] if len(releases) == 1 else releases
        model = shell.fit_rados(given, one_holder=one_holder).model_
    took = time.monotonic() - start
    model.save(place)
    if model.statement.holders is not None and model.statement.holders.how == AVERAGED:
        options.say_on_stderr(_ASSUMED)
    for notice in notices:
        options.say_on_stderr(f"rado: {notice.message}")
    if model.learner.get("used_features") == []:
        options.say_on_stderr(
            "rado: no column has a weight, so all rows have one score; a smaller one lets columns in: --set strength=S"
        )
    heading, inside = [f"wrote {place}"], {}
    if report is not None:
        source = shell.release_ if len(releases) == 1 else None
        words = [
            *sources,
            *learner_words(learner, settings, prior, one_holder),
            *([] if output is None else ["-o", str(output)]),
        ]
        seen = _write_learn_report(model, source, place, report, words, table, label, took)
        heading += describe_measured_errors(seen.reliability)
        inside = {"inside": seen.to_dict()}
    if "drawn_rados" in model.learner:
        options.say_on_stderr(
            f"rado: the release has no rados, so {model.learner['drawn_rados']:,} were drawn from its moments"
        )
    options.print_model(model, place, as_json, "\n".join(heading), inside)


def chosen_learner(learner: str, settings: Sequence[str] | None = None, prior: list[str] | None = None) -> Any:
    """The classifier, not yet fitted, that the options of `rado learn` ask for."""
    import radoboost as rb

    if learner not in _LEARNERS:
        raise ArgumentError(f"there is no learner {learner!r}; choose one of {', '.join(_LEARNERS)}")
    values = options.chosen_settings(settings, _settings_of_boosting(), "boosting")
    if values and learner != "boost":
        raise ArgumentError("settings are for boosting; add --learner boost")
    if "strength" in values and "penalty" not in values:
        raise ArgumentError("strength is that of a penalty; add --set penalty=lasso, ridge or scores")
    return getattr(rb, _LEARNERS[learner])(**values, prior=_read_class_prior(prior))


def _read_class_prior(given: list[str] | None) -> float | dict[str, float] | None:
    if not given:
        return None
    try:
        if len(given) == 1 and "=" not in given[0]:
            return float(given[0])
        pairs = [entry.rpartition("=") for entry in given]
        shares = {name: float(share) for name, _, share in pairs if name}
    except ValueError:
        shares = {}
    if len(shares) != len(given):
        raise ArgumentError(f"--prior takes a share, such as 0.1, or CLASS=SHARE; it got {', '.join(given)}")
    return shares


def _check_rows_for_report(report: Path | None, table: list[str] | None, label: str | None) -> None:
    """Refuse rows to measure on without a page, and one of --table and --label without the other."""
    if (table or label) and report is None:
        raise ArgumentError("--table and --label are for the page of --report; add it, or use rado predict --label")
    if bool(table) != bool(label):
        raise ArgumentError("give both --table FILE and --label COL, the column of true classes, or neither")


def _check_label_for_report(table: list[str], label: str) -> None:
    """Refuse a table without the column of classes before anything is learned; standard input cannot be read twice."""
    from radoboost.tables import column_storage_of_table
    from radoboost.tables.column_selection import list_names

    if "-" in table:
        return
    names = list(column_storage_of_table(options.chosen_table(table)))
    if not any(label in name for name in names):  # in one, if another sign than a comma separates them
        raise ArgumentError(
            f"{options.shown_table_name(table)} has no column {label!r} for the label; "
            f"its columns are {list_names(names)}"
        )


def learner_words(
    learner: str, settings: Sequence[str] | None, prior: Sequence[str] | None, one_holder: bool
) -> list[str]:
    """The words of a command that choose a learner, but for those that say what holds anyway."""
    words = [] if learner == _BY_DEFAULT else ["--learner", learner]
    for name, values in (("--set", settings), ("--prior", prior)):
        words += [word for value in values or () for word in (name, value)]
    return words + (["--one-holder"] if one_holder else [])


def _write_learn_report(
    model: Any,
    release: Any,
    place: Path,
    report: Path,
    words: list[str],
    table: list[str] | None,
    label: str | None,
    took: float,
) -> "ModelReport":
    """The page on a model that is saved, and what it shows as data; a failure says that the model is there.

    `words` are those of the command that made the model, which the page shows.
    """
    from radoboost.progress import show_progress
    from radoboost.report.model_report import model_report, write_model_report
    from radoboost.tables.urls import mask_passwords

    words = ["rado", "learn", *words, "--report", str(report)]
    for word in table or ():
        words += ["--table", mask_passwords(word)]
    words += [] if label is None else ["--label", label]
    try:
        rows = None if not table else options.chosen_table(table)
        with show_progress("steps") as bar:
            inside = model_report(release, model=model, table=rows, label=label, progress=bar)
        inside.seconds["learned"] += took
        write_model_report(inside, report, name=place.name, command=shlex.join(words))
    except RadoError as error:
        raise OutputError(f"{error}; the model itself is in {place}") from None
    except KeyboardInterrupt:
        options.say_on_stderr(f"rado: there is no page, but the model itself is in {place}")
        raise
    options.say_on_stderr(f"wrote {report}")
    return inside
