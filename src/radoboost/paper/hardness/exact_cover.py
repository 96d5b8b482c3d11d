"""Restricted exact cover by 3-sets (X3C3), which the hardness proofs start from: instances, a search, a checker.

There are 3q elements and 3q different 3-sets of them, and every element is in exactly three. Are there q sets that hold
every element once? This is NP-complete (Gonzalez 1985). The search here knows nothing of rados or of solvers.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np

from radoboost.adversary.known import DEFAULT_SECONDS, deadline
from radoboost.errors import ArgumentError

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
