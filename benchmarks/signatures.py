"""Signature sets of prescribed sizes against plain crafting: 1,000,000 x 28 to 1000 rados, as ratios in one run.

    python benchmarks/signatures.py [--repeats 9]

`FixedSupport(0.5)` makes every rado sum half the examples. `FeatureInterval` takes the band of an epsilon of 0.5;
turning bits over by the protected column, which a mechanism does besides, is not in it.
"""

import argparse
import math

import numpy as np

import radoboost as rb
from measuring import keep, side_by_side
from radoboost.signatures import FeatureInterval

ROWS, FEATURES, RADOS = 1_000_000, 28, 1000
EPSILON = 0.5
WANTED = 1.5  # at most so many times the time of plain crafting


def band(m, epsilon):
    """The sizes that the paper's feature-wise mechanism allows."""
    low = math.ceil((m + 1) / (1 + math.exp(epsilon / 2)))
    return FeatureInterval(low, m - low)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), ROWS)
    interval = band(ROWS, EPSILON)
    times = side_by_side(
        {
            "all": lambda: rb.craft(x, y, n_rados=RADOS),
            "fixed-support": lambda: rb.craft(x, y, n_rados=RADOS, signatures=rb.FixedSupport(0.5)),
            "feature-interval": lambda: rb.craft(x, y, n_rados=RADOS, signatures=interval),
        },
        repeats,
    )
    ratios = {name: seconds / times["all"] for name, seconds in times.items()}
    print(f"{ROWS:,} x {FEATURES} -> {RADOS:,}, seconds and ratio to plain crafting (wanted: at most {WANTED})")
    for name, seconds in times.items():
        print(f"{name:<20}{seconds:>8.3f}{ratios[name]:>8.2f}{'' if ratios[name] <= WANTED else '  above'}")
    keep("signatures", {"seconds": times, "ratios": ratios, "wanted": WANTED})


if __name__ == "__main__":
    main()
