"""A file that is named twice would count each of its records twice: its names alone are reason to refuse it."""

import gzip
import os

import pytest

import flat
import radoboost as rb
from radoboost.tables.object_stores import store_path
from radoboost.tables.paths import expand_paths, refuse_repeated_files
from radoboost.tables.urls import StoreAddress

MECHANISM = rb.Moments(1.0)
BOUNDS = {"age": (0, 100)}
ROWS = "age,ill\n30,0\n60,1\n45,1\n50,0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(ROWS)
    os.symlink("t.csv", "link.csv")
    os.link("t.csv", "hard.csv")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.csv").write_text(ROWS)
    os.symlink("sub", "other")
    return tmp_path


SPELLINGS = [
    ["t.csv", "./t.csv"],
    ["t.csv", "t.csv"],
    ["t.csv", "link.csv"],
    ["t.csv", "hard.csv"],
    ["sub", "sub/s.csv"],
    ["sub", "other"],
    ["t*.csv", "*.csv"],
    ["t.csv", "sub/../t.csv"],
]


@pytest.mark.parametrize("table", SPELLINGS)
def test_one_file_by_two_names_is_refused(folder, table):
    with pytest.raises(rb.TableError, match="twice") as refused:
        expand_paths(table)
    for name in table:
        assert name in str(refused.value)


@pytest.mark.parametrize("table", [["t.csv", "t.csv.gz"], ["t*"], ["sub"]])
def test_two_forms_of_one_table_are_refused(folder, table):
    (folder / "t.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    (folder / "sub" / "s.CSV.gz").write_bytes(gzip.compress(ROWS.encode()))
    with pytest.raises(rb.TableError, match="the same table"):
        expand_paths(table)
    (folder / "t.csv").rename(folder / "u.csv")
    assert len(expand_paths("[tu].csv*")) == 2


def test_nothing_is_spent(folder, tmp_path):
    table, ledger = ["t.csv", "link.csv"], rb.Ledger.create(tmp_path / "books.ledger", "patients", epsilon=2.0)
    options = {"label": "ill", "classes": (0, 1), "bounds": BOUNDS}
    doors = (
        lambda: flat.craft(table, **options, mechanism=MECHANISM, ledger=ledger, counts=None),
        lambda: rb.craft(table, label="ill", n_rados=3, seed=1),
        lambda: flat.check_table(table, **options),
        lambda: rb.share(table, label="ill", schema=BOUNDS),
        lambda: rb.score(model(), table, label="ill", epsilon=1.0, ledger=ledger),
    )
    for door in doors:
        with pytest.raises(rb.TableError, match="twice"):
            door()
    assert not ledger.entries()


def model():
    return rb.Model([1.0], (rb.Column("age", "none", step=2.0**-20),), (0, 1), {"name": "by hand"})


def test_nobody_joins_a_room_with_a_file_twice(folder):
    room = folder / "room"
    rb.open_room(room, parties=3, label="ill", classes=(0, 1), mechanism=MECHANISM, schema=BOUNDS)
    identity = rb.Identity.create("west")
    with pytest.raises(rb.TableError, match="twice"):
        rb.join_room(room, ["t.csv", "hard.csv"], confirm=lambda code: True, identity=identity)
    assert not list(room.rglob("west*"))


def test_copies_and_other_files_are_another_matter(folder):
    (folder / "copy.csv").write_text(ROWS)
    assert len(expand_paths(["t.csv", "copy.csv", "sub"])) == 3


@pytest.mark.parametrize(
    ("notes", "kind"),
    [
        ("_delta_log/0.json", "Delta"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("metadata/v1.metadata.json", "Iceberg"),
        ("metadata/v1.metadata.json.gz", "Iceberg"),
        ("_spark_metadata/0", "Spark"),
    ],
)
def test_tables_with_old_versions_are_refused(tmp_path, notes, kind):
    """Also where links lead into them: a folder, or each file."""
    lake = tmp_path / "lake"
    (lake / notes).parent.mkdir(parents=True)
    (lake / notes).touch()
    (lake / "data" / "year=2024").mkdir(parents=True)
    for name in ("data/a.csv", "data/year=2024/b.csv"):
        (lake / name).write_text(ROWS)
    (tmp_path / "link").symlink_to(lake / "data")
    (tmp_path / "many").mkdir()
    for name in ("a.csv", "year=2024/b.csv"):
        (tmp_path / "many" / name[-5:]).symlink_to(lake / "data" / name)
    ways = (lake, lake / "data", f"{lake}/data/**/*.csv", [lake / "data/a.csv", lake / "data/year=2024/b.csv"])
    links = (tmp_path / "link", tmp_path / "many", f"{tmp_path}/link/**/*.csv", f"file://{tmp_path}/link")
    for table in (*ways, *links):
        with pytest.raises(rb.TableError, match=kind):
            expand_paths(table)
    assert expand_paths(lake / "data/a.csv") == [lake / "data/a.csv"]  # one file alone is what it says


@pytest.fixture
def memory():
    import fsspec

    system = fsspec.filesystem("memory")
    yield system
    system.rm("/clinic", recursive=True)


def test_one_file_of_a_store_by_two_addresses_is_refused(memory):
    memory.pipe("/clinic/a.csv", ROWS.encode())
    for other in ("memory://clinic/*.csv", "memory://clinic/", "memory:///clinic/a.csv"):
        for table in (["memory://clinic/a.csv", other], [other, "memory://clinic/a.csv"]):
            with pytest.raises(rb.TableError, match="twice"):
                expand_paths(table)


@pytest.mark.parametrize(
    ("notes", "kind"),
    [("_delta_log/0.json", "Delta"), (".hoodie/hoodie.properties", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_parts_of_a_table_with_old_versions_in_a_store_are_refused(memory, notes, kind):
    for name in ("a.csv", "b.csv", "year=2024/c.csv", "year=2024/d.csv"):
        memory.pipe(f"/clinic/lake/{name}", ROWS.encode())
    ways = (
        "memory://clinic/lake",
        "memory://clinic/lake/*.csv",
        "memory://clinic/lake/year=2024",
        "memory:///clinic/lake/year=2024/",
        "memory://clinic/lake/year=2024/*.csv",
        ["memory://clinic/lake/a.csv", "memory://clinic/lake/b.csv"],
        ["memory://clinic/lake/a.csv", "memory://clinic/lake/year=2024/c.csv"],
    )
    assert [len(expand_paths(table)) for table in ways] == [4, 2, 2, 2, 2, 2, 2]
    memory.pipe("/clinic/lake/metadata/README.md", b"of no table with versions")
    assert len(expand_paths(ways[-1])) == 2
    memory.pipe(f"/clinic/lake/{notes}", b"{}")
    for table in ways:
        with pytest.raises(rb.TableError, match=kind):
            expand_paths(table)
    assert len(expand_paths("memory://clinic/lake/a.csv")) == 1  # one file alone is what it says


SAME = [
    ("s3://b/t.csv", "s3a://b/t.csv"),
    ("s3://b/t.csv", "s3://anonymous@b/t.csv?region=eu-west-1"),
    ("s3://b/t.csv", "s3://b/t.csv?endpoint_override=minio:9000"),
    ("gs://b/t.csv", "gcs://b/t.csv"),
    ("az://data/t.csv", "abfs://data/t.csv"),
    ("az://data/t.csv", "abfss://data@east.dfs.core.windows.net/t.csv"),
    ("abfs://data@east.dfs.core.windows.net/t.csv", "abfss://data@east.blob.core.windows.net/t.csv"),
    ("abfs://east.blob.core.windows.net/data/t.csv", "abfss://data@east.dfs.core.windows.net/t.csv"),
    ("hdfs:///d/t.csv", "hdfs://namenode:8020/d/t.csv"),
    ("http://clinic.example/t.csv", "https://clinic.example/t.csv"),
    ("az://data/t.csv", "abfs://data/t.csv.gz"),
]
DIFFERENT = [
    ("s3://b/t.csv", "s3://c/t.csv"),
    ("s3://b/t.csv", "gs://b/t.csv"),
    ("s3://b/t.csv?endpoint_override=minio:9000", "s3://b/t.csv?endpoint_override=ceph:9000"),
    ("abfss://data@east.dfs.core.windows.net/t.csv", "abfss://data@west.dfs.core.windows.net/t.csv"),
    ("az://east/t.csv", "az://d/t.csv"),
    ("sftp://east/t.csv", "sftp://west/t.csv"),
]


@pytest.mark.parametrize("pair", [*SAME, *DIFFERENT])
def test_addresses_of_one_file(pair):
    named = [(store_path(address), address) for address in map(public, pair)]
    for both in (named, named[::-1]):
        if pair in DIFFERENT:
            refuse_repeated_files(both)
            continue
        with pytest.raises(rb.TableError, match="twice"):
            refuse_repeated_files(both)


def public(address):
    return StoreAddress.of(address).public()
