"""What a statement says of a release that several holders made in a room: against whom, and who is trusted with what.

Proof: docs/proofs/shared-noise.md, steps D1 to D9, on what noise by shares is worth; and docs/proofs/secure-sums.md, on
what holders and the mailbox see.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from radoboost.holder.mechanisms.contract import Gathering, Secrets
from radoboost.privacy import Event
from radoboost.release.holders import ROOM, Holders, room_figures

if TYPE_CHECKING:
    from radoboost.release import Statement

_TRUST = (
    "a room of {holders} holders: each sees its own table alone. Sums come together under masks, so that neither other "
    "holders nor the mailbox see those of any one of them, as long as fewer than {many} put together what they know; "
    "every holder sees all totals. {keys}Masks are by X25519, ChaCha20 and Shamir's shares, and promises hold against "
    "adversaries who cannot break these"
)
_SHARES = "Each holder adds a share of the noise, by a key of its own. "
_COINS = "Each holder draws the coins of its own rows, by a key of its own. "
_NONSENSE = (
    "Nobody checks what a holder sends: one who sends nonsense spoils the release, and cannot be told from one with an "
    "odd table."
)
_OWN_COINS = (
    "A holder knows the coins of its own rows, and can take its own part away. Anyone who knows another's coins must "
    "not see the release: with them its rows can be solved for."
)
_OF_A_QUERY = (
    "Where a holder's table is the answer to a query, or a stream, a record is a row of that: if one record of what "
    "was asked can change other rows, nothing is promised about it."
)
_SOME_EXACT = ". Some sums have no noise, for they do not depend on what is protected"
_ALL_EXACT = ". No sum has noise, and nothing is protected"
_EXACT = (
    ": they are exact, over all holders of the room, which therefore needs every one of them to the end. Exact sums "
    "over different sets of holders reveal, by subtraction, those of a holder that is in one set only: so no holder "
    "should be in a second room of this kind with other members, and each holder's own program refuses that unless it is told otherwise. All other holders together "
    "learn these exact sums of the one that is left"
)
_WHO = "Who the holders are, and when each of them was in the room."


def in_room(statement: "Statement", event: Event, gathering: Gathering, secrets: Secrets) -> "Statement":
    """A statement for a release of a room; its own epsilon is against as many colluders as are still borne (D6)."""
    holders, tolerate, present = gathering.holders, gathering.tolerate, gathering.present
    exact = (_ALL_EXACT if math.isinf(statement.epsilon) else _SOME_EXACT) + _EXACT
    colluders = tolerate - (holders - present)
    finite = not math.isinf(statement.epsilon)
    figures = room_figures(event, holders, tolerate, present, statement.delta) if finite else ()
    keys = (_COINS if secrets.coins else "") + (_SHARES if secrets.sum_noise else "")
    promises, exposed = list(statement.promises), list(statement.not_protected)
    if finite:
        promises.append(_against(gathering, colluders))
        exposed.insert(0, _OF_A_QUERY)
    exposed += [_WHO, _NONSENSE, *([_OWN_COINS] if secrets.coins else [])]
    return replace(
        statement,
        promises=tuple(promises),
        not_protected=tuple(exposed),
        trust_model=_TRUST.format(holders=holders, many=gathering.opening, keys=keys)
        + (exact if gathering.needs_all else ""),
        holders=Holders(ROOM, gathering.parts, figures),
    )


def _against(gathering: Gathering, colluders: int) -> str:
    lost = gathering.holders - gathering.present
    were = f"{lost} of the {gathering.holders} holders {'was' if lost == 1 else 'were'} lost on the way, so that this"
    if colluders:
        whom = "any one of the holders" if colluders == 1 else f"any {colluders} of the holders together"
        return (
            f"{were if lost else 'This'} holds against anyone outside the room, and against {whom}, who know their own "
            "shares of the noise. Against more of them see the figures for holders."
        )
    return (
        f"{were} holds against anyone outside the room. A holder knows its own share of the noise: against that see "
        "the figures for holders."
    )
