"""The tutorials' command lines, run as they stand on the page, in an empty folder. Their Python is run as a doctest."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv

import radoboost as rb

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "tutorial.md").read_text()
HOSPITALS = (DOCS / "several-hospitals.md").read_text()
DOORS = {name: (DOCS / f"{name}.md").read_text() for name in ("sent-a-release", "first-model")}


def commands(page):
    """Every command line of the page, and the lines that the page shows below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for line in block.splitlines():
            if prompt := re.match(r"\w*\$ ", line):
                found.append((line[prompt.end() :], []))
            else:
                found[-1][1].append(line)
    return found


def is_shown(line, output):
    """Whether a line of the page is one of the output; three dots stand for whatever may differ."""
    pattern = ".*".join(re.escape(piece) for piece in line.rstrip().split("..."))
    return any(re.fullmatch(pattern, shown.rstrip()) for shown in output.splitlines())


def test_the_tutorial_has_ten_lines_and_each_shows_something():
    lines = [command for command, _ in commands(PAGE)]
    assert len(lines) == 10 and all(line.startswith("rado ") for line in lines)
    assert all(shown for _, shown in commands(PAGE))
    assert re.findall(r"--epsilon (\S+)", PAGE) == ["1"] and "one record added or removed" in PAGE


def test_every_command_of_the_tutorial_does_what_the_page_says(rado):
    for command, lines in commands(PAGE):
        code, out, err = rado(*shlex.split(command)[1:])
        assert code == 0, f"{command}: {err}"
        check_shown(command, lines, err + out)
    book = re.search(r"<!-- code-book.schema.json -->\n```json\n(.*?)```", PAGE, re.S)
    assert book[1] == Path("code-book.schema.json").read_text()
    head = re.search(r'^```\n("patient_id",.*?)```', PAGE, re.M | re.S)
    assert Path("hospital.csv").read_text().startswith(head[1])
    scores = Path("colleague.scores.csv").read_text().splitlines()
    assert len(scores) == 2001 and re.match(r'"Q\d{6}",', scores[1])


@pytest.mark.slow
def test_every_command_behind_the_other_doors_does_what_the_page_says(rado):
    """Both pages begin with the same release, under another name; it is crafted once."""
    model, sent = (commands(DOORS[name]) for name in ("first-model", "sent-a-release"))
    assert [command.replace("sent.rado", "hospital.rado") for command, _ in sent[:2]] == [line for line, _ in model[:2]]
    shown = {}
    for command, lines in [*model, *sent[2:]]:
        if command == "rado show sent.rado.parquet":
            shutil.copy("hospital.rado.parquet", "sent.rado.parquet")
        code, out, err = rado(*shlex.split(command)[1:])
        assert code == 0 and lines, f"{command}: {err}"
        check_shown(command, lines, err + out)
        shown[command] = out
    statement = shown["rado show sent.rado.parquet"].splitlines()
    quoted = re.search(r"^```\n(  - An adversary.*?)^```", DOORS["sent-a-release"], re.M | re.S)[1].splitlines()
    assert len(quoted) == 6 and set(quoted) <= set(statement)
    for place in ("What is promised", "What is not protected", "trust", "random bits"):
        assert f"*{place}*" in DOORS["sent-a-release"] and any(line.startswith(place) for line in statement)


@pytest.mark.slow
def test_every_command_of_the_several_hospitals_does_what_the_page_says(rado):
    waiting = []
    for command, lines in commands(HOSPITALS):
        if command.startswith("rado room join"):  # all at the same time; each answers that the code is right
            words = [sys.executable, "-m", "radoboost", *shlex.split(command)[1:]]
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = subprocess.Popen(words, text=True, **pipes)
            process.stdin.write("y\n")
            process.stdin.close()
            process.stdin = None
            waiting.append((process, command, [line.removesuffix(" y") for line in lines]))
            continue
        for process, joined, shown in waiting:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, f"{joined}: {err}"
            check_shown(joined, shown, err + out)
        waiting = []
        code, out, err = rado(*shlex.split(command)[1:])
        assert code == 0, f"{command}: {err}"
        check_shown(command, lines, err + out)
    files = {Path(name, "joint.rado.parquet").read_bytes() for name in ("north", "south", "east", "west", "coast")}
    assert len(files) == 1
    joint, merged = (errors_of(f"{name}.model.json") for name in ("joint", "merged"))
    assert abs(joint - 0.24) < 0.05 and abs(merged - 0.24) < 0.05  # as the page says; draws differ by 0.01


def errors_of(model):
    """The share of the colleague's patients about whom a model is wrong."""
    table = csv.read_csv("colleague.csv")
    return (rb.load_model(model).predict(table) != np.array(table["outcome"].to_pylist())).mean()


def check_shown(command, lines, output):
    for line in lines:
        assert is_shown(line, output), f"{command}\nshows no line: {line}\nbut:\n{output}"


@pytest.mark.parametrize(
    ("line", "shown"),
    [("wrote a.csv", True), ("wrote b.csv", False), ("2,000 rows: ...", True), ("... rows: 3 predicted", False)],
)
def test_a_wrong_line_is_found(line, shown):
    assert is_shown(line, "wrote a.csv\n2,000 rows: 5 predicted 'yes'\n") == shown
