"""Questions about rados, their answers, and the checking of a witness, in plain integers.

Sparse-Approximation asks for any small examples at all, Probe-Sample-Subsumption for examples among given candidates.
The checkers share nothing with the models that `deciding` gives to a solver.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.adversary.known import check_same_width
from radoboost.errors import ArgumentError
from radoboost.holder.grid import GRID_BITS

LARGEST = 1 << GRID_BITS
_MOST = 1 << 61  # the solver wants the ranges of all its variables together to fit into 64 bits

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseQuestion:
    """Whether there are m edge vectors of p-norm at most ell of which subsets sum to each rado, up to p-norm r.

    Coordinates are integers of at most `bound` in magnitude. The labels are in the edge vectors.
    """

    rados: Integers
    m: int
    ell: float
    r: float = 0
    p: float = 0
    bound: int = LARGEST

    def __post_init__(self) -> None:
        object.__setattr__(self, "rados", _integers("rados", self.rados))
        _check_numbers(m=self.m, p=self.p, ell=self.ell, r=self.r)
        if not isinstance(self.bound, int) or self.bound < 0:
            raise ArgumentError(f"the bound of a coordinate must be a whole number of at least 0; it is {self.bound!r}")
        # Edge vectors, their sizes and products, and distances: no variable of the solver's model has more.
        n, d = self.rados.shape
        _refuse_overflow((n + 1) * d * (largest(self.rados) + 3 * self.m * self.reach))

    @property
    def reach(self) -> int:
        """The largest magnitude that a coordinate of an edge vector may have."""
        return self.bound if self.p == 0 else whole(self.ell, self.bound)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without the rados."""
        sizes = {"problem": "sparse-approximation", "rados": len(self.rados), "columns": self.rados.shape[1]}
        return sizes | {
            "m": self.m,
            "ell": _json(self.ell),
            "r": _json(self.r),
            "p": _json(self.p),
            "bound": self.bound,
        }


@dataclass(frozen=True, eq=False)
class ProbeQuestion:
    """Whether there are m candidates of which subsets sum to each rado, up to p-norm r."""

    candidates: Integers
    rados: Integers
    m: int
    r: float = 0
    p: float = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", _integers("candidates", self.candidates))
        object.__setattr__(self, "rados", _integers("rados", self.rados))
        check_same_width(self.candidates, self.rados)
        _check_numbers(m=self.m, p=self.p, r=self.r)
        n, d = self.rados.shape
        _refuse_overflow((n + 1) * d * (largest(self.rados) + len(self.candidates) * largest(self.candidates)))

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, without rados and candidates."""
        sizes = {"problem": "probe-sample-subsumption", "rados": len(self.rados), "columns": self.rados.shape[1]}
        return sizes | {"candidates": len(self.candidates), "m": self.m, "r": _json(self.r), "p": _json(self.p)}


@dataclass(frozen=True, eq=False)
class Answer:
    """Yes with a witness, no, or unknown: row j of the signatures says which edge vectors are in rado j.

    Of a probe `chosen` are the indices of m candidates, in the order of the signatures' columns.
    """

    question: SparseQuestion | ProbeQuestion
    answer: str
    seconds: float
    status: str
    edge_vectors: Integers | None = None
    chosen: tuple[int, ...] | None = None
    signatures: NDArray[np.bool_] | None = None

    @property
    def used(self) -> tuple[int, ...]:
        """Which of the chosen candidates are in at least one rado: the others are there to make up the number."""
        if self.chosen is None or self.signatures is None:
            return ()
        return tuple(self.chosen[place] for place in np.flatnonzero(self.signatures.any(axis=0)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question.to_dict(),
            "answer": self.answer,
            "seconds": self.seconds,
            "status": self.status,
            "edge_vectors": None if self.edge_vectors is None else self.edge_vectors.tolist(),
            "chosen": None if self.chosen is None else list(self.chosen),
            "used": list(self.used),
            "signatures": None if self.signatures is None else self.signatures.astype(int).tolist(),
        }

    def sentence(self) -> str:
        """In one sentence, for a data holder."""
        n, m = len(self.question.rados), self.question.m
        if isinstance(self.question, SparseQuestion):
            which = f"a table of {m:,} rows within the limits"
        else:
            which = f"a choice of {m:,} of the {len(self.question.candidates):,} candidates"
        return {
            "yes": f"There is {which} that makes all {n:,} rados; it need not be the one they were made from.",
            "no": f"There is not {which} that makes all {n:,} rados.",
            "unknown": f"Whether there is {which} that makes all {n:,} rados was not settled: {self.status}.",
        }[self.answer]


def check_sparse(question: SparseQuestion, edge_vectors: Any, signatures: Any) -> bool:
    """Whether a witness answers a question of Sparse-Approximation with yes: in integers, for any whole p or inf."""
    edges, bits = np.asarray(edge_vectors).tolist(), np.asarray(signatures).tolist()
    width = question.rados.shape[1]
    if len(edges) != question.m or any(len(edge) != width for edge in edges):
        return False
    if not all(e == e // 1 and abs(e) <= question.bound for edge in edges for e in edge):
        return False
    if not all(_within(edge, question.ell, question.p) for edge in edges):
        return False
    return _makes(question.rados, edges, bits, question.r, question.p)


def check_probe(question: ProbeQuestion, chosen: Iterable[int], signatures: Any) -> bool:
    """Whether a witness answers a question of Probe-Sample-Subsumption with yes."""
    indices = [int(one) for one in chosen]
    if len(indices) != question.m or len(set(indices)) != question.m:
        return False
    if not all(0 <= one < len(question.candidates) for one in indices):
        return False
    edges = [question.candidates[one].tolist() for one in indices]
    return _makes(question.rados, edges, np.asarray(signatures).tolist(), question.r, question.p)


def _makes(rados: Integers, edges: list[list[int]], bits: list[list[int]], r: float, p: float) -> bool:
    """Whether the subsets of edge vectors that bits choose sum to the rados, up to p-norm r."""
    if len(bits) != len(rados) or any(len(row) != len(edges) or not {*row} <= {0, 1} for row in bits):
        return False
    for rado, row in zip(rados.tolist(), bits, strict=True):
        rest = list(rado)
        for edge, bit in zip(edges, row, strict=True):
            if bit:
                rest = [x - e for x, e in zip(rest, edge, strict=True)]
        if not _within(rest, r, p):
            return False
    return True


def _within(vector: list[int], most: float, p: float) -> bool:
    """Whether a p-norm is at most so much, exactly: Python compares its integers with floats and fractions exactly."""
    if p == 0:
        return sum(x != 0 for x in vector) <= most
    if p == math.inf:
        return max(abs(x) for x in vector) <= most
    return most == math.inf or sum(abs(x) ** int(p) for x in vector) <= Fraction(most) ** int(p)


def _integers(what: str, values: Any) -> Integers:
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape:
        raise ArgumentError(f"{what} must be rows of at least one column; their shape is {array.shape}")
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and int(array.max()) >= _MOST):
        raise ArgumentError(
            f"{what} must be integers of the grid, not {array.dtype}; see rado_integers and table_edges"
        )
    return array.astype(np.int64)


def _check_numbers(m: int, p: float, **limits: float) -> None:
    if not isinstance(m, int) or isinstance(m, bool) or m < 1:
        raise ArgumentError(f"the number of examples m must be a whole number of at least 1; it is {m!r}")
    if not p >= 0 or (p != math.inf and p != int(p)):
        raise ArgumentError(f"p must be a whole number of at least 0, or inf; it is {p!r}")
    for name, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float | Fraction) or not limit >= 0:
            raise ArgumentError(f"{name} must be a number of at least 0; it is {limit!r}")


def _refuse_overflow(largest: int) -> None:
    if largest >= _MOST:
        raise ArgumentError(
            f"sums of up to {float(largest):.1e} do not fit into 64 bits; "
            "ask with smaller numbers, or with fewer rados or columns"
        )


def largest(array: Integers) -> int:
    """The largest magnitude in an array, even if it is one more than 64 bits hold."""
    return max(int(array.max()), -int(array.min()))


def whole(limit: float, most: int) -> int:
    """A limit on a whole number, rounded down, and at most `most`, which is never exceeded."""
    return most if limit >= most else math.floor(limit)


def _json(number: float) -> float | str:
    return "inf" if number == math.inf else number
