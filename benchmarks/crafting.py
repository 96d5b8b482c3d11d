"""Crafting against NumPy and BLAS: from the caller's float32 array to the rados, as ratios in one run.

    python benchmarks/crafting.py [--repeats 5]

The peer draws bits with NumPy, turns them into float32 and multiplies with BLAS, in chunks of 1024 to 16384
rows; the fastest chunk counts. It neither standardises nor snaps to a grid, and its sums are float32: we do all
of it, exactly. Exits with 1 where we are less fast than we mean to be.
"""

import argparse
import functools
import os
import subprocess
import sys
import tempfile

import numpy as np

import radoboost as rb
from measuring import keep, shortfalls, side_by_side

CHUNKS = (1024, 2048, 4096, 8192, 16384)
CASES = [  # rows, features, rados, how many times faster than the peer we mean to be
    (1_000_000, 28, 1000, 3.0),
    (100_000, 28, 10_000, 6.0),
    (1_000_000, 5, 1000, 1.3),
    (200_000, 100, 1000, 1.3),
    (100_000, 500, 1000, 1.3),
    (1_000_000, 28, 100, 1 / 1.2),
]
MOST_COMPILING = 1.0  # seconds that the first craft of a second process may take longer than the next


def blas_rados(x, y, n_rados, chunk):
    """The same sums with NumPy's bits and float32 BLAS."""
    generator = np.random.SFC64(0)
    rados = np.zeros((n_rados, x.shape[1]))
    member = np.empty((n_rados, chunk), dtype=np.float32)
    for start in range(0, len(x), chunk):
        edges = x[start : start + chunk] * y[start : start + chunk, None]
        words = generator.random_raw(n_rados * chunk // 64).view(np.uint8).reshape(n_rados, chunk // 8)
        np.copyto(member, np.unpackbits(words, axis=1))
        rados += member[:, : len(edges)] @ edges
    return rados


def compare(m, d, n, repeats):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, d), dtype=np.float32)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), m)
    signs = y.astype(np.float32)
    contenders = {
        "standard": lambda: rb.craft(x, y, n_rados=n),
        "unscaled": lambda: rb.craft(x, y, n_rados=n, mechanism=rb.Plain(scale=None)),
        **{f"blas {chunk}": functools.partial(blas_rados, x, signs, n, chunk) for chunk in CHUNKS},
    }
    return side_by_side(contenders, repeats)


def second_process():
    """Seconds to import numba, and that a first craft then costs more than the next: compiling, and from the cache."""
    code = (
        "import time, numpy as np, radoboost as rb\n"
        "t = time.perf_counter(); import numba; numba_s = time.perf_counter() - t\n"
        "x, y = np.random.default_rng(0).random((200, 28), dtype=np.float32), [0, 1] * 100\n"
        "def timed():\n"
        "    t = time.perf_counter(); rb.craft(x, y, n_rados=1000); return time.perf_counter() - t\n"
        "print(numba_s, timed() - timed())\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        run = functools.partial(
            subprocess.run,
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            check=True,
            capture_output=True,
            text=True,
        )
        first, second = ([float(word) for word in run().stdout.split()] for _ in range(2))
        return first[1], second[1], second[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    heads = ("ours s", 9), ("blas s", 9), ("chunk", 8), ("ratio", 8), ("wanted", 8), ("unscaled", 10)
    print(f"{'rows x features -> rados':<32}" + "".join(f"{head:>{width}}" for head, width in heads))
    results = []
    for m, d, n, wanted in CASES:
        times = compare(m, d, n, repeats)
        chunk = min(CHUNKS, key=lambda c: times[f"blas {c}"])
        ours, peer = times["standard"], times[f"blas {chunk}"]
        ratio, unscaled = peer / ours, peer / times["unscaled"]
        verdict = "" if ratio >= wanted else "  below"
        case = f"{m:,} x {d} -> {n:,}"
        print(
            f"{case:<32}{ours:>9.3f}{peer:>9.3f}{chunk:>8}{ratio:>8.2f}{wanted:>8.2f}  {unscaled:>8.2f}{verdict}",
            flush=True,
        )
        results.append({"case": case, "seconds": times, "ratio": ratio, "wanted": wanted, "ratio_unscaled": unscaled})
    first, second, numba = second_process()
    print(f"compiling: {first:.2f} s in the first process, {second:.2f} s in the second")
    print(f"           (wanted: under {MOST_COMPILING:g} s), besides {numba:.2f} s to import numba")
    compiling = {"first_process_s": first, "second_process_s": second, "import_numba_s": numba}
    keep("crafting", {"cases": results, "compiling": compiling})
    slow = [one for one in results if one["ratio"] < one["wanted"]]
    short = [f"{one['case']}: {one['ratio']:.2f} times as fast as BLAS, not {one['wanted']:.2f}" for one in slow]
    if second >= MOST_COMPILING:
        short.append(f"compiling: {second:.2f} s in the second process, not under {MOST_COMPILING:g} s")
    shortfalls(short)


if __name__ == "__main__":
    main()
