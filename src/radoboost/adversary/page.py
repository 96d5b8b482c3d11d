"""One page about one release: what each attack gets from it, what that assumes, and where the attack stops."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from radoboost.adversary import ATTACKS
from radoboost.adversary.known import deadline, own_edges, table_edges
from radoboost.adversary.studies import ASSUMED, run_study
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.findings import Figure, Findings, Panel, Series, Table
from radoboost.findings.documents import Document, document
from radoboost.progress import Progress, silent
from radoboost.release import Release, replacing, rounded_up
from radoboost.release.columns import CONSTANT

HERE = "On this release"
DEFAULT_SECONDS = 20.0
_MOST_DRAWN = 2000  # records of which to draw how many rados it takes to get them


@dataclass(frozen=True)
class Given:
    """What the page is about, and what its reader lets the adversary know: a table, a seed, a row with one bit less."""

    release: Release
    path: str
    table: Any = None
    label: str | None = None
    seed: int | None = None
    rows: int | None = None
    row: int = 0

    def command(self, name: str, *options: str) -> str:
        """The command that runs an attack on this release."""
        return shlex.join(["rado", "attack", name, self.path, *options])

    def of_seed(self) -> list[str]:
        """The options of attacks that know the signatures."""
        rows = [] if self.rows is None else ["--rows", str(self.rows)]
        return ["--seed", "K" if self.seed is None else str(self.seed), *rows]

    def of_table(self) -> list[str]:
        """The options that name the table."""
        files = self.table if isinstance(self.table, list) else [str(self.table)]
        return [word for file in files for word in ("--table", file)] + ["--label", str(self.label)]


def report(
    given: Given, place: Path, *, seconds: float = DEFAULT_SECONDS, bar: Progress = silent
) -> dict[str, dict[str, str]]:
    """Attack a release in every way there is, and write one HTML page; gives what was assumed and found, by attack.

    Each attack has `seconds`, and as many for the picture of where it stops on made-up tables.
    """
    from radoboost.findings import pages

    deadline(seconds)  # refuses a limit that is none
    if given.table is not None:
        table_edges(given.release, given.table, label=given.label)  # refuses a table that does not go with the release
    documents = []
    for done, name in enumerate(ATTACKS):
        bar("attacks", done, len(ATTACKS))
        documents.append(_part(name, given, seconds))
    said = {name: dict(part.said or {}) for name, part in zip(ATTACKS, documents, strict=True)}
    rows = [[part.findings.title, *words.values()] for part, words in zip(documents, said.values(), strict=True)]
    cover = pages.Cover(
        _title(given),
        _about(given.release),
        Table("overview", "Attacks on this release", ["attack", "assumed to be known", "found"], rows),
        "The statement of the release",
        _statement(given.release),
    )
    with replacing(place) as beside:
        beside.write_text(pages.page(documents, cover), "utf-8")
    return said


def _title(given: Given) -> str:
    return f"What an adversary gets from {Path(given.path).name}"


def _about(release: Release) -> str:
    statement = release.statement
    epsilon = (
        f"epsilon {rounded_up(statement.epsilon, 4)} at delta {statement.delta:g} ({statement.neighbours})"
        if statement.epsilon < float("inf")
        else "nothing: its epsilon is infinite"
    )
    return (
        f"{release.n_rados:,} rados of {len(release.columns):,} columns, by the mechanism {statement.mechanism}, which "
        f"promises {epsilon}. Below is each attack with what the adversary was assumed to know, what it got from this "
        "release, and how far it gets on made-up tables of other sizes. An attack that fails proves nothing; the "
        "statement of the release is what is promised."
    )


def _statement(release: Release) -> dict[str, list[str]]:
    """All that the release says of itself, as `rado show` does."""
    from radoboost.describe import statement_in_words

    statement = release.statement
    how = {
        "accountant": statement.accountant,
        "trust": statement.trust_model,
        "random bits": statement.random_source,
    }
    return statement_in_words(statement) | {"How it was made": [f"{what}: {said}" for what, said in how.items()]}


def _part(name: str, given: Given, seconds: float) -> Document:
    module = import_module(f"radoboost.{ATTACKS[name]}")
    begun = time.monotonic()
    try:
        command, sentence, findings = _TRIED[name](given, seconds)
    except (ArgumentError, ReleaseError, TableError) as error:
        command, sentence, findings = given.command(name), f"Did not work: {error}.", None
    if findings is None:
        findings = Findings(name, module.TITLE) if name == "reconstruct" else _study(name, module.TITLE, seconds)
    said = {ASSUMED: module.ASSUMES, HERE: sentence}
    return document(command, time.monotonic() - begun, {"seconds": seconds}, findings, said)


def _study(name: str, title: str, seconds: float) -> Findings:
    """How far an attack gets on made-up tables; a note says so where this machine lacks what that needs."""
    try:
        return run_study(name, quick=True, seconds=seconds).findings
    except ArgumentError as error:
        return Findings(name, title, notes=[f"How far it gets on made-up tables was not tried: {error}."])


Tried = tuple[str, str, Findings | None]  # the command, the sentence, and findings of its own instead of a study's


def _reconstruct(given: Given, seconds: float) -> Tried:
    from radoboost.adversary.reconstruction import NAME, TITLE, reconstruct

    command = given.command(NAME, *given.of_seed())
    if given.seed is None:
        return command, f"Not tried: no seed was given. {_source(given.release)}", None
    result = reconstruct(given.release, given.seed, given.rows, seconds=seconds)
    numbers = [(key, value) for key, value in result.to_dict().items() if isinstance(value, int)]
    counts = Table("counts", "What is determined", ["what", "number"], [[key, value] for key, value in numbers])
    return command, result.sentence(), Findings(NAME, TITLE, tables=[counts], figures=_growth(given, seconds))


def _growth(given: Given, seconds: float) -> list[Figure]:
    """How many records the first so many rados give away."""
    import numpy as np

    from radoboost.adversary.known import inclusion_bits, n_examples, rado_integers
    from radoboost.adversary.reconstruction import solve_integers

    release, left = given.release, deadline(seconds)
    m = n_examples(release, given.rows)
    assert given.seed is not None
    if m > _MOST_DRAWN or release.law == "banded sums":
        return []
    inside, rados = inclusion_bits(release, given.seed, m), rado_integers(release)[:, :1]
    sizes, shares = sorted({int(n) for n in np.geomspace(1, len(rados), 16)}), []
    for n in sizes:
        if left() <= 0:
            break
        solution = solve_integers(inside[:n], rados[:n], seconds=max(left(), 1e-3))
        shares.append(None if solution.rank is None else 100 * float(solution.found.mean()))
    drawn = Panel(
        "", "rados used", "records got back, %", [Series("records", sizes[: len(shares)], shares)], log_x=True
    )
    caption = f"Share of the {m:,} records that the first so many rados and the seed determine."
    return [Figure("growth", "Records got back, by rados", caption, [drawn])]


def _source(release: Release) -> str:
    return f"The statement says of the signatures: {release.statement.random_source}"


def _linear(given: Given, seconds: float) -> Tried:
    from radoboost.adversary.linear import NAME, linear

    column = given.release.feature_names[-1]
    command = given.command(NAME, *given.of_seed(), *([] if column == CONSTANT else ["--column", column]))
    if given.seed is None:
        return command, f"Not tried: no seed was given. {_source(given.release)}", None
    return command, linear(given.release, given.seed, given.rows, column, seconds=seconds).sentence(), None


def _probe(given: Given, seconds: float) -> Tried:
    from radoboost.adversary.probe import NAME, probe

    if given.table is None:
        return given.command(NAME, "--table", "CLIENTS"), "Not tried: no table was given.", None
    result = probe(given.release, given.table, label=given.label, seconds=seconds)
    return given.command(NAME, *given.of_table()), result.sentence(), None


def _leak(given: Given, seconds: float) -> Tried:
    from radoboost.adversary.joint_leak import NAME, TITLE, leak

    if given.release.law != "banded sums":
        sentence = "Does not apply: the release is not of the mechanism feature-band."
        return given.command(NAME), sentence, Findings(NAME, TITLE)  # no study of it: it says nothing of this release
    if given.table is None:
        return given.command(NAME, "--table", "TABLE"), "Not tried: no table was given.", None
    result = leak(given.release, given.table, label=given.label, row=given.row, seconds=seconds)
    return given.command(NAME, *given.of_table(), "--row", str(given.row)), result.sentence(), None


def _membership(given: Given, seconds: float) -> Tried:
    from radoboost.adversary.membership import NAME, TITLE, membership_of
    from radoboost.adversary.membership.findings import membership_findings

    result = membership_of(given.release, seconds=seconds)
    return given.command(NAME), result.sentence(), membership_findings(NAME, TITLE, [(result.mechanism, result)])


def _confounder(given: Given, seconds: float) -> Tried:
    from radoboost.paper.hardness.confounder import NAME, confound

    if given.table is None:
        return given.command(NAME, "--table", "TABLE"), "Not tried: no table was given.", None
    edges = own_edges(given.release, given.table, label=given.label)
    result = confound(given.release, edges, seconds=seconds)
    none = "No other data set in the same ball was found."
    return given.command(NAME, *given.of_table()), none if result is None else result.sentence(), None


def _hardness(given: Given, seconds: float) -> Tried:
    m = given.release.n_examples
    size = "does not say how many records it is from" if m is None else f"is from {m:,} records"
    sentence = f"Not tried on this release, which {size}: the picture shows how far an exact solver gets in general."
    return "rado attack study hardness --quick", sentence, None


_TRIED: dict[str, Callable[[Given, float], Tried]] = {
    "reconstruct": _reconstruct,
    "linear": _linear,
    "probe": _probe,
    "leak": _leak,
    "membership": _membership,
    "confounder": _confounder,
    "hardness": _hardness,
}
