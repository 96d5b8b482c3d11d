"""Spark: what a frame's columns and partitions are, and jobs: run, followed, cancelled, and explained where they fail.

All of it works with sessions of Spark and of Spark Connect. Results are small, and come as Arrow tables.
"""

import concurrent.futures
import inspect
import logging
import re
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pyarrow as pa

from radoboost.errors import ClusterError, RadoError, install

Tell = Callable[[int, int], None]  # so many of the tasks are done
_POLL, _FORGETTING = 0.2, 10.0  # seconds
_LONGEST = 300  # characters of what Spark says
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # of PySpark, for failures

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES, _NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
_cutting: dict[int, tuple[int, str]] = {}  # by session: jobs whose batches are cut by rows, and the setting before them
_cutting_lock = threading.Lock()

_NO_PANDAS = "Spark needs libraries that are missing here, or too old; run: " + install("spark")
_REASONS = (
    (r"PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION", _NO_PANDAS),
    (
        r"No module named '(?:radoboost|pyarrow|numpy|numba|cryptography|scipy|pandas)|No package metadata was found",
        "Python on the workers of the Spark cluster lacks radoboost or what it needs: install this version of radoboost"
        " there, or let PYSPARK_PYTHON name a Python that has it",
    ),
    (
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        "workers of the Spark cluster run another version of Python than this one: let PYSPARK_PYTHON name one of the "
        "same version, and start the session anew",
    ),
    (
        r"Cannot run program|No such file or directory: '\S*python",
        "the Spark cluster cannot start Python on its workers: let PYSPARK_PYTHON name one that they have, and start "
        "the session anew",
    ),
    (
        r"JAVA_GATEWAY_EXITED|JAVA_HOME is not set|Unable to locate a Java|Java gateway process exited",
        "Spark needs Java: install version 17 (on Debian: apt-get install openjdk-17-jre-headless), or let JAVA_HOME "
        "name where it is",
    ),
    (
        r"maxResultSize",
        "the sums of all parts are larger than Spark lets a driver collect: set spark.driver.maxResultSize higher, or "
        "ask for fewer rados",
    ),
    (
        r"OutOfMemoryError|java heap space|GC overhead",
        "Spark ran out of memory: set spark.driver.memory and spark.executor.memory higher, or ask for fewer rados",
    ),
    (
        r"Python worker exited unexpectedly|Python worker failed to connect|SIGKILL|exit code 137",
        "a Python worker of the Spark cluster died each time that a part was tried, perhaps for want of memory: set "
        "spark.executor.memoryOverhead higher, or use more, smaller partitions",
    ),
    (
        r"ExecutorLostFailure|Lost executor|Executor.{0,40}(?:lost|exited)",
        "Spark lost the machines that worked on a part, as often as it tried: see the log of its executors, and try "
        "again",
    ),
    (
        r"All masters are unresponsive|Connection refused|failed to connect to all addresses|UNAVAILABLE|"
        r"UnknownHost|Name or service not known|DNS resolution failed|Invalid master URL|Could not parse Master|"
        r"SparkContext was (?:shut down|stopped)|stopped SparkContext|Master removed our application",
        "the Spark cluster cannot be reached: check its address, and that it runs",
    ),
    (r"cancelled|CANCELLED", "the Spark job was cancelled by someone else; try again"),
    (
        r"StatusCode\.(?:UNAUTHENTICATED|PERMISSION_DENIED)",
        "the Spark cluster cannot be used by this user: check the token in its address, and what it allows",
    ),
    (
        r"_InactiveRpcError",
        "the Spark cluster cannot be reached: no Spark Connect server answers, or it ended; check its address, and "
        "that it runs",
    ),
)


@contextmanager
def spark_errors(*, withheld: bool = False, address: str = "") -> Iterator[None]:
    """Say in one line what went wrong with Spark within; no stack of the JVM is shown. `address` is where it is.

    With `withheld` nothing is quoted but the name of Spark's error, since its words may have values of rows. PySpark
    logs nothing either way.
    """
    try:
        with mute_spark_log():
            yield
    except (RadoError, KeyboardInterrupt):
        raise
    except Exception as error:
        line = _NO_PANDAS if isinstance(error, ImportError) else _spark_failure_reason(error, withheld=withheld)
        at = f" at {address}" if address else ""
        raise ClusterError(line.replace("the Spark cluster cannot", f"the Spark cluster{at} cannot", 1)) from None


def _spark_failure_reason(error: Exception, *, withheld: bool) -> str:
    text = f"{type(error).__name__}: {error}"
    for pattern, line in _REASONS:
        if re.search(pattern, text):
            return line
    name = re.search(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\]", text)
    if withheld:
        said = name[1] if name else type(error).__name__
    else:
        # Of an error in Python on a worker, the last line of the traceback says what it was.
        lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
        within = [line for line in lines if re.match(r"\w*(?:\.\w+)*(?:Error|Exception): ", line)]
        said = (within or lines or [type(error).__name__])[0][:_LONGEST]
    return f"the Spark job failed ({said}); see the log of Spark"


@contextmanager
def silence_pyspark_warnings() -> Iterator[None]:
    """Let PySpark not warn of a version of pandas, of which nothing is used here that could fail."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def mute_spark_log() -> Iterator[None]:
    """Let PySpark not log failures of this thread: it would write Spark's words, with values of rows, to stderr."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before Spark 4 it logs none
        yield
        return
    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    with ExitStack() as stack:
        for name in _LOGGERS:
            logger = PySparkLogger.getLogger(name)
            logger.addFilter(others)
            stack.callback(logger.removeFilter, others)
        yield


def map_spark_batches(
    frame: Any,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[Any]],
    schema: str,
    *,
    withheld: bool = False,
) -> Any:
    """What a function makes of the record batches of each partition, as a frame."""
    with spark_errors(withheld=withheld), silence_pyspark_warnings():
        return frame.mapInArrow(function, schema)


@contextmanager
def cut_spark_batches_by_rows(session: Any, row_bytes: int) -> Iterator[None]:
    """While a job runs over rows of so many bytes each, let Spark cut record batches by their rows alone.

    From version 4.1 on, it also adds up the bytes of all columns of a batch after every row, which takes it half of its
    time. That is left to it where as many rows as a batch may have would be larger than its limit. The setting is that
    of the whole session, so it is put back after the last of the jobs that need it, unless somebody else changed it.
    """
    key, begun = id(session), False
    with suppress(Exception), mute_spark_log(), _cutting_lock:
        jobs, before = _cutting.get(key, (0, ""))
        now = session.conf.get(_BATCH_BYTES)  # other versions do not have it, and say so
        before = before if now == _NO_LIMIT and jobs else now
        if 0 < int(session.conf.get(_BATCH_ROWS)) * row_bytes <= _bytes_of_spark_setting(before):
            session.conf.set(_BATCH_BYTES, _NO_LIMIT)
            _cutting[key], begun = (jobs + 1, before), True
    try:
        yield
    finally:
        with suppress(Exception), mute_spark_log(), _cutting_lock:
            jobs, before = _cutting.pop(key) if begun else (0, "")
            if jobs > 1:
                _cutting[key] = jobs - 1, before
            elif begun and session.conf.get(_BATCH_BYTES) == _NO_LIMIT:
                session.conf.set(_BATCH_BYTES, before)


def _bytes_of_spark_setting(size: str) -> int:
    """How many bytes a setting of Spark's names; none if it cannot be read."""
    read = re.fullmatch(r"(\d+)([kmgtp]?)i?b?", size.strip().lower())
    return int(read[1]) << 10 * " kmgtp".index(read[2] or " ") if read else 0


def is_spark_connect(thing: Any) -> bool:
    """Whether a frame or session is one of Spark Connect."""
    return ".connect." in f"{type(thing).__module__}."


def collect_spark_frame(frame: Any, tell: Tell | None = None, *, withheld: bool = False) -> pa.Table:
    """The rows of a frame, which are few and small; Ctrl-C cancels the job, and leaves none running."""
    with spark_errors(withheld=withheld):
        return (_ConnectJob if is_spark_connect(frame) else _Job)(frame, tell).result()


class _Job:
    """A job in a thread of its own, so that this one can look after it."""

    def __init__(self, frame: Any, tell: Tell | None) -> None:
        self.frame, self.tell = frame, tell
        self.name = f"radoboost-{uuid.uuid4().hex}"
        self._rows: list[pa.Table] = []
        self._failures: list[BaseException] = []

    def result(self) -> pa.Table:
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        wait = _POLL / 10
        try:
            while thread.is_alive():
                thread.join(wait)
                self.look()
                wait = _POLL
        except BaseException:
            self.cancel()
            thread.join(30)
            raise
        if self._failures:
            raise self._failures[0]
        return self._rows[0]

    def _work(self) -> None:
        try:
            with mute_spark_log():
                self.begin()
                self._rows.append(_spark_rows_as_arrow(self.frame))
        except BaseException as failure:
            self._failures.append(failure)

    def begin(self) -> None:
        """Name the jobs of this thread."""
        self.frame.sparkSession.sparkContext.setJobGroup(self.name, "radoboost")

    def look(self) -> None:
        """Tell how many tasks are done."""
        if self.tell is None:
            return
        tracker = self.frame.sparkSession.sparkContext.statusTracker()
        done = tasks = 0
        for job in tracker.getJobIdsForGroup(self.name):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                if (about := tracker.getStageInfo(stage)) is not None:
                    done, tasks = done + about.numCompletedTasks, tasks + about.numTasks
        if tasks:
            self.tell(done, tasks)

    def cancel(self) -> None:
        self.frame.sparkSession.sparkContext.cancelJobGroup(self.name)


class _ConnectJob(_Job):
    """A job of Spark Connect, whose server reports how far it is."""

    def result(self) -> pa.Table:
        session = self.frame.sparkSession
        with ExitStack() as stack:
            stack.callback(_wait_until_connect_forgets, session)
            if self.tell is not None and hasattr(session, "registerProgressHandler"):
                self._progress = (0, 0)
                session.registerProgressHandler(self._note)
                stack.callback(session.removeProgressHandler, self._note)
            return super().result()

    def _note(self, stages: Any, **_: Any) -> None:
        stages = stages or ()
        self._progress = sum(s.num_completed_tasks for s in stages), sum(s.num_tasks for s in stages)

    def begin(self) -> None:
        """Name the operations of this thread."""
        self.frame.sparkSession.addTag(self.name)

    def look(self) -> None:
        """Tell how many tasks are done."""
        done, tasks = getattr(self, "_progress", (0, 0))
        if self.tell is not None and tasks:
            self.tell(done, tasks)

    def cancel(self) -> None:
        """Interrupt the operations of that thread."""
        self.frame.sparkSession.interruptTag(self.name)


def _wait_until_connect_forgets(session: Any) -> None:
    """Let the server be told that a job is over: it logs the plan, with keys of parts, of one that a session leaves."""
    concurrent.futures.wait(list(getattr(session.client, "_release_futures", ())), _FORGETTING)


def _spark_rows_as_arrow(frame: Any) -> pa.Table:
    """All rows of a frame; before Spark 4 by way of Python objects."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    rows = [row.asDict() for row in frame.collect()]
    return pa.Table.from_pylist(rows) if rows else pa.table({name: pa.nulls(0) for name in frame.columns})


# ---- frames: plain releases are made of their partitions, which only workers read


def spark_frame_schema(frame: Any) -> pa.Schema:
    """The columns of the frame, with the types that its rows have in Arrow; one that has none there is binary."""
    with spark_errors():
        fields, zone = list(frame.schema), frame.sparkSession.conf.get("spark.sql.session.timeZone")
        return pa.schema([_arrow_field_of_spark(field, zone) for field in fields])


def _arrow_field_of_spark(field: Any, zone: str) -> pa.Field:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    options = {"timezone": zone} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(StructType([field]), **options).field(0)
    except (PySparkTypeError, TypeError):
        return pa.field(field.name, pa.binary())


def spark_row_bytes(frame: Any, columns: Sequence[str]) -> int | None:
    """How many bytes some columns of a row have in Arrow, whatever the values are, such as numbers and dates.

    None if that depends on the values, as of texts.
    """
    schema = spark_frame_schema(frame)
    kinds = [schema.field(name).type for name in columns]
    if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds):
        return None
    return -(-sum(int(kind.bit_width) + 1 for kind in kinds) // 8)  # a bit says whether there is a value


def select_numbered_spark_columns(frame: Any, columns: Sequence[str]) -> Any:
    """The frame with these columns alone, so that no others are read, by the names _0, _1 and so on.

    PySpark does not find columns whose names have points when it hands them to Python.
    """
    with spark_errors():
        return frame.selectExpr(*(f"{name} AS _{k}" for k, name in enumerate(_quoted_spark_columns(columns))))


def _quoted_spark_columns(columns: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in columns]


def spark_partition_sizes(frame: Any, columns: Sequence[str]) -> list[int]:
    """How many rows each partition has, empty ones too, by a job that counts them.

    Spark reads all the columns, on which partitions may depend, and hands Python one number a row.
    """
    with spark_errors():
        rows = frame.selectExpr(f"hash({', '.join(_quoted_spark_columns(columns))}) AS _0")
    table = collect_spark_frame(map_spark_batches(rows, count_spark_partition, "part int, rows long"))
    counts = dict(zip(table.column("part").to_pylist(), table.column("rows").to_pylist(), strict=True))
    return [counts[number] for number in range(len(counts))]


def count_spark_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows a partition has; this runs on a worker."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"part": pa.array([spark_partition()], pa.int32()), "rows": pa.array([rows], pa.int64())})


def spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())
