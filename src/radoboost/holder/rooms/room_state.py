"""How far a room is, by what lies in it: for whoever looks at it, and for whoever waits for its release."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_causes import LEFT, SILENT, STOPPED, UNCONFIRMED, Cause, as_text, named, once
from radoboost.holder.rooms.abort_notices import AbortNotices
from radoboost.holder.rooms.handshake import BEFORE
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.secure_aggregation import MASKED
from radoboost.holder.rooms.signed_messages import ANYBODY, verify_message
from radoboost.holder.rooms.signed_release import best_signed
from radoboost.holder.rooms.versions import differing


@dataclass(frozen=True)
class Standing:
    """A session of a room: who has confirmed its code, who has stopped, and why it had to end, if it did.

    `stopped` has whoever was the reason first. `left_out` are those who are not in the last sum. `signed` are those
    who signed the release, where there is one, and `is_released` says that they are enough.
    """

    seats: Roster
    ready: tuple[str, ...]
    stopped: tuple[str, ...]
    causes: tuple[Cause, ...]
    versions: str | None
    left_out: tuple[str, ...]
    stage: int
    signed: tuple[str, ...]
    is_released: bool

    @property
    def has_ended(self) -> bool:
        """Whether it is over without a release."""
        unready = set(self.stopped) - set(self.ready)
        return not self.is_released and (len(self.stopped) > self.seats.most_lost or bool(unready))

    def why(self) -> str:
        """Why it has ended, in a clause."""
        return self.versions or as_text(self.causes)

    def what_now(self) -> str:
        """What becomes of its release, and what to do, in a clause."""
        if self.is_released:
            return "fetch it with rado room close"
        if self.has_ended:
            again = "open a new room" if self.stage else "join again, all of you, or open a new room"
            return f"there will be none, for {self.why()}: {again}"
        missing = [party.name for party in self.seats.parties if party.name not in self.signed]
        if self.signed:
            return f"wait for {named(missing)}; a holder who was lost cannot sign, and then only a new room helps"
        return "its holders are still at work, or were cut off; see rado room show"


def standing_of(mailbox: Mailbox, seats: Roster, ready: Sequence[str] | None = None) -> Standing:
    """How far a session is; `ready` are those who have confirmed its code, all if it is None."""
    names = [party.name for party in seats.parties]
    ready = names if ready is None else ready
    stops = AbortNotices(mailbox, seats)
    stopped = stops.among(names)

    def judged(cause: Cause, by: str) -> Cause | None:
        """What one says of another, as it looks from outside."""
        if cause.what == UNCONFIRMED:
            return cause if cause.name not in ready else None
        return replace(cause, by=by) if cause.what == SILENT and cause.name in stopped else cause

    causes = once(
        [
            *(Cause(name, UNCONFIRMED) for name in names if stops.by_itself(name) and name not in ready),
            *(Cause(name, STOPPED) for name in names if stops.by_itself(name)),
            *stops.causes([name for name in names if name in stopped and not stops.by_itself(name)], judged),
        ]
    )
    first = [cause.name for cause in causes if cause.name in stopped]
    signed = best_signed(mailbox, seats)
    firsts = {place.partition("/")[0] for place in mailbox.names("")}
    return Standing(
        seats=seats,
        ready=tuple(sorted(ready)),
        stopped=(*first, *sorted(stopped - set(first))),
        causes=tuple(cause for cause in causes if cause.what != LEFT) or causes,
        versions=differing(seats.parties),
        left_out=_left_out(mailbox, seats),
        stage=max((int(first) for first in firsts if first.isdecimal()), default=BEFORE),
        signed=() if signed is None else signed.names,
        is_released=signed is not None and signed.enough,
    )


def _left_out(mailbox: Mailbox, seats: Roster) -> tuple[str, ...]:
    """Those whose numbers are in the last sum no longer, by the list that ends it."""
    for place in reversed(mailbox.names("")):
        if place.split("/")[1:] == [f"{MASKED}-list", ANYBODY]:
            with suppress(RoomError):
                present = verify_message(mailbox.get(place) or b"", place, seats).body.get("in")
                if isinstance(present, dict):
                    return tuple(party.name for party in seats.parties if party.name not in present)
    return ()
