"""Subset sums: two engines against a plain loop over all subsets, and what each of them may say."""

import time
from collections import Counter
from itertools import product

import numpy as np
import pytest

import radoboost as rb
from radoboost.lab.attacks import subset_sum
from radoboost.lab.attacks.adversary_knowledge import attack_deadline
from radoboost.lab.attacks.subset_sum import (
    HalfSums,
    Lattice,
    bits_of_subset_sums,
    check_subset_sum_targets,
    expected_other_subsets,
)


def solve(vectors, target, *, seconds=60.0):
    """All subsets where there are few rows, and else one."""
    vectors, targets = check_subset_sum_targets(vectors, np.atleast_2d(target))
    if len(vectors) <= 40:
        return HalfSums(vectors).solve(targets[0])
    left = attack_deadline(seconds)
    return Lattice(vectors, left).solve(targets[0], left)


def all_sums(vectors):
    """Every subset by its sum, in plain loops."""
    by_sum = {}
    for subset in product((0, 1), repeat=len(vectors)):
        total = [0] * len(vectors[0])
        for taken, vector in zip(subset, vectors, strict=True):
            if taken:
                total = [a + b for a, b in zip(total, vector, strict=True)]
        by_sum.setdefault(tuple(total), []).append(subset)
    return by_sum


@pytest.mark.slow
def test_all_engines_agree_with_a_plain_loop_on_a_thousand_instances(rng):
    """Half of the targets are sums of subsets; few values, so that many subsets have the same sum."""
    for _ in range(1000):
        m, d, largest = rng.integers(1, 8), rng.integers(1, 4), rng.choice([1, 3, 50])
        vectors = rng.integers(-largest, largest + 1, (m, d))
        target = rng.integers(0, 2, m) @ vectors if rng.random() < 0.5 else rng.integers(-largest, largest + 1, d)
        truth = sorted(all_sums(vectors.tolist()).get(tuple(target.tolist()), []))
        with_row = [sum(subset[i] for subset in truth) for i in range(m)]
        found = HalfSums(vectors).solve(target)
        assert (found.count, found.with_row.tolist()) == (len(truth), with_row)
        reduced = Lattice(vectors).solve(target)
        assert reduced.one is None or tuple(reduced.one.astype(int).tolist()) in truth
        assert reduced.count != 0 or not truth  # what it refutes is not there


def test_counts_of_many_targets_are_those_of_each(rng):
    vectors = rng.integers(-3, 4, (10, 2))
    by_sum = all_sums(vectors.tolist())
    targets = np.array([*by_sum, (99, 99)])
    assert HalfSums(vectors).count(targets).tolist() == [*(len(subsets) for subsets in by_sum.values()), 0]


@pytest.mark.slow
@pytest.mark.parametrize("m", [31, 40])
def test_halves_count_billions_of_subsets(m, rng):
    """Against dynamic programming over sums."""
    vectors = rng.integers(-4, 5, (m, 1))
    ways, without = exact_ways(vectors[:, 0].tolist()), exact_ways(vectors[1:, 0].tolist())
    targets = np.arange(-5, 6)[:, None]
    halves = HalfSums(vectors)
    assert halves.count(targets).tolist() == [ways[int(t)] for t in targets[:, 0]]
    found = halves.solve(targets[3])
    assert found.count == ways[-2] > 2 ** (m - 8)
    assert found.with_row[0] == without[-2 - int(vectors[0, 0])]


def exact_ways(values):
    ways = Counter({0: 1})
    for value in values:
        longer = Counter(ways)
        for total, count in ways.items():
            longer[total + value] += count
        ways = longer
    return ways


@pytest.mark.slow
def test_hashes_that_collide_are_verified_away(rng, monkeypatch):
    """Factors of 1 make (1, 0) and (0, 1) look alike, and so do all sums with the same total."""
    good = subset_sum._subset_hash_factors
    calls = []

    def factors(rng, width):
        calls.append(width)
        return np.ones(width, dtype=np.uint64) if len(calls) == 1 else good(rng, width)

    monkeypatch.setattr(subset_sum, "_subset_hash_factors", factors)
    vectors = rng.integers(0, 3, (9, 2))
    by_sum = all_sums(vectors.tolist())
    halves = HalfSums(vectors)
    assert len(calls) > 1
    assert halves.count(np.array([*by_sum])).tolist() == [len(subsets) for subsets in by_sum.values()]
    for vectors, weights in (([[1], [2]], [0]), ([[1, 0], [1, 5]], [1, 0]), ([[0, 1], [5, 1]], [0, 1])):
        assert not subset_sum._Half(np.array(vectors), np.array(weights, dtype=np.uint64)).exact
    # Between halves: neither collides within itself, and the total of both is right where the columns are not.
    calls.clear()
    halves = HalfSums(np.array([[1, 0], [0, 5]]))
    assert len(calls) == 1
    assert halves.count(np.array([[5, 1], [1, 5]])).tolist() == [0, 1]


def test_one_real_valued_column_more_makes_subsets_unique(rng):
    vectors = rng.integers(-(2**22), 2**22, (40, 2))
    chosen = rng.random(40) < 0.5
    found = solve(vectors, chosen @ vectors)
    assert found.count == 1 and (found.with_row == chosen).all()
    assert solve(vectors[:, :1], (chosen @ vectors)[:1]).count > 1000


@pytest.mark.slow
def test_the_expected_number_of_others_is_about_what_is_counted(rng):
    for columns, levels in ((1, 2**12), (2, 2**6), (3, 4)):
        vectors = 7 * (2 * rng.integers(0, levels, (18, columns)) - levels + 1)
        targets = rng.integers(0, 2, (300, 18)) @ vectors
        seen = float((HalfSums(vectors).count(targets) - 1).mean())
        assert 0.6 < seen / expected_other_subsets(vectors) < 1.7
    doubled = np.hstack([vectors, vectors])
    assert bits_of_subset_sums(doubled)[columns:].sum() < 0.01  # a column that repeats another adds nothing


def test_lattice_reduction_finds_a_planted_subset_and_says_that_there_may_be_others(rng):
    vectors = rng.integers(-(2**22), 2**22, (60, 6))
    lattice = Lattice(vectors)
    for _ in range(5):
        chosen = rng.random(60) < 0.5
        found = lattice.solve(chosen @ vectors)
        assert (found.one == chosen).all() and found.count is None


@pytest.mark.slow
def test_lattice_reduction_verifies_in_columns_that_it_did_not_use(rng):
    vectors = rng.integers(-(2**22), 2**22, (20, 12))
    lattice, chosen = Lattice(vectors), rng.random(20) < 0.5
    target = chosen @ vectors
    assert (lattice.find(target) == chosen).all()
    unused = np.setdiff1d(np.arange(12), lattice._columns)
    assert len(unused)
    target[unused[0]] += 1
    assert lattice.find(target) is None


@pytest.mark.slow
def test_lattice_reduction_refutes_what_it_can(rng):
    vectors = 6 * rng.integers(-5, 6, (12, 2))
    lattice = Lattice(vectors)
    assert lattice.solve(vectors.sum(axis=0)).count is None
    for impossible in (np.abs(vectors).sum(axis=0) + 6, vectors.sum(axis=0) + 1):
        assert lattice.solve(impossible).count == 0
    wide = rng.integers(-100, 100, (5, 9))
    assert Lattice(wide).solve(wide[0] + wide[3]).one.tolist() == [True, False, False, True, False]
    assert Lattice(wide).solve(np.arange(9)).count == 0


@pytest.mark.slow
def test_unknown_where_the_columns_carry_too_little_or_the_time_is_over(rng):
    vectors = rng.integers(-(2**22), 2**22, (100, 2))
    target = (rng.random(100) < 0.5) @ vectors
    found = solve(vectors, target)
    assert found.count is None and found.one is None
    assert "100 rows need columns of well over 100 bits, and these carry about 5" in found.why
    assert found.why.endswith(("50", "51", "52", "53"))
    begun = time.process_time()
    wide = rng.integers(-(2**22), 2**22, (300, 40))
    assert solve(wide, wide[0], seconds=0.5).why == "the time was over"
    assert time.process_time() - begun < 60
    many = rng.integers(-9, 9, (2000, 3))
    assert "too many" in solve(many, many[0]).why


@pytest.mark.slow
def test_hashes_stand_common_factors_and_give_up_on_what_they_cannot_tell_apart(rng):
    vectors = rng.integers(-8, 9, (20, 2)) * 2**52
    found = solve(vectors, vectors[:3].sum(axis=0))
    small = solve(vectors >> 52, vectors[:3].sum(axis=0) >> 52)
    assert found.count == small.count > 1
    assert HalfSums(np.array([[4], [8], [4]])).count(np.array([[4], [5], [6], [12]])).tolist() == [2, 0, 0, 2]
    vectors = rng.integers(-8, 9, (30, 3)) * 2**52
    vectors[0] = 1
    with pytest.raises(rb.ArgumentError, match="share large powers of two"):
        HalfSums(vectors)


@pytest.mark.slow
def test_rows_that_are_sums_of_others_are_seen(rng):
    vectors = rng.integers(-(2**22), 2**22, (60, 6))
    nothing = np.zeros(60, dtype=bool)
    assert not len(Lattice(vectors).relations(nothing))
    vectors[9] = vectors[3] - vectors[50]
    vectors[8] = 0
    lattice = Lattice(vectors)
    for subset in (nothing, rng.random(60) < 0.5):
        relations = lattice.relations(subset)
        assert set(np.flatnonzero(relations.any(axis=0))) == {3, 8, 9, 50} and not (relations @ vectors).any()
    # Thirty rows that sum to nothing change a subset that has all of them, or none.
    vectors = rng.integers(-(2**22), 2**22, (60, 6))
    vectors[29] = -vectors[:29].sum(axis=0)
    lattice, all_of_them = Lattice(vectors), np.arange(60) < 30
    assert not len(lattice.short)
    for subset in (nothing, all_of_them):
        assert (lattice.relations(subset).any(axis=0) == all_of_them).all()
    assert not len(lattice.relations(np.arange(60) < 29))


def test_what_is_refused(rng):
    vectors = rng.integers(-9, 9, (41, 1))
    with pytest.raises(rb.ArgumentError, match="too many for halves"):
        HalfSums(vectors)
    with pytest.raises(rb.ArgumentError, match="do not go together"):
        solve(vectors, np.array([1, 2]))
    with pytest.raises(rb.ArgumentError, match="must be integers"):
        solve(vectors / 2, vectors[0])
    with pytest.raises(rb.ArgumentError, match="too large"):
        solve(np.array([[2**62]]), np.array([0]))
