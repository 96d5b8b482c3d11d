"""Datasets of pyarrow: as the files that they are made of, where they are no more than files."""

from typing import Any

import pyarrow as pa

from radoboost.tables.named_paths import NamedPath, named_path

_KINDS = {"parquet": "parquet", "ipc": "arrow", "feather": "arrow"}


def is_dataset(table: Any) -> bool:
    """Whether a table is a dataset, or a scanner of one; a module that nobody imported is not asked."""
    kind = type(table)
    return kind.__module__.startswith("pyarrow._") and hasattr(table, "to_table") and hasattr(table, "to_batches")


def dataset_files(dataset: Any) -> list[NamedPath] | None:
    """The files of a dataset, with their folders as columns; None where it is more than Parquet or Arrow files here.

    So nothing is cast to a common type, which could fail because of one value.
    """
    from pyarrow.dataset import get_partition_keys
    from pyarrow.fs import LocalFileSystem

    if not isinstance(getattr(dataset, "filesystem", None), LocalFileSystem):
        return None
    kind = _KINDS.get(dataset.format.default_extname)
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # it has a filter
        return None
    names = set(dataset.schema.names)
    files = []
    for fragment in fragments:
        keys = get_partition_keys(fragment.partition_expression)
        if kind is None or not names >= set(fragment.physical_schema.names):
            return None
        folders = {name: None if value is None else _text(value) for name, value in keys.items() if name in names}
        files.append(named_path(fragment.path, kind=kind, folders=folders))
    known = set().union(*(set(fragment.physical_schema.names) for fragment in fragments), *(f.folders for f in files))
    return files if files and names <= known else None


def guesses_types(dataset: Any) -> bool:
    """Whether a dataset is of files without types, CSV or JSON."""
    kind = getattr(getattr(dataset, "format", None), "default_extname", "")
    return kind in ("csv", "json")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def dataset_reader(dataset: Any) -> pa.RecordBatchReader:
    """The rows of any dataset or scanner, few of them at a time."""
    scanner = dataset
    if hasattr(dataset, "scanner"):
        scanner = dataset.scanner(batch_size=65536, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()
