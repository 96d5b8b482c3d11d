"""Whether a record was in the table: the likelihood-ratio attack of an adversary who knows all other records.

For mechanisms with noise the two tables are the canary's neighbours, as the statement means them, and what the attack
gets is held against the whole trade-off curve of the statement. Plain rados and those of a feature band promise nothing
about records; there, one record is replaced by another, and the attack says which of the two it was.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.holder.curator import Curator
from radoboost.holder.keystream import make_key
from radoboost.holder.mechanisms import FeatureBand, Mechanism, Moments, NoisyExamples, NoisyRados, Plain
from radoboost.holder.mechanisms.moments.moments import UNITS
from radoboost.holder.mechanisms.statements import DEFAULT_DELTA
from radoboost.holder.signatures import check_n_rados
from radoboost.lab.attacks import mechanism_from_release
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, refuse_many_classes
from radoboost.lab.attacks.plain_likelihood import Floats, PlainTable, plain_likelihood_runs
from radoboost.lab.attacks.roc import LOW_RATE, Claim, Roc, roc_of_scores
from radoboost.lab.audits.audit import CANARY_RUNS, CONFIDENCE, LEAST_RUNS
from radoboost.lab.audits.canaries import WIDTH, Scenario
from radoboost.privacy import Relation, band
from radoboost.progress import Progress, silent
from radoboost.release.kind import LAWS
from radoboost.release.release import Release, percent_up_text, rounded_up_text
from radoboost.report.findings import Check, Figure, Findings, Panel, ReportColumn, ReportTable, Series

# ---- What the attacks on membership found, as tables, figures and checks.

HALVED = "noisy-rados, half the noise of epsilon 4 for one record added or removed"
_NOTES = (
    "Canaries are the worst records there are, beside others that are chosen to make them stand out: typical records "
    "are told less well. That the attack stays within a statement proves nothing; that it beats one does.",
    "Plain rados: with records of real values, of which all subsets can be counted, n rados tell which of two records "
    "it was unless the record is in none of them: with probability 1 - 2^-n. Of many records, by mean and covariance "
    "alone, the attack is about as good as on a Gaussian mechanism with mu^2 = 2 n d / m, for d columns and m records.",
    "Scaling to mean 0 and standard deviation 1 puts both into the release, exactly: who knows all other records reads "
    "off which of two records was there, from the constants alone, unless both agree in every column or are too close "
    "to tell in double precision.",
)

_SURELY = "surely, at 1 - 1e-6"

Attacks = Sequence[tuple[str, "Membership"]]


def membership_findings(name: str, title: str, attacks: Attacks) -> Findings:
    """Curves, a table and checks of attacks, each with its title; that of faulty noise is `HALVED`."""
    figures = [_membership_figure(attacks)] if attacks else []
    return Findings(name, title, [_membership_table(attacks)], figures, _membership_checks(attacks), _NOTES)


def _membership_table(attacks: Attacks) -> ReportTable:
    rows = []
    for name, one in attacks:
        claim, few = one.claim, one.roc.at() if one.roc else None
        rows.append([
            name,
            None if claim is None else f"{rounded_up_text(claim.epsilon, 4)}, {claim.neighbours}",
            one.runs,
            one.roc.advantage if one.roc else None,
            None if claim is None else claim.advantage,
            None if few is None else 100 * few.hits,
            None if few is None else f"{100 * few.low:.2f} to {100 * few.high:.2f}",
            None if claim is None else 100 * float(claim.hits([LOW_RATE])[0]),
            None if claim is None or one.roc is None else one.beats_claim,
        ])  # fmt: skip
    columns: list[ReportColumn | str] = [
        "mechanism", "epsilon, and for whom", "runs", ReportColumn("advantage", digits=3),
        ReportColumn("allowed", digits=3), ReportColumn("hits at 0.1 % false alarms", "%", 2),
        ReportColumn("95 % interval", "%"),
        ReportColumn("hits allowed", "%", 2), "statement beaten",
    ]  # fmt: skip
    note = (
        f"Delta is {DEFAULT_DELTA:g} in every claim. Runs: of either table; a quarter choose thresholds, the rest are "
        "counted. Advantage: hits less false alarms at the best threshold. The interval is of the hits at the "
        "threshold that was picked; its false alarms are few and their own rate is uncertain, so more hits than "
        "allowed prove nothing. Beaten: at confidence 1 - 1e-6, at any threshold, in either direction. Where nothing "
        "is promised, neighbours are one record replaced by another, in tables that are new in every run."
    )
    return ReportTable("membership", "What the attack gets, and what statements allow", columns, rows, note)


def _membership_figure(attacks: Attacks) -> Figure:
    panels = []
    rates = np.geomspace(1e-4, 1, 60)
    for name, one in attacks:
        lines = [Series("guessing", rates, rates, style="dashed")]
        if one.claim is not None:
            lines.insert(0, Series("the most that the statement allows", rates, one.claim.hits(rates), style="dashed"))
        if one.roc is not None:
            # No false alarm at all is drawn as one.
            counts = zip(one.roc.false_alarms, one.roc.hits, strict=True)
            points = {max(alarms, 1): hits for alarms, hits in sorted(counts) if hits}
            lines.insert(0, Series("the attack", *np.array([*points.items()]).reshape(-1, 2).T / one.roc.runs))
            if one.claim is not None:
                alarms, hits = one.roc.bounds()
                lines.insert(1, Series(_SURELY, alarms[hits > 0], hits[hits > 0]))
        panels.append(Panel(name, "false alarms", "hits", lines, log_x=True, log_y=True))
    caption = (
        "Share of those present that are caught, against the share of false alarms, for one who knows all other "
        "records. No false alarm at all is drawn as one."
    )
    if any(one.claim is not None for _, one in attacks):
        caption += (
            " The attack's line is as counted: that of an honest mechanism is not above its statement's by more than "
            "chance. What is judged is the line of what it surely gets, with fewer hits and more false alarms."
        )
    if any(name == HALVED for name, _ in attacks):
        caption += " With half the noise that one is above, too (last)."
    return Figure("membership", "Was this record in the table?", caption, panels)


def _membership_checks(attacks: Attacks) -> list[Check]:
    checks = []
    for name, one in attacks:
        if one.claim is not None:
            halved = name == HALVED
            holds = one.beats_claim if halved or one.beats_claim is None else not one.beats_claim
            honest = f"{name}: the attack is not surely beyond the statement's curve"
            statement = "noise that is halved on purpose beats its statement" if halved else honest
            checks.append(Check(statement, holds, one.sentence(), ours=True))
    return checks


NAME = "membership"
TITLE = "Was this record in the table?"
ASSUMES = (
    "The adversary knows all other records, and what the record in question holds; for noisy rados also which of the "
    "other records each rado sums, and for noisy examples the noisy rows themselves, as the proofs allow. The tables "
    "are made up, not the holder's: for mechanisms with noise the worst that there are for this record."
)
DEFAULT_RUNS = 10_000
REPLACED = "one record replaced by another"
_GRANTED = {
    "noisy sums": (
        "all other records, and which of them each rado sums: so their part can be taken off, and the table may be the "
        "canary alone, or nobody",
        "the canary, a record at the largest norm that the noise is for; but not which rados it is in, nor the noise",
    ),
    "sums of noisy rows": (
        "all other rows, and the noisy edge vectors themselves, which rados are only sums of",
        "that the row is one of two opposite ones, both at the largest norm that the noise is for",
    ),
    "noisy moments": (
        "all other records, which are pairs of opposite edge vectors along the canary's own: so it has nearly the "
        "largest weight that a record can have in every mean rado",
        "every block of the release; the canary, but not whether it is there (for labels: which label it has)",
    ),
    "sums": (
        "all other records, of values drawn from the normal law (-1 and +1 in the column of a band), and two records, "
        "A and B, either of which is the last one; but not which records a rado sums",
    ),
}  # fmt: skip
_GRANTED_OF_CLASSES = (
    "all other records, which have the canary's features and are of two classes, as many of either: so it has nearly "
    "the largest weights that a record can have in every mean rado",
    "every block of the release; the canary, which is of a third class, but not whether it is there (for labels, and "
    "records that are replaced: which of the two classes it has)",
)
_UNCLIPPED = (
    _GRANTED["sums of noisy rows"][0],
    "that the row is one of two opposite ones, both at the largest norm that the bounds allow: none is clipped",
)
_COUNTED = "the rados, of which all subsets are counted"
_NORMAL = "the rados, of which mean and covariance are used: what the digits of the values tell comes on top"
_CONSTANTS = (
    "not used: the scaling constants of the release, which alone say which of two records was in it, unless the two "
    "agree in all columns or are too close to tell in double precision"
)


@dataclass(frozen=True)
class Membership:
    """What the attack gets, and what the statement allows.

    `roc` is None if there was no time for enough runs. `claim` is None if nothing is promised about records, and so is
    `margin`, by how much hits surely exceed what the claim allows. If a mechanism had at most `shown_share` of the
    noise that the claim takes, so many runs would likely have shown it; None if they could show nothing.
    """

    mechanism: str
    neighbours: str
    granted: tuple[str, ...]
    runs: int
    roc: Roc | None
    claim: Claim | None = None
    margin: float | None = None
    shown_share: float | None = None

    @property
    def beats_claim(self) -> bool | None:
        """Whether the claim cannot be true, at confidence 1 - 1e-6; None without a claim, or without enough runs."""
        return None if self.margin is None or not math.isfinite(self.margin) else self.margin > 0

    @property
    def status(self) -> str:
        return "unknown" if self.roc is None else "measured"

    def to_dict(self) -> dict[str, Any]:
        roc = None if self.roc is None else self.roc.to_dict()
        rates = [] if roc is None else roc["false_positive_rates"]
        return {
            "attack": NAME, "mechanism": self.mechanism, "neighbours": self.neighbours, "granted": list(self.granted),
            "status": self.status, "runs": self.runs, "found": roc, "beats_claim": self.beats_claim,
            "claim": None if self.claim is None else self.claim.to_dict(rates),
            "margin": None if self.beats_claim is None else self.margin,
            "shown_share_of_noise": self.shown_share, "confidence": CONFIDENCE, "sentence": self.sentence(),
        }  # fmt: skip

    def sentence(self) -> str:
        if self.roc is None:
            return (
                f"Unknown: there was time for {self.runs:,} runs of the attack, and {LEAST_RUNS:,} are needed to say "
                "anything; give it more time with --seconds."
            )
        what = f"which of two tables it was ({self.neighbours})"
        where = "made-up tables of this size" if self.claim is None else "the worst table for this record"
        text = (
            f"On {where}, an adversary who knows all other records is right about {what} "
            f"{50 + 50 * self.roc.advantage:.1f} % of the time, where a coin is right 50 % of the time"
        )
        few = self.roc.at()
        if few is not None:
            text += (
                f", and with one false alarm in {round(1 / LOW_RATE):,} catches {100 * few.hits:.1f} % of those there"
            )
        if self.claim is None:
            return f"{text}; nothing is promised about that."
        if math.isinf(self.claim.epsilon):
            return f"{text}; the statement promises nothing (epsilon is infinite, for {self.claim.neighbours})."
        allowed = f"the statement ({self.claim.as_text()}) allows {percent_up_text(0.5 + self.claim.advantage / 2)} %"
        if few is not None:
            allowed += f" and {100 * float(self.claim.hits([LOW_RATE])[0]):.1f} %"
        if self.beats_claim:
            return f"{text}; {allowed}: the statement is not true."
        if self.beats_claim is None:
            return f"{text}; {allowed}: the two could not be compared."
        if self.shown_share is None:
            return f"{text}; {allowed}: these {self.runs:,} runs do not contradict it, and are too few to."
        return (
            f"{text}; {allowed}: these {self.runs:,} runs do not contradict it, and would likely have shown noise of "
            f"less than {math.floor(100 * self.shown_share)} % of what it takes."
        )


def membership_attack(
    mechanism: Any, *, seconds: float = DEFAULT_SECONDS, claim: Claim | None = None, **settings: Any
) -> Membership:
    """Attack a mechanism in a `Scenario` of these settings, in as many runs of each table as there is time for.

    `n_examples` and `n_columns` are those of the tables for plain rados and feature bands; a canary has columns of its
    own. More than two classes are for `moments`. `claim` is what to hold the attack against, by default what the
    mechanism accounts for.
    """
    law = None if isinstance(mechanism, type) else getattr(mechanism, "law", None)
    if law not in LAWS:
        raise ArgumentError(f"mechanism must be one whose law is known here, such as Moments(1.0); it is {mechanism!r}")
    columns, private_bounds = getattr(mechanism, "columns", "auto"), getattr(mechanism, "n_searched", 0) > 0
    scenario = _membership_scenario(seconds, columns=columns, private_bounds=private_bounds, **settings)
    check_n_rados(scenario.n_rados)
    if scenario.n_classes != 2 and law != "noisy moments":
        raise ArgumentError(
            f"the attack on {mechanism.name} is for two classes, not for {scenario.n_classes!r}; leave it out"
        )
    if law in _PLAIN:
        limits = band(scenario.n_examples, mechanism.epsilon) if law == "banded sums" else None
        table = PlainTable(scenario.n_examples, scenario.n_columns, scenario.n_rados, limits)
        return _membership_in_plain_table(mechanism.name, table, scenario)
    granted, attacked = _GRANTED[law] if scenario.n_classes == 2 else _GRANTED_OF_CLASSES, mechanism
    if law == "sums of noisy rows" and mechanism.clip is None:
        granted, attacked = _UNCLIPPED, mechanism_from_release.mechanism_with_clip(mechanism, scenario.n_columns)
    found = CANARY_RUNS[law](attacked, scenario)
    event = found.event if attacked is mechanism else mechanism.plan(1, WIDTH, 2).event
    claim = claim or Claim(event, getattr(mechanism, "delta", DEFAULT_DELTA))
    return _judge_membership(mechanism.name, claim.neighbours, granted, (found.present, found.absent), claim)


def _membership_scenario(seconds: float, **settings: Any) -> Scenario:
    scenario = Scenario(**{"runs": DEFAULT_RUNS, "n_examples": 100, **settings})
    runs, key, left = scenario.runs, scenario.key, attack_deadline(seconds)
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise ArgumentError(f"the attack needs at least {LEAST_RUNS:,} runs; runs is {runs!r}")
    if key is not None and not (isinstance(key, bytes) and key):
        raise ArgumentError("key must be bytes, or None for one from the operating system")
    return replace(scenario, going=lambda: left() > 0)


_PLAIN = ("sums", "banded sums")


def _membership_in_plain_table(name: str, table: PlainTable, scenario: Scenario) -> Membership:
    granted = (*_GRANTED["sums"], _COUNTED if table.counted else _NORMAL)
    ratios = plain_likelihood_runs(table, runs=scenario.runs, key=scenario.key, bar=scenario.bar, going=scenario.going)
    return _judge_membership(name, REPLACED, granted, ratios, None)


def _judge_membership(
    name: str, neighbours: str, granted: tuple[str, ...], ratios: tuple[Floats, Floats], claim: Claim | None
) -> Membership:
    runs = len(ratios[0])
    if runs < LEAST_RUNS:
        return Membership(name, neighbours, granted, runs, None, claim)
    roc = roc_of_scores(*ratios)
    if claim is None:
        return Membership(name, neighbours, granted, runs, roc)
    margin = claim.margin(roc)
    return Membership(name, neighbours, granted, runs, roc, claim, margin, claim.shown_share(roc.runs))


# ---- releases


def membership_of_release(
    release: Release,
    *,
    runs: int = DEFAULT_RUNS,
    key: bytes | None = None,
    seconds: float = DEFAULT_SECONDS,
    bar: Progress = silent,
) -> Membership:
    """Attack what a release says was done, with the noise that it says was added, and hold it against its statement.

    The table itself is not needed: the attack makes its own. So a statement that promises more than the noise keeps may
    be found out, if by enough; `shown_share` says by how much. A release that lies about its noise is not found out.
    One that contradicts itself, or describes what is not attacked here, is refused.
    """
    settings: dict[str, Any] = {"runs": runs, "key": key, "bar": bar}
    if release.law in _PLAIN:
        refuse_many_classes(release, "this attack on plain rados is for two classes", "; take the attack probe")
        scenario = _membership_scenario(seconds, **settings)
        table = mechanism_from_release.plain_table_of_release(release)
        result = _membership_in_plain_table(release.mechanism["name"], table, scenario)
        standard = any(column.scale == "standard" for column in release.columns)
        return replace(result, granted=(*result.granted, _CONSTANTS)) if standard else result
    mechanism = mechanism_from_release.mechanism_of_release(release)
    return membership_attack(
        mechanism, n_columns=len(release.columns), n_classes=release.n_classes, seconds=seconds,
        n_rados=max(1, release.n_rados),  # moments have none, and do not ask
        claim=mechanism_from_release.claim_of_statement(release, mechanism), **settings,
    )  # fmt: skip


# ---- the study


def study(*, quick: bool = False, seed: int = 0, seconds: float = 600.0, bar: Progress = silent) -> Findings:
    """The attack on every mechanism: curves, what their statements allow, and noise that is halved on purpose.

    A quick study takes some seconds, with fewer runs; a whole one some minutes. Each attack has its share of `seconds`.
    """
    left = attack_deadline(seconds)
    key, cases = make_key(seed), _membership_cases(quick)
    results: list[tuple[str, Membership]] = []
    for number, (name, mechanism, options) in enumerate(cases):
        share = max(left(), 1e-3) / (len(cases) - number)
        results.append((name, membership_attack(mechanism, key=key, seconds=share, bar=bar, **options)))
    return membership_findings(NAME, TITLE, results)


def _membership_cases(quick: bool) -> list[tuple[str, Mechanism, dict[str, Any]]]:
    few, many = (1000, 4000) if quick else (10_000, 20_000)
    n_rados = 20 if quick else 100
    private: list[tuple[str, Mechanism, dict[str, Any]]] = []
    for epsilon, runs in ((4.0, few),) if quick else ((4.0, few), (1.0, many)):
        moments = [Moments(epsilon, unit=unit, sharpen=not quick) for unit in UNITS[: 1 if quick else 2]]
        cases: list[tuple[Mechanism, Relation, dict[str, Any]]] = [
            (NoisyRados(epsilon), Relation.RECORD, {"n_rados": n_rados, "runs": many}),
            (NoisyExamples(epsilon), Relation.EDGE, {"runs": many}),
            *((one, one.neighbours, {"runs": runs}) for one in moments),
        ]
        for mechanism, relation, options in cases:
            private.append((f"{mechanism.name}, epsilon {epsilon:g} for {relation.value}", mechanism, options))
    plain = {"n_rados": 100, "runs": many}
    return [
        ("plain, 5 rados of 12 records", Plain(), {"n_examples": 12, "n_rados": 5, "runs": many}),
        ("plain, 100 rados of 100 records", Plain(), plain),
        ("feature-band, 100 rados of 100 records", FeatureBand("x", 1.0), plain),
        *private,
        (HALVED, NoisyRados(4.0), {"n_rados": n_rados, "runs": many, "run": _Halved}),
    ]


class _Halved(Curator):
    """A run that adds half of the noise that it is asked for."""

    def noise(self, scale: float, shape: tuple[int, ...]) -> Any:
        return super().noise(scale / 2, shape)
