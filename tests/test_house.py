"""Documentation and names that must keep up with the code, contracts of the registries, and figures that may not grow.

python tests/test_house.py            all figures, beside their limits
python tests/test_house.py --write    limits as the figures are now: for a commit that lowers some
"""

import ast
import dataclasses
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

import radoboost as rb
from house import cli_options
from house.house_numbers import numbers
from radoboost import errors
from radoboost.cli import app
from radoboost.holder.engines import ENGINES, get_engine
from radoboost.holder.mechanisms import MECHANISMS, StatementFacts
from radoboost.holder.signatures import SIGNATURE_SETS
from radoboost.privacy import epsilon_at, event_from_dict
from radoboost.release.kind import LAWS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "radoboost"
DOCS = "\n".join(page.read_text() for page in sorted((ROOT / "docs").rglob("*.md")))


def test_all_is_sorted_and_complete():
    public = {  # as type checkers read them
        alias.asname
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module != "radoboost"
        for alias in node.names
    }
    assert rb.__all__ == sorted(public)
    assert dir(rb) == sorted([*rb.__all__, "__version__"])  # and no imports
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        rb.nonsense
    named = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert named <= public
    for name in named:
        assert name in errors.__doc__


def test_public_names_have_docstrings_with_a_first_sentence():
    for name in rb.__all__:
        first = inspect.getdoc(getattr(rb, name)).splitlines()[0]
        assert first[0].isupper() or first[0] in "`(", name
        assert first.endswith("."), name


def test_the_reference_has_every_public_name_once():
    page = (ROOT / "docs" / "api.md").read_text()
    assert sorted(re.findall(r"^::: radoboost\.(\w+)$", page, re.M)) == rb.__all__


def test_examples_become_code_in_the_reference(monkeypatch):
    """Without griffe, which comes with the extra docs alone."""
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    fenced = importlib.import_module("fenced_examples").fenced
    text = "One more.\n\n>>> 1 + 1\n2\n\nIt adds:\n\n>>> if 1:\n...     2\n2"
    expected = "One more.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nIt adds:\n\n```pycon\n>>> if 1:\n...     2\n2\n```"
    assert fenced(text) == expected
    for name in rb.__all__:
        doc = inspect.getdoc(getattr(rb, name))
        assert fenced(doc).count("```pycon\n>>> ") == len(re.findall(r"(?:^|\n\n|---\n)>>> ", doc)), name


def test_everything_that_can_be_named_is_documented():
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    extras = re.findall(
        r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().split("optional-dependencies]")[1].split("\n[")[0], re.M
    )
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    for command in commands:
        assert f"rado {command}" in DOCS
    for extra in extras:
        assert f"`{extra}`" in contributing, f"the extra {extra} is not in CONTRIBUTING.md"
    for name in (*MECHANISMS, *SIGNATURE_SETS, *ENGINES):
        assert f"`{name}`" in DOCS, f"{name} is not in the docs"


def test_no_page_names_a_file_that_is_not_there():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+\.(?:md|png|py))\)", page.read_text()):
            # the page of the command line is made when the site is built
            assert (page.parent / link).exists() or link.endswith("cli.md"), f"{page.name} links to {link}"


ARGUMENTS = {
    "plain": {},
    "feature-band": {"feature": "a", "epsilon": 2.0},
    "moments": {"epsilon": 1.0},
    "noisy-examples": {"epsilon": 1.0},
    "noisy-rados": {"epsilon": 1.0},
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_keep_their_contract(name):
    """Frozen data; a name that leads back; a statement that never promises without saying between which tables.

    A promise is a finite epsilon, the statement's numbers are the accountant's, a seed voids it, and all that a release
    holds of it is JSON.
    """
    mechanism = MECHANISMS[name](**ARGUMENTS[name])
    assert mechanism.name == name
    assert dataclasses.is_dataclass(mechanism) and mechanism.__dataclass_params__.frozen
    for scale in ("none", "standard", "bounds"):
        for seeded in (False, True):
            circumstances = StatementFacts(scale, seeded, n_rados=10, n_columns=3, n_examples=1000)
            statement = mechanism.statement(circumstances)
            assert statement.mechanism == name
            assert statement.neighbours and statement.accountant and statement.not_protected
            assert statement.unit_of_privacy and statement.trust_model and statement.random_source
            promises = name != "plain" and not seeded
            assert promises == (statement.epsilon < float("inf")) == bool(statement.promises)
            assert statement.best_guess < 1 if promises else statement.best_guess == 1
            event = event_from_dict(json.loads(json.dumps(statement.event)))
            assert statement.epsilon == epsilon_at(event, statement.delta or 1e-6)
            assert rb.Statement.from_dict(json.loads(statement.to_json())) == statement
    assert mechanism.law in LAWS
    assert callable(mechanism.check) and callable(mechanism.make)
    assert (ROOT / "docs" / "proofs" / f"{name}.md").exists() or name == "plain"


@pytest.mark.parametrize("name", ENGINES)
def test_engines_keep_their_contract(name):
    """All that a pass asks for, without state, and an estimate of memory that grows with the work."""
    engine = get_engine(name)
    for method in ("survey", "snap", "totals", "sum_rows", "sphere", "whiten", "tilt", "products"):
        assert callable(getattr(engine, method)), method
    assert vars(engine) == {} and type(pickle.loads(pickle.dumps(engine))) is type(engine)
    assert engine.totals(7, 3).tolist() == [[0] * 3] * 7
    assert engine.worker_bytes(1000, 10) >= 8 * 1000 * 10
    assert engine.worker_bytes(2000, 10) > engine.worker_bytes(1000, 10)
    assert engine.worker_bytes(1000, 100) > engine.worker_bytes(1000, 10)


# ---- which mechanism it is, nobody asks


@pytest.fixture(scope="module")
def trees():
    """Every module, parsed."""
    return {file: ast.parse(file.read_text()) for file in sorted(PACKAGE.rglob("*.py"))}


CLASSES = {kind.__name__ for kind in MECHANISMS.values()}


def asks_for_a_mechanism(tree):
    """The lines on which code asks which mechanism it has: by class or by name."""

    def is_class(node):
        return isinstance(node, ast.Name | ast.Attribute) and (getattr(node, "id", None) or node.attr) in CLASSES

    def is_name(node):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(map(is_name, node.elts))
        if isinstance(node, ast.Attribute) and node.attr == "name" and is_class(node.value):
            return True
        return isinstance(node, ast.Constant) and node.value in MECHANISMS

    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            lines += [node.lineno] * any(is_class(kind) for kind in kinds)
        elif isinstance(node, ast.Compare):
            lines += [node.lineno] * any(is_name(side) or is_class(side) for side in (node.left, *node.comparators))
        elif isinstance(node, ast.MatchValue):
            lines += [node.lineno] * is_name(node.value)
        elif isinstance(node, ast.MatchClass):
            lines += [node.lineno] * is_class(node.cls)
    return lines


def test_nobody_asks_which_mechanism_it_is(trees):
    asking = {
        f"{file.relative_to(PACKAGE)}:{line}"
        for file, tree in trees.items()
        if "mechanisms" not in file.relative_to(PACKAGE).parts
        for line in asks_for_a_mechanism(tree)
    }
    assert asking == set(), "let the mechanism tell as data what others need to know"


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(m, Moments)", "isinstance(m, (int, rb.NoisyRados))", "release.mechanism['name'] == 'feature-band'",
        "name in ('plain', 'moments')", "name != FeatureBand.name", "type(m) is Plain",
        "match m:\n    case Moments():\n        pass", "match name:\n    case 'plain':\n        pass",
    ],
)  # fmt: skip
def test_a_planted_question_is_found(planted):
    assert asks_for_a_mechanism(ast.parse(planted))
    innocent = "rb.Moments(1.0); MECHANISMS['plain'](); mechanism.law == 'sums'"
    assert not asks_for_a_mechanism(ast.parse(innocent))


# ---- functions of a length that a reader takes in

KERNELS = {"holder/engines", "holder/gaussian_noise.py"}


def lines_of_code(function):
    """Lines of a function without signature and docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_are_short(trees):
    for file, tree in trees.items():
        path = str(file.relative_to(PACKAGE))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not any(path.startswith(kernel) for kernel in KERNELS):
                most = 40 if (path, node.name) == ("holder/craft.py", "craft") else 80
                assert lines_of_code(node) < most, f"{path}: {node.name} is too long"


# ---- figures of the house: where there is a limit, none is above it

LIMITS = ROOT / "tests" / "house" / "limits.json"


def ways():
    """The ways of data, in a process of their own: a profiler watches it."""
    script = ROOT / "tests" / "house" / "house_ways.py"
    return json.loads(subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout)


def beyond(figures, limits):
    return [f"{name} is {figures[name]}, above {limit}" for name, limit in limits.items() if figures[name] > limit]


def test_no_figure_of_the_house_grows():
    limits = json.loads(LIMITS.read_text())
    figures = {**numbers(ROOT), **cli_options.figures(), **ways()}
    assert not beyond(figures, limits)


PLANTED = """
from radoboost.{other} import thing

class Plan:
    def __init__(self, a, b, c, d, e, f, g, h, i, j, k): ...

def thing(label, classes, *, features, drop, person, schema=None, x=0, y=0, z=0, w=0, **others):
    if schema is None or n_classes > 2:
        return getattr(mechanism, "withheld", None)
"""


def test_what_is_planted_is_counted(tmp_path):
    for own, other in (("tables", "holder"), ("holder", "tables")):
        folder = tmp_path / "src" / "radoboost" / own
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(PLANTED.format(other=other))
    figures = numbers(tmp_path)
    planted = {
        "modules": 2, "max_params_python": 10, "functions_of_10_params": 2, "star_star_functions": 2,
        "table_clump_functions": 2, "defs_with_namesake_percent": 100.0, "class_names_used_twice": 1,
        "modules_with_one_importer": 2, "two_way_rooms": 1, "schema_is_none_tests": 2, "two_or_more_classes_tests": 2,
        "optional_mechanism_attributes": 1,
    }  # fmt: skip
    assert {name: figures[name] for name in planted} == planted
    assert not beyond(figures, planted)
    assert beyond(figures, {**planted, "modules": 1}) == ["modules is 2, above 1"]


def main(words):
    limits, figures = json.loads(LIMITS.read_text()), {**numbers(ROOT), **cli_options.figures(), **ways()}
    if words == ["--write"]:
        LIMITS.write_text(json.dumps({name: figures[name] for name in limits}, indent=1) + "\n")
    for name, figure in figures.items():
        print(f"{name:34}{figure:>9}{f'   limit {limits[name]}' if name in limits else ''}")


WINGS = sorted(PACKAGE.rglob("__init__.py"))


def contents(init):
    """What the docstring of a wing's `__init__` says of each of its modules, by their names."""
    doc = ast.get_docstring(ast.parse(init.read_text())) or ""
    entries = re.findall(r"`(\w+/?)`:\s(.*?)(?=\n\n|\s`\w+/?`:\s|\Z)", doc, re.S)
    return len(doc.splitlines()), entries


def wrongly_listed(init):
    """Modules that are not listed once, or are not there, and names that do not stand in the module beside them."""
    _, entries = contents(init)
    beside = {file.stem: file.read_text() for file in init.parent.glob("*.py")}
    del beside["__init__"]
    beside.pop("__main__", None)
    folders = {f"{other.parent.name}/" for other in init.parent.glob("*/__init__.py") if init.parent != PACKAGE}
    listed = Counter(name for name, _ in entries)
    wrong = [name for name in {*listed, *beside, *folders} if listed[name] != 1 or name not in {*beside, *folders}]
    for module, text in entries:
        names = re.findall(r"\b(?:[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+)\b", text)
        wrong += [f"{module}: {name}" for name in names if not re.search(rf"\b{name}\b", beside.get(module, name))]
    return sorted(wrong)


@pytest.mark.parametrize("init", WINGS, ids=[str(file.parent.relative_to(PACKAGE)) for file in WINGS])
def test_a_wing_says_what_it_is_for_and_lists_its_modules(init, tmp_path):
    assert wrongly_listed(init) == [] and contents(init)[0] <= 30
    copy = tmp_path / "wing"
    copy.mkdir()
    (copy / "__init__.py").write_text('"""A wing.\n\n`one`: Planted, no_such_name.\n`gone`: nothing.\n"""\n')
    (copy / "one.py").write_text("class Planted: ...\n")
    (copy / "unheard_of.py").touch()
    assert wrongly_listed(copy / "__init__.py") == ["gone", "one: no_such_name", "unheard_of"]


if __name__ == "__main__":
    main(sys.argv[1:])
