"""The protocol of Table 1, one process and one thread, against a plain NumPy transcription of it.

    RADO_DATA=... python benchmarks/protocol.py [--repeats 3]

Exits with 1 where it is not fast enough, or any test error differs.
"""

import argparse
import os

import numpy as np
from threadpoolctl import threadpool_limits

from measuring import keep, shortfalls, side_by_side
from radoboost.lab.paper import table1
from radoboost.lab.paper.jobs import Options, Task, cell_generator

DOMAINS = ("banknote", "ionosphere", "fertility")
FOLDS, ROUNDS = 10, 1000
LEAST_FASTER = 4.0


def plain_boost(rows, train, rado):
    """Boosting over rows; the iterate with the fewest errors on training edge vectors, the last of equals."""
    n, d = rows.shape
    largest = np.abs(rows).max(axis=0)
    weights, theta, kept, fewest = np.full(n, 1 / n), np.zeros(d), np.zeros(d), np.inf
    for _ in range(ROUNDS):
        edges = weights @ rows / largest
        k = int(np.argmax(np.abs(edges)))
        r = float(np.clip(edges[k], -1 + 1e-12, 1 - 1e-12))
        if abs(r) < 1e-12:
            break
        leverage = np.log((1 + r) / (1 - r)) / (2 * largest[k])
        theta[k] += leverage
        weights *= 1 - r * rows[:, k] / largest[k] if rado else np.exp(-leverage * rows[:, k])
        weights /= weights.sum()
        margins = train @ theta
        errors = (margins < 0).sum() + 0.5 * (margins == 0).sum()
        if errors <= fewest:
            kept, fewest = theta.copy(), errors
    return kept


def plain_fold(edges, train, test, generator):
    """Test errors of AdaBoost_SS on the fold, of AdaBoost_SS on n examples of it, and of RadoBoost on n rados."""
    fold, n = edges[train], min(1000, len(train) // 2)
    sample = fold[generator.choice(len(train), n, replace=False)]
    bits = np.frombuffer(generator.bytes(len(train) * -(-n // 8)), dtype=np.uint8).reshape(len(train), -1)
    signatures = np.unpackbits(bits, axis=1, count=n)
    rados = np.array([fold[signatures[:, j] == 1].sum(axis=0) for j in range(n)])
    errors = []
    for rows in (fold, sample, rados):
        margins = edges[test] @ plain_boost(rows, fold, rado=rows is rados)
        coins = generator.random(len(test)) < 0.5
        errors.append(np.where(margins == 0, coins, margins < 0).mean())
    return errors


def plain(options):
    """The errors of all folds of all domains."""
    found = {}
    for name in DOMAINS:
        domain = table1.prepare_domain(name, options.data, options.seed)
        for fold, (train, test) in enumerate(domain.folds):
            generator = cell_generator(Task.of("table1", domain=name, fold=fold), options)
            found[name, fold] = plain_fold(domain.edges, train, test, generator)
    return found


def ours(options):
    """The same, by the cells of the experiment."""
    found = {}
    for name in DOMAINS:
        for fold in range(FOLDS):
            outcome = table1.work(Task.of("table1", domain=name, fold=fold, clamp=0.0), options)
            found[name, fold] = list(outcome["error"].values())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    if "RADO_DATA" not in os.environ:
        print("protocol: left out; set RADO_DATA to the folder of the paper's domains")
        return
    options = Options(os.environ["RADO_DATA"], DOMAINS)
    with threadpool_limits(limits=1):
        fast, slow = ours(options), plain(options)
        different = [f"{name}, fold {fold}" for name, fold in fast if fast[name, fold] != slow[name, fold]]
        times = side_by_side({"radoboost": lambda: ours(options), "numpy": lambda: plain(options)}, repeats)
    ratio = times["numpy"] / times["radoboost"]
    print(f"{len(fast)} folds of {', '.join(DOMAINS)}: {ratio:.1f} times faster than NumPy (wanted: {LEAST_FASTER:g})")
    keep("protocol", {"seconds": times, "ratio": ratio, "folds": len(fast), "same_errors": not different})
    short = [f"{ratio:.2f} times faster than NumPy, not {LEAST_FASTER:g}"] * (ratio < LEAST_FASTER)
    shortfalls(short + [f"{place}: other errors than NumPy's" for place in different])


if __name__ == "__main__":
    main()
