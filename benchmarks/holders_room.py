"""Ten holders in a room: test errors of `Moments` beside those of one release of all rows.

    python benchmarks/holders_room.py --data FOLDER [--domains banknote,magic] [--folds 5] [--seeds 3] [--holders 10]

Each holder has an equal part of the training rows, and one of them may be lost or collude, so that noise is by shares
of s / sqrt(K - 1), and all of them together add sqrt(K / (K - 1)) times the noise of one release. Holders are threads
of one process, and their sums are added without masks: these cancel, and `tests/test_room.py` has that. Everything else
is what each holder of a room computes. `Moments` of the table's own columns and of a plan's ("auto"), delta 1e-6, for
one record added or removed; bounds are quantiles of the whole table, uncharged, as in `utility.py`.

A run of everything writes the key `room` of experiments/results/holders.json. Exits with 1 where the mean error of a
room is above that of one release by more than two standard errors of the difference.
"""

import argparse
import math
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
from threadpoolctl import threadpool_limits

import radoboost as rb
import tables
from measuring import keep, shortfalls
from methods import DELTA, percent_wrong
from radoboost.holder.room.mailbox import MemoryMailbox
from radoboost.holder.room.secure_sums import Total

DOMAINS, EPSILONS, COLUMNS = ("banknote", "abalone", "magic"), (1.0, 0.3), ("linear", "auto")


class BareSums:
    """Sums of holders in threads, without masks."""

    def __init__(self, holders):
        self._barrier, self._parts = Barrier(holders), {}

    def __call__(self, mailbox, seats, identity, stage, present, values, patience, **_):
        self._parts[stage, identity.party.name] = values
        self._barrier.wait(timeout=600)
        return Total(sum(self._parts[stage, name] for name in present), tuple(present))


def room(x, y, declared, mechanism, columns, holders):
    """The release of a room whose holders have equal parts of the rows."""
    box, add = MemoryMailbox(), BareSums(holders)
    rb.open_room(box, parties=holders, tolerate=1, mechanism=mechanism, columns=columns, **declared)
    parts = np.array_split(np.arange(len(x)), holders)

    def join(k):
        return rb.join_room(
            box, x[parts[k]], y[parts[k]], identity=rb.Identity.create(f"holder-{k:02}"), add=add, counts=None,
            threads=1, patience=600.0, confirm=lambda code, parties: True,
        )  # fmt: skip

    with ThreadPoolExecutor(holders) as threads:
        return next(iter(list(threads.map(join, range(holders)))))


def run(folder, name, epsilon, columns, options):
    """Test errors in per cent, central and in a room, of all folds and seeds."""
    domain = tables.load(folder, name)
    declared = {"classes": (-1, 1), "bounds": domain.bounds.tolist()}
    mechanism, errors = rb.Moments(epsilon, DELTA), {"central": [], "room": []}
    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(domain.x))
        for test in np.array_split(order, options.folds):
            train = np.setdiff1d(order, test, assume_unique=True)
            train = np.random.default_rng(seed + 1).permutation(train)
            x, y = domain.x[train], domain.signs[train]
            central = rb.craft(x, y, mechanism=mechanism, columns=columns, counts=None, threads=1, **declared)
            for way, release in (
                ("central", central),
                ("room", room(x, y, declared, mechanism, columns, options.holders)),
            ):
                clf = rb.MomentsClassifier().fit_rados(release)
                errors[way].append(percent_wrong(clf.predict(domain.x[test]), domain.signs[test]))
    return errors


def standard_error(values):
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"))
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--holders", type=int, default=10)
    options = parser.parse_args()
    if options.data is None:
        print("holders_room: left out; name the folder of the domains (--data, or RADO_DATA)")
        return
    warnings.simplefilter("ignore", rb.NoiseWarning)
    rows, short = [], []
    print(f"{'domain':10}{'epsilon':>8}{'columns':>9}{'central':>15}{'room':>15}{'seconds':>9}")
    with threadpool_limits(limits=1):
        for name in options.domains.split(","):
            for epsilon in EPSILONS:
                for columns in options.columns.split(","):
                    begun = time.perf_counter()
                    errors = run(options.data, name, epsilon, columns, options)
                    means = {way: float(np.mean(values)) for way, values in errors.items()}
                    spread = {way: standard_error(values) for way, values in errors.items()}
                    gap, doubt = means["room"] - means["central"], math.hypot(*spread.values())
                    rows.append(
                        {
                            "domain": name,
                            "epsilon": epsilon,
                            "delta": DELTA,
                            "neighbours": "one record added or removed",
                            "columns": columns,
                            "runs": len(errors["room"]),
                            "means": means,
                            "standard_errors": spread,
                        }
                    )
                    cells = "".join(f"{means[way]:8.2f} ({spread[way]:.2f})" for way in ("central", "room"))
                    print(f"{name:10}{epsilon:8g}{columns:>9}{cells}{time.perf_counter() - begun:9.0f}", flush=True)
                    if gap > 2 * doubt:
                        short.append(
                            f"{name} at epsilon {epsilon:g}, {columns}: {gap:.2f} points, {doubt:.2f} borne twice"
                        )
    if (options.domains, options.columns) == (",".join(DOMAINS), ",".join(COLUMNS)):
        keep("holders/room", {"holders": options.holders, "tolerate": 1, "rows": rows})
    shortfalls(short)


if __name__ == "__main__":
    main()
