"""The paper's two decision problems: questions about rados, answered exactly, and the checking of a witness.

Sparse-Approximation asks for any small examples at all, Probe-Sample-Subsumption for examples among given candidates.
The checkers, in plain integers, share nothing with the models that a solver is given.
"""

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError, whole_number
from radoboost.holder.grid import GRID_BITS
from radoboost.lab.attacks.adversary_knowledge import DEFAULT_SECONDS, attack_deadline, attack_library, check_same_width

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
        object.__setattr__(self, "rados", _integers_of_question("rados", self.rados))
        _check_question_numbers(m=self.m, p=self.p, ell=self.ell, r=self.r)
        if not isinstance(self.bound, int) or self.bound < 0:
            raise ArgumentError(f"the bound of a coordinate must be a whole number of at least 0; it is {self.bound!r}")
        # Edge vectors, their sizes and products, and distances: no variable of the solver's model has more.
        n, d = self.rados.shape
        _refuse_overflow_in_question((n + 1) * d * (largest_magnitude(self.rados) + 3 * self.m * self.reach))

    @property
    def reach(self) -> int:
        """The largest magnitude that a coordinate of an edge vector may have."""
        return self.bound if self.p == 0 else whole_number_limit(self.ell, self.bound)


@dataclass(frozen=True, eq=False)
class ProbeQuestion:
    """Whether there are m candidates of which subsets sum to each rado, up to p-norm r."""

    candidates: Integers
    rados: Integers
    m: int
    r: float = 0
    p: float = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", _integers_of_question("candidates", self.candidates))
        object.__setattr__(self, "rados", _integers_of_question("rados", self.rados))
        check_same_width(self.candidates, self.rados)
        _check_question_numbers(m=self.m, p=self.p, r=self.r)
        n, d = self.rados.shape
        _refuse_overflow_in_question(
            (n + 1) * d * (largest_magnitude(self.rados) + len(self.candidates) * largest_magnitude(self.candidates))
        )


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


def check_sparse_witness(question: SparseQuestion, edge_vectors: Any, signatures: Any) -> bool:
    """Whether a witness answers a question of Sparse-Approximation with yes: in integers, for any whole p or inf."""
    edges, bits = np.asarray(edge_vectors).tolist(), np.asarray(signatures).tolist()
    width = question.rados.shape[1]
    if len(edges) != question.m or any(len(edge) != width for edge in edges):
        return False
    if not all(e == e // 1 and abs(e) <= question.bound for edge in edges for e in edge):
        return False
    if not all(_is_within_norm(edge, question.ell, question.p) for edge in edges):
        return False
    return _subsets_make_rados(question.rados, edges, bits, question.r, question.p)


def check_probe_witness(question: ProbeQuestion, chosen: Iterable[int], signatures: Any) -> bool:
    """Whether a witness answers a question of Probe-Sample-Subsumption with yes."""
    indices = [int(one) for one in chosen]
    if len(indices) != question.m or len(set(indices)) != question.m:
        return False
    if not all(0 <= one < len(question.candidates) for one in indices):
        return False
    edges = [question.candidates[one].tolist() for one in indices]
    return _subsets_make_rados(question.rados, edges, np.asarray(signatures).tolist(), question.r, question.p)


def _subsets_make_rados(rados: Integers, edges: list[list[int]], bits: list[list[int]], r: float, p: float) -> bool:
    """Whether the subsets of edge vectors that bits choose sum to the rados, up to p-norm r."""
    if len(bits) != len(rados) or any(len(row) != len(edges) or not {*row} <= {0, 1} for row in bits):
        return False
    for rado, row in zip(rados.tolist(), bits, strict=True):
        rest = list(rado)
        for edge, bit in zip(edges, row, strict=True):
            if bit:
                rest = [x - e for x, e in zip(rest, edge, strict=True)]
        if not _is_within_norm(rest, r, p):
            return False
    return True


def _is_within_norm(vector: list[int], most: float, p: float) -> bool:
    """Whether a p-norm is at most so much, exactly: Python compares its integers with floats and fractions exactly."""
    if p == 0:
        return sum(x != 0 for x in vector) <= most
    if p == math.inf:
        return max(abs(x) for x in vector) <= most
    return most == math.inf or sum(abs(x) ** int(p) for x in vector) <= Fraction(most) ** int(p)


def _integers_of_question(what: str, values: Any) -> Integers:
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape:
        raise ArgumentError(f"{what} must be rows of at least one column; their shape is {array.shape}")
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and int(array.max()) >= _MOST):
        raise ArgumentError(
            f"{what} must be integers of the grid, not {array.dtype}; see rado_integers and table_edges"
        )
    return array.astype(np.int64)


def _check_question_numbers(m: int, p: float, **limits: float) -> None:
    whole_number(m, "the number of examples m")
    if not p >= 0 or (p != math.inf and p != int(p)):
        raise ArgumentError(f"p must be a whole number of at least 0, or inf; it is {p!r}")
    for name, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float | Fraction) or not limit >= 0:
            raise ArgumentError(f"{name} must be a number of at least 0; it is {limit!r}")


def _refuse_overflow_in_question(largest: int) -> None:
    if largest >= _MOST:
        raise ArgumentError(
            f"sums of up to {float(largest):.1e} do not fit into 64 bits; "
            "ask with smaller numbers, or with fewer rados or columns"
        )


def largest_magnitude(array: Integers) -> int:
    """The largest magnitude in an array, even if it is one more than 64 bits hold."""
    return max(int(array.max()), -int(array.min()))


def whole_number_limit(limit: float, most: int) -> int:
    """A limit on a whole number, rounded down, and at most `most`, which is never exceeded."""
    return most if limit >= most else math.floor(limit)


# ---- Could these rados have been made so? Both problems are NP-hard (docs/proofs/hardness.md), in the worst case: what
# is small is decided in no time. On integers the norms for p = 0, 1 and infinity are whole numbers, so that a bound on
# one may be rounded down. A "yes" is given only after its witness passed a checker above.

NORMS = (0, 1, math.inf)
_MOST_PRODUCTS = 1_000_000  # of a signature's bit and a coordinate: about a gigabyte of model
_SECONDS_OF_PRODUCT = 4e-5  # of building the model; more than was measured
_KEY_BITS = 40


def decide_question(
    question: SparseQuestion | ProbeQuestion, *, seconds: float = DEFAULT_SECONDS, workers: int = 1
) -> Answer:
    """Decide a question on integers; with one worker the same question has the same witness."""
    if question.p not in NORMS:
        raise ArgumentError(
            f"the solver decides for p = 0, 1 and inf, not for {question.p!r}; the checkers know other norms"
        )
    left, start = attack_deadline(seconds), time.monotonic()
    (n, d), count = question.rados.shape, len(getattr(question, "candidates", range(question.m)))
    if count < question.m:
        return Answer(question, "no", 0.0, f"there are only {count:,} candidates")
    if why := _question_too_large_text(n * count * d, left()):
        return Answer(question, "unknown", 0.0, why)
    cp = attack_library("ortools.sat.python.cp_model")
    model = cp.CpModel()
    edges: list[Any] = []
    if isinstance(question, ProbeQuestion):
        bits = _probe_subsumption_model(model, question, left)
    else:
        edges, bits = _sparse_model(model, question, left)
    answer, status, value = _solve_decision_model(cp, model, left, workers)
    spent = time.monotonic() - start
    if answer != "yes":
        return Answer(question, answer, spent, status)
    inside = np.array([[value(u) for u in row] for row in bits], dtype=np.bool_)
    if isinstance(question, SparseQuestion):
        vectors = np.array([[value(e) for e in row] for row in edges], dtype=np.int64)
        right = check_sparse_witness(question, vectors, inside)
        found = Answer(question, "yes", spent, status, edge_vectors=vectors, signatures=inside)
    else:  # those that a rado uses, and the first others to make up the number
        chosen = sorted(np.argsort(~inside.any(axis=0), kind="stable")[: question.m].tolist())
        signatures = inside[:, chosen]
        right = check_probe_witness(question, chosen, signatures) and inside.sum() == signatures.sum()
        found = Answer(question, "yes", spent, status, chosen=tuple(chosen), signatures=signatures)
    if not right:
        raise AssertionError("what the solver gives does not make the rados; this is a fault in radoboost")
    return found


def _sparse_model(model: Any, question: SparseQuestion, left: Callable[[], float]) -> tuple[list[Any], list[Any]]:
    """Edge vectors, and for each rado a bit for each of them; unfinished where no time is left."""
    rados, m, p, reach = question.rados, question.m, question.p, question.reach
    n, d = rados.shape
    far = largest_magnitude(rados) + m * reach
    r = whole_number_limit(question.r, d * far)
    ell = whole_number_limit(question.ell, d * max(1, reach))
    edges = [[model.new_int_var(-reach, reach, "") for _ in range(d)] for _ in range(m)]
    bits = [[model.new_bool_var("") for _ in range(m)] for _ in range(n)]
    # Examples may change places, so one order will do: that of their supports, or of the rados that they are in.
    if p == 0:
        support = [_support_bits_in_model(model, edge, ell) for edge in edges]
        _order_rows_in_model(model, support)
    else:
        _order_rows_in_model(model, [list(column) for column in zip(*bits, strict=True)])
    # At p = 1 a signed sum of all coordinates is one more coordinate, within the same bounds. Where the heaviest rado
    # leaves no slack it counts examples: without it the solver does not see what the proof (H5) sees at once.
    signs = np.where(rados[np.abs(rados).sum(axis=1).argmax()] < 0, -1, 1).tolist()
    totals = [_signed_total_in_model(model, edge, signs, ell, reach) for edge in edges] if p == 1 else []
    for rado, row in zip(rados.tolist(), bits, strict=True):
        if left() <= 0:
            break
        sums = [
            sum(_product_in_model(model, u, edge[k], reach) for u, edge in zip(row, edges, strict=True))
            for k in range(d)
        ]
        misses = _constrain_within_norm(model, sums, rado, r, p, far)
        if p == 0:
            # A coordinate that is met, and is not zero, has an example with that coordinate: a clause the solver likes.
            for k in np.flatnonzero(rado):
                met = [_conjunction_in_model(model, u, support[i][k]) for i, u in enumerate(row)]
                model.add_bool_or(met + misses[k : k + 1])
            continue
        size = sum(map(abs, rado)) if p == 1 else max(map(abs, rado))
        model.add((ell if p == 1 else reach) * sum(row) >= size - r)  # the triangle inequality
        if p == 1:
            goal = sum(sign * x for sign, x in zip(signs, rado, strict=True))
            total = sum(_product_in_model(model, u, t, ell) for u, t in zip(row, totals, strict=True))
            model.add_linear_constraint(total, goal - r, goal + r)
    return edges, bits


def _probe_subsumption_model(model: Any, question: ProbeQuestion, left: Callable[[], float]) -> list[Any]:
    """For each rado a bit for each candidate, at most m of which are used; unfinished where no time is left."""
    columns, count = question.candidates.T.tolist(), len(question.candidates)
    far = largest_magnitude(question.rados) + count * largest_magnitude(question.candidates)
    r = whole_number_limit(question.r, len(columns) * far)
    used = [model.new_bool_var("") for _ in range(count)]
    bits = [[model.new_bool_var("") for _ in range(count)] for _ in question.rados]
    model.add(sum(used) <= question.m)
    for rado, row in zip(question.rados.tolist(), bits, strict=True):
        if left() <= 0:
            break
        for u, one in zip(row, used, strict=True):
            model.add_implication(u, one)
        sums = [sum(x * u for x, u in zip(column, row, strict=True) if x) for column in columns]
        _constrain_within_norm(model, sums, rado, r, question.p, far)
    return bits


def _constrain_within_norm(model: Any, sums: list[Any], rado: list[int], r: int, p: float, far: int) -> list[Any]:
    """Sums within p-norm r of a rado, none ever beyond far; at p = 0, unless r is 0, what coordinates are missed."""
    if r == 0 or p == math.inf:
        for total, x in zip(sums, rado, strict=True):
            model.add_linear_constraint(total, x - r, x + r)
        return []
    misses = [model.new_bool_var("") if p == 0 else model.new_int_var(0, min(r, far), "") for _ in sums]
    for total, x, miss in zip(sums, rado, misses, strict=True):
        if p == 0:
            model.add(total == x).only_enforce_if(~miss)
        else:
            model.add(total - x <= miss)
            model.add(x - total <= miss)
    model.add(sum(misses) <= r)
    return misses if p == 0 else []


def _support_bits_in_model(model: Any, edge: list[Any], ell: int) -> list[Any]:
    """Bits, at most ell of them set, beside those coordinates that may be other than zero."""
    support = [model.new_bool_var("") for _ in edge]
    model.add(sum(support) <= ell)
    for e, s in zip(edge, support, strict=True):
        model.add(e == 0).only_enforce_if(~s)
    return support


def _signed_total_in_model(model: Any, edge: list[Any], signs: list[int], ell: int, reach: int) -> Any:
    """The signed sum of an edge vector's coordinates, whose magnitudes sum to at most ell."""
    sizes = [model.new_int_var(0, reach, "") for _ in edge]
    for e, size in zip(edge, sizes, strict=True):
        model.add_abs_equality(size, e)
    model.add(sum(sizes) <= ell)
    total = model.new_int_var(-ell, ell, "")
    model.add(total == sum(sign * e for sign, e in zip(signs, edge, strict=True)))
    return total


def _order_rows_in_model(model: Any, rows: list[list[Any]]) -> None:
    """Rows of bits, read as binary numbers, that do not fall."""
    numbers = [sum((1 << place) * bit for place, bit in enumerate(row[:_KEY_BITS])) for row in rows]
    for one, next_one in pairwise(numbers):
        model.add(one <= next_one)


def _product_in_model(model: Any, bit: Any, number: Any, reach: int) -> Any:
    product = model.new_int_var(-reach, reach, "")
    model.add_multiplication_equality(product, [bit, number])
    return product


def _conjunction_in_model(model: Any, one: Any, other: Any) -> Any:
    both = model.new_bool_var("")
    model.add_implication(both, one)
    model.add_implication(both, other)
    return both


def _question_too_large_text(products: int, seconds: float) -> str:
    """Why a question is too large to begin; empty if it is not."""
    if products > _MOST_PRODUCTS:
        return f"{products:,} products are too many for the solver"
    if products * _SECONDS_OF_PRODUCT > seconds:
        return f"building a model of {products:,} products may take longer than the time limit"
    return ""


def _solve_decision_model(
    cp: Any, model: Any, left: Callable[[], float], workers: int
) -> tuple[str, str, Callable[[Any], int]]:
    """Yes, no or unknown, why, and the values of variables."""
    if workers < 1:
        raise ArgumentError(f"the solver needs at least one worker; workers is {workers}")
    solver = cp.CpSolver()
    time_left = left()
    if time_left <= 0:
        return "unknown", "the time limit was reached before the solver began", int
    solver.parameters.max_time_in_seconds = time_left
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = 1
    solver.parameters.catch_sigint_signal = False
    # In a thread of its own, so that Ctrl-C is heard.
    with ThreadPoolExecutor(1) as pool:
        try:
            name = solver.status_name(pool.submit(solver.solve, model).result())
        except BaseException:
            solver.stop_search()
            raise
    if name in ("OPTIMAL", "FEASIBLE"):
        return "yes", "a witness was found and checked", solver.value
    if name == "INFEASIBLE":
        return "no", "the solver showed that there is none", solver.value
    if name != "UNKNOWN":
        raise AssertionError(f"the solver refuses its model ({name}); this is a fault in radoboost")
    return "unknown", "the time limit was reached", solver.value
