"""Audits in words, for a terminal."""

import math

from radoboost.lab.audits.audit import Audit
from radoboost.lab.audits.exact_audit import ABOUT_EXACT, ExactAudit
from radoboost.release.release import rounded_up
from radoboost.release.statement_text import epsilon_text


def describe_audit(result: Audit) -> str:
    """An audit, as text for a terminal."""
    how = "by its exact law" if not result.runs else f"by {result.runs:,} runs of either table"
    share = f", {100 * result.found / result.claim:.0f} % of it" if 0 < result.claim < math.inf else ""
    kind = "" if not result.runs else ", if it is this kind of mechanism with whatever noise"
    return "\n".join(
        [
            f"mechanism    {result.mechanism}",
            f"neighbours   {result.neighbours}",
            f"claimed      epsilon {epsilon_text(result.claim)} at delta {rounded_up(result.delta, 6)}",
            f"shown        at least {math.floor(1e4 * result.found) / 1e4:g}{share}, {how}{kind}",
            f"any kind     at least {math.floor(1e4 * result.found_without_model) / 1e4:g}",
            f"attack       {result.score}, at confidence {result.confidence:.7g}",
        ]
    )


def describe_exact_audit(result: ExactAudit) -> str:
    """An exact audit, as text for a terminal."""
    stages = [f"  {one.stage:<19}{_down(one.ratio)}   {one.pair}; {one.transcript}" for one in result.stages]
    lines = [
        f"mechanism    {result.mechanism}",
        f"neighbours   {result.neighbours}",
        f"claimed      epsilon {epsilon_text(result.claim)} at delta {rounded_up(result.delta, 6)}",
        f"largest      {_down(result.ratio)} of what the claim allows: {result.pair}; {result.transcript}",
        f"compared     {result.pairs:,} pairs of neighbouring tables, along {result.transcripts:,} transcripts",
        *(
            ["stages       each in units of its own share, with its worst pair and transcript", *stages]
            if stages
            else []
        ),
        *(["failed       " + fault for fault in result.faults[:8]]),
        *([f"remark       {result.remark}"] if result.remark else []),
        f"This is {ABOUT_EXACT}.",
    ]
    return "\n".join(lines)


def _down(ratio: float) -> str:
    """A ratio, never rounded up to 1."""
    return f"{math.floor(1e6 * ratio) / 1e6:.6f}" if math.isfinite(ratio) else "infinite"
