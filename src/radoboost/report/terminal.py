"""Findings as text for a terminal."""

import textwrap
from collections.abc import Sequence
from typing import Any

from radoboost.report.findings import Check, Findings, ReportTable

VERDICTS = {True: "seen", False: "not seen", None: "not judged"}
OURS = "our question"  # marks a check that is not a statement of the paper
_NONE = "\u2013"  # an en dash
_COLUMNS = 100  # letters of a line
_HEAD = 10  # letters: a column's name may make it this wide before it is broken into lines


def findings_for_terminal(findings: Findings) -> str:
    """Tables, checks and notes as text for a terminal; a table that is too wide is split into pieces."""
    blocks = [[findings.title]]
    blocks += [_table_lines_for_terminal(table) for table in findings.tables]
    blocks += [[line for check in findings.checks for line in _terminal_check_lines(check)]] if findings.checks else []
    blocks += [textwrap.wrap(note, _COLUMNS) for note in findings.notes]
    return "\n\n".join("\n".join(printable(line) for line in lines) for lines in blocks)


def table_for_terminal(table: ReportTable) -> str:
    return "\n".join(printable(line) for line in _table_lines_for_terminal(table))


def cell_text(value: Any, digits: int | None = None) -> str:
    """A cell of a table as text; a number above 0 that would be rounded to 0 is shown as less than the last digit."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if digits is None:
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    least = f"{10.0**-digits:.{digits}f}"
    return f"<{least}" if 0 < value < 0.5 * float(least) else f"{value or 0.0:,.{digits}f}"


def is_text_column(values: list[Any]) -> bool:
    """Whether to set a column as text, to the left: if any of its cells is text, True or False."""
    return any(isinstance(value, str | bool) for value in values)


def printable(text: str) -> str:
    r"""Text without characters that would control a terminal or break a page."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _table_lines_for_terminal(table: ReportTable) -> list[str]:
    columns, n_keys = _columns_as_terminal_text(table), _number_of_key_columns(table.rows)
    pieces = [columns[:n_keys]]
    for column in columns[n_keys:]:
        if len(pieces[-1]) > n_keys and _width_on_terminal([*pieces[-1], column]) > _COLUMNS:
            pieces.append(columns[:n_keys])
        pieces[-1].append(column)
    n_heads = len(columns[0]) - len(table.rows)
    lines = textwrap.wrap(table.title, _COLUMNS)
    for number, piece in enumerate(pieces):
        rows = ["  ".join(cells).rstrip() for cells in zip(*piece, strict=True)]
        lines += [
            *([""] if number else []),
            *filter(None, rows[:n_heads]),
            "-" * _width_on_terminal(piece),
            *rows[n_heads:],
        ]
    return lines + textwrap.wrap(table.note or "", _COLUMNS)


def _number_of_key_columns(rows: Sequence[Sequence[Any]]) -> int:
    """How many columns to repeat in every piece, so that readers can tell rows apart: the first, or the first two."""
    return 1 if len({row[0] for row in rows}) == len(rows) else min(2, len(rows[0]))


def _columns_as_terminal_text(table: ReportTable) -> list[list[str]]:
    """For each column, the lines of its head and its cells, all of one width."""
    heads, columns = [], []
    for place, column in enumerate(table.columns):
        values = [row[place] for row in table.rows]
        cells = [" ".join(cell_text(value, column.digits).split()) for value in values]
        width = max([_HEAD, *map(len, cells)])
        heads.append(
            textwrap.wrap(column.name, width, break_long_words=False) + ([] if column.unit is None else [column.unit])
        )
        columns.append((cells, is_text_column(values)))
    tallest = max(map(len, heads))
    padded = []
    for head, (cells, textual) in zip(heads, columns, strict=True):
        lines = [""] * (tallest - len(head)) + head + cells
        width = max(map(len, lines))
        padded.append([line.ljust(width) if textual else line.rjust(width) for line in lines])
    return padded


def _width_on_terminal(columns: list[list[str]]) -> int:
    return sum(len(lines[0]) + 2 for lines in columns) - 2


def _terminal_check_lines(check: Check) -> list[str]:
    verdict = f"{VERDICTS[check.seen]:<12}"
    prefix = f"{OURS}: " if check.ours else ""
    return textwrap.wrap(
        f"{prefix}{check.statement}: {check.why}",
        _COLUMNS,
        initial_indent=verdict,
        subsequent_indent=" " * len(verdict),
    )
