"""Claim against audit for every mechanism that promises something, at epsilon 1 and 4 and delta 1e-6.

    python benchmarks/audits.py

Confidence 1 - 1e-6. Noise at epsilon 1 takes 60,000 runs of either table, at epsilon 4 6,000.
"""

import radoboost as rb
from measuring import keep
from radoboost.audits import audit

RUNS = {1.0: 60_000, 4.0: 6_000}


def main():
    results = []
    print(f"{'mechanism':<16}{'claimed':>9}{'proved':>9}{'share':>8}   neighbours")
    for epsilon, runs in RUNS.items():
        for mechanism in (rb.NoisyRados(epsilon), rb.NoisyExamples(epsilon), rb.FeatureBand("x", epsilon)):
            found = audit(mechanism, runs=runs)
            results.append(found.to_dict())
            share = f"{100 * found.found / found.claim:.0f} %"
            print(
                f"{found.mechanism:<16}{found.claim:>9.4f}{found.found:>9.4f}{share:>8}   {found.neighbours}",
                flush=True,
            )
            assert found.holds
    keep("audits", results)


if __name__ == "__main__":
    main()
