"""The keyed stream, and that its signatures are uniform."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracles
from radoboost.errors import ArgumentError
from radoboost.holder import keystream
from radoboost.holder.keystream import MAX_RADOS, SLAB_TILES, make_key
from radoboost.holder.signatures import AllSignatures, check_n_rados, check_n_signatures

FALSE_ALARM = 1e-6


def test_the_oracle_is_rfc_8439():
    """The block function's vector of section 2.3.2."""
    block = oracles.chacha20_block(bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"))
    assert block.hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4")


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**70),
    n=st.integers(1, 40) | st.just(MAX_RADOS),
    tile=st.integers(0, 3 * SLAB_TILES) | st.sampled_from([SLAB_TILES - 2, 2 * SLAB_TILES - 1]),
    plane=st.sampled_from([0, 1, 2**32 - 1]),
)
def test_words_are_what_the_text_says(seed, n, tile, plane):
    key = make_key(seed)
    assert key == oracles.key_from_seed(seed)
    found = keystream.keystream_words(key, n, tile, 3 if n < 100 else 1, plane=plane)
    for row in range(len(found)):
        for j in {0, n // 3, n - 1}:
            assert int(found[row, j]) == oracles.word(key, n, tile + row, j, plane)


def test_long_reads_equal_short_ones():
    key = make_key(4)
    whole = keystream.keystream_words(key, 3001, 10, 70)  # more than one call of the cipher
    assert (whole[66:] == keystream.keystream_words(key, 3001, 76, 4)).all()


def test_keys():
    assert len(make_key(None)) == 32
    assert make_key(None) != make_key(None)
    assert make_key(np.int64(3)) == make_key(3)
    for bad in (-1, 1.5, "7", True):
        with pytest.raises(ArgumentError, match="seed must be a whole number"):
            make_key(bad)


def test_all_signatures_are_equally_likely():
    """The 2**6 signatures of six rows, over 200,000 draws: a chi-square test with a false alarm of 1e-6."""
    n, tiles = 40_000, 5
    words = AllSignatures().prepare(make_key(99), n, 64 * tiles).words(0, tiles, np.empty((tiles, n), np.uint64))
    counts = np.bincount((words & np.uint64(63)).ravel().astype(int), minlength=64)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_every_bit_is_a_fair_coin_and_neighbours_are_independent():
    """Bits by row, by rado, and pairs of rows and of rados; 1e-6 over all tests together."""
    n, tiles = 512, 64
    words = AllSignatures().prepare(make_key(5), n, 64 * tiles).words(0, tiles, np.empty((tiles, n), np.uint64))
    bits = (words[:, None, :] >> np.arange(64, dtype=np.uint64)[None, :, None] & np.uint64(1)).astype(np.int64)
    bits = bits.reshape(tiles * 64, n)
    by_row, by_rado = bits.sum(axis=1), bits.sum(axis=0)
    pairs = [(bits[1:] ^ bits[:-1]).sum(), (bits[:, 1:] ^ bits[:, :-1]).sum()]
    sizes = [bits[1:].size, bits[:, 1:].size]
    level = FALSE_ALARM / (len(by_row) + len(by_rado) + 2)
    for counts, size in ((by_row, n), (by_rado, tiles * 64), (pairs[:1], sizes[0]), (pairs[1:], sizes[1])):
        low, high = stats.binom.ppf([level / 2, 1 - level / 2], size, 0.5)
        assert np.all((np.asarray(counts) >= low) & (np.asarray(counts) <= high))


def test_number_of_rados():
    assert check_n_rados(np.int32(8)) == 8
    for bad in (0, -1, MAX_RADOS + 1):
        with pytest.raises(ArgumentError, match="between 1 and 524,288"):
            check_n_rados(bad)
    for bad in (1.0, "8", True):
        with pytest.raises(ArgumentError, match="whole number"):
            check_n_rados(bad)
    check_n_signatures(8, 3, AllSignatures())
    check_n_signatures(MAX_RADOS, 10**6, AllSignatures())
    with pytest.raises(ArgumentError, match="only 8 signatures"):
        check_n_signatures(9, 3, AllSignatures())
