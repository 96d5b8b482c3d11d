"""The site: doors, kinds of pages, install lines, and the program that checks what was built."""

import importlib
import inspect
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import radoboost as rb

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
HOME = (DOCS / "index.md").read_text()
README = (ROOT / "README.md").read_text()
NAV = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
DOORS = {
    "I hold a table": "tutorial.md",
    "I was sent a release": "sent-a-release.md",
    "I want to learn": "first-model.md",
}


def kinds():
    """The pages of each kind, as the navigation has them."""
    parts = re.split(r"^  - ([\w-]+):", NAV, flags=re.M)[1:]
    return {
        name: re.findall(r"([\w/-]+\.md)$", pages, re.M) for name, pages in zip(parts[::2], parts[1::2], strict=True)
    }


def test_pages_are_of_four_kinds_or_proofs_or_results_and_each_is_there_once():
    pages = kinds()
    assert list(pages) == ["Home", "Tutorials", "How-to", "Reference", "Explanation", "Proofs", "Results"]
    listed = [page for group in pages.values() for page in group]
    assert sorted(listed) == sorted({"cli.md", *(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))})
    assert {"cli.md", "api.md", "file-format.md", "schema.md"} <= set(pages["Reference"])
    assert {"ideas.md", "flow.md", "exactness.md", "privacy.md"} <= set(pages["Explanation"])
    assert {"reproduction.md", "choosing-epsilon.md"} <= set(pages["Results"])
    assert all(page.startswith("proofs/") == (page in pages["Proofs"]) for page in listed)
    for page in set(listed) - {"cli.md"}:  # written when the site is built
        first = re.search(r"^# (.+)", (DOCS / page).read_text(), re.M)
        assert first, f"{page} has no title"


def test_three_doors_lead_to_a_tutorial_or_a_how_to():
    pages = kinds()
    cards = re.search(r'<div class="grid cards doors" markdown>(.*?)</div>', HOME, re.S)[1]
    behind = re.findall(r"^- \*\*(.+?)\*\*$.*?\*\*\[.+?\]\((.+?)\)\*\*", cards, re.M | re.S)
    assert dict(behind) == DOORS and len(behind) == 3
    assert set(DOORS.values()) <= {*pages["Tutorials"], *pages["How-to"]}
    at_home = re.search(r"## Three doors\n(.*?)\n## ", README, re.S)[1]
    assert dict(re.findall(r"^- \*\*(.+?)\*\*: \[.+?\]\(docs/(.+?)\)", at_home, re.M)) == DOORS


def test_the_sites_own_templates_are_there_and_kept():
    """A line `site/` in .gitignore would leave them out of the repository, and `make docs` would fail elsewhere."""
    folder = ROOT / re.search(r"^  custom_dir: (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.M)[1]
    templates = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / "main.html" in templates
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or there is no git")
    ignored = ["git", "check-ignore", "--no-index", "--verbose", *map(str, templates)]
    asked = subprocess.run(ignored, cwd=ROOT, capture_output=True, text=True)
    assert (asked.returncode, asked.stdout) == (1, ""), asked.stdout + asked.stderr


def test_the_template_loads_our_program_for_search_from_disk_and_not_the_themes():
    text = (DOCS / "templates" / "site" / "main.html").read_text()
    block = re.search(r"{% block libs %}(.*?){% endblock %}", text, re.S)[1]
    assert "super()" not in block  # the theme's block loads a program from another machine
    assert [(DOCS / place).is_file() for place in re.findall(r"{{ '(.+?)' \| url }}", block)] == [True]


def test_both_first_pages_have_the_same_install_lines():
    lines = [re.search(r"## Install\n(.*?)\n## ", page, re.S)[1].split("```")[1:4:2] for page in (HOME, README)]
    assert lines[0] == lines[1]
    assert lines[0][0].strip() == "python -m pip install ."
    assert "python -m build --wheel" in lines[0][1] and "pip install dist/radoboost-*.whl" in lines[0][1]
    extras = (ROOT / "pyproject.toml").read_text().split("optional-dependencies]")[1].split("\n[")[0]
    named = {name for row in re.findall(r"^\| (`.+?) \|", HOME, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert named == {*re.findall(r"^(\w+) = \[", extras, re.M)} - {"test", "docs"}


def test_nobody_is_told_to_install_from_an_index():
    """The package is on none; messages say it by `install`, and pages link to where it is said."""
    texts = [*DOCS.rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    wrong = re.compile(r"pip install\b[^\n]*\bradoboost(\[|\s|'|\"|`|$)")
    names = [path.name for path in texts for line in path.read_text().splitlines() if wrong.search(line)]
    assert names == []
    assert "'.[attacks,room]'" in HOME.partition("## Extras")[2]


def test_figures_beside_the_picture_are_those_of_its_run(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("demo_page")
    assert page.rendered() == README, "run benchmarks/demo_page.py --report"


def test_the_narrow_picture_shows_thirds_of_the_wide_one():
    width, height = struct.unpack(">II", (DOCS / "demo.png").read_bytes()[16:24])
    third = re.search(r"aspect-ratio: (\d+) / (\d+);", (DOCS / "assets" / "site.css").read_text())
    assert (width, height) == (3 * int(third[1]), int(third[2]))


def test_the_page_on_the_paper_has_its_pictures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("reproduction_page")
    paths = [path for document in page.documents().values() for path in page.pictured(document)]
    assert len(paths) == 7 and all(path.read_bytes().startswith(b"<?xml") for path in paths)


def test_examples_after_parameters_have_a_heading():
    """Without one the reference takes their lines for parameters."""
    for name in rb.__all__:
        sections = (inspect.getdoc(getattr(rb, name)) or "").partition("Parameters\n----------\n")[2]
        assert ">>> " not in sections or "Examples\n--------\n" in sections, name


# ---- the program that checks the site


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("check_site")


@pytest.fixture
def site(check, tmp_path):
    """A root with a small site that has no fault."""
    for name in check.BESIDE:
        (tmp_path / name).write_text("[a](docs/a.md#there) [b](LICENSE)\n```\n[no](link)\n```\n")
    (tmp_path / "LICENSE").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").touch()
    pages = tmp_path / "site"
    (pages / "search").mkdir(parents=True)
    found = [{"title": "All", "text": " ".join(check.SOUGHT)}]
    (pages / "search" / "search_index.json").write_text(json.dumps({"docs": found}))
    (pages / "index.html").write_text('<a href="a.html#there">a</a><a href="https://elsewhere.example/">e</a>')
    (pages / "a.html").write_text(
        '<h2 id="there">T</h2><link rel="stylesheet" href="a.css"><img src="data:image/png,">'
    )
    (pages / "a.css").write_text("a {background: url(a.html)}")
    return tmp_path


def test_a_site_without_faults_has_none(check, site):
    assert check.faults_of(site, site / "site") == []


@pytest.mark.parametrize(
    ("file", "added", "fault"),
    [
        ("site/a.html", '<a href="b.html">b</a>', "a.html: b.html leads to no file"),
        ("site/a.html", '<a href="#nowhere">n</a>', "a.html: #nowhere leads to no place on that page"),
        ("site/index.html", '<a href="a.html#no">n</a>', "index.html: a.html#no leads to no place on that page"),
        ("site/a.html", '<img src="gone.png">', "a.html: gone.png leads to no file"),
        ("site/a.html", '<picture><source srcset="gone.svg 1x"></picture>', "a.html: gone.svg leads to no file"),
        ("site/c.html", "<p>alone</p>", "c.html: no link leads to it"),
        ("site/a.html", '<script src="https://x.example/y.js"></script>', "a.html: loads https://x.example/y.js"),
        ("site/a.html", '<link rel="preconnect" href="//x.example">', "a.html: loads //x.example"),
        ("site/a.html", '<p style="background: url(http://x.example/y)">', "a.html: loads http://x.example/y"),
        ("site/a.css", '@import "https://x.example/y.css";', "a.css: loads https://x.example/y.css"),
        ("README.md", "[c](docs/c.md)", "README.md: docs/c.md leads to no file"),
        ("README.md", "[c](docs/a.md#no)", "README.md: docs/a.md#no leads to no place on that page"),
    ],
)
def test_each_fault_is_found(check, site, file, added, fault):
    path = site / file
    path.write_text((path.read_text() if path.exists() else "") + added)
    assert check.faults_of(site, site / "site") == [fault]


def test_what_search_does_not_find_is_named(check, site):
    index = site / "site" / "search" / "search_index.json"
    index.write_text(index.read_text().replace("one-hot", "one"))
    assert check.faults_of(site, site / "site") == ["search does not find 'one-hot'"]
