"""What a page about a release says before anything else: verdict, plain words, the statement, pictures, the digest."""

from dataclasses import dataclass
from pathlib import Path

from radoboost.findings.matrices import MatrixPicture, release_pictures
from radoboost.release import Release
from radoboost.release.plain_words import Answer, Verdict, answers, full_statement, verdict_of
from radoboost.release.tilted import is_tilted
from radoboost.release.words import held_in_words

_SHOWN_CLASSES = 12


@dataclass(frozen=True)
class AboutRelease:
    """A release for people: `facts` are what the file holds, by their names."""

    name: str
    verdict: Verdict
    answers: tuple[Answer, ...]
    statement: dict[str, list[str]]
    facts: dict[str, str]
    pictures: tuple[MatrixPicture, ...]
    digest: str


def about_release(release: Release, name: str) -> AboutRelease:
    """What to say of a release whose file is called `name`; reading it has held it against itself."""
    n_rados = sum(release.signatures["batches"]) if is_tilted(release) else release.n_rados
    classes = ", ".join(str(value) for value in release.classes[:_SHOWN_CLASSES])
    more = ", ..." if release.n_classes > _SHOWN_CLASSES else ""
    facts = {
        "name": name,
        "holds": f"{held_in_words(n_rados)} of {len(release.columns):,} columns",
        "classes": f"{release.n_classes:,}: {classes}{more}",
        "mechanism": release.statement.mechanism,
        "rows of the table": "not told" if release.n_examples is None else f"{release.n_examples:,}",
    }
    statement = release.statement
    return AboutRelease(
        name,
        verdict_of(statement),
        answers(release),
        full_statement(statement),
        facts,
        release_pictures(release),
        release.digest or "none: the release was not saved yet",
    )


def write_release_page(release: Release, place: Path, *, name: str, command: str) -> None:
    """One HTML page about a release, which holds everything that it shows; `name` is that of its file."""
    from radoboost.findings import pages

    title = f"What {name} promises"
    pages.written(place, "release.html", title=title, about=about_release(release, name), command=command)
