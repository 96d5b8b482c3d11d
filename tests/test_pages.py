"""Findings as data, on the screen, and as files: nothing lost, nothing fetched, nothing that a name could break."""

import base64
import dataclasses
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import markupsafe
import matplotlib
import numpy as np
import pytest

from radoboost.errors import ArgumentError, OutputError
from radoboost.report import html, terminal
from radoboost.report.documents import Document, documents_in_folder, read_document, write_document
from radoboost.report.findings import STYLES, Band, Check, Figure, Findings, Panel, ReportColumn, ReportTable, Series
from radoboost.report.plots import draw_figure

HOSTILE = "<script>alert(\"1\")</script> & 'b' $x_{$ \x1b[31m --> 漢"
SAFE = HOSTILE.replace("\x1b", "\ufffd")
COVER = html.PageHeader(f"All of {HOSTILE}", "What came out.")


def sample(name="table1", domain="banknote"):
    columns = [
        "domain",
        "rows",
        ReportColumn("error", "%", 2),
        ReportColumn("p", digits=3),
        ReportColumn("ratio"),
        "signed",
    ]
    rows = [
        [domain, 1372, 2.714, 0.0004, 0.1234567, True],
        ["wine", np.int64(98_765), np.float64(31.0), float("nan"), 1e-9, np.bool_(False)],
        ["sonar", 0, -0.0, 1.0, -2.5, None],
    ]
    lines = [
        Series(domain, [1, 10, 100], [3.0, None, 1.0], error=[0.1, None, 0.3], marked=[0]),
        Series("far", np.linspace(1, 100, 40), np.linspace(1, 3, 40), error=np.full(40, 0.2), style="dashed"),
        Series("steps", [1, 10], [0.0, 2.0], style="step"),
        Series("level", [], [2.0], error=[0.1], style="flat"),
    ]
    words = [Series("ours", [domain, "wine"], [1, 2], style="points"), Series("theirs", ["wine"], [2], style="points")]
    return Findings(
        name,
        f"The title of {domain}",
        tables=[
            ReportTable("errors", f"Errors of {domain}", columns, rows, f"A note on {domain}."),
            ReportTable("no-rows", "E", ["a"], []),
        ],
        figures=[
            Figure(
                "curves",
                f"Curves of {domain}",
                f"By size, {domain}.",
                [
                    Panel(
                        domain,
                        "size",
                        "error, %",
                        lines,
                        log_x=True,
                        log_y=True,
                        bands=[Band("far", [1, 9], [1, 1], [2, 2])],
                    ),
                    Panel("by domain", domain, "", words),
                ],
            )
        ],
        checks=[
            Check(f"{domain} {word}", seen, f"why {word}") for word, seen in (("a", True), ("b", False), ("c", None))
        ],
        notes=[f"A remark about {domain}."],
    )


def document(findings, command="rado reproduce table1"):
    versions = {"radoboost": "0.1.0", "numpy": "2.2.1"}
    options = {"domains": ["banknote", "wine"], "seed": 0, "quick": True}
    return Document(command, versions, 71.5, options, findings)


class Reader(HTMLParser):
    """A page as tags, links, tables of cell texts, and text."""

    VOID = ("meta", "br", "img", "source")

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.tables, self.text, self.style = [], [], [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), tuple(self.open)))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == "style":
            self.style += text
        elif self.open and self.open[-1] in ("th", "td"):
            self.tables[-1][-1][-1] += text
        else:
            self.text.append(text)

    def links(self):
        for tag, attributes, _ in self.tags:
            for name in ("href", "src", "srcset", "action", "poster", "data"):
                if name in attributes:
                    yield tag, attributes[name]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    output = tmp_path_factory.mktemp("pages")
    documents = [document(sample()), document(sample("gaussian", HOSTILE), f"rado {HOSTILE}")]
    html.write_html(output, [Document.from_dict(json.loads(json.dumps(one.to_dict()))) for one in documents], COVER)
    return output, documents, Reader((output / "report.html").read_text())


def test_findings_survive_json():
    findings = sample()
    assert Findings.from_dict(json.loads(json.dumps(findings.to_dict(), allow_nan=False))) == findings
    assert findings.tables[0].rows[1] == ("wine", 98765, 31.0, None, 1e-9, False)
    assert {type(cell) for row in findings.tables[0].rows for cell in row} == {str, int, float, bool, type(None)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        findings.tables[0].title = "another"


RESULTS = Path(__file__).parent.parent / "experiments" / "results"
KEPT = sorted([*(RESULTS / "reproduce").glob("*.json"), *(RESULTS / "attacks").glob("*.json")])


@pytest.mark.parametrize("place", KEPT, ids=lambda place: f"{place.parent.name}-{place.stem}")
def test_kept_documents_load_and_are_written_as_they_are(place, tmp_path):
    document = read_document(place)
    write_document(tmp_path, document)
    assert (tmp_path / place.name).read_bytes() == place.read_bytes()
    assert documents_in_folder(tmp_path, (place.stem, "nothing")) == [document]


@pytest.mark.parametrize(
    "wrong",
    [{"name": "../elsewhere"}, {"extra": []}, {"tables": 3}, {"tables": [{}]}, {"checks": [{"statement": "yes"}]}],
)
def test_wrong_documents_are_refused(wrong, tmp_path):
    data = {**sample().to_dict(), **wrong}
    with pytest.raises(ArgumentError):
        Findings.from_dict(data)
    (tmp_path / "table1.json").write_text(json.dumps({**document(sample()).to_dict(), "findings": data}))
    with pytest.raises(OutputError, match=r"cannot read .*table1\.json, from an earlier run"):
        documents_in_folder(tmp_path, ("table1",))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ReportTable("a b", "T", ["x"], []), "reporttable"),
        (lambda: ReportTable("a", "T", ["x"], [[1], [1, 2]]), "reporttable: row 1"),
        (lambda: Series("a", [1, 2], [1]), "series: x"),
        (lambda: Series("a", [1, 2], [1, 2], error=[1]), "series: error"),
        (lambda: Series("a", [1], [1], style="bars"), "series: style"),
        (lambda: Band("a", [1, 2], [1, 2], [1]), "band"),
        (lambda: Findings("a", "A", tables=[ReportTable("t", "T", ["x"], [])] * 2), "findings: names"),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_made(make, said):
    with pytest.raises(ArgumentError, match=f"^{said}"):
        make()


def test_documents_are_checked(tmp_path):
    whole = document(sample())
    for documents in ([], [whole, whole]):
        with pytest.raises(ArgumentError):
            html.write_html(tmp_path, documents, COVER)
    for data in ({**whole.to_dict(), "findings": None}, {"findings": sample().to_dict()}, [], None):
        with pytest.raises(ArgumentError):
            Document.from_dict(data)
    assert not any(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot make the directory"):
        html.write_html(tmp_path / "file", [document(Findings("theory", "Theory"))], COVER)


def test_the_page_holds_every_cell_of_every_table(written):
    _, documents, reader = written
    expected = [table for document in documents for table in document.findings.tables]
    assert len(reader.tables) == 1 + len(expected)  # one is the overview
    for found_table, given in zip(reader.tables[1:], expected, strict=True):
        assert [re.sub("%$", "", head) for head in found_table[0]] == [column.name for column in given.columns]
        assert len(found_table) == 1 + len(given.rows)
        for cells, row in zip(found_table[1:], given.rows, strict=True):
            for cell, value, column_ in zip(cells, row, given.columns, strict=True):
                _check_cell(cell, value, column_.digits)


def _check_cell(cell, value, digits):
    """By other means than those that wrote it."""
    if value is None:
        assert cell == "\u2013"
    elif isinstance(value, bool):
        assert cell == ("yes" if value else "no")
    elif isinstance(value, str):
        assert cell == value.replace("\x1b", "\ufffd")
    elif cell.startswith("<"):
        assert 0 < value < float(cell[1:]) == 10**-digits
    else:
        number = cell.replace(",", "")
        assert float(number) == pytest.approx(value, rel=1e-5, abs=0.5000001 * 10**-digits if digits is not None else 0)
        assert digits is None or len(number.partition(".")[2]) == digits
        assert not (value == 0 and "-" in cell)


def test_the_overview_counts_and_checks_are_told_text(written):
    _, _, reader = written
    assert reader.tables[0] == [
        ["part", "seen", "not seen", "not judged", "time"],
        ["The title of banknote", "1", "1", "1", "1 min 12 s"],
        [f"The title of {SAFE}", "1", "1", "1", "1 min 12 s"],
    ]
    verdicts = [text.strip() for text in reader.text if text.strip() in ("seen", "not seen", "not judged")]
    assert verdicts == ["seen", "not seen", "not judged"] * 2


def test_a_question_of_our_own_is_told_from_the_paper_s():
    """On the screen, on the page and in its count: no "not seen" of ours is laid at the paper's door."""
    checks = [Check("theirs", True, "a"), Check("nobody's but ours", False, "b", ours=True)]
    asked = Findings("theory", "Theory", checks=checks)
    assert "ours" not in checks[0].to_dict() and checks[1].to_dict()["ours"] is True
    assert "not seen    our question: nobody's but ours: b" in terminal.findings_for_terminal(asked).splitlines()
    reader = Reader(html.html_page([document(asked), document(Findings("gaussian", "Noise"))], COVER))
    assert reader.tables[0] == [
        ["part", "seen", "not seen", "not judged", "our questions", "time"],
        ["Theory", "1", "0", "0", "1", "1 min 12 s"],
        ["Noise", "0", "0", "0", "0", "1 min 12 s"],
    ]
    verdicts = [text.strip() for text in reader.text if text.strip() in ("seen", "not seen", "our question")]
    assert verdicts == ["seen", "not seen", "our question"]


def test_a_cover_may_have_an_overview_of_its_own_and_a_part_paragraphs():
    overview = ReportTable("glance", "Glance", ["part", "in a word"], [["theory", HOSTILE]])
    said = dataclasses.replace(document(Findings("theory", "Theory")), said={"In a sentence": HOSTILE})
    cover = html.PageHeader("Attacks", "What they get.", overview, "Lists", {"First": [HOSTILE, "a"], HOSTILE: []})
    shown = html.html_page([said], cover)
    assert shown.count(str(markupsafe.escape(SAFE))) == 4 and "not judged" not in shown.split("</style>")[1]
    assert "<strong>In a sentence:</strong>" in shown and "<script>" not in shown


def test_the_page_tells_how_it_was_made(written):
    _, _, reader = written
    text = " ".join(reader.text)
    for said in (
        "rado reproduce table1", f"rado {SAFE}", "radoboost 0.1.0, numpy 2.2.1", "seed 0", "banknote wine",
        "A note on banknote.", "A remark about banknote.", "By size, banknote.", "why b", f"All of {SAFE}",
        "What came out.",
        "Points not shown, for they are not above 0: 1.",
    ):  # fmt: skip
        assert said in text


def test_the_page_fetches_nothing(written):
    _, _, reader = written
    places = {attributes["id"] for _, attributes, _ in reader.tags if "id" in attributes}
    assert len(places) == sum("id" in attributes for _, attributes, _ in reader.tags)
    pointing = {link[1:] for _, link in reader.links() if link.startswith("#")}
    assert pointing <= places and {"table1", "gaussian", "table1-figure-curves"} <= pointing
    for tag, link in reader.links():
        assert link.startswith("#") or re.match(r"data:(image/svg\+xml|text/csv);base64,", link), (tag, link[:60])
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _, _ in reader.tags}
    assert not re.search(r"url\(|@import|https?:", reader.style)
    assert not any(name.startswith("on") or name == "style" for _, attributes, _ in reader.tags for name in attributes)
    for _, link in reader.links():
        if link.startswith("data:image"):
            picture = base64.b64decode(link.partition(",")[2]).decode()
            assert all(to.startswith(("#", "data:")) for to in re.findall(r'href="([^"]*)"', picture))
            assert "<script" not in picture


def test_hostile_names_are_only_text(written):
    output, _, reader = written
    assert f"The title of {SAFE}" in reader.text
    assert f"{SAFE} a" in reader.text
    raw = (output / "report.html").read_text()
    assert "<script" not in raw and "\x1b" not in raw
    assert "\x1b" not in terminal.findings_for_terminal(sample(domain=HOSTILE))


def test_hostile_text_is_escaped_wherever_it_stands():
    """In every place that takes text: names of columns, units, cells, labels, titles, captions, options, versions."""
    words = [f"<script>{place}</script>\"'&" for place in range(21)]
    text = iter(words)
    table = ReportTable(
        "t", next(text), [next(text), ReportColumn(next(text), next(text))], [[next(text), next(text)]], next(text)
    )
    panel = Panel(next(text), "x", "y", [Series(next(text), [1], [1])])
    figure = Figure("f", next(text), next(text), [panel])
    check = Check(next(text), None, next(text), ours=True)
    findings = Findings("theory", next(text), tables=[table], figures=[figure], checks=[check], notes=[next(text)])
    run = Document(next(text), {"numpy": next(text)}, 1.0, {next(text): [next(text)]}, findings)
    shown = html.html_page([run], html.PageHeader(next(text), next(text)))
    assert "<script" not in shown
    reader = Reader(shown)
    seen = " ".join([*reader.text, *(cell for table in reader.tables for row in table for cell in row)])
    drawn = {panel.title, panel.series[0].label}  # these stand in the picture, as outlines of letters
    assert {word for word in words if word not in seen} == drawn
    attributes = [value for _, attributes, _ in reader.tags for value in attributes.values()]
    assert table.title in attributes and figure.title in attributes
    assert {"script", "b"}.isdisjoint(tag for tag, _, _ in reader.tags)


def test_long_text_is_not_cut_off_on_a_narrow_screen():
    """A table of long text has its cells below each other there, each with the name of its column; one of numbers has
    not, and scrolls."""
    words = ReportTable(
        "w", "W", ["attack", "found", ReportColumn("time", "s")], [["probe", "a sentence that is " * 4, 1.5]]
    )
    numbers = ReportTable(
        "n", "N", ["a long name of a domain that is text only", "b"], [["a long name of a domain " * 2, 1]]
    )
    reader = Reader(html.html_page([document(Findings("theory", "Theory", tables=[words, numbers]))], COVER))
    tables = [attributes.get("class") for tag, attributes, _ in reader.tags if tag == "table"]
    assert tables == [None, "stacked", None]


def test_the_same_results_give_the_same_bytes(written, tmp_path):
    """Also where the user has settings of his own, and again into the same place."""
    output, documents, _ = written
    with matplotlib.rc_context({"font.size": 30, "axes.linewidth": 9, "svg.hashsalt": None}):
        for _ in range(2):
            html.write_html(tmp_path, documents, COVER)
    for file in output.rglob("*"):
        if file.is_file():
            assert (tmp_path / file.relative_to(output)).read_bytes() == file.read_bytes(), file.name
    assert len(list(tmp_path.rglob("*"))) == len(list(output.rglob("*")))


def test_the_screen_shows_tables_checks_and_notes():
    lines = terminal.findings_for_terminal(sample()).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("--"))
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["banknote", "1,372", "2.71", "<0.001", "0.123457", "yes"],
        ["wine", "98,765", "31.00", "\u2013", "1e-09", "no"],
        ["sonar", "0", "0.00", "1.000", "-2.5", "\u2013"],
    ]
    assert {line.index(" 31.00") + 6 for line in lines if " 31.00" in line} == {
        line.index("  2.71") + 6 for line in lines if "  2.71" in line
    }
    assert "not judged  banknote c: why c" in lines and lines[-1] == "A remark about banknote."


def test_a_wide_table_comes_in_pieces():
    columns = ["domain", *(ReportColumn(f"learner number {place}", "%", 2) for place in range(14))]
    wide = ReportTable("wide", "Wide", columns, [["banknote", *(place + 0.25 for place in range(14))]])
    text = terminal.findings_for_terminal(Findings("table1", "T", tables=[wide]))
    assert max(map(len, text.splitlines())) <= 100
    assert len(re.findall("^banknote", text, re.M)) > 1
    assert re.findall(r"\d+\.25", text) == [f"{place}.25" for place in range(14)]


ODD = {
    "nothing": Panel("a", "x", "y", []),
    "only zeros": Panel("a", "x", "y", [Series("a", [1, 2], [0, 0], error=[1, 1], marked=[0])], log_y=True),
    "only a level": Panel("a", "x", "y", [Series("a", [], [3], style="flat")], log_x=True),
    "no label": Panel("", "", "", [Series("", [1], [1]), Series("_a", [1], [2])]),
    "many labels": Panel("a", "x", "y", [Series(f"learner {place}", [1, 2], [place, 1]) for place in range(9)]),
    "wide range": Panel("a", "x", "y", [Series("a", [1e-12, 1, 1e15], [1e-150, 1, 1e90])], log_x=True, log_y=True),
    "all styles": Panel(
        "a", "x", "y", [Series(s, [1, 2], [3, 3], error=[1, 0], style=s) for s in STYLES if s != "flat"]
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_figures_are_drawn(name):
    findings = Findings("theory", "Theory", figures=[Figure("odd", "Odd", "Odd.", [ODD[name]])])
    picture = draw_figure(findings.figures[0])
    assert picture.wide_png and b"</svg>" in picture.wide_svg and b"</svg>" in picture.narrow_svg


def test_nothing_heavy_is_imported_to_report():
    program = (
        "import sys, radoboost.report.html; "
        "print({'matplotlib', 'numba', 'sklearn', 'typer', 'pandas', 'jinja2'} & set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
    )
