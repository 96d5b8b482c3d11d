"""The tutorial's command lines, run as they stand on the page, in an empty folder. Its Python is run as a doctest."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()


def commands(page):
    """Every command line of the page, and the lines that the page shows below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
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
        for line in lines:
            assert is_shown(line, err + out), f"{command}\nshows no line: {line}\nbut:\n{err}{out}"
    book = re.search(r"<!-- code-book.schema.json -->\n```json\n(.*?)```", PAGE, re.S)
    assert book[1] == Path("code-book.schema.json").read_text()
    head = re.search(r'^```\n("patient_id",.*?)```', PAGE, re.M | re.S)
    assert Path("hospital.csv").read_text().startswith(head[1])
    scores = Path("colleague.scores.csv").read_text().splitlines()
    assert len(scores) == 2001 and re.match(r'"Q\d{6}",', scores[1])


@pytest.mark.parametrize(
    ("line", "shown"),
    [("wrote a.csv", True), ("wrote b.csv", False), ("2,000 rows: ...", True), ("... rows: 3 predicted", False)],
)
def test_a_wrong_line_is_found(line, shown):
    assert is_shown(line, "wrote a.csv\n2,000 rows: 5 predicted 'yes'\n") == shown
