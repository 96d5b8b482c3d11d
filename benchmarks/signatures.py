"""Signature sets of prescribed sizes against plain crafting: 1,000,000 x 28 to 1000 rados, as ratios in one run.

    python benchmarks/signatures.py [--repeats 9]

`FixedSupport(0.5)` makes every rado sum half the examples. `FeatureBand` keeps one binary column within the band of an
epsilon of 0.5. Its accounting, which takes as long for any number of rows, is done once before and kept. Exits with 1
where one takes more than WANTED times as long as plain crafting.
"""

import argparse

import numpy as np

import radoboost as rb
from measuring import keep, shortfalls, side_by_side

ROWS, FEATURES, RADOS = 1_000_000, 28, 1000
EPSILON = 0.5
WANTED = 1.5  # at most so many times the time of plain crafting


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), ROWS)
    x[:, 0] = rng.choice([-1, 1], ROWS)
    times = side_by_side(
        {
            "all": lambda: rb.craft(x, y, n_rados=RADOS),
            "fixed-support": lambda: rb.craft(x, y, n_rados=RADOS, signatures=rb.FixedSupport(0.5)),
            "feature-band": lambda: rb.craft(x, y, n_rados=RADOS, mechanism=rb.FeatureBand("x0", EPSILON)),
        },
        repeats,
    )
    ratios = {name: seconds / times["all"] for name, seconds in times.items()}
    print(f"{ROWS:,} x {FEATURES} -> {RADOS:,}, seconds and ratio to plain crafting (wanted: at most {WANTED})")
    for name, seconds in times.items():
        print(f"{name:<20}{seconds:>8.3f}{ratios[name]:>8.2f}{'' if ratios[name] <= WANTED else '  above'}")
    keep("signatures", {"seconds": times, "ratios": ratios, "wanted": WANTED})
    above = {name: ratio for name, ratio in ratios.items() if ratio > WANTED}
    shortfalls([f"{name}: {ratio:.2f} times plain crafting, not {WANTED}" for name, ratio in above.items()])


if __name__ == "__main__":
    main()
