"""Exact cover and rados lead to each other; the printed reductions do, but for one branch; the study runs."""

import itertools
import json
import time

import pytest

from radoboost.errors import ArgumentError
from radoboost.lab.theory import solver_limits as hardness
from radoboost.lab.theory.decision_problems import SparseQuestion
from radoboost.lab.theory.solver_limits import (
    COVERABLE,
    REDUCTIONS,
    UNCOVERABLE,
    ThreeSets,
    all_three_sets_of_six,
    any_norm_sparse,
    decide_question,
    find_exact_cover,
    fixed_norm_sparse,
    planted_three_sets,
    printed_probe,
    printed_sparse,
    random_three_sets,
    try_printed_probe,
)
from radoboost.report.findings import Findings


def is_exact_cover(instance, chosen):
    """Whether these different sets hold each element exactly once."""
    elements = [element for k in set(chosen) for element in instance.sets[k]]
    return len(set(chosen)) == len(chosen) and sorted(elements) == list(range(len(instance.sets)))


def mixed(count, sizes, rng):
    """Half with a planted cover, half without one as far as they are found."""
    instances = []
    for number in range(count):
        q = sizes[number // 2 % len(sizes)]
        instance = planted_three_sets(q, rng) if number % 2 else random_three_sets(q, rng)
        while number % 2 == 0 and find_exact_cover(instance).answer == "yes":
            instance = random_three_sets(q, rng)
        instances.append(instance)
    return instances


def agree_on(name, instances):
    """The question's answer is that of the search; how often there was a cover."""
    reduction, covered = REDUCTIONS[name], 0
    for instance in instances:
        search, answer = find_exact_cover(instance), decide_question(reduction(instance))
        assert answer.answer == search.answer, instance
        if search.answer == "yes":
            covered += 1
    return covered / len(instances)


# ---- Exact cover itself.


def brute_cover(sets):
    """All choices of q sets, each tried."""
    everything = set(range(len(sets)))
    return [
        chosen
        for chosen in itertools.combinations(range(len(sets)), len(sets) // 3)
        if set().union(*(sets[k] for k in chosen)) == everything
    ]


@pytest.mark.slow
def test_the_search_agrees_with_trying_all_choices(rng):
    found = []
    for number in range(200):
        instance = random_three_sets(2 + number % 4, rng)
        search, covers = find_exact_cover(instance), brute_cover(instance.sets)
        assert search.answer == ("yes" if covers else "no")
        assert not covers or search.chosen in covers
        found.append(bool(covers))
    assert 50 <= sum(found) <= 150


def test_planted_covers_are_there(rng):
    for q in (2, 3, 5, 10):
        instance = planted_three_sets(q, rng)
        assert instance.q == q
        search = find_exact_cover(instance)
        assert search.answer == "yes" and is_exact_cover(instance, search.chosen)


def test_the_checker_of_covers_refuses_what_is_wrong():
    assert is_exact_cover(COVERABLE, (0, 1))
    for wrong in ((), (0,), (0, 0), (0, 2), (0, 1, 2)):
        assert not is_exact_cover(COVERABLE, wrong)


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (((0, 1, 2),) * 3, "for a q of at least 2"),
        (COVERABLE.sets[:5], "3q sets of three different elements"),
        (((0, 0, 1), *COVERABLE.sets[1:]), "three different elements"),
        ((*COVERABLE.sets[:5], COVERABLE.sets[0][::-1]), "two of the 3-sets are the same"),
        ((*COVERABLE.sets[:5], (1, 2, 5)), "each of the elements 0 ... 5 must be in exactly three"),
        (tuple(tuple(e + 1 for e in one) for one in COVERABLE.sets), "elements 0 ... 5"),
    ],
)
def test_what_is_no_instance_is_refused(sets, says):
    with pytest.raises(ArgumentError, match=says):
        ThreeSets(sets)


@pytest.mark.slow
def test_the_search_keeps_its_time_limit(rng):
    instance = random_three_sets(60, rng)
    begun = time.process_time()
    search = find_exact_cover(instance, seconds=1e-6)
    assert search.answer == "unknown" and time.process_time() - begun < 2


# ---- Reductions, both ways.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparse-0", "probe-0"])
def test_the_printed_reductions_at_p_0_hold(name, rng):
    assert 0.3 < agree_on(name, mixed(200, (2, 3), rng)) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(REDUCTIONS) - {"sparse-0", "probe-0"}))
def test_the_other_reductions_hold(name, rng):
    assert 0.3 < agree_on(name, mixed(60, (2, 2, 3), rng)) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCTIONS)
def test_all_reductions_hold_on_larger_instances(name, rng):
    assert 0.3 < agree_on(name, mixed(20, (4,), rng)) < 0.7


def test_our_reduction_needs_its_number_of_examples():
    """With one example more the answer is yes: the goal itself is cut into pieces that no set is."""
    asked = fixed_norm_sparse(UNCOVERABLE, 1)
    assert decide_question(asked).answer == "no"
    assert decide_question(SparseQuestion(asked.rados, asked.m + 1, asked.ell, p=1)).answer == "yes"


def test_norms_outside_of_a_reduction_are_refused():
    with pytest.raises(ArgumentError, match="for p = 1 and inf, not 2"):
        fixed_norm_sparse(COVERABLE, 2)
    with pytest.raises(ArgumentError, match="for p from 1 on"):
        any_norm_sparse(COVERABLE, 0)


# ---- The paper's, as printed.


def test_at_p_0_the_printed_reduction_to_sparse_approximation_is_right_on_all_330_instances():
    """p is part of the instance of Sparse-Approximation, so this is all that lem_comp1 needs."""
    instances = all_three_sets_of_six()
    assert len(instances) == 330
    assert 0.9 < agree_on("sparse-0", instances) < 0.95


@pytest.mark.slow
def test_the_branch_for_p_above_0_is_no_for_every_cover(rng):
    """At p = 1, by the solver; at other p by the norms, which leave no choice."""
    for instance in mixed(12, (2, 3), rng):
        assert decide_question(printed_sparse(instance, 1)).answer == "no"
    ell = 2.0**-53
    for p, m in itertools.product((1, 1.5, 2, 7, 100), (2, 10**6, 10**9)):
        assert m * ell < 3 ** (1 / p) - 2 ** (1 / p)  # farther from every rado than r, whatever the examples are
    for p, m in itertools.product((0.25, 0.5, 0.9), (2, 1000)):
        assert m * ell**p < 1  # of p-th powers


@pytest.mark.slow
@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 7])
def test_the_printed_reduction_to_probes_is_right_on_all_330_instances(p):
    covers = [bool(brute_cover(one.sets)) for one in all_three_sets_of_six()]
    assert [try_printed_probe(one, p) for one in all_three_sets_of_six()] == covers and covers.count(True) == 300
    if p in (0, 1):
        some = all_three_sets_of_six()[::11]
        assert [decide_question(printed_probe(one, p)).answer == "yes" for one in some] == covers[::11]


# ---- The study.


@pytest.mark.slow
def test_the_study_is_quick_and_right():
    begun = time.process_time()
    findings = hardness.study(limit=5.0)
    assert time.process_time() - begun < 30
    assert Findings.from_dict(json.loads(json.dumps(findings.to_dict(), allow_nan=False))) == findings
    assert [one.seen for one in findings.checks] == [True, False, True, True, True]
    assert [one.ours for one in findings.checks] == [False, False, False, True, True]
    assert len(findings.tables[0].rows) == 3 * len(hardness.QUICK_SIZES) + 3 * len(hardness.QUICK_COVERS)
    assert any("not a guarantee" in note for note in findings.notes)


@pytest.mark.slow
def test_the_study_keeps_its_time_and_says_what_it_left_out():
    begun = time.process_time()
    findings = hardness.study(seconds=1e-3, repeats=20_000)
    assert time.process_time() - begun < 10
    assert [one.seen for one in findings.checks] == [None] * 5
    assert sum("there was no time" in note for note in findings.notes) == 6
    with pytest.raises(ArgumentError, match="at least one size"):
        hardness.study(sizes=())


@pytest.mark.slow
def test_the_study_would_notice_a_wrong_answer(monkeypatch):
    """A solver that says no to everything."""
    monkeypatch.setattr(
        hardness, "decide_question", lambda question, **more: hardness.Answer(question, "no", 0.01, "lazy")
    )
    assert [one.seen for one in hardness.study().checks] == [False, False, True, False, False]
