"""Where the rule of columns="fitting" comes from: errors of moments by columns, on tables cut down to fewer rows.

    python benchmarks/fitting.py --data FOLDER [--domains sonar,abalone] [--rows 60,150,500] [--folds 20]
    python benchmarks/fitting.py --report

Stratified folds of random_state 1 and 2, so that none of those that `learners.py` reports decides anything. Of each so
many rows are taken at random from those to train on, and the others tested on, up to 4,000; n = rows // 2 rados are
crafted of them with linear, signed-log and quadratic columns, from one seed. The rule has no aim; this shows what it
costs and what it brings. A run of everything writes experiments/results/fitting.json and its part of docs/learners.md;
--report does the latter alone.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

import radoboost as rb
from learners import listed, percent_wrong
from learners_page import PAGE, WORDS
from measuring import RESULTS, fill_page, keep
from radoboost.holder.fitting import Fitting
from radoboost.paper import domains
from radoboost.progress import show_progress
from utility_page import signed, table

DOMAINS = (
    "fertility", "haberman", "transfusion", "banknote", "breast_wisc", "ionosphere", "sonar", "wine_red", "abalone",
    "wine_white",
)  # fmt: skip
ROWS = (40, 60, 90, 120, 150, 200, 300, 500, 1000)
FOLDS, MOST_TESTED = 20, 4000


def cut(domain, rows, fold):
    """Rows to train on, so many, with both classes as often as in the table; and to test on."""
    folds = StratifiedKFold(10, shuffle=True, random_state=1 + fold // 10)
    train, test = list(folds.split(domain.x, domain.signs))[fold % 10]
    if rows >= len(train):
        return None
    rng, kept = np.random.default_rng(fold), []
    for sign in (-1, 1):
        own = train[domain.signs[train] == sign]
        kept.append(rng.permutation(own)[: max(2, round(rows * len(own) / len(train)))])
    some = np.sort(np.concatenate(kept))
    return some, np.concatenate([test, rng.permutation(np.setdiff1d(train, some))])[:MOST_TESTED]


def measured(folder, names, sizes, n_folds):
    """For every domain and number of rows the mean error by columns, and the gain of quadratic over signed-log."""
    found, todo = [], [(name, rows) for name in names for rows in sizes]
    with show_progress() as bar:
        for done, (name, rows) in enumerate(todo):
            bar("fitting", done, len(todo))
            domain = domains.load(name, folder)
            errors = {word: [] for word in WORDS}
            for fold in range(n_folds):
                if (parts := cut(domain, rows, fold)) is None:
                    break
                train, test = parts
                for word in WORDS:
                    release = rb.craft(
                        domain.x[train], domain.signs[train], n_rados=rows // 2, columns=word, seed=fold, threads=1
                    )
                    clf = rb.MomentsClassifier().fit_rados(release)
                    errors[word].append(percent_wrong(clf.predict(domain.x[test]), domain.signs[test]))
            if errors[WORDS[0]]:
                gains = np.subtract(errors["quadratic"], errors["signed-log"])
                means = {word: round(float(np.mean(own)), 3) for word, own in errors.items()}
                spread = round(float(np.std(gains, ddof=1) / np.sqrt(len(gains))), 3)
                columns = domain.x.shape[1]
                found.append({"domain": name, "columns": columns, "rows": rows, "errors": means, "spread": spread})
    return found


def gain(row):
    """Points by which quadratic columns are behind signed-log ones."""
    return row["errors"]["quadratic"] - row["errors"]["signed-log"]


def rule_table(results):
    """By the number of rows, what quadratic columns lose or win on each domain, and on average."""
    names = list(dict.fromkeys(row["domain"] for row in results))
    lines = []
    for rows in sorted({row["rows"] for row in results}):
        own = {row["domain"]: row for row in results if row["rows"] == rows}
        cells = [signed(gain(own[name]), 1) if name in own else "" for name in names]
        columns = ", ".join(sorted({Fitting(row["columns"], 0).columns(rows) for row in own.values()}))
        lines.append([f"{rows:,}", *cells, signed(float(np.mean([gain(row) for row in own.values()])), 2), columns])
    return table(["rows", *names, "mean", "the rule takes"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--domains", type=listed, default=list(DOMAINS))
    parser.add_argument("--rows", type=lambda text: [int(part) for part in listed(text)], default=list(ROWS))
    parser.add_argument("--folds", type=int, default=FOLDS, help="how many, up to 20 [20]")
    parser.add_argument("--report", action="store_true", help="run nothing: the page from the results")
    options = parser.parse_args()
    if options.report:
        results = json.loads((RESULTS / "fitting.json").read_text())["results"]
        PAGE.write_text(fill_page(PAGE, {"rule": rule_table(results)}))
        return
    if not options.data:
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    results = measured(str(Path(options.data)), options.domains, options.rows, options.folds)
    print(rule_table(results))
    if (options.domains, options.rows, options.folds) == (list(DOMAINS), list(ROWS), FOLDS):
        keep("fitting", results)
        PAGE.write_text(fill_page(PAGE, {"rule": rule_table(results)}))


if __name__ == "__main__":
    main()
