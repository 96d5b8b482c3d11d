"""Spark: the same bytes as on one machine, whatever becomes of tasks; and what is refused, in one line."""

import logging
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flat
import radoboost as rb
from key_spellings import KEY, PLANTED, found, spellings
from radoboost.cli.craft import MORE_ACCURATE
from radoboost.cli.predict import predict_on_cluster
from radoboost.errors import ClusterError
from radoboost.holder.keystream import Key, make_key, pickle_without_fresh_keys
from radoboost.holder.runners import spark_runner
from radoboost.holder.runners import spark_runner as runner_module
from radoboost.holder.runners.cluster import check_cluster_network
from radoboost.holder.runners.spark_connection import spark_network
from radoboost.progress import silent
from radoboost.tables import spark_jobs
from radoboost.tables.spark_jobs import cut_spark_batches_by_rows, spark_row_bytes
from spark_cluster import JAVA, LOG4J, MASTER

pyspark = pytest.importorskip("pyspark")
pytestmark = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java, which is not installed"
)
CUTS = [0, 300, 301, 900, 1507]
BOUNDS = {"c0": (-4.0, 4.0), "c1": (-4.0, 4.0), "c2": (-4.0, 4.0), "b": (0.0, 1.0)}
PRIVATE = {"bounds": BOUNDS, "classes": (0, 1)}
CASES = {
    "plain": {"drop": ["id", "z"]},
    "seeded": {"drop": ["id", "z"], "seed": 3},
    "fixed support": {"drop": ["id", "z"], "signatures": rb.FixedSupport(0.3)},
    "feature band": {"drop": ["id", "z"], "mechanism": rb.FeatureBand("b", 3.0)},
    "degree-2": {"drop": ["id", "z"], "columns": "degree-2"},
    "three classes": {"drop": ["id", "y"], "label": "z"},
    "noisy rados": {"mechanism": rb.NoisyRados(1.0), **PRIVATE},
    "noisy examples": {"mechanism": rb.NoisyExamples(1.0), **PRIVATE},
    "persons": {"mechanism": rb.NoisyRados(1.0), **PRIVATE, "person": "id", "max_rows": 2},
    "moments": {"mechanism": rb.Moments(1.0), "n_rados": None, **PRIVATE},
    "moments of degree 2": {
        "mechanism": rb.Moments(3.0, sharpen=False), "n_rados": None, **PRIVATE, "columns": "degree-2",
    },
    "exact moments": {"drop": ["id", "z"], "n_rados": None, "mechanism": rb.Moments(math.inf)},
    "moments of three classes": {
        "mechanism": rb.Moments(3.0, sharpen=False), "n_rados": None, "bounds": BOUNDS, "classes": (0, 1, 2),
        "label": "z",
    },
}  # fmt: skip


PROMISED = [
    name for name, options in CASES.items() if options.get("mechanism", rb.Moments(math.inf)) != rb.Moments(math.inf)
]


def some(*names, of=CASES):
    """Cases of which only those named are not slow."""
    return [pytest.param(case, marks=() if case in names else pytest.mark.slow) for case in of]


@pytest.fixture(autouse=True)
def no_word_about_pandas():
    with spark_jobs.silence_pyspark_warnings():
        yield


@pytest.fixture(scope="session")
def table():
    rng = np.random.default_rng(20150706)
    values = rng.normal(size=(CUTS[-1], 3))
    labels = (values[:, 0] + rng.normal(size=len(values)) > 0).astype(int)
    return pa.table(
        {
            **{f"c{k}": values[:, k] for k in range(3)},
            "b": (values[:, 1] > 0).astype(float),
            "id": rng.integers(0, 400, len(values)),
            "y": labels,
            "z": labels + (values[:, 2] > 1),
        }
    )


@pytest.fixture(scope="session")
def folder(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    for k, (start, end) in enumerate(pairwise(CUTS)):
        pq.write_table(table.slice(start, end - start), folder / f"p{k}.parquet", row_group_size=200)
    return folder


@pytest.fixture
def frame(spark, folder):
    return spark.read.parquet(*sorted(map(str, folder.iterdir())))


@pytest.fixture(scope="session")
def filtered(spark, folder):
    """A frame, and its rows on this machine."""
    frame = spark.read.parquet(*sorted(map(str, folder.iterdir()))).filter("c0 > -1.5")
    return frame, frame.toArrow()


def crafted(table, **options):
    options = {"label": "y", "n_rados": 40, "counts": None, **options}
    return flat.craft(table, **options)


def same(one, other):
    assert one.blocks.keys() == other.blocks.keys()
    for name, block in one.blocks.items():
        assert block.tobytes() == other.blocks[name].tobytes(), name
    assert one.columns == other.columns
    assert one.n_examples == other.n_examples


@pytest.fixture
def constant_keys(monkeypatch):
    """Keys of the system are all the same; those of parts, too, and so they may be made on the driver."""
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: bytes(range(size)))


@pytest.fixture
def travelling_keys(monkeypatch):
    """No key is fresh, so that workers draw none of their own, but use the driver's."""
    monkeypatch.setattr(Key, "from_system", classmethod(lambda cls: Key(range(32))))


@pytest.mark.parametrize("name", some("persons", "moments of degree 2"))
def test_files_give_the_same_bytes(spark, folder, constant_keys, name):
    paths = f"{folder}/*.parquet"
    same(crafted(paths, **CASES[name]), crafted(paths, **CASES[name], cluster=spark))


@pytest.mark.parametrize("name", some("plain", of=[name for name in CASES if name not in PROMISED]))
def test_frames_give_the_same_bytes(filtered, travelling_keys, name):
    frame, rows = filtered
    release = crafted(frame, **CASES[name])
    same(crafted(rows, **CASES[name]), release)
    assert "machines of a Spark cluster" in release.statement.trust_model


@pytest.mark.slow
def test_memory_of_this_machine_is_sent_as_parts(spark, table, constant_keys):
    options = {"drop": ["id", "z"]}
    same(crafted(table, **options), crafted(table, **options, cluster=spark))


@pytest.mark.slow
def test_a_frame_with_empty_partitions_and_odd_names(spark, travelling_keys):
    frame = spark.range(0, 400, 1, 5).selectExpr("id * 0.5 as `a.b`", "cast(id % 3 as double) as `c``d`", "id % 2 as y")
    frame = frame.filter("`a.b` > 100")
    release = rb.craft(frame, label="y", n_rados=5)
    same(release, rb.craft(frame.toArrow(), label="y", n_rados=5))
    assert [column.name for column in release.columns] == ["a.b", "c`d", "(constant)"]


@pytest.mark.slow
def test_moments_in_time(spark, table, tmp_path, travelling_keys):
    """As dates by a schema, in any zone of the session, and where nobody uses them."""
    seconds = np.arange(table.num_rows) * 86_399
    when = pa.array(seconds * 10**6, pa.timestamp("us", tz="Europe/Paris"))
    pq.write_table(table.append_column("when", when).append_column("unused", when), tmp_path / "t.parquet")
    frame = spark.read.parquet(str(tmp_path)).withColumn("span", pyspark.sql.functions.expr("make_interval(1)"))
    dates = rb.Date(low="1970-01-01", high="1974-12-31", fill="1972-01-01", parts=("weekday",))
    schema = rb.Schema({"c0": rb.Number(low=-4.0, high=4.0, fill=0.0), "when": dates}, label="y", classes=(0, 1))
    options = {**CASES["plain"], "drop": (), "schema": schema}
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            here = frame.drop("span").toArrow()
            same(crafted(here, **options), crafted(frame, **options))
            columns = ["c0", "c1", "c2", "b"]
            unused = {**CASES["plain"], "drop": (), "features": columns}
            same(crafted(here, **unused), crafted(frame, **unused))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


# ---- record batches


BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)


def test_bytes_of_a_row(spark):
    frame = spark.range(3).selectExpr("id", "id > 0 as b", "cast(id as decimal(9, 2)) as d", "cast(id as string) as t")
    assert spark_row_bytes(frame, ["id"]) == 9
    assert spark_row_bytes(frame, ["id", "b", "d"]) == 25
    assert spark_row_bytes(frame, ["id", "t"]) is None


class Conf(dict):
    """The settings of a session that may not have one, or may not let it be changed."""

    def get(self, name):
        return self[name]

    def set(self, name, value):
        if self.get(name) == "64":
            raise PermissionError
        self[name] = value


def usual_session():
    return SimpleNamespace(conf=Conf({BATCH_ROWS: "10000", BATCH_BYTES: "64m"}))


def test_the_limit_of_batches_comes_back():
    """After the last of the jobs that lifted it, also if one fails."""
    session = usual_session()
    with cut_spark_batches_by_rows(session, 28 * 8):
        with pytest.raises(RuntimeError, match="stop"), cut_spark_batches_by_rows(session, 8):
            raise RuntimeError("stop")
        assert session.conf[BATCH_BYTES] == NO_LIMIT
    assert session.conf == usual_session().conf


@pytest.mark.parametrize(
    ("rows", "limit", "bytes_of_a_row"),
    [("10000", None, 8), ("10000", "much", 8), ("10000", "64m", 5000 * 8), ("1", "64m", (1 << 26) + 1)],
)
def test_the_limit_of_batches_stays(rows, limit, bytes_of_a_row):
    """Where there is none, it is fixed or cannot be read, or batches might be larger than it."""
    settings = {BATCH_ROWS: rows, **({} if limit is None else {BATCH_BYTES: limit})}
    session = SimpleNamespace(conf=Conf(settings))
    with cut_spark_batches_by_rows(session, bytes_of_a_row):
        assert session.conf == settings
    assert session.conf == settings


def test_a_limit_of_batches_that_somebody_sets_meanwhile_stays():
    session = usual_session()
    with cut_spark_batches_by_rows(session, 8):
        session.conf[BATCH_BYTES] = "1m"
        with cut_spark_batches_by_rows(session, 8):
            assert session.conf[BATCH_BYTES] == NO_LIMIT
        assert session.conf[BATCH_BYTES] == NO_LIMIT
    assert session.conf[BATCH_BYTES] == "1m"
    with cut_spark_batches_by_rows(session, 8):
        session.conf[BATCH_BYTES] = "2m"
    assert session.conf[BATCH_BYTES] == "2m"


# ---- keys


def test_coins_of_a_frame_are_tossed_by_workers(spark):
    """Every rado is a sum of some rows, and two releases have other coins, though the driver's keys are the same."""
    rows = [(2.0**k, float(k % 3), k % 2) for k in range(8)]
    frame = spark.createDataFrame(pa.table(dict(zip(["a", "b", "y"], map(list, zip(*rows, strict=True)), strict=True))))
    one, other = (
        rb.craft(frame, label="y", n_rados=64, mechanism=rb.Plain(scale=None, intercept=False)) for _ in range(2)
    )
    edges = np.array([[(2 * y - 1) * a, (2 * y - 1) * b] for a, b, y in rows])
    subsets = (np.arange(256)[:, None] >> np.arange(8) & 1) @ edges
    for release in (one, other):
        assert {tuple(rado) for rado in release.rados} <= {tuple(total) for total in subsets}
    assert not np.array_equal(one.rados, other.rados)  # with probability 2**-512 they would be


def test_fresh_keys_do_not_travel_to_all_workers():
    fresh, shared = Key.from_system(), Key.from_system().shared()
    content = pickle_without_fresh_keys({"fresh": fresh, "shared": shared})
    assert bytes(fresh) not in content
    assert bytes(shared) in content
    assert pickle.loads(content)["fresh"] == b""
    assert len(pickle.loads(content)["fresh"].for_part()) == 32


@pytest.mark.parametrize(
    "case", some("seeded", of=["plain", "seeded", "fixed support", "feature band", "noisy examples", "persons"])
)
def test_no_plan_or_log_shows_a_key(spark, logs, folder, frame, monkeypatch, case):
    """Neither those of parts nor those that go to all workers."""
    plans = []

    def noted(frame, *arguments, **options):
        plans.append(frame._jdf.queryExecution().toString())
        plans.append(str(frame._jdf.queryExecution().toRdd().toDebugString()))
        plans.append(repr(frame))
        return spark_jobs.collect_spark_frame(frame, *arguments, **options)

    monkeypatch.setattr("secrets.token_bytes", lambda size=32: KEY[:size])
    monkeypatch.setattr(runner_module, "collect_spark_frame", noted)
    crafted(f"{folder}/*.parquet", **CASES[case], cluster=spark)
    if case not in PROMISED:
        crafted(frame, **CASES[case])
    said = "\n".join(plans).encode() + all_logs(logs)
    assert len(plans) >= 3
    for words in (b"LogicalRDD", b"Finished task", b"SparkListenerTaskEnd"):
        assert words in said
    assert found(said, KEY) == []
    assert found(said, make_key(CASES["seeded"]["seed"])) == []


def all_logs(logs):
    return b"".join(path.read_bytes() for path in logs.iterdir() if path.is_file())


@pytest.mark.slow
def test_a_key_that_is_logged_is_found(spark, logs):
    """In whichever way: in the log, in an event, and in a plan."""
    log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("planted")
    ways = spellings(PLANTED)
    for name, way in ways.items():
        log.info(way.decode("latin-1" if name == "raw" else "utf-8"))
    (logs / "raw").write_bytes(b"a heap dump: " + PLANTED)  # a log is text
    for _ in range(600):
        if not (missing := sorted(set(ways) - set(found(all_logs(logs), PLANTED)))):
            break
        time.sleep(0.1)
    assert missing == []
    assert found(all_logs(logs), bytes(reversed(PLANTED))) == []
    planted = spark.sql(f"select '{PLANTED.hex()}' as a")
    assert "hex" in found(planted._jdf.queryExecution().toString().encode(), PLANTED)


# ---- tasks that fail


def dying(function, marker, times):
    """The same work, but the Python worker dies at first, so many times."""
    marker = str(marker)

    def work(content, batches):
        import os
        from pathlib import Path

        for number in range(times):
            if not Path(f"{marker}{number}").exists():
                Path(f"{marker}{number}").touch()
                os._exit(1)
        yield from function(content, batches)

    return work


def test_a_worker_dies(spark, folder, frame, constant_keys, monkeypatch, tmp_path):
    paths, case = f"{folder}/*.parquet", "noisy rados"
    expected = crafted(paths, **CASES[case])
    monkeypatch.setattr(runner_module, "spark_sum_jobs", dying(runner_module.spark_sum_jobs, tmp_path / "files", 1))
    same(expected, crafted(paths, **CASES[case], cluster=spark))
    monkeypatch.setattr(Key, "from_system", classmethod(lambda cls: Key(range(32))))
    expected = crafted(frame.toArrow(), **CASES["plain"])
    monkeypatch.setattr(
        runner_module, "spark_sum_partition", dying(runner_module.spark_sum_partition, tmp_path / "frame", 1)
    )
    same(expected, crafted(frame, **CASES["plain"]))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_a_worker_dies_each_time(spark, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(runner_module, "spark_sum_jobs", dying(runner_module.spark_sum_jobs, tmp_path / "no", 99))
    with pytest.raises(ClusterError, match="died each time") as caught:
        crafted(f"{folder}/*.parquet", drop=["id", "z"], cluster=spark)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.slow
def test_a_fault_on_a_worker_is_one_line(spark, frame):
    def broken(batches):
        yield from batches
        raise ArithmeticError("1234")

    with pytest.raises(ClusterError) as caught:
        crafted(frame.mapInArrow(broken, frame.schema), drop=["id", "z"])
    assert "ArithmeticError: 1234" in str(caught.value) and "\n" not in str(caught.value)


def test_words_of_spark_are_withheld_where_records_are_protected():
    wrong = RuntimeError("[CAST_INVALID_INPUT] The value 'Ann' cannot be cast")
    with pytest.raises(ClusterError) as caught, spark_jobs.spark_errors(withheld=True):
        raise wrong
    assert "CAST_INVALID_INPUT" in str(caught.value)
    assert "Ann" not in str(caught.value)


@pytest.fixture
def logged():
    """What PySpark logs about failures."""
    from pyspark.logger import PySparkLogger

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    loggers = [PySparkLogger.getLogger(name) for name in spark_jobs._LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    yield records
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.slow
def test_only_jobs_of_ours_are_muted(spark, frame, logged):
    from pyspark.errors import PySparkException

    bad = frame.selectExpr("cast(concat('Ann', id) as double) as c0", "y")
    with pytest.raises(ClusterError, match="Ann"):
        crafted(bad)
    assert logged == []
    with pytest.raises(PySparkException):
        bad.collect()
    assert "Ann" in logged[0].getMessage()
    assert [logging.getLogger(name).filters for name in spark_jobs._LOGGERS] == [[], []]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("ModuleNotFoundError: No module named 'radoboost'", "install"),
        ("Total size of serialized results is bigger than spark.driver.maxResultSize", "spark.driver.maxResultSize"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "executors"),
        ("<_InactiveRpcError of RPC: status = StatusCode.UNAUTHENTICATED", "token"),
        ("<_InactiveRpcError of RPC: status = StatusCode.CANCELLED", "cancelled"),
    ],
)
def test_failures_are_explained(said, advice):
    with pytest.raises(ClusterError, match=advice), spark_jobs.spark_errors():
        raise RuntimeError(f"{said}\n\tat org.apache.spark.rdd.RDD\n")


@pytest.mark.parametrize("work", ["keep_jobs", "sum_jobs", "map_jobs", "transform_cached_rows", "sum_cached_rows"])
def test_nothing_of_another_version_is_read(monkeypatch, work):
    content = spark_runner.spark_payload(None)
    monkeypatch.setattr(spark_runner, "__version__", "9.9")
    if work.endswith("cached_rows"):
        batch = spark_runner._spark_row_of_batch(0, 1, 1, b"\0\0", None)
    else:
        batch = pa.record_batch({"number": pa.array([0], pa.int32()), "payload": pa.array([b"no pickle"])})
    (state,) = getattr(spark_runner, f"spark_{work}")(content, [batch])
    refusal = pickle.loads(state.column("refusal" if work.startswith(("keep", "transform")) else "state")[0].as_py())
    error = getattr(getattr(refusal, "refusal", refusal), "error", refusal)
    assert f"has radoboost 9.9, and this machine {rb.__version__}" in str(error)


def test_an_interrupt_cancels_the_job(spark, frame, monkeypatch):
    def slow(batches):
        import time

        for batch in batches:
            time.sleep(600)
            yield batch

    calls = []

    def interrupted(self):
        calls.append(self.name)
        tracker = spark.sparkContext.statusTracker()
        if tracker.getJobIdsForGroup(self.name):
            raise KeyboardInterrupt

    monkeypatch.setattr(spark_jobs._Job, "look", interrupted)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        crafted(frame.mapInArrow(slow, frame.schema), drop=["id", "z"])
    assert time.monotonic() - start < 300
    tracker = spark.sparkContext.statusTracker()
    for _ in range(600):  # the tracker hears of it a moment later
        statuses = [tracker.getJobInfo(job).status for job in tracker.getJobIdsForGroup(calls[0])]
        if statuses and "RUNNING" not in statuses:
            break
        time.sleep(0.1)
    assert statuses
    assert "RUNNING" not in statuses


@pytest.mark.slow
def test_a_value_that_cannot_be_used_is_refused_as_on_one_machine(spark, table, tmp_path):
    column = table.column("c1").to_numpy().copy()
    column[1100] = np.inf
    wrong = table.set_column(1, "c1", pa.array(column))
    for k, (start, end) in enumerate(pairwise(CUTS)):
        pq.write_table(wrong.slice(start, end - start), tmp_path / f"p{k}.parquet")
    paths = sorted(map(str, tmp_path.iterdir()))
    frame = spark.read.parquet(*paths)
    for here, there in (((paths, None), (paths, spark)), ((frame.toArrow(), None), (frame, None))):
        lines = []
        for where, cluster in (here, there):
            with pytest.raises(rb.TableError) as caught:
                crafted(where, drop=["id", "z"], cluster=cluster)
            lines.append(str(caught.value))
        assert lines[0] == lines[1]
        assert "an infinite value (" in lines[0]


# ---- frames that do not come out alike again


@pytest.mark.parametrize("case", some("noisy rados", "feature band", of=PROMISED))
def test_a_promise_needs_files_and_computes_nothing_of_a_frame(spark, folder, frame, tmp_path, constant_keys, case):
    """Whatever its plan; the files that the line asks for are taken."""
    for rows in (frame, frame.selectExpr("*", "raise_error('computed') as e")):
        with pytest.raises(rb.ArgumentError, match=r"frame.write.parquet.*Compute\(cluster=session\)") as caught:
            crafted(rows, **CASES[case])
        assert "\n" not in str(caught.value)
    frame.write.parquet(str(tmp_path / "visits"))
    same(crafted(tmp_path / "visits", **CASES[case]), crafted(tmp_path / "visits", **CASES[case], cluster=spark))


def test_rows_of_partitions_are_counted_with_the_columns_that_are_read(spark, frame):
    """Partitions that depend on how large rows are would be others where fewer columns are read."""
    rows = frame.repartition(3).selectExpr("c0 as `a.b`", "c1", "y")
    sizes = spark_jobs.spark_partition_sizes(rows, ["a.b", "c1", "y"])
    assert len(sizes) == 3 and sum(sizes) == CUTS[-1]
    assert spark_jobs.spark_partition_sizes(spark.range(0, 9, 1, 4).filter("id > 4"), ["id"]) == [0, 0, 1, 3]


def test_a_partition_whose_count_changes_is_refused(spark, frame, tmp_path):
    marker = str(tmp_path / "read")

    def fewer_each_time(batches):
        from pathlib import Path

        from pyspark import TaskContext

        mark = Path(f"{marker}-{TaskContext.get().partitionId()}")
        for batch in batches:
            yield batch.slice(1) if mark.exists() else batch
        mark.touch()

    changing = frame.mapInArrow(fewer_each_time, frame.schema)
    with pytest.raises(rb.TableError, match="1,206 rows at first and 1,205"):
        crafted(changing, drop=["id", "z"])


# ---- nothing is collected silently


def test_a_frame_is_never_collected_silently(frame, table):
    model = rb.MomentsClassifier(n_rados=8).fit(table.select(["c0", "c1"]), table.column("y").to_numpy()).model_
    with pytest.raises(rb.ArgumentError, match="predict_udf"):
        model.predict(frame)
    with pytest.raises(rb.ArgumentError, match="collect"):
        rb.score(model, frame, label="y", epsilon=1.0)
    with pytest.raises(rb.ArgumentError, match="collect"):
        rb.propose_schema(frame, label="y")
    with pytest.raises(rb.RadoError):
        rb.MomentsClassifier().fit(frame, table.column("y").to_numpy())
    assert list(rb.schema_template(frame, label="y").columns) == ["c0", "c1", "c2", "b", "id", "z"]


# ---- predictions


@pytest.mark.parametrize("label", some("z", of=["y", "z"]))
def test_predictions_as_a_column(frame, table, label):
    columns = ["c0", "c1", "c2"]
    model = rb.MomentsClassifier().fit(table.select(columns), table.column(label).to_numpy()).model_
    rows = frame.toArrow().select(columns)
    chances = model.predict_proba(rows)
    wanted = {
        "p": chances[:, 1].tolist() if label == "y" else chances.tolist(),
        "q": chances[:, 1].tolist() if label == "y" else chances.tolist(),
        "k": model.predict(rows).tolist(),
    }
    found = frame.select(
        rb.predict_udf(model)().alias("p"),
        rb.predict_udf(model)("c0", "c1", "c2").alias("q"),
        rb.predict_udf(model, "class")().alias("k"),
        rb.predict_udf(model, "all")().alias("everything"),
    ).toArrow()
    for name, values in wanted.items():
        assert found.column(name).to_pylist() == values
    assert [row["prediction"] for row in found.column("everything").to_pylist()] == wanted["k"]


def test_predictions_in_sql(spark, frame, table):
    columns = ["c0", "c1", "c2"]
    model = rb.MomentsClassifier(n_rados=8).fit(table.select(columns), table.column("y").to_numpy()).model_
    rows = frame.toArrow().select(columns)
    frame.createOrReplaceTempView("visits")
    spark.udf.register("risk", rb.predict_udf(model))
    spark.udf.register("guess", rb.predict_udf(model, "all"))
    found = spark.sql(
        "SELECT risk(c0, c1, c2) AS p, risk(struct(*)) AS q, guess(c0, c1, c2).prediction AS k FROM visits"
    ).toArrow()
    chances = model.predict_proba(rows)[:, 1].tolist()
    assert found.column("p").to_pylist() == found.column("q").to_pylist() == chances
    assert found.column("k").to_pylist() == model.predict(rows).tolist()


def test_an_rdd_and_a_column_are_refused_text(spark, frame):
    with pytest.raises(rb.TableError, match="RDD"):
        rb.craft(spark.sparkContext.parallelize([(1.0, 0)]), label="y")
    with pytest.raises(rb.ArgumentError, match="Column"):
        rb.craft(frame, label=frame["y"])


def test_what_can_be_predicted(table):
    model = rb.MomentsClassifier(n_rados=8).fit(table.select(["c0", "c1"]), table.column("z").to_numpy()).model_
    with pytest.raises(rb.ArgumentError, match="what must be one of"):
        rb.predict_udf(model, "odds")
    with pytest.raises(rb.ArgumentError, match="no single score"):
        rb.predict_udf(model, "score")


# ---- sessions and networks


def test_a_session_that_runs_is_used_and_not_stopped(spark, folder, constant_keys):
    paths = f"{folder}/*.parquet"
    same(crafted(paths, drop=["id", "z"]), crafted(paths, drop=["id", "z"], cluster=MASTER))
    assert spark.range(3).count() == 3
    with pytest.raises(ClusterError, match=re.escape(MASTER)):
        crafted(paths, drop=["id", "z"], cluster="local[1]")
    with pytest.raises(rb.ArgumentError, match="leave the cluster out"):
        crafted(spark.range(3), label="id", cluster=MASTER)


def session_of(master, **settings):
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    conf = SimpleNamespace(get=lambda name, default: settings.get(name, default))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))


def test_networks():
    secret = {"spark_authenticate": "true", "spark_network_crypto_enabled": "true"}
    for session in (
        session_of("local[2]"),
        session_of("spark://127.0.0.1:7077"),
        session_of("spark://10.0.0.7:7077", **secret),
        session_of("yarn", spark_ssl_rpc_enabled="true"),
    ):
        address, encrypted = spark_network(session)
        check_cluster_network(address, encrypted=encrypted, trust_network=False)
    for session in (
        session_of("spark://10.0.0.7:7077"),
        session_of("yarn"),
        session_of("spark://10.0.0.7:7077", spark_authenticate="true"),
    ):
        address, encrypted = spark_network(session)
        check_cluster_network(address, encrypted=encrypted, trust_network=True)
        with pytest.raises(rb.ArgumentError, match="is not encrypted"):
            check_cluster_network(address, encrypted=encrypted, trust_network=False)


def run(*arguments, **environment):
    environment = {**os.environ, "PYTHONWARNINGS": "default", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_command_starts_a_session_and_stops_it(folder, tmp_path):
    out, paths = tmp_path / "out.rado.parquet", f"{folder}/p[12].parquet"
    (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {JAVA}\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    options = ["--label", "y", "--drop", "id", "--drop", "z", "-n", "20", "--seed", "1", "-o"]
    ended = run("-m", "radoboost", "craft", paths, *options, out, "--cluster", "local[1]", **environment)
    assert (ended.returncode, ended.stderr) == (0, f"rado: {MORE_ACCURATE}\n"), ended.stderr
    same(crafted(paths, drop=["id", "z"], n_rados=20, seed=1), rb.load(out))


def test_workers_predict_files(spark, folder, table, tmp_path):
    columns = table.select(["c0", "c1", "c2"])
    model = rb.MomentsClassifier(n_rados=8).fit(columns, table.column("y").to_numpy()).model_
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    options = {"label": "y", "keep": ["id"]}
    one = predict_on_cluster(None, model, f"{folder}/*.parquet", here, silent, **options)
    other = predict_on_cluster(spark, model, f"{folder}/*.parquet", there, silent, **options)
    assert here.read_bytes() == there.read_bytes()
    assert one.to_dict() == other.to_dict()


CONNECT = """
import os
import sys
os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, {tests!r})
from pathlib import Path
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from key_spellings import KEY
from radoboost.holder.keystream import Key
from radoboost.holder.runners import spark_runner as runner_module
from test_spark import BATCH_BYTES, CASES, NO_LIMIT, crafted, same
spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame = spark.read.parquet(*sorted(map(str, Path({folder!r}).iterdir()))).filter("c0 > -1.5")
Key.from_system = classmethod(lambda cls: Key(KEY))
here = frame.toArrow()
for name in ("plain", "exact moments", "seeded"):
    same(crafted(here, **CASES[name]), crafted(frame, **CASES[name]))
before, limits, collected = spark.conf.get(BATCH_BYTES, None), [], runner_module.collect_spark_frame
if before is not None:
    def noted(*job, **how):
        limits.append(spark.conf.get(BATCH_BYTES))
        return collected(*job, **how)
    runner_module.collect_spark_frame = noted
    crafted(frame, **CASES["plain"])
    runner_module.collect_spark_frame = collected
    assert limits == [NO_LIMIT] * 2 and spark.conf.get(BATCH_BYTES) == before, limits
paths = {folder!r} + "/*.parquet"
same(crafted(paths, **CASES["noisy rados"]), crafted(paths, **CASES["noisy rados"], cluster=spark))
spark.stop()
print("same bytes")
"""


@pytest.mark.slow
def test_connect(folder, tmp_path):
    """The same bytes; and neither in the server's log nor in its events a key that all workers have."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "log4j2.properties").write_text(LOG4J.format(path=tmp_path / "logs" / "log"))
    settings = {"enabled": "true", "dir": f"file:{tmp_path}/logs", "compress": "false", "rolling.enabled": "false"}
    lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines))
    script = CONNECT.format(tests=str(Path(__file__).parent), folder=str(folder))
    ended = run("-c", script, SPARK_CONF_DIR=str(tmp_path))
    assert ended.stdout.endswith("same bytes\n"), ended.stdout + ended.stderr[-3000:]
    said = all_logs(tmp_path / "logs") + (ended.stdout + ended.stderr).encode()
    for words in (b"Finished task", b"SparkListenerConnectOperationStarted", b"python_udf"):
        assert words in said
    assert found(said, KEY) == []
    assert found(said, make_key(CASES["seeded"]["seed"])) == []


@pytest.mark.slow
def test_a_real_master_and_two_workers(folder, tmp_path):
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable}
    started = []

    def start(*arguments):
        command = [str(home / "bin" / "spark-class"), *arguments]
        with open(tmp_path / f"log{len(started)}", "w") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path))

    master = "spark://127.0.0.1:17077"
    try:
        kind = "org.apache.spark.deploy.master.Master"
        start(kind, "--host", "127.0.0.1", "--port", "17077", "--webui-port", "0")
        wait_for(tmp_path / "log0", "I have been elected leader")
        for k in (1, 2):
            kind = "org.apache.spark.deploy.worker.Worker"
            start(kind, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", master)
            wait_for(tmp_path / f"log{k}", "Successfully registered with master")
        out = tmp_path / "out.rado.parquet"
        options = ["--label", "y", "--drop", "id", "--drop", "z", "-n", "20", "--seed", "1", "-o"]
        ended = run("-m", "radoboost", "craft", f"{folder}/*.parquet", *options, out, "--cluster", master)
        assert (ended.returncode, ended.stderr) == (0, f"rado: {MORE_ACCURATE}\n"), ended.stderr
        same(crafted(f"{folder}/*.parquet", drop=["id", "z"], n_rados=20, seed=1), rb.load(out))
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)
    ended = run(
        "-m", "radoboost", "craft", f"{folder}/*.parquet", *options, tmp_path / "two.rado.parquet", "--cluster", master
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("rado: nobody answers at spark://127.0.0.1:")
    assert ended.stderr.count("\n") == 1


def wait_for(log, words):
    for _ in range(240):
        if log.exists() and words in log.read_text():
            return
        time.sleep(0.25)
    raise AssertionError(f"{words!r} did not appear: {log.read_text()[-2000:]}")
