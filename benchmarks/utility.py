"""Test error against epsilon: our mechanisms, their peers and no privacy at all, on the paper's larger domains.

    python benchmarks/utility.py --data FOLDER [--domains a,b] [--epsilons 0.1,1] [--splits 5] [--jobs 2] [--again WORD]
    python benchmarks/utility.py --report

Every finished cell, one method at one epsilon on one split of one domain, is kept at once under experiments/cells. A
run that was killed goes on where it was, with the same command. Noise of ours never follows from a seed, so it is the
kept cells that make the numbers the same. They know the data and the settings of their method, but not the library:
after a change there, say which methods to run --again (all that begin with the given word; '' is all).

A run of everything writes experiments/results/utility.json, and from it tables and pictures of the docs page
choosing-epsilon.md; --report does the latter alone. Both exit with 1 where the project does not see what it wants to
see. A run of a part prints its tables, and writes its results where --results says.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import peers
import radoboost as rb
import utility_page
from measuring import RESULTS, machine, shortfalls
from radoboost.holder.noise import rounded_normals

CELLS = Path(__file__).parent.parent / "experiments" / "cells"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
LIMIT = 1000.0  # an epsilon at which noise should not matter
DELTA = 1e-6
SPLITS = 5
QUANTILES = (0.01, 0.99)
TEST_SHARE = 0.2
SMALL = 1000  # rows to learn from: with fewer, one draw says little
DOMAINS = ["abalone", "banknote", "breast_wisc", "eeg", "hardware", "higgs_sample", "magic", "transfusion"]
DOMAINS += ["wine_red", "wine_white"]
SMALL_DOMAINS = ["fertility", "haberman", "ionosphere", "sonar"]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
COPIES = {"n_rados": "columns + 2"}  # rados are drawn from the moments, and the classifier does not look at them

# How each method is run: any change here makes its kept cells void.
SETTINGS = {
    "moments": {"draws": 10, **COPIES},
    "moments, generic": {"draws": 10, **COPIES},
    "moments, private bounds": {"draws": 10, **COPIES, "bounds": "found privately"},
    "DP-SGD, rate 10, clip 0.5": {"draws": 2, "rate": 10.0, "clip": 0.5},
    "DP-SGD, rate 60, clip 0.25": {"draws": 2, "rate": 60.0, "clip": 0.25},
    "AdaSSP": {"draws": 4},
    "diffprivlib": {"draws": 2, "with": peers.REQUIREMENTS, "max_iter": 1000},
    "noisy-rados": {"draws": 2, "n_rados": 300},
    "paper": {"draws": 1, "n_rados": 1000, "weak": "median", "n_rounds": 1000},
    "logistic regression": {"draws": 1, "C": 1.0},
    "logistic regression, C = 10000": {"draws": 1, "C": 1e4},
    "majority class": {"draws": 1},
    "moments at epsilon 1000": {"draws": 20, "draws_if_small": 100, **COPIES},
    "moments without noise": {"draws": 1, "noise": 0, **COPIES},
}
WITHOUT_EPSILON = ("logistic regression", "logistic regression, C = 10000", "majority class")
SEARCHED_EPSILONS = (0.3, 1.0)  # of the method that finds its bounds privately; benchmarks/private_bounds.py has more
LIMIT_METHODS = {"moments at epsilon 1000": LIMIT, "moments without noise": None}


class Cell(NamedTuple):
    """One method at one epsilon on one split of one domain."""

    method: str
    domain: str
    epsilon: float | None
    split: int


def no_noise(key, scale, first_row, n_rows, n_columns, *, plane=0):
    """In place of `rounded_normals`: the recipe as it is at that epsilon, with its noise switched off."""
    return np.zeros((n_rows, n_columns), dtype=np.int64)


# ---- data


class Domain(NamedTuple):
    x: np.ndarray
    signs: np.ndarray
    bounds: np.ndarray
    rows: np.ndarray  # of length 1, for peers


def domain_file(folder, name):
    found = [path for path in (Path(folder) / f"{name}.csv", Path(folder) / f"{name}.csv.gz") if path.exists()]
    if not found:
        raise SystemExit(f"there is no {name}.csv or {name}.csv.gz in {folder}; give --data, or set RADO_DATA")
    return found[0]


@cache
def load_domain(folder, name):
    """A domain, with quantiles of the whole file in place of bounds from public knowledge.

    Where both quantiles are one value, the least and the largest value of the file are taken, and where these are one
    too, 1/2 to either side. (No column of these domains needs it.)
    """
    values = np.loadtxt(domain_file(folder, name), delimiter=",", skiprows=1)
    x, signs = values[:, :-1], values[:, -1].astype(int)
    bounds = np.quantile(x, QUANTILES, axis=0).T
    for wider in (np.column_stack([x.min(axis=0), x.max(axis=0)]), bounds + np.array([-0.5, 0.5])):
        bounds = np.where(bounds[:, :1] < bounds[:, 1:], bounds, wider)
    return Domain(x, signs, bounds, peers.unit_rows(x, bounds))


def split_rows(n_rows, split):
    """Rows to train on and to test on."""
    order = np.random.default_rng(split).permutation(n_rows)
    n_test = round(TEST_SHARE * n_rows)
    return order[n_test:], order[:n_test]


# ---- methods: each gives the test errors of its draws, in percent


def generator(cell, draw):
    """Randomness of a peer; ours takes none from here."""
    digest = hashlib.sha256(json.dumps([*cell, draw]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def released_error(domain, train, test, mechanism, classifier, **crafting):
    """Craft from some rows, learn from the release alone, and predict others, in the units of the file."""
    crafting = {"bounds": domain.bounds.tolist(), **crafting}
    release = rb.craft(
        domain.x[train], domain.signs[train], mechanism=mechanism, classes=(-1, 1), threads=1, counts=None, **crafting
    )
    return 100 * np.mean(classifier.fit_rados(release).predict(domain.x[test]) != domain.signs[test])


def ours(cell, domain, train, test, settings):
    name, epsilon, n_columns = cell.method, cell.epsilon, domain.x.shape[1] + 1
    classifier = rb.MomentsClassifier()
    if name == "noisy-rados":
        mechanism, crafting = rb.NoisyRados(epsilon, DELTA), {"n_rados": settings["n_rados"]}
    elif name == "paper":
        n_rados = min(settings["n_rados"], len(train) // 2)
        mechanism, crafting = rb.NoisyExamples(epsilon, DELTA), {"n_rados": n_rados, "signatures": rb.FixedSupport(0.5)}
        classifier = rb.RadoBoostClassifier(weak=settings["weak"], n_rounds=settings["n_rounds"])
    else:
        mechanism = rb.Moments(epsilon or LIMIT, DELTA, sharpen=name != "moments, generic")
        crafting = {"n_rados": n_columns + 1}
        if name == "moments, private bounds":
            crafting["bounds"] = "private"
    draws = settings.get("draws_if_small", 0) if len(train) < SMALL else 0
    sampler = no_noise if epsilon is None else rounded_normals
    with patch("radoboost.holder.run.rounded_normals", sampler):
        return [
            released_error(domain, train, test, mechanism, classifier, **crafting)
            for _ in range(draws or settings["draws"])
        ]


def peer(cell, domain, train, test, settings):
    rows, signs = domain.rows[train], domain.signs[train]
    if cell.method == "AdaSSP":
        learn = peers.adassp
    else:
        learn = partial(peers.dp_sgd, rate=settings["rate"], clip=settings["clip"])
    errors = []
    for draw in range(settings["draws"]):
        theta = learn(rows, signs, cell.epsilon, DELTA, rng=generator(cell, draw))
        errors.append(100 * np.mean(np.where(domain.rows[test] @ theta > 0, 1, -1) != domain.signs[test]))
    return errors


def not_private(cell, domain, train, test, settings):
    if cell.method == "majority class":
        predicted = 1 if domain.signs[train].sum() > 0 else -1
    else:
        fitted = peers.logistic_regression(domain.x[train], domain.signs[train], domain.bounds, settings["C"])
        predicted = fitted(domain.x[test])
    return [100 * np.mean(predicted != domain.signs[test])]


def diffprivlib(cells, domain, settings):
    """All cells of a domain at once: another environment takes seconds to begin."""
    jobs = []
    for cell in cells:
        seeds = [int(generator(cell, draw).integers(2**31)) for draw in range(settings["draws"])]
        jobs.append((cell.epsilon, *split_rows(len(domain.x), cell.split), seeds))
    return peers.diffprivlib_errors(domain.rows, domain.signs, jobs)


def work(cells, folder):
    """The errors of every cell of a task, each a list over draws; runs in a process of its own."""
    warnings.simplefilter("ignore", rb.ClippedWarning)  # bounds are quantiles, so one value in fifty is beyond them
    domain, settings = load_domain(folder, cells[0].domain), SETTINGS[cells[0].method]
    if cells[0].method == "diffprivlib":
        return diffprivlib(cells, domain, settings)
    found = []
    for cell in cells:
        train, test = split_rows(len(domain.x), cell.split)
        if cell.method in WITHOUT_EPSILON:
            run = not_private
        else:
            run = peer if cell.method.startswith(("AdaSSP", "DP-SGD")) else ours
        found.append([float(error) for error in run(cell, domain, train, test, settings)])
    return found


# ---- cells, kept as they finish


def cell_file(cell, folder):
    key = json.dumps([*cell, SETTINGS[cell.method], DELTA, QUANTILES, TEST_SHARE, file_digest(folder, cell.domain)])
    return CELLS / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@cache
def file_digest(folder, name):
    return hashlib.sha256(domain_file(folder, name).read_bytes()).hexdigest()


def keep_cell(cell, errors, folder):
    """Whole or not at all: written beside its place, and renamed."""
    CELLS.mkdir(parents=True, exist_ok=True)
    path = cell_file(cell, folder)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({**cell._asdict(), "errors": errors}) + "\n")
    os.replace(beside, path)


def kept_errors(cell, folder):
    path = cell_file(cell, folder)
    return json.loads(path.read_text())["errors"] if path.exists() else None


def method_epsilons(method, epsilons):
    if method in LIMIT_METHODS:
        return [LIMIT_METHODS[method]]
    if method == "moments, private bounds":
        return [epsilon for epsilon in epsilons if epsilon in SEARCHED_EPSILONS]
    return [None] if method in WITHOUT_EPSILON else epsilons


def all_cells(domains, epsilons, splits):
    for method in SETTINGS:
        limit = method in LIMIT_METHODS
        for domain in sorted({*(DOMAINS + SMALL_DOMAINS if limit else DOMAINS)} & {*domains}):
            for epsilon in method_epsilons(method, epsilons):
                yield from (Cell(method, domain, epsilon, split) for split in range(1, splits + 1))


def tasks(cells) -> Iterator[list[Cell]]:
    """Cells that one process runs together."""
    together: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.method == "diffprivlib":
            together.setdefault(cell.domain, []).append(cell)
        else:
            yield [cell]
    yield from together.values()


def run(cells, folder, jobs):
    """Run the cells that are not kept yet, in so many processes."""
    wanted = [cell for cell in cells if kept_errors(cell, folder) is None]
    print(f"{len(cells):,} cells, of which {len(cells) - len(wanted):,} are kept from before", file=sys.stderr)
    if not wanted:
        return
    os.environ.update(ONE_THREAD)  # there is a process for each core; they read it when they import NumPy and numba
    context = multiprocessing.get_context("spawn")
    with Bar(len(wanted)) as advance, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = {pool.submit(work, task, folder): task for task in tasks(wanted)}
        try:
            for done in as_completed(running):
                for cell, errors in zip(running[done], done.result(), strict=True):
                    keep_cell(cell, errors, folder)
                advance(running[done])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            print("stopped; finished cells are kept, and the same command goes on from here", file=sys.stderr)
            raise


class Bar:
    """A bar where stderr is a terminal, else a line for every twentieth of the cells."""

    def __init__(self, total):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.total, self.done, self.told, self.begun = total, 0, 0, time.monotonic()
        self.console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal)

    def __enter__(self):
        self.bar.start()
        self.task = self.bar.add_task("", total=self.total)
        return self.advance

    def advance(self, cells):
        self.done += len(cells)
        self.bar.update(self.task, completed=self.done, description=f"{cells[0].domain}: {cells[0].method}")
        if not self.console.is_terminal and (20 * self.done // self.total > self.told):
            self.told = 20 * self.done // self.total
            print(
                f"{self.done:,} of {self.total:,} cells, {time.monotonic() - self.begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    def __exit__(self, *_):
        self.bar.stop()


# ---- results


def summary(cells, folder):
    """Mean error in percent and its standard error over splits, for each domain, epsilon and method."""
    groups: dict[tuple, dict[int, float]] = {}
    for cell in cells:
        groups.setdefault(cell[:3], {})[cell.split] = float(np.mean(kept_errors(cell, folder)))
    found = []
    for (method, domain, epsilon), by_split in groups.items():
        splits = list(by_split.values())
        spread = float(np.std(splits, ddof=1) / np.sqrt(len(splits))) if len(splits) > 1 else None
        found.append(
            {
                "domain": domain,
                "epsilon": epsilon,
                "method": method,
                "error": round(float(np.mean(splits)), 4),
                "standard_error": None if spread is None else round(spread, 4),
                "splits": [round(error, 4) for error in splits],
            }
        )
    return sorted(found, key=lambda row: (row["domain"], list(SETTINGS).index(row["method"]), row["epsilon"] or 0))


def document(cells, folder, splits, missing):
    sizes = {}
    for name in sorted({cell.domain for cell in cells}):
        m, d = load_domain(folder, name).x.shape
        sizes[name] = {"rows": m, "train": len(split_rows(m, 1)[0]), "columns": d}
    protocol = {
        "neighbours": "one record added or removed",
        "delta": DELTA,
        "splits": splits,
        "test_share": TEST_SHARE,
        "bounds": "quantiles of the whole file: {} and {}".format(*QUANTILES),
        "dp_sgd": {"inclusion": peers.INCLUSION, "steps": peers.STEPS, "noise": "privacy-loss distributions"},
        "settings": SETTINGS,
        "left_out": missing,
    }
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}"])
    results = {"protocol": protocol, "domains": sizes, "errors": summary(cells, folder)}
    return {"command": command, "radoboost": rb.__version__, "machine": machine(), "results": results}


def write_results(found, path):
    """JSON with a line for each row of the long table."""
    rows = found["results"]["errors"]
    lines = ",\n".join("      " + json.dumps(row) for row in rows)
    frame = json.dumps({**found, "results": {**found["results"], "errors": "ROWS"}}, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(frame.replace('"ROWS"', f"[\n{lines}\n    ]") + "\n")
    os.replace(beside, path)


def listed(kind):
    return lambda text: [kind(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--domains", type=listed(str), default=[*DOMAINS, *SMALL_DOMAINS])
    parser.add_argument("--epsilons", type=listed(float), default=list(EPSILONS))
    parser.add_argument("--splits", type=int, default=SPLITS, help="random splits, with seeds 1, 2, ...")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [cores]")
    parser.add_argument("--results", type=Path, help="file for the results [experiments/results/utility.json, if all]")
    parser.add_argument("--again", metavar="WORD", help="forget what was kept of methods that begin with this")
    parser.add_argument("--report", action="store_true", help="run nothing: tables and pictures from the results")
    options = parser.parse_args()
    kept = RESULTS / "utility.json"
    if options.report:
        found = json.loads((options.results or kept).read_text())
        utility_page.show(found["results"])
        if not options.results:
            utility_page.write(found["results"])
            shortfalls(utility_page.not_seen(found["results"]))
        return
    if not options.data:
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    if unknown := set(options.domains) - {*DOMAINS, *SMALL_DOMAINS}:
        raise SystemExit(f"unknown domains: {', '.join(sorted(unknown))}")
    cells, missing = list(all_cells(options.domains, options.epsilons, options.splits)), []
    if options.again is not None:
        for cell in cells:
            if cell.method.startswith(options.again):
                cell_file(cell, options.data).unlink(missing_ok=True)
    if not peers.diffprivlib_python():
        unkept = {cell for cell in cells if cell.method == "diffprivlib" and kept_errors(cell, options.data) is None}
        cells = [cell for cell in cells if cell not in unkept]
        missing = ["diffprivlib"] if unkept else []
        print("diffprivlib cannot be installed here: going on without it", file=sys.stderr)
    run(cells, options.data, options.jobs)
    found = document(cells, options.data, options.splits, missing)
    whole = (
        set(options.domains) == {*DOMAINS, *SMALL_DOMAINS}
        and set(options.epsilons) == set(EPSILONS)
        and options.splits == SPLITS
    )
    if options.results or whole:
        write_results(found, options.results or kept)
    utility_page.show(found["results"])
    if whole and not options.results:
        utility_page.write(found["results"])
    if whole:
        shortfalls(utility_page.not_seen(found["results"]))


if __name__ == "__main__":
    main()
