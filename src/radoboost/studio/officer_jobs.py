"""What the officer's way does in jobs: reading a release and holding it against itself, and attacking it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radoboost.adversary.attempts import Given
from radoboost.adversary.known import label_of
from radoboost.adversary.page import Report, report
from radoboost.errors import ReleaseError
from radoboost.findings.about_release import AboutRelease, about_release
from radoboost.release import Release, load
from radoboost.release.checking import Contradicted
from radoboost.release.digests import Damaged
from radoboost.release.plain_words import WRONG, Verdict
from radoboost.studio.jobs import Job

_HEADLINES: dict[type[ReleaseError], tuple[str, str]] = {
    Damaged: (
        "Damaged: this is not the file that its maker wrote",
        "It changed on its way, or is not whole. Get it again from its maker.",
    ),
    Contradicted: (
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
    about: AboutRelease | None = None


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
        """What was read, once it was."""
        result = self.reading.result
        return result if isinstance(result, Opened) else None


def open_job(place: Path, name: str) -> Callable[[Job], Opened]:
    """Work that reads a release; one that is damaged or contradicted is no failure, but the finding."""

    def work(job: Job) -> Opened:
        try:
            release = load(place)
        except ReleaseError as error:
            headline, advice = next(words for kind, words in _HEADLINES.items() if isinstance(error, kind))
            line = " ".join(str(error).replace(str(place), name).split())
            return Opened(Verdict(WRONG, headline, (f"{line}.", advice)))
        about = about_release(release, Path(name).name)
        return Opened(about.verdict, release, about)

    return work


def attack_job(
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
        column = label if files is None else label or label_of(release, files)
        given = Given(release, name, files, None if files is None else column, seed, named=named)
        return report(given, place, seconds=seconds, bar=job.progress)

    return work
