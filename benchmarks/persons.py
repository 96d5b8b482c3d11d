"""The attack on a whole person in a table of visits, with and without a bound on the rows of a person.

    python benchmarks/persons.py [--epsilon 4] [--max-rows 4] [--runs 300]

The table is made up from a seed: 20,000 people with 1 to 40 visits each, and a canary with 40 identical rows. With the
bound the attack must prove no more than the statement says, about one person; without it, the same attack on a release
of the same table must prove more than its statement says about one record. Confidence 1 - 1e-6. Exits with 1 otherwise.
"""

import argparse

import radoboost as rb
from measuring import keep, shortfalls
from radoboost.adversary.person_audit import audit_person, many_visits
from radoboost.progress import show_progress

RUNS_WITHOUT = 100  # enough, since the canary is then in plain sight


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--max-rows", type=int, default=4)
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    visits, mechanism = many_visits(), rb.Moments(options.epsilon)
    results, short = [], []
    cases = {"at most {} rows of a person": (options.max_rows, options.runs), "no bound": (None, RUNS_WITHOUT)}
    for name, (max_rows, runs) in cases.items():
        with show_progress("runs") as bar:
            found = audit_person(mechanism, visits, max_rows, runs=runs, key=b"benchmarks/persons", bar=bar)
        what = name.format(options.max_rows)
        table = {"people": 20_000, "rows": len(visits.people), "canary_rows": visits.times}
        results.append({"what": what, **table, **found.to_dict()})
        print(f"{what:<32} claimed {found.claim:.4f} for {found.neighbours}, proved {found.found:.4f}", flush=True)
        if found.holds != (max_rows is not None):
            short.append(f"{what}: epsilon {found.found:.4f} is proved, and {found.claim:.4f} claimed")
    keep("persons", results)
    shortfalls(short)


if __name__ == "__main__":
    main()
