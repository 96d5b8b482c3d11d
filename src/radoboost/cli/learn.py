"""rado learn: a release, or several of different holders, become a model."""

import shlex
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli.keeping import MODEL, ForceFlag, keep_files
from radoboost.cli.shell import JsonFlag, check_output, check_page, default_output, print_model, say
from radoboost.errors import ArgumentError, OutputError, RadoError

_LEARNERS = {"moments": "MomentsClassifier", "boost": "RadoBoostClassifier"}


def _complete_learner(incomplete: str) -> list[str]:
    return [name for name in _LEARNERS if name.startswith(incomplete)]


def _complete_weak(incomplete: str) -> list[str]:
    return [name for name in ("strongest", "median") if name.startswith(incomplete)]


def learn(
    releases: Annotated[
        list[Path],
        typer.Argument(metavar="RELEASE...", help="A release file; or those of moments of several holders."),
    ],
    learner: Annotated[
        str, typer.Option(autocompletion=_complete_learner, help="moments, or boost (RadoBoost).")
    ] = "moments",
    rounds: Annotated[int | None, typer.Option(help="Rounds of boosting; 1000 by default.")] = None,
    weak: Annotated[
        str | None,
        typer.Option(autocompletion=_complete_weak, help="Which feature boosting takes: strongest or median."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="K", help="Makes boosting reproducible where it draws rados from released moments."),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CLASS=]SHARE",
            help="The share of the positive class, or of a class, where predictions are made, if it is another than in "
            "the table; repeat for more classes.",
        ),
    ] = None,
    one_holder: Annotated[
        bool,
        typer.Option("--one-holder", help="Several releases are of one holder's table: their epsilons compose."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The model; STEM.model.json by default, of several average.model.json.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE", help="A page that shows what the model does: effects of columns, pairs, the rest."
        ),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Learn a classifier from a release alone.

    It is linear in the columns of the release, which may go beyond those of the table. From private releases of
    several holders, of the mechanism moments and of the same columns, it is the average of theirs, weighted by what
    each can tell; plain ones are merged first: rado merge.

    \b
    Examples:
      rado learn patients.rado.parquet
      rado learn patients.rado.parquet --report patients.html
      rado learn patients.rado.parquet --learner boost --rounds 200 -o boosted.model.json
      rado learn patients.rado.parquet --prior 0.02
      rado learn patients.rado.parquet --prior yes=0.02
      rado learn north.rado.parquet south.rado.parquet west.rado.parquet -o joint.model.json
    """
    import radoboost as rb

    if learner not in _LEARNERS:
        raise ArgumentError(f"there is no learner {learner!r}; choose one of {', '.join(_LEARNERS)}")
    chosen: dict[str, Any] = {"n_rounds": rounds, "weak": weak, "random_state": seed}
    options = {name: value for name, value in chosen.items() if value is not None}
    if options and learner != "boost":
        raise ArgumentError("--rounds, --weak and --seed are for boosting; add --learner boost")
    sources = [str(path) for path in releases]
    if one_holder and len(sources) == 1:
        raise ArgumentError("--one-holder is about several releases; give them, or leave it out")
    place = output or (default_output(sources[0], "model.json") if len(sources) == 1 else Path("average.model.json"))
    check_output(place, sources)
    keep_files(place, MODEL, force)
    if report is not None:
        check_page(report, sources, "--report", place, force)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", rb.NoiseWarning)
        shell = getattr(rb, _LEARNERS[learner])(**options, prior=_read_prior(prior))
        given = releases[0] if len(releases) == 1 else releases
        model = shell.fit_rados(given, one_holder=one_holder).model_
    model.save(place)
    for notice in notices:
        say(f"rado: {notice.message}")
    if report is not None:
        _write_report(model, place, report, shlex.join(["rado", "learn", *sources]))
    if "drawn_rados" in model.learner:
        say(f"rado: the release has no rados, so {model.learner['drawn_rados']:,} were drawn from its moments")
    print_model(model, place, as_json, f"wrote {place}")


def _read_prior(given: list[str] | None) -> float | dict[str, float] | None:
    """One share, or shares by class."""
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


def _write_report(model: Any, place: Path, report: Path, command: str) -> None:
    """The page on a model that is saved; a failure says that the model is there."""
    from radoboost.findings.explained import write_page

    try:
        write_page(model, report, name=place.name, command=command)
    except RadoError as error:
        raise OutputError(f"{error}; the model itself is in {place}") from None
    say(f"wrote {report}")
