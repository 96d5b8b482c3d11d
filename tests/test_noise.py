"""Noise in whole numbers: the same integers as the slow twin for the same words, and the law that the proof claims."""

import ast
import itertools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit
from scipy import special, stats

import oracles
from radoboost.errors import ArgumentError
from radoboost.holder import gaussian_noise
from radoboost.holder.gaussian_noise import (
    LARGEST_SCALE,
    LEAST_SCALE,
    MAX_COLUMNS,
    MAX_ROWS,
    SCALE_UNIT,
    SLAB_ROWS,
    rounded_normals,
    scale_rounded_up,
)
from radoboost.holder.keystream import make_key

FALSE_ALARM = 1e-6
SCALES = [0.5, 2.0, 4096.25, 2.0**30]
KEY = make_key(20160210)
TOP, LARGEST = 2**63, 2**64 - 1
FAILS = [1, LARGEST]  # the words of a trial of probability exp(-1/2) that fails; the word TOP is one that succeeds


def sample(words, scale, n_columns):
    """What the kernel makes of these words, a list of rows of one length; None for a row that ran out."""
    block = np.array(words, dtype=np.uint64)
    out = np.zeros((len(block), n_columns), dtype=np.int64)
    short = set(gaussian_noise._compile_noise_sampler()(block, np.uint64(int(scale / SCALE_UNIT)), out).tolist())
    return [None if i in short else row for i, row in enumerate(out.tolist())]


class RanOutError(Exception):
    pass


def expected(words, scale, n_columns):
    """What the slow twin makes of them."""

    def stream(line):
        yield from line
        raise RanOutError

    def row(words_of_row):
        try:
            return [oracles.rounded_normal(words_of_row, Fraction(scale)) for _ in range(n_columns)]
        except RanOutError:
            return None

    return [row(stream(line)) for line in words]


def accepted(k, x, *, ties=(), negative=False, digits=()):
    """Words that lead straight to k + x: all trials succeed at their first word, but for the one that ends k."""
    words = [TOP] * k + FAILS + [TOP] * (k * (k - 1))
    runs = [*ties] + [LARGEST] * (k + 1 - bool(ties))
    return [*words, x, *runs, TOP if negative else 0, *digits]


def padded(words, length):
    return list(words) + [0] * (length - len(words))


# ---- the same integers as the slow twin


@pytest.mark.parametrize("scale", SCALES)
def test_rows_are_what_the_text_says(scale):
    """Words, their addresses and the numbers made of them, by the slow twin alone."""
    for plane, first_row, n_columns in ((0, 0, 7), (3, SLAB_ROWS - 3, 12), (2**31 - 1, 2**40 + 5, 1)):
        found = rounded_normals(KEY, scale, first_row, 6, n_columns, plane=plane)
        for row, numbers in enumerate(found.tolist(), first_row):
            stream = oracles.noise_words(KEY, row, n_columns, plane, 22, 96)
            assert numbers == [oracles.rounded_normal(stream, Fraction(scale)) for _ in range(n_columns)]


def same_as_the_twin(sampler):
    """Whether a sampler makes of many random words, at every scale, what the slow twin makes of them."""
    rng = np.random.default_rng(1)
    for scale in SCALES:
        words = rng.integers(0, 2**64, size=(60, 500), dtype=np.uint64).tolist()
        if sampler(words, scale, 20) != expected(words, scale, 20):
            return False
    return True


def test_many_words_give_the_numbers_of_the_twin():
    assert same_as_the_twin(sample)


def test_a_float_sampler_is_found_out():
    """Planted: normal floats, rounded, seeded by the words or made from them by the inverse distribution function."""

    def seeded(words, scale, n_columns):
        return [
            np.rint(scale * np.random.default_rng(line).standard_normal(n_columns)).astype(int).tolist()
            for line in words
        ]

    def inverted(words, scale, n_columns):
        return np.rint(scale * special.ndtri(np.array(words)[:, :n_columns] / 2.0**64)).astype(int).tolist()

    assert not same_as_the_twin(seeded)
    assert not same_as_the_twin(inverted)


@pytest.mark.parametrize("budget", [(1, 0), (0, 3), (17, 0)])
def test_rows_that_run_out_go_on_in_their_own_stream(monkeypatch, budget):
    monkeypatch.setattr(gaussian_noise, "_WORDS_PER_NUMBER", budget[0])
    monkeypatch.setattr(gaussian_noise, "_WORDS_PER_ROW", budget[1])
    first_row, n_columns, plane = SLAB_ROWS - 4, 9, 5
    found = rounded_normals(KEY, 4096.25, first_row, 8, n_columns, plane=plane)
    beyond = 0
    for row, numbers in enumerate(found.tolist(), first_row):
        counted = itertools.count()
        words = oracles.noise_words(KEY, row, n_columns, plane, *budget)
        stream = (word for word, _ in zip(words, counted, strict=False))
        assert numbers == [oracles.rounded_normal(stream, Fraction(4096.25)) for _ in range(n_columns)]
        beyond += next(counted) > budget[0] * n_columns + budget[1]
    assert beyond >= 2


# ---- ties


@pytest.mark.parametrize("scale", [*SCALES, LEAST_SCALE, LARGEST_SCALE, 3 * SCALE_UNIT * 2**15])
def test_words_that_tie(scale):
    """Words from small alphabets tie all the time, in first and in second words, and rows run out everywhere."""
    rng = np.random.default_rng(2)
    numbers = 0
    for alphabet in ([0, TOP], [1, 2, TOP], [TOP - 1, TOP], [0, 1, 2**32, TOP, LARGEST], range(0, 2**64, 2**60)):
        choice = rng.integers(len(alphabet), size=(300, 90)).tolist()
        words = [[alphabet[place] for place in line] for line in choice]
        found = sample(words, scale, 3)
        assert found == expected(words, scale, 3)
        numbers += sum(row is not None for row in found)
    assert numbers > 200


@given(
    st.lists(st.sampled_from([0, 1, 2, 2**32 - 1, 2**62, TOP - 1, TOP, TOP + 1, LARGEST]), min_size=40, max_size=40),
    st.sampled_from(SCALES),
)
@example(padded([TOP] * 15 + FAILS + [2**62, LARGEST, TOP], 40), 2.0)  # k would be 15
@example(padded([5, 5, 7, 6, 5, 6, 9, 4, 4, LARGEST, 0, 2**62, LARGEST, 0], 40), 2.0)  # three in a row
@example(padded([*FAILS, 2**62, 2**62, 9, 8, 2**63, 2**62, 8, 1, 2**62, 7, LARGEST, 0], 40), 2.0)  # x's second word
@example(padded([*FAILS, 2**62, 2**61, 0, 2**62, 9, 8, 2**61, 3, 2, TOP, LARGEST, 0], 40), 2.0)  # and after the part
def test_words_that_tie_in_any_order(words, scale):
    assert sample([words], scale, 2) == expected([words], scale, 2)


def test_refused_words_for_a_part():
    """With k = 2 there are six parts, and a word whose 32 bits leave a remainder below 2**32 % 6 = 4 is skipped."""
    start = [TOP] * 2 + FAILS + [TOP] * 2 + [2**62, 2**61]
    for top in (0, 1, 715827883, 1431655766, 2**31, 2863311531, 3579139414, 2**32 - 1):
        words = [padded([*start, top << 32, 5 << 60, 2**40, *[LARGEST] * 5, 0], 40)]
        assert sample(words, 2.0, 1) == expected(words, 2.0, 1)


# ---- rounding


@pytest.mark.parametrize("scale", [4096.25, LEAST_SCALE, LARGEST_SCALE, LARGEST_SCALE - 128])
@pytest.mark.parametrize("k", [0, 3, 14])
def test_rounding_at_the_edge(k, scale):
    """Deviates within 2**-64, 2**-128, 2**-192 of the point where the rounding changes, and on both sides of it."""
    share = Fraction(scale)
    lowest, highest = math.ceil(share * k - Fraction(1, 2)), math.floor(share * (k + 1) - Fraction(1, 2))
    checked = 0
    for whole in sorted({lowest, (lowest + highest) // 2, highest}):
        rest = (whole + Fraction(1, 2)) / share - k
        if not 0 <= rest < 1:
            continue
        digits = []
        for _ in range(4):
            rest *= 2**64
            digits.append(math.floor(rest))
            rest -= digits[-1]
        for place, step in itertools.product(range(4), (-1, 0, 1)):
            near = [*digits[:place], (digits[place] + step) % 2**64, *digits[place + 1 :]]
            if near[0] == LARGEST:  # the words below are for other x
                continue
            plain = accepted(k, near[0], negative=step == 1, digits=near[1:])
            tied = accepted(k, near[0], ties=(near[0], near[1], LARGEST), digits=near[2:])
            words = [padded(line, 250) for line in (plain, tied)]
            found = sample(words, scale, 1)
            assert found == expected(words, scale, 1)
            z = k + sum(Fraction(digit, 2 ** (64 * p)) for p, digit in enumerate(near, 1))
            above = [math.floor(share * z + Fraction(1, 2))]
            assert found[1] == above
            checked += 1
    assert checked >= 8 or scale < 1


def test_the_largest_numbers_fit():
    """k = 14 and the largest x, at the largest scale."""
    words = [padded(accepted(14, LARGEST - 1, digits=[LARGEST] * 3), 250)]
    assert sample(words, LARGEST_SCALE, 1) == expected(words, LARGEST_SCALE, 1) == [[15 * 2**40]]


def test_the_kernel_has_no_floats():
    """Not one of its variables is a float (one is planted); in some versions of numba a uint64 plus an int64 is."""

    def floats(function, *arguments):
        signature = tuple(map(numba.typeof, arguments))
        compiled = njit(function)
        compiled.compile(signature)
        kinds = compiled.overloads[signature].type_annotation.typemap.values()
        return [kind for kind in kinds if isinstance(kind, numba.types.Float)]

    block, out = np.zeros((1, 9), np.uint64), np.zeros((1, 1), np.int64)
    assert not floats(gaussian_noise._compile_noise_sampler().py_func, block, np.uint64(1), out)
    assert floats(lambda word: word * 0.5, np.uint64(1))


# ---- addresses


@given(
    first_row=st.sampled_from([0, 1, SLAB_ROWS - 5, SLAB_ROWS, 2**40, MAX_ROWS - 40]),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    n_columns=st.sampled_from([1, 3, 50]),
)
def test_any_split_gives_the_same_rows(first_row, cuts, n_columns):
    whole = rounded_normals(KEY, 7.0, first_row, 40, n_columns, plane=9)
    edges = sorted({0, 40, *cuts})
    parts = [rounded_normals(KEY, 7.0, first_row + a, b - a, n_columns, plane=9) for a, b in itertools.pairwise(edges)]
    assert (np.concatenate(parts) == whole).all()


def test_blocks_and_threads_do_not_matter(monkeypatch):
    whole = rounded_normals(KEY, 4096.0, 900, 700, 11)
    monkeypatch.setattr(gaussian_noise, "_BLOCK_WORDS", 5 * gaussian_noise._keystream_words_per_noise_row(11))
    assert (rounded_normals(KEY, 4096.0, 900, 700, 11) == whole).all()
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda i: rounded_normals(KEY, 4096.0, 900 + i, 1, 11), range(700)))
    assert (np.concatenate(rows) == whole).all()
    assert rounded_normals(KEY, 4096.0, 900, 0, 11).shape == (0, 11)


def test_keys_planes_rows_and_widths_have_words_of_their_own():
    """Of 20 numbers at this scale two vectors would agree in one place by chance with a probability below 1e-7."""
    scale = 2.0**30
    vectors = [
        rounded_normals(KEY, scale, 5, 1, 20)[0],
        rounded_normals(KEY, scale, 6, 1, 20)[0],
        rounded_normals(KEY, scale, 5 + SLAB_ROWS, 1, 20)[0],
        rounded_normals(KEY, scale, 5, 1, 20, plane=1)[0],
        rounded_normals(make_key(1), scale, 5, 1, 20)[0],
    ]
    for one, other in itertools.combinations(vectors, 2):
        assert not np.isin(one, other).any()


def test_widths_share_words():
    """A row's address depends on its width, so two widths must not share a key and a plane: this is how they meet."""
    scale = 2.0**30
    assert (rounded_normals(KEY, scale, 0, 1, 21)[0, :20] == rounded_normals(KEY, scale, 0, 1, 20)[0]).all()
    assert (rounded_normals(KEY, scale, 5, 1, 21)[0, :20] != rounded_normals(KEY, scale, 5, 1, 20)[0]).all()


def ranges(row, n_columns, plane):
    """The nonce and the bytes of a row's own words, and the nonce of its overflow stream (N7)."""
    size = gaussian_noise._keystream_words_per_noise_row(n_columns) * 8
    return (plane, row // SLAB_ROWS), range(row % SLAB_ROWS * size, (row % SLAB_ROWS + 1) * size), (plane + 2**31, row)


def test_addresses_are_disjoint_and_within_the_counter(monkeypatch):
    """What is asked of the cipher lies in the ranges of the proof, and no two rows share a byte."""
    asked = []

    def fill(key, nonce, start, target):
        plane, number = int.from_bytes(nonce[:4], "little"), int.from_bytes(nonce[4:], "little")
        asked.append(((plane, number), range(start, start + len(target))))
        np.frombuffer(target, "<u8")[:] = np.random.default_rng([plane, number, start]).integers(
            2**64, size=len(target) // 8, dtype=np.uint64
        )

    monkeypatch.setattr(gaussian_noise, "_fill_from_keystream", fill)
    monkeypatch.setattr(gaussian_noise, "_WORDS_PER_NUMBER", 17)  # some rows need their overflow stream
    monkeypatch.setattr(gaussian_noise, "_WORDS_PER_ROW", 0)
    rows, overflows = range(SLAB_ROWS - 20, SLAB_ROWS + 20), 0
    for plane in (0, 1, 2**31 - 1):
        for row in rows:
            rounded_normals(KEY, 2.0, row, 1, 30, plane=plane)
            own, *again = asked
            expected_own, expected_bytes, expected_overflow = ranges(row, 30, plane)
            assert own == (expected_own, expected_bytes)
            assert all(where == expected_overflow and part.start == 0 for where, part in again)
            overflows += len(again)
            asked.clear()
    assert overflows > 20
    monkeypatch.undo()
    seen = [ranges(row, 30, plane) for row in rows for plane in (0, 1, 2**31 - 1)]
    for (nonce, part, overflow), (nonce2, part2, overflow2) in itertools.combinations(seen, 2):
        assert nonce != nonce2 or part.stop <= part2.start or part2.stop <= part.start
        assert overflow != overflow2 and overflow != nonce2 and overflow2 != nonce
    for row in (0, SLAB_ROWS - 1, MAX_ROWS - 1):
        nonce, part, overflow = ranges(row, MAX_COLUMNS, 2**31 - 1)
        assert part.stop <= 64 * 2**32 and max(nonce[0], overflow[0]) < 2**32 and overflow[1] < 2**64


# ---- the law


@pytest.fixture(scope="module")
def million():
    return rounded_normals(KEY, 4096.0, 0, 10_000, 100, plane=11)


@pytest.mark.parametrize("scale", [LEAST_SCALE * 16, 0.5, 2.0, 4.75])
def test_goodness_of_fit(scale):
    """A chi-square test of 400,000 numbers against the normal distribution function, false alarm 1e-6."""
    found = rounded_normals(KEY, scale, 0, 4000, 100, plane=12).ravel()
    edge = 0
    while found.size * special.ndtr(-(edge + 0.5) / scale) > 10:
        edge += 1
    inner = np.arange(-edge, edge) + 0.5
    # Below, between and above the inner edges; tails by symmetry, for 1 - Phi loses digits.
    tail = special.ndtr(inner[0] / scale)
    shares = np.concatenate([[tail], np.diff(special.ndtr(inner / scale)), [tail]])
    counts = np.bincount(np.searchsorted(inner, found), minlength=len(shares))
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert stats.chisquare(counts, shares / shares.sum() * found.size).pvalue > FALSE_ALARM


def test_distribution_at_a_large_scale():
    """Kolmogorov and Smirnov over 300,000 numbers, false alarm 1e-6; the rounding moves the statistic by 2**-20."""
    scale = 2.0**20
    found = rounded_normals(KEY, scale, 0, 3000, 100, plane=13).ravel() / scale
    assert stats.kstest(found, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(found * 1.02, "norm").pvalue < FALSE_ALARM  # planted


def test_signs_and_parity(million):
    """Signs are fair; at this scale the lowest eight bits are uniform to within 1e-300. False alarms 1e-6 each."""
    signs = million[million != 0] > 0
    assert stats.binomtest(int(signs.sum()), signs.size).pvalue > FALSE_ALARM
    assert stats.binomtest(int((million & 1).sum()), million.size).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount((million & 255).ravel())).pvalue > FALSE_ALARM
    # The sign says nothing of the size: the squares of both signs have one mean.
    sizes = (million / 4096.0) ** 2
    assert stats.ttest_ind(sizes[million > 0], sizes[million < 0]).pvalue > FALSE_ALARM


def test_moments(million):
    """The first eight moments of a million numbers, each within the bounds of the normal law, false alarm 1e-6."""
    z = million.ravel() / 4096.0
    limit = stats.norm.isf(FALSE_ALARM / 2 / 8)
    for power in range(1, 9):
        mean = 0.0 if power % 2 else math.prod(range(1, power, 2))
        spread = math.sqrt((math.prod(range(1, 2 * power, 2)) - mean**2) / z.size)
        # Rounding adds 1/12 to the variance at scale 4096: 5e-9, far below the spread.
        assert abs((z**power).mean() - mean) < limit * spread, power


def test_tails(million):
    """How many lie beyond 2, 3, 4 and 4.5 scales, where large k is needed; false alarm 1e-6."""
    for far in (2.0, 3.0, 4.0, 4.5):
        count = int((np.abs(million) > far * 4096).sum())
        assert stats.binomtest(count, million.size, 2 * special.ndtr(-far - 0.5 / 4096)).pvalue > FALSE_ALARM / 4


def test_columns_and_rows_are_independent(million):
    """Correlations of neighbours and of all pairs of columns, of numbers and of their squares, false alarm 1e-6."""

    def z_score(a, b):
        return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) * math.sqrt(a.size)

    limit = stats.norm.isf(FALSE_ALARM / 2 / 8)
    for values in (million / 4096.0, (million / 4096.0) ** 2):
        for lag in (1, 2):
            assert z_score(values[:, lag:], values[:, :-lag]) < limit
            assert z_score(values[lag:], values[:-lag]) < limit
        assert z_score(values[SLAB_ROWS:], values[:-SLAB_ROWS]) < limit
        pairs = np.corrcoef(values.T)[np.triu_indices(values.shape[1], 1)]
        assert np.abs(pairs).max() * math.sqrt(len(values)) < stats.norm.isf(FALSE_ALARM / 2 / pairs.size)


# ---- the bound of the proof


def test_the_bound_on_total_variation():
    """The sums of step N6, with room to spare for rounding; and a deviate beyond the limit."""
    geometric = 1 / (1 - math.exp(-0.5))
    comparisons = 2 * geometric * (math.exp(0.5) - 1) + geometric * (2 * math.e - 1)
    accepted_share = math.sqrt(math.pi / 2) / geometric * (1 - 2 * special.ndtr(-15.0))
    assert comparisons / accepted_share < 30
    assert 30 * 2.0**-128 + 2 * special.ndtr(-15.0) < gaussian_noise.TOTAL_VARIATION == 2.0**-123


def test_every_step_of_the_proof_is_cited():
    page = (Path(__file__).parent.parent / "docs" / "proofs" / "noise.md").read_text()
    steps = re.findall(r"^## (N\d)\. ", page, re.MULTILINE)
    assert steps == sorted(set(re.findall(r"\bN\d\b", Path(gaussian_noise.__file__).read_text())))


# ---- scales and arguments


@given(st.floats(2.0**-60, LARGEST_SCALE))
@example(0.5)
@example(LARGEST_SCALE)
@example(5e-324)
@example(2.0**33 - 2.0**-20)
@example(2.0**33 + 2.0**-19)
def test_scales_are_rounded_up_exactly(scale):
    up = Fraction(scale_rounded_up(scale))
    unit = Fraction(SCALE_UNIT)
    assert up % unit == 0 and up - unit < Fraction(scale) <= up


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scale", 0.1), ("scale", 2.0**-7), ("scale", 2.0**41), ("scale", math.nan), ("scale", True),
        ("key", bytes(16)), ("first_row", 1.5), ("first_row", MAX_ROWS), ("n_rows", -1),
        ("n_columns", MAX_COLUMNS + 1), ("plane", 2**31),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(name, wrong):
    arguments = {"key": KEY, "scale": 2.0, "first_row": 0, "n_rows": 1, "n_columns": 1, "plane": 0} | {name: wrong}
    with pytest.raises(ArgumentError, match=name):
        rounded_normals(**arguments)


@pytest.mark.parametrize("scale", [0.0, math.nan, 2.0**40 + 1, "1"])
def test_bad_scales_are_not_rounded(scale):
    with pytest.raises(ArgumentError, match="scale"):
        scale_rounded_up(scale)


def test_numbers_of_numpy_are_numbers():
    found = rounded_normals(KEY, np.float32(2), np.int64(3), np.int32(4), np.uint8(5), plane=np.int16(6))
    assert (found == rounded_normals(KEY, 2, 3, 4, 5, plane=6)).all()
    assert found.dtype == np.int64 and found.shape == (4, 5)


def forbidden_names(source):
    """Names of float samplers and of float functions in a program's text."""
    bad = {"standard_normal", "normal", "random", "default_rng", "secrets", "exp", "expm1", "log", "log1p", "sqrt"}
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            used |= {part for alias in node.names for part in alias.name.split(".")}
            used |= set((getattr(node, "module", None) or "").split("."))
    return used & bad


def test_the_module_uses_no_float_sampler():
    assert not forbidden_names(Path(gaussian_noise.__file__).read_text())
    for planted in (
        "np.random.rand()",
        "rng.standard_normal()",
        "import random",
        "from math import exp",
        "math.log(2)",
    ):
        assert forbidden_names(planted)
