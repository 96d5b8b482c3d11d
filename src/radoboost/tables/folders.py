"""Tables that are folders of files; folders within, such as `year=2024`, are columns."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from radoboost.errors import TableError
from radoboost.tables.column_selection import NO_VALUE
from radoboost.tables.named_paths import NamedPath, folder_columns_of_path, named_path
from radoboost.tables.object_stores import StoreListing, StorePath, list_store_folder

_HIVE_PARTITION = re.compile(r"([^=]+)=(.*)")
_MISSING = "__HIVE_DEFAULT_PARTITION__"  # what Hive, Spark and Arrow write for a missing value
_WHOLE = re.compile(r"-?[0-9]{1,15}")


def folder_column_values(folders: Iterable[str]) -> dict[str, str | None]:
    """The columns that names of folders hold.

    A value that is not UTF-8 is unknown, as in a cell, and what has such a name is no column.
    """
    pairs = [match.groups() for folder in folders if (match := _HIVE_PARTITION.fullmatch(folder))]
    return {unquote(name): _folder_name_value(value) for name, value in pairs if _is_utf8_folder_name(name)}


def _folder_name_value(text: str) -> str | None:
    if text == _MISSING:
        return None
    return unquote(text) if _is_utf8_folder_name(text) else f"{NO_VALUE}name"


def _is_utf8_folder_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def table_files_in_folder(folder: Path, kind_of: Callable[[Path], str]) -> list[NamedPath]:
    """All table files in a folder and in those within it, in sorted order; `kind_of` refuses what is no table file.

    Names that begin with a point or an underscore are skipped, as are the folders of that kind: other programs keep
    their notes there.
    """
    found = sorted(_walk_folder(folder))
    refuse_versioned_folders([folder.joinpath(*parts) for parts in found or [("_",)]])
    _check_folder_file_kinds(str(folder), found, [kind_of(folder.joinpath(*parts)) for parts in found])
    return [named_path(folder.joinpath(*parts), folders=folder_column_values(parts[:-1])) for parts in found]


def table_files_in_store(address: str, kind_of: Callable[[Path], str]) -> list[StorePath]:
    """The file, the files of the folder, or those that match the pattern, at the address of a store."""
    listed = StoreListing(address)
    if listed.file is not None:
        return [listed.file]
    if listed.is_pattern:
        if not listed.found:
            raise TableError(f"no file matches {listed.shown!r}; check the pattern")
        _refuse_versioned_listing(listed)
        return [listed.path(parts, folder_column_values(parts[:-1])) for parts in listed.found]
    _refuse_versioned_listing(listed)
    found = [parts for parts in listed.found if _is_visible_in_folder(parts)]
    files = [listed.path(parts, folder_column_values(parts[:-1])) for parts in found]
    _check_folder_file_kinds(listed.shown, found, [kind_of(path) for path in files])
    return files


# What tables with versions keep beside their files of rows.
VERSIONED = (("_delta_log", "Delta"), (".hoodie", "Hudi"), ("_spark_metadata", "Spark stream"), ("metadata", "Iceberg"))
_NOTES = ".metadata.json"  # of Iceberg, also in the names of packed ones


def refuse_versioned_folders(files: Sequence[Path]) -> None:
    """Refuse files of a Delta, Iceberg or Hudi table: old versions repeat records, and deleted rows are still there.

    Folders are those above a file by its name and, where that leads through links, above what it stands for.
    """
    places = {Path(place(file)) for file in files for place in (os.path.abspath, os.path.realpath)}
    for folder in {parent for place in places for parent in place.parents}:
        for name, kind in VERSIONED:
            notes = folder / name
            if notes.is_dir() and (kind != "Iceberg" or any(notes.glob(f"*{_NOTES}*"))):
                raise versioned_table_error(str(folder), kind)


def refuse_versioned_store_folders(places: Iterable[tuple[str, Any, str]]) -> None:
    """The same for stores: by the names in the folders above some places, each a store, its file system and a key."""
    seen = set()
    for store, system, key in places:
        parts = key.rstrip("/").split("/")
        for folder in ("/".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)):
            for name, kind in VERSIONED if (store, folder) not in seen else ():
                notes = list_store_folder(system, f"{folder}/{name}")
                if notes and (kind != "Iceberg" or any(_NOTES in note for note in notes)):
                    raise versioned_table_error(folder, kind)
            seen.add((store, folder))


def _refuse_versioned_listing(listed: StoreListing) -> None:
    """The same for a folder of a store, by the names that it has listed, and by those above it."""
    refuse_versioned_store_folders([listed.place])
    for parts in listed.listed:
        for name, kind in VERSIONED:
            if name not in parts[:-1] or (kind == "Iceberg" and _NOTES not in parts[-1]):
                continue
            root = parts[: parts.index(name)]
            if any(found[: len(root)] == root for found in listed.found):
                raise versioned_table_error("/".join((listed.shown.rstrip("/"), *root)), kind)


def versioned_table_error(folder: str, kind: str) -> TableError:
    way = " (for Delta: deltalake.DeltaTable(...).to_pyarrow_dataset())" if kind == "Delta" else ""
    article = "an" if kind == "Iceberg" else "a"
    return TableError(
        f"{folder} is a folder of {article} {kind} table, whose files also hold old versions of records and rows that "
        f"were deleted, so records would count twice; export its present version, or pass what its library reads{way}"
    )


def _check_folder_file_kinds(folder: str, found: Sequence[tuple[str, ...]], kinds: Sequence[str]) -> None:
    """Refuse a folder without table files, or with files of several kinds."""
    if not found:
        raise TableError(f"{folder} is a folder without table files; name one that has some")
    first = {kind: parts for kind, parts in zip(reversed(kinds), reversed(found), strict=True)}
    if len(first) > 1:
        names = " and ".join("/".join(parts) for parts in sorted(first.values())[:2])
        raise TableError(
            f"{folder} holds files of several kinds, such as {names}; say which of them are the table, for instance "
            f"'{folder}/**/*.parquet'"
        )


def _is_visible_in_folder(parts: Sequence[str]) -> bool:
    """Whether neither a file nor one of its folders begins with a point or an underscore; columns may."""
    *folders, name = parts
    hidden = [folder for folder in folders if folder.startswith((".", "_")) and not _HIVE_PARTITION.fullmatch(folder)]
    return not hidden and not name.startswith((".", "_"))


def _walk_folder(folder: Path) -> Iterator[tuple[str, ...]]:
    """The files in a folder, each as its folders within this one and its name."""
    for place, folders, names in os.walk(folder, onerror=_raise_folder_error):
        within = Path(place).relative_to(folder).parts
        folders[:] = [name for name in folders if _is_visible_in_folder((name, "file"))]
        yield from ((*within, name) for name in names if _is_visible_in_folder((name,)))


def _raise_folder_error(error: OSError) -> None:
    raise error


def files_matching_pattern(pattern: str, matches: Sequence[str]) -> list[NamedPath]:
    """The files that match a pattern; folders behind its first wildcard, such as those of `year=*`, are columns."""
    parts = Path(pattern).parts
    fixed = next(k for k, part in enumerate(parts) if any(c in part for c in "*?["))
    return [named_path(match, folders=folder_column_values(Path(match).parts[fixed:-1])) for match in matches]


# ---- columns of folders


@dataclass(frozen=True)
class FolderColumns:
    """The columns that only folders name, and how they are stored: whole numbers or texts."""

    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, paths: Sequence[Path], *, typed: bool) -> "FolderColumns":
        """Those of some files; only where columns are `typed` may all values together decide on a type."""
        values: dict[str, list[str | None]] = {}
        for path in paths:
            for name, value in folder_columns_of_path(path).items():
                values.setdefault(name, []).append(value)
        return cls(
            {name: pa.int64() if typed and _are_folder_integers(some) else pa.string() for name, some in values.items()}
        )

    def added(self, schema: pa.Schema, path: Path) -> pa.Schema:
        """The schema of a file with the columns of its folders; one that the file has is its own."""
        for name in folder_columns_of_path(path):
            if name not in schema.names:
                schema = schema.append(pa.field(name, self.types[name]))
        return schema

    def constants(self, schema: pa.Schema, path: Path) -> dict[str, pa.Scalar]:
        """What the folders of a file say about all of its rows."""
        own = {name: value for name, value in folder_columns_of_path(path).items() if name not in schema.names}
        return {name: pa.scalar(value, pa.string()).cast(self.types[name]) for name, value in own.items()}


def _are_folder_integers(values: Sequence[str | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(_WHOLE.fullmatch(value) for value in known)
