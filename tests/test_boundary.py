"""The trust boundary: the holder's side and the learner's never import each other, and no learner gets an example."""

import ast
import collections.abc
import inspect
import json
import os
import shutil
import subprocess
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pytest

import radoboost

PACKAGE = Path(radoboost.__file__).parent
# The first part of a module's path says on which side it is.
SHARED = {"errors", "jit", "memory", "progress", "serving", "tables", "release", "privacy"}
HOLDER, LEARNER = {"holder"}, {"learner"}
BOTH = {"__main__", "cli", "encrypted", "estimators", "examples", "outputs", "private_score", "report"}
OUTBUILDINGS = {"lab", "studio"}  # nothing imports them: their commands are found by entry points


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
    wrong = [f"{s} is on no side" for s in graph if s not in SHARED | HOLDER | LEARNER | BOTH | OUTBUILDINGS]
    above = BOTH | OUTBUILDINGS
    forbidden = [(SHARED, HOLDER | LEARNER | above), (HOLDER, LEARNER | above), (LEARNER, HOLDER | above)]
    forbidden += [(BOTH, OUTBUILDINGS), ({"lab"}, {"studio"})]
    for side, others in forbidden:
        wrong += [f"{s} imports {t}" for s in graph if s in side for t in sorted(graph[s] & others)]
    return wrong


def test_no_station_reaches_over_the_boundary():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("station", "line", "violation"),
    [
        ("learner/boost", "from radoboost.holder.craft import craft", "learner imports holder"),
        ("learner/boost", "def f():\n    import radoboost.holder.engines.cpu", "learner imports holder"),
        ("learner/weak", "from radoboost.lab.paper import protocol", "learner imports lab"),
        ("holder/grid", "from radoboost.learner import model", "holder imports learner"),
        ("holder/engines/gpu", "from radoboost import estimators", "holder imports estimators"),
        ("release/columns", "from radoboost.holder.grid import snap", "release imports holder"),
        ("tables/files", "from radoboost.learner import predict", "tables imports learner"),
        ("privacy/events", "from radoboost.lab.audits import audit", "privacy imports lab"),
        ("progress", "from radoboost.cli import app", "progress imports cli"),
        ("cli/show", "from radoboost.lab.audits.audit import Audit", "cli imports lab"),
        ("report/html", "from radoboost import studio", "report imports studio"),
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


# ---- no learner looks at an example


def shells():
    """Every public class that learns from a release."""
    public = [getattr(radoboost, name) for name in radoboost.__all__]
    return [one for one in public if inspect.isclass(one) and hasattr(one, "fit_rados")]


def room_for_examples(method):
    """The parameters of a `fit_rados` that a table might come in by: all but a release, its path, and plain options."""
    own = list(inspect.signature(method).parameters.values())[1:]
    hints = typing.get_type_hints(method)
    allowed = {radoboost.Release, str, os.PathLike[str]}
    found = [] if own and own[0].name == "release" and leaves(hints["release"]) <= allowed else ["release"]
    for parameter in own[1:]:
        option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if not option or not leaves(hints.get(parameter.name, object)) <= {bool, int, float, str, type(None)}:
            found.append(parameter.name)
    return found


def leaves(hint):
    """The types that a hint is made of, but for unions and sequences of them."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType, collections.abc.Sequence):
        return set().union(*map(leaves, typing.get_args(hint)))
    return {hint}


def test_fit_rados_takes_a_release_and_options_and_nothing_that_could_carry_examples():
    assert {one.__name__ for one in shells()} >= {"MomentsClassifier", "RadoBoostClassifier"}
    for shell in shells():
        assert room_for_examples(shell.fit_rados) == [], shell
        assert list(inspect.signature(shell._learn).parameters) == ["self", "release"], shell


def test_a_planted_way_for_examples_is_found():
    class Planted(radoboost.MomentsClassifier):
        def fit_rados(
            self, release: radoboost.Release, y: bool = False, *, X: np.ndarray | None = None, **more: object
        ):
            pass

    assert room_for_examples(Planted.fit_rados) == ["y", "X", "more"]

    class Loose(radoboost.MomentsClassifier):
        def fit_rados(self, release: object):
            pass

    assert room_for_examples(Loose.fit_rados) == ["release"]


def stripped(model):
    """A model as data."""
    return json.loads(json.dumps(model.to_dict()))


OPTIONS = [
    ({}, {}),
    ({"penalty": "scores", "stop": "held-out"}, {}),
    ({"penalty": "lasso"}, {}),
    ({"penalty": "ridge", "strength": 0.01}, {}),
    ({"stop": "held-out"}, {}),
]
"""How to learn, which `fit_rados` is told too, and how to craft, which the file says."""


def learners():
    """Every shell with the options that it has."""
    for shell in shells():
        for own, crafting in OPTIONS:
            if set(own) <= set(inspect.signature(shell).parameters):
                yield pytest.param(shell, own, crafting, id=f"{shell.__name__}-{[*own.values(), *crafting]}")


def test_penalties_and_stops_are_among_the_learners():
    ids = " ".join(one.id for one in learners())
    assert all(word in ids for word in ("scores", "lasso", "ridge", "held-out", "MomentsClassifier"))


@pytest.mark.parametrize("columns", ["linear", "degree-2"])
@pytest.mark.parametrize(("shell", "own", "crafting"), list(learners()))
def test_a_model_and_all_that_it_says_of_itself_follow_from_the_file_alone(shell, own, crafting, columns, tmp_path):
    """`fit` has the examples at hand, and gives the model of `fit_rados` on the file of its release."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.where(x[:, 0] + x[:, 1] ** 2 + rng.normal(size=200) > 1, "ill", "well")
    fitted = shell(columns=columns, n_rados=100, random_state=0, **own, **crafting).fit(x, y)
    fitted.release_.save(tmp_path / "t.rado.parquet")
    learned = shell(**own).fit_rados(tmp_path / "t.rado.parquet")
    assert np.array_equal(learned.model_.theta, fitted.model_.theta)
    assert stripped(learned.model_)["learner"] == stripped(fitted.model_)["learner"]
