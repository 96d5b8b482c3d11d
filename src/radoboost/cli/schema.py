"""rado schema: what the columns of a table mean, as a file to fill in."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radoboost.cli import options
from radoboost.errors import ArgumentError
from radoboost.outputs import ForceFlag

if TYPE_CHECKING:
    from radoboost.tables.schema import Schema


def schema(
    table: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help=options.TABLE_HELP),
    ] = None,
    label: options.LabelOption = None,
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    from_data: Annotated[
        bool,
        typer.Option(
            "--from-data", help="Propose everything from the table, for plain releases; promises refuse such a schema."
        ),
    ] = False,
    classes: options.ClassesOption = None,
    class_: options.ClassOption = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=JSON",
            help='What a column is, as the file has it: \'age={"kind": "number", "low": 0, "high": 120}\'; repeat it.',
        ),
    ] = None,
    separator: options.SeparatorOption = None,
    decimal: options.DecimalOption = None,
    corrected: Annotated[
        list[str] | None,
        typer.Option(
            "--corrected",
            metavar="COL",
            help="A column that was edited after exact counts of the table were seen: statements will say so; repeat.",
        ),
    ] = None,
    editor: Annotated[
        bool,
        typer.Option("--editor", help="Only print the JSON Schema of such files, for editors; no table is needed."),
    ] = False,
    output: Annotated[Path | None, options.output_option("The schema; STEM.schema.json by default.")] = None,
    force: ForceFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Write a schema of a table: what each column is, to be completed from public knowledge.

    A column is a number (low, high, fill), a category (values), a date (low, high), or a text or an id, which are left
    out. Without --from-data no value is looked at: kinds are guessed from names and storage types, and everything else
    is open. A promise about records needs all of it decided, and from public knowledge; plain releases take the rest
    from the table. Write "gaps": true where values may be missing, and "other": true where a category may have values
    that are not listed.

    \b
    Examples:
      rado schema patients.csv --label readmitted
      rado schema patients.csv --label readmitted --from-data -o seen.schema.json
      rado schema patients.csv --label readmitted --column 'age={"kind": "number", "low": 0, "high": 120}'
      rado schema --editor > radoboost-schema.json
    """
    if editor:
        from radoboost.tables.schema import json_schema

        print(json.dumps(json_schema(), indent=2))
        return
    if not table:
        raise ArgumentError("name a table: rado schema TABLE --label COL")
    from radoboost.holder.schema_inference import infer_schema, schema_template
    from radoboost.release.release import atomic_write

    chosen = options.chosen_table(table, query, form)
    place = options.chosen_output(output, options.default_output_path(table[0], "schema.json"), table, force)
    proposal = infer_schema(chosen, label, separator=separator) if from_data else None
    first = schema_template(chosen, label, separator) if proposal is None else proposal.schema
    result = apply_schema_decisions(
        first,
        columns_of_schema_options(column or (), first),
        options.chosen_classes(classes, class_, table),
        decimal,
        corrected or (),
    )
    with atomic_write(place) as draft:
        draft.write_text(schema_as_text(result), encoding="utf-8")
    if as_json:
        print(schema_as_text(result), end="")
        return
    print(f"wrote {place}")
    for line in _schema_table_lines(result):
        print(f"  {line}")
    if proposal is None:
        print(_open_schema_questions(result))
        return
    print("proposed from the table, which tells some of it, so promises about records refuse it:")
    from radoboost.tables.labels import many_classes_advice

    advice = many_classes_advice(label or "", result.classes or ())
    for line in [*proposal.as_text(), *([advice] if advice else [])]:
        print(f"  {' '.join(line.split())}")


def schema_as_text(schema: "Schema") -> str:
    return json.dumps(schema.to_dict(), indent=2, ensure_ascii=False) + "\n"


def apply_schema_decisions(
    schema: "Schema",
    columns: Mapping[str, Any],
    classes: Sequence[Any] | None = None,
    decimal: str | None = None,
    corrected: Sequence[str] = (),
) -> "Schema":
    """A schema with what somebody decided of it: columns as JSON data, classes, and the decimal mark of a CSV file.

    `corrected` are columns that were edited after exact counts of the table were seen.
    """
    from radoboost.tables.schema import Schema

    document = schema.to_dict()
    # What is decided beside a look at the table may follow from it.
    document["columns"] |= {
        name: {**entry, "inferred": True} if schema.columns[name].inferred and isinstance(entry, dict) else entry
        for name, entry in columns.items()
    }
    if classes is not None:
        document["classes"] = list(classes)
    if decimal is not None:
        document["decimal"] = decimal
    if corrected:
        document["corrected"] = list(corrected)
    return Schema.from_dict(document)


def columns_of_schema_options(words: Sequence[str], schema: "Schema") -> dict[str, Any]:
    """Columns by NAME=JSON; a name may hold any sign, so it is the one that the schema has."""
    columns = {}
    for word in words:
        places = [place for place in range(len(word)) if word.startswith("={", place)]
        place = next((place for place in places if word[:place] in schema.columns), None)
        if place is None:
            raise ArgumentError(
                f"--column {word[:60]!r} names no column of the table, or is not NAME=JSON, such as "
                '\'age={"kind": "number", "low": 0, "high": 120}\''
            )
        try:
            columns[word[:place]] = json.loads(word[place + 1 :])
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"--column {word[:60]!r} is no JSON after the name: {error}") from None
    return columns


def _schema_table_lines(schema: Any) -> list[str]:
    """A line for each column: its name, its kind, and what is known or must be decided about it."""
    rows = [(name, kind.kind, _column_facts_text(kind)) for name, kind in schema.columns.items()]
    if schema.label is not None:
        classes = "classes?" if schema.classes is None else " or ".join(map(str, schema.classes))
        rows.append((schema.label, "label", classes))
    width = min(32, max(len(name) for name, _, _ in rows))
    return [
        f"{_cut_schema_text(name, width):{width}}  {kind:8}  {_cut_schema_text(facts, 42)}".rstrip()
        for name, kind, facts in rows
    ]


def _column_facts_text(kind: Any) -> str:
    if kind.kind in ("text", "id"):
        return "left out"
    if kind.kind == "category":
        known = "values?" if kind.values is None else ", ".join(str(value) for value in kind.values)
    else:
        bounds = [f"{bound:.6g}" if isinstance(bound, float) else str(bound) for bound in (kind.low, kind.high)]
        known = "low? high?" if None in (kind.low, kind.high) else " to ".join(bounds)
    return known + (" (gaps)" if kind.gaps else "")


def _cut_schema_text(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


def _open_schema_questions(schema: Any) -> str:
    names = list(schema.undecided())
    open_parts = [*names, *([] if schema.classes is not None else ["classes"])]
    if not open_parts:
        return "all is decided"
    shown = ", ".join(open_parts[:12]) + (f" and {len(open_parts) - 12} more" if len(open_parts) > 12 else "")
    return f"check the kinds, and decide from public knowledge, for a promise about records: {shown}"


# ---- rado check: the holder's own look at a table beside a declaration.


def check(
    table: options.TableArgument,
    schema: options.SchemaOption = None,
    bounds: options.BoundsOption = None,
    label: options.LabelOption = None,
    query: options.QueryOption = None,
    form: options.FormatOption = None,
    classes: options.ClassesOption = None,
    class_: options.ClassOption = None,
    feature: options.FeatureOption = None,
    drop: options.DropOption = None,
    person: options.PersonOption = None,
    max_rows: options.MaxRowsOption = None,
    separator: options.SeparatorOption = None,
    decimal: options.DecimalOption = None,
    as_json: options.JsonFlag = False,
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

    chosen = options.chosen_table(table, query, form)
    result = check_table(
        chosen, label=label, classes=options.chosen_classes(classes, class_, table), features=feature or None,
        drop=drop or (), schema=schema, bounds=bounds, person=person, max_rows=max_rows, separator=separator,
        decimal=decimal, progress=True,
    )  # fmt: skip
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"for the data holder alone: {OUTSIDE}")
    for line in result.as_text():
        print(line)
