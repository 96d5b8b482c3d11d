"""What the driver knows of a Spark data frame: its columns, its partitions, and whether they come out alike again.

A partition of a frame may be computed several times: once a pass, and again where a task fails. Its rows are the same
each time only if nothing in the frame's plan moves rows between partitions or depends on chance. `doubt` reads the plan
for that (S1 of docs/proofs/spark.md).
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.spark_files import refuse_repeated_files
from radoboost.tables.spark_jobs import collect_frame, is_connect, mapped_batches, spark_errors
from radoboost.tables.spark_plan_check import doubt

__all__ = [
    "ADVICE",
    "arrow_schema",
    "check_determined",
    "chosen",
    "count_partition",
    "doubt",
    "partition_number",
    "partitions",
    "row_bytes",
    "select_numbered_columns",
]

ADVICE = "write it to Parquet and pass the frame of those files"


def arrow_schema(frame: Any, *, withheld: bool = False) -> pa.Schema:
    """The columns of the frame, with the types that its rows have in Arrow; one that has none there is binary."""
    with spark_errors(withheld=withheld):
        fields, zone = list(frame.schema), frame.sparkSession.conf.get("spark.sql.session.timeZone")
        return pa.schema([_arrow_field(field, zone) for field in fields])


def _arrow_field(field: Any, zone: str) -> pa.Field:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    options = {"timezone": zone} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(StructType([field]), **options).field(0)
    except (PySparkTypeError, TypeError):
        return pa.field(field.name, pa.binary())


def row_bytes(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> int | None:
    """How many bytes some columns of a row have in Arrow, whatever the values are, such as numbers and dates.

    None if that depends on the values, as of texts.
    """
    schema = arrow_schema(frame, withheld=withheld)
    kinds = [schema.field(name).type for name in columns]
    if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds):
        return None
    return -(-sum(int(kind.bit_width) + 1 for kind in kinds) // 8)  # a bit says whether there is a value


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame as it is: columns are selected when a job is made."""
    return frame


def select_numbered_columns(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> Any:
    """The frame with these columns alone, so that no others are read, by the names _0, _1 and so on.

    PySpark does not find columns whose names have points when it hands them to Python.
    """
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    with spark_errors(withheld=withheld):
        return frame.selectExpr(*(f"{name} AS _{k}" for k, name in enumerate(quoted)))


def partitions(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> list[int]:
    """How many rows each partition has, empty ones too, by a job that counts them.

    One column is enough to count by, if nothing else in the plan depends on which columns are read. With `withheld`
    Spark's own words, which may have values, are in no message.
    """
    first = columns[:1] if doubt(frame, withheld=withheld) is None else columns
    rows = select_numbered_columns(frame, first, withheld=withheld)
    counted = mapped_batches(rows, count_partition, "part int, rows long", withheld=withheld)
    table = collect_frame(counted, withheld=withheld)
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


def check_determined(frame: Any, person: str | None) -> None:
    """Refuse a frame whose partitions might not come out alike again, where no row may count twice (S3)."""
    if (why := doubt(frame)) is not None:
        or_checkpoint = "" if is_connect(frame) else ", or checkpoint() it"
        raise TableError(
            f"it is not certain that this Spark frame has the same rows in the same partitions when Spark computes one "
            f"again, since {why}: a row could count twice, and the promise would not hold; {ADVICE}{or_checkpoint}"
        )
    refuse_repeated_files(frame)
