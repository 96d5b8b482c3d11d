"""rado export: a model in a form that runs elsewhere."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.options import JsonFlag, check_output, complete_from, default_output
from radoboost.errors import ArgumentError
from radoboost.outputs import ForceFlag, refuse_overwrite


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, made by rado learn.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORM",
            autocompletion=complete_from("onnx", "python", "sql"),
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
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The program; STEM.onnx, STEM.py or STEM.sql by default."),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
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
    from radoboost.learner.export import FORMATS, summary
    from radoboost.learner.export import export as exported
    from radoboost.learner.model import load_model
    from radoboost.release.release import atomic_write

    if to not in FORMATS:
        raise ArgumentError(f"there is no form {to!r} to export to; choose one of {', '.join(FORMATS)}")
    stem = model.name.removesuffix(".json").removesuffix(".model")
    default = default_output(stem, FORMATS[to].removeprefix("."))
    place = output or default
    check_output(place, [str(model)])
    refuse_overwrite(place, default, force)
    classifier = load_model(model)
    content = exported(classifier, to, table=table, keep=keep or ())
    data = content if isinstance(content, bytes) else content.encode()
    with atomic_write(place) as draft:
        draft.write_bytes(data)
    words = summary(classifier)
    if as_json:
        document = {"path": str(place), "form": to, "bytes": len(data), **words}
        lists = {name: json.loads(words[name]) for name in ("classes", "features")}
        print(json.dumps(document | lists, indent=2, ensure_ascii=False))
        return
    print(f"wrote {place}: {len(data):,} bytes of {to}, from {len(classifier.feature_names):,} raw columns")
    print(f"  {words['privacy']}")
