"""Claim against audit for every mechanism that promises something, at epsilon 1 and 4 and delta 1e-6.

    python benchmarks/audits.py                  all of it: some hours
    python benchmarks/audits.py --only degree-2   what has this in its name, or is called just that; may be repeated
    python benchmarks/audits.py --epsilons 4     at one epsilon alone
    python benchmarks/audits.py --runs 24000     with so many runs of either table

Confidence 1 - 1e-6. At epsilon 1 it takes 60,000 runs of either table, some minutes of a core; at epsilon 4 5,000; two
audits at a time, each on one thread. What is found is kept as it comes, beside what was found before. Exits with 1
where an audit proves more than is claimed, or less than 60 % of it.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed

from threadpoolctl import threadpool_limits

import radoboost as rb
from measuring import RESULTS, keep, shortfalls
from radoboost.lab.audits.audit import audit

RUNS = {1.0: 60_000, 4.0: 5_000}
RUNS_REPLACED = {1.0: 140_000, 4.0: 13_000}  # no pair of records moves sums and second moments most
LEAST_SHARE = 0.6
N_CLASSES = 5  # of tables with more than two
PLANS = {word: {"columns": word} for word in ("degree-2", "degree-4", "degree-8")}
RELATIONS = {"record": {}, "label": {"unit": "label"}, "record replaced": {"relation": "replace"}}


def cases(epsilon):
    """Name, mechanism and options of each audit."""
    yield "noisy-rados", rb.NoisyRados(epsilon), {}
    yield "noisy-examples, edge vectors", rb.NoisyExamples(epsilon), {}
    yield "feature-band, one rado", rb.FeatureBand("x", epsilon), {}
    for what, fields in RELATIONS.items():
        mechanism = rb.Moments(epsilon, **fields)
        yield f"moments, {what}", mechanism, {"columns": "linear"}
        yield f"moments, {what}, not sharpened", rb.Moments(epsilon, sharpen=False, **fields), {"columns": "linear"}
        for plan, options in PLANS.items():
            yield f"moments, {what}, {plan}", mechanism, options
        if what in ("record", "label"):
            yield f"moments, {what}, raw", mechanism, {"raw": True}  # a row with a category and a gap, by a schema
        for plan, options in {"": {"columns": "linear"}, **PLANS}.items():
            name = f"moments, {what}, {N_CLASSES} classes" + (f", {plan}" if plan else "")
            yield name, mechanism, {**options, "n_classes": N_CLASSES}
    yield "moments, record, private bounds", rb.Moments(epsilon), {"private_bounds": True, "columns": "linear"}


def run(name, epsilon, mechanism, options, runs=None):
    runs = runs or (RUNS_REPLACED if "replaced" in name else RUNS)[epsilon]
    with threadpool_limits(limits=1):
        found = audit(mechanism, runs=runs, **options).to_dict()
    return {"what": name, "asked_epsilon": epsilon, **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append")
    parser.add_argument("--epsilons", default="1,4")
    parser.add_argument("--runs", type=int)
    asked = parser.parse_args()
    place = RESULTS / "audits.json"
    before = json.loads(place.read_text())["results"] if place.exists() else []
    kept = {(one["what"], one.get("asked_epsilon", round(one["claim"]))): one for one in before}
    done = []
    order = [(name, epsilon) for epsilon in RUNS for name, _, _ in cases(epsilon)]
    names = {name for name, _ in order}
    wanted = {name for only in asked.only or [""] for name in ({only} & names or {one for one in names if only in one})}
    print(f"{'mechanism':<52}{'claimed':>9}{'proved':>9}{'share':>8}   neighbours")
    with ProcessPoolExecutor(2) as pool:
        futures = [
            pool.submit(run, name, epsilon, mechanism, options, asked.runs)
            for epsilon in map(float, asked.epsilons.split(","))
            for name, mechanism, options in cases(epsilon)
            if name in wanted
        ]
        for future in as_completed(futures):
            found = future.result()
            done.append(found)
            kept[found["what"], found["asked_epsilon"]] = found
            keep("audits", [kept[key] for key in order if key in kept])
            share = f"{100 * found['found'] / found['claim']:.0f} %"
            print(
                f"{found['what']:<52}{found['claim']:>9.4f}{found['found']:>9.4f}{share:>8}   {found['neighbours']}",
                flush=True,
            )
    shortfalls(
        [
            f"{one['what']}: an audit proves epsilon {one['found']:.4f}, and {one['claim']:.4f} is claimed"
            for one in done
            if not (one["holds"] and one["found"] >= LEAST_SHARE * one["claim"])
        ]
    )


if __name__ == "__main__":
    main()
