"""CSV files read strictly, as Arrow reads them: quotes may hold line breaks, so a file is one part."""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from radoboost.errors import NeedsSchema, TableError
from radoboost.tables.column_selection import LARGEST_INTEGER, check_integers
from radoboost.tables.column_types import Category
from radoboost.tables.files import FilePart
from radoboost.tables.paths import csv_stream, is_gzip, open_file

CSV_BLOCK_BYTES = 1 << 22
NULLS = frozenset(pa.csv.ConvertOptions().null_values)  # missing in every column; `cells.GAPS` has them all


@dataclass(frozen=True)
class CsvFile(FilePart):
    """A whole CSV file; `schema` has the types that its first block of rows suggests."""

    schema: pa.Schema
    separator: str

    typed = False

    def place(self, row: int) -> str:
        return f"line {line_of_row(self.path, row):,} of {self.path}"

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features as float64, or as truth values where `schema` says so, and the label as text.

        Where a schema says what the columns mean, all of them are texts.
        """
        reading, schema, names = self.selection.reading, self.schema, self.selection.names
        types, integers = self._types()
        options = pa.csv.ConvertOptions(
            column_types=types,
            include_columns=names,
            strings_can_be_null=True,
            null_values=sorted(NULLS - self._declared),
            decimal_point=reading.marks.decimal,
        )
        row = 0
        try:
            with (
                open_file(self.path) as file,
                pa.csv.open_csv(
                    csv_stream(self.path, file), **_options(self.separator), convert_options=options
                ) as reader,
            ):
                for batch in reader:
                    for name in integers:
                        numbers = batch.column(name).fill_null(0).to_numpy()
                        check_integers(numbers, name, partial(self._place, row), LARGEST_INTEGER - 1)
                    yield self._with_label(batch)
                    row += batch.num_rows
        except pa.ArrowInvalid as error:
            # A cell that is no number: a schema may say what else it is.
            wrong = NeedsSchema if "In CSV column #" in str(error) else TableError
            raise wrong(f"cannot read {self.path}: {_complaint(error, schema)}") from None

    def _types(self) -> tuple[dict[str, pa.DataType], list[str]]:
        """The types to read columns as, and which of them seem to be integers."""
        if self.selection.reading.schema is not None:
            return dict.fromkeys(self.selection.names, pa.string()), []
        features, schema = self.selection.features, self.schema
        types = {name: pa.bool_() if schema.field(name).type == pa.bool_() else pa.float64() for name in features}
        if self.selection.label is not None:
            types[self.selection.label] = pa.string()
        return types, [name for name in features if pa.types.is_integer(schema.field(name).type)]

    @cached_property
    def _declared(self) -> frozenset[str]:
        """Words that stand for a missing value elsewhere, but are values of some category of the schema."""
        schema = self.selection.reading.schema
        kinds = () if schema is None else schema.columns.values()
        values = [kind.values or () for kind in kinds if isinstance(kind, Category)]
        return NULLS.intersection(str(value).strip() for some in values for value in some)

    def _with_label(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows; a label that stands for a missing value is missing, whatever some category declares."""
        label = self.selection.label
        if label is None or not self._declared:
            return batch
        column = batch.column(label)
        column = pc.if_else(pc.is_in(column, pa.array(sorted(NULLS))), pa.scalar(None, pa.string()), column)
        return batch.set_column(batch.schema.get_field_index(label), label, column)

    def _place(self, first: int, row: int) -> str:
        return self.place(first + row)


def csv_schema(path: Path, separator: str, decimal: str = ".") -> pa.Schema:
    """The columns, with types by the first block of rows: numbers, truth values or text."""
    options = pa.csv.ConvertOptions(decimal_point=decimal)
    with (
        open_file(path) as file,
        pa.csv.open_csv(csv_stream(path, file), **_options(separator), convert_options=options) as reader,
    ):
        return reader.schema


def line_of_row(path: Path, row: int) -> int:
    """The line on which a row begins, counted from 1: the header is a line, and so are empty lines and quoted breaks.

    The file is read again up to there, so this is for messages only.
    """
    quoted, rows = False, -1  # the header is not a row
    number = 0
    with open_file(path) as file, TextIOWrapper(_decompressed_csv(path, file), encoding="latin-1") as lines:
        for number, line in enumerate(lines, 1):
            if not quoted and line != "\n":
                if rows == row:
                    return number
                rows += 1
            quoted ^= line.count('"') % 2 == 1
    return number


def _decompressed_csv(path: Path, file: pa.NativeFile) -> Any:
    """The bytes of a CSV file, as Python reads them."""
    return gzip.open(file) if is_gzip(path) else BufferedReader(file)


def _options(separator: str) -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        "parse_options": pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
    }


def _complaint(error: pa.ArrowInvalid, schema: pa.Schema) -> str:
    """Arrow's message, with the name of the column instead of its number."""
    text = str(error).splitlines()[0]
    if "straddling" in text:
        return f"a row is longer than {CSV_BLOCK_BYTES >> 20} MiB"
    _, mark, rest = text.partition("In CSV column #")
    number, _, reason = rest.partition(":")
    reason = re.sub(r"^ Row #\d+:", "", reason)  # there with one core only
    if not mark or not number.isdigit():
        return text
    name = repr(schema.names[int(number)])
    if "UTF8" in reason:
        return f"column {name} has text that is not UTF-8; save the file as UTF-8"
    return f"column {name}:{reason}; drop text columns, or say in a schema what they mean"
