"""The JSON Schema (draft 2020-12) of schema files, for editors: made from the kinds of columns themselves."""

from dataclasses import MISSING, fields
from typing import Any

from radoboost.tables.column_types import KINDS, MOST_VALUES, ORDERS, PARTS, PRIVATE, SQUARE, TERMS, UNITS
from radoboost.tables.csv_dialect import LINES
from radoboost.tables.labels import MOST_CLASSES
from radoboost.tables.schema import ENTRIES, SCHEMA_KEY, SCHEMA_VERSION, Schema

_DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+([+-][0-9:]+|Z)?)?$"}
_VALUE = {"type": ["string", "number", "boolean"]}
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
_WORDS = {
    "number": "An amount. What is null must be decided before a promise about records.",
    "category": "One of few values; each becomes a column of 0 and 1.",
    "date": "A date or time, as units since an origin.",
    "text": "A text that is left out.",
    "id": "What tells rows or persons apart; it is left out.",
}


def _either(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*choices, {"type": "null"}]}


def _enum_schema(words: tuple[str, ...] | dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": list(words)}, "uniqueItems": True, **more}


_BOUND = {
    "number": _either({"type": "number"}, {"const": PRIVATE}),
    "date": _either(_DATE, {"const": PRIVATE}),
}
# What a field of a kind may be; those of low, high and fill depend on the kind.
_INFERRED = {
    "type": "boolean",
    "description": "Whether some of it was read off the table; promises then refuse it.",
}
_FIELDS: dict[str, dict[str, Any]] = {
    "inferred": _INFERRED,
    "gaps": {"type": "boolean", "description": "Whether values may be missing: a column of 0 and 1 then says where."},
    "values": _either({"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MOST_VALUES, "uniqueItems": True}),
    "other": {"type": "boolean", "description": "Whether all other values have a column in common."},
    "origin": _DATE,
    "unit": {"enum": list(UNITS)},
    "order": {"enum": list(ORDERS), "description": "The order of year, month and day in texts."},
    "parts": _enum_schema(PARTS, description="Parts that become categories."),
    "terms": _either(_enum_schema((*TERMS, SQUARE), minItems=1, description="What is made of the column.")),
}


def json_schema() -> dict[str, Any]:
    mark = _either({"type": "string", "minLength": 1, "maxLength": 1})
    outer = {
        "label": {"type": ["string", "null"], "description": "The column that holds the classes."},
        "classes": _either({"type": "array", "items": _either(_VALUE), "minItems": 2, "maxItems": MOST_CLASSES}),
        "separator": {**mark, "description": "What stands between cells of a CSV file; by its header if null."},
        "decimal": {"enum": [".", ",", None]},
        "thousands": mark,
        "records": {
            "enum": [LINES, None],
            "description": "A record of a CSV file that is protected: a line, or if null a row of the table.",
        },
        "inferred": _enum_schema(ENTRIES, description="What else was read off the table; promises then refuse it."),
        "corrected": _either(
            {
                "type": "array",
                "items": {"type": "string"},
                "description": "Columns that were edited after exact counts of the table were seen.",
            }
        ),
        "columns": {
            "type": "object",
            "additionalProperties": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in KINDS]},
        },
        "products": _either(
            {"type": "array", "items": _PAIR, "uniqueItems": True, "description": "Pairs of columns to be multiplied."}
        ),
    }
    known = {item.name for item in fields(Schema) if item.init}
    assert set(outer) == known, "a field of schemas is not described"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the columns of a raw table mean, for radoboost",
        "type": "object",
        "properties": {"$schema": {"type": "string"}, SCHEMA_KEY: {"const": SCHEMA_VERSION}, **outer},
        "required": [SCHEMA_KEY, "columns"],
        "additionalProperties": False,
        "$defs": {kind: _column_kind_schema(kind) for kind in KINDS},
    }


def _column_kind_schema(kind: str) -> dict[str, Any]:
    """What a column of this kind may have."""
    cls = KINDS[kind]
    properties: dict[str, Any] = {"kind": {"const": kind}}
    for item in fields(cls):
        if item.name == "kind":
            continue
        if item.name in ("low", "high"):
            properties[item.name] = _BOUND[kind]
        elif item.name == "fill":
            properties["fill"] = _either(_DATE if kind == "date" else {"type": "number"})
        else:
            properties[item.name] = _FIELDS[item.name]
        if item.default is not MISSING and item.default not in (None, ()):
            properties[item.name] = {**properties[item.name], "default": item.default}
    return {
        "type": "object",
        "description": _WORDS[kind],
        "properties": properties,
        "required": ["kind"],
        "additionalProperties": False,
    }
