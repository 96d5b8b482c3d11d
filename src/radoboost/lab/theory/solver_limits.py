"""How far the exact solver gets: seconds against the number of examples, for both decision problems.

NP-hardness is about the worst case, and a time is about one solver. Neither is a guarantee: where the solver stops,
another attack may go on, and with enough columns linear algebra does.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, attack_library
from radoboost.lab.theory.decision_problems import (
    LARGEST,
    Answer,
    Integers,
    ProbeQuestion,
    SparseQuestion,
    decide_question,
)
from radoboost.progress import Progress, silent
from radoboost.report.findings import (
    Check,
    Figure,
    FindingPart,
    Findings,
    Panel,
    ReportColumn,
    ReportTable,
    Series,
    findings_of_parts,
)

# ---- Restricted exact cover by 3-sets (X3C3), which the hardness proofs start from: are there q of 3q different sets,
# each element in three of them, that hold every element once? This is NP-complete (Gonzalez 1985). The search here
# knows nothing of rados or of solvers.

_ATTEMPTS = 100_000  # about one in twelve succeeds


@dataclass(frozen=True)
class ThreeSets:
    """3q sets of three of the elements 0 ... 3q - 1, each element in three of them."""

    sets: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        counts = Counter(element for one in self.sets for element in one)
        if len(self.sets) < 6 or len(self.sets) % 3 or any(len(one) != 3 or len({*one}) != 3 for one in self.sets):
            raise ArgumentError("3q sets of three different elements are needed, for a q of at least 2")
        if len({frozenset(one) for one in self.sets}) != len(self.sets):
            raise ArgumentError("two of the 3-sets are the same; each may be there once")
        if counts != dict.fromkeys(range(len(self.sets)), 3):
            raise ArgumentError(f"each of the elements 0 ... {len(self.sets) - 1} must be in exactly three of the sets")

    @property
    def q(self) -> int:
        return len(self.sets) // 3


@dataclass(frozen=True)
class Cover:
    """Yes with the indices of the sets of an exact cover, no, or unknown if the time ran out."""

    answer: str
    chosen: tuple[int, ...]
    seconds: float


def random_three_sets(q: int, rng: np.random.Generator) -> ThreeSets:
    """Sets drawn uniformly: three copies of each element, shuffled and dealt, until no set has a fault."""
    return _draw_three_sets(q, lambda: rng.permutation(np.repeat(np.arange(3 * q), 3)))


def planted_three_sets(q: int, rng: np.random.Generator) -> ThreeSets:
    """Sets that are known to hold an exact cover: one copy of each element is dealt first, then the other two."""
    return _draw_three_sets(
        q, lambda: np.concatenate([rng.permutation(3 * q), rng.permutation(np.repeat(np.arange(3 * q), 2))])
    )


def all_three_sets_of_six() -> list[ThreeSets]:
    """All sets of six different 3-sets of six elements with each element in three: every instance with q = 2."""
    choices = combinations(combinations(range(6), 3), 6)
    return [ThreeSets(sets) for sets in choices if set(Counter(chain(*sets)).values()) == {3}]


def find_exact_cover(instance: ThreeSets, *, seconds: float = DEFAULT_SECONDS) -> Cover:
    """Search for an exact cover: Knuth's Algorithm X, always at the element with the fewest sets left."""
    left, start = attack_deadline(seconds), time.monotonic()
    # A path is what is chosen, the elements still open, and the sets that fit into them.
    everything = frozenset(range(len(instance.sets)))
    paths: list[tuple[tuple[int, ...], frozenset[int], frozenset[int]]] = [((), everything, everything)]
    steps = 0
    while paths:
        chosen, open_elements, fitting = paths.pop()
        if not open_elements:
            return Cover("yes", tuple(sorted(chosen)), time.monotonic() - start)
        steps += 1
        if steps % 64 == 0 and left() <= 0:
            return Cover("unknown", (), time.monotonic() - start)
        counts = Counter(element for k in fitting for element in instance.sets[k])
        hardest = min(sorted(open_elements), key=lambda element: counts[element])
        for k in sorted(fitting, reverse=True):
            if hardest in instance.sets[k]:
                rest = open_elements.difference(instance.sets[k])
                still = frozenset(other for other in fitting if rest.issuperset(instance.sets[other]))
                paths.append(((*chosen, k), rest, still))
    return Cover("no", (), time.monotonic() - start)


def _draw_three_sets(q: int, deal: Callable[[], Any]) -> ThreeSets:
    if q < 2:
        raise ArgumentError(f"q must be at least 2, for three elements have only one 3-set; it is {q}")
    for _ in range(_ATTEMPTS):
        sets = np.sort(deal().reshape(3 * q, 3), axis=1)
        if (np.diff(sets, axis=1) > 0).all() and len(np.unique(sets, axis=0)) == 3 * q:
            # In order, so that a planted cover does not come first.
            a, b, c = sets[np.lexsort(sets.T[::-1])].T.tolist()
            return ThreeSets(tuple(zip(a, b, c, strict=True)))
    raise ArgumentError(f"no {3 * q:,} different 3-sets were found in {_ATTEMPTS:,} attempts; take another q")


# ---- Exact cover in the guise of rados: the paper's reductions, and others that hold for every norm, proved in
# docs/proofs/hardness.md, H1 to H8. A reduction turns 3-sets into a question about rados, whose answer is yes if and
# only if there is an exact cover. In both problems of the paper p is part of the instance, so its reductions at p = 0
# prove both of its lemmas. Ours add every fixed p, and p = infinity.

SCALE = 1 << 53  # the paper's machine epsilon is one unit of a grid with the step 2**-53

COVERABLE = ThreeSets(((0, 1, 2), (3, 4, 5), (0, 1, 3), (2, 4, 5), (0, 2, 4), (1, 3, 5)))
UNCOVERABLE = ThreeSets(((0, 1, 3), (1, 2, 4), (2, 3, 5), (0, 3, 4), (1, 4, 5), (0, 2, 5)))

Question = SparseQuestion | ProbeQuestion


def set_indicators(instance: ThreeSets) -> Integers:
    """Whether set k holds element j, shape (sets, elements)."""
    bits = np.zeros((len(instance.sets), len(instance.sets)), dtype=np.int64)
    for k, one in enumerate(instance.sets):
        bits[k, list(one)] = 1
    return bits


def printed_sparse(instance: ThreeSets, p: float) -> SparseQuestion:
    """The reduction to Sparse-Approximation as the paper prints it: right at p = 0 (H2), but not for p > 0 (H3).

    p is part of the instance, so p = 0 proves lem_comp1. For p > 0 all numbers are in units of 2**-53, the paper's ell,
    and so are integers.
    """
    if p not in (0, 1):
        raise ArgumentError(
            f"the printed reduction is asked here at p = 0 and p = 1, not {p!r}; H3 is about the others"
        )
    rados = set_indicators(instance).T
    if p == 0:
        return SparseQuestion(rados, instance.q, ell=1, r=2, p=0)
    return SparseQuestion(SCALE * rados, instance.q, ell=1, r=2 * SCALE, p=1)


def printed_probe(instance: ThreeSets, p: float) -> ProbeQuestion:
    """The reduction to Probe-Sample-Subsumption as printed: right for every p of the paper (H4); here p is 0 or 1."""
    if p not in (0, 1):
        raise ArgumentError(f"the solver asks this at p = 0 and p = 1, not {p!r}; try_printed_probe takes any p")
    return ProbeQuestion(np.eye(len(instance.sets), dtype=np.int64), set_indicators(instance).T, instance.q, r=2, p=p)


def try_printed_probe(instance: ThreeSets, p: float) -> bool:
    """The answer to the printed question of Probe-Sample-Subsumption at any p, by trying all choices and subsets.

    p-th powers of distances are compared with that of r, which is 2: all of these are whole numbers.
    """
    if not 0 <= p < math.inf:
        raise ArgumentError(f"p is a number of at least 0 in the paper, not {p!r}; any_norm_probe is for infinity, too")
    rados, units = set_indicators(instance).T, np.eye(len(instance.sets), dtype=np.int64)
    subsets = np.array(list(product((0, 1), repeat=instance.q)))
    for chosen in combinations(range(len(units)), instance.q):
        apart = np.abs(rados[:, None] - subsets @ units[list(chosen)])
        powers = (apart > 0) if p == 0 else apart.astype(np.float64) ** p
        if (powers.sum(axis=2) <= 2).any(axis=1).all():
            return True
    return False


def three_sets_with_count(instance: ThreeSets, weight: int) -> Integers:
    """The 3-sets as edge vectors with a last coordinate that counts them, in units of a weight."""
    return np.column_stack([set_indicators(instance), np.full(len(instance.sets), weight)])


def _cover_goals(edge_vectors: Integers) -> Integers:
    """Each edge vector on its own, all of them, and a third of all: what the sets of an exact cover sum to."""
    total = edge_vectors.sum(axis=0)  # 3 at each element, for it is in three sets
    return np.vstack([edge_vectors, total, total // 3])


def fixed_norm_sparse(instance: ThreeSets, p: float) -> SparseQuestion:
    """Our reduction to Sparse-Approximation at a fixed p: the norm (1, H5) or a column (inf, H6) counts examples."""
    if p not in (1, math.inf):
        raise ArgumentError(f"this reduction is for p = 1 and inf, not {p!r}; any_norm_sparse is for all p from 1 on")
    edge_vectors = set_indicators(instance) if p == 1 else three_sets_with_count(instance, 1)
    return SparseQuestion(_cover_goals(edge_vectors), 3 * instance.q, ell=3 if p == 1 else 1, p=p)


def any_norm_sparse(instance: ThreeSets, p: float) -> SparseQuestion:
    """One set of rados and one ell for every p from 1 to infinity, where a heavy column counts the examples (H7).

    Yes at p = 1 is yes at every p, and no at infinity is no at every p, for norms fall as p grows.
    """
    if p < 1:
        raise ArgumentError(f"this reduction is for p from 1 on, not {p!r}; printed_sparse is for p = 0")
    weight = 18 * instance.q
    return SparseQuestion(_cover_goals(three_sets_with_count(instance, weight)), 3 * instance.q, ell=weight + 3, p=p)


def any_norm_probe(instance: ThreeSets, p: float) -> ProbeQuestion:
    """The sets are the candidates, and the one rado holds every element once: right whatever the norm (H8)."""
    return ProbeQuestion(set_indicators(instance), np.ones((1, len(instance.sets)), np.int64), instance.q, r=0, p=p)


# Sets to a question whose answer is yes if and only if they have an exact cover.
REDUCTIONS: dict[str, Callable[[ThreeSets], Question]] = {
    "sparse-0": partial(printed_sparse, p=0),
    **{f"sparse-{p}": partial(fixed_norm_sparse, p=p) for p in (1, math.inf)},
    **{f"sparse-any-{p}": partial(any_norm_sparse, p=p) for p in (1, math.inf)},
    **{f"probe-{p}": partial(printed_probe, p=p) for p in (0, 1)},
    **{f"probe-any-{p}": partial(any_norm_probe, p=p) for p in (0, 1, math.inf)},
}


NAME = "hardness"
TITLE = "How far an exact solver gets"
ASSUMES = (
    "The adversary has rados, the number of rows they are from, and either twice as many candidate rows as the table "
    "has, or nothing else. No signature is known."
)
QUICK_SIZES, QUICK_COVERS = (4, 8), (2, 3)
_SIXES = 330  # instances with q = 2
_PRINTED_NORMS = (0, 0.5, 1, 2, 7)  # at which all choices are tried
_COLUMNS: dict[str, Callable[[int], int]] = {
    "2 columns": lambda m: 2,
    "8 columns": lambda m: 8,
    "a column a candidate": lambda m: 2 * m,
}
_IMAGES = {"p = 0": "sparse-0", "p = 1": "sparse-1", "p = infinity": "sparse-inf"}


@dataclass(frozen=True)
class Timing:
    """The questions of one kind and size: the seconds of each, whether it was decided, and whether rightly."""

    seconds: tuple[float, ...]
    decided: tuple[bool, ...]
    right: bool

    @property
    def share(self) -> float:
        return sum(self.decided) / len(self.decided)

    @property
    def median(self) -> float:
        """The median of the seconds; infinite if less than half was decided, for then only the limit is known."""
        times = [spent if done else math.inf for spent, done in zip(self.seconds, self.decided, strict=True)]
        return float(np.median(times))


def probe_of_size(m: int, columns: int, rng: np.random.Generator) -> ProbeQuestion:
    """A probe whose answer is yes: four rados of m of 2m candidates, with values over the whole grid."""
    everyone = rng.integers(-LARGEST, LARGEST + 1, (2 * m, columns))
    inside = everyone[rng.permutation(len(everyone))[:m]]
    return ProbeQuestion(everyone, rng.integers(0, 2, (4, m)) @ inside, m, r=0, p=math.inf)


def study(
    *, sizes: Sequence[int] = QUICK_SIZES, covers: Sequence[int] = QUICK_COVERS, sixes: int = 30, repeats: int = 3,
    limit: float = 0.3, seconds: float = 60.0, seed: int = 0, workers: int = 1, bar: Progress = silent,
) -> Findings:  # fmt: skip
    """Time both decision problems; a curve ends at the size where less than half is decided within the limit.

    Before that the paper's own reductions are asked about `sixes` of the 330 instances with q = 2.
    """
    if repeats < 1 or not sizes or not covers or not 1 <= sixes <= _SIXES:
        raise ArgumentError(f"a study needs at least one size, one q and one repeat, and 1 to {_SIXES} sixes")
    attack_library("ortools.sat.python.cp_model")  # loaded here, so that the first question is not charged for it
    left = attack_deadline(seconds)
    printed = _check_printed_reductions(sixes, workers, left)
    kinds: dict[str, dict[str, dict[int, Timing]]] = {"Probe-Sample-Subsumption": {}, "Sparse-Approximation": {}}

    def probe(width: Callable[[int], int], m: int, number: int) -> tuple[Question, str]:
        return probe_of_size(m, width(m), np.random.default_rng([seed, m, width(m), number])), "yes"

    def image(name: str, q: int, number: int) -> tuple[Question, str]:
        rng = np.random.default_rng([seed, q, number])
        instance = planted_three_sets(q, rng) if number % 2 else random_three_sets(q, rng)
        return REDUCTIONS[name](instance), find_exact_cover(instance, seconds=10.0).answer

    asked: list[tuple[str, str, Any, Sequence[int]]] = [
        *(("Probe-Sample-Subsumption", label, partial(probe, width), sizes) for label, width in _COLUMNS.items()),
        *(("Sparse-Approximation", label, partial(image, name), covers) for label, name in _IMAGES.items()),
    ]
    for number, (kind, label, ask, sizes_of_kind) in enumerate(asked):
        bar("timing the solver", number, len(asked))
        share = attack_deadline(max(left() / (len(asked) - number), 1e-3))  # so that the last curves get theirs
        kinds[kind][label] = _solver_time_curve(ask, sizes_of_kind, repeats, limit, workers, share)
    return findings_of_parts(NAME, TITLE, [*printed, *_solver_findings(kinds, limit, repeats)])


def _check_printed_reductions(sixes: int, workers: int, left: Callable[[], float]) -> list[Check]:
    """The printed reductions, on instances with q = 2 that are spread over all of them."""
    every, n_done, n_covered, at_1 = all_three_sets_of_six(), 0, 0, 0
    at_0, probes = 0, dict.fromkeys(_PRINTED_NORMS, 0)
    for number in range(sixes):
        instance = every[number * len(every) // sixes]
        truth = find_exact_cover(instance).answer
        answers = [
            decide_question(printed_sparse(instance, p), seconds=max(left(), 1e-3), workers=workers) for p in (0, 1)
        ]
        if left() <= 0 or any(one.answer == "unknown" for one in answers):
            break
        n_done, n_covered = n_done + 1, n_covered + (truth == "yes")
        at_0, at_1 = at_0 + (answers[0].answer == truth), at_1 + (answers[1].answer == truth)
        for p in probes:
            probes[p] += try_printed_probe(instance, p) == (truth == "yes")
    among = f"{n_done} instances with q = 2, {n_covered} of which have a cover"
    among = f"all {among}" if n_done == len(every) else f"{among}; there are {len(every)} in all"
    if len(set(probes.values())) == 1:
        right = f"at each of p = {', '.join(f'{p:g}' for p in probes)} it does in {probes[0]}"
    else:
        right = "it does in " + ", ".join(f"{n} at p = {p:g}" for p, n in probes.items())
    return [
        Check("lem_comp1: its reduction at p = 0 answers as exact cover does, which proves it, for p is part of the "
              "instance", at_0 == n_done if n_done else None, f"it does in {at_0} of {among}"),
        Check("proof of lem_comp1: so does its branch for p > 0, which the lemma does not need",
              at_1 == n_done if n_done else None, f"at p = 1 it does in {at_1} of {among}"),
        Check("lem_comp2: its reduction answers as exact cover does", all(n == n_done for n in probes.values())
              if n_done else None, f"{right} of {among}"),
    ]  # fmt: skip


def _solver_time_curve(
    ask: Callable[[int, int], tuple[Question, str]], sizes: Sequence[int], repeats: int, limit: float, workers: int,
    left: Callable[[], float],
) -> dict[int, Timing]:  # fmt: skip
    curve: dict[int, Timing] = {}
    for size in sorted(sizes):
        answers: list[Answer] = []
        right = True
        for number in range(repeats):
            if left() <= 0:
                return curve  # a size of which only some were asked would not be comparable
            question, truth = ask(size, number)
            answers.append(decide_question(question, seconds=min(limit, max(left(), 1e-3)), workers=workers))
            right &= "unknown" in (answers[-1].answer, truth) or answers[-1].answer == truth
        if left() <= 0 and any(answer.answer == "unknown" for answer in answers):
            return curve  # the limit may not have been the question's own
        decided = tuple(answer.answer != "unknown" for answer in answers)
        curve[size] = Timing(tuple(answer.seconds for answer in answers), decided, right)
        if curve[size].share < 0.5:
            break
    return curve


def _solver_findings(
    kinds: dict[str, dict[str, dict[int, Timing]]], limit: float, repeats: int
) -> Iterator[FindingPart]:
    def median(timing: Timing) -> float:
        return timing.median if math.isfinite(timing.median) else math.nan

    curves = [(kind, label, curve) for kind, those in kinds.items() for label, curve in those.items()]
    yield ReportTable(
        "solver-times", "Seconds of the exact solver",
        ["problem", "kind", "m or q", ReportColumn("decided", "%"), ReportColumn("median", "s", 3),
         ReportColumn("longest", "s", 3)],
        [[kind, label, size, round(100 * timing.share), median(timing), max(timing.seconds)]
         for kind, label, curve in curves for size, timing in curve.items()],
        f"{repeats} questions each, at most {limit:g} s a question; no median where less than half was decided.",
    )  # fmt: skip
    axes = [("Which candidates are in it?", "rows in the table, of twice as many candidates"),
            ("Any small rows at all?", "q of the exact cover")]  # fmt: skip
    panels = [
        Panel(title, x, "seconds", [Series(label, list(curve), [median(timing) for timing in curve.values()])
                                    for label, curve in those.items()], log_y=True)
        for (title, x), those in zip(axes, kinds.values(), strict=True)
    ]  # fmt: skip
    caption = (
        f"Median seconds to an exact answer, {repeats} questions a point, at most {limit:g} s each. A curve ends where "
        "less than half was decided. These are times of one solver, not bounds on an adversary."
    )
    yield Figure("solver-times", "How far an exact solver gets", caption, panels)
    for kind, those in kinds.items():
        timings = [timing for curve in those.values() for timing in curve.values()]
        decided = [one for timing in timings for one in timing.decided]
        truth = "the rados were made so" if kind.startswith("Probe") else "an independent search for covers agrees"
        yield Check(
            f"{kind}: every answer of the solver is right",
            all(timing.right for timing in timings) if any(decided) else None,
            f"{sum(decided)} of {len(decided)} questions were decided; {truth}",
            ours=True,
        )
    yield from (_where_solver_stops(kind, label, curve, limit) for kind, label, curve in curves)
    yield (
        "p = infinity is outside of the paper's range, where p is a number; the questions of p = 1 and of p = "
        "infinity come from our own reductions."
    )
    yield (
        "NP-hardness says that no method is known to be fast on every instance. It says nothing about a given "
        "release, and is not a guarantee."
    )
    yield "With as many columns as candidates a linear system tells who is in, and the solver finds that out."


def _where_solver_stops(kind: str, label: str, curve: dict[int, Timing], limit: float) -> str:
    if not curve:
        return f"{kind}, {label}: there was no time for it."
    last = max(curve)
    timing = curve[last]
    if timing.share >= 0.5:
        word = "decided" if all(one.share == 1 for one in curve.values()) else "mostly decided"
        return f"{kind}, {label}: {word} up to {last}, the largest asked."
    earlier = [size for size in curve if size != last]
    before = f"mostly decided up to {max(earlier)}; " if earlier else ""
    return f"{kind}, {label}: {before}at {last} {timing.share:.0%} within {limit:g} s."
