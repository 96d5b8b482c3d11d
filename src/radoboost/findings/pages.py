"""Findings as files for people: CSV, pictures, and one page that opens without a network."""

import base64
import csv
import html
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError, OutputError, reason
from radoboost.findings import Check, Figure, Findings, Table, validate
from radoboost.findings.pictures import PALETTE, Picture, draw, labels_of, not_shown
from radoboost.findings.screen import OURS, VERDICTS, is_textual, printable, show, shown
from radoboost.release import replacing

__all__ = ["REPORT", "Cover", "page", "show", "write"]

REPORT = "report.html"
_SIGNS = {True: "✓", False: "✗", None: "?"}
_LONG = 32  # letters of a cell that is broken into lines
_TALL = 40  # rows of a table that scrolls downwards, too
_NEEDED = ("command", "versions", "seconds", "options", "findings")


@dataclass(frozen=True)
class Cover:
    """What stands above the parts of a page; without an `overview` it counts which statements were seen."""

    title: str
    about: str
    overview: Table | None = None


def write(output: Path, documents: list[dict[str, Any]], cover: Cover) -> None:
    """Write the CSV files and the pictures of all results into `output`, and one report over them.

    A results document holds command, versions, seconds, options and findings, and may hold `said`: paragraphs by the
    words they begin with. Each file is written beside its place and renamed; the same documents give the same bytes.
    """
    drawn = _draw_all(documents)
    try:
        (output / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {output}: {reason(error)}; choose another") from None
    for findings in (document["findings"] for document in documents):
        for table in findings["tables"]:
            _write(output / f"{findings['name']}-{table['name']}.csv", _csv(table))
        for figure in findings["figures"]:
            stem = f"{findings['name']}-{figure['name']}"
            _write(output / "figures" / f"{stem}.png", drawn[stem].wide_png)
            _write(output / "figures" / f"{stem}.svg", drawn[stem].wide_svg)
    _write(output / REPORT, _page(documents, drawn, cover).encode())


def page(documents: list[dict[str, Any]], cover: Cover) -> str:
    """One HTML page over all results, with everything that it shows inside it.

    >>> from radoboost.findings import check, found
    >>> findings = found("theory", "Theory", checks=[check("1 < 2", True, "it is")])
    >>> run = {"command": "rado reproduce theory", "versions": {}, "seconds": 1.0, "options": {}, "findings": findings}
    >>> "1 &lt; 2" in page([run], Cover("Numbers", "Which of two is less."))
    True
    """
    return _page(documents, _draw_all(documents), cover)


def _draw_all(documents: list[dict[str, Any]]) -> dict[str, Picture]:
    _check_documents(documents)
    drawn: dict[str, Picture] = {}
    for part in (document["findings"] for document in documents):
        labels = list(dict.fromkeys(label for figure in part["figures"] for label in labels_of(figure)))
        agreed = labels if len(labels) <= len(PALETTE) else []  # with more of them, a figure's own must differ first
        drawn |= {f"{part['name']}-{figure['name']}": draw(figure, agreed) for figure in part["figures"]}
    return drawn


def _page(documents: list[dict[str, Any]], drawn: dict[str, Picture], cover: Cover) -> str:
    parts = [document["findings"] for document in documents]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{_text(cover.title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>",
            f"<h1>{_text(cover.title)}</h1>\n<p>{_text(cover.about)}</p>",
            _overview(cover.overview or _statements(documents)),
            '<nav aria-labelledby="contents">\n<h2 id="contents">Contents</h2>\n<ol>',
            *(_contents(findings) for findings in parts),
            "</ol>\n</nav>",
            *(_part(document, drawn) for document in documents),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _check_documents(documents: list[dict[str, Any]]) -> None:
    if not documents:
        raise ArgumentError("there are no results to report; run an experiment first")
    for document in documents:
        missing = [key for key in _NEEDED if key not in document]
        if missing:
            raise ArgumentError(f"a results document lacks {', '.join(missing)}; run its experiment again")
        validate(document["findings"])
    names = [document["findings"]["name"] for document in documents]
    if len(set(names)) < len(names):
        raise ArgumentError(f"there are two results of one name among {', '.join(names)}; give each once")


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as beside:
        beside.write_bytes(content)


def _csv(table: Table) -> bytes:
    """The table with all digits; None is an empty cell."""
    columns = table["columns"]
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(
        [f"{column['name']} ({column['unit']})" if "unit" in column else column["name"] for column in columns]
    )
    rows.writerows(table["rows"])
    return written.getvalue().encode()


def _text(value: object) -> str:
    return html.escape(printable(str(value)))


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _duration(seconds: float) -> str:
    """As a person would say it.

    >>> _duration(0.04), _duration(12.3), _duration(312.4), _duration(7290)
    ('0.04 s', '12.3 s', '5 min 12 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _overview(table: Table) -> str:
    return f'<section aria-labelledby="overview">\n<h2 id="overview">At a glance</h2>\n{_grid(table)}\n</section>'


def _statements(documents: list[dict[str, Any]]) -> Table:
    """How many statements were seen, by part; questions of our own, where there are any, are counted by themselves."""
    rows, names = [], ["part", *VERDICTS.values(), "time"]
    asked = any(check.get("ours") for document in documents for check in document["findings"]["checks"])
    names[-1:-1] = [f"{OURS}s"] * asked
    for document in documents:
        checks = document["findings"]["checks"]
        theirs = [check["seen"] for check in checks if not check.get("ours")]
        counts = [sum(verdict is seen for verdict in theirs) for seen in VERDICTS]
        counts += [len(checks) - len(theirs)] * asked
        rows.append([document["findings"]["title"], *counts, _duration(document["seconds"])])
    return {"title": "Statements", "columns": [{"name": name} for name in names], "rows": rows}


def _contents(findings: Findings) -> str:
    name = findings["name"]
    inner = [("checks", "Statements")] if findings["checks"] else []
    inner += [(f"table-{table['name']}", table["title"]) for table in findings["tables"]]
    inner += [(f"figure-{figure['name']}", figure["title"]) for figure in findings["figures"]]
    inner += [("notes", "Notes")] if findings["notes"] else []
    items = "".join(f'<li><a href="#{name}-{place}">{_text(title)}</a></li>' for place, title in inner)
    return f'<li><a href="#{name}">{_text(findings["title"])}</a><ul>{items}</ul></li>'


def _part(document: dict[str, Any], drawn: dict[str, Picture]) -> str:
    findings = document["findings"]
    name = findings["name"]
    pieces = [f'<section id="{name}">\n<h2>{_text(findings["title"])}</h2>']
    said = document.get("said", {})
    pieces += [f"<p><strong>{_text(word)}:</strong> {_text(text)}</p>" for word, text in said.items()]
    pieces.append(_made(document))
    if findings["checks"]:
        pieces.append(f'<h3 id="{name}-checks">Statements</h3>\n<ul class="checks">')
        pieces += [*map(_check, findings["checks"]), "</ul>"]
    for table in findings["tables"]:
        pieces += [f'<h3 id="{name}-table-{table["name"]}">{_text(table["title"])}</h3>', _grid(table)]
        pieces += [f"<p>{_text(table['note'])}</p>"] if "note" in table else []
        file = f"{name}-{table['name']}.csv"
        pieces.append(f'<p class="file"><a download="{file}" href="{_data("text/csv", _csv(table))}">{file}</a></p>')
    pieces += [_figure(name, figure, drawn[f"{name}-{figure['name']}"]) for figure in findings["figures"]]
    if findings["notes"]:
        notes = "".join(f"<li>{_text(note)}</li>" for note in findings["notes"])
        pieces.append(f'<h3 id="{name}-notes">Notes</h3>\n<ul class="notes">{notes}</ul>')
    return "\n".join([*pieces, "</section>"])


def _made(document: dict[str, Any]) -> str:
    """How a part was made."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    options = ", ".join(f"{name} {_option(value)}" for name, value in document["options"].items())
    entries = [
        ("command", f"<code>{_text(document['command'])}</code>"),
        ("time", _text(_duration(document["seconds"]))),
        ("options", _text(options)),
        ("versions", _text(versions)),
    ]
    return "<dl>" + "".join(f"<dt>{term}</dt><dd>{said}</dd>" for term, said in entries if said) + "</dl>"


def _option(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _check(check: Check) -> str:
    verdict = VERDICTS[check["seen"]]
    kind, asked = ("not-judged", f"<small>{OURS}</small>") if check.get("ours") else (verdict.replace(" ", "-"), "")
    return (
        f'<li class="{kind}"><span class="verdict"><span aria-hidden="true">'
        f"{_SIGNS[check['seen']]}</span> {verdict}{asked}</span>"
        f"<div>{_text(check['statement'])}<p>{_text(check['why'])}</p></div></li>"
    )


def _grid(table: Table) -> str:
    """A table in a box of its own that scrolls sideways; its first column stays in sight."""
    columns = table["columns"]
    kinds = [_kind([row[place] for row in table["rows"]]) for place in range(len(columns))]
    heads = [
        f'<th scope="col"{kind}>{_text(column["name"])}'
        + (f"<small>{_text(column['unit'])}</small></th>" if "unit" in column else "</th>")
        for column, kind in zip(columns, kinds, strict=True)
    ]
    tall = " tall" if len(table["rows"]) > _TALL else ""
    lines = [f'<div class="scroll{tall}" role="region" tabindex="0" aria-label="{_text(table["title"])}"><table>']
    lines.append(f"<thead><tr>{''.join(heads)}</tr></thead><tbody>")
    for row in table["rows"]:
        cells = [_text(shown(value, column.get("digits"))) for value, column in zip(row, columns, strict=True)]
        first = f'<th scope="row"{kinds[0]}>{cells[0]}</th>'
        rest = (f"<td{kind}>{cell}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True))
        lines.append(f"<tr>{first}{''.join(rest)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _kind(values: list[Any]) -> str:
    """How a column is set: numbers to the right, text to the left, and long text in several lines."""
    if not is_textual(values):
        return ' class="number"'
    return ' class="long"' if max(len(shown(value)) for value in values) > _LONG else ""


def _figure(name: str, figure: Figure, picture: Picture) -> str:
    """A figure twice, for wide and for narrow screens; the browser takes the one that fits."""
    wide, narrow = (_data("image/svg+xml", svg) for svg in (picture.wide_svg, picture.narrow_svg))
    hidden = not_shown(figure)
    caption = figure["caption"] + (f" Points not shown, for they are not above 0: {hidden}." if hidden else "")
    return (
        f'<h3 id="{name}-figure-{figure["name"]}">{_text(figure["title"])}</h3>\n<figure><picture>'
        f'<source media="(max-width: 50rem)" srcset="{narrow}"><img src="{wide}" alt="{_text(figure["title"])}">'
        f"</picture><figcaption>{_text(caption)}</figcaption></figure>"
    )


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_CSS = """
:root { color-scheme: light dark; --ink: #1d1f23; --soft: #5a6069; --paper: #fff; --box: #f5f6f8; --line: #d5d9df;
  --shade: #0003; --link: #00549f; --seen: #00664b; --not-seen: #a63c00; --not-judged: #5a6069; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7ea; --soft: #a7adb7; --paper: #16181c; --box: #22252b;
  --line: #3d424b; --shade: #000c; --link: #8cc2ff; --seen: #5fd3ae; --not-seen: #ffa06b; --not-judged: #a7adb7; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 75rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
p, dl, nav, figcaption, .checks, .notes { max-width: 46rem; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; margin: 0 0 .8rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .8rem; }
section[id] > h2 { border-top: 1px solid var(--line); padding-top: 1.5rem; }
h3 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
a { color: var(--link); }
nav ul { padding-left: 1.2rem; color: var(--soft); }
nav > ol { padding-left: 1.5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; font-size: .875rem; }
dt, .file { color: var(--soft); }
dd { margin: 0; }
code { font: .9em ui-monospace, monospace; background: var(--box); padding: .1em .35em; border-radius: .25em; }
.scroll { overflow-x: auto; max-width: 100%; width: fit-content; border: 1px solid var(--line); border-radius: .4rem;
  background: linear-gradient(to left, var(--paper) 1rem, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--shade), transparent) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .8125rem; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .45rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
td, tbody th { white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { vertical-align: bottom; line-height: 1.3; background: var(--box); }
tbody th { font-weight: 600; }
th:first-child { position: sticky; left: 0; background: var(--box); }
.tall { max-height: 36rem; overflow-y: auto; }
.tall thead { position: sticky; top: 0; z-index: 1; }
small { display: block; font-weight: 400; color: var(--soft); }
.number { text-align: right; }
.long { white-space: normal; min-width: 14rem; }
.file { font-size: .8125rem; margin: .4rem 0 0; }
.checks { list-style: none; margin: 0; padding: 0; }
.checks li { display: grid; grid-template-columns: 8rem 1fr; gap: .2rem 1rem; padding: .6rem 0;
  border-bottom: 1px solid var(--line); }
.checks p { margin: .2rem 0 0; color: var(--soft); font-size: .9375rem; }
.verdict { font-weight: 700; }
.seen .verdict { color: var(--seen); }
.not-seen .verdict { color: var(--not-seen); }
.not-judged .verdict { color: var(--not-judged); }
.notes { padding-left: 1.2rem; }
.notes li + li { margin-top: .5rem; }
figure { margin: 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
figcaption { font-size: .9375rem; color: var(--soft); margin-top: .5rem; }
@media (max-width: 50rem) {
  figure img { width: 100%; }
  .checks li { grid-template-columns: 1fr; }
  tbody th, th.long { white-space: normal; overflow-wrap: break-word; min-width: 0; max-width: 33vw; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; }
}
@media (prefers-color-scheme: dark) { figure img { padding: .5rem; } }
@media print { .scroll { overflow: visible; max-height: none; } }
"""
