"""rado schema: what the columns of a table mean, as a file to fill in."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from radoboost.cli import options
from radoboost.cli.options import argument, of_table, option, output_option
from radoboost.errors import ArgumentError

if TYPE_CHECKING:
    from radoboost.tables.schema import Schema


def _complete_schema_setting(incomplete: str) -> list[str]:
    return [f"{name}=" for name in options.parameters_of_table() if name.startswith(incomplete)]


def schema(
    table: Annotated[list[str] | None, argument("TABLE", options.TABLE_HELP)] = None,
    label: options.LabelOption = None,
    classes: options.ClassesOption = None,
    person: options.PersonOption = None,
    drop: options.DropOption = None,
    column: Annotated[
        list[str] | None,
        of_table(
            "--column NAME=JSON",
            'What a column is, as the file has it: \'age={"kind": "number", "low": 0, "high": 120}\'; repeat it.',
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        of_table(
            "--set NAME=VALUE",
            "An entry of the table, such as rows=5000, unlabelled=drop or separator=';' (or tab); repeat it. "
            "corrected=COL names columns that were edited after exact counts were seen. --set help lists all.",
            complete=_complete_schema_setting,
        ),
    ] = None,
    from_data: Annotated[
        bool,
        option("--from-data", "Propose everything from the table, for plain releases; promises refuse such a schema."),
    ] = False,
    editor: Annotated[
        bool, option("--editor", "Only print the JSON Schema of such files, for editors; no table is needed.")
    ] = False,
    output: Annotated[Path | None, output_option("The schema; STEM.schema.json by default.")] = None,
    force: options.ForceFlag = False,
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
      rado schema visits.csv --label readmitted --classes no,yes --person patient_id:4 --set rows=5000
      rado schema patients.csv --label readmitted --from-data -o seen.schema.json
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

    entries = options.chosen_settings(settings, options.parameters_of_table(), "a schema")
    entries = options.table_entries(entries, drop, person)
    chosen = options.chosen_table(table)
    place = options.chosen_output(output, options.default_output_path(table[0], "schema.json"), table, force)
    marks: dict[str, Any] = {name: entries[name] for name in ("separator", "decimal") if name in entries}
    proposal = infer_schema(chosen, label, **marks, skip_unlabelled=True) if from_data else None
    first = schema_template(chosen, label, marks.get("separator")) if proposal is None else proposal.schema
    if proposal is not None and proposal.unlabelled:
        entries.setdefault("unlabelled", "drop")
    decided = columns_of_schema_options(column or (), first)
    result = apply_schema_decisions(first, decided, options.chosen_classes(classes), entries)
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
    entries: Mapping[str, Any] = MappingProxyType({}),
) -> "Schema":
    """A schema with what somebody decided of it: columns as JSON data, classes, and other entries by their names."""
    from radoboost.tables.schema import Schema

    document = dataclasses.replace(schema, **entries).to_dict()
    # What is decided beside a look at the table may follow from it.
    document["columns"] |= {
        name: {**entry, "inferred": True} if schema.columns[name].inferred and isinstance(entry, dict) else entry
        for name, entry in columns.items()
    }
    if classes is not None:
        document["classes"] = list(classes)
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
    names = [name for name in schema.undecided() if name not in schema.drop]
    open_parts = [*names, *([] if schema.classes is not None else ["classes"])]
    if not open_parts:
        return "all is decided"
    shown = ", ".join(open_parts[:12]) + (f" and {len(open_parts) - 12} more" if len(open_parts) > 12 else "")
    return f"check the kinds, and decide from public knowledge, for a promise about records: {shown}"


# ---- rado check: the holder's own look at a table beside a declaration.


def check(
    table: options.TableArgument,
    schema: options.SchemaOption = None,
    label: options.LabelOption = None,
    classes: options.ClassesOption = None,
    drop: options.DropOption = None,
    person: options.PersonOption = None,
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
      rado check patients.csv --schema private --label readmitted --classes no,yes --json
      rado check visits.csv --schema visits.schema.json --person patient_id:4
    """
    from radoboost.holder.table_check import OUTSIDE, check_table

    declared = options.declared_schema(schema, options.table_entries({}, drop, person))
    names = options.chosen_classes(classes)
    result = check_table(options.chosen_table(table), label=label, classes=names, schema=declared, progress=True)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"for the data holder alone: {OUTSIDE}")
    for line in result.as_text():
        print(line)
