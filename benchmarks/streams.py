"""Crafting from a query of 8,000,000 rows that DuckDB answers, against the same answer in memory.

    python benchmarks/streams.py [--rows 8000000] [--columns 10] [--file PATH]

Makes a DuckDB file first, unless PATH exists. Each contender runs in a process of its own, which reports its wall time
and the most memory it held. Exits with 1 where a craft from the stream holds 1 GiB or more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from large_file import MEASURED
from measuring import keep, shortfalls

LARGEST_MIB = 1024
READ = """
import duckdb
connection = duckdb.connect({path!r}, read_only=True)
connection.execute("SET enable_progress_bar = false")
n_rows = sum(batch.num_rows for batch in connection.sql("FROM visits").to_arrow_reader(65536))
outcome = f"{{n_rows:,}} rows read and forgotten"
"""
STREAM = """
import radoboost as rb
release = rb.craft("duckdb:{path}?FROM visits", label="ill", n_rados=1000)
outcome = f"{{release.n_rados}} rados of {{release.n_examples:,}} examples"
"""
MOMENTS = """
import radoboost as rb
bounds = {{f"x{{k}}": (-9, 9) for k in range({columns})}}
release = rb.craft("duckdb:{path}?FROM visits", label="ill", mechanism=rb.Moments(1.0), bounds=bounds, classes=(0, 1),
                   columns="linear")
outcome = f"epsilon {{release.statement.epsilon:.4g}} for {{release.statement.neighbours}}"
"""
MEMORY = """
import duckdb
import radoboost as rb
connection = duckdb.connect({path!r}, read_only=True)
connection.execute("SET enable_progress_bar = false")
release = rb.craft(connection.sql("FROM visits").to_arrow_table(), label="ill", n_rados=1000)
outcome = f"{{release.n_rados}} rados of {{release.n_examples:,}} examples"
"""
CONTENDERS = {"stream, 1000 rados": STREAM, "stream, moments": MOMENTS, "read alone": READ, "in memory": MEMORY}


def make_database(path, rows, columns):
    """Columns of doubles that nothing compresses much, and labels that depend on some."""
    names = ", ".join(f"sin(i * {k + 1}.7) * {k + 1} % 9 AS x{k}" for k in range(columns))
    code = (
        f"import duckdb; c = duckdb.connect({str(path)!r}); c.execute('SET enable_progress_bar = false'); "
        f"c.execute('CREATE TABLE visits AS SELECT {names}, (i * 7919 % 13 < 5)::INT AS ill FROM range({rows}) r(i)')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def measure(code, path, columns):
    run = MEASURED.format(code=code.format(path=str(path), columns=columns))
    result = subprocess.run(
        [sys.executable, "-c", run],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "visits.duckdb"
        if not path.exists():
            print(f"making {options.rows:,} x {options.columns} ...", flush=True)
            make_database(path, options.rows, options.columns)
        results = {"file_mib": path.stat().st_size / 2**20, "rows": options.rows, "columns": options.columns}
        for name, code in CONTENDERS.items():
            results[name] = found = measure(code, path, options.columns)
            print(f"{name:<22}{found['seconds']:8.1f} s{found['peak_mib']:10.0f} MiB   {found['outcome']}", flush=True)
    results["memory_ratio"] = results["in memory"]["peak_mib"] / results["stream, 1000 rados"]["peak_mib"]
    keep("streams", results)
    peaks = {name: results[name]["peak_mib"] for name in CONTENDERS if name.startswith("stream")}
    shortfalls([
        f"{name}: {peak:.0f} MiB, not under {LARGEST_MIB}" for name, peak in peaks.items() if peak >= LARGEST_MIB
    ])  # fmt: skip


if __name__ == "__main__":
    main()
