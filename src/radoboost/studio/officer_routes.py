"""The officer's way: what a release that somebody sent promises, what attacks get from it, and the sign-off."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from radoboost.cli.options import default_output_path
from radoboost.cli.show import keep_sign_off, sign_off_command
from radoboost.errors import ArgumentError, RadoError, ReleaseError
from radoboost.lab.attacks.adversary_knowledge import label_column_of_table
from radoboost.lab.attacks.attack_suite import AttackInputs, Report, write_attack_report
from radoboost.release.file_format import DamagedFile, digest_of_release_file
from radoboost.release.release import Release, load
from radoboost.release.statement_check import StatementContradiction
from radoboost.release.statement_text import WRONG, Verdict
from radoboost.report import sign_off
from radoboost.report.release_report import ReleaseReport, make_release_report
from radoboost.studio.jobs import Job
from radoboost.studio.rendering import Here, Role, Sent, Studio, redirect_to, render_studio_page, shell_command
from radoboost.studio.security import Form
from radoboost.studio.workspace import RELEASE, TABLE, short_names_in_errors

# ---- What the officer's way does in jobs: reading a release and holding it against itself, and attacking it.

_HEADLINES: dict[type[ReleaseError], tuple[str, str]] = {
    DamagedFile: (
        "Damaged: this is not the file that its maker wrote",
        "It changed on its way, or is not whole. Get it again from its maker.",
    ),
    StatementContradiction: (
        "Contradicted: do not trust this release",
        "Its digest fits, but that is no proof of origin: whoever writes a false statement can make the digest anew. "
        "Its statement promises more than what the file says was done, or speaks of something else. Ask its maker.",
    ),
    ReleaseError: ("This cannot be read as a release", "There is nothing to judge. Ask whoever sent it what it is."),
}


@dataclass(frozen=True)
class Opened:
    """A file that was read: the release with all about it, or why it is none, in `verdict`."""

    verdict: Verdict
    release: Release | None = None
    about: ReleaseReport | None = None


@dataclass
class OfficerSession:
    """What an officer is at: a release, the jobs that read and attack it, and what was typed into the sign-off."""

    place: Path
    name: str
    reading: Job
    attacks: Job | None = None
    attack_command: str = ""
    typed: dict[str, str] = field(
        default_factory=lambda: {"officer": "", "decision": "", "remarks": "", "confirmed": ""}
    )
    problem: str = ""
    signed_command: str = ""
    uncited: str = ""

    @property
    def opened(self) -> Opened | None:
        result = self.reading.result
        return result if isinstance(result, Opened) else None


def open_release_job(place: Path, name: str) -> Callable[[Job], Opened]:
    """Work that reads a release; one that is damaged or contradicted is no failure, but the finding."""

    def work(job: Job) -> Opened:
        try:
            release = load(place)
        except ReleaseError as error:
            headline, advice = next(words for kind, words in _HEADLINES.items() if isinstance(error, kind))
            line = " ".join(str(error).replace(str(place), name).split())
            return Opened(Verdict(WRONG, headline, (f"{line}.", advice)))
        about = make_release_report(release, Path(name).name)
        return Opened(about.verdict, release, about)

    return work


def attack_release_job(
    opened: Opened,
    name: str,
    place: Path,
    seconds: float,
    seed: int | None,
    table: Path | None,
    named: str | None,
    label: str | None,
) -> Callable[[Job], Report]:
    """Work that runs all attacks on a release and writes their report to a place."""

    def work(job: Job) -> Report:
        release: Any = opened.release
        files = None if table is None else [str(table)]
        column = label if files is None else label or label_column_of_table(release, files)
        given = AttackInputs(release, name, files, None if files is None else column, seed, named=named)
        return write_attack_report(given, place, seconds=seconds, bar=job.progress)

    return work


WAY = Role(
    "officer",
    "I was sent a release",
    "See what it promises to whom, what it does not, and what an attacker would get.",
    {RELEASE: "See what it promises"},
)
router = APIRouter(prefix="/officer")
SECONDS = 60.0  # of each attack: it runs in the background
_MOST_SECONDS = 3600.0


@router.get("")
def choose(request: Request, studio: Here) -> HTMLResponse:
    return render_studio_page(request, "choose.html", way=WAY, files=studio.folder.files(*WAY.kinds))


@router.post("")
def begin(request: Request, studio: Here, form: Sent) -> Response:
    """Begin with a release: it is read, and held against itself, in a job."""
    return redirect_to(request, open_release(studio, studio.folder.file(form.text("file"))))


def open_release(studio: Studio, place: Path) -> str:
    """The page of a release, which a job reads."""
    name = studio.folder.name(place)
    reading = studio.jobs.start(f"Reading {name}", open_release_job(place, name), lane="look")
    number = studio.sessions.add(OfficerSession(place, name, reading))
    reading.address = f"/officer/{number}"
    reading.wait(0.5)  # most releases are read by then, and their page is the first one to be seen
    return reading.address


@router.get("/{number}")
def release_page(request: Request, studio: Here, number: str) -> HTMLResponse:
    """All about the release: the verdict, the statement, pictures, attacks, and the sign-off."""
    session = studio.sessions.get(number, OfficerSession)
    opened = session.opened
    attacks = session.attacks
    report = attacks.result if attacks is not None and isinstance(attacks.result, Report) else None
    name = Path(session.name)
    shown = [shell_command("show", name)]
    if opened is not None and opened.release is not None:
        shown.append(shell_command("show", name, "--html", Path(_officer_output_name(session, "html"))))
    return render_studio_page(
        request,
        "officer.html",
        session_id=number,
        officer=session,
        opened=opened,
        report=report,
        running=[job for job in (session.reading, attacks) if job is not None and not job.is_over],
        shown=shown,
        tables=studio.folder.files(TABLE) if opened is not None and opened.release is not None else [],
        report_name=_officer_output_name(session, "attacks.html"),
        report_there=_officer_file_is_there(studio, _officer_output_name(session, "attacks.html")),
        signed_name=_officer_output_name(session, "signoff.html"),
        signed_there=_officer_file_is_there(studio, _officer_output_name(session, "signoff.html")),
        decisions=sign_off.DECISIONS,
        no_promise=sign_off.NO_PROMISE
        if opened is not None and opened.release and sign_off.must_confirm(opened.release, "approve")
        else "",
        most_letters=sign_off.MOST_LETTERS,
        default_seconds=f"{SECONDS:g}",
    )


@router.post("/{number}/attacks")
def attack(request: Request, studio: Here, form: Sent, number: str) -> Response:
    """Run all attacks in the background, and write their report into the folder."""
    session = studio.sessions.get(number, OfficerSession)
    opened = _opened_consistent_release(session)
    if session.attacks is not None and not session.attacks.is_over:
        return redirect_to(request, session.attacks.address)  # a second tab sees the job that runs
    seconds = _number_of_officer_form(form, "seconds", SECONDS, _MOST_SECONDS)
    seed = _seed_of_officer_form(form)
    table = studio.folder.file(form.text("table")) if form.text("table", "") else None
    place = studio.folder.place(_officer_output_name(session, "attacks.html"))
    label = form.text("label", "").strip() or None
    words: list[object] = ["attack", "report", Path(session.name), "--seconds", f"{seconds:g}"]
    words += [] if table is None else ["--table", Path(studio.folder.name(table))]
    words += [] if label is None or table is None else ["--label", label]
    words += [] if seed is None else ["--seed", seed]
    session.attack_command = shell_command(*words, "-o", Path(studio.folder.name(place)))
    named = None if table is None else studio.folder.name(table)
    work = attack_release_job(opened, session.name, place, seconds, seed, table, named, label)
    session.attacks = studio.jobs.start(f"Attacks on {session.name}", work, address=f"/officer/{number}#attacks")
    return redirect_to(request, session.attacks.address)


@router.post("/{number}/sign-off")
def sign(request: Request, studio: Here, form: Sent, number: str) -> Response:
    """Write the officer's decision into the folder; where something is wrong with it, what was typed stays."""
    session = studio.sessions.get(number, OfficerSession)
    opened = _opened_consistent_release(session)
    session.typed = {name: form.text(name, "") for name in session.typed}
    session.problem = session.signed_command = ""
    session.uncited = _why_report_not_cited(studio, session)
    try:
        with short_names_in_errors(studio.folder.root):
            session.signed_command = _write_sign_off(studio, session, opened, form)
    except RadoError as error:
        session.problem = " ".join(str(error).split())
    return redirect_to(request, f"/officer/{number}#sign-off")


def _write_sign_off(studio: Studio, session: OfficerSession, opened: Opened, form: Form) -> str:
    """The command that writes the same page."""
    assert opened.release is not None
    if digest_of_release_file(session.place) != opened.release.digest:
        raise ArgumentError(
            f"{session.name} is not signed off: it changed since you read it; open it again, and read it"
        )
    remarks = session.typed["remarks"].replace("\r\n", "\n").strip()
    decision, confirmed = session.typed["decision"], session.typed["confirmed"].strip()
    if not sign_off.must_confirm(opened.release, decision):
        confirmed = ""
    signed = sign_off.SignOff(session.typed["officer"].strip(), decision, remarks, confirmed=confirmed)
    place, force = studio.folder.place(_officer_output_name(session, "signoff.html")), form.text("over", "") == "yes"
    force = force and os.path.lexists(place)
    keep_sign_off(place, force, "tick the box below to write over it, or move it away")
    report = _report_to_cite(studio, session)
    name = Path(session.name)
    relative = None if report is None else Path(studio.folder.name(report))
    words = sign_off_command(name, signed, Path(studio.folder.name(place)), relative, force)
    sign_off.write_sign_off(opened.release, signed, place, name=name.name, command=shlex.join(words), report=report)
    return shell_command(*words[1:])


def _report_to_cite(studio: Studio, session: OfficerSession) -> Path | None:
    """The report of the attacks that ran here, if its file is still there."""
    job: Job | None = session.attacks
    if (
        job is None
        or job.state != "done"
        or not _officer_file_is_there(studio, _officer_output_name(session, "attacks.html"))
    ):
        return None
    return studio.folder.file(_officer_output_name(session, "attacks.html"))


def _why_report_not_cited(studio: Studio, session: OfficerSession) -> str:
    """Why a sign-off does not name the report of attacks that were begun here, if it does not."""
    if session.attacks is None or _report_to_cite(studio, session) is not None:
        return ""
    why = (
        "is not in the folder any more" if session.attacks.state == "done" else "is not there: they have not ended well"
    )
    return f"The sign-off names no report of attacks: {_officer_output_name(session, 'attacks.html')} {why}."


def _opened_consistent_release(session: OfficerSession) -> Opened:
    if session.opened is None or session.opened.release is None:
        raise ArgumentError("there is no release to attack or to sign off; open one that is consistent")
    return session.opened


def _officer_output_name(session: OfficerSession, ending: str) -> str:
    """The name of a file beside nothing but the folder: commands write there, too."""
    return str(default_output_path(session.name, ending))


def _officer_file_is_there(studio: Studio, name: str) -> bool:
    return os.path.lexists(studio.folder.root / name)


def _number_of_officer_form(form: Form, name: str, default: float, most: float) -> float:
    text = form.text(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise ArgumentError(f"{name} must be a number above 0 and at most {most:g}; it is {text[:40]!r}")
    return number


def _seed_of_officer_form(form: Form) -> int | None:
    text = form.text("seed", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 40):
        raise ArgumentError(f"seed must be a whole number of at least 0; it is {text[:40]!r}")
    return int(text)
