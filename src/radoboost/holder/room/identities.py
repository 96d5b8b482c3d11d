"""A holder's identity: an Ed25519 key, kept in a file that nobody else can read.

What a holder sends in a room is signed with it. Holders compare the fingerprints of their public keys once, by
telephone. The key proves who sent a message, and hides nothing: what hides numbers is drawn anew for each sum.
"""

import os
import secrets
import stat
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from radoboost.errors import OutputError, RoomError, reason
from radoboost.holder.room.parties import Party


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
        return _of_no_file() if self._place is None else self._place.with_name(f"{self._place.name}.rooms")

    @property
    def all_notes(self) -> tuple[Path, ...]:
        """Wherever it may have noted rooms: also before it was saved."""
        return tuple(dict.fromkeys((self.notes, _of_no_file())))

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


def _of_no_file() -> Path:
    """Where identities that lie in no file note which rooms they were in."""
    return identity_path().with_name("rooms")


def load_or_create(name: str, path: str | Path | None = None) -> tuple[Identity, bool]:
    """The identity in a file, or a new one that is written there; and whether it is new."""
    place = identity_path() if path is None else Path(path)
    if not place.exists():
        identity = Identity.create(name)
        identity.save(place)
        return identity, True
    return Identity.load(name, place), False
