"""Encrypted rows: the plain release's bits, slots that do not run over, and refusals in one line."""

import builtins
import dataclasses
import importlib
import json
import math
import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flat
import radoboost as rb
from radoboost import encrypted
from radoboost.encrypted import encrypted_rows
from radoboost.encrypted.encrypted_rows import Packing
from radoboost.encrypted.paillier import Decryptor, Encryptor, check_ciphertexts
from radoboost.holder import request
from radoboost.holder.grid import GRID_BITS

pytest.importorskip("gmpy2")
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def keys():
    return encrypted.keygen()


@pytest.fixture
def table(rng):
    X = rng.normal(size=(150, 3)) * [1.0, 30.0, 0.01]
    return X, np.where(X[:, 0] + rng.normal(size=150) > 0, "yes", "no")


@pytest.fixture
def rows(keys, table):
    return encrypted.encrypt(table[0], keys.public, table[1])


def refused(words, make):
    with pytest.raises(rb.RadoError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_rados", [5, 130])
def test_the_bits_are_those_of_the_plain_release(monkeypatch, keys, table, rows, n_rados, tmp_path):
    rows.save(tmp_path / "rows")
    encrypted.craft(encrypted.load_rows(tmp_path / "rows"), n_rados, key=KEY).save(tmp_path / "sums")
    release = encrypted.open(encrypted.load_sums(tmp_path / "sums"), keys.private)
    monkeypatch.setattr(request, "make_key", lambda seed: KEY)
    plain = rb.craft(*table, n_rados=n_rados)
    assert release.rados.tobytes() == plain.rados.tobytes()
    for name in ("columns", "classes", "mechanism", "signatures", "n_examples"):
        assert getattr(release, name) == getattr(plain, name), name
    assert release.statement.epsilon == math.inf and "together can decrypt" in release.statement.to_json()
    release.save(tmp_path / "out.rado.parquet")
    assert rb.load(tmp_path / "out.rado.parquet").statement.holders.how == "encrypted"


def test_several_senders_classes_and_wide_rows(monkeypatch, keys, rng):
    """Three classes of 20 columns need more slots than a number has; senders agree on how many rows there may be."""
    X, y = rng.uniform(-1, 1, size=(40, 20)), rng.integers(0, 3, 40)
    options = {"schema": {f"x{k}": (-1.0, 1.0) for k in range(20)}, "classes": (0, 1, 2)}
    options["mechanism"] = rb.Plain("bounds")
    senders = [
        encrypted.encrypt(X[cut], keys.public, y[cut], most_rows=1000, **options) for cut in (slice(0, 3), slice(3, 40))
    ]
    assert senders[0].packing.n_numbers == 2
    sums = encrypted.craft(senders, 20, key=KEY, signatures=rb.FixedSupport(0.5))
    release = encrypted.open(sums, keys.private)
    monkeypatch.setattr(request, "make_key", lambda seed: KEY)
    plain = flat.craft(X, y, n_rados=20, signatures=rb.FixedSupport(0.5), **options)
    assert release.blocks.keys() == plain.blocks.keys()
    for name in plain.blocks:
        assert release.blocks[name].tobytes() == plain.blocks[name].tobytes()
    assert [part["rows"] for part in release.statement.holders.parts] == [3, 37]


# ---- the cryptosystem


def test_keys_have_what_the_cryptosystem_asks_for(keys):
    p, q, n = keys.private.p, keys.private.q, keys.public.n
    assert n.bit_length() == 2048 and p % 4 == q % 4 == 3 and math.gcd(p - 1, q - 1) == 2
    order = (p - 1) * (q - 1) // 2
    assert pow(keys.public.h, order, n * n) == 1, "h is an n-th power"
    assert hex(p)[2:20] not in repr(keys) and str(p) not in repr(keys)


def test_decryption_undoes_encryption_and_products_are_sums(keys):
    """Against Paillier's own formula, by plain integers, for random numbers and the extremes."""
    draw, n = random.Random(7), keys.public.n
    encryptor, decryptor = Encryptor(keys.public), Decryptor(keys.private)
    order = math.lcm(keys.private.p - 1, keys.private.q - 1)
    numbers = [0, 1, -1, n // 2, -(n // 2), *(draw.randrange(-n // 2, n // 2) for _ in range(5))]
    texts = [encryptor.encrypt(number) for number in numbers]
    assert [decryptor.decrypt(text) for text in texts] == numbers
    for text, number in zip(texts, numbers, strict=True):
        slow = (pow(int(text), order, n * n) - 1) // n * pow(order, -1, n) % n
        assert slow == number % n
    total = sum(numbers) % n
    assert decryptor.decrypt(math.prod(map(int, texts)) % n**2) % n == total
    assert len(set(map(int, [*texts, *(encryptor.encrypt(0) for _ in range(5))]))) == len(texts) + 5


def test_a_power_is_the_one_that_its_bytes_say(keys, monkeypatch):
    """The table against pow: exponents of half the bits for rows, and of more than all of them for results."""
    for full, length in ((False, 128), (True, 272)):
        encryptor, n = Encryptor(keys.public, full=full), keys.public.n
        drawn = bytes(range(1, 129)) * 3
        monkeypatch.setattr("radoboost.encrypted.paillier.secrets.token_bytes", lambda size, drawn=drawn: drawn[:size])
        exponent = int.from_bytes(drawn[:length], "little")
        assert int(encryptor.blind()) == pow(keys.public.h, exponent, n * n)


def test_results_do_not_show_which_rows_they_are_products_of(keys, rows, monkeypatch):
    """The same signatures twice: the random parts differ, though sums are the same; exponents are long (E4)."""
    lengths = []

    def encryptor(key, *, full=False):
        lengths.append(full)
        return Encryptor(key, full=full)

    monkeypatch.setattr(encrypted_rows, "Encryptor", encryptor)
    first, second = (encrypted.craft(rows, 10, key=KEY) for _ in range(2))
    assert not (first.ciphertexts == second.ciphertexts).all(axis=(1, 2)).any()
    a, b = (encrypted.open(sums, keys.private) for sums in (first, second))
    assert a.rados.tobytes() == b.rados.tobytes() and a.id != b.id
    assert lengths == [True, True]


@given(
    st.integers(1, 70), st.sampled_from([1, 2, 255, 256, 10_000, 2**31 - 1]), st.sampled_from([2048, 3072]), st.data()
)
def test_slots_do_not_run_over(width, most_rows, bits, data):
    """The extremes of so many rows, of either sign, side by side (E5)."""
    packing = Packing(width, most_rows, bits)
    signs = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=width, max_size=width))
    row = np.array(signs) << GRID_BITS
    numbers = [number * most_rows for number in packing.pack(row[None])[0]]
    assert all(abs(number) < 2 ** (bits - 2) for number in numbers)
    assert packing.unpack(numbers).tolist() == (row * most_rows).tolist()


def test_the_bound_is_checked_before(keys):
    refused("at most 2..22 in magnitude", lambda: Packing(2, 10, 2048).pack(np.array([[0, 2**22 + 1]])))
    refused("no sum of rows", lambda: Packing(2, 10, 2048).unpack([2**2047]))


# ---- refusals


def test_wrong_keys_and_rows_that_do_not_belong_together(keys, table, rows):
    X, y = table
    other = encrypted.keygen()
    sums = encrypted.craft(rows, 10)
    refused("under key .* private key of", lambda: encrypted.open(sums, other.private))
    refused("under the private key", lambda: encrypted.open(sums, keys.public))
    refused("under a public key", lambda: encrypted.encrypt(X, keys.private, y))
    refused("public key of one learner", lambda: encrypted.craft([rows, encrypted.encrypt(X, other.public, y)], 10))
    refused(
        "agree on most_rows", lambda: encrypted.craft([rows, encrypted.encrypt(X, keys.public, y, most_rows=999)], 10)
    )
    refused("twice", lambda: encrypted.craft([rows, rows], 10))
    refused("packed for sums of 150", lambda: encrypted.craft([rows, encrypted.encrypt(X, keys.public, y)], 10))
    refused("other columns", lambda: encrypted.craft([rows, encrypted.encrypt(X[::-1] * 2, keys.public, y)], 10))
    refused("no encrypted rows", lambda: encrypted.craft([], 10))
    refused("most_rows is 20", lambda: encrypted.encrypt(X, keys.public, y, most_rows=20))
    refused("most_rows must lie", lambda: encrypted.encrypt(X, keys.public, y, most_rows=2**31))
    refused("bits must be", lambda: encrypted.keygen(1024))
    refused("not those of the public key", lambda: encrypted.PrivateKey(3, 5, keys.public))
    refused("no public key", lambda: encrypted.PublicKey(15, 2))


def test_public_keys_that_hide_nothing_are_refused(keys, tmp_path):
    """Powers of h that are few, modulo n or one of its factors, and moduli whose factors show (E6)."""
    n, p, q = keys.public.n, keys.private.p, keys.private.q
    root = 1 - 2 * p * pow(p, -1, q)  # 1 modulo p, and -1 modulo q
    crossed = 1 + (keys.public.h - 1) * p * pow(p, -1, q)  # 1 modulo p, and h modulo q
    weak = [n * n - 1, 1 + n, 1 + 5 * n, (1 + n) * (n * n - 1) % n**2, pow(root, n, n * n), pow(crossed, n, n * n)]
    for h in weak:
        refused("could be read by anyone.*fingerprints", lambda h=h: encrypted.PublicKey(n, h))
    for modulus in (2**2203 - 1, 3 * n):  # a prime of Mersenne's, and one that has a small factor
        refused("could be read by anyone", lambda modulus=modulus: encrypted.PublicKey(modulus, 7))
    (tmp_path / "weak").write_text(json.dumps({"radoboost_paillier_public": 1, "n": f"{n:x}", "h": f"{1 + n:x}"}))
    refused("weak: numbers encrypted", lambda: encrypted.load_key(tmp_path / "weak"))


def test_people_compare_a_fingerprint(keys, tmp_path):
    keys.public.save(tmp_path / "public")
    shown = encrypted.load_key(tmp_path / "public").fingerprint
    assert shown == keys.public.fingerprint and shown.replace(" ", "") == keys.public.id and len(shown.split()) == 8
    assert encrypted.keygen().public.fingerprint != shown


def test_truncated_and_altered_ciphertexts(keys, rows, tmp_path):
    rows.save(tmp_path / "rows")
    whole = (tmp_path / "rows").read_bytes()
    for content, words in [(whole[:-9], "truncated"), (whole[:300] + b"x" + whole[301:], "damaged")]:
        (tmp_path / "bad").write_bytes(content)
        refused(words, lambda: encrypted.load_rows(tmp_path / "bad"))
    cut = rows.ciphertexts[:, :, :-1]
    refused("cut short", lambda: dataclasses.replace(rows, ciphertexts=cut))
    refused("149 rows are here, of 150", lambda: dataclasses.replace(rows, ciphertexts=rows.ciphertexts[1:]))
    zero = rows.ciphertexts.copy()
    zero[7] = 0
    refused("row 8 is no ciphertext", lambda: encrypted.craft(dataclasses.replace(rows, ciphertexts=zero), 10))
    zero[7] = 255
    refused("row 8 is no ciphertext", lambda: encrypted.craft(dataclasses.replace(rows, ciphertexts=zero), 10))
    refused("no ciphertext", lambda: check_ciphertexts(keys.public, [1, keys.private.p], "row"))
    sums = encrypted.craft(rows, 10)
    sums.save(tmp_path / "sums")
    refused("encrypted sums.*, not encrypted rows", lambda: encrypted.load_rows(tmp_path / "sums"))
    refused("encrypted rows.*, not encrypted sums", lambda: encrypted.load_sums(tmp_path / "rows"))
    altered = sums.ciphertexts.copy()
    altered[3, 0, -1] ^= 1
    bad = dataclasses.replace(sums, ciphertexts=altered)
    refused("no sum of rows|larger than so many rows", lambda: encrypted.open(bad, keys.private))


def test_a_sender_who_sends_too_much_is_seen_only_beyond_what_all_rows_may_give(keys, table, rows):
    """Nobody checks what a sender sends: within the bound of all rows it passes, beyond it the release is refused."""
    encryptor = Encryptor(keys.public)
    for weight, passes in ((40, True), (10**6, False)):
        huge = rows.ciphertexts.copy()
        number = weight << GRID_BITS
        huge[0, 0] = np.frombuffer(int(encryptor.encrypt(number)).to_bytes(512, "big"), np.uint8)
        sums = encrypted.craft(dataclasses.replace(rows, ciphertexts=huge), 20, key=KEY)
        if passes:
            assert encrypted.open(sums, keys.private).n_rados == 20
        else:
            refused("larger than so many rows", lambda sums=sums: encrypted.open(sums, keys.private))


def test_key_files(keys, tmp_path):
    keys.public.save(tmp_path / "public")
    keys.private.save(tmp_path / "private")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (
        encrypted.load_key(tmp_path / "public") == keys.public
        and encrypted.load_key(tmp_path / "private") == keys.private
    )
    refused("there already", lambda: keys.private.save(tmp_path / "private"))
    refused("cannot read the key", lambda: encrypted.load_key(tmp_path / "none"))
    refused("cannot write", lambda: keys.public.save(tmp_path / "none" / "key"))
    for content in ("{}", "[]", "hello", '{"radoboost_paillier_public": 1, "n": "f", "h": "2"}'):
        (tmp_path / "bad").write_text(content)
        refused("key", lambda: encrypted.load_key(tmp_path / "bad"))
    assert sorted(os.listdir(tmp_path)) == ["bad", "private", "public"]


def test_without_gmpy2_one_line_says_what_to_install(monkeypatch):
    real = importlib.import_module

    def without(name, *rest):
        if name == "gmpy2":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr("radoboost.encrypted.paillier.importlib.import_module", without)
    refused(r"pip install '.\[secure\]' in a clone of radoboost", encrypted.keygen)
    assert encrypted.open is not builtins.open
