"""What the driver knows of a Dask data frame: its columns, by its empty model, and its partitions."""

from typing import Any

import pyarrow as pa


def arrow_schema(frame: Any) -> pa.Schema:
    """The columns of the frame, with the types of its model; a column of Python objects has none."""
    return pa.Table.from_pandas(frame._meta, preserve_index=False).schema


def n_partitions(frame: Any) -> int:
    """How many partitions there are."""
    return int(frame.npartitions)
