"""The same rows from wherever a table lives give the same release, to the last bit, and nothing is left behind."""

import gzip
import io
import json
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import duckdb
import numpy as np
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import flat
import radoboost as rb
from postgres import postgres_server, server_binaries
from radoboost.cli import app
from radoboost.holder.table_check import check_table
from radoboost.learner.predict import predict_table
from radoboost.progress import no_progress
from radoboost.tables import open_table, streams
from radoboost.tables.databases import query
from radoboost.tables.streams import StandardInput, spool_for_rereading
from radoboost.tables.urls import mask_database_errors, mask_passwords, url_stem

NOISE = b"\7" * 32
SCHEMA = rb.Schema(
    {
        "age": rb.Number(0, 120),
        "dose": rb.Number(-4, 4, fill=0, gaps=True),
        "ward": rb.Category(("A", "B", "C"), gaps=True),
        "smokes": rb.Number(0, 1),
        "seen": rb.Date(low="2020-01-01", high="2030-01-01"),
        "year": rb.Number(2000, 2030),
    },
    "ill",
    ("no", "yes"),
)


def clinic_rows(n_rows, seed=0):
    """A table with numbers, gaps, texts, truth values, dates, sorted by the column `year`."""
    rng = np.random.default_rng(seed)
    dose = [None if k % 5 == 2 else float(value) for k, value in enumerate(rng.normal(size=n_rows))]
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 120, n_rows), pa.int64()),
            "dose": pa.array(dose, pa.float64()),
            "ward": pa.array([None if k % 7 == 3 else "ABC"[k % 3] for k in range(n_rows)], pa.string()),
            "smokes": pa.array(rng.random(n_rows) < 0.5, pa.bool_()),
            "seen": pa.array([18262 + 31 * (k % 100) for k in range(n_rows)], pa.int32()).cast(pa.date32()),
            "year": pa.array([2020 + 4 * k // n_rows for k in range(n_rows)], pa.int64()),
            "ill": pa.array(rng.choice(["no", "yes"], n_rows), pa.string()),
        }
    )


def numbers_only(table):
    """Columns of numbers without gaps."""
    return table.select(["age", "year"]).append_column("ill", table.column("ill"))


@pytest.fixture(scope="session")
def server():
    binaries = server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql")
    with postgres_server(binaries) as address:
        yield address


# ---- forms that a table can have


def as_parquet(table, folder):
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def as_csv(table, folder):
    pa.csv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def as_folder(table, folder):
    """Files in folders of years, two in each, as other programs write them."""
    root = folder / "t"
    for year in table.column("year").unique().to_pylist():
        some = table.filter(pa.compute.equal(table.column("year"), year)).drop("year")
        (root / f"year={year}").mkdir(parents=True)
        cut = len(some) // 2
        for number, piece in enumerate((some.slice(0, cut), some.slice(cut))):
            if len(piece):
                pq.write_table(piece, root / f"year={year}" / f"part-{number}.parquet")
    (root / "_SUCCESS").touch()
    (root / ".part-0.parquet.crc").write_bytes(b"x")
    return root


def as_database(table, folder):
    connection = duckdb.connect(str(folder / "t.duckdb"))
    connection.register("rows", table)
    connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    connection.close()
    return f"duckdb:{folder / 't.duckdb'}?SELECT * FROM visits"


def as_relation(table, folder):
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql("SELECT * FROM rows")


def as_sqlite(table, folder):
    connection = sqlite3.connect(":memory:")
    names = ", ".join(table.column_names)
    connection.execute(f"CREATE TABLE visits ({names})")
    rows = [tuple(str(c) if hasattr(c, "isoformat") else c for c in row.values()) for row in table.to_pylist()]
    connection.executemany(f"INSERT INTO visits VALUES ({', '.join('?' * len(table.column_names))})", rows)
    return query(connection, "SELECT * FROM visits ORDER BY rowid")


def as_input(form):
    def fed(table, folder):
        """Standard input in one of its formats."""
        sink = io.BytesIO()
        if form == "parquet":
            pq.write_table(table, sink)
        elif form == "arrow":
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            pa.csv.write_csv(table, sink)
        sys.stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(sink.getvalue())), isatty=lambda: False)
        return StandardInput()

    return fed


FORMS = {
    "folder": as_folder,
    "pattern": lambda table, folder: str(as_folder(table, folder) / "**" / "*.parquet"),
    "dataset": lambda table, folder: ds.dataset(as_folder(table, folder), partitioning="hive", format="parquet"),
    "filtered dataset": lambda table, folder: ds.dataset(as_parquet(table, folder)).filter(ds.field("age") >= 0),
    "scanner": lambda table, folder: ds.dataset(as_parquet(table, folder)).scanner(),
    "duckdb address": as_database,
    "duckdb in memory": lambda table, folder: f"duckdb:?SELECT * FROM '{as_parquet(table, folder)}'",
    "duckdb relation": as_relation,
    "sqlite": as_sqlite,
    "lazy frame": lambda table, folder: pl.scan_parquet(as_parquet(table, folder)),
    "reader": lambda table, folder: table.to_reader(max_chunksize=7),
    "categories": lambda table, folder: table.set_column(2, "ward", table.column("ward").dictionary_encode()).to_reader(
        max_chunksize=9
    ),
    "stdin parquet": as_input("parquet"),
    "stdin arrow": as_input("arrow"),
    "stdin csv": as_input("csv"),
}


def plain(table, **options):
    """A plain release by a declared schema, with signatures that are known."""
    return flat.craft(table, schema=SCHEMA, n_rados=12, seed=3, **options)


def private(table, mechanism=None):
    """A private release under a noise key that is known."""
    return rb.craft(table, schema=SCHEMA, mechanism=mechanism or rb.Moments(5.0), columns="linear")


def bits(release):
    return {name: rows.tobytes() for name, rows in release.blocks.items()}


def n_files():
    """How many spools lie in the temporary folder, and how many files this process has open that nobody can name."""
    gone = 0
    for file in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            gone += os.readlink(f"/proc/self/fd/{file}").endswith("(deleted)")
    return len(list(Path(tempfile.gettempdir()).glob("radoboost-*"))), gone


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch, tmp_path_factory):
    """Another process's spools are not taken for what a test leaves."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def one_noise(monkeypatch):
    """Every private release draws the same noise."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: NOISE[:size])


@pytest.fixture
def kept_input():
    """Whatever is done to standard input is undone."""
    before = sys.stdin
    yield
    sys.stdin = before


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_give_the_same_bits(form, tmp_path, one_noise, kept_input):
    table = clinic_rows(200)
    path = as_parquet(table, tmp_path)
    before = n_files()
    for number, release in enumerate((plain, private)):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = FORMS[form](table, folder)
        if release is private and form in ("filtered dataset", "scanner"):
            with pytest.raises(rb.TableError, match="pass the paths of the files"):
                release(rows)
            continue
        expected, found = release(path), release(rows)
        assert bits(found) == bits(expected)
        assert found.columns == expected.columns and found.classes == expected.classes
    assert n_files() == before


@pytest.mark.parametrize("form", ["folder", "sqlite", "stdin csv"])
def test_numbers_need_no_schema_from_anywhere(form, tmp_path, kept_input):
    table = numbers_only(clinic_rows(90))
    expected = rb.craft(as_parquet(table, tmp_path), label="ill", n_rados=9, seed=1)
    (tmp_path / "other").mkdir()
    options = {"features": ["age", "year"], "label": "ill", "n_rados": 9, "seed": 1}
    assert bits(flat.craft(FORMS[form](table, tmp_path / "other"), **options)) == bits(expected)


@settings(max_examples=6)
@given(n_rows=st.integers(4, 60), seed=st.integers(0, 99), chunk=st.integers(1, 70))
def test_rows_of_any_number_and_cut(n_rows, seed, chunk):
    table = clinic_rows(n_rows, seed)
    with tempfile.TemporaryDirectory() as place:
        path = as_parquet(table, Path(place))
        expected = bits(plain(path))
        for other in (
            table.to_reader(max_chunksize=chunk),
            pl.LazyFrame(table.to_pydict(), schema_overrides={"dose": pl.Float64, "ward": pl.String}),
            f"duckdb:?SELECT * FROM '{path}'",
            as_folder(table, Path(place)),
        ):
            assert bits(plain(other)) == expected


# ---- PostgreSQL


def filled(server, table):
    """The table in the server, with types as a database has them."""
    with psycopg.connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS visits")
        connection.execute(
            "CREATE TABLE visits (n serial, age int, dose double precision, ward text, smokes boolean, seen date, "
            "year numeric(6, 0), ill varchar(3))"
        )
        names = ", ".join(table.column_names)
        with connection.cursor().copy(f"COPY visits ({names}) FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return f"SELECT {names} FROM visits ORDER BY n"


def test_postgresql_gives_the_same_bits(server, tmp_path, one_noise):
    import adbc_driver_postgresql.dbapi

    table = clinic_rows(110, 1)
    sql, path = filled(server, table), as_parquet(table, tmp_path)
    for release in (plain, private):
        expected = bits(release(path))
        assert bits(release(query(server, sql))) == expected
        with adbc_driver_postgresql.dbapi.connect(server) as connection:
            assert bits(release(query(connection, sql))) == expected
        for autocommit in (False, True):
            with psycopg.connect(server, autocommit=autocommit) as connection:
                assert bits(release(query(connection, sql))) == expected
    numbers = rb.craft(as_parquet(numbers_only(table), tmp_path), label="ill", n_rados=9, seed=1)
    for source in (server, psycopg.connect(server)):  # `numeric` comes as texts, or as decimals
        found = rb.craft(query(source, "SELECT age, year, ill FROM visits ORDER BY n"), label="ill", n_rados=9, seed=1)
        assert bits(found) == bits(numbers)
    source.close()


def test_postgresql_on_the_command_line(server, rado, tmp_path):
    sql = filled(server, clinic_rows(50))
    code, _, errors = rado("craft", f"{server}?{sql}", "-l", "ill", "--seed", 1, "-q")
    assert (code, errors) == (0, "")
    assert Path("postgres.rado.parquet").exists()
    text = Path("postgres.rado.parquet").read_bytes()
    assert b"SELECT" not in text and b"postgresql:" not in text


def test_a_server_that_goes_away_halfway(server, rado, tmp_path):
    before = n_files()
    sql = (
        "SELECT g AS age, CASE WHEN g = 90000 THEN pg_terminate_backend(pg_backend_pid()) END AS x, g % 2 AS ill "
        "FROM generate_series(1, 200000) g"
    )
    code, out, errors = rado("craft", f"{server}?{sql}", "-l", "ill")
    assert code == 1 and out == "" and errors.startswith("rado: the query failed: ") and errors.count("\n") == 1
    assert not list(Path().iterdir()) and n_files() == before
    with psycopg.connect(server) as connection, pytest.raises(rb.TableError, match=r"the query failed: .*terminat"):
        rb.craft(query(connection, sql), label="ill")
    assert n_files() == before


def test_an_address_is_opened_for_reading_only(server):
    filled(server, clinic_rows(5))
    with pytest.raises(rb.TableError, match="read-only transaction"):
        rb.craft(query(server, "DELETE FROM visits RETURNING age, ill"), label="ill")


# ---- every verb takes every form


@pytest.mark.filterwarnings("ignore:a table is scored privately")
@pytest.mark.parametrize("form", ["folder", "duckdb address", "lazy frame", "stdin csv"])
def test_all_verbs_take_it(form, tmp_path, kept_input, one_noise):
    table, numbers = clinic_rows(120), iter(range(99))
    path = as_parquet(table, tmp_path)

    def again():
        folder = tmp_path / f"again{next(numbers)}"
        folder.mkdir()
        return FORMS[form](table, folder)

    before = n_files()
    names = list(rb.schema_template(again(), "ill").columns)
    assert names == [name for name in table.column_names if name != "ill"] or form in ("folder", "dataset")
    assert sorted(names) == sorted(name for name in table.column_names if name != "ill")
    proposal = rb.propose_schema(again(), "ill").columns
    assert {name: kind.kind for name, kind in proposal.items()} == {
        name: kind.kind for name, kind in rb.propose_schema(path, "ill").columns.items()
    }
    assert check_table(again(), schema=SCHEMA).to_dict() == check_table(path, schema=SCHEMA).to_dict()
    model = rb.MomentsClassifier().fit_rados(plain(path)).model_
    scores = [rb.score(model, rows, label="ill", epsilon=1.0).errors for rows in (again(), path)]
    assert scores[0] == scores[1]
    written = []
    for rows in (again(), path):
        with no_progress() as bar:
            predict_table(model, rows, tmp_path / "scores.parquet", bar, label="ill", keep=["year", "ward"])
        written.append(pq.read_table(tmp_path / "scores.parquet"))
    assert [str(cell) for cell in written[0].column("year").to_pylist()] == [
        str(cell) for cell in written[1].column("year").to_pylist()
    ]
    assert written[0].drop("year").to_pydict()["score"] == written[1].to_pydict()["score"]
    assert (model.predict(again()) == model.predict(path)).all()
    assert n_files() == before


def test_labels_beside_a_stream(tmp_path):
    table = numbers_only(clinic_rows(30))
    labels = table.column("ill").to_pylist()
    rows = table.drop("ill")
    expected = bits(rb.craft(rows, labels, n_rados=5, seed=1))
    assert bits(rb.craft(rows.to_reader(), labels, n_rados=5, seed=1)) == expected
    assert bits(rb.craft(pl.from_arrow(rows).lazy(), labels, n_rados=5, seed=1)) == expected


# ---- folders


def test_what_a_folder_may_hold(tmp_path):
    root = as_folder(numbers_only(clinic_rows(40)), tmp_path)
    source = open_table(root, label="ill", row_by_row=True)
    assert source.features == ("age", "year")
    (root / "_delta").mkdir()
    (root / "_delta" / "notes.json").touch()
    assert open_table(root, label="ill").n_rows == 40
    (root / "more.csv").write_text("age,ill\n1,no\n")
    with pytest.raises(rb.TableError, match="several kinds"):
        open_table(root, label="ill")
    (root / "more.csv").rename(root / "more.json")
    with pytest.raises(rb.TableError, match=r"more\.json: unknown kind of file"):
        open_table(root, label="ill")
    (root / "more.json").unlink()
    (root / "_delta_log").mkdir()
    with pytest.raises(rb.TableError, match="Delta"):
        open_table(root, label="ill")
    (tmp_path / "empty").mkdir()
    with pytest.raises(rb.TableError, match="a folder without table files"):
        open_table(tmp_path / "empty", label="ill")


def test_folders_that_say_nothing_or_odd_things(tmp_path):
    for name in ("site=A%2FB", "site=__HIVE_DEFAULT_PARTITION__", "site=7"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text("age,ill\n1,no\n2,yes\n")
    schema = rb.Schema({"age": rb.Number(0, 9), "site": rb.Category(("A/B", 7), gaps=True)}, "ill", ("no", "yes"))
    for private in (False, True):
        source = open_table(tmp_path, label="ill", schema=schema, row_by_row=private)
        values = np.vstack([batch.values() for batch in source.batches()])
        assert values[:, 1:].tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]
        assert next(batch.place(1) for batch in source.batches()).endswith("t.csv")


# ---- the statement


def test_the_statement_of_a_query_says_what_voids_it(tmp_path, kept_input):
    table = clinic_rows(60)
    path = as_parquet(table, tmp_path)
    kept_by_others = (table.to_reader(), pa.csv.open_csv(as_csv(table, tmp_path)), as_input("csv")(table, tmp_path))
    asked = (f"duckdb:?SELECT * FROM '{path}'", as_relation(table, tmp_path), pl.scan_parquet(path))
    for rows in (*asked, *kept_by_others, as_relation(table, tmp_path).limit(50).to_arrow_reader()):
        text = " ".join(private(rows).statement.not_protected)
        for word in ("aggregates", "windows", "joins that repeat", "LIMIT", "sampling", "casts that fail", "guesses"):
            assert word in text
        assert "a stream that another program made" in text and "values that a library cannot read" in text
    for rows in (path, table, ds.dataset(path)):
        assert "LIMIT" not in " ".join(private(rows).statement.not_protected)
    assert "LIMIT" not in " ".join(plain(f"duckdb:?SELECT * FROM '{path}'").statement.not_protected)  # no promise


def test_no_query_and_no_password_is_in_a_release_or_a_message(tmp_path):
    rows = query(duckdb.connect(), "SELECT 4711 AS age, 'no' AS ill UNION ALL SELECT 12, 'yes'")
    release = rb.craft(rows, label="ill", n_rados=3)
    release.save(tmp_path / "r.rado.parquet")
    assert b"UNION" not in (tmp_path / "r.rado.parquet").read_bytes()
    address = "postgresql://ann:se%63ret!@localhost:1/db?password=other1"
    for act in (
        lambda: rb.craft(query(address, "SELECT 1"), label="y"),
        lambda: rb.craft(address, label="y"),
        lambda: rb.craft("mysql://ann:se%63ret!@h/db", label="y"),
        lambda: query("mysql://ann:se%63ret!@h/db?password=other1", "SELECT 1"),
    ):
        with pytest.raises(rb.RadoError) as failure:
            act()
        assert "ret!" not in str(failure.value) and "other1" not in str(failure.value)
    assert "ret!" not in repr(query(address, "SELECT 1")) and "SELECT" not in repr(query(address, "SELECT 1"))


NASTY = (
    *("my secret", "p@ss", "pa/ss", "xy:zz:cde", "qx's&zo", "100%pure", "s?cret#99", "se%63ret", "xpassword=qed"),
    *("[::9]zz", "two  gaps", "@@", "'quo ted'", "4711"),
)


def said(password, line):
    """Whether a line has a password, or one of two characters or more that stand between its separators."""
    words = {password, unquote(password), *(word for word in re.split(r"\W+", password) if len(word) > 1)}
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line) for word in words)


WHERE = (
    "postgresql://ann:{}@localhost:1/db", "postgresql://ann:{}@", "postgresql://ann@corp:{}@localhost:1/db",
    "postgresql://localhost:1/db?user=ann&password={}", "postgresql://localhost:1/db?p%61ssword={}&sslmode=disable",
    "postgresql://ann:{}", "postgresql://localhost:1/db?password%3D{}", "mysql://ann:{}@h/db",
    "postgresql:/ann:{}@h/db",
)  # fmt: skip


# Every password in the usual place and in another one, and one password in every place.
@pytest.mark.parametrize(("form", "password"), [
    *((WHERE[0], password) for password in NASTY),
    *((WHERE[1 + k % 8], password) for k, password in enumerate(NASTY)),
    *((form, "pa/ss") for form in WHERE[1:]),
])  # fmt: skip
def test_no_piece_of_a_nasty_password_is_said(form, password, rado):
    if form.endswith("ann:{}") and password in ("p@ss", "4711"):
        return  # without a host behind it, this is a host or a port
    address = form.format(password)
    lines = [mask_passwords(address), mask_passwords(f"no host: {address} is not there"), url_stem(address)]
    private = {"mechanism": rb.Moments(1.0), "classes": (0, 1), "bounds": {"a": (0, 1)}}
    for act in (
        lambda: lines.append(repr(query(address, "SELECT 1"))),
        lambda: rb.craft(address, label="y"),
        lambda: rb.craft(query(address, "SELECT 1 AS y"), label="y"),
        lambda: flat.craft(query(address, "SELECT 1 AS y"), label="y", **private),
    ):
        try:
            act()
        except rb.RadoError as error:
            lines.append(str(error))
    lines += [fails(rado, "craft", f"{address}{words}", "-l", "y") for words in ("", "?SELECT 1 AS y")]
    assert len(lines) >= 8 and not [line for line in lines if said(password, line)]


def test_a_password_that_a_message_repeats():
    address = "postgresql://ann:kestrel-9@host/db"
    for text in ("no role kestrel", "kestrel-9", "at postgresql://ann:kestrel-9@host/db"):
        with (
            pytest.raises(rb.TableError, match="repeats a part of the password") as failure,
            mask_database_errors(address),
        ):
            raise ValueError(text)
        assert "kestrel" not in str(failure.value)
    with pytest.raises(rb.TableError, match=r"the query failed: no such role$"), mask_database_errors(address):
        raise ValueError("no such\nrole")


# ---- failures: one line, exit code 1, nothing left behind


def fails(rado, *args):
    """The one line of a command that fails."""
    before = n_files(), sorted(Path().iterdir())
    code, out, errors = rado(*args)
    assert code == 1 and out == "" and errors.count("\n") == 1, (code, out, errors)
    assert (n_files(), sorted(Path().iterdir())) == before
    return errors


def test_wrong_queries(rado, tmp_path):
    address = as_database(clinic_rows(20), tmp_path).partition("?")[0]
    assert "syntax error" in fails(rado, "craft", f"{address}?SELEC 1", "-l", "ill")
    assert "nope" in fails(rado, "craft", f"{address}?SELECT nope FROM visits", "-l", "ill")
    assert "one statement that gives rows" in fails(rado, "craft", f"{address}?DROP TABLE visits", "-l", "ill")
    failing = "SELECT CASE WHEN age >= 0 THEN ward::INT END AS x, ill FROM visits"
    assert "Could not convert" in fails(rado, "craft", f"{address}?{failing}", "-l", "ill")
    assert "no column 'well'" in fails(rado, "craft", f"{address}?FROM visits", "-l", "well")
    assert "needs a query" in fails(rado, "craft", address, "-l", "ill")
    assert "does not exist" in fails(rado, "craft", "duckdb:none.duckdb?SELECT 1 AS ill", "-l", "ill")
    assert "alone" in fails(rado, "craft", f"{address}?FROM visits", "t.csv", "-l", "ill")
    assert "addresses of databases" in fails(rado, "craft", "mysql://h/db?SELECT 1", "-l", "ill")
    for option in ("", "?sslmode=require"):
        line = fails(rado, "craft", f"postgresql://h/db{option}", "-l", "ill")
        assert f"'postgresql://h/db{option}?SELECT ...'" in line
    place = address.partition(":")[2]
    assert "it is one of the files" in fails(rado, "craft", f"{address}?FROM visits", "-l", "ill", "-o", place)
    assert rado("craft", f"{address}?FROM visits", "-l", "ill", "-q")[0] == 0
    assert Path("t.rado.parquet").exists()


def test_private_messages_hold_no_values(rado, tmp_path):
    """What is wrong with the text of a query is said; what comes up once rows are read is one fixed line."""
    address = as_database(clinic_rows(20), tmp_path).partition("?")[0]
    args = ["-l", "ill", "--epsilon", "1", "--classes", "no,yes", "--schema", tmp_path / "s.json"]
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA.to_dict()))
    assert "syntax error" in fails(rado, "craft", f"{address}?SELEC 1", *args)
    line = fails(rado, "craft", f"{address}?SELECT nope FROM visits", *args)
    assert '"nope" not found' in line and "ward" not in line
    failing = "SELECT * REPLACE (CASE WHEN age >= 0 THEN ward::INT END AS age) FROM visits"
    assert "Could not convert string 'A'" in fails(rado, "craft", f"{address}?{failing}", *args[:2])
    line = fails(rado, "craft", f"{address}?{failing}", *args)
    assert "the query failed" in line and "Could not" not in line and "'A'" not in line
    lite = sqlite3.connect(":memory:")
    with pytest.raises(rb.TableError, match="no such table: visits"):
        private(query(lite, "SELECT * FROM visits"))


def test_postgresql_says_what_is_wrong_with_a_query_and_no_values(server):
    import adbc_driver_postgresql.dbapi

    filled(server, clinic_rows(5))
    with adbc_driver_postgresql.dbapi.connect(server) as connection, psycopg.connect(server) as other:
        for source in (server, connection):
            with pytest.raises(rb.TableError, match='"nope" does not exist'):
                private(query(source, "SELECT nope FROM visits"))
            connection.rollback()
        for source in (server, connection, other):
            with pytest.raises(rb.TableError, match="words are not shown") as failure:
                private(query(source, "SELECT *, (ward || 'kestrel')::int FROM visits"))
            assert "kestrel" not in str(failure.value)


def test_a_locked_database(rado, tmp_path):
    address = as_database(clinic_rows(20), tmp_path)
    place = address.partition(":")[2].partition("?")[0]
    code = f"import duckdb; c = duckdb.connect({place!r}); print('open', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        try:
            assert other.stdout.readline() == "open\n"
            assert "lock" in fails(rado, "craft", address, "-l", "ill")
        finally:
            other.communicate("\n")


@pytest.mark.parametrize(("module", "address"), [
    ("duckdb", "duckdb:?SELECT 1 AS ill"), ("adbc_driver_postgresql", "postgresql://h/db?SELECT 1")])  # fmt: skip
def test_a_driver_that_is_not_there(module, address, rado, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    assert "pip install '.[sql]'" in fails(rado, "craft", address, "-l", "ill")


def piped(data, *args):
    """What a command says that gets these bytes on standard input: exit code, stdout, stderr."""
    result = CliRunner().invoke(app, list(map(str, args)), input=data)
    return result.exit_code, result.stdout, result.stderr


def test_pipes_whole_and_broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = numbers_only(clinic_rows(300))
    files = {}
    for form in ("csv", "parquet", "arrow"):
        sink = io.BytesIO()
        if form == "csv":
            pa.csv.write_csv(table, sink)
        elif form == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
        files[form] = sink.getvalue()
    Path("t.csv").write_bytes(files["csv"])
    whole = bits(rb.craft("t.csv", label="ill", n_rados=9, seed=1))
    args = ["craft", "-", "-l", "ill", "--seed", 1, "-n", 9]
    command = [sys.executable, "-m", "radoboost", *map(str, args)]
    subprocess.run(command, input=files["csv"], check=True, capture_output=True)
    assert bits(rb.load("stdin.rado.parquet")) == whole
    assert piped(gzip.compress(files["csv"]), *args, "-o", "packed.rado.parquet")[0] == 0
    assert bits(rb.load("packed.rado.parquet")) == whole
    for name in ("stdin.rado.parquet", "packed.rado.parquet"):
        Path(name).unlink()
    before = n_files()
    files["packed csv"] = gzip.compress(files["csv"])
    for form, content in files.items():
        part = content[: content.rindex(b"\n", 0, -20) + 3] if form == "csv" else content[:-8]
        code, out, errors = piped(part, *args)
        assert code == 1 and out == "" and errors.count("\n") == 1, (form, errors)
        assert "standard input" in errors
    assert "is empty" in piped(b"", *args)[2]
    assert os.listdir(tmp_path) == ["t.csv"] and n_files() == before


def test_a_terminal_is_no_table(kept_input):
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: True)
    with pytest.raises(rb.TableError, match="standard input is a terminal"):
        rb.craft(StandardInput(), label="ill")


# ---- the spool


def test_a_spool_is_private_and_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with spool_for_rereading(clinic_rows(10).to_reader()) as (path,):
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(path).st_nlink == 0 and not list(tmp_path.iterdir())
        assert open_table([path], label="ill", features=["age"]).n_rows == 10
    with pytest.raises(rb.TableError, match=r"cannot read the reader|no such file: the reader"):
        open_table([path], label="ill", features=["age"])


def test_where_files_keep_their_names_the_spool_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(streams.os.path, "exists", lambda place: False)
    with spool_for_rereading(clinic_rows(10).to_reader()) as (path,):
        assert [os.path.join(tmp_path, name) for name in os.listdir(tmp_path)] == [os.fspath(path)]
    assert not os.listdir(tmp_path)


def test_an_interrupt_leaves_no_spool():
    def rows():
        yield clinic_rows(10).to_batches()[0]
        raise KeyboardInterrupt

    before = n_files()
    reader = pa.RecordBatchReader.from_batches(clinic_rows(10).schema, rows())
    with pytest.raises((KeyboardInterrupt, rb.TableError)):
        rb.craft(reader, label="ill")
    assert n_files() == before


def test_a_disk_without_room_is_said(rado, tmp_path, monkeypatch):
    path = as_parquet(clinic_rows(50), tmp_path)
    monkeypatch.setattr(streams.shutil, "disk_usage", lambda place: SimpleNamespace(free=1 << 20))
    line = fails(rado, "craft", f"duckdb:?SELECT * FROM '{path}'", "-l", "ill")
    assert "TMPDIR" in line


def test_parts_of_a_spool_can_be_read_by_another_process():

    with spool_for_rereading(clinic_rows(500).to_reader(max_chunksize=50)) as kept:
        source = open_table(kept, label="ill", features=["age", "year"])
        code = (
            "import sys, pickle; p = pickle.load(sys.stdin.buffer); print(sum(b.values().sum() for b in p.batches(64)))"
        )
        result = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(source.parts()[0]), capture_output=True, check=True
        )
        assert float(result.stdout) == sum(batch.values().sum() for batch in source.parts()[0].batches(64))


def test_importing_and_completing_load_no_database():
    code = "import sys, radoboost, radoboost.cli; print({'duckdb', 'polars', 'adbc_driver_manager'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


# ---- what would depend on values


def test_a_dataset_of_csv_files_has_types_by_values(tmp_path):
    (tmp_path / "t.csv").write_text("age,ill\n1,no\n2,yes\n")
    dataset = ds.dataset(tmp_path / "t.csv", format="csv")
    assert rb.craft(dataset, label="ill", n_rados=3).n_examples == 2
    with pytest.raises(rb.TableError, match="one value"):
        rb.craft(dataset, label="ill", mechanism=rb.Moments(1.0), classes=("no", "yes"), schema={"age": (0, 9)})


@pytest.mark.parametrize("typed", [True, False])
def test_folders_are_texts_to_private_reading(tmp_path, typed):
    for name in ("code=007", *(() if typed else ("code=x",))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text("age,ill\n1,no\n2,yes\n")
    schema = rb.Schema({"code": rb.Category(("007", "x"))}, "ill", ("no", "yes"))
    source = open_table(tmp_path, label="ill", schema=schema, row_by_row=True)
    assert next(source.batches()).values().tolist() == [[1.0, 0.0]] * 2


def test_a_score_of_a_query_says_what_voids_it(tmp_path):
    path = as_parquet(clinic_rows(60), tmp_path)
    model = rb.MomentsClassifier().fit_rados(plain(path)).model_
    result = rb.score(model, f"duckdb:?SELECT * FROM '{path}'", label="ill", epsilon=1.0)
    assert "LIMIT" in result.not_covered and "LIMIT" in result.to_dict()["not_covered"]


def open_files(pid):
    for file in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed since it was listed
            yield os.readlink(f"/proc/{pid}/fd/{file}")


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_whatever_ends_the_process_leaves_nothing(signal_sent, tmp_path):
    """A command that waits for more rows, with some in its spool already; what started the tests may ignore SIGINT."""
    command = ["env", "--default-signal=INT", sys.executable, "-m", "radoboost", "craft", "-", "-l", "ill"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        process.stdin.write(b"age,ill\n" + b"1,no\n2,yes\n" * 200_000)
        process.stdin.flush()
        for _ in range(6000):
            if any("(deleted)" in place for place in open_files(process.pid)):
                break
            time.sleep(0.05)
        else:
            pytest.fail("no spool after minutes")
        assert not list(temporary.iterdir())
        process.send_signal(signal_sent)
        assert process.wait(300) == (130 if signal_sent == signal.SIGINT else -signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"] and not list(temporary.iterdir())
