"""Neighbouring tables look alike to private crafting wherever they live: queries, streams, folders, standard input.

The judge is that of `test_neighbours.py`. The types of an answer are declared, or its cells are Python objects that are
taken one by one; no value decides how another is read, nor whether a release comes out.
"""

import os
import random
import sqlite3
from io import BytesIO
from urllib.parse import quote

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from declared_forms import arrow_table, polars_declared
from looking import judge_pairs, judged, look
from neighbours import csv_lines
from radoboost import Category, Number, Schema
from radoboost.errors import RadoError
from radoboost.tables import databases, folders, open_table, streams
from radoboost.tables.databases import query
from radoboost.tables.streams import spool_bytes, spool_stream
from test_neighbours import draw

PAIRS = {"duckdb": 12, "objects": 30, "lazy frame": 25, "reader": 25, "standard input": 40, "folder": 8}


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
        return spool_stream(table.to_reader(max_chunksize=rng.choice((1, 3, 50))), row_by_row=True)
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
    return spool_stream(made if form == "duckdb" else made.lazy(), row_by_row=True)


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
    monkeypatch.setattr(databases, "spell_undeclared_objects", lambda cells: pa.array(cells).cast(pa.large_string()))
    found = [compared("objects", number, tmp_path) for number in range(20)]
    assert any(found)


# ---- one record that a library cannot read, that has a folder of its own, or that would change types of others

ROWS = [(k % 7, k % 30, "yes" if k % 3 else "no") for k in range(40)]


class Marked(pa.ExtensionType):
    """A type whose cells are words of a dictionary."""

    def __init__(self):
        super().__init__(pa.dictionary(pa.int32(), pa.string()), "test.marked")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def not_utf8(odd, folder):
    """A text in sqlite3 that is none, in a column that counts and in one that nobody declared."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a, b, y, note)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, 'n')", ROWS)
    if odd:
        connection.execute("INSERT INTO t VALUES (3, CAST(x'c328' AS TEXT), 'yes', CAST(x'c3284a6f' AS TEXT))")
    return query(connection, "SELECT * FROM t")


def other_words(odd, folder):
    """A reader of batches with one dictionary, within another type, but for the one that a record has made."""
    batches = []
    for place, (a, b, y) in enumerate([*ROWS, *([(3, 7, "yes")] if odd else [])]):
        words = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["word" if place < len(ROWS) else "other"])
        columns = [pa.array([a]), pa.array([b]), pa.array([y]), pa.ExtensionArray.from_storage(Marked(), words)]
        batches.append(pa.RecordBatch.from_arrays(columns, ["a", "b", "y", "note"]))
    return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


def parquet_files(odd, folder):
    """Whole numbers in one file, and floats in another, which all are whole but for that of a record."""
    folder.mkdir(parents=True)
    columns = dict(zip("aby", map(list, zip(*ROWS[:-1], strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "1.parquet")
    last = {"a": [1.0, 1.5], "b": [1, 2], "y": ["no", "yes"]}
    pq.write_table(pa.table({name: cells if odd else cells[:1] for name, cells in last.items()}), folder / "2.parquet")
    return folder


def below(odd, folder):
    """A dataset in a file system that begins further down."""
    return ds.dataset(
        parquet_files(odd, folder).name, filesystem=SubTreeFileSystem(str(folder.parent), LocalFileSystem())
    )


def united(odd, folder):
    """A union of two datasets, one for each file."""
    files = sorted(parquet_files(odd, folder).iterdir())
    first = ds.dataset(files[0])
    return ds.UnionDataset(first.schema, [first, ds.dataset(files[1], schema=first.schema)])


def folder_bytes(odd, folder):
    """Folders with names of bytes, one of which is no text, and one of which has no text for a column."""
    for name in (b"b=3", *((b"b=\xff/\xfe=1",) if odd else ())):
        place = os.path.join(os.fsencode(folder), name)
        os.makedirs(place)
        rows = [(a, y) for a, _, y in ROWS] if name == b"b=3" else [(3, "yes")]
        with open(os.path.join(place, b"t.csv"), "wb") as file:
            file.write(csv_lines(rows).replace(b"a,b,y", b"a,y", 1))
    return folder


def folder_texts(odd, folder):
    """A dataset with a folder whose name pyarrow takes for the number 31, unless another is called by no number."""
    for name in ("0x1F", *(("x",) if odd else ())):
        (folder / f"b={name}").mkdir(parents=True)
        rows = ROWS if name == "0x1F" else [(3, 0, "yes")]
        columns = {"a": [a for a, _, _ in rows], "y": [y for _, _, y in rows]}
        pq.write_table(pa.table(columns), folder / f"b={name}" / "t.parquet")
    return ds.dataset(folder, partitioning="hive")


CATEGORIES = Schema({"a": Number(-2, 12.5), "b": Category(("0x1F", "8"))}, "y", ("no", "yes"))
ODD_ONES = {
    not_utf8: (databases, "_fetch_sqlite_rows", databases._fetch_cursor_rows),
    other_words: (streams, "_is_unnested_type", lambda kind: True),
    parquet_files: None,
    lambda odd, folder: ds.dataset(parquet_files(odd, folder)): (streams, "_KINDS", {}),
    below: (streams, "_KINDS", {}),
    united: (streams, "_KINDS", {}),
    folder_bytes: (folders, "_is_utf8_folder_name", lambda name: True),
    folder_texts: (
        streams,
        "_dataset_folder_values",
        lambda place, keys, _: {k: str(v) for k, v in ds.get_partition_keys(keys).items()},
    ),
}


def odd_one(table, folder):
    """What differs where one record is odd, and what was seen with it."""
    numbers = iter(range(99))
    schema = CATEGORIES if table is folder_texts else None
    return judged(
        [lambda odd=odd: look(table(odd, folder / str(next(numbers))), schema=schema) for odd in (True, False)],
        len(ROWS),
        "record",
    )


@pytest.fixture
def marked():
    pa.register_extension_type(Marked())
    yield
    pa.unregister_extension_type("test.marked")


@pytest.mark.parametrize("table", ODD_ONES)
def test_a_record_that_is_odd_to_a_library(table, tmp_path, marked, monkeypatch):
    found, seen = odd_one(table, tmp_path / "found")
    assert found == [] and seen.refusal is None and all(len(rows) == len(ROWS) + 1 for rows in seen.rows.values())
    if ODD_ONES[table] is not None:  # planted: without what is done about it, it is seen
        monkeypatch.setattr(*ODD_ONES[table])
        if ODD_ONES[table][1] == "_KINDS":  # rows as pyarrow would give them
            monkeypatch.setattr("radoboost.tables.streams._ONLY_FILES", "")
            with pytest.raises(Exception, match=r"1\.5"):
                streams.dataset_reader(table(True, tmp_path / "planted")).read_all()
            streams.dataset_reader(table(False, tmp_path / "short")).read_all()
        else:
            assert odd_one(table, tmp_path / "planted")[0]


def test_the_connection_is_as_it_was():
    """Its texts are decoded as the caller wants, where they can be, and it is changed only while rows are fetched."""
    asked = not_utf8(True, None)
    given = asked.source.text_factory = lambda text: text.decode().upper()
    with asked.opened(row_by_row=True) as answer:
        assert asked.source.text_factory is given
        rows = pa.Table.from_batches(answer.batches).to_pylist()
    assert asked.source.text_factory is given
    assert rows[0]["y"] == "NO" and rows[-1]["note"] == "\0bytes"
    with pytest.raises(Exception, match="can't decode"), asked.opened() as answer:
        list(answer.batches)


@pytest.mark.parametrize("make", [
    lambda d, f: ds.dataset(f / "t.csv", format="csv"),
    lambda d, f: ds.dataset(f / "t.csv", format="csv").scanner(),
    lambda d, f: ds.dataset([ds.dataset(f / "t.csv", format="csv")] * 2),
    lambda d, f: ds.dataset([d, ds.dataset(f / "t.csv", format="csv", schema=d.schema)]),
    lambda d, f: d.scanner(), lambda d, f: d.filter(ds.field("a") >= 0),
    lambda d, f: ds.dataset([d, d]).filter(ds.field("a") >= 0),
    lambda d, f: d.replace_schema(pa.schema([("a", pa.int64()), ("y", pa.string())])),
    lambda d, f: ds.dataset(f, partitioning=["place"], format="parquet", exclude_invalid_files=True),
    lambda d, f: ds.dataset(pa.table({"a": [1], "b": [1], "y": ["no"]})),
    lambda d, f: ds.FileSystemDataset([next(d.get_fragments()).subset(row_group_ids=[])], d.schema, d.format,
                                      d.filesystem),
])  # fmt: skip
@pytest.mark.parametrize("odd", [False, True])
def test_datasets_that_are_more_than_files_are_refused_whatever_is_in_them(make, odd, tmp_path):
    dataset = ds.dataset(parquet_files(odd, tmp_path / "p"))
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,no\n" + ("n/k,1,yes\n" if odd else ""))
    with pytest.raises(RadoError, match="whole Parquet or Arrow files"):
        open_table(make(dataset, tmp_path), label="y", row_by_row=True)


def test_arrow_datasets_are_files(tmp_path):
    table = pa.table({"a": [1, 2], "b": [3, 4], "y": ["no", "yes"]})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    assert [os.fspath(file) for file in spool_stream(ds.dataset(tmp_path, format="ipc"), row_by_row=True)] == [
        str(tmp_path / "t.arrow")
    ]


def late_csv(folder, word):
    """A CSV file in which a word comes behind what libraries look at to guess types."""
    (folder / "t.csv").write_text("a,b,y\n" + "0.125000,1,no\n" * 100_000 + f"{word},1,yes\n")
    return folder / "t.csv"


@pytest.mark.parametrize("make", [
    pl.scan_csv, pa.csv.open_csv, lambda path: f"duckdb:?SELECT * FROM '{path}'",
    lambda path: duckdb.connect().read_csv(str(path)),
    lambda path: query(Connection([(1, 2, "no"), Unreadable()]), "SELECT"),
])  # fmt: skip
def test_a_value_that_cannot_be_read_is_in_no_message(make, tmp_path):
    lines = set()
    for word in ("kestrel", "n/k"):
        with pytest.raises(RadoError) as failure:
            open_table(make(late_csv(tmp_path, word)), label="y", row_by_row=True)
        lines.add(str(failure.value))
    (line,) = lines
    assert "not shown" in line and "kestrel" not in line and "200" not in line


class Unreadable:
    """A row that a library stops at."""

    def __iter__(self):
        raise ValueError("row 200: kestrel")
