"""rado predict: the class of every row of a table."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from radoboost.cli import options
from radoboost.cli.ledger import chosen_ledger
from radoboost.cli.options import argument, option, output_option
from radoboost.errors import ArgumentError, on_failure
from radoboost.holder.runners.cluster import cluster_runner
from radoboost.learner.model import Model
from radoboost.learner.predict import PredictionSummary, predict_table
from radoboost.progress import Progress
from radoboost.tables.streams import is_query_or_stream

if TYPE_CHECKING:
    from radoboost.private_score import Score


_MOST_CLASSES = 10  # in a table of counts; of more, the most frequent confusions are listed
_WIDTH = 12  # of a class in such a table


def predict(
    model: Annotated[Path, argument("MODEL", "A model file, made by rado learn.")],
    table: options.TableArgument,
    label: Annotated[
        str | None, option("-l, --label COL", "A column of true classes: count wrong predictions.")
    ] = None,
    keep: Annotated[
        list[str] | None, option("--keep COL", "A column, such as an id, to carry through as it is; repeatable.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "How a CSV file is written, if not as its header and the model say: separator=';' (or tab), decimal=,",
        ),
    ] = None,
    cluster: options.ClusterOption = None,
    trust_network: options.TrustNetworkFlag = False,
    output: Annotated[Path | None, output_option("The scores, .csv or .parquet; STEM.scores.csv by default.")] = None,
    force: options.ForceFlag = False,
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
    from radoboost.progress import show_progress

    chosen = options.chosen_table(table)
    options.check_trust_network_option(cluster, trust_network)
    place = options.chosen_output(
        output, options.default_output_path(table[0], "scores.csv"), [str(model), *table], force
    )
    classifier = load_model(model)
    marks = options.parameters_of(predict_table, "separator", "decimal")
    reading = {"label": label, "keep": keep or (), **options.chosen_settings(settings, marks, "a CSV file")}
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
    model: Annotated[Path, argument("MODEL", "A model file, made by rado learn.")],
    table: options.TableArgument,
    epsilon: Annotated[float, option("--epsilon", "The privacy loss to allow.")],
    label: Annotated[str, option("-l, --label COL", "The column of true classes.")],
    delta: options.DeltaOption = None,
    ledger: Annotated[
        list[str] | None,
        option(
            "--ledger FILE[:TABLE]",
            "Book the score on this table's ledger first; repeat it with the ledger of the table that the model "
            "was learned from, where people are in both.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "confidence=0.95 of the interval, which covers the noise; threads=1; unit=record, to say that each "
            "row is another person; repeat it.",
        ),
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

    books = [chosen_ledger(place) for place in ledger or ()]
    known = options.parameters_of(score_table, "confidence", "threads", "unit")
    values = options.chosen_settings(settings, known, "a score") | ({} if delta is None else {"delta": delta})
    with options.keep_warnings_for_later() as notices:
        result = score_table(
            model, options.chosen_table(table), label=label, epsilon=epsilon,
            ledger=[book for book in books if book], progress=True, **values,
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
    model: Annotated[Path, argument("MODEL", "A model file, made by rado learn.")],
    output: Annotated[
        Path | None,
        output_option(
            "The program, whose ending says what it is: .onnx (double precision), .py (one file without dependencies) "
            "or .sql (DuckDB and PostgreSQL)."
        ),
    ] = None,
    table: Annotated[
        str | None, option("--table NAME", "For SQL: the table to read, perhaps SCHEMA.NAME; else input.")
    ] = None,
    keep: Annotated[
        list[str] | None, option("--keep COL", "For SQL: a column, such as an id, to carry along; repeatable.")
    ] = None,
    force: options.ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Write a model as a program that runs without radoboost.

    It takes raw columns, as rado predict does: gaps, categories, dates and feature maps are part of it. Classes and
    probabilities are the same. What the model's release promised stands in it, in words.

    \b
    Examples:
      rado export patients.model.json -o patients.onnx
      rado export patients.model.json -o patients.py && python patients.py new-patients.csv > predictions.csv
      rado export patients.model.json -o patients.sql --table clinic.patients --keep patient_id
    """
    from radoboost.learner.export import FORMATS, summary_of_exported_model
    from radoboost.learner.export import export as exported
    from radoboost.learner.model import load_model
    from radoboost.release.release import atomic_write

    suffix = "" if output is None else output.suffix.lower()
    to = next((form for form, ending in FORMATS.items() if suffix == ending), None)
    if to is None:
        endings = ", ".join(f"-o {default_name_of_program(model.name, form)}" for form in FORMATS)
        raise ArgumentError(f"the ending of -o says what to export to; give one of {endings}")
    place = options.chosen_output(output, default_name_of_program(model.name, to), [str(model)], force)
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


def default_name_of_program(model: str, form: str) -> Path:
    """What the program of a model is called by default: STEM.onnx, STEM.py or STEM.sql."""
    from radoboost.learner.export import FORMATS

    stem = model.removesuffix(".json").removesuffix(".model")
    return options.default_output_path(stem, FORMATS[form].removeprefix("."))
