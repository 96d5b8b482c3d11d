"""CSV files in which a row is one line, whatever is in it; so a file can be cut into ranges of bytes.

A part owns the lines that begin in its range. What a line gives does not depend on where the cuts are.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from radoboost.errors import TableError
from radoboost.tables.files import FilePart
from radoboost.tables.marks import LONGEST_LINE
from radoboost.tables.paths import csv_stream, file_size, first_stamp, is_gzip, open_file, readable
from radoboost.tables.read_ahead import read_ahead
from radoboost.tables.reading import Selection
from radoboost.tables.store_files import PEEK_BYTES
from radoboost.tables.stores import StorePath

RANGE_BYTES = 1 << 25  # of a file, for a part
BLOCK_BYTES = 1 << 22  # read at a time
TEXT_BYTES = 1 << 24  # of empty rows, given to Arrow at a time


def csv_names(path: Path, separator: str) -> list[str]:
    """The names of the columns, from the first line."""
    with open_file(path, PEEK_BYTES) as file:
        lines = next(_lines(_whole(csv_stream(path, file), PEEK_BYTES)), [b""])
    names = _cells(lines[0].removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r"), separator)
    if names is None or not any(names):
        raise TableError(f"cannot read {path}: its first line names no columns; give it a header")
    return [name.decode("utf-8", "backslashreplace") for name in names]


def csv_parts(path: Path, names: Sequence[str], selection: Selection, separator: str) -> list["CsvRange"]:
    """A file as ranges of bytes; a compressed file is one range, for it cannot be cut."""
    mark, size = first_stamp(path), file_size(path)
    if is_gzip(path):
        return [CsvRange(path, mark, selection, None, tuple(names), separator, 0, None)]
    ranges = [(start, start + RANGE_BYTES) for start in range(0, size, RANGE_BYTES)]
    return [CsvRange(path, mark, selection, None, tuple(names), separator, *ends) for ends in ranges]


@dataclass(frozen=True)
class CsvRange(FilePart):
    """The lines of a file that begin in a range of bytes, but for the header; without `stop`, all lines."""

    names: tuple[str, ...]
    separator: str
    start: int
    stop: int | None

    typed = False

    def place(self, row: int) -> str:
        with open_file(self.path) as file:
            before = sum(chunk.count(b"\n") for chunk in _between(file, 0, _line_at(file, self.start, self.stop)))
        return f"line {before + row + (2 if self.start == 0 else 1):,} of {self.path}"

    def count(self) -> int:
        n_rows, end = 0, b"\n"
        with readable(self.path):
            for chunk in self._chunks():
                n_rows, end = n_rows + chunk.count(b"\n"), chunk[-1:]
        self.check_unchanged()
        return n_rows + (end != b"\n") - (self.start == 0)

    def record_batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The features and the label as bytes, a few megabytes at a time."""
        separator = self.separator.encode()
        blank = separator.join([b'""'] * len(self.names))
        read = pa.csv.ReadOptions(column_names=self.names, use_threads=False)
        parse = pa.csv.ParseOptions(delimiter=self.separator, ignore_empty_lines=False)
        columns = self.selection.names
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.binary()), include_columns=columns, check_utf8=False
        )
        header, most = self.start == 0, max(1, TEXT_BYTES // len(blank))
        for lines in _lines(self._chunks()):
            rows = lines[1:] if header else lines
            header = False
            for start in range(0, len(rows), most):
                # An empty row goes first: Arrow strips a byte-order mark from the first row, and no other row may be
                # read differently.
                block = [
                    blank,
                    *(_row(line, len(self.names), separator, blank) for line in rows[start : start + most]),
                ]
                text = b"\n".join(block) + b"\n"
                read.block_size = len(text) + 1  # one block, so that no row is cut in two
                table = pa.csv.read_csv(BytesIO(text), read_options=read, parse_options=parse, convert_options=convert)
                yield from table.slice(1).to_batches()

    def _chunks(self) -> Iterator[bytes]:
        """The bytes of its lines, which a store is asked for before they are needed."""
        return read_ahead(self._bytes(), 2) if isinstance(self.path, StorePath) else self._bytes()

    def _bytes(self) -> Iterator[bytes]:
        """The bytes of its lines; a last line that is too long is cut short, but stays too long."""
        if self.stop is None:
            with open_file(self.path) as file:
                yield from _whole(csv_stream(self.path, file))
            return
        with open_file(self.path, PEEK_BYTES) as file:
            first = _line_at(file, self.start, self.stop)
            last = _line_at(file, self.stop, self.stop + LONGEST_LINE + 2) if first < self.stop else first
        with open_file(self.path, stop=last) as file:
            yield from _between(file, first, last)


def _whole(stream: Any, at_a_time: int = BLOCK_BYTES) -> Iterator[bytes]:
    return iter(lambda: stream.read(at_a_time), b"")


def _between(file: pa.NativeFile, first: int, last: int, at_a_time: int = BLOCK_BYTES) -> Iterator[bytes]:
    file.seek(min(first, file.size()))
    while first < last and (chunk := file.read(min(at_a_time, last - first))):
        yield chunk
        first += len(chunk)


def _line_at(file: pa.NativeFile, place: int, most: int | None) -> int:
    """Where the first line at or after `place` begins; `most` if none begins before that."""
    if place == 0 or most is None:
        return 0
    position = place - 1
    for chunk in _between(file, place - 1, most, PEEK_BYTES):
        end = chunk.find(b"\n")
        if end >= 0:
            return position + end + 1
        position += len(chunk)
    return most


def _lines(chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The lines of a text that comes in chunks; a line that is too long may come out empty."""
    rest, too_long = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if too_long and lines:
            lines[0], too_long = b"", False
        if too_long or len(rest) > LONGEST_LINE + 1:  # one byte may be a carriage return
            rest, too_long = b"", True
        if lines:
            yield lines
    if rest or too_long:
        yield [rest]


def _row(line: bytes, n_cells: int, separator: bytes, blank: bytes) -> bytes:
    """A line that may have quotes as a row; `blank` where it is not one."""
    if b'"' not in line and b"\r" not in line and len(line) <= LONGEST_LINE:
        return line if line.count(separator) == n_cells - 1 and (line or n_cells > 1) else blank
    cells = _cells(line, separator.decode())
    if cells is None or len(cells) != n_cells:
        return blank
    return separator.join(b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells)


def _cells(line: bytes, separator: str) -> list[bytes] | None:
    """The cells of one line, by the usual rules of quoting; None for a line that is too long or breaks them."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        # One byte is one character here, so that nothing is lost or refused.
        text = line.decode("latin-1").replace("\r", " ").replace("\n", " ")
        cells = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return None
    return [cell.encode("latin-1") for cell in cells]
