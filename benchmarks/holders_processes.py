"""Five holders in five processes, on one folder: how long a room takes, what lies in the folder, how good the model is.

    python benchmarks/holders_processes.py --data FOLDER [--runs 3]
    python benchmarks/holders.py --only processes

Magic, four fifths of its rows dealt out to five holders, each a process of `rado room join` with a CSV file of its own;
`Moments` with the columns that it plans itself, epsilon 1, delta 1e-6, for one record added or removed. Seconds are
from the first start to the last end, and have the start of each process in them. Bytes are those of all messages in the
folder. The files of all holders are compared byte by byte: a run in which they differ fails. The last fifth of the
rows is for testing, also of one release of the same training rows. Bounds are declared, and the same for both.

A run of everything writes the key `processes` of experiments/results/holders.json and its part of docs/rooms.md. Exits
with 1 where the median is not below 60 seconds, or the model has more than 2 points more errors than that of one
release.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import radoboost as rb
import rooms_page
import tables
from measuring import keep, shortfalls
from methods import DELTA, percent_wrong

NAMES = ("east", "middle", "north", "south", "west")
RUNS, EPSILON, WANTED_SECONDS, WANTED_POINTS = 3, 1.0, 60.0, 2.0
RADO = [sys.executable, "-m", "radoboost"]


def write_table(place, x, signs):
    head = ",".join([*(f"x{k}" for k in range(x.shape[1])), "label"])
    lines = [",".join([*map(repr, row), str(sign)]) for row, sign in zip(x.tolist(), signs.tolist(), strict=True)]
    place.write_text("\n".join([head, *lines]) + "\n")


def joined(folder, parts, bounds):
    """Seconds, what lies in the room, and the release: the same file at each holder."""
    columns = {f"x{k}": {"kind": "number", "low": low, "high": high} for k, (low, high) in enumerate(bounds)}
    (folder / "schema.json").write_text(json.dumps({"radoboost_schema": 1, "columns": columns}))
    opening = ["--label", "label", "--classes", "-1,1", "--parties", str(len(NAMES)), "--epsilon", str(EPSILON)]
    place = folder / "magic.room"
    subprocess.run(
        [*RADO, "room", "open", str(folder / "schema.json"), *opening, "-o", str(place)], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for name, (x, signs) in zip(NAMES, parts, strict=True):
        (folder / name).mkdir()
        write_table(folder / name / "table.csv", x, signs)
        rb.Identity.create(name).save(folder / name / "key.pem")
    seconds = seconds_together(folder, place)
    if len({(folder / name / "joint.rado.parquet").read_bytes() for name in NAMES}) != 1:
        raise SystemExit("the holders' files differ")
    messages = [file.stat().st_size for file in place.rglob("*") if file.is_file() and not file.name.startswith(".")]
    return seconds, messages, rb.load(folder / "east" / "joint.rado.parquet")


def seconds_together(folder, room):
    """Seconds from the first start of a process to the last end, of those who join, each in a folder of its own."""
    processes, begun = {}, time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in NAMES:
        with (folder / name / "log").open("w") as log:
            processes[name] = subprocess.Popen(
                [*RADO, "room", "join", str(room), "table.csv", "--as", name, "--identity", "key.pem", "--force", "-o",
                 "joint.rado.parquet"],
                cwd=folder / name, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        processes[name].stdin.write("y\n")  # the code is confirmed
        processes[name].stdin.close()
    try:
        codes = {name: process.wait(600) for name, process in processes.items()}
        seconds = time.perf_counter() - begun
    finally:
        for process in processes.values():
            process.kill()
    if any(codes.values()):
        raise SystemExit("\n".join((folder / name / "log").read_text() for name, code in codes.items() if code))
    return seconds


def one_run(folder, domain, seed):
    """What one room is like; rows are dealt out anew in each run."""
    order = np.random.default_rng(seed).permutation(len(domain.x))
    train, test = np.split(order, [4 * len(order) // 5])
    parts = [(domain.x[rows], domain.signs[rows]) for rows in np.array_split(train, len(NAMES))]
    seconds, messages, release = joined(folder, parts, domain.bounds.tolist())
    central = rb.craft(
        domain.x[train],
        domain.signs[train],
        mechanism=rb.Moments(EPSILON, DELTA),
        classes=(-1, 1),
        counts=None,
        schema=domain.bounds.tolist(),
    )
    errors = [
        percent_wrong(rb.MomentsClassifier().fit_rados(one).predict(domain.x[test]), domain.signs[test])
        for one in (release, central)
    ]
    return {"seconds": seconds, "bytes": sum(messages), "files": len(messages), "errors": errors, "rows": len(train)}


def summary(runs):
    room, central = (float(np.mean([run["errors"][way] for run in runs])) for way in (0, 1))
    return {
        "domain": "magic",
        "holders": len(NAMES),
        "rows": runs[0]["rows"],
        "epsilon": EPSILON,
        "delta": DELTA,
        "neighbours": "one record added or removed",
        "cores": os.cpu_count(),
        "runs": len(runs),
        "seconds": statistics.median(run["seconds"] for run in runs),
        "all_seconds": [run["seconds"] for run in runs],
        "bytes": max(run["bytes"] for run in runs),
        "files": max(run["files"] for run in runs),
        "same_file": True,  # a run in which they differ has ended
        "error": room,
        "central_error": central,
    }


def short_of(results):
    if results["seconds"] >= WANTED_SECONDS:
        yield f"a room of five processes takes {results['seconds']:.0f} s, not {WANTED_SECONDS:.0f}"
    if results["error"] > results["central_error"] + WANTED_POINTS:
        yield f"its model has {results['error']:.1f} % of errors, one release {results['central_error']:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--report", action="store_true", help="write the page from kept results, and run nothing")
    options = parser.parse_args()
    if options.report:
        rooms_page.write()
        return
    if options.data is None:
        print("holders_processes: left out; name the folder of the domains (--data, or RADO_DATA)")
        return
    warnings.simplefilter("ignore", rb.ClippedWarning)  # bounds are quantiles
    domain, runs = tables.load(options.data, "magic"), []
    for seed in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(one_run(Path(folder), domain, seed))
        print({name: value for name, value in runs[-1].items()}, flush=True)
    results = summary(runs)
    if options.runs >= RUNS:
        keep("holders/processes", results)
        rooms_page.write()
    shortfalls(list(short_of(results)))


if __name__ == "__main__":
    main()
