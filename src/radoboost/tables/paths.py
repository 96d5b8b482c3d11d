"""Which files a table is in, of which kind they are, and whether one changed."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from radoboost.errors import RadoError, TableError, reason
from radoboost.tables.addresses import masked
from radoboost.tables.folders import folder_files, pattern_files
from radoboost.tables.named_paths import NamedPath

KINDS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PARTITION = re.compile(r"([A-Za-z_]\w*)=(.*)")


def is_paths(table: Any) -> bool:
    """Whether the caller names files: a path, a pattern, or a list of them."""
    is_list = isinstance(table, list | tuple) and len(table) > 0 and all(isinstance(p, str | Path) for p in table)
    return isinstance(table, str | Path) or is_list


def expand_paths(paths: Any) -> list[Path]:
    """Paths, with patterns replaced by the sorted files that match."""
    try:
        return _expand(paths if isinstance(paths, list | tuple) else [paths])
    except (OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise TableError(f"cannot read {masked(str(paths))[:80]!r}: {masked(why)}") from None


def _expand(items: Sequence[Any]) -> list[Path]:
    files: list[Path] = []
    for item in items:
        path = item if isinstance(item, Path) else Path(item)
        if path.is_dir():
            files += folder_files(path, file_kind)
        elif path.exists():
            files.append(path)
        elif any(c in str(item) for c in "*?["):
            matches = sorted(glob.glob(str(item), recursive=True))
            if not matches:
                raise TableError(f"no file matches {masked(str(item))!r}; check the pattern")
            files += pattern_files(str(item), matches)
        else:
            raise TableError(f"no such file: {masked(str(item))}")
    for path in files:
        if path.is_dir():
            raise TableError(f"{path} is a directory; name it alone, or its files, for instance '{path}/*.parquet'")
        if not path.is_file():
            raise TableError(
                f"{path} is a pipe or a device, and a table is read more than once; save it as a file first"
            )
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
    return files


def partition_columns(paths: Sequence[Path]) -> dict[str, str]:
    """Columns that only names of folders hold and in which listed files differ, each with one of its folders.

    Files that were found in a folder, or by a pattern, have such columns.

    >>> partition_columns([Path("year=2020/a.parquet"), Path("year=2021/a.parquet")])
    {'year': 'year=2021'}
    """
    folders: dict[str, dict[str, str]] = {}
    for path in paths:
        for folder in () if isinstance(path, NamedPath) else path.parts[:-1]:
            if match := _PARTITION.fullmatch(folder):
                folders.setdefault(match[1], {})[match[2]] = folder
    return {name: list(values.values())[-1] for name, values in folders.items() if len(values) > 1}


def file_kind(path: Path) -> str:
    """csv, parquet or arrow, by the ending of the name; a spool knows its own, which may also be stream."""
    if isinstance(path, NamedPath) and path.kind is not None:
        return path.kind
    for ending, kind in KINDS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise TableError(f"{path}: unknown kind of file; it must end in one of {', '.join(KINDS)}")


def is_tsv(path: Path) -> bool:
    """Whether the name of a file says that tabs stand between its cells."""
    return path.name.lower().endswith((".tsv", ".tsv.gz"))


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed as a whole."""
    return path.name.lower().endswith(".gz")


def open_file(path: Path) -> pa.NativeFile:
    """A file to read from. Arrow's own format is mapped, so that a record batch of any size takes no memory."""
    place = os.fsencode(path)  # as bytes: the name of a folder may not be UTF-8
    return pa.memory_map(place) if file_kind(path) == "arrow" else pa.OSFile(place)


def csv_stream(path: Path, file: pa.NativeFile) -> Any:
    """The bytes of a CSV file, unpacked."""
    return pa.CompressedInputStream(file, "gzip") if is_gzip(path) else file


Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Numbers that change when the file does."""
    state = os.stat(path)
    return state.st_ino, state.st_size, state.st_mtime_ns


@contextmanager
def readable(path: Path | str) -> Iterator[None]:
    """Turn a library's error about a table into one line that names the table."""
    try:
        yield
    except RadoError:
        raise
    except OSError as error:
        raise TableError(f"cannot read {path}: {reason(error)}") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise TableError(f"cannot read {path}: {(str(error) or type(error).__name__).splitlines()[0]}") from None
