"""Crafting on clusters against the threads of one process, and what larger clusters would do by the costs measured.

    python benchmarks/clusters.py [--rows 4000000] [--only dask]

Rows per CPU-second, warm: 16 Parquet files of 28 float32 columns, 1000 rados; moments at epsilon 1 (one record added or
removed), of linear columns and of those that `columns="auto"` chooses. Clusters are two workers of one thread each, on
this machine. CPU seconds are those of all workers, the Java machine among them, of processes that ended, and of this
one. Exits with 1 where Dask does less than 0.75 of what threads do with the same CPU, Spark
over files less than 0.4, Spark over its frames less than 0.1, or moments on Dask take more than 1.5 times as long and
3 s more.

What a larger cluster would do follows from four costs: CPU per row, time per task, time per byte of a state that moves
and merges, and what the driver does by itself, once, whatever the number of rows. They are measured on one worker, from
runs over two tables of different sizes, and states from one worker to another; then runs with one and with two workers
are predicted from them, and timed.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import flat
import radoboost as rb
from measuring import fill_page, keep, shortfalls

N_FILES, N_COLUMNS, N_RADOS = 16, 28, 1000
LEAST = {"Dask, files": 0.75, "Spark, files": 0.4, "Spark, frame": 0.1}
MOMENTS_RATIO, MOMENTS_SECONDS = 1.5, 3.0
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
FAN_IN = 8  # states that one task merges
BYTES_PER_SECOND = 1.0e9  # of a network of 10 Gbit/s, about; an assumption
_COST_FILES = 4
MANY_ROWS, WORKERS, ROWS_PER_PART = 10**9, (10, 100, 1000), 250_000
DECLARED = {"classes": (0, 1), "bounds": {f"x{k}": (-6.0, 6.0) for k in range(N_COLUMNS)}}


def make_files(folder, n_rows, n_files=N_FILES):
    rng = np.random.default_rng(5)
    for k, size in enumerate(np.diff(np.linspace(0, n_rows, n_files + 1).astype(int))):
        x = rng.standard_normal((size, N_COLUMNS), dtype=np.float32)
        y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.standard_normal(size) > 0).astype(np.int8)
        columns = {f"x{j}": x[:, j] for j in range(N_COLUMNS)} | {"y": y}
        pq.write_table(pa.table(columns), Path(folder) / f"part-{k:02d}.parquet")
    return str(Path(folder) / "*.parquet")


def cpu_seconds():
    """Of this process and all that it started; what ended is with whoever started and awaited it."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measured(craft, repeats=3):
    """Median wall and CPU seconds, after two runs that warm everything: a Java machine compiles for long."""
    for _ in range(2):
        craft()
    runs = []
    for _ in range(repeats):
        cpu, begun = cpu_seconds(), time.perf_counter()
        craft()
        runs.append((time.perf_counter() - begun, cpu_seconds() - cpu))
    walls, cpus = zip(*runs, strict=True)
    return statistics.median(walls), statistics.median(cpus)


def plain(table, **options):
    return flat.craft(table, label="y", n_rados=N_RADOS, seed=1, **options)


def moments(table, columns="linear", **options):
    return flat.craft(table, label="y", mechanism=rb.Moments(1.0), columns=columns, counts=None, **DECLARED, **options)


def dask_client(n_workers):
    from distributed import Client

    return Client(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")


def spark_session():
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers would run any python3 of the path
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.driver.memory", "4g").getOrCreate()


def compare(paths, n_rows, only):
    """Rows per CPU-second of every way to do it."""
    results, crafts = [], {}

    def take(name, craft):
        if only and only.lower() not in name.lower() and not name.startswith("threads"):
            return
        wall, cpu = measured(craft)
        results.append({"what": name, "wall_s": wall, "cpu_s": cpu, "rows_per_cpu_s": n_rows / cpu})
        print(f"{name:<24}{wall:>8.2f} s{cpu:>9.2f} CPU-s{n_rows / cpu / 1e6:>8.2f} M rows / CPU-s", flush=True)

    crafts["threads"] = plain(paths, threads=2).rados
    take("threads", lambda: plain(paths, threads=2))
    take("threads, moments", lambda: moments(paths, threads=2))
    take("threads, moments, auto", lambda: moments(paths, "auto", threads=2))
    if not only or "dask" in only.lower():
        with dask_client(2) as client:
            assert np.array_equal(plain(paths, cluster=client).rados, crafts["threads"])
            take("Dask, files", lambda: plain(paths, cluster=client))
            take("Dask, moments", lambda: moments(paths, cluster=client))
            take("Dask, moments, auto", lambda: moments(paths, "auto", cluster=client))
    if not only or "spark" in only.lower():
        session = spark_session()
        frame = session.read.parquet(str(Path(paths).parent))
        assert np.array_equal(plain(paths, cluster=session).rados, crafts["threads"])
        take("Spark, files", lambda: plain(paths, cluster=session))
        take("Spark, frame", lambda: plain(frame))
        session.stop()
    return results


# ---- a larger cluster


def costs(folder, n_rows):
    """What a row, a task, a byte of a state and the driver cost, on one worker; states go from one to another."""
    from distributed import wait

    sizes, runs = (n_rows // 16, n_rows // 4), []
    with dask_client(1) as client:
        for size in sizes:
            few = make_files(folder, size, _COST_FILES)
            runs.append(measured(lambda few=few: plain(few, cluster=client)))
        begun = time.perf_counter()
        futures = client.map(_nothing, range(2000), pure=False)
        wait(futures)
        task = (time.perf_counter() - begun) / 2000
    state = _zeros(0).nbytes
    (wall, _), _ = runs
    row = (runs[1][1] - runs[0][1]) / (sizes[1] - sizes[0])
    cost = {"row_s": row, "task_s": task, "byte_s": merging() / FAN_IN / state, "state_bytes": state, "driver_s": 0.0}
    known = predicted(cost, sizes[0], 1, network=False, parts=_COST_FILES)["wall_s"]
    return {**cost, "driver_s": max(0.0, wall - known)}


def merging():
    """Seconds in which states that one worker has go to another, which merges them."""
    from distributed import wait

    seconds = []
    with dask_client(2) as client:
        here, there = client.nthreads()
        for _ in range(20):
            states = client.map(_zeros, range(FAN_IN), pure=False, workers=[here])
            wait(states)
            begun = time.perf_counter()
            wait(client.submit(_merged, states, pure=False, workers=[there]))
            seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds))


def _nothing(_):
    return None


def _zeros(_):
    return np.zeros((N_RADOS, N_COLUMNS + 1), dtype=np.int64)


def _merged(states):
    total = states[0]
    for state in states[1:]:
        total = total + state
    return total


def predicted(cost, rows, workers, *, network, parts=None):
    """Seconds of wall time: two passes over all rows, tasks, merges after the second, and the driver's own."""
    parts = parts or max(1, math.ceil(rows / ROWS_PER_PART))
    levels = max(1, math.ceil(math.log(parts, FAN_IN)))
    moved = cost["byte_s"] + (1 / BYTES_PER_SECOND if network else 0.0)
    work = cost["row_s"] * rows / workers
    tasks = 2 * parts * (1 + 1 / FAN_IN) * cost["task_s"]  # the scheduler does them one by one
    tree = levels * FAN_IN * cost["state_bytes"] * moved
    own = cost["driver_s"]
    return {"work_s": work, "tasks_s": tasks, "tree_s": tree, "driver_s": own, "wall_s": work + tasks + tree + own}


def check_model(cost, paths, n_rows):
    """The same on one worker and on two, timed."""
    checked = []
    for workers in (1, 2):
        with dask_client(workers) as client:
            wall, _ = measured(lambda client=client: plain(paths, cluster=client))
        said = predicted(cost, n_rows, workers, network=False)["wall_s"]
        checked.append({"workers": workers, "predicted_s": said, "measured_s": wall})
        print(f"{workers} workers: {said:.1f} s by the model, {wall:.1f} s measured", flush=True)
    return checked


def page_parts(results):
    cost = results["costs"]
    lines = ["| | wall s | CPU s | million rows a CPU-second | of threads |", "|---|---|---|---|---|"]
    base = {row["what"]: row for row in results["compared"]}
    for row in results["compared"]:
        peer = base[
            "threads" + row["what"][row["what"].index(", moments") :] if "moments" in row["what"] else "threads"
        ]
        share = row["rows_per_cpu_s"] / peer["rows_per_cpu_s"]
        lines.append(
            f"| {row['what']} | {row['wall_s']:.1f} | {row['cpu_s']:.1f} | {row['rows_per_cpu_s'] / 1e6:.2f} | "
            f"{share:.2f} |"
        )
    model = [
        "| workers | work s | tasks s | merging s | driver s | together s |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['workers']:,} | {row['work_s']:,.1f} | {row['tasks_s']:,.1f} | {row['tree_s']:,.2f} | "
            f"{row['driver_s']:,.2f} | {row['wall_s']:,.1f} |"
            for row in results["predicted"]
        ),
    ]
    seen = [
        f"With {row['workers']} worker{'s' if row['workers'] > 1 else ''}, {results['rows']:,} rows: "
        f"{row['predicted_s']:.1f} s predicted, {row['measured_s']:.1f} s measured."
        for row in results["checked"]
    ]
    words = (
        f"A row costs {cost['row_s'] * 1e6:.2f} microseconds of CPU in both passes, reading included; a task "
        f"{cost['task_s'] * 1e3:.2f} ms of the scheduler; a byte of a state {cost['byte_s'] * 1e9:.2f} ns to move "
        f"from one worker to another on this machine, and to merge. A state has {cost['state_bytes']:,} bytes. The "
        f"driver takes {cost['driver_s']:.2f} s by itself, whatever the number of rows."
    )
    return {"clusters": "\n".join(lines), "costs": words, "model": "\n".join(model), "checked": " ".join(seen)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        paths = make_files(folder, asked.rows)
        compared = compare(paths, asked.rows, asked.only)
        if asked.only:
            return
        with tempfile.TemporaryDirectory() as few:
            cost = costs(few, asked.rows)
        checked = check_model(cost, paths, asked.rows)
    foreseen = [{"workers": n, **predicted(cost, MANY_ROWS, n, network=True)} for n in WORKERS]
    results = {"rows": asked.rows, "compared": compared, "costs": cost, "checked": checked, "predicted": foreseen}
    keep("clusters", results)
    PAGE.write_text(fill_page(PAGE, page_parts(results)))
    by_name = {row["what"]: row for row in compared}
    short = []
    for name, least in LEAST.items():
        share = by_name[name]["rows_per_cpu_s"] / by_name["threads"]["rows_per_cpu_s"]
        if share < least:
            short.append(f"{name}: {share:.2f} of the rows per CPU-second of threads, and should be {least}")
    for name in ("moments", "moments, auto"):
        ours, peer = by_name[f"Dask, {name}"]["wall_s"], by_name[f"threads, {name}"]["wall_s"]
        if ours > max(MOMENTS_RATIO * peer, peer + MOMENTS_SECONDS):
            short.append(f"{name} on Dask take {ours:.1f} s, and threads {peer:.1f} s")
    shortfalls(short)


if __name__ == "__main__":
    main()
