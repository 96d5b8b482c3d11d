"""What the driver knows of a Spark data frame: its columns and its partitions."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def arrow_schema(frame: Any) -> pa.Schema:
    """The columns of the frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame with these columns alone."""
    return frame.select(*dict.fromkeys(columns))


def n_partitions(frame: Any) -> int:
    """How many partitions there are."""
    return int(frame.rdd.getNumPartitions())
