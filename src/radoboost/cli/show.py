"""rado show: what a file is."""

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from radoboost.cli import options
from radoboost.cli.options import argument, option, output_option
from radoboost.errors import ArgumentError, OutputError


def show(
    file: Annotated[Path, argument("RELEASE|MODEL", "A release or a model.")],
    as_json: options.JsonFlag = False,
    html: Annotated[
        Path | None, option("--html PAGE", "Write a page: what a release promises and holds, or what a model does.")
    ] = None,
    event: Annotated[
        str | None,
        option(
            "--event FORM",
            "Only what was done, for accountants: json, or dp-accounting, which is Python for that library.",
        ),
    ] = None,
    force: options.ForceFlag = False,
) -> None:
    """Show what a release or a model is, what is promised and what is not.

    \b
    Examples:
      rado show patients.rado.parquet
      rado show patients.rado.parquet --html patients.html
      rado show patients.model.json --json
      rado show patients.model.json --html patients.html
      rado show patients.rado.parquet --event dp-accounting
    """
    import radoboost as rb

    content = rb.load_model(file) if _is_model_file(file) else rb.load(file)
    if html is not None:
        _write_show_page(content, file, html, force)
    if event is not None:
        print(_event_as_text(content.statement, event))
    elif isinstance(content, rb.Model):
        options.print_model(content, file, as_json, str(file), whole=True)
    else:
        options.print_release(content, file, as_json, str(file), whole=True)


def _write_show_page(content: Any, file: Path, place: Path, force: bool) -> None:
    """One page on what a release promises and holds, or on what a model does."""
    from radoboost.release.release import Release
    from radoboost.report.effects_report import write_effects_page
    from radoboost.report.release_report import write_release_page

    options.check_page_path(place, [str(file)], "--html", force=force)
    write: Any = write_release_page if isinstance(content, Release) else write_effects_page
    write(content, place, name=file.name, command=shlex.join(["rado", "show", str(file), "--html", str(place)]))
    options.say_on_stderr(f"wrote {place}")


def _event_as_text(statement: Any, form: str) -> str:
    from radoboost.privacy import dp_accounting_text, event_from_dict

    if form not in ("json", "dp-accounting"):
        raise ArgumentError(f"--event must be json or dp-accounting; it is {form!r}")
    if statement is None:
        raise ArgumentError("this model was learned from examples, and has no statement; show a release instead")
    if form == "json":
        return json.dumps(dict(statement.event), indent=2, ensure_ascii=False)
    return dp_accounting_text(event_from_dict(statement.event))


def _is_model_file(path: Path) -> bool:
    """Whether a file is to be read as a model: its first character opens a JSON object."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False  # reading it as a release says what is wrong


# ---- rado sign-off: an officer's decision about a release, as a page.


def _complete_sign_off_decision(incomplete: str) -> list[str]:
    from radoboost.report.sign_off import DECISIONS

    return [name for name in DECISIONS if name.startswith(incomplete)]


def sign_off(
    release: Annotated[Path, argument("RELEASE", "A release file.")],
    officer: Annotated[str, option("--officer NAME", "Who decides.")],
    decision: Annotated[
        str,
        option(
            "--decision D",
            "approve, approve-within (the conditions in the remarks) or refuse.",
            complete=_complete_sign_off_decision,
        ),
    ],
    remarks: Annotated[str, option("--remarks TEXT", "Remarks, which the page shows as they are.")] = "",
    day: Annotated[str, option("--date YYYY-MM-DD", "The day; today by default.")] = "",
    report: Annotated[
        Path | None, option("--report PAGE", "The page of rado attack report about this release, to be named.")
    ] = None,
    confirm: Annotated[
        str, option("--confirm TEXT", '"no promise", to approve a release that promises nothing; else it asks.')
    ] = "",
    output: Annotated[Path | None, output_option("The page; STEM.signoff.html by default.")] = None,
    force: options.ForceFlag = False,
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

    place = output or options.default_output_path(str(release), "signoff.html")
    signed = SignOff(officer, decision, remarks, day)
    sources = [str(release), *([] if report is None else [str(report)])]
    keep_sign_off(place, force)
    options.check_page_path(place, sources, "-o", force=force)
    loaded = rb.load(release)
    if must_confirm(loaded, decision):
        if not confirm and sys.stdin is not None and sys.stdin.isatty():
            confirm = typer.prompt(f'{release.name} promises nothing. To approve it, type "{NO_PROMISE}"', err=True)
        if confirm.strip() != NO_PROMISE:
            raise ArgumentError(f'{release.name} promises nothing; to approve it, give --confirm "{NO_PROMISE}"')
        signed = replace(signed, confirmed=NO_PROMISE)
    line = sign_off_command(release, signed, place, report, force)
    write_sign_off(loaded, signed, place, name=release.name, command=shlex.join(line), report=report)
    options.say_on_stderr(f"wrote {place}")


def keep_sign_off(
    place: Path, force: bool, advice: str = "choose another place with -o, or write over it with --force"
) -> None:
    """Refuse to write over any file that is there, for a sign-off is kept."""
    if not force and os.path.lexists(place):
        raise OutputError(f"{place.name} is there; {advice}")


def sign_off_command(release: Path, signed: object, place: Path, report: Path | None, force: bool) -> list[str]:
    from radoboost.report.sign_off import SignOff

    assert isinstance(signed, SignOff)
    words = ["rado", "sign-off", str(release), "--officer", signed.officer, "--decision", signed.decision]
    words += ["--remarks", signed.remarks] if signed.remarks else []
    words += ["--confirm", signed.confirmed] if signed.confirmed else []
    words += ["--date", signed.date]
    words += [] if report is None else ["--report", str(report)]
    return [*words, "-o", str(place), *(["--force"] if force else [])]
