"""How far the exact solver gets: seconds against the number of examples, for both decision problems.

NP-hardness is about the worst case, and a time is about one solver. Neither is a guarantee: where the solver stops,
another attack may go on, and with enough columns linear algebra does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.lab.attacks.adversary_knowledge import deadline, import_attack_library
from radoboost.lab.theory.decision_problems import LARGEST, Answer, ProbeQuestion
from radoboost.lab.theory.reductions import (
    REDUCTIONS,
    Question,
    all_of_six,
    decide,
    find_cover,
    planted_sets,
    printed_sparse,
    random_sets,
    try_printed_probe,
)
from radoboost.progress import Progress, silent
from radoboost.report.findings import Check, Figure, Findings, Panel, ReportColumn, ReportTable, Series

NAME = "hardness"
TITLE = "How far an exact solver gets"
ASSUMES = (
    "The adversary has rados, the number of rows they are from, and either twice as many candidate rows as the table "
    "has, or nothing else. No signature is known."
)
QUICK_SIZES, FULL_SIZES = (4, 8), (4, 6, 8, 10, 12, 14, 16, 20, 24, 32)
QUICK_COVERS, FULL_COVERS = (2, 3), (2, 3, 4, 5, 6, 7, 8, 10, 12)
QUICK_SIXES, FULL_SIXES = 30, 330
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
    *,
    sizes: Sequence[int] = QUICK_SIZES,
    covers: Sequence[int] = QUICK_COVERS,
    sixes: int = QUICK_SIXES,
    repeats: int = 3,
    limit: float = 0.3,
    seconds: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    bar: Progress = silent,
) -> Findings:
    """Time both decision problems; a curve ends at the size where less than half is decided within the limit.

    Before that the paper's own reductions are asked about `sixes` of the 330 instances with q = 2.
    """
    if repeats < 1 or not sizes or not covers or not 1 <= sixes <= FULL_SIXES:
        raise ArgumentError(f"a study needs at least one size, one q and one repeat, and 1 to {FULL_SIXES} sixes")
    import_attack_library(
        "ortools.sat.python.cp_model"
    )  # loaded here, so that the first question is not charged for it
    left = deadline(seconds)
    printed = _printed(sixes, workers, left)
    curves = len(_COLUMNS) + len(_IMAGES)
    probes: dict[str, dict[int, Timing]] = {}
    images: dict[str, dict[int, Timing]] = {}
    for label, width in _COLUMNS.items():

        def ask(m: int, number: int, width: Callable[[int], int] = width) -> tuple[Question, str]:
            return probe_of_size(m, width(m), np.random.default_rng([seed, m, width(m), number])), "yes"

        bar("timing the solver", len(probes), curves)
        probes[label] = _curve(ask, sizes, repeats, limit, workers, _share(left, curves - len(probes)))
    for label, name in _IMAGES.items():

        def image(q: int, number: int, name: str = name) -> tuple[Question, str]:
            rng = np.random.default_rng([seed, q, number])
            instance = planted_sets(q, rng) if number % 2 else random_sets(q, rng)
            return REDUCTIONS[name](instance), find_cover(instance, seconds=10.0).answer

        bar("timing the solver", curves - len(_IMAGES) + len(images), curves)
        images[label] = _curve(image, covers, repeats, limit, workers, _share(left, len(_IMAGES) - len(images)))
    return _findings(printed, probes, images, limit, repeats)


def _printed(sixes: int, workers: int, left: Callable[[], float]) -> list[Check]:
    """The printed reductions, on instances with q = 2 that are spread over all of them."""
    every, n_done, n_covered, at_1 = all_of_six(), 0, 0, 0
    at_0, probes = 0, dict.fromkeys(_PRINTED_NORMS, 0)
    for number in range(sixes):
        instance = every[number * len(every) // sixes]
        truth = find_cover(instance).answer
        answers = [decide(printed_sparse(instance, p), seconds=max(left(), 1e-3), workers=workers) for p in (0, 1)]
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


def _share(left: Callable[[], float], curves: int) -> Callable[[], float]:
    """A fair part of the time that is left, so that the last curves get theirs."""
    return deadline(max(left() / curves, 1e-3))


def _curve(
    ask: Callable[[int, int], tuple[Question, str]],
    sizes: Sequence[int],
    repeats: int,
    limit: float,
    workers: int,
    left: Callable[[], float],
) -> dict[int, Timing]:
    curve: dict[int, Timing] = {}
    for size in sorted(sizes):
        answers: list[Answer] = []
        right = True
        for number in range(repeats):
            if left() <= 0:
                return curve  # a size of which only some were asked would not be comparable
            question, truth = ask(size, number)
            answers.append(decide(question, seconds=min(limit, max(left(), 1e-3)), workers=workers))
            right &= "unknown" in (answers[-1].answer, truth) or answers[-1].answer == truth
        if left() <= 0 and any(answer.answer == "unknown" for answer in answers):
            return curve  # the limit may not have been the question's own
        decided = tuple(answer.answer != "unknown" for answer in answers)
        curve[size] = Timing(tuple(answer.seconds for answer in answers), decided, right)
        if curve[size].share < 0.5:
            break
    return curve


def _findings(
    printed: list[Check],
    probes: dict[str, dict[int, Timing]],
    images: dict[str, dict[int, Timing]],
    limit: float,
    repeats: int,
) -> Findings:
    kinds = {"Probe-Sample-Subsumption": probes, "Sparse-Approximation": images}
    rows = [
        [kind, label, size, round(100 * timing.share), _finite(timing.median), max(timing.seconds)]
        for kind, curves in kinds.items()
        for label, curve in curves.items()
        for size, timing in curve.items()
    ]
    times = ReportTable(
        "solver-times",
        "Seconds of the exact solver",
        [
            "problem",
            "kind",
            "m or q",
            ReportColumn("decided", "%"),
            ReportColumn("median", "s", 3),
            ReportColumn("longest", "s", 3),
        ],
        rows,
        note=f"{repeats} questions each, at most {limit:g} s a question; no median where less than half was decided.",
    )
    caption = (
        f"Median seconds to an exact answer, {repeats} questions a point, at most {limit:g} s each. A curve ends where "
        "less than half was decided. These are times of one solver, not bounds on an adversary."
    )
    panels = [
        Panel("Which candidates are in it?", "rows in the table, of twice as many candidates", "seconds",
              _lines(probes), log_y=True),
        Panel("Any small rows at all?", "q of the exact cover", "seconds", _lines(images), log_y=True),
    ]  # fmt: skip
    return Findings(
        NAME,
        TITLE,
        tables=[times],
        figures=[Figure("solver-times", "How far an exact solver gets", caption, panels)],
        checks=[*printed, *(_all_right(kind, curves) for kind, curves in kinds.items())],
        notes=[
            *(_where_it_stops(kind, label, curve, limit) for kind, curves in kinds.items()
              for label, curve in curves.items()),
            "p = infinity is outside of the paper's range, where p is a number; the questions of p = 1 and of p = "
            "infinity come from our own reductions.",
            "NP-hardness says that no method is known to be fast on every instance. It says nothing about a given "
            "release, and is not a guarantee.",
            "With as many columns as candidates a linear system tells who is in, and the solver finds that out.",
        ],
    )  # fmt: skip


def _lines(curves: dict[str, dict[int, Timing]]) -> list[Series]:
    return [
        Series(label, list(curve), [_finite(timing.median) for timing in curve.values()])
        for label, curve in curves.items()
    ]


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _all_right(kind: str, curves: dict[str, dict[int, Timing]]) -> Check:
    timings = [timing for curve in curves.values() for timing in curve.values()]
    n_decided = sum(sum(timing.decided) for timing in timings)
    n_questions = sum(len(timing.decided) for timing in timings)
    holds = all(timing.right for timing in timings) if n_decided else None
    truth = "the rados were made so" if kind.startswith("Probe") else "an independent search for covers agrees"
    why = f"{n_decided} of {n_questions} questions were decided; {truth}"
    return Check(f"{kind}: every answer of the solver is right", holds, why, ours=True)


def _where_it_stops(kind: str, label: str, curve: dict[int, Timing], limit: float) -> str:
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
