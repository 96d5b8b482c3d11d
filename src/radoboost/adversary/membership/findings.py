"""What the attacks on membership found, as tables, figures and checks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from radoboost.adversary.membership.roc import LOW_RATE
from radoboost.findings import Check, Column, Figure, Findings, Panel, Series, Table
from radoboost.holder.mechanisms.claims import DEFAULT_DELTA
from radoboost.release import rounded_up

if TYPE_CHECKING:
    from radoboost.adversary.membership import Membership

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
    return Findings(
        name,
        title,
        tables=[_table(attacks)],
        figures=[_figure(attacks)] if attacks else [],
        checks=_checks(attacks),
        notes=_NOTES,
    )


def _table(attacks: Attacks) -> Table:
    rows = []
    for name, one in attacks:
        claim, few = one.claim, one.roc.at() if one.roc else None
        rows.append([
            name,
            None if claim is None else f"{rounded_up(claim.epsilon, 4)}, {claim.neighbours}",
            one.runs,
            one.roc.advantage if one.roc else None,
            None if claim is None else claim.advantage,
            None if few is None else 100 * few.hits,
            None if few is None else f"{100 * few.low:.2f} to {100 * few.high:.2f}",
            None if claim is None else 100 * float(claim.hits([LOW_RATE])[0]),
            None if claim is None or one.roc is None else one.beats_claim,
        ])  # fmt: skip
    columns: list[Column | str] = [
        "mechanism", "epsilon, and for whom", "runs", Column("advantage", digits=3),
        Column("allowed", digits=3), Column("hits at 0.1 % false alarms", "%", 2), Column("95 % interval", "%"),
        Column("hits allowed", "%", 2), "statement beaten",
    ]  # fmt: skip
    note = (
        f"Delta is {DEFAULT_DELTA:g} in every claim. Runs: of either table; a quarter choose thresholds, the rest are "
        "counted. Advantage: hits less false alarms at the best threshold. The interval is of the hits at the "
        "threshold that was picked; its false alarms are few and their own rate is uncertain, so more hits than "
        "allowed prove nothing. Beaten: at confidence 1 - 1e-6, at any threshold, in either direction. Where nothing "
        "is promised, neighbours are one record replaced by another, in tables that are new in every run."
    )
    return Table("membership", "What the attack gets, and what statements allow", columns, rows, note)


def _figure(attacks: Attacks) -> Figure:
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


def _checks(attacks: Attacks) -> list[Check]:
    checks = []
    for name, one in attacks:
        if one.claim is None:
            continue
        beaten, why = one.beats_claim, one.sentence()
        if name == HALVED:
            checks.append(Check("noise that is halved on purpose beats its statement", beaten, why, ours=True))
        else:
            holds = None if beaten is None else not beaten
            checks.append(
                Check(f"{name}: the attack is not surely beyond the statement's curve", holds, why, ours=True)
            )
    return checks
