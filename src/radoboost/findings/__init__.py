"""What an experiment found, as data: tables, figures, checks and notes, and the shapes they must have."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError

# All of these are JSON data: mappings, lists, text, numbers, booleans and None.
#
#   Findings  name, title, tables, figures, checks, notes (list of text)
#   Table     name, title, columns, rows, note (optional)
#   Column    name, unit (optional), digits (optional: decimals to show)
#   Figure    name, title, caption, panels
#   Panel     title, x_label, y_label, series, log_x, log_y, bands (the last three optional)
#   Series    label, x, y, error, style, marked (the last three optional)
#   Band      label, x, low, high
#   Check     statement, seen (True, False, or None where it could not be judged), why, ours (optional: True where the
#             question is our own, and no statement of the paper)
Findings = dict[str, Any]
Table = dict[str, Any]
Column = dict[str, Any]
Figure = dict[str, Any]
Panel = dict[str, Any]
Series = dict[str, Any]
Band = dict[str, Any]
Check = dict[str, Any]

STYLES = ("line", "points", "dashed", "step", "flat")
_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


def found(
    name: str,
    title: str,
    *,
    tables: Iterable[Table] = (),
    figures: Iterable[Figure] = (),
    checks: Iterable[Check] = (),
    notes: Iterable[str] = (),
) -> Findings:
    """All that an experiment found, validated.

    >>> found("table1", "Table 1", checks=[check("errors fall", True, "from 3.0 % to 2.0 %")])["checks"][0]["seen"]
    True
    """
    findings = {
        "name": name,
        "title": title,
        "tables": list(tables),
        "figures": list(figures),
        "checks": list(checks),
        "notes": list(notes),
    }
    validate(findings)
    return findings


def column(name: str, unit: str | None = None, digits: int | None = None) -> Column:
    """One column of a table: its name, its unit, and how many decimals to show.

    >>> column("error", "%", 2)
    {'name': 'error', 'unit': '%', 'digits': 2}
    """
    return _without_none({"name": name, "unit": unit, "digits": digits})


def table(
    name: str,
    title: str,
    columns: Iterable[Any],
    rows: Iterable[Iterable[Any]],
    note: str | None = None,
) -> Table:
    """A table, its columns built by `column` or just names; NumPy's numbers become Python's, and NaN becomes None.

    >>> table("errors", "Errors", ["domain", column("error", "%", 2)], [["banknote", np.float64(2.71)]])["rows"]
    [['banknote', 2.71]]
    """
    built = {
        "name": name,
        "title": title,
        "columns": [column(item) if isinstance(item, str) else dict(item) for item in columns],
        "rows": [[_plain(cell) for cell in row] for row in rows],
        "note": note,
    }
    return _without_none(built)


def figure(name: str, title: str, caption: str, panels: Iterable[Panel]) -> Figure:
    """A figure of one or more panels, which share one legend: a label has the same colour in all of them.

    >>> figure("curves", "Curves", "Error by size.", [panel("a", "size", "error", [series("boost", [1], [2])])])["name"]
    'curves'
    """
    return {"name": name, "title": title, "caption": caption, "panels": list(panels)}


def panel(
    title: str,
    x_label: str,
    y_label: str,
    series: Iterable[Series],
    *,
    log_x: bool = False,
    log_y: bool = False,
    bands: Iterable[Band] = (),
) -> Panel:
    """One pair of axes.

    >>> panel("banknote", "rados", "error, %", [series("boost", [10, 100], [3.0, 2.5])], log_x=True)["log_x"]
    True
    """
    built: Panel = {"title": title, "x_label": x_label, "y_label": y_label, "series": list(series)}
    built |= {key: True for key, wanted in (("log_x", log_x), ("log_y", log_y)) if wanted}
    return built | ({"bands": list(bands)} if bands else {})


def series(
    label: str,
    x: Iterable[Any],
    y: Iterable[Any],
    *,
    error: Iterable[Any] | None = None,
    style: str = "line",
    marked: Iterable[int] = (),
) -> Series:
    """Points of one label, `error` above and below each; those whose indices are in `marked` get a ring.

    x are numbers, or text for places in a row; None in y leaves a gap. Of style "flat" is one y across the whole panel,
    whatever the x.

    >>> series("boost", np.arange(2), [0.5, np.nan], marked=[0])
    {'label': 'boost', 'x': [0, 1], 'y': [0.5, None], 'style': 'line', 'marked': [0]}
    """
    built = {
        "label": label,
        "x": _list(x),
        "y": _list(y),
        "error": None if error is None else _list(error),
        "style": style,
        "marked": _list(marked) or None,
    }
    return _without_none(built)


def band(label: str, x: Iterable[Any], low: Iterable[Any], high: Iterable[Any]) -> Band:
    """A shaded band from `low` to `high`; with the label of a series of the panel it takes that one's colour.

    >>> band("boost", [1, 2], [0.1, 0.2], [0.3, 0.4])["high"]
    [0.3, 0.4]
    """
    return {"label": label, "x": _list(x), "low": _list(low), "high": _list(high)}


def check(statement: str, seen: bool | np.bool_ | None, why: str, *, ours: bool = False) -> Check:
    """A statement of the paper, whether it was seen here (None: could not be judged), and by what.

    "Not seen" says that our criterion did not show it here, not that the paper is wrong. With `ours` the paper does not
    say so: the question is our own, and readers are told.

    >>> check("more rados are better", np.bool_(False), "3.1 % with 10, 3.4 % with 100")["seen"]
    False
    >>> check("ten rados are enough", False, "3.1 % with 10, 2.0 % with 100", ours=True)["ours"]
    True
    """
    built: Check = {"statement": statement, "seen": None if seen is None else bool(seen), "why": why}
    return built | {"ours": True} if ours else built


def validate(findings: Any) -> None:
    """Raise where findings have not the shape that all readers rely on.

    >>> validate({"name": "table1"})
    Traceback (most recent call last):
    radoboost.errors.ArgumentError: findings: 'title' is missing; add it
    """
    _fields(findings, "findings", name=_name, title=_text, tables=_all(_table), figures=_all(_figure),
            checks=_all(_check), notes=_all(_text))  # fmt: skip
    for kind in ("tables", "figures"):
        names = [item["name"] for item in findings[kind]]
        _require(len(set(names)) == len(names), f"findings.{kind}", f"names must differ, not {', '.join(names)}")


_Validator = Callable[[Any, str], None]


def _table(value: Any, where: str) -> None:
    _fields(value, where, name=_name, title=_text, columns=_all(_column), rows=_all(_all(_cell)), note__=_text)
    width = len(value["columns"])
    _require(width > 0, f"{where}.columns", "there must be at least one")
    for number, row in enumerate(value["rows"]):
        _require(len(row) == width, f"{where}.rows[{number}]", f"must hold {width} cells, not {len(row)}")


def _column(value: Any, where: str) -> None:
    _fields(value, where, name=_text, unit__=_text, digits__=_digits)


def _figure(value: Any, where: str) -> None:
    _fields(value, where, name=_name, title=_text, caption=_text, panels=_all(_panel))
    _require(len(value["panels"]) > 0, f"{where}.panels", "there must be at least one")


def _panel(value: Any, where: str) -> None:
    _fields(value, where, title=_text, x_label=_text, y_label=_text, series=_all(_series), log_x__=_flag,
            log_y__=_flag, bands__=_all(_band))  # fmt: skip
    shown = [item for item in value["series"] if item.get("style") != "flat"] + value.get("bands", [])
    places = [x for item in shown for x in item["x"]]
    words = sum(isinstance(x, str) for x in places)
    _require(words in (0, len(places)), where, "x must be all numbers or all text")
    _require(not (value.get("log_x") and words), where, "log_x needs numbers as x")
    _require(not value.get("log_x") or min(places, default=1) > 0, where, "log_x needs x above 0")


def _series(value: Any, where: str) -> None:
    _fields(value, where, label=_text, x=_all(_place), y=_all(_number_or_none), error__=_all(_number_or_none),
            style__=_style, marked__=_all(_digits))  # fmt: skip
    length = len(value["y"])
    if value.get("style") == "flat":
        _require(len(set(value["y"])) == 1, f"{where}.y", "a flat series has one value")
    else:
        _require(len(value["x"]) == length, f"{where}.x", f"must be as long as y, {length}, not {len(value['x'])}")
    _require(len(value.get("error", value["y"])) == length, f"{where}.error", f"must be as long as y, {length}")
    _require(all(error is None or error >= 0 for error in value.get("error", [])), f"{where}.error", "must not be < 0")
    _require(all(place < length for place in value.get("marked", [])), f"{where}.marked", f"must be below {length}")


def _band(value: Any, where: str) -> None:
    _fields(value, where, label=_text, x=_all(_place), low=_all(_number_or_none), high=_all(_number_or_none))
    for key in ("low", "high"):
        _require(len(value[key]) == len(value["x"]), f"{where}.{key}", f"must be as long as x, {len(value['x'])}")


def _check(value: Any, where: str) -> None:
    _fields(value, where, statement=_text, seen=_flag_or_none, why=_text, ours__=_flag)


def _fields(value: Any, where: str, **validators: _Validator) -> None:
    """A mapping of just these keys; those that may be absent are written with two underscores at the end."""
    _require(isinstance(value, dict), where, f"must be a mapping, not {value!r:.40}")
    known = {key.removesuffix("__") for key in validators}
    for key in value:
        _require(key in known, where, f"{key!r} is unknown; known are {', '.join(sorted(known))}")
    for key, validator in validators.items():
        optional, key = key.endswith("__"), key.removesuffix("__")
        if key in value:
            validator(value[key], f"{where}.{key}")
        else:
            _require(optional, where, f"{key!r} is missing; add it")


def _all(validator: _Validator) -> _Validator:
    def each(value: Any, where: str) -> None:
        _require(isinstance(value, list), where, f"must be a list, not {value!r:.40}")
        for number, item in enumerate(value):
            validator(item, f"{where}[{number}]")

    return each


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _kind(accepts: Callable[[Any], bool], wanted: str) -> _Validator:
    def validator(value: Any, where: str) -> None:
        _require(accepts(value), where, f"must be {wanted}, not {value!r:.40}")

    return validator


_text = _kind(lambda value: isinstance(value, str), "text")
_flag = _kind(lambda value: isinstance(value, bool), "True or False")
_flag_or_none = _kind(lambda value: value is None or isinstance(value, bool), "True, False or None")
_number_or_none = _kind(lambda value: value is None or _is_number(value), "a finite number or None")
_place = _kind(lambda value: _is_number(value) or isinstance(value, str), "a finite number or text")
_cell = _kind(
    lambda value: value is None or isinstance(value, bool | str) or _is_number(value),
    "a finite number, text, True, False or None",
)
_digits = _kind(lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a count")
_style = _kind(lambda value: value in STYLES, f"one of {', '.join(STYLES)}")
_name = _kind(
    lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
    "small letters, digits and hyphens, as it names files",
)


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise ArgumentError(f"{where}: {what}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _list(values: Iterable[Any]) -> list[Any]:
    return [_plain(value) for value in values]


def _without_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None}
