"""More than two classes: test errors of what is learned from releases beside multinomial regression on the examples.

    python benchmarks/classes.py --data FOLDER [--tables abalone,ordered] [--splits 5] [--draws 2] [--plain]
    python benchmarks/classes.py --report

Abalone by rings and white wine by grades are in FOLDER, with their targets in FOLDER/extra; two tables of five classes
are made up: clouds without an order, and classes along one direction. Every split holds back a fifth of each class, so
that classes of fewer than five rows are only trained on. On each split logistic regression is fitted to z-scored
examples, and so are least squares of each class against the others; a plain release of 1000 rados is learned from by
moments and by boosting; and `Moments` is fitted at each epsilon, delta 1e-6, for one record added or removed. Its
bounds are quantiles of the whole table, uncharged, as in `utility.py`. --plain leaves `Moments` out.

A run of everything writes experiments/results/classes.json, and its parts of docs/classes.md; --report does the latter
alone. Exits with 1 where a figure falls short: plain moments more than 2 points behind multinomial regression on any
table, or `Moments` at epsilon 1 more than 3 behind where rows * epsilon / (columns * classes) is at least 100.
"""

import argparse
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import radoboost as rb
import tables
from measuring import RESULTS, fill_page, keep, shortfalls, write_pages
from methods import DELTA, percent_wrong
from utility_page import signed, table

PAGE, REST = Path(__file__).parent.parent / "docs" / "classes.md", RESULTS / "classes.md"
PEER, MASKED = "multinomial regression", "least squares, one against the others"
PLAIN, BOOST, MAJORITY = "plain, moments", "plain, boosting", "the largest class"
EPSILONS = (0.3, 1.0, 3.0)
ENOUGH = 100  # rows to learn from, times epsilon, for each column and class: from here on there is an aim
WANTED = {PLAIN: 2.0, "moments": 3.0}  # points behind multinomial regression
N_RADOS, N_ROWS = 1000, 20_000


# ---- the tables


def target(folder, name, edges=None):
    """A domain with its own target, or with classes of ranges of it: below the first edge, and so on."""
    x, _ = tables.values(folder, name)
    file = Path(folder) / "extra" / f"{name}.target.csv"
    if not file.exists():
        raise SystemExit(f"there is no {file}; give --data, or set RADO_DATA")
    y = np.loadtxt(file, skiprows=1).astype(int)
    return x, y if edges is None else np.digitize(y, edges)


def nominal(n_rows=N_ROWS):
    """Five normal clouds, in no order."""
    rng = np.random.default_rng(21)
    y = rng.integers(0, 5, n_rows)
    return rng.normal(size=(5, 8))[y] + rng.normal(size=(n_rows, 8)), y


def ordered(n_rows=N_ROWS):
    """Five classes of one size along one direction, and some noise on it."""
    rng = np.random.default_rng(22)
    x, direction = rng.normal(size=(n_rows, 8)), rng.normal(size=8)
    score = x @ direction / np.linalg.norm(direction) + 0.15 * rng.normal(size=n_rows)
    return x, np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))


TABLES = {
    "abalone, all rings": lambda folder: target(folder, "abalone"),
    "abalone, rings up to 8, 9 to 10, from 11": lambda folder: target(folder, "abalone", [9, 11]),
    "wine_white, all grades": lambda folder: target(folder, "wine_white"),
    "wine_white, grades up to 5, 6, from 7": lambda folder: target(folder, "wine_white", [6, 7]),
    "nominal, five clouds": lambda folder: nominal(),
    "ordered, five along a line": lambda folder: ordered(),
}


def split(y, seed):
    """Which rows to test on: a fifth of each class, rounded down."""
    rng, test = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for value in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == value))
        test[rows[: int(tables.TEST_SHARE * len(rows))]] = True
    return test


# ---- the methods


def errors_on_split(x, y, seed, epsilons, draws):
    """Errors in percent, by method; of `Moments` at an epsilon, their mean over draws."""
    test = split(y, seed)
    train, classes, bounds = ~test, tuple(np.unique(y).tolist()), tables.quantile_bounds(x).tolist()
    release = rb.craft(x[train], y[train], n_rados=N_RADOS, seed=seed)

    def wrong(classifier):
        return percent_wrong(classifier.predict(x[test]), y[test])

    values, counts = np.unique(y[train], return_counts=True)
    errors = {
        PEER: wrong(make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(x[train], y[train])),
        MASKED: wrong(make_pipeline(StandardScaler(), RidgeClassifier()).fit(x[train], y[train])),
        MAJORITY: percent_wrong(values[np.argmax(counts)], y[test]),
        PLAIN: wrong(rb.MomentsClassifier().fit_rados(release)),
        BOOST: wrong(rb.RadoBoostClassifier().fit_rados(release)),
    }
    with warnings.catch_warnings():
        # Fits of a benchmark are not booked, and where there is little, that is what the figures show.
        warnings.simplefilter("ignore", rb.BudgetWarning)
        warnings.simplefilter("ignore", rb.NoiseWarning)
        for epsilon in epsilons:
            mechanism = rb.Moments(epsilon, DELTA)
            shell = rb.MomentsClassifier(mechanism=mechanism, classes=classes, schema=bounds)
            errors[private(epsilon)] = float(np.mean([wrong(shell.fit(x[train], y[train])) for _ in range(draws)]))
    return errors


def private(epsilon):
    return f"moments, epsilon {epsilon:g}"


def measured(name, x, y, n_splits, epsilons, draws):
    """What the results have of a table: its size, and errors by method with those of each split."""
    splits = [errors_on_split(x, y, seed, epsilons, draws) for seed in range(1, n_splits + 1)]
    size = {"rows": len(y), "train": int((~split(y, 1)).sum()), "columns": x.shape[1], "classes": len(np.unique(y))}
    return {"table": name, **size, "errors": {m: [round(one[m], 4) for one in splits] for m in splits[0]}}


# ---- what it says


def gap(found, method):
    """How far a method is behind multinomial regression in points, and the standard error over splits."""
    apart = np.subtract(found["errors"][method], found["errors"][PEER])
    return float(apart.mean()), float(np.std(apart, ddof=1) / math.sqrt(len(apart))) if len(apart) > 1 else math.nan


def enough(found, epsilon):
    return found["train"] * epsilon / (found["columns"] * found["classes"])


def not_seen(results):
    figures = []
    for found in results:
        aims = [("plain moments", PLAIN, WANTED[PLAIN])]
        if private(1.0) in found["errors"] and enough(found, 1.0) >= ENOUGH:
            aims.append(("Moments at epsilon 1", private(1.0), WANTED["moments"]))
        for name, method, most in aims:
            if (behind := gap(found, method)[0]) > most:
                figures.append(f"{found['table']}: {name} {behind:+.2f} points behind {PEER}, not {most:g}")
    return figures


def with_error(found, method):
    behind, spread = gap(found, method)
    return f"{np.mean(found['errors'][method]):.1f} ({signed(behind, 1)} ± {spread:.1f})"


def open_table(results):
    """Without privacy."""
    head = ["table", "rows", "columns", "classes", PEER, PLAIN, BOOST, MASKED, MAJORITY]
    lines = []
    for found in results:
        sizes = [f"{found[key]:,}" for key in ("rows", "columns", "classes")]
        means = [f"{np.mean(found['errors'][method]):.1f}" for method in (PEER, MAJORITY)]
        others = [with_error(found, method) for method in (PLAIN, BOOST, MASKED)]
        lines.append([found["table"], *sizes, means[0], *others, means[1]])
    return table(head, lines)


def private_table(results):
    """With privacy; tables that have enough rows at an epsilon are in bold type there."""
    lines = []
    for found in results:
        for epsilon in [epsilon for epsilon in EPSILONS if private(epsilon) in found["errors"]]:
            size = enough(found, epsilon)
            name = f"**{found['table']}**" if size >= ENOUGH else found["table"]
            regression = f"{np.mean(found['errors'][PEER]):.1f}"
            lines.append([name, f"{epsilon:g}", f"{size:,.0f}", regression, with_error(found, private(epsilon))])
    head = ["table", "epsilon", "rows * epsilon / (columns * classes)", PEER, "`Moments`"]
    return table(head, lines) if lines else "Not measured yet."


def rendered(results):
    """The page with the parts that are from here."""
    return fill_page(PAGE, generated(results), REST)


def generated(results):
    """The parts that are from here, by name."""
    seen = not_seen(results)
    words = "\n".join(f"- **Not seen**: {figure}." for figure in seen) or (
        f"All figures are as wanted: plain moments are at most {WANTED[PLAIN]:g} points behind {PEER} on every table"
        + (
            f", and `Moments` at epsilon 1 is at most {WANTED['moments']:g} behind where the ratio is {ENOUGH} or more."
            if any(private(1.0) in found["errors"] for found in results)
            else "."
        )
    )
    return {"plain errors": open_table(results), "private errors": private_table(results), "aims": words}


def show(found):
    print(f"{found['table']}: {found['rows']:,} x {found['columns']}, {found['classes']} classes")
    for method in found["errors"]:
        print(f"  {method:<40}{with_error(found, method)}")
    for epsilon in EPSILONS:
        print(f"  rows * epsilon / (columns * classes) at epsilon {epsilon:g}: {enough(found, epsilon):,.0f}")


def listed(text):
    return [part for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--tables", type=listed, help="those that begin with one of these words [all]")
    parser.add_argument("--splits", type=int, default=5, help="how many [5]")
    parser.add_argument("--draws", type=int, default=2, help="of each private fit on each split [2]")
    parser.add_argument("--plain", action="store_true", help="leave Moments out")
    parser.add_argument("--results", type=Path, help="file for the results of a part")
    parser.add_argument("--report", action="store_true", help="run nothing: the page from the results")
    options = parser.parse_args()
    if options.report:
        results = json.loads((RESULTS / "classes.json").read_text())["results"]
        write_pages(PAGE, REST, generated(results))
        shortfalls(not_seen(results))
        return
    names = [name for name in TABLES if name.startswith(tuple(options.tables or [""]))]
    if not options.data and any(name.startswith(("abalone", "wine")) for name in names):
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    results = []
    for name in names:
        x, y = TABLES[name](options.data)
        results.append(measured(name, x, y, options.splits, () if options.plain else EPSILONS, options.draws))
        show(results[-1])
    if options.results:
        options.results.write_text(json.dumps(results, indent=2) + "\n")
    elif names == list(TABLES):
        keep("classes", results)
        write_pages(PAGE, REST, generated(results))
    shortfalls(not_seen(results))


if __name__ == "__main__":
    main()
