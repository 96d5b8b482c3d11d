"""The site: its own templates, and the program that checks what was built."""

import importlib
import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import radoboost as rb

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


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


def test_nobody_is_told_to_install_from_an_index():
    """The package is on none; messages say it by `install`, and pages link to where it is said."""
    texts = [*DOCS.rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    wrong = re.compile(r"pip install\b[^\n]*\bradoboost(\[|\s|'|\"|`|$)")
    names = [path.name for path in texts for line in path.read_text().splitlines() if wrong.search(line)]
    assert names == []


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
