"""rado predict: the class of every row of a table."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli import options
from radoboost.cli.ledger import chosen_ledger
from radoboost.errors import ArgumentError, on_failure
from radoboost.holder.runners.cluster import cluster_runner
from radoboost.learner.model import Model
from radoboost.learner.predict import PredictionSummary, predict_table
from radoboost.outputs import ForceFlag
from radoboost.progress import Progress
from radoboost.tables.streams import is_query_or_stream

if TYPE_CHECKING:
    from radoboost.learner.predict import PredictionSummary
    from radoboost.private_score import Score


_MOST_CLASSES = 10  # in a table of counts; of more, the most frequent confusions are listed
_WIDTH = 12  # of a class in such a table


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    table: options.TableArgument,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", metavar="COL", help="A column of true classes: count wrong predictions."),
    ] = None,
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COL", help="A column, such as an id, to carry through as it is; repeatable."),
    ] = None,
    separator: options.SeparatorOption = None,
    decimal: Annotated[
        str | None,
        typer.Option("--decimal", metavar="MARK", help="The decimal mark of a CSV file; by default the model's."),
    ] = None,
    cluster: options.ClusterOption = None,
    trust_network: options.TrustNetworkFlag = False,
    output: Annotated[
        Path | None, options.output_option("The scores, .csv or .parquet; STEM.scores.csv by default.")
    ] = None,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Predict the class of every row of a table.

    Writes one row for each row of the table, in the same order: score, probability of the positive class, predicted
    class, after the columns of --keep. Of more than two classes: the predicted class, then the probability of each, as
    probability:NAME. Columns that the model does not know are not read. Missing values are filled
    and never stop it, nor do cells that a model with a schema cannot read; how many, and how many values of a category
    were new to the model, is said on stderr. With --label, rows without a label, or with one that is no class of the
    model, are predicted too, and left out of the error.

    \b
    Examples:
      rado predict patients.model.json new-patients.csv --keep patient_id
      rado predict patients.model.json test.parquet --label readmitted -o test.scores.parquet
      rado predict visits.model.json 'visits/*.parquet' --cluster tls://host:8786 -o visits.scores.parquet
      cat new-patients.csv | rado predict patients.model.json - -o new-patients.scores.csv
    """
    from radoboost.learner.model import load_model

    pass
    from radoboost.progress import show_progress

    chosen = options.chosen_table(table, query, form)
    options.check_trust_network_option(cluster, trust_network)
    place = options.chosen_output(
        output, options.default_output_path(table[0], "scores.csv"), [str(model), *table], force
    )
    classifier = load_model(model)
    reading = {"label": label, "keep": keep or (), "separator": separator, "decimal": decimal}
    with show_progress() as bar:
        predicted = predict_on_cluster(cluster, classifier, chosen, place, bar, trust_network=trust_network, **reading)
    if words := predicted.filled.sentence():
        options.say_on_stderr(words)
    if words := predicted.unjudged.sentence(label or ""):
        options.say_on_stderr(words)
    if as_json:
        print(json.dumps({"path": str(place), **predicted.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(f"wrote {place}")
    counts = list(zip(predicted.classes, predicted.counts.tolist(), strict=True))
    if len(counts) == 2:
        counts.reverse()  # the positive class first
    print(f"{predicted.n_rows:,} rows: {', '.join(f'{count:,} predicted {value!r}' for value, count in counts)}")
    if predicted.n_judged:
        them = "them" if predicted.n_judged == predicted.n_rows else f"{predicted.n_judged:,} that have a known label"
        print(f"{predicted.n_wrong:,} of {them} wrong: an error of {100 * predicted.error:.2f} %")
    for line in confusion_lines(predicted):
        print(line)


def confusion_lines(predicted: "PredictionSummary") -> list[str]:
    """Rows by their true and their predicted class; of many classes, those that are taken for others most often."""
    import numpy as np

    if predicted.confusion is None or len(predicted.classes) == 2:
        return []
    names = [name if len(name) < _WIDTH else name[: _WIDTH - 4] + "..." for name in map(str, predicted.classes)]
    if len(names) <= _MOST_CLASSES:
        rows = zip(names, predicted.confusion.tolist(), strict=True)
        head = f"{'true class':<{_WIDTH}}" + "".join(f"{name:>{_WIDTH}}" for name in names) + "   (predicted)"
        return [head, *(f"{name:<{_WIDTH}}" + "".join(f"{count:>{_WIDTH},}" for count in row) for name, row in rows)]
    wrong = predicted.confusion - np.diag(np.diag(predicted.confusion))
    order = [int(place) for place in np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CLASSES]]
    pairs = [(place // len(names), place % len(names)) for place in order]
    return [
        f"{predicted.classes[true]!r} taken for {predicted.classes[taken]!r}: {wrong[true, taken]:,} rows"
        for true, taken in pairs
        if wrong[true, taken]
    ]


# ---- Predictions of a whole table, on this machine or on a cluster: the learner's work, by the runners of the holder.


def predict_on_cluster(
    cluster: Any, model: Model, table: Any, place: Path, bar: Progress, *, trust_network: bool = False, **reading: Any
) -> PredictionSummary:
    """As `predict_table`, by the workers of a cluster unless it is None: they read and predict parts of the table.

    The file is written here, part by part, and has the same bytes. Columns that are carried through are read here.
    """
    if cluster is None:
        return predict_table(model, table, place, bar, **reading)
    if is_query_or_stream(table):
        raise ArgumentError(
            "queries, streams and standard input come to this machine alone, and no worker of a cluster can read them; "
            "write the rows to files that all workers can read, or leave cluster out (--cluster)"
        )
    runner: Any = cluster_runner(cluster, table, bar, trust_network=trust_network)
    try:
        return predict_table(model, table, place, bar, spread=runner.map_parts, **reading)
    finally:
        if runner is not cluster:
            runner.close()


# ---- rado score: a private test error.


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    table: options.TableArgument,
    epsilon: Annotated[float, typer.Option(help="The privacy loss to allow.")],
    label: Annotated[str, typer.Option("--label", "-l", metavar="COL", help="The column of true classes.")],
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    delta: Annotated[float, typer.Option(help="The delta that goes with epsilon.")] = 1e-6,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Book the score on this table's ledger first; repeat it with the ledger of the table that the model "
            "was learned from, where people are in both.",
        ),
    ] = None,
    ledger_table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="NAME", help="Whose total, for each --ledger of several tables, in their order."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the interval, which covers the noise.")] = 0.95,
    threads: options.ThreadsOption = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="record", help="Say that each row is another person, which nobody is reminded of then."),
    ] = None,
    as_json: options.JsonFlag = False,
) -> None:
    """Score a model on a table privately: noisy numbers of errors and hits, for one record added or removed.

    Each row is predicted on its own; one of another class counts as neither, and so does one with a missing value,
    unless the model has a schema, which fills it. Models may be chosen by such scores, if they are booked; choosing by
    exact ones has no finite epsilon.

    \b
    Examples:
      rado score patients.model.json test.csv --label readmitted --epsilon 0.5
      rado score patients.model.json test.csv -l readmitted --epsilon 0.5 --ledger test.ledger --ledger patients.ledger
    """
    from radoboost.private_score import score as score_table

    places = ledger or []
    names: list[str] | list[None] = ledger_table or [None] * len(places)
    if len(names) != len(places):
        raise ArgumentError("give one --table for each --ledger, in the same order, or none")
    books = [chosen_ledger(place, name) for place, name in zip(places, names, strict=True)]
    chosen = options.chosen_table(table, query, form)
    with options.keep_warnings_for_later() as notices:
        result = score_table(
            model, chosen, label=label, epsilon=epsilon, delta=delta, ledger=[book for book in books if book],
            confidence=confidence, threads=threads, progress=True, unit=unit,
        )  # fmt: skip
    with on_failure(result.unless_shown):
        for warning in notices:
            options.say_on_stderr(f"rado: {warning}")
        print(
            json.dumps(result.to_dict(), indent=2) if as_json else _private_score_text(result, bool(books)), flush=True
        )


def _private_score_text(result: "Score", booked: bool) -> str:
    from radoboost.private_score import COVERS
    from radoboost.release.release import rounded_up_text

    low, high = result.interval
    lines = [
        f"errors       {result.errors:,.1f}, give or take {result.noise_std:.3g}",
        f"hits         {result.hits:,.1f}, give or take {result.noise_std:.3g}",
        f"error        {100 * result.error:.2f} %, from {100 * low:.2f} % to {100 * high:.2f} % at confidence "
        f"{100 * result.confidence:g} %",
        f"covers       {COVERS}",
        f"cost         epsilon {rounded_up_text(result.epsilon, 4)} at delta {result.delta:g}, for {result.neighbours} "
        "as "
        "neighbours; " + (f"booked {len(result.bookings)} times" if booked else "on no ledger, so nothing counts it"),
        f"beware       {result.not_covered}",
    ]
    return "\n".join(textwrap.fill(line, 100, subsequent_indent=" " * 13) for line in lines)


# ---- rado export: a model in a form that runs elsewhere.


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORM",
            autocompletion=options.complete_from_words("onnx", "python", "sql"),
            help="onnx (double precision), python (one file without dependencies) or sql (DuckDB and PostgreSQL).",
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="For SQL: the table to read, perhaps SCHEMA.NAME; else input."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COL", help="For SQL: a column, such as an id, to carry along; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, options.output_option("The program; STEM.onnx, STEM.py or STEM.sql by default.")
    ] = None,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Write a model as a program that runs without radoboost.

    It takes raw columns, as rado predict does: gaps, categories, dates and feature maps are part of it. Classes and
    probabilities are the same. What the model's release promised stands in it, in words.

    \b
    Examples:
      rado export patients.model.json --to onnx
      rado export patients.model.json --to python && python patients.py new-patients.csv > predictions.csv
      rado export patients.model.json --to sql --table clinic.patients --keep patient_id
    """
    from radoboost.learner.export import FORMATS, summary_of_exported_model
    from radoboost.learner.export import export as exported
    from radoboost.learner.model import load_model
    from radoboost.release.release import atomic_write

    if to not in FORMATS:
        raise ArgumentError(f"there is no form {to!r} to export to; choose one of {', '.join(FORMATS)}")
    stem = model.name.removesuffix(".json").removesuffix(".model")
    place = options.chosen_output(
        output, options.default_output_path(stem, FORMATS[to].removeprefix(".")), [str(model)], force
    )
    classifier = load_model(model)
    content = exported(classifier, to, table=table, keep=keep or ())
    data = content if isinstance(content, bytes) else content.encode()
    with atomic_write(place) as draft:
        draft.write_bytes(data)
    words = summary_of_exported_model(classifier)
    if as_json:
        document = {"path": str(place), "form": to, "bytes": len(data), **words}
        lists = {name: json.loads(words[name]) for name in ("classes", "features")}
        print(json.dumps(document | lists, indent=2, ensure_ascii=False))
        return
    print(f"wrote {place}: {len(data):,} bytes of {to}, from {len(classifier.feature_names):,} raw columns")
    print(f"  {words['privacy']}")
