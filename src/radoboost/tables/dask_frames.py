"""What the driver knows of a Dask data frame: its columns, by its empty model, and its partitions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FSSpecHandler, PyFileSystem

from radoboost.errors import ArgumentError
from radoboost.tables.dask_plan_check import UnsafePlan, check_steps, files_of, is_local, sources, system_of
from radoboost.tables.folders import refuse_old_versions, refuse_stored_versions
from radoboost.tables.paths import stamp


def arrow_schema(frame: Any, *, withheld: bool = False) -> pa.Schema:
    """The columns of the frame, with the types of its model; a column of Python objects has none."""
    return pa.Table.from_pandas(frame._meta, preserve_index=False).schema


def chosen(frame: Any, columns: Sequence[str]) -> Any:
    """The frame with these columns alone, as Dask will compute it: it may then have fewer partitions, in order."""
    return frame[list(dict.fromkeys(columns))].optimize()


def partitions(frame: Any, columns: Sequence[str], *, withheld: bool = False) -> list[int | None]:
    """How many rows each partition has: nobody knows before they are read."""
    return [None] * int(frame.npartitions)


def check_determined(frame: Any, person: str | None) -> None:
    """Refuse a frame that no promise can be made about, by its steps and the types of its model, and by no value."""
    try:
        loose = check_steps(frame.expr)
    except UnsafePlan as step:
        raise ArgumentError(
            "a promise needs rows that are the same whenever a partition is computed again, and that follow from one "
            f"record each, and after {step} that is not certain of a Dask frame; write it to Parquet files, and craft "
            "these"
        ) from None
    _refuse_old_versions([step for step in sources(frame.expr) if _reads_files(step)])
    if person in loose and loose[person].itemsize == 8 and loose[person].kind in "iu":
        raise ArgumentError(
            f"persons in {person!r} are whole numbers of Parquet files, which pandas reads as floats wherever one is "
            "missing, and large ones are then no longer told apart: read them with dd.read_parquet(..., "
            "dtype_backend='pyarrow'), or craft the files themselves with cluster=client"
        )


def _reads_files(step: Any) -> bool:
    return type(step).__name__.startswith("ReadParquet")


def _refuse_old_versions(readers: Sequence[Any]) -> None:
    """Refuse files of a Delta, Iceberg or Hudi table, unless one is all that is read."""
    systems = [system_of(step) for step in readers]
    files = {
        (type(system).__name__, name): system
        for system, step in zip(systems, readers, strict=True)
        for name in files_of(step)
    }
    if len(files) > 1:
        refuse_old_versions([Path(name) for (_, name), system in files.items() if is_local(system)])
        refuse_stored_versions(
            (kind, system if hasattr(system, "get_file_info") else PyFileSystem(FSSpecHandler(system)), name)
            for (kind, name), system in files.items()
            if not is_local(system)
        )


# ---- files that must not change


def stamps(frame: Any) -> dict[str, Any]:
    """What changes when a file behind the frame does, by file; other sources have none."""
    found: dict[str, Any] = {}
    for step in sources(frame.expr):
        if _reads_files(step):
            found |= _file_stamps(step)
    return found


def _file_stamps(step: Any) -> dict[str, Any]:
    """The stamps of the files that a reader of Parquet reads."""
    names, system = files_of(step), system_of(step)
    if hasattr(system, "get_file_info"):
        infos = system.get_file_info(names)
        return {name: (info.size, info.mtime_ns) for name, info in zip(names, infos, strict=True)}
    if is_local(system):
        return {name: _local_stamp(name) for name in names}
    system.invalidate_cache()
    return {name: system.checksum(name) for name in names}


def _local_stamp(name: str) -> Any:
    try:
        return stamp(Path(name))
    except OSError:
        return None  # it is gone
