"""Benchmarks fit the package, `make bench` has all of them, and their kept results name no place on a machine."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = {file.stem: file for file in sorted((ROOT / "benchmarks").glob("*.py"))}
NOT_MEANT = {"gpu", "versions", "library_peers"}  # for a device, for many environments, and for one of peers


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_is_a_program_or_part_of_one_and_what_it_takes_from_the_package_is_there(name):
    tree = ast.parse(SCRIPTS[name].read_text())
    compile(tree, name, "exec")
    runs = any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)
    others = (file.read_text() for other, file in SCRIPTS.items() if other != name)
    assert runs or any(re.search(rf"\b{name}\b", text) for text in others)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "radoboost":
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")


def test_make_bench_runs_each_benchmark_once():
    """All that can be run by themselves, but parts of another one, what writes pages, and what is not meant."""
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "for name in" in line)
    names = re.search("for name in (.*?);", line)[1].split()
    assert len(names) == len(set(names))
    runnable = {name for name, file in SCRIPTS.items() if 'if __name__ == "__main__":' in file.read_text()}
    parts = {name for name in runnable if any(name.startswith(f"{other}_") for other in names if other in SCRIPTS)}
    pages = {name for name in runnable if name.endswith("_page")}
    assert set(names) - parts == runnable - parts - pages - NOT_MEANT


def test_commands_of_results_name_no_place_on_a_machine():
    texts = [file.read_text() for file in (ROOT / "experiments" / "results").rglob("*.json")]
    commands = [line for text in texts for line in re.findall(r'"command": "(.*)"', text)]
    assert len(commands) > 20
    assert [line for line in commands if re.search(r"(^|[ =])[/~]", line)] == []
