"""What is learned from rados alone, beside logistic regression on the examples: test errors over all domains.

    python benchmarks/learners.py --data FOLDER [--domains sonar,eeg] [--only moments,regression] [--jobs 2]
    python benchmarks/learners.py --data FOLDER --again WORD
    python benchmarks/learners.py --report

Ten stratified folds (shuffled, random_state 0). Of each a release of n = min(1000, train // 2) rados is crafted from
the rows to train on, and learners see that release alone: boosting as in the paper, with a constant, with a penalty or
a stop, and over more columns; and least squares from moments with several columns. Figures are means of three draws,
but of one draw for boosting over columns of degree 2. Logistic regression (C = 1) has all rows to train on, or n of
them at random, in the same columns: those that the release's own map makes of them.

Every finished cell, a method on a fold, is kept at once under experiments/cells/learners: a run that was killed goes on
where it was, with the same command. Cells know the table, but not the library: after a change there, say which methods
to run --again (all that begin with the given word; '' is all).

A run of everything writes experiments/results/learners.json, and from it tables and the picture of docs/learners.md;
--report does the latter alone. Both exit with 1 where a figure falls short of its aim (`learners_page.py`). A run of a
part prints its table, and writes its results where --results says.
"""

import argparse
import json
import os
import sys
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import flat
import learners_page
import radoboost as rb
from measuring import RESULTS, keep, shortfalls
from radoboost.lab.paper import domains
from radoboost.lab.paper.jobs import Options, Task, run_cells, seconds_spent
from radoboost.learner import boost_rados
from radoboost.progress import show_progress

CELLS = Path(__file__).parent.parent / "experiments" / "cells" / "learners"
FOLDS, DRAWS, MOST_RADOS = 10, 3, 1000
VERSION = 2  # of what a cell computes


def split(domain, fold):
    """Rows to train on and to test on."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return list(folds.split(domain.x, domain.signs))[fold]


def n_rados(n_rows):
    return min(MOST_RADOS, n_rows // 2)


def percent_wrong(predicted, signs):
    return 100 * float(np.mean(predicted != signs))


def log_loss(clf, x, signs):
    """Mean log-loss; probabilities are kept from 0 by as much as float64 can tell from 1."""
    own = clf.predict_proba(x)[np.arange(len(x)), (signs > 0).astype(int)]
    return float(-np.log(np.maximum(own, np.finfo(float).eps)).mean())


# ---- learners from a release


def from_rados(shell, columns, x, signs, train, test, *, intercept=True, draws=DRAWS):
    """Errors and more of each draw; a learner gets the release, and nothing else."""
    found = {"errors": [], "log_loss": [], "expected": []}
    for draw in range(draws):
        options = {"columns": columns, "intercept": intercept, "seed": draw}
        release = flat.craft(x[train], signs[train], n_rados=n_rados(len(train)), **options)
        clf = shell().fit_rados(release)
        found["errors"].append(percent_wrong(clf.predict(x[test]), signs[test]))
        found["log_loss"].append(log_loss(clf, x[test], signs[test]))
        expected = clf.model_.learner.get("expected_error")
        found["expected"].append(None if expected is None else 100 * float(expected))
    return {**found, "columns": len(release.columns)}


@contextmanager
def changed(module, name, value):
    """Something of the library that no option changes, for a comparison."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def stopped_by_risk(*rows):
    """Boosting that stops where the exponential risk of held-out rados is least, and not by mean over deviation."""
    with changed(boost_rados, "held_out_margin_ratios", minus_log_risks):
        return from_rados(partial(rb.RadoBoostClassifier, stop="held-out"), "linear", *rows)


def minus_log_risks(rounds, rados):
    """Minus the logarithm of the exponential risk of these rados, after each round."""
    margins = np.cumsum(rados[:, rounds.feature] * rounds.leverage, axis=1)
    smallest = margins.min(axis=0)
    return smallest - np.log(np.exp(smallest - margins).mean(axis=0))


# ---- logistic regression on examples


def in_columns(release, x):
    """Rows in the columns of a release, without the constant."""
    made = x if release.map is None else release.map.apply(x)
    own = [column for column in release.columns if column.scale != "constant"]
    return np.column_stack([column.apply(made[:, k]) for k, column in enumerate(own)])


def from_examples(columns, few, x, signs, train, test):
    """The same of logistic regression, on all rows to train on, or on a `few`, as many as there are rados."""
    release = rb.craft(x[train], signs[train], n_rados=2, columns=columns, seed=0)
    rows, others = in_columns(release, x[train]), in_columns(release, x[test])
    found = {"errors": [], "log_loss": []}
    for draw in range(DRAWS if few else 1):
        some = random_rows(signs[train], n_rados(len(train)), draw) if few else slice(None)
        clf = LogisticRegression(C=1.0, max_iter=20_000).fit(rows[some], signs[train][some])
        found["errors"].append(percent_wrong(clf.predict(others), signs[test]))
        found["log_loss"].append(log_loss(clf, others, signs[test]))
    return {**found, "columns": rows.shape[1] + 1}


def random_rows(signs, count, draw):
    """So many rows at random, of both classes."""
    rng = np.random.default_rng(draw)
    while True:
        some = rng.permutation(len(signs))[:count]
        if len(np.unique(signs[some])) == 2:
            return some


def boosting(columns, draws=DRAWS, **restraint):
    return partial(from_rados, partial(rb.RadoBoostClassifier, **restraint), columns, draws=draws)


HELD_OUT = {"stop": "held-out"}
METHODS = {
    learners_page.PAPER: partial(from_rados, rb.RadoBoostClassifier, "linear", intercept=False),
    learners_page.CONSTANT: boosting("linear"),
    "RadoBoost, stop": boosting("linear", **HELD_OUT),
    "RadoBoost, stop by risk": stopped_by_risk,
    **{
        f"RadoBoost, {penalty}": boosting("linear", penalty=penalty, strength="held-out", **HELD_OUT)
        for penalty in ("lasso", "ridge", "scores")
    },
    **{
        f"RadoBoost, {name}{word}": boosting(word, draws=1, **restraint)
        for word in learners_page.WIDE
        for name, restraint in (("", {}), ("stop, ", HELD_OUT), ("scores, ", {"penalty": "scores", **HELD_OUT}))
    },
    **{f"moments, {word}": partial(from_rados, rb.MomentsClassifier, word) for word in learners_page.WORDS},
    **{f"regression, {word}": partial(from_examples, word, False) for word in learners_page.WORDS},
    **{f"regression on n rows, {word}": partial(from_examples, word, True) for word in learners_page.WORDS},
}


# ---- cells


def work(cell, options):
    """The outcome of a cell; runs in a process of its own."""
    warnings.simplefilter("error", ConvergenceWarning)
    warnings.simplefilter("ignore", rb.SchemaWarning)
    domain = domains.load_domain(cell["domain"], options.data)
    train, test = split(domain, cell["fold"])
    return METHODS[cell["method"]](domain.x, domain.signs.astype(int), train, test)


def forget(word):
    """Remove what is kept of methods that begin with a word."""
    for place in CELLS.glob("*.json"):
        if f" method={word}" in json.loads(place.read_text())["cell"]:
            place.unlink()


def measured(names, methods, options, jobs):
    """What the results have: sizes, and for every domain and method the figures of each fold."""
    cells = [
        Task.of("learners", domain=name, fold=fold, method=method)
        for name in names
        for method in methods
        for fold in range(FOLDS)
    ]
    with show_progress() as bar:
        outcomes = run_cells(cells, work, options, CELLS, jobs=jobs, bar=bar)
    seconds = {
        method: round(seconds_spent([cell for cell in cells if cell["method"] == method], work, options, CELLS), 1)
        for method in methods
    }
    print(f"{sum(seconds.values()):,.0f} seconds of one core", file=sys.stderr)
    sizes = {}
    for name in names:
        domain = domains.load_domain(name, options.data)
        n_train = len(split(domain, 0)[0])
        shape = {"rows": len(domain.x), "columns": domain.x.shape[1]}
        sizes[name] = {**shape, "train": n_train, "rados": n_rados(n_train)}
    figures = [
        {"domain": name, "method": method, **gathered([outcomes[cell] for cell in cells if of(cell, name, method)])}
        for name in names
        for method in methods
    ]
    return {"folds": FOLDS, "draws": DRAWS, "seconds": seconds, "domains": sizes, "figures": figures}


def of(cell, name, method):
    return cell["domain"] == name and cell["method"] == method


def gathered(outcomes):
    """Figures of each fold, the mean over its draws; columns are those of the first fold."""
    if "as" in outcomes[0]:
        return {"as": [outcome["as"] for outcome in outcomes]}
    found = {"columns": outcomes[0]["columns"]}
    for key in ("errors", "log_loss", "expected"):
        if any(None not in outcome.get(key, [None]) for outcome in outcomes):
            found[key] = [mean_or_none(outcome[key]) for outcome in outcomes]
    if "refused" in outcomes[0]:
        found["refused"] = sum(outcome["refused"] for outcome in outcomes)
    return found


def mean_or_none(numbers):
    """The mean over draws; None where one of them tells none."""
    return None if None in numbers else round(float(np.mean(numbers)), 5)


# ---- the command


def listed(text):
    return [part for part in text.split(",") if part]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--domains", type=listed, help="some of them [all that are there]")
    parser.add_argument("--only", type=listed, help="methods that begin with one of these words [all]")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread [2]")
    parser.add_argument("--results", type=Path, help="file for the results of a part")
    parser.add_argument("--again", metavar="WORD", help="forget what was kept of methods that begin with this")
    parser.add_argument("--report", action="store_true", help="run nothing: page and picture from the results")
    return parser.parse_args()


def report(results):
    learners_page.write(results)
    shortfalls(learners_page.not_seen(results))


def main():
    options = arguments()
    if options.report:
        report(json.loads((RESULTS / "learners.json").read_text())["results"])
        return
    if not options.data:
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    names = domains.find_domains(options.data)
    if unknown := [name for name in options.domains or () if name not in names]:
        raise SystemExit(f"not under {options.data}: {', '.join(unknown)}; there are {', '.join(names)}")
    methods = [method for method in METHODS if method.startswith(tuple(options.only or [""]))]
    if options.again is not None:
        forget(options.again)
    chosen = tuple(options.domains or names)
    results = measured(chosen, methods, Options(str(options.data), chosen), options.jobs)
    learners_page.show(results)
    if options.results:
        options.results.write_text(json.dumps(results, indent=1) + "\n")
    elif chosen == tuple(names) and methods == list(METHODS):
        keep("learners", results)
        report(results)


if __name__ == "__main__":
    main()
