"""Where messages of a room lie: anybody there can put one, and read all of them, and none is ever replaced.

A mailbox knows nothing and is trusted with nothing: messages are signed, what is secret in them is sealed, and numbers
are masked. One that loses or withholds messages can stop a room, and cannot change what comes out of it.
"""

import errno
import io
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from radoboost.errors import ArgumentError, RoomError, reason

AGREEMENT = "agreement"  # the name of the first message of a room
_LEFT_BY_SYSTEMS = ("Thumbs.db", "desktop.ini", "lost+found")
LARGEST = 256 * 2**20  # bytes of one message
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(/[A-Za-z0-9][A-Za-z0-9_-]{0,63}){0,3}")


class DriveError(RoomError):
    """What a drive said of a message, for whoever uses the drive; `why` is that without the name of any place."""

    def __init__(self, line: str, why: str) -> None:
        super().__init__(line)
        self.why = why


class Mailbox(Protocol):
    """What a room needs of a place for messages. Names are such as "0003/masked/north"."""

    @property
    def name(self) -> str:
        """What messages to people call it."""

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, whole or not at all; False if another one already has that name, which then stays."""

    def get(self, name: str) -> bytes | None:
        """The message of that name, or None while there is none."""

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""


class MemoryMailbox:
    """A mailbox within one process, for tests and rehearsals."""

    name = "memory"

    def __init__(self) -> None:
        self._messages: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, unless one already has that name."""
        check_mailbox_message(name, content)
        with self._lock:
            if name in self._messages:
                return False
            self._messages[name] = content
            return True

    def get(self, name: str) -> bytes | None:
        return self._messages.get(name)

    def open(self, name: str) -> BinaryIO | None:
        """The message of that name, to be read piece by piece, or None while there is none."""
        content = self.get(name)
        return None if content is None else io.BytesIO(content)

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""
        with self._lock:
            return sorted(name for name in self._messages if name.startswith(prefix))


def is_message_name(name: str) -> bool:
    """Whether a message may be called so: a name is safe as a path and in an address."""
    return _NAME.fullmatch(name) is not None


def check_mailbox_message(name: str, content: bytes, largest: int = LARGEST) -> None:
    """Refuse a name that is none, and a content that is no message or too large."""
    if not is_message_name(name):
        raise RoomError(
            f"{name[:80]!r} is no name of a message: it has up to 4 parts of letters, digits, - and _, with / between"
        )
    if not isinstance(content, bytes):
        raise RoomError(f"the message {name} must be bytes; it is of the type {type(content).__name__}")
    check_message_size(name, len(content), largest)


def check_message_size(name: str, size: int, largest: int) -> None:
    """Refuse a message of more bytes."""
    if size > largest:
        raise RoomError(
            f"the message {name} has {size:,} bytes, and the mailbox takes {largest:,} at most; agree on fewer "
            "rados or columns"
        )


def mailbox_at(
    address: str | os.PathLike[str], *, make: bool = False, trust_network: bool = False, token: str = ""
) -> Mailbox:
    """The mailbox of a room: a folder, or an address https://HOST:PORT/ROOM. `make` makes it, if it is not there.

    To open a room at a server takes the `token` that it was started with. An address without encryption, beyond this
    machine, is refused unless `trust_network`.
    """
    pass
    from radoboost.holder.rooms.http_mailbox import WebMailbox

    place = os.fspath(address)
    if place.lower().startswith(("http://", "https://")):
        return WebMailbox(place, make=make, trust_network=trust_network, token=token)
    if "://" in place:
        raise ArgumentError(
            f"a room is a folder that all holders can write, or an address https://HOST:PORT/ROOM; it is {place!r}"
        )
    if trust_network:
        raise ArgumentError("trust_network (--trust-network) is about the address of a room, and this one is a folder")
    if make:
        _refuse_folder_in_use(place)
    return FolderMailbox(place, make=make)


def _refuse_folder_in_use(place: str) -> None:
    """Refuse to make a room of a folder that holds other things, which all holders would then see."""
    try:
        there = sorted(name for name in os.listdir(place) if name[0] != "." and name not in _LEFT_BY_SYSTEMS)
    except OSError:
        return  # it is not there, or opening it says what is wrong
    if there and AGREEMENT not in there:
        more = "" if len(there) == 1 else f" and {len(there) - 1:,} more"
        raise RoomError(
            f"{place} is a folder that holds {there[0]!r}{more}, and a room needs one of its own, which all holders "
            "see; name a new one (-o)"
        )


# ---- A mailbox that is a folder which all holders can write, such as one on a shared drive.
#
# A message is a file under its name. It is written beside its place, and a claim (a file that the system makes
# for one writer only) decides who may move a message there; the claim of a writer that was killed runs out. So a
# message is whole or not there, and none is ever replaced, on network drives too, which often have no links.
# Anything else in the folder is left alone: people and programs that keep drives in step leave files of their
# own.

_ONCE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_GONE = {errno.ENOENT, errno.ENOTDIR, getattr(errno, "ESTALE", errno.ENOENT)}
_GONE_AFTER = 15.0  # seconds after which a claim without a message is nobody's
_MOST_CLAIMS = 8
_ALLOW = "ask whoever has the folder to let you write there"
_FULL = "make space on its drive, and open another room"
_ADVICE = {
    errno.EACCES: _ALLOW,
    errno.EPERM: _ALLOW,
    errno.EROFS: "it must be a drive that all holders can write",
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
}


class FolderMailbox:
    """Messages as files of a folder.

    `make` makes the folder, if it is not there. Folders within it get its permissions, so that whoever may write there
    may write in them too.
    """

    def __init__(self, place: str | Path, *, make: bool = False) -> None:
        self._root = Path(place)
        try:
            if make:
                self._root.mkdir(exist_ok=True)
            self._mode = stat.S_IMODE(self._root.stat().st_mode)
        except FileExistsError:
            raise RoomError(f"{place} is a file; the folder of a room must have another name") from None
        except OSError as error:
            raise RoomError(
                f"there is no folder {place} ({reason(error)}); check its name, and that the drive is there"
            ) from None
        if not self._root.is_dir():
            raise RoomError(f"{place} is a file, and a room is a folder, or the address of one: https://HOST:PORT/ROOM")

    @property
    def name(self) -> str:
        return str(self._root)

    def put(self, name: str, content: bytes) -> bool:
        """Put a message there, whole or not at all; False if another one already has that name, which then stays."""
        check_mailbox_message(name, content, LARGEST)
        with self._as_text(f"put the message {name} there"):
            *folders, last = name.split("/")
            folder = self._folder(folders, make=True)
            if os.path.lexists(folder / last):
                return False
            draft = folder / f".{secrets.token_hex(8)}.draft"
            try:
                _write_message_durably(draft, content, self._mode & 0o444 | 0o200)
                return self._moved(draft, folder, last, content)
            finally:
                with suppress(FileNotFoundError):
                    draft.unlink()
        raise AssertionError("unreachable: failures are raised")

    def _moved(self, draft: Path, folder: Path, last: str, content: bytes) -> bool:
        """Move a draft to its place, if this writer may; whatever a drive says of it, none is put there after it."""
        number, place = _claim_message_place(draft, folder, last), folder / last
        if number is None or os.path.lexists(place) or os.path.lexists(_claim_path(folder, last, number + 1)):
            return False
        try:
            os.rename(draft, place)
        except OSError:
            if os.path.lexists(place):  # it was moved, and only the answer was lost: the claim stays
                with self._open(place, last) as file:
                    return file.read(_message_file_size(file)) == content
            with suppress(FileNotFoundError):
                draft.unlink()  # if it is gone it may still turn up there, and the claim stays too
                _claim_path(folder, last, number).unlink()
            raise
        return True

    def get(self, name: str) -> bytes | None:
        """The message of that name, or None while there is none; links are not followed."""
        file = self.open(name)
        if file is None:
            return None
        with self._as_text(f"read the message {name}"), file:
            return file.read(_message_file_size(file))
        raise AssertionError("unreachable: failures are raised")

    def open(self, name: str) -> BinaryIO | None:
        """The message of that name, to be read piece by piece, or None while there is none."""
        check_mailbox_message(name, b"")
        with self._as_text(f"read the message {name}"):
            *folders, last = name.split("/")
            try:
                return self._open(self._folder(folders) / last, name)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                self._check_there()
        return None

    def names(self, prefix: str) -> list[str]:
        """The names of all messages that begin so, in order."""
        with self._as_text("list the messages"):
            above = prefix.split("/")[:-1]
            if above and not is_message_name("/".join(above)):
                return []
            try:
                found = list(_messages_in_folder(self._folder(above), "".join(f"{part}/" for part in above)))
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                self._check_there()
                return []
            return sorted(name for name in found if name.startswith(prefix))
        raise AssertionError("unreachable: failures are raised")

    def _folder(self, parts: list[str], *, make: bool = False) -> Path:
        """The folder of a message, each of its parts a true one, and none a link to somewhere else."""
        folder = self._root
        for part in parts:
            folder = folder / part
            if make and not os.path.lexists(folder):
                with suppress(FileExistsError):
                    os.mkdir(folder)
                    with suppress(OSError):  # a drive without such permissions
                        os.chmod(folder, self._mode)
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise RoomError(
                    f"{folder} is not a folder; take it out of the room {self.name}, which has messages there"
                )
        return folder

    def _open(self, place: Path, name: str) -> BinaryIO:
        """A message, of which there is no more than a message may have; nothing else is opened."""
        if not stat.S_ISREG(os.lstat(place).st_mode):
            raise RoomError(f"{place} is no plain file, and so no message; take it out of the room {self.name}")
        file = open(os.open(place, _READ), "rb")  # noqa: SIM115
        try:
            check_message_size(name, _message_file_size(file), LARGEST)
        except BaseException:
            file.close()
            raise
        return file

    def _check_there(self) -> None:
        if not self._root.is_dir():
            raise RoomError(f"the folder {self.name} of the room is gone; check that the drive is there")

    @contextmanager
    def _as_text(self, doing: str) -> Iterator[None]:
        """What the system says, as one line with advice."""
        try:
            yield
        except OSError as error:
            if error.errno in _GONE:
                self._check_there()
            advice = _ADVICE.get(error.errno or 0, "check the drive")
            line = f"cannot {doing}, in the folder {self.name}: {reason(error)}; {advice}"
            raise DriveError(line, reason(error)) from None


def _message_file_size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _write_message_durably(draft: Path, content: bytes, mode: int) -> None:
    """A file that is on the drive when this returns."""
    with open(os.open(draft, _ONCE, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    with suppress(OSError):  # a drive without such permissions
        os.chmod(draft, mode)


def _claim_path(folder: Path, last: str, number: int) -> Path:
    return folder / f".{last}.claim{number or ''}"


def _claim_message_place(draft: Path, folder: Path, last: str) -> int | None:
    """The number of this writer's claim, if it is the one that may put the message: the system makes a file for one.

    Between a claim and the message are moments. Where a claim is old and there is no message, its writer is gone, and
    one other may claim the place after it; a writer that wakes up again finds that claim, and puts nothing.
    """
    for number in range(_MOST_CLAIMS):
        claim = _claim_path(folder, last, number)
        try:
            os.close(os.open(claim, _ONCE, 0o600))
        except FileExistsError:
            with suppress(FileNotFoundError):  # both times are the drive's own
                if os.stat(draft).st_mtime - os.lstat(claim).st_mtime > _GONE_AFTER:
                    continue
            return None
        return number
    return None


def _messages_in_folder(folder: Path, above: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = above + entry.name
            if not is_message_name(name):
                continue
            if entry.is_file(follow_symlinks=False):
                yield name
            elif entry.is_dir(follow_symlinks=False):
                yield from _messages_in_folder(folder / entry.name, f"{name}/")
