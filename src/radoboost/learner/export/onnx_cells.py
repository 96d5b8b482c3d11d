"""Raw columns in ONNX: numbers as float64, NaN where missing; categories as texts; dates as seconds since 1970."""

import numpy as np

from radoboost.learner.export.onnx_nodes import Nodes
from radoboost.tables.cells import GAPS
from radoboost.tables.dates import FIRST, LAST
from radoboost.tables.kinds import PARTS, UNITS, Category, Date, Kind, Number, seconds_of
from radoboost.tables.labels import LONGEST_LABEL, class_key

# What str.strip takes away. ONNX has no strip, so patterns do it.
_SPACE = r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
# Numbers that no conversion can refuse as too large or too small: it would stop all rows.
_NUMBER = r"[\t-\r ]*[+-]?(?:[0-9]{1,200}(?:\.[0-9]{0,200})?|\.[0-9]{1,200})(?:[eE][+-]?0{0,200}[0-9]{1,2})?" + _SPACE
_WORDS = {1.0: "[tT][rR][uU][eE]", 0.0: "[fF][aA][lL][sS][eE]"}


def encoded_cells(nodes: Nodes, name: str, kind: Kind) -> str:
    """The encoded columns of a raw column, by its kind."""
    if isinstance(kind, Category):
        return _category(nodes, nodes.input(name, "STRING"), kind)
    assert isinstance(kind, Number | Date)
    parts: list[str] = []
    if isinstance(kind, Date):
        seconds = nodes.input(name, "INT64")
        after, before = (
            nodes.op("GreaterOrEqual", seconds, np.array(FIRST)),
            nodes.op("Less", seconds, np.array(LAST + 1)),
        )
        known = nodes.both(after, before)
        seconds = nodes.op("Where", known, seconds, np.array(0))
        since = nodes.cast(nodes.op("Sub", seconds, np.array(seconds_of(kind.origin))), "DOUBLE")
        number, missing = nodes.op("Div", since, float(UNITS[kind.unit])), nodes.op("Not", known)
        parts = [_date_part(nodes, seconds, known, part) for part in kind.parts]
    else:
        number = nodes.input(name, "DOUBLE")
        missing = nodes.either(nodes.op("IsNaN", number), nodes.op("IsInf", number))
    number = nodes.op("Where", missing, kind.filled(), number)
    return nodes.joined([number, *([nodes.cast(missing, "DOUBLE")] if kind.gaps else []), *parts])


def _date_part(nodes: Nodes, seconds: str, known: str, part: str) -> str:
    """Columns of 0 and 1 for the weekday or the month."""

    def whole(kind: str, x: str, by: int) -> str:
        return nodes.op(kind, x, np.array(by))

    days = whole("Div", nodes.op("Sub", seconds, whole("Mod", seconds, 86400)), 86400)
    if part == "weekday":
        place = whole("Mod", whole("Add", days, 3), 7)
    else:
        # Days since the first of March of a year that 400 divides, then the year within these 400, then the month.
        day = whole("Mod", whole("Add", days, 719468), 146097)
        leap = nodes.op(
            "Sub", whole("Div", day, 36524), nodes.op("Add", whole("Div", day, 1460), whole("Div", day, 146096))
        )
        year = whole("Div", nodes.op("Add", day, leap), 365)
        leap = nodes.op("Sub", whole("Div", year, 4), whole("Div", year, 100))
        day = nodes.op("Sub", day, nodes.op("Add", whole("Mul", year, 365), leap))
        month = whole("Div", whole("Add", whole("Mul", day, 5), 2), 153)  # from 0 for March
        place = whole("Mod", whole("Add", month, 2), 12)
    slots = nodes.op("Equal", place, np.arange(len(PARTS[part]))[None, :])
    return nodes.cast(nodes.both(slots, known), "DOUBLE")


def _category(nodes: Nodes, text: str, kind: Category) -> str:
    """Columns of 0 and 1, of which at most one is 1."""
    keys = [class_key(value) for value in kind.values or ()]
    short = nodes.matches(text, f"(?s:.{{0,1000}}.{{0,{LONGEST_LABEL - 1000}}})")
    numbers = ""
    if not all(isinstance(key, str) for key in keys):
        is_number = nodes.matches(text, _NUMBER)
        number = nodes.cast(nodes.op("Where", is_number, text, np.array("0")), "DOUBLE")
        numbers = nodes.op("Where", is_number, number, np.nan)
    slots = []
    for key in keys:
        if isinstance(key, str):
            slot = nodes.matches(text, f"{_SPACE}{_quoted(key)}{_SPACE}")
        else:
            slot = nodes.op("Equal", numbers, float(key))
            if float(key) in _WORDS:
                slot = nodes.either(slot, nodes.matches(text, f"{_SPACE}{_WORDS[float(key)]}{_SPACE}"))
        slots.append(nodes.both(slot, short))
    other = nodes.op("Not", nodes.either(*slots))
    words = "|".join(_quoted(word) for word in sorted(GAPS))
    gap = nodes.both(nodes.both(nodes.matches(text, rf"[ \t]*(?:{words})[ \t]*"), short), other)
    slots += [nodes.both(other, nodes.op("Not", gap))] if kind.other else []
    slots += [gap] if kind.gaps else []
    return nodes.cast(nodes.joined(slots), "DOUBLE")


def _quoted(word: str) -> str:
    """A text for a pattern, to be taken as it is."""
    return "".join(c if c.isascii() and c.isalnum() else rf"\x{{{ord(c):x}}}" for c in word)
