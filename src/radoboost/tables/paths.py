"""Which files a table is in, of which kind they are, and whether one changed."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from radoboost.errors import RadoError, TableError, reason
from radoboost.tables.folders import (
    files_matching_pattern,
    refuse_versioned_folders,
    refuse_versioned_store_folders,
    table_files_in_folder,
    table_files_in_store,
)
from radoboost.tables.named_paths import NamedPath
from radoboost.tables.object_stores import StorePath
from radoboost.tables.store_files import WindowedFile, store_file_stamp
from radoboost.tables.urls import StoreAddress, is_collapsed_url, is_store_url, local_path_of_url, mask_passwords

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
_CSV = tuple(ending for ending, kind in KINDS.items() if kind == "csv")
_PARTITION = re.compile(r"([A-Za-z_]\w*)=(.*)")
_SAME_STORES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs", "http": "https", "ssh": "sftp"}


def is_paths(table: Any) -> bool:
    """Whether the caller names files: a path, a pattern, or a list of them."""
    is_list = isinstance(table, list | tuple) and len(table) > 0 and all(isinstance(p, str | Path) for p in table)
    return isinstance(table, str | Path) or is_list


def expand_paths(paths: Any) -> list[Path]:
    """Paths, with patterns replaced by the sorted files that match."""
    try:
        return _expand_path_items(paths if isinstance(paths, list | tuple) else [paths])
    except (OSError, ValueError) as error:
        if isinstance(error, RadoError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise TableError(f"cannot read {mask_passwords(str(paths))[:80]!r}: {mask_passwords(why)}") from None


def _expand_path_items(items: Sequence[Any]) -> list[Path]:
    named: list[tuple[Path, str]] = []  # each file, and how the caller spelled it
    stored: list[StorePath] = []  # files of stores, of whose folders nothing is known yet
    for item in items:
        if isinstance(item, StorePath):
            named.append((item, str(item)))
            continue
        if is_store_url(item):
            found = table_files_in_store(item, file_kind)
            named += [(path, str(path)) for path in found]
            stored += [path for path in found if path.named and not path.place.startswith("http")]
            continue
        path = item if isinstance(item, Path) else Path(item := local_path_of_url(item))
        spelled = str(item)
        if path.is_dir():
            named += [(file, f"{file} in the folder {spelled}") for file in table_files_in_folder(path, file_kind)]
        elif path.exists():
            named.append((path, spelled))
        elif any(c in spelled for c in "*?["):
            matches = sorted(glob.glob(spelled, recursive=True))
            if not matches:
                raise TableError(f"no file matches {mask_passwords(spelled)!r}; check the pattern")
            named += [(file, f"{file} by the pattern {spelled}") for file in files_matching_pattern(spelled, matches)]
        elif isinstance(item, Path) and is_collapsed_url(item):
            raise TableError(f"no such file: {mask_passwords(spelled)}; pass an address as a text, not as a Path")
        else:
            raise TableError(f"no such file: {mask_passwords(spelled)}")
    files = [path for path, _ in named]
    for path in files:
        here = not isinstance(path, StorePath)
        if here and path.is_dir():
            raise TableError(f"{path} is a directory; name it alone, or its files, for instance '{path}/*.parquet'")
        if here and not path.is_file():
            raise TableError(
                f"{path} is a pipe or a device, and a table is read more than once; save it as a file first"
            )
        if len(files) == 1 or not path.name.lower().endswith(_CSV):  # of several, one may be of a frame without records
            _refuse_empty_file(path)
    refuse_repeated_files(named)
    if len(files) > 1:
        refuse_versioned_folders([path for path in files if not isinstance(path, StorePath)])
        refuse_versioned_store_folders(
            (replace(StoreAddress.of(path.place), path="").public(), path.store.system, path.key) for path in stored
        )
    return files


def refuse_repeated_files(named: Sequence[tuple[Path, str]]) -> None:
    """Refuse a file that is named twice, for each of its records would count twice; likewise `t.csv` beside `t.csv.gz`.

    Names alone decide, never content, which would be a function of rows: a copy under another name goes unnoticed.
    """
    spellings: dict[Any, dict[str, str]] = {}
    tables: dict[Any, dict[str, str]] = {}
    for path, spelled in named:
        file, holder = _file_identity(path)
        if (first := _earlier_path_of_file(spellings, file, holder)) is not None:
            ways = f"{spelled!r} is named twice" if first == spelled else f"{first!r} and {spelled!r} are the same file"
            raise TableError(f"{ways}, so its records would count twice; name it once")
        folder, name = os.path.split(file[1] if isinstance(path, StorePath) else os.fspath(path))
        place = (file[0], folder) if isinstance(path, StorePath) else os.path.realpath(folder)
        table = (place, _path_without_ending(name))
        if (other := _earlier_path_of_file(tables, table, holder)) is not None:
            raise TableError(
                f"by their names {other!r} and {spelled!r} hold the same table, so its records would count twice; "
                "name one of them, or rename one if they are different tables"
            )
        spellings.setdefault(file, {})[holder] = tables.setdefault(table, {})[holder] = spelled


def _earlier_path_of_file(spellings: Mapping[Any, Mapping[str, str]], file: Any, holder: str) -> str | None:
    """How the same file was spelled before; an address that does not say who holds it may mean any holder's."""
    known = spellings.get(file, {}).items()
    return next((text for other, text in known if other == holder or not (other and holder)), None)


def _path_without_ending(name: str) -> str:
    """The name of a file without the ending that says of which kind it is."""
    ending = max((ending for ending in KINDS if name.lower().endswith(ending)), key=len, default="")
    return name[: len(name) - len(ending)]


def _file_identity(path: Path) -> tuple[Any, str]:
    """What all names of one file have in common, and who holds it, as far as the address of a store says that."""
    if not isinstance(path, StorePath):
        return local_file_identity(path), ""
    address = StoreAddress.of(path.place)
    scheme, host, place = _SAME_STORES.get(address.scheme, address.scheme), address.host, address.path
    if scheme in ("s3", "gs"):
        return (scheme, f"{host}/{place}"), address.option("endpoint_override") or ""
    if scheme == "memory":
        return (scheme, f"{host}/{place}".lstrip("/")), ""
    if scheme != "abfs":
        return (scheme, place), host
    if address.user:  # CONTAINER@ACCOUNT.dfs.core.windows.net
        return (scheme, f"{address.user}/{place}"), host.partition(".")[0]
    return ((scheme, place), host.partition(".")[0]) if "." in host else ((scheme, f"{host}/{place}"), "")


def local_file_identity(path: str | os.PathLike[str]) -> Any:
    """What all names of a file on this machine have in common: device and inode, or else the real path."""
    state = os.stat(path)
    return (state.st_dev, state.st_ino) if state.st_ino else os.path.realpath(path)


def _refuse_empty_file(path: Path) -> None:
    with one_line_errors(path):
        if size_of_file(path) == 0:
            raise TableError(f"{path} is empty")


def folder_columns_that_differ(paths: Sequence[Path]) -> dict[str, str]:
    """Columns that only names of folders hold and in which listed files differ, each with one of its folders.

    Files that were found in a folder, or by a pattern, have such columns.
    """
    folders: dict[str, dict[str, str]] = {}
    for path in paths:
        found = isinstance(path, NamedPath) and not (isinstance(path, StorePath) and path.named)
        for folder in () if found else path.parts[:-1]:
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


def open_file(path: Path, window: int | None = None) -> pa.NativeFile:
    """A file to read from. Arrow's own format is mapped, so that a record batch of any size takes no memory.

    A file in a store is read through windows of that size; on this machine it is ignored.
    """
    if isinstance(path, StorePath):
        return pa.PythonFile(WindowedFile(path, window), mode="r")
    place = os.fsencode(path)  # as bytes: the name of a folder may not be UTF-8
    return pa.memory_map(place) if file_kind(path) == "arrow" else pa.OSFile(place)


def open_csv_stream(path: Path, file: pa.NativeFile) -> Any:
    """The bytes of a CSV file, unpacked."""
    return pa.CompressedInputStream(file, "gzip") if is_gzip(path) else file


class FileStamp(NamedTuple):
    """What changes when a file on this machine does. Another machine may see the file under another `number`."""

    size: int
    time: int
    number: int | None


Stamp = FileStamp | tuple[Any, ...]


def stamp_to_send(mark: Stamp) -> Stamp:
    """A stamp as another machine can compare it."""
    return mark._replace(number=None) if isinstance(mark, FileStamp) else mark


def size_of_file(path: Path) -> int:
    if not isinstance(path, StorePath):
        return path.stat().st_size
    return int(path.file.size()) if path.size is None else path.size


def first_file_stamp(path: Path) -> Stamp:
    """The stamp of a file that is being opened; a store that was asked already is not asked again."""
    return path.version_seen if isinstance(path, StorePath) and path.version_seen else file_stamp(path)


def file_stamp(path: Path) -> Stamp:
    """What changes when the file does: numbers, and for a file in a store its version."""
    if isinstance(path, StorePath):
        return store_file_stamp(path)
    state = os.stat(path)
    return FileStamp(state.st_size, state.st_mtime_ns, state.st_ino)


@contextmanager
def one_line_errors(path: Path | str) -> Iterator[None]:
    """Turn a library's error about a table into one line that names the table."""
    try:
        yield
    except RadoError:
        raise
    except (OSError, pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise TableError(f"cannot read {path}: {_file_error_text(path, error)}") from None


def _file_error_text(path: Path | str, error: Exception) -> str:
    """What a library says, in one line; of a store without credentials."""
    if isinstance(path, StorePath):
        return path.store.said(error)
    return reason(error) if isinstance(error, OSError) else (str(error) or type(error).__name__).splitlines()[0]
