"""Dask clusters: the bits of one machine, whatever dies, and no key anywhere."""

import logging
import math
import os
import pickle
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, pairwise
from operator import methodcaller
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from answering import answering
from key_spellings import KEY, PLANTED, found, spellings
from radoboost.cli.craft import MORE_ACCURATE
from radoboost.errors import ArgumentError, ClusterError, NeedsSchema, RadoError, TableError
from radoboost.holder.keystream import make_key
from radoboost.holder.runners import cluster as cluster_module
from radoboost.holder.runners import dask_connection
from radoboost.holder.runners import dask_runner as jobs
from radoboost.holder.runners import dask_runner as runners
from radoboost.holder.runners.dask_connection import WITHHELD, dask_error
from radoboost.holder.runners.worker import PartitionSums
from radoboost.progress import silent
from radoboost.tables import open_table
from row_passes import Rounded, Sum, Total

pytest.importorskip("distributed")
import dask.dataframe as dd
from distributed import Client, LocalCluster

CUTS = (0, 700, 701, 3000, 5003)
BOUNDS = {**{f"c{k}": (-4.0, 4.0) for k in range(4)}, "b": (0.0, 1.0)}
PRIVATE = {"bounds": BOUNDS, "classes": (0, 1)}
PLAIN = {"drop": ["id", "w", "z"], "n_rados": 70}
CASES = {
    "plain": PLAIN,
    "seeded": {**PLAIN, "seed": 3},
    "fixed support": {**PLAIN, "signatures": rb.FixedSupport(0.3)},
    "degree-2": {**PLAIN, "columns": "degree-2"},
    "feature band": {**PLAIN, "mechanism": rb.FeatureBand("b", 3.0)},
    "weights": {**PLAIN, "drop": ["id", "z"], "weights": "w"},
    "noisy rados": {**PRIVATE, "n_rados": 70, "mechanism": rb.NoisyRados(1.0)},
    "noisy examples": {**PRIVATE, "n_rados": 70, "mechanism": rb.NoisyExamples(1.0)},
    "moments": {**PRIVATE, "mechanism": rb.Moments(1.0), "columns": "linear"},
    "degree-2, private": {**PRIVATE, "mechanism": rb.Moments(3.0), "columns": "degree-2"},
    "not sharpened": {**PRIVATE, "mechanism": rb.Moments(3.0, sharpen=False), "columns": "linear"},
    "private bounds": {"drop": PLAIN["drop"], "classes": (0, 1), "mechanism": rb.Moments(3.0), "bounds": "private"},
    "persons": {**PRIVATE, "mechanism": rb.Moments(3.0), "columns": "linear", "person": "id", "max_rows": 2},
    "classes": {"label": "z", "drop": ["id", "w", "y"], "n_rados": 70},
    "exact moments": {"drop": PLAIN["drop"], "mechanism": rb.Moments(math.inf)},
    "moments of classes": {"label": "z", "classes": (0, 1, 2), "bounds": BOUNDS, "mechanism": rb.Moments(3.0)},
}


def some(*names, of=CASES):
    """Cases of which only those named are not slow."""
    return [pytest.param(case, marks=() if case in names else pytest.mark.slow) for case in of]


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CUTS[-1], 4))
    columns = {f"c{k}": x[:, k] for k in range(4)}
    columns |= {"b": (x[:, 1] > 0).astype(float), "id": rng.integers(0, 900, len(x))}
    columns |= {"w": rng.integers(0, 4, len(x))}
    return pa.table({**columns, "y": (x[:, 0] + rng.normal(size=len(x)) > 0) * 1, "z": np.digitize(x[:, 0], [-0.5, 1])})


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    write(table, folder)
    return folder


def write(table, folder):
    for k, (start, stop) in enumerate(pairwise(CUTS)):
        pq.write_table(table.slice(start, stop - start), folder / f"p{k}.parquet", row_group_size=500)


@pytest.fixture
def one_key(monkeypatch):
    """Noise and coins of one key, so that releases can be compared."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: KEY[:size])


def blocks(release):
    return {name: block.tobytes() for name, block in release.blocks.items()}


def crafted(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of values that were clipped
        return flat.craft(table, **{"label": "y", "counts": None, **options})


@pytest.mark.parametrize("case", some("seeded", "classes", "persons"))
def test_files_and_frames_give_the_bits_of_one_machine(case, client, folder, one_key):
    files, options = f"{folder}/*.parquet", CASES[case]
    here = crafted(files, **options)
    there = crafted(files, **options, cluster=client)
    assert blocks(here) == blocks(there)
    if options.get("mechanism", rb.Moments(math.inf)) == rb.Moments(math.inf):  # nothing is promised
        assert blocks(here) == blocks(crafted(dd.read_parquet(files), **options, cluster=client))
    assert "a Dask cluster" in there.statement.trust_model
    assert "cluster" not in here.statement.trust_model
    assert left_behind(client) == []


def left_behind(client):
    """Tasks that the scheduler still knows, once it had time to forget them."""
    for _ in range(600):
        tasks = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        if not tasks:
            break
        time.sleep(0.1)
    return tasks


def hook(monkeypatch, function, before=False):
    """Have a function called whenever a pass was started, or is about to be."""
    start = runners.DaskRunner._started

    @contextmanager
    def hooked(self, collections):
        if before:
            function(self, collections)
        with start(self, collections) as futures:
            if not before:
                function(self, futures)
            yield futures

    monkeypatch.setattr(runners.DaskRunner, "_started", hooked)


# ---- what a table may be


def test_tables_in_memory_are_sent(client, table, one_key):
    frame = table.select(["c0", "c1", "y"]).to_pandas()
    assert blocks(crafted(frame, n_rados=20)) == blocks(crafted(frame, n_rados=20, cluster=client))
    x, y = frame[["c0", "c1"]].to_numpy(), frame["y"].to_numpy()
    assert blocks(crafted(x, y=y, label=None, n_rados=20)) == blocks(
        crafted(x, y=y, label=None, n_rados=20, cluster=client)
    )


def test_a_frame_finds_a_client_or_starts_one(client, table, one_key):
    frame = dd.from_pandas(table.select(["c0", "c1", "y"]).to_pandas(), npartitions=3)
    here = crafted(frame.compute(scheduler="synchronous"), n_rados=20)
    before = threading.active_count()
    alone = crafted(frame, n_rados=20, threads=2)
    assert blocks(here) == blocks(alone)
    assert "cluster" not in alone.statement.trust_model  # it was in this process
    for _ in range(50):
        if threading.active_count() <= before:
            break
        time.sleep(0.1)
    with client.as_current():
        there = crafted(frame, n_rados=20)
    assert blocks(here) == blocks(there)
    assert "a Dask cluster" in there.statement.trust_model
    assert blocks(here) == blocks(crafted(frame, n_rados=20, cluster=client.scheduler.address))
    assert blocks(here) == blocks(crafted(frame, n_rados=20, cluster=client.cluster))


def test_only_columns_that_are_read_are_computed(client, folder):
    frame = dd.read_parquet(f"{folder}/*.parquet")
    frame = frame.map_partitions(lambda part: part, meta=frame._meta)
    run = runners.dask_runner(client, frame, silent, 1, trust_network=False, promises=False)
    crafted(frame, features=["c1"], n_rados=3, cluster=run)
    assert list(client.compute(run._partitions[0]).result().columns) == ["c1", "y"]


def test_texts_of_labels_and_partitions_without_rows(client, table, one_key):
    frame = table.select(["c0", "c1", "y"]).to_pandas()
    frame["y"] = np.where(frame["y"] > 0, "ill", "well")
    parted = dd.from_pandas(frame.assign(n=range(len(frame))), npartitions=4)
    some = parted[parted["n"] > 2000].drop(columns=["n"])
    assert blocks(crafted(some.compute(scheduler="synchronous"), n_rados=9)) == blocks(
        crafted(some, n_rados=9, cluster=client)
    )


def test_a_raw_frame_takes_a_schema(client, one_key):
    frame = pd.DataFrame(
        {"age": [30.0, None, 50.0, 80.0] * 9, "ward": ["A", "B", "A", "C"] * 9, "ill": [0, 1, 1, 0] * 9}
    )
    parted = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(NeedsSchema, match="propose_schema"):
        crafted(parted, label="ill", n_rados=5, cluster=client)
    schema = rb.propose_schema(parted.head(), label="ill", classes=(0, 1))
    assert blocks(crafted(frame, label="ill", n_rados=5, schema=schema)) == blocks(
        crafted(parted, label="ill", n_rados=5, schema=schema, cluster=client)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"y": [0, 1], "label": None}, "label"),
        ({"weights": [1, 2]}, "weights"),
        ({"missing": "drop"}, "drop"),
        ({"unlabelled": "drop"}, "unlabelled"),
        ({"cluster": "spark://localhost:7077"}, "Spark"),
        ({"cluster": "tcp://10.1.2.3:8786"}, "encrypted"),
        ({"cluster": "nowhere"}, "address"),
    ],
)
def test_what_makes_no_sense_for_a_frame_is_refused(options, words, table):
    frame = dd.from_pandas(table.select(["c0", "y"]).to_pandas(), npartitions=2)
    with pytest.raises(ArgumentError, match=words) as failure:
        crafted(frame, **options)
    assert "\n" not in str(failure.value)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, of pandas
@pytest.mark.parametrize("case", ["noisy rados", "noisy examples", "moments", "feature band", "persons"])
def test_a_promise_needs_files_and_computes_nothing_of_a_frame(case, client, folder, tmp_path, one_key):
    """Whatever its steps, whichever runner there is; the files that the line asks for are taken."""
    frame, options = dd.read_parquet(f"{folder}/*.parquet"), CASES[case]
    run = runners.dask_runner(client, None, silent, 1, trust_network=False, promises=False)
    for rows in (frame, frame.map_partitions(lambda part: 1 / 0, meta=frame._meta)):
        for cluster in (client, run, None):
            with pytest.raises(ArgumentError, match=r"frame.to_parquet.*Compute\(cluster=client\)") as failure:
                crafted(rows, **options, cluster=cluster)
            assert "\n" not in str(failure.value)
    frame.to_parquet(tmp_path / "visits", write_index=False)
    there = crafted(tmp_path / "visits", **options, cluster=client)
    assert blocks(crafted(f"{folder}/*.parquet", **options)) == blocks(there)


# ---- what goes wrong with rows


def test_a_bad_value_on_a_worker_has_the_line_of_one_machine(client, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = table["c1"].to_numpy().copy()
    x[[4000, 4500]] = np.nan
    bad = table.set_column(1, "c1", pa.array(x))
    write(bad, tmp_path)
    with pytest.raises(TableError) as here:
        crafted("*.parquet", **PLAIN, missing="error")
    with pytest.raises(TableError) as there:
        crafted("*.parquet", **PLAIN, missing="error", cluster=client)
    assert str(here.value) == str(there.value)
    frame = bad.to_pandas()
    parted = dd.from_pandas(frame, npartitions=5)
    with pytest.raises(TableError) as there:
        crafted(parted, **PLAIN, cluster=client)
    assert "row 4,001" in str(there.value)
    assert left_behind(client) == []


def test_a_third_class_has_the_line_of_one_machine(client, folder):
    with pytest.raises(RadoError) as here:
        crafted(f"{folder}/*.parquet", **{**PLAIN, "drop": ["y", "w", "id"]}, label="z", classes=(0, 1))
    with pytest.raises(RadoError) as there:
        crafted(f"{folder}/*.parquet", **{**PLAIN, "drop": ["y", "w", "id"]}, label="z", classes=(0, 1), cluster=client)
    assert str(here.value) == str(there.value)


def test_a_part_that_has_other_rows_the_next_time_is_refused(client, table, tmp_path):
    marker = tmp_path / "read"

    def changing(part):
        if len(part) and marker.exists():
            return part.iloc[:-1]
        marker.touch()
        return part

    frame = dd.from_pandas(table.select(["c0", "c1", "y"]).to_pandas(), npartitions=1)
    with pytest.raises(TableError, match="5,003 rows at first and 5,002"):
        crafted(frame.map_partitions(changing, meta=frame._meta), n_rados=5, cluster=client)


def test_a_file_that_workers_cannot_see(client, table, tmp_path, monkeypatch):
    write(table, tmp_path)
    gone = tmp_path / "p3.parquet"
    hook(monkeypatch, lambda run, futures: gone.unlink(missing_ok=True), before=True)
    with pytest.raises(TableError, match=rf"worker .* {gone}"):
        crafted(f"{tmp_path}/*.parquet", **PLAIN, cluster=client)


# ---- what goes wrong with the cluster


def worker_pids(client):
    return list(client.run(os.getpid).values())


def test_a_worker_that_dies_changes_no_bit(client, table, tmp_path, one_key):
    frame = dd.from_pandas(table.select(["c0", "c1", "y"]).to_pandas(), npartitions=6)
    marker = tmp_path / "died"

    def deadly(part, partition_info=None):
        if partition_info and partition_info["number"] == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    before = worker_pids(client)
    there = crafted(frame.map_partitions(deadly, meta=frame._meta), n_rados=20, cluster=client)
    assert blocks(there) == blocks(crafted(frame.compute(scheduler="synchronous"), n_rados=20))
    client.wait_for_workers(2, timeout=300)
    assert len(set(before) - set(worker_pids(client))) == 1


@pytest.mark.slow
def test_both_workers_die_while_rows_are_kept(client, folder, one_key, monkeypatch):
    passes = []

    def kill(run, futures):
        passes.append(len(futures))
        if len(passes) == 8:  # rows are kept by now, and mean rados are under way
            assert len(run._held) == len(CUTS) - 1
            passes.extend(worker_pids(client))
            for pid in passes[-2:]:
                os.kill(pid, signal.SIGKILL)

    files, options = f"{folder}/*.parquet", CASES["moments"]
    here = crafted(files, **options)
    hook(monkeypatch, kill)
    assert blocks(here) == blocks(crafted(files, **options, cluster=client))
    client.wait_for_workers(2, timeout=300)
    assert not set(passes[8:10]) & set(worker_pids(client))
    assert left_behind(client) == []


@pytest.mark.slow
def test_kept_rows_make_room_for_those_that_are_made_of_them(client, folder, one_key, monkeypatch):
    runs, options = [], CASES["degree-2, private"]
    hook(monkeypatch, lambda run, futures: runs.append(sum(piece.future is not None for piece in run._held)))
    crafted(f"{folder}/*.parquet", **options, cluster=client)
    assert max(runs) == len(CUTS) - 1


def test_rows_that_were_let_go_are_made_again(client, folder, one_key):
    """No mechanism reads them again, but a runner may be asked to."""
    from radoboost.holder.aggregation import CountRows
    from radoboost.holder.engines import get_engine

    source = open_table(f"{folder}/*.parquet", label="y", features=["c0", "c1"], row_by_row=True)
    run = runners.dask_runner(client, None, silent, 1, trust_network=False, promises=True)
    first = run.keep(source, Rounded(1), 5003)
    second = run.keep(first, Rounded(2), 5003)
    assert get_engine("reference")  # the worker's proof is not asked for without an engine
    made = run.keep(first, Rounded(3), None)
    assert [run.run(CountRows(), rows).n_rows for rows in (first, second, made)] == [5003] * 3
    assert run.run(Total(), second).total == run.run(Total(), first).total * 2
    run.close()
    assert left_behind(client) == []


def test_ctrl_c_leaves_no_task_behind(client, table, caplog, monkeypatch):
    monkeypatch.setattr(runners, "FAN_IN", 2)  # merges in between, which nobody waits for
    frame = dd.from_pandas(table.select(["c0", "c1", "y"]).to_pandas(), npartitions=12)
    slow = frame.map_partitions(lambda part: time.sleep(0.2) or part, meta=frame._meta)
    monkeypatch.setattr(runners.DaskRunner, "tell", lambda *about: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what started the tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            crafted(slow, n_rados=20, cluster=client)
    finally:
        signal.signal(signal.SIGINT, before)
    assert left_behind(client) == []
    assert "AssertionError" not in f"{caplog.text}{client.get_scheduler_logs()}"


def test_a_failure_is_one_line_and_leaves_no_task_behind(client, table):
    frame = dd.from_pandas(table.select(["c0", "c1", "y"]).to_pandas(), npartitions=3)
    broken = frame.map_partitions(lambda part: 1 / 0, meta=frame._meta)
    with pytest.raises(ClusterError, match="ZeroDivisionError"):
        crafted(broken, n_rados=20, cluster=client)
    assert left_behind(client) == []


def test_what_a_cluster_raises_is_explained_in_one_line():
    from concurrent.futures import CancelledError

    from distributed.comm import CommClosedError

    def caused(error, cause):
        error.__cause__ = cause
        return error

    killed = type("KilledWorker", (Exception,), {})("part", "tcp://127.0.0.1:1")
    lines = {
        "died": killed,
        "dropped": CancelledError(),
        "cannot reach the Dask cluster at tcp://h:1": CommClosedError("closed"),
        "has no radoboost": caused(RuntimeError("graph\nnot read"), ModuleNotFoundError("x", name="radoboost.holder")),
        "no TLS connection": TypeError("TLS expects a `ssl_context` argument"),
        "too little memory": MemoryError(),
        "FileNotFoundError: no such file": FileNotFoundError("no such file"),
        "KeyError: 'a b'": KeyError("a\nb"),
    }
    for words, error in lines.items():
        line = str(dask_error(error, "tcp://h:1"))
        assert words.replace("a b", "a\\nb") in line
        assert "\n" not in line


def test_a_column_for_the_label_is_refused_text(table):
    frame = dd.from_pandas(table.select(["c0", "y"]).to_pandas(), npartitions=2)
    with pytest.raises(ArgumentError, match="Series"):
        rb.craft(frame, label=frame["y"])


def test_a_cluster_that_is_not_there(folder, rado):
    command = ["craft", f"{folder}/*.parquet", "--label", "y", "-o", "a.rado.parquet", "--cluster", "tcp://127.0.0.1:9"]
    code, _, err = rado(*command)
    assert code == 1 and "tcp://127.0.0.1:9" in err and err.count("\n") == 1
    assert not list(Path().iterdir())


@pytest.mark.parametrize("says", [None, b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_what_answers_is_no_scheduler(folder, rado, monkeypatch, says):
    """Something that says nothing, that closes at once, and that says something else: one line, soon."""
    monkeypatch.setattr(dask_connection, "_CONNECTING", 0.3)
    began = time.monotonic()
    with answering(says) as port:
        address = f"tcp://127.0.0.1:{port}"
        code, _, err = rado("craft", f"{folder}/*.parquet", "-l", "y", "-o", "a.rado.parquet", "--cluster", address)
    assert code == 1 and err.startswith(f"rado: what answers at {address} is no Dask scheduler")
    assert ("too busy" in err or says is not None) and "its port is usually 8786" in err and err.count("\n") == 1
    assert time.monotonic() - began < 60 and not list(Path().iterdir())


def test_networks_that_are_not_encrypted_are_refused(folder, monkeypatch, client):
    with pytest.raises(ArgumentError, match=r"tcp://10.1.2.3:8786 is not encrypted"):
        crafted(f"{folder}/*.parquet", **PLAIN, cluster="tcp://10.1.2.3:8786")
    monkeypatch.setattr(client, "nthreads", lambda: {"tls://10.1.2.3:1": 1, "tcp://10.1.2.4:1": 1})
    with pytest.raises(ArgumentError, match=r"tcp://10.1.2.4:1 is not encrypted"):
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)
    crafted(f"{folder}/*.parquet", **PLAIN, cluster=client, trust_network=True)


@contextmanager
def late_worker(client, monkeypatch, *options, before=True, number=0):
    """A list that gets the address of a worker elsewhere: it joins when the pass of a number begins, or was begun.

    Another address of this machine stands for one elsewhere.
    """
    real, joined, started = cluster_module.is_loopback_address, [], []
    for module in (cluster_module, dask_connection):
        monkeypatch.setattr(module, "is_loopback_address", lambda address: "127.0.0.2" not in address and real(address))
    command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--host", "127.0.0.2"]

    passes = count()

    def join(run, futures):
        if next(passes) == number:
            command.extend(["--no-nanny", "--no-dashboard", *options])
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            until(lambda: elsewhere(client))
            joined.extend(elsewhere(client))

    hook(monkeypatch, join, before)
    try:
        yield joined
    finally:
        for process in started:
            process.terminate()
            process.wait()
        until(lambda: not elsewhere(client))


def elsewhere(client):
    return [address for address in client.nthreads() if "127.0.0.2" in address]


def until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def test_a_worker_elsewhere_that_comes_later_gets_nothing(folder, monkeypatch, client):
    """Not even where nobody sees it: tasks are for the hosts of this machine."""
    with late_worker(client, monkeypatch) as joined, monkeypatch.context() as blind:
        blind.setattr(dask_connection, "check_dask_addresses", lambda addresses, trust_network: None)
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)
        log = client.run(lambda dask_worker: str(dask_worker.state.log), workers=joined)[joined[0]]
        assert "radoboost" not in log


@pytest.mark.parametrize("last", some(True, of=[False, True]))
def test_a_worker_elsewhere_that_comes_later_ends_it(folder, monkeypatch, client, last):
    """However soon a pass is over: rows that are kept go to any worker, if the one that has them retires."""
    passes = []
    with monkeypatch.context() as counting:
        hook(counting, lambda run, futures: passes.append(run))
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)
    assert len(passes) > 1
    with (
        late_worker(client, monkeypatch, before=not last, number=len(passes) - 1 if last else 0),
        pytest.raises(ArgumentError, match=r"tcp://127.0.0.2:\d+ is not encrypted"),
    ):
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)


def test_a_worker_that_is_called_like_a_host_is_refused(folder, monkeypatch, client):
    """Dask would take it for the workers of that host, and give it their tasks; that it is elsewhere is not seen."""
    monkeypatch.setattr(dask_connection, "check_dask_addresses", lambda addresses, trust_network: None)
    with (
        late_worker(client, monkeypatch, "--name", "localhost"),
        pytest.raises(ArgumentError, match="called localhost"),
    ):
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)


@pytest.mark.slow
def test_a_cluster_without_workers_is_not_waited_for_forever(folder, monkeypatch):
    monkeypatch.setattr(runners, "PATIENCE", 3.0)
    monkeypatch.setattr(runners, "_LONELY", 0.2)
    monkeypatch.setattr(runners, "_CALM", 0.1)
    shown = []
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        pytest.raises(ClusterError, match="no worker"),
    ):
        crafted(f"{folder}/*.parquet", **PLAIN, cluster=cluster, progress=lambda *told: shown.append(told))
    assert ("no worker yet: waiting", 0, None) in shown


def test_a_worker_of_another_version_is_refused(monkeypatch):
    sealed = jobs.SealedPayload(1)
    monkeypatch.setattr(jobs, "__version__", "9.9")
    state = jobs.dask_sum_job(sealed, None)
    assert "has radoboost 9.9, and this machine" in str(state.refusal.error)
    assert "9.9" in str(jobs.dask_keep_job(sealed, None).refusal)
    assert "9.9" in str(jobs.dask_map_job(sealed, None).error)


def test_merges_form_a_tree_and_change_no_argument(client, monkeypatch, folder, tmp_path, table):
    sizes = []
    monkeypatch.setattr(runners, "FAN_IN", 2)
    hook(monkeypatch, lambda run, futures: sizes.append(len(futures)))
    crafted(f"{folder}/*.parquet", **PLAIN, cluster=client)
    assert sizes == [5, 5]
    states = [PartitionSums(Sum(k), {k: 1}) for k in range(3)]
    before = pickle.dumps(states)
    assert jobs.dask_merge_job(*states).sums.total == 3
    assert pickle.dumps(states) == before


# ---- words


def test_words_of_dask_are_withheld_where_something_is_promised(client):
    failure = ValueError("could not convert string to float: 'SSN 123-45'")
    assert str(dask_error(failure, "tcp://h:1", withheld=True)) == WITHHELD
    assert "SSN" in str(dask_error(failure, "tcp://h:1"))
    assert "SSN" not in str(dask_error(ImportError("SSN 123-45"), "tcp://h:1", withheld=True))
    run = runners.dask_runner(client, None, silent, 1, trust_network=False, promises=True)
    with pytest.raises(ClusterError) as told, run._in_one_line():
        raise failure
    assert str(told.value) == WITHHELD


def test_a_job_that_fails_gives_a_refusal_without_words():
    sealed = jobs.SealedPayload([(0, Broken(), 0)], 5, rb.holder.aggregation.CountRows(), withheld=True)
    assert str(jobs.dask_sum_job(sealed, None).refusal.error) == WITHHELD
    assert str(jobs.dask_keep_job(sealed, None).refusal) == WITHHELD
    assert (
        str(jobs.dask_map_job(jobs.SealedPayload([(0, Broken(), 0)], 0, Broken(), withheld=True), None).error)
        == WITHHELD
    )
    with pytest.raises(ValueError, match="SSN"):
        jobs.dask_sum_job(jobs.SealedPayload([(0, Broken(), 0)], 5, rb.holder.aggregation.CountRows()), None)


class Broken:
    """A part that cannot be read, and work that cannot be done."""

    def batches(self, rows):
        raise ValueError("SSN 123-45")

    def __call__(self, part):
        raise ValueError("SSN 123-45")


# ---- keys


def test_keys_are_nowhere_to_be_seen(client, folder, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    keys, texts, read = [], [], []
    draw = secrets.token_bytes
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: keys.append(draw(size)) or keys[-1])

    def look(run, futures):
        texts.append(client.run_on_scheduler(everything_on_the_scheduler))
        for place, page in pages(client, [future.key for future in futures]):
            read.append(place)
            texts.append(page)

    hook(monkeypatch, look)
    files = f"{folder}/*.parquet"
    for case in ("seeded", "noisy rados", "noisy examples", "persons"):
        crafted(files, **CASES[case], cluster=client)
    crafted(dd.read_parquet(files), **PLAIN, cluster=client)
    keys.append(b"".join([make_key(3)]))
    failing = client.submit(jobs.dask_merge_job, jobs.SealedPayload(*keys), jobs.SealedPayload(1), key="f")
    assert failing.exception() is not None
    texts.append(client.run_on_scheduler(everything_on_the_scheduler))
    texts += [all_logs(client), caplog.text]
    failing.release()
    said = "\n".join(texts).encode()
    assert b"radoboost-sum" in said
    assert b"Sealed(...)" in said  # arguments are shown somewhere, without what is in them
    assert len(keys) > 10
    assert {"info/main/workers.html", "info/main/logs.html", "metrics"} <= set(read)
    assert any(place.startswith("info/task/") for place in read)
    assert {name for key in keys for name in found(said, key)} == set()


def test_a_key_that_is_shown_is_found(client):
    """In the log of a worker, however it is written, and in an argument of a task."""
    ways = {name: way for name, way in spellings(PLANTED).items() if name not in ("raw", "latin-1 in UTF-8")}

    def tell(texts):
        for text in texts:
            logging.getLogger("distributed.worker").error(text)

    client.run(tell, [way.decode() for way in ways.values()])
    logged = "\n".join(line for lines in client.get_worker_logs().values() for _, line in lines)
    assert set(ways) <= set(found(logged.encode(), PLANTED))
    assert "repr" in found(all_logs(client).encode(), PLANTED) or "hex" in found(all_logs(client).encode(), PLANTED)
    planted = client.submit(len, PLANTED, key="planted")
    assert planted.result() == 32
    assert "repr" in found(client.run_on_scheduler(everything_on_the_scheduler).encode(), PLANTED)
    planted.release()


def all_logs(client):
    """Whatever the scheduler and its workers noted."""
    logs = [client.get_worker_logs(), client.get_scheduler_logs(), client.get_events()]
    return "\n".join(map(str, [*logs, client.run(lambda dask_worker: repr(dask_worker.state.log))]))


def everything_on_the_scheduler(dask_scheduler):
    tasks = dask_scheduler.tasks.values()
    return "\n".join(f"{task!r} {task.run_spec!r} {task.annotations!r} {task.metadata!r}" for task in tasks)


PLACES = ("info/main/workers.html", "info/main/logs.html", "json/counts.json", "metrics")


def pages(client, names, places=PLACES):
    """Pages of the scheduler's server that tell of tasks; one that is not there is none."""
    port = client.scheduler_info()["services"]["dashboard"]
    for place in [*places, *(f"info/task/{name}.html" for name in names[:2])]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{place}", timeout=120) as page:
                yield place, page.read().decode()
        except urllib.error.HTTPError as error:  # of a task that the scheduler forgot by now
            error.close()


# ---- predictions


@pytest.fixture(scope="module")
def models(folder):
    files = f"{folder}/*.parquet"
    two, three = crafted(files, **PLAIN, seed=1), crafted(files, **CASES["classes"], seed=1)
    return [rb.MomentsClassifier().fit_rados(release).model_ for release in (two, three)]


def test_predictions_of_a_frame_are_another_frame(client, folder, models):
    frame = dd.read_parquet(f"{folder}/*.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about Dask
        rows = frame.compute(scheduler="synchronous")
    for model in models:
        lazy = rb.predict_partitions(model, frame)
        assert lazy.npartitions == frame.npartitions
        found = client.compute(lazy).result()
        pd.testing.assert_frame_equal(found.iloc[:0], lazy._meta)
        assert found.index.equals(rows.index)
        assert found["prediction"].tolist() == model.predict(rows).tolist()
        probabilities = [name for name in found if name.startswith("probability")]
        assert np.array_equal(found[probabilities].to_numpy()[:, -1], model.predict_proba(rows)[:, -1])
    with pytest.raises(ArgumentError, match="takes a Dask data frame"):
        rb.predict_partitions(models[0], rows)
    with pytest.raises(ArgumentError, match="the frame has no column 'c0'"):
        rb.predict_partitions(models[0], frame[["c1"]])


@pytest.mark.parametrize("shell", [rb.MomentsClassifier])
def test_a_shell_collects_no_frame_silently(shell, table):
    rows = table.select(["c0", "c1"]).to_pandas()
    fitted = shell().fit(rows, table["y"].to_numpy())
    frame, rows = dd.from_pandas(rows, npartitions=2), rows.head(9)
    y = table["y"].to_numpy()
    calls = [fitted.predict, fitted.predict_proba, fitted.decision_function, lambda x: fitted.score(x, y[: len(x)])]
    for call in calls:
        call(rows)
        with pytest.raises(ArgumentError, match="predict_partitions"):
            call(frame)


@pytest.mark.parametrize("ending", some("csv", of=["csv", "parquet"]))
def test_rado_predict_writes_the_same_bytes(ending, client, folder, models, rado):
    address = client.scheduler.address
    for k, model in enumerate(models):
        model.save("m.model.json")
        command = [
            "predict",
            "m.model.json",
            f"{folder}/*.parquet",
            "--label",
            "yz"[k],
            "--keep",
            "id",
            "--json",
            "--force",
        ]
        here = rado(*command, "-o", f"here.{ending}")
        there = rado(*command, "-o", f"there.{ending}", "--cluster", address)
        assert here[0] == there[0] == 0
        assert here[1].replace("here.", "there.") == there[1]
        assert here[2] == there[2]
        assert Path(f"here.{ending}").read_bytes() == Path(f"there.{ending}").read_bytes()
    assert left_behind(client) == []


def test_predictions_wait_for_one_another(client, folder, models, tmp_path, monkeypatch):
    """Only a few parts are under way at once, a large model is sent once, and a refusal has the line of one machine."""
    monkeypatch.setattr(runners, "SMALL_WORK", 0)
    source = open_table(f"{folder}/*.parquet", label="y", features=["c0"])
    source = replace(source, pieces=list(source.pieces) * 10)
    run = runners.dask_runner(client, None, silent, 1, trust_network=False, promises=False)
    results = run.map_parts(methodcaller("count"), source)
    assert next(results) == 700
    assert len(client.futures) <= 2 * 2 + 2 + 1
    assert [700, *results] == [piece.n_rows for piece in source.pieces]
    assert left_behind(client) == []
    stop = run.map_parts(methodcaller("count"), source)
    next(stop)
    stop.close()
    assert left_behind(client) == []


def test_a_bad_value_stops_predictions_as_on_one_machine(client, table, models, rado):
    x = table["c1"].to_numpy().copy()
    x[4000] = np.inf
    write(table.set_column(1, "c1", pa.array(x)), Path())
    models[0].save("m.model.json")
    here = rado("predict", "m.model.json", "p?.parquet", "-o", "s.csv")
    there = rado("predict", "m.model.json", "p?.parquet", "-o", "s.csv", "--cluster", client.scheduler.address)
    assert here == there
    assert here[0] == 1
    assert "row 1,001 of p3.parquet" in here[2]
    assert not Path("s.csv").exists()


# ---- the command


@pytest.mark.slow
def test_rado_craft_on_a_cluster(client, folder, rado, one_key):
    files = f"{folder}/*.parquet"
    command = ["craft", files, "--label", "y", "--drop", "id", "--drop", "w", "--drop", "z", "-n", 30]
    code, _, err = rado(*command, "-o", "there.rado.parquet", "--cluster", client.scheduler.address)
    assert (code, err) == (0, f"rado: {MORE_ACCURATE}\n")
    rado(*command, "-o", "here.rado.parquet")
    assert blocks(rb.load("here.rado.parquet")) == blocks(rb.load("there.rado.parquet"))
    assert "a Dask cluster" in rado("show", "there.rado.parquet")[1]
