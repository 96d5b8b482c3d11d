"""How the cells of a CSV file are told apart, and how its numbers are written.

The separator is declared, or else it follows from the header alone: no row may change how another is read. How
numbers are written is declared: 1.5 unless something else is (C7 of docs/proofs/contributions.md).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from radoboost.errors import ArgumentError, TableError
from radoboost.tables.paths import is_tsv, one_line_errors, open_csv_stream, open_file
from radoboost.tables.store_files import PEEK_BYTES

SEPARATORS = (",", ";", "\t", "|")
DECIMALS, THOUSANDS = (".", ","), (".", ",", "'", "_", " ", "\u00a0", "\u202f")
_NO_CSV = (
    (b"PAR1\x15", "a Parquet file", ".parquet"),
    (b"ARROW1\x00\x00", "an Arrow file", ".arrow"),
    (b"\x1f\x8b", "packed by gzip", ".gz"),
)
LONGEST_LINE = 1 << 20  # a longer line is no header, and of a longer record only the person is read
LINES = "lines"
# A header as a CSV writer writes it, whatever the separator: what is between quotes fills a cell.
_QUOTED_NAME = rb'(?<![^,;\t|])"(?:[^"]|"")*+"(?![^,;\t|\r\n])'
_HEADER = re.compile(rb'((?:[^"\n]|' + _QUOTED_NAME + rb")*+)\n")


@dataclass(frozen=True)
class CsvDialect:
    """What stands between cells (None: by the header), before decimals, and between thousands.

    Where `records` is "lines", a record of a CSV file is a line of it, for mechanisms that promise something about
    records.
    """

    separator: str | None = None
    decimal: str = "."
    thousands: str | None = None
    records: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and not is_csv_separator(self.separator):
            raise ArgumentError(f"the separator must be one ASCII character such as ';'; it is {self.separator!r}")
        if self.records not in (None, LINES):
            raise ArgumentError(f'records must be "lines", or None; it is {self.records!r}')
        if self.decimal not in DECIMALS:
            raise ArgumentError(f"the decimal mark must be '.' or ','; it is {self.decimal!r}")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands == self.decimal):
            raise ArgumentError(
                f"the thousands mark must be one character other than the decimal mark; it is {self.thousands!r}"
            )

    @property
    def number_pattern(self) -> str:
        """What a number looks like. Arrow matches in one look from left to right, so a long text takes its length."""
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = f"(?:[0-9]+|[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+)"
        point = re.escape(self.decimal)
        return rf"^[ \t]*[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*$"


PLAIN = CsvDialect()


def is_csv_separator(mark: str) -> bool:
    """Whether a character can stand between cells: a tab, or printable ASCII but no quote, point or digit."""
    return len(mark) == 1 and mark.isascii() and (mark == "\t" or mark.isprintable()) and mark not in '".0123456789'


def guess_header_separator(line: bytes, tabs: bool = False) -> str:
    """What separates the names in a header: the most frequent of comma, semicolon, tab and bar outside quotes.

    Of two that are as frequent it is the first in that order, and a comma where there is none. With `tabs`, it is a tab
    if there is one. Marks behind the last name do not count: spreadsheets write them, by what their block has.
    """
    outside = re.sub(_QUOTED_NAME, b"", line.rstrip("".join(SEPARATORS).encode()))
    return "\t" if tabs and b"\t" in outside else max(SEPARATORS, key=lambda mark: outside.count(mark.encode()))


def csv_separator(path: Path, marks: CsvDialect) -> str:
    """What separates the cells of a CSV file: as declared, or by its header."""
    return marks.separator or guess_header_separator(read_csv_header(path, marks.records == LINES), is_tsv(path))


def read_csv_header(path: Path, lines: bool) -> bytes:
    """The header of a CSV file, without its ending, a byte-order mark and empty lines before; at most 2 MiB.

    It has several lines if a quoted name has. Where records are `lines`, or quotes are not as a CSV writer puts them,
    it is the first line.
    """
    read, text, final = b"", b"", False
    header: bytes | None = None
    with one_line_errors(path), open_file(path, PEEK_BYTES) as file:
        stream = open_csv_stream(path, file)
        while header is None and not final and len(text) <= LONGEST_LINE:
            chunk = stream.read(max(PEEK_BYTES, len(read)))
            read, final = read + chunk, not chunk
            text = read.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
            line, feed, _ = text.partition(b"\n")  # the whole of the first line, or what is there of it
            if feed and (lines or line.count(b'"') % 2 == 0):
                header = line
            elif found := _HEADER.match(text + b"\n" * final):
                header = found[1]
    for first_bytes, what, ending in _NO_CSV:
        if read.startswith(first_bytes):  # of the file: no row is looked at
            raise TableError(f"{path} is {what}, whatever it is called; give it a name that ends in {ending}")
    return (line if header is None else header).removesuffix(b"\r")
