"""Every error is one line, wherever it is raised: by its text in the source, and as people meet it."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import radoboost as rb
from radoboost import errors

PACKAGE = Path(rb.__file__).parent
NAMES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}


def messages_of_several_lines(source):
    """The lines on which an error is made from a literal text with a line end in it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in NAMES:
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            found += [node.lineno for text in texts if isinstance(text, str) and re.search(r"[\n\r]", text)]
    return found


def test_no_message_in_the_source_has_a_line_end():
    found = {str(file): messages_of_several_lines(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")}
    assert len(found) > 100 and not {file: lines for file, lines in found.items() if lines}


@pytest.mark.parametrize("planted", ['raise TableError("a\\nb")', 'errors.ArgumentError(f"{x}: \\n{y}")'])
def test_a_planted_line_end_is_found(planted):
    assert messages_of_several_lines(planted) == [1]


@pytest.mark.parametrize(
    "fails",
    [
        lambda folder: rb.craft(np.eye(2), [0, 0]),
        lambda folder: rb.craft(np.eye(2), [0, 1], n_rados=0),
        lambda folder: rb.craft(folder / "none.csv", label="y"),
        lambda folder: rb.craft({"a": [1.0, 2.0], "y": [0, 1]}, label="no\nsuch"),
        lambda folder: rb.craft({"a\nb": ["x", "y"], "y": [0, 1]}, label="y"),
        lambda folder: rb.load(folder / "none.rado.parquet"),
        lambda folder: rb.load_model(folder / "none.json"),
        lambda folder: rb.Moments(-1.0),
        lambda folder: rb.Ledger(folder / "none.ledger"),
    ],
)
def test_errors_are_one_line(fails, tmp_path):
    with pytest.raises(rb.RadoError) as caught:
        fails(tmp_path)
    assert str(caught.value) and len(str(caught.value).splitlines()) == 1
