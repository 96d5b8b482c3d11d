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
    from radoboost.holder.room.parties import Seats


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
    from radoboost.holder.room.seating import code_of, ready_rosters, seated, strays, who_greeted, who_has_gone
    from radoboost.holder.room.standing import standing_of
    from radoboost.holder.room.versions import differing

    box = mailbox_at(room, trust_network=trust_network)
    agreement = read_agreement(box.get(PLACE), box.name)
    all_ready = ready_rosters(box, agreement)
    rosters = [seats for seats, ready in all_ready if len(ready) == agreement.parties]
    seats = rosters[0] if len(rosters) == 1 else None
    if seats is None or _has_begun_again(box, agreement, seats):
        parties = who_greeted(box, agreement, lenient=True)
        seats = seated(agreement, parties) if len(parties) == agreement.parties else None
    else:
        parties = list(seats.parties)
    gone = [party.name for party in who_has_gone(box, agreement, parties)]
    state = {
        "room": box.name,
        "agreement": json.loads(agreement.to_bytes()),
        "in_words": agreement.in_words(),
        "parties": [{"name": party.name, "fingerprint": party.fingerprint} for party in parties],
        "missing": agreement.parties - len(parties),
        "gave_up": gone,
        "strays": strays(box, agreement),
        "versions": differing(parties),
        "code": None if seats is None else code_of(seats),
        "last_message": _when(_times(box)),
    }
    if seats is None:
        return {**state, **_NOTHING_YET}
    ready = sorted({name for roster, those in all_ready if roster.agreement == seats.agreement for name in those})
    standing = standing_of(box, seats, ready)
    return {
        **state,
        "ready": ready,
        "stopped": list(standing.stopped),
        "left_out": list(standing.left_out),
        "ended": standing.has_ended,
        "why": standing.why() if standing.has_ended else None,
        "stage": standing.stage,
        "released": standing.is_released,
        "signed": list(standing.signed),
        "signatures_needed": seats.threshold,
        "what_now": standing.what_now(),
    }


def _has_begun_again(box: "Mailbox", agreement: "Agreement", seats: "Seats") -> bool:
    """Whether holders of a session that ended before the first sum have joined once more."""
    from radoboost.holder.room.seating import joined_again
    from radoboost.holder.room.standing import standing_of

    standing = standing_of(box, seats)
    return standing.has_ended and not standing.stage and joined_again(box, agreement, seats)


_NOTHING_YET = {
    "ready": [], "stopped": [], "left_out": [], "ended": False, "why": None, "stage": 0, "released": False,
    "signed": [], "signatures_needed": None, "what_now": None,
}  # fmt: skip


def state_in_words(state: dict[str, Any]) -> list[str]:
    """The state of a room as lines."""
    lines = [f"room         {state['room']}", *(f"             {line}" for line in state["in_words"])]
    lines += [f"  {one['name']}  {one['fingerprint']}  {_stand_of(one['name'], state)}" for one in state["parties"]]
    lines += [f"stray        {place} is no greeting: take it out, or open a new room" for place in state["strays"]]
    if state["missing"] or (state["gave_up"] and not state["ready"] and not state["stopped"]):
        missing = state["missing"] + len(state["gave_up"])
        lines += [] if state["versions"] is None else [f"versions     {state['versions']}: install one at all"]
        return [*lines, f"waiting for {missing} more; each joins with: rado room join ROOM TABLE --as NAME"]
    lines.append(f"code         {state['code']}")
    signed = f"signed by {len(state['signed'])} of {len(state['parties'])}: {', '.join(state['signed']) or 'nobody'}"
    if state["released"]:
        return [*lines, f"released     {signed}; fetch it with: rado room close {state['room']}"]
    if state["signed"]:
        lines.append(f"not released {signed}; {state['signatures_needed']} must")
    last = "" if state["last_message"] is None else f"; the last message is of {state['last_message']}"
    if state["ended"]:
        return [
            *lines,
            f"ended        {state['why']}; there is no release: {state['what_now'].rpartition(': ')[2]}{last}",
        ]
    on = len(state["parties"]) - len(state["left_out"])
    without = f"; going on with {on} of {len(state['parties'])}" if state["left_out"] else ""
    stand = f"at work      stage {state['stage']}{without}" if state["stage"] else "waiting until all confirm the code"
    return [*lines, stand + last]


def _stand_of(name: str, state: dict[str, Any]) -> str:
    """How it stands with one holder."""
    if name in state["left_out"]:
        return "stopped, and is left out" if name in state["stopped"] else "is left out"
    if name in state["stopped"]:
        return "has stopped"
    if name in state["gave_up"]:
        return "gave up and left"
    return "ready" if name in state["ready"] else "has not confirmed the code"


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
