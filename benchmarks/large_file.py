"""Crafting from a file of 11,000,000 x 28, against scikit-learn's logistic regression on the same table in memory.

    python benchmarks/large_file.py [--rows 11000000] [--file PATH]

Makes the Parquet file first (1.1 GiB, float32, skewed values, labels that depend on them), unless PATH exists. Each
contender runs in a process of its own, which reports its wall time and the most memory it held.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import keep

N_FEATURES = 28
CRAFT = """
import radoboost as rb
release = rb.craft({path!r}, label="label", n_rados=1000)
outcome = f"{{release.n_rados}} rados of {{release.n_examples:,}} examples"
"""
MOMENTS = """
import warnings
import radoboost as rb
warnings.simplefilter("ignore", rb.ClippedWarning)
bounds = {{f"f{{k}}": (-6, 6) if k % 2 else (0, 20) for k in range(28)}}
release = rb.craft({path!r}, label="label", mechanism=rb.Moments(1.0), bounds=bounds, classes=(0, 1))
outcome = f"epsilon {{release.statement.epsilon:.4g}} for {{release.statement.neighbours}}"
"""
FIT = """
import numpy as np, pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
table = pq.read_table({path!r})
names = [name for name in table.column_names if name != "label"]
x = np.empty((table.num_rows, len(names)), dtype=np.float32)
for k, name in enumerate(names):
    x[:, k] = table.column(name).to_numpy()
y = table.column("label").to_numpy()
del table
x -= x.mean(axis=0); x /= x.std(axis=0)
model = LogisticRegression().fit(x, y)
outcome = f"{{model.n_iter_[0]}} iterations"
"""
MEASURED = """
import json, re, time
begun = time.perf_counter()
{code}
# Not ru_maxrss: that starts with what the parent held.
peak = int(re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({{"seconds": time.perf_counter() - begun, "peak_mib": peak, "outcome": outcome}}))
"""


def make_file(path, rows):
    """Half of the columns normal, half log-normal, all float32; labels follow a logistic model."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(N_FEATURES) / 4
    names = [f"f{k}" for k in range(N_FEATURES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1_000_000):
            x = rng.standard_normal((min(1_000_000, rows - start), N_FEATURES), dtype=np.float32)
            x[:, ::2] = np.exp(x[:, ::2])
            y = (rng.random(len(x)) < 1 / (1 + np.exp(-(x - x.mean(axis=0)) @ weights))).astype(np.int8)
            writer.write_table(pa.table([*x.T.copy(), y], schema=schema))


def measure(code, path):
    run = MEASURED.format(code=code.format(path=str(path)))
    return json.loads(subprocess.run([sys.executable, "-c", run], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "large.parquet"
        if not path.exists():
            print(f"making {options.rows:,} x {N_FEATURES} ...", flush=True)
            make_file(path, options.rows)
        results = {"file_mib": path.stat().st_size / 2**20, "rows": options.rows}
        for name, code in (("craft 1000 rados", CRAFT), ("moments", MOMENTS), ("logistic regression", FIT)):
            results[name] = measure(code, path)
            found = results[name]
            print(
                f"{name:<22}{found['seconds']:8.1f} s{found['peak_mib']:10.0f} MiB at most   {found['outcome']}",
                flush=True,
            )
    keep("large_file", results)


if __name__ == "__main__":
    main()
