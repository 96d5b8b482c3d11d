"""Cells of a comparison: run in processes, kept as they finish, with a bar."""

import hashlib
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import radoboost as rb
import tables
from methods import DELTA, METHODS, Cell, n_draws

CELLS = Path(__file__).parent.parent / "experiments" / "cells"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def work(cells, folder):
    """The results of the cells of a task; runs in a process of its own."""
    warnings.simplefilter("ignore", rb.ClippedWarning)  # bounds are quantiles, so one value in fifty is beyond them
    warnings.simplefilter("ignore", rb.NoiseWarning)  # how little there is at a small epsilon is what is measured
    method, begun = METHODS[cells[0].method], time.monotonic()
    domain = tables.load(folder, cells[0].domain)
    found = method.run(cells, domain, method.settings[cells[0].setting], n_draws(cells[0], len(domain.x)))
    seconds = round((time.monotonic() - begun) / len(cells), 3)
    return [{**result, "seconds": seconds} for result in found]


def conditions(cell, folder):
    """Everything that a kept cell depends on, but for the library."""
    method = METHODS[cell.method]
    return {
        **cell._asdict(),
        "settings": method.settings[cell.setting],
        "draws": n_draws(cell, tables.n_rows(folder, cell.domain)),
        "with": list(tables.peer_environment.REQUIREMENTS) if method.library else [],
        "delta": DELTA,
        "quantiles": tables.QUANTILES,
        "test_share": tables.TEST_SHARE,
        "table": tables.digest(folder, cell.domain),
    }


def cell_file(cell, folder):
    key = json.dumps(conditions(cell, folder), sort_keys=True)
    return CELLS / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def keep(cell, result, folder):
    """Whole or not at all: written beside its place, and renamed."""
    CELLS.mkdir(parents=True, exist_ok=True)
    path = cell_file(cell, folder)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({**conditions(cell, folder), **result}) + "\n")
    os.replace(beside, path)


def kept(cell, folder):
    path = cell_file(cell, folder)
    return json.loads(path.read_text()) if path.exists() else None


def forget(cells, folder):
    for cell in cells:
        cell_file(cell, folder).unlink(missing_ok=True)


def tasks(cells) -> Iterator[list[Cell]]:
    """Cells that one process runs together: with a library, all of a table and setting."""
    together: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        if METHODS[cell.method].library:
            together.setdefault((cell.method, cell.setting, cell.domain), []).append(cell)
        else:
            yield [cell]
    yield from together.values()


def run(cells, folder, jobs, what):
    """Run the cells that are not kept yet, in so many processes, methods in the order of `METHODS`."""
    unkept = [cell for cell in cells if not cell_file(cell, folder).exists()]
    print(f"{what}: {len(cells):,} cells, of which {len(cells) - len(unkept):,} are kept from before", file=sys.stderr)
    if not unkept:
        return
    os.environ.update(ONE_THREAD)  # there is a process for each core; they read it when they import NumPy and numba
    context = multiprocessing.get_context("spawn")
    with Bar(len(unkept)) as advance, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = {pool.submit(work, task, folder): task for task in tasks(unkept)}
        try:
            for done in as_completed(running):
                for cell, result in zip(running[done], done.result(), strict=True):
                    keep(cell, result, folder)
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
                f"{self.done:,} of {self.total:,} cells, {time.monotonic() - self.begun:.0f} s, {cells[0].method}",
                file=sys.stderr,
                flush=True,
            )

    def __exit__(self, *_):
        self.bar.stop()
