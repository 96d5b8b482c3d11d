"""Holders in a room: test errors of `Moments` beside those of one release of all rows.

    python benchmarks/holders_room.py --data FOLDER [--domains banknote,magic] [--cases ten] [--folds 5] [--seeds 3]
    python benchmarks/holders_room.py --data FOLDER --resume
    python benchmarks/holders_room.py --report

| case | what it is |
|---|---|
| ten | ten holders with equal parts of the training rows, one of whom may be lost or collude |
| masked | the same with real secure sums, one seed |
| three | the same as ten, where three may be lost or collude |
| twenty | twenty holders, one of whom may be lost or collude |
| unsharpened | as ten, with `Moments(sharpen=False)`, also of the one release |
| shifted | five holders, whose rows were sorted by the first principal component and cut |

Noise is by shares of s / sqrt(K - t), so that K holders together add sqrt(K / (K - t)) times the noise of one release.
Holders are threads of one process, and all but `masked` add their sums without masks: these cancel, which
tests/test_secure_sums.py has. Everything else is what each holder of a room computes. `Moments` of the table's own
columns, and of a plan's ("auto") for ten holders, delta 1e-6, for one record added or removed; bounds are quantiles of
the whole table, uncharged, as in `utility.py`. Both ways have the same rows in each run, so that differences are taken
run by run.

A run of everything writes the key `room` of experiments/results/holders.json and its parts of docs/rooms.md and
docs/several-holders.md; --report does the latter alone. Exits with 1 where the mean error of ten holders, one of whom
may be lost, is above that of one release by more than two standard errors, in a cell or over all of them.
"""

import argparse
import json
import math
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Barrier
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

import flat
import radoboost as rb
import rooms_page
import tables
from holders_merge import by_columns, by_shares
from measuring import keep, shortfalls
from methods import DELTA, percent_wrong
from radoboost.holder.rooms import participant
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.secure_aggregation import SecureTotal, secure_sum

CELLS = Path(__file__).parent.parent / "experiments" / "cells" / "holders_room.jsonl"
DOMAINS, EPSILONS, FOLDS, SEEDS = ("banknote", "abalone", "magic"), (1.0, 0.3), 5, 3


@dataclass(frozen=True)
class Case:
    """How holders are; `most_seeds` where not all are run."""

    holders: int = 10
    tolerate: int = 1
    columns: tuple[str, ...] = ("linear",)
    epsilons: tuple[float, ...] = EPSILONS
    sharpen: bool = True
    shifted: bool = False
    masked: bool = False
    most_seeds: int = SEEDS


CASES = {
    "ten": Case(columns=("linear", "auto")),
    "three": Case(tolerate=3),
    "twenty": Case(holders=20),
    "unsharpened": Case(sharpen=False),
    "shifted": Case(holders=5, shifted=True),
    "masked": Case(epsilons=(1.0,), masked=True, most_seeds=1),
}


class BareSums:
    """Sums of holders in threads, without masks."""

    def __init__(self, holders):
        self._barrier, self._parts = Barrier(holders), {}

    def __call__(self, mailbox, seats, identity, stage, present, values, patience, **_):
        self._parts[stage, identity.party.name] = values
        self._barrier.wait(timeout=600)
        return SecureTotal(sum(self._parts[stage, name] for name in present), tuple(present))


def room(x, y, declared, mechanism, columns, case):
    """The release of a room whose holders have parts of the rows."""
    box, add = MemoryMailbox(), secure_sum if case.masked else BareSums(case.holders)
    rb.open_room(box, parties=case.holders, tolerate=case.tolerate, mechanism=mechanism, columns=columns, **declared)
    parts = by_columns(x, y, None) if case.shifted else by_shares(np.arange(len(x)), np.ones(case.holders))

    def join(k):
        return rb.join_room(
            box,
            x[parts[k]],
            y[parts[k]],
            identity=rb.Identity.create(f"holder-{k:02}"),
            counts=None,
            patience=600.0,
            confirm=lambda code, parties: True,
            compute=rb.Compute(threads=1),
        )

    with patch.object(participant, "secure_sum", add), ThreadPoolExecutor(case.holders) as threads:
        return next(iter(list(threads.map(join, range(case.holders)))))


@cache
def domain_of(folder, name):
    return tables.load(folder, name)


def rows_of(domain, n_folds, n_seeds):
    """Rows to train on, in a random order, and to test on: every row is tested once for each seed."""
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(len(domain.x))
        for test in np.array_split(order, n_folds):
            yield np.random.default_rng(seed + 1).permutation(np.setdiff1d(order, test, assume_unique=True)), test


def test_error(release, domain, test):
    return percent_wrong(rb.MomentsClassifier().fit_rados(release).predict(domain.x[test]), domain.signs[test])


def declared_of(domain):
    return {"classes": (-1, 1), "bounds": domain.bounds.tolist()}


@cache
def central_errors(folder, name, epsilon, columns, sharpen, n_folds, n_seeds):
    """Test errors of one release of all rows, run by run: the same for all rooms that are compared with it."""
    domain, mechanism = domain_of(folder, name), rb.Moments(epsilon, DELTA, sharpen=sharpen)
    return [
        test_error(
            flat.craft(domain.x[train], domain.signs[train], mechanism=mechanism, columns=columns, counts=None,
                     threads=1, **declared_of(domain)), domain, test,
        )
        for train, test in rows_of(domain, n_folds, n_seeds)
    ]  # fmt: skip


def run(folder, name, epsilon, columns, case, options):
    """Test errors in per cent, central and in a room, of all folds and seeds."""
    domain, mechanism = domain_of(folder, name), rb.Moments(epsilon, DELTA, sharpen=case.sharpen)
    central = central_errors(folder, name, epsilon, columns, case.sharpen, options.folds, options.seeds)
    together = [
        test_error(
            room(domain.x[train], domain.signs[train], declared_of(domain), mechanism, columns, case), domain, test
        )
        for train, test in rows_of(domain, options.folds, min(options.seeds, case.most_seeds))
    ]
    return {"central": central[: len(together)], "room": together}


def standard_error(values):
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def row_of(name, epsilon, columns, title, errors):
    """What is kept of one cell: the errors of each run, and what follows from them."""
    case, differences = CASES[title], np.subtract(errors["room"], errors["central"])
    return {
        "domain": name,
        "case": title,
        "holders": case.holders,
        "tolerate": case.tolerate,
        "epsilon": epsilon,
        "delta": DELTA,
        "neighbours": "one record added or removed",
        "columns": columns,
        "runs": len(differences),
        "means": {way: float(np.mean(values)) for way, values in errors.items()},
        "standard_errors": {way: standard_error(values) for way, values in errors.items()},
        "difference": float(differences.mean()),
        "standard_error_of_difference": standard_error(differences),
        "errors": {way: [round(value, 4) for value in values] for way, values in errors.items()},
    }


def short_of(rows):
    """Where ten holders, one of whom may be lost, are above one release by more than two standard errors.

    In each cell of both means; over all cells, of the difference run by run, which the folds do not blur.
    """
    ten = [row for row in rows if row["case"] == "ten"]
    for row in ten:
        doubt = math.hypot(*row["standard_errors"].values())
        if row["difference"] > 2 * doubt:
            yield (
                f"{row['domain']} at epsilon {row['epsilon']:g}, {row['columns']}: {row['difference']:.2f} points, "
                f"{doubt:.2f} borne twice"
            )
    mean, doubt = overall(ten)
    if mean > 2 * doubt:
        yield f"all cells of ten holders: {mean:.2f} points, {doubt:.2f} borne twice"


def overall(rows):
    """The mean difference of these cells, and its standard error."""
    if not rows:
        return 0.0, 0.0
    doubts = [row["standard_error_of_difference"] for row in rows]
    return float(np.mean([row["difference"] for row in rows])), math.hypot(*doubts) / len(rows)


def finished(resume):
    """Rows of an interrupted run, by cell; none of them stay unless it is to be resumed."""
    lines = CELLS.read_text().splitlines() if resume and CELLS.exists() else []
    rows = [json.loads(line) for line in lines]
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    CELLS.write_text("".join(f"{line}\n" for line in lines))
    return {(row["domain"], row["epsilon"], row["columns"], row["case"]): row for row in rows}


def measured(options):
    """A row for each cell; a cell of which there is one is not run again."""
    names, titles, done = options.domains.split(","), options.cases.split(","), finished(options.resume)
    cells = [
        (name, epsilon, columns, title)
        for title in titles
        for name in names
        for epsilon in CASES[title].epsilons
        for columns in CASES[title].columns
    ]
    print(f"{'domain':10}{'case':12}{'epsilon':>8}{'columns':>9}{'central':>15}{'room':>15}{'difference':>15}{'s':>6}")
    for cell in cells:
        name, epsilon, columns, title = cell
        begun = time.perf_counter()
        if cell not in done:
            errors = run(options.data, name, epsilon, columns, CASES[title], options)
            done[cell] = row_of(name, epsilon, columns, title, errors)
            with CELLS.open("a") as file:
                file.write(json.dumps(done[cell]) + "\n")
        row = done[cell]
        shown = [(row["means"][way], row["standard_errors"][way]) for way in ("central", "room")]
        shown.append((row["difference"], row["standard_error_of_difference"]))
        figures = "".join(f"{mean:8.2f} ({doubt:.2f})" for mean, doubt in shown)
        seconds = time.perf_counter() - begun
        print(f"{name:10}{title:12}{epsilon:8g}{columns:>9}{figures}{seconds:6.0f}", flush=True)
    return [done[cell] for cell in cells]


def complete(options):
    """Whether everything is run, so that it is worth keeping."""
    chosen = (options.domains, options.cases, options.folds, options.seeds)
    return chosen == (",".join(DOMAINS), ",".join(CASES), FOLDS, SEEDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"))
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--resume", action="store_true", help="go on with the cells of an interrupted run of everything"
    )
    parser.add_argument("--report", action="store_true", help="write the pages from kept results, and run nothing")
    options = parser.parse_args()
    if options.resume and not complete(options):
        parser.error("only a run of everything is resumed: leave the other options out")
    if options.report:
        rooms_page.write()
        return
    if options.data is None:
        print("holders_room: left out; name the folder of the domains (--data, or RADO_DATA)")
        return
    warnings.simplefilter("ignore", rb.NoiseWarning)
    with threadpool_limits(limits=1):
        rows = measured(options)
    if complete(options):
        keep("holders/room", {"rows": rows})
        rooms_page.write()
    shortfalls(list(short_of(rows)))


if __name__ == "__main__":
    main()
