"""From what a release says of itself, the mechanism to attack and the claim to hold it against, both checked.

The mechanism has the noise that the release names, not that of its epsilon. A release that describes what this attack
does not run, or that contradicts itself, is refused: an attack on something else would show nothing about it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from radoboost.errors import ArgumentError, ReleaseError
from radoboost.holder.mechanisms import Moments, NoisyExamples, NoisyRados
from radoboost.holder.mechanisms.moments.aggregations import CAP, CLASS_CAP, CONSTANT_VALUE, GRID
from radoboost.holder.mechanisms.moments.budget import SEARCHES, NoiseShape
from radoboost.holder.mechanisms.moments.feature_plan import LINEAR_ROUNDS, MOST_ROUNDS, WIDE_ROUNDS
from radoboost.holder.mechanisms.noisy_rados import INCLUSION, noise_scale_in_steps
from radoboost.holder.signatures import AllSignatures, FeatureInterval
from radoboost.lab.attacks.plain_likelihood import PlainTable
from radoboost.lab.attacks.roc import Claim
from radoboost.lab.audits.canaries import WIDTH
from radoboost.lab.audits.moments_audit import check_noise_can_be_attacked
from radoboost.privacy import Event, NotPrivate, Relation, event_from_dict, flatten
from radoboost.release.release import Release

LINEAR = "linear"
_LARGEST_DISTANCE = 100.0  # beyond it, moments are as good as without noise


def mechanism_of_release(release: Release) -> NoisyRados | NoisyExamples | Moments:
    """The private mechanism with the noise that a release says was added."""
    make = _REBUILT.get(release.law)
    if make is None:
        name = release.mechanism["name"]
        raise ReleaseError(f"what the mechanism {name!r} of this release does is not known here; upgrade radoboost")
    if release.mechanism.get("person") is not None:
        raise ReleaseError(
            f"the release is about persons, by {release.mechanism['person']!r}, and this attack is on a single record: "
            "it would show nothing; rado audit --exact --set max_rows=K is about persons"
        )
    with _wrong_release_in_one_line(release):
        return make(release)


def _noisy_rados_of_release(release: Release) -> NoisyRados:
    parameters = release.mechanism
    _expect_parameters(release, noise_on=NoisyRados.noise_on, inclusion=INCLUSION)
    _expect_release_surroundings(release, AllSignatures.name, hides_size=True)
    mechanism = NoisyRados(delta=release.statement.delta, clip=parameters["clip"], noise_std=parameters["noise_std"])
    mechanism.plan(release.n_rados, WIDTH, None)
    return mechanism


def _noisy_examples_of_release(release: Release) -> NoisyExamples:
    parameters = release.mechanism
    _expect_parameters(release, noise_on=NoisyExamples.noise_on)  # the rows are noisy, so any signatures may sum them
    mechanism = NoisyExamples(delta=release.statement.delta, clip=parameters["clip"], noise_std=parameters["noise_std"])
    mechanism_with_clip(mechanism, len(release.columns)).plan(1, WIDTH, 2)
    return mechanism


def _moments_of_release(release: Release) -> "_Released":
    parameters = release.mechanism
    n_searched = len(parameters.get("searched", ()))
    searches = [f"bounds {j + 1}" for j in range(len(SEARCHES))] if n_searched else []
    columns = column_word_of_release(release)
    first = [] if columns == LINEAR else ["outline"]
    names = ["counts", *searches, *first, "second", "sum", "whitened", "rounds", "scores"]
    noise = tuple((stage, float(parameters["noise"][stage])) for stage in names)
    _expect_parameters(release, grid=GRID, constant=CONSTANT_VALUE)
    mechanism = _Released(
        1.0, release.statement.delta, parameters["unit"], parameters["sharpen"], noise=noise,
        noise_rounds=parameters["rounds"], n_searched=n_searched, columns=columns,
        relation=parameters.get("relation", "add"), n_classes=release.n_classes,
    )  # fmt: skip
    slots = len(release.blocks["moment:b"])
    if slots != NoiseShape(n_classes=release.n_classes).slots:
        _refuse_release_parameter(release, "the number of sums", slots, NoiseShape(n_classes=release.n_classes).slots)
    _expect_release_surroundings(release, "drawn", hides_size=mechanism.hides_size)
    known = [(rounds, eta) for _, rounds, eta in (*LINEAR_ROUNDS, *WIDE_ROUNDS)] if mechanism.sharpen else [(0, 0.0)]
    if (parameters["rounds"], parameters["eta"]) not in known:
        raise ReleaseError(
            f"no release of moments has sharpen {mechanism.sharpen}, {parameters['rounds']!r} rounds and eta "
            f"{parameters['eta']!r}; get it again from its maker"
        )
    for scale in mechanism.scales(MOST_ROUNDS if mechanism.sharpen else 0).values():
        if scale:
            noise_scale_in_steps(scale / math.sqrt(2))  # off the diagonal, where it is least
            noise_scale_in_steps(scale)
    check_noise_can_be_attacked(mechanism)
    return mechanism


def column_word_of_release(release: Release) -> str:
    """The word for columns whose release has the same stages.

    Which columns there are, and how many, changes neither what a stage is nor its noise; whether there is an outline
    before them does.
    """
    plan = release.mechanism.get("plan")
    return LINEAR if plan is None or not plan["classes"] else "degree-2"


_REBUILT: dict[str, Callable[[Release], NoisyRados | NoisyExamples | Moments]] = {
    "noisy sums": _noisy_rados_of_release,
    "sums of noisy rows": _noisy_examples_of_release,
    "noisy moments": _moments_of_release,
}


def mechanism_with_clip(mechanism: NoisyExamples, n_columns: int) -> NoisyExamples:
    """The mechanism with a clipping norm: its own, or the largest that rows can have within their bounds."""
    return replace(mechanism, clip=math.sqrt(n_columns)) if mechanism.clip is None else mechanism


@dataclass(frozen=True)
class _Released(Moments):
    """Moments with the noise of a release, in units of its blocks; its own epsilon means nothing."""

    noise: tuple[tuple[str, float], ...] = ()
    noise_rounds: int = 0
    n_searched: int = 0
    columns: str = LINEAR
    n_classes: int = 2

    def scales(self, n_rounds: int, shape: NoiseShape = NoiseShape()) -> dict[str, float]:  # noqa: B008 - it is frozen
        """The noise in grid steps.

        That of the mean rados is for as many as the release has: fewer get less each. So do fewer columns that are
        searched. Until there is a plan, the first moments may yet be all of them.
        """
        unit = {"outline": GRID**2, "second": GRID**2, "whitened": GRID**2}
        scales = {stage: noise * unit.get(stage, GRID) for stage, noise in self.noise}
        for stage in scales:
            if stage.startswith("bounds"):
                scales[stage] *= math.sqrt(shape.n_searched / self.n_searched)
        if "outline" in scales and not shape.n_planned:
            scales["second"] = scales["outline"]
        scales["rounds"] *= math.sqrt(n_rounds / self.noise_rounds) if self.noise_rounds else 0.0
        return scales

    @lru_cache(maxsize=16)  # noqa: B019 - as what it stands in for
    def distance(self, shape: NoiseShape) -> float:
        """mu of all stages together, by their noise; what is without noise on purpose does not count."""
        double, apart = 1 if self.neighbours is Relation.RECORD else 2, math.sqrt(1 + (self.relation == "replace"))
        two, cap = self.n_classes == 2, CAP if self.n_classes == 2 else CLASS_CAP
        total = double if two or self.protects == "record" else math.sqrt(2)  # of more classes a label is in two slots
        reach = {"sum": total, "rounds": double * cap * math.sqrt(self.noise_rounds), "scores": math.sqrt(double)}
        if self.protects == "record":
            reach |= dict.fromkeys(("counts", "second", "whitened"), apart)
        noise = dict(self.noise)
        if self.protects == "record":
            reach |= {stage: apart * math.sqrt(self.n_searched) for stage in noise if stage.startswith("bounds")}
            reach |= {stage: apart for stage in noise if stage == "outline"}
        parts = [reach[stage] / noise[stage] if noise[stage] else math.inf for stage in reach if reach[stage]]
        return min(math.hypot(*parts), _LARGEST_DISTANCE)


def plain_table_of_release(release: Release) -> PlainTable:
    """The table to attack for plain rados or those of a feature band, which must promise nothing about records."""
    signatures, m, band = release.signatures, release.n_examples, None
    banded = release.law == "banded sums"
    with _wrong_release_in_one_line(release):
        if signatures["name"] != (FeatureInterval.name if banded else AllSignatures.name):
            raise ReleaseError(
                f"rados of the signature set {signatures['name']!r} have a law that this attack does not know; it "
                "knows those of all signatures, and of a feature band"
            )
        if m is None or m < 1:
            raise ReleaseError("the release does not say how many examples it is from; get it again from its maker")
        if banded:
            interval = FeatureInterval(signatures["low"], signatures["high"])
            interval.size(m)
            band = (interval.low, interval.high)
            _expect_parameters(release, band=list(band))
        _refuse_record_promise(release, banded)
        return PlainTable(m, len(release.columns), release.n_rados, band)


# ---- what is promised


def claim_of_statement(release: Release, mechanism: NoisyRados | NoisyExamples | Moments) -> Claim:
    """What the statement says, all of it: its event, every epsilon, and the best guess, which is a delta at epsilon 0.

    It must be about the tables that the attack on the mechanism tells apart.
    """
    stated = release.statement
    relation = mechanism.neighbours
    with _wrong_release_in_one_line(release):
        event = event_from_dict(stated.event)
        if event.relation is None or not 0 < stated.delta < 1:
            raise ReleaseError("the statement of this release speaks of nothing; get it again from its maker")
        if not event.relation == stated.neighbours == relation:
            raise ReleaseError(
                f"the statement is about {stated.neighbours!r}, its event about {event.relation.value!r}, and the "
                f"mechanism about {relation.value!r}; get the release again from its maker"
            )
        claim = _claim_of_event(release, event)
        claim.misses([0.5])  # an event that cannot be accounted for is refused here
        return claim


def _claim_of_event(release: Release, event: Event) -> Claim:
    stated = release.statement
    if not 0.5 <= stated.best_guess <= 1:
        raise ReleaseError(
            f"the statement's best guess is {stated.best_guess!r}, not a number from 0.5 to 1; get the release "
            "again from its maker"
        )
    guess = ((2 * stated.best_guess - 1, 0.0),) if stated.best_guess < 1 else ()
    return Claim(event, stated.delta, ((stated.delta, stated.epsilon), *stated.epsilon_at, *guess))


def _refuse_record_promise(release: Release, banded: bool) -> None:
    """Refuse a promise about records where there can be none: a band's is about one column's marginal."""
    stated = release.statement
    event = event_from_dict(stated.event)
    if banded:
        agrees = event.relation == stated.neighbours == Relation.VALUE
        _claim_of_event(release, event)
    else:
        epsilons = [stated.epsilon, *(epsilon for _, epsilon in stated.epsilon_at)]
        not_private = any(isinstance(leaf, NotPrivate) for leaf in flatten(event))
        agrees = not_private and set(epsilons) == {math.inf} and stated.best_guess == 1 and not stated.promises
    if not agrees:
        name = release.mechanism["name"]
        raise ReleaseError(
            f"the statement of the release promises what its mechanism does not ({name} promises nothing about "
            "records); do not trust it"
        )


# ---- what does not fit


@contextmanager
def _wrong_release_in_one_line(release: Release) -> Iterator[None]:
    name = release.mechanism["name"]
    try:
        yield
    except ReleaseError:
        raise
    except ArgumentError as error:
        what = str(error).split(";")[0]
        raise ReleaseError(
            f"the release says of {name!r} what cannot be true ({what}); get it again from its maker"
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise ReleaseError(f"the release does not say how {name!r} was done; it was not made by radoboost") from None


def _expect_parameters(release: Release, **expected: Any) -> None:
    """Refuse a release whose mechanism has another parameter than the one that is attacked."""
    for name, value in expected.items():
        if release.mechanism[name] != value:
            _refuse_release_parameter(release, name, release.mechanism[name], value)


def _expect_release_surroundings(release: Release, signatures: str, *, hides_size: bool) -> None:
    if release.signatures["name"] != signatures:
        _refuse_release_parameter(release, "signatures", release.signatures["name"], signatures)
    if hides_size and release.n_examples is not None:
        _refuse_release_parameter(release, "n_examples", release.n_examples, None)


def _refuse_release_parameter(release: Release, name: str, value: Any, expected: Any) -> None:
    raise ReleaseError(
        f"the release says of {release.mechanism['name']!r} that {name} is {value!r}; this attack knows only "
        f"{expected!r}, so it would show nothing about it"
    )
