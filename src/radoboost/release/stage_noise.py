"""The noise that noisy moments declare against the event of their statement, and words against the number of classes.

How far one unit of privacy moves the sums of a stage depends on the neighbours, on whether there are two classes or
more, and on a few numbers that stand in the release (M4, M7, M10, M14 to M17 and P4 of docs/proofs). Each stage is
a Gaussian mechanism whose mu is that over its noise, and together they must not come to more than the event. What was
added to the sums nobody can see: this holds what a file says of its noise against what it says of its promise. Nor may
a file hold what such a mechanism never releases.
"""

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from radoboost.errors import ReleaseError
from radoboost.privacy import Gaussian, Relation, SubsampledGaussian, event_from_dict, flatten, gaussian_distance
from radoboost.privacy.events import ADDED
from radoboost.release.blocks import RADOS
from radoboost.release.laws import EXACT_MOMENTS, NOISY_MOMENTS, NOISY_ROWS

if TYPE_CHECKING:
    from radoboost.release import Release, Statement

_SLACK = 1e-6  # relative: what another version may round otherwise
_CLASSES = re.compile(r"\b[Tt]he (two|\d[\d,]*) classes\b")
_MADE = {
    "moment:C", "whitening", "moment:b", "moment:C2", "scores", "sharpened", "theta", "outline",
}  # fmt: skip
_BLOCKS = {NOISY_MOMENTS: {*_MADE, RADOS}} | {law: {RADOS} for law in NOISY_ROWS}
_LABELS = (Relation.LABEL, Relation.PERSON_LABELS)


class _Moved(NamedTuple):
    """How far one unit of privacy moves each of so many sums, where a row counts 1 and has length 1."""

    reach: float
    times: int = 1


def check_release(release: "Release") -> None:
    """Refuse words about another number of classes, and noisy moments with less noise than their promise takes."""
    _check_words(release.statement, release.n_classes)
    if not math.isfinite(release.statement.epsilon):
        return
    if release.law == EXACT_MOMENTS:
        raise ReleaseError(
            f"the statement promises epsilon {release.statement.epsilon:g}, and the sums of the release are exact; do "
            "not trust it"
        )
    _check_contents(release)
    if release.law == NOISY_MOMENTS:
        _check_noise(release)
    elif release.mechanism.get("noise_on") in ("rados", "examples"):
        _check_one_noise(release)


def _check_words(statement: "Statement", n_classes: int) -> None:
    for sentence in (*statement.promises, *statement.not_protected, statement.unit_of_privacy):
        for number in _CLASSES.findall(sentence):
            if number.replace(",", "") != ("two" if n_classes == 2 else str(n_classes)):
                raise ReleaseError(
                    f"the statement speaks of {number} classes, and the release has {n_classes}; do not trust it"
                )


def _check_contents(release: "Release") -> None:
    """Refuse an exact number of rows where that is protected, and blocks that no such mechanism makes."""
    relation = event_from_dict(release.statement.event).relation
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


def _check_noise(release: "Release") -> None:
    event = event_from_dict(release.statement.event)
    mu, total, noise = gaussian_distance(event), 0.0, release.mechanism["noise"]
    assert event.relation is not None
    if mu is None:
        raise ReleaseError("the event of its statement is not that of noisy moments; do not trust it")
    for stage, moved in _stages(release, event.relation).items():
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


def _check_one_noise(release: "Release") -> None:
    """Noise on rados or on examples: so much of it, for rows of such a norm, and as often as there are rados (R4, E2).

    One edge vector that is replaced moves its row by twice the norm, and a person's rows together by sqrt(rows) of it.
    """
    event, mechanism = event_from_dict(release.statement.event), release.mechanism
    leaves = flatten(event)
    if not all(isinstance(leaf, Gaussian | SubsampledGaussian) for leaf in leaves):
        raise ReleaseError("the event of its statement is not that of noise on rows or rados; do not trust it")
    multiplier = max(leaf.noise_multiplier for leaf in leaves if isinstance(leaf, Gaussian | SubsampledGaussian))
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


def _stages(release: "Release", relation: Relation) -> dict[str, _Moved]:
    blocks, mechanism, two = release.blocks, release.mechanism, release.n_classes == 2
    label, replaced = relation in _LABELS, relation is Relation.REPLACE
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
