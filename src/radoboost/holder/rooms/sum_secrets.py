"""What one holder alone knows in one sum, and what is computed with it: boxes, masked numbers, answers, the total.

All of it is drawn for this sum and forgotten after it. B1, B2, ... are steps of docs/proofs/secure-sums.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import RoomError
from radoboost.holder.keystream import Key
from radoboost.holder.rooms import masking
from radoboost.holder.rooms.abort_causes import wrong_message_error
from radoboost.holder.rooms.roster import Roster

SHARE_BYTES = masking.SHARE_BYTES
BOX_BYTES = 2 * SHARE_BYTES + masking.TAG_BYTES
_PUBLIC = ("masks", "boxes", "check", "mask_check")


@dataclass(frozen=True)
class PublicKeys:
    """What a holder tells all at the start: two public keys, and what its two shared secrets can be recognised by.

    The public mask key alone would not do: an X25519 key has several private keys, which may differ in what they share
    with a key that is none of the curve (B7).
    """

    masks: bytes
    boxes: bytes
    check: bytes
    mask_check: bytes

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> "PublicKeys":
        """From a message; ValueError if it is none."""
        keys = [bytes.fromhex(str(body.get(name))) for name in _PUBLIC]
        if any(len(key) != masking.KEY_BYTES for key in keys):
            raise ValueError("keys have 32 bytes")
        return cls(*keys)


class SumSecrets:
    """The secrets of one holder in one sum: two seeds, of its pad and its mask key; its box key; shares of others."""

    def __init__(self, seats: Roster, stage: int, name: str) -> None:
        self._seats, self._stage, self._name = seats, stage, name
        self._session = masking.session_of_sum(seats.agreement, stage)
        self._seed, self._mask_seed, self._box_key = (
            masking.new_masking_key(),
            masking.new_masking_key(),
            masking.new_masking_key(),
        )
        self._mask_key = masking.derive_masking_key(self._mask_seed, self._session, "mask", name)
        self._kept: dict[str, tuple[Key, Key]] = {}  # of each holder, a share of its seed and one of its mask seed

    def keys(self) -> dict[str, str]:
        """What others need to know of it."""
        checks = (_check_value_of_secret(secret, self._session, self._name) for secret in (self._seed, self._mask_seed))
        public = (masking.public_masking_key(self._mask_key), masking.public_masking_key(self._box_key), *checks)
        return {name: key.hex() for name, key in zip(_PUBLIC, public, strict=True)}

    def boxes(self, members: Sequence[str], keys: Mapping[str, PublicKeys]) -> NDArray[np.uint8]:
        """Shares of the seed and the mask seed, sealed: a row for each other member, in order (B1)."""
        count, threshold = len(self._seats.parties), self._seats.threshold
        seeds, mask_seeds = (masking.split_secret(key, threshold, count) for key in (self._seed, self._mask_seed))
        rows = []
        for member in members:
            place = _share_number_of_holder(self._seats, member) - 1
            share = seeds[place] + mask_seeds[place]
            if member == self._name:
                self._keep(member, share)
                continue
            key, about = self._box(self._name, member, keys[member])
            rows.append(np.frombuffer(masking.seal_box(key, share, about), dtype=np.uint8))
        return np.array(rows, dtype=np.uint8)

    def open(
        self, members: Sequence[str], keys: Mapping[str, PublicKeys], boxes: Mapping[str, NDArray[np.uint8]]
    ) -> None:
        """Keep the shares that others have sealed for this holder; refused, by name, if one does not open.

        `members` are those for whom boxes were sealed, `boxes` those of holders who are still in.
        """
        for sender, rows in boxes.items():
            if sender == self._name:
                continue
            box = rows[[member for member in members if member != sender].index(self._name)].tobytes()
            key, about = self._box(sender, self._name, keys[sender])
            share = masking.unseal_box(key, box, about)
            if share is None:
                raise wrong_message_error(
                    f"what {sender} sealed for {self._name} does not open; open a new room, without {sender}", sender
                )
            self._keep(sender, share)

    def masked(
        self, numbers: NDArray[np.uint64], members: Sequence[str], keys: Mapping[str, PublicKeys]
    ) -> NDArray[np.uint64]:
        """The numbers under the own pad, and under one shared with each other member (B5)."""
        hidden = numbers + masking.masking_pad(
            masking.derive_masking_key(self._seed, self._session, "self", self._name), len(numbers)
        )
        for member in members:
            if member != self._name:
                pad = _pad_of_holder_pair(
                    self._seats, self._stage, self._name, self._mask_key, member, keys, len(numbers)
                )
                hidden = hidden + pad if self._name < member else hidden - pad
        return hidden

    def answer(self, members: Sequence[str], present: Sequence[str]) -> NDArray[np.uint8]:
        """A share for each member: of the seed if it is present, else of the mask seed, and never both (B6)."""
        assert set(present) <= set(members), "only members are present"
        kept = [self._kept.pop(member)[member not in present] for member in members]  # so that it answers once
        return np.array([np.frombuffer(share, dtype=np.uint8) for share in kept])

    def _keep(self, sender: str, share: Key) -> None:
        self._kept[sender] = (share[:SHARE_BYTES], share[SHARE_BYTES:])

    def _box(self, sender: str, receiver: str, other: PublicKeys) -> tuple[Key, bytes]:
        """The key of a box, which seals once, and what the box is about (B2)."""
        secret = masking.shared_masking_key(self._box_key, other.boxes)
        if secret is None:
            raise _useless_key_error(sender if receiver == self._name else receiver)
        about = json.dumps([self._seats.agreement.hex(), self._stage, sender, receiver]).encode()
        return masking.derive_masking_key(secret, self._session, "box", sender, receiver), about

    def __repr__(self) -> str:
        return f"SumSecrets({self._name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the secrets of a sum are not pickled")


def unmask_total(
    seats: Roster,
    stage: int,
    keys: Mapping[str, PublicKeys],
    sent: Mapping[str, NDArray[np.uint64]],
    answers: Mapping[str, NDArray[np.uint8]],
    members: Sequence[str],
) -> NDArray[np.int64]:
    """The total of the numbers that are `sent` masked, by the answers of at least as many as the threshold (B5).

    `members` are those with whom pads were shared, and whom an answer has shares of, in order. What comes back is
    compared with the keys of the start, so a wrong share stops the sum, and cannot change it (B7).
    """
    session = masking.session_of_sum(seats.agreement, stage)
    helpers = sorted(answers)[: seats.threshold]
    factors = masking.lagrange_weights([_share_number_of_holder(seats, helper) for helper in helpers])
    total = np.zeros(len(next(iter(sent.values()))), dtype=np.uint64)
    for numbers in sent.values():
        total += numbers
    for place, member in enumerate(members):
        shares = {_share_number_of_holder(seats, helper): answers[helper][place].tobytes() for helper in helpers}
        secret = masking.combine_secret_shares(shares, factors)
        if secret is None or not _secret_matches_keys(secret, member, keys[member], session, member in sent):
            raise wrong_message_error(
                f"shares of {member} do not fit together: {member}, or one of {', '.join(helpers)}, sent a wrong one; "
                "open a new room",
                member,
            )
        if member in sent:
            total -= masking.masking_pad(masking.derive_masking_key(secret, session, "self", member), len(total))
            continue
        key = masking.derive_masking_key(secret, session, "mask", member)
        for name in sent:  # pads that it shares with those who are in, and that nothing cancels
            pad = _pad_of_holder_pair(seats, stage, member, key, name, keys, len(total))
            total = total + pad if member < name else total - pad
    return total.view(np.int64)


def _check_value_of_secret(secret: Key, session: bytes, name: str) -> Key:
    """What a shared secret is recognised by, and nothing else follows from (B2)."""
    return masking.derive_masking_key(secret, session, "check", name)


def _secret_matches_keys(secret: Key, member: str, keys: PublicKeys, session: bytes, is_seed: bool) -> bool:
    """Whether a secret that came back is the one of the start (B7)."""
    check = _check_value_of_secret(secret, session, member)
    if is_seed:
        return check == keys.check
    return (
        check == keys.mask_check
        and masking.public_masking_key(masking.derive_masking_key(secret, session, "mask", member)) == keys.masks
    )


def _pad_of_holder_pair(
    seats: Roster, stage: int, own: str, private: Key, other: str, keys: Mapping[str, PublicKeys], count: int
) -> NDArray[np.uint64]:
    """The pad that two holders share, from the private key of one of them."""
    secret = masking.shared_masking_key(private, keys[other].masks)
    if secret is None:
        raise _useless_key_error(other)
    first, second = sorted((own, other))
    return masking.masking_pad(
        masking.derive_masking_key(secret, masking.session_of_sum(seats.agreement, stage), "pair", first, second), count
    )


def _share_number_of_holder(seats: Roster, name: str) -> int:
    """The number of a holder's shares: its place among all parties, from 1."""
    return 1 + [party.name for party in seats.parties].index(name)


def _useless_key_error(name: str) -> RoomError:
    return wrong_message_error(f"the key of {name} would hide nothing: open a new room, without {name}", name)
