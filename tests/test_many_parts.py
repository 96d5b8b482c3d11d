"""Real clusters with many more parts than places: merges by a deep tree, tasks with several parts, and their deaths."""

import os
import pickle
import secrets
import shutil
import signal
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import flat
from radoboost.errors import TableError
from radoboost.holder.aggregation import CountRows, RowCount
from radoboost.holder.runners import dask_runner as dask_module
from radoboost.holder.runners import spark_runner
from radoboost.holder.runners import spark_runner as spark_module
from radoboost.holder.runners.worker import PartitionSums, WorkerError
from radoboost.progress import silent
from radoboost.tables import open_table, spark_jobs
from row_passes import Rounded, Total
from test_clusters import CASES, EXTRA, TABLE, files_of, moments, small_parts

KEY = bytes(range(32))
MANY = 16  # parts at least
BRIEF = {"sharpen": False}  # few passes
ALL = {
    **CASES,
    "plan": moments(of=BRIEF),
    "degree-2": moments(of=BRIEF, columns="degree-2"),
    "label": moments(of={**BRIEF, "unit": "label"}, columns="linear"),
    "replace": moments(of={**BRIEF, "relation": "replace"}, columns="linear"),
    "private bounds": moments(of=BRIEF, bounds="private", drop=EXTRA, columns="linear"),
}
HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ
needs_java = pytest.mark.skipif(not HAS_JAVA, reason="Spark needs Java, which is not installed")


@pytest.fixture(autouse=True)
def one_key(monkeypatch):
    """The operating system gives one key for everything; parts are few row groups each."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size=32: KEY[:size])
    monkeypatch.setattr(secrets, "token_hex", lambda size=16: "00" * size)
    with small_parts(), spark_jobs.silence_pyspark_warnings():
        yield


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return files_of(TABLE, tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def crafted(paths, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of values that were clipped
        return flat.craft(paths, **options)


def same(paths, cluster, **options):
    """The release of a cluster, whose blocks and columns are those of one machine to the last bit."""
    here, there = crafted(paths, **options, threads=1), crafted(paths, **options, cluster=cluster)
    assert list(here.blocks) == list(there.blocks)
    for name, block in here.blocks.items():
        assert block.tobytes() == there.blocks[name].tobytes(), name
    assert here.columns == there.columns
    assert here.n_examples == there.n_examples


def test_there_are_many_parts(paths):
    assert len(open_table(paths, label="y", features=["a", "b"]).pieces) >= MANY


def assert_kept_sums_are_right(run, paths):
    """Rows that are kept by many parts have the sum that they have here."""
    table = open_table(paths, label="y", features=["a", "b"], row_by_row=True)
    values = np.column_stack([TABLE["a"].to_numpy(), TABLE["b"].to_numpy()])
    kept = run.keep(table, Rounded(3), TABLE.num_rows)
    assert run.run(Total(), kept).total == 3 * int((values * 100).astype(np.int32).sum())
    assert run.run(CountRows(), kept).n_rows == TABLE.num_rows
    run.close()


# ---- Dask


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_dask_merges_by_a_deep_tree(dask, paths, monkeypatch, name):
    sizes = []
    monkeypatch.setattr(dask_module, "FAN_IN", 2)
    groups = dask_module.DaskRunner._groups

    def noted(self, pieces):
        found = groups(self, pieces)
        sizes.extend(map(len, found))
        return found

    monkeypatch.setattr(dask_module.DaskRunner, "_groups", noted)
    same(paths, dask, **ALL[name])
    if name == "moments":
        assert max(sizes) >= 3  # kept rows go to tasks with several parts


@pytest.mark.slow
def test_a_dask_worker_dies_with_several_parts(dask, paths, monkeypatch, tmp_path):
    marker = str(tmp_path / "died")

    def deadly(job, shared, *lent):
        import os
        from pathlib import Path

        from radoboost.holder.runners.dask_runner import dask_sum_job

        state = dask_sum_job(job, shared, *lent)
        if len(state.rows) > 1 and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return state

    monkeypatch.setattr(dask_module, "dask_sum_job", deadly)
    run = dask_module.dask_runner(dask, None, silent, 1, trust_network=False, promises=True)
    assert_kept_sums_are_right(run, paths)
    assert os.path.exists(marker)
    dask.wait_for_workers(2, timeout=300)


# ---- Spark


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_spark_has_several_parts_in_a_partition(request, paths, monkeypatch, name):
    pytest.importorskip("pyspark")
    spark, states = request.getfixturevalue("spark"), []

    def noted(*arguments, **options):
        table = spark_jobs.collect_spark_frame(*arguments, **options)
        if "state" in table.column_names:
            states.extend(len(pickle.loads(state.as_buffer()).rows) for state in table.column("state"))
        return table

    monkeypatch.setattr(spark_module, "collect_spark_frame", noted)
    same(paths, spark, **ALL[name])
    assert max(states) >= 2
    assert min(states) >= 1


@pytest.mark.slow
@needs_java
def test_a_spark_worker_dies_with_several_parts(request, paths, monkeypatch, tmp_path):
    """Once all parts of its task are summed: of files, and of rows that are kept."""
    pytest.importorskip("pyspark")
    spark = request.getfixturevalue("spark")
    names = ["spark_sum_cached_rows", "spark_sum_jobs"]
    for name in names:
        whole = getattr(spark_runner, name)
        monkeypatch.setattr(spark_module, name, dying_at_last(whole, tmp_path / name, pickle.loads))
    same(paths, spark, **CASES["noisy-rados"])
    assert_kept_sums_are_right(
        spark_module.spark_runner(spark, None, silent, 1, trust_network=False, promises=True), paths
    )
    assert sorted(os.listdir(tmp_path)) == names


def dying_at_last(function, marker, loads):
    """The same work, but the worker dies before it hands over the first state of several parts."""
    marker = str(marker)

    def work(content, batches):
        import os
        from pathlib import Path

        for batch in function(content, batches):
            if len(loads(batch.column("state")[0].as_buffer()).rows) > 1 and not Path(marker).exists():
                Path(marker).touch()
                os._exit(1)
            yield batch

    return work


def jobs(pieces, numbers):
    """Rows that describe jobs, two to a batch."""
    payloads = [pickle.dumps((None, pieces[number], 0, 100)) for number in numbers]
    table = pa.table({"number": pa.array(numbers, pa.int32()), "payload": pa.array(payloads, pa.binary())})
    return table.to_batches(max_chunksize=2)


def states_of(batches):
    return [pickle.loads(state.as_buffer()) for batch in batches for state in batch.column("state")]


class Piece:
    """A part of so many rows, or one that is refused."""

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def batches(self, rows):
        if self.n_rows < 0:
            raise TableError(f"refused {self.n_rows}")
        yield RowCount(self.n_rows)


def test_a_task_hands_over_one_state_that_names_its_parts():
    pieces, shared = [Piece(5), Piece(0), Piece(7), Piece(-1), Piece(-2)], spark_runner.spark_payload(CountRows())
    (state,) = states_of(spark_runner.spark_sum_jobs(shared, jobs(pieces, [2, 0, 1])))
    assert (state.sums.n_rows, dict(state.rows), state.refusal) == (12, {0: 5, 1: 0, 2: 7}, None)
    (state,) = states_of(spark_runner.spark_sum_jobs(shared, jobs(pieces, [4, 2, 3])))
    assert (state.sums, state.refusal.part, str(state.refusal.error)) == (None, 3, "refused -1")
    (state,) = states_of(spark_runner.spark_sum_jobs(shared, jobs(pieces, [2, 0, 2])))
    assert "counted part 3 of the table twice" in str(state.refusal.error)
    assert states_of(spark_runner.spark_sum_jobs(shared, [])) == []


def test_a_task_over_kept_rows_hands_over_one_state():
    rows = [np.ones((2, n), np.int32) for n in (3, 4, 5)]
    work = spark_runner.spark_payload(
        spark_runner.SparkTask(CountRows(), [spark_runner.KeptThere(n) for n in (7, 5)], [0, 0], 100)
    )

    def kept(*numbers):
        return [
            spark_runner._spark_row_of_batch(part, rows[k].shape[1], 2, rows[k].tobytes(), None) for part, k in numbers
        ]

    (state,) = states_of(spark_runner.spark_sum_cached_rows(work, kept((0, 0), (0, 1), (1, 2))))
    assert (state.sums.n_rows, dict(state.rows)) == (12, {0: 7, 1: 5})
    (state,) = states_of(spark_runner.spark_sum_cached_rows(work, kept((0, 0), (1, 2), (0, 1))))
    assert "counted part 1 of the table twice" in str(state.refusal.error)


def test_states_that_share_a_part_or_lack_one_are_refused(paths):
    run = spark_module.SparkRunner(None, False, lambda *told: None, 1)
    table = open_table(paths, label="y", features=["a", "b"])
    few = replace(table, pieces=table.pieces[:4])

    def merged(*parts):
        states = [PartitionSums(RowCount(1), dict.fromkeys(some, 1)) for some in parts]
        return run._merged(pa.table({"state": [pickle.dumps(state) for state in states]}), few)

    assert merged([0, 1], [2, 3]).sums.n_rows == 2
    assert isinstance(merged([0, 1], [1, 2, 3]).refusal, WorkerError)
    with pytest.raises(TableError, match="another number when read again"):
        merged([0, 1], [3])


def test_large_states_come_in_fewer_tasks(monkeypatch):
    asked = []

    class Context:
        defaultParallelism = 4

        def parallelize(self, rows, count):
            asked.append(count)

    class Session:
        sparkContext = Context()

        def createDataFrame(self, rows, schema):
            return None

    run = spark_module.SparkRunner(Session(), False, lambda *told: None, 1)
    monkeypatch.setattr(spark_module, "is_spark_connect", lambda session: False)
    for size in (0, spark_module._MOST_STATES // 7, 1 << 40):
        run._rows_of_jobs([b""] * 100, size)
    assert asked == [12, 7, 4]
    assert spark_module._bytes_of_spark_state(CountRows()) < 1000
