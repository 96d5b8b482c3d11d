"""Claim against audit for every mechanism that promises something, at epsilon 1 and 4 and delta 1e-6.

    python benchmarks/audits.py

Confidence 1 - 1e-6. At epsilon 1 it takes 60,000 runs of either table, at epsilon 4 6,000; two audits at a time. Exits
with 1 where an audit proves more than is claimed.
"""

from concurrent.futures import ProcessPoolExecutor

import radoboost as rb
from measuring import keep, shortfalls
from radoboost.adversary.audits import audit

RUNS = {1.0: 60_000, 4.0: 6_000}


def mechanisms(epsilon):
    yield "noisy-rados", rb.NoisyRados(epsilon)
    yield "noisy-examples, edge vectors", rb.NoisyExamples(epsilon)
    yield "feature-band, one rado", rb.FeatureBand("x", epsilon)
    for unit in ("record", "label"):
        yield f"moments, {unit}", rb.Moments(epsilon, unit=unit)
        yield f"moments, {unit}, not sharpened", rb.Moments(epsilon, unit=unit, sharpen=False)
    yield "moments, record, private bounds", rb.Moments(epsilon)


def run(case):
    name, mechanism, runs = case
    return {"what": name, **audit(mechanism, runs=runs, private_bounds=name.endswith("private bounds")).to_dict()}


def main():
    cases = [(name, mechanism, runs) for epsilon, runs in RUNS.items() for name, mechanism in mechanisms(epsilon)]
    results = []
    print(f"{'mechanism':<32}{'claimed':>9}{'proved':>9}{'share':>8}   neighbours")
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(run, cases):
            results.append(found)
            share = f"{100 * found['found'] / found['claim']:.0f} %"
            print(
                f"{found['what']:<32}{found['claim']:>9.4f}{found['found']:>9.4f}{share:>8}   {found['neighbours']}",
                flush=True,
            )
    keep("audits", results)
    shortfalls(
        [
            f"{one['what']}: an audit proves epsilon {one['found']:.4f}, and {one['claim']:.4f} is claimed"
            for one in results
            if not one["holds"]
        ]
    )


if __name__ == "__main__":
    main()
