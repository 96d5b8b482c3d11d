"""Private crafting against plain crafting: 1,000,000 x 28 to 1000 rados, at epsilon 1 and delta 1e-6, in one run.

    python benchmarks/private.py [--rows 1000000]

The first run of each, which compiles and calibrates, is not counted.
"""

import argparse

import numpy as np

import radoboost as rb
from measuring import keep, side_by_side

FEATURES = 28


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, FEATURES))
    y = (x[:, 0] + rng.standard_normal(rows) > 0).astype(int)
    declared = {"bounds": [[-1, 1]] * FEATURES, "classes": (0, 1)}
    mechanisms = {
        "noisy-rados": rb.NoisyRados(1.0),
        "noisy-examples": rb.NoisyExamples(1.0),
        "moments, generic": rb.Moments(1.0, sharpen=False),
        "moments": rb.Moments(1.0),
    }
    contenders = {"plain": lambda: rb.craft(x, y)}
    for name, mechanism in mechanisms.items():
        contenders[name] = lambda mechanism=mechanism: rb.craft(x, y, mechanism=mechanism, **declared)
    times = side_by_side(contenders, 1)
    for name, seconds in times.items():
        print(f"{name:<20}{seconds:>8.2f} s{seconds / times['plain']:>8.1f} times plain crafting")
    keep("private", {"rows": rows, "seconds": times})


if __name__ == "__main__":
    main()
