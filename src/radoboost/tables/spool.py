"""Rows that can be read only once, kept in a temporary file so that they can be read again.

The file is nobody else's: it has mode 0600, and where the system allows it no name, so that it is gone with the
process, whatever ends it.
"""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from typing import Any

import pyarrow as pa

from radoboost.errors import TableError, reason
from radoboost.progress import Progress, silent
from radoboost.tables.frames import BATCH_ROWS, BATCH_VALUES, sliced
from radoboost.tables.named_paths import NamedPath, named_path

_SPARE = 1 << 26  # bytes of the disk that are left for others
_ASK_EVERY = 1 << 26  # bytes that are written before the disk is asked again
_CHUNK = 1 << 20


class Spool:
    """A temporary file to write once and to read often; its `place` can be opened by name while it lives."""

    def __init__(self) -> None:
        with _room("the temporary folder"):
            self._file, name = tempfile.mkstemp(prefix="radoboost-")
        self.n_bytes, self._asked = 0, 0
        self._folder = os.path.dirname(name)
        self.place = name
        for place in (f"/proc/{os.getpid()}/fd/{self._file}", f"/dev/fd/{self._file}"):
            if os.path.exists(place):
                with suppress(OSError):
                    os.unlink(name)
                    self.place = place
                break
        self.discard = weakref.finalize(self, _discard, self._file, name, self.place == name)

    # What Arrow asks of a file that it writes to.

    closed = False

    def write(self, data: Any) -> int:
        """Write behind what is there, and refuse to fill the disk."""
        view, done = memoryview(data).cast("B"), 0
        if self.n_bytes + len(view) > self._asked:
            free = shutil.disk_usage(self._folder).free
            if len(view) + _SPARE > free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._asked = self.n_bytes + len(view) + min(_ASK_EVERY, free - len(view) - _SPARE)
        while done < len(view):
            done += os.write(self._file, view[done:])
        self.n_bytes += done
        return done

    def flush(self) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """Arrow is done with writing; the file is there to be read until it is discarded."""


def _discard(file: int, name: str, named: bool) -> None:
    with suppress(OSError):
        os.close(file)
    if named:
        with suppress(OSError):
            os.unlink(name)


@contextmanager
def _room(name: str) -> Iterator[None]:
    """Turn a disk's refusal into one line; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOENT):
            raise
        raise TableError(
            f"no room to keep the rows of {name} in {tempfile.gettempdir()}: {reason(error)}; free some, or set TMPDIR "
            "to a folder that has more"
        ) from None


def spool_batches(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bar: Progress = silent) -> NamedPath:
    """Write record batches to a spool, as they are, a bounded number of rows at a time.

    Dictionaries may change from batch to batch, which Arrow's file format does not allow; its stream format does. So
    whatever may have some within is kept as a stream: types that have parts, and extension types.
    """
    kind = "arrow" if all(_is_simple(column.type) for column in schema) else "stream"
    spool = Spool()
    try:
        sink = pa.PythonFile(spool, "w")
        writer = (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(sink, schema)
        rows = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(schema))))
        n_rows = 0
        for batch in sliced(batches, rows):
            with _room(name):
                writer.write_batch(batch)
            n_rows += batch.num_rows
            bar("keeping rows", n_rows, None)
        with _room(name):
            writer.close()
    except BaseException:
        spool.discard()
        raise
    return named_path(spool.place, name, kind, owner=spool)


def _is_simple(kind: pa.DataType) -> bool:
    """Whether a type has no others within it."""
    return kind.num_fields == 0 and not isinstance(kind, pa.DictionaryType | pa.BaseExtensionType)


def spool_bytes(name: str, kind: str, stream: BufferedIOBase, bar: Progress = silent) -> NamedPath:
    """Write the bytes of a file of a known kind to a spool."""
    spool = Spool()
    try:
        while chunk := stream.read1(_CHUNK):  # what is there: a longer read would not notice an interrupt
            with _room(name):
                spool.write(chunk)
            bar("keeping bytes", spool.n_bytes, None)
        if not spool.n_bytes:
            raise TableError(f"{name} is empty")
    except BaseException:
        spool.discard()
        raise
    return named_path(spool.place, name, kind, owner=spool)


def respooled(path: NamedPath, schema: pa.Schema, bar: Progress = silent) -> NamedPath:
    """The same rows with the types of a schema, in a spool that takes the place of the first."""
    try:
        with pa.memory_map(os.fspath(path)) as file:
            batches = (batch.cast(schema) for batch in _kept(path, file))
            return spool_batches(str(path), schema, batches, bar)
    finally:
        path.owner.discard()


def _kept(path: NamedPath, file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    if path.kind == "stream":
        yield from pa.ipc.open_stream(file)
    else:
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(k) for k in range(reader.num_record_batches))


def close_spools(table: Any) -> None:
    """Let go of the spools that a table is in, if there are any."""
    for path in table if isinstance(table, list) else ():
        if isinstance(path, NamedPath) and isinstance(path.owner, Spool):
            path.owner.discard()


def spooled_table(table: Any) -> pa.Table | None:
    """A table that is in a spool of record batches, without a copy of its rows; None for any other."""
    if not (isinstance(table, list) and len(table) == 1 and isinstance(table[0], NamedPath)):
        return None
    path = table[0]
    if not isinstance(path.owner, Spool) or path.kind not in ("arrow", "stream"):
        return None
    file = pa.memory_map(os.fspath(path))
    return (pa.ipc.open_stream if path.kind == "stream" else pa.ipc.open_file)(file).read_all()
