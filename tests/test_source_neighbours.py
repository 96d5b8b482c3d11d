"""Neighbouring tables look alike to private crafting wherever they live: queries, streams, folders, standard input.

The judge is that of `test_neighbours.py`. The types of an answer are declared, or its cells are Python objects that are
taken one by one; no value decides how another is read, nor whether a release comes out.
"""

import random
from io import BytesIO
from urllib.parse import quote

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from declared_forms import arrow_table, polars_declared
from looking import judge_pairs, judged, look
from neighbours import csv_lines
from radoboost.tables import queries
from radoboost.tables.queries import query
from radoboost.tables.spool import spool_bytes
from radoboost.tables.streams import spooled
from test_neighbours import draw

PAIRS = {"duckdb": 30, "objects": 80, "lazy frame": 60, "reader": 60, "standard input": 100, "folder": 15}


class Connection:
    """A database whose library returns any objects at all, three rows at a time."""

    description = (("a",), ("b",), ("y",))

    def __init__(self, records):
        self._records, self._place = records, 0

    def cursor(self):
        return self

    def execute(self, sql):
        self._place = 0

    def fetchmany(self, size):
        rows = self._records[self._place : self._place + 3]
        self._place += 3
        return [tuple(row) for row in rows]

    def close(self):
        pass


def in_duckdb(records, number):
    """A table with declared types: one column of numbers, one of texts, and labels as texts or as an enumeration."""
    connection = duckdb.connect()
    enumeration = "ENUM ('no', 'yes', '0', '1')" if number % 2 else "VARCHAR"
    connection.execute(f"CREATE TABLE t (a DOUBLE, b VARCHAR, y {enumeration})")
    rows = []
    for a, b, y in records:
        a = float(a) if isinstance(a, float | int) and abs(a) < 1e308 else None
        b = b.replace("\0", "?") if isinstance(b, str) else None if b is None else str(b)[:50]
        y = str(y) if str(y) in ("no", "yes", "0", "1") or (number % 2 == 0 and isinstance(y, str)) else None
        rows.append((a, b, None if y is None else y.replace("\0", "?")))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows) if rows else None
    return query(connection, "SELECT * FROM t")


def in_folders(records, folder):
    """A file for each record, in a folder that is called by its second cell."""
    for place, (a, b, y) in enumerate(records):
        home = folder / f"{place:03d}" / f"b={quote(str(b), safe='')}"
        home.mkdir(parents=True)
        (home / "t.csv").write_bytes(csv_lines([(a, y)]).replace(b"a,b,y", b"a,y", 1))
    return folder


def build(form, number, pair, records, folder):
    """One table of a pair, which can be looked at again and again; None if such records cannot be there."""
    odd = pair.place if pair.unit == "label" or records is pair.long else None
    rng = random.Random(f"{form} {number}")
    if form == "reader":
        table = arrow_table(pair, records, f"{form} {number}", False)
        return spooled(table.to_reader(max_chunksize=rng.choice((1, 3, 50))), row_by_row=True)
    if form == "standard input":
        return [spool_bytes("standard input", "csv", BytesIO(csv_lines(records)))]
    if form == "objects":
        return query(Connection(records), "SELECT")
    try:  # what a library does not take is no table
        if form == "folder":
            return in_folders(records, folder) if records else None
        made = in_duckdb(records, number) if form == "duckdb" else polars_declared(records, odd, f"{form} {number}")
    except (ValueError, TypeError, OSError, duckdb.Error, pl.exceptions.PolarsError):
        return None
    return spooled(made if form == "duckdb" else made.lazy(), row_by_row=True)


def compared(form, number, folder):
    """What differs between the two tables of a pair; None where there is no such pair of tables."""
    pair, classes, rng = draw(form, number)
    tables = [build(form, number, pair, r, folder / f"{number}-{k}") for k, r in enumerate((pair.long, pair.short))]
    if any(table is None for table in tables):
        return None
    engine = rng.choice(("kernel", "reference"))
    looks = [lambda t=table: look(t, engine=engine, classes=classes) for table in tables]
    return judged(looks, pair.place, pair.unit)[0]


@pytest.mark.parametrize("form", PAIRS)
def test_neighbours_look_alike(form, tmp_path):
    judge_pairs(lambda number: compared(form, number, tmp_path), PAIRS[form], 3 * PAIRS[form])


def test_a_type_by_all_objects_is_found(tmp_path, monkeypatch):
    """Planted: objects as Arrow would take them, where one text makes texts of numbers, or stops everything."""
    monkeypatch.setattr(queries, "spelled_objects", lambda cells: pa.array(cells).cast(pa.large_string()))
    found = [compared("objects", number, tmp_path) for number in range(20)]
    assert any(found)
