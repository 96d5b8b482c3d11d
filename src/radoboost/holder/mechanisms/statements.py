"""Statements from events: every number in one comes from an accountant."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from radoboost.errors import ArgumentError
from radoboost.holder.mechanisms.mechanism import KeyUse, RoomParticipation, StatementFacts
from radoboost.privacy import Event, NotPrivate, accountant_name, best_guess, epsilon_at, event_to_dict
from radoboost.privacy.events import event_about_lines
from radoboost.release.composition import compose_with_earlier
from radoboost.release.parties import AT_ONE, ROOM, Parties, room_party_guarantees
from radoboost.release.release import Statement, percent_up_text
from radoboost.tables.csv_dialect import LINES
from radoboost.tables.schema import Schema

# ---- Whom a statement speaks of: one row, or one person with all rows (docs/proofs/persons.md).

WHO = "Who is in the table, and with how many rows: the number of rows that contribute follows from it."


class PrivacyUnitText(NamedTuple):
    """Who or what is protected, in words: the unit, the subject of a promise, and what is not protected."""

    unit: str
    anyone: str
    not_protected: tuple[str, ...]


_ROWS = {"record": "any one record", "content": "any one row holds", "label": "any one row has"}
_PERSONS = {
    "record": ("", "any one person, with all rows{},", ()),
    "content": ("the content of the rows of ", "the rows of any one person{} hold", (WHO,)),
    "label": ("the labels of ", "the rows of any one person{} have", (WHO,)),
}


def privacy_unit_text(circumstances: StatementFacts, what: str, unit: str, *several_rows: str) -> PrivacyUnitText:
    """The words for a mechanism that protects a "record", or the "content" or "label" of rows: `unit`.

    `several_rows` says what that means for a person with more than one. Where a column says whose row it is, the words
    are about persons; in a room at one holder, for rows are bounded at each (D8).
    """
    column, most = circumstances.person, circumstances.max_rows
    if column is None:
        return PrivacyUnitText(unit, _ROWS[what], several_rows)
    of_whom, anyone, exposed = _PERSONS[what]
    rows = "one of its rows contributes" if most == 1 else f"{most:,} of its rows contribute"
    where, there, several = (AT_ONE, " there", " or is at several holders") if circumstances.room else ("", "", "")
    return PrivacyUnitText(
        f"{of_whom}one value of the column {column!r}{where}, whole numbers being one value in any spelling; at most "
        f"{rows}{there}",
        anyone.format(where),
        (
            *exposed,
            f"A person who goes by several values of {column!r}{several}, which count as several persons; a household, "
            "or any other group of persons.",
            f"The name of the column {column!r} and the most rows that contribute are in the release; chosen by "
            "exact counts of the table, they would tell of it.",
        ),
    )


# ---- What a statement says of a release that several holders made in a room: against whom, and who is trusted with
# what.
#
# Proof: docs/proofs/shared-noise.md, steps D1 to D9, on what noise by shares is worth; and docs/proofs/secure-
# sums.md, on what holders and the mailbox see.

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
    "Where a holder's table is the answer to a query, a stream, or was in memory, a record is a row of that: if one "
    "record of what was asked, or read into memory, can change other rows, nothing is promised about it."
)
_SOME_EXACT = ". Some sums have no noise, for they do not depend on what is protected"
_ALL_EXACT = ". No sum has noise, and nothing is protected"
_EXACT = (
    ": they are exact, over all holders of the room, which therefore needs every one of them to the end. Exact sums "
    "over different sets of holders reveal, by subtraction, those of a holder that is in one set only: so no holder "
    "should be in a second room of this kind with other members, and each holder's own program refuses that unless it "
    "is told otherwise. All other holders together "
    "learn these exact sums of the one that is left"
)
_WHO = "Who the holders are, and when each of them was in the room."


def statement_in_room(statement: Statement, event: Event, gathering: RoomParticipation, secrets: KeyUse) -> Statement:
    """A statement for a release of a room; its own epsilon is against as many colluders as are still borne (D6)."""
    holders, tolerate, present = gathering.holders, gathering.tolerate, gathering.present
    exact = (_ALL_EXACT if math.isinf(statement.epsilon) else _SOME_EXACT) + _EXACT
    colluders = tolerate - (holders - present)
    finite = not math.isinf(statement.epsilon)
    figures = room_party_guarantees(event, holders, tolerate, present, statement.delta) if finite else ()
    keys = (_COINS if secrets.coins else "") + (_SHARES if secrets.sum_noise else "")
    promises, exposed = list(statement.promises), list(statement.not_protected)
    if finite:
        promises.append(_colluders_text(gathering, colluders))
        exposed.append(_OF_A_QUERY)
    exposed += [_WHO, _NONSENSE, *([_OWN_COINS] if secrets.coins else [])]
    return replace(
        statement,
        promises=tuple(promises),
        not_protected=tuple(exposed),
        trust_model=_TRUST.format(holders=holders, many=gathering.opening, keys=keys)
        + (exact if gathering.needs_all else ""),
        holders=Parties(ROOM, gathering.parts, figures),
    )


def _colluders_text(gathering: RoomParticipation, colluders: int) -> str:
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


DEFAULT_DELTA = 1e-6
SHOWN_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8)
TRUST_MODEL = "central: whoever crafts the release sees the whole table, and is trusted with it"
ON_A_CLUSTER = (
    "; so are the machines of {cluster}, its scheduler, its network and its disks: they see rows, and sums over parts "
    "of the table before any noise. {keys}"
)
FROM_SYSTEM = "ChaCha20, under keys that come from the operating system and are forgotten"
FROM_SEED = "ChaCha20, signatures under a key that follows from a seed; noise, if any, under a key from the system"
SEEDED = (
    "The signatures were drawn from a seed: anyone who knows or guesses it knows which examples each rado sums. "
    "Without noise that is enough to solve for every example from enough rados; with noise, nothing is promised. Leave "
    "the seed out."
)
OFF_THE_TABLE = (
    "Bounds or classes that were read off the table, or corrected by exact counts of its rows, would tell of it."
)
DECLARED = (
    f"Column names, declared bounds and the two classes are in the release, as they were declared. {OFF_THE_TABLE}"
)
COLUMNS_OF_THE_TABLE = (
    "Which columns there are, and their names: they were taken from the table, and one that exists because of a single "
    f"record tells of it. The two classes are in the release, as they were declared. {OFF_THE_TABLE}"
)
COMMON = (
    "Further releases about the same people add to what this one tells: --compose says what they amount to together, "
    "for epsilons that were fixed beforehand, and --ledger keeps to a total however they are chosen.",
    "The random bits are ChaCha20's: promises hold against adversaries who cannot break it.",
    "How long crafting took, from anyone who can watch it; that somebody released something, or tried to, and with "
    "which declarations.",
    "The digest detects damage, not forgery: it does not say who made the file.",
)


OF_A_QUERY = (
    "The table is the answer to a query, or a stream that another program made, and a record is a row of it. If one "
    "record of what was asked or streamed can change other rows, or whether there are any, nothing is promised: so it "
    "is with aggregates, windows, joins that repeat a record, LIMIT, sampling, casts that fail, values that a library "
    "cannot read, and types that a library guesses from values, as databases, polars and pyarrow do for CSV files. The "
    "text of a query is not in the release."
)
IN_MEMORY = (
    "The table was in memory, where another program had put it, and a record is a row of it. If one record can change "
    "how that program read other rows, nothing is promised: a library reads numbers with a decimal comma or with marks "
    "between thousands, dates, and words for true as such only if it can read all cells of their column so. The path "
    "of the file, with these marks declared, leaves nothing to a library."
)
OF_ORIGIN = {"": (), "query": (OF_A_QUERY,), "memory": (IN_MEMORY,)}
OF_CSV = {
    "rows": (
        "In CSV files a record is one row of the table, however many lines it has, in a file that a CSV writer wrote "
        "as RFC 4180 says: each row by itself, cells with line ends, separators or quotes between quotes, quotes "
        "doubled, with the separator that was declared or that the header shows, a line end behind each row (the last "
        "one may lack it, unless it is empty), in UTF-8 or another encoding in which the bytes of quote, separator and "
        "line end stand for nothing else. Nothing is promised for other files. "
        "A record of more than 1 MiB, or with cells behind the last column that are not empty, counts with all cells "
        "empty but its person."
    ),
    "lines": (
        "In CSV files a record is a line, as was declared: a row of the table with line ends within is several "
        "records. A line of more than 1 MiB, or with cells behind the last column that are not empty, counts with all "
        "cells empty but its person; one with a quoted cell that is not closed counts with all cells empty, so where "
        "persons are protected it is nobody's and is not counted. Lines within a row may count as rows of other "
        "persons. Where the number of rows is released, a quote left open, or a last line emptied, changes it."
    ),
}
CORRECTED = (
    "The declaration of these columns was edited after exact counts of the table had been shown: {columns}. The "
    "promise does not cover what the edits tell about the table."
)
SCHEMAS = {
    "": (),
    "declared": (
        "The schema is in the release as it was declared: which columns there are, categories, and what gaps are "
        "filled with. Read off the table, it would tell of it.",
    ),
    "settled": (
        "The schema is in the release as it was declared, and what it leaves open as the table has it: the mean of "
        "every number and date without a declared fill, exactly, and the values of every category that lists none.",
    ),
    "table": (
        "The schema was made from the table, and is in the release: the smallest value, the largest and the mean of "
        "every number and date, exactly; the values that each category has; and which columns have gaps.",
    ),
}


def csv_records_statement(schema: Schema | None, csv: bool) -> str:
    """What records of the table are where it is read from CSV files, or may be; nothing where it is not."""
    return "" if not csv else LINES if schema is not None and schema.records == LINES else "rows"


def trust_model_text(circumstances: StatementFacts, secrets: KeyUse) -> str:
    """Who is trusted with the table, and on a cluster with which keys (K6, K7 of docs/proofs/clusters.md)."""
    if not circumstances.cluster:
        return TRUST_MODEL
    return TRUST_MODEL + ON_A_CLUSTER.format(
        cluster=circumstances.cluster, keys=_cluster_keys_text(circumstances, secrets)
    )


def _cluster_keys_text(circumstances: StatementFacts, secrets: KeyUse) -> str:
    """Which keys machines of a cluster get, in sentences."""
    own, common = [], []
    if secrets.coins:
        if circumstances.seeded:
            common.append("all signatures, which follows from the seed")
        elif circumstances.drawn_together:
            common.append("all signatures, for each is drawn from all rows")
        else:
            own.append("coins")
    if secrets.row_noise:
        own.append("noise")
    if circumstances.person is not None:
        common.append("the choice among rows of a person")
    sentences = [
        f"A worker gets, or draws, keys for the {' and the '.join(own)} of the rows that it sums, and of no others"
    ] * bool(own)
    sentences += [f"All of them get the key of {', and that of '.join(common)}"] * bool(common)
    sentences += ["Noise on sums is drawn by whoever crafts, and its key stays there"] * secrets.sum_noise
    return ". ".join(sentences if own or common else ["They get no key", *sentences])


def make_statement(
    mechanism: str,
    event: Event,
    delta: float,
    circumstances: StatementFacts,
    *,
    unit: str,
    promises: Sequence[str],
    not_protected: Sequence[str],
    adversary: str = "An adversary who knows everything else",
    secrets: KeyUse = KeyUse(),  # noqa: B008 - it is frozen
) -> Statement:
    """A statement about an event; with a seed every epsilon is infinite. It bounds the best guess of `adversary`.

    `secrets` says which keys there are, for where a cluster gets some, or each holder of a room has its own.
    """
    event = event_about_lines(event) if circumstances.records == LINES else event
    relation = event.relation
    assert relation is not None
    if circumstances.seeded:
        event = NotPrivate("the signatures were drawn from a seed", relation)
        not_protected = [SEEDED, *not_protected]
    not_protected = [*not_protected, *SCHEMAS[circumstances.schema]]
    epsilon = epsilon_at(event, delta)
    if not math.isinf(epsilon):  # what is assumed of the table comes last
        read = [OF_CSV[circumstances.records]] if circumstances.records else []
        not_protected = [*not_protected, *OF_ORIGIN[circumstances.origin], *read]
    if circumstances.corrected and not math.isinf(epsilon):
        columns = ", ".join(map(repr, circumstances.corrected))
        not_protected = [CORRECTED.format(columns=columns), *not_protected]
    guess = best_guess(event)
    if math.isinf(epsilon):
        promises = ()
    else:
        apart = "" if circumstances.room is None or circumstances.person is None else ", which differ at one holder,"
        promises = [
            *promises,
            f"{adversary}, and otherwise would toss a coin, is right about which of two "
            f"neighbours{apart} the table was at most {percent_up_text(guess)} % of the time.",
        ]
    statement = Statement(
        mechanism=mechanism,
        neighbours=relation.value,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant_name(event),
        promises=tuple(promises),
        not_protected=tuple(not_protected),
        unit_of_privacy=unit,
        trust_model=trust_model_text(circumstances, secrets),
        random_source=FROM_SEED if circumstances.seeded else FROM_SYSTEM,
        best_guess=guess,
        epsilon_at=tuple((other, epsilon_at(event, other)) for other in SHOWN_DELTAS),
        event=event_to_dict(event),
        composed=compose_with_earlier(event, circumstances.earlier, delta) if circumstances.earlier else None,
    )
    return statement if circumstances.room is None else statement_in_room(statement, event, circumstances.room, secrets)


def check_epsilon_and_delta(epsilon: Any, delta: Any) -> tuple[float, float]:
    """Epsilon and delta as floats, refused where no promise can be made with them."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise ArgumentError(f"{name} must be a number; it is {value!r}")
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon must be positive and finite; it is {epsilon}; 1 is a common choice")
    if not 0 < delta < 1:
        raise ArgumentError(f"delta must lie between 0 and 1, both excluded; it is {delta}; 1e-6 is a common choice")
    return float(epsilon), float(delta)


RECORD_UNIT = "one record, which is one row; a person with k rows is protected as a group of k records"
