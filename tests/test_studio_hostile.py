"""Files that somebody made to harm whoever lists or opens them: nothing is lost, nothing hangs, and pages stay."""

import json
import os
import sqlite3
import struct
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import radoboost as rb
from radoboost.errors import LedgerError, TableError
from radoboost.privacy.ledger import Ledger
from radoboost.studio.workspace import LEDGER, SCHEMA, TABLE, UNREADABLE, Folder
from radoboost.tables.raw_table import raw_column_types
from studio_pages import running

MAGIC = bytes.fromhex("d9d505f920a163d7")
ENDLESS = "WITH RECURSIVE r(name) AS (SELECT 1 UNION ALL SELECT name + 1 FROM r) SELECT name FROM r WHERE name < 0"


def hot_journal(ledger, victim):
    """A journal that names a file as its super-journal, which SQLite deletes once it was played back."""
    name = os.fsencode(victim)
    head = MAGIC + struct.pack(">IIIII", 0, 0, ledger.stat().st_size // 4096, 512, 4096)
    tail = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    ledger.with_name(f"{ledger.name}-journal").write_bytes(head.ljust(512, b"\0") + tail)


@pytest.fixture(params=["ledger", "database"])
def trap(request, tmp_path):
    """A ledger, or another database, with such a journal; and the file that it is about."""
    folder, victim = tmp_path / "folder", tmp_path / "precious.csv"
    folder.mkdir()
    victim.write_text("name,ill\nann,yes\n")
    place = folder / "x.ledger"
    if request.param == "ledger":
        Ledger.create(place, "patients", epsilon=1.0)
    else:
        connection = sqlite3.connect(place)
        connection.execute("CREATE TABLE t (a)")
        connection.close()
    hot_journal(place, victim)
    return place, victim


def test_no_list_plays_a_journal_back(trap):
    place, victim = trap
    before = {path.name: path.read_bytes() for path in place.parent.iterdir()}
    with running(place.parent) as client:
        assert client.enter().get("/")[0] == 200
    assert victim.exists() and {path.name: path.read_bytes() for path in place.parent.iterdir()} == before


@pytest.mark.parametrize("words", [("show", "x.ledger"), ("create", "x.ledger", "--table", "t", "--epsilon", "1")])
def test_no_command_plays_back_a_journal_that_names_another_file(trap, rado, words, monkeypatch):
    place, victim = trap
    monkeypatch.chdir(place.parent)
    code, _, told = rado("ledger", *words)
    assert victim.exists() and code == 1 and "x.ledger" in told and told.strip().count("\n") == 0


def test_the_journal_is_looked_for_where_a_link_leads(trap, tmp_path):
    place, victim = trap
    (tmp_path / "link.ledger").symlink_to(place)
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "link.ledger")
    assert victim.exists()


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_a_link_beside_a_ledger_is_not_written_through(tmp_path, end):
    ledger = Ledger.create(tmp_path / "x.ledger", "patients", epsilon=1.0)
    victim = tmp_path / "precious.bin"
    victim.write_bytes(bytes(4096))
    (tmp_path / f"x.ledger{end}").symlink_to(victim)
    with pytest.raises(LedgerError, match=end):
        ledger.finish("none", "none")
    assert victim.read_bytes() == bytes(4096)


def test_a_journal_of_a_booking_that_was_cut_off_is_still_played_back(tmp_path):
    place = tmp_path / "x.ledger"
    ledger = Ledger.create(place, "patients", epsilon=1.0)
    before = place.read_bytes()
    journal = tmp_path / "x.ledger-journal"
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA cache_spill = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        "INSERT INTO totals VALUES (?, 1, 1e-6, 'x', 1, 1, 1, 'x')", [(f"{k:0900}",) for k in range(99)]
    )
    halfway, written = place.read_bytes(), journal.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    assert halfway != before and written.startswith(MAGIC)
    place.write_bytes(halfway)
    journal.write_bytes(written)
    assert ledger.entries() == [] and place.read_bytes() == before and not journal.exists()


def endless(place, table):
    Ledger.create(place, "patients", epsilon=1.0)
    connection = sqlite3.connect(place)
    connection.execute(f"DROP TABLE {table}")
    connection.execute(f"CREATE VIEW {table} AS {ENDLESS}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("table", ["totals", "bookings"])
def test_an_endless_view_is_no_ledger(tmp_path, table):
    endless(tmp_path / "x.ledger", table)
    begin = time.monotonic()
    assert Folder(tmp_path).files() == []
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(tmp_path / "x.ledger")
    assert time.monotonic() - begin < 10


def test_a_list_gives_up_on_books_that_take_long(tmp_path, monkeypatch):
    Ledger.create(tmp_path / "x.ledger", "patients", epsilon=1.0)
    assert [found.kind for found in Folder(tmp_path).files()] == [LEDGER]
    monkeypatch.setattr("radoboost.privacy.ledger._MOST_STEPS", 5)
    assert Folder(tmp_path).files() == []


def test_shares_of_rows_are_not_offered_as_tables(tmp_path):
    for name, text in (("x.parquet", "[" * 100_000), ("y.parquet", "{}")):
        pq.write_table(pa.table({"a": [1, 2]}).replace_schema_metadata({"radoboost_share": text}), tmp_path / name)
    assert Folder(tmp_path).files() == []


def test_a_file_that_nobody_foresaw_is_listed_and_breaks_no_page(tmp_path, monkeypatch):
    (tmp_path / "good.csv").write_text("age,ill\n70,yes\n")
    (tmp_path / "bad.json").write_text("{}")

    def fail(place):
        raise ZeroDivisionError

    monkeypatch.setattr("radoboost.studio.workspace._json_file_facts", fail)
    assert [(found.name, found.kind) for found in Folder(tmp_path).files()] == [
        ("good.csv", TABLE),
        ("bad.json", UNREADABLE),
    ]
    with running(tmp_path) as client:
        status, _, page = client.enter().get("/")
    assert status == 200 and "Files that cannot be read" in page and "bad.json" in page


def test_lists_parse_no_table_and_no_long_json(tmp_path, monkeypatch):
    parsed = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text, **options: parsed.append(len(text)) or loads(text, **options))
    for name in ("x.csv", "x.tsv"):
        (tmp_path / name).write_text('{"radoboost_model": 1, "b": 2}\n')
    assert {found.kind for found in Folder(tmp_path).files()} == {TABLE} and parsed == []
    place = tmp_path / "x.json"
    place.write_text('{"radoboost_schema": 1}')
    monkeypatch.setattr("radoboost.studio.workspace._MOST_JSON", place.stat().st_size - 1)
    assert {found.name for found in Folder(tmp_path).files()} == {"x.csv", "x.tsv"} and parsed == []
    monkeypatch.setattr("radoboost.studio.workspace._MOST_JSON", place.stat().st_size)
    assert SCHEMA in {found.kind for found in Folder(tmp_path).files()}


def test_a_first_field_without_end_is_refused_in_one_line(tmp_path):
    place = tmp_path / "x.csv"
    place.write_text("a" * 2_200_000 + ",ill\n1,2\n")
    with pytest.raises(TableError, match=r"x\.csv: its header") as refusal:
        raw_column_types(str(place))
    assert "\n" not in str(refusal.value)
    with running(tmp_path) as client:
        assert client.enter().post("/holder", {"file": "x.csv"})[0] == 400


@pytest.mark.parametrize(("name", "value"), [("delta", "nan"), ("epsilon", -1.0)])
def test_a_promise_of_no_number_is_called_incomplete(tmp_path, name, value):
    plain = rb.craft({"a": [1.0, 2.0, 3.0, 4.0], "y": ["u", "v", "u", "v"]}, label="y", n_rados=8, seed=1)
    plain.save(tmp_path / "plain.rado.parquet")
    document = json.loads(pq.read_metadata(tmp_path / "plain.rado.parquet").metadata[b"radoboost"])
    document["statement"] |= {"epsilon": 1.0, "delta": 1e-6, name: value}
    table = pa.table({"a": [1]}).replace_schema_metadata({"radoboost": json.dumps(document)})
    pq.write_table(table, tmp_path / "x.rado.parquet")
    facts = {found.name: found.facts for found in Folder(tmp_path).files()}
    assert facts["x.rado.parquet"] == "its document is incomplete"
    assert "promises nothing" in facts["plain.rado.parquet"]


def test_a_schema_in_another_encoding_is_not_written_over(tmp_path):
    (tmp_path / "x.csv").write_text("age,ill\n70,yes\n")
    other = '{"radoboost_schema": 1, "columns": {"\xe9": 1}}'.encode("utf-16-le")
    (tmp_path / "x.json").write_bytes(other)
    cards = {"label": "1", "classes": "no\nyes", "c0-kind": "number", "c0-low": "0", "c0-high": "99"}
    with running(tmp_path) as client:
        way = client.enter().post("/holder", {"file": "x.csv"})[1]["Location"]
        client.post(way, {"label": "1"})
        client.post(way, cards)
        status, _, text = client.post(f"{way}/write", {**cards, "schema": "x.json"})
        assert status == 400 and "is there already" in text
        fields = {"label": "1", "how": "schema", "begin_with": client.file_id("x.json")}
        assert client.post(f"{way}/anew", fields)[0] == 400
    assert (tmp_path / "x.json").read_bytes() == other
