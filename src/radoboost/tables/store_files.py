"""Bytes of files in stores, in few large requests.

Parquet is read by ranges: those of the columns and row groups that are wanted, joined where little lies between them.
Everything else is read through windows of a few megabytes, of which the latest are remembered.
"""

import io
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from radoboost.tables.stores import StorePath

WINDOW_BYTES = 1 << 23  # asked for at a time
PEEK_BYTES = 1 << 16  # where only a few bytes are wanted
HOLE_BYTES = 1 << 20  # between two ranges: fewer are fetched along rather than asking twice
RANGE_BYTES = 1 << 25  # in a request, about, at most; of a large file its size by `_RANGES`
_RANGES = 12
MOST_FETCHED = 1 << 28  # in memory at a time; what is larger is read column by column
_AT_ONCE = 4  # requests of one reader


def fetched(path: StorePath, start: int, stop: int) -> bytes:
    block: bytes = path.file.read_at(stop - start, start)
    if len(block) != stop - start:
        raise OSError(f"the store broke off: {stop - start - len(block):,} bytes are missing")
    return block


class Windows:
    """The latest windows of all files; whoever reads one again, such as a header, asks for nothing.

    They are a path's own, and go with it: another call asks anew, perhaps by other credentials.
    """

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._windows: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._known: set[object] = set()
        self._lock = threading.RLock()  # a path may be let go of while this thread is here

    def window(self, path: StorePath, version: Any, start: int, stop: int) -> bytes:
        key = (path.token, version, start, stop)
        with self._lock:
            if path.token not in self._known:
                self._known.add(path.token)
                weakref.finalize(path, self._let_go, path.token).atexit = False
            if key in self._windows:
                self._windows.move_to_end(key)
                return self._windows[key]
        block = fetched(path, start, stop)
        with self._lock:
            if key not in self._windows:
                self._windows[key] = block
                self._bytes += len(block)
            while self._bytes > self._most and len(self._windows) > 1:
                self._bytes -= len(self._windows.popitem(last=False)[1])
        return block

    def forget(self, path: StorePath) -> None:
        """Let go of the windows of a file that changed."""
        self._forget(path.token)

    def _let_go(self, token: object) -> None:
        with self._lock:
            self._forget(token)
            self._known.discard(token)

    def _forget(self, token: object) -> None:
        with self._lock:
            for key in [key for key in self._windows if key[0] is token]:
                self._bytes -= len(self._windows.pop(key))


_WINDOWS = Windows(4 * WINDOW_BYTES)


def store_stamp(path: StorePath) -> tuple[Any, ...]:
    """What changes when the file does, asked for anew unless a pass over all its parts does so (`store_passes`)."""
    before = path.version_seen
    if path.passes:
        return before
    after = path.version()
    if before not in (after, ()):
        _WINDOWS.forget(path)
    return after


class _PlacedFile(io.RawIOBase):
    """A file of a store that can be read from any place: how it is read, those that extend it say."""

    def __init__(self, path: StorePath) -> None:
        super().__init__()
        self._path, self._size, self._place = path, path.file.size(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place, which is counted from the beginning (0), from here (1) or from the end (2)."""
        self._place = place + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place


class WindowedFile(_PlacedFile):
    """A file in a store, read through windows, and nowhere beyond `stop`."""

    def __init__(self, path: StorePath, window: int | None = None, stop: int | None = None) -> None:
        super().__init__(path)
        self._window = WINDOW_BYTES if window is None else window
        self._version = path.version_seen
        self._stop = self._size if stop is None else min(stop, self._size)
        # What a file says about itself may stand at its end, and is read whenever it is opened.
        self._tail = self._size - (self._window // 32 if self._size > self._window else 0)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes; how many they are."""
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, all that there are if no number is given."""
        start = self._place
        end = self._stop if size is None or size < 0 else min(start + size, self._stop)
        pieces = []
        while start < end:
            first = self._tail if start >= self._tail else start - start % self._window
            last = min(first + self._window, self._stop, self._tail if first < self._tail else self._size)
            block = _WINDOWS.window(self._path, self._version, first, last)
            pieces.append(block[start - first : end - first])
            start += len(pieces[-1])
        self._place = max(self._place, start)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class FetchedFile(_PlacedFile):
    """Ranges of a file that are in memory, to be read as if they were the file."""

    def __init__(self, path: StorePath, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(path)
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(ranges)))) as helpers:
            blocks = helpers.map(lambda ends: fetched(path, *ends), ranges)
            self._blocks = [(start, memoryview(block)) for (start, _), block in zip(ranges, blocks, strict=True)]

    def read(self, size: int | None = -1) -> Any:
        """The next bytes: from one of the ranges, or else, which a footer that is wrong may need, from the store."""
        place, wanted = self._place, 0 if size is None else size
        for start, block in self._blocks:
            if start <= place and place + wanted <= start + len(block):
                self._place += wanted
                return block[place - start : place - start + wanted]
        self._place = stop = max(place, min(place + wanted, self._size))
        return fetched(self._path, place, stop)


def joined_ranges(ranges: Iterable[tuple[int, int]], longest: int = 0) -> list[tuple[int, int]]:
    """Ranges in order, joined where little lies between them, and not too long: `RANGE_BYTES`, or `longest` if more."""
    joined: list[tuple[int, int]] = []
    most = max(longest, RANGE_BYTES)
    for start, stop in sorted(ranges):
        if joined and start - joined[-1][1] <= HOLE_BYTES and stop - joined[-1][0] <= most:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def parquet_ranges(footer: Any, groups: Iterable[int], names: Sequence[str], longest: int = 0) -> list[tuple[int, int]]:
    """Where the columns of these names are in some row groups of a Parquet file."""
    wanted, dotted = set(names), tuple(f"{name}." for name in names)
    paths = [footer.schema.column(k).path for k in range(footer.num_columns)]
    columns = [k for k, path in enumerate(paths) if path in wanted or path.startswith(dotted)]
    ranges = []
    for group in groups:
        about = footer.row_group(group)
        for k in columns:
            column = about.column(k)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            ranges.append((start, start + column.total_compressed_size))
    return joined_ranges(ranges, longest)


def parquet_file(path: StorePath, footer: Any, groups: Iterable[int], names: Sequence[str]) -> tuple[Any, int]:
    """A file to read some row groups from, and how many bytes at a time (0: a column as a whole)."""
    ranges = parquet_ranges(footer, groups, names, min(path.file.size() // _RANGES, MOST_FETCHED))
    if sum(stop - start for start, stop in ranges) > MOST_FETCHED:
        return path.file, WINDOW_BYTES
    return pa.PythonFile(FetchedFile(path, ranges), mode="r"), 0
