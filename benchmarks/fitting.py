"""Where the rule of columns="fitting" comes from: errors of moments by columns, on tables cut down to fewer rows.

    python benchmarks/fitting.py --data FOLDER [--domains sonar,abalone] [--rows 60,150,500] [--folds 20]
    python benchmarks/fitting.py --data FOLDER --rados
    python benchmarks/fitting.py --report

Stratified folds of random_state 1 and 2, so that none of those that `learners.py` reports decides anything. Of each so
many rows are taken at random from those to train on, and the others tested on, up to 4,000; n = rows // 2 rados are
crafted of them with linear, signed-log and quadratic columns, from one seed. The rule has no aim; this shows what it
costs and what it brings. With --rados it is 20 to 1000 rados whatever the number of rows, the first ones of one
release, with fewer rows and folds. Runs of everything write experiments/results/fitting.json or fitting_rados.json and
their part of experiments/results/fitting.md; --report does the latter alone.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

import radoboost as rb
from learners import listed, percent_wrong
from learners_page import WORDS
from measuring import RESULTS, fill_page, keep
from radoboost.holder.fitting import Fitting
from radoboost.paper import domains
from radoboost.progress import show_progress
from utility_page import signed, table

PAGE = RESULTS / "fitting.md"
DOMAINS = (
    "fertility", "haberman", "transfusion", "banknote", "breast_wisc", "ionosphere", "sonar", "wine_red", "abalone",
    "wine_white",
)  # fmt: skip
ROWS = (40, 60, 90, 120, 150, 200, 300, 500, 1000)
FOLDS, MOST_TESTED = 20, 4000
RADOS, ROWS_OF_RADOS, FOLDS_OF_RADOS = (20, 50, 100, 200, 1000), (60, 150, 500, 1000), 8


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


def measured_by_rados(folder, names):
    """For every domain, number of rows and number of rados the mean error by columns."""
    found, todo = [], [(name, rows) for name in names for rows in ROWS_OF_RADOS]
    with show_progress() as bar:
        for done, (name, rows) in enumerate(todo):
            bar("fitting", done, len(todo))
            domain = domains.load(name, folder)
            errors = {(n, word): [] for n in RADOS for word in WORDS}
            for fold in range(FOLDS_OF_RADOS):
                if (parts := cut(domain, rows, fold)) is None:
                    break
                train, test = parts
                for word in WORDS:
                    release = rb.craft(
                        domain.x[train], domain.signs[train], n_rados=RADOS[-1], columns=word, seed=fold, threads=1
                    )
                    for n in RADOS:  # rados are independent: the first few are a release of few
                        fewer = replace(release, blocks={"rados": release.rados[:n]})
                        clf = rb.MomentsClassifier().fit_rados(fewer)
                        errors[n, word].append(percent_wrong(clf.predict(domain.x[test]), domain.signs[test]))
            if errors[RADOS[0], WORDS[0]]:
                found += [
                    {
                        "domain": name,
                        "columns": domain.x.shape[1],
                        "rows": rows,
                        "rados": n,
                        "errors": {word: round(float(np.mean(errors[n, word])), 3) for word in WORDS},
                    }
                    for n in RADOS
                ]
    return found


def rados_table(results):
    """By the numbers of rows and rados, what quadratic columns lose or win on average, and on how many domains."""
    lines = []
    for rows in sorted({row["rows"] for row in results}):
        cells = []
        for n in sorted({row["rados"] for row in results}):
            gains = [gain(row) for row in results if (row["rows"], row["rados"]) == (rows, n)]
            cells.append(f"{signed(float(np.mean(gains)), 2)} ({sum(one < 0 for one in gains)} of {len(gains)})")
        lines.append([f"{rows:,}", *cells])
    gains = table(["rows", *(f"{n:,} rados" for n in sorted({row["rados"] for row in results}))], lines)
    told = [f"{words} {mean_error(results, rule):.2f} %" for words, rule in RULES.items()]
    return f"{gains}\n\nThe mean error over all of these would be, by rule: {', '.join(told)}."


RULES = {
    "quadratic columns where `fitting` takes them": lambda rule, row: rule == "quadratic",
    "only from 100 rados on": lambda rule, row: rule == "quadratic" and row["rados"] >= 100,
    "only from 200 on": lambda rule, row: rule == "quadratic" and row["rados"] >= 200,
    "only from ten for each column of the table": lambda rule, row: (
        rule == "quadratic" and row["rados"] >= 10 * row["columns"]
    ),
    "signed-log columns everywhere": lambda rule, row: False,
}
"""Whether to take squares and products, by the word of the rule that there is, and the row."""


def mean_error(results, rule):
    """Over all domains, rows and rados, if a rule chooses between quadratic and signed-log columns."""
    errors = []
    for row in results:
        squares = rule(Fitting(row["columns"], 0).columns(row["rows"]), row)
        errors.append(row["errors"]["quadratic" if squares else "signed-log"])
    return float(np.mean(errors))


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


def rendered():
    """The page with the parts that are from here, by the results that are kept."""
    kept = {
        name: json.loads((RESULTS / f"{name}.json").read_text())["results"] for name in ("fitting", "fitting_rados")
    }
    return fill_page(PAGE, {"rule": rule_table(kept["fitting"]), "rule-rados": rados_table(kept["fitting_rados"])})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--domains", type=listed, default=list(DOMAINS))
    parser.add_argument("--rows", type=lambda text: [int(part) for part in listed(text)], default=list(ROWS))
    parser.add_argument("--folds", type=int, default=FOLDS, help="how many, up to 20 [20]")
    parser.add_argument("--rados", action="store_true", help="vary the number of rados instead")
    parser.add_argument("--report", action="store_true", help="run nothing: the page from the results")
    options = parser.parse_args()
    if options.report:
        PAGE.write_text(rendered())
        return
    if not options.data:
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    if options.rados:
        results = measured_by_rados(str(Path(options.data)), options.domains)
        print(rados_table(results))
        if options.domains == list(DOMAINS):
            keep("fitting_rados", results)
            PAGE.write_text(rendered())
        return
    results = measured(str(Path(options.data)), options.domains, options.rows, options.folds)
    print(rule_table(results))
    if (options.domains, options.rows, options.folds) == (list(DOMAINS), list(ROWS), FOLDS):
        keep("fitting", results)
        PAGE.write_text(rendered())


if __name__ == "__main__":
    main()
