"""A pass over files in stores, each of which is asked about when the pass comes to it and when it is through.

A part that is read by itself asks for the version of its file before and after. Of a file with many parts, which are
all read, that is twice for each of them: the first and the last answer say as much.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from radoboost.errors import RadoError, TableError
from radoboost.tables.object_stores import StorePath
from radoboost.tables.paths import readable, stamp

_COUNTING = threading.Lock()  # of passes that a file is in


class StoreVersionCheck:
    """All parts of a table, read in any order, in several threads; `close` ends the pass, wherever it is."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._files: dict[object, _File] = {}
        for part in parts:
            if (path := _path_of(part)) is not None:
                self._files.setdefault(path.token, _File(path)).left += 1

    def read(self, part: Any, most_rows: int) -> Iterator[Any]:
        path = _path_of(part)
        if path is None:
            yield from part.batches(most_rows)
            return
        file = self._files[path.token]
        file.begin()
        try:
            yield from part.batches(most_rows)
        except RadoError:
            file.check()  # bytes of another version may be no rows at all, and that is then no fault of theirs
            raise
        file.end()

    def close(self) -> None:
        """Have parts ask for themselves again."""
        for file in self._files.values():
            file.close()


class _File:
    """A file of the pass: how many of its parts are left, and the version that it had at first."""

    def __init__(self, path: StorePath) -> None:
        self.left = 0
        self._path = path
        self._before: Any = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Ask which version it is, if nobody did in this pass."""
        with self._lock, readable(self._path):
            if self._before is None:
                self._before = stamp(self._path)
                _count(self._path, 1)

    def end(self) -> None:
        """Once all parts are read, ask again."""
        with self._lock, readable(self._path):
            self.left -= 1
            if self.left == 0 and (before := self._closed()) is not None and stamp(self._path) != before:
                raise _changed(self._path)

    def check(self) -> None:
        """Refuse a file that is another one by now; a store that does not answer says nothing."""
        with self._lock:
            now = None
            with suppress(Exception):
                now = self._path.version()
            if now is not None and self._before is not None and now != self._before:
                raise _changed(self._path) from None

    def close(self) -> None:
        with self._lock:
            self._closed()

    def _closed(self) -> Any:
        before, self._before = self._before, None
        if before is not None:
            _count(self._path, -1)
        return before


def _count(path: StorePath, passes: int) -> None:
    with _COUNTING:
        path.passes += passes


def _changed(path: StorePath) -> TableError:
    return TableError(f"{path} changed while it was read; try again once it is at rest")


def _path_of(part: Any) -> StorePath | None:
    """The file that a part is of, whatever it is seen through, if that is in a store."""
    while (within := getattr(part, "part", None)) is not None:
        part = within
    path = getattr(part, "path", None)
    return path if isinstance(path, StorePath) else None
