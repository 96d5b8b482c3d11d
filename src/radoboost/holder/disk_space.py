"""Room on the disk for the files of a private release, looked for before anything is booked.

How large they get at most follows from what was declared, and never from rows.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from radoboost.errors import OutputError
from radoboost.holder.request import CraftRequest
from radoboost.holder.row_counts import Where

_NUMBER = 9  # bytes: as it is, and what Parquet says about it
_COLUMN = 4096  # bytes: what a release and its Parquet file say of a column
_STATEMENT = 1 << 15  # bytes: everything else
_COUNTED = 256  # bytes: the counts of a column


def check_disk_space_for_release(
    place: str | os.PathLike[str] | None,
    counts: Where,
    asked: CraftRequest,
    features: Sequence[str],
) -> None:
    """Refuse a place for the release, or for its exact counts, where the disk has no room for it."""
    most = _COUNTED * (len(features) + 2) + 2 * _schema_bytes(asked)
    files = {} if counts is None or counts == "terminal" or callable(counts) else {Path(counts): most}
    if place is not None:
        files[Path(place)] = largest_release_bytes(asked, features)
    for file, size in files.items():
        free = free_disk_space_at(file)
        if free is not None and free < size:
            raise OutputError(
                f"cannot write {file}: there are {free:,} bytes free, and up to {size:,} may be needed; make space, or "
                "choose another place; nothing was booked"
            )


def largest_release_bytes(asked: CraftRequest, features: Sequence[str]) -> int:
    """How many bytes the file of a private release of these features has at most."""
    size_of = getattr(asked.mechanism, "numbers_at_most", None)
    if size_of is None:
        n_columns = asked.width(features)
        n_numbers = asked.n_rados * n_columns
    else:
        n_numbers, n_columns = size_of(asked, features)
    return _NUMBER * n_numbers + _COLUMN * n_columns + 2 * _schema_bytes(asked) + _STATEMENT


def _schema_bytes(asked: CraftRequest) -> int:
    return len(json.dumps(asked.reading.to_dict())) if asked.reading else 0


def free_disk_space_at(place: Path) -> int | None:
    """How many bytes a new file may have there; None where nobody says."""
    limits = []
    try:
        usage = shutil.disk_usage(os.path.dirname(os.path.realpath(place)))
        limits += [usage.free] if usage.total else []  # some file systems do not know
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        pass
    else:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        limits += [] if limit == resource.RLIM_INFINITY else [limit]
    return min(limits, default=None)
