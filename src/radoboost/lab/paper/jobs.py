"""Cells: pieces of work that are run in parallel, and kept as they finish.

Each cell is a pure function of itself and the options; its randomness comes from `cell_generator` alone. So neither the
number of processes nor an interruption can change a number. Processes have one thread each, for a matrix product on
more threads may add in another order.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import OutputError, TooLargeError, reason
from radoboost.lab.paper.domains import digest_of_domain
from radoboost.progress import Progress, silent
from radoboost.release.release import atomic_write

_ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}

Value = str | int | float
Outcome = dict[str, Any]
Timed = tuple[Outcome, float]


@dataclass(frozen=True)
class Options:
    """What all cells of a reproduction share: the folder of the domains, those found there, seed, quick or not."""

    data: str
    domains: tuple[str, ...]
    seed: int = 0
    quick: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "domains": list(self.domains), "data": Path(self.data).name}


@dataclass(frozen=True)
class Task:
    """A piece of work: which experiment, and what tells it from the others."""

    experiment: str
    parameters: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, experiment: str, **parameters: Value) -> "Task":
        """A cell with these parameters; their order does not matter."""
        return cls(experiment, tuple(sorted(parameters.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.parameters).get(name, default)

    def __str__(self) -> str:
        return " ".join([self.experiment, *(f"{name}={value}" for name, value in self.parameters)])


Work = Callable[[Task, Options], Outcome]


def cell_generator(cell: Task, options: Options) -> np.random.Generator:
    return np.random.default_rng(int(_cell_hash([cell.experiment, cell.parameters, options.seed]), 16))


def run_cells(
    cells: Sequence[Task], work: Work, options: Options, folder: Path, *, jobs: int = 1, bar: Progress = silent
) -> dict[Task, Outcome]:
    """The outcomes of all cells, in their order: read from `folder` if kept there, otherwise run and kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {folder}: {reason(error)}; choose another") from None
    places = {cell: folder / _cell_file_name(cell, work, options) for cell in cells}
    outcomes = {
        cell: record["outcome"] for cell, place in places.items() if (record := _read_kept_cell(place)) is not None
    }
    unfinished = [cell for cell in places if cell not in outcomes]
    task = cells[0].experiment if cells else ""
    bar(task, len(outcomes), len(places))
    with _cells_as_they_finish(unfinished, work, options, jobs) as finished:
        for cell, (outcome, seconds) in finished:
            text = json.dumps({"cell": str(cell), "seconds": round(seconds, 3), "outcome": outcome})
            with atomic_write(places[cell]) as draft:
                draft.write_text(text + "\n", encoding="utf-8")
            outcomes[cell] = json.loads(text)["outcome"]  # as it will be read again
            bar(task, len(outcomes), len(places))
    return {cell: outcomes[cell] for cell in places}


def seconds_spent(cells: Sequence[Task], work: Work, options: Options, folder: Path) -> float:
    """Seconds of one core that the cells kept in `folder` took, whenever they were run."""
    records = (_read_kept_cell(folder / _cell_file_name(cell, work, options)) for cell in cells)
    return float(sum(cell["seconds"] for cell in records if cell is not None))


def _cell_file_name(cell: Task, work: Work, options: Options) -> str:
    version = getattr(sys.modules.get(work.__module__), "VERSION", 1)
    source = digest_of_domain(cell["domain"], options.data) if cell.get("domain") else ""
    identity = [cell.experiment, cell.parameters, options.seed, options.quick, source, version]
    return f"{cell.experiment}-{_cell_hash(identity)[:20]}.json"


def _cell_hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _read_kept_cell(place: Path) -> dict[str, Any] | None:
    """What is kept of a cell; None if its file is missing or not whole."""
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
        return record if isinstance(record["outcome"], dict) and isinstance(record["seconds"], float | int) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _time_cell(work: Work, cell: Task, options: Options) -> Timed:
    """An outcome, and the seconds of one core that it took: they do not depend on what else the machine does."""
    start = time.process_time()
    outcome = work(cell, options)
    return outcome, time.process_time() - start


@contextmanager
def _cells_as_they_finish(
    cells: Sequence[Task], work: Work, options: Options, jobs: int
) -> Iterator[Iterator[tuple[Task, Timed]]]:
    """Cells with their outcomes as they finish, here or in processes, which end if the caller fails."""
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):
            yield ((cell, _time_cell(work, cell, options)) for cell in cells)
        return
    others = set(multiprocessing.active_children())
    with _environment_of_workers(_ONE_THREAD):
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin_cell_worker)
        try:
            with _uninterrupted_start():  # workers that start now inherit this, and leave Ctrl-C to this process
                futures = {pool.submit(_time_cell, work, cell, options): cell for cell in cells}
            yield ((futures[future], future.result()) for future in as_completed(futures))
            pool.shutdown()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise TooLargeError(
                    "a process ended before its work, most likely because memory ran out; "
                    "run fewer at a time with --jobs"
                ) from None
            raise


@contextmanager
def _environment_of_workers(settings: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _uninterrupted_start() -> Iterator[None]:
    """Interrupts wait; processes that are started now inherit that."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_cell_worker() -> None:
    """In a process: leave interrupts to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        parent: Any = multiprocessing.parent_process()
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
