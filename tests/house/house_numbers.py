"""The house in numbers: python tests/house/house_numbers.py [REPO]. Source is read as text, and not imported."""

import ast
import json
import math
import re
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = "radoboost"
OUTSIDE = tuple(f"{PACKAGE}.{name}" for name in ("lab", "studio", "adversary", "paper"))  # of the core
CLUMP = {
    "label", "classes", "features", "drop", "schema", "bounds", "missing", "unlabelled", "separator", "decimal",
    "person", "max_rows", "rows", "weights", "first_row", "query", "form", "feature", "class_",
}  # fmt: skip
# Kernels (arrays in, arrays out) and scikit-learn's __init__ may have many parameters.
EXEMPT = ("kernel", "_kernel", "fill", "_snap", "__init__")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def modules(repo):
    """The text of every module by its name."""
    for path in sorted((repo / "src" / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(repo / "src").with_suffix("").parts)
        yield name.removesuffix(".__init__"), path.read_text(encoding="utf-8")


def parameters(function):
    args = function.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return [arg.arg for arg in every if arg.arg not in ("self", "cls")]


def statements(function):
    return [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]


# ---- how well a name leads to its module


def stem(word):
    word = word.lower()
    for end in ("ings", "ing", "ers", "ies", "es", "ed", "er", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)]
    return word


def stems(name):
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name)
    return {stem(word) for word in words if len(word) > 1}


def guess_rate(definitions, names):
    """In percent: how often the module whose path shares its words best with a definition is that of the definition."""
    words = {module: stems(module.partition(".")[2]) for module in names}
    count = Counter(word for own in words.values() for word in own)
    weights = {word: math.log(1 + len(words) / n) for word, n in count.items()}
    hits = 0.0
    for module, name in definitions:
        wanted = stems(name)
        scores = {
            other: sum(weights[word] for word in sorted(shared)) / (1 + 0.1 * len(own))
            for other, own in words.items()
            if (shared := wanted & own)
        }
        most = max(scores.values(), default=0.0)
        best = [other for other, score in scores.items() if score > most - 1e-12]
        hits += module in best and 1 / len(best)
    return round(100 * hits / max(1, len(definitions)), 1)


# ---- imports


def importers(nodes, names):
    """Who imports each module, and which folders import which."""
    by, folders = defaultdict(set), set()
    for module, node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = inner if inner in names else node.module
                if target in names and target != module:
                    by[target].add(module)
                    folders.add((folder_of(module), folder_of(target)))
    return by, folders


def folder_of(module):
    return ".".join(module.split(".")[:2])


def texts_in(folder, suffix):
    return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob(f"*{suffix}"))]


# ---- all of them


def numbers(repo):
    """Every figure by its name."""
    trees = {module: (text, ast.parse(text)) for module, text in modules(repo)}
    nodes = [(module, node) for module, (_, tree) in trees.items() for node in ast.walk(tree)]
    functions = [(module, node) for module, node in nodes if isinstance(node, FUNCTIONS)]
    classes = [node.name for _, node in nodes if isinstance(node, ast.ClassDef)]
    top = [
        (module, node.name)
        for module, (_, tree) in trees.items()
        for node in tree.body
        if isinstance(node, FUNCTIONS | ast.ClassDef)
    ]
    places = defaultdict(set)
    for module, name in top:
        places[name].add(module)
    sizes = {module: text.count("\n") for module, (text, _) in trees.items()}
    core = [size for module, size in sizes.items() if not module.startswith(OUTSIDE)]
    in_python = [len(parameters(f)) for module, f in functions if ".cli" not in module and f.name not in EXEMPT]
    in_commands = [len(parameters(f)) for module, f in functions if ".cli" in module]
    by, folders = importers(nodes, trees)
    pairs = {tuple(sorted(pair)) for pair in folders if pair[0] != pair[1] and pair[::-1] in folders}
    once = 0
    for text, tree in trees.values():
        words = Counter(re.findall(r"\b\w+\b", text))
        once += sum(
            isinstance(node, ast.FunctionDef) and node.name.startswith("_") and words[node.name] == 2
            for node in tree.body
        )
    text = "\n".join(text for text, _ in trees.values())
    flow = repo / "docs" / "flow.md"
    return {
        "lines": sum(sizes.values()),
        "modules": len(trees),
        "core_lines": sum(core),
        "core_modules": len(core),
        "median_module": statistics.median(sizes.values()),
        "modules_under_60": sum(size < 60 for size in sizes.values()),
        "modules_over_500": sum(size > 500 for size in sizes.values()),
        "functions": len(functions),
        "classes": len(classes),
        "max_params_python": max(in_python),
        "max_params_command": max(in_commands, default=0),
        "functions_of_10_params": sum(n >= 10 for n in in_python),
        "star_star_functions": sum(f.args.kwarg is not None for _, f in functions),
        "table_clump_functions": sum(len(CLUMP.intersection(parameters(f))) >= 5 for _, f in functions),
        "one_statement_functions": sum(len(statements(f)) == 1 for _, f in functions),
        "private_functions_used_once": once,
        "defs_with_namesake_percent": round(
            100 * sum(len(own) for own in places.values() if len(own) > 1) / sum(map(len, places.values())), 1
        ),
        "class_names_used_twice": sum(n > 1 for n in Counter(classes).values()),
        "guess_rate_public_percent": guess_rate([(m, name) for m, name in top if not name.startswith("_")], trees),
        "modules_with_one_importer": sum(len(by[module] - {PACKAGE}) == 1 for module in trees),
        "two_way_rooms": sum(PACKAGE not in pair for pair in pairs),
        "schema_is_none_tests": len(re.findall(r"schema is (?:not )?None", text)),
        "two_or_more_classes_tests": len(
            re.findall(r"n_classes (?:>|==) 2|len\([^()]*classes\) (?:>|==) 2|self\._two\b", text)
        ),
        "optional_mechanism_attributes": len(set(re.findall(r'getattr\((?:mechanism|protection), "(\w+)"', text))),
        "docs_words": len("".join(texts_in(repo / "docs", ".md")).split()),
        "flow_words": len(flow.read_text(encoding="utf-8").split()) if flow.exists() else 0,
        "test_lines": sum(text.count("\n") for text in texts_in(repo / "tests", ".py")),
    }


if __name__ == "__main__":
    print(json.dumps(numbers(Path(sys.argv[1] if sys.argv[1:] else ".")), indent=1))
