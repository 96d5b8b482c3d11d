"""Records from rados with known signatures: exact, against crafting itself and a solver over the rationals."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.lab.attacks import exact_reconstruction
from radoboost.lab.attacks.adversary_knowledge import rado_integers, seed_inclusion_bits, table_edge_vectors
from radoboost.lab.attacks.exact_reconstruction import reconstruct, solve_integers


def _table(rng, m, d):
    X = np.column_stack([rng.normal(50, 9, (m, d - 1)), rng.integers(0, 90, m)])
    return X, np.where(rng.random(m) < 0.4, "yes", "no")


# ---- an oracle: Gaussian elimination with fractions


def _determined(A, P):
    """Which unknowns the equations determine, with their values, and the rank."""
    rows = [[Fraction(int(v)) for v in (*a, *p)] for a, p in zip(A, P, strict=True)]
    m, rank, pivots = len(A[0]), 0, []
    for k in range(m):
        chosen = next((i for i in range(rank, len(rows)) if rows[i][k] != 0), None)
        if chosen is None:
            continue
        rows[rank], rows[chosen] = rows[chosen], rows[rank]
        rows[rank] = [v / rows[rank][k] for v in rows[rank]]
        for i in range(len(rows)):
            if i != rank and rows[i][k] != 0:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[rank], strict=True)]
        pivots.append(k)
        rank += 1
    assert all(not any(row[m:]) for row in rows[rank:]), "inconsistent"
    alone = {k: rows[i][m:] for i, k in enumerate(pivots) if sum(v != 0 for v in rows[i][:m]) == 1}
    return alone, rank


@pytest.mark.slow
def test_what_is_determined_is_found_as_by_fractions(rng):
    some, all_, none = 0, 0, 0
    for _ in range(300):
        n, m, d = rng.integers(1, 13), rng.integers(1, 13), rng.integers(1, 4)
        A = (rng.random((n, m)) < rng.choice([0.2, 0.5, 0.8])).astype(np.int64)
        E = rng.integers(-(2**22), 2**22 + 1, (m, d))
        alone, rank = _determined(A, A @ E)
        solution = solve_integers(A, A @ E, largest=2**22)
        assert solution.rank == rank
        assert np.flatnonzero(solution.found).tolist() == sorted(alone)
        for k, values in alone.items():
            assert solution.values[k].tolist() == values == E[k].tolist()
        assert not solution.values[~solution.found].any()
        some += 0 < len(alone) < m
        all_ += len(alone) == m
        none += not alone
    assert min(some, all_, none) > 30  # each kind was there


def test_equations_that_contradict_each_other_are_refused(rng):
    A = np.array([[1, 0], [1, 0]])
    with pytest.raises(rb.TableError, match="another seed"):
        solve_integers(A, np.array([[1], [2]]))
    with pytest.raises(rb.TableError, match="as small as they must be"):
        solve_integers(A, np.array([[9], [9]]), largest=8)
    halves = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])  # modulo a prime there are halves, and they are large
    with pytest.raises(rb.TableError, match="as small as they must be"):
        solve_integers(halves, np.ones((3, 1), np.int64))
    A = rng.integers(0, 2, (90, 20))
    P = A @ rng.integers(-9, 9, (20, 1))
    P[-1] += 1  # beyond the rows that the solution is from
    with pytest.raises(rb.TableError, match="another seed"):
        solve_integers(A, P)
    with pytest.raises(rb.ArgumentError, match="0 and 1"):
        solve_integers(2 * A, P)


def test_sums_that_are_no_integers_and_empty_systems_are_refused():
    one = np.ones((1, 2), np.int64)
    for sums in ([[3.7]], [[np.nan]]):
        with pytest.raises(rb.ArgumentError, match="whole numbers"):
            solve_integers(one, np.array(sums))
    for sums in ([[np.inf]], [[-(2**63)]]):
        with pytest.raises(rb.ArgumentError, match=r"2\*\*53"):
            solve_integers(one, np.array(sums))
    assert solve_integers(np.eye(2), np.array([[3.0], [4.0]])).values.tolist() == [[3], [4]]
    for shape, width in (((0, 3), 1), ((2, 0), 1), ((2, 3), 0)):
        with pytest.raises(rb.ArgumentError, match="at least one"):
            solve_integers(np.zeros(shape), np.zeros((shape[0], width), np.int64))


# ---- releases


CASES = [
    {"scale": "standard"},
    {"scale": None},
    {"scale": "bounds", "bounds": [(0, 120)] * 4},
    {"scale": "standard", "bounds": [(40, 60)] * 4},
    {"scale": None, "intercept": False},
    {"signatures": rb.FixedSupport(17)},
    {"signatures": rb.FixedSupport(0.5), "intercept": False},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.filterwarnings("ignore::radoboost.ClippedWarning")
def test_seeded_releases_give_every_record_back(options, rng):
    X, y = _table(rng, 80, 4)
    release = flat.craft(X, y, n_rados=140, seed=7, **options)
    found = reconstruct(release, 7)
    assert found.status == "all" and (found.rank, found.free) == (80, 0)
    assert (found.edge_integers == table_edge_vectors(release, X, y)).all()
    table = found.to_table()
    if options.get("intercept", True):
        assert table.column("label").to_pylist() == y.tolist()
        assert (found.labels == np.where(y == "yes", 1, -1)).all()
        bounds = options.get("bounds", [(-np.inf, np.inf)] * 4)
        for k, column in enumerate(release.columns[:4]):
            _, _, _, factor, divisor, _ = column.constants
            half_step = column.step * divisor / factor * 0.5
            clipped = np.clip(X[:, k], *bounds[k])
            assert np.abs(table.column(f"x{k}").to_numpy() - clipped).max() <= half_step * (1 + 1e-6)
        assert ("clipped to the declared bounds" in found.sentence()) == ("bounds" in options)
        assert found.seed_checked and "if the seed" not in found.sentence()
        assert "all 80 records" in found.sentence() and "labels included" in found.sentence()
    else:
        assert found.labels is None and table.column_names == ["x0", "x1", "x2", "x3"]
        assert (np.column_stack([table.column(k).to_numpy() for k in range(4)]) == found.edge_vectors).all()
        assert "times its label" in found.sentence()
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.slow
def test_a_thousand_rados_of_two_hundred_records_and_few_of_a_thousand(rng):
    X, y = _table(rng, 200, 8)
    release = rb.craft(X, y, n_rados=1000, seed=3)
    assert (reconstruct(release, 3).edge_integers == table_edge_vectors(release, X, y)).all()
    X, y = _table(rng, 1000, 3)
    release = rb.craft(X, y, n_rados=200, seed=3)
    found = reconstruct(release, 3)
    assert (found.status, found.rank, found.free, found.n_found) == ("none", 200, 800, 0)
    assert "none of the 1,000 records" in found.sentence()


@pytest.mark.slow
def test_some_records_are_pinned_down_where_others_are_not(rng):
    X, y = _table(rng, 12, 4)
    seen = set()
    for seed in range(40):
        release = rb.craft(X, y, n_rados=9, seed=seed)
        found, edges = reconstruct(release, seed), table_edge_vectors(release, X, y)
        alone, rank = _determined(seed_inclusion_bits(release, seed, 12), rado_integers(release))
        assert np.flatnonzero(found.found).tolist() == sorted(alone) and found.rank == rank
        assert (found.edge_integers == np.where(found.found[:, None], edges, 0)).all()
        assert np.isnan(found.edge_vectors[~found.found]).all()
        seen.add(found.status)
        if found.status == "some":
            table = found.to_table()
            rows = table.column("(row)").to_pylist()
            assert rows == sorted(alone) and table.column("label").to_pylist() == y[rows].tolist()
            assert f"{len(alone)} of 12 records" in found.sentence()
    assert seen == {"none", "some"}


def test_a_wrong_seed_or_number_of_rows_is_refused(rng):
    X, y = _table(rng, 60, 3)
    for options in ({"n_rados": 90}, {"n_rados": 90, "intercept": False}, {"n_rados": 30}):
        release = flat.craft(X, y, seed=1, **options)
        with pytest.raises(rb.TableError, match="another seed, another number of rows"):
            reconstruct(release, 2)
    with pytest.raises(rb.ArgumentError, match="from 60 rows, not 61"):
        reconstruct(release, 1, rows=61)
    hidden = replace(release, n_examples=None)
    with pytest.raises(rb.ArgumentError, match="--set rows=M"):
        reconstruct(hidden, 1)
    with pytest.raises(rb.TableError, match="another number of rows"):
        reconstruct(hidden, 1, rows=64)  # the same words of the keystream, and four bits more of each
    assert reconstruct(hidden, 1, rows=60).rank == 30


def test_a_feature_band_with_a_known_seed_tells_the_protected_column(rng):
    """All of x is found, the protected column too; the labels are what stays open."""
    X, y = _table(rng, 120, 3)
    X = np.column_stack([X, rng.integers(0, 2, 120)])
    release = rb.craft(X, y, n_rados=200, mechanism=rb.FeatureBand("x3", epsilon=3.0, delta=1e-3), seed=5)
    found, edges = reconstruct(release, 5), table_edge_vectors(release, X, y)
    assert found.status == "all" and found.up_to_sign and found.labels is None
    assert (found.edge_integers == edges * np.sign(edges[:, 3:4])).all()
    table = found.to_table()
    assert table.column_names == ["x0", "x1", "x2", "x3"]
    assert (table.column("x3").to_numpy() == X[:, 3]).all()
    assert np.abs(table.column("x0").to_numpy() - X[:, 0]).max() < 1e-4
    assert "protected column included, but not their labels" in found.sentence()
    with pytest.raises(rb.TableError, match="another seed"):
        reconstruct(release, 6)
    few = rb.craft(X, y, n_rados=50, mechanism=rb.FeatureBand("x3", epsilon=3.0, delta=1e-3), seed=5)
    assert reconstruct(few, 5).status == "none"
    with pytest.raises(rb.TableError, match="constant column"):
        reconstruct(few, 6)
    bare = rb.craft(X, y, n_rados=200, seed=5, mechanism=rb.FeatureBand("x3", epsilon=3.0, delta=1e-3, intercept=False))
    assert "up to sign" in reconstruct(bare, 5).sentence()


def test_releases_with_noise_are_refused_and_say_where_to_go(rng):
    X, y = rng.uniform(-1, 1, (30, 2)), rng.integers(0, 2, 30)
    common = {"n_rados": 40, "bounds": [(-1, 1)] * 2, "classes": (0, 1)}
    for mechanism, match in (
        (rb.NoisyRados(noise_std=1.0), "linear"),
        (rb.NoisyExamples(noise_std=1.0), "noisy examples"),
    ):
        release = flat.craft(X, y, seed=1, i_know=True, mechanism=mechanism, **common)
        with pytest.raises(rb.ArgumentError, match=match):
            reconstruct(release, 1, rows=30)
    release = flat.craft(X, y, mechanism=rb.Moments(epsilon=1.0), **common)
    with pytest.raises(rb.ArgumentError, match="'moments'"):
        reconstruct(release, 1, rows=30)


@pytest.mark.slow
def test_what_takes_too_long_is_said_at_once(rng):
    X, y = _table(rng, 400, 3)
    release = rb.craft(X, y, n_rados=500, seed=1)
    found = reconstruct(release, 1, seconds=0.05)
    assert found.status == "unknown" and found.n_found == 0 and found.to_dict()["rank"] is None
    assert "allow more seconds" in found.sentence() and found.why == "time"
    assert exact_reconstruction._elimination_seconds(2064, 2000, 30) < 60  # 2000 records fit into the default


def test_a_label_must_not_have_the_name_of_a_feature(rng):
    X, y = _table(rng, 10, 2)
    found = reconstruct(rb.craft(X, y, n_rados=30, seed=1), 1)
    assert found.to_table("readmitted").column_names == ["x0", "x1", "readmitted"]
    with pytest.raises(rb.ArgumentError, match="'x1'"):
        found.to_table("x1")


def test_names_of_a_feature_do_not_collide_with_ours(rng):
    names = ["(row)", "label", "(row)_"]
    for seed in range(60):
        table = pa.table({**{name: rng.integers(0, 90, 8) * 1.0 for name in names}, "c": rng.permutation(8) % 2})
        release = rb.craft(table, label="c", n_rados=6, seed=seed, mechanism=rb.Plain(scale=None))
        found = reconstruct(release, seed)
        if found.status == "some":
            break
    back = found.to_table()
    assert back.column_names == ["(row)__", *names, "label_"]
    rows = np.flatnonzero(found.found)
    assert back.column("(row)__").to_pylist() == rows.tolist()
    assert back.column("(row)").to_pylist() == table.column("(row)").take(rows).to_pylist()
    assert back.column("label_").to_pylist() == table.column("c").take(rows).to_pylist()
    assert found.to_table("(row)__").column_names[0] == "(row)___"


@pytest.mark.slow
def test_a_seed_that_could_not_be_checked_is_said(rng):
    """Rados of one size have sums of one parity under every seed, and too few of them do not contradict each other."""
    X, y = rng.normal(size=(12, 2)), rng.integers(0, 2, 12)
    accepted = 0
    for support in (1, 6):
        release = rb.craft(X, y, n_rados=8, seed=7, signatures=rb.FixedSupport(support))
        for seed in range(60):
            try:
                found = reconstruct(release, seed)
            except rb.TableError:
                continue
            assert not found.seed_checked and "if the seed is right, which could not be checked" in found.sentence()
            accepted += seed != 7
    assert accepted > 5
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    half = rb.FixedSupport(30)
    for n, options, checked in (
        (40, {}, True),  # by parity
        (10, {}, False),
        (40, {"intercept": False}, False),
        (62, {"intercept": False}, True),
        (40, {"signatures": half}, False),
        (60, {"signatures": half}, False),
        (62, {"signatures": half}, True),
    ):
        found = reconstruct(flat.craft(X, y, n_rados=n, seed=1, **options), 1)
        assert (found.seed_checked, found.to_dict()["seed_checked"]) == (checked, checked), (n, options)
        assert ("if the seed is right" in found.sentence()) != checked


def test_parity_counts_its_checks():
    same, other = np.array([[1, 1, 0], [0, 1, 1]], bool), np.array([[1, 1, 0], [0, 1, 0]], bool)
    assert exact_reconstruction.check_seed_by_parity(same, np.array([0, 2])) == 0
    assert exact_reconstruction.check_seed_by_parity(other, np.array([0, 1])) == 2
    assert exact_reconstruction.check_seed_by_parity(other, np.array([1, 2]), banded=True) == 1
    for bits, counts, banded in ((same, [1, 1], False), (other, [0, 2], False), (other, [0, 2], True)):
        with pytest.raises(rb.TableError, match="constant column"):
            exact_reconstruction.check_seed_by_parity(bits, np.array(counts), banded)


def test_what_is_too_large_says_so_before_it_takes_memory(rng, monkeypatch):
    X, y = _table(rng, 60, 3)
    release = rb.craft(X, y, n_rados=90, seed=1)
    monkeypatch.setattr(exact_reconstruction, "_MOST_ENTRIES", 90 * 64)
    assert reconstruct(release, 1).status == "all"
    monkeypatch.setattr(exact_reconstruction, "_MOST_ENTRIES", 90 * 64 - 1)
    solution = solve_integers(seed_inclusion_bits(release, 1, 60), rado_integers(release))
    assert solution.rank is None and solution.too_large
    monkeypatch.setattr(exact_reconstruction, "seed_inclusion_bits", None)
    hidden = replace(release, n_examples=None)
    for rows in (60, 10**12):
        found = reconstruct(hidden, 1, rows)
        assert (found.status, found.why, found.n_found, found.to_table().num_rows) == ("unknown", "size", 0, 0)
        assert "seconds" not in found.sentence() and "least-squares" in found.sentence()
        assert found.to_dict()["rows"] == rows
    assert "how many records" in " ".join(exact_reconstruction.ASSUMES.split())
