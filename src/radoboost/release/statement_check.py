"""A statement against its own event: no figure in it may be smaller than what was done costs."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from radoboost import privacy
from radoboost.errors import ArgumentError, ReleaseError
from radoboost.privacy.events import ADDED
from radoboost.release import parties
from radoboost.release.file_format import RADOS
from radoboost.release.kind import EXACT_MOMENTS, NOISY_MOMENTS, NOISY_ROWS

if TYPE_CHECKING:
    from radoboost.release.release import Release, Statement


_SLACK = 1e-6  # relative: what another version of the accountant may differ by


class StatementContradiction(ReleaseError):
    """A file that is whole, and whose statement is not what the rest of it says was done."""


@contextmanager
def as_contradictions() -> Iterator[None]:
    """Whatever is refused within contradicts the file itself."""
    try:
        yield
    except ReleaseError as error:
        raise StatementContradiction(str(error)) from None


def check_statement(statement: "Statement") -> privacy.Event:
    """The event of a statement, which is refused where it says less than the event costs.

    It looks at epsilon with its delta and relation, the other pairs of `epsilon_at`, the best guess, what this release
    and earlier ones come to, and the figures for several holders. An infinite epsilon promises nothing, so nothing is
    computed for it. Only figures are checked, and only against the event: that it is what was done is the maker's word.
    `check_release_statement` holds the rest of a file against it.
    """
    event = _event_in_statement(statement.event, "the event of its statement")
    relation = event.relation
    if relation is None:
        raise ReleaseError("the event of its statement names no neighbours; do not trust it")
    if math.isfinite(statement.epsilon) and statement.neighbours != relation.value:
        raise ReleaseError(
            f"the statement speaks of {statement.neighbours!r}, and what was done is about {relation.value!r}; do not "
            "trust it"
        )
    if not 0 <= statement.delta < 1:
        raise ReleaseError(f"the statement's delta is {statement.delta!r}, which is not a delta")
    for delta, epsilon in ((statement.delta, statement.epsilon), *statement.epsilon_at):
        _check_stated_epsilon(event, delta, epsilon, "what was done")
    _check_stated_guess(event, statement.best_guess)
    if statement.composed is not None:
        _check_composed_statement(event, statement.composed)
    for figure in () if statement.holders is None else statement.holders.figures:
        _check_stated_epsilon(figure.event, figure.delta, figure.epsilon, f"what was done, for {figure.case},")
    if statement.holders is not None and math.isfinite(statement.epsilon):
        if statement.holders.how == parties.ROOM:
            _check_room_figures(event, statement.delta, statement.holders)
        elif statement.holders.how in (parties.AVERAGED, parties.ONE_TABLE):
            _check_statement_of_several(statement, statement.holders)
    return event


def _check_statement_of_several(statement: "Statement", holders: parties.Parties) -> None:
    """What follows from several releases costs no less than any of them; and all of them, where they are of one table.

    One who is at two holders pays at least for the two costliest releases, and one who is at all of them for all.
    """
    try:
        events = [_event_in_statement(part["event"], "the event of one of its releases") for part in holders.parts]
        stated = [(float(part["epsilon"]), float(part["delta"])) for part in holders.parts]
    except (LookupError, TypeError, ValueError):
        raise ReleaseError("the statement does not say in full what was averaged; do not trust it") from None
    for own, (epsilon, delta) in zip(events, stated, strict=True):
        _check_stated_epsilon(own, delta, epsilon, "what was done for one of its releases")
    every = privacy.Composed(tuple(events))
    for least in [every] if holders.how == parties.ONE_TABLE else events:
        for delta, epsilon in ((statement.delta, statement.epsilon), *statement.epsilon_at):
            _check_stated_epsilon(least, delta, epsilon, "what was averaged")
        _check_stated_guess(least, statement.best_guess)
    if holders.how == parties.ONE_TABLE:
        return
    costliest = sorted(events, key=lambda own: privacy.epsilon_at(own, statement.delta))[-2:]
    shared = [figure for figure in holders.figures if figure.size > 1 and figure.case.startswith(parties.AT_SEVERAL)]
    if parties.AT_TWO not in [figure.case for figure in shared]:
        raise ReleaseError(f"the statement has no figure for {parties.AT_TWO}; do not trust it")
    for figure in shared:
        least = privacy.Composed(tuple(costliest)) if figure.case == parties.AT_TWO else every
        _check_stated_epsilon(least, figure.delta, figure.epsilon, f"what was averaged, for {figure.case},")


def _check_room_figures(event: privacy.Event, delta: float, holders: parties.Parties) -> None:
    """Figures of a room follow from its event, how many holders there were, and how many stayed to the end.

    How many may put together what they know is in the words of the second figure; where that leaves two numbers, the
    figures have to be those of one of them.
    """
    reasons = []
    for _, expected in fitting_room_figures(event, delta, holders):
        try:
            for figure, said in zip(expected, holders.figures, strict=True):
                if (said.delta, said.size) != (figure.delta, figure.size):
                    raise ReleaseError(f"the figure for {figure.case} is at another delta or size; do not trust it")
                _check_stated_epsilon(figure.event, said.delta, said.epsilon, f"what was done, for {figure.case},")
        except ReleaseError as error:
            reasons.append(error)
        else:
            return
    if reasons:
        raise reasons[0]
    raise ReleaseError(
        f"the statement's figures for holders are not those of a room of {len(holders.parts)} holders, of whom "
        f"{_number_of_present_holders(holders)} stayed; do not trust it"
    )


def fitting_room_figures(
    event: privacy.Event, delta: float, holders: parties.Parties
) -> Iterator[tuple[int, tuple[parties.PartyGuarantee, ...]]]:
    """For how many who may put together what they know a room's figures have these cases, and what they must be."""
    count, present = len(holders.parts), _number_of_present_holders(holders)
    cases = [figure.case for figure in holders.figures]
    for tolerate in range(max(1, count - present), (count + 1) // 2):
        expected = parties.room_party_guarantees(event, count, tolerate, present, delta)
        if [figure.case for figure in expected] == cases:
            yield tolerate, expected


def _number_of_present_holders(holders: parties.Parties) -> int:
    return sum(part.get("until") is None for part in holders.parts)


def _event_in_statement(data: Any, what: str) -> privacy.Event:
    try:
        return privacy.event_from_dict(data)
    except ArgumentError as error:
        raise ReleaseError(f"{what} cannot be read: {error}") from None


def _check_stated_epsilon(event: privacy.Event, delta: float, epsilon: float, what: str) -> None:
    """One evaluation of the curve, where everything is as it should be."""
    if math.isinf(epsilon):
        return
    assert event.relation is not None
    if not 0 < delta < 1:
        raise ReleaseError(f"the statement gives epsilon {epsilon:g} at delta {delta!r}, which is not a delta")
    try:
        if privacy.delta_at(event, epsilon * (1 + _SLACK)) <= delta:
            return
        cost = privacy.epsilon_at(event, delta)
    except ArgumentError as error:
        raise ReleaseError(f"the event of its statement cannot be accounted for: {error}") from None
    raise ReleaseError(
        f"the statement says epsilon {epsilon:g} at delta {delta:g} for {event.relation.value}, and {what} costs "
        f"{'no finite epsilon' if math.isinf(cost) else f'{cost:g}'}; do not trust it"
    )


def _check_stated_guess(event: privacy.Event, stated: float) -> None:
    assert event.relation is not None
    try:
        guess = privacy.best_guess(event)
    except ArgumentError:
        guess = 1.0  # more uses than are accounted for
    if not stated >= guess * (1 - _SLACK):
        raise ReleaseError(
            f"the statement says that the best guess between tables with {event.relation.value} is right with "
            f"probability {stated:.6g} at most, and what was done allows {guess:.6g}; do not trust it"
        )


def _check_composed_statement(event: privacy.Event, composed: Mapping[str, Any]) -> None:
    """What several releases come to is no less than this one costs, or all of them where their events are known."""
    epsilon, relation = composed["epsilon"], event.relation
    entries = _earlier_events_of_statement(composed)
    if epsilon == "infinite":
        return
    assert relation is not None
    if composed["neighbours"] != relation.value:
        raise ReleaseError(f"the total speaks of {composed['neighbours']!r}, and the release of {relation.value!r}")
    earlier = [_event_in_statement(entry, "the event of an earlier release") for entry in entries]
    try:
        total = privacy.Composed((event, *(privacy.convert_relation(other, relation) for other in earlier)))
    except ArgumentError as error:
        raise ReleaseError(f"the statement gives a total for releases that have none: {error}") from None
    _check_stated_epsilon(total, float(composed["delta"]), float(epsilon), "what was done in all of them")


def _earlier_events_of_statement(composed: Mapping[str, Any]) -> list[Any]:
    """The events of earlier releases, as many as the statement counts."""
    try:
        entries = [entry["event"] for entry in composed["releases"]]
        names = {entry["id"] for entry in composed["releases"]}
    except (LookupError, TypeError):
        raise ReleaseError("the statement does not say in full what it was composed with; do not trust it") from None
    count = composed.get("earlier_releases")
    if not len(entries) == len(names) == count:
        raise ReleaseError(f"the statement counts {count!r} earlier releases and names {len(names)}; do not trust it")
    return entries


# ---- The noise that noisy moments declare against the event of their statement, and words against the number of
# classes.
#
# How far one unit of privacy moves the sums of a stage depends on the neighbours, on whether there are two
# classes or more, and on a few numbers that stand in the release (M4, M7, M10, M14 to M17 and P4 of docs/proofs).
# Each stage is a Gaussian mechanism whose mu is that over its noise, and together they must not come to more than
# the event. What was added to the sums nobody can see: this holds what a file says of its noise against what it
# says of its promise. Nor may a file hold what such a mechanism never releases.

_CLASSES = re.compile(r"\b[Tt]he (two|\d[\d,]*) classes\b")
_MADE = {
    "moment:C", "whitening", "moment:b", "moment:C2", "scores", "sharpened", "theta", "outline",
}  # fmt: skip
_BLOCKS = {NOISY_MOMENTS: {*_MADE, RADOS}} | {law: {RADOS} for law in NOISY_ROWS}
_LABELS = (privacy.Relation.LABEL, privacy.Relation.PERSON_LABELS)


class _Moved(NamedTuple):
    """How far one unit of privacy moves each of so many sums, where a row counts 1 and has length 1."""

    reach: float
    times: int = 1


def check_release_statement(release: "Release") -> None:
    """Refuse words about another number of classes, and noisy moments with less noise than their promise takes."""
    _check_statement_words(release.statement, release.n_classes)
    if not math.isfinite(release.statement.epsilon):
        return
    if release.law == EXACT_MOMENTS:
        raise ReleaseError(
            f"the statement promises epsilon {release.statement.epsilon:g}, and the sums of the release are exact; do "
            "not trust it"
        )
    _check_release_contents(release)
    if release.law == NOISY_MOMENTS:
        _check_stated_noise(release)
    elif release.mechanism.get("noise_on") in ("rados", "examples"):
        _check_stated_rado_noise(release)


def _check_statement_words(statement: "Statement", n_classes: int) -> None:
    for sentence in (*statement.promises, *statement.not_protected, statement.unit_of_privacy):
        for number in _CLASSES.findall(sentence):
            if number.replace(",", "") != ("two" if n_classes == 2 else str(n_classes)):
                raise ReleaseError(
                    f"the statement speaks of {number} classes, and the release has {n_classes}; do not trust it"
                )


def _check_release_contents(release: "Release") -> None:
    """Refuse an exact number of rows where that is protected, and blocks that no such mechanism makes."""
    relation = privacy.event_from_dict(release.statement.event).relation
    if relation in ADDED and release.n_examples is not None:
        raise ReleaseError(
            f"the statement promises an epsilon for {relation.value}, and the release has the exact number of rows; do "
            "not trust it"
        )
    if release.law in _BLOCKS and (others := sorted(set(release.blocks) - _BLOCKS[release.law])):
        raise ReleaseError(
            f"the statement promises an epsilon, and the release has a block {others[0]!r} that {release.law} do not "
            "have; do not trust it"
        )


def _check_stated_noise(release: "Release") -> None:
    event = privacy.event_from_dict(release.statement.event)
    mu, total, noise = privacy.gaussian_distance(event), 0.0, release.mechanism["noise"]
    assert event.relation is not None
    if mu is None:
        raise ReleaseError("the event of its statement is not that of noisy moments; do not trust it")
    for stage, moved in _stated_moment_stages(release, event.relation).items():
        if not float(noise.get(stage, 0.0)) > 0:
            raise ReleaseError(
                f"the statement promises epsilon {release.statement.epsilon:g} for {event.relation.value}, and the "
                f"release declares no noise for its stage {stage!r}; do not trust it"
            )
        total += moved.times * (moved.reach / float(noise[stage])) ** 2
    if not math.sqrt(total) <= mu * (1 + _SLACK):
        raise ReleaseError(
            f"the noise that the release declares for its stages comes to mu {math.sqrt(total):.6g} for "
            f"{event.relation.value}, and the event of its statement to {mu:.6g}; do not trust it"
        )


def _check_stated_rado_noise(release: "Release") -> None:
    """Noise on rados or on examples: so much of it, for rows of such a norm, and as often as there are rados (R4, E2).

    One edge vector that is replaced moves its row by twice the norm, and a person's rows together by sqrt(rows) of it.
    """
    event, mechanism = privacy.event_from_dict(release.statement.event), release.mechanism
    leaves = privacy.flatten(event)
    if not all(isinstance(leaf, privacy.Gaussian | privacy.SubsampledGaussian) for leaf in leaves):
        raise ReleaseError("the event of its statement is not that of noise on rows or rados; do not trust it")
    multiplier = max(
        leaf.noise_multiplier for leaf in leaves if isinstance(leaf, privacy.Gaussian | privacy.SubsampledGaussian)
    )
    on_rados, step = mechanism["noise_on"] == "rados", release.columns[0].step
    stated = [mechanism.get(name) for name in ("noise_std", "clip")]
    noise, clip = (float(value) if isinstance(value, int | float) else 0.0 for value in stated)
    if not (0 < noise < math.inf and 0 < clip < math.inf):
        raise ReleaseError("the statement promises an epsilon, and the release no noise or no clip; do not trust it")
    reach = math.floor(clip / step) * (1.0 if on_rados else 2 * math.sqrt(int(mechanism.get("max_rows", 1))))
    if not noise / step >= multiplier * reach * (1 - _SLACK):
        raise ReleaseError(
            f"the release declares noise {noise:g} for rows of norm {clip:g}, and its statement is about noise of "
            f"{multiplier * reach * step:g}; do not trust it"
        )
    times = sum(leaves.values())
    if on_rados and times < release.n_rados:
        raise ReleaseError(
            f"the release has {release.n_rados:,} rados, and its statement is about {times:,} of them; do not trust it"
        )


def _stated_moment_stages(release: "Release", relation: privacy.Relation) -> dict[str, _Moved]:
    blocks, mechanism, two = release.blocks, release.mechanism, release.n_classes == 2
    label, replaced = relation in _LABELS, relation is privacy.Relation.REPLACE
    k, apart = int(mechanism.get("max_rows", 1)), math.sqrt(2) if replaced else 1.0
    vector, cap = 2.0 if label or replaced else 1.0, 0.5 if two else math.sqrt(0.5)
    stages = {"sum": _Moved(k * (vector if two or not label else math.sqrt(2)))}
    if "sharpened" in blocks:
        times = len(blocks["sharpened"]) // (1 if two else release.n_classes)
        stages["rounds"] = _Moved(k * cap * vector, times)
    if "scores" in blocks:
        stages["scores"] = _Moved(k * (math.sqrt(2) if label or replaced else 1.0))
    if label:  # what does not depend on labels is exact
        return stages
    stages |= {"second": _Moved(k * apart), "whitened": _Moved(k * apart)}
    if "rows" in mechanism:
        stages["counts"] = _Moved(k * apart)
    if "outline" in blocks:
        stages["outline"] = _Moved(k * apart)
    if searched := mechanism.get("searched", ()):
        searches = [stage for stage in mechanism["noise"] if stage.startswith("bounds ")]
        stages |= {stage: _Moved(k * apart * math.sqrt(len(searched))) for stage in searches or ["bounds 1"]}
    return stages
