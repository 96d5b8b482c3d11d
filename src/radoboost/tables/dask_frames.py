"""What the driver knows of a Dask data frame: its columns, by its empty model, and its partitions."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def arrow_schema(frame: Any) -> pa.Schema:
    """The columns of the frame, with the types of its model; a column of Python objects has none."""
    return pa.Table.from_pandas(frame._meta, preserve_index=False).schema


def partitions(frame: Any, columns: Sequence[str]) -> list[int | None]:
    """How many rows each partition has: nobody knows before they are read."""
    return [None] * int(frame.npartitions)
