"""The generated parts of docs/reproduction.md, from the results of a full run of `rado reproduce all`.

    python benchmarks/reproduction_page.py [FOLDER]

With a folder, its results are first copied to experiments/results/reproduce. Tables for which the page has no room go
to experiments/results/reproduction.md. No number of the page is typed by hand, and its pictures,
docs/images/reproduce-*.svg, are drawn from the same results.
"""

import sys
import textwrap
from pathlib import Path

from measuring import RESULTS, fill_page
from radoboost.report.documents import read_document
from radoboost.report.plots import draw_figure

PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"
KEPT = RESULTS / "reproduce"
TABLES = RESULTS / "reproduction.md"
SHOWN = {"table1": ("paper",), "table3": (), "feature-privacy": (), "gaussian": (), "theory": ()}
"""The tables of each experiment that the page shows; the report has them all."""
BESIDE = {"table1": ("errors", "sampled"), "table3": ("errors", "paper"), "feature-privacy": ("errors",)}
"""Those that are in the file of tables."""
PICTURED = {
    "table1": ("errors",),
    "table3": ("errors",),
    "feature-privacy": ("errors",),
    "gaussian": ("rados-against-examples-strong", "errors"),
    "theory": ("concentration", "boosting"),
}
"""The figures of each experiment that the page shows, drawn from the results that are kept."""
WORDS = {True: "Seen", False: "**Not seen**", None: "Not judged"}


def wrapped(text, indent=""):
    return "\n".join(textwrap.wrap(text, 135, subsequent_indent=indent, break_long_words=False))


def shown(cell, column):
    if cell is None:
        return "–"  # noqa: RUF001
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float) and column.digits is not None:
        return f"{cell:.{column.digits}f}"
    return f"{cell:g}" if isinstance(cell, float) else str(cell).replace("|", r"\|")


def table(found):
    """A Markdown table: text to the left, numbers to the right."""
    columns = found.columns
    text = [any(isinstance(row[k], str | bool) for row in found.rows) for k in range(len(columns))]
    head = [column.name if column.unit is None else f"{column.name}, {column.unit}" for column in columns]
    rule = ["---" if is_text else "---:" for is_text in text]
    rows = [[shown(cell, column) for cell, column in zip(row, columns, strict=True)] for row in found.rows]
    lines = ["| " + " | ".join(line) + " |" for line in (head, rule, *rows)]
    return "\n".join([f"*{found.title}.*", "", *lines, *([] if found.note is None else ["", wrapped(found.note)])])


def verdict(check):
    """Whether a statement was seen; a question of our own says that it is one."""
    word = WORDS[check.seen]
    return f"Our question, {word.strip('*').lower()}" if check.ours else word


def part(document):
    """What one experiment found: its statements, and the tables and figures that are shown here."""
    findings = document.findings
    lines = [f"`{document.command}`: {document.seconds:.0f} seconds of one core.", ""]
    lines += [wrapped(f"- {verdict(c)}: {c.statement}. {c.why}", "  ") for c in findings.checks]
    tables = [one for one in findings.tables if one.name in SHOWN[findings.name]]
    shown_here = [table(one) for one in tables]
    shown_here += [
        f"![{one.title}]({path.relative_to(PAGE.parent)})\n\n{wrapped(one.caption)}"
        for path, one in pictured(document).items()
    ]
    return "\n\n".join(["\n".join(lines), *shown_here])


def pictured(document):
    """The figures that the page shows of an experiment, by the file of each."""
    findings = document.findings
    figures = {one.name: one for one in findings.figures}
    images = PAGE.parent / "images"
    return {images / f"reproduce-{findings.name}-{name}.svg": figures[name] for name in PICTURED[findings.name]}


def documents():
    return {name: read_document(KEPT / f"{name}.json") for name in SHOWN}


def rendered():
    """The page as it is, with its generated parts as the results have them."""
    return fill_page(PAGE, {name: part(document) for name, document in documents().items()})


def tables_page():
    """The file of tables."""
    lines = [
        "# The paper, run again: tables",
        "`docs/reproduction.md` says how these were measured, and compares Table 1 with the paper's. Written by\n"
        "`python benchmarks/reproduction_page.py` from the files in `reproduce/`.",
    ]
    for name, document in documents().items():
        chosen = [one for one in document.findings.tables if one.name in BESIDE.get(name, ())]
        lines += [f"## {name}" if chosen else "", *map(table, chosen)]
    return "\n\n".join(filter(None, lines)) + "\n"


def main():
    if len(sys.argv) > 1:
        KEPT.mkdir(parents=True, exist_ok=True)
        for name in SHOWN:
            (KEPT / f"{name}.json").write_text((Path(sys.argv[1]) / f"{name}.json").read_text())
    for document in documents().values():
        for path, figure in pictured(document).items():
            path.write_bytes(draw_figure(figure).wide_svg)
    PAGE.write_text(rendered())
    TABLES.write_text(tables_page())


if __name__ == "__main__":
    main()
