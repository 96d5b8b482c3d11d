"""rado predict: the class of every row of a table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli.options import (
    ClusterOption,
    FormatOption,
    JsonFlag,
    QueryOption,
    SeparatorOption,
    TableArgument,
    TrustNetworkFlag,
    check_output,
    check_trust,
    chosen_table,
    default_output,
    say,
)
from radoboost.errors import ArgumentError
from radoboost.holder.runners.cluster import cluster_runner
from radoboost.learner.model import Model
from radoboost.learner.predict import PredictionSummary, predict_table
from radoboost.outputs import ForceFlag, refuse_overwrite
from radoboost.progress import Progress
from radoboost.tables.streams import is_query

if TYPE_CHECKING:
    from radoboost.learner.predict import PredictionSummary


_MOST_CLASSES = 10  # in a table of counts; of more, the most frequent confusions are listed
_WIDTH = 12  # of a class in such a table


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    table: TableArgument,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", metavar="COL", help="A column of true classes: count wrong predictions."),
    ] = None,
    query: QueryOption = None,
    form: FormatOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COL", help="A column, such as an id, to carry through as it is; repeatable."),
    ] = None,
    separator: SeparatorOption = None,
    decimal: Annotated[
        str | None,
        typer.Option("--decimal", metavar="MARK", help="The decimal mark of a CSV file; by default the model's."),
    ] = None,
    cluster: ClusterOption = None,
    trust_network: TrustNetworkFlag = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The scores, .csv or .parquet; STEM.scores.csv by default."),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
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

    chosen = chosen_table(table, query, form)
    check_trust(cluster, trust_network)
    default = default_output(table[0], "scores.csv")
    place = output or default
    check_output(place, [str(model), *table])
    refuse_overwrite(place, default, force)
    classifier = load_model(model)
    options = {"label": label, "keep": keep or (), "separator": separator, "decimal": decimal}
    with show_progress() as bar:
        predicted = predict_table_on(cluster, classifier, chosen, place, bar, trust_network=trust_network, **options)
    if words := predicted.filled.sentence():
        say(words)
    if words := predicted.unjudged.sentence(label or ""):
        say(words)
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


def predict_table_on(
    cluster: Any, model: Model, table: Any, place: Path, bar: Progress, *, trust_network: bool = False, **options: Any
) -> PredictionSummary:
    """As `predict_table`, by the workers of a cluster unless it is None: they read and predict parts of the table.

    The file is written here, part by part, and has the same bytes. Columns that are carried through are read here.
    """
    if cluster is None:
        return predict_table(model, table, place, bar, **options)
    if is_query(table):
        raise ArgumentError(
            "queries, streams and standard input come to this machine alone, and no worker of a cluster can read them; "
            "write the rows to files that all workers can read, or leave cluster out (--cluster)"
        )
    runner: Any = cluster_runner(cluster, table, bar, trust_network=trust_network)
    try:
        return predict_table(model, table, place, bar, spread=runner.map_parts, **options)
    finally:
        if runner is not cluster:
            runner.close()
