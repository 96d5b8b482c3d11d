"""A message on its way to a served mailbox: bounded, looked at as soon as it begins, and on disk where it is large."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from radoboost.holder.rooms.served_room import Refused, Shelf
from radoboost.holder.rooms.signed_messages import FIRST_LINE

_IN_MEMORY = 2**18  # bytes that a message may have before it goes to disk


class Arrival:
    """The bytes of a message that have come so far, of at most `most`.

    `check_space` is told how many there are, and how many more come, and may refuse these.
    """

    def __init__(
        self, shelf: Shelf, name: str, most: int, check_space: Callable[[int, int], None], folder: Path | None
    ) -> None:
        self._shelf, self._name, self._most, self._check_space = shelf, name, most, check_space
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=None if folder is None else str(folder))  # noqa: SIM115
        self._begin: bytearray | None = bytearray()  # until its first line is there
        self.size = 0

    def expect(self, size: int) -> None:
        """Refuse a message that is too large."""
        if size > self._most:
            raise Refused(413, f"a message has at most {self._most:,} bytes here; agree on fewer rados or columns")

    def add(self, piece: bytes) -> None:
        """Take a piece, or refuse the message."""
        self.expect(self.size + len(piece))
        self._check_space(self.size, len(piece))
        self.size += len(piece)
        self._shelf.arriving += len(piece)
        if self._begin is not None:
            self._begin += piece[: FIRST_LINE + 1]
            if b"\n" in self._begin or len(self._begin) > FIRST_LINE:
                self._shelf.check(self._name, bytes(self._begin), whole=False)
                self._begin = None
        self._file.write(piece)

    def content(self) -> bytes:
        """All of it."""
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Forget it."""
        self._shelf.arriving -= self.size
        with suppress(OSError):  # where the disk was full, it still is
            self._file.close()
