"""A private mechanism run again on a neighbouring table, given what its first run released.

The first run logs every noisy sum: the exact integers, the noise that was drawn, and what was released. The second run
sums its own table, but is given the numbers that the first one released. So it makes the same choices on the way:
bounds, columns, whitening, classifier. Along these released numbers the two runs differ in their exact sums alone, and
how well they can be told apart follows from the differences, without statistics: each stage is a Gaussian mechanism,
and the squares of the differences, in units of the noise, add up to the squared distance mu of the two tables (A3 of
docs/proofs/accounting.md).

A replay gives out exact differences of its tables, so it is for made-up tables alone. Nothing here can be reached from
`craft`, and what a replay makes cannot be saved.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ReleaseError
from radoboost.holder.craft import _finish_release
from radoboost.holder.curator import Curator, NoiseSpec
from radoboost.holder.gaussian_noise import rounded_normals
from radoboost.holder.mechanisms import ReleaseDraft
from radoboost.holder.request import CraftRequest
from radoboost.privacy import Event
from radoboost.privacy.spending import Account
from radoboost.release.release import Release
from radoboost.tables.schema import Schema

Integers = NDArray[np.int64]
# What a stage is called, by the title of its pass and the array that gets noise.
_NAMES = {
    ("second moments", "products"): "second moments",
    ("whitened moments", "vector"): "sum",
    ("whitened moments", "products"): "whitened moments",
}


@dataclass(frozen=True)
class Draw:
    """Noise that was drawn, from the first row of a plane of a key."""

    key: bytes = field(repr=False)
    plane: int
    scale: float
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NoisySum:
    """One noisy sum of a run: exact integers, the noise that they got, and what the run went on with."""

    stage: str
    symmetric: bool
    exact: Integers
    noisy: Integers
    released: Integers
    draws: tuple[Draw, ...]

    def squared_distance(self, other: "NoisySum", shares: int = 1) -> Fraction | None:
        """Of two runs, |difference|^2 / noise^2, exactly; None where there is a difference without noise.

        Off the diagonal of a symmetric sum, every pair of entries is one number with noise of its own. The noise is the
        sum of so many `shares` that are like the one that was drawn.
        """
        difference = other.exact - self.exact
        if not difference.any():
            return Fraction(0)
        if len(self.draws) != 1 + self.symmetric:
            return None
        parts = [np.diag(difference), np.triu(difference, 1)] if self.symmetric else [difference]
        squares = (
            _sum_of_squares(part) / (Fraction(draw.scale) ** 2 * shares)
            for part, draw in zip(parts, self.draws, strict=True)
        )
        return sum(squares, Fraction(0))

    def expected_noise(self) -> Integers:
        """The noise that should be in it, drawn once more from what was logged."""
        numbers = [rounded_normals(one.key, one.scale, 0, *one.shape, plane=one.plane) for one in self.draws]
        if not numbers:
            return np.zeros_like(self.exact)
        if not self.symmetric:
            return numbers[0].reshape(self.exact.shape)
        above = np.triu(numbers[1], 1)
        return np.diag(numbers[0][0]) + above + above.T


def _sum_of_squares(numbers: Integers) -> int:
    numbers = numbers[numbers != 0]
    if len(numbers) < 64 or np.abs(numbers).max() >= 1 << 34:
        return sum(number**2 for number in numbers.tolist())
    high, low = numbers >> 17, numbers & ((1 << 17) - 1)  # so small that sums of their products fit 64 bits
    return (int(high @ high) << 34) + (int(high @ low) << 18) + int(low @ low)


@dataclass(eq=False)
class Log:
    """What one run did: its noisy sums, what it computed from released numbers, its bookings, and how it ended."""

    sums: list[NoisySum] = field(default_factory=list)
    computed: list[Any] = field(default_factory=list)
    used: list[Any] = field(default_factory=list)
    bookings: list[Event] = field(default_factory=list)
    made: ReleaseDraft | None = None
    stopped: str = ""

    @cached_property
    def forms(self) -> list[tuple[Any, ...]]:
        return [_form_of_noisy_sum(one) for one in self.sums]

    @cached_property
    def bits(self) -> list[Any]:
        return [_bits_of_value(one) for one in self.computed]

    def named(self) -> list[tuple[str, NoisySum]]:
        """The noisy sums by the names of their stages; the first of two second moments is the outline of a plan."""
        seconds = [number for number, one in enumerate(self.sums) if one.stage == "second moments"]
        outline = seconds[0] if len(seconds) > 1 else None
        return [("outline" if number == outline else one.stage, one) for number, one in enumerate(self.sums)]


class Script:
    """What a run goes on with, in place of its own noisy sums and what it computed from them; here with just these."""

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        """The numbers that are released."""
        return noisy

    def used(self, number: int, log: Log, computed: Any) -> Any:
        """What follows from released numbers; in a room one holder computes it, and another may be lied to."""
        return computed

    def instead(self, number: int, log: Log) -> Any:
        """Data in place of what would be computed, which is then not done; None if it is."""
        return None


class Honest(Script):
    """A run that goes on with its own numbers."""


@dataclass(frozen=True)
class MoreRows(Script):
    """Another script, but that the noisy number of good rows is larger by so many steps.

    So a run on a small table of persons does not stop because it might have no rows at all.
    """

    script: Script
    more: int

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        if stage == "counts":
            noisy = noisy.copy()
            noisy[0, 0] += self.more
        return self.script.released(number, stage, noisy)

    def used(self, number: int, log: Log, computed: Any) -> Any:
        return self.script.used(number, log, computed)

    def instead(self, number: int, log: Log) -> Any:
        return self.script.instead(number, log)


@dataclass(frozen=True)
class Given(Script):
    """A run that goes on with what another run released; it stops where it has other stages."""

    log: Log

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        given = self.log.sums[number] if number < len(self.log.sums) else None
        if given is None or given.stage != stage or given.released.shape != noisy.shape:
            raise Astray(f"stage {number}, {stage}, is not what the other run had there")
        return given.released

    def used(self, number: int, log: Log, computed: Any) -> Any:
        return self.log.used[number]

    def instead(self, number: int, log: Log) -> Any:
        skipped = number < len(self.log.computed) and self.log.computed[number] is None
        return self.log.used[number] if skipped else None


class Astray(Exception):
    """A replayed run does not go the way of the first one, though it was given all that the first one released."""


def recording_curator(run: type[Curator]) -> Any:
    """Such a run that keeps a log, and goes on with what a `script` says."""

    class Recording(run):  # type: ignore[valid-type, misc]
        def __init__(self, *about: Any, script: Script, **others: Any) -> None:
            super().__init__(*about, **others)
            self.log, self._script, self._title = Log(), script, ""
            self._draws: list[Draw] = []

        def book(self, event: Event) -> None:
            self.log.bookings.append(event)
            super().book(event)

        def sum(self, task: Any, source: Any = None) -> Any:
            self._title = task.title
            return super().sum(task, source)

        def released(self, arrays: Sequence[Integers], noises: Sequence[NoiseSpec]) -> Sequence[Integers]:
            exact, numbers = [array.copy() for array in arrays], len(self.log.sums)
            self._of_noise: list[tuple[Draw, ...]] = []
            noisy = super().released(arrays, noises)
            given = []
            for k, (array, noise) in enumerate(zip(noisy, noises, strict=True)):
                stage = self._stage(noise)
                released = np.array(self._script.released(numbers + k, stage, array))
                about = exact[k], np.array(array), released, self._of_noise[k]
                self.log.sums.append(NoisySum(stage, noise.symmetric, *about))
                given.append(released)
            return given

        def _stage(self, noise: NoiseSpec) -> str:
            if not noise.array:
                return "counts"
            title = self._title.removeprefix("looking for ")
            return "mean rados" if title.startswith("mean rado") else _NAMES.get((title, noise.array), title)

        def _noise_for(self, array: Integers, noise: NoiseSpec) -> Integers:
            self._draws = []
            numbers: Integers = super()._noise_for(array, noise)
            self._of_noise.append(tuple(self._draws))
            return numbers

        def _draw(self, key: bytes, plane: int, scale: float, shape: tuple[int, ...]) -> Integers:
            self._draws.append(Draw(bytes.join(b"", [key]), plane, scale, shape))
            numbers: Integers = super()._draw(key, plane, scale, shape)
            return numbers

        def agreed(self, compute: Callable[[], Any]) -> Any:
            return self._used(super().agreed(compute))

        def agreed_data(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
            instead = self._script.instead(len(self.log.computed), self.log)
            if instead is None:
                return read(self._used(super().agreed_data(compute)))
            self.log.computed.append(None)
            self.log.used.append(instead)
            return read(instead)

        def _used(self, computed: Any) -> Any:
            number = len(self.log.computed)
            self.log.computed.append(computed)
            self.log.used.append(self._script.used(number, self.log, computed))
            return self.log.used[-1]

    return Recording


def log_curator(run: Any, make: Callable[[Any], ReleaseDraft | None]) -> Log:
    log: Log = run.log
    try:
        log.made = make(run)
    except Exception as error:  # whatever it is: the replay must end in the same way
        log.stopped = f"{type(error).__name__}: {error}"
    return log


# ---- what must be the same in both runs, and what must be true of each of them


def faults_of_noise(log: Log, seen: set[tuple[bytes, int]] | None = None) -> list[str]:
    """What is wrong with the noise of a run: it is not what the logged keys and scales give, or a key serves twice."""
    seen, faults = set() if seen is None else seen, []
    for stage, one in log.named():
        if not np.array_equal(one.noisy - one.exact, one.expected_noise()):
            faults.append(f"{stage}: the noise is not that of its key, plane and scale")
        for draw in one.draws:
            if (draw.key, draw.plane) in seen:
                faults.append(f"{stage}: its noise was drawn from a key and plane that served before")
            seen.add((draw.key, draw.plane))
    return faults


def faults_of_pair(first: Log, replayed: Log) -> list[str]:
    """What differs between a run and its replay, where nothing but exact sums may."""
    faults = []
    if first.stopped != replayed.stopped:
        faults.append(f"one run ended with {first.stopped!r}, and the other one with {replayed.stopped!r}")
    if first.forms != replayed.forms:
        faults.append("stages, their shapes or the scales of their noise differ")
    if first.bits != replayed.bits:
        faults.append("what follows from released numbers differs")
    if first.bookings != replayed.bookings:
        faults.append("what was booked differs")
    return faults


def _form_of_noisy_sum(one: NoisySum) -> tuple[Any, ...]:
    return one.stage, one.symmetric, one.exact.shape, tuple((draw.plane, draw.scale, draw.shape) for draw in one.draws)


def _bits_of_value(value: Any) -> Any:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else json.dumps(value)


# ---- what a replay makes


@dataclass(frozen=True, eq=False)
class ReplayedRelease(Release):
    """A release of a replay: for comparison alone, since it is an exact function of its made-up table."""

    def save(self, path: Any, *, fresh: bool = False) -> None:
        raise ReleaseError("this is a replay of a made-up table and protects nothing; it cannot be saved")

    def __reduce__(self) -> tuple[Any, ...]:
        raise ReleaseError("this is a replay of a made-up table and protects nothing; it cannot be pickled")

    def content(self) -> tuple[Any, ...]:
        """All that a file of it would hold: its document, and the bits of its blocks."""
        blocks = {name: (rows.shape, rows.tobytes()) for name, rows in self.blocks.items()}
        return json.dumps(self.to_dict(), sort_keys=True), blocks


def replayed_release(asked: CraftRequest, made: ReleaseDraft, schema: Schema | None = None) -> ReplayedRelease:
    """The release of what a replay made, without an id."""
    release = _finish_release(asked, made, "", schema, Account())
    return ReplayedRelease(**{one.name: getattr(release, one.name) for one in fields(Release) if one.init})


def squared_distances(first: Log, replayed: Log, shares: int = 1) -> dict[str, Fraction | None]:
    """The squared distance of two runs by stage; None where they differ and nothing hides it."""
    parts: dict[str, Fraction | None] = {}
    for (stage, one), other in zip(first.named(), replayed.sums, strict=False):  # one may have stopped
        part, before = one.squared_distance(other, shares), parts.get(stage, Fraction(0))
        parts[stage] = None if part is None or before is None else before + part
    return parts


def total_squared_distance(parts: Iterable[Fraction | None]) -> Fraction | None:
    known = list(parts)
    return None if None in known else sum((part for part in known if part is not None), Fraction(0))


# ---- What a first run is made to release, for exact audits. A promise holds whatever was released before: no choice of
# these numbers may take two tables further apart than is promised.

LARGE = 2**61
_FAR = 60.0  # a score at which a class has nearly no probability
_SPHERE = ("second moments",)
_AFTER = ("whitened moments", "mean rados")


def _checkered_script_numbers(numbers: Integers) -> Integers:
    """1 and -1 in turns, the same on both sides of a diagonal."""
    places = np.indices(numbers.shape).sum(axis=0)
    return np.asarray(1 - 2 * (places % 2), dtype=np.int64)


def _script_of_constant(value: int) -> Callable[[Integers], Integers]:
    return lambda numbers: np.full_like(numbers, value)


@dataclass(frozen=True)
class Absurd(Script):
    """Numbers that no noise would give; those of the noisy counts of rows only on demand, for a run may stop there."""

    name: str
    change: Callable[[Integers], Integers]
    counts: bool = False

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        return noisy if stage == "counts" and not self.counts else self.change(noisy)


ABSURD: tuple[Absurd, ...] = (
    Absurd("all zero", lambda numbers: np.zeros_like(numbers), counts=True),
    Absurd("huge", _script_of_constant(LARGE)),
    Absurd("huge and negative", _script_of_constant(-LARGE)),
    Absurd("huge, in turns", lambda numbers: LARGE * _checkered_script_numbers(numbers), counts=True),
    Absurd("tiny, in turns", _checkered_script_numbers),
    Absurd("the least of 64 bits", _script_of_constant(np.iinfo(np.int64).min), counts=True),
)


@dataclass(frozen=True)
class Lying(Script):
    """A run whose whitening, classifiers and score weights are these: in a room another holder may send any numbers."""

    name: str
    value: float

    def used(self, number: int, log: Log, computed: Any) -> Any:
        return np.full_like(computed, self.value) if next_computation_of_replay(log, computed) else computed

    def instead(self, number: int, log: Log) -> Any:
        """Weights of the scores: computed from such lies, linear algebra would complain on stderr."""
        if not log.sums or log.sums[-1].stage not in _AFTER:
            return None
        shape = next(one.exact.shape for one in log.sums if one.stage == "sum")
        return [np.full(shape, self.value).tolist(), self.value]


LYING = tuple(Lying(f"a speaker who sends {value:g}", value) for value in (float("nan"), 1e200, -1e6))


def next_computation_of_replay(log: Log, computed: Any) -> str:
    """Whether a run computes its whitening or its classifier, by the stage before; empty for anything else."""
    stage = log.sums[-1].stage if log.sums else ""
    if not isinstance(computed, np.ndarray):
        return ""
    if stage in _SPHERE and computed.ndim == 2:
        return "whitening"
    return "classifier" if stage in _AFTER else ""


@dataclass(frozen=True)
class Aimed(Script):
    """A transcript along which rows differ as far as they can.

    It is another one up to the second moments. From there on nothing is learned, so that every row has its full weight.
    With an `axis` whitening sees this direction of the rows on the sphere alone, and of more than two classes those
    from the third on are out of the question for rows on its positive side, where there are `far` ones.
    """

    before: Log
    axis: NDArray[np.float64] | None = None
    far: bool = False

    def released(self, number: int, stage: str, noisy: Integers) -> Integers:
        return noisy if number >= len(self.before.sums) or stage in _LATE else self.before.sums[number].released

    def used(self, number: int, log: Log, computed: Any) -> Any:
        kind = next_computation_of_replay(log, computed)
        if kind == "whitening" and self.axis is not None:
            return np.outer(self.axis, self.axis)
        if kind == "classifier":
            theta = np.zeros_like(computed)
            if self.far and self.axis is not None and theta.ndim == 2:
                theta[2:] = -_FAR * self.axis
            return theta
        return computed


_LATE = ("sum", "whitened moments", "mean rados", "scores")


def differing_direction(there: NoisySum, absent: NoisySum) -> NDArray[np.float64] | None:
    """The direction of the one row by which two second moments differ; None where there is no such row.

    The constant is its last column, and positive.
    """
    square = (there.exact - absent.exact).astype(np.float64)
    if square[-1, -1] <= 0:
        return None
    return np.asarray(square[-1] / np.linalg.norm(square[-1]))
