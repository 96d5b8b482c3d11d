"""The books of a table: a total that was set in advance, and every release booked against it before its noise is drawn.

A ledger is one SQLite file that the holder keeps. One write transaction reads what was spent, compares and books, so
that concurrent bookings stand in one order and their sum never passes the total (L7). No booking is ever given back: a
process that is killed after booking has spent what it booked, at most (L8). Triggers refuse to change or delete a row,
which guards against accidents, not against a holder with an editor. Labels are those of docs/proofs/ledger.md.

The file has a rollback journal and no write-ahead log: that would need memory that all processes share, which network
file systems do not have. Each commit is synced with its folder (synchronous=EXTRA), so that no power cut undoes one.
"""

import errno
import json
import os
import re
import secrets
import shlex
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, floor, inf, log10, sqrt
from pathlib import Path
from typing import Any
from urllib.parse import quote

from radoboost.errors import ArgumentError, BudgetError, LedgerError, OutputError, reason
from radoboost.privacy.accountants import epsilon_at
from radoboost.privacy.budget_filter import Cost, Filter
from radoboost.privacy.events import (
    OF_LABELS,
    OF_PERSONS,
    Composed,
    Event,
    Gaussian,
    NotPrivate,
    Relation,
    convert_relation,
    flatten,
    from_dict,
    label_of_event,
    person_column_of_event,
    records_of_event,
    to_dict,
)

VERSION = 1
SHORT_NAMES = ("record", "replace", "edge", "label", "person", "person-rows", "person-labels")  # of relations
_USUAL_DELTA = 1e-6
_APPLICATION = 0x7261646F  # "rado", where SQLite keeps whose file it is
_BUSY_SECONDS = 120.0
_SQLITE, _JOURNAL = b"SQLite format 3\0", bytes.fromhex("d9d505f920a163d7")  # how a database and a journal begin
_OF_CONTENT = (Relation.EDGE, Relation.PERSON_ROWS)  # what noise on rows protects: the number of rows is exact
_MOST_STEPS, _MOST_BYTES = 5_000_000, 1 << 20  # of a look: steps of SQLite, and bytes of a value
_NOTHING = "nothing was booked"
_KNOWN = ("CREATE TABLE %", "CREATE INDEX %", "CREATE UNIQUE INDEX %", "CREATE TRIGGER %")
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE totals (
    name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, relation TEXT NOT NULL,
    mu_squared REAL NOT NULL, delta0 REAL NOT NULL, total_variation REAL NOT NULL, created TEXT NOT NULL
);
CREATE TABLE bookings (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL REFERENCES totals (name),
    release TEXT NOT NULL, purpose TEXT NOT NULL, event TEXT NOT NULL,
    mu_squared REAL NOT NULL, delta0 REAL NOT NULL, total_variation REAL NOT NULL, booked TEXT NOT NULL, digest TEXT
);
CREATE INDEX bookings_of_a_release ON bookings (release);
CREATE TRIGGER a_total_stays BEFORE UPDATE ON totals WHEN EXISTS (SELECT 1 FROM bookings WHERE name = OLD.name)
BEGIN SELECT RAISE(ABORT, 'a total with bookings stays'); END;
CREATE TRIGGER no_total_goes BEFORE DELETE ON totals WHEN EXISTS (SELECT 1 FROM bookings WHERE name = OLD.name)
BEGIN SELECT RAISE(ABORT, 'a total with bookings stays'); END;
CREATE TRIGGER no_booking_goes BEFORE DELETE ON bookings BEGIN SELECT RAISE(ABORT, 'no booking is given back'); END;
CREATE TRIGGER a_booking_stays BEFORE UPDATE ON bookings
WHEN OLD.digest IS NOT NULL OR NEW.digest IS NULL OR NEW.number IS NOT OLD.number OR NEW.id IS NOT OLD.id
    OR NEW.name IS NOT OLD.name OR NEW.release IS NOT OLD.release OR NEW.purpose IS NOT OLD.purpose
    OR NEW.event IS NOT OLD.event OR NEW.mu_squared IS NOT OLD.mu_squared OR NEW.delta0 IS NOT OLD.delta0
    OR NEW.total_variation IS NOT OLD.total_variation OR NEW.booked IS NOT OLD.booked
BEGIN SELECT RAISE(ABORT, 'of a booking only the digest is set, once'); END;
"""


@dataclass(frozen=True)
class Entry:
    """One booking, which is spent whether or not its file was ever written.

    `digest` is None until that file was written.
    """

    id: str
    release: str
    purpose: str
    event: Event
    cost: Cost
    booked: str
    digest: str | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "release": self.release,
            "purpose": self.purpose,
            "booked": self.booked,
            "digest": self.digest,
            **_ledger_cost_as_floats(self.cost),
            "event": to_dict(self.event),
        }


class Ledger:
    """The books of one table, in a file that the holder keeps.

    `table` is the name that the holder gave it; it can be left out where the file has one table only.

    Every release is booked with the most that it can cost, before its noise is drawn, and refused with a `BudgetError`
    where the total would be passed. The promise is the total's, also when later releases are chosen by looking at
    earlier ones; it does not hold for parameters that were chosen by looking at the table.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "clinic.ledger"
    >>> ledger = Ledger.create(place, "patients", epsilon=3.0, delta=1e-6)
    >>> booking = ledger.book(Gaussian(4.0, Relation.RECORD))
    >>> [entry.id == booking for entry in ledger.entries()], float(ledger.spent().mu_squared)
    ([True], 0.0625)
    """

    def __init__(self, path: str | os.PathLike[str], table: str | None = None) -> None:
        self.path = Path(path).absolute()
        names = ledger_table_names(path)
        if table is None and len(names) != 1:
            raise LedgerError(
                f"{self.path} has the tables {_quoted_table_names(names)}; say which (table=, FILE:TABLE, "
                "or --table TABLE)"
            )
        if table is not None and table not in names:
            raise LedgerError(
                f"{self.path} has no table {table!r}, only {_quoted_table_names(names)}; make it with rado ledger "
                "create"
            )
        self.table: str = names[0] if table is None else table

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, {self.table!r})"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        table: str,
        *,
        epsilon: float,
        delta: float = 1e-6,
        relation: Relation | str = Relation.RECORD,
    ) -> "Ledger":
        """Set the total of a table, in a new file or in one that has other tables.

        It can be replaced as long as nothing is booked, and not later.
        """
        total = Filter(epsilon, delta, relation_by_name(relation))
        if not isinstance(table, str) or not table.strip() or not table.isprintable():
            raise ArgumentError(f"the table needs a name; it is {table!r}")
        place, allowance = Path(path).absolute(), total.allowance
        if float(allowance.mu_squared) <= 0:
            raise ArgumentError(f"epsilon {epsilon!r} at delta {delta!r} leaves nothing to spend; take a larger one")
        row = (
            table,
            total.epsilon,
            total.delta,
            total.relation.value,
            *_ledger_cost_as_floats(allowance).values(),
            _time_of_booking(),
        )
        insert = "INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        if _write_new_ledger(place, insert, row):
            return cls(place, table)
        with _open_ledger(place) as connection, _ledger_transaction(connection):
            if connection.execute("SELECT 1 FROM bookings WHERE name = ?", (table,)).fetchone():
                raise LedgerError(
                    f"{place} has bookings for {table!r} already, so its total stays, and a second one for the same "
                    "people would make both untrue; only another table, of other people, takes another name"
                )
            connection.execute("DELETE FROM totals WHERE name = ?", (table,))
            connection.execute(insert, row)
        return cls(place, table)

    @property
    def total(self) -> Filter:
        """What was set in advance."""
        return self._books()[0]

    @property
    def allowance(self) -> Cost:
        """The total as it was written down: what all bookings together may cost."""
        return self._books()[1]

    def entries(self) -> list[Entry]:
        """All bookings of the table, in their order."""
        rows = self._read(
            f"SELECT id, release, purpose, event, {_COST}, booked, digest FROM bookings WHERE name = ? ORDER BY number",
            self.table,
        )
        return [
            Entry(row[0], row[1], row[2], from_dict(json.loads(row[3])), _cost_of_ledger_row(row[4:7]), row[7], row[8])
            for row in rows
        ]

    def spent(self) -> Cost:
        """What all bookings cost together."""
        return self._books()[2]

    def left(self) -> Cost:
        """What the total leaves."""
        _, allowance, spent = self._books()
        return allowance.less(spent)

    def check(self, *events: Event) -> Cost:
        """What events would cost, one booking each, refused where they cannot all be booked; nothing is booked."""
        with _open_ledger(self.path) as connection:
            books, n_releases = self._books(connection), self._n_releases(connection)
        total, allowance, spent = books
        cost = sum((self._cost(total, event) for event in events), Cost())
        with _open_ledger(self.path) as connection:
            self._check_alone(connection)
            for event in events:
                self._check_claims(event, connection)
        self._check_room(total, allowance, spent, cost, n_releases)
        return cost

    def book(self, event: Event, *, release: str | None = None, purpose: str = "release") -> str:
        """Book the most that a release can cost, and return the random id of the booking.

        `release` is the id that several bookings of one release share; by default it is that of the booking.
        """
        number = secrets.token_hex(16)
        total = self.total
        cost = self._cost(total, event)  # before the transaction, for it may take long
        with _open_ledger(self.path) as connection, _ledger_transaction(connection):
            books, n_releases = self._books(connection), self._n_releases(connection)
            if books[0] != total:  # replaced meanwhile, while nothing was booked
                cost = self._cost(books[0], event)
            self._check_alone(connection)
            self._check_claims(event, connection)
            self._check_records(event, connection)
            earlier = connection.execute("SELECT 1 FROM bookings WHERE release = ?", (release,)).fetchone()
            self._check_room(*books, cost, n_releases, "this was not booked" if earlier else _NOTHING)
            row = (
                number,
                self.table,
                release or number,
                purpose,
                json.dumps(to_dict(event)),
                *_ledger_cost_as_floats(cost).values(),
            )
            connection.execute(
                f"INSERT INTO bookings (id, name, release, purpose, event, {_COST}, booked) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, _time_of_booking()),
            )
        return number

    def finish(self, release: str, digest: str) -> None:
        """Note the digest of the file that a release, or a booking, ended in; the first one stays."""
        with _open_ledger(self.path) as connection, _ledger_transaction(connection):
            connection.execute(
                "UPDATE bookings SET digest = ? WHERE ? IN (release, id) AND name = ? AND digest IS NULL",
                (digest, release, self.table),
            )

    def stays_booked(self, release: str) -> str | None:
        """What a release that has no file stays booked at, in words; None if nothing is booked for it."""
        entries, total = [entry for entry in self.entries() if entry.release == release], self.total
        if not entries or entries[0].digest is not None:
            return None
        epsilon = _booked_release_as_json(release, entries, total)["epsilon"]
        return f"epsilon {epsilon:.4g} at delta {total.delta:g} stays booked for {self.table!r}"

    def largest_epsilon(self, after: Cost | None = None) -> float:
        """The largest epsilon, at the total's delta and relation, that one more release by Gaussian noise may have.

        It is rounded down, to four digits. `after` is what is yet to be booked, and counts as spent.
        """
        total, allowance, spent = self._books()
        return _largest_epsilon_left(total, allowance.less(spent + (after or Cost())))

    def problems(self) -> list[str]:
        """What is wrong with the books, in sentences; nothing, if all went through this program."""
        total, allowance, spent = self._books()
        wrong = []
        if not allowance.within(total.allowance.scaled(1 + Fraction(1, 10**6))):
            wrong.append(f"the total of {self.table!r} allows more than its epsilon and delta do")
        if not spent.within(allowance):
            wrong.append(f"the bookings of {self.table!r} pass its total")
        wrong += [
            f"booking {entry.id} counts less than its event costs"
            for entry in self.entries()
            if not total.cost(entry.event).within(entry.cost.scaled(1 + Fraction(1, 10**6)))
        ]
        together = Composed(tuple(convert_relation(entry.event, total.relation) for entry in self.entries()))
        wrong += [
            f"the bookings of {self.table!r} have no total: {leaf.reason}"
            for leaf in flatten(together)
            if isinstance(leaf, NotPrivate)
        ]
        same = self._same_table()
        return [*wrong, _untrue_totals_text(self.table, total, same)] if same and self.entries() else wrong

    def beside(self, connection: sqlite3.Connection | None = None) -> dict[str, str]:
        """Other totals of this file that have bookings, and their neighbours: none is true if they are of one table."""
        if connection is None:
            with _open_ledger(self.path) as opened:
                return self.beside(opened)
        booked = "EXISTS (SELECT 1 FROM bookings WHERE bookings.name = totals.name)"
        query = f"SELECT name, relation FROM totals WHERE name != ? AND {booked} ORDER BY name"
        return dict(connection.execute(query, (self.table,)).fetchall())

    def _same_table(self, connection: sqlite3.Connection | None = None) -> dict[str, str]:
        """Those of `beside` that are of this table by their names, as `_booked_table_stem` reads them."""
        others = self.beside(connection)
        return {name: others[name] for name in others if _booked_table_stem(name) == _booked_table_stem(self.table)}

    def fitting(self, relation: Relation) -> tuple[str, ...]:
        """The options of `rado ledger create` that replace this total by one for other neighbours.

        There are none once something is booked: totals of several relations say nothing about one table.
        """
        if self._same_table() or self._read("SELECT 1 FROM bookings WHERE name = ? LIMIT 1", self.table):
            return ()
        total = self.total
        delta = () if total.delta == _USUAL_DELTA else ("--delta", f"{total.delta:g}")
        return (
            "--table",
            self.table,
            "--epsilon",
            f"{total.epsilon:g}",
            *delta,
            "--relation",
            short_name_of_relation(relation),
        )

    def to_dict(self) -> dict[str, Any]:
        """The books as JSON data."""
        total, allowance, spent = self._books()
        left, entries = allowance.less(spent), self.entries()
        releases: dict[str, list[Entry]] = {}
        for entry in entries:
            releases.setdefault(entry.release, []).append(entry)
        return {
            "ledger": str(self.path),
            "table": self.table,
            "total": {
                "epsilon": total.epsilon,
                "delta": total.delta,
                "neighbours": total.relation.value,
                **_ledger_cost_as_floats(allowance),
            },
            "spent": _ledger_cost_as_floats(spent),
            "left": _ledger_cost_as_floats(left),
            "largest_epsilon": _largest_epsilon_left(total, left),
            "beside": self.beside(),
            "releases": [_booked_release_as_json(name, parts, total) for name, parts in releases.items()],
            "bookings": [entry.to_dict() for entry in entries],
        }

    def _books(self, connection: sqlite3.Connection | None = None) -> tuple[Filter, Cost, Cost]:
        """The total, what it allows, and what was spent of it."""
        if connection is None:
            with _open_ledger(self.path) as opened:
                return self._books(opened)
        (epsilon, delta, relation, *parts) = connection.execute(
            f"SELECT epsilon, delta, relation, {_COST} FROM totals WHERE name = ?", (self.table,)
        ).fetchone()
        rows = connection.execute(f"SELECT {_COST} FROM bookings WHERE name = ?", (self.table,))
        return (
            Filter(epsilon, delta, Relation(relation)),
            _cost_of_ledger_row(parts),
            sum(map(_cost_of_ledger_row, rows), Cost()),
        )

    def _n_releases(self, connection: sqlite3.Connection) -> int:
        """How many releases are booked; several bookings may belong to one."""
        query = "SELECT count(DISTINCT release) FROM bookings WHERE name = ?"
        return int(connection.execute(query, (self.table,)).fetchone()[0])

    def _cost(self, total: Filter, event: Event) -> Cost:
        """What an event takes of the total; one for other neighbours is refused with the command for its ledger."""
        try:
            convert_relation(event, total.relation)
        except ArgumentError:
            wanted = _relation_of_bookings(event)
        else:
            wanted = None
        if wanted is None or wanted is Relation.VALUE:
            return total.cost(event)  # or why there is none
        with _open_ledger(self.path) as connection:
            self._check_alone(connection)
        refused = (
            f"the total of {self.table!r} is for {total.relation.value}, and the release is for {wanted.value}, so it "
            "cannot be booked here; nothing was booked: "
        )
        if options := self.fitting(wanted):
            line = shlex.join(["rado", "ledger", "create", str(self.path), *options])
            raise ArgumentError(
                f"{refused}make the right one with {line}, which replaces this total: nothing is booked"
            )
        raise ArgumentError(
            f"{refused}this total has bookings, and is true only if every release of the table is about its "
            "neighbours; totals of several relations do not add up, so do not make a second one, but "
            f"{_options_within_total_text(total.relation, wanted, self._persons())}"
        )

    def _persons(self) -> str:
        """The column of persons that the books are about, as far as something is booked."""
        columns = {person_column_of_event(entry.event) for entry in self.entries()} - {None}
        return next(iter(sorted(filter(None, columns))), "COL")

    def _check_alone(self, connection: sqlite3.Connection) -> None:
        """Refuse bookings on two totals of one table, as far as their names tell."""
        if same := self._same_table(connection):
            raise BudgetError(
                f"{_untrue_totals_text(self.table, self._books(connection)[0], same)}; nothing was booked: go on with "
                f"one total, or, if {self.table!r} is another table with other people, set its total under another name"
            )

    def _check_claims(self, event: Event, connection: sqlite3.Connection) -> None:
        """Refuse persons by another column, or other labels, than those of any other booking (P7, M21)."""
        column, label, others = person_column_of_event(event), label_of_event(event), self._booked(connection)
        for booked in {person_column_of_event(other) for other in others} - {column}:
            raise BudgetError(
                f"the books of {self.table!r} are about persons by {booked!r}, and claims about persons by {column!r} "
                "do not add up with them, on this ledger or another; nothing was booked: take the same column"
            )
        for booked_label in {label_of_event(other) for other in others} - {label, None} if label is not None else ():
            raise BudgetError(_two_labels_on_ledger_text(self.table, booked_label or "", label or ""))

    def _check_records(self, event: Event, connection: sqlite3.Connection) -> None:
        """Refuse records that are lines beside ones that are rows (L6); which they are, only an open table tells."""
        records, others = records_of_event(event), map(records_of_event, self._booked(connection))
        for booked in set(others) - {records, None} if records else ():
            raise BudgetError(
                f"the books of {self.table!r} are about records that are {booked}, and claims about records that are "
                f"{records} do not add up with them, on this ledger or another; nothing was booked: take the same "
                '"records" in the schema'
            )

    def _booked(self, connection: sqlite3.Connection) -> list[Event]:
        rows = connection.execute("SELECT DISTINCT event FROM bookings WHERE name = ?", (self.table,))
        return [from_dict(json.loads(text)) for (text,) in rows]

    def _check_room(
        self, total: Filter, allowance: Cost, spent: Cost, wanted: Cost, n_releases: int = 0, what: str = _NOTHING
    ) -> None:
        after, left = spent + wanted, allowance.less(spent)
        if after.within(allowance):
            return
        name = next(name for name in _PARTS if getattr(after, name) > getattr(allowance, name))
        numbers = ", ".join(
            f"{float(getattr(cost, name)):.6g} {word}"
            for word, cost in (("in all", allowance), ("spent", spent), ("left", left), ("wanted", wanted))
        )
        why = "" if name == "mu_squared" else f" ({_PARTS[name]} {numbers})"
        raise BudgetError(
            f"the total of {self.table!r}, epsilon {total.epsilon:g} at delta {total.delta:g} for "
            f"{total.relation.value}, has no room for this{why}; {what}; spent: "
            f"{number_of_releases_text(n_releases)}; "
            f"{_advice_on_budget_part(name, _largest_epsilon_left(total, left), total)}"
        )

    def _read(self, query: str, *values: Any) -> list[Any]:
        with _open_ledger(self.path) as connection:
            return connection.execute(query, values).fetchall()


_PARTS = {"mu_squared": "mu squared", "delta0": "delta0", "total_variation": "total variation"}
_COST = ", ".join(_PARTS)


def _largest_epsilon_left(total: Filter, left: Cost) -> float:
    if left.mu_squared <= 0:
        return 0.0
    epsilon = epsilon_at(Gaussian(1 / sqrt(left.mu_squared), total.relation), total.delta)
    unit = 10.0 ** (floor(log10(epsilon)) - 3) if epsilon else 1.0
    return floor(epsilon * (1 - 1e-6) / unit) * unit


def _advice_on_budget_part(part: str, epsilon: float, total: Filter) -> str:
    if part == "delta0":
        return "a mechanism by Gaussian noise alone, such as moments, takes none of it"
    if part == "total_variation":
        return "what samplers may be off by is used up: a release of fewer columns takes less of it"
    if not epsilon:
        return "nothing more can be released"
    return f"room for one more of epsilon {epsilon:g} at most, at delta {total.delta:g}, for {total.relation.value}"


def number_of_releases_text(number: int) -> str:
    return f"{number:,} release{'' if number == 1 else 's'}"


def other_totals_text(others: dict[str, str]) -> str:
    """What is to be known of other totals in the file: whether they are about the same people, it cannot tell."""
    names = ", ".join(f"{name!r} ({neighbours})" for name, neighbours in others.items())
    return (
        f"bookings on {names} in this file do not count here: if that is the same table, or has the same people, none "
        "of these totals is true"
    )


def _booked_table_stem(name: str) -> str:
    """The name of a table without what earlier versions put behind it for a second total: -person, -record-2, ..."""
    while (stem := re.sub(rf"(.)(-2|-(?:{'|'.join(SHORT_NAMES)}))$", r"\1", name)) != name:
        name = stem
    return name


def _untrue_totals_text(table: str, total: Filter, same: dict[str, str]) -> str:
    """Why none of several totals of one table is true."""
    others = ", ".join(f"{name!r} ({relation})" for name, relation in same.items())
    return (
        f"by its name {table!r} ({total.relation.value}) is the table of {others}, where there are bookings too: a "
        "total is true only if everything that is released of its table is booked on it, and totals of several "
        "relations do not add up, so none of these is true"
    )


def _options_within_total_text(total: Relation, wanted: Relation, person: str) -> str:
    """Which options make a release that a total covers, instead of one that it does not."""
    words = []
    if wanted in OF_PERSONS and total not in OF_PERSONS:
        words.append("leave --person out (unit='record')")
    if total in OF_PERSONS and wanted not in OF_PERSONS:
        words.append(f"release only with --person {shlex.quote(f'{person}:K')} (unit=Person({person!r}, K))")
    if wanted in OF_LABELS and total not in OF_LABELS:
        words.append("leave --set unit=label out (unit='label')")
    if wanted is Relation.REPLACE:
        words.append("leave --set relation=replace out (relation='replace')")
    if wanted in _OF_CONTENT and total not in (*_OF_CONTENT, *OF_LABELS):
        words.append("take the mechanism moments (--mechanism moments, Moments)")
    return " and ".join(words)


def _relation_of_bookings(event: Event) -> Relation | None:
    """The neighbours that an event is about; None where its parts are about several."""
    relations = {leaf.relation for leaf in flatten(event)}
    return relations.pop() if len(relations) == 1 else None


def _booked_release_as_json(name: str, parts: list[Entry], total: Filter) -> dict[str, Any]:
    """What was booked for one release: by its bookings, and as one epsilon at the total's delta, rounded up."""
    mu_squared = float(sum((entry.cost for entry in parts), Cost()).mu_squared)
    epsilon = epsilon_at(Gaussian(1 / sqrt(mu_squared), Relation.RECORD), total.delta) if mu_squared > 0 else 0.0
    unit = 10.0 ** (floor(log10(epsilon)) - 3) if 0 < epsilon < inf else 1.0
    return {
        "release": name,
        "purpose": parts[0].purpose,
        "booked": parts[0].booked,
        "digest": parts[0].digest,
        "epsilon": ceil(epsilon * (1 - 1e-9) / unit) * unit if epsilon < inf else inf,
        "bookings": len(parts),
    }


def _two_labels_on_ledger_text(table: str, booked: str, wanted: str) -> str:
    """Why a claim about labels cannot be booked beside one about others, and what to do (M21)."""
    booked, wanted = (name if name.startswith('"') else "that nobody named" for name in (booked, wanted))
    return (
        f"the books of {table!r} are about labels {booked}, and claims about labels {wanted} do not add up with them, "
        "nor would they on another ledger; nothing was booked: protect records, which adds up with any label "
        "(unit='record', --set unit=record); only if it is the same label, declare it so: by its one name (of labels "
        "given apart that of a series, or label='NAME') and with the same classes"
    )


def ledger_table_names(path: str | os.PathLike[str]) -> list[str]:
    with _open_ledger(Path(path).absolute()) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM totals ORDER BY name")]


def glance_at_ledger(path: str | os.PathLike[str], most: int = 3) -> list[tuple[str, Filter, int]]:
    """The first tables of a ledger, their totals and how many bookings they have; for lists of files that nobody chose.

    Nothing is written or locked, no journal is played back, and what takes long is given up.
    """
    with _open_ledger(Path(path).absolute(), look=True) as connection:
        rows = connection.execute(
            "SELECT name, epsilon, delta, relation, (SELECT count(*) FROM bookings WHERE bookings.name = totals.name) "
            "FROM totals ORDER BY name LIMIT ?",
            (most,),
        ).fetchall()
    try:
        return [(str(row[0]), Filter(row[1], row[2], Relation(row[3])), row[4]) for row in rows]
    except (TypeError, ValueError):
        raise LedgerError(f"{path} is damaged; restore it from a copy, and book what is missing") from None


def short_name_of_relation(relation: Relation) -> str:
    """The short name of a relation, one of `SHORT_NAMES`."""
    return relation.name.lower().replace("_", "-")


def relation_by_name(relation: Relation | str) -> Relation:
    """A relation by its text or short name: record, replace, edge, label, person, person-rows or person-labels."""
    if isinstance(relation, str) and relation.lower() in SHORT_NAMES:
        return Relation[relation.upper().replace("-", "_")]
    match = next((choice for choice in Relation if choice == relation and choice != Relation.VALUE), None)
    if match is None:
        raise ArgumentError(f"relation must be one of {', '.join(SHORT_NAMES)}; it is {relation!r}")
    return match


def as_ledger(ledger: "Ledger | str | os.PathLike[str] | None") -> Ledger | None:
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        raise ArgumentError(f"ledger must be a Ledger or the path of one; it is a {type(ledger).__name__}")
    return Ledger(ledger)


# ---- the file


def _write_new_ledger(place: Path, insert: str, row: tuple[Any, ...]) -> bool:
    """Write a ledger with one total, unless there is a file already: all at once, so that no two writers meet."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)
        connection.execute(insert, row)
        content = connection.serialize()
    try:
        with place.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    except OSError as error:
        raise OutputError(f"cannot write {place}: {reason(error)}; choose another place") from None
    return True


@contextmanager
def _open_ledger(place: Path, look: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection for one piece of work: none is kept, so that a ledger can go to other processes and threads.

    A look only reads, in few steps, and as if nobody wrote.
    """
    if not os.path.isfile(place):
        raise LedgerError(f"there is no ledger {place}; make one with rado ledger create")
    if os.stat(place).st_nlink > 1:
        raise LedgerError(
            f"{place} has another name (a hard link), and two names have two journals, so that one may miss what the "
            "other booked; keep one name: remove the other, or replace it by a copy that nobody books on"
        )
    try:
        _check_ledger_header(place)
        if not look:
            _check_ledger_journal(place)
    except OSError as error:
        raise LedgerError(f"cannot use the ledger {place}: {reason(error)}; choose another file") from None
    try:
        with closing(_connect_ledger(place, look)) as connection:
            unknown = " AND ".join(["sql NOT LIKE ?"] * len(_KNOWN))
            if connection.execute(f"SELECT 1 FROM sqlite_master WHERE {unknown}", _KNOWN).fetchone():
                raise LedgerError(f"{place} has more than tables, and is not a ledger of radoboost; name another file")
            if not look and connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise LedgerError(f"{place} is damaged; restore it from a copy, and book what is missing")
            yield connection
    except sqlite3.OperationalError as error:
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        why = f"{os.strerror(errno.ENOSPC)}; make space there" if full else str(error)
        raise LedgerError(f"cannot use the ledger {place}: {why}") from None
    except sqlite3.IntegrityError as error:
        raise LedgerError(f"the ledger {place} refuses this: {error}") from None
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{place} is not a ledger of radoboost, or is damaged: {error}") from None


def _check_ledger_header(place: Path) -> None:
    """Refuse what is no ledger by its first bytes, before SQLite opens it: it acts on what lies beside a database."""
    with place.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_SQLITE) or int.from_bytes(head[68:72], "big") != _APPLICATION:
        raise LedgerError(f"{place} is not a ledger of radoboost, or is damaged; name another file")
    version = int.from_bytes(head[60:64], "big")
    if version != VERSION:
        raise LedgerError(f"{place}: unknown version: the ledger has {version}, not {VERSION}")


def _check_ledger_journal(place: Path) -> None:
    """Refuse a journal that is not this program's.

    One that ends with the magic names a super-journal, which SQLite deletes after playing it back: any file at all. One
    that is a link is written through. SQLite follows links to the database, and looks beside what they lead to.
    """
    base = os.path.realpath(place)
    for end in ("-wal", "-shm"):
        if os.path.lexists(base + end):
            raise LedgerError(f"there is {base + end}, and a ledger has no such file; find out who wrote it")
    journal = f"{base}-journal"
    try:
        status = os.lstat(journal)
        foreign = not stat.S_ISREG(status.st_mode) or status.st_nlink > 1
        if not foreign:
            with open(journal, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOURNAL)))
                foreign = file.read() == _JOURNAL
    except FileNotFoundError:
        return
    if foreign:
        raise LedgerError(f"{journal} names or is another file, which no journal of a ledger does; take it away")


def _connect_ledger(place: Path, look: bool = False) -> sqlite3.Connection:
    mode = "mode=ro&immutable=1" if look else "mode=rw"
    connection = sqlite3.connect(
        f"file:{quote(str(place))}?{mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    if look:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        connection.set_progress_handler(lambda: 1, _MOST_STEPS)
        return connection
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@contextmanager
def _ledger_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One write transaction: nobody else writes, or reads what they will write by, until it ends (L7)."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise


def _cost_of_ledger_row(row: Iterable[float]) -> Cost:
    return Cost(*map(Fraction, row))


def _ledger_cost_as_floats(cost: Cost) -> dict[str, float]:
    """A cost as floats; exact for one that was booked, for its numbers are floats' values."""
    return {name: float(getattr(cost, name)) for name in _PARTS}


def _quoted_table_names(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _time_of_booking() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
