"""Who is in a room: a name and a public key for each holder, and how many of them a sum needs."""

import hashlib
from dataclasses import dataclass, field

from radoboost.errors import ArgumentError, RoomError

LEAST_PARTIES, MOST_PARTIES = 3, 1000


@dataclass(frozen=True)
class Party:
    """A holder: its name in the room, and its Ed25519 public key, 32 bytes.

    `nonce` is the random number of its greeting, drawn for each joining, so that no two sessions are one. `versions`
    are those of its program.
    """

    name: str
    public_key: bytes = field(repr=False)
    nonce: bytes = field(default=b"", repr=False, compare=False)
    versions: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)

    @property
    def fingerprint(self) -> str:
        """The key for people to compare, by telephone."""
        digest = hashlib.sha256(self.public_key).hexdigest()[:32]
        return " ".join(digest[k : k + 4] for k in range(0, 32, 4))


@dataclass(frozen=True)
class Roster:
    """All that a secure sum depends on besides numbers: who is there, by name, and what they agreed on.

    `agreement` is the SHA-256 of the agreement, with all parties and the random numbers of their greetings in it: it
    names one session. Noise stays as large as was promised as long as no more than `tolerate` of them are lost, or put
    together what they know; `most_holders_lost` may be lost at all: none where the room `needs_all`.
    """

    agreement: bytes = field(repr=False)
    parties: tuple[Party, ...]
    tolerate: int
    needs_all: bool = False

    def __post_init__(self) -> None:
        check_number_of_holders(len(self.parties), self.tolerate)
        names = [party.name for party in self.parties]
        if names != sorted(set(names)) or len({party.public_key for party in self.parties}) != len(names):
            raise RoomError("each party of a room has one name and one key, and they are in order of their names")

    @property
    def threshold(self) -> int:
        """How many holders must help to open a sum: so many that no two lists of who is in can both be opened.

        It is more than two thirds, and more than half of all and of those who may collude together: of any two groups
        of so many, more than `tolerate` holders are in both (B4 of docs/proofs/secure-sums.md).
        """
        return opening_threshold(len(self.parties), self.tolerate)

    @property
    def most_lost(self) -> int:
        """How many may be lost before the room has to stop."""
        return 0 if self.needs_all else most_holders_lost(len(self.parties), self.tolerate)

    @property
    def opening(self) -> int:
        """How many could see the sums of another by putting together what they know; fewer cannot.

        Either they open a sum in two ways (B4), or they take their own sums away from a total in which, of the others,
        there is only one (B8): of three holders, two are enough.
        """
        count = len(self.parties)
        return min(2 * self.threshold - count, count - 1 - self.most_lost)

    def party(self, name: str) -> Party:
        found = next((party for party in self.parties if party.name == name), None)
        if found is None:
            raise RoomError(f"{name!r} is not a party of this room")
        return found


def opening_threshold(parties: int, tolerate: int) -> int:
    """How many of so many holders must help to open a sum (B4)."""
    return max(2 * parties // 3, (parties + tolerate) // 2) + 1


def most_holders_lost(parties: int, tolerate: int) -> int:
    """How many of so many holders may be lost before the room has to stop: often fewer than are tolerated."""
    return min(tolerate, parties - opening_threshold(parties, tolerate))


def check_number_of_holders(parties: int, tolerate: int) -> None:
    """Refuse a room in which nobody is hidden, or whose noise would not be enough."""
    for name, number in (("parties", parties), ("tolerate", tolerate)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise ArgumentError(f"{name} must be a whole number; it is {number!r}")
    if not LEAST_PARTIES <= parties <= MOST_PARTIES:
        raise ArgumentError(
            f"a room is for {LEAST_PARTIES} to {MOST_PARTIES:,} holders, and there are {parties:,}: of two, each would "
            "learn the other's sums by taking its own away; merge releases in place of that (rado merge, rado learn A "
            "B)"
        )
    if not 1 <= tolerate < parties / 2:
        raise ArgumentError(
            f"tolerate must be at least 1, for every holder knows its own share of the noise, and below half of the "
            f"{parties} parties; it is {tolerate}"
        )
