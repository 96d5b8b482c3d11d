"""What a release or a model of several holders says about them: who made which part, and what is promised to whom.

A statement's epsilon speaks of one case. Where several holders are at work there are others: a person at two of them,
or holders who put together what they know. Each is a `PartyGuarantee` with an event of its own, from which it can be
computed anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.privacy import Event, NotPrivate, epsilon_at, event_from_dict, event_to_dict, group_event, group_words
from radoboost.privacy.calibration import event_against_colluders

MERGED, AVERAGED, ROOM, JOINED = "merged", "averaged", "room", "joined"
ONE_TABLE = "one table"  # several releases of one holder, averaged
SHARED, ENCRYPTED = "shared", "encrypted"  # rows went in two shares, or encrypted, to those who crafted
AT_SEVERAL = "one who is at "
AT_TWO = AT_SEVERAL + "two of the holders"
AT_ONE = " at one holder"  # where a promise about persons holds, if there are several holders
WAYS = (MERGED, AVERAGED, ONE_TABLE, ROOM, JOINED, SHARED, ENCRYPTED)


@dataclass(frozen=True)
class PartyGuarantee:
    """An epsilon for a case besides that of the statement: `case` says which, in words that follow "for" or "against".

    Neighbours differ by `size` of what the event's relation names: by two records, for one who is at two holders.
    """

    case: str
    event: Event
    epsilon: float
    delta: float
    size: int = 1

    @classmethod
    def of(cls, case: str, event: Event, delta: float, size: int = 1) -> "PartyGuarantee":
        """The figure of an event, which is about so many records together."""
        return cls(case, event, epsilon_at(event, delta), delta, size)

    @property
    def neighbours(self) -> str | None:
        return None if self.event.relation is None else group_words(self.event.relation, self.size)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data; JSON has no infinity, so an infinite epsilon is the word."""
        return {
            "case": self.case,
            "neighbours": self.neighbours,
            **({} if self.size == 1 else {"size": self.size}),
            "epsilon": "infinite" if self.epsilon == float("inf") else self.epsilon,
            "delta": self.delta,
            "event": event_to_dict(self.event),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "PartyGuarantee":
        epsilon = float("inf") if entry["epsilon"] == "infinite" else float(entry["epsilon"])
        event, size = event_from_dict(entry["event"]), int(entry.get("size", 1))
        if size < 1:
            raise ValueError("a group has at least one record")
        return cls(str(entry["case"]), event, epsilon, float(entry["delta"]), size)


@dataclass(frozen=True)
class Parties:
    """How several holders made something: `how` is one of `WAYS`, `parts` describe what each gave, as data."""

    how: str
    parts: Sequence[Mapping[str, Any]]
    figures: Sequence[PartyGuarantee] = ()

    @property
    def fingerprints(self) -> frozenset[str]:
        """Those of the keys of all holders who were in rooms: a part is one of them, or the release of a room."""
        return frozenset(key for part in self.parts for key in _party_key_fingerprints(part))

    @property
    def count(self) -> int:
        """How many holders there are, as far as can be seen: one who was in two rooms counts once."""
        return len(self.fingerprints) + sum(not _party_key_fingerprints(part) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "how": self.how,
            "parts": [dict(part) for part in self.parts],
            "figures": [figure.to_dict() for figure in self.figures],
        }

    @classmethod
    def from_dict(cls, entry: Any) -> "Parties":
        """From a statement; refused where it is none that this version knows."""
        try:
            parts = tuple(dict(part) for part in entry["parts"])
            holders = cls(str(entry["how"]), parts, tuple(map(PartyGuarantee.from_dict, entry["figures"])))
        except (LookupError, TypeError, ValueError):
            raise ReleaseError("what the statement says about holders cannot be read; do not trust it") from None
        if holders.how not in WAYS:
            raise ReleaseError(f"the statement says that holders {holders.how!r}, which this version does not know")
        return holders


def room_party_guarantees(
    event: Event, holders: int, tolerate: int, present: int, delta: float
) -> tuple[PartyGuarantee, ...]:
    """Epsilons for cases that one holder does not have, by those who were in the sum that had the fewest (D6, D8).

    Stage by stage there may have been more. But the event is that of the plan which draws the most, so its stages are
    not those that took place; and who was lost when may be somebody's choice, by totals.
    """
    colluders = tolerate - (holders - present)

    def figure(case: str, honest: int) -> PartyGuarantee:
        return PartyGuarantee.of(case, event_against_colluders(event, honest, holders, tolerate), delta)

    figures = [figure("anyone outside the room", present)]
    if colluders:
        whom = "any one of the holders" if colluders == 1 else f"any {colluders} of the holders together"
        figures.append(figure(whom, holders - tolerate))
    else:
        figures.append(figure("any one of the holders", present - 1))
    figures.append(figure("all other holders together", 1))
    assert event.relation is not None
    for size, where in ((2, "two holders"), (holders, f"all {holders} holders")):
        try:
            at_all = group_event(event, size)
        except ArgumentError as error:  # a group beyond what is accounted for
            at_all = NotPrivate(str(error), event.relation)
        figures.append(PartyGuarantee.of(f"a person with records at {where}", at_all, delta, size))
    return tuple(figures)


def _party_key_fingerprints(part: Mapping[str, Any]) -> list[str]:
    several = part.get("holders", ())
    named = [part.get("fingerprint"), *(several if isinstance(several, list | tuple) else ())]
    return [key for key in named if isinstance(key, str) and key]


def party_sentences(sentences: Iterable[str]) -> str:
    """What the statements of several say, each thing once."""
    return "; or ".join(dict.fromkeys(sentences))
