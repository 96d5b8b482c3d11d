"""The decision problems against brute force; witnesses, time limits and refusals."""

import itertools
import math
import time

import numpy as np
import pytest

from radoboost.errors import ArgumentError
from radoboost.lab.theory import decision_problems
from radoboost.lab.theory.decision_problems import (
    ProbeQuestion,
    SparseQuestion,
    check_probe_witness,
    check_sparse_witness,
    decide_question,
)

NORMS = (0, 1, math.inf)


# ---- The slow twins: everything is tried. They know nothing of the package.


def norms(vectors, p):
    """Norms along the last axis."""
    sizes = np.abs(vectors)
    return {0: (sizes > 0).sum(axis=-1), 1: sizes.sum(axis=-1), math.inf: sizes.max(axis=-1)}[p]


def subset_sums(rows):
    """All subset sums of the second axis' rows: (tables, rows, d) to (tables, 2**rows, d)."""
    bits = np.array(list(itertools.product((0, 1), repeat=rows.shape[1])))
    return np.einsum("sm,tmd->tsd", bits, rows)


def any_table_makes(tables, rados, r, p):
    distances = norms(rados[None, :, None, :] - subset_sums(tables)[:, None, :, :], p)
    return bool((distances <= r).any(axis=2).all(axis=1).any())


def brute_sparse(rados, m, ell, r, p, bound):
    rows = np.array(list(itertools.product(range(-bound, bound + 1), repeat=rados.shape[1])))
    rows = rows[norms(rows, p) <= ell]
    tables = np.array(list(itertools.combinations_with_replacement(range(len(rows)), m)))
    return any_table_makes(rows[tables], rados, r, p)


def brute_probe(candidates, rados, m, r, p):
    tables = list(itertools.combinations(range(len(candidates)), m))
    return bool(tables) and any_table_makes(candidates[np.array(tables)], rados, r, p)


# ---- Against brute force.


def sparse_questions(p, count, rng):
    for _ in range(count):
        m, d = [(1, 2), (2, 1), (2, 2), (3, 1), (2, 2), (2, 3)][rng.integers(6)]
        n = int(rng.integers(2, 5))
        ell = [0, 1, 1, 2, 2.5, 3][rng.integers(6)]
        r = [0, 0, 0.5, 1, 1.5][rng.integers(5)]
        if rng.random() < 0.5:
            rados = rng.integers(-4, 5, (n, d))
        else:  # from a table, so that yes is not rare
            table = np.where(rng.random((m, d)) < 0.4, 0, rng.integers(-2, 3, (m, d)))
            rados = rng.integers(0, 2, (n, m)) @ table
        yield {"rados": rados, "m": m, "ell": ell, "r": r, "p": p, "bound": 2}


def probe_questions(p, count, rng):
    for _ in range(count):
        size, d, n = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        m = int(rng.integers(1, min(size, 4) + 1))
        r = [0, 0, 0.5, 1, 1.5][rng.integers(5)]
        candidates = rng.integers(-2, 3, (size, d))
        kept = m if rng.random() < 0.5 else size  # of all candidates: then m may be too few
        rados = rng.integers(0, 2, (n, kept)) @ candidates[rng.permutation(size)[:kept]]
        rados = rados + (rng.random(rados.shape) < 0.2)
        yield {"candidates": candidates, "rados": rados, "m": m, "r": r, "p": p}


@pytest.mark.slow
@pytest.mark.parametrize("p", NORMS)
def test_sparse_approximation_agrees_with_brute_force(p, rng):
    seen = []
    for asked in sparse_questions(p, 340, rng):
        answer = decide_question(SparseQuestion(**asked))
        assert answer.answer == ("yes" if brute_sparse(**asked) else "no"), asked
        seen.append(answer.answer)
    assert min(seen.count("yes"), seen.count("no")) >= len(seen) / 4


@pytest.mark.slow
@pytest.mark.parametrize("p", NORMS)
def test_probe_sample_subsumption_agrees_with_brute_force(p, rng):
    seen = []
    for asked in probe_questions(p, 340, rng):
        answer = decide_question(ProbeQuestion(**asked))
        assert answer.answer == ("yes" if brute_probe(**asked) else "no"), asked
        seen.append(answer.answer)
    assert min(seen.count("yes"), seen.count("no")) >= len(seen) / 4


# ---- Witnesses.


@pytest.mark.slow
def test_a_table_of_the_grids_size_is_found_again(rng):
    table = rng.integers(-(2**22), 2**22 + 1, (6, 4))
    bits = rng.integers(0, 2, (8, 6))
    bits[0] = 1
    answer = decide_question(
        ProbeQuestion(np.vstack([rng.integers(-(2**22), 2**22, (6, 4)), table]), bits @ table, m=6)
    )
    assert answer.answer == "yes" and set(np.array(answer.chosen)[answer.signatures.any(axis=0)]) == set(range(6, 12))
    assert len(answer.chosen) == 6 and answer.signatures.shape == (8, 6)


EDGES, BITS = [[3, 0], [0, 2]], [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("p", "ell", "r"), [(0, 1, 0), (1, 3, 0), (math.inf, 3, 0), (2, 3, 0), (1, 3.5, 0.5), (0, 1, 1)]
)
def test_the_checker_of_sparse_refuses_what_is_wrong(p, ell, r):
    asked = SparseQuestion([[3, 0], [3, 2]], m=2, ell=ell, r=r, p=p, bound=3)
    assert check_sparse_witness(asked, EDGES, BITS)
    assert not check_sparse_witness(asked, [[0, 1], [0, 2]], BITS), "other rados"
    assert not check_sparse_witness(asked, EDGES, [[0, 1], [0, 0]]), "other signatures"
    assert not check_sparse_witness(asked, EDGES, [[1, 0]]), "a rado too few"
    assert not check_sparse_witness(asked, EDGES, [[1, 0], [1, 2]]), "an example twice"
    assert not check_sparse_witness(asked, [[3, 0]], [[1], [1]]), "an example too few"
    assert not check_sparse_witness(asked, [[3, 0], [0, 2], [0, 0]], [[1, 0, 0], [1, 1, 0]]), "an example too many"
    tight = SparseQuestion([[3, 0], [3, 2]], m=2, ell=ell, r=r, p=p, bound=2)
    assert not check_sparse_witness(tight, EDGES, BITS), "beyond the bound"
    sparse = SparseQuestion([[3, 0], [3, 2]], m=2, ell=0.9 if p == 0 else 2.9, r=r, p=p)
    assert not check_sparse_witness(sparse, EDGES, BITS), "beyond ell"


@pytest.mark.slow
def test_the_checker_counts_exactly():
    """Where floats would round: 2**53 + 1 is more than 2.0**53."""
    near = SparseQuestion([[2**53 + 1]], m=1, ell=0, r=2.0**53, p=1)
    assert not check_sparse_witness(near, [[0]], [[0]]) and decide_question(near).answer == "no"
    assert check_sparse_witness(SparseQuestion([[2**53]], m=1, ell=0, r=2.0**53, p=1), [[0]], [[0]])
    assert not check_sparse_witness(SparseQuestion([[3, 4]], m=1, ell=4.999999, p=2), [[3, 4]], [[1]])
    assert check_sparse_witness(SparseQuestion([[3, 4]], m=1, ell=5, p=2), [[3, 4]], [[1]])


def test_the_checker_of_probes_refuses_what_is_wrong():
    asked = ProbeQuestion([[5], [7], [11]], [[12], [7]], m=2)
    assert check_probe_witness(asked, (0, 1), [[1, 1], [0, 1]])
    assert check_probe_witness(asked, (1, 0), [[1, 1], [1, 0]])
    assert not check_probe_witness(asked, (0, 2), [[1, 1], [0, 1]]), "other rados"
    assert not check_probe_witness(asked, (0, 1), [[1, 1], [1, 1]]), "other signatures"
    assert not check_probe_witness(asked, (0,), [[1], [1]]), "too few"
    assert not check_probe_witness(asked, (0, 1, 2), [[1, 1, 0], [0, 1, 0]]), "too many"
    assert not check_probe_witness(ProbeQuestion([[6], [7]], [[12]], m=2), (0, 0), [[1, 1]]), "one twice"
    assert not check_probe_witness(asked, (0, 3), [[1, 1], [0, 1]]), "no such candidate"
    assert not check_probe_witness(asked, (0, -2), [[1, 1], [0, 1]]), "counted from the end"


@pytest.mark.slow
def test_a_witness_that_does_not_pass_is_never_told(monkeypatch):
    monkeypatch.setattr(decision_problems, "check_sparse_witness", lambda *a: False)
    monkeypatch.setattr(decision_problems, "check_probe_witness", lambda *a: False)
    with pytest.raises(AssertionError, match="a fault in radoboost"):
        decide_question(SparseQuestion([[1]], m=1, ell=1))
    with pytest.raises(AssertionError, match="a fault in radoboost"):
        decide_question(ProbeQuestion([[1]], [[1]], m=1))


# ---- Time.


def hard_probe(rng, size=60):
    candidates = rng.integers(-(2**22), 2**22, (size, 2))
    return ProbeQuestion(candidates, [candidates[rng.permutation(size)[: size // 2]].sum(axis=0)], m=size // 2)


@pytest.mark.slow
def test_a_hard_question_is_unknown_within_the_limit(rng):
    asked = hard_probe(rng)
    for seconds in (1e-9, 0.5):
        begun = time.process_time()
        answer = decide_question(asked, seconds=seconds)
        assert answer.answer == "unknown" and "time limit" in answer.status
        assert time.process_time() - begun < seconds + 3
        assert answer.chosen is None and answer.signatures is None


def test_building_a_large_model_keeps_the_limit(rng):
    rados = rng.integers(-9, 9, (400, 40))
    begun = time.process_time()
    answer = decide_question(SparseQuestion(rados, m=60, ell=20, p=1), seconds=0.5)
    assert answer.answer == "unknown" and time.process_time() - begun < 3.5
    answer = decide_question(SparseQuestion(rados, m=1000, ell=20, p=1), seconds=0.5)
    assert answer.answer == "unknown" and "too many" in answer.status


# ---- Refusals, and words.


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SparseQuestion([1, 2], m=1, ell=1), "rados must be rows"),
        (lambda: SparseQuestion([[0.5]], m=1, ell=1), "integers"),
        (lambda: SparseQuestion([[1]], m=1.5, ell=1), "m must be"),
        (lambda: SparseQuestion([[1]], m=1, ell=-1), "ell must be"),
        (lambda: SparseQuestion([[1]], m=1, ell=1, p=0.5), "p must be"),
        (lambda: SparseQuestion([[1]], m=2**38, ell=2**22, p=1), "64 bits"),
        (lambda: ProbeQuestion([[2**59], [2**58]], [[1]], m=1), "64 bits"),
        (lambda: ProbeQuestion([[1]], [[1]], 1, r=math.nan), "r must be"),
        (lambda: decide_question(ProbeQuestion([[1]], [[1]], m=1, p=2)), "p = 0, 1 and inf"),
        (lambda: decide_question(ProbeQuestion([[1]], [[1]], 1), workers=-1), "worker"),
    ],
)
def test_what_cannot_be_asked_is_refused(make, says):
    with pytest.raises(ArgumentError, match=says):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("p", NORMS)
def test_the_largest_numbers_that_are_let_through_are_understood(p):
    """The solver must not refuse, or wrap, what the questions let through."""
    top = 2**57 - 1
    rados = [[top, -top], [-top, top]]
    bound = (2**61 // 6 - top) // 6 - 1  # one more than that is refused
    for r, answer in ((math.inf, "yes"), (2.0**58, "yes"), (0, "no"), (1, "no")):
        asked = SparseQuestion(rados, m=2, ell=math.inf, r=r if p else min(r, 3.0), p=p, bound=bound)
        assert decide_question(asked).answer == answer
    with pytest.raises(ArgumentError, match="64 bits"):
        SparseQuestion(rados, m=2, ell=math.inf, p=p, bound=bound + 2)
    one, other = 2**56, 2**56 - 1
    candidates, near = [[one, other], [other, one]], np.array([[one + other] * 2])
    assert decide_question(ProbeQuestion(candidates, near, m=2, p=p)).answer == "yes"
    assert decide_question(ProbeQuestion(candidates, near + 1, m=2, p=p)).answer == "no"
    assert decide_question(ProbeQuestion(candidates, near + 1, m=2, r=2, p=p)).answer == "yes"
    wide = np.full((1, 100), 2**52)
    assert decide_question(ProbeQuestion(wide, wide + 1, m=1, r=math.inf, p=p)).answer == "yes"


def test_too_few_candidates_are_a_no():
    answer = decide_question(ProbeQuestion([[1]], [[1]], m=2))
    assert answer.answer == "no" and "only 1" in answer.status


def test_a_witness_must_be_of_integers():
    assert not check_sparse_witness(SparseQuestion([[1]], m=2, ell=1, p=1), [[0.5], [0.5]], [[1, 1]])
    assert not check_sparse_witness(SparseQuestion([[3]], m=1, ell=9, r=1, p=0), [[math.nan]], [[1]])
    assert check_sparse_witness(SparseQuestion([[1]], m=2, ell=1, p=1), [[1.0], [0.0]], [[1, 1]])
