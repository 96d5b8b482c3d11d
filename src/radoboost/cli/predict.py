"""rado predict: the class of every row of a table."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.shell import (
    FormatOption,
    JsonFlag,
    QueryOption,
    SeparatorOption,
    TableArgument,
    check_output,
    chosen_table,
    default_output,
    say,
)


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
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The scores, .csv or .parquet; STEM.scores.csv by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict the class of every row of a table.

    Writes one row for each row of the table, in the same order: score, probability of the positive class, predicted
    class, after the columns of --keep. Columns that the model does not know are not read. Missing values are filled
    and never stop it, nor do cells that a model with a schema cannot read; how many, and how many values of a category
    were new to the model, is said on stderr.

    \b
    Examples:
      rado predict patients.model.json new-patients.csv --keep patient_id
      rado predict patients.model.json test.parquet --label readmitted -o test.scores.parquet
      cat new-patients.csv | rado predict patients.model.json - -o new-patients.scores.csv
    """
    from radoboost.learner.model import load_model
    from radoboost.learner.predict import predict_table
    from radoboost.progress import show_progress

    chosen = chosen_table(table, query, form)
    place = output or default_output(table[0], "scores.csv")
    check_output(place, [str(model), *table])
    classifier = load_model(model)
    with show_progress() as bar:
        predicted = predict_table(
            classifier, chosen, place, bar, label=label, keep=keep or (), separator=separator, decimal=decimal
        )
    if words := predicted.filled.sentence():
        say(words)
    negative, positive = classifier.classes
    if as_json:
        print(json.dumps({"path": str(place), **predicted.to_dict()}, indent=2, ensure_ascii=False))
        return
    print(f"wrote {place}")
    others = predicted.n_rows - predicted.n_positive
    print(
        f"{predicted.n_rows:,} rows: {predicted.n_positive:,} predicted {positive!r}, {others:,} predicted {negative!r}"
    )
    if predicted.n_wrong is not None:
        print(f"{predicted.n_wrong:,} of them wrong: an error of {100 * predicted.n_wrong / predicted.n_rows:.2f} %")
