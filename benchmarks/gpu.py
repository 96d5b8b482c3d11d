# ruff: noqa: E402
"""Rados on a GPU, against PyTorch on the same one: from tensors there to a release, and the kernels alone.

    python benchmarks/gpu.py [--rows 11000000] [--repeats 20] [--variants] [--out FOLDER]
    python benchmarks/gpu.py --releases [--out FOLDER]

First the whole of `rb.craft` is timed, on tables of several shapes: X and y as tensors on the device, as arrays in
memory, and as a Parquet file. The release of some of the rows is compared with that of the engine `reference`. The
peers draw bits with PyTorch's generator and multiply in bfloat16, in pieces of several sizes of which the fastest
counts: (a) `bernoulli_`, (b) random words that compiled code unpacks. They neither read labels, nor standardise, nor
snap, and their sums are rounded.

Then the kernels: the engine `cuda` is compared with the engine `reference` on shapes that cross tiles, slabs and
panels, and timed on 28 columns of several laws, standardised by what they are, and the constant. Some rados of the
timed sums are computed again in NumPy. Exits with 1 where we are slower than we mean to be, or sums differ.

Last, the two passes of a plain release run through the runner `ThreadRunner`, from a tensor on the device and, for the
second, from an array in memory, whose rows go through pinned buffers; their sums are compared with the engine's own,
and the exact statistics of two columns with those of the engine `reference`. The engine `kernel` is timed beside it
where numba and `cryptography` are, from memory: the number of rados from which on a GPU pays can be read off there.

`--releases` times nothing: it crafts whole releases of every mechanism on the device, and compares them bit by bit with
those of the engine `reference` (`gpu_releases.py`).

`--variants` times other constants of the kernels too. It needs CuPy and PyTorch, and of our own libraries NumPy,
pyarrow and psutil only (`PYTHONPATH=src` will do): where `cryptography` is not installed, ChaCha20 in NumPy stands in.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import re
import statistics
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import measuring
from chacha import chacha_blocks, stand_in_for_cryptography
from measuring import keep, shortfalls

N_FEATURES = 28
CRAFTS = [  # rows, columns, rados; the most milliseconds of a whole release, and the least ratio to the faster peer
    ((11_000_000, 28, 1000), 13.0, 2.0),
    ((1_000_000, 28, 1000), 4.0, 0.0),
    ((1_000_000, 500, 1000), None, 1.0),
    ((2_000_000, 100, 5000), None, 1.0),
]
MOST_MS = {1000: 8.0, 10_000: 60.0}
LEAST_RATIO = 3.0
_CHECKED = 200_003  # rows whose exact sums are taken in Python
PIECES = (1 << 16, 1 << 18, 1 << 20)  # rows that a peer takes at a time
LAST_TILE = 65536 * 64
SHAPES = [  # rows, columns, rados, first row: ends of tiles, slabs, panels of columns and blocks of rados
    (1, 1, 1, 0),
    (63, 1, 1, 1),
    (64, 29, 2, 0),
    (65, 30, 513, 63),
    (700, 40, 7, LAST_TILE - 330),
    (640, 10, 1003, LAST_TILE - 320),
    (500, 59, 17, 3 * LAST_TILE + 17),
    (10_003, 29, 1003, LAST_TILE - 4999),
    (5000, 200, 100, 12),
]
VARIANTS = [  # constants of cuda_sums.cu
    {"HEIGHT": 2, "WARPS": 16},
    {"HEIGHT": 2, "WARPS": 8, "BLOCKS": 2},
    {"HEIGHT": 3, "WARPS": 8},
    {"STAGES": 4, "STAGE_TILES": 2},
    {"STAGES": 3, "STAGE_TILES": 4},
    {"STAGES": 2, "STAGE_TILES": 8},
    {"WARPS": 4, "BLOCKS": 2},
    {"STAGES": 6, "STAGE_TILES": 1},
]

STANDS_IN = importlib.util.find_spec("cryptography") is None
if STANDS_IN:
    stand_in_for_cryptography()
try:
    importlib.metadata.version("radoboost")
except importlib.metadata.PackageNotFoundError:  # not installed: the checkout's folder src is enough here
    of_others = importlib.metadata.version
    importlib.metadata.version = lambda name: "of a checkout" if name == "radoboost" else of_others(name)

import radoboost as rb
from radoboost.holder.engines import (
    cuda,
    cuda_device,
    get_engine,
    has_numba,
)
from radoboost.holder.engines.reference import reference_exact_sums
from radoboost.holder.grid import grid_edge_vectors, grid_step, make_grid_columns
from radoboost.holder.keystream import (
    SLAB_TILES,
    TILE_ROWS,
    make_key,
)
from radoboost.holder.rado_sums import (
    ClassSignatures,
    SumRados,
    SurveyRows,
)
from radoboost.holder.runners.threads import ThreadRunner
from radoboost.holder.subset_sampling import (
    AllRows,
    FairCoins,
)
from radoboost.release.columns import (
    Column,
    constant_column,
)
from radoboost.tables import open_table
from radoboost.tables.labels import LabelCollector

KEY = make_key(0)


# ---- the same integers


def check_shapes(engine):
    """What differs from the reference, in words; nothing should."""
    reference, rng, wrong = get_engine("reference"), np.random.default_rng(1), []
    for m, d, n, first in SHAPES:
        rows = rng.integers(-(2**22), 2**22, (m, d), endpoint=True).astype(np.int32)
        rows[rng.random((m, d)) < 0.1] = -(2**22)
        coins = FairCoins(KEY, n, 2)
        sets = {"coins": coins, "within": ClassSignatures.over(coins, first, rng.random(m) < 0.5), "all": AllRows(),
                "quarters": FairCoins(KEY, n, 1), "three quarters": FairCoins(KEY, n, 3)}  # fmt: skip
        for name, prepared in sets.items():
            totals = [each.totals(n, d) for each in (reference, engine)]
            for each, total in zip((reference, engine), totals, strict=True):
                each.sum_rows(rows, first, prepared, total)
            if not np.array_equal(*totals):
                wrong.append(f"sums of {m} x {d} x {n} from row {first} with {name}")
    wrong += check_survey(engine, reference, rng)
    return wrong + check_snapping(engine, reference, rng) + check_rows(engine, reference, rng)


def check_survey(engine, reference, rng):
    """Exact statistics of values on the device, of many sizes, so that not all of them fit digits."""
    wrong = []
    for kind, d in ((np.float32, 40), (np.float64, 40), (np.float64, 300)):
        values = (rng.normal(size=(3001, d)) * 2.0 ** rng.integers(-30, 4, (3001, d))).astype(kind)
        low, high = np.full(d, -np.inf), np.full(d, 4.0)
        found = []
        for each, its in ((reference, values), (engine, engine._device.put(values))):
            survey = each.survey(low, high, moments=True)
            assert survey.add(its)
            found.append(survey.result())
        one, other = found
        if (one.n_rows, one.sums, one.squares) != (other.n_rows, other.sums, other.squares) or not (
            np.array_equal(one.lowest, other.lowest) and np.array_equal(one.highest, other.highest)
        ):
            wrong.append(f"exact statistics of {d} columns of {kind.__name__}")
    return wrong


def check_snapping(engine, reference, rng):
    wrong = []
    for kind in (np.float32, np.float64):
        for bounds in ((None, None), (-1.5, 2.0)):
            values = made_values(rng, 5003, 40).astype(kind)
            signs = rng.choice(np.array([-1, 1], np.int8), len(values))
            columns = columns_of(np.clip(values, *bounds) if bounds[0] else values, *bounds)
            sums, counts = [], []
            for each in (reference, engine):
                total, (rows, clipped) = each.totals(70, len(columns)), each.snap(values, signs, columns)
                each.sum_rows(rows, 64, FairCoins(KEY, 70, 2), total)
                sums.append(total)
                counts.append(clipped)
            if not np.array_equal(*sums) or not np.array_equal(*counts):
                wrong.append(f"snapped values of {kind.__name__} within {bounds}")
    return wrong


def check_rows(engine, reference, rng):
    """The row kernels of moments."""
    n, f, grid, wrong = 10_007, 45, 1 << 15, []
    values, signs = rng.normal(size=(n, f)) * 3, rng.choice(np.array([-1, 0, 1], np.int8), n)
    values[rng.random((n, f)) < 0.001] = np.nan
    low, high = np.full(f, -3.0), np.linspace(1.0, 4.0, f)
    a, theta = rng.normal(size=(f + 1, f + 1)), rng.normal(size=f + 1) * 3
    for kind in (np.float32, np.float64):
        made = [each.sphere(values.astype(kind), signs, low, high, 0.5, grid) for each in (reference, engine)]
        if not all(np.array_equal(x, y) for x, y in zip(*made, strict=True)):
            wrong.append(f"rows on the sphere, of {kind.__name__}")
    rows = made[0][0]
    white = [each.whiten(rows, a, signs, grid) for each in (reference, engine)]
    if not np.array_equal(*white):
        wrong.append("whitened rows")
    for rows in (white[0], np.minimum(white[0], 2**15 - 1).astype(np.int16)):
        if not np.array_equal(*(each.tilt(rows, theta, grid, 0.5) for each in (reference, engine))):
            wrong.append(f"mean rados of {rows.dtype}")
        made = [each.products(rows) for each in (reference, engine)]
        if not all(np.array_equal(x, y) for x, y in zip(*made, strict=True)):
            wrong.append(f"products of {rows.dtype}")
    return wrong


# ---- the table


def made_values(rng, m, d):
    """Columns of several laws and sizes, as float32."""
    values = rng.standard_normal((m, d), dtype=np.float32)
    values[:, 1::4] = np.exp(values[:, 1::4])
    values[:, 2::4] = np.rint(3 * values[:, 2::4])
    values[:, 3::4] = 1000 + 25 * values[:, 3::4]
    return values


def columns_of(values, low=None, high=None):
    """Columns standardised by their means and deviations, whose steps hold all values, and the constant."""
    columns = []
    for k in range(values.shape[1]):
        x = values[:, k].astype(np.float64)
        mean, std = float(x.mean()), float(x.std()) or 1.0
        bound = max(abs(x.min() - mean), abs(x.max() - mean)) / std
        columns.append(Column(f"x{k}", "standard", grid_step(float(bound), f"x{k}"), low, high, mean, std))
    return (*columns, constant_column(2.0**-22))


def rados_by_numpy(values, signs, columns, n_rados, rados):
    """Some rados of the whole table: integers by `edge_integers`, bits by ChaCha20 in NumPy."""
    total, step = np.zeros((len(rados), len(columns)), np.int64), SLAB_TILES * TILE_ROWS // 16
    for start in range(0, len(values), step):
        rows = grid_edge_vectors(values[start : start + step], signs[start : start + step], columns).astype(np.int64)
        slab, first = divmod(start // TILE_ROWS, SLAB_TILES)
        place = (first + np.arange(-(-len(rows) // TILE_ROWS)))[:, None] * n_rados + np.asarray(rados)
        nonce = bytes(4) + slab.to_bytes(8, "little")
        words = chacha_blocks(KEY, nonce, place.ravel() // 8).astype("<u4").view("<u8")
        words = words[np.arange(place.size), place.ravel() % 8].reshape(place.shape)
        bits = np.unpackbits(np.ascontiguousarray(words.T).view(np.uint8), bitorder="little").reshape(len(rados), -1)
        for k in range(len(rados)):
            total[k] += rows[bits[k, : len(rows)] == 1].sum(axis=0)
    return total


# ---- times


def median_ms(work, repeats):
    """Each time until the device is done; the first two, which compile and allocate, do not count."""
    import torch

    times = []
    for turn in range(repeats + 2):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if turn >= 2:
            times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


class Watched:
    """A device that notes how long each kernel takes."""

    def __init__(self, device):
        self._device, self._events = device, []

    def __getattr__(self, name):
        return getattr(self._device, name)

    def launch(self, name, *arguments):
        import cupy

        events = cupy.cuda.Event(), cupy.cuda.Event()
        events[0].record()
        self._device.launch(name, *arguments)
        events[1].record()
        self._events.append((re.sub(r"_\d+$", "", name), *events))

    def milliseconds(self):
        import cupy

        cupy.cuda.Device().synchronize()
        total = {}
        for name, begun, ended in self._events:
            total[name] = total.get(name, 0.0) + cupy.cuda.get_elapsed_time(begun, ended)
        self._events.clear()
        return {name: round(ms, 3) for name, ms in total.items()}


def ours(engine, x, y, columns, n_rados):
    rows, _ = engine.snap(x, y, columns)
    totals = engine.totals(n_rados, len(columns))
    engine.sum_rows(rows, 0, FairCoins(KEY, n_rados, 2), totals)
    return totals


# ---- passes over a table


def survey(engine, source):
    """The first pass of a plain release, and what it says of columns and labels."""
    endless = np.full(len(source.features), np.inf)
    labels = LabelCollector("y", None)
    sums = ThreadRunner().run(SurveyRows(engine, -endless, endless, labels, True, source.features), source)
    return (
        sums.exact,
        make_grid_columns(source.features, "standard", {}, sums.exact, intercept=True),
        sums.labels.settle(),
    )


def summed(engine, source, columns, rule, n_rados):
    """The second pass."""
    return ThreadRunner().run(SumRados(engine, columns, rule, n_rados, FairCoins(KEY, n_rados, 2)), source).totals


def time_passes(engine, x, values, signs, all_rados, repeats):
    """Both passes from the device, the second from memory too: milliseconds, and what is wrong with their sums."""
    there, here, wrong = open_table(x, signs), open_table(values, signs), []
    few = values[:_CHECKED]  # exact sums of more take long in Python
    exact = survey(engine, open_table(x[:_CHECKED], signs[:_CHECKED]))[0]
    right = [(exact.sums[k], exact.squares[k]) == reference_exact_sums(few[:, k].astype(np.float64)) for k in (0, 1)]
    if not all(right):
        wrong.append("exact sums of the first columns")
    _, columns, rule = survey(engine, there)
    found = {"survey from the device": round(median_ms(lambda: survey(engine, there), repeats), 3), "sums": {}}
    for n_rados in all_rados:
        works = {"from the device": lambda n=n_rados: summed(engine, there, columns, rule, n),
                 "from memory": lambda n=n_rados: summed(engine, here, columns, rule, n)}  # fmt: skip
        if has_numba() and not STANDS_IN:  # the keystream would take most of the time
            works["kernel, from memory"] = lambda n=n_rados: summed(get_engine("kernel"), here, columns, rule, n)
        expected, times = ours(engine, x, signs, columns, n_rados), {}
        for name, work in works.items():
            if not np.array_equal(work(), expected):
                wrong.append(f"sums of {n_rados} rados {name} by the runner")
            times[name] = round(median_ms(work, repeats), 3)
            print(f"  {n_rados} rados {name}, by the runner: {times[name]:.1f} ms", flush=True)
        found["sums"][n_rados] = times
    return found, wrong


def by_bernoulli(x, y, n_rados, piece):
    import torch

    member = torch.empty((n_rados, piece), dtype=torch.bfloat16, device=x.device)
    total = torch.zeros((n_rados, x.shape[1]), device=x.device)
    for start in range(0, len(x), piece):
        edges = (x[start : start + piece] * y[start : start + piece, None]).to(torch.bfloat16)
        total += member[:, : len(edges)].bernoulli_(0.5) @ edges
    return total


def by_words(unpack, x, y, n_rados, piece):
    import torch

    words = torch.empty((n_rados, piece // 32), dtype=torch.int32, device=x.device)
    total = torch.zeros((n_rados, x.shape[1]), device=x.device)
    for start in range(0, len(x), piece):
        edges = (x[start : start + piece] * y[start : start + piece, None]).to(torch.bfloat16)
        total += unpack(words.random_(-(2**31), 2**31 - 1))[:, : len(edges)] @ edges
    return total


def unpacked(words):
    import torch

    bits = words[:, :, None] >> torch.arange(32, dtype=torch.int32, device=words.device)
    return (bits & 1).to(torch.bfloat16).flatten(1)


def peers(x, y, n_rados, repeats):
    """The fastest piece of each peer, in milliseconds, and by how many deviations the mean of its sums is off."""
    import torch

    signs, unpack = y.to(torch.float32), torch.compile(unpacked, dynamic=False)
    works = {"bernoulli_ and bf16 product": lambda piece: by_bernoulli(x, signs, n_rados, piece),
             "compiled unpacking of words": lambda piece: by_words(unpack, x, signs, n_rados, piece)}  # fmt: skip
    times, expected = {}, (x * signs[:, None]).sum(axis=0, dtype=torch.float64) / 2
    spread = ((x.to(torch.float64) ** 2).sum(axis=0) / 4).sqrt()
    for name, work in works.items():
        pieces = {}
        for piece in PIECES:
            pieces[piece] = median_ms(lambda work=work, piece=piece: work(piece), max(3, repeats // 4))
        best = min(pieces, key=pieces.get)
        off = ((work(best).to(torch.float64).mean(axis=0) - expected).abs() / spread).max()
        ms = median_ms(lambda work=work, best=best: work(best), repeats)
        times[name] = {"ms": round(ms, 3), "rows at a time": best, "off by deviations": round(float(off), 3)}
    return times


# ---- whole releases


def time_craft(shape, watched, repeats):
    """The whole of `rb.craft` on one table, beside the peers' sums, and what is wrong with it."""
    import torch

    m, d, n_rados = shape
    generator = torch.Generator(device="cuda").manual_seed(0)
    x = torch.randn((m, d), generator=generator, device="cuda") * (1 + torch.arange(d, device="cuda") % 5) + 3
    y = (torch.rand(m, generator=generator, device="cuda") < 0.4).to(torch.int64)
    craft = partial(rb.craft, n_rados=n_rados, seed=1, progress=False)
    few = slice(0, 3 * SLAB_TILES)
    one, other = (craft(x[few], y[few], compute=rb.Compute(engine=engine)) for engine in ("cuda", "reference"))
    wrong = not np.array_equal(one.rados, other.rados) or one.columns != other.columns
    found = {"from the device ms": round(median_ms(partial(craft, x, y), repeats), 3)}
    watched._device.milliseconds()
    craft(x, y, compute=rb.Compute(engine=watched))
    found["kernels ms"] = watched._device.milliseconds()
    found["peers"] = peers(x, 2 * y - 1, n_rados, repeats)
    best = min(peer["ms"] for peer in found["peers"].values())
    found["times faster than the faster peer"] = round(best / found["from the device ms"], 2)
    if d == N_FEATURES:
        turns, here, labels = max(3, repeats // 4), x.cpu().numpy(), y.cpu().numpy()
        found["from memory ms"] = round(median_ms(partial(craft, here, labels, engine="cuda"), turns), 3)
        with tempfile.TemporaryDirectory() as folder:
            columns = {f"x{k}": np.ascontiguousarray(here[:, k]) for k in range(d)}
            pq.write_table(pa.table({**columns, "ill": labels}), file := Path(folder) / "table.parquet")
            found["from Parquet ms"] = round(median_ms(partial(craft, file, label="ill", engine="cuda"), turns), 3)
    return found, [f"a release of some rows of {m} x {d} x {n_rados}"] if wrong else []


def time_crafts(watched, repeats):
    """Whole releases of tables of several shapes; what falls short, and what is wrong."""
    times, short, wrong = {}, [], []
    for shape, most, least in CRAFTS:
        name = " x ".join(map(str, shape))
        times[name], more = time_craft(shape, watched, repeats)
        print(f"{name}: {times[name]}", flush=True)
        wrong += more
        ms, ratio = (times[name][key] for key in ("from the device ms", "times faster than the faster peer"))
        if most is not None and ms > most:
            short.append(f"rb.craft of {name} takes {ms} ms, not {most}")
        if ratio < least:
            short.append(f"rb.craft of {name} is {ratio} times as fast as PyTorch, not {least}")
    return times, short, wrong


# ---- other constants of the kernels


def variant(numbers, device):
    """An engine whose kernels were compiled with other constants; the module's own numbers follow."""
    source = cuda_device.cuda_kernel_source()
    for name, value in numbers.items():
        source, count = re.subn(rf"(?m)^#define {name} \d+", f"#define {name} {value}", source)
        assert count == 1, name
    has = {name: int(re.search(rf"(?m)^#define {name} (\d+)", source)[1])
           for name in ("WARPS", "HEIGHT", "STAGES", "STAGE_TILES", "BLOCKS")}  # fmt: skip
    cuda._BLOCK_RADOS, cuda._BLOCK_THREADS = 16 * has["WARPS"] * has["HEIGHT"], 32 * has["WARPS"]
    cuda._STAGES, cuda._STAGE_TILES, cuda._BLOCKS = has["STAGES"], has["STAGE_TILES"], has["BLOCKS"]
    import cupy

    other = object.__new__(cuda_device.CupyDevice)
    other.__dict__.update(device.__dict__)
    other._module, other._kernels = cupy.RawModule(code=source, options=cuda_device.OPTIONS), {}
    return cuda.Cuda(other)


def time_variants(x, y, columns, n_rados, expected, repeats):
    found, device = [], cuda_device.current_cuda_device()
    for numbers in [{}, *VARIANTS]:
        try:
            engine = variant(numbers, device)
            right = bool(np.array_equal(ours(engine, x, y, columns, n_rados), expected))
            ms = median_ms(lambda engine=engine: ours(engine, x, y, columns, n_rados), repeats)
        except Exception as error:  # too much shared memory, say: that is a finding too
            found.append({"constants": numbers, "failed": str(error)[:200]})
        else:
            found.append({"constants": numbers, "ms": round(ms, 3), "right": right})
        print("  ", found[-1], flush=True)
    variant({}, device)
    for megabytes in (32, 128, 512, 1536, 4096):
        device.scratch_bytes, before = megabytes << 20, device.scratch_bytes
        ms = median_ms(lambda: ours(cuda.Cuda(), x, y, columns, n_rados), repeats)
        device.scratch_bytes = before
        found.append({"scratch MB": megabytes, "ms": round(ms, 3)})
        print("  ", found[-1], flush=True)
    return found


# ---- all of it


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--variants", action="store_true", help="time other constants of the kernels too")
    parser.add_argument(
        "--releases", action="store_true", help="compare whole releases with the reference, and no more"
    )
    parser.add_argument("--out", default=os.environ.get("OUT"), help="a folder for gpu.json")
    options = parser.parse_args()
    import cupy
    import torch

    if options.out:
        measuring.RESULTS = Path(options.out)
    versions = {"CuPy": cupy.__version__, "PyTorch": torch.__version__}
    if options.releases:
        import gpu_releases

        gpu_releases.run(torch.cuda.get_device_name(), versions)
        return
    warnings.simplefilter("ignore")  # a seeded release says that it is one
    begun = time.perf_counter()
    engine = cuda.Cuda()
    compiled = time.perf_counter() - begun
    name = torch.cuda.get_device_name()
    print(f"{name}, CuPy {cupy.__version__}, PyTorch {torch.__version__}; compiling took {compiled:.1f} s", flush=True)
    watched = cuda.Cuda(Watched(cuda_device.current_cuda_device()))
    crafts, short, wrong = time_crafts(watched, options.repeats)
    wrong += check_shapes(engine)
    print("against the reference:", "; ".join(wrong) or "all sums and rows are equal", flush=True)

    rng = np.random.default_rng(0)
    values = made_values(rng, options.rows, N_FEATURES)
    signs = rng.choice(np.array([-1, 1], np.int8), options.rows)
    columns = columns_of(values)
    x, y = torch.from_numpy(values).cuda(), torch.from_numpy(signs).cuda()
    results = {
        "device": name,
        "versions": versions,
        "rows": options.rows,
        "compile seconds": round(compiled, 2),
        "crafts": crafts,
        "times": {},
    }
    for n_rados, most in MOST_MS.items():
        totals = ours(engine, x, y, columns, n_rados)
        some = sorted(rng.choice(n_rados, 6, replace=False).tolist())
        if not np.array_equal(totals[some], rados_by_numpy(values, signs, columns, n_rados, some)):
            wrong.append(f"{options.rows} rows, {n_rados} rados: NumPy has others")
        ms = median_ms(lambda n=n_rados: ours(engine, x, y, columns, n), options.repeats)
        ours(watched, x, y, columns, n_rados)
        watched._device.milliseconds()
        ours(watched, x, y, columns, n_rados)
        found = {"ours ms": round(ms, 3), "kernels ms": watched._device.milliseconds()}
        print(f"{n_rados} rados: {ms:.2f} ms (at most {most}); by kernel {found['kernels ms']}", flush=True)
        if ms > most and options.rows >= 11_000_000:
            short.append(f"{n_rados} rados take {ms:.2f} ms, not {most}")
        results["times"][n_rados] = found
    n_rados = min(MOST_MS)
    found = results["times"][n_rados]
    if options.variants:
        totals = ours(engine, x, y, columns, n_rados)
        found["variants"] = time_variants(x, y, columns, n_rados, totals, max(5, options.repeats // 2))
    keep("gpu", results)  # should a peer fail
    found["peers"] = peers(x, y, n_rados, options.repeats)
    best = min(peer["ms"] for peer in found["peers"].values())
    ratio = found["times faster than the faster peer"] = round(best / found["ours ms"], 2)
    for peer, its in found["peers"].items():
        print(f"  {peer}: {its['ms']:.2f} ms in pieces of {its['rows at a time']} rows", flush=True)
    print(f"{ratio} times faster than the faster one (at least {LEAST_RATIO})", flush=True)
    if ratio < LEAST_RATIO:
        short.append(f"{ratio} times faster than PyTorch, not {LEAST_RATIO}")
    keep("gpu", results)
    results["passes"], more = time_passes(engine, x, values, signs, MOST_MS, max(3, options.repeats // 4))
    print("a table's passes, in ms:", results["passes"], flush=True)
    wrong += more
    results["wrong"] = wrong
    keep("gpu", results)
    shortfalls([f"wrong: {each}" for each in wrong] + short)


if __name__ == "__main__":
    main()
