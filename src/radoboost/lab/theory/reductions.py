"""Exact cover in the guise of rados: the paper's reductions, and others that hold for every norm.

A reduction turns 3-sets into a question about rados. The question's answer is yes if and only if there is an exact
cover, and a witness of one leads to a witness of the other. In both problems of the paper p is part of the instance, so
its reductions at p = 0 prove both of its lemmas. Ours add every fixed p, and p = infinity, which the paper does not
consider. The proofs are in `docs/proofs/hardness.md`, H1 to H8.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from radoboost.errors import ArgumentError
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, deadline
from radoboost.lab.theory.decision_problems import (
    Answer,
    Integers,
    ProbeQuestion,
    SparseQuestion,
    decide_probe,
    decide_sparse,
)

# ---- Restricted exact cover by 3-sets (X3C3), which the hardness proofs start from: instances, a search, a checker.
#
# There are 3q elements and 3q different 3-sets of them, and every element is in exactly three. Are there q sets
# that hold every element once? This is NP-complete (Gonzalez 1985). The search here knows nothing of rados or of
# solvers.

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

    def to_dict(self) -> dict[str, Any]:
        return {"answer": self.answer, "chosen": list(self.chosen), "seconds": self.seconds}

    def sentence(self) -> str:
        return {
            "yes": f"The sets {', '.join(map(str, self.chosen))} hold every element exactly once.",
            "no": "No choice of sets holds every element exactly once.",
            "unknown": "Whether some sets hold every element exactly once was not settled in time.",
        }[self.answer]


def random_sets(q: int, rng: np.random.Generator) -> ThreeSets:
    """Sets drawn uniformly: three copies of each element, shuffled and dealt, until no set has a fault."""
    return _draw(q, lambda: rng.permutation(np.repeat(np.arange(3 * q), 3)))


def planted_sets(q: int, rng: np.random.Generator) -> ThreeSets:
    """Sets that are known to hold an exact cover: one copy of each element is dealt first, then the other two."""
    return _draw(q, lambda: np.concatenate([rng.permutation(3 * q), rng.permutation(np.repeat(np.arange(3 * q), 2))]))


def all_of_six() -> list[ThreeSets]:
    """All sets of six different 3-sets of six elements with each element in three: every instance with q = 2."""
    choices = combinations(combinations(range(6), 3), 6)
    return [ThreeSets(sets) for sets in choices if set(Counter(chain(*sets)).values()) == {3}]


def find_cover(instance: ThreeSets, *, seconds: float = DEFAULT_SECONDS) -> Cover:
    """Search for an exact cover: Knuth's Algorithm X, always at the element with the fewest sets left."""
    left, start = deadline(seconds), time.monotonic()
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


def _draw(q: int, deal: Callable[[], Any]) -> ThreeSets:
    if q < 2:
        raise ArgumentError(f"q must be at least 2, for three elements have only one 3-set; it is {q}")
    for _ in range(_ATTEMPTS):
        sets = np.sort(deal().reshape(3 * q, 3), axis=1)
        if (np.diff(sets, axis=1) > 0).all() and len(np.unique(sets, axis=0)) == 3 * q:
            # In order, so that a planted cover does not come first.
            a, b, c = sets[np.lexsort(sets.T[::-1])].T.tolist()
            return ThreeSets(tuple(zip(a, b, c, strict=True)))
    raise ArgumentError(f"no {3 * q:,} different 3-sets were found in {_ATTEMPTS:,} attempts; take another q")


# ----

SCALE = 1 << 53  # the paper's machine epsilon is one unit of a grid with the step 2**-53

COVERABLE = ThreeSets(((0, 1, 2), (3, 4, 5), (0, 1, 3), (2, 4, 5), (0, 2, 4), (1, 3, 5)))
UNCOVERABLE = ThreeSets(((0, 1, 3), (1, 2, 4), (2, 3, 5), (0, 3, 4), (1, 4, 5), (0, 2, 5)))

Question = SparseQuestion | ProbeQuestion


def decide(question: Question, *, seconds: float = DEFAULT_SECONDS, workers: int = 1) -> Answer:
    """Decide either kind of question."""
    if isinstance(question, SparseQuestion):
        return decide_sparse(question, seconds=seconds, workers=workers)
    return decide_probe(question, seconds=seconds, workers=workers)


def indicators(instance: ThreeSets) -> Integers:
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
    rados = indicators(instance).T
    if p == 0:
        return SparseQuestion(rados, instance.q, ell=1, r=2, p=0)
    return SparseQuestion(SCALE * rados, instance.q, ell=1, r=2 * SCALE, p=1)


def printed_probe(instance: ThreeSets, p: float) -> ProbeQuestion:
    """The reduction to Probe-Sample-Subsumption as printed: right for every p of the paper (H4); here p is 0 or 1."""
    if p not in (0, 1):
        raise ArgumentError(f"the solver asks this at p = 0 and p = 1, not {p!r}; try_printed_probe takes any p")
    return ProbeQuestion(np.eye(len(instance.sets), dtype=np.int64), indicators(instance).T, instance.q, r=2, p=p)


def try_printed_probe(instance: ThreeSets, p: float) -> bool:
    """The answer to the printed question of Probe-Sample-Subsumption at any p, by trying all choices and subsets.

    p-th powers of distances are compared with that of r, which is 2: all of these are whole numbers.
    """
    if not 0 <= p < math.inf:
        raise ArgumentError(f"p is a number of at least 0 in the paper, not {p!r}; any_norm_probe is for infinity, too")
    rados, units = indicators(instance).T, np.eye(len(instance.sets), dtype=np.int64)
    subsets = np.array(list(product((0, 1), repeat=instance.q)))
    for chosen in combinations(range(len(units)), instance.q):
        apart = np.abs(rados[:, None] - subsets @ units[list(chosen)])
        powers = (apart > 0) if p == 0 else apart.astype(np.float64) ** p
        if (powers.sum(axis=2) <= 2).any(axis=1).all():
            return True
    return False


def counted_sets(instance: ThreeSets, weight: int) -> Integers:
    """The 3-sets as edge vectors with a last coordinate that counts them, in units of a weight."""
    return np.column_stack([indicators(instance), np.full(len(instance.sets), weight)])


def _goals(edge_vectors: Integers) -> Integers:
    """Each edge vector on its own, all of them, and a third of all: what the sets of an exact cover sum to."""
    total = edge_vectors.sum(axis=0)  # 3 at each element, for it is in three sets
    return np.vstack([edge_vectors, total, total // 3])


def fixed_norm_sparse(instance: ThreeSets, p: float) -> SparseQuestion:
    """Our reduction to Sparse-Approximation at a fixed p: the norm (1, H5) or a column (inf, H6) counts examples."""
    if p not in (1, math.inf):
        raise ArgumentError(f"this reduction is for p = 1 and inf, not {p!r}; any_norm_sparse is for all p from 1 on")
    edge_vectors = indicators(instance) if p == 1 else counted_sets(instance, 1)
    return SparseQuestion(_goals(edge_vectors), 3 * instance.q, ell=3 if p == 1 else 1, p=p)


def any_norm_sparse(instance: ThreeSets, p: float) -> SparseQuestion:
    """One set of rados and one ell for every p from 1 to infinity, where a heavy column counts the examples (H7).

    Yes at p = 1 is yes at every p, and no at infinity is no at every p, for norms fall as p grows.
    """
    if p < 1:
        raise ArgumentError(f"this reduction is for p from 1 on, not {p!r}; printed_sparse is for p = 0")
    weight = 18 * instance.q
    return SparseQuestion(_goals(counted_sets(instance, weight)), 3 * instance.q, ell=weight + 3, p=p)


def any_norm_probe(instance: ThreeSets, p: float) -> ProbeQuestion:
    """The sets are the candidates, and the one rado holds every element once: right whatever the norm (H8)."""
    return ProbeQuestion(indicators(instance), np.ones((1, len(instance.sets)), np.int64), instance.q, r=0, p=p)


# Sets to a question whose answer is yes if and only if they have an exact cover.
REDUCTIONS: dict[str, Callable[[ThreeSets], Question]] = {
    "sparse-0": partial(printed_sparse, p=0),
    **{f"sparse-{p}": partial(fixed_norm_sparse, p=p) for p in (1, math.inf)},
    **{f"sparse-any-{p}": partial(any_norm_sparse, p=p) for p in (1, math.inf)},
    **{f"probe-{p}": partial(printed_probe, p=p) for p in (0, 1)},
    **{f"probe-any-{p}": partial(any_norm_probe, p=p) for p in (0, 1, math.inf)},
}
