"""Subsets of prescribed sizes: what the text says, exact in size, uniform, and the same however they are computed."""

import dataclasses
import itertools
import math
import pickle
import threading
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import flat
import oracles
import radoboost as rb
from radoboost.holder import keystream
from radoboost.holder import subset_sampling as switching
from radoboost.holder.engines import ENGINES
from radoboost.holder.keystream import MAX_RADOS, SLAB_TILES, TILE_ROWS, make_key
from radoboost.holder.signatures import (
    MAX_SIZE,
    SIGNATURE_SETS,
    AllSignatures,
    FeatureInterval,
    FixedSupport,
    check_n_signatures,
    signature_size_law_error,
    signature_size_weights,
)
from radoboost.tables import Table

FALSE_ALARM = 1e-6
SETS = [AllSignatures(), FixedSupport(0.5), FixedSupport(30), FixedSupport(0.7), FeatureInterval(85, 110)]


def all_words(prepared, m, n):
    tiles = -(-m // TILE_ROWS)
    return prepared.words(0, tiles, np.empty((tiles, n), np.uint64))


def members(prepared, m, n):
    """Bits of shape (m, n)."""
    words = all_words(prepared, m, n)
    bits = words[:, None, :] >> np.arange(TILE_ROWS, dtype=np.uint64)[None, :, None] & np.uint64(1)
    return bits.reshape(-1, n)[:m].astype(np.int64)


def check_sizes(prepared, m, n, sizes):
    assert members(prepared, m, n).sum(axis=0).tolist() == np.broadcast_to(sizes, n).tolist()


# ---- the contract of a set


@pytest.mark.parametrize("chosen", SETS, ids=repr)
def test_every_set_keeps_its_contract(chosen):
    """Frozen data whose name leads back; any block of tiles on its own; another key, other subsets."""
    m, n = 200, 9
    assert SIGNATURE_SETS[chosen.name] is type(chosen)
    assert dataclasses.is_dataclass(chosen) and type(chosen).__dataclass_params__.frozen
    assert chosen.size(m) >= 1
    assert all(isinstance(value, int) for value in chosen.parameters(m).values())
    prepared = chosen.prepare(make_key(1), n, m)
    assert chosen.by_coins == isinstance(chosen, AllSignatures)
    assert (all_words(pickle.loads(pickle.dumps(prepared)), m, n) == all_words(prepared, m, n)).all()
    whole = all_words(prepared, m, n)
    for first, last in itertools.combinations(range(5), 2):
        out = np.full((last - first, n), 7, np.uint64)
        assert prepared.words(first, last - first, out) is out
        assert (out == whole[first:last]).all()
    assert (all_words(chosen.prepare(make_key(2), n, m), m, n) != whole).any()


def test_the_contract_covers_every_set():
    assert {chosen.name for chosen in SETS} == set(SIGNATURE_SETS)


def test_all_signatures_are_the_keystream():
    words = all_words(AllSignatures().prepare(make_key(3), 7, 300, 2), 300, 7)
    assert (words == keystream.keystream_words(make_key(3), 7, 0, 5)).all()


# ---- what the text says

SIZES = [(1, 3), (2, 5), (64, 4), (65, 4), (200, 11)]


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_fixed_support_is_what_the_text_says(m, n):
    key = oracles.key_from_seed(m)
    supports = {1, 2, m // 8, m // 4, 3 * m // 8, m // 2, (m + 1) // 2, 5 * m // 8, 3 * m // 4, m - 1, m}
    for support in sorted(s for s in supports if 1 <= s <= m):
        found = members(FixedSupport(support).prepare(key, n, m), m, n)
        quarters = oracles.nearest_quarters(support, m)
        for j in range(n):
            assert found[:, j].tolist() == oracles.subset_of_size(key, m, n, j, support, quarters), (support, j)


@given(m=st.integers(1, 150), part=st.floats(0, 1), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_any_support_is_what_the_text_says(m, part, n, seed):
    key, support = oracles.key_from_seed(seed), max(1, math.floor(part * m))
    found = members(FixedSupport(support).prepare(key, n, m), m, n)
    quarters = oracles.nearest_quarters(support, m)
    for j in range(n):
        assert found[:, j].tolist() == oracles.subset_of_size(key, m, n, j, support, quarters)


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_feature_intervals_are_what_the_text_says(m, n):
    key = oracles.key_from_seed(m + 1)
    bands = {(0, m), (m // 2, m // 2), (0, m // 3), (2 * m // 3, m), (2 * m // 5, 3 * m // 5), (m, m), (0, 0)}
    for low, high in sorted(bands):
        prepared = FeatureInterval(low, high).prepare(key, n, m)
        found = members(prepared, m, n)
        for j in range(n):
            size = oracles.size_of_interval(key, m, n, j, low, high)
            assert prepared.sizes[j] == size
            assert found[:, j].tolist() == oracles.subset_of_size(key, m, n, j, size, 2), (low, high, j)


def test_rows_beyond_a_slab_use_the_next_nonce():
    """Sizes are exact over more than 4,194,304 rows, and the words there are the next slab's but for the switches."""
    m, n = SLAB_TILES * TILE_ROWS + 1000, 3
    prepared = FixedSupport(0.5).prepare(make_key(2), n, m, 2)
    words = all_words(prepared, m, n)
    words[-1] &= np.uint64((1 << m % TILE_ROWS) - 1)
    assert np.bitwise_count(words).sum(axis=0, dtype=int).tolist() == [m // 2] * n
    start = keystream.keystream_words(make_key(2), n, SLAB_TILES, 15)
    assert np.bitwise_count(words[SLAB_TILES:-1] ^ start).sum() < 0.05 * start.size * 64


# ---- sizes, and how the work is cut


@given(m=st.integers(1, 700), part=st.floats(0, 1), n=st.integers(1, 40), seed=st.integers(0, 2**32))
@example(m=1, part=1.0, n=1, seed=0)
def test_every_support_is_exact(m, part, n, seed):
    support = max(1, math.floor(part * m))
    check_sizes(FixedSupport(support).prepare(make_key(seed), n, m), m, n, support)


def test_the_check_of_sizes_sees_a_planted_fault():
    """A correction that is off by one row, in one rado."""
    prepared = FixedSupport(50).prepare(make_key(0), 20, 200)
    check_sizes(prepared, 200, 20, 50)
    starts, entries = prepared._switches
    prepared._switches = np.minimum(starts, len(entries) - 1), entries[:-1]
    with pytest.raises(AssertionError):
        check_sizes(prepared, 200, 20, 50)


@pytest.mark.parametrize("chosen", SETS, ids=repr)
@pytest.mark.parametrize(
    ("threads", "cut"),
    [
        (2, {"_LEAST_BUDGET": 1}),  # 16 candidates a round: many rounds, as where the first one did not do
        (1, {"_BLOCK_BYTES": 8}),  # a tile at a time
        (5, {"_BLOCK_BYTES": 3000, "_DRAWN_WORDS": 10}),
    ],
)
def test_how_the_work_is_cut_changes_nothing(chosen, threads, cut):
    m, n = 1000, 33
    expected = all_words(chosen.prepare(make_key(6), n, m), m, n)
    with mock.patch.multiple(switching, **cut):
        assert (all_words(chosen.prepare(make_key(6), n, m, threads), m, n) == expected).all()


def test_threads_may_share_a_prepared_set():
    m, n = 40_000, 50
    prepared = FixedSupport(0.3).prepare(make_key(8), n, m)
    expected, found = all_words(prepared, m, n), np.zeros((625, n), np.uint64)
    workers = [
        threading.Thread(target=lambda first=first: prepared.words(first, 25, found[first : first + 25]))
        for first in range(0, 625, 25)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (found == expected).all()


def test_a_failure_in_a_thread_is_told():
    with (
        mock.patch.object(keystream, "keystream_parts", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        FixedSupport(0.5).prepare(make_key(0), 10, 1000, 2)


def test_words_that_would_favour_the_first_rows_are_skipped():
    """Of 2**64 words, 2**64 % m are skipped: for m = 10 those from 2**64 - 6 on, for a power of two none."""
    raw = np.array([0, 13, 2**64 - 7, 2**64 - 6, 2**64 - 1], dtype=np.uint64)
    for m, expected in ((10, [0, 3, 9, None, None]), (16, [0, 13, 9, 10, 15])):
        rows = np.empty(5, np.uint32)
        switching._subset_kernel(switching._words_to_candidate_rows)(raw, m, rows)
        assert rows.tolist() == [2**32 - 1 if row is None else row for row in expected]


def test_subsets_that_do_not_fit_into_memory_are_refused():
    free = mock.Mock(available=1000)
    with (
        mock.patch("psutil.virtual_memory", return_value=free),
        pytest.raises(rb.TooLargeError, match="nearer to 1/4, 1/2 or 3/4"),
    ):
        FixedSupport(0.05).prepare(make_key(0), 50, 1000)


# ---- their laws


def counts_of_subsets(prepared, m, n):
    codes = (1 << np.arange(m)) @ members(prepared, m, n)
    return np.bincount(codes, minlength=2**m)


@pytest.mark.parametrize(("m", "support"), [(1, 1), (5, 2), (7, 6), (10, 5)])
def test_fixed_support_is_uniform_on_its_set(m, support):
    """All subsets of that size, and no others: a chi-square test with a false alarm of 1e-6."""
    n = 200_000
    counts = counts_of_subsets(FixedSupport(support).prepare(make_key(100 + m), n, m, 2), m, n)
    size = np.bitwise_count(np.arange(2**m))
    assert counts[size != support].sum() == 0
    inside = counts[size == support]
    assert len(inside) == math.comb(m, support)
    assert len(inside) == 1 or stats.chisquare(inside).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("m", "low", "high"), [(3, 0, 3), (9, 0, 2), (11, 5, 6)])
def test_feature_intervals_have_the_law_of_rejection(m, low, high):
    """Fair coins, drawn anew until their sum is in the interval, are uniform on all its subsets; false alarm 1e-6."""
    n = 200_000
    counts = counts_of_subsets(FeatureInterval(low, high).prepare(make_key(200 + m), n, m, 2), m, n)
    size = np.bitwise_count(np.arange(2**m))
    inside = (low <= size) & (size <= high)
    assert counts[~inside].sum() == 0
    assert stats.chisquare(counts[inside]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("support", [3, 60, 100, 190])
def test_two_hundred_rows(support):
    """Rows, pairs of rows and overlaps of rados, against exact laws; 1e-6 over all together."""
    m, n = 200, 20_000
    bits = members(FixedSupport(support).prepare(make_key(support), n, m, 2), m, n)
    level = FALSE_ALARM / 3
    # The counts of rows have a fixed sum, and covariance n rate (1 - rate) m / (m - 1) (identity - 1 / m).
    rate = support / m
    deviations = bits.sum(axis=1) - n * rate
    statistic = (deviations**2).sum() / (n * rate * (1 - rate)) * (m - 1) / m
    low, high = stats.chi2.ppf([level / 2, 1 - level / 2], m - 1)
    assert low < statistic < high
    # Two rows hold 0, 1 or 2 members by the hypergeometric law.
    for pairs in (bits[0] + bits[1], bits[63] + bits[64], bits[7] + bits[199]):
        chi_square(pairs, stats.hypergeom(m, support, 2), level / 3)
    # Two rados, neighbours in the stream, overlap by that law too.
    overlaps = (bits[:, 0::2] * bits[:, 1::2]).sum(axis=0)
    chi_square(overlaps, stats.hypergeom(m, support, support), level)


def chi_square(values, law, level):
    """Classes of at least 5 expected values each; the tails are joined to the last that are."""
    support = np.arange(0, 201)
    expected = len(values) * law.pmf(support)
    counts = np.bincount(values, minlength=201)
    assert counts[expected == 0].sum() == 0
    kept = np.flatnonzero(expected >= 5)
    if not len(kept):
        return
    first, last = kept[0], kept[-1] + 1
    groups = [slice(0, first + 1), *(slice(k, k + 1) for k in range(first + 1, last - 1)), slice(last - 1, 201)]
    if last - first < 2:
        return
    observed = np.array([counts[g].sum() for g in groups])
    wanted = np.array([expected[g].sum() for g in groups])
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > level


@pytest.mark.parametrize(("m", "low", "high"), [(200, 90, 110), (1001, 520, 700)])
def test_sizes_have_the_truncated_binomial_law(m, low, high):
    """Against exact binomial probabilities, with a false alarm of 1e-6."""
    n = 50_000
    sizes = FeatureInterval(low, high).prepare(make_key(m + low), n, m, 2).sizes
    assert sizes.min() >= low and sizes.max() <= high
    weights = [math.comb(m, k) if low <= k <= high else 0 for k in range(m + 1)]
    total = sum(weights)
    expected = np.array([float(Fraction(n * w, total)) for w in weights])
    counts = np.bincount(sizes, minlength=m + 1)
    kept = expected >= 5
    observed, wanted = np.append(counts[kept], counts[~kept].sum()), np.append(expected[kept], expected[~kept].sum())
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1] * observed[:-1].sum() / wanted[:-1].sum()
    assert stats.chisquare(observed, wanted).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("m", "low", "high"),
    [(1, 0, 1), (2, 1, 1), (64, 20, 50), (1000, 0, 1000), (999, 0, 20)],
)
def test_the_law_of_a_size_is_as_near_as_stated(m, low, high):
    """Total variation in fractions: of the weights, and of the 384 bits that choose among them."""
    first, sums = signature_size_weights(m, low, high)
    # How many of the 2**384 integers u have u * total >> 384 below s.
    below = [-(-(s << 384) // sums[-1]) for s in sums]
    assert below[-1] == 2**384
    law = {first + k: Fraction(b - a, 2**384) for k, (a, b) in enumerate(itertools.pairwise([0, *below]))}
    assert all(low <= k <= high for k in law)
    exact = [math.comb(m, k) for k in range(low, high + 1)]
    variation = sum(
        abs(law.get(k, Fraction(0)) - Fraction(weight, sum(exact))) for k, weight in enumerate(exact, start=low)
    )
    assert (
        variation / 2 <= Fraction((m + 1) ** 2, 2**257) <= Fraction(signature_size_law_error(m)) < Fraction(1, 2**195)
    )


def test_the_error_at_the_largest_table():
    assert signature_size_law_error(2**31 - 1) == 2.0**-195


# ---- through craft


@pytest.mark.parametrize("support", [0.5, 0.2, 70])
def test_fixed_support_gives_the_same_bits_however_it_is_crafted(support, rng):
    x, y = rng.standard_normal((777, 5)), rng.choice([0, 1], 777)
    options = {"n_rados": 300, "signatures": rb.FixedSupport(support), "seed": 12}
    expected = flat.craft(x, y, engine="reference", threads=1, **options)
    count = support if isinstance(support, int) else math.floor(Fraction(support) * 777)
    assert expected.signatures == {"name": "fixed-support", "support": count}
    for engine, threads, batch_rows in itertools.product(ENGINES, (1, 3), (50, 64)):
        with mock.patch.object(Table, "batch_rows", batch_rows):
            release = flat.craft(x, y, engine=engine, threads=threads, **options)
        assert release.rados.tobytes() == expected.rados.tobytes(), (engine, threads, batch_rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_rado_sums_that_many_examples(engine, rng):
    """With all labels but one positive, and the constant feature, a rado's last value counts its examples."""
    x, y = rng.standard_normal((500, 2)), np.ones(500, int)
    y[3] = 0
    release = rb.craft(x, y, signatures=rb.FixedSupport(0.25), n_rados=80, seed=1, compute=rb.Compute(engine=engine))
    bits = members(FixedSupport(125).prepare(make_key(1), 80, 500), 500, 80)
    assert release.rados[:, -1].tolist() == (125 - 2 * bits[3]).tolist()


@given(m=st.integers(2, 90), d=st.integers(1, 4), seed=st.integers(0, 1000), engine=st.sampled_from(ENGINES))
def test_the_rado_of_all_rows_is_the_sum(m, d, seed, engine):
    values = np.random.default_rng(seed).integers(-50, 51, (m, d)).astype(float)
    y = np.arange(m) % 2
    release = rb.craft(
        values,
        y,
        n_rados=1,
        signatures=rb.FixedSupport(m),
        seed=seed,
        mechanism=rb.Plain(scale=None, intercept=False),
        compute=rb.Compute(engine=engine),
    )
    assert release.rados[0].tolist() == ((2 * y - 1) @ values).tolist()


def test_a_release_with_fixed_support_can_be_saved(tmp_path, rng):
    release = rb.craft(rng.standard_normal((60, 2)), np.arange(60) % 2, n_rados=20, signatures=rb.FixedSupport(0.5))
    release.save(tmp_path / "a.rado.parquet")
    assert rb.load(tmp_path / "a.rado.parquet").signatures == {"name": "fixed-support", "support": 30}


# ---- numbers of signatures, and what is refused


def test_sizes_of_sets():
    for m in range(0, 30):
        assert AllSignatures().size(m) == 2**m
        for k in range(1, m + 1):
            assert FixedSupport(k).size(m) == math.comb(m, k)
        assert FeatureInterval(0, m).size(m) == 2**m
        assert FeatureInterval(m // 2, m).size(m) == sum(math.comb(m, k) for k in range(m // 2, m + 1))
    for chosen in (AllSignatures(), FixedSupport(0.5), FeatureInterval(400_000, 600_000), FeatureInterval(0, 10**6)):
        assert chosen.size(10**6) == MAX_SIZE
        check_n_signatures(MAX_RADOS, 10**6, chosen)
    assert FixedSupport(2).size(10**6) == math.comb(10**6, 2)


def test_more_rados_than_signatures_are_refused(rng):
    x, y = rng.standard_normal((100, 2)), np.arange(100) % 2
    with pytest.raises(rb.ArgumentError, match="only 100 signatures"):
        rb.craft(x, y, n_rados=101, signatures=rb.FixedSupport(99))
    assert rb.craft(x, y, n_rados=100, signatures=rb.FixedSupport(99)).n_rados == 100
    with pytest.raises(rb.ArgumentError, match="only 1 signatures"):
        check_n_signatures(2, 100, FeatureInterval(0, 0))


@pytest.mark.parametrize("bad", [0, 1.0, math.nan, True, "half"])
def test_supports_that_mean_nothing_are_refused(bad):
    with pytest.raises(rb.ArgumentError, match="support"):
        FixedSupport(bad)


def test_supports_that_do_not_fit_the_table_are_refused(rng):
    x, y = rng.standard_normal((10, 2)), np.arange(10) % 2
    for bad, shown in ((11, "11 of 10 rows"), (0.05, "0 of 10 rows")):
        with pytest.raises(rb.ArgumentError, match=shown):
            rb.craft(x, y, n_rados=3, signatures=rb.FixedSupport(bad))
    with pytest.raises(rb.ArgumentError, match="must be an object such as"):
        rb.craft(x, y, signatures=FixedSupport)


def test_a_fraction_is_taken_exactly():
    assert FixedSupport(np.float32(0.5)) == FixedSupport(0.5)
    assert FixedSupport(np.int64(3)) == FixedSupport(3)
    assert FixedSupport(0.1).support_size(10) == 1  # 0.1 is a little more than 1 / 10
    assert FixedSupport(0.3).support_size(10) == 2  # 0.3 is a little less than 3 / 10
    assert FixedSupport(np.nextafter(1, 0)).support_size(2**31 - 1) == 2**31 - 2


@pytest.mark.parametrize("bad", [(-1, 3), (4, 3), (1, "3")])
def test_intervals_that_mean_nothing_are_refused(bad):
    with pytest.raises(rb.ArgumentError, match=r"low|high"):
        FeatureInterval(*bad)


def test_an_interval_beyond_the_table_is_refused():
    with pytest.raises(rb.ArgumentError, match="high is 11, but there are 10 rows"):
        FeatureInterval(3, 11).prepare(make_key(0), 5, 10)
