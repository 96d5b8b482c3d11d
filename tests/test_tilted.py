"""Tilted rados: what the text says, bit by bit; their moments by enumeration; what is refused, and what is said."""

import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import radoboost as rb
from pickling import Pickling
from radoboost.errors import ArgumentError, ReleaseError, TableError
from radoboost.holder import tilted
from radoboost.holder.engines import ENGINES
from radoboost.holder.keystream import make_key
from radoboost.holder.subset_sampling import FairCoins
from radoboost.holder.tilted import PLANES, SupportMoments, Tilted, TiltedSignatures, TiltWeights, batch_key
from radoboost.lab.attacks.adversary_knowledge import inclusion_bits, rado_integers, table_edges
from radoboost.learner.tilted_newton import learn_tilted
from radoboost.release.tilted import batches_of

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 4)) * [1.0, 10.0, 0.1, 1.0]
Y = (X[:, 0] + RNG.normal(size=300) > 0).astype(int)


def mean_direction(release):
    """A learner that needs no other: theta is along the mean of all rados so far."""
    mean = np.vstack([batch.rados for batch in batches_of(release)]).mean(axis=0)
    return mean / max(np.abs(mean).max(), 1.0)


TWO, THREE = Tilted(2, mean_direction), Tilted(3, mean_direction)


def same(*releases):
    first, *others = releases
    for other in others:
        assert other.signatures == first.signatures
        assert {name: rows.tobytes() for name, rows in other.blocks.items()} == {
            name: rows.tobytes() for name, rows in first.blocks.items()
        }


# ---- what the text says, a bit at a time


def oracle_key(seed, place):
    import hashlib

    return hashlib.sha256(b"radoboost/tilted/" + str(place).encode() + b"/" + oracles.key_from_seed(seed)).digest()


def oracle_threshold(row, theta, steps):
    """By Python's integers, from a theta that is on its grid already."""
    score = sum(Fraction(theta[k]) * Fraction(steps[k]) * int(row[k]) for k in range(len(row)))
    power = oracles.exponential(float(max(min(score, 10**6), -(10**6))))
    return min(math.floor(1.0 / (1.0 + power) * 2.0**32), 2**32 - 1)


def oracle_number(key, n, row, rado):
    """The bits of planes 0, 1, ..., 31, the most significant first."""
    return sum(oracles.bit(key, n, row, rado, plane) << (31 - plane) for plane in range(32))


def oracle_batch(release, place, seed, edges):
    """The integers of a batch's rados, example by example."""
    n, theta = release.signatures["batches"][place], release.signatures["thetas"][place - 1]
    key, steps = oracle_key(seed, place), [column.step for column in release.columns]
    thresholds = [oracle_threshold(row, theta, steps) for row in edges.tolist()]
    return [
        sum(row for i, row in enumerate(edges) if oracle_number(key, n, i, j) < thresholds[i])
        + np.zeros(edges.shape[1])
        for j in range(n)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_batches_are_what_the_text_says(engine):
    x, y = X[:150], Y[:150]
    release = rb.craft(x, y, n_rados=56, seed=4, signatures=THREE, engine=engine)
    edges, steps = table_edges(release, x, y), np.array([column.step for column in release.columns])
    assert release.signatures["batches"] == [20, 18, 18] and len(release.signatures["thetas"]) == 2
    for place in (1, 2):
        expected = oracle_batch(release, place, 4, edges)
        assert (release.blocks[f"tilted:{place}"] == np.array(expected) * steps).all()


def test_the_first_batch_is_that_of_a_plain_release():
    plain = rb.craft(X, Y, n_rados=20, seed=9)
    assert (rb.craft(X, Y, n_rados=40, seed=9, signatures=TWO).rados == plain.rados).all()


@settings(max_examples=30)
@given(
    thresholds=st.lists(
        st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, 2**32 - 1])), min_size=1, max_size=150
    ),
    first_row=st.integers(0, 200),
    n=st.integers(1, 4),
    by_numba=st.booleans(),
)
def test_words_compare_numbers_with_thresholds(thresholds, first_row, n, by_numba):
    key = make_key(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tilted, "has_numba", lambda: by_numba)
        below = TiltedSignatures.over(FairCoins(key, n, 2), first_row, np.array(thresholds, np.uint64))
        n_tiles = -(-(first_row % 64 + len(thresholds)) // 64)
        words = below.words(first_row // 64, n_tiles, np.full((n_tiles, n), 7, np.uint64))
    for i, threshold in enumerate(thresholds):
        for j in range(n):
            row = first_row + i
            bit = int(words[row // 64 - first_row // 64, j]) >> (row % 64) & 1
            assert bit == (oracle_number(oracles.key_from_seed(3), n, row, j) < threshold)


def test_words_of_some_tiles_are_those_of_all(monkeypatch):
    monkeypatch.setattr(tilted, "_BLOCK_BYTES", 200)
    below = TiltedSignatures.over(FairCoins(make_key(0), 5, 2), 70, RNG.integers(0, 2**32, 500).astype(np.uint64))
    whole = below.words(1, 8, np.empty((8, 5), np.uint64))
    for first, last in itertools.combinations(range(1, 10), 2):
        assert (
            below.words(first, last - first, np.empty((last - first, 5), np.uint64)) == whole[first - 1 : last - 1]
        ).all()


@settings(max_examples=30)
@given(data=st.data(), d=st.integers(1, 40), m=st.integers(1, 20))
def test_scores_are_exact_in_any_order_and_of_entries(data, d, m):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    steps = 2.0 ** rng.integers(-30, 5, d)
    theta = rng.normal(size=d) * 10.0 ** rng.integers(-4, 4, d) / steps * 2.0**-22
    tilt = TiltWeights.of(theta, steps)
    rows = rng.integers(-(2**22), 2**22 + 1, (m, d)).astype(np.int32)
    exact = [sum(int(w) * int(e) for w, e in zip(tilt.weights, row, strict=True)) for row in rows]
    assert tilt.scores(rows).tolist() == exact and max(map(abs, exact)) < 2**62
    # The released theta is the one that scores are of, and is its own nearest.
    for score, row in zip(exact, rows.tolist(), strict=True):
        told = sum(
            Fraction(t) * Fraction(s) * e for t, s, e in zip(tilt.theta.tolist(), steps.tolist(), row, strict=True)
        )
        assert told == Fraction(score) * Fraction(2) ** tilt.exponent
    again = TiltWeights.of(tilt.theta, steps)
    assert (again.theta == tilt.theta).all()
    assert np.abs(theta - tilt.theta).max() <= 2.0**-28 * np.abs(theta * steps).max() / steps.min()
    zero = rng.integers(-(2**22), 2**22 + 1, d)
    there = rng.random((m, d)) < 0.4
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    places = np.nonzero(there)[1]
    dense = np.where(there, rows, zero)
    entries = tilt.entry_scores(zero, starts, places, (dense - zero)[there])
    assert entries.tolist() == tilt.scores(dense).tolist()


def test_scores_of_many_columns_are_exact(monkeypatch):
    monkeypatch.setattr(tilted, "_EXACT_COLUMNS", 7)
    tilt = TiltWeights.of(np.full(20, -1.0), [1.0] * 20)
    rows = np.full((3, 20), -(2**22), np.int32)
    assert tilt.scores(rows).tolist() == [20 * 2**22 * -int(tilt.weights[0])] * 3


def test_thresholds_are_probabilities_to_32_bits():
    tilt = TiltWeights.of([1.0], [2.0**-22])
    scores = np.array([0, 1, -1, 2**22, -(2**22), 60 * 2**22, -60 * 2**22]) << 8
    told = tilt.thresholds(scores) / 2.0**32
    exact = 1 / (1 + np.exp(scores.astype(float) * 2.0**tilt.exponent))
    assert (np.abs(told - exact) <= 2.0**-32 + 1e-15).all()
    assert (told <= exact + 1e-15).all()
    assert (tilt.thresholds(np.array([2**62, -(2**62)])) == [0, 2**32 - 1]).all()


# ---- the identity, by enumeration


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(2, 9), d=st.integers(1, 3), size=st.sampled_from([0.1, 1.0, 6.0]))
def test_the_mean_is_the_gradient_and_the_covariance_the_hessian(seed, m, d, size):
    """L1, L2 and L5 of docs/proofs/tilted.md: exactly for the thresholds, and so nearly for the logistic loss."""
    rng = np.random.default_rng(seed)
    steps = np.full(d, 2.0**-22)
    rows = rng.integers(-(2**22), 2**22 + 1, (m, d)).astype(np.int32)
    tilt = TiltWeights.of(size * rng.normal(size=d), steps)
    chances = [Fraction(int(t), 2**PLANES) for t in tilt.thresholds(tilt.scores(rows))]
    edges = [[Fraction(int(e)) * Fraction(2) ** -22 for e in row] for row in rows]
    mean = [Fraction(0)] * d
    second = [[Fraction(0)] * d for _ in range(d)]
    for subset in itertools.product((0, 1), repeat=m):
        weight = math.prod((p if b else 1 - p for p, b in zip(chances, subset, strict=True)), start=Fraction(1))
        rado = [sum((row[k] for row, b in zip(edges, subset, strict=True) if b), Fraction(0)) for k in range(d)]
        mean = [a + weight * b for a, b in zip(mean, rado, strict=True)]
        second = [[second[j][k] + weight * rado[j] * rado[k] for k in range(d)] for j in range(d)]
    assert mean == [sum((p * row[k] for p, row in zip(chances, edges, strict=True)), Fraction(0)) for k in range(d)]
    for j, k in itertools.product(range(d), repeat=2):
        told = sum((p * (1 - p) * row[j] * row[k] for p, row in zip(chances, edges, strict=True)), Fraction(0))
        assert second[j][k] - mean[j] * mean[k] == told
    # Against the logistic loss itself, whose gradient and Hessian are floats here.
    e = rows * steps
    q = 1 / (1 + np.exp(e @ tilt.theta))
    off = 2.0**-32 + 1e-14
    assert (np.abs(np.array(mean, float) - e.T @ q) <= off * np.abs(e).sum(axis=0) + 1e-15).all()
    covariance = np.array(second, float) - np.outer(np.array(mean, float), np.array(mean, float))
    assert (np.abs(covariance - (e.T * (q * (1 - q))) @ e) <= off * np.abs(e).T @ np.abs(e) + 1e-12).all()


# ---- the same bits everywhere


def test_any_engine_threads_batches_and_form_give_the_same_bits(monkeypatch, tmp_path):
    options = {"n_rados": 61, "seed": 2, "signatures": THREE}
    x = np.where(np.abs(X) < 0.3, 0.0, X)
    whole = rb.craft(x, Y, **options)
    crafted = [rb.craft(x, Y, **options, engine=engine, threads=t) for engine in ENGINES for t in (1, 2)]
    crafted += [rb.craft(form(x), Y, **options) for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix)]
    crafted += [rb.craft(scipy.sparse.csr_matrix(x), Y, **options, engine="reference")]
    crafted += [rb.craft(x, Y, **options, cluster=Pickling(seed=seed)) for seed in (0, 1)]
    same(whole, *crafted)
    twice = rb.craft(x, Y, **options, weights=np.full(300, 2))
    same(twice, rb.craft(np.repeat(x, 2, axis=0), np.repeat(Y, 2), **options))
    monkeypatch.setattr("radoboost.holder.rado_sums.rows_to_sum", lambda *_: 100)
    same(whole, rb.craft(x, Y, **options))


def test_no_two_batches_or_keys_have_the_same_coins():
    keys = {batch_key(make_key(seed), place).hex() for seed in (1, 2) for place in (1, 2, 3)} | {make_key(1).hex()}
    assert len(keys) == 7
    assert batch_key(make_key(None), 1).fresh and not batch_key(make_key(1), 1).fresh
    assert batch_key(make_key(None), 1).for_part() != batch_key(make_key(None), 1)


def test_quadratic_columns_are_tilted_too():
    release = rb.craft(X, Y, n_rados=40, seed=1, signatures=TWO, columns="degree-2")
    assert release.blocks["tilted:1"].shape == (20, len(release.columns)) and release.map is not None


# ---- the learner in between


def test_the_learner_sees_what_is_released_so_far_and_nothing_else():
    seen = []

    def learner(release):
        seen.append(release)
        return mean_direction(release)

    release = rb.craft(X, Y, n_rados=60, seed=3, signatures=Tilted(3, learner))
    assert [sorted(part.blocks) for part in seen] == [["rados"], ["rados", "tilted:1"]]
    assert (seen[1].blocks["tilted:1"] == release.blocks["tilted:1"]).all()
    assert seen[1].signatures["thetas"] == release.signatures["thetas"][:1]
    assert seen[0].statement.epsilon == math.inf and seen[0].n_examples == 300


@pytest.mark.parametrize(
    ("theta", "words"),
    [([1.0], "5 columns"), (np.zeros((5, 1)), "shape"), ([np.inf] + [0.0] * 4, "infinite"), ("theta", "array")],
)
def test_a_theta_that_cannot_be_used_is_refused(theta, words):
    with pytest.raises(ArgumentError, match=words) as refusal:
        rb.craft(X, Y, n_rados=40, signatures=Tilted(2, lambda release: theta))
    assert "\n" not in str(refusal.value)


def test_a_theta_of_zeros_is_a_fair_coin_and_a_huge_one_takes_the_wrong_side():
    still = rb.craft(X, Y, n_rados=2000, seed=1, signatures=Tilted(2, lambda release: np.zeros(5)))
    assert "about 150 in batch 2, of 300 examples" in " ".join(still.statement.not_protected)
    wild = rb.craft(X, Y, n_rados=40, seed=1, signatures=Tilted(2, lambda release: [0, 0, 0, 0, 1e90]))
    negative = (rb.craft(X, Y, n_rados=4, seed=1).rados, (Y == 0).sum())[1]
    assert (wild.blocks["tilted:1"][:, -1] == -negative).all()


def test_rows_that_change_between_batches_are_refused():
    x = X.copy()

    def learner(release):
        nonlocal asked
        asked += 1
        monkey.setattr("radoboost.tables.opening.ArrayPart.batches", shortened)
        return mean_direction(release)

    from radoboost.tables.opening import ArrayPart

    whole, asked = ArrayPart.batches, 0

    def shortened(self, *args, **options):
        batches = list(whole(self, *args, **options))
        return iter(batches[:-1])

    with pytest.MonkeyPatch.context() as monkey, pytest.raises(TableError, match="do not change it while it is read"):
        rb.craft(x, Y, n_rados=40, signatures=Tilted(2, learner))
    assert asked == 1


# ---- what is refused


OPENED = "the table was opened"


class Untouched:
    """A table that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(OPENED)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signatures": Tilted(2)}, "learner=radoboost.next_theta"),
        ({"n_rados": 38}, "ask for 40 rados or more"),
        ({"seed": 1, "first_row": 7}, "cannot be merged"),
        ({"share": ["x0"]}, "leave share"),
        ({"classes": ("a", "b", "c")}, "two classes"),
        ({"mechanism": rb.Moments(1.0), "bounds": [[0, 1]], "classes": (0, 1)}, "cannot be tilted"),
        ({"mechanism": rb.FeatureBand("x0", 1.0)}, "cannot be tilted"),
    ],
)
def test_what_cannot_be_tilted_is_refused_before_the_table_is_opened(options, words):
    with pytest.raises(ArgumentError, match=words) as refusal:
        rb.craft(Untouched(), np.array([0, 1]), **{"n_rados": 40, "signatures": TWO, **options})
    assert "\n" not in str(refusal.value)


def test_more_than_two_classes_in_the_table_are_refused():
    with pytest.raises(ArgumentError, match="for two classes, and there are 3"):
        rb.craft(X, np.arange(300) % 3, n_rados=40, signatures=TWO)


def test_other_ways_to_sum_refuse_tilted_rados():
    a, _ = rb.share(X, Y)
    with pytest.raises(ArgumentError, match="sums of shares cannot be tilted"):
        rb.craft_shares(a, key=rb.new_share_key(), n_rados=10, signatures=TWO)
    one, other = (rb.craft(X, Y, n_rados=40, signatures=TWO) for _ in range(2))
    with pytest.raises(ArgumentError, match=r"signatures 'tilted'.*leave --tilted out"):
        rb.merge([one, other])


@pytest.mark.parametrize("batches", [1, True, 2.0, 17])
def test_batches_are_a_whole_number(batches):
    with pytest.raises(ArgumentError, match="from 2 to 16"):
        Tilted(batches)


def test_the_learner_is_no_part_of_what_a_set_is():
    assert Tilted(2, mean_direction) == Tilted(2) and "mean_direction" not in repr(TWO)
    assert hash(TWO) == hash(Tilted(2))
    with pytest.raises(ArgumentError, match="must be a function"):
        Tilted(2, "next_theta")


# ---- the release


def test_the_file_keeps_batches_and_older_versions_refuse_it(tmp_path):
    release = rb.craft(X, Y, n_rados=41, seed=3, signatures=TWO)
    release.save(tmp_path / "a.parquet")
    loaded = rb.load(tmp_path / "a.parquet")
    same(release, loaded)
    assert loaded.n_rados == 21
    assert [len(batch.rados) for batch in batches_of(loaded)] == [21, 20]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {**s, "batches": [20, 20, 1]},
        lambda s: {**s, "thetas": [s["thetas"][0][:-1]]},
        lambda s: {**s, "thetas": [[*s["thetas"][0][:-1], math.nan]]},
        lambda s: {**s, "support": 10},
        lambda s: {**s, "thetas": [[1e200] * 5]},
        lambda s: {**s, "thetas": [[math.pi] * 5]},  # which is not on its grid
    ],
)
def test_batches_that_do_not_go_together_are_refused(change):
    release = rb.craft(X, Y, n_rados=40, signatures=TWO)
    with pytest.raises(ReleaseError, match=r"get (it|the release) again"):
        replace(release, signatures=change(dict(release.signatures)))


def test_files_that_cannot_be_are_refused(tmp_path):
    release = rb.craft(X, Y, n_rados=60, seed=1, signatures=THREE)
    first, s, rows = release.rados, release.signatures, release.blocks["tilted:1"]
    many = {"rados": first, **{f"tilted:{place}": rows for place in range(1, 17)}}
    noisy = {"name": "noisy-rados", "law": "noisy sums", "noise_std": 1.0}
    for change in (
        {"blocks": many, "signatures": {**s, "batches": [20] * 17, "thetas": s["thetas"][:1] * 16}},
        {"blocks": {**release.blocks, "tilted:2": rows[:1]}, "signatures": {**s, "batches": [20, 20, 1]}},
        {"blocks": {**release.blocks, "tilted:2": rows[:0]}, "signatures": {**s, "batches": [20, 20, 0]}},
        {"mechanism": noisy},
        {"classes": (0, 1, 2)},
        {"n_examples": 1},
        {"n_examples": None},
    ):
        with pytest.raises(ReleaseError, match="tilted rados are not those that it describes"):
            replace(release, **change)
    plain = rb.craft(X, Y, n_rados=20, seed=1)
    for lie, words in (
        (replace(release, statement=plain.statement), "does not say what such rados tell"),
        (replace(plain, signatures={"name": "tilted", "batches": [20], "thetas": []}), "not those that it describes"),
    ):
        lie.save(tmp_path / "lie.parquet")
        with pytest.raises(ReleaseError, match=words):
            rb.load(tmp_path / "lie.parquet")


def test_the_statement_says_what_tilting_tells():
    release = rb.craft(X, Y, n_rados=40, signatures=TWO)
    text = " ".join(release.statement.not_protected)
    assert "Easy examples drop out of later batches" in text and "of 300 examples" in text
    assert "Which theta each later batch was drawn at is in the release" in text
    assert not release.statement.promises and release.statement.epsilon == math.inf
    assert "Easy examples" not in " ".join(rb.craft(X, Y, n_rados=20).statement.not_protected)


def test_attacks_with_the_seed_are_on_the_first_batch():
    release = rb.craft(X, Y, n_rados=40, seed=6, signatures=TWO)
    edges = table_edges(release, X, Y)
    assert (inclusion_bits(release, 6, 300) @ edges == rado_integers(release)).all()


# ---- rows that are handed out


@settings(max_examples=30)
@given(st.lists(st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, 2**32 - 1])), max_size=40))
def test_how_many_examples_a_rado_sums_is_what_the_text_says(thresholds):
    chances = [Fraction(t, 2**32) for t in thresholds]
    empty = math.prod((1 - p for p in chances), start=Fraction(1))
    alone = sum((empty / (1 - p) * p for p in chances), Fraction(0))
    joining = SupportMoments.of(np.array(thresholds, np.uint64))
    assert joining.mean == float(sum(chances))
    assert joining.empty == pytest.approx(float(empty), rel=1e-9)
    assert joining.alone == pytest.approx(float(alone), rel=1e-8, abs=1e-8 * float(empty))
    parts = [SupportMoments.of(np.array(thresholds[k::3], np.uint64)) for k in range(3)]
    assert parts[2] + parts[0] + parts[1] == joining


def test_small_chances_of_many_rows_add_up():
    joining = SupportMoments.of(np.full(10**6, 4295, np.uint64))  # a millionth each
    assert joining.empty == pytest.approx(math.exp(-1), rel=1e-4)
    assert joining.alone == pytest.approx(math.exp(-1), rel=1e-4)


def separable(rng):
    x = rng.normal(size=(200, 5))
    scores = x.sum(axis=1)
    return x + 1.5 * np.sign(scores)[:, None], (scores > 0).astype(int)


def test_batches_that_hand_out_rows_are_refused_or_said():
    x, y = separable(np.random.default_rng(0))
    options = {"n_rados": 1000, "seed": 1, "signatures": Tilted(4, rb.next_theta)}
    with pytest.raises(ArgumentError, match=r"one person's row and label.*ask for \d batches.*i_know") as refusal:
        rb.craft(x, y, **options)
    assert "\n" not in str(refusal.value)
    release = rb.craft(x, y, **options, i_know=True)
    edges, steps = table_edges(release, x, y), np.array([column.step for column in release.columns])
    rows = {row.tobytes() for row in edges.astype(np.int64)}
    later = [np.rint(release.blocks[f"tilted:{place}"] / steps).astype(np.int64) for place in (1, 2, 3)]
    alone = sum(rado.tobytes() in rows for batch in later for rado in batch)
    empty = sum(not rado.any() for batch in later for rado in batch)
    text = " ".join(release.statement.not_protected)
    told = [
        float(number.replace(",", "")) for number in re.findall(r"about ([\d,.]+) (?:are expected|to be empty)", text)
    ]
    # Counts of independent rados: 5 deviations of a Poisson count, beyond which lies less than 1e-6.
    assert abs(alone - told[0]) < 5 * math.sqrt(told[0]) + 1 and abs(empty - told[1]) < 5 * math.sqrt(told[1]) + 1
    assert told[0] > 10 and "Easy people are among them too, and rados that occur twice show which" in text
    assert "The holder was told how few examples" in text


def test_the_statement_gives_the_size_of_every_batch():
    learner = Tilted(3, lambda release: mean_direction(release) / len(release.blocks))
    release = rb.craft(X, Y, n_rados=60, seed=1, signatures=learner)
    edges, text = table_edges(release, X, Y), " ".join(release.statement.not_protected)
    steps = [column.step for column in release.columns]
    sizes = [
        sum(oracle_threshold(row, theta, steps) for row in edges.tolist()) / 2**32
        for theta in release.signatures["thetas"]
    ]
    assert f"a rado sums about {sizes[0]:,.0f} in batch 2 and about {sizes[1]:,.0f} in batch 3, of 300" in text
    assert round(sizes[0]) != round(sizes[1]) and "fewer than 0.001 are expected to be one person" in text
    assert "The holder was told" not in text


# ---- learning


@pytest.fixture(scope="module")
def curved():
    """A table whose logistic classifier is not least squares: margins of very different sizes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 6)) * np.exp(0.5 * rng.normal(size=(4000, 1)))
    y = (rng.random(4000) < 1 / (1 + np.exp(-x @ [2.0, -1.0, 1.0, 0.0, 0.0, 0.5] - 0.5))).astype(int)
    return x[:3000], y[:3000], x[3000:], y[3000:]


def loss(clf, x, y):
    return np.logaddexp(0, -clf.decision_function(x) * (2 * y - 1)).mean()


def test_a_tilted_release_is_nearer_to_logistic_regression(curved):
    """Of six seeds: with the same number of rados, the mean log-loss on new rows falls, and is near the best."""
    from sklearn.linear_model import LogisticRegression

    x, y, new, answers = curved
    best = LogisticRegression(C=1.0, max_iter=1000).fit((x - x.mean(0)) / x.std(0), y)
    least = np.logaddexp(0, -best.decision_function((new - x.mean(0)) / x.std(0)) * (2 * answers - 1)).mean()
    losses = np.array(
        [
            [
                loss(rb.MomentsClassifier(n_rados=300, signatures=chosen, random_state=seed).fit(x, y), new, answers)
                for chosen in (None, Tilted(2))
            ]
            for seed in range(6)
        ]
    )
    plain, two = losses.mean(axis=0)
    assert two < plain and two - least < 0.8 * (plain - least)


def test_what_a_tilted_model_says(curved):
    x, y, new, answers = curved
    clf = rb.MomentsClassifier(n_rados=301, signatures=Tilted(2), random_state=0).fit(x, y)
    told = clf.model_.learner
    assert told["batches"] == [151, 150] and told["n_rados"] == 301 and told["name"] == "moments"
    assert clf.model_.release["signatures"] == {"name": "tilted", "batches": [151, 150]}
    assert clf.model_.release["n_rados"] == 301
    assert len(clf.standard_errors_) == 7 and (clf.standard_errors_ > 0).all()
    assert abs(clf.expected_error_ - np.mean(clf.predict(new) != answers)) < 0.06
    again = rb.MomentsClassifier().fit_rados(clf.release_)
    assert (again.model_.theta == clf.model_.theta).all()


def test_boosting_learns_from_the_first_batch_and_says_so():
    release = rb.craft(X, Y, n_rados=40, seed=1, signatures=TWO)
    clf = rb.RadoBoostClassifier().fit_rados(release)
    assert clf.model_.learner["batches"] == "the first of 2"
    plain = rb.RadoBoostClassifier().fit_rados(rb.craft(X, Y, n_rados=20, seed=1))
    assert (clf.model_.theta == plain.model_.theta).all()


@pytest.mark.filterwarnings("ignore::radoboost.OutlierWarning")
@pytest.mark.parametrize("case", ["outlier", "constant", "twins", "wide", "few", "apart"])
def test_awkward_tables_give_finite_classifiers(case):
    rng = np.random.default_rng(2)
    x, n = rng.normal(size=(120, 3)), 60
    y = (x[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)
    if case == "outlier":
        x[5, 1] = 1e12
    elif case == "constant":
        x[:, 2] = 7.0
    elif case == "twins":
        x[:, 2] = x[:, 1]
    elif case == "wide":
        x = np.hstack([x, rng.normal(size=(120, 100))])
    elif case == "few":
        x, y, n = x[:6], np.array([0, 1, 0, 1, 0, 1]), 40
    elif case == "apart":
        x[:, 0] += 10 * (2 * y - 1)
    for columns in ("linear", "degree-2") if case != "wide" else ("linear",):
        for batches in (2, 3) if case != "few" else (2,):
            tilted_by = Tilted(batches, rb.next_theta)
            release = rb.craft(x, y, n_rados=n, columns=columns, signatures=tilted_by, seed=0, i_know=True)
            clf = rb.MomentsClassifier().fit_rados(release)
            assert np.isfinite(clf.model_.theta).all() and np.isfinite(clf.standard_errors_).all()
            assert np.isfinite(clf.predict_proba(x)).all()
            assert clf.score(x, y) >= (0.9 if case == "apart" else 0.5)


def test_the_command_makes_and_shows_them(tmp_path, monkeypatch):
    import pandas as pd
    from typer.testing import CliRunner

    from radoboost.cli import app

    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=list("abcd")).assign(y=Y).to_csv("t.csv", index=False)
    runner = CliRunner()
    made = runner.invoke(app, ["craft", "t.csv", "--label", "y", "-n", "40", "--seed", "3", "--tilted", "2"])
    assert made.exit_code == 0, made.output
    shown = runner.invoke(app, ["show", "t.rado.parquet"])
    assert "40 rados of 5 features" in shown.output and "tilted, batches 20 + 20" in shown.output
    assert "Easy examples drop out" in " ".join(shown.output.split())
    learned = runner.invoke(app, ["learn", "t.rado.parquet", "-o", "m.json"])
    assert learned.exit_code == 0, learned.output
    assert "tilted, batches 20 + 20" in runner.invoke(app, ["show", "m.json"]).output
    attacked = runner.invoke(app, ["attack", "reconstruct", "t.rado.parquet", "--seed", "3"])
    assert "first 20 rados" in " ".join(attacked.output.split())
    assert "found:   Of the first batch, 20 of 40 rados: " in attacked.stdout
    boosted = runner.invoke(app, ["learn", "t.rado.parquet", "-o", "b.json", "--learner", "boost"])
    words = " ".join(boosted.stdout.split())
    assert "from the first 20 of 40 rados, of 300 examples; the others are tilted" in words
    assert "used_features" not in words and "the first of 2" not in words
    separate = pd.DataFrame({"a": np.linspace(-1, 1, 60), "y": np.arange(60) // 30})
    separate.to_csv("s.csv", index=False)
    command = ["craft", "s.csv", "--label", "y", "-n", "60", "--tilted", "2"]
    stopped = runner.invoke(app, command)
    assert stopped.exit_code == 1 and "or say i_know (--i-know)" in " ".join(str(stopped.output).split())
    assert not (tmp_path / "s.rado.parquet").exists()
    assert runner.invoke(app, [*command, "--i-know"]).exit_code == 0
    refused = runner.invoke(
        app, ["craft", "t.csv", "--label", "y", "--tilted", "2", "--support", "0.5", "-o", "u.parquet"]
    )
    assert refused.exit_code == 1 and "leave --support or --tilted out" in " ".join(str(refused.output).split())


def test_what_no_schema_would_help_is_refused_before_a_schema_is_asked_for(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from radoboost.cli import app

    monkeypatch.chdir(tmp_path)
    asked = ["craft", "t.csv", "--label", "y", "--epsilon", "1", "--tilted", "2"]
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code == 1 and "schema" not in refused.output and "--tilted" in refused.output


def test_what_attacks_found_says_of_which_batch():
    from radoboost.lab.attacks.attack_suite import TRIED, AttackInputs, _attempt, _module
    from radoboost.progress import silent

    release = rb.craft(X, Y, n_rados=40, seed=6, signatures=TWO)
    tried = _attempt(_module("reconstruct"), AttackInputs(release, "t.rado.parquet", seed=6), 5.0, silent)
    assert tried.group == TRIED and tried.sentence.startswith("Of the first batch, 20 of 40 rados: ")


def test_the_error_of_tilted_rados_is_not_0(rng):
    """Of classes that lie far apart an error is expected that is small."""
    x = rng.standard_normal((600, 3))
    y = x[:, 0] > 0
    x[:, 0] += np.where(y, 2.0, -2.0)
    clear = learn_tilted(rb.craft(x, y, n_rados=400, seed=1, signatures=rb.Tilted(2, rb.next_theta)))
    assert 0.001 < clear.expected_error < 0.05
