"""rado sign-off: an officer's decision about a release, as a page."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.options import check_page, default_output, say
from radoboost.errors import ArgumentError, OutputError


def _complete_decision(incomplete: str) -> list[str]:
    from radoboost.report.sign_off import DECISIONS

    return [name for name in DECISIONS if name.startswith(incomplete)]


def sign_off(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    officer: Annotated[str, typer.Option(metavar="NAME", help="Who decides.")],
    decision: Annotated[
        str,
        typer.Option(
            metavar="D",
            autocompletion=_complete_decision,
            help="approve, approve-within (the conditions in the remarks) or refuse.",
        ),
    ],
    remarks: Annotated[str, typer.Option(metavar="TEXT", help="Remarks, which the page shows as they are.")] = "",
    day: Annotated[str, typer.Option("--date", metavar="YYYY-MM-DD", help="The day; today by default.")] = "",
    report: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="The page of rado attack report about this release, to be named."),
    ] = None,
    confirm: Annotated[
        str,
        typer.Option(metavar="TEXT", help='"no promise", to approve a release that promises nothing; else it asks.'),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="The page; STEM.signoff.html by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a page that is there.")] = False,
) -> None:
    """Write an officer's decision about a release as one page, with its verdict, statement and digest.

    The page is for people to keep. It is not signed in the sense of cryptography. It runs no attack: with --report it
    says which attacks ran and what they got, and else "none". To approve a release that promises nothing, you must type
    "no promise".

    \b
    Examples:
      rado sign-off patients.rado.parquet --officer "A. Smith" --decision approve
      rado sign-off patients.rado.parquet --officer "A. Smith" --decision refuse --remarks "No promise."
      rado sign-off plain.rado.parquet --officer "A. Smith" --decision approve --confirm "no promise"
    """
    import radoboost as rb
    from radoboost.report.sign_off import NO_PROMISE, SignOff, must_confirm, write_sign_off

    place = output or default_output(str(release), "signoff.html")
    signed = SignOff(officer, decision, remarks, day)
    sources = [str(release), *([] if report is None else [str(report)])]
    keep_sign_off(place, force)
    check_page(place, sources, "-o", force=force)
    loaded = rb.load(release)
    if must_confirm(loaded, decision):
        if not confirm and sys.stdin is not None and sys.stdin.isatty():
            confirm = typer.prompt(f'{release.name} promises nothing. To approve it, type "{NO_PROMISE}"', err=True)
        if confirm.strip() != NO_PROMISE:
            raise ArgumentError(f'{release.name} promises nothing; to approve it, give --confirm "{NO_PROMISE}"')
        signed = replace(signed, confirmed=NO_PROMISE)
    line = sign_off_command(release, signed, place, report, force)
    write_sign_off(loaded, signed, place, name=release.name, command=shlex.join(line), report=report)
    say(f"wrote {place}")


def keep_sign_off(
    place: Path, force: bool, advice: str = "choose another place with -o, or write over it with --force"
) -> None:
    """Refuse to write over any file that is there, for a sign-off is kept."""
    if not force and os.path.lexists(place):
        raise OutputError(f"{place.name} is there; {advice}")


def sign_off_command(release: Path, signed: object, place: Path, report: Path | None, force: bool) -> list[str]:
    """The words of the command that makes the same page."""
    from radoboost.report.sign_off import SignOff

    assert isinstance(signed, SignOff)
    words = ["rado", "sign-off", str(release), "--officer", signed.officer, "--decision", signed.decision]
    words += ["--remarks", signed.remarks] if signed.remarks else []
    words += ["--confirm", signed.confirmed] if signed.confirmed else []
    words += ["--date", signed.date]
    words += [] if report is None else ["--report", str(report)]
    return [*words, "-o", str(place), *(["--force"] if force else [])]
