"""rado check: the holder's own look at a table beside a declaration."""

import json
from typing import Annotated

import typer

from radoboost.cli.options import (
    BoundsOption,
    ClassesOption,
    ClassOption,
    DecimalOption,
    FormatOption,
    JsonFlag,
    LabelOption,
    QueryOption,
    SchemaOption,
    SeparatorOption,
    TableArgument,
    chosen_classes,
    chosen_table,
)


def check(
    table: TableArgument,
    schema: SchemaOption = None,
    bounds: BoundsOption = None,
    label: LabelOption = None,
    query: QueryOption = None,
    form: FormatOption = None,
    classes: ClassesOption = None,
    class_: ClassOption = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", metavar="COL", help="A column to use; repeat for more.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COL", help="A column to leave out; repeat for more.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(metavar="COL", help="The column that says whose row it is. Needs --max-rows.")
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(metavar="K", help="How many rows of each person contribute at most.")
    ] = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Count which rows would contribute to a private release, before anything is spent.

    Prints how many rows contribute, how many rows each column alone spoils, how many values lie beyond bounds, and, of
    more than two classes, how many rows each has.
    These counts are exact and protected by nothing: they are for the data holder alone. They show that something is
    wrong, such as a misspelt class or a column of text. Correct it by what is documented about the table: bounds,
    classes or columns that were chosen or corrected by these counts are outside the promise.

    \b
    Examples:
      rado check patients.csv --schema patients.schema.json
      rado check patients.csv --bounds private --label readmitted --classes no yes --json
      rado check visits.csv --schema visits.schema.json --person patient_id --max-rows 4
    """
    from radoboost.holder.table_check import OUTSIDE, check_table

    chosen = chosen_table(table, query, form)
    result = check_table(
        chosen, label=label, classes=chosen_classes(classes, class_, table), features=feature or None, drop=drop or (),
        schema=schema, bounds=bounds, person=person, max_rows=max_rows, separator=separator, decimal=decimal,
        progress=True,
    )  # fmt: skip
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"for the data holder alone: {OUTSIDE}")
    for line in result.as_text():
        print(line)
