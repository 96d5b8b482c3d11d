"""What a statement, its event and its noise say, as sentences."""

import math
from collections.abc import Mapping
from typing import Any

from radoboost.privacy import event_from_dict, figures
from radoboost.release import Statement, rounded_up
from radoboost.release.holders import AVERAGED, ENCRYPTED, JOINED, ONE_TABLE, ROOM, SHARED, Holders

_LENGTHS = "standard deviations, where one row counts 1 and has length 1"
_STAGES = {  # what a stage of several is called, by its name in a release
    "counts": "numbers of rows",
    "outline": "second moments of the table's own columns",
    "scores": "numbers of rows by score and class",
    "second": "second moments",
    "sum": "sum",
    "whitened": "whitened second moments",
    "rounds": "each of {rounds} mean rados",
}

_WAYS = {
    ROOM: "made by {} holders in a room",
    AVERAGED: "the average of {} holders",
    JOINED: "joined from releases of {} holders, each of columns of its own",
    ONE_TABLE: "the average of {} releases of one holder's table",
    SHARED: "crafted by two servers from shares of rows of {} senders",
    ENCRYPTED: "crafted from encrypted rows of {} senders",
}


def plan_in_words(plan: Mapping[str, Any]) -> str:
    """Which columns a plan of the mechanism `moments` has."""
    if not plan["classes"]:
        return f"the table's own: {plan['n_columns']:,} columns"
    degree = max(map(sum, plan["classes"]))
    return f"ranks and their products up to degree {degree}: {plan['n_columns']:,} columns"


def statement_in_words(statement: Statement) -> dict[str, list[str]]:
    """What a statement promises and what it does not, as sentences by their headings."""
    promised = [
        *(statement.promises or ("Nothing: this release carries no privacy guarantee.",)),
        f"epsilon {epsilon_text(statement.epsilon)}, delta {rounded_up(statement.delta, 6)}, for "
        f"{statement.neighbours} as neighbours",
    ]
    if not math.isinf(statement.epsilon):
        at = ", ".join(f"{epsilon_text(epsilon)} at delta {delta:g}" for delta, epsilon in statement.epsilon_at)
        promised += [f"unit of privacy: {statement.unit_of_privacy}", f"the same as epsilon {at}"]
        promised += figures_in_words(figures_of(statement), statement.neighbours)
    if statement.composed is not None:
        total = statement.composed
        promised.append(
            f"together with {total['earlier_releases']} earlier: epsilon {epsilon_text(total['epsilon'])}, "
            f"delta {rounded_up(total['delta'], 6)}, for {total['neighbours']} as neighbours"
            + (f" ({total['why']})" if "why" in total else "")
            + (f", if {total['holds_if']}" if "holds_if" in total else "")
        )
    if statement.holders is not None:
        promised += holders_in_words(statement.holders)
    return {"What is promised": promised, "What is not protected": list(statement.not_protected)}


def holders_in_words(holders: Holders) -> list[str]:
    """How many holders made something, and how, and what is promised in the cases that only several have."""
    sentences = [_WAYS.get(holders.how, "made of releases of {} holders, merged").format(holders.count) + _who(holders)]
    if holders.count == 1:
        sentences = [sentences[0].replace("1 senders", "1 sender")]
    for figure in holders.figures:
        comma = "" if figure.size == 1 else ","
        neighbours = "" if figure.neighbours is None else f", for {figure.neighbours}{comma} as neighbours"
        delta = rounded_up(figure.delta, 6)
        sentences.append(f"{figure.case}: epsilon {epsilon_text(figure.epsilon)}, delta {delta}{neighbours}")
    return sentences


def _who(holders: Holders) -> str:
    """The names of those who met in a room, and when some of them left."""
    if holders.how != ROOM:
        return ""
    stayed = [str(part.get("name")) for part in holders.parts if part.get("until") is None]
    left = [
        f"{part.get('name')} left " + (f"after stage {part['until']}" if part["until"] else "before the first sum")
        for part in holders.parts
        if part.get("until") is not None
    ]
    return ": " + "; ".join([", ".join(stayed), *left])


def figures_of(statement: Statement) -> dict[str, Any]:
    """What else follows from the event of a statement: mu, rho and what groups pay; nothing without a promise."""
    return {} if math.isinf(statement.epsilon) else figures(event_from_dict(statement.event), statement.delta)


def figures_in_words(answer: Mapping[str, Any], neighbours: str) -> list[str]:
    """Sentences about mu, rho and groups; every one names its neighbours."""
    sentences = []
    if "mu" in answer:
        variation = answer["total_variation"]
        charged = (
            f"; the sampler's total variation, {rounded_up(variation, 2)}, is charged to delta" if variation else ""
        )
        sentences.append(
            f"mu {rounded_up(answer['mu'], 4)} in Gaussian differential privacy, rho {rounded_up(answer['rho'], 4)} in "
            f"zCDP, for {neighbours} as neighbours{charged}"
        )
    if answer.get("groups"):
        groups = answer["groups"]
        epsilons = ", ".join(epsilon_text(figure["epsilon"]) for figure in groups)
        sizes = ", ".join(f"{figure['size']:,}" for figure in groups)
        whom = groups[-1]["neighbours"].replace(f"{groups[-1]['size']:,}", sizes, 1)
        who = "several persons" if "person" in neighbours else "several rows of one person"
        delta = rounded_up(groups[0]["delta"], 6)
        sentences.append(f"{who}: epsilon at most {epsilons} for {whom}, at delta {delta}")
    return sentences


def stages_in_words(noise: Mapping[str, Any], rounds: int = 0) -> str:
    """The noise of each stage, by name; a stage without noise is exact.

    Where the number of mean rados is not known yet, "rounds" maps each that it may be to its noise.
    """
    parts = []
    searches = [stage for stage in noise if stage.startswith("bounds ")]  # all have the same noise
    for stage, value in noise.items():
        if stage in searches[1:]:
            continue
        name = f"each of {len(searches)} searches for bounds" if stage in searches else _STAGES[stage]
        if isinstance(value, Mapping):
            choices = [f"{name.format(rounds=count)} {deviation:.6g}" for count, deviation in value.items()]
            parts.append(f"{', or '.join(choices)} (what is released first decides)")
        elif value:
            parts.append(f"{name.format(rounds=rounds)} {value:.6g}")
        elif stage not in ("counts", "rounds"):  # those are there only with noise
            parts.append(f"{name} exact")
    return f"{', '.join(parts)}: {_LENGTHS}"


def held_in_words(n_rados: int) -> str:
    """What a release holds: so many rados, or moments alone."""
    return f"{n_rados:,} rado{'' if n_rados == 1 else 's'}" if n_rados else "moments"


def epsilon_text(value: float | str | None) -> str:
    """Four digits, rounded up; JSON has a word, or null, for infinity."""
    return rounded_up(value if isinstance(value, int | float) else math.inf, 4)
