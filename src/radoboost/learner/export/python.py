"""A model as one Python file that needs nothing but Python: the text of `standalone`, with the model in it as data."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.learner.export import folds_of_keys, one_line_comment, standalone, summary_of_exported_model
from radoboost.learner.model import Model
from radoboost.learner.predict import prediction_column_names
from radoboost.release.columns import Column
from radoboost.release.feature_map import FeatureMap, Input
from radoboost.tables.cells import GAPS
from radoboost.tables.column_types import GAP, PARTS, UNITS, Category, Date, Kind, Number, seconds_of_iso_date
from radoboost.tables.csv_dialect import PLAIN, SEPARATORS, CsvDialect

LARGEST = sys.float_info.max
_PLACE = "MODEL: dict[str, Any] = {}\n"


def python_program(model: Model) -> str:
    source = Path(standalone.__file__).read_text(encoding="utf-8")
    code = source[source.index("import csv") :]
    assert code.count(_PLACE) == 1
    data = _python_literal(model_as_python_data(model))
    return f"{_python_program_header(model)}\n{code.replace(_PLACE, f'MODEL: dict[str, Any] = {data}')}"


def _python_program_header(model: Model) -> str:
    words = summary_of_exported_model(model)
    lines = [
        f"A classifier, written by {words.pop('producer')}. It needs Python 3.10 or later, and nothing else:",
        "",
        "    python FILE.py TABLE.csv > predictions.csv      without a name it reads standard input",
        "    predict(row), probabilities(row)                 in Python, for a dict from column to cell",
        "",
        *(f"{name}: {one_line_comment(text)}" for name, text in words.items()),
    ]
    return "\n".join(f"# {line}".rstrip() for line in lines) + "\n"


def _python_literal(entries: dict[str, Any]) -> str:
    """A dict as Python text, with every entry of a list on a line of its own."""
    lines = []
    for key, value in entries.items():
        if isinstance(value, list) and value:
            lines += [f"    {key!r}: [", *(f"        {entry!r}," for entry in value), "    ],"]
        else:
            lines.append(f"    {key!r}: {value!r},")
    return "\n".join(["{", *lines, "}", ""])


def model_as_python_data(model: Model) -> dict[str, Any]:
    """The model as the data that `standalone` goes by, of plain Python values."""
    schema, link = model.schema, model.link
    separator = None if schema is None or schema.separator in SEPARATORS else schema.separator
    return {
        "classes": list(model.classes),
        "written": tuple(prediction_column_names(model)),
        "raw_columns": _raw_columns_as_python_data(model),
        **_feature_map_as_python_data(model.map, model.input_names),
        "columns": _weighted_columns_as_python_data(model),
        "link": None if link is None else (link.up, link.down, float(np.sqrt(link.bend)), link.origin, link.offset),
        "separator": separator,
        "gap_words": sorted(GAPS),
    }


def _raw_columns_as_python_data(model: Model) -> list[dict[str, Any]]:
    if model.schema is not None:
        kinds, marks = model.reading_kinds, model.schema.marks
        return [{"name": name, **_encoding_as_python(kinds[name], marks)} for name in model.schema.used]
    fills = zip(model.input_names, model.neutral.tolist(), strict=True)
    return [{"name": name, **_encoding_as_python(Number(fill=fill), PLAIN), "strict": True} for name, fill in fills]


def _encoding_as_python(kind: Kind, marks: CsvDialect) -> dict[str, Any]:
    """What becomes of the cells of a raw column."""
    if isinstance(kind, Category):
        places = [(key if isinstance(key, str) else float(key), place) for key, place in kind.places(marks).items()]
        own = {"slots": len(list(kind.encoded(""))), "other": kind.slot_of_other, "gap": kind.slot_of_gap}
        written = {"decimal": marks.decimal, "thousands": marks.thousands}
        return {"kind": "category", "values": places, "folds": folds_of_keys(kind), **own, **written}
    assert isinstance(kind, Number | Date)
    entry: dict[str, Any] = {"kind": kind.kind, "fill": kind.filled(), "gaps": kind.gaps}
    entry |= {"codes": kind.codes(), "within": kind.bounds() if kind.beyond == GAP else (-LARGEST, LARGEST)}
    if isinstance(kind, Number):
        own_marks = kind.dialect(marks)
        return entry | {"decimal": own_marks.decimal, "thousands": own_marks.thousands}
    return entry | {
        "order": kind.order,
        "origin": seconds_of_iso_date(kind.origin),
        "unit": UNITS[kind.unit],
        "parts": [(part, len(PARTS[part])) for part in kind.parts],
    }


def _weighted_columns_as_python_data(model: Model) -> list[dict[str, Any]]:
    """The columns that some weight is for."""
    entries, place = [], 0
    for weights, column in zip(np.atleast_2d(model.theta).T.tolist(), model.columns, strict=True):
        entry = {"name": column.name, "weights": weights}
        if column.scale != "constant":
            entry |= {"of": place, "scale": _scale_as_python_data(column)}
            place += 1
        if any(weights) or column.scale == "constant":
            entries.append(entry)
    return entries or [{"name": "(none)", "weights": np.atleast_2d(model.theta)[:, 0].tolist()}]


def _scale_as_python_data(column: Column) -> tuple[float | None, ...]:
    constants = tuple(map(float, column.constants))
    return column.low, column.high, *constants[2:]


def _feature_map_as_python_data(feature_map: FeatureMap | None, names: tuple[str, ...]) -> dict[str, Any]:
    if feature_map is None:
        return {"inputs": [], "terms": []}
    return {
        "inputs": [
            _map_input_as_python_data(entry, degree, names)
            for entry, degree in zip(feature_map.inputs, feature_map.degrees, strict=True)
        ],
        "terms": [(places, term.factor) for places, term in zip(feature_map.factors, feature_map.terms, strict=True)],
    }


def _map_input_as_python_data(entry: Input, degree: int, names: tuple[str, ...]) -> dict[str, Any]:
    scale = entry.low, entry.high, entry.shift, entry.factor, entry.divisor, entry.offset
    return {
        "name": entry.label,
        "of": names.index(entry.name),
        "scale": scale,
        **({"log": True} if entry.log else {}),
        **({} if entry.limit is None else {"limit": entry.limit}),
        **({"levels": list(entry.levels)} if entry.levels else {}),
        **({"degree": degree} if degree > 1 else {}),
    }
