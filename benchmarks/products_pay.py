"""Whether columns beyond linear pay, asked of the table or of the release: two tests that were tried, and are not used.

    python benchmarks/products_pay.py --data FOLDER [--splits 4]
    python benchmarks/products_pay.py --report             the page alone, from the stored results

*Asked of the table*: the planned classifier, and the one that is nearest to it and linear, are both applied to the rows
they were learned from. Two more counts would be released, of rows that only one of them gets wrong, for a hundredth of
mu squared, and the linear one taken if it is better by two deviations. *Asked of the release*: what the columns beyond
linear explain of the classes in the released moments, beyond what noise and chance explain, says how far their part of
the classifier should be shrunk. It costs nothing.

Both are compared on the main tables, and on two made ones with normal classes, for which linear is best. The results
stand on docs/choosing-epsilon.md.
"""

import argparse
import json
import math
import os

import numpy as np

import radoboost as rb
import tables
from measuring import RESULTS, fill_page, keep
from radoboost.holder.mechanisms import Moments
from radoboost.learner.moments import learn_released_moments
from radoboost.release.moment_math import HESSIAN_FLOOR, noise_floor, raise_eigenvalues
from utility_page import PAGE, TABLES, table

EPSILONS, DELTA, TEST_SHARE = (0.3, 1.0, 10.0), 1e-6, 0.01
NORMAL = {"8 normal columns": (8, 1.0), "20 normal columns": (20, 2.0)}  # how many, and how far classes are apart
WAYS = ("planned", "nearest linear", "by counts", "shrunk", "linear release")


def load(folder, name):
    if name not in NORMAL:
        domain = tables.load(folder, name)
        return domain.scaled, domain.signs
    columns, apart = NORMAL[name]
    rng = np.random.default_rng(5)
    signs = rng.choice([-1, 1], 7400)
    x = rng.normal(size=(len(signs), columns)) + signs[:, None] * apart / math.sqrt(columns)
    low, high = np.quantile(x, tables.QUANTILES, axis=0)
    return np.clip(2 * (x - low) / (high - low) - 1, -1, 1), signs


def craft(x, signs, epsilon, columns="auto"):
    bounds = [[-1, 1]] * x.shape[1]
    return rb.craft(
        x, signs, classes=(-1, 1), bounds=bounds, mechanism=Moments(epsilon, DELTA), columns=columns, counts=None
    )


def predictions(release, theta, x):
    values = x if release.map is None else release.map.apply(x)
    return np.where(values @ theta[:-1] + theta[-1] > 0, 1, -1)


class Parts:
    """A classifier in coordinates in which its linear part comes first, and the rest is apart from it."""

    def __init__(self, release):
        noise, constant = release.mechanism["noise"], release.mechanism["constant"]
        a, second, total = (release.blocks[name] for name in ("whitening", "moment:C2", "moment:b"))
        d = len(a)
        linear = [k for k, term in enumerate(release.map.terms) if term.kind == "linear" and "(" not in term.inputs[0]]
        self.order = [d - 1, *linear, *sorted({*range(d - 1)} - {*linear})]
        self.linear = len(linear) + 1
        self.units = np.ones(d)
        self.units[-1] = constant
        values, vectors = np.linalg.eigh(second)
        values = raise_eigenvalues(values, noise_floor(noise["whitened"], d, HESSIAN_FLOOR))
        inverse = np.linalg.inv(a)
        metric = inverse @ (vectors * values) @ vectors.T @ inverse
        self.root = np.linalg.cholesky(metric[np.ix_(self.order, self.order)]).T
        turned = self.root @ a[self.order] @ vectors  # times a vector with unit noise in whitened rows
        self.squares = float(np.square((turned @ (vectors.T @ total[0] / values))[self.linear :]).sum())
        spread = np.square(turned / values).sum(axis=1)[self.linear :]
        self.chance = (1 + noise["sum"] ** 2 * spread).sum()
        rounds = release.mechanism["rounds"]
        self.left = (1 + (2 * noise["rounds"]) ** 2 / (rounds - rounds // 2) * spread).sum()

    def scaled(self, theta, factor):
        """The classifier with its part beyond linear times `factor`."""
        inner = self.root @ (theta / self.units)[self.order]
        inner[self.linear :] *= factor
        changed = np.empty_like(theta)
        changed[self.order] = np.linalg.solve(self.root, inner)
        return changed * self.units

    def shrinkage(self):
        signal = max(0.0, self.squares - self.chance)
        return signal / (signal + self.left)


def errors(x, signs, epsilon, split):
    train, test = tables.split_rows(len(x), split)
    release = craft(x[train], signs[train], epsilon)
    linear = craft(x[train], signs[train], epsilon, "linear")
    thetas = [learn_released_moments(release).theta]
    if release.mechanism["plan"]["kind"] == "linear":
        return None
    parts = Parts(release)
    thetas.append(parts.scaled(thetas[0], 0.0))
    wrong = [predictions(release, theta, x[train]) != signs[train] for theta in thetas]
    mu = 1 / (release.mechanism["noise"]["counts"] * math.sqrt(0.01))
    deviation = math.sqrt(2) / (mu * math.sqrt(TEST_SHARE))
    rng = np.random.default_rng([split, round(100 * epsilon), len(x)])
    better = wrong[0].sum() - wrong[1].sum() + rng.normal(0.0, deviation)
    thetas.append(thetas[1] if better > 2 * deviation else thetas[0])
    thetas.append(parts.scaled(thetas[0], parts.shrinkage()))
    found = [predictions(release, theta, x[test]) for theta in thetas]
    found.append(predictions(linear, learn_released_moments(linear).theta, x[test]))
    return [100 * float(np.mean(one != signs[test])) for one in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="the folder of the tables")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--report", action="store_true", help="run nothing: the table from the results")
    asked = parser.parse_args()
    if not asked.report:
        keep("products_pay", run(asked.data, asked.splits))
    results = json.loads((RESULTS / "products_pay.json").read_text())["results"]
    TABLES.write_text(fill_page(TABLES, {"products": page_part(results)}, PAGE))


def run(folder, splits):
    """The mean errors of all ways, for each table and epsilon at which there is something to ask."""
    results = []
    for name in (*tables.MAIN, *NORMAL):
        x, signs = load(folder, name)
        for epsilon in EPSILONS:
            cells = [errors(x, signs, epsilon, split) for split in range(1, splits + 1)]
            if None in cells:
                continue  # the table's own columns are all there is: nothing to ask
            means = dict(zip(WAYS, np.mean(cells, axis=0).round(3).tolist(), strict=True))
            results.append({"table": name, "epsilon": epsilon, **means})
            print(f"{name:18} {epsilon:5g} " + " ".join(f"{way} {means[way]:6.2f}" for way in WAYS), flush=True)
    return results


def page_part(results):
    """A table of what each way does to the error of the planned classifier, in points, with means at its end."""
    rows = [
        [row["table"], f"{row['epsilon']:g}", f"{row['planned']:.2f}"]
        + [f"{row[way] - row['planned']:+.2f}" for way in WAYS[1:]]
        for row in results
    ]
    for words, made in (("**mean, main tables**", False), ("**mean, normal classes**", True)):
        some = [row for row in results if (row["table"] in NORMAL) == made]
        gaps = np.array([[row[way] - row["planned"] for way in WAYS[1:]] for row in some]).mean(axis=0)
        planned = float(np.mean([row["planned"] for row in some]))
        rows.append([words, "", f"{planned:.2f}", *(f"{gap:+.2f}" for gap in gaps)])
    note = f"*One record added or removed, delta = {DELTA:g}. Bounds: quantiles of the whole table, uncharged.*"
    return f"{table(['table', 'epsilon', 'planned', *WAYS[1:]], rows)}\n\n{note}"


if __name__ == "__main__":
    main()
