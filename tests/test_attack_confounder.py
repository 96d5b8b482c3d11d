"""Other data sets with the same rados: equal bits, in the ball, exact distances; the printed proof and its gaps."""

import itertools
import json
import math
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks.adversary_knowledge import rado_integers, seed_inclusion_bits, table_edge_vectors
from radoboost.lab.theory import confounder as module
from radoboost.lab.theory.confounder import (
    CONSTRUCTIONS,
    Search,
    _farthest_point,
    confound_columns,
    confound_points,
    confounder_cells_along,
    confounder_signatures,
    smallest_integer_type,
)
from radoboost.lab.theory.sphere_packing import (
    CENTRE,
    FAR,
    FEW,
    covered_disc,
    farthest_split_edge,
    first_m_few_spheres,
    gaps_of_sphere_proof,
    next_m_without_gap,
    printed_sphere_bound,
    printed_sphere_bound_follows,
    sphere_packing_of_paper,
    spheres_along,
    where_sphere_proof_works,
)
from radoboost.learner.boost import boost
from radoboost.learner.rado_moments import learn_rados
from radoboost.release.release import RADOS


def _square_distance(a, b):
    return sum((Fraction(int(x)) - Fraction(int(y))) ** 2 for x, y in zip(a, b, strict=True))


def _oracle(first, second):
    """The squared Hausdorff distance, by its definition and in fractions."""
    there = max(min(_square_distance(a, b) for b in second) for a in first)
    back = max(min(_square_distance(a, b) for a in first) for b in second)
    return max(there, back)


def _hausdorff(first, second):
    """The same with the package's distances, for larger sets."""
    reach = max(int(np.abs(points.astype(object)).max()) for points in (first, second))
    first, second = smallest_integer_type(reach, first, second)
    return max(_farthest_point(first, second), _farthest_point(second, first))


def _points(rng, m, d, kind):
    """Edge vectors of several shapes, on a coarse or a fine grid."""
    if kind == "ball":
        return module._random_points_in_ball(rng, m, d)
    if kind == "coarse":
        return rng.integers(-4, 5, (m, d))
    if kind == "sphere":
        points = rng.normal(size=(m, d))
        return np.rint(points / np.linalg.norm(points, axis=1, keepdims=True) * 2**22).astype(np.int64)
    if kind == "half":  # nothing to balance a sum with
        return np.abs(module._random_points_in_ball(rng, m, d)) + 1
    return rng.integers(-(2**22), 2**22, (m, d)) * np.array([2 ** int(k) for k in rng.integers(0, 9, d)])


def _check(found, points, rng):
    """What must be so of every confounder, whatever made it."""
    m, d = points.shape
    finer = found.edges[np.nonzero(points)][0] // points[np.nonzero(points)][0]
    assert (found.edges == points.astype(object) * finer).all() and found.others.shape == (m + 1, d)
    inside = rng.random((40, m)) < 0.5
    inside[0], inside[1] = True, False
    others = confounder_signatures(found, inside)
    assert others.shape == (40, m + 1) and others.dtype == np.bool_
    assert (others.astype(object) @ found.others == inside.astype(object) @ found.edges).all()
    assert all(sum(int(x) ** 2 for x in point) <= found.square_radius for point in found.others)
    if m <= 12:
        assert found.square_distance == _oracle(found.edges, found.others)
    else:
        assert found.square_distance == _hausdorff(found.edges, found.others)


@pytest.mark.slow
def test_two_hundred_data_sets_have_a_confounder_beyond_the_bound(rng):
    """The bound that is proved for every m, below and above m = 2^d: exact, and by several shapes of data."""
    kinds, short, below = ("ball", "coarse", "sphere", "half", "spread"), 0, 0
    seen = dict.fromkeys(CONSTRUCTIONS, 0)
    for number in range(200):
        d, kind = 1 + number % 6, kinds[number % 5]
        m = int(rng.choice([1, 2, 3, 2**d - 1, 2**d, 2**d + 1, 4 * 2**d, 80]))
        points = _points(rng, m, d, kind)
        found = confound_points(points, seed=number)
        if found is None:
            assert not points.any()
            continue
        _check(found, points, rng)
        b = Fraction(1, d * confounder_cells_along(m, d) ** 2)
        assert found.reaches_bound == (found.square_distance / found.square_radius >= b)
        short += not found.reaches_bound
        below += m < 2**d
        seen[found.construction] += 1
    assert short == 0
    assert 50 < below < 150 and min(seen.values()) > 5, seen


def test_zero_and_split_alone_reach_the_bound_as_proved(rng):
    """Steps C2 and C3: one of the two always does, so the paper's construction with the right e and c suffices."""
    for number in range(60):
        d = 1 + number % 6
        points = _points(rng, int(rng.integers(1, 60)), d, ("ball", "sphere", "half")[number % 3])
        found = confound_points(points, constructions=("zero", "split"))
        _check(found, points, rng)
        assert found.reaches_bound


@pytest.mark.slow
def test_an_empty_cell_is_always_among_the_centres(rng):
    """Step C1, also where cells are many more than can be listed."""
    for m, d in ((1, 1), (5, 1), (8, 2), (9, 2), (300, 3), (50, 40)):
        points = _points(rng, m, d, "ball").astype(object)
        square = Fraction(max((points**2).sum(axis=1)))
        search = Search(points, square, rng, lambda: 9.0, 1.0, False)
        listed = search._centres()[-(m + 1) :]
        assert search.tree.query(listed)[0].max() >= (1 - 1e-9) / (math.sqrt(d) * confounder_cells_along(m, d))
        assert len(np.unique(listed, axis=0)) == m + 1


def test_points_that_fill_a_coarse_grid_are_split_on_a_finer_one(rng):
    points = np.array([[-1], [0], [1]])
    found = confound_points(points, constructions=("zero", "split"))
    _check(found, points, rng)
    assert found.reaches_bound and found.unit < 1
    nothing = confound_points(np.zeros((3, 2), np.int64))
    assert nothing is None
    assert confound_points(np.zeros((3, 2), np.int64), 16).reaches_bound


def test_hausdorff_is_that_of_the_definition(rng):
    for _ in range(60):
        d = int(rng.integers(1, 5))
        scale = int(rng.choice([3, 2**22, 2**40]))  # the last needs Python's integers
        first, second = (rng.integers(-scale, scale, (int(rng.integers(1, 9)), d)) for _ in range(2))
        assert _hausdorff(first, second) == _oracle(first, second)
    assert _hausdorff(first, first) == 0


def test_cells_along_is_exact():
    for m in (*range(1, 70), 2**53 - 1, 2**53, 3**40 - 1, 3**40):
        for d in (1, 2, 3, 7):
            k = confounder_cells_along(m, d)
            assert (k - 1) ** d < m + 1 <= k**d


# ---- releases and learners


def test_a_release_has_the_same_rados_and_gives_the_same_classifier(rng):
    X, y = rng.normal(size=(150, 4)) * (1, 5, 0.1, 2), rng.integers(0, 2, 150)
    release = rb.craft(X, y, n_rados=80, seed=3)
    edges, steps = table_edge_vectors(release, X, y), np.array([column.step for column in release.columns])
    inside = seed_inclusion_bits(release, 3, 150)
    for as_table in (False, True):
        found = confound_columns(release, edges, as_table=as_table)
        finer = (steps / found.unit).astype(np.int64)
        sums = confounder_signatures(found, inside).astype(np.int64) @ found.others
        assert (sums == rado_integers(release) * finer).all()
        assert (sums * found.unit).tobytes() == release.rados.tobytes()
        theirs = sums * found.unit
        assert (boost(theirs, n_rounds=50).theta == boost(release.rados, n_rounds=50).theta).all()
        same = replace(release, blocks={**release.blocks, RADOS: theirs})
        assert (learn_rados(same).theta == learn_rados(release).theta).all()
        _check(found, edges * finer, rng)
        assert found.distance > 0.3 and found.reaches_bound
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.sentence().endswith("may rule it out.")
    assert found.construction == "flip" and found.keeps_constant is True
    assert (np.abs(found.edge_vectors[:, -1]) == 1).all()
    # Flipped: the same examples with other labels.
    turned = list(found.records)
    assert (found.edge_vectors[turned] == -(edges * steps)[turned]).all()
    assert confound_columns(release, edges, radius=1e3).square_radius == (Fraction(1000) / Fraction(found.unit)) ** 2


@pytest.mark.slow
def test_tables_have_confounders_that_are_tables(rng):
    for m, d in itertools.product((40, 41, 100, 101), (2, 5)):
        X, y = rng.normal(size=(m, d)), rng.integers(0, 2, m)
        release = rb.craft(X, y, n_rados=10)
        found = confound_columns(release, table_edge_vectors(release, X, y), as_table=True)
        assert found.keeps_constant and found.distance > 0.25, (m, d)


@pytest.mark.slow
def test_a_split_shows_in_the_constant_column(rng):
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    release = rb.craft(X, y, n_rados=20)
    points = table_edge_vectors(release, X, y) * np.array([1, 1, 4])
    found = confound_points(points, constructions=("split",), unit=2.0**-24, has_constant=True)
    assert found.keeps_constant is False and "is no table" in found.sentence()
    assert confound_points(points, constructions=("split", "zero"), unit=2.0**-24, as_table=True) is None


def test_what_cannot_be_used_is_refused():
    columns = rb.craft([[1.0], [2.0]], [0, 1], n_rados=2, mechanism=rb.Plain(intercept=False)).columns
    with pytest.raises(rb.ArgumentError, match="outside of the ball"):
        confound_columns(columns, np.array([[2**22]]), radius=0.1)
    with pytest.raises(rb.ArgumentError, match="constant column"):
        confound_columns(columns, np.array([[2**22]]), as_table=True)
    apart = rb.craft([[1e-200, 1e200], [2e-200, 1e199]], [0, 1], n_rados=2, mechanism=rb.Plain(scale=None))
    with pytest.raises(rb.ArgumentError, match="too far apart"):
        confound_columns(apart, table_edge_vectors(apart, [[1e-200, 1e200]], [0]))
    wide = rb.craft([[1e-20, 1e20], [2e-20, 1e19]], [0, 1], n_rados=2, mechanism=rb.Plain(scale=None))
    assert confound_columns(wide, table_edge_vectors(wide, [[1e-20, 1e20], [2e-20, 1e19]], [0, 1])).reaches_bound
    with pytest.raises(rb.ArgumentError, match="1 columns"):
        confound_columns(columns, np.array([[1, 2]]))
    with pytest.raises(rb.ArgumentError, match="signatures of 1 records"):
        confounder_signatures(confound_points(np.array([[4]])), np.ones((2, 3), np.bool_))
    with pytest.raises(rb.ArgumentError, match="time limit"):
        confound_points(np.array([[4]]), seconds=0)


@pytest.mark.slow
def test_the_time_limit_is_kept(rng):

    points = module._random_points_in_ball(rng, 4000, 3)
    begun = time.process_time()
    found = confound_points(points, seconds=0.3)
    assert time.process_time() - begun < 10
    assert found is None or found.others.shape == (4001, 3)


# ---- the proof as printed


def _runs(numbers):
    """Whole numbers as first and last of each run of them."""
    runs = []
    for one in numbers:
        runs = [*runs[:-1], (runs[-1][0], one)] if runs and runs[-1][1] == one - 1 else [*runs, (one, one)]
    return runs


def _sphere_centres(m, d):
    """The proof's spheres, with R as 1: centres and radius."""
    k = spheres_along(m, d)
    axis = [(2 * i + 1 - k) / (k * math.sqrt(d)) for i in range(k)]
    return np.array(list(itertools.product(axis, repeat=d))), 1 / (k * math.sqrt(d))


def _on_grid(points):
    return np.rint(np.array(points) * 2**40).astype(np.int64), 2**80


def _difficult(m, d, rng):
    """Data sets that go for the gaps: all around 0, in the inner spheres, in as many spheres as there are points."""
    centres, radius = _sphere_centres(m, d)
    directions = rng.normal(size=(m, d))
    directions *= 0.99 / np.linalg.norm(directions, axis=1, keepdims=True)
    inner = centres[np.argsort(np.linalg.norm(centres, axis=1), kind="stable")]
    yield 1e-6 * radius * directions
    yield inner[np.arange(m) % len(inner)] + radius * directions
    yield inner[np.arange(m) % len(inner)] * (1 - 1e-9)
    yield rng.permutation(centres)[np.arange(m) % len(centres)] + radius * directions
    yield directions * rng.random((m, 1)) ** (1 / d)
    yield np.concatenate([1e-6 * radius * directions[:1], directions[1:]])


@pytest.mark.slow
def test_where_the_printed_proof_has_no_gap():
    """By counting: from which m on there are too few spheres, and for which m nothing is missing."""
    every = range(1, 3001)
    whole = {d: _runs(m for m in every if not gaps_of_sphere_proof(m, d)) for d in (2, 3, 4)}
    assert whole == {2: [(4, 7), (16, 24)], 3: [(9, 26), (81, 124)], 4: [(16, 63), (256, 624)]}
    page = (Path(__file__).parent.parent / "docs" / "attacks.md").read_text()
    assert all(f"{first} to {last} at d = {d}" in page for d, ((first, last), _) in whole.items() if d < 4)
    for d in (2, 3, 4, 6, 7):  # the next run without a gap, against a search
        for after in (2**d - 1, 40, 300, 1000):
            beyond = [m for m in range(after + 1, 20_000) if not gaps_of_sphere_proof(m, d)]
            run = next_m_without_gap(d, after)
            assert (run[0] if run and run[0] < 20_000 else None) == next(iter(beyond), None)
            if run and run[1] < 19_999:
                assert gaps_of_sphere_proof(run[1], d) == () != gaps_of_sphere_proof(run[1] + 1, d)
    assert "for d = 10 from 10,000 to 99,999" in where_sphere_proof_works().note
    assert gaps_of_sphere_proof(10_000, 10) == () and gaps_of_sphere_proof(9_999, 10) != () != gaps_of_sphere_proof(
        100_000, 10
    )
    few = {d: _runs(m for m in every if FEW in gaps_of_sphere_proof(m, d)) for d in (2, 3, 4, 6, 10)}
    assert few == {
        2: [(25, 31), (36, 3000)],
        3: [(8, 8), (64, 80), (125, 3000)],
        4: [(625, 1023), (1296, 3000)],
        6: [],
        10: [],
    }
    assert [m for d in range(2, 11) for m in every if FAR in gaps_of_sphere_proof(m, d)] == [1, 2, 3]  # at d = 2
    assert gaps_of_sphere_proof(1, 1) == (FAR,) and gaps_of_sphere_proof(2, 1) == ()
    for d in range(2, 8):
        assert FEW in gaps_of_sphere_proof(first_m_few_spheres(d), d) and FEW not in gaps_of_sphere_proof(
            first_m_few_spheres(d) - 1, d
        )
    for m, d in itertools.product(range(1, 400), range(2, 7)):
        if m >= 2**d:
            assert spheres_along(m, d) == math.ceil(math.log(m + 1) / math.log(d) - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "sizes"), [(2, (4, 5, 6, 7, 16, 20, 24)), (3, (9, 10, 17, 26, 81, 124)), (4, (16, 63))])
def test_the_printed_construction_works_where_the_proof_has_no_gap(d, sizes, rng):
    """k odd and k^d > m: it reaches its bound whatever the data set, also those that go for the gaps."""
    for m in sizes:
        assert gaps_of_sphere_proof(m, d) == ()
        for points in _difficult(m, d, rng):
            made = sphere_packing_of_paper(*_on_grid(points))
            assert (made.verdict, made.gap) == ("reaches its bound", None) and made.distance >= made.bound


@pytest.mark.slow
@pytest.mark.parametrize(("m", "d"), [(8, 2), (15, 2), (7, 3), (27, 3), (300, 6)])
def test_with_an_even_number_of_spheres_along_an_edge_the_footnotes_ball_may_hold_an_example(m, d, rng):
    """All examples around 0 and in no sphere: 0 is near them. One of them in an inner sphere, and the proof works."""
    around_0 = np.full((m, d), 1e-6)
    made = sphere_packing_of_paper(*_on_grid(around_0))
    assert (made.verdict, made.gap) == ("misses its bound", CENTRE) and CENTRE in gaps_of_sphere_proof(m, d)
    assert confound_points(*_on_grid(around_0)).distance >= made.bound  # where the proof has a gap, the lemma holds
    centres, _ = _sphere_centres(m, d)
    around_0[0] = centres[np.linalg.norm(centres, axis=1).argmin()]
    assert sphere_packing_of_paper(*_on_grid(around_0)).verdict == "reaches its bound"


@pytest.mark.slow
def test_a_difference_leaves_the_ball_only_of_one_column_or_of_up_to_three_examples_in_two(rng):
    """d = 1, one edge vector at 9 of 10: the empty sphere is around -5, and 9 - (-5) is outside."""
    assert sphere_packing_of_paper(np.array([[9]]), 100).verdict == "leaves the ball"
    assert sphere_packing_of_paper(np.array([[9]]), 100).gap == FAR
    assert confound_points(np.array([[9]]), 100).reaches_bound
    assert "no bound" in sphere_packing_of_paper(np.array([[9], [1]])).verdict  # log(1) = 0
    radius = 1 / (2 * math.sqrt(2))
    far = [[radius, 1.99 * radius], [-radius, 1.99 * radius], [-radius, 1.99 * radius]]
    for m in (2, 3):
        assert sphere_packing_of_paper(*_on_grid(far[:m])).gap == FAR and FAR in gaps_of_sphere_proof(m, 2)
    for angle in np.linspace(0, 2 * math.pi, 100):  # of one edge vector, another choice stays in the ball
        point = [radius * (1 + 0.99 * math.cos(angle)), radius * (1 + 0.99 * math.sin(angle))]
        assert sphere_packing_of_paper(*_on_grid([point])).verdict == "reaches its bound"
    assert (
        sphere_packing_of_paper(*_on_grid([*far, far[0]])).verdict == "reaches its bound"
    )  # m = 4, the least without a gap
    # Touching spheres: 3 r <= R for every other m and d, so that e - c stays in the ball.
    for m, d in ((4, 2), (5, 2), (8, 2), (2, 3), (7, 3), (26, 3), (15, 4)):
        for points in _difficult(m, d, rng):
            assert sphere_packing_of_paper(*_on_grid(points)).gap in (None, CENTRE)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "d"), [(25, 2), (36, 2), (8, 3), (64, 3), (125, 3)])
def test_from_some_m_on_every_sphere_can_hold_an_example(m, d):
    """One example in each sphere; with one fewer of them a sphere is empty."""
    centres, _ = _sphere_centres(m, d)
    assert len(centres) <= m
    points = centres[np.arange(m) % len(centres)] * (1 - 1e-9)
    made = sphere_packing_of_paper(*_on_grid(points))
    assert (made.verdict, made.gap) == ("no sphere is empty", FEW) and FEW in gaps_of_sphere_proof(m, d)
    points[(points == points[0]).all(axis=1)] = points[1]
    assert sphere_packing_of_paper(*_on_grid(points)).verdict == "reaches its bound"
    assert confound_points(*_on_grid(points)).distance >= made.bound


@pytest.mark.slow
def test_a_covered_disc_has_no_hole_of_the_printed_size(rng):
    """Below the printed bound wherever one looks, so no split reaches it. The lemma is not refuted: flipping does."""
    points, square = covered_disc(), 2**40
    m = len(points)
    assert m < 1500 and (np.square(points).sum(axis=1) <= square).all()
    most, printed = farthest_split_edge(points, square), printed_sphere_bound(m, 2)
    assert most < 0.03395 and f"{printed:.6f}" == "0.033996"
    page = (Path(__file__).parent.parent / "docs" / "proofs" / "confounder.md").read_text()
    assert f"{m:,} edge vectors" in page and "0.03395 R" in page and "0.033996 R" in page
    assert sphere_packing_of_paper(points, square).gap == FEW and not printed_sphere_bound_follows(m, 2)
    found = confound_points(points, square, constructions=("zero", "split"))
    assert found.reaches_bound and found.distance <= most
    flipped = confound_points(points, square, constructions=("flip",))
    _check(flipped, points, rng)
    assert flipped.distance > 5 * printed


@pytest.mark.slow
def test_only_releases_of_sums_have_confounders(rng):
    X, y = rng.random((30, 2)), rng.integers(0, 2, 30)
    declared = {"bounds": [(0, 1)] * 2, "classes": (0, 1)}
    for mechanism in (rb.Moments(1.0), rb.NoisyRados(1.0), rb.NoisyExamples(1.0)):
        release = flat.craft(X, y, n_rados=5, mechanism=mechanism, **declared)
        with pytest.raises(rb.ArgumentError, match="not sums of edge vectors alone"):
            confound_columns(release, table_edge_vectors(release, X, y))
    release = rb.craft(X, y, n_rados=5)
    assert "that this table has" in confound_columns(release, table_edge_vectors(release, X, y)).sentence()
    for radius in (math.inf, math.nan, 1e300, -10.0, 0.0):
        with pytest.raises(rb.ArgumentError, match="radius must be a positive number"):
            confound_columns(release, table_edge_vectors(release, X, y), radius=radius)


@pytest.mark.slow
def test_what_had_no_time_is_not_reported_as_not_seen():
    assert module.study(seconds=1e-3).checks[0].seen is None


@pytest.mark.slow
def test_the_study_says_what_was_seen():
    findings = module.study(sizes=(3, 20), dimensions=(1, 2), repeats=2)
    assert [entry.seen for entry in findings.checks] == [True, True, True, False, False, True]
    assert [entry.ours for entry in findings.checks] == [False, True, False, False, False, True]
    assert "does not refute the lemma" in findings.checks[4].why
    assert findings.tables[1].rows[0][:2] == (2, "4 to 7, 16 to 24")
    assert len(findings.tables[0].rows) == 4
    assert "no guarantee" in findings.notes[0]
    assert module.study(sizes=(3,), dimensions=(1,), repeats=1, seconds=1e-3).tables[0].rows == ()
