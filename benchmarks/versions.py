"""This version against an earlier one, in turns: is crafting as fast as it was, and what became faster?

    python benchmarks/versions.py CHECKOUT [--repeats 5] [--only NAME ...] [--large-file PATH]

CHECKOUT is a checkout of the earlier version, as `git worktree add ../before COMMIT` makes one. Each version runs in a
process of its own that has loaded and compiled everything; the two take turns, so that a busy machine troubles both
alike. What counts is the median of the ratios. Exits with 1 where a ratio falls short of what it should be.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import keep, shortfalls

HERE = Path(__file__).parent.parent
COMMON = """
import json, sys, time, warnings
import numpy as np
import radoboost as rb
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
def table(rows, columns):
    x = rng.uniform(-1, 1, (rows, columns))
    return x, np.where(x[:, 0] + rng.standard_normal(rows) > 0, 1, -1)
"""
LOOP = """
once(small=True)
print("ready", flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    once(small=False)
    print(json.dumps(time.perf_counter() - begun), flush=True)
"""
PLAIN = """
x, y = table({rows}, 28)
def once(small):
    rb.craft(x[:2000] if small else x, y[:2000] if small else y, n_rados={n_rados})
"""
MOMENTS = """
x, y = table(1_000_000, 28)
def once(small):
    rows = slice(2000 if small else None)
    rb.craft(x[rows], y[rows], mechanism=rb.Moments(1.0), bounds=[[-1, 1]] * 28, classes=(-1, 1))
"""
FILE = """
def once(small):
    rb.craft({small!r} if small else {path!r}, label="label", {how})
"""
PRIVATE = 'bounds={f"f{k}": (-1, 1) for k in range(20)}, classes=(0, 1), mechanism=rb.'
FILES = {  # columns, rows, and how the file is crafted
    "plain": (28, 11_000_000, "n_rados=1000"),
    "moments": (20, 5_000_000, f"{PRIVATE}Moments(1.0)"),
    "noisy-rados": (20, 1_000_000, f"{PRIVATE}NoisyRados(1.0), n_rados=8"),
}
CASES = {  # how many times as fast as before it should be at least
    "plain, 1,000,000 x 28, 1000 rados": (PLAIN.format(rows=1_000_000, n_rados=1000), 1 / 1.05),
    "plain, 100,000 x 28, 10,000 rados": (PLAIN.format(rows=100_000, n_rados=10_000), 1 / 1.05),
    "plain, 11,000,000 x 28 Parquet": (None, 1 / 1.05),
    "moments, 1,000,000 x 28": (MOMENTS, 3.0),
    "moments, 5,000,000 x 20 Parquet": (None, 6.0),
    "noisy-rados, 1,000,000 x 20 CSV": (None, 1 / 1.2),
}


def make_file(path, rows, columns):
    """Float32 columns in row groups of a million, and a label that depends on the first."""
    rng = np.random.default_rng(1)
    names = [f"f{k}" for k in range(columns)]
    schema = pa.schema([(name, pa.float32()) for name in names] + [("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            x = rng.uniform(-1, 1, (count, columns)).astype(np.float32)
            label = (x[:, 0] + rng.standard_normal(count) > 0).astype(np.int8)
            writer.write_table(pa.table([*x.T, label], schema=schema))


def make_csv(path, rows, columns):
    """The same as CSV, as pandas writes it."""
    make_file(path.with_suffix(".parquet"), rows, columns)
    pq.read_table(path.with_suffix(".parquet")).to_pandas().to_csv(path, index=False)


def worker(checkout, code):
    """A process that has everything ready, and crafts once for every line that it is sent."""
    program = f"import sys; sys.path.insert(0, {str(Path(checkout) / 'src')!r})\n" + COMMON + code + LOOP
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def measure(before, code, repeats):
    """Seconds of both versions, in turns."""
    workers = {"before": worker(before, code), "now": worker(HERE, code)}
    seconds = {name: [] for name in workers}
    for turn in range(repeats + 1):
        for name, process in workers.items():
            process.stdin.write("go\n")
            process.stdin.flush()
            took = json.loads(process.stdout.readline())
            if turn:  # the first turn warms caches
                seconds[name].append(took)
    for process in workers.values():
        process.stdin.close()
        process.wait()
    ratio = statistics.median(a / b for a, b in zip(seconds["before"], seconds["now"], strict=True))
    return {name: statistics.median(values) for name, values in seconds.items()} | {"times_as_fast": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="words that a case's name must have")
    parser.add_argument("--large-file", type=Path, help="where the file of 11 million rows is, or will be")
    options = parser.parse_args()
    short = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (code, wanted) in CASES.items():
            if options.only and not all(word in name for word in options.only):
                continue
            repeats = options.repeats
            if code is None:
                columns, rows, how = FILES[name.partition(",")[0]]
                ending, make = (".csv", make_csv) if "CSV" in name else (".parquet", make_file)
                small, path = (Path(folder) / f"{size}{ending}" for size in ("small", "large"))
                if "plain" in name and options.large_file:
                    path = options.large_file
                if not path.exists():
                    make(path, rows, columns)
                make(small, 2000, columns)
                code, repeats = FILE.format(small=str(small), path=str(path), how=how), max(1, repeats // 2)
            found = measure(options.checkout, code, repeats)
            keep(f"versions/{name}", found | {"wanted": round(wanted, 3)})
            for large in Path(folder).glob("large.*"):
                large.unlink()
            print(f"{name:40} {found['before']:8.2f} s {found['now']:8.2f} s {found['times_as_fast']:8.2f}")
            short += [f"{name}: {found['times_as_fast']:.2f} times as fast"] * (found["times_as_fast"] < wanted)
    shortfalls(short)


if __name__ == "__main__":
    main()
