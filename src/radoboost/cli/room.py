"""rado room: several holders make one release, and nobody sees another's sums."""

import json
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from radoboost.cli import options
from radoboost.cli.demo import rehearse
from radoboost.cli.ledger import LedgerOption, chosen_ledger
from radoboost.cli.options import argument, of_release, option, output_option
from radoboost.cli.room_server import serve
from radoboost.errors import ArgumentError, PersonWarning, RoomError
from radoboost.outputs import refuse_overwrite

if TYPE_CHECKING:
    from radoboost.holder.rooms.agreement import Agreement
    from radoboost.holder.rooms.mailbox import Mailbox
    from radoboost.holder.rooms.roster import Party, Roster
    from radoboost.release.release import Release


app = options.command_group("room", help="Make one release of several holders' tables: nobody sees another's sums.")

RoomArgument = Annotated[str, argument("ROOM", "A folder that all holders can write, or https://HOST:PORT/ROOM.")]
IdentityOption = Annotated[
    Path | None, option("--identity FILE", "Your private key, as rado room identity makes it; your own by default.")
]


def complete_mechanism(incomplete: str) -> list[str]:
    from radoboost.holder.rooms.agreement import mechanisms_for_rooms

    return [name for name in mechanisms_for_rooms() if name.startswith(incomplete)]


@options.add_command(app, "open")
def open_(
    agreement: Annotated[Path, argument("AGREEMENT", "What the columns are, for all holders: a schema.")],
    parties: Annotated[int, option("--parties K", "How many holders there are, 3 at least.")],
    tolerate: Annotated[
        int,
        option(
            "--tolerate T",
            "For how many who are lost, or tell each other all, there is noise enough; more costs more noise.",
        ),
    ] = 1,
    label: options.LabelOption = None,
    classes: options.ClassesOption = None,
    person: options.PersonOption = None,
    epsilon: options.EpsilonOption = None,
    delta: options.DeltaOption = None,
    mechanism: Annotated[
        str | None,
        of_release(
            "--mechanism NAME",
            "What protects the release: moments (the default with --epsilon), noisy-rados, or plain.",
            complete=complete_mechanism,
        ),
    ] = None,
    settings: options.SetOption = None,
    columns: options.ColumnsOption = "auto",
    n_rados: options.RadosOption = None,
    output: Annotated[
        str | None, output_option("A folder, STEM.room by default, or the address of rado room serve.", "ROOM")
    ] = None,
    token: Annotated[
        str, option("--token TOKEN", "What rado room serve printed, to open a room there.", envvar="RADO_ROOM_TOKEN")
    ] = "",
    trust_network: options.TrustNetworkFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Open a room: fix what is agreed on, and say where the others find it.

    Nothing is computed, and no table is read. What is agreed on can be read by all who see the room. The schema says
    what columns and classes there are, whose rows they are, and about how many (rado schema --set rows=M). The
    epsilon is for one record added or removed at one holder, against outsiders together with as many holders as
    --tolerate, less those who were lost.

    \b
    Examples:
      rado room open flu.schema.json --parties 5 --epsilon 1
      rado room open flu.schema.json --parties 5 --tolerate 1 --epsilon 1 -o /mnt/shared/flu.room
      rado room open flu.schema.json --parties 3 -o https://mailbox.example:8443 --token 7f..
    """
    from radoboost.holder.mechanisms import MECHANISMS
    from radoboost.holder.rooms.agreement import check_mechanism_for_rooms, make_agreement

    if mechanism in MECHANISMS:
        check_mechanism_for_rooms(mechanism)
    declared, protection = options.declaration_and_mechanism(
        mechanism, epsilon, delta, settings, agreement, person=person
    )
    agreed = make_agreement(
        declared, protection, parties=parties, tolerate=tolerate, label=label, n_rados=n_rados, columns=columns,
        classes=options.chosen_classes(classes),
    )  # fmt: skip
    room = lay_agreement_in_room(agreed, output or _stem_of_room_name(str(agreement)) + ".room", trust_network, token)
    if as_json:
        print(json.dumps({"room": room, "agreement": json.loads(agreed.to_bytes())}, indent=2, ensure_ascii=False))
        if agreed.advice is not None:
            options.say_on_stderr(f"rado: {agreed.advice}")
    else:
        print("\n".join([f"opened {room}", *(f"  {line}" for line in agreed.as_text())]))
        options.say_on_stderr(f"rado: each holder now runs: rado room join {shlex.quote(room)} TABLE --as NAME")


def _joint_release_path(room: str) -> Path:
    return Path(f"{_stem_of_room_name(room)}.rado.parquet")


def _stem_of_room_name(place: str) -> str:
    """What a file or room is called, without its endings; what lies behind an address is called joint."""
    name = "" if "://" in place else Path(place).name
    for ending in (".json", ".schema", ".bounds", ".room"):
        name = name.removesuffix(ending)
    return name or "joint"


@options.add_command(app)
def identity(
    place: Annotated[
        Path | None, argument("[FILE]", "Where the private key lies; in your configuration by default.")
    ] = None,
    as_json: options.JsonFlag = False,
) -> None:
    """Make your key, or show the fingerprint of the one that is there.

    Messages in a room are signed with it. Its file is for nobody else.

    \b
    Examples:
      rado room identity
      rado room identity keys/north.pem
    """
    from radoboost.holder.rooms.signed_messages import identity_path, load_or_create_identity

    place = place or identity_path()
    own, new = load_or_create_identity("me", place)
    fingerprint = own.party.fingerprint
    if as_json:
        key = own.party.public_key.hex()
        print(json.dumps({"path": str(place), "new": new, "fingerprint": fingerprint, "public_key": key}, indent=2))
    else:
        print(f"{'made' if new else 'the key is'} {place}, which nobody else may read\nfingerprint  {fingerprint}")


@options.add_command(app)
def join(
    room: RoomArgument,
    table: options.TableArgument,
    name: Annotated[str, option("--as NAME", "What the others call you, such as north-clinic.")],
    identity: IdentityOption = None,
    code: Annotated[
        str | None,
        option("--code CODE", "The code that another holder told you, not through the room; asked for by default."),
    ] = None,
    ledger: LedgerOption = None,
    counts: options.CountsOption = None,
    wait: Annotated[float, option("--wait S", "Seconds to wait until all have joined.")] = 3600.0,
    patience: Annotated[
        float, option("--patience S", "Seconds to wait for a holder within a sum, before it counts as lost.")
    ] = 120.0,
    engine: options.EngineOption = "auto",
    threads: options.ThreadsOption = None,
    output: Annotated[Path | None, output_option("The joint release; ROOM.rado.parquet by default.")] = None,
    force: options.ForceFlag = False,
    quiet: options.QuietFlag = False,
    other_members: Annotated[
        bool,
        option(
            "--other-members",
            "Take part though sums have no noise, and an earlier such room had other members: the difference "
            "tells the exact sums of whoever is in one of them alone.",
        ),
    ] = False,
    trust_network: options.TrustNetworkFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Take part in a room with your table: wait for all, compare the code, and get the joint release.

    Your rows stay here. What you send is signed, and the others see masked numbers, of which only the total over all
    holders comes out. Every holder ends with the same file. Before anything is computed, a receipt of what it may cost
    is noted beside your key, and you cannot join this room again; if it ends without a release, count the receipt with
    rado account, or --compose.

    \b
    Examples:
      rado room join /mnt/shared/flu.room patients.csv --as north
      rado room join https://mailbox.example:8443/ROOM patients.parquet --as north --ledger clinic.ledger
      rado room join flu.room patients.csv --as north --code 'a1b2c 3d4e5 ...' -o joint.rado.parquet
    """
    import radoboost as rb
    from radoboost.holder.rooms.signed_messages import identity_path

    if identity is None and not identity_path().exists():
        raise RoomError(f"you have no key yet, at {identity_path()}; make it, and tell the others: rado room identity")
    if table == ["-"] and code is None:
        raise ArgumentError("with the table on standard input nobody can be asked; give the code with --code")
    chosen = options.chosen_table(table)
    place = options.chosen_output(output, _joint_release_path(room), table, force)
    question = _Question()
    # Counts are for this holder's eyes: a log would give them away, and nobody there is asked nothing.
    attended = code is None and sys.stdin.isatty() and sys.stderr.isatty()
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", UserWarning)
        release = rb.join_room(
            room, chosen, confirm=question.confirmed if code is None else code, name=name, identity=identity,
            output=place, ledger=chosen_ledger(ledger), counts=None if quiet else counts or "terminal",
            wait=wait, patience=patience, other_members=other_members, progress=not quiet,
            compute=rb.Compute(engine, threads, trust_network=trust_network),
            look=question.keep if code is None or quiet else question.say,
            own_rows=question.own_rows if attended else None,
        )  # fmt: skip
    for warning in () if quiet else notices:
        if not issubclass(warning.category, PersonWarning):  # which was said with what is agreed on
            options.say_on_stderr(f"rado: {' '.join(str(warning.message).split())}")
    options.print_release(release, place, as_json, f"wrote {place}, {_with_which_holders_text(release)}")


def _with_which_holders_text(release: "Release") -> str:
    from radoboost.holder.rooms.abort_causes import holder_names_text

    assert release.statement.holders is not None, "a room has holders"
    parts = release.statement.holders.parts
    left = [str(part.get("name")) for part in parts if part.get("until") is not None]
    if not left:
        return "as all holders do"
    return f"made by {len(parts) - len(left)} of {len(parts)} holders: {holder_names_text(left)} left"


class _Question:
    """What a holder is asked before it takes part, below what it would agree to."""

    def __init__(self) -> None:
        self._agreed: list[str] = []
        self._rows: list[str] = []

    def keep(self, agreement: "Agreement") -> None:
        """Keep what is agreed on, to show it above the question."""
        self._agreed = agreement.as_text()

    def say(self, agreement: "Agreement") -> None:
        """Say what is agreed on, where there will be no question."""
        for line in agreement.as_text():
            options.say_on_stderr(f"rado: {line}")

    def own_rows(self, contribute: int, rows: int) -> None:
        """Keep how many of the holder's rows contribute, to show it above the question; if none does, ask at once."""
        self._rows = [f"your rows, which nobody else sees: {contribute:,} of {rows:,} contribute"]
        if contribute == 0 and not _question_answered_yes(
            f"None of your {rows:,} rows contributes by what is agreed on, as rado check shows. Take part? [y/N] "
        ):
            raise RoomError("none of the rows contributes, so this holder did not join; nothing is spent")

    def confirmed(self, code: str, parties: Sequence["Party"]) -> bool:
        """Show what is agreed on and who is there, and ask whether all see the same code."""
        width = max(len(party.name) for party in parties)
        options.say_on_stderr("\n".join([*self._rows, "what is agreed on:", *(f"  {line}" for line in self._agreed)]))
        for party in parties:
            options.say_on_stderr(f"  {party.name:{width}}  {party.fingerprint}")
        options.say_on_stderr(f"the code of this room: {code}")
        return _question_answered_yes("Call the others: has each of them this code? [y/N] ")


def _question_answered_yes(question: str) -> bool:
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()  # not input(), which may write to stdout, where JSON may be awaited
    if not sys.stdin.isatty():
        options.say_on_stderr("")  # nobody pressed return where the question stands
    if not answer:
        raise RoomError("nobody confirmed the code of the room; give it with --code, or answer the question")
    return answer.strip().lower() in ("y", "yes")


@options.add_command(app)
def show(
    room: RoomArgument, trust_network: options.TrustNetworkFlag = False, as_json: options.JsonFlag = False
) -> None:
    """Show a room: what is agreed on, who is there, the code, and how far it is.

    \b
    Examples:
      rado room show flu.room
      rado room show https://mailbox.example:8443/ROOM --json
    """
    state = room_state(room, trust_network)
    print(json.dumps(state, indent=2, ensure_ascii=False) if as_json else "\n".join(room_state_text(state)))


@options.add_command(app)
def close(
    room: RoomArgument,
    code: Annotated[str | None, option("--code CODE", "The code that a holder told you, not through the room.")] = None,
    output: Annotated[Path | None, output_option("The joint release; ROOM.rado.parquet by default.")] = None,
    force: options.ForceFlag = False,
    trust_network: options.TrustNetworkFlag = False,
    as_json: options.JsonFlag = False,
) -> None:
    """Fetch the joint release of a room, and check that its holders have signed it. Anyone may, at any time.

    \b
    Examples:
      rado room close flu.room -o joint.rado.parquet
      rado room close https://mailbox.example:8443/ROOM --code 'a1b2c 3d4e5 ...'
    """
    import radoboost as rb

    place = output or _joint_release_path(room)
    options.check_output_path(place, [])
    refuse_overwrite(
        place, _joint_release_path(room), force, advice="its noise cannot be drawn again; choose another place with -o"
    )
    release = rb.close_room(room, output=place, code=code, trust_network=trust_network)
    options.print_release(release, place, as_json, f"wrote {place}, signed by its holders")


options.add_command(app)(serve)
options.add_command(app)(rehearse)


# ---- How far a room is, in words.


def lay_agreement_in_room(agreement: "Agreement", place: str, trust_network: bool, token: str = "") -> str:
    from radoboost.holder.rooms.agreement import PLACE
    from radoboost.holder.rooms.mailbox import mailbox_at

    box = mailbox_at(place, make=True, trust_network=trust_network, token=token)
    if not box.put(PLACE, agreement.to_bytes()):
        raise RoomError(f"there is a room at {box.name} already, and each has one agreement; name another with -o")
    return box.name


def room_state(room: str, trust_network: bool) -> dict[str, Any]:
    """What is agreed on in a room, who is there, and how far it is, as JSON data."""
    from radoboost.holder.rooms.agreement import PLACE, read_agreement
    from radoboost.holder.rooms.handshake import (
        make_roster,
        parties_who_greeted,
        parties_who_left,
        ready_rosters,
        stray_greetings,
        verification_code,
    )
    from radoboost.holder.rooms.mailbox import mailbox_at
    from radoboost.holder.rooms.room import standing_of_room
    from radoboost.holder.rooms.versions import differing_versions_text

    box = mailbox_at(room, trust_network=trust_network)
    agreement = read_agreement(box.get(PLACE), box.name)
    all_ready = ready_rosters(box, agreement)
    rosters = [seats for seats, ready in all_ready if len(ready) == agreement.parties]
    seats = rosters[0] if len(rosters) == 1 else None
    if seats is None or _room_has_begun_again(box, agreement, seats):
        parties = parties_who_greeted(box, agreement, lenient=True)
        seats = make_roster(agreement, parties) if len(parties) == agreement.parties else None
    else:
        parties = list(seats.parties)
    gone = [party.name for party in parties_who_left(box, agreement, parties)]
    state = {
        "room": box.name,
        "agreement": json.loads(agreement.to_bytes()),
        "as_text": agreement.as_text(),
        "parties": [{"name": party.name, "fingerprint": party.fingerprint} for party in parties],
        "missing": agreement.parties - len(parties),
        "gave_up": gone,
        "strays": stray_greetings(box, agreement),
        "versions": differing_versions_text(parties),
        "code": None if seats is None else verification_code(seats),
        "last_message": _time_of_last_message(_times_of_room_messages(box)),
    }
    if seats is None:
        return {**state, **_NOTHING_YET}
    ready = sorted({name for roster, those in all_ready if roster.agreement == seats.agreement for name in those})
    standing = standing_of_room(box, seats, ready)
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


def _room_has_begun_again(box: "Mailbox", agreement: "Agreement", seats: "Roster") -> bool:
    """Whether holders of a session that ended before the first sum have joined once more."""
    from radoboost.holder.rooms.handshake import has_greeted_again
    from radoboost.holder.rooms.room import standing_of_room

    standing = standing_of_room(box, seats)
    return standing.has_ended and not standing.stage and has_greeted_again(box, agreement, seats)


_NOTHING_YET = {
    "ready": [], "stopped": [], "left_out": [], "ended": False, "why": None, "stage": 0, "released": False,
    "signed": [], "signatures_needed": None, "what_now": None,
}  # fmt: skip


def room_state_text(state: dict[str, Any]) -> list[str]:
    lines = [f"room         {state['room']}", *(f"             {line}" for line in state["as_text"])]
    lines += [
        f"  {one['name']}  {one['fingerprint']}  {_stand_of_holder_text(one['name'], state)}"
        for one in state["parties"]
    ]
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


def _stand_of_holder_text(name: str, state: dict[str, Any]) -> str:
    if name in state["left_out"]:
        return "stopped, and is left out" if name in state["stopped"] else "is left out"
    if name in state["stopped"]:
        return "has stopped"
    if name in state["gave_up"]:
        return "gave up and left"
    return "ready" if name in state["ready"] else "has not confirmed the code"


def _times_of_room_messages(box: "Mailbox") -> dict[str, float]:
    """When each message came, where a folder tells."""
    times = {}
    for name in () if "://" in box.name else box.names(""):
        with suppress(OSError):
            times[name] = os.stat(os.path.join(box.name, name)).st_mtime
    return times


def _time_of_last_message(times: dict[str, float]) -> str | None:
    return datetime.fromtimestamp(max(times.values())).astimezone().isoformat(" ", "seconds") if times else None
