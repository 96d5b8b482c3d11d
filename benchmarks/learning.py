"""Learning from 1000 rados: boosting against a NumPy loop with the same record, moments against one SVD.

    python benchmarks/learning.py [--repeats 7]

`fit_rados` is timed, the way from a release to a model that predicts, and what of it is the learner itself. Exits with
1 where boosting is not fast enough, gives another theta, or `fit_rados` costs as much as so many SVDs.
"""

import argparse

import numpy as np
from scipy.linalg import svd

import radoboost as rb
from measuring import keep, shortfalls, side_by_side
from radoboost.learner.boost import boost
from radoboost.learner.rado_moments import learn_rados

ROUNDS = 1000
LEAST_FASTER, MOST_SVDS = 3.0, 10.0


def numpy_boost(rados):
    """Algorithm 1 with whole-array operations, and the same record of every round."""
    n, d = rados.shape
    star = np.abs(rados).max(axis=0)
    weights, margins, theta, record = np.full(n, 1 / n), np.zeros(n), np.zeros(d), []
    for _ in range(ROUNDS):
        edges = weights @ rados / star
        k = int(np.argmax(np.abs(edges)))
        r, column = edges[k], rados[:, k]
        leverage = np.log((1 + r) / (1 - r)) / (2 * star[k])
        theta[k] += leverage
        weights = weights * (1 - r * column / star[k])
        weights /= weights.sum()
        margins += leverage * column
        smallest = margins.min()
        record.append((k, r, leverage, np.log(np.exp(smallest - margins).mean()) - smallest))
    return theta, record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(0.5, 1, (1000, 28)) * 100, rng.normal(size=(5000, 499))
    release = rb.craft(wide, wide[:, 0] > wide[:, 1], n_rados=1000, seed=1)  # with the constant, 500 columns
    agree = np.allclose(numpy_boost(narrow)[0], boost(narrow, n_rounds=ROUNDS).theta, rtol=1e-9)
    times = side_by_side(
        {
            "boost": lambda: boost(narrow, n_rounds=ROUNDS),
            "numpy boost": lambda: numpy_boost(narrow),
            "fit_rados": lambda: rb.MomentsClassifier().fit_rados(release),
            "moments": lambda: learn_rados(release),
            "svd": lambda: svd(release.rados, full_matrices=False),
        },
        repeats,
    )
    faster, cost = times["numpy boost"] / times["boost"], times["fit_rados"] / times["svd"]
    print(
        f"boosting 1000 x 28, {ROUNDS} rounds: {faster:.2f} times faster than NumPy "
        f"(wanted: {LEAST_FASTER:g}); same theta: {agree}"
    )
    print(f"fit_rados on 1000 x 500: {cost:.2f} times the cost of one SVD (wanted: under {MOST_SVDS:g})")
    ratios = {"boost_ratio": faster, "same_theta": bool(agree), "fit_rados_over_svd": cost}
    keep("learning", {"seconds": times, **ratios, "moments_over_svd": times["moments"] / times["svd"]})
    short = [f"boosting: {faster:.2f} times faster than NumPy, not {LEAST_FASTER:g}"] * (faster < LEAST_FASTER)
    short += ["boosting: another theta than NumPy's"] * (not agree)
    short += [f"fit_rados: {cost:.2f} times the cost of one SVD, not under {MOST_SVDS:g}"] * (cost >= MOST_SVDS)
    shortfalls(short)


if __name__ == "__main__":
    main()
