"""One room of a served mailbox: what lies there, who has greeted, and whose messages belong there.

It reads the agreement and the greetings, and so knows the digests that messages of this room carry: one that the same
holders signed for another room is refused.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from radoboost.errors import RoomError
from radoboost.holder.rooms.agreement import Agreement
from radoboost.holder.rooms.handshake import BEFORE, HELLO, READY, make_roster, read_greeting
from radoboost.holder.rooms.mailbox import AGREEMENT, FolderMailbox, MemoryMailbox
from radoboost.holder.rooms.roster import MOST_PARTIES, Party, Roster
from radoboost.holder.rooms.signed_messages import FIRST_LINE, read_message_header, verify_message


class Refused(RoomError):
    """A request that is refused: a status of HTTP, and a line for people."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass
class Shelf:
    """A room. `order` are its messages, by name and size; `arriving` counts the bytes of those on their way.

    `about` are the digests that messages may be about: that of the agreement, once it is there, and those of the
    sessions that holders may be in.
    """

    box: FolderMailbox | MemoryMailbox
    opened: float
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    order: list[tuple[str, int]] = field(default_factory=list, repr=False)
    names: set[str] = field(default_factory=set, repr=False)
    about: set[bytes] = field(default_factory=set, repr=False)
    size: int = 0
    arriving: int = 0
    _agreement: Agreement | None = None
    _greeted: dict[str, Party] = field(default_factory=dict, repr=False)

    @property
    def parties(self) -> int:
        """How many holders there are, or may be."""
        return MOST_PARTIES if self._agreement is None else self._agreement.parties

    def check(self, name: str, content: bytes, *, whole: bool = True) -> dict[str, bytes]:
        """Refuse a message that its sender did not sign for this room; a greeting brings a new key, which is returned.

        Of one that is not `whole` the first line is there, and is looked at alone. Only the agreement is not signed: it
        comes before anybody is known.
        """
        if name == AGREEMENT:
            return {}
        if name.count("/") != 2:
            raise Refused(403, f"{name} is no name of a message in a room; one is such as 0003/masked/north")
        stage, kind, holder = name.split("/")
        greeting = (stage, kind) == (f"{BEFORE:04d}", HELLO)
        try:
            line, _, rest = content[: 2 * FIRST_LINE].partition(b"\n")
            about, sender = _served_message_header(line[:FIRST_LINE])
            new = {holder: bytes.fromhex(_served_message_body(rest)["public_key"])} if greeting and whole else {}
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Refused(403, f"the message {name} is not signed, or damaged") from None
        if self.about and about not in self.about:
            raise Refused(403, f"the message {name} is about another agreement, or another room")
        if greeting and not whole:
            return {}
        keys = new or self.keys
        parties = (Party(sender, keys[sender]),) if sender in keys else ()
        try:
            (verify_message if whole else read_message_header)(content, name, cast(Roster, _Known(about, parties)))
        except RoomError as error:
            raise Refused(403, str(error)) from None
        except Exception:  # what anyone on the network can cause is no failure of the server
            raise Refused(400, f"the message {name} cannot be read") from None
        return new

    def add(self, name: str, content: bytes, keys: Mapping[str, bytes]) -> None:
        """Count a message that was checked, and learn what it says about this room."""
        self.keys |= keys
        self.count(name, len(content))
        with suppress(Exception):  # what says nothing of use is for its readers to refuse
            self._learn(name, content)

    def count(self, name: str, size: int) -> None:
        self.names.add(name)
        self.order.append((name, size))
        self.size += size

    def _learn(self, name: str, content: bytes) -> None:
        if name == AGREEMENT:
            self._agreement = Agreement.from_bytes(content)
            self.about.add(self._agreement.digest)
            return
        stage, kind, holder = name.split("/")
        if self._agreement is None or stage != f"{BEFORE:04d}":
            return
        if kind.partition("-")[0] == HELLO:
            self._greeted[holder] = read_greeting(content, name, self._agreement.digest)
            self._add_session(list(self._greeted.values()))
        elif kind.partition("-")[0] == READY:  # whose greetings may be other ones than the last
            body = _served_message_body(content.partition(b"\n")[2])
            numbers = zip(body["names"], map(bytes.fromhex, body["nonces"]), strict=True)
            self._add_session([Party(one, self.keys[one], nonce) for one, nonce in numbers])

    def _add_session(self, parties: list[Party]) -> None:
        """Take messages of a session of these holders, if they are as many as there must be."""
        if self._agreement is not None and len(parties) == self._agreement.parties:
            self.about.add(make_roster(self._agreement, parties).agreement)


def _served_message_header(line: bytes) -> tuple[bytes, str]:
    """What a message says that it is about, and who sent it."""
    entry = json.loads(line)
    sender = entry["sender"]
    if not isinstance(sender, str):
        raise TypeError
    return bytes.fromhex(entry["agreement"]), sender


def _served_message_body(rest: bytes) -> Any:
    return json.loads(rest.partition(b"\n")[0])


@dataclass(frozen=True)
class _Known:
    """The sender, if its key is known, and what its message is about."""

    agreement: bytes
    parties: tuple[Party, ...]


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
