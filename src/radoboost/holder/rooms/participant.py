"""A holder in a room, once all are seated: sums over all holders, stage by stage, and what one computes for all.

It is the `SecureAggregator` of a run. Every holder asks for the same things in the same order, so that a counter
numbers the stages for all of them alike, and none is ever repeated. Noise is in the numbers before they come here, by
shares (D1 of docs/proofs/shared-noise.md).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import RoomError
from radoboost.holder.mechanisms.mechanism import RoomParticipation
from radoboost.holder.rooms.abort_causes import (
    LEFT,
    SILENT,
    STOPPED,
    Cause,
    bearable_loss_text,
    causes_text,
    first_causes,
    holder_names_text,
    wrong_message_error,
)
from radoboost.holder.rooms.abort_notices import AbortNotices, Whom, wait_for_message
from radoboost.holder.rooms.handshake import BEFORE
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import secure_sum
from radoboost.holder.rooms.signed_messages import Identity, Message, message_place, sign_message, verify_message
from radoboost.privacy import Event
from radoboost.privacy.calibration import noise_factor_of_present_holders, noise_share_of_holder

T = TypeVar("T")
AGREED = "agreed"
_ODDS = 2.0**20  # how many times as large as here what another computed of the same totals may be


class Participant:
    """A holder's seat, from the first sum to the last; `patience` is how many seconds it waits for others in a round.

    `present` are those who are still there, in order. Setting `stop` ends the sitting. `tell` gets a line that says for
    whom it waits, if that takes long. `note` is told before anything is computed that cannot be done twice, with what
    is being booked.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        seats: Roster,
        identity: Identity,
        *,
        patience: float = 120.0,
        stop: threading.Event | None = None,
        tell: Callable[[str], None] | None = None,
        note: Callable[[Event | None], None] = lambda event: None,
    ) -> None:
        self._note = note
        self._mailbox, self._seats, self._identity = mailbox, seats, identity
        self._patience, self._stop, self._tell = patience, stop, tell
        self._stops = AbortNotices(mailbox, seats)
        self._heard: dict[str, tuple[str, str]] = {}  # what one said for all since the last sum: by whom, its SHA-256
        self.stage = BEFORE
        self.present = tuple(party.name for party in seats.parties)
        self._until: dict[str, int] = {}  # the last stage that each who was lost had a part in

    @property
    def noise_share(self) -> float:
        """Which part of a noise's standard deviation each holder adds (D1)."""
        return noise_share_of_holder(len(self._seats.parties), self._seats.tolerate)

    @property
    def noise_factor(self) -> float:
        """How many times the standard deviation that was asked for the shares of those who are here come to."""
        return noise_factor_of_present_holders(len(self.present), len(self._seats.parties), self._seats.tolerate)

    def begin(self, event: Event | None = None) -> None:
        """Note that this session begins: before the first key of noise, and before the first sum (B3)."""
        self._note(event)

    def total(self, arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The sums over all who are here; whoever is not in one is out of all later ones.

        They are taken only with those who heard the same figures since the last sum (B10 of
        docs/proofs/secure-sums.md).
        """
        self.begin()
        self.stage += 1
        numbers = np.concatenate([np.asarray(array, dtype=np.int64).ravel() for array in arrays])
        about = self._mailbox, self._seats, self._identity, self.stage, self.present, numbers, self._patience
        whom = Whom(self._tell, f"sum {self.stage} of the room")
        total = secure_sum(*about, stop=self._stop, heard=self._heard, watch=lambda own: whom(own.missing))
        self._heard = {}
        left = sorted(set(self.present) - set(total.present))
        for name in left:
            self._until[name] = self.stage - 1
        self.present = tuple(sorted(total.present))
        why = [Cause(name, STOPPED if name in self.stopped(left) else SILENT) for name in left]
        self._check_present(why)
        if left:
            count = f"{len(self.present)} of {len(self._seats.parties)}"
            out = f"{holder_names_text(left)} {'is' if len(left) == 1 else 'are'} left out"
            self.tell(f"going on with {count}: {out} ({causes_text(why)})")
        ends = np.cumsum([array.size for array in arrays])
        parts = np.split(total.values, ends[:-1])
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def _check_present(self, why: Sequence[Cause]) -> None:
        """Go on only with enough noise, of which this holder's is a part (D6)."""
        name, seats = self._identity.party.name, self._seats
        if name not in self.present:
            raise RoomError(f"the others have gone on without {name}, in sum {self.stage} of the room; open a new room")
        if len(seats.parties) - len(self.present) > seats.most_lost:
            causes = first_causes([*why, *(Cause(name, LEFT) for name in sorted(self._until))])
            raise RoomError(
                f"{causes_text(causes)}, and {bearable_loss_text(seats.most_lost)}; open a new room",
                causes,
            )

    def agreed(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
        """What the first holder here computes; the next one does, if it has not come after `patience` seconds.

        What another sent must have the form that it has here, and a size that it might have: no promise depends on its
        numbers, but all that follows is computed by them. `read` makes of them what is needed, and may refuse them.
        """
        mine = compute()
        message = self.said(AGREED, lambda: _pack_message(mine))
        theirs = message.arrays["value"].tolist() if "value" in message.arrays else message.body.get("value")
        if not _messages_have_one_form(mine, theirs):
            raise wrong_message_error(
                f"{message.sender} sent figures of another form than they have here, in stage {self.stage} of the "
                "room; all need the same version of radoboost: open a new room",
                message.sender,
            )
        if message.sender != self._identity.party.name:
            _refuse_oversized_figures(mine, theirs, message.sender, self.stage)
        try:
            return read(theirs)
        except Exception:
            if message.sender == self._identity.party.name:
                raise  # it is this holder's own fault
            raise wrong_message_error(
                f"{message.sender} sent figures that cannot be used, in stage {self.stage} of the room, which nobody "
                f"does who computes them: open a new room, without {message.sender}",
                message.sender,
            ) from None

    def said(self, kind: str, say: Callable[[], tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]]) -> Message:
        """What one holder says for all: the first of those here, or whoever comes after, if it stays silent or stopped.

        All sums that follow are bound to it (B10).
        """
        self.stage += 1
        place = message_place(self.stage, kind)
        content = self._spoken(place)
        if not content:
            body, arrays = say()
            self._mailbox.put(
                place, sign_message(self._identity, self._seats.agreement, self.stage, kind, body, arrays)
            )
            content = self._mailbox.get(place)  # another may have been first
        if content is None:
            raise RoomError(f"{self._mailbox.name} has lost the message {place}; open a new room elsewhere")
        message = verify_message(content, place, self._seats)
        if message.sender not in self.present:
            line = f"{message.sender} is no longer in the room, and spoke for all ({place}); open a new room"
            raise wrong_message_error(line, message.sender)
        self._heard[place] = (message.sender, message.digest.hex())
        return message

    def _spoken(self, place: str) -> bytes | None:
        """What one of those before this holder has said for all; nothing once it is this holder's turn to speak."""
        before = self.present[: self.present.index(self._identity.party.name)]
        whom, began = Whom(self._tell, f"stage {self.stage} of the room"), time.monotonic()

        def look() -> bytes | None:
            content = self._mailbox.get(place)
            silent = [name for name in before if name not in self.stopped(before)]
            if content is None and time.monotonic() - began >= self._patience * len(silent):
                return b""
            whom(silent[:1])
            return content

        return wait_for_message(look, inf, self._stop)

    def stopped(self, names: Sequence[str]) -> set[str]:
        return self._stops.among(names)

    def causes(self, names: Sequence[str], late: int) -> tuple[Cause, ...]:
        """Why nothing comes from these: who stopped, and because of whom; who was late since then."""
        stopped = self.stopped(names)
        silent = [Cause(name, SILENT, late) for name in names if name not in stopped]

        def judge(cause: Cause, by: str) -> Cause | None:
            return cause if cause.what == SILENT and cause.name in names and cause.name not in stopped else None

        return first_causes([*silent, *self._stops.causes(sorted(stopped), judge)])

    def tell(self, line: str) -> None:
        if self._tell is not None:
            self._tell(line)

    def waiting_in(self, what: str) -> Whom:
        """What says for whom this holder waits, and with `what` they are late."""
        return Whom(self._tell, what)

    def waited(self, look: Callable[[], T | None]) -> T | None:
        """What `look` finds, as soon as it does; None if patience runs out before."""
        return wait_for_message(look, self._patience, self._stop)

    def gathering(self) -> RoomParticipation:
        parts = tuple(
            {"name": party.name, "fingerprint": party.fingerprint, "until": self._until.get(party.name)}
            for party in self._seats.parties
        )
        seats = self._seats
        return RoomParticipation(
            len(seats.parties), seats.tolerate, seats.opening, len(self.present), parts, seats.needs_all
        )


# ---- figures of one holder, for all


def _pack_message(value: Any) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
    """JSON data as a message: rows of floats as arrays, which are shorter."""
    numbers = np.array(value) if isinstance(value, list) and _are_rows_of_floats(value) else None
    if numbers is not None and numbers.dtype == np.float64 and numbers.size:
        return {}, {"value": numbers}
    return {"value": value}, {}


def _are_rows_of_floats(value: list[Any]) -> bool:
    """Whether a list holds floats, or lists of one length that do."""
    if all(isinstance(one, float) for one in value):
        return True
    return (
        all(isinstance(one, list) and _are_rows_of_floats(one) for one in value)
        and len({len(one) for one in value}) == 1
    )


def _refuse_oversized_figures(mine: Any, theirs: Any, sender: str, stage: int) -> None:
    """Refuse figures far larger than any that follow from the same totals here: what is computed by them may fail."""
    most = _ODDS * max([1.0, *map(abs, _numbers_in_message(mine))])
    largest = max([0.0, *map(abs, _numbers_in_message(theirs))])
    if not largest <= most:
        raise wrong_message_error(
            f"absurd figures came from {sender}, in stage {stage} of the room: up to {largest:.3g}, where "
            f"{most / _ODDS:.3g} is the largest here; nobody sends such who computes them: open a new room, without "
            "this holder",
            sender,
        )


def _numbers_in_message(value: Any) -> Iterator[float]:
    """All numbers in data."""
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _numbers_in_message(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _messages_have_one_form(mine: Any, theirs: Any) -> bool:
    """Whether data have one form: finite numbers for numbers, the same texts, as many parts of the same names."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_messages_have_one_form(mine[name], theirs[name]) for name in mine)
    if isinstance(mine, list | tuple) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(_messages_have_one_form, mine, theirs))
    if isinstance(mine, bool | str) or isinstance(theirs, bool | str):
        return bool(mine == theirs)
    if mine is None or theirs is None:  # where nothing was found, by a count that another machine may round otherwise
        return all(one is None or isinstance(one, int) for one in (mine, theirs))
    return type(mine) is type(theirs) and bool(np.isfinite(theirs))
