"""Table files of every kind, as Arrow record batches of bounded size."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from radoboost.errors import RadoError, TableError, reason

CSV_BLOCK_BYTES = 1 << 22
LARGEST_INTEGER = 2**53
_KINDS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def expand_paths(paths: Any) -> list[Path]:
    """Paths, with patterns replaced by the sorted files that match."""
    try:
        return _expand(paths if isinstance(paths, list | tuple) else [paths])
    except (OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise TableError(f"cannot read {str(paths)[:80]!r}: {why}") from None


def _expand(items: Sequence[Any]) -> list[Path]:
    found: list[Path] = []
    for item in items:
        if Path(item).exists():
            found.append(Path(item))
        elif any(c in str(item) for c in "*?["):
            matches = sorted(glob.glob(str(item), recursive=True))
            if not matches:
                raise TableError(f"no file matches {str(item)!r}; check the pattern")
            found.extend(Path(match) for match in matches)
        else:
            raise TableError(f"no such file: {item}")
    for path in found:
        if path.is_dir():
            raise TableError(f"{path} is a directory; name its files, for instance '{path}/*.parquet'")
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
    return found


def open_file(path: Path) -> pa.NativeFile:
    """A file to read from: Arrow's own format is mapped, so that a record batch of any size costs no memory."""
    return pa.memory_map(str(path)) if file_kind(path) == "arrow" else pa.OSFile(str(path))


def stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    state = os.stat(path)
    return state.st_ino, state.st_size, state.st_mtime_ns


def file_kind(path: Path) -> str:
    """csv, parquet or arrow, by the name."""
    for ending, kind in _KINDS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise TableError(f"{path}: unknown kind of file; it must end in one of {', '.join(_KINDS)}")


@contextmanager
def readable(path: Path | str) -> Iterator[None]:
    """Complaints of libraries about a table, as one line that names it."""
    try:
        yield
    except RadoError:
        raise
    except OSError as error:
        raise TableError(f"cannot read {path}: {reason(error)}") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise TableError(f"cannot read {path}: {(str(error) or type(error).__name__).splitlines()[0]}") from None


def _parquet_schema(path: Path, file: pa.NativeFile) -> tuple[pa.Schema, int | None]:
    parquet = pq.ParquetFile(file)
    return parquet.schema_arrow, parquet.metadata.num_rows


def _parquet_batches(
    path: Path, file: pa.NativeFile, wanted: list[str], label: str | None, rows: int
) -> Iterator[pa.RecordBatch]:
    # Without pre-buffering, and with a buffered stream for each column, a row group of any size is read in pieces.
    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    yield from parquet.iter_batches(batch_size=rows, columns=wanted)


def _arrow_reader(file: pa.NativeFile) -> Any:
    """Arrow's file format, or else its stream format."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _arrow_schema(path: Path, file: pa.NativeFile) -> tuple[pa.Schema, int | None]:
    reader = _arrow_reader(file)
    return reader.schema, reader.count_rows() if hasattr(reader, "count_rows") else None


def _arrow_batches(
    path: Path, file: pa.NativeFile, wanted: list[str], label: str | None, rows: int
) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file)
    if hasattr(reader, "num_record_batches"):
        found: Iterable[pa.RecordBatch] = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        found = reader
    for batch in found:
        yield batch.select(wanted)


def csv_stream(path: Path, file: pa.NativeFile) -> Any:
    """The bytes of a CSV file, unpacked."""
    return pa.CompressedInputStream(file, "gzip") if path.name.lower().endswith(".gz") else file


def _csv_schema(path: Path, file: pa.NativeFile) -> tuple[pa.Schema, int | None]:
    """Types as the first block suggests: they tell truth values and text from numbers."""
    with pa.csv.open_csv(csv_stream(path, file), **_csv_options()) as reader:
        return reader.schema, None


def _csv_batches(
    path: Path, file: pa.NativeFile, wanted: list[str], label: str | None, rows: int
) -> Iterator[pa.RecordBatch]:
    with open_file(path) as first:
        guessed, _ = _csv_schema(path, first)
    kinds = {name: pa.bool_() if guessed.field(name).type == pa.bool_() else pa.float64() for name in wanted}
    if label is not None:
        kinds[label] = pa.string()
    whole = [name for name in wanted if pa.types.is_integer(guessed.field(name).type) and name != label]
    options = pa.csv.ConvertOptions(column_types=kinds, include_columns=wanted, strings_can_be_null=True)
    row = 0
    try:
        with pa.csv.open_csv(csv_stream(path, file), **_csv_options(), convert_options=options) as reader:
            for batch in reader:
                for name in whole:
                    check_integers(batch.column(name).drop_null().to_numpy(), name, row, LARGEST_INTEGER - 1)
                yield batch
                row += batch.num_rows
    except pa.ArrowInvalid as error:
        raise TableError(f"cannot read {path}: {_csv_complaint(error, guessed)}") from None


def _csv_options() -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        "parse_options": pa.csv.ParseOptions(newlines_in_values=True),
    }


def _csv_complaint(error: pa.ArrowInvalid, schema: pa.Schema) -> str:
    """Arrow names a column by its number; people know it by its name."""
    text = str(error).splitlines()[0]
    if "straddling" in text:
        return f"a row is longer than {CSV_BLOCK_BYTES >> 20} MiB"
    _, found, rest = text.partition("In CSV column #")
    number, _, reason = rest.partition(":")
    if not found or not number.isdigit():
        return text
    return f"column {schema.names[int(number)]!r}:{reason}; text columns must be dropped or encoded first"


def read_schema(path: Path, file: pa.NativeFile) -> tuple[pa.Schema, int | None]:
    """The columns of a file, and how many rows it has if it says so."""
    return _SCHEMAS[file_kind(path)](path, file)


def read_batches(
    path: Path, file: pa.NativeFile, wanted: list[str], label: str | None, rows: int
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file, about so many rows at a time."""
    yield from _READERS[file_kind(path)](path, file, wanted, label, rows)


_SCHEMAS = {"csv": _csv_schema, "parquet": _parquet_schema, "arrow": _arrow_schema}
_READERS = {"csv": _csv_batches, "parquet": _parquet_batches, "arrow": _arrow_batches}


def coalesced(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows, and not much fewer."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for piece in sliced(batches, rows):
        # Files may hold the same columns in different types.
        if waiting and (count + piece.num_rows > rows or piece.schema != waiting[0].schema):
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
        waiting.append(piece)
        count += piece.num_rows
    if waiting:
        yield pa.concat_batches(waiting)


def sliced(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows, each a part of one that was there."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def check_integers(values: NDArray[Any], name: str, first_row: int, largest: int = LARGEST_INTEGER) -> None:
    """Refuse integers that float64 cannot tell apart."""
    if values.dtype.itemsize < 8 or not len(values):
        return
    if values.max() > largest or values.min() < -largest:
        row = first_row + int(np.argmax((values > largest) | (values < -largest)))
        raise TableError(
            f"column {name!r} has an integer beyond 2**53 (row {row:,}), which float64 cannot hold; rescale it"
        )
