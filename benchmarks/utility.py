"""Test error against epsilon: ours, the strongest private peers, and no privacy at all.

    python benchmarks/utility.py --data FOLDER [--methods moments,DP-SGD] [--domains a,b] [--epsilons 0.1,1] [--jobs 2]
    python benchmarks/utility.py --data FOLDER --again WORD
    python benchmarks/utility.py --data FOLDER --methods moments --update
    python benchmarks/utility.py --report

Tables are in `tables.py`, methods in `methods.py`. First each family of peers is tried in its settings on splits that
are not reported; then the best one at each epsilon is run on those that are. Every finished cell is kept at once under
experiments/cells: a run that was killed goes on where it was, with the same command. Noise of ours never follows from a
seed, so it is the kept cells that make the numbers the same. They know the table and the settings of their method, but
not the library: after a change there, say which methods to run --again (all that begin with the given word; '' is all).

A run of everything writes experiments/results/utility.json, and from it tables and pictures of the docs page
choosing-epsilon.md; so does a run of some methods or tables with --update, beside which all other results stay as they
are there; --report makes the page alone. All exit with 1 where the project does not see what it wants to
see. A run of a part prints its tables, and writes its results where --results says.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

import cells as kept_cells
import peer_environment
import radoboost as rb
import tables
import utility_page
from measuring import RESULTS, machine, shortfalls
from methods import DELTA, METHODS, SMALL, SPLITS, TUNING_SPLITS, WITHOUT_EPSILON, Cell

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
GROUPS = {"main": tables.MAIN, "seen": tables.SEEN, "fresh": tables.FRESH}
ALL_TABLES = [name for group in GROUPS.values() for name in group]


def method_epsilons(method, epsilons):
    return [None] if method in WITHOUT_EPSILON else epsilons


def tuning_cells(methods, epsilons):
    """Every setting of the methods that have several, on all main tables: no part of them, whatever is asked for."""
    return [
        Cell(method, setting, domain, epsilon, split)
        for method in methods
        if len(METHODS[method].settings) > 1
        for setting in METHODS[method].settings
        for domain in tables.MAIN
        for epsilon in epsilons
        for split in TUNING_SPLITS
    ]


def chosen_settings(methods, epsilons, folder):
    """At each epsilon the setting with the best mean over the main tables; and all those means."""
    means = {}
    for cell in tuning_cells(methods, epsilons):
        error = float(np.mean(kept_cells.kept(cell, folder)["errors"]))
        means.setdefault((cell.method, cell.epsilon), {}).setdefault(cell.setting, []).append(error)
    tried = [
        {"method": method, "setting": setting, "epsilon": epsilon, "error": round(float(np.mean(errors)), 4)}
        for (method, epsilon), settings in means.items()
        for setting, errors in settings.items()
    ]
    chosen = {key: min(settings, key=lambda one: np.mean(settings[one])) for key, settings in means.items()}
    return chosen, tried


def reported_cells(methods, domains, epsilons, splits, chosen):
    found = []
    for method in methods:
        settings = METHODS[method].settings
        for domain in [name for group in METHODS[method].groups for name in GROUPS[group] if name in domains]:
            for epsilon in method_epsilons(method, epsilons):
                setting = chosen[method, epsilon] if len(settings) > 1 else next(iter(settings))
                some = splits if domain in tables.MAIN else splits[: METHODS[method].fresh_splits]
                found += [Cell(method, setting, domain, epsilon, split) for split in some]
    return found


# ---- results


def summary(cells, folder):
    """Mean error in percent and its standard error over splits, for each table, epsilon and method."""
    groups: dict[tuple, list[dict]] = {}
    for cell in cells:
        groups.setdefault(cell[:4], []).append(kept_cells.kept(cell, folder))
    found = []
    for (method, setting, domain, epsilon), results in groups.items():
        splits = [float(np.mean(result["errors"])) for result in results]
        spread = float(np.std(splits, ddof=1) / np.sqrt(len(splits))) if len(splits) > 1 else None
        row = {
            "domain": domain,
            "epsilon": epsilon,
            "method": method,
            "setting": setting,
            "error": round(float(np.mean(splits)), 4),
            "standard_error": None if spread is None else round(spread, 4),
            "splits": [round(error, 4) for error in splits],
        }
        if "calibration" in results[0]:
            row["calibration_error"] = round(calibration_error([result["calibration"] for result in results]), 5)
            plans = [f"{kind}, {count}" for result in results for kind, count in result["plans"]]
            row["plan"] = max(sorted(set(plans)), key=plans.count)
        found.append(row)
    return in_order(found)


def in_order(rows):
    order = list(METHODS)
    return sorted(rows, key=lambda row: (row["domain"], order.index(row["method"]), row["epsilon"] or 0))


def calibration_error(results):
    """The expected calibration error over ten equal bins, all splits and draws pooled."""
    counts, probabilities, positives = np.sum(results, axis=0)
    return float(np.abs(probabilities - positives).sum() / counts.sum())


def document(cells, folder, tried, missing):
    sizes = {}
    for group, names in GROUPS.items():
        for name in sorted({cell.domain for cell in cells} & {*names}):
            m, d = tables.load(folder, name).x.shape
            sizes[name] = {"group": group, "rows": m, "train": len(tables.split_rows(m, 1)[0]), "columns": d}
    protocol = {
        "neighbours": "one record added or removed",
        "delta": DELTA,
        "splits": sorted({cell.split for cell in cells}),
        "tuning_splits": TUNING_SPLITS,
        "test_share": tables.TEST_SHARE,
        "bounds": "quantiles of the whole table: {} and {}, uncharged".format(*tables.QUANTILES),
        "draws": {name: method.draws for name, method in METHODS.items()},
        "times_if_small": {name: method.times_if_small for name, method in METHODS.items()},
        "fresh_splits": {name: method.fresh_splits for name, method in METHODS.items()},
        "small": SMALL,
        "libraries": list(peer_environment.REQUIREMENTS),
        "left_out": missing,
    }
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}"])
    results = {"protocol": protocol, "domains": sizes, "tried": tried, "errors": summary(cells, folder)}
    return {"command": command, "radoboost": rb.__version__, "machine": machine(), "results": results}


def updated(before, found, methods, domains):
    """What was found, beside results of other methods and tables as they were; versions and machine are of this run."""
    old, new = before["results"], found["results"]
    tried = [row for row in old["tried"] if row["method"] not in methods]
    errors = [row for row in old["errors"] if row["method"] not in methods or row["domain"] not in domains]
    results = {
        **new,
        "domains": {**old["domains"], **new["domains"]},
        "tried": [*tried, *new["tried"]],
        "errors": in_order([*errors, *new["errors"]]),
    }
    some = "" if {*domains} == {*ALL_TABLES} else f" --domains {','.join(domains)}"
    return {**found, "command": f"{found['command']} --methods {','.join(methods)}{some} --update", "results": results}


def write_results(found, path):
    """JSON with a line for each row of the long tables."""
    results = found["results"]
    frame = json.dumps({**found, "results": {**results, "tried": "TRIED", "errors": "ERRORS"}}, indent=2)
    for name in ("tried", "errors"):
        lines = ",\n".join("      " + json.dumps(row) for row in results[name])
        frame = frame.replace(f'"{name.upper()}"', f"[\n{lines}\n    ]")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(frame + "\n")
    os.replace(beside, path)


def listed(kind):
    return lambda text: [kind(part) for part in text.split(",") if part]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--methods", type=listed(str), help="those that begin with one of these words [all]")
    parser.add_argument("--domains", type=listed(str), default=ALL_TABLES)
    parser.add_argument("--epsilons", type=listed(float), default=list(EPSILONS))
    parser.add_argument("--splits", type=listed(int), default=list(SPLITS), help="seeds of random splits")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [cores]")
    parser.add_argument("--results", type=Path, help="file for the results [experiments/results/utility.json, if all]")
    parser.add_argument("--again", metavar="WORD", help="forget what was kept of methods that begin with this")
    parser.add_argument("--update", action="store_true", help="keep stored results of what is not run")
    parser.add_argument("--report", action="store_true", help="run nothing: tables and pictures from the results")
    return parser.parse_args()


def report(found, page):
    utility_page.show(found["results"])
    if page:
        utility_page.write(found["results"])
        shortfalls(utility_page.not_seen(found["results"]))


def main():
    options = arguments()
    results_file = RESULTS / "utility.json"
    if options.report:
        report(json.loads((options.results or results_file).read_text()), not options.results)
        return
    if not options.data:
        raise SystemExit("where are the domains? give --data, or set RADO_DATA")
    if unknown := set(options.domains) - {*ALL_TABLES}:
        raise SystemExit(f"unknown domains: {', '.join(sorted(unknown))}")
    words, domains = tuple(options.methods or [""]), options.domains
    methods = [name for name in METHODS if name.startswith(words)]
    missing = []
    if not peer_environment.python():
        missing = [name for name in methods if METHODS[name].library] + [
            name for name in tables.REAL if name in domains
        ]
        methods, domains = ([name for name in names if name not in missing] for names in (methods, domains))
        print(f"their packages cannot be installed here: going on without {', '.join(missing)}", file=sys.stderr)
    again = [name for name in methods if options.again is not None and name.startswith(options.again)]
    tuning = tuning_cells(methods, options.epsilons)
    kept_cells.forget([cell for cell in tuning if cell.method in again], options.data)
    kept_cells.run(tuning, options.data, options.jobs, "settings of peers, on other splits")
    chosen, tried = chosen_settings(methods, options.epsilons, options.data)
    cells = reported_cells(methods, domains, options.epsilons, options.splits, chosen)
    kept_cells.forget([cell for cell in cells if cell.method in again], options.data)
    kept_cells.run(cells, options.data, options.jobs, "reported splits")
    found = document(cells, options.data, tried, missing)
    if options.update:
        found = updated(json.loads(results_file.read_text()), found, methods, domains)
    whole = (
        (options.update or (methods == list(METHODS) and {*domains} == {*ALL_TABLES}))
        and set(options.epsilons) == set(EPSILONS)
        and tuple(options.splits) == SPLITS
    )
    if options.results or whole:
        write_results(found, options.results or results_file)
    report(found, whole and not options.results)


if __name__ == "__main__":
    main()
