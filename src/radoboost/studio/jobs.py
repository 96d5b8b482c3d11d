"""Work that takes longer than a page may: it runs in a thread, says how far it is, and can be cancelled.

There are two lanes, each with one job at a time: `work` for what takes long, and `look` for what a person waits for.
Jobs belong to the studio and not to a page: a reload, or another tab, sees the same ones.
"""

import os
import queue
import secrets
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from radoboost.errors import ArgumentError, OutputError, RadoError, what_is_spent
from radoboost.privacy.ledger import Ledger
from radoboost.release.composition import earlier_releases
from radoboost.release.release import Release, Statement
from radoboost.tables.schema import Schema

Lane = Literal["work", "look"]
State = Literal["waiting", "running", "done", "failed", "cancelled"]
_MOST = 200  # jobs that are remembered; the oldest that ended are forgotten first
_LAST_WAIT = 30.0  # seconds for all jobs to end when the studio does


class Cancelled(BaseException):
    """A job that was told to end. Like an interrupt, it is no `Exception`: nobody takes it for a failure."""


@dataclass
class Job:
    """One piece of work: `state`, and how far it is as (task, done, total).

    `progress` is the callable to give to the work; it raises `Cancelled` where the job was cancelled. `address` is the
    page of its result. `note` is a line about what a cancelled or failed job left behind, such as a booking.
    """

    title: str
    address: str = "/"
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "waiting"
    task: str = ""
    done: int = 0
    total: int | None = None
    result: Any = None
    failure: str = ""
    note: str = ""
    notices: list[str] = field(default_factory=list)
    began: float | None = None
    ended: float | None = None
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _over: threading.Event = field(default_factory=threading.Event, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def progress(self, task: str, done: int, total: int | None) -> None:
        """Say how far it is, and end here if the job was cancelled."""
        if self._stop.is_set():
            raise Cancelled
        self.task, self.done, self.total = task, done, total

    def cancel(self) -> None:
        """Ask the job to end: one that waits ends at once, a running one at its next step."""
        self._stop.set()
        with self._lock:
            if self.state == "waiting":
                self.state = "cancelled"
                self._over.set()

    def wait(self, seconds: float | None = None) -> bool:
        return self._over.wait(seconds)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def told_to_end(self) -> bool:
        """Whether somebody cancelled it, in time or too late."""
        return self._stop.is_set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set() and not self.is_over

    @property
    def percent(self) -> int | None:
        return None if not self.total else max(0, min(100, int(100 * self.done / self.total)))

    @property
    def seconds(self) -> float:
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began

    def _run(self, function: Callable[["Job"], Any]) -> None:
        with self._lock:
            if self.is_over:
                return
            self.state, self.began = "running", time.monotonic()
        try:
            self.result = function(self)
            self.state = "done"
        except Cancelled:
            self.state = "cancelled"
        except RadoError as error:
            self.failure, self.state = " ".join(str(error).split()), "failed"
        except MemoryError:
            self.failure, self.state = "there is not enough memory for this; ask for less, or free some", "failed"
        except BaseException:
            print(f"rado studio: failure {self.id[:8]}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            self.failure = f"something went wrong (failure {self.id[:8]}); the terminal of rado studio says more"
            self.state = "failed"
        finally:
            self.ended = time.monotonic()
            self._over.set()


class Jobs:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._lanes: dict[Lane, queue.SimpleQueue[tuple[Job, Callable[[Job], Any]]]] = {}
        self._closed = False

    def start(self, title: str, function: Callable[[Job], Any], *, address: str = "/", lane: Lane = "work") -> Job:
        """Run `function(job)` as soon as its lane is free; what it returns is the job's `result`."""
        job = Job(title, address)
        with self._lock:
            if self._closed:
                job.cancel()
            self._forget()
            self._jobs[job.id] = job
            if lane not in self._lanes:
                self._lanes[lane] = queue.SimpleQueue()
                threading.Thread(target=self._work, args=(self._lanes[lane],), daemon=True).start()
            self._lanes[lane].put((job, function))
        return job

    def get(self, number: str) -> Job | None:
        with self._lock:
            return self._jobs.get(number)

    def all(self) -> list[Job]:
        """All jobs that are remembered, the newest first."""
        with self._lock:
            return list(self._jobs.values())[::-1]

    def running(self) -> list[Job]:
        """The jobs that have not ended, in their order."""
        return [job for job in self.all()[::-1] if not job.is_over]

    def close(self) -> None:
        """Cancel all jobs, and wait until they have ended, for they may be writing a file."""
        with self._lock:
            self._closed = True
        jobs, end = self.running(), time.monotonic() + _LAST_WAIT
        for job in jobs:
            job.cancel()
        for job in jobs:
            if not job.wait(max(0.0, min(1.0, end - time.monotonic()))):
                print(f"rado studio: waiting for this to end: {job.title}", file=sys.stderr, flush=True)
                job.wait(max(0.0, end - time.monotonic()))

    def _work(self, lane: "queue.SimpleQueue[tuple[Job, Callable[[Job], Any]]]") -> None:
        while True:
            job, function = lane.get()
            with _warnings_of_job(job):
                job._run(function)
            del job, function  # a result must not outlive its job

    def _forget(self) -> None:
        ended = [number for number, job in self._jobs.items() if job.is_over]
        for number in ended[: max(0, len(self._jobs) - _MOST + 1)]:
            del self._jobs[number]


_noting: dict[int, Job] = {}  # by threads
_gathering = ExitStack()
_gathering_lock = threading.Lock()


@contextmanager
def _warnings_of_job(job: Job) -> Iterator[None]:
    """Let a job have the warnings of its own thread as `notices`; those of other threads go where they went before.

    Filters of warnings are those of the whole process: the first job that begins sets them, and the last one to end
    puts them back.
    """
    with _gathering_lock:
        if not _noting:
            _gathering.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = partial(_note_job_warning, warnings.showwarning)
        _noting[threading.get_ident()] = job
    try:
        yield
    finally:
        with _gathering_lock:
            del _noting[threading.get_ident()]
            if not _noting:
                _gathering.close()


def _note_job_warning(
    elsewhere: Callable[..., None], message: Any, category: type[Warning], *place: Any, **more: Any
) -> None:
    job = _noting.get(threading.get_ident())
    if job is None or not issubclass(category, UserWarning):
        elsewhere(message, category, *place, **more)
    else:
        job.notices += [" ".join(str(line).split()) for line in getattr(message, "lines", (message,))]


# ---- Crafting a release as a job: what it made, what the holder alone may see, and what stays booked if it ends early.


@dataclass(frozen=True)
class CraftOrder:
    """What is to be crafted: a table, its schema, where the release goes, and options of `craft`.

    Failures name files below `root`.
    """

    root: Path
    table: Path
    schema: Path
    declared: Schema
    place: Path
    mechanism: Any
    ledger: Path | None = None
    ledger_table: str | None = None
    compose: tuple[Path, ...] = ()
    n_rados: int | None = None


@dataclass(frozen=True)
class Crafted:
    """A release that was written, and `counts`, which are exact and for the holder alone: they are in no release."""

    place: Path
    statement: Statement
    digest: str
    n_rados: int
    n_columns: int
    n_examples: int | None
    classes: tuple[Any, ...]
    counts: tuple[str, ...]


@dataclass
class Work:
    """A job that crafts; call it with its `Job`. `shows_counts` is called before anybody can see what it counted."""

    order: CraftOrder
    shows_counts: Callable[[], None] = lambda: None
    counts: list[str] = field(default_factory=list)

    def __call__(self, job: Job) -> Crafted:
        """Craft and write the release; where that ends early, the job's note says what stays booked."""
        from radoboost.holder.craft import craft_request
        from radoboost.holder.request import CraftRequest

        order = self.order
        books = None if order.ledger is None else Ledger(order.ledger, order.ledger_table)
        try:
            check_output_place_free(order.place)  # again: another craft may have ended there while this one waited
            asked = CraftRequest.of(
                order.declared, order.mechanism, n_rados=order.n_rados, earlier=earlier_releases(order.compose)
            )
            release = craft_request(
                [str(order.table)], None, asked, ledger=books, counts=self.counts.extend, progress=job.progress,
                place=order.place,
            )  # fmt: skip
            release.save(order.place, fresh=True)
        except BaseException as error:
            job.note = _left_behind_by_job(books, error)
            if not order.mechanism.private or order.mechanism.protects == "label":
                self.shows_counts()  # such a failure names rows and values, or has exact counts (M10)
            if isinstance(error, RadoError):
                raise ArgumentError(str(error).replace(f"{order.root}{os.sep}", "")) from None
            raise
        self.shows_counts()
        return _crafted_result(release, order.place, self.counts)


def check_output_place_free(place: Path) -> None:
    """Refuse a place where something is: a release that was crafted cannot be crafted again."""
    if os.path.lexists(place):
        raise OutputError(f"{place} is there already, and nothing is written over; choose another name")


def _crafted_result(release: Release, place: Path, counts: Sequence[str]) -> Crafted:
    return Crafted(
        place, release.statement, release.digest or "", release.n_rados, len(release.columns), release.n_examples,
        tuple(release.classes), tuple(counts),
    )  # fmt: skip


def _left_behind_by_job(books: Ledger | None, error: BaseException) -> str:
    """What a job that ended early leaves: no file, and what was booked, as the error says it."""
    if books is None:
        return "No ledger was chosen, so nothing was booked; no release came out."
    spent = what_is_spent(error)
    if not spent:
        return f"Nothing was booked on the ledger for {books.table!r}."
    said = "" if isinstance(error, RadoError) else f"{spent[0].upper()}{spent[1:]}. "  # else the failure has it
    total = books.total
    return (
        f"{said}The ledger for {books.table!r} has room for one more release of epsilon {books.largest_epsilon():g} at "
        f"most, at delta {total.delta:g} ({total.relation.value})."
    )
