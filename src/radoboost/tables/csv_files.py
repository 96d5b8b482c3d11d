"""CSV files read strictly, as Arrow reads them: quotes may hold line breaks, so a file is one part."""

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from radoboost.errors import NeedsSchema, TableError
from radoboost.tables.column_selection import LARGEST_INTEGER, refuse_inexact
from radoboost.tables.column_types import Category
from radoboost.tables.csv_dialect import LONGEST_LINE
from radoboost.tables.csv_records import OPEN_QUOTE, TOO_LONG, TOO_WIDE, Records, csv_record_starts, split_first_record
from radoboost.tables.files import FilePart, InFolder
from radoboost.tables.object_stores import StorePath
from radoboost.tables.paths import first_file_stamp, is_gzip, one_line_errors, open_csv_stream, open_file, size_of_file
from radoboost.tables.readers import ColumnSelection
from radoboost.tables.store_files import PEEK_BYTES, read_ahead
from radoboost.tables.table import Partition

CSV_BLOCK_BYTES = 1 << 22
NULLS = frozenset(pa.csv.ConvertOptions().null_values)  # missing in every column; `cells.GAPS` has them all


@dataclass(frozen=True)
class CsvFile(FilePart):
    """A whole CSV file; `schema` has the types that its first block of rows suggests."""

    schema: pa.Schema
    separator: str

    typed = False

    def place(self, row: int) -> str:
        return f"line {line_of_csv_row(self.path, row):,} of {self.path}"

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
                    open_csv_stream(self.path, file), **raw_csv_options(self.separator), convert_options=options
                ) as reader,
            ):
                for batch in reader:
                    for name in integers:
                        numbers = batch.column(name).fill_null(0).to_numpy()
                        refuse_inexact(numbers, name, partial(self._place, row), LARGEST_INTEGER - 1)
                    yield self._with_label(batch)
                    row += batch.num_rows
        except pa.ArrowInvalid as error:
            # A cell that is no number: a schema may say what else it is.
            wrong = NeedsSchema if "In CSV column #" in str(error) else TableError
            raise wrong(f"cannot read {self.path}: {_csv_error_text(error, schema)}") from None

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
        kinds = [] if schema is None else [kind for kind in schema.columns.values() if isinstance(kind, Category)]
        return frozenset(word for kind in kinds for word in kind.spelled(NULLS))

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
    options = raw_csv_options(separator) | {"convert_options": pa.csv.ConvertOptions(decimal_point=decimal)}
    try:
        with open_file(path) as file, pa.csv.open_csv(open_csv_stream(path, file), **options) as reader:
            return reader.schema
    except pa.ArrowInvalid as error:
        raise no_csv_names_error(path) if "cannot infer number of columns" in str(error) else error from None


def no_csv_names_error(path: Path) -> TableError:
    return TableError(f"cannot read {path}: its first line names no columns; give it a header")


def line_of_csv_row(path: Path, row: int) -> int:
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


def raw_csv_options(separator: str) -> dict[str, Any]:
    """How Arrow reads a CSV file with this separator."""
    return {
        "read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        "parse_options": pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
    }


def _csv_error_text(error: pa.ArrowInvalid, schema: pa.Schema) -> str:
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


# ---- CSV files read row by row, in ranges of bytes from the start of one record to that of another.
#
# What a record is, `csv_records` says; where records start, one look over the file finds out.


RANGE_BYTES = 1 << 25  # of a file, for a part
BLOCK_BYTES = 1 << 22  # read at a time
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EMPTIED = "all their cells but the person's are read as empty"


def csv_names(path: Path, separator: str, lines: bool = False, skip: bytes = b"") -> list[str]:
    """The names of the columns, from the first record; with `lines`, from the first line alone. There may be none.

    Empty names at the end are no columns: spreadsheets pad the header with the rows of its block. Bytes to `skip` are
    none of the header where they come before it.
    """
    read, text, cells, final = b"", b"", None, False
    with open_file(path, PEEK_BYTES) as file:
        stream = open_csv_stream(path, file)
        while cells is None and not final and len(text) <= LONGEST_LINE:
            chunk = stream.read(max(PEEK_BYTES, len(read)))
            read, final = read + chunk, not chunk
            text = read.removeprefix(_BYTE_ORDER_MARK).lstrip(skip)
            if lines and b"\n" in text:
                text, final = text[: text.index(b"\n") + 1], True
            cells = split_first_record(text, separator, final)
    first_line = text.partition(b"\n")[0].removesuffix(b"\r")
    bare = [first_line] if cells is None else [cell for cell, quoted in cells if not quoted]
    if b"\r" in b"".join(bare):
        raise TableError(
            f"cannot read {path}: its header has a carriage return without a line feed, so its lines do not end as a "
            "CSV writer ends them; write it anew with line feeds (in Python: open(..., newline=''))"
        )
    if cells is None:
        where = "its first line, which is the header where records are lines," if lines else "its header"
        raise TableError(
            f"cannot read {path}: {where} has a quoted name that is not closed, or more than 1 MiB; repair it, or "
            "declare the separator"
        )
    names = [cell for cell, _ in cells]
    while names and not names[-1]:
        names.pop()
    return [name.decode("utf-8", "backslashreplace") for name in names]


def csv_parts(
    path: Path, names: Sequence[str], selection: ColumnSelection, separator: str, lines: bool
) -> list["CsvRange"]:
    """A file as ranges of bytes; one that is compressed, or in a store, is one range."""
    mark, size = first_file_stamp(path), size_of_file(path)
    starts: list[int] = []
    if not (is_gzip(path) or isinstance(path, StorePath) or size <= RANGE_BYTES):
        with open_file(path) as file:
            first = len(_BYTE_ORDER_MARK) * (file.read(3) == _BYTE_ORDER_MARK)
            chunks = _csv_byte_range_chunks(file, first, size)
            starts = csv_record_starts(chunks, separator, lines, first, size, RANGE_BYTES)
    ends = zip([0, *starts], [*starts, None], strict=True)
    return [CsvRange(path, mark, selection, None, tuple(names), separator, lines, *own) for own in ends]


@dataclass(frozen=True)
class CsvRange(FilePart):
    """The records of a file from `start` to `stop`, but for the header; without `stop`, up to its end.

    With `lines` a record is a line.
    """

    names: tuple[str, ...]
    separator: str
    lines: bool
    start: int
    stop: int | None

    typed = False

    def place(self, row: int) -> str:
        """The number of a record, from 1, and behind which byte it is counted where that is not the header."""
        return f"record {row + 1:,} of {self.path}" + (f" behind byte {self.start:,}" if self.start else "")

    def lines_of_records(self, rows: Sequence[int]) -> dict[int, int]:
        """The lines, counted from 1, on which records begin, some of which have several; for messages."""
        found, first = dict[int, int](), 0
        with open_file(self.path) as file:
            number = 1 + sum(chunk.count(b"\n") for chunk in _csv_byte_range_chunks(file, 0, self.start))
        number += 0 if self.start else 1 + sum(name.count("\n") for name in self.names)
        for fates, cells in self._records(tuple(range(len(self.names)))) if rows else ():
            inside = [pc.count_substring(column, "\n").to_numpy() for column in cells]
            breaks = 1 + np.sum(inside, axis=0, dtype=np.int64)
            starts = number + np.cumsum(breaks) - breaks
            found |= {row: int(starts[row - first]) for row in rows if first <= row < first + len(fates)}
            number, first = number + int(breaks.sum()), first + len(fates)
            if first > max(rows):
                break
        return found

    def count(self) -> int:
        with one_line_errors(self.path):
            n_rows = sum(len(fates) for fates, _ in self._records(()))
            self.check_unchanged()
        return n_rows

    def fates(self) -> NDArray[np.int64]:
        """How many records it has of each fate, in the order of `csv_records`."""
        with one_line_errors(self.path):
            counts = sum((np.bincount(fates, minlength=4) for fates, _ in self._records(())), np.zeros(4, np.int64))
            self.check_unchanged()
        return counts

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features, the label and the person as bytes, a few megabytes at a time."""
        names = self.selection.names
        columns = dict.fromkeys(self.names.index(name) for name in names)
        for _, cells in self._records(tuple(columns)):
            by_column = dict(zip(columns, cells, strict=True))
            yield pa.RecordBatch.from_arrays([by_column[self.names.index(name)] for name in names], names)

    def _records(self, columns: tuple[int, ...]) -> Iterator[tuple[NDArray[np.int8], list[pa.Array]]]:
        person = self.selection.person
        records = Records(
            self.separator, self.lines, len(self.names), columns,
            -1 if person is None or not columns else self.names.index(person), LONGEST_LINE,
        )  # fmt: skip
        header = self.start == 0
        for fates, cells in records.read(self._chunks):
            yield fates[header:], [column[header:] for column in cells]
            header = False

    def _chunks(self) -> Iterator[bytes]:
        """Its bytes, which a store is asked for before they are needed; without a mark at the beginning of the file."""
        chunks = read_ahead(self._bytes(), 2) if isinstance(self.path, StorePath) else self._bytes()
        head = b""
        for chunk in chunks:
            if self.start == 0 and len(head) < 3:
                head += chunk
                if len(head) < 3:
                    continue
                chunk = head.removeprefix(_BYTE_ORDER_MARK)
            yield chunk
        if 0 < len(head) < 3:
            yield head

    def _bytes(self) -> Iterator[bytes]:
        with open_file(self.path) as file:
            if self.stop is None and self.start == 0:
                stream = open_csv_stream(self.path, file)
                yield from iter(lambda: stream.read(BLOCK_BYTES), b"")
            else:
                yield from _csv_byte_range_chunks(file, self.start, self.stop or file.size())


def _csv_byte_range_chunks(file: pa.NativeFile, first: int, last: int) -> Iterator[bytes]:
    file.seek(first)
    while first < last and (chunk := file.read(min(BLOCK_BYTES, last - first))):
        yield chunk
        first += len(chunk)


@dataclass(frozen=True)
class CsvFates:
    """How many records of CSV files are rows of empty cells, or have only a person, because of the form they have."""

    open_quote: int = 0
    too_long: int = 0
    too_wide: int = 0

    def to_dict(self) -> dict[str, int]:
        return {f"records_{name}": count for name, count in vars(self).items() if count}

    def as_text(self) -> list[str]:
        words = (
            (
                self.open_quote,
                "lines begin a quoted cell that nothing closes, and are read as empty; what was meant to "
                "be one record may be several: write the file with a program that writes CSV, or as Parquet",
            ),
            (self.too_long, f"records have more than {LONGEST_LINE:,} bytes: {_EMPTIED}"),
            (self.too_wide, f"records have more cells than the header that are not empty: {_EMPTIED}"),
        )
        return [f"{count:,} {text}" for count, text in words if count]


def count_csv_record_fates(parts: Sequence[Partition]) -> CsvFates:
    """What became of records in the CSV files of a table, which are read for that."""
    ranges = [part.rows if isinstance(part, InFolder) else part for part in parts]
    counts = sum((part.fates() for part in ranges if isinstance(part, CsvRange)), np.zeros(4, np.int64))
    return CsvFates(*counts[[OPEN_QUOTE, TOO_LONG, TOO_WIDE]].tolist())
