"""How much memory there is, the one refusal where it does not suffice, and memory that is used again."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from radoboost.errors import TooLargeError

_CGROUPS = (  # limit, use, and what of that is mere cache: version 2 and version 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
# Settings of glibc: how much free memory it keeps, and how large an array must be to have pages of its own. Each has a
# number, a variable of the environment, and a size while memory is reused.
_TRIM, _OWN_PAGES = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"
_SETTINGS = ((-1, _TRIM, 1 << 29), (-3, _OWN_PAGES, 1 << 25))
_USUAL, _LARGEST = 1 << 17, 2**31 - 1  # either of them, where nothing is set; and the largest that can be set
_ENVIRONMENT = Path("/proc/self/environ")  # in which a process began: later changes of os.environ tell glibc nothing
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_lock = threading.Lock()
_users: list[object] = []  # of reused memory, in all threads


def available_memory() -> int:
    """Bytes that can still be used: of the machine, of this process's container, and under its own limit."""
    return max(0, min([int(psutil.virtual_memory().available), *_container_memory(), *_memory_under_limit()]))


def _container_memory() -> list[int]:
    """What a control group leaves, where there is one with a limit."""
    for limit, use, details, cached in _CGROUPS:
        try:
            most, used = int((_CONTROL_GROUPS / limit).read_text()), int((_CONTROL_GROUPS / use).read_text())
            lines = dict(line.split() for line in (_CONTROL_GROUPS / details).read_text().splitlines())
            return [most - used + int(lines.get(cached, 0))]
        except (OSError, ValueError):  # not there, or "max"
            continue
    return []


def _memory_under_limit() -> list[int]:
    """What the limit on this process's address space leaves, where there is one."""
    try:
        import resource
    except ImportError:
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if limit == resource.RLIM_INFINITY else [limit - psutil.Process().memory_info().vms]


def require_memory(needed: int, what: str, advice: str) -> None:
    """Refuse work that needs more bytes than there are, before something else does."""
    free = available_memory()
    if needed > free:
        raise TooLargeError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free; {advice}"
        )


@contextmanager
def reuse_freed_memory() -> Iterator[None]:
    """While something runs, memory that is let go stays with this process, for the next array.

    By its environment a process may be told to give all memory back at once, as Dask tells its workers. Passes, whose
    batches need the same arrays again and again, then wait for fresh pages half of the time. Afterwards what is free
    goes back, and the setting is as before. Where there is no such setting, nothing happens.
    """
    told, user = _glibc_trim_settings(), object()
    if told is None:
        yield
        return
    with _lock:
        _users.append(user)
        for number, variable, size in _SETTINGS:
            told.library.mallopt(number, max(size, told.sizes[variable]))
    try:
        yield
    finally:
        with _lock:
            _users.remove(user)
            if not _users:
                for number, variable, _ in _SETTINGS:
                    told.library.mallopt(number, told.sizes[variable])
                told.library.malloc_trim(0)


class _Told(NamedTuple):
    """The C library, and what it was told when this process began."""

    library: Any
    sizes: dict[str, int]


@cache
def _glibc_trim_settings() -> _Told | None:
    """What glibc was told, if it was told to keep little free memory; else None, also where there is no glibc."""
    try:
        entries = _ENVIRONMENT.read_bytes().split(b"\0")
        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim  # noqa: B018 - others do not have them
    except (OSError, TypeError, AttributeError):
        return None
    variables = dict(entry.decode(errors="replace").partition("=")[::2] for entry in entries)
    if not variables.get(_TRIM, "").isdigit() or int(variables[_TRIM]) >= _SETTINGS[0][2]:
        return None
    sizes = {name: variables.get(name, "") for name in (_TRIM, _OWN_PAGES)}
    return _Told(
        library, {name: min(int(text), _LARGEST) if text.isdigit() else _USUAL for name, text in sizes.items()}
    )
