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
from radoboost.release.laws import NOISY_MOMENTS
from radoboost.release.words import held_in_words

HERE = "On this release"
DEFAULT_SECONDS = 20.0
_TWO_CLASSES = "Does not apply: it is for two classes, and the release has {}."
_NO_SUMS = "Does not apply: the release has noisy moments, and no rados that are sums over its records."
_MOST_DRAWN = 2000  # records; with more the picture of how many rados give them back is left out


@dataclass(frozen=True)
class Given:
    """The release that the page is about, and what the adversary knows: a table, a seed, a row but for one bit."""

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
    inputs: Given, place: Path, *, seconds: float = DEFAULT_SECONDS, bar: Progress = silent
) -> dict[str, dict[str, str]]:
    """Run every attack on a release, and write one HTML page; returns what was assumed and found, by attack.

    Each attack has `seconds`, and as many for the picture of where it stops on made-up tables.
    """
    from radoboost.findings import pages

    deadline(seconds)  # refuses a wrong time limit before any attack runs
    if inputs.table is not None:
        table_edges(
            inputs.release, inputs.table, label=inputs.label
        )  # refuses a table that does not go with the release
    documents = []
    for done, name in enumerate(ATTACKS):
        bar("attacks", done, len(ATTACKS))
        documents.append(_part(name, inputs, seconds))
    answers = {name: dict(part.said or {}) for name, part in zip(ATTACKS, documents, strict=True)}
    rows = [[part.findings.title, *words.values()] for part, words in zip(documents, answers.values(), strict=True)]
    cover = pages.Cover(
        _title(inputs),
        _about(inputs.release),
        Table("overview", "Attacks on this release", ["attack", "assumed to be known", "found"], rows),
        "The statement of the release",
        _statement(inputs.release),
    )
    with replacing(place) as draft:
        draft.write_text(pages.page(documents, cover), "utf-8")
    return answers


def _title(inputs: Given) -> str:
    return f"What an adversary gets from {Path(inputs.path).name}"


def _about(release: Release) -> str:
    statement = release.statement
    epsilon = (
        f"epsilon {rounded_up(statement.epsilon, 4)} at delta {statement.delta:g} ({statement.neighbours})"
        if statement.epsilon < float("inf")
        else "nothing: its epsilon is infinite"
    )
    what = held_in_words(release.n_rados).capitalize()
    classes = "" if release.n_classes == 2 else f" and {release.n_classes} classes"
    return (
        f"{what} of {len(release.columns):,} columns{classes}, by the mechanism {statement.mechanism}, which "
        f"promises {epsilon}. Below is each attack with what the adversary was assumed to know, what it got from this "
        "release, and how far it gets on made-up tables of other sizes. An attack that fails proves nothing; the "
        "statement of the release is what is promised."
    )


def _statement(release: Release) -> dict[str, list[str]]:
    """All that the release says of itself, as `rado show` does."""
    from radoboost.release.words import statement_in_words

    statement = release.statement
    how = {
        "accountant": statement.accountant,
        "trust": statement.trust_model,
        "random bits": statement.random_source,
    }
    return statement_in_words(statement) | {"How it was made": [f"{what}: {text}" for what, text in how.items()]}


def _part(name: str, inputs: Given, seconds: float) -> Document:
    module = import_module(f"radoboost.{ATTACKS[name]}")
    start = time.monotonic()
    try:
        command, sentence, findings = _TRIED[name](inputs, seconds)
    except (ArgumentError, ReleaseError, TableError) as error:
        command, sentence, findings = inputs.command(name), f"Did not work: {error}.", None
    if findings is None:
        findings = Findings(name, module.TITLE) if name == "reconstruct" else _study(name, module.TITLE, seconds)
    paragraphs = {ASSUMED: module.ASSUMES, HERE: sentence}
    return document(command, time.monotonic() - start, {"seconds": seconds}, findings, paragraphs)


def _study(name: str, title: str, seconds: float) -> Findings:
    """How far an attack gets on made-up tables, or a note that this machine lacks what that needs."""
    try:
        return run_study(name, quick=True, seconds=seconds).findings
    except ArgumentError as error:
        return Findings(name, title, notes=[f"How far it gets on made-up tables was not tried: {error}."])


Tried = tuple[str, str, Findings | None]  # the command, the sentence, and findings of its own instead of a study's


def _reconstruct(inputs: Given, seconds: float) -> Tried:
    from radoboost.adversary.reconstruction import NAME, TITLE, reconstruct

    command = inputs.command(NAME, *inputs.of_seed())
    if inputs.seed is None:
        return command, f"Not tried: no seed was given. {_source(inputs.release)}", None
    result = reconstruct(inputs.release, inputs.seed, inputs.rows, seconds=seconds)
    numbers = [(key, value) for key, value in result.to_dict().items() if isinstance(value, int)]
    counts = Table("counts", "What is determined", ["what", "number"], [[key, value] for key, value in numbers])
    return command, result.sentence(), Findings(NAME, TITLE, tables=[counts], figures=_growth(inputs, seconds))


def _growth(inputs: Given, seconds: float) -> list[Figure]:
    """How many records the first so many rados give away."""
    import numpy as np

    from radoboost.adversary.known import inclusion_bits, n_examples, rado_integers
    from radoboost.adversary.reconstruction import solve_integers

    release, left = inputs.release, deadline(seconds)
    m = n_examples(release, inputs.rows)
    assert inputs.seed is not None
    if m > _MOST_DRAWN or release.law == "banded sums":
        return []
    inside, rados = inclusion_bits(release, inputs.seed, m), rado_integers(release)[:, :1]
    sizes, shares = sorted({int(n) for n in np.geomspace(1, len(rados), 16)}), []
    for n in sizes:
        if left() <= 0:
            break
        solution = solve_integers(inside[:n], rados[:n], seconds=max(left(), 1e-3))
        shares.append(None if solution.rank is None else 100 * float(solution.found.mean()))
    panel = Panel(
        "", "rados used", "records got back, %", [Series("records", sizes[: len(shares)], shares)], log_x=True
    )
    caption = f"Share of the {m:,} records that the first so many rados and the seed determine."
    return [Figure("growth", "Records got back, by rados", caption, [panel])]


def _source(release: Release) -> str:
    return f"The statement says of the signatures: {release.statement.random_source}"


def _linear(inputs: Given, seconds: float) -> Tried:
    from radoboost.adversary.linear import NAME, TITLE, linear

    column, n_classes = inputs.release.feature_names[-1], inputs.release.n_classes
    command = inputs.command(NAME, *inputs.of_seed(), *([] if column == CONSTANT else ["--column", column]))
    if n_classes > 2:
        return command, _TWO_CLASSES.format(n_classes), Findings(NAME, TITLE)
    if inputs.seed is None:
        return command, f"Not tried: no seed was given. {_source(inputs.release)}", None
    return command, linear(inputs.release, inputs.seed, inputs.rows, column, seconds=seconds).sentence(), None


def _probe(inputs: Given, seconds: float) -> Tried:
    from radoboost.adversary.probe import NAME, probe

    if inputs.table is None:
        return inputs.command(NAME, "--table", "CLIENTS"), "Not tried: no table was given.", None
    result = probe(inputs.release, inputs.table, label=inputs.label, seconds=seconds)
    return inputs.command(NAME, *inputs.of_table()), result.sentence(), None


def _leak(inputs: Given, seconds: float) -> Tried:
    from radoboost.adversary.joint_leak import NAME, TITLE, leak

    if inputs.release.law != "banded sums":
        sentence = "Does not apply: the release is not of the mechanism feature-band."
        return (
            inputs.command(NAME),
            sentence,
            Findings(NAME, TITLE),
        )  # and no study, which would say nothing of this release
    if inputs.table is None:
        return inputs.command(NAME, "--table", "TABLE"), "Not tried: no table was given.", None
    result = leak(inputs.release, inputs.table, label=inputs.label, row=inputs.row, seconds=seconds)
    return inputs.command(NAME, *inputs.of_table(), "--row", str(inputs.row)), result.sentence(), None


def _membership(inputs: Given, seconds: float) -> Tried:
    from radoboost.adversary.membership import NAME, TITLE, membership_of
    from radoboost.adversary.membership.findings import membership_findings

    if inputs.release.n_classes > 2 and inputs.release.law != NOISY_MOMENTS:
        return inputs.command(NAME), _TWO_CLASSES.format(inputs.release.n_classes), Findings(NAME, TITLE)
    result = membership_of(inputs.release, seconds=seconds)
    return inputs.command(NAME), result.sentence(), membership_findings(NAME, TITLE, [(result.mechanism, result)])


def _confounder(inputs: Given, seconds: float) -> Tried:
    from radoboost.paper.hardness.confounder import NAME, TITLE, confound

    if inputs.release.law == NOISY_MOMENTS:
        return inputs.command(NAME), _NO_SUMS, Findings(NAME, TITLE)
    if inputs.release.n_classes > 2:
        return inputs.command(NAME), _TWO_CLASSES.format(inputs.release.n_classes), Findings(NAME, TITLE)
    if inputs.table is None:
        return inputs.command(NAME, "--table", "TABLE"), "Not tried: no table was given.", None
    edges = own_edges(inputs.release, inputs.table, label=inputs.label)
    result = confound(inputs.release, edges, seconds=seconds)
    none = "No other data set in the same ball was found."
    return inputs.command(NAME, *inputs.of_table()), none if result is None else result.sentence(), None


def _hardness(inputs: Given, seconds: float) -> Tried:
    from radoboost.paper.hardness.solver_limits import NAME, TITLE

    command = "rado attack study hardness --quick"
    if inputs.release.law == NOISY_MOMENTS:
        return command, _NO_SUMS, Findings(NAME, TITLE)
    m = inputs.release.n_examples
    size = "does not say how many records it is from" if m is None else f"is from {m:,} records"
    sentence = f"Not tried on this release, which {size}: the picture shows how far an exact solver gets in general."
    return command, sentence, None


_TRIED: dict[str, Callable[[Given, float], Tried]] = {
    "reconstruct": _reconstruct,
    "linear": _linear,
    "probe": _probe,
    "leak": _leak,
    "membership": _membership,
    "confounder": _confounder,
    "hardness": _hardness,
}
