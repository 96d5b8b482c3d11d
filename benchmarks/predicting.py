"""rado predict on a Parquet file of 2,000,000 x 28, against scikit-learn on the same table in memory.

    python benchmarks/predicting.py [--rows 2000000]

Each runs in a process of its own, which reports its wall time and the most memory it held; both write the scores of all
rows as CSV with Arrow. The peer has the same coefficients. Exits with 1 where we hold more memory than LIMIT_MIB.
"""

import argparse
import tempfile
from pathlib import Path

import radoboost as rb
from large_file import N_FEATURES, make_file, measure
from measuring import keep, shortfalls

LIMIT_MIB = 500
PREDICT = """
from typer.testing import CliRunner
from radoboost.cli import app
result = CliRunner().invoke(app, ["predict", {path!r} + ".model.json", {path!r}, "-o", {path!r} + ".ours.csv"])
assert result.exit_code == 0, result.output
outcome = result.stdout.splitlines()[1]
"""
PEER = """
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet as pq
import radoboost as rb
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
model = rb.load_model({path!r} + ".model.json")
peer = LogisticRegression()
peer.coef_, peer.intercept_, peer.classes_ = model.coef[None], np.array([model.intercept]), np.array([0, 1])
table = pq.read_table({path!r})
x = np.column_stack([table.column(name).to_numpy() for name in model.feature_names])
scores = peer.decision_function(x)
columns = {{"score": scores, "probability": expit(scores), "prediction": peer.classes_[(scores > 0).astype(int)]}}
pa.csv.write_csv(pa.table(columns), {path!r} + ".peer.csv")
outcome = f"{{int((scores > 0).sum()):,}} positive"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        print(f"making {rows:,} x {N_FEATURES} ...", flush=True)
        make_file(path, rows)
        rb.MomentsClassifier().fit_rados(rb.craft(path, label="label", seed=0)).model_.save(f"{path}.model.json")
        results = {"file_mib": path.stat().st_size / 2**20, "rows": rows}
        for name, code in (("rado predict", PREDICT), ("scikit-learn, in memory", PEER)):
            found = results[name] = measure(code, path)
            print(f"{name:<26}{found['seconds']:7.1f} s{found['peak_mib']:8.0f} MiB at most   {found['outcome']}")
    peak = results["rado predict"]["peak_mib"]
    print(f"wanted: at most {LIMIT_MIB} MiB; held: {peak <= LIMIT_MIB}")
    keep("predicting", results)
    shortfalls([f"rado predict: {peak:.0f} MiB, more than {LIMIT_MIB}"] * (peak > LIMIT_MIB))


if __name__ == "__main__":
    main()
