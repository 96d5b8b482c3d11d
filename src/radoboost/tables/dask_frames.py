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


_STEPS = ("Concat", "Partitions", "Repartition")  # that move rows in a determined order, besides those row by row
_SOURCES = ("ReadParquet", "FromPandas", "FromArray")  # as names begin
_FUNCTIONS = ("Map", "Apply", "Sample", "UFunc")  # row by row, by functions that may be anybody's
_WORDS = {
    "FromMap": "from_map (or read_csv)",
    "FromMapProjectable": "read_csv (or from_map)",
    "FromGraph": "persist",
    "DelayedsExpr": "from_delayed",
    "RearrangeByColumn": "shuffle",
}


def undetermined(frame: Any) -> str:
    """The step after which rows may be others when a partition is computed again; nothing if there is none.

    Files of Parquet and data in memory have the same rows whenever they are read, and so has what is computed row by
    row from these. A shuffle promises no order, and a function of the caller's may do anything.

    >>> import dask.dataframe as dd, pandas as pd
    >>> frame = dd.from_pandas(pd.DataFrame({"a": [2.0, 1.0], "b": [1.0, 2.0]}), npartitions=2)
    >>> undetermined(frame[frame.a > 1][["b"]]), undetermined(frame.shuffle("a"))
    ('', 'shuffle')
    """
    from dask.dataframe.dask_expr._expr import Blockwise

    for step in frame.expr.walk():
        name = type(step).__name__
        by_row = isinstance(step, Blockwise) and not name.startswith(_FUNCTIONS) and step.dependencies()
        if not (by_row or name in _STEPS or name.startswith(_SOURCES)):
            return _WORDS.get(name, name)
    return ""
