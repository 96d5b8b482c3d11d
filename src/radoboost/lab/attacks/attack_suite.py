"""Every attack on one release: with what it got, without a result, not for such a release, or what it would need."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.lab.attacks import ASSUMED, ATTACKS, adversary_knowledge, run_attack_study
from radoboost.lab.attacks.exact_reconstruction import Reconstruction
from radoboost.lab.attacks.membership import Membership, membership_findings
from radoboost.lab.audits import program_audit
from radoboost.lab.audits.exact_audit import ExactAudit
from radoboost.progress import Progress, silent
from radoboost.release.columns import CONSTANT
from radoboost.release.kind import LAWS, NOISY_MOMENTS, SUMS
from radoboost.release.release import Release, Statement
from radoboost.release.statement_text import NONE, WRONG, Verdict, out_of_hundred, promise_text, verdict_of
from radoboost.report.documents import Document, make_document
from radoboost.report.findings import Figure, Findings, Panel, ReportTable, Series
from radoboost.report.sign_off import AUDITED, TRIED

HERE = "On this release"
FAILED, NOT_HERE, NEEDS = "No result", "Does not apply", "Would need more"
GROUPS = {
    TRIED: "Tried, with what it got",
    AUDITED: "An audit of the program, not of this file",
    FAILED: "Begun, and ended without a result",
    NEEDS: "Not tried, for an adversary would need more than the file",
    NOT_HERE: "Does not apply to such a release",
}
_BANDED, _NOISY_SUMS = "banded sums", "noisy sums"
_FOR = {  # the laws that an attack is for
    "reconstruct": (SUMS, _BANDED),
    "linear": (SUMS, _NOISY_SUMS),
    "probe": (SUMS, _BANDED),
    "leak": (_BANDED,),
    "membership": tuple(law for law in LAWS if law != "pooled sums"),
    "confounder": (SUMS, _BANDED),
    "hardness": (SUMS, _BANDED),
}
_SEVERAL_CLASSES = ("reconstruct", "probe", "leak", "hardness")
_MOST_DRAWN = 2000  # records; with more the picture of how many rados give them back is left out
_OF_PERSONS = "The release is about persons, by {!r}, and this attack is on a single record: it would show nothing."
MISTRUST = "do not trust it"  # ends what an attack says of a release that contradicts itself
_SEED = (
    "It would need the seed of the signatures, which says which record is in which rado. The statement says of it: {}"
)
_TABLE = "It would need {}, to compare with."


@dataclass(frozen=True)
class AttackInputs:
    """The release that the page is about, and what the adversary knows: a table, a seed, a row but for one bit.

    `path`, and `named` where it is given, are what commands call the release and the table.
    """

    release: Release
    path: str
    table: Any = None
    label: str | None = None
    seed: int | None = None
    rows: int | None = None
    row: int = 0
    named: str | None = None

    def command(self, name: str, *options: str) -> str:
        return shlex.join(["rado", "attack", name, self.path, *options])

    def of_seed(self) -> list[str]:
        rows = [] if self.rows is None else ["--set", f"rows={self.rows}"]
        return ["--seed", "K" if self.seed is None else str(self.seed), *rows]

    def of_table(self) -> list[str]:
        files = self.table if isinstance(self.table, list) else [str(self.table)]
        files = files if self.named is None else [self.named]
        return [word for file in files for word in ("--table", file)] + ["--label", str(self.label)]


@dataclass(frozen=True)
class AttackOutcome:
    """One attack on a release: its group, a sentence on what it got, or why it got nothing, and its findings.

    `assumes` is what the adversary is assumed to know. `result` is what the attack returned, where it ran; `document`
    is None where there is nothing to show.
    """

    name: str
    title: str
    group: str
    sentence: str
    assumes: str
    document: Document | None = None
    result: Any = None

    def to_dict(self) -> dict[str, str]:
        return {"group": self.group, ASSUMED: self.assumes, HERE: _sentence_of_group(self.group, self.sentence)}


def _sentence_of_group(group: str, sentence: str) -> str:
    first = {TRIED: "", AUDITED: "", FAILED: "No result: ", NOT_HERE: "Does not apply: ", NEEDS: "Not tried: "}[group]
    return f"{first}{sentence[0].lower()}{sentence[1:]}" if first else sentence


def run_all_attacks(inputs: AttackInputs, *, seconds: float, bar: Progress = silent) -> list[AttackOutcome]:
    """Run all attacks that there are for a release, and the audit of the program, each within so many seconds.

    None of them fails the others.
    """
    adversary_knowledge.attack_deadline(seconds)  # refuses a wrong time limit before any attack runs
    attempts, count = [], len(ATTACKS) + 1
    for done, module in enumerate([*map(_attack_module, ATTACKS), program_audit]):
        bar("attacks", done, count)

        def step(task: str, part: int, total: int | None, title: str = module.TITLE) -> None:
            bar(f"{title} ({task})", part, total)

        attempt = _audit_as_attempt if module is program_audit else _attempt_attack
        attempts.append(attempt(module, inputs, seconds, step))
    bar("attacks", count, count)
    return attempts


def _attack_module(name: str) -> Any:
    return import_module(ATTACKS[name])


def _audit_as_attempt(module: Any, inputs: AttackInputs, seconds: float, bar: Progress) -> AttackOutcome:
    """The exact audit of the program at the settings of a release, as one more attempt; it is none on the file."""
    release, about = inputs.release, (module.NAME, module.TITLE)
    why = module.why_program_not_audited(release)
    if why is not None:
        return AttackOutcome(*about, NOT_HERE, why, module.ASSUMES)
    start = time.monotonic()
    try:
        result = module.audit_program(release, seconds, bar)
    except (ArgumentError, ReleaseError) as error:
        return AttackOutcome(*about, FAILED, _error_as_sentence(error), module.ASSUMES)
    sentence, findings = module.program_audit_text(release, result), module.program_audit_findings(result)
    paragraphs = {ASSUMED: module.ASSUMES, "At the settings of this release": sentence}
    command = shlex.join(["rado", "attack", "report", inputs.path])
    made = make_document(command, time.monotonic() - start, {"seconds": seconds}, findings, paragraphs)
    return AttackOutcome(*about, AUDITED, sentence, module.ASSUMES, made, result)


def _attempt_attack(module: Any, inputs: AttackInputs, seconds: float, bar: Progress) -> AttackOutcome:
    name, title = module.NAME, module.TITLE
    why = _why_not_attacked(name, inputs.release)
    if why is not None:
        return AttackOutcome(name, title, NOT_HERE, why, module.ASSUMES)
    start = time.monotonic()
    command, group, sentence, findings, result = inputs.command(name), TRIED, "", None, None
    try:
        command, lacking = _COMMANDS[name](inputs)
        if lacking is None:
            result = _RUNS[name](module, inputs, seconds, bar)
            sentence = "No other data set in the same ball was found." if result is None else result.sentence()
            findings = _release_findings(name, title, inputs, result, seconds)
        else:
            group, sentence = NEEDS, lacking
    except adversary_knowledge.NeedsExtra as error:
        group, sentence = NEEDS, f"{error}."
    except (ArgumentError, ReleaseError, TableError) as error:
        sentence = _error_as_sentence(error)
        group = TRIED if MISTRUST in sentence else FAILED
    if findings is None:
        findings = Findings(name, title) if name == "reconstruct" else _study_for_report(name, title, seconds, bar)
    paragraphs = {ASSUMED: module.ASSUMES, HERE: _sentence_of_group(group, sentence)}
    made = make_document(command, time.monotonic() - start, {"seconds": seconds}, findings, paragraphs)
    return AttackOutcome(name, title, group, sentence, module.ASSUMES, made, result)


def _error_as_sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}."


def _why_not_attacked(name: str, release: Release) -> str | None:
    if release.law not in _FOR[name]:
        if name == "leak":
            return "The release is not of the mechanism feature-band."
        if release.law == NOISY_MOMENTS:
            return "The release has noisy moments, and no rados that are sums over its records."
        what = LAWS.get(release.law, "how its numbers were made is not known here")
        return f"It is not for a release in which {what}."
    if name == "membership" and release.mechanism.get("person") is not None:
        return _OF_PERSONS.format(release.mechanism["person"])
    several = name in _SEVERAL_CLASSES or (name == "membership" and release.law == NOISY_MOMENTS)
    if release.n_classes > 2 and not several:
        return f"It is for two classes, and the release has {release.n_classes}."
    return None


def _study_for_report(name: str, title: str, seconds: float, bar: Progress) -> Findings:
    """How far an attack gets on made-up tables, or a note that this machine lacks what that needs."""
    try:
        return run_attack_study(name, quick=True, seconds=seconds, bar=bar).findings
    except ArgumentError as error:
        return Findings(name, title, notes=[f"How far it gets on made-up tables was not tried: {error}."])


# ---- the command of each attack, and what it lacks


Asked = tuple[str, str | None]


def _ask_attack_with_seed(name: str, inputs: AttackInputs, *more: str) -> Asked:
    lacking = None if inputs.seed is not None else _SEED.format(f"{inputs.release.statement.random_source}.")
    return inputs.command(name, *inputs.of_seed(), *more), lacking


def _ask_linear_attack(inputs: AttackInputs) -> Asked:
    column = inputs.release.feature_names[-1]
    return _ask_attack_with_seed("linear", inputs, *([] if column == CONSTANT else ["--set", f"column={column}"]))


def _ask_with_table(name: str, what: str, inputs: AttackInputs, *more: str) -> Asked:
    if inputs.table is None:
        return inputs.command(name, "--table", "TABLE", *more), _TABLE.format(what)
    return inputs.command(name, *inputs.of_table(), *more), None


def _ask_hardness_attack(inputs: AttackInputs) -> Asked:
    m = inputs.release.n_examples
    size = "an unknown number of" if m is None else f"{m:,}"
    return "rado attack study hardness --quick", (
        f"It would need candidates for the {size} records, and a solver of hard problems with time to spare; what is "
        "shown is how far an exact solver gets in general."
    )


_COMMANDS: dict[str, Callable[[AttackInputs], Asked]] = {
    "reconstruct": lambda inputs: _ask_attack_with_seed("reconstruct", inputs),
    "linear": _ask_linear_attack,
    "probe": lambda inputs: _ask_with_table("probe", "a table that holds all rows of the release among others", inputs),
    "leak": lambda inputs: _ask_with_table(
        "leak", "the whole table but for one value of the protected column", inputs, "--set", f"row={inputs.row}"
    ),
    "membership": lambda inputs: (inputs.command("membership"), None),
    "confounder": lambda inputs: _ask_with_table("confounder", "the table that the release was made from", inputs),
    "hardness": _ask_hardness_attack,
}


# ---- each attack


def _release_findings(name: str, title: str, inputs: AttackInputs, result: Any, seconds: float) -> Findings | None:
    """Findings on the release itself, in place of a study's."""
    if name == "membership":
        return membership_findings(name, title, [(result.mechanism, result)])
    if name != "reconstruct":
        return None
    numbers = [[key, value] for key, value in result.to_dict().items() if isinstance(value, int)]
    counts = ReportTable("counts", "What is determined", ["what", "number"], numbers)
    return Findings(name, title, tables=[counts], figures=_attack_growth_figures(inputs, seconds))


def _attack_growth_figures(inputs: AttackInputs, seconds: float) -> list[Figure]:
    import numpy as np

    from radoboost.lab.attacks.adversary_knowledge import known_n_examples, rado_integers, seed_inclusion_bits
    from radoboost.lab.attacks.exact_reconstruction import solve_integers

    release, left = inputs.release, adversary_knowledge.attack_deadline(seconds)
    m = known_n_examples(release, inputs.rows)
    assert inputs.seed is not None
    if m > _MOST_DRAWN or release.law == "banded sums":
        return []
    inside, rados = seed_inclusion_bits(release, inputs.seed, m), rado_integers(release)[:, :1]
    sizes, shares = sorted({int(n) for n in np.geomspace(1, len(rados), 16)}), []
    for n in sizes:
        if left() <= 0:
            break
        solution = solve_integers(inside[:n], rados[:n], seconds=max(left(), 1e-3))
        shares.append(None if solution.rank is None else 100 * float(solution.found.mean()))
    records = [Series("records", sizes[: len(shares)], shares)]
    panel = Panel("", "rados used", "records got back, %", records, log_x=True)
    caption = f"Share of the {m:,} records that the first so many rados and the seed determine."
    return [Figure("growth", "Records got back, by rados", caption, [panel])]


_RUNS: dict[str, Callable[[Any, AttackInputs, float, Progress], Any]] = {
    "reconstruct": lambda m, of, s, bar: m.reconstruct(of.release, of.seed, of.rows, seconds=s),
    "linear": lambda m, of, s, bar: m.recover_release_column(
        of.release, of.seed, of.rows, of.release.feature_names[-1], seconds=s),
    "probe": lambda m, of, s, bar: m.probe_rows_of_table(of.release, of.table, label=of.label, seconds=s, bar=bar),
    "leak": lambda m, of, s, bar: m.leak_protected_bit(
        of.release, of.table, label=of.label, row=of.row, seconds=s, bar=bar),
    "membership": lambda m, of, s, bar: m.membership_of_release(of.release, seconds=s, bar=bar),
    "confounder": lambda m, of, s, bar: m.confound_columns(
        of.release, adversary_knowledge.own_edge_vectors(of.release, of.table, label=of.label), seconds=s),
}  # fmt: skip


# ---- What to think of a release once attacks were tried on it.

_NONE_RAN = "No attack ran on this release, so nothing was put to the test."


def verdict_after(statement: Statement, attempts: list[AttackOutcome]) -> Verdict:
    """The verdict on a release by its statement, and by what attacks got from it."""
    stated, tried = verdict_of(statement), [attempt for attempt in attempts if attempt.group == TRIED]
    audited = [one for one in attempts if isinstance(one.result, ExactAudit)]
    got_back = [one.sentence for one in tried if isinstance(one.result, Reconstruction) and one.result.n_found]
    audits = [one.sentence for one in audited]
    sentences = (*got_back, *stated.sentences, *_attacks_not_tried(attempts), *audits)  # records come before all else
    if not all(one.result.holds for one in audited):
        return Verdict(WRONG, "This program does not keep such a promise: do not trust its releases", sentences)
    refused = next((attempt for attempt in tried if MISTRUST in attempt.sentence), None)
    if refused is not None:
        return Verdict(WRONG, "Contradicted: do not trust this release", (refused.sentence, *sentences))
    measured = next((one.result for one in tried if isinstance(one.result, Membership) and one.result.roc), None)
    if measured is None or measured.roc is None:
        why = [one.sentence for one in attempts if one.name == "membership" and one.group != NEEDS]
        return Verdict(stated.tone, stated.headline, (*([] if tried else [_NONE_RAN]), *why, *sentences))
    got = f"{50 + 50 * measured.roc.advantage:.0f} of 100 times"
    if measured.beats_claim:
        headline = f"Contradicted by an attack: it guesses right {got}, and the statement does not allow that"
        return Verdict(WRONG, headline, (measured.sentence(), *sentences))
    if stated.tone == NONE or measured.claim is None:
        attack = (
            f"Tried on made-up tables of this size, somebody who knows all other records guesses right {got} which of "
            "two records it was; a coin does so 50 of 100 times."
        )
        return Verdict(stated.tone, stated.headline, (attack, *sentences))
    promise = promise_text(statement)
    holds = "holds as far as attacks were tried" if measured.shown_share is not None else "was not put to the test"
    headline = (
        f"{promise[0].upper()}{promise[1:]} {holds}: the best attack guesses right {got}, the promise allows "
        f"{out_of_hundred(statement.best_guess)}"
    )
    few = () if measured.shown_share is not None else ("There was time for too few runs; give the attack more.",)
    return Verdict(stated.tone, headline, (*few, *sentences))


def _attacks_not_tried(attempts: list[AttackOutcome]) -> tuple[str, ...]:
    without = [attempt.title for attempt in attempts if attempt.group == FAILED and attempt.name != "membership"]
    needs = [attempt.title for attempt in attempts if attempt.group == NEEDS]
    return (
        *([f"Begun, and ended without a result: {'; '.join(without)}."] if without else []),
        *([f"Not tried, because it would take more than the file: {'; '.join(needs)}."] if needs else []),
    )


# ---- One page about one release: what to think of it, what each attack gets, what that assumes, and where it stops.

DEFAULT_SECONDS = 20.0
_LEAD = (
    "Each attack with what it got from this release. Below, each has a part of its own with what the adversary was "
    "assumed to know, its command, and how far it gets on made-up tables of other sizes. An attack that fails proves "
    "nothing; the statement of the release is what is promised. The exact audit is of the program, at the settings of "
    "this release: it never sees the file."
)


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    attempts: tuple[AttackOutcome, ...]


@dataclass(frozen=True)
class Report:
    """What attacks on a release came to, and what to think of it."""

    verdict: Verdict
    attempts: list[AttackOutcome]

    @property
    def groups(self) -> list[Group]:
        return [
            Group(name, title, tuple(attempt for attempt in self.attempts if attempt.group == name))
            for name, title in GROUPS.items()
        ]

    def to_dict(self) -> dict[str, dict[str, str]]:
        return {attempt.name: attempt.to_dict() for attempt in self.attempts}


def write_attack_report(
    inputs: AttackInputs, place: Path, *, seconds: float = DEFAULT_SECONDS, bar: Progress = silent
) -> Report:
    """Run every attack that there is for a release, and write one HTML page: the verdict first, then the statement.

    Each attack has `seconds`, and as many for the picture of where it stops on made-up tables.
    """
    from radoboost.report import html
    from radoboost.report.release_report import make_release_report
    from radoboost.report.sign_off import AttackResult, marks_of_attack_report

    if inputs.table is not None:  # refuses a table that does not go with the release
        adversary_knowledge.table_edge_vectors(inputs.release, inputs.table, label=inputs.label)
    attempts = run_all_attacks(inputs, seconds=seconds, bar=bar)
    made = Report(verdict_after(inputs.release.statement, attempts), attempts)
    name = Path(inputs.path).name
    about = make_release_report(inputs.release, name)
    html.write_html_page(
        place,
        "attacks.html",
        [attempt.document for group in made.groups for attempt in group.attempts if attempt.document is not None],
        title=f"What an adversary gets from {name}",
        lead=_LEAD,
        about=about,
        verdict=made.verdict,
        groups=made.groups,
        marks=marks_of_attack_report(
            about.digest, made.verdict, [AttackResult(one.title, one.group, one.sentence) for one in made.attempts]
        ),
    )
    return made
