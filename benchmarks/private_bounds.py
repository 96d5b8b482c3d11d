"""What it costs to find bounds privately: test error beside that with public quantiles, and how few rows carry it.

    python benchmarks/private_bounds.py --data FOLDER [--jobs 2] [--again]
    python benchmarks/private_bounds.py --report

Both methods are run on the same splits, as in `utility.py`, whose cells these are: finished ones are kept, and a run
that was killed goes on where it was. --again forgets them. The search was tuned on these splits, so the domains with
enough rows are split in other ways as well. Then parts of some domains are taken, so small that the rows hardly carry
the search.

It writes experiments/results/private_bounds.json and its parts of docs/choosing-epsilon.md; --report does the latter
alone. Exits with 1 where private bounds cost more than they may.
"""

import argparse
import json
import math
import os

import numpy as np

import cells
import radoboost as rb
import tables
import utility
from measuring import RESULTS, fill_page, keep, shortfalls, write_pages
from methods import DELTA, Cell, percent_wrong, release_and_learn
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.holder.mechanisms.moments.private_bounds import LEAST_PULL
from utility_page import PAGE, TABLES, signed, spans, table

PUBLIC, PRIVATE = "moments", "moments, private bounds"
DOMAINS = tuple(sorted((*tables.FILES, "breast_wisc", "transfusion")))
SPLITS = (1, 2, 3, 4, 5)
ENOUGH = 300  # rows to learn from, times epsilon, for each column and the constant: from here on there is an aim
WANTED = {1.0: 0.4, 0.3: 0.8}  # points, averaged over the domains that have enough
PULLS = (8, 12, 16, 24, 32, 48)
CARRYING = ("abalone", "banknote", "magic", "transfusion", "wine_red", "wine_white")
CARRY_SPLITS, CARRY_DRAWS = 5, 4
OTHER_SPLITS, OTHER_DRAWS = range(11, 16), 4  # which the search was not tuned on


def enough(size, epsilon):
    return size["train"] * epsilon / (size["columns"] + 1)


def errors_by_domain(folder, jobs, again):
    """Mean errors of both methods, for each domain and epsilon."""
    wanted = [
        Cell(method, "", domain, epsilon, split)
        for method in (PUBLIC, PRIVATE)
        for domain in DOMAINS
        for epsilon in WANTED
        for split in SPLITS
    ]
    if again:
        cells.forget(wanted, folder)
    cells.run(wanted, folder, jobs, "public and private bounds")
    sizes = {}
    for name in DOMAINS:
        m, d = tables.load(folder, name).x.shape
        sizes[name] = {"rows": m, "train": len(tables.split_rows(m, 1)[0]), "columns": d}
    return sizes, utility.summary(wanted, folder)


def both_errors(domain, train, test, epsilon, draws):
    """Mean errors with public and with private bounds, in turns."""
    errors = []
    for _ in range(draws):
        learned = [release_and_learn(domain, train, epsilon, **bounds)[1] for bounds in ({}, {"bounds": "private"})]
        errors.append([percent_wrong(one.predict(domain.x[test]), domain.signs[test]) for one in learned])
    return np.mean(errors, axis=0)


def errors_on_other_splits(folder, domains):
    """Both errors for the domains that have enough rows, on splits that nothing was tuned on."""
    found = []
    for epsilon in WANTED:
        for name in [name for name, size in domains.items() if enough(size, epsilon) >= ENOUGH]:
            domain = tables.load(folder, name)
            errors = [
                both_errors(domain, *tables.split_rows(len(domain.x), split), epsilon, OTHER_DRAWS)
                for split in OTHER_SPLITS
            ]
            public, private = (round(float(error), 4) for error in np.mean(errors, axis=0))
            found.append({"domain": name, "epsilon": epsilon, "public": public, "private": private})
            print(found[-1], flush=True)
    return found


def rows_for(pull, n_columns):
    """How many rows have this pull at epsilon 1: see `check_rows_carry`."""
    mechanism = rb.Moments(1.0, DELTA)
    mu = mechanism.distance(NoiseShape(n_columns + 1, n_columns))
    return round(pull / (mu * math.sqrt(mechanism.bounds_share / n_columns)))


def costs_of_few_rows(folder):
    """Both errors, of ever larger parts of each domain."""
    found = []
    for name in CARRYING:
        domain = tables.load(folder, name)
        n_columns = domain.x.shape[1]
        for pull in PULLS:
            n_rows = rows_for(pull, n_columns)
            splits = [tables.split_rows(len(domain.x), split) for split in range(1, CARRY_SPLITS + 1)]
            if n_rows > len(splits[0][0]):
                break
            errors = [both_errors(domain, train[:n_rows], test, 1.0, CARRY_DRAWS) for train, test in splits]
            public, private = (round(float(error), 4) for error in np.mean(errors, axis=0))
            found.append({"domain": name, "pull": pull, "rows": n_rows, "public": public, "private": private})
            print(found[-1], flush=True)
    return found


# ---- what it says


def gaps(results, epsilon):
    """By domain: public, private, the difference in points, its standard error, and rows * epsilon / columns."""
    rows = {(row["method"], row["domain"]): row for row in results["errors"] if row["epsilon"] == epsilon}
    found = {}
    for name, size in results["domains"].items():
        public, private = rows[PUBLIC, name], rows[PRIVATE, name]
        apart = np.subtract(private["splits"], public["splits"])
        spread = float(np.std(apart, ddof=1) / math.sqrt(len(apart)))
        found[name] = (public["error"], private["error"], float(apart.mean()), spread, enough(size, epsilon))
    return found


def aims(results):
    """For each epsilon: the domains that have enough rows, the mean difference there, and what it may be."""
    for epsilon, most in WANTED.items():
        large = {name: gap for name, (_, _, gap, _, size) in gaps(results, epsilon).items() if size >= ENOUGH}
        yield epsilon, large, float(np.mean(list(large.values()))), most


def other_mean(results, epsilon):
    """The mean difference on other splits."""
    return float(np.mean([row["private"] - row["public"] for row in results["others"] if row["epsilon"] == epsilon]))


def not_seen(results):
    return [
        f"private bounds at epsilon {epsilon:g}: {mean:+.2f} points over {', '.join(large)}, and {most} are allowed"
        for epsilon, large, mean, most in aims(results)
        if max(mean, other_mean(results, epsilon)) > most
    ]


def rendered(results):
    """The page with the parts that are from here."""
    return fill_page(PAGE, generated(results), TABLES)


def generated(results):
    """The parts that are from here, by name."""
    head = ["domain", "epsilon", "rows * epsilon / (columns + 1)", "public quantiles", "private bounds", "difference"]
    lines = []
    for epsilon in sorted(WANTED):
        for name, (public, private, gap, spread, size) in gaps(results, epsilon).items():
            name = f"**{name}**" if size >= ENOUGH else name
            difference = f"{signed(gap, 1)} ± {spread:.1f}"
            lines.append([name, f"{epsilon:g}", f"{size:,.0f}", f"{public:.1f}", f"{private:.1f}", difference])
    words = []
    for epsilon, large, mean, most in sorted(aims(results)):
        seen = "Seen" if mean <= most else "**Not seen**"
        words.append(
            f"- {seen}: at epsilon {epsilon:g} private bounds cost at most {most} points over the domains with enough "
            f"rows\n  ({', '.join(large)}): {signed(mean, 2)}. On splits that nothing was tuned on: "
            f"{signed(other_mean(results, epsilon), 2)}."
        )
    few, few_words = [], []
    for pull in PULLS:
        costs = [row["private"] - row["public"] for row in results["few_rows"] if row["pull"] == pull]
        few_words.append(f"{pull}: {spans(costs)}")
        few.append([pull, len(costs), *(signed(value, 1) for value in (float(np.mean(costs)), min(costs), max(costs)))])
    few_head = [f"pull (below {LEAST_PULL:g} it is refused)", "domains", "mean cost in points", "least", "most"]
    return {
        "private bounds": table(head, lines),
        "private bounds, aims": "\n".join(words),
        "few rows": table(few_head, few, left=0),
        "few rows in words": f"{'; '.join(few_words)}. Below {LEAST_PULL:g} it is refused.",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RADO_DATA"), help="folder of the domains [RADO_DATA]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [cores]")
    parser.add_argument("--again", action="store_true", help="forget what was kept")
    parser.add_argument("--report", action="store_true", help="run nothing: the page from the results")
    options = parser.parse_args()
    if options.report:
        results = json.loads((RESULTS / "private_bounds.json").read_text())["results"]
    else:
        if not options.data:
            raise SystemExit("where are the domains? give --data, or set RADO_DATA")
        domains, errors = errors_by_domain(options.data, options.jobs, options.again)
        protocol = {"neighbours": "one record added or removed", "delta": DELTA, "quantiles": tables.QUANTILES}
        results = {"protocol": protocol, "domains": domains, "errors": errors}
        results["others"] = errors_on_other_splits(options.data, domains)
        results["few_rows"] = costs_of_few_rows(options.data)
        keep("private_bounds", results)
    write_pages(PAGE, TABLES, generated(results))
    for epsilon, large, mean, most in aims(results):
        print(f"epsilon {epsilon:g}: {mean:+.2f} points over {', '.join(large)}; wanted: at most {most}")
    shortfalls(not_seen(results))


if __name__ == "__main__":
    main()
