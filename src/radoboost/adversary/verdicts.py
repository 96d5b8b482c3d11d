"""What to think of a release once attacks were tried on it."""

from radoboost.adversary.attempts import FAILED, MISTRUST, NEEDS, Attempt
from radoboost.adversary.exact_audits import ExactAudit
from radoboost.adversary.membership import Membership
from radoboost.adversary.reconstruction import Reconstruction
from radoboost.findings.signing import TRIED
from radoboost.release import Statement
from radoboost.release.plain_words import NONE, WRONG, Verdict, of_hundred, promise_in_words, verdict_of

_NONE_RAN = "No attack ran on this release, so nothing was put to the test."


def verdict_after(statement: Statement, attempts: list[Attempt]) -> Verdict:
    """The verdict on a release by its statement, and by what attacks got from it."""
    stated, tried = verdict_of(statement), [attempt for attempt in attempts if attempt.group == TRIED]
    audited = [one for one in attempts if isinstance(one.result, ExactAudit)]
    sentences = (*_back(tried), *stated.sentences, *_not_tried(attempts), *(one.sentence for one in audited))
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
    promise = promise_in_words(statement)
    holds = "holds as far as attacks were tried" if measured.shown_share is not None else "was not put to the test"
    headline = (
        f"{promise[0].upper()}{promise[1:]} {holds}: the best attack guesses right {got}, the promise allows "
        f"{of_hundred(statement.best_guess)}"
    )
    few = () if measured.shown_share is not None else ("There was time for too few runs; give the attack more.",)
    return Verdict(stated.tone, headline, (*few, *sentences))


def _back(tried: list[Attempt]) -> tuple[str, ...]:
    """Records that an attack got back come before all else."""
    return tuple(one.sentence for one in tried if isinstance(one.result, Reconstruction) and one.result.n_found)


def _not_tried(attempts: list[Attempt]) -> tuple[str, ...]:
    without = [attempt.title for attempt in attempts if attempt.group == FAILED and attempt.name != "membership"]
    needs = [attempt.title for attempt in attempts if attempt.group == NEEDS]
    return (
        *([f"Begun, and ended without a result: {'; '.join(without)}."] if without else []),
        *([f"Not tried, because it would take more than the file: {'; '.join(needs)}."] if needs else []),
    )
