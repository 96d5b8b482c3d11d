"""Findings as files for people: CSV, pictures, and one page that opens without a network."""

import base64
import csv
import functools
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radoboost.errors import ArgumentError, OutputError, reason
from radoboost.release.release import atomic_write
from radoboost.release.statement_text import Verdict
from radoboost.report.documents import Document
from radoboost.report.findings import Figure, Findings, ReportColumn, ReportTable
from radoboost.report.plots import PALETTE, Picture, count_points_not_drawn, draw_figure, labels_of_figure
from radoboost.report.terminal import OURS, VERDICTS, cell_text, is_text_column, printable

if TYPE_CHECKING:
    import jinja2

REPORT = "report.html"
_SIGNS = {True: "✓", False: "✗", None: "?"}
_LONG = 32  # a cell with more letters than this is broken into lines
_TALL = 40  # a table with more rows than this also scrolls downwards


@dataclass(frozen=True)
class PageHeader:
    """What comes first on a page; without an `overview` the page counts which statements were seen.

    `lists` holds sentences by their headings, for a section with the title `lists_title`. A `verdict` stands before
    everything else.
    """

    title: str
    about: str
    overview: ReportTable | None = None
    lists_title: str = ""
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    verdict: Verdict | None = None


def write_html(output: Path, documents: Sequence[Document], cover: PageHeader) -> None:
    """Write the CSV files and the pictures of all results into `output`, and one report about them.

    Each file is written as a draft and renamed; the same documents give the same bytes.
    """
    pictures = _draw_all_html_plots(documents)
    try:
        (output / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {output}: {reason(error)}; choose another") from None
    for findings in (document.findings for document in documents):
        for table in findings.tables:
            _write_html_file(output / f"{findings.name}-{table.name}.csv", _html_table_as_csv(table))
        for figure in findings.figures:
            stem = f"{findings.name}-{figure.name}"
            _write_html_file(output / "figures" / f"{stem}.png", pictures[stem].wide_png)
            _write_html_file(output / "figures" / f"{stem}.svg", pictures[stem].wide_svg)
    _write_html_file(output / REPORT, _html_page_with_pictures(documents, pictures, cover).encode())


def html_page(documents: Sequence[Document], cover: PageHeader) -> str:
    """One HTML page about all results, which holds everything that it shows."""
    return _html_page_with_pictures(documents, _draw_all_html_plots(documents), cover)


def write_html_page(place: Path, template: str, documents: Sequence[Document] = (), **values: Any) -> None:
    """Write one page from a template, with the pictures of all documents; whole or not at all."""
    text = render_html_page(template, documents, **values)
    with atomic_write(place) as draft:
        draft.write_text(text, "utf-8")


def render_html_page(template: str, documents: Sequence[Document] = (), **values: Any) -> str:
    """A page from a template, which holds everything that it shows."""
    pictures = draw_html_plots(documents)
    return html_templates().get_template(template).render(documents=documents, pictures=pictures, **values)


def draw_html_plots(documents: Sequence[Document]) -> dict[str, Picture]:
    """The pictures of documents, by the names of their findings and figures."""
    return _draw_all_html_plots(documents) if documents else {}


def _draw_all_html_plots(documents: Sequence[Document]) -> dict[str, Picture]:
    if not documents:
        raise ArgumentError("there are no results to report; run an experiment first")
    names = [document.findings.name for document in documents]
    if len(set(names)) < len(names):
        raise ArgumentError(f"there are two results of one name among {', '.join(names)}; give each once")
    pictures: dict[str, Picture] = {}
    for findings in (document.findings for document in documents):
        labels = list(dict.fromkeys(label for figure in findings.figures for label in labels_of_figure(figure)))
        shared = labels if len(labels) <= len(PALETTE) else []  # else colours must differ within a figure first
        pictures |= {f"{findings.name}-{figure.name}": draw_figure(figure, shared) for figure in findings.figures}
    return pictures


def _html_page_with_pictures(documents: Sequence[Document], pictures: dict[str, Picture], cover: PageHeader) -> str:
    overview = cover.overview or _html_statements_overview(documents)
    template = html_templates().get_template("page.html")
    return template.render(cover=cover, overview=overview, documents=documents, pictures=pictures)


@functools.cache
def html_templates() -> "jinja2.Environment":
    """The templates beside this module; they escape whatever is put into them."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("radoboost.report"),
        autoescape=True,
        finalize=_html_text_without_controls,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "caption": _html_caption,
        "csv_link": lambda table: _html_data_link("text/csv", _html_table_as_csv(table)),
        "duration": _html_duration,
        "head": _html_column_head,
        "is_tall": lambda table: len(table.rows) > _TALL,
        "kinds": _html_column_kinds,
        "option": _html_option,
        "places": _html_contents,
        "shown": cell_text,
        "svg_link": lambda svg: _html_data_link("image/svg+xml", svg),
    }
    environment.globals |= {"ours": OURS, "signs": _SIGNS, "verdicts": VERDICTS}
    return environment


def _html_text_without_controls(value: object) -> object:
    """A value for a template, as text without characters that would break the page; our own HTML stays as it is."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _write_html_file(path: Path, content: bytes) -> None:
    with atomic_write(path) as draft:
        draft.write_bytes(content)


def _html_table_as_csv(table: ReportTable) -> bytes:
    """The table with all digits; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_html_column_head(column) for column in table.columns])
    writer.writerows(table.rows)
    return text.getvalue().encode()


def _html_column_head(column: ReportColumn) -> str:
    return column.name if column.unit is None else f"{column.name} ({column.unit})"


def _html_data_link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _html_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _html_statements_overview(documents: Sequence[Document]) -> ReportTable:
    """How many statements were seen, by part; questions of our own, if there are any, are counted apart."""
    rows, names = [], ["part", *VERDICTS.values(), "time"]
    has_ours = any(check.ours for document in documents for check in document.findings.checks)
    names[-1:-1] = [f"{OURS}s"] * has_ours
    for document in documents:
        checks = document.findings.checks
        verdicts = [check.seen for check in checks if not check.ours]
        counts = [sum(verdict is seen for verdict in verdicts) for seen in VERDICTS]
        counts += [len(checks) - len(verdicts)] * has_ours
        rows.append([document.findings.title, *counts, _html_duration(document.seconds)])
    return ReportTable("statements", "Statements", names, rows)


def _html_contents(findings: Findings) -> list[tuple[str, str]]:
    """What a part of the page holds: the places that the contents link to, with their titles."""
    places = [("checks", "Statements")] if findings.checks else []
    places += [(f"table-{table.name}", table.title) for table in findings.tables]
    places += [(f"figure-{figure.name}", figure.title) for figure in findings.figures]
    return places + ([("notes", "Notes")] if findings.notes else [])


def _html_option(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _html_column_kinds(table: ReportTable) -> list[str]:
    """How each column is set: numbers to the right, text to the left, and long text in several lines."""
    return [_html_text_kind([row[place] for row in table.rows]) for place in range(len(table.columns))]


def _html_text_kind(values: list[Any]) -> str:
    if not is_text_column(values):
        return "number"
    return "long" if max(len(cell_text(value)) for value in values) > _LONG else ""


def _html_caption(figure: Figure) -> str:
    hidden = count_points_not_drawn(figure)
    return figure.caption + (f" Points not shown, for they are not above 0: {hidden}." if hidden else "")
