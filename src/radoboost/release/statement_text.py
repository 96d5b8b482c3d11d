"""What a statement, its event and its noise say, as sentences."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radoboost.errors import ArgumentError
from radoboost.privacy import Relation, Repeated, best_guess, epsilon_at, event_from_dict, figures
from radoboost.privacy.events import OF_PERSONS
from radoboost.release.parties import AT_ONE, AVERAGED, ENCRYPTED, JOINED, ONE_TABLE, ROOM, SHARED, Parties
from radoboost.release.release import Release, Statement, rounded_up_text

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


def plan_text(plan: Mapping[str, Any]) -> str:
    """Which columns a plan of the mechanism `moments` has."""
    if not plan["classes"]:
        return f"the table's own: {plan['n_columns']:,} columns"
    degree = max(map(sum, plan["classes"]))
    return f"ranks and their products up to degree {degree}: {plan['n_columns']:,} columns"


def statement_text(statement: Statement) -> dict[str, list[str]]:
    """What a statement promises and what it does not, as sentences by their headings."""
    promised = [
        *(statement.promises or ("Nothing: this release carries no privacy guarantee.",)),
        f"epsilon {epsilon_text(statement.epsilon)}, delta {rounded_up_text(statement.delta, 6)}, for "
        f"{statement.neighbours}{at_one_holder(statement)} as neighbours",
    ]
    if not math.isinf(statement.epsilon):
        at = ", ".join(f"{epsilon_text(epsilon)} at delta {delta:g}" for delta, epsilon in statement.epsilon_at)
        promised += [f"unit of privacy: {statement.unit_of_privacy}", f"the same as epsilon {at}"]
        promised += statement_figures_text(figures_of_statement(statement), statement.neighbours)
    if statement.composed is not None:
        total = statement.composed
        promised.append(
            f"together with {total['earlier_releases']} earlier: epsilon {epsilon_text(total['epsilon'])}, "
            f"delta {rounded_up_text(total['delta'], 6)}, for {total['neighbours']} as neighbours"
            + (f" ({total['why']})" if "why" in total else "")
            + (f", if {total['holds_if']}" if "holds_if" in total else "")
        )
    if statement.holders is not None:
        promised += holders_text(statement.holders)
    return {"What is promised": promised, "What is not protected": list(statement.not_protected)}


def at_one_holder(statement: Statement) -> str:
    """Where neighbours differ that are about persons: of several holders, at one, for rows are bounded at each."""
    several = statement.holders is not None and statement.holders.how in (ROOM, AVERAGED)
    return AT_ONE if several and statement.neighbours in OF_PERSONS else ""


def holders_text(holders: Parties) -> list[str]:
    """How many holders made something, and how, and what is promised in the cases that only several have."""
    sentences = [
        _WAYS.get(holders.how, "made of releases of {} holders, merged").format(holders.count)
        + _room_makers_text(holders)
    ]
    if holders.count == 1:
        sentences = [sentences[0].replace("1 senders", "1 sender")]
    for figure in holders.figures:
        comma = "" if figure.size == 1 else ","
        neighbours = "" if figure.neighbours is None else f", for {figure.neighbours}{comma} as neighbours"
        delta = rounded_up_text(figure.delta, 6)
        sentences.append(f"{figure.case}: epsilon {epsilon_text(figure.epsilon)}, delta {delta}{neighbours}")
    return sentences


def _room_makers_text(holders: Parties) -> str:
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


def figures_of_statement(statement: Statement) -> dict[str, Any]:
    """What else follows from the event of a statement: mu, rho and what groups pay; nothing without a promise."""
    return {} if math.isinf(statement.epsilon) else figures(event_from_dict(statement.event), statement.delta)


def statement_figures_text(answer: Mapping[str, Any], neighbours: str) -> list[str]:
    """Sentences about mu, rho and groups; every one names its neighbours."""
    sentences = []
    if "mu" in answer:
        variation = answer["total_variation"]
        charged = (
            f"; the sampler's total variation, {rounded_up_text(variation, 2)}, is charged to delta"
            if variation
            else ""
        )
        sentences.append(
            f"mu {rounded_up_text(answer['mu'], 4)} in Gaussian differential privacy, rho "
            f"{rounded_up_text(answer['rho'], 4)} in zCDP, for {neighbours} as neighbours{charged}"
        )
    if answer.get("groups"):
        groups = answer["groups"]
        epsilons = ", ".join(epsilon_text(figure["epsilon"]) for figure in groups)
        sizes = ", ".join(f"{figure['size']:,}" for figure in groups)
        whom = groups[-1]["neighbours"].replace(f"{groups[-1]['size']:,}", sizes, 1)
        who = "several persons" if "person" in neighbours else "several rows of one person"
        delta = rounded_up_text(groups[0]["delta"], 6)
        sentences.append(f"{who}: epsilon at most {epsilons} for {whom}, at delta {delta}")
    return sentences


def stage_noise_text(noise: Mapping[str, Any], rounds: int = 0) -> str:
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


def release_content_text(n_rados: int) -> str:
    """What a release holds: so many rados, or moments alone."""
    return f"{n_rados:,} rado{'' if n_rados == 1 else 's'}" if n_rados else "moments"


def epsilon_text(value: float | str | None) -> str:
    """Four digits, rounded up; JSON has a word, or null, for infinity."""
    return rounded_up_text(value if isinstance(value, int | float) else math.inf, 4)


# ---- A statement for people who decide and are no specialists: a verdict in one sentence, and answers to questions.

PROMISE, WEAK, NONE, WRONG = "promise", "weak", "none", "wrong"
_MUCH = 0.9  # a best guess that is right more often than this says hardly anything
_WHO = {
    Relation.RECORD: "Every single record, which is one row: whether it was in the table at all, and all that it says.",
    Relation.REPLACE: "Every single record, which is one row: all that it says. How many records there are is told.",
    Relation.EDGE: "Every single row: what it says, its label included. How many rows there are is told.",
    Relation.LABEL: "The label of every single row, and nothing else: all other columns count as known.",
    Relation.VALUE: "Single values of one column, as far as that column of the rados tells; other columns tell more.",
    Relation.PERSON: "Every single person with all of their rows{}: whether they were in the table at all.",
    Relation.PERSON_ROWS: "Every single person{}: all that their rows say. How many rows each person has is told.",
    Relation.PERSON_LABELS: "The labels of every single person{}, and nothing else: all other columns count as known.",
}
_NO_ORIGIN = (
    "The digest shows that the file is not damaged. It does not show who made it: ask the maker, by another way than "
    "the one the file came by, for the digest, and compare all 64 characters."
)
_OF_MODEL = (
    "This is about the release that the model was learned from, in the words that the model carries; whether that "
    "release is consistent is seen where it is opened itself (rado show RELEASE)."
)


@dataclass(frozen=True)
class Verdict:
    """What to think of a release: `tone` is one of "promise", "weak", "none" and "wrong"; more in `sentences`."""

    tone: str
    headline: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class FaqAnswer:
    """A question that somebody who decides would ask, and what the statement says to it."""

    question: str
    sentences: tuple[str, ...]


def out_of_hundred(share: float) -> str:
    """How often out of a hundred times, never below the share itself."""
    return f"{min(100, math.ceil(round(100 * share, 9)))} of 100 times"


def promise_text(statement: Statement) -> str:
    """The promise in a few words, with its neighbours."""
    if math.isinf(statement.epsilon):
        return "no promise"
    return f"promise of epsilon {epsilon_text(statement.epsilon)} for {statement.neighbours}{at_one_holder(statement)}"


def verdict_of(statement: Statement) -> Verdict:
    """What to think of a release by its statement alone, which was held against its event when it was read."""
    if math.isinf(statement.epsilon):
        return Verdict(
            NONE,
            "No promise: assume that whoever knows all other records can find out about the one that is left",
            ("Treat this file with the care that the table itself needs.", *_consistent_file_text(statement)),
        )
    promise, guess = promise_text(statement), out_of_hundred(statement.best_guess)
    headline = f"{promise[0].upper()}{promise[1:]}: the best guess is right at most {guess}, a coin 50"
    sentences = _consistent_file_text(statement)
    if statement.best_guess > _MUCH:
        return Verdict(WEAK, headline, ("That is hardly a promise: a guess may be right nearly always.", *sentences))
    if statement.neighbours == Relation.VALUE:
        return Verdict(WEAK, headline, ("It is about one column alone, and not about whole records.", *sentences))
    return Verdict(PROMISE, headline, sentences)


def verdict_of_model(statement: Statement) -> Verdict:
    """What to think of the release that a model was learned from, by the statement that the model carries."""
    verdict = verdict_of(statement)
    own = verdict.sentences[: len(verdict.sentences) - len(_consistent_file_text(statement))]
    return Verdict(verdict.tone, verdict.headline, (*own, _OF_MODEL))


def _consistent_file_text(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("The file is consistent: it is not damaged, and says itself that it promises nothing.",)
    return (
        "The file is consistent: it is not damaged, and every figure was computed anew from what it says was done. "
        "That it was done so is its maker's word.",
    )


def faq_answers(release: Release) -> tuple[FaqAnswer, ...]:
    """Who is protected from whom, how well, what is not, what several releases add up to, and who made it."""
    statement = release.statement
    left_out = len(statement.not_protected) - 2
    return (
        FaqAnswer("Who is protected?", _who_is_protected_text(statement)),
        FaqAnswer("From whom?", _protected_from_whom_text(statement)),
        FaqAnswer("How well?", _how_well_protected_text(statement)),
        FaqAnswer(
            "What is not protected?",
            (
                *statement.not_protected[:2],
                *([f"And {left_out} more: all of them stand in the statement in full."] if left_out > 0 else []),
            ),
        ),
        FaqAnswer("What do several releases add up to?", several_releases_text(statement)),
        FaqAnswer("Who made it?", (*_who_made_release_text(statement), _NO_ORIGIN)),
    )


def full_statement_text(statement: Statement) -> dict[str, list[str]]:
    """All that a statement says, as `rado show` does, by headings."""
    how = {
        "mechanism": statement.mechanism,
        "accountant": statement.accountant,
        "trust": statement.trust_model,
        "random bits": statement.random_source,
    }
    return statement_text(statement) | {"How it was made": [f"{what}: {text}" for what, text in how.items()]}


def _who_is_protected_text(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("Nobody.",)
    unit = statement.unit_of_privacy
    return (
        _WHO[Relation(statement.neighbours)].format(at_one_holder(statement)),
        f"In the words of the statement: {unit}.",
    )


def _protected_from_whom_text(statement: Statement) -> tuple[str, ...]:
    trusted = f"Whoever made it had to be trusted: {statement.trust_model}."
    if math.isinf(statement.epsilon):
        return ("From nobody who has the file.", trusted)
    what = (
        "single values of that column, by whoever sees that column of the rados"
        if statement.neighbours == Relation.VALUE
        else "this, by whoever has the file, whatever else they know and compute, even if they know all other records"
    )
    return (f"It bounds what can be found out about {what}.", trusted)


def _how_well_protected_text(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return (f"Not at all by this file: epsilon is infinite, for {statement.neighbours} as neighbours.",)
    sentences = [
        f"Somebody who would otherwise toss a coin is right at most {out_of_hundred(statement.best_guess)} about "
        "which of two neighbouring tables it was. A coin is right 50 of 100 times, certainty 100.",
        f"Neighbouring tables differ by this: {statement.neighbours}{at_one_holder(statement)}. In figures it is "
        f"epsilon {epsilon_text(statement.epsilon)} at delta {rounded_up_text(statement.delta, 6)}.",
    ]
    groups = [
        line
        for line in statement_figures_text(figures_of_statement(statement), statement.neighbours)
        if line.startswith("several")
    ]
    return (*sentences, *(f"{line[0].upper()}{line[1:]}." for line in groups))


def several_releases_text(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("Nothing is promised, so there is nothing to add. Two releases of one table tell more than one does.",)
    total = statement.composed
    if total is not None:
        n_earlier = total["earlier_releases"]
        return (
            f"With {n_earlier:,} earlier release{'' if n_earlier == 1 else 's'} that it names: epsilon "
            f"{epsilon_text(total['epsilon'])} at delta {rounded_up_text(total['delta'], 6)}, for "
            f"{total['neighbours']} as neighbours. Others that it does not name come on top.",
        )
    alone = "The statement is about this release alone; every other one about the same people comes on top."
    try:
        twice = Repeated(event_from_dict(statement.event), 2)
        return (
            f"{alone} Two like it come to epsilon {epsilon_text(epsilon_at(twice, statement.delta))} at delta "
            f"{rounded_up_text(statement.delta, 6)} for {statement.neighbours}, and a guess is right at most "
            f"{out_of_hundred(best_guess(twice))}.",
        )
    except ArgumentError:  # more uses than are accounted for
        return (alone,)


def _who_made_release_text(statement: Statement) -> tuple[str, ...]:
    if statement.holders is None:
        return ()
    return tuple(f"{line[0].upper()}{line[1:]}." for line in holders_text(statement.holders))
