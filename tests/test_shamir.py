"""Shamir's shares: any threshold of them give the secret, and fewer tell nothing."""

import itertools
import math
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radoboost.errors import RoomError
from radoboost.holder.keystream import Key
from radoboost.holder.rooms.masking import PRIME, SHARE_BYTES, combine_secret_shares, lagrange_weights, split_secret


def solved(shares, threshold):
    """The slow twin: the coefficients by elimination; the polynomial's value at 0."""
    rows = [
        [pow(point, power, PRIME) for power in range(threshold)] + [int.from_bytes(share)] for point, share in shares
    ]
    for k in range(threshold):
        pivot = next(row for row in rows[k:] if row[k])
        rows.remove(pivot)
        rows.insert(k, [value * pow(pivot[k], -1, PRIME) % PRIME for value in pivot])
        for j, row in enumerate(rows):
            if j != k:
                rows[j] = [(value - row[k] * other) % PRIME for value, other in zip(row, rows[k], strict=True)]
    return rows[0][-1]


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.integers(0, 3), st.randoms(use_true_random=False))
def test_any_threshold_of_shares_gives_the_secret(secret, threshold, more, order):
    shares = dict(enumerate(split_secret(secret, threshold, threshold + more), 1))
    points = order.sample(sorted(shares), threshold)
    chosen = {point: shares[point] for point in points}
    assert combine_secret_shares(chosen) == secret == solved(list(chosen.items()), threshold).to_bytes(32)
    assert combine_secret_shares(shares) == secret  # more than needed do no harm


def test_every_choice_of_shares_among_seven():
    secret = secrets.token_bytes(32)
    shares = split_secret(secret, 5, 7)
    for points in itertools.combinations(range(1, 8), 5):
        assert combine_secret_shares({point: shares[point - 1] for point in points}, lagrange_weights(points)) == secret
    for points in itertools.combinations(range(1, 8), 4):
        assert combine_secret_shares({point: shares[point - 1] for point in points}) != secret


def test_fewer_shares_fit_every_secret():
    """B1: with one share less, each secret has exactly one share that makes up the rest."""
    shares = split_secret(secrets.token_bytes(32), 3, 5)
    known = {1: shares[0], 4: shares[3]}
    factors = lagrange_weights([1, 4, 5])
    base = sum(factors[point] * int.from_bytes(share) for point, share in known.items())
    for secret in (bytes(32), b"\xff" * 32, secrets.token_bytes(32)):
        rest = (int.from_bytes(secret) - base) * pow(factors[5], -1, PRIME) % PRIME
        assert combine_secret_shares({**known, 5: rest.to_bytes(SHARE_BYTES)}) == secret


def test_shares_of_one_secret_look_uniform():
    """Each bit of a share is one half of the time 1. False alarms: below 1e-7 by Hoeffding's bound and the union."""
    count, bits = 400, 521
    for point in (0, 2):
        numbers = [int.from_bytes(split_secret(bytes(32), 2, 3)[point]) for _ in range(count)]
        allowed = math.sqrt(count * math.log(2 * 2 * bits / 1e-7) / 2)
        for bit in range(bits):
            assert abs(sum(number >> bit & 1 for number in numbers) - count / 2) < allowed
    assert len(set(numbers)) == count


def test_what_cannot_be_is_refused():
    for secret, threshold, count in ((bytes(31), 2, 3), (bytes(32), 0, 3), (bytes(32), 4, 3)):
        with pytest.raises(RoomError, match="a secret of 32 bytes"):
            split_secret(secret, threshold, count)
    for points in ([1, 1], [0, 1], [-1, 2]):
        with pytest.raises(RoomError, match="different numbers"):
            lagrange_weights(points)
    shares = split_secret(bytes(32), 2, 3)
    assert combine_secret_shares({1: shares[0], 2: shares[1][:-1]}) is None
    assert combine_secret_shares({1: shares[0], 2: b"\xff" * SHARE_BYTES}) is None
    assert combine_secret_shares({1: shares[1], 2: shares[0]}) is None  # under other numbers it is no 32 bytes


def test_shares_and_secrets_print_as_no_more_than_that():
    shares = split_secret(Key(b"a secret of exactly 32 bytes, so"), 2, 3)
    assert repr(shares) == "[Key(...), Key(...), Key(...)]"
    assert repr(combine_secret_shares({1: shares[0], 2: shares[1]})) == "Key(...)"
