"""How much memory there is, and the one refusal where it does not suffice."""

from pathlib import Path

import psutil

from radoboost.errors import TooLargeError

_CGROUPS = (  # limit, use, and what of that is mere cache: version 2 and version 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def available() -> int:
    """Bytes that can still be used: of the machine, of this process's container, and under its own limit.

    >>> available() > 0
    True
    """
    return max(0, min([int(psutil.virtual_memory().available), *_in_container(), *_under_limit()]))


def _in_container(root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What a control group leaves, where there is one with a limit."""
    for limit, use, details, cache in _CGROUPS:
        try:
            most, used = int((root / limit).read_text()), int((root / use).read_text())
            lines = dict(line.split() for line in (root / details).read_text().splitlines())
            return [most - used + int(lines.get(cache, 0))]
        except (OSError, ValueError):  # not there, or "max"
            continue
    return []


def _under_limit() -> list[int]:
    """What the limit on this process's address space leaves, where there is one."""
    try:
        import resource
    except ImportError:
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if limit == resource.RLIM_INFINITY else [limit - psutil.Process().memory_info().vms]


def require(needed: int, what: str, advice: str) -> None:
    """Refuse work that needs more bytes than there are, before something else does.

    >>> require(2**80, "a table of everything", "use less")
    Traceback (most recent call last):
    radoboost.errors.TooLargeError: a table of everything needs 1125899906842624.0 GiB of memory and ...; use less
    """
    free = available()
    if needed > free:
        raise TooLargeError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free; {advice}"
        )
