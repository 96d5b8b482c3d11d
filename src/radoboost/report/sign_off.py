"""An officer's sign-off of a release: who decided what about which file, with the statement and what attacks got."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

from radoboost.errors import ArgumentError, OutputError, reason
from radoboost.release.release import Release
from radoboost.release.statement_text import NONE, PROMISE, WEAK, WRONG, Verdict

DECISIONS = {
    "approve": "approved: the release may be passed on",
    "approve-within": "approved under the conditions in the remarks",
    "refuse": "refused: the release must not be passed on",
}
APPROVALS = ("approve", "approve-within")
NO_PROMISE = "no promise"  # to be typed by whoever approves a release that promises nothing
TRIED = "Tried"  # the group of attacks that ran, and came to a result
AUDITED = "Program audited"  # that of an audit of the program that makes such releases, and not of the file
MOST_LETTERS = 10_000  # of remarks
_MOST_NAME = 200
_DIGEST, _TONE, _HEADLINE = "radoboost-release", "radoboost-tone", "radoboost-verdict"
_ATTACK = "radoboost-attack"  # once for each attack
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class SignOff:
    """What an officer decides: a name, one of `DECISIONS`, remarks as typed, and the day.

    `confirmed` are the words that an officer typed to approve a release that promises nothing.
    """

    officer: str
    decision: str
    remarks: str = ""
    date: str = ""
    confirmed: str = ""

    def __post_init__(self) -> None:
        if not self.officer.strip() or len(self.officer) > _MOST_NAME:
            raise ArgumentError(f"a sign-off needs the officer's name, of at most {_MOST_NAME} letters; give one")
        if self.decision not in DECISIONS:
            raise ArgumentError(f"a decision is one of {', '.join(DECISIONS)}; it is {self.decision!r}")
        if self.decision == "approve-within" and not self.remarks.strip():
            raise ArgumentError("an approval under conditions needs remarks that say which; give them")
        if len(self.remarks) > MOST_LETTERS:
            raise ArgumentError(f"remarks have at most {MOST_LETTERS:,} letters; these have {len(self.remarks):,}")
        try:
            day = date.fromisoformat(self.date) if self.date else date.today()
        except ValueError:
            raise ArgumentError(f"a date is written as 2026-01-31; it is {self.date!r}") from None
        object.__setattr__(self, "date", day.isoformat())


def must_confirm(release: Release, decision: str) -> bool:
    """Whether a decision approves a release that promises nothing, so that its officer must type so."""
    return decision in APPROVALS and math.isinf(release.statement.epsilon)


@dataclass(frozen=True)
class AttackResult:
    """One attack of a report: its title, the group that it is in, and what it got, or why it got nothing."""

    title: str
    group: str
    sentence: str


@dataclass(frozen=True)
class CitedReport:
    """A report of attacks that a sign-off names: its file, the digest of that, its verdict and its attacks."""

    name: str
    digest: str
    verdict: Verdict
    attacks: tuple[AttackResult, ...] = ()

    @property
    def ran(self) -> tuple[AttackResult, ...]:
        """The attacks that ran, and came to a result."""
        return tuple(attack for attack in self.attacks if attack.group == TRIED)

    @property
    def audits(self) -> tuple[AttackResult, ...]:
        """The audits of the program, on made-up tables."""
        return tuple(attack for attack in self.attacks if attack.group == AUDITED)

    @property
    def others(self) -> tuple[AttackResult, ...]:
        """What did not run, or had no result."""
        return tuple(attack for attack in self.attacks if attack.group not in (TRIED, AUDITED))


def marks_of_attack_report(digest: str, verdict: Verdict, attacks: Sequence[AttackResult]) -> list[tuple[str, str]]:
    """What a report of attacks says of itself to programs: names and texts."""
    marks = [(_DIGEST, digest), (_TONE, verdict.tone), (_HEADLINE, verdict.headline)]
    return marks + [(_ATTACK, json.dumps(asdict(attack), ensure_ascii=False)) for attack in attacks]


def cite_attack_report(place: Path, release: Release) -> CitedReport:
    """The report of attacks in a file, which must be about this release."""
    try:
        with place.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise OutputError(f"cannot read {place}: {reason(error)}") from None
    reader = _Marks()
    reader.feed(content.decode("utf-8", "replace"))
    marks = reader.marks
    try:
        attacks = tuple(AttackResult(**json.loads(text)) for text in reader.attacks)
    except (ValueError, TypeError):
        attacks = ()
    if _HEADLINE not in marks or marks.get(_TONE) not in (PROMISE, WEAK, NONE, WRONG) or not attacks:
        raise ArgumentError(f"{place} is no report of attacks; rado attack report makes one")
    if release.digest is None or marks.get(_DIGEST) != release.digest:
        raise ArgumentError(f"{place} is about another release, or an older file of it; run rado attack report again")
    verdict = Verdict(marks[_TONE], marks[_HEADLINE])
    return CitedReport(place.name, hashlib.sha256(content).hexdigest(), verdict, attacks)


def write_sign_off(
    release: Release, signed: SignOff, place: Path, *, name: str, command: str, report: Path | None = None
) -> None:
    """One HTML page with an officer's decision about a release, its verdict, statement and digest.

    No attack is run for it: it says what the `report` says, which attacks ran and what they got.
    """
    from radoboost.report import html
    from radoboost.report.release_report import make_release_report

    if must_confirm(release, signed.decision) and signed.confirmed.strip() != NO_PROMISE:
        raise ArgumentError(f'this release promises nothing; to approve it, type the words "{NO_PROMISE}"')
    html.write_html_page(
        place,
        "sign_off.html",
        title=f"Sign-off of {name}",
        signed=signed,
        decision=DECISIONS[signed.decision],
        about=make_release_report(release, name),
        report=None if report is None else cite_attack_report(report, release),
        command=command,
    )


class _Marks(HTMLParser):
    """The names and contents of a page's `meta` elements."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[str, str] = {}
        self.attacks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "meta" and values.get("name") == _ATTACK:
            self.attacks.append(values.get("content") or "")
        elif tag == "meta" and values.get("name"):
            self.marks.setdefault(str(values["name"]), values.get("content") or "")
