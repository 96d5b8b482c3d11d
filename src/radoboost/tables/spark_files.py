"""Which files a Spark frame reads: none twice, and never several of a table with old versions.

See S3 of docs/proofs/spark.md. Names of files and folders decide alone, and on this machine device and inode.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from radoboost.errors import TableError
from radoboost.tables.folders import VERSIONED, refuse_old_versions, table_with_versions
from radoboost.tables.paths import local_identity
from radoboost.tables.spark_jobs import is_connect, spark_errors

_STORE = re.compile(r"[^/]*(?://[^/]*)?")  # what is before the path of an address: hdfs://namenode
_NAMED = re.compile(r'^\s*(?:paths|unparsed_identifier): "(.*)"$', re.MULTILINE)


def refuse_repeated_files(frame: Any) -> None:
    """Refuse a frame that reads a file twice, or several files of a Delta, Iceberg or Hudi table."""
    with spark_errors(withheld=True):
        if is_connect(frame):
            _refuse_repeats(_NAMED.findall(str(frame._plan.to_proto(frame.sparkSession.client))))
            files = [str(name) for name in frame.inputFiles()]
        else:
            files = list(_files_of_leaves(frame))
        _refuse_repeats(files)
        if len(files) > 1:
            _refuse_old_versions(frame.sparkSession, files)


def _files_of_leaves(frame: Any) -> Iterator[str]:
    """All files that a frame reads, as often as it does; `inputFiles` has each once."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for leaf in map(leaves.apply, range(leaves.size())):
        relation = leaf.relation() if leaf.getClass().getSimpleName() == "LogicalRelation" else None
        if relation is not None and relation.getClass().getSimpleName() == "HadoopFsRelation":
            yield from map(str, relation.location().inputFiles())


def _refuse_repeats(names: Sequence[str]) -> None:
    seen: dict[Any, str] = {}
    for name in names:
        here = _here(name)
        file = name if here is None else local_identity(here)
        if (first := seen.setdefault(file, name)) is not name:
            ways = f"{name} twice" if first == name else f"{first} and {name}, which are the same file"
            raise TableError(
                f"this Spark frame reads {ways}, so its records would count twice; name it once, and where the "
                "frame unites parts of one table, filter that table instead"
            )


def _refuse_old_versions(session: Any, files: Sequence[str]) -> None:
    places = {name: _here(name) for name in files}
    refuse_old_versions([place for place in places.values() if place is not None])
    folders = {folder for name, place in places.items() if place is None for folder in _folders_above(name)}
    for folder in sorted(folders, key=len, reverse=True):
        for name, kind in VERSIONED:
            if _is_there(session, folder, f"{name}/{'*.metadata.json' if kind == 'Iceberg' else '*'}"):
                raise table_with_versions(folder, kind)


def _here(name: str) -> Path | None:
    """The path of a file that this machine has, too."""
    path = Path(unquote(re.sub("^file:/+", "/", name)) if name.startswith("file:") else name)
    return path if path.is_absolute() and os.path.exists(path) else None


def _folders_above(address: str) -> Iterator[str]:
    """The folders above a file, but for those that are columns, such as `year=2024`: there are many of them."""
    store = _STORE.match(address)[0]  # type: ignore[index]
    parts = address[len(store) :].split("/")[:-1]
    return ("/".join((store, *parts[1:n])) for n in range(1, len(parts) + 1) if "=" not in parts[n - 1])


def _is_there(session: Any, folder: str, pattern: str) -> bool:
    """Whether Spark finds files by a pattern; it does not where it may not look."""
    place = re.sub(r"([\[\]{}*?\\])", r"\\\1", unquote(folder))
    try:
        session.read.format("binaryFile").load(f"{place}/{pattern}").schema  # noqa: B018 (it looks for them)
    except Exception:
        return False
    return True
