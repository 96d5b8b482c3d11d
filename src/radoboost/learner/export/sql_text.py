"""Pieces of SQL that DuckDB and PostgreSQL understand alike, and a query that is built of them step by step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SUMMED = 64  # terms of one expression: databases limit how deep expressions may be


def literal(value: Any) -> str:
    """A number, truth value or text as SQL has it; numbers are in double precision."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        # With an exponent DuckDB reads a double; without, a decimal, whose conversion is not rounded to nearest.
        text = repr(value) if "e" in repr(value) else f"{value!r}e0"
        return f"({text})" if math.copysign(1.0, value) < 0 else text
    return str(value) if value >= 0 else f"({value})"


def identifier(name: str) -> str:
    """A name of a column or a table, in quotes."""
    return '"' + name.replace('"', '""') + '"'


def choice(*cases: tuple[str, str], default: str = "NULL") -> str:
    """The value of the first condition that holds."""
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {default} END"


def clipped(x: str, low: float | None, high: float | None) -> str:
    """The nearest number between bounds; what is missing stays missing, as it would not with LEAST and GREATEST."""
    bounds = ((low, "<"), (high, ">"))
    cases = [
        (f"{x} {sign} {literal(float(bound))}", literal(float(bound))) for bound, sign in bounds if bound is not None
    ]
    return choice(*cases, default=x) if cases else x


def scaled(x: str, shift: float, factor: float, divisor: float, offset: float) -> str:
    """The one formula of columns, without the steps that change nothing."""
    text = x if shift == 0 else f"({x} - {literal(float(shift))})"
    text = text if factor == 1 else f"({text} * {literal(float(factor))})"
    text = text if divisor == 1 else f"({text} / {literal(float(divisor))})"
    return text if offset == 0 else f"({text} - {literal(float(offset))})"


@dataclass
class Query:
    """Columns that are computed of others, in stages: one that uses another stands in a later stage.

    Every stage ends in OFFSET 0, which takes nothing away: without it PostgreSQL would write each expression into
    those that use it, again and again.
    """

    taken: Sequence[str]  # names that the query must leave alone
    expressions: dict[str, str] = field(default_factory=dict)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def _free(self, word: str) -> str:
        """The beginning of names that nobody has; databases may take capitals for small letters."""
        while any(name.lower().startswith(word) for name in self.taken):
            word += "_"
        return word

    def let(self, expression: str, *uses: str) -> str:
        """A name for an expression, which uses the columns named so; the first stage uses the table's."""
        name = f"{self._free('x')}{len(self.expressions) + 1}"
        self.expressions[name] = expression
        self.uses[name] = uses
        self.levels[name] = 1 + max((self.levels[use] for use in uses), default=0)
        return name

    def sum(self, terms: Sequence[tuple[str, tuple[str, ...]]]) -> str:
        """The sum of expressions, each with the columns that it uses, added one after another."""
        total: tuple[str, ...] = ()
        for start in range(0, len(terms), _SUMMED):
            some = terms[start : start + _SUMMED]
            uses = tuple(dict.fromkeys([*total, *(use for _, own in some for use in own)]))
            total = (self.let(" + ".join([*total, *(text for text, _ in some)]), *uses),)
        return total[0]

    def text(self, table: str, results: Sequence[tuple[str, str]]) -> str:
        """The whole query; `results` are expressions, or columns, and what they are called."""
        last = max(self.levels.values())
        final = {name for name in self.expressions for text, _ in results if name in _words(text)}
        stages, source, stage = [], table, self._free("stage")
        for level in range(1, last + 1):
            later = {use for name in self.uses for use in self.uses[name] if self.levels[name] > level} | final
            kept = [name for name in self.expressions if self.levels[name] < level and name in later]
            made = [f"{self.expressions[name]} AS {name}" for name in self.expressions if self.levels[name] == level]
            columns = [*([", ".join(kept)] if kept else []), *made]
            stages.append(f"{stage}{level} AS (\n{_select(columns, source, '  ')}\n  OFFSET 0\n)")
            source = f"{stage}{level}"
        columns = [f"{text} AS {identifier(name)}" for text, name in results]
        return f"WITH {', '.join(stages)}\n{_select(columns, source, '')};"


def _select(columns: Sequence[str], source: str, indent: str) -> str:
    lines = f",\n{indent}  ".join(columns)
    return f"{indent}SELECT\n{indent}  {lines}\n{indent}FROM {source}"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
