"""Datasets of pyarrow: as the files that they are made of, where they are no more than files."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from radoboost.tables.folders import folder_values
from radoboost.tables.named_paths import NamedPath, named_path

_KINDS = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow"}


def is_dataset(table: Any) -> bool:
    """Whether a table is a dataset, or a scanner of one; a module that nobody imported is not asked."""
    kind = type(table)
    return kind.__module__.startswith("pyarrow._") and hasattr(table, "to_table") and hasattr(table, "to_batches")


def dataset_files(dataset: Any, *, row_by_row: bool = False) -> list[NamedPath] | None:
    """The files of a dataset, with their folders as columns; None where it is more than Parquet or Arrow files here.

    So nothing is cast to a common type, which could fail because of one value. With `row_by_row` a folder must say
    by itself which column it is, for pyarrow takes 0x1F for 31 unless another folder is called by no number.
    """
    try:
        fragments = dataset.get_fragments() if hasattr(dataset, "get_fragments") else ()
    except ValueError:  # it has a filter
        return None
    if hasattr(dataset, "children"):  # a union
        parts = [dataset_files(child, row_by_row=row_by_row) for child in dataset.children]
        files = [file for part in parts for file in part or ()]
        names = set().union(*(child.schema.names for child in dataset.children))
        return None if None in parts or not files or names != set(dataset.schema.names) else files
    root = _local_root(getattr(dataset, "filesystem", None))
    kind = _KINDS.get(dataset.format.default_extname) if root is not None else None
    if root is None or kind is None:
        return None
    names, files = set(dataset.schema.names), []
    known: set[str] = set()
    for fragment in fragments:
        place, own = os.path.join(root, fragment.path), set(fragment.physical_schema.names)
        folders = _folders(place, fragment.partition_expression, row_by_row)
        if folders is None or not names >= own or _is_cut(fragment):
            return None
        folders = {name: value for name, value in folders.items() if name in names}
        files.append(named_path(place, kind=kind, folders=folders))
        known |= own | set(folders)
    return files if files and names <= known else None


def _local_root(filesystem: Any) -> str | None:
    """Where the paths of a file system begin; None if it is not that of this machine."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    if isinstance(filesystem, SubTreeFileSystem):
        outer = _local_root(filesystem.base_fs)
        return None if outer is None else os.path.join(outer, filesystem.base_path)
    return "" if isinstance(filesystem, LocalFileSystem) else None


def _folders(place: str, expression: Any, row_by_row: bool) -> dict[str, str | None] | None:
    """What folders say about a file, as they say it; None where that cannot be known."""
    from pyarrow.dataset import get_partition_keys

    keys, texts = get_partition_keys(expression), folder_values(Path(place).parts[:-1])
    if row_by_row and not keys.keys() <= texts.keys():
        return None
    return {name: None if value is None else texts.get(name, str(value)) for name, value in keys.items()}


def _is_cut(fragment: Any) -> bool:
    """Whether a fragment is only some row groups of its file."""
    return hasattr(fragment, "num_row_groups") and fragment.num_row_groups != fragment.metadata.num_row_groups


def dataset_reader(dataset: Any) -> pa.RecordBatchReader:
    """The rows of any dataset or scanner, few of them at a time."""
    scanner = dataset
    if hasattr(dataset, "scanner"):
        scanner = dataset.scanner(batch_size=65536, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()
