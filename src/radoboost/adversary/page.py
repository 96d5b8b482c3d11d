"""One page about one release: what to think of it, what each attack gets, what that assumes, and where it stops."""

from dataclasses import dataclass
from pathlib import Path

from radoboost.adversary.attempts import Attempt, Given, Group, attack_all, grouped
from radoboost.adversary.known import table_edges
from radoboost.adversary.verdicts import verdict_after
from radoboost.progress import Progress, silent
from radoboost.release import Release
from radoboost.release.plain_words import Verdict
from radoboost.release.tilted import first_batch_notice

DEFAULT_SECONDS = 20.0
_LEAD = (
    "Each attack with what it got from this release. Below, each has a part of its own with what the adversary was "
    "assumed to know, its command, and how far it gets on made-up tables of other sizes. An attack that fails proves "
    "nothing; the statement of the release is what is promised. The exact audit is of the program, at the settings of "
    "this release: it never sees the file."
)


@dataclass(frozen=True)
class Report:
    """What attacks on a release came to, and what to think of it."""

    verdict: Verdict
    attempts: list[Attempt]

    @property
    def groups(self) -> list[Group]:
        """The attacks by how they fared."""
        return grouped(self.attempts)

    def to_dict(self) -> dict[str, dict[str, str]]:
        """The attacks as JSON data, by their names."""
        return {attempt.name: attempt.to_dict() for attempt in self.attempts}


def report(inputs: Given, place: Path, *, seconds: float = DEFAULT_SECONDS, bar: Progress = silent) -> Report:
    """Run every attack that there is for a release, and write one HTML page.

    Each attack has `seconds`, and as many for the picture of where it stops on made-up tables.
    """
    if inputs.table is not None:  # refuses a table that does not go with the release
        table_edges(inputs.release, inputs.table, label=inputs.label)
    attempts = attack_all(inputs, seconds=seconds, bar=bar)
    made = Report(verdict_after(inputs.release.statement, attempts), attempts)
    write_report(made, inputs, place)
    return made


def write_report(made: Report, inputs: Given, place: Path) -> None:
    """One page about what attacks came to: the verdict first, and then the statement."""
    from radoboost.findings import pages
    from radoboost.findings.about_release import about_release
    from radoboost.findings.signing import AttackResult, report_marks

    name = Path(inputs.path).name
    about = about_release(inputs.release, name)
    pages.written(
        place,
        "attacks.html",
        [attempt.document for group in made.groups for attempt in group.attempts if attempt.document is not None],
        title=f"What an adversary gets from {name}",
        lead=_lead(inputs.release),
        about=about,
        verdict=made.verdict,
        groups=made.groups,
        marks=report_marks(
            about.digest, made.verdict, [AttackResult(one.title, one.group, one.sentence) for one in made.attempts]
        ),
    )


def _lead(release: Release) -> str:
    batches = first_batch_notice(release)
    return _LEAD + ("" if batches is None else f" Of several batches, {batches}.")
