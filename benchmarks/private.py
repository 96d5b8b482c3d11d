"""Private crafting against plain crafting and DP-SGD: 1,000,000 x 28 at epsilon 1 and delta 1e-6, in one run.

    python benchmarks/private.py [--rows 1000000]

DP-SGD is that of peers.py in NumPy: 1000 steps, each over a Poisson sample of 2 % of the rows. The first run of each,
which compiles and calibrates, is not counted. Memory is the most that a process of its own held beyond the table.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import flat
import peers
import radoboost as rb
from measuring import keep, side_by_side

FEATURES, EPSILON, DELTA = 28, 1.0, 1e-6
DECLARED = {"bounds": [[-1, 1]] * FEATURES, "classes": (-1, 1)}
MECHANISMS = {
    "noisy-rados": rb.NoisyRados(EPSILON, DELTA),
    "noisy-examples": rb.NoisyExamples(EPSILON, DELTA),
    "moments, generic": rb.Moments(EPSILON, DELTA, sharpen=False),
    "moments": rb.Moments(EPSILON, DELTA),
}


def make_table(rows):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, FEATURES))
    return x, np.where(x[:, 0] + rng.standard_normal(rows) > 0, 1, -1)


def peak_mib():
    """Not ru_maxrss: that starts with what the parent held."""
    return int(re.search(r"VmHWM:\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) / 1024


def held_beyond_table(rows):
    """In a process of its own: everything is loaded and compiled on a few rows, then crafted once."""
    x, y = make_table(rows)
    flat.craft(x[:1000], y[:1000], mechanism=MECHANISMS["moments"], **DECLARED)
    before = peak_mib()
    flat.craft(x, y, mechanism=MECHANISMS["moments"], **DECLARED)
    print(json.dumps(peak_mib() - before))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        held_beyond_table(options.rows)
        return
    run = [sys.executable, __file__, "--memory", "--rows", str(options.rows)]
    memory = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    x, y = make_table(options.rows)
    units, rng = peers.unit_rows(x, DECLARED["bounds"]), np.random.default_rng(1)
    contenders = {
        "plain": lambda: rb.craft(x, y),
        "DP-SGD": lambda: peers.dp_sgd(units, y, EPSILON, DELTA, rng, rate=10.0, clip=0.5, inclusion=0.02, steps=1000),
    }
    for name, mechanism in MECHANISMS.items():
        contenders[name] = lambda mechanism=mechanism: flat.craft(x, y, mechanism=mechanism, **DECLARED)
    times = side_by_side(contenders, 3)
    for name, seconds in times.items():
        ratios = f"{seconds / times['plain']:>7.1f} times plain, {seconds / times['DP-SGD']:>6.2f} times DP-SGD"
        print(f"{name:<20}{seconds:>8.2f} s{ratios}")
    print(f"moments held {memory:.0f} MiB beyond the table")
    keep("private", {"rows": options.rows, "seconds": times, "moments_mib_beyond_table": memory})


if __name__ == "__main__":
    main()
