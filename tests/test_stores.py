"""Tables in object stores: the same bits as the same files here, few requests, and no credential anywhere."""

import gc
import gzip
import os
import pickle
import re
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from pickling import Pickling
from radoboost.holder.rado_sums import SurveyRows
from radoboost.learner.predict import predict_table
from radoboost.progress import no_progress
from radoboost.tables import files, open_table, store_files
from radoboost.tables import store_files as store_files_module
from radoboost.tables.object_stores import list_store_folder, open_object_store
from radoboost.tables.paths import expand_paths
from radoboost.tables.store_files import Windows, join_byte_ranges, read_ahead, read_parts_ahead
from radoboost.tables.table import Table
from radoboost.tables.urls import StoreAddress, mask_passwords, url_kind, url_stem
from schema_files import write_schema
from store_server import KEY, SECRET, store_server

pytest.importorskip("moto", reason="moto is not installed: tests of object stores need its server")

NOISE = b"\5" * 32
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
BOUNDS = {f"x{k}": (-4, 4) for k in range(4)}


@pytest.fixture(scope="module")
def server():
    with store_server() as (endpoint, watched):
        yield endpoint, watched


@pytest.fixture
def store(server, monkeypatch):
    """The server's bucket, empty: `put(name, bytes)`, and what watches the server."""
    from pyarrow.fs import S3FileSystem

    endpoint, watched = server
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(store_files, "_WINDOWS", Windows(4 * store_files.WINDOW_BYTES))
    system = S3FileSystem(
        access_key=KEY, secret_key=SECRET, scheme="http", endpoint_override=endpoint.partition("//")[2],
        allow_bucket_creation=True,
    )  # fmt: skip
    watched.clear()
    system.create_dir("clinic")
    system.delete_dir_contents("clinic")

    def put(name, content):
        with system.open_output_stream(f"clinic/{name}", compression=None) as file:
            file.write(content.read_bytes() if isinstance(content, Path) else content)
        watched.clear()

    watched.put = put
    watched.clear()
    return watched


@pytest.fixture
def one_noise(monkeypatch):
    """Every private release draws the same noise."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: NOISE[:size])


def rows(n_rows=300, n_columns=4, seed=1):
    rng = np.random.default_rng(seed)
    columns = {f"x{k}": rng.normal(size=n_rows).astype(np.float32) for k in range(n_columns)}
    return pa.table({**columns, "ill": (columns["x0"] > 0).astype(np.int64)})


def written(table, path, group=100):
    """A table in a file of the kind that its name says."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    elif path.suffix == ".ipc":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    else:
        options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in path.name else ",")
        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink, options)
        text = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def plain(table, **options):
    return flat.craft(table, label="ill", n_rados=9, seed=3, **options)


def private(table, **options):
    mechanism = rb.Moments(5.0)
    return flat.craft(
        table, label="ill", classes=(0, 1), bounds=BOUNDS, mechanism=mechanism, columns="linear", **options
    )


def bits(release):
    return {name: block.tobytes() for name, block in release.blocks.items()}


EARLIER = set()  # threads of earlier tests, which may be anything


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path_factory):
    """What others leave, in another process or before, is not taken for what a test leaves."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    EARLIER.clear()
    EARLIER.update(threading.enumerate())


def threads():
    """The threads that are ours."""
    now = set(threading.enumerate()) - EARLIER
    return [thread for thread in now if "read-ahead" in thread.name or "ThreadPool" in thread.name]


def left_behind():
    """Spools in the temporary folder, open files without a name, and threads."""
    nameless = 0
    for file in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            nameless += os.readlink(f"/proc/self/fd/{file}").endswith("(deleted)")
    return len(list(Path(tempfile.gettempdir()).glob("radoboost-*"))), nameless, len(threads())


def fails(rado, *args):
    """The one line of a command that fails, and leaves nothing behind."""
    before = left_behind(), sorted(Path().iterdir())
    code, out, errors = rado(*args)
    assert code == 1 and out == "" and errors.count("\n") == 1, (code, out, errors)
    assert sorted(Path().iterdir()) == before[1]
    assert all(now <= then for now, then in zip(left_behind(), before[0], strict=True))
    return errors


# ---- the same bits


@pytest.mark.filterwarnings("ignore:.*separator:radoboost.SchemaWarning")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "arrow", "ipc"])
def test_a_file_gives_the_bits_of_the_same_file_here(ending, store, tmp_path, one_noise):
    here = written(rows(), tmp_path / f"t.{ending}")
    store.put(f"in/t.{ending}", here)
    for craft in (plain, private):
        assert bits(craft(f"s3://clinic/in/t.{ending}")) == bits(craft(here))
    assert not threads()


@pytest.mark.parametrize("craft", [plain, private])
def test_lists_folders_and_patterns(craft, store, tmp_path, one_noise):
    (tmp_path / "t").mkdir()
    for number, year in enumerate((2023, 2023, 2024)):
        folder = tmp_path / "t" / f"year={year}"
        folder.mkdir(exist_ok=True)
        store.put(f"t/year={year}/{number}.parquet", written(rows(80, seed=number), folder / f"{number}.parquet"))
    for name in ("_SUCCESS", ".0.parquet.crc", "_logs/0.txt"):
        store.put(f"t/{name}", b"x")
    options = {} if craft is plain else {"features": [f"x{k}" for k in range(4)]}
    for here, there in (
        (tmp_path / "t", "s3://clinic/t"),
        (tmp_path / "t", "s3://clinic/t/"),
        (f"{tmp_path}/t/year=*/*.parquet", "s3://clinic/t/year=*/*.parquet"),
        (f"{tmp_path}/**/[0-1].parquet", "s3://clinic/**/[0-1].parquet"),
        (f"{tmp_path}/t/year=202?/0.parquet", "s3://clinic/t/year=202?/0.parquet"),
        ([f"{tmp_path}/t/year=2024/2.parquet"], ["s3://clinic/t/year=2024/2.parquet"]),
    ):
        expected, found = craft(here, **options), craft(there, **options)
        assert bits(found) == bits(expected) and found.columns == expected.columns
    files = [f"s3://clinic/t/year=2023/{number}.parquet" for number in range(2)]
    mixed = [files[0], tmp_path / "t" / "year=2023" / "1.parquet"]
    assert bits(craft(files, **options)) == bits(craft(mixed, **options))
    if craft is plain:
        with pytest.raises(rb.TableError, match=r"no column 'year', which only folders such as 'year=2024' name"):
            craft([files[0], "s3://clinic/t/year=2024/2.parquet"])


def test_a_csv_file_in_a_store_is_one_part(store, tmp_path, monkeypatch, one_noise):
    """Of many windows, with the rows that it has in many parts here."""
    monkeypatch.setattr("radoboost.tables.csv_files.RANGE_BYTES", 5000)
    monkeypatch.setattr(store_files, "WINDOW_BYTES", 1500)
    here = written(rows(700), tmp_path / "t.csv")
    store.put("t.csv", here)
    assert bits(private("s3://clinic/t.csv")) == bits(private(here))
    sources = [open_table(path, label="ill", row_by_row=True) for path in ("s3://clinic/t.csv", here)]
    assert [part.count() for part in sources[0].parts()] == [700] == [sum(part.count() for part in sources[1].parts())]
    assert sources[0].parts()[0].place(0) == "record 1 of s3://clinic/t.csv" and len(sources[1].parts()) > 5


def test_rows_are_known_from_footers_and_places_are_named(store, tmp_path):
    for ending in ("parquet", "arrow"):
        store.put(f"t.{ending}", written(rows(250), tmp_path / f"t.{ending}"))
        assert open_table(f"s3://clinic/t.{ending}", label="ill").n_rows == 250
    store.put("bad.csv", b"x0,ill\n1,0\n2,1\ninf,1\n")
    with pytest.raises(rb.TableError, match=r"line 4 of s3://clinic/bad.csv"):
        plain("s3://clinic/bad.csv")


@pytest.mark.filterwarnings("ignore::radoboost.SchemaWarning")
def test_names_with_odd_characters(store, tmp_path):
    here = written(rows(60), tmp_path / "t.csv")
    for name in ("a b.csv", "ward=A%2FB/t.csv", "x@y:z.csv", "ünï.csv", "q=1&r.csv"):
        store.put(f"odd/{name}", here)
        assert bits(plain(f"s3://clinic/odd/{name}")) == bits(plain(here))
    store.put("one/ward=A%2FB/t.csv", here)
    assert rb.craft("s3://clinic/one", label="ill", n_rados=2).schema.columns["ward"].values == ("A/B",)


# ---- few requests


def test_few_large_requests(store, tmp_path):
    """A real file of some megabytes, in ten row groups: under 20 requests, and no pass fetches more than 1.1 of it."""
    here = written(rows(100_000, 12), tmp_path / "t.parquet", group=10_000)
    size = here.stat().st_size
    store.put("t.parquet", here)
    assert size > 4_000_000
    assert bits(plain("s3://clinic/t.parquet")) == bits(plain(here))
    assert store.n_requests < 20
    source = open_table("s3://clinic/t.parquet", label="ill")
    for features in (None, ["x1", "x7", "x11"]):
        source = open_table("s3://clinic/t.parquet", label="ill", features=features)
        store.clear()
        assert sum(batch.n_rows for batch in source.batches()) == 100_000
        assert store.n_requests < 20 and 0 < store.n_bytes <= 1.1 * size


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_few_requests_for_a_file_of_many_parts(ending, store, tmp_path, monkeypatch):
    """Fourteen parts, as 4,000,000 rows of 28 columns have: the version is asked for twice, and each part comes once.

    Another machine, which reads one part, asks for itself.
    """
    monkeypatch.setattr("radoboost.tables.table.PART_VALUES", 8 * 1280)
    monkeypatch.setattr("radoboost.tables.files.BATCH_ROWS", 1280)
    here = written(rows(14 * 1280, 8), tmp_path / f"t.{ending}", group=640)
    size = here.stat().st_size
    store.put(f"t.{ending}", here)
    source = open_table(f"s3://clinic/t.{ending}", label="ill", row_by_row=True)
    assert len(source.parts()) == 14 and store.n_requests < 20
    for _ in range(2):
        store.clear()
        assert sum(batch.n_rows for batch in source.batches()) == 14 * 1280
        assert store.n_requests < 20 and store.n_bytes <= 1.1 * size
    assert {part.path.passes for part in source.parts()} == {0}
    store.clear()
    list(pickle.loads(pickle.dumps(source.parts()[3])).batches(640))
    assert [seen[0] for seen in store.seen].count("HEAD") >= 2


@pytest.mark.parametrize("when", [3, 13])
def test_a_file_of_many_parts_that_changes_within_a_pass(when, store, tmp_path, monkeypatch):
    """Whether its new bytes can be read or not; afterwards parts ask for themselves."""
    monkeypatch.setattr("radoboost.tables.table.PART_VALUES", 4 * 64)
    monkeypatch.setattr("radoboost.tables.files.BATCH_ROWS", 64)
    ending = "parquet"
    for other in (rows(64 * 14, seed=2), rows(64 * 20, 2, seed=3)):
        store.put(f"t.{ending}", written(rows(64 * 14), tmp_path / f"t.{ending}", group=64))
        source = open_table(f"s3://clinic/t.{ending}", label="ill", row_by_row=True)
        assert len(source.parts()) == 14
        read = type(source.parts()[0]).batches

        def then_other(part, most_rows, read=read, other=other, source=source):
            if part is source.parts()[when]:
                store.put(f"t.{ending}", written(other, tmp_path / f"t.{ending}", group=64))
            yield from read(part, most_rows)

        with monkeypatch.context() as patched:
            patched.setattr(type(source.parts()[0]), "batches", then_other)
            with pytest.raises(rb.TableError, match=rf"s3://clinic/t.{ending} changed while it was read"):
                list(source.batches())
        assert not threads() and {part.path.passes for part in source.parts()} == {0}


@pytest.mark.parametrize(("ending", "row_by_row"), [("csv", True), ("csv.gz", False), ("arrow", False)])
def test_bytes_of_a_pass(ending, row_by_row, store, tmp_path, monkeypatch):
    """With windows that are smaller than the file, and few of them remembered: each byte is fetched about once."""
    here = written(rows(25_000, 6), tmp_path / f"t.{ending}", group=5_000)
    size = here.stat().st_size
    store.put("t." + ending, here)
    assert size > 500_000
    source = open_table(f"s3://clinic/t.{ending}", label="ill", row_by_row=row_by_row)
    assert store.n_requests < 20
    store.clear()
    assert sum(batch.n_rows for batch in source.batches()) == 25_000
    assert store.n_requests < 20 and store.n_bytes <= 1.1 * size
    monkeypatch.setattr(store_files, "WINDOW_BYTES", size // 8)
    monkeypatch.setattr(store_files, "_WINDOWS", Windows(size // 4))
    source = open_table(f"s3://clinic/t.{ending}", label="ill", row_by_row=row_by_row)
    for _ in range(2):
        store.clear()
        assert sum(batch.n_rows for batch in source.batches()) == 25_000
        assert 0.9 * size <= store.n_bytes <= 1.1 * size and store.n_requests < 20


def test_one_footer_a_file(store, tmp_path, monkeypatch):
    """Also where a file has many parts, and there are many files."""
    monkeypatch.setattr("radoboost.tables.table.PART_VALUES", 1000)
    for number in range(20):
        store.put(f"t/{number:02}.parquet", written(rows(200, seed=number), tmp_path / "t.parquet", group=50))
    source = open_table("s3://clinic/t", label="ill")
    assert source.n_rows == 4000 and len(source.parts()) >= 20
    gets = [seen for seen in store.seen if seen[0] == "GET" and "parquet" in seen[1]]
    assert len(gets) == 20 and sum(seen[1].endswith("00.parquet") for seen in gets) == 1
    store.clear()
    list(source.batches())
    gets = [seen for seen in store.seen if seen[0] == "GET"]
    assert len(gets) == len(source.parts())
    sent = pickle.loads(pickle.dumps(source.parts()))
    assert sum(batch.n_rows for part in sent for batch in part.batches(64)) == 4000
    assert len({id(part.path.store) for part in sent}) == 1  # which is not opened for each file


def test_ranges_are_joined_and_not_too_long(monkeypatch):
    monkeypatch.setattr(store_files, "HOLE_BYTES", 5)
    monkeypatch.setattr(store_files, "RANGE_BYTES", 100)
    ranges = [(0, 40), (45, 60), (66, 70), (70, 99), (99, 180)]
    assert join_byte_ranges(ranges) == [(0, 60), (66, 99), (99, 180)]


def test_a_row_group_that_is_too_large_is_read_column_by_column(store, tmp_path, monkeypatch):
    here = written(rows(3000), tmp_path / "t.parquet", group=3000)
    store.put("t.parquet", here)
    monkeypatch.setattr(store_files, "MOST_FETCHED", 1000)
    assert bits(plain("s3://clinic/t.parquet")) == bits(plain(here))


# ---- read ahead


def test_reading_ahead_is_bounded_and_leaves_no_thread():
    made = []

    def items():
        for k in range(100):
            made.append(k)
            yield k

    assert not threads()
    ahead = read_ahead(items(), 3)
    assert next(ahead) == 0
    for _ in range(6000):
        if len(made) >= 5:  # one was taken, three are ready, one waits
            break
        threading.Event().wait(0.01)
    assert len(made) == 5
    ahead.close()
    assert not threads() and len(made) == 5
    assert list(read_ahead(items(), 3)) == list(range(100)) and not threads()


def test_parts_are_read_ahead_in_order_and_few_at_a_time():
    rng = np.random.default_rng(7)
    lock, now, most = threading.Lock(), [], []

    def read(part):
        with lock:
            now.append(part)
            most.append((len(now), sum(size(other) for other in now)))
        threading.Event().wait(0.002 * rng.random())
        yield from ((part, k) for k in range(part % 5))
        with lock:
            now.remove(part)

    for size in (lambda part: 1.0, lambda part: 0.2, lambda part: 0.01, lambda part: part % 3 / 2):
        most.clear()
        assert list(read_parts_ahead(range(40), read, size, 2)) == [
            (part, k) for part in range(40) for k in range(part % 5)
        ]
        assert max(count for count, _ in most) <= 8 and max(total for _, total in most) <= 2
        assert not threads()
    ahead = read_parts_ahead(range(40), read, lambda part: 0.01, 2)
    next(ahead)
    ahead.close()
    assert not threads()


def test_what_fails_ahead_fails_in_its_turn():
    def items():
        yield 1
        yield 2
        raise KeyboardInterrupt

    ahead = read_ahead(items(), 5)
    assert (next(ahead), next(ahead)) == (1, 2)
    with pytest.raises(KeyboardInterrupt):
        next(ahead)
    assert not threads()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, rb.TableError, MemoryError])
def test_whatever_ends_a_pass_no_thread_is_left(failure, store, tmp_path, monkeypatch):
    store.put("t.parquet", written(rows(5000), tmp_path / "t.parquet"))

    def add(self, sums, first_row, batch):
        raise failure("enough")

    # Batches that are far more than may wait, so that a thread would wait for ever.
    monkeypatch.setattr(Table, "batch_rows", 64)
    monkeypatch.setattr("radoboost.tables.table.BATCHES_AHEAD", 1)
    monkeypatch.setattr(SurveyRows, "add", add)
    with pytest.raises(failure) as caught:
        plain("s3://clinic/t.parquet")
    assert caught.tb is not None and not threads()  # although what was raised holds on to all that was open


def test_predictions_that_cannot_be_written_leave_no_thread(store, tmp_path, monkeypatch):
    here = written(rows(5000), tmp_path / "t.parquet")
    store.put("t.parquet", here)
    model = rb.MomentsClassifier().fit_rados(plain(here)).model_
    assert np.array_equal(model.predict("s3://clinic/t.parquet"), model.predict(here))

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("radoboost.learner.predict._prediction_arrays", fail)
    with no_progress() as bar, pytest.raises(rb.OutputError, match="No space left") as caught:
        predict_table(model, "s3://clinic/t.parquet", tmp_path / "p.csv", bar)
    assert caught.tb is not None and not threads() and not (tmp_path / "p.csv").exists()


# ---- failures


def forget():
    """As if nothing had been read before."""
    store_files._WINDOWS._windows.clear()
    files.footers._kept.clear()


@pytest.fixture
def one_attempt(monkeypatch):
    monkeypatch.setattr(store_files_module, "ATTEMPTS", 1)
    monkeypatch.setattr(store_files_module, "FIRST_PAUSE", 0.01)


@pytest.mark.parametrize(("ending", "declared"), [("parquet", False), ("csv", False), ("csv", True)])
def test_a_store_that_fails_halfway(ending, declared, store, tmp_path, rado, one_attempt):
    """At whichever request it begins to fail: one line, exit code 1, nothing left; and no credential."""
    store.put(f"t.{ending}", written(rows(2000), tmp_path / f"t.{ending}"))
    about = ("--schema", write_schema("s.json", BOUNDS, "ill", [0, 1])) if declared else ("-l", "ill")
    args = ("craft", f"s3://clinic/t.{ending}", *about, "-n", 3, "-o", "r.rado.parquet")
    assert rado(*args)[0] == 0
    total, gets = store.n_requests, [k for k, seen in enumerate(store.seen, 1) if seen[0] == "GET"]
    Path("r.rado.parquet").unlink()
    assert 5 < total < 20
    for first in {1, 2, *gets, total}:
        for fault in ("error", "cut"):
            forget()
            store.clear()
            store.fault = lambda number, first=first, fault=fault: fault if number >= first else None
            if fault == "cut" and first > gets[-1]:
                continue  # the questions that are left have answers without a body
            line = fails(rado, *args)
            assert f"rado: cannot read s3://clinic/t.{ending}: " in line, line
            assert re.search("AWS Error|missing", line) and SECRET not in line and KEY not in line


def test_a_failure_that_passes_is_no_failure(store, tmp_path, one_noise, monkeypatch):
    monkeypatch.setattr(store_files_module, "ATTEMPTS", 2)
    here = written(rows(500), tmp_path / "t.parquet")
    store.put("t.parquet", here)
    store.fault = lambda number: ("error", None, "cut", None, None)[number % 5]
    assert bits(plain("s3://clinic/t.parquet")) == bits(plain(here))


def test_a_file_that_changes_is_refused(store, tmp_path):
    for ending in ("parquet", "csv"):
        store.put(f"t.{ending}", written(rows(300), tmp_path / f"t.{ending}"))
        source = open_table(f"s3://clinic/t.{ending}", label="ill")
        list(source.batches())
        store.put(f"t.{ending}", written(rows(300, seed=2), tmp_path / f"t.{ending}"))
        with pytest.raises(rb.TableError, match=rf"s3://clinic/t.{ending} changed while it was read"):
            list(source.batches())
        assert not threads()


def test_notes_of_tables_with_versions_are_looked_for_above_files(store, tmp_path):
    """Four requests for each folder above, however many files there are; one that may not be listed has none."""
    place = written(rows(30), tmp_path / "t.csv")
    for k in range(5):
        store.put(f"lake/year=2024/{k}.csv", place)
    part, some = "s3://clinic/lake/year=2024", [f"s3://clinic/lake/year=2024/{k}.csv" for k in range(5)]
    for table, others in ((part, 2), (f"{part}/*.csv", 1), (some, 5 + 4)):
        store.clear()
        assert len(expand_paths(table)) == 5
        assert store.n_requests == others + 2 * 4
    store.put("lake/_delta_log/0.json", b"{}")
    for table in (part, f"{part}/*.csv", some):
        with pytest.raises(rb.TableError, match="clinic/lake is a folder of a Delta table"):
            expand_paths(table)
    store.clear()
    assert len(expand_paths(some[0])) == 1
    assert store.n_requests == 1  # one file alone is what it says

    def denied(selector):
        raise PermissionError("ACCESS_DENIED")

    assert list_store_folder(SimpleNamespace(get_file_info=denied), "clinic/lake/_delta_log") == []


def test_what_is_not_there(store, rado, tmp_path, one_attempt):
    store.put("empty.csv", b"")
    store.put("mixed/a.csv", b"x")
    store.put("mixed/b.parquet", b"x")
    store.put("delta/_delta_log/0.json", b"x")
    store.put("delta/a.parquet", b"x")
    for address, words in {
        "s3://clinic/none.csv": "no such file: s3://clinic/none.csv",
        "s3://nobucket/t.csv": "no such bucket",
        "s3://clinic/*.arrow": "no file matches 's3://clinic/*.arrow'",
        "s3://clinic/empty.csv": "is empty",
        "s3://clinic/mixed": "files of several kinds, such as a.csv and b.parquet",
        "s3://clinic/delta": "Delta",
        "s3:///t.csv": "names no bucket",
        "s3://clinic/t.csv?regoin=eu": "has an option 'regoin'",
        "nosuch://clinic/t.csv": "no kind of store is called nosuch",
        "https://localhost:1/t.csv": "https://",
    }.items():
        assert words in fails(rado, "craft", address, "-l", "ill", "-o", "r.rado.parquet"), address
    with pytest.raises(rb.TableError, match="pass an address as a text"):
        plain(Path("s3://clinic/t.csv"))


# ---- credentials


def hidden(text):
    """Whether neither a secret, nor a piece of one, nor the key that goes with it is in a text."""
    pieces = [SECRET, SECRET.replace("/", "%2F").replace("+", "%2B"), *re.split(r"\W+", SECRET)[:1], KEY]
    return not any(piece in str(text) for piece in pieces)


@pytest.mark.parametrize("form", [
    "s3://{key}:{secret}@clinic/t.parquet",
    "s3://clinic/t.parquet?access_key={key}&secret_key={secret}",
    "s3://clinic/t.parquet?region=us-east-1&session_token={secret}&access_key={key}&secret_key={secret}",
])  # fmt: skip
def test_credentials_of_an_address_are_used_and_never_shown(form, store, tmp_path, rado, monkeypatch, one_attempt):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    address = form.format(key=KEY, secret=SECRET.replace("/", "%2F").replace("+", "%2B"))
    store.put("t.parquet", written(rows(200), tmp_path / "t.parquet"))
    store.clear()
    plain(address).save(tmp_path / "r.rado.parquet")
    assert store.authorizations and all(f"Credential={KEY}/" in line for line in store.authorizations)
    assert hidden((tmp_path / "r.rado.parquet").read_bytes())
    source = open_table(address, label="ill")
    assert hidden(repr(source)) and hidden(repr(source.parts())) and hidden(pickle.dumps(source.parts()))
    assert hidden(repr(expand_paths(address)[0].store))
    lines = [fails(rado, "craft", address.replace("t.parquet", name), "-l", "ill") for name in ("no.csv", "*.csv")]
    lines.append(fails(rado, "craft", address, "-l", "none"))
    store.clear()
    store.fault = lambda number: "error"
    lines.append(fails(rado, "craft", address, "-l", "ill"))
    lines.append(fails(rado, "craft", tmp_path / "t.parquet", "-l", "ill", "-o", address))
    code, out, errors = rado("craft", address, "-l", "ill", "--epsilon", 1)
    assert code == 1
    assert all(map(hidden, [*lines, out, errors])), lines
    store.clear()
    code, out, errors = rado("craft", address, "-l", "ill", "--json")
    assert code == 0 and Path("t.rado.parquet").exists() and hidden(out) and hidden(errors)


def test_parts_travel_without_credentials(store, tmp_path, monkeypatch):
    """Another process reads by its own credentials, and not at all without any."""
    store.put("t.csv", written(rows(200), tmp_path / "t.csv"))
    address = f"s3://{KEY}:{SECRET.replace('/', '%2F')}@clinic/t.csv"
    parts = open_table(address, label="ill").parts()
    sent = pickle.dumps(parts)
    assert hidden(sent)
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(expand_paths(address)[0].store)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHEWORKER")
    open_object_store.cache_clear()
    store.clear()
    assert sum(batch.n_rows for part in pickle.loads(sent) for batch in part.batches(64)) == 200
    assert store.authorizations and all("Credential=AKIAOFTHEWORKER/" in line for line in store.authorizations)


def test_a_library_that_repeats_a_credential_is_not_quoted(store, tmp_path, monkeypatch):
    store.put("t.csv", written(rows(20), tmp_path / "t.csv"))
    path = expand_paths("s3://clinic/t.csv?secret_key=wren&access_key=thrush")[0]
    for words in (f"denied for {SECRET}", "no wren here", "s3://a:b@clinic"):
        assert hidden(line := path.store.said(ValueError(words))) and "wren" not in line and "a:b" not in line
    assert path.store.said(OSError("slow down")) == "slow down"


@pytest.mark.parametrize("address", [
    "s3://AKIA:se/cret@clinic/t.csv", "s3://AKIA:secret@clinic/t.csv", "https://secret@host/t.csv",
    "https://host/t.csv?X-Amz-Credential=AKIA%2Fsecret&X-Amz-Signature=secret&x=1", "https://h/t?sv=2&sig=secret",
    "https://host/t.csv?AWSAccessKeyId=AKIA&Signature=secret", "az://c/t.csv?account_key=secret",
    "https://storage/t.csv?GoogleAccessId=a&X-Goog-Signature=secret", "sftp://ann:secret@host/t.csv",
    "abfs://:secret@account.dfs.core.windows.net/c/t.csv", "gs://b/t?access_token=secret", "s3://AKIA:secret",
    *(f"https://h/t.csv?v=2&{key}=secret&x=1" for key in ("api-key", "code", "jwt")),
    "gs://b/t.csv?region=eu&sas=secret", "gs://b/t?region=eu&secret",
    "https://h/t.csv?Policy=secret&Signature=secret&Key-Pair-Id=secret", "http://h/t.csv?secret", "gs://secret@b/t.csv",
    "https://h/t.csv#secret", "https://h/t.csv?v=1#secret", "https://h/a b.csv?key=the secret", "hdfs://secret@h/t.csv",
    "github://org:secret@main/t.csv",
    "abfs://TheSecret=secret@account.dfs.core.windows.net/t.csv", "az://b/t.csv?endpoint_override=http://a:secret@h",
    "s3://b/t.csv?endpoint_override=secret%40h", "abfs://files:secret@account.dfs.core.windows.net/t.csv",
])  # fmt: skip
def test_secrets_of_addresses_are_masked(address, rado):
    lines = [mask_passwords(address), mask_passwords(f"cannot read {address}: no")]
    with suppress(rb.ArgumentError):
        lines.append(StoreAddress.of(address).public())
        lines.append(url_stem(address))
        store = StoreAddress.of(address)
        assert "secret" in str(store.secrets()) and store.stays_here() <= bool(store.options)
    assert len(lines) == 4 or "AKIA:" in address
    assert not [line for line in lines if "secret" in line or "se/cret" in line]
    if address.startswith(("https", "az", "s3://AKIA:se/", "s3://AKIA:secret")) and not address.endswith(
        "@clinic/t.csv"
    ):
        line = fails(rado, "craft", address, "-l", "ill", "-o", "r.rado.parquet")
        assert "secret" not in line.replace("within its key and secret write", "")  # advice, whatever the address is


def test_what_is_public_stays(tmp_path):
    """Where a file is, and how to get there; all that the page about stores says is public, and no more."""
    for address in (
        "s3://b/t.csv?region=eu&scheme=http&endpoint_override=minio:9000", "s3://anonymous@b/t.csv", "memory://t/a#1.csv",
        "gs://anonymous@b/t.csv", "abfss://files@account.dfs.core.windows.net/t.csv", "hdfs://name:8020/t.csv",
        "abfs://files@127.0.0.1:10000/t.csv?enable_tls=false",
    ):  # fmt: skip
        assert StoreAddress.of(address).public() == mask_passwords(address) == address
        assert StoreAddress.of(address).secrets() == [] and not StoreAddress.of(address).stays_here()


def test_one_place_decides_what_a_text_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "b").mkdir(parents=True)
    (tmp_path / "s3:" / "b" / "t.csv").write_text("x,ill\n1,0\n2,1\n")
    assert url_kind("s3://b/t.csv") is None and url_kind("s3://b/u.csv") == "store"  # a folder that is called s3:
    assert rb.craft("s3://b/t.csv", label="ill", n_rados=2).rados.shape == (2, 2)
    for text in ("mysql://h/d", "mysql+pymysql://h/d", "duckdb://x", "postgresql://h/d", "sqlite:///x.db"):
        assert url_kind(text) == "database"
    for text in ("gs://b/x", "hdfs://h:8020/x", "abfss://c@a.dfs.core.windows.net/x", "https://h/x?a=b", "memory://x"):
        assert url_kind(text) == "store"
    here = written(rows(30), tmp_path / "t 1.csv")
    assert bits(plain(f"file://{tmp_path}/t%201.csv")) == bits(plain(here))


# ---- on the command line


def test_commands_take_addresses(store, tmp_path, rado):
    for name in ("clinic.csv", "new.csv"):
        store.put(name, written(rows(400), tmp_path / name))
    assert rado("schema", "s3://clinic/clinic.csv", "-l", "ill", "--from-data")[0] == 0
    assert rado("craft", "s3://clinic/clinic.csv", "-l", "ill", "-n", 50)[0] == 0
    assert rado("learn", "clinic.rado.parquet")[0] == 0
    assert rado("predict", "clinic.model.json", "s3://clinic/new.csv", "-l", "ill")[0] == 0
    assert rado("predict", "clinic.model.json", tmp_path / "new.csv", "-l", "ill", "-o", "here.csv")[0] == 0
    assert Path("new.scores.csv").read_bytes() == Path("here.csv").read_bytes()
    args = ("--schema", "private", "-l", "ill", "--classes", "0,1")
    code, out, errors = rado("check", "s3://clinic/clinic.csv", *args)
    assert code == 0, errors
    assert out == rado("check", tmp_path / "clinic.csv", *args)[1]
    code, out, errors = rado("score", "clinic.model.json", "s3://clinic/new.csv", "-l", "ill", "--epsilon", 1)
    assert code == 0, errors
    assert sorted(path.name for path in Path().iterdir()) == [
        "clinic.model.json", "clinic.rado.parquet", "clinic.schema.json", "here.csv", "new.scores.csv",
    ]  # fmt: skip
    line = fails(rado, "craft", "s3://clinic/clinic.csv", "-l", "ill", "-o", "s3://clinic/r.rado.parquet")
    assert "results are written on this machine only" in line
    with pytest.raises(rb.OutputError, match="on this machine only"):
        plain("s3://clinic/clinic.csv").save("s3://clinic/r.rado.parquet")
    assert rado("craft", "s3://clinic/*.csv", "-l", "ill", "-q")[1].startswith("wrote clinic.rado.parquet")
    assert rado("craft", "s3://clinic/clinic.csv", "s3://clinic/new.csv", "-l", "ill", "-n", 5)[0] == 0


def test_schemas_of_a_table_there_are_those_of_the_table_here(store, tmp_path):
    table = rows(120).append_column("ward", pa.array(["A", "B", None] * 40))
    for ending in ("csv", "parquet"):
        here = written(table, tmp_path / f"t.{ending}")
        store.put(f"t.{ending}", here)
        there = f"s3://clinic/t.{ending}"
        assert rb.propose_schema(there, label="ill") == rb.propose_schema(here, label="ill")
        assert rb.schema_template(there, label="ill") == rb.schema_template(here, label="ill")


# ---- fsspec


@pytest.fixture
def in_memory(tmp_path):
    """The memory of fsspec, empty."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: it comes with the extra remote")
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_other_stores_by_fsspec(in_memory, tmp_path, one_noise):
    for ending in ("csv", "csv.gz", "parquet", "arrow"):
        here = written(rows(), tmp_path / f"t.{ending}")
        in_memory.pipe(f"/t/{ending}/t.{ending}", here.read_bytes())
        for address in (f"memory://t/{ending}/t.{ending}", f"memory://t/{ending}", f"memory://t/*/*.{ending}"):
            for craft in (plain, private):
                assert bits(
                    craft(address, schema=rb.Schema(drop=("x3",))) if craft is plain else craft(address)
                ) == bits(craft(here, schema=rb.Schema(drop=("x3",))) if craft is plain else craft(here))
    source = open_table("memory://t/csv/t.csv", label="ill")
    in_memory.pipe("/t/csv/t.csv", written(rows(301), tmp_path / "t.csv").read_bytes())
    with pytest.raises(rb.TableError, match="changed while it was read"):
        list(source.batches())
    with pytest.raises(rb.TableError, match=r"no such file: memory://t/none.csv"):
        plain("memory://t/none.csv")


def test_failures_of_fsspec_are_tried_again(in_memory, tmp_path, monkeypatch, one_attempt):
    from fsspec.implementations.memory import MemoryFile

    here = written(rows(), tmp_path / "t.parquet")
    in_memory.pipe("/t.parquet", here.read_bytes())
    read, calls = MemoryFile.read, []

    def flaky(self, size=-1):
        calls.append(size)
        if fault(len(calls)) == "short":
            return read(self, size)[:-1]
        if fault(len(calls)):
            raise RuntimeError("lost https://h/x?sig=kestrel")
        return read(self, size)

    monkeypatch.setattr(MemoryFile, "read", flaky)
    monkeypatch.setattr(store_files_module, "ATTEMPTS", 3)
    fault = lambda number: ("lost", "short", None)[number % 3]  # noqa: E731
    assert bits(plain("memory://t.parquet")) == bits(plain(here))
    fault = lambda number: number > 1  # noqa: E731
    calls.clear()
    forget()
    with pytest.raises(rb.TableError, match=r"cannot read memory://t.parquet: lost https://h/x\?\*\*\*") as failure:
        plain("memory://t.parquet")
    assert "kestrel" not in str(failure.value) and not threads()


def test_signed_addresses_are_used_and_not_shown(in_memory, tmp_path, monkeypatch):
    """An https:// address with a signature, for a file system that knows it by the whole address."""
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.registry import _registry

    asked = []

    class Signed(MemoryFileSystem):
        protocol = "https"

        @classmethod
        def _strip_protocol(cls, path):
            return path

        def info(self, path, **options):
            asked.append(path)
            return {**super().info(self._plain(path)), "name": path}

        def _open(self, path, *args, **options):
            return super()._open(self._plain(path), *args, **options)

        @staticmethod
        def _plain(path):
            assert "X-Amz-Signature=kestrel" in path
            return "/" + path.partition("//")[2].partition("?")[0]

    monkeypatch.setitem(_registry, "https", Signed)
    here = written(rows(), tmp_path / "t.csv")
    in_memory.pipe("/host/t.csv", here.read_bytes())
    address = "https://host/t.csv?v=2&X-Amz-Credential=AKIA&X-Amz-Signature=kestrel"
    assert bits(plain(address)) == bits(plain(here)) and asked
    source = open_table(address, label="ill")
    assert source.name == source.parts()[0].path.place == "https://host/t.csv" and "kestrel" not in repr(source)
    for refused in (lambda: pickle.dumps(source.parts()), lambda: plain(["x.csv", address], cluster=Pickling())):
        with pytest.raises(rb.TableError, match="secret") as failure:
            refused()
        assert "kestrel" not in str(failure.value)
    for wrong in (address.replace("t.csv", "no.csv"), address.replace("t.csv", "t.pdf")):
        with pytest.raises(rb.TableError) as failure:
            plain(wrong)
        assert "kestrel" not in str(failure.value) and "AKIA" not in str(failure.value)


@pytest.fixture
def web(in_memory, monkeypatch):
    """A store that says of files what `headers` has, and their size; `put(name, bytes)`."""
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.registry import _registry

    class Web(MemoryFileSystem):
        protocol = "https"
        headers: ClassVar[dict] = {}

        @classmethod
        def _strip_protocol(cls, path):
            return path

        def info(self, path, **options):
            return {"name": path, "type": "file", "size": len(in_memory.cat(self._place(path))), **self.headers}

        def _open(self, path, *args, **options):
            return super()._open(self._place(path), *args, **options)

        @staticmethod
        def _place(path):
            return "/" + re.sub(r"\W", "-", path)

    monkeypatch.setitem(_registry, "https", Web)
    Web.put = lambda path, content: in_memory.pipe(Web._place(path), content)
    return Web


def test_files_of_the_web_are_told_apart_by_what_servers_say(web, tmp_path, one_noise):
    """Otherwise by their size alone, with which promises are not content."""
    here = written(rows(), tmp_path / "t.csv")
    other = here.read_bytes().replace(b".1", b".2")
    address = "https://host/t.csv"
    web.put(address, here.read_bytes())
    assert bits(plain(address)) == bits(plain(here))
    with pytest.raises(rb.TableError, match="version"):
        private(address)
    for header, values in {"ETag": ('"1"', '"2"'), "Last-Modified": ("Mon, 01", "Tue, 02")}.items():
        web.headers = {header: values[0]}
        web.put(address, here.read_bytes())
        assert bits(private(address)) == bits(private(here))
        source = open_table(address, label="ill")
        web.headers = {header: values[1]}
        web.put(address, other)
        with pytest.raises(rb.TableError, match="changed while it was read"):
            list(source.batches())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_call_reads_what_another_one_remembers(ending, web, tmp_path):
    """Two files of one size whose addresses differ in an option; and one that changed since, and has its size."""
    first = written(rows(seed=1), tmp_path / f"a.{ending}")
    text = first.read_bytes()
    second = tmp_path / f"b.{ending}"
    if ending == "csv":
        second.write_bytes(text.replace(b".1", b".2"))
    else:
        table = rows(seed=1)
        written(table.set_column(0, "x0", pa.array(np.asarray(table["x0"])[::-1])), second)
        assert len(text) == second.stat().st_size
    assert bits(plain(first)) != bits(plain(second))
    for headers in ({}, {"ETag": "same"}):
        web.headers = headers
        for name, here in (("a", first), ("b", second)):
            web.put(f"https://host/t.{ending}?file={name}", here.read_bytes())
        for name, here in (("a", first), ("b", second), ("a", first)):
            there = f"https://host/t.{ending}?file={name}"
            assert bits(plain(there)) == bits(plain(here))
            if ending == "parquet":
                (part,) = open_table(there, label="ill").parts()
                assert files.footers.footer(part.path, part.stamp).equals(pq.read_metadata(here))
    web.headers = {}
    web.put(f"https://host/t.{ending}?file=a", second.read_bytes())
    assert bits(plain(f"https://host/t.{ending}?file=a")) == bits(plain(second))
    gc.collect()
    assert not store_files._WINDOWS._windows and not store_files._WINDOWS._bytes and not store_files._WINDOWS._known


def test_a_missing_library_is_named(store, tmp_path, rado, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    line = fails(rado, "craft", "memory://t.csv", "-l", "ill")
    assert "pip install '.[remote]'" in line
    store.put("t.csv", written(rows(30), tmp_path / "t.csv"))
    assert plain("s3://clinic/t.csv").rados.shape == (9, 5)
