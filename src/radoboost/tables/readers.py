"""What the two ways to read a table have in common.

`strict` takes a table as a whole and refuses whatever cannot be used. `row_by_row` is for mechanisms that promise
something about records: no value decides how another is read, and none is a reason to refuse. The choice is made once,
when the table is opened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.errors import DoesNotFit, TableError
from radoboost.tables.csv_dialect import PLAIN, CsvDialect
from radoboost.tables.schema import Schema
from radoboost.tables.table import Partition, Table


@dataclass(frozen=True)
class Reader(Protocol):
    """How labels are taken, columns become numbers, CSV files are read and batches are cut.

    With a `schema` columns need not be numbers: they become its encoded columns. It says how CSV files and texts of
    numbers are written; without one, `given` does. What only refuses something refuses nothing here.
    """

    schema: Schema | None = None
    given: CsvDialect = PLAIN

    takes_sparse: ClassVar[bool] = False  # whether rows of a sparse matrix may be used by their entries, and not dense
    must_not_change: ClassVar[bool] = False  # whether it must be known of a file that it is the same in every pass

    @property
    def marks(self) -> CsvDialect:
        return self.given if self.schema is None else self.schema.marks

    @property
    def typed_folders(self) -> bool:
        """Whether the names of all folders together may decide that a column of them is of numbers."""
        return False

    def labels(self, y: Any) -> pa.Array:
        """Labels in any container."""

    def is_frame(self, table: Any) -> bool:
        """Whether the caller's table has columns with names."""

    def array(self, table: Any) -> Any:
        """The caller's table as a NumPy array or sparse matrix."""

    def frame(self, table: Any, features: Sequence[str] | None, label: str | None) -> tuple[pa.Table, pa.Array | None]:
        """A data frame as an Arrow table, and its labels where they are not a column of that."""

    def check_types(self, schema: pa.Schema, features: Sequence[str]) -> None:
        """Refuse columns on account of their types, which one value can change."""
        return None

    def check_dtype(self, array: Any) -> None:
        """Refuse an array on account of its type, which one value can change."""
        return None

    def array_values(self, values: NDArray[Any], features: Sequence[str], place: Callable[[int], str]) -> NDArray[Any]:
        """Rows of an array as float32 or float64, C-contiguous."""

    def numbers(self, column: pa.Array, name: str, place: Callable[[int], str]) -> NDArray[Any]:
        """A column as numbers."""

    def complaints(
        self, column: pa.Array, name: str, numbers: NDArray[np.float64], place: Callable[[int], str]
    ) -> list[str]:
        """What is wrong with cells of a schema's column, given its numbers, NaN where one is missing or cannot be read.

        Each complaint is a clause that names the column and the place; none where such cells count as missing.
        """
        return []

    def cut(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of at most `rows` rows."""

    def csv_schema(self, path: Path) -> pa.Schema:
        """The columns of a CSV file."""

    def csv_parts(self, path: Path, schema: pa.Schema, selection: "ColumnSelection") -> Sequence[Partition]:
        """A CSV file with these columns, as parts."""

    def check_opened(self, source: Table) -> None:
        """Refuse a table that is useless, as far as that is known before it is read."""
        return None


@dataclass(frozen=True)
class ColumnSelection:
    """Which columns of a table are read, and how: features in order, and the columns of label and person or None."""

    features: tuple[str, ...]
    label: str | None
    reading: Reader
    person: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns in the order of record batches: the features, then the label, then the person."""
        return [*self.features, *(name for name in (self.label, self.person) if name is not None)]


def refuse_one_time_tables(table: Any) -> None:
    """Refuse lazy tables and iterators, and say what to pass instead."""
    kind = type(table).__name__
    if type(table).__module__.startswith("pyspark.") and kind.endswith("RDD"):
        raise TableError("an RDD has no columns; make a data frame of it (its toDF(), with names), and pass that")
    if hasattr(table, "collect"):
        raise TableError(f"a {kind} is not a table yet; pass what its collect() gives")
    if isinstance(table, Iterator):
        raise TableError(f"a {kind} is not a table; pass a list of rows, a record batch reader, or a file")


def unreadable_cells_error(complaints: Mapping[str, Sequence[str]]) -> DoesNotFit:
    """The error for cells that cannot be read: all complaints by column, and what to do."""
    clauses = [clause for column in complaints.values() for clause in column]
    advice = "correct it, declare the column" if len(clauses) == 1 else "correct them, declare such a column"
    by_column = {name: "; ".join(column) for name, column in complaints.items()}
    return DoesNotFit(f"{'; '.join(clauses)}: {advice} a category, or leave it out", by_column)
