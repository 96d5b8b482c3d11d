"""Several holders' releases put together: test errors beside those of one release of all rows.

    python benchmarks/holders_merge.py --data FOLDER [--domains banknote,magic] [--folds 5] [--seeds 3]
    python benchmarks/holders_merge.py --report

Plain, five holders, 1000 rados each: equal parts; sizes of 1 : 1.7 : 2.9 : ...; labels, the positive class shared out
as 15 : ... : 85 and the negative one the other way round; columns, whose rows were sorted by the first principal
component and cut. Compared are one release of all rows, a
holder's alone (the mean over holders), the merged sum, merged moments, and two that are not offered: rados stacked as
they are, converted to the same constants, and the plain average of the holders' models.
Private, ten equal holders, or five with columns as above, `Moments` of the table's own columns, delta 1e-6, for one
record added or removed: one release of all rows, a holder's alone, the average of `rado learn A B C`, and the mean of
the holders' scores. Bounds are quantiles of the whole table, uncharged, as in `utility.py`.

A run of everything writes the key `merge` of experiments/results/holders.json, and its parts of the page
docs/several-holders.md; --report does the latter alone. Exits with 1 where a merged release is more than 1 point worse
than one of all rows.
"""

import argparse
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import flat
import radoboost as rb
import tables
from measuring import RESULTS, fill_page, keep, shortfalls, write_pages
from methods import DELTA, percent_wrong
from radoboost.learner.rado_moments import learn_rados
from radoboost.release.merge import pool_column
from radoboost.release.release import RADOS
from utility_page import signed, table

PAGE, TABLES = Path(__file__).parent.parent / "docs" / "several-holders.md", RESULTS / "several-holders.md"
DOMAINS, FOLDS, SEEDS = ("banknote", "abalone", "magic"), 5, 3
PLAIN_HOLDERS, PRIVATE_HOLDERS, N_RADOS = 5, 10, 1000
WANTED = 1.0  # points that a merged release may be worse
CENTRAL, ALONE, SUM, MOMENTS = "one release of all rows", "alone", "merged, sum", "merged, moments"
STACKED, MODELS, HESSIAN = "stacked", "average of models", "rado learn A B C"
PLAIN_COLUMNS = (CENTRAL, ALONE, SUM, MOMENTS, STACKED, MODELS)
PRIVATE_COLUMNS = (CENTRAL, ALONE, HESSIAN, MODELS)


# ---- how rows are shared out


def by_shares(order, shares):
    """Rows in this order, cut into parts of these shares."""
    ends = np.round(np.cumsum(shares) / np.sum(shares) * len(order)).astype(int)
    return np.split(order, ends[:-1])


def equal(x, y, rng):
    return by_shares(rng.permutation(len(y)), np.ones(PLAIN_HOLDERS))


def unequal(x, y, rng):
    return by_shares(rng.permutation(len(y)), 1.7 ** np.arange(PLAIN_HOLDERS))


def by_labels(x, y, rng):
    """The positive class is shared out as 15 : ... : 85, and the negative one as 85 : ... : 15."""
    parts = [[] for _ in range(PLAIN_HOLDERS)]
    shares = np.linspace(0.15, 0.85, PLAIN_HOLDERS)
    for sign, own in ((1, shares), (-1, 1 - shares)):
        for part, rows in zip(parts, by_shares(rng.permutation(np.flatnonzero(y == sign)), own), strict=True):
            part.append(rows)
    return [np.concatenate(part) for part in parts]


def by_columns(x, y, rng):
    """Rows sorted by the first principal component of z-scores."""
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    direction = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[2][0]
    return by_shares(np.argsort(z @ direction, kind="stable"), np.ones(PLAIN_HOLDERS))


SPLITS = {"equal": equal, "unequal": unequal, "labels": by_labels, "columns": by_columns}
PRIVATE_SPLITS = {
    "ten, equal": lambda x, y, rng: by_shares(rng.permutation(len(y)), np.ones(PRIVATE_HOLDERS)),
    "five, columns": by_columns,
}
PRIVATE = (("ten, equal", 1.0), ("ten, equal", 0.3), ("five, columns", 1.0))


# ---- errors


def wrong(theta, columns, x, y):
    """Errors in percent of weights of scaled columns."""
    model = rb.Model(theta, columns, (-1, 1), {"name": "moments"})
    return percent_wrong(np.where(model.scores(x) > 0, 1, -1), y)


def plain_errors(x, y, train, test, split, seed):
    rng = np.random.default_rng(seed)
    parts = [train[rows] for rows in SPLITS[split](x[train], y[train], rng)]
    releases = [rb.craft(x[rows], y[rows], n_rados=N_RADOS, classes=(-1, 1)) for rows in parts]
    merged = {SUM: rb.merge(releases, "sum"), MOMENTS: rb.merge(releases, "moments")}
    merged[CENTRAL] = rb.craft(x[train], y[train], n_rados=N_RADOS)

    def error(release):
        return wrong(learn_rados(release).theta, release.columns, x[test], y[test])

    models = [rb.MomentsClassifier().fit_rados(release).model_ for release in releases]
    scores = np.mean([model.scores(x[test]) for model in models], axis=0)
    counts = [len(rows) for rows in parts]
    mean_count = round(np.mean(counts))  # a stacked rado is of one holder's rows
    columns = tuple(pool_column(own, counts) for own in zip(*(r.columns for r in releases), strict=True))
    return {
        **{name: error(release) for name, release in merged.items()},
        ALONE: float(np.mean([percent_wrong(model.predict(x[test]), y[test]) for model in models])),
        STACKED: error(replace(merged[MOMENTS], blocks={RADOS: stacked(releases, columns)}, n_examples=mean_count)),
        MODELS: percent_wrong(np.where(scores > 0, 1, -1), y[test]),
    }


def stacked(releases, columns):
    """Rados of all holders under each other, with the same constants: not offered."""
    rows = []
    for release in releases:
        own = release.rados.copy()
        for k, (mine, pooled) in enumerate(zip(release.columns[:-1], columns[:-1], strict=True)):
            own[:, k] = (mine.std * own[:, k] + (mine.mean - pooled.mean) * own[:, -1]) / pooled.std
        rows.append(own)
    return np.concatenate(rows)


def private_errors(x, y, bounds, train, test, split, epsilon, seed):
    rng = np.random.default_rng(seed)
    options = {"classes": (-1, 1), "bounds": bounds, "columns": "linear", "mechanism": rb.Moments(epsilon, DELTA)}
    parts = [train[rows] for rows in PRIVATE_SPLITS[split](x[train], y[train], rng)]
    releases = [flat.craft(x[rows], y[rows], **options) for rows in parts]

    def error(given):
        return percent_wrong(rb.MomentsClassifier().fit_rados(given).predict(x[test]), y[test])

    models = [rb.MomentsClassifier().fit_rados(release).model_ for release in releases]
    scores = np.mean([model.scores(x[test]) for model in models], axis=0)
    return {
        CENTRAL: error(flat.craft(x[train], y[train], **options)),
        ALONE: float(np.mean([percent_wrong(model.predict(x[test]), y[test]) for model in models])),
        HESSIAN: error(releases),
        MODELS: percent_wrong(np.where(scores > 0, 1, -1), y[test]),
    }


def folds(n_rows, count):
    """Rows to train on and to test on, `count` times, every row tested once."""
    order = np.random.default_rng(0).permutation(n_rows)
    for test in np.array_split(order, count):
        yield np.setdiff1d(order, test), test


def summary(runs):
    """The mean over runs, and its standard error, by method."""
    return {
        name: [float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))]
        for name, values in ((name, [run[name] for run in runs]) for name in runs[0])
    }


def measured(folder, domains, n_folds, n_seeds):
    results = {"plain": [], "private": []}
    for name in domains:
        x, y = tables.values(folder, name)
        bounds, cells = tables.quantile_bounds(x), list(folds(len(y), n_folds))
        for split in SPLITS:
            runs = [
                plain_errors(x, y, *rows, split, 100 * seed + k)
                for seed in range(n_seeds)
                for k, rows in enumerate(cells)
            ]
            results["plain"].append({"domain": name, "split": split, "errors": summary(runs)})
            print(name, split, {k: round(v[0], 1) for k, v in results["plain"][-1]["errors"].items()}, flush=True)
        for split, epsilon in PRIVATE:
            runs = [
                private_errors(x, y, bounds, *rows, split, epsilon, 100 * seed + k)
                for seed in range(n_seeds)
                for k, rows in enumerate(cells)
            ]
            results["private"].append({"domain": name, "split": split, "epsilon": epsilon, "errors": summary(runs)})
            print(
                name,
                split,
                epsilon,
                {k: round(v[0], 1) for k, v in results["private"][-1]["errors"].items()},
                flush=True,
            )
    return results


# ---- what is kept and shown


def rendered(results):
    """The page with the parts of these results."""
    return fill_page(PAGE, generated(results), TABLES)


def as_text(cells):
    """How far other ways are from one release of all rows, from the least to the most."""
    lines = []
    for name in PLAIN_COLUMNS:
        apart = [cell["errors"][name][0] - cell["errors"][CENTRAL][0] for cell in cells]
        if name != CENTRAL:
            lines.append(
                f"- {name}: {signed(np.mean(apart), 1)} points ({signed(min(apart), 1)} to {signed(max(apart), 1)})"
            )
    return "\n".join([f"Against {CENTRAL}, on average over {len(cells)} cells:", "", *lines])


def generated(results):
    """The parts of these results, by name."""
    plain = [
        [cell["domain"], cell["split"], *(f"{cell['errors'][name][0]:.1f}" for name in PLAIN_COLUMNS)]
        for cell in results["plain"]
    ]
    private = [
        [
            cell["domain"], cell["split"], f"{cell['epsilon']:g}",
            *(f"{mean:.1f} ({error:.1f})" for mean, error in (cell["errors"][name] for name in PRIVATE_COLUMNS)),
        ]
        for cell in results["private"]
    ]  # fmt: skip
    return {
        "merged in words": as_text(results["plain"]),
        "merged": table(["domain", "rows at five holders", *PLAIN_COLUMNS], plain, left=2),
        "averaged": table(["domain", "holders", "epsilon", *PRIVATE_COLUMNS], private, left=2),
    }


def short_of(results):
    """Where a merged release is more than a point worse than one of all rows."""
    return [
        f"{cell['domain']}, {cell['split']}: {name} has {cell['errors'][name][0]:.1f} % of errors, and one release of "
        f"all rows {cell['errors'][CENTRAL][0]:.1f}"
        for cell in results["plain"]
        for name in (SUM, MOMENTS)
        if cell["errors"][name][0] > cell["errors"][CENTRAL][0] + WANTED
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"))
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--report", action="store_true", help="write the page from kept results, and run nothing")
    given = parser.parse_args()
    if given.report:
        results = json.loads((RESULTS / "holders.json").read_text())["merge"]["results"]
        write_pages(PAGE, TABLES, generated(results))
        return
    if given.data is None:
        print("holders_merge: left out; set RADO_DATA to the folder of the paper's domains")
        return
    warnings.simplefilter("ignore", rb.ClippedWarning)  # bounds are quantiles
    warnings.simplefilter("ignore", rb.NoiseWarning)  # how little there is at a small epsilon is what is measured
    domains = given.domains.split(",")
    results = measured(given.data, domains, given.folds, given.seeds)
    if (domains, given.folds, given.seeds) == (list(DOMAINS), FOLDS, SEEDS):
        keep("holders/merge", results)
        write_pages(PAGE, TABLES, generated(results))
    shortfalls(short_of(results))


if __name__ == "__main__":
    main()
