"""Crafting a release as a job: what it made, what the holder alone may see, and what stays booked if it ends early."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError, OutputError, RadoError, what_is_spent
from radoboost.privacy.ledger import Ledger
from radoboost.release.release import Release, Statement
from radoboost.studio.jobs import Job


@dataclass(frozen=True)
class CraftOrder:
    """What is to be crafted: a table, its schema, where the release goes, and options of `craft`.

    Failures name files below `root`.
    """

    root: Path
    table: Path
    schema: Path
    place: Path
    mechanism: Any
    ledger: Path | None = None
    ledger_table: str | None = None
    compose: tuple[Path, ...] = ()
    n_rados: int | None = None
    rows: int | None = None
    person: str | None = None
    max_rows: int | None = None


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
        from radoboost.holder.craft import craft

        order = self.order
        books = None if order.ledger is None else Ledger(order.ledger, order.ledger_table)
        try:
            check_free(order.place)  # again: another craft may have ended there while this one waited
            release = craft(
                [str(order.table)],
                schema=order.schema,
                mechanism=order.mechanism,
                n_rados=order.n_rados,
                rows=order.rows,
                person=order.person,
                max_rows=order.max_rows,
                compose=order.compose,
                ledger=books,
                counts=self.counts.extend,
                progress=job.progress,
                place=order.place,
            )
            release.save(order.place, fresh=True)
        except BaseException as error:
            job.note = _left_behind(books, error)
            if not order.mechanism.private:
                self.shows_counts()  # such a failure names rows and values
            if isinstance(error, RadoError):
                raise ArgumentError(str(error).replace(f"{order.root}{os.sep}", "")) from None
            raise
        self.shows_counts()
        return _crafted(release, order.place, self.counts)


def check_free(place: Path) -> None:
    """Refuse a place where something is: a release that was crafted cannot be crafted again."""
    if os.path.lexists(place):
        raise OutputError(f"{place} is there already, and nothing is written over; choose another name")


def _crafted(release: Release, place: Path, counts: Sequence[str]) -> Crafted:
    return Crafted(
        place,
        release.statement,
        release.digest or "",
        release.n_rados,
        len(release.columns),
        release.n_examples,
        tuple(release.classes),
        tuple(counts),
    )


def _left_behind(books: Ledger | None, error: BaseException) -> str:
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
