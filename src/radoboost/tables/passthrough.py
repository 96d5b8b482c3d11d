"""Columns of a table that are carried through as they are: a cell of a CSV file is its text."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.raw_table import raw_table


class PassthroughColumns:
    """Some columns of a table, of which rows are taken from the first one on."""

    def __init__(self, table: Any, names: Sequence[str], separator: str | None = None) -> None:
        """Open the table; `separator` is that of a CSV file, by default what its header line says."""
        raw = raw_table(table, names, separator)
        self._batches: Iterator[pa.RecordBatch] = (batch.columns for batch in raw.batches())
        self._rest = next(self._batches, pa.RecordBatch.from_pylist([], schema=pa.schema([])))
        self.schema = pa.schema([(field.name, _value_type(field.type)) for field in self._rest.schema])

    def take(self, n_rows: int) -> pa.Table:
        pieces: list[pa.Table] = []
        while n_rows > 0:
            if not self._rest.num_rows:
                following = next(self._batches, None)
                if following is None:
                    raise TableError("the table changed while it was read; try again once it is at rest")
                self._rest = following
            piece = self._rest.slice(0, n_rows)
            self._rest = self._rest.slice(piece.num_rows)
            n_rows -= piece.num_rows
            pieces.append(pa.Table.from_batches([piece]).cast(self.schema))
        return pa.concat_tables(pieces).combine_chunks()


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary, which the next rows may not share."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
