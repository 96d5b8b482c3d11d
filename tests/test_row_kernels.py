"""The row kernels of `moments`: both engines give the integers of plain Python, and no row moves another."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles
from radoboost.holder.engines import cpu_blas, cpu_rows, get_engine, reference

GRID, CAP = 1 << 15, 0.5
ROW_KERNELS = SimpleNamespace(
    sphere=cpu_rows.compiled_sphere_rows,
    whiten=cpu_rows.compiled_whiten_rows,
    tilt=cpu_rows.compiled_tilt_rows,
    products=cpu_rows.compiled_row_products,
)
ENGINES = (get_engine("reference"), ROW_KERNELS, get_engine("kernel"))
WIDEST = np.finfo(np.float64).max
SIZES = (0, 1, 31, 32, 33, 129, 256, 257, 600)  # around the ends of blocks

kinds = st.sampled_from([np.float32, np.float64])
shapes = st.tuples(st.integers(0, 40), st.integers(1, 9))
special = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, -1e-310, 1e-40, 3e38, 1e300, -1e300]
)
numbers = st.one_of(st.floats(-9, 9, width=32), st.floats(-9, 9, width=32), special)
limits = st.sampled_from(
    [(-3.0, 3.0), (0.0, 1.0), (1e-320, 2e-320), (-WIDEST, WIDEST), (-1e300, 5.0), (7.0, 7.000001), (-1.0, 1.0)]
)
thetas = st.one_of(
    st.floats(-50, 50), st.floats(-50, 50), st.sampled_from([0.0, 2.0**30, -(2.0**30), 1e300, math.inf, math.nan])
)
caps = st.sampled_from([0.5, 0.5, 1.0, 0.3, 0.25])


def draw_table(data, strategy, shape, kind):
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        return np.array(data.draw(st.lists(strategy, min_size=count, max_size=count))).reshape(shape).astype(kind)


def draw_signs(data, n):
    return np.array(data.draw(st.lists(st.sampled_from([-1, 0, 1, 1]), min_size=n, max_size=n)), dtype=np.int8)


def short_rows(rng, d, n, kind=np.int32):
    """Integer rows within the sphere, some of them on an axis."""
    rows = rng.normal(size=(d, n))
    rows[1:, rng.random(n) < 0.1] = 0.0
    return np.trunc(rows / np.sqrt((rows * rows).sum(axis=0)) * (GRID - 1)).astype(kind)


@settings(max_examples=30)
@given(st.data(), shapes, kinds, st.sampled_from([None, 0.5, 0.0]))
def test_rows_on_the_sphere_are_those_of_plain_python(data, shape, kind, constant):
    n, f = shape
    values, signs = draw_table(data, numbers, shape, kind), draw_signs(data, n)
    low, high = np.array(data.draw(st.lists(limits, min_size=f, max_size=f))).T.copy()
    for engine in ENGINES:
        rows, good = engine.sphere(values, signs, low, high, constant, GRID)
        assert rows.dtype == np.int32 and rows.shape == (f + (constant is not None), n) and rows.flags.c_contiguous
        assert good.dtype == np.bool_ and good.shape == (n,)
        for i in range(n):
            row = [float(x) for x in values[i]]
            expected = oracles.on_sphere(row, int(signs[i]), low.tolist(), high.tolist(), constant, GRID)
            assert (rows[:, i].tolist(), bool(good[i])) == expected
        assert ((rows.astype(np.int64) ** 2).sum(axis=0) <= GRID**2).all()


@settings(max_examples=30)
@given(st.data(), st.integers(0, 40), st.integers(1, 9))
def test_whitened_rows_are_those_of_plain_python(data, n, d):
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    rows, signs = short_rows(rng, d, n), draw_signs(data, n)
    entries = st.one_of(st.floats(-1, 1), st.sampled_from([0.0, 2.0**-30, 5e-324, 1e-160, 1e200, math.inf, math.nan]))
    a = draw_table(data, entries, (d, d), np.float64)
    for engine in ENGINES:
        edges = engine.whiten(rows, a, signs, GRID)
        assert edges.dtype == np.int32 and edges.shape == (d, n) and edges.flags.c_contiguous
        for i in range(n):
            assert edges[:, i].tolist() == oracles.whitened(rows[:, i].tolist(), a.tolist(), int(signs[i]), GRID)
        np.testing.assert_array_equal(engine.whiten(rows, a, -signs, GRID), -edges)


@settings(max_examples=40)
@given(st.data(), st.integers(0, 30), st.integers(1, 9), st.sampled_from([np.int16, np.int32]), caps)
def test_mean_rados_are_those_of_plain_python(data, n, d, kind, cap):
    """Also of rows that are too long, which the test in whole numbers has to find."""
    info = np.iinfo(kind)
    whole = st.one_of(
        st.integers(-3000, 3000),
        st.sampled_from([0, -(2**15), 2**15 - 1, min(2**15, info.max), min(2**24 + 1, info.max), info.min, info.max]),
    )
    rows, theta = draw_table(data, whole, (d, n), kind), draw_table(data, thetas, (d,), np.float64)
    parts = [oracles.tilted(rows[:, i].tolist(), theta.tolist(), GRID, cap) for i in range(n)]
    expected = [sum(part[j] for part in parts) for j in range(d)]
    assert all(sum(x * x for x in part) <= (cap * GRID) ** 2 for part in parts)
    for engine in ENGINES:
        total = engine.tilt(rows, theta, GRID, cap)
        assert total.dtype == np.int64 and total.tolist() == expected


@settings(max_examples=25)
@given(st.data(), st.integers(0, 40), st.integers(1, 9), st.sampled_from([np.int16, np.int32]))
def test_sums_of_products_are_those_of_plain_python(data, n, d, kind):
    whole = st.one_of(st.integers(-(2**15), 2**15 - 1), st.sampled_from([-(2**15), min(2**15, np.iinfo(kind).max)]))
    rows = draw_table(data, whole, (d, n), kind)
    columns = rows.tolist()
    expected = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in columns] for a in columns]
    for engine in ENGINES:
        products, sums = engine.products(rows)
        assert products.dtype == sums.dtype == np.int64
        assert products.tolist() == expected and sums.tolist() == [sum(column) for column in columns]


def kernel_exp(x):
    y = x.copy()
    cpu_rows.exp_of_row_block(y, np.empty_like(y), len(y))
    return y


@given(st.lists(st.one_of(st.floats(-64, 64), st.floats(), special), min_size=1, max_size=40))
@example([k * math.log(2) / 2 for k in range(-180, 180)])
def test_the_exponential_is_good_to_15_digits_and_has_the_bits_of_plain_python(some):
    x = np.array(some)
    expected = np.array([oracles.exponential(value) for value in some])
    assert reference.reference_exp(x).tobytes() == kernel_exp(x).tobytes() == expected.tobytes()
    for value, power in zip(some, expected.tolist(), strict=True):
        within = 64.0 if math.isnan(value) else min(max(value, -64.0), 64.0)
        assert abs(power / math.exp(within) - 1) < 1e-15


def test_the_exponential_never_falls_by_more_than_its_error(rng):
    x = np.sort(rng.uniform(-64, 64, 100_000))
    y = reference.reference_exp(x)
    assert (y[1:] / y[:-1] > 1 - 5e-16).all() and np.abs(y / np.exp(x) - 1).max() < 1e-15


def all_four(engine, values, signs, low, high, a, theta):
    rows, good = engine.sphere(values, signs, low, high, CAP, GRID)
    edges = engine.whiten(rows, a, signs, GRID)
    sums = (engine.tilt(edges.astype(np.int16), theta, GRID, CAP), engine.tilt(edges, theta, GRID, CAP))
    return (rows, good, edges), (*sums, *engine.products(edges))


def random_table(rng, n, f):
    values = rng.normal(size=(n, f)) * 2
    values[rng.random((n, f)) < 0.01] = np.nan
    signs = rng.choice(np.array([-1, 0, 1], dtype=np.int8), n)
    return values, signs, np.full(f, -3.0), np.full(f, 3.0), rng.normal(size=(f + 1, f + 1)), rng.normal(size=f + 1) * 5


@pytest.mark.parametrize("n_columns", [1, 2, 4, 28, 300])
def test_what_a_row_gives_depends_neither_on_other_rows_nor_on_its_place(n_columns, rng):
    for n in SIZES if n_columns < 300 else (70,):
        values, signs, *rest = random_table(rng, n, n_columns)
        (rows, good, edges), totals = all_four(get_engine("reference"), values, signs, *rest)
        order, cut = rng.permutation(n), int(rng.integers(0, n + 1))
        padded = np.vstack([rng.normal(size=(37, n_columns)), values])
        for engine in ENGINES:
            for place in (np.arange(n), order):
                made, sums = all_four(engine, values[place], signs[place], *rest)
                for mine, whole in zip(made, (rows, good, edges), strict=True):
                    assert mine.tobytes() == whole[..., place].tobytes()
                assert [s.tolist() for s in sums] == [t.tolist() for t in totals]
            parts = [all_four(engine, values[s], signs[s], *rest) for s in (slice(0, cut), slice(cut, n))]
            assert np.hstack([made[2] for made, _ in parts]).tobytes() == edges.tobytes()
            for k, total in enumerate(totals):
                assert (parts[0][1][k] + parts[1][1][k]).tolist() == total.tolist()
            later = all_four(engine, padded, np.concatenate([np.ones(37, np.int8), signs]), *rest)[0]
            assert later[2][:, 37:].tobytes() == edges.tobytes()


def test_a_value_of_exactly_the_grid_is_kept(rng):
    """Where a row has one column only: the largest number that occurs, and one more than 16 bits hold."""
    for engine in ENGINES:
        values, signs = np.array([[1.0], [-1.0]]), np.array([1, -1], dtype=np.int8)
        rows, _ = engine.sphere(values, signs, -np.ones(1), np.ones(1), None, GRID)
        assert rows.tolist() == [[GRID, -GRID]]
        edges = engine.whiten(rows, np.array([[-0.7]]), signs, GRID)
        assert edges.tolist() == [[-GRID, -GRID]]
        assert engine.tilt(edges, np.zeros(1), GRID, CAP).tolist() == [-GRID]
        assert engine.tilt(edges.astype(np.int16), np.zeros(1), GRID, CAP).tolist() == [-GRID]
        assert engine.products(edges)[0].tolist() == [[2 * GRID**2]]


def test_rows_too_long_by_far_are_left_out_in_16_bits_too():
    """So many large squares that 32 bits would overflow several times over; with a large cap all are taken."""
    rows = np.full((500, 300), -(2**15), dtype=np.int16)
    rows[:, 7], rows[0, 7] = 0, 20_000
    for engine in ENGINES:
        for cap in (CAP, 1.0):
            assert engine.tilt(rows, np.zeros(500), GRID, cap).tolist() == [10_000] + [0] * 499
        assert engine.tilt(rows, np.zeros(500), GRID * 100, CAP)[1] == -(2**14) * 299


def test_threads_that_run_at_once_do_not_meet(rng):
    table = random_table(rng, 5000, 6)
    expected = [s.tolist() for s in all_four(get_engine("reference"), *table)[1]]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(all_four, ROW_KERNELS, *table) for _ in range(16)]:
            assert [s.tolist() for s in done.result()[1]] == expected


# ---- many columns


widths = st.one_of(st.integers(1, 520), st.sampled_from([63, 64, 65, 128, 300, 520]))


def rows_of_all_lengths(rng, d, n):
    """Rows on the sphere, as long as they can be: spread out, on an axis, zero, or with equal numbers."""
    rows = short_rows(rng, d, n)
    rows[:, rng.random(n) < 0.1] = 0
    flat = rng.random(n) < 0.2
    rows[:, flat] = rng.choice([-1, 1], (d, flat.sum())) * int(GRID / math.sqrt(d))
    if n:
        rows[:, 0], rows[rng.integers(d), 0] = 0, GRID
    return rows


def grid_matrix(rng, d, kind):
    """Matrices on the grid of 2**-30 with entries up to 1; the last two are not, or are too large for any order."""
    if kind == "ones":
        return np.ones((d, d)) - 2.0**-30 * rng.integers(0, 2, (d, d))
    a = np.rint(rng.uniform(-1, 1, (d, d)) * 2.0**30) * 2.0**-30
    if kind == "near the identity":
        a = np.rint((np.eye(d) * (1 - 2.0**-10) + a * 2.0**-10) * 2.0**30) * 2.0**-30
    if kind == "zero":
        a[:, : d // 2] = 0.0
    return a * {"off the grid": 1 / 3, "large": 2.0**20}.get(kind, 1.0)


MATRICES = ("ones", "near the identity", "any", "zero", "off the grid", "large")


@settings(max_examples=40, deadline=None)
@given(widths, st.integers(0, 60), st.integers(0, 2**32), st.sampled_from(MATRICES), st.booleans())
def test_many_columns_have_the_integers_of_few_in_every_engine(d, n, seed, kind, narrow):
    rng = np.random.default_rng(seed)
    rows, signs = rows_of_all_lengths(rng, d, n), rng.choice(np.array([-1, 0, 1], np.int8), n)
    a, theta = grid_matrix(rng, d, kind), np.rint(rng.normal(size=d) * 2.0 ** rng.integers(20, 50)) * 2.0**-20
    if narrow:
        rows = np.minimum(rows, 2**15 - 1).astype(np.int16)
    expected = reference.reference_whiten(rows, a, signs, GRID)
    sums = reference.reference_tilt(rows, theta, GRID, CAP), *reference.reference_products(rows)
    for engine in ENGINES:
        assert engine.whiten(rows, a, signs, GRID).tobytes() == expected.tobytes()
        mine = engine.tilt(rows, theta, GRID, CAP), *engine.products(rows)
        assert [s.tolist() for s in mine] == [s.tolist() for s in sums]


def test_images_are_exact_whole_numbers(rng):
    """BLAS has the integers of Python, where the longest rows meet the longest columns."""
    d, n = 512, 9
    rows = rows_of_all_lengths(rng, d, n)
    for kind in MATRICES[:4]:
        a = grid_matrix(rng, d, kind)
        assert cpu_blas._longest_block_row(rows.astype(float)) * cpu_blas._longest_matrix_column(a) <= cpu_blas._REACH
        exact = (a * 2.0**30).astype(np.int64).astype(object).T @ rows.astype(object)
        assert ((a.T @ rows.astype(float)) * 2.0**30).astype(np.int64).tolist() == exact.tolist()


def test_rows_and_matrices_beyond_the_exact_go_one_column_after_another(rng, monkeypatch):
    calls = []
    monkeypatch.setattr(
        cpu_rows, "compiled_whiten_rows", lambda rows, *rest: calls.append(rest) or np.zeros(rows.shape, np.int32)
    )
    rows, signs = rows_of_all_lengths(rng, 64, 5), np.ones(5, np.int8)
    for kind, ordered in (("ones", 0), ("any", 0), ("off the grid", 1), ("large", 1)):
        calls.clear()
        cpu_blas.blas_whiten(rows, grid_matrix(rng, 64, kind), signs, GRID)
        assert len(calls) == ordered
    calls.clear()
    cpu_blas.blas_whiten(rows * 2**8, grid_matrix(rng, 64, "ones"), signs, GRID)  # far beyond the sphere
    assert len(calls) == 1
    for spoilt in (np.nan, np.inf, 1e300, 5e-324):
        a = grid_matrix(rng, 64, "any")
        a[3, 5] = spoilt
        assert cpu_blas._longest_matrix_column(a) * GRID > cpu_blas._REACH


def test_sums_of_products_of_many_rows_are_exact():
    """All as large as can be, and more rows than are summed in float64 at a time."""
    rows = np.full((64, (1 << 16) + 5), -(2**15), dtype=np.int16)
    products, sums = cpu_blas.blas_products(rows)
    assert (products == rows.shape[1] * 2**30).all() and (sums == -rows.shape[1] * 2**15).all()


def test_compiled_code_is_found_by_the_next_process(rng):
    """A kernel that depends on another function through a closure would be compiled again in every process."""
    table = random_table(rng, 100, 5)
    all_four(get_engine("kernel"), *table)
    script = (
        "import numpy as np; from radoboost.holder.engines import get_engine, cpu_rows as kernel_rows, cpu_blas as "
        "kernel_wide;"
        "e, s, a = get_engine('kernel'), np.ones(9, np.int8), np.eye(70);"
        "rows, _ = e.sphere(np.ones((9, 69)), s, -np.ones(69), np.ones(69), 0.5, 2**15);"
        "edges = e.whiten(rows, a, s, 2**15); e.products(edges[:5]);"
        "[e.tilt(edges.astype(kind), np.zeros(70), 2**15, 0.5) for kind in (np.int16, np.int32)];"
        "kernels = [kernel_rows._sphere_kernel('float64', 'C')];"
        "kernels += [kernel_rows._compile_row_products_kernel('int32'), kernel_wide._compile_whitening_finish()];"
        "kernels += [kernel_rows._compile_tilt_kernel('int16'), kernel_rows._compile_tilt_kernel('int32')];"
        "print([sum(kernel.stats.cache_misses.values()) for kernel in kernels])"
    )
    found = [
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
        for _ in range(2)  # the first one may compile
    ]
    assert found[1].strip() == "[0, 0, 0, 0, 0]"
