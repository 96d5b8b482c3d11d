"""How far a room is, in words."""

import json
import os
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from radoboost.errors import RoomError

if TYPE_CHECKING:
    from radoboost.holder.room.agreement import Agreement
    from radoboost.holder.room.mailbox import Mailbox


def laid_agreement(agreement: "Agreement", place: str, trust_network: bool, token: str = "") -> str:
    """Open a room with an agreement that was checked; where it is."""
    from radoboost.holder.room.agreement import PLACE
    from radoboost.holder.room.mailbox import mailbox_at

    box = mailbox_at(place, make=True, trust_network=trust_network, token=token)
    if not box.put(PLACE, agreement.to_bytes()):
        raise RoomError(f"there is a room at {box.name} already, and each has one agreement; name another with -o")
    return box.name


def room_state(room: str, trust_network: bool) -> dict[str, Any]:
    """What is agreed on in a room, who is there, and how far it is, as JSON data."""
    from radoboost.holder.room.agreement import PLACE, read_agreement
    from radoboost.holder.room.mailbox import mailbox_at
    from radoboost.holder.room.messages import place_of
    from radoboost.holder.room.outcome import RELEASE, SIGNED
    from radoboost.holder.room.seating import BEFORE, code_of, ready_rosters, seated, who_greeted
    from radoboost.holder.room.stops import ONCE, STOP, Stops

    box = mailbox_at(room, trust_network=trust_network)
    agreement = read_agreement(box.get(PLACE), box.name)
    all_ready = ready_rosters(box, agreement)
    rosters = [seats for seats, ready in all_ready if len(ready) == agreement.parties]
    parties = list(rosters[0].parties) if len(rosters) == 1 else who_greeted(box, agreement)
    seats = seated(agreement, parties) if len(parties) == agreement.parties else None
    if len(rosters) == 1:
        seats = rosters[0]
    names = [name.split("/") for name in box.names("") if name.count("/") == 2 and name[:4].isdecimal()]

    def sent(kind: str) -> list[str]:
        return sorted(place[2] for place in names if place[1] == kind)

    ready = sorted(
        {name for roster, those in all_ready if seats and roster.agreement == seats.agreement for name in those}
    )
    times = _times(box)
    stopped = [] if seats is None else sorted(Stops(box, seats).among([party.name for party in parties]))
    stopped.sort(key=lambda name: (name in ready, times.get(place_of(ONCE, STOP, name), 0.0)))  # who was the reason
    stages = [int(place[0]) for place in names]
    return {
        "room": box.name,
        "agreement": json.loads(agreement.to_bytes()),
        "in_words": agreement.in_words(),
        "parties": [{"name": party.name, "fingerprint": party.fingerprint} for party in parties],
        "missing": agreement.parties - len(parties),
        "code": None if seats is None else code_of(seats),
        "ready": ready,
        "stopped": stopped,
        "ended": seats is not None and (len(stopped) > seats.most_lost or not set(stopped) <= set(ready)),
        "last_message": _when(times),
        "stage": max(stages, default=BEFORE),
        "released": bool(sent(RELEASE)),
        "signed": sent(SIGNED),
    }


def state_in_words(state: dict[str, Any]) -> list[str]:
    """The state of a room as lines."""
    lines = [f"room         {state['room']}", *(f"             {line}" for line in state["in_words"])]
    for party in state["parties"]:
        ready = "ready" if party["name"] in state["ready"] else "has not confirmed the code"
        stand = "has stopped" if party["name"] in state["stopped"] else ready
        lines.append(f"  {party['name']}  {party['fingerprint']}  {stand}")
    if state["missing"]:
        return [*lines, f"waiting for {state['missing']} more; each joins with: rado room join ROOM TABLE --as NAME"]
    lines.append(f"code         {state['code']}")
    if state["released"]:
        signed = ", ".join(state["signed"]) or "nobody yet"
        return [*lines, f"released     signed by {signed}; fetch it with: rado room close {state['room']}"]
    last = "" if state["last_message"] is None else f"; the last message is of {state['last_message']}"
    if state["ended"]:
        first, *others = state["stopped"]
        why = "stopped" if first in state["ready"] else "did not confirm the code, and stopped"
        then = f", and then {', '.join(others)}" if others else ""
        return [*lines, f"ended        {first} {why}{then}; there is no release: open a new room{last}"]
    stand = f"at work      stage {state['stage']}" if state["stage"] else "waiting until all confirm the code"
    return [*lines, stand + last]


def _times(box: "Mailbox") -> dict[str, float]:
    """When each message came, where a folder tells."""
    times = {}
    for name in () if "://" in box.name else box.names(""):
        with suppress(OSError):
            times[name] = os.stat(os.path.join(box.name, name)).st_mtime
    return times


def _when(times: dict[str, float]) -> str | None:
    """The last of these times, for people."""
    return datetime.fromtimestamp(max(times.values())).astimezone().isoformat(" ", "seconds") if times else None
