"""Bytes of files in stores, in few large requests.

Parquet is read by ranges: those of the columns and row groups that are wanted, joined where little lies between them.
Everything else is read through windows of a few megabytes, of which the latest are remembered.
"""

import io
import os
import random
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from radoboost.errors import ArgumentError, install
from radoboost.tables.object_stores import StorePath
from radoboost.tables.urls import StoreAddress

WINDOW_BYTES = 1 << 23  # asked for at a time
PEEK_BYTES = 1 << 16  # where only a few bytes are wanted
HOLE_BYTES = 1 << 20  # between two ranges: fewer are fetched along rather than asking twice
RANGE_BYTES = 1 << 25  # in a request, about, at most; of a large file its size by `_RANGES`
_RANGES = 12
MOST_FETCHED = 1 << 28  # in memory at a time; what is larger is read column by column
_AT_ONCE = 4  # requests of one reader


def fetch_byte_range(path: StorePath, start: int, stop: int) -> bytes:
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
        block = fetch_byte_range(path, start, stop)
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


def store_file_stamp(path: StorePath) -> tuple[Any, ...]:
    """What changes when the file does, asked for anew unless a pass over all its parts does so."""
    before = path.version_seen
    if path.passes:
        return before
    after = path.version()
    if before not in (after, ()):
        _WINDOWS.forget(path)
    return after


class _PlacedFile(io.RawIOBase):
    """A file of a store that can be read from any place: how it is read, those that extend it say."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._place = size, 0

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
    """A file in a store, read through windows."""

    def __init__(self, path: StorePath, window: int | None = None) -> None:
        super().__init__(path.file.size())
        self._path = path
        self._window = WINDOW_BYTES if window is None else window
        self._version = path.version_seen
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
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        pieces = []
        while start < end:
            first = self._tail if start >= self._tail else start - start % self._window
            last = min(first + self._window, self._tail if first < self._tail else self._size)
            block = _WINDOWS.window(self._path, self._version, first, last)
            pieces.append(block[start - first : end - first])
            start += len(pieces[-1])
        self._place = max(self._place, start)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class FetchedFile(_PlacedFile):
    """Ranges of a file that are in memory, to be read as if they were the file."""

    def __init__(self, path: StorePath, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(path.file.size())
        self._path = path
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(ranges)))) as helpers:
            blocks = helpers.map(lambda ends: fetch_byte_range(path, *ends), ranges)
            self._blocks = [(start, memoryview(block)) for (start, _), block in zip(ranges, blocks, strict=True)]

    def read(self, size: int | None = -1) -> Any:
        """The next bytes: from one of the ranges, or else, which a footer that is wrong may need, from the store."""
        place, wanted = self._place, 0 if size is None else size
        for start, block in self._blocks:
            if start <= place and place + wanted <= start + len(block):
                self._place += wanted
                return block[place - start : place - start + wanted]
        self._place = stop = max(place, min(place + wanted, self._size))
        return fetch_byte_range(self._path, place, stop)


def join_byte_ranges(ranges: Iterable[tuple[int, int]], longest: int = 0) -> list[tuple[int, int]]:
    """Ranges in order, joined where little lies between them, and not too long: `RANGE_BYTES`, or `longest` if more."""
    joined: list[tuple[int, int]] = []
    most = max(longest, RANGE_BYTES)
    for start, stop in sorted(ranges):
        if joined and start - joined[-1][1] <= HOLE_BYTES and stop - joined[-1][0] <= most:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def parquet_byte_ranges(
    footer: Any, groups: Iterable[int], names: Sequence[str], longest: int = 0
) -> list[tuple[int, int]]:
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
    return join_byte_ranges(ranges, longest)


def parquet_file_in_store(path: StorePath, footer: Any, groups: Iterable[int], names: Sequence[str]) -> tuple[Any, int]:
    """A file to read some row groups from, and how many bytes at a time (0: a column as a whole)."""
    ranges = parquet_byte_ranges(footer, groups, names, min(path.file.size() // _RANGES, MOST_FETCHED))
    if sum(stop - start for start, stop in ranges) > MOST_FETCHED:
        return path.file, WINDOW_BYTES
    return pa.PythonFile(FetchedFile(path, ranges), mode="r"), 0


# ---- File systems of object stores: those of pyarrow, and for other kinds of addresses those of fsspec.
#
# Credentials come from where each store looks for them, or from the address. Failures that may pass are tried
# again.

ATTEMPTS = 4  # at anything that a store is asked for
FIRST_PAUSE = 0.25  # seconds, before the second attempt; then twice as long each time
_S3 = ("s3", "s3a", "s3n")
_S3_OPTIONS = ("region", "scheme", "endpoint_override", "access_key", "secret_key", "session_token")
_OF_PYARROW = ("gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
# What file systems of fsspec call them; those of the web give what the server says, as it says it.
_VERSIONS = ("ETag", "etag", "VersionId", "version_id", "generation", "md5Hash", "content_md5", "checksum", "sha",
             "Content-MD5", "Digest")  # fmt: skip
_TIMES = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created", "modified", "modify",
          "modificationTime")  # fmt: skip
_FOR_GOOD = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    ImportError,
    NotImplementedError,
    ValueError,
    TypeError,
)

T = TypeVar("T")


def file_system_of_store(address: StoreAddress) -> tuple[Any, Callable[[StoreAddress], str]]:
    """The file system that an address belongs to, and what says what addresses are called there."""
    if address.scheme in _S3:
        return _s3_file_system(address), partial(_join_store_address, address.host)
    if address.scheme in _OF_PYARROW:
        try:
            system, root = fs.FileSystem.from_uri(_store_root_address(address))
            return system, partial(_join_store_address, root)
        except (ImportError, pa.ArrowNotImplementedError):
            pass  # this pyarrow was built without it
    return _fsspec_file_system(address)


def _join_store_address(root: str, address: StoreAddress) -> str:
    return f"{root.rstrip('/')}/{address.path}" if address.path else root


def _s3_file_system(address: StoreAddress) -> Any:
    """S3, or anything that speaks like it at another endpoint."""
    if not address.host:
        raise ArgumentError(f"{address.public()} names no bucket; write s3://BUCKET/PATH")
    unknown = [(key, value) for key, value in address.options if key.lower() not in _S3_OPTIONS]
    if unknown:
        name = repr(unknown[0][0]) if unknown[0][1] else "without a value"
        raise ArgumentError(f"{address.public()} has an option {name}; those of s3:// are {', '.join(_S3_OPTIONS)}")
    endpoint = address.option("endpoint_override")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    parts = urlsplit(endpoint if endpoint is None or "://" in endpoint else f"//{endpoint}")
    scheme = address.option("scheme") or (str(parts.scheme) if endpoint else "") or "https"
    patience = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
    region = address.option("region")
    if region is None and not endpoint:
        with suppress(OSError):  # then that of the environment or the profile
            region = fs.resolve_s3_region(address.host)
    anonymous = address.user == "anonymous" and not address.password
    key, secret = ("", "") if anonymous else (address.user, address.password)
    return fs.S3FileSystem(
        access_key=key or address.option("access_key"),
        secret_key=secret or address.option("secret_key"),
        session_token=address.option("session_token"),
        anonymous=anonymous,
        region=region,
        scheme=scheme,
        endpoint_override=str(parts.netloc) + str(parts.path).rstrip("/") if endpoint else None,
        retry_strategy=patience,
    )


def _store_root_address(address: StoreAddress) -> str:
    """The address of the whole store, as pyarrow takes it, with whatever is secret in it."""
    before = quote(address.user) + (f":{quote(address.password, safe='')}" if address.password else "")
    options = list(address.options)
    if address.scheme in ("gs", "gcs") and address.option("retry_limit_seconds") is None:
        options.append(("retry_limit_seconds", "60"))
    query = "&".join(f"{key}={value}" for key, value in options)
    return f"{address.scheme}://{before}{'@' if before else ''}{address.host}/{'?' if query else ''}{query}"


# ---- fsspec


def _fsspec_file_system(address: StoreAddress) -> tuple[Any, Callable[[StoreAddress], str]]:
    try:
        import fsspec
    except ImportError:
        raise ArgumentError(
            f"cannot open {address.public()[:80]}: addresses that begin with {address.scheme}:// need the library "
            f"fsspec; run: {install('remote')}"
        ) from None
    try:
        fsspec.get_filesystem_class(address.scheme)
    except ValueError:
        raise ArgumentError(
            f"cannot open {address.public()[:80]}: no kind of store is called {address.scheme}; see "
            "fsspec.available_protocols(), and for databases rb.query"
        ) from None
    except ImportError as error:
        raise ArgumentError(f"{address.scheme}:// needs another library: {' '.join(str(error).split())}") from None
    # Nothing may be remembered: neither credentials for others, nor what a folder held a moment ago.
    system, _ = fsspec.core.url_to_fs(_with_password(address), skip_instance_cache=True, use_listings_cache=False)
    return fs.PyFileSystem(RetryingFileSystem(system)), lambda other: str(system._strip_protocol(_with_password(other)))


def _with_password(address: StoreAddress) -> str:
    before = quote(address.user, safe="") + (f":{quote(address.password, safe='')}" if address.password else "")
    query = "&".join(f"{key}={value}" if value else key for key, value in address.options)
    path = f"/{address.path}" if address.path else ""
    place = f"{address.scheme}://{before}{'@' if before else ''}{address.host}{path}"
    return f"{place}?{query}" if query else place


def retry_store_request(ask: Callable[[], T]) -> T:
    """What is asked for, after a few attempts if need be; a failure that stays is an `OSError`."""
    for attempt in range(ATTEMPTS):
        try:
            return ask()
        except _FOR_GOOD:
            raise
        except Exception as error:
            if attempt == ATTEMPTS - 1:
                raise OSError(f"{str(error) or type(error).__name__} (tried {ATTEMPTS} times)") from None
            time.sleep(FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.0))
    raise AssertionError


class RetryingFileSystem(fs.FSSpecHandler):  # type: ignore[misc]
    """What pyarrow asks a file system of fsspec for; whatever fails is tried again."""

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return retry_store_request(lambda: super(RetryingFileSystem, self).get_file_info(paths))

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        return retry_store_request(lambda: super(RetryingFileSystem, self).get_file_info_selector(selector))

    def open_input_file(self, path: str) -> pa.PythonFile:
        """A file whose ranges are asked for as they are, and nothing around them."""
        return pa.PythonFile(
            RetryingFile(retry_store_request(lambda: self.fs.open(path, "rb", cache_type="none"))), mode="r"
        )

    def version(self, path: str) -> tuple[Any, ...]:
        """What changes when the file does: its version where the store has one, or else its size and time."""
        about = retry_store_request(lambda: self.fs.info(path))
        known = [str(about[name]) for name in _VERSIONS if about.get(name)]
        return (about.get("size"), *(known or (str(about[name]) for name in _TIMES if about.get(name))))


class RetryingFile(_PlacedFile):
    """A file of fsspec, whose reads are tried again; a range that comes short is a failure."""

    def __init__(self, file: Any) -> None:
        super().__init__(int(file.seek(0, 2)))
        self._file = file

    def read(self, size: int = -1) -> bytes:
        wanted = max(0, min(self._size - self._place, self._size if size < 0 else size))
        block = retry_store_request(lambda: self._range(wanted)) if wanted else b""
        self._place += wanted
        return block

    def _range(self, size: int) -> bytes:
        self._file.seek(self._place)
        block = bytes(self._file.read(size))
        if len(block) != size:
            raise OSError(f"{size - len(block):,} bytes are missing")
        return block

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._file.close()


# ---- Whatever takes long to come, made in threads before it is asked for.

P = TypeVar("P")

MOST_PARTS = 8  # that are read at once


class Prefetch(Generic[T]):
    """Items that are made in a thread from now on, at most `most` of them before they are asked for.

    The thread is gone when the last item was made or making one failed, and after `stop` and `join`.
    """

    def __init__(self, items: Iterator[T], most: int) -> None:
        self._most, self._ready = most, deque[T]()
        self._failure: BaseException | None = None
        self._changed, self._ended, self._unwanted = threading.Condition(), False, False
        self._thread = threading.Thread(target=self._work, args=([items],), name="read-ahead", daemon=True)
        self._thread.start()

    def _work(self, given: list[Iterator[T]]) -> None:
        items = given.pop()  # so that nobody else holds it, and it is let go in this thread
        try:
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._most or self._unwanted)
                    if self._unwanted:
                        break
                    self._ready.append(item)
                    self._changed.notify_all()
                del item
        except BaseException as failure:
            self._failure = failure
        finally:
            del items
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._ended)
                if not self._ready:
                    break
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item
            del item
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Say that no more items are wanted."""
        with self._changed:
            self._unwanted = True
            self._ready.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the thread is gone."""
        self._thread.join()


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """The same items, made in a thread, at most `most` of them before they are asked for."""
    return read_parts_ahead([items], lambda part: part, lambda part: 1.0, most)


def read_parts_ahead(
    parts: Sequence[P], read: Callable[[P], Iterator[T]], size: Callable[[P], float], most: int
) -> Iterator[T]:
    """The items of all parts, in order; while those of one are taken, the next parts are read, each in a thread.

    One part is read ahead, or several whose sizes are at most 1 in all. No thread is left when this is closed.
    """
    waiting, begun = deque(parts), deque[Prefetch[T]]()
    sizes = deque[float]()
    try:
        while waiting or begun:
            while waiting and (
                len(begun) < 2 or (len(begun) < MOST_PARTS and sum(sizes) - sizes[0] + size(waiting[0]) <= 1)
            ):
                sizes.append(size(waiting[0]))
                begun.append(Prefetch(read(waiting.popleft()), most))
            yield from begun[0]
            begun.popleft().join()
            sizes.popleft()
    finally:
        for ahead in begun:
            ahead.stop()
        for ahead in begun:
            ahead.join()
