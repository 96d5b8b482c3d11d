"""The holder's own look at a table beside a declaration, before anything is spent: outside any promise."""

import json
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError, RadoError
from radoboost.holder.counts import RowCounts, Where, beyond_bounds
from radoboost.holder.declared import Bounds, declaration, written
from radoboost.holder.keystream import make_key
from radoboost.holder.mechanisms import Asked
from radoboost.holder.mechanisms.records import (
    check_declared,
    check_person,
    declared_columns,
    declared_features,
    declared_rule,
)
from radoboost.holder.persons import choose_rows
from radoboost.holder.runners.threads import Threads
from radoboost.progress import no_progress, show_progress
from radoboost.release import replacing
from radoboost.release.columns import Column
from radoboost.tables import Batch, open_table
from radoboost.tables.csv_lines import CsvFates, csv_fates
from radoboost.tables.kinds import Category
from radoboost.tables.labels import LabelRule
from radoboost.tables.schema import Schema
from radoboost.tables.streams import at_rest, is_query

_IF_WRONG = "nothing was spent so far; if these are not the rows that you mean, stop here, with Ctrl-C"
_ENDLESS = 2.0**1000
OUTSIDE = (
    "exact counts, for you only. Correct mistakes from the documentation of the table, not from these counts: what you "
    "edit in a declaration because of them is outside the promise, and no file shows that it was"
)


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Which rows would contribute to a private release, and what spoils the others."""

    columns: tuple[Column, ...]
    rule: LabelRule

    title = "checking rows"
    rows_at_a_time = None
    worker_bytes = 0

    def empty(self) -> RowCounts:
        return RowCounts.zeros(len(self.columns))

    def add(self, sums: RowCounts, first_row: int, batch: Batch) -> None:
        with np.errstate(all="ignore"):
            values, places = batch.values(), self.rule.places_or_none(batch.labels)
            good = np.isfinite(values).all(axis=1) & (places >= 0)
            sums.see(values, (places >= 0).astype(np.int8), good, batch)
            sums.clipped += beyond_bounds(values, good, self.columns)
            no_number = (~np.isfinite(values)).sum(axis=0)
            sums.no_number = no_number if sums.no_number is None else sums.no_number + no_number
            if self.rule.n_classes > 2:
                own = np.bincount(places[places >= 0], minlength=self.rule.n_classes)
                sums.by_class = own if sums.by_class is None else sums.by_class + own


@dataclass(frozen=True, eq=False)
class TableCheck:
    """What would become of the rows of a table under a declaration: exact, so for the holder alone."""

    counts: RowCounts
    features: tuple[str, ...]
    label: str
    schema: Schema | None = None
    classes: Sequence[Any] = ()
    csv: CsvFates = field(default_factory=CsvFates)
    ids: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of a column: its values, and those that repeat

    @property
    def _raw(self) -> tuple[str, ...]:
        return () if self.schema is None else self.schema.used

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON data."""
        counted = self.counts.to_dict(self.features, self.label, self._raw)
        return {**counted, **self._by_class(), **self.csv.to_dict(), **self._ids()}

    def _ids(self) -> dict[str, Any]:
        """How many ids there are, and how many have several rows, where no person was named."""
        ids = {name: {"values": values, "repeated": repeated} for name, (values, repeated) in self.ids.items()}
        return {"ids": ids} if ids else {}

    def _by_class(self) -> dict[str, Any]:
        """How many rows have each class, whether they contribute or not, where there are more than two."""
        if self.counts.by_class is None:
            return {}
        return {"classes": dict(zip(map(str, self.classes), self.counts.by_class.tolist(), strict=True))}

    def in_words(self) -> list[str]:
        """The counts as lines, and a line for each column that may have been declared as what it is not."""
        counts = self._by_class().get("classes", {})
        classes = (
            [f"classes of all rows: {', '.join(f'{name!r} {count:,}' for name, count in counts.items())}"]
            if counts
            else []
        )
        absent = [repr(name) for name, count in counts.items() if count == 0]
        if absent:
            classes.append(f"no row has the class {' or '.join(absent)}: are classes written as in the table?")
        counted = self.counts.in_words(self.features, self.label, self._raw)
        return [*counted, *self.csv.in_words(), *classes, *self._doubts(), *self._whose_rows()]

    def _whose_rows(self) -> Iterator[str]:
        for name, (values, repeated) in self.ids.items():
            yield (
                f"{repeated:,} of {values:,} values of {name!r} are in more than one row; without --person each row "
                "counts as another person; choose neither the unit of the promise nor --max-rows by this count, but by "
                "what is publicly known of how the table is made"
            )

    def _doubts(self) -> Iterator[str]:
        """Columns of which more than half of the cells cannot be read as what was declared."""
        n_rows = self.counts.n_rows
        if self.schema is None and self.counts.no_number is not None:
            for name, count in zip(self.features, self.counts.no_number.tolist(), strict=True):
                if 2 * count > n_rows:
                    rows = f"{n_rows:,} rows" if count == n_rows else f"{count:,} of {n_rows:,} rows"
                    yield (
                        f"{name!r} has no number in {rows}: leave it out with --drop, or declare what it is in a "
                        "schema, made by rado schema"
                    )
        if self.schema is None or self.counts.filled is None:
            return
        for name, count in zip(self._raw, self.counts.filled.tolist(), strict=True):
            if 2 * count <= n_rows:
                continue
            rows = f"{n_rows:,} rows" if count == n_rows else f"{count:,} of {n_rows:,} rows"
            kind = self.schema.columns[name]
            if isinstance(kind, Category):
                yield f"{name!r} has none of the declared values in {rows}: are they written as in the table?"
            else:
                date = "is it one, and is the order of day, month and year right?"
                hint = date if kind.kind == "date" else "is it a category, or written with another decimal mark?"
                yield f"{name!r} has no readable {kind.kind} in {rows}: {hint}"


def check_table(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Bounds = None,
    bounds: Bounds = None,
    person: str | None = None,
    max_rows: int | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    progress: bool = False,
) -> TableCheck:
    """Count which rows would contribute to a private release, and which column spoils or clips the others.

    Nothing is added to these counts: they are for the holder's eyes, to see that a declaration fits before an epsilon
    is spent. To choose or to correct a declaration by them is to derive it from the table, which no promise covers: a
    correction should follow from documentation. With a `person`, the counts are of at most `max_rows` rows of each,
    good ones first. `separator` and `decimal` say how a CSV file is written, as for `craft`.
    """
    asked = Asked(
        **written(declaration(schema, bounds, y, label, classes, features, drop), separator, decimal, private=True),
        n_rados=1,
        signature_key=make_key(None),
        person=person,
        max_rows=check_person(person, max_rows),
    )
    if asked.declared.inferred:
        raise ArgumentError(
            f"{', '.join(asked.declared.inferred)}: read off the table, so the schema fits it; check a declared one"
        )
    check_declared(asked, may_search=True)
    return check_asked(table, y, asked, progress=progress)


def check_asked(table: Any, y: Any, asked: Asked, *, progress: bool = False) -> TableCheck:
    """As `check_table`, for what `craft` would be asked for."""
    declared, names = asked.declared, declared_features(asked)
    chosen, dropped = (asked.features, asked.drop) if names is None else (names, ())
    with (show_progress if progress else no_progress)() as bar, at_rest(table, row_by_row=True, bar=bar) as rows:
        source = open_table(
            rows, y, label=asked.label, features=chosen, drop=dropped, person=asked.person, row_by_row=True,
            schema=declared.schema,
        )  # fmt: skip
        # Bounds that are to be found cannot be checked: nothing is beyond these.
        declared = declared.with_found(dict.fromkeys(declared.searched(source.features), (-_ENDLESS, _ENDLESS)))
        columns = declared_columns(replace(asked, declared=declared), source.features, 1.0)[: len(source.features)]
        run, rule, persons, csv = Threads(1, bar).run, declared_rule(asked), None, csv_fates(source.parts())
        if asked.person is not None:
            source, persons = choose_rows(source, run, rule, asked.max_rows, secrets.token_bytes(32))
        counts = replace(run(CheckRows(columns, rule), source), persons=persons)
        ids = {} if asked.person is not None else dict(_repeated(rows, y, asked, run, rule))
    return TableCheck(counts, source.features, asked.label_name, declared.schema, rule.classes, csv, ids)


def _repeated(
    table: Any, y: Any, asked: Asked, run: Callable[[Any, Any], Any], rule: LabelRule
) -> Iterator[tuple[str, tuple[int, int]]]:
    """How many values each declared column of ids has, and how many of them are in several rows."""
    for name in asked.declared.ids:
        try:
            source = open_table(table, y, label=asked.label, person=name, row_by_row=True, schema=asked.declared.schema)
        except RadoError:
            continue  # nothing else needs this column, so it need not be there
        _, found = choose_rows(source, run, rule, 2, secrets.token_bytes(32))
        yield name, (found.people, found.rows - found.nobody - found.beyond - found.people)


def tell_beforehand(
    table: Any,
    y: Any,
    asked: Asked,
    where: Where,
    *,
    progress: bool = False,
    ask: Callable[[int, int], None] | None = None,
) -> None:
    """Show a holder, before it greets the others of a room, what becomes of its rows by what is agreed on.

    The counts go where `craft` shows its own, and to `ask`: how many rows contribute, of how many; whatever it raises
    ends the joining. They go nowhere else. Nothing that others see depends on them but by what the person does: so
    where nobody is asked a table of which no row contributes is joined with as any other, since a stop would be an
    exact function of its rows (B14 of docs/proofs/secure-sums.md). What can be read only once is not looked at.
    """
    here = sys.stderr is not None and sys.stderr.isatty()
    shown = where is not None and (where != "terminal" or here)
    if is_query(table) or not (shown or ask is not None):
        return
    check = check_asked(table, y, asked, progress=progress)
    if shown:
        _show_beforehand(check, where)
    if ask is not None:
        ask(check.counts.n_rows - check.counts.spoiled, check.counts.n_rows)


def _show_beforehand(check: TableCheck, where: Where) -> None:
    if where == "terminal":
        print("your table beside what is agreed on, for your eyes, not protected:", file=sys.stderr)
        for line in (*check.in_words(), _IF_WRONG):
            print(f"  {line}", file=sys.stderr)
        return
    if callable(where):
        where([*check.in_words(), _IF_WRONG])
        return
    assert where is not None, "there is a place to show it"
    with replacing(Path(where), secret=True) as draft:
        draft.write_text(json.dumps(check.to_dict(), indent=2) + "\n", encoding="utf-8")
