"""A wide sparse matrix: time and memory of crafting, beside the product of known signatures and the matrix by SciPy.

    python benchmarks/sparse.py [--rows 20000] [--columns 50000] [--density 0.002] [--rados 1000]

Each is run in a process of its own, whose largest resident memory is read. The peer has an easier task: its signatures
lie ready, labels included, columns are not standardised, and its sums are not exact. Then the release is saved, loaded
and boosted from, in one more process.

It writes experiments/results/sparse.json, and exits with 1 where crafting takes more than 4 GiB.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import radoboost as rb
from measuring import keep, shortfalls

WANTED_GIB = 4.0
ROUNDS = 100


def matrix(options):
    """Normal values in random places, as a csr matrix, and labels that follow a few columns."""
    rng = np.random.default_rng(0)
    m, d = options.rows, options.columns
    per_row = round(d * options.density)
    places = rng.integers(0, d, (m, per_row))
    places[:, 0] = rng.integers(0, 10, m)
    x = sparse.csr_array((rng.normal(size=m * per_row), (np.repeat(np.arange(m), per_row), places.ravel())), (m, d))
    y = np.asarray(x[:, :10].sum(axis=1)).ravel() + 0.1 * rng.normal(size=m) > 0
    return x, y.astype(int)


def timed(run):
    begun = time.perf_counter()
    result = run()
    return result, time.perf_counter() - begun


def craft(options):
    """Crafting, from a matrix that lies ready; compiled code does, too."""
    x, y = matrix(options)
    x = x.asformat(options.format)
    rb.craft(x.tocsr()[:200], y[:200], n_rados=5, seed=0)
    release, seconds = timed(lambda: rb.craft(x, y, n_rados=options.rados, seed=0))
    return {"seconds": seconds, "shape": release.rados.shape}


def peer(options):
    """The product by SciPy."""
    x, y = matrix(options)
    rng = np.random.default_rng(1)
    signs = rng.integers(0, 2, (options.rados, options.rows)) * (2.0 * y - 1)
    product, seconds = timed(lambda: signs @ x)
    return {"seconds": seconds, "shape": product.shape}


def after(options):
    """What comes after crafting: saving, loading, boosting."""
    x, y = matrix(options)
    release = rb.craft(x, y, n_rados=options.rados, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "wide.rado.parquet"
        _, saving = timed(lambda: release.save(place))
        loaded, loading = timed(lambda: rb.load(place))
        size = place.stat().st_size
    clf, boosting = timed(lambda: rb.RadoBoostClassifier(n_rounds=ROUNDS).fit_rados(loaded))
    error = float(np.mean(clf.predict(x[:2000]) != y[:2000]))
    seconds = {"save": saving, "load": loading, "boost": boosting}
    return {"seconds": seconds, "bytes": size, "rounds": ROUNDS, "training_error": error}


TASKS = {"craft": craft, "peer": peer, "after": after}


def measured(task, options, kind="csr"):
    """What a task gives in a process of its own, and the largest memory of that process."""
    given = [f"--{name}={getattr(options, name)}" for name in ("rows", "columns", "density", "rados")]
    command = [sys.executable, __file__, "--task", task, "--format", kind, *given]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--density", type=float, default=0.002)
    parser.add_argument("--rados", type=int, default=1000)
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--format", default="csr", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task is not None:
        found = TASKS[options.task](options)
        print(json.dumps({**found, "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))
        return
    results = {
        "matrix": {"rows": options.rows, "columns": options.columns, "density": options.density},
        "rados": options.rados,
        "craft": [measured("craft", options) for _ in range(3)],
        "craft_csc": measured("craft", options, "csc"),
        "peer": [measured("peer", options) for _ in range(3)],
        "after": measured("after", options),
    }
    seconds = {name: float(np.median([run["seconds"] for run in results[name]])) for name in ("craft", "peer")}
    peaks = {name: max(run["peak_gib"] for run in results[name]) for name in ("craft", "peer")}
    results["ratio_to_peer"] = seconds["craft"] / seconds["peer"]
    results["peak_gib"] = max(peaks["craft"], results["craft_csc"]["peak_gib"])
    for name in seconds:
        print(f"{name:<8}{seconds[name]:8.2f} s{peaks[name]:8.2f} GiB")
    print(f"crafting takes {results['ratio_to_peer']:.2f} times as long as the product; then: {results['after']}")
    keep("sparse", results)
    shortfalls([f"{results['peak_gib']:.2f} GiB"] * (results["peak_gib"] > WANTED_GIB))


if __name__ == "__main__":
    main()
