"""A statement for people who decide and are no specialists: a verdict in one sentence, and answers to questions."""

import math
from dataclasses import dataclass

from radoboost.errors import ArgumentError
from radoboost.privacy import Relation, Repeated, best_guess, epsilon_at, event_from_dict
from radoboost.release import Release, Statement, rounded_up
from radoboost.release.words import epsilon_text, figures_in_words, figures_of, holders_in_words, statement_in_words

PROMISE, WEAK, NONE, WRONG = "promise", "weak", "none", "wrong"
_MUCH = 0.9  # a best guess that is right more often than this says hardly anything
_WHO = {
    Relation.RECORD: "Every single record, which is one row: whether it was in the table at all, and all that it says.",
    Relation.REPLACE: "Every single record, which is one row: all that it says. How many records there are is told.",
    Relation.EDGE: "Every single row: what it says, its label included. How many rows there are is told.",
    Relation.LABEL: "The label of every single row, and nothing else: all other columns count as known.",
    Relation.VALUE: "Single values of one column, as far as that column of the rados tells; other columns tell more.",
    Relation.PERSON: "Every single person with all of their rows: whether they were in the table at all.",
    Relation.PERSON_ROWS: "Every single person: all that their rows say. How many rows each person has is told.",
    Relation.PERSON_LABELS: "The labels of every single person, and nothing else: all other columns count as known.",
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
class Answer:
    """A question that somebody who decides would ask, and what the statement says to it."""

    question: str
    sentences: tuple[str, ...]


def of_hundred(share: float) -> str:
    """How often out of a hundred times, never below the share itself."""
    return f"{min(100, math.ceil(round(100 * share, 9)))} of 100 times"


def promise_in_words(statement: Statement) -> str:
    """The promise in a few words, with its neighbours."""
    if math.isinf(statement.epsilon):
        return "no promise"
    return f"promise of epsilon {epsilon_text(statement.epsilon)} for {statement.neighbours}"


def verdict_of(statement: Statement) -> Verdict:
    """What to think of a release by its statement alone, which was held against its event when it was read."""
    if math.isinf(statement.epsilon):
        return Verdict(
            NONE,
            "No promise: assume that whoever knows all other records can find out about the one that is left",
            ("Treat this file with the care that the table itself needs.", *_consistent(statement)),
        )
    promise, guess = promise_in_words(statement), of_hundred(statement.best_guess)
    headline = f"{promise[0].upper()}{promise[1:]}: the best guess is right at most {guess}, a coin 50"
    sentences = _consistent(statement)
    if statement.best_guess > _MUCH:
        return Verdict(WEAK, headline, ("That is hardly a promise: a guess may be right nearly always.", *sentences))
    if statement.neighbours == Relation.VALUE:
        return Verdict(WEAK, headline, ("It is about one column alone, and not about whole records.", *sentences))
    return Verdict(PROMISE, headline, sentences)


def verdict_of_model(statement: Statement) -> Verdict:
    """What to think of the release that a model was learned from, by the statement that the model carries."""
    verdict = verdict_of(statement)
    own = verdict.sentences[: len(verdict.sentences) - len(_consistent(statement))]
    return Verdict(verdict.tone, verdict.headline, (*own, _OF_MODEL))


def _consistent(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("The file is consistent: it is not damaged, and says itself that it promises nothing.",)
    return (
        "The file is consistent: it is not damaged, and every figure was computed anew from what it says was done. "
        "That it was done so is its maker's word.",
    )


def answers(release: Release) -> tuple[Answer, ...]:
    """Who is protected from whom, how well, what is not, what several releases add up to, and who made it."""
    statement = release.statement
    left_out = len(statement.not_protected) - 2
    return (
        Answer("Who is protected?", _who(statement)),
        Answer("From whom?", _from_whom(statement)),
        Answer("How well?", _how_well(statement)),
        Answer(
            "What is not protected?",
            (
                *statement.not_protected[:2],
                *([f"And {left_out} more: all of them stand in the statement in full."] if left_out > 0 else []),
            ),
        ),
        Answer("What do several releases add up to?", _together(statement)),
        Answer("Who made it?", (*_makers(statement), _NO_ORIGIN)),
    )


def full_statement(statement: Statement) -> dict[str, list[str]]:
    """All that a statement says, as `rado show` does, by headings."""
    how = {
        "mechanism": statement.mechanism,
        "accountant": statement.accountant,
        "trust": statement.trust_model,
        "random bits": statement.random_source,
    }
    return statement_in_words(statement) | {"How it was made": [f"{what}: {text}" for what, text in how.items()]}


def _who(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("Nobody.",)
    unit = statement.unit_of_privacy
    return (_WHO[Relation(statement.neighbours)], f"In the words of the statement: {unit}.")


def _from_whom(statement: Statement) -> tuple[str, ...]:
    trusted = f"Whoever made it had to be trusted: {statement.trust_model}."
    if math.isinf(statement.epsilon):
        return ("From nobody who has the file.", trusted)
    what = (
        "single values of that column, by whoever sees that column of the rados"
        if statement.neighbours == Relation.VALUE
        else "this, by whoever has the file, whatever else they know and compute, even if they know all other records"
    )
    return (f"It bounds what can be found out about {what}.", trusted)


def _how_well(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return (f"Not at all by this file: epsilon is infinite, for {statement.neighbours} as neighbours.",)
    sentences = [
        f"Somebody who would otherwise toss a coin is right at most {of_hundred(statement.best_guess)} about which of "
        "two neighbouring tables it was. A coin is right 50 of 100 times, certainty 100.",
        f"Neighbouring tables differ by this: {statement.neighbours}. In figures it is epsilon "
        f"{epsilon_text(statement.epsilon)} at delta {rounded_up(statement.delta, 6)}.",
    ]
    groups = [
        line for line in figures_in_words(figures_of(statement), statement.neighbours) if line.startswith("several")
    ]
    return (*sentences, *(f"{line[0].upper()}{line[1:]}." for line in groups))


def _together(statement: Statement) -> tuple[str, ...]:
    if math.isinf(statement.epsilon):
        return ("Nothing is promised, so there is nothing to add. Two releases of one table tell more than one does.",)
    total = statement.composed
    if total is not None:
        n_earlier = total["earlier_releases"]
        return (
            f"With {n_earlier:,} earlier release{'' if n_earlier == 1 else 's'} that it names: epsilon "
            f"{epsilon_text(total['epsilon'])} at delta {rounded_up(total['delta'], 6)}, for {total['neighbours']} as "
            "neighbours. Others that it does not name come on top.",
        )
    alone = "The statement is about this release alone; every other one about the same people comes on top."
    try:
        twice = Repeated(event_from_dict(statement.event), 2)
        return (
            f"{alone} Two like it come to epsilon {epsilon_text(epsilon_at(twice, statement.delta))} at delta "
            f"{rounded_up(statement.delta, 6)} for {statement.neighbours}, and a guess is right at most "
            f"{of_hundred(best_guess(twice))}.",
        )
    except ArgumentError:  # more uses than are accounted for
        return (alone,)


def _makers(statement: Statement) -> tuple[str, ...]:
    if statement.holders is None:
        return ()
    return tuple(f"{line[0].upper()}{line[1:]}." for line in holders_in_words(statement.holders))
