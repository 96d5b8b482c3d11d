"""Everything in which a table does not fit its schema, in one line, with what to write: for plain releases.

Whoever reads a table stops at the first thing that is wrong. This looks for all the others then, once, so that nobody
has to run a command again for each. It looks at cells, so private mechanisms have no use for it: of a table that they
open, only the header is a reason to refuse.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radoboost.errors import DoesNotFit, RadoError
from radoboost.holder.column_looks import ValueLook, plain_cells
from radoboost.holder.guessing import says_id
from radoboost.tables import open_table
from radoboost.tables.cells import gaps
from radoboost.tables.cluster_frames import cluster_of
from radoboost.tables.columns import Choice, listed
from radoboost.tables.kinds import MOST_VALUES, Category, Kind
from radoboost.tables.raw import raw_table
from radoboost.tables.schema import Schema

_ANY = Category(("",))  # in place of a category whose values are open: every cell fits


@dataclass(frozen=True, eq=False)
class Misfits:
    """What is wrong: columns that are not there, in words, clauses on cells and types, and categories by column."""

    table: str
    absent: str
    typed: Mapping[str, str]
    unread: Mapping[str, str]
    values: Mapping[str, ValueLook]
    open: Sequence[str]

    def clauses(self) -> Iterator[str]:
        """All that is wrong, each with what to write."""
        if self.absent:
            yield f"it has {self.absent}: correct the name, or delete its line"
        for name, clause in self.typed.items():
            yield f"{clause}: convert it, or write {_line(name, 'text')}"
        for name, clause in self.unread.items():
            yield f"{clause}: correct it, or write {_line(name, self._other_kind(name))}"
        many = [name for name in self.open if self.values[name].values is None]
        if many:
            lines = ", ".join(_line(name, self._other_kind(name)) for name in many)
            yield (
                f"{listed(many)}: more than {MOST_VALUES} values, which is too many for a category: write the most "
                f'frequent as values with "other": true, or leave the column out: {lines}'
            )
        empty = [name for name in self.open if self.values[name].values == {}]
        if empty:
            yield f"{listed(empty)}: no value in any row: write {', '.join(_line(name, 'text') for name in empty)}"

    def _other_kind(self, name: str) -> str:
        """What a column may be, if it is not what the schema says."""
        if says_id(name):
            return "id"
        return "text" if self.values[name].values is None else "category"


def _line(name: str, kind: str) -> str:
    return f'{json.dumps(name, ensure_ascii=False)}: {{"kind": "{kind}"}}'


def all_misfits(
    error: DoesNotFit, table: Any, schema: Schema, label: str | None, weights: str | None = None
) -> DoesNotFit:
    """The error for all in which a table does not fit, where reading stopped at `error`; that one, if there is none."""
    if cluster_of(table):
        return error  # its cells are not looked at here
    try:
        found = _found(table, schema, label, weights)
    except RadoError:  # whatever it is, it comes after what the reader stopped at
        return error
    clauses = list(found.clauses())
    return DoesNotFit(f"{found.table} does not fit the schema: {'; '.join(clauses)}") if clauses else error


def _found(table: Any, schema: Schema, label: str | None, weights: str | None) -> Misfits:
    raw = raw_table(table, None, schema.separator)
    choice = Choice.of(label, schema.used, (), weights, "weights")
    others = [name for name in raw.columns if name not in {*schema.used, label, weights}]
    absent = choice.absent(raw.columns)
    absent += f" (its other columns are {listed(others) or 'none'})" if absent else ""
    there = {name: schema.columns[name] for name in schema.used if name in raw.columns}
    typed, unread = _unread(table, schema, there)
    open_ones = [name for name, kind in there.items() if _is_open(kind) and name not in typed]
    looked = {name: ValueLook() for name in (*open_ones, *unread)}
    if looked:
        for batch in raw_table(table, list(looked), schema.separator).batches():
            for name, look in looked.items():
                column = plain_cells(batch.columns.column(name))
                look.see(column, ~gaps(column))
    return Misfits(raw.name, absent, typed, unread, looked, open_ones)


def _unread(table: Any, schema: Schema, columns: Mapping[str, Kind]) -> tuple[dict[str, str], dict[str, str]]:
    """Columns whose type does not fit, and of the others the first cell of each that does not, as clauses."""
    typed: dict[str, str] = {}
    unread: dict[str, str] = {}
    closed = {name: _ANY if _is_open(kind) else kind for name, kind in columns.items()}
    try:
        source = _open(table, schema, closed)
    except DoesNotFit as error:
        typed = error.columns
        source = _open(table, schema, {name: kind for name, kind in closed.items() if name not in typed})
    for batch in () if source is None else source.batches():
        try:
            batch.values()
        except DoesNotFit as error:
            unread = {**error.columns, **unread}  # the first of each column
    order = [name for name in columns if name in unread]
    return typed, {name: unread[name] for name in order}


def _open(table: Any, schema: Schema, columns: Mapping[str, Kind]) -> Any:
    """The table with these columns alone, read strictly; None of no columns."""
    if not columns:
        return None
    return open_table(table, None, labelled=False, schema=replace(schema, columns=columns, products=()))


def _is_open(kind: Kind) -> bool:
    return isinstance(kind, Category) and kind.values is None
