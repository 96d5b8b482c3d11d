"""What travels to the workers of a Dask cluster, and what they do with it.

A job is sealed: neither the scheduler nor a page or log of Dask's can show what is in it. Functions are found by name
on the workers, so that nothing goes along with them.
"""

import pickle
from collections.abc import Iterator
from typing import Any

from radoboost import __version__, memory
from radoboost.errors import RadoError
from radoboost.holder.runners.dask_clients import explained
from radoboost.holder.runners.parts import (
    KeptPart,
    PartSums,
    Refusal,
    check_reach,
    check_version,
    from_worker,
    keep_part,
    merge_parts,
    sum_part,
)
from radoboost.tables.cluster_frames import borrowed


class Sealed:
    """Something for a worker, which nobody on the way looks into: it prints as no more than that."""

    def __init__(self, *content: Any, withheld: bool = False) -> None:
        self.withheld = withheld  # whether errors about it may have words
        self._content, self._version = pickle.dumps(content, 5), __version__

    def opened(self) -> Any:
        """What is in it, if it was sealed by this version of radoboost."""
        check_version(__version__, self._version)
        return pickle.loads(self._content)

    def __repr__(self) -> str:
        return "Sealed(...)"

    def __sizeof__(self) -> int:
        return len(self._content)


class LentRows:
    """Kept rows that are lent wherever they are read."""

    def batches(self, rows: int) -> Iterator[Any]:
        for part in borrowed():
            yield from part.batches(rows)


@memory.reused()
def sum_job(job: Sealed, shared: Sealed | None, *lent: Any) -> PartSums[Any]:
    """The sums of some parts; each may have something lent to it, its partition of a frame or its kept rows."""
    try:
        pieces, batch_rows, task = _opened(job, shared)
        states = []
        for place, (number, piece, first_row) in enumerate(pieces):
            states.append(sum_part(task, piece, number, first_row, batch_rows, [lent[place]] if lent else None))
            if states[-1].refusal is not None:
                break
        return merge_parts(states)
    except Exception as error:
        return PartSums(None, {}, Refusal(-1, _refusal(job, error)))


@memory.reused()
def keep_job(job: Sealed, shared: Sealed | None, *lent: Any) -> KeptPart:
    try:
        ((_, piece, _),), batch_rows, task = _opened(job, shared)
        return keep_part(task, piece, batch_rows, lent or None)
    except Exception as error:
        return KeptPart(refusal=_refusal(job, error))


@memory.reused()
def map_job(job: Sealed, shared: Sealed | None) -> Any:
    """What some work makes of one part, or why it cannot."""
    number, piece = -1, None
    try:
        ((number, piece, _),), _, work = _opened(job, shared)
        check_reach(piece)
        return work(piece)
    except Exception as error:
        return Refusal(number, from_worker(_refusal(job, error), piece))


def merge_job(*parts: PartSums[Any]) -> PartSums[Any]:
    """The sums over several parts."""
    return merge_parts(parts)


def itself(sealed: Sealed) -> Sealed:
    """A task that every part needs the result of."""
    return sealed


def _refusal(job: Sealed, error: Exception) -> RadoError:
    """What a job gives back in place of an error; one that nobody foresaw is raised, unless its words are withheld.

    Dask would write them, and with them values of rows, into the logs of workers and of the caller.
    """
    if isinstance(error, RadoError):
        return error
    if not job.withheld:
        raise error
    return explained(error, "its address", withheld=True)


def _opened(job: Sealed, shared: Sealed | None) -> tuple[list[tuple[int, Any, int]], int, Any]:
    """The pieces of a job with their numbers and first rows, the rows of a batch, and what is to be done."""
    pieces, batch_rows, task = job.opened()
    return pieces, batch_rows, task if shared is None else shared.opened()[0]
