"""How far a room is, and for whom it waits, in words."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from radoboost.errors import RadoError, RoomError

if TYPE_CHECKING:
    from radoboost.holder.room.agreement import Agreement
    from radoboost.holder.room.mailbox import Mailbox
    from radoboost.holder.room.sitting import Adding

_SILENCE = 3.0  # seconds before a line says for whom a sum waits


def laid_agreement(agreement: "Agreement", place: str, trust_network: bool) -> str:
    """Open a room with an agreement that was checked; where it is."""
    from radoboost.holder.room.agreement import PLACE
    from radoboost.holder.room.mailbox import mailbox_at

    box = mailbox_at(place, make=True, trust_network=trust_network)
    if not box.put(PLACE, agreement.to_bytes()):
        raise RoomError(f"there is a room at {box.name} already, and each has one agreement; name another with -o")
    return box.name


def telling(tell: Callable[[str], None] | None) -> "Adding":
    """A secure sum that says for whom it waits, if that takes long."""
    from radoboost.holder.room.secure_sums import Total, secure_sum

    def add(mailbox: Any, seats: Any, identity: Any, stage: int, present: Any, *rest: Any, **options: Any) -> Total:
        def look() -> None:
            late = late_in(mailbox, stage, present)
            if tell is not None and late:
                tell(f"rado: waiting for {', '.join(late)}, in sum {stage} of the room")

        timer = threading.Timer(_SILENCE, look)
        timer.daemon = True
        timer.start()
        try:
            return secure_sum(mailbox, seats, identity, stage, present, *rest, **options)
        finally:
            timer.cancel()

    return add


def late_in(mailbox: "Mailbox", stage: int, present: Sequence[str]) -> list[str]:
    """Who has not sent what the others have, in the last round of a stage that somebody has begun.

    >>> from radoboost.holder.room.mailbox import MemoryMailbox
    >>> box = MemoryMailbox()
    >>> [box.put(f"0003/{name}", b"") for name in ("keys/east", "keys/north", "masked/east")]
    [True, True, True]
    >>> late_in(box, 3, ["east", "north", "west"])
    ['north', 'west']
    """
    from radoboost.holder.room.secure_sums import ROUNDS

    try:
        sent = mailbox.names(f"{stage:04d}/")
    except RadoError:
        return []  # whoever waits will meet it too
    for kind in reversed(ROUNDS):
        senders = {name.rpartition("/")[2] for name in sent if name.split("/")[1] == kind}
        if senders:
            return [name for name in present if name not in senders]
    return list(present)


def room_state(room: str, trust_network: bool) -> dict[str, Any]:
    """What is agreed on in a room, who is there, and how far it is, as JSON data."""
    from radoboost.holder.room.agreement import PLACE, read_agreement
    from radoboost.holder.room.mailbox import mailbox_at
    from radoboost.holder.room.outcome import RELEASE, SIGNED
    from radoboost.holder.room.seating import BEFORE, READY, code_of, ready_rosters, seated, who_greeted

    box = mailbox_at(room, trust_network=trust_network)
    agreement = read_agreement(box.get(PLACE), box.name)
    rosters = [seats for seats, ready in ready_rosters(box, agreement) if len(ready) == agreement.parties]
    parties = list(rosters[0].parties) if len(rosters) == 1 else who_greeted(box, agreement)
    complete = len(parties) == agreement.parties
    names = [name.split("/") for name in box.names("") if name.count("/") == 2 and name[:4].isdecimal()]

    def sent(kind: str) -> list[str]:
        return sorted(place[2] for place in names if place[1] == kind)

    stages = [int(place[0]) for place in names]
    return {
        "room": box.name,
        "agreement": json.loads(agreement.to_bytes()),
        "in_words": agreement.in_words(),
        "parties": [{"name": party.name, "fingerprint": party.fingerprint} for party in parties],
        "missing": agreement.parties - len(parties),
        "code": code_of(seated(agreement, parties)) if complete else None,
        "ready": sorted(place[2] for place in names if place[:2] == [f"{BEFORE:04d}", READY]),
        "stage": max(stages, default=BEFORE),
        "released": bool(sent(RELEASE)),
        "signed": sent(SIGNED),
    }


def state_in_words(state: dict[str, Any]) -> list[str]:
    """The state of a room as lines."""
    lines = [f"room         {state['room']}", *(f"             {line}" for line in state["in_words"])]
    for party in state["parties"]:
        ready = "ready" if party["name"] in state["ready"] else "has not confirmed the code"
        lines.append(f"  {party['name']}  {party['fingerprint']}  {ready}")
    if state["missing"]:
        return [*lines, f"waiting for {state['missing']} more; each joins with: rado room join ROOM TABLE --as NAME"]
    lines.append(f"code         {state['code']}")
    if state["released"]:
        signed = ", ".join(state["signed"]) or "nobody yet"
        return [*lines, f"released     signed by {signed}; fetch it with: rado room close {state['room']}"]
    return [*lines, f"at work      stage {state['stage']}" if state["stage"] else "waiting until all confirm the code"]
