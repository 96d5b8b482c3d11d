"""The CUDA kernels give the integers of the reference: compiled by g++ here, and by CUDA's compiler where it is."""

import ctypes
import ctypes.util
import importlib
import importlib.util
import math
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cuda_twin
import flat
import radoboost as rb
from radoboost.holder.engines import cuda, cuda_device, get_engine
from radoboost.holder.keystream import SLAB_TILES, TILE_ROWS, make_key
from radoboost.holder.rado_sums import ClassSignatures, FlippedSignatures
from radoboost.holder.signatures import FixedSupport
from radoboost.holder.subset_sampling import AllRows, FairCoins
from radoboost.release.columns import Column, constant_column

REFERENCE = get_engine("reference")
GRID = 1 << 15
LAST_TILE = SLAB_TILES * TILE_ROWS  # rows of a slab


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if cuda_twin.compiler() is None:
        pytest.skip("g++ is not installed, which compiles the kernels for this machine")
    return cuda_twin.build(tmp_path_factory.mktemp("twin"))[0]


@pytest.fixture(scope="module")
def engine(library):
    return cuda.Cuda(cuda_twin.Twin(library))


@pytest.fixture(scope="module")
def plain_engine(library):
    """On a device without a matrix unit."""
    device = cuda_twin.Twin(library)
    device.matrix_unit = False
    return cuda.Cuda(device)


def test_the_numbers_of_the_kernels_are_those_of_the_engine():
    source = cuda_device.cuda_kernel_source()
    written = {name: int(text) for name, text in
               (line.split()[1:3] for line in source.splitlines() if line.startswith("#define"))
               if text.isdigit()}  # fmt: skip
    assert 32 * written["WARPS"] == cuda._BLOCK_THREADS
    assert 16 * written["WARPS"] * written["HEIGHT"] == cuda._BLOCK_RADOS
    assert (written["BLOCKS"], written["STAGES"]) == (cuda._BLOCKS, cuda._STAGES)
    assert written["STAGE_TILES"] == cuda._STAGE_TILES
    assert (written["DOT_GROUPS"], written["DOT_THREADS"]) == (cuda._DOT_GROUPS, cuda._DOT_THREADS)
    assert (written["SNAP_THREADS"], written["ROW_THREADS"]) == (cuda._SNAP_THREADS, cuda._ROW_THREADS)
    assert (written["SUM_COLUMNS"], written["SUM_ROWS"]) == (cuda._SUM_COLUMNS, cuda._SUM_ROWS)
    assert all(f"SUM_KERNEL({groups})" in source for groups in cuda._GROUPS)
    digits = cuda._MOST_BLOCK_TILES * TILE_ROWS * 128
    assert digits < 2**31  # sums of a block fit


# ---- sums


def summed(engine, rows, first_row, prepared, n_rados, n_columns=None):
    totals = engine.totals(n_rados, rows.shape[1] if n_columns is None else n_columns)
    engine.sum_rows(rows, first_row, prepared, totals)
    return totals


SHAPES = [  # rows, columns, rados, first row
    (1, 1, 1, 0),
    (63, 1, 1, 1),
    (64, 29, 2, 0),
    (65, 30, 513, 63),
    (700, 40, 7, LAST_TILE - 330),  # across two slabs, from within a tile
    (640, 10, 1003, LAST_TILE - 320),
    (500, 59, 17, 3 * LAST_TILE + 17),
    (128, 22, 520, LAST_TILE * 40_000),  # far out
    (2600, 16, 3, 5),
    (3000, 5, 12, 64),
]


@pytest.mark.parametrize(("shape", "quarters"), [(shape, (2, 1, 3)[k % 3]) for k, shape in enumerate(SHAPES)])
def test_sums_are_those_of_the_reference(engine, plain_engine, shape, quarters, rng):
    m, d, n, first_row = shape
    rows = rng.integers(-(2**22), 2**22, (m, d), endpoint=True).astype(np.int32)
    rows[rng.random((m, d)) < 0.2] = 2**22
    rows[rng.random((m, d)) < 0.2] = -(2**22)
    prepared = FairCoins(make_key(3), n, quarters)
    expected = summed(REFERENCE, rows, first_row, prepared, n)
    for each in (engine, plain_engine):
        np.testing.assert_array_equal(summed(each, rows, first_row, prepared, n), expected)


def test_sums_of_many_rows_rados_and_columns_are_those_of_the_reference(engine, rng):
    """10,003 rows of 29 columns, in several pieces of scratch, across a slab; the reference has 60 of 1003 rados."""
    m, d, n, first_row = 10_003, 29, 1003, LAST_TILE - 4999
    rows = rng.integers(-(2**22), 2**22, (m, d), endpoint=True).astype(np.int32)
    prepared, some = FairCoins(make_key(0), n, 2), rng.choice(n, 60, replace=False)
    totals = summed(engine, rows, first_row, prepared, n)
    n_tiles = -(-(m + first_row % 64) // 64)
    words = prepared.words(first_row // 64, n_tiles, np.empty((n_tiles, n), np.uint64))[:, some]
    bits = np.unpackbits(words.T.copy().view(np.uint8), bitorder="little").reshape(60, -1)
    bits = bits[:, first_row % 64 :][:, :m]
    np.testing.assert_array_equal(totals[some], bits.astype(np.int64) @ rows.astype(np.int64))
    kernel = summed(get_engine("kernel"), rows, first_row, prepared, n)
    np.testing.assert_array_equal(totals, kernel)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 200), st.integers(1, 61), st.integers(1, 40), st.integers(0, 200), st.booleans())
def test_sums_of_small_shapes(engine, plain_engine, data, m, d, n, offset, unit):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.integers(-(2**22), 2**22, (m, d), endpoint=True).astype(np.int32)
    first_row = data.draw(st.sampled_from([0, LAST_TILE - 100])) + offset
    prepared = FairCoins(make_key(7), n, 2)
    expected = summed(REFERENCE, rows, first_row, prepared, n)
    np.testing.assert_array_equal(summed(engine if unit else plain_engine, rows, first_row, prepared, n), expected)


@pytest.mark.parametrize("first_row", [0, 100])
def test_sums_of_other_signatures(engine, rng, first_row):
    m, d, n = 500, 6, 9
    rows = rng.integers(-(2**22), 2**22, (m, d)).astype(np.int32)
    coins, marked = FairCoins(make_key(1), n, 2), rng.random(m) < 0.3
    for prepared in (
        AllRows(),
        FixedSupport(0.4).prepare(make_key(2), n, 1000),
        FlippedSignatures.over(coins, first_row, marked),
        ClassSignatures.over(coins, first_row, marked),
        ClassSignatures.over(FlippedSignatures.over(AllRows(), first_row, ~marked), first_row, marked),
    ):
        expected = summed(REFERENCE, rows, first_row, prepared, n)
        np.testing.assert_array_equal(summed(engine, rows, first_row, prepared, n), expected)


def test_rows_add_to_what_is_there(engine, rng):
    rows, prepared = rng.integers(-9, 9, (10, 3)).astype(np.int32), FairCoins(make_key(1), 4, 2)
    totals = engine.totals(4, 3)
    totals += 5
    engine.sum_rows(rows, 0, prepared, totals)
    np.testing.assert_array_equal(totals - 5, summed(REFERENCE, rows, 0, prepared, 4))
    engine.sum_rows(rows[:0], 0, prepared, totals)


def test_rows_may_have_further_columns(engine, rng):
    rows, prepared = rng.integers(-9, 9, (70, 16)).astype(np.int32), FairCoins(make_key(1), 4, 2)
    expected = summed(REFERENCE, rows, 0, prepared, 4, 3)
    np.testing.assert_array_equal(summed(engine, rows, 0, prepared, 4, 3), expected)


# ---- snapping


def columns_of(values, scale, bounds=None):
    columns = []
    for k in range(values.shape[1]):
        x = values[:, k].astype(np.float64)
        low, high = (None, None) if bounds is None else bounds
        if bounds is not None:
            x = np.clip(x, low, high)
        if scale == "standard":
            mean, std = float(x.mean()), float(x.std()) or 1.0
            bound = float(np.abs((x - mean) / std).max())
            step = 1.0 if bound == 0 else math.ldexp(1.0, math.frexp(bound)[1] - 22)
            columns.append(Column(f"x{k}", scale, step, low, high, mean, std))
        elif scale == "bounds":
            columns.append(Column(f"x{k}", scale, 2.0**-22, low, high))
        else:
            bound = float(np.abs(x).max())
            columns.append(
                Column(f"x{k}", scale, math.ldexp(1.0, math.frexp(bound)[1] - 22) if bound else 1.0, low, high)
            )
    return [*columns, constant_column(2.0**-22)]


def check_snapped(engine, values, signs, columns):
    """Each row by itself, as a sum of one row, and the counts of what was clipped."""
    expected, clipped = REFERENCE.snap(values, signs, columns)
    rows, counts = engine.snap(values, signs, columns)
    assert len(rows) == len(values)
    np.testing.assert_array_equal(counts, clipped)
    np.testing.assert_array_equal(np.asarray(rows), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("scale", "bounds", "shape"), [
    ("standard", None, (64, 28)), ("standard", (-1.0, 2.0), (130, 29)), ("bounds", (-0.3, 2.1), (1003, 28)),
    ("none", None, (1, 1)), ("none", (-1.0, 1.0), (200, 64)),
])  # fmt: skip
def test_snapped_rows_are_those_of_the_reference(engine, rng, kind, scale, bounds, shape):
    values = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape[1])).astype(kind)
    values[rng.random(shape) < 0.1] = 0.0
    signs = rng.choice(np.array([-1, 1, 0], np.int8), shape[0])
    check_snapped(engine, values, signs, columns_of(values, scale, bounds))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([-1000, -450, -399, -60, -1, 0, 1, 60, 399, 450, 900]), st.booleans())
@example(0, -1000, True)
def test_divisions_are_rounded_as_ieee_says(engine, seed, exponent, zeros):
    """Divisors and numerators of every size, significands near 1 and 2 among them: where corrections are hardest."""
    rng = np.random.default_rng(seed)
    edge = np.concatenate([1 + rng.integers(0, 50, 40) * 2.0**-52, 2 - rng.integers(1, 50, 40) * 2.0**-52])
    x = rng.choice(np.concatenate([edge, rng.uniform(1, 2, 80)]), (130, 3)) * rng.choice([-1.0, 1.0], (130, 3))
    std = float(rng.choice(edge) if seed % 2 else rng.uniform(1, 2)) * 2.0 ** (exponent / 2)
    values = x * 2.0 ** (exponent / 2 + rng.integers(-60, 3))
    values[rng.random(values.shape) < 0.1 * zeros] = 0.0
    bound = float(np.abs(values / std).max())
    step = math.ldexp(1.0, math.frexp(bound)[1] - 22)
    columns = [Column(f"x{k}", "standard", step, None, None, 0.0, std) for k in range(3)]
    check_snapped(engine, values, rng.choice(np.array([-1, 1], np.int8), 130), columns)


@np.errstate(all="ignore")
def test_quotients_are_correctly_rounded_to_the_last_bit(library):
    """Not only up to the grid: a million of them, of every size."""
    rng = np.random.default_rng(5)
    significands = np.concatenate([rng.uniform(1, 2, 900_000), 1 + rng.integers(0, 99, 50_000) * 2.0**-52,
                                   2 - rng.integers(1, 99, 50_000) * 2.0**-52])  # fmt: skip
    a, d = rng.permutation(significands), rng.permutation(significands)
    a, d = np.ldexp(a, rng.integers(-1080, 1023, len(a))), np.ldexp(d, rng.integers(-400, 400, len(d)))
    a[:1000] = 0.0
    quotients = np.empty_like(a)
    library.quotients(*(array.ctypes.data_as(ctypes.c_void_p) for array in (a, d, quotients)), ctypes.c_long(len(a)))
    np.testing.assert_array_equal(quotients, a / d)


# ---- the rows of moments


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(0, 600), st.integers(1, 40), st.sampled_from([np.float32, np.float64]),
       st.sampled_from([None, 0.5, 0.0]), st.sampled_from("CF"))  # fmt: skip
def test_rows_on_the_sphere(engine, data, n, f, kind, constant, order):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.normal(size=(n, f)) * 3
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-40, 3e38]
    values = np.where(rng.random((n, f)) < 0.02, rng.choice(odd, (n, f)), values)
    with np.errstate(over="ignore"):
        values = np.array(values, dtype=kind, order=order)
    limits = [(-3.0, 3.0), (0.0, 1.0), (1e-320, 2e-320), (-1e300, 5.0), (7.0, 7.000001), (2.0, 2.0)]
    low, high = np.array([limits[k] for k in rng.integers(0, len(limits), f)]).T.copy()
    signs = rng.choice(np.array([-1, 0, 1, 1], np.int8), n)
    for made, expected in zip(engine.sphere(values, signs, low, high, constant, GRID),
                              REFERENCE.sphere(values, signs, low, high, constant, GRID), strict=True):  # fmt: skip
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)


def short_rows(rng, d, n, kind):
    rows = rng.normal(size=(d, n))
    rows[1:, rng.random(n) < 0.1] = 0.0
    return np.trunc(rows / np.sqrt((rows * rows).sum(axis=0)) * (GRID - 1)).astype(kind)


kinds = st.sampled_from([np.int16, np.int32])


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(0, 600), st.integers(1, 21), kinds)
def test_whitened_rows(engine, data, n, d, kind):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows, signs = short_rows(rng, d, n, kind), rng.choice(np.array([-1, 0, 1, 1], np.int8), n)
    a = rng.normal(size=(d, d))
    odd = data.draw(st.sampled_from([None, 0.0, 5e-324, 1e-160, 1e200, math.inf, math.nan]))
    if odd is not None:
        a[rng.random((d, d)) < 0.3] = odd
    made, expected = engine.whiten(rows, a, signs, GRID), REFERENCE.whiten(rows, a, signs, GRID)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


def test_rows_are_whitened_in_several_lots(engine, rng, monkeypatch):
    rows, a = short_rows(rng, 3, 1000, np.int16), rng.normal(size=(3, 3))
    monkeypatch.setattr(cuda, "_WHITEN_BYTES", 8 * 3 * 300)
    signs = rng.choice(np.array([-1, 1], np.int8), 1000)
    np.testing.assert_array_equal(engine.whiten(rows, a, signs, GRID), REFERENCE.whiten(rows, a, signs, GRID))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(0, 600), st.integers(1, 21), kinds, st.sampled_from([0.5, 1.0, 0.3]))
def test_mean_rados(engine, data, n, d, kind, cap):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows, info = short_rows(rng, d, n, kind), np.iinfo(kind)
    edge = np.array([info.min, info.max, 2**15 - 1, min(2**24 + 1, info.max)])
    rows = np.where(rng.random((d, n)) < 0.01, rng.choice(edge, (d, n)), rows).astype(kind)
    theta = rng.normal(size=d) * data.draw(st.sampled_from([0.1, 3.0, 50.0, 2.0**30]))
    odd = data.draw(st.sampled_from([None, None, math.inf, math.nan, 1e300]))
    if odd is not None:
        theta[0] = odd
    made, expected = engine.tilt(rows, theta, GRID, cap), REFERENCE.tilt(rows, theta, GRID, cap)
    assert made.dtype == expected.dtype and made.tolist() == expected.tolist()


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(0, 400), st.integers(1, 40), kinds)
def test_sums_of_products(engine, data, n, d, kind):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.integers(-(2**15), min(2**15, np.iinfo(kind).max), (d, n), endpoint=True).astype(kind)
    for made, expected in zip(engine.products(rows), REFERENCE.products(rows), strict=True):
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)


# ---- releases


@pytest.mark.parametrize(
    "options",
    [{}, {"mechanism": rb.FeatureBand("x2", 3.0)}],
)
def test_releases_have_the_same_bits(engine, options, rng):
    x, y = rng.normal(size=(500, 3)), rng.integers(0, 2, 500)
    x[:, 2] = rng.integers(0, 2, 500)
    one, other = (
        flat.craft(x, y, n_rados=60, seed=1, engine=each, threads=1, **options) for each in ("kernel", engine)
    )
    assert {name: rows.tobytes() for name, rows in one.blocks.items()} == {
        name: rows.tobytes() for name, rows in other.blocks.items()
    }


# ---- where there is no device


def test_without_cupy_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda_device._cuda_device_of_number.cache_clear()
    with pytest.raises(rb.ArgumentError, match="CuPy") as caught:
        get_engine("cuda")
    assert "\n" not in str(caught.value)
    assert not cuda_device.may_have_cuda_device()


def test_without_a_device_one_line_says_so(monkeypatch):
    class Broken:
        class cuda:
            class runtime:
                @staticmethod
                def getDeviceCount():
                    raise RuntimeError("cudaErrorNoDevice:\n no CUDA-capable device is detected")

    monkeypatch.setitem(sys.modules, "cupy", Broken)
    cuda_device._cuda_device_of_number.cache_clear()
    with pytest.raises(rb.ArgumentError, match="no CUDA-capable device is detected") as caught:
        rb.craft(np.eye(9), [0, 1] * 4 + [0], compute=rb.Compute(engine="cuda"))
    assert "\n" not in str(caught.value)


def test_the_engine_can_be_pickled_and_nothing_imports_cupy(engine):
    other = pickle.loads(pickle.dumps(engine))
    assert isinstance(other, cuda.Cuda) and other.__dict__ == {"_held": None}
    code = "import sys, radoboost.holder.engines.cuda; assert not {'cupy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_engines_are_refused_with_all_names():
    with pytest.raises(rb.ArgumentError, match="kernel, reference, cuda; it is 'gpu'"):
        get_engine("gpu")


# ---- CUDA's own compiler


@pytest.mark.parametrize(
    "architecture", [90, pytest.param(75, marks=pytest.mark.slow), pytest.param(80, marks=pytest.mark.slow)]
)
def test_a_cubin_is_built(architecture, tmp_path):
    """By NVRTC, which is what CuPy calls, or by nvcc."""
    source = cuda_device.cuda_kernel_source()
    library = find_nvrtc()
    if library is not None:
        cubin = compile_by_nvrtc(library, source, architecture)
    elif (nvcc := shutil.which("nvcc")) is not None:
        (tmp_path / "kernels.cu").write_text(source)
        command = [nvcc, *cuda_device.OPTIONS, f"-arch=sm_{architecture}", "-cubin", "kernels.cu", "-o", "kernels"]
        subprocess.run(command, check=True, cwd=tmp_path)
        cubin = (tmp_path / "kernels").read_bytes()
    else:
        pytest.skip("neither NVRTC (pip install nvidia-cuda-nvrtc-cu12) nor nvcc is installed")
    assert cubin[:4] == b"\x7fELF"
    for name in ("snap_float32", "digits_float64", "keystream", "sum_tiles_11", "sum_dots", "tilt_int16"):
        assert name.encode() in cubin


def find_nvrtc():
    try:
        found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        found = None
    names = [] if found is None else [path for place in found.submodule_search_locations or ()
                                      for path in Path(place).glob("lib/libnvrtc.so.*")]  # fmt: skip
    name = str(names[0]) if names else ctypes.util.find_library("nvrtc")
    return None if name is None else ctypes.CDLL(name)


def compile_by_nvrtc(library, source, architecture):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [option.encode() for option in (*cuda_device.OPTIONS, f"--gpu-architecture=sm_{architecture}")]
    made = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    assert made == 0
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert failed == 0, log.value.decode()
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    return cubin.raw
