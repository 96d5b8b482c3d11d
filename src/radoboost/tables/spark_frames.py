"""What the driver knows of a Spark data frame: its columns, its partitions, and whether they come out alike again.

A partition of a frame may be computed several times: once a pass, and again where a task fails. Its rows are the same
each time only if nothing in the frame's plan moves rows between partitions or depends on chance. `doubt` reads the plan
for that (S1 of docs/proofs/spark.md).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.spark_jobs import collected, explained, is_connect, mapped_batches

ADVICE = "write it to Parquet and pass the frame of those files"
_STEPS = re.compile(
    r"(?:FileScan|Scan (?:parquet|orc|csv|json|text|avro)|BatchScan (?:parquet|orc|csv|json|text|avro)|"
    r"LocalTableScan|Range|Project|Filter|Union|Expand|Generate|ColumnarToRow|RowToColumnar|InMemoryTableScan|"
    r"InMemoryRelation|Scan ExistingRDD|Scan OneRowRelation|AdaptiveSparkPlan|ResultQueryStage|TableCacheQueryStage)\b"
)
_CHANCE = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|uniform|monotonically_increasing_id|spark_partition_id|input_file_name|"
    r"randstr|current_timestamp|now|UDF|\w*[uU]df)\(",
)
_SHOWN_FIELDS = "spark.sql.debug.maxToStringFields"
_NARROW = re.compile(
    r"(?:SQLExecution|MapPartitions|ParallelCollection|Python|FileScan|DataSource|Union|ReliableCheckpoint|"
    r"LocalCheckpoint)RDD$"
)


def arrow_schema(frame: Any) -> pa.Schema:
    """The columns of the frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    with explained():
        return to_arrow_schema(frame.schema)


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame as it is: columns are selected when a job is made."""
    return frame


def selected(frame: Any, columns: Sequence[str]) -> Any:
    """The frame with these columns alone, so that no others are read, by the names _0, _1 and so on.

    PySpark does not find columns whose names have points when it hands them to Python.
    """
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    with explained():
        return frame.selectExpr(*(f"{name} AS _{k}" for k, name in enumerate(quoted)))


def partitions(frame: Any, columns: Sequence[str]) -> list[int]:
    """How many rows each partition has, empty ones too, by a job that counts them.

    One column is enough to count by, if nothing else in the plan depends on which columns are read.
    """
    first = columns[:1] if doubt(frame) is None else columns
    table = collected(mapped_batches(selected(frame, first), count_partition, "part int, rows long"))
    counts = dict(zip(table.column("part").to_pylist(), table.column("rows").to_pylist(), strict=True))
    return [counts[number] for number in range(len(counts))]


def count_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows a partition has; this runs on a worker."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"part": pa.array([partition_number()], pa.int32()), "rows": pa.array([rows], pa.int64())})


def partition_number() -> int:
    """Which partition this task of Spark is about."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


# ---- whether partitions come out alike again


def doubt(frame: Any) -> str | None:
    """Why partitions of the frame might not have the same rows when they are computed again; None if they have (S1).

    The physical plan may have nothing but scans of files, local rows and checkpoints, and steps that make rows of one
    partition from rows of one partition.
    """
    with explained():
        plan = _plan(frame)
        for line in plan.splitlines():
            step = re.sub(r"^[\s:+\-|*]*(?:\(\d+\)\s*)?", "", line)
            if step and not step.startswith("==") and not _STEPS.match(step):
                return f"its plan has a step {' '.join(step.split()[:2])!r}"
        if chance := _CHANCE.search(plan):
            return f"its plan has {chance[1]}()"
        return _doubt_of_rdds(frame, plan)


def check_determined(frame: Any, person: str | None) -> None:
    """Refuse a frame whose partitions might not come out alike again, where no row may count twice (S3)."""
    if (why := doubt(frame)) is not None:
        or_checkpoint = "" if is_connect(frame) else ", or checkpoint() it"
        raise TableError(
            f"it is not certain that this Spark frame has the same rows in the same partitions when Spark computes one "
            f"again, since {why}: a row could count twice, and the promise would not hold; {ADVICE}{or_checkpoint}"
        )


def _plan(frame: Any) -> str:
    """The physical plan, in Spark's words."""
    if not is_connect(frame):
        return str(frame._jdf.queryExecution().executedPlan().toString())
    conf = frame.sparkSession.conf
    shown = conf.get(_SHOWN_FIELDS)
    conf.set(_SHOWN_FIELDS, "1000000")  # else a long list of columns is cut short, with what may be in it
    try:
        return str(frame._explain_string())
    finally:
        conf.set(_SHOWN_FIELDS, shown)


def _doubt_of_rdds(frame: Any, plan: str) -> str | None:
    if is_connect(frame):  # nobody sees what is behind one
        return "its plan has a step 'Scan ExistingRDD'" if "Scan ExistingRDD" in plan else None
    execution = frame._jdf.queryExecution()
    if not execution.analyzed().deterministic():
        return "its plan has a function that is not deterministic"
    if "Scan ExistingRDD" in plan:
        for line in str(execution.toRdd().toDebugString()).splitlines():
            found = re.search(r"(\w+RDD)\[\d+\]", line)
            if found and not _NARROW.match(found[1]):
                return f"it is made of a {found[1]}"
    return None
