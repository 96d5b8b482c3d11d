"""One sum over all holders of a room, of which nobody sees more than the total.

After Bonawitz et al. (2017), over the integers modulo 2**64. Each holder adds to its numbers a pad of its own and, for
each other holder, a pad that the two share, one with a plus and the other with a minus. The total of what all sent is
then the total of the numbers and of the own pads. The seeds of the own pads come back from shares, held by all; so do
the keys of the shared pads of a holder who was lost before it sent its numbers. Nobody gives shares of both kinds of
one holder, for these would open its numbers.

A holder sends five messages: keys, shares, masked, confirm, unmask. Keys come with the SHA-256 of what one has said for
all since the last sum, so that only those who go by the same figures take a sum together (B10). After each of the first
three a list of those who are in, with the SHA-256 of what they sent, is made by the first of them. Every message names
the list that it goes by, so whoever was shown another list, or another message, is found out; and a holder unmasks only
when as many as the threshold have confirmed the same last list, of which there can be only one (B4 of
docs/proofs/secure-sums.md, which has all steps that are cited here). Whoever says that it stops is not waited for.

There is no server that computes: every holder reads the mailbox, and computes the total itself.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import RoomError
from radoboost.holder.rooms.abort_causes import (
    LEFT,
    SILENT,
    Cause,
    bearable_loss_text,
    causes_text,
    first_causes,
    wrong_message_error,
)
from radoboost.holder.rooms.abort_notices import SILENCE, AbortNotices
from radoboost.holder.rooms.mailbox import Mailbox
from radoboost.holder.rooms.masking import session_of_sum
from radoboost.holder.rooms.roster import Roster
from radoboost.holder.rooms.signed_messages import (
    MOST_BYTES,
    Identity,
    Message,
    message_place,
    sign_message,
    verify_message,
)
from radoboost.holder.rooms.sum_secrets import BOX_BYTES, SHARE_BYTES, PublicKeys, SumSecrets, unmask_total

KEYS, SHARES, MASKED, CONFIRM, UNMASK = ROUNDS = ("keys", "shares", "masked", "confirm", "unmask")
Heard = Mapping[str, tuple[str, str]]  # what one has said for all, by its place: the sender, and the SHA-256
LISTED = ROUNDS[:3]  # those that a list ends
_SLACK = 8192  # bytes of a message besides its numbers


@dataclass(frozen=True)
class SecureTotal:
    """The sum, exact in two's complement, and the names of those whose numbers are in it."""

    values: NDArray[np.int64]
    present: tuple[str, ...]


def secure_sum(
    mailbox: Mailbox,
    seats: Roster,
    identity: Identity,
    stage: int,
    present: Collection[str],
    values: NDArray[np.int64],
    patience: float = 120.0,
    poll: float = 0.01,
    stop: threading.Event | None = None,
    heard: Heard | None = None,
    watch: "Callable[[SecureSum], None] | None" = None,
) -> SecureTotal:
    """Take part in a sum, until it is there; a `RoomError` names the holder for whom it had to stop.

    `patience` is how many seconds to wait in each round for those who are late, before the sum goes on without them.
    The mailbox is looked into every `poll` seconds, and less often, up to ten times as long, where nothing happens.
    Setting `stop` ends it. `watch` is called as often as the mailbox is looked into.
    """
    own = SecureSum(mailbox, seats, identity, stage, present, values, patience, heard)
    pause, seen = poll, -1
    while True:
        total = own.step(time.monotonic())
        if total is not None:
            return total
        if watch is not None:
            watch(own)
        pause = poll if own.events != seen else min(1.5 * pause, 10 * poll)
        seen = own.events
        if stop is None:
            time.sleep(pause)
        elif stop.wait(pause):
            raise RoomError(f"{identity.party.name} was told to stop, in sum {stage} of the room")


class SecureSum:
    """One holder's side of one sum. It never waits: call `step` again and again, with the time in seconds.

    `present` are those who are still in the room. The numbers must have their share of the noise already. `stage` is
    the number of the sum in its room; none is used twice (B3). `heard` is what one has said for all since the last sum,
    which must be the same for all (B10). `events` counts what has happened, for whoever polls.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        seats: Roster,
        identity: Identity,
        stage: int,
        present: Collection[str],
        values: NDArray[np.int64],
        patience: float = 120.0,
        heard: Heard | None = None,
    ) -> None:
        self._mailbox, self._seats, self._identity, self._stage = mailbox, seats, identity, stage
        self._name, self._patience = identity.party.name, patience
        self._least = len(seats.parties) - seats.most_lost
        if seats.party(self._name) != identity.party:
            raise RoomError(
                f"the key of {self._name} is not the one that the agreement names: use the identity of then"
            )
        names = sorted(set(present))
        for name in names:
            seats.party(name)
        if self._name not in names:
            raise RoomError(f"{self._name} is no longer in the room: it was lost in an earlier sum; open a new room")
        if len(names) < self._least:
            lost = [party.name for party in seats.parties if party.name not in names]
            raise RoomError(
                f"too many have left the room ({', '.join(lost)}): {self._least} are needed; open a new room",
                [Cause(name, LEFT) for name in lost],
            )
        if values.dtype != np.int64 or values.ndim != 1 or values.nbytes > MOST_BYTES - _SLACK:
            raise RoomError(f"a sum is over one row of at most {(MOST_BYTES - _SLACK) // 8:,} int64 numbers")
        identity.begin(seats.agreement, stage)
        self._numbers = values.view(np.uint64).copy()
        self._secrets: SumSecrets | None = SumSecrets(seats, stage, self._name)
        self._keys: dict[str, PublicKeys] = {}
        self._members = {KEYS: tuple(names)}  # who is expected in each round
        self._messages: dict[str, dict[str, Message]] = {kind: {} for kind in ROUNDS}
        self._heard = {place: list(what) for place, what in sorted((heard or {}).items())}
        self._stops, self._stopped = AbortNotices(mailbox, seats), set[str]()
        self._round, self._since = "", 0.0
        self._after = session_of_sum(seats.agreement, stage).hex()  # then the SHA-256 of the last list
        self._list: Message | None = None  # the list of this round, once it is there
        self._maker = ""  # who signed the last list that was followed
        self._has_listed = False
        self._outcome: SecureTotal | RoomError | None = None
        self.events = 0

    def step(self, now: float) -> SecureTotal | None:
        """Do all that can be done now; the total once it is there. After a `RoomError` the sum is over."""
        try:
            while self._outcome is None and self._advanced(now):
                self.events += 1
        except RoomError as error:
            self._outcome, self._secrets = error, None
        except BaseException:
            why = (
                f"sum {self._stage} of the room ended with an error at {self._name}, and cannot go on; open a new room"
            )
            self._outcome, self._secrets = RoomError(why), None
            raise
        if isinstance(self._outcome, RoomError):
            raise self._outcome
        return self._outcome

    def _advanced(self, now: float) -> bool:
        """Take the next step, if it can be taken by now."""
        if not self._round:
            self._check_unused()
            self._begin(KEYS, {**self._own_secrets.keys(), "heard": self._heard}, {}, now)
            return True
        self._stopped = self._stops.among(self._members[KEYS])  # first: whoever stops has sent its last before that
        self._gather()
        if self._round in (CONFIRM, UNMASK):
            return self._answered(now)
        if self._list is None:
            return self._listed(now)
        present = self._followed(now)
        if present is None:
            return False
        self._after, self._maker = self._list.digest.hex(), self._list.sender
        self._list, self._has_listed = None, False
        self._next_round(present, now)
        return True

    def _check_unused(self) -> None:
        """Refuse a stage in which messages of this holder lie already (B3)."""
        there = set(self._mailbox.names(f"{self._stage:04d}/"))
        for kind in ROUNDS:
            if (place := message_place(self._stage, kind, self._name)) in there:
                raise self._taken(place)

    def _taken(self, place: str) -> RoomError:
        return wrong_message_error(
            f"a message of {self._name} is already there ({place}): a holder who was started anew cannot come back "
            "into a room, and nobody writes for another; open a new room",
            self._name,
        )

    def _begin(self, kind: str, body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], now: float) -> None:
        """Send this holder's message of a round, and wait for those of the others."""
        body = {**body, "after": self._after}
        content = sign_message(self._identity, self._seats.agreement, self._stage, kind, body, arrays)
        place = message_place(self._stage, kind, self._name)
        if not self._mailbox.put(place, content):
            raise self._taken(place)
        self._round, self._since = kind, now

    def _gather(self) -> None:
        """Read what has come in this round, each message once; whatever is not right stops the sum."""
        seen, there = self._messages[self._round], set(self._mailbox.names(f"{self._stage:04d}/{self._round}/"))
        for name in self._members[self._round]:
            place = message_place(self._stage, self._round, name)
            content = self._mailbox.get(place) if place in there and name not in seen else None
            if content is None:
                continue
            message = verify_message(content, place, self._seats, self._most_bytes())
            if message.body.get("after") != self._after:
                maker = f", or {self._maker}, who made the list," if self._maker else ""
                raise wrong_message_error(
                    f"{name} was shown another list than {self._name} before its message {place}: the mailbox{maker} "
                    "shows different things to different holders; open a new room",
                    self._maker or name,
                )
            self._check_form(message, place)
            seen[name] = message
            self.events += 1

    def _most_bytes(self) -> int:
        number, n_parties = len(self._numbers), len(self._seats.parties)
        sizes = {SHARES: BOX_BYTES * n_parties, MASKED: 8 * number, UNMASK: SHARE_BYTES * n_parties}
        return _SLACK + sizes.get(self._round, 0)

    def _check_form(self, message: Message, place: str) -> None:
        """Refuse a message whose arrays are not those of its round."""
        forms: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
            SHARES: {"boxes": ("|u1", (len(self._members[self._round]) - 1, BOX_BYTES))},
            MASKED: {"numbers": ("<u8", (len(self._numbers),))},
            UNMASK: {"shares": ("|u1", (len(self._members.get(MASKED, ())), SHARE_BYTES))},
        }
        form = {name: (array.dtype.str, array.shape) for name, array in message.arrays.items()}
        if form != forms.get(self._round, {}):
            raise wrong_message_error(
                f"{message.sender} sent other numbers than {self._name} expects ({place}): they may have other "
                "columns, or another version; compare them, and open a new room",
                message.sender,
            )
        if self._round == KEYS:
            self._check_heard(message)
            try:
                self._keys[message.sender] = PublicKeys.from_body(message.body)
            except ValueError:
                line = f"the keys of {message.sender} ({place}) cannot be read; open a new room"
                raise wrong_message_error(line, message.sender) from None

    def _check_heard(self, message: Message) -> None:
        """Refuse a sum with one who goes by other figures; named are those who signed them (B10)."""
        theirs, mine = message.body.get("heard"), self._heard
        if theirs == mine:
            return
        theirs = theirs if isinstance(theirs, dict) else {}
        place = next((place for place in sorted({*mine, *theirs}) if theirs.get(place) != mine.get(place)), "")
        signers = [what[0] for what in (mine.get(place), theirs.get(place)) if isinstance(what, list) and what]
        who = [party.name for party in self._seats.parties if party.name in signers] or [message.sender]
        raise wrong_message_error(
            f"{message.sender} goes by other figures than {self._name}{f' ({place})' if place in mine else ''}: "
            f"{' and '.join(who)} spread different ones, or the mailbox shows different things to different holders; "
            "open a new room",
            *who,
        )

    def _listed(self, now: float) -> bool:
        """Read the list of this round, or make it, where it is this holder's turn."""
        place, members = message_place(self._stage, f"{self._round}-list"), self._members[self._round]
        content = self._mailbox.get(place)
        if content is not None:
            self._list, self._since = self._read_list(content, place), now
            return True
        seen = sorted(self._messages[self._round])
        missing = [name for name in members if name not in seen]
        late = [name for name in missing if name not in self._stopped]
        makers = [name for name in seen if name not in self._stopped]
        turn = makers.index(self._name) if self._name in makers else len(makers)
        waited = now - self._since
        patient = waited < self._patience * (1 + min(turn, 1))
        if len(seen) + len(late) * patient < self._least:
            return self._ended([name for name in missing if name in self._stopped or not patient], now)
        if waited >= self._patience * (3 + self._seats.most_lost):
            silent = [Cause(name, SILENT, self._silent_since(now)) for name in seen if name != self._name]
            raise RoomError(
                f"nobody made a list of who is in ({place}): {causes_text(silent)}; open a new room", silent
            )
        if self._has_listed or self._name not in seen or waited < self._patience * (turn + bool(late)):
            return False
        present = {name: message.digest.hex() for name, message in self._messages[self._round].items()}
        body = {"after": self._after, "in": present}
        content = sign_message(self._identity, self._seats.agreement, self._stage, f"{self._round}-list", body)
        put = self._mailbox.put(place, content)  # whoever is first; all go by what then lies there
        self._has_listed = put or self._mailbox.get(place) is not None  # or whoever was first died before it was there
        return self._has_listed

    def _read_list(self, content: bytes, place: str) -> Message:
        """The list that lies there; of one that is not right, whose turn it was to make it is said: it has no name."""
        members = self._members[self._round]
        try:
            return verify_message(content, place, self._seats, _SLACK + 256 * len(members))
        except RoomError as error:
            self._stops.among(members)
            first = next((name for name in members if not self._stops.by_itself(name)), members[0])
            line = f"{error}; it was for {first} to make this list, before all others"
            raise wrong_message_error(line, *[cause.name for cause in error.causes] or [first]) from None

    def _followed(self, now: float) -> tuple[str, ...] | None:
        """Those who are in by the list, once all they have sent is here; a list that cannot be followed is refused."""
        assert self._list is not None, "a list is there"
        maker, present = self._list.sender, self._list.body.get("in")
        members, seen = self._members[self._round], self._messages[self._round]

        def refused(why: str) -> RoomError:
            return wrong_message_error(
                f"the list of {maker} ({self._stage:04d}/{self._round}-list) {why}; open a new room", maker
            )

        if not isinstance(present, dict) or self._list.body.get("after") != self._after:
            raise refused("goes by other lists than those that were shown here")
        strangers = [name for name in [maker, *present] if name not in members]
        if strangers or maker not in present:
            raise refused(f"names {', '.join(strangers or [maker])}, who cannot be in it")
        if len(present) < self._least:
            out = [name for name in members if name not in present]
            raise refused(f"leaves out {', '.join(out)}, so that too few are left: {self._least} are needed")
        if self._name not in present:
            late = refused(f"leaves {self._name} out, who was late, or whose message did not arrive")
            raise RoomError(str(late))  # the others go on: it alone stops
        for name, digest in present.items():
            if name in seen and seen[name].digest.hex() != digest:
                raise refused(f"has another message of {name} than the one that was shown here")
        missing = [name for name in present if name not in seen]
        if missing and now - self._since >= self._patience:
            raise refused(f"has messages of {', '.join(missing)} that were not shown here")
        return None if missing else tuple(sorted(present))

    def _ended(self, names: Collection[str], now: float) -> bool:
        """Too few are left, for these are missing: the first causes are named, and not who went because of them.

        Somebody who is said to be silent is given a moment, in which it may refute that.
        """
        causes = first_causes(
            [
                *(Cause(name, SILENT, self._silent_since(now)) for name in names if name not in self._stopped),
                *self._stops.causes([name for name in names if name in self._stopped], self._judged),
                *(Cause(party.name, LEFT) for party in self._seats.parties if party.name not in self._members[KEYS]),
            ]
        )
        hearsay = any(cause.what == SILENT and not cause.by and cause.name not in names for cause in causes)
        if hearsay and now - self._since < min(SILENCE, self._patience):
            return False
        raise RoomError(
            f"{causes_text(causes)}, in sum {self._stage} ({self._round}), and "
            f"{bearable_loss_text(self._seats.most_lost)}; ask them, and open a new room",
            causes,
        )

    def _judged(self, cause: Cause, by: str) -> Cause | None:
        """What another says of a holder, as far as it looks so from here."""
        if cause.name == self._name:
            return replace(cause, by=by)  # it did not hear of this holder
        if cause.what == LEFT:
            return cause if cause.name not in self._members[KEYS] else None
        missing = cause.name not in self._messages[self._round] and cause.name not in self._stopped
        return cause if cause.what == SILENT and missing else None

    def _silent_since(self, now: float) -> int:
        """Since when whoever is missing was waited for, on the clock of this machine."""
        return int(time.time() - (now - self._since))

    def _next_round(self, present: tuple[str, ...], now: float) -> None:
        """Send what follows on the list that ends this round."""
        secrets, members = self._own_secrets, self._members
        if self._round == KEYS:
            members[SHARES] = present
            self._begin(SHARES, {}, {"boxes": secrets.boxes(present, self._keys)}, now)
        elif self._round == SHARES:
            boxes = {name: self._messages[SHARES][name].arrays["boxes"] for name in present}
            secrets.open(members[SHARES], self._keys, boxes)
            members[MASKED] = present
            self._begin(MASKED, {}, {"numbers": secrets.masked(self._numbers, present, self._keys)}, now)
        else:
            members[CONFIRM] = members[UNMASK] = present
            self._begin(CONFIRM, {}, {}, now)

    def _answered(self, now: float) -> bool:
        """Go on as soon as enough have confirmed the last list, or have sent their answers (B4)."""
        seen, present = self._messages[self._round], self._members[UNMASK]
        if len(seen) < self._seats.threshold:
            missing = [name for name in present if name not in seen]
            stopped = [name for name in missing if name in self._stopped]
            patient = now - self._since < 2 * self._patience
            if not patient or len(present) - len(stopped) < self._seats.threshold:
                return self._ended([name for name in missing if name in stopped or not patient], now)
            return False
        if self._round == CONFIRM:
            answer = self._own_secrets.answer(self._members[MASKED], present)
            self._secrets = None
            self._begin(UNMASK, {}, {"shares": answer}, now)
            return True
        sent = {name: self._messages[MASKED][name].arrays["numbers"] for name in present}
        answers = {name: message.arrays["shares"] for name, message in seen.items()}
        values = unmask_total(self._seats, self._stage, self._keys, sent, answers, self._members[MASKED])
        self._outcome = SecureTotal(values, present)
        return True

    @property
    def _own_secrets(self) -> SumSecrets:
        assert self._secrets is not None, "secrets are there until the answer"
        return self._secrets

    @property
    def round(self) -> str:
        """The round that this holder is in: one of `ROUNDS`, or nothing before its first step."""
        return self._round

    @property
    def missing(self) -> tuple[str, ...]:
        """For whom everybody waits: whose message of this round has not come and still may; else who makes the list."""
        members, seen = self._members.get(self._round, ()), self._messages.get(self._round, {})
        stopped = self._stops.among(members)
        here = [name for name in members if name not in stopped]
        late = tuple(name for name in here if name not in seen)
        maker = here[:1] if self._round in LISTED and self._list is None else []
        return late or tuple(name for name in maker if name != self._name)

    def __repr__(self) -> str:
        return f"SecureSum({self._name!r}, stage {self._stage}, {self._round or 'not begun'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secure sum holds keys, and is not pickled")
