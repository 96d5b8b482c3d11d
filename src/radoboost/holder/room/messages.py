"""Signed messages of a room, as bytes: a line of JSON that says what it is, a line of JSON, and perhaps arrays.

The first line names agreement, stage, kind and sender, and has the Ed25519 signature over these and over the SHA-256 of
the rest. The second line is the body. Arrays follow as an npz file. Nothing is pickled. A message is believed only
after its size, its form, the name it lies under and its signature were checked, in this order; arrays are taken out
only then, and none that is larger than the bytes that came. Every refusal names the holder in whose place it lies.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from numpy.lib import format as npy
from numpy.typing import NDArray

from radoboost.errors import RoomError
from radoboost.holder.room.causes import wrong
from radoboost.holder.room.identities import Identity
from radoboost.holder.room.mailbox import Mailbox
from radoboost.holder.room.parties import Party, Seats

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


def place_of(stage: int, kind: str, holder: str = ANYBODY) -> str:
    """The name under which a message lies."""
    return f"{stage:04d}/{kind}/{holder}"


def written(
    identity: Identity,
    agreement: bytes,
    stage: int,
    kind: str,
    body: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
) -> bytes:
    rest = _line(body)
    if arrays:
        rest += _packed(arrays)
    entry = {
        "agreement": agreement.hex(),
        "format": FORMAT,
        "kind": kind,
        "sender": identity.party.name,
        "stage": stage,
    }
    signature = identity.sign(_signed(entry, rest))
    return _line({**entry, "signature": signature.hex()}) + rest


def numbered(kind: str, time: int) -> str:
    """A kind of message that a holder sends once each time that it joins: hello, hello-2, hello-3, ..."""
    return kind if time == 1 else f"{kind}-{time}"


def all_said(mailbox: Mailbox, stage: int, kind: str, holder: str, after: int = 0) -> Iterator[tuple[str, bytes]]:
    """What a holder has said each time that it joined, in order, after so many times: where it lies, and its bytes."""
    for time in range(after + 1, _MOST_TIMES + 1):
        place = place_of(stage, numbered(kind, time), holder)
        content = mailbox.get(place)
        if content is None:
            return
        yield place, content


def say_again(
    mailbox: Mailbox, identity: Identity, agreement: bytes, stage: int, kind: str, body: Mapping[str, Any]
) -> None:
    """Put a message at the next place of its kind: no message is replaced, and whoever joins again says it anew."""
    for time in range(1, _MOST_TIMES + 1):
        place = place_of(stage, numbered(kind, time), identity.party.name)
        content = written(identity, agreement, stage, numbered(kind, time), body)
        if mailbox.put(place, content) or mailbox.get(place) == content:
            return
    raise RoomError(f"{identity.party.name} has joined this room {_MOST_TIMES} times; open a new room")


def read(content: bytes, place: str, seats: Seats, most_bytes: int = MOST_BYTES) -> Message:
    """The message that lies at `place`, if it is one of this room's, by the holder whose place it is."""
    if len(content) > most_bytes:
        raise _refusal(place, f"has {len(content):,} bytes, and at most {most_bytes:,} are expected")
    entry, party, rest = announced(content, place, seats)
    sender = party.name
    try:
        signature = bytes.fromhex(spelling := entry.pop("signature"))
        if signature.hex() != spelling:  # so that nobody can write the same message in another way
            raise ValueError("capital letters")
        Ed25519PublicKey.from_public_bytes(party.public_key).verify(signature, _signed(entry, rest))
    except (InvalidSignature, ValueError):
        raise _refusal(place, f"is not signed by {sender}: it was altered, or is by somebody else") from None
    line, newline, packed = rest.partition(b"\n")
    try:
        body, arrays = json.loads(line, parse_int=_whole), _arrays(packed)
    except Exception:  # whatever a holder makes the libraries say, it was this holder
        raise _refusal(place, f"by {sender} cannot be read") from None
    if not isinstance(body, dict) or not newline:
        raise _refusal(place, f"by {sender} cannot be read")
    return Message(entry["kind"], entry["stage"], sender, body, arrays, hashlib.sha256(content).digest())


def announced(content: bytes, place: str, seats: Seats) -> tuple[dict[str, Any], Party, bytes]:
    """What the first line of a message says, who is to have signed it, and the bytes after that line.

    Refused where that is no message of this room for this place; the signature is not looked at.
    """
    number, kind, holder = place.split("/", 2)
    entry, rest = _first_line(content)
    if entry is None:
        raise _refusal(place, "is damaged, or none of a room")
    if entry["agreement"] != seats.agreement.hex():
        raise _refusal(place, "is about another agreement, or another room")
    sender = entry["sender"]
    if f"{entry['stage']:04d}" != number or entry["kind"] != kind:
        raise _refusal(place, f"is another one: {entry['kind']!r} of stage {entry['stage']}")
    if holder not in (sender, ANYBODY):
        raise wrong(f"in the place of {holder} ({place}) lies a message of {sender}; open a new room", holder)
    party = next((party for party in seats.parties if party.name == sender), None)
    if party is None:
        raise _refusal(place, f"is signed by {sender!r}, who is no party of this room")
    return entry, party, rest


def _refusal(place: str, why: str) -> RoomError:
    """What is wrong with the message at a place, in whose name it lies there."""
    number, kind, holder = place.split("/", 2)
    whose = f"the message for all in {number}/{kind}" if holder == ANYBODY else f"the message of {holder}"
    return wrong(f"{whose} ({place}) {why}; open a new room", *(() if holder == ANYBODY else (holder,)))


def _whole(text: str) -> int:
    """A whole number of JSON, if it has 64 bits: what is computed with it expects no more."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("too many digits")
    return number


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _signed(entry: Mapping[str, Any], rest: bytes) -> bytes:
    """What a signature is about."""
    return b"radoboost/room/message/" + _line({**entry, "rest": hashlib.sha256(rest).hexdigest()})


def _first_line(content: bytes) -> tuple[dict[str, Any] | None, bytes]:
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
        and _line(entry) == content[:end]
    )
    return (entry, content[end:]) if sound else (None, b"")


def _packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as an npz file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, array in arrays.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, little, version=(1, 0), allow_pickle=False)
    return packed.getvalue()


def _arrays(packed: bytes) -> dict[str, NDArray[Any]]:
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
        return {member.filename.removesuffix(".npy"): _array(file.read(member)) for member in members}


def _array(content: bytes) -> NDArray[Any]:
    """An array of an npy file, if its header is as `_packed` writes it: no header is evaluated as Python."""
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
