"""rado bounds: a template of what the data holder declares."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.shell import JsonFlag, check_output, default_output


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

    Private mechanisms take nothing from the table: the range of every column and the two classes must be known without
    it. The template has the columns and their storage types, and leaves the rest open.

    \b
    Examples:
      rado bounds patients.csv --label readmitted
      rado bounds patients.csv --label readmitted --from-data -o seen.bounds.json
    """
    from radoboost.holder.declared import bounds_template
    from radoboost.release import replacing

    place = output or default_output(table[0], "bounds.json")
    check_output(place, table)
    template = bounds_template(list(table), label=label, from_data=from_data)
    text = json.dumps(template, indent=2, ensure_ascii=False)
    with replacing(place) as draft:
        draft.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
        return
    print(f"wrote {place}: {len(template['columns']):,} columns")
    if from_data:
        print("filled in from the table: this reveals some of it, so private mechanisms refuse it")
    else:
        print("fill in low and high of every column, and the classes [negative, positive], from public knowledge")
