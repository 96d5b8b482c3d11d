"""The trust boundary: the holder's side and the learner's side never import each other."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import radoboost

PACKAGE = Path(radoboost.__file__).parent
# The first part of a module's path says on which side it is.
SHARED = {"errors", "memory", "numba_cache", "progress", "tables", "release", "privacy"}
HOLDER, LEARNER = {"holder"}, {"learner"}
BOTH = {
    "__main__",
    "adaboost",
    "adversary",
    "cli",
    "demo",
    "demo_picture",
    "describe",
    "estimators",
    "findings",
    "hospital",
    "paper",
    "predicting",
    "scoring",
    "secure",
    "shells",
    "tuning",
}


def imports(package: Path) -> dict[str, set[str]]:
    """Station -> stations that it imports, anywhere in its files."""
    found: dict[str, set[str]] = {}
    for file in package.rglob("*.py"):
        station = file.relative_to(package).parts[0].removesuffix(".py")
        if station == "__init__":
            continue
        names = found.setdefault(station, set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file.name}: imports are absolute"
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {
        station: {name.split(".")[1] for name in names if name.startswith("radoboost.")} - {station}
        for station, names in found.items()
    }


def violations(package: Path) -> list[str]:
    graph = imports(package)
    wrong = [f"{s} is on no side" for s in graph if s not in SHARED | HOLDER | LEARNER | BOTH]
    forbidden = [(SHARED, HOLDER | LEARNER | BOTH), (HOLDER, LEARNER | BOTH), (LEARNER, HOLDER | BOTH)]
    for side, others in forbidden:
        wrong += [f"{s} imports {t}" for s in graph if s in side for t in sorted(graph[s] & others)]
    return wrong


def test_no_station_reaches_over_the_boundary():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("station", "line", "violation"),
    [
        ("learner/boost", "from radoboost.holder.craft import craft", "learner imports holder"),
        ("learner/boost", "def f():\n    import radoboost.holder.engines.kernel", "learner imports holder"),
        ("learner/weak", "from radoboost.paper import protocol", "learner imports paper"),
        ("holder/grid", "from radoboost.learner import model", "holder imports learner"),
        ("holder/engines/gpu", "from radoboost import estimators", "holder imports estimators"),
        ("release/columns", "from radoboost.holder.grid import snap", "release imports holder"),
        ("tables/files", "from radoboost.learner import predict", "tables imports learner"),
        ("privacy/events", "from radoboost.adversary import audits", "privacy imports adversary"),
        ("progress", "from radoboost.cli import app", "progress imports cli"),
        ("helpers", "", "helpers is on no side"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, station, line, violation):
    copy = tmp_path / "radoboost"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    place = copy / f"{station}.py"
    place.write_text((place.read_text() if place.exists() else "") + "\n" + line + "\n")
    assert violation in violations(copy)


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"numba", "llvmlite", "matplotlib", "sklearn", "typer", "pandas", "cupy", "ortools", "flint"}
    code = f"import sys, radoboost; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
