"""The holder's own look at a table beside a declaration, before anything is spent: outside any promise."""

import json
import operator
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, DoesNotFit, RadoError
from radoboost.holder.column_profile import CategoryProfile, plain_column_cells
from radoboost.holder.contribution_bounding import choose_rows_of_persons
from radoboost.holder.mechanisms import record_level
from radoboost.holder.mechanisms.moments.moments import Moments
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import RowCounts, Where, count_beyond_bounds
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.progress import no_progress, show_progress
from radoboost.release.columns import Column
from radoboost.release.release import atomic_write
from radoboost.tables import Batch, Table, open_table
from radoboost.tables.cells import as_bytes, date_cell_seconds, gap_cells, gap_label_cells, is_text, numbers_or_nan
from radoboost.tables.column_selection import ColumnChoice, column_name_looks_like_id, list_names
from radoboost.tables.column_types import MOST_VALUES, ORDERS, Category, Date, Ignored, Kind
from radoboost.tables.csv_dialect import CsvDialect
from radoboost.tables.csv_files import CsvFates, CsvRange, count_csv_record_fates
from radoboost.tables.files import InFolder
from radoboost.tables.frames import cluster_kind_of_frame
from radoboost.tables.labels import LabelEncoder
from radoboost.tables.raw_table import open_raw_table, refuse_float_person_ids
from radoboost.tables.schema import Declaration, Schema
from radoboost.tables.streams import is_query_or_stream, spool_for_rereading

_IF_WRONG = "nothing was spent so far; if these are not the rows that you mean, stop here, with Ctrl-C"
_ENDLESS = 2.0**1000
OUTSIDE = (
    "exact counts, for you only. Correct a declaration by a rule, or from the documentation of the table: synonyms, "
    "codes for missing values and max_rows come from there alone. What you edit because of these counts is outside the "
    "promise, and no file shows that it was"
)


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Which rows would contribute to a private release, and what spoils the others."""

    columns: tuple[Column, ...]
    rule: LabelEncoder

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
            sums.clipped += count_beyond_bounds(values, good, self.columns)
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
    unfit: Mapping[str, "UnfitCells"] = field(default_factory=dict)
    headers: "UnfitCells | None" = None  # rows that repeat the header

    @property
    def _raw(self) -> tuple[str, ...]:
        return () if self.schema is None else self.schema.used

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON data."""
        counted = self.counts.to_dict(self.features, self.label, self._raw)
        unfit = {name: cells.to_dict() for name, cells in self.unfit.items()}
        more: dict[str, Any] = {"unfit": unfit} if unfit else {}
        more |= {"repeated_headers": self.headers.count} if self.headers else {}
        return {**counted, **self._by_class(), **self.csv.to_dict(), **self._ids(), **more}

    def _ids(self) -> dict[str, Any]:
        """How many ids there are, and how many have several rows, where no person was named."""
        ids = {name: {"values": values, "repeated": repeated} for name, (values, repeated) in self.ids.items()}
        return {"ids": ids} if ids else {}

    def _by_class(self) -> dict[str, Any]:
        """How many rows have each class, whether they contribute or not, where there are more than two."""
        if self.counts.by_class is None:
            return {}
        return {"classes": dict(zip(map(str, self.classes), self.counts.by_class.tolist(), strict=True))}

    def as_text(self) -> list[str]:
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
        counted = self.counts.as_text(self.features, self.label, self._raw)
        unfit = [f"{name!r}: {line}" for name, cells in self.unfit.items() for line in cells.as_text()]
        if self.headers:
            count, where = self.headers.count, self.headers.first[0][1]
            unfit.append(f"{count:,} rows repeat the header, the first in {where}: leave them out of the table")
        return [*counted, *self.csv.as_text(), *classes, *unfit, *self._doubts(), *self._whose_rows()]

    def _whose_rows(self) -> Iterator[str]:
        for name, (values, repeated) in self.ids.items():
            yield (
                f"{repeated:,} of {values:,} values of {name!r} are in more than one row; without --person each row "
                "counts as another person; choose neither the unit of the promise nor K by this count, but "
                "by what is publicly known of how the table is made"
            )

    def _doubts(self) -> Iterator[str]:
        """Columns without a schema of which more than half of the cells are no numbers."""
        n_rows = self.counts.n_rows
        if self.schema is None and self.counts.no_number is not None:
            for name, count in zip(self.features, self.counts.no_number.tolist(), strict=True):
                if 2 * count > n_rows:
                    rows = f"{n_rows:,} rows" if count == n_rows else f"{count:,} of {n_rows:,} rows"
                    yield (
                        f"{name!r} has no number in {rows}: leave it out with --drop, or declare what it is in a "
                        "schema, made by rado schema"
                    )


# ---- Cells that are there, and are nothing that was declared: which rule would read them.

_SHOWN, _FIRST, _MOST_TEXTS = 5, 3, 10_000


@dataclass
class UnfitCells:
    """Cells of one column that are there, and are no declared value, number or date; of a label, no class."""

    kind: Kind
    what: str = "value"
    count: int = 0
    first: list[tuple[str, Any]] = field(default_factory=list)  # some cells, and where they are
    texts: Counter[str] = field(default_factory=Counter)  # of a category
    rules: Counter[str] = field(default_factory=Counter)  # how many another order or decimal mark would read

    def see(self, column: pa.Array, unfit: NDArray[np.bool_], where: Callable[[int], Any]) -> None:
        """Note the cells of some rows that are `unfit`; `where` says where a row is."""
        rows = np.flatnonzero(unfit)
        self.count += len(rows)
        self.first += [(_cell_text(column[row]), where(row)) for row in rows[: _FIRST - len(self.first)].tolist()]
        cells = plain_column_cells(column).filter(pa.array(unfit))
        if isinstance(self.kind, Category):
            for entry in pc.value_counts(cells):
                self.texts[_cell_text(entry["values"])] += entry["counts"].as_py()
            if len(self.texts) > _MOST_TEXTS:
                self.texts = Counter(dict(self.texts.most_common(_MOST_TEXTS // 2)))
        elif isinstance(self.kind, Date):
            self.rules.update({order: int(date_cell_seconds(cells, order)[1].sum()) for order in ORDERS})
        else:
            numbers = {mark: numbers_or_nan(cells, CsvDialect(None, mark), plain_too=False) for mark in ".,"}
            self.rules.update({mark: int(np.isfinite(found).sum()) for mark, found in numbers.items()})

    def _alike(self) -> tuple[int, int]:
        """How many are a declared value in other capitals, and how many differ from one in one letter."""
        assert isinstance(self.kind, Category)
        folding = replace(self.kind, fold=True)
        known, folded, letters = folding.places(), 0, 0
        for text, count in self.texts.items():
            word = folding.key(text)
            folded += count * (word in known)
            letters += count * (word not in known and any(_one_letter_apart(str(word), str(key)) for key in known))
        return folded, letters

    @property
    def _rule(self) -> str:
        return "order" if isinstance(self.kind, Date) else "decimal"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        if isinstance(self.kind, Category):
            folded, letters = self._alike()
            frequent = dict(self.texts.most_common(_SHOWN))
            return {"cells": self.count, "frequent": frequent, "other_capitals": folded, "one_letter": letters}
        first = [{"cell": cell, "where": where} for cell, where in self.first]
        return {"cells": self.count, "first": first, self._rule: {rule: n for rule, n in self.rules.items() if n}}

    def as_text(self) -> Iterator[str]:
        """What they are, and a rule that would read them, but no value to write."""
        if isinstance(self.kind, Category):
            frequent = ", ".join(f"{text!r} {count:,}" for text, count in self.texts.most_common(_SHOWN))
            folded, letters = self._alike()
            yield f"{self.count:,} cells have no declared {self.what}; the most frequent: {frequent}"
            if folded:
                rule = ', which "fold": true reads' if self.what == "value" else ""
                yield f"{folded:,} of them are a declared {self.what} in other capitals{rule}"
            if letters:
                yield f"{letters:,} of them differ from a declared {self.what} in one letter"
            if self.what == "value" and not self.kind.other:
                yield 'what a value counts as that is not declared, "other" says'
            return
        order = f" in the order {self.kind.order}, or as ISO dates are" if isinstance(self.kind, Date) else ""
        first = ", ".join(f"{cell!r} in {where}" for cell, where in self.first)
        yield f"{self.count:,} cells are no {self.kind.kind}{order}; the first: {first}"
        if rules := [f'"{self._rule}": "{rule}" reads {n:,} of them' for rule, n in self.rules.most_common() if n]:
            yield f"{' and '.join(rules)}; the documentation of the table says what is right"


def _cell_text(cell: pa.Scalar) -> str:
    value = cell.as_py()
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:60]


def _one_letter_apart(one: str, other: str) -> bool:
    """Whether a letter is another, too many or too few, or two neighbours changed places."""
    short, long = sorted((one, other), key=len)
    at = next((k for k, letter in enumerate(short) if letter != long[k]), len(short))
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return swapped or (len(long) - len(short) < 2 and short[at + (len(short) == len(long)) :] == long[at + 1 :])


def _look_for_unfit_cells(
    source: Table, schema: Schema, label: str, rule: LabelEncoder
) -> tuple[dict[str, UnfitCells], UnfitCells | None]:
    """The columns with cells that are there and do not fit, and rows that repeat the header, in one pass."""
    found, headers = dict[str, UnfitCells](), UnfitCells(Ignored("text"))
    several = len({getattr(part, "path", "") for part in source.parts()}) > 1
    for part in source.parts():
        rows, first = part.rows if isinstance(part, InFolder) else part, 0
        for batch in part.batches(source.batch_rows):
            where = partial(operator.add, first) if isinstance(rows, CsvRange) else batch.place
            for name, (cells, column, unfit) in _unfit_cells_of_batch(batch, schema, label, rule):
                found.setdefault(name, cells).see(column, unfit, where)
            repeated = _rows_like_header(batch, schema)
            headers.count += len(repeated)
            headers.first += [("", where(row)) for row in repeated[: 1 - len(headers.first)]]
            first += batch.n_rows
        if isinstance(rows, CsvRange):
            seen = [headers, *found.values()]
            lines = rows.lines_of_records([row for cells in seen for _, row in cells.first if isinstance(row, int)])
            texts = {row: f"line {line:,}" + f" of {rows.path}" * several for row, line in lines.items()}
            for cells in seen:
                cells.first = [(text, texts.get(row, row)) for text, row in cells.first]
    return found, headers if headers.count else None


def _unfit_cells_of_batch(
    batch: Batch, schema: Schema, label: str, rule: LabelEncoder
) -> Iterator[tuple[str, tuple[UnfitCells, pa.Array, NDArray[np.bool_]]]]:
    """The columns of some rows with cells that are there and do not fit: their count so far, the cells, and which."""
    assert batch.gaps is not None, "a schema reads raw cells"
    gaps = batch.gaps()
    for k, (name, column) in enumerate(zip(schema.used, batch.raw, strict=True)):
        unfit = gaps.unknown[:, k] | (gaps.unread[:, k] & ~gap_cells(column))
        if unfit.any():
            yield name, (UnfitCells(schema.columns[name]), column, unfit)
    if batch.labels is not None:
        unfit = (rule.places_or_none(batch.labels) < 0) & ~gap_label_cells(batch.labels)
        if unfit.any():
            yield label, (UnfitCells(Category(tuple(rule.classes)), "class"), batch.labels, unfit)


def _rows_like_header(batch: Batch, schema: Schema) -> list[int]:
    """The rows of which every cell that is read is the name of its column."""
    alike = np.full(batch.n_rows, len(batch.raw) > 1)
    for name, column in zip(schema.used, map(plain_column_cells, batch.raw), strict=True):
        if not alike.any() or not is_text(column.type):
            return []
        alike &= pc.fill_null(pc.equal(as_bytes(column), name.encode()), False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(alike).tolist()


def check_table(
    table: Any,
    y: Any = None,
    *,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    schema: Declaration = None,
    progress: bool = False,
) -> TableCheck:
    """Count which rows would contribute to a private release, and which column spoils or clips the others.

    Nothing is added to these counts: they are for the holder's eyes, to see that a declaration fits before an epsilon
    is spent. To choose or to correct a declaration by them is to derive it from the table, which no promise covers: a
    correction should follow from documentation. Where the schema has a person, the counts are of at most `max_rows`
    rows of each, good ones first.
    """
    asked = CraftRequest.of(schema, Moments(1.0), y=y, label=label, classes=classes)
    if asked.schema.inferences:
        raise ArgumentError(
            f"{', '.join(asked.schema.inferences)}: read off the table, so the schema fits it; check a declared one"
        )
    record_level.check_declared(asked, may_search=True)
    return check_request(table, y, asked, progress=progress)


def check_request(table: Any, y: Any, asked: CraftRequest, *, progress: bool = False) -> TableCheck:
    """As `check_table`, for what `craft` would be asked for."""
    names = record_level.record_features(asked)
    chosen, dropped = (asked.features, asked.drop) if names is None else (names, ())
    if asked.person is not None:
        refuse_float_person_ids(table, asked.person)
    with (
        (show_progress if progress else no_progress)() as bar,
        spool_for_rereading(table, row_by_row=True, bar=bar) as rows,
    ):
        source = open_table(
            rows, y, label=asked.label, features=chosen, drop=dropped, person=asked.person, row_by_row=True,
            schema=asked.reading,
        )  # fmt: skip
        # Bounds that are to be found cannot be checked: nothing is beyond these.
        if searched := asked.searched(source.features):
            asked = replace(asked, found={**asked.limits, **dict.fromkeys(searched, (-_ENDLESS, _ENDLESS))})
        columns = record_level.declared_record_columns(asked, source.features, 1.0)[: len(source.features)]
        run, rule, persons, csv = (
            ThreadRunner(1, bar).run,
            record_level.declared_label_encoder(asked),
            None,
            count_csv_record_fates(source.parts()),
        )
        unfit = _look_for_unfit_cells(source, asked.reading, asked.label_name, rule) if asked.reading else ()
        if asked.person is not None:
            source, persons = choose_rows_of_persons(source, run, rule, asked.max_rows, secrets.token_bytes(32))
        counts = replace(run(CheckRows(columns, rule), source), persons=persons)
        ids = {} if asked.person is not None else dict(_count_repeated_ids(rows, y, asked, run, rule))
    return TableCheck(counts, source.features, asked.label_name, asked.reading, rule.classes, csv, ids, *unfit)


def _count_repeated_ids(
    table: Any, y: Any, asked: CraftRequest, run: Callable[[Any, Any], Any], rule: LabelEncoder
) -> Iterator[tuple[str, tuple[int, int]]]:
    """How many values each declared column of ids has, and how many of them are in several rows."""
    for name in asked.schema.ids:
        try:
            source = open_table(table, y, label=asked.label, person=name, row_by_row=True, schema=asked.reading)
        except RadoError:
            continue  # nothing else needs this column, so it need not be there
        _, found = choose_rows_of_persons(source, run, rule, 2, secrets.token_bytes(32))
        yield name, (found.people, found.rows - found.nobody - found.beyond - found.people)


def show_check_before_room(
    table: Any,
    y: Any,
    asked: CraftRequest,
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
    if is_query_or_stream(table) or not (shown or ask is not None):
        return
    check = check_request(table, y, asked, progress=progress)
    if shown:
        _show_table_check(check, where)
    if ask is not None:
        ask(check.counts.n_rows - check.counts.spoiled, check.counts.n_rows)


def _show_table_check(check: TableCheck, where: Where) -> None:
    if where == "terminal":
        print("your table beside what is agreed on, for your eyes, not protected:", file=sys.stderr)
        for line in (*check.as_text(), _IF_WRONG):
            print(f"  {line}", file=sys.stderr)
        return
    if callable(where):
        where([*check.as_text(), _IF_WRONG])
        return
    assert where is not None, "there is a place to show it"
    with atomic_write(Path(where), secret=True) as draft:
        draft.write_text(json.dumps(check.to_dict(), indent=2) + "\n", encoding="utf-8")


# ---- Everything in which a table does not fit its schema, in one line, with what to write: for plain releases.
#
# Whoever reads a table stops at the first thing that is wrong. This looks for all the others then, once, so that
# nobody has to run a command again for each. It looks at cells, so private mechanisms have no use for it: of a
# table that they open, only the header is a reason to refuse.

_ANY = Category(("",))  # in place of a category whose values are open: every cell fits


@dataclass(frozen=True, eq=False)
class SchemaViolations:
    """What is wrong: columns that are not there, in words, clauses on cells and types, and categories by column."""

    table: str
    absent: str
    typed: Mapping[str, str]
    unread: Mapping[str, str]
    values: Mapping[str, CategoryProfile]
    open: Sequence[str]

    def clauses(self) -> Iterator[str]:
        """All that is wrong, each with what to write."""
        if self.absent:
            yield f"it has {self.absent}: correct the name, or delete its line"
        for name, clause in self.typed.items():
            yield f"{clause}: convert it, or write {_schema_line_for_misfit(name, 'text')}"
        for name, clause in self.unread.items():
            yield f"{clause}: correct it, or write {_schema_line_for_misfit(name, self._other_kind(name))}"
        many = [name for name in self.open if self.values[name].values is None]
        if many:
            lines = ", ".join(_schema_line_for_misfit(name, self._other_kind(name)) for name in many)
            yield (
                f"{list_names(many)}: more than {MOST_VALUES} values, which is too many for a category: write the most "
                f'frequent as values with "other": true, or leave the column out: {lines}'
            )
        empty = [name for name in self.open if self.values[name].values == {}]
        if empty:
            yield (
                f"{list_names(empty)}: no value in any row: write "
                f"{', '.join(_schema_line_for_misfit(name, 'text') for name in empty)}"
            )

    def _other_kind(self, name: str) -> str:
        if column_name_looks_like_id(name):
            return "id"
        return "text" if self.values[name].values is None else "category"


def _schema_line_for_misfit(name: str, kind: str) -> str:
    return f'{json.dumps(name, ensure_ascii=False)}: {{"kind": "{kind}"}}'


def error_of_all_misfits(
    error: DoesNotFit, table: Any, schema: Schema, label: str | None, weights: str | None = None
) -> DoesNotFit:
    """The error for all in which a table does not fit, where reading stopped at `error`; that one, if there is none."""
    if cluster_kind_of_frame(table):
        return error  # its cells are not looked at here
    try:
        found = _find_misfits(table, schema, label, weights)
    except RadoError:  # whatever it is, it comes after what the reader stopped at
        return error
    clauses = list(found.clauses())
    return DoesNotFit(f"{found.table} does not fit the schema: {'; '.join(clauses)}") if clauses else error


def _find_misfits(table: Any, schema: Schema, label: str | None, weights: str | None) -> SchemaViolations:
    raw = open_raw_table(table, None, schema.separator)
    choice = ColumnChoice.of(label, schema.used, (), weights, "weights")
    others = [name for name in raw.columns if name not in {*schema.used, label, weights}]
    absent = choice.absent(raw.columns)
    absent += f" (its other columns are {list_names(others) or 'none'})" if absent else ""
    there = {name: schema.columns[name] for name in schema.used if name in raw.columns}
    typed, unread = _unreadable_columns(table, schema, there)
    open_ones = [name for name, kind in there.items() if _category_is_undeclared(kind) and name not in typed]
    looked = {name: CategoryProfile() for name in (*open_ones, *unread)}
    if looked:
        for batch in open_raw_table(table, list(looked), schema.separator).batches():
            for name, look in looked.items():
                column = plain_column_cells(batch.columns.column(name))
                look.see(column, ~gap_cells(column))
    return SchemaViolations(raw.name, absent, typed, unread, looked, open_ones)


def _unreadable_columns(
    table: Any, schema: Schema, columns: Mapping[str, Kind]
) -> tuple[dict[str, str], dict[str, str]]:
    """Columns whose type does not fit, and of the others the first cell of each that does not, as clauses."""
    typed: dict[str, str] = {}
    unread: dict[str, str] = {}
    closed = {name: _ANY if _category_is_undeclared(kind) else kind for name, kind in columns.items()}
    try:
        source = _open_strictly(table, schema, closed)
    except DoesNotFit as error:
        typed = error.columns
        source = _open_strictly(table, schema, {name: kind for name, kind in closed.items() if name not in typed})
    for batch in () if source is None else source.batches():
        try:
            batch.values()
        except DoesNotFit as error:
            unread = {**error.columns, **unread}  # the first of each column
    order = [name for name in columns if name in unread]
    return typed, {name: unread[name] for name in order}


def _open_strictly(table: Any, schema: Schema, columns: Mapping[str, Kind]) -> Any:
    """The table with these columns alone, read strictly; None of no columns."""
    if not columns:
        return None
    return open_table(table, None, labelled=False, schema=replace(schema, columns=columns, products=()))


def _category_is_undeclared(kind: Kind) -> bool:
    return isinstance(kind, Category) and kind.values is None
