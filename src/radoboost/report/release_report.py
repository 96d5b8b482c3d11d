"""What a page about a release says before anything else: verdict, plain words, the statement, pictures, the digest."""

from dataclasses import dataclass
from pathlib import Path

from radoboost.release import statement_text
from radoboost.release.release import Release
from radoboost.report.plots import MatrixPicture, plot_release_matrices

_SHOWN_CLASSES = 12


@dataclass(frozen=True)
class ReleaseReport:
    """A release for people: `facts` are what the file holds, by their names."""

    name: str
    verdict: statement_text.Verdict
    answers: tuple[statement_text.FaqAnswer, ...]
    statement: dict[str, list[str]]
    facts: dict[str, str]
    pictures: tuple[MatrixPicture, ...]
    digest: str


def make_release_report(release: Release, name: str) -> ReleaseReport:
    """What to say of a release whose file is called `name`; reading it has held it against itself."""
    classes = ", ".join(str(value) for value in release.classes[:_SHOWN_CLASSES])
    more = ", ..." if release.n_classes > _SHOWN_CLASSES else ""
    facts = {
        "name": name,
        "holds": f"{statement_text.release_content_text(release.n_rados)} of {len(release.columns):,} columns",
        "classes": f"{release.n_classes:,}: {classes}{more}",
        "mechanism": release.statement.mechanism,
        "rows of the table": "not told" if release.n_examples is None else f"{release.n_examples:,}",
    }
    statement = release.statement
    return ReleaseReport(
        name,
        statement_text.verdict_of(statement),
        statement_text.faq_answers(release),
        statement_text.full_statement_text(statement),
        facts,
        plot_release_matrices(release),
        release.digest or "none: the release was not saved yet",
    )


def write_release_page(release: Release, place: Path, *, name: str, command: str) -> None:
    """One HTML page about a release, which holds everything that it shows; `name` is that of its file."""
    from radoboost.report import html

    title = f"What {name} promises"
    html.write_html_page(place, "release.html", title=title, about=make_release_report(release, name), command=command)
