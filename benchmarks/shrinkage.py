"""What becomes of a classifier from private moments where there is little: kept, shrunk by its noise, or thrown away.

    python benchmarks/shrinkage.py --data FOLDER [--draws 25] [--results FILE]

Every release is learned from in four ways, so that differences are paired: as the library does; by posterior means of
theta under the declared noise (a normal prior, alike in all directions of whitened rows, of the variance that fits); by
these, but for the class balance, which is shrunk by its own noise alone; and as the noisy majority. Columns are the
table's own. Bounds are quantiles of the whole table, and uncharged. delta is 1e-6, for one record added or removed.
"""

import argparse
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np

import radoboost as rb
from radoboost.learner.uncertainty import Curvature, propagate_noise
from radoboost.release.moment_math import HESSIAN_FLOOR, eigenvalue_floor, theta_of_whitened_rows, unwhitening_factors
from tables import load, split_rows

DOMAINS = ("breast_cancer", "abalone", "banknote", "wine_red", "transfusion", "ionosphere")
EPSILONS, DELTA, SPLITS = (0.1, 0.3), 1e-6, (1, 2, 3, 4)


def posterior(mean, covariance):
    """The posterior mean under a normal prior of mean 0, of the variance that fits the length of `mean`."""
    values, vectors = np.linalg.eigh(covariance)
    inner, low, high = vectors.T @ mean, 1e-12, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        fits = (inner**2 / (middle + values)).sum() > len(inner)
        low, high = (middle, high) if fits else (low, middle)
    variance = max(low, 0.1 * float(values.mean()))  # it never vanishes: some direction must be taken
    return vectors @ (variance / (variance + values) * inner)


def classifiers(release):
    """theta over columns, by name of the way it is made."""
    blocks, mechanism, d = release.blocks, release.mechanism, len(release.columns)
    floor = eigenvalue_floor(mechanism["noise"]["whitened"], d, HESSIAN_FLOOR)
    curvature, theta = Curvature.of(blocks["moment:C2"], floor), theta_of_whitened_rows(blocks, mechanism)
    (covariance,) = propagate_noise(release, curvature, np.eye(d), theta, [range(d)]).covariances
    balance = blocks["whitening"] @ blocks["moment:C"][:, -1]
    balance /= np.linalg.norm(balance)
    shrunk = posterior(theta, covariance)
    level, doubt = float(balance @ theta), float(balance @ covariance @ balance)
    level *= max(0.0, 1 - doubt / max(level**2, 1e-300))
    apart = shrunk + balance * (level - float(balance @ shrunk))
    majority = np.zeros(d)
    majority[-1] = np.linalg.solve(blocks["whitening"], blocks["moment:b"][0])[-1]
    factors = unwhitening_factors(blocks, mechanism, release.columns)
    ways = {"kept": theta, "posterior means": shrunk, "class balance apart": apart}
    return {**{name: factors @ vector for name, vector in ways.items()}, "noisy majority": majority}


def measured(folder, name, epsilon, draws):
    """Mean errors in percent, and standard errors of differences to the first way."""
    x, signs, bounds, *_ = load(folder, name)
    errors = []
    for split in SPLITS:
        train, test = split_rows(len(x), split)
        for _ in range(draws):
            release = rb.craft(
                x[train],
                signs[train],
                mechanism=rb.Moments(epsilon, DELTA),
                classes=(-1, 1),
                columns="linear",
                schema=bounds.tolist(),
                compute=rb.Compute(threads=1),
            )
            row = {}
            for way, theta in classifiers(release).items():
                model = rb.Model(theta, release.columns, (-1, 1), {"name": way})
                row[way] = 100 * float(np.mean((model.scores(x[test]) > 0) != (signs[test] > 0)))
            errors.append(row)
    kept = np.array([row["kept"] for row in errors])
    answer = {}
    for way in errors[0]:
        values = np.array([row[way] for row in errors])
        answer[way] = {"error": float(values.mean()), "less_kept": float((values - kept).mean()),
                       "standard_error": float((values - kept).std(ddof=1) / math.sqrt(len(kept)))}  # fmt: skip
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), required="RADO_DATA" not in os.environ)
    parser.add_argument("--draws", type=int, default=25, help="releases of each of four splits")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rb.ClippedWarning)
    results = {}
    for name in DOMAINS:
        for epsilon in EPSILONS:
            answer = results[f"{name} at {epsilon:g}"] = measured(options.data, name, epsilon, options.draws)
            others = [f"{way} {cell['less_kept']:+.2f} ({cell['standard_error']:.2f})" for way, cell in answer.items()]
            print(f"{name:<14}{epsilon:<5g}kept {answer['kept']['error']:.2f}; {'; '.join(others[1:])}", flush=True)
    if options.results is not None:
        options.results.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
