"""Columns beyond linear against gradient boosting: 1,000,000 x 28 at epsilon 1 and delta 1e-6, in one run.

    python benchmarks/beyond_linear.py [--rows 1000000] [--columns both]

The peer is scikit-learn's HistGradientBoostingClassifier without privacy, 100 trees, on the same rows and cores. The
first run of each, which compiles and calibrates, is not counted. Memory is the most that a process of its own held
beyond the table. Where the seconds go is that of the last run, by what the progress bar calls it. It exits with 1 where
crafting takes four times as long as the peer, or holds 2 GiB.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter

from sklearn.ensemble import HistGradientBoostingClassifier

import flat
import radoboost as rb
from measuring import keep, shortfalls, side_by_side
from private import DECLARED, DELTA, EPSILON, make_table, peak_mib
from radoboost.holder.runners.threads import ThreadRunner

MOST_TIMES, MOST_MIB = 4.0, 2048.0
PEER = "HistGradientBoosting"


class Timed(ThreadRunner):
    """The usual runner, with the seconds of its passes by their titles."""

    def __init__(self):
        super().__init__()
        self.seconds = Counter()

    def run(self, task, source):
        return self._timed(task, super().run, task, source)

    def keep(self, source, task, n_rows):
        return self._timed(task, super().keep, source, task, n_rows)

    def _timed(self, task, work, *arguments):
        begun = time.perf_counter()
        result = work(*arguments)
        self.seconds[re.sub(r"mean rado \d+ of (\d+)", r"\1 mean rados", task.title)] += time.perf_counter() - begun
        return result


def craft(x, y, columns, runner=None):
    return flat.craft(x, y, mechanism=rb.Moments(EPSILON, DELTA), columns=columns, cluster=runner, **DECLARED)


def held_beyond_table(rows, columns):
    """In a process of its own: everything is loaded and compiled on a few rows, then crafted once."""
    x, y = make_table(rows)
    craft(x[:2000], y[:2000], columns)
    before = peak_mib()
    craft(x, y, columns)
    print(json.dumps(peak_mib() - before))


def measured_memory(rows, columns):
    run = [sys.executable, __file__, "--memory", "--rows", str(rows), "--columns", columns]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", default="both", help="what craft takes")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        held_beyond_table(options.rows, options.columns)
        return
    mib = measured_memory(options.rows, options.columns)
    x, y = make_table(options.rows)
    made = {}

    def ours():
        runner = Timed()
        made["release"], made["seconds"] = craft(x, y, options.columns, runner), runner.seconds

    trees = HistGradientBoostingClassifier(max_iter=100, early_stopping=False)
    times = side_by_side({PEER: lambda: trees.fit(x, y), "linear": lambda: craft(x, y, "linear"), "ours": ours}, 3)
    ratio, width = times["ours"] / times[PEER], len(made["release"].columns)
    print(f"{PEER}: {times[PEER]:.2f} s; linear: {times['linear']:.2f} s")
    print(f"{options.columns}, {width} columns: {times['ours']:.2f} s, {ratio:.2f} times {PEER}, {mib:.0f} MiB")
    for title, seconds in made["seconds"].items():
        print(f"{title:>24}{seconds:>8.2f} s")
    results = {
        "rows": options.rows, "features": x.shape[1], "columns": options.columns, "made_columns": width,
        "seconds": times, "ratio": ratio, "mib_beyond_table": mib, "seconds_of_passes": dict(made["seconds"]),
    }  # fmt: skip
    keep("beyond_linear", results)
    short = [f"{options.columns}: {ratio:.2f} times {PEER}, not {MOST_TIMES:g}"] if ratio >= MOST_TIMES else []
    short += [f"{options.columns}: {mib:.0f} MiB, not {MOST_MIB:.0f}"] if mib >= MOST_MIB else []
    shortfalls(short)


if __name__ == "__main__":
    main()
