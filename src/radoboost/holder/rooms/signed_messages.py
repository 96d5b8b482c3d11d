"""A holder's identity: an Ed25519 key, kept in a file that nobody else can read.

What a holder sends in a room is signed with it. Holders compare the fingerprints of their public keys once, by
telephone. The key proves who sent a message, and hides nothing: what hides numbers is drawn anew for each sum.
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from numpy.lib import format as npy
from numpy.typing import NDArray

from radoboost.errors import OutputError, RoomError, reason
from radoboost.holder.rooms.abort_causes import wrong_message_error
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.roster import Party, Roster


class Identity:
    """A holder with its private key. It prints as its name and fingerprint, and cannot be pickled.

    An identity takes part in one session of each agreement, and in each sum once, whatever a mailbox shows (B3 of
    docs/proofs/secure-sums.md): `notes` is where it keeps which.

    >>> north = Identity.create("north")
    >>> north.party.name, len(north.party.public_key), len(north.sign(b"a message"))
    ('north', 32, 64)
    """

    __slots__ = ("_key", "_place", "_sums", "party")

    def __init__(self, name: str, key: Ed25519PrivateKey, place: Path | None = None) -> None:
        self._key, self._place = key, None if place is None else place.resolve()
        self._sums: set[tuple[bytes, int]] = set()
        self.party = Party(name, key.public_key().public_bytes_raw())

    @classmethod
    def create(cls, name: str) -> "Identity":
        """A new identity, with a key from the operating system."""
        return cls(name, Ed25519PrivateKey.from_private_bytes(secrets.token_bytes(32)))

    @classmethod
    def load(cls, name: str, path: str | Path | None = None) -> "Identity":
        """The identity that lies in a file, by default at `identity_path`; refused if others can read it."""
        place = identity_path() if path is None else Path(path)
        try:
            with place.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(1 << 16)
        except FileNotFoundError:
            raise RoomError(
                f"there is no identity at {place}: make one with rado room identity {place}, and tell the others its "
                "fingerprint"
            ) from None
        except OSError as error:
            raise RoomError(f"cannot read the identity {place}: {reason(error)}") from None
        if b"PRIVATE KEY-----" not in content:
            raise RoomError(
                f"{place} is no identity, for it holds no key; make one at a place of its own: rado room identity FILE"
            )
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise RoomError(
                f"others can read the identity {place}: make a new one, or, if nobody did, chmod 600 {place}"
            )
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise RoomError(f"{place} is no identity: it has no Ed25519 key in PEM that is readable without a password")
        return cls(name, key, place)

    def save(self, path: str | Path | None = None) -> Path:
        """Write the private key to a file that nobody else can read; a file that is there is never replaced.

        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "identity.pem"
        >>> north = Identity.create("north")
        >>> Identity.load("north", north.save(place)).party == north.party
        True
        """
        place = identity_path() if path is None else Path(path)
        content = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise OutputError(f"{place} is already there: load it, or choose another place") from None
        except OSError as error:
            raise OutputError(f"cannot write the identity {place}: {reason(error)}") from None
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            place.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OutputError(f"cannot write the identity {place}: {reason(error)}") from None
            raise
        self._place = place.resolve()
        return place

    @property
    def notes(self) -> Path:
        """Where this identity notes which rooms it was in: beside its file, or with the user's configuration."""
        return _unsaved_notes() if self._place is None else self._place.with_name(f"{self._place.name}.rooms")

    @property
    def all_notes(self) -> tuple[Path, ...]:
        """Wherever it may have noted rooms: also before it was saved."""
        return tuple(dict.fromkeys((self.notes, _unsaved_notes())))

    def sign(self, content: bytes) -> bytes:
        """The signature of some bytes, 64 bytes."""
        return self._key.sign(content)

    def begin(self, agreement: bytes, stage: int) -> None:
        """Note that a sum begins; refused if this identity has begun it before (B3)."""
        if (agreement, stage) in self._sums:
            raise RoomError(
                f"{self.party.name} has already been in sum {stage} of this room, and nobody is in one twice"
            )
        self._sums.add((agreement, stage))

    def __repr__(self) -> str:
        return f"Identity({self.party.name!r}, {self.party.fingerprint!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an identity holds a private key, and is not pickled")


def identity_path() -> Path:
    """Where this user's identity lies, unless another place is named."""
    home = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return (Path(home) if home else Path("~/.config").expanduser()) / "radoboost" / "identity.pem"


def _unsaved_notes() -> Path:
    """Where identities that lie in no file note which rooms they were in."""
    return identity_path().with_name("rooms")


def load_or_create_identity(name: str, path: str | Path | None = None) -> tuple[Identity, bool]:
    """The identity in a file, or a new one that is written there; and whether it is new."""
    place = identity_path() if path is None else Path(path)
    if not place.exists():
        identity = Identity.create(name)
        identity.save(place)
        return identity, True
    return Identity.load(name, place), False


# ---- Signed messages of a room, as bytes: a line of JSON that says what it is, a line of JSON, and perhaps arrays.
#
# The first line names agreement, stage, kind and sender, and has the Ed25519 signature over these and over the
# SHA-256 of the rest. The second line is the body. Arrays follow as an npz file. Nothing is pickled. A message is
# believed only after its size, its form, the name it lies under and its signature were checked, in this order;
# arrays are taken out only then, and none that is larger than the bytes that came. Every refusal names the holder
# in whose place it lies.

FORMAT = "radoboost room 1"
MOST_BYTES = 1 << 28
ANYBODY = "anybody"  # the place of messages that any one holder writes for all
DTYPES = ("<u8", "<i8", "<f8", "|u1")
FIRST_LINE = 4096  # bytes that it has at most
_MOST_STAGES = 1 << 31
_FIELDS = ("agreement", "format", "kind", "sender", "signature", "stage")
_MOST_ARRAYS = 64
_MOST_TIMES = 99  # that a holder may begin again
_WORD = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # a sender or a kind: part of the name of a message
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '(.{3})', 'fortran_order': False, 'shape': \(((?:\d{1,15}(?:, |,|))*)\), \} *\n")


@dataclass(frozen=True)
class Message:
    """What a holder has said: a body of JSON data, arrays by name, and the SHA-256 of all its bytes."""

    kind: str
    stage: int
    sender: str
    body: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)
    digest: bytes


def message_place(stage: int, kind: str, holder: str = ANYBODY) -> str:
    """The name under which a message lies."""
    return f"{stage:04d}/{kind}/{holder}"


def sign_message(
    identity: Identity,
    agreement: bytes,
    stage: int,
    kind: str,
    body: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
) -> bytes:
    rest = _message_json_line(body)
    if arrays:
        rest += _pack_message_arrays(arrays)
    entry = {
        "agreement": agreement.hex(),
        "format": FORMAT,
        "kind": kind,
        "sender": identity.party.name,
        "stage": stage,
    }
    signature = identity.sign(_bytes_to_sign(entry, rest))
    return _message_json_line({**entry, "signature": signature.hex()}) + rest


def numbered_message_kind(kind: str, time: int) -> str:
    """A kind of message that a holder sends once each time that it joins: hello, hello-2, hello-3, ..."""
    return kind if time == 1 else f"{kind}-{time}"


def messages_of_holder(
    mailbox: Mailbox, stage: int, kind: str, holder: str, after: int = 0
) -> Iterator[tuple[str, bytes]]:
    """What a holder has said each time that it joined, in order, after so many times: where it lies, and its bytes."""
    for time in range(after + 1, _MOST_TIMES + 1):
        place = message_place(stage, numbered_message_kind(kind, time), holder)
        content = mailbox.get(place)
        if content is None:
            return
        yield place, content


def put_message_again(
    mailbox: Mailbox, identity: Identity, agreement: bytes, stage: int, kind: str, body: Mapping[str, Any]
) -> None:
    """Put a message at the next place of its kind: no message is replaced, and whoever joins again says it anew."""
    for time in range(1, _MOST_TIMES + 1):
        place = message_place(stage, numbered_message_kind(kind, time), identity.party.name)
        content = sign_message(identity, agreement, stage, numbered_message_kind(kind, time), body)
        if mailbox.put(place, content) or mailbox.get(place) == content:
            return
    raise RoomError(f"{identity.party.name} has joined this room {_MOST_TIMES} times; open a new room")


def verify_message(content: bytes, place: str, seats: Roster, most_bytes: int = MOST_BYTES) -> Message:
    """The message that lies at `place`, if it is one of this room's, by the holder whose place it is."""
    if len(content) > most_bytes:
        raise _message_refusal(place, f"has {len(content):,} bytes, and at most {most_bytes:,} are expected")
    entry, party, rest = read_message_header(content, place, seats)
    sender = party.name
    try:
        signature = bytes.fromhex(spelling := entry.pop("signature"))
        if signature.hex() != spelling:  # so that nobody can write the same message in another way
            raise ValueError("capital letters")
        Ed25519PublicKey.from_public_bytes(party.public_key).verify(signature, _bytes_to_sign(entry, rest))
    except (InvalidSignature, ValueError):
        raise _message_refusal(place, f"is not signed by {sender}: it was altered, or is by somebody else") from None
    line, newline, packed = rest.partition(b"\n")
    try:
        body, arrays = json.loads(line, parse_int=_int64_of_json), _read_message_arrays(packed)
    except Exception:  # whatever a holder makes the libraries say, it was this holder
        raise _message_refusal(place, f"by {sender} cannot be read") from None
    if not isinstance(body, dict) or not newline:
        raise _message_refusal(place, f"by {sender} cannot be read")
    return Message(entry["kind"], entry["stage"], sender, body, arrays, hashlib.sha256(content).digest())


def read_message_header(content: bytes, place: str, seats: Roster) -> tuple[dict[str, Any], Party, bytes]:
    """What the first line of a message says, who is to have signed it, and the bytes after that line.

    Refused where that is no message of this room for this place; the signature is not looked at.
    """
    number, kind, holder = place.split("/", 2)
    entry, rest = _first_line_of_message(content)
    if entry is None:
        raise _message_refusal(place, "is damaged, or none of a room")
    if entry["agreement"] != seats.agreement.hex():
        raise _message_refusal(place, "is about another agreement, or another room")
    sender = entry["sender"]
    if f"{entry['stage']:04d}" != number or entry["kind"] != kind:
        raise _message_refusal(place, f"is another one: {entry['kind']!r} of stage {entry['stage']}")
    if holder not in (sender, ANYBODY):
        raise wrong_message_error(
            f"in the place of {holder} ({place}) lies a message of {sender}; open a new room", holder
        )
    party = next((party for party in seats.parties if party.name == sender), None)
    if party is None:
        raise _message_refusal(place, f"is signed by {sender!r}, who is no party of this room")
    return entry, party, rest


def _message_refusal(place: str, why: str) -> RoomError:
    """What is wrong with the message at a place, in whose name it lies there."""
    number, kind, holder = place.split("/", 2)
    whose = f"the message for all in {number}/{kind}" if holder == ANYBODY else f"the message of {holder}"
    return wrong_message_error(f"{whose} ({place}) {why}; open a new room", *(() if holder == ANYBODY else (holder,)))


def _int64_of_json(text: str) -> int:
    """A whole number of JSON, if it has 64 bits: what is computed with it expects no more."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("too many digits")
    return number


def _message_json_line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _bytes_to_sign(entry: Mapping[str, Any], rest: bytes) -> bytes:
    """What a signature is about."""
    return b"radoboost/room/message/" + _message_json_line({**entry, "rest": hashlib.sha256(rest).hexdigest()})


def _first_line_of_message(content: bytes) -> tuple[dict[str, Any] | None, bytes]:
    """What a message says it is, and the bytes after that; None unless it is written as `written` writes it."""
    end = content.find(b"\n", 0, FIRST_LINE) + 1
    try:
        entry = json.loads(content[:end])
    except (ValueError, RecursionError):
        return None, b""
    sound = (
        isinstance(entry, dict)
        and tuple(sorted(entry)) == _FIELDS
        and entry["format"] == FORMAT
        and type(entry["stage"]) is int
        and 0 <= entry["stage"] < _MOST_STAGES
        and all(isinstance(entry[name], str) for name in _FIELDS if name != "stage")
        and all(_WORD.fullmatch(entry[name]) for name in ("kind", "sender"))
        and _message_json_line(entry) == content[:end]
    )
    return (entry, content[end:]) if sound else (None, b"")


def _pack_message_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as an npz file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, array in arrays.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, little, version=(1, 0), allow_pickle=False)
    return packed.getvalue()


def _read_message_arrays(packed: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file; an error unless all that it holds are plain arrays, stored as they are.

    Nothing is compressed and no array is larger than its part of the file, so nothing large comes out of little.
    """
    if not packed:
        return {}
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        members = file.infolist()
        stored = all(m.compress_type == zipfile.ZIP_STORED and m.file_size == m.compress_size for m in members)
        if not stored or len(members) > _MOST_ARRAYS or sum(m.file_size for m in members) > len(packed):
            raise ValueError("not stored as it is")
        return {member.filename.removesuffix(".npy"): _read_message_array(file.read(member)) for member in members}


def _read_message_array(content: bytes) -> NDArray[Any]:
    """An array of an npy file, if its header is of `_pack_message_arrays`: no header is evaluated as Python."""
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(content[start:end]) if content.startswith(_MAGIC) else None
    if header is None or header[1].decode("latin-1") not in DTYPES:
        raise ValueError("another kind of array")
    dtype, data = np.dtype(header[1].decode()), content[end:]
    shape = tuple(int(length) for length in header[2].split(b",") if length.strip())
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("another length")
    return np.frombuffer(data, dtype).reshape(shape) if data else np.empty(shape, dtype)
